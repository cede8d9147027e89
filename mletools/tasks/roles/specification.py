"""The specification of a task: read out of the strategist's JSON, checked, and handed on to the other roles.

Of the named metrics only those without parameters of their own are offered. Not covered: asking for it (strategist),
and whether data can be made that way, which the ML developer finds out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...base.jsonl import dumps
from ...grading import metrics
from ...records.task import SubmissionFormat
from ..forms import Form, written_as
from ..thresholds import NAMES
from .asking import Faulty

MODALITIES = ("tabular", "image", "text", "audio", "graph", "timeseries", "multimodal")
LEAST_ROWS, MOST_ROWS = 50, 200
MOST_LABELS = 20
COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,29}")
CUSTOM = "custom"
# The named metrics that a task may choose; one with a metric of its own may choose its form among CUSTOM_FORMS.
# fmt: off
OFFERED = (
    "accuracy", "auroc", "average_precision", "balanced_accuracy", "balanced_log_loss", "brier_score", "cohen_kappa",
    "error_rate", "f1_macro", "f1_micro", "f1_sample_mean", "f1_weighted", "gini", "jaccard_sets", "jaccard_words",
    "kendall_tau", "levenshtein", "log_loss", "mae", "mape", "mcc", "median_absolute_error", "mse", "pearson", "r2",
    "rmse", "rmsle", "rmspe", "smape", "spearman",
)
# fmt: on
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


@dataclass(frozen=True)
class Specification:
    """A task before it has data.

    `rows` are those of train and test together; `features` maps a name to {"meaning", "unit", "generation"}; `columns`
    are the submission's beside the id, `key` the id's. `metric` is one of OFFERED or "custom", with a title and a
    definition in words. `told` is the whole of it as JSON values, as the next roles see it.
    """

    name: str
    title: str
    modality: str
    problem: str
    rows: int
    features: dict[str, dict[str, str]]
    targets: list[str]
    labels: list[str]
    rule: str
    key: str
    form: str
    columns: list[str]
    metric: str
    metric_title: str
    metric_definition: str
    lower_is_better: bool
    told: dict[str, object]

    @property
    def test_rows(self) -> int:
        """A fifth as many as there are for training."""
        return round(self.rows / 6)

    @property
    def text(self) -> str:
        return dumps(self.told)

    @property
    def direction(self) -> str:
        return "lower is better" if self.lower_is_better else "higher is better"


def read_specification(value: Mapping[str, object], rows: int) -> Specification:
    """The specification in the strategist's JSON. Faulty says what is missing or wrong."""
    if value.get("n_samples") != rows:
        raise Faulty(f"n_samples must be {rows}, as given")
    title, rule = text_at(value, "title", 120), text_at(value, "hidden_rule_logic", 6000)
    text_at(value, "context", 3000)
    modality, problem = text_at(value, "modality", 20), text_at(value, "problem", 60)
    if modality not in MODALITIES:
        raise Faulty(f"modality must be one of {', '.join(MODALITIES)}")
    thresholds = value.get("thresholds_logic")
    if not isinstance(thresholds, Mapping) or any(not str(thresholds.get(name) or "").strip() for name in NAMES):
        raise Faulty(f"thresholds_logic must be an object with words for each of {', '.join(NAMES)}")
    features, targets, labels = _features(value), *_targets(value)
    metric, form, metric_title, definition, lower = _metric(value)
    if form in ("label", "probability", "probabilities", "tagset", "text") and len(targets) != 1:
        raise Faulty(f"a submission whose cells are {form} has one target, not {len(targets)}")
    if form == "probabilities" and len(labels) < 2:
        raise Faulty("target.labels must list the labels, two at least: there is a probability for each")
    submission = object_at(value, "submission")
    key = text_at(submission, "id", 40)
    wanted = submission_of(form, key, targets, labels, 0)["target"]
    if not COLUMN.fullmatch(key) or key in {*targets, *features}:
        raise Faulty("submission.id must be the name of a column of its own, letters, digits and _")
    if submission.get("columns") != wanted:
        raise Faulty(f"submission.columns must be {dumps(wanted)} for this metric and target")
    slug = re.sub(r"[^a-z0-9]+", "-", text_at(value, "name", 60).lower()).strip("-")
    if not slug:
        raise Faulty("name must be a few English words")
    return Specification(
        name=slug, title=title, modality=modality, problem=re.sub(r"[^a-z0-9]+", "_", problem.lower()).strip("_"), rows=rows,
        features=features, targets=targets, labels=labels, rule=rule, key=key, form=form, columns=wanted, metric=metric,
        metric_title=metric_title, metric_definition=definition, lower_is_better=lower, told=dict(value),
    )  # fmt: skip


def text_at(value: Mapping[str, object], name: str, most: int) -> str:
    """The text of that name. Faulty where it is missing, empty or longer than `most` characters."""
    found = value.get(name)
    if not isinstance(found, str) or not found.strip():
        raise Faulty(f"{name} must be a text")
    if len(found) > most:
        raise Faulty(f"{name} has {len(found)} characters; at most {most} are accepted")
    return found.strip()


def object_at(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The object of that name. Faulty where there is none."""
    found = value.get(name)
    if not isinstance(found, Mapping):
        raise Faulty(f"{name} must be an object")
    return found


def _features(value: Mapping[str, object]) -> dict[str, dict[str, str]]:
    given = object_at(value, "feature_mapping")
    if not 1 <= len(given) <= 40:
        raise Faulty("feature_mapping must name 1 to 40 features")
    found = {}
    for name, feature in given.items():
        if not COLUMN.fullmatch(name):
            raise Faulty(f"the feature name {name[:80]!r} is refused: a letter, then letters, digits and _, at most 40")
        if not isinstance(feature, Mapping):
            raise Faulty(f"feature_mapping.{name} must be an object with meaning, unit and generation")
        text_at(feature, "meaning", 500)
        text_at(feature, "generation", 2000)
        found[name] = {key: str(feature.get(key) or "").strip() for key in ("meaning", "unit", "generation")}
    return found


def _targets(value: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """(target columns, labels); labels only of a target that stands alone and lists them."""
    given = value.get("target")
    entries = [given] if isinstance(given, Mapping) else given
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise Faulty("target must be an object with column, meaning and labels, or a list of such")
    names = [text_at(entry, "column", 40) for entry in entries]
    for name, entry in zip(names, entries, strict=True):
        text_at(entry, "meaning", 500)
        if not COLUMN.fullmatch(name) or names.count(name) > 1 or name in object_at(value, "feature_mapping"):
            raise Faulty(f"the target column {name!r} is refused: letters, digits and _, and no other column's name")
    labels = entries[0].get("labels") or []
    if not isinstance(labels, list) or len(labels) > MOST_LABELS:
        raise Faulty(f"target.labels must be a list of at most {MOST_LABELS} labels, or null")
    words = [str(label) for label in labels]
    if len(set(words)) < len(words) or not all(_LABEL.fullmatch(word) for word in words):
        raise Faulty("target.labels must be different words of letters, digits, _ and -, at most 30 characters each")
    return names, words if len(entries) == 1 else []


def _metric(value: Mapping[str, object]) -> tuple[str, str, str, str, bool]:
    """(name, form of a cell, title, definition in words, whether lower is better)."""
    given = object_at(value, "metric")
    name, lower = text_at(given, "name", 60), value.get("lower_is_better")
    if not isinstance(lower, bool):
        raise Faulty("lower_is_better must be true or false")
    if name == CUSTOM:
        form = object_at(value, "submission").get("form")
        if form not in CUSTOM_FORMS:
            raise Faulty(f"submission.form must be one of {', '.join(CUSTOM_FORMS)} where the metric is custom")
        return name, form, text_at(given, "title", 80), text_at(given, "definition", 2000), lower
    if name not in OFFERED:
        raise Faulty(f"metric.name must be one of {', '.join(OFFERED)}, or {CUSTOM}")
    metric = metrics.find(name)
    if lower != metric.lower_is_better:
        raise Faulty(f"lower_is_better must be {dumps(metric.lower_is_better)} for {name}")
    return name, written_as(metric), name, metric.definition, lower


def submission_of(form: str, key: str, targets: Sequence[str], labels: Sequence[str], rows: int) -> SubmissionFormat:
    """That part of the record."""
    names = targets if form != "probabilities" else ()
    return Form(form, targets, labels, key, names=names).submission(rows)


def offered() -> str:
    """A line for each metric that can be chosen, in Markdown."""
    lines = []
    for metric in map(metrics.find, OFFERED):
        better, cell = "lower" if metric.lower_is_better else "higher", WORDS[written_as(metric)]
        lines.append(f"- {metric.name} ({better} is better; a cell of the submission is {cell}): {metric.definition}")
    return "\n".join(lines)
