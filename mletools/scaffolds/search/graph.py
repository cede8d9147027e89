"""The exploration graph of a search, on disk as JSON Lines: a line a node, appended a round at a time.

In memory stays what selection needs of each node, a few kilobytes; programs, outputs and conversations are read
back from the file where they are wanted. Covered: what was killed in the middle of a round is forgotten (its answers are
on the tape). Not covered: which node comes next (paths).
"""

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ...records.errors import ToolError
from ...records.jsonl import dumps, loads


@dataclass(frozen=True)
class Node:
    """What selection knows of a node.

    parents: numbers; the first is the one whose branch it goes on. branch: the number of the draft that it descends from.
    depth: steps from that draft. repairs: debug steps in a row that led to it. problem: why it does not count (see
    interfaces.PROBLEMS), None where it does. score: what the search goes by; None: it has none. seconds: used by it;
    elapsed: on the search's clock when its round was done, where what went on at once counts as long as its longest. round: counted from 0.
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
    score: float | None
    lesson: str
    seconds: float
    elapsed: float


class Graph:
    """The nodes of one search in the file `path`, which is made if it is not there and else gone on with.

    ToolError: the file cannot be read or written, or holds something else.
    """

    def __init__(self, path: Path, lower_is_better: bool):
        self.file, self.lower = path, lower_is_better
        self.nodes: list[Node] = []
        self.spent: dict[str, dict[str, Any]] = {}
        self._places: list[int] = []
        self._children: dict[int, list[int]] = {}
        self._reading = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
            self._read()
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None

    # --- what there is --------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    @property
    def elapsed(self) -> float:
        """Seconds of asking and running so far, on the search's clock."""
        return self.nodes[-1].elapsed if self.nodes else 0.0

    @property
    def rounds(self) -> int:
        return self.nodes[-1].round + 1 if self.nodes else 0

    def good(self, nodes: Iterable[Node] | None = None) -> list[Node]:
        """Those with a score, in the order they were made."""
        return [node for node in (self.nodes if nodes is None else nodes) if node.score is not None]

    def gain(self, new: float, old: float) -> float:
        """How much better `new` is than `old`; negative where it is worse."""
        return old - new if self.lower else new - old

    def best(self, nodes: Iterable[Node] | None = None) -> Node | None:
        """The one with the best score, of equals the first; None where none has one."""
        best_node: Node | None = None
        for node in self.good(nodes):
            if best_node is None or self.gain(node.score or 0.0, best_node.score or 0.0) > 0:
                best_node = node
        return best_node

    def children(self, number: int) -> list[Node]:
        """The nodes that have `number` as a parent, in the order they were made."""
        return [self.nodes[each] for each in self._children.get(number, ())]

    def branches(self) -> dict[int, list[Node]]:
        """{number of a branch's draft: its nodes, in the order they were made}."""
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
        """All that is kept of a node: the fields of Node and stage, guidance, idea, why (the problem in words), code,
        execution, validation, grade, trials, usage {phase: {prompt_tokens, completion_tokens, seconds, usd}} and asked (the conversations).
        """
        with self._reading:
            self._file.seek(self._places[number])
            details: dict[str, Any] = loads(self._file.readline())
        return details

    # --- what is added --------------------------------------------------------------------------------------------

    def add(self, new_nodes: Sequence[Mapping[str, Any]]) -> list[Node]:
        """Append a round's nodes, with all their details, and wait until they are on disk."""
        lines = [
            (dumps({**each, "nodes_of_round": len(new_nodes)}) + "\n").encode("utf-8", "replace") for each in new_nodes
        ]
        try:
            self._file.seek(0, os.SEEK_END)
            at = self._file.tell()
            self._file.write(b"".join(lines))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise ToolError(f"{self.file}: {error.strerror}: a round of the search could not be kept") from None
        for each, line in zip(new_nodes, lines, strict=True):
            self._know(each, at)
            at += len(line)
        return self.nodes[-len(new_nodes) :]

    def close(self) -> None:
        self._file.close()

    def _know(self, details: Mapping[str, Any], at: int) -> None:
        known = {field.name: details[field.name] for field in fields(Node)}
        node = Node(**{**known, "parents": tuple(details["parents"])})
        self.nodes.append(node)
        self._places.append(at)
        for parent in dict.fromkeys(node.parents):
            self._children.setdefault(parent, []).append(node.number)
        for phase, used in details["usage"].items():
            self.spent[phase] = added(self.spent.get(phase), used)

    def _read(self) -> None:
        """Know the nodes of the file, but those of a round that is not all there, which are cut off."""
        self._file.seek(0)
        whole, at = 0, 0
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
            waiting.append((details, at))
            at += len(line)
            if len(waiting) == size:
                for each, place in waiting:
                    self._know(each, place)
                waiting, whole = [], at
        os.truncate(self.file, whole)
        self._file.seek(0, os.SEEK_END)


def added(before: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Two usages together; a sum is None once one of its parts is not known."""
    if before is None:
        return dict(more)
    sums = {}
    for name, value in more.items():
        old = before[name]
        sums[name] = None if old is None or value is None else round(old + value, 9)
    return sums
