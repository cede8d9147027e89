"""Parts of prompts that describe the task and earlier nodes. Texts of agents stay in one line or in a fence."""

from collections.abc import Sequence
from typing import Any

from ..interface import Job
from ..messages import Facts, fenced, output_text, task_prompt
from .graph import Details, Graph, Node
from .interfaces import Expansion, Question
from .replies import valid_text

MOST_HYPOTHESIS, MOST_LESSON = 600, 400  # characters of each in a line
MOST_TEXT = 2000  # characters of a hypothesis by itself
MOST_PROGRAM, MOST_PROGRAMS = 20_000, 40_000  # characters of a program, and of several together
MOST_PRINTED = 4000


def task_text(job: Job[Any], environment: Facts) -> str:
    """The task and where its programs run, as agents in turns are shown it."""
    return task_prompt("task", job, environment)


def plain(text: str, most: int) -> str:
    """A text of an agent as one line of at most `most` characters."""
    line = " ".join(valid_text(text).split())
    return line if len(line) <= most else f"{line[: most - 3].rstrip()}..."


def experiment_line(node: Node) -> str:
    """A node as an item of a list: its number, hypothesis, score or problem, and lesson."""
    result = f"score {node.score:g}" if node.score is not None else f"failed: {node.problem or 'no_score'}"
    lesson = f" ({plain(node.lesson, MOST_LESSON)})" if node.lesson.strip() else ""
    return f"- experiment {node.number}: {plain(node.hypothesis, MOST_HYPOTHESIS)} -> {result}{lesson}"


def program_of(details: Details, most: int = MOST_PROGRAM) -> str:
    """A node's program in a fence, without its middle if it is too long."""
    code = (details["code"] or "").strip("\n")
    if len(code) > most:
        code = f"{code[: most // 2]}\n# [... {len(code) - most} characters left out ...]\n{code[-(most - most // 2) :]}"
    return fenced(code, "python")


def printed_by(details: Details) -> list[str]:
    """The section with head and tail of the output of a node's program; none without a run."""
    execution = details["execution"]
    if execution is None:
        return []
    outputs = [output_text(execution[name], MOST_PRINTED // 2) for name in ("stdout", "stderr")]
    printed = fenced("\n".join(filter(None, outputs)) or "(nothing)")
    return [f"# What it printed\n\n{printed}"]


def outcome(details: Details, lower_is_better: bool) -> str:
    """The score of a node, which the search optimises, or its problem, in a sentence."""
    if details["score"] is not None:
        return f"Its score: {details['score']:g} ({'lower' if lower_is_better else 'higher'} is better)."
    verdict = details.get("validation")
    why = f" {plain(verdict['reason'], 300)}" if verdict is not None and not verdict["valid"] else ""
    return f"It failed: {details['problem'] or 'no_score'}.{why}"


def own_branch(graph: Graph, expansion: Expansion) -> list[Node]:
    """The nodes of the branch that an expansion continues, its first parent's; none for a draft."""
    if not expansion.parents:
        return []
    return [node for node in graph.nodes if node.branch == graph[expansion.parents[0]].branch]


def parent_sections(question: Question) -> list[str]:
    """The sections on the parents of an expansion; on a single parent with its output."""
    parents = question.parents
    texts = [
        f"It came of this idea: {plain(parent['hypothesis'], MOST_TEXT)}\n\n{outcome(parent, question.graph.lower)}"
        for parent in parents
    ]
    if len(parents) == 1:
        text = f"{texts[0]}{_runtime(parents[0], question.plan.full_seconds)}\n\n{program_of(parents[0])}"
        return [f"# The present program\n\n{text}", *printed_by(parents[0])]
    return [
        f"# Program {at}\n\n{text}\n\n{program_of(parent, MOST_PROGRAMS // len(parents))}"
        for at, (text, parent) in enumerate(zip(texts, parents, strict=True), 1)
    ]


def _runtime(parent: Details, most: float) -> str:
    """The time of a run in tenths of its limit: prompts must not depend on small differences of measured times."""
    if parent["execution"] is None:
        return ""
    tenths = int(10 * parent["execution"]["duration_s"] / most)
    return (
        f" It ran for {'less than a tenth' if tenths < 1 else f'about {tenths} tenths'} of the time that it may take."
    )


def listed(heading: str, lines: Sequence[str]) -> list[str]:
    """A section with a list; none without lines."""
    return ["\n".join([f"# {heading}\n", *lines])] if lines else []
