"""Tries a standard solution on a task before it is kept: in a sandbox, as an agent's would run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from ..base.errors import RecordError
from ..grading import score_bytes
from ..grading.code import box
from ..records.task import Task
from ..sandbox import Limits
from ..sandbox.lazy import LazySandbox
from ..solutions import solution, solves
from .soundness import Trial

# The level of the standard solution.
LEVEL = "forest"


@dataclass(frozen=True)
class Trials:
    """Runs standard solutions in `sandbox`, each for `limit_s` seconds of wall time at most."""

    sandbox: LazySandbox
    limit_s: float

    def can_solve(self, task: Task) -> bool:
        """Whether there is a standard solution for a task."""
        return solves(task)

    def __call__(
        self,
        task: Task,
        public: Mapping[str, bytes],
        answers: bytes,
        score: Callable[[bytes], float] | None = None,
    ) -> Trial:
        """How the program's run on the public files ended; its score by `score`, else by the task's named metric."""
        code = solution(task, LEVEL)
        with box() as place:
            for name, content in public.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(content)
            with self.sandbox.lock:
                outcome = self.sandbox.open().run(code, place, Limits(wall_s=self.limit_s), 0)
        reason, value = outcome.submission_problem or "", None
        if outcome.status != "ok":
            reason = outcome.stderr.decode("utf-8", errors="replace").strip().rpartition("\n")[2]
        elif outcome.submission is not None:
            try:
                value = float((score or partial(score_bytes, task, answers))(outcome.submission))
            except (ValueError, RecordError) as error:
                reason = str(error)
        return Trial(outcome.status, value, reason, outcome.duration_s, self.limit_s)
