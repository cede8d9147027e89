"""The journal of paid questions: one JSON object a line, on disk as soon as the reply is there, looked up by digest.

Covered: a torn last line of a killed run is cut, one run at a time writes (a lock), threads share it. Not covered: who
answers, and what a question's digest is made of.
"""

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import NotRequired, TypedDict, cast

from ...base.errors import ToolError
from ...base.jsonl import dumps, loads, read_lines
from ...base.output import lock


class Entry(TypedDict):
    """A question by its digest, and the reply; where there is none, the error."""

    role: str
    task: str
    attempt: int
    digest: str
    model: str
    reply: str | None
    error: str | None
    finish_reason: NotRequired[str]
    prompt_tokens: NotRequired[int | None]
    completion_tokens: NotRequired[int | None]
    seconds: NotRequired[float]
    usd: NotRequired[float | None]


class Journal:
    """The journal in the file `path`, whose folder is made. ToolError: another run writes it, or it cannot be read.

    An entry has a "digest"; one with a "reply" that is not null is found again by `find`.
    """

    def __init__(self, path: Path):
        self.path = path
        self._known: dict[str, Entry] = {}
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = lock(path, "--journal")
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> None:
        self._mend()
        self._file.seek(0)
        for entry in read_lines(self._file, str(self.path)):
            problem = entry.problem or (None if isinstance(entry.record.get("digest"), str) else 'no "digest"')
            if problem:
                raise ToolError(f"{entry.place}: {problem}; repair the line or give another --journal")
            self._keep(cast(Entry, entry.record))

    def _mend(self) -> None:
        """End the last line of a run that was killed while it wrote: cut it, unless its line end alone is missing."""
        self._file.seek(0)
        last = b"\n"
        for line in self._file:
            last = line
        if last.endswith(b"\n"):
            return
        try:
            loads(last)
        except ValueError:
            self._file.truncate(self._file.tell() - len(last))
        else:
            self._file.write(b"\n")
            self._file.flush()

    def _keep(self, entry: Entry) -> None:
        if entry.get("reply") is not None:
            self._known.setdefault(entry["digest"], entry)

    def find(self, digest: str) -> Entry | None:
        """The first entry with that digest and a reply."""
        return self._known.get(digest)

    def append(self, entry: Entry) -> None:
        """Write an entry and wait until it is on disk. ToolError where the disk takes no more."""
        with self._lock:
            try:
                self._file.write((dumps(entry) + "\n").encode())
                self._file.flush()
                os.fsync(self._file.fileno())
            except OSError as error:
                raise ToolError(f"{self.path}: {error.strerror}: the reply could not be kept") from None
            self._keep(entry)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
