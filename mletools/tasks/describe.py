"""The description of a task, Markdown like a competition page.

It tells neither how the target came about nor where the answers are kept.
"""

from collections.abc import Callable
from itertools import groupby

from .draft import Draft
from .table import Column

SAMPLE_LINES = 4
MOST_LEVELS = 30
METRIC_WORDS = {
    "accuracy": "Accuracy: the share of rows whose class is predicted correctly.",
    "balanced_accuracy": "Balanced accuracy: the recall of each class, averaged over the classes with equal weight.",
    "f1_macro": "Macro F1: the F1 score of each class, averaged over the classes with equal weight.",
    "log_loss": "Log loss: the mean of -ln(p) over the rows, p being the probability given to the true class.",
    "auroc": "AUROC: the area under the ROC curve of the predicted probability.",
    "rmse": "RMSE: the root of the mean squared error.",
    "mae": "MAE: the mean absolute error.",
    "r2": "R2: the coefficient of determination, 1 - squared error / squared deviation from the mean.",
}


def describe(draft: Draft, lower_is_better: bool, definition: Callable[[str], str] | None = None) -> str:
    """The Markdown text of a draft's description; `definition` says in words what a metric is that METRIC_WORDS lacks."""
    table = draft.table
    direction = "Lower is better." if lower_is_better else "Higher is better."
    several = " It is computed for each target column and averaged." if len(table.targets) > 1 else ""
    sample = draft.public["sample_submission.csv"].decode().split("\n")
    targets = ", ".join(f"`{name}`" for name in draft.submission["target"])
    words = METRIC_WORDS.get(draft.metric) or f"{draft.metric}: {definition(draft.metric) if definition else ''}"
    key = table.id_name
    about = "name of the row" if table.ids else "number of the row, without further meaning"
    # fmt: off
    lines = [
        f"# {table.title}", "",
        table.context, "",
        "## Task", "", _task(draft), "",
        "## Files", "",
        "The data lie in `./input/`:", "",
        f"- `train.csv`: {len(draft.train)} rows with {_listed(draft.train_targets)}, to learn from",
        f"- `test.csv`: {len(draft.test)} rows without {'it' if len(table.targets) == 1 else 'them'}, to predict",
        "- `sample_submission.csv`: a submission in the right format that predicts a constant",
        "- `description.md`: this page", "",
        "## Columns", "",
        "| column | meaning | unit or values |", "|---|---|---|",
        f"| `{key}` | {about} | |",
        *_dictionary(draft), "",
        *_gap_note(draft),
        "## Metric", "", f"{words}{several} {direction}", "",
        "## Submission", "",
        "Your program must write `./submission.csv`: a header and one line for each row of `test.csv`, in any order, "
        f"with the columns `{key}` and {targets}. {_values(draft)}", "",
        "The first lines of the sample:", "", "```", *sample[:SAMPLE_LINES], "```", "",
    ]
    # fmt: on
    return "\n".join(lines)


def _task(draft: Draft) -> str:
    table = draft.table
    if draft.form == "probabilities":
        return f"Predict the probability of each value of {_named(table.targets[0])}."
    if draft.form == "probability":
        target = table.targets[0]
        told = f" ({target.meaning})" if target.meaning else ""
        return f"Predict the probability that {target.name}{told} is `{table.positive}`."
    return f"Predict {' and '.join(map(_named, table.targets))}."


def _named(column: Column) -> str:
    return f"`{column.name}` ({column.meaning})" if column.meaning else f"`{column.name}`"


def _values(draft: Draft) -> str:
    if draft.form == "probabilities":
        return "Probabilities lie between 0 and 1 and sum to 1 in every row."
    if draft.form == "probability":
        return "The value is a probability between 0 and 1."
    if draft.form == "label":
        return f"The value is one of {', '.join(f'`{label}`' for label in draft.table.labels)}."
    return "The value is a number." if len(draft.table.targets) == 1 else "The values are numbers."


def _listed(columns: list[Column]) -> str:
    return ", ".join(f"`{column.name}`" for column in columns)


def _dictionary(draft: Draft) -> list[str]:
    """A line for each column; neighbours that differ in nothing but the name share one."""
    lines = []
    columns = [*draft.table.features, *draft.train_targets]
    alike = groupby(columns, key=lambda column: (column.meaning or column.name, column.unit, column.number))
    for _, group in alike:
        several = list(group)
        first, meaning = several[0], several[0].meaning
        names = [column.name for column in several]
        shown = f"`{names[0]}`" if len(names) == 1 else f"`{names[0]}` ... `{names[-1]}` ({len(names)} columns)"
        values = first.unit if first.number else ", ".join(_levels(draft, names[0]))
        lines.append(f"| {shown} | {meaning} | {values} |".replace("|  |", "| |"))
    return lines


def _levels(draft: Draft, name: str) -> list[str]:
    if name == draft.table.targets[0].name:
        return draft.table.labels
    levels = sorted({cell for cell in draft.table.cells[name] if cell})
    return levels if len(levels) <= MOST_LEVELS else [f"text, {len(levels)} different"]


def _gap_note(draft: Draft) -> list[str]:
    gaps = [column for column in draft.table.features if "" in draft.table.cells[column.name]]
    return [f"Some values are missing: an empty cell in {_listed(gaps)}.", ""] if gaps else []
