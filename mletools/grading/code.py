"""Metrics that are code: what goes into the sandbox that runs one, and what its words are worth.

The metric's file and the answers come from the task's private folder; the submission comes from the agent. They meet in
a sandbox of the grader's own, where no agent's program runs. Not covered: the sandbox itself, which the caller has; the
program that runs inside (judge).
"""

import base64
import fcntl
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..records.errors import RecordError, ToolError
from .table import Invalid, read_table

PREFIX = "mle-grade-"
FRESH_S = 60.0


def program() -> str:
    """The source of the program that loads the metric inside the sandbox and judges submissions there."""
    return (Path(__file__).parent / "judge.py").read_text(encoding="utf-8")


@contextmanager
def box() -> Iterator[Path]:
    """A folder for one metric, which nobody else on this machine may enter: answers lie in it. Gone at the end.

    What runs that were killed left behind is removed first: a living run holds the lock of its folder.
    """
    with suppress(OSError):
        _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as outer:
        handle = os.open(outer, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            inner = Path(outer) / "input"
            inner.mkdir()
            inner.chmod(0o755)  # the sandbox may run as somebody else, who is led past the outer folder
            yield inner
        finally:
            os.close(handle)


def _sweep(place: Path) -> None:
    for left in place.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime < FRESH_S:  # made, and perhaps not yet locked
                continue
            handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(handle)


def lay_out(task: Mapping[str, Any], folder: Path, place: Path) -> None:
    """Put into the empty folder `place` what the program reads: the metric and the answers.

    metric.files names what else of the task's folder the metric needs; all lie side by side there. ToolError: a file is
    missing.
    """
    metric = task["metric"]
    asked = {
        "file": Path(metric["file"]).name,
        "style": metric.get("style", "function"),
        "answers": Path(task["answers"]).name,
    }
    for name in {metric["file"], task["answers"], *metric.get("files", [])}:
        target = place / Path(name).name
        if target.exists():
            raise ToolError(f"{folder / name}: two files of the metric have the same name")
        try:
            target.write_bytes((folder / name).read_bytes())
        except OSError as error:
            raise ToolError(f"{folder / name}: {error.strerror}") from None
    (place / "judge.json").write_text(json.dumps(asked), encoding="utf-8")
    for file in place.iterdir():
        file.chmod(0o644)


def call(content: bytes) -> str:
    """The call by which the program judges a submission."""
    return f'judge("{base64.b64encode(content).decode()}")'


def read_score(task: Mapping[str, Any], content: bytes, status: str, said: bytes | None, stderr: bytes) -> float:
    """The score that the program handed out. Invalid where the metric refused the submission `content`, or where it
    failed over one that is no table at all: empty, not UTF-8, rows of several lengths.

    RecordError where the metric failed otherwise: that is no fault of the submission's, and must never become a reward.
    """
    try:
        return _score(task, status, said, stderr)
    except RecordError:
        read_table(content)
        raise


def _score(task: Mapping[str, Any], status: str, said: bytes | None, stderr: bytes) -> float:
    name = task["metric"]["file"]
    if status != "ok" or said is None:
        tail = stderr.decode("utf-8", errors="replace").strip()[-500:]
        raise RecordError(f"the metric {name} ended with status {status}: {tail}")
    try:
        reply = json.loads(said)
    except ValueError:
        raise RecordError(f"the metric {name} handed out no JSON") from None
    if "invalid" in reply:
        raise Invalid(str(reply["invalid"]))
    if "error" in reply:
        raise RecordError(f"the metric {name} failed: {reply['error'].strip()}")
    score = reply["score"]
    if not isinstance(score, (int, float)) or not math.isfinite(score):
        raise Invalid(f"the metric {Path(name).name} of these predictions is not a finite number")
    return float(score)
