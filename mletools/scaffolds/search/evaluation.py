"""Evaluation: what score a program has for the search, and which node is handed in at the end (R&D-Agent, 3.3 and E.6).

Covered: the score that a program prints itself; scores on rows held out of what it sees; a choice by score, by a model,
or by running the best again on rows that the search never went by. Only AgentReported believes what a program prints.
Test scores are looked at nowhere. Not covered: whether a program is authentic (coding); a program that carries labels of
training rows in its own text, which would do well on the fresh rows too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from ... import prompts
from ..facts import facts, split_told, tell
from .interfaces import Choice, Developed, Unanswered
from .memory import experiment_line
from .replies import json_in, number_of

if TYPE_CHECKING:
    from mletools.scaffolds.search.graph import Graph, Node
    from mletools.scaffolds.search.node_context import NodeContext

MARGIN = 1.1  # of the time that is kept for running programs again
MARK = "Validation score:"
MOST_DIGITS = 64  # of a number that is read
MOST_WHY = 300  # characters of a model's reason that are kept
NO_NODE = "no experiment has a score"
BEST = "the best score of the search"


@dataclass(frozen=True)
class AgentReported:
    """The score that a program prints of itself, as simple agents go by: data splits and metrics are its own affair."""

    reports: ClassVar[bool] = True

    def score(self, developed: Developed) -> float | None:
        """The number of the last line `Validation score: NUMBER` of the program's output; None: there is no such line,
        or the last says no finite number.
        """
        return None if developed.result is None else reported(developed.result["execution"]["stdout"])

    def reserve(self, graph: "Graph") -> float:
        """Nothing: to choose takes no time."""
        return 0.0

    def choose(self, graph: "Graph", context: "NodeContext") -> Choice:
        """The node with the best score."""
        return _best(graph)


@dataclass(frozen=True)
class Standard:
    """The score on rows held out of what programs see, the same for all of a search."""

    reports: ClassVar[bool] = False

    def score(self, developed: Developed) -> float | None:
        """The score on the search's validation rows; None: no submission, an invalid one, or no such rows."""
        return held_out_score(developed.result)

    def reserve(self, graph: "Graph") -> float:
        """Nothing: to choose takes no time."""
        return 0.0

    def choose(self, graph: "Graph", context: "NodeContext") -> Choice:
        """The node with the best score."""
        return _best(graph)


@dataclass(frozen=True)
class Judged(Standard):
    """Scores as Standard; a model chooses among the best, weighing whether a solution generalises or overfits.

    candidates: how many of the best nodes it chooses from.
    """

    candidates: int = 6

    def choose(self, graph: "Graph", context: "NodeContext") -> Choice:
        """The node that the model names; the best by score where its answer names none of those it was asked about."""
        nodes = best_first(graph)[: max(1, self.candidates)]
        if len(nodes) < 2:
            return _best(graph)
        settings = context.job.settings
        prompt = prompts.render(
            "search-choose",
            task=tell("task", context.task, split=split_told(settings.validation > 0, settings.reveal_test)),
            direction=facts(context.task)["direction"],
            experiments="\n".join(map(experiment_line, nodes)),
        )
        reader = partial(chosen_in, numbers={node.number for node in nodes})
        try:
            number, why = context.read("research", "search-choose", prompt, reader)
        except Unanswered:
            return Choice(nodes[0].number, f"{BEST}: the model's choice could not be read", _compared(graph, nodes, {}))
        how = f"chosen by a model among the {len(nodes)} best{f': {why}' if why else ''}"
        return Choice(number, how, _compared(graph, nodes, {}))


@dataclass(frozen=True)
class Aggregated(Standard):
    """Scores as Standard; the best of the branches are run again on fresh rows, and the best on those is handed in.

    R&D-Agent's ValidationSelector. All candidates train without the same rows of train.csv and are scored on them by the
    same metric. The search went by the score on other rows, so the best of many there is best by luck too; on the fresh
    rows, which chose nothing so far, all start alike. They are ranked by these rows alone, as in the paper, and as many
    as the search's validation rows (the paper holds out 10 %).

    candidates: how many programs are run again at most. rounds: how often each is, with another seed each time; the mean
    counts. fresh: how much the score on the fresh rows counts; the search's own counts for the rest. They are run at once. Time for that is kept (reserve); one that would take longer all the same is left out.
    """

    candidates: int = 6
    rounds: int = 1
    fresh: float = 1.0

    def reserve(self, graph: "Graph") -> float:
        """As long as the slowest of the candidates took so far, and a tenth more: they are run at once."""
        nodes = candidates_of(graph, self.candidates)
        return MARGIN * max((_seconds(graph, node, self.rounds) for node in nodes), default=0.0)

    def choose(self, graph: "Graph", context: "NodeContext") -> Choice:
        """See the class. What the search's scores say decides among equals, and where nothing could be scored again."""
        nodes = candidates_of(graph, self.candidates)
        if not nodes:
            return Choice(None, NO_NODE)
        if len(nodes) == 1:
            return Choice(nodes[0].number, "only one candidate", _compared(graph, nodes, {}))
        nodes = [node for node in nodes if _seconds(graph, node, self.rounds) <= context.seconds_left]
        if len(nodes) < 2:
            return Choice(_best(graph).number, f"{BEST}: no time was left to compare it with others on fresh rows")
        codes = [graph.details(node.number)["code"] for node in nodes]
        scores = dict(zip((node.number for node in nodes), context.each(codes, self._again), strict=True))
        compared = _compared(graph, nodes, scores, self.fresh)
        known = [
            _weighed(each["holdout"], each["score"], self.fresh) for each in compared if each["holdout"] is not None
        ]
        ran = f"{len(known)} of {len(nodes)} candidates could be scored again on fresh rows"
        if not known:
            how = f"{BEST}: {ran}"
        elif known.count(known[0]) > 1:
            how = f"{BEST} among {known.count(known[0])} that are equal on fresh rows; {ran}"
        else:
            how = f"the best score on fresh rows; {ran}"
        return Choice(compared[0]["node"], how, compared)

    def _again(self, context: "NodeContext", code: str) -> float | None:
        """The mean score of a program on the fresh rows; None where a run of it had none."""
        total = 0.0
        for _ in range(max(1, self.rounds)):
            outcome = context.run(code, context.job.settings.execution_seconds, rows="selection")
            score = held_out_score(outcome)
            if score is None:
                return None
            total += score
        return total / max(1, self.rounds)


def reported(output: Mapping[str, Any]) -> float | None:
    """The score in a recorded output {head, tail, bytes}: the last line with the mark says it, or there is none."""
    lines = output["head"].split("\n")
    if output["tail"]:  # what lies between was not kept, so the lines next to it may be torn
        lines = lines[:-1] + output["tail"].split("\n")[1:]
    reported = [line.strip() for line in lines if line.lstrip().startswith(MARK)]
    number = reported[-1][len(MARK) :].strip() if reported else ""
    if len(number) > MOST_DIGITS or "_" in number or not number.isascii():
        return None
    try:
        score = float(number)
    except ValueError:
        return None
    return score if math.isfinite(score) else None


def held_out_score(outcome: Mapping[str, Any] | None) -> float | None:
    """The score on the rows held out of a run's training; None: it failed, or its submission did."""
    if outcome is None or outcome["execution"]["status"] != "ok" or outcome["validation"] is None:
        return None
    score: float | None = outcome["validation"]["score"] if outcome["validation"]["valid"] else None
    return score


def best_first(graph: "Graph") -> list["Node"]:
    """The nodes with a score, the best first, of equals the first made."""
    return sorted(graph.good(), key=lambda node: (_rank(graph, node.score), node.number))


def candidates_of(graph: "Graph", most: int) -> list["Node"]:
    """Up to `most` nodes of different programs: the best of each branch, best first, then the best of the others."""
    order = best_first(graph)
    leading: dict[int, Node] = {}
    for node in order:
        leading.setdefault(node.branch, node)
    heads = {node.number for node in leading.values()}
    candidates: list[Node] = []
    programs: set[str] = set()
    for node in [*leading.values(), *(node for node in order if node.number not in heads)]:
        if len(candidates) >= max(1, most):
            break
        code = graph.details(node.number)["code"]
        if code is not None and code not in programs:
            programs.add(code)
            candidates.append(node)
    return candidates


def _seconds(graph: "Graph", node: "Node", rounds: int) -> float:
    """How long it will take to run a node's program again, by how long it took."""
    return max(1, rounds) * float(graph.details(node.number)["execution"]["duration_s"])


def chosen_in(text: str, numbers: set[int]) -> tuple[int, str]:
    """(experiment, why) of an answer to search-choose. ValueError, in words, where it is none of `numbers`."""
    choice = json_in(text, dict)
    number = number_of(choice, "experiment")
    if number not in numbers:
        raise ValueError(f'"experiment" has to be one of {", ".join(map(str, sorted(numbers)))}')
    why = choice.get("why")
    return int(number), " ".join(why.split())[:MOST_WHY] if isinstance(why, str) else ""


def _best(graph: "Graph") -> Choice:
    node = graph.best()
    return Choice(None, NO_NODE) if node is None else Choice(node.number, BEST, _compared(graph, [node], {}))


def _compared(
    graph: "Graph", nodes: list["Node"], scores: Mapping[int, float | None], fresh: float = 1.0
) -> tuple[Mapping[str, Any], ...]:
    """A choice's candidates, best first: by the score on fresh rows, which counts `fresh`, then by that of the search, then
    in order.
    """

    def place(node: "Node") -> tuple[float, float, int]:
        again = _weighed(scores.get(node.number), node.score, fresh)
        return _rank(graph, again), _rank(graph, node.score), node.number

    return tuple(
        {"node": node.number, "score": node.score, "holdout": scores.get(node.number)}
        for node in sorted(nodes, key=place)
    )


def _weighed(again: float | None, score: float | None, fresh: float) -> float | None:
    return None if again is None else fresh * again + (1 - fresh) * (score or 0.0)


def _rank(graph: "Graph", score: float | None) -> float:
    """A number to sort by, the best score first and no score last."""
    if score is None:
        return math.inf
    return score if graph.lower else -score
