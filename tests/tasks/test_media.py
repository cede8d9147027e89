"""What every medium of procedural tasks promises: repeatable files, factors that can be measured again, faults that hurt."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from challenge_builders import rule_of
from conftest import mostly_slow

from mletools.tasks.procedural.draw import scenarios
from mletools.tasks.procedural.media import audio, graph, image, series, text
from mletools.tasks.procedural.media.series import LENGTHS
from mletools.tasks.procedural.rule import shown
from mletools.tasks.procedural.world import Number
from mletools.tasks.table import generator


@dataclass(frozen=True)
class Medium:
    """reached: the agreement of what is measured with the truth that is reached at least, of each factor over `seeds` on
    average, or of all in every one. faults: seeds, strength and the agreement that is left at least."""

    module: ModuleType
    scenario: Callable[[int], Mapping[str, Any]]
    reached: Mapping[str, float] | float
    seeds: range
    faults: tuple[range, float, float]
    rows: int = 80


def various(seed):
    return scenarios()[seed * 5 % len(scenarios())]


def of_season(season):
    return next(each for each in scenarios() if each["series"]["season"] == season)


COLOURED = next(each for each in scenarios() if each["image"]["channels"] == 3)  # so that all factors are drawn
MEDIA = {
    "audio": Medium(
        audio,
        lambda seed: scenarios()[0],
        {
            "audio_pitch": 0.95,
            "audio_glide": 0.95,
            "audio_tremolo_rate": 0.9,
            "audio_click_count": 0.8,
            "audio_noise_share": 0.9,
            "audio_overtones": 0.9,
            "audio_burst_time": 0.9,
            "audio_envelope": 0.95,
        },
        range(3),
        (range(1, 2), 0.9, 0.0),
    ),
    "series": Medium(
        series,
        lambda seed: of_season(list(LENGTHS)[seed % 3]),
        {
            "series_trend": 0.85,
            "series_season_size": 0.9,
            "series_shift_size": 0.8,
            "series_scatter": 0.8,
            "series_season_phase": 0.9,
            "series_shift_step": 0.8,
            "series_memory": 0.7,
            "series_spike_count": 0.85,
            "series_late_scatter": 0.75,
            "series_season_shape": 0.85,
        },
        range(6),
        (range(1, 2), 0.9, 0.0),
    ),
    "graph": Medium(graph, various, 0.75, range(6), (range(4), 0.8, 0.6), rows=60),
    "text": Medium(text, various, 0.87, range(6), (range(4), 0.8, 0.7), rows=60),
    "image": Medium(
        image,
        lambda seed: COLOURED,
        {
            "image_stripe_frequency": 0.8,
            "image_stripe_angle": 0.8,
            "image_stripe_contrast": 0.85,
            "image_spot_count": 0.8,
            "image_spot_radius": 0.7,
            "image_grain": 0.9,
            "image_side_balance": 0.9,
            "image_mirror_symmetry": 0.75,
            "image_tint": 0.9,
            image.MARKER: 0.85,
            image.QUADRANT: 0.9,
        },
        range(10),
        (range(3), 1.0, 0.0),
        rows=50,
    ),
}
FAULTS = [
    pytest.param(name, fault, marks=[] if len(medium.faults[0]) == 1 and at < 2 else [pytest.mark.slow])
    for name, medium in MEDIA.items()
    for at, fault in enumerate(medium.module.MUTATIONS)
]


def drawn(name, seed, mutations=None, rows=0):
    """(factors, rendered) of a scenario of the medium."""
    medium, draws = MEDIA[name], generator(seed)
    scenario = medium.scenario(seed)
    factors = medium.module.factors(scenario, rows or medium.rows, draws)
    return factors, medium.module.render(scenario, factors, mutations or {}, draws)


def files(rendered):
    """Everything that a solver reads."""
    return [*(cells for cells in rendered.cells.values()), *(asset.contents for asset in rendered.assets)]


@functools.cache
def agreements(name, seeds, fault="", strength=0.0):
    """{factor: [of each seed that drew it the correlation with the truth, or the share of rows with the right level]}"""
    found = {}
    for seed in seeds:
        factors, rendered = drawn(name, seed, {fault: strength} if fault else {})
        for factor in factors:
            seen = rendered.measured[factor.name]
            right = (
                np.corrcoef(seen, factor.place)[0, 1] if isinstance(factor, Number) else (seen == factor.code).mean()
            )
            found.setdefault(factor.name, []).append(float(right))
    return found


def overall(found):
    return np.mean([np.mean(values) for values in found.values()])


@pytest.mark.parametrize("name", MEDIA)
def test_a_seed_gives_the_same_files_and_features_again(name):
    every = dict.fromkeys(MEDIA[name].module.MUTATIONS, 0.7)
    for seed in (0, 3):
        (_, one), (_, two) = drawn(name, seed, every, 12), drawn(name, seed, every, 12)
        assert files(one) == files(two)
        assert one.plain.tobytes() == two.plain.tobytes()
        assert all(np.array_equal(one.measured[factor], two.measured[factor]) for factor in one.measured)


@pytest.mark.parametrize("name", MEDIA)
def test_factors_are_at_least_five_and_lie_inside_their_range(name):
    for seed in range(10):
        factors = MEDIA[name].module.factors(scenarios()[seed], 50, generator(seed))
        assert 5 <= len(factors) <= (9 if name == "image" else 7)
        for factor in factors:
            if isinstance(factor, Number):
                assert factor.place.min() >= 0 and factor.place.max() <= 1 and factor.place.std() > 0.15
            else:
                assert set(factor.code) == set(range(len(factor.levels)))


@pytest.mark.parametrize("name", ["audio", "text", "series", *mostly_slow(["graph", "image"], 0)])
def test_every_factor_can_be_measured_in_clean_files(name):
    found, reached = agreements(name, MEDIA[name].seeds), MEDIA[name].reached
    if isinstance(reached, float):
        assert min(value for values in found.values() for value in values) > reached
    else:
        assert set(found) == set(reached)
        assert {factor: values for factor, values in found.items() if np.mean(values) < reached[factor]} == {}


@pytest.mark.parametrize("name, fault", FAULTS)
def test_a_fault_changes_the_files_and_helps_no_measurement(name, fault):
    seeds, strength, least = MEDIA[name].faults
    (factors, clean), (same, spoilt) = drawn(name, seeds[0]), drawn(name, seeds[0], {fault: strength})
    assert [each.name for each in factors] == [each.name for each in same]
    assert files(clean) != files(spoilt) and all(map(len, files(spoilt)[0]))
    assert np.isfinite(spoilt.plain).all()
    left = overall(agreements(name, seeds, fault, strength))
    assert least < left < overall(agreements(name, seeds)) + 0.01


@pytest.mark.parametrize("name", MEDIA)
def test_plain_features_are_few_and_finite_even_if_all_goes_wrong(name):
    _, rendered = drawn(name, 2, dict.fromkeys(MEDIA[name].module.MUTATIONS, 1.0))
    assert rendered.plain.shape[0] == MEDIA[name].rows and rendered.plain.shape[1] <= 60
    assert np.isfinite(rendered.plain).all()
    assert all(np.isfinite(values).all() for values in rendered.measured.values())


@pytest.mark.parametrize("name", MEDIA)
def test_files_follow_the_factors_alone(name):
    """Neither a rule nor the scenario's targets play a part in the files."""
    draws, scenario = generator(3), MEDIA[name].scenario(0)
    factors = MEDIA[name].module.factors(scenario, 20, draws)
    first = MEDIA[name].module.render(scenario, factors, {}, generator(4))
    rule_of(factors, 3, draws)
    other = {**scenario, "quantity": {}, "binary": {}, "classes": {}, "tags": {}, "ranking": {}}
    assert files(first) == files(MEDIA[name].module.render(other, factors, {}, generator(4)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["graph", "text"])
def test_sizes_do_not_reveal_the_factors(name):
    found = []
    for seed in range(6):
        factors, rendered = drawn(name, seed, rows=150)
        sizes = [len(content.split() if name == "text" else content) for content in files(rendered)[0]]
        found += [abs(np.corrcoef(sizes, each.place)[0, 1]) for each in factors if isinstance(each, Number)]
    # 150 rows without any relation give 0.065 on average.
    assert np.mean(found) < 0.12


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, faults", [("graph", ["self_loops", "duplicate_edges"]), ("text", ["typos", "dropped_words"])]
)
def test_right_features_beat_plain_ones(name, faults):
    from sklearn.ensemble import ExtraTreesRegressor

    plain, right = [], []
    for seed in range(6):
        factors, rendered = drawn(name, seed, dict.fromkeys(faults, 0.8), 160)
        rule = rule_of(factors, 3, generator(seed + 100))
        signal = rule.of(shown(factors))
        terms = np.column_stack([term.of(rendered.measured) for term in rule.terms])
        for features, scores in ((rendered.plain, plain), (terms, right)):
            model = ExtraTreesRegressor(25, random_state=0).fit(features[:100], signal[:100])
            scores.append(model.score(features[100:], signal[100:]))
    assert np.mean(right) > np.mean(plain) + 0.15
