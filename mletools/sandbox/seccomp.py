"""A seccomp filter that refuses system calls which lead out of a sandbox, or from one run to another.

Covered: kernel interfaces with a history of escapes (mounts, namespaces, ptrace, bpf, io_uring, keys ...), those that
show or change what the machine keeps in memory of shared files, settings of the first process, and unneeded socket
families; x86_64 and aarch64. Calls that ask for a write to the disk do nothing. Not covered: files and the network,
which namespaces or Landlock close; locks, whose calls do not show the file (`mounts`, `held`). This is a deny list:
calls of future kernels are permitted until they are added.
"""

import ctypes
import errno
import struct
from collections.abc import Sequence
from typing import NamedTuple

from . import linux

_AUDIT_X86_64, _AUDIT_AARCH64 = 0xC000003E, 0xC00000B7
_LOAD_WORD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_X32_BIT = 0x40000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_NAMESPACE_FLAGS = 0x7E020000  # every CLONE_NEW* flag that clone(2) takes

# Name: number on x86_64, number on aarch64 (None: no such call).
REFUSED: dict[str, tuple[int, int | None]] = {
    "ptrace": (101, 117), "syslog": (103, 116), "vhangup": (153, 58), "pivot_root": (155, 41),
    "adjtimex": (159, 171), "chroot": (161, 51), "acct": (163, 89), "settimeofday": (164, 170),
    "mount": (165, 40), "umount2": (166, 39), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
    "init_module": (175, 105), "delete_module": (176, 106), "quotactl": (179, 60), "nfsservctl": (180, 42),
    "modify_ldt": (154, None), "lookup_dcookie": (212, 18), "clock_settime": (227, 112), "kexec_load": (246, 104),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "migrate_pages": (256, 238),
    "unshare": (272, 97), "move_pages": (279, 239), "perf_event_open": (298, 241), "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "clock_adjtime": (305, 266),
    "setns": (308, 268), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "finit_module": (313, 273), "kexec_file_load": (320, 294), "bpf": (321, 280), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "mount_setattr": (442, 442), "quotactl_fd": (443, 443), "memfd_secret": (447, 447),
    "statmount": (457, 457), "listmount": (458, 458), "open_tree_attr": (467, 467), "listns": (470, 470),
    # What other runs open, and what the machine has of a file in memory. io_submit reads without waiting, too.
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27), "mincore": (27, 232),
    "cachestat": (451, 451), "io_setup": (206, 0), "io_submit": (209, 2),
    # The kernel's memory without limit, or with one that all programs of a user share.
    "seccomp": (317, 277), "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446), "mq_open": (240, 180),
}  # fmt: skip

# Calls that do nothing and succeed: they would make the machine's disk write. The work folder is in memory.
IGNORED: dict[str, tuple[int, int | None]] = {
    "sync": (162, 81), "syncfs": (306, 267), "fsync": (74, 82), "fdatasync": (75, 83), "sync_file_range": (277, 84),
}  # fmt: skip

# Calls that hold memory outside of processes, which are also refused if no cgroup counts a run's memory: unnamed files,
# pages in a pipe (each pins its huge page), and memory that outlives its last process.
UNCOUNTED: dict[str, tuple[int, int | None]] = {
    "memfd_create": (319, 279), "vmsplice": (278, 75),
    "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
}  # fmt: skip


class _Check(NamedTuple):
    argument: int  # the first is 0
    value: int
    jump: int = _JUMP_EQUAL
    holds: bool = True  # False: the argument is another


class _Rule(NamedTuple):
    """A call that is refused with the errno `error`, or does nothing and succeeds (0), if all checks hold."""

    numbers: tuple[int, int]
    error: int
    checks: tuple[_Check, ...]


_FCNTL, _SETSOCKOPT, _PRCTL, _IOCTL, _MADVISE = (72, 25), (54, 208), (157, 167), (16, 29), (28, 233)
_RULES = (
    _Rule((56, 220), errno.EPERM, (_Check(0, _NAMESPACE_FLAGS, _JUMP_ANY_BIT),)),  # clone
    _Rule(_IOCTL, errno.EPERM, (_Check(1, _TIOCSTI),)),
    _Rule(_IOCTL, errno.EPERM, (_Check(1, _TIOCLINUX),)),
    _Rule(_PRCTL, errno.EPERM, (_Check(0, linux.PR_SET_SECCOMP),)),
    # What the machine keeps in memory of a file is seen by reading without waiting, and changed by these advices.
    _Rule((327, 286), errno.EOPNOTSUPP, (_Check(5, 0, holds=False),)),  # preadv2 with flags
    _Rule((221, 223), 0, (_Check(3, 4),)),  # posix_fadvise, POSIX_FADV_DONTNEED
    _Rule(_MADVISE, 0, (_Check(2, 20),)),  # MADV_COLD
    _Rule(_MADVISE, 0, (_Check(2, 21),)),  # MADV_PAGEOUT
    _Rule(_FCNTL, errno.EPERM, (_Check(1, 1024),)),  # F_SETLEASE
    _Rule(_FCNTL, errno.EPERM, (_Check(1, 1026),)),  # F_NOTIFY
    _Rule((26, 227), 0, (_Check(2, 4, _JUMP_ANY_BIT),)),  # msync, MS_SYNC
)
# Likewise without a cgroup: larger buffers of pipes and sockets, and hiding descriptors and mappings from the watch.
_UNCOUNTED_RULES = (
    _Rule(_FCNTL, errno.EPERM, (_Check(1, 1031),)),  # F_SETPIPE_SZ
    # SO_SNDBUF, SO_SNDBUFFORCE, SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF
    *(_Rule(_SETSOCKOPT, errno.EPERM, (_Check(1, 1), _Check(2, option))) for option in (7, 32, 26, 51)),
    _Rule(_PRCTL, errno.EPERM, (_Check(0, linux.PR_SET_DUMPABLE),)),
)
# prlimit64, sched_setaffinity, sched_setparam, sched_setscheduler, sched_setattr: the first argument is a process.
_SETTINGS = ((302, 261), (203, 122), (142, 118), (144, 119), (314, 274))
# setpriority and ioprio_set, and their first argument for all processes of a user; the second argument is a process.
_PRIORITIES = (((141, 140), 2), ((251, 30), 3))

AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def _step(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)


def _refuse(code: int) -> bytes:
    return _step(_RETURN, _ERRNO | code)


def _apply(rule: _Rule, column: int) -> list[bytes]:
    steps = []
    for left, check in zip(range(len(rule.checks) - 1, -1, -1), rule.checks, strict=True):
        out = 2 * left + 1  # past the later checks and the answer
        steps += [
            _step(_LOAD_WORD, _FIRST_ARGUMENT_AT + 8 * check.argument),
            _step(check.jump, check.value, *((0, out) if check.holds else (out, 0))),
        ]
    steps += [_refuse(rule.error), _step(_LOAD_WORD, _NUMBER_AT)]
    return [_step(_JUMP_EQUAL, rule.numbers[column], 0, len(steps)), *steps]


def _protect_others(own: int | None) -> tuple[_Rule, ...]:
    """Settings of the first process of a pid namespace (`own` None), or of all processes but `own` and the caller."""

    def others(argument: int) -> tuple[_Check, ...]:
        if own is None:
            return (_Check(argument, 1),)
        return _Check(argument, 0, holds=False), _Check(argument, own, holds=False)

    return (
        *(_Rule(numbers, errno.EPERM, others(0)) for numbers in _SETTINGS),
        *(_Rule(numbers, errno.EPERM, others(1)) for numbers, _ in _PRIORITIES),
        *(_Rule(numbers, errno.EPERM, (_Check(0, whole),)) for numbers, whole in _PRIORITIES),
    )


def build(families: Sequence[int], arm: bool = linux.ARM, *, counted: bool = True, own: int | None = None) -> bytes:
    """The filter program: EPERM for REFUSED, EAFNOSUPPORT for sockets outside `families`, success for IGNORED.

    All else is permitted but for some arguments. `counted`: a cgroup counts the memory; otherwise UNCOUNTED is refused
    as well. `own`: the pid of the solution's process where it has no pid namespace.
    """
    column = 1 if arm else 0
    program = [
        _step(_LOAD_WORD, _ARCH_AT),
        _step(_JUMP_EQUAL, _AUDIT_AARCH64 if arm else _AUDIT_X86_64, 1, 0),
        _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD_WORD, _NUMBER_AT),
    ]
    if not arm:
        program += [_step(_JUMP_AT_LEAST, _X32_BIT, 0, 1), _refuse(errno.ENOSYS)]
    for calls, error in ((REFUSED if counted else REFUSED | UNCOUNTED, errno.EPERM), (IGNORED, 0)):
        for numbers in calls.values():
            number = numbers[column]
            if number is not None:
                program += [_step(_JUMP_EQUAL, number, 0, 1), _refuse(error)]
    # A filter cannot read the flags of clone3 in memory; without it, libraries use clone.
    program += [_step(_JUMP_EQUAL, 435, 0, 1), _refuse(errno.ENOSYS)]
    for rule in (*_RULES, *_protect_others(own), *(() if counted else _UNCOUNTED_RULES)):
        program += _apply(rule, column)
    count = len(families)
    socket = 198 if arm else 41
    program += [_step(_JUMP_EQUAL, socket, 0, count + 2), _step(_LOAD_WORD, _FIRST_ARGUMENT_AT)]
    program += [_step(_JUMP_EQUAL, family, count - index, 0) for index, family in enumerate(families)]
    program += [_refuse(errno.EAFNOSUPPORT), _step(_RETURN, _ALLOW)]
    return b"".join(program)


def install(program: bytes) -> None:
    """Apply `program` to the calling thread, which has set no_new_privs, permanently. OSError: refused."""
    memory = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // 8, ctypes.cast(memory, ctypes.c_void_p))
    filter_mode = 2
    linux.prctl(linux.PR_SET_SECCOMP, filter_mode, ctypes.byref(header))
