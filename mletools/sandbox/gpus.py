"""Leases a GPU to one run at a time.

Covered: runs of all mletools commands on this machine, by one lock file per device in the temporary folder. Not
covered: other programs; a solution that ignores CUDA_VISIBLE_DEVICES, unless a container hides the other devices.
"""

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
_POLL_S = 0.2


def parse(text: str) -> tuple[str, ...]:
    """The devices in a list such as "0,1" or "GPU-5e3a,GPU-77b1", or ("any",). ToolError: invalid or repeated names."""
    if text == ANY:
        return (ANY,)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not re.fullmatch(r"[0-9]+|(GPU|MIG)-[0-9A-Za-z/-]+", name):
            raise ToolError(f"{name!r} is not a device: give numbers or UUIDs as nvidia-smi -L lists them, e.g. 0,1")
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
        """A device for the with block, after waiting for a free one; None if there are no devices."""
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
                # A return in this process notifies; locks of other commands must be polled.
                self._changed.wait(None if len(self._lent) == len(self.devices) else _POLL_S)


def _try_lock(device: str) -> int | None:
    """A descriptor that holds the lock of `device`; None while another process holds it."""
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
