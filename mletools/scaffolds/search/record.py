"""The rollout of a search, whose turns are its nodes, and those of its steps, each an answer of the policy's.

Covered: what was handed in, cost by phase, steps with the score before and after them. Not covered: rewards (mle-grade).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ...records.ids import content_id
from ..facts import split_told, tell
from ..handing_in import NOTHING_RAN
from ..interface import Job
from .components import COMPONENTS
from .graph import Graph, added
from .interfaces import Choice
from .settings import SearchSettings


def search_record(
    job: Job[SearchSettings], graph: Graph, choice: Choice, usage: Mapping[str, Mapping[str, Any]], clock: float
) -> dict[str, Any]:
    """The rollout record of a search that took `clock` seconds of its clock; lineage is left empty."""
    settings = job.settings
    chosen = None if choice.number is None else graph.details(choice.number)
    question = tell("task", job.task, split=split_told(settings.validation > 0, settings.reveal_test))
    total = added(usage["research"], usage["develop"])
    return {
        **_head(job, job.id, job.group, job.group_size),
        "messages": [{"role": "user", "content": question}],
        "turns": [_turn(graph.details(number)) for number in range(len(graph))],
        "usage": {**total, "seconds": round(total["seconds"], 4)},
        "stop_reason": "finished",
        "code": None if chosen is None else chosen["code"],
        "validation": None if chosen is None else chosen["validation"],
        "search": {
            "preset": settings.preset,
            "components": {
                kind: {"name": getattr(settings, kind), "constants": settings.constants[kind]} for kind in COMPONENTS
            },
            "chosen": choice.number,
            "how": choice.how,
            "candidates": [dict(each) for each in choice.candidates],
            "budget": {"seconds": settings.max_seconds, "nodes": settings.max_turns, "usd": settings.max_usd},
            "elapsed_s": round(clock, 4),
            "cost": {phase: dict(used) for phase, used in usage.items()},
        },
        "execution": dict(NOTHING_RAN) if chosen is None else chosen["execution"],
    }


def _turn(node: Mapping[str, Any]) -> dict[str, Any]:
    """A node as a turn of the record: all but its conversations."""
    turn = {
        "action": node["operation"],
        "duration_s": node["seconds"],
        "problem": node["problem"],
        "usage": added(node["usage"]["research"], node["usage"]["develop"]),
        "code": node["code"],
        "validation": node["validation"],
        "grade": node["grade"],
        "node": {
            **{name: node[name] for name in ("number", "parents", "branch", "depth", "repairs", "round", "stage")},
            **{name: node[name] for name in ("hypothesis", "component", "why", "score", "lesson", "trials")},
            **node["idea"],
            "elapsed_s": node["elapsed"],
            "cost": node["usage"],
        },
    }
    return turn if node["execution"] is None else {**turn, "execution": node["execution"]}


def step_records(job: Job[SearchSettings], graph: Graph) -> Iterator[dict[str, Any]]:
    """A rollout for each answer of the policy's in the graph, with what came of its node; lineage is left empty."""
    for number in range(len(graph)):
        node = graph.details(number)
        before = graph.details(node["parents"][0]) if node["parents"] else None
        for place, asked in enumerate(node["asked"]):
            if asked["who"] == "policy":
                yield _step(job, node, before, place, asked)


def _step(
    job: Job[SearchSettings],
    node: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    place: int,
    exchange: Mapping[str, Any],
) -> dict[str, Any]:
    id = content_id(job.id, "step", node["number"], place)
    duration = exchange["usage"]["seconds"]
    return {
        **_head(job, id, id, 1),
        "messages": exchange["messages"],
        "turns": [
            {
                "action": exchange["role"].removeprefix("search-"),
                "duration_s": round(duration, 4),
                "message": len(exchange["messages"]) - 1,
                "problem": "malformed" if exchange.get("problem") else None,
                "usage": exchange["usage"],
            }
        ],
        "usage": {**exchange["usage"], "seconds": round(duration, 4)},
        "state": {
            "score": None if before is None else (before["grade"] or {}).get("score"),
            "validation": None if before is None else (before["validation"] or {}).get("score"),
            "code": None if before is None else before["code"],
        },
        "step": {
            "search": job.id,
            "node": node["number"],
            "operation": node["operation"],
            "phase": exchange["phase"],
            "role": exchange["role"],
        },
        "format_rate": 0.0 if exchange.get("problem") else 1.0,
        "stop_reason": "format" if exchange.get("problem") else "finished",
        "code": node["code"],
        "validation": node["validation"],
        "execution": dict(NOTHING_RAN) if node["execution"] is None else node["execution"],
    }


def _head(job: Job[SearchSettings], id: str, group: str, group_size: int) -> dict[str, Any]:
    return {
        "kind": "rollout",
        "version": 1,
        "id": id,
        "lineage": [],
        "task": job.task,
        "group": group,
        "group_size": group_size,
        "sample": job.sample,
        "seed": job.seed,
        "scaffold": job.scaffold,
        "policy": job.policy,
        "settings": job.settings.as_record(),
    }
