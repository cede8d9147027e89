"""Scaffold `improve`: a solution from scratch, then one that improves on it; the better by the told score is handed in.

RL for MLE agents at test time (section 3.3, prompts C.1 and C.2). Covered: both questions, a first answer that cannot be
improved on because it holds no program. Not covered: training, where half of the rollouts of `single` begin from a pool
(--improve-ratio), and the recorded ids of two separate conversations as one sequence: the second begins anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import observations
from .answers import split_answer
from .episode import Episode
from .facts import split_told, tell
from .interface import Ended, Environment, Job, Scaffold, Settings
from .quoting import fenced


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
        episode = Episode(job, environment, [{"role": "user", "content": _first_question(job)}])
        reason = "finished"
        try:
            for action in ("solve", "improve")[: job.settings.max_turns]:
                if action == "improve":
                    episode.begin_anew(_question(episode))
                reason = _answer(episode, action)
        except Ended as ended:
            reason = ended.reason
        yield episode.record("finished" if episode.latest else reason)


def _answer(episode: Episode[ImproveSettings], action: str) -> str:
    """Ask once, and run the program of the answer; the stop reason that it would have by itself."""
    reply = episode.ask()
    episode.turn["action"] = action
    code = split_answer(reply["text"])[1]
    if reply["finish_reason"] == "length":
        episode.turn["problem"] = "length"
    elif code is None:
        episode.turn["problem"] = "malformed"
    episode.well_formed.append(episode.turn["problem"] is None)
    if episode.turn["problem"] is not None:
        return "length" if episode.turn["problem"] == "length" else "format"
    assert code is not None
    episode.run(code)
    return "finished"


def _first_question(job: Job[ImproveSettings]) -> str:
    split = split_told(job.settings.validation > 0, job.settings.reveal_test)
    return f"{tell('single', job.task)}\n\n# The data\n\n{split}"


def _question(episode: Episode[ImproveSettings]) -> str:
    """The question to improve on the first answer; where that holds no program, to solve the task."""
    job, settings, first = episode.job, episode.settings, episode.turns[0]
    if first.get("code") is None:
        return _first_question(job)
    plan = split_answer(episode.messages[first["message"]]["content"])[0]
    output = observations.ran(first["execution"])
    if first["execution"]["submission"] is not None:
        output += f"\n\n{observations.judged(first, job.task, settings.reveal_test)}"
    split = split_told(settings.validation > 0, settings.reveal_test)
    return f"{improve_question(job.task, plan, first['code'], output)}\n\n# The data\n\n{split}"


def improve_question(task: dict[str, Any], plan: str, code: str, output: str) -> str:
    """The question to improve on a solution, given its plan, its program and what running it printed."""
    return tell(
        "improve",
        task,
        plan=plan or "(none was given)",
        code=fenced(code.strip(), "python"),
        output=output or "(nothing)",
    )
