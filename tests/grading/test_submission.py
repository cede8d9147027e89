"""Reading submissions: alignment, cells of every kind, reasons word for word, rubbish of every sort."""

import gzip
import io
import random
from typing import Any

import pandas
import pytest
from submission_builders import task

from mletools.base.errors import ToolError
from mletools.grading import Invalid, answer_spec, parse_answers, score_bytes
from mletools.grading.parsing import KINDS, canonical_label
from mletools.grading.submission import read_submission

ANSWERS = b"id,y\n1,10\n2,20\n3,30\n"


def read(content: bytes, answers: bytes = ANSWERS, **spec: Any) -> list[Any]:
    made = task(submission=spec)
    found = parse_answers(answers, answer_spec(made))
    return read_submission(content, made["submission"], found).tolist()


def reason(content: bytes, answers: bytes = ANSWERS, **spec: Any) -> str:
    with pytest.raises(Invalid) as caught:
        read(content, answers, **spec)
    return str(caught.value)


def test_rows_come_in_the_order_of_the_answers() -> None:
    assert read(b"y,id\n3,3\n1,1\n2,2\n") == [[1], [2], [3]]
    assert read(b"\xef\xbb\xbfid,y\r\n3,3\r\n\r\n1,1\r\n2,2") == [[1], [2], [3]]  # a byte order mark, empty lines, CRLF


def test_ids_are_numbers_where_all_are_and_text_elsewhere() -> None:
    assert read(b"id,y\n001,1\n2.0,2\n 3,3\n") == [[1], [2], [3]]
    codes = b"id,y\n007,1\n7,2\nx,3\n"
    assert read(b"id,y\n7,2\n007,1\nx,3\n", codes) == [[1], [2], [3]]
    assert reason(b"id,y\n7.0,2\n007,1\nx,3\n", codes) == "id '7.0' is not in the test set (1 such rows)"


def test_truth_values_are_written_in_several_ways() -> None:
    answers = b"id,y\n1,True\n2,False\n3,True\n"
    for content in (b"1,1\n2,0\n3,1.0\n", b"1,TRUE\n2,false\n3,true\n"):
        assert read(b"id,y\n" + content, answers, parse="label") == [["True"], ["False"], ["True"]]
    assert read(b"id,y\n1,1\n2,x\n3,true\n", b"id,y\n1,True\n2,x\n3,1\n", parse="label") == [["1"], ["x"], ["True"]]


def test_several_id_columns() -> None:
    answers = b"trip,t,y\na,1,5\na,2,6\nb,1,7\n"
    assert read(b"t,y,trip\n1,7,b\n2,6,a\n1,5,a\n", answers, id=["trip", "t"]) == [[5], [6], [7]]
    bad = b"t,y,trip\n1,7,b\n2,6,a\n3,5,a\n"
    assert reason(bad, answers, id=["trip", "t"]) == "id ('a', '3') is not in the test set (1 such rows)"


def test_ids_may_repeat_where_the_task_says_so() -> None:
    answers = b"id,y\n1,10\n1,11\n2,20\n"
    assert read(b"id,y\n2,5\n1,6\n1,7\n", answers, repeated_ids=True) == [[6], [7], [5]]
    assert reason(b"id,y\n2,5\n1,6\n", answers, repeated_ids=True) == (
        "1 of 3 rows are missing, for example id '1' (its row 2)"
    )
    with pytest.raises(ToolError, match="the answers cannot be read: id '1' is in two rows"):
        read(b"id,y\n", answers)


def test_rows_of_foreign_ids_are_passed_over_where_the_task_says_so() -> None:
    content = b"id,y\n" + b"".join(b"x%d,0\n" % at for at in range(100)) + b"3,3\n1,1\n2,2\n"
    assert read(content, extra_rows="ignore") == [[1], [2], [3]]
    assert reason(content) == "there are more than 6 rows"
    assert reason(b"id,y\nx,oh\n1,1\n2,2\n", extra_rows="ignore") == "1 of 3 rows are missing, for example id '3'"


def test_extra_columns_are_ignored_unless_refused() -> None:
    content = b"id,y,note\n1,1,a\n2,2,b\n3,3,c\n"
    assert read(content) == [[1], [2], [3]]
    assert reason(content, extra_columns="refuse") == "column 'note' is not allowed; the columns must be 'id', 'y'"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"id,y\n1,1\n2,2,2\n3,3\n", "row 2 has 3 cells, the first line has 2"),
        (b"id,y\n1,1\n2\n3,3\n", "row 2 has 1 cells, the first line has 2"),
        (b'id,y\n1,"1\n2,2\n3,3\n', "the file is not CSV: line 4: unexpected end of data"),
        (b'id,y\n1,"1"x\n2,2\n3,3\n', "the file is not CSV: line 2: ',' expected after '\"'"),
        (b"id,y\n" + b"1,1\n" * 9, "there are more than 6 rows"),
        (b"id,y\n1,1_0\n2,2\n3,3\n", "column 'y' of row '1' is '1_0', not a finite number"),
        (b"id,y\n1,0x1F\n2,2\n3,3\n", "column 'y' of row '1' is '0x1F', not a finite number"),
        (b"\xef\xbb\xbf", "the first line is empty: it must name the columns"),
        (b"\x80\x04\x95\x10pickle", "the file is not UTF-8 text"),
        (b"PK\x03\x04\0\0zip", "the file is a ZIP archive, or an Excel file: it must be plain CSV text in UTF-8"),
        (gzip.compress(b"id,y\n", mtime=0), "the file is compressed with gzip: it must be plain CSV text in UTF-8"),
        ("id,y\n1,1\n".encode("utf-16"), "the file is in UTF-16: it must be plain CSV text in UTF-8"),
        (
            b"id;y\n1;1\n2;2\n3;3\n",
            "column 'id' is missing; the columns are 'id;y': its cells are separated by ';', and must be by commas",
        ),
        (b"id,y\n1,\0\n", "the file holds NUL bytes: it must be CSV text"),
    ],
)
def test_rubbish_has_a_reason(content: bytes, told: str) -> None:
    assert reason(content) == told


def test_a_range_may_be_open() -> None:
    content = b"id,y\n1,-1\n2,2\n3,3\n"
    assert reason(content, range=[0, None]) == "column 'y' of row '1' is -1, below the least value"
    assert read(content, range=[None, 3]) == [[-1], [2], [3]]


@pytest.mark.parametrize(
    ("kind", "spec", "cell", "value"),
    [
        ("number", {}, " 1e3 ", 1000.0),
        ("label", {}, " 1.0", "1"),
        ("label", {}, "1_2", "1_2"),
        ("text", {}, " as it stands ", " as it stands "),
        ("tokens", {}, "a  b\ta", ["a", "b", "a"]),
        ("tagset", {"separator": ","}, "a, b,a,", frozenset({"a", "b"})),
        ("ranked", {}, "b a", ("b", "a")),
        ("order", {}, "c1 c2", ("c1", "c2")),
        ("rle", {}, "1 3 10 5", [(1, 3), (10, 5)]),
        ("rle", {"empty_marker": "-"}, "-", []),
        ("spans", {}, "0 5;10 20", [(0, 5), (10, 20)]),
        ("spans", {}, "['0 5;7 9', '12 14']", [(0, 5), (7, 9), (12, 14)]),
        ("boxes", {"fields": ["label", "x", "y"]}, "cat 1 2 7 3 4", [{"label": "cat", "x": 1.0, "y": 2.0}, {"label": "7", "x": 3.0, "y": 4.0}]),
        ("tagset", {"empty_ok": True}, "", frozenset()),
    ],
)  # fmt: skip
def test_cells_of_every_kind(kind: str, spec: dict[str, Any], cell: str, value: Any) -> None:
    assert KINDS[kind]([cell], spec)[0] == value


@pytest.mark.parametrize(
    ("kind", "spec", "cell", "told"),
    [
        ("tokens", {}, "", "empty"),
        ("text", {}, "", "empty"),
        ("label", {}, " ", "empty"),
        ("rle", {}, "1 2 3", "'1 2 3': it holds an odd number of numbers: runs are pairs of a start and a length"),
        ("rle", {}, "1 x", "'1 x': 'x' is not a whole number"),
        ("rle", {}, "1 " + "9" * 5000, f"{'1 ' + '9' * 48!r}...: {'9' * 50!r}... is not a whole number of at most 18 digits"),
        ("spans", {}, "0 5;7", "'0 5;7': spans are pairs of a start and an end, with ; between them"),
        ("boxes", {"fields": ["label", "x"]}, "cat nan", "'cat nan': x is 'nan', not a finite number"),
        ("boxes", {"fields": ["label", "x"]}, "cat", "'cat': it holds 1 items, not a multiple of 2 (label x)"),
    ],
)  # fmt: skip
def test_bad_cells_have_a_reason(kind: str, spec: dict[str, Any], cell: str, told: str) -> None:
    with pytest.raises(ValueError) as caught:
        KINDS[kind]([cell], spec)
    assert str(caught.value) == told


def test_an_id_with_several_rows_is_one_answer() -> None:
    made = task("ndcg_at_k", {"k": 5}, submission={"target": ["country"], "parse": "ranked", "several_rows": True})
    made |= {"answer_parse": "label"}
    answers = b"id,country\nu1,FR\nu2,US\n"
    assert score_bytes(made, answers, b"id,country\nu2,US\nu1,US\nu1,FR\n") == pytest.approx((1 + 1 / 1.5849625) / 2)
    with pytest.raises(Invalid, match="there are more than 2000 rows"):
        score_bytes(made, answers, b"id,country\n" + b"u1,FR\n" * 2001)


def test_rows_that_do_not_count_are_asked_for_all_the_same() -> None:
    made = task("mae", rule={"where": [{"column": "u_out", "equals": 0}]})
    answers = b"id,y,u_out\n1,10,0\n2,20,1\n3,30,0\n"
    assert score_bytes(made, answers, b"id,y\n1,11\n2,99\n3,33\n") == 2
    with pytest.raises(Invalid, match="1 of 3 rows are missing, for example id '2'"):
        score_bytes(made, answers, b"id,y\n1,11\n3,33\n")


@pytest.mark.parametrize(
    ("rule", "score"),
    [
        ([{"column": "w", "equals": 1}], 4),
        ([{"column": "w", "not_equals": 1.0}], 1.5),
        ([{"column": "w", "in": [2, 3]}], 1.5),
        ([{"column": "w", "greater": 2}], 2),
        ([{"last": 1, "of": "g"}], 3),
        ([{"column": "w", "not_equals": 1}, {"column": "g", "equals": "b"}], 2),
    ],
)
def test_conditions_on_rows(rule: list[dict[str, Any]], score: float) -> None:
    answers = b"id,y,w,g\n1,0,2,a\n2,0,1,a\n3,0,3,b\n"
    assert score_bytes(task("mae", rule={"where": rule}), answers, b"id,y\n1,1\n2,4\n3,2\n") == score


def test_weights_and_groups_come_from_the_answers() -> None:
    answers = b"id,y,holiday,kind\n1,0,True,a_1\n2,0,False,a_2\n3,0,False,b_1\n"
    content = b"id,y\n1,1\n2,2\n3,4\n"
    weight = {"column": "holiday", "values": {"True": 5, "False": 1}}
    assert score_bytes(task("mae", rule={"weight": weight}), answers, content) == pytest.approx((5 + 2 + 4) / 7)
    group = {"column": "kind", "pattern": "^(.*?)_"}
    value = score_bytes(task("log_mae_by_group", rule={"group": group}), answers, content)
    assert value == pytest.approx((0.405465 + 1.386294) / 2, abs=1e-6)
    with pytest.raises(ToolError, match=r"metric\.weight: column 'holiday' has a cell that is not a weight: 'False'"):
        score_bytes(task("mae", rule={"weight": {"column": "holiday", "values": {"True": 5}}}), answers, content)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (b"", "the answers cannot be read: the file is empty"),
        (b"id,z\n1,2\n", "the answers cannot be read: there is no column 'y'; the columns are 'id', 'z'"),
        (b"id,y\n1,nan\n", "the answers cannot be read: column 'y' of row '1' is 'nan', not a finite number"),
        (b"id,y\n", "the answers cannot be read: there are no rows"),
    ],
)
def test_broken_answers_are_an_error_of_the_tool(answers: bytes, told: str) -> None:
    with pytest.raises(ToolError) as caught:
        score_bytes(task(), answers, b"id,y\n1,1\n")
    assert str(caught.value) == told


# --- rubbish ------------------------------------------------------------------------------------------------------------

ALPHABET = [b"id", b"y", b",", b"\n", b"\r", b'"', b"1", b"2", b"3", b".5", b"-", b"e9", b"nan", b"inf", b"\0", b"\xff", b" ", b";",
            b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"'", b"=cmd()", b"\\", b"\t", b"9" * 400, b"\x1f\x8b", b"\x80\x04", b"__import__('os')"]  # fmt: skip
# Small tasks of every kind; what is handed in is never right by chance.
FUZZED: list[tuple[dict[str, Any], bytes, bytes]] = [
    (task(), ANSWERS, b"id,y\n1,10\n2,20\n3,30\n"),
    (task("accuracy", submission={"parse": "label"}), b"id,y\na,x\nb,z\n", b"id,y\na,x\nb,z\n"),
    (task("f1_sample_mean", submission={"parse": "tagset"}), b"id,y\n1,a b\n2,c\n", b"id,y\n1,a b\n2,c\n"),
    (task("dice_mean", submission={"parse": "rle", "empty_ok": True}), b"id,y\n1,1 5\n2,\n", b"id,y\n1,1 5\n2,\n"),
    (task("levenshtein", submission={"parse": "text"}), b"id,y\n1,one\n2,two\n", b"id,y\n1,one\n2,two\n"),
    (task("map_at_k", {"k": 3}, submission={"parse": "ranked"}), b"id,y\n1,a\n2,b\n", b"id,y\n1,a b\n2,b c\n"),
]  # fmt: skip


def hostile(draws: random.Random, good: bytes) -> bytes:
    """A file that is wrong: cut, spliced, doubled, or made of nothing that makes sense."""
    way = draws.randrange(6)
    if way == 0:
        return b"".join(draws.choices(ALPHABET, k=draws.randrange(60)))
    if way == 1:
        return draws.randbytes(draws.randrange(200))
    if way == 2:
        return good[: draws.randrange(len(good) - 2)]
    at = draws.randrange(len(good))
    junk = b"".join(draws.choices(ALPHABET, k=draws.randrange(1, 6)))
    if way == 3:
        return good[:at] + junk + good[at:]
    if way == 4:
        return good + good[at:] * draws.randrange(1, 50)
    lines = good.split(b"\n")
    lines.insert(draws.randrange(len(lines)), junk * draws.randrange(1, 200))
    return b"\n".join(lines)


def fuzz(count: int, seed: int) -> int:
    """How many of `count` hostile files were valid, each of which pandas must find valid as well."""
    draws = random.Random(seed)
    valid = 0
    for _ in range(count):
        made, answers, good = draws.choice(FUZZED)
        content = hostile(draws, good)
        try:
            score = score_bytes(made, answers, content)
        except Invalid as invalid:
            assert str(invalid) and len(str(invalid)) < 2000
            continue
        valid += 1
        assert score == score, content
        # what is valid another reader finds to be a table with one row for each id, and a cell in it
        table = pandas.read_csv(
            io.BytesIO(content), dtype=str, keep_default_na=False, encoding="utf-8-sig", skipinitialspace=False
        )
        table = table[table["id"] != ""]  # some versions see a row in an empty line
        ids = list(parse_answers(answers, answer_spec(made)).position)
        assert sorted(map(canonical_label, table["id"])) == sorted(ids), content
        assert made["submission"].get("empty_ok") or all(table["y"].str.strip()), content
    return valid


@pytest.mark.slow
def test_twenty_thousand_hostile_files_in_bounded_memory() -> None:
    import resource

    fuzz(500, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert fuzz(20_000, 2) < 8000  # many a change leaves a table valid
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KB


@pytest.mark.parametrize(
    "content",
    [
        b"," * (1 << 20),
        b"id,y\n" + b"\n" * (1 << 22),
        b'id,y\n1,"' + b"x" * (1 << 22),
        b"id,y\n" + b"1,1\n" * (1 << 20),
        b"id,y\n1," + b"9" * (1 << 22) + b"\n2,2\n3,3\n",
        b"id" + b",c" * 19_998 + b",y\n" + (b"1" + b",1" * 19_999 + b"\n") * 100,
    ],
)
def test_large_rubbish_is_refused_soon_and_in_little_memory(content: bytes) -> None:
    import tracemalloc

    tracemalloc.start()
    try:
        assert reason(content)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(content) + (1 << 20)
    finally:
        tracemalloc.stop()


def test_files_beyond_the_limit_are_not_looked_at() -> None:
    made = task()
    found = parse_answers(ANSWERS, answer_spec(made))
    with pytest.raises(Invalid, match="the file has 20 bytes; at most 10 are read"):
        read_submission(b"id,y\n1,10\n2,20\n3,30\n", made["submission"], found, max_bytes=10)
