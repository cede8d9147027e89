"""What the named metrics that this source offers ask of a submission, and what a submission of each form looks like.

Only metrics without parameters of their own are offered. Not covered: the metrics themselves, which are the caller's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..forms import Form

CUSTOM = "custom"
# What a submission's cells are, by metric; a task with a metric of its own may choose among CUSTOM_FORMS.
FORMS = {
    **dict.fromkeys(("accuracy", "balanced_accuracy", "f1_macro", "f1_micro", "f1_weighted"), "label"),
    **dict.fromkeys(("cohen_kappa", "error_rate", "mcc"), "label"),
    **dict.fromkeys(("mae", "mape", "median_absolute_error", "mse", "r2", "rmse", "rmsle", "rmspe", "smape"), "number"),
    **dict.fromkeys(("kendall_tau", "pearson", "spearman"), "number"),
    **dict.fromkeys(("auroc", "average_precision", "brier_score", "gini"), "probability"),
    **dict.fromkeys(("balanced_log_loss", "log_loss"), "probabilities"),
    **dict.fromkeys(("f1_sample_mean", "jaccard_sets"), "tagset"),
    **dict.fromkeys(("jaccard_words", "levenshtein"), "text"),
}
CUSTOM_FORMS = ("label", "number", "text")
WORDS = {
    "label": "one label of the target, written as in train.csv",
    "number": "a finite number in every target column",
    "probability": "the probability, from 0 to 1, that the target is 1; the target in train.csv is 0 or 1",
    "probabilities": "the probability of each label of the target, one column prob_LABEL a label, in every row a sum of 1",
    "tagset": "any number of labels with spaces between them",
    "text": "a text",
}
PARSES = {"label": "label", "tagset": "tagset", "text": "text"}


def columns_of(form: str, targets: Sequence[str], labels: Sequence[str]) -> list[str]:
    """The columns of a submission beside the id."""
    return submission_of(form, "id", targets, labels, 0)["target"]  # type: ignore[no-any-return]


def submission_of(form: str, key: str, targets: Sequence[str], labels: Sequence[str], rows: int) -> dict[str, Any]:
    """That part of the record."""
    names = targets if form != "probabilities" else ()
    return Form(form, targets, labels, key, names=names).submission(rows)


def offered(metrics: Mapping[str, tuple[str, bool]]) -> str:
    """A line for each metric that can be chosen, in Markdown."""
    lines = []
    for name in sorted(FORMS.keys() & metrics.keys()):
        words, lower = metrics[name]
        better = "lower" if lower else "higher"
        lines.append(f"- {name} ({better} is better; a cell of the submission is {WORDS[FORMS[name]]}): {words}")
    return "\n".join(lines)
