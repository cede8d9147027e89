"""Where metrics that are code run, for the commands that score submissions; no command by itself."""

import functools
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..grading import code
from ..records.errors import ToolError
from ..records.jsonl import dumps
from ..sandbox import Limits, Sandbox, Setup, open_sandbox
from ..sandbox.interface import Cell

# Entered by the command: what this process opened ends with it, and the next metric opens another.
opened = ExitStack()


LASTS_S, MOST = 86_400.0, 1000  # a session: seconds, submissions; what a metric leaves on its disk goes with it


class _Judge:
    """A session in which one metric is loaded."""

    def __init__(self, box: "CodeBox", task: Mapping[str, Any], folder: Path):
        self.metric, self.judged, self._began = _metric(box, task, folder), 0, time.monotonic()
        self._stack = ExitStack()
        place = self._stack.enter_context(code.box())
        code.lay_out(task, folder, place)
        self._session = _sandbox(box.backend).session(place, replace(box.limits, wall_s=2 * LASTS_S), 0)
        self._stack.callback(self._session.close)
        self.cell = self._session.python(f"{code.program()}\nprepare()\n", box.limits.wall_s)

    @property
    def lasts(self) -> bool:
        return self.cell.alive and self.judged < MOST and time.monotonic() - self._began < LASTS_S

    def judge(self, content: bytes, wall_s: float) -> Cell:
        if self.cell.status == "ok" or self.judged:
            self.cell = self._session.python(code.call(content), wall_s)
            self.judged += 1
        return self.cell

    def close(self) -> None:
        self._stack.close()


_lock = threading.Lock()
_judges: dict[str, _Judge] = {}  # of each backend the one that was asked last


def _metric(box: "CodeBox", task: Mapping[str, Any], folder: Path) -> tuple[Any, ...]:
    """What a judge is the same for."""
    return box, str(folder.resolve()), task["data"].get("private_digest"), dumps([task["metric"], task["answers"]])


@dataclass(frozen=True)
class CodeBox:
    """Where metrics that are code run: a sandbox with one slot, opened in each process that first meets such a task.

    A metric is loaded once for submissions to one task that come one after another.
    """

    backend: str
    limits: Limits

    def __call__(self, task: Mapping[str, Any], folder: Path, content: bytes) -> float:
        with _lock:
            judge = _judges.get(self.backend)
            if judge is None or not judge.lasts or judge.metric != _metric(self, task, folder):
                if judge is not None:
                    del _judges[self.backend]
                    judge.close()
                judge = _judges[self.backend] = _Judge(self, task, folder)
            cell = judge.judge(content, self.limits.wall_s)
        return code.read_score(task, content, cell.status, cell.submission, cell.output)


def _close_judges() -> None:
    while _judges:
        _judges.popitem()[1].close()


@functools.cache
def _sandbox(backend: str) -> Sandbox:
    """ToolError where a metric, which may be anybody's, could read what it should not."""
    sandbox = opened.enter_context(open_sandbox(backend, Setup(1)))
    if not sandbox.protections["private_files"]:
        raise ToolError(
            "this machine grants neither namespaces nor Landlock: a metric that is code could read any file"
        )
    opened.callback(_sandbox.cache_clear)
    opened.callback(_close_judges)
    return sandbox
