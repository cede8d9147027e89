"""Progress bars of the commands of one pipe on one terminal: each on a line of its own, in the order of the pipe.

The commands find each other by their process group, which a shell gives to a pipe as a whole, in the order in which it
started them. Covered: bars that begin and end at any time, messages above them; no bar is drawn where another program of
the pipe (head, jq, less) writes to the terminal. Not covered: programs outside the pipe that write there.
"""

import contextlib
import fcntl
import functools
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from .columns import UNKNOWN, terminal_columns

MOST_BARS = 16
FORKED_S = 0.3  # in which a shell's fork becomes the program that it is for
CLEAR_BELOW, CLEAR_LINE = "\r\x1b[J", "\r\x1b[K"


class PipeLock:
    """A lock for all threads and processes that draw on this pipe's terminal; tqdm takes it around each drawing."""

    def __init__(self, descriptor: int | None):
        self._descriptor, self._thread = descriptor, threading.RLock()
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait for the lock, or with blocking=False give up at once; `timeout` bounds the wait for threads alone."""
        if not self._thread.acquire(blocking, timeout):
            return False
        if self._depth == 0 and self._descriptor is not None:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
            except BlockingIOError:
                self._thread.release()
                return False
        self._depth += 1
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._depth -= 1
        if self._depth == 0 and self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._thread.release()

    def __enter__(self) -> "PipeLock":
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


class ProgressBar:
    """A tqdm bar on the first free line of the pipe's terminal."""

    def __init__(self, name: str, total: int | None, unit: str):
        from tqdm import tqdm

        self._line, self._position = take_line(os.getpgrp(), sum(map(_is_ours, siblings()[0])))
        self._lock = PipeLock(_open_terminal())
        tqdm.set_lock(self._lock)
        # Narrower than the terminal: it would break the line where it shows ^C behind a bar.
        columns = max(1, (terminal_columns(2) or UNKNOWN) - len("^C") - 1)
        settings: dict[str, Any] = {"position": self._position, "leave": False, "mininterval": 0.5, "file": sys.stderr}
        settings["ncols"] = columns
        self._bar: Any = tqdm(total=total, unit=f" {unit}", desc=name, **settings)

    def update(self) -> None:
        """One more is done."""
        self._bar.update()

    def note(self, text: str) -> None:
        """Show the state of the current work after the bar."""
        self._bar.set_postfix_str(text)

    def say(self, message: str) -> None:
        """Print a line above all bars of the pipe, which are drawn again below it; also after `close`."""
        with self._lock:
            print(f"{CLEAR_BELOW}{message}", file=sys.stderr, flush=True)
            if not self._bar.disable:
                self._bar.refresh()

    def close(self) -> None:
        """Remove the bar and free its line."""
        with self._lock:
            self._bar.close()  # which disables it
            if self._position == 0:
                print(CLEAR_LINE, end="", file=sys.stderr, flush=True)  # also of ^C behind the bar
        if self._line is not None:
            self._line.close()


def siblings() -> tuple[list[int], list[int]]:
    """The processes of this pipe (of one group and parent), in order of start: (those before this one, those after)."""
    found = []
    group, parent, mine = os.getpgrp(), os.getppid(), os.getpid()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text(errors="replace").rpartition(")")[2].split()
            if [int(fields[1]), int(fields[2])] == [parent, group]:
                found.append((int(fields[19]), int(entry.parent.name)))  # 19: ticks since the machine started
    ordered = [process for _, process in sorted(found)]
    at = ordered.index(mine) if mine in ordered else 0
    return ordered[:at], ordered[at + 1 :]


def others_write() -> bool:
    """Whether a program of the pipe that is none of our commands has the terminal of our messages as its output."""
    try:
        terminal = os.ttyname(2)
    except OSError:
        return False
    before, after = siblings()
    for process in (*before, *after):
        with contextlib.suppress(OSError):
            if not _is_ours(process) and os.readlink(f"/proc/{process}/fd/1") == terminal:
                return True
    return False


@functools.cache
def _is_ours(process: int) -> bool:
    """Whether a process is one of our commands, by the name of its script. One that the shell has just forked is waited for."""
    try:
        begun = time.monotonic()
        while time.monotonic() - begun < FORKED_S and _program(process) == _program(os.getppid()):
            time.sleep(0.01)
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[:2]
    except OSError:
        return False
    return any(os.path.basename(word).startswith(b"mle") for word in words)


def _program(process: int) -> str:
    return os.readlink(f"/proc/{process}/exe")


def take_line(group: int, wanted: int = 0) -> tuple[socket.socket | None, int]:
    """(socket whose name holds the line, the line's number from 0 on): the wanted one, or the first free one; (None, 0)
    where all are taken.
    """
    for number in (wanted, *range(MOST_BARS)):
        line = socket.socket(socket.AF_UNIX)
        try:
            line.bind(f"\0mletools-bar-{os.getuid()}-{group}-{number}")  # a name that ends with its process
            return line, number
        except OSError:
            line.close()
    return None, 0


def _open_terminal() -> int | None:
    """A descriptor of the terminal that is standard error, whose lock all commands of the pipe share."""
    try:
        return os.open(os.ttyname(2), os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
