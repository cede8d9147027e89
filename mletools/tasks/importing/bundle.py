"""A SandMLE bundle: answers and evaluator lie among the public files, and are moved out of them.

The evaluator is a program that a language model wrote: it is only copied here, and graders run it in a sandbox. With
--metric it is left out and a metric of this package grades.
"""

import json
import math
from pathlib import Path
from typing import cast

from ...records.task import Grading, Thresholds
from ..folder import Content
from ..record import Parts
from ..table import Rejected
from ..thresholds import NAMES
from ..tree import files_below
from .columns import read_columns
from .declare import answers_part, known_labels, metric_part, problem_of, submission_of
from .lookup import distinct_rows, sample_header, text_of
from .modality import modality_of
from .options import Candidate, ImportOptions

ANSWERS, EVALUATOR = "answer.csv", "evaluator.py"
THRESHOLDS = ("threshold.json", "thresholds.json")


def bundle(candidate: Candidate, options: ImportOptions) -> Parts:
    """The parts of a bundle's task. Rejected with the reason."""
    public = files_below(candidate.path / "prepared" / "public", candidate.path)
    secret = {name: public.pop(name) for name in (ANSWERS, EVALUATOR, *THRESHOLDS) if name in public}
    if ANSWERS not in secret:
        raise Rejected(f"not prepared (no prepared/public/{ANSWERS})")
    thresholds, told_lower = _told(next((secret[name] for name in THRESHOLDS if name in secret), None))
    header = sample_header(public, None)
    cells = read_columns(secret[ANSWERS])
    labels = known_labels(cells[header[-1]]) if header[-1] in cells else []
    private: dict[str, Content] = {f"private/{name}": path for name, path in secret.items()}
    if options.metric:
        rows = distinct_rows(secret[ANSWERS], [options.id or header[0]])
        submission, _ = submission_of(options, header, rows, labels)
        metric, more = metric_part(options), answers_part(submission, options.metric)
        private = {f"private/{ANSWERS}": secret[ANSWERS]}
    else:
        if EVALUATOR not in secret:
            raise Rejected(f"not prepared (no prepared/public/{EVALUATOR}); --metric grades without it")
        lower = _direction(options, thresholds, told_lower)
        rows = len(cells[header[0]]) if header[0] in cells else len(next(iter(cells.values())))
        submission = {"id": header[:1], "target": header[1:] or header, "parse": "text", "rows": rows}
        metric, more = {"file": f"private/{EVALUATOR}", "style": "script", "lower_is_better": lower}, {}
    given: Grading = {"answers": f"private/{ANSWERS}", "submission": submission, "metric": metric, **more}
    if len(thresholds) == len(NAMES):
        given["thresholds"] = cast(Thresholds, thresholds)
    if "description.md" not in public and not options.description:
        raise Rejected("there is no prepared/public/description.md")
    return Parts(
        name=candidate.task_name,
        description=text_of(Path(options.description) if options.description else public["description.md"]),
        modality=modality_of(public, given),
        problem=problem_of(given["metric"], given["submission"]),
        # a generator's source would tell how the target was made
        public={
            name: path
            for name, path in public.items()
            if name != "description.md" and not name.endswith((".py", ".pyc"))
        },
        private=private,
        grading=given,
        provenance={
            "source": candidate.source,
            "seed": options.seed,
            "benchmark": "sandmle",
            "competition": candidate.name,
            "graded_by": "options" if options.metric else "code",
        },
    )


def _told(file: Path | None) -> tuple[dict[str, float], bool | None]:
    """(thresholds by name, whether lower is better) out of threshold.json, what of it there is."""
    if file is None:
        return {}, None
    try:
        content = json.loads(text_of(file))
    except ValueError as error:
        raise Rejected(f"{file.name} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise Rejected(f"{file.name} holds no thresholds")
    told: dict[str, float] = {}
    lower: bool | None = None
    for name in NAMES:
        value = content.get(f"{name}_threshold", content.get(name))
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            told[name] = value
    for key in ("is_lower_better", "lower_is_better"):
        if isinstance(content.get(key), bool):
            lower = content[key]
    return told, lower


def _direction(options: ImportOptions, told: dict[str, float], lower: bool | None) -> bool:
    """Whether lower is better: as the options say, as the file says, or as its thresholds are ordered."""
    if options.lower_is_better is not None:
        return options.lower_is_better
    if lower is not None:
        return lower
    if "gold" in told and "median" in told and told["gold"] != told["median"]:
        return told["gold"] < told["median"]
    raise Rejected(
        "which scores are better is not known (no threshold.json): say --lower-is-better or --higher-is-better"
    )
