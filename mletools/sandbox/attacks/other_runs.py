"""Attacks on what runs share beside answers: bytes from one run to another, and limits that all runs of a user share.

Covered: locks, opened files and counters of a concurrent run; the machine's memory of a library file, for the next run;
queued signals, locked memory, and writes to the disk; settings of the process that reports the run. Not covered: what
timing, load, free memory and inode numbers tell (docs/security.md has their rates).
"""

from .attack import Attack

# Files that every run can open, whatever its namespaces.
SHARED = """
def shared_files():
    for path in ("/proc/self/exe", "/proc/self/ns/cgroup", "/proc/self/ns/time", "/dev/null", "/dev/urandom", os.__file__,
                 "input/train.csv", "/usr/lib", "/etc/localtime"):
        with suppress(OSError):
            yield path, os.open(path, os.O_RDONLY)
    yield "eventfd", libc.eventfd(0, 0)
"""

# In the concurrent run: the locks are seen by nobody else, if the kernel grants them at all.
KEEP_BUSY = (
    SHARED
    + """
import fcntl
locked = list(shared_files())
for _, number in locked:
    with suppress(OSError):
        fcntl.fcntl(number, 37, struct.pack("hhqqi4x", 0, 0, W["key"], 1, 0))
    with suppress(OSError):
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
own = open(f"{HOME}/{W['mark']}-lock", "w")
os.unlink(own.name)
fcntl.fcntl(own, 37, struct.pack("hhqqi4x", 1, 0, W["key"], 1, 0))
def open_shared():
    for path in (os.__file__, "input/train.csv"):
        with open(path, "rb") as file:
            file.read(1)
"""
)

_LOCKS = (
    SHARED
    + """
import fcntl
key = W["concurrent_key"]
for _ in repeat(0.5, 0.1):
    for path, number in shared_files():
        for command in (5, 36):
            found = struct.unpack("hhqqi4x", fcntl.fcntl(number, command, struct.pack("hhqqi4x", 1, 0, key, 1, 0)))
            if found[0] != 2 and found[2:4] == (key, 1):
                report_open(f"a concurrent run's lock on part of {path}")
        try:
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            report_open(f"a concurrent run's lock on {path}")
        os.close(number)
    with suppress(OSError), open("/proc/locks") as file:
        if f" {key} {key}" in file.read():
            report_open("a concurrent run's lock in /proc/locks")
"""
)

_OPENED = """
import select
at = libc.inotify_init1(os.O_NONBLOCK)
for folder in ("input", os.path.dirname(os.__file__)):
    libc.inotify_add_watch(at, folder.encode(), 0x20)
time.sleep(0.6)
with suppress(OSError):
    events = os.read(at, 1 << 16)
    if b"os.py" in events or b"train.csv" in events:
        report_open("which files a concurrent run opens")
import fcntl
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
for folder in ("input", os.path.dirname(os.__file__)):
    with suppress(OSError):
        fcntl.fcntl(os.open(folder, os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS | fcntl.DN_MULTISHOT)
if signal.sigtimedwait({signal.SIGIO}, 0.6):
    report_open("that a concurrent run reads files of a folder")
"""

_COUNTERS = """
for name in ("locks", "vmstat", "zoneinfo", "buddyinfo", "diskstats", "interrupts", "softirqs", "schedstat", "sys/fs/file-nr",
             "sys/fs/inode-nr", "sys/fs/dentry-state", "sys/kernel/pty/nr", "pressure/cpu"):
    with suppress(OSError), open(f"/proc/{name}") as file:
        if file.read(64):
            report_open(f"/proc/{name}, which counts what all runs do")
def forks():
    return re.search(r"processes (\\d+)", open("/proc/stat").read())[1]
before = forks()
subprocess.run([sys.executable, "-S", "-c", ""])
if forks() != before:
    report_open("/proc/stat, which counts what all runs do")
"""

# A byte of the mark in each file; bit by bit whether a page is in memory.
_CACHE = """
def pages():
    folder = os.path.dirname(os.__file__)
    big = sorted((os.stat(path).st_size, path) for path in glob.glob(folder + "/*/*.py"))[-len(W["mark"]) - 5:-5]
    for letter, (_, path) in zip(W["mark"].encode(), big):
        with suppress(OSError):
            number = os.open(path, os.O_RDONLY)
            yield letter, number
            os.close(number)
"""
_LEAVE_CACHED = (
    _CACHE
    + """
import mmap
for letter, number in pages():
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_RANDOM)
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
    for advice in (4, 20, 21):  # not needed, cold, page out
        with suppress(OSError), mmap.mmap(number, 0, prot=mmap.PROT_READ) as mapped:
            mapped.madvise(advice)
    for bit in range(8):
        if letter >> bit & 1:
            os.pread(number, 1, 4096 * bit)
"""
)
_FIND_CACHED = (
    _CACHE
    + """
def by_reading(number, page):
    try:
        return os.preadv(number, [bytearray(1)], 4096 * page, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
def by_cachestat(number, page):
    wanted, found = (ctypes.c_uint64 * 2)(4096 * page, 4096), (ctypes.c_uint64 * 5)()
    if libc.syscall(451, number, wanted, found, 0):
        raise OSError
    return found[0] > 0
def by_mincore(number, page):
    address = libc.mmap(None, 4096, 1, 2, number, ctypes.c_long(4096 * page))
    if address == ctypes.c_void_p(-1).value:
        raise OSError
    found = ctypes.c_ubyte()
    failed = libc.mincore(ctypes.c_void_p(address), 4096, ctypes.byref(found))
    libc.munmap(ctypes.c_void_p(address), 4096)
    if failed:
        raise OSError
    return bool(found.value & 1)
libc.mmap.restype = ctypes.c_void_p
for look in (by_reading, by_cachestat, by_mincore):
    with suppress(OSError):
        found = bytes(sum(look(number, bit) << bit for bit in range(8)) for _, number in pages())
        if found == W["mark"].encode():
            report_open("what the previous run left in the machine's memory of library files")
"""
)

_TIMES = """
# What succeeds is undone.
for path in ("/proc/self/exe", "/dev/null", "/dev/zero", "/dev/urandom"):
    before = os.stat(path)
    with suppress(OSError):
        os.utime(path)
        report_open(f"the times of {path}, which other runs see")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with suppress(OSError):
        os.setxattr(path, "user." + W["mark"], b"left here")
        report_open(f"an attribute of {path}, which other runs see")
        os.removexattr(path, "user." + W["mark"])
    with suppress(OSError):
        os.chmod(path, before.st_mode & 0o7777)
        report_open(f"the mode of {path}")
"""

_SETTINGS = """
# What is set is what was set before.
import resource
pid = os.getppid() or 1
number = lambda x86, arm: arm if ARM else x86
call("a limit of its first process", lambda: libc.syscall(number(302, 261), pid, 7, None, ctypes.byref((ctypes.c_uint64 * 2)())))
call("the processors of its first process", lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)) or 0)
call("the scheduling of its first process", lambda: os.sched_setscheduler(pid, os.sched_getscheduler(pid), os.sched_getparam(pid)) or 0)
call("the priority of its first process", lambda: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)) or 0)
call("its first process's turn at the disk", lambda: libc.syscall(number(251, 30), 1, pid, libc.syscall(number(252, 31), 1, pid)))
"""

_SIGNALS = """
import resource
with suppress(OSError, ValueError):
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (resource.getrlimit(resource.RLIMIT_SIGPENDING)[1],) * 2)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
count = 0
while count < 4000 and libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), None) == 0:
    count += 1
if count == 4000:
    report_open("4000 queued signals, of which all programs of a user share some")
"""

_WATCHES = """
count = 0
while count < 100 and libc.inotify_init1(0) >= 0:
    count += 1
if count > 50:
    report_open(f"{count} inotify instances, of which all programs of a user share 128")
"""

_LOCKED = """
import mmap, resource
with suppress(OSError, ValueError):
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.getrlimit(resource.RLIMIT_MEMLOCK)[1],) * 2)
kept = mmap.mmap(-1, 16384)
if libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(kept))), ctypes.c_size_t(16384)) == 0:
    report_open("memory can be locked")
"""

_DISK = """
# A call that reaches the kernel refuses a wrong descriptor.
for name, function in (("syncfs", libc.syncfs), ("fsync", libc.fsync), ("fdatasync", libc.fdatasync)):
    if function(-1) < 0 and ctypes.get_errno() == errno.EBADF:
        report_open(f"{name}, which makes the machine's disk write")
"""

ATTACKS = (
    Attack("locks of a concurrent run", "other runs", _LOCKS, concurrent=True),
    Attack("files that a concurrent run opens", "other runs", _OPENED, concurrent=True),
    Attack("the machine's counters", "other runs", _COUNTERS),
    Attack("library files in the machine's memory", "other runs", _LEAVE_CACHED, followed_by=_FIND_CACHED),
    Attack("times and attributes of shared files", "other runs", _TIMES),
    Attack("settings of its first process", "other runs", _SETTINGS),
    Attack("queued signals of its user", "other runs", _SIGNALS),
    Attack("inotify instances of its user", "other runs", _WATCHES),
    Attack("locked memory of its user", "other runs", _LOCKED),
    Attack("writes to the disk", "other runs", _DISK),
)
