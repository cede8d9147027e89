"""What a rollout record says, as short words: scores, costs, statuses; and which message and program belong to a turn."""

from collections.abc import Mapping
from typing import Any

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


def ran(turn: Record) -> Record | None:
    """The execution or the cell of a turn."""
    return turn.get("execution") or turn.get("cell")


def shown_score(verdict: Record | None) -> str:
    """A validation or test score: the number, `invalid`, or `-` where nothing was handed in."""
    if verdict is None:
        return "-"
    return number(verdict.get("score")) if verdict.get("valid") else "invalid"


def task_name(rollout: Record) -> str:
    return str(rollout["task"].get("name") or rollout["task"]["id"])


def best_so_far(rollout: Record) -> list[float | None]:
    """After each turn, the best validation score that the agent was shown until then; of a node, what its search goes by."""
    pick = min if rollout["task"]["metric"]["lower_is_better"] else max
    best: float | None = (rollout.get("state") or {}).get("validation")
    found = []
    for turn in rollout["turns"]:
        score = (turn.get("node") or turn.get("validation") or {}).get("score")
        if score is not None:
            best = score if best is None else pick(best, score)
        found.append(best)
    return found


def places(rollout: Record) -> list[int | None]:
    """For each turn the place of the policy's message; None where there is none."""
    messages = rollout["messages"]
    own = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    sampled = [at for at in own if messages[at].get("loss")] or own
    found: list[int | None] = []
    for at, turn in enumerate(rollout["turns"]):
        place = turn.get("message", sampled[at] if at < len(sampled) else None)
        found.append(
            int(place) if place is not None and place < len(messages) else None
        )  # 1.0 is a whole number in JSON
    return found


def programs(rollout: Record) -> list[str | None]:
    """The code of each turn; of a rollout that is run after its turns, the last has written the program at the top."""
    found = [turn.get("code") for turn in rollout["turns"]]
    if found and runs_after(rollout):
        found[-1] = rollout["code"]
    return found


def runs_after(rollout: Record) -> bool:
    """Whether no turn ran anything: mle-sandbox does, later."""
    return not any(turn.get("code") or ran(turn) for turn in rollout["turns"])


def kind_of(turn: Record) -> str:
    """Which programs a program is compared with: `bash`, `cell` (of a session) or `program`."""
    return "bash" if turn["action"] == "bash" else "cell" if "cell" in turn else "program"
