"""A competition that MLE-bench or MLE-Dojo prepared: its folders, its leaderboards, and how it is graded.

How it is graded comes from competitions.jsonl, from --metric, or is the benchmark's own program. Where description,
leaderboard and grader lie in the benchmark's code, --repo names its checkout.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from ...records.task import Grading, MetricSpec, MetricStyle, SubmissionFormat, WrittenSubmission
from ..folder import BOARDS, Content
from ..record import Origin, Parts
from ..table import Rejected
from ..tree import files_below
from .boards import board, direction_of
from .code_metric import code_metric
from .columns import read_columns
from .competitions import Competition, competition
from .declare import answers_format, answers_part, known_labels, metric_part, problem_of, submission_of
from .layouts import PREPARED
from .lookup import distinct_rows, first, inside, sample_file, sample_header, text_of
from .modality import modality_of
from .options import Candidate, ImportOptions


@dataclass(frozen=True)
class Habits:
    """Where one benchmark keeps what: folders of its code, and names below a competition's part of them."""

    code: tuple[str, ...]
    description: tuple[str, ...]
    leaderboard: tuple[str, ...]
    public_leaderboard: tuple[str, ...]
    grader: tuple[str, ...]
    style: MetricStyle


HABITS = {
    "mle-bench": Habits(
        ("mlebench/competitions", "competitions", "."),
        ("description.md",),
        ("leaderboard.csv",),
        (),
        ("grade.py",),
        "function",
    ),
    "mle-dojo": Habits(
        ("mledojo/competitions", "competitions", "."),
        ("info/description.txt", "info/description.md", "description.txt", "description.md"),
        ("info/private_leaderboard.csv", "private_leaderboard.csv"),
        ("info/public_leaderboard.csv", "public_leaderboard.csv"),
        ("utils/metric.py", "metric.py"),
        "class",
    ),
}

TOLD: tuple[Literal["split", "note"], ...] = ("split", "note")  # of an entry, in the provenance


def places_of(candidate: Candidate, options: ImportOptions) -> list[Path]:
    """The folders in which a competition's description, leaderboard and grader are looked for."""
    if options.repo is None:
        return [candidate.path]
    repo = Path(options.repo).resolve()
    code = [repo / below / candidate.name for below in HABITS[candidate.format].code]
    return [candidate.path, *(folder for folder in code if folder.is_dir())]


def prepared(candidate: Candidate, options: ImportOptions) -> Parts:
    """The parts of a prepared competition's task, without thresholds of baselines. Rejected with the reason."""
    public_folder, private_folder = (candidate.path / part for part in PREPARED[candidate.format])
    public = files_below(public_folder, candidate.path, private_folder)
    habits, places = HABITS[candidate.format], places_of(candidate, options)
    entry = competition(candidate.format, candidate.name)
    how: Literal["options", "record", "code"]
    if options.metric:
        given, how = _asked_for(candidate, options, public, private_folder), "options"
        private: dict[str, Content] = {}
    elif entry and entry["support"] == "record":
        given, how = _as_told(entry, public, private_folder), "record"
        private = {}
    else:
        given, how, private = _as_code(candidate, options, entry, public, private_folder, places)
    answers = inside(private_folder / given["answers"], private_folder)
    if not answers.is_file():
        raise Rejected(f"{given['answers']} is missing in {PREPARED[candidate.format][1]}")
    if answers.suffix != ".csv" and ("file" not in given["metric"] or answers.suffix != ".jsonl"):
        raise Rejected(f"unsupported: its answers are no CSV file ({given['answers']})")
    rows_of = (
        answers if answers.suffix == ".csv" else sample_file(public, entry.get("sample_submission") if entry else None)
    )
    given["submission"]["rows"] = distinct_rows(rows_of, given["submission"]["id"])
    given["answers"] = f"private/{answers.name}"
    private[given["answers"]] = answers
    lower = given["metric"]["lower_is_better"]
    for key, names in zip(BOARDS, (habits.leaderboard, habits.public_leaderboard), strict=True):
        file = first([private_folder, *places], names) if names else None
        if file is not None:
            given[key] = f"private/{key}.csv"
            private[f"private/{key}.csv"] = board(file, lower)
    description = _description(options, habits, places, public_folder, public)
    origin: Origin = {
        "source": candidate.source,
        "seed": options.seed,
        "benchmark": candidate.format,
        "competition": candidate.name,
        "graded_by": how,
    }
    if entry and how != "options":
        for told in TOLD:
            if text := entry.get(told):
                origin[told] = text
    return Parts(
        name=candidate.task_name,
        description=description,
        modality=modality_of(public, given),
        problem=problem_of(given["metric"], given["submission"]),
        public={name: path for name, path in public.items() if name not in ("description.txt", "description.md")},
        private=private,
        grading=given,
        provenance=origin,
    )


def _as_told(entry: Competition, public: dict[str, Path], private_folder: Path) -> Grading:
    """The grading part out of a line of competitions.jsonl; ids and targets from the sample submission where absent."""
    submission = entry["submission"].copy()
    if "id" not in submission or "target" not in submission:
        header = _header(entry, public, private_folder)
        submission.setdefault("id", header[:1])
        submission.setdefault("target", [name for name in header if name not in submission["id"]])
    metric: MetricSpec = {"params": {}, **entry["metric"]} if "name" in entry["metric"] else entry["metric"].copy()
    return {
        "submission": _counted(submission),
        "metric": metric,
        "answers": entry["answers"],
        **answers_format(entry),
    }


def _counted(submission: WrittenSubmission) -> SubmissionFormat:
    """The submission with a place for its number of rows, which `prepared` counts."""
    return cast(SubmissionFormat, {**submission, "rows": 1})


def _header(entry: Competition | None, public: dict[str, Path], private_folder: Path) -> list[str]:
    """The columns of the sample submission, which a few competitions keep among the private files."""
    name = entry.get("sample_submission") if entry else None
    if name and name.startswith("../private/"):
        path = private_folder / Path(name).name
        return sample_header({name: inside(path, private_folder)} if path.is_file() else {}, name)
    return sample_header(public, name)


def _as_code(
    candidate: Candidate,
    options: ImportOptions,
    entry: Competition | None,
    public: dict[str, Path],
    private_folder: Path,
    places: list[Path],
) -> tuple[Grading, Literal["code"], dict[str, Content]]:
    """(grading part, "code", private files) of a competition that its benchmark's own program grades."""
    if entry and entry["support"] == "no":
        raise Rejected(f"unsupported: {entry['note']}")
    habits = HABITS[candidate.format]
    root = next((place for place in places if first([place], habits.grader)), None)
    if root is None:
        if entry:
            raise Rejected(f"unsupported: {entry['note'].rstrip('.')} (its grader is code: give --repo)")
        raise Rejected(
            f"unsupported: {candidate.format} has no competition of that name that is known here; say how it is graded "
            "with --metric and --target, or give --repo with its grader"
        )
    grader = first([root], habits.grader)
    assert grader is not None
    metric, private = code_metric(grader, root.parent, habits.style, _direction(candidate, options, entry, places))
    header = _header(entry, public, private_folder)
    submission: WrittenSubmission = {"id": header[:1], "target": header[1:], "parse": "text"}
    if entry:
        submission = {**submission, **entry["submission"]}
    answers = entry["answers"] if entry else _answers_name(candidate, private_folder)
    return {"submission": _counted(submission), "metric": metric, "answers": answers}, "code", private


def _direction(candidate: Candidate, options: ImportOptions, entry: Competition | None, places: list[Path]) -> bool:
    if options.lower_is_better is not None:
        return options.lower_is_better
    if entry:
        return entry["metric"]["lower_is_better"]
    file = first([candidate.path / PREPARED[candidate.format][1], *places], HABITS[candidate.format].leaderboard)
    lower = direction_of(file) if file else None
    if lower is None:
        raise Rejected("which scores are better is not known: say --lower-is-better or --higher-is-better")
    return lower


def _asked_for(candidate: Candidate, options: ImportOptions, public: dict[str, Path], private_folder: Path) -> Grading:
    """The grading part out of --metric, --target and --id."""
    header = sample_header(public, None)
    answers = _answers_name(candidate, private_folder)
    cells = read_columns(inside(private_folder / answers, private_folder))
    target = options.target[0] if options.target else header[-1]
    labels = known_labels(cells[target]) if target in cells else []
    submission, _ = submission_of(options, header, 1, labels)
    metric = metric_part(options)
    return {
        "submission": submission,
        "metric": metric,
        "answers": answers,
        **answers_part(submission, metric["name"]),
    }


def _answers_name(candidate: Candidate, private_folder: Path) -> str:
    """The answers' file: the one that config.yaml names, or the only CSV that is no leaderboard."""
    config = candidate.path / "config.yaml"
    if config.is_file():
        found = re.search(r"^\s+answers:\s*\S*/([^/\s]+)\s*$", text_of(inside(config, candidate.path)), re.MULTILINE)
        if found:
            return found[1]
    boards = {"leaderboard.csv", "private_leaderboard.csv", "public_leaderboard.csv"}
    found_files = sorted(path.name for path in private_folder.glob("*.csv") if path.name not in boards)
    if len(found_files) != 1:
        raise Rejected(f"which file holds the answers? {private_folder.name} has {', '.join(found_files) or 'no CSV'}")
    return found_files[0]


def _description(
    options: ImportOptions, habits: Habits, places: list[Path], public_folder: Path, public: dict[str, Path]
) -> str:
    """The description's text. Rejected where there is none: nobody could tell what to do."""
    if options.description:
        return text_of(Path(options.description))
    own = next((public[name] for name in ("description.md", "description.txt") if name in public), None)
    file = own or first(places, habits.description)
    text = text_of(file) if file else ""
    if not text:
        raise Rejected("there is no description (give --repo, the benchmark's checkout, or --description FILE)")
    return text
