"""The process inside a container: a local sandbox with one slot that follows the command's orders.

The command first sends this package's source and a configuration, so an image needs only Python and the libraries.
Orders then arrive on stdin and replies leave on stdout, each a line of JSON followed by `size` bytes. Covered: runs,
one session, a store of public folders, the status `memory` when the kernel kills for memory, ending with the command.
Not covered: the container (`container`), the run itself (`local`).
"""

import json
import os
import queue
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict, TypeVar

from ..base.errors import ToolError
from . import landlock, linux, shipping
from .cgroup import memory_kills
from .interface import OUTPUTS, Cell, Limits, Outcome, Setup
from .local import LocalSandbox
from .mounts import Hidden
from .outputs import check_handed_out
from .pool import DiedTwice
from .process_tree import remove_folder
from .session import LocalSession

if TYPE_CHECKING:
    from ..records.rollout import Machine

PLACE = "/var/lib/mletools"  # a tmpfs that solutions do not see
BOUND = "/mnt/mletools"  # mount point of a public folder that is too large to send
WEIGHTS = "/srv/mletools"  # mount point of the folder of weights
STORE_MB = 160
_BYTES = {Outcome: ("stdout", "stderr"), Cell: ("output",)}

# Process 1 of the container, which no process inside can kill.
BOOT = f"""
import io, json, sys, zipfile
if sys.version_info < (3, 10):
    sys.exit("python3 is " + sys.version.split()[0] + ", and 3.10 or newer is needed")
config = json.loads(sys.stdin.buffer.readline() or "null")
if config:
    zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read(config["size"]))).extractall("{PLACE}/source")
    sys.path.insert(0, "{PLACE}/source")
    from mletools.sandbox.agent import serve
    serve(sys.stdin.buffer, config)
"""

R = TypeVar("R", Outcome, Cell)


class AgentConfig(TypedDict):
    """What an agent is started with."""

    namespaces: bool
    hidden: Hidden | None
    preimport: Sequence[str]
    start: str
    gpu: bool
    weights: bool  # there is a folder of weights
    shared_mb: int | None
    counted: bool  # the engine limits the container's processes


class Order(TypedDict, total=False):
    """What an agent is to do: put, list, run, open, python, bash or close, with what that needs."""

    do: str
    digest: str | None  # of a public folder; None: the mounted one
    weight: int  # put: bytes on the container's disk
    code: str
    limits: dict[str, Any]  # Limits, as JSON
    seed: int
    arguments: list[str]
    observer: str
    outputs: list[str]
    text: str  # of a cell
    wall_s: float
    place: str  # list: of a mounted folder


class Answer(TypedDict, total=False):
    """What an agent answers."""

    error: str
    absent: str | None  # the digest of a public folder that is to be put
    names: list[str]  # list
    protections: dict[str, bool]  # the greeting
    hidden: Hidden
    notes: list[str]
    weaker_because: str | None
    machine: "Machine | None"  # open
    fields: dict[str, Any]  # of an Outcome or a Cell without its bytes, as JSON
    outputs: list[str]  # the names of its outputs
    sizes: list[int]  # of its streams and its outputs, in the content


Message = tuple[Answer, bytes]


def heading(message: Mapping[str, object], content: bytes = b"") -> bytes:
    """The encoding of a message, which `content` follows."""
    return json.dumps({**message, "size": len(content)}).encode() + b"\n"


def message_of(result: Outcome | Cell) -> Message:
    """The message that carries `result`."""
    fields = asdict(result)
    outputs: dict[str, bytes] = fields.pop("outputs")
    parts = [fields.pop(name) for name in _BYTES[type(result)]] + [*outputs.values()]
    return {"fields": fields, "outputs": list(outputs), "sizes": [len(part) for part in parts]}, b"".join(parts)


def read_result(kind: type[R], outputs: Sequence[str], message: Answer, content: bytes) -> R:
    """The inverse of `message_of`. ToolError: it hands out what is none of the declared `outputs`."""
    check_handed_out(message["outputs"], outputs)
    ends = [*accumulate(message["sizes"], initial=0)]
    parts = [content[start:end] for start, end in pairwise(ends)]
    streams = _BYTES[kind]
    fields = message["fields"]
    fields.update(zip(streams, parts, strict=False))
    fields["outputs"] = dict(zip(message["outputs"], parts[len(streams) :], strict=True))
    return kind(**fields)


def serve(source: BinaryIO, config: AgentConfig) -> None:
    """Follow the orders on `source` until its end, which ends this process and so the container."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # so that no process can open its streams through /proc
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    orders: queue.SimpleQueue[tuple[Order, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(source, orders), daemon=True).start()

    def reply(message: Answer, content: bytes = b"") -> None:
        replies.write(heading(message, content))
        replies.write(content)  # not joined before: it may be large
        replies.flush()

    try:
        agent = _Agent(config)
        reply(agent.greeting)
    except Exception as error:
        reply({"error": _text_of(error)})
        os._exit(1)
    while True:
        order, content = orders.get()
        try:
            reply(*agent.follow(order, content))
        except Exception as error:  # the command reports it
            reply({"error": _text_of(error)})


def _text_of(error: Exception) -> str:
    return str(error) if isinstance(error, (ToolError, OSError)) else f"{type(error).__name__}: {error}"


def _receive(source: BinaryIO, orders: queue.SimpleQueue[tuple[Order, bytes]]) -> None:
    # In a thread of its own, to end during a run as well once the command has gone.
    with suppress(ValueError):
        while line := source.readline():
            message = json.loads(line)
            orders.put((message, source.read(message["size"])))
    os._exit(0)


class _Agent:
    def __init__(self, config: AgentConfig) -> None:
        setup = Setup(
            1,
            tuple(config["preimport"]),
            config["start"],
            ("0",) if config["gpu"] else (),
            weights=WEIGHTS if config["weights"] else None,
            shared_mb=config["shared_mb"],
        )
        self._sandbox = LocalSandbox(
            setup, namespaces=config["namespaces"], hidden=config["hidden"], counted=config["counted"]
        )
        self._protections = self._sandbox.protections
        self._store = _Store(Path(PLACE, "public"))
        self._sessions: list[LocalSession] = []
        self.greeting: Answer = {
            "protections": self._protections,
            "hidden": self._sandbox.hidden,
            "notes": self._sandbox.notes,
            "weaker_because": self._sandbox.weaker_because,
        }

    def follow(self, order: Order, content: bytes) -> Message:
        """The reply to an order."""
        if order["do"] == "put":
            self._store.put(str(order["digest"]), order["weight"], content)
            return {}, b""
        if order["do"] == "list":
            return {"names": sorted(os.listdir(order["place"]))}, b""
        if order["do"] in ("python", "bash"):
            run_cell = getattr(self._sessions[0], order["do"])
            return message_of(_with_memory_status(lambda: run_cell(order["text"], order["wall_s"])))
        if order["do"] == "close":
            self._sessions.pop().close()
            self._clean_up()
            return {}, b""
        public = Path(BOUND) if order["digest"] is None else self._store.find(order["digest"])
        if public is None:
            return {"absent": order["digest"]}, b""
        limits = Limits(**order["limits"])
        if order["do"] == "open":
            session = self._sandbox.session(public, limits, order["seed"], order["outputs"])
            self._sessions.append(session)
            return {"machine": session.machine}, b""
        rest = order["seed"], order["arguments"], order["observer"], order["outputs"]
        exposed = landlock.exposes_server(self._protections)
        outcome = run_once(self._sandbox, order["code"], public, limits, *rest, exposed=exposed)
        self._clean_up()
        return message_of(outcome)

    def _clean_up(self) -> None:
        if not self._protections["mount_namespace"]:
            for name in os.listdir("/dev/shm"):
                remove_folder(f"/dev/shm/{name}")


def run_once(
    sandbox: LocalSandbox,
    code: str,
    public: Path,
    limits: Limits,
    seed: int,
    arguments: Sequence[str] = (),
    observer: str = "",
    outputs: Sequence[str] = OUTPUTS,
    *,
    exposed: bool = False,
) -> Outcome:
    """One run, with the status `memory` also if the kernel killed for the memory of the whole container.

    `exposed`: a solution can kill its own server. If two servers die of it while the next run works, its status is
    `killed`.
    """
    try:
        return _with_memory_status(lambda: sandbox.run(code, public, limits, seed, arguments, observer, outputs))
    except DiedTwice:
        if not exposed or (next_run := sandbox.run("", public, limits, seed)).status != "ok":
            raise
        problems = dict.fromkeys(outputs, "the run killed its own server")
        return Outcome("killed", None, 0.0, 0.0, 0.0, b"", b"", {}, problems, machine=next_run.machine)


def _with_memory_status(run: Callable[[], R]) -> R:
    kills = _container_kills()
    result = run()
    if result.status in ("killed", "error", "disk") and _container_kills() > kills:
        return replace(result, status="memory")
    return result


def _container_kills() -> int:
    return memory_kills("/sys/fs/cgroup") + memory_kills("/sys/fs/cgroup/memory")


class _Store:
    """Public folders by digest; the least recently used are removed when space is needed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._weights: OrderedDict[str, int] = OrderedDict()
        root.mkdir(0o755)

    def find(self, digest: str) -> Path | None:
        if digest not in self._weights:
            return None
        self._weights.move_to_end(digest)
        return self._root / digest

    def put(self, digest: str, weight: int, packed: bytes) -> None:
        while self._weights and sum(self._weights.values()) + weight > STORE_MB << 20:
            remove_folder(str(self._root / self._weights.popitem(last=False)[0]))
        folder = self._root / digest
        remove_folder(str(folder))
        folder.mkdir(0o755)
        folder.chmod(0o755)
        shipping.unpack(packed, digest, folder)
        self._weights[digest] = weight
