"""The paths components: which nodes a round makes, and from which parents."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ...base.errors import ToolError
from .data import Expansion, Plan
from .graph import Graph, Node
from .schedulers import drawn, known, pick, puct, rewards

NO_PROGRAM = ("unanswered", "no_code")  # problems without a program to repair


def repairable(graph: Graph, node: Node, plan: Plan, debug_depth: int) -> bool:
    """Whether the node may be repaired: it has a program, but no score and no children, the plan allows repairs, and
    fewer than `debug_depth` repairs in a row led to it.
    """
    broken = node.score is None and node.problem not in NO_PROGRAM
    return plan.repairs and broken and node.repairs < debug_depth and not graph.children(node.number)


def repair(graph: Graph, plan: Plan, rng: random.Random, probability: float, debug_depth: int) -> Expansion | None:
    """With `probability` the repair of a repairable node, drawn uniformly; None: no repair in this round."""
    failed = [node for node in graph.nodes if repairable(graph, node, plan, debug_depth)]
    if failed and rng.random() < probability:
        return Expansion("debug", (rng.choice(failed).number,))
    return None


@dataclass(frozen=True)
class Chain:
    """MLE-STAR (Nam et al., 2025) as in R&D-Agent's table 1, and R&D-Agent's ablation without parallel exploration: a
    draft, then always a step from the newest node.

    A failed newest node is repaired, if the plan allows it, up to `debug_depth` times in a row. Otherwise the newest
    node with a score is improved, even if an earlier one is better; without one there is another draft. One node a
    round. Not covered: MLE-STAR's choice of the code block to change.
    """

    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        if graph.nodes and repairable(graph, graph.nodes[-1], plan, self.debug_depth):
            return [Expansion("debug", (graph.nodes[-1].number,))]
        for node in reversed(graph.nodes):
            if node.score is not None:
                return [Expansion("improve", (node.number,))]
        return [Expansion("draft")]


@dataclass(frozen=True)
class Greedy:
    """AIDE (Jiang et al., 2025): drafts, then random repairs or an improvement of the best node. One node a round.

    drafts: number of first nodes, working or not. debug_probability: of repairing a failed leaf, if there is one.
    debug_depth: maximum number of repairs in a row. If no node has a score and none is repaired, there is another
    draft.
    """

    drafts: int = 5
    debug_probability: float = 0.5
    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        if self._drafting(graph):
            return [Expansion("draft")]
        repaired = repair(graph, plan, rng, self.debug_probability, self.debug_depth)
        if repaired is not None:
            return [repaired]
        best = graph.best()
        return [Expansion("draft") if best is None else Expansion("improve", (best.number,))]

    def _drafting(self, graph: Graph) -> bool:
        return sum(node.operation == "draft" for node in graph.nodes) < self.drafts


@dataclass(frozen=True)
class GreedyMerge(Greedy):
    """KompeteAI (Kulibaba et al., 2025) as in R&D-Agent's table 1: Greedy with merges of the two best branches.

    merge_every: number of nodes between merges, or between the first `drafts` drafts and the first merge. A merge joins
    the best nodes of the two best branches, the better one first, and waits until two branches have a score. It belongs
    to the branch of its first parent, and is repaired like other nodes.
    """

    merge_every: int = 5

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        if not self._drafting(graph) and self._since(graph) >= self.merge_every:
            bests = graph.branch_bests()
            if len(bests) > 1:
                return [Expansion("merge", (bests[0].number, bests[1].number))]
        return super().select(graph, plan, rng)

    def _since(self, graph: Graph) -> int:
        """Number of nodes after the last merge, or after the first drafts."""
        drafts, since = 0, 0
        for node in graph.nodes:
            drafting = drafts < self.drafts
            drafts += node.operation == "draft"
            since = 0 if drafting or node.operation == "merge" else since + 1
        return since


@dataclass(frozen=True)
class Evolution:
    """AIRA-evo (Toledo et al., 2025): drafts, then crossovers and mutations of the fittest, one node a round.

    population: number of first drafts, and of best nodes from which parents are drawn. crossover_probability: of a
    crossover of two different parents in a round without a repair; otherwise, or if only one node has a score, one
    parent is improved. Parents are drawn in proportion to their fitness, the rank in the population from 1 for the
    worst (see rewards): for five different scores 5/15, 4/15, ..., 1/15; the second parent from the rest. The branch
    of the first parent continues. debug_probability, debug_depth: see Greedy. If no node has a score and none is
    repaired, there is another draft. Not covered: generations and age; the population is the best of all nodes so far.
    """

    population: int = 5
    crossover_probability: float = 0.5
    debug_probability: float = 0.5
    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        if sum(node.operation == "draft" for node in graph.nodes) < self.population:
            return [Expansion("draft")]
        repaired = repair(graph, plan, rng, self.debug_probability, self.debug_depth)
        if repaired is not None:
            return [repaired]
        fitness = rewards(graph, graph.ranked()[: self.population])
        if not fitness:
            return [Expansion("draft")]
        if len(fitness) > 1 and rng.random() < self.crossover_probability:
            return [Expansion("crossover", tuple(drawn(fitness, 2, rng)))]
        return [Expansion("improve", tuple(drawn(fitness, 1, rng)))]


@dataclass(frozen=True)
class Mcts:
    """ML-Master (Liu et al., 2025) and AIRA-MCTS (Toledo et al., 2025), with PUCT in place of their UCT. A node is both the
    expansion and the rollout of a step; visits and values are computed from the graph each time.

    From the root, whose N is the number of all nodes, the search descends to the option with the largest
        U = Q + c P sqrt(N) / (1 + n),
    of equal ones the first. A node's options are its open children, and a new child, which ends the descent. A child is
    open if its subtree can get a new node. n: size of the option's subtree, 0 for a new child; Q: its mean reward (see
    rewards), 0 for a new child; N: size of the parent's subtree; P: 1 / number of options.

    c: weight of exploration. drafts: children of the root; more only if none is open. children: maximum number of
    improvements of a node with a score. debug_depth: maximum number of repairs in a row; a failed node has one child,
    its repair. The tree is that of first parents. One node a round; no randomness.
    """

    c: float = 1.0
    drafts: int = 3
    children: int = 3
    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        below: list[list[int]] = [[] for _ in graph.nodes]
        roots: list[int] = []
        for node in graph.nodes:
            (below[node.parents[0]] if node.parents else roots).append(node.number)
        reward = rewards(graph, graph.nodes)
        visits, values = [1] * len(graph), [reward.get(number, 0.0) for number in range(len(graph))]
        expandable = [self._expandable(graph, node, plan, len(below[node.number])) for node in graph.nodes]
        is_open = list(expandable)
        for node in reversed(graph.nodes):  # children come after their parents
            if node.parents:
                parent = node.parents[0]
                visits[parent] += visits[node.number]
                values[parent] += values[node.number]
                is_open[parent] = is_open[parent] or is_open[node.number]

        at, around, options = None, len(graph), [number for number in roots if is_open[number]]
        may_expand = len(roots) < self.drafts or not options
        while True:
            prior = 1 / (len(options) + may_expand)
            reached, best = None, puct(0.0, prior, around, 0, self.c) if may_expand else -math.inf
            for number in reversed(options):  # of equal ones the first, and a child before a new one
                merit = puct(values[number] / visits[number], prior, around, visits[number], self.c)
                if merit >= best:
                    reached, best = number, merit
            if reached is None:
                return [_below(graph, at)]
            at, around, may_expand = reached, visits[reached], expandable[reached]
            options = [number for number in below[reached] if is_open[number]]

    def _expandable(self, graph: Graph, node: Node, plan: Plan, children: int) -> bool:
        """Whether the node may get a new child."""
        if node.score is None:
            return repairable(graph, node, plan, self.debug_depth)
        return children < self.children


def _below(graph: Graph, at: int | None) -> Expansion:
    if at is None:
        return Expansion("draft")
    return Expansion("debug" if graph[at].score is None else "improve", (at,))


@dataclass(frozen=True)
class Adaptive:
    """R&D-Agent (section 3.3, exploration path structuring): several branches at once, greedy within each, pruning, and a
    merge at the end. `branches` drafts in the first round, and then:

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
       to 4 apply. Where workers begin nodes one by one, a merge comes first, unless one is under way or was made of
       the same nodes, and rules 1 to 4 apply beside it: a merge is the newest node of its first parent's branch, and is
       improved if it is the best there.

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
        if merge is not None and plan.under_way is None:
            return [merge]
        merges = [merge] if merge is not None and self._is_new(graph, plan, merge) else []
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
        return merges + [Expansion("draft")] * drafts + [steps[number] for number in picked]

    def _is_new(self, graph: Graph, plan: Plan, merge: Expansion) -> bool:
        """Whether it is a merge, none is under way, and none was made of the same nodes. Repairs are the branch's."""
        made = {node.parents for node in graph.nodes if node.operation == "merge"}
        if merge.operation != "merge" or merge.parents in made:
            return False
        return all(other.operation != "merge" for other in plan.under_way or ())

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
