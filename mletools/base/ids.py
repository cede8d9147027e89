"""Ids and seeds that depend on content alone, never on a clock, a process or the order of work."""

import hashlib
import json


def canonical(value: object) -> str:
    """The canonical JSON text of a value: sorted keys, no spaces. ValueError for NaN and infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_id(*parts: object) -> str:
    """16 hexadecimal digits derived from the JSON values `parts`."""
    return hashlib.sha256(canonical(parts).encode()).hexdigest()[:16]


def derive_seed(seed: int, *parts: object) -> int:
    """A seed in [0, 2**62) for the JSON values `parts`, e.g. derive_seed(run_seed, record_id).

    Seeds are hashed because neighbouring seeds repeat samples on servers that give sample i the seed `seed + i`.
    """
    return int(hashlib.sha256(canonical([seed, *parts]).encode()).hexdigest(), 16) >> (256 - 62)


def bytes_digest(content: bytes) -> str:
    """`sha256:` and the hexadecimal digest of `content`."""
    return "sha256:" + hashlib.sha256(content).hexdigest()
