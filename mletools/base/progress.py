"""Progress bars of the commands of one pipe on one terminal: each on a line of its own.

The commands find each other by their process group, which a shell gives to a pipe as a whole. Covered: bars that begin
and end at any time, messages above them. Not covered: other programs in the pipe that write to the terminal.
"""

import fcntl
import os
import socket
import sys
import threading
from typing import Any

MOST_BARS = 16
CLEAR_BELOW = "\r\x1b[J"


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

        self._line, position = take_line(os.getpgrp())
        self._lock = PipeLock(_open_terminal())
        tqdm.set_lock(self._lock)
        settings: dict[str, Any] = {"position": position, "leave": False, "mininterval": 0.5, "file": sys.stderr}
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
        self._bar.close()  # which disables it
        if self._line is not None:
            self._line.close()


def take_line(group: int) -> tuple[socket.socket | None, int]:
    """(socket whose name holds the line, the line's number from 0 on); (None, 0) where all are taken."""
    for number in range(MOST_BARS):
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
