"""Progress bars of a pipe: a line each, drawn one at a time."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import BIN, run_command
from filtered import as_lines, one_graded

from mletools.base.progress import CLEAR_BELOW, CLEAR_LINE, MOST_BARS, PipeLock, take_line
from mletools.run import Run

PIPE = (
    "mle-gen-task --source sklearn:wine,iris -n 2 --backend none | mle-rollout -m scripted -g 2"
    " | mle-sandbox | mle-grade -o graded.jsonl"
)


def test_each_bar_of_a_process_group_takes_a_line_until_it_is_closed() -> None:
    group = -os.getpid()  # no real group
    lines = [take_line(group) for _ in range(MOST_BARS)]
    assert [number for _, number in lines] == list(range(MOST_BARS))
    assert take_line(group) == (None, 0)
    freed = lines[3][0]
    assert freed is not None
    freed.close()
    again, number = take_line(group)
    assert number == 3 and take_line(group - 1)[1] == 0
    for line in (again, *(line for line, _ in lines)):
        assert line is not None
        line.close()


def test_the_lock_is_shared_between_processes_and_entered_twice_by_one_thread(tmp_path: Path) -> None:
    def lock() -> PipeLock:
        return PipeLock(os.open(tmp_path / "terminal", os.O_RDWR | os.O_CREAT))

    mine, other = lock(), lock()
    with mine, mine:
        assert not other.acquire(blocking=False)
        told: list[bool] = []
        thread = threading.Thread(target=lambda: told.append(mine.acquire(blocking=False)))
        thread.start()
        thread.join()
        assert told == [False]
    assert other.acquire(blocking=False)
    other.release()


@pytest.mark.slow
def test_a_pipe_on_a_terminal_draws_each_stage_and_ends_with_a_line_for_each(tmp_path: Path) -> None:
    """What is left on the screen is the summaries; while the pipe runs, a bar's line is reached by moving down and up."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    command = ["script", "-qec", f"stty rows 24 cols 100; bash -c 'set -o pipefail; {PIPE}'", "/dev/null"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=240)
    text = done.stdout.decode()
    assert done.returncode == 0, text
    for name in ("mle-gen-task", "mle-rollout", "mle-sandbox", "mle-grade"):
        assert len(re.findall(rf"{name}: \d+ records, [^\r\n]* s\r\n", text)) == 1, name
    assert re.search(r"\n[^\n]*\x1b\[A", text), text


def test_bars_are_in_the_order_of_the_pipe(tmp_path: Path) -> None:
    """A command knows those before it, though they begin to draw later; other programs of the pipe have no line."""
    code = "from mletools.base.progress import _is_ours, siblings; print([list(map(_is_ours, each)) for each in siblings()])"
    slow = "(exec -a mle-{} sleep 60)"
    line = (
        f"{slow.format('first')} | sleep 60 | {sys.executable} -c '{code}' > found | sleep 60 | {slow.format('last')}"
    )
    with subprocess.Popen(["bash", "-c", line], cwd=tmp_path, start_new_session=True) as pipe:
        while not (tmp_path / "found").exists() or not (tmp_path / "found").read_text():
            time.sleep(0.05)
        os.killpg(pipe.pid, signal.SIGKILL)
    assert (tmp_path / "found").read_text() == "[[True, False], [False, True]]\n"
    group = -os.getpid()
    taken = [take_line(group, wanted) for wanted in (2, 0, 2)]
    assert [number for _, number in taken] == [2, 0, 1], "the wanted line, or else the first that is free"
    for line_of, _ in taken:
        assert line_of is not None
        line_of.close()


@pytest.fixture
def records_file(tmp_path: Path) -> Path:
    (tmp_path / "in.jsonl").write_bytes(as_lines(*(one_graded(number, 0.1 * number) for number in range(4))))
    return tmp_path


def screen(command: str, folder: Path, stop: Callable[[], bool] = lambda: False) -> str:
    """What `command` writes to a terminal of 80 columns, on both streams; Ctrl-C once `stop` says so."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "xterm"}
    found, stopped = b"", False
    streams: dict[str, int] = {"stdin": subprocess.DEVNULL, "stdout": follower, "stderr": follower}
    with subprocess.Popen(
        # what ignores Ctrl-C, such as a test run in the background, hands that on
        ["env", "--default-signal=INT", "bash", "-c", command],
        cwd=folder,
        env=environment,
        start_new_session=True,
        **streams,
    ) as process:
        os.close(follower)
        with contextlib.suppress(OSError):
            while True:
                if select.select([leader], [], [], 0.05)[0]:
                    found += os.read(leader, 65536)
                if not stopped and stop():
                    os.killpg(process.pid, signal.SIGINT)
                    stopped = True
    os.close(leader)
    return found.decode()


def test_no_bar_is_drawn_where_another_program_of_the_pipe_writes_to_the_terminal(records_file: Path) -> None:
    rest = "mle-filter --sample 9 in.jsonl | tee copy"
    assert "mle-filter:   0%|" in screen(f"{rest} > out.jsonl", records_file)
    seen = screen(f"{rest} | cat", records_file)
    assert "%|" not in seen and seen.count('{"kind": "rollout"') == 4


def test_a_resumed_run_has_a_total(records_file: Path) -> None:
    (records_file / "out.jsonl.partial").write_bytes(
        run_command("mle-filter", "--sample", "9", "in.jsonl", cwd=records_file).stdout.splitlines(keepends=True)[0]
    )
    assert "0/3 [" in screen("mle-filter --sample 9 in.jsonl -o out.jsonl --resume", records_file)


def test_what_is_left_of_a_group_is_counted(records_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("mle-rollout", {"files": ["in.jsonl"], "quiet": True}, {}, 1)
    run.counts["finished before"] = 3
    monkeypatch.chdir(records_file)
    assert (run.count_lines(), run.count_lines(2)) == (1, 5)
    run.counts["finished before"] = 33
    assert run.count_lines(2) == 0


def test_ctrl_c_clears_the_bar_and_says_what_is_kept(records_file: Path) -> None:
    partial = records_file / "out.jsonl.partial"

    def written() -> bool:
        return partial.exists() and partial.read_text().count("\n") == 4

    filtered = "mle-filter --no-spread --min-group 1 --keep-duplicates --keep-invalid"
    seen = screen(f"(cat in.jsonl; sleep 60) | {filtered} -o out.jsonl", records_file, written)
    assert "mle-filter: 0 records [" in seen, "there was a bar"
    said = "mle-filter: stopped: 4 records kept in out.jsonl.partial; --resume goes on"
    assert seen.endswith(f"{CLEAR_LINE}{CLEAR_BELOW}{said}\r\n")
    partial.unlink()
    copied = screen(
        f"(cat in.jsonl; sleep 60) | {filtered} | tee copy > copy.2", records_file, (records_file / "copy").exists
    )
    assert "stopped" not in copied


@pytest.mark.parametrize(
    ("there", "records", "said"),
    [
        (False, 0, "0 records kept in out.jsonl.partial; --resume goes on"),
        (True, 0, "out.jsonl is as it was; --force begins again"),
        (True, 1, "1 record kept in out.jsonl.partial; --resume goes on"),
    ],
)
def test_what_goes_on_after_force(
    there: bool,
    records: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--resume takes up the old file where nothing is in the new one."""
    monkeypatch.chdir(tmp_path)
    if there:
        (tmp_path / "out.jsonl").write_bytes(b"")
    run = Run("mle-filter", {"output": "out.jsonl", "force": True, "quiet": False}, {}, 1).open()
    for number in range(records):
        run.emit({"id": str(number)})
    run.interrupted()
    assert capsys.readouterr().err == f"mle-filter: stopped: {said}\n"


def test_text_in_a_pipe_has_the_width_of_the_terminal(records_file: Path) -> None:
    assert screen("mle-show -q in.jsonl | tee shown > /dev/null", records_file) == ""
    widest = max(map(len, (records_file / "shown").read_text().splitlines()))
    assert widest <= 80
