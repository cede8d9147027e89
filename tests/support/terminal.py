"""Runs a command on a terminal of some columns."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

from conftest import BIN


def on_terminal(*args: str, cwd: Path | str = ".", columns: int = 80, stderr: bool = False, **env: str) -> bytes:
    """What the command writes to standard output, or to standard error, which is a terminal; it must succeed."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    unset = ("NO_COLOR", "COLUMNS", "MLE_JOBS")
    environment = {**{key: value for key, value in os.environ.items() if key not in unset}, "TERM": "xterm", **env}
    streams = {"stdout": subprocess.DEVNULL, "stderr": follower} if stderr else {"stdout": follower}
    found = b""
    with subprocess.Popen([str(BIN / args[0]), *args[1:]], cwd=cwd, env=environment, **streams) as process:  # type: ignore[call-overload]
        os.close(follower)
        while True:
            try:
                block = os.read(leader, 65536)
            except OSError:  # the terminal's other end is closed
                break
            if not block:
                break
            found += block
    os.close(leader)
    assert process.returncode == 0, found.decode()
    return found
