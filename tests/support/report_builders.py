"""Rollouts for reports, and the rows of the tables that come of them."""

from collections.abc import Sequence
from typing import Any

from mletools.records import schema
from mletools.reports.runs import RunSet, graded_run
from mletools.reports.summary import summaries


def rollout(task: str, sample: int, score: float | None = None, **more: Any) -> dict[str, Any]:
    """A graded rollout, as small as the schema lets it be; invalid without a score."""
    lower = more.pop("lower", False)
    ranked: dict[str, Any] = {
        name: more.pop(name) for name in ("human_rank", "human_rank_rule", "normalised_score", "teams") if name in more
    }
    seed, usage = more.pop("run_seed", 0), more.pop("usage", {})
    rule: dict[str, Any] = more.pop("rule", {"rule": "milestone", "format_rate": 1.0})
    grade: dict[str, Any] = {
        "valid": score is not None, "reason": None, "score": score, "medal": more.pop("medal", None),
        "above_median": more.pop("above_median", False), "metric": more.pop("metric", "auc"), "lower_is_better": lower,
        "digest": None, "reward": rule, **ranked,
    }  # fmt: skip
    told = {
        "kind": "task", "version": 1, "id": task, "lineage": [], "name": task, "description": "", "modality": "tabular",
        "problem": "regression", "data": {"dir": task, "public": [], "digest": "", "private_digest": ""},
        "submission": {"id": ["id"], "target": ["y"], "parse": "number", "rows": 1},
        "metric": {"name": grade["metric"], "params": {}, "lower_is_better": lower}, "answers": "private/answers.csv",
        "provenance": {"source": "by hand", "seed": 0},
    }  # fmt: skip
    lineage = [{"tool": "mle-rollout", "version": "0.1.0", "options": {}, "seed": seed}]
    return {
        "kind": "rollout", "version": 1, "id": f"{task}-{seed}-{sample}", "lineage": lineage, "task": told,
        "group": f"{task}-{seed}", "group_size": 1, "sample": sample, "seed": 0, "scaffold": "single",
        "policy": {"model": "scripted", "version": 1, "sampling": {}}, "messages": [{"role": "user", "content": ""}],
        "turns": [], "usage": {"prompt_tokens": None, "completion_tokens": None, "seconds": 1.0, "usd": None, **usage},
        "stop_reason": "finished", "code": None, "grade": grade, "reward": None, **more,
    }  # fmt: skip


def a_set(label: str, *rollouts: dict[str, Any]) -> RunSet:
    run_set = RunSet(label)
    for one in rollouts:
        run_set.add(graded_run(one))
    return run_set


def rows(sets: Sequence[RunSet], **options: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """The summaries by task and set, each checked against its schema."""
    found = summaries(sets, **options)
    for record in found:
        schema.check(record, "summary")
    return {(record["task"], record["set"]): record for record in found}
