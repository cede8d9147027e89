"""Evolution of programs: parents for crossover and mutation are drawn from a population of the best.

Not covered: generations and age; the population is the best of all nodes so far.
"""

import random
from dataclasses import dataclass

from ..graph import Graph
from ..interfaces import Expansion, Plan
from .greedy import repair
from .mcts import rewards
from .schedulers import drawn


@dataclass(frozen=True)
class Evolution:
    """AIRA-evo (Toledo et al., 2025): drafts, then crossovers and mutations of the fittest, one node a round.

    population: number of first drafts, and of best nodes from which parents are drawn. crossover_probability: of a
    crossover of two different parents in a round without a repair; otherwise, or if only one node has a score, one
    parent is improved. Parents are drawn in proportion to their fitness, the rank in the population from 1 for the
    worst (mcts.rewards): for five different scores 5/15, 4/15, ..., 1/15; the second parent from the rest. The branch
    of the first parent continues. debug_probability, debug_depth: see Greedy. If no node has a score and none is
    repaired, there is another draft.
    """

    population: int = 5
    crossover_probability: float = 0.5
    debug_probability: float = 0.5
    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        if sum(node.operation == "draft" for node in graph.nodes) < self.population:
            return [Expansion("draft")]
        repaired = repair(graph, plan, rng, self.debug_probability, self.debug_depth)
        if repaired is not None:
            return [repaired]
        fitness = rewards(graph, graph.ranked()[: self.population])
        if not fitness:
            return [Expansion("draft")]
        if len(fitness) > 1 and rng.random() < self.crossover_probability:
            return [Expansion("crossover", tuple(drawn(fitness, 2, rng)))]
        return [Expansion("improve", tuple(drawn(fitness, 1, rng)))]
