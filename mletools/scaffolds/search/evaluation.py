"""The evaluation components: the score of a program, and the node to hand in (R&D-Agent, 3.3 and E.6).

Only AgentReported trusts the output of programs. Nothing reads test scores; whether a submission is valid on the test
rows counts in the choice, of which no model is told. Not covered: authenticity (coding); a program that contains labels
of training rows, which would also score well on selection rows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

from ... import prompts
from ...records.rollout import Candidate, SubmissionFile
from ..interface import RunResult
from ..messages import task_facts
from ..printed import printed_score
from .data import Choice, Developed, Unanswered
from .graph import Graph, Node
from .node_context import NodeContext
from .replies import Fields, Reading, fields_in, wrong
from .sections import experiment_line

MARGIN = 1.1  # of the time that is reserved for running programs again
MOST_WHY = 300  # characters of a model's reason
NO_NODE = "no experiment has a score"
BEST = "the best score of the search"
BEST_VALID = f"{BEST} among submissions that are valid on the test rows"
NO_TIME = "no time was left to compare it with others on selection rows"
CUT = "the search's time ended its run on selection rows"


class _Again(NamedTuple):
    """The score of a program that was run again. cut: it has none since the search's time was used up."""

    score: float | None
    cut: bool = False


@dataclass(frozen=True)
class Standard:
    """The score on the search's validation rows, which are hidden from programs."""

    reports: ClassVar[bool] = False

    def score(self, developed: Developed) -> float | None:
        return held_out_score(developed.result)

    def reserve(self, graph: Graph, waiting: bool) -> float:
        return 0.0

    def choose(self, graph: Graph, context: NodeContext) -> Choice:
        node = next(iter(eligible(graph)), None)
        return Choice(None, NO_NODE) if node is None else Choice(node.number, _best(graph), _candidates([node], {}))


@dataclass(frozen=True)
class AgentReported(Standard):
    """The score that a program prints, by a split and a metric of its own, as in simple agents."""

    reports: ClassVar[bool] = True

    def score(self, developed: Developed) -> float | None:
        return None if developed.result is None else printed_score(developed.result["execution"]["stdout"])


@dataclass(frozen=True)
class Judged(Standard):
    """Standard's scores; a model chooses among the best `candidates`, to prefer what generalises over what overfits."""

    candidates: int = 6

    def choose(self, graph: Graph, context: NodeContext) -> Choice:
        nodes = graph.ranked()[: max(1, self.candidates)]
        if len(nodes) < 2:
            return super().choose(graph, context)
        task, direction = context.task_text, task_facts(context.task)["direction"]
        lines = "\n".join(experiment_line(node, graph) for node in nodes)
        prompt = prompts.render("search-choose", task=task, direction=direction, experiments=lines)
        reader = partial(read_choice, numbers={node.number for node in nodes})
        try:
            number, why = context.read("research", "search-choose", prompt, reader)
        except Unanswered:
            number, how = nodes[0].number, f"{BEST}: the model's choice could not be read"
        else:
            how = f"chosen by a model among the {len(nodes)} best{f': {why}' if why else ''}"
        best = eligible(graph)
        if number not in {node.number for node in best}:
            number, how = best[0].number, f"{BEST_VALID}: that of experiment {number} is not ({how})"
        return Choice(number, how, _candidates(nodes, {}))


@dataclass(frozen=True)
class Aggregated(Standard):
    """Standard's scores; the best of the branches run again with selection rows held out, and the best on those is handed in.

    R&D-Agent's ValidationSelector. The search selected by its own validation rows, so the best there is partly luck.
    There are as many selection rows, taken from train.csv (the paper: 10 %). The search's scores decide among equal
    candidates, and if none could be scored again. Time is reserved: that of the slowest candidate and a tenth more; if
    runs may have to wait for each other, that of all candidates.

    candidates: maximum number of programs, run again concurrently. rounds: runs of each, with different seeds; the mean
    counts. fresh: weight of the score on the selection rows; the search's score has the rest.
    """

    candidates: int = 6
    rounds: int = 1
    fresh: float = 1.0

    def reserve(self, graph: Graph, waiting: bool) -> float:
        nodes = candidates_of(graph, self.candidates, graph.ranked())  # prompts tell the time: not of eligible ones
        seconds = [self._seconds(graph, node) for node in nodes]
        return MARGIN * (sum(seconds) if waiting else max(seconds, default=0.0))

    def choose(self, graph: Graph, context: NodeContext) -> Choice:
        nodes = candidates_of(graph, self.candidates)
        if not nodes:
            return Choice(None, NO_NODE)
        if len(nodes) == 1:
            return Choice(nodes[0].number, "only one candidate", _candidates(nodes, {}))
        best, count = nodes[0], len(nodes)
        nodes = [node for node in nodes if self._seconds(graph, node) <= context.seconds_left]
        if best not in nodes or len(nodes) < 2:
            return replace(super().choose(graph, context), how=f"{_best(graph)}: {NO_TIME}")
        codes = [graph.details(node.number)["code"] or "" for node in nodes]
        again = dict(zip((node.number for node in nodes), context.each(codes, self._score_again), strict=True))
        fresh = {number: score for number, (score, _) in again.items()}
        weighted = {
            node.number: self.fresh * score + (1 - self.fresh) * (node.score or 0.0)
            for node in nodes
            if (score := fresh[node.number]) is not None
        }
        merits = {number: graph.gain(score, 0.0) for number, score in weighted.items()}
        order = sorted(graph.ranked(nodes), key=lambda node: -merits.get(node.number, -math.inf))
        ran = f"{len(weighted)} of {len(nodes)} candidates could be scored again on selection rows"
        if len(nodes) < count:
            ran += f"; for {count - len(nodes)} more no time was left"
        if again[best.number].cut:
            order = [best, *(node for node in order if node != best)]
            return Choice(best.number, f"{_best(graph)}: {CUT}; {ran}", _candidates(order, fresh))
        top = order[0].number
        equal = list(weighted.values()).count(weighted[top]) if weighted else 0
        how = f"{_best(graph)}: {ran}" if equal == 0 else f"the best score on selection rows; {ran}"
        if equal > 1:
            how = f"{_best(graph)} among {equal} that are equal on selection rows; {ran}"
        return Choice(top, how, _candidates(order, fresh))

    def _seconds(self, graph: Graph, node: Node) -> float:
        execution = graph.details(node.number)["execution"]
        return max(1, self.rounds) * (execution["duration_s"] if execution else 0.0)

    def _score_again(self, context: NodeContext, code: str) -> "_Again":
        """The mean score on the selection rows; None if a run has none."""
        scores: list[float] = []
        while len(scores) < max(1, self.rounds):
            result = context.run(code, context.job.settings.execution_seconds, rows="selection")
            score = held_out_score(result)
            if score is None:
                return _Again(None, result["execution"]["status"] == "timeout" and context.seconds_left <= 1)
            scores.append(score)
        return _Again(sum(scores) / len(scores))


@dataclass(frozen=True)
class ThreeSplits(Standard):
    """Standard's scores on validation rows; what is handed in is chosen on selection rows, which neither the search nor a
    program has seen: they are held out from all programs from the beginning, predicted by each, and no model is told of
    them. Nothing is run again. AIRA-2's consistent evaluation (Meta, 2026) separates search and selection so; the rule and
    the shares are ours: --validation of the rows for selection, and of the rest for validation.

    candidates: maximum number of nodes that are compared. ensemble: the mean or majority of so many best candidates is
    handed in, if it is better on the selection rows than the best one; 0: never.
    """

    candidates: int = 6
    ensemble: int = 0
    selection: ClassVar[bool] = True

    def choose(self, graph: Graph, context: NodeContext) -> Choice:
        nodes = candidates_of(graph, self.candidates)
        parts = {node.number: part for node in nodes if (part := graph.details(node.number).get("selection"))}
        scores = {
            number: part["verdict"]["score"]
            for number, part in parts.items()
            if part["verdict"]["valid"] and part["verdict"]["score"] is not None
        }
        known = [node for node in graph.ranked(nodes) if node.number in scores]
        if not known:
            return super().choose(graph, context)
        order = sorted(known, key=lambda node: -graph.gain(scores[node.number] or 0.0, 0.0))
        rest = [node for node in nodes if node.number not in scores]
        choice = Choice(
            order[0].number,
            f"the best score on selection rows, of {len(order)} candidates",
            _candidates([*order, *rest], scores),
        )
        members = [node.number for node in order[: self.ensemble]]
        if len(members) < 2:
            return choice
        made = context.ensemble([(_handed_in(graph, number), parts[number]["file"]) for number in members])
        score = made["verdict"]["score"] if made is not None and made["verdict"]["valid"] else None
        if made is None or score is None or graph.gain(score, scores[members[0]] or 0.0) <= 0:
            return choice
        how = f"{score:g} on selection rows for {len(members)} together, better than each of them"
        return replace(choice, how=how, ensemble=made["submission"], members=tuple(members))


def _handed_in(graph: Graph, number: int) -> SubmissionFile:
    execution = graph.details(number)["execution"]
    assert execution is not None and execution["submission"] is not None  # its part on the selection rows is there
    return execution["submission"]


def held_out_score(result: RunResult | None) -> float | None:
    """The score of a run on its held-out rows; None: the run failed, or its submission is invalid."""
    if result is None or result["execution"]["status"] != "ok" or result["validation"] is None:
        return None
    score: float | None = result["validation"]["score"] if result["validation"]["valid"] else None
    return score


def eligible(graph: Graph) -> list[Node]:
    """The nodes that may be handed in, best first: those with a score whose submission is not invalid on the test rows,
    or, if there is none, all with a score.
    """
    ranked = graph.ranked()
    return [node for node in ranked if node.number not in graph.invalid] or ranked


def _best(graph: Graph) -> str:
    """What is said of the best eligible node."""
    return BEST if eligible(graph)[:1] == graph.ranked()[:1] else BEST_VALID


def candidates_of(graph: Graph, most: int, ranked: Sequence[Node] | None = None) -> list[Node]:
    """Up to `most` nodes with different programs: the best of each branch, best first, then the best of the others.

    ranked: the nodes to choose from, best first; None: the eligible ones.
    """
    candidates: dict[str, Node] = {}
    ranked = eligible(graph) if ranked is None else ranked
    heads = {node.branch: node for node in reversed(ranked)}  # the best of each branch
    for node in dict.fromkeys([*graph.ranked(heads.values()), *ranked]):
        if len(candidates) >= max(1, most):
            break
        code = graph.details(node.number)["code"]
        if code is not None:
            candidates.setdefault(code, node)
    return list(candidates.values())


def read_choice(text: str, numbers: set[int], notes: Reading | None = None) -> tuple[int, str]:
    """(experiment, why) of an answer to search-choose. ValueError, worded for the model: it is none of `numbers`."""
    choice = fields_in(text, ("experiment",), notes)
    wanted, value = f"one of {', '.join(map(str, sorted(numbers)))}", choice.get("experiment")
    try:
        number = Fields({"experiment": _number_text(value)}, choice.notes).number("experiment")
    except ValueError:
        raise wrong("experiment", wanted, value) from None
    if number not in numbers:
        raise wrong("experiment", wanted, value)
    why = choice.values.get("why")
    return int(number), " ".join(why.split())[:MOST_WHY] if isinstance(why, str) else ""


def _number_text(value: object) -> object:
    """ "experiment 3" and "#3" as "3"; other values as they are."""
    return value[:80].strip().lower().removeprefix("experiment").lstrip(" #") if isinstance(value, str) else value


def _candidates(nodes: Sequence[Node], fresh: Mapping[int, float | None]) -> tuple[Candidate, ...]:
    return tuple({"node": node.number, "score": node.score, "holdout": fresh.get(node.number)} for node in nodes)
