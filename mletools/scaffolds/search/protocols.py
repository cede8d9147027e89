"""The protocols of the six components of a search (R&D-Agent, algorithm 1).

A component is any object with the methods and attributes of its protocol. The fields of a frozen dataclass are its
constants, which --set changes. Components keep no state between calls: the graph holds the past, so a killed search
resumes exactly.
"""

import random
from collections.abc import Sequence
from typing import Protocol

from .data import Brief, Budget, Choice, Developed, Expansion, Idea, Lesson, Plan, Question, Similar
from .graph import Details, Graph, Node
from .node_context import NodeContext


class Planning(Protocol):
    def begin(self, context: NodeContext) -> str:
        """The system message of all prompts of the search, "" for none. May ask models."""

    def plan(self, graph: Graph, budget: Budget) -> Plan:
        """The plan of the next round."""


class Paths(Protocol):
    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        """The nodes to make in this round, concurrently; none ends the search. Where workers begin nodes one by one
        (`plan.under_way`), the first is begun that is not under way.
        """


class Reasoning(Protocol):
    def reason(self, context: NodeContext, question: Question) -> Idea:
        """The idea of a node that is no repair. Unanswered: no answer could be read."""


class Memory(Protocol):
    def recall(
        self, graph: Graph, expansion: Expansion, hypotheses: Sequence[str], similar: Similar, rng: random.Random
    ) -> list[Node]:
        """Earlier nodes to show to research."""

    def lesson(self, context: NodeContext, graph: Graph, node: Details) -> Lesson:
        """The lesson of a node that is not added yet, a sentence or two. node: its details. May ask models."""


class Coding(Protocol):
    repairs: bool  # whether paths may select failed nodes for the operation debug

    def develop(self, context: NodeContext, brief: Brief) -> Developed:
        """Write the program and run it."""


class Evaluation(Protocol):
    reports: bool  # whether programs have to print their own score

    def score(self, developed: Developed) -> float | None:
        """The score of a program without a problem; None: it has none."""

    def reserve(self, graph: Graph, waiting: bool) -> float:
        """Seconds to reserve for `choose`, as of now. waiting: runs may have to wait for each other, and that counts."""

    def choose(self, graph: Graph, context: NodeContext) -> Choice:
        """The node to hand in at the end."""
