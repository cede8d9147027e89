"""Submissions that an evaluator is tried on: sound ones of several qualities, and broken ones.

Not covered: running the evaluator (evaluator).
"""

from typing import Any

from ..table import shortest
from . import environment
from .environment import Environment
from .specification import Specification

SAMPLE, ANSWERS, CEILING = "the sample submission", "the answers", "ceiling_submission.csv"
NOISY, SHUFFLED = "answers with noise", "shuffled answers"
REVERSED = "answers with noise, rows in reverse order"
# The submissions that the generator script itself left, by the file's name.
HANDED_IN = {SAMPLE: environment.SAMPLE, ANSWERS: environment.ANSWERS, CEILING: environment.CEILING}


def sound(made: Environment, wanted: Specification, rng: Any) -> dict[str, bytes]:
    """Submissions by name: those HANDED_IN, answers with noise, shuffled answers, the noise in another order.

    `draws` is a numpy RandomState.
    """
    answers = made.answers
    rows = answers.rows
    noisy = _noisy(made, wanted, rng)
    order = [int(at) for at in rng.permutation(rows)]
    moved = {name: [answers.cells[name][at] for at in order] for name in wanted.columns}
    if wanted.form in ("probability", "probabilities"):
        moved = {name: [noisy[name][at] for at in order] for name in wanted.columns}
    columns = [wanted.key, *wanted.columns]
    reverse = {name: ({**answers.cells, **noisy})[name][::-1] for name in columns}
    return {
        **{name: made.files[file] for name, file in HANDED_IN.items()},
        NOISY: answers.with_cells(noisy),
        SHUFFLED: answers.with_cells(moved),
        REVERSED: answers.with_cells(reverse),
    }


def broken(made: Environment, wanted: Specification) -> dict[str, bytes]:
    """Submissions by name that have no score: a row is missing, a column is missing, a cell is empty."""
    answers = made.answers
    first = wanted.columns[0]
    renamed = answers.picked(list(range(answers.rows))).replace(first.encode(), b"wrong_name", 1)
    found = {
        "a submission without its last row": answers.picked(list(range(answers.rows - 1))),
        f"a submission without the column {first}": renamed,
    }
    if wanted.form not in ("text", "tagset"):
        holed = ["", *answers.cells[first][1:]]
        found[f"a submission with an empty cell in {first}"] = answers.with_cells({first: holed})
    return found


def _noisy(made: Environment, wanted: Specification, rng: Any) -> dict[str, list[str]]:
    """The answers' cells by column, made worse: other labels in some rows, numbers off by up to a third."""
    cells = made.answers.cells
    rows = made.answers.rows
    if wanted.form == "number":
        return {
            name: [shortest(round(float(cell) * rng.uniform(0.7, 1.3), 6)) for cell in cells[name]]
            for name in wanted.columns
        }
    if wanted.form == "probability":
        (name,) = wanted.columns
        return {name: [shortest(round(0.3 + 0.4 * float(cell) + rng.uniform(-0.25, 0.25), 4)) for cell in cells[name]]}
    if wanted.form == "probabilities":
        return _soft(cells, wanted.columns, rows, rng)
    (name,) = wanted.columns
    pool = made.labels or sorted(set(cells[name]))
    swapped = [pool[rng.randint(len(pool))] if rng.uniform() < 0.4 else cell for cell in cells[name]]
    return {name: swapped}


def _soft(cells: dict[str, list[str]], columns: list[str], rows: int, rng: Any) -> dict[str, list[str]]:
    """Probabilities that lean to the right label; those of a row sum to 1."""
    found: dict[str, list[str]] = {name: [] for name in columns}
    for at in range(rows):
        weights = [round(0.5 * float(cells[name][at]) + rng.uniform(0.1, 0.9), 4) for name in columns]
        shares = [round(weight / sum(weights), 6) for weight in weights]
        shares[-1] = round(1 - sum(shares[:-1]), 6)
        for name, share in zip(columns, shares, strict=True):
            found[name].append(shortest(share))
    return found
