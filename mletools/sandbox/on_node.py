"""The part of `on_ray` that runs on a node of a Ray cluster: one run, or one session, in a sandbox of its process.

Covered: refusing a node with other versions, or one where programs could read the answers; unpacking the public folder.
Not covered: isolation, which is the inner sandbox's; scheduling and retries.
"""

import atexit
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ..base.errors import ToolError
from . import mounts, shipping
from .backends import open_backend
from .interface import Limits, Outcome, Sandbox, Setup

if TYPE_CHECKING:
    from ..records.rollout import Machine

Answer = tuple[str, Any]  # ("done", a result) or ("error", a message)


class NodeRequest(TypedDict, total=False):
    """A run, a session or, with neither `code` nor `hold`, a probe. Plain values, for nodes without this package."""

    backend: str
    setup: dict[str, Any]  # Setup
    gpu: bool
    hold: bool  # a session
    code: str
    arguments: list[str]
    observer: str
    outputs: tuple[str, ...]
    origin: str  # the public folder here
    limits: dict[str, Any]  # Limits
    seed: int
    digest: str  # of the packed public folder


class Probed(TypedDict):
    """What a node says of its sandbox."""

    protections: dict[str, bool]
    notes: list[str]


def _version_check() -> Callable[[tuple[str, str]], str | None]:
    # Nested functions travel by value, so nodes without this package answer too; annotations of its types are texts.
    def mismatch(versions: tuple[str, str]) -> str | None:
        import platform
        import socket

        python = ".".join(platform.python_version_tuple()[:2])
        try:
            from mletools import __version__ as installed
        except ImportError:
            installed = "(none)"
        if (installed, python) == versions:
            return None
        return (
            f"Ray node {socket.gethostname()} has mletools {installed} on Python {python}, this machine has mletools "
            f"{versions[0]} on Python {versions[1]}: install the same on every node"
        )

    return mismatch


def node_task() -> Callable[..., Answer]:
    """The function that Ray calls on a node for a run."""
    mismatch = _version_check()

    def run_on_node(versions: tuple[str, str], request: "NodeRequest", packed: Any) -> Answer:
        reason = mismatch(versions)
        if reason is not None:
            return "error", reason
        from mletools.sandbox.on_node import answer

        return answer(request, packed)

    return run_on_node


def node_session() -> type:
    """The class of the actor that holds a session on a node."""
    mismatch = _version_check()

    class SessionOnNode:
        def open(self, versions: tuple[str, str], request: "NodeRequest", packed: Any) -> Answer:
            reason = mismatch(versions)
            if reason is not None:
                return "error", reason
            from mletools.sandbox.on_node import NodeSession

            self.session = NodeSession()
            return self.session.open(request, packed)

        def cell(self, kind: str, text: str, wall_s: float) -> Answer:
            return self.session.cell(kind, text, wall_s)

        def close(self) -> None:
            self.session.close()

    return SessionOnNode


def answer(request: NodeRequest, packed: Any) -> Answer:
    """The outcome of a run; without code in the request, the protections and notes of this node."""
    return _answered(lambda: _run(request, packed) if "code" in request else _probe(request))


def _answered(work: Callable[[], Any]) -> Answer:
    try:
        return "done", work()
    except (ToolError, OSError) as error:
        return "error", f"Ray node {socket.gethostname()}: {error}"


def _probe(request: NodeRequest) -> Probed:
    sandbox = _inner(request)
    return {"protections": sandbox.protections, "notes": sandbox.notes}


def _run(request: NodeRequest, packed: Any) -> Outcome:
    rest = Limits(**request["limits"]), request["seed"], request["arguments"], request["observer"], request["outputs"]
    with _prepared(request, packed) as (sandbox, public):
        return sandbox.run(request["code"], public, *rest)


class NodeSession:
    """A session of this node, for its actor."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def open(self, request: NodeRequest, packed: Any) -> Answer:
        """Open it; the result is its protections, its machine and its device."""

        def begin() -> "tuple[dict[str, bool], Machine | None, str | None]":
            sandbox, public = self._stack.enter_context(_prepared(request, packed))
            limits = Limits(**request["limits"])
            self._session = sandbox.session(public, limits, request["seed"], request["outputs"])
            self._stack.callback(self._session.close)
            return self._session.protections, self._session.machine, self._session.gpu

        return _answered(begin)

    def cell(self, kind: str, text: str, wall_s: float) -> Answer:
        """Run one cell; the result is a Cell."""
        run_cell = self._session.python if kind == "python" else self._session.bash
        return _answered(lambda: run_cell(text, wall_s))

    def close(self) -> None:
        """End the session, and the sandboxes of this process."""
        self._stack.close()
        _opened.close()


def _inner(request: NodeRequest) -> Sandbox:
    gpus: tuple[str, ...] = ()
    if request["gpu"]:
        import ray

        gpus = tuple(map(str, ray.get_gpu_ids()))
    return _sandbox(request["backend"], Setup(**{**request["setup"], "gpus": gpus}))


@contextmanager
def _prepared(request: NodeRequest, packed: Any) -> Iterator[tuple[Sandbox, Path]]:
    """The sandbox for a request and its public folder, unpacked for the with block."""
    sandbox = _inner(request)
    if request["backend"] == "local":
        mounts.refuse_shared_data(_plan(), Path(request["origin"]))
    if (weights := request["setup"]["weights"]) is not None:
        mounts.refuse_answers_among_weights(os.path.realpath(weights), Path(request["origin"]))
    with shipping.unpacked(shipping.shared_root(), request["digest"], packed) as public:
        yield sandbox, public


_plan = cache(mounts.make_plan)
_opened = ExitStack()
atexit.register(_opened.close)


@cache
def _sandbox(backend: str, setup: Setup) -> Sandbox:
    """A sandbox that stays open as long as this worker process. ToolError: programs could read other files."""
    sandbox = _opened.enter_context(open_backend(backend, setup))
    if not sandbox.protections["private_files"]:
        raise ToolError("neither namespaces nor Landlock work here: programs could read the answers")
    return sandbox
