"""What a node of a Ray cluster does for `on_ray`: one run, or one session, in a sandbox that its process keeps open.

Covered: telling a node that is not made for it, refusing where answers are not safe, the public folder from the
archive. Not covered: isolation, which is the inner sandbox's; where and how often a run is tried.
"""

from __future__ import annotations

import atexit
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ..records.errors import ToolError
from . import mounts, shipping
from .backends import open_backend
from .interface import Limits, Sandbox, Setup


def _version_check() -> Callable[[tuple[str, str]], str | None]:
    # Functions made in a function travel by value: nodes without this package answer too.
    def unfit(wanted: tuple[str, str]) -> str | None:
        import platform
        import socket

        python = ".".join(platform.python_version_tuple()[:2])
        try:
            from mletools import __version__ as installed
        except ImportError:
            installed = "(none)"
        if (installed, python) == wanted:
            return None
        return (
            f"Ray node {socket.gethostname()} has mletools {installed} on Python {python}, this machine has mletools "
            f"{wanted[0]} on Python {wanted[1]}: install the same on every node"
        )

    return unfit


def node_task() -> Callable[..., tuple[str, Any]]:
    """What Ray calls on a node for a run."""
    unfit = _version_check()

    def run_on_node(wanted: tuple[str, str], request: dict[str, Any], packed: Any) -> tuple[str, Any]:
        why = unfit(wanted)
        if why is not None:
            return "trouble", why
        from mletools.sandbox.on_node import serve

        return serve(request, packed)

    return run_on_node


def node_session() -> type:
    """What Ray makes an actor of, on a node, for a session."""
    unfit = _version_check()

    class SessionOnNode:
        def open(self, wanted: tuple[str, str], request: dict[str, Any], packed: Any) -> tuple[str, Any]:
            why = unfit(wanted)
            if why is not None:
                return "trouble", why
            from mletools.sandbox.on_node import Held

            self.held = Held()
            return self.held.open(request, packed)

        def cell(self, kind: str, text: str, wall_s: float) -> tuple[str, Any]:
            return self.held.cell(kind, text, wall_s)

        def close(self) -> None:
            self.held.close()

    return SessionOnNode


def serve(request: dict[str, Any], packed: Any) -> tuple[str, Any]:
    """Do one run, or a probe where the request names no code; ("done", what came of it) or ("trouble", a text)."""
    try:
        if "code" not in request:
            sandbox = _inner(request)
            return "done", {"protections": sandbox.protections, "notes": sandbox.notes}
        with _placed(request, packed) as (sandbox, public):
            limits, arguments = Limits(**request["limits"]), request["arguments"]
            return "done", sandbox.run(request["code"], public, limits, request["seed"], arguments, request["observer"])
    except (ToolError, OSError) as error:
        return "trouble", _named(error)


class Held:
    """A session of this node, for the actor that has it; answers as `serve` does."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def open(self, request: dict[str, Any], packed: Any) -> tuple[str, Any]:
        """Open it; its protections."""
        try:
            sandbox, public = self._stack.enter_context(_placed(request, packed))
            self._session = sandbox.session(public, Limits(**request["limits"]), request["seed"])
            self._stack.callback(self._session.close)
            return "done", self._session.protections
        except (ToolError, OSError) as error:
            return "trouble", _named(error)

    def cell(self, kind: str, text: str, wall_s: float) -> tuple[str, Any]:
        """Run one cell; a Cell."""
        try:
            return "done", self._session.python(text, wall_s) if kind == "python" else self._session.bash(text, wall_s)
        except (ToolError, OSError) as error:
            return "trouble", _named(error)

    def close(self) -> None:
        """End the session, and the sandboxes of this process."""
        self._stack.close()
        _opened.close()


def _named(error: BaseException) -> str:
    return f"Ray node {socket.gethostname()}: {error}"


def _inner(request: dict[str, Any]) -> Sandbox:
    gpus = tuple(map(str, _devices())) if request["gpu"] else ()
    return _sandbox(request["backend"], Setup(**{**request["setup"], "gpus": gpus}))


@contextmanager
def _placed(request: dict[str, Any], packed: Any) -> Iterator[tuple[Sandbox, Path]]:
    """The sandbox for a request and its public folder, unpacked for as long as the with block lasts."""
    sandbox = _inner(request)
    if request["backend"] == "local":
        mounts.refuse_shared_data(_plan(), Path(request["origin"]))
    with shipping.unpacked(shipping.shared_root(), request["digest"], packed) as public:
        yield sandbox, public


def _devices() -> list[Any]:
    import ray

    return list(ray.get_gpu_ids())


_opened = ExitStack()
atexit.register(_opened.close)


@cache
def _sandbox(backend: str, setup: Setup) -> Sandbox:
    """A sandbox that stays open for the life of this worker process. ToolError: solutions could look around here."""
    sandbox = _opened.enter_context(open_backend(backend, setup))
    if not sandbox.protections["private_files"]:
        raise ToolError("neither namespaces nor Landlock are granted here: programs could read the answers")
    return sandbox


@cache
def _plan() -> mounts.MountPlan:
    return mounts.make_plan()
