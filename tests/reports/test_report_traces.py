"""What mle-report --over-traces says of runs of several traces: numbers worked by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command
from report_agents import BOARD, agent
from report_builders import a_set, rollout, rows
from search_records import verdict

from mletools.reports.traces import Life, Submission, Trace, best_rank, life, traced
from mletools.reports.turns import turns


def ranked(*ranks: float | None) -> list[tuple[str, dict[str, Any]]]:
    """Turns of a second each, with what the test says of each submission: None is an invalid one."""
    return [("execute_code", {**verdict(None if rank is None else 0.5), "human_rank": rank}) for rank in ranks]


def one(task: str, kind: str, *ranks: float | None, sample: int = 0, number: int = 0, **board: Any) -> dict[str, Any]:
    made = agent(task, sample, *ranked(*ranks), **(board or BOARD))
    for turn, rank in zip(made["turns"], ranks, strict=True):  # the validation ranks as the test does
        turn["validation"] = verdict(rank)
    return {**made, "trace": kind, "id": f"{task}-{sample}-{number}"}


def two_tasks() -> list[dict[str, Any]]:
    """Task a: a run of ten seconds that begins from scratch, and one from scratch alone; task b: a run of four seconds."""
    return [
        one("a", "reset", None, 0.2, None, 0.4),
        one("a", "memory", 0.5, None, None, 0.3, None, 0.8, number=1),
        one("a", "reset", 0.6, sample=1),
        one("b", "memory", 0.4, None),
        one("b", "reset", None, 1.0, number=1),
    ]


def trace_of(record: dict[str, Any]) -> Trace | None:
    return traced(record, turns(record))


def test_a_run_by_hand() -> None:
    first, second = trace_of(two_tasks()[0]), trace_of(two_tasks()[1])
    assert first == Trace("reset", 4.0, (Submission(2.0, 0.2, 0.2), Submission(4.0, 0.4, 0.4))) and second is not None
    whole = life([first, second])
    assert whole.seconds == 10.0 and whole.kinds == {"reset", "memory"}
    assert [whole.best(("reset",), share / 10) for share in (1, 2, 3, 4, 10)] == [0.0, 0.2, 0.2, 0.4, 0.4]
    assert [whole.best(("memory",), share / 10) for share in (4, 5, 9, 10)] == [0.0, 0.5, 0.5, 0.8]
    assert [whole.best(("memory", "reset"), share / 10) for share in (1, 2, 4, 5, 10)] == [0.0, 0.2, 0.4, 0.5, 0.8]
    assert life([]) == Life(0.0, ())


def test_the_order_of_lines_says_nothing_of_the_order_of_traces() -> None:
    """mle-grade -j writes rollouts as they are graded."""
    run = [{**record, "trace_number": at} for at, record in enumerate(two_tasks()[:2])]
    in_order, turned = (rows([a_set("x", *some)])["all", "x"]["traces"] for some in (run, run[::-1]))
    assert [point["this"] for point in in_order["by_submission"]] == [0.2, 0.4, 0.5, 0.3, 0.8]
    assert turned == in_order
    old = rows([a_set("x", *two_tasks()[1::-1])])["all", "x"]["traces"]  # without numbers by line
    assert [point["this"] for point in old["by_submission"]] == [0.5, 0.3, 0.8, 0.2, 0.4]


def test_rollouts_without_a_trace_or_a_leaderboard_have_no_curve() -> None:
    assert trace_of(rollout("a", 0, 0.5)) is None
    assert trace_of({**one("a", "reset", 0.5), "trace": "else"}) is None
    without = {**agent("a", 0, *ranked(0.5)), "trace": "reset"}
    assert without["grade"].get("teams") is None and trace_of(without) is None
    assert "traces" not in rows([a_set("x", without)])["all", "x"]


def test_ranks_are_by_the_rule_that_the_run_was_graded_with() -> None:
    """Ten teams: place 4 leaves 7 of 10 behind by dojo, which counts ties as beaten, and 6 by mle-rl."""
    (kind, grade), (_, worst) = ranked(0.7, 0.0)
    placed = {**grade, "position": 4, "human_rank_rule": "dojo"}
    last = {**worst, "position": 11, "human_rank_rule": "dojo"}
    for rule, first in (("dojo", 0.7), ("mle-rl", 0.6)):
        board = {**BOARD, "human_rank_rule": rule}
        made = {**agent("a", 0, (kind, placed), (kind, last), **board), "trace": "reset"}
        for turn in made["turns"]:
            turn["validation"] = verdict(turn["grade"]["human_rank"])
        told = rows([a_set("x", made)])["all", "x"]["traces"]
        assert [point["this"] for point in told["by_submission"]] == pytest.approx([first, 0.0])
        assert [point["best"] for point in told["by_submission"]] == pytest.approx([first, first])
        # as older records have it, without the place
        old = Trace("reset", 2.0, (Submission(1.0, pytest.approx(first), 0.7), Submission(2.0, 0.0, 0.0)))
        assert trace_of(one("a", "reset", 0.7, 0.0, **board)) == old


def test_ranks_on_two_leaderboards_need_the_place(tmp_path: Path) -> None:
    two = {**BOARD, "human_rank_rule": "mle-rl"}
    made = one("a", "reset", 0.7, **two)
    made["grade"]["public_teams"] = 20
    (tmp_path / "x.jsonl").write_text(json.dumps(made) + "\n")
    done = run_command("mle-report", "--over-traces", "x.jsonl", cwd=tmp_path, check=False)
    problem = "the human ranks of its turns are by dojo, that of its grade by mle-rl: grade by dojo"
    assert done.returncode == 1 and done.stderr.decode() == f"mle-report: x.jsonl:1: {problem}\n"
    made["turns"][0]["grade"]["position"] = 4
    assert trace_of(made) == Trace("reset", 1.0, (Submission(1.0, 0.6, 0.7),))


def test_a_public_leaderboard_alone_has_traces() -> None:
    made = one("a", "reset", 0.7, **{**BOARD, "human_rank_rule": "dojo", "teams": None, "public_teams": 20})
    assert trace_of(made) == Trace("reset", 1.0, (Submission(1.0, 0.7, 0.7),))
    bare = one("a", "reset", 0.7, **{**BOARD, "human_rank_rule": None, "human_rank": None, "teams": None})
    assert trace_of(bare) is None


def test_the_best_is_by_the_score_that_the_run_showed() -> None:
    made = one("a", "reset", 0.9, 0.2, 0.4)
    for turn, validation in zip(made["turns"], (0.3, 0.8, 0.8), strict=True):
        turn["validation"] = verdict(validation)
    trace = trace_of(made)
    assert trace is not None and [each.shown for each in trace.submissions] == [0.3, 0.8, 0.8]
    whole = life([trace])
    assert [whole.best(("reset",), thirds / 3) for thirds in (1, 2, 3)] == [0.9, 0.2, 0.2]  # the first of equals
    made["grade"]["lower_is_better"] = True
    lower = trace_of(made)
    assert lower is not None and best_rank(lower.submissions) == 0.9
    shown = trace_of({**one("a", "reset", 0.9, 0.2), "reveal_test": True})
    assert shown is not None and [each.shown for each in shown.submissions] == [0.5, 0.5]
    assert best_rank([]) == 0.0


def test_where_no_score_was_shown_nothing_is_the_best() -> None:
    """The best by the test is what no agent can choose; what its programs reported it can."""
    assert best_rank([Submission(1.0, 0.1), Submission(2.0, 0.3)]) is None
    silent = {**agent("a", 0, *ranked(0.1, 0.3), **BOARD), "trace": "reset"}
    told = rows([a_set("x", silent)])["all", "x"]["traces"]
    assert told["without_scores"] == 1 and [point["best"] for point in told["by_submission"]] == [None, None]
    assert told["over_time"][-1] == {"share": 1.0, "memory": None, "reset": None, "best": None}
    for turn, reported in zip(silent["turns"], (0.9, 0.8), strict=True):
        turn["reported_score"] = reported
    told = rows([a_set("x", silent)])["all", "x"]["traces"]
    assert told["without_scores"] == 0 and [point["best"] for point in told["by_submission"]] == [0.1, 0.1]


def test_means_are_over_tasks() -> None:
    found = rows([a_set("x", *two_tasks())])
    told = found["all", "x"]["traces"]
    assert (told["runs"], told["with_both"]) == (3, 2)  # the second run of a has nothing from memory
    over = {point["share"]: (point["memory"], point["reset"]) for point in told["over_time"]}
    # all runs: .8 and .6 of task a, 1 of task b
    assert told["over_time"][-1]["best"] == pytest.approx((0.7 + 1) / 2)
    assert over[0.1] == (0.0, 0.0) and over[0.2] == (0.0, pytest.approx(0.1))
    assert over[0.5] == (pytest.approx(0.45), pytest.approx(0.2))
    assert over[1.0] == (pytest.approx(0.6), pytest.approx(0.7))
    by = told["by_submission"]
    assert [point["runs"] for point in by] == [3, 2, 1, 1, 1]
    # a: .2 and .6, then .4 alone; b: .4, then 1
    assert [point["this"] for point in by] == pytest.approx([0.4, 0.7, 0.5, 0.3, 0.8])
    assert [point["best"] for point in by] == pytest.approx([0.4, (0.5 + 1) / 2, (0.55 + 1) / 2, (0.55 + 1) / 2, 0.85])
    assert len(found["b", "x"]["traces"]["by_submission"]) == 2


def test_a_run_without_a_valid_submission_counts_none(tmp_path: Path) -> None:
    told = rows([a_set("x", one("a", "reset", None), one("a", "reset", 0.5, sample=1))])["all", "x"]["traces"]
    assert told["over_time"][-1] == {"share": 1.0, "memory": None, "reset": None, "best": 0.25}
    assert told["by_submission"] == [{"submission": 1, "runs": 1, "this": 0.5, "best": 0.25}]
    nothing = rows([a_set("x", one("a", "reset", None))])["all", "x"]["traces"]
    assert nothing["by_submission"] == [] and nothing["runs"] == 1
    (tmp_path / "x.jsonl").write_text(json.dumps(one("a", "reset", None)) + "\n")
    assert "valid submission" in run_command("mle-report", "--over-traces", "x.jsonl", cwd=tmp_path).stdout.decode()


def test_the_table(tmp_path: Path) -> None:
    for name, some in (("long", two_tasks()), ("short", two_tasks()[3:]), ("none", [rollout("a", 0, 0.5)])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in some))
    told = run_command("mle-report", "--over-traces", "long.jsonl", "short.jsonl", cwd=tmp_path).stdout.decode()
    over_time, by_submission, _ = ([line.split() for line in part.split("\n")] for part in told.split("\n\n"))
    assert over_time[0] == ["human", "rank", "by", "set", *(f"{tenth}0%" for tenth in range(1, 11))]
    assert over_time[2][:3] == ["traces", "from", "memory"] and over_time[2][3:] == [
        "long", "0.000", "0.000", "0.200", "0.200", "0.450", "0.450", "0.450", "0.450", "0.450", "0.600",
    ]  # fmt: skip
    assert [line[3] for line in over_time[2:6]] == ["long", "short", "long", "short"]
    assert over_time[6] == ["all", "traces", "long", *over_time[6][3:]] and over_time[6][-1] == "0.850"
    assert by_submission[2:4] == [
        ["runs", "with", "as", "many", "long", "3", "2", "1", "1", "1"],
        ["runs", "with", "as", "many", "short", "1", "1", "-", "-", "-"],
    ]
    assert by_submission[-1] == ["best", "so", "far", "short", "0.400", "1.000", "1.000", "1.000", "1.000"]
    assert "3 runs, 2 with valid submissions of both kinds (long)" in told
    none = run_command("mle-report", "--over-traces", "none.jsonl", cwd=tmp_path).stdout.decode()
    assert none == "no runs of traces on tasks with a leaderboard\n"


def test_the_figures() -> None:
    from mletools.reports.page.figures import figures

    summaries = [*rows([a_set("x", *two_tasks()), a_set("y", *two_tasks()[3:])]).values()]
    made = {figure.name: figure for figure in figures([a_set("x", *two_tasks())], {}, [], None, summaries)}
    assert [name for name in made if name.startswith("within")] == [
        "within-traces",
        "within-submissions",
    ]  # no medal, no normalised score, nobody asks for help
    traces = [row for row in made["within-traces"].rows if row[0] == "from memory, x"]
    assert [row[1] for row in traces] == [tenth / 10 for tenth in range(1, 11)]
    assert [row[2] for row in traces][-2:] == pytest.approx([0.45, 0.6])
    assert {row[0] for row in made["within-submissions"].rows} == {
        f"{words}, {name}" for words in ("best of the first k", "the k-th") for name in "xy"
    }


@pytest.mark.parametrize("other", ["--compare", "--over-time", "--over-turns"])
def test_one_table_at_a_time(tmp_path: Path, other: str) -> None:
    (tmp_path / "x.jsonl").write_text("")
    done = run_command("mle-report", "--over-traces", other, "x.jsonl", "x.jsonl", cwd=tmp_path, check=False)
    assert done.returncode == 2 and b"are different tables: give one" in done.stderr
