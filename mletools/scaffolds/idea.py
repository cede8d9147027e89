"""Scaffold `idea`: from a state, one idea of the policy's, carried out by a frozen implementer in one step.

MLE-Ideator, section 3.2: the rollouts that an ideator is trained on. The record's messages are the ideator's; what the
implementer made of the idea is the code, which is run here, and mle-grade --reward improvement compares its score with
the state's (+1, 0, -1). Covered: the ideator's format, an implementer that fails. Not covered: the rewards; more steps.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import prompts
from ..records.errors import RecordError, ToolError
from ..records.options import option
from . import ideas
from .answers import split_answer
from .episode import Episode
from .facts import split_told, tell
from .interface import Ended, Environment, Job, Scaffold, Settings
from .quoting import fenced


@dataclass(frozen=True)
class IdeaSettings(Settings):
    """The bounds of MLE-Ideator, and the implementer."""

    MODELS: ClassVar[Mapping[str, tuple[str, str]]] = {"implementer": ("implementer", "implementer_url")}

    max_turns: int = 1
    max_answer_tokens: int = 8192
    execution_seconds: float = 1200.0
    implementer: str | None = option("The frozen model that carries each idea out.", metavar="MODEL")
    implementer_url: str | None = option("The implementer's server (default: --model-url).", kind="url", machine=True)
    trajectory_tokens: int = option(
        "Tokens of the trajectory that the ideator sees.", default=32000, at_least=1, metavar="N"
    )


class Idea(Scaffold[IdeaSettings]):
    """See the module."""

    settings = IdeaSettings
    input = "rollout"
    prompts = ("ideator", "implementer", "task")

    def check(self, settings: IdeaSettings) -> IdeaSettings:
        """The settings as they are to be. ToolError for some that this scaffold cannot work with."""
        if not settings.implementer:
            raise ToolError("--scaffold idea needs a model that carries the ideas out: --implementer MODEL")
        return settings

    def play(self, job: Job[IdeaSettings], environment: Environment) -> Iterator[dict[str, Any]]:
        """The rollout of one idea. RecordError where the record is no state."""
        assert job.record is not None
        start = job.record.get("state")
        if job.record["stop_reason"] != "asked" or not start:
            raise RecordError("no state: give what mle-rollout --scaffold codeact --write-states wrote")
        question = ideas.question(job.record["messages"], start.get("query"), job.settings.trajectory_tokens)
        episode = Episode(job, environment, question)
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
        implemented = _carry_out(episode, idea, start)
        yield episode.record("finished", state=start, idea=idea, implementer=implemented)


def _carry_out(episode: Episode[IdeaSettings], idea: dict[str, str], start: dict[str, Any]) -> dict[str, Any]:
    """Let the implementer write the program and run it; what it said and used."""
    job, settings = episode.job, episode.settings
    task = tell("task", job.task, split=split_told(settings.validation > 0, settings.reveal_test))
    score = start.get("validation")
    standing = "It has no valid submission yet." if score is None else f"Its score on the validation rows: {score:g}."
    instructions = prompts.render(
        "implementer",
        task=task,
        standing=standing,
        code=fenced((start.get("code") or "# there is none yet").strip(), "python"),
        idea=ideas.as_text(idea),
    )
    messages = [{"role": "user", "content": instructions}]
    reply = episode.consult("implementer", "implementer", messages)
    if "refused" in reply:
        return {"model": settings.implementer, "messages": messages, "refused": reply["refused"]}
    episode.charge(reply)
    code = None if reply["finish_reason"] == "length" else split_answer(reply["text"])[1]
    if code is not None:
        episode.run(code)
    usage = {name: reply[name] for name in ("prompt_tokens", "completion_tokens", "seconds", "usd")}
    answer = {"role": "assistant", "content": reply["text"]}
    return {"model": settings.implementer, "messages": [*messages, answer], "usage": usage}
