"""mle-grade as a user runs it on a competition with leaderboards: places, medals and every reward."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, records, run_command

from mletools.grading.one_submission import lines as verdict_lines

NAMES = [f"p{at}" for at in range(4)]
# Transported of p0 to p3: True True False False
SUBMISSIONS = {
    "all right": "PassengerId,Transported\np0,True\np1,True\np2,False\np3,False\n",
    "three right": "PassengerId,Transported\np3,0\np2,0\np1,1\np0,0\n",
    "two right": "PassengerId,Transported\np0,True\np1,True\np2,True\np3,True\n",
    "not there": None,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a competition as MLE-Dojo prepares it, imported, and a run for each of SUBMISSIONS."""
    folder = tmp_path_factory.mktemp("boards")
    data = folder / "spaceship-titanic" / "data"
    files = {
        "public/train.csv": "PassengerId,Age,Transported\na,1,True\nb,2,False\n",
        "public/test.csv": "PassengerId,Age\n" + "".join(f"{name},3\n" for name in NAMES),
        "public/sample_submission.csv": "PassengerId,Transported\n" + "".join(f"{name},False\n" for name in NAMES),
        "public/description.txt": "# Spaceship\n",
        "private/test_answer.csv": SUBMISSIONS["all right"],
        "private/private_leaderboard.csv": "rank,score\n1,1.0\n2,0.75\n3,0.75\n4,0.6\n5,0.5\n",
        "private/public_leaderboard.csv": "rank,score\n1,0.9\n2,0.7\n",
    }
    for name, content in files.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(content or "")
    run_command("mle-import", "spaceship-titanic", "-o", "tasks.jsonl", cwd=folder)
    run_command("mle-rollout", "-g", str(len(SUBMISSIONS)), "tasks.jsonl", "-o", "rollouts.jsonl", cwd=folder)
    lines = []
    for rollout, content in zip(records((folder / "rollouts.jsonl").read_bytes()), SUBMISSIONS.values(), strict=True):
        code = "pass" if content is None else f"open('submission.csv', 'w').write({content!r})"
        lines.append(json.dumps({**rollout, "code": code, "stop_reason": "finished"}) + "\n")
    (folder / "rollouts.jsonl").write_text("".join(lines))
    run_command("mle-sandbox", "-k", "rollouts.jsonl", "-o", "executed.jsonl", cwd=folder)
    return folder


def graded(place: Path, *options: str, source: str = "executed.jsonl") -> list[dict[str, Any]]:
    return records(run_command("mle-grade", "-k", *options, source, cwd=place).stdout)


def test_places_among_teams(place: Path) -> None:
    grades = [record["grade"] for record in graded(place)]
    assert [each["score"] for each in grades] == [1.0, 0.75, 0.5, None]
    assert [each["position"] for each in grades] == [1, 2, 5, None]
    assert [each["public_position"] for each in grades] == [1, 2, 3, None]
    assert [each["teams"] for each in grades] == [5, 5, 5, 5]
    # 5 teams: gold the first, silver max(1, 1), bronze max(1, 2)
    assert [each["medal"] for each in grades] == ["gold", "bronze", None, None]
    assert grades[0]["thresholds"] == {"median": 0.75, "bronze": 0.75, "silver": 1.0, "gold": 1.0}
    assert [each["above_median"] for each in grades] == [True, False, False, False]
    assert [each["normalised_score"] for each in grades] == [100, 50, 0, None]
    assert [each["human_rank"] for each in grades] == [1, (4 / 5 + 1 / 2) / 2, (1 / 5 + 0) / 2, None]
    assert {each["human_rank_rule"] for each in grades} == {"dojo"}
    other = [record["grade"]["human_rank"] for record in graded(place, "--human-rank", "mle-rl")]
    assert other == [1 - 1 / 5, 1 - 2 / 5, 0, None]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), [1.0, 0.8, 0.3, 0.1]),
        (("--milestone", "sparse"), [1.0, 0.1, 0.1, 0.1]),
        (("--milestone", "bronze=0.2,gold=0.3"), [1.0, 0.6, 0.3, 0.1]),
        (("--reward", "raw"), [1.0, 0.75, 0.5, None]),
        (("--reward", "raw", "--scale-score", "thresholds"), [1, 0, -1, None]),
        (("--reward", "partial-credit", "--scale-score", "thresholds"), [1, 0, -1, -10]),
        (("--reward", "human-rank"), [1, 0.65, 0.1, None]),
        (("--reward", "human-rank", "--human-rank", "mle-rl"), [0.8, 0.6, 0.0, None]),
        (("--reward", "partial-credit", "--failure-reward", "-1"), [1.0, 0.75, 0.5, -1]),
        (("--reward", "improvement"), [1, 1, 1, 0]),
    ],
)
def test_every_reward(place: Path, options: tuple[str, ...], expected: list[float | None]) -> None:
    found = graded(place, *options)
    assert [record["reward"] for record in found] == [
        None if each is None else pytest.approx(each) for each in expected
    ]
    rule = options[options.index("--reward") + 1] if "--reward" in options else "milestone"
    assert {record["grade"]["reward"]["rule"] for record in found} == {rule}


def test_improvement_over_the_state_that_a_rollout_began_from(place: Path) -> None:
    lines = (place / "executed.jsonl").read_text().splitlines()
    changed = [
        {**json.loads(line), "state": {"score": 0.75}, "stop_reason": reason}
        for line, reason in zip(lines, ["finished", "finished", "format", "finished"], strict=True)
    ]
    (place / "continued.jsonl").write_text("".join(json.dumps(record) + "\n" for record in changed))
    found = graded(place, "--reward", "improvement", source="continued.jsonl")
    assert [record["reward"] for record in found] == [1, 0, -1, 0]
    assert found[2]["grade"]["reward"] == {"rule": "improvement", "previous": 0.75, "well_formed": False}


@pytest.mark.parametrize(
    ("change", "options", "reason"),
    [
        ({"state": {"validation": 0.9}}, ["--reward", "improvement"], "state has no score to compare with"),
        ({"markers": list("abcdefgh")}, ["--reward", "partial-credit"], "execution.markers: 8 different reports"),
    ],
)
def test_what_a_reward_cannot_read_is_rejected(
    place: Path, tmp_path: Path, change: dict[str, Any], options: list[str], reason: str
) -> None:
    refused = tmp_path / "refused"
    lines = [json.loads(line) for line in (place / "executed.jsonl").read_text().splitlines()]
    changed = {**lines[1], **{name: value for name, value in change.items() if name == "state"}}
    changed["execution"] = {**changed["execution"], **{n: v for n, v in change.items() if n == "markers"}}
    (place / "odd.jsonl").write_text(f"{json.dumps(lines[0])}\n{json.dumps(changed)}\n")
    found = graded(place, "--max-rejects", "1", "--rejects", str(refused), *options, source="odd.jsonl")
    assert [record["id"] for record in found] == [lines[0]["id"]]
    assert reason in refused.read_text()


@pytest.mark.parametrize(("scaffold", "rewards"), [("react", [1, 1, 1, 1]), ("idea", [-1, -1, None, 1])])
def test_work_in_turns_may_end_by_any_bound_and_still_improve(place: Path, scaffold: str, rewards: list[Any]) -> None:
    best = json.loads((place / "executed.jsonl").read_text().splitlines()[0])
    changed = [
        {**best, "scaffold": scaffold, "state": {"score": 0.75}, "stop_reason": reason}
        for reason in ("max_turns", "timeout", "context", "finished")
    ]
    (place / "ended.jsonl").write_text("".join(json.dumps(record) + "\n" for record in changed))
    found = graded(place, "--reward", "improvement", source="ended.jsonl")
    assert [record["reward"] for record in found] == rewards


def test_a_task_without_leaderboard_has_no_human_rank(stages: dict[str, Any]) -> None:
    done = run_command("mle-grade", "--reward", "human-rank", "executed.jsonl", cwd=stages["folder"], check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == ("mle-grade: executed.jsonl:1: --reward human-rank: the task has no leaderboard\n")


@pytest.mark.slow
def test_a_larger_submission_than_allowed_is_invalid(place: Path) -> None:
    lines = (place / "rollouts.jsonl").read_text().splitlines()[:1]
    code = "open('submission.csv', 'w').write('PassengerId,Transported\\n' + ',\\n' * 800_000)"
    (place / "large.jsonl").write_text("".join(json.dumps({**json.loads(line), "code": code}) + "\n" for line in lines))
    run_command("mle-sandbox", "large.jsonl", "-o", "large.executed.jsonl", cwd=place)
    (record,) = graded(place, "--max-submission", "1", source="large.executed.jsonl")
    assert record["grade"]["reason"] == "the file has 1600024 bytes; at most 1048576 are read"


def test_a_reader_that_has_left_before_the_metrics() -> None:
    end, begin = os.pipe()
    os.close(end)
    done = subprocess.run([str(BIN / "mle-grade"), "--list-metrics"], stdout=begin, stderr=subprocess.PIPE, check=False)
    os.close(begin)
    assert (done.returncode, done.stderr) == (141, b"")


def test_another_folder_than_the_tasks_is_told(place: Path, tmp_path: Path) -> None:
    done = run_command("mle-grade", str(place / "executed.jsonl"), cwd=tmp_path, check=False)
    (task,) = records((place / "tasks.jsonl").read_bytes())
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"mle-grade: {place}/executed.jsonl:1: {task['data']['dir']}/private/leaderboard.csv: No such file or directory; "
        "is --data (or MLE_DATA, for every command) the folder that the task was written to?\n"
    )


def test_a_leaderboard_that_was_exchanged_is_noticed(place: Path, tmp_path: Path) -> None:
    (task,) = records((place / "tasks.jsonl").read_bytes())
    board = place / task["data"]["dir"] / task["leaderboard"]
    kept = board.read_bytes()
    board.write_bytes(b"score\n0.1\n")
    try:
        done = run_command("mle-grade", "executed.jsonl", cwd=place, check=False)
    finally:
        board.write_bytes(kept)
    assert (
        done.returncode == 1 and "the files are not those of the task record (digest differs)" in done.stderr.decode()
    )


def test_scores_that_clamping_makes_equal_are_reported_even_when_quiet(place: Path) -> None:
    line = ("mle-grade", "-q", "--reward", "partial-credit", "--failure-reward", "5", "executed.jsonl")
    told = run_command(*line, cwd=place).stderr.decode()
    assert told.startswith("mle-grade: 1 of 1 tasks: every valid score was raised to the best failure's reward")


def test_a_scale_is_for_rules_that_take_the_score(place: Path) -> None:
    done = run_command("mle-grade", "--scale-score", "thresholds", "executed.jsonl", cwd=place, check=False)
    assert done.returncode == 2 and b"--scale-score is about --reward raw and partial-credit" in done.stderr


def test_one_submission_is_graded_without_a_rollout(place: Path) -> None:
    (place / "mine.csv").write_text(SUBMISSIONS["three right"] or "")
    done = run_command("mle-grade", "--submission", "mine.csv", "--task", "tasks.jsonl", cwd=place)
    (verdict,) = records(done.stdout)
    assert (verdict["kind"], verdict["submission"], verdict["medal"]) == ("verdict", "mine.csv", "bronze")
    of_rollout = graded(place)[1]["grade"]
    of_rollout.pop("reward")
    assert {name: verdict[name] for name in of_rollout} == of_rollout
    (place / "mine.csv").write_text("nonsense\n")
    done = run_command("mle-grade", "--submission", "mine.csv", "--task", "tasks.jsonl", "--id", "space", cwd=place)
    (verdict,) = records(done.stdout)
    assert not verdict["valid"] and verdict["reason"] and verdict["score"] is None


def test_a_verdict_on_a_terminal_is_for_people(place: Path) -> None:
    (place / "mine.csv").write_text(SUBMISSIONS["three right"] or "")
    command = f"{BIN}/mle-grade -q --submission mine.csv --task tasks.jsonl"
    done = subprocess.run(["script", "-qec", command, "/dev/null"], cwd=place, capture_output=True, timeout=60)
    rows = dict(line.split(maxsplit=1) for line in done.stdout.decode().replace("\r", "").splitlines()[:6])
    assert rows["task"].startswith("spaceship-titanic")
    assert (rows["valid"], rows["score"], rows["medal"]) == ("yes", "0.75", "bronze")
    assert rows["thresholds"].startswith("median ")


def test_a_verdict_says_where_ranks_are_among_baselines(place: Path) -> None:
    (place / "mine.csv").write_text(SUBMISSIONS["three right"] or "")
    done = run_command("mle-grade", "--submission", "mine.csv", "--task", "tasks.jsonl", cwd=place)
    verdict = {**records(done.stdout)[0], "position": 3, "teams": 41, "human_rank": 0.951, "human_rank_rule": "dojo"}
    task = json.loads((place / "tasks.jsonl").read_text())
    of_people, of_baselines = (
        verdict_lines({**task, "provenance": {**task["provenance"], "baselines": made}}, verdict, 120)
        for made in ([], [{"name": "dummy", "score": 0.5}])
    )
    assert of_people[-2:] == ["place       3 among 41 teams", "human rank  0.951 (dojo)"]
    assert of_baselines[-2:] == [
        "place       3 among 41 trained baselines",
        "human rank  0.951 (dojo, among baselines)",
    ]
    assert of_baselines[-3] == f"{of_people[-3]} (of trained baselines)"


def test_the_task_of_a_submission_is_chosen(place: Path) -> None:
    (place / "mine.csv").write_text(SUBMISSIONS["three right"] or "")
    line = (place / "tasks.jsonl").read_text()
    other = {**json.loads(line), "id": "spaceship-other"}
    (place / "two.jsonl").write_text(line + json.dumps(other) + "\n")
    mine = ("mle-grade", "--submission", "mine.csv", "--task", "two.jsonl")
    failed = run_command(*mine, cwd=place, check=False)
    assert failed.returncode == 1 and b"two.jsonl: holds 2 tasks; choose one with --id:" in failed.stderr
    assert b"spaceship-other" in failed.stderr
    failed = run_command(*mine, "--id", "wine", cwd=place, check=False)
    assert b"no task begins with 'wine'; there are" in failed.stderr
    (verdict,) = records(run_command(*mine, "--id", "spaceship-o", cwd=place).stdout)
    assert verdict["task"] == "spaceship-other"
    for wrong, message in (
        (("--submission", "mine.csv"), b"--submission needs --task"),
        (("--task", "two.jsonl"), b"are about --submission"),
        ((*mine[1:], "executed.jsonl"), b"would be read as rollouts"),
    ):
        failed = run_command("mle-grade", *wrong, cwd=place, check=False)
        assert failed.returncode == 2 and message in failed.stderr
