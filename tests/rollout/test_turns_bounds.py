"""What bounds an agent in turns: tokens, money, time, turns, the context; what there is, is kept."""

from pathlib import Path
from typing import Any

import pytest
from model_server import FaultyServer
from played import ENDS, SCORES, in_steps, play, program, runs, write_tasks
from played_checks import check_tokens, graded

from mletools.training.samples import sample_of

# ---- budgets


@pytest.mark.parametrize(
    ("options", "turns", "reason"),
    [
        (("--max-tokens", "30"), 1, "length"),
        (("--price", "1000,2000", "--max-usd", "0.9"), 2, "budget"),
        (("--max-seconds", "0.00001"), 1, "timeout"),
        (("--max-turns", "2"), 2, "max_turns"),
        (("--max-answer-tokens", "5"), 15, "max_turns"),
    ],
    ids=["tokens", "usd", "seconds", "turns", "answers"],
)
def test_a_budget_that_is_used_up_ends_the_work_and_keeps_it(
    options: tuple[str, ...], turns: int, reason: str, tmp_path: Path
) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(in_steps([runs(program(2.5, "#" + " x" * 40)), runs(program(2.9)), SCORES])) as server:
        done = play(server, "react", tmp_path, tasks, *options)
    record = done.of("mill_0")
    assert record["stop_reason"] == reason and len(record["turns"]) == turns == len(done.requests)
    if "--max-usd" in options:
        price = [(1000 * u["prompt_tokens"] + 2000 * u["completion_tokens"]) / 1e6 for u in usages(record)]
        assert [u["usd"] for u in usages(record)] == pytest.approx(price)
        assert record["usage"]["usd"] == pytest.approx(sum(price)) and sum(price[:-1]) < 0.9 <= sum(price)
    if "--max-tokens" in options:  # the one answer was cut at what is left
        assert done.requests[0]["max_tokens"] == 30 and record["turns"][0]["problem"] == "length"
    if turns == 2:
        assert record["code"] == program(2.9) and record["validation"]["valid"]
    check_tokens(record, done.requests)


def usages(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [turn["usage"] for turn in record["turns"]]


def test_tokens_of_all_messages_together(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(in_steps([runs(program(2.5)), SCORES])) as server:
        done = play(server, "react", tmp_path, tasks, "--max-tokens", "100")
    record = done.of("mill_0")
    used = [usage["completion_tokens"] for usage in usages(record)]
    assert record["stop_reason"] == "length" and sum(used) == 100 and record["code"] == program(2.5)
    assert [body["max_tokens"] for body in done.requests] == [100 - sum(used[:at]) for at in range(len(used))]


# ---- context


def test_failed_programs_are_dropped_from_the_context(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    long = "# " + "x" * 6000 + "\n"
    script = [runs(long + "1 / 0\n"), runs(program(2.5)), runs(long + "2 / 0\n"), SCORES, runs(long + "3 / 0\n"), ENDS]
    with FaultyServer(in_steps(script)) as server:
        done = play(server, "react", tmp_path, tasks, "--context-tokens", "3000")
    record = done.of("mill_0")
    # 2 and 3 are the first program that failed and what was said of it; 6 and 7 the second
    assert [turn.get("dropped") for turn in record["turns"]] == [None, None, None, [2, 3], [2, 3], [2, 3, 6, 7]]
    assert len(record["messages"]) == 13 and record["stop_reason"] == "finished"
    for turn, body in zip(record["turns"], done.requests, strict=True):
        shown = [at for at in range(turn["message"]) if at not in turn.get("dropped", [])]
        assert [m["content"] for m in body["messages"]] == [record["messages"][at]["content"] for at in shown]
    assert check_tokens(record, done.requests) == 3
    sample = sample_of(record)
    assert len(sample.sequences) == 3 and sample.loss_tokens == record["usage"]["completion_tokens"]


def test_a_server_that_takes_no_more_ends_the_work(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(in_steps([runs(program(2.5)), runs(program(2.9)), SCORES]), context=600) as server:
        done = play(server, "react", tmp_path, tasks, "--max-answer-tokens", "100")
    record = done.of("mill_0")
    assert record["stop_reason"] == "context" and 1 <= len(record["turns"]) < 15
    assert record["messages"][-1]["role"] == "user" and record["code"] and check_tokens(record, done.requests) == 1


@pytest.mark.slow
def test_a_task_whose_first_question_is_too_long_is_a_record_too(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(in_steps([ENDS]), context=60) as server:
        done = play(server, "react", tmp_path, tasks, "--max-answer-tokens", "50")
    (record,) = graded(tmp_path, done.records)
    assert record["stop_reason"] == "context" and record["turns"] == [] and len(record["messages"]) == 2
    assert record["execution"]["status"] == "no_code" and record["code"] is None and "format_rate" not in record
    assert record["grade"]["valid"] is False and record["reward"] == 0
