"""The warm server: a process with imported libraries that forks a child for every run, one at a time.

It is a fork of a template, which starts with an empty environment, imports the libraries once and forks a server for
every control socket that it receives. Through that socket the command sends a run (the descriptors of the request, the code,
stdout and stderr, for a session also of its socket) and may send `{"kill": true}` or, to a session, `{"interrupt":
true}`. It receives the events `ready`, `work` (descriptors of the work folder and its disk), `started`, `interrupted`,
`exit` (all from the first process), `failed`, and finally `ended`. Covered: killing, measuring CPU time and memory,
ending with the command. Not covered: time and output limits (`warm`). The server never reads code or output, so no run
can find another's in its memory.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypedDict

from . import channel, linux, mounts
from .cgroup import MemoryCgroup
from .held import hold
from .job import SolutionJob, enter, fork_first
from .memory_watch import MemoryWatch
from .preimport import warm_up
from .probe import surroundings
from .process_tree import kill_descendants, remove_folder
from .request import RunRequest, read_request

_WATCH_S = 0.05
_ORDERLY_END_S = 5.0
_NEARLY_ALL = 0.98  # of the limit, in processes that are looked at: what fails there has met it

BOOT = (
    "import json, os, socket, sys\n"
    "end = socket.fromfd(int(sys.argv[1]), socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
    "config = json.loads(end.recv(1 << 18, socket.MSG_PEEK))\n"
    "sys.path[:] = config['path']\n"
    "from mletools.sandbox.interpreter import start_read_only\n"
    "start_read_only()\n"
    "end.recv(1)\n"
    "end.close()\n"
    "from mletools.sandbox.server import keep_warm\n"
    "keep_warm(int(sys.argv[1]), config)()\n"
)


def environment() -> dict[str, str]:
    """The environment of a template, which solutions inherit."""
    folders = [os.path.join(sys.prefix, "bin"), "/usr/local/bin", "/usr/bin", "/bin"]
    environment = {"PATH": ":".join(folders), "HOME": mounts.HOME, "TMPDIR": mounts.TEMPORARY, "LANG": "C.UTF-8"}
    environment["PYTHONHASHSEED"] = "0"
    # Threads that spin while waiting take seconds for milliseconds of work on shared cores.
    environment["OMP_WAIT_POLICY"] = "PASSIVE"
    environment.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")})
    return environment


class TemplateConfig(TypedDict):
    """What a template is started with."""

    path: list[str]  # its sys.path
    command: int  # process id
    preimport: list[str]
    cgroup: bool  # whether servers want memory cgroups
    plan: str  # mounts.plan_text


def keep_warm(control: int, config: TemplateConfig) -> Callable[[], None]:
    """Run the template until the command ends. Returns only in a solution's process, with the solution to call."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # Ray's worker processes block SIGINT
    end = socket.socket(fileno=control)
    end.set_inheritable(False)
    command = os.pidfd_open(config["command"])
    if os.getppid() != config["command"]:
        os._exit(0)
    hold()
    try:
        missing, threaded = warm_up(config["preimport"])
    except BaseException as error:
        channel.send(end, {"event": "failed", "why": f"{type(error).__name__}: {error}"})
        os._exit(1)
    channel.send(end, {"event": "ready", "missing": missing, "threaded": threaded})
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies of servers
    while True:
        _wait_for_work(end, command, None)
        message, descriptors = channel.receive(end)
        if message is None:
            os._exit(0)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            end.close()
            return _serve(socket.socket(fileno=descriptors[0]), command, config)
        os.close(descriptors[0])


def _serve(end: socket.socket, command: int, config: TemplateConfig) -> Callable[[], None]:
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    cgroup = MemoryCgroup.create(f"mletools-{os.getpid()}-{time.time_ns()}") if config["cgroup"] else None
    plan = mounts.read_plan(config["plan"])
    handle = os.pidfd_open(os.getpid())
    channel.send(end, {"event": "ready", "pid": os.getpid(), "cgroup": str(cgroup.path) if cgroup else None}, [handle])
    os.close(handle)
    outside = surroundings()
    while True:
        _wait_for_work(end, command, cgroup)
        message, descriptors = channel.receive(end)
        if message is None:
            _leave(cgroup)
        elif descriptors:
            asked, *descriptors = descriptors
            request = read_request(os.pread(asked, os.fstat(asked).st_size, 0))
            os.close(asked)
            if cgroup is not None:
                cgroup.start(request.limits.memory_mb, request.limits.processes)
            if request.landlock:
                _ = plan.readable  # once, not in every run
            uid, gid = os.geteuid(), os.getegid()
            alive, living = os.pipe()
            watch = _Watch(end, command, request, cgroup)
            try:
                child = fork_first(request.namespaces)
            except OSError as error:
                child = None
                channel.send(end, {"event": "failed", "why": str(error)})
            if child == 0:
                os.close(living)
                code, stdout, stderr, *cells = descriptors
                job = SolutionJob(end, request, code, stdout, stderr, alive, plan, cgroup, outside, *cells)
                return enter(job, uid, gid)
            for descriptor in (*descriptors, alive):
                os.close(descriptor)
            watch.run(child)
            os.close(living)


def _wait_for_work(end: socket.socket, command: int, cgroup: MemoryCgroup | None) -> None:
    if command in channel.ready([end.fileno(), command], None):
        _leave(cgroup)


def _leave(cgroup: MemoryCgroup | None) -> None:
    if cgroup is not None:
        with suppress(OSError):
            cgroup.remove()
    os._exit(0)


class _Watch:
    """Watches one run, from the fork until the last process is reaped and counted."""

    def __init__(self, end: socket.socket, command: int, request: RunRequest, cgroup: MemoryCgroup | None) -> None:
        self._end, self._command, self._request, self._cgroup = end, command, request, cgroup
        self._cpu_s = 0.0
        self._peak_mb = 0.0
        self._over_memory = False
        self._orphaned = False  # the command has ended
        self._pid = 0

    def run(self, pid: int | None) -> None:
        if pid is not None:
            self._pid = pid
            self._follow()
        self._reap_all()
        peak = self._peak_mb
        killed_for_memory = self._over_memory or peak >= _NEARLY_ALL * self._request.limits.memory_mb
        if self._cgroup is not None:  # whose peak counts files' pages, too, also those of earlier runs
            killed_for_memory = self._cgroup.killed()
            counted = self._cgroup.peak_mb()
            peak = peak if counted is None else counted
        if self._orphaned:
            if self._request.folder:
                remove_folder(self._request.folder)
            _leave(self._cgroup)
        ended: channel.Packet = {"event": "ended", "at": time.monotonic(), "cpu_s": self._cpu_s, "peak_mb": peak}
        ended["memory"] = killed_for_memory
        with suppress(BrokenPipeError):  # the next wait notices that the command has ended
            channel.send(self._end, ended)

    def _follow(self) -> None:
        handle = os.pidfd_open(self._pid)
        memory = MemoryWatch(os.getpid(), self._pid, self._request.limits.memory_mb)
        interval = None if self._cgroup is not None and self._request.namespaces else _WATCH_S
        try:
            while True:
                ready = channel.ready([handle, self._end.fileno(), self._command], interval)
                if handle in ready:
                    return
                message = channel.receive(self._end)[0] if self._end.fileno() in ready else {}
                self._orphaned = self._command in ready or message is None
                if message and "interrupt" in message:
                    os.kill(self._pid, signal.SIGUSR1)  # not reaped yet, so the pid is still valid
                elif message or self._orphaned:
                    self._end_run(handle)
                    return
                if self._cgroup is None:
                    self._check_memory(handle, memory)
        finally:
            os.close(handle)

    def _end_run(self, handle: int) -> None:
        if not self._orphaned:
            os.kill(self._pid, signal.SIGTERM)  # the first process then ends and counts all others
            if channel.ready([handle], _ORDERLY_END_S):
                return
        os.kill(self._pid, signal.SIGKILL)
        channel.ready([handle], None)

    def _check_memory(self, handle: int, memory: MemoryWatch) -> None:
        limit = self._request.limits.memory_mb
        used = memory.look()
        if used > limit:
            self._over_memory = True
            self._peak_mb = used
            self._end_run(handle)

    def _reap_all(self) -> None:
        while True:
            kill_descendants(os.getpid())
            try:
                self._account(*os.wait4(-1, 0)[1:])
            except ChildProcessError:
                return

    def _account(self, status: int, usage: Any) -> None:
        self._cpu_s += usage.ru_utime + usage.ru_stime
        self._peak_mb = max(self._peak_mb, usage.ru_maxrss / 1024)
