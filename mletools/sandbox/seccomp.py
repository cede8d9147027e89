"""A seccomp filter that refuses system calls which lead out of a sandbox.

Covered: kernel interfaces with a history of escapes (mounts, namespaces, ptrace, bpf, io_uring, keys ...), and unneeded
socket families; x86_64 and aarch64. Not covered: files and the network, which namespaces or Landlock close. This is a
deny list: calls of future kernels are permitted until they are added.
"""

import ctypes
import errno
import struct
from collections.abc import Sequence

from . import linux

_AUDIT_X86_64, _AUDIT_AARCH64 = 0xC000003E, 0xC00000B7
_LOAD_WORD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT, _THIRD_ARGUMENT_AT = 0, 4, 16, 24, 32
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
    "statmount": (457, 457), "listmount": (458, 458), "open_tree_attr": (467, 467),
}  # fmt: skip

# Calls that hold memory outside of processes, which are also refused if no cgroup counts a run's memory: unnamed files,
# pages in a pipe (each pins its huge page), and memory that outlives its last process.
UNCOUNTED: dict[str, tuple[int, int | None]] = {
    "memfd_create": (319, 279), "vmsplice": (278, 75),
    "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "mq_open": (240, 180),
}  # fmt: skip
# Larger buffers of pipes and sockets, likewise: numbers, the second argument, the third argument (None: any).
_UNCOUNTED_ARGUMENTS: tuple[tuple[tuple[int, int], int, int | None], ...] = (
    ((72, 25), 1031, None),  # fcntl, F_SETPIPE_SZ
    ((54, 208), 1, 7),  # setsockopt, SOL_SOCKET, SO_SNDBUF
    ((54, 208), 1, 32),  # SO_SNDBUFFORCE
)
_UNDUMPABLE = (157, 167), 4  # prctl with PR_SET_DUMPABLE, which hides descriptors and mappings from the memory watch

AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def _step(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)


def _refuse(code: int) -> bytes:
    return _step(_RETURN, _ERRNO | code)


def _refuse_uncounted(column: int) -> list[bytes]:
    program = []
    for calls, second, third in _UNCOUNTED_ARGUMENTS:
        check = [_step(_LOAD_WORD, _SECOND_ARGUMENT_AT), _step(_JUMP_EQUAL, second, 0, 1 if third is None else 3)]
        if third is not None:
            check += [_step(_LOAD_WORD, _THIRD_ARGUMENT_AT), _step(_JUMP_EQUAL, third, 0, 1)]
        check += [_refuse(errno.EPERM), _step(_LOAD_WORD, _NUMBER_AT)]
        program += [_step(_JUMP_EQUAL, calls[column], 0, len(check)), *check]
    numbers, first = _UNDUMPABLE
    program += [_step(_JUMP_EQUAL, numbers[column], 0, 4), _step(_LOAD_WORD, _FIRST_ARGUMENT_AT)]
    return [*program, _step(_JUMP_EQUAL, first, 0, 1), _refuse(errno.EPERM), _step(_LOAD_WORD, _NUMBER_AT)]


def build(families: Sequence[int], arm: bool = linux.ARM, *, counted: bool = True) -> bytes:
    """The filter program: EPERM for REFUSED, EAFNOSUPPORT for sockets outside `families`, all else is permitted.

    `counted`: a cgroup counts the memory; otherwise UNCOUNTED is refused as well.
    """
    column = 1 if arm else 0
    clone, socket, ioctl = (220, 198, 29) if arm else (56, 41, 16)
    program = [
        _step(_LOAD_WORD, _ARCH_AT),
        _step(_JUMP_EQUAL, _AUDIT_AARCH64 if arm else _AUDIT_X86_64, 1, 0),
        _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD_WORD, _NUMBER_AT),
    ]
    if not arm:
        program += [_step(_JUMP_AT_LEAST, _X32_BIT, 0, 1), _refuse(errno.ENOSYS)]
    for numbers in (REFUSED if counted else REFUSED | UNCOUNTED).values():
        number = numbers[column]
        if number is not None:
            program += [_step(_JUMP_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    # A filter cannot read the flags of clone3 in memory; without it, libraries use clone.
    program += [_step(_JUMP_EQUAL, 435, 0, 1), _refuse(errno.ENOSYS)]
    program += [
        _step(_JUMP_EQUAL, clone, 0, 3),
        _step(_LOAD_WORD, _FIRST_ARGUMENT_AT),
        _step(_JUMP_ANY_BIT, _NAMESPACE_FLAGS, 0, 1),
        _refuse(errno.EPERM),
        _step(_LOAD_WORD, _NUMBER_AT),
    ]
    program += [
        *([] if counted else _refuse_uncounted(column)),
        _step(_JUMP_EQUAL, ioctl, 0, 4),
        _step(_LOAD_WORD, _SECOND_ARGUMENT_AT),
        _step(_JUMP_EQUAL, _TIOCSTI, 1, 0),
        _step(_JUMP_EQUAL, _TIOCLINUX, 0, 1),
        _refuse(errno.EPERM),
        _step(_LOAD_WORD, _NUMBER_AT),
    ]
    count = len(families)
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
