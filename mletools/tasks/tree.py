"""The files of somebody else's folder: found without leaving it, and named in a record without filling it.

A symbolic link is followed only when it stays inside the folder and outside what is private. Nothing is changed.
"""

import os
import stat
from collections import Counter
from pathlib import Path, PurePosixPath

from .table import Rejected

# More names than this would fill the record, which every rollout carries, and the prompt.
MOST_LISTED = 200


def files_below(folder: Path, root: Path, private: Path | None = None, *, in_place: bool = False) -> dict[str, Path]:
    """{name relative to `folder`: the real file} of all files below it, hidden ones left out.

    `root` is the folder that links may point into, but for what lies below `private`. Rejected names a link that leads
    elsewhere, a thing that is neither file nor folder, and a name that is not UTF-8; `in_place`, where agents are shown
    the folder itself, also a hidden file.
    """
    base, closed = Path(os.path.realpath(root)), private and Path(os.path.realpath(private))
    found: dict[str, Path] = {}
    todo = [("", Path(os.path.realpath(folder)), frozenset([os.path.realpath(folder)]))]
    while todo:
        prefix, here, above = todo.pop()
        for entry in _entries(here):
            name = prefix + entry.name
            path = Path(entry.path)
            if entry.name.startswith("."):
                if in_place:
                    raise Rejected(f"{folder.name}/{name} is hidden, but agents see it: remove it")
                continue
            if entry.is_symlink():
                path = Path(os.path.realpath(path))
                if not path.is_relative_to(base) or (closed and path.is_relative_to(closed)):
                    raise Rejected(f"{folder.name}/{name} is a link to {path}, outside the folder: refused")
            try:
                name.encode()
                mode = path.stat().st_mode
            except UnicodeEncodeError:
                raise Rejected(f"{folder.name}/{name!a}: the name is not UTF-8") from None
            except OSError as error:
                raise Rejected(f"{folder.name}/{name}: {error.strerror}") from None
            if stat.S_ISDIR(mode):
                if str(path) in above:
                    raise Rejected(f"{folder.name}/{name} is a link to a folder that holds it: refused")
                todo.append((f"{name}/", path, above | {str(path)}))
            elif stat.S_ISREG(mode):
                found[name] = path
            else:
                raise Rejected(f"{folder.name}/{name} is neither a file nor a folder: refused")
    return found


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise Rejected(f"{folder}: {error.strerror}") from None


def listed(names: list[str], most: int = MOST_LISTED) -> list[str]:
    """The names, sorted, or where there are more than `most` what stands for them.

    "images/" stands for every file below that folder, "*/" for every folder, "*.png" for every file with that ending
    that lies beside the other entries and is not named.
    """
    if len(names) <= most:
        return sorted(names)
    top = [name for name in names if "/" not in name]
    folders = {f"{name.split('/', 1)[0]}/" for name in names if "/" in name}
    if len(folders) > most // 2:
        folders = {"*/"}
    endings = Counter(PurePosixPath(name).suffix for name in top)
    room = most - len(folders)
    for ending, _ in endings.most_common():
        if len(top) <= room:
            break
        top = [name for name in top if PurePosixPath(name).suffix != ending or name.startswith("*")] + [f"*{ending}"]
    return sorted([*top, *folders])


def spelled_out(public: Path, entries: list[str]) -> list[str]:
    """The names of the files below `public` that a list made by `listed` stands for, hidden ones left out."""
    if not any(entry.endswith("/") or entry.startswith("*") for entry in entries):
        return sorted(entries)
    files = [path.relative_to(public) for path in public.rglob("*") if not path.is_dir()]
    return sorted(path.as_posix() for path in files if not any(part.startswith(".") for part in path.parts))
