"""The backend `local`: warm fork servers on this machine, one for every slot in use.

Covered: choosing the strongest isolation that the kernel grants, warm or cold starts, sessions, GPU leases, a template
and its servers that are made anew when they die.
The box is made of user, mount, pid, network, ipc and uts namespaces; where the kernel refuses these, of Landlock,
seccomp and rlimits. Not covered: containers, other machines. Needs Linux 5.4; namespaces need 5.12, Landlock
5.13.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from ..records.errors import ToolError
from . import landlock, mounts, session_driver, solution
from .gpus import Leases
from .interface import DEFAULT_PREIMPORT, Limits, Outcome, Setup, check_arguments
from .job import NOBODY
from .pool import ServerDied, ServerPool
from .process_tree import remove_folder
from .session import LocalSession
from .starting import wants_fresh_interpreter
from .verdict import Ending, outcome_of
from .warm import SetUpFailed, Template, WarmServer

_PROBE = Limits(wall_s=30.0)


class LocalSandbox:
    """Solutions in children of warm servers. `run` serves up to `slots` threads at once; more wait for their turn."""

    name = "local"

    def __init__(
        self,
        setup: Setup,
        *,
        namespaces: bool = True,
        cgroup: bool = True,
    ) -> None:
        """`namespaces` and `cgroup` False leave these out, as on a machine that refuses them.

        Starts nothing yet. ToolError: this interpreter lies where a sandbox cannot show it to solutions.
        """
        self._plan = mounts.make_plan()
        self._setup = setup
        self._want_namespaces = namespaces
        self._want_cgroup = cgroup
        self._leases = Leases(setup.gpus)
        self._pool = ServerPool(setup.slots, self._new_server)
        self._template: Template | None = None
        self._template_lock = threading.Lock()
        self._probe_lock = threading.Lock()
        self._checked: set[str] = set()
        self._sessions: set[LocalSession] = set()
        self._protections: dict[str, bool] | None = None
        self._namespaces = False
        self.weaker_because: str | None = None

    @property
    def protections(self) -> dict[str, bool]:
        """What a run of this sandbox was found to be protected by; see `facts`. ToolError: no server starts."""
        self._probe()
        return dict(self._protections or {})

    @property
    def notes(self) -> list[str]:
        """See Sandbox.notes."""
        self._probe()
        lines = []
        if self._template is not None and self._template.missing:
            lines.append(f"not installed, so not imported ahead: {', '.join(self._template.missing)}")
        # The usual libraries were tried: what they start, they do without.
        threaded = [
            name for name in (self._template.threaded if self._template else []) if name not in DEFAULT_PREIMPORT
        ]
        if threaded:
            names = ", ".join(threaded)
            lines.append(f"{names}: started threads when imported ahead, which no program has after the fork")
        if self.weaker_because:
            lines.append(f"no namespaces: {self.weaker_because}")
        return lines

    def run(
        self, code: str, public: Path, limits: Limits, seed: int, arguments: Sequence[str] = (), observer: str = ""
    ) -> Outcome:
        """See Sandbox.run. ToolError also when `public` lies where every solution could read its neighbours."""
        check_arguments(arguments)
        self._admit(public)
        # Text that is no valid Unicode reaches the interpreter, which refuses it as the solution's own error.
        text = code.encode("utf-8", "surrogatepass")
        cold = self._setup.start == "cold"
        if self._setup.start == "auto":
            cold = wants_fresh_interpreter(text, self._setup.preimport, gpu=bool(self._setup.gpus))

        def work(server: WarmServer) -> Outcome:
            call = (text, public, limits, seed, arguments, self._namespaces)
            return self._on_server(server, *call, cold=cold, gpu=gpu, observer=observer)[0]

        try:
            with self._leases.lease() as gpu:
                return self._pool.serve(work)
        except OSError as error:
            raise ToolError(f"the sandbox has trouble on this machine: {error}") from error

    def session(self, public: Path, limits: Limits, seed: int) -> LocalSession:
        """See Sandbox.session. Forked from the warm process unless the sandbox was opened with the start `cold`."""
        self._admit(public)
        cold = self._setup.start == "cold"
        exposed = not (self._protections or {})["pid_namespace"] and landlock.version() < landlock.SCOPED_SIGNALS
        with ExitStack() as stack:
            gpu = stack.enter_context(self._leases.lease())
            request = self._request(public, seed, (), self._namespaces, cold=cold, gpu=gpu)
            request["driver"] = _source_of(session_driver) if cold else ""

            def begin(server: WarmServer) -> LocalSession:
                return LocalSession(server, request, limits, exposed=exposed)

            try:
                if not self._namespaces:
                    request["folder"] = folder = tempfile.mkdtemp(prefix="mletools-run-")
                    stack.callback(remove_folder, folder)
                    _fill_folder(folder, b"", request["public"])
                session, release = self._pool.keep(begin)
            except OSError as error:
                raise ToolError(f"the sandbox has trouble on this machine: {error}") from error
            held = stack.pop_all()
        session.protections = dict(self._protections or {})

        def finish(fit: bool) -> None:
            self._sessions.discard(session)
            with held:
                release(fit)

        session.finish = finish
        self._sessions.add(session)
        if self._pool.closed:
            session.close()
            raise ToolError("the sandbox is closed")
        return session

    def close(self) -> None:
        """See Sandbox.close."""
        for session in tuple(self._sessions):
            session.close()
        self._pool.close()
        with self._template_lock:
            if self._template is not None:
                self._template.close()

    def __enter__(self) -> LocalSandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _admit(self, public: Path) -> None:
        """Have the protections probed. ToolError: `public` is missing, or solutions could not read it, or too much."""
        if not os.path.isdir(public):
            raise ToolError(f"{public}: no such folder; is --data the folder that the task's paths start from?")
        if not os.access(public, os.R_OK | os.X_OK):
            raise ToolError(f"{public}: this user cannot read it")
        self._probe()
        real = os.path.realpath(public)
        if real in self._checked:
            return
        mounts.refuse_shared_data(self._plan, public)
        if os.geteuid() == 0:
            mounts.refuse_unreadable(Path(real))
        self._checked.add(real)

    def _probe(self) -> None:
        with self._probe_lock:
            if self._protections is not None:
                return
            if self._want_namespaces:
                try:
                    self._protections = self._probe_with(True)
                    self._namespaces = True
                    return
                except SetUpFailed as error:
                    self.weaker_because = str(error)
            self._protections = self._probe_with(False)

    def _probe_with(self, namespaces: bool) -> dict[str, bool]:
        public = Path(__file__).parent  # any folder will do
        return self._pool.serve(
            lambda server: self._on_server(server, b"", public, _PROBE, 0, (), namespaces, probe=True)[1]
        )

    def _on_server(
        self,
        server: WarmServer,
        code: bytes,
        public: Path,
        limits: Limits,
        seed: int,
        arguments: Sequence[str],
        namespaces: bool,
        *,
        cold: bool = False,
        gpu: str | None = None,
        probe: bool = False,
        observer: str = "",
    ) -> tuple[Outcome, dict[str, bool]]:
        request = {**self._request(public, seed, arguments, namespaces, cold=cold, gpu=gpu), "probe": probe}
        request["observer"] = observer
        folder = None
        ending = Ending()
        try:
            if not namespaces:
                request["folder"] = folder = tempfile.mkdtemp(prefix="mletools-run-")
                _fill_folder(folder, code, request["public"])
            facts = server.run(code, request, limits, ending)
            outcome = outcome_of(ending, limits)
            active = dict(self._protections or facts)
            start = "cold" if cold else "warm"
            return replace(outcome, backend=self.name, start=start, gpu=gpu, protections=active), facts
        finally:
            for descriptor in (ending.work, ending.disk):
                if descriptor >= 0:
                    os.close(descriptor)
            if folder is not None:
                remove_folder(folder)

    def _request(
        self, public: Path, seed: int, arguments: Sequence[str], namespaces: bool, *, cold: bool, gpu: str | None
    ) -> dict[str, Any]:
        return {
            "public": os.path.realpath(public),
            "seed": seed,
            "arguments": list(arguments),
            "namespaces": namespaces,
            "landlock": not namespaces and landlock.version() > 0,
            "cold": _source_of(solution) if cold else "",
            "gpu": gpu,
            "folder": None,
            "probe": False,
            "observer": "",
        }

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
            raise ToolError("a further warm server got no memory cgroup")
        return server


def _source_of(module: ModuleType) -> str:
    # By the loader, which also reads from an archive.
    text = module.__loader__.get_source(module.__name__)  # type: ignore[union-attr]
    assert text is not None
    return str(text)


def _fill_folder(folder: str, code: bytes, public: str) -> None:
    """The folders of a run without a mount namespace; the public folder is a copy, for its owner could change rights."""
    os.chmod(folder, 0o755)
    for name in ("work", "home", "tmp", "code"):
        os.mkdir(f"{folder}/{name}", 0o755)
    Path(f"{folder}/code/{mounts.SCRIPT}").write_bytes(code)
    shutil.copytree(public, f"{folder}/input")
    os.symlink("../input", f"{folder}/work/input")
    if os.geteuid() == 0:
        for name in ("work", "home", "tmp"):
            os.chown(f"{folder}/{name}", NOBODY, NOBODY)
