"""From a folder of somebody else's to a task: parts, thresholds, a sanity check, the folder, the record.

Nothing of the source is changed. Not covered: which folders there are (layouts), and what goes for each kind of them
(prepared, bundle, kaggle, own_table).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...records import csv_files
from ...records.errors import RecordError, ToolError
from ...records.ids import derive_seed
from ..draft import TaskDraft
from ..folder import Content, same, size
from ..record import Parts, finish, rate
from ..soundness import require
from ..table import Rejected, generator
from ..validation import validation_problem
from .bundle import bundle
from .columns import read_columns, written
from .kaggle import kaggle
from .lookup import SAMPLES
from .options import Candidate, Grading, ImportOptions
from .own_table import own_table
from .prepared import prepared
from .split import draft_of_parts

# Larger answers are not scored against themselves: grading reads submissions of at most 32 MB.
MOST_SANITY_BYTES = 20 << 20
# The score of fewer rows is luck, and so would be a medal.
FEWEST_RATED = 10


def import_task(
    candidate: Candidate, options: ImportOptions, data: Path, grading: Grading
) -> tuple[dict[str, Any], list[str]]:
    """(the record of a candidate's task, with its folder written below `data`; what to tell about it).

    The record has an empty lineage. Rejected where this candidate cannot be imported; ToolError where our own folder
    cannot be written.
    """
    drawn = derive_seed(options.seed, candidate.source)
    rng = generator(drawn)
    draft: TaskDraft | str | None = None
    if candidate.format == "kaggle":
        parts, draft = kaggle(candidate, options, grading, rng)
    elif candidate.format == "table":
        parts, draft = own_table(candidate, options, grading, rng)
    elif candidate.format == "sandmle":
        parts = bundle(candidate, options, grading)
    else:
        parts = prepared(candidate, options, grading)

    def check(record: Mapping[str, Any]) -> None:
        try:
            grading.check_task(record)
        except RecordError as error:
            raise Rejected(str(error)) from None

    check(parts.grading)
    _secret(parts)
    parts = _tried(parts, grading)
    parts, notes = _with_thresholds(parts, draft, options, grading, drawn)
    for name in parts.provenance.get("left_out", []):
        notes.append(f"left out, it could hold the answers: {name}")
    try:
        task = finish(parts, data, (candidate.source, options.seed), check)
        problem = validation_problem(task, data)
    except OSError as error:
        raise Rejected(f"{error.filename}: {error.strerror}") from None
    if problem is not None:
        notes.append(f"no validation rows can be held out, so agents in turns will see no scores: {problem}")
    return task, notes


def _secret(parts: Parts) -> None:
    """Rejected when a public file is a copy of the answers or of another private file."""
    public = parts.public.items()
    for private, content in parts.private.items():
        length = size(content)
        for name, path in public:
            if size(path) == length and length and same(path, content):
                raise Rejected(f"the public file {name} is a copy of {private}")


def _tried(parts: Parts, grading: Grading) -> Parts:
    """`parts` with what came of grading its own answers and its sample submission, in provenance.sanity.

    Rejected when the answers cannot be graded, or are not accepted as a submission.
    """
    given = parts.grading
    answers = parts.private[given["answers"]]
    if "file" in given["metric"]:
        found = {"perfect_submission": "not tried: the metric is code"}
    elif size(answers) > MOST_SANITY_BYTES:
        found = {"perfect_submission": f"not tried: the answers have {size(answers)} bytes"}
    else:
        try:
            found = _scores(parts, grading, answers if isinstance(answers, bytes) else answers.read_bytes())
        except ToolError as error:
            raise Rejected(f"its answers cannot be graded: {error}") from None
    sanity = {**parts.provenance.get("sanity", {}), **found}
    return replace(parts, provenance={**parts.provenance, "sanity": sanity})


def _scores(parts: Parts, grading: Grading, answers: bytes) -> dict[str, Any]:
    given = parts.grading
    found: dict[str, Any] = {"perfect_submission": "not tried: answers and predictions differ in form"}
    perfect = _perfect(given, parts.private[given["answers"]])
    if grading.find(given["metric"]["name"]).best is None:  # it may have no value for a submission without an error
        found["perfect_submission"] = "not tried: what it would score depends on the answers"
    elif perfect is not None:
        try:
            found["perfect_submission"] = round(grading.score(given, answers, perfect), 5)
        except ValueError as error:
            raise Rejected(f"its own answers are not accepted as a submission: {error}") from None
    sample = next((parts.public[name] for name in SAMPLES if name in parts.public), None)
    if sample is not None and size(sample) <= MOST_SANITY_BYTES:
        content = sample if isinstance(sample, bytes) else sample.read_bytes()
        try:
            found["sample_submission"] = round(grading.score(given, answers, content), 5)
        except ValueError as error:
            found["sample_submission"] = f"invalid: {error}"
    return found


def _perfect(given: Mapping[str, Any], answers: Content) -> bytes | None:
    """The submission that hands in the answers as the grader compares them, None where the two look different."""
    submission = given["submission"]
    theirs = given.get("answer_target", submission["target"])
    differ = [key for key in given if key.startswith("answer_") and key != "answer_target"]
    if differ or submission.get("several_rows") or len(theirs) != len(submission["target"]):
        return None
    columns = read_columns(answers) if isinstance(answers, Path) else csv_files.read_columns(answers)
    for name in (*submission["id"], *theirs):
        if name not in columns:
            raise Rejected(f"the answers have no column {name!r}; they have {', '.join(map(repr, list(columns)[:10]))}")
    cells = {name: columns[name] for name in submission["id"]}
    for name, source in zip(submission["target"], theirs, strict=True):
        # rows that do not count may have no answer; a submission needs some prediction
        filler = "" if submission.get("empty_ok") else next((cell for cell in columns[source] if cell), "")
        cells[name] = [cell or filler for cell in columns[source]]
    if "row_sum" in submission:
        _as_shares(cells, submission["target"], submission["row_sum"])
    return written(cells, list(cells))


def _as_shares(cells: dict[str, list[str]], names: Sequence[str], total: float) -> None:
    """The targets of each row made to sum to `total`, in place: answers may be votes where shares of them are predicted."""
    for at, row in enumerate(zip(*(cells[name] for name in names), strict=True)):
        try:
            values = [float(cell) for cell in row]
            shares = [total * value / sum(values) for value in values]
        except (ValueError, ZeroDivisionError):
            continue  # grading says what is wrong with it
        for name, share in zip(names, shares, strict=True):
            cells[name][at] = repr(share)


def _with_thresholds(
    parts: Parts, draft: TaskDraft | str | None, options: ImportOptions, grading: Grading, seed: int
) -> tuple[Parts, list[str]]:
    """(`parts` with thresholds from baselines where there are no others, what to tell)."""
    given = parts.grading
    if {"leaderboard", "public_leaderboard", "thresholds"} & set(given) or options.thresholds == "none":
        return parts, []
    lower = given["metric"]["lower_is_better"]
    try:
        if not draft:
            draft = draft_of_parts(parts, options.target[0] if options.target else None)
        if isinstance(draft, str):
            raise Rejected(draft)
        if len(draft.test_ids) < FEWEST_RATED:
            raise Rejected(f"only {len(draft.test_ids)} rows are to be predicted")
        baselines, thresholds, trained_with = rate(draft, grading.score, seed, lower)
        rated = replace(parts, grading={**given, "thresholds": thresholds}, provenance={"baselines": baselines})
        checks = require(
            rated.case(partial(grading.score, draft.grading, draft.answers)),
            ("thresholds_ordered", "gold_reachable", "learnable"),
        )
    except (Rejected, ValueError) as error:
        reason = error.reason if isinstance(error, Rejected) else f"baselines failed: {str(error).splitlines()[0]}"
        return parts, [f"no thresholds: no medals ({reason})"]
    provenance = dict(parts.provenance)
    provenance["baselines"], provenance["trained_with"] = baselines, trained_with
    provenance["sanity"] = {**provenance["sanity"], **checks}
    told = ["thresholds come from baselines, no leaderboard was found"] if "benchmark" in provenance else []
    return replace(parts, grading={**given, "thresholds": thresholds}, provenance=provenance), told
