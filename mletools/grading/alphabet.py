"""The labels, tags, tokens and ranked items that are valid predictions, inferred from the answers.

Where every answer is a whole number, every prediction must be one; where every answer is a truth value, in whatever
spelling of R, SQL, JSON or pandas, every spelling is valid, and so are 0 and 1. Labels only: where no answer is a number, a
number is invalid. Not covered: the labels that a record states (parsing).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# The spellings that pandas reads as truth values.
TRUTH_VALUES = {"True": "1", "TRUE": "1", "true": "1", "False": "0", "FALSE": "0", "false": "0"}
WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
BINARY = frozenset({"0", "1"})
# A truth value as a label, and the same value as 0 or 1.
TRUTH_LABELS = {spelling: "True" if value == "1" else "False" for spelling, value in TRUTH_VALUES.items()}
OTHER_NOTATION = {"True": "1", "False": "0", "1": "True", "0": "False"}


@dataclass(frozen=True)
class Alphabet:
    """The labels or items of the answers, and their kind: whole, truth, words (no numbers) or any."""

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
    """The labels of a column, as `canonical_label` writes them, in the answers' notation: truth values, or 0 and 1.

    As in pandas, a column that mixes both is unchanged.
    """
    spellings = set(values) - {""}
    truth_for_binary = alphabet.kind == "truth" and spellings <= BINARY
    binary_for_truth = alphabet.whole and alphabet.known <= BINARY and spellings <= {"True", "False"}
    if truth_for_binary or binary_for_truth:
        return [OTHER_NOTATION.get(value, "") for value in values]
    return values


def kind_problem(alphabet: Alphabet) -> str:
    """What is wrong with a label or item of the `wrong_kind`; completes "'inf', ..."."""
    if alphabet.whole:
        return "not a whole number, as all answers are"
    if alphabet.kind == "truth":
        return "not True or False (a column may hold 1 and 0 instead, not both)"
    return "a number, which no answer is"


def wrong_kind(value: str, alphabet: Alphabet) -> bool:
    """Whether an item, or a label from `read_labels`, differs in kind from the answers."""
    if alphabet.whole:
        return not WHOLE.fullmatch(value)
    if alphabet.kind == "truth":
        return value not in ("True", "False")
    return alphabet.kind == "words" and NUMBER.fullmatch(value) is not None
