"""Runs metrics that are code in a sandbox, which a process opens when it first needs it. Importing this is fast."""

import json
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..base.errors import RecordError, ToolError
from ..base.jsonl import dumps
from ..base.options import option
from ..records.task import Task
from ..sandbox import BACKENDS, Cell, Limits, Sandbox
from ..sandbox.lazy import LazySandbox

if TYPE_CHECKING:
    from ..grading.form import Form
    from ..records.task import Task

Key: TypeAlias = tuple[str, str, str]  # a task's folder, the digests of its files, what its record says of grading
# A session scores so many submissions and lasts so many seconds: what a metric leaves on its disk goes with it.
MAX_SUBMISSIONS, MAX_SECONDS = 1000, 86_400.0
MOST_TASKS = 8  # whose form, which holds their ids, and what their metric was seen to score are kept


class CodeMetrics:
    """Scores submissions by metrics that are code, in a sandbox that is closed at the end of the with block.

    A metric is loaded once for submissions to one task that come one after another. Where it fails on one twice, or hits
    a limit of its box, it is put to a submission that is known to be good: once a task, and each time after a limit, which
    a busy machine may make it hit. It can be pickled: a worker process opens a sandbox of its own.
    """

    def __init__(self, backend: str, limits: Limits):
        self.backend, self.limits = backend, limits
        self._sandbox = LazySandbox(backend)
        self._judge: _Judge | None = None
        self._form_of = lru_cache(MOST_TASKS)(_form_of)
        self._scored: dict[Key, str] = {}  # what each metric was seen to score, "" for nothing

    def __reduce__(self) -> tuple[Any, ...]:
        return CodeMetrics, (self.backend, self.limits)

    def __call__(self, task: Task, folder: Path, content: bytes) -> float:
        """The score of a submission's bytes.

        Invalid where it has not the form that the task's record asks for, where the metric rejects it, or where the
        metric fails on it and scores another that is known to be good (grading.code.FailsOnThisFile). RecordError where the
        metric or the machine fails otherwise: that is not the submission's fault and must not become a reward.
        """
        from ..grading import code, form

        key = _key(task, folder)
        with self._sandbox.lock:
            form.check_form(self._form_of(key), content)
            for _ in range(2):  # a metric may fail by chance
                try:
                    return self._score(key, task, folder, content)
                except code.MetricFailed as error:
                    failure = error
                    if error.limit:
                        break
            scored = self._known_to_score(key, task, folder, anew=failure.limit)
            if not scored:
                raise RecordError(f"{failure} (it scores no submission that is known to be good)") from None
        raise code.FailsOnThisFile(scored, failure)

    def try_out(self, task: Task, folder: Path) -> None:
        """RecordError where the metric scores no submission that is known to be good, or fails otherwise.

        Nothing where there is none such.
        """
        from ..grading import Invalid, code
        from . import known_good

        key, failures = _key(task, folder), list[str]()
        with self._sandbox.lock:
            for name, content in known_good.submissions(task, folder):
                try:
                    self._score(key, task, folder, content)
                except Invalid as invalid:
                    failures.append(f"{name} is invalid: {invalid}")
                except code.MetricFailed as failed:
                    failures.append(f"it fails on {name}: {failed.reason}{': ' * bool(failed.said)}{failed.said}")
                else:
                    return
        if failures:
            raise RecordError(f"{task['metric']['file']} does not score what it ought to: {'; '.join(failures)}")

    def _known_to_score(self, key: Key, task: Task, folder: Path, anew: bool) -> str:
        """What the metric scores of the submissions known to be good, "" for nothing. RecordError: the machine fails."""
        from ..grading import Invalid, code
        from . import known_good

        if anew or key not in self._scored:
            scored = ""
            for name, content in known_good.submissions(task, folder):
                with suppress(Invalid, code.MetricFailed):
                    self._score(key, task, folder, content)
                    scored = name
                    break
            if len(self._scored) >= MOST_TASKS:
                self._scored.clear()
            self._scored[key] = scored
        return self._scored[key]

    def _score(self, key: Key, task: Task, folder: Path, content: bytes) -> float:
        """The score; see grading.code.read_score for its errors."""
        from ..grading import code

        if self._judge is None or not self._judge.usable or self._judge.metric != key:
            self._close_judge()
            self._judge = _Judge(self._open_sandbox(), self.limits, key, task, folder)
        cell = self._judge.judge(content, self.limits.wall_s)
        return code.read_score(task["metric"]["file"], cell.status, cell.outputs.get(code.VERDICT), cell.output)

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


def _key(task: Task, folder: Path) -> Key:
    data, told = task["data"], {name: task[name] for name in ("metric", "answers", "submission")}
    return str(folder.resolve()), f"{data.get('digest')} {data.get('private_digest')}", dumps(told)


def _form_of(key: Key) -> "Form":
    from ..grading.form import form_of
    from . import known_good

    folder, task = Path(key[0]), json.loads(key[2])
    return form_of(task, known_good.bytes_up_to_limit(folder / task["answers"]), known_good.sample_of(folder))


class _Judge:
    """A session in which one metric is loaded; `metric` tells it from others."""

    def __init__(self, sandbox: Sandbox, limits: Limits, metric: Key, task: Task, folder: Path):
        """RecordError where the program that judges does not start, or its metric does not load in time."""
        from ..grading import code

        self.metric, self.submissions, self._started = metric, 0, time.monotonic()
        self._stack = ExitStack()
        place = self._stack.enter_context(code.box())
        code.lay_out(task["metric"], task["answers"], folder, place)
        self._session = sandbox.session(place, replace(limits, wall_s=2 * MAX_SECONDS), 0, (code.VERDICT,))
        self._stack.callback(self._session.close)
        self.cell = self._session.python(f"{code.program()}\nprepare()\n", limits.wall_s)
        if self.cell.status != "ok":
            self.close()
            raise RecordError(code.ended_badly(task["metric"]["file"], self.cell.status, self.cell.output))

    @property
    def usable(self) -> bool:
        return self.cell.alive and self.submissions < MAX_SUBMISSIONS and time.monotonic() - self._started < MAX_SECONDS

    def judge(self, content: bytes, wall_s: float) -> Cell:
        from ..grading.code import call

        self.cell = self._session.python(call(content), wall_s)
        self.submissions += 1
        return self.cell

    def close(self) -> None:
        self._stack.close()


@dataclass(frozen=True)
class CodeMetricOptions:
    """Where metrics that are code run, and their limits: wall seconds and MB."""

    backend: str = option(
        "Sandbox for metrics that are code.",
        default="local",
        choices=(*BACKENDS, "auto"),
        envvar="MLE_SANDBOX",
        machine=True,
    )
    metric_timeout: float = option("Time limit of one metric.", default=300.0, above=0, kind="seconds", machine=True)
    metric_memory: int = option("Memory limit of one metric.", default=4096, at_least=64, metavar="MB", machine=True)

    def open(self) -> CodeMetrics:
        """Runs metrics; its sandbox is closed at the end of the with block."""
        return CodeMetrics(self.backend, Limits(wall_s=self.metric_timeout, memory_mb=self.metric_memory))
