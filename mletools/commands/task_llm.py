"""Puts the tasks that a language model made to the same checks as all others, for mle-gen-task --source llm."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..grading import score_bytes
from ..grading.code import box
from ..tasks.make import STAGES, Dropped, Made, NoTask
from ..tasks.soundness import Case, Trial, examine, failures
from ..tasks.table import Rejected
from .metric_box import CodeBox
from .task_roles import LlmMaker
from .task_trial import Trials

PUBLIC = "public/"


@dataclass(frozen=True)
class LlmTasks:
    """Makes the task of source llm that an index names; called by threads, which mostly wait for a model.

    `trials` runs a standard solution, None: none is tried; `box` runs metrics that are code.
    """

    make: LlmMaker
    trials: Trials | None
    box: CodeBox

    def __call__(self, wanted: tuple[str, int], first: int = 0) -> Made:
        """The task; NoTask where the model's attempts are used up or a check fails.

        There is no second draft (`first` above 0): every one is paid for, and -n says how many are.
        """
        if first:
            raise NoTask([])
        found: dict[str, Any] = {"files": {}, "trial": None, "stage": STAGES[0]}

        def check(record: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
            found.update(files=files, stage="evaluated")
            with box() as folder:
                outcomes = examine(self._case(record, files, folder, partial(found.__setitem__, "trial")))
            failed = [f"{name}: {reason}" for name, reason in failures(outcomes).items()]
            if failed:
                raise Rejected("; ".join(failed))
            record["provenance"]["sanity"].update(outcomes)

        try:
            record, _ = replace(self.make, examine=check)(wanted)
        except Rejected as rejected:
            raise NoTask([Dropped(0, found["stage"], rejected.reason)]) from None
        public = [content for name, content in found["files"].items() if name.startswith(PUBLIC)]
        rows = sum(found["files"][f"{PUBLIC}{name}.csv"].count(b"\n") - 1 for name in ("train", "test"))
        return Made(record, [], found["trial"], rows, sum(map(len, public)))

    def _case(
        self, record: Mapping[str, Any], files: Mapping[str, bytes], folder: Path, tell: Callable[[Trial], None]
    ) -> Case:
        """The task as the checks see it; a metric that is code finds its files in `folder`."""
        score: Callable[[bytes], float] = partial(score_bytes, record, files[record["answers"]])
        if "file" in record["metric"]:
            for name, content in files.items():
                if not name.startswith(PUBLIC):
                    (folder / name).parent.mkdir(exist_ok=True)
                    (folder / name).write_bytes(content)
            score = partial(self.box, record, folder)
        if self.trials is None or not self.trials.can_solve(record):
            return Case(record, files, score)

        def trial() -> Trial:
            assert self.trials is not None
            public = {name.removeprefix(PUBLIC): files[name] for name in files if name.startswith(PUBLIC)}
            done = self.trials(record, public, files[record["answers"]], score)
            tell(done)
            return done

        return Case(record, files, score, trial)
