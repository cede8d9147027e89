"""Networks of procedural tasks: they have the properties asked for, can be measured again, suffer from mutations."""

import csv
import functools
import io
import itertools

import numpy as np
import pytest
from challenge_builders import rule_of
from conftest import mostly_slow

from mletools.tasks.procedural.draw import scenarios
from mletools.tasks.procedural.media import graph
from mletools.tasks.procedural.media.common import codes, number_values
from mletools.tasks.procedural.media.graph import CATEGORIES, CROSSING, NUMBERS, TAIL, TRIANGLES, grow, split_halves
from mletools.tasks.procedural.rule import shown
from mletools.tasks.procedural.world import Number
from mletools.tasks.table import generator

ROWS = 60
SEEDS = range(6)


def drawn(seed, mutations=(), rows=ROWS):
    """(factors, rendered) of a scenario that the seed picks."""
    draws = generator(seed)
    scenario = scenarios()[seed * 5 % len(scenarios())]
    factors = graph.factors(scenario, rows, draws)
    return factors, graph.render(scenario, factors, dict.fromkeys(mutations, 0.8), draws)


@functools.cache
def clean_drawn(seed):
    return drawn(seed)


def agreement(factors, rendered):
    """Of each factor: the correlation with the truth, or the share of rows with the right level."""
    return {
        factor.name: float(
            np.corrcoef(rendered.measured[factor.name], factor.place)[0, 1]
            if isinstance(factor, Number)
            else np.mean(rendered.measured[factor.name] == factor.code)
        )
        for factor in factors
    }


def read(content):
    return list(csv.reader(io.StringIO(content.decode())))


def test_the_same_seed_gives_the_same_files():
    for seed in (0, 1):
        (_, first), (_, second) = drawn(seed, graph.MUTATIONS), drawn(seed, graph.MUTATIONS)
        assert first.assets == second.assets
        assert np.array_equal(first.plain, second.plain)
        assert all(np.array_equal(first.measured[name], second.measured[name]) for name in first.measured)


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
        assert rendered.plain.shape[1] <= 60 and np.isfinite(rendered.plain).all()
    assert headers == {("source", "target"), ("source", "target", "weight")}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clean_network_shows_its_properties(seed):
    factors, rendered = clean_drawn(seed)
    assert 5 <= len(factors) <= 7
    assert min(agreement(factors, rendered).values()) > 0.75


@pytest.mark.parametrize("mutation", mostly_slow(graph.MUTATIONS))
@pytest.mark.slow
def test_a_mutation_spoils_files_and_never_helps(mutation):
    clean, spoiled = [], []
    for seed in range(4):
        factors, rendered = clean_drawn(seed)
        same, worse = drawn(seed, [mutation])
        assert rendered.assets != worse.assets
        assert all(read(content) for content in worse.assets[0].contents)
        clean += agreement(factors, rendered).values()
        spoiled += agreement(same, worse).values()
    assert 0.6 < np.mean(spoiled) < np.mean(clean) + 0.01


@pytest.mark.slow
def test_file_sizes_do_not_reveal_the_factors():
    found = []
    for seed in SEEDS:
        factors, rendered = drawn(seed, rows=150)
        sizes = [len(content) for content in rendered.assets[0].contents]
        found += [abs(np.corrcoef(sizes, each.place)[0, 1]) for each in factors if isinstance(each, Number)]
    assert np.mean(found) < 0.12


def test_the_target_is_not_in_the_files():
    """The same factors and the same draws: no rule or target reaches the files."""
    draws = generator(3)
    factors = graph.factors(scenarios()[0], ROWS, draws)
    first = graph.render(scenarios()[0], factors, {}, generator(4))
    rule_of(factors, 3, draws)
    assert first.assets == graph.render(scenarios()[0], factors, {}, generator(4)).assets


@pytest.mark.slow
def test_right_features_beat_plain_ones():
    from sklearn.ensemble import ExtraTreesRegressor

    plain, right = [], []
    for seed in range(6):
        factors, rendered = drawn(seed, ["self_loops", "duplicate_edges"], rows=160)
        rule = rule_of(factors, 3, generator(seed + 100))
        signal = rule.of(shown(factors))
        terms = np.column_stack([term.of(rendered.measured) for term in rule.terms])
        for features, scores in ((rendered.plain, plain), (terms, right)):
            model = ExtraTreesRegressor(25, random_state=0).fit(features[:100], signal[:100])
            scores.append(model.score(features[100:], signal[100:]))
    assert np.mean(right) > np.mean(plain) + 0.15


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
