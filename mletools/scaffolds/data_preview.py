"""What the files of a task look like, as a short text for a prompt; their names and beginnings, for an agent that asks.

Covered: tables (rows, columns, types, missing cells, the first values), text and JSON (the first lines), folders (how
many files, of which kinds and sizes). Files are read up to a bound, never as a whole where they are larger; whatever is
in them or in their names stays inside one fence and cannot begin a line there. Links are not followed. Not covered:
what is inside images, audio and archives; statistics.
"""

import codecs
import io
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.csv_files import CsvError, read_rows
from .messages import escaped, fenced, one_line

MOST_CHARACTERS = 2400  # of a preview, about
READ = 16 << 20  # bytes of a table whose rows are counted; of a larger one their number is estimated
TYPED_ROWS = 1000  # rows that types and missing cells are taken from
SHOWN_ROWS, CELL = 3, 24  # rows whose values are shown; characters of a cell
FIRST_COLUMNS, LAST_COLUMNS, COLUMN = 12, 2, 40  # columns shown; characters of a name
FEW = 10  # up to so many different values of a column are counted
TEXT_READ, TEXT_LINES, TEXT_LINE = 4096, 3, 160  # bytes, lines and characters of a line that are shown of a text
MOST_ENTRIES = 100_000  # files that are looked at
TABLES = {".csv": ",", ".tsv": "\t"}
TEXTS = {".txt", ".md", ".json", ".jsonl", ".log", ".yaml", ".yml", ".xml", ".html"}
SAMPLE, DESCRIPTION = "sample_submission.csv", "description.md"  # its text is in the prompt
ORDER = ("train.csv", "test.csv", SAMPLE)
_INTEGER = re.compile(r"[+-]?\d{1,18}")
MISSING = {"", "na", "nan", "n/a", "null", "none"}

MOST_FILES, LOOKED_AT, LINES_LOOKED_AT = 40, 4096, 6  # of an agent that asks: files listed; bytes, lines that are shown
LOOKED_INTO = {".csv", ".tsv", ".json", ".jsonl", ".txt"}


@dataclass(frozen=True)
class File:
    """A file of the folder: its path from there, and its size."""

    name: str
    size: int

    @property
    def suffix(self) -> str:
        return os.path.splitext(self.name)[1].lower()


def data_preview(folder: Path, most: int = MOST_CHARACTERS) -> str:
    """The files below `folder` as a fenced text of about `most` characters: tables first, then texts, then folders."""
    files, more = _files(folder)
    top = [file for file in files if "/" not in file.name]
    rank = {name: number for number, name in enumerate(ORDER)}
    top.sort(key=lambda file: (file.suffix not in TABLES, file.suffix not in TEXTS, rank.get(file.name, 9), file.name))
    room, lines, left_out = most, list[str](), 0
    known: dict[str, list[str]] = {}
    for part in [*(_of_file(folder, file, known) for file in top), *_folders(folder, files)]:
        for shorter in (part, part[:1]):  # one that does not fit is only named
            size = sum(len(line) + 1 for line in shorter)
            if size <= room:
                lines, room = [*lines, *shorter], room - size
                break
        else:
            left_out += 1
    if left_out:
        lines.append(f"and {left_out} more files or folders")
    if more:
        lines.append(f"and more files: only the first {MOST_ENTRIES} were looked at")
    return fenced("\n".join(lines) or "no files", "text")


def _files(folder: Path) -> tuple[list[File], bool]:
    """The regular files below a folder in the order of their names, and whether there are more of them."""
    files: list[File] = []
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if len(files) == MOST_ENTRIES:
                return files, True
            full = os.path.join(path, name)
            status = os.lstat(full)
            if stat.S_ISREG(status.st_mode):
                files.append(File(os.path.relpath(full, folder), status.st_size))
    return files, False


def _of_file(folder: Path, file: File, known: dict[str, list[str]]) -> list[str]:
    """The lines about a file at the top; `known` are the columns of the tables before it."""
    lines = None
    try:
        if file.suffix in TABLES:
            lines = _table(folder / file.name, file, known)
        if lines is None and file.suffix in {*TABLES, *TEXTS} and file.name != DESCRIPTION:
            lines = _text(folder / file.name, file)
    except OSError as error:
        return [f"{_line(file.name, 200)}: cannot be read: {error.strerror}"]
    return lines or [f"{_line(file.name, 200)}: {_size(file.size)}"]


# --- tables ------------------------------------------------------------------------------------------------------------


def _table(path: Path, file: File, known: dict[str, list[str]]) -> list[str] | None:
    """The lines about a table; None where the file is none."""
    text, encoding = _decoded(path, READ)
    if text is None:
        return None
    header = text[:TEXT_READ].partition("\n")[0]
    delimiter = TABLES[file.suffix]
    if delimiter not in header:
        delimiter = max((delimiter, ";", "\t", "|"), key=header.count)
    rows = read_rows(io.StringIO(text, newline=""), delimiter, strict=False)
    try:
        names = next(rows, None)
        if not names:
            return None
        typed = [row for row, _ in zip(rows, range(TYPED_ROWS), strict=False) if row]
        count = len(typed) + sum(1 for row in rows if row)
    except CsvError:
        return None
    size = f"{count:,} row{'s' * (count != 1)}"
    if file.size > READ:
        size = f"about {round(count * file.size / READ / 1000) * 1000:,} rows"
    notes = [encoding, "" if delimiter == TABLES[file.suffix] else f"delimiter {delimiter!r}"]
    head = [size, f"{len(names):,} columns" if len(names) > 1 else "1 column", *filter(None, notes), _size(file.size)]
    title = f"{_line(file.name, 200)}: {', '.join(head)}"
    like = next((other for other, columns in known.items() if set(names) <= set(columns)), None)
    known[file.name] = names
    if file.name == SAMPLE:
        return [f"{title}, begins:", *_first_lines(text)]
    if like is not None:
        without = [_line(name, COLUMN) for name in known[like] if name not in names]
        rest = [f"and {len(without) - FEW} more"] if len(without) > FEW else []
        but = f" without {', '.join([*without[:FEW], *rest])}" if without else ""
        return [f"{title}; the columns of {_line(like, 200)}{but}"]
    return [title, *_columns(names, typed, count)]


def _columns(names: Sequence[str], rows: Sequence[Sequence[str]], count: int) -> Iterator[str]:
    """A line for each column that is shown."""
    shown = list(range(len(names)))
    if len(names) > FIRST_COLUMNS + LAST_COLUMNS:
        shown = [*shown[:FIRST_COLUMNS], -1, *shown[-LAST_COLUMNS:]]
    looked_at = f" in the first {len(rows):,} rows" if count > len(rows) else ""
    for place in shown:
        if place < 0:
            yield f"  ... {len(names) - FIRST_COLUMNS - LAST_COLUMNS:,} more columns"
            continue
        cells = [row[place].strip() if place < len(row) else "" for row in rows]
        present = [cell for cell in cells if cell.lower() not in MISSING]
        notes = [_type(present)]
        if different := _different(present):
            notes.append(f"{different} different values" if different > 1 else "the same in all rows")
        if len(present) < len(cells):
            notes.append(f"{len(cells) - len(present):,} missing{looked_at}")
        values = ", ".join(_line(cell, CELL) or "(empty)" for cell in cells[:SHOWN_ROWS])
        yield f"  {_line(names[place], COLUMN) or '(no name)'}: {', '.join(notes)}; {values or 'no rows'}"


def _type(cells: Sequence[str]) -> str:
    if not cells:
        return "empty"
    if all(_INTEGER.fullmatch(cell) for cell in cells):
        return "integer"
    return "number" if all(map(_is_number, cells)) else "text"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _different(cells: Sequence[str]) -> int:
    """How many different values there are; 0 for more than a few, or where each occurs once."""
    values = set[str]()
    for cell in cells:
        values.add(cell)
        if len(values) > FEW:
            return 0
    return len(values) if len(values) < len(cells) else 0


# --- other files -------------------------------------------------------------------------------------------------------


def _text(path: Path, file: File) -> list[str] | None:
    """The size of a text and its first lines; None where it is none."""
    text, encoding = _decoded(path, TEXT_READ)
    if text is None:
        return None
    lines = _first_lines(text)
    notes = f", {encoding}" if encoding else ""
    return [f"{_line(file.name, 200)}: {_size(file.size)}{notes}{', begins:' if lines else ''}", *lines]


def _first_lines(text: str) -> list[str]:
    lines = [line for line in text[:TEXT_READ].split("\n") if line.strip()][:TEXT_LINES]
    return [f"  {_line(line, TEXT_LINE)}" for line in lines]


def _decoded(path: Path, most: int) -> tuple[str | None, str]:
    """(the first `most` bytes of a file as text, a note on its encoding); (None, "") for bytes that are no text.

    Without the last line, which may be cut, where there is more.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    cut = len(data) > most
    data = data[:most]
    note, text = "", ""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        note, text = "UTF-16", data.decode("utf-16", "replace")
    elif b"\0" in data:
        return None, ""
    else:
        try:
            text = codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=not cut)
        except UnicodeDecodeError:
            note, text = "not UTF-8", data.decode("latin-1")
    if cut and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    return text, note


def _folders(folder: Path, files: Sequence[File]) -> Iterator[list[str]]:
    """A line for each folder, and the beginning of its first text."""
    inside: dict[str, list[File]] = {}
    for file in files:
        if "/" in file.name:
            inside.setdefault(file.name.rpartition("/")[0], []).append(file)
    for name, members in inside.items():
        kinds: dict[str, int] = {}
        for file in members:
            kinds[file.suffix or "without suffix"] = kinds.get(file.suffix or "without suffix", 0) + 1
        common = sorted(kinds, key=lambda kind: -kinds[kind])[:3]
        counts = ", ".join(f"{kinds[kind]:,} {_line(kind, CELL)}" for kind in common)
        others = len(members) - sum(kinds[kind] for kind in common)
        sizes = sorted(file.size for file in members)
        each = _size(sizes[0]) if sizes[0] == sizes[-1] else f"{_size(sizes[0])} to {_size(sizes[-1])}"
        title = f"{_line(name, 200)}/: {counts}{f', {others:,} others' if others else ''}; {each} each"
        first = members[0]
        begins = _of_file(folder, first, {}) if first.suffix in {*TABLES, *TEXTS} else []
        yield [f"{title}; the first is {_line(first.name, 200)}", *(f"  {line}" for line in begins[1 : 1 + FEW])]


def _size(size: int) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1024  # type: ignore[assignment]
    return f"{size:.1f} GB"


def _line(text: str, most: int) -> str:
    """A text of a file as one line of at most `most` characters."""
    line = one_line(text[: 4 * most])
    return line if len(line) <= most else f"{line[: most - 3]}..."


# --- an agent that asks ------------------------------------------------------------------------------------------------


def listing(folder: Path) -> str:
    """The files below a folder with their sizes, and how the tables and texts at its top begin."""
    files = sorted(_files(folder)[0], key=lambda file: Path(file.name))
    lines = [f"{one_line(file.name)} ({file.size} bytes)" for file in files[:MOST_FILES]]
    more = [f"and {len(files) - MOST_FILES} more"] if len(files) > MOST_FILES else []
    tables = [beginning(folder, file.name) for file in files if "/" not in file.name and file.suffix in LOOKED_INTO]
    return "\n".join(lines + more) + "\n\n" + "\n\n".join(tables)


def beginning(folder: Path, name: str) -> str:
    """How a file of a folder begins; of a link, that there is none."""
    path = folder / name
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return f"There is no file {name}."
        text, encoding = _decoded(path, 4 * LOOKED_AT)
    except OSError:
        return f"There is no file {name}."
    if text is None:
        return f"{one_line(name)} is no text."
    lines = [line.removesuffix("\r") for line in text[:LOOKED_AT].split("\n")[:LINES_LOOKED_AT]]
    note = f" ({encoding})" if encoding else ""
    return f"{one_line(name)}{note} begins:\n" + "\n".join(escaped(line[: LOOKED_AT // 4]) for line in lines).rstrip()
