"""The programs of the search's developer: from a recipe to a text that trains, waits as long as it costs, and hands in.

Its real work takes about a tenth of a second; it sleeps for the seconds of its recipe, which stand for a larger table's
training. Covered: made tables, all their metrics; the debug run on a tenth of the rows and the program's own score, where
they are asked for; seven faults. Not covered: other tasks, which get the bank's programs with a wait ahead (of_bank),
and whose own score is scikit-learn's.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import readers
from . import search_texts as texts
from .bank import Choice, program
from .search_recipes import MODELS, STEPS, Recipe

PLAIN_SECONDS = 0.5  # of a program of the bank
SLOW_TIMES = 10  # a forgotten loop
LUCKY_SPLITS = 3
CLASSES = ("binary_classification", "multiclass_classification")
# An exception while it reads, or after the training; a wrong submission; a forgotten loop; a program that does not know
# --debug; predictions that are none.
FAULTS = ("early", "late", "invalid", "slow", "nodebug", "fake")


@dataclass(frozen=True)
class ProgramOptions:
    """What a prompt asks of a program: the debug run, a score of its own. check: how that one is made, honest (on rows
    held out), lucky (the best of several splits) or leaky (on rows half of which it was trained on).
    """

    debug: bool = False
    reports: bool = False
    check: str = "honest"


_EARLY = (
    ('pd.read_csv("input/train.csv")', 'pd.read_csv("input/training.csv")'),
    ("from sklearn import metrics\n", "from sklearn import metrics\nimport tabular_tools\n"),
    ("both = pd.concat([train[list(test)], test]", "both = pd.concat([train[list(test)], valid]"),
)
_LATE = (
    ("sub.to_csv(", 'sub = sub.set_index("row_id")\nsub.to_csv('),
    ("sub.to_csv(", "sub = sub.round(digits)\nsub.to_csv("),
    ("sub.to_csv(", "assert len(sub) == len(train), (len(sub), len(train))\nsub.to_csv("),
)
_INVALID = (
    ("sub.to_csv(", "sub = sub.head(len(sub) // 2)\nsub.to_csv("),
    ("sub.to_csv(", "sub = sub.iloc[:, :-1]\nsub.to_csv("),
    ("sub.to_csv(", "sub = pd.concat([sub, sub])\nsub.to_csv("),
)
_SWAPS = {"early": _EARLY, "late": _LATE, "invalid": _INVALID}
FAKE = """\
import pandas as pd

sub = pd.read_csv("input/sample_submission.csv")
sub.to_csv("submission.csv", index=False)
"""


def text_of(
    task: Mapping[str, Any],
    recipe: Recipe,
    wanted: ProgramOptions,
    fault: str = "",
    rng: Callable[[str], float] = lambda name: 0.0,
) -> str:
    """The whole program; `fault` is one of FAULTS or empty, and dice("fault") picks one of its kind."""
    debug = wanted.debug and fault != "nodebug"
    if fault == "fake":
        return f"{recipe.line}\n{FAKE}"
    used = [recipe.model, *([recipe.blend] if recipe.blend else [])]
    lines = {line for name in used for line in texts.IMPORTS[name]}
    if "boost" in used and not _one_column(task):
        lines.add(texts.EACH[1])
    imports = "\n".join(sorted(lines))
    head = texts.HEAD.format(imports=imports)
    head += (texts.CLASSES if task["problem"] in CLASSES else "") + (texts.TENTH if debug else "")
    blocks = [
        head + _reading(task, recipe),
        *([texts.FEW] if "few" in recipe.steps else []),
        *([texts.CHOSEN_BY_ONE] if "chosen" in recipe.steps else []),
        _fitting(task, recipe),
        *(
            [_checking(task, wanted, "target" in recipe.steps and task["problem"] == "regression")]
            if wanted.reports
            else []
        ),
        _working(task, recipe, wanted, debug, fault == "slow"),
    ]
    code = recipe.line + "\n" + "\n\n".join(blocks)
    if "metrics." not in code:
        code = code.replace("from sklearn import metrics\n", "", 1)
    if not debug:
        code = code.replace("import sys\n", "", 1)
    return _swapped(code, fault, rng)


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


def of_bank(
    task: Mapping[str, Any],
    choice: Choice,
    wanted: ProgramOptions,
    fault: str = "",
    rng: Callable[[str], float] = lambda name: 0.0,
) -> str:
    """A program of the bank for a task without recipes, with a wait, and as far as asked the debug block and a score.

    It trains on all rows in a debug run: so few samples are no table of numbers that could be cut to a tenth.
    """
    code = program(task, choice)
    if fault == "fake":
        return FAKE
    head, tail = "import sys\nimport time\n\nbegin = start = time.time()\n", ""
    debug = wanted.debug and fault != "nodebug"
    head += f"DEBUG = {chr(34) + '--debug' + chr(34) + ' in sys.argv' if debug else 'False'}\n"
    head += texts.SLEEP.format(seconds=_waits(PLAIN_SECONDS, fault == "slow"), share=" * (0.1 if DEBUG else 1)")
    if debug:
        tail += texts.BLOCK
    if wanted.reports and "X, T =" in code and "model.fit" in code:
        sign = "1 - " if task["metric"]["lower_is_better"] else ""
        tail += "from sklearn.model_selection import cross_val_score\n\n"
        tail += f'print("Validation score:", {sign}cross_val_score(model, X, train[c], cv=3).mean())\n'
    return _swapped(f"{head}\n{code}{tail}", fault, rng)


def _swapped(code: str, fault: str, rng: Callable[[str], float]) -> str:
    swaps = [swap for swap in _SWAPS.get(fault, ()) if swap[0] in code]
    if not swaps:
        return code
    right, wrong = swaps[int(rng("fault") * len(swaps))]
    return code.replace(right, wrong, 1)


def _waits(seconds: float, slow: bool) -> str:
    return f"{seconds:g} * {SLOW_TIMES}" if slow else f"{seconds:g}"


def _reading(task: Mapping[str, Any], recipe: Recipe) -> str:
    query, steps = readers.query(task), recipe.steps
    text = texts.BOTH
    if "sides" in steps:
        text += texts.SIDES.format(files=readers.sides(task))
    tidy = "numbers" in steps
    text += texts.COLUMNS.format(
        hidden=["id", *([query] if query else [])],
        number=texts.FREED if tidy else "both[c]",
        tidy=".str.strip().str.lower()" if tidy else "",
        mend="".join(texts.MEND[name] for name in texts.MEND if name in steps),
    )
    text += texts.RANKED if "ranks" in steps else texts.PLACED
    plain = "u" if "ranks" in steps else "v"
    # what pairs or categories there are none of gives no columns
    parts = ", ".join(texts.FEATURES[name] for name in texts.FEATURES if name in steps)
    text += texts.SPAN.format(parts=f"{plain}, words{', ' + parts if parts else ''}")
    return text + (texts.WITHIN.format(query=query) if query else "") + texts.SCALE


def _fitting(task: Mapping[str, Any], recipe: Recipe) -> str:
    """What is learnt, how a model is trained, and how its predictions become what is handed in."""
    query, classes = readers.query(task), task["problem"] in CLASSES
    within = bool(query) and readers.form_of(task) == "number"
    text = texts.TARGETS["classes" if classes else "within" if within else "numbers"].format(query=query)
    kind = (
        "classes"
        if classes
        else {"multilabel_classification": "tags", "regression": "range"}.get(task["problem"], "plain")
    )
    if kind == "range":
        spread = "target" in recipe.steps
        text, kind = text + (texts.SPREAD if spread else texts.LIMITS), "ranks" if spread else "range"
    models = [_model(task, recipe.model, "setting")]
    if recipe.blend:
        models.append(_model(task, recipe.blend, f"{MODELS[recipe.blend].settings[1]:g}"))
    ahead = texts.RARE if "weights" in recipe.steps and classes else ""
    ahead += texts.BY_FEW if "few" in recipe.steps else ""
    ahead += texts.BY_CHOSEN if "chosen" in recipe.steps else ""
    settings = [f"{each:g}" for each in MODELS[recipe.model].settings]
    ahead += (
        texts.CHOSEN.format(settings=f"({', '.join(settings)})")
        if recipe.cv
        else texts.FIXED.format(setting=f"{recipe.setting:g}")
    )
    final = f"def final(P):\n{texts.FINAL[kind]}"
    fit = texts.FIT.format(models=", ".join(models), learnt="Y[:, 0]" if _one_column(task) else "Y")
    return "\n\n".join([text, final, fit, texts.PREDICTED.format(ahead=ahead, seeds=recipe.seeds)])


def _one_column(task: Mapping[str, Any]) -> bool:
    return task["problem"] in ("regression", "ranking") and len(task["submission"]["target"]) == 1


def _model(task: Mapping[str, Any], name: str, setting: str) -> str:
    text = texts.MODELS[name].format(setting=setting)
    return texts.EACH[0].format(text) if name == "boost" and not _one_column(task) else text


def _checking(task: Mapping[str, Any], wanted: ProgramOptions, spread: bool) -> str:
    """The function of the program's own score on a quarter of the rows."""
    query, metric = readers.query(task), task["metric"]
    fallback = (
        "    return np.abs(Z - P).mean()\n" if metric["lower_is_better"] else "    return 1 - np.abs(Z - P).mean()\n"
    )
    scored = texts.METRICS.get(metric.get("name"), fallback)
    named = "    a, p = Z.argmax(axis=1), P.argmax(axis=1)\n" if re.search(r"\ba\b", scored) else ""
    return (
        texts.UNITS[bool(query)].format(query=query)
        + "\n\n"
        + texts.CHECK.format(
            kept="~held | (np.arange(len(held)) % 2 == 0)" if wanted.check == "leaky" else "~held",
            scored=named + scored.rstrip("\n"),
            truth="final(Y[held])" if spread else "Y[held]",
        )
    )


def _working(task: Mapping[str, Any], recipe: Recipe, wanted: ProgramOptions, debug: bool, slow: bool) -> str:
    """The training, the wait, what is printed and what is handed in."""
    text = "begin = time.time()\n" if debug else ""
    text += "P = predicted(X, Y, T[:1]).repeat(len(T), axis=0) if DEBUG else " if debug else "P = "
    text += "predicted(X, Y, T)\n" + ("start = time.time()\n" if debug else "")
    text += texts.SLEEP.format(seconds=_waits(recipe.seconds, slow), share=" * (0.1 if DEBUG else 1)" if debug else "")
    if debug:
        text += texts.BLOCK
    if wanted.reports:
        better = "min" if task["metric"]["lower_is_better"] else "max"
        splits = (
            f"{better}(own_score(seed) for seed in range({LUCKY_SPLITS}))"
            if wanted.check == "lucky"
            else "own_score(0)"
        )
        line = f'print("Validation score:", round(float({splits}), 5))\n'
        text += f"if not DEBUG:\n    {line}" if debug else line
    return text + _writing(task) + 'sub.to_csv("submission.csv", index=False)\n'


def _writing(task: Mapping[str, Any]) -> str:
    submission, form = task["submission"], readers.form_of(task)
    if form == "probability" and task["problem"] == "multilabel_classification":
        form = "tags"
    prefix = "prob_" if all(name.startswith("prob_") for name in submission["target"]) else ""
    if form == "number" and task["metric"].get("name") in readers.RANKS:
        return "sub[goals] = P + 1e-9 * np.arange(len(P))[:, None]\n"  # a correlation needs predictions that differ
    return texts.WRITE[form].format(prefix=prefix, target=submission["target"][0], query=readers.query(task))
