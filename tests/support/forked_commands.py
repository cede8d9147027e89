"""Commands in forks of a process that has imported them: what a user runs, without the start of Python each time.

A fork has the arguments, streams, folder and environment of a process of its own, and nothing of the tests. Two such
processes take turns; their strings hash differently, so that two runs which must be equal meet sets in two orders.

Not covered: variables that Python reads at its start (PYTHON...), and what a command imports before it needs it. The
tests of the contract start each command anew.
"""

import contextlib
import functools
import gc
import importlib
import itertools
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# What most commands spend their start on. Ray, torch and transformers read the environment when they are imported.
IMPORTED = (
    "numpy",
    "rich.console",
    "scipy.special",
    "urllib3",
    "mletools.grading",
    "mletools.models.embedding",
    "mletools.models.http",
    "mletools.simulated",
    "mletools.rollout.runner",
    "mletools.grading.grader",
)


# ---- the process that forks


def prepare() -> None:
    """Import the modules, and keep all that out of the forks' garbage collection."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()


def serve(control: socket.socket) -> str:
    """Fork for each request on the socket; returns in the forks, with the path of the command's script."""
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data:
                _report(selector, key)
                continue
            message, streams, _, _ = socket.recv_fds(control, 1 << 20, 4, socket.MSG_CMSG_CLOEXEC)
            if not message:
                os._exit(0)  # the tests have ended
            pid = os.fork()
            if pid == 0:
                selector.close()
                control.close()
                return _become(json.loads(message), streams)
            for stream in streams[:3]:
                os.close(stream)
            os.write(streams[3], b"%d " % pid)
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, streams[3]))


def _report(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Write the exit code of a fork that has ended."""
    pid, status = key.data
    selector.unregister(key.fd)
    os.close(key.fd)
    os.write(status, b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os.close(status)


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> str:
    """Take the streams, folder, environment and arguments of the request."""
    for number, stream in enumerate(streams[:3]):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    script: str = request["args"][0]
    sys.argv = request["args"]
    sys.path[0] = str(Path(script).parent)
    return script


# ---- the side of the tests


class Forker:
    """A process that serves, and ends with this one."""

    def __init__(self, hash_seed: int) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            )

    def run(
        self, args: Sequence[str], input: bytes, cwd: Path | str, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end, as subprocess.run does with captured output."""
        stdin, feed = os.pipe()
        outputs = [os.pipe() for _ in range(3)]
        theirs = [stdin, *(end for _, end in outputs)]
        request = {"args": list(args), "cwd": str(Path(cwd).absolute()), "env": dict(env)}
        socket.send_fds(self._control, [json.dumps(request).encode()], theirs)
        for end in theirs:
            os.close(end)
        stdout, stderr, status = (os.fdopen(end, "rb") for end, _ in outputs)
        with stdout, stderr, status, ThreadPoolExecutor(3) as pool:
            pid = int(b"".join(iter(lambda: status.read(1), b" ")))
            timer = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
            timer.start()
            pool.submit(_feed, feed, input)
            printed, told = pool.map(lambda file: file.read(), (stdout, stderr))
            code = int(status.read())
            timed_out = not timer.is_alive()
            timer.cancel()
        if timed_out:
            raise subprocess.TimeoutExpired(list(args), timeout, printed, told)
        return subprocess.CompletedProcess(list(args), code, printed, told)


def _feed(stream: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(stream, "wb") as file:  # a command need not read all of it
        file.write(content)


@functools.cache
def _forkers() -> Iterator[Forker]:
    return itertools.cycle([Forker(1), Forker(2)])


def run_forked(
    args: Sequence[str], input: bytes, cwd: Path | str, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a fork of the process whose turn it is; args[0] is the path of its script."""
    return next(_forkers()).run(args, input, cwd, env, timeout)


if __name__ == "__main__":
    prepare()
    runpy.run_path(serve(socket.socket(fileno=int(sys.argv[1]))), run_name="__main__")
