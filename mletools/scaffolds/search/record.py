"""The rollout of a search, whose turns are its nodes, and those of its steps, one for each answer of the policy."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...records.ids import content_id
from ..episode import NOTHING_RAN
from .data import Choice
from .graph import Details, Graph, added
from .settings import COMPONENTS, SearchJob

NODE_FIELDS = (
    *("number", "parents", "branch", "depth", "repairs", "round", "stage"),
    *("hypothesis", "component", "why", "score", "lesson", "trials"),
)

NOTES = ("lenient", "fallbacks")  # absent if there are none


def search_record(
    job: SearchJob,
    task: str,
    graph: Graph,
    choice: Choice,
    usage: Mapping[str, Mapping[str, Any]],
    by_role: Mapping[str, Mapping[str, Any]],
    clock: float,
    notes: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The rollout of a search that took `clock` seconds on its clock, with the text `task` as its message.

    Lineage is left empty.

    usage: by phase, of models and programs. by_role: of the models' answers, by role.
    notes: {lenient, fallbacks} outside of nodes, each a list of {question, what}.
    """
    settings = job.settings
    chosen = None if choice.number is None else graph.details(choice.number)
    total = added(usage["research"], usage["develop"])
    return {
        **_head(job, job.id, job.group, job.group_size),
        "messages": [{"role": "user", "content": task}],
        "turns": [_turn(graph.details(number), graph) for number in range(len(graph))],
        "usage": {**total, "seconds": round(total["seconds"], 4)},
        "usage_by_role": {role: {**used, "seconds": round(used["seconds"], 4)} for role, used in by_role.items()},
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
            "candidates": [dict(candidate) for candidate in choice.candidates],
            "budget": {"seconds": settings.max_seconds, "nodes": settings.max_turns, "usd": settings.max_usd},
            "elapsed_s": round(clock, 4),
            "cost": {phase: dict(used) for phase, used in usage.items()},
            **_note_counts(graph, notes),
        },
        "execution": dict(NOTHING_RAN) if chosen is None else chosen["execution"],
    }


def _note_counts(graph: Graph, notes: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """{lenient, fallbacks}: their numbers by question, in nodes and outside of them; only those that are not zero."""
    counts = {name: Counter[str]() for name in NOTES}
    for holder in (*notes, *(graph.details(number) for number in range(len(graph)))):
        for name, count in counts.items():
            count.update(note["question"] for note in holder.get(name, ()))
    return {name: dict(sorted(count.items())) for name, count in counts.items() if count}


def _turn(node: Details, graph: Graph) -> dict[str, Any]:
    """A node as a turn of the record, without its conversations."""
    told = graph.told(node)
    turn = {
        "action": node["operation"],
        "duration_s": node["seconds"],
        "problem": node["problem"],
        "usage": added(node["usage"]["research"], node["usage"]["develop"]),
        **{name: node[name] for name in ("code", "validation", "grade")},
        **({"shown_score": told} if told is not None else {}),
        "node": {
            **{name: node[name] for name in NODE_FIELDS},
            **node["idea"],
            **{name: node[name] for name in NOTES if name in node},
            "elapsed_s": node["elapsed"],
            "cost": node["usage"],
        },
    }
    return turn if node["execution"] is None else {**turn, "execution": node["execution"]}


def step_records(job: SearchJob, graph: Graph) -> Iterator[dict[str, Any]]:
    """A rollout for each answer of the policy in the graph, with the result of its node. Lineage is left empty."""
    for number in range(len(graph)):
        node = graph.details(number)
        before = graph.details(node["parents"][0]) if node["parents"] else {}
        for index, exchange in enumerate(node["asked"]):
            if exchange["who"] == "policy":
                yield _step(job, node, before, index, exchange)


def _step(job: SearchJob, node: Details, before: Details, index: int, exchange: dict[str, Any]) -> dict[str, Any]:
    id = content_id(job.id, "step", node["number"], index)
    malformed, seconds = bool(exchange.get("problem")), round(exchange["usage"]["seconds"], 4)
    usage = {**exchange["usage"], "seconds": seconds}
    return {
        **_head(job, id, id, 1),
        "messages": exchange["messages"],
        "turns": [
            {
                "action": exchange["role"].removeprefix("search-"),
                "duration_s": seconds,
                "message": len(exchange["messages"]) - 1,
                "problem": "malformed" if malformed else None,
                "usage": usage,
            }
        ],
        "usage": usage,
        "usage_by_role": {"policy": usage},
        "state": {
            "score": (before.get("grade") or {}).get("score"),
            "validation": (before.get("validation") or {}).get("score"),
            "code": before.get("code"),
        },
        "step": {
            "search": job.id,
            "node": node["number"],
            "operation": node["operation"],
            "phase": exchange["phase"],
            "role": exchange["role"],
        },
        "format_rate": 0.0 if malformed else 1.0,
        "stop_reason": "format" if malformed else "finished",
        "code": node["code"],
        "validation": node["validation"],
        "execution": dict(NOTHING_RAN) if node["execution"] is None else node["execution"],
    }


def _head(job: SearchJob, id: str, group: str, group_size: int) -> dict[str, Any]:
    return {
        "kind": "rollout",
        "version": 1,
        "id": id,
        "lineage": [],
        "task": job.task,
        "group": group,
        "group_size": group_size,
        **{name: getattr(job, name) for name in ("sample", "seed", "scaffold", "policy")},
        "settings": job.settings.as_record(),
    }
