"""The MLOps engineer: an evaluator script, tried in a sandbox on sound and on broken submissions.

Where the metric has a name, that metric judges the script: it must give the same scores. Not covered: grading with a
script, which graders do in a sandbox of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ... import prompts
from ...base.jsonl import dumps, loads
from ..table import shortest
from ..thresholds import NAMES
from .asking import Faulty, RunScript, Talk
from .developer import Developed, check_scores, named
from .environment import ANSWERS, DUMMY, HANDED_IN, Environment
from .replies import code_of, finite
from .scripts import what_went_wrong
from .specification import CUSTOM, WORDS, Specification

ATTEMPTS = 3
SCRIPT = "evaluator.py"
NOISY, SHUFFLED = "answers with noise", "shuffled answers"
REVERSED = "answers with noise, rows in reverse order"
# A score of the script's may be rounded to four decimals; the thresholds that it repeats may be, too.
TOLERANCE = 1e-4
MOST_SHOWN = 20_000  # characters of the generator script
# Runs the evaluator as graders do: in a folder that cannot be written to, beside the answers.
DRIVER = """
import contextlib, os, runpy, sys
os.chdir("../input")
sys.path.insert(0, os.getcwd())
sys.argv = [os.path.abspath("evaluator.py"), "--submission_path", os.path.abspath("submission.csv")]
with contextlib.suppress(SystemExit):
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class Evaluated:
    """An evaluator script, and the scores of the generator's submissions (HANDED_IN) by the record's metric."""

    script: str
    scores: dict[str, float]


def evaluate(talk: Talk, wanted: Specification, made: Developed, run_script: RunScript, rng: Any) -> Evaluated:
    """An evaluator that can be trusted on the submissions that it was tried on. `rng` is a numpy RandomState."""
    environment = made.environment
    thresholds = {f"{name}_threshold": environment.thresholds[name] for name in NAMES}
    sample = environment.files["sample_submission.csv"].decode().split("\n")[:4]
    prompt = prompts.render(
        "task-evaluator",
        specification=wanted.text,
        generator=made.script[:MOST_SHOWN],
        metric=f"{wanted.metric_title}: {wanted.metric_definition}",
        lower_is_better=str(wanted.lower_is_better),
        thresholds=dumps(thresholds),
        sample="\n".join(sample),
        key=wanted.key,
        columns=", ".join(wanted.columns),
        cells=WORDS[wanted.form],
    )
    trials = _sound(environment, wanted, rng)
    refused = _broken(environment, wanted)
    by_name = named(environment, wanted) if wanted.metric != CUSTOM else None

    def read(reply: str) -> Evaluated:
        script = code_of(reply)
        trial = _Trial(script, environment, wanted, run_script)
        scores = {name: trial.score(name, content, seed) for seed, (name, content) in enumerate(trials.items())}
        if trial.score(DUMMY, trials[DUMMY], len(trials)) != scores[DUMMY]:
            raise Faulty(f"two runs of the evaluator on {DUMMY} give different scores")
        if abs(scores[NOISY] - scores[REVERSED]) > 1e-9 * max(1.0, abs(scores[NOISY])):
            raise Faulty(f"the score depends on the order of the rows: merge on {wanted.key}")
        for name, content in refused.items():
            trial.refuses(name, content)
        if by_name is not None:
            scores = {name: _agreed(name, scores[name], by_name(name, content)) for name, content in trials.items()}
        check_scores(environment, wanted, scores)
        return Evaluated(script, {name: round(scores[name], 5) for name in HANDED_IN})

    return talk.until("evaluator", prompt, read, ATTEMPTS)


def _agreed(name: str, told: float, right: float) -> float:
    """The named metric's score. Faulty where the script's differs by more than rounding."""
    if abs(told - right) > TOLERANCE * max(1.0, abs(right)):
        raise Faulty(
            f"the evaluator gives {name} the score {told:.6g}; by the definition of the metric it is {right:.6g}"
        )
    return right


@dataclass(frozen=True)
class _Trial:
    """One evaluator script beside the answers of one task."""

    script: str
    environment: Environment
    wanted: Specification
    run_script: RunScript

    def said(self, name: str, submission: bytes, seed: int) -> Mapping[str, object]:
        """The JSON object that the script prints about a submission."""
        inputs = {
            SCRIPT: self.script.encode(),
            ANSWERS: self.environment.files[ANSWERS],
            "submission.csv": submission,
        }
        run = self.run_script(DRIVER, inputs, seed)
        if run.status != "ok":
            raise Faulty(f"the evaluator cannot be used: on {name} {what_went_wrong(run)}")
        last = run.stdout.strip().rpartition(b"\n")[2]
        try:
            value = loads(last)
        except ValueError as error:
            shown = last.decode("utf-8", errors="replace")[:300]
            raise Faulty(f"on {name} the last line that the evaluator prints is no JSON ({error}): {shown!r}") from None
        if not isinstance(value, Mapping):
            raise Faulty(f"on {name} the last line that the evaluator prints is no JSON object")
        return value

    def score(self, name: str, submission: bytes, seed: int) -> float:
        """The score of a sound submission, with thresholds and direction as they were given."""
        said = self.said(name, submission, seed)
        if said.get("error"):
            raise Faulty(f"the evaluator refuses {name}, which is sound: {str(said['error'])[:500]}")
        score = _number(said, "score", name)
        for threshold in NAMES:
            right = self.environment.thresholds[threshold]
            if abs(_number(said, f"{threshold}_threshold", name) - right) > TOLERANCE * max(1.0, abs(right)):
                raise Faulty(f"{threshold}_threshold must be {right:g}, as given")
        if said.get("is_lower_better") is not self.wanted.lower_is_better:
            raise Faulty(f"is_lower_better must be {dumps(self.wanted.lower_is_better)}")
        return score

    def refuses(self, name: str, submission: bytes) -> None:
        """Faulty unless a broken submission gets an error and no score."""
        said = self.said(name, submission, 0)
        if not said.get("error") or said.get("score") is not None:
            raise Faulty(
                f'{name} must give an object with "error" and no score; the evaluator printed {dumps(dict(said))[:300]}'
            )


def _number(said: Mapping[str, object], key: str, name: str) -> float:
    value = finite(said.get(key))
    if value is None:
        raise Faulty(f"on {name} the evaluator prints no number {key}")
    return value


def _sound(made: Environment, wanted: Specification, rng: Any) -> dict[str, bytes]:
    """Submissions by name: those HANDED_IN, answers with noise, shuffled answers, the noise in another order."""
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


def _broken(made: Environment, wanted: Specification) -> dict[str, bytes]:
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
