"""The scripted model: real solutions from good to broken, without a language model, a network or any chance.

Covered: any table with train.csv, test.csv and sample_submission.csv, whatever its problem, and the procedural tasks of
every modality; the same request always gets the same text. Not covered: reading the prompt (it looks at the task
record), files and forms of imported tasks that no program of the bank knows, temperature, max_tokens, counting tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mletools.models import Reply, Request, readers
from mletools.models.bank import NOUNS, choices, plan, program
from mletools.records.errors import RecordError, ToolError
from mletools.records.ids import derive_seed

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
NEEDED = readers.NEEDED


class ScriptedModel:
    """Draws a level and a model from the bank by the request's seed and its task; `levels` ("tree,crash") pins them.

    ToolError for an unknown level.
    """

    batch = 1
    version = 2  # of the bank: another one gives other answers

    def __init__(self, levels: str = "") -> None:
        self.levels = [level.strip() for level in levels.split(",")] if levels else list(LEVELS)
        for level in self.levels:
            if level not in LEVELS:
                raise ToolError(f"scripted: unknown level {level!r}; known are {', '.join(LEVELS)}")
        self.name = f"scripted:{levels}" if levels else "scripted"

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        """One answer per request. RecordError for a task that no program of the bank solves."""
        return [Reply(self._answer(request)) for request in requests]

    def close(self) -> None:
        """Nothing to close."""

    def _answer(self, request: Request) -> str:
        task = request.task
        if task is None:
            raise ToolError("scripted: looks at the task, and the request has none")
        if not solves(task):
            raise RecordError(f"scripted: {readers.unsolved(task)}")
        return answer(task, self._level(task, request.seed), request.seed)

    def _level(self, task: dict[str, Any], seed: int) -> str:
        left = _draw(seed, task, "level") * sum(WEIGHTS[level] for level in self.levels)
        for level in self.levels:
            left -= WEIGHTS[level]
            if left < 0:
                return level
        return self.levels[-1]


def solves(task: Mapping[str, Any]) -> bool:
    """Whether the bank has programs for a task."""
    return not readers.unsolved(task)


def answer(task: dict[str, Any], level: str, seed: int) -> str:
    """The answer of that level to a task: a plan and, but for nocode, a fenced block of Python."""
    menu = [choice for choice in choices(task) if level not in VALID or choice.level == level]
    choice = menu[int(_draw(seed, task, "choice") * len(menu))]
    code = program(task, choice)
    if level in FAULTS:
        faults = [fault for fault in FAULTS[level] if fault[0] in code]
        right, wrong = faults[int(_draw(seed, task, "fault") * len(faults))]
        code = code.replace(right, wrong, 1)
    if level == "nocode":
        return plan(choice, task) if _draw(seed, task, "fault") < 0.5 else f"{plan(choice, task)}\n\n{code}"
    return f"{plan(choice, task)}\n\n```python\n{code}```"


def _draw(seed: int, task: dict[str, Any], what: str) -> float:
    """In [0, 1)."""
    return derive_seed(seed, "scripted", task["id"], what) / 2**62
