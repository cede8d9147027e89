"""Records of searches written by hand: nodes, and the rollout that they make."""

from typing import Any

from shown_rollouts import EXECUTION, FAILED, FIRST, rollout, score, usage

COMPONENTS = {
    "planning": {"name": "dynamic", "constants": {}},
    "paths": {"name": "adaptive", "constants": {"drafts": 2}},
    "reasoning": {"name": "scientific", "constants": {}},
    "memory": {"name": "kernel", "constants": {}},
    "coding": {"name": "efficient", "constants": {}},
    "evaluation": {"name": "aggregated", "constants": {}},
}


def verdict(value: float | None, medal: str | None = None, normalised: float | None = None) -> dict[str, Any]:
    """On the test, as a node keeps it; invalid without a score."""
    return {
        "valid": value is not None,
        "reason": None if value is not None else "3 rows are missing",
        "score": value,
        "medal": medal,
        "above_median": medal is not None,
        "human_rank": None,
        "normalised_score": normalised,
    }


def node(number: int, parents: tuple[int, ...], value: float | None, elapsed: float, **more: Any) -> dict[str, Any]:
    """A turn; without a score it failed. Of the node itself: hypothesis, round and the like; of the turn: grade, usage."""
    operation = more.pop("operation", "improve" if parents else "draft")
    own = {
        name: more.pop(name) for name in list(more) if name not in ("grade", "problem", "usage", "code", "duration_s")
    }
    phase = usage(50, 20, 0.01)
    return {
        "action": operation,
        "duration_s": 4.2,
        "problem": None if value is not None else "failed",
        "code": FIRST.replace("* 2", f"* {number + 2}"),
        "execution": FAILED if value is None else EXECUTION,
        "validation": None if value is None else score(value),
        "grade": None,
        "usage": usage(100, 40, 0.02),
        **more,
        "node": {
            "number": number,
            "parents": list(parents),
            "branch": 0,
            "depth": 0,
            "repairs": 0,
            "round": number,
            "hypothesis": f"Idea {number}.",
            "component": "Model",
            "score": value,
            "lesson": "",
            "elapsed_s": elapsed,
            "challenges": [],
            "challenge": None,
            "origin": None,
            "scores": {},
            "action": None,
            "considered": [],
            "recalled": [],
            "stage": "draft",
            "trials": [],
            "cost": {"research": phase, "develop": phase},
            **own,
        },
    }


def search(
    id: str, *nodes: dict[str, Any], lower: bool = True, chosen: int | None = None, **more: Any
) -> dict[str, Any]:
    """A search of these nodes. `more`: fields of the rollout; budget and cost: of its search."""
    spent = {"research": usage(1000, 100, 0.5), "develop": usage(2000, 400, 1.25)}
    picked = next((turn for turn in nodes if turn["node"]["number"] == chosen), None)
    told = {
        "preset": "rd-agent",
        "components": COMPONENTS,
        "chosen": chosen,
        "how": "the best of its branch, run again",
        "candidates": [] if picked is None else [{"node": chosen, "score": picked["node"]["score"], "holdout": 1.25}],
        "budget": more.pop("budget", {"seconds": 100.0, "nodes": 500, "usd": None}),
        "elapsed_s": nodes[-1]["node"]["elapsed_s"] if nodes else 0.0,
        "cost": more.pop("cost", spent),
    }
    made = rollout(
        "search",
        id,
        messages=[{"role": "user", "content": "# Pond\n\nPredict y."}],
        turns=list(nodes),
        code=None if picked is None else picked["code"],
        validation=None if picked is None else picked["validation"],
        search=told,
        **more,
    )
    made["task"]["metric"]["lower_is_better"] = lower
    return made
