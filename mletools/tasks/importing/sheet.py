"""A table of somebody else's out of a file, whatever its encoding, its separators and what stands around its rows.

Read, and said in `notes`, is what has one reading: UTF-16 with its mark, Windows-1252, semicolons, tabs and bars, `sep=`,
lines before the header, comments, a last line of totals, decimal commas beside another separator, a column twice, row
numbers without a name. Anything else is Rejected with what it looks like and the option that reads it. Not covered: what
the columns mean.
"""

import codecs
import csv
import gzip
import io
import re
import shlex
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ...base import csv_files
from ..table import MISSING, NUMBER, Rejected
from .columns import FRAMES, Columns, check_size, names_of_frame, of_frame, reject_pointer, sheets_of

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " "}
NAMES = {character: name for name, character in SEPARATORS.items()}
NEARLY_ALL = 0.8  # of a column's cells that are numbers: the others are strays
_LOOKED_AT = 200  # lines that tell the separator
_HEAD_BYTES = 1 << 20  # of a file whose header alone is asked for
_SEP_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_COMMENT = ("#", "%")
_TOTAL = re.compile(
    r"\W*((grand|sub)?[ -]?totals?|sums?|averages?|means?|summe|gesamt|insgesamt|total général)\W*", re.I
)
_DECIMAL_COMMA = re.compile(r"\s*[-+]?(?=,?[0-9])([1-9][0-9]{0,2}(\.[0-9]{3})+|[0-9]*)(,[0-9]*)?([eE][-+]?[0-9]+)?\s*")
_THOUSANDS = re.compile(r"\s*[-+]?[1-9][0-9]{0,2}(\.[0-9]{3})+\s*")
_SMALL = re.compile(r"\s*[-+]?[0-9]{1,3}\s*")
_ENGLISH = re.compile(r"\s*[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+\s*")
# The bytes above ASCII that Western European text holds in Windows-1252, which are also those of Latin-1.
_WESTERN = re.compile(rb"[\x00-\x7f\x80\x85\x91-\x97\x99\xa0-\xff]*")


# What pandas calls a column of Excel without a name, and the rows' names in Parquet.
_NAMELESS = re.compile(r"Unnamed: [0-9]+|__index_level_[0-9]+__")


class Nameless(Rejected):
    """A table whose first line does not name its columns."""


class Quoting(TypedDict, total=False):
    """How cells are quoted, as csv.reader takes it."""

    strict: bool
    escapechar: str
    doublequote: bool


@dataclass(frozen=True)
class Dialect:
    """How to read a file where that is told: None is found out. `missing` are cells without a value, beside the usual."""

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """The columns of a table, the line of the file that each row ends in, and what was done to read it, in sentences."""

    columns: Columns
    lines: Sequence[int]
    notes: list[str] = field(default_factory=list)


def separator(name: str) -> str:
    """The separator of a name or as it is. ValueError: it is neither."""
    found = SEPARATORS.get(name.lower(), "\t" if name == "\\t" else name)
    if len(found) != 1 or found in '"\r\n' or found.isalnum():
        raise ValueError(f"{name!r} is not one of {', '.join(SEPARATORS)}, nor another single character")
    return found


def encoding(name: str) -> str:
    """The name of an encoding of text. ValueError: Python knows none of that name."""
    try:
        if not codecs.lookup(name)._is_text_encoding:  # no public name for what open() asks, too
            raise LookupError
    except LookupError:
        raise ValueError(f"{name!r} is no encoding that Python knows; usual ones are utf-16, latin-1, cp1251") from None
    return name


def read_sheet(path: Path, how: Dialect = Dialect()) -> Sheet:
    """The table in a file. Rejected when it is none, in words that name the file."""
    check_size(path)
    if path.name.lower().endswith(FRAMES):
        names, cells = map(list, zip(*((_name(name, cells), cells) for name, cells in of_frame(path)), strict=True))
        told = []
        rows = list(map(list, zip(*cells, strict=True)))
        if len(rows) > 2 and _is_total(names, rows):
            told.append(f"ends with a row of totals, which is left out: {' '.join(filter(None, rows[-1]))[:60]!r}")
            cells = [column[:-1] for column in cells]
        if path.name.lower().endswith(".xlsx") and len(sheets := sheets_of(path)) > 1:
            others = ", ".join(map(repr, sheets[1:6])) + ", ..." * (len(sheets) > 6)
            told.append(f"the first sheet, {sheets[0]!r}, is read; the others are left out: {others}")
        columns, notes = _distinct(path.name, names, cells)
        sheet = Sheet(columns, range(2, 2 + len(cells[0])), [f"{path.name}: {note}" for note in (*told, *notes)])
    else:
        sheet = _Text(path, how).sheet()
    return _without(sheet, how.missing) if how.missing else sheet


def read_header(path: Path, how: Dialect = Dialect()) -> list[str]:
    """The names of the columns of a table, of text out of its first lines. Rejected when there are none."""
    if path.name.lower().endswith(FRAMES):
        return names_of_frame(path)
    return _Text(path, how, _HEAD_BYTES).header


def _without(sheet: Sheet, missing: Sequence[str]) -> Sheet:
    found = dict.fromkeys(missing, 0)
    columns: Columns = {}
    for name, cells in sheet.columns.items():
        for cell in cells:
            if cell.strip() in found:
                found[cell.strip()] += 1
        columns[name] = ["" if cell.strip() in found else cell for cell in cells]
    told = ", ".join(f"{text!r} in {count}" for text, count in found.items())
    return Sheet(columns, sheet.lines, [*sheet.notes, f"taken as missing: {told} cells"])


class _Text:
    """A file of text: `header` and what is below it, still as lines."""

    def __init__(self, path: Path, how: Dialect, most: int = -1):
        self._name, self._how, self.notes = path.name, how, list[str]()
        lines = list(io.StringIO(self._decoded(_content(path, most)), newline=""))
        if most >= 0 and len(lines) > 1:
            lines.pop()  # it may be cut
        reject_pointer(path, lines[0] if lines else "")
        at = self._begin(lines)
        if at == len(lines):
            raise Rejected(f"{self._name} is empty")
        self.separator = how.separator or self._told_separator or self._found_separator(lines[at:], path)
        self._first, self._lines = at, lines[at:]
        self._skips_spaces = self.separator == " " or _are_spaced(lines[at], self.separator)
        header = self._first_row()
        if at and lines[at - 1].startswith(_COMMENT):
            header = self._header_in_comment(lines[at - 1]) or header
        self.header = self._plain_names(header)

    # --- what the file is written in ------------------------------------------------------------------------------

    def _decoded(self, content: bytes) -> str:
        how, name = self._how, self._name
        if how.encoding:
            try:
                return content.decode(how.encoding).removeprefix("\ufeff")
            except UnicodeError as error:
                raise Rejected(f"{name} is not {how.encoding}: {error}") from None
        for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            if content.startswith(mark):
                self.notes.append("UTF-16")
                return content.decode("utf-16", errors="replace")
        if content[:200].count(0) > 20:
            raise Rejected(
                f"{name} holds NUL bytes: it looks like UTF-16 without its mark; --encoding utf-16-le reads that"
            )
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            if len(content) - error.start < 4 and error.reason == "unexpected end of data":  # of a head that was cut
                return content[: error.start].decode("utf-8-sig")
            line = content.count(b"\n", 0, error.start) + 1
            if not _is_western(content):
                raise Rejected(
                    f"{name} is not UTF-8 text: line {line}; name what it is with --encoding (cp1251, gb18030, shift_jis)"
                ) from None
            text = content.decode("cp1252")
            word = re.search(r"\w*[^\x00-\x7f]\w*", text)
            self.notes.append(f"not UTF-8, read as Windows-1252: {word[0] if word else ''!r} in line {line}")
            return text

    # --- what stands above the header -----------------------------------------------------------------------------

    def _begin(self, lines: list[str]) -> int:
        """The number of lines above the header; sets the separator that one of them tells."""
        self._told_separator: str | None = None
        at = _blank(lines, 0)
        if at:
            self.notes.append(f"begins with {_counted(at, 'empty line')}")
        if at < len(lines) and (told := _SEP_LINE.fullmatch(lines[at])):
            self._told_separator, at = told[1], at + 1
            self.notes.append(f"says itself that cells are separated by {told[1]!r}")
        comments = at
        while at < len(lines) and (lines[at].startswith(_COMMENT) or not lines[at].strip()):
            at += 1
        if at == len(lines):  # a header alone, whose first name begins so
            return comments
        if comments < at and not lines[at - 1].startswith(_COMMENT):
            self.notes.append(f"begins with {_counted(at - comments, 'line')} of comments")
        elif comments < at:
            self.notes.append(
                f"begins with {_counted(at - comments, 'line')} that {lines[comments][0]!r} marks as comments"
            )
        return at

    def _first_row(self) -> list[str]:
        """The cells of the first row, whose line breaks become spaces."""
        reader = self._reader(self._lines, strict=True)
        try:
            header = [" ".join(name.split()) if "\n" in name else name for name in next(reader, [])]
        except csv.Error:
            header = self._row(self._lines[0])
            if "\n" in header[-1]:
                raise Rejected(f"{self._name}: line {self._first + 1}: a quote in the header does not end") from None
            return header
        if reader.line_num > 1:
            self.notes.append("names of columns hold line breaks, which become spaces")
            self._lines = ["".join(self._lines[: reader.line_num]), *self._lines[reader.line_num :]]
            self._first += reader.line_num - 1
        return header

    def _header_in_comment(self, line: str) -> list[str]:
        """The names in the last comment, where it is the header: as wide as all rows below, which are not names."""
        names = self._row(line.lstrip("".join(_COMMENT)).lstrip())
        rows = [self._row(line) for line in self._lines[:5]]
        if len(names) < 2 or {len(row) for row in rows} != {len(names)}:
            return []
        if not any(NUMBER.fullmatch(cell) for cell in rows[0]) or any(NUMBER.fullmatch(name) for name in names):
            return []
        self.notes.append("the header is the last comment")
        self._first, self._lines = self._first - 1, ["\n", *self._lines]
        return names

    def _plain_names(self, header: list[str]) -> list[str]:
        """The names without what stands around all of them. Rejected where they are none."""
        if not "".join(header).strip():
            raise Nameless(f"{self._name}: the first line is empty: it must name the columns")
        if all(NUMBER.fullmatch(name) for name in header):
            raise Nameless(f"{self._name}: the first line holds numbers: put a line above it that names the columns")
        if self._skips_spaces and self.separator != " ":
            self.notes.append("spaces beside separators are left out")
            header = [name.strip() for name in header]
        if all(len(name) > 2 and name[0] == name[-1] == "'" for name in header):
            self.notes.append("names without their single quotes")
            header = [name[1:-1] for name in header]
        return header

    # --- what separates its cells ---------------------------------------------------------------------------------

    def _found_separator(self, lines: list[str], path: Path) -> str:
        usual = csv_files.delimiter_of(path.name)
        widths = {each: _width(lines[:_LOOKED_AT], each) for each in (",", ";", "\t", "|")}
        if widths[usual] > 1:
            return usual
        others = sorted((width, each) for each, width in widths.items() if width > 1)
        if others:
            found = others[-1][1]
            self.notes.append(f"cells are separated by {NAMES[found]}s")
            return found
        columns = _width(lines[:_LOOKED_AT], " ")
        if columns > 2:
            self.notes.append("cells are separated by spaces")
            return " "
        if columns == 2:
            raise Rejected(f"{self._name} looks like columns with spaces between them: --separator space reads that")
        return usual

    def _reader(self, lines: Sequence[str], **quoting: Unpack[Quoting]) -> Any:
        if self.separator == " ":
            lines = [line.strip(" \r\n") for line in lines]
        return csv.reader(lines, delimiter=self.separator, skipinitialspace=self._skips_spaces, **quoting)

    def _row(self, line: str) -> list[str]:
        return next(self._reader([line]), [])

    # --- its rows -------------------------------------------------------------------------------------------------

    def sheet(self) -> Sheet:
        rows, numbers = self._rows()
        header = self._named(rows)
        rows, numbers = self._even(header, rows, numbers)
        if not rows:
            raise Rejected(f"{self._name}: there are no rows")
        columns, notes = _distinct(self._name, header, [list(cells) for cells in zip(*rows, strict=True)])
        self.notes += notes
        return Sheet(self._with_points(columns), numbers, [f"{self._name}: {note}" for note in self.notes])

    def _rows(self) -> tuple[list[list[str]], list[int]]:
        lines, first = self._lines[1:], None
        ways: list[Quoting] = [{"strict": True}]
        if any('\\"' in line for line in lines):
            ways.append({"strict": True, "escapechar": "\\", "doublequote": False})
        if self._skips_spaces:  # which may stand behind quotes, too
            ways.append({"strict": False})
        for way in ways:
            try:
                rows, numbers, comments = self._rows_as(lines, **way)
            except Rejected as rejected:
                first = first or rejected
                continue
            if "escapechar" in way:
                self.notes.append("quotes in cells are marked with backslashes")
            if comments:
                self.notes.append(f"{_counted(comments, 'comment')} between rows")
            return rows, numbers
        assert first is not None
        raise first

    def _rows_as(self, lines: Sequence[str], **quoting: Unpack[Quoting]) -> tuple[list[list[str]], list[int], int]:
        """(the rows, their lines, the comments between them) where quotes are as in `quoting`. Rejected: they are not."""
        reader = self._reader(lines, **quoting)
        rows, numbers, comments = [], [], 0
        try:
            for row in reader:
                if row and len(row) != len(self.header) and row[0].startswith(_COMMENT):
                    comments += 1
                elif row and any(map(str.strip, row)):
                    rows.append([cell.rstrip() for cell in row] if self._skips_spaces else row)
                    numbers.append(self._first + 1 + reader.line_num)
        except csv.Error as error:
            raise Rejected(f"{self._name}: not CSV: line {self._first + 1 + reader.line_num}: {error}") from None
        return rows, numbers, comments

    def _named(self, rows: list[list[str]]) -> list[str]:
        """The header, with a name for the row names that R writes without one."""
        header = self.header
        wider = len(rows) > 1 and all(len(row) == len(header) + 1 for row in rows)
        if wider and not any(row[-1].strip() for row in rows):
            self.notes.append("a separator too many in each row")
            for row in rows:
                row.pop()
            return header
        if wider:
            self.notes.append("a cell more in each row than names: the first are row names, as R writes them")
            return ["", *header]
        if rows and not header[-1].strip() and all(len(row) == len(header) - 1 for row in rows):
            self.notes.append("a separator too many in the header")
            return header[:-1]
        return header

    def _even(self, header: list[str], rows: list[list[str]], numbers: list[int]) -> tuple[list[list[str]], list[int]]:
        """Rows that are as wide as the header, without a last one of totals."""
        if len(rows) > 2 and _is_total(header, rows):
            self.notes.append(f"ends with a line of totals, which is left out: {self.separator.join(rows[-1])[:60]!r}")
            rows, numbers = rows[:-1], numbers[:-1]
        at = next((at for at, row in enumerate(rows) if len(row) != len(header)), None)
        if at is None:
            return rows, numbers
        wide = len(rows[-1])
        begins = next(at for at in range(len(rows), -1, -1) if at == 0 or len(rows[at - 1]) != wide)
        if begins and len(rows[begins - 1]) == wide + 1 and not rows[begins - 1][-1].strip():
            begins -= 1  # a header with a separator too many
        hint = "" if len(header) > 1 else "; what separates its cells? name it with --separator"
        if wide > 1 and wide != len(header) and len(rows) - begins > len(rows) / 2:
            line, file = numbers[begins], shlex.quote(self._name)
            hint = f"; from line {line} on all have {wide}: are those above it notes? tail -n +{line} {file} leaves them out"
        raise Rejected(
            f"{self._name}: line {numbers[at]} has {len(rows[at])} cells, the first line has {len(header)}{hint}"
        )

    def _with_points(self, columns: Columns) -> Columns:
        """Numbers with decimal commas as others write them, where the commas separate nothing else."""
        if self._how.decimal == "." or (self._how.decimal is None and self.separator == ","):
            return columns
        found = {name for name, cells in columns.items() if _has_commas(cells)}
        if not found and self._how.decimal is None:
            return columns
        if self._how.decimal is None and self.separator != ";" and all(_fits_either(columns[name]) for name in found):
            name = min(found)
            cell = next(cell for cell in columns[name] if "," in cell)
            raise Rejected(
                f"{self._name}: is {cell.strip()!r} in column {name!r} a decimal number, or a whole one with thousands set off? "
                "Of the first kind say --decimal , and of the second take the commas out"
            )
        found |= {name for name, cells in columns.items() if _fits(_THOUSANDS, cells) or _with_thousands(cells)}
        if not found:
            return columns
        self.notes.append(f"decimal commas: {', '.join(map(repr, sorted(found)[:5]))}{', ...' * (len(found) > 5)}")
        points = str.maketrans({".": None, ",": "."})
        return {
            name: [cell.translate(points) if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in cells]
            if name in found
            else cells
            for name, cells in columns.items()
        }


def _is_total(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the last row says that it sums up the others."""
    last = rows[-1]
    first = next((at for at, cell in enumerate(last) if cell.strip()), 0)
    if not _TOTAL.fullmatch(last[first]):
        return False
    return len(last) != len(header) or all(row[first] != last[first] for row in rows[:-1] if len(row) > first)


def _name(name: str, cells: Sequence[str]) -> str:
    """The name of a column of Excel or Parquet, none for what pandas calls row numbers and an empty column."""
    return "" if _NAMELESS.fullmatch(name) and (not any(cells) or _counts(cells)) else name


def _distinct(file: str, header: Sequence[str], cells: Sequence[list[str]]) -> tuple[Columns, list[str]]:
    """(the columns by name, of equal ones the first, and no row numbers without a name; what to tell). Rejected."""
    columns: Columns = {}
    notes = []
    for name, column in zip(header, cells, strict=True):
        if not name.strip() and len(cells) > 1 and (not any(column) or _counts(column)):
            what = "row numbers" if any(column) else "nothing"
            notes.append(f"a column without a name holds {what}: left out")
        elif name not in columns:
            columns[name] = column
        elif columns[name] == column:
            notes.append(f"the column {name!r} stands twice with the same cells: one is left out")
        else:
            raise Rejected(f"{file}: column {name!r} appears twice, with different cells: rename one")
    return columns, notes


def _content(path: Path, most: int) -> bytes:
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            return file.read(most)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Rejected(f"{path.name} is not a whole gzip file: {error}") from None
    except OSError as error:
        raise Rejected(f"{path.name}: {error.strerror or error}") from None


def _is_western(content: bytes) -> bool:
    """Whether bytes above ASCII stand mostly alone, as accents do between letters; other alphabets write words of them."""
    if not _WESTERN.fullmatch(content):
        return False
    runs = re.findall(rb"[\x80-\xff]+", content)
    return sum(len(run) > 2 for run in runs) <= len(runs) // 20


def _blank(lines: Sequence[str], at: int) -> int:
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at


def _are_spaced(line: str, separator: str) -> bool:
    """Whether a space follows each separator of the header, as where people line up columns."""
    after = line.split(separator)[1:]
    return bool(after) and all(name.startswith(" ") for name in after)


def _width(lines: Sequence[str], separator: str) -> int:
    """The number of cells of the first line, where nine of ten other lines have as many, or one more each; else 0."""
    spaces = separator == " "
    stripped = [line.strip() for line in lines] if spaces else lines
    try:
        widths = [len(row) for row in csv.reader(stripped, delimiter=separator, skipinitialspace=spaces) if row]
    except csv.Error:
        return 0
    most = max((sum(width == widths[0] + more for width in widths[1:]) for more in (0, 1)), default=0)
    return widths[0] if widths and most >= 0.9 * len(widths[1:]) else 0


def _counts(cells: Sequence[str]) -> bool:
    """Whether cells are 0, 1, 2, ... or 1, 2, 3, ..."""
    return cells[0] in ("0", "1") and all(cell == str(at) for at, cell in enumerate(cells, int(cells[0])))


def _fits(pattern: re.Pattern[str], cells: Sequence[str]) -> bool:
    """Whether nearly all cells that are there are numbers as in the pattern."""
    present = [cell for cell in cells if cell not in MISSING]
    return sum(map(bool, map(pattern.fullmatch, present))) > NEARLY_ALL * len(present)


def _fits_either(cells: Sequence[str]) -> bool:
    """Whether all commas of a column of numbers may be between thousands as well as decimal ones."""
    return all(_ENGLISH.fullmatch(cell) for cell in cells if "," in cell)


def _with_thousands(cells: Sequence[str]) -> bool:
    """Whether all are whole numbers, some with points between thousands and the others smaller."""
    present = [cell for cell in cells if cell not in MISSING]
    pointed = [cell for cell in present if "." in cell]
    return bool(pointed) and _fits(_THOUSANDS, pointed) and _fits(_SMALL, [cell for cell in present if "." not in cell])


def _has_commas(cells: Sequence[str]) -> bool:
    return any("," in cell for cell in cells) and _fits(_DECIMAL_COMMA, cells)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count > 1)}"
