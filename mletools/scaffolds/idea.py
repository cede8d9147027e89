"""Scaffold `idea`: from a state, one idea of the policy's, carried out by a frozen implementer in one step.

MLE-Ideator, section 3.2: the rollouts that an ideator is trained on. The record's messages are the ideator's; what the
implementer made of the idea is the code, which is run here, and mle-grade --reward improvement compares its score with
the state's (+1, 0, -1). Covered: the ideator's format, an implementer that fails. Not covered: the rewards; more steps.
"""

from collections.abc import Iterator
from typing import Any

from mletools import prompts
from mletools.records.errors import RecordError, ToolError
from mletools.records.tape import Tape
from mletools.scaffolds import ideas
from mletools.scaffolds.answers import split_answer
from mletools.scaffolds.episode import Episode
from mletools.scaffolds.facts import split_told, tell
from mletools.scaffolds.job import Ended, Job, Place, Settings
from mletools.scaffolds.quoting import fenced

SETTINGS = Settings(
    max_turns=1,
    max_answer_tokens=8192,
    execution_seconds=1200.0,
    own={"implementer": None, "trajectory_tokens": 32000},
)
EVALUATION: dict[str, Any] = {}
INPUT = "rollout"
PROMPTS = ("ideator", "implementer", "task")
SESSIONS = False


def check(settings: Settings) -> Settings:
    """The settings as they are to be. ToolError for some that this scaffold cannot work with."""
    if not settings.own["implementer"]:
        raise ToolError("--scaffold idea needs a model that carries the ideas out: --implementer MODEL")
    return settings


def work(job: Job, place: Place, tape: Tape) -> Iterator[dict[str, Any]]:
    """The rollout of one idea. RecordError where the record is no state."""
    assert job.record is not None
    start, own = job.record.get("state"), job.settings.own
    if job.record["stop_reason"] != "asked" or not start:
        raise RecordError("no state: give what mle-rollout --scaffold codeact --states wrote")
    asked = ideas.question(job.record["messages"], start.get("query"), own["trajectory_tokens"])
    episode = Episode(job, place, tape, asked)
    try:
        reply = episode.ask()
    except Ended as ended:
        yield episode.record(ended.reason, state=start, idea=None, implementer=None)
        return
    episode.turn["action"] = "idea"
    idea = None if reply["finish_reason"] == "length" else ideas.read_idea(reply["text"])
    episode.well_formed.append(idea is not None)
    if idea is None:
        episode.turn["problem"] = "length" if reply["finish_reason"] == "length" else "malformed"
        yield episode.record("format", state=start, idea=None, implementer=None)
        return
    made = _carry_out(episode, idea, start)
    yield episode.record("finished", state=start, idea=idea, implementer=made)


def _carry_out(episode: Episode, idea: dict[str, str], start: dict[str, Any]) -> dict[str, Any]:
    """Let the implementer write the program and run it; what it said and used."""
    job, settings = episode.job, episode.settings
    task = tell("task", job.task, split=split_told(settings.validation > 0, settings.reveal_test))
    score = start.get("validation")
    standing = "It has no valid submission yet." if score is None else f"Its score on the validation rows: {score:g}."
    told = prompts.render(
        "implementer",
        task=task,
        standing=standing,
        code=fenced((start.get("code") or "# there is none yet").strip(), "python"),
        idea=ideas.as_text(idea),
    )
    messages = [{"role": "user", "content": told}]
    reply = episode.consult("implementer", "implementer", messages)
    if "refused" in reply:
        return {"model": settings.own["implementer"], "messages": messages, "refused": reply["refused"]}
    episode.charge(reply)
    code = None if reply["finish_reason"] == "length" else split_answer(reply["text"])[1]
    if code is not None:
        episode.run(code)
    usage = {name: reply[name] for name in ("prompt_tokens", "completion_tokens", "seconds", "usd")}
    said = {"role": "assistant", "content": reply["text"]}
    return {"model": settings.own["implementer"], "messages": [*messages, said], "usage": usage}
