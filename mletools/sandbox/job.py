"""The processes of one run, from the fork of the warm server to the solution's first line.

The first process is pid 1 of new namespaces; it builds the root and reaps. Its child applies all restrictions to
itself and becomes the solution, or the interpreter of a session. Without namespaces the first process is an ordinary
supervisor, and Landlock restricts files. Covered: the order of these steps; a step that fails is reported, never
skipped. Not covered: watching the run (`server`).
"""

import fcntl
import json
import math
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from . import channel, landlock, linux, mounts, seccomp
from .cgroup import MemoryCgroup
from .interface import Limits
from .probe import active_protections, prepare_probe
from .request import RunRequest
from .session_driver import attend, attend_cold
from .solution import launch, launch_cold, prepare
from .weights import NAME as WEIGHTS
from .weights import variables

NOBODY = 65534
_INNER_ID = 1000
_OPEN_FILES = 4096
_OPEN_FILES_UNCOUNTED = 1024  # as many again may be in flight in sockets, where the memory watch cannot see them
_SIGNALS = 1024  # queued signals and timers; all runs of a user share some ten thousand
_WATCHED_NICE = 15  # without a memory cgroup: many processes must not keep the watch of their memory from running
# joblib asks them how many processors it may use, and fails where they are there and cannot be opened.
_PROCESSOR_LIMITS = [f"/sys/fs/cgroup/{name}" for name in ("cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")]
_READY, _CELLS = 3, 4  # descriptors in the solution's process
_GO = b"go"
_NAMESPACES = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS


@dataclass
class SolutionJob:
    """One run, as received by the server."""

    control: socket.socket  # to the command; closed in the solution
    request: RunRequest
    code: int  # descriptor of the solution's source
    stdout: int
    stderr: int
    alive: int  # closed when the server dies
    plan: mounts.MountPlan
    cgroup: MemoryCgroup | None
    outside: dict[str, str]  # the server's namespaces and root folder
    cells: int = -1  # a session's socket; -1 for a run


def fail(job: SolutionJob, error: BaseException) -> None:
    """Report to the command that the sandbox could not be set up, and end this process."""
    with suppress(OSError):
        channel.send(job.control, {"event": "failed", "why": f"{type(error).__name__}: {error}"})
    os._exit(1)


def fork_first(namespaces: bool) -> int:
    """Fork the first process of a run; 0 in the child. OSError: the kernel refuses namespaces."""
    if not namespaces:
        return os.fork()
    # Root sets up with its own rights, so data may be unreadable for others; the solution loses these rights.
    return linux.fork_into(_NAMESPACES if os.geteuid() == 0 else _NAMESPACES | linux.CLONE_NEWUSER)


def enter(job: SolutionJob, uid: int, gid: int) -> Callable[[], None]:
    """Runs in the first process, forked by a server of user `uid` and group `gid`.

    Returns in the solution's process only, with the solution to call.
    """
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.setsid()
        os.umask(0o022)
        if job.cgroup is not None and not job.cgroup.holds_server:
            job.cgroup.join()
        if job.request.namespaces and uid != 0:
            linux.map_user(uid, gid, _INNER_ID)
        # The first victim when memory runs out; set early, so that a solution cannot undo what root set.
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
        if job.request.probe:
            prepare_probe()
        return _first_process(job, uid == 0)
    except BaseException as error:
        fail(job, error)
        raise


def _first_process(job: SolutionJob, root: bool) -> Callable[[], None]:
    limits = job.request.limits
    code = os.pread(job.code, os.fstat(job.code).st_size, 0)
    if job.request.namespaces:
        socket.sethostname("box")
        own = (lambda path: os.chown(path, NOBODY, NOBODY)) if root else (lambda path: None)
        seen = job.request.public, job.request.weights, code
        shown = job.request.device.nodes, job.request.device.unseen
        work, disk = mounts.build_root(job.plan, *seen, limits.disk_mb, job.request.shared_mb, own, *shown)
        if job.request.loopback:
            linux.raise_loopback()
        paths = {"work": mounts.WORK, "home": mounts.HOME, "tmp": mounts.TEMPORARY, "code": mounts.CODE}
    else:
        folder = job.request.folder
        if folder is None:
            raise ValueError("a run without namespaces needs a folder")
        paths = {name: f"{folder}/{name}" for name in ("work", "home", "tmp", "code")}
        work, disk = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (paths["work"], folder))
    if root:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    _die_with_server(job)  # the change of user would undo it
    channel.send(job.control, {"event": "work"}, [work, disk])
    os.close(work)
    os.close(disk)
    ready, child_end = socket.socketpair()
    child = os.fork()
    if child == 0:
        return _solution_process(job, paths, child_end.detach())
    child_end.close()
    _reap(job, child, ready)
    raise AssertionError  # not reached: _reap ends the process


def _die_with_server(job: SolutionJob) -> None:
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    poll = select.poll()
    poll.register(job.alive, 0)
    if poll.poll(0):  # the server died before the prctl
        os._exit(1)


def _reap(job: SolutionJob, child: int, ready: socket.socket) -> None:
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    if job.request.namespaces:
        linux.drop_capabilities()
    for descriptor in (job.stdout, job.stderr, job.code, job.cells):
        if descriptor >= 0:
            os.close(descriptor)
    with ready.makefile("rb") as file:
        report = json.loads(file.read() or b'{"why": "the process ended during its set-up"}')
    if "why" in report:
        channel.send(job.control, {"event": "failed", "why": report["why"]})
        os._exit(1)
    ended = False

    def kill_all(*_: object) -> None:
        # Before pid 1 ends, so that it reaps and counts them; the kernel does not count those that it kills itself.
        if not ended:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(child, signal.SIGKILL)
        if job.request.namespaces:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)

    def interrupt(*_: object) -> None:
        if not ended:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGINT)
        channel.send(job.control, {"event": "interrupted"})

    signal.signal(signal.SIGTERM, kill_all)
    if job.cells >= 0:
        signal.signal(signal.SIGUSR1, interrupt)
        signal.signal(signal.SIGALRM, kill_all)
        signal.setitimer(signal.ITIMER_REAL, job.request.limits.wall_s)  # the server does not check it between cells
    channel.send(job.control, {"event": "started", "at": time.monotonic(), "protections": report["protections"]})
    with suppress(OSError):  # it was killed meanwhile
        ready.send(_GO)
    ready.close()
    pid = 0
    while pid != child:
        pid, status = os.waitpid(-1, 0)
    ended = True
    code = os.waitstatus_to_exitcode(status)
    channel.send(job.control, {"event": "exit", "at": time.monotonic(), "code": code})
    if job.request.namespaces:
        kill_all()
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
    os._exit(0)


def _solution_process(job: SolutionJob, paths: dict[str, str], ready: int) -> Callable[[], None]:
    try:
        os.setsid()
        if job.cgroup is None:
            os.nice(_WATCHED_NICE)
        job.control.detach()
        kept = _CELLS if job.cells >= 0 else _READY
        if job.cells >= 0:
            job.cells = fcntl.fcntl(job.cells, fcntl.F_DUPFD, 10)  # keeps the numbers below free
            ready = fcntl.fcntl(ready, fcntl.F_DUPFD, 10)
        for number, descriptor in ((1, job.stdout), (2, job.stderr)):
            os.dup2(descriptor, number)
        os.dup2(ready, _READY)
        if job.cells >= 0:
            os.dup2(job.cells, _CELLS)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > kept:
                with suppress(OSError):
                    os.close(int(name))
        os.chdir(paths["work"])
        limits = job.request.limits
        _set_environment(paths, limits.threads, job.request)
        _restrict(job, paths, limits)
        inside = (job.outside, job.cgroup, limits, job.plan)
        protections = active_protections(*inside) if job.request.probe else {}
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with socket.socket(fileno=_READY) as end:
            end.sendall(json.dumps({"protections": protections}).encode())
            end.shutdown(socket.SHUT_WR)
            # The solution starts after its start was reported: its later output and signals are its own.
            if end.recv(len(_GO)) != _GO:
                os._exit(1)
        script = f"{paths['code']}/{mounts.SCRIPT}"
        seed, arguments = job.request.seed, job.request.arguments
        call = (script, paths["work"], job.plan.import_path, seed, limits.threads, arguments)
        cold = job.request.cold
        if job.cells >= 0:
            driver = job.request.driver
            return attend_cold([cold, driver], _CELLS, call) if cold else attend(lambda: prepare(*call), _CELLS)
        observer = job.request.observer
        return launch_cold(cold, *call, observer) if cold else launch(*call, observer)
    except BaseException as error:
        os.write(_READY, json.dumps({"why": f"{type(error).__name__}: {error}"}).encode())
        os._exit(1)


def _set_environment(paths: dict[str, str], threads: int, request: RunRequest) -> None:
    os.environ.update(HOME=paths["home"], TMPDIR=paths["tmp"])
    # Without a lease the list is empty, which hides all devices from libraries.
    os.environ.update(CUDA_VISIBLE_DEVICES=request.device.visible, CUDA_DEVICE_ORDER="PCI_BUS_ID")
    if request.weights is not None:
        os.environ.update(variables(f"{paths['work']}/{WEIGHTS}"))
    for library in ("OMP", "MKL", "OPENBLAS"):
        os.environ[f"{library}_NUM_THREADS"] = str(threads)


def _restrict(job: SolutionJob, paths: dict[str, str], limits: Limits) -> None:
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # otherwise its /proc files belong to root
    # Without namespaces no unix sockets: Landlock does not cover their files, such as the one of Docker. A container has
    # none of others, and workers of a DataLoader need them.
    families: list[int] = [seccomp.AF_UNIX] if job.request.counted else []
    processes: int | None = limits.processes
    if job.request.namespaces:
        # Another user namespace, without rights over the mounts; processes are counted within it.
        uid, gid = os.geteuid(), os.getegid()
        linux.unshare(linux.CLONE_NEWUSER)
        linux.map_user(uid, gid, _INNER_ID)
        linux.drop_capabilities()
        families = [seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6]
    else:
        # A user's processes are counted on the whole machine, those of other containers among them.
        processes = None if job.request.counted else limits.processes + _tasks_of_this_user()
        if not os.access(os.__file__, os.R_OK):
            raise PermissionError(f"solutions run as nobody, who cannot read {sys.base_prefix}: use another Python")
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    open_files = _OPEN_FILES if job.cgroup is not None else _OPEN_FILES_UNCOUNTED
    _set_limits(limits, processes, open_files, bool(job.request.gpu))
    if job.request.landlock:
        shown, listed = job.plan.readable
        readable = [*shown, *(f"/etc/{name}" for name in ("passwd", "group", "nsswitch.conf", "hosts"))]
        readable += ["/proc", "/dev/zero", "/dev/urandom", "/dev/random", paths["code"], *_PROCESSOR_LIMITS]
        readable += [f"{job.request.folder}/input", *([job.request.weights] if job.request.weights else [])]
        writable = [paths["work"], paths["home"], paths["tmp"], "/dev/null", "/dev/full", "/dev/shm"]
        if job.request.gpu:
            # CUDA names its threads there, and does not start where it cannot.
            writable += ["/proc/self/task", *(f"/dev/{name}" for name in job.request.device.nodes)]
        landlock.restrict(readable, listed, writable)
    if linux.SUPPORTED_MACHINE:
        own = None if job.request.namespaces else os.getpid()
        seccomp.install(seccomp.build(families, counted=job.cgroup is not None, own=own))


def _set_limits(limits: Limits, processes: int | None, open_files: int, gpu: bool) -> None:
    values = {
        resource.RLIMIT_CORE: 1,  # unlike 0, this also disables the machine's crash reporter
        resource.RLIMIT_FSIZE: limits.file_mb << 20,
        resource.RLIMIT_NOFILE: open_files,
        **({} if processes is None else {resource.RLIMIT_NPROC: processes}),
        resource.RLIMIT_SIGPENDING: _SIGNALS,
        # All programs of a user share some memory that they may lock; a GPU's driver needs it.
        **({} if gpu else {resource.RLIMIT_MEMLOCK: 0}),
    }
    for kind, value in values.items():
        highest = resource.getrlimit(kind)[1]
        value = value if highest == resource.RLIM_INFINITY else min(value, highest)
        resource.setrlimit(kind, (value, value))
    if limits.cpu_s is not None:
        seconds = max(1, math.ceil(limits.cpu_s))
        # First SIGXCPU, a second later SIGKILL.
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def _tasks_of_this_user() -> int:
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count
