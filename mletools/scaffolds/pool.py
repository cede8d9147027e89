"""The pool of the best solutions of a task: the memory module of MLE-RL (section 4.2), with its push and get.

Covered: which solutions stay (few, the best, no two alike), a draw that a seed decides, and a file per task that any
number of threads and processes may share: a writer that is killed leaves the old pool or the new one.
Not covered: when to draw and when to begin from scratch (the scaffold decides), folders on file systems without locks.
What a shared pool holds at some moment depends on who was faster; runs that must repeat themselves share none.
"""

import fcntl
import math
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..records.errors import ToolError
from ..records.ids import content_id, derive_seed
from ..records.jsonl import Line, dumps, read_lines
from .likeness import similarity

KIND, VERSION = "pool_entry", 1
# Between the bank's programs of one model with other settings (1.0) and those of another model on the same short table
# (median 0.96, lowest 0.84). The paper names no value. 1 keeps all but the very same program.
ALIKE = 0.95


@dataclass(frozen=True)
class Entry:
    """A solution in a pool. `score` is whatever the caller compares by, usually the validation score."""

    id: str  # entry_id(task, code)
    task: str  # the task's id
    code: str
    score: float
    step: int  # the turn of its trace at which it was found
    trace: str  # id of the rollout that found it
    plan: str = ""  # what was said with it
    output: str = ""  # what running it printed, shortened by the caller
    validation: float | None = None  # its scores, one of which `score` may be; None: not known
    test: float | None = None


def entry_id(task: str, code: str) -> str:
    """The id of a program for the task of that id."""
    return content_id(task, code)


class Pool:
    """The best solutions of one task: at most `capacity`, no two more alike than `similarity` (likeness.similarity).

    With a `folder` the pool is a file in it, made by the first push, and what others push is there at the next call;
    all who share a folder give the same options. Without one the pool lives in memory, for the threads of a process.

    Whatever the order of the pushes, the best score ever pushed is in the pool, with the first entry that reached it.
    The others may depend on the order: a program alike to two that are not alike to each other comes before or after.
    """

    def __init__(
        self,
        task: str,
        lower_is_better: bool,
        capacity: int = 3,
        similarity: float = ALIKE,
        folder: Path | None = None,
    ):
        if capacity < 1 or not 0 <= similarity <= 1:
            raise ValueError(f"a pool of {capacity} entries, alike above {similarity}")
        self.task, self.lower_is_better, self.capacity, self.similarity = task, lower_is_better, capacity, similarity
        self.file = None if folder is None else folder / f"{_file_name(task)}.jsonl"
        self._lock = threading.Lock()
        self._kept: list[Entry] = []

    def push(self, entry: Entry) -> bool:
        """Offer a solution; True when it is now in the pool.

        It must be better than every entry that it is alike to, whose places it takes, or, alike to none, find room or
        be better than the worst, which it replaces. Of equal scores the one that is there stays.

        ValueError: a score that is no finite number, another task's entry, an id that is not entry_id's. ToolError: the
        pool's file cannot be read or written.
        """
        if not math.isfinite(entry.score):
            raise ValueError(f"an entry with the score {entry.score}")
        if entry.task != self.task or entry.id != entry_id(entry.task, entry.code):
            raise ValueError(f"entry {entry.id} of task {entry.task} in the pool of task {self.task}")
        with self._locked():
            kept = self.entries()
            left = self._without_beaten(kept, entry)
            if left is None:
                return False
            self._keep(self._sorted([*left, entry]))
            return True

    def get(self, seed: int) -> Entry | None:
        """One of the entries, each as likely as the others, the same for the same seed and entries; None of none."""
        drawn = self.entries()
        return drawn[derive_seed(seed, "pool", self.task) % len(drawn)] if drawn else None

    def entries(self) -> list[Entry]:
        """What is in the pool, best first, ties by id. ToolError: its file cannot be read."""
        if self.file is None:
            return list(self._kept)
        try:
            with open(self.file, "rb") as file:
                entries = [self._entry(line) for line in read_lines(file, str(self.file))]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ToolError(f"{self.file}: {error.strerror}") from None
        return self._sorted(entries)[: self.capacity]

    def _without_beaten(self, kept: list[Entry], entry: Entry) -> list[Entry] | None:
        """The entries that stay beside the new one; None when it is not let in."""
        alike = [one for one in kept if one.id == entry.id or similarity(one.code, entry.code) > self.similarity]
        if alike or len(kept) == self.capacity:
            beaten = alike or kept[-1:]
            if not all(self._merit(entry) > self._merit(one) for one in beaten):
                return None
            return [one for one in kept if one not in beaten]
        return kept

    def _merit(self, entry: Entry) -> float:
        return -entry.score if self.lower_is_better else entry.score

    def _sorted(self, entries: list[Entry]) -> list[Entry]:
        return sorted(entries, key=lambda entry: (-self._merit(entry), entry.id))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Nobody else changes the pool meanwhile. The lock's file stays: removing it would let two in."""
        if self.file is None:
            with self._lock:
                yield
            return
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ToolError(f"{self.file.with_suffix('.lock')}: {error.strerror}") from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError as error:
                raise ToolError(f"{self.file.with_suffix('.lock')}: cannot be locked: {error.strerror}") from None
            yield
        finally:
            os.close(descriptor)

    def _keep(self, entries: list[Entry]) -> None:
        if self.file is None:
            self._kept = entries
            return
        head = {"kind": KIND, "version": VERSION, "lower_is_better": self.lower_is_better}
        lines = "".join(dumps({**head, **asdict(entry)}) + "\n" for entry in entries)
        partial = self.file.with_suffix(".partial")
        try:
            with open(partial, "wb") as file:
                file.write(lines.encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.file)
            folder = os.open(self.file.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise ToolError(f"cannot write {self.file}: {error.strerror}") from None

    def _entry(self, line: Line) -> Entry:
        problem = line.problem or self._problem(line.record)
        if problem:
            raise ToolError(f"{line.place}: {problem}: remove this line, or move the file away to begin an empty pool")
        known = {name: line.record[name] for name in FIELDS}
        scores = {name: line.record.get(name) for name in ("validation", "test")}
        return Entry(**{**known, **scores, "score": float(known["score"])})

    def _problem(self, record: dict[str, Any]) -> str | None:
        if record.get("kind") != KIND or record.get("version") != VERSION:
            return f"no {KIND} of version {VERSION}"
        for name, kind in FIELDS.items():
            value = record.get(name)
            if not isinstance(value, kind) or isinstance(value, bool):
                return f'no proper "{name}"'
        for name in ("validation", "test"):
            if not isinstance(record.get(name), int | float | None):
                return f'no proper "{name}"'
        if abs(record["score"]) > LARGEST_SCORE:
            return 'no proper "score"'
        if record["task"] != self.task:
            return f"an entry of task {record['task']}, not {self.task}"
        if record["id"] != entry_id(record["task"], record["code"]):
            return "an id that is not this program's"
        if record.get("lower_is_better") is not self.lower_is_better:
            return "scores that count in the other direction"
        return None


FIELDS: dict[str, Any] = {
    field.name: {"score": int | float, "step": int}.get(field.name, str)
    for field in fields(Entry)
    if field.name not in ("validation", "test")
}
LARGEST_SCORE = sys.float_info.max  # a whole number in JSON may be larger than any float


def _file_name(task: str) -> str:
    """The task's id where it can name a file, else a digest of it."""
    return task if re.fullmatch(r"\w[\w.-]{0,99}", task, re.ASCII) else f"task-{content_id('pool', task)}"
