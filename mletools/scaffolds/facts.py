"""What a prompt may tell of a task: nothing of answers, thresholds or provenance.

Covered: the facts by the names that prompts use. Not covered: the words around them.
"""

from collections.abc import Mapping
from typing import Any

from .. import prompts

MOST_COLUMNS = 40  # named in a prompt
MOST_FILES = 5  # of one folder


def facts(task: Mapping[str, Any]) -> dict[str, str]:
    """The values of the placeholders that a prompt about a task may use."""
    submission, metric = task["submission"], task["metric"]
    return {
        "name": task["name"],
        "description": task["description"].strip(),
        "modality": task["modality"],
        "problem": task["problem"].replace("_", " "),
        "metric": _metric(metric),
        "direction": "lower is better" if metric["lower_is_better"] else "higher is better",
        "files": _files(task["data"]["public"]),
        "columns": _columns(submission["id"] + submission["target"]),
    }


def tell(prompt: str, task: Mapping[str, Any], **more: str) -> str:
    """The prompt, filled in with the facts that it asks for and with `more`."""
    known = {**facts(task), **more}
    return prompts.render(prompt, **{name: known[name] for name in prompts.placeholders(prompt) & known.keys()})


def _files(names: list[str]) -> str:
    """The public files; of a folder with many only how many, and the first."""
    by_folder: dict[str, list[str]] = {}
    for name in names:
        by_folder.setdefault(name.rpartition("/")[0], []).append(name)
    lines = []
    for folder, files in by_folder.items():
        if folder and len(files) > MOST_FILES:
            lines.append(f"{folder}/ ({len(files)} files, the first is {files[0]})")
        else:
            lines += files
    return ", ".join(lines)


def _metric(metric: Mapping[str, Any]) -> str:
    """The metric in words: its name and parameters; one that is code has nothing to show but the description."""
    if "name" not in metric:
        return "the one that the description defines"
    return " ".join([metric["name"], *(f"{key}={value}" for key, value in sorted(metric["params"].items()))])


def _columns(names: list[str]) -> str:
    if len(names) <= MOST_COLUMNS:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_COLUMNS])} and {len(names) - MOST_COLUMNS} more, as in the sample submission"


def split_told(validation: bool, revealed: bool) -> str:
    """How an agent is told that it will learn scores: on rows set apart from train.csv, on the test rows, or not."""
    if revealed:
        return "The scores that you are told are those on the rows of test.csv."
    if not validation:
        return "You are told whether a submission is valid, but no score."
    return (
        "Some rows of the original training data have been moved to test.csv and stand among those to predict, so there "
        "may be other numbers of rows than the description says; the scores that you are told are computed on them alone, "
        "and the final score on the others."
    )
