"""Workers without rounds: each begins the next node as soon as it is free, beside those of the others.

R&D-Agent's release works so (its loops are asynchronous, and ideas are made one after the other); algorithm 1 leaves it
open. Which nodes end first decides what comes next, so that is stored: the graph has the nodes in the order of their ends,
and what a node begins with (the plan, its parents, the nodes that it knows of) is the first event of its tape. A killed
search begins the nodes that were under way again with that, and gets their answers and runs from their tapes. A node is told
of the nodes that had ended when it began, and of the hypotheses of those beside it.
"""

import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Protocol

from ...base.output import AnyRecord
from ...base.tape import NothingKept
from ...base.typed import convert
from ...records.rollout import SearchEnd
from ..interface import SearchEnvironment
from .data import Budget, Expansion, Plan, Start
from .graph import Details, Graph
from .node_context import NodeContext, Researched
from .settings import SearchJob

LOOK_S = 1.0  # how often a search without a free worker looks whether it is to stop


class Parts(Protocol):
    """What the workers need of a search (loop.Search)."""

    job: SearchJob
    environment: SearchEnvironment
    graph: Graph
    ended: SearchEnd | None  # why no further node was begun

    @property
    def clock(self) -> float: ...

    def is_stopped(self) -> bool: ...

    def is_used_up(self, under_way: Sequence[NodeContext] = ()) -> bool: ...

    def share(self, under_way: Sequence[NodeContext] = ()) -> float: ...

    def deadline(self) -> float | None: ...

    def plan(self, budget: Budget) -> Plan: ...

    def select(self, plan: Plan, round: int) -> list[Expansion]: ...

    def research(self, start: Start, environment: SearchEnvironment, graph: Graph) -> Researched: ...

    def develop(self, node: Researched) -> Details: ...

    def give_up(self, contexts: Sequence[NodeContext]) -> None: ...

    def leave(self, start: Start, environment: SearchEnvironment, graph: Graph) -> None: ...


class _Nothing(Exception):
    """No node is to be begun."""


class FreeWorkers:
    """The workers of one search, `workers` of its settings."""

    def __init__(self, search: Parts):
        self._search = search
        self._under_way: dict[int, Researched] = {}
        self._ended = queue.SimpleQueue[tuple[Researched, Details | None, BaseException | None]]()
        self._next = 0  # nodes that were begun
        self._clock = 0.0  # the end of the last research

    def explore(self) -> None:
        """Add nodes to the graph until no further one is to be begun, or the user stops the search."""
        search, settings = self._search, self._search.job.settings
        waiting = False  # for a node to end, before another can be begun
        try:
            while not search.is_stopped():
                if not waiting and len(self._under_way) < (settings.workers or 1) and self._begin():
                    self._collect(0.0)
                elif not self._under_way:
                    break
                else:
                    waiting = not self._collect(LOOK_S)
        finally:  # also of an error: the other nodes must not go on and cost money
            search.give_up([node.context for node in self._under_way.values()])
        self._leave()

    def _leave(self) -> None:
        """Count what a killed search has paid for nodes that are not gone on with."""
        search, number = self._search, self._next
        with suppress(NothingKept):
            while True:
                if number not in search.graph.started:
                    environment = search.environment.part(str(number), kept_only=True)
                    start = convert(environment.remember("begin", number, self._decide), Start)
                    search.leave(start, environment, search.graph.until(start.seen))
                number += 1

    def _begin(self) -> bool:
        """Begin a node: its research here, since ideas see those before them, its development in a thread."""
        search = self._search
        if search.is_used_up([node.context for node in self._under_way.values()]):
            return False  # also of nodes that a killed search had begun, where the budget is smaller now
        while self._next in search.graph.started:
            self._next += 1
        environment = search.environment.part(str(self._next))
        try:
            start = convert(environment.remember("begin", self._next, self._decide), Start)
        except _Nothing:
            return False
        self._next += 1
        node = search.research(start, environment, search.graph.until(start.seen))
        self._clock = node.context.clock
        self._under_way[start.number] = node
        threading.Thread(target=self._develop, args=(node,), daemon=True).start()
        return True

    def _decide(self) -> AnyRecord:
        """The next node, a Start as JSON. _Nothing: too little time is left, or nothing can be done beside the others."""
        search, settings, graph = self._search, self._search.job.settings, self._search.graph
        share = search.share([node.context for node in self._under_way.values()])
        deadline, clock = search.deadline(), max(search.clock, self._clock)
        left = None if deadline is None else deadline - clock
        if left is not None and graph.nodes:
            mean = sum(node.elapsed - node.began for node in graph.nodes) / len(graph)
            if left < mean:
                search.ended = "too_late"
                raise _Nothing
        under_way = tuple(node.start.expansion for node in self._under_way.values())
        plan = replace(search.plan(Budget(share, settings.execution_seconds, left)), under_way=under_way)
        expansion = following(search.select(plan, self._next), under_way)
        if expansion is None:
            search.ended = "paths"
            raise _Nothing
        beside = tuple(node.idea.hypothesis.text for node in self._under_way.values() if node.idea is not None)
        return asdict(Start(self._next, len(graph), plan, expansion, beside, clock, deadline))

    def _develop(self, node: Researched) -> None:
        try:
            (details,) = self._search.environment.at_once(self._search.develop, [node])
            self._ended.put((node, details, None))
        except BaseException as error:  # raised again in the search's thread
            self._ended.put((node, None, error))

    def _collect(self, seconds: float) -> bool:
        """Add the nodes that have ended to the graph; wait up to so long for the first. Whether there was one."""
        search, some = self._search, False
        while True:
            try:
                node, details, error = self._ended.get(timeout=0.0 if some else seconds)
            except queue.Empty:
                return some
            if error is not None:
                raise error
            assert details is not None
            graph, start = search.graph, node.start
            details["start"], details["began"] = start.number, start.clock
            details["number"], details["round"] = len(graph), graph.rounds
            if not start.expansion.parents:
                details["branch"] = len(graph)
            details["elapsed"] = round(max(node.context.clock, graph.elapsed), 4)
            graph.add([details])
            del self._under_way[start.number]
            search.environment.progress(1)
            node.context.done()
            some = True


def following(expansions: Sequence[Expansion], under_way: Sequence[Expansion]) -> Expansion | None:
    """The first of the paths' expansions that is not under way; else the one that is so least often.

    A repair or a merge is never under way twice. None: there is nothing to begin beside the others.
    """
    left = list(expansions)
    for other in under_way:
        if other in left:
            left.remove(other)
    if left:
        return left[0]
    again = [each for each in expansions if each.operation not in ("debug", "merge")]
    return min(again, key=under_way.count, default=None)
