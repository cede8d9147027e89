"""Connects to a Ray cluster, and explains a failure in one line.

Covered: addresses, a token for a cluster of this command, signal handlers that Ray would replace. Not covered: the use
of the cluster (`on_ray`).
"""

import logging
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from ..base.errors import ToolError

_REACH_S = 10.0
_INSTALL = "pip install 'mletools[ray]'"


def last_line(error: BaseException) -> str:
    """The last line of an error; Ray's messages often contain a whole remote traceback."""
    return ([line for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[-1].strip()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Restores the signal handlers: Ray replaces the one of SIGTERM, with which a command ends its runs."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


def _refuse_unreachable(target: str) -> None:
    """ToolError: nothing listens there (Ray takes minutes to notice), or Ray's client is not installed."""
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


def connect(address: str) -> Any:
    """The module `ray`, connected; see RaySandbox for `address`. ToolError: not installed, or no connection."""
    target = os.environ.get("RAY_ADDRESS", "local") if address == "ray" else address
    settings: dict[str, Any] = {}
    # Ray reads it when it is imported: otherwise a call that comes after close() would connect anew.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    if target == "local":
        settings = {"include_dashboard": False}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if "RAY_AUTH_MODE" not in os.environ and "ray" not in sys.modules:  # Ray reads them when it is imported
            # A private token for this command's cluster; otherwise Ray would leave one in the home folder.
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
            raise ToolError(f"cannot start a Ray cluster on this machine: {last_line(error)}") from error
        hint = "is it up, has it the Ray and Python of this machine, and does it want a token (RAY_AUTH_MODE=token)?"
        raise ToolError(f"cannot connect to the Ray cluster {target}: {last_line(error)}; {hint}") from error
    return ray
