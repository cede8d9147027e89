"""The description of a task, Markdown like a competition page.

What it says of rows, columns, values and gaps is read from the public files. It names neither the rule behind the target
nor the answers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from ..base.csv_files import read_columns
from ..grading import metrics
from .dataset import Dataset
from .draft import TaskDraft
from .table import MISSING, NUMBER, Column, shortest

SAMPLE_LINES = 4
MAX_LEVELS = 20  # a column of more different texts is described by their lengths
MAX_NAMES = 12  # of more target columns only the first and the last are named
MAX_LINE = 160  # characters
TEXT = "{} different values, such as {}"
SIZES = ("height", "width")  # parameters that the metric needs and the files show
# What the definition of a mean says of weights, which concerns no task without a column of them.
WEIGHTED = re.compile(r", [^,;]*\bsum w\b[^;]*; [^.]* unless the task names a weight column")
FORMATS = {
    "ranked": "the ids of all its rows with a blank between them, the best first",
    "probabilities": "Probabilities lie between 0 and 1 and sum to 1 in every row.",
    "probability": "A probability lies between 0 and 1.",
    "tagset": "The cell holds the tags with a blank between them, and is empty where none applies.",
    "mask": "The cell is a run-length code, `start length start length ...`: pixels are counted from 1, row by row from "
    "the top left, and an empty mask is an empty cell.",
}


def describe(draft: TaskDraft) -> str:
    """The Markdown text. The draft has a data set."""
    dataset = draft.dataset
    assert dataset is not None
    sentences = [sentence for shown in dataset.features for sentence in shown.notes]
    sample = draft.public["sample_submission.csv"].decode().split("\n")
    train, test = draft.rows
    # fmt: off
    lines = [
        f"# {dataset.title}", "",
        " ".join(dataset.context), "",
        "## Task", "",
        f"{_task(draft, dataset)} There are {train} {dataset.sample['many']} to learn from and {test} to predict.", "",
        "## Files", "",
        "The data lie in `./input/`:", "",
        f"- `train.csv`: {train} rows with {_listed(column.name for column in draft.targets)}, to learn from",
        f"- `test.csv`: {test} rows without {'it' if len(draft.targets) == 1 else 'them'}, to predict",
        *(f"- `{name}`: {meaning}" for name, meaning in dataset.files.items()),
        f"- `sample_submission.csv`: a submission in the right format that {_sample(draft)}",
        "- `description.md`: this page", "",
        *([" ".join(sentences), ""] if sentences else []),
        "## Columns", "",
        *_dictionary(draft, dataset), "",
        "## Metric", "", _metric(draft), "",
        "## Submission", "", f"Your program must write `./submission.csv`: {_submission(draft)}", "",
        "The first lines of the sample:", "", "```", *(_short(line) for line in sample[:SAMPLE_LINES]), "```", "",
    ]
    # fmt: on
    return "\n".join(lines)


def _sample(draft: TaskDraft) -> str:
    if draft.form.kind == "ranked" or metrics.find(draft.metric["name"]).constant_is_undefined:
        return "ranks the rows in the order of `test.csv`"
    return "predicts a constant"


def _task(draft: TaskDraft, dataset: Dataset) -> str:
    if dataset.target.asked:
        return dataset.target.asked
    kind, labels, names, (first, *_) = draft.form.kind, draft.form.labels, draft.form.targets, dataset.target.columns
    one, target = dataset.sample["one"], f"`{first.name}` ({first.meaning})" if first.meaning else f"`{first.name}`"
    if kind == "probabilities":
        return f"Predict the probability of each value of {target} for each {one}."
    if kind == "probability":
        return f"Predict the probability that {target} is `{labels[-1]}` for each {one}."
    return f"Predict {target if len(names) == 1 else _listed(names)} for each {one}."


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    shown = every if len(every) <= MAX_NAMES else [every[0], "...", every[-1]]
    return ", ".join(name if name == "..." else f"`{name}`" for name in shown)


def _metric(draft: TaskDraft) -> str:
    metric = draft.metric
    known = metrics.find(metric["name"])
    params = ", ".join(f"{name} = {value}" for name, value in metric["params"].items() if name not in SIZES)
    several = ""
    if "group" in metric:
        several = f" A group is one `{metric['group']}`."
    elif metric.get("columns") == "flat":
        several = " It is computed over all cells at once."
    elif len(draft.form.columns) > 1 and draft.form.kind in ("number", "probability") and known.columns == "each":
        several = " It is computed for each column and averaged."
    direction = "Lower is better." if metric["lower_is_better"] else "Higher is better."
    named = f"`{metric['name']}`" + (f" ({params})" if params else "")
    words = known.definition if "weight" in metric else WEIGHTED.sub("", known.definition)
    return f"{named}: {words}{several} {direction}"


def _submission(draft: TaskDraft) -> str:
    form = draft.form
    columns = f"with the columns `{form.ids}` and {_listed(form.columns)}"
    if form.kind == "ranked":
        return f"a header and one line for each `{form.ids}` of `test.csv`, {columns}: {FORMATS['ranked']}."
    text = f"a header and one line for each row of `test.csv`, in any order, {columns}. "
    if form.kind == "label":
        return text + f"The value is one of {', '.join(f'`{label}`' for label in form.labels)}."
    return text + FORMATS.get(
        form.kind, "The value is a number." if len(form.columns) == 1 else "The values are numbers."
    )


def _short(line: str) -> str:
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 3] + "..."


def _dictionary(draft: TaskDraft, dataset: Dataset) -> list[str]:
    """The table of all columns: neighbours that differ in nothing but a number share a line."""
    train, test = (read_columns(draft.public[name]) for name in ("train.csv", "test.csv"))
    both = {name: [*train[name], *cells] for name, cells in test.items()}
    labels = draft.form.labels if draft.form.kind in ("label", "probabilities") else ()
    about = "name of the row" if draft.form.key != "id" else "number of the row, without further meaning"
    lines = ["| file | column | meaning | values |", "|---|---|---|---|"]
    lines.append(_line("train, test", f"`{draft.form.key}`", about, ""))
    lines += _lines("train, test", draft.features, both)
    if labels and len(draft.targets) == 1:
        (target,) = draft.targets
        lines.append(_line("train", f"`{target.name}`", target.meaning, ", ".join(labels)))
    elif draft.form.kind == "mask":
        lines.append(_line("train", f"`{draft.targets[0].name}`", draft.targets[0].meaning, "run-length code"))
    else:
        lines += _lines("train", draft.targets, train)
    for side in dataset.sides:
        lines.append(_line(side.name, f"`{draft.form.key}`", "the row's id", ""))
        lines += _lines(side.name, side.columns, read_columns(draft.public[side.name]))
    return lines


def _lines(file: str, columns: Sequence[Column], cells: Mapping[str, Sequence[str]]) -> list[str]:
    lines = []
    for _, alike in groupby(columns, key=lambda column: (_numberless(column), column.unit, column.number)):
        group = list(alike)
        first, last = group[0], group[-1]
        shown, meaning = f"`{first.name}`", first.meaning
        if len(group) > 1:
            shown = f"`{first.name}` ... `{last.name}` ({len(group)} columns)"
            meaning = meaning if meaning == last.meaning else f"{meaning} ... {last.meaning}"
        values = values_of([cell for column in group for cell in cells[column.name]], first)
        lines.append(_line(file, shown, meaning, values))
    return lines


def _numberless(column: Column) -> str:
    return re.sub(r"\d+", "#", column.meaning or column.name)


def _line(file: str, shown: str, meaning: str, values: str) -> str:
    return f"| {file} | {shown} | {meaning} | {values} |".replace("|  |", "| |")


def values_of(cells: Sequence[str], column: Column) -> str:
    """What the cells of a column hold: the range of numbers and their unit, or levels, or lengths; the share of gaps."""
    present = [cell for cell in cells if cell not in MISSING]
    gaps = f"{100 * (1 - len(present) / len(cells)):.1f} % missing" if len(present) < len(cells) else ""
    return "; ".join(part for part in (_range(present, column) if present else "", gaps) if part)


def _range(cells: Sequence[str], column: Column) -> str:
    if column.meaning.startswith("file: "):
        return f"path, such as {cells[0]}"
    if set(cells) == {"0", "1"}:
        return "0 or 1"
    numbers = [float(cell) for cell in cells if NUMBER.fullmatch(cell)]
    if column.number and 2 * len(numbers) > len(cells):
        span = f"{shortest(min(numbers))} to {shortest(max(numbers))} {column.unit}".rstrip()
        other = next((cell for cell in cells if not NUMBER.fullmatch(cell)), None)
        return span if other is None else f"{span}; some cells hold text, such as `{other}`"
    levels, plain = sorted(set(cells)), sorted({cell.strip().lower() for cell in cells})
    if len(plain) < len(levels):
        return (
            f"{', '.join(plain)}; in several spellings"
            if len(plain) <= MAX_LEVELS
            else TEXT.format(len(levels), levels[0])
        )
    if len(levels) <= MAX_LEVELS:
        return ", ".join(f"`{level}`" for level in levels) if "," in "".join(levels) else ", ".join(levels)
    words = [len(cell.split()) for cell in cells]
    return f"text of {min(words)} to {max(words)} words" if max(words) > 1 else TEXT.format(len(levels), levels[0])
