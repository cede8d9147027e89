"""Digests over named files: their contents are bytes, or the path of a file."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from .errors import ToolError

BLOCK = 1 << 20
Content: TypeAlias = bytes | Path


def content_digest(files: Mapping[str, Content]) -> str:
    """`sha256:` and the digest over the sorted (name, bytes) of `files`; names are relative to the task's folder.

    OSError when a file cannot be read.
    """
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{size(files[name])}\0".encode())
        for block in _blocks(files[name]):
            digest.update(block)
    return f"sha256:{digest.hexdigest()}"


def size(content: Content) -> int:
    """How many bytes a content has."""
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def files_digest(folder: Path, names: Sequence[str]) -> str:
    """The digest over names and bytes of files below `folder`. ToolError names the file that cannot be read."""
    try:
        return content_digest({name: folder / name for name in names})
    except OSError as error:
        raise ToolError(f"{error.filename or folder}: {error.strerror}") from error


def _blocks(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while block := file.read(BLOCK):
            yield block
