"""What the search's researcher thinks of: changes of a recipe, drawn with weak taste, and judged by experience.

A change is drawn from all that the present recipe allows; what is worth more in general is drawn a little more often.
Asked to weigh several, the researcher does better: the prior of each (search_recipes) and what the experiments that a
prompt tells say of it, with noise anew in each answer. Covered: drafts, changes, what is avoided, what is taken over from
others. Not covered: looking at the data, learning the worth of a change from one task for another.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .search_prompts import Experiment, Told, better
from .search_recipes import (
    CHEAP,
    MERGE,
    MODELS,
    Change,
    Recipe,
    changed,
    drawn,
    read,
    said,
    usable,
)
from .solutions import SeededRng

TASTE = 1.0  # a change of prior p is drawn exp(TASTE * p) times as often as one of 0
FOLLOWS = 0.5  # takes over a step from an experiment with a better score, where one is told
SETTINGS = 0.4  # a model with one setting is drawn so many times as often as a step
HEEDS = 0.85  # of what is drawn where the guidance says "no ensembles" is a single cheap model
LATE_TIMES = 4.0  # what costs time is drawn so many times as often where the guidance says that it is worth it
DRAFT_STEPS = 1  # a draft has none to so many steps: one begins with something plain
DRAFT_TASTE = 0.0  # in place of TASTE, for what a draft is made of
DRAFT_COSTLY = 0.4  # of the drafts have a blend, several seeds or cross-validation
EVIDENCE = 0.3  # what an experiment with the change adds to its worth, or takes from it
FAILED = 0.1  # what a failure takes from it
NOTHING = -9.0  # the worth of doing again what is done
NOISE = 0.25  # of one judgement, a deviation
WHY = {
    "DataLoadSpec": "what is read as it stands hides part of the data",
    "FeatureEng": "the target may depend on the columns in this way",
    "Model": "this kind of model may suit so small a table better",
    "Ensemble": "several models err in different ways",
    "Workflow": "the training then fits the metric better",
}


@dataclass(frozen=True)
class Mind:
    """What the researcher knows at a question. recipe: the present one, None for a draft."""

    task: dict[str, Any]
    told: Told
    rng: SeededRng
    recipe: Recipe | None

    @property
    def early(self) -> bool:
        return "no ensembles" in self.told.said.lower()

    @property
    def late(self) -> bool:
        return "ensembles and cross-validation are worth their cost now" in self.told.said.lower()

    @property
    def experiments(self) -> list[Experiment]:
        return self.told.experiments


def thought_of(mind: Mind, name: str, component: str = "", beside: Sequence[str] = ()) -> list[Change]:
    """One hypothesis' changes: one change of the present recipe, or all of a draft. `name` tells throws apart.

    component: the part that it should be about. beside: hypotheses that it should differ from.
    """
    others = [*mind.told.lines("Other branches", "- "), *beside]
    if mind.recipe is None:
        return _draft(mind, name, others)
    told = _to_follow(mind)
    if told and not component and mind.rng(f"{name} follow") < FOLLOWS:
        return [mind.rng.pick(f"{name} whose", told)]
    avoided = {change for each in mind.experiments for change in read(each.hypothesis)}
    avoided |= {change for text in others for change in read(text)}
    menu = [change for change in usable(mind.task, mind.recipe) if change not in avoided]
    menu = _heeding(mind, name, menu) or usable(mind.task, mind.recipe)
    return [_pick(mind, name, [each for each in menu if each.component == component] or menu)]


def worth(mind: Mind, changes: Sequence[Change], name: str) -> float:
    """A judgement of a hypothesis: about 0 for what helps as often as it harms, noisy; NOTHING for what is there already.

    What others made of it counts against the present program's score, or that of the middle experiment.
    """
    told = [(each.score, read(each.hypothesis)) for each in mind.experiments]
    if mind.recipe is not None:
        recipe = mind.recipe
        new = [change for change in changes if changed(recipe, change) != recipe]
    else:
        new = [] if any(set(changes) <= set(tried) for _, tried in told) else list(changes)
    if changes and not new:
        return NOTHING
    value = sum(change.prior for change in new) / math.sqrt(max(1, len(new)))
    scores = sorted(score for score, _ in told if score is not None)
    own = mind.told.scores[0] if mind.told.scores else scores[len(scores) // 2] if scores else None
    for score, tried in told:
        if not set(new) & set(tried):
            continue
        if score is None or own is None:
            value -= FAILED
        else:
            value += EVIDENCE if better(score, own, mind.task) else -EVIDENCE
    return value + NOISE * _normal(mind.rng, name)


def worded(changes: Sequence[Change]) -> str:
    """A hypothesis: what is done, and why."""
    return f"{said(changes)} It may help: {WHY[changes[-1].component]}."


def joined(changes: Sequence[Change]) -> str:
    """The hypothesis for programs that are to be joined, and changed then."""
    return f"{MERGE} {f'{said(changes)} ' if changes else ''}It may help: {WHY['Ensemble']}."


def _draft(mind: Mind, name: str, others: Sequence[str]) -> list[Change]:
    taken = {change.value.split()[0] for text in others for change in read(text) if change.what == "model"}
    taken |= {
        change.value.split()[0]
        for each in mind.experiments
        for change in read(each.hypothesis)
        if change.what == "model"
    }
    steps = int(mind.rng(f"{name} steps") * (DRAFT_STEPS + 1))
    costly = int(mind.rng(f"{name} costly") < DRAFT_COSTLY)
    if mind.early and mind.rng(f"{name} heed") < HEEDS:
        costly = 0
        taken |= {kind for kind in MODELS if MODELS[kind].seconds > CHEAP}
    thrown = iter(range(100))

    def pick(menu: Sequence[Change]) -> Change:
        left = [change for change in menu if change.what != "model" or change.value.split()[0] not in taken]
        return _pick(mind, f"{name} {next(thrown)}", left or menu, DRAFT_TASTE)

    return drawn(mind.task, pick, steps, costly)


def _to_follow(mind: Mind) -> list[Change]:
    """What experiments with a better score than the present program's name and it has not."""
    assert mind.recipe is not None
    if not mind.told.scores:
        return []
    own = mind.told.scores[0]
    found = [
        change
        for each in mind.experiments
        if each.score is not None and better(each.score, own, mind.task)
        for change in read(each.hypothesis)
        if change.what != "without" and changed(mind.recipe, change) != mind.recipe
    ]
    return _heeding(mind, "follow", list(dict.fromkeys(found)))


def _heeding(mind: Mind, name: str, menu: list[Change]) -> list[Change]:
    """What the guidance leaves of a menu, mostly."""
    if not mind.early or mind.rng(f"{name} heed") >= HEEDS:
        return menu
    return [
        change
        for change in menu
        if not change.costly and not (change.what == "model" and MODELS[change.value.split()[0]].seconds > CHEAP)
    ]


def _pick(mind: Mind, name: str, menu: Sequence[Change], taste: float = TASTE) -> Change:
    weights = {
        str(at): math.exp(taste * change.prior)
        * (LATE_TIMES if mind.late and change.costly else SETTINGS if change.what == "model" else 1.0)
        for at, change in enumerate(menu)
    }
    return menu[int(mind.rng.weighted(f"{name} pick", list(weights), weights))]


def _normal(rng: SeededRng, name: str) -> float:
    """Of deviation 1 and nearly normal: twelve throws."""
    return sum(rng(f"{name} noise {at}") for at in range(12)) - 6
