"""Attacks on the submission and on the outcome: links, special files, forged messages, forged exit codes.

Covered: links, pipes, devices, folders, sizes, a file swapped after the end, a replaced work folder, output that looks
like the sandbox's messages. Not covered: the content of a submission (see the grader).
"""

from ..interface import Limits, Outcome
from .attack import Attack, Rule, Verdict, no_submission, programs, runs_to_end, status_and_error
from .targets import AttackTargets


def _not_swapped(outcome: Outcome, targets: AttackTargets) -> Verdict:
    if outcome.submission not in (b"mine", None):
        return Verdict(False, "the submission was swapped after the end")
    return runs_to_end(outcome, targets)


def _recorded_as(status: str, exit_code: int | None) -> Rule:
    def rule(outcome: Outcome, targets: AttackTargets) -> Verdict:
        if (outcome.status, outcome.exit_code) != (status, exit_code) or outcome.submission is not None:
            return Verdict(False, f"recorded as {status_and_error(outcome)}, exit code {outcome.exit_code}")
        return Verdict(True, f"recorded as {status}")

    return rule


def _no_late_output(outcome: Outcome, targets: AttackTargets) -> Verdict:
    if b"too late" in outcome.stdout:
        return Verdict(False, "a child wrote after its parent's end")
    return runs_to_end(outcome, targets)


_LIMITS = Limits(wall_s=20.0, submission_mb=1)
_RULES = {
    "swapped after the end": _not_swapped,
    "forged sandbox messages": _recorded_as("error", 3),
    "forged exit code from a child": _recorded_as("killed", None),
    "output after the end": _no_late_output,
}
_CONCURRENT = {"overwriting a concurrent submission", "writing into other processes' output"}
ATTACKS = (
    *(Attack(name, "submission", code, no_submission, _LIMITS) for name, code in programs("not_accepted").items()),
    *(
        Attack(name, group, code, _RULES.get(name, runs_to_end), concurrent=name in _CONCURRENT)
        for group, file in (("submission", "submissions"), ("forgery", "forgery"))
        for name, code in programs(file).items()
    ),
)
