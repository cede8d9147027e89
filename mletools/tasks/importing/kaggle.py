"""A plain folder as Kaggle hands it out: train.csv, test.csv, sample_submission.csv, and whatever else.

Where the answers to test.csv are known (--answers, or a CSV below private/), the files stay as they are. Otherwise some
rows of train.csv are held out: they become the new test.csv, with the columns of the old one, which is dropped; so is
whatever else could hold those rows with their answers.
"""

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...grading import metrics
from ...records.sample import SAMPLES
from ...records.task import Scoring, SubmissionFormat
from ..draft import TaskDraft, held_out, make_ids, with_decimals
from ..folder import ANSWERS, Content
from ..record import Origin, Parts
from ..soundness import require
from ..table import MISSING, Rejected
from ..tree import files_below
from .columns import Columns, read_columns, written
from .declare import GradingRules, answers_part, known_labels, metric_part, problem_of, submission_of
from .lookup import distinct_rows, text_of
from .modality import modality_of
from .options import Candidate, ImportOptions
from .sheet import Nameless, read_header, read_sheet
from .split import complete_rows, constant_file, draft_of, equal_rows, strata_of
from .targets import one_spelling, require_numbers, require_two
from .telling import may_tell

DESCRIPTIONS = ("description.md", "description.txt")
USAGE = "Usage"  # the column of Kaggle's solution files: Public, Private or Ignored


def kaggle(candidate: Candidate, options: ImportOptions, rng: Any) -> tuple[Parts, TaskDraft | str]:
    """(the parts of the task, a draft for baselines or why there is none). Rejected with the reason."""
    if options.metric is None:
        raise Rejected("a plain folder does not say how it is graded: give --metric and --target")
    public = files_below(candidate.path, candidate.path)
    if "train.csv" not in public:
        raise Rejected("train.csv is packed: unzip it" if "train.csv.zip" in public else "there is no train.csv")
    known = _known_answers(options, public)
    public = {name: path for name, path in public.items() if not name.startswith("private/") and path != known}
    found = next((public[name] for name in DESCRIPTIONS if name in public), None)
    description = Path(options.description) if options.description else found
    rest = {name: path for name, path in public.items() if name not in DESCRIPTIONS}
    origin: Origin = {"source": candidate.source, "seed": options.seed, "graded_by": "options"}
    draft: TaskDraft | str
    answers: Content
    content: dict[str, Content]
    if known is None:
        split = _split(options, public, rng)
        given, draft, answers = split.given, split.draft, split.answers
        targets = options.target or given["submission"]["target"]
        telling = may_tell(rest, ("train.csv", "test.csv", *SAMPLES), targets, split.train, options.dialect)
        content = {name: path for name, path in rest.items() if name not in telling}
        content.update(split.files)
        origin["held_out"], origin["of_rows"] = split.held_out, split.of_rows
        if split.positive:
            origin["positive"] = split.positive
        origin["read_as"] = split.told
        origin["left_out"] = telling
    else:
        given, origin["read_as"] = _given(options, public, known)
        draft, content, answers = "", dict(rest), known
        origin["answers_from"] = known.name
    if not origin["read_as"]:
        del origin["read_as"]
    text = text_of(description) if description else ""
    parts = Parts(
        name=candidate.task_name,
        description=text or page(candidate.task_name, given, content, origin.get("positive", "")),
        modality=modality_of(content, given),
        problem=problem_of(given["metric"], given["submission"]),
        public=content,
        private={ANSWERS: answers},
        grading={**given, "answers": ANSWERS},
        provenance=origin,
    )
    sanity = require(parts.case(lambda _: 0.0), ("answers_secret",))
    return replace(parts, provenance={**origin, "sanity": {**sanity}}), draft


def _known_answers(options: ImportOptions, public: dict[str, Path]) -> Path | None:
    """The file of the answers to test.csv, if there is one."""
    if options.answers is not None:
        answers = Path(options.answers)
        if not answers.is_file():
            raise Rejected(f"{answers}: no such file")
        if answers.resolve() in {path.resolve() for name, path in public.items() if name in ("train.csv", "test.csv")}:
            raise Rejected(f"{answers} is what agents get: name a file of the answers alone with --answers")
        return answers.resolve()
    found = [path for name, path in public.items() if name.startswith("private/") and name.lower().endswith(".csv")]
    if len(found) > 1:
        raise Rejected("which file below private/ holds the answers? name it with --answers")
    return found[0] if found else None


def _names(path: Path, options: ImportOptions) -> list[str]:
    """The columns of a table beside train.csv, whose separator may be another than the one that is told."""
    header = read_header(path, options.dialect)
    return header if len(header) > 1 else read_header(path, replace(options.dialect, separator=None))


def _header(options: ImportOptions, public: dict[str, Path]) -> list[str]:
    """The columns of the sample submission, or in its absence of one that --id and --target describe."""
    sample = next((name for name in SAMPLES if name in public), None)
    if sample is not None:
        return _names(public[sample], options)
    if not options.target:
        raise Rejected("there is no sample_submission.csv: name the target with --target")
    return [options.id or "id", *options.target]


def _given(options: ImportOptions, public: dict[str, Path], known: Path) -> tuple[GradingRules, list[str]]:
    """(the grading part of a folder whose answers are known, what to tell)."""
    header = _header(options, public)
    key = options.id or header[0]
    rows = distinct_rows(known, [key])
    metric = metric_part(options)
    target = next((name for name in (*options.target, *header[1:])), "")
    try:
        train = read_sheet(public["train.csv"], options.dialect).columns
    except Nameless:  # whole numbers may be its names: they are of no account here but for the labels
        train = read_columns(public["train.csv"])
    truth = read_columns(known)
    ignored = _ignored(truth)
    told = [f"{known.name}: {len(ignored)} rows whose {USAGE} is Ignored are not scored"] if ignored else []
    scored = [cell for at, cell in enumerate(truth.get(target, [])) if at not in ignored]
    missing = MISSING - {*options.keep_label, *scored}
    cells = [*(cell for cell in train.get(target, []) if cell not in missing), *scored]
    submission, _ = submission_of(options, header, rows, known_labels(cells) if cells else [])
    if ignored:
        metric["where"] = [{"column": USAGE, "in": ["Public", "Private"]}]
    given: GradingRules = {"submission": submission, "metric": metric, **answers_part(submission, metric["name"])}
    sample = next((public[name] for name in SAMPLES if name in public), None)
    if sample is not None:
        given["metric"] = with_decimals(given, written(truth, list(truth)), sample.read_bytes())
    return given, told


def _ignored(truth: Columns) -> frozenset[int]:
    """The rows of a solution file of Kaggle's that do not count."""
    usage = truth.get(USAGE, [])
    if not set(usage) <= {"Public", "Private", "Ignored"}:
        return frozenset()
    return frozenset(at for at, cell in enumerate(usage) if cell == "Ignored")


@dataclass(frozen=True)
class _Question:
    """What is asked of a folder without answers.

    `targets` are columns of train.csv, `cells` what the answers say of all its rows; `labels` are classes in the order
    of the submission's columns, `positive` the one whose probability is asked for where the cells are not 0 and 1.
    """

    train: Columns
    rows: list[int]
    targets: list[str]
    cells: Columns
    labels: list[str]
    positive: str | None
    form: str
    submission: SubmissionFormat
    told: list[str]


def _question(options: ImportOptions, public: dict[str, Path], missing: AbstractSet[str]) -> _Question:
    sheet, header = read_sheet(public["train.csv"], options.dialect), _header(options, public)
    train, told = sheet.columns, list(sheet.notes)
    key = options.id or header[0]
    targets = [*options.target] or [name for name in header if name != key]
    absent = [name for name in targets if name not in train]
    if absent:
        raise Rejected(f"train.csv has no column {absent[0]!r}: name the target with --target")
    if key in targets:
        raise Rejected(f"column {key!r} is both the id and a target: name them with --id and --target")
    if key in train and len(set(train[key])) < len(train[key]):
        raise Rejected(f"the ids in column {key!r} of train.csv are not unique")
    rows = complete_rows(train, targets, missing)
    if len(rows) < len(sheet.lines):
        told.append(
            f"{len(sheet.lines) - len(rows)} of {len(sheet.lines)} rows of train.csv have no target: none is held out"
        )
    for name in targets:
        spelled, note = one_spelling(name, [train[name][at] for at in rows])
        told += note
        for at, cell in zip(rows, spelled, strict=True):
            train[name][at] = cell
    for name in targets if rows and len(targets) == 1 else ():
        require_two(name, [train[name][at] for at in rows])
    labels = known_labels([train[targets[0]][at] for at in rows]) if len(targets) == 1 else []
    submission, form = submission_of(options, header, 1, labels)
    if form == "probabilities" and len(submission["target"]) == 1:
        form = "probability"
    if form == "probabilities" and len(targets) == 1:
        labels = _class_columns(labels, submission["target"], targets[0])
    if len(kept := [label for label in labels if label in options.keep_label]) == 1 and form == "label":
        submission["missing_as"] = kept[0]
    cells, positive = _as_numbers(form, {name: train[name] for name in targets}, rows, labels, sheet.lines)
    return _Question(train, rows, targets, cells, labels, positive, form, submission, told)


@dataclass(frozen=True)
class _Split:
    """A folder with rows held out: its old train.csv, its new public files, the answers, how many rows of how many."""

    train: Columns
    files: dict[str, bytes]
    given: GradingRules
    answers: bytes
    draft: TaskDraft | str  # or why there is none
    held_out: int
    of_rows: int
    positive: str | None
    told: list[str]


def _split(options: ImportOptions, public: dict[str, Path], rng: Any) -> _Split:
    missing = MISSING - set(options.keep_label)
    asks = _question(options, public, missing)
    train, targets, submission = asks.train, asks.targets, asks.submission
    (key,) = submission["id"]
    if key not in train:
        train = {key: make_ids(len(train[targets[0]]), rng), **train}
    total = len(train[key])
    columns = _names(public["test.csv"], options) if "test.csv" in public else list(train)
    features = [name for name in columns if name in train and name not in (key, *targets)]
    shown = [key, *features]
    same = list(zip(*(train[name] for name in features), strict=True)) if features else range(total)
    groups, note = equal_rows(same, (train[name] for name in targets), asks.rows)
    test = held_out(asks.rows, options.test_share, rng, strata_of(train, targets, asks.rows, asks.form), groups)
    if not test:
        raise Rejected(f"train.csv has {len(asks.rows)} rows with a target: too few to hold some out")
    out = set(test)
    kept = [at for at in range(total) if at not in out]
    new_train = {name: [column[at] for at in kept] for name, column in train.items()}
    new_test = {name: [train[name][at] for at in test] for name in shown}
    truth = {name: [column[at] for at in test] for name, column in asks.cells.items()}
    if len(targets) == 1 and asks.form == "probabilities":  # several targets are a column a class already
        cells = truth[targets[0]]
        truth = {
            name: ["1" if cell == label else "0" for cell in cells]
            for name, label in zip(submission["target"], asks.labels, strict=True)
        }
    answers = written({key: new_test[key], **truth}, [key, *submission["target"]])
    sample = next((name for name in SAMPLES if name in public), SAMPLES[0])
    whole = set(asks.rows) - out
    present = {name: [column[at] for at in kept if at in whole] for name, column in asks.cells.items()}
    files = {
        "train.csv": written(new_train, list(train)),
        "test.csv": written(new_test, shown),
        sample: constant_file(
            options.metric or "",
            asks.form,
            asks.labels or asks.targets,
            present,
            new_test[key],
            [key, *submission["target"]],
        ),
    }
    metric = metric_part(options)
    given: GradingRules = {
        "submission": {**submission, "rows": len(test)},
        "metric": metric,
        **answers_part(submission, metric["name"]),
    }
    given["metric"] = with_decimals(given, answers, files[sample])
    try:
        draft: TaskDraft | str = draft_of(new_train, new_test, targets, asks.form, given, answers, missing)
    except Rejected as rejected:
        draft = rejected.reason
    return _Split(asks.train, files, given, answers, draft, len(test), total, asks.positive, asks.told + note)


def _class_columns(labels: list[str], columns: list[str], target: str) -> list[str]:
    """The label of each class column. Rejected when they are others than those of train.csv."""
    if set(labels) != set(columns):
        raise Rejected(f"sample_submission.csv must have a column for each value of {target!r} in train.csv")
    return columns


def _as_numbers(
    form: str, cells: Columns, rows: list[int], labels: list[str], lines: Sequence[int]
) -> tuple[Columns, str | None]:
    """(the answers' cells, the label that a probability is of): 0 and 1 where a probability of two labels is asked.

    Rejected when a metric of numbers meets something else.
    """
    if form == "probability" and len(cells) == 1 and len(labels) == 2 and labels != ["0", "1"]:
        ((name, column),) = cells.items()
        return {name: ["1" if cell == labels[1] else "0" for cell in column]}, labels[1]
    if form in ("probability", "number"):
        for name, column in cells.items():
            require_numbers("the metric reads numbers", name, [column[at] for at in rows], [lines[at] for at in rows])
    return cells, None


def page(name: str, given: Scoring, public: Collection[str], positive: str = "") -> str:
    """A description for a folder that has none. `positive`: of two labels the one whose probability is asked for."""
    metric, submission = given["metric"], given["submission"]
    told = f"{metric['name']}: {metrics.find(metric['name']).definition} " if "name" in metric else ""
    columns = ", ".join(f"`{each}`" for each in (*submission["id"], *submission["target"]))
    sample = next((each for each in SAMPLES if each in public), SAMPLES[0])
    rows = f"`{'test.csv' if 'test.csv' in public else sample}`"
    learn = "Learn from `train.csv`, predict" if "train.csv" in public else "Predict"
    of_class = f" `{submission['target'][0]}` is the probability of class 1, which is `{positive}`." if positive else ""
    return (
        f"# {name}\n\n{learn} the rows of {rows}.\n\n"
        f"## Metric\n\n{told}{'Lower' if metric['lower_is_better'] else 'Higher'} is better.\n\n"
        f"## Submission\n\nOne row for each row of {rows}, in any order, with the columns {columns}; "
        f"`{sample}` shows the format.{of_class}\n"
    )
