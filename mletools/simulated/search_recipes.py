"""The recipes of the scripted model's programs for tables: what can be in one, what can be changed, what it costs.

A recipe is a model with one setting, steps of reading and of features, a second model to blend with, a number of seeds to
average over, and whether the setting is chosen by cross-validation. Each change of one thing has one English sentence,
from which it is read back. Covered: 21 models, 19 steps; thousands of recipes. Not covered: the program (search_programs),
which change is drawn when (search_ideas).
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from . import readers


@dataclass(frozen=True)
class RecipeStep:
    """One thing that a program does to its data: its words, the part of the program that it is, what it is worth.

    prior: what experience says of its worth in general, from -1 (harmful) to 1; of this task it knows nothing.
    """

    words: str
    component: str
    prior: float


# Priors are rough: what one would guess of tables in general, not what is measured on any task.
STEPS = {
    "numbers": RecipeStep("numbers freed of units and decimal commas and words in one spelling", "DataLoadSpec", 0.5),
    "units": RecipeStep("rows given in thousandths brought to one unit", "DataLoadSpec", 0.4),
    "outliers": RecipeStep("readings ten times too large divided by ten", "DataLoadSpec", 0.4),
    "sides": RecipeStep("the last revisions of the second file joined to the table", "DataLoadSpec", 0.7),
    "ranks": RecipeStep("ranks in place of the numeric values", "FeatureEng", 0.2),
    "squares": RecipeStep("squared distances from the middle of each numeric column", "FeatureEng", 0.3),
    "waves": RecipeStep("sines and cosines of the numeric columns", "FeatureEng", 0.1),
    "products": RecipeStep("products of all pairs of numeric columns", "FeatureEng", 0.4),
    "larger": RecipeStep("the larger one of each pair of numeric columns", "FeatureEng", 0.2),
    "gates": RecipeStep("each numeric column where another one is above its middle", "FeatureEng", 0.3),
    "switches": RecipeStep("products of numeric columns with the categories", "FeatureEng", 0.2),
    "bins": RecipeStep("indicators of the thirds of each numeric column", "FeatureEng", 0.1),
    "logs": RecipeStep("logarithms of the numeric columns", "FeatureEng", 0.1),
    "ratios": RecipeStep("ratios of all pairs of numeric columns", "FeatureEng", 0.0),
    "means": RecipeStep("means of the numeric columns in each category", "FeatureEng", 0.1),
    "few": RecipeStep("only the twelve features that go best with the target", "FeatureEng", 0.3),
    "chosen": RecipeStep("eight features chosen one by one by what each adds to the others", "FeatureEng", 0.2),
    "weights": RecipeStep("more weight for rows of rare classes", "Workflow", 0.1),
    "target": RecipeStep("a target brought into an even spread by its ranks", "Workflow", 0.1),
}


@dataclass(frozen=True)
class Kind:
    """A kind of model: its words, the name of its setting, settings from simple to rich, seconds of training, prior."""

    words: str
    name: str
    settings: tuple[float, ...]
    seconds: float
    prior: float


MODELS = {
    "ridge": Kind("a ridge regression", "alpha", (300, 30, 3), 0.3, 0.0),
    "knn": Kind("a mean of nearest neighbours", "n_neighbors", (30, 15, 7), 0.3, -0.2),
    "tree": Kind("a decision tree", "min_samples_leaf", (20, 10, 4), 0.3, -0.3),
    "kernel": Kind("a kernel ridge regression", "alpha", (3, 1, 0.3), 0.6, 0.2),
    "forest": Kind("a random forest", "min_samples_leaf", (8, 4, 2), 0.8, 0.3),
    "extra": Kind("a forest of extra trees", "min_samples_leaf", (8, 4, 2), 0.8, 0.3),
    "boost": Kind("a row of boosted trees", "n_estimators", (15, 30, 50), 1.2, 0.4),
}
ENSEMBLE_PRIOR, CV_PRIOR = 0.2, 0.1  # of seeds and of blending; of a setting chosen by cross-validation
PROBLEMS = (*readers.TABLES, "multilabel_classification", "ranking")
STEP_SECONDS, MOST_SECONDS = 0.1, 6.0
CV_TIMES = 2.5  # as long as without cross-validation
SEED_TIMES = 0.6  # of the first seed's training, for each further one
CHEAP = 1.0  # seconds of a recipe that counts as cheap


@dataclass(frozen=True)
class Recipe:
    """See the module. `setting` is one of its model's; `blend` a second model (with its middle setting) or empty."""

    model: str = "ridge"
    setting: float = 30
    steps: tuple[str, ...] = ()
    blend: str = ""
    seeds: int = 1
    cv: bool = False

    @property
    def seconds(self) -> float:
        """What the training of such a program takes."""
        base = MODELS[self.model].seconds + (MODELS[self.blend].seconds if self.blend else 0.0)
        base += STEP_SECONDS * len(self.steps)
        times = (1 + SEED_TIMES * (self.seeds - 1)) * (CV_TIMES if self.cv else 1)
        return round(min(MOST_SECONDS, base * times), 2)

    @property
    def line(self) -> str:
        """The first line of its program."""
        return f"# recipe: {json.dumps(asdict(self))}"


@dataclass(frozen=True)
class Change:
    """One change of a recipe: the sentence that says it, and the parts of it that are read back.

    what: step, without, model, blend, seeds, cv; value: of it. prior: of its worth, as in Step.
    """

    what: str
    value: str
    component: str
    prior: float
    sentence: str

    @property
    def costly(self) -> bool:
        return (self.what in ("blend", "cv") and self.value != "") or (self.what == "seeds" and self.value != "1")


MERGE = "Put the steps of the programs together and blend their models."
_WITHOUT = "Leave out {}."
_ADD = "Add {}."
_TRAIN = "Train {} with {}={:g} as the model."
_BLEND = "Blend the model half and half with {}."
_SEEDS = {1: "Train with one seed only.", 3: "Average over three seeds.", 5: "Average over five seeds."}
_ALONE = "Hand in the model alone, without a blend."
_CV = {"yes": "Choose the setting by cross-validation.", "": "Keep the setting fixed, without cross-validation."}
_RECIPE = re.compile(r"^# recipe: (\{.*\})\s*$", re.MULTILINE)


def fits(task: Mapping[str, Any]) -> bool:
    """Whether there are recipes for the task: one of the made tables, with side tables or without."""
    return (
        task.get("modality", "tabular") == "tabular"
        and task["problem"] in PROBLEMS
        and "benchmark" not in task.get("provenance", {})
        and not any("/" in name for name in task["data"]["public"])
    )


def _all() -> list[Change]:
    found = [Change("step", name, step.component, step.prior, _ADD.format(step.words)) for name, step in STEPS.items()]
    found += [
        Change("without", name, step.component, -step.prior, _WITHOUT.format(step.words))
        for name, step in STEPS.items()
    ]
    for name, kind in MODELS.items():
        for place, setting in enumerate(kind.settings):
            said = _TRAIN.format(kind.words, kind.name, setting)
            found.append(Change("model", f"{name} {setting:g}", "Model", kind.prior - 0.1 * (place == 0), said))
        found.append(
            Change("blend", name, "Ensemble", ENSEMBLE_PRIOR + kind.prior / 2 - 0.1, _BLEND.format(kind.words))
        )
    found.append(Change("blend", "", "Ensemble", -ENSEMBLE_PRIOR, _ALONE))
    found += [
        Change("seeds", str(seeds), "Ensemble", -ENSEMBLE_PRIOR if seeds == 1 else ENSEMBLE_PRIOR, words)
        for seeds, words in _SEEDS.items()
    ]
    return [*found, *(Change("cv", how, "Workflow", CV_PRIOR if how else -CV_PRIOR, said) for how, said in _CV.items())]


CHANGES = _all()


def usable(task: Mapping[str, Any], recipe: Recipe) -> list[Change]:
    """The changes that would make another recipe for the task, in a fixed order."""
    useless = set()
    if not readers.sides(task):
        useless.add("sides")
    if task["problem"] not in ("binary_classification", "multiclass_classification"):
        useless.add("weights")
    if task["problem"] != "regression":
        useless.add("target")
    return [
        change
        for change in CHANGES
        if not (change.what in ("step", "without") and change.value in useless) and changed(recipe, change) != recipe
    ]


def changed(recipe: Recipe, change: Change) -> Recipe:
    """The recipe with one thing changed."""
    if change.what == "step":
        return replace(recipe, steps=_in_order({*recipe.steps, change.value}))
    if change.what == "without":
        return replace(recipe, steps=tuple(step for step in recipe.steps if step != change.value))
    if change.what == "model":
        name, _, setting = change.value.partition(" ")
        return replace(recipe, model=name, setting=float(setting), blend="" if recipe.blend == name else recipe.blend)
    if change.what == "blend":
        return recipe if change.value == recipe.model else replace(recipe, blend=change.value)
    if change.what == "seeds":
        return replace(recipe, seeds=int(change.value))
    return replace(recipe, cv=bool(change.value))


def read(text: str) -> list[Change]:
    """The changes that a text says, in its order."""
    text = " ".join(text.split())
    found = [(at, change) for change in CHANGES if (at := text.find(change.sentence)) >= 0]
    return [change for _, change in sorted(found, key=lambda pair: pair[0])]


def applied(recipe: Recipe, changes: Iterable[Change]) -> Recipe:
    for change in changes:
        recipe = changed(recipe, change)
    return recipe


def recipe_of(code: str) -> Recipe | None:
    """The recipe that a program states; None where it states none."""
    match = _RECIPE.search(code)
    try:
        fields = json.loads(match.group(1)) if match else {}
        return Recipe(**{**fields, "steps": _in_order(fields["steps"])}) if fields.get("model") in MODELS else None
    except (ValueError, TypeError, KeyError):
        return None


def together(recipes: Sequence[Recipe]) -> Recipe:
    """All steps of all recipes, with the first one's model and the first other model to blend with."""
    first = recipes[0]
    others = [name for each in recipes for name in (each.model, each.blend) if name not in ("", first.model)]
    return replace(
        first,
        steps=_in_order({step for each in recipes for step in each.steps}),
        blend=others[0] if others else "",
        seeds=max(each.seeds for each in recipes),
    )


def cheaper(recipe: Recipe) -> Recipe:
    """Without what costs most: cross-validation, then seeds, then the blend, then a dear model."""
    if recipe.cv:
        return replace(recipe, cv=False)
    if recipe.seeds > 1:
        return replace(recipe, seeds=1)
    if recipe.blend:
        return replace(recipe, blend="")
    kind = MODELS["kernel" if MODELS[recipe.model].seconds > MODELS["kernel"].seconds else "ridge"]
    return replace(recipe, model="kernel" if kind is MODELS["kernel"] else "ridge", setting=kind.settings[1])


def said(changes: Iterable[Change]) -> str:
    """A hypothesis of these changes, from which they can be read back."""
    return " ".join(change.sentence for change in changes)


def drawn(task: Mapping[str, Any], pick: Callable[[Sequence[Change]], Change], steps: int, costly: int) -> list[Change]:
    """The changes that make a recipe from nothing: a model, `steps` steps, `costly` things that take longer.

    pick(changes): the one that is drawn of some.
    """
    found = [pick([change for change in CHANGES if change.what == "model"])]
    for what in [*["step"] * steps, *["costly"] * costly]:
        menu = usable(task, applied(Recipe(), found))
        found.append(pick([change for change in menu if (change.costly if what == "costly" else change.what == what)]))
    return found


def _in_order(steps: Iterable[str]) -> tuple[str, ...]:
    named = set(steps)
    return tuple(step for step in STEPS if step in named)
