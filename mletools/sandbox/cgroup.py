"""A memory cgroup for one slot, where this user may make one: version 1 or 2.

Covered: finding the folder, a limit per run, the peak, whether the kernel killed for memory. Not covered: other controllers,
and asking systemd for a delegated folder (`systemd-run --user --scope -p Delegate=yes` gives one).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


def _own_paths() -> dict[str, str]:
    paths: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path.strip("/")
    return paths


class MemoryCgroup:
    """A folder in the cgroup tree. Made by `create`; every method may raise OSError."""

    def __init__(self, path: Path, first_version: bool) -> None:
        self.path = path
        self._v1 = first_version
        self._kills_before = 0
        self._peak = -1

    @classmethod
    def create(cls, name: str) -> MemoryCgroup | None:
        """A new cgroup below the caller's own or beside it; None where the kernel or the rights do not allow one."""
        try:
            own = _own_paths()
        except (OSError, ValueError):
            return None
        if "memory" in own:
            candidates = [(_V1 / own["memory"], True)]
        else:
            below = _V2 / own.get("", "")
            candidates = [(below, False), (below.parent, False)] if below != _V2 else [(below, False)]
        for parent, first_version in candidates:
            path = parent / name
            with suppress(OSError):
                if not first_version:
                    with suppress(OSError):  # refused while the parent holds processes; then its neighbour is tried
                        (parent / "cgroup.subtree_control").write_text("+memory")
                path.mkdir()
                group = cls(path, first_version)
                try:
                    group.start(64)
                    group.try_joining()
                    return group
                except OSError:
                    group.remove()
        return None

    def try_joining(self) -> None:
        """OSError when a child of the caller cannot move in."""
        child = os.fork()
        if child == 0:
            code = 1
            with suppress(BaseException):
                self.join()
                code = 0
            os._exit(code)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
            raise PermissionError(f"cannot move a process into {self.path}")

    def join(self) -> None:
        """Move the calling process in."""
        (self.path / "cgroup.procs").write_text("0")

    def start(self, memory_mb: int) -> None:
        """Set the limit of the next run and forget the last one's figures."""
        limit = str(memory_mb << 20)
        if self._v1:
            swap = self.path / "memory.memsw.limit_in_bytes"
            with suppress(OSError):  # the kernel may account no swap; and it must never fall below the limit beside it
                swap.write_text("-1")
            with suppress(OSError):  # frees what the last run left in caches; not needed for the limit to hold
                (self.path / "memory.force_empty").write_text("0")
            (self.path / "memory.limit_in_bytes").write_text(limit)
            with suppress(OSError):
                swap.write_text(limit)
            (self.path / "memory.max_usage_in_bytes").write_text("0")
        else:
            (self.path / "memory.max").write_text(limit)
            for name, text in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                with suppress(OSError):
                    (self.path / name).write_text(text)
            self._start_peak()
        self._kills_before = self._kills()

    def _start_peak(self) -> None:
        # From Linux 6.12 on, a write resets the peak for readers of the same descriptor.
        if self._peak < 0:
            with suppress(OSError):
                self._peak = os.open(self.path / "memory.peak", os.O_RDWR | os.O_CLOEXEC)
        if self._peak >= 0:
            try:
                os.write(self._peak, b"reset\n")
            except OSError:
                os.close(self._peak)
                self._peak = -1

    def _kills(self) -> int:
        text = (self.path / ("memory.oom_control" if self._v1 else "memory.events")).read_text()
        fields = dict(line.split(" ", 1) for line in text.splitlines())
        return int(fields.get("oom_kill", 0))

    def killed(self) -> bool:
        """Whether the kernel killed a process of this run for memory."""
        return self._kills() > self._kills_before

    def peak_mb(self) -> float | None:
        """The highest memory of this run in MB; None where the kernel does not tell it for one run."""
        if self._v1:
            return int((self.path / "memory.max_usage_in_bytes").read_text()) / (1 << 20)
        return int(os.pread(self._peak, 64, 0)) / (1 << 20) if self._peak >= 0 else None

    def remove(self) -> None:
        """Take the cgroup away; its processes have ended."""
        if self._peak >= 0:
            os.close(self._peak)
            self._peak = -1
        with suppress(FileNotFoundError):
            self.path.rmdir()
