"""The memory components: which earlier nodes are shown to research, and the lesson of a new node."""

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ... import prompts
from ...base import difference
from ...base.errors import ToolError
from ..messages import fenced
from .data import Expansion, Lesson, Similar, Unanswered
from .graph import Details, Graph, Node
from .node_context import NodeContext
from .replies import Reading, fields_in
from .schedulers import drawn
from .sections import (
    MOST_LESSON,
    MOST_TEXT,
    NOT_SHOWN,
    experiment_line,
    failure,
    outcome,
    own_branch,
    plain,
    printed_by,
    program_of,
)
from .similarity import bm25

GAMMA = math.log(2) / 30  # the released code's: similarity counts half on a path of 30 nodes
BOUND = 2.0
POOLS = ("all", "best")  # of Kernel
WAYS = ("bm25", "embedding")  # of Retrieval
_EXCEPTION = re.compile(r"\b([A-Z]\w*(?:Error|Exception|Exit|Interrupt))\b")
MOST_CHANGES = 6000  # characters
MOST_LINES = 1500  # of programs that are compared by lines, which can take time in proportion to their product


def potential(
    similarity: float, length: int, delta: float, alpha: float = 1.0, beta: float = 1.0, gamma: float = GAMMA
) -> float:
    """U = alpha * S * exp(-gamma * L) + beta * tanh(Delta), clipped to [-2, 2] (equation 1).

    similarity: S, a cosine. length: L, nodes on the path to continue, 0 for a draft. delta: score_j - best of the
    current branch (sign flipped if lower is better), as in the released code; the paper's equation 2 is the same for
    all nodes and never positive. If the branch has no score, beta is 0.
    """
    return max(-BOUND, min(BOUND, alpha * similarity * math.exp(-gamma * length) + beta * math.tanh(delta)))


def probabilities(potentials: Sequence[float]) -> list[float]:
    """exp(U_j) / sum_k exp(U_k) (equation 1)."""
    top = max(potentials, default=0.0)
    powers = [math.exp(value - top) for value in potentials]
    total = sum(powers)
    return [power / total for power in powers]


def draw(weights: Sequence[float], count: int, rng: random.Random) -> list[int]:
    """Up to `count` distinct indices, drawn one by one in proportion to the weights of the rest.

    Weight 0 is never drawn, unless all are 0: then all are equal.
    """
    positive = {at: weight for at, weight in enumerate(weights) if weight > 0}
    return drawn(positive or dict.fromkeys(range(len(weights)), 1.0), count, rng)


@dataclass(frozen=True)
class NoMemory:
    """Recalls nothing, as AIDE. Lessons state how scores compare."""

    def recall(
        self, graph: Graph, expansion: Expansion, hypotheses: Sequence[str], similar: Similar, rng: random.Random
    ) -> list[Node]:
        return []

    def lesson(self, context: NodeContext, graph: Graph, node: Details) -> Lesson:
        return Lesson(score_lesson(graph, node))


@dataclass(frozen=True)
class Siblings(NoMemory):
    """Recalls the `most` newest children of the parents, for a draft the drafts, also failed ones (AIRA, ML-Master)."""

    most: int = 5

    def recall(
        self, graph: Graph, expansion: Expansion, hypotheses: Sequence[str], similar: Similar, rng: random.Random
    ) -> list[Node]:
        parents = set(expansion.parents)
        siblings = [node for node in graph.nodes if parents.intersection(node.parents) or not (parents or node.parents)]
        return siblings[max(0, len(siblings) - self.most) :]


@dataclass(frozen=True)
class Chain(NoMemory):
    """Recalls the `most` newest nodes of the branch but the parents, also failed ones; for a draft the drafts.

    For one chain, in which hardly any node has siblings: MLE-STAR's later steps are told the plans and results of the
    earlier ones (Nam et al., 2025).
    """

    most: int = 10

    def recall(
        self, graph: Graph, expansion: Expansion, hypotheses: Sequence[str], similar: Similar, rng: random.Random
    ) -> list[Node]:
        steps = (
            own_branch(graph, expansion) if expansion.parents else [node for node in graph.nodes if not node.parents]
        )
        steps = [node for node in steps if node.number not in expansion.parents]
        return steps[max(0, len(steps) - self.most) :]


@dataclass(frozen=True)
class Kernel:
    """The interaction kernel (R&D-Agent, appendix D.3): draws earlier nodes by `potential`, and always recalls the best
    of all. A model writes the lessons. alpha, beta, gamma: see `potential`. drawn: number of nodes that are drawn for
    each hypothesis, and that stay of all. These defaults are the released code's. pool: nodes that are drawn from. `all`
    with a score, of every branch, as in the paper; or `best`, those that were the best of their branch when they were
    made, as in the release.
    """

    alpha: float = 1.0
    beta: float = 1.0
    gamma: float = GAMMA
    drawn: int = 2
    pool: str = "all"

    def __post_init__(self) -> None:
        if self.pool not in POOLS:
            raise ToolError(f"memory kernel: pool is {' or '.join(POOLS)}, not {self.pool}")

    def recall(
        self, graph: Graph, expansion: Expansion, hypotheses: Sequence[str], similar: Similar, rng: random.Random
    ) -> list[Node]:
        """Up to `drawn` nodes, then the best of all. Without hypotheses the parent's is compared.

        Each hypothesis i draws `drawn` nodes j with the probabilities p_ij (equation 1). If these are more than `drawn`
        together, as many stay, at random; the released code keeps the oldest.
        """
        own, best = own_branch(graph, expansion), graph.best()
        pool = graph.good() if self.pool == "all" else graph.records()
        path = graph.path(expansion.parents[0]) if expansion.parents else []
        branch_best = graph.best(own)
        beta = 0.0 if branch_best is None else self.beta
        base = branch_best.score or 0.0 if branch_best else 0.0
        deltas = [graph.gain(node.score or 0.0, base) for node in pool]
        drawn_nodes: dict[int, Node] = {}
        for text in dict.fromkeys(hypotheses) or [path[-1].hypothesis if path else ""]:
            cosines = similar(text, [node.hypothesis for node in pool]) if pool and text.strip() else [0.0] * len(pool)
            potentials = [
                potential(cosine, len(path), delta, self.alpha, beta, self.gamma)
                for cosine, delta in zip(cosines, deltas, strict=True)
            ]
            drawn_nodes.update({at: pool[at] for at in draw(probabilities(potentials), self.drawn, rng)})
        recalled = list(drawn_nodes.values())
        if len(recalled) > self.drawn:
            recalled = rng.sample(recalled, self.drawn)
        return recalled if best is None or best in recalled else [*recalled, best]

    def lesson(self, context: NodeContext, graph: Graph, node: Details) -> Lesson:
        """Structured experiment analysis (appendix E.4); by the scores without a program or an answer."""
        if not node["code"]:
            return Lesson(score_lesson(graph, node))
        parts = [f"# The present program\n\n{outcome(node, graph)}\n\n{program_of(node)}"]
        if node["parents"]:
            parent = graph.details(node["parents"][0])
            changes = _changes(parent["code"], node["code"])
            changed = f" The changes:\n\n{changes}" if changes else ""
            parts.append(f"# The parent program\n\n{outcome(parent, graph)}{changed}")
        best = graph.best()
        line = "No experiment has a score yet." if best is None else experiment_line(best, graph)
        context_text = "\n\n".join([*parts, *printed_by(node), f"# The best so far\n\n{line}"])
        task, hypothesis = context.task_text, plain(node["hypothesis"], MOST_TEXT)
        prompt = prompts.render("search-lesson", task=task, hypothesis=hypothesis, context=context_text)
        try:
            return context.read("research", "search-lesson", prompt, read_lesson)
        except Unanswered:
            return Lesson(score_lesson(graph, node))


@dataclass(frozen=True)
class Retrieval(Kernel):
    """Kernel, and the nodes of the whole search, failed ones too, that suit the new hypotheses best.

    These are found by their hypotheses, lessons and failures: by BM25 (see similarity), or by the embeddings of the
    server with `by` = embedding. found: their maximum number. The lesson of a node that failed begins with the class of
    its error, so that what fails alike is found together. The retrieval is ours; MLEvolve's memory has BM25, too.
    """

    found: int = 3
    by: str = "bm25"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by not in WAYS:
            raise ToolError(f"memory retrieval: by is {' or '.join(WAYS)}, not {self.by}")

    def recall(
        self, graph: Graph, expansion: Expansion, hypotheses: Sequence[str], similar: Similar, rng: random.Random
    ) -> list[Node]:
        """Kernel's nodes, then those that are found; never the parents, which prompts show."""
        recalled = super().recall(graph, expansion, hypotheses, similar, rng)
        query = " ".join(hypotheses) or " ".join(graph[parent].hypothesis for parent in expansion.parents)
        others = [node for node in graph.nodes if node not in recalled and node.number not in expansion.parents]
        texts = [f"{node.hypothesis} {node.lesson} {node.why}" for node in others]
        values = (
            (bm25 if self.by == "bm25" else similar)(query, texts) if texts and query.strip() else [0.0] * len(others)
        )
        order = sorted(range(len(others)), key=lambda at: (-values[at], -others[at].number))
        return [*recalled, *(others[at] for at in order[: max(0, self.found)] if values[at] > 0)]

    def lesson(self, context: NodeContext, graph: Graph, node: Details) -> Lesson:
        lesson = super().lesson(context, graph, node)
        kind = error_class(node)
        return (
            lesson if kind is None else replace(lesson, text=f"[{kind}] {lesson.text or failure(node)}"[:MOST_LESSON])
        )


@dataclass(frozen=True)
class Success(NoMemory):
    """Recalls the `most` newest nodes, of all branches, that were better than all before them in their branch, and the best
    of all: the success memory of GOME (arXiv 2603.01692), which the branches share. The lessons are Kernel's.
    """

    most: int = 5

    def recall(
        self, graph: Graph, expansion: Expansion, hypotheses: Sequence[str], similar: Similar, rng: random.Random
    ) -> list[Node]:
        records, best = graph.records(), graph.best()
        newest = records[max(0, len(records) - self.most) :]
        return newest if best is None or best in newest else [best, *newest]

    def lesson(self, context: NodeContext, graph: Graph, node: Details) -> Lesson:
        return Kernel().lesson(context, graph, node)


def error_class(node: Details) -> str | None:
    """What kind of failure a node is: the limit of its last run that was reached, the name of Python's exception, or the
    node's problem; None: it did not fail.
    """
    if node["problem"] is None:
        return None
    runs = [trial.get("status") for trial in node["trials"]]
    if node["execution"] is not None:
        runs.append(node["execution"]["status"])
    last = runs[-1] if runs else None
    if node["problem"] == "slow" or last == "timeout":
        return "timeout"
    if last not in ("ok", "error", None):
        return last
    named = _EXCEPTION.search(node["why"]) if last == "error" else None
    return named.group(1) if named else node["problem"]


def score_lesson(graph: Graph, node: Details) -> str:
    """How the score of a new node compares, as scores are told; "" without a score."""
    if node["score"] is None:
        return ""
    best, parent = graph.best(), graph[node["parents"][0]] if node["parents"] else None
    if best is None:
        return "the first with a score"
    own, of_best, of_parent = (
        graph.shown_score(node),
        graph.shown_score(best),
        None if parent is None else graph.shown_score(parent),
    )
    if own is None or of_best is None:
        return NOT_SHOWN
    comparisons = []
    if of_parent is not None:
        comparisons.append(_comparison(graph.gain(own, of_parent), "its parent"))
    if graph.gain(own, of_best) > 0:
        comparisons.append("the best so far")
    elif parent is None or parent.number != best.number:
        comparisons.append(_comparison(graph.gain(own, of_best), "the best so far"))
    return ", ".join(comparisons)


def _comparison(gain: float, other: str) -> str:
    return f"as good as {other}" if gain == 0 else f"{abs(gain):g} {'better' if gain > 0 else 'worse'} than {other}"


def _changes(before: str | None, after: str) -> str:
    """The lines that differ between two programs, in a fence; "" if none do, or the programs are not compared."""
    if not before or max(before.count("\n"), after.count("\n")) > MOST_LINES:
        return ""
    old, new = (code.strip("\n").split("\n") for code in (before, after))
    lines = list(difference.hunks(old, new, 1))
    return fenced("\n".join(["--- parent", "+++ this", *lines])[:MOST_CHANGES], "diff") if lines else ""


def read_lesson(text: str, notes: Reading | None = None) -> Lesson:
    """The lesson in an answer. ValueError, worded for the model."""
    answer = fields_in(text, ("supported", "lesson"), notes)
    supported = answer.flag("supported")
    return Lesson(plain(answer.text("lesson"), MOST_LESSON), supported)
