"""Puts the tasks that a language model writes to the same checks as all others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..grading import score_bytes
from ..grading.code import box
from ..scoring.code_metrics import CodeMetrics
from ..scoring.trials import Trials
from ..tasks.make import STAGES, Dropped, Made, NoTask
from ..tasks.soundness import Case, Trial, examine, failures
from ..tasks.table import Rejected
from .roles import LlmMaker

PUBLIC = "public/"


@dataclass(frozen=True)
class LlmTasks:
    """Makes the task of source llm with an index; called by threads, which mostly wait for a model.

    `trials` runs a standard solution, None: none is tried; `code_metrics` scores by metrics that are code.
    """

    make: LlmMaker
    trials: Trials | None
    code_metrics: CodeMetrics

    def __call__(self, place: tuple[str, int], first: int = 0) -> Made:
        """The task; NoTask where the model's attempts are used up or a check fails.

        There is no second draft (`first` above 0): every one is paid for, and -n says how many are.
        """
        if first:
            raise NoTask([])
        files: dict[str, bytes] = {}
        trials: list[Trial] = []
        stage = STAGES[0]

        def check(record: Mapping[str, Any], content: Mapping[str, bytes]) -> None:
            nonlocal stage
            stage = "evaluated"
            files.update(content)
            with box() as folder:
                outcomes = examine(self._case(record, files, folder, trials))
            failed = [f"{name}: {reason}" for name, reason in failures(outcomes).items()]
            if failed:
                raise Rejected("; ".join(failed))
            record["provenance"]["sanity"].update(outcomes)

        try:
            record, _ = replace(self.make, examine=check)(place)
        except Rejected as rejected:
            raise NoTask([Dropped(0, stage, rejected.reason)]) from None
        public = [content for name, content in files.items() if name.startswith(PUBLIC)]
        rows = sum(files[f"{PUBLIC}{name}.csv"].count(b"\n") - 1 for name in ("train", "test"))
        return Made(record, [], trials[-1] if trials else None, rows, sum(map(len, public)))

    def _case(self, record: Mapping[str, Any], files: Mapping[str, bytes], folder: Path, trials: list[Trial]) -> Case:
        """The task as the checks see it; a metric that is code has its files in `folder`. `trials` gets its trial."""
        score: Callable[[bytes], float] = partial(score_bytes, record, files[record["answers"]])
        if "file" in record["metric"]:
            for name, content in files.items():
                if not name.startswith(PUBLIC):
                    (folder / name).parent.mkdir(exist_ok=True)
                    (folder / name).write_bytes(content)
            score = partial(self.code_metrics, record, folder)
        if self.trials is None or not self.trials.can_solve(record):
            return Case(record, files, score)

        def trial() -> Trial:
            assert self.trials is not None
            public = {name.removeprefix(PUBLIC): files[name] for name in files if name.startswith(PUBLIC)}
            trials.append(self.trials(record, public, files[record["answers"]], score))
            return trials[-1]

        return Case(record, files, score, trial)
