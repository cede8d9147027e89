"""Where records go: standard output, or a file that appears under its name only when it is complete.

`FILE.partial` is written under a lock, fsynced and renamed. A killed run leaves FILE.partial; `resume` continues it: a
torn last line is cut, and finished records are known by key. Only `force` replaces existing content.

The last line of a stream says whether the stream is complete: a record's line end is written together with the next record,
and the last one when the work is done. A writer that fails leaves a torn line, a killed one an unterminated line, and the
command that reads the stream fails in turn (jsonl.read_files). Records end in jsonl.END, a brace after a space, which
other programs, who may omit the last line end, do not write.
"""

import contextlib
import fcntl
import os
import select
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from .errors import ToolError
from .jsonl import END, JsonObject, dumps, read_lines

PATIENCE = 5, 0.02  # attempts at a lock, and seconds between them: is_locked may hold it for a moment
LEFT = "left by an unfinished run; --resume continues it, --force discards it"
AnyRecord = Mapping[str, object]  # of whatever kind
Key = Callable[[Any], object]  # of a record


def record_id(record: AnyRecord) -> object:
    """The usual key of a record."""
    return record["id"]


def replace_file(file: BinaryIO, target: Path) -> None:
    """Rename an open, complete file to `target`, durably; it is on the same file system."""
    os.fsync(file.fileno())
    os.replace(file.name, target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def lock(path: Path, option: str = "-o") -> BinaryIO:
    """`path`, which `option` names, opened for reading and writing and locked; ToolError when another process holds it."""
    if path.exists() and not path.is_file():
        raise ToolError(f"{path}: is no regular file; remove it or choose another {option}")
    attempts, pause = PATIENCE
    while True:
        file = open(path, "a+b")  # noqa: SIM115 (it stays open while it is locked)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            if attempts := attempts - 1:
                time.sleep(pause)
                continue
            raise ToolError(f"{path}: another run is writing it; wait for it or choose another {option}") from None
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_ino == os.fstat(file.fileno()).st_ino:
                return file
        file.close()  # the other run renamed or removed it between our open and our lock


def is_locked(path: Path) -> bool:
    """Whether a process has locked the file (`lock`), which it does while it writes it; False: there is no file."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _cut_torn_line(file: BinaryIO) -> None:
    """Truncate after the last line end, and seek to the end."""
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
    """A destination of records.

    path: the final file, or None for `stream`, which messages call `name`. With `resume`, `finished` counts the keys
    (`key(record)`) of the records of the earlier run, and `earlier` is its last record. ToolError if the path is no
    regular file, or if it or its .partial exists and neither `resume` nor `force` is given.
    """

    def __init__(
        self,
        path: Path | None,
        stream: BinaryIO | None,
        resume: bool,
        key: Key,
        force: bool = False,
        name: str = "stdout",
    ):
        self.path: Path | None = None
        self.finished = Counter[object]()
        self.earlier: JsonObject | None = None
        self._copy_first = False
        self._unended = False  # the last line of a stream
        self._lock = threading.RLock()
        self._name = name
        if path is None:
            assert stream is not None
            self._file = stream
            return
        path = self.path = Path(os.path.realpath(path)) if path.is_symlink() else path
        self.partial = path.with_name(path.name + ".partial")
        if path.exists() and not path.is_file():
            raise ToolError(f"{path}: is no regular file, and would be replaced")
        if path.exists() and not (resume or force):
            raise ToolError(f"{path}: already exists; --resume continues it, --force replaces it")
        try:
            self._file = lock(self.partial)
        except OSError as error:
            hint = "make its folder first" if isinstance(error, FileNotFoundError) else "choose another place"
            raise ToolError(f"{self.partial}: {error.strerror}; {hint}") from None
        if resume:
            self._take_up(key)
        elif self._file.seek(0, os.SEEK_END) and not force:
            raise ToolError(f"{self.partial}: {LEFT}")
        else:
            self._file.truncate(0)

    def _take_up(self, key: Key) -> None:
        assert self.path is not None
        if self.path.exists() and _begins_like(self._file, self.path):  # empty, or a copy that was cut short
            self._file.truncate(0)
        _cut_torn_line(self._file)
        if self._file.tell() == 0 and self.path.exists():
            self._copy_first = True
            with open(self.path, "rb") as complete:
                self._read_finished(complete, str(self.path), key)
                complete.seek(max(0, complete.seek(0, os.SEEK_END) - 1))
                unterminated = complete.read(1) not in (b"\n", b"")  # a stream whose writer was killed
            if unterminated:
                self.write_bytes(b"\n")
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

    def write(self, record: AnyRecord, ended: bool = False) -> None:
        """Append one record and flush it. BrokenPipeError when a pipe's reader is gone; ToolError on a full disk.

        ended: terminate a stream's line at once, because the stream has no end.
        """
        line = dumps(record).encode()[:-1] + END
        if self.path is not None or self._file.isatty():
            self.write_bytes(line + b"\n")
            return
        with self._lock:
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
            raise ToolError(f"cannot write {self.partial if self.path else self._name}: {error.strerror}") from None

    def commit(self) -> None:
        """Rename the complete file, or terminate the last line of a stream.

        A resumed run without new records leaves the old file unchanged.
        """
        if self.path is None:
            self.end_line()
            return
        if self._file.closed:  # committed before
            return
        if self._copy_first:
            os.unlink(self.partial)
        else:
            replace_file(self._file, self.path)
        self._file.close()

    @property
    def descriptor(self) -> int:
        """The descriptor that it writes to."""
        return self._file.fileno()

    def end_line(self) -> None:
        """Terminate the last line of a stream: the work is done, or a message is to follow in the same file."""
        with self._lock:
            if self._unended:
                self._unended = False
                self.write_bytes(b"\n")

    def abandon(self) -> None:
        """The work has failed: leave a torn line at the end of a stream."""
        if self.path is None:
            tear(self._file.fileno(), self._unended)


class Side:
    """A second output of a run, whose records are stamped. `emit` may be called from any thread."""

    def __init__(self, output: Output, stamp: Callable[[AnyRecord], AnyRecord]):
        self.output, self._stamp = output, stamp
        self._lock = threading.Lock()
        self._skip = Counter(output.finished)  # as of Run
        self.written = 0

    def settled(self, ids: Counter[str]) -> None:
        """As of Run."""
        self._skip.subtract(ids)

    def emit(self, record: AnyRecord, again: bool = True) -> None:
        """Write a record, unless it comes `again`, and the resumed run has written it."""
        with self._lock:
            if again and self._skip[record["id"]] > 0:
                self._skip[record["id"]] -= 1
            else:
                self.output.write(self._stamp(record))
                self.written += 1


def tear(descriptor: int, unended: bool = False) -> None:
    """Write the beginning of an incomplete record, unless `descriptor` is a terminal or a full pipe."""
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    with contextlib.suppress(OSError):
        if not os.isatty(descriptor) and ready.poll(0):
            os.write(descriptor, b"\n{" if unended else b"{")
