"""What becomes of the files of held-out rows, pictures say, that a row names by its id or by another column.

A file in a folder that test rows have files in, too, stays. Where training and test rows have folders (or .zip archives)
of their own, it moves to the test rows' one, under its name. A file for which the test rows have nothing alike, a mask
say, may be an answer: the view leaves it out. Not covered: files named by several columns together, other archives,
labels that a name or a picture tells.
"""

import io
import zipfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ..folder import Content
from ..table import Rejected
from .leaks import TABLES
from .tables import MOST_BYTES, Table

# What a training folder's name says, and what the test folder's says in its place.
PAIRS = (("training", "testing"), ("training", "test"), ("train", "test"), ("Train", "Test"), ("TRAIN", "TEST"))
IN = "\0"  # between an archive's name and a member's


@dataclass
class Files:
    """What differs in a view: files by name, and the names that it has no more."""

    public: dict[str, Content] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)


def files_of(
    public: Path, names: Sequence[str], ids: Sequence[str], train: Table, test: Table, out: Collection[int]
) -> Files:
    """The files of a view whose held-out rows are the rows `out` of `train`. Rejected where some cannot move."""
    archives = _archives(public, names)
    entries = [name for name in names if not name.lower().endswith((*TABLES, ".zip"))]
    entries += [f"{archive}{IN}{member}" for archive, members in archives.items() for member in members]
    by_key: dict[str, list[str]] = {}
    for entry in entries:
        name = PurePosixPath(_path(entry)).name
        for key in {name, name.partition(".")[0], name.rpartition(".")[0]} - {""}:
            by_key.setdefault(key, []).append(entry)
    column = _link(by_key, ids, train, test)
    if column is None:
        _check_apart(names)
        return Files()
    cells = [cell.strip() for cell in train.columns[column]]
    held = {cells[at] for at in out}
    if any(cells[at] in held for at in range(len(cells)) if at not in out):
        raise Rejected(f"training rows share files (column {column!r}): no row can move")
    shared = {_folder(entry) for cell in test.columns[column] for entry in by_key.get(cell.strip(), ())}
    every, there = {_folder(entry) for entry in entries}, set(entries)
    moves: dict[str, str | None] = {}
    for cell in sorted(held):
        found = by_key.get(cell, [])
        places = {entry: entry if _folder(entry) in shared else _beside_test(entry, every) for entry in found}
        if found and not any(places.values()):
            raise Rejected(
                f"the files of training rows lie in a folder of their own ({_shown(found[0])}): no row can move"
            )
        moves |= {entry: place for entry, place in places.items() if place != entry}
    taken = next((place for place in moves.values() if place in there), None)
    if taken is not None:
        raise Rejected(f"{_shown(taken)} has a file of that name: no row can move")
    return _moved(public, moves, archives)


def _archives(public: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """{name: members} of the .zip archives that come in pairs, of training and of test rows."""
    zips = {name for name in names if name.lower().endswith(".zip")}
    pairs = {(name, other) for name in zips for other in _others(name) if other in zips}
    found = {}
    for name in sorted({name for pair in pairs for name in pair}):
        try:
            with zipfile.ZipFile(public / name) as archive:
                found[name] = [each.filename for each in archive.infolist() if not each.is_dir()]
        except FileNotFoundError:
            raise
        except (OSError, zipfile.BadZipFile) as error:
            raise Rejected(f"public/{name} cannot be read: {error}") from None
    return found


def _link(by_key: dict[str, list[str]], ids: Sequence[str], train: Table, test: Table) -> str | None:
    """The column whose cells name the files of at least half of the training rows; None: there is no such column."""
    shared = [name for name in test.columns if name in train.columns and name not in ids]
    for name in [*(ids if len(ids) == 1 else ()), *shared]:
        cells = train.columns[name]
        if 2 * sum(cell.strip() in by_key for cell in cells) >= len(cells):
            return name
    return None


def _check_apart(names: Sequence[str]) -> None:
    """Rejected where training and test rows have folders of their own, and no column says which file is whose."""
    folders = {part.lower() for name in names for part in PurePosixPath(name).parts[:-1]}
    of_train = [part for part in sorted(folders) if part.startswith("train")]
    if of_train and any(part.startswith("test") for part in folders):
        raise Rejected(f"the files of training rows lie in a folder of their own ({of_train[0]}/): no row can move")


def _path(entry: str) -> str:
    return entry.rpartition(IN)[2]


def _folder(entry: str) -> str:
    """The archive and the folder that an entry lies in."""
    archive, mark, path = entry.rpartition(IN)
    return f"{archive}{mark}{path.rpartition('/')[0]}"


def _shown(entry: str) -> str:
    archive, mark, path = _folder(entry).rpartition(IN)
    return archive if mark else f"{path}/"


def _others(folder: str) -> list[str]:
    return [folder.replace(word, other) for word, other in PAIRS if word in folder]


def _beside_test(entry: str, folders: Collection[str]) -> str | None:
    """Where the test rows have what `entry` is for a training row; None: nowhere."""
    path = _path(entry)
    for folder in _others(_folder(entry)):
        archive, mark, _ = folder.rpartition(IN)
        within = sorted(each for each in folders if mark and each.startswith(f"{archive}{mark}"))
        for place in [folder] if folder in folders else within if len(within) == 1 else []:
            return f"{place}{'' if place.endswith(IN) or not place else '/'}{path.rpartition('/')[2]}"
    return None


def _moved(public: Path, moves: dict[str, str | None], archives: dict[str, list[str]]) -> Files:
    files = Files()
    changed: set[str] = set()
    for entry, place in moves.items():
        archive, mark, _ = entry.rpartition(IN)
        if mark:
            changed |= {archive} | ({place.rpartition(IN)[0]} if place else set())
        else:
            files.gone.add(entry)
            if place is not None:
                files.public[place] = public / entry
    total = sum((public / name).stat().st_size for name in changed)
    if total > MOST_BYTES:
        raise Rejected(f"the archives of the rows' files have {total} bytes; at most {MOST_BYTES} are written anew")
    incoming: dict[str, list[tuple[str, str]]] = {name: [] for name in sorted(changed)}
    for entry, place in moves.items():
        if place is not None and IN in place:
            incoming[place.rpartition(IN)[0]].append((entry, _path(place)))
    for name, added in incoming.items():
        kept = [f"{name}{IN}{member}" for member in archives[name] if f"{name}{IN}{member}" not in moves]
        files.public[name] = _archive(public, [*((entry, _path(entry)) for entry in kept), *added])
    return files


def _archive(public: Path, members: Sequence[tuple[str, str]]) -> bytes:
    """A .zip archive of members of others, (entry, new name) each, in the order of the names and without times."""
    out = io.BytesIO()
    sources: dict[str, zipfile.ZipFile] = {}
    try:
        with zipfile.ZipFile(out, "w") as archive:
            for entry, name in sorted(members, key=lambda pair: pair[1]):
                source, _, member = entry.rpartition(IN)
                if source not in sources:
                    sources[source] = zipfile.ZipFile(public / source)
                info = sources[source].getinfo(member)
                content = sources[source].read(info)
                archive.writestr(zipfile.ZipInfo(name), content, compress_type=info.compress_type)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise Rejected(f"an archive of the rows' files cannot be written anew: {error}") from None
    finally:
        for each in sources.values():
            each.close()
    return out.getvalue()
