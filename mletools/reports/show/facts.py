"""What a rollout record says, as short words: scores, costs, statuses."""

from collections.abc import Mapping
from typing import Any

from ..turns import runs_after

Record = Mapping[str, Any]
ENDS = {  # of a search, see the schema
    "nodes": "it has as many nodes as it may",
    "seconds": "its time is used up",
    "tokens": "its tokens are used up",
    "usd": "its money is used up",
    "too_late": "less time was left than a node has taken on average",
    "user": "it was ended early",
    "paths": "its paths have nothing left to begin",
}


def number(value: float | None, form: str = ".6g") -> str:
    """A number, by default with as many digits as grading keeps; `-` for none."""
    return "-" if value is None else format(value, form)


def tokens(usage: Record | None) -> str:
    """Of the prompt and of the answer, as `1,234 + 56`."""
    counts = [(usage or {}).get(name) for name in ("prompt_tokens", "completion_tokens")]
    if counts == [None, None]:
        return "-"
    return " + ".join("?" if count is None else f"{count:,}" for count in counts)


def spent(used: Record | None, took: float | None = None, unknown: str = "tokens unknown") -> str:
    """Tokens, seconds (`took`, or else those of `used`) and USD in one line; `unknown`: instead of the tokens."""
    seconds, paid = took if took is not None else (used or {}).get("seconds"), usd(used)
    parts = (
        unknown if tokens(used) == "-" else f"{tokens(used)} tokens",
        "" if seconds is None else f"{seconds:.1f} s",
    )
    return ", ".join(filter(None, (*parts, "" if paid == "-" else f"{paid} USD")))


def usd(usage: Record | None) -> str:
    value = (usage or {}).get("usd")
    return "-" if value is None else f"{value:.4f}"


def seconds(rollout: Record) -> float:
    """Of asking and running together; the usage of a rollout that ran nothing itself has the asking alone."""
    after = (rollout.get("execution") or {}).get("duration_s", 0.0) if runs_after(rollout) else 0.0
    return float(rollout["usage"]["seconds"] + after)


def clock(seconds: float) -> str:
    """A time as `m:ss`, from an hour on `h:mm:ss`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def selection_scores(rollout: Record) -> dict[int, float]:
    """{node: its score on the selection rows}, of the nodes of a search that have one."""
    candidates = rollout["search"].get("candidates") or ()
    return {each["node"]: each["holdout"] for each in candidates if "node" in each and each.get("holdout") is not None}


def shown_score(verdict: Record | None) -> str:
    """A validation or test score: the number, `invalid`, or `-` where nothing was handed in."""
    if verdict is None:
        return "-"
    return number(verdict.get("score")) if verdict.get("valid") else "invalid"


def validated(verdict: Record | None) -> str:
    """A verdict on the validation rows, with its reason."""
    reason = f": {verdict['reason']}" if verdict and verdict.get("reason") else ""
    return "nothing was handed in" if verdict is None else shown_score(verdict) + reason


def task_name(rollout: Record) -> str:
    return str(rollout["task"].get("name") or rollout["task"]["id"])
