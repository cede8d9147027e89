"""The description of a procedural task, Markdown like a competition page.

It tells what a solver may know and neither how the target came about nor where the answers are kept. Not covered: tables
of other sources (tasks.describe).
"""

from collections.abc import Callable
from typing import Any

from ..table import Column
from .challenge import Challenge, feature_columns

SAMPLE_LINES = 4
MOST_COLUMNS = 12


def describe(challenge: Challenge, definition: Callable[[str], str]) -> str:
    """The Markdown text; `definition` says in words what a metric is."""
    world = challenge.world
    sample = challenge.public["sample_submission.csv"].decode().split("\n")
    many = world.sample["many"]
    # fmt: off
    lines = [
        f"# {world.title}: {_asked_for(challenge)}", "",
        " ".join(world.context), "",
        "## Task", "",
        f"{_task(challenge)} There are {len(challenge.train)} {many} to learn from and {len(challenge.test)} to predict.", "",
        "## Files", "",
        "The data lie in `./input/`:", "",
        *_files(challenge), "",
        *_notes(challenge),
        "## Columns", "",
        "| file | column | meaning | unit or values |", "|---|---|---|---|",
        *_dictionary(challenge), "",
        "## Metric", "", _metric(challenge, definition), "",
        "## Submission", "",
        f"Your program must write `./submission.csv`: {_submission(challenge)}", "",
        "The first lines of the sample:", "", "```", *[_short(line) for line in sample[:SAMPLE_LINES]], "```", "",
    ]
    # fmt: on
    return "\n".join(lines)


def _asked_for(challenge: Challenge) -> str:
    target = challenge.world.target
    if target.problem == "ranking":
        return f"ranking by {target.columns[0].name}"
    return {
        "multilabel_classification": "tags",
        "segmentation": "masks",
        "forecasting": "a forecast",
        "reconstruction": "what is missing",
    }.get(target.problem, target.columns[0].name)


def _task(challenge: Challenge) -> str:
    target, one = challenge.world.target, challenge.world.sample["one"]
    if target.asked:
        return target.asked
    if target.problem == "segmentation":
        return f"Predict the mask of each picture: {_named(target.columns[0])}."
    if target.problem == "forecasting":
        first, last = target.columns[0], target.columns[-1]
        return f"Predict the next {len(target.columns)} steps of each series, `{first.name}` to `{last.name}`."
    if target.problem == "reconstruction":
        first, last = target.columns[0], target.columns[-1]
        return f"Predict the {len(target.columns)} missing values of each {one}, `{first.name}` to `{last.name}`."
    raise ValueError(f"{target.problem}: the target has no sentence")


def _named(column: Column) -> str:
    return f"`{column.name}` ({column.meaning})" if column.meaning else f"`{column.name}`"


def _files(challenge: Challenge) -> list[str]:
    world = challenge.world
    targets = ", ".join(f"`{name}`" for name in _shortened([column.name for column in world.target.columns]))
    lines = [
        f"- `train.csv`: {len(challenge.train)} rows with {targets}, to learn from",
        f"- `test.csv`: {len(challenge.test)} rows without, to predict",
    ]
    for rendered in world.rendered:
        for asset in rendered.assets:
            lines.append(f"- `{asset.folder}/`: {asset.meaning}, one file `ID.{asset.ending}` for each row of both")
        lines += [f"- `{side.name}`: {side.meaning}" for side in rendered.sides]
    return [
        *lines,
        "- `sample_submission.csv`: a submission in the right format that knows nothing",
        "- `description.md`: this page",
    ]


def _shortened(names: list[str]) -> list[str]:
    return names if len(names) <= MOST_COLUMNS else [names[0], "...", names[-1]]


def _notes(challenge: Challenge) -> list[str]:
    notes = [note for rendered in challenge.world.rendered for note in rendered.sentences]
    return [" ".join(notes), ""] if notes else []


def _dictionary(challenge: Challenge) -> list[str]:
    world = challenge.world
    cells = {name: values for rendered in world.rendered for name, values in rendered.cells.items()}
    lines = ["| train, test | `id` | number of the row, without further meaning | |"]
    for column in feature_columns(world):
        lines.append(_line("train, test", [column.name], column, _values(column, cells.get(column.name, []))))
    for group in _alike(world.target.columns):
        labels = world.target.labels if group[0].name not in world.target.labels and not group[0].number else []
        lines.append(_line("train", [column.name for column in group], group[0], ", ".join(labels) or group[0].unit))
    for rendered in world.rendered:
        for side in rendered.sides:
            lines.append(f"| {side.name} | `id` | the row's id | |")
            for at, column in enumerate(side.columns):
                seen = [line[at] for rows in side.rows for line in rows]
                lines.append(_line(side.name, [column.name], column, _values(column, seen)))
    return lines


def _alike(columns: list[Column]) -> list[list[Column]]:
    """Neighbours that differ in nothing but the name, together."""
    from itertools import groupby

    return [list(group) for _, group in groupby(columns, key=lambda column: (column.meaning, column.unit))]


def _line(file: str, names: list[str], column: Column, values: str) -> str:
    shown = ", ".join(f"`{name}`" for name in names)
    return f"| {file} | {shown} | {column.meaning} | {values} |".replace("|  |", "| |")


def _values(column: Column, cells: list[str]) -> str:
    if column.number:
        return column.unit
    levels = sorted({cell.strip().lower() for cell in cells if cell})
    return ", ".join(levels) if levels and len(levels) <= MOST_COLUMNS else "text"


def _metric(challenge: Challenge, definition: Callable[[str], str]) -> str:
    metric: dict[str, Any] = challenge.metric
    params = {name: value for name, value in metric["params"].items() if name not in ("height", "width")}
    told = f" ({', '.join(f'{name} = {value}' for name, value in params.items())})" if params else ""
    several = len(challenge.submission["target"]) > 1 and challenge.form in ("number", "probability")
    over = ""
    if several and metric["name"] != "lwlrap":
        over = (
            " It is computed over all cells at once."
            if metric.get("columns") == "flat"
            else " It is computed for each column and averaged."
        )
    if "group" in metric:
        over = f" A group is one `{metric['group']}`."
    direction = "Lower is better." if metric["lower_is_better"] else "Higher is better."
    return f"`{metric['name']}`{told}: {definition(metric['name'])}{over} {direction}"


def _submission(challenge: Challenge) -> str:
    world, form, submission = challenge.world, challenge.form, challenge.submission
    key, targets = submission["id"][0], ", ".join(f"`{name}`" for name in _shortened(submission["target"]))
    if form == "ranked":
        return (
            f"a header and one line for each `{key}` of `test.csv`, with the columns `{key}` and {targets}: the ids of all "
            "its rows with a blank between them, the best first."
        )
    text = f"a header and one line for each row of `test.csv`, in any order, with the columns `{key}` and {targets}. "
    target = world.target
    if form == "probabilities":
        return text + "Probabilities lie between 0 and 1 and sum to 1 in every row."
    if form == "probability":
        return text + "A probability lies between 0 and 1."
    if form == "label":
        return text + f"The value is one of {', '.join(f'`{label}`' for label in target.labels)}."
    if form == "tagset":
        return text + "The cell holds the tags with a blank between them, and is empty where none applies."
    if form == "mask":
        return text + (
            "The cell is a run-length code, `start length start length ...`: pixels are counted from 1, row by row from "
            "the top left, and an empty mask is an empty cell."
        )
    return text + ("The value is a number." if len(target.columns) == 1 else "The values are numbers.")


def _short(line: str) -> str:
    return line if len(line) <= 160 else line[:157] + "..."
