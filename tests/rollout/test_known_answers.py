"""Programs run on no task whose answers they could read among the libraries."""

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from mletools.base.errors import ToolError
from mletools.base.tape import Tapes
from mletools.rollout.environment import RunResources, TaskEnvironment
from mletools.sandbox import Limits
from mletools.sandbox.programs import ProgramRunner, refuse_known_answers


@pytest.mark.parametrize(
    ("public", "hides", "refused"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_a_task_whose_answers_can_be_read_is_refused(public: bool, hides: bool, refused: bool) -> None:
    task = {"id": "iris-1", "provenance": {"answers_public": True} if public else {}}
    if refused:
        with pytest.raises(
            ToolError, match=r"iris-1: programs can read tables such as this one here, with the answers"
        ):
            refuse_known_answers(task, {"no_bundled_answers": hides})
    else:
        refuse_known_answers(task, {"no_bundled_answers": hides})
        refuse_known_answers(task, {})


def test_a_program_that_could_read_the_answers_never_runs(tmp_path: Path) -> None:
    class Exposed:
        protections = {"no_bundled_answers": False}  # noqa: RUF012

        def run(self, *args: Any, **options: Any) -> Any:
            raise AssertionError("it ran")

    task = {"id": "iris-1", "provenance": {"answers_public": True}, "data": {"dir": "iris"}}
    (tmp_path / "iris/public").mkdir(parents=True)
    sandbox, nothing = Exposed(), cast(Any, None)
    resources = RunResources(tmp_path, {}, sandbox, Limits(), threading.Semaphore(), 0.0, False, nothing)
    episode = TaskEnvironment(resources, task, None, "episode", Tapes(None).tape("episode"))
    with pytest.raises(ToolError, match="iris-1: programs can read tables"):
        ProgramRunner(sandbox, Limits(), tmp_path, 0)({"id": "r", "task": task, "code": "print(1)"})
    with pytest.raises(ToolError, match="iris-1: programs can read tables"):
        episode._run("print(1)", 9.0, 0, True, (), "all")
