"""The simulated model, `-m scripted`: no language model, but standard programs and rules that play every role.

Real solutions (solutions) from good to broken, without a language model, a network or any chance.

    answers                    a reply with a program; reading the bank's models back from a text
    solver                     an agent in turns, of moderate skill, that errs
    tinkerer                   an agent that changes one thing at a time, for which a good solution is hard to find again
    ideas                      the ideator, the implementer, the classifier of ideas
    instrumenter               makes a program report its progress
    search, researcher,        the researcher and developer of a search, and the recipes of their programs
    recipes
    unruly, hostile            malformed and lazy agents; an agent that attacks
    author                     the four roles that write tasks
    conversation               reads actions and observations in messages; writes an action in a protocol's form

Covered: any table with train.csv, test.csv and sample_submission.csv, whatever its problem, and the procedural tasks of
every modality; every role of every scaffold, as one of several personas; the same request always gets the same text. Where
no program of the bank knows a task's files or form, it hands in the sample submission and says so. Not covered: reading
words beyond marks (tags, fences, scores, the bank's model lines, names of families of models); temperature, max_tokens.
It has no tokens: the counts of a reply are an estimate, characters / 4 rounded up.
"""

from collections.abc import Sequence
from dataclasses import replace

from ..base.errors import RecordError, ToolError
from ..base.words import did_you_mean
from ..models import Reply, Request
from ..records.rollout import Message
from ..solutions import programs, solves
from ..solutions.bank import simplest
from . import author, hostile, ideas, instrumenter, search, solver, tinkerer, unruly
from .answers import LEVELS, WEIGHTS, answer, draw_level, rng_of
from .conversation import POLICIES, act

__all__ = ["LEVELS", "PERSONAS", "WEIGHTS", "ScriptedModel", "answer"]

# Who answers, by the name after `scripted:`. An ideator's persona plays the solver where it is asked to solve.
PERSONAS = ("solver", "tinkerer", "ideator", "vague", "null", "malformed", "lazy", "looping", "hostile")
UNRULY = ("malformed", "lazy", "looping", "hostile")  # those that answer a single question in a way of their own
CHARACTERS_A_TOKEN = 4


class ScriptedModel:
    """Draws a level and a model from the bank by the request's seed and its task.

    `spec` is a persona ("lazy"), or levels ("tree,crash") that pin what is drawn; without it the role decides who
    answers. ToolError for an unknown one.
    """

    batch = None
    version = 3  # of the bank: another one gives other answers

    def __init__(self, spec: str = "") -> None:
        self.persona = spec if spec in PERSONAS else ""
        self.levels = [level.strip() for level in spec.split(",")] if spec and not self.persona else list(LEVELS)
        for level in self.levels:
            if level not in LEVELS:
                near = did_you_mean(level, (*PERSONAS, *LEVELS))
                known = f"levels are {', '.join(LEVELS)}; personas, one alone, {', '.join(PERSONAS)}"
                raise ToolError(f"scripted: unknown level {level!r}; {known}{near}")
        self.name = f"scripted:{spec}" if spec else "scripted"

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        """One answer per request. RecordError for a task without program in the bank and without sample submission."""
        return [_counted(request, self._reply(request)) for request in requests]

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """The same estimate of a prompt."""
        return _tokens(_texts(messages))

    def close(self) -> None:
        """Nothing to close."""

    def _reply(self, request: Request) -> Reply:
        task = request.task
        if request.role.partition(".")[0] in author.ROLES:
            return Reply(author.reply(request))
        if request.role == "instrument":
            return instrumenter.play(self.persona, request)
        if request.role != "idea-type":
            if task is None:
                raise ToolError("scripted: looks at the task, and the request has none")
            if not solves(task) and not programs.sample_file(task):
                raise RecordError(f"scripted: {programs.unsolved(task)}, nor a sample submission to hand in")
            if request.role in ("", "single", "command") and self.persona not in UNRULY:
                return Reply(answer(task, draw_level(rng_of(request), self.levels), request.seed))
        return play(self.persona, request, self.levels)


def play(persona: str, request: Request, levels: list[str]) -> Reply:
    """The reply of a persona (empty: whichever the role asks for) in `request.role`, with models of `levels` only."""
    if request.role == "idea":  # what the ideator is called where it is the policy
        request = replace(request, role="ideator")
    if persona == "looping":
        return _the_same(request, levels)
    if persona == "malformed":
        return unruly.malformed(request, levels)
    if request.role.startswith(search.PREFIX):
        return search.unruly(persona, request) if persona in UNRULY else search.play(request)
    if persona == "lazy":
        return unruly.lazy(request)
    if persona == "hostile":
        return hostile.play(request)
    if request.role in POLICIES and persona == "tinkerer":
        return tinkerer.play(request)
    if request.role in POLICIES:
        return solver.play(request, levels)
    return ideas.play(request, levels, persona)


def _the_same(request: Request, levels: list[str]) -> Reply:
    """The looping agent's reply: the same text whatever was said and whatever the seed."""
    if request.role in POLICIES and request.task is not None:
        again = replace(request, messages=[])
        return act(again, "program", simplest(request.task), thought="<think>Once more.</think>")
    return play("", replace(request, seed=0, messages=[{"role": "user", "content": ""}]), levels)


def _counted(request: Request, reply: Reply) -> Reply:
    """The reply with estimated counts of tokens: characters of texts and of the arguments of calls / 4, rounded up."""
    return replace(
        reply,
        prompt_tokens=_tokens(_texts(request.messages)),
        completion_tokens=_tokens([reply.text, *(call.arguments for call in reply.tool_calls)]),
    )


def _texts(messages: Sequence[Message]) -> list[str]:
    """What a prompt holds: the texts of messages and the arguments of calls."""
    calls = [call["function"]["arguments"] for each in messages for call in each.get("tool_calls", ())]
    return [*(message["content"] for message in messages), *calls]


def _tokens(texts: Sequence[str]) -> int:
    return -(-sum(map(len, texts)) // CHARACTERS_A_TOKEN)
