"""Networks of procedural tasks: they have the properties asked for, can be measured again, suffer from mutations."""

import csv
import io
import itertools

import numpy as np

from mletools.tasks.procedural.draw import scenarios
from mletools.tasks.procedural.media import graph
from mletools.tasks.procedural.media.common import codes, number_values
from mletools.tasks.procedural.media.graph import CATEGORIES, CROSSING, NUMBERS, TAIL, TRIANGLES, grow, split_halves
from mletools.tasks.table import generator

ROWS = 60
SEEDS = range(6)


def drawn(seed, mutations=(), rows=ROWS):
    """(factors, rendered) of a scenario that the seed picks."""
    draws = generator(seed)
    scenario = scenarios()[seed * 5 % len(scenarios())]
    factors = graph.factors(scenario, rows, draws)
    return factors, graph.render(scenario, factors, dict.fromkeys(mutations, 0.8), draws)


def read(content):
    return list(csv.reader(io.StringIO(content.decode())))


def test_files_are_lists_of_links_of_nearly_one_length():
    headers = set()
    for seed in SEEDS:
        _, rendered = drawn(seed)
        asset = rendered.assets[0]
        assert (asset.column, asset.folder, asset.ending, len(asset.contents)) == ("graph", "graphs", "csv", ROWS)
        lengths = set()
        for content in asset.contents:
            header, *lines = read(content)
            headers.add(tuple(header))
            ends = [sorted(map(int, line[:2])) for line in lines]
            nodes = {end for pair in ends for end in pair}
            assert 12 <= len(nodes) <= 30 and nodes == set(range(1, len(nodes) + 1))
            assert len({tuple(pair) for pair in ends}) == len(lines) and all(one != other for one, other in ends)
            assert all(float(line[2]) > 0 for line in lines if len(line) > 2)
            lengths.add((len(nodes), len(lines)))
        # How many links there are follows from how many nodes there are.
        assert len(lengths) == len({nodes for nodes, _ in lengths}) <= 3
    assert headers == {("source", "target"), ("source", "target", "weight")}


def test_growth_comes_near_what_is_wanted():
    draws = generator(5)
    factors = graph.factors(scenarios()[0], ROWS, draws)
    wanted = number_values(NUMBERS, factors, (), draws)
    wanted |= {name: codes(factors, name, levels, draws) for name, levels in CATEGORIES.items()}
    off = []
    for row, network in enumerate(grow(np.full(ROWS, 28), wanted, draws)):
        joined = np.zeros((network.nodes, network.nodes), dtype=int)
        for one, other in network.links:
            joined[one, other] = joined[other, one] = 1
        assert len(network.links) == round(1.65 * 28) == joined.sum() / 2
        assert sum(network.crossing) == round(wanted[CROSSING][row])
        assert network.parts.count("tail") == round(wanted[TAIL][row])
        off.append(abs(np.trace(joined @ joined @ joined) // 6 - round(wanted[TRIANGLES][row])))
    assert np.mean(off) < 1


def test_halves_of_two_cliques():
    nodes = np.array([3, 1, 4, 15, 9, 2, 6, 5])
    joined = np.zeros((16, 16), dtype=int)
    for one, other in [*itertools.combinations(nodes[::2], 2), *itertools.combinations(nodes[1::2], 2), (3, 1)]:
        joined[one, other] = joined[other, one] = 1
    assert set(split_halves(joined, nodes)) in (set(nodes[::2]), set(nodes[1::2]))


def test_the_notes_say_how_long_the_files_are():
    _, rendered = drawn(1, ["self_loops", "heavy_weights"])
    counts = [len(read(content)) - 1 for content in rendered.assets[0].contents]
    assert f"{min(counts)} to {max(counts)} lines" in rendered.notes[0] and rendered.notes[1].startswith(
        "`weight` is the "
    )
