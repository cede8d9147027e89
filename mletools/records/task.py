"""A task: a folder of data, a question, a metric and thresholds."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from .common import Count, Id, JsonValue, Lineage, Name, NonNegative, Positive

Parse = Literal["number", "label", "text", "tokens", "tagset", "ranked", "order", "rle", "spans", "boxes"]
Extra = Literal["ignore", "refuse"]
MetricStyle = Literal["function", "class", "script"]


class TaskData(TypedDict):
    """The data folder of a task, its public files and the digests of both sides."""

    dir: Name
    """Relative to --data; holds public/ and private/."""

    public: list[str]
    """Files under dir/public, sorted: all that a sandbox ever sees; of more than 200, images/ stands for what is
    below it, *.png for that ending."""

    digest: str
    """sha256 over names and bytes of the public files and the answers."""

    private_digest: str
    """sha256 over names and bytes of the files that grading reads: answers, leaderboards, a metric that is code."""


class SubmissionColumns(TypedDict):
    """The columns of a submission."""

    id: Annotated[list[str], Meta(min_length=1)]
    """Ids compare as text, as numbers where all of the answers' are numbers."""

    target: Annotated[list[str], Meta(min_length=1)]
    parse: Parse
    """How a cell is read."""


class SubmissionCells(TypedDict):
    """What the cells of a submission may be beside their parse."""

    labels: NotRequired[list[Any]]
    """parse label, tokens, tagset, ranked: the alphabet; no other label or item may be predicted, but one of the
    answers'."""

    items: NotRequired[Literal["text", "whole"]]
    """tokens, tagset, ranked: whole: items are whole numbers, 07 is 7 (default: as written)."""

    range: NotRequired[Annotated[list[float | None], Meta(min_length=2, max_length=2)]]
    """parse number: inclusive; null: no bound on that side."""

    row_sum: NotRequired[float]
    """parse number: the targets of a row must sum to this, within row_sum_within."""

    row_sum_within: NotRequired[NonNegative]
    """Default 1e-3."""

    empty_ok: NotRequired[bool]
    """An empty cell is a prediction (default false)."""

    missing_as: NotRequired[str]
    """label, text, tokens, tagset, ranked: what a cell that pandas reads as missing (empty, NA, nan, null, None,
    ...) is read as, in predictions and answers."""

    separator: NotRequired[Name]
    """tokens, tagset, ranked, order: between items; white space parts at each place where it stands, so that two in
    a row enclose an empty item (default: any run of white space)."""

    fields: NotRequired[Annotated[list[str], Meta(min_length=1)]]
    """parse boxes: the items of one box, in order."""

    empty_marker: NotRequired[Name]
    """rle, boxes, spans: the cell that means nothing, besides an empty one where empty_ok."""

    several_rows: NotRequired[bool]
    """An id may have several rows, joined in file order (default false)."""

    most_rows: NotRequired[Positive]
    """several_rows: the most rows that an id may have."""

    repeated_ids: NotRequired[bool]
    """Ids repeat: the n-th row of an id answers the n-th row of that id, so their order matters (default false)."""

    extra_rows: NotRequired[Extra]
    """Rows whose id is not in the answers (default refuse)."""

    extra_columns: NotRequired[Extra]
    """Default ignore."""


class SubmissionFormat(SubmissionColumns, SubmissionCells):
    """The columns of a submission and how its cells are parsed."""

    rows: Positive
    """Ids in the answers."""


RowCondition = TypedDict(
    "RowCondition",
    {
        "column": NotRequired[str],
        "equals": NotRequired[Any],
        "not_equals": NotRequired[Any],
        "in": NotRequired[Annotated[list[Any], Meta(min_length=1)]],
        "greater": NotRequired[float],
        "last": NotRequired[Positive],
        "of": NotRequired[str],
    },
)
RowCondition.__doc__ = "A condition that selects the answer rows to score."


class GroupPattern(TypedDict):
    """A group name extracted from a column by a regular expression."""

    column: str
    pattern: str
    """Regular expression; its first group is the name."""


class WeightTable(TypedDict):
    """A weight for each value of a column."""

    column: str
    values: dict[str, float]


class MetricSource(TypedDict):
    """A metric by name and parameters, or as a file of code."""

    name: NotRequired[str]
    params: NotRequired[dict[str, JsonValue]]
    file: NotRequired[str]
    """A metric that is code, relative to data.dir, private; it runs in a sandbox of the grader's."""

    style: NotRequired[MetricStyle]
    """Of file: as in MLE-bench, MLE-Dojo, SandMLE (default function)."""

    files: NotRequired[list[str]]
    """What else of data.dir the file needs beside it."""


class MetricDirection(TypedDict):
    """Which scores are better."""

    lower_is_better: bool


class MetricRows(TypedDict):
    """Which rows of the answers count, how they are compared, and how the score is rounded."""

    columns: NotRequired[Literal["mean", "flat"]]
    """Several targets: the mean of their scores (default), or all cells as one column."""

    where: NotRequired[list[RowCondition]]
    """The rows of the answers that count: each condition leaves some of those before it."""

    group: NotRequired[str | GroupPattern]
    """A column of the answers."""

    weight: NotRequired[str | WeightTable]
    """A column of the answers."""

    score_round: NotRequired[Annotated[int, Meta(ge=0, le=17)]]
    """Decimals of a score, before it is compared (default 5)."""


class MetricSpec(MetricSource, MetricDirection, MetricRows):
    """A metric by name and parameters, or as a file of code."""


class Thresholds(TypedDict):
    """The scores that earn medals, and the median."""

    median: float
    bronze: float
    silver: float
    gold: float


class MedalStability(TypedDict):
    """Whether gold is further from bronze than the choice of the test rows moves a score."""

    gap: NonNegative
    standard_error: NonNegative
    rows_needed: Count


class Baseline(TypedDict):
    """The score of a reference model on the held-out answers."""

    name: str
    score: float


class TaskSource(TypedDict):
    """Which draw of which source a task is."""

    source: str
    seed: int


class ProvenanceParts(TypedDict):
    """How a task was made, and what was found out about it."""

    benchmark: NotRequired[str]
    """Of an imported task: mle-bench, mle-dojo or sandmle."""

    competition: NotRequired[str]
    graded_by: NotRequired[Literal["record", "code", "options", "author"]]
    """Of an imported task: where its grading comes from; author: from a record written by hand."""

    note: NotRequired[str]
    """How the benchmark's own grader differs."""

    package: NotRequired[str]
    """Of a real table: the Python package that ships it."""

    data_source: NotRequired[str]
    """Of a real table: who collected the data."""

    license: NotRequired[str]
    """Of a real table."""

    license_from: NotRequired[str]
    """Of a real table: where the license is stated."""

    split: NotRequired[str]
    """Of a real table: random, group and its column, or time and its columns."""

    answers_public: NotRequired[bool]
    """Whoever has the package can look the answers up."""

    domain: NotRequired[str]
    scenario: NotRequired[Any]
    """Of a made task: the story's key, or the story."""

    dna: NotRequired[dict[str, JsonValue]]
    """Of a made task: the choices that shaped it before a value was drawn."""

    mutations: NotRequired[list[Any]]
    """Of a made task: what was done to its data."""

    hidden_rule: NotRequired[str]
    """Of a made task: what the target follows; never shown to a solver."""

    irrelevant: NotRequired[list[str]]
    """Of a made task: factors that the rule does not look at."""

    read_as: NotRequired[list[str]]
    """Of an imported table: what was done to read it, in sentences."""

    sanity: NotRequired[dict[str, str | float]]
    """Each check by name: passed, or skipped and why; of an imported task what was tried."""

    medal_stability: NotRequired[MedalStability]
    """Whether gold is further from bronze than the choice of the test rows moves a score."""

    baselines: NotRequired[list[Baseline]]
    """Really trained and scored on the held-out answers; the first is the dummy, ceiling is one who knows the rule."""


class Provenance(TaskSource, ProvenanceParts):
    """Where a task comes from, and how it was made."""


class WrittenProvenance(ProvenanceParts, total=False):
    """The provenance in a record that a person wrote."""

    source: str
    seed: int


class TaskHead(TypedDict):
    """What a task is about, and where its data are."""

    kind: Literal["task"]
    version: Literal[1]
    id: Id
    lineage: Lineage
    name: Name
    description: str
    """Markdown; the same text as public/description.md."""

    modality: str
    problem: str
    """Binary_classification, multiclass_classification, multilabel_classification, regression, ranking, forecasting,
    segmentation, reconstruction, or in an imported task what its metric asks for."""

    data: TaskData


class Scoring(TypedDict):
    """What a score needs of a task whose answers look like predictions."""

    submission: SubmissionFormat
    metric: MetricSpec


class AnswersFile(TypedDict):
    """Where the answers are."""

    answers: str
    """Relative to data.dir; never inside public/."""


class AnswersFormat(TypedDict):
    """How the answers differ from predictions in form, and what scores are compared with."""

    answer_target: NotRequired[Annotated[list[str], Meta(min_length=1)]]
    """The answers' columns, in the order of submission.target (default: the same names)."""

    answer_parse: NotRequired[Parse]
    """How a cell is read."""

    answer_separator: NotRequired[Name]
    answer_fields: NotRequired[Annotated[list[str], Meta(min_length=1)]]
    """parse boxes: the items of one box, in order."""

    answer_empty_marker: NotRequired[Name]
    answer_several_rows: NotRequired[bool]
    """Several targets then are the parts of one box."""

    leaderboard: NotRequired[str]
    """Relative to data.dir: a CSV file with a column score, a row a team; of the private board where there are two."""

    public_leaderboard: NotRequired[str]
    thresholds: NotRequired[Thresholds]


class Grading(Scoring, AnswersFile, AnswersFormat):
    """The part of a task that says how it is graded."""


class Task(TaskHead, Grading):
    """A data folder, a question, a metric and thresholds."""

    provenance: Provenance


class WrittenSubmission(SubmissionCells, total=False):
    """The submission in a record that a person wrote; what is not there is made."""

    id: list[str]
    target: list[str]
    parse: Parse
    rows: int


class WrittenMetric(MetricSource, MetricRows, total=False):
    """The metric in a record that a person wrote."""

    lower_is_better: bool


class WrittenData(TypedDict, total=False):
    """The data in a record that a person wrote."""

    dir: str


class WrittenTask(AnswersFormat, total=False):
    """Fields of a task record, written by a person; all may be absent."""

    id: str
    lineage: Lineage
    name: str
    description: str
    modality: str
    problem: str
    data: WrittenData
    submission: WrittenSubmission
    metric: WrittenMetric
    answers: str
    provenance: WrittenProvenance
