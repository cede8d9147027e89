"""What the folders of a box hold of answers, and so are hidden: the tables that tasks are made of, and this package.

tables.json has, of every table of the tasks, its package and a sketch (docs/make_tables.py writes it). Hidden are, in all
folders that solutions see: of the packages with tables everything but code; of all others the files in which a table is
found by its values, compressed or in an archive too; files of tables in formats that nothing here reads; this package.
A search reads tens of thousands of files, so its result is kept in the user's cache until a folder changes. Not covered:
what `sketches` and `contents` do not find; a file that changes below the folders of packages without a trace in these.
"""

import base64
import hashlib
import json
import os
import pkgutil
import sys
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from .contents import FORMATS, suffix_of, tables_in, values_in
from .mounts import HOMES, Hidden
from .sketches import Sketch, Sketches, is_telling

_OURS = "mletools"
_TESTS = ("tests", "test")
_PROGRAMS = (".py", ".pyc", ".so")
# All else in a package with tables may be data.
_CODE = frozenset({
    ".py", ".pyc", ".pyi", ".pyx", ".pxd", ".pxi", ".tp", ".so", ".h", ".c", ".cpp", ".in", ".build", ".toml",
    ".typed", ".css", ".js", ".html", ".md", ".rst", ".jpg", ".png",
})  # fmt: skip
# Outside packages, where a folder holds manuals, translations and programs by the ten thousands.
DATA = frozenset({
    ".csv", ".tsv", ".tab", ".txt", ".asc", ".dat", ".data", ".json", ".jsonl", ".ndjson", ".arff", ".rda",
    ".rdata", ".rds", ".rdb", ".npy", ".npz", ".pkl", ".pickle", ".joblib", ".db", ".sqlite", ".sqlite3", ".whl",
    ".egg", ".zip",
})  # fmt: skip
PACKED = (".gz", ".bz2", ".xz", ".zip")
_ARCHIVES = (".whl", ".egg", ".zip", ".conda", ".tar", ".gz", ".bz2", ".xz")
_WATCHED_LEVELS = 2
_MOST_KEPT = 1 << 18  # values of a file
_MANY = 4  # hidden files in a folder of data that are hidden one by one


@cache
def known() -> tuple[Sketches, dict[str, str], str]:
    """(the sketches, the packages with tables: module by name of the distribution, a digest of all that decides).

    Called before a process gives up this package's files, `readable` works after that.
    """
    # From the loader, because the package may be in an archive.
    files = [
        pkgutil.get_data(__package__, name) or b""
        for name in ("tables.json", "hidden.py", "contents.py", "sketches.py")
    ]
    content = json.loads(files[0])
    digest = hashlib.sha256(b"\0".join(files)).hexdigest()
    return Sketches(content["sketches"]), content["packages"], digest


def find_hidden(folders: Iterable[str]) -> Hidden:
    """What is to be hidden in `folders` (real paths; files are none of them), from the cache if nothing has changed."""
    roots = sorted({folder for folder in folders if os.path.isdir(folder)})
    roots = [root for root in roots if not any(root.startswith(f"{other}/") for other in roots)]
    return {path: names for root in roots for path, names in _hidden_below(root).items()}


def _hidden_below(root: str) -> Hidden:
    kept = remembered(root)
    if kept is None or any(_state(folder) != state for folder, state in kept["watched"].items()):
        search = _Search()
        search.visit(root)
        kept = {"watched": search.watched, "hidden": search.hidden}
        remember(root, kept)
    return dict(kept["hidden"])


def readable(paths: Iterable[str], import_path: Iterable[str]) -> Iterator[str]:
    """What this process can read of the answers: files with a table of the tasks, and folders of this package.

    Looked at are `paths`, which are to be hidden, and the data of the packages with tables on the import path.
    """
    sketches, packages, _ = known()
    folders = list(import_path)
    yield from (path for folder in folders if os.path.isdir(path := os.path.join(folder, _OURS)) and os.listdir(path))
    modules = [os.path.join(folder, name) for folder in folders for name in packages.values()]
    files = [file for path in paths for file in _files(path)]
    files += [file for module in modules for file in _files(module) if suffix_of(file) not in _CODE]
    yield from (file for file in dict.fromkeys(files) if _has_content(file) and _tells(file, sketches))


def _tells(file: str, sketches: Sketches) -> bool:
    return suffix_of(file) in FORMATS or bool(tables_in(file, sketches))


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in names)


def _has_content(file: str) -> bool:
    try:
        with open(file, "rb") as opened:
            return bool(opened.read(1))
    except OSError:
        return False


class _Search:
    """A search through folders: what it hid, and the states of folders whose change asks for another search.

    A state is of before the folder was searched, so that a change meanwhile is seen by the next search.
    """

    def __init__(self) -> None:
        self.hidden: Hidden = {}
        self.watched: dict[str, list[int] | None] = {}
        self._sketches, packages, _ = known()
        self._modules = set(packages.values())
        self._distributions = {_normal(name) for name in packages}

    def visit(self, folder: str, watch: int = _WATCHED_LEVELS, package: bool = False) -> None:
        """Search a folder, which is watched with `watch` levels below it; `package`: it is part of one."""
        home = os.path.basename(folder) in HOMES
        watch, package = (1, True) if home else (watch, package)
        if watch >= 0:
            self.watched[folder] = _state(folder)
        names: dict[bool, list[str]] = {True: [], False: []}  # by whether they are hidden
        for entry in _entries(folder):
            hide = False
            if entry.is_dir(follow_symlinks=False):
                if home and entry.name in self._modules:
                    self.watched[entry.path] = _state(entry.path)
                    hide = self._hide_data(entry.path)
                elif home and entry.name == _OURS:
                    hide = True
                elif entry.name != "__pycache__":
                    self.visit(entry.path, watch - 1, package)
            elif entry.is_file(follow_symlinks=False):
                hide = self._holds(entry.path, entry.name.lower(), package)
            names[hide].append(entry.name)
        self._hide(folder, names[True], names[False])

    def _holds(self, path: str, name: str, package: bool) -> bool:
        suffix = suffix_of(name)
        if suffix in FORMATS or (suffix in _ARCHIVES and _normal(name).startswith(tuple(self._distributions))):
            return True
        return (package or _is_data(name)) and bool(tables_in(path, self._sketches))

    def _hide_data(self, folder: str) -> bool:
        """Hide the data in a package's folder; whether it holds nothing else."""
        names: dict[bool, list[str]] = {True: [], False: []}
        for entry in _entries(folder):
            if not entry.is_dir(follow_symlinks=False):
                hide = suffix_of(entry.name) not in _CODE or bool(tables_in(entry.path, self._sketches))
            elif entry.name in _TESTS:
                hide = any(
                    suffix_of(file) not in _CODE or tables_in(file, self._sketches) for file in _files(entry.path)
                )
            else:
                hide = entry.name != "__pycache__" and self._hide_data(entry.path)
            names[hide].append(entry.name)
        if names[False]:
            self._hide(folder, names[True], names[False])
        return not names[False]

    def _hide(self, folder: str, names: Sequence[str], visible: list[str]) -> None:
        """Hide `names` of a folder: one by one, or by fewer mounts where they are many."""
        if len(names) > _MANY and not any(suffix_of(name) in ("", *_PROGRAMS) for name in visible):
            self.hidden[folder] = []  # nothing but data: no code and, without a suffix, no folder
            return
        if len(names) > len(visible) + 1:
            self.hidden[folder] = visible
        else:
            self.hidden.update((os.path.join(folder, name), []) for name in names)
        programs = [name.removesuffix(".py") for name in names if name.endswith(".py")]
        for compiled in _entries(os.path.join(folder, "__pycache__")) if programs else ():
            if compiled.name.split(".")[0] in programs:
                self.hidden[compiled.path] = []


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # nor can a solution read it
        return []


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_") + "_"


def find_copies(tables: Mapping[str, Sketch]) -> list[tuple[str, str, bool]]:
    """(table, file, whether solutions see the file) of the data files of installed packages that hold one of `tables`."""
    wanted = Sketches(tables)
    sketches, packages, _ = known()
    copies: list[tuple[str, str, bool]] = []
    if not any(map(is_telling, tables.values())):
        return copies
    for home in sorted({path for path in sys.path if os.path.basename(path) in HOMES}):
        for file, values in _values_of_data(home):
            if values is None or wanted.may_stand_in(values):
                for table in sorted(tables_in(file, wanted)):
                    module = os.path.relpath(file, home).split(os.sep)[0]
                    copies.append((table, file, module not in packages.values() and not tables_in(file, sketches)))
    return copies


def _values_of_data(home: str) -> Iterator[tuple[str, set[int] | None]]:
    """(data file below `home`, the hashes of its values; None: too many to be kept), from the cache where it has not changed."""
    key = f"values {home}"
    before: dict[str, list[Any]] = (remembered(key) or {}).get("files", {})
    kept, files = dict(before), {}
    for file in filter(lambda file: _is_data(os.path.basename(file).lower()), _files(home)):
        with suppress(OSError):
            status = os.stat(file)
            state = [status.st_size, status.st_mtime_ns]
            if file not in kept or kept[file][:2] != state:
                values = array("I", values_in(file))
                kept[file] = [
                    *state,
                    base64.b64encode(values.tobytes()).decode() if len(values) <= _MOST_KEPT else None,
                ]
            files[file] = kept[file]
            packed = kept[file][2]
            yield file, None if packed is None else set(array("I", base64.b64decode(packed)))
    if files != before:
        remember(key, {"files": files})


def _is_data(name: str) -> bool:
    suffix = suffix_of(name)
    return (suffix_of(name.removesuffix(suffix)) if suffix in PACKED else suffix) in DATA


# What was found before


def remembered(key: str) -> Any:
    """What `remember` kept for `key` under the same tables and rules; None: nothing."""
    folder = _cache_folder()
    if folder is None:
        return None
    try:
        kept = json.loads((folder / _file_name(key)).read_text(encoding="utf-8"))
        return kept["content"] if kept["rules"] == known()[2] else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def remember(key: str, content: Mapping[str, object]) -> None:
    """Keep `content` for `key` in the user's cache, where there is one, in place of what was kept for it."""
    folder = _cache_folder()
    if folder is not None:
        with suppress(OSError):
            handle, name = tempfile.mkstemp(dir=folder)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump({"rules": known()[2], "content": content}, file)
                os.replace(name, folder / _file_name(key))
            except OSError:
                os.unlink(name)
                raise


def _file_name(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32] + ".json"


def _cache_folder() -> Path | None:
    """A folder of this user alone; None: there is no place for one."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for folder in (Path(home, "mletools"), Path(tempfile.gettempdir(), f"mletools-cache-{os.geteuid()}")):
        try:
            folder.mkdir(0o700, parents=True, exist_ok=True)
            status = folder.lstat()
        except OSError:
            continue
        if status.st_uid == os.geteuid() and not status.st_mode & 0o022 and os.access(folder, os.W_OK):
            return folder
    return None


def _state(folder: str) -> list[int] | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return [status.st_dev, status.st_ino, status.st_mtime_ns]
