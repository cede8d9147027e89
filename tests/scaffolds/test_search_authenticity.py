"""Whether a submission is a model's prediction: each rule on files and programs made by hand, and what it lets pass."""

from __future__ import annotations

import random

import pytest

from mletools.scaffolds.search.authenticity import BLIND, CONSTANT, SAMPLE, TYPED_IN, inauthentic

HONEST = """
import pandas as pd
from sklearn.linear_model import Ridge
train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
test.assign(y=Ridge().fit(train[["x"]], train["y"]).predict(test[["x"]]))[["id", "y"]].to_csv("submission.csv")
"""


def table(values: list[object], header: str = "id,y", first: int = 0) -> bytes:
    return (header + "\n" + "".join(f"{first + n},{value}\n" for n, value in enumerate(values))).encode()


def judge(code: str, submission: bytes, sample: bytes | None = None, targets: tuple[str, ...] = ("y",)) -> str | None:
    return inauthentic(code, submission, sample, ["id"], targets)


# One value throughout


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([0.5, 0.5, 0.5], CONSTANT),
        (["0.5", "0.50", "5e-1"], CONSTANT),
        ([1, 1.0000000000005, 1], CONSTANT),  # 5e-13 apart
        ([1, 1.000000000002, 1], None),  # 2e-12 apart
        (["cat", "cat"], CONSTANT),
        (["cat", "dog"], None),
        (["nan", "nan"], CONSTANT),
        ([0, "zero"], None),
        ([0.5], None),  # one row says nothing
        ([], None),
    ],
)
def test_constant(values: list[object], wanted: str | None) -> None:
    assert judge(HONEST, table(values)) == wanted


def test_constant_only_where_every_target_is() -> None:
    one = b"id,a,b\n0,1,1\n1,1,2\n"
    both = b"id,a,b\n0,1,2\n1,1,2\n"
    assert judge(HONEST, one, targets=("a", "b")) is None
    assert judge(HONEST, both, targets=("a", "b")) == CONSTANT
    assert judge(HONEST, one, targets=("a",)) == CONSTANT


# The sample submission


def test_copy_of_the_sample_in_any_order() -> None:
    sample = b"id,y\na,1\nb,2\nc,3\nd,4\n"
    assert judge(HONEST, b"id,y\na,1\nb,2\nc,3\nd,4\n", sample) == SAMPLE
    assert judge(HONEST, b"id,y\nd,4.0\nb,2\na,1e0\nc,3\n", sample) == SAMPLE
    assert judge(HONEST, b"y,id\n4,d\n2,b\n", sample) == SAMPLE  # other rows were those held out
    assert judge(HONEST, b"id,y\na,1\nb,2\nc,3\nd,5\n", sample) is None
    assert judge(HONEST, b"id,y\na,2\nb,1\nc,4\nd,3\n", sample) is None  # the same values for other rows
    assert judge(HONEST, b"id,y\na,1\ne,2\n", sample) is None
    assert judge(HONEST, b"id,y\na,1\nb,2\n", None) is None


def test_rows_of_one_id_are_compared_in_their_order() -> None:
    sample = b"id,y\na,1\na,2\nb,3\n"
    assert judge(HONEST, sample, sample) == SAMPLE
    assert judge(HONEST, b"id,y\na,2\na,1\nb,3\n", sample) is None
    assert judge(HONEST, b"id,y\na,1\na,2\na,1\n", sample) is None


def test_a_copy_in_some_of_the_targets_is_none() -> None:
    sample = b"id,a,b\n0,1,5\n1,2,6\n"
    assert judge(HONEST, b"id,a,b\n0,1,5\n1,2,7\n", sample, ("a", "b")) is None
    assert judge(HONEST, b"id,a,b\n0,1,5\n1,2,6\n", sample, ("a", "b")) == SAMPLE


# Typed in

DRAWN = random.Random(0)
FRACTIONS = [round(DRAWN.random(), 6) for _ in range(60)]
LABELS = [DRAWN.choice(["cat", "dog", "bird"]) for _ in range(60)]
BITS = [DRAWN.randrange(2) for _ in range(60)]


@pytest.mark.parametrize(
    "literal",
    [
        f"{FRACTIONS}",
        f"{tuple(FRACTIONS)}",
        f"{sorted(FRACTIONS)}",  # in another order
        f"{[[-value * -1, 7] for value in FRACTIONS]}",
        f"{dict(enumerate(FRACTIONS))}",
        f"{FRACTIONS[:31]}",  # more than half of them
        repr("id,y\n" + "".join(f"{n},{value}\n" for n, value in enumerate(FRACTIONS))),
        repr(" ".join(map(str, FRACTIONS))),
    ],
)
def test_fractions_that_stand_in_the_program(literal: str) -> None:
    assert judge(f"{HONEST}\nKNOWN = {literal}", table(list(FRACTIONS))) == TYPED_IN


@pytest.mark.parametrize("values", [LABELS, BITS])
def test_labels_that_stand_in_the_program(values: list[object]) -> None:
    by_id = {n: value for n, value in enumerate(values)}
    for literal in (values, by_id, [*values[:20], "?"], ["header", *values]):
        assert judge(f"{HONEST}\nKNOWN = {literal!r}", table(values)) == TYPED_IN, literal


def test_labels_by_their_ids_where_rows_are_held_out() -> None:
    by_id = dict(enumerate(LABELS))
    some = b"id,y\n" + b"".join(f"{n},{LABELS[n]}\n".encode() for n in range(0, 60, 2))
    assert judge(f"{HONEST}\nKNOWN = {by_id!r}", some) == TYPED_IN
    assert judge(f"{HONEST}\nKNOWN = {list(by_id.items())!r}", some) == TYPED_IN


def test_negative_numbers_are_typed_in_too() -> None:
    values = [-value for value in FRACTIONS]
    assert judge(f"{HONEST}\nKNOWN = {values}", table(list(values))) == TYPED_IN
    assert judge(f"{HONEST}\nKNOWN = {FRACTIONS}", table(list(values))) is None


HARMLESS = [
    f"CLASSES = {[f'class {n}' for n in range(200)]}",
    f"CLASSES = {list(range(60))}",
    "GRID = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]",
    f"GRID = {[n / 100 for n in range(101)]}",
    f"START = {[0] * 60}",
    f"COLUMNS = {[f'feature {n}' for n in range(300)]}",
    f"OTHER = {[round(random.Random(1).random(), 6) for _ in range(60)]}",
    f"MASK = {[n % 2 for n in range(60)]}",
    f"CODES = {dict((chr(97 + n), n) for n in range(26))}",
    f"FEW = {FRACTIONS[:19]}",
]


@pytest.mark.parametrize("line", HARMLESS)
def test_other_literals_are_none_of_it(line: str) -> None:
    assert judge(f"{HONEST}\n{line}", table(list(FRACTIONS))) is None
    assert judge(f"{HONEST}\n{line}", table([f"class {n % 7}" for n in range(60)])) is None
    rare = [int(n % 15 == 3) for n in range(60)]
    assert judge(f"{HONEST}\n{line}", table(rare)) is None


def test_a_run_with_few_changes_says_nothing() -> None:
    mostly = ["no"] * 30 + ["yes"] + ["no"] * 29
    for line in (f"MASK = {mostly[:50]}", f"MASK = {['no'] * 40}", f"MASK = {[int(each == 'yes') for each in mostly]}"):
        assert judge(f"{HONEST}\n{line}", table(list(mostly))) is None
        assert judge(f"{HONEST}\n{line}", table([int(each == "yes") for each in mostly])) is None


def test_every_class_of_a_short_file_may_be_named() -> None:
    classes = [f"class {n}" for n in range(120)]
    predicted = random.Random(2).sample(classes, 40)
    assert judge(f"{HONEST}\nCLASSES = {classes}", table(list(predicted))) is None
    assert judge(f"{HONEST}\nCLASSES = {list(range(120))}", table(list(range(40)))) is None  # it counts up


# Blind


def test_a_program_that_reads_training_data_only() -> None:
    blind = HONEST.replace('pd.read_csv("input/test.csv")', "pd.DataFrame({'id': range(9), 'x': range(9)})")
    values: list[object] = [0.1, 0.2, 0.3]
    assert judge(blind, table(values)) == BLIND
    assert judge("open('submission.csv', 'w').write('id,y')", table(values)) == BLIND


@pytest.mark.parametrize(
    "line",
    [
        "import glob\nfiles = glob.glob('input/*')",
        "from glob import glob as find\nfiles = find(WHERE)",
        "import os\nfiles = os.listdir(WHERE)",
        "from pathlib import Path\nfiles = list(Path('input').iterdir())",
        "ids = pd.read_csv('input/sample_submission.csv')",
        "ids = pd.read_csv('input/queries.csv')",
        "tables = {name: pd.read_csv(f'input/{name}.csv') for name in NAMES}",
        "tables = [pd.read_csv(WHERE + '/' + name) for name in NAMES]",
        "tables = [read(name) for name in ('train', 'test')]",
        "import subprocess\nsubprocess.run(['cat', WHERE])",
        "exec(WHAT)",
    ],
)
def test_whatever_may_read_more_is_not_blind(line: str) -> None:
    code = f"import pandas as pd\ntrain = pd.read_csv('input/train.csv')\n{line}\n"
    assert judge(code, table([0.1, 0.2, 0.3])) is None


# What cannot be read


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"id,y\n",
        b"id,z\n1,1\n2,1\n",
        b"id,y\n1\n2,1\n",
        b'id,y\n1,"1\n2,1\n',
        b"id,y\n1," + b"1" * 200_000 + b"\n2,1\n",
        b"id,y\n1,\x00\n",
    ],
)
def test_a_broken_file_is_the_graders_to_refuse(content: bytes) -> None:
    assert judge(HONEST, content) is None
    assert judge(HONEST, table([1, 2]), content) is None  # as a sample


@pytest.mark.parametrize(
    "code",
    ["def", "x = '\0'", "(" * 500, "x = " + "-" * 100_000 + "1", "x = " + "9" * 9000, "x = [" + hex(10**5000) + "]"],
)
def test_a_hostile_program_breaks_nothing(code: str) -> None:
    assert judge(code, table(list(FRACTIONS))) in (None, BLIND)


@pytest.mark.slow
def test_a_large_file_and_a_large_literal_end_in_time() -> None:
    values: list[object] = [n % 2 for n in range(200_000)]
    literal = [n % 3 % 2 for n in range(100_000)]
    assert judge(f"{HONEST}\nKNOWN = {literal}", table(values)) is None
