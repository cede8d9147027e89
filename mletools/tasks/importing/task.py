"""From a folder of somebody else's to a task: parts, thresholds, a sanity check, the folder, the record.

A folder that is in its final form is sealed: checked, and its record completed. Nothing of the source is changed. Not
covered: which folders there are (layouts), and what goes for each kind of them (prepared, bundle, kaggle, own_table,
own_record).
"""

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from ...base.errors import RecordError, ToolError
from ...base.ids import derive_seed
from ...grading import check_task, metrics, rounded, score_bytes
from ...grading.private_data import task_folder
from ...records.sample import SAMPLES, TIMES_SAMPLE
from ...records.task import Grading, Task, WrittenData
from ..code_metrics import CodeMetrics
from ..draft import TaskDraft
from ..folder import same, size
from ..known_good import perfect_submission
from ..record import Origin, Parts, finish, rate, record_of
from ..soundness import require
from ..table import Rejected, generator
from ..validation import validation_problem
from .bundle import bundle
from .kaggle import kaggle
from .options import AUTHOR, Candidate, ImportOptions
from .own_record import corrected, folder_parts, own_record, written_task
from .own_table import own_table
from .prepared import prepared
from .split import draft_of_parts

# Larger answers are not scored against themselves: without a sample submission, grading reads at most 32 MB.
MOST_SANITY_BYTES = 20 << 20
MOST_OFF_PERFECT = 1e-4
# By default programs write files of 64 MB, and may need TIMES_SAMPLE times the sample's bytes.
MOST_SAMPLE_BYTES = (64 << 20) // TIMES_SAMPLE
# Baselines read tables: of these they learn nothing but from numbers in train.csv and test.csv.
MEDIA = {"image": "pictures", "audio": "sounds", "video": "videos"}
# The score of fewer rows is luck, and so would be a medal.
FEWEST_RATED = 10


def import_task(
    candidate: Candidate, options: ImportOptions, data: Path, code_metrics: CodeMetrics | None = None
) -> tuple[Task, list[str]]:
    """(the record of a candidate's task, with its folder written below `data`; what to tell about it).

    The record has an empty lineage. `code_metrics` try a metric that is code. Rejected where this candidate cannot be
    imported; ToolError where our own folder cannot be written.
    """
    options = options.with_record()
    drawn = derive_seed(options.seed, candidate.source)
    rng = generator(drawn)
    draft: TaskDraft | str | None = None
    if candidate.format == AUTHOR:
        parts = own_record(candidate, options)
    elif candidate.format == "kaggle":
        parts, draft = kaggle(candidate, options, rng)
    elif candidate.format == "table":
        parts, draft = own_table(candidate, options, rng)
    elif candidate.format == "sandmle":
        parts = bundle(candidate, options)
    else:
        parts = prepared(candidate, options)
    if options.record is not None and candidate.format != AUTHOR:
        root = candidate.path if candidate.path.is_dir() else candidate.path.parent
        parts = corrected(parts, options.record, root)
        if isinstance(draft, TaskDraft):
            draft = replace(draft, submission=parts.grading["submission"], metric=parts.grading["metric"])

    def written(parts: Parts) -> Task:
        return finish(parts, data, (candidate.source, options.seed), _check)

    task, notes = _finished(parts, draft, options, data, drawn, written)
    folder = task_folder(data, task)
    try:
        return task, notes + _metric_tried(task, folder, code_metrics)
    except Rejected:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def seal_task(
    fields: dict[str, object], options: ImportOptions, data: Path, code_metrics: CodeMetrics | None = None
) -> tuple[Task, list[str]]:
    """(the complete record of a task whose folder below `data` is in its final form, what to tell about it).

    `fields` are those that its author wrote; the folder does not change. `code_metrics` try a metric that is code.
    Rejected where the task is not sound.
    """
    try:
        told = written_task(fields)
        if "name" not in told:
            raise Rejected('there is no "name"')
        if "dir" not in told.get("data", WrittenData()):
            raise Rejected('there is no "data.dir"')
        folder = task_folder(data, cast(Task, {"metric": {}, **fields}))
    except RecordError as error:
        raise Rejected(str(error)) from None
    parts = folder_parts(told, folder)

    def written(parts: Parts) -> Task:
        identity = (parts.provenance["source"],)
        record = record_of(parts, identity, told.get("id", ""), told["data"]["dir"])
        return {**record, "lineage": told.get("lineage", [])}

    seed = derive_seed(options.seed, str(parts.provenance["source"]))
    task, notes = _finished(parts, None, options, data, seed, written)
    return task, notes + _metric_tried(task, folder, code_metrics)


def _metric_tried(task: Task, folder: Path, code_metrics: CodeMetrics | None) -> list[str]:
    """What to tell of a metric that is code. Rejected where it does not score what it ought to."""
    if "file" not in task["metric"] or code_metrics is None:
        return []
    try:
        code_metrics.try_out(task, folder)
    except RecordError as error:
        raise Rejected(str(error)) from None
    except ToolError as error:
        return [f"its metric was not tried: {error}"]
    return []


def _finished(
    parts: Parts,
    draft: TaskDraft | str | None,
    options: ImportOptions,
    data: Path,
    seed: int,
    written: Callable[[Parts], Task],
) -> tuple[Task, list[str]]:
    """(the record that `written` makes of the parts, what to tell about them) after all checks, with thresholds."""
    strict = parts.provenance["graded_by"] == "author"
    _check(parts.grading)
    _secret(parts)
    parts = _tried(parts, strict)
    if strict:
        checked = require(parts.case(lambda _: 0.0), ("answers_secret",))
        parts = replace(parts, provenance={**parts.provenance, "sanity": {**parts.provenance["sanity"], **checked}})
    parts, notes = _with_thresholds(parts, draft, options, seed)
    notes = [*parts.provenance.get("read_as", []), *notes]
    for name in parts.provenance.get("left_out", []):
        notes.append(f"left out, it could hold the answers: {name}")
    try:
        task = written(parts)
        problem = validation_problem(task, data)
    except OSError as error:
        raise Rejected(f"{error.filename}: {error.strerror}") from None
    notes += _sample_note(parts)
    if problem is not None:
        notes.append(f"no validation rows can be held out, so agents in turns will see no scores: {problem}")
    return task, notes


def _sample_note(parts: Parts) -> list[str]:
    """What to tell of a sample submission whose like may not fit into the files that programs may write by default."""
    bytes_of_sample = max((size(parts.public[name]) for name in SAMPLES if name in parts.public), default=0)
    if bytes_of_sample <= MOST_SAMPLE_BYTES:
        return []
    needed = -(-TIMES_SAMPLE * bytes_of_sample >> 20)
    return [
        f"its sample submission has {bytes_of_sample >> 20} MB, so programs may need --file-size {needed} --disk "
        f"{2 * needed} or more, and --memory-size to fit"
    ]


def _check(record: Grading) -> None:
    try:
        check_task(record)
    except RecordError as error:
        raise Rejected(str(error)) from None


def _secret(parts: Parts) -> None:
    """Rejected when a public file is a copy of the answers or of another private file."""
    public = parts.public.items()
    for private, content in parts.private.items():
        length = size(content)
        for name, path in public:
            if size(path) == length and length and same(path, content):
                raise Rejected(f"the public file {name} is a copy of {private}")


def _tried(parts: Parts, strict: bool) -> Parts:
    """`parts` with what came of grading its own answers and its sample submission, in provenance.sanity.

    Rejected when the answers cannot be graded or are not accepted as a submission, or when the sample submission is not.
    `strict`: also when the answers do not score as perfect, or do not reach gold.
    """
    given = parts.grading
    answers = parts.private[given["answers"]]
    if "file" in given["metric"]:
        found: dict[str, float | str] = {"perfect_submission": "not tried: the metric is code"}
    elif size(answers) > MOST_SANITY_BYTES:
        found = {"perfect_submission": f"not tried: the answers have {size(answers)} bytes"}
    else:
        try:
            found = _scores(parts, answers if isinstance(answers, bytes) else answers.read_bytes())
        except ToolError as error:
            raise Rejected(f"its answers cannot be graded: {error}") from None
        if strict:
            _require_sound(given, found)
    sanity = {**parts.provenance.get("sanity", {}), **found}
    return replace(parts, provenance={**parts.provenance, "sanity": sanity})


def _scores(parts: Parts, answers: bytes) -> dict[str, float | str]:
    given = parts.grading
    found: dict[str, float | str] = {"perfect_submission": "not tried: answers and predictions differ in form"}
    perfect = perfect_submission(given, parts.private[given["answers"]])
    if metrics.find(given["metric"]["name"]).best is None:  # it may have no value for a submission without an error
        found["perfect_submission"] = "not tried: what it would score depends on the answers"
    elif perfect is not None:
        try:
            found["perfect_submission"] = rounded(score_bytes(given, answers, perfect), given["metric"])
        except ValueError as error:
            raise Rejected(f"its own answers are not accepted as a submission: {error}") from None
    sample = next((parts.public[name] for name in SAMPLES if name in parts.public), None)
    if sample is not None and size(sample) <= MOST_SANITY_BYTES:
        content = sample if isinstance(sample, bytes) else sample.read_bytes()
        found["sample_submission"] = _score_of_sample(given, answers, content)
    return found


def _score_of_sample(given: Grading, answers: bytes, content: bytes) -> float:
    """The score of the sample submission. Rejected where it is invalid, or after pandas has read and written it."""
    import pandas as pd

    how = "the sample submission is invalid"
    try:
        score = rounded(score_bytes(given, answers, content), given["metric"])
        how += " once pandas has read and written it, as agents do"
        frame = pd.read_csv(io.BytesIO(content))
        score_bytes(given, answers, frame.to_csv(index=False).encode())
    except ValueError as error:
        raise Rejected(f"{how}: {error}") from None
    return score


def _require_sound(given: Grading, found: dict[str, float | str]) -> None:
    """Rejected unless the answers score as perfect and reach gold."""
    metric = metrics.find(given["metric"]["name"])
    score = found["perfect_submission"]
    if isinstance(score, float) and metric.best is not None and abs(score - metric.best) > MOST_OFF_PERFECT:
        raise Rejected(
            f"the answers as a submission score {score:g}, a perfect {metric.name} is {metric.best:g}: "
            "do submission, answer_parse and metric.params describe the answers?"
        )
    gold = given["thresholds"]["gold"] if "thresholds" in given else None
    if isinstance(score, float) and gold is not None and (gold < score if metric.lower_is_better else gold > score):
        raise Rejected(f"thresholds.gold is {gold:g}, out of reach: the answers themselves score {score:g}")


def _draft_for_baselines(parts: Parts, draft: TaskDraft | str | None, target: str | None) -> TaskDraft:
    """The draft, or one that is made of the parts. Rejected where there is nothing that baselines could learn from."""
    medium = MEDIA.get(parts.modality)
    try:
        draft = draft or draft_of_parts(parts, target)
    except Rejected:
        if medium is None:
            raise
    if medium and not (isinstance(draft, TaskDraft) and any(column.number for column in draft.features)):
        raise Rejected(f"no baselines for {medium}")
    if not isinstance(draft, TaskDraft):
        raise Rejected(str(draft))
    if not draft.features:
        raise Rejected("no baselines without a column in test.csv beside the id")
    return draft


def _with_thresholds(
    parts: Parts, draft: TaskDraft | str | None, options: ImportOptions, seed: int
) -> tuple[Parts, list[str]]:
    """(`parts` with thresholds from baselines where there are no others, what to tell)."""
    given = parts.grading
    if {"leaderboard", "public_leaderboard", "thresholds"} & set(given) or options.thresholds == "none":
        return parts, []
    lower = given["metric"]["lower_is_better"]
    try:
        draft = _draft_for_baselines(parts, draft, options.target[0] if options.target else None)
        if len(draft.test_ids) < FEWEST_RATED:
            raise Rejected(f"only {len(draft.test_ids)} rows are to be predicted")
        baselines, thresholds, trained_with = rate(draft, seed, lower)
        origin: Origin = {
            "source": parts.provenance["source"],
            "seed": parts.provenance["seed"],
            "baselines": baselines,
        }
        rated = replace(parts, grading={**given, "thresholds": thresholds}, provenance=origin)
        checks = require(
            rated.case(partial(score_bytes, draft.grading, draft.answers)),
            ("thresholds_ordered", "gold_reachable", "learnable"),
        )
    except (Rejected, ValueError) as error:
        reason = error.reason if isinstance(error, Rejected) else f"baselines failed: {str(error).splitlines()[0]}"
        return parts, [f"no thresholds: no medals ({reason})"]
    provenance = parts.provenance.copy()
    provenance["baselines"], provenance["trained_with"] = baselines, trained_with
    provenance["sanity"] = {**provenance["sanity"], **checks}
    told = ["thresholds come from baselines, no leaderboard was found"] if "benchmark" in provenance else []
    return replace(parts, grading={**given, "thresholds": thresholds}, provenance=provenance), told
