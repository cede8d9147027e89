"""Series of procedural tasks: files that csv reads, factors that can be fitted again, futures and gaps with a rule."""

import csv
import io

import numpy as np
import pytest

from mletools.tasks.procedural.draw import scenarios
from mletools.tasks.procedural.media import series
from mletools.tasks.procedural.media.series import FAMILIES, LENGTHS
from mletools.tasks.table import generator

ROWS = 80


def of_season(season):
    return next(scenario for scenario in scenarios() if scenario["series"]["season"] == season)


def drawn(seed, mutations=None, season=12):
    draws, scenario = generator(seed), of_season(season)
    factors = series.factors(scenario, ROWS, draws)
    return factors, series.render(scenario, factors, mutations or {}, draws)


def lines(content):
    return list(csv.DictReader(io.StringIO(content.decode("utf-8"))))


@pytest.mark.parametrize("season", list(LENGTHS))
def test_a_file_has_a_line_a_step_with_values_in_the_range(season):
    entry = of_season(season)["series"]
    _, rendered = drawn(1, season=season)
    assert len(rendered.assets[0].contents) == ROWS
    for content in rendered.assets[0].contents:
        found = lines(content)
        assert list(found[0]) == ["step", entry["name"]]
        assert [line["step"] for line in found] == [str(step) for step in range(LENGTHS[season])]
        values = [float(line[entry["name"]]) for line in found]
        assert min(values) >= entry["low"] and max(values) <= entry["high"]
        assert all(line[entry["name"]] == f"{float(line[entry['name']]):.{entry['decimals']}f}" for line in found)


def test_a_unit_change_is_said_in_a_column_and_a_doubled_step_is_corrected_by_its_later_line():
    entry = of_season(12)["series"]
    clean = [lines(content) for content in drawn(4)[1].assets[0].contents]
    units = [lines(content) for content in drawn(4, {"unit_change": 1.0})[1].assets[0].contents]
    assert {line["unit"] for found in units for line in found} == {entry["unit"], f"1/1000 {entry['unit']}"}
    doubled = [lines(content) for content in drawn(4, {"duplicate_steps": 1.0})[1].assets[0].contents]
    assert sum(map(len, doubled)) > sum(map(len, clean))
    for found, truth in zip(doubled, clean, strict=True):
        last = {line["step"]: line[entry["name"]] for line in found}
        assert last == {line["step"]: line[entry["name"]] for line in truth}


def skill(guess, y):
    return 1 - ((guess - y) ** 2).mean() / y.var()


def learnt(features, y):
    """R2 of a small forest on the last third of the rows."""
    from sklearn.ensemble import ExtraTreesRegressor

    cut, width = len(y) * 2 // 3, features.shape[2]
    model = ExtraTreesRegressor(10, min_samples_leaf=2, random_state=0)
    model.fit(features[:cut].reshape(-1, width), y[:cut].ravel())
    return skill(model.predict(features[cut:].reshape(-1, width)), y[cut:].ravel())


@pytest.mark.parametrize("problem", ["forecasting", "reconstruction"])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_features_from_the_rule_predict_the_values_better_than_plain_ones(family, problem, monkeypatch):
    monkeypatch.setattr(series, "FAMILIES", {family: FAMILIES[family]})
    found = []
    for seed, faults in ((1, {}), (2, {"missing_steps": 0.5, "duplicate_steps": 0.5})):
        made = series.DENSE[problem](of_season(12), 60, faults, 0.1, generator(seed))
        y = made.target.y
        assert made.target.problem == problem and made.families == [family]
        assert made.plain.shape[:2] == made.right.shape[:2] == y.shape == made.target.known.shape
        assert 6 <= y.shape[1] <= 10 and y.min() > 0
        assert np.isfinite(made.plain).all() and np.isfinite(made.right).all()
        assert skill(made.target.known, y) > 0.9
        found.append((learnt(made.right, y), learnt(made.plain, y)))
    right, plain = np.mean(found, axis=0)
    assert right > 0.75
    assert right > plain + 0.03


def test_a_forecast_s_files_end_before_the_steps_wanted_but_for_what_is_planned(monkeypatch):
    entry = of_season(7)["series"]
    for family in ("lags", "driver"):
        monkeypatch.setattr(series, "FAMILIES", {family: FAMILIES[family]})
        made = series.DENSE["forecasting"](of_season(7), 60, {}, 0.1, generator(1))
        units = made.target.y.shape[1]
        assert [column.name for column in made.target.columns] == [f"h_{at}" for at in range(1, units + 1)]
        for content in made.rendered.assets[0].contents:
            found = lines(content)
            assert all(line[entry["name"]] for line in found[: LENGTHS[7]])
            assert not any(line[entry["name"]] for line in found[LENGTHS[7] :])
            assert len(found) == LENGTHS[7] + (units if family == "driver" else 0)


def test_a_gap_is_empty_at_the_steps_that_the_targets_name():
    entry = of_season(24)["series"]
    made = series.DENSE["reconstruction"](
        of_season(24), 60, {"time_jitter": 0.6, "missing_steps": 0.6}, 0.1, generator(2)
    )
    steps = [column.meaning.rsplit(" ", 1)[1] for column in made.target.columns]
    for content in made.rendered.assets[0].contents:
        assert [line["step"] for line in lines(content) if not line[entry["name"]]] == steps
