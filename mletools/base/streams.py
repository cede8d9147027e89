"""What a path of the command line stands for: a descriptor of this process, a named pipe or device, or a regular file.

A descriptor is used as it is: opening /dev/stdout again would begin at the start of a redirected file, and a rename
would remove what the shell wrote there. Covered: `-`, /dev/stdin, /dev/stdout, /dev/stderr, /dev/fd/N, /proc/self/fd/N,
and symbolic links to them. Not covered: what is read or written (jsonl, output).
"""

import fcntl
import os
import re
import stat
import sys
from pathlib import Path

from .errors import ToolError

_FOLDER = re.compile(r"/proc/(\d+)(?:/task/\d+)?/fd|/dev/fd")
_MOST_LINKS = 40  # as in Linux
_SHUT = "it is closed, or not open"
_CLOSED = (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)  # by descriptor: what a missing one is opened for


def open_missing() -> None:
    """Open those of the descriptors 0 to 2 that are closed, so that no file that is opened later gets their number.

    Reading from 0 and writing to 1 still fail, and messages on 2 disappear.
    """
    for number, flags in enumerate(_CLOSED):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # the lowest free number is this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def descriptor(path: str, standard: int) -> int | None:
    """The descriptor of this process that a path names, open or not, or None. standard: the one that `-` names."""
    if path == "-":
        return standard
    process, number = _open_file(path)
    return number if process == os.getpid() else None


def _open_file(path: str) -> tuple[int | None, int]:
    """(process, descriptor) that a path in /proc or /dev/fd, or a link to it, stands for; (None, 0) for other paths."""
    place = Path(os.path.abspath(path))
    for _ in range(_MOST_LINKS):
        place = Path(os.path.realpath(place.parent)) / place.name
        folder = _FOLDER.fullmatch(str(place.parent))
        if folder and place.name.isdecimal():
            return int(folder[1] or os.getpid()), int(place.name)
        if not place.is_symlink():
            break
        place = place.parent / os.readlink(place)
    return None, 0


def is_stream(path: str) -> bool:
    """True for what is written as it is, without a rename: a descriptor, a named pipe, a device, a socket."""
    if path == "-" or _open_file(path)[0] is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False  # it can become a regular file
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def open_stream(path: str, stdout: int) -> int:
    """The descriptor that writes to a stream (see is_stream). stdout: where standard output has been moved to.

    Opening a named pipe waits for its reader. ToolError: it is not open for writing.
    """
    if descriptor(path, 1) is None:
        try:
            return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}; choose another place") from None
    number = writable(path, stdout)
    if number is None:
        raise ToolError(f"cannot write {name_of(path, 1)}: {_SHUT} for writing; -o FILE writes to a file")
    return number


def writable(path: str, stdout: int) -> int | None:
    """The descriptor that a path names and that is open for writing, or None. stdout: as in open_stream."""
    number = descriptor(path, 1)
    if number is None or not _is_inherited(number):
        return None
    moved = stdout if number == 1 else number
    return moved if _is_open_for(os.O_WRONLY, moved) else None


def readable(path: str) -> int | str:
    """What to open for reading: the path, or the descriptor that it names. ToolError: that is not open for reading."""
    number = descriptor(path, 0)
    if number is None:
        return path
    if not (_is_inherited(number) and _is_open_for(os.O_RDONLY, number)):
        raise ToolError(f"cannot read {name_of(path, 0)}: {_SHUT} for reading; name a file, or add `< FILE`")
    return number


def name_of(path: str, standard: int) -> str:
    """A path in messages: stdin and stdout have names."""
    return {0: "stdin", 1: "stdout"}.get(standard, path) if path == "-" else path


def shares_messages(number: int) -> bool:
    """Whether messages (descriptor 2) go to the same file as `number`; each is then appended to what is there."""
    if not os.path.sameopenfile(number, 2):
        return False
    if stat.S_ISREG(os.fstat(number).st_mode):
        for each in (number, 2):  # `> file 2> file` has two positions, and one would overwrite the other's text
            fcntl.fcntl(each, fcntl.F_SETFL, fcntl.fcntl(each, fcntl.F_GETFL) | os.O_APPEND)
    return True


def identity(path: str, standard: int) -> object:
    """Equal for two paths of one regular file or pipe; None for everything else, e.g. a terminal or a folder."""
    number = descriptor(path, standard)
    try:
        status = os.stat(path) if number is None else os.fstat(number)
    except OSError:
        return os.path.realpath(path) if number is None else None
    lasting = stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)
    return (status.st_dev, status.st_ino) if lasting else None


def _is_inherited(number: int) -> bool:
    """Whether a descriptor was open when this process began; Python opens its own so that no other process inherits them."""
    try:
        return os.get_inheritable(number)
    except OSError:
        return False


def _is_open_for(wanted: int, number: int) -> bool:
    return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE in (wanted, os.O_RDWR)
