"""A task's folder on disk: public files, private answers, and a digest over both.

Written whole or not at all: the files are built in a hidden folder under a lock and renamed at the end. A folder that
exists is checked and kept; nothing that another wrote is deleted or changed.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..records.errors import ToolError

ANSWERS = "private/answers.csv"


def content_digest(files: dict[str, bytes]) -> str:
    """`sha256:` and the digest over the sorted (name, bytes) of `files`; names are relative to the task's folder."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode())
        digest.update(files[name])
    return f"sha256:{digest.hexdigest()}"


def data_digest(folder: Path, public: list[str], answers: str) -> str:
    """The digest of a task's folder: `public` are names under folder/public, `answers` is relative to `folder`.

    ToolError names the file that cannot be read.
    """
    files = {}
    for name in [*(f"public/{name}" for name in public), answers]:
        try:
            files[name] = (folder / name).read_bytes()
        except OSError as error:
            raise ToolError(f"{folder / name}: {error.strerror}") from error
    return content_digest(files)


def write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """Makes `folder` hold `files` (names like public/train.csv), or checks that it already does.

    ToolError when the folder exists with other contents, or when it cannot be written.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        while not folder.exists():
            with _locked(partial) as ours:
                if not ours:
                    continue
                for left in partial.iterdir():
                    shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
                if folder.exists():  # another process was done between the look above and the lock
                    partial.rmdir()
                    break
                for name, content in files.items():
                    (partial / name).parent.mkdir(parents=True, exist_ok=True)
                    (partial / name).write_bytes(content)
                os.rename(partial, folder)
                return
        _check(folder, files)
    except OSError as error:
        raise ToolError(f"{error.filename or folder}: {error.strerror}") from error


@contextmanager
def _locked(partial: Path) -> Iterator[bool]:
    """Holds the lock of the half-built folder; False when another process finished it while this one waited."""
    import fcntl

    with suppress(FileExistsError):
        partial.mkdir()
    try:
        handle = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield os.path.samestat(os.stat(partial), os.fstat(handle))
        except FileNotFoundError:
            yield False
    finally:
        os.close(handle)


def _check(folder: Path, files: dict[str, bytes]) -> None:
    """ToolError unless `folder` holds `files` and public/ nothing else."""
    advice = "move it away or give another --data, then run again"
    public = folder / "public"
    there = {f"public/{path.relative_to(public).as_posix()}" for path in public.rglob("*") if not path.is_dir()}
    extra = sorted(there - set(files))
    if extra:
        raise ToolError(f"{folder}: {extra[0]} does not belong to this task: {advice}")
    for name, content in files.items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:
            raise ToolError(f"{folder}: {name} is not what this seed makes: {advice}")
