"""What a selftest plants around the sandbox, and the traces that an attack leaves in it.

Covered: a task with answers, canaries (random words) in files, memory, environment and shared memory, listeners, a
victim process, another run at the same time; what of these was read, reached or harmed, which processes and files an
attack left, and taking all of it away. Not covered: judging (`attack`). Attacks and what they leave are found by a
random mark, so nothing that belongs to others is touched.
"""

from __future__ import annotations

import ctypes
import os
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..interface import Outcome

_IPC_CREAT, _IPC_RMID = 0o1000, 0
_LOOKED_AT = 20_000
_LEVELS = 4
_SEGMENTS = 9  # that an attack may leave, at keys one after another
_LOOK_EVERY_S = 0.02
_SETTLES_S, _SETTLED_MB = 3.0, 40.0  # the end of a run takes a while: wait so long, or until so little is missing
_HOLDS = 600  # seconds that the victim lives if nobody ends it
BESIDE_S = 1.2  # seconds that a run beside an attack lasts


def new_mark() -> str:
    """A word that fits a process's name (15 letters) and is found nowhere else."""
    return "mle" + secrets.token_hex(6)


def _lacking_mb() -> float:
    """MB of this machine's memory that are in use and cannot be taken back at need."""
    with open("/proc/meminfo") as file:
        mb = {name: int(rest.split()[0]) / 1024 for name, _, rest in (line.partition(":") for line in file)}
    kept = mb["Buffers"] + mb["Cached"] - mb["Shmem"] + mb.get("SReclaimable", 0.0) + _free_per_cpu_mb()
    return mb["MemTotal"] - mb["MemFree"] - kept + mb["SwapTotal"] - mb["SwapFree"]


def _free_per_cpu_mb() -> float:
    """MB of free pages that the kernel keeps at hand for each CPU: hundreds of MB since Linux 6.7, outside `MemFree`."""
    try:
        with open("/proc/zoneinfo") as file:
            pages = sum(int(line.split()[1]) for line in file if line.lstrip().startswith("count:"))
    except OSError:
        return 0.0  # hidden in some containers
    return pages * resource.getpagesize() / (1 << 20)


class _Scale(threading.Thread):
    """Weighs the machine's memory again and again until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first = _lacking_mb()
        self.seen: list[tuple[float, float]] = []  # seconds, MB beside the first
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.wait(_LOOK_EVERY_S):
            self.seen.append((time.monotonic(), _lacking_mb() - self.first))


def shm_key(mark: str) -> int:
    """The System V key that goes with a mark."""
    return int(mark[-7:], 16)


class AttackWorld:
    """Made by `with World() as world`; `begin` before every attack, `sweep` after it."""

    def __init__(self) -> None:
        self.canaries: dict[str, str] = {}  # what can be read: its place by its canary
        self.mark = ""
        self.beside_mark = ""
        self.beside: Outcome | None = None  # of the run beside the attack, once it has ended
        self.honest: Outcome | None = None  # what an honest run comes to
        self.start_s = 0.5  # seconds that a run takes to its first line
        self._weighed: list[tuple[float, float]] = []
        self.verdicts: dict[str, bool] = {}  # attacks that were tried, and whether they were sealed
        self._stack = ExitStack()
        self._listeners: dict[str, socket.socket] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.shmat.restype = ctypes.c_void_p
        self._libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
        self._libc.shmdt.argtypes = [ctypes.c_void_p]

    def canary(self, place: str) -> str:
        """A new canary for `place`."""
        word = f"canary-{secrets.token_hex(16)}"
        self.canaries[word] = place
        return word

    # Planting

    def __enter__(self) -> AttackWorld:
        try:
            self._plant()
        except BaseException:
            self._stack.close()
            raise
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.sweep()
        self._stack.close()

    def _plant(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mletools-selftest-"))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)  # only the sandbox stands between a solution and all that follows
        self.public, self.private = self.folder / "task" / "public", self.folder / "task" / "private"
        for folder in (self.public, self.private):
            folder.mkdir(parents=True)
        train = "".join(f"{row % 7},{row % 7 // 4}\n" for row in range(70))
        self._public_files = {"train.csv": f"x,y\n{train}".encode(), "test.csv": b"x\n1\n2\n5\n6\n"}
        self._restore_public()
        self.answers = self.private / "answers.csv"
        self.answers.write_text(self.canary("the answers") + "\n")
        (self.private / "submission.csv").write_text(self.canary("a file outside") + "\n")
        # As a command might leave it open, and a careless backend pass it on.
        self.held = os.open(self.answers, os.O_RDONLY)
        os.set_inheritable(self.held, True)
        self._stack.callback(os.close, self.held)
        self._heap = ctypes.create_string_buffer(self.canary("this process's memory").encode())
        os.environ["MLE_SELFTEST_CANARY"] = self.canary("the environment")
        self._stack.callback(os.environ.pop, "MLE_SELFTEST_CANARY", None)
        self._plant_shared_memory()
        self._listen()
        self._start_victim()
        self._stack.callback(self._end_victim)

    def _plant_shared_memory(self) -> None:
        self._shm_id = self._libc.shmget(0, 4096, _IPC_CREAT | 0o666)
        if self._shm_id >= 0:
            self._stack.callback(self._libc.shmctl, self._shm_id, _IPC_RMID, None)
            address = self._libc.shmat(self._shm_id, None, 0)
            word = self.canary("System V shared memory").encode()
            ctypes.memmove(address, word, len(word))
            self._libc.shmdt(address)
        self._shm_file = Path("/dev/shm") / f"{new_mark()}-planted"
        with suppress(OSError):
            self._shm_file.write_text(self.canary("a file in /dev/shm"))
            self._stack.callback(self._shm_file.unlink, missing_ok=True)

    def _listen(self) -> None:
        path = self.folder / "sockets"
        path.mkdir()
        stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
        self._abstract = new_mark()
        for name, family, kind, address in (
            ("tcp 127.0.0.1", socket.AF_INET, stream, ("127.0.0.1", 0)),
            ("tcp ::1", socket.AF_INET6, stream, ("::1", 0)),
            ("udp 127.0.0.1", socket.AF_INET, datagram, ("127.0.0.1", 0)),
            ("udp ::1", socket.AF_INET6, datagram, ("::1", 0)),
            ("an abstract socket", socket.AF_UNIX, stream, f"\0{self._abstract}"),
            ("an abstract datagram socket", socket.AF_UNIX, datagram, f"\0{self._abstract}-d"),
            ("a socket file", socket.AF_UNIX, stream, str(path / "stream")),
            ("a datagram socket file", socket.AF_UNIX, datagram, str(path / "datagram")),
        ):
            with suppress(OSError):  # a machine without IPv6
                end = socket.socket(family, kind)
                self._stack.callback(end.close)
                end.bind(address)
                if isinstance(address, str) and address[0] == "/":
                    os.chmod(address, 0o777)
                if kind == stream:
                    end.listen(64)
                end.setblocking(False)
                self._listeners[name] = end

    def _start_victim(self) -> None:
        # Blocked signals stay pending, where this process can see them: a signal that arrives is not missed.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with open(self.answers, "rb") as answers, open(self.folder / "victim.out", "wb") as output:
                self._victim_command = ["sleep", f"{_HOLDS}.{secrets.randbelow(10**9):09}"]
                self._victim = subprocess.Popen(
                    self._victim_command,
                    stdin=answers,
                    stdout=output,
                    stderr=output,
                    cwd=self.private,
                    start_new_session=True,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _end_victim(self) -> None:
        self._victim.kill()
        self._victim.wait()

    def _restore_public(self) -> None:
        if self._public_now() == self._expected_public():
            return
        shutil.rmtree(self.public, ignore_errors=True)
        self.public.mkdir(exist_ok=True)
        self.public.chmod(0o755)
        for name, content in self._public_files.items():
            (self.public / name).write_bytes(content)
            (self.public / name).chmod(0o644)

    def _expected_public(self) -> dict[str, tuple[int, bytes]]:
        return {name: (0o100644, content) for name, content in self._public_files.items()}

    def _public_now(self) -> dict[str, tuple[int, bytes]]:
        contents = {}
        for path in self.public.rglob("*"):
            status = path.lstat()
            contents[str(path.relative_to(self.public))] = (
                status.st_mode,
                path.read_bytes() if path.is_file() else b"",
            )
        if self.public.lstat().st_mode & 0o777 != 0o755:
            contents["."] = (self.public.lstat().st_mode, b"")
        return contents

    # An attack

    def begin(self) -> None:
        """Before an attack: a new mark, and all that was harmed is whole again."""
        self.sweep()
        self.mark, self.beside_mark, self.beside = new_mark(), new_mark(), None

    def known(self) -> dict[str, Any]:
        """What an attacker knows of this world; never a canary."""
        ports = {name: end.getsockname()[1] for name, end in self._listeners.items() if end.family != socket.AF_UNIX}
        sockets = self.folder / "sockets"
        return {
            "mark": self.mark,
            "key": shm_key(self.mark),
            "beside": self.beside_mark,
            "beside_key": shm_key(self.beside_mark),
            "pid": os.getpid(),
            "victim": self._victim.pid,
            "victim_command": self._victim_command,
            "address": ctypes.addressof(self._heap),
            "task": str(self.folder / "task"),
            "answers": str(self.answers),
            "private": str(self.private),
            "secrets": [str(self.answers), str(self.private / "submission.csv")],
            "shm_file": str(self._shm_file),
            "shm_id": self._shm_id,
            "ports": ports,
            "abstract": self._abstract,
            "sockets": [str(sockets / "stream"), str(sockets / "datagram")],
            "folders": [str(self.folder), str(self.private), tempfile.gettempdir(), "/dev/shm", "/var/tmp"],
        }

    def known_beside(self) -> dict[str, Any]:
        """What the run beside an attack is told: its own mark and a canary to keep."""
        mark = self.beside_mark
        return {**self.known(), "mark": mark, "key": shm_key(mark), "canary": self.canary("a run beside it")}

    def traces(self, outcome: Outcome) -> list[str]:
        """What the attack that has just ended read, reached, harmed or left; the worst first."""
        text = b"\n".join((outcome.stdout, outcome.stderr, outcome.submission or b""))
        breaches = [f"read {place}" for word, place in self.canaries.items() if word.encode() in text]
        breaches += [f"reached {name}" for name in self._contacts()]
        breaches += self._harm_to_victim()
        if self._public_now() != self._expected_public():
            breaches.append("changed the public folder")
        breaches += [f"left a process: {name}" for _, name in marked_processes(self.mark)][:3]
        breaches += [f"left {path}" for path in self._marked_files(self.mark)][:3]
        if self._segment(self.mark) >= 0:
            breaches.append("left System V shared memory")
        if self.beside is not None and not _is_whole(self.beside):
            words = self.beside.stdout.decode(errors="replace").strip().rpartition("\n")[2]
            breaches.append(f"a run beside it was harmed: {self.beside.status} {words}".rstrip())
        return breaches

    @contextmanager
    def weighing(self) -> Iterator[None]:
        """Look at the machine's memory for as long as this lasts; see `lacking_mb`."""
        scale = _Scale()
        scale.start()
        try:
            yield
        finally:
            end = time.monotonic()
            while time.monotonic() < end + _SETTLES_S and (not scale.seen or scale.seen[-1][1] > _SETTLED_MB):
                time.sleep(_LOOK_EVERY_S)
            time.sleep(2 * _LOOK_EVERY_S)
            scale.stop.set()
            scale.join()
            # What is still missing once the run has ended was a neighbour's.
            others = max(0.0, min((mb for at, mb in scale.seen if at > end), default=0.0))
            self._weighed = [(at, mb - others) for at, mb in scale.seen if at <= end]

    def lacking_mb(self, seconds: float) -> float:
        """The most MB that the machine lacked for `seconds` on end while it was weighed."""
        most, window = 0.0, deque[tuple[float, float]]()
        for at, mb in self._weighed:
            window.append((at, mb))
            while at - window[0][0] > seconds:
                most = max(most, min(mb for _, mb in window))
                window.popleft()
        return most

    def _contacts(self) -> Iterator[str]:
        for name, end in self._listeners.items():
            with suppress(OSError):
                if end.type == socket.SOCK_STREAM:
                    end.accept()[0].close()
                else:
                    end.recv(64)
                yield name

    def _harm_to_victim(self) -> Iterator[str]:
        if (self.folder / "victim.out").stat().st_size:
            yield "wrote to another process's output"
        if self._victim.poll() is not None:
            yield "killed another process"
            return
        with open(f"/proc/{self._victim.pid}/status") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        if status["State"][0] in "Tt":
            yield "stopped another process"
        if status["TracerPid"] != "0":
            yield "traces another process"
        if any(int(status[name], 16) for name in ("SigPnd", "ShdPnd")):
            yield "sent a signal to another process"

    def _marked_files(self, mark: str) -> Iterator[str]:
        looked_at = 0
        temporary = tempfile.gettempdir()
        for top in (temporary, "/dev/shm", "/var/tmp"):
            with suppress(OSError):
                for name in os.listdir(top):
                    path = f"{top}/{name}"
                    if mark in name:
                        yield path
                    elif top == temporary and name.startswith("mletools-"):
                        for folder, folders, files in os.walk(path):
                            looked_at += len(folders) + len(files)
                            yield from (f"{folder}/{each}" for each in [*folders, *files] if mark in each)
                            if folder.count("/") - path.count("/") >= _LEVELS or looked_at > _LOOKED_AT:
                                folders.clear()

    def _segment(self, mark: str) -> int:
        return int(self._libc.shmget(shm_key(mark), 0, 0))

    # Afterwards

    def sweep(self) -> None:
        """Take away what the last attack left, and mend what it harmed."""
        for mark in filter(None, (self.mark, self.beside_mark)):
            self._sweep_marked(mark)
        list(self._contacts())
        if any(self._harm_to_victim()):
            self._end_victim()
            self._start_victim()
        self._restore_public()

    def _sweep_marked(self, mark: str) -> None:
        end = time.monotonic() + 10
        while (left := marked_processes(mark)) and time.monotonic() < end:
            for pid, _ in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        for path in list(self._marked_files(mark)):
            if os.path.isdir(path) and not os.path.islink(path):
                # Not shutil.rmtree: an attack nests folders deeper than Python's stack.
                subprocess.run(["rm", "-rf", "--", path], stderr=subprocess.DEVNULL, check=False)
            else:
                Path(path).unlink(missing_ok=True)
        for number in range(_SEGMENTS):
            segment = int(self._libc.shmget(shm_key(mark) + number, 0, 0))
            if segment >= 0:
                self._libc.shmctl(segment, _IPC_RMID, None)


def _is_whole(beside: Outcome) -> bool:
    return beside.status == "ok" and beside.stdout == b"whole\ntried\n" and beside.submission == b"mine"


def marked_processes(mark: str) -> list[tuple[int, str]]:
    """Numbers and names of the living processes that have `mark` as their name or in their command line."""
    processes = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError, IndexError):
            with open(f"/proc/{entry.name}/stat") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
            with open(f"/proc/{entry.name}/cmdline", "rb") as command:
                words = command.read(4096).replace(b"\0", b" ").decode(errors="replace").strip()
            if rest.split()[0] not in "ZX" and (name == mark or mark in words):
                processes.append((int(entry.name), words[:40] or name))
    return processes
