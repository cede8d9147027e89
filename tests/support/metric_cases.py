"""What the property tests of all metrics need to know of each: how its answers and predictions are drawn."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Case:
    """Answers and predictions of one metric, parsed, as numpy arrays of shape (rows, targets).

    `perfect` is the best submission there is, `guess` a random one. `worsen(guess, draws)`, where given, makes a
    submission that the metric cannot find better. `given` holds weight, group, extra where the metric asks for them;
    `params` its parameters.
    """

    truth: Any
    perfect: Any
    guess: Any
    params: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    worsen: Callable[[Any, np.random.RandomState], Any] | None = None


Make = Callable[[np.random.RandomState, int], Case]


def cells(values: list[Any]) -> Any:
    """Parsed cells that are no numbers as an object array of shape (rows, 1)."""
    column = np.empty((len(values), 1), dtype=object)
    for at, value in enumerate(values):
        column[at, 0] = value
    return column
