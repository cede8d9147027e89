"""Processes and folders that a run leaves where no namespace takes them away, and the memory that its processes hold.

Covered: descendants by /proc, their memory, killing them, removing a folder that a solution has made hard to remove.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def descendants(pid: int) -> list[int]:
    """Children of `pid`, their children and so on, as /proc shows them now."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                children += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return children


def memory_mb(pid: int, enough_mb: float) -> float:
    """MB that `pid`'s descendants hold: a quick upper bound, shared pages apportioned once it passes `enough_mb`."""
    tree = descendants(pid)
    resident = 0
    for member in tree:
        with suppress(OSError, ValueError, IndexError):
            resident += int(Path(f"/proc/{member}/statm").read_text().split()[1]) * _PAGE
    if resident / (1 << 20) <= enough_mb:
        return resident / (1 << 20)
    return sum(map(_apportioned_mb, tree))


def _apportioned_mb(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
        return 0.0
    except ProcessLookupError:
        return 0.0
    except OSError:
        with suppress(OSError, ValueError, IndexError):
            _, resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[:3]
            return (int(resident) - int(shared)) * _PAGE / (1 << 20)
        return 0.0


def kill_descendants(pid: int) -> None:
    """SIGKILL to every descendant of `pid`; stopped first, so that none forks while the others are being found."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for member in descendants(pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(member, number)


def remove_folder(folder: str) -> None:
    """Remove `folder` with all in it, whatever modes a solution gave to its files; its processes are gone."""
    # Not shutil.rmtree: it recurses, and a solution can nest folders deeper than Python's stack.
    for command in (["chmod", "-R", "u+rwx", "--", folder], ["rm", "-rf", "--", folder]):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
