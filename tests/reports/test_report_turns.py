"""What mle-report --over-turns says of agents in turns: numbers worked by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_slow, run_command
from report_agents import BOARD, agent
from report_builders import a_set, rollout, rows
from search_records import verdict

from mletools.reports.turns import Verdict, by_turn, turns


def agents() -> list[dict[str, Any]]:
    """Task a, with a leaderboard: of three turns and of one. Task b, where lower is better, without: of two turns."""
    first = [
        ("python", verdict(None)),
        ("seek_help", None),
        ("python", verdict(0.6, "bronze", 60.0)),
    ]
    return [
        agent("a", 0, *first, **BOARD),
        agent("a", 1, ("python", verdict(0.3, None, 30.0)), **BOARD),
        agent("b", 0, ("python", verdict(2.0, "bronze")), ("python", verdict(3.0)), lower=True),
    ]


def over_turns(record: dict[str, Any]) -> tuple[tuple[bool, Verdict], ...] | None:
    return by_turn(record, turns(record))


def test_the_best_so_far_by_hand() -> None:
    a, _, b = agents()
    none = Verdict(False, False, None)
    assert over_turns(a) == ((False, none), (True, none), (False, Verdict(True, True, 60.0)))
    assert over_turns(b) == ((False, Verdict(True, True, None)),) * 2  # the second is worse
    assert over_turns({**b, "task": a["task"]})[1] == (False, Verdict(True, False, None))  # type: ignore[index]  # the second is better


def test_other_rollouts_have_no_turns() -> None:
    a = agents()[0]
    assert over_turns(rollout("a", 0, 0.5)) is None and over_turns({**a, "turns": []}) is None
    assert over_turns({**a, "search": {"chosen": 0}}) is None
    assert "turns" not in rows([a_set("x", rollout("a", 0, 0.5))])["a", "x"]


def test_means_are_over_tasks_and_what_is_over_keeps_what_it_had() -> None:
    found = rows([a_set("x", *agents(), rollout("a", 2, 0.5))])
    every = found["all", "x"]["turns"]
    assert every["rollouts"] == 3 and [point["turn"] for point in every["by_turn"]] == [1, 2, 3]

    def curve(name: str) -> list[Any]:
        return [point[name] for point in every["by_turn"]]

    assert curve("working") == [1.0, 0.75, 0.25]
    assert curve("asked") == [0.0, 0.5, 0.0]  # at the second turn one of a's one, none of b's one
    assert curve("valid") == [0.75, 0.75, 1.0] and curve("medal") == [0.5, 0.5, 0.75]
    assert curve("normalised") == [15.0, 15.0, 45.0]  # of task a alone
    assert len(found["b", "x"]["turns"]["by_turn"]) == 2
    assert found["b", "x"]["turns"]["by_turn"][0]["normalised"] is None


def test_the_table(tmp_path: Path) -> None:
    for name, some in (("long", agents()), ("short", agents()[2:]), ("none", [rollout("a", 0, 0.5)])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in some))
    told = run_command("mle-report", "--over-turns", "long.jsonl", "short.jsonl", cwd=tmp_path).stdout.decode()
    table = [line.split() for line in told.partition("\n\n")[0].split("\n")]
    assert table[0] == ["after", "turn", "set", "1", "2", "3"]
    assert table[2:4] == [
        ["still", "working", "long", "100%", "75%", "25%"],
        ["still", "working", "short", "100%", "100%", "-"],
    ]
    assert table[4] == ["asks", "for", "help", "long", "0.0%", "50.0%", "0.0%"]
    assert table[-1] == ["normalised", "score", "so", "far", "long", "15.0", "15.0", "45.0"]
    assert "left out, no agents" not in told
    three = run_command("mle-report", "--over-turns", "none.jsonl", "long.jsonl", "short.jsonl", cwd=tmp_path).stdout
    assert three.decode().replace("left out, no agents in turns: none\n", "") == told
    assert "3 rollouts, 2.0 turns on average (long), 1 rollouts, 2.0 turns on average (short)" in told
    assert (
        run_command("mle-report", "--over-turns", "none.jsonl", cwd=tmp_path).stdout.decode() == "no agents in turns\n"
    )


@pytest.mark.parametrize("other", ["--compare", "--over-time"])
def test_one_table_at_a_time(tmp_path: Path, other: str) -> None:
    (tmp_path / "x.jsonl").write_text("")
    done = run_command("mle-report", "--over-turns", other, "x.jsonl", "x.jsonl", cwd=tmp_path, check=False)
    assert done.returncode == 2 and b"are different tables: give one" in done.stderr


def trace(sample: int, number: int, validation: float | None, score: float | None, **more: Any) -> dict[str, Any]:
    """One of the traces of a run, which all have its group and sample."""
    told = {
        "validation": verdict(validation),
        "trace": "memory" if number else "reset",
    }
    made = agent(
        "a",
        sample,
        ("execute_code", None),
        usage={"seconds": 10.0, "usd": 0.5, "prompt_tokens": 3, "completion_tokens": 4},
        usage_by_role={"policy": {"seconds": 8.0, "usd": 0.5, "prompt_tokens": 3, "completion_tokens": 4}},
        **more,
    )
    grade = {**made["grade"], "score": score, "valid": score is not None}
    return {**made, **told, "id": f"a-{sample}-{number}", "grade": grade}


@pytest.mark.parametrize("lower", mostly_slow([False, True], 1))
def test_a_run_of_traces_hands_in_the_best_by_validation(tmp_path: Path, lower: bool) -> None:
    sign = -1 if lower else 1
    first = [
        trace(0, n, *scores, lower=lower)
        for n, scores in enumerate([(None, None), (sign * 0.5, 0.7), (sign * 0.6, 0.3), (sign * 0.6, 0.9)])
    ]
    second = [trace(1, 0, None, None, lower=lower), trace(1, 1, None, None, lower=lower)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*first, *second]))
    told = run_command("mle-report", "--json", "--best-trace", "x.jsonl", cwd=tmp_path).stdout.decode()
    row = json.loads(told.splitlines()[0])
    assert (row["rollouts"], row["valid"], row["score_mean"]) == (
        2,
        0.5,
        0.3,
    )  # of equals the first; not the best by the test
    assert (row["seconds"], row["usd"], row["prompt_tokens"]) == (60.0, 3.0, 18)
    policy = row["usage_by_role"]["policy"]
    assert (policy["rollouts"], policy["seconds"], policy["usd"], policy["prompt_tokens"]) == (2, 48.0, 3.0, 18)
    # the first of equals is so by its number, on whatever line mle-grade -j wrote it
    turned = [{**one, "trace_number": n} for n, one in [*enumerate(first)][::-1]] + second
    (tmp_path / "y.jsonl").write_text("".join(json.dumps(one) + "\n" for one in turned))
    again = run_command("mle-report", "--json", "--best-trace", "y.jsonl", cwd=tmp_path).stdout.decode()
    assert json.loads(again.splitlines()[0])["score_mean"] == 0.3
    every = run_command("mle-report", "--json", "x.jsonl", cwd=tmp_path).stdout.decode()
    assert json.loads(every.splitlines()[0])["rollouts"] == 6
    refused = run_command("mle-report", "--best-trace", "--html", "x.jsonl", cwd=tmp_path, check=False)
    assert refused.returncode == 2 and b"--best-trace is for tables of runs" in refused.stderr
