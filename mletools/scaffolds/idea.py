"""Scaffold `idea`: from a state, one idea of the policy, implemented by a frozen model in one step.

MLE-Ideator, section 3.2: the rollouts that train an ideator. The record's messages are the ideator's; its code is the
implementer's, executed here, and mle-grade --reward improvement compares its score with the state's (+1, 0, -1).
An idea in another form is not implemented: its reward is known. Covered: the ideator's format, an implementer that fails.
Not covered: the rewards; more steps.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from .. import prompts
from ..base.errors import RecordError, ToolError
from ..base.options import option
from ..records.rollout import Implementer, Message, Rollout, StartState, StopReason
from . import ideas
from .episode import Episode
from .interface import Ended, Environment, Job, Scaffold, Settings, usage_of
from .messages import escaped, fenced, task_prompt
from .reading import read_answer
from .states import check_rows


@dataclass(frozen=True)
class IdeaSettings(Settings):
    """The bounds of MLE-Ideator, and the implementer."""

    MODELS: ClassVar[Mapping[str, tuple[str, str]]] = {"implementer": ("implementer", "implementer_url")}

    max_turns: int = 1
    max_answer_tokens: int = 8192
    execution_seconds: float = 1200.0
    implementer: str | None = option("The frozen model that implements each idea.", metavar="MODEL")
    implementer_url: str | None = option(
        "URL of the implementer's server (default: --model-url).", kind="url", machine=True
    )
    trajectory_tokens: int = option(
        "Maximum tokens of the trajectory in the ideator's question.", default=32000, at_least=1, metavar="N"
    )


class Idea(Scaffold[IdeaSettings]):
    """See the module."""

    settings = IdeaSettings
    input = "rollout"
    prompts = ("ideator", "implementer", "task")

    def check(self, settings: IdeaSettings) -> IdeaSettings:
        """The settings. ToolError without an implementer."""
        if not settings.implementer:
            raise ToolError("--scaffold idea needs a model that implements ideas: give --implementer MODEL")
        return settings

    def play(self, job: Job[IdeaSettings], environment: Environment) -> Iterator[Rollout]:
        """The rollout of one idea. RecordError for a record that is no state."""
        assert job.record is not None and job.record["kind"] == "rollout"
        start = job.record.get("state")
        if job.record["stop_reason"] != "asked" or not start:
            raise RecordError("not a state: use the output of mle-rollout --scaffold codeact --write-states")
        check_rows(job.record, job.settings)
        messages, query, tokens = job.record["messages"], start.get("query"), job.settings.trajectory_tokens
        idea, implemented = None, None
        reason: StopReason = "format"
        for share in ideas.SHARES:
            episode = Episode(job, environment, ())
            shorten = partial(episode.shorten, "policy")
            episode.messages = ideas.question(messages, query, int(tokens * share), shorten)
            try:
                reply = episode.ask()
            except Ended as ended:
                reason = ended.reason
                if reason == "context":
                    continue
            else:
                reason = "format"
                idea, form = ideas.idea_and_format(reply["text"], reply["finish_reason"])
                episode.turn["action"] = "idea"
                episode.note_format(form)
                if idea is None:
                    episode.turn["problem"] = "length" if reply["finish_reason"] == "length" else "malformed"
            break
        # an idea in another form earns -1 whatever comes of it (eq. 1)
        if idea is not None and episode.well_formed[-1]:
            implemented = _implement(episode, environment, idea, start)
            reason = "finished"
        yield episode.record(reason, state=start, idea=idea, implementer=implemented)


def _implement(
    episode: Episode[IdeaSettings], environment: Environment, idea: dict[str, str], start: StartState
) -> Implementer:
    """Ask the implementer for the program and run it; returns its messages and usage."""
    settings = episode.settings
    task = task_prompt("task", episode.job, environment)
    standing = "It has no valid submission yet."
    if start.get("score") is not None or start.get("validation") is not None:
        rows = "test" if settings.reveal_test else "validation"
        shown = settings.shown_at_start(start.get("score") if settings.reveal_test else start.get("validation"))
        standing = "Its score is not told." if shown is None else f"Its score on the {rows} rows: {shown:g}."
    instructions = prompts.render(
        "implementer",
        task=task,
        standing=standing,
        code=fenced((start.get("code") or "# there is none yet").strip(), "python"),
        idea=escaped(ideas.as_text(idea)),
    )
    messages: list[Message] = [{"role": "user", "content": instructions}]
    reply = episode.consult("implementer", "implementer", messages)
    if "refused" in reply:
        return {"model": settings.implementer, "messages": messages, "refused": reply["refused"]}
    episode.charge("implementer", reply)
    code = read_answer(reply["text"], reply["finish_reason"], reply.get("reasoning")).code
    if code is not None:
        episode.run(code)
    answer: Message = {"role": "assistant", "content": reply["text"]}
    if reasoning := reply.get("reasoning"):
        answer["reasoning"] = reasoning
    return {"model": settings.implementer, "messages": [*messages, answer], "usage": usage_of(reply)}
