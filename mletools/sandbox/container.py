"""The backend `docker`: a container for every slot in use, with a warm local sandbox inside (`agent`).

A container has no network, no capabilities, a read-only root, and limits of memory and processes. Inside, the local
sandbox isolates a solution again, by namespaces, or, if the engine grants none, by Landlock under Docker's seccomp
profile. Covered: creating and replacing containers (see `engine`), sending public folders, sessions, error messages.
Not covered: building the image (`make image`); bugs of the engine; large public folders for a remote engine.
"""

import os
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..base.errors import ToolError
from . import mounts, shipping
from .agent import BOOT, BOUND, WEIGHTS, AgentConfig, Message, Order, read_result
from .engine import SEND_S, Container, DockerSession, Kind, environment, host_config, remove, source_archive
from .gpus import Leases
from .hidden import remember, remembered
from .interface import OUTPUTS, Limits, Outcome, Setup, check_arguments, check_public
from .outputs import check_outputs
from .pool import ServerPool
from .sessions import REPLY_S, BaseSandbox
from .weights import weights_folder

LABEL = "mletools.sandbox"
_USER = "65534:65534"
_LARGEST_SENT = 64 << 20  # bytes; larger public folders are mounted
_ABANDONED_S = 300
_BLOCK = 4096

Bound = tuple[str, int, int]  # path, device and inode of a mounted public folder


@dataclass(frozen=True)
class _Content:
    digest: str
    weight: int  # bytes on the container's disk


class DockerSandbox(BaseSandbox):
    """Runs solutions in containers. `run` serves up to `slots` threads at once; others wait."""

    name = "docker"

    def __init__(self, setup: Setup, *, namespaces: bool = True) -> None:
        """Connect to the engine that DOCKER_HOST names; `namespaces` False disables namespaces inside.

        ToolError: the Docker library is not installed, no engine answers, or the folder of weights cannot be shown.
        """
        super().__init__()
        self._setup = setup
        self._weights = None if setup.weights is None else weights_folder(setup.weights)
        self._client = _connect()
        self.host = _host()
        if self._weights is not None:
            self._refuse_unmountable(self._weights, f"{setup.weights} cannot be sent")
        self._leases = Leases(setup.gpus)
        self._pool = ServerPool(setup.slots, self._new_container)
        self._probe_lock = threading.Lock()
        self._namespaces: bool | None = None if namespaces else False
        self._weaker_because: str | None = None if namespaces else "disabled"
        self._protections: dict[str, bool] | None = None
        self._inner_notes: list[str] = []
        self._hidden: mounts.Hidden | None = None  # in the image; the first container finds it
        self._contents: dict[str, tuple[shipping.Fingerprint, _Content]] = {}
        self._source = source_archive()
        with self._engine_errors("answer"):
            info = self._client.api.info()
            self._limits_memory = bool(info.get("MemoryLimit"))
            self._limits_processes = bool(info.get("PidsLimit"))
            self._remove_abandoned()

    @property
    def protections(self) -> dict[str, bool]:
        """See Sandbox.protections; also `container`, and `memory_cgroup` if the engine limits memory."""
        self._probe()
        return dict(self._protections or {})

    @property
    def notes(self) -> list[str]:
        """See Sandbox.notes."""
        self._probe()
        inner = "namespaces inside" if self._namespaces else f"Landlock inside, no namespaces: {self._weaker_because}"
        return [f"containers of {self._setup.image}, {inner}", *self._inner_notes]

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
        """See Sandbox.run. ToolError also if a container cannot be created, or the engine is gone."""
        check_arguments(arguments)
        check_outputs(outputs)
        content, bound = self._admit(public)
        order: Order = {"do": "run", "code": code, "limits": asdict(limits), "seed": seed, "arguments": list(arguments)}
        order["observer"], order["outputs"] = observer, list(outputs)
        seconds = 2 * (limits.wall_s + REPLY_S)  # the agent also tries twice

        def work(container: Container) -> Outcome:
            return read_result(Outcome, outputs, *_ask_about(container, order, public, content, seconds))

        with self._leases.lease() as gpu:
            outcome = self._pool.serve(work, self._kind(limits, gpu, bound))
        return replace(outcome, backend=self.name, gpu=gpu, protections=self.protections)

    def session(self, public: Path, limits: Limits, seed: int, outputs: Sequence[str] = OUTPUTS) -> DockerSession:
        """See Sandbox.session. Each has a container of its own."""
        check_outputs(outputs)
        content, bound = self._admit(public)
        order: Order = {"do": "open", "limits": asdict(limits), "seed": seed, "outputs": list(outputs)}

        def begin(container: Container) -> DockerSession:
            reply, _ = _ask_about(container, order, public, content, 2 * REPLY_S)
            session = DockerSession(container, self.protections, outputs)
            session.machine = reply["machine"]
            return session

        with ExitStack() as stack:
            gpu = stack.enter_context(self._leases.lease())
            session, release = self._pool.keep(begin, self._kind(limits, gpu, bound))
            session.gpu = gpu
            resources = stack.pop_all()
        return self._add_session(session, release, resources)

    def close(self) -> None:
        """See Sandbox.close."""
        self._close_sessions()
        self._pool.close()
        self._client.close()

    def _admit(self, public: Path) -> tuple[_Content | None, Bound | None]:
        """The content of the folder `public`, to be sent, or its path, to be mounted."""
        check_public(public)
        mounts.refuse_answers_among_weights(self._weights, public)
        self._probe()
        content = self._content_of(public)
        return content, None if content is not None else self._bound(public)

    def _probe(self) -> None:
        with self._probe_lock:
            if self._protections is None:
                with self._leases.lease() as gpu:
                    self._pool.serve(lambda container: None, self._kind(Limits(), gpu, None))

    def _kind(self, limits: Limits, gpu: str | None, bound: Bound | None) -> Kind:
        own = limits.submission_mb, self._weights, self._setup.shared_mb
        return Kind(limits.memory_mb, limits.disk_mb, limits.processes, limits.threads, gpu, bound, *own)

    def _content_of(self, public: Path) -> _Content | None:
        """The content of `public` to send; None if it is too large."""
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

    def _refuse_unmountable(self, folder: str, because: str) -> None:
        """ToolError: the daemon is on another machine, or an ordinary user cannot read all of `folder` (a real path)."""
        if not self._client.api.base_url.startswith("http+docker://localhost"):
            raise ToolError(f"{because} to the Docker daemon at {self.host}: run this command on the daemon's machine")
        mounts.refuse_unreadable(Path(folder))

    def _bound(self, public: Path) -> Bound:
        real = os.path.realpath(public)
        self._refuse_unmountable(real, f"{public} holds more than {_LARGEST_SENT >> 20} MB, too much to send")
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
        ours = {"container": True, "memory_cgroup": self._limits_memory, "disk_limit": True}
        protections = {**container.protections, **ours}
        problem = None
        if not protections["private_files"]:
            problem = "neither namespaces nor Landlock work inside containers: programs could read too much"
        elif self._protections not in (None, protections):
            problem = "another container does not have the protections of the first one"
        for place, folder in ((BOUND, kind.bound[0] if kind.bound else None), (WEIGHTS, kind.weights)):
            if folder is not None and not problem and container.names(place) != sorted(os.listdir(folder)):
                problem = f"the daemon at {self.host} does not have {folder}: run this command on its machine"
        if problem is not None:
            container.close()
            raise ToolError(problem)
        self._protections = protections
        self._inner_notes = container.notes
        return container

    def _launch(self, kind: Kind, namespaces: bool) -> Container:
        api = self._client.api
        with self._engine_errors("create a container"):
            created = api.create_container(
                self._setup.image,
                entrypoint=["python3", "-I", "-c", BOOT],
                user=_USER,
                working_dir="/",
                environment=environment(kind),
                labels={LABEL: str(os.getpid())},
                stdin_open=True,
                stop_signal="SIGKILL",  # process 1 ignores other signals, and an engine waits for it
                host_config=host_config(api, kind, namespaces),
            )["Id"]
        container = None
        try:
            with self._engine_errors("start a container"):
                stream = api.attach_socket(created, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
                container = Container(api, created, stream)
                api.start(created)
                image = f"image {api.inspect_container(created)['Image']}"
            config: AgentConfig = {
                "namespaces": namespaces,
                "hidden": self._hidden or remembered(image),
                "preimport": self._setup.preimport,
                "start": self._setup.start,
                "gpu": kind.gpu is not None,
                "weights": kind.weights is not None,
                "shared_mb": kind.shared_mb,
                "counted": self._limits_processes,
            }
            container.greet(config, self._source, self._setup.image)
            if config["hidden"] is None:
                remember(image, container.hidden)
            self._hidden = container.hidden
            return container
        except BaseException:
            if container is not None:
                container.close()
            else:
                remove(api, created)
            raise

    def _remove_abandoned(self) -> None:
        # A command that is killed between creating and starting a container leaves one that never runs.
        api = self._client.api
        for listed in api.containers(all=True, filters={"label": LABEL, "status": "created"}):
            if time.time() - listed["Created"] > _ABANDONED_S:
                remove(api, listed["Id"])

    @contextmanager
    def _engine_errors(self, action: str) -> Iterator[None]:
        """Turns Docker's errors into ToolError."""
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
                f"the Docker daemon at {self.host} does not {action}: {error.explanation or error}"
            ) from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise ToolError(f"the Docker daemon at {self.host} does not answer: {error}; is it running?") from error


def _ask_about(container: Container, order: Order, public: Path, content: _Content | None, seconds: float) -> Message:
    """The agent's reply to an order about the folder `public`, which is sent if the container does not have it."""
    reply, blob = container.ask({**order, "digest": content.digest if content else None}, seconds=seconds)
    if "absent" in reply:
        packed = shipping.pack(public)
        digest = shipping.digest_of(packed)
        container.ask({"do": "put", "digest": digest, "weight": content.weight if content else 0}, packed, SEND_S)
        reply, blob = container.ask({**order, "digest": digest}, seconds=seconds)
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
        raise ToolError(
            f"no Docker daemon answers at {_host()}: start it, or set DOCKER_HOST; may this user reach it? ({error})"
        ) from error


def _host() -> str:
    return os.environ.get("DOCKER_HOST", "the default socket")
