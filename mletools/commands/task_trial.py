"""Trying a standard solution on a task before it is kept: in a sandbox, as an agent's would run."""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..grading import score_bytes
from ..models.scripted import answer
from ..records.errors import RecordError
from ..sandbox import Limits, Sandbox, Setup, open_sandbox
from ..scaffolds.answers import split_answer
from ..tasks import Trial

# The level of the scripted model whose program stands for a standard solution.
LEVEL = "forest"
# Sandboxes of this process, closed at the end; a worker's end with it.
opened = ExitStack()
_sandboxes: dict[str, Sandbox] = {}


@dataclass(frozen=True)
class Trials:
    """Runs a standard solution in a sandbox of the process that asks; travels to worker processes.

    `limit_s` are seconds of wall time. A task that the scripted model cannot solve is not tried: RecordError.
    """

    backend: str
    limit_s: float

    def __call__(self, task: Mapping[str, Any], public: Mapping[str, bytes], answers: bytes) -> Trial:
        """How the program's run on the public files ended, scored against the answers."""
        code = split_answer(answer(dict(task), LEVEL, 0))[1]
        assert code is not None
        with tempfile.TemporaryDirectory(prefix="mle-trial-") as folder:
            place = Path(folder) / "input"
            for name, content in public.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(content)
            place.chmod(0o755)
            outcome = self._sandbox().run(code, place, Limits(wall_s=self.limit_s), 0)
        told = outcome.submission_problem or ""
        if outcome.status != "ok":
            told = outcome.stderr.decode("utf-8", errors="replace").strip().rpartition("\n")[2]
        score = None
        if outcome.status == "ok" and outcome.submission is not None:
            try:
                score = float(score_bytes(task, answers, outcome.submission))
            except (ValueError, RecordError) as error:
                told = str(error)
        return Trial(outcome.status, score, told, outcome.duration_s, self.limit_s)

    def _sandbox(self) -> Sandbox:
        if self.backend not in _sandboxes:
            _sandboxes[self.backend] = opened.enter_context(open_sandbox(self.backend, Setup(1)))
        return _sandboxes[self.backend]
