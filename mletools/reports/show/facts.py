"""What a rollout record says, as short words: scores, costs, statuses."""

from collections.abc import Mapping
from typing import Any

from ..turns import runs_after

Record = Mapping[str, Any]


def number(value: float | None) -> str:
    """A score, with as many digits as grading keeps; `-` for none."""
    return "-" if value is None else f"{value:.6g}"


def tokens(usage: Record | None) -> str:
    """Of the prompt and of the answer, as `1,234 + 56`."""
    counts = [(usage or {}).get(name) for name in ("prompt_tokens", "completion_tokens")]
    if counts == [None, None]:
        return "-"
    return " + ".join("?" if count is None else f"{count:,}" for count in counts)


def usd(usage: Record | None) -> str:
    value = (usage or {}).get("usd")
    return "-" if value is None else f"{value:.4f}"


def spent(used: Record) -> str:
    """Tokens, seconds and USD in one line."""
    told = "tokens not told" if tokens(used) == "-" else f"{tokens(used)} tokens"
    took = "" if used.get("seconds") is None else f", {used['seconds']:.1f} s"
    return told + took + ("" if usd(used) == "-" else f", {usd(used)} USD")


def seconds(rollout: Record) -> float:
    """Of asking and running together; the usage of a rollout that ran nothing itself has the asking alone."""
    after = (rollout.get("execution") or {}).get("duration_s", 0.0) if runs_after(rollout) else 0.0
    return float(rollout["usage"]["seconds"] + after)


def shown_score(verdict: Record | None) -> str:
    """A validation or test score: the number, `invalid`, or `-` where nothing was handed in."""
    if verdict is None:
        return "-"
    return number(verdict.get("score")) if verdict.get("valid") else "invalid"


def task_name(rollout: Record) -> str:
    return str(rollout["task"].get("name") or rollout["task"]["id"])
