"""Components of a user's own, as docs/search.md shows them: one file, picked up by name."""

import random
from dataclasses import dataclass

from mletools.scaffolds.search.data import Expansion, Hypothesis, Idea, Plan, Question
from mletools.scaffolds.search.graph import Graph


@dataclass(frozen=True)
class FanOut:
    """One draft, then `width` improvements of the best node per round."""

    width: int = 2

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        best = graph.best()
        if best is None:
            return [Expansion("draft")]
        return [Expansion("improve", (best.number,))] * self.width


@dataclass(frozen=True)
class Numbered:
    """Ideas without a model: each round says which experiment it is."""

    word: str = "slope"

    def reason(self, context: object, question: Question) -> Idea:
        return Idea(Hypothesis(f"{self.word} {len(question.graph) + len(question.beside)}", "Model"))
