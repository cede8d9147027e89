"""Whether the job that a rollout was imported from graded its submission as mle-grade does. Not covered: other rewards."""

import math

from ..records.rollout import Rollout

_CLOSE = 1e-6  # relative: a job may round its score


def difference(rollout: Rollout) -> str | None:
    """How the verdict of the job differs from the grade, in words; None: it does not, or the job gives none of these."""
    trial, grade = rollout.get("trial"), rollout["grade"]
    if trial is None:
        return None
    given, score = trial["rewards"], grade["score"]
    if "valid" in given and (given["valid"] > 0) != grade["valid"]:
        return f"the job calls its submission {_word(given['valid'] > 0)}, mle-grade {_word(grade['valid'])}"
    if "score" in given and (score is None or not math.isclose(given["score"], score, rel_tol=_CLOSE, abs_tol=1e-12)):
        own = "without a score" if score is None else f"with {score:g}"
        return f"the job graded its submission with {given['score']:g}, mle-grade {own}"
    return None


def _word(valid: bool) -> str:
    return "valid" if valid else "invalid"
