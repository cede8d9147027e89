"""Identities and seeds that depend on content alone, never on a clock, a process or the order of work."""

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """One text for one JSON value: keys sorted, no spaces, no NaN or infinity (ValueError)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_id(*parts: Any) -> str:
    """16 hexadecimal digits derived from the JSON values `parts`."""
    return hashlib.sha256(canonical(parts).encode()).hexdigest()[:16]


def derive_seed(seed: int, *parts: Any) -> int:
    """A seed in [0, 2**62) for the thing named by the JSON values `parts`, e.g. derive_seed(run_seed, record_id).

    Neighbouring seeds repeat samples in some servers (sample i uses seed + i), so seeds are hashed apart.
    """
    return int(hashlib.sha256(canonical([seed, *parts]).encode()).hexdigest(), 16) >> (256 - 62)


def file_digest(path: Any) -> str:
    """`sha256:` and the hexadecimal digest of a file's bytes."""
    with open(path, "rb") as file:
        return (
            "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
            if hasattr(hashlib, "file_digest")
            else ("sha256:" + hashlib.sha256(file.read()).hexdigest())
        )


def bytes_digest(content: bytes) -> str:
    """`sha256:` and the hexadecimal digest of `content`."""
    return "sha256:" + hashlib.sha256(content).hexdigest()
