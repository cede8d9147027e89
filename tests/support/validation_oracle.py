"""Validation as an oracle: labels of validation rows, worked out from the scores that an agent is shown.

The agent knows the ids of the rows to predict and, by the task's description, how many of them are validation rows, not
which. For log loss, each row to predict is in one of three states: no validation row, or one with either label. Each
query predicts a batch of unknown rows so that no two states of the batch give the same shown score. Answers come from the
product's view, grader and rounding; nothing else of the task is read. Other metrics give other figures.

    python tests/support/validation_oracle.py       the table of docs/security.md
"""

import itertools
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mletools.grading import grade
from mletools.scaffolds.interface import Settings
from mletools.tasks.folder import ANSWERS
from mletools.tasks.record import Parts, finish
from mletools.tasks.validation import View, validation_view

ROWS, TEST, SURE = 105, 42, 1 - 1e-9
MOST, TRIES = 8, 30  # rows of a batch, and drawn batches of each size
QUERIES = (1, 2, 4, 8, 15, 30)  # of the table


def task_of(data: Path, seed: int = 0) -> dict[str, Any]:
    """A task below `data`: two numbers, a label that partly follows from them, log loss."""
    rng = np.random.RandomState(seed)
    x = rng.normal(size=(ROWS + TEST, 2)).round(3)
    y = (x[:, 0] + rng.normal(size=ROWS + TEST) > 0).astype(int)
    ids = rng.permutation(9000)[: ROWS + TEST] + 1000
    lines = [f"{id},{a},{b},{label}\n" for id, (a, b), label in zip(ids, x, y, strict=True)]
    test = "".join(line.rpartition(",")[0] + "\n" for line in lines[ROWS:])
    answers = "".join(f"{id},{label}\n" for id, label in zip(ids[ROWS:], y[ROWS:], strict=True))
    public = {
        "train.csv": "id,a,b,label\n" + "".join(lines[:ROWS]),
        "test.csv": "id,a,b\n" + test,
        "sample_submission.csv": "id,label\n" + "".join(f"{id},0.5\n" for id in ids[ROWS:]),
    }
    grading = {
        "submission": {"id": ["id"], "target": ["label"], "parse": "number", "rows": TEST, "range": [0, 1]},
        "metric": {"name": "log_loss", "params": {}, "lower_is_better": True},
        "answers": ANSWERS,
    }
    files = {name: text.encode() for name, text in public.items()}
    private = {ANSWERS: f"id,label\n{answers}".encode()}
    parts = Parts(
        "coin", "d", "tabular", "binary_classification", files, private, grading, {"source": "test", "seed": 0}
    )
    return finish(parts, data, (seed,))


def shown_score(view: View, digits: int) -> Callable[[dict[str, float]], float]:
    """{id: prediction} to the score that an agent is shown for it."""
    settings = Settings(score_digits=digits)

    def ask(guess: dict[str, float]) -> float:
        content = "id,label\n" + "".join(f"{id},{value!r}\n" for id, value in guess.items())
        verdict = grade(view.task, view.folder, view.validation_part(content.encode()))
        assert verdict.score is not None, verdict.reason
        return settings.rounded(verdict.score)

    return ask


def learn(
    ids: Sequence[str], rows: int, digits: int, ask: Callable[[dict[str, float]], float], seed: int = 0
) -> tuple[dict[str, int | None], list[int]]:
    """(each id's label, None where it is no validation row; how many labels are known after each query).

    rows: how many of `ids` are validation rows. digits: of the scores that `ask` gives.
    """
    rng = np.random.RandomState(seed)
    known: dict[str, int | None] = {}
    learnt: list[int] = []
    while len(known) < len(ids):
        unknown = [id for id in ids if id not in known]
        members = rows - sum(label is not None for label in known.values())
        batch, states = _batch(unknown, members, rows, digits, rng)
        sure = {id: 0.5 if label is None else SURE if label else 1 - SURE for id, label in known.items()}
        score = ask({**sure, **{id: batch.get(id, 0.5) for id in unknown}})
        found = states[score]
        known |= dict(zip(batch, found, strict=True))
        learnt.append(sum(label is not None for label in known.values()))
    return known, learnt


def _batch(
    unknown: Sequence[str], members: int, rows: int, digits: int, rng: Any
) -> tuple[dict[str, float], dict[float, tuple[int | None, ...]]]:
    """Predictions of the next rows, and the states that each score means; of as many rows as can be told apart."""
    for size in range(min(MOST, len(unknown)), 0, -1):
        if 3**size > 27 * 10 ** (digits - 1):  # more states than scores of three powers of ten
            continue
        all_states = np.array(list(itertools.product((-1, 0, 1), repeat=size)))  # -1: no validation row
        within = (all_states >= 0).sum(axis=1)
        states = all_states[(within <= members) & (members - within <= len(unknown) - size)]
        for _ in range(TRIES):
            slopes = rng.uniform(0.2, 8) * rng.uniform(0.2, 0.6) ** np.arange(size) * rng.choice((-1, 1), size)
            p = np.clip(1 / (1 + np.exp(-slopes)), 1e-9, SURE)
            losses = np.where(states == 1, -np.log(p), np.where(states == 0, -np.log(1 - p), 0.0)).sum(axis=1)
            losses = losses + (members - (states >= 0).sum(axis=1)) * math.log(2)
            settings = Settings(score_digits=digits)
            scores = [settings.rounded(round(loss / rows, 5)) for loss in losses]
            edges = losses / rows * 1e5 % 1  # a score at the edge of rounding may be rounded either way
            if len(set(scores)) == len(scores) and (np.abs(edges - 0.5) > 1e-3).all():
                meant = [tuple(None if state < 0 else int(state) for state in each) for each in states]
                return dict(zip(unknown, p.tolist(), strict=False)), dict(zip(scores, meant, strict=True))
    raise AssertionError("no row can be told from others")


def played(data: Path, digits: int, seed: int = 0) -> tuple[list[int], int, int]:
    """(labels known after each query, validation rows, rows to predict). AssertionError: a label is wrong."""
    view = validation_view(task_of(data, seed), data)
    test = (view.public / "test.csv").read_text().splitlines()[1:]
    ids = [line.partition(",")[0] for line in test]
    known, learnt = learn(ids, len(ids) - TEST, digits, shown_score(view, digits), seed)
    answers = dict(line.split(",")[:2] for line in (view.folder / view.task["answers"]).read_text().splitlines()[1:])
    assert {id: str(label) for id, label in known.items() if label is not None} == answers
    return learnt, len(answers), len(ids)


def main() -> None:
    print(
        f"| digits | {' | '.join(f'{k} scores' for k in QUERIES)} | all labels after |\n|---|{'---|' * (len(QUERIES) + 1)}"
    )
    for digits in (6, 3, 2):
        with tempfile.TemporaryDirectory() as data:
            learnt, rows, _ = played(Path(data), digits)
        counts = [learnt[min(k, len(learnt)) - 1] for k in QUERIES]
        print(f"| {digits} | {' | '.join(map(str, counts))} | {learnt.index(rows) + 1} |")


if __name__ == "__main__":
    main()
