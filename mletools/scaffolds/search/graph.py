"""The exploration graph of a search on disk: JSON Lines, a node a line, appended a round at a time.

Memory holds a few kilobytes a node, for selection. Programs, outputs and conversations are read back from the file. An
incomplete last round, of a killed search, is dropped: its answers are on the tape.
"""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ...records.errors import ToolError
from ...records.jsonl import dumps, loads

Details = Mapping[str, Any]  # of a node, see Graph.details


@dataclass(frozen=True)
class Node:
    """The part of a node that stays in memory.

    branch: number of the draft that it descends from, by first parents. depth: steps from that draft. repairs: debug
    steps in a row up to this node. problem: one of interfaces.PROBLEMS, or None; why: the problem in words. seconds: of
    its models and runs, added up. elapsed: on the search's clock at the end of its round.
    """

    number: int
    parents: tuple[int, ...]
    operation: str
    branch: int
    depth: int
    repairs: int
    round: int
    hypothesis: str
    component: str | None
    problem: str | None
    why: str
    score: float | None
    lesson: str
    seconds: float
    elapsed: float


class Graph:
    """The nodes of one search in the file `path`, created or continued. ToolError: it is no such file."""

    def __init__(
        self,
        path: Path,
        lower_is_better: bool,
        told: Callable[[float], float] = lambda score: score,
        most_told: int | None = None,
    ):
        """told: a score as models are shown it; most_told: of so many nodes, the first with a score; None: of all."""
        self.file, self.lower = path, lower_is_better
        self._as_told, self._most_told = told, most_told
        self.nodes: list[Node] = []
        self.spent: dict[str, dict[str, Any]] = {}  # by phase
        self.spent_by_role: dict[str, dict[str, Any]] = {}  # of asking alone
        self._offsets: list[int] = []
        self._children: dict[int, list[int]] = {}
        self._reading = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
            self._read()
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    @property
    def elapsed(self) -> float:
        """Seconds of models and runs so far, on the search's clock."""
        return self.nodes[-1].elapsed if self.nodes else 0.0

    @property
    def rounds(self) -> int:
        """Number of rounds so far."""
        return self.nodes[-1].round + 1 if self.nodes else 0

    def told(self, node: "Node | Details") -> float | None:
        """The score of a node, also of one that is not in the graph yet, as models are shown it; None: they are not."""
        number, score = (node.number, node.score) if isinstance(node, Node) else (node["number"], node["score"])
        if score is None:
            return None
        before = len(self.good(self.nodes[:number])) + max(0, number - len(self.nodes))  # those beside it may have one
        return None if self._most_told is not None and before >= self._most_told else self._as_told(score)

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

    def details(self, number: int) -> dict[str, Any]:
        """The fields of Node and stage, guidance, idea, code, execution, validation, grade, trials, usage {phase: {prompt_tokens, completion_tokens, seconds, usd}}, asked (conversations)."""
        with self._reading:
            self._file.seek(self._offsets[number])
            details: dict[str, Any] = loads(self._file.readline())
        return details

    def add(self, new_nodes: Sequence[Details]) -> list[Node]:
        """Append the details of a round's nodes, and wait until they are on disk."""
        lines = [
            (dumps({**node, "nodes_of_round": len(new_nodes)}) + "\n").encode("utf-8", "replace") for node in new_nodes
        ]
        try:
            offset = self._file.seek(0, os.SEEK_END)
            self._file.write(b"".join(lines))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise ToolError(f"{self.file}: {error.strerror}: cannot store a round of the search") from None
        for node, line in zip(new_nodes, lines, strict=True):
            self._index(node, offset)
            offset += len(line)
        return self.nodes[-len(new_nodes) :]

    def close(self) -> None:
        self._file.close()

    def _index(self, details: Details, offset: int) -> None:
        kept = {field.name: details[field.name] for field in fields(Node)}
        node = Node(**{**kept, "parents": tuple(details["parents"])})
        self.nodes.append(node)
        self._offsets.append(offset)
        for parent in dict.fromkeys(node.parents):
            self._children.setdefault(parent, []).append(node.number)
        for phase, used in details["usage"].items():
            self.spent[phase] = added(self.spent.get(phase), used)
        add_by_role(self.spent_by_role, details["asked"])

    def _read(self) -> None:
        """Index the nodes of the file, and cut off an incomplete last round."""
        self._file.seek(0)
        complete, offset = 0, 0
        waiting: list[tuple[dict[str, Any], int]] = []
        for number, line in enumerate(self._file, 1):
            try:
                details = loads(line)
                size = details["nodes_of_round"]
            except (ValueError, KeyError, TypeError):
                if line.endswith(b"\n"):
                    raise ToolError(f"{self.file}:{number}: not a graph of this command; move the file away") from None
                break
            if not line.endswith(b"\n"):
                break
            waiting.append((details, offset))
            offset += len(line)
            if len(waiting) == size:
                for node in waiting:
                    self._index(*node)
                waiting, complete = [], offset
        os.truncate(self.file, complete)
        self._file.seek(0, os.SEEK_END)


def add_by_role(spent: dict[str, dict[str, Any]], asked: Iterable[Mapping[str, Any]]) -> None:
    """Add what the answers of conversations (`asked` of a node) used to `spent`, by the role of the model."""
    for exchange in asked:
        spent[exchange["who"]] = added(spent.get(exchange["who"]), exchange["usage"])


def added(before: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """The sums of two usages; None for a sum with an unknown part."""
    if before is None:
        return dict(more)
    pairs = {name: (before[name], value) for name, value in more.items()}
    return {name: None if None in pair else round(sum(pair), 9) for name, pair in pairs.items()}
