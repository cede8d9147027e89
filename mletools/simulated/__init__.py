"""The simulated model, `-m scripted`: no model, but a bank of programs and rules that play every role of every scaffold.

Real solutions from good to broken, without a language model, a network or any chance.

Covered: any table with train.csv, test.csv and sample_submission.csv, whatever its problem, and the procedural tasks of
every modality; every role of every scaffold, as one of several personas; the same request always gets the same
text. Where no program of the bank knows a task's files or form, it hands in the sample submission and says so. Not
covered: reading a single question (it looks at the task record), temperature, max_tokens. It has no tokens: the counts of
a reply are an estimate, characters / 4 rounded up, so that budgets and reports have something to count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..models import Reply, Request
from ..records.errors import RecordError, ToolError
from . import instrumenter, personas, readers
from .solutions import FAULTS, LEVELS, VALID, WEIGHTS, SeededRng, answer, draw_level

__all__ = ["FAULTS", "LEVELS", "NEEDED", "VALID", "WEIGHTS", "ScriptedModel", "answer", "solves"]

NEEDED = readers.NEEDED
# The roles that are asked one question with nothing but the task in it.
SINGLE = ("", "single")
CHARACTERS_A_TOKEN = 4


class ScriptedModel:
    """Draws a level and a model from the bank by the request's seed and its task.

    `spec` is a persona ("lazy"), or levels ("tree,crash") that pin what is drawn; without it the role decides who
    answers. ToolError for an unknown one.
    """

    batch = 1
    version = 2  # of the bank: another one gives other answers

    def __init__(self, spec: str = "") -> None:
        self.persona = spec if spec in personas.PERSONAS else ""
        self.levels = [level.strip() for level in spec.split(",")] if spec and not self.persona else list(LEVELS)
        for level in self.levels:
            if level not in LEVELS:
                raise ToolError(f"scripted: unknown level {level!r}; known are {', '.join(LEVELS)}")
        self.name = f"scripted:{spec}" if spec else "scripted"

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        """One answer per request. RecordError for a task without program in the bank and without sample submission."""
        return [_counted(request, self._reply(request)) for request in requests]

    def close(self) -> None:
        """Nothing to close."""

    def _reply(self, request: Request) -> Reply:
        task = request.task
        if request.role == "idea-type":
            return personas.play(self.persona, request, self.levels)
        if request.role == "instrument":
            return instrumenter.play(self.persona, request)
        if task is None:
            raise ToolError("scripted: looks at the task, and the request has none")
        if not solves(task) and not readers.sample_file(task):
            raise RecordError(f"scripted: {readers.unsolved(task)}, nor a sample submission to hand in")
        if request.role in SINGLE and self.persona not in personas.SINGLE:
            return Reply(answer(task, draw_level(SeededRng(request.seed, task["id"]), self.levels), request.seed))
        return personas.play(self.persona, request, self.levels)


def _counted(request: Request, reply: Reply) -> Reply:
    """The reply with estimated counts of tokens: characters of texts and of the arguments of calls / 4, rounded up."""
    prompt = [text for message in request.messages for text in (message["content"], *_arguments(message))]
    answer = [reply.text, *(call.arguments for call in reply.tool_calls)]
    return replace(reply, prompt_tokens=_tokens(prompt), completion_tokens=_tokens(answer))


def _arguments(message: Mapping[str, Any]) -> list[str]:
    return [call["function"]["arguments"] for call in message.get("tool_calls", ())]


def _tokens(texts: Sequence[str]) -> int:
    return -(-sum(map(len, texts)) // CHARACTERS_A_TOKEN)


def solves(task: Mapping[str, Any]) -> bool:
    """Whether the bank has programs for a task."""
    return not readers.unsolved(task)
