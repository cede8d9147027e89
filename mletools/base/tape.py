"""Tapes: the answers that a job received from models, programs and pools, on disk as they arrive, so that a killed job
can be replayed.

Each answer is an event. A job that starts again receives the events on its tape in their order, at no cost, and continues
live where the tape ends. Covered: a torn last line, many threads; events of finished jobs are not held in memory.
Not covered: the kinds of events; two runs on one file (the caller's output is locked, and the tape belongs to it).
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from .errors import ToolError
from .ids import content_id
from .jsonl import JsonObject, dumps, loads

DONE, CUT = "done", "cut"
Answer = TypeVar("Answer")


class NothingKept(Exception):
    """A tape that is only replayed has no such event next."""


class Tapes:
    """The tapes of a run's jobs, in the file `path`; None stores nothing. `resume` replays the file's events.

    ToolError: the file cannot be read or written, or is no tape.
    """

    def __init__(self, path: Path | None, resume: bool = False):
        self._path = path
        self._lock = threading.Lock()
        self._kept: dict[str, list[JsonObject]] = {}
        self._done: set[str] = set()
        self.settled = Counter[str]()  # ids of the records of jobs that a killed run had completed
        self._file: BinaryIO | None = None
        if path is None:
            return
        try:
            if resume and path.exists():
                self._read(path)
            self._file = open(path, "ab" if resume else "wb")  # noqa: SIM115 (open as long as the run)
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None

    def tape(self, job: str) -> "Tape":
        """The tape of a job; its events are replayed once."""
        return Tape(self, job, self._kept.pop(job, []))

    def has(self, job: str) -> bool:
        """True if a killed run left events of this job."""
        return job in self._kept

    def is_done(self, job: str) -> bool:
        """True if a killed run had completed this job."""
        return job in self._done

    def done(self, job: str, records: Sequence[str] = ()) -> None:
        """Drop the job's events: its records, of these ids, are written."""
        self.write({"job": job, "what": DONE, "records": list(records)})

    def jobs_with(self, what: str) -> set[str]:
        """The jobs that have an event of this kind in the file, themselves or a part of them."""
        if self._path is None:
            return set()
        with self._path.open("rb") as file:
            events = map(loads, file)
            return {event["job"].partition("/")[0] for event in events if event["what"] == what}

    def write(self, event: JsonObject) -> None:
        """Append an event and wait until it is on disk, because it may have cost money."""
        if self._file is None:
            return
        line = (dumps(event) + "\n").encode("utf-8", "replace")
        try:
            with self._lock:
                self._file.write(line)
                self._file.flush()
            os.fsync(self._file.fileno())  # outside the lock: concurrent jobs share the wait
        except OSError as error:
            raise ToolError(f"{self._path}: {error.strerror}: the last answer could not be stored") from None

    def close(self, complete: bool) -> None:
        """Close the file; the file of a `complete` run is deleted."""
        if self._file is not None:
            self._file.close()
            if complete and self._path is not None:
                self._path.unlink(missing_ok=True)

    def _read(self, path: Path) -> None:
        whole = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                torn = not line.endswith(b"\n")
                try:
                    event = loads(line)
                    job, what = event["job"], event["what"]
                except (ValueError, KeyError, TypeError):
                    if not torn:
                        raise ToolError(f"{path}:{number}: not a tape of this command; move the file away") from None
                if torn:
                    break
                whole += len(line)
                if what == DONE:
                    self._kept.pop(job, None)
                    self._done.add(job)
                    self.settled.update(event.get("records", ()))
                elif what == CUT:
                    del self._kept.get(job, [])[event["at"] :]
                else:
                    self._kept.setdefault(job, []).append(event)
        os.truncate(path, whole)


def kinds(path: Path) -> set[str]:
    """The kinds of the events in a tape's file; "" of what is no event. OSError."""
    found = set()
    for line in path.read_bytes().splitlines():
        try:
            found.add(str(loads(line)["what"]))
        except (ValueError, KeyError, TypeError):
            found.add("")
    return found


class Tape:
    """The events of one job, for one thread. `played` counts those replayed."""

    def __init__(self, tapes: Tapes, job: str, kept: list[JsonObject]):
        self._tapes, self._job, self._kept = tapes, job, kept
        self._kept_only = False
        self.played = 0

    @property
    def replays(self) -> bool:
        """Whether events of a killed run are left."""
        return self.played < len(self._kept)

    def part(self, name: str, kept_only: bool = False) -> "Tape":
        """The tape of a part of the job, which may run in another thread; see `done`. kept_only: it is only replayed."""
        tape = self._tapes.tape(f"{self._job}/{name}")
        tape._kept_only = kept_only
        return tape

    def done(self) -> None:
        """Drop the events of this part; its result is stored elsewhere."""
        self._tapes.done(self._job)

    def play(self, what: str, about: object, make: Callable[[], Answer]) -> Answer:
        """The next event's answer: replayed from the tape, or else `make()`, which is stored.

        `about` (JSON) has all that the answer depends on. A tape whose next event differs, because the tool has changed, is
        replayed no further. NothingKept: it is only replayed, and the next event differs or there is none.
        """
        digest = content_id(what, about)
        if self.played < len(self._kept):
            event = self._kept[self.played]
            if event["what"] == what and event["about"] == digest:
                self.played += 1
                answer: Answer = event["answer"]
                return answer
            if self._kept_only:
                raise NothingKept
            self._kept = []
            self._tapes.write({"job": self._job, "what": CUT, "at": self.played})
        if self._kept_only:
            raise NothingKept
        answer = make()
        self._tapes.write({"job": self._job, "what": what, "about": digest, "answer": answer})
        return answer
