"""Checks of answers, predictions and parameters that metrics of classes and probabilities share."""

from typing import Any

from .registry import Undefined, Unsuited


def number(name: str, value: Any, *, above: float, at_most: float) -> float:
    """`value` of the parameter `name`, a number in (above, at_most]; Unsuited otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not above < value <= at_most:
        raise Unsuited(f"metric.params.{name} is {value!r}; it must be a number above {above:g}, at most {at_most:g}")
    return value


def numbers(name: str, values: Any, length: int | None = None) -> list[float]:
    """`values` of the parameter `name`, a list of `length` numbers of at least 0; Unsuited otherwise."""
    if not isinstance(values, list) or not values or (length is not None and len(values) != length):
        raise Unsuited(f"metric.params.{name} is {values!r}; it must be a list of {length or 'some'} numbers")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e9:
            raise Unsuited(f"metric.params.{name} holds {value!r}; all must be numbers from 0 to 1e9")
    return values


def codes(values: Any, names: dict[str, int]) -> Any:
    """Every value as a whole number, shape (rows,). `names` says which, and learns those that are new.

    numpy's own unique would sort, and cut strings at a NUL.
    """
    import numpy as np

    values = values.tolist() if isinstance(values, np.ndarray) else values  # a list is faster to go through
    for value in dict.fromkeys(values):
        names.setdefault(value, len(names))
    return np.fromiter(map(names.__getitem__, values), dtype=np.intp, count=len(values))


def two_classes(truth: Any) -> Any:
    """Which answers are the positive class, the larger of two numbers; Unsuited unless there are exactly two."""
    low, high = truth.min(), truth.max()
    if low == high:
        raise Unsuited(f"every answer is {low:g}; this metric needs answers of two classes")
    positive = truth == high
    if not (positive | (truth == low)).all():
        raise Unsuited("the answers hold more than two values; this metric needs two, such as 0 and 1")
    return positive


def zero_or_one(truth: Any) -> Any:
    """Which answers are 1, as booleans; Unsuited where one is neither 0 nor 1."""
    positive = truth == 1
    wrong = truth[~positive & (truth != 0)]
    if wrong.size:
        raise Unsuited(f"the answers must be 0 or 1, and one is {wrong.flat[0]:g}")
    return positive


def probabilities(guess: Any) -> Any:
    """`guess` itself; Undefined where a number is no probability."""
    wrong = guess[(guess < 0) | (guess > 1)]
    if wrong.size:
        raise Undefined(f"{wrong.flat[0]:g} is no probability; predict numbers from 0 to 1")
    return guess
