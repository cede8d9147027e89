"""Parts of prompts that describe earlier nodes. Texts of agents stay in one line or in a fence."""

from collections.abc import Sequence

from ..messages import fenced, one_line, output_text
from ..reading import read_answer, valid_text
from .data import Expansion, Question
from .graph import Details, Graph, Node, Problem

MOST_HYPOTHESIS, MOST_LESSON = 600, 400  # characters of each in a line
MOST_TEXT = 2000  # characters of a hypothesis by itself
MOST_PROGRAM, MOST_PROGRAMS = 20_000, 40_000  # characters of a program, and of several together
MOST_PRINTED = 4000
MOST_PLAN, MOST_FAILURE, MOST_ATTEMPTS = 250, 300, 10  # characters of each in a line, and lines
FAILURES: dict[Problem | None, str] = {  # the meaning of a problem, if no run shows it
    "no_code": "The answer held no program that can be read.",
    "unanswered": "No answer could be read.",
    "debug": "No run with --debug passed.",
    "slow": "The full run would have taken too long.",
    "no_score": "It ended well, but printed no line `Validation score: NUMBER` with a number.",
}


def plain(text: str, most: int) -> str:
    """A text of an agent as one line of at most `most` characters."""
    line = one_line(valid_text(text))
    return line if len(line) <= most else f"{line[: most - 3].rstrip()}..."


NOT_SHOWN = "its score is not told"


def experiment_line(node: Node, graph: Graph) -> str:
    """A node as an item of a list: its number, hypothesis, score or problem, and lesson; without one the failure."""
    shown = graph.shown_score(node)
    result = f"score {shown:g}" if shown is not None else NOT_SHOWN
    if node.score is None:
        result = f"failed: {node.problem or 'no_score'}"
    failed = "" if node.score is not None else plain(node.why, MOST_FAILURE)
    remark = plain(node.lesson, MOST_LESSON) or failed
    if node.supported is not None:
        remark = f"hypothesis {'supported' if node.supported else 'not supported'}{remark and ': ' + remark}"
    remark = f" ({remark})" if remark else ""
    return f"- experiment {node.number}: {plain(node.hypothesis, MOST_HYPOTHESIS)} -> {result}{remark}"


def failure(details: Details) -> str:
    """What is wrong with a node that failed, in words."""
    return details["why"] or FAILURES.get(details["problem"], "It did not come to a score.")


def attempt_line(plan: str, why: str) -> str:
    """A program that failed, in a line: what was tried, from the plan of its answer, and how it failed."""
    return f"{plain(plan, MOST_PLAN) or 'no plan was stated'} -> failed: {plain(why, MOST_FAILURE)}"


def attempts_section(lines: Sequence[str]) -> list[str]:
    """The section with the newest of the attempts that failed, oldest first; none without any."""
    left_out = max(0, len(lines) - MOST_ATTEMPTS)
    shown = [f"- attempt {number}: {line}" for number, line in enumerate(lines, 1)][left_out:]
    note = [f"- ({left_out} earlier attempts left out)"] if left_out else []
    return listed(
        "Earlier attempts", ["Programs for the same idea that failed, oldest first.\n", *note, *shown] if shown else []
    )


def failed_attempts(graph: Graph, number: int) -> tuple[str, ...]:
    """A line for each node that failed with the same idea as a failed node, but itself, oldest first: all repairs of the
    node that the idea was made for.
    """
    root = graph[number]
    while root.operation == "debug":
        root = graph[root.parents[0]]
    family = [root]
    for node in family:
        family += [child for child in graph.children(node.number) if child.operation == "debug"]
    others = sorted(node.number for node in family if node.score is None and node.number != number)
    return tuple(attempt_line(_plan_of(details), failure(details)) for details in map(graph.details, others))


def _plan_of(details: Details) -> str:
    """The plan in the answer that held a node's program; "" without one."""
    answers = [exchange["messages"][-1]["content"] for exchange in details["asked"] if exchange["phase"] == "develop"]
    return read_answer(answers[-1]).plan if answers else ""


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


def outcome(details: Details, graph: Graph) -> str:
    """The score of a node, which the search optimises, or its problem, in a sentence."""
    if details["score"] is not None:
        shown = graph.shown_score(details)
        if shown is None:
            return f"It ran well; {NOT_SHOWN}."
        return f"Its score: {shown:g} ({'lower' if graph.lower else 'higher'} is better)."
    verdict = details.get("validation")
    why = f" {plain(verdict['reason'] or '', 300)}" if verdict is not None and not verdict["valid"] else ""
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
        f"Its idea: {plain(parent['hypothesis'], MOST_TEXT)}\n\n{outcome(parent, question.graph)}" for parent in parents
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
    return f" It used {'less than a tenth' if tenths < 1 else f'about {tenths} tenths'} of the time limit of a run."


def listed(heading: str, lines: Sequence[str]) -> list[str]:
    """A section with a list; none without lines."""
    return ["\n".join([f"# {heading}\n", *lines])] if lines else []
