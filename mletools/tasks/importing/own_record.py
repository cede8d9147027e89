"""Tasks that a person describes: fields of the task record, written by hand, instead of what an import would guess.

A record that names its answers describes a folder alone (`own_record`); one without corrects the import of another format
(`corrected`); and a folder that is in its final form already needs its record completed (`folder_parts`).
Not covered: whether the answers are hidden and score as perfect (task).
"""

import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ...base.errors import RecordError, ToolError
from ...base.jsonl import Line, loads, open_input, read_lines
from ...base.streams import name_of
from ...records.places import GRADED_WITH
from ...records.schema import check_fields
from ...records.task import (
    AnswersFormat,
    Grading,
    MetricSpec,
    SubmissionFormat,
    WrittenMetric,
    WrittenSubmission,
    WrittenTask,
)
from ..folder import ANSWERS, BOARDS, Board, Content
from ..record import Origin, Parts
from ..table import Rejected
from ..tree import files_below
from .boards import board
from .code_metric import code_metric
from .columns import read_columns
from .declare import GradingRules, answers_format, answers_part, known_labels, metric_part, problem_of, submission_of
from .kaggle import DESCRIPTIONS, page
from .lookup import distinct_rows, first, inside, sample_file, sample_header, text_of
from .modality import modality_of
from .options import AUTHOR, Candidate, ImportOptions

IN_PART = ("data", "submission", "metric")  # objects of a record that may be written in part
MADE = ("kind", "version", "id", "lineage", "data")  # fields that an import makes
PUBLIC = ("public", "prepared/public", "data/public")  # where a folder may keep what agents see, private/ beside it


def written_task(fields: dict[str, object]) -> WrittenTask:
    """The fields of a task record, of which all may be absent. RecordError: they are others."""
    check_fields(fields, "task", IN_PART, ("provenance",))
    told = cast(WrittenTask, fields)
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name := told.get("name", "x")):
        raise RecordError(f"name: {name!r} may have letters, digits, '.', '_' and '-' alone")
    return told


def read_record(path: str) -> WrittenTask:
    """The fields of a task record in a JSON file. ValueError says where the file is wrong."""
    try:
        fields = loads(Path(path).read_bytes())
        if not isinstance(fields, dict):
            raise ValueError("not a JSON object")
        told = written_task(fields)
        for name in MADE:
            if name in fields:
                raise ValueError(f'"{name}" is made by the import: remove it')
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except (ValueError, RecordError) as error:
        raise ValueError(f"{path}: {error}") from None
    return told


# --- a folder of any layout -------------------------------------------------------------------------------------------


def own_record(candidate: Candidate, options: ImportOptions) -> Parts:
    """The parts of the task in a folder that the record describes, its answers among them. Rejected with the reason."""
    root, fields = candidate.path, (options.record or WrittenTask()).copy()
    place = next((root / name for name in PUBLIC if (root / name).is_dir()), root)
    answers = _file(root, "answers", fields["answers"])
    metric = fields.get("metric", WrittenMetric())
    code: dict[str, Content] = {}
    if "file" in metric:
        file = _file(root, "metric.file", metric["file"])
        found, code = code_metric(file, root, metric.get("style", "function"), _direction(metric))
        fields["metric"] = {**metric, **found}
    boards = {key: _file(root, key, fields[key]) for key in BOARDS if key in fields}
    hidden = {answers, *boards.values(), *code.values()}
    files = files_below(place, root, root / "private" if place == root else place.parent / "private")
    public = {name: path for name, path in files.items() if path not in hidden and not name.startswith("private/")}
    described = Path(options.description) if options.description else first([place], DESCRIPTIONS)
    public = {name: path for name, path in public.items() if name not in DESCRIPTIONS}
    given: Grading = {**graded(fields, public, answers), "answers": f"private/{answers.name}"}
    text = (text_of(described) if described else "") or page(candidate.task_name, given, public)
    private: dict[str, Content] = {given["answers"]: answers, **code}
    origin = _origin(fields.get("provenance", {}), {"source": candidate.source, "seed": options.seed})
    return _with_boards(_parts(candidate.task_name, text, public, private, given, fields, origin), boards)


# --- a folder in its final form ---------------------------------------------------------------------------------------


def folder_parts(fields: WrittenTask, folder: Path) -> Parts:
    """The parts of a task in a folder with public/ and private/, which stay where they are. Rejected with the reason."""
    if not (folder / "public").is_dir():
        raise Rejected(f"{folder / 'public'}: no such folder: it holds what agents see; data.dir is relative to --data")
    public = files_below(folder / "public", folder, folder / "private", in_place=True)
    text = _page_of(public.pop("description.md", None), folder, fields)
    fields = {"answers": ANSWERS, **fields}
    metric = fields.get("metric", WrittenMetric())
    code = [metric["file"], *metric.get("files", [])] if "file" in metric else []
    if code:
        _direction(metric)
    named = [
        *((key, fields[key]) for key in GRADED_WITH if key in fields),
        *(("metric", name) for name in code),
    ]
    private = {name: _file(folder, key, name) for key, name in named}
    for key, name in named:
        if private[name].is_relative_to((folder / "public").resolve()):
            raise Rejected(f"{key} is {name!r}, which agents see: move it to private/")
    given: Grading = {**graded(fields, public, private[fields["answers"]]), "answers": fields["answers"]}
    for key in BOARDS:
        if key in fields:
            board(private[fields[key]], given["metric"]["lower_is_better"])
            given[key] = fields[key]
    origin = _origin({"source": f"{AUTHOR}:{fields.get('name', '')}", "seed": 0}, fields.get("provenance", {}))
    return _parts("", text, public, private, given, fields, origin)


def _page_of(file: Path | None, folder: Path, fields: WrittenTask) -> str:
    """The text of public/description.md, byte by byte: agents read the file and the record."""
    path = folder / "public" / "description.md"
    if file is None:
        raise Rejected(f"{path}: no such file: describe there what is to be done")
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError:
        raise Rejected(f"{path}: not UTF-8") from None
    if not text.strip():
        raise Rejected(f"{path}: empty: describe there what is to be done")
    if fields.get("description", text) != text:
        raise Rejected(f'the record\'s "description" is not the text of {path}: leave it out of the record')
    return text


# --- corrections of another format ------------------------------------------------------------------------------------


def corrected(parts: Parts, fields: WrittenTask, root: Path) -> Parts:
    """The parts of a task of another format with what the record says instead. Rejected with the reason."""
    rows = parts.grading["submission"]["rows"]
    if fields.get("submission", WrittenSubmission()).get("rows", rows) != rows:
        raise Rejected(f"submission.rows is {fields['submission']['rows']}, and {rows} rows are to be predicted")
    given: Grading = {**parts.grading, **answers_format(fields)}
    given["submission"] = {**given["submission"], **fields.get("submission", WrittenSubmission())}
    given["metric"] = {**given["metric"], **fields.get("metric", WrittenMetric())}
    fields = {"modality": parts.modality, **fields}
    text = fields.get("description", parts.description)
    origin = _origin(fields.get("provenance", {}), parts.provenance)
    changed = _parts(parts.name, text, parts.public, parts.private, given, fields, origin)
    boards = {key: _file(root, key, fields[key]) for key in BOARDS if key in fields}
    return _with_boards(changed, boards)


# --- what these share -------------------------------------------------------------------------------------------------


def graded(fields: WrittenTask, public: Mapping[str, Path], answers: Path) -> GradingRules:
    """The grading part of a record but for the names of its files.

    What is not written follows from the metric and from the sample submission. Where `submission.parse` is written,
    nothing about cells is guessed. Rejected with the reason.
    """
    metric, written = fields.get("metric", WrittenMetric()), fields.get("submission", WrittenSubmission())
    if not {"name", "file"} & set(metric):
        raise Rejected('"metric" needs a "name" (mle-grade --list-metrics lists them), or a "file" of code')
    header = sample_header(dict(public), None)
    key = written.get("id", header[:1])
    target = written.get("target") or [name for name in header if name not in key]
    if not target:
        raise Rejected('the sample submission has no column beside the id: name one in "submission.target"')
    submission: WrittenSubmission = {"id": key, "target": target}
    known: AnswersFormat = {}
    if "file" in metric:
        submission["parse"] = "text"
        spec = cast(MetricSpec, metric.copy())
    else:
        params = metric.get("params")
        asked = ImportOptions(metric=metric["name"], metric_params=params, id=key[0], target=tuple(target))
        spec = {**metric_part(asked), **metric}
        if "parse" not in written:
            guess, _ = submission_of(asked, [*key, *target], 1, _labels(public, answers, target[0]))
            submission = {**guess, **submission}
    counted = answers if answers.suffix == ".csv" else sample_file(dict(public), None)
    rows = distinct_rows(counted, key)
    if written.get("rows", rows) != rows:
        raise Rejected(f"submission.rows is {written['rows']}, and {counted.name} has {rows} different ids")
    whole = cast(SubmissionFormat, {**submission, **written, "rows": rows})
    if "file" not in metric:
        known = answers_part(whole, metric["name"])
    return {"submission": whole, "metric": spec, **known, **answers_format(fields)}


def _labels(public: Mapping[str, Path], answers: Path, target: str) -> list[str]:
    """The known values of a target in the answers and in train.csv."""
    tables = [read_columns(path) for path in (answers, *(public[name] for name in ("train.csv",) if name in public))]
    cells = [cell for columns in tables for cell in columns.get(target, [])]
    return known_labels(cells) if cells else []


def _file(root: Path, key: str, name: str) -> Path:
    """A file that a record names, below the folder. Rejected where it is not there."""
    path = inside(root / name, root)
    if not path.is_file():
        raise Rejected(f"{key} is {name!r}, and {root} has no such file")
    return path


def _direction(metric: WrittenMetric) -> bool:
    if "lower_is_better" not in metric:
        raise Rejected(
            '"metric.lower_is_better" is missing: a metric that is code does not say which scores are better'
        )
    return bool(metric["lower_is_better"])


def _parts(
    name: str,
    text: str,
    public: Mapping[str, Content],
    private: Mapping[str, Content],
    given: Grading,
    fields: WrittenTask,
    origin: Origin,
) -> Parts:
    return Parts(
        name=fields.get("name", name),
        description=text,
        modality=fields.get("modality") or modality_of(public, given),
        problem=fields.get("problem") or problem_of(given["metric"], given["submission"]),
        public=public,
        private=private,
        grading=given,
        provenance=origin,
    )


def _origin(*parts: Mapping[str, object]) -> Origin:
    """The provenance with the fields of all parts, later ones over earlier ones."""
    fields = {name: value for part in parts for name, value in part.items()}
    return cast(Origin, {**fields, "graded_by": "author"})


def _with_boards(parts: Parts, boards: Mapping[Board, Path]) -> Parts:
    """The parts with leaderboards among the private files, as grading reads them."""
    lower = parts.grading["metric"]["lower_is_better"]
    private = {f"private/{key}.csv": board(path, lower) for key, path in boards.items()}
    given = parts.grading.copy()
    for key in boards:
        given[key] = f"private/{key}.csv"
    return replace(parts, private={**parts.private, **private}, grading=given)


def read_records(path: str) -> list[Line]:
    """The records that a person wrote: one JSON object over several lines, or a line for each. ToolError."""
    name = name_of(path, 0)
    with open_input(path) as file:
        content = file.read()
    try:
        whole: Any = loads(content)
        problem = ""
    except json.JSONDecodeError as error:
        whole, problem = None, f"{name}:{error.lineno}: not JSON: {error.msg}"
    except ValueError as error:
        whole, problem = None, f"{name}: {error}"
    if isinstance(whole, dict):
        return [Line(name, 1, "", whole)]
    lines = list(read_lines(io.BytesIO(content), name))
    if not lines:
        raise ToolError(f"{name}: no records")
    for at, line in enumerate(lines):
        if line.problem:
            raise ToolError((not at and problem) or f"{line.place}: {line.problem}")
    return lines
