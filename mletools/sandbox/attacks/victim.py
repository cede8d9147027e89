"""A process outside the sandbox that attacks may try to signal, stop, trace, read or write to."""

import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

_LIFETIME_S = 600  # of a victim that nobody ends


class Victim:
    """A sleeping process with the answers as stdin; its other streams go to `output`."""

    def __init__(self, answers: Path, output: Path) -> None:
        self._answers, self._output = answers, output
        self.start()

    def start(self) -> None:
        # A blocked signal stays pending, where this process can see it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with open(self._answers, "rb") as answers, open(self._output, "wb") as output:
                self.command = ["sleep", f"{_LIFETIME_S}.{secrets.randbelow(10**9):09}"]
                self._process = subprocess.Popen(
                    self.command,
                    stdin=answers,
                    stdout=output,
                    stderr=output,
                    cwd=self._answers.parent,
                    start_new_session=True,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self.pid = self._process.pid

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def harm(self) -> Iterator[str]:
        """What was done to the process so far."""
        if self._output.stat().st_size:
            yield "wrote to another process's output"
        if self._process.poll() is not None:
            yield "killed another process"
            return
        with open(f"/proc/{self.pid}/status") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        if status["State"][0] in "Tt":
            yield "stopped another process"
        if status["TracerPid"] != "0":
            yield "traces another process"
        if any(int(status[name], 16) for name in ("SigPnd", "ShdPnd")):
            yield "sent a signal to another process"
