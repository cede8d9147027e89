"""Progress bars of a pipe: a line each, drawn one at a time."""

import os
import re
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import BIN

from mletools.base.progress import MOST_BARS, PipeLock, take_line

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
