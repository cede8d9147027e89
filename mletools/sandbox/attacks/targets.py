"""The targets that a selftest plants around the sandbox, and the traces that an attack leaves on them.

Covered: a task with answers, canaries (random words) in files, memory, environment and shared memory, listeners, a
victim process, a concurrent run; whether an attack read, reached or harmed any of these; the processes and files it
left; cleaning up. Everything of an attack carries a random mark, so other users' processes and files are not touched.
Not covered: the verdict (`attack`).
"""

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from ..interface import Outcome
from .memory_use import MemoryUse
from .victim import Victim

_IPC_CREAT, _IPC_RMID = 0o1000, 0
_MOST_FILES = 20_000
_LEVELS = 4
_SEGMENTS = 9  # System V segments that an attack may leave, at consecutive keys
_LOOKS = 5  # at the list of processes: one that forks itself on and on may have ended before its line is read
CONCURRENT_S = 1.2  # duration of the concurrent run


def _new_mark() -> str:
    """A random word that fits a process's name (15 characters)."""
    return "mle" + secrets.token_hex(6)


def _shm_key(mark: str) -> int:
    """The System V key of a mark."""
    return int(mark[-7:], 16)


class AttackTargets:
    """Used by `with AttackTargets() as targets`; call `begin` before every attack and `sweep` after it."""

    def __init__(self) -> None:
        self.canaries: dict[str, str] = {}  # location by canary
        self.mark = ""
        self.concurrent_mark = ""
        self.concurrent: Outcome | None = None  # of the concurrent run, once it has ended
        self.honest: Outcome | None = None  # of the honest program without an attack
        self.start_s = 0.5  # seconds from the call to the first line of a run
        self.memory = MemoryUse()
        self.sealed: dict[str, bool] = {}  # by name of the attacks so far
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

    def __enter__(self) -> "AttackTargets":
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
        self.folder.chmod(0o755)  # so that nothing but the sandbox keeps a solution out
        self.public, self.private = self.folder / "task" / "public", self.folder / "task" / "private"
        for folder in (self.public, self.private):
            folder.mkdir(parents=True)
        train = "".join(f"{row % 7},{row % 7 // 4}\n" for row in range(70))
        files = {"train.csv": f"x,y\n{train}".encode(), "test.csv": b"x\n1\n2\n5\n6\n"}
        self._public_files = {name: (0o100644, content) for name, content in files.items()}
        self._restore_public()
        self.answers = self.private / "answers.csv"
        self.answers.write_text(self.canary("the answers") + "\n")
        (self.private / "submission.csv").write_text(self.canary("a file outside") + "\n")
        self.weights = self.folder / "weights"  # for a sandbox that is to show them
        self._restore_weights()
        # An open descriptor of the command, which a careless backend would pass on.
        self.descriptor = os.open(self.answers, os.O_RDONLY)
        os.set_inheritable(self.descriptor, True)
        self._stack.callback(os.close, self.descriptor)
        self._heap = ctypes.create_string_buffer(self.canary("this process's memory").encode())
        os.environ["MLE_SELFTEST_CANARY"] = self.canary("the environment")
        self._stack.callback(os.environ.pop, "MLE_SELFTEST_CANARY", None)
        self._plant_shared_memory()
        self._listen()
        self._victim = Victim(self.answers, self.folder / "victim.out")
        self._stack.callback(self._victim.end)

    def _plant_shared_memory(self) -> None:
        self._shm_id = self._libc.shmget(0, 4096, _IPC_CREAT | 0o666)
        if self._shm_id >= 0:
            self._stack.callback(self._libc.shmctl, self._shm_id, _IPC_RMID, None)
            address = self._libc.shmat(self._shm_id, None, 0)
            word = self.canary("System V shared memory").encode()
            ctypes.memmove(address, word, len(word))
            self._libc.shmdt(address)
        self._shm_file = Path("/dev/shm") / f"{_new_mark()}-planted"
        with suppress(OSError):
            self._shm_file.write_text(self.canary("a file in /dev/shm"))
            self._stack.callback(self._shm_file.unlink, missing_ok=True)

    def _listen(self) -> None:
        path = self.folder / "sockets"
        path.mkdir()
        stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
        self._abstract = _new_mark()
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
                listener = socket.socket(family, kind)
                self._stack.callback(listener.close)
                listener.bind(address)
                if isinstance(address, str) and address[0] == "/":
                    os.chmod(address, 0o777)
                if kind == stream:
                    listener.listen(64)
                listener.setblocking(False)
                self._listeners[name] = listener

    def _restore_public(self) -> None:
        if self._public_now() == self._public_files:
            return
        shutil.rmtree(self.public, ignore_errors=True)
        self.public.mkdir(exist_ok=True)
        self.public.chmod(0o755)
        for name, (mode, content) in self._public_files.items():
            (self.public / name).write_bytes(content)
            (self.public / name).chmod(mode & 0o777)

    def _public_now(self) -> dict[str, tuple[int, bytes]]:
        contents = {}
        for path in self.public.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            contents[str(path.relative_to(self.public))] = path.lstat().st_mode, content
        if self.public.lstat().st_mode & 0o777 != 0o755:
            contents["."] = (self.public.lstat().st_mode, b"")
        return contents

    def _weights_are_whole(self) -> bool:
        file = self.weights / "model.bin"
        whole = file.is_file() and file.read_bytes() == b"weights"
        return whole and sorted(os.listdir(self.weights)) == ["hub", "model.bin"]

    def _restore_weights(self) -> None:
        if self.weights.exists() and self._weights_are_whole():
            return
        shutil.rmtree(self.weights, ignore_errors=True)
        (self.weights / "hub").mkdir(parents=True)
        (self.weights / "model.bin").write_bytes(b"weights")
        (self.weights / "model.bin").chmod(0o644)
        (self.weights / "hub" / "link").symlink_to(self.answers)

    def begin(self) -> None:
        """Prepare for an attack: clean up, restore what was harmed, choose new marks."""
        self.sweep()
        self.mark, self.concurrent_mark, self.concurrent = _new_mark(), _new_mark(), None

    def known(self) -> dict[str, object]:
        """What an attacker knows of the targets; never a canary."""
        ports = {name: end.getsockname()[1] for name, end in self._listeners.items() if end.family != socket.AF_UNIX}
        sockets = self.folder / "sockets"
        return {
            "mark": self.mark,
            "key": _shm_key(self.mark),
            "concurrent": self.concurrent_mark,
            "concurrent_key": _shm_key(self.concurrent_mark),
            "pid": os.getpid(),
            "victim": self._victim.pid,
            "victim_command": self._victim.command,
            "address": ctypes.addressof(self._heap),
            "task": str(self.folder / "task"),
            "answers": str(self.answers),
            "private": str(self.private),
            "weights": str(self.weights),
            "secrets": [str(self.answers), str(self.private / "submission.csv")],
            "shm_file": str(self._shm_file),
            "shm_id": self._shm_id,
            "ports": ports,
            "abstract": self._abstract,
            "sockets": [str(sockets / "stream"), str(sockets / "datagram")],
            "folders": [str(self.folder), str(self.private), tempfile.gettempdir(), "/dev/shm", "/var/tmp"],
        }

    def known_to_concurrent(self) -> dict[str, object]:
        """What the concurrent run knows: its own mark and a canary to keep."""
        mark = self.concurrent_mark
        return {**self.known(), "mark": mark, "key": _shm_key(mark), "canary": self.canary("a concurrent run")}

    def traces(self, outcome: Outcome) -> list[str]:
        """What the attack with this outcome read, reached, harmed or left; the worst first."""
        text = b"\n".join((outcome.stdout, outcome.stderr, *outcome.outputs.values()))
        breaches = [f"read {place}" for word, place in self.canaries.items() if word.encode() in text]
        breaches += [f"reached {name}" for name in self._contacts()]
        breaches += self._victim.harm()
        if self._public_now() != self._public_files:
            breaches.append("changed the public folder")
        if not self._weights_are_whole():
            breaches.append("changed the weights")
        left = next(filter(None, (marked_processes(self.mark) for _ in range(_LOOKS))), [])
        breaches += [f"left a process: {name}" for _, name in left][:3]
        breaches += [f"left {path}" for path in self._marked_files(self.mark)][:3]
        if self._segment(self.mark) >= 0:
            breaches.append("left System V shared memory")
        if self.concurrent is not None and not _is_unharmed(self.concurrent):
            words = self.concurrent.stdout.decode(errors="replace").strip().rpartition("\n")[2]
            breaches.append(f"harmed a concurrent run: {self.concurrent.status} {words}".rstrip())
        return breaches

    def _contacts(self) -> Iterator[str]:
        for name, listener in self._listeners.items():
            with suppress(OSError):
                if listener.type == socket.SOCK_STREAM:
                    listener.accept()[0].close()
                else:
                    listener.recv(64)
                yield name

    def _marked_files(self, mark: str) -> Iterator[str]:
        count = 0
        temporary = tempfile.gettempdir()
        for top in (temporary, "/dev/shm", "/var/tmp"):
            with suppress(OSError):
                for entry in os.listdir(top):
                    path = f"{top}/{entry}"
                    if mark in entry:
                        yield path
                    elif top == temporary and entry.startswith("mletools-"):
                        for folder, folders, files in os.walk(path):
                            count += len(folders) + len(files)
                            yield from (f"{folder}/{name}" for name in [*folders, *files] if mark in name)
                            if folder.count("/") - path.count("/") >= _LEVELS or count > _MOST_FILES:
                                folders.clear()

    def _segment(self, mark: str, number: int = 0) -> int:
        return int(self._libc.shmget(_shm_key(mark) + number, 0, 0))

    def sweep(self) -> None:
        """Remove what the last attack left, and restore what it harmed."""
        for mark in filter(None, (self.mark, self.concurrent_mark)):
            self._sweep_marked(mark)
        list(self._contacts())
        if any(self._victim.harm()):
            self._victim.end()
            self._victim.start()
        self._restore_public()
        self._restore_weights()

    def _sweep_marked(self, mark: str) -> None:
        end = time.monotonic() + 10
        while (left := marked_processes(mark)) and time.monotonic() < end:
            for pid, _ in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        for path in list(self._marked_files(mark)):
            if os.path.isdir(path) and not os.path.islink(path):
                # Not shutil.rmtree: attacks nest folders deeper than Python's stack.
                subprocess.run(["rm", "-rf", "--", path], stderr=subprocess.DEVNULL, check=False)
            else:
                Path(path).unlink(missing_ok=True)
        for number in range(_SEGMENTS):
            segment = self._segment(mark, number)
            if segment >= 0:
                self._libc.shmctl(segment, _IPC_RMID, None)


def _is_unharmed(concurrent: Outcome) -> bool:
    return (concurrent.status, concurrent.stdout, concurrent.submission) == ("ok", b"unharmed\ntried\n", b"mine")


def marked_processes(mark: str) -> list[tuple[int, str]]:
    """(pid, name) of the living processes that have `mark` as their name or in their command line, the newest first."""
    processes = []
    for pid in sorted(map(int, filter(str.isdecimal, os.listdir("/proc"))), reverse=True):  # the newest may end first
        with suppress(OSError, IndexError):
            with open(f"/proc/{pid}/stat") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
            if rest.split()[0] in "ZX":
                continue
            words = ""
            with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as command:
                words = command.read(4096).replace(b"\0", b" ").decode(errors="replace").strip()
            if name == mark or mark in words:
                processes.append((pid, words[:40] or name))
    return processes
