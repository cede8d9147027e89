"""What a finished run came to: its status, and the submission it left.

Covered: telling time, memory, disk, output and crashes apart by what the kernel and the sandbox saw, and taking
submission.csv out through a directory descriptor once every process of the run is gone. Not covered: its content.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .interface import Limits, Outcome

SUBMISSION = "submission.csv"
_FILES_LOOKED_AT = 10_000
_KINDS = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))


@dataclass
class Ending:
    """A run as the command followed it; descriptors are to be closed by who made it."""

    work: int = -1  # descriptor of the work folder
    disk: int = -1  # descriptor of the disk that it lies on
    started: float | None = None  # seconds on the monotonic clock
    ended: float | None = None
    code: int | None = None  # exit code, negative for a signal; None where pid 1 was killed first
    stopped_for: str | None = None  # timeout or output, when the command stopped the run
    over_memory: bool = False
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    stdout: bytes = b""
    stderr: bytes = b""

    def note(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Take in an event of the server's, with the descriptors that came beside it."""
        event = message["event"]
        if event == "work":
            self.work, self.disk = descriptors
        elif event == "started":
            self.started = message["at"]
        elif event == "exit":
            self.code, self.ended = message["code"], message["at"]
        elif event == "ended":
            self.ended = self.ended or message["at"]
            self.cpu_s, self.peak_mb, self.over_memory = message["cpu_s"], message["peak_mb"], message["memory"]


def _is_full(work: int, disk: int, limits: Limits) -> bool:
    """Whether the run's own disk is full, or a file in its work folder has reached the limit of a single file."""
    figures = os.fstatvfs(disk)
    own_disk = figures.f_blocks * figures.f_frsize <= limits.disk_mb << 20
    if own_disk and (figures.f_bavail * 100 < figures.f_blocks or figures.f_ffree == 0):
        return True
    # Only the work folder itself: a solution can nest folders deeper than any walk should follow.
    with os.scandir(work) as entries:
        for entry in islice(entries, _FILES_LOOKED_AT):
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_size >= limits.file_mb << 20:
                    return True
    return False


def status_of(ending: Ending, limits: Limits) -> str:
    """One of ok, error, timeout, memory, disk, output, killed."""
    if ending.stopped_for is not None:
        return ending.stopped_for
    if ending.code == 0:
        return "ok"
    if ending.over_memory or ending.peak_mb >= 0.98 * limits.memory_mb:
        return "memory"
    if ending.code == -signal.SIGXCPU:
        return "timeout"
    if limits.cpu_s is not None and ending.code == -signal.SIGKILL and ending.cpu_s >= 0.95 * limits.cpu_s:
        return "timeout"
    if ending.code == -signal.SIGXFSZ:
        return "disk"
    if ending.code is None or ending.code < 0:
        return "killed"
    return "disk" if _is_full(ending.work, ending.disk, limits) else "error"


def take_submission(work: int, largest_mb: int) -> tuple[bytes | None, str | None]:
    """The content of submission.csv in the folder of descriptor `work`, or why there is none (or over `largest_mb`)."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(SUBMISSION, flags, dir_fd=work)
    except FileNotFoundError:
        return None, f"no {SUBMISSION}"
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None, f"{SUBMISSION} is a symbolic link"
        if error.errno == errno.ENXIO:
            return None, f"{SUBMISSION} is not a regular file"
        return None, f"{SUBMISSION} cannot be read"
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = next((name for test, name in _KINDS if test(status.st_mode)), "not a regular file")
            return None, f"{SUBMISSION} is {kind}"
        largest = largest_mb << 20
        content = b""
        if status.st_size <= largest:
            with os.fdopen(os.dup(descriptor), "rb") as file:
                content = file.read(largest + 1)
        if max(status.st_size, len(content)) > largest:
            return None, f"{SUBMISSION} is larger than {largest_mb} MB"
        return content, None
    finally:
        os.close(descriptor)


def outcome_of(ending: Ending, limits: Limits) -> Outcome:
    """The outcome of a run whose processes are all gone."""
    submission, problem = take_submission(ending.work, limits.submission_mb)
    status = status_of(ending, limits)
    begun = ending.started if ending.started is not None else ending.ended
    own_end = ending.stopped_for is None and ending.code is not None and ending.code >= 0
    return Outcome(
        status=status,
        exit_code=ending.code if own_end else None,
        duration_s=max(0.0, (ending.ended or 0.0) - (begun or 0.0)),
        cpu_s=ending.cpu_s,
        peak_memory_mb=ending.peak_mb,
        stdout=ending.stdout,
        stderr=ending.stderr,
        submission=submission,
        submission_problem=problem,
    )
