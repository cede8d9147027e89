"""The backend `local`: warm fork servers on this machine, one for every slot in use.

Covered: choosing the strongest isolation that the kernel grants, the pool of servers, one retry when a server dies.
The box is made of user, mount, pid, network, ipc and uts namespaces; where the kernel refuses these, of Landlock,
seccomp and rlimits. Not covered: GPUs, containers, other machines. Needs Linux 5.4; namespaces need 5.12, Landlock
5.13.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from mletools.records.errors import ToolError
from mletools.sandbox import landlock, mounts
from mletools.sandbox.interface import Limits, Outcome, Setup
from mletools.sandbox.job import NOBODY
from mletools.sandbox.process_tree import remove_folder
from mletools.sandbox.verdict import Ending, outcome_of
from mletools.sandbox.warm import ServerDied, SetUpFailed, WarmServer

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
        self._slots = threading.BoundedSemaphore(setup.slots)
        self._lock = threading.Lock()
        self._probe_lock = threading.Lock()
        self._idle: list[WarmServer] = []
        self._busy: set[WarmServer] = set()
        self._checked: set[str] = set()
        self._closed = False
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
        lines = [f"not installed here, so not imported ahead: {', '.join(self.missing)}"] if self.missing else []
        return lines + ([f"no namespaces: {self.weaker_because}"] if self.weaker_because else [])

    @property
    def missing(self) -> list[str]:
        """The modules of `preimport` that are not installed here."""
        self._probe()
        with self._lock:
            servers = [*self._idle, *self._busy]
        return list(servers[0].missing) if servers else []

    def run(self, code: str, public: Path, limits: Limits, seed: int) -> Outcome:
        """See Sandbox.run. ToolError also when `public` lies where every solution could read its neighbours."""
        if not os.path.isdir(public):
            raise ToolError(f"{public}: no such folder; is --data the folder that the task's paths start from?")
        if not os.access(public, os.R_OK | os.X_OK):
            raise ToolError(f"{public}: this user cannot read it")
        self._probe()
        self._check(public)
        # Text that is no valid Unicode reaches the interpreter, which refuses it as the solution's own error.
        text = code.encode("utf-8", "surrogatepass")
        with self._slots:
            try:
                return self._run_once_or_twice(text, public, limits, seed)
            except OSError as error:
                raise ToolError(f"the sandbox has trouble on this machine: {error}") from error

    def close(self) -> None:
        """See Sandbox.close."""
        with self._lock:
            self._closed = True
            servers = [*self._idle, *self._busy]
            self._idle.clear()
        for server in servers:
            server.close()

    def __enter__(self) -> LocalSandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, public: Path) -> None:
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
        server = self._take()
        public = Path(__file__).parent  # any folder will do
        try:
            _, facts = self._on_server(server, b"", public, _PROBE, 0, namespaces, probe=True)
        except ServerDied as error:
            self._drop(server)
            raise ToolError("the sandbox's warm server died while it was tried out") from error
        except BaseException:
            self._drop(server)
            raise
        self._give_back(server)
        return facts

    def _run_once_or_twice(self, code: bytes, public: Path, limits: Limits, seed: int) -> Outcome:
        for _ in range(2):
            server = self._take()
            try:
                outcome, _ = self._on_server(server, code, public, limits, seed, self._namespaces, probe=False)
            except ServerDied:
                self._drop(server)
                if self._closed:
                    raise ToolError("the sandbox was closed during a run") from None
                continue
            except BaseException:
                self._drop(server)
                raise
            self._give_back(server)
            return outcome
        raise ToolError("the sandbox's warm server died twice on one run: is this machine out of memory?")

    def _on_server(
        self, server: WarmServer, code: bytes, public: Path, limits: Limits, seed: int, namespaces: bool, probe: bool
    ) -> tuple[Outcome, dict[str, bool]]:
        request: dict[str, Any] = {
            "public": os.path.realpath(public),
            "seed": seed,
            "namespaces": namespaces,
            "landlock": not namespaces and landlock.version() > 0,
            "folder": None,
            "linked": False,
            "probe": probe,
        }
        folder = None
        ending = Ending()
        try:
            if not namespaces:
                request["folder"] = folder = tempfile.mkdtemp(prefix="mletools-run-")
                request["linked"] = request["landlock"] and os.geteuid() != 0
                _fill_folder(folder, code, request["public"], copy=not request["linked"])
            facts = server.run(code, request, limits, ending)
            outcome = outcome_of(ending, limits)
            return replace(
                outcome, backend=self.name, start="warm", protections=dict(self._protections or facts)
            ), facts
        finally:
            for descriptor in (ending.work, ending.disk):
                if descriptor >= 0:
                    os.close(descriptor)
            if folder is not None:
                remove_folder(folder)

    def _take(self) -> WarmServer:
        with self._lock:
            if self._closed:
                raise ToolError("the sandbox is closed")
            if self._idle:
                server = self._idle.pop()
                self._busy.add(server)
                return server
        server = WarmServer(self._plan, self._setup.preimport, self._want_cgroup)
        with self._lock:
            weaker = server.cgroup is None and (self._protections or {}).get("memory_cgroup", False)
            if not self._closed and not weaker:
                self._busy.add(server)
                return server
        server.close()
        raise ToolError("a further warm server got no memory cgroup" if weaker else "the sandbox is closed")

    def _give_back(self, server: WarmServer) -> None:
        with self._lock:
            self._busy.discard(server)
            if not self._closed:
                self._idle.append(server)

    def _drop(self, server: WarmServer) -> None:
        with self._lock:
            self._busy.discard(server)
        server.close()


def _fill_folder(folder: str, code: bytes, public: str, copy: bool) -> None:
    """The folders of a run without a mount namespace; the public folder as a copy where a link would not protect it."""
    os.chmod(folder, 0o755)
    for name in ("work", "home", "tmp", "code"):
        os.mkdir(f"{folder}/{name}", 0o755)
    Path(f"{folder}/code/{mounts.SCRIPT}").write_bytes(code)
    if copy:
        shutil.copytree(public, f"{folder}/work/input")
    else:
        os.symlink(public, f"{folder}/work/input")
    if os.geteuid() == 0:
        for name in ("work", "home", "tmp"):
            os.chown(f"{folder}/{name}", NOBODY, NOBODY)
