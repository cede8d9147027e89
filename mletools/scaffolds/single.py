"""Scaffolds `single` and `improve`: answers of a plan and one block of code (RL for MLE agents, appendix C).

single: one question, from scratch (C.1) or to improve on a solution of --pool (C.2), one answer, and its record; running
and grading the code is not covered (mle-sandbox and mle-grade come next). improve, at test time (section 3.3): a solution
from scratch, then an improved one; the one with the better shown score is handed in. Covered: a first answer without a
program. Not covered: token ids of the two conversations as one sequence: the second conversation begins anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import prompts
from ..base.errors import OptionError, RecordError
from ..base.ids import derive_seed
from ..base.options import option
from ..records.rollout import Message, Rollout, StopReason, Turn
from ..records.task import Task
from .episode import Episode, declined
from .interface import Ended, Environment, Job, Needs, Reply, Scaffold, Settings, usage_of
from .messages import escaped, fenced, task_prompt
from .previous import GrowingPool, Previous, PreviousPool, shown_output
from .reading import read_answer, split_answer

IMPROVE = "improve"  # the prompt to improve on a solution
IMPROVE_RATIO = 0.5  # where there is a pool (RL for MLE agents, section 3.3)

NO_SCORE = "You see no score before your work ends."


@dataclass(frozen=True)
class SingleSettings(Settings):
    """What an answer is asked for, and how long it may be."""

    WITHOUT = (
        "max_turns",
        "max_seconds",
        "max_answer_tokens",
        "max_usd",
        "context_tokens",
        "hand_in",
        "tool_calls",
        "validation",
        "reveal_test",
        "max_scores",
        "score_digits",
        "refit",
        "instrument",
    )

    prompt: str = option(
        "single, single-brief, or the path of a Markdown file with {{name}} placeholders.", default="single"
    )
    max_tokens: int = option("Maximum sampled tokens per answer.", default=4096, at_least=1, metavar="N")
    improve_ratio: float | None = option(
        "Share of rollouts that improve on a solution from --pool (the paper: 0.5).",
        at_least=0,
        at_most=1,
        metavar="SHARE",
    )
    pool: tuple[str, ...] = option(
        "Executed rollouts whose solutions are improved on. Repeatable.",
        default=(),
        kind="existing file",
        metavar="FILE",
    )
    pool_newest: int | None = option(
        "Read --pool again as it grows, and improve only on the newest N solutions of each task.",
        at_least=1,
        metavar="N",
    )


class Single(Scaffold[SingleSettings]):
    """See the module."""

    settings = SingleSettings
    executes = False
    _pool: PreviousPool | None = None

    def check(self, settings: SingleSettings) -> SingleSettings:
        """The settings of an episode of one turn."""
        if settings.improve_ratio and not settings.pool:
            raise OptionError("--improve-ratio: improve on what? --pool FILE holds executed rollouts")
        if settings.pool_newest and not settings.pool:
            raise OptionError("--pool-newest: the newest of what? --pool FILE holds executed rollouts")
        return replace(settings, max_turns=1, max_answer_tokens=settings.max_tokens)

    def describe(self, settings: SingleSettings) -> str:
        """See Scaffold.describe."""
        return f"an answer of at most {settings.max_tokens} tokens"

    def start(self, record: Task | Rollout, settings: SingleSettings, seed: int) -> tuple[list[Any], Previous | None]:
        """A group answers one question: from scratch, or to improve on one solution (algorithm 1)."""
        identity: list[Any] = [prompts.text(settings.prompt), seed]
        task = record["id"]
        ratio = IMPROVE_RATIO if settings.improve_ratio is None else settings.improve_ratio
        if derive_seed(seed, "improve", task) / 2**62 >= ratio:
            return identity, None
        if self._pool is None:
            paths, newest = [Path(path) for path in settings.pool], settings.pool_newest
            self._pool = PreviousPool.read(paths) if newest is None else GrowingPool(paths, newest)
        previous = self._pool.draw(task, derive_seed(seed, "previous", task))
        return identity if previous is None else [*identity, [prompts.text(IMPROVE), previous.rollout]], previous

    def needs(self, settings: SingleSettings) -> Needs:
        return Needs(one_answer=True)

    def play(self, job: Job[SingleSettings], environment: Environment) -> Iterator[Rollout]:
        """The rollout of one answer. RecordError: the question is too long for the model."""
        question: Message = {"role": "user", "content": question_of(job, environment)}
        reply = environment.ask("policy", "", [question], job.seed, None, job.settings.max_answer_tokens)
        if "refused" in reply:
            raise RecordError(reply["refused"])
        rollout = record_of(job, question, reply)
        if "limits" in prompts.placeholders(_prompt(job)):
            rollout["prompt_limits"] = environment.fact("limits")
        yield rollout


def _prompt(job: Job[SingleSettings]) -> str:
    return job.settings.prompt if job.start is None else IMPROVE


def question_of(job: Job[SingleSettings], environment: Environment) -> str:
    """What a job asks the policy."""
    previous: Previous | None = job.start
    if previous is None:
        return task_prompt(job.settings.prompt, job, environment, split=NO_SCORE)
    return improve_question(job, environment, previous.plan, previous.code, previous.output, split=NO_SCORE)


def record_of(job: Job[SingleSettings], question: Message, reply: Reply) -> Rollout:
    """The rollout of a reply (see Environment.ask); lineage is left empty.

    stop_reason: length where the answer was cut; format where it holds no program, or only one in another form than the
    settings accept; else finished.
    """
    read = read_answer(reply["text"], reply["finish_reason"], reply["reasoning"])
    stop_reason: StopReason = "finished" if job.settings.accepts(read.format) else "format"
    if reply["finish_reason"] == "length":
        stop_reason = "length"
    if reply["prompt_token_ids"] is not None:
        question["token_ids"] = reply["prompt_token_ids"]
    answer: Message = {"role": "assistant", "content": reply["text"], "loss": True}
    if reply["reasoning"]:
        answer["reasoning"] = reply["reasoning"]
    if reply["token_ids"] is not None:
        answer["token_ids"] = reply["token_ids"]
        if reply["logprobs"] is not None:
            answer["logprobs"] = reply["logprobs"]
    previous: Previous | None = job.start
    usage = usage_of(reply)
    turn: Turn = {
        "action": "improve" if previous else "solve",
        "duration_s": reply["seconds"],
        "format": read.format,
    }
    if (reason := declined(reply)) is not None:
        turn["finish_reason"] = reason
    rollout = job.rollout(
        messages=[question, answer],
        turns=[turn],
        usage=usage,
        usage_by_role={"policy": usage},
        stop_reason=stop_reason,
        plan=read.plan,
        code=read.code,
    )
    if previous is not None:
        rollout["state"] = {"validation": previous.score, "code": previous.code, "rollout": previous.rollout}
    return rollout


# --- improve -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImproveSettings(Settings):
    """Two answers, the better of which counts."""

    max_turns: int = 2
    hand_in: str = "best"


class Improve(Scaffold[ImproveSettings]):
    """See the module."""

    settings = ImproveSettings
    prompts = ("single", "improve")

    def play(self, job: Job[ImproveSettings], environment: Environment) -> Iterator[Rollout]:
        """The rollout of both answers."""
        episode = Episode(job, environment, [{"role": "user", "content": _first_question(job, environment)}])
        reason: StopReason = "finished"
        try:
            for action in ("solve", "improve")[: job.settings.max_turns]:
                if action == "improve":
                    episode.begin_anew(_question(episode, environment))
                reason = _answer(episode, action)
        except Ended as ended:
            reason = ended.reason
        yield episode.record("finished" if episode.latest else reason)


def _answer(episode: Episode[ImproveSettings], action: str) -> StopReason:
    """Ask once and run the program of the answer; returns the stop reason of this answer alone."""
    reply = episode.ask()
    episode.turn["action"] = action
    answer = read_answer(reply["text"], reply["finish_reason"], reply.get("reasoning"))
    episode.note_format(answer.format)
    if answer.code is None:
        cut = reply["finish_reason"] == "length"
        episode.turn["problem"] = "length" if cut else "malformed"
        return "length" if cut else "format"
    episode.run(answer.code)
    return "finished"


def _first_question(job: Job[ImproveSettings], environment: Environment) -> str:
    return task_prompt("single", job, environment)


def _question(episode: Episode[ImproveSettings], environment: Environment) -> str:
    """The question to improve on the first answer, or, if that has no program, to solve the task."""
    job, first = episode.job, episode.turns[0]
    code = first.get("code")
    if code is None:
        return _first_question(job, environment)
    plan = split_answer(episode.messages[first["message"]]["content"])[0]
    output = shown_output(first["execution"])
    if first["execution"]["submission"] is not None and job.settings.max_scores != 0:
        output += f"\n\n{episode.score_message(first)}"
    return improve_question(job, environment, plan, code, output)


def improve_question(job: Job[Any], environment: Environment, plan: str, code: str, output: str, **more: str) -> str:
    """The question to improve on a solution, given its plan, program and output."""
    return task_prompt(
        IMPROVE,
        job,
        environment,
        plan=escaped(plan) or "(none was given)",
        code=fenced(code.strip(), "python"),
        output=output or "(nothing)",
        **more,
    )
