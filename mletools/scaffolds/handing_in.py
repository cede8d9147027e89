"""What an episode hands in, out of its turns: the program and its execution, as the record has them at its top.

Covered: programs that were only tried, sessions of many cells, episodes in which nothing ran. Not covered: which turn's
submission it is (episode).
"""

from collections.abc import Mapping, Sequence
from typing import Any

NOTHING_RAN: dict[str, Any] = {
    "by": "mle-rollout",
    "status": "no_code",
    "exit_code": None,
    "duration_s": 0.0,
    "cpu_s": 0.0,
    "peak_memory_mb": 0.0,
    "stdout": {"head": "", "tail": "", "bytes": 0},
    "stderr": {"head": "", "tail": "", "bytes": 0},
    "markers": [],
    "submission": None,
    "submission_problem": "no code",
    "backend": None,
    "start": None,
    "gpu": None,
    "protections": {},
    "limits": {},
}


def code_of(turns: Sequence[Mapping[str, Any]], submission_turn: Mapping[str, Any] | None) -> str | None:
    """The program whose submission is handed in, in turn `handed`; of a session all its Python cells up to there.

    Without a submission the last program that ran, None where none did.
    """
    if submission_turn is None:
        return next((each["code"] for each in reversed(turns) if each.get("execution")), None)
    if "cell" not in submission_turn:
        return str(submission_turn["code"])
    upto = list(turns)[: list(turns).index(submission_turn) + 1]
    ends = [at for at, each in enumerate(upto[:-1]) if "cell" in each and not each["cell"]["alive"]]
    own = upto[ends[-1] + 1 :] if ends else upto
    cells = [each["code"] for each in own if each["action"] == "python" and "cell" in each]
    return "\n\n".join(cells) or None


def execution_of(
    turns: Sequence[Mapping[str, Any]], submission_turn: Mapping[str, Any] | None, box: Mapping[str, Any]
) -> dict[str, Any]:
    """`execution` of what is handed in; without that, of the last program that ran. `box`: what a session ran in."""
    turn = submission_turn or next((each for each in reversed(turns) if "execution" in each or "cell" in each), None)
    if turn is None:
        return dict(NOTHING_RAN)
    if "execution" in turn:
        execution = dict(turn["execution"])
        if turn is not submission_turn and execution["submission"] is not None:  # of a program that was only tried
            execution.update(submission=None, submission_problem="nothing was handed in")
        return execution
    cell = turn["cell"]
    return {
        "status": cell["status"],
        "exit_code": None,
        "duration_s": round(sum(each["cell"]["duration_s"] for each in turns if "cell" in each), 4),
        "cpu_s": None,
        "peak_memory_mb": None,
        "stdout": cell["output"],
        "stderr": {"head": "", "tail": "", "bytes": 0},
        "markers": [],
        "submission": turn.get("submission"),
        "submission_problem": turn.get("submission_problem"),
        **box,
    }
