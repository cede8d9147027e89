"""What a node of a Ray cluster does for `on_ray`: one run, in a sandbox that its worker process keeps open.

Covered: telling a node that is not made for it, refusing where answers are not safe, the public folder from the archive.
Not covered: isolation, which is the inner sandbox's; where and how often a run is tried.
"""

from __future__ import annotations

import atexit
import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from mletools.records.errors import ToolError
from mletools.sandbox import mounts, shipping
from mletools.sandbox.interface import Limits, Sandbox, Setup, open_sandbox


def node_task() -> Callable[..., tuple[str, Any]]:
    """What Ray calls on a node. Made in a function so that it travels by value: nodes without this package answer too."""

    def run_on_node(wanted: tuple[str, str], request: dict[str, Any], packed: Any) -> tuple[str, Any]:
        import platform
        import socket

        python = ".".join(platform.python_version_tuple()[:2])
        try:
            from mletools import __version__ as found
        except ImportError:
            found = "(none)"
        if (found, python) != wanted:
            return "trouble", (
                f"Ray node {socket.gethostname()} has mletools {found} on Python {python}, this machine has mletools "
                f"{wanted[0]} on Python {wanted[1]}: install the same on every node"
            )
        from mletools.sandbox.on_node import serve

        return serve(request, packed)

    return run_on_node


def serve(request: dict[str, Any], packed: Any) -> tuple[str, Any]:
    """Do one run, or a probe where the request names no code; ("done", what came of it) or ("trouble", a text)."""
    try:
        gpus = tuple(map(str, _devices())) if request["gpu"] else ()
        sandbox = _sandbox(request["backend"], Setup(**{**request["setup"], "gpus": gpus}))
        if "code" not in request:
            return "done", {"protections": sandbox.protections, "notes": sandbox.notes}
        if request["backend"] == "local":
            mounts.refuse_shared_data(_plan(), Path(request["origin"]))
        with shipping.unpacked(shipping.shared_root(), request["digest"], packed) as public:
            return "done", sandbox.run(request["code"], public, Limits(**request["limits"]), request["seed"])
    except (ToolError, OSError) as error:
        return "trouble", f"Ray node {socket.gethostname()}: {error}"


def _devices() -> list[Any]:
    import ray

    return list(ray.get_gpu_ids())


_opened = ExitStack()
atexit.register(_opened.close)


@cache
def _sandbox(backend: str, setup: Setup) -> Sandbox:
    """A sandbox that stays open for the life of this worker process. ToolError: solutions could look around here."""
    sandbox = _opened.enter_context(open_sandbox(backend, setup))
    if not sandbox.protections["private_files"]:
        raise ToolError("neither namespaces nor Landlock are granted here: programs could read the answers")
    return sandbox


@cache
def _plan() -> mounts.Plan:
    return mounts.make_plan()
