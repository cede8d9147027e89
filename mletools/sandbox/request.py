"""What a warm server is asked to run, and how it travels there. Not covered: the packets (`channel`)."""

import json
from dataclasses import asdict, dataclass

from .gpus import NO_DEVICE, Device
from .interface import Limits


@dataclass(frozen=True)
class RunRequest:
    """One run or session."""

    limits: Limits
    public: str  # real path of the public folder
    seed: int
    namespaces: bool
    landlock: bool
    counted: bool = False  # a cgroup around the command limits the run's processes
    arguments: tuple[str, ...] = ()
    cold: str = ""  # the source of `solution`, for a fresh interpreter; "": a fork of the warm process
    driver: str = ""  # of a session in a fresh interpreter: the source of `session_driver`
    observer: str = ""  # see Sandbox.run
    gpu: str | None = None
    device: Device = NO_DEVICE
    weights: str | None = None  # real path of the folder of pretrained weights
    shared_mb: int | None = None  # see Setup
    loopback: bool = False  # see Setup
    folder: str | None = None  # of a run without a mount namespace
    probe: bool = False  # report the active protections

    def content(self) -> bytes:
        """As JSON, of any size: sources and what an observer knows of the tables are in it."""
        return json.dumps(asdict(self)).encode()


def read_request(content: bytes) -> RunRequest:
    """The inverse of `RunRequest.content`."""
    fields = json.loads(content)
    parts = {"limits": Limits(**fields["limits"]), "device": Device(**fields["device"])}
    return RunRequest(**{**fields, **parts, "arguments": tuple(fields["arguments"])})
