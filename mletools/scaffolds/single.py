"""Scaffold `single`: one question, one answer of a plan and one block of code (RL for MLE agents, appendix C.1).

Covered: the questions of a task, known by id before anything is sampled, and the record of an answer.
Not covered: asking (the command does, with any model), running or grading the code, further turns.
"""

from dataclasses import asdict, dataclass
from typing import Any

from mletools import prompts
from mletools.records.ids import content_id, derive_seed
from mletools.scaffolds.answers import split_answer

NAME = "single"
MOST_COLUMNS = 40  # named in a prompt


@dataclass(frozen=True)
class Sampling:
    """How answers are sampled; `max_tokens` bounds one answer."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 1024


@dataclass(frozen=True)
class Job:
    """One answer to ask for: its record's id is known before it is sampled, so that a resumed run can skip it."""

    id: str
    group: str
    group_size: int
    sample: int
    seed: int
    task: dict[str, Any]
    policy: dict[str, Any]
    messages: list[dict[str, Any]]


def jobs(
    task: dict[str, Any],
    *,
    group_size: int,
    seed: int,
    model_name: str,
    model_version: str | int | None = None,
    sampling: Sampling | None = None,
    prompt: str = "single",
) -> list[Job]:
    """The `group_size` jobs of one task, sample 0 first. `prompt` is a prompt's name or the path of one.

    Ids depend on the task, the policy, the prompt's text, `sampling` and the run's `seed`; not on `group_size`, so a
    larger group repeats the samples of a smaller one. ToolError: a prompt that asks for what a task cannot give.
    """
    policy = {"model": model_name, "version": model_version, "sampling": asdict(sampling or Sampling())}
    messages = [{"role": "user", "content": question(task, prompt)}]
    same = ["rollout", task["id"], NAME, policy, prompts.text(prompt), seed]
    group, ids = content_id(*same), [content_id(*same, sample) for sample in range(group_size)]
    return [
        Job(id, group, group_size, sample, derive_seed(seed, id), task, policy, messages)
        for sample, id in enumerate(ids)
    ]


def question(task: dict[str, Any], prompt: str = "single") -> str:
    """The prompt, filled in with what an agent may know of a task: nothing of answers, thresholds or provenance."""
    facts = _facts(task)
    return prompts.render(prompt, **{name: facts[name] for name in prompts.placeholders(prompt) & facts.keys()})


def record(job: Job, reply: Any, seconds: float) -> dict[str, Any]:
    """The rollout record of a job's reply (a Reply of mletools.models), which took `seconds`; lineage is left empty.

    stop_reason: length where the answer was cut, format where it holds no single block of code, else finished.
    """
    plan, code = split_answer(reply.text)
    stop_reason = "finished" if code is not None else "format"
    if reply.finish_reason == "length":
        stop_reason = "length"
    asked = dict(job.messages[-1])
    if reply.prompt_token_ids is not None:
        asked["token_ids"] = reply.prompt_token_ids
    answered: dict[str, Any] = {"role": "assistant", "content": reply.text, "loss": True}
    if reply.token_ids is not None:
        answered["token_ids"] = reply.token_ids
        if reply.logprobs is not None:
            answered["logprobs"] = reply.logprobs
    return {
        "kind": "rollout",
        "version": 1,
        "id": job.id,
        "lineage": [],
        "task": job.task,
        "group": job.group,
        "group_size": job.group_size,
        "sample": job.sample,
        "seed": job.seed,
        "scaffold": NAME,
        "policy": job.policy,
        "messages": [*job.messages[:-1], asked, answered],
        "turns": [{"action": "solve", "duration_s": seconds}],
        "usage": {
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
            "seconds": seconds,
            "usd": None,
        },
        "stop_reason": stop_reason,
        "plan": plan,
        "code": code,
    }


def _facts(task: dict[str, Any]) -> dict[str, str]:
    submission, metric = task["submission"], task["metric"]
    return {
        "name": task["name"],
        "description": task["description"].strip(),
        "modality": task["modality"],
        "problem": task["problem"].replace("_", " "),
        "metric": _metric(metric),
        "direction": "lower is better" if metric["lower_is_better"] else "higher is better",
        "files": ", ".join(task["data"]["public"]),
        "columns": _columns(submission["id"] + submission["target"]),
    }


def _metric(metric: dict[str, Any]) -> str:
    """The metric in words: its name and parameters; one that is code has nothing to show but the description."""
    if "name" not in metric:
        return "the one that the description defines"
    return " ".join([metric["name"], *(f"{key}={value}" for key, value in sorted(metric["params"].items()))])


def _columns(names: list[str]) -> str:
    if len(names) <= MOST_COLUMNS:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_COLUMNS])} and {len(names) - MOST_COLUMNS} more, as in the sample submission"
