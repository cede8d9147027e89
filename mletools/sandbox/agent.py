"""The inside of a container: a local sandbox with one slot, which does what the command asks through stdin.

The command sends this package's own source and a configuration ahead, so an image needs nothing but Python and the
libraries. From then on orders come in on stdin and answers leave on stdout, each a line of JSON with `size` bytes after
it. Covered: the order of messages, a session in place of runs, public folders kept for later runs, telling the kernel's
kills for memory from others, ending with the command. Not covered: the container itself (`container`), and everything
within a run (`local`).
"""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from ..records.errors import ToolError
from . import landlock, linux, shipping
from .interface import Cell, Limits, Outcome, Setup
from .local import LocalSandbox
from .pool import DiedTwice
from .process_tree import remove_folder
from .session import LocalSession

PLACE = "/var/lib/mletools"  # a disk in memory, which solutions do not see
BOUND = "/mnt/mletools"  # where a public folder is that is too large to be sent
STORE_MB = 160
_BYTES = {Outcome: ("stdout", "stderr", "submission"), Cell: ("output", "submission")}

# Process 1 of the container: nothing inside can kill it.
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

Message = tuple[dict[str, Any], bytes]
R = TypeVar("R", Outcome, Cell)


def packet(message: dict[str, Any], content: bytes = b"") -> bytes:
    """A message as it travels."""
    return json.dumps({**message, "size": len(content)}).encode() + b"\n" + content


def message_of(result: Outcome | Cell) -> Message:
    """`result` on its way out of the container."""
    fields = asdict(result)
    parts = [fields.pop(name) for name in _BYTES[type(result)]]
    sizes = [None if part is None else len(part) for part in parts]
    return {"fields": fields, "sizes": sizes}, b"".join(part or b"" for part in parts)


def read_result(kind: type[R], message: dict[str, Any], content: bytes) -> R:
    """The inverse of `message_of`."""
    parts: dict[str, Any] = {}
    for name, size in zip(_BYTES[kind], message["sizes"], strict=True):
        parts[name], content = (None, content) if size is None else (content[:size], content[size:])
    return kind(**message["fields"], **parts)


def serve(source: BinaryIO, config: dict[str, Any]) -> None:
    """Answer the orders on `source` until it ends, which ends this process and so the container."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # nobody may open its streams by way of /proc
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    orders: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(source, orders), daemon=True).start()
    gpus = ("0",) if config["gpu"] else ()
    setup = Setup(1, tuple(config["preimport"]), config["start"], gpus)

    def answer(message: dict[str, Any], content: bytes = b"") -> None:
        answers.write(packet(message, content))
        answers.flush()

    try:
        sandbox = LocalSandbox(setup, namespaces=config["namespaces"])
        facts = sandbox.protections
        store = _Store(Path(PLACE, "public"))
        sessions: list[LocalSession] = []
        answer({"protections": facts, "notes": sandbox.notes, "weaker_because": sandbox.weaker_because})
    except Exception as error:
        answer({"error": _words(error)})
        os._exit(1)
    while True:
        order, content = orders.get()
        try:
            answer(*_follow(sandbox, sessions, facts, store, order, content))
        except Exception as error:  # nobody would see it on this side
            answer({"error": _words(error)})


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, (ToolError, OSError)) else f"{type(error).__name__}: {error}"


def _listen(source: BinaryIO, orders: queue.SimpleQueue[Message]) -> None:
    # Also while a run is under way: once the command is gone, nothing here has a purpose.
    with suppress(ValueError):
        while line := source.readline():
            message = json.loads(line)
            orders.put((message, source.read(message["size"])))
    os._exit(0)


def _follow(
    sandbox: LocalSandbox,
    sessions: list[LocalSession],
    facts: dict[str, bool],
    store: _Store,
    order: dict[str, Any],
    content: bytes,
) -> Message:
    if order["do"] == "put":
        store.put(order["digest"], order["weight"], content)
        return {}, b""
    if order["do"] == "list":
        return {"names": sorted(os.listdir(BOUND))}, b""
    if order["do"] in ("python", "bash"):
        return message_of(do_cell(sessions[0], order["do"], order["text"], order["wall_s"]))
    if order["do"] == "close":
        sessions.pop().close()
        if not facts["mount_namespace"]:
            _empty("/dev/shm")
        return {}, b""
    public = Path(BOUND) if order["digest"] is None else store.find(order["digest"])
    if public is None:
        return {"absent": order["digest"]}, b""
    if order["do"] == "open":
        sessions.append(sandbox.session(public, Limits(**order["limits"]), order["seed"]))
        return {}, b""
    exposed = not facts["pid_namespace"] and landlock.version() < landlock.SCOPED_SIGNALS
    limits, arguments = Limits(**order["limits"]), order["arguments"]
    outcome = run_once(sandbox, order["code"], public, limits, order["seed"], exposed, arguments, order["observer"])
    if not facts["mount_namespace"]:
        _empty("/dev/shm")
    return message_of(outcome)


def run_once(
    sandbox: LocalSandbox,
    code: str,
    public: Path,
    limits: Limits,
    seed: int,
    exposed: bool = False,
    arguments: Sequence[str] = (),
    observer: str = "",
) -> Outcome:
    """One run, with the status `memory` also where the kernel killed for the whole container's memory.

    `exposed`: a solution here can kill its own server. If two servers have died of it while the next does well, it did,
    and its status is `killed`.
    """
    kills = _kills_for_memory()
    try:
        outcome = sandbox.run(code, public, limits, seed, arguments, observer)
    except DiedTwice:
        if not exposed or sandbox.run("", public, limits, seed).status != "ok":
            raise
        return Outcome("killed", None, 0.0, 0.0, 0.0, b"", b"", None, "the run killed its own server")
    if outcome.status in ("killed", "error", "disk") and _kills_for_memory() > kills:
        return replace(outcome, status="memory")
    return outcome


def do_cell(session: LocalSession, kind: str, text: str, wall_s: float) -> Cell:
    """One cell, with the status `memory` also where the kernel killed for the whole container's memory."""
    kills = _kills_for_memory()
    cell = session.python(text, wall_s) if kind == "python" else session.bash(text, wall_s)
    if cell.status in ("killed", "error", "disk") and _kills_for_memory() > kills:
        return replace(cell, status="memory")
    return cell


def _kills_for_memory() -> int:
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with suppress(OSError):
            fields = dict(line.split(" ", 1) for line in Path(path).read_text().splitlines())
            return int(fields.get("oom_kill", 0))
    return 0


def _empty(folder: str) -> None:
    for name in os.listdir(folder):
        remove_folder(f"{folder}/{name}")


class _Store:
    """Public folders by digest, the least lately used dropped where room is wanted."""

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
