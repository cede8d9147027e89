"""Scaffold `single`: one question, one answer of a plan and one block of code (RL for MLE agents, appendix C.1).

Covered: the questions of a task, known by id before anything is sampled, and the record of an answer.
Not covered: asking (the command does, with any model), running or grading the code, further turns, which solution to improve on.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from .. import prompts
from ..records.ids import content_id, derive_seed
from ..records.options import option
from .answers import split_answer
from .facts import tell
from .improve import improve_question
from .previous import Previous
from .quoting import fenced

NAME = "single"


@dataclass(frozen=True)
class SingleSettings:
    """What the options of this scaffold say."""

    WITHOUT: ClassVar[tuple[str, ...]] = ()
    EVALUATION: ClassVar[Mapping[str, Any]] = {}
    MODELS: ClassVar[Mapping[str, tuple[str, str]]] = {}

    prompt: str = option(
        "single, single-brief, or the path of a Markdown file with {{name}} placeholders.", default="single"
    )
    max_tokens: int = option("Sampled in an answer.", default=4096, at_least=1, metavar="N")
    improve_ratio: float | None = option(
        "Share of rollouts that improve on a solution from --pool (the paper: 0.5).",
        at_least=0,
        at_most=1,
        metavar="SHARE",
    )
    pool: tuple[str, ...] = option(
        "Executed rollouts to improve on. Repeatable.", default=(), kind="existing file", metavar="FILE"
    )
    batch: int = option(
        "Answers that an hf: engine samples at once.", default=64, at_least=1, flags=("--engine-batch",)
    )


class Single:
    """The scaffold by name. Its answers are asked in batches (rollout.single), without an environment."""

    settings = SingleSettings


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
    state: dict[str, Any] | None = None  # the solution that it is to improve on


def jobs(
    task: dict[str, Any],
    *,
    group_size: int,
    seed: int,
    model_name: str,
    model_version: str | int | None = None,
    sampling: Sampling | None = None,
    prompt: str = "single",
    previous: Previous | None = None,
) -> list[Job]:
    """The `group_size` jobs of one task, sample 0 first. `prompt` is a prompt's name or the path of one.

    `previous` is a solution to improve on: then the question is another one (appendix C.2). Ids depend on the task, the
    policy, the prompt's text, `previous`, `sampling` and the run's `seed`; not on `group_size`, so a larger group repeats
    the samples of a smaller one. ToolError: a prompt that asks for what a task cannot give.
    """
    policy = {"model": model_name, "version": model_version, "sampling": asdict(sampling or Sampling())}
    same = ["rollout", task["id"], NAME, policy, prompts.text(prompt), seed]
    state, content = None, question(task, prompt) if previous is None else ""
    if previous is not None:
        content = improve_question(
            task, previous.plan, previous.code, fenced(previous.output) if previous.output else ""
        )
        state = {"validation": previous.score, "code": previous.code, "rollout": previous.rollout}
        same.append([prompts.text("improve"), previous.rollout])
    messages = [{"role": "user", "content": content}]
    group, ids = content_id(*same), [content_id(*same, sample) for sample in range(group_size)]
    return [
        Job(id, group, group_size, sample, derive_seed(seed, id), task, policy, messages, state)
        for sample, id in enumerate(ids)
    ]


def question(task: dict[str, Any], prompt: str = "single") -> str:
    """The prompt, filled in with what an agent may know of a task: nothing of answers, thresholds or provenance."""
    return tell(prompt, task)


def record(job: Job, reply: Any, seconds: float) -> dict[str, Any]:
    """The rollout record of a job's reply (a Reply of mletools.models), which took `seconds`; lineage is left empty.

    stop_reason: length where the answer was cut, format where it holds no single block of code, else finished.
    """
    plan, code = split_answer(reply.text)
    stop_reason = "finished" if code is not None else "format"
    if reply.finish_reason == "length":
        stop_reason = "length"
    question_message = dict(job.messages[-1])
    if reply.prompt_token_ids is not None:
        question_message["token_ids"] = reply.prompt_token_ids
    answered: dict[str, Any] = {"role": "assistant", "content": reply.text, "loss": True}
    if reply.token_ids is not None:
        answered["token_ids"] = reply.token_ids
        if reply.logprobs is not None:
            answered["logprobs"] = reply.logprobs
    rollout = {
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
        "messages": [*job.messages[:-1], question_message, answered],
        "turns": [{"action": "improve" if job.state else "solve", "duration_s": seconds}],
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
    return {**rollout, "state": job.state} if job.state else rollout
