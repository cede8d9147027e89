"""The backend `local`: warm fork servers on this machine, one per slot in use.

Covered: the strongest isolation that the kernel grants, warm and cold starts, sessions, GPU leases, replacing a server
or template that died. A sandbox consists of user, mount, pid, network, ipc and uts namespaces, or, where the kernel
refuses these, of Landlock, seccomp and rlimits. Not covered: containers, other machines. Needs Linux 5.4; namespaces
need 5.12, Landlock 5.13.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from ..base.errors import ToolError
from ..base.sources import source_of
from . import landlock, mounts, session_driver, solution
from .gpus import NO_DEVICE, Leases, cards, find
from .interface import DEFAULT_PREIMPORT, OUTPUTS, Limits, Outcome, Setup, check_arguments, check_public
from .job import NOBODY
from .machine import this_machine
from .outputs import check_outputs
from .pool import ServerDied, ServerPool
from .process_tree import remove_folder
from .request import RunRequest
from .session import LocalSession
from .sessions import BaseSandbox
from .starting import wants_fresh_interpreter
from .verdict import Observations, outcome_of
from .warm import SetUpFailed, Template, WarmServer
from .weights import NAME as WEIGHTS
from .weights import refuse_special_files, weights_folder

_PROBE = Limits(wall_s=30.0)


class LocalSandbox(BaseSandbox):
    """Runs solutions in children of warm servers. `run` serves up to `slots` threads at once; others wait."""

    name = "local"

    def __init__(
        self,
        setup: Setup,
        *,
        namespaces: bool = True,
        cgroup: bool = True,
        hidden: mounts.Hidden | None = None,
        counted: bool = False,
    ) -> None:
        """`namespaces` and `cgroup` False disable these, as on a machine that refuses them; `hidden` spares a search.

        `counted`: this process is in a cgroup, such as a container's, whose limit of processes is meant for one run.

        Starts nothing yet. ToolError: solutions could not see this interpreter, or a GPU or the folder of weights of the
        setup does not exist.
        """
        super().__init__()
        self._plan = mounts.make_plan(setup.shown)
        for shown in setup.shown:
            refuse_special_files(shown)
        self._hidden = hidden
        self._setup = setup
        self._want_namespaces = namespaces
        self._want_cgroup = cgroup
        self._counted = counted
        here = cards() if setup.gpus else []
        self._devices = {name: find(name, here) for name in setup.gpus}
        self._leases = Leases(setup.gpus)
        self._weights = None if setup.weights is None else weights_folder(setup.weights)
        self._pool = ServerPool(setup.slots, self._new_server)
        self._template: Template | None = None
        self._template_lock = threading.Lock()
        self._probe_lock = threading.Lock()
        self._checked: set[tuple[str, str]] = set()
        self._protections: dict[str, bool] | None = None
        self._namespaces = False
        self.weaker_because: str | None = None

    @property
    def protections(self) -> dict[str, bool]:
        """See Sandbox.protections and `protections`."""
        self._probe()
        return dict(self._protections or {})

    @property
    def hidden(self) -> mounts.Hidden:
        """What solutions do not see of the folders that they may read; the first call searches these."""
        if self._hidden is None:
            from .hidden import find_hidden

            self._hidden = find_hidden(source for source, _ in self._plan.binds)
        return self._hidden

    @property
    def notes(self) -> list[str]:
        """See Sandbox.notes."""
        self._probe()
        lines = []
        if self._template is not None and self._template.missing:
            lines.append(f"not installed, so not preimported: {', '.join(self._template.missing)}")
        # The default modules are known to work without these threads.
        threaded = set(self._template.threaded if self._template else ()) - set(DEFAULT_PREIMPORT)
        if threaded:
            lines.append(f"{', '.join(sorted(threaded))}: started threads when preimported, which are lost in a fork")
        if not all(device.nodes for device in self._devices.values()):
            lines.append("no NVIDIA card here that this user may open: programs with a lease see no GPU")
        if self.weaker_because:
            lines.append(f"no namespaces: {self.weaker_because}")
        return lines

    def run(
        self,
        code: str,
        public: Path,
        limits: Limits,
        seed: int,
        arguments: Sequence[str] = (),
        observer: str = "",
        outputs: Sequence[str] = OUTPUTS,
    ) -> Outcome:
        """See Sandbox.run. ToolError also if `public` lies in a folder that every solution can read."""
        check_arguments(arguments)
        check_outputs(outputs)
        self._admit(public)
        # Invalid Unicode reaches the interpreter, which reports it as the solution's error.
        text = code.encode("utf-8", "surrogatepass")
        cold = self._setup.start == "cold"
        if self._setup.start == "auto":
            cold = wants_fresh_interpreter(text, self._setup.preimport, gpu=bool(self._setup.gpus))
        with _machine_errors(), self._leases.lease() as gpu:
            request = self._request(public, limits, seed, gpu)
            request = replace(request, arguments=tuple(arguments), observer=observer)
            request = replace(request, cold=source_of(solution) if cold else "")
            return self._pool.serve(lambda server: self._run_on(server, text, request, outputs)[0])

    def session(self, public: Path, limits: Limits, seed: int, outputs: Sequence[str] = OUTPUTS) -> LocalSession:
        """See Sandbox.session. Forked from the warm process, unless the sandbox has the start `cold`."""
        check_outputs(outputs)
        self._admit(public)
        cold = self._setup.start == "cold"
        exposed = landlock.exposes_server(self._protections or {})
        with ExitStack() as stack:
            gpu = stack.enter_context(self._leases.lease())
            request = self._request(public, limits, seed, gpu)
            if cold:
                request = replace(request, cold=source_of(solution), driver=source_of(session_driver))
            with _machine_errors():
                if not self._namespaces:
                    folder = tempfile.mkdtemp(prefix="mletools-run-")
                    stack.callback(remove_folder, folder)
                    _fill_folder(folder, b"", request)
                    request = replace(request, folder=folder)
                session, release = self._pool.keep(
                    lambda server: LocalSession(server, request, outputs, exposed=exposed)
                )
            session.protections = dict(self._protections or {})
            session.machine, session.gpu = this_machine(request.device.model), gpu
            resources = stack.pop_all()
        return self._add_session(session, release, resources)

    def close(self) -> None:
        """See Sandbox.close."""
        self._close_sessions()
        self._pool.close()
        with self._template_lock:
            if self._template is not None:
                self._template.close()

    def _admit(self, public: Path) -> None:
        """Probe the protections. ToolError: `public` is missing, or solutions could not read it, or too much."""
        check_public(public)
        if not os.access(public, os.R_OK | os.X_OK):
            raise ToolError(f"{public}: this user cannot read it")
        mounts.refuse_answers_among_weights(self._weights, public)
        mounts.refuse_answers_among_shown(self._setup.shown, public)
        self._probe()
        real = os.path.realpath(public)
        if (checked := (os.path.abspath(public), real)) in self._checked:
            return
        mounts.refuse_shared_data(self._plan, public)
        if os.geteuid() == 0:
            mounts.refuse_unreadable(Path(real))
        self._checked.add(checked)

    def _probe(self) -> None:
        with self._probe_lock:
            if self._protections is not None:
                return
            self._plan.hidden = self.hidden
            for folder in (*self._setup.shown, *([self._weights] if self._weights is not None else [])):
                if os.geteuid() == 0:
                    mounts.refuse_unreadable(Path(folder))
            if self._want_namespaces:
                try:
                    self._protections = self._probe_with(True)
                    self._namespaces = True
                    return
                except SetUpFailed as error:
                    self.weaker_because = str(error)
            if self._setup.loopback:
                raise ToolError(
                    "agents reach their model by a loopback network of their own, which needs namespaces, and this "
                    f"machine grants none: {self.weaker_because or 'disabled'}"
                )
            if self._weights is not None and os.geteuid() == 0:
                mounts.refuse_unreachable(self._weights)
            self._protections = self._probe_with(False)

    def _probe_with(self, namespaces: bool) -> dict[str, bool]:
        public = Path(__file__).parent  # any folder will do
        request = replace(self._request(public, _PROBE, 0, None, namespaces), probe=True)
        return self._pool.serve(lambda server: self._run_on(server, b"", request, ())[1])

    def _request(
        self, public: Path, limits: Limits, seed: int, gpu: str | None, namespaces: bool | None = None
    ) -> RunRequest:
        namespaces = self._namespaces if namespaces is None else namespaces
        return RunRequest(
            limits=limits,
            public=os.path.realpath(public),
            seed=seed,
            namespaces=namespaces,
            landlock=not namespaces and landlock.version() > 0,
            counted=self._counted,
            gpu=gpu,
            device=self._devices[gpu] if gpu is not None else NO_DEVICE,
            weights=self._weights,
            shared_mb=self._setup.shared_mb,
            loopback=self._setup.loopback and namespaces,
        )

    def _run_on(
        self, server: WarmServer, code: bytes, request: RunRequest, outputs: Sequence[str]
    ) -> tuple[Outcome, dict[str, bool]]:
        """The outcome, and the active protections if `request` asks for a probe."""
        folder = None
        seen = Observations()
        try:
            if not request.namespaces:
                folder = tempfile.mkdtemp(prefix="mletools-run-")
                _fill_folder(folder, code, request)
            probed = server.run(code, replace(request, folder=folder), seen)
            outcome = replace(
                outcome_of(seen, request.limits, outputs),
                backend=self.name,
                start="cold" if request.cold else "warm",
                gpu=request.gpu,
                protections=dict(self._protections or probed),
                machine=this_machine(request.device.model),
            )
            return outcome, probed
        finally:
            seen.close()
            if folder is not None:
                remove_folder(folder)

    def _new_server(self, _: object) -> WarmServer:
        with self._template_lock:
            if self._pool.closed:
                raise ToolError("the sandbox is closed")
            try:
                if self._template is None:
                    raise ServerDied
                server = self._template.server()
            except ServerDied:
                if self._template is not None:
                    self._template.close()
                self._template = Template(self._plan, self._setup.preimport, self._want_cgroup)
                server = self._template.server()
        if server.cgroup is None and (self._protections or {}).get("memory_cgroup", False):
            server.close()
            raise ToolError("another warm server got no memory cgroup")
        return server


@contextmanager
def _machine_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(f"the sandbox failed on this machine: {error}") from error


def _fill_folder(folder: str, code: bytes, request: RunRequest) -> None:
    """Folders for a run without a mount namespace.

    The public folder is copied, since its owner could change its rights; the weights are too large for that. Links stay
    links: one that leads out of it leads nowhere, as with a mount namespace.
    """
    os.chmod(folder, 0o755)
    for name in ("work", "home", "tmp", "code"):
        os.mkdir(f"{folder}/{name}", 0o755)
    Path(f"{folder}/code/{mounts.SCRIPT}").write_bytes(code)
    shutil.copytree(request.public, f"{folder}/input", symlinks=True)
    os.symlink("../input", f"{folder}/work/input")
    if request.weights is not None:
        os.symlink(request.weights, os.path.join(folder, "work", WEIGHTS))
    if os.geteuid() == 0:
        for name in ("work", "home", "tmp"):
            os.chown(f"{folder}/{name}", NOBODY, NOBODY)
