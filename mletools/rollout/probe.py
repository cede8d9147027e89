"""Runs inside a sandbox, as a program of its own, with names of distributions as arguments: prints what is installed."""

import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Sequence
from typing import TypedDict


class _Installed(TypedDict):
    python: str
    libraries: dict[str, str]


class Installed(_Installed, total=False):
    """The version of Python, those of the distributions that it has, and what lies in ./weights."""

    models: list[str]  # of Hugging Face's hub
    checkpoints: list[str]  # of torch.hub
    others: list[str]


def installed(names: Sequence[str]) -> Installed:
    """What the interpreter that runs this has of the distributions `names`."""
    libraries = {}
    for name in names:
        try:
            libraries[name] = str(importlib.metadata.version(name))
        except Exception:  # not installed, or installed badly
            continue
    return {"python": platform.python_version(), "libraries": libraries}


def weights() -> Installed:
    """`models`, `checkpoints` and `others` of ./weights, which the environment leads libraries to; {}: it is not there."""
    place = os.path.abspath("weights")
    hub, home = (os.environ.get(name, "") for name in ("HF_HUB_CACHE", "TORCH_HOME"))
    cached = [name for name in _names(hub) if name.startswith("models--") and _names(f"{hub}/{name}/snapshots")]
    known = {path[len(place) + 1 :].split("/")[0] for path in (hub, home and f"{home}/hub") if path.startswith(place)}
    others = [
        name for name in _names(place) if name not in known and not (hub == place and name.startswith("models--"))
    ]
    found = {
        "models": ["/".join(name.split("--")[1:]) for name in cached],
        "checkpoints": _names(f"{home}/hub/checkpoints") if home else [],
        "others": [name for name in others if name[0] != "."],
    }
    return {name: names for name, names in found.items() if names}  # type: ignore[return-value]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


if __name__ == "__main__":
    print(json.dumps({**installed(sys.argv[1:]), **weights()}))
