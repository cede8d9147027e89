"""Runs spread over the nodes of a Ray cluster, each in a local or docker sandbox of its node.

Every run is a Ray task, which Ray queues and places. Its worker process keeps a sandbox with one slot open for later
runs. Covered: sending the public folder, sessions held by actors, retries when a node or worker process is lost, a
message while a run waits. Not covered: isolation, which is the inner sandbox's; the part on the node (`on_node`);
installing this package there; access control: anyone who can reach a Ray cluster controls its nodes. A run whose node is
cut off may continue there; only its retry counts.
"""

import os
import pickle
import platform
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .. import __version__
from ..base.errors import ToolError
from . import shipping
from .interface import OUTPUTS, Cell, Limits, Outcome, Setup, check_arguments, check_public
from .on_node import NodeRequest, Probed, node_session, node_task
from .outputs import check_outputs
from .ray_connection import connect, last_line
from .sessions import REPLY_S, BaseSandbox, BaseSession

_TRIES = 5
_POLL_S, _CLOSE_S = 2.0, 10.0
_MOST_PACKED = 64
_LOSSES = ("WorkerCrashedError", "NodeDiedError", "ObjectLostError", "OutOfMemoryError", "RayActorError")

Need = dict[str, float]  # resources of a run, by Ray's names


class RaySession(BaseSession):
    """A session that an actor holds, where an inner session runs the cells. It is lost with its node."""

    def __init__(
        self, ray: Any, actor: Any, protections: dict[str, bool], backend: str, outputs: Sequence[str]
    ) -> None:
        """`actor` has opened a session of the backend."""
        super().__init__(backend, protections, outputs)
        self._ray, self._actor = ray, actor

    def _run(self, kind: str, text: str, wall_s: float) -> Cell:
        try:
            status, cell = self._ray.get(self._actor.cell.remote(kind, text, wall_s), timeout=wall_s + REPLY_S)
        except (self._ray.exceptions.RayError, ConnectionError, RuntimeError) as error:
            raise ToolError(f"a session was lost with its Ray node or worker ({type(error).__name__})") from error
        if status == "error":
            raise ToolError(cell)
        return cell  # type: ignore[no-any-return]

    def _abort(self) -> None:
        with suppress(Exception):
            self._ray.kill(self._actor)

    def _end(self) -> None:
        with suppress(Exception):  # the node may have failed
            self._ray.get(self._actor.close.remote(), timeout=REPLY_S)
        self._abort()


class RaySandbox(BaseSandbox):
    """Runs solutions on a Ray cluster. `run` may be called from any number of threads; each call is one Ray task."""

    def __init__(
        self, address: str, backend: str, setup: Setup, notify: Callable[[str], None] = lambda line: None
    ) -> None:
        """Connect. `address`: ray://HOST:PORT, or ray for the one in RAY_ADDRESS, or else a cluster on this machine.

        `backend` and `setup` are for the sandboxes on the nodes; with `setup.gpus` each run asks Ray for one device.
        `notify` receives messages for the user during runs, one line each. ToolError: no connection.
        """
        super().__init__()
        self.name = backend
        self._notify = notify
        self._gpu = bool(setup.gpus)
        inner = asdict(replace(setup, slots=1, gpus=()))
        self._inner: NodeRequest = {"backend": backend, "setup": inner, "gpu": self._gpu}
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._packing = threading.Lock()
        self._tasks: set[Any] = set()
        self._calls = 0
        self._shipped: OrderedDict[str, tuple[shipping.Fingerprint, str, Any]] = OrderedDict()
        self._reported: set[str] = set()
        self._checked_at = 0.0
        self._probed: Probed | None = None
        self._probing = threading.Lock()
        self._ray = connect(address)
        self._task = self._ray.remote(node_task())
        self._actor = self._ray.remote(node_session())

    @property
    def protections(self) -> dict[str, bool]:
        """See Sandbox.protections; of one node. Every node refuses to run if programs could read the answers."""
        return dict(self._probe()["protections"])

    @property
    def notes(self) -> list[str]:
        """See Sandbox.notes."""
        inner = self._probe()["notes"]
        nodes = self._nodes()
        cores = sum(node.get("CPU", 0.0) for node in nodes)
        return [f"Ray cluster with {_count(len(nodes), 'node')} and {_count(cores, 'CPU')}", *inner]

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
        """See Sandbox.run. ToolError also if a run is lost with its node five times, or a node refuses it."""
        check_arguments(arguments)
        check_outputs(outputs)
        request: NodeRequest = {
            "code": code,
            "arguments": list(arguments),
            "observer": observer,
            "outputs": tuple(outputs),
        }
        outcome: Outcome = self._do(request, public, limits, seed)
        return outcome

    def session(self, public: Path, limits: Limits, seed: int, outputs: Sequence[str] = OUTPUTS) -> RaySession:
        """See Sandbox.session. An actor of the cluster holds it; if its node is lost, the session is over."""
        check_outputs(outputs)
        actor, (protections, machine, gpu) = self._do({"hold": True, "outputs": tuple(outputs)}, public, limits, seed)
        session = RaySession(self._ray, actor, protections, self.name, outputs)
        session.machine, session.gpu = machine, gpu
        return self._add_session(session, lambda fit: None, ExitStack())

    def close(self) -> None:
        """See Sandbox.close. Kills all runs on the cluster."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            tasks = list(self._tasks)
        self._close_sessions()
        for task in tasks:
            with suppress(Exception):  # the connection may have failed
                self._ray.cancel(task, force=True)
        with self._lock:
            # Ray may be shut down only when no thread waits for it.
            self._idle.wait_for(lambda: self._calls == 0, _CLOSE_S)
            self._shipped.clear()
        with suppress(Exception):
            self._ray.shutdown()
        with suppress(OSError, ToolError):
            shipping.sweep(shipping.shared_root(), idle_s=0.0)

    def _probe(self) -> Probed:
        with self._probing:
            if self._probed is None:
                with self._counted():
                    self._probed = self._try({}, None, {"CPU": 1.0})
            return self._probed

    def _do(self, request: NodeRequest, public: Path, limits: Limits, seed: int) -> Any:
        check_public(public)
        self._probe()
        need = {"CPU": float(limits.threads), "memory": float(limits.memory_mb << 20)}
        more: NodeRequest = {"origin": os.path.abspath(public), "limits": asdict(limits), "seed": seed}
        with self._counted():
            return self._try({**request, **more}, public, need)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise ToolError("the sandbox is closed")
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1
                self._idle.notify_all()

    def _try(self, request: NodeRequest, public: Path | None, need: Need) -> Any:
        """The result of a node, after up to _TRIES tries."""
        errors = self._ray.exceptions
        losses = tuple(getattr(errors, name) for name in _LOSSES)
        for left in reversed(range(_TRIES)):
            try:
                digest, packed = self._ship(public) if public is not None else ("", b"")
                status, result = self._once({**request, **self._inner, "digest": digest}, packed, need)
            except losses as error:
                reason = f"a node or worker process of the Ray cluster was lost ({type(error).__name__})"
                if self._closed:
                    raise ToolError("the sandbox was closed during a run") from None
                if not left:
                    raise ToolError(
                        f"{reason} {_TRIES} times on one run: `ray status` and the logs of its nodes"
                    ) from error
                if isinstance(error, errors.ObjectLostError):
                    with self._packing:
                        self._shipped.clear()
                self._notify(f"{reason}: its run is done again")
            except (errors.RayError, ConnectionError, RuntimeError) as error:
                if self._closed:
                    raise ToolError("the sandbox was closed during a run") from None
                cause = getattr(error, "cause", None) or error
                raise ToolError(f"the Ray cluster failed: {type(cause).__name__}: {last_line(cause)}") from error
            else:
                if status == "error":
                    raise ToolError(result)
                return result
        raise AssertionError  # not reached: the last try returns or raises

    def _once(self, request: NodeRequest, packed: Any, need: Need) -> Any:
        need = {**need, "GPU": 1.0} if self._gpu else need
        options: dict[str, object] = {"num_cpus": need["CPU"], "num_gpus": need.get("GPU", 0.0)}
        options |= {"memory": need["memory"]} if "memory" in need else {}
        actor = None
        with self._lock:
            if self._closed:
                raise ToolError("the sandbox is closed")
            options["scheduling_strategy"] = "SPREAD"
            # `_try` retries, because Ray retries without a message.
            if "hold" in request:
                actor = self._actor.options(**options, max_restarts=0).remote()
                task = actor.open.remote(_versions(), request, packed)
            else:
                task = self._task.options(**options, max_retries=0).remote(_versions(), request, packed)
            self._tasks.add(task)
        try:
            while not self._ray.wait([task], timeout=_POLL_S)[0]:
                if self._closed:
                    raise ToolError("the sandbox was closed during a run")
                self._report_shortage(need)
            status, result = self._ray.get(task)
            return status, (actor, result) if actor is not None and status == "done" else result
        except BaseException:
            with suppress(Exception):
                if actor is not None:
                    self._ray.kill(actor)
                else:
                    self._ray.cancel(task, force=True)
            raise
        finally:
            with self._lock:
                self._tasks.discard(task)

    def _ship(self, public: Path) -> tuple[str, Any]:
        """The digest of the public folder, and Ray's reference to its content, which is packed once."""
        with self._packing:
            key = os.path.realpath(public)
            now = shipping.fingerprint(public)
            then, digest, reference = self._shipped.get(key, (None, "", None))
            if then != now:
                packed = shipping.pack(public)
                # In a buffer, which nodes map instead of copying.
                digest, reference = shipping.digest_of(packed), self._ray.put(pickle.PickleBuffer(packed))
            self._shipped[key] = (now, digest, reference)
            self._shipped.move_to_end(key)
            while len(self._shipped) > _MOST_PACKED:
                self._shipped.popitem(last=False)
            return digest, reference

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _report_shortage(self, need: Need) -> None:
        """Notify the user once if no node has the resources `need`."""
        text = _count(need["CPU"], "CPU")
        text += f", {int(need['memory']) >> 20} MB of memory" if "memory" in need else ""
        text += f", {_count(need['GPU'], 'GPU')}" if "GPU" in need else ""
        with self._lock:
            if text in self._reported or time.monotonic() - self._checked_at < _POLL_S / 2:
                return
            self._checked_at = time.monotonic()
        nodes = self._nodes()
        if any(all(node.get(name, 0.0) >= value for name, value in need.items()) for node in nodes):
            return
        with self._lock:
            if text in self._reported:
                return
            self._reported.add(text)
        self._notify(f"waiting for a Ray node with {text}: none of {len(nodes)} has that")


def _count(number: float, noun: str) -> str:
    return f"{number:g} {noun}{'' if number == 1 else 's'}"


def _versions() -> tuple[str, str]:
    return __version__, ".".join(platform.python_version_tuple()[:2])
