"""Cleans up after runs without namespaces: kills descendants, and removes folders with odd modes or great depth."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """The children of `pid`, their children and so on, from /proc."""
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
    """Stop every descendant of `pid`, so that none forks meanwhile, then kill them."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for descendant in descendants(pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(descendant, number)


def remove_folder(folder: str) -> None:
    """Remove `folder` and its content, whatever their modes; the processes of the run have ended."""
    # Not shutil.rmtree: a solution can nest folders deeper than Python's stack.
    for command in (["chmod", "-R", "u+rwx", "--", folder], ["rm", "-rf", "--", folder]):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
