"""Checks that any task can be put to, whoever made it: thresholds, leaks, answers, description, evaluator.

`examine` looks at a Case, which is a task's record, its files in memory or on disk, and its evaluator; `read_case` reads
one from a folder. Each check is one function of a View, and a new check is one more in CHECKS. It returns "" where the
task passes and else the reason. `require` examines a draft, whose record may lack what its checks do not read. Not
covered: duplicates among several tasks.
"""

from collections.abc import Callable, Sequence

from ...base.errors import ToolError
from ..table import Rejected
from . import difficulty, facts, leaks, page, secrets
from .case import Case, Skipped, Trial, Trials, read_case
from .view import View

CHECKS: dict[str, Callable[[View], str]] = {
    "thresholds_ordered": difficulty.thresholds_ordered,
    "gold_reachable": difficulty.gold_reachable,
    "medals_stable": difficulty.medals_stable,
    "ceiling_above_gold": difficulty.ceiling_above_gold,
    "learnable": difficulty.learnable,
    "not_trivial": difficulty.not_trivial,
    "no_leak_ids": leaks.no_leak_ids,
    "no_leak_row_order": leaks.no_leak_row_order,
    "no_leak_file_names": leaks.no_leak_file_names,
    "no_leak_file_sizes": leaks.no_leak_file_sizes,
    "no_leak_timestamps": leaks.no_leak_timestamps,
    "no_leak_metadata": leaks.no_leak_metadata,
    "train_test_separate": secrets.train_test_separate,
    "sample_uninformative": leaks.sample_uninformative,
    "answers_secret": secrets.answers_secret,
    "evaluator_deterministic": difficulty.evaluator_deterministic,
    "runs_in_time": difficulty.runs_in_time,
    "description_complete": page.description_complete,
    "description_true": facts.description_true,
}
PASSED = "passed"


def examine(case: Case, names: Sequence[str] = ()) -> dict[str, str]:
    """{check: "passed", "skipped: why" or "failed: why"} of every check, or of those of these names.

    ToolError names an unknown check. What the case's own functions raise beyond what Case promises goes through.
    """
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise ToolError(f"unknown check {unknown[0]!r}: known are {', '.join(CHECKS)}")
    view = View(case)
    return {name: _outcome(name, view) for name in names or CHECKS}


def failures(outcomes: dict[str, str]) -> dict[str, str]:
    """{check: reason} of the checks that failed."""
    return {name: told.removeprefix("failed: ") for name, told in outcomes.items() if told.startswith("failed: ")}


def require(case: Case, names: Sequence[str] = ()) -> dict[str, str]:
    """As `examine`. Rejected with the reasons where a check fails."""
    outcomes = examine(case, names)
    failed = failures(outcomes)
    if failed:
        raise Rejected("; ".join(f"{name}: {reason}" for name, reason in failed.items()))
    return outcomes


def _outcome(name: str, view: View) -> str:
    try:
        reason = CHECKS[name](view)
    except Skipped as skipped:
        return f"skipped: {skipped}"
    except difficulty.NoScore as none:
        return f"failed: a submission that ought to have a score has none: {none}"
    return f"failed: {reason}" if reason else PASSED


__all__ = ["CHECKS", "PASSED", "Case", "Trial", "Trials", "examine", "failures", "read_case", "require"]
