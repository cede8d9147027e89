"""The outcome of a finished run: its status and its outputs.

Covered: telling timeout, memory, disk, output and crashes apart by the observations of the kernel and the sandbox. Not
covered: reading the outputs (`outputs`).
"""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from .channel import Packet
from .interface import Limits, Outcome, Status
from .outputs import read_outputs

_MOST_FILES = 10_000


@dataclass
class Observations:
    """The events of one run, as received from its server."""

    work: int = -1  # descriptor of the work folder
    disk: int = -1  # descriptor of the disk with the work folder
    started: float | None = None  # seconds on the monotonic clock
    ended: float | None = None
    code: int | None = None  # exit code, negative for a signal; None if pid 1 was killed first
    stopped_for: Literal["timeout", "output"] | None = None  # why the command stopped the run
    over_memory: bool = False
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    stdout: bytes = b""
    stderr: bytes = b""

    def note(self, message: Packet, descriptors: Sequence[int]) -> None:
        """Add an event of the server and its descriptors."""
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

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in (self.work, self.disk):
            if descriptor >= 0:
                os.close(descriptor)


def _is_full(work: int, disk: int, limits: Limits) -> bool:
    """Whether the run's own disk is full, or a file in its work folder has reached the limit of a single file."""
    figures = os.fstatvfs(disk)
    own_disk = figures.f_blocks * figures.f_frsize <= limits.disk_mb << 20
    if own_disk and (figures.f_bavail * 100 < figures.f_blocks or figures.f_ffree == 0):
        return True
    # Not recursively: a solution can nest folders very deep.
    with os.scandir(work) as entries:
        for entry in islice(entries, _MOST_FILES):
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_size >= limits.file_mb << 20:
                    return True
    return False


def status_of(seen: Observations, limits: Limits) -> Status:
    """How the run ended."""
    if seen.stopped_for is not None:
        return seen.stopped_for
    if seen.code == 0:
        return "ok"
    if seen.over_memory:
        return "memory"
    if seen.code == -signal.SIGXCPU:
        return "timeout"
    if limits.cpu_s is not None and seen.code == -signal.SIGKILL and seen.cpu_s >= 0.95 * limits.cpu_s:
        return "timeout"
    if seen.code == -signal.SIGXFSZ:
        return "disk"
    if seen.code is None or seen.code < 0:
        return "killed"
    return "disk" if _is_full(seen.work, seen.disk, limits) else "error"


def outcome_of(seen: Observations, limits: Limits, declared: Sequence[str]) -> Outcome:
    """The outcome of a run whose processes have all ended, with its `declared` outputs."""
    outputs, problems = read_outputs(seen.work, declared, limits.submission_mb)
    began = seen.started if seen.started is not None else seen.ended
    exited = seen.stopped_for is None and seen.code is not None and seen.code >= 0
    return Outcome(
        status=status_of(seen, limits),
        exit_code=seen.code if exited else None,
        duration_s=max(0.0, (seen.ended or 0.0) - (began or 0.0)),
        cpu_s=seen.cpu_s,
        peak_memory_mb=seen.peak_mb,
        stdout=seen.stdout,
        stderr=seen.stderr,
        outputs=outputs,
        problems=problems,
    )
