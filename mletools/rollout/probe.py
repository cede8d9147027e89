"""Runs inside a sandbox, as a program of its own, with names of distributions as arguments: prints what is installed."""

import importlib.metadata
import json
import platform
import sys
from collections.abc import Sequence
from typing import TypedDict


class Installed(TypedDict):
    """The version of Python, and those of the distributions that it has."""

    python: str
    libraries: dict[str, str]


def installed(names: Sequence[str]) -> Installed:
    """What the interpreter that runs this has of the distributions `names`."""
    libraries = {}
    for name in names:
        try:
            libraries[name] = str(importlib.metadata.version(name))
        except Exception:  # not installed, or installed badly
            continue
    return {"python": platform.python_version(), "libraries": libraries}


if __name__ == "__main__":
    print(json.dumps(installed(sys.argv[1:])))
