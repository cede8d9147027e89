"""The numbers in a file, as streams: of text, compressed files, archives, arrays, pickles, R's files, SQLite
and compiled Python.

Covered: finding tables in these by their sketches. Nothing is executed or imported. Not covered: numbers inside
compiled code, pictures, HDF5 with compression; the file formats of FORMATS, which nothing here can read.
"""

import bz2
import gzip
import io
import lzma
import marshal
import os
import pickletools
import sqlite3
import tarfile
import zipfile
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import Any

from .sketches import Sketches, canonical, hashed

# Formats that exist to hold tables, and that take a library to read.
FORMATS = frozenset({
    ".dta", ".sav", ".zsav", ".por", ".sas7bdat", ".xpt", ".xls", ".xlsx", ".xlsb", ".ods", ".parquet", ".pq",
    ".feather", ".arrow", ".orc", ".avro", ".mat",
})  # fmt: skip
_R = (".rda", ".rdata", ".rds", ".rdb")
_PICKLES = (".pkl", ".pickle", ".joblib")
_MOST = 4 << 20  # bytes of a file or member that are read
_MOST_MEMBERS = 5000
_DEPTH = 2  # compressed files and archives inside each other
_LEAST_DIGITS, _DIGIT_SHARE = 200, 0.04
_KEPT = b"0123456789.+-eE"
_SEPARATED = bytes(code if code in _KEPT else 32 for code in range(256))
# Compiled code, pictures, sounds and fonts: no numbers that stand in rows.
_OTHER = (b"\x7fELF", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"\x00\x01\x00\x00", b"OTTO", b"wOF", b"!<arch>")
_OTHER_SUFFIXES = frozenset({
    ".so", ".a", ".o", ".mo", ".class", ".jmod", ".png", ".jpg", ".jpeg", ".gif", ".ico", ".svg", ".svgz", ".ttf",
    ".otf", ".woff", ".woff2", ".pfb", ".afm", ".vf", ".wav", ".mp3", ".bc", ".pak",
})  # fmt: skip
_NUMPY = {b"<f8": "d", b"<f4": "f", b"<i8": "q", b"<i4": "i", b"<i2": "h", b"|u1": "B", b"|i1": "b"}
_UNREADABLE = (
    ValueError, TypeError, EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError,
    NotImplementedError, RuntimeError, sqlite3.Error, MemoryError, RecursionError,  # of damaged archives
)  # fmt: skip
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"PK\x03\x04")


def tables_in(path: str, sketches: Sketches) -> set[str]:
    """The names of the tables whose sketches are found in the file; empty if it cannot be read."""
    try:
        return {table for stream, kind in _streams_of(path) for table in sketches.found(stream, kind)}
    except _UNREADABLE:
        return set()


def values_in(path: str) -> set[int]:
    """The hashes of all values in the file, as of `sketches.hashed`; empty if it cannot be read."""
    try:
        return {value for stream, kind in _streams_of(path) for value in hashed(stream, kind)}
    except _UNREADABLE:
        return set()


def _streams_of(path: str) -> Iterator[tuple[Any, str]]:
    """(stream, its kind) of a file on disk; an error of _UNREADABLE if it cannot be read to its end."""
    name = os.path.basename(path).lower()
    if suffix_of(name) in _OTHER_SUFFIXES:
        return
    with open(path, "rb") as file:
        head = file.read(512)
        if not head or head.startswith(_OTHER) or (b"\0" in head and not _is_read(name, head)):
            return
        content = head + file.read(_MOST - len(head))
    yield from _streams(name, content, path)


def suffix_of(name: str) -> str:
    """The last suffix of a file's name, in lower case."""
    return os.path.splitext(name)[1].lower()


def _is_read(name: str, head: bytes) -> bool:
    packed = head.startswith((*_PACKED, b"SQLite format 3")) or head[257:262] == b"ustar"
    return packed or suffix_of(name) in (".npy", ".pyc", *_R, *_PICKLES)


def _streams(name: str, content: bytes, path: str | None, depth: int = 0) -> Iterator[tuple[Any, str]]:
    """(stream, its kind) of a file's content; `path`: of a file on disk, None of a member."""
    suffix = suffix_of(name)
    if depth <= _DEPTH:
        if content.startswith(b"PK\x03\x04"):
            yield from _of_members(_zip_members(content if path is None else path), depth)
            return
        unpacked = _unpacked(content)
        if unpacked is not None:
            yield from _streams(
                name[: -len(suffix)] if suffix in (".gz", ".bz2", ".xz") else name, unpacked, None, depth + 1
            )
            return
        if content[257:262] == b"ustar":
            yield from _of_members(_tar_members(content), depth)
            return
    if suffix == ".npy":
        kind = _NUMPY.get(content[6:200].partition(b"'descr': '")[2][:3])
        yield from _casts(content, kind or "", aligned=True)
    elif suffix == ".rdb":
        for piece in _r_pieces(content):
            yield from _casts(piece, "di", swap=True)
    elif suffix in _R:
        yield from _casts(content, "di", swap=True)
    elif suffix in _PICKLES:
        yield [canonical(number) for number in _pickled(content)], "text"
        yield from _casts(content, "dq")
    elif content.startswith(b"SQLite format 3"):
        if path is not None:
            yield from _of_database(path)
    elif suffix == ".pyc":
        yield [canonical(number) for number in _constants(marshal.loads(content[16:]))], "text"
    elif b"\0" not in content[:4096]:
        yield from _of_text(content)


def _of_text(content: bytes) -> Iterator[tuple[list[str], str]]:
    digits = len(content) - len(content.translate(None, b"0123456789"))
    if digits < _LEAST_DIGITS or digits < _DIGIT_SHARE * len(content):
        return
    words = content.translate(_SEPARATED).split()
    numbers: dict[bytes, str | None] = {}
    for word in set(words):
        try:
            numbers[word] = canonical(float(word))
        except ValueError:
            numbers[word] = None
    yield [number for word in words if (number := numbers[word]) is not None], "text"


def _unpacked(content: bytes) -> bytes | None:
    """The beginning of a compressed file's content; None: not compressed."""
    if content.startswith(b"\x1f\x8b"):
        return gzip.open(io.BytesIO(content)).read(_MOST)
    if content.startswith(b"BZh"):
        return bz2.open(io.BytesIO(content)).read(_MOST)
    return lzma.open(io.BytesIO(content)).read(_MOST) if content.startswith(b"\xfd7zXZ\x00") else None


def _zip_members(source: bytes | str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as archive:
        for entry in archive.infolist()[:_MOST_MEMBERS]:
            if not entry.is_dir() and suffix_of(entry.filename.lower()) not in _OTHER_SUFFIXES:
                with archive.open(entry) as member:
                    yield entry.filename.lower(), member.read(_MOST)


def _tar_members(content: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for number, entry in enumerate(archive):
            member = archive.extractfile(entry) if entry.isreg() and number < _MOST_MEMBERS else None
            if member is not None:
                yield entry.name.lower(), member.read(_MOST)


def _of_members(members: Iterable[tuple[str, bytes]], depth: int) -> Iterator[tuple[Any, str]]:
    for name, content in members:
        if not content.startswith(_OTHER):
            yield from _streams(name, content, None, depth + 1)


def _casts(content: bytes, kinds: str, swap: bool = False, aligned: bool = False) -> Iterator[tuple["array[Any]", str]]:
    """The bytes as numbers of each kind, with swapped bytes if asked; not aligned: from each byte that one may begin at."""
    for kind in kinds:
        size = array(kind).itemsize
        for offset in range(1 if aligned else size):
            end = len(content) - (len(content) - offset) % size
            numbers = array(kind)
            numbers.frombytes(content[offset:end])
            if swap:
                numbers.byteswap()
            yield numbers, kind


def _r_pieces(content: bytes) -> Iterator[bytes]:
    """The objects of an R database: each is compressed, after its size."""
    at = 0
    while at + 6 < len(content):
        unpacker = zlib.decompressobj()
        try:
            yield unpacker.decompress(content[at + 4 :], _MOST)
        except zlib.error:
            return
        at = len(content) - len(unpacker.unused_data)
        if not unpacker.eof:
            return


def _pickled(content: bytes) -> Iterator[float]:
    with suppress(ValueError, UnicodeError):  # not a pickle
        for _, argument, _ in pickletools.genops(content):
            if isinstance(argument, (int, float)) and abs(argument) < 1e300:
                yield float(argument)


def _constants(code: Any) -> Iterator[float]:
    """The numbers of a compiled program, in the order of its lists."""
    if isinstance(code, (int, float)) and abs(code) < 1e300:
        yield float(code)
    for part in code if isinstance(code, tuple) else getattr(code, "co_consts", ()):
        yield from _constants(part)


def _of_database(path: str) -> Iterator[tuple[list[str], str]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            quoted = name.replace('"', '""')
            rows = database.execute(f'SELECT * FROM "{quoted}"').fetchmany(100_000)
            yield [canonical(cell) for row in rows for cell in row if isinstance(cell, (int, float))], "text"
