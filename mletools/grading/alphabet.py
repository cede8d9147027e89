"""What the answers tell of the labels, tags, tokens and ranked items that may be predicted.

Where every answer is a whole number, a prediction of another kind is no label but junk; where every answer is True or
False, only the spellings count that pandas reads, with which the benchmarks' graders read submissions. Labels only: where
no answer is a number, a number is none either. Not covered: the labels that a record states (parsing).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# The spellings that pandas reads as truth values, and those that it reads as a missing value.
TRUTH_VALUES = {"True": "1", "TRUE": "1", "true": "1", "False": "0", "FALSE": "0", "false": "0"}
MISSING = frozenset((
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null",
))  # fmt: skip
WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
BINARY = frozenset({"0", "1"})


@dataclass(frozen=True)
class Alphabet:
    """The labels or items of the answers, and their kind: whole, truth, words (no number among them) or any."""

    known: frozenset[str]
    kind: str

    @property
    def whole(self) -> bool:
        return self.kind == "whole"


def alphabet_of(truth: Any, parse: str) -> Alphabet:
    """The alphabet of parsed answers, an array of shape (rows, targets)."""
    known = frozenset(_symbols(truth.ravel().tolist(), parse)) - {""}
    kind = "any"
    if known and all(map(WHOLE.fullmatch, known)):
        kind = "whole"
    elif parse == "label" and known and known <= {"True", "False"}:
        kind = "truth"
    elif parse == "label" and known and not any(map(NUMBER.fullmatch, known)):
        kind = "words"
    return Alphabet(known, kind)


def _symbols(values: Iterable[Any], parse: str) -> Iterable[str]:
    if parse == "label":
        return values
    if parse in ("tokens", "tagset", "ranked"):
        return (item for value in values for item in value)
    if parse == "boxes":
        return (box["label"] for value in values for box in value if "label" in box)
    return ()


def read_labels(values: list[str], alphabet: Alphabet) -> list[str]:
    """The labels of a column as the answers spell them: truth values for 0 and 1, and the other way round.

    As in pandas a column is one or the other: where both stand in it, nothing is changed.
    """
    there = set(values) - {""}
    if alphabet.kind == "truth" and there <= TRUTH_VALUES.keys():
        return ["True" if TRUTH_VALUES.get(value) == "1" else "False" if value else "" for value in values]
    if alphabet.kind == "truth" and there <= BINARY:
        return ["True" if value == "1" else "False" if value else "" for value in values]
    if alphabet.whole and alphabet.known <= BINARY and there and there <= TRUTH_VALUES.keys():
        return [TRUTH_VALUES.get(value, "") for value in values]
    return values


def foreign(alphabet: Alphabet) -> str:
    """What is wrong with a label or item that is `strange`; completes "'inf', ..."."""
    if alphabet.whole:
        return "not a whole number, as all answers are"
    if alphabet.kind == "truth":
        return "not True or False (a column may hold 1 and 0 instead, not both)"
    return "a number, which no answer is"


def strange(value: str, alphabet: Alphabet) -> bool:
    """Whether a label that `read_labels` gave, or an item, is of another kind than the answers."""
    if alphabet.whole:
        return not WHOLE.fullmatch(value)
    if alphabet.kind == "truth":
        return value not in ("True", "False")
    return alphabet.kind == "words" and NUMBER.fullmatch(value) is not None
