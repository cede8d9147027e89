"""A memory cgroup for one slot, where this user may make one: version 1 or 2.

Covered: finding the folder, a limit per run, the peak, whether the kernel killed for memory. Not covered: other
controllers, and asking systemd for a delegated folder (`systemd-run --user --scope -p Delegate=yes` gives one).
"""

from __future__ import annotations

import os
import time
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


def _may_fix_order_of_killing() -> bool:
    cap_sys_resource = 24
    effective = Path("/proc/self/status").read_text().split("CapEff:\t", 1)[1].split("\n", 1)[0]
    return bool(int(effective, 16) >> cap_sys_resource & 1)


class MemoryCgroup:
    """A folder in the cgroup tree. Made by `create`; `start` and `killed` may raise OSError."""

    def __init__(self, path: Path, first_version: bool, former: Path) -> None:
        self.path = path
        self.holds_server = False
        self._former = former
        self._v1 = first_version
        self._kills_before = 0
        self._peak = -1

    @classmethod
    def create(cls, name: str) -> MemoryCgroup | None:
        """A new cgroup below the caller's own or beside it; None where this is not allowed.

        Root's server moves in, which saves every run the milliseconds of a move: the kernel then kills a run before its
        server, whatever the run does. Without that right the server stays out, and each run moves in by `join`.
        """
        try:
            own = _own_paths()
        except (OSError, ValueError):
            return None
        if "memory" in own:
            own_folder = _V1 / own["memory"]
            candidates = [(own_folder, True)]
        else:
            own_folder = _V2 / own.get("", "")
            candidates = [(own_folder, False)] + ([(own_folder.parent, False)] if own_folder != _V2 else [])
        for parent, first_version in candidates:
            path = parent / name
            with suppress(OSError):
                if not first_version:
                    with suppress(OSError):  # refused while the parent holds processes; then its neighbour is tried
                        (parent / "cgroup.subtree_control").write_text("+memory")
                path.mkdir()
                group = cls(path, first_version, own_folder)
                try:
                    group.start(64)
                    group.join()
                    group.holds_server = _may_fix_order_of_killing()
                    if not group.holds_server:
                        (own_folder / "cgroup.procs").write_text("0")
                    return group
                except OSError:
                    group.remove()
        return None

    def join(self) -> None:
        """Move the calling process in, and with it the children that it forks from now on.

        What it has allocated so far stays with its former cgroup, so a warm server does not eat into a run's limit.
        """
        (self.path / "cgroup.procs").write_text("0")

    def start(self, memory_mb: int) -> None:
        """Set the limit of the next run and forget the last one's figures."""
        limit = str(memory_mb << 20)
        if self._v1:
            swap = self.path / "memory.memsw.limit_in_bytes"
            with suppress(OSError):  # the kernel may account no swap; and it must never fall below the limit beside it
                swap.write_text("-1")
            (self.path / "memory.limit_in_bytes").write_text(limit)
            with suppress(OSError):
                swap.write_text(limit)
            (self.path / "memory.max_usage_in_bytes").write_text("0")
        else:
            (self.path / "memory.max").write_text(limit)
            with suppress(OSError):
                (self.path / "memory.swap.max").write_text("0")
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
        """Move the caller back to where it was and take the cgroup away; its other processes have ended."""
        with suppress(OSError):
            (self._former / "cgroup.procs").write_text("0")
        if self._peak >= 0:
            os.close(self._peak)
            self._peak = -1
        for _ in range(20):  # the kernel may hold it for a moment after the last process has ended
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.01)
            else:
                return
