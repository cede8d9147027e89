"""mle-rollout --scaffold react, played by script on a server: what is asked, run, told, handed in and recorded."""

import json
import re
from pathlib import Path

import pytest
from conftest import records, run_command
from model_server import FaultyServer
from played import (
    ENDS,
    SCORES,
    SEARCH,
    THOUGHTLESS,
    TRAINED,
    Played,
    by_task,
    command,
    in_steps,
    play,
    program,
    runs,
    table_of,
    test_score,
    validation_score,
    write_tasks,
)
from played_checks import (
    check_nothing_told,
    check_tokens,
    graded,
    observed,
)

from mletools.records import schema
from mletools.scaffolds.react import HOW
from mletools.training.samples import sample_of

NONE_YET = "No program of yours has left a submission.csv yet: there is nothing to hand in."
SCRIPTS: dict[str, list[str]] = {
    # the usual way, with a program that fails
    "mill_0": [runs("print(1 / 0)\n"), runs(program(2.5)), SCORES, runs(program(2.9)), SCORES, ENDS],
    # everything that is no action, and then no end
    "mill_1": [
        ENDS, SCORES, "I think.", runs("1\n") + ENDS, "<tool_call>{</tool_call>",
        '<tool_call>{"name": "Search"}</tool_call>', "<answer>", runs(program(2.8)), "<think>well</think> well",
    ],
    # the last one is worse
    "mill_2": [runs(program(2.9)), SCORES, runs(program(2.0)), SCORES, ENDS],
    # rows are missing; half of the messages have no reasoning part
    "mill_3": [THOUGHTLESS, runs("open('submission.csv', 'w').write('id,y\\n501,1\\n')\n"), SCORES, "<answer></answer>"],
    # a quarter of the programs takes too long
    "mill_4": [runs(program(2.6)), runs("import time\ntime.sleep(60)\n"), runs("1\n"), runs("1\n"), ENDS],
}  # fmt: skip


@pytest.fixture(scope="module")
def last(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("react")
    tasks = write_tasks(folder, len(SCRIPTS))
    with FaultyServer(by_task({name: in_steps(script) for name, script in SCRIPTS.items()})) as server:
        return play(server, "react", folder, tasks, "-j", "4", "--max-turns", "9", "--timeout", "4")


def test_the_usual_way(last: Played) -> None:
    record, task = last.of("mill_0"), last.tasks["mill_0"]
    assert record["stop_reason"] == "finished" and record["scaffold"] == "react" and record["format_rate"] == 1
    assert [turn["action"] for turn in record["turns"]] == ["python", "python", "score", "python", "score", "answer"]
    assert [turn["problem"] for turn in record["turns"]] == [None] * 6
    assert [message["role"] for message in record["messages"]] == [
        "system",
        "user",
        *["assistant", "user"] * 5,
        "assistant",
    ]
    failed, ran, judged, *_ = record["turns"]
    assert failed["execution"]["status"] == "error" and failed["validation"] is None and "grade" not in failed
    assert "ZeroDivisionError" in observed(record, 0) and "There is nothing to score" in observed(record, 0)
    assert ran["code"] == program(2.5) and "stdout:\n```\nslope 2.5\n```" in observed(record, 1)
    for turn, slope in ((1, 2.5), (2, 2.5), (3, 2.9), (4, 2.9)):
        score = validation_score(last.folder, task, slope)
        assert record["turns"][turn]["validation"] == {"valid": True, "reason": None, "score": pytest.approx(score)}
    assert ran["grade"]["score"] == pytest.approx(test_score(last.folder, task, 2.5)) and "grade" not in judged
    # a score is told when it is asked for, and not before
    score = validation_score(last.folder, task, 2.5)
    assert observed(record, 2) == (
        f"<tool_response>\nsubmission.csv is valid. mae on the validation rows: {score:g} (lower is better).\n</tool_response>"
    )
    assert f"{score:g}" not in observed(record, 1)
    assert record["code"] == program(2.9) and record["validation"] == record["turns"][3]["validation"]
    assert record["execution"] == record["turns"][3]["execution"]


def test_what_is_no_action_is_answered_and_marked(last: Played) -> None:
    record = last.of("mill_1")
    problems = ["early", None, "missing", None, "malformed", "unknown", "early", None, "missing"]
    assert [turn["problem"] for turn in record["turns"]] == problems and record["stop_reason"] == "max_turns"
    assert [turn["action"] for turn in record["turns"]] == [
        "none",
        "score",
        "none",
        "python",
        *["none"] * 3,
        "python",
        "none",
    ]
    rules = [None, None, "missing", "first_action", "malformed", "unknown", "unclosed_tag", None, "missing"]
    assert [turn["format"]["rule"] for turn in record["turns"]] == rules
    assert observed(record, 0) == f"{NONE_YET}\n\n{HOW}"
    assert observed(record, 1) == "<tool_response>\nThere is no submission.csv to score.\n</tool_response>"
    for turn in (2, 4, 5, 6):
        assert observed(record, turn).endswith(f"\n\n{HOW}")
    # the first two, the program and the last one reason first; two begin with their number instead
    reasoned = [m["content"].startswith("<think>") for m in record["messages"] if m["role"] == "assistant"]
    assert record["format_rate"] == sum(reasoned) / 9 == 5 / 9
    assert record["messages"][-1]["role"] == "user"  # its last action was answered, though nobody reads it
    assert record["code"] == program(2.8) and record["validation"]["valid"]  # what there was is handed in all the same


def test_the_last_submission_is_handed_in_or_the_best(last: Played, tmp_path: Path) -> None:
    record, task = last.of("mill_2"), last.tasks["mill_2"]
    assert record["code"] == program(2.0)
    tasks = write_tasks(tmp_path, 3)
    answer = by_task({name: in_steps(script) for name, script in SCRIPTS.items()})
    with FaultyServer(answer) as server:
        best = play(server, "react", tmp_path, tasks, "--hand-in", "best", "--validation", "0.4")
    record = best.of("mill_2")
    assert record["code"] == program(2.9) and record["execution"] == record["turns"][0]["execution"]
    assert record["turns"][2]["code"] == program(2.0) and record["turns"][2]["execution"]["submission"] is not None
    score = validation_score(tmp_path, task, 2.9, "0.4")
    assert record["validation"]["score"] == pytest.approx(score) and f"{score:g}" in observed(record, 1)
    # Score speaks of the last submission, whatever will be handed in
    assert f"{validation_score(tmp_path, task, 2.0, '0.4'):g}" in observed(record, 3)
    assert best.of("mill_0")["code"] == program(2.9) and best.of("mill_1")["code"] == program(2.8)
    after = graded(tmp_path, best.records)
    assert [each["grade"]["score"] for each in after] == [
        pytest.approx(test_score(tmp_path, tasks[number], slope)) for number, slope in enumerate((2.9, 2.8, 2.9))
    ]


def test_who_gives_up_is_told_so_and_ends(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    with FaultyServer(in_steps([ENDS, SCORES, ENDS, ENDS])) as server:
        (record,) = play(server, "react", tmp_path, []).records
    assert [turn["problem"] for turn in record["turns"]] == ["early", None, "early", None]
    assert (record["stop_reason"], record["code"]) == ("finished", None)
    assert not graded(tmp_path, [record])[0]["grade"]["valid"]


def test_an_invalid_submission_and_the_share_of_reasoning(last: Played) -> None:
    record = last.of("mill_3")
    assert record["format_rate"] == 2 / 4 and record["stop_reason"] == "finished"
    assert record["turns"][2]["validation"] == record["validation"] and not record["validation"]["valid"]
    assert record["validation"]["reason"] in observed(record, 2) and "submission.csv is invalid: " in observed(
        record, 2
    )
    assert record["turns"][1]["grade"]["valid"] is False


def test_too_many_programs_without_an_end_count_as_a_timeout(last: Played) -> None:
    record = last.of("mill_4")
    statuses = [turn["execution"]["status"] for turn in record["turns"] if "execution" in turn]
    assert statuses == ["ok", "timeout", "ok", "ok"] and record["turns"][-1]["action"] == "answer"
    assert record["stop_reason"] == "timeout" and record["code"] == program(2.6)
    assert "The program ran too long and was stopped after 4 s." in observed(record, 1)


def test_the_exact_tokens(last: Played) -> None:
    for record in last.records:
        assert check_tokens(record, last.requests) == 1
    record = last.of("mill_0")
    sample = sample_of(record)
    ids: list[int] = []
    mask: list[int] = []
    for message in record["messages"]:
        ids += message.get("token_ids", [])
        mask += [int(message["role"] == "assistant")] * len(message.get("token_ids", []))
    (tokens,) = sample.sequences
    assert tokens.input_ids == ids and tokens.loss_mask == mask and set(mask) == {0, 1}
    assert sample.loss_tokens == record["usage"]["completion_tokens"]
    own = [one for message in record["messages"] for one in message.get("logprobs", [])]
    assert tokens.logprobs is not None and [p for p, m in zip(tokens.logprobs, mask, strict=True) if m] == own
    assert not any(p for p, m in zip(tokens.logprobs, mask, strict=True) if not m)


def test_nothing_secret_is_told(last: Played) -> None:
    check_nothing_told(last.folder, last.records, last.requests)


def test_the_rest_of_the_pipe_grades_what_was_handed_in(last: Played) -> None:
    for record in graded(last.folder, last.records):
        turn = next(t for t in reversed(record["turns"]) if (t.get("execution") or {}).get("submission"))
        assert record["grade"]["digest"] == turn["execution"]["submission"]["digest"]
        assert {key: record["grade"][key] for key in turn["grade"]} == turn["grade"]
        if turn["grade"]["valid"]:
            slope = float(turn["execution"]["stdout"]["head"].split()[1])
            assert record["grade"]["score"] == pytest.approx(test_score(last.folder, record["task"], slope))


# ---- what is told without a validation score, and with the test score


def test_without_validation_rows_no_score_is_told(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(in_steps([SCORES, runs(program(2.5)), SCORES, ENDS])) as server:
        done = play(server, "react", tmp_path, tasks, "--validation", "0")
    record = done.of("mill_0")
    assert "submission.csv is valid. No score is told in this task." in observed(record, 2)
    assert record["validation"] is None and not (tmp_path / "views").exists() and "reveal_test" not in record
    assert record["turns"][1]["grade"]["score"] == pytest.approx(test_score(tmp_path, tasks[0], 2.5))
    check_nothing_told(tmp_path, done.records, done.requests)


def test_the_test_score_is_told_where_it_is_asked_for_and_stamped(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    script = [runs(program(2.9)), SCORES, runs(program(2.5)), SCORES, ENDS]
    with FaultyServer(in_steps(script)) as server:
        done = play(server, "react", tmp_path, tasks, "--reveal-test", "--hand-in", "best")
    record = done.of("mill_0")
    score = test_score(tmp_path, tasks[0], 2.9)
    assert f"mae on the test rows: {score:g} (lower is better)." in observed(record, 1)
    assert record["reveal_test"] is True and record["settings"]["reveal_test"] is True
    assert record["lineage"][-1]["options"]["reveal_test"] is True
    assert record["code"] == program(2.9) and record["validation"] is None and not (tmp_path / "views").exists()
    assert "on the rows of test.csv" in record["messages"][1]["content"]
    with pytest.raises(AssertionError):  # so the check of all other runs would have seen it
        check_nothing_told(tmp_path, done.records, done.requests)
    answers = {row[-1] for row in table_of(tmp_path / tasks[0]["data"]["dir"] / "private/answers.csv")}
    assert not answers & set(re.findall(r"\d+\.\d+", json.dumps(done.requests)))


def test_hostile_programs_find_nothing(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(in_steps([runs(SEARCH), runs(program(2.5)), SCORES, ENDS])) as server:
        done = play(server, "react", tmp_path, tasks, "--output-size", "4000")
    record = done.of("mill_0")
    assert record["turns"][0]["execution"]["status"] == "ok", record["turns"][0]["execution"]
    output = record["turns"][0]["execution"]["stdout"]
    seen = table_of(tmp_path / f"views/{tasks[0]['id']}-0.2" / "public/train.csv")
    assert output["bytes"] < 6000  # all of it is told
    assert seen[0][-1] in output["head"] + output["tail"]  # it can read what it may
    check_nothing_told(tmp_path, done.records, done.requests)
    run_command("mle-grade", "-q", input=json.dumps(record).encode(), cwd=tmp_path)


def test_a_name_with_quotes_leaves_the_example_of_a_call_json(tmp_path: Path) -> None:
    (task,) = write_tasks(tmp_path)
    (tmp_path / "tasks.jsonl").write_text(json.dumps({**task, "name": 'the "old"\\ mill'}) + "\n")
    with FaultyServer(in_steps([ENDS])) as server:
        run_command(*command(server, "react", "--max-turns", "1"), cwd=tmp_path)
    (example,) = re.findall(r'^{"name": "Score".*', server.requests[0]["messages"][0]["content"], re.M)
    assert json.loads(example)["arguments"] == {"competition_id": 'the "old"\\ mill'}


def test_prompts_of_a_folder_are_asked_and_make_other_records(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "react-system.md").write_text("Win {{name}} in {{max_turns}} messages.\n")
    with FaultyServer(in_steps([ENDS])) as server:
        line = command(server, "react", "--max-turns", "2")
        (plain,) = records(run_command(*line, cwd=tmp_path).stdout)
        (own,) = records(run_command(*line, "--prompts", "own", cwd=tmp_path).stdout)
        wrong = run_command(*line, "--prompts", "tasks", cwd=tmp_path, check=False)
    assert own["messages"][0]["content"] == "Win mill_0 in 2 messages." != plain["messages"][0]["content"]
    assert own["messages"][1]["content"] == plain["messages"][1]["content"] and own["id"] != plain["id"]
    assert (
        wrong.returncode == 1
        and b"mle-rollout: tasks: holds no prompt; a file NAME.md replaces one of " in wrong.stderr
    )


def test_a_refit_gives_the_held_out_rows_back(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path, 2)
    counting = "rows = sum(1 for _ in open('input/train.csv')) - 1\nprint('rows', rows)\n"
    held_out = f"{counting}assert rows < {TRAINED}\n"
    scripts = {"mill_0": [runs(counting + program(2.5)), ENDS], "mill_1": [runs(held_out + program(2.5)), ENDS]}
    with FaultyServer(by_task({name: in_steps(script) for name, script in scripts.items()})) as server:
        plain = play(server, "react", tmp_path, tasks)
        refitted = play(server, "react", tmp_path, tasks, "--refit")
    for done in (plain, refitted):
        for record in done.records:
            schema.check(record, "rollout")
    assert not any("refit" in record for record in plain.records)
    good, bad = refitted.of("mill_0"), refitted.of("mill_1")
    assert good["refit"] == {"used": True} and good["id"] != plain.of("mill_0")["id"]
    assert good["execution"]["stdout"]["head"].startswith(f"rows {TRAINED}\n")
    seen = good["turns"][0]["execution"]["stdout"]["head"]
    assert seen.startswith("rows ") and int(seen.split()[1]) < TRAINED
    assert good["validation"] == plain.of("mill_0")["validation"]
    (graded_record,) = graded(tmp_path, [good])
    assert graded_record["grade"]["score"] == test_score(tmp_path, good["task"], 2.5)
    # a program that fails on all rows leaves what was handed in
    assert bad["refit"]["used"] is False and bad["refit"]["execution"]["status"] == "error"
    assert bad["execution"] == bad["turns"][0]["execution"]
