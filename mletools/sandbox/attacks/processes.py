"""Attacks with processes: outliving the run, harming others, and using up processes, disk, output and time.

Covered: daemons, signals, bombs, games with the clock and with limits. What is taken is small even where nothing stops
it: a bomb ends at a few hundred processes. Not covered: memory (`memory`), how fast a limit bites.
"""

from __future__ import annotations

from dataclasses import replace

from ..interface import Limits, Outcome
from .attack import STILL_HERE, Attack, Judged, ends, held, survives
from .world import AttackWorld

_DAEMON = """
deaf()
for kind in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            os.closerange(0, 1024)
            if kind == 0:
                os.execvp(sys.executable, [sys.executable, "-c", "import time; time.sleep(30)", W["mark"]])
            if kind == 1:
                os.chdir("/")
            time.sleep(30)
        os._exit(0)
time.sleep(0.1)
"""

_HYDRA = """
# Each child makes the next and ends, so that a list of processes is always out of date.
if os.fork() == 0:
    deaf()
    end = time.monotonic() + 4
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        os.setsid()
        time.sleep(0.02)
    os._exit(0)
time.sleep(0.05)
"""

_ADOPTED = """
# Keeps its descendants when their parents end, and holds stdout open in all of them.
libc.prctl(36, 1, 0, 0, 0)
for _ in range(4):
    if os.fork() == 0:
        if os.fork() == 0:
            deaf()
            time.sleep(30)
        os._exit(0)
"""

_SIGNALS = """
targets = {W["victim"], *named(W["beside"])}
calm = signal.SIGURG
for pid in targets:
    for attempt in (
        lambda: os.kill(pid, calm),
        lambda: os.killpg(pid, calm),
        lambda: signal.pidfd_send_signal(os.pidfd_open(pid), calm),
        lambda: libc.syscall(131 if ARM else 234, pid, pid, int(calm)),
        lambda: libc.sigqueue(pid, int(calm), None),
    ):
        try:
            attempt()
        except OSError:
            pass
"""

_KILL_ALL = """
deaf()
for number in (signal.SIGURG, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP, signal.SIGKILL):
    for target in (os.getppid(), 1, -1, -os.getpgid(os.getppid()) if os.getppid() else -1):
        if target:
            try:
                os.kill(target, number)
            except OSError:
                pass
"""

_KILL_GROUP = "os.kill(0, signal.SIGKILL)"
_KILL_PARENT = "os.kill(os.getppid() or 1, signal.SIGKILL)\ntime.sleep(0.1)"
_STOP_PARENT = "os.kill(os.getppid() or 1, signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)"

_FORK_BOMB = """
LIMIT, BOUND = 32, 200
counter, told = os.pipe()
origin = os.getpid()
end = time.monotonic() + 0.6
def made():
    import fcntl
    return struct.unpack("i", fcntl.ioctl(counter, 0x541B, b"0000"))[0]
while made() < BOUND and time.monotonic() < end:
    try:
        if os.fork() == 0:
            os.write(told, b".")
    except OSError:
        time.sleep(0.05)
if os.getpid() != origin:
    time.sleep(5)
    os._exit(0)
if made() > 2 * LIMIT:
    opened(f"{made()} processes where {LIMIT} are allowed")
"""

_THREAD_BOMB = """
import threading
LIMIT, BOUND = 32, 200
stop = threading.Event()
begun = []
try:
    for _ in range(BOUND):
        thread = threading.Thread(target=stop.wait, daemon=True)
        thread.start()
        begun.append(thread)
except RuntimeError:
    pass
if len(begun) > 2 * LIMIT:
    opened(f"{len(begun)} threads where {LIMIT} are allowed")
stop.set()
"""

_FILLER = """
places = [".", HOME, TEMPORARY, "/dev/shm"]
total, block = 0, bytes(4 << 20)
for number in range(40):
    with open(f"{places[number % 4]}/{W['mark']}{number}", "wb") as file:
        file.write(block)
opened("160 MB on disk where 32 are allowed")
"""

_MANY_FILES = """
for number in range(20000):
    os.close(os.open(f"{W['mark']}{number}", os.O_CREAT | os.O_WRONLY))
opened("20000 files on a disk of 32 MB")
"""

_SPARSE = """
try:
    with open(W["mark"], "wb") as file:
        file.truncate(10 << 30)
    opened("a file of 10 GB where 8 MB are allowed")
    os.unlink(W["mark"])
except OSError:
    os.unlink(W["mark"])
"""

_DEEP = """
os.mkdir(W["mark"])
os.chdir(W["mark"])
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
os.chmod(".", 0)
"""

_OUTPUT = """
for _ in range(1024):
    os.write({descriptor}, b"x" * 65536)
"""

_OUTPUT_OF_MANY = """
for _ in range(6):
    if os.fork() == 0:
        for _ in range(170):
            os.write(1, b"x" * 65536)
            os.write(2, b"x" * 65536)
        os._exit(0)
for _ in range(6):
    os.wait()
"""

_DEAF = "deaf()\ntime.sleep(20)"
_STOPPED = "deaf()\nos.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(20)"
_SILENT = """
deaf()
if os.fork() == 0:
    os.setsid()
os.closerange(0, 1024)
time.sleep(20)
"""
_VFORK = """
# The parent waits where no signal but a deadly one reaches it, until the child runs another program or ends.
deaf()
if libc.syscall(*((220, 0x4000 | 17, 0, 0, 0, 0) if ARM else (56, 0x4000 | 17, 0, 0, 0, 0))) == 0:
    time.sleep(20)
    os._exit(0)
time.sleep(20)
"""
_CLOCK = """
class Adjust(ctypes.Structure):
    _fields_ = [("modes", ctypes.c_uint), ("rest", ctypes.c_byte * 204)]
deaf()
# A tick of 0 is refused as wrong where the clock may be set and as forbidden where it may not: no clock is touched.
for name, function in (
    ("clock_adjtime", lambda: libc.clock_adjtime(0, ctypes.byref(Adjust(0x4000)))),
    ("adjtimex", lambda: libc.adjtimex(ctypes.byref(Adjust(0x4000)))),
):
    call(name, function)
os.environ["FAKETIME"] = "-10d"
time.monotonic = time.time = time.perf_counter = lambda: 0.0
signal.setitimer(signal.ITIMER_REAL, 0)
time.sleep(20)
"""
_EXIT_HANGS = """
import atexit, threading
deaf()
atexit.register(time.sleep, 20)
threading.Thread(target=time.sleep, args=(20,)).start()
"""
_CPU = """
deaf()
while time.process_time() < 3:
    pass
opened("3 s of CPU time where 1 is allowed")
"""
_RAISED = """
import resource
for name in sorted(name for name in dir(resource) if name.startswith("RLIMIT_")):
    kind = getattr(resource, name)
    soft, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        try:
            resource.setrlimit(kind, (soft, hard + 1))
            opened(f"{name} can be raised")
        except (OSError, ValueError):
            pass
"""
_NICE = """
before = os.getpriority(os.PRIO_PROCESS, 0)
def nicer():
    os.setpriority(os.PRIO_PROCESS, 0, before - 1)
def oom():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1")
for name, attempt in (
    ("a better nice value", nicer),
    ("real-time scheduling", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))),
    ("to be last in line when memory ends", oom),
):
    try:
        attempt()
        opened(name)
    except OSError:
        pass
if libc.syscall(30 if ARM else 251, 1, 0, 1 << 13) == 0:
    opened("real-time priority on the disk")
"""

SMALL = Limits(wall_s=20.0, processes=32, memory_mb=400, file_mb=40, disk_mb=32, output_kb=64)
_BRIEF = replace(SMALL, wall_s=0.6)


def _output_is_cut(outcome: Outcome, world: AttackWorld) -> Judged:
    judged = ends("output")(outcome, world)
    longest = max(len(outcome.stdout), len(outcome.stderr))
    if longest > SMALL.output_kb << 10:
        return Judged(False, f"{longest} bytes of output where {SMALL.output_kb} KB are allowed")
    return judged


ATTACKS = (
    Attack("daemons that outlive the run", "processes", _DAEMON),
    Attack("a child that keeps forking away", "processes", _HYDRA),
    Attack("adopted children that hold stdout", "processes", _ADOPTED),
    Attack("signals to other processes", "processes", _SIGNALS, beside=True),
    Attack(
        "killing everything in reach",
        "processes",
        _KILL_ALL,
        survives,
        SMALL,
        beside=True,
        then=STILL_HERE,
        after="signals to other processes",
    ),
    *(
        Attack(name, "processes", code, survives, _BRIEF, then=STILL_HERE, after="signals to other processes")
        for name, code in (
            ("killing its process group", _KILL_GROUP),
            ("killing its parent", _KILL_PARENT),
            ("stopping its parent", _STOP_PARENT),
        )
    ),
    Attack("fork bomb", "processes", _FORK_BOMB, held, SMALL, beside=True, weaker=True),
    Attack("threads without end", "processes", _THREAD_BOMB, held, SMALL, weaker=True),
    Attack("disk filler", "disk", _FILLER, ends("disk", "memory"), SMALL),
    Attack("files without number", "disk", _MANY_FILES, ends("disk", "memory"), SMALL),
    Attack("sparse file of 10 GB", "disk", _SPARSE, held, replace(SMALL, file_mb=8)),
    Attack("folders 1500 deep", "disk", _DEEP, survives, then=STILL_HERE),
    Attack("endless stdout", "output", _OUTPUT.format(descriptor=1), _output_is_cut, SMALL),
    Attack("endless stderr", "output", _OUTPUT.format(descriptor=2), _output_is_cut, SMALL),
    Attack("endless output of many processes", "output", _OUTPUT_OF_MANY, _output_is_cut, SMALL),
    *(
        Attack(name, "limits", code, ends("timeout"), _BRIEF)
        for name, code in (
            ("deaf to every signal", _DEAF),
            ("stopped by itself", _STOPPED),
            ("silent, with every descriptor closed", _SILENT),
            ("waiting where no signal reaches", _VFORK),
            ("turning the clock", _CLOCK),
            ("never done with its exit", _EXIT_HANGS),
        )
    ),
    Attack("deaf to the end of its CPU time", "limits", _CPU, ends("timeout"), replace(SMALL, wall_s=15.0, cpu_s=1.0)),
    Attack("raising its limits", "limits", _RAISED),
    Attack("ahead of others", "limits", _NICE),
)
