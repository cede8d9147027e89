"""CSV text is read as it is written, and what is wrong with it is told with its place."""

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mletools.base.csv_files import LARGEST_CELL, CsvError, csv_text, delimiter_of, read_columns, read_rows

BOM = b"\xef\xbb\xbf"


def problem(source: Any, **options: Any) -> str:
    with pytest.raises(CsvError) as caught:
        list(read_rows(source, **options))
    return str(caught.value)


@given(st.lists(st.lists(st.text(alphabet='ab",\n\r;1 \ufeff\u2028é', max_size=5), min_size=1, max_size=3), max_size=4))
def test_what_is_written_is_read(rows: list[list[str]]) -> None:
    text = csv_text(rows)
    assert list(read_rows(BOM + text.encode())) == rows
    if all("\r" not in cell for row in rows for cell in row):
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(rows)
        assert text == out.getvalue()


def test_bytes_files_and_lines_are_alike(tmp_path: Path) -> None:
    content = BOM + b'id,y\r\n1,"a\nb"\r\n\r\n2,\xc3\xa9'
    rows = [["id", "y"], ["1", "a\nb"], [], ["2", "é"]]
    (tmp_path / "t.csv").write_bytes(content)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
    (tmp_path / "T.CSV.GZ").write_bytes(gzip.compress(content))
    paths = (tmp_path / "t.csv", tmp_path / "t.csv.gz", tmp_path / "T.CSV.GZ")
    for source in (content, *paths, content.decode("utf-8-sig").splitlines(True)):
        assert list(read_rows(source)) == rows
        assert list(read_rows(source, even=True)) == [row for row in rows if row]
    assert read_columns(tmp_path / "t.csv.gz") == {"id": ["1", "2"], "y": ["a\nb", "é"]}
    assert list(read_rows(b"")) == list(read_rows(BOM, even=True)) == []
    assert [delimiter_of(name) for name in ("a.csv", "a.TSV", "a.tsv.gz", "tsv.csv")] == [",", "\t", "\t", ","]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'a,b\n1,"2\n3,4\n', "not CSV: line 3: unexpected end of data"),
        (b'a,b\n"1\n1",2\n3,4,5\n', "line 4 has 3 cells, the first line has 2"),
        (b"a,b\n" + b"1,2\n" * 99_999 + b"1,\xe4\n", "not UTF-8 text: line 100001, byte 3"),
        (b"a,b\n1,\xc3", "not UTF-8 text: line 2, byte 3"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
    assert problem(content, even=True) == told
    assert problem(tmp_path / "t.csv", even=True) == told
    assert problem(tmp_path / "t.csv.gz", even=True) == told


@pytest.mark.parametrize(("content", "told"), [(b"", "there are no rows"), (b"a,b\n\n", "there are no rows"), (b"a,b,a\n1,2,3\n", "column 'a' appears twice")])  # fmt: skip
def test_what_is_no_table(content: bytes, told: str) -> None:
    with pytest.raises(CsvError) as caught:
        read_columns(content)
    assert str(caught.value) == told


def test_torn_and_broken_gzip_files(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    whole = gzip.compress(b"".join(b"%d,%d\n" % (at, at * at) for at in range(50_000)))
    for torn in (whole[:-20], whole[:5000] + b"\xff" * 50 + whole[5050:], whole[:-8] + bytes(8), b"a,b\n"):
        path.write_bytes(torn)
        assert problem(path).startswith("not a whole gzip file: ")


def test_cells_up_to_the_limit() -> None:
    assert [len(row[0]) for row in read_rows(b'a\n"' + b"x" * 1_000_000 + b'"\n')] == [1, 1_000_000]
    previous = csv.field_size_limit(9)  # noqa: TID251
    try:
        assert previous == LARGEST_CELL
        assert problem(b"a\n123456789\n1234567890\n") == "not CSV: line 3: field larger than field limit (9)"
    finally:
        csv.field_size_limit(LARGEST_CELL)  # noqa: TID251
