"""Runs metrics that are code in a sandbox, which a process opens when it first needs it. Importing this is fast."""

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..records.errors import ToolError
from ..records.jsonl import dumps
from ..records.options import option
from ..sandbox import BACKENDS, Cell, Limits, Sandbox, Setup, open_sandbox

# A session scores so many submissions and lasts so many seconds: what a metric leaves on its disk goes with it.
MAX_SUBMISSIONS, MAX_SECONDS = 1000, 86_400.0


class LazySandbox:
    """A sandbox with one slot: `open` opens it, the end of the with block closes it. Users hold `lock` meanwhile.

    It can be pickled: a worker process opens a sandbox of its own, which ends with the process.
    """

    def __init__(self, backend: str):
        self.backend, self.lock = backend, threading.Lock()
        self._stack = ExitStack()
        self._sandbox: Sandbox | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return LazySandbox, (self.backend,)

    def open(self) -> Sandbox:
        """The sandbox, opened by the first call. ToolError: it cannot be opened."""
        if self._sandbox is None:
            self._sandbox = self._stack.enter_context(open_sandbox(self.backend, Setup(1)))
        return self._sandbox

    def __enter__(self) -> "LazySandbox":
        return self

    def __exit__(self, *error: object) -> None:
        self._sandbox = None
        self._stack.close()


class CodeMetrics:
    """Scores submissions by metrics that are code, in a sandbox that is closed at the end of the with block.

    A metric is loaded once for submissions to one task that come one after another. It can be pickled: a worker process
    opens a sandbox of its own.
    """

    def __init__(self, backend: str, limits: Limits):
        self.backend, self.limits = backend, limits
        self._sandbox = LazySandbox(backend)
        self._judge: _Judge | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return CodeMetrics, (self.backend, self.limits)

    def __call__(self, task: Mapping[str, Any], folder: Path, content: bytes) -> float:
        """The score of a submission's bytes; see grading.code.read_score for its errors."""
        metric = (str(folder.resolve()), task["data"].get("private_digest"), dumps([task["metric"], task["answers"]]))
        with self._sandbox.lock:
            if self._judge is None or not self._judge.usable or self._judge.metric != metric:
                self._close_judge()
                self._judge = _Judge(self._open_sandbox(), self.limits, metric, task, folder)
            cell = self._judge.judge(content, self.limits.wall_s)
        from ..grading import code

        return code.read_score(task, content, cell.status, cell.submission, cell.output)

    def _open_sandbox(self) -> Sandbox:
        """ToolError where a metric, which may be anybody's, could read what it should not."""
        sandbox = self._sandbox.open()
        if not sandbox.protections["private_files"]:
            raise ToolError(
                "this machine grants neither namespaces nor Landlock: a metric that is code could read any file"
            )
        return sandbox

    def _close_judge(self) -> None:
        if self._judge is not None:
            judge, self._judge = self._judge, None
            judge.close()

    def __enter__(self) -> "CodeMetrics":
        return self

    def __exit__(self, *error: object) -> None:
        with self._sandbox:
            self._close_judge()


class _Judge:
    """A session in which one metric is loaded; `metric` tells it from others."""

    def __init__(
        self, sandbox: Sandbox, limits: Limits, metric: tuple[Any, ...], task: Mapping[str, Any], folder: Path
    ):
        from ..grading import code

        self.metric, self.submissions, self._started = metric, 0, time.monotonic()
        self._stack = ExitStack()
        place = self._stack.enter_context(code.box())
        code.lay_out(task, folder, place)
        self._session = sandbox.session(place, replace(limits, wall_s=2 * MAX_SECONDS), 0)
        self._stack.callback(self._session.close)
        self.cell = self._session.python(f"{code.program()}\nprepare()\n", limits.wall_s)

    @property
    def usable(self) -> bool:
        return self.cell.alive and self.submissions < MAX_SUBMISSIONS and time.monotonic() - self._started < MAX_SECONDS

    def judge(self, content: bytes, wall_s: float) -> Cell:
        from ..grading.code import call

        if self.cell.status == "ok" or self.submissions:
            self.cell = self._session.python(call(content), wall_s)
            self.submissions += 1
        return self.cell

    def close(self) -> None:
        self._stack.close()


@dataclass(frozen=True)
class CodeMetricOptions:
    """Where metrics that are code run, and their limits: wall seconds and MB."""

    backend: str = option(
        "The sandbox of metrics that are code.",
        default="local",
        choices=(*BACKENDS, "auto"),
        envvar="MLE_SANDBOX",
        machine=True,
    )
    metric_timeout: float = option("Wall seconds for one metric.", default=300.0, metavar="S", machine=True)
    metric_memory: int = option("Memory of one metric.", default=4096, at_least=64, metavar="MB", machine=True)

    def open(self) -> CodeMetrics:
        """Runs metrics; its sandbox is closed at the end of the with block."""
        return CodeMetrics(self.backend, Limits(wall_s=self.metric_timeout, memory_mb=self.metric_memory))
