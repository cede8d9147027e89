"""Applies the checks of all tasks to those that a language model writes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...grading import RunCode, score_bytes
from ...grading.code import box
from ...records.task import Task
from ..make import STAGES, Dropped, Made, NoTask
from ..soundness import CHECKS, Case, Trial, Trials, examine, failures
from ..table import Rejected
from .environment import SAMPLE
from .maker import LlmMaker

PUBLIC = "public/"


@dataclass(frozen=True)
class LlmTasks:
    """Makes the task of source llm with an index. For threads: most of the time is spent waiting for a model.

    `trials` runs a standard solution, or None; `run_code` scores by metrics that are code. dropped_by: the checks that drop a
    task, all where it is empty; what the others say is recorded.
    """

    make: LlmMaker
    trials: Trials | None
    run_code: RunCode
    dropped_by: tuple[str, ...] = ()

    def __call__(self, place: tuple[str, int], first: int = 0) -> Made:
        """The task; NoTask if the model's attempts are used up or a check fails.

        There is no second draft (`first` above 0), because each costs money; -n is the number of drafts.
        """
        if first:
            raise NoTask([])
        files: dict[str, bytes] = {}  # empty until the checks begin
        trials: list[Trial] = []

        def check(record: Task, content: Mapping[str, bytes]) -> None:
            files.update(content)
            with box() as folder:
                outcomes = examine(self._case(record, files, folder, trials))
            failed = [
                f"{name}: {reason}"
                for name, reason in failures(outcomes).items()
                if name in (self.dropped_by or CHECKS)
            ]
            if failed:
                raise Rejected("; ".join(failed))
            record["provenance"]["sanity"].update(outcomes)

        try:
            record, _ = replace(self.make, examine=check)(place)
        except Rejected as rejected:
            raise NoTask([Dropped(0, "evaluated" if files else STAGES[0], rejected.reason)]) from None
        public = _public(files)
        rows = sum(public[f"{name}.csv"].count(b"\n") - 1 for name in ("train", "test"))
        return Made(record, [], trials[-1] if trials else None, rows, sum(map(len, public.values())))

    def _case(self, record: Task, files: Mapping[str, bytes], folder: Path, trials: list[Trial]) -> Case:
        """The input of the checks; a metric that is code has its files in `folder`. The trial is added to `trials`."""
        score: Callable[[bytes], float] = partial(score_bytes, record, files[record["answers"]])
        if "file" in record["metric"]:
            for name, content in files.items():
                if not name.startswith(PUBLIC) or name == f"{PUBLIC}{SAMPLE}":
                    (folder / name).parent.mkdir(exist_ok=True)
                    (folder / name).write_bytes(content)
            score = partial(self.run_code, record, folder)
        if self.trials is None or not self.trials.can_solve(record):
            return Case(record, files, score)

        def trial() -> Trial:
            assert self.trials is not None
            trials.append(self.trials(record, _public(files), files[record["answers"]], score))
            return trials[-1]

        return Case(record, files, score, trial)


def _public(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name.removeprefix(PUBLIC): content for name, content in files.items() if name.startswith(PUBLIC)}
