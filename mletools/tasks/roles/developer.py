"""The ML developer: a script that makes the data, run twice in a sandbox until its files can be used.

Not covered: what the files must hold (environment), the sandbox.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ... import prompts
from ...base.errors import ToolError
from ...grading import score_bytes
from ..thresholds import ordered
from .asking import Faulty, RunScript, Talk
from .environment import ANSWERS, CEILING, HANDED_IN, Environment, read_environment
from .replies import code_of
from .scripts import what_went_wrong
from .specification import CUSTOM, WORDS, Specification

ATTEMPTS = 5


@dataclass(frozen=True)
class Developed:
    """A script and the environment that it makes."""

    script: str
    environment: Environment


def develop(talk: Talk, wanted: Specification, run_script: RunScript, seeds: tuple[int, int]) -> Developed:
    """A script that makes the specified data; with either of `seeds` for its random states, the same bytes."""
    prompt = prompts.render(
        "task-generator",
        specification=wanted.text,
        rows=str(wanted.rows),
        train_rows=str(wanted.rows - wanted.test_rows),
        test_rows=str(wanted.test_rows),
        key=wanted.key,
        targets=", ".join(wanted.targets),
        columns=", ".join([wanted.key, *wanted.columns]),
        cells=WORDS[wanted.form],
        metric=f"{wanted.metric_title}: {wanted.metric_definition}",
        direction=wanted.direction,
    )

    def read(reply: str) -> Developed:
        script = code_of(reply)
        files = _run(run_script, script, seeds[0])
        environment = read_environment(files, wanted)
        if wanted.metric != CUSTOM:
            scored = named(environment, wanted)
            check_scores(environment, wanted, {name: scored(name, files[file]) for name, file in HANDED_IN.items()})
        again = _run(run_script, script, seeds[1])
        changed = sorted(name for name in files.keys() | again.keys() if files.get(name) != again.get(name))
        if changed:
            raise Faulty(
                f"two runs of the script do not give the same bytes: {', '.join(changed[:5])}; seed every generator,"
                " use no clock, no hash() and no order of a set"
            )
        return Developed(script, environment)

    return talk.until("developer", prompt, read, ATTEMPTS)


def _run(run_script: RunScript, script: str, seed: int) -> dict[str, bytes]:
    run = run_script(script, {}, seed)
    if run.status != "ok":
        raise Faulty(f"the script cannot be used: {what_went_wrong(run)}")
    return run.files


def named(environment: Environment, wanted: Specification) -> Callable[[str, bytes], float]:
    """A function of (name of a submission, its bytes): the named metric's score. Faulty where there is none."""
    grading = environment.grading(wanted)
    answers = environment.files[ANSWERS]

    def scored(name: str, submission: bytes) -> float:
        try:
            value = float(score_bytes(grading, answers, submission))
        except (ValueError, ToolError) as error:
            raise Faulty(f"{wanted.metric} of {name} cannot be computed: {error}") from None
        if not math.isfinite(value):
            raise Faulty(f"{wanted.metric} of {name} is no finite number")
        return value

    return scored


def check_scores(environment: Environment, wanted: Specification, scores: Mapping[str, float]) -> None:
    """Faulty unless dummy < median < bronze < silver < gold < ceiling in the metric's direction (SandMLE eq. 1).

    `scores` are those of the submissions HANDED_IN; the answers themselves must reach the ceiling.
    """
    dummy, best, ceiling = (round(scores[name], 5) for name in HANDED_IN)
    thresholds, sign = environment.thresholds, -1 if wanted.lower_is_better else 1
    gold = thresholds["gold"]
    if not ordered(dummy, thresholds, wanted.lower_is_better):
        raise Faulty(
            f"the sample submission scores {dummy:g}, which is not worse than the median threshold"
            f" {thresholds['median']:g} ({wanted.direction}): the dummy must lie below every threshold"
        )
    if sign * ceiling <= sign * gold:
        raise Faulty(f"{CEILING} scores {ceiling:g}, which is not better than the gold threshold {gold:g}")
    if sign * best < sign * ceiling:
        raise Faulty(f"the answers themselves score {best:g}, worse than {CEILING}, {ceiling:g}: is the metric right?")
