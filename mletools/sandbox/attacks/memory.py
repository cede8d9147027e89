"""Attacks on the memory limit: in one process, in many, and in memory that no process shows as its own.

Covered: unnamed files, shared segments, pipes, sockets, page tables, dropped shared pages, arguments, orphans. Where
nothing stops them they take a few hundred MB more than allowed. The verdict comes from the machine's memory in use
during the run, not from the program's claims. Not covered: how fast a limit acts.
"""

from dataclasses import replace

from ..interface import Outcome
from .attack import Attack, Verdict, ends_with
from .processes import SMALL
from .targets import AttackTargets

_SUSTAINED_S = 0.6  # an excess must last so long: a watcher may be late, other processes need memory too
_MARGIN_MB = 300

_MEMORY_BOMB = """
kept = []
while len(kept) < 50:
    kept.append(bytearray(b"x") * (32 << 20))
report_open("1600 MB of memory where 400 are allowed")
"""

_MANY_PROCESSES = """
ready, tell = os.pipe()
children = []
for _ in range(16):
    child = os.fork()
    if child == 0:
        kept = bytearray(b"x") * (64 << 20)
        os.write(tell, b".")
        time.sleep(30)
        os._exit(0)
    children.append(child)
os.close(tell)
os.set_blocking(ready, False)
end = time.monotonic() + 8
count = 0
while count < len(children) and time.monotonic() < end:
    try:
        count += len(os.read(ready, 64))
    except BlockingIOError:
        time.sleep(0.02)
    if os.waitpid(-1, os.WNOHANG)[0]:
        break
time.sleep(1.6)  # a watcher may be late
if count == len(children) and not os.waitpid(-1, os.WNOHANG)[0]:
    report_open("1024 MB in 16 processes where 400 are allowed")
raise SystemExit(1)
"""

_UNNAMED_FILES = """
held, block = [], bytes(1 << 20)
for number in range(40):
    at = libc.memfd_create(W["mark"].encode(), 0)
    for _ in range(32):
        os.write(at, block)
    held.append(at)
report_open("1280 MB in unnamed files where 400 are allowed")
"""

_SEGMENTS = """
held = []
for number in range(40):
    segment = libc.shmget(0, 32 << 20, 0o600 | 0o1000)
    if segment < 0:
        raise SystemExit(1)
    address = attach(segment)
    libc.shmctl(segment, 0, None)  # the kernel frees it when the last process detaches
    ctypes.memset(address, 120, 32 << 20)
    held.append(address)
report_open("1280 MB of shared memory where 400 are allowed")
"""

# The programs below keep their memory for a while, so that it can be measured from outside.
_KEEP = """
import mmap, resource
TAKE, KEEP_S = 1200 << 20, 1.6
with suppress(OSError, ValueError):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
def spread(hold, among):
    ready, tell = os.pipe()
    children = []
    for _ in range(among):
        child = os.fork()
        if child == 0:
            with suppress(OSError):
                kept = hold(TAKE // among)
            os.write(tell, b".")
            time.sleep(8)
            os._exit(0)
        children.append(child)
    os.close(tell)
    for _ in children:
        os.read(ready, 1)
    time.sleep(KEEP_S)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""

_SOCKETS = """
def filled(size, ways=2):
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
        with suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    held, block = 0, bytes(16 << 10)
    for end in ends[:ways]:
        with suppress(BlockingIOError):
            while held < size:
                held += end.send(block)
    return held, ends
def hold(size):
    kept, held = [], 0
    while held < size:
        try:
            more, ends = filled(size - held)
        except OSError:
            break
        held += more
        kept.append(ends)
    return kept
spread(hold, 8)
"""

_MEASURED = {
    "of orphans": """
# Each process is an orphan in a session of its own.
def hold(size):
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    kept = bytearray(b"x") * size
    time.sleep(KEEP_S)
    os._exit(0)
spread(hold, 4)
""",
    "in detached segments": """
for number in range(1, 9):
    segment = libc.shmget(W["key"] + number, 150 << 20, 0o600 | 0o1000)
    address = attach(segment)
    if address:
        ctypes.memset(address, 120, 150 << 20)
        libc.shmdt(address)
time.sleep(KEEP_S)
for number in range(1, 9):
    libc.shmctl(libc.shmget(W["key"] + number, 0, 0), 0, None)
""",
    "in dropped shared mappings": """
kept, full = [], b"x" * (32 << 20)
for _ in range(TAKE >> 25):
    block = mmap.mmap(-1, len(full))
    block[:] = full
    block.madvise(mmap.MADV_DONTNEED)
    kept.append(block)
time.sleep(KEEP_S)
""",
    "in sockets in flight": _SOCKETS.replace("spread(hold, 8)", "")
    + """
import array
def send(carrier, ends):
    with ends[0], ends[1]:
        rights = array.array("i", [ends[1].fileno()])
        carrier.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
def hold_in_flight(size):
    kept, held = [], 0
    while held < size:
        carriers = socket.socketpair()
        kept.append(carriers)
        for _ in range(100):
            more, ends = filled(size - held, 1)
            held += more
            send(carriers[0], ends)
            if held >= size:
                break
    return kept
spread(hold_in_flight, 4)
""",
    "in full pipes": """
import fcntl
def hold(size):
    kept, held, block = [], 0, bytes(64 << 10)
    while held < size:
        try:
            out, into = os.pipe()
        except OSError:
            break
        kept.append(out)
        for pages in (256, 16):
            with suppress(OSError):
                fcntl.fcntl(into, 1031, pages << 12)
                break
        os.set_blocking(into, False)
        with suppress(BlockingIOError):
            while True:
                held += os.write(into, block)
        os.close(into)
    return kept
spread(hold, 8)
""",
    "pinned by pipes": """
# A pipe keeps one small page of each huge page, which keeps the whole huge page in memory after it is unmapped.
HUGE = 2 << 20
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
libc.vmsplice.argtypes = [ctypes.c_int, ctypes.POINTER(Vector), ctypes.c_ulong, ctypes.c_uint]
pipes = []
for _ in range(TAKE // (16 * HUGE)):
    out, into = os.pipe()
    os.set_blocking(into, False)
    pipes.append(out)
    block = mmap.mmap(-1, 17 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(14)
    view = ctypes.c_char.from_buffer(block)
    first = -(-ctypes.addressof(view) // HUGE) * HUGE
    for number in range(16):
        ctypes.memset(first + number * HUGE, 120, HUGE)
        libc.vmsplice(into, ctypes.byref(Vector(first + number * HUGE, 4096)), 1, 0)
    del view
    block.close()
time.sleep(KEEP_S)
""",
    "in epoll entries": """
import select
def hold(size):
    # An entry is of a file and a number of it: of each number that a file had meanwhile, in each epoll.
    one = libc.eventfd(0, 0)
    numbers = [os.dup(one) for _ in range(400)]
    kept = []
    while len(kept) * len(numbers) < size // 200:
        try:
            kept.append(select.epoll())
            for number in numbers:
                kept[-1].register(number, 1)
        except OSError:
            break
    return kept
spread(hold, 24)
""",
    "in file locks": """
import fcntl
def hold(size):
    # One lock on every second byte of each file; many on one file take long.
    kept = [os.open(f"{os.getpid()}-{number}", os.O_CREAT | os.O_RDWR) for number in range(800)]
    for byte in range(size // 200 // len(kept)):
        for number in kept:
            fcntl.fcntl(number, 37, struct.pack("hhqqi4x", 0, 0, 2 * byte, 1, 0))
    return kept
spread(hold, 24)
""",
    "in page tables": """
# All pages that are only read share one page of zeros, but each needs an entry in the page tables.
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
STEP = 2 << 20
kept = 0
while kept < TAKE:
    size = 64 << 30
    address = libc.mmap(None, size, 1, 0x4022, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        break
    libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), 15)
    for at in range(address, address + size, STEP):
        ctypes.c_char.from_address(at).value
    kept += (size // STEP) << 12
time.sleep(KEEP_S)
""",
    "in program arguments": """
# Programs with 5 MB of arguments and environment each, which wait for input that never comes.
resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
ready, never = os.pipe()
arguments, environment = ["x" * 130000] * 20, {f"V{n}": "x" * 130000 for n in range(18)}
actions = [(os.POSIX_SPAWN_DUP2, ready, 0), (os.POSIX_SPAWN_CLOSE, never)]
children = []
for _ in range(TAKE // (5 << 20)):
    try:
        command = ["sh", "-c", "read line", *arguments]
        children.append(os.posix_spawn("/bin/sh", command, environment, file_actions=actions))
    except OSError:
        break
time.sleep(KEEP_S)
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
""",
}


def _within_limit(outcome: Outcome, targets: AttackTargets) -> Verdict:
    """Sealed when the machine did not use much more than the limit for long, however the run ended."""
    used = targets.memory.sustained_mb(_SUSTAINED_S)
    seen = f"{max(0.0, used):.0f} MB where {SMALL.memory_mb} are allowed, status {outcome.status}"
    return Verdict(used <= SMALL.memory_mb + _MARGIN_MB, seen)


_LIMITS = {"in program arguments": replace(SMALL, processes=250), "in file locks": replace(SMALL, disk_mb=250)}
ATTACKS = (
    Attack("memory bomb", "memory", _MEMORY_BOMB, ends_with("memory"), SMALL, concurrent=True),
    Attack("memory of many processes", "memory", _MANY_PROCESSES, ends_with("memory"), SMALL, concurrent=True),
    Attack("memory in memfd files", "memory", _UNNAMED_FILES, ends_with("memory", "disk", "error"), SMALL),
    Attack("memory in System V segments", "memory", _SEGMENTS, ends_with("memory", "error"), SMALL),
    *(
        Attack(f"memory {name}", "memory", _KEEP + code, _within_limit, _LIMITS.get(name, SMALL), measured=True)
        for name, code in {"in socket queues": _SOCKETS, **_MEASURED}.items()
    ),
)
