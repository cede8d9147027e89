"""Makes tasks with a language model, whose scripts run in a sandbox.

Not covered: the roles and their checks (make), opening models and sandboxes (rollout.task_models).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from ...base.errors import RecordError
from ...grading import check_task
from ...grading.code import box
from ...records.task import Task
from ...sandbox import Limits, Sandbox
from ..record import Origin
from ..table import Rejected
from .asking import ScriptRun
from .make import Examine
from .scripts import FOLDER, SCRIPT, program, script_run
from .seeds import Seed


@dataclass(frozen=True)
class ScriptBox:
    """Runs scripts in a sandbox and returns their output files."""

    sandbox: Sandbox
    limits: Limits

    def __call__(self, code: str, inputs: Mapping[str, bytes], seed: int) -> ScriptRun:
        with box() as place:
            for name, content in {**inputs, SCRIPT: code.encode()}.items():
                (place / name).write_bytes(content)
                (place / name).chmod(0o644)
            outcome = self.sandbox.run(program(), place, self.limits, seed, outputs=(FOLDER,))
        return script_run(outcome.status, outcome.stdout, outcome.stderr, outcome.outputs, outcome.problems)


@dataclass(frozen=True)
class LlmMaker:
    """Makes tasks of source "llm", in as many threads as the sandbox has slots.

    `make` is make_llm_task without the seed task, the index and the checks.
    """

    seeds: list[Seed]
    make: Callable[..., Task]
    examine: Examine | None = None

    def __call__(self, place: tuple[str, int]) -> tuple[Task, list[str]]:
        """(the record of a (source, index) pair, the errors of failed attempts at its parts). The seeds take turns.

        Rejected if the task cannot be made, ToolError if no further task can be made.
        """
        _, index = place
        seed = self.seeds[index % len(self.seeds)]
        record = self.make(seed.task, seed.files, index, examine=self._checked)
        attempts = cast(Origin, record["provenance"])["attempts"]
        return record, [
            f"{attempt['role']}: {attempt['error']}" for attempt in attempts if attempt["error"] is not None
        ]

    def _checked(self, record: Task, files: Mapping[str, bytes]) -> None:
        try:
            check_task(record)
        except RecordError as error:
            raise Rejected(str(error)) from None
        if self.examine is not None:
            self.examine(record, files)
