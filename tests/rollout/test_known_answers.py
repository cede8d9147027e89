"""Programs run on no task whose answers they could read among the libraries."""

import pytest

from mletools.records.errors import ToolError
from mletools.rollout.execution import refuse_known_answers


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
