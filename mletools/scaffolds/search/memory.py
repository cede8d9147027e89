"""What a search remembers: which earlier nodes the research is told of, how they are told, and what is learnt from one.

Covered: no memory, the siblings of a node (AIRA, ML-Master), the probabilistic interaction kernel over all branches
(R&D-Agent, appendix D.3.1), a lesson from the scores alone or from a model's analysis. Not covered: how similar texts are
(similarity), what becomes of what is recalled (reasoning).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ... import prompts
from ...records import difference
from ..facts import split_told, tell
from ..observations import text_of
from ..quoting import fenced
from . import kernel
from .interfaces import Expansion, Question, Unanswered
from .replies import json_in
from .replies import text_of as text_field

if TYPE_CHECKING:
    from mletools.scaffolds.search.graph import Graph, Node
    from mletools.scaffolds.search.node_context import NodeContext

Similar = Callable[[str, Sequence[str]], list[float]]
MOST_HYPOTHESIS, MOST_LESSON = 600, 400  # characters of each in a line
MOST_TEXT = 2000  # characters of a hypothesis where it is told whole
MOST_PROGRAM, MOST_PROGRAMS = 20_000, 40_000  # characters of a program in a prompt of the research; of several together
MOST_PRINTED, MOST_CHANGES = 4000, 6000
MOST_LINES = 1500  # of a program that is compared with another line by line, which can take their product


# --- how nodes are told -------------------------------------------------------------------------------------------


def plain(text: str, most: int) -> str:
    """A text of an agent as one line of at most `most` characters, without halves of surrogate pairs."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    line = " ".join(whole.split())
    return line if len(line) <= most else f"{line[: most - 3].rstrip()}..."


def experiment_line(node: "Node") -> str:
    """A node in a line of a list: its number, hypothesis, score or problem, and its lesson."""
    result = f"score {node.score:g}" if node.score is not None else f"failed: {node.problem or 'no_score'}"
    lesson = f" ({plain(node.lesson, MOST_LESSON)})" if node.lesson.strip() else ""
    return f"- experiment {node.number}: {plain(node.hypothesis, MOST_HYPOTHESIS)} -> {result}{lesson}"


def program_of(details: Mapping[str, Any], most: int = MOST_PROGRAM) -> str:
    """A node's program in a fence; its middle is left out where it is too long to be told whole."""
    code = (details["code"] or "").strip("\n")
    if len(code) > most:
        code = f"{code[: most // 2]}\n# [... {len(code) - most} characters left out ...]\n{code[-(most - most // 2) :]}"
    return fenced(code, "python")


def printed_by(details: Mapping[str, Any], most: int = MOST_PRINTED) -> str:
    """Head and tail of what a node's program printed, in a fence; "" where there was no run."""
    execution = details["execution"]
    if execution is None:
        return ""
    outputs = [text_of(execution[name], most // 2) for name in ("stdout", "stderr")]
    return fenced("\n".join(text for text in outputs if text) or "(nothing)")


def outcome(details: Mapping[str, Any], lower_is_better: bool) -> str:
    """What a node came to, in a sentence: its score, which is what the search goes by, or its problem."""
    if details["score"] is not None:
        return f"Its score: {details['score']:g} ({'lower' if lower_is_better else 'higher'} is better)."
    verdict = details.get("validation")
    why = f" {plain(verdict['reason'], 300)}" if verdict is not None and not verdict["valid"] else ""
    return f"It failed: {details['problem'] or 'no_score'}.{why}"


def own_branch(graph: "Graph", expansion: Expansion) -> list["Node"]:
    """The nodes of the branch that an expansion goes on with, its first parent's; of a draft there are none."""
    if not expansion.parents:
        return []
    return [node for node in graph.nodes if node.branch == graph[expansion.parents[0]].branch]


def parents_told(question: Question) -> list[str]:
    """The sections of a prompt on the programs that an expansion begins from: with what it printed where it is one."""
    lower, parents = question.graph.lower, question.parents
    if len(parents) == 1:
        (parent,) = parents
        summary = f"{_came(parent)}\n\n{outcome(parent, lower)}{_took(parent, question.plan.full_seconds)}"
        sections = [f"# The present program\n\n{summary}\n\n{program_of(parent)}"]
        printed = printed_by(parent)
        return [*sections, f"# What it printed\n\n{printed}"] if printed else sections
    return [
        f"# Program {at}\n\n{_came(parent)}\n\n{outcome(parent, lower)}\n\n{program_of(parent, MOST_PROGRAMS // len(parents))}"
        for at, parent in enumerate(parents, 1)
    ]


def _came(parent: Mapping[str, Any]) -> str:
    return f"It came of this idea: {plain(parent['hypothesis'], MOST_TEXT)}"


def _took(parent: Mapping[str, Any], most: float) -> str:
    """How long a run took, in tenths of what it may take: measured times differ, and what is asked should not."""
    if parent["execution"] is None:
        return ""
    tenths = int(10 * parent["execution"]["duration_s"] / most)
    return (
        f" It ran for {'less than a tenth' if tenths < 1 else f'about {tenths} tenths'} of the time that it may take."
    )


# --- lessons ------------------------------------------------------------------------------------------------------


def mechanical_lesson(graph: "Graph", node: Mapping[str, Any]) -> str:
    """What the scores alone say of a node that is about to be added; "" where it has none."""
    if node["score"] is None:
        return ""
    best, parent = graph.best(), graph[node["parents"][0]] if node["parents"] else None
    if best is None or best.score is None:
        return "the first with a score"
    sentences = []
    if parent is not None and parent.score is not None:
        sentences.append(_compared(graph.gain(node["score"], parent.score), "its parent"))
    if graph.gain(node["score"], best.score) > 0:
        sentences.append("the best so far")
    elif parent is None or parent.number != best.number:
        sentences.append(_compared(graph.gain(node["score"], best.score), "the best so far"))
    return ", ".join(sentences)


def _compared(gain: float, other: str) -> str:
    return f"as good as {other}" if gain == 0 else f"{abs(gain):g} {'better' if gain > 0 else 'worse'} than {other}"


def _changes(before: str | None, after: str) -> str:
    """The lines that differ between two programs, in a fence; "" where there is nothing to compare."""
    if not before or max(before.count("\n"), after.count("\n")) > MOST_LINES:
        return ""
    old, new = (code.strip("\n").split("\n") for code in (before, after))
    lines = list(difference.hunks(old, new, 1))
    return fenced("\n".join(["--- parent", "+++ this", *lines])[:MOST_CHANGES], "diff") if lines else ""


def read_lesson(text: str) -> str:
    """The lesson of an answer. ValueError, in words for the model, for anything that is not what was asked for."""
    answer = json_in(text, dict)
    if not isinstance(answer.get("supported"), bool):
        raise ValueError('"supported" has to be true or false')
    return plain(text_field(answer, "lesson"), MOST_LESSON)


def _lesson_prompt(context: "NodeContext", graph: "Graph", node: Mapping[str, Any]) -> str:
    settings = context.job.settings
    parent = graph.details(node["parents"][0]) if node["parents"] else None
    sections = [f"# The present program\n\n{outcome(node, graph.lower)}\n\n{program_of(node)}"]
    if parent is not None:
        section = f"# The program that it was made from\n\n{outcome(parent, graph.lower)}"
        changes = _changes(parent["code"], node["code"])
        sections.append(f"{section} What was changed:\n\n{changes}" if changes else section)
    if printed := printed_by(node):
        sections.append(f"# What it printed\n\n{printed}")
    best = graph.best()
    sections.append(
        f"# The best so far\n\n{experiment_line(best) if best is not None else 'No experiment has a score yet.'}"
    )
    return prompts.render(
        "search-lesson",
        task=tell("task", context.task, split=split_told(settings.validation > 0, settings.reveal_test)),
        hypothesis=plain(node["hypothesis"], MOST_TEXT),
        context="\n\n".join(sections),
    )


# --- the components -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoMemory:
    """Nothing is recalled, as in AIDE; lessons are made from the scores."""

    def recall(
        self, graph: "Graph", expansion: Expansion, hypotheses: Sequence[str], similar: Similar, dice: random.Random
    ) -> list["Node"]:
        return []

    def lesson(self, context: "NodeContext", graph: "Graph", node: Mapping[str, Any]) -> str:
        return mechanical_lesson(graph, node)


@dataclass(frozen=True)
class Siblings:
    """The other children of the parents, for a draft the other drafts: those that failed, too.

    most: the newest of them, at most.
    """

    most: int = 5

    def recall(
        self, graph: "Graph", expansion: Expansion, hypotheses: Sequence[str], similar: Similar, dice: random.Random
    ) -> list["Node"]:
        """In the order they were made."""
        if expansion.parents:
            numbers = {node.number for parent in expansion.parents for node in graph.children(parent)}
        else:
            numbers = {node.number for node in graph.nodes if not node.parents}
        return [graph[number] for number in sorted(numbers)[max(0, len(numbers) - self.most) :]]

    def lesson(self, context: "NodeContext", graph: "Graph", node: Mapping[str, Any]) -> str:
        return mechanical_lesson(graph, node)


@dataclass(frozen=True)
class Kernel:
    """Nodes of other branches, drawn by kernel.potential, and the best of all branches; lessons are a model's analysis.

    alpha: weight of the similarity of hypotheses; beta: weight of the difference of scores, in the metric's own unit;
    gamma: how fast the similarity counts for less as the branch's path gets longer; drawn: how many are drawn. The
    defaults are the released code's.
    """

    alpha: float = 1.0
    beta: float = 1.0
    gamma: float = kernel.GAMMA
    drawn: int = 2

    def recall(
        self, graph: "Graph", expansion: Expansion, hypotheses: Sequence[str], similar: Similar, dice: random.Random
    ) -> list["Node"]:
        """Those drawn, in that order, then the best of all if it is not among them.

        Similar to the first of the hypotheses, or to the parent's where there is none. A path's length is that of the
        branch that is gone on with, as in the released code: 0 for a draft.
        """
        own = own_branch(graph, expansion)
        mine = {node.number for node in own}.union(expansion.parents)
        others = [node for node in graph.good() if node.number not in mine]
        places = kernel.draw(
            kernel.probabilities(self._potentials(graph, expansion, own, others, hypotheses, similar)), self.drawn, dice
        )
        nearest = [others[place] for place in places]
        best = graph.best()
        return nearest if best is None or best in nearest else [*nearest, best]

    def _potentials(
        self,
        graph: "Graph",
        expansion: Expansion,
        own: Sequence["Node"],
        others: Sequence["Node"],
        hypotheses: Sequence[str],
        similar: Similar,
    ) -> list[float]:
        if not others:
            return []
        parent = expansion.parents[0] if expansion.parents else None
        text = hypotheses[0] if hypotheses else "" if parent is None else graph[parent].hypothesis
        alike = similar(text, [node.hypothesis for node in others]) if text.strip() else [0.0] * len(others)
        length = 0 if parent is None else len(graph.path(parent))
        best = graph.best(own)
        sampled = []
        for node, likeness in zip(others, alike, strict=True):
            delta = 0.0 if best is None else graph.gain(node.score or 0.0, best.score or 0.0)
            beta = 0.0 if best is None else self.beta
            sampled.append(kernel.potential(likeness, length, delta, self.alpha, beta, self.gamma))
        return sampled

    def lesson(self, context: "NodeContext", graph: "Graph", node: Mapping[str, Any]) -> str:
        """In one question (structured experiment analysis, appendix E.4); by the scores where there is no program to
        look at, or the answer cannot be read.
        """
        if not node["code"]:
            return mechanical_lesson(graph, node)
        try:
            return context.read("research", "search-lesson", _lesson_prompt(context, graph, node), read_lesson)
        except Unanswered:
            return mechanical_lesson(graph, node)
