"""Packs a task's public folder for another machine, and unpacks it there.

Covered: equal archives for equal content, independent of times and owners; unpacking that writes nothing outside its
folder and makes all files readable for any user; one unpacked copy for all processes of a machine, kept while in use.
Not covered: transport, folders that do not fit into memory.
"""

import fcntl
import hashlib
import io
import os
import shutil
import stat
import tarfile
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ..base.errors import ToolError

_LOCK, _CONTENT, _PARTIAL, _GONE = "lock", "content", "partial-", ".gone-"
_IDLE_S, _KEPT = 3600.0, 64

Fingerprint = tuple[tuple[str, int, int, int, int, int], ...]


def _members(folder: Path) -> Iterator[tuple[str, str, os.stat_result]]:
    """(name in the archive, path, status) of the files and folders in `folder`, in a fixed order, parents first."""
    real = os.path.realpath(folder)

    def fail(error: OSError) -> None:
        raise error

    for parent, folders, files in os.walk(real, onerror=fail):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = os.path.join(parent, name)
            target = os.path.realpath(path)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                if not (target.startswith(real + "/") and os.path.isfile(target)):
                    raise ToolError(f"{path} is a link to {target}: only links to files in {folder} can be shipped")
                status = os.stat(target)
            if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
                raise ToolError(f"{path} is neither a file nor a folder, so it cannot be shipped: remove it")
            yield os.path.relpath(path, real), target, status


def fingerprint(folder: Path) -> Fingerprint:
    """Changes with any change in `folder`; fast, reads no content. ToolError: see `pack`."""
    try:
        return tuple(
            (name, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            for name, _, status in _members(folder)
        )
    except OSError as error:
        raise ToolError(f"cannot ship {folder}: {error}") from error


def pack(folder: Path) -> bytes:
    """`folder` as a tar archive. ToolError: a link to the outside, an unreadable file, or a special file."""
    buffer = io.BytesIO()
    try:
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, path, status in _members(folder):
                entry = tarfile.TarInfo(name)
                if stat.S_ISDIR(status.st_mode):
                    entry.type = tarfile.DIRTYPE
                    archive.addfile(entry)
                    continue
                entry.mode = 0o755 if status.st_mode & 0o111 else 0o644
                with open(path, "rb") as file:
                    entry.size = os.fstat(file.fileno()).st_size
                    archive.addfile(entry, file)
    except OSError as error:
        raise ToolError(f"cannot ship {folder}: {error}") from error
    return buffer.getvalue()


def digest_of(packed: bytes | memoryview) -> str:
    """The SHA-256 of an archive, in hexadecimal."""
    return hashlib.sha256(packed).hexdigest()


def unpack(packed: bytes | memoryview, digest: str, folder: Path) -> None:
    """Write the content of an archive to the empty `folder`. ToolError: damaged, or not made by `pack`."""
    if digest_of(packed) != digest:
        raise ToolError("a shipped folder arrived damaged: run again")
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as archive:
            for entry in archive:
                _unpack_one(archive, entry, folder)
    except tarfile.TarError as error:
        raise ToolError(f"a shipped archive is no packed folder: {error}") from error


def _unpack_one(archive: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    # Not extractall: some Python 3.10 lack its safe form, and it applies the umask to folders.
    parts = entry.name.split("/")
    if not (entry.isdir() or entry.isreg()) or {"", ".", ".."}.intersection(parts):
        raise ToolError(f"a shipped folder holds {entry.name!r}, which may not be unpacked")
    path = folder / entry.name
    if entry.isdir():
        path.mkdir()
        path.chmod(0o755)
        return
    source = archive.extractfile(entry)
    assert source is not None  # it is a regular file
    with source, open(path, "xb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    path.chmod(0o755 if entry.mode & 0o111 else 0o644)


def shared_root() -> Path:
    """The folder with this user's unpacked folders. ToolError: another user may write to it."""
    path = Path(tempfile.gettempdir(), f"mletools-shipped-{os.geteuid()}")
    with suppress(FileExistsError):
        path.mkdir(0o755)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise ToolError(f"{path} could have been filled by somebody else: remove it, or set TMPDIR to another folder")
    path.chmod(0o755)
    return path


def _lock(entry: Path, how: int) -> int | None:
    """A descriptor that holds the lock of `entry`; None if it was removed, or with LOCK_NB is in use."""
    with ExitStack() as stack:
        try:
            descriptor = os.open(entry / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, how)
            if not os.path.samestat(os.fstat(descriptor), os.stat(entry / _LOCK)):
                return None
        except (BlockingIOError, FileNotFoundError):
            return None
        stack.pop_all()
        return descriptor


@contextmanager
def unpacked(root: Path, digest: str, packed: bytes | memoryview) -> Iterator[Path]:
    """The content of `packed` as a folder, unpacked once for all processes that share `root`, kept while in use."""
    entry = root / digest
    content = entry / _CONTENT
    filled = False
    while True:
        entry.mkdir(0o755, exist_ok=True)
        lock = _lock(entry, fcntl.LOCK_SH)
        if lock is not None and content.exists():
            break
        if lock is not None:
            os.close(lock)
        lock = _lock(entry, fcntl.LOCK_EX)
        if lock is not None:
            try:
                if not content.exists():
                    _fill(entry, digest, packed)
                    filled = True
            finally:
                os.close(lock)
    try:
        os.utime(entry / _LOCK)
        if filled:
            sweep(root)
        yield content
    finally:
        os.close(lock)


def _fill(entry: Path, digest: str, packed: bytes | memoryview) -> None:
    entry.chmod(0o755)
    for left in entry.glob(f"{_PARTIAL}*"):
        shutil.rmtree(left, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=entry))
    try:
        unpack(packed, digest, partial)
        partial.chmod(0o755)
        partial.rename(entry / _CONTENT)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def sweep(root: Path, idle_s: float = _IDLE_S, kept: int = _KEPT) -> None:
    """Remove the unpacked folders that were not used for `idle_s` seconds, and all but the `kept` latest.

    Folders in use stay: their users hold a lock, which the kernel releases when they end.
    """
    entries: list[tuple[float, Path]] = []
    for entry in root.iterdir():
        if entry.name.startswith(_GONE):
            shutil.rmtree(entry, ignore_errors=True)
            continue
        with suppress(FileNotFoundError):
            entries.append(((entry / _LOCK).stat().st_mtime, entry))
    entries.sort(reverse=True)
    for rank, (used, entry) in enumerate(entries):
        if rank < kept and time.time() - used < idle_s:
            continue
        lock = _lock(entry, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is None:
            continue
        try:
            # Renamed first, so that a process that waits for the lock sees that the entry is gone.
            gone = entry.rename(root / f"{_GONE}{uuid.uuid4().hex}")
            shutil.rmtree(gone, ignore_errors=True)
        finally:
            os.close(lock)
