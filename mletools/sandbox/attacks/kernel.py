"""Attacks on kernel interfaces that lead out of a sandbox, or once did.

Covered: whether the kernel refuses a call before it checks the arguments. The arguments are chosen so that a permitted
call changes nothing. Not covered: bugs in calls that every program needs.
"""

import re

from ..gpus import cards, find
from ..interface import Outcome
from .attack import Attack, Verdict, runs_to_end
from .targets import AttackTargets

_NUMBERS = """
S = lambda x86, arm: arm if ARM else x86
N = ctypes.c_void_p(None)
"""

_PROGRAMS = {
    "capabilities and root": """
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
for name in ("CapPrm", "CapEff", "CapAmb"):
    if int(status[name], 16):
        report_open(f"capabilities: {name} {status[name]}")
call("setuid to root", libc.setuid, 0, refused=("EPERM", "EINVAL"))
call("setgroups", lambda: libc.setgroups(1, ctypes.byref(ctypes.c_int(0))))
if os.getuid() == 0 and open("/proc/self/uid_map").read().split()[1] == "0":
    report_open("root of the host")
""",
    "setuid programs": """
def program():
    # As an ordinary user: root has nothing to gain.
    if os.geteuid() == 0:
        libc.setgid(65534)
        libc.setuid(65534)
    os.execv(path, [path])
for path in ("/usr/bin/su", "/bin/su", "/usr/bin/passwd", "/usr/bin/newgrp", "/usr/bin/chsh"):
    try:
        if not os.stat(path).st_mode & stat.S_ISUID:
            continue
    except OSError:
        continue
    stdin, hold = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(stdin, 0)
            os.close(hold)
            os.closerange(1, 3)
            program()
        finally:
            os._exit(1)
    time.sleep(0.1)
    with suppress(OSError, IndexError):
        words = open(f"/proc/{child}/status").read().split("Uid:")[1].split()
        if words[0] != words[1] or (words[1] == "0" and os.getuid() != 0):
            report_open(f"{path} runs with its owner's rights")
    os.close(hold)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    break
""",
    "tracing and reading other processes": """
buffer = ctypes.create_string_buffer(64)
for pid in pids():
    gone = ("EPERM", "ENOSYS", "EACCES", "ESRCH")
    call("ptrace of another process", libc.ptrace, 0x4206, pid, N, N, refused=gone)
    try:
        file = os.pidfd_open(pid)
    except OSError:
        continue
    call("a file descriptor of another process", libc.syscall, 438, file, 0, 0, refused=(*gone, "EBADF"))
    call("kcmp with another process", libc.syscall, S(312, 272), pid, pid, 1, 0, 0, refused=gone)
    vectors = (ctypes.c_uint64 * 4)(ctypes.addressof(buffer), 8, id(W) & ~0xFFF, 8)
    call("reading another process", libc.syscall, S(310, 270), pid, ctypes.byref(vectors), 1, ctypes.byref(vectors, 16), 1, 0,
         refused=(*gone, "EFAULT"))
    with suppress(OSError):
        open(f"/proc/{pid}/mem", "rb").close()
        report_open(f"the memory of process {pid}")
""",
    "kernel devices and settings": """
for name, kind, device in (("zero", stat.S_IFCHR, (1, 5)), ("memory", stat.S_IFCHR, (1, 1)), ("disk", stat.S_IFBLK, (8, 0))):
    with suppress(OSError):
        os.mknod(W["mark"], kind | 0o600, os.makedev(*device))
        report_open(f"a device can be made: {name}")
        os.unlink(W["mark"])
for name in ("/dev/mem", "/dev/kmem", "/dev/port", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/kmsg", "/proc/kcore", "/proc/kmsg"):
    with suppress(OSError):
        os.close(os.open(name, os.O_RDONLY | os.O_NONBLOCK))
        report_open(f"{name} can be read")
for name in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/proc/sys/vm/overcommit_memory"):
    with suppress(OSError):
        os.close(os.open(name, os.O_WRONLY))  # opened, not written
        report_open(f"{name} can be written to")
""",
    "devices of other runs": """
folders = ("nvidia-caps", "nvidia-caps-imex-channels", "dri", "accel", "infiniband")
for path in sorted(p for f in ("nvidia[0-9]*", "nvidia-modeset", "nvidia-nv*", "kfd", *(f + "/*" for f in folders))
                   for p in glob.glob("/dev/" + f)):
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        print("opened", path[5:])
""",
    "new namespaces": """
for name, flag in (
    ("user", 0x10000000), ("mount", 0x20000), ("pid", 0x20000000), ("network", 0x40000000), ("ipc", 0x08000000),
    ("uts", 0x04000000), ("cgroup", 0x02000000), ("user and mount", 0x10020000),
):
    call(f"unshare of {name}", libc.unshare, flag)
    number = S(56, 220)
    def cloned():
        result = libc.syscall(number, flag | 17, N, N, N, N)
        if result == 0:
            os._exit(0)
        return result
    call(f"clone with a new {name} namespace", cloned)
    def cloned3():
        arguments = (ctypes.c_uint64 * 8)(flag, 0, 0, 0, 17, 0, 0, 0)
        result = libc.syscall(435, ctypes.byref(arguments), 64)
        if result == 0:
            os._exit(0)
        return result
    call(f"clone3 with a new {name} namespace", cloned3)
""",
    "entering namespaces": """
for pid in ["self", *pids()[:4]]:
    for name in ("user", "mnt", "net", "pid", "ipc", "uts"):
        try:
            space = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        except OSError:
            continue
        # Entering one's own user namespace is invalid even where setns is permitted.
        call(f"setns to {name}", libc.setns, space, 0, refused=("EPERM", "ENOSYS", "EACCES", "EINVAL"))
""",
    "mount, pivot_root, chroot": """
call("mount", libc.mount, b"none", b".", b"no-such-file-system", 0, None)
call("mount of a folder on itself", lambda: libc.mount(b".", b"./no-such", None, 4096, None), refused=("EPERM", "ENOENT"))
call("umount", libc.umount2, b".", 8)
call("pivot_root", libc.syscall, S(155, 41), b".", b".")
call("chroot", libc.chroot, b".")
call("fsopen", libc.syscall, 430, b"tmpfs", 0)
call("open_tree", libc.syscall, 428, -100, b".", 1)
call("mount_setattr", libc.syscall, 442, -100, b".", 0, ctypes.byref((ctypes.c_uint64 * 4)(1)), 32,
     refused=("EPERM", "ENOSYS", "EACCES", "EINVAL"))
""",
    "bpf, io_uring, userfaultfd": """
call("bpf", libc.syscall, S(321, 280), 0, ctypes.byref((ctypes.c_uint32 * 32)(2, 4, 4, 1)), 128)
call("io_uring_setup", libc.syscall, 425, 1, ctypes.byref(ctypes.create_string_buffer(256)))
call("userfaultfd", libc.syscall, S(323, 282), 1)
""",
    "filters and Landlock rules": """
# The kernel's memory for them has no limit without a cgroup.
call("landlock_create_ruleset", libc.syscall, 444, ctypes.byref(ctypes.c_uint64(1)), ctypes.c_size_t(8), 0)
call("seccomp", libc.syscall, S(317, 277), 1, 0, N)
call("prctl with PR_SET_SECCOMP", libc.prctl, 22, 2, N)
""",
    "performance counters": """
attributes = (ctypes.c_uint32 * 32)(1, 128)
attributes[10] = 0x60  # user space only, which ordinary users may measure
call("perf_event_open", libc.syscall, S(298, 241), ctypes.byref(attributes), 0, -1, -1, 0)
""",
    "keyrings": """
call("keyctl", libc.syscall, S(250, 219), 0, ctypes.c_long(-4), 0)
call("add_key", libc.syscall, S(248, 217), b"user", W["mark"].encode(), b"x", 1, ctypes.c_long(-2))
call("request_key", libc.syscall, S(249, 218), b"user", W["mark"].encode(), N, 0)
""",
    "file handles and fanotify": """
handle = ctypes.create_string_buffer(struct.pack("=IiII", 8, 1, 0, 0), 144)
at = os.open(".", os.O_RDONLY)
call("open_by_handle_at", libc.syscall, S(304, 265), at, ctypes.byref(handle), 0)
call("fanotify_init", libc.syscall, S(300, 262), 0, 0)
""",
    "administrator system calls": """
name = os.uname().nodename.encode()
call("sethostname", libc.sethostname, name, ctypes.c_ulong(-1).value)
call("reboot", libc.syscall, S(169, 142), 0, 0, 0, 0)
call("swapon", libc.swapon, b"/no-such-file", 0)
call("acct", libc.acct, b"/no-such-file")
call("init_module", libc.syscall, S(175, 105), ctypes.byref(ctypes.create_string_buffer(8)), 4, b"")
call("delete_module", libc.syscall, S(176, 106), b"no-such-module", 0)
call("kexec_load", libc.syscall, S(246, 104), N, 0, N, 0x8000)
call("syslog", libc.klogctl, 10, None, 0)
if not ARM:
    call("iopl", libc.syscall, 172, 3)
""",
    "system calls of other ABIs": """
import mmap
if not ARM:
    # unshare(CLONE_NEWUSER) by its numbers in the 32-bit and x32 ABIs, which a filter may not cover.
    call("unshare by its x32 number", libc.syscall, 0x40000000 | 272, 0x10000000)
    def by_interrupt():
        try:
            code = mmap.mmap(-1, 4096, prot=7)
        except OSError:
            return -1
        code.write(bytes.fromhex("53b836010000bb00000010cd805bc3"))
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        if result < 0:
            ctypes.set_errno(-result)
        return result
    call("unshare by its 32-bit number", by_interrupt)
""",
}


def _devices_are_its_own(outcome: Outcome, targets: AttackTargets) -> Verdict:
    """Sealed when nothing was opened but what belongs to the lease; in a container, whose daemon numbers them, one card."""
    verdict = runs_to_end(outcome, targets)
    opened = re.findall(r"^opened (\S+)$", outcome.stdout.decode(errors="replace"), re.MULTILINE)
    if not verdict.sealed or not opened:
        return verdict
    if outcome.gpu is None:
        own = False
    elif outcome.backend == "local":
        own = set(opened) <= set(find(outcome.gpu, cards()).nodes)
    else:
        of_cards = [name for name in opened if not name.startswith("nvidia-caps/")]
        own = len(of_cards) == 1 and re.fullmatch("nvidia[0-9]+", of_cards[0]) is not None
    return Verdict(own, f"opened {', '.join(opened)}")


_RULES = {"devices of other runs": _devices_are_its_own}
_CONCURRENT = {"tracing and reading other processes"}
_SERIOUS = _CONCURRENT | {
    "capabilities and root",
    "setuid programs",
    "kernel devices and settings",
    "devices of other runs",
}
ATTACKS = tuple(
    Attack(
        name,
        "kernel",
        _NUMBERS + code,
        _RULES.get(name, runs_to_end),
        concurrent=name in _CONCURRENT,
        serious=name in _SERIOUS,
    )
    for name, code in _PROGRAMS.items()
)
