"""Attacks with processes: outliving the run, harming others, and exceeding limits of processes, disk, output and time.

Covered: daemons, signals, bombs, tricks with the clock and with limits. All stay small even where nothing stops them: a
bomb ends at a few hundred processes. Not covered: memory (`memory`), how fast a limit acts.
"""

from dataclasses import replace

from ..interface import Limits, Outcome
from .attack import STILL_HERE, Attack, Verdict, ends_with, next_run_works, runs_to_end
from .targets import AttackTargets

_FORK_BOMB = """
LIMIT, BOUND = 32, 200
counter, signal_end = os.pipe()
origin = os.getpid()
end = time.monotonic() + 0.6
def forked():
    import fcntl
    return struct.unpack("i", fcntl.ioctl(counter, 0x541B, b"0000"))[0]
while forked() < BOUND and time.monotonic() < end:
    try:
        if os.fork() == 0:
            os.write(signal_end, b".")
    except OSError:
        time.sleep(0.05)
if os.getpid() != origin:
    time.sleep(5)
    os._exit(0)
if forked() > 2 * LIMIT:
    report_open(f"{forked()} processes where {LIMIT} are allowed")
"""

_THREAD_BOMB = """
import threading
LIMIT, BOUND = 32, 200
stop = threading.Event()
begun = []
with suppress(RuntimeError):
    for _ in range(BOUND):
        thread = threading.Thread(target=stop.wait, daemon=True)
        thread.start()
        begun.append(thread)
if len(begun) > 2 * LIMIT:
    report_open(f"{len(begun)} threads where {LIMIT} are allowed")
stop.set()
"""

_FILLER = """
places = [".", HOME, TEMPORARY, "/dev/shm"]
total, block = 0, bytes(4 << 20)
for number in range(40):
    with open(f"{places[number % 4]}/{W['mark']}{number}", "wb") as file:
        file.write(block)
report_open("160 MB on disk where 32 are allowed")
"""

_MANY_FILES = """
for number in range(20000):
    os.close(os.open(f"{W['mark']}{number}", os.O_CREAT | os.O_WRONLY))
report_open("20000 files on a disk of 32 MB")
"""

_SPARSE = """
try:
    with open(W["mark"], "wb") as file:
        file.truncate(10 << 30)
    report_open("a file of 10 GB where 8 MB are allowed")
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

_CPU = """
ignore_signals()
while time.process_time() < 3:
    pass
report_open("3 s of CPU time where 1 is allowed")
"""

_KILL_ALL = """
ignore_signals()
for number in (signal.SIGURG, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP, signal.SIGKILL):
    for target in filter(None, (os.getppid(), 1, -1, -os.getpgid(os.getppid()) if os.getppid() else -1)):
        with suppress(OSError):
            os.kill(target, number)
"""

_PLAIN = {
    "daemons that outlive the run": """
ignore_signals()
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
""",
    "a chain of forks": """
# Each child forks the next one and ends, so that a list of processes is always out of date.
if os.fork() == 0:
    ignore_signals()
    for _ in repeat(4, 0.02):
        if os.fork():
            os._exit(0)
        os.setsid()
    os._exit(0)
time.sleep(0.05)
""",
    "orphans that hold stdout": """
# Becomes the parent of its orphans (subreaper), all of which hold stdout open.
libc.prctl(36, 1, 0, 0, 0)
for _ in range(4):
    if os.fork() == 0:
        if os.fork() == 0:
            ignore_signals()
            time.sleep(30)
        os._exit(0)
""",
    "signals to other processes": """
victims = {W["victim"], *pids_named(W["concurrent"])}
harmless = signal.SIGURG
for pid in victims:
    for attempt in (
        lambda: os.kill(pid, harmless),
        lambda: os.killpg(pid, harmless),
        lambda: signal.pidfd_send_signal(os.pidfd_open(pid), harmless),
        lambda: libc.syscall(131 if ARM else 234, pid, pid, int(harmless)),
        lambda: libc.sigqueue(pid, int(harmless), None),
    ):
        with suppress(OSError):
            attempt()
""",
}
_KILLING = {
    "killing its process group": "os.kill(0, signal.SIGKILL)",
    "killing its parent": "os.kill(os.getppid() or 1, signal.SIGKILL)\ntime.sleep(0.1)",
    "stopping its parent": "os.kill(os.getppid() or 1, signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)",
}
_TIMEOUTS = {
    "ignoring every signal": "ignore_signals()\ntime.sleep(20)",
    "stopping itself": "ignore_signals()\nos.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(20)",
    "closing every descriptor": """
ignore_signals()
if os.fork() == 0:
    os.setsid()
os.closerange(0, 1024)
time.sleep(20)
""",
    "waiting in vfork": """
# The parent waits uninterruptibly, but for deadly signals, until the child runs another program or ends.
ignore_signals()
if libc.syscall(*((220, 0x4000 | 17, 0, 0, 0, 0) if ARM else (56, 0x4000 | 17, 0, 0, 0, 0))) == 0:
    time.sleep(20)
    os._exit(0)
time.sleep(20)
""",
    "changing the clock": """
class Adjust(ctypes.Structure):
    _fields_ = [("modes", ctypes.c_uint), ("rest", ctypes.c_byte * 204)]
ignore_signals()
# A tick of 0 is always refused: as invalid where the clock may be set, as forbidden where it may not.
for name, function in (
    ("clock_adjtime", lambda: libc.clock_adjtime(0, ctypes.byref(Adjust(0x4000)))),
    ("adjtimex", lambda: libc.adjtimex(ctypes.byref(Adjust(0x4000)))),
):
    call(name, function)
os.environ["FAKETIME"] = "-10d"
time.monotonic = time.time = time.perf_counter = lambda: 0.0
signal.setitimer(signal.ITIMER_REAL, 0)
time.sleep(20)
""",
    "hanging at exit": """
import atexit, threading
ignore_signals()
atexit.register(time.sleep, 20)
threading.Thread(target=time.sleep, args=(20,)).start()
""",
}
_LIMITS = {
    "raising its resource limits": """
import resource
for name in sorted(name for name in dir(resource) if name.startswith("RLIMIT_")):
    kind = getattr(resource, name)
    soft, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (soft, hard + 1))
            report_open(f"{name} can be raised")
""",
    "raising its priority": """
before = os.getpriority(os.PRIO_PROCESS, 0)
def nicer():
    os.setpriority(os.PRIO_PROCESS, 0, before - 1)
def oom():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1")
for name, attempt in (
    ("a better nice value", nicer),
    ("real-time scheduling", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))),
    ("a lower OOM score", oom),
):
    with suppress(OSError):
        attempt()
        report_open(name)
if libc.syscall(30 if ARM else 251, 1, 0, 1 << 13) == 0:
    report_open("real-time priority on the disk")
""",
}

_SIGNALS = "signals to other processes"
SMALL = Limits(wall_s=20.0, processes=32, memory_mb=400, file_mb=40, disk_mb=32, output_kb=64)
_BRIEF = replace(SMALL, wall_s=0.6)


def _output_is_cut(outcome: Outcome, targets: AttackTargets) -> Verdict:
    longest = max(len(outcome.stdout), len(outcome.stderr))
    if longest > SMALL.output_kb << 10:
        return Verdict(False, f"{longest} bytes of output where {SMALL.output_kb} KB are allowed")
    return ends_with("output")(outcome, targets)


ATTACKS = (
    *(Attack(name, "processes", code, concurrent=name == _SIGNALS) for name, code in _PLAIN.items()),
    Attack(
        "killing every reachable process", "processes", _KILL_ALL, next_run_works, SMALL, True, STILL_HERE, _SIGNALS
    ),
    *(
        Attack(name, "processes", code, next_run_works, _BRIEF, False, STILL_HERE, _SIGNALS)
        for name, code in _KILLING.items()
    ),
    Attack("fork bomb", "processes", _FORK_BOMB, runs_to_end, SMALL, concurrent=True, weaker=True),
    Attack("thread bomb", "processes", _THREAD_BOMB, runs_to_end, SMALL, weaker=True),
    Attack("filling the disk", "disk", _FILLER, ends_with("disk", "memory"), SMALL),
    Attack("using up the inodes", "disk", _MANY_FILES, ends_with("disk", "memory"), SMALL),
    Attack("sparse file of 10 GB", "disk", _SPARSE, runs_to_end, replace(SMALL, file_mb=8)),
    Attack("folders nested 1500 deep", "disk", _DEEP, next_run_works, followed_by=STILL_HERE),
    Attack("endless stdout", "output", _OUTPUT.format(descriptor=1), _output_is_cut, SMALL),
    Attack("endless stderr", "output", _OUTPUT.format(descriptor=2), _output_is_cut, SMALL),
    Attack("endless output of many processes", "output", _OUTPUT_OF_MANY, _output_is_cut, SMALL),
    *(Attack(name, "limits", code, ends_with("timeout"), _BRIEF) for name, code in _TIMEOUTS.items()),
    Attack("ignoring the CPU time limit", "limits", _CPU, ends_with("timeout"), replace(SMALL, wall_s=15.0, cpu_s=1.0)),
    *(Attack(name, "limits", code) for name, code in _LIMITS.items()),
)
