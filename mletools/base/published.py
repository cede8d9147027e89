"""A policy that is trained while other processes sample from it: the shared folder.

    DIR/policy-000012/   weights (an adapter or a full model), tokenizer, state.json with the policy_version
    DIR/latest           symbolic link to the newest
    DIR/wanted.json      the trainer's demand: its version, the rollouts that it needs and has used
    DIR/lock             held while servers are given a version

Each appears complete or not at all. Not covered: writing weights (training), loading them (models).
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import ToolError

LATEST, WANTED, LOCK = "latest", "wanted.json", "lock"
REPLACED = 2.0  # seconds: longer than a version of the same name is absent while it is published again


@dataclass(frozen=True)
class Policy:
    """A published policy. `version` counts its updates."""

    version: int
    folder: Path


@dataclass(frozen=True)
class Demand:
    """A trainer's demand. rollouts: to begin per step, None where a step takes `groups` groups; used: rollouts that it has
    trained on since it began, and those that it will not train on. Of a rollout that was cut into n steps each step counts as
    1/n.

    starving: the trainer waits for rollouts. ended: it has taken its last step. held: rollouts that it had read
    before it was resumed, and that are still to be used. began: when its process did (time.time()).
    """

    version: int
    rollouts: int | None
    groups: int
    used: float
    starving: bool
    ended: bool = False
    held: float = 0
    began: float = 0.0


def newest(folder: Path) -> Policy | None:
    """The newest policy in a folder, or None. ToolError: `latest` points at something else."""
    link = folder / LATEST
    if not link.is_symlink() and not link.exists():
        return None
    last = time.monotonic() + REPLACED
    while True:
        target = link.resolve()
        try:
            version = json.loads((target / "state.json").read_text(encoding="utf-8"))["policy_version"]
        except (OSError, ValueError, KeyError) as error:
            if link.resolve() != target:
                continue  # a newer policy was published, and this one deleted
            if time.monotonic() < last:
                time.sleep(0.02)
                continue
            raise ToolError(f"{link}: points at {target}, which is no published policy") from error
        return Policy(int(version), target)


@contextlib.contextmanager
def exchanging(folder: Path) -> Iterator[None]:
    """While one process gives a version to servers and names it the newest, others that want to wait."""
    with open(folder / LOCK, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def wanted(folder: Path) -> Demand | None:
    """The trainer's latest demand, or None."""
    try:
        return Demand(**json.loads((folder / WANTED).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ToolError(f"{folder / WANTED}: not readable: {error}") from error


def ended(folder: Path, since: float) -> bool:
    """True if a trainer announced its end after `since` (seconds of time.time())."""
    try:
        written_at = (folder / WANTED).stat().st_mtime  # before its content, which may be replaced meanwhile
    except FileNotFoundError:
        return False
    demand = wanted(folder)
    return demand is not None and demand.ended and written_at > since


def say_wanted(folder: Path, demand: Demand) -> None:
    """Replace the demand atomically."""
    unfinished = folder / (WANTED + ".partial")
    unfinished.write_text(json.dumps(asdict(demand)) + "\n", encoding="utf-8")
    os.replace(unfinished, folder / WANTED)
