"""Tables as R, Excel, SQL and people write them: read with what was taken, or refused with what to do."""

import gzip
import json
import random
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import ROOT

from mletools.grading import metrics, score_bytes
from mletools.records.task import Task
from mletools.tasks.importing.options import Candidate, ImportOptions
from mletools.tasks.importing.sheet import Dialect, encoding, read_header, read_sheet, separator
from mletools.tasks.importing.task import import_task
from mletools.tasks.soundness import PASSED, examine, read_case
from mletools.tasks.table import MISSING, Rejected
from mletools.tasks.validation import NoValidation, validation_view

ROWS = [
    (at, random.Random(at).gauss(50, 9), "ABC"[at % 3], random.Random(1000 + at).gauss(100, 20)) for at in range(1, 81)
]


def text(separator: str = ",", point: str = ".") -> str:
    lines = [["nr", "größe", "art", "preis"]]
    for at, size, kind, price in ROWS:
        lines.append([str(at), f"{size:.2f}".replace(".", point), kind, f"{price:.2f}".replace(".", point)])
    return "".join(separator.join(line) + "\n" for line in lines)


def with_cell(cell: str, *rows: int) -> str:
    """The table with another price in these rows, the first of which is row 1 in line 2."""
    lines = text().splitlines()
    for row in rows:
        lines[row] = f'{lines[row].rpartition(",")[0]},"{cell}"'
    return "\n".join(lines) + "\n"


def imported(path: Path, data: Path, target: str = "preis", **options: Any) -> tuple[Task, list[str]]:
    candidate = Candidate("table", path.stem, path)
    return import_task(candidate, ImportOptions(target=(target,), thresholds="none", **options), data)


# --- what a file is written in -------------------------------------------------------------------------------------------

PLAIN = text()
INDEXED = "".join(("" if at == 0 else str(at - 1)) + f",{line}\n" for at, line in enumerate(PLAIN.splitlines()))
NAMED_ROWS = "".join(line + "\n" if at == 0 else f"r{at},{line}\n" for at, line in enumerate(PLAIN.splitlines()))
TWICE = "".join(f"{line},{line.split(',')[0]}\n" for line in PLAIN.splitlines())
FILES: dict[str, tuple[bytes, str]] = {
    "semicolons": (text(";", ",").encode(), "cells are separated by semicolons; decimal commas: 'größe', 'preis'"),
    "tabs": (text("\t").encode(), "cells are separated by tabs"),
    "spaces": (text(" ").encode(), "cells are separated by spaces"),
    "lined up": ("".join("  ".join(f"{cell:>8}" for cell in line.split(",")) + " \n" for line in PLAIN.splitlines()).encode(),
                 "cells are separated by spaces"),
    "row names and spaces": (NAMED_ROWS.replace(",", " ").encode(), "cells are separated by spaces; a cell more in each"),
    "spaces after commas": (PLAIN.replace(",", ",   ").encode(), "spaces beside separators are left out"),
    "quotes after spaces": (PLAIN.replace(",A,", ', "A",').replace(",", ", ").encode(), "spaces beside separators"),
    "spaces behind quotes": (PLAIN.replace(",A,", ',"A" ,').replace(",", ", ").encode(), "spaces beside separators"),
    "backslashes": (PLAIN.replace(",A,", ',"A \\"one\\", said",').encode(), "quotes in cells are marked with backslashes"),
    "header's separator": (PLAIN.replace("preis", "preis,").encode(), "a separator too many in the header"),
    "single quotes": (PLAIN.replace("nr,größe,art,preis", "'nr','größe','art','preis'").encode(), "names without their single"),
    "bars": (text("|").encode(), "cells are separated by bars"),
    "sep": (("sep=;\n" + text(";", ",")).encode(), "says itself that cells are separated by ';'; decimal commas: "),
    "quoted sep": (('"sep=|"\r\n' + text("|")).encode(), "says itself that cells are separated by '|'"),
    "latin-1": (text(";").encode("latin-1"), "not UTF-8, read as Windows-1252: 'größe' in line 1; cells are separated"),
    "utf-16": (PLAIN.encode("utf-16"), "UTF-16"),
    "utf-16 big": (b"\xfe\xff" + text("\t").encode("utf-16-be"), "UTF-16; cells are separated by tabs"),
    "mark": (PLAIN.encode("utf-8-sig"), ""),
    "blank lines": (("\n \n" + PLAIN).encode(), "begins with 2 empty lines"),
    "comments": (("# by R\n# 2024\n" + PLAIN).encode(), "begins with 2 lines that '#' marks as comments"),
    "percent": (("% by R\n\n" + text(";")).encode(), "begins with 2 lines of comments; cells are separated by semicolons"),
    "comments between": ((PLAIN + "# checked\n# twice\n").encode(), "2 comments between rows"),
    "commented header": (("#" + PLAIN).encode(), "begins with 1 line that '#' marks as comments; the header is the last"),
    "total": ((PLAIN + "TOTAL,4000.1,,20000.5\n").encode(), "ends with a line of totals, which is left out: 'TOTAL,4"),
    "short total": ((text(";") + "Grand total;4000.1\n").encode(), "cells are separated by semicolons; ends with a line"),
    "total after names": ((PLAIN + ",,Mean:,100.2\n").encode(), "ends with a line of totals"),
    "row numbers": (INDEXED.encode(), "a column without a name holds row numbers: left out"),
    "row names": (NAMED_ROWS.encode(), "a cell more in each row than names: the first are row names, as R writes them"),
    "column twice": (TWICE.encode(), "the column 'nr' stands twice with the same cells: one is left out"),
    "last separators": ("".join(f"{line},\n" for line in PLAIN.splitlines()).encode(), "a column without a name holds nothing"),
    "last separators but the header's": ("".join(line + "," * (at > 0) + "\n" for at, line in enumerate(PLAIN.splitlines())).encode(),
                                         "a separator too many in each row"),
    "old Mac": (PLAIN.replace("\n", "\r").encode(), ""),
    "windows": (PLAIN.replace("\n", "\r\n").encode(), ""),
    "thousands": (text(";", ",").replace(";A;", ";1.250;").replace(";B;", ";2.000;").replace(";C;", ";3.125.000;").encode(), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_and_what_was_taken_is_told(tmp_path: Path, name: str) -> None:
    content, told = FILES[name]
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    sheet = read_sheet(path)
    assert told in "; ".join(note.removeprefix("table.csv: ") for note in sheet.notes) and bool(told) <= bool(
        sheet.notes
    )
    assert sheet.columns["preis"] == [f"{row[3]:.2f}" for row in ROWS]
    assert sheet.columns["größe"] == [f"{row[1]:.2f}" for row in ROWS] and sheet.columns["nr"][:2] == ["1", "2"]
    lines = path.read_bytes().decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if "utf-16" not in name:
        assert all(f"{row[3]:.2f}".replace(".", "") in lines[line - 1].replace(",", "").replace(".", "")
                   for row, line in zip(ROWS, sheet.lines, strict=True))  # fmt: skip
    if name == "backslashes":
        assert sheet.columns["art"][2] == 'A "one", said'
    if name == "spaces behind quotes":
        assert sheet.columns["art"][:3] == ["B", "C", "A"]
    if name == "thousands":
        assert sheet.columns["art"][:3] == ["2000", "3125000", "1250"]


def test_an_import_tells_and_keeps_how_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "weine.csv"
    path.write_bytes(text(";", ",").encode("latin-1"))
    task, notes = imported(path, tmp_path)
    assert notes[:3] == task["provenance"]["read_as"] and notes[1] == "weine.csv: cells are separated by semicolons"
    folder = tmp_path / task["data"]["dir"]
    frame = pd.read_csv(folder / "public" / "train.csv")
    assert task["metric"].get("name") == "rmse" and frame["größe"].between(10, 90).all() and len(frame) == 64


REFUSED: dict[str, tuple[bytes, str]] = {
    "two columns and spaces": (b"id y\n1 2\n2 3\n3 5\n", "looks like columns with spaces between them: --separator space"),
    "no header": (PLAIN.partition("\n")[2].replace(",A,", ",1,").replace(",B,", ",2,").replace(",C,", ",3,").encode(),
                  "the first line holds numbers: put a line above it that names the columns"),
    "notes above": (("Series: prices\nArea: 7\n\nNot adjusted\n" + PLAIN).encode(),
                    "from line 5 on all have 4: are those above it notes? tail -n +5 table.csv leaves them out"),
    "another alphabet": (PLAIN.replace("größe", "размер").encode("cp1251"), "is not UTF-8 text: line 1; name what it is with"),
    "utf-16 without mark": (PLAIN.encode("utf-16-le"), "NUL bytes: it looks like UTF-16 without its mark; --encoding"),
    "columns of one name": (PLAIN.replace("nr", "preis", 1).encode(), "column 'preis' appears twice, with different cells"),
    "ragged": ((PLAIN + "81,3,A\n").encode(), "line 82 has 3 cells, the first line has 4"),
    "no rows": (b"nr,preis\n", "there are no rows"),
    "nothing": (b"\n\n", "is empty"),
    "cut gzip": (b"", "is not a whole gzip file"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_has_no_one_reading_is_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    content, reason = REFUSED[name]
    path = tmp_path / ("table.csv.gz" if name == "cut gzip" else "table.csv")
    path.write_bytes(content or b"\x1f\x8b\x08\0\0\0\0\0\0\x03cut")
    with pytest.raises(Rejected) as refused:
        read_sheet(path)
    assert reason in refused.value.reason and path.name in refused.value.reason


def test_what_is_told_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(text(" ", ",").replace("größe", "размер").encode("cp1251"))
    sheet = read_sheet(path, Dialect(separator("space"), encoding("cp1251")))
    assert sheet.columns["размер"] == [f"{row[1]:.2f}" for row in ROWS]
    path.write_text(PLAIN.replace(",A,", ',"1,250",').replace(",B,", ',"2,5",').replace(",C,", ',"0,5",'))
    assert read_sheet(path).columns["art"][:2] == ["2,5", "0,5"]  # thousands or decimals
    assert read_sheet(path, Dialect(decimal=",")).columns["art"][:2] == ["2.5", "0.5"]
    assert separator("\\t") == separator("tab") == "\t" and separator("~") == "~"
    for wrong in ("ab", "", "x", '"'):
        with pytest.raises(ValueError, match="is not one of comma, semicolon, tab"):
            separator(wrong)
    for wrong in ("utf-99", "base64"):
        with pytest.raises(ValueError, match="is no encoding that Python knows"):
            encoding(wrong)


# --- what a target holds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell", ["?", "-", "**", "<10", "#DIV/0!", "12.5%", "16 kg", "€84", "11,5", "unknown", "seven"]
)
def test_a_stray_cell_does_not_turn_numbers_into_classes(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(with_cell(cell, 5, 9))
    with pytest.raises(Rejected) as refused:
        imported(path, tmp_path)
    assert refused.value.reason == (
        f"column 'preis' holds numbers, but 2 of 80 cells are none; the first is {cell!r} in line 6: correct them, or take "
        f"them as missing: --missing {cell!r}"
    )
    task, notes = imported(path, tmp_path, missing=(cell,))
    assert task["metric"].get("name") == "rmse" and task["submission"]["rows"] == 16
    assert notes[:2] == [f"taken as missing: {cell!r} in 2 cells", "2 of 80 rows have no target and are left out"]


@pytest.mark.parametrize("form", ["{}%", "{} kg", "€{}", "<{}"])
def test_numbers_with_a_unit_are_no_classes(tmp_path: Path, form: str) -> None:
    path = tmp_path / "table.csv"
    lines = text(";").splitlines()
    lines[1:] = [f"{line.rpartition(';')[0]};{form.format(line.rpartition(';')[2])}" for line in lines[1:]]
    path.write_text("\n".join(lines))
    with pytest.raises(Rejected, match=r"the cells of 'preis' look like numbers that are written as .* \(line 2\)"):
        imported(path, tmp_path)


@pytest.mark.parametrize(("unit", "metric"), [(1e-7, "rmse"), (1e-4, "mse"), (1e-12, "mae"), (1.0, "rmse")])
def test_scores_of_small_targets_keep_their_digits(tmp_path: Path, unit: float, metric: str) -> None:
    """Concentrations in mol/l, say: with five decimals every score would be 0."""
    lines = ["nr,size,y", *(f"{at},{size:.3f},{unit * (2 * size + price):.6g}" for at, size, _, price in ROWS)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    candidate = Candidate("table", "t", tmp_path / "t.csv")
    task, _ = import_task(candidate, ImportOptions(target=("y",), metric=metric), tmp_path)
    found = sorted({entry["score"] for entry in task["provenance"]["baselines"]})
    assert found[0] > 0 and len(found) > 15 and task["thresholds"]["gold"] < task["thresholds"]["median"]
    assert ("score_round" in task["metric"]) == (unit < 1)
    folder = tmp_path / task["data"]["dir"]
    sample = pd.read_csv(folder / "public" / "sample_submission.csv")
    assert sample["y"].nunique() == 1 and sample["y"][0] == pytest.approx(unit * 200, rel=0.1)


def labelled(*labels: str, rows: int = 90) -> str:
    lines = [f"{at},{at * 37 % 41},{labels[at * 7 % len(labels)]}" for at in range(1, rows + 1)]
    return "\n".join(["id,x,y", *lines]) + "\n"


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (("0", "1", "2", "3+"), None),  # three or more children
        (("1", "2", "3", "4", "5", "6", "7", "8", "9", "?"), "the first is '?' in line "),
        (("low", "high", "?"), None),  # words: a question mark may be one
    ],
)
def test_few_numbers_may_be_classes(tmp_path: Path, labels: tuple[str, ...], problem: str | None) -> None:
    path = tmp_path / "table.csv"
    path.write_text(labelled(*labels))
    if problem:
        with pytest.raises(Rejected) as refused:
            imported(path, tmp_path, "y")
        assert problem in refused.value.reason
    else:
        assert sorted(imported(path, tmp_path, "y")[0]["submission"]["labels"]) == sorted(labels)


@pytest.mark.parametrize("spelled", [("TRUE", "FALSE"), ("true", "false"), ("True", "False"), ("1", "0")])
@pytest.mark.parametrize("metric", ["accuracy", "auroc", "f1_binary"])
def test_a_truth_value_is_one_value_in_every_spelling(tmp_path: Path, spelled: tuple[str, str], metric: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(labelled(*spelled))
    task, _ = imported(path, tmp_path, "y", metric=metric)
    folder = tmp_path / task["data"]["dir"]
    answers = (folder / task["answers"]).read_bytes()
    truth = pd.read_csv(folder / task["answers"])
    assert task["provenance"]["sanity"]["perfect_submission"] == 1
    for yes, no in (("TRUE", "FALSE"), ("true", "false"), ("True", "False"), ("1", "0"), ("1.0", "0.0")):
        handed_in = truth.assign(y=[yes if str(cell) in ("1", "True", "TRUE", "true") else no for cell in truth["y"]])
        assert score_bytes(task, answers, handed_in.to_csv(index=False).encode()) == 1, (yes, no)


def test_spellings_that_are_mixed_become_one(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(labelled("TRUE", "False", "true", "FALSE", "1"))
    task, notes = imported(path, tmp_path, "y")
    assert task["submission"]["labels"] == ["False", "True"]
    assert notes[0] == "column 'y' spells labels in several ways: '1', 'FALSE', 'TRUE', 'true' are changed"
    path.write_text(labelled("1", "2", "2.0"))
    assert imported(path, tmp_path, "y")[0]["submission"]["labels"] == ["1", "2"]


def test_rows_without_a_target_are_counted_and_a_label_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(labelled("None", "left", "right", "", "NA"))
    task, notes = imported(path, tmp_path, "y")
    assert task["submission"]["labels"] == ["left", "right"] and task["provenance"]["rows_without_target"] == 54
    assert notes[0] == (
        "54 of 90 rows have no target and are left out ('NA' in 18, 'None' in 18; --keep-label NA makes that a label)"
    )
    task, notes = imported(path, tmp_path, "y", keep_label=("None",))
    assert task["submission"]["labels"] == ["None", "left", "right"] and task["submission"]["missing_as"] == "None"
    folder = tmp_path / task["data"]["dir"]
    truth = pd.read_csv(folder / task["answers"])  # pandas reads None as missing, and writes an empty cell
    assert truth["y"].isna().any()
    assert score_bytes(task, (folder / task["answers"]).read_bytes(), truth.to_csv(index=False).encode()) == 1
    with pytest.raises(Rejected, match="no cell of 'y' is the label 'none' that --keep-label names"):
        imported(path, tmp_path, "y", keep_label=("none",))
    path.write_text("x,y\n1,NA\n2,\n")
    with pytest.raises(Rejected, match=r"no row has a target: 2 of 2 rows have no target"):
        imported(path, tmp_path, "y")


def test_rows_of_few_doses_are_held_out_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    lines = [f"{at % 4 * 10},{random.Random(at).gauss(at % 4, 1):.3f}" for at in range(240)]
    path.write_text("\n".join(["dose,answer", *lines]))
    task, notes = imported(path, tmp_path, "answer")
    test = pd.read_csv(tmp_path / task["data"]["dir"] / "public" / "test.csv")
    assert len(test) == 48 and set(test["dose"]) == {0, 10, 20, 30}
    assert "rows with the same features have different targets: rows are held out one by one" in notes
    path.write_text(
        "\n".join(
            [
                "dose,kind,answer",
                *(f"{at % 12},{at % 5},{random.Random(at % 60).gauss(0, 1):.3f}" for at in range(240)),
            ]
        )
    )
    task, notes = imported(path, tmp_path, "answer")
    folder = tmp_path / task["data"]["dir"] / "public"
    train, test = pd.read_csv(folder / "train.csv"), pd.read_csv(folder / "test.csv")
    parts = [set(zip(frame["dose"], frame["kind"], strict=True)) for frame in (train, test)]
    assert not parts[0] & parts[1] and len(test) == 48
    assert "240 rows are in 60 groups of equal rows: those of a group stay together" in notes


@pytest.mark.parametrize("name", ["T.CSV", "T.CSV.GZ", "T.TSV", "T.PARQUET", "t.parquet"])
def test_endings_may_be_in_capitals_and_row_numbers_are_no_feature(tmp_path: Path, name: str) -> None:
    cells = pd.DataFrame({"__index_level_0__": range(80), "x": range(80), "y": ["None", "NA"] * 40})
    path = tmp_path / name
    if path.suffix.lower() == ".parquet":
        pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
        cells.to_parquet(path)
    else:
        text = cells.rename(columns={"__index_level_0__": ""}).to_csv(sep="\t" if "TSV" in name else ",", index=False)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("GZ") else text.encode())
    sheet = read_sheet(path)
    assert list(sheet.columns) == ["x", "y"] and sheet.columns["y"][:2] == ["None", "NA"]
    assert sheet.notes == [f"{name}: a column without a name holds row numbers: left out"]


def test_words_for_missing_values_in_excel_stay_words(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="Excel files need openpyxl")
    pd.DataFrame({"x": [1, None, 3], "y": ["None", "NA", "a"]}).to_excel(tmp_path / "T.XLSX")
    sheet = read_sheet(tmp_path / "T.XLSX")
    assert sheet.columns == {"x": ["1", "", "3"], "y": ["None", "NA", "a"]}
    assert sheet.notes == ["T.XLSX: a column without a name holds row numbers: left out"]


def test_of_an_excel_file_the_other_sheets_and_the_total_are_told(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="Excel files need openpyxl")
    table = pd.DataFrame({"shop": ["a", "b", "c"], "x": [1, 2, 3]})
    table.loc[3] = ["Total", 6]
    with pd.ExcelWriter(tmp_path / "t.xlsx") as file:
        table.to_excel(file, sheet_name="2023", index=False)
        table.to_excel(file, sheet_name="2024", index=False)
    sheet = read_sheet(tmp_path / "t.xlsx")
    assert sheet.columns == {"shop": ["a", "b", "c"], "x": ["1", "2", "3"]} and list(sheet.lines) == [2, 3, 4]
    assert sheet.notes == [
        "t.xlsx: ends with a row of totals, which is left out: 'Total 6'",
        "t.xlsx: the first sheet, '2023', is read; the others are left out: '2024'",
    ]


def test_what_a_parquet_file_holds_beside_cells_of_text_and_floats(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    large = 2**60
    table = pd.DataFrame(
        {"user": pd.array([large, large + 1, None], dtype="Int64"), "ok": [True, False, None], "x": [0.5, None, 2]}
    )
    table.index = pd.Index(["p1", "p2", "p3"], name="patient")
    table.to_parquet(tmp_path / "t.parquet")
    assert read_sheet(tmp_path / "t.parquet").columns == {
        "patient": ["p1", "p2", "p3"],
        "user": [str(large), str(large + 1), ""],
        "ok": ["True", "False", ""],
        "x": ["0.5", "", "2"],
    }
    pd.DataFrame({"y": [1, 2], "embedding": [[0.1] * 1500, [0.2] * 1500]}).to_parquet(tmp_path / "e.parquet")
    with pytest.raises(Rejected, match=r"e\.parquet: column 'embedding' holds a (ndarray|list) in each cell"):
        read_sheet(tmp_path / "e.parquet")


@pytest.mark.parametrize("separator", ["\t", "|"])
def test_commas_that_may_be_between_thousands(tmp_path: Path, separator: str) -> None:
    """What can be read in two ways is not read; where one cell says which, all are."""
    path = tmp_path / "t.csv"
    lines = [["city", "people"], ["a", "22,135"], ["b", "9,071"], ["c", "557"]]
    path.write_text("".join(separator.join(line) + "\n" for line in lines))
    with pytest.raises(Rejected, match=r"is '22,135' in column 'people' a decimal number, .* say --decimal ,"):
        read_sheet(path)
    assert read_sheet(path, Dialect(decimal=",")).columns["people"] == ["22.135", "9.071", "557"]
    path.write_text(path.read_text() + separator.join(["d", "0,5"]) + "\n")
    assert read_sheet(path).columns["people"] == ["22.135", "9.071", "557", "0.5"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_names_of_columns_may_hold_line_breaks(tmp_path: Path, end: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(end.join(['"weight', '(kg)",y', "1,2", '"3', '4",5', "x"]).encode())
    with pytest.raises(Rejected, match=r"line 6 has 1 cells, the first line has 2"):
        read_sheet(path)
    path.write_bytes(end.join(['"weight', '(kg)",y', "1,2", '"3', '4",5', ""]).encode())
    sheet = read_sheet(path)
    assert sheet.columns == {"weight (kg)": ["1", f"3{end}4"], "y": ["2", "5"]} and list(sheet.lines) == [3, 5]
    assert sheet.notes == ["table.csv: names of columns hold line breaks, which become spaces"]
    assert read_header(path) == ["weight (kg)", "y"]


@pytest.mark.parametrize("header", ['"weight,y', 'x,"weight'])
def test_a_quote_in_the_header_that_does_not_end_is_named(tmp_path: Path, header: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f"# of a scale\n{header}\n1,2\n3,4\n")
    with pytest.raises(Rejected, match=r"table.csv: line 2: a quote in the header does not end"):
        read_sheet(path)


def test_points_between_thousands_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("shop;sales;share\na;7.444;0.25\nb;557;0.5\nc;1.200.000;0.75\n")
    found = read_sheet(path, Dialect(decimal=",")).columns
    assert found["sales"] == ["7444", "557", "1200000"] and found["share"] == ["0.25", "0.5", "0.75"]


# --- folders as Kaggle has them ---------------------------------------------------------------------------------------------


def folder_of(root: Path, sample: str, answers: str | None, train: str = "", test: str = "") -> Path:
    folder = root / "contest"
    folder.mkdir()
    (folder / "train.csv").write_text(
        train or "id,x,y\n" + "".join(f"{at},{at % 7},{at % 2}\n" for at in range(1, 101))
    )
    (folder / "test.csv").write_text(test or "id,x\n" + "".join(f"{at},{at % 7}\n" for at in range(101, 121)))
    (folder / "sample_submission.csv").write_text(sample)
    if answers is not None:
        (folder / "private").mkdir()
        (folder / "private" / "solution.csv").write_text(answers)
    return folder


def contest(folder: Path, data: Path, metric: str = "accuracy", **options: Any) -> tuple[Task, list[str]]:
    candidate = Candidate("kaggle", folder.name, folder)
    return import_task(candidate, ImportOptions(metric=metric, thresholds="none", **options), data)


def rows(ids: Any, cell: str = "0") -> str:
    return "id,y\n" + "".join(f"{at},{cell}\n" for at in ids)


@pytest.mark.parametrize(
    ("sample", "answers", "reason"),
    [
        (rows(range(101, 121)), rows(range(101, 116)), "the sample submission is invalid: id '116' is not in the test set"),
        (rows(range(101, 116)), rows(range(101, 121)), "the sample submission is invalid: 5 of 20 rows are missing"),
        (rows(range(101, 121), ""), rows(range(101, 121)), "the sample submission is invalid: column 'y' of row '101' is"),
        (rows(["82.10", "82.1"]), rows(["82.10", "82.1"], "1"), "invalid once pandas has read and written it, as agents do: "),
        (rows(["1e3", "1000"]), rows(["1e3", "1000"], "1"), "invalid once pandas has read and written it, as agents do: "),
        (rows(["NA", "SE"]), rows(["NA", "SE"], "1"), "invalid once pandas has read and written it, as agents do: "),
        (rows(["null", "full"]), rows(["null", "full"], "1"), "invalid once pandas has read and written it, as agents do: "),
        (rows(["1", "", "3"]), rows(["1", "", "3"], "1"), "invalid once pandas has read and written it, as agents do: "),
        (rows(range(101, 121)).replace(",", ";"), rows(range(101, 121)), "cells are separated by ';', and must be by commas"),
    ],
)  # fmt: skip
def test_a_sample_that_is_no_valid_submission_is_refused(
    tmp_path: Path, sample: str, answers: str, reason: str
) -> None:
    with pytest.raises(Rejected) as refused:
        contest(folder_of(tmp_path, sample, answers), tmp_path)
    assert reason in refused.value.reason


@pytest.mark.parametrize("ids", [["007", "008", "9"], ["1.0", "2.0"], ["a 1", "b-2"], ["0x10", "0x11"], ["1_0", "1_1"]])
def test_ids_that_pandas_keeps_or_that_are_read_as_numbers_are_taken(tmp_path: Path, ids: list[str]) -> None:
    task, _ = contest(folder_of(tmp_path, rows(ids), rows(ids, "1")), tmp_path)
    assert task["provenance"]["sanity"]["sample_submission"] == 0


def test_rows_that_kaggle_ignores_are_not_scored(tmp_path: Path) -> None:
    usage = ["Public", "Private", "Ignored", "Private"]
    solution = "id,y,Usage\n" + "".join(
        f"{at},{'' if usage[at % 4] == 'Ignored' else at % 2},{usage[at % 4]}\n" for at in range(101, 121)
    )
    task, notes = contest(folder_of(tmp_path, rows(range(101, 121)), solution), tmp_path)
    assert task["metric"]["where"] == [{"column": "Usage", "in": ["Public", "Private"]}]
    assert task["submission"]["labels"] == ["0", "1"] and task["submission"]["rows"] == 20
    assert notes[0] == "solution.csv: 5 rows whose Usage is Ignored are not scored"
    scores = {"perfect_submission": 1, "sample_submission": 0.33333}
    assert task["provenance"]["sanity"] == {**scores, "answers_secret": "passed"}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("metric", ["accuracy", "auroc", "f1_binary"])
def test_truth_values_of_a_folder(tmp_path: Path, known: bool, metric: str) -> None:
    train = "id,x,y\n" + "".join(f"{at},{at % 7},{'TRUE' if at % 3 else 'FALSE'}\n" for at in range(1, 101))
    answers = "id,y\n" + "".join(f"{at},{'TRUE' if at % 3 else 'FALSE'}\n" for at in range(101, 121))
    sample = rows(range(101, 121), "0.5" if metric == "auroc" else "true")
    task, _ = contest(folder_of(tmp_path, sample, answers if known else None, train), tmp_path, metric)
    assert task["provenance"]["sanity"]["perfect_submission"] == 1


@pytest.mark.parametrize("metric", ["accuracy", "auroc"])
def test_mixed_spellings_of_a_folder_become_one(tmp_path: Path, metric: str) -> None:
    train = "id,x,y\n" + "".join(f"{at},{at % 7},{['TRUE', 'False', 'true', '0'][at % 4]}\n" for at in range(100))
    task, notes = contest(folder_of(tmp_path, rows(range(101, 121)), None, train), tmp_path, metric)
    assert "column 'y' spells labels in several ways: '0', 'TRUE', 'true' are changed" in notes
    assert task["provenance"]["sanity"]["perfect_submission"] == 1
    folder = tmp_path / task["data"]["dir"] / "public"
    assert set(pd.read_csv(folder / "train.csv", dtype=str)["y"]) == {"True", "False"}
    if metric == "accuracy":
        assert task["submission"]["labels"] == ["False", "True"]
    else:
        assert task["provenance"]["positive"] == "True"


def test_a_folder_with_other_separators_and_words_among_numbers(tmp_path: Path) -> None:
    train = "id;x;y\n" + "".join(f"{at};{at % 7},5;{at * 3 % 11},25\n" for at in range(1, 101))
    folder = folder_of(tmp_path, rows(range(101, 121)).replace(",", ";"), None, train)
    task, notes = contest(folder, tmp_path, "rmse")
    assert notes[:2] == ["train.csv: cells are separated by semicolons", "train.csv: decimal commas: 'x', 'y'"]
    assert (tmp_path / task["data"]["dir"] / "public" / "train.csv").read_text().startswith("id,x,y\n")
    strays = train.replace("\n3;3,5;", "\n3;?;").replace("\n7;0,5;10,25\n", "\n7;0,5;?\n")
    (folder / "train.csv").write_text(strays)
    with pytest.raises(Rejected, match=r"the metric reads numbers, and column 'y' holds others: '\?' in line 8"):
        contest(folder, tmp_path, "rmse")
    task, notes = contest(folder, tmp_path, "rmse", missing=("?",))
    assert notes[2:4] == [
        "taken as missing: '?' in 2 cells",
        "1 of 100 rows of train.csv have no target: none is held out",
    ]


@pytest.mark.parametrize("answers", [rows(range(101, 121), "b"), None])
def test_a_separator_is_that_of_train_csv(tmp_path: Path, answers: str | None) -> None:
    train = "id~x~y\n" + "".join(f"{at}~{at % 7}~{'abc'[at % 3]}\n" for at in range(1, 101))
    task, _ = contest(folder_of(tmp_path, rows(range(101, 121), "a"), answers, train), tmp_path, separator="~")
    assert task["submission"]["labels"] == ["a", "b", "c"]


@pytest.mark.parametrize("word", ["NA", "nan", "NULL", ""])
@pytest.mark.parametrize(("metric", "values"), [("rmse", "0123456"), ("accuracy", "abc"), ("auroc", "no yes"), ("log_loss", "abc")])  # fmt: skip
def test_rows_of_a_folder_without_a_target(tmp_path: Path, word: str, metric: str, values: str) -> None:
    labels = values.split() if " " in values else [*values]
    cells = [word if at % 10 == 5 else labels[at % len(labels)] for at in range(1, 101)]
    train = "id,x,y\n" + "".join(f"{at},{at},{cell}\n" for at, cell in enumerate(cells, 1))
    columns = labels if metric == "log_loss" else ["y"]
    sample = f"id,{','.join(columns)}\n101{',0.5' * len(columns)}\n"
    task, notes = contest(folder_of(tmp_path, sample, None, train), tmp_path, metric, target=("y",))
    assert notes[0] == "10 of 100 rows of train.csv have no target: none is held out"
    view = validation_view(task, tmp_path)
    public, held = tmp_path / task["data"]["dir"] / "public", view.folder / view.task["answers"]
    known = pd.read_csv(public / "sample_submission.csv", keep_default_na=False)
    assert not {*map(str, known[columns].to_numpy().flat)} & MISSING
    assert not {*map(str, pd.read_csv(held, keep_default_na=False)[columns].to_numpy().flat)} & MISSING
    assert score_bytes(view.task, held.read_bytes(), held.read_bytes()) == metrics.find(metric).best
    of_class = "`sample_submission.csv` shows the format. `y` is the probability of class 1, which is `yes`.\n"
    assert task["description"].endswith(of_class) == (metric == "auroc")


def test_equal_rows_of_a_folder_stay_together(tmp_path: Path) -> None:
    train = "id,x,y\n" + "".join(f"{at},{at % 50},{at % 50 % 7}\n" for at in range(1, 101))
    task, notes = contest(folder_of(tmp_path, rows(range(101, 121)), None, train), tmp_path)
    folder = tmp_path / task["data"]["dir"] / "public"
    train_x, test_x = ({*pd.read_csv(folder / name)["x"]} for name in ("train.csv", "test.csv"))
    assert not train_x & test_x
    assert notes[0] == "100 rows are in 50 groups of equal rows: those of a group stay together"


def test_tables_with_the_target_are_left_out_in_whatever_form(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    cells = pd.DataFrame(
        {"id": range(1, 101), "x": [at % 7 for at in range(100)], "y": [at * 3 % 11 for at in range(100)]}
    )
    folder = folder_of(tmp_path, rows(range(101, 121)).replace(",", ";"), None, cells.to_csv(sep=";", index=False))
    for name, sep in (("all.csv", ";"), ("old.csv", ","), ("old.TSV", "\t"), ("raw.txt", "|"), ("Train.txt", " ")):
        cells.to_csv(folder / name, sep=sep, index=False)
    cells.to_json(folder / "all.json", orient="records")
    cells.to_parquet(folder / "all.parquet")
    for ending in ("sqlite", "ods", "RData", "npz", "dta", "orc"):
        (folder / f"all.{ending}").write_bytes(b"SQLite format 3")
    for name, sep in (("a.dat", "\t"), ("a.psv", "|")):
        cells.to_csv(folder / name, sep=sep, index=False)
    cells.to_csv(folder / "headless.csv", index=False, header=False)
    cells[["x", "y"]].to_csv(folder / "headless.tab", sep="\t", index=False, header=False)
    (folder / "a.yaml").write_text("- {id: 1, y: 3}\n")
    (folder / "a.txt").write_bytes("id,x,y,имя\n1,1,3,a\n".encode("cp1251"))
    (folder / "rows").mkdir()
    (folder / "rows" / "1.npy").write_bytes(b"a series of a row")
    (folder / "odd.csv").write_bytes("идентификатор\n".encode("cp1251"))  # cannot be read
    told = [
        "Train.txt", "a.dat", "a.psv", "a.txt", "a.yaml", "all.RData", "all.csv", "all.dta", "all.json", "all.npz", "all.ods", "all.orc",
        "all.parquet", "all.sqlite", "headless.csv", "headless.tab", "odd.csv", "old.TSV", "old.csv", "raw.txt",
    ]  # fmt: skip
    cells.drop(columns="y").to_parquet(folder / "more.parquet")
    kept = {
        "more.csv": "id,z\n1,2\n",
        "series.csv": "1,2\n3,4\n",
        "words.txt": "two words",
        "more.json": '{"a": "y z"}',
    }
    for name, content in kept.items():
        (folder / name).write_text(content)
    for options in ({}, {"separator": ";"}):
        task, _ = contest(folder, tmp_path / str(len(options)), "rmse", **options)
        assert task["provenance"]["left_out"] == told
        assert {*kept, "more.parquet", "rows/1.npy"} < {*task["data"]["public"]}
        assert task["provenance"]["sanity"]["answers_secret"] == "passed"
    (folder / "ids.csv").write_text("id,target\n" + "".join(f"{at + 1},{at * 3 % 11}\n" for at in range(100)))
    with pytest.raises(Rejected, match=r"answers_secret: column target of ids\.csv holds the answers to y"):
        contest(folder, tmp_path, "rmse")
    (folder / "ids.csv").unlink()
    cells[["y", "id"]].to_json(folder / "values.json", orient="values")  # rows in lists, and no names
    with pytest.raises(Rejected, match=r"answers_secret: column 0 of values\.json holds the answers to y"):
        contest(folder, tmp_path, "rmse")
    (folder / "values.json").unlink()
    cells[["y", "id"]].to_csv(folder / "turned.csv", index=False, header=False)  # no beginning of a row of train.csv
    with pytest.raises(Rejected, match=r"answers_secret: column 0 of turned\.csv holds the answers to y"):
        contest(folder, tmp_path, "rmse")


@pytest.mark.parametrize("metric", [None, "rmse", "accuracy", "auroc"])
def test_a_constant_target_is_reported_as_that(tmp_path: Path, metric: str | None) -> None:
    path = tmp_path / "table.csv"
    path.write_text(labelled("5"))
    with pytest.raises(Rejected, match="column 'y' is '5' in every row: there is nothing to predict"):
        imported(path, tmp_path, "y", metric=metric)
    with pytest.raises(Rejected, match="column 'y' is '1' in every row: there is nothing to predict"):
        contest(folder_of(tmp_path, rows(range(101, 121)), None, labelled("1")), tmp_path, metric or "mae")


@pytest.mark.parametrize("zero", ["\u0660", "\u0966", "\uff10"])
def test_digits_of_other_scripts_are_text_everywhere(tmp_path: Path, zero: str) -> None:
    digits = [chr(ord(zero) + at) for at in range(10)]
    path = tmp_path / "table.csv"
    path.write_text(labelled(*digits[:3]), encoding="utf-8")
    task, _ = imported(path, tmp_path, "y")
    assert task["submission"]["labels"] == digits[:3] and task["metric"].get("name") == "accuracy"
    folder = tmp_path / task["data"]["dir"]
    answers = (folder / task["answers"]).read_bytes()
    other = answers.decode().replace(digits[1], "1").encode()
    with pytest.raises(ValueError, match=f"is '1', not one of {digits[0]}, "):
        score_bytes(task, answers, other)
    with pytest.raises(
        Rejected, match=f"rmse reads numbers, and column 'y' holds others: '[{digits[0]}-{digits[2]}]' in line 2"
    ):
        imported(path, tmp_path, "y", metric="rmse")
    path.write_text(labelled("1", "2", "3"))
    task, _ = imported(path, tmp_path, "y", metric="rmse")
    folder = tmp_path / task["data"]["dir"]
    answers = (folder / task["answers"]).read_bytes()
    with pytest.raises(ValueError, match="not a finite number"):
        score_bytes(task, answers, answers.decode().replace(",2", f",{digits[2]}").encode())


@pytest.mark.slow
def test_the_page_tells_how_files_of_packages_are_read() -> None:
    for package in ("bokeh_sampledata", "plotnine", "statsmodels", "vega_datasets", "palmerpenguins", "matplotlib"):
        pytest.importorskip(package, reason=f"{package} is not installed: its files are not imported")
    subprocess.run([sys.executable, ROOT / "benchmarks" / "public_files.py", "--check"], check=True)


def test_answers_are_found_in_lists_of_columns(tmp_path: Path) -> None:
    ids = range(101, 141)
    truth = "id,y\n" + "".join(f"{at},{at * 3 % 11}\n" for at in ids)
    folder = folder_of(
        tmp_path,
        rows(ids),
        truth,
        "id,x,y\n" + "".join(f"{at},{at % 7},{at * 3 % 11}\n" for at in range(1, 101)),
        "id,x\n" + "".join(f"{at},1\n" for at in ids),
    )
    (folder / "values.json").write_text(json.dumps([[*map(str, ids)], ["abcdefghijk"[at * 3 % 11] for at in ids]]))
    with pytest.raises(Rejected, match=r"answers_secret: column value of values\.json holds the answers to y"):
        contest(folder, tmp_path)


def test_known_answers_may_not_lie_open(tmp_path: Path) -> None:
    ids = range(101, 121)
    train = "id,x,y\n" + "".join(f"{at},{at % 7},{at * 3 % 11}\n" for at in range(1, 101))
    truth = "id,y\n" + "".join(f"{at},{at * 3 % 11}\n" for at in ids)
    test = "id,x,y\n" + "".join(f"{at},{at % 7},{at * 3 % 11}\n" for at in ids)
    folder = folder_of(tmp_path, rows(ids), truth, train, test)
    with pytest.raises(Rejected, match=r"answers_secret: test\.csv has the target column y"):
        contest(folder, tmp_path, "rmse")
    with pytest.raises(
        Rejected, match=r"test\.csv is what agents get: name a file of the answers alone with --answers"
    ):
        contest(folder, tmp_path, "rmse", answers=str(folder / "test.csv"))
    (folder / "test.csv").write_text("id,x\n" + "".join(f"{at},{at % 7}\n" for at in ids))
    (folder / "all.csv").write_text(train + test.partition("\n")[2])
    with pytest.raises(Rejected, match=r"answers_secret: column y of all\.csv holds the answers to y"):
        contest(folder, tmp_path, "rmse")


@pytest.mark.parametrize(
    "name", ["house", "house.csv.bak", "old/house.csv.old", "house.csv~", "house.prn", "dump.sql", "eda.ipynb", "a.log"]
)
@pytest.mark.parametrize("header", [True, False])
def test_a_copy_under_any_name_is_left_out(tmp_path: Path, name: str, header: bool) -> None:
    train = "id,x,y\n" + "".join(f"{at},{at % 7},{at * 3 % 11}\n" for at in range(1, 101))
    folder = folder_of(tmp_path, rows(range(101, 121)), None, train)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(train if header else "a,b,c\n" + train.partition("\n")[2])
    (folder / "LICENSE").write_text("Anyone may use this.\nFor anything.\n" * 9)
    task, notes = contest(folder, tmp_path, "rmse")
    assert f"left out, it could hold the answers: {name}" in notes
    assert (tmp_path / task["data"]["dir"] / "public" / "LICENSE").exists()


@pytest.mark.parametrize("path_column", [True, False])
def test_a_folder_for_each_class_tells_the_class(tmp_path: Path, path_column: bool) -> None:
    kinds = {at: ("cat", "dog")[at * 7 % 3 % 2] for at in range(1, 121)}
    named = {at: f"train/{kind}/{at}.png" for at, kind in kinds.items()}
    head = "id,file,label\n" if path_column else "id,x,label\n"
    train = head + "".join(f"{at},{named[at] if path_column else 1},{kind}\n" for at, kind in kinds.items())
    folder = folder_of(tmp_path, "id,label\n" + "".join(f"{at},cat\n" for at in range(201, 221)), None, train,
                       head.replace(",label", "") + "".join(f"{at},1\n" for at in range(201, 221)))  # fmt: skip
    for at, name in named.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\x89PNG" + bytes([at]) * (20 + at))
    with pytest.raises(Rejected, match=r"answers_secret: the names of \*\.png hold the answers to label"):
        contest(folder, tmp_path)


def test_an_id_that_tells_the_class_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "flowers.csv"
    draw = random.Random(3)
    path.write_text(
        "Id,petal,kind\n" + "".join(f"{at},{draw.gauss(at // 50, 1):.2f},{'abc'[at // 50]}\n" for at in range(150))
    )
    task, notes = imported(path, tmp_path, "kind")
    assert notes[-1].startswith("column 'Id' is left out, and ids are drawn (no_leak_ids: Id predicts kind")
    public = pd.read_csv(tmp_path / task["data"]["dir"] / "public" / "train.csv")
    assert list(public) == ["id", "petal", "kind"] and not set(public["id"]) & set(range(150))
    asked, _ = imported(path, tmp_path, "kind", id="Id")
    assert asked["submission"]["id"] == ["Id"]  # the user's word counts


def test_the_rows_own_files_and_prose_stay(tmp_path: Path) -> None:
    train = "image,class\n" + "".join(f"{at}.png,{at % 2}\n" for at in range(1, 101))
    sample = "image,class\n" + "".join(f"{at}.png,0\n" for at in range(101, 121))
    folder = folder_of(tmp_path, sample, None, train, sample.replace(",class", "").replace(",0\n", "\n"))
    stay: dict[str, bytes] = {
        "classes.txt": b"0\n1\n" * 4,
        "README.txt": b"done 1 %\rdone 2 %\rdone\nthe class, and more\n",
        "config.yaml": b"subclass: 1\n",
    }
    for at in range(1, 121):
        stay |= {
            f"sig/{at}.dat": bytes(range(200, 256)) * 9,
            f"pages/{at}.html": b"<p class='a'>1</p>",
            f"ann/{at}.xml": b"<class><y>1</y></class>",
            f"bits/{at}.txt": b"0\n1\n1\n0\n1\n0\n",
            f"words/{at}.txt": b"class, or not: a review\n",
        }
    for name, content in stay.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    task, _ = contest(folder, tmp_path)
    public = tmp_path / task["data"]["dir"] / "public"
    assert task["provenance"]["left_out"] == [] and all((public / name).is_file() for name in stay)


def test_a_sorted_folder_is_split_in_half(tmp_path: Path) -> None:
    """In train.csv other rows than those of the test set are in the order of their classes, too."""
    train = "id,x,y\n" + "".join(f"{at},{at * 37 % 101},{'abc'[at // 50]}\n" for at in range(150))
    folder = folder_of(tmp_path, rows(range(151, 181), "a"), None, train)
    task, _ = contest(folder, tmp_path, test_share=0.5)
    assert task["provenance"]["held_out"] == 75


def test_features_may_be_called_as_classes_are(tmp_path: Path) -> None:
    train = "id,0,1,2,label\n" + "".join(f"{at},{at % 9},{at % 8},{at % 13},{at % 3}\n" for at in range(1, 121))
    test = "id,0,1,2\n" + "".join(f"{at},{at % 9},{at % 8},{at % 13}\n" for at in range(201, 221))
    folder = folder_of(
        tmp_path, "id,0,1,2\n" + "".join(f"{at},0.4,0.3,0.3\n" for at in range(201, 221)), None, train, test
    )
    task, _ = contest(folder, tmp_path, "log_loss", target=("label",))
    assert task["submission"]["target"] == ["0", "1", "2"]


def test_known_answers_that_are_small_keep_their_digits(tmp_path: Path) -> None:
    truth = "id,y\n" + "".join(f"{at},{at * 37 % 11}e-7\n" for at in range(101, 121))
    train = "id,x,y\n" + "".join(f"{at},{at % 7},{at * 37 % 11}e-7\n" for at in range(1, 101))
    task, _ = contest(folder_of(tmp_path, rows(range(101, 121)), truth, train), tmp_path, "rmse")
    assert task["metric"]["score_round"] > 8
    assert task["provenance"]["sanity"]["sample_submission"] > task["provenance"]["sanity"]["perfect_submission"] == 0
    made = import_task(
        Candidate("kaggle", "contest", tmp_path / "contest"),
        ImportOptions(metric="rmse", target=("y",)),
        tmp_path / "2",
    )
    assert made[0]["thresholds"]["gold"] < made[0]["thresholds"]["median"]  # baselines are scored with it


def test_whole_numbers_are_names_where_answers_are_known(tmp_path: Path) -> None:
    train = "0,1,2\n" + "".join(f"{at},{at % 7},{at % 2}\n" for at in range(1, 101))
    test, cells = "0,1\n" + "".join(f"{at},{at % 7}\n" for at in range(101, 121)), range(101, 121)
    folder = folder_of(tmp_path, rows(cells).replace("y", "2"), rows(cells, "1").replace("y", "2"), train, test)
    assert contest(folder, tmp_path, target=("2",))[0]["submission"]["target"] == ["2"]


def test_columns_without_names_in_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    cells = pd.DataFrame({"Unnamed: 0": list("abcde") * 16, "x": range(80), "Unnamed: 3": list("fghi") * 20})
    cells["y"] = [at * 37 % 11 for at in range(80)]
    cells.to_parquet(tmp_path / "table.parquet")
    assert [*read_sheet(tmp_path / "table.parquet").columns] == ["Unnamed: 0", "x", "Unnamed: 3", "y"]
    assert read_header(tmp_path / "table.parquet") == ["Unnamed: 0", "x", "Unnamed: 3", "y"]
    cells["Unnamed: 0"] = range(80)
    cells.to_parquet(tmp_path / "table.parquet")
    assert [*read_sheet(tmp_path / "table.parquet").columns] == ["x", "Unnamed: 3", "y"]


def test_a_damaged_gzip_file_is_no_text(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, rows(range(101, 121)), rows(range(101, 121), "1"))
    whole = gzip.compress("".join(f"a line {at}\n" for at in range(999)).encode(), mtime=0)
    content = next(
        damaged
        for at in range(20, 80)
        if (damaged := whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]) and _fails(damaged)
    )
    (folder / "notes.txt.gz").write_bytes(content)
    task, _ = contest(folder, tmp_path)
    outcome = examine(read_case(task, tmp_path, lambda _: 0.0), ("answers_secret",))
    assert outcome["answers_secret"] == PASSED


def _fails(content: bytes) -> bool:
    try:
        gzip.decompress(content)
    except zlib.error:
        return True
    except OSError:
        pass
    return False


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("ending", ["csv", "txt", "dat"])
def test_copies_of_the_labels_are_told_to_the_validation_rows(tmp_path: Path, separator: str, ending: str) -> None:
    folder = folder_of(tmp_path, rows(range(101, 121)), rows(range(101, 121), "1"))
    (folder / f"copy.{ending}").write_text((folder / "train.csv").read_text().replace(",", separator))
    task, _ = contest(folder, tmp_path)
    with pytest.raises(
        NoValidation, match=rf"public/copy\.{ending} has the column 'y' too: it may hold the validation rows' labels"
    ):
        validation_view(task, tmp_path)
