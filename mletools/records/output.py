"""Where records go: standard output, or a file that appears under its name only when it is complete.

`FILE.partial` is written under a lock, fsynced and renamed. A run that was killed leaves FILE.partial; `resume`
goes on with it: a torn last line is cut, and what is finished is known by key. What is there is replaced by force alone.

A stream tells whether it is whole by its last line: the line end of a record is written together with the next record, and that
of the last one when the work is done. Whoever fails leaves a torn line behind, whoever is killed one without an end, and the
command that reads the stream fails in turn (jsonl.read_files). A stream that is whole has nothing in it but records. What is
written here ends in jsonl.END, a brace behind a space: others, who may leave out the last line's end, write none.
"""

import contextlib
import fcntl
import os
import select
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from .errors import ToolError
from .jsonl import END, dumps, read_lines

Key = Callable[[dict[str, Any]], Any]


def _lock(path: Path) -> BinaryIO:
    """`path` opened for reading and writing and locked; ToolError when another process holds it."""
    while True:
        file = open(path, "a+b")  # noqa: SIM115 (it stays open for as long as it is locked)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise ToolError(f"{path}: another run is writing it; wait for it or choose another -o") from None
        try:
            if os.stat(path).st_ino == os.fstat(file.fileno()).st_ino:
                return file
        except FileNotFoundError:
            pass
        file.close()  # the other run renamed or removed it between our open and our lock


def _cut_torn_line(file: BinaryIO) -> None:
    """Truncate after the last line end."""
    size = end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 65536)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        file.truncate(end)
    file.seek(0, os.SEEK_END)


def _begins_like(file: BinaryIO, complete: Path) -> bool:
    """True if the content of `file` is a prefix of the file `complete`."""
    file.seek(0)
    with open(complete, "rb") as other:
        while block := file.read(1 << 20):
            if block != other.read(len(block)):
                return False
    return True


class Output:
    """A place for records.

    path: the final file, or None for `stream`. With `resume`, `finished` counts the keys (`key(record)`) of the
    records that an earlier run completed, and `earlier` is the last of those records. ToolError where the file, or what a
    killed run left of it, is there and neither `resume` nor `force` says what to do with it.
    """

    def __init__(self, path: Path | None, stream: BinaryIO | None, resume: bool, key: Key, force: bool = False):
        self.path: Path | None = None
        self.finished = Counter[Any]()
        self.earlier: dict[str, Any] | None = None
        self._copy_first = False
        self._file: BinaryIO
        if path is not None and path.exists() and not path.is_file():  # a device or a named pipe: nothing to rename
            stream = open(path, "wb")  # noqa: SIM115 (open for as long as the run)
            path = None
        self._unended = False  # the last line of a stream
        if path is None:
            assert stream is not None
            self._file = stream
            return
        path = self.path = Path(os.path.realpath(path)) if path.is_symlink() else path
        self.partial = path.with_name(path.name + ".partial")
        if path.exists() and not (resume or force):
            raise ToolError(f"{path}: is there already; --resume goes on with it, --force writes it anew")
        try:
            self._file = _lock(self.partial)
        except OSError as error:
            raise ToolError(f"{self.partial}: {error.strerror}") from None
        if resume:
            self._take_up(key)
        elif self._file.seek(0, os.SEEK_END) and not force:
            raise ToolError(
                f"{self.partial}: left by a run that did not end; --resume goes on with it, --force discards it"
            )
        else:
            self._file.truncate(0)

    def _take_up(self, key: Key) -> None:
        assert self.path is not None
        if self.path.exists() and _begins_like(self._file, self.path):  # nothing new in it: empty, or a copy cut short
            self._file.truncate(0)
        _cut_torn_line(self._file)
        if self._file.tell() == 0 and self.path.exists():
            self._copy_first = True
            with open(self.path, "rb") as complete:
                self._read_finished(complete, str(self.path), key)
        else:
            self._file.seek(0)
            self._read_finished(self._file, str(self.partial), key)
            self._file.seek(0, os.SEEK_END)

    def _read_finished(self, file: BinaryIO, name: str, key: Key) -> None:
        for line in read_lines(file, name):
            if line.problem:
                raise ToolError(f"{line.place}: {line.problem}; cannot resume from it: repair or remove the file")
            self.finished[key(line.record)] += 1
            self.earlier = line.record

    def write(self, record: dict[str, Any], ended: bool = False) -> None:
        """Append one record and flush it. BrokenPipeError when a pipe's reader is gone; ToolError on a full disk.

        ended: end the line of a stream at once, for it has no end that could be missing.
        """
        line = dumps(record).encode()[:-1] + END
        if self.path is not None or self._file.isatty():
            self.write_bytes(line + b"\n")
            return
        before = b"\n" if self._unended else b""
        self._unended = not ended
        self.write_bytes(before + line + (b"\n" if ended else b""))

    def write_bytes(self, content: bytes) -> None:
        try:
            if self._copy_first:
                assert self.path is not None
                with open(self.path, "rb") as complete:
                    shutil.copyfileobj(complete, self._file)
                self._copy_first = False
            self._file.write(content)
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ToolError(f"cannot write {self.partial if self.path else 'stdout'}: {error.strerror}") from None

    def commit(self) -> None:
        """Give the complete file its final name, or a stream the end of its last line.

        A resumed run with nothing new leaves the old file as it is.
        """
        if self.path is None:
            if self._unended:
                self.write_bytes(b"\n")
            return
        if self._copy_first:
            os.unlink(self.partial)
        else:
            os.fsync(self._file.fileno())
            os.replace(self.partial, self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        self._file.close()

    def abandon(self) -> None:
        """The work has failed: leave a torn line at the end of a stream."""
        if self.path is None:
            tear(self._file.fileno(), self._unended)


def tear(descriptor: int, unended: bool = False) -> None:
    """Write the beginning of a record that never comes. A person at a terminal, or a pipe that is full, gets none."""
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    with contextlib.suppress(OSError):
        if not os.isatty(descriptor) and room.poll(0):
            os.write(descriptor, b"\n{" if unended else b"{")
