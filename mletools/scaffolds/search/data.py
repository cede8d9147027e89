"""Data that passes between the parts of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, get_args

from ...prompts import answers
from ...records.rollout import Candidate, Choosing, Component, Operation, Origin, Stage, SubmissionFile, Trial
from ..interface import RunResult
from .graph import Details, Graph, Node, Problem

LATER = "later"
T = TypeVar("T", bool, int, float, str)


def later(default: T) -> T:
    """A constant of a component that is newer than others: at its default it is neither in records nor part of ids."""
    value: T = field(default=default, metadata={LATER: True})
    return value


PARTS: tuple[Component, ...] = get_args(Component)  # parts of a program that hypotheses change
AXES = dict(zip(answers.AXES, (0.2, 0.4, 0.2, 0.1, 0.1), strict=True))  # weights of scores


class Unanswered(Exception):
    """The model's answers could not be read, or its server refused the prompt, such as one that is too long."""


@dataclass(frozen=True)
class Budget:
    """What a plan depends on besides the graph. share: of the search's budget that is used, 0 to 1, by its scarcest part.

    run_seconds: the user's limit of one run. seconds_left: on the search's clock; None: no limit.
    """

    share: float
    run_seconds: float = 3600.0
    seconds_left: float | None = None


@dataclass(frozen=True)
class Plan:
    """A round's plan: the used share of the budget, text for the researcher, limits of one run.

    repairs: failed nodes may be repaired (set by the coding component). under_way: the nodes that are being worked on
    and not in the graph, where workers begin nodes one by one; None: in whole rounds.
    """

    share: float
    stage: Stage
    guidance: str = ""
    full_seconds: float = 3600.0
    debug_seconds: float = 600.0
    repairs: bool = False
    under_way: tuple[Expansion, ...] | None = None


@dataclass(frozen=True)
class Expansion:
    """A node to make: its operation and its parents' numbers. It joins the branch of the first parent."""

    operation: Operation
    parents: tuple[int, ...] = ()


@dataclass(frozen=True)
class Start:
    """What a node begins with. number: in the order of beginning. seen: nodes of the graph then, which are all that it
    knows of. beside: hypotheses of nodes that are made beside it. clock, deadline: when it begins, and when it has to end.
    """

    number: int
    seen: int
    plan: Plan
    expansion: Expansion
    beside: tuple[str, ...]
    clock: float
    deadline: float | None


@dataclass(frozen=True)
class Hypothesis:
    """A proposed change. component: one of PARTS. scores: on AXES, 1 to 10. origin: scenario or feedback."""

    text: str
    component: Component | None = None
    challenge: str | None = None
    origin: Origin | None = None
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Idea:
    """The result of research. action: select, modify or create; None: nothing to choose from. considered: the other
    hypotheses, best first. recalled: numbers of the earlier nodes that were shown.
    """

    hypothesis: Hypothesis
    action: Choosing | None = None
    considered: tuple[Hypothesis, ...] = ()
    recalled: tuple[int, ...] = ()
    challenges: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """What a node teaches. supported: whether its result supports its hypothesis; None: nobody has judged that."""

    text: str = ""
    supported: bool | None = None


Recall = Callable[[Sequence[str]], list[Node]]  # earlier nodes that are relevant to the texts of hypotheses
Similar = Callable[[str, Sequence[str]], list[float]]  # cosines of a text's embedding with those of others, in [-1, 1]


@dataclass(frozen=True)
class Question:
    """The input of reasoning. parents: their details (Graph.details). beside: hypotheses earlier in this round, from
    which a new one should differ. know(query): passages of the user's knowledge, best first.
    """

    graph: Graph
    expansion: Expansion
    plan: Plan
    parents: tuple[Details, ...]
    recall: Recall
    beside: tuple[str, ...] = ()
    know: Callable[[str], list[str]] = lambda query: []


@dataclass(frozen=True)
class Brief:
    """Coding's input. lessons: a line for each earlier node. reports: programs print `Validation score: NUMBER`.

    attempts: for a repair, a line for each earlier program of the same idea that failed, but the parent's, oldest first.
    """

    graph: Graph
    expansion: Expansion
    idea: Idea
    plan: Plan
    parents: tuple[Details, ...]
    lessons: tuple[str, ...] = ()
    reports: bool = False
    attempts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Developed:
    """The result of coding. result: Environment.run's of the full run, or None. problem: None: the
    submission is valid and authentic. trials: the runs before, {debug, status, duration_s, problem, estimated_s}. why:
    the problem in words.
    """

    code: str | None
    result: RunResult | None
    problem: Problem | None
    trials: tuple[Trial, ...] = ()
    why: str = field(default="", compare=False)


@dataclass(frozen=True)
class Choice:
    """The node to hand in, or None, how it was chosen, and the candidates {node, score, holdout}, best first.

    holdout: the score on selection rows; None: there is none. ensemble: what is handed in in place of the node's submission,
    made of those of the nodes `members`.
    """

    number: int | None
    how: str
    candidates: tuple[Candidate, ...] = ()
    ensemble: SubmissionFile | None = None
    members: tuple[int, ...] = ()
