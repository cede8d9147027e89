"""Trying a standard solution on a task before it is kept: in a sandbox, as an agent's would run."""

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..grading import score_bytes
from ..grading.code import box
from ..models.scripted import answer, solves
from ..records.errors import RecordError
from ..sandbox import Limits, Sandbox, Setup, open_sandbox
from ..scaffolds.answers import split_answer
from ..tasks.soundness import Trial

# The level of the scripted model whose program stands for a standard solution.
LEVEL = "forest"
# Sandboxes of this process, closed at the end; a worker's end with it.
opened = ExitStack()
_sandboxes: dict[str, Sandbox] = {}
_alone = threading.Lock()  # a sandbox of one slot, and threads that share it


@dataclass(frozen=True)
class Trials:
    """Runs a standard solution in a sandbox of the process that asks; travels to worker processes.

    `limit_s` are seconds of wall time.
    """

    backend: str
    limit_s: float

    def can_solve(self, task: Mapping[str, Any]) -> bool:
        """Whether there is a standard solution for a task."""
        return solves(task)

    def __call__(
        self,
        task: Mapping[str, Any],
        public: Mapping[str, bytes],
        answers: bytes,
        score: Callable[[bytes], float] | None = None,
    ) -> Trial:
        """How the program's run on the public files ended; its score by `score`, else by the task's named metric."""
        code = split_answer(answer(dict(task), LEVEL, 0))[1]
        assert code is not None
        with box() as place:
            for name, content in public.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(content)
            with _alone:
                outcome = self._sandbox().run(code, place, Limits(wall_s=self.limit_s), 0)
        told, value = outcome.submission_problem or "", None
        if outcome.status != "ok":
            told = outcome.stderr.decode("utf-8", errors="replace").strip().rpartition("\n")[2]
        elif outcome.submission is not None:
            try:
                value = float((score or partial(score_bytes, task, answers))(outcome.submission))
            except (ValueError, RecordError) as error:
                told = str(error)
        return Trial(outcome.status, value, told, outcome.duration_s, self.limit_s)

    def _sandbox(self) -> Sandbox:
        if self.backend not in _sandboxes:
            _sandboxes[self.backend] = opened.enter_context(open_sandbox(self.backend, Setup(1)))
        return _sandboxes[self.backend]
