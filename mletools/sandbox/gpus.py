"""Leases a GPU to one run at a time, and finds the device nodes that belong to it.

Covered: runs of all mletools commands on this machine, by one lock file per device in the temporary folder; cards of
NVIDIA and their MIG instances, as the driver tells of them in /proc. Not covered: other programs that use a device; cards
of other makers, whose libraries need /sys; several cards of a Windows machine, which share one node.
"""

import fcntl
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import ToolError

ANY = "any"  # one device for each run, which a cluster chooses
_POLL_S = 0.2
_ROOT = Path("/")  # of /dev and /proc
_OF_NO_CARD = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")  # what a run needs beside its own card
_WINDOWS = "dxg"  # the node for all cards of a Windows machine, in its Linux
_INSTANCE = re.compile(r"MIG-(GPU-[0-9A-Za-z-]+)/([0-9]+)/([0-9]+)")


@dataclass(frozen=True)
class Device:
    """What a run sees of this machine's hardware.

    nodes: below /dev, as far as they exist. visible: its value of CUDA_VISIBLE_DEVICES; CUDA counts only the cards that a
    process may open. unseen: folders below /proc that tell of other hardware. key: names the device, however it is spelt.
    model: of its card; None: the driver does not tell.
    """

    nodes: tuple[str, ...]
    visible: str
    unseen: tuple[str, ...]
    key: str
    model: str | None = None


NO_DEVICE = Device((), "", ("bus", "driver"), "")


@dataclass(frozen=True)
class Card:
    """A card of NVIDIA. folder: its PCI address, the name of its folder below /proc; "" where the driver does not tell."""

    minor: int
    folder: str
    uuid: str
    model: str | None = None

    @property
    def node(self) -> str:
        """Its node below /dev."""
        return f"nvidia{self.minor}"


def cards() -> list[Card]:
    """The cards that this process may open, in the order in which nvidia-smi and CUDA number them: by PCI address."""
    found = []
    for path in _ROOT.glob("proc/driver/nvidia/gpus/*/information"):
        told = dict(re.findall(r"^([^:\n]+):[ \t]*(.*?)[ \t]*$", path.read_text(), re.MULTILINE))
        excluded = "Yes" in (told.get("GPU Excluded"), told.get("Blacklisted"))  # which CUDA does not count
        if told.get("Device Minor", "").isdigit() and not excluded:
            names = path.parent.name, told.get("GPU UUID", ""), told.get("Model") or None
            found.append(Card(int(told["Device Minor"]), *names))
    if not found:
        nodes = [path.name.removeprefix("nvidia") for path in _ROOT.glob("dev/nvidia[0-9]*")]
        found = [Card(int(minor), "", "") for minor in nodes if minor.isdigit()]
    found.sort(key=lambda card: ([int(part, 16) for part in re.findall("[0-9a-f]+", card.folder)], card.minor))
    return [card for card in found if _may_open(_ROOT / "dev" / card.node)]


def _may_open(path: Path) -> bool:
    # A batch system may refuse cards that exist; CUDA then counts the others only.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except (FileNotFoundError, PermissionError):
        return False
    except OSError:  # a card that is out of order keeps its number
        pass
    return True


def find(name: str, here: Sequence[Card]) -> Device:
    """The device that `parse` accepted as `name`; `here` are the cards of this machine.

    Without any card the result has no nodes of NVIDIA. ToolError: there are cards, but none of this name.
    """
    if not here:
        return Device((_WINDOWS,) if (_ROOT / "dev" / _WINDOWS).exists() else (), name, (), name)
    match = _INSTANCE.fullmatch(name)
    if name.startswith("MIG-") and not match:
        raise ToolError(
            f"the card of {name} is not known: name it MIG-GPU-.../G/C, by the UUID of its card and the numbers of the GPU "
            "instance and the compute instance, which nvidia-smi -q lists"
        )
    uuid, *instance = match.groups() if match else (name,)
    matching = [card for at, card in enumerate(here) if str(at) == name or (card.uuid and card.uuid.startswith(uuid))]
    if len(matching) != 1:
        listed = ", ".join(f"{at} ({card.uuid or card.folder or card.node})" for at, card in enumerate(here))
        raise ToolError(
            f"{'several devices match' if matching else 'no device matches'} {name}: this machine has {listed}"
        )
    card = matching[0]
    keys = _nodes_of_instances(card, instance)
    if instance and not keys:
        raise ToolError(f"{card.uuid} has no MIG instance {'/'.join(instance)}: nvidia-smi -q lists them")
    others = [path.name for path in _ROOT.glob("proc/driver/nvidia/gpus/*") if path.name != card.folder]
    unseen = tuple(f"driver/nvidia/gpus/{folder}" for folder in sorted(others))
    model = f"{card.model}, MIG instance" if card.model and instance else card.model
    key = "-".join([card.folder or card.node, *instance])
    return Device((card.node, *_OF_NO_CARD, *keys), "0", unseen, key, model)


def _nodes_of_instances(card: Card, instance: Sequence[str]) -> list[str]:
    """The nodes that open MIG instances of `card`: all, or `instance`, a GPU instance and one of its compute instances."""
    gpu, compute = instance or ("*", "*")
    folder = _ROOT / f"proc/driver/nvidia/capabilities/gpu{card.minor}/mig"
    files = [*folder.glob(f"gi{gpu}/ci{compute}/access"), *folder.glob(f"gi{gpu}/access")]
    if instance and len(files) < 2:
        return []
    minors = [re.search(r"DeviceFileMinor:\s*([0-9]+)", file.read_text()) for file in sorted(files)]
    return [f"nvidia-caps/nvidia-cap{minor[1]}" for minor in minors if minor]


def _key(name: str, here: Sequence[Card]) -> str:
    try:
        return find(name, here).key
    except ToolError:  # it may be a device of another machine, for a daemon there
        return name


def parse(text: str) -> tuple[str, ...]:
    """The devices in a list such as "0,1" or "GPU-5e3a,MIG-GPU-77b1/2/0", or ("any",). ToolError: invalid or repeated names.

    A UUID may be abbreviated. MIG instances: the card's UUID, the GPU instance, the compute instance.
    """
    if text == ANY:
        return (ANY,)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not re.fullmatch(r"[0-9]+|(GPU|MIG)-[0-9A-Za-z/-]+", name):
            raise ToolError(f"{name!r} is not a device: give numbers or UUIDs as nvidia-smi -L lists them, e.g. 0,1")
    if len(set(names)) < len(names):
        raise ToolError(f"a device is named twice in {text}")
    return names


class Leases:
    """Lends each of `devices` to one holder at a time. `lease` may be called from any thread."""

    def __init__(self, devices: Sequence[str]) -> None:
        """ToolError: two of `devices` are the same, with different names."""
        self.devices = tuple(devices)
        here = cards() if devices else []
        self._keys = {name: _key(name, here) for name in self.devices}
        if len(set(self._keys.values())) < len(self.devices):
            raise ToolError(f"a device is named twice in {','.join(devices)}")
        self._changed = threading.Condition()
        self._lent: set[str] = set()

    @contextmanager
    def lease(self) -> Iterator[str | None]:
        """A device for the with block, after waiting for a free one; None if there are no devices."""
        if not self.devices:
            yield None
            return
        device, lock = self._take()
        try:
            yield device
        finally:
            os.close(lock)
            with self._changed:
                self._lent.discard(device)
                self._changed.notify()

    def _take(self) -> tuple[str, int]:
        while True:
            with self._changed:
                for device in self.devices:
                    if device not in self._lent:
                        lock = _try_lock(device, self._keys[device])
                        if lock is not None:
                            self._lent.add(device)
                            return device, lock
                # A return in this process notifies; locks of other commands must be polled.
                self._changed.wait(None if len(self._lent) == len(self.devices) else _POLL_S)


def _try_lock(device: str, key: str) -> int | None:
    """A descriptor that holds the lock of `device`; None while another process holds it."""
    path = Path(tempfile.gettempdir()) / f"mletools-gpu-{key.replace('/', '-')}.lock"
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o444)
    except OSError as error:
        raise ToolError(f"cannot lease GPU {device}: {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
