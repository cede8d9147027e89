"""R&D-Agent's adaptive graph: diverse first branches, greed within each, pruning, and a merge at the end.

Covered: several nodes a round, each of another branch. Not covered: how the first drafts are made to differ (reasoning),
which share of the budget is which stage (planning).
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ....records.errors import ToolError
from ..graph import Graph, Node
from ..interfaces import Expansion, Plan
from ..paths.greedy import branch_bests, ranked, repairable
from ..paths.schedulers import known, pick


@dataclass(frozen=True)
class Adaptive:
    """R&D-Agent (section 3.3, exploration path structuring): `branches` drafts in the first round, and from then on:

    1. A branch goes on from its best node (improve), or repairs its newest node (debug) if that failed and fewer than
       `debug_depth` repairs in a row led to it, where the plan allows repairs.
    2. A branch is dead once its last `patience` nodes have no score, or if no node of it works and none can be repaired.
    3. Pruning: with W = branches - keep and a share s of the budget used, only the best so many live branches go on, by
       their best score, those without one last, of equals the older:
           branches                                                                  while s <= prune_from,
           max(keep, branches - 1 - floor(W (s - prune_from) / (1 - prune_from)))    from then on;
       so one is given up at prune_from and the others one by one in even steps. If one of the best dies later, the next
       one takes its place.
    4. Until prune_from, a dead branch that never worked is replaced by a draft. Later, and for one that did work, only
       where no branch is live. Drafts come first in a round; the scheduler picks different branches for what is left of
       `at_once`, fewer where there are fewer.
    5. In the stage "merge" a round is one merge of the best nodes of the branches, dead or not, best first, at most
       `merge_width`; or, if the newest node is a merge or its repair and failed, its repair as in 1. Where fewer than two
       branches work, it goes on as before.

    scheduler: round-robin, probabilistic, length, best, random or mcts (see schedulers). The paper names neither the
    number of branches nor the rule of pruning; patience is the release's number of errors in a row.
    ToolError: an unknown scheduler, or constants by which nothing could be done.
    """

    branches: int = 3
    at_once: int = 3
    scheduler: str = "mcts"
    debug_depth: int = 3
    patience: int = 5
    prune_from: float = 0.5
    keep: int = 2
    merge_width: int = 3

    def __post_init__(self) -> None:
        known(self.scheduler)
        least = {"branches": 1, "at_once": 1, "patience": 1, "keep": 1, "merge_width": 2}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise ToolError(f"{name} {getattr(self, name)}: at least {value}")

    def select(self, graph: Graph, plan: Plan, dice: random.Random) -> list[Expansion]:
        merge = self._merge(graph, plan) if plan.stage == "merge" else None
        if merge is not None:
            return [merge]
        steps, stillborn, bests = {}, 0, []
        branches = graph.branches()
        for number, nodes in branches.items():
            best = graph.best(nodes)
            step = self._step(graph, plan, nodes, best)
            if step is not None:
                steps[number] = step
                bests += [] if best is None else [best]
            stillborn += step is None and best is None
        early = plan.share <= self.prune_from
        wanted = max(0, self.branches - (len(branches) - stillborn)) if early else 0
        drafts = wanted if steps else max(1, wanted)
        order = list(dict.fromkeys([*(node.branch for node in ranked(graph, bests)), *steps]))
        picked = pick(graph, order[: self._going_on(plan.share)], self.at_once - drafts, dice, self.scheduler)
        return [Expansion("draft")] * drafts + [steps[number] for number in picked]

    def _step(self, graph: Graph, plan: Plan, nodes: Sequence[Node], best: Node | None) -> Expansion | None:
        """The branch's next node; None: it is dead."""
        if len(nodes) >= self.patience and not graph.good(nodes[-self.patience :]):
            return None
        if repairable(graph, nodes[-1], plan, self.debug_depth):
            return Expansion("debug", (nodes[-1].number,))
        return None if best is None else Expansion("improve", (best.number,))

    def _going_on(self, share: float) -> int:
        """How many live branches are gone on with; see 3."""
        if share <= self.prune_from:
            return self.branches
        passed = min(1.0, (share - self.prune_from) / max(1 - self.prune_from, 1e-9))
        return max(self.keep, self.branches - 1 - math.floor((self.branches - self.keep) * passed))

    def _merge(self, graph: Graph, plan: Plan) -> Expansion | None:
        """See 5; None: fewer than two branches work."""
        bests = branch_bests(graph)
        if len(bests) < 2:
            return None
        made = newest = graph.nodes[-1]
        while made.operation == "debug":
            made = graph[made.parents[0]]
        if made.operation == "merge" and repairable(graph, newest, plan, self.debug_depth):
            return Expansion("debug", (newest.number,))
        return Expansion("merge", tuple(node.number for node in bests[: self.merge_width]))
