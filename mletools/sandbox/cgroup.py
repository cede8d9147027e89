"""A memory cgroup for one slot, if this user may create one: version 1 or 2.

Covered: finding the folder, limits per run, peak memory, whether the kernel killed for memory; on version 2 a new
folder for every run, or a scope of the user's systemd if no existing folder is usable. Not covered: other controllers;
a limit of the caller's own cgroup, which does not apply to a sibling.
"""

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


def _read_kills(path: Path) -> int:
    return int(dict(line.split(" ", 1) for line in path.read_text().splitlines()).get("oom_kill", 0))


def memory_kills(cgroup: str | None) -> int:
    """How often the kernel has killed a process for the memory of the cgroup at this path; 0 if it does not exist."""
    for name in ("memory.events", "memory.oom_control") if cgroup is not None else ():
        with suppress(OSError):
            return _read_kills(Path(f"{cgroup}/{name}"))
    return 0


class MemoryCgroup:
    """A folder in the cgroup tree, made by `create`. `start` and `killed` may raise OSError."""

    holds_server = False

    def __init__(self, path: Path, former: Path) -> None:
        self.path = path
        self._former = former

    @staticmethod
    def create(name: str) -> "MemoryCgroup | None":
        """A new cgroup for the runs of the calling server; None if this user may not create one.

        May move the caller: to a scope of its user's systemd, or as root on version 1 into the cgroup.
        """
        try:
            own = _own_paths()
            folder = _V1 / own["memory"] if "memory" in own else _V2 / own[""]
            _sweep(folder)
            if "memory" in own:
                return _settled(_FirstVersion(folder / name, folder))
            _sweep(folder.parent)
            return _near(name, folder) or _in_scope(name, own[""])
        except (OSError, ValueError, KeyError):
            return None

    def join(self) -> None:
        """Move the calling process into the cgroup; its later children inherit it.

        Memory it has allocated stays with its former cgroup, so a warm server does not count towards a run's limit.
        """
        if self.path.name not in Path("/proc/self/cgroup").read_text():
            self._write("cgroup.procs", "0")

    def settle(self) -> None:
        """Test whether processes may move in and out, and place the server. OSError: they may not."""
        self.start(64, 64)
        self.join()
        if not self.holds_server:
            (self._former / "cgroup.procs").write_text("0")

    def start(self, memory_mb: int, processes: int) -> None:
        """Set the limits of the next run and reset the counters."""
        raise NotImplementedError

    def killed(self) -> bool:
        """Whether the kernel killed a process of this run for memory."""
        raise NotImplementedError

    def peak_mb(self) -> float | None:
        """The peak memory of this run in MB; None if the kernel does not record it."""
        raise NotImplementedError

    def remove(self) -> None:
        """Remove the cgroup; all processes in it but the caller have ended."""
        with suppress(OSError):
            self._remove()

    def _remove(self) -> None:
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


class _FirstVersion(MemoryCgroup):
    """One folder for all runs, because a move costs about ten milliseconds; root's server stays in it.

    Its OOM scores make the kernel kill a run before its server. Without the right to set them the server stays outside,
    and each run moves in by `join`.
    """

    _kills_before = 0

    def settle(self) -> None:
        self.path.mkdir()
        self.holds_server = _may_fix_order_of_killing()
        super().settle()

    def start(self, memory_mb: int, processes: int) -> None:
        limit = str(memory_mb << 20)
        with suppress(OSError):  # swap may not be counted; this limit may never be below the one of memory
            self._write("memory.memsw.limit_in_bytes", "-1")
        self._write("memory.limit_in_bytes", limit)
        with suppress(OSError):
            self._write("memory.memsw.limit_in_bytes", limit)
        self._write("memory.max_usage_in_bytes", "0")
        self._kills_before = _read_kills(self.path / "memory.oom_control")

    def killed(self) -> bool:
        return _read_kills(self.path / "memory.oom_control") > self._kills_before

    def peak_mb(self) -> float | None:
        return int((self.path / "memory.max_usage_in_bytes").read_text()) / (1 << 20)

    def remove(self) -> None:
        with suppress(OSError):
            (self._former / "cgroup.procs").write_text("0")
        super().remove()


class _SecondVersion(MemoryCgroup):
    """A new folder of the same name for each run: before Linux 6.12 the peak cannot be reset.

    memory.oom.group stays off: it would also kill the first process, which reports exit code and CPU time.
    """

    def start(self, memory_mb: int, processes: int) -> None:
        self._remove()
        self.path.mkdir()
        self._write("memory.max", str(memory_mb << 20))
        with suppress(OSError):  # no swap, or it is not counted
            self._write("memory.swap.max", "0")
        with suppress(OSError):  # RLIMIT_NPROC limits them as well
            self._write("pids.max", str(processes + 1))  # plus the first process

    def killed(self) -> bool:
        return _read_kills(self.path / "memory.events") > 0

    def peak_mb(self) -> float | None:
        try:
            return int((self.path / "memory.peak").read_text()) / (1 << 20)
        except FileNotFoundError:  # before Linux 5.19
            return None


def _settled(group: MemoryCgroup) -> MemoryCgroup | None:
    try:
        group.settle()
        return group
    except OSError:
        group.remove()
        return None


def _sweep(folder: Path) -> None:
    """Remove the cgroups of servers that were killed with their commands; the kernel keeps those with processes."""
    for name in os.listdir(folder):
        prefix, _, rest = name.partition("-")
        if prefix == "mletools" and not os.path.exists(f"/proc/{rest.partition('-')[0]}"):
            with suppress(OSError):
                (folder / name).rmdir()


def _enable_controllers(folder: Path) -> None:
    for controller in ("+memory", "+pids"):
        with suppress(OSError):  # refused while the folder holds processes, unless it is the root
            (folder / "cgroup.subtree_control").write_text(controller)


def _near(name: str, folder: Path) -> MemoryCgroup | None:
    """Below the caller's own cgroup or next to it: for root, and for processes of the user's systemd."""
    for parent in (folder, folder.parent) if folder != _V2 else (folder,):
        _enable_controllers(parent)
        group = _settled(_SecondVersion(parent / name, folder))
        if group is not None:
            return group
    return None


def _in_scope(name: str, path: str) -> MemoryCgroup | None:
    """In a new scope of the user's systemd, to which the caller moves; systemd removes it when it is empty."""
    uid = os.geteuid()
    # Without a login session or lingering, the user's systemd may end at any time, and its scopes with it.
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
    try:  # returns before the move is done
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
    own = scope / "server"  # a folder that holds processes cannot limit its subfolders
    own.mkdir()
    (own / "cgroup.procs").write_text("0")
    _enable_controllers(scope)
    return _settled(_SecondVersion(scope / f"{name}-run", own))
