"""Folders of Harbor jobs for tests, written by hand as Harbor lays them out."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CALLS = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "python3 solve.py"}}


def agent_step(message: str, **more: Any) -> dict[str, Any]:
    return {"source": "agent", "message": message, **more}


def steps() -> list[dict[str, Any]]:
    """A system prompt, a question, a call and its result, an end."""
    return [
        {"source": "system", "message": "You are an agent.", "timestamp": "2026-11-01T10:00:00Z"},
        {"source": "user", "message": "Predict y.", "timestamp": "2026-11-01T10:00:00Z"},
        agent_step(
            "I run it.",
            timestamp="2026-11-01T10:00:02Z",
            reasoning_content="A line will do.",
            tool_calls=[CALLS],
            observation={"results": [{"source_call_id": "c1", "content": "slope 2.9"}]},
            metrics={"prompt_tokens": 20, "completion_tokens": 7, "cost_usd": 0.01},
        ),
        agent_step(
            "It is done.",
            timestamp="2026-11-01T10:00:07.5Z",
            metrics={"prompt_tokens": 40, "completion_tokens": 5, "cost_usd": 0.02},
        ),
    ]


def trajectory(said: Sequence[Mapping[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps() if said is None else said, 1)]
    agent = {"name": "mini-swe-agent", "version": "2.1.0", "model_name": "openai/small"}
    return {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": agent, "steps": numbered, **more}


def write_trial(
    job: Path,
    name: str,
    task: str,
    submission: str | None,
    told: Mapping[str, Any] | None = None,
    rewards: Mapping[str, float] | None = None,
    **result: Any,
) -> Path:
    """A trial of a job on the task with that id; `told` is the trajectory, `result` more of result.json."""
    folder = job / name
    for part in ("agent", "verifier", "artifacts"):
        (folder / part).mkdir(parents=True)
    (job / "config.json").write_text('{"job_name": "ours"}')
    (job / "result.json").write_text('{"n_total_trials": 1}')
    config = {"task": {"path": f"tasks/{task}"}, "trial_name": name, "agent": {"name": "mini-swe-agent"}}
    config["environment"] = {"type": "docker"}
    (folder / "config.json").write_text(json.dumps(config))
    model = {"name": "small", "provider": "openai"}
    ended = {
        "task_name": f"mletools/{task}",
        "trial_name": name,
        "config": config,
        "agent_info": {"name": "mini-swe-agent", "version": "2.1.0", "model_info": model},
        "agent_execution": {"started_at": "2026-11-01T10:00:00Z", "finished_at": "2026-11-01T10:00:09Z"},
        "verifier_result": {"rewards": rewards},
        "exception_info": None,
    }
    (folder / "result.json").write_text(json.dumps({**ended, **result}))
    (folder / "agent" / "trajectory.json").write_text(json.dumps(trajectory() if told is None else told))
    if rewards is not None:
        (folder / "verifier" / "reward.json").write_text(json.dumps(rewards))
    if submission is not None:
        (folder / "artifacts" / "submission.csv").write_text(submission)
    return folder
