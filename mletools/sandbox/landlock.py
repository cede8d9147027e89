"""Landlock: restricts file access by path, for a process without a mount namespace.

Covered: read-only and read-write folders, TCP, and since Linux 6.12 signals and abstract sockets to outside processes.
Not covered: the choice of folders; UDP and other networks (the seccomp filter refuses those sockets).
"""

import ctypes
import os
import stat
import struct
from collections.abc import Mapping, Sequence

from . import linux

_SCOPED_SIGNALS = 6  # the first version that stops a solution from signalling its server
_CREATE, _ADD_RULE, _RESTRICT = 0, 1, 2
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_ALL_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_DEVICE_IOCTL = 1 << 15
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | (1 << 14) | _DEVICE_IOCTL
_TCP_BIND_AND_CONNECT, _SCOPE_SOCKETS_AND_SIGNALS = 3, 3


def version() -> int:
    """The kernel's Landlock version; 0 if it has none."""
    try:
        return linux.landlock(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0


def exposes_server(protections: Mapping[str, bool]) -> bool:
    """Whether a run with these protections could kill its own server."""
    return not protections["pid_namespace"] and version() < _SCOPED_SIGNALS


def restrict(readable: Sequence[str], listed: Sequence[str], writable: Sequence[str]) -> None:
    """Permanently close all other paths to the calling process, which has set no_new_privs. OSError: refused.

    Of the folders `listed`, and of all below, the names can be read.
    """
    abi = version()
    if abi < 1:
        raise OSError("this kernel has no Landlock")
    handled = _ALL_BY_VERSION.get(abi, _ALL_BY_VERSION[4]) | (_DEVICE_IOCTL if abi >= 5 else 0)
    network = _TCP_BIND_AND_CONNECT if abi >= 4 else 0
    scope = _SCOPE_SOCKETS_AND_SIGNALS if abi >= 6 else 0
    attributes = struct.pack("=QQQ", handled, network, scope)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    ruleset = linux.landlock(_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        for path, access in [
            *((path, _EXECUTE | _READ_FILE | _READ_DIR) for path in readable),
            *((path, _READ_DIR) for path in listed),
            *((path, handled & ~_EXECUTE) for path in writable),
        ]:
            _allow(ruleset, path, access & handled)
        linux.landlock(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _FILE_ONLY
        rule = struct.pack("=Qi", access, descriptor)
        linux.landlock(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
    finally:
        os.close(descriptor)
