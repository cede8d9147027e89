"""Where records go: standard output, or a file that appears under its name only when it is complete.

`FILE.partial` is written under a lock, fsynced and renamed. A run that was killed leaves FILE.partial; `resume`
goes on with it: a torn last line is cut, and what is finished is known by key.
"""

import fcntl
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from .errors import ToolError
from .jsonl import dumps, read_lines

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
    """Whether all of `file` is the beginning of the file `complete`."""
    file.seek(0)
    with open(complete, "rb") as other:
        while block := file.read(1 << 20):
            if block != other.read(len(block)):
                return False
    return True


class Output:
    """A place for records.

    path: the final file, or None for `stream`. With `resume`, `finished` counts the keys (`key(record)`) of the
    records that an earlier run completed, and `earlier` is the last of those records.
    """

    def __init__(self, path: Path | None, stream: BinaryIO | None, resume: bool, key: Key):
        self.path: Path | None = None
        self.finished = Counter[Any]()
        self.earlier: dict[str, Any] | None = None
        self._copy_first = False
        self._file: BinaryIO
        if path is not None and path.exists() and not path.is_file():  # a device or a named pipe: nothing to rename
            self._file = open(path, "wb")  # noqa: SIM115 (open for as long as the run)
            return
        if path is None:
            assert stream is not None
            self._file = stream
            return
        path = self.path = Path(os.path.realpath(path)) if path.is_symlink() else path
        self.partial = path.with_name(path.name + ".partial")
        try:
            self._file = _lock(self.partial)
        except OSError as error:
            raise ToolError(f"{self.partial}: {error.strerror}") from None
        if resume:
            self._take_up(key)
        else:
            if self._file.seek(0, os.SEEK_END):
                print(f"{self.partial}: left by a killed run, discarded (--resume goes on with it)", file=sys.stderr)
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

    def write(self, record: dict[str, Any]) -> None:
        """Append one record and flush it. BrokenPipeError when a pipe's reader is gone; ToolError on a full disk."""
        self.write_bytes((dumps(record) + "\n").encode())

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
        """Give the complete file its final name; a resumed run with nothing new leaves the old one as it is."""
        if self.path is None:
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
