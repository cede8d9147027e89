"""Locks on the files that every run can open whatever its namespaces, so that runs cannot pass bytes through locks.

Each attempt of a run to lock such a file ends the same way, since the template holds a shared lock on all of it: devices,
the interpreter's own file, namespaces that are not made anew, and the one inode behind all eventfd, epoll, timerfd and
signalfd. Not covered: GPU devices, which opening may wake; files of libraries without a mount namespace.
"""

import fcntl
import os
import struct
from contextlib import suppress

from .mounts import DEVICES

_FILES = ("/proc/self/exe", "/proc/self/ns/cgroup", "/proc/self/ns/time", *(f"/dev/{name}" for name in DEVICES))
_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)


def hold() -> None:
    """Take the locks; they end with this process and the servers that it forks."""
    descriptors = [os.eventfd(0, os.EFD_CLOEXEC)]
    for path in _FILES:
        with suppress(OSError):  # no time namespaces, or no such device
            descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    for descriptor in descriptors:
        with suppress(OSError):  # another program has an exclusive lock
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)
