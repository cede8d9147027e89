"""Tapes: what a killed run got from the world is played again, and nothing else is."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mletools.base.errors import ToolError
from mletools.base.tape import NothingKept, Tape, Tapes


class Counting:
    """Answers with how often it was asked; what it answers is paid for."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> dict[str, Any]:
        self.made += 1
        return {"number": self.made, "text": "ä\n\u2028", "share": 0.1, "none": None}


def never() -> dict[str, Any]:
    raise AssertionError("this was on the tape")


def play(tape: Tape, make: Callable[[], dict[str, Any]], first: int, last: int) -> list[dict[str, Any]]:
    return [tape.play("ask", ["question", number], make) for number in range(first, last)]


def killed(path: Path, jobs: int = 1, events: int = 3) -> None:
    """A file as a killed run leaves it."""
    tapes = Tapes(path)
    for job in range(jobs):
        play(tapes.tape(f"job {job}"), Counting(), 0, events)
    tapes.close(complete=False)


def test_what_is_on_the_tape_is_played_and_then_it_goes_on_live(tmp_path: Path) -> None:
    path, live = tmp_path / "tape", Counting()
    tapes = Tapes(path)
    first = play(tapes.tape("a"), live, 0, 3)
    tapes.close(complete=False)
    assert live.made == 3 and len(path.read_bytes().split(b"\n")) == 4
    tapes = Tapes(path, resume=True)
    assert tapes.has("a") and not tapes.has("b") and not tapes.is_done("a")
    tape, more = tapes.tape("a"), Counting()
    assert play(tape, never, 0, 3) == first and tape.played == 3
    assert play(tape, more, 3, 5) == [{**first[0], "number": number} for number in (1, 2)] and tape.played == 3
    tapes.close(complete=False)
    tapes = Tapes(path, resume=True)  # killed again: all five
    assert [each["number"] for each in play(tapes.tape("a"), never, 0, 5)] == [1, 2, 3, 1, 2]
    tapes.close(complete=True)
    assert not path.exists()


def test_a_part_that_is_only_replayed_asks_nothing_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tape"
    tapes = Tapes(path)
    for name in ("0", "1"):
        play(tapes.tape("a").part(name), Counting(), 0, 2)
    tapes.close(complete=False)
    before = path.read_bytes()
    tapes = Tapes(path, resume=True)
    part = tapes.tape("a").part("0", kept_only=True)
    assert part.replays and len(play(part, never, 0, 2)) == 2 and not part.replays
    with pytest.raises(NothingKept):  # there is no further event
        play(part, never, 2, 3)
    with pytest.raises(NothingKept):  # the next one is another
        play(tapes.tape("a").part("1", kept_only=True), never, 1, 2)
    tapes.close(complete=False)
    assert path.read_bytes() == before


def test_without_resume_an_old_file_is_not_played(tmp_path: Path) -> None:
    killed(tmp_path / "tape")
    tapes, live = Tapes(tmp_path / "tape"), Counting()
    assert not tapes.has("job 0")
    play(tapes.tape("job 0"), live, 0, 3)
    assert live.made == 3
    tapes.close(complete=False)
    assert len((tmp_path / "tape").read_bytes().split(b"\n")) == 4


def test_without_a_file_nothing_is_kept() -> None:
    tapes, live = Tapes(None, resume=True), Counting()
    play(tapes.tape("a"), live, 0, 2)
    tapes.done("a")
    tapes.close(complete=True)
    assert live.made == 2 and not tapes.is_done("a")


def test_no_file_yet_is_nothing_to_play(tmp_path: Path) -> None:
    tapes, live = Tapes(tmp_path / "tape", resume=True), Counting()
    play(tapes.tape("a"), live, 0, 1)
    assert live.made == 1 and (tmp_path / "tape").exists()
    tapes.close(complete=True)


def test_a_line_torn_anywhere_is_cut_off_and_asked_again(tmp_path: Path) -> None:
    killed(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    third = content.rindex(b"\n", 0, -1) + 1
    for end in range(third, len(content)):
        (tmp_path / "tape").write_bytes(content[:end])
        tapes, live = Tapes(tmp_path / "tape", resume=True), Counting()
        assert [each["number"] for each in play(tapes.tape("job 0"), live, 0, 3)] == [1, 2, 1]
        tapes.close(complete=False)
        assert [json.loads(line)["answer"]["number"] for line in (tmp_path / "tape").open("rb")] == [1, 2, 1]


@pytest.mark.parametrize("line", [b"hello\n", b"[1]\n", b'{"id": "x"}\n', b'"text"\n', b"\n", b"\xff\n", b"7\n"])
@pytest.mark.parametrize("before", [0, 2])
def test_a_file_of_something_else_is_refused_and_left_alone(line: bytes, before: int, tmp_path: Path) -> None:
    path = tmp_path / "tape"
    killed(path, events=before)
    with path.open("ab") as file:
        file.write(line + b"more")
    content = path.read_bytes()
    with pytest.raises(ToolError) as error:
        Tapes(path, resume=True)
    assert str(error.value) == f"{path}:{before + 1}: not a tape of this command; move the file away"
    assert path.read_bytes() == content


def test_a_tape_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"/tape: No such file or directory$"):
        Tapes(tmp_path / "nowhere" / "tape")
    with pytest.raises(ToolError, match=r": Is a directory$"):
        Tapes(tmp_path, resume=True)


def test_a_full_disk_is_an_error_and_not_a_lost_answer() -> None:
    tapes = Tapes(Path("/dev/full"))
    with pytest.raises(ToolError, match=r"^/dev/full: No space left on device: the last answer could not be stored$"):
        play(tapes.tape("a"), Counting(), 0, 1)


def test_the_events_of_a_finished_job_are_forgotten(tmp_path: Path) -> None:
    tapes = Tapes(tmp_path / "tape")
    for job in "ab":
        play(tapes.tape(job), Counting(), 0, 2)
    tapes.done("a")
    tapes.close(complete=False)
    tapes = Tapes(tmp_path / "tape", resume=True)
    assert tapes.is_done("a") and not tapes.has("a") and not tapes.is_done("b") and tapes.has("b")
    tapes.close(complete=False)


@pytest.mark.parametrize(
    ("what", "about"), [("ask", ["another", 1]), ("run", ["question", 1]), ("ask", ["question", "1"])]
)
def test_a_tape_that_tells_of_something_else_is_played_no_further(what: str, about: Any, tmp_path: Path) -> None:
    killed(tmp_path / "tape")
    tapes, live = Tapes(tmp_path / "tape", resume=True), Counting()
    tape = tapes.tape("job 0")
    assert tape.play("ask", ["question", 0], never)["number"] == 1
    assert tape.play(what, about, live)["number"] == 1
    # what comes after the point of divergence is asked anew, even where the question is on the tape
    assert tape.play("ask", ["question", 2], live)["number"] == 2
    assert tape.played == 1 and live.made == 2
    tapes.close(complete=False)


def test_a_run_that_took_another_way_is_played_as_it_went(tmp_path: Path) -> None:
    """After the divergence the file holds the old events of the job and the new ones."""
    path = tmp_path / "tape"
    killed(path, events=3)
    tapes, live = Tapes(path, resume=True), Counting()
    tape = tapes.tape("job 0")
    tape.play("ask", ["question", 0], never)
    for number in (1, 2):
        tape.play("ask", ["another", number], live)
    tapes.close(complete=False)
    tapes = Tapes(path, resume=True)
    tape = tapes.tape("job 0")
    assert tape.play("ask", ["question", 0], never)["number"] == 1
    assert [tape.play("ask", ["another", number], never)["number"] for number in (1, 2)] == [1, 2]
    tapes.close(complete=False)


def test_an_answer_comes_back_as_it_was(tmp_path: Path) -> None:
    answer = {
        "text": "half \u2028",
        "logprobs": [-0.1, -1e-17, -123.456789012345678],
        "ids": [1],
        "deep": {"a": [None]},
    }
    tapes = Tapes(tmp_path / "tape")
    live = tapes.tape("a").play("ask", 0, lambda: answer)
    tapes.close(complete=False)
    again = Tapes(tmp_path / "tape", resume=True).tape("a").play("ask", 0, never)
    assert again == live
    assert again["logprobs"] == answer["logprobs"]


def test_many_threads_write_whole_lines(tmp_path: Path) -> None:
    path, tapes = tmp_path / "tape", Tapes(tmp_path / "tape")
    begin = threading.Barrier(8)

    def work(job: str) -> None:
        begin.wait(20)
        play(tapes.tape(job), lambda: {"job": job, "text": "x" * 5000}, 0, 20)

    threads = [threading.Thread(target=work, args=(f"job {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    tapes.close(complete=False)
    assert len(path.read_bytes().split(b"\n")) == 161
    tapes = Tapes(path, resume=True)
    for number in range(8):
        played = play(tapes.tape(f"job {number}"), never, 0, 20)
        assert {each["job"] for each in played} == {f"job {number}"}
    tapes.close(complete=True)
