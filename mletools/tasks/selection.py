"""Puts tasks to the checks of their data, and keeps those that pass."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ..base import workers
from ..base.errors import RecordError, ToolError
from ..base.jsonl import Line
from ..base.output import Output
from ..filters.tasks import DUPLICATE, TaskSelection, failed
from ..grading import check_task, score_bytes, standing
from ..grading.private_data import task_folder
from ..records.task import Task
from ..run import Run
from .code_metrics import CodeMetrics
from .likeness import likeness
from .soundness import examine, read_case


@dataclass(frozen=True)
class Examiner:
    """Puts a task to the checks of these names, or to all. It can be pickled."""

    data: Path
    names: tuple[str, ...]
    code_metrics: CodeMetrics

    def __call__(self, line: Line[Task]) -> dict[str, str]:
        """The outcome of each check; see tasks.soundness.examine."""
        task = line.record
        folder = task_folder(self.data, task)
        by_code = "file" in task["metric"]
        if not by_code:
            check_task(_without_thresholds(task))

        def score(submission: bytes) -> float:
            if by_code:
                return self.code_metrics(task, folder, submission)
            return score_bytes(task, answers, submission)

        case = read_case(task, self.data, score)
        answers = (folder / task["answers"]).read_bytes()
        thresholds = task.get("thresholds") or standing(task, folder, None, None).thresholds
        if thresholds:
            rated = task.copy()
            rated["thresholds"] = thresholds
            case = replace(case, task=rated)
        return examine(case, self.names)


def filter_tasks(run: Run, examiner: Examiner, selection: TaskSelection, side: Output | None) -> None:
    """Keep the tasks of the run's input that pass the checks; what is dropped goes to `side`."""

    def unfinished() -> Iterable[Line[Task]]:
        for line in run.lines("task"):
            if run.finished(line.record["id"]):
                selection.took(line.record, _keys(line.record))
            else:
                yield line

    # In input order whatever -j is: which of two equal tasks is the earlier one must not depend on it.
    for line, checks, error in workers.run(examiner, unfinished(), run.jobs, keep_order=True, processes=True):
        if isinstance(error, RecordError):
            run.reject(line, str(error))
        elif isinstance(error, ToolError):
            raise ToolError(f"{line.place}: {error}") from error
        elif error is not None or checks is None:
            raise error or ToolError(f"{line.place}: no outcome")
        else:
            decision = selection.decide(line.record, checks, _keys(line.record))
            record = {**line.record, "filter": decision}
            if decision["kept"]:
                run.emit(record)
                continue
            run.counts["dropped"] += 1
            for name in failed(decision):
                run.counts[f"failed {name}" if name != DUPLICATE else "nearly the same as an earlier one"] += 1
            if side is not None:
                side.write(run.stamp(record))


def _without_thresholds(task: Task) -> Task:
    """The task with no thresholds: whether they are ordered is a check of its own."""
    rest = task.copy()
    rest.pop("thresholds", None)
    return rest


def _keys(task: Task) -> list[str]:
    """What two nearly equal tasks share: DNA, rule and scenario where the task has these, or the data."""
    return list(dict.fromkeys([likeness(task), str(task["data"]["digest"])]))
