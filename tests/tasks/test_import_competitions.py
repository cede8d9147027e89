"""mle-import takes every known competition in its benchmark's layout, with answers as the benchmarks' preparation writes them.

Answers are made up (test_competitions): votes, truth values, whole numbers with a decimal point. Not covered: real data.
"""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from competition_builders import ENTRIES, Draws, answers_of, guess_of, record_of, table

from mletools.grading import metrics
from mletools.grading.answers import answer_spec
from mletools.tasks.importing.layouts import PREPARED
from mletools.tasks.importing.options import Candidate, ImportOptions
from mletools.tasks.importing.prepared import HABITS
from mletools.tasks.importing.task import import_task

NAMES = [f"{each['benchmark']}/{each['competition']}" for each in ENTRIES]
BY_NAME = dict(zip(NAMES, ENTRIES, strict=True))
TRUTH = {"0": "False", "1": "True"}
GRADER = {
    "mle-bench": "def grade(submission, answers):\n    return 0.0\n",
    "mle-dojo": "class Metrics:\n    pass\n",
}


# What pandas writes may differ in form from what it read: 0 and 1 as truth values, whole numbers with a decimal point.


def as_truth_values(cells: list[str]) -> list[str]:
    return [TRUTH[cell] for cell in cells] if {"0", "1"} == set(cells) else cells


def with_decimal_points(cells: list[str]) -> list[str]:
    return [f"{cell}.0" for cell in cells] if all(cell.isdigit() for cell in cells) else cells


def unchanged(cells: list[str]) -> list[str]:
    return cells


def folder_of(name: str, root: Path, change: Callable[[list[str]], list[str]]) -> Path:
    """A prepared competition as its benchmark leaves it, the cells of the answers changed."""
    entry = BY_NAME[name]
    columns, sample = tables_of(entry, Draws(zlib.crc32(name.encode())), change)
    folder = root / entry["competition"]
    public, private = (folder / part for part in PREPARED[entry["benchmark"]])
    answers = private / entry.get("answers", "test.csv")
    files = {
        answers: table([*columns], list(zip(*columns.values(), strict=True))),
        public / entry.get("sample_submission", "sample_submission.csv"): sample,
        folder / HABITS[entry["benchmark"]].description[0]: b"# What to do\n",
        folder / HABITS[entry["benchmark"]].grader[0]: GRADER[entry["benchmark"]].encode(),
    }
    if answers.suffix == ".jsonl":
        files[answers] = b'{"id": "a"}\n{"id": "b"}\n'
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def tables_of(
    entry: dict[str, Any], draws: Draws, change: Callable[[list[str]], list[str]]
) -> tuple[dict[str, list[str]], bytes]:
    """(the columns of made-up answers, a sample submission)."""
    record = record_of({"submission": {}, **entry})
    ids, targets = record["submission"]["id"], record["submission"]["target"]
    if entry["support"] != "record":
        columns = {each: ["a", "b"] for each in ids} | {each: ["1", "0"] for each in targets}
        return columns, table(
            [*ids, *targets], [["a"] * len(ids) + ["0"] * len(targets), ["b"] * len(ids) + ["0"] * len(targets)]
        )
    columns, _ = answers_of(record, draws)
    spec = answer_spec(record)
    if spec["parse"] in ("number", "label") and not {"positive", "classes"} & entry["metric"]["params"].keys():
        columns |= {each: change(columns[each]) for each in spec["target"]}
    guesses = [
        guess_of(record, list(cells), draws) for cells in zip(*(columns[each] for each in spec["target"]), strict=True)
    ]
    keys = zip(*(columns[each] for each in ids), strict=True)
    rows = [[*key, *cells] for key, each in zip(keys, guesses, strict=True) for cells in each]
    return columns, table([*ids, *targets], rows)


def imported(name: str, root: Path, change: Callable[[list[str]], list[str]]) -> dict[str, Any]:
    entry = BY_NAME[name]
    candidate = Candidate(entry["benchmark"], entry["competition"], folder_of(name, root, change))
    options = ImportOptions(thresholds="none", lower_is_better=entry["metric"]["lower_is_better"])
    return import_task(candidate, options, root / "tasks")[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "change",
    [unchanged, *(pytest.param(each, marks=pytest.mark.slow) for each in (as_truth_values, with_decimal_points))],
)
def test_every_known_competition_is_imported(
    name: str, tmp_path: Path, change: Callable[[list[str]], list[str]]
) -> None:
    task = imported(name, tmp_path, change)
    entry = BY_NAME[name]
    assert task["provenance"]["graded_by"] == entry["support"]
    if entry["support"] != "record":
        return
    sanity, metric = task["provenance"]["sanity"], metrics.find(entry["metric"]["name"])
    tried = sanity["perfect_submission"]
    differ = any(key.startswith("answer_") and key != "answer_target" for key in entry)
    assert isinstance(tried, str) == (metric.best is None or differ or bool(entry["submission"].get("several_rows")))
    assert isinstance(tried, str) or tried == pytest.approx(metric.best, abs=1e-5)
    assert isinstance(sanity.get("sample_submission", 0.0), float)  # tried where it has a usual name


def test_votes_and_truth_values_are_compared_as_the_grader_does(tmp_path: Path) -> None:
    for name, best in (("hms-harmful-brain-activity-classification", 0.0), ("playground-series-s3e23", 1.0)):
        task = imported(f"mle-dojo/{name}", tmp_path, as_truth_values)
        assert task["provenance"]["sanity"]["perfect_submission"] == best
