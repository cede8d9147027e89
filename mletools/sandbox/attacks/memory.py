"""Attacks on the limit of memory: in one process, in many, and where no process seems to have it.

Covered: memory that counts as no process's own (files without a name, segments, pipes, sockets, page tables, shared
pages that are let go of), arguments and orphans. Where nothing stops them they take a few hundred MB more than allowed.
What is judged is what the machine lacks while the run lasts, not what the program claims. Not covered: how fast a
limit bites.
"""

from __future__ import annotations

from dataclasses import replace

from ..interface import Outcome
from .attack import Attack, Judged, ends, traced
from .processes import SMALL
from .world import AttackWorld

_HELD_S = 0.6  # seconds that what is above the limit must last: a watcher may be late, a neighbour may need some
_MARGIN_MB = 300

_MEMORY_BOMB = """
kept = []
while len(kept) < 50:
    kept.append(bytearray(b"x") * (32 << 20))
opened("1600 MB of memory where 400 are allowed")
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
        raise SystemExit(1)
if count == len(children):
    opened("1024 MB in 16 processes where 400 are allowed")
raise SystemExit(1)
"""

_FILES_IN_MEMORY = """
held, block = [], bytes(1 << 20)
for number in range(40):
    at = libc.memfd_create(W["mark"].encode(), 0)
    for _ in range(32):
        os.write(at, block)
    held.append(at)
opened("1280 MB in files without a name where 400 are allowed")
"""

_SEGMENTS = """
libc.shmat.restype = ctypes.c_void_p
held = []
for number in range(40):
    segment = libc.shmget(0, 32 << 20, 0o600 | 0o1000)
    if segment < 0:
        raise SystemExit(1)
    address = libc.shmat(segment, None, 0)
    libc.shmctl(segment, 0, None)  # it goes when the last process lets go of it
    ctypes.memset(ctypes.c_void_p(address), 120, 32 << 20)
    held.append(address)
opened("1280 MB of shared memory where 400 are allowed")
"""

# What follows keeps what it got for a while, for those who look from outside.
_KEEP = """
import mmap, resource
TAKE, KEEP_S = 1200 << 20, 1.6
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
except (OSError, ValueError):
    pass
def spread(hold, among):
    ready, tell = os.pipe()
    children = []
    for _ in range(among):
        child = os.fork()
        if child == 0:
            try:
                kept = hold(TAKE // among)
            except OSError:
                pass
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

_ORPHANS = """
# Each is the child of a parent that is gone, in a session of its own.
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
"""

_DETACHED = """
libc.shmat.restype = ctypes.c_void_p
for number in range(1, 9):
    segment = libc.shmget(W["key"] + number, 150 << 20, 0o600 | 0o1000)
    address = libc.shmat(segment, None, 0) if segment >= 0 else None
    if address not in (None, ctypes.c_void_p(-1).value):
        ctypes.memset(ctypes.c_void_p(address), 120, 150 << 20)
        libc.shmdt(ctypes.c_void_p(address))
time.sleep(KEEP_S)
for number in range(1, 9):
    libc.shmctl(libc.shmget(W["key"] + number, 0, 0), 0, None)
"""

_DROPPED = """
kept, full = [], b"x" * (32 << 20)
for _ in range(TAKE >> 25):
    block = mmap.mmap(-1, len(full))
    block[:] = full
    block.madvise(mmap.MADV_DONTNEED)
    kept.append(block)
time.sleep(KEEP_S)
"""

_SOCKETS = """
def filled(size, ways=2):
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
        try:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        except OSError:
            pass
    held, block = 0, bytes(16 << 10)
    for end in ends[:ways]:
        try:
            while held < size:
                held += end.send(block)
        except BlockingIOError:
            pass
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

_UNDER_WAY = (
    _SOCKETS.replace("spread(hold, 8)", "")
    + """
import array
def send(carrier, ends):
    with ends[0], ends[1]:
        rights = array.array("i", [ends[1].fileno()])
        carrier.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
def hold_under_way(size):
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
spread(hold_under_way, 4)
"""
)

_PIPES = """
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
            try:
                fcntl.fcntl(into, 1031, pages << 12)
                break
            except OSError:
                pass
        os.set_blocking(into, False)
        try:
            while True:
                held += os.write(into, block)
        except BlockingIOError:
            pass
        os.close(into)
    return kept
spread(hold, 8)
"""

_PINNED = """
# A pipe keeps one small page of each huge one, and with it all of the huge one, when its memory is let go of.
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
"""

_TABLES = """
# A page that is only read is everybody's page of zeros; the table that leads there is not.
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
"""

_ARGUMENTS = """
# Programs of 5 MB of arguments and settings each; they wait for a word that nobody says.
resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
ready, silence = os.pipe()
words, settings = ["x" * 130000] * 20, {f"V{n}": "x" * 130000 for n in range(18)}
actions = [(os.POSIX_SPAWN_DUP2, ready, 0), (os.POSIX_SPAWN_CLOSE, silence)]
children = []
for _ in range(TAKE // (5 << 20)):
    try:
        command = ["sh", "-c", "read line", *words]
        children.append(os.posix_spawn("/bin/sh", command, settings, file_actions=actions))
    except OSError:
        break
time.sleep(KEEP_S)
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def _takes_no_more(outcome: Outcome, world: AttackWorld) -> Judged:
    """Sealed when the machine did not lack much more than the limit for long, however the run ended."""
    trace = traced(outcome, world)
    if trace is not None:
        return Judged(False, trace)
    lacking = world.lacking_mb(_HELD_S)
    seen = f"{max(0.0, lacking):.0f} MB where {SMALL.memory_mb} are allowed, status {outcome.status}"
    return Judged(lacking <= SMALL.memory_mb + _MARGIN_MB, seen)


ATTACKS = (
    Attack("memory bomb", "memory", _MEMORY_BOMB, ends("memory"), SMALL, beside=True),
    Attack("memory of many processes", "memory", _MANY_PROCESSES, ends("memory"), SMALL, beside=True),
    Attack("memory in files without a name", "memory", _FILES_IN_MEMORY, ends("memory", "disk", "error"), SMALL),
    Attack("memory in shared segments", "memory", _SEGMENTS, ends("memory", "error"), SMALL),
    *(
        Attack(f"memory {where}", "memory", _KEEP + code, _takes_no_more, SMALL, measured=True)
        for where, code in (
            ("of orphans", _ORPHANS),
            ("in segments that are let go of", _DETACHED),
            ("shared, touched and dropped", _DROPPED),
            ("in sockets' queues", _SOCKETS),
            ("in sockets under way in sockets", _UNDER_WAY),
            ("in pipes full to the brim", _PIPES),
            ("pinned by pipes", _PINNED),
            ("in page tables", _TABLES),
        )
    ),
    Attack(
        "memory in arguments",
        "memory",
        _KEEP + _ARGUMENTS,
        _takes_no_more,
        replace(SMALL, processes=250),
        measured=True,
    ),
)
