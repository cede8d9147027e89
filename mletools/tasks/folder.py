"""A task's folder on disk: public files, private answers, and digests over them.

Written whole or not at all: the files are built in a hidden folder under a lock and renamed at the end. A folder that
exists is checked and kept; nothing that another wrote is deleted or changed. A file's content is bytes, or the path of a
file that is linked in where the file system can, and copied where not.
"""

import errno
import filecmp
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

from ..base.digests import Content as Content
from ..base.digests import content_digest as content_digest
from ..base.digests import files_digest
from ..base.digests import size as size
from ..base.errors import ToolError
from ..records.places import private_files as private_files
from ..records.task import Grading
from .tree import spelled_out

ANSWERS = "private/answers.csv"
Board: TypeAlias = Literal["leaderboard", "public_leaderboard"]
BOARDS: tuple[Board, ...] = ("leaderboard", "public_leaderboard")
MOST_BYTES = 256 << 20
# A file system, or its owner, that grants no second name for a file.
NO_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}


def read(content: Content, most: int = MOST_BYTES) -> bytes:
    """The first `most` bytes of a content. OSError."""
    if isinstance(content, bytes):
        return content[:most]
    with content.open("rb") as file:
        return file.read(most)


def data_digest(folder: Path, public: list[str], answers: str) -> str:
    """The digest of a task's folder: `public` is data.public of the record, `answers` is relative to `folder`.

    ToolError names the file that cannot be read.
    """
    return files_digest(folder, [*(f"public/{name}" for name in spelled_out(folder / "public", public)), answers])


def private_digest(folder: Path, task: Grading) -> str:
    """The digest over names and bytes of what grading reads of a task's folder: data.private_digest of the record.

    ToolError names the file that cannot be read.
    """
    return files_digest(folder, private_files(task))


def write_folder(folder: Path, files: Mapping[str, Content], whole: bool = False) -> None:
    """Makes `folder` hold `files` (names like public/train.csv), or checks that it already does.

    ToolError when the folder exists with other contents, or when it cannot be written. whole: nothing else may lie in it;
    else nothing else in public/.
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
                _fill(partial, files)
                os.rename(partial, folder)
                return
        _check(folder, files, whole)
    except OSError as error:
        raise ToolError(f"{error.filename or folder}: {error.strerror}") from error


def _fill(partial: Path, files: Mapping[str, Content]) -> None:
    made: set[Path] = set()
    for name, content in files.items():
        target = partial / name
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            _link(content, target)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        shutil.copyfile(source, target)


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


def _check(folder: Path, files: Mapping[str, Content], whole: bool) -> None:
    """ToolError unless `folder` holds `files` and nothing else, or public/ nothing else."""
    advice = f"move it away or give another {'-o' if whole else '--data'}, then run again"
    top = folder if whole else folder / "public"
    there = {path.relative_to(folder).as_posix() for path in top.rglob("*") if not path.is_dir()}
    extra = sorted(there - set(files))
    if extra:
        raise ToolError(f"{folder}: {extra[0]} does not belong to this task: {advice}")
    for name, content in files.items():
        if not (folder / name).is_file() or not same(folder / name, content):
            what = "this seed makes" if isinstance(content, bytes) else "the imported folder holds"
            what = "these options write" if whole else what
            raise ToolError(f"{folder}: {name} is not what {what}: {advice}")


def same(one: Content, other: Content) -> bool:
    """Whether two contents have the same bytes."""
    if isinstance(one, Path) and isinstance(other, Path):
        return one.samefile(other) or filecmp.cmp(one, other, shallow=False)
    return size(one) == size(other) and read(one, size(one)) == read(other, size(other))
