"""Commands that are stopped in the middle, and whether anything of them is left."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from conftest import BIN

from mletools.sandbox.process_tree import descendants

FAULTS = ["429@0", "500", "drop", "truncated", "", "html", "reset", "cut", "503@0", "", "odd-ids", "empty", "nan"]


def stopped(line: list[str], folder: Path, until: Callable[[], bool], number: int) -> tuple[int, set[int], bytes]:
    """Start the command and send it a signal once `until` holds; (exit code, the processes it had, what it said)."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MLE_")}
    process = subprocess.Popen(
        [str(BIN / line[0]), *line[1:]], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    end = time.monotonic() + 60
    while process.poll() is None and not until() and time.monotonic() < end:
        time.sleep(0.005)
    family = set(descendants(process.pid)) if process.poll() is None else set()
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    return process.returncode, family, told


def gone(family: set[int]) -> bool:
    """Whether the processes end within a while."""
    end = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < end:
        time.sleep(0.05)
    return not [pid for pid in family if Path(f"/proc/{pid}").exists()]
