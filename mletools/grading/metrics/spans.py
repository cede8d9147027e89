"""Metrics of stretches of text: spans of characters, and answers that point at tokens of a document."""

import re
from collections.abc import Sequence
from typing import Any

from .registry import Undefined, Unsuited, metric
from .runs import MOST, Runs, flatten, overlap

# Start and end token of an answer. Longer numbers are no place in a document.
SPAN = re.compile(r"\s*(-?[0-9]{1,18})\s*:\s*(-?[0-9]{1,18})\s*")
WORDS = ("YES", "NO")
SHOWN = 50


@metric("f1_char_spans", lower_is_better=False, best=1.0, parse="spans")
def f1_char_spans(truth: Any, guess: Any) -> float:
    """F1 over characters, counted over all rows: 2 TP / (2 TP + FP + FN); a span "a b" holds the characters a to b - 1,
    each counts once in a row. 1 where neither side has a span.

    A span that ends before it starts holds nothing; one that starts before 0 is refused. Source: the NBME competition on
    patient notes.
    """
    rows = len(truth)
    both, in_truth, in_guess = (
        each.sum() for each in overlap(_characters(truth, Unsuited), _characters(guess, Undefined), rows)
    )
    return float(2 * both / (in_truth + in_guess)) if in_truth + in_guess else 1.0


def _characters(cells: Sequence[Sequence[tuple[int, int]]], fault: type[Exception]) -> Runs:
    row, start, stop = flatten(cells)
    wrong = (start < 0) | (stop > MOST)
    if wrong.any():
        at = int(wrong.argmax())
        whose = "the answers' span" if fault is Unsuited else "the span"
        why = "starts before the text" if start[at] < 0 else "ends behind any text"
        raise fault(f"{whose} '{start[at]} {stop[at]}' {why}")
    full = start < stop
    return Runs(row[full], start[full], stop[full])


@metric("nq_f1", lower_is_better=False, best=1.0, parse=("label", "text"), answer_parse=("tagset", "label", "text"))
def nq_f1(truth: Any, guess: Any, *, count_empty: bool = False) -> float:
    """F1 = 2 TP / (2 TP + FP + FN) of the rows, each one answer "start:end", YES, NO or empty: TP is one of the right
    answers, FP any other, FN an empty one where a right one exists. With count_empty, the share of rows that are right,
    empty ones that had to be empty among them.

    Answers are a set of right answers (tagset) or at most one. Spans compare as numbers, their limits must agree.
    Source: the TensorFlow 2.0 question answering competition; count_empty as in MLE-bench's grader, where F1 is averaged
    over both classes.
    """
    tp = fp = fn = empty = 0
    for right, cell in zip(truth, guess, strict=True):
        answers = {_answer(each, Unsuited) for each in ([right] if isinstance(right, str) else right)} - {""}
        answer = _answer(cell, Undefined)
        if answer == "":
            fn += bool(answers)
            empty += not answers
        elif answer in answers:
            tp += 1
        else:
            fp += 1
    if count_empty:
        return (tp + empty) / len(truth)
    if not tp + fp + fn:
        raise Unsuited("no row of the answers has an answer")
    return 2 * tp / (2 * tp + fp + fn)


def _answer(cell: str, fault: type[Exception]) -> Any:
    """(start, end), YES, NO or the empty string."""
    span = SPAN.fullmatch(cell)
    if span:
        return int(span[1]), int(span[2])
    word = cell.strip()
    if word in WORDS or not word:
        return word
    whose = "the answers' cell" if fault is Unsuited else "the cell"
    raise fault(f"{whose} {word[:SHOWN]!r} is not start:end, YES, NO or empty")
