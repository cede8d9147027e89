"""The grading part of a record out of options and column names, where no data file says it.

The rules, which --help and docs/records.md repeat: the id is the first column of the sample submission, the targets are
the others; cells are labels where the metric reads labels, numbers where it reads numbers, else the first kind that it
reads; a metric of probabilities over several columns of which none is the one --target wants a column a class.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from ...base.errors import RecordError
from ...grading import metrics
from ...records.task import AnswersFormat, MetricSpec, Parse, Scoring, SubmissionFormat
from ..forms import form_of
from ..table import Rejected
from .columns import labels_of
from .options import ImportOptions

# More labels than this are not listed in a record; any label is then a prediction.
MOST_LABELS = 100
PROBLEMS = {
    "number": "regression",
    "tagset": "multilabel_classification",
    "ranked": "ranking",
    "order": "ordering",
    "rle": "segmentation",
    "boxes": "detection",
    "spans": "extraction",
}


class GradingRules(Scoring, AnswersFormat):
    """The grading part of a record but for the file of the answers."""


def metric_part(options: ImportOptions) -> MetricSpec:
    """The metric of the record from --metric and --metric-params. Rejected when it is unknown."""
    assert options.metric is not None
    try:
        found = metrics.find(options.metric)
    except RecordError as error:
        raise Rejected(str(error)) from None
    return {
        "name": options.metric,
        "params": dict(options.metric_params or {}),
        "lower_is_better": found.lower_is_better,
    }


def parse_of(form: str, reads: Sequence[Parse]) -> Parse:
    """The kind of a submission's cells."""
    if form in ("probability", "probabilities"):
        return "number"
    return "label" if "label" in reads else "number" if "number" in reads else reads[0]


def submission_of(
    options: ImportOptions, header: Sequence[str], rows: int, labels: Sequence[str] = ()
) -> tuple[SubmissionFormat, str]:
    """(the submission of the record, its form) for a sample submission with these columns.

    `labels` are the known values of the target. Rejected when no target column is left.
    """
    found = metrics.find(options.metric or "")
    key = options.id or header[0]
    form = form_of(found.name, found.parse, labels)
    targets = [name for name in header if name != key]
    if options.target and (form != "probabilities" or set(options.target) <= set(header)):
        targets = list(options.target)
    if not targets:
        raise Rejected("there is no target column: name it with --target")
    part: SubmissionFormat = {"id": [key], "target": targets, "parse": parse_of(form, found.parse), "rows": rows}
    if form in ("probability", "probabilities"):
        part["range"] = [0, 1]
    if part["parse"] == "label" and len(targets) == 1 and 1 < len(labels) <= MOST_LABELS:
        part["labels"] = list(labels)
    return part, form


def answers_part(submission: SubmissionFormat, metric: str) -> AnswersFormat:
    """answer_parse, where the metric reads answers of another kind than predictions."""
    kinds = metrics.find(metric).answer_parse
    return {} if submission["parse"] in kinds else {"answer_parse": kinds[0]}


def problem_of(metric: MetricSpec, submission: SubmissionFormat) -> str:
    """The record's word for the problem."""
    parse, name = submission["parse"], metric.get("name", "")
    if parse == "label" and "labels" in submission:
        return f"{'binary' if len(submission['labels']) == 2 else 'multiclass'}_classification"
    known = metrics.METRICS.get(name)
    if parse == "label" or (known and (known.ordered_classes or known.predicts)):
        return "classification"
    return str(PROBLEMS.get(parse, parse))


def answers_format(fields: Mapping[str, object]) -> AnswersFormat:
    """What a record, or the entry of a competition, says of grading beside submission, metric and files."""
    found = {name: fields[name] for name in fields if name.startswith("answer_") or name == "thresholds"}
    return cast(AnswersFormat, found)


def known_labels(cells: Sequence[str]) -> list[str]:
    """The labels of a target column, none where a cell is empty or there are too many to be labels."""
    labels = labels_of(cells)
    return labels if "" not in labels and len(labels) <= MOST_LABELS else []
