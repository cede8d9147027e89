"""Every reply of tests/cases/replies is read as its case says: by the module, and by mle-rollout from a server."""

import json
from collections import Counter
from typing import Any

import pytest
from reply_cases import SCAFFOLDS, ReplyCase, cases

from mletools.scaffolds import codeact, memory, react
from mletools.scaffolds.ideas import idea_and_format
from mletools.scaffolds.reading import Action, read_action, read_answer

ALL = [case for scaffold in SCAFFOLDS for case in cases(scaffold)]
TOOLS = {
    "codeact": (*codeact.TOOLS[:2], codeact.ASKING, codeact.TOOLS[2]),
    "memory": memory.TOOLS,
}


def read(case: ReplyCase) -> tuple[dict[str, Any], str | None, str]:
    """(format, action, content) as the scaffold reads the reply."""
    if case.scaffold in ("single", "improve"):
        answer = read_answer(case.text, case.finish_reason, case.reasoning)
        return answer.format, None, (answer.code or "").strip("\n")
    if case.scaffold == "idea":
        idea, form = idea_and_format(case.text, case.finish_reason)
        return form, None, json.dumps(idea) if idea else ""
    if case.scaffold == "react":
        action = read_action(case.reply, react.TOOLS, react._body, ("tool_call", "answer"))
    else:
        action = read_action(case.reply, TOOLS[case.scaffold])
    if not isinstance(action, Action):
        return action.format, None, ""
    fields = list(action.fields.values())
    content = json.dumps(action.fields) if len(fields) > 1 else "".join(fields).strip("\n")
    return action.format, action.name, content


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.scaffold}-{case.name}")
def test_a_reply_is_read_as_a_person_reads_it(case: ReplyCase) -> None:
    assert read(case) == (case.format, case.action, case.content)


def test_the_cases_cover_scaffolds_families_and_rules() -> None:
    assert len(ALL) >= 120
    kinds = Counter((case.scaffold, case.read) for case in ALL)
    assert set(kinds) == {(scaffold, read) for scaffold in SCAFFOLDS for read in ("exact", "lenient", "none")}
    assert len({(case.scaffold, case.name) for case in ALL}) == len(ALL)
    assert len({case.rule for case in ALL if case.read == "lenient"}) >= 40


@pytest.mark.parametrize("words", ["", "Plan: a line.\n", "\n"])
def test_a_program_in_a_block_of_markdown(words: str) -> None:
    answer = read_answer(f"```markdown\n{words}```python\nprint(1)\n```\n```")
    assert (answer.code, answer.format) == ("print(1)\n", {"read": "lenient", "rule": "nested_fence"})


@pytest.mark.parametrize("after", ["\nBut that is too slow.", "\nOr:\n```python\nprint(2)\n```"])
def test_programs_in_the_reasoning_are_drafts(after: str) -> None:
    answer = read_answer("", "stop", f"So:\n```python\nprint(1)\n```{after}")
    assert answer.code is None and answer.format == {"read": "none", "rule": "thinking"}


def test_a_finished_reply_that_is_reasoning_alone_may_end_with_its_answer() -> None:
    reasoning = "So:\n```python\nprint(1)\n```\n"
    answer = read_answer("", "stop", reasoning)
    assert (answer.code, answer.format) == ("print(1)\n", {"read": "lenient", "rule": "answer_in_reasoning"})
    assert read_answer("", "length", reasoning).code is None
    assert read_answer("I am done.", "stop", reasoning).code is None
