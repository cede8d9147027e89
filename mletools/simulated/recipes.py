"""The recipes of the programs that the simulated model writes in a search: what can be in one, be changed, and cost.

A recipe is a model with one setting, steps of reading and of features, a second model to blend with, a number of seeds to
average over, and whether the setting is chosen by cross-validation. Each change of one thing has one English sentence,
from which it is read back. The program trains for real, in about a tenth of a second, and sleeps for its recipe's
seconds, which stand for a larger table's training. A debug run trains on all rows and sleeps a tenth of that.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from ..records.task import Task
from ..solutions import programs
from ..solutions.bank import SAMPLE_PROGRAM, voting, with_fault
from ..solutions.programs import ProgramOptions


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
    "measures": RecipeStep("many measures of each file made with care", "DataLoadSpec", 0.8),
    "ranks": RecipeStep("ranks of the numeric values", "FeatureEng", 0.2),
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
    "chosen": RecipeStep("only the eight features that weigh most in a linear model", "FeatureEng", 0.2),
    "weights": RecipeStep("more weight for rows of rare classes", "Workflow", 0.1),
    "target": RecipeStep("a target brought into an even spread by its ranks", "Workflow", 0.1),
}


@dataclass(frozen=True)
class Kind:
    """A kind of model: its words, its setting's name and values from simple to rich, seconds of training, prior, source.

    `models`: the source of a classifier and a regressor, in which * is the setting.
    """

    words: str
    name: str
    settings: tuple[float, ...]
    seconds: float
    prior: float
    models: tuple[str, str]


def _both(model: str) -> tuple[str, str]:
    return model.format("Classifier"), model.format("Regressor")


_KERNEL = "make_pipeline(Nystroem(gamma=*, n_components=60, random_state=0), {})"
_LOGISTIC = "LogisticRegression(C={}, max_iter=200)"
MODELS = {
    "ridge": Kind("a ridge model", "alpha", (300, 30, 3), 0.3, 0.0, (_LOGISTIC.format("1 / *"), "Ridge(alpha=*)")),
    "knn": Kind(
        *("a mean of nearest neighbours", "n_neighbors", (30, 15, 7), 0.3, -0.2),
        models=_both('KNeighbors{}(n_neighbors=*, weights="distance")'),
    ),
    "tree": Kind(
        *("one decision tree", "min_samples_leaf", (20, 10, 4), 0.3, -0.3),
        models=_both("DecisionTree{}(min_samples_leaf=*, max_features=0.5, random_state=0)"),
    ),
    "kernel": Kind(
        *("a kernel machine", "gamma", (0.003, 0.01, 0.03), 0.6, 0.2),
        models=(_KERNEL.format(_LOGISTIC.format(1)), _KERNEL.format("Ridge()")),
    ),
    "forest": Kind(
        *("a forest", "min_samples_leaf", (8, 4, 2), 0.8, 0.3),
        models=_both("RandomForest{}(n_estimators=12, min_samples_leaf=*, max_features=0.3, random_state=0)"),
    ),
    "extra": Kind(
        *("a forest of extra trees", "min_samples_leaf", (8, 4, 2), 0.8, 0.3),
        models=_both("ExtraTrees{}(n_estimators=12, min_samples_leaf=*, max_features=0.5, random_state=0)"),
    ),
    "boost": Kind(
        *("some boosted trees", "n_estimators", (15, 30, 50), 1.2, 0.4),
        models=_both("GradientBoosting{}(n_estimators=*, max_features=0.2, subsample=0.6, random_state=0)"),
    ),
}
ENSEMBLE_PRIOR, CV_PRIOR = 0.2, 0.1  # of seeds and of blending; of a setting chosen by cross-validation
STEP_SECONDS, MOST_SECONDS = 0.1, 6.0
CV_TIMES = 2.5  # as long as without cross-validation
SEED_TIMES = 0.6  # of the first seed's training, for each further one
CHEAP = 1.0  # seconds of a recipe that counts as cheap
SLOW_TIMES = 10  # a forgotten loop


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

    what: step, without, model, blend, seeds, cv; value: of it. prior: of its worth, as in RecipeStep.
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
_RECIPE = re.compile(r"^# recipe: (\{.*\})\s*$", re.MULTILINE)


def _all() -> list[Change]:
    every = [Change("step", name, each.component, each.prior, f"Add {each.words}.") for name, each in STEPS.items()]
    for name, step in STEPS.items():
        every.append(Change("without", name, step.component, -step.prior, f"Leave out {step.words}."))
    for name, kind in MODELS.items():
        for at, setting in enumerate(kind.settings):
            words = f"Train {kind.words} with {kind.name}={setting:g} as the model."
            every.append(Change("model", f"{name} {setting:g}", "Model", kind.prior - 0.1 * (at == 0), words))
        prior = ENSEMBLE_PRIOR + kind.prior / 2 - 0.1
        every.append(Change("blend", name, "Ensemble", prior, f"Blend the model half and half with {kind.words}."))
    return [
        *every,
        Change("blend", "", "Ensemble", -ENSEMBLE_PRIOR, "Hand in the model alone, without a blend."),
        Change("seeds", "1", "Ensemble", -ENSEMBLE_PRIOR, "Train with one seed only."),
        Change("seeds", "3", "Ensemble", ENSEMBLE_PRIOR, "Average over three seeds."),
        Change("seeds", "5", "Ensemble", ENSEMBLE_PRIOR, "Average over five seeds."),
        Change("cv", "yes", "Workflow", CV_PRIOR, "Choose the setting by cross-validation."),
        Change("cv", "", "Workflow", -CV_PRIOR, "Keep the setting fixed, without cross-validation."),
    ]


CHANGES = _all()


def usable(task: Task, recipe: Recipe) -> list[Change]:
    """The changes that would make another recipe for the task, in a fixed order."""
    useless = set[str]()
    if programs.form_of(task) in programs.UNITS:
        useless |= set(STEPS) - {"measures", "few", "chosen"}
    if not programs.sides(task):
        useless.add("sides")
    if not programs.kinds(task):
        useless.add("measures")
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
    places = [(at, change) for change in CHANGES if (at := text.find(change.sentence)) >= 0]
    return [change for _, change in sorted(places, key=lambda pair: pair[0])]


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
    steps = _in_order({step for each in recipes for step in each.steps})
    return replace(first, steps=steps, blend=others[0] if others else "", seeds=max(each.seeds for each in recipes))


def cheaper(recipe: Recipe) -> Recipe:
    """Without what costs most: cross-validation, then seeds, then the blend, then a dear model."""
    if recipe.cv:
        return replace(recipe, cv=False)
    if recipe.seeds > 1:
        return replace(recipe, seeds=1)
    if recipe.blend:
        return replace(recipe, blend="")
    name = "kernel" if MODELS[recipe.model].seconds > MODELS["kernel"].seconds else "ridge"
    return replace(recipe, model=name, setting=MODELS[name].settings[1])


def drawn(task: Task, pick: Callable[[Sequence[Change]], Change], steps: int, costly: int) -> list[Change]:
    """The changes that make a recipe from nothing: a model, `steps` steps, `costly` things that take longer.

    pick(changes): the one that is drawn of some.
    """
    chosen = [pick([change for change in CHANGES if change.what == "model"])]
    for what in [*["step"] * steps, *["costly"] * costly]:
        menu = usable(task, applied(Recipe(), chosen))
        menu = [change for change in menu if (change.costly if what == "costly" else change.what == what)]
        chosen += [pick(menu)] if menu else []
    return chosen


def text_of(
    task: Task,
    recipe: Recipe,
    wanted: ProgramOptions,
    fault: str = "",
    rng: Callable[[str], float] = lambda name: 0.0,
) -> str:
    """The whole program. fault: empty, crash, misformat or late (see bank), slow (a forgotten loop), nodebug (it does not
    know --debug) or fake (the sample submission); rng("fault") picks one of its kind.
    """
    if fault == "fake" or programs.unsolved(task):
        return f"{recipe.line}\n{SAMPLE_PROGRAM.format(file=programs.sample_file(task))}"
    seconds = f"{recipe.seconds:g} * {SLOW_TIMES}" if fault == "slow" else f"{recipe.seconds:g}"
    wanted = replace(wanted, seconds=seconds, debug=wanted.debug and fault != "nodebug")
    code = f"{recipe.line}\n{programs.compose(task, model_of(task, recipe), recipe.steps, wanted)}"
    return with_fault(code, fault, rng) if fault in ("crash", "misformat", "late") else code


def model_of(task: Task, recipe: Recipe) -> str:
    """The source code of a recipe's model, with what it does to features and target."""
    kind = programs.kind_of_model(task)
    pairs = [(recipe.model, recipe.setting, recipe.cv)]
    if recipe.blend:
        pairs.append((recipe.blend, MODELS[recipe.blend].settings[1], False))
    members = [_member(kind, *pair, seed) for pair in pairs for seed in range(recipe.seeds)]
    if "weights" in recipe.steps:
        weighted = r"\b(LogisticRegression|DecisionTreeClassifier|RandomForestClassifier|ExtraTreesClassifier)\("
        members = [re.sub(weighted, r'\1(class_weight="balanced", ', each) for each in members]
    model = members[0]
    if len(members) > 1:
        model = voting(kind, {str(at): member for at, member in enumerate(members)})
    linear = MODELS["ridge"].models[kind == "Regressor"].replace("*", "30")
    if "chosen" in recipe.steps:
        model = f"make_pipeline(RFE({linear}, n_features_to_select=8, step=0.5), {model})"
    if "few" in recipe.steps:
        score = "f_classif" if kind == "Classifier" else "f_regression"
        model = f"make_pipeline(SelectKBest({score}, k=12), {model})"
    if "target" in recipe.steps and kind == "Regressor":
        model = f"TransformedTargetRegressor({model}, transformer=QuantileTransformer(n_quantiles=50))"
    return model


def _member(kind: str, name: str, setting: float, cv: bool, seed: int) -> str:
    of = MODELS[name]
    model = of.models[kind == "Regressor"].replace("random_state=0", f"random_state={seed}")
    if cv:
        parameter = "C" if "C=1 / *" in model else f"nystroem__{of.name}" if name == "kernel" else of.name
        values = ", ".join(f"1 / {each:g}" if parameter == "C" else f"{each:g}" for each in of.settings)
        return f'GridSearchCV({model.replace("*", f"{setting:g}")}, {{"{parameter}": [{values}]}}, cv=2)'
    return model.replace("*", f"{setting:g}")


def plan(recipe: Recipe) -> str:
    """What the program does, in sentences."""
    steps = ", ".join(STEPS[name].words for name in recipe.steps) or "the plain columns"
    kind = MODELS[recipe.model]
    blend = f", blended half and half with {MODELS[recipe.blend].words}" if recipe.blend else ""
    how = "chosen by cross-validation" if recipe.cv else f"{recipe.setting:g}"
    return (
        f"The program takes {steps}. The model is {kind.words}{blend}; its {kind.name} is {how}. "
        f"It is trained with {recipe.seeds} seed{'s' if recipe.seeds > 1 else ''}. Its predictions go to submission.csv."
    )


def _in_order(steps: Iterable[str]) -> tuple[str, ...]:
    named = set(steps)
    return tuple(step for step in STEPS if step in named)
