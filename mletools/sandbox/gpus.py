"""Devices that are lent to one run at a time.

Covered: runs of this process, and of other commands of this machine that lease by the same names (a lock file for each
device in the folder for temporary files). Not covered: programs that never ask; a solution that ignores
CUDA_VISIBLE_DEVICES, unless a container hides the other devices from it.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..records.errors import ToolError

ANY = "any"  # one device for each run, which a cluster chooses
_LOOK_EVERY_S = 0.2


def parse(text: str) -> tuple[str, ...]:
    """The devices of a list such as "0,1" or "GPU-5e3a,GPU-77b1", or ("any",). ToolError: an odd or doubled name."""
    if text == ANY:
        return (ANY,)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not re.fullmatch(r"[0-9]+|(GPU|MIG)-[0-9A-Za-z/-]+", name):
            raise ToolError(f"{name!r} is no device: give numbers or UUIDs as nvidia-smi -L lists them, e.g. 0,1")
    if len(set(names)) < len(names):
        raise ToolError(f"a device is named twice in {text}")
    return names


class Leases:
    """Lends each of `devices` to one holder at a time. `lease` may be called from any thread."""

    def __init__(self, devices: Sequence[str]) -> None:
        self.devices = tuple(devices)
        self._changed = threading.Condition()
        self._lent: set[str] = set()

    @contextmanager
    def lease(self) -> Iterator[str | None]:
        """A device for the with block, waiting until one is free; None where there are no devices to lend."""
        if not self.devices:
            yield None
            return
        device, lock = self._take()
        try:
            yield device
        finally:
            os.close(lock)
            with self._changed:
                self._lent.discard(device)
                self._changed.notify()

    def _take(self) -> tuple[str, int]:
        while True:
            with self._changed:
                for device in self.devices:
                    if device not in self._lent:
                        lock = _try_lock(device)
                        if lock is not None:
                            self._lent.add(device)
                            return device, lock
                # All lent here: told when one comes back. Held by another command: looked at again and again.
                self._changed.wait(None if len(self._lent) == len(self.devices) else _LOOK_EVERY_S)


def _try_lock(device: str) -> int | None:
    """A descriptor that holds the lock of `device`; None while somebody else has it."""
    path = Path(tempfile.gettempdir()) / f"mletools-gpu-{device.replace('/', '-')}.lock"
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o444)
    except OSError as error:
        raise ToolError(f"cannot lease GPU {device}: {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
