"""What the scripted model hands in: programs of the bank, whole or with a fault, and which of them a text holds.

Covered: levels and how often they are drawn, the answer to a single question, dice that a seed throws, finding the
bank's programs in code. Not covered: which one an agent takes up (solver).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..records.ids import derive_seed
from .bank import NOUNS, Choice, choices, plan, program

# How a solution can fail: (text of a valid program, what stands there instead). One is drawn.
FAULTS = {
    "broken": [
        ('pd.read_csv("input/train.csv")', 'pd.read_csv("input/train.csv"'),
        ("if c not in test]:", "if c not in test]"),
        ('"submission.csv"', '"submission.csv'),
    ],
    "crash": [
        ("train[c])", 'train["answer"])'),
        ("input/train.csv", "input/training.csv"),
        ("model.fit", "modle.fit"),
        ("import pandas as pd", "import pandas_tools as pd"),
    ],
    "misformat": [
        ("sub.to_csv(", "sub.head(len(sub) // 2).to_csv("),
        ("sub.to_csv(", "sub.iloc[:, :-1].to_csv("),
        ("sub.to_csv(", "pd.concat([sub, sub]).to_csv("),
        ("index=False", "index=False, header=False"),
    ],
}
VALID = tuple(NOUNS)
# From worst to best: no block of code; no Python; an exception; an invalid file; then by expected score.
LEVELS = ("nocode", *FAULTS, *VALID)
# How often a level is drawn, in percent: one answer in five fails in some way.
WEIGHTS = {"nocode": 3.0, "broken": 5.0, "crash": 6.0, "misformat": 6.0, **dict.fromkeys(VALID, 80 / len(VALID))}

T = TypeVar("T")

# The line of the bank's programs that tells their model; in JSON a line ends with a backslash and an n.
_MODEL = re.compile(r"model = (.+?)(?=\\n|$)", re.MULTILINE)
_BALANCING = 'class_weight="balanced", '  # what the bank puts into a model for some metrics


@dataclass(frozen=True)
class SeededRng:
    """Throws that a seed decides: the same name is always the same throw. `about` is the task's id."""

    seed: int
    about: str

    def __call__(self, name: str) -> float:
        """In [0, 1)."""
        return derive_seed(self.seed, "scripted", self.about, name) / 2**62

    def pick(self, name: str, options: Sequence[T]) -> T:
        """One of the options, each as likely as the others."""
        return options[int(self(name) * len(options))]

    def weighted(self, name: str, options: Sequence[str], weights: Mapping[str, float]) -> str:
        """One of the options, as often as its weight says."""
        left = self(name) * sum(weights[option] for option in options)
        for option in options:
            left -= weights[option]
            if left < 0:
                return option
        return options[-1]


def draw_level(rng: SeededRng, levels: Sequence[str]) -> str:
    """One of the levels, as often as WEIGHTS says."""
    return rng.weighted("level", levels, WEIGHTS)


def answer(task: dict[str, Any], level: str, seed: int) -> str:
    """The answer of that level to a task: a plan and, but for nocode, a fenced block of Python."""
    rng = SeededRng(seed, task["id"])
    choice = rng.pick("choice", [choice for choice in choices(task) if level not in VALID or choice.level == level])
    return answer_with(task, choice, level, rng)


def answer_with(task: dict[str, Any], choice: Choice, level: str, rng: Callable[[str], float]) -> str:
    """The answer with that model; `level` says whether it fails, and how."""
    code = program(task, choice)
    if level in FAULTS:
        code = with_fault(code, level, rng)
    if level == "nocode":
        return plan(choice, task) if rng("fault") < 0.5 else f"{plan(choice, task)}\n\n{code}"
    return f"{plan(choice, task)}\n\n```python\n{code}```"


def with_fault(code: str, kind: str, rng: Callable[[str], float]) -> str:
    """The program with one of the faults of a kind of FAULTS."""
    faults = [fault for fault in FAULTS[kind] if fault[0] in code]
    right, wrong = faults[int(rng("fault") * len(faults))]
    return code.replace(right, wrong, 1)


def found_in(task: Mapping[str, Any], text: str) -> list[tuple[int, Choice]]:
    """The bank's models for the task in a text, with where their lines begin, in the order of the text."""
    known = {choice.model: choice for choice in choices(task)}
    found = []
    for line in _MODEL.finditer(text):
        model = line.group(1).replace('\\"', '"').replace(_BALANCING, "").rstrip()
        if model in known:
            found.append((line.start(), known[model]))
    return found


def choice_of(task: Mapping[str, Any], code: str) -> Choice | None:
    """The model of one of the bank's programs, with or without a fault; of several the last. None for other code."""
    found = found_in(task, code)
    return found[-1][1] if found else None
