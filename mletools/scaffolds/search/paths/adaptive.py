"""R&D-Agent's adaptive graph: several branches at once, greedy within each, pruning, and a merge at the end."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ....records.errors import ToolError
from ..graph import Graph, Node
from ..interfaces import Expansion, Plan
from .greedy import repairable
from .schedulers import known, pick


@dataclass(frozen=True)
class Adaptive:
    """R&D-Agent (section 3.3, exploration path structuring): `branches` drafts in the first round, and then:

    1. A branch continues from its best node (improve), or repairs its newest node (debug) if that failed, the plan
       allows repairs, and fewer than `debug_depth` repairs in a row led to it.
    2. A branch is dead if its last `patience` nodes have no score, or if it has no score and nothing to repair.
    3. Pruning: at the used share s of the budget, only the best live branches continue, by best score, branches without
       a score last, of equal ones the older. With W = branches - keep, their number is
           branches                                                                  while s <= prune_from,
           max(keep, branches - 1 - floor(W (s - prune_from) / (1 - prune_from)))    later:
       one is dropped at prune_from and the others one by one in even steps. If one dies, the next best replaces it.
    4. Until prune_from, a draft replaces a dead branch that never had a score. Later, or for other branches, only if no
       branch is live. Drafts come first in a round; the scheduler picks different branches for the rest of `at_once`.
    5. In the stage "merge" a round is one merge of the best nodes of the branches, dead or not, best first, at most
       `merge_width`; or the repair of a failed newest merge, as in 1. If fewer than two branches have a score, rules 1
       to 4 apply.

    scheduler: round-robin, probabilistic, length, best, random or mcts (see schedulers). The paper gives neither the
    number of branches nor the rule of pruning; patience is the release's number of errors in a row.
    ToolError: an unknown scheduler, or constants that are too small.
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

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
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
        order = list(dict.fromkeys([*(node.branch for node in graph.ranked(bests)), *steps]))
        picked = pick(graph, order[: self._most_branches(plan.share)], self.at_once - drafts, rng, self.scheduler)
        return [Expansion("draft")] * drafts + [steps[number] for number in picked]

    def _step(self, graph: Graph, plan: Plan, nodes: Sequence[Node], best: Node | None) -> Expansion | None:
        """The branch's next node; None: it is dead."""
        if len(nodes) >= self.patience and not graph.good(nodes[-self.patience :]):
            return None
        if repairable(graph, nodes[-1], plan, self.debug_depth):
            return Expansion("debug", (nodes[-1].number,))
        return None if best is None else Expansion("improve", (best.number,))

    def _most_branches(self, share: float) -> int:
        """Number of live branches to continue; see 3."""
        if share <= self.prune_from:
            return self.branches
        passed = min(1.0, (share - self.prune_from) / max(1 - self.prune_from, 1e-9))
        return max(self.keep, self.branches - 1 - math.floor((self.branches - self.keep) * passed))

    def _merge(self, graph: Graph, plan: Plan) -> Expansion | None:
        """See 5; None: fewer than two branches have a score."""
        bests = graph.branch_bests()
        if len(bests) < 2:
            return None
        origin = newest = graph.nodes[-1]
        while origin.operation == "debug":
            origin = graph[origin.parents[0]]
        if origin.operation == "merge" and repairable(graph, newest, plan, self.debug_depth):
            return Expansion("debug", (newest.number,))
        return Expansion("merge", tuple(node.number for node in bests[: self.merge_width]))
