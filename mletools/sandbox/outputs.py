"""The outputs of a run: the files that its caller has declared, read from its work folder through descriptors.

A declared name that ends with / is a folder, with all the files in it. Covered: links, special files, sizes, numbers and
names of files, files that change while they are read. Not covered: what the files hold.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice

from ..base.errors import ToolError

SUBMISSION = "submission.csv"
MOST_FILES = 2000  # files and folders of an output that is a folder
_MOST_OUTPUTS = 8
_DEPTH = 2  # folders inside each other, of an output that is a folder
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))


class _Refused(Exception):
    """Why an output is not handed out."""


def check_outputs(outputs: Sequence[str]) -> None:
    """ToolError: too many outputs, or a name that is no plain relative path."""
    if len(outputs) > _MOST_OUTPUTS or not all(_is_plain(name.removesuffix("/")) for name in outputs):
        raise ToolError(f"outputs are at most {_MOST_OUTPUTS} plain names below the work folder, not {list(outputs)}")


def check_handed_out(names: Iterable[str], outputs: Sequence[str]) -> None:
    """ToolError: another machine hands out a file that is none of the declared outputs."""
    folders = tuple(name for name in outputs if name.endswith("/"))
    for name in names:
        if not _is_plain(name) or not (name in outputs or name.startswith(folders)):
            raise ToolError(f"a sandbox handed out {name[:80]!a}, which was not asked for")


def read_outputs(work: int, outputs: Sequence[str], largest_mb: int) -> tuple[dict[str, bytes], dict[str, str]]:
    """The contents by name of the outputs in the folder of descriptor `work`, and why each other one is not there.

    An output, be it a file or all files of a folder, has at most `largest_mb`.
    """
    contents: dict[str, bytes] = {}
    problems: dict[str, str] = {}
    for name in outputs:
        try:
            contents.update(_Reader(name, largest_mb).read(work))
        except _Refused as refused:
            problems[name] = str(refused)
    return contents, problems


def _is_plain(path: str) -> bool:
    return all(_PLAIN.fullmatch(part) for part in path.split("/"))


class _Reader:
    """Reads one output, and holds what may still be read of it."""

    def __init__(self, name: str, largest_mb: int) -> None:
        self._name, self._largest_mb = name, largest_mb
        self._bytes_left, self._files_left = largest_mb << 20, MOST_FILES

    def read(self, work: int) -> dict[str, bytes]:
        """_Refused: it is not handed out."""
        parts = self._name.removesuffix("/").split("/")
        with ExitStack() as stack:
            descriptor = work
            for depth, part in enumerate(parts, 1):
                shown = "/".join(parts[:depth])
                descriptor = self._open(descriptor, part, shown)
                stack.callback(os.close, descriptor)
                if self._name != shown and not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    raise _Refused(f"{shown} is not a directory")
            if self._name.endswith("/"):
                return dict(self._files(descriptor, self._name, 0))
            return {self._name: self._content(descriptor, self._name)}

    def _open(self, folder: int, name: str, shown: str) -> int:
        try:
            return os.open(name, _READ, dir_fd=folder)
        except FileNotFoundError:
            raise _Refused(f"no {shown}") from None
        except OSError as error:
            problems = {errno.ELOOP: "is a symbolic link", errno.ENXIO: "is not a regular file"}
            raise _Refused(f"{shown} {problems.get(error.errno or 0, 'cannot be read')}") from None

    def _files(self, folder: int, path: str, depth: int) -> Iterator[tuple[str, bytes]]:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in islice(entries, self._files_left + 1))
        self._files_left -= len(names)
        if self._files_left < 0:
            raise _Refused(f"more than {MOST_FILES} files and folders in {self._name}")
        if len({name.casefold() for name in names}) < len(names):  # one file on some disks
            raise _Refused(f"two names in {path} differ in case alone")
        for name in names:
            shown = path + name
            if depth > _DEPTH or not _PLAIN.fullmatch(name):
                told = shown.removeprefix(self._name)[:80]
                raise _Refused(
                    f"the file name {told!a} is refused: at most two folders, and letters, digits, _ . - only"
                )
            descriptor = self._open(folder, name, shown)
            try:
                if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    yield from self._files(descriptor, f"{shown}/", depth + 1)
                else:
                    yield shown, self._content(descriptor, shown)
            finally:
                os.close(descriptor)

    def _content(self, descriptor: int, shown: str) -> bytes:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _Refused(
                f"{shown} is {next((kind for test, kind in _KINDS if test(status.st_mode)), 'not a regular file')}"
            )
        content = b""
        if status.st_size <= self._bytes_left:
            with os.fdopen(os.dup(descriptor), "rb") as file:
                content = file.read(self._bytes_left + 1)
        self._bytes_left -= max(status.st_size, len(content))
        if self._bytes_left < 0:
            raise _Refused(f"{self._name} is larger than {self._largest_mb} MB")
        return content
