"""Any value in any field of a rollout: mle-show, the page, mle-report, mle-filter and mle-classify-ideas refuse the line, or
give what their schemas say; never a traceback."""

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hostile_values as hostile
import pytest
import search_records
import shown_rollouts
from conftest import run_command

from mletools.base.errors import ToolError
from mletools.base.jsonl import dumps, loads
from mletools.commands.filter import hand_in
from mletools.filters import FilterOptions, Selection
from mletools.filters.measures import measured
from mletools.filters.steps import cut
from mletools.grading.grader import HumanRanks
from mletools.records import schema
from mletools.reports import show, tables
from mletools.reports.comparison import compare
from mletools.reports.page import cells, piece
from mletools.reports.runs import RunSet, graded_run
from mletools.reports.search import is_search
from mletools.reports.summary import summaries
from mletools.scaffolds import idea_types

BRIEF = show.View()
NOWHERE = HumanRanks(Path("/nonexistent"))
GRADE = {**shown_rollouts.grade(1.0, "gold"), "human_rank": 0.5, "human_rank_rule": "dojo", "normalised_score": 50.0}
NODES = (
    search_records.node(0, (), 0.5, 1.0),
    search_records.node(
        1, (0,), 0.4, 2.0, scores={"impact": 7.0}, recalled=[0],
        considered=[{"text": "a", "component": "Model", "challenge": None, "origin": None, "scores": {"impact": 7.0}}],
        trials=[{"debug": True, "status": "ok", "problem": None, "estimated_s": 3.0, "duration_s": 1.0}],
    ),
)  # fmt: skip
RECORDS: dict[str, dict[str, Any]] = {
    "single": {**shown_rollouts.single(), "grade": GRADE, "reward": 1.0},
    "in turns": {**shown_rollouts.react(), "reward": 1.0},
    "traces": {**shown_rollouts.react(), "trace": "reset", "grade": GRADE, "reward": 1.0},
    "with an ideator": {**shown_rollouts.codeact(), "grade": GRADE, "reward": 1.0},
    "search": {**search_records.search("s0", *NODES, chosen=1), "grade": GRADE, "reward": 1.0},
}


def showing(record: dict[str, Any]) -> None:
    for line in [*show.lines(record, BRIEF), *(show.graph(record, BRIEF) if is_search(record) else ())]:
        assert line.plain.replace("\t", "").isprintable()
    show.row(record)


def page(record: dict[str, Any]) -> None:
    loads(dumps(cells(graded_run(record), "x", (0, 0))))
    assert "<script" not in piece(record) and "<img" not in piece(record)


def report(record: dict[str, Any]) -> None:
    sets = RunSet("x"), RunSet("y")
    for each in sets:
        each.add(graded_run(record))
    rows = [loads(dumps(row)) for row in summaries(sets)]
    tables.report(rows)
    for row in (*rows, loads(dumps(compare(*sets)))):
        schema.check(row, "summary", "comparison")


def choosing(record: dict[str, Any]) -> None:
    if not {"grade", "reward"} <= record.keys():
        return  # refused before anything is measured
    for options in (FilterOptions(), FilterOptions(keep_invalid=True, tau_adv=0.1, tau_val=0.1)):
        selection = Selection(options)
        for decision in (*selection.add(record, measured(record, options, NOWHERE)), *selection.flush()):
            dumps(decision.notes)


def steps(record: dict[str, Any]) -> None:
    for step in cut(record, hand_in, NOWHERE).steps:
        schema.check(loads(dumps(step)), "rollout")


def ideas(record: dict[str, Any]) -> None:
    for posed in idea_types.posed(record):
        idea_types.by_words(posed.idea)


COMMANDS: tuple[Callable[[dict[str, Any]], None], ...] = (showing, page, report, choosing, steps, ideas)


def survived(kind: str, one_in: int) -> int:
    """Give one in so many of the hostile lines to every command; how many lines the schema let through."""
    record, passed = RECORDS[kind], 0
    for path, name, line in lines(record, one_in):
        try:
            outcome, read = hostile.outcome(line, ("rollout",), lambda record: record)
        except Exception as error:
            raise AssertionError(f"{kind}: {path}: {name}: at the door") from error
        if outcome == "refused":
            assert read and "\n" not in read, (path, name)
            continue
        passed += 1
        for command in COMMANDS:
            try:
                command(read)
            except ToolError as error:
                assert str(error), (path, name)
            except Exception as error:
                raise AssertionError(f"{kind}: {path}: {name}: {command.__name__}") from error
    return passed


def lines(record: dict[str, Any], one_in: int) -> Iterator[tuple[Any, str, str]]:
    for path in hostile.places(record):
        for name in ("left out", *hostile.VALUES):
            if zlib.crc32(f"{path} {name}".encode()) % one_in == 0:
                value = hostile.VALUES.get(name)
                line = hostile.without(record, path) if value is None else hostile.with_value(record, path, value)
                yield path, name, line


@pytest.mark.parametrize("kind", RECORDS)
def test_some_hostile_values_in_every_part(kind: str) -> None:
    assert survived(kind, 400) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", RECORDS)
def test_hostile_values_in_every_field(kind: str) -> None:
    assert survived(kind, 9) > 100


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("usage", "usd"), "10**400"), (("grade", "thresholds", "median"), "a word"), (("group_size",), "a billion"),
        (("turns", 1, "node", "trials", 0, "estimated_s"), "a word"), (("turns", 1, "node", "scores", "impact"), "900 deep"),
        (("turns", 1, "node", "considered", 0, "text"), "null"), (("search", "components", "planning"), "zero"),
        (("grade", "reward", "rule"), "list of null"), (("usage", "completion_tokens"), "-1e308"),
    ],
)  # fmt: skip
def test_values_that_once_broke_a_command_are_refused_at_the_door(path: Any, value: str) -> None:
    line = hostile.with_value(RECORDS["search"], path, hostile.VALUES[value])
    assert hostile.outcome(line, ("rollout",), lambda record: record)[0] == "refused"


def test_the_line_is_named(tmp_path: Path) -> None:
    good, bad = json.dumps(RECORDS["search"]), hostile.with_value(RECORDS["search"], ("usage", "usd"), "1" + "0" * 400)
    (tmp_path / "x.jsonl").write_text(f"{good}\n{bad}\n")
    for command in ("mle-show", "mle-report", "mle-filter"):
        done = run_command(command, "x.jsonl", cwd=tmp_path, check=False)
        assert done.returncode == 1
        assert (
            done.stderr.decode().splitlines()[-1] == f"{command}: x.jsonl:2: 1{'0' * 19}... is too large for a number"
        )


def test_a_program_of_one_line_begins_no_section_of_the_page() -> None:
    record = {**RECORDS["single"], "code": "── what was handed in ─────"}
    assert piece(record).count("<details") == piece(RECORDS["single"]).count("<details")
