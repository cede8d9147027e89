"""The command's side of the warm servers: starts them, sends a run, and follows it to its end.

Covered: wall time and output limits, a server that dies or hangs. Not covered: the inside (`server`, `job`), the
outcome (`verdict`).
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import mletools

from ..base.errors import ToolError
from . import channel, mounts
from .interface import Limits
from .job import NOBODY
from .pool import ServerDied
from .request import RunRequest
from .server import BOOT, TemplateConfig, environment
from .verdict import Observations

_START_S, _SET_UP_S, _END_S, _CGROUP_S = 300.0, 60.0, 60.0, 5.0
_CHUNK = 1 << 16


class SetUpFailed(ToolError):
    """The sandbox could not be set up."""


def _first_message(control: socket.socket) -> tuple[channel.Packet | None, list[int]]:
    return channel.receive(control) if channel.ready([control.fileno()], _START_S) else (None, [])


def output_pipe() -> tuple[int, int]:
    """The ends of a pipe for the output of a run; reading does not block."""
    output, output_end = os.pipe()
    os.set_blocking(output, False)  # a solution can read what poll has announced
    if os.geteuid() == 0:
        os.fchown(output_end, NOBODY, NOBODY)  # so that a solution may open /dev/stdout
    return output, output_end


@contextmanager
def memory_file(name: str, content: bytes) -> Iterator[int]:
    """The descriptor of a file in memory."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield descriptor
    finally:
        os.close(descriptor)


class Template:
    """The process with the imported libraries from which servers are forked. `server`, `close`: from any thread."""

    def __init__(self, plan: mounts.MountPlan, preimport: Sequence[str], cgroup: bool) -> None:
        """Start the process and wait for its imports. ToolError: it cannot be started, or a module fails to import."""
        self._control, server_end = channel.pair()
        self._lock = threading.Lock()
        package = str(Path(mletools.__file__).resolve().parent.parent)
        config: TemplateConfig = {
            "path": [*(path for path in sys.path if path and os.path.isabs(path)), package],
            "command": os.getpid(),
            "preimport": list(preimport),
            "cgroup": cgroup,
            "plan": mounts.plan_text(plan),
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, str(server_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(),
                cwd="/",
                pass_fds=[server_end.fileno()],
                start_new_session=True,
            )
            channel.send(self._control, config)
        except OSError as error:
            self._control.close()
            raise ToolError(f"cannot start a warm server with {sys.executable}: {error}") from error
        finally:
            server_end.close()
        self.pid = self._process.pid
        message, _ = _first_message(self._control)
        if message is None or message["event"] == "failed":
            self.close()
            code = self._process.poll()
            reason = message["why"] if message else f"it ended with code {code} before it was ready"
            raise ToolError(f"the sandbox's warm server does not start: {reason}")
        self.missing: list[str] = message["missing"]
        self.threaded: list[str] = message["threaded"]

    def server(self) -> "WarmServer":
        """A new server. ServerDied: this template has ended."""
        control, server_end = channel.pair()
        try:
            with self._lock:
                channel.send(self._control, {}, [server_end.fileno()])
        except OSError as error:
            control.close()
            raise ServerDied from error
        finally:
            server_end.close()
        return WarmServer(control)

    def close(self) -> None:
        """End the template, but not its servers. May be called twice."""
        with self._lock:
            with suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._control.close()


class WarmServer:
    """One server process, for one thread at a time; `close` may be called from any thread."""

    def __init__(self, control: socket.socket) -> None:
        """Wait until the server at the other end of `control` is ready. ServerDied: it never is."""
        self.control = control
        self._closed = False
        message, handles = _first_message(control)
        if message is None:
            control.close()
            raise ServerDied
        self.pid: int = message["pid"]
        self.cgroup: str | None = message["cgroup"]
        self._handle = handles[0]

    def run(self, code: bytes, request: RunRequest, seen: Observations) -> dict[str, bool]:
        """Do one run to its end, recorded in `seen`, which the caller closes.

        Returns the active protections if `request` asks for a probe. ServerDied: the server ended or hung.
        SetUpFailed: the sandbox could not be set up. OSError: this machine is short of descriptors or memory.
        """
        with ExitStack() as stack:
            stdout, stdout_end = output_pipe()
            stderr, stderr_end = output_pipe()
            follower = _Follower(self.control, stdout, stderr, request.limits, seen)
            stack.callback(follower.close)
            with ExitStack() as sent:
                for descriptor in (stdout_end, stderr_end):
                    sent.callback(os.close, descriptor)
                script = sent.enter_context(memory_file("solution", code))
                self.ask(request, [script, stdout_end, stderr_end])
            follower.follow()
            return follower.protections

    def ask(self, request: RunRequest, descriptors: Sequence[int]) -> None:
        """Send a run or session with its `descriptors`. ServerDied: the server has ended."""
        with memory_file("request", request.content()) as asked:
            self.order({"run": True}, [asked, *descriptors])

    def order(self, message: channel.Packet, descriptors: Sequence[int] = ()) -> None:
        """Send `message`. ServerDied: the server has ended."""
        try:
            channel.send(self.control, message, descriptors)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ServerDied from error

    def close(self) -> None:
        """End the server and its run; fast when it is idle. May be called twice."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)
        if not channel.ready([self._handle], 5.0):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            channel.ready([self._handle], _END_S)
        os.close(self._handle)
        self.control.close()
        self._remove_cgroup()

    def _remove_cgroup(self) -> None:
        # A server that was killed leaves it; its last processes take a moment to end.
        end = time.monotonic() + _CGROUP_S
        while self.cgroup is not None and os.path.isdir(self.cgroup) and time.monotonic() < end:
            with suppress(OSError):
                os.rmdir(self.cgroup)
            time.sleep(0.01)


class _Follower:
    """Reads a run's output and the server's events until its end."""

    def __init__(self, control: Any, stdout: int, stderr: int, limits: Limits, seen: Observations) -> None:
        self._control = control
        self._limits = limits
        self._pieces: dict[int, bytearray] = {stdout: bytearray(), stderr: bytearray()}
        self._streams = (stdout, stderr)
        self._open = set(self._streams)
        self._deadline = time.monotonic() + _SET_UP_S
        self._failure: str | None = None
        self.seen = seen
        self.protections: dict[str, bool] = {}

    def follow(self) -> None:
        over = False
        while not over:
            control = self._control.fileno()
            if control < 0:  # closed with the whole sandbox
                raise ServerDied
            ready = channel.ready([control, *self._open], self._deadline - time.monotonic())
            if not ready and time.monotonic() >= self._deadline:
                self._out_of_time()
            for stream in self._open & ready:
                self._read(stream)
            if control in ready:
                over = self._event()
        for stream in tuple(self._open):
            self._drain(stream)
        if self._failure is not None:
            raise SetUpFailed(f"cannot make a sandbox: {self._failure}")
        cap = self._limits.output_kb << 10
        self.seen.stdout, self.seen.stderr = (bytes(self._pieces[stream][:cap]) for stream in self._streams)

    def _event(self) -> bool:
        message, descriptors = channel.receive(self._control)
        if message is None:
            raise ServerDied
        event = message["event"]
        self.seen.note(message, descriptors)
        if event == "started":
            self.protections = message["protections"]
            self._deadline = message["at"] + self._limits.wall_s
        elif event == "exit":
            self._deadline = time.monotonic() + _END_S
        elif event == "failed":
            self._failure = message["why"]
        elif event == "ended":
            if self.seen.started is None and self._failure is None:
                self._failure = "its first process ended before the solution began"
            return True
        return False

    def _out_of_time(self) -> None:
        running = self.seen.started is not None and self.seen.code is None and self.seen.stopped_for is None
        if not running:
            raise ServerDied
        self._stop("timeout")

    def _stop(self, reason: Literal["timeout", "output"]) -> None:
        if self.seen.stopped_for is None and self.seen.code is None:
            self.seen.stopped_for = reason
            self._deadline = time.monotonic() + _END_S
            with suppress(BrokenPipeError, ConnectionResetError):
                channel.send(self._control, {"kill": True})

    def _read(self, stream: int) -> None:
        try:
            piece = os.read(stream, _CHUNK)
        except BlockingIOError:
            return
        kept = self._pieces[stream]
        kept += piece
        too_much = len(kept) > self._limits.output_kb << 10
        if too_much:
            # Stop reading before the writer is killed: a full pipe must not block it.
            if self.seen.code is not None and self.seen.stopped_for is None:
                self.seen.stopped_for = "output"
            self._stop("output")
        if too_much or not piece:
            os.close(stream)
            self._open.discard(stream)

    def _drain(self, stream: int) -> None:
        while stream in self._open and channel.ready([stream], 0):
            self._read(stream)

    def close(self) -> None:
        """Close the readers of the output."""
        for stream in tuple(self._open):
            os.close(stream)
            self._open.discard(stream)
