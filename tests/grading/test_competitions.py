"""Every competition that the package grades by record really is graded: made-up answers, perfect, random, broken files.

The answers look as the record says that the benchmark's do. Not covered: whether the benchmark's do look like that.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any, TypedDict, get_type_hints

import msgspec
import pytest
from competition_builders import ENTRIES, RECORDS, ROWS, Draws, Made, guess_of, made_of, record_of

from mletools.grading import answer_spec, check_task, parse_answers
from mletools.grading.metrics import METRICS
from mletools.records.task import Task

FIELDS = {
    name: kind
    for name, kind in get_type_hints(Task, include_extras=True).items()
    if re.match("submission|metric|answer", name)
}
GRADING = TypedDict("GRADING", FIELDS)


@pytest.fixture(params=RECORDS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    return made_of(request.param, tmp_path)


def test_a_perfect_submission_is_best_and_a_random_one_is_worse(made: Made) -> None:
    check_task(made.record)
    metric = METRICS[made.record["metric"]["name"]]
    perfect, guess = made.score(made.rows(made.perfect)), made.score(made.rows(made.guess))
    assert metric.best is None or perfect == pytest.approx(metric.best, abs=1e-9)
    assert perfect < guess if metric.lower_is_better else perfect > guess


def test_only_rows_that_count_have_a_say_and_their_order_has_none(made: Made) -> None:
    rows, width = made.rows(made.guess), len(made.ids[0])
    score = made.score(rows)
    of_id: dict[Any, Any] = {}
    for row in rows:
        of_id.setdefault(tuple(row[:width]), []).append(row)
    queues = {key: iter(each) for key, each in of_id.items()}  # rows of one id keep their order
    assert made.score([next(queues[tuple(rows[at][:width])]) for at in Draws(0).permutation(len(rows))]) == score
    content, where = (made.folder / "answers.csv").read_bytes(), made.record["metric"].get("where", [])
    counts = parse_answers(content, answer_spec(made.record), where).counts
    assert made.left_out == set(range(ROWS)) - set(range(ROWS) if counts is None else counts.tolist())
    assert bool(made.left_out) == bool(where)
    other = made.perfect.copy()
    for at in made.left_out:
        other[at] = guess_of(made.record, [], Draws(at))
    assert made.score(made.rows(other)) == made.score(made.rows(made.perfect))


def test_what_the_record_rules_out_is_refused(made: Made) -> None:
    spec, rows = made.record["submission"], made.rows(made.guess)
    several, width = spec.get("several_rows", False), len(spec["id"])
    fewer = [row for row in rows if row[:width] != made.ids[-1]] if several else rows[:-1]
    assert "rows are missing" in (made.verdict(fewer).reason or "")
    if not several:
        assert re.search("appears twice|not in the test set", made.verdict([*rows, rows[3]]).reason or "")
    foreign = [*rows, ["foreign"] * width + rows[0][width:]]
    if spec.get("extra_rows") == "ignore":
        assert made.score(foreign) == made.score(rows)
    else:
        assert "not in the test set" in (made.verdict(foreign).reason or "")
    assert made.verdict(rows, "more").valid == (spec.get("extra_columns", "ignore") == "ignore")
    empty = made.rows([[[""] * len(spec["target"])], *made.guess[1:]])
    assert made.verdict(empty).valid == spec.get("empty_ok", False)


def test_the_list_of_competitions_is_in_order() -> None:
    names = [(each["benchmark"], each["competition"]) for each in ENTRIES]
    assert names == sorted(names, key=lambda each: (each[0], each[1].lower())) and len(set(names)) == len(names)
    counts = Counter((each["benchmark"], each["support"]) for each in ENTRIES)
    assert {support for _, support in counts} <= {"record", "code", "no"}
    assert Counter(benchmark for benchmark, _ in names) == {"mle-bench": 82, "mle-dojo": 202}
    assert counts["mle-bench", "record"] >= 74 and counts["mle-dojo", "record"] >= 190
    assert all(each.get("note") for each in ENTRIES if each["support"] != "record")


def test_the_list_of_competitions_follows_the_schema_of_tasks() -> None:
    about = {"benchmark", "competition", "split", "support", "note", "sample_submission"}
    for entry in ENTRIES:
        assert entry.keys() <= FIELDS.keys() | about
        for part in ("submission", "metric"):
            assert entry.get(part, {}).keys() <= FIELDS[part].__annotations__.keys()
        if entry["support"] == "record":
            msgspec.convert(record_of(entry), GRADING)
