"""Tasks that say what a submission must look like."""

from typing import Any

NUMBERS = {"id": ["id"], "target": ["y"], "parse": "number", "rows": 3}


def task(metric: str = "rmse", params: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    submission = {**NUMBERS, **more.pop("submission", {})}
    return {
        "submission": submission,
        "metric": {"name": metric, "params": params or {}, **more.pop("rule", {})},
        **more,
    }
