"""A memory cgroup for one slot, where this user may make one: version 1 or 2.

Covered: finding the folder, limits per run, the peak, whether the kernel killed for memory; on version 2 a fresh folder
for every run, and a scope of the user's own systemd where no folder at hand may be used. Not covered: other
controllers, and a limit set on the caller's own cgroup, which does not bind a neighbour made beside it.
"""

from __future__ import annotations

import errno
import os
import pwd
import subprocess
import time
from contextlib import suppress
from pathlib import Path

_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
_LINGERING = Path("/var/lib/systemd/linger")
_SCOPE_S = 10.0


def _own_paths() -> dict[str, str]:
    paths: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path.strip("/")
    return paths


def _may_fix_order_of_killing() -> bool:
    cap_sys_resource = 24
    effective = Path("/proc/self/status").read_text().split("CapEff:\t", 1)[1].split("\n", 1)[0]
    return bool(int(effective, 16) >> cap_sys_resource & 1)


def kills_for_memory(cgroup: str | None) -> int:
    """How often the kernel has killed for the memory of the cgroup in this folder."""
    for name in ("memory.events", "memory.oom_control") if cgroup is not None else ():
        with suppress(OSError):
            fields = dict(line.split(" ", 1) for line in Path(f"{cgroup}/{name}").read_text().splitlines())
            return int(fields.get("oom_kill", 0))
    return 0


class MemoryCgroup:
    """A folder in the cgroup tree. Made by `create`; `start` and `killed` may raise OSError."""

    holds_server = False

    def __init__(self, path: Path, former: Path) -> None:
        self.path = path
        self._former = former

    @staticmethod
    def create(name: str) -> MemoryCgroup | None:
        """A new cgroup for the runs of the calling server; None where this user may not make one.

        The caller may find itself moved: to a scope of its user's systemd, or as root on version 1 into the cgroup.
        """
        try:
            own = _own_paths()
            folder = _V1 / own["memory"] if "memory" in own else _V2 / own[""]
            _sweep(folder)
            if "memory" in own:
                return _tried(_FirstVersion(folder / name, folder))
            _sweep(folder.parent)
            return _beside(name, folder) or _in_scope(name, own[""])
        except (OSError, ValueError, KeyError):
            return None

    def join(self) -> None:
        """Move the calling process in, unless it was born there; children that it forks from now on are in as well.

        What it has allocated so far stays with its former cgroup, so a warm server does not eat into a run's limit.
        """
        if self.path.name not in Path("/proc/self/cgroup").read_text():
            self._write("cgroup.procs", "0")

    def settle(self) -> None:
        """Find out whether processes may move in and out, and leave the server where it stays. OSError: they may not."""
        self.start(64, 64)
        self.join()
        if not self.holds_server:
            (self._former / "cgroup.procs").write_text("0")

    def start(self, memory_mb: int, processes: int) -> None:
        """Set the limits of the next run and forget the last one's figures."""
        raise NotImplementedError

    def killed(self) -> bool:
        """Whether the kernel killed a process of this run for memory."""
        raise NotImplementedError

    def peak_mb(self) -> float | None:
        """The highest memory of this run in MB; None where the kernel does not tell."""
        raise NotImplementedError

    def remove(self) -> None:
        """Take the cgroup away; all processes in it, but for the caller, have ended."""
        with suppress(OSError):
            self._take_away()

    def _take_away(self) -> None:
        for attempt in range(20):  # the kernel may hold it for a moment after the last process has ended
            try:
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno != errno.EBUSY or attempt == 19:
                    raise
                time.sleep(0.01)

    def _write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def _kills(self, name: str) -> int:
        fields = dict(line.split(" ", 1) for line in (self.path / name).read_text().splitlines())
        return int(fields.get("oom_kill", 0))


class _FirstVersion(MemoryCgroup):
    """One folder for all runs, since a move costs a run some ten milliseconds; root's server lives in it.

    The kernel then kills a run before its server, whatever the run does. Without the right to fix that order the server
    stays out, and each run moves in by `join`.
    """

    _kills_before = 0

    def settle(self) -> None:
        self.path.mkdir()
        self.holds_server = _may_fix_order_of_killing()
        super().settle()

    def start(self, memory_mb: int, processes: int) -> None:
        limit = str(memory_mb << 20)
        with suppress(OSError):  # the kernel may account no swap; and it must never fall below the limit beside it
            self._write("memory.memsw.limit_in_bytes", "-1")
        self._write("memory.limit_in_bytes", limit)
        with suppress(OSError):
            self._write("memory.memsw.limit_in_bytes", limit)
        self._write("memory.max_usage_in_bytes", "0")
        self._kills_before = self._kills("memory.oom_control")

    def killed(self) -> bool:
        return self._kills("memory.oom_control") > self._kills_before

    def peak_mb(self) -> float | None:
        return int((self.path / "memory.max_usage_in_bytes").read_text()) / (1 << 20)

    def remove(self) -> None:
        with suppress(OSError):
            (self._former / "cgroup.procs").write_text("0")
        super().remove()


class _SecondVersion(MemoryCgroup):
    """A folder that each run has for itself, under the same name: before Linux 6.12 no peak could be reset.

    memory.oom.group stays off: it would kill the box's first process too, which tells exit code and CPU time.
    """

    def start(self, memory_mb: int, processes: int) -> None:
        self._take_away()
        self.path.mkdir()
        self._write("memory.max", str(memory_mb << 20))
        with suppress(OSError):  # no swap, or none accounted
            self._write("memory.swap.max", "0")
        with suppress(OSError):  # limits of the user namespace or the user count them as well
            self._write("pids.max", str(processes + 1))  # and the first process of the box

    def killed(self) -> bool:
        return self._kills("memory.events") > 0

    def peak_mb(self) -> float | None:
        try:
            return int((self.path / "memory.peak").read_text()) / (1 << 20)
        except FileNotFoundError:  # before Linux 5.19
            return None


def _tried(group: MemoryCgroup) -> MemoryCgroup | None:
    try:
        group.settle()
        return group
    except OSError:
        group.remove()
        return None


def _sweep(folder: Path) -> None:
    """Remove what servers left that were killed together with their commands; the kernel keeps what holds processes."""
    for name in os.listdir(folder):
        prefix, _, rest = name.partition("-")
        if prefix == "mletools" and not os.path.exists(f"/proc/{rest.partition('-')[0]}"):
            with suppress(OSError):
                (folder / name).rmdir()


def _let_children_count(folder: Path) -> None:
    for controller in ("+memory", "+pids"):
        with suppress(OSError):  # refused while the folder itself holds processes, unless it is the root of all
            (folder / "cgroup.subtree_control").write_text(controller)


def _beside(name: str, folder: Path) -> MemoryCgroup | None:
    """Below the caller's own folder or beside it: for root, and for whatever the user's own systemd has started."""
    for parent in (folder, folder.parent) if folder != _V2 else (folder,):
        _let_children_count(parent)
        group = _tried(_SecondVersion(parent / name, folder))
        if group is not None:
            return group
    return None


def _in_scope(name: str, path: str) -> MemoryCgroup | None:
    """In a scope of the user's own systemd, to which the caller moves; systemd clears it away when all in it ended."""
    uid = os.geteuid()
    # Outside its own sessions a user's systemd may end at any time, and its scopes with it, unless it lingers.
    lasting = f"user-{uid}.slice" in path.split("/") or (_LINGERING / pwd.getpwuid(uid).pw_name).exists()
    bus = f"/run/user/{uid}/bus"
    if uid == 0 or not lasting or not os.path.exists(bus):
        return None
    manager = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"]
    properties = ["3", "PIDs", "au", "1", str(os.getpid()), "Delegate", "b", "true"]
    properties += ["CollectMode", "s", "inactive-or-failed"]
    call = ["busctl", f"--address=unix:path={bus}", "call", *manager, "StartTransientUnit", "ssa(sv)a(sa(sv))"]
    call += [f"{name}.scope", "fail", *properties, "0"]
    nothing = subprocess.DEVNULL
    try:  # answered before the move is done
        subprocess.run(call, check=True, timeout=_SCOPE_S, stdin=nothing, stdout=nothing, stderr=nothing)
    except subprocess.SubprocessError:
        return None
    end = time.monotonic() + _SCOPE_S
    while not path.endswith(f"/{name}.scope"):
        if time.monotonic() > end:
            return None
        time.sleep(0.005)
        path = _own_paths()[""]
    scope = _V2 / path
    own = scope / "server"  # a folder with processes of its own cannot limit those below it
    own.mkdir()
    (own / "cgroup.procs").write_text("0")
    _let_children_count(scope)
    return _tried(_SecondVersion(scope / f"{name}-run", own))
