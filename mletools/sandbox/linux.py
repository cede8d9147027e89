"""Linux system calls that Python 3.10 lacks, through ctypes.

Covered: mounts, namespaces, the loopback interface, prctl, capabilities, Landlock. Every function raises OSError with the kernel's errno. Not
covered: the order of the calls (`job`, `mounts`, `seccomp`, `landlock`).
"""

import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct

MACHINE = platform.machine()
ARM = MACHINE in ("aarch64", "arm64")
SUPPORTED_MACHINE = ARM or MACHINE == "x86_64"

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 0x1000, 0x2000, 0x4000, 0x40000
MNT_DETACH = 2
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47

_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_SYS_PIVOT_ROOT, _SYS_CLONE = (41, 220) if ARM else (155, 56)
_SYS_OPEN_TREE, _SYS_MOUNT_SETATTR, _SYS_LANDLOCK = 428, 442, 444
_OPEN_TREE_CLONE = 1
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_MOST_IN_SOCKET = 212992  # bytes, what the kernel lets a unix socket hold

_libc = ctypes.CDLL(None, use_errno=True)
_libc_with_gil = ctypes.PyDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


class _CapHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def _check(result: int, call: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")
    return result


def _syscall(number: int, *arguments: object) -> int:
    return int(_libc.syscall(ctypes.c_long(number), *arguments))


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str | None = None) -> None:
    """mount(2)."""
    names = source.encode(), target.encode(), kind.encode() if kind else None
    result = _libc.mount(*names, ctypes.c_ulong(flags), options.encode() if options else None)
    _check(result, f"mount {target}")


def protect_mount(target: str, attributes: int, recursive: bool) -> None:
    """mount_setattr(2): add `attributes` to the mount at `target`, and to those below it if `recursive`."""
    attr = _MountAttr(attributes, 0, 0, 0)
    place = ctypes.c_int(_AT_FDCWD), target.encode(), ctypes.c_uint(_AT_RECURSIVE if recursive else 0)
    result = _syscall(_SYS_MOUNT_SETATTR, *place, ctypes.byref(attr), ctypes.c_size_t(ctypes.sizeof(attr)))
    _check(result, f"mount_setattr {target}")


def clone_tree(path: str) -> int:
    """open_tree(2): a descriptor of a copy of the mount at `path` and those below it, which is mounted nowhere."""
    flags = ctypes.c_uint(_OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE)
    return _check(_syscall(_SYS_OPEN_TREE, ctypes.c_int(_AT_FDCWD), path.encode(), flags), f"open_tree {path}")


def detach(target: str) -> None:
    """umount2(2) with MNT_DETACH."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    """pivot_root(2)."""
    _check(_syscall(_SYS_PIVOT_ROOT, new.encode(), old.encode()), "pivot_root")


def fork_into(namespaces: int) -> int:
    """Like os.fork, with the child as the first process of new namespaces; OSError: refused.

    unshare and a second fork take about ten milliseconds longer in a large process. The child's libc has a wrong thread
    id, so the child should do little but fork again. The caller has one thread.
    """
    api = ctypes.pythonapi
    api.PyOS_BeforeFork()
    flags = ctypes.c_ulong(namespaces | signal.SIGCHLD)
    pid = _libc_with_gil.syscall(ctypes.c_long(_SYS_CLONE), flags, *[ctypes.c_ulong(0)] * 4)
    if pid == 0:
        api.PyOS_AfterFork_Child()
        return 0
    api.PyOS_AfterFork_Parent()
    return _check(int(pid), "clone")


def unshare(flags: int) -> None:
    """unshare(2)."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def prctl(option: int, second: int = 0, third: object = 0, fourth: int = 0, fifth: int = 0) -> int:
    """prctl(2); `third` may be a pointer from ctypes.byref."""
    pointer = ctypes.c_ulong(third) if isinstance(third, int) else third
    numbers = ctypes.c_ulong(fourth), ctypes.c_ulong(fifth)
    return _check(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(second), pointer, *numbers), f"prctl {option}")


def map_user(outer_uid: int, outer_gid: int, inner: int) -> None:
    """In a new user namespace: map the caller's ids, formerly `outer_uid` and `outer_gid`, to `inner`."""
    maps = {"setgroups": "deny", "uid_map": f"{inner} {outer_uid} 1", "gid_map": f"{inner} {outer_gid} 1"}
    for name, text in maps.items():
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def raise_loopback() -> None:
    """Bring up the loopback interface of this network namespace, for little data at a time. OSError: no right to.

    No memory cgroup may count what waits in its connections, so a connection may hold as much as a unix socket may.
    """
    for name in ("tcp_rmem", "tcp_wmem"):
        descriptor = os.open(f"/proc/sys/net/ipv4/{name}", os.O_WRONLY)
        try:
            os.write(descriptor, f"4096 65536 {_MOST_IN_SOCKET}".encode())
        finally:
            os.close(descriptor)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        fcntl.ioctl(end, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def drop_capabilities() -> None:
    """Drop all capabilities, now and across later execs."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # past the last capability, or no right to shrink the bounding set, which then has no effect
    clear_all = 4
    prctl(PR_CAP_AMBIENT, clear_all)
    header = _CapHeader(0x20080522, 0)
    empty = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(empty)), "capset")


def landlock(call: int, *arguments: object) -> int:
    """landlock_create_ruleset (call 0), landlock_add_rule (1), landlock_restrict_self (2)."""
    return _check(_syscall(_SYS_LANDLOCK + call, *arguments), "landlock")
