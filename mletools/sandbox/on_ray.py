"""Runs spread over the nodes of a Ray cluster, each in an ordinary sandbox of the node that it lands on.

Every run is a Ray task, so that Ray queues and places it. The worker process that Ray gives it keeps a sandbox with one
slot open for the runs to come. Covered: connecting, shipping the public folder, doing a run again whose node or worker
process was lost, saying why a run waits. Not covered: isolation, which is the inner sandbox's; what a node does
(`on_node`); installing this package on the nodes; who may use the cluster: whoever reaches a Ray cluster over the
network owns its nodes. A run whose node is cut off may go on there unseen for a while; its second try alone is heard.
"""

from __future__ import annotations

import logging
import os
import pickle
import platform
import signal
import socket
import sys
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mletools import __version__
from mletools.records.errors import ToolError
from mletools.sandbox import shipping
from mletools.sandbox.interface import Limits, Outcome, Setup
from mletools.sandbox.on_node import node_task

_TRIES = 5
_LOOK_EVERY_S, _LEAVE_S, _REACH_S = 2.0, 10.0, 10.0
_PACKED_AT_ONCE = 64
_INSTALL = "pip install 'mletools[ray]'"

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
        self._ray = _connect(address)
        self._task = self._ray.remote(node_task())

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

    def run(self, code: str, public: Path, limits: Limits, seed: int) -> Outcome:
        """See Sandbox.run. ToolError also when a run was lost with its node five times, or a node is not fit for runs."""
        if not os.path.isdir(public):
            raise ToolError(f"{public}: no such folder; is --data the folder that the task's paths start from?")
        self._probe()
        need = {"CPU": float(limits.threads), "memory": float(limits.memory_mb << 20)}
        request = {"code": code, "origin": os.path.realpath(public), "limits": asdict(limits), "seed": seed}
        outcome: Outcome = self._do(request, public, need)
        return outcome

    def close(self) -> None:
        """See Sandbox.close. What runs on the cluster is killed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            tasks = list(self._tasks)
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
        lost = (errors.WorkerCrashedError, errors.NodeDiedError, errors.ObjectLostError, errors.OutOfMemoryError)
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
                raise ToolError(f"the Ray cluster has trouble: {type(cause).__name__}: {_last_line(cause)}") from error
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
            # Not retried by Ray, which tells nobody; `_try` does it.
            options |= {"scheduling_strategy": "SPREAD", "max_retries": 0}
            task = self._task.options(**options).remote(_versions(), request, packed)
            self._tasks.add(task)
        try:
            while not self._ray.wait([task], timeout=_LOOK_EVERY_S)[0]:
                if self._closed:
                    raise ToolError("the sandbox was closed during a run")
                self._tell_if_unfit(need)
            return self._ray.get(task)
        except BaseException:
            with suppress(Exception):
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


def _last_line(error: BaseException) -> str:
    """What an error says; Ray's own texts often hold the other side's whole traceback, which ends in it."""
    return ([line for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[-1].strip()


def _versions() -> tuple[str, str]:
    return __version__, ".".join(platform.python_version_tuple()[:2])


@contextmanager
def _own_signals() -> Iterator[None]:
    """Signal handlers are as before at the end: Ray takes SIGTERM, with which a command ends its runs."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


def _refuse_unreachable(target: str) -> None:
    """ToolError where nobody listens, or the client is not installed. Ray itself takes minutes over the first."""
    if "://" in target and find_spec("grpc") is None:
        raise ToolError(f"--on {target} needs Ray's client, which is not installed: {_INSTALL}")
    host, _, port = target.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
        except (OSError, OverflowError) as error:
            raise ToolError(
                f"no Ray cluster answers at {target} ({error}): is it up, and is the port right?"
            ) from error


def _connect(address: str) -> Any:
    target = os.environ.get("RAY_ADDRESS", "local") if address == "ray" else address
    settings: dict[str, Any] = {}
    if target == "local":
        settings = {"include_dashboard": False}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if "RAY_AUTH_MODE" not in os.environ and "ray" not in sys.modules:  # it reads them when it is imported
            # This cluster serves this command alone. Without a token of its own Ray would leave one in the home folder.
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=uuid.uuid4().hex)
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ToolError(f"--on {address} needs Ray: {_INSTALL}") from error
    if target != "local":
        _refuse_unreachable(target)
    try:
        with _own_signals():
            ray.init(target, log_to_driver=False, logging_level=logging.ERROR, **settings)
    except (ConnectionError, RuntimeError, ValueError, OSError, ImportError, ray.exceptions.RayError) as error:
        with suppress(Exception):
            ray.shutdown()
        if target == "local":
            raise ToolError(f"cannot start a Ray cluster on this machine: {_last_line(error)}") from error
        hint = "is it up, has it the Ray and Python of this machine, and does it want a token (RAY_AUTH_MODE=token)?"
        raise ToolError(f"cannot connect to the Ray cluster {target}: {_last_line(error)}; {hint}") from error
    return ray
