"""The exploration graph of a search on disk: JSON Lines, a node a line, appended a round at a time, or as nodes end.

A line `graph_of` says of what search it is: one at the beginning of each run, and one at the search's end. Memory holds a
few kilobytes a node, for selection. Programs, outputs and conversations are read back from the file. An incomplete last
round, of a killed search, is dropped: its answers are on the tape. Who writes a graph holds its lock (base.output).
"""

import copy
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Literal, NotRequired, TypedDict, TypeVar

from ...base.errors import ToolError
from ...base.jsonl import dumps, loads
from ...base.output import AnyRecord, lock
from ...base.typed import convert
from ...records.rollout import (
    AnswerNote,
    Choosing,
    Component,
    Execution,
    Feedback,
    Hypothesis,
    Message,
    Operation,
    Origin,
    Phase,
    Rollout,
    RunProblem,
    Stage,
    Trial,
    TurnGrade,
    Usage,
)
from ...records.task import Task
from ..interface import Selection

ABOUT = "graph_of"  # the key of a line about the search
HELD_OUT = ("standard", "judged", "aggregated")  # evaluations whose scores are of the same rows
Number = TypeVar("Number", int, float)
# unanswered: unreadable answers, or the prompt was refused; debug: no debug run passed; slow: the full run would not
# fit; failed: the run failed; invalid: the submission is; inauthentic: the submission is no model's prediction
Problem = Literal["unanswered", "no_code"] | RunProblem


class NodeIdea(TypedDict):
    """What research came to; as in a SearchNode."""

    challenge: str | None
    origin: Origin | None
    scores: dict[str, float]
    action: Choosing | None
    considered: list[Hypothesis]
    recalled: list[int]
    challenges: list[str]


class Exchange(TypedDict):
    """A conversation with a model. problem: why its answer could not be read."""

    phase: Phase
    role: str
    who: str
    messages: list[Message]
    usage: Usage
    problem: NotRequired[str]


class Notes(TypedDict, total=False):
    """Answers that were read leniently, and what a default replaced; each absent if there are none."""

    lenient: list[AnswerNote]
    fallbacks: list[AnswerNote]


class Details(TypedDict):
    """All that the graph keeps of a node; see Node."""

    number: int
    parents: list[int]
    operation: Operation
    branch: int
    depth: int
    repairs: int
    round: int
    hypothesis: str
    component: Component | None
    problem: Problem | None
    why: str
    score: float | None
    lesson: str
    supported: bool | None
    stage: Stage
    guidance: str
    idea: NodeIdea
    code: str | None
    execution: Execution | None
    validation: Feedback | None
    grade: TurnGrade | None
    selection: NotRequired[Selection]
    """Its part on the selection rows; no model is told of it."""

    trials: list[Trial]
    usage: dict[Phase, Usage]
    seconds: float
    asked: list[Exchange]
    lenient: NotRequired[list[AnswerNote]]
    fallbacks: NotRequired[list[AnswerNote]]
    elapsed: NotRequired[float]
    """From the end of its round on."""

    start: NotRequired[int]
    """Of nodes without rounds: how many had been begun before; their numbers are in the order of their ends."""

    began: NotRequired[float]
    """Of nodes without rounds: on the search's clock."""

    taken_over: NotRequired[bool]
    """From another graph."""


@dataclass(frozen=True)
class Node:
    """The part of a node that stays in memory.

    branch: number of the draft that it descends from, by first parents. depth: steps from that draft. repairs: debug
    steps in a row up to this node. problem: of a node without a score; why: the problem in words. seconds: of
    its models and runs, added up. elapsed: on the search's clock at the end of its round. supported: see Lesson. began:
    see Details.
    """

    number: int
    parents: tuple[int, ...]
    operation: Operation
    branch: int
    depth: int
    repairs: int
    round: int
    hypothesis: str
    component: Component | None
    problem: Problem | None
    why: str
    score: float | None
    lesson: str
    seconds: float
    elapsed: float
    supported: bool | None = None
    began: float = 0.0


class Graph:
    """The nodes of one search in the file `path`, created or continued. ToolError: it is no such file.

    read_only: another process may be writing it; anew: what is there is dropped.
    """

    def __init__(
        self,
        path: Path,
        lower_is_better: bool,
        rounded: Callable[[float], float] = lambda score: score,
        most_shown: int | None = None,
        read_only: bool = False,
        anew: bool = False,
    ):
        """rounded: a score as models are shown it; most_shown: of so many nodes, the first with a score; None: of all."""
        self.file, self.lower = path, lower_is_better
        self._rounded, self._most_shown = rounded, most_shown
        self.nodes: list[Node] = []
        self.longest_run = 0.0  # seconds of a full run
        self.out_of_time: set[int] = set()  # nodes whose last run was stopped by its limit, or would have been
        self.invalid: set[int] = set()  # nodes whose submission is invalid on the test rows: for the choice alone
        self.spent: dict[Phase, Usage] = {}  # by phase
        self.spent_by_role: dict[str, Usage] = {}  # of asking alone
        self.started: set[int] = set()  # `start` of each node
        self.taken_over = 0  # nodes from another graph
        self._offsets: list[int] = []
        self._about: int | None = None  # where the last line about the search begins
        self._children: dict[int, list[int]] = {}
        self._reading = threading.Lock()
        try:
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = path.open("rb") if read_only else lock(path, "--graph")
            if anew:
                self._file.truncate(0)
            whole = self._read()
            if not read_only:
                os.truncate(path, whole)
                self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    @property
    def elapsed(self) -> float:
        """Seconds on the search's clock at the end of the last round."""
        return self.nodes[-1].elapsed if self.nodes else 0.0

    @property
    def rounds(self) -> int:
        """Number of rounds so far."""
        return self.nodes[-1].round + 1 if self.nodes else 0

    def shown_score(self, node: "Node | Details") -> float | None:
        """The score of a node, also of one that is not in the graph yet, as models are shown it; None: they are not."""
        number, score = (node.number, node.score) if isinstance(node, Node) else (node["number"], node["score"])
        if score is None:
            return None
        before = len(self.good(self.nodes[:number])) + max(0, number - len(self.nodes))  # those beside it may have one
        return None if self._most_shown is not None and before >= self._most_shown else self._rounded(score)

    def gain(self, new: float, old: float) -> float:
        """How much better the score `new` is than `old`; negative if it is worse."""
        return old - new if self.lower else new - old

    def good(self, nodes: Iterable[Node] | None = None) -> list[Node]:
        """The nodes with a score, oldest first."""
        return [node for node in (self.nodes if nodes is None else nodes) if node.score is not None]

    def ranked(self, nodes: Iterable[Node] | None = None) -> list[Node]:
        """The nodes with a score, best first; of equal ones the oldest first."""
        return sorted(self.good(nodes), key=lambda node: (-self.gain(node.score or 0.0, 0.0), node.number))

    def best(self, nodes: Iterable[Node] | None = None) -> Node | None:
        """The node with the best score, of equal ones the first; None if none has a score."""
        return max(self.good(nodes), key=lambda node: self.gain(node.score or 0.0, 0.0), default=None)

    def branch_bests(self) -> list[Node]:
        """The best node of each branch that has a score, best first."""
        return self.ranked(best for nodes in self.branches().values() if (best := self.best(nodes)) is not None)

    def records(self) -> list[Node]:
        """The nodes that had the best score of their branch when they were made, oldest first."""
        bests: dict[int, Node] = {}
        found = []
        for node in self.good():
            before = bests.get(node.branch)
            if before is None or self.gain(node.score or 0.0, before.score or 0.0) > 0:
                bests[node.branch] = node
                found.append(node)
        return found

    def children(self, number: int) -> list[Node]:
        """The nodes that have `number` as a parent, oldest first."""
        return [self.nodes[child] for child in self._children.get(number, ())]

    def branches(self) -> dict[int, list[Node]]:
        """{number of a branch's draft: its nodes, oldest first}."""
        by_branch: dict[int, list[Node]] = {}
        for node in self.nodes:
            by_branch.setdefault(node.branch, []).append(node)
        return by_branch

    def path(self, number: int) -> list[Node]:
        """From the draft to the node, along first parents."""
        path_nodes = [self.nodes[number]]
        while path_nodes[-1].parents:
            path_nodes.append(self.nodes[path_nodes[-1].parents[0]])
        return path_nodes[::-1]

    def details(self, number: int) -> Details:
        details: Details = self._line(self._offsets[number])
        return details

    def _line(self, offset: int) -> Any:
        with self._reading:
            self._file.seek(offset)
            return loads(self._file.readline())

    def add(self, new_nodes: Sequence[Details]) -> list[Node]:
        """Append the details of a round's nodes, and wait until they are on disk."""
        offsets = self._append([{**node, "nodes_of_round": len(new_nodes)} for node in new_nodes])
        for node, offset in zip(new_nodes, offsets, strict=True):
            self._index(node, offset)
        return self.nodes[-len(new_nodes) :]

    def tell(self, record: Rollout, ended: bool = False) -> None:
        """Append a line about the search: its rollout so far, without the turns. ended: it is that of the finished search."""
        (self._about,) = self._append([{ABOUT: {**record, "turns": []}, "ended": ended}])

    def about(self) -> tuple[Rollout, bool] | None:
        """What was last told of the search: its rollout without the turns, and whether it has ended; None: nothing."""
        if self._about is None:
            return None
        line = self._line(self._about)
        return line[ABOUT], bool(line["ended"])

    def _append(self, objects: Sequence[AnyRecord]) -> list[int]:
        """Append a line for each object, and wait until they are on disk; where they begin."""
        lines = [(dumps(each) + "\n").encode("utf-8", "replace") for each in objects]
        try:
            with self._reading:  # nodes without rounds read the graph meanwhile
                offset = self._file.seek(0, os.SEEK_END)
                self._file.write(b"".join(lines))
                self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise ToolError(f"{self.file}: {error.strerror}: cannot store a round of the search") from None
        return list(accumulate(map(len, lines[:-1]), initial=offset))

    def take_over(
        self, path: Path, task: Task, last: int | None = None, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Begin an empty graph with the nodes of another file, up to node `last`.

        task, settings: of this search, as in its record. ToolError: there are no such nodes, they are of another task, or
        their scores are made in another way.
        """
        if not path.is_file():
            raise ToolError(f"{path}: no such graph")
        other = Graph(path, self.lower, read_only=True)
        try:
            about = other.about()
            if about is not None and not _same_task(about[0]["task"], task):
                its = about[0]["task"]
                raise ToolError(
                    f"{path}: is of task {_task_name(its)}, not of {_task_name(task)}: the id and the data, or the metric, "
                    "are others, so its scores mean nothing here"
                )
            if about is not None and settings is not None:
                its_way, way = scoring(about[0].get("settings", {})), scoring(settings)
                if its_way != way:
                    raise ToolError(
                        f"{path}: its scores are of {its_way}, those of this search of {way}, so they cannot be compared; "
                        "give this search the options of that one, or begin without --from-graph"
                    )
            most = len(other) - 1 if last is None else last
            if not 0 <= most < len(other):
                raise ToolError(f"{path}: no node {most}: it has {len(other)} nodes")
            self.add([{**other.details(number), "taken_over": True} for number in range(most + 1)])
        finally:
            other.close()

    def until(self, size: int) -> "Graph":
        """The graph as it was with `size` nodes, to read; sums over all nodes are those of the present graph."""
        view = copy.copy(self)
        view.nodes = self.nodes[:size]
        view._children = {
            parent: [child for child in children if child < size] for parent, children in list(self._children.items())
        }
        return view

    def close(self) -> None:
        self._file.close()

    def _index(self, details: Details, offset: int) -> None:
        node = convert(details, Node)
        self.nodes.append(node)
        self.taken_over += "taken_over" in details
        self.started.add(details.get("start", node.number))
        self._offsets.append(offset)
        for parent in dict.fromkeys(node.parents):
            self._children.setdefault(parent, []).append(node.number)
        execution, runs = details["execution"], [trial.get("status") for trial in details["trials"]]
        if execution is not None:
            self.longest_run = max(self.longest_run, execution["duration_s"])
            runs.append(execution["status"])
        if details["problem"] == "slow" or runs[-1:] == ["timeout"]:
            self.out_of_time.add(node.number)
        if (grade := details.get("grade")) is not None and not grade["valid"]:
            self.invalid.add(node.number)
        for phase, used in details["usage"].items():
            self.spent[phase] = added(self.spent.get(phase), used)
        add_by_role(self.spent_by_role, details["asked"])

    def _read(self) -> int:
        """Index the nodes of the file; the bytes of all but an incomplete last round."""
        self._file.seek(0)
        complete, offset = 0, 0
        waiting: list[tuple[Details, int]] = []
        for number, line in enumerate(self._file, 1):
            try:
                details = loads(line)
                size = 0 if ABOUT in details else details["nodes_of_round"]
            except (ValueError, KeyError, TypeError):
                if line.endswith(b"\n"):
                    raise ToolError(f"{self.file}:{number}: not a graph of this command; move the file away") from None
                break
            if not line.endswith(b"\n"):
                break
            if ABOUT in details:
                self._about = offset
            else:
                waiting.append((details, offset))
            offset += len(line)
            if len(waiting) == size:  # after a line about the search none is waiting
                for node in waiting:
                    self._index(*node)
                waiting, complete = [], offset
        return complete


_BEGIN = f'{{"{ABOUT}": '.encode()  # of a line about the search


def is_graph(path: Path) -> bool:
    """Whether a file is the graph of a search, by how it begins."""
    try:
        with path.open("rb") as file:
            return file.read(len(_BEGIN)) == _BEGIN
    except OSError:
        return False


def holds_work(path: Path) -> bool:
    """Whether a file holds more than what a graph begins with. OSError."""
    with path.open("rb") as file:
        return any(not line.startswith(_BEGIN) for line in file)


def _same_task(one: Task, other: Task) -> bool:
    """Whether scores on the tasks are comparable; a task that was made again may have another id."""
    same_data = one["id"] == other["id"] or one["data"]["digest"] == other["data"]["digest"]
    return same_data and one["metric"] == other["metric"]


def scoring(settings: Mapping[str, Any]) -> str:
    """What scores of a search are of, by `settings` of its record: nodes with the same can be compared."""
    name, share = settings.get("own", {}).get("evaluation"), settings.get("validation")
    shown = name if name not in HELD_OUT else "/".join(HELD_OUT)
    return f"--evaluation {shown}" + (f" with --validation {share:g}" if share else "")


def _task_name(task: Task) -> str:
    return f"{task.get('name') or 'without a name'} ({task['id']})"


def notes_of(details: Details) -> Notes:
    """The notes on a node's answers."""
    notes: Notes = {}
    if "lenient" in details:
        notes["lenient"] = details["lenient"]
    if "fallbacks" in details:
        notes["fallbacks"] = details["fallbacks"]
    return notes


def add_by_role(spent: dict[str, Usage], asked: Iterable[Exchange]) -> None:
    """Add what the answers of conversations (`asked` of a node) used to `spent`, by the role of the model."""
    for exchange in asked:
        spent[exchange["who"]] = added(spent.get(exchange["who"]), exchange["usage"])


def added(before: Usage | None, more: Usage) -> Usage:
    """The sums of two usages; None for a sum with an unknown part."""
    if before is None:
        return more.copy()
    return {
        "prompt_tokens": _sum(before["prompt_tokens"], more["prompt_tokens"]),
        "completion_tokens": _sum(before["completion_tokens"], more["completion_tokens"]),
        "seconds": round(before["seconds"] + more["seconds"], 9),
        "usd": _sum(before["usd"], more["usd"]),
    }


def _sum(one: Number | None, other: Number | None) -> Number | None:
    return None if one is None or other is None else round(one + other, 9)
