"""Tapes: what a job got from the world, event by event, on disk as it happens, so that a killed job is played again.

A job asks a model, runs programs, draws from a pool: each answer is an event. A job that is begun again gets the events
on its tape in their order, for nothing, and goes on live where the tape ends. Covered: a torn last line, many threads,
events of finished jobs not held in memory. Not covered: which events there are; two runs on one file (the caller's
output is locked, and the tape belongs to it).
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import ToolError
from .ids import content_id
from .jsonl import dumps, loads

DONE, CUT = "done", "cut"


class Tapes:
    """The tapes of a run's jobs, in the file `path`; None keeps nothing. `resume` plays what the file holds.

    ToolError: the file cannot be read or written, or holds something else.
    """

    def __init__(self, path: Path | None, resume: bool = False):
        self._path = path
        self._lock = threading.Lock()
        self._kept: dict[str, list[dict[str, Any]]] = {}
        self._done: set[str] = set()
        self._file: Any = None
        if path is None:
            return
        try:
            if resume and path.exists():
                self._read(path)
            self._file = open(path, "ab" if resume else "wb")  # noqa: SIM115 (open as long as the run)
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None

    def tape(self, job: str) -> "Tape":
        """The tape of a job; what it holds is played once."""
        return Tape(self, job, self._kept.pop(job, []))

    def has(self, job: str) -> bool:
        """True if a killed run left events of this job."""
        return job in self._kept

    def is_done(self, job: str) -> bool:
        """True if a killed run had completed this job."""
        return job in self._done

    def done(self, job: str) -> None:
        """The job's records are written: its events are of no use any more."""
        self.write({"job": job, "what": DONE})

    def write(self, event: dict[str, Any]) -> None:
        """Append an event and wait until it is on disk: what it holds was paid for."""
        if self._file is None:
            return
        line = (dumps(event) + "\n").encode("utf-8", "replace")
        try:
            with self._lock:
                self._file.write(line)
                self._file.flush()
            os.fsync(self._file.fileno())  # outside the lock: many jobs share one wait
        except OSError as error:
            raise ToolError(f"{self._path}: {error.strerror}: what was just paid for could not be kept") from None

    def close(self, complete: bool) -> None:
        """Close the file; a `complete` run needs it no more, and it is removed."""
        if self._file is not None:
            self._file.close()
            if complete and self._path is not None:
                self._path.unlink(missing_ok=True)

    def _read(self, path: Path) -> None:
        whole = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    event = loads(line)
                    job, what = event["job"], event["what"]
                except (ValueError, KeyError, TypeError):
                    if line.endswith(b"\n"):
                        raise ToolError(f"{path}:{number}: not a tape of this command; move the file away") from None
                    break  # a torn last line
                if not line.endswith(b"\n"):
                    break
                whole += len(line)
                if what == DONE:
                    self._kept.pop(job, None)
                    self._done.add(job)
                elif what == CUT:
                    del self._kept.get(job, [])[event["at"] :]
                else:
                    self._kept.setdefault(job, []).append(event)
        os.truncate(path, whole)


class Tape:
    """The events of one job, for one thread."""

    def __init__(self, tapes: Tapes, job: str, kept: list[dict[str, Any]]):
        self._tapes, self._job, self._kept = tapes, job, kept
        self._at = 0
        self.played = 0

    def part(self, name: str) -> "Tape":
        """The tape of a part of the job, which may be worked on in another thread; see `done`."""
        return self._tapes.tape(f"{self._job}/{name}")

    def done(self) -> None:
        """Drop the events of this part; its result is stored elsewhere."""
        self._tapes.done(self._job)

    def play(self, what: str, about: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The next event's answer: from the tape where it holds one, else `make()`, which is kept.

        `about` is what the answer depends on (JSON): a tape that tells of something else, because the tool has changed,
        is not played any further.
        """
        digest = content_id(what, about)
        if self._at < len(self._kept):
            event = self._kept[self._at]
            if event["what"] == what and event["about"] == digest:
                self._at += 1
                self.played += 1
                answer: dict[str, Any] = event["answer"]
                return answer
            self._kept = []
            self._tapes.write({"job": self._job, "what": CUT, "at": self._at})  # what follows is another story
        answer = make()
        self._tapes.write({"job": self._job, "what": what, "about": digest, "answer": answer})
        return answer
