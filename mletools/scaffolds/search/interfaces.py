"""What the parts of a search are to each other: the data that passes between them, and the six components' interfaces.

The loop (R&D-Agent, algorithm 1) plans, selects parents, recalls, reasons, develops, evaluates and adds to a graph. Each
component is an object with the one or two methods below; a frozen dataclass, whose fields are its constants and can be
given by --set, will do. Components keep nothing between calls: what they need to know of the past is in the graph, so a
search that was killed goes on as if it had not been. Not covered: which components there are (components).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mletools.scaffolds.search.graph import Graph, Node
    from mletools.scaffolds.search.node_context import NodeContext

# What a node is made by: from nothing; from one parent that works, or that failed; from two; from the best of branches.
OPERATIONS = ("draft", "improve", "debug", "crossover", "merge")
STAGES = ("draft", "improvement", "ensemble", "merge")  # of a search, by the share of its budget that is used
PARTS = ("DataLoadSpec", "FeatureEng", "Model", "Ensemble", "Workflow")  # what of a program a hypothesis is about
AXES = {"alignment": 0.2, "impact": 0.4, "novelty": 0.2, "feasibility": 0.1, "risk_reward": 0.1}  # and their weights


@dataclass(frozen=True)
class Plan:
    """What planning decides for a round.

    share: of the budget that is used, 0 to 1. guidance: words for the researcher, "" for none. full_seconds and
    debug_seconds bound one run. repairs: failed nodes may be taken up again (the coding component's choice).
    """

    share: float
    stage: str
    guidance: str = ""
    full_seconds: float = 3600.0
    debug_seconds: float = 600.0
    repairs: bool = False


@dataclass(frozen=True)
class Expansion:
    """A node to make: its operation and its parents' numbers; the first parent is the one whose branch it goes on."""

    operation: str
    parents: tuple[int, ...] = ()


@dataclass(frozen=True)
class Hypothesis:
    """What is to be tried and why. scores: on AXES, 1 to 10. origin: of the challenge it answers, scenario or feedback."""

    text: str
    component: str | None = None  # one of PARTS
    challenge: str | None = None
    origin: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Idea:
    """What the research phase hands to the development phase.

    action: how it came out of the candidates (select, modify, create; None: there were none). considered: the other
    hypotheses, best first. recalled: numbers of the earlier nodes that it was weighed against.
    """

    hypothesis: Hypothesis
    action: str | None = None
    considered: tuple[Hypothesis, ...] = ()
    recalled: tuple[int, ...] = ()
    challenges: tuple[str, ...] = ()


Recall = Callable[[Sequence[str]], list["Node"]]  # earlier nodes that matter to these hypotheses' texts


@dataclass(frozen=True)
class Question:
    """What reasoning is to answer with an idea. parents: their details (Graph.details), in the expansion's order.

    beside: the hypotheses of the round's other branches that were thought of before this one; a new one should differ.
    know(query): passages from the user's knowledge folder, best first; none where there is no folder.
    """

    graph: "Graph"
    expansion: Expansion
    plan: Plan
    parents: tuple[Mapping[str, Any], ...]
    recall: Recall
    beside: tuple[str, ...] = ()
    know: Callable[[str], list[str]] = lambda query: []


@dataclass(frozen=True)
class Brief:
    """What coding is to turn into a program. lessons: a line each on earlier nodes that matter. reports: the program is
    to print its own score, in a line `Validation score: NUMBER`.
    """

    expansion: Expansion
    idea: Idea
    plan: Plan
    parents: tuple[Mapping[str, Any], ...]
    lessons: tuple[str, ...] = ()
    reports: bool = False


@dataclass(frozen=True)
class Developed:
    """What coding came to.

    result: what Environment.run returned for the full run ({execution, validation, grade}); None: there was none. problem: why the
    program does not count, one of PROBLEMS; None: it ran and left a valid, authentic submission. trials: the runs ahead
    of the last, {debug, status, duration_s, problem, estimated_s}. why: the problem in words.
    """

    code: str | None
    result: Mapping[str, Any] | None
    problem: str | None
    trials: tuple[Mapping[str, Any], ...] = ()
    why: str = field(default="", compare=False)


# unanswered: the model's answers could not be read, or the prompt was too long; debug: no debug run passed; slow: the full
# run would not fit; failed: it did not end well; invalid: its submission; inauthentic: that is no model's prediction
PROBLEMS = ("unanswered", "no_code", "debug", "slow", "failed", "invalid", "inauthentic", "no_score")


@dataclass(frozen=True)
class Choice:
    """The node that is handed in (None: no node is fit), in words how it was chosen, and what was compared.

    candidates: {node, score, holdout}, best first; holdout None where the node was not run again.
    """

    number: int | None
    how: str
    candidates: tuple[Mapping[str, Any], ...] = ()


class Planning(Protocol):
    def begin(self, context: "NodeContext") -> str:
        """What all prompts of the search begin with (a system message); "" for nothing. May ask models."""

    def plan(self, graph: "Graph", share: float, stage: str, full_seconds: float) -> Plan:
        """The round's plan; full_seconds is the user's limit of one run."""


class Paths(Protocol):
    def select(self, graph: "Graph", plan: Plan, dice: random.Random) -> list[Expansion]:
        """The nodes to make in this round, at once; none: the search is over."""


class Memory(Protocol):
    def recall(
        self,
        graph: "Graph",
        expansion: Expansion,
        hypotheses: Sequence[str],
        similar: Callable[[str, Sequence[str]], list[float]],
        dice: random.Random,
    ) -> list["Node"]:
        """Earlier nodes that the research is told of. similar(text, others): cosines of their embeddings, in [-1, 1]."""

    def lesson(self, context: "NodeContext", graph: "Graph", node: Mapping[str, Any]) -> str:
        """What is to be learnt from a node that is about to be added: one or two sentences. May ask models.

        node: the node's details (Graph.details), with its score.
        """


class Reasoning(Protocol):
    def reason(self, context: "NodeContext", question: Question) -> Idea:
        """An idea for a node that is no repair. Unanswered: nothing that can be read was answered."""


class Coding(Protocol):
    repairs: bool  # whether paths may take failed nodes up again, with the operation debug

    def develop(self, context: "NodeContext", brief: Brief) -> Developed:
        """Write the program and run it."""


class Evaluation(Protocol):
    reports: bool  # whether programs are asked to print their own score

    def score(self, developed: Developed) -> float | None:
        """What the search goes by, of a program that came to something; None: it has none."""

    def reserve(self, graph: "Graph") -> float:
        """Seconds that `choose` would take now, and that are to be kept for it."""

    def choose(self, graph: "Graph", context: "NodeContext") -> Choice:
        """The node to hand in at the end."""


class Unanswered(Exception):
    """The model's answers could not be read, or the prompt was too long for it."""
