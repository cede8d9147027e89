"""Processes and folders that a run leaves where no namespace takes them away.

Covered: descendants by /proc, killing them, removing a folder that a solution has made hard to remove.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Children of `pid`, their children and so on, as /proc shows them now."""
    pids: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        pids += children
        waiting += children
    return pids


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                children += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return children


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
