"""The page's view of one graded rollout beside its GradedRun: the stage that it reached, and its row in the table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..runs import GradedRun, graded_run
from ..show import facts
from ..show.visible import visible_line

# Stages of a rollout, each a subset of the one before.
STAGES = ("rollouts", "with a program", "ran without error", "submission", "valid", "above median", "medal")
MEDALS = ("gold", "silver", "bronze")
COLUMNS = (
    *("id", "set", "task", "modality", "scaffold", "policy", "turns", "stopped", "status", "valid", "medal", "score"),
    *("reward", "human_rank", "seconds", "execution_s", "tokens", "usd", "filter", "block", "place"),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A rollout on the page. version: of its policy, if it is a number; execution_s: seconds of the graded program."""

    run: GradedRun
    set: str
    name: str
    modality: str
    problem: str
    split: str | None  # difficulty in a benchmark (MLE-bench: low, medium, high)
    mutations: int | None
    scaffold: str
    model: str
    version: int | None
    turns: int
    stop_reason: str
    status: str | None
    execution_s: float | None
    submitted: bool
    coded: bool
    markers: int | None  # progress reports that arrived; None: it was not instrumented
    dropped: str | None  # the filter's reason; None: kept, or not filtered
    filtered: bool

    @property
    def stage(self) -> int:
        """The number of STAGES that it reached."""
        run = self.run
        reached = (
            True,
            self.coded,
            self.status == "ok",
            self.submitted,
            run.valid,
            run.above_median,
            run.medal is not None,
        )
        # a program may fail after its submission, and a medal may need less than the median: the last stage counts
        return max(at + 1 for at, passed in enumerate(reached) if passed)


def shown(rollout: Mapping[str, Any], label: str) -> Shown:
    """The Shown of a graded rollout record."""
    task, execution = rollout["task"], rollout.get("execution") or {}
    version = rollout["policy"]["version"]
    mutations, split = (task.get("provenance", {}).get(name) for name in ("mutations", "split"))
    decision = rollout.get("filter")
    return Shown(
        run=graded_run(rollout),
        set=visible_line(label),
        name=visible_line(facts.task_name(rollout)),
        modality=visible_line(task.get("modality") or "unknown"),
        problem=visible_line(task.get("problem") or "unknown").replace("_", " "),
        split=visible_line(split) if isinstance(split, str) else None,
        mutations=len(mutations) if isinstance(mutations, list) else None,
        scaffold=rollout["scaffold"],
        model=rollout["policy"]["model"],
        version=version if isinstance(version, int) and not isinstance(version, bool) else None,
        turns=len(rollout["turns"]),
        stop_reason=rollout["stop_reason"],
        status=execution.get("status"),
        execution_s=execution.get("duration_s"),
        submitted=bool(execution.get("submission")),
        coded=rollout["code"] is not None,
        markers=len(execution.get("markers", ())) if rollout.get("instrument") or "watched" in execution else None,
        dropped=(decision.get("reason") or "dropped") if decision and not decision["kept"] else None,
        filtered=decision is not None,
    )


def cells(each: Shown, place: tuple[int, int]) -> list[Any]:
    """The row of COLUMNS. place: the position of its details, block and index."""
    run = each.run
    tokens = None if run.completion_tokens is None else (run.prompt_tokens or 0) + run.completion_tokens
    policy = each.model if each.version is None else f"{each.model} {each.version}"
    return [
        *(run.id, each.set, each.name, each.modality, each.scaffold, policy, each.turns, each.stop_reason),
        *(each.status, run.valid, run.medal, _short(run.score), _short(run.reward), _short(run.human_rank)),
        *(round(run.seconds, 1), None if each.execution_s is None else round(each.execution_s, 2), tokens),
        *(_short(run.usd), each.dropped or ("kept" if each.filtered else None), *place),
    ]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
