"""Evolution of programs: a population of the best, from which parents are drawn for crossover and mutation.

Not covered: generations and age; the population is the best of all nodes so far.
"""

import random
from dataclasses import dataclass

from ..graph import Graph
from ..interfaces import Expansion, Plan
from ..paths.greedy import ranked, repair
from ..paths.mcts import rewards
from ..paths.schedulers import drawn


@dataclass(frozen=True)
class Evolution:
    """AIRA-evo (Toledo et al., 2025): drafts, then crossovers and mutations of the fittest, one node a round.

    population: drafts made first, and the number of best nodes that parents are drawn from. crossover_probability: of a
    crossover of two different parents in a round that repairs nothing; else, or where only one node works, one parent is
    improved. Parents are drawn with a probability proportional to their fitness, which is their rank in the population
    from 1 for the worst (mcts.rewards): of five that differ 5/15, 4/15, ..., 1/15, the second one from those left. The
    first one drawn is the one whose branch is gone on with. debug_probability, debug_depth: repairs, as in Greedy. Where
    no node works and none is repaired there is another draft.
    """

    population: int = 5
    crossover_probability: float = 0.5
    debug_probability: float = 0.5
    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, dice: random.Random) -> list[Expansion]:
        if sum(node.operation == "draft" for node in graph.nodes) < self.population:
            return [Expansion("draft")]
        repaired = repair(graph, plan, dice, self.debug_probability, self.debug_depth)
        if repaired is not None:
            return [repaired]
        fitness = rewards(graph, ranked(graph, graph.nodes)[: self.population])
        if not fitness:
            return [Expansion("draft")]
        if len(fitness) > 1 and dice.random() < self.crossover_probability:
            return [Expansion("crossover", tuple(drawn(fitness, 2, dice)))]
        return [Expansion("improve", tuple(drawn(fitness, 1, dice)))]
