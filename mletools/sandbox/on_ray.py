"""Runs spread over the nodes of a Ray cluster, each in an ordinary sandbox of the node that it lands on.

Every run is a Ray task, so that Ray queues and places it. The worker process that Ray gives it keeps a sandbox with one
slot open for the runs to come. Covered: connecting, shipping the public folder, doing a run again whose node or worker
process was lost, saying why a run waits. Not covered: isolation, which is the inner sandbox's; what a node does
(`on_node`); cells of a session (`ray_session`); installing this package on the nodes; who may use the cluster: whoever
reaches a Ray cluster over the network owns its nodes. A run whose node is cut off may go on there unseen for a while;
its second try alone is heard.
"""

from __future__ import annotations

import os
import pickle
import platform
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .. import __version__
from ..records.errors import ToolError
from . import shipping
from .interface import Limits, Outcome, Setup, check_arguments
from .on_node import node_session, node_task
from .ray_connection import connect, last_line
from .ray_session import RaySession

_TRIES = 5
_LOOK_EVERY_S, _LEAVE_S = 2.0, 10.0
_PACKED_AT_ONCE = 64

Need = dict[str, float]


class RaySandbox:
    """Solutions on a Ray cluster. `run` may be called by any number of threads; each call is one task of the cluster."""

    def __init__(
        self, address: str, backend: str, setup: Setup, said: Callable[[str], None] = lambda line: None
    ) -> None:
        """Connect. `address`: ray://HOST:PORT, or ray for what RAY_ADDRESS names, or else a cluster of this machine.

        `backend` and `setup` are of the sandboxes on the nodes; with `setup.gpus` each run asks Ray for one device.
        `said` is told, a line each, what a user should know while runs go on. ToolError: no connection.
        """
        self.name = backend
        self._backend, self._setup, self._said = backend, setup, said
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._packing = threading.Lock()
        self._tasks: set[Any] = set()
        self._calls = 0
        self._shipped: OrderedDict[str, tuple[shipping.Fingerprint, str, Any]] = OrderedDict()
        self._told: set[str] = set()
        self._looked = 0.0
        self._closed = False
        self._probed: dict[str, Any] | None = None
        self._probing = threading.Lock()
        self._ray = connect(address)
        self._task = self._ray.remote(node_task())
        self._actor = self._ray.remote(node_session())
        self._sessions: set[RaySession] = set()

    @property
    def protections(self) -> dict[str, bool]:
        """See Sandbox.protections; of one node. Every other node refuses to run anything if answers are not safe."""
        return dict(self._probe()["protections"])

    @property
    def notes(self) -> list[str]:
        """See Sandbox.notes."""
        inner = self._probe()["notes"]
        nodes = self._nodes()
        cores = sum(node.get("CPU", 0.0) for node in nodes)
        return [f"Ray cluster with {_count(len(nodes), 'node')} and {_count(cores, 'CPU')}", *inner]

    def run(
        self, code: str, public: Path, limits: Limits, seed: int, arguments: Sequence[str] = (), observer: str = ""
    ) -> Outcome:
        """See Sandbox.run. ToolError also when a run was lost with its node five times, or a node is not fit for runs."""
        check_arguments(arguments)
        request, public, need = self._order(code, public, limits, seed)
        outcome: Outcome = self._do({**request, "arguments": list(arguments), "observer": observer}, public, need)
        return outcome

    def session(self, public: Path, limits: Limits, seed: int) -> RaySession:
        """See Sandbox.session. An actor of the cluster holds it; a session that is lost with its node is over."""
        request, public, need = self._order("", public, limits, seed)
        actor, protections = self._do({**request, "hold": True}, public, need)
        session = RaySession(self._ray, actor, protections, self.name, self._sessions.discard)
        self._sessions.add(session)
        if self._closed:
            session.close()
            raise ToolError("the sandbox is closed")
        return session

    def _order(self, code: str, public: Path, limits: Limits, seed: int) -> tuple[dict[str, Any], Path, Need]:
        if not os.path.isdir(public):
            raise ToolError(f"{public}: no such folder; is --data the folder that the task's paths start from?")
        self._probe()
        need = {"CPU": float(limits.threads), "memory": float(limits.memory_mb << 20)}
        request = {"code": code, "origin": os.path.realpath(public), "limits": asdict(limits), "seed": seed}
        return request, public, need

    def close(self) -> None:
        """See Sandbox.close. What runs on the cluster is killed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            tasks = list(self._tasks)
        for session in tuple(self._sessions):
            session.close()
        for task in tasks:
            with suppress(Exception):  # the connection may be what has failed
                self._ray.cancel(task, force=True)
        with self._lock:
            # Ray may not be taken away under threads that wait for it.
            self._idle.wait_for(lambda: self._calls == 0, _LEAVE_S)
            self._shipped.clear()
        with suppress(Exception):
            self._ray.shutdown()
        with suppress(OSError, ToolError):
            shipping.sweep(shipping.shared_root(), idle_s=0.0)

    def _probe(self) -> dict[str, Any]:
        with self._probing:
            if self._probed is None:
                self._probed = self._do({}, None, {"CPU": 1.0})
            return self._probed

    def _do(self, request: dict[str, Any], public: Path | None, need: Need) -> Any:
        with self._lock:
            self._calls += 1
        try:
            return self._try(request, public, need)
        finally:
            with self._lock:
                self._calls -= 1
                self._idle.notify_all()

    def _try(self, request: dict[str, Any], public: Path | None, need: Need) -> Any:
        errors = self._ray.exceptions
        names = ("WorkerCrashedError", "NodeDiedError", "ObjectLostError", "OutOfMemoryError", "RayActorError")
        lost = tuple(getattr(errors, name) for name in names)
        need = {**need, "GPU": 1.0} if self._setup.gpus else need
        setup = asdict(replace(self._setup, slots=1, gpus=()))
        for left in reversed(range(_TRIES)):
            digest, packed = self._ship(public) if public is not None else ("", b"")
            whole = {
                **request,
                "backend": self._backend,
                "setup": setup,
                "digest": digest,
                "gpu": bool(self._setup.gpus),
            }
            try:
                kind, answer = self._once(whole, packed, need)
            except lost as error:
                why = f"a node or worker process of the Ray cluster was lost ({type(error).__name__})"
                if self._closed:
                    raise ToolError("the sandbox was closed during a run") from None
                if not left:
                    raise ToolError(
                        f"{why} {_TRIES} times on one run: `ray status` and the logs of its nodes"
                    ) from error
                if isinstance(error, errors.ObjectLostError):
                    with self._packing:
                        self._shipped.clear()
                self._said(f"{why}: its run is done again")
            except (errors.RayError, ConnectionError, RuntimeError) as error:
                if self._closed:
                    raise ToolError("the sandbox was closed during a run") from None
                cause = getattr(error, "cause", None) or error
                raise ToolError(f"the Ray cluster has trouble: {type(cause).__name__}: {last_line(cause)}") from error
            else:
                if kind == "trouble":
                    raise ToolError(answer)
                return answer
        raise AssertionError  # not reached: the last try returns or raises

    def _once(self, request: dict[str, Any], packed: Any, need: Need) -> Any:
        options: dict[str, Any] = {"num_cpus": need["CPU"], "num_gpus": need.get("GPU", 0.0)}
        options |= {"memory": need["memory"]} if "memory" in need else {}
        with self._lock:
            if self._closed:
                raise ToolError("the sandbox is closed")
            options["scheduling_strategy"] = "SPREAD"
            # Not retried by Ray, which tells nobody; `_try` does it.
            if "hold" in request:
                actor = self._actor.options(**options, max_restarts=0).remote()
                task = actor.open.remote(_versions(), request, packed)
            else:
                actor = None
                task = self._task.options(**options, max_retries=0).remote(_versions(), request, packed)
            self._tasks.add(task)
        try:
            while not self._ray.wait([task], timeout=_LOOK_EVERY_S)[0]:
                if self._closed:
                    raise ToolError("the sandbox was closed during a run")
                self._tell_if_unfit(need)
            kind, answer = self._ray.get(task)
            return kind, (actor, answer) if actor is not None and kind == "done" else answer
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
                # As a buffer of its own, which nodes map rather than copy.
                digest, reference = shipping.digest_of(packed), self._ray.put(pickle.PickleBuffer(packed))
            self._shipped[key] = (now, digest, reference)
            self._shipped.move_to_end(key)
            while len(self._shipped) > _PACKED_AT_ONCE:
                self._shipped.popitem(last=False)
            return digest, reference

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _tell_if_unfit(self, need: Need) -> None:
        wanted = f"{_count(need['CPU'], 'CPU')}"
        wanted += f", {int(need['memory']) >> 20} MB of memory" if "memory" in need else ""
        wanted += f", {_count(need['GPU'], 'GPU')}" if "GPU" in need else ""
        with self._lock:
            if wanted in self._told or time.monotonic() - self._looked < _LOOK_EVERY_S / 2:
                return
            self._looked = time.monotonic()
        nodes = self._nodes()
        if any(all(node.get(name, 0.0) >= value for name, value in need.items()) for node in nodes):
            return
        with self._lock:
            if wanted in self._told:
                return
            self._told.add(wanted)
        self._said(f"waiting for a Ray node with {wanted}: none of {len(nodes)} has that")


def _count(number: float, what: str) -> str:
    return f"{number:g} {what}{'' if number == 1 else 's'}"


def _versions() -> tuple[str, str]:
    return __version__, ".".join(platform.python_version_tuple()[:2])
