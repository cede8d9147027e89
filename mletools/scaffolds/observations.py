"""What a policy is told of a program that ran and of what it handed in: plain words, never a test score unless revealed.

Covered: head and tail of the output, in a fence that it cannot close, the status in words, the score on the validation rows. Not covered: when it is told.
"""

from collections.abc import Mapping
from typing import Any

from .quoting import fenced, shown

MOST = 6000  # characters of an output

WORDS = {
    "ok": "The program ended normally",
    "error": "The program failed",
    "timeout": "The program ran too long and was stopped",
    "memory": "The program needed too much memory and was stopped",
    "disk": "The program wrote too much to the disk and was stopped",
    "output": "The program printed too much and was stopped",
    "killed": "The program was ended by a signal",
}


def text_of(output: Mapping[str, Any], most: int = MOST) -> str:
    """A recorded output as text of at most about `most` characters, all that is hidden in it spelled out."""
    head, tail, left_out = output["head"], output["tail"], 0
    if tail:
        left_out = max(0, output["bytes"] - len(head.encode()) - len(tail.encode()))
    text = head if not tail else f"{head}\n[... {left_out} bytes left out ...]\n{tail}" if left_out else head + tail
    text = shown(text)
    if len(text) > most:
        text = f"{text[: most // 3]}\n[... {len(text) - most} characters left out ...]\n{text[-(most - most // 3) :]}"
    return text.strip("\n")


def after(seconds: float) -> str:
    """How long something took, in whole seconds: measured times differ, and what a policy reads should not."""
    return f"after {seconds:.0f} s" if seconds >= 1 else "in less than a second"


def ran(execution: Mapping[str, Any]) -> str:
    """How a program ended, in seconds and words, and what it printed."""
    code = f" with exit code {execution['exit_code']}" if execution["exit_code"] else ""
    sentences = [f"{WORDS[execution['status']]}{code} {after(execution['duration_s'])}."]
    for name in ("stdout", "stderr"):
        text = text_of(execution[name])
        if text:
            sentences.append(f"{name}:\n{fenced(text)}")
    if len(sentences) == 1:
        sentences.append("It printed nothing.")
    return "\n\n".join(sentences)


def handed_in(execution: Mapping[str, Any]) -> str:
    """Whether there is a submission, without judging it."""
    if execution["submission"] is None:
        return f"There is nothing to score: {execution['submission_problem']}."
    return f"submission.csv was written ({execution['submission']['bytes']} bytes)."


def judged(turn: Mapping[str, Any], task: Mapping[str, Any], revealed: bool) -> str:
    """What is said of a turn's submission: its score on the validation rows, or on the test rows where `revealed`.

    Without a validation split only whether the file is valid.
    """
    verdict = turn.get("grade") if revealed else turn.get("validation") or turn.get("grade")
    if verdict is None:
        return "There is no submission.csv to score."
    if not verdict["valid"]:
        return f"submission.csv is invalid: {verdict['reason']}"
    if not revealed and turn.get("validation") is None:
        return "submission.csv is valid. No score is told in this task."
    metric = task["metric"]
    direction = "lower is better" if metric["lower_is_better"] else "higher is better"
    rows = "test rows" if revealed else "validation rows"
    return (
        f"submission.csv is valid. {metric.get('name', 'The score')} on the {rows}: {verdict['score']:g} ({direction})."
    )
