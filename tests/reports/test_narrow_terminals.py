"""On a terminal of 80 columns no table is wider; a pipe and a file get every column in one table."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from case_inputs import compared, listed
from conftest import run_command
from report_agents import BOARD, agent
from search_records import verdict
from terminal import on_terminal
from test_report_search import searches

from mletools.base.columns import blocks, middle_cut
from mletools.grading.one_submission import lines as verdict_lines
from mletools.reports.idea_types import Tally, per_model
from mletools.reports.table import Table
from mletools.sandbox.selftest import Finding
from mletools.sandbox.selftest import table as selftest_table
from mletools.scaffolds.idea_types import TYPES
from mletools.tasks.show import show

LONG = "learning-agency-lab-automated-essay-scoring-2-0123456789abcdef"


def named(rollouts: Sequence[dict[str, Any]], name: str = LONG) -> list[dict[str, Any]]:
    """The rollouts with long names of tasks."""
    return [{**one, "task": {**one["task"], "id": f"{one['task']['id']}-{name}", "name": name}} for one in rollouts]


def written(path: Path, rollouts: Sequence[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(one) + "\n" for one in rollouts))
    return path.name


def turns() -> list[dict[str, Any]]:
    return [agent("a", 0, *(("python", verdict(0.1 * at, None, at)) for at in range(9)), **BOARD)]


@pytest.mark.parametrize(
    ("rollouts", "options"),
    [
        (named(compared()), ()),
        (named(compared()), ("--compare",)),
        (searches(), ()),
        (searches(), ("--over-time",)),
        (turns(), ("--over-turns",)),
    ],
    ids=["tables", "compare", "searches", "over-time", "over-turns"],
)
def test_a_report_fits(tmp_path: Path, rollouts: list[dict[str, Any]], options: tuple[str, ...]) -> None:
    half = (len(rollouts) + 1) // 2
    sets = [
        written(tmp_path / f"set-{name}.jsonl", part)
        for name, part in zip("ab", (rollouts[:half], rollouts[half:] or rollouts), strict=True)
    ]
    text = on_terminal("mle-report", "-q", *options, *sets, cwd=tmp_path).decode()
    assert max(map(len, text.split("\r\n"))) <= 80, text
    on_terminal("mle-report", "-q", *options, *sets, "-o", "file", cwd=tmp_path)
    piped = run_command("mle-report", "-q", *options, *sets, cwd=tmp_path).stdout
    assert (tmp_path / "file").read_bytes() == piped
    cells = {cell for line in piped.decode().split("\n") for cell in line.split("  ") if cell.strip().isnumeric()}
    assert all(cell.strip() in text for cell in cells)


def test_rollouts_listed_fit(tmp_path: Path) -> None:
    rollouts = [{**one, "id": f"{one['id']}{'0' * 16}"} for one in named(listed(), "wine-quality")]
    path = written(tmp_path / "graded.jsonl", rollouts)
    text = on_terminal("mle-show", "-q", "--list", path, cwd=tmp_path, NO_COLOR="1").decode()
    assert max(map(len, text.split("\r\n"))) <= 80, text
    same = written(tmp_path / "same.jsonl", [{**one, "scaffold": "react"} for one in rollouts])
    assert on_terminal("mle-show", "-q", "--list", same, cwd=tmp_path, NO_COLOR="1").startswith(
        b"all: task wine-quality, scaffold react"
    )
    whole = run_command("mle-show", "-q", "--list", path, cwd=tmp_path).stdout.decode().split("\n")
    assert whole[0].split()[:3] == ["id", "task", "scaffold"] and rollouts[0]["id"] in whole[1]


def test_a_summary_is_folded(tmp_path: Path) -> None:
    path = written(tmp_path / "graded.jsonl", compared())
    text = on_terminal("mle-filter", "--top", "1", path, cwd=tmp_path, columns=40, stderr=True).decode()
    lines = text.rpartition("\x1b[J")[2].split("\r\n")  # after the progress bar
    assert max(map(len, lines)) <= 40 and len(lines) == 3 and "dropped" in lines[0]


def test_ideators_compared_fit() -> None:
    tallies = {f"Qwen/Qwen3-{size}B-Instruct-2507": Tally() for size in (4, 30, 235)}
    for tally in tallies.values():
        tally.add([{"type": TYPES[0], "effective": True}])
    whole = per_model(tallies, TYPES)
    text = per_model(tallies, TYPES, 60)
    assert max(map(len, whole.split("\n"))) > 80 >= 60 >= max(map(len, text.split("\n")))
    assert all(name in text for name in tallies)


def test_a_selftest_fits() -> None:
    findings = [Finding("a" * 60, "network", True, True, "seen " * 20, 0.1)]
    text = selftest_table(findings, {name * 12: False for name in "abcdefgh"}, 80)
    assert max(map(len, text.split("\n"))) <= 80


def test_a_verdict_fits() -> None:
    task = {"id": LONG, "provenance": {}}
    verdict: dict[str, Any] = {"metric": "rmse", "lower_is_better": True, "valid": False, "reason": "a reason " * 20}
    text = "\n".join(verdict_lines(task, verdict, 80))
    assert max(map(len, text.split("\n"))) <= 80 and text.count("a reason") == 20


def test_a_described_task_fits(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    header = [f"a-column-with-a-name-{at}" for at in range(12)]
    (tmp_path / "public" / "train.csv").write_text(f"{','.join(header)}\n{','.join(map(str, range(12)))}\n")
    task = compared()[0]["task"]
    made = {
        "hidden_rule": "more of this and less of that " * 9,
        "mutations": [{"name": "noise", "effect": "word " * 40}],
    }
    task = {**task, "description": "word " * 60, "thresholds": {}, "provenance": {**task["provenance"], **made}}
    text = show(task, tmp_path, 80)
    lines = [line for line in text.split("\n") if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 80 and header[0] in text and header[-1] in text
    assert max(map(len, show(task, tmp_path).split("\n"))) > 200


def test_the_list_of_metrics_fits() -> None:
    for columns in (60, 80, 200):
        lines = on_terminal("mle-grade", "--list-metrics", columns=columns).decode().split("\r\n")
        assert max(map(len, lines)) <= min(columns, 110)


def test_blocks_of_columns_by_hand() -> None:
    header = ["task", "score", "± SEM", "valid", "medal"]
    assert blocks(header, [10, 5, 5, 5, 5], 1, None) == [[0, 1, 2, 3, 4]]
    assert blocks(header, [10, 5, 5, 5, 5], 1, 38) == [[0, 1, 2, 3, 4]]
    assert blocks(header, [10, 5, 5, 5, 5], 1, 37) == [[0, 1, 2, 3], [0, 4]]
    assert blocks(header, [10, 5, 5, 5, 5], 1, 23) == [[0, 1, 2], [0, 3], [0, 4]]
    assert blocks(header, [10, 5, 5, 5, 5], 1, 5) == [[0, 1, 2], [0, 3], [0, 4]]  # never less than a column
    assert middle_cut("abcdefghij", 5) == "ab…ij" and middle_cut("abc", 3) == "abc"


def test_a_table_that_fits_is_left_alone() -> None:
    table = Table(["task", "x"], [["a" * 60, "1"]], ("task",))
    assert table.fitting(80)[0].text() == table.text()
    (part,) = table.fitting(40)
    assert part.rows[0][0] == "a" * 10 + "…" + "a" * 9
