"""The description of a task, Markdown like a competition page.

It tells neither how the target came about nor where the answers are kept.
"""

from itertools import groupby

from .draft import ID, Draft
from .table import Column

SAMPLE_LINES = 4
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


def describe(draft: Draft, lower_is_better: bool) -> str:
    """The Markdown text of a draft's description."""
    table = draft.table
    direction = "Lower is better." if lower_is_better else "Higher is better."
    several = " It is computed for each target column and averaged." if len(table.targets) > 1 else ""
    sample = draft.public["sample_submission.csv"].decode().split("\n")
    targets = ", ".join(f"`{name}`" for name in draft.submission["target"])
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
        f"| `{ID}` | number of the row, without further meaning | |",
        *_dictionary(draft), "",
        *_gap_note(draft),
        "## Metric", "", f"{METRIC_WORDS[draft.metric]}{several} {direction}", "",
        "## Submission", "",
        "Your program must write `./submission.csv`: a header and one line for each row of `test.csv`, in any order, "
        f"with the columns `{ID}` and {targets}. {_values(draft)}", "",
        "The first lines of the sample:", "", "```", *sample[:SAMPLE_LINES], "```", "",
    ]
    # fmt: on
    return "\n".join(lines)


def _task(draft: Draft) -> str:
    table = draft.table
    if draft.metric == "log_loss":
        return f"Predict the probability of each value of `{table.targets[0].name}` ({table.targets[0].meaning})."
    if draft.metric == "auroc":
        target = table.targets[0]
        return f"Predict the probability that {target.name} ({target.meaning}) is `{table.positive}`."
    return f"Predict {' and '.join(f'`{column.name}` ({column.meaning})' for column in table.targets)}."


def _values(draft: Draft) -> str:
    if draft.metric == "log_loss":
        return "Probabilities lie between 0 and 1 and sum to 1 in every row."
    if draft.metric == "auroc":
        return "The value is a probability between 0 and 1."
    if draft.table.labels:
        return f"The value is one of {', '.join(f'`{label}`' for label in draft.table.labels)}."
    return "The value is a number." if len(draft.table.targets) == 1 else "The values are numbers."


def _listed(columns: list[Column]) -> str:
    return ", ".join(f"`{column.name}`" for column in columns)


def _dictionary(draft: Draft) -> list[str]:
    """A line for each column; neighbours that differ in nothing but the name share one."""
    lines = []
    columns = [*draft.table.features, *draft.train_targets]
    alike = groupby(columns, key=lambda column: (column.meaning, column.unit, column.number))
    for (meaning, unit, number), group in alike:
        names = [column.name for column in group]
        shown = f"`{names[0]}`" if len(names) == 1 else f"`{names[0]}` ... `{names[-1]}` ({len(names)} columns)"
        values = unit if number else ", ".join(_levels(draft, names[0]))
        lines.append(f"| {shown} | {meaning} | {values} |".replace("|  |", "| |"))
    return lines


def _levels(draft: Draft, name: str) -> list[str]:
    if name == draft.table.targets[0].name:
        return draft.table.labels
    return sorted({cell for cell in draft.table.cells[name] if cell})


def _gap_note(draft: Draft) -> list[str]:
    gaps = [column for column in draft.table.features if "" in draft.table.cells[column.name]]
    return [f"Some values are missing: an empty cell in {_listed(gaps)}.", ""] if gaps else []
