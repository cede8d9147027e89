"""The tinkerer, `-m scripted:tinkerer`: an agent that changes one thing of its best program at a time.

Its programs are recipes (see recipes.py) that do not wait. It begins with a model and at most two steps,
whichever come. Every further program has one change of the best one so far (of this conversation, or of the memory),
each change as likely as the others. It knows nothing of a task, so most changes bring little, and a good recipe is several
right ones of some eighty: much work to find again from scratch, which the solver's ladder of nine levels is not.

Covered: react, codeact, memory, by tags and by tool calls. Not covered: help, looking at data. All it does follows from its
messages and the request's seed.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ..models import Reply, Request
from ..records.task import Task
from ..solutions import programs
from ..solutions.bank import SeededRng, with_fault
from . import conversation, recipes
from .answers import better, rng_of
from .conversation import ConversationStep
from .recipes import Recipe

PATIENCE = 0.9  # to go on after a scored program, where it may stop
MOST_STEPS = 2  # of the first program
FAILS = 0.1  # of the new programs; the next one mends it


@dataclass(frozen=True)
class Try:
    """A program that ran: its recipe and text, and what came of it."""

    recipe: Recipe
    code: str
    outcome: str
    score: float | None


def play(request: Request) -> Reply:
    """The tinkerer's next message."""
    task, rng = request.task, rng_of(request)
    assert task is not None
    tries = _tries(request, conversation.steps(request))
    if not tries:
        return _program(request, _begin(task, rng), "I begin with something simple.")
    last = tries[-1]
    if last.outcome in ("failed", "invalid"):
        return _program(request, last.recipe, "That failed; now it should be right.", sound=True)
    if last.outcome == "ran" and conversation.offers(request, "score"):
        return _act(request, "score", thought="It ran. I want to know how good it is.")
    best = _best(task, tries)
    repeated = any(each.code == last.code for each in tries[:-1])
    if conversation.offers(request, "stop") and (repeated or rng("patience") >= PATIENCE):
        if best.code != last.code:
            return _act(request, "program", best.code, thought="An earlier program was the best: I run it again.")
        return _act(request, "stop", thought="This will do.")
    known = {each.recipe for each in tries}
    changes = [each for each in recipes.usable(task, best.recipe) if recipes.changed(best.recipe, each) not in known]
    if not changes or programs.unsolved(task):
        stops = conversation.offers(request, "stop")
        return _act(
            request,
            "stop" if stops else "program",
            *([] if stops else [best.code]),
            thought="I know of nothing better.",
        )
    change = rng.pick("change", changes)
    return _program(request, recipes.changed(best.recipe, change), change.sentence)


def text_of(task: Task, recipe: Recipe) -> str:
    """The program of a recipe, which waits for nothing."""
    if programs.unsolved(task):
        return recipes.text_of(task, recipe, programs.ProgramOptions(), "fake")
    return f"{recipe.line}\n{programs.compose(task, recipes.model_of(task, recipe), recipe.steps)}"


def _tries(request: Request, past: Sequence[ConversationStep]) -> list[Try]:
    told = conversation.given(request)
    earlier = conversation.fenced(told)[-1:] if request.role == "memory" else []
    found = []
    for code, seen in [
        *((code, told) for code in earlier),
        *((s.text, s.seen) for s in past if s.kind in ("program", "score")),
    ]:
        outcome, score = conversation.outcome(seen)
        recipe = recipes.recipe_of(code)
        if recipe is not None:
            found.append(Try(recipe, code, outcome, score))
        elif found:  # a score of the program before
            found[-1] = Try(found[-1].recipe, found[-1].code, "failed" if outcome == "ran" else outcome, score)
    return found


def _begin(task: Task, rng: SeededRng) -> Recipe:
    throws = itertools.count()
    steps = rng.pick("steps", range(MOST_STEPS + 1))
    return recipes.applied(
        Recipe(), recipes.drawn(task, lambda menu: rng.pick(f"begin {next(throws)}", menu), steps, 0)
    )


def _best(task: Task, tries: Sequence[Try]) -> Try:
    """The first of those with the best score; the last where none has one."""
    best = tries[-1]
    for each in tries:
        if each.score is not None and (best.score is None or better(each.score, best.score, task)):
            best = each
    return best


def _program(request: Request, recipe: Recipe, thought: str, sound: bool = False) -> Reply:
    task, rng = request.task, rng_of(request)
    assert task is not None
    code = text_of(task, recipe)
    if not sound and not programs.unsolved(task) and rng("fails") < FAILS:
        code = with_fault(code, "crash", rng)
    return _act(request, "program", code, thought=thought)


def _act(request: Request, kind: str, *values: str, thought: str) -> Reply:
    if request.role != "codeact":
        thought = f"<think>{thought}</think>"
    return conversation.act(request, kind, *values, thought=thought)
