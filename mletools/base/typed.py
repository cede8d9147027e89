"""Converts parsed JSON to a type, from several threads.

msgspec builds what it knows of a type at that type's first use, and is not safe while another thread uses the same type:
the process crashes (msgspec 0.22, Python 3.11). So a type's first use is alone here.
"""

import contextlib
import threading
from typing import Any

import msgspec

_building = threading.Lock()
_built: set[Any] = set()


def convert(value: Any, wanted: Any) -> Any:
    """`value` as the hashable type `wanted`; msgspec.ValidationError where it is none. Thread-safe."""
    if wanted not in _built:
        with _building:
            if wanted not in _built:
                with contextlib.suppress(msgspec.ValidationError):
                    msgspec.convert(..., wanted)  # no JSON value, so only the type is built
                _built.add(wanted)
    return msgspec.convert(value, wanted)
