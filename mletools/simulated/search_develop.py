"""The search's developer: from a prompt to a plan and a program, new, changed, joined or repaired, with faults.

Covered: the roles draft, improve, debug, crossover, merge and fix; which change of the present recipe an idea means. Not
covered: how an idea is found (search_ideas), what stands in a program (search_programs).
"""

from collections.abc import Mapping
from typing import Any

from . import search_programs
from .bank import Choice, choices
from .search_ideas import Mind, thought_of
from .search_programs import SLOW_TIMES, ProgramOptions
from .search_prompts import Told
from .search_recipes import Recipe, applied, cheaper, fits, read, together
from .solutions import SeededRng

FAULTY = 0.35  # of the programs that are newly written
FAULTY_JOINED = 0.5  # of those that are made of several
REPAIRS = 0.75  # of the faults that a prompt shows; else there is a new one
OVERFITS = 0.25  # of the programs that report a score of their own; LUCKY of these by the best of several
# splits, the others on rows half of which they were trained on
LUCKY = 0.75
# How often a fault is of a kind. Where no debug run is asked for there is none to forget.
FAULTS = {"early": 26.0, "late": 25.0, "invalid": 16.0, "slow": 12.0, "nodebug": 7.0, "fake": 6.0, "nocode": 8.0}
_LONG = ("too long", "too slow", "too much time")
_LOOP = f" * {SLOW_TIMES}"


def answer(role: str, task: Mapping[str, Any], told: Told, rng: SeededRng) -> str:
    """A plan and a fenced program; or, a fault, the plan alone."""
    wanted = wishes(told, rng)
    if role in ("debug", "fix"):
        slow = any(words in _wrong(told) for words in _LONG)
        fault = "" if rng("repairs") < REPAIRS else _fault(rng, wanted)
        # a loop that was forgotten is all that has to go
        too_dear = slow and not any(_LOOP in code for code in told.programs)
    else:
        share = FAULTY_JOINED if role in ("crossover", "merge") else FAULTY
        fault, too_dear = _fault(rng, wanted) if rng("faulty") < share else "", False
    if not fits(task):
        return _of_bank(task, told, rng, wanted, fault)
    recipe = meant(role, task, told, rng)
    if too_dear:
        recipe = cheaper(recipe)
    said = search_programs.plan(recipe)
    if fault == "nocode":
        return f"{said} I will write the program next."
    return f"{said}\n\n```python\n{search_programs.text_of(task, recipe, wanted, fault, rng)}```"


def wishes(told: Told, rng: SeededRng) -> ProgramOptions:
    """What a prompt asks of a program, and how well the program will judge itself."""
    check = "honest"
    if rng("overfits") < OVERFITS:
        check = "lucky" if rng("lucky") < LUCKY else "leaky"
    return ProgramOptions("--debug" in told.said, told.asks_for_a_score, check)


def meant(role: str, task: Mapping[str, Any], told: Told, rng: SeededRng) -> Recipe:
    """The recipe that the idea of a prompt means for the programs that it shows. What it does not say is drawn."""
    changes, recipes = read(told.under("The idea")), told.recipes
    if role in ("debug", "fix"):
        # the present program carries the idea out already
        return recipes[0] if recipes else applied(Recipe(), changes or _drawn(task, told, rng, None))
    if role == "draft" or not recipes:
        return applied(Recipe(), changes or _drawn(task, told, rng, None))
    if role in ("crossover", "merge"):
        return applied(together(recipes), changes)
    return applied(recipes[0], changes or _drawn(task, told, rng, recipes[0]))


def _drawn(task: Mapping[str, Any], told: Told, rng: SeededRng, recipe: Recipe | None) -> Any:
    return thought_of(Mind(dict(task), told, rng, recipe), "own")


def _wrong(told: Told) -> str:
    """What a prompt says of why a program failed."""
    return " ".join(f"{told.under('What is wrong')} {told.under('What it printed')}".split())


def _fault(rng: SeededRng, wanted: ProgramOptions) -> str:
    kinds = [kind for kind in FAULTS if wanted.debug or kind != "nodebug"]
    return rng.weighted("which fault", kinds, FAULTS)


def _of_bank(task: Mapping[str, Any], told: Told, rng: SeededRng, wanted: ProgramOptions, fault: str) -> str:
    """For a task without recipes: the model that the idea names, else that of the program shown, else any."""
    menu = choices(task)
    named = [choice for choice in menu if f"{choice.words} as" in told.under("The idea")]
    shown = [choice for code in told.programs for choice in menu if f"model = {choice.model}\n" in code]
    choice: Choice = (named or shown or [rng.pick("choice", menu)])[0]
    plan = f"The model is {choice.words}. Its predictions go to submission.csv."
    if fault == "nocode":
        return plan
    return f"{plan}\n\n```python\n{search_programs.of_bank(task, choice, wanted, fault, rng)}```"
