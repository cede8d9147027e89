"""Searches that may still run: their rollouts so far, from the graphs on disk, and a summary of their nodes.

A graph is JSON Lines (scaffolds.search.graph), kept in --graph DIR, or beside the output of mle-rollout until that is
complete. Covered: graphs and outputs that another process writes, whose last line may be torn; time that is left. Not
covered: how a tree is drawn (show.tree), medals and means over searches (search, summary).
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from ..base.errors import ToolError
from ..base.output import is_locked
from ..base.streams import is_stream
from ..records.rollout import Rollout
from ..scaffolds.search.graph import Graph, is_graph
from ..scaffolds.search.record import record_so_far
from .live import Tail
from .search import is_search
from .show import facts
from .table import NONE, Table, document, number
from .turns import Turn, turns

PARTIAL, GRAPHS = ".partial", ".graph"  # what the names of an unfinished output and of its folder of graphs end in
State = Literal["running", "ended", "interrupted"]
REMARKS: dict[State, str] = {
    "running": "running",
    "ended": "ended",
    "interrupted": "interrupted (--resume goes on)",
}


@dataclass(frozen=True)
class Progress:
    """A search as far as it has come.

    record: its rollout; of one that has not ended without what is handed in, and with the state as stop reason; clock_s: now, on the search's clock;
    idle_s: seconds since its graph grew, of one that is running.
    """

    record: Rollout
    state: State = "ended"
    clock_s: float = 0.0
    idle_s: float | None = None

    @classmethod
    def ended(cls, record: Rollout) -> "Progress":
        """Of a finished search's rollout."""
        return cls(record, clock_s=record["search"]["elapsed_s"])

    def standing(self) -> str:
        """Its state, and what it has used of its budget, in a line."""
        nodes, budget, usage = len(self.record["turns"]), self.record["search"]["budget"], self.record["usage"]
        parts = [REMARKS[self.state], self.time(), f"{nodes:,}{_of(budget.get('nodes'), ',.0f')} nodes"]
        if usage["usd"]:
            parts.append(f"{usage['usd']:.2f}{_of(budget.get('usd'), 'g')} USD")
        if self.idle_s is not None:
            parts.append(f"the last node {facts.clock(self.idle_s)} ago" if nodes else "no node yet")
        ended = self.record["search"].get("ended") if self.state == "ended" else None
        return ", ".join(parts) + (f"; {facts.ENDS[ended]}" if ended is not None else "")

    def time(self) -> str:
        """The time that is used, and what is left of it."""
        most, name = self.record["search"]["budget"].get("seconds"), self.record["search"].get("clock", "work")
        if most is None:
            return f"{facts.clock(self.clock_s)} ({name} clock)"
        left = f", {facts.clock(max(0.0, most - self.clock_s))} left" if self.state != "ended" else ""
        return f"{facts.clock(self.clock_s)} of {facts.clock(most)} ({name} clock){left}"


def _of(most: float | None, form: str) -> str:
    return "" if most is None else f" of {most:{form}}"


def names_searches(path: str) -> bool:
    """Whether a FILE of the command line is a graph, a folder, or the output of a run whose graphs stand beside it."""
    place = Path(path)
    return not is_stream(path) and (place.is_dir() or is_graph(place) or _folder_beside(place).is_dir())


def _output(place: Path) -> Path:
    return place.with_name(place.name.removesuffix(PARTIAL))


def _folder_beside(place: Path) -> Path:
    return place.with_name(_output(place).name + GRAPHS)


class Searches:
    """The searches of a FILE of the command line: a graph, a folder of graphs, or rollouts. `look` reads what is new."""

    def __init__(self, path: str):
        self._place = Path(path)
        self._read: dict[Path, tuple[tuple[int, int], Rollout, bool]] = {}  # by graph: its size and time, its content
        self._output = None if self._place.is_dir() or is_graph(self._place) else _output(self._place)
        self._tail = None if self._output is None else Tail(self._output)
        self._finished: dict[str, Rollout] = {}

    def look(self) -> list[Progress]:
        """The searches as they are now, finished ones first. ToolError: there is no such file."""
        if self._tail is None or self._output is None:
            graphs = sorted(self._place.glob("*.jsonl")) if self._place.is_dir() else [self._place]
            return [progress for graph in graphs if (progress := self._of_graph(graph)) is not None]
        partial, folder = self._output.with_name(self._output.name + PARTIAL), _folder_beside(self._place)
        if not (partial.exists() or self._output.exists() or folder.is_dir()):
            raise ToolError(f"{self._place}: No such file or directory")
        for record in self._tail.read():
            if record["kind"] == "rollout" and is_search(record):
                self._finished[record["id"]] = record
        under_way = [progress for graph in sorted(folder.glob("*.jsonl")) if (progress := self._of_graph(graph))]
        done = [Progress.ended(record) for record in self._finished.values()]
        return done + [progress for progress in under_way if progress.record["id"] not in self._finished]

    def running(self) -> bool:
        """Whether there is a process that goes on with them."""
        if self._output is not None:
            return is_locked(self._output.with_name(self._output.name + PARTIAL))
        graphs = self._place.glob("*.jsonl") if self._place.is_dir() else [self._place]
        return any(map(is_locked, graphs))

    def _of_graph(self, path: Path) -> Progress | None:
        """None: it is no graph, or not there any more."""
        try:
            if not is_graph(path):
                return None
            locked, status = is_locked(path), path.stat()
            version = status.st_size, status.st_mtime_ns
            if path not in self._read or self._read[path][0] != version:
                self._read[path] = (version, *_content(path))
        except FileNotFoundError:
            return None
        _, record, ended = self._read[path]
        if ended:
            return Progress.ended(record)
        idle = max(0.0, time.time() - status.st_mtime)
        clock = record["search"]["elapsed_s"] + (idle if locked and record["search"].get("clock") == "wall" else 0.0)
        state: State = "running" if locked else "interrupted"
        known = {name: value for name, value in record.items() if name not in ("execution", "validation")}
        return Progress(cast(Rollout, {**known, "stop_reason": state}), state, clock, idle if locked else None)


def _content(path: Path) -> tuple[Rollout, bool]:
    graph = Graph(path, False, read_only=True)
    try:
        return record_so_far(graph)
    finally:
        graph.close()


# --- a summary ------------------------------------------------------------------------------------------------------


def summary(searches: Sequence[Progress], form: str = "text", room: int | None = None) -> str:
    """What each search has come to: its state, nodes by operation and outcome, the best over time, the cost."""
    parts = []
    for progress in searches:
        of = turns(progress.record)
        name = f"{facts.task_name(progress.record)} {progress.record['id']}"
        tables = [_nodes(of, name), _bests(progress, of, name)] if of else []
        head = f"{name}: {progress.record['search'].get('preset')}, {progress.standing()}"
        body = document(tables, list(_notes(progress, of)), form, room)
        parts.append(body if form == "csv" else "\n\n".join(filter(None, (head, body))))
    return "\n\n".join(parts) or "no searches"


def _nodes(of: Sequence[Turn], name: str) -> Table:
    """The numbers of nodes by operation and outcome, and what they took."""
    problems = [problem for problem, _ in Counter(t.record.get("problem") for t in of).most_common() if problem]
    operations = list(dict.fromkeys(turn.record["action"] for turn in of))

    def row(label: str, part: Sequence[Turn]) -> list[str]:
        outcomes = Counter(turn.record.get("problem") for turn in part)
        scored = sum(turn.node.get("score") is not None for turn in part)
        paid = [turn.record["usage"]["usd"] for turn in part]
        usd = None if None in paid else sum(paid)
        counts = [len(part), scored, sum(turn.improved for turn in part), *(outcomes[each] for each in problems)]
        seconds = sum(turn.record["duration_s"] for turn in part)
        return [label, *(f"{count:,}" if count else NONE for count in counts), f"{seconds:,.0f}", number(usd, ",.2f")]

    rows = [row(each, [turn for turn in of if turn.record["action"] == each]) for each in operations]
    header = ["operation", "nodes", "with a score", "new best", *problems, "seconds", "USD"]
    rows.append(row("all", of))
    return Table(header, rows, ("operation",), name).filled()


def _bests(progress: Progress, of: Sequence[Turn], name: str) -> Table:
    """The nodes that had the best score so far, and when; the chosen one is marked."""
    selection, chosen = facts.selection_scores(progress.record), progress.record["search"].get("chosen")
    rows = [
        [
            facts.clock(turn.node["elapsed_s"]),
            str(turn.node["number"]),
            turn.record["action"],
            facts.number(turn.node["score"]),
            facts.number(selection.get(turn.node["number"])),
            "chosen" if turn.node["number"] == chosen else "",
        ]
        for turn in of
        if turn.improved or turn.node["number"] == chosen
    ]
    header = ["clock", "node", "operation", "best score", "selection rows", ""]
    return Table(header, rows, ("clock", "operation", ""), name).filled()


def _notes(progress: Progress, of: Sequence[Turn]) -> Iterator[str]:
    record = progress.record
    yield f"cost: {facts.spent(record['usage'])}" + (" of its nodes" if progress.state != "ended" else "")
    if progress.state == "ended":
        chosen = record["search"].get("chosen")
        yield f"chosen: {'none' if chosen is None else f'node {chosen}'}: {record['search'].get('how')}"
    if of:
        yield "seconds: total of models and programs"
