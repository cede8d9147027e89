"""The backend `docker`: a container for every slot in use, with a warm local sandbox inside (`agent`).

A container has no network, no capabilities, a read-only root and its own bounds of memory and processes. Within it a
solution is boxed once more, in namespaces of its own, or, where the engine grants none inside, by Landlock under
Docker's own seccomp profile. Covered: making and replacing containers (`engine` is one), sending the public folders,
naming what is missing. Not covered: building the image (`make image`); what the engine and the kernel do
wrong; an engine elsewhere that is given a public folder too large to be sent.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..records.errors import ToolError
from . import mounts, shipping
from .agent import BOOT, Message, read_result
from .container_session import DockerSession
from .engine import SEND_S, Container, Kind, host_config, remove, source_archive
from .gpus import Leases
from .interface import Limits, Outcome, Setup, check_arguments
from .pool import ServerPool

LABEL = "mletools.sandbox"
_USER = "65534:65534"
_LARGEST_SENT = 64 << 20  # bytes of a public folder that is sent rather than mounted
_SLACK_S = 200.0  # seconds beside those of a run itself
_ABANDONED_S = 300
_BLOCK = 4096


@dataclass(frozen=True)
class _Content:
    digest: str
    weight: int  # bytes that it takes in the container


class DockerSandbox:
    """Solutions in containers. `run` serves up to `slots` threads at once; more wait for their turn."""

    name = "docker"

    def __init__(self, setup: Setup, *, namespaces: bool = True) -> None:
        """Connect to the engine that DOCKER_HOST names; `namespaces` False leaves out the inner ones.

        ToolError: the Docker library is not installed, or no engine answers.
        """
        self._setup = setup
        self._client = _connect()
        self.host = os.environ.get("DOCKER_HOST", "the default socket")
        self._leases = Leases(setup.gpus)
        self._pool = ServerPool(setup.slots, self._new_container)
        self._probe_lock = threading.Lock()
        self._namespaces: bool | None = None if namespaces else False
        self._weaker_because: str | None = None if namespaces else "not wanted"
        self._protections: dict[str, bool] | None = None
        self._inner_notes: list[str] = []
        self._contents: dict[str, tuple[shipping.Fingerprint, _Content]] = {}
        self._sessions: set[DockerSession] = set()
        self._source = source_archive()
        with self._trouble("answer"):
            self._limits_memory = bool(self._client.api.info().get("MemoryLimit"))
            self._remove_abandoned()

    @property
    def protections(self) -> dict[str, bool]:
        """See Sandbox.protections; with `container`, and `memory_cgroup` where the engine bounds a container."""
        self._probe()
        return dict(self._protections or {})

    @property
    def notes(self) -> list[str]:
        """See Sandbox.notes."""
        self._probe()
        inner = "namespaces inside" if self._namespaces else f"Landlock inside, no namespaces: {self._weaker_because}"
        return [f"containers of {self._setup.image}, {inner}", *self._inner_notes]

    def run(
        self, code: str, public: Path, limits: Limits, seed: int, arguments: Sequence[str] = (), observer: str = ""
    ) -> Outcome:
        """See Sandbox.run. ToolError also when a container cannot be made, or the engine goes away."""
        check_arguments(arguments)
        content, bound = self._admit(public)
        order = {"do": "run", "code": code, "limits": asdict(limits), "seed": seed, "arguments": list(arguments)}
        order["observer"] = observer
        seconds = 2 * (limits.wall_s + _SLACK_S)  # the agent, too, tries twice

        def work(container: Container) -> Outcome:
            return read_result(Outcome, *_ask_about(container, order, public, content, seconds))

        with self._leases.lease() as gpu:
            outcome = self._pool.serve(work, self._kind(limits, gpu, bound))
        return replace(outcome, backend=self.name, gpu=gpu, protections=self.protections)

    def session(self, public: Path, limits: Limits, seed: int) -> DockerSession:
        """See Sandbox.session. It has a container to itself."""
        content, bound = self._admit(public)
        order = {"do": "open", "limits": asdict(limits), "seed": seed}

        def begin(container: Container) -> DockerSession:
            _ask_about(container, order, public, content, 2 * _SLACK_S)
            return DockerSession(container, self.protections)

        with ExitStack() as stack:
            gpu = stack.enter_context(self._leases.lease())
            session, release = self._pool.keep(begin, self._kind(limits, gpu, bound))
            held = stack.pop_all()

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
        self._client.close()

    def __enter__(self) -> DockerSandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _admit(self, public: Path) -> tuple[_Content | None, tuple[str, int, int] | None]:
        """How the folder `public` comes to a container: what is sent of it, or where it is to be mounted from."""
        if not os.path.isdir(public):
            raise ToolError(f"{public}: no such folder; is --data the folder that the task's paths start from?")
        self._probe()
        content = self._content_of(public)
        return content, None if content is not None else self._bound(public)

    def _probe(self) -> None:
        with self._probe_lock:
            if self._protections is None:
                with self._leases.lease() as gpu:
                    self._pool.serve(lambda container: None, self._kind(Limits(), gpu, None))

    def _kind(self, limits: Limits, gpu: str | None, bound: tuple[str, int, int] | None) -> Kind:
        return Kind(limits.memory_mb, limits.disk_mb, limits.processes, limits.threads, gpu, bound)

    def _content_of(self, public: Path) -> _Content | None:
        """What to send of `public`; None where it is too large."""
        now = shipping.fingerprint(public)
        key = os.path.realpath(public)
        weight = sum(_BLOCK + -(-size // _BLOCK) * _BLOCK for _, _, size, *_ in now)
        if weight > _LARGEST_SENT:
            return None
        then, content = self._contents.get(key, (None, None))
        if content is None or then != now:
            content = _Content(shipping.digest_of(shipping.pack(public)), weight)
            self._contents[key] = now, content
        return content

    def _bound(self, public: Path) -> tuple[str, int, int]:
        if not self._client.api.base_url.startswith("http+docker://localhost"):
            raise ToolError(
                f"{public} holds more than {_LARGEST_SENT >> 20} MB, too much to send to the Docker daemon at "
                f"{self.host}: run this command on the daemon's machine"
            )
        real = os.path.realpath(public)
        mounts.refuse_unreadable(Path(real))
        status = os.stat(real)
        return real, status.st_dev, status.st_ino

    def _new_container(self, kind: Hashable) -> Container:
        assert isinstance(kind, Kind)
        container = self._launch(kind, self._namespaces is not False)
        if self._namespaces is None:
            self._namespaces = container.protections["mount_namespace"]
            if not self._namespaces:
                self._weaker_because = container.weaker_because
                container.close()
                container = self._launch(kind, False)
        facts = {**container.protections, "container": True, "memory_cgroup": self._limits_memory, "disk_limit": True}
        problem = None
        if not facts["private_files"]:
            problem = "neither namespaces nor Landlock are granted inside containers: programs could read too much"
        elif self._protections not in (None, facts):
            problem = "a further container is not protected as the first one is"
        elif kind.bound is not None and container.bound_names() != sorted(os.listdir(kind.bound[0])):
            problem = f"the daemon at {self.host} does not have {kind.bound[0]}: run this command on its machine"
        if problem is not None:
            container.close()
            raise ToolError(problem)
        self._protections = facts
        self._inner_notes = container.notes
        return container

    def _launch(self, kind: Kind, namespaces: bool) -> Container:
        api = self._client.api
        with self._trouble("make a container"):
            created = api.create_container(
                self._setup.image,
                entrypoint=["python3", "-I", "-c", BOOT],
                user=_USER,
                working_dir="/",
                environment={"HOME": "/tmp"},
                labels={LABEL: str(os.getpid())},
                stdin_open=True,
                stop_signal="SIGKILL",  # an engine that shuts down need not wait for process 1, which ignores the rest
                host_config=host_config(api, kind, namespaces),
            )["Id"]
        container = None
        try:
            with self._trouble("start a container"):
                stream = api.attach_socket(created, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
                container = Container(api, created, stream)
                api.start(created)
            config = {
                "namespaces": namespaces,
                "preimport": self._setup.preimport,
                "start": self._setup.start,
                "gpu": kind.gpu is not None,
            }
            container.greet(config, self._source, self._setup.image)
            return container
        except BaseException:
            if container is not None:
                container.close()
            else:
                remove(api, created)
            raise

    def _remove_abandoned(self) -> None:
        # A command that was killed between making a container and starting it leaves one that never runs.
        api = self._client.api
        for listed in api.containers(all=True, filters={"label": LABEL, "status": "created"}):
            if time.time() - listed["Created"] > _ABANDONED_S:
                remove(api, listed["Id"])

    @contextmanager
    def _trouble(self, what: str) -> Iterator[None]:
        """ToolError for whatever Docker has to say."""
        import docker.errors
        import requests

        try:
            yield
        except docker.errors.ImageNotFound:
            raise ToolError(
                f"the Docker daemon at {self.host} has no image {self._setup.image}: `make image` builds one, "
                "or name another with --image"
            ) from None
        except docker.errors.APIError as error:
            raise ToolError(
                f"the Docker daemon at {self.host} does not {what}: {error.explanation or error}"
            ) from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise ToolError(f"the Docker daemon at {self.host} does not answer: {error}; is it running?") from error


def _ask_about(
    container: Container, order: dict[str, Any], public: Path, content: _Content | None, seconds: float
) -> Message:
    """The agent's answer to an order about the folder `public`, which is sent ahead if it is not there."""
    reply, blob = container.ask({**order, "digest": content.digest if content else None}, seconds=seconds)
    if "absent" in reply:
        packed = shipping.pack(public)
        sent = {"digest": shipping.digest_of(packed), "weight": content.weight if content else 0}
        container.ask({"do": "put", **sent}, packed, SEND_S)
        reply, blob = container.ask({**order, "digest": sent["digest"]}, seconds=seconds)
    return reply, blob


def _connect() -> Any:
    try:
        import docker
        import docker.errors
    except ImportError as error:
        raise ToolError("the docker sandbox needs the Docker library: pip install 'mletools[docker]'") from error
    try:
        return docker.from_env()
    except docker.errors.DockerException as error:
        where = os.environ.get("DOCKER_HOST", "the default socket")
        raise ToolError(
            f"no Docker daemon answers at {where}: start it, or set DOCKER_HOST; may this user reach it? ({error})"
        ) from error
