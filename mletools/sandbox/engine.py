"""One container: its limits and filters, the connection to its agent, and its session.

Covered: Docker's frames on the stream, an agent that is silent or has ended. Not covered: when containers are created
and which orders they get (`container`).
"""

import io
import json
import socket
import time
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mletools

from ..base.errors import ToolError
from . import seccomp
from .agent import BOUND, PLACE, STORE_MB, WEIGHTS, AgentConfig, Message, Order, heading, read_result
from .interface import Cell
from .pool import ServerDied
from .sessions import REPLY_S, BaseSession

SEND_S = 120.0
_START_S = 300.0
_SERVER_MB = 512  # for the warm server and its libraries, in addition to the run
_SERVER_PROCESSES = 32
_SHARED_MEMORY_MB = 64  # where Setup.shared_mb is None; a box in namespaces has its own
_COPIES = 2  # of an output in the agent's memory, before it has left the container
# Needed to set up the inner sandbox, whose own filter refuses them to solutions.
_FOR_SET_UP = {"unshare", "mount", "umount2", "pivot_root", "mount_setattr", "sethostname"}
_FOR_SET_UP |= {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}
# Shared memory ends with its last user; queues and semaphores would outlive a run, and are disabled.
_SYSCTLS = {
    "kernel.shm_rmid_forced": "1",
    "kernel.sem": "250 32000 32 0",
    "kernel.msgmni": "0",
    "fs.mqueue.queues_max": "0",
}


@dataclass(frozen=True)
class Kind:
    """The properties of a container that a run needs."""

    memory_mb: int
    disk_mb: int
    processes: int
    threads: int
    gpu: str | None
    bound: tuple[str, int, int] | None  # path, device and inode of a public folder that is mounted
    submission_mb: int = 32
    weights: str | None = None  # real path of a folder of weights, which is mounted
    shared_mb: int | None = None  # see Setup


def source_archive() -> bytes:
    """A zip archive of the modules that the agent needs."""
    root = Path(mletools.__file__).parent
    files = [
        root / "__init__.py",
        *(root / "base" / name for name in ("__init__.py", "errors.py", "programs.py", "sources.py")),
    ]
    files += [*sorted((root / "sandbox").glob("*.py")), root / "sandbox" / "tables.json"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(root.parent))
    return buffer.getvalue()


def seccomp_profile() -> str:
    """A filter in Docker's JSON that refuses the calls of `seccomp`, except those that set up the inner sandbox."""
    names = sorted(set(seccomp.REFUSED) - _FOR_SET_UP)
    refused = {"names": names, "action": "SCMP_ACT_ERRNO"}
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refused]})


def environment(kind: Kind) -> dict[str, str]:
    """A container's environment."""
    # Where NVIDIA's runtime is the default, an image that asks for all devices would get them without a lease.
    return {"HOME": "/tmp", **({} if kind.gpu else {"NVIDIA_VISIBLE_DEVICES": "void"})}


def host_config(api: Any, kind: Kind, namespaces: bool) -> dict[str, object]:
    """Docker's configuration of a container's limits and filters."""
    import docker.types

    security = ["no-new-privileges"]
    if namespaces:
        security += [f"seccomp={seccomp_profile()}", "apparmor=unconfined"]
    shared_mb = _SHARED_MEMORY_MB if kind.shared_mb is None else kind.shared_mb
    disks = {"/tmp": kind.disk_mb, "/dev/shm": shared_mb, PLACE: STORE_MB}
    devices = [docker.types.DeviceRequest(device_ids=[kind.gpu], capabilities=[["gpu"]])] if kind.gpu else None
    shown = {BOUND: kind.bound[0] if kind.bound else None, WEIGHTS: kind.weights}
    folders = [docker.types.Mount(at, path, type="bind", read_only=True) for at, path in shown.items() if path]
    handed_out_mb = _COPIES * kind.submission_mb
    memory = (kind.memory_mb + kind.disk_mb + STORE_MB + shared_mb + handed_out_mb + _SERVER_MB) << 20
    config: dict[str, object] = api.create_host_config(
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=security,
        read_only=True,
        tmpfs={
            path: f"size={size}m,nr_inodes={1000 + 100 * size},mode=0755,uid=65534,gid=65534,nosuid,nodev"
            for path, size in disks.items()
        },
        mem_limit=memory,
        memswap_limit=memory,
        pids_limit=kind.processes + _SERVER_PROCESSES,
        cpu_period=100_000,
        cpu_quota=100_000 * kind.threads,
        ipc_mode="private",
        sysctls=_SYSCTLS,
        auto_remove=True,
        log_config=docker.types.LogConfig(type="none"),
        device_requests=devices,
        mounts=folders,
    )
    if namespaces:
        # A new /proc can be mounted inside only if no part of the outer one is masked.
        config.update(MaskedPaths=[], ReadonlyPaths=[])
    return config


def remove(api: Any, container: str) -> None:
    """Remove a container; errors of the engine are ignored."""
    import docker.errors
    import requests

    with suppress(docker.errors.DockerException, requests.RequestException):
        api.remove_container(container, force=True)


class Container:
    """One container and the stream to its agent. `close` may be called from any thread."""

    def __init__(self, api: Any, container: str, stream: Any) -> None:
        self._api = api
        self.id = container
        self._stream = stream
        # One or the other, depending on the connection to the engine.
        self._socket = getattr(stream, "_sock", stream)
        self._raw, self._replies, self._errors = bytearray(), bytearray(), bytearray()
        self._closed = False
        self.protections: dict[str, bool] = {}
        self.notes: list[str] = []
        self.weaker_because: str | None = None

    def greet(self, config: AgentConfig, source: bytes, image: str) -> None:
        """Start the agent. ToolError: it does not start."""
        try:
            reply, _ = self.ask(config, source, _START_S)
        except ServerDied:
            last = self._errors.decode(errors="replace").strip().split("\n")[-1] or "no output"
            raise ToolError(f"the sandbox does not start in a container of {image}: {last}") from None
        self.protections, self.notes = reply["protections"], reply["notes"]
        self.weaker_because, self.hidden = reply["weaker_because"], reply["hidden"]

    def names(self, place: str) -> list[str]:
        """The names in a folder that is mounted at `place`."""
        names: list[str] = self.ask({"do": "list", "place": place}, seconds=SEND_S)[0]["names"]
        return names

    def ask(self, message: Order | AgentConfig, content: bytes = b"", seconds: float = SEND_S) -> Message:
        """The agent's reply. ToolError: an error of the agent. ServerDied: it has ended, or is silent for `seconds`."""
        try:
            self._socket.settimeout(SEND_S)
            self._socket.sendall(heading(message, content))
            self._socket.sendall(content)
            end = time.monotonic() + seconds
            while (at := self._replies.find(b"\n")) < 0:
                self._read(end)
            reply = json.loads(self._replies[:at])
            whole = at + 1 + reply["size"]
            while len(self._replies) < whole:
                self._read(end)
            blob = bytes(self._replies[at + 1 : whole])
            del self._replies[:whole]
        except (OSError, ValueError) as error:
            raise ServerDied from error
        if "error" in reply:
            raise ToolError(f"in a container: {reply['error']}")
        return reply, blob

    def _read(self, end: float) -> None:
        self._socket.settimeout(max(0.01, end - time.monotonic()))
        piece = self._socket.recv(1 << 16)
        if not piece:
            raise ServerDied
        self._raw += piece
        # Docker's frames: the number of the stream, three zeros, four bytes of size.
        while len(self._raw) >= 8:
            size = int.from_bytes(self._raw[4:8], "big")
            if len(self._raw) < 8 + size:
                break
            (self._replies if self._raw[0] == 1 else self._errors).extend(self._raw[8 : 8 + size])
            del self._raw[: 8 + size]
        del self._errors[:-4000]

    def close(self) -> None:
        """End the container and its run."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        remove(self._api, self.id)
        for stream in (self._stream, self._socket):
            with suppress(OSError):
                stream.close()


class DockerSession(BaseSession):
    """A session in a container of its own, where a local session runs the cells."""

    def __init__(self, container: Container, protections: dict[str, bool], outputs: Sequence[str]) -> None:
        """`container` has opened a session with these outputs."""
        super().__init__("docker", protections, outputs)
        self._container = container

    def _run(self, kind: str, text: str, wall_s: float) -> Cell:
        order: Order = {"do": kind, "text": text, "wall_s": wall_s}
        try:
            return read_result(Cell, self.declared, *self._container.ask(order, seconds=wall_s + REPLY_S))
        except ServerDied:
            raise ToolError("the container of a session went away") from None

    def _abort(self) -> None:
        self._fit = False
        self._container.close()

    def _end(self) -> None:
        try:
            if self._fit:
                self._container.ask({"do": "close"}, seconds=REPLY_S)
        except (ServerDied, ToolError):
            self._fit = False
