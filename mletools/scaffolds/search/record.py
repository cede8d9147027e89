"""The rollout of a search, whose turns are its nodes, and those of its steps, one for each answer of the policy."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypedDict

from ...base.errors import ToolError
from ...base.ids import content_id
from ...records.rollout import Candidate, Phase, PhaseUsage, Rollout, Search, SearchEnd, SearchNode, Turn, Usage
from ..episode import NOTHING_RAN
from .data import Choice
from .graph import Details, Exchange, Graph, Notes, added, notes_of
from .node_context import NO_USAGE
from .settings import PHASES, SearchJob


def search_record(
    job: SearchJob,
    task: str,
    graph: Graph,
    choice: Choice,
    usage: Mapping[Phase, Usage],
    by_role: Mapping[str, Usage],
    clock: float,
    notes: Sequence[Notes] = (),
    ended: SearchEnd | None = None,
) -> Rollout:
    """The rollout of a search that took `clock` seconds on its clock, with the text `task` as its message.

    ended: why no further node was begun. usage: by phase, of models and programs. by_role: of the models' answers, by role. notes: on answers outside of nodes.
    """
    settings = job.settings
    chosen = None if choice.number is None else graph.details(choice.number)
    total = added(usage["research"], usage["develop"])
    search: Search = {
        "preset": settings.preset,
        "components": {
            kind: {"name": name, "constants": settings.constants[kind]} for kind, name in settings.components().items()
        },
        "chosen": choice.number,
        "how": choice.how,
        "candidates": list(choice.candidates),
        "clock": "work" if settings.clock == "work" else "wall",
        "budget": {"seconds": settings.max_seconds, "nodes": settings.max_turns, "usd": settings.max_usd},
        "elapsed_s": round(clock, 4),
        "cost": _cost(usage),
    }
    if choice.ensemble is not None:
        search["ensemble"] = list(choice.members)
    if graph.taken_over:
        search["taken_over"] = graph.taken_over
    if ended is not None:
        search["ended"] = ended
    if settings.evaluation_asked is not None:
        search["evaluation_asked"] = settings.evaluation_asked
    counts = _note_counts(graph, notes)
    if counts["lenient"]:
        search["lenient"] = counts["lenient"]
    if counts["fallbacks"]:
        search["fallbacks"] = counts["fallbacks"]
    return job.rollout(
        settings=settings.as_record(),
        messages=[{"role": "user", "content": task}],
        turns=[_turn(graph.details(number), graph) for number in range(len(graph))],
        usage=_rounded(total),
        usage_by_role={role: _rounded(used) for role, used in by_role.items()},
        stop_reason="finished",
        code=None if chosen is None else chosen["code"],
        validation=None if chosen is None else chosen["validation"],
        search=search,
        execution=(chosen and chosen["execution"]) or NOTHING_RAN.copy(),
    )


def record_so_far(graph: Graph) -> tuple[Rollout, bool]:
    """The rollout of a graph's search as far as it has come, and whether it has ended. ToolError: the file does not say.

    Until then its usage is that of its nodes, its candidates are the nodes with a score on selection rows, and its stop
    reason says nothing.
    """
    about = graph.about()
    if about is None:
        raise ToolError(f"{graph.file}: does not say of what search it is; an earlier version wrote it")
    record, ended = about
    nodes = [graph.details(number) for number in range(len(graph))]
    record["turns"] = [_turn(details, graph) for details in nodes]
    if ended:
        return record, True
    cost = _cost({phase: graph.spent.get(phase, NO_USAGE) for phase in PHASES})
    parts = [
        Candidate(node=details["number"], score=details["score"], holdout=details["selection"]["verdict"]["score"])
        for details in nodes
        if "selection" in details
    ]
    search: Search = {**record["search"], "cost": cost, "elapsed_s": graph.elapsed, "candidates": parts}
    if graph.taken_over:
        search["taken_over"] = graph.taken_over
    usage = _rounded(added(cost["research"], cost["develop"]))
    return {**record, "search": search, "usage": usage, "usage_by_role": dict(graph.spent_by_role)}, False


def _cost(usage: Mapping[Phase, Usage]) -> PhaseUsage:
    return {"research": usage["research"], "develop": usage["develop"]}


def _rounded(used: Usage) -> Usage:
    return {**used, "seconds": round(used["seconds"], 4)}


def _note_counts(graph: Graph, notes: Sequence[Notes]) -> dict[Literal["lenient", "fallbacks"], dict[str, int]]:
    """The numbers of notes by question, in nodes and outside of them."""
    lenient, fallbacks = Counter[str](), Counter[str]()
    for each in (*notes, *(notes_of(graph.details(number)) for number in range(len(graph)))):
        lenient.update(note["question"] for note in each.get("lenient", ()))
        fallbacks.update(note["question"] for note in each.get("fallbacks", ()))
    return {"lenient": dict(sorted(lenient.items())), "fallbacks": dict(sorted(fallbacks.items()))}


class _Began(TypedDict, total=False):
    began_s: float


def _began(details: Details) -> _Began:
    """When a node was begun, if nodes were begun one by one."""
    return {"began_s": details["began"]} if "began" in details else {}


def _turn(details: Details, graph: Graph) -> Turn:
    """A node as a turn of the record, without its conversations."""
    shown_score = graph.shown_score(details)
    node: SearchNode = {
        "number": details["number"],
        "parents": details["parents"],
        "branch": details["branch"],
        "depth": details["depth"],
        "repairs": details["repairs"],
        "round": details["round"],
        "stage": details["stage"],
        "hypothesis": details["hypothesis"],
        "component": details["component"],
        "why": details["why"],
        "score": details["score"],
        "lesson": details["lesson"],
        "supported": details["supported"],
        "trials": details["trials"],
        **details["idea"],
        **notes_of(details),
        **_began(details),
        "elapsed_s": details["elapsed"],
        "cost": _cost(details["usage"]),
    }
    turn: Turn = {
        "action": details["operation"],
        "duration_s": details["seconds"],
        "problem": details["problem"],
        "usage": added(details["usage"]["research"], details["usage"]["develop"]),
        "code": details["code"],
        "validation": details["validation"],
        "grade": details["grade"],
    }
    if shown_score is not None:
        turn["shown_score"] = shown_score
    turn["node"] = node
    if details["execution"] is not None:
        turn["execution"] = details["execution"]
    return turn


def step_records(job: SearchJob, graph: Graph) -> Iterator[Rollout]:
    """A rollout for each answer of the policy in the graph, with the result of its node, but for nodes of another
    search. Lineage is left empty.
    """
    for number in range(len(graph)):
        node = graph.details(number)
        if "taken_over" in node:
            continue
        parent = graph.details(node["parents"][0]) if node["parents"] else None
        for index, exchange in enumerate(node["asked"]):
            if exchange["who"] == "policy":
                yield _step(job, node, parent, index, exchange)


def _step(job: SearchJob, node: Details, parent: Details | None, index: int, exchange: Exchange) -> Rollout:
    id = content_id(job.id, "step", node["number"], index)
    malformed, usage = bool(exchange.get("problem")), _rounded(exchange["usage"])
    grade, validation = (parent["grade"], parent["validation"]) if parent else (None, None)
    return replace(job, id=id, group=id, group_size=1).rollout(
        settings=job.settings.as_record(),
        messages=exchange["messages"],
        turns=[
            {
                "action": exchange["role"].removeprefix("search-"),
                "duration_s": usage["seconds"],
                "message": len(exchange["messages"]) - 1,
                "problem": "malformed" if malformed else None,
                "usage": usage,
            }
        ],
        usage=usage,
        usage_by_role={"policy": usage},
        state={
            "score": grade.get("score") if grade else None,
            "validation": validation["score"] if validation else None,
            "code": parent["code"] if parent else None,
        },
        step={
            "search": job.id,
            "node": node["number"],
            "operation": node["operation"],
            "phase": exchange["phase"],
            "role": exchange["role"],
        },
        format_rate=0.0 if malformed else 1.0,
        stop_reason="format" if malformed else "finished",
        code=node["code"],
        validation=node["validation"],
        execution=node["execution"] or NOTHING_RAN.copy(),
    )
