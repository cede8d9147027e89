"""The pool of a task's best solutions: the memory module of MLE-RL (section 4.2), with its push and get.

Covered: which solutions stay (few, the best, no two alike), a seeded draw, and a file per task that any number of threads
and processes may share: a killed writer leaves the old pool or the new one.
Not covered: the choice between the pool and a start from scratch (the scaffold), folders on file systems without locks.
The content of a shared pool depends on timing; reproducible runs do not share pools.
"""

import fcntl
import math
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ..base.errors import ToolError
from ..base.ids import content_id, derive_seed
from ..base.jsonl import Line, dumps, read_lines
from ..base.output import replace_file
from ..base.typed import convert
from .likeness import similarity

KIND, VERSION = "pool_entry", 1
# Between the scripted agent's programs of one model with other settings (1.0) and those of another model on the same short
# table (median 0.96, lowest 0.84). The paper gives no value. 1 merges only identical programs.
ALIKE = 0.95


@dataclass(frozen=True)
class Entry:
    """A solution in a pool. Entries are compared by `score`, usually the validation score."""

    id: str  # entry_id(task, code)
    task: str  # the task's id
    code: str
    score: float
    step: int  # the turn of its trace
    trace: str  # the rollout's id
    plan: str = ""  # the text before the code
    output: str = ""  # the program's output, shortened by the caller
    validation: float | None = None  # its scores, one of which may be `score`; None: unknown
    test: float | None = None


def entry_id(task: str, code: str) -> str:
    """The id of a program for a task, from the task's id."""
    return content_id(task, code)


class Pool:
    """The best solutions of one task: at most `capacity`, no two more alike than `similarity` (likeness.similarity).

    With a `folder` the pool is a file in it, created by the first push, and each call reads what others have pushed; all
    users of a folder give the same options. Without one the pool is in memory, for the threads of a process.

    In any order of pushes, the pool holds the best score pushed, with the first entry that reached it. Other entries may
    depend on the order: a program alike to two that are not alike to each other may come before or after them.
    """

    def __init__(
        self, task: str, lower_is_better: bool, capacity: int = 3, similarity: float = ALIKE, folder: Path | None = None
    ):
        if capacity < 1 or not 0 <= similarity <= 1:
            raise ValueError(f"a pool of {capacity} entries, alike above {similarity}")
        self.task, self.lower_is_better, self.capacity, self.similarity = task, lower_is_better, capacity, similarity
        self.file = None if folder is None else folder / f"{_file_name(task)}.jsonl"
        self._lock = threading.Lock()
        self._kept: list[Entry] = []

    def push(self, entry: Entry) -> bool:
        """Offer a solution; True if it enters the pool.

        It must be better than all entries that it is alike to, and replaces them. If it is alike to none, the pool must
        have a free slot, or the solution must be better than the worst entry, and replaces that. Ties keep the old entry.

        ValueError: a score that is not finite, another task's entry, a wrong id. ToolError: the pool's file cannot be
        read or written.
        """
        if not math.isfinite(entry.score):
            raise ValueError(f"an entry with the score {entry.score}")
        if entry.task != self.task or entry.id != entry_id(entry.task, entry.code):
            raise ValueError(f"entry {entry.id} of task {entry.task} in the pool of task {self.task}")
        with self._locked():
            kept = self.entries()
            alike = [old for old in kept if old.id == entry.id or similarity(old.code, entry.code) > self.similarity]
            replaced = alike or kept[self.capacity - 1 :]
            if not all(self._merit(entry) > self._merit(old) for old in replaced):
                return False
            self._keep(self._sorted([*(old for old in kept if old not in replaced), entry]))
            return True

    def get(self, seed: int) -> Entry | None:
        """An entry drawn uniformly by the seed, or None from an empty pool."""
        entries = self.entries()
        return entries[derive_seed(seed, "pool", self.task) % len(entries)] if entries else None

    def entries(self) -> list[Entry]:
        """The entries, best first, ties by id. ToolError: the pool's file cannot be read."""
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

    def _merit(self, entry: Entry) -> float:
        return -entry.score if self.lower_is_better else entry.score

    def _sorted(self, entries: list[Entry]) -> list[Entry]:
        return sorted(entries, key=lambda entry: (-self._merit(entry), entry.id))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Exclude other writers. The lock file is never deleted: a deleted one would not exclude anybody."""
        if self.file is None:
            with self._lock:
                yield
            return
        path = self.file.with_suffix(".lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = open(path, "a")  # noqa: SIM115 (closed below)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None
        with lock:
            yield

    def _keep(self, entries: list[Entry]) -> None:
        if self.file is None:
            self._kept = entries
            return
        head = {"kind": KIND, "version": VERSION, "lower_is_better": self.lower_is_better}
        lines = "".join(dumps({**head, **asdict(entry)}) + "\n" for entry in entries)
        try:
            with open(self.file.with_suffix(".partial"), "wb") as file:
                file.write(lines.encode())
                file.flush()
                replace_file(file, self.file)
        except OSError as error:
            raise ToolError(f"cannot write {self.file}: {error.strerror}") from None

    def _entry(self, line: Line) -> Entry:
        problem = line.problem or self._problem(line.record)
        if problem:
            raise ToolError(f"{line.place}: {problem}: remove this line, or move the file away to start an empty pool")
        entry: Entry = convert(line.record, Entry)
        return entry

    def _problem(self, record: Mapping[str, object]) -> str | None:
        if record.get("kind") != KIND or record.get("version") != VERSION:
            return f"no {KIND} of version {VERSION}"
        try:
            entry = convert(record, Entry)
        except ValueError as error:
            return str(error)
        if entry.task != self.task:
            return f"an entry of task {entry.task}, not {self.task}"
        if entry.id != entry_id(self.task, entry.code):
            return "an id that does not match the program"
        if record.get("lower_is_better") is not self.lower_is_better:
            return "scores of the opposite direction"
        return None


def _file_name(task: str) -> str:
    """The task's id if it is a safe file name, else a digest of it."""
    return task if re.fullmatch(r"\w[\w.-]{0,99}", task, re.ASCII) else f"task-{content_id('pool', task)}"
