"""Metrics that are code: the input of the sandbox that runs one, and how to read its output.

The metric's file and the answers come from the task's private folder, the submission from the agent. The metric runs in
a sandbox of the grader, where no agent's program runs. Not covered: the sandbox, the program inside it (judge).
"""

import base64
import fcntl
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..base.errors import RecordError, ToolError
from ..records.task import MetricSpec
from .table import Invalid

PREFIX = "mle-grade-"
VERDICT = "verdict.json"  # the output of the program
FRESH_S = 60.0


def program() -> str:
    """The source of the program that loads the metric inside the sandbox and judges submissions there."""
    return (Path(__file__).parent / "judge.py").read_text(encoding="utf-8")


@contextmanager
def box() -> Iterator[Path]:
    """A temporary folder for one metric and its answers, which no other user may enter.

    First removes the folders of killed runs: a running one holds a lock on its folder.
    """
    with suppress(OSError):
        _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as outer:
        handle = os.open(outer, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            inner = Path(outer) / "input"
            inner.mkdir()
            inner.chmod(0o755)  # the sandbox may run as another user, and mounts this folder
            yield inner
        finally:
            os.close(handle)


def _sweep(root: Path) -> None:
    for folder in root.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime < FRESH_S:  # it may not be locked yet
                continue
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def lay_out(metric: MetricSpec, answers: str, folder: Path, place: Path) -> None:
    """Copy the program's input into the empty folder `place`: the metric, the answers, and the files of metric.files.

    ToolError: a file is missing.
    """
    request = {
        "file": Path(metric["file"]).name,
        "style": metric.get("style", "function"),
        "answers": Path(answers).name,
    }
    for name in {metric["file"], answers, *metric.get("files", [])}:
        target = place / Path(name).name
        if target.exists():
            raise ToolError(f"{folder / name}: two files of the metric have the same name")
        try:
            target.write_bytes((folder / name).read_bytes())
        except OSError as error:
            raise ToolError(f"{folder / name}: {error.strerror}") from None
    (place / "judge.json").write_text(json.dumps(request), encoding="utf-8")
    for file in place.iterdir():
        file.chmod(0o644)


def call(content: bytes) -> str:
    """The Python expression that judges a submission in the program."""
    return f'judge("{base64.b64encode(content).decode()}")'


class MetricFailed(RecordError):
    """A metric has failed, which says nothing about the submission until it has scored another one.

    reason: in a few words, without the exception's text, which may quote answers; that is in `said`. `limit`: it hit a
    limit of its box, which a busy machine may also make it do.
    """

    def __init__(self, message: str, reason: str, said: str = "", limit: bool = False):
        super().__init__(message)
        self.reason, self.said, self.limit = reason, said, limit


class FailsOnThisFile(Invalid):
    """A metric fails on this submission, and scores `scored`, another that is known to be good.

    error: what failed, in words that no agent may read.
    """

    def __init__(self, scored: str, failure: MetricFailed):
        super().__init__(f"the metric fails on this file ({failure.reason}), though it scores {scored}")
        self.error = f"{failure.reason}: {failure.said}" if failure.said else failure.reason


REASONS = {
    "timeout": "it takes too long",
    "memory": "it needs too much memory",
    "output": "it prints too much",
}


def read_score(name: str, status: str, output: bytes | None, stderr: bytes) -> float:
    """The score in the program's output; `name` is the metric's file. Invalid where the metric rejects the submission.

    MetricFailed where the metric raises, ends its process, hits a limit or leaves no result. RecordError where it cannot
    be loaded, or where the machine failed: it was killed from outside, a disk was full.
    """
    if status != "ok":
        message = ended_badly(name, status, stderr)
        raise MetricFailed(message, REASONS[status], limit=True) if status in REASONS else RecordError(message)
    if output is None:
        raise MetricFailed(ended_badly(name, status, stderr), "it leaves no result")
    try:
        reply = json.loads(output)
    except ValueError:
        reply = None
    if not isinstance(reply, dict) or not {"invalid", "error", "score"} & reply.keys():
        raise MetricFailed(f"the metric {name} wrote no JSON object with a result", "it leaves no result")
    if "invalid" in reply:
        raise Invalid(str(reply["invalid"]))
    if "error" in reply:
        trace = str(reply["error"]).strip()
        message = f"the metric {name} failed: {trace}"
        if reply.get("by") in ("loading", "machine"):
            raise RecordError(message)
        kind = str(reply.get("type", "it raises an exception"))
        raise MetricFailed(message, kind, str(reply.get("said", "")), limit="MemoryError" in kind)
    score = reply["score"]
    if not isinstance(score, (int, float)) or not math.isfinite(score):
        raise Invalid(f"the metric {Path(name).name} of these predictions is not a finite number")
    return float(score)


def ended_badly(name: str, status: str, stderr: bytes) -> str:
    """How the metric's box ended, and the last words that came out of it."""
    tail = stderr.decode("utf-8", errors="replace").strip()[-500:]
    return f"the metric {name} ended with status {status}: {tail}"
