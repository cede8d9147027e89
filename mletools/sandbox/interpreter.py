"""Starts the interpreter again from a read-only view of its file, where a run could change that file.

A run that is forked from a warm process reaches the file of the interpreter through /proc/self/exe, on the mount from
which the warm process was started. The owner of a file may change its mode, times and attributes: an ordinary user's own
Python could be made unusable, and what was changed stays for later runs. Not covered: kernels without user namespaces.
"""

import os
import socket
import sys

from . import linux
from .job import NOBODY

_AGAIN = "again"


def start_read_only() -> None:
    """Replace this process, which has one thread; returns where that is not needed, done already or refused."""
    file = os.stat("/proc/self/exe")
    owned = file.st_uid == (os.geteuid() or NOBODY) or bool(file.st_mode & 0o022)
    if not owned or sys.argv[-1] == _AGAIN:
        return
    try:
        descriptor = _read_only(os.path.realpath("/proc/self/exe"))
        os.execv(f"/proc/self/fd/{descriptor}", [*sys.orig_argv, _AGAIN])
    except OSError:
        return


def _read_only(path: str) -> int:
    """A descriptor of the file at `path` on a read-only copy of its mount. OSError: refused."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = os.fork()
        if child == 0:
            try:
                linux.unshare(linux.CLONE_NEWNS | (linux.CLONE_NEWUSER if os.geteuid() else 0))
                tree = linux.clone_tree("/")
                linux.protect_mount(f"/proc/self/fd/{tree}", linux.MOUNT_ATTR_RDONLY, recursive=True)
                socket.send_fds(theirs, [b"x"], [os.open(path.lstrip("/"), os.O_RDONLY, dir_fd=tree)])
            finally:
                os._exit(0)
        theirs.close()
        descriptors = socket.recv_fds(ours, 1, 1)[1]
        os.waitpid(child, 0)
    if not descriptors:
        raise PermissionError("no read-only mount")
    return descriptors[0]
