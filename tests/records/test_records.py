"""Reading, writing, identities, the worker pool."""

import io
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from filtered import one_graded

from mletools.base import workers
from mletools.base.errors import RecordError, ToolError
from mletools.base.ids import content_id, derive_seed
from mletools.base.jsonl import dumps, loads, read_lines
from mletools.base.output import Output
from mletools.records import schema


def test_nan_and_infinity_are_refused_both_ways() -> None:
    for text in ("NaN", "[Infinity]", '{"a": -Infinity}', "1e999"):
        with pytest.raises(ValueError):
            loads(text)
    with pytest.raises(ValueError):
        dumps({"a": float("nan")})


def test_lines_end_at_newline_alone() -> None:
    text = '{"a": "x\u2028y\u0085z"}\n{"a": "\\ud800"}\n'
    lines = list(read_lines(io.BytesIO(text.encode()), "f"))
    assert [line.record["a"] for line in lines] == ["x\u2028y\u0085z", "\ufffd"]


def test_half_a_surrogate_pair_becomes_a_replacement_character_and_whole_ones_stay() -> None:
    assert loads('{"a\\ud800": ["\\ud83d\\ude00", "\\udfff!"]}') == {"a\ufffd": ["\U0001f600", "\ufffd!"]}
    assert dumps({"a": "\ud800\U0001f600"}) == '{"a": "\ufffd\U0001f600"}'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"[1, 2]\n", "not a JSON object"),
        (b'{"a": \n', "not JSON: Expecting value at column 8"),
        (b'{"a": "\xff"}\n', "not UTF-8"),
        (b'{"a": ' + b"[" * 100_000 + b"\n", "nested too deeply"),
    ],
)
def test_bad_lines_have_a_place_and_a_reason(line: bytes, problem: str) -> None:
    good, bad, after = read_lines(io.BytesIO(b'{"a": 1}\n' + line + b'{"a": 2}'), "f.jsonl")
    assert (good.record, after.record) == ({"a": 1}, {"a": 2})
    assert (bad.place, bad.problem) == ("f.jsonl:2", problem)


def test_ids_depend_on_content_alone() -> None:
    assert content_id({"a": 1, "b": [2.5, None]}) == content_id({"b": [2.5, None], "a": 1}) == "0342cfcd7578252c"
    assert content_id(1) != content_id("1")
    assert 0 <= derive_seed(0, "x") < 2**62 and derive_seed(0, "x") != derive_seed(1, "x")


def test_a_schema_error_says_where_and_who_should_have_written_it() -> None:
    with pytest.raises(RecordError, match=r"no rollout record \(kind is 'tsak'\): mle-rollout writes such records"):
        schema.check({"kind": "tsak"}, "rollout")
    with pytest.raises(RecordError, match=r'no "name": was this written by mle-gen-task or mle-import\?'):
        schema.check(
            {"kind": "task", "version": 1, "answers": "x", "description": "x", "id": "x", "lineage": []}, "task"
        )
    graded = one_graded(0, 0.5)
    del graded["grade"]["above_median"]
    with pytest.raises(RecordError, match=r'no "above_median" in grade: was this written by mle-grade\?'):
        schema.check(graded, "rollout")


@pytest.mark.parametrize(
    ("record", "kinds", "told"),
    [
        (
            {"kind": "task"},
            ("rollout",),
            "this is a task, not a rollout: mle-rollout takes tasks, and mle-show shows them",
        ),
        (
            {"kind": "train_step"},
            ("task", "rollout"),
            "this is a training step, not a task or a rollout: mle-report takes it as --train-steps, and mle-show shows it",
        ),
        (
            {"messages": []},
            ("rollout",),
            "this is a conversation (messages without a kind), not a rollout: mle-train-sft takes it",
        ),
    ],
)
def test_a_record_of_another_kind_is_named_with_the_command_that_takes_it(
    record: dict[str, Any], kinds: tuple[str, ...], told: str
) -> None:
    with pytest.raises(RecordError) as error:
        schema.check(record, *kinds)
    assert str(error.value) == told


def test_every_kind_has_a_name() -> None:
    assert set(schema.NAMES) == set(schema.KINDS)


def test_a_wrong_value_is_named_by_its_path() -> None:
    graded = one_graded(0, 0.5)
    for path, value, said in (
        (("turns", 0, "duration_s"), -1.0, "turns[0].duration_s: Expected `float` >= 0.0"),
        (("messages", 1, "role"), "odd", "messages[1].role: Invalid enum value 'odd'"),
        (("task", "submission", "rows"), "7", "task.submission.rows: Expected `int`, got `str`"),
        (("task", "metric"), {"lower_is_better": True}, "task.metric: has to have name and params, or file"),
        (
            ("task", "metric", "where"),
            [{"column": "a"}],
            "task.metric.where[0]: has to have column and equals, or column",
        ),
        (("grade", "score"), None, "grade.score: null, though grade.valid is true"),
        (("turns", 0, "grade"), {"valid": True}, "turns[0].grade.score: null, though turns[0].grade.valid is true"),
        (("kind",), "rollout", ""),
        (("later",), {"unknown": "fields pass"}, ""),
    ):
        broken: Any = json.loads(json.dumps(graded))
        part = broken
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value
        if said:
            with pytest.raises(RecordError) as caught:
                schema.check(broken, "rollout")
            assert str(caught.value).startswith(said)
        else:
            schema.check(broken, "rollout")


def test_an_output_appears_when_complete_and_resumes(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    first = Output(path, None, False, lambda record: record["id"])
    first.write({"id": "a"})
    with pytest.raises(ToolError, match="another run is writing it"):
        Output(path, None, True, lambda record: record["id"])
    first._file.write(b'{"id": "b')  # killed within a line
    first._file.close()
    assert not path.exists()
    second = Output(path, None, True, lambda record: record["id"])
    assert dict(second.finished) == {"a": 1}
    second.write({"id": "b"})
    second.commit()
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["a", "b"]
    third = Output(path, None, True, lambda record: record["id"])
    third.write({"id": "c"})  # the input grew: the old records are kept
    third.commit()
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["a", "b", "c"]
    assert not list(tmp_path.glob("*.partial"))
    path.with_name("out.jsonl.partial").write_bytes(path.read_bytes()[:15])  # killed while the old records were copied
    fourth = Output(path, None, True, lambda record: record["id"])
    fourth.write({"id": "d"})
    fourth.commit()
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("more", ["", "b"])
def test_resuming_a_stream_that_was_cut_off_ends_its_last_line(more: str, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b'{"id": "a" }')  # > out.jsonl, killed
    resumed = Output(path, None, True, lambda record: record["id"])
    assert dict(resumed.finished) == {"a": 1}
    for name in more:
        resumed.write({"id": name})
    resumed.commit()
    assert path.read_text() == "".join(f'{{"id": "{name}" }}\n' for name in "a" + more)
    assert not list(tmp_path.glob("*.partial"))


def test_an_output_replaces_nothing_but_a_file_and_a_link_is_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(ToolError, match=f"{name}: is no regular file, and would be replaced"):
            Output(tmp_path / name, None, False, lambda record: record["id"], force=True)
    assert (tmp_path / "pipe").is_fifo() and not list(tmp_path.glob("*.partial"))
    (tmp_path / "link").symlink_to(tmp_path / "real")
    linked = Output(tmp_path / "link", None, False, lambda record: record["id"])
    linked.write({"id": "a"})
    linked.commit()
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b'{"id": "a" }\n'


def test_workers_keep_order_on_demand_and_bound_what_is_in_flight() -> None:
    taken: list[int] = []

    def numbers():
        for number in range(100):
            taken.append(number)
            yield number

    def slow_first(number: int) -> int:
        time.sleep(0.05 if number == 0 else 0)
        return number * number

    results = workers.run(slow_first, numbers(), 4, keep_order=True)
    assert next(results)[1] == 0
    assert len(taken) <= 4 * 4 + 2
    assert [result for _, result, _ in results] == [number * number for number in range(1, 100)]


def test_workers_hand_on_errors_after_what_was_done() -> None:
    def broken():
        yield from (1, 0)
        raise ToolError("input broke")

    seen = []
    with pytest.raises(ToolError, match="input broke"):
        for item, result, error in workers.run(lambda number: 1 // number, broken(), 1):
            seen.append((item, result, type(error)))
    assert seen == [(1, 1, type(None)), (0, None, ZeroDivisionError)]


def test_results_leave_while_the_input_is_silent() -> None:
    more = threading.Event()

    def waits():
        yield 1
        more.wait(30)
        yield 2

    results = workers.run(lambda number: number, waits(), 2)
    assert next(results)[0] == 1
    more.set()
    assert next(results)[0] == 2


def test_work_that_leaves_is_an_error_and_no_silence() -> None:
    """A plug-in may call sys.exit: that must not end one thread and let the others wait for it."""

    def leave(item: int) -> int:
        raise SystemExit(item)

    ((_, _, error),) = workers.run(leave, [3], 1)
    assert isinstance(error, SystemExit) and error.code == 3
