"""Whether rows are taken for the task's own: worked out by hand on columns that are described by a table's file."""

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mletools.instrument import describe
from mletools.instrument.evidence import Rows, described

PRICES = [round(100 + 37.7 * at % 911, 2) for at in range(400)]
LABELS = ["cat"] * 280 + ["dog"] * 120


@pytest.fixture
def public(tmp_path: Path) -> Path:
    rows = [f"{at},{price},{label}\n" for at, (price, label) in enumerate(zip(PRICES, LABELS, strict=True))]
    (tmp_path / "train.csv").write_text("id,price,label\n" + "".join(rows))
    (tmp_path / "test.csv").write_text("id\n1\n2\n")
    (tmp_path / "description.md").write_text("Prices.")
    return tmp_path


def is_of(public: Path, *columns: list[object]) -> bool:
    rows = Rows()
    rows.add([list(row) for row in zip(*columns, strict=True)])
    return rows.are_of(described(describe(public)["columns"]))


def test_a_task_s_tables_are_described(public: Path) -> None:
    found = describe(public)
    assert (found["rows"], found["least"]) == ([2], 40)
    assert [sorted(column) for column in found["columns"]] == [["keys", "last"], ["shares"]]  # not the row numbers
    assert found["columns"][1]["shares"] == [0.7, 0.3]


def test_rows_of_the_data_are_known_by_values_and_by_shares(public: Path) -> None:
    some = random.Random(0).sample(range(400), 120)
    assert is_of(public, [PRICES[at] for at in some])
    assert is_of(public, [math.log1p(price) for price in PRICES])
    assert is_of(public, [int(LABELS[at] == "dog") for at in some])
    assert is_of(public, [0.5] * 120, [LABELS[at] for at in some])


@pytest.mark.parametrize("made", [lambda at: at, lambda at: at % 2, lambda at: at * 0.37, lambda at: 1])
def test_made_up_rows_are_not(public: Path, made: object) -> None:
    assert not is_of(public, [made(at) for at in range(400)])  # type: ignore[operator]


def test_few_rows_have_shares_of_no_column(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a\n" + "".join(f"{at * 7 % 11}\n" for at in range(60)))
    assert is_of(tmp_path, [at * 7 % 11 for at in range(40)])
    assert not is_of(tmp_path, list(range(9)))


def test_a_table_of_few_rows_is_known_by_its_values(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a,y\n" + "".join(f"{at},{at * 2.5}\n" for at in range(8)))
    assert is_of(tmp_path, [at * 2.5 for at in range(8)])
    assert not is_of(tmp_path, [at * 1.5 + 0.1 for at in range(8)])


@pytest.mark.parametrize(
    "spelled",
    [
        lambda text: text + "\n",
        lambda text: text.replace("\n", "\r\n") + "\r\n",
        lambda text: text.replace("\n", "\n\n", 3),
        lambda text: text.replace(",x\n", "\n", 1),
        lambda text: text.replace(",", ";").replace(".", ","),
        lambda text: text.replace(",", "\t"),
        lambda text: text.replace("1,x", '1,5" x'),
        lambda text: text.replace("\n", "\r"),
    ],
    ids=["empty_last", "crlf", "empty_inside", "short", "semicolons", "tabs", "inch", "cr"],
)
def test_a_table_is_described_however_it_is_spelled(tmp_path: Path, spelled: Callable[[str], str]) -> None:
    text = "id,a,y,t\n" + "".join(f"{at},{price:.2f},{at % 3 % 2},x\n" for at, price in enumerate(PRICES))
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_bytes(spelled(text).encode())
    found = describe(tmp_path)
    assert found["rows"] == [len(PRICES)]
    rows = Rows()
    rows.add([[price] for price in PRICES[:200]])
    assert rows.are_of(described(found["columns"]))


def test_the_last_column_of_a_wide_table_is_described(tmp_path: Path) -> None:
    """Targets often stand there."""
    names = ",".join(f"a{at}" for at in range(90))
    rows = "".join(",".join(["0.5"] * 90) + f",{price}\n" for price in PRICES)
    (tmp_path / "train.csv").write_text(f"{names},y\n{rows}")
    assert is_of(tmp_path, PRICES[:200])


@pytest.mark.parametrize("gap", ["", "NA", "nan", "NULL"])
def test_gaps_are_no_values(tmp_path: Path, gap: str) -> None:
    (tmp_path / "train.csv").write_text("y\n" + "".join(f"{at % 3}\n" for at in range(180)).replace("2", gap))
    assert is_of(tmp_path, [0.0, 1.0] * 60)


@pytest.mark.parametrize("other", ["train.parquet", "images/1.png"])
def test_other_data_to_train_on_are_not_described(public: Path, other: str) -> None:
    (public / other).parent.mkdir(exist_ok=True)
    (public / other).write_bytes(b"")
    assert describe(public)["columns"] == []


def test_batches_add_up_and_other_columns_begin_anew() -> None:
    rows = Rows()
    for at in range(5):
        rows.add([[at, 1], [at, 2]])
    rows.add("text"), rows.add(None)
    assert rows.count == 10 and rows.varies()
    rows.add([3, 3])
    assert (rows.count, rows.columns, rows.varies()) == (2, [[3, 3]], False)
