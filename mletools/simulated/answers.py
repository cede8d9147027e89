"""A chat reply with a program of the bank: a plan and a fenced block of Python, with or without a fault; and how the
bank's models are read back from a text.
"""

import re
from collections.abc import Callable, Sequence

from ..models import Request
from ..records.task import Task
from ..solutions import bank, programs
from ..solutions.bank import FAULTS, FINE, STEPS, VALID, Choice, SeededRng, choices, program, with_fault

PLAN = "{reading} All {what} are scaled and gaps are filled with the mean. The model is {words}. Its predictions go to submission.csv."
SAMPLE_PLAN = (
    "No model is trained, for the scripted model {reason}. The sample submission is read as it is, "
    "and goes to submission.csv unchanged."
)
READING: dict[tuple[str, ...] | None, str] = {
    None: "The features are left alone.",
    (): "Each sample becomes a few simple numbers.",
    FINE: "Each sample becomes many numbers, made with care.",
}
# From worst to best: no block of code; no Python; an exception; an invalid file; then by expected score.
LEVELS = ("nocode", *FAULTS, *VALID)
# How often a level is drawn, in percent: one answer in five fails in some way.
WEIGHTS = {"nocode": 3.0, "broken": 5.0, "crash": 6.0, "misformat": 6.0, **dict.fromkeys(VALID, 80 / len(VALID))}

# The line of the bank's programs that names their model; in JSON a line ends with a backslash and an n.
MODEL_LINE = re.compile(r"model = (.+?)(?=\\n|$)", re.MULTILINE)


def plan(choice: Choice, task: Task | None = None) -> str:
    """What the program does, in sentences; without `task`, the short program."""
    if task is not None and (reason := programs.unsolved(task)):
        return SAMPLE_PLAN.format(reason=reason)
    if task is None or programs.is_table(task):
        reading, what = "Categories become columns of zeros and ones.", "columns"
    else:
        reading, what = READING[STEPS.get(choice.level, FINE)], "numbers"
    return PLAN.format(reading=reading, what=what, words=choice.words)


def better(score: float, than: float, task: Task) -> bool:
    """Whether a score of the task is better than another one."""
    return score < than if task["metric"]["lower_is_better"] else score > than


def rng_of(request: Request) -> SeededRng:
    """The throws of a request."""
    return SeededRng(request.seed, request.task["id"] if request.task else "")


def draw_level(rng: SeededRng, levels: Sequence[str]) -> str:
    """One of the levels, as often as WEIGHTS says."""
    return rng.weighted("level", levels, WEIGHTS)


def answer(task: Task, level: str, seed: int) -> str:
    """The answer of that level to a task: a plan and, but for nocode, a fenced block of Python."""
    rng = SeededRng(seed, task["id"])
    return answer_with(task, bank.draw(task, level, rng), level, rng)


def answer_with(task: Task, choice: Choice, level: str, rng: Callable[[str], float]) -> str:
    """The answer with that model; `level` says whether it fails, and how."""
    code = program(task, choice)
    if level in FAULTS:
        code = with_fault(code, level, rng)
    if level == "nocode":
        return plan(choice, task) if rng("fault") < 0.5 else f"{plan(choice, task)}\n\n{code}"
    return with_program(plan(choice, task), code)


def with_program(text: str, code: str) -> str:
    """A text and, below it, a fenced program."""
    return f"{text}\n\n```python\n{code}```"


def choices_in(task: Task, text: str) -> list[tuple[int, Choice]]:
    """The bank's models for the task in a text, with where their lines begin, in the order of the text."""
    known = {choice.model: choice for choice in choices(task)}
    models = [(line.start(), line.group(1).replace('\\"', '"')) for line in MODEL_LINE.finditer(text)]
    models = [(at, model.replace(bank.BALANCING, "").rstrip()) for at, model in models]
    return [(at, known[model]) for at, model in models if model in known]


def choice_of(task: Task, code: str) -> Choice | None:
    """The model of one of the bank's programs, with or without a fault; of several the last. None for other code."""
    known = choices_in(task, code)
    return known[-1][1] if known else None
