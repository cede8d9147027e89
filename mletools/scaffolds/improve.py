"""Scaffold `improve`: a solution from scratch, then an improved one; the one with the better shown score is handed in.

RL for MLE agents at test time (section 3.3, prompts C.1 and C.2). Covered: both questions, a first answer without a program.
Not covered: training, where half of the rollouts of `single` begin from a pool (--improve-ratio); token ids of the two
conversations as one sequence: the second conversation begins anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import messages
from .episode import Episode
from .interface import Ended, Environment, Job, Scaffold, Settings
from .messages import fenced, task_prompt
from .reading import read_answer, split_answer


@dataclass(frozen=True)
class ImproveSettings(Settings):
    """Two answers, the better of which counts."""

    max_turns: int = 2
    hand_in: str = "best"


class Improve(Scaffold[ImproveSettings]):
    """See the module."""

    settings = ImproveSettings
    prompts = ("single", "improve")

    def play(self, job: Job[ImproveSettings], environment: Environment) -> Iterator[dict[str, Any]]:
        """The rollout of both answers."""
        episode = Episode(job, environment, [{"role": "user", "content": _first_question(job, environment)}])
        reason = "finished"
        try:
            for action in ("solve", "improve")[: job.settings.max_turns]:
                if action == "improve":
                    episode.begin_anew(_question(episode, environment))
                reason = _answer(episode, action)
        except Ended as ended:
            reason = ended.reason
        yield episode.record("finished" if episode.latest else reason)


def _answer(episode: Episode[ImproveSettings], action: str) -> str:
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
    if first.get("code") is None:
        return _first_question(job, environment)
    plan = split_answer(episode.messages[first["message"]]["content"])[0]
    output = messages.execution_message(first["execution"])
    if first["execution"]["submission"] is not None:
        output += f"\n\n{messages.score_message(first, job.task, job.settings.reveal_test)}"
    return improve_question(job, environment, plan, first["code"], output)


def improve_question(job: Job[Any], environment: Environment, plan: str, code: str, output: str, **more: str) -> str:
    """The question to improve on a solution, given its plan, program and output."""
    return task_prompt(
        "improve",
        job,
        environment,
        plan=plan or "(none was given)",
        code=fenced(code.strip(), "python"),
        output=output or "(nothing)",
        **more,
    )
