"""mle-import --format harbor: what agents did in Harbor's jobs, as rollouts that the other commands take."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from harbor_builders import agent_step, steps, trajectory, write_trial
from hostile_values import mutations
from played import table_of, test_score, write_tasks
from played_checks import graded

from mletools.base.errors import ToolError
from mletools.rollout import trajectories
from mletools.rollout.harbor_jobs import grouped, rollout_of, trial_folders

IMPORT = ("mle-import", "--format", "harbor", "jobs", "--tasks", "tasks.jsonl", "-q", "-k")


def predictions(folder: Path, task: dict[str, Any], slope: float) -> str:
    rows = table_of(folder / task["data"]["dir"] / "public/test.csv")
    return "id,y\n" + "".join(f"{id},{slope * float(x)!r}\n" for id, x in rows)


@pytest.fixture
def jobs(tmp_path: Path) -> tuple[Path, list[dict[str, Any]]]:
    """A folder with two tasks, and a job with two attempts at the first and one at the second."""
    tasks = write_tasks(tmp_path, 2)
    job = tmp_path / "jobs" / "2026-11-01__10-00-00"
    right = {"reward": 0.5, "valid": 1, "score": test_score(tmp_path, tasks[0], 2.9), "medal": 0}
    write_trial(job, "mill__aaaa", tasks[0]["id"], predictions(tmp_path, tasks[0], 2.9), rewards=right)
    write_trial(
        job, "mill__bbbb", tasks[0]["id"], predictions(tmp_path, tasks[0], 2.5), rewards={**right, "score": 0.1}
    )
    stopped = {"exception_info": {"exception_type": "AgentTimeoutError", "exception_message": "after 60 s"}}
    write_trial(job, "mill__cccc", tasks[1]["id"], None, rewards={"reward": 0, "valid": 1}, **stopped)
    return tmp_path, tasks


def test_trials_come_back_as_rollouts_that_are_graded_again(jobs: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, tasks = jobs
    made = records(run_command(*IMPORT, cwd=folder).stdout)
    assert [(record["group_size"], record["sample"]) for record in made] == [(2, 0), (2, 1), (1, 0)]
    assert len({record["id"] for record in made}) == 3 and len({record["group"] for record in made}) == 2
    first, second, third = graded(folder, made)
    assert [record["grade"]["score"] for record in (first, second)] == [
        test_score(folder, tasks[0], 2.9), test_score(folder, tasks[0], 2.5)]  # fmt: skip
    assert (first["scaffold"], first["policy"]["model"]) == ("harbor:mini-swe-agent", "openai/small")
    assert [message["role"] for message in first["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert [bool(message.get("loss")) for message in first["messages"]] == [False, False, True, False, True]
    (call,) = first["messages"][2]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"command": "python3 solve.py"}
    assert first["messages"][3]["tool_call_id"] == call["id"] and first["messages"][2]["reasoning"] == "A line will do."
    assert first["usage"] == {"prompt_tokens": 60, "completion_tokens": 12, "seconds": 9.0, "usd": 0.03}
    assert [turn["duration_s"] for turn in first["turns"]] == [5.5, 0.0]
    assert first["trial"]["rewards"]["reward"] == 0.5 and first["execution"]["backend"] == "harbor:docker"
    assert (third["stop_reason"], third["execution"]["status"], third["trial"]["exception"]) == (
        "timeout", "timeout", "AgentTimeoutError")  # fmt: skip
    assert not third["grade"]["valid"] and third["execution"]["submission_problem"] == "no submission.csv"


def test_a_job_that_graded_otherwise_is_told(jobs: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, tasks = jobs
    made = run_command(*IMPORT, cwd=folder).stdout
    told = run_command("mle-grade", "-k", input=made, cwd=folder).stderr.decode().split("\n")
    score = test_score(folder, tasks[0], 2.5)
    assert told[0] == (
        f"mle-grade: mill__bbbb: the job graded its submission with 0.1, mle-grade with {score:g}; the grade counts "
        "(the first that differs)"
    )
    assert "2 that their job graded otherwise" in told[1]
    honest = made.split(b"\n")[0] + b"\n"
    assert b"otherwise" not in run_command("mle-grade", input=honest, cwd=folder).stderr


def test_an_agent_without_a_trajectory_is_a_rollout(jobs: tuple[Path, list[dict[str, Any]]]) -> None:
    """Harbor's oracle writes none, an agent that was killed may have written none: what they handed in counts."""
    folder, tasks = jobs
    job = folder / "jobs/2026-11-01__10-00-00"
    (job / "mill__aaaa/agent/trajectory.json").unlink()
    (job / "mill__aaaa/artifacts/submission.csv").write_text((job / "mill__bbbb/artifacts/submission.csv").read_text())
    path = job / "mill__bbbb/agent/trajectory.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "steps": [], "final_metrics": {}}))
    made = records(run_command(*IMPORT, cwd=folder).stdout)
    assert [record["group_size"] for record in made] == [2, 2, 1]
    for record in made[:2]:
        assert record["messages"] == [{"role": "user", "content": tasks[0]["description"]}] and not record["turns"]
        assert [record["usage"][name] for name in ("prompt_tokens", "completion_tokens", "usd")] == [None] * 3
        assert record["usage"]["seconds"] == 9.0
    (folder / "graded.jsonl").write_text("".join(json.dumps(each) + "\n" for each in graded(folder, made)))
    assert [record["grade"]["valid"] for record in graded(folder, made)] == [True, True, False]
    shown = run_command("mle-show", "--color", "never", "graded.jsonl", cwd=folder).stdout.decode()
    assert "harbor:mini-swe-agent" in shown and "finished after 0 turns" in shown
    report = run_command("mle-report", "-q", "graded.jsonl", cwd=folder).stdout.decode()
    assert "budget per rollout: not recorded" in report
    done = run_command("mle-export", "--to", "chat", "graded.jsonl", cwd=folder)
    assert len(done.stdout.splitlines()) == 1 and b"2 without a message of the policy" in done.stderr
    path.unlink()  # now both left the same, and nothing else
    assert len({record["id"] for record in records(run_command(*IMPORT, cwd=folder).stdout)}) == 3


def test_durations_of_an_agent_that_stamps_the_end_of_a_step() -> None:
    said = [dict(step) for step in steps()]

    def durations(agent: str) -> list[float]:
        told = trajectory(said)
        told["agent"]["name"] = agent
        return [turn["duration_s"] for turn in trajectories.read([told]).turns]

    assert durations("mini-swe-agent") == [5.5, 0.0] and durations("terminus-2") == [2.0, 5.5]


@pytest.mark.slow
def test_the_other_commands_take_them(jobs: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, tasks = jobs
    run_command(*IMPORT, "-o", "rollouts.jsonl", cwd=folder)
    run_command("mle-grade", "-q", "rollouts.jsonl", "-o", "graded.jsonl", cwd=folder)
    assert (
        b"3 records, 3 ran in harbor"
        in run_command("mle-sandbox", "--preimport", "", "rollouts.jsonl", cwd=folder).stderr
    )
    shown = run_command("mle-show", "--color", "never", "graded.jsonl", cwd=folder).stdout.decode()
    assert "harbor:mini-swe-agent" in shown and "I run it." in shown
    report = records(run_command("mle-report", "--json", "-q", "graded.jsonl", cwd=folder).stdout)
    assert {record["task"]: record["rollouts"] for record in report} == {"all": 3, tasks[0]["id"]: 2, tasks[1]["id"]: 1}
    kept = records(run_command("mle-filter", "-q", "graded.jsonl", cwd=folder).stdout)
    assert [record["trial"]["name"] for record in kept] == ["mill__aaaa", "mill__bbbb"]


def _rewritten(name: str, **changes: Any) -> Callable[[Path], object]:
    def act(trial: Path) -> None:
        path = trial / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return act


def _linked(trial: Path) -> None:
    path = trial / "agent/trajectory.json"
    path.rename(trial / "elsewhere")
    path.symlink_to(trial / "elsewhere")


def _second_submission(trial: Path) -> None:
    (trial / "artifacts/other").mkdir()
    (trial / "artifacts/other/submission.csv").write_text("another")


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda trial: (trial / "result.json").unlink(), "no result.json: the trial has not come to its end"),
        (lambda trial: (trial / "result.json").write_text("{"), "result.json: Expecting property name"),
        (_rewritten("result.json", agent_execution=None), "its agent was not started: result.json does not say why"),
        (lambda trial: (trial / "agent/trajectory.json").write_text("[1]"), "agent/trajectory.json: not a JSON object"),
        (_linked, "agent/trajectory.json: Too many levels of symbolic links"),
        (_rewritten("agent/trajectory.json", schema_version="ATIF-v2.0"), "schema_version is 'ATIF-v2.0': known are"),
        (_rewritten("agent/trajectory.json", steps=[{"source": "robot"}]), "Invalid enum value 'robot' - at"),
        (_rewritten("agent/trajectory.json", continued_trajectory_ref="next.json"), "agent/next.json: No such file"),
        (_second_submission, "artifacts/submission.csv and artifacts/other/submission.csv differ: which one"),
    ],
)  # fmt: skip
def test_a_broken_trial_is_rejected_by_its_path(
    act: Callable[[Path], object], reason: str, jobs: tuple[Path, list[dict[str, Any]]]
) -> None:
    folder, _ = jobs
    place = "jobs/2026-11-01__10-00-00/mill__aaaa"
    act(folder / place)
    done = run_command(*IMPORT, cwd=folder, check=False)
    assert done.returncode == 1 and done.stderr.decode().startswith(f"mle-import: {place}: {reason}")
    done = run_command(*IMPORT, "--max-rejects", "1", "--rejects", "rejects.jsonl", cwd=folder)
    assert [record["trial"]["name"] for record in records(done.stdout)] == ["mill__bbbb", "mill__cccc"]
    (reject,) = records((folder / "rejects.jsonl").read_bytes())
    assert reject["source"] == place and reject["reason"].startswith(reason)


def test_a_task_that_nobody_knows_rejects_and_no_trial_at_all_is_an_error(
    jobs: tuple[Path, list[dict[str, Any]]],
) -> None:
    folder, tasks = jobs
    (folder / "tasks.jsonl").write_text(json.dumps(tasks[0]) + "\n")
    done = run_command(*IMPORT, cwd=folder, check=False)
    assert done.returncode == 1 and f"its task is '{tasks[1]['id']}', the id of none of --tasks" in done.stderr.decode()
    done = run_command(*IMPORT[:3], "views", *IMPORT[4:], cwd=folder, check=False)
    assert done.stderr.decode().startswith("mle-import: views: no trial of a Harbor job: name a folder of jobs")
    done = run_command(*IMPORT, "--data", "jobs", "--max-rejects", "1", cwd=folder, check=False)
    assert (
        done.returncode == 1
        and "is --data (or MLE_DATA, for every command) the folder that the task was written to?"
        in done.stderr.decode()
    )
    for options, told in (
        ((), "needs --tasks FILE"),
        (("--tasks", "tasks.jsonl", "--target", "y"), "leave --target out"),
    ):
        done = run_command("mle-import", "--format", "harbor", "jobs", *options, cwd=folder, check=False)
        assert done.returncode == 2 and told in done.stderr.decode()


@pytest.mark.parametrize("kind", ["link", "pipe", "large"])
def test_a_submission_that_is_no_plain_file_is_none(kind: str, jobs: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, tasks = jobs
    path = folder / "jobs/2026-11-01__10-00-00/mill__aaaa/artifacts/submission.csv"
    path.unlink()
    if kind == "link":
        path.symlink_to(folder / tasks[0]["data"]["dir"] / tasks[0]["answers"])
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"x" * (33 << 20))
    record = records(run_command(*IMPORT, cwd=folder).stdout)[0]
    assert record["execution"]["submission"] is None
    told = {"link": "Too many levels", "pipe": "is no plain file", "large": "is larger than 32 MB"}[kind]
    assert told in record["execution"]["submission_problem"]
    assert not graded(folder, [record])[0]["grade"]["valid"]


# ---- trajectories


def sequence(conversation: trajectories.Conversation) -> list[list[int]]:
    """What stands before each message of the model, and the message, in tokens."""
    found, so_far = [], list[int]()
    for message in conversation.messages:
        so_far = list(message.get("prompt_token_ids", so_far))
        if message.get("loss"):
            found.append([*so_far, *message["token_ids"]])
        so_far += message.get("token_ids", [])
    return found


def test_token_ids_are_the_exact_sequence() -> None:
    turns = [([1, 2, 3], [4, 5]), ([1, 2, 3, 4, 5, 6], [7]), ([1, 2, 9, 6], [8, 8])]
    said = [{"source": "user", "message": "q"}]
    for at, (prompt, ids) in enumerate(turns):
        metrics = {"prompt_token_ids": prompt, "completion_token_ids": ids, "logprobs": [-0.5] * len(ids)}
        said += [agent_step(f"a{at}", metrics=metrics, observation={"results": [{"content": "seen"}]})]
    found = trajectories.read([trajectory(said)])
    assert sequence(found) == [prompt + ids for prompt, ids in turns]
    assert [message.get("logprobs") for message in found.messages if message.get("loss")] == [
        [-0.5] * 2,
        [-0.5],
        [-0.5] * 2,
    ]
    assert ["prompt_token_ids" in message for message in found.messages] == [False] * 5 + [True, False]
    del said[2]["metrics"]["completion_token_ids"]
    without = trajectories.read([trajectory(said)])
    assert not any("token_ids" in message or "prompt_token_ids" in message for message in without.messages)


def test_a_trajectory_goes_on_in_another_file(jobs: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, _ = jobs
    place = folder / "jobs/2026-11-01__10-00-00/mill__aaaa/agent"
    (place / "trajectory.json").write_text(json.dumps(trajectory(continued_trajectory_ref="trajectory.cont-1.json")))
    copied = [{**step, "is_copied_context": True} for step in steps()[2:]]
    said = [{"source": "user", "message": "In short."}, *copied, agent_step("All of it.")]
    (place / "trajectory.cont-1.json").write_text(json.dumps(trajectory(said)))
    record = records(run_command(*IMPORT, cwd=folder).stdout)[0]
    losses = [message["content"] for message in record["messages"] if message.get("loss")]
    assert losses == ["I run it.", "It is done.", "All of it."] and len(record["messages"]) == 10
    assert [turn.get("dropped") for turn in record["turns"]] == [None, None, [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("version", trajectories.VERSIONS)
def test_every_version_and_what_is_no_text(version: str) -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
    ]
    said = [
        {"source": "user", "message": parts},
        agent_step("Planned.", llm_call_count=0),
        agent_step("Seen.", tool_calls=[], observation={"results": [{"content": parts}, {"extra": {}}]}),
    ]
    found = trajectories.read([trajectory(said, schema_version=version)])
    assert [(message["role"], message["content"]) for message in found.messages] == [
        ("user", "Look:\n[image]"), ("assistant", "Planned."), ("assistant", "Seen."), ("user", "Look:\n[image]"), ("user", ""),
    ]  # fmt: skip
    assert [turn["message"] for turn in found.turns] == [2]


def test_no_value_of_a_strangers_job_is_an_internal_error(jobs: tuple[Path, list[dict[str, Any]]]) -> None:
    """Whatever stands in a file of a trial, the trial is rejected or a rollout that its schema takes."""
    folder, tasks = jobs
    place = folder / "jobs/2026-11-01__10-00-00/mill__aaaa"
    known = {task["id"]: task for task in tasks}
    outcomes = {True: 0, False: 0}
    for name in ("result.json", "agent/trajectory.json", "config.json"):
        path = place / name
        whole = path.read_text()
        for number, (_, _, line) in enumerate(mutations(json.loads(whole), items=1)):
            if number % 17:
                continue  # a part of them, over all places
            path.write_text(line)
            found, wrong = grouped(trial_folders([str(place)]), known)
            try:
                rollouts = [rollout_of(each, folder) for each in found]
                outcomes[True] += len(rollouts)
            except (ValueError, ToolError):
                wrong = [(place, "")]
            outcomes[False] += len(wrong)
        path.write_text(whole)
    assert min(outcomes.values()) > 20


@pytest.mark.slow
def test_a_model_is_trained_on_them(jobs: tuple[Path, list[dict[str, Any]]], policy: Path) -> None:
    folder, _ = jobs
    run_command(*IMPORT, "-o", "rollouts.jsonl", cwd=folder)
    run_command("mle-grade", "-q", "rollouts.jsonl", "-o", "graded.jsonl", cwd=folder)
    line = ("mle-train-sft", "-q", "--model", str(policy / "tiny"), "--run-dir", "out", "--epochs", "1", "--batch", "2")
    steps = records(run_command(*line, "graded.jsonl", cwd=folder).stdout)
    assert steps and all(step["loss"] > 0 for step in steps)
