"""What action a message takes, in all its forms, and what of a long conversation is still shown; worked by hand."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mletools.scaffolds import codeact, memory, messages, react
from mletools.scaffolds.episode import Episode, opening
from mletools.scaffolds.interface import Ended
from mletools.scaffolds.reading import (
    Action,
    Fault,
    Tool,
    as_functions,
    named_call,
    plain,
    read_action,
    sections,
    sendable,
    thinks,
    without_fence,
)

RUN, ASK, FINISH = (
    Tool("run", "Runs.", {"code": "it"}),
    Tool("ask", "Asks.", {"wish": "a", "goal": "b"}),
    Tool("end", ""),
)
TOOLS = (RUN, ASK, FINISH)
SEVERAL = "Your message takes more than one action, and none was carried out."


def reply(text: str = "", *calls: tuple[str, str, str], finish: str = "stop", **more: Any) -> dict[str, Any]:
    made = [{"id": id, "name": name, "arguments": arguments} for id, name, arguments in calls]
    return {"text": text, "finish_reason": finish, "tool_calls": made, **more}


# ---- tags


@pytest.mark.parametrize(
    ("text", "name", "fields"),
    [
        ("<run>\nprint(1)\n</run>", "run", {"code": "print(1)\n"}),
        ("First this. <run>print(1)</run> Then we see.", "run", {"code": "print(1)\n"}),
        ("<run>\n```python\nprint(1)\n```\n</run>", "run", {"code": "print(1)\n"}),
        ("<run>```\nprint(1)\n```</run>", "run", {"code": "print(1)\n"}),
        ("<run>~~~py\nprint(1)\n~~~</run>", "run", {"code": "print(1)\n"}),
        ("<run>\n    print(1)\n</run>", "run", {"code": "    print(1)\n"}),
        ("<run>text = '''\n```\nx\n```\n'''</run>", "run", {"code": "text = '''\n```\nx\n```\n'''\n"}),
        ("<run>print('<end></end>', '<run>')\n</run>", "run", {"code": "print('<end></end>', '<run>')\n"}),
        ("<run>\nif a < b > c: pass\n</run>", "run", {"code": "if a < b > c: pass\n"}),
        ("<end></end>", "end", {}),
        ("<end>with pleasure</end>", "end", {}),
        ("<ask>\nWISH:\na b\n\nGOAL: c\n</ask>", "ask", {"wish": "a b", "goal": "c"}),
        ("<ask>GOAL: c\nd\nWISH: a</ask>", "ask", {"wish": "a", "goal": "c\nd"}),
        ("<ask>**WISH:** a\n## GOAL: c</ask>", "ask", {"wish": "a", "goal": "c"}),
        ("<think>shall I <run>print(0)</run>?</think><run>print(1)</run>", "run", {"code": "print(1)\n"}),
        ("shall I <run>print(0)</run>?</think>\n<run>print(1)</run>", "run", {"code": "print(1)\n"}),
        ("<think>a</think><run>print('</think>')</run>", "run", {"code": "print('</think>')\n"}),
        ("</run> is how it ends. <end></end>", "end", {}),
        ("<other>x</other><end></end>", "end", {}),
    ],
)
def test_an_action_in_tags(text: str, name: str, fields: dict[str, str]) -> None:
    assert read_action(reply(text), TOOLS) == Action(name, fields, None)


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("", "missing", "Your message takes no action."),
        ("print(1)", "missing", "Your message takes no action."),
        ("<other>x</other>", "missing", "Your message takes no action."),
        ("<think><run>print(1)</run></think>", "missing", "Your message takes no action."),
        ("<run>print(1", "malformed", "<run> is opened and never closed."),
        ("<run>print(1", "malformed", "<run> is opened and never closed."),
        ("<ask>WISH: a\nGOAL: b", "malformed", "<ask> is opened and never closed."),
        (
            "<end>or shall I rather go on with another model, and then see?",
            "malformed",
            "<end> is opened and never closed.",
        ),
        ("```python\nprint(1\n```", "missing", "Your message takes no action."),
        ("```python\nprint(1)\n```\nor\n```python\nprint(2)\n```", "missing", "Your message takes no action."),
        ("<run></run>", "malformed", "run needs code."),
        ("<run> \n\n </run>", "malformed", "run needs code."),
        ("<run>```python\n\n```</run>", "malformed", "run needs code."),
        ("<ask></ask>", "malformed", "it has to begin with WISH:"),
        ("<ask>please: WISH: a\nGOAL: b</ask>", "malformed", "it has to begin with WISH:"),
        ("<ask>WISH: a</ask>", "malformed", "GOAL: is missing or empty"),
        ("<ask>WISH: a\nGOAL:\n</ask>", "malformed", "GOAL: is missing or empty"),
        ("<ask>WISH: a\nGOAL: b\nWISH: c</ask>", "malformed", "WISH: stands there twice"),
        ("<ask>wish: a\ngoal: b</ask>", "malformed", "it has to begin with WISH:"),
    ],
)
def test_a_message_in_tags_that_takes_no_action(text: str, kind: str, told: str) -> None:
    assert read_action(reply(text), TOOLS) == Fault(kind, told)


@pytest.mark.parametrize(
    ("text", "name", "fields", "rule"),
    [
        ("```python\nprint(1)\n```", "run", {"code": "print(1)\n"}, "fence_as_action"),
        ("<RUN>print(1)</RUN>", "run", {"code": "print(1)\n"}, "tag_case"),
        ("<run>print(1)</Run>", "run", {"code": "print(1)\n"}, "tag_case"),
        ("<end/>", "end", {}, "self_closing"),
        ("<end>", "end", {}, "unclosed_tag"),
        ("<run>print(1)", "run", {"code": "print(1)\n"}, "unclosed_tag"),
        ("<run>\n```py\nprint(1)\n", "run", {"code": "print(1)\n"}, "unclosed_tag"),
        ("<run>Like so:\n```\nprint(1)\n```\n</run>", "run", {"code": "print(1)\n"}, "fence_in_tag"),
        ("<end></end><run>print(1)</RUN>", "end", {}, "first_action"),
        ("<run>1</run><run>2</run>", "run", {"code": "1\n"}, "first_action"),
        ("<run>1</run><end></end>", "run", {"code": "1\n"}, "first_action"),
        ("<think>a</think><run>1</run><think>b</think><end></end>", "run", {"code": "1\n"}, "first_action"),
        ("a</think><run>1</run><think>b</think><end></end>", "run", {"code": "1\n"}, "first_action"),
        ("<run>1</run>\nObservation: 1\n<end></end>", "run", {"code": "1\n"}, "invented_observation"),
        ("<think><run>print(1)</run>", "run", {"code": "print(1)\n"}, "answer_in_reasoning"),
        ("<run>1</run><|im_end|>", "run", {"code": "1\n"}, "end_of_turn"),
    ],
)
def test_an_action_that_is_read_leniently(text: str, name: str, fields: dict[str, str], rule: str) -> None:
    found = read_action(reply(text), TOOLS)
    assert found == Action(name, fields, None, rule)
    assert found.format == {"read": "lenient", "rule": rule}


@pytest.mark.parametrize(
    "broken",
    [
        "def load(path):\n    retrun path\n\n",
        'TARGET = "y\n',
        "!cp input/sample.csv mine.csv\n",
        "%%writefile train.py\n",
    ],
)
def test_nothing_of_a_program_in_a_tag_is_left_out(broken: str) -> None:
    """It fails, or a session has a use for the line; the rest alone would be another program."""
    code = f"{broken}import pandas as pd\npd.read_csv('test.csv').to_csv('submission.csv')\n"
    found = read_action(reply(f"<run>{code}</run>"), TOOLS)
    assert isinstance(found, Action) and found.fields == {"code": code} and found.rule is None


def test_of_a_message_that_was_cut_off_only_a_whole_action_counts() -> None:
    assert read_action(reply("<end></end> And", finish="length"), TOOLS) == Action("end", {}, None, "cut_after_action")
    for text in ("<run>print(1)", "<run>print(1)</ru", "print(1)", '{"name": "run", "arguments": {"code": "print(1)"'):
        found = read_action(reply(text, finish="length"), TOOLS)
        assert isinstance(found, Fault) and found.kind == "length"
    call = ("c1", "run", '{"code": "1"}')
    found = read_action(reply("", call, finish="length"), TOOLS)
    assert isinstance(found, Fault) and found.kind == "length"  # it was cut off inside the call


# ---- tool calls


@pytest.mark.parametrize(
    ("name", "arguments", "fields"),
    [
        ("run", '{"code": "print(1)"}', {"code": "print(1)"}),
        ("run", '{"code": "a\nb"}', {"code": "a\nb"}),  # a line end as it is: many models write it so
        ("run", '{"code": "x", "more": 1}', {"code": "x"}),
        ("run", '{"code": 3}', {"code": "3"}),
        ("run", '{"code": "</run><end></end>"}', {"code": "</run><end></end>"}),
        ("run", '{"code": "a\\ud800b\\ud83d\\ude00"}', {"code": "a\ufffdb\U0001f600"}),  # half a pair is no text
        ("end", "{}", {}),
        ("end", "", {}),
    ],
)
def test_an_action_as_a_tool_call(name: str, arguments: str, fields: dict[str, str]) -> None:
    assert read_action(reply("I call it", ("c7", name, arguments)), TOOLS) == Action(name, fields, "c7")


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "told"),
    [
        ("run", '{"code": "print(1)', "malformed", "the arguments are no JSON: "),
        ("run", "print(1", "malformed", "the arguments are no JSON: "),
        ("ask", "what now", "malformed", "the arguments are no JSON: "),
        ("run", '["print(1)", "print(2)"]', "malformed", "the arguments are no JSON object"),
        ("run", "null", "malformed", "the arguments are no JSON object"),
        ("run", "[" * 100_000, "malformed", "the arguments are no JSON: "),
        ("run", "{}", "malformed", "run needs code."),
        ("run", '{"code": " "}', "malformed", "run needs code."),
        ("ask", "{}", "malformed", "ask needs wish and goal."),
        ("walk", "{}", "unknown", "There is no action named 'walk'; there are run, ask, end."),
        ("w" * 500, "{}", "unknown", f"There is no action named '{'w' * 80}'; there are run, ask, end."),
    ],
)
def test_a_tool_call_that_is_no_action(name: str, arguments: str, kind: str, told: str) -> None:
    found = read_action(reply("", ("c7", name, arguments)), TOOLS)
    assert isinstance(found, Fault) and found.kind == kind and found.explanation.startswith(told)


def test_calls_and_tags_are_counted_together() -> None:
    one = ("c1", "run", '{"code": "1"}')
    first = Action("run", {"code": "1"}, "c1", "first_action")
    assert read_action(reply("", one, ("c2", "end", "{}")), TOOLS) == first
    assert read_action(reply("<run>1</run>", one), TOOLS) == replace(first, rule="same_action_twice")
    assert read_action(reply("<end></end>", one), TOOLS) == Fault("several", SEVERAL)
    assert read_action(reply("<think><end></end></think>", one), TOOLS) == Action("run", {"code": "1"}, "c1")


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"code":  1}', '{"code":  1}'),
        ('{"code": "a\nb"}', '{"code": "a\\nb"}'),
        ('{"code": "print(', "{}"),
        ("[1]", "{}"),
        ("", "{}"),
        ("[" * 100_000, "{}"),
    ],
)
def test_calls_are_sent_back_as_servers_take_them(arguments: str, sent: str) -> None:
    assert sendable(arguments) == sent


def test_the_tools_as_the_protocol_wants_them() -> None:
    asked = as_functions([ASK, FINISH])
    assert [each["type"] for each in asked] == ["function", "function"]
    assert asked[0]["function"]["parameters"] == {
        "type": "object",
        "properties": {"wish": {"type": "string", "description": "a"}, "goal": {"type": "string", "description": "b"}},
        "required": ["wish", "goal"],
    }
    assert asked[1]["function"]["parameters"] == {"type": "object", "properties": {}, "required": []}


# ---- react's forms


def read_react(text: str) -> Action | Fault:
    return read_action(reply(text), react.TOOLS, react._body, ("tool_call", "answer"))


@pytest.mark.parametrize(
    ("text", "name", "fields"),
    [
        ("<tool_call>\npython\n<code>\nprint(1)\n</code>\n</tool_call>", react.PYTHON, {"code": "print(1)\n"}),
        ("<tool_call>python <code>print(1)</code></tool_call>", react.PYTHON, {"code": "print(1)\n"}),
        ("<tool_call>python\n<code>\n```py\n1\n```\n</code></tool_call>", react.PYTHON, {"code": "1\n"}),
        ("<tool_call>python<code>print('</code>')</code></tool_call>", react.PYTHON, {"code": "print('</code>')\n"}),
        ("<tool_call>python<code>print('<answer>')</code></tool_call>", react.PYTHON, {"code": "print('<answer>')\n"}),
        (
            '<tool_call>{"name": "PythonInterpreter", "arguments": {"code": "1"}}</tool_call>',
            react.PYTHON,
            {"code": "1"},
        ),
        ('<tool_call>{"name": "python", "arguments": {"code": "1"}}</tool_call>', react.PYTHON, {"code": "1"}),
        (
            '<tool_call>{"name": "python", "arguments": "{\\"code\\": \\"1\\"}"}</tool_call>',
            react.PYTHON,
            {"code": "1"},
        ),
        ('<tool_call>\n{"name": "Score", "arguments": {"competition_id": "x"}}\n</tool_call>', react.SCORE, {}),
        ('<tool_call>{"name": "Score"}</tool_call>', react.SCORE, {}),
        ("<answer>submission</answer>", react.ANSWER, {}),
        ("<think>a</think>\n<answer></answer>", react.ANSWER, {}),
    ],
)
def test_an_action_of_react(text: str, name: str, fields: dict[str, str]) -> None:
    assert read_react(text) == Action(name, fields, None)


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("<tool_call>python\nprint(1</tool_call>", "malformed", "a program stands between <code> and </code>"),
        ("<tool_call>python <code>print(1</tool_call>", "malformed", "a program stands between <code> and </code>"),
        ("<tool_call>python <code></code></tool_call>", "malformed", "PythonInterpreter needs code."),
        ("<tool_call>print(1</tool_call>", "malformed", "what stands in the call is no JSON: "),
        ("<tool_call></tool_call>", "malformed", "what stands in the call is no JSON: "),
        ('<tool_call>{"name": "Score"</tool_call>', "malformed", "what stands in the call is no JSON: "),
        ('<tool_call>["Score"]</tool_call>', "malformed", 'a call is {"name": ..., "arguments": {...}}'),
        ('<tool_call>{"name": 3}</tool_call>', "malformed", 'a call is {"name": ..., "arguments": {...}}'),
        ('<tool_call>{"name": "Score", "arguments": [1]}</tool_call>', "malformed", "the arguments are no JSON object"),
        ('<tool_call>{"name": "Search", "arguments": {}}</tool_call>', "unknown", "There is no action named 'Search'"),
        ("<tool_call>python <code>print(1", "malformed", "<tool_call> is opened and never closed."),
        ("<answer>submission\n" * 5, "malformed", "<answer> is opened and never closed."),
        ("<Marks></Marks>", "missing", "Your message takes no action."),
        (
            '<tool_response>1</tool_response><tool_call>{"name": "Score"}</tool_call>',
            "missing",
            "Your message takes no",
        ),
    ],
)
def test_a_message_to_react_that_takes_no_action(text: str, kind: str, told: str) -> None:
    found = read_react(text)
    assert isinstance(found, Fault) and found.kind == kind and found.explanation.startswith(told)


@pytest.mark.parametrize(
    ("text", "name", "rule"),
    [
        ("<tool_call>python\nprint(1)</tool_call>", react.PYTHON, "raw_argument"),
        ("<tool_call>python <code>print(1)</tool_call>", react.PYTHON, "raw_argument"),
        ("<tool_call>print(1)</tool_call>", react.PYTHON, "raw_argument"),
        ("<tool_call>\n```python\nprint(1)\n```\n</tool_call>", react.PYTHON, "raw_argument"),
        ("<tool_call>python <code>print(1)</code>", react.PYTHON, "unclosed_tag"),
        ("<answer>submission", react.ANSWER, "unclosed_tag"),
        ("<Score></Score>", react.SCORE, "tool_tag"),
        ('<tool_call>{"name": "Score",}</tool_call>', react.SCORE, "trailing_comma"),
        ('<tool_call>{"name": "Score"}</tool_call><answer>submission</answer>', react.SCORE, "first_action"),
        ('<tool_call>{"name": "Score"}</tool_call>\n<tool_response>1', react.SCORE, "invented_observation"),
    ],
)
def test_an_action_of_react_that_is_read_leniently(text: str, name: str, rule: str) -> None:
    fields = {"code": "print(1)\n"} if name == react.PYTHON else {}
    assert read_react(text) == Action(name, fields, None, rule)


@pytest.mark.parametrize("tool", [*codeact.TOOLS, codeact.ASKING, *memory.TOOLS])
def test_every_tool_is_read_in_tags_as_its_prompt_writes_them(tool: Tool) -> None:
    fields = {name: f"some {name}" for name in tool.fields}
    body = "\n".join(f"{name.upper()}: {text}" for name, text in fields.items()) if len(fields) > 1 else "some text"
    found = read_action(reply(f"<{tool.name}>{body}</{tool.name}>"), [tool])
    assert found == Action(tool.name, fields if len(fields) > 1 else dict.fromkeys(fields, "some text\n"))


# ---- the parts


def test_parts_of_messages() -> None:
    assert plain(RUN, "a\n") == ("run", {"code": "a\n"}) and plain(FINISH, "a") == ("end", {})
    assert sections("A: 1\nB:2\n", ["a", "b"]) == {"a": "1", "b": "2"}
    assert sections("A:\nx: 1\n  B: 2", ["a", "b"]) == {"a": "x: 1", "b": "2"}
    assert named_call('{"name": "f"}') == ("f", {})
    assert without_fence("```\na\n```") == "a\n" and without_fence("\n\na\n\n") == "a\n"
    assert without_fence("````\n```\na\n```\n````") == "```\na\n```\n"
    assert without_fence("```\na") == "```\na\n" and without_fence("a\n```\nb\n```") == "a\n```\nb\n```\n"


@pytest.mark.parametrize(
    ("text", "reasoning", "good"),
    [
        ("<think>a</think>b", None, True),
        ("\n <think>\na\n</think>", None, True),
        ("<think></think>b", None, False),
        ("<think> \n</think>b", None, False),
        ("<think>a", None, False),
        ("b <think>a</think>", None, False),
        ("a</think>b", None, True),  # the template had opened it
        ("</think>b", None, False),
        (" \n</think>b", None, False),
        ("b", None, False),
        ("", None, False),
        ("b", "a", True),  # the server had set it apart
        ("b", " ", False),
        ("<think></think>b", "a", True),
    ],
)
def test_who_reasons_first(text: str, reasoning: str | None, good: bool) -> None:
    assert thinks(reply(text, reasoning=reasoning)) is good


# ---- context


def conversation(text: str) -> list[dict[str, Any]]:
    """Messages of 10 tokens each by their roles: s(ystem), u(ser), a(ssistant), t(ool)."""
    roles = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    return [{"role": roles[letter], "content": "x" * 36} for letter in text]


def test_tokens_are_estimated_at_four_characters() -> None:
    assert [messages.tokens_of({"content": "x" * length}) for length in (0, 3, 4, 36)] == [1, 1, 2, 10]
    called = {"content": "x" * 8, "tool_calls": [{"function": {"name": "f", "arguments": "y" * 8}}]}
    assert messages.tokens_of(called) == 5


@pytest.mark.parametrize(
    ("roles", "failed", "most", "expected"),
    [
        ("suauau", [], None, [0, 1, 2, 3, 4, 5]),
        ("suauau", [2], 60, [0, 1, 2, 3, 4, 5]),  # it fits
        ("suauau", [2], 59, [0, 1, 4, 5]),  # one failed pair goes
        ("suauau", [], 59, [0, 1, 4, 5]),  # nothing failed: both ends
        ("suauauau", [4], 79, [0, 1, 2, 3, 6, 7]),
        ("suauauau", [2, 4], 79, [0, 1, 4, 5, 6, 7]),  # the oldest, and no more than needed
        ("suauauau", [2, 4], 59, [0, 1, 6, 7]),
        ("suauauau", [4, 6], 59, [0, 1, 6, 7]),  # the last exchange stays, failed or not
        ("suau", [2], 30, [0, 1, 2, 3]),  # nothing is left to drop
        ("suautuau", [2], 79, [0, 1, 6, 7]),  # all that was observed goes with the message
        ("suauua", [2], 59, [0, 1, 5]),
        ("suauauauau", [2, 6], 79, [0, 1, 4, 5, 8, 9]),
        ("suauauauau", [2], 59, [0, 1, 8, 9]),  # dropping it was not enough
        ("su", [], 1, [0, 1]),
        ("u", [], 1, [0]),
    ],
)
def test_what_is_still_shown(roles: str, failed: list[int], most: int | None, expected: list[int]) -> None:
    assert messages.visible(conversation(roles), failed, most) == expected


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ("suatat", [0, 1, 4, 5]),
        ("suauattu", [0, 1, 4, 5, 6, 7]),  # an answer to a call stands behind its call, or servers refuse it
        ("suauatu", [0, 1, 4, 5, 6]),
        ("suauatatu", [0, 1, 6, 7, 8]),
    ],
)
def test_no_answer_to_a_call_is_shown_without_the_call(roles: str, expected: list[int]) -> None:
    talk = conversation(roles)
    for at, message in enumerate(talk[:-1]):
        if talk[at + 1]["role"] == "tool" and message["role"] == "assistant":
            message["tool_calls"] = [{"function": {"name": "f", "arguments": ""}}]
    assert messages.visible(talk, [], 41) == expected


def test_a_text_is_cut_in_its_middle() -> None:
    assert messages.shortened("x" * 40, 10) == "x" * 40
    text = json.dumps(list(range(1000)))
    cut = messages.shortened(text, 10)
    assert cut == f"{text[:10]}\n[... {len(text) - 40} characters left out ...]\n{text[-30:]}"


def test_a_text_is_cut_as_its_tokens_are_counted() -> None:
    """Digits and marks are a token each here, letters none: half of the characters count."""

    def count(text: str) -> int:
        return sum(not each.isalpha() for each in text)

    text = "a1b2" * 1000
    cut = messages.shortened(text, 200, count)
    head, tail = cut.split("\n[...")[0], cut.split("...]\n")[1]
    assert count(cut) <= 200 and count(cut) > 150  # its note counts, too
    assert text.startswith(head) and text.endswith(tail) and len(tail) > 2 * len(head)
    assert messages.shortened(text, 2000, count) == text and "[..." in messages.shortened(text, 1999, count)
    assert count(messages.shortened(text, 1, count)) <= 40  # no more than the note
    assert messages.shortened("x" * 100, 10, None, 2.5).count("x") == 25


def test_characters_a_token_are_the_fewest_of_the_questions() -> None:
    talk = [
        {"role": "user", "content": "x" * 30},
        {"role": "assistant", "content": "y" * 10},
        {"role": "user", "content": "z" * 8},
    ]
    turns = [{"message": 1, "usage": {"prompt_tokens": 10}}, {"message": 3, "usage": {"prompt_tokens": 24}}]
    assert messages.characters_a_token(talk, turns) == 2.0
    assert messages.characters_a_token(talk, turns[:1]) == 3.0
    assert messages.characters_a_token(talk, [{"message": 1, "usage": {"prompt_tokens": None}}]) is None
    assert messages.characters_a_token(talk, [*turns[:1], {**turns[1], "dropped": [0]}]) is None


def episode(counts: int | None, messages: list[Any], **settings: Any) -> Any:
    """An episode in an environment that counts a token for each `counts` characters; None: its models are at servers."""

    def count_tokens(who: str, asked: list[Any]) -> int | None:
        return None if counts is None else sum(len(each["content"]) for each in asked) // counts

    environment: Any = SimpleNamespace(count_tokens=count_tokens)
    job: Any = SimpleNamespace(settings=replace(memory.MemorySettings(), **settings), record=None, seed=0)
    return Episode(job, environment, messages)


@pytest.mark.parametrize(("counts", "fits"), [(2, 100), (4, 200), (None, 200)])
def test_a_trace_ends_by_the_tokenizer_where_there_is_one(counts: int | None, fits: int) -> None:
    """Fifty tokens; without a tokenizer four characters are one, and each message has one more."""
    for length, ends in ((fits - 4, False), (fits + 4, True)):
        one = episode(counts, [{"role": "user", "content": "x" * length}], context_tokens=50)
        if ends:
            with pytest.raises(Ended):
                one._shown()
        else:
            assert one._shown() == [0]


@pytest.mark.parametrize(("context", "observed"), [(1000, 1500), (500, 750)])
def test_messages_are_dropped_where_a_model_refuses_them_with_the_answer(context: int, observed: int) -> None:
    """The prompt alone would fit. Of a model with half the context that the user names, only the ends do."""

    def ask(who: str, role: str, asked: list[Any], seed: int, tools: None, most: int) -> Any:
        tokens = sum(len(each["content"]) for each in asked) // 4
        asks.append(tokens)
        return {"refused": "too long"} if tokens + most > context else {
            **reply("x"), "prompt_tokens": tokens, "completion_tokens": 1, "seconds": 1.0, "usd": 0.0,
        }  # fmt: skip

    asks: list[int] = []
    settings = replace(react.ReactSettings(), context_tokens=1000, max_answer_tokens=250)
    environment: Any = SimpleNamespace(ask=ask, count_tokens=lambda who, asked: None)
    job: Any = SimpleNamespace(settings=settings, record=None, seed=0, scaffold="react")
    one: Any = Episode(job, environment, opening("s" * 50, "q" * 50))
    for _ in range(4):
        one.ask()
        one._failed.append(one.turn["message"])
        one.observe("o" * observed)
    assert [turn.get("dropped") for turn in one.turns] == [None, None, [2, 3], [2, 3, 4, 5]]
    assert len(asks) == 5  # the third question was refused once
    one.observe("o" * 4000)
    with pytest.raises(Ended) as ended:
        one.ask()
    assert ended.value.reason == "context"


def test_what_an_ideator_reads_is_cut_by_what_is_known_of_its_tokens() -> None:
    text = "x" * 10_000
    assert episode(5, []).shorten("ideator", text, 100).count("x") <= 500
    one = episode(None, [])
    assert one.shorten("ideator", text, 100).count("x") == 200  # nobody has counted: few characters
    one._characters["policy"] = 3.0
    assert one.shorten("ideator", text, 100).count("x") == 270  # another model's, and a tenth less
    one._characters["ideator"] = 3.5
    assert one.shorten("ideator", text, 100).count("x") == 350


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("I clean it.\n<run>\ns = re.sub('.*</think>', '', s)\n</run>", "s = re.sub('.*</think>', '', s)\n"),
        ("<run>\nprint('</think>')\n</run>\nIt prints.", "print('</think>')\n"),
        ("I may say <run>x()</run>, or <run>y().</think>\n<run>\nz()\n</run>", "z()\n"),  # drafts
        ("So I do.</think>\n<run>\nprint('</think>')\n</run>", "print('</think>')\n"),
        ("<think>So I <run>do.</think>\n<run>\nprint('</think>')\n</run>", "print('</think>')\n"),
    ],
)
def test_the_end_of_a_thought_may_stand_in_a_program(text: str, code: str) -> None:
    found = read_action(reply(text), TOOLS)
    assert isinstance(found, Action) and (found.name, found.fields) == ("run", {"code": code})


# ---- an end that is too early

CODE = "import os\nprint(os.listdir('input'))\n"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        (f"<code>\n{CODE}</code>\n\n<answer>submission</answer>", Action(react.PYTHON, {"code": CODE}, None, "first_action")),
        (f"```python\n{CODE}```\n<answer>submission</answer>", Action(react.PYTHON, {"code": CODE}, None, "first_action")),
        (f"<answer>submission</answer>\n```python\n{CODE}```", Action(react.PYTHON, {"code": CODE}, None, "first_action")),
        (
            f"<tool_call>python<code>{CODE}</code></tool_call><answer>submission</answer>",
            Action(react.PYTHON, {"code": CODE}, None, "first_action"),
        ),
        ("I am done.\n<answer>submission</answer>", None),
        ("First ```x = 1```, then\n<answer>submission</answer>", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("early", [True, False])
def test_react_ends_with_nothing_to_hand_in(text: str, action: Action | None, early: bool) -> None:
    found = read_action(reply(text), react.TOOLS, react._body, ("tool_call", "answer"), react.ANSWER if early else "")
    if early and action is None:
        assert isinstance(found, Fault) and (found.kind, found.format["read"]) == ("early", "exact")
    elif early:
        assert found == action
    else:
        assert isinstance(found, Action) and found.name == (react.PYTHON if "tool_call" in text else react.ANSWER)


@pytest.mark.parametrize("end", ["<finish></finish>", "<finish/>", "<FINISH></FINISH>"])
def test_codeact_ends_with_nothing_to_hand_in(end: str) -> None:
    def read(text: str, calls: tuple[str, ...] = ()) -> Action | Fault:
        called = [
            {"id": str(at), "name": name, "arguments": json.dumps({"code": CODE})} for at, name in enumerate(calls)
        ]
        return read_action({**reply(text), "tool_calls": called}, codeact.TOOLS, too_early=codeact.FINISH)

    assert read(f"I fit it.\n```python\n{CODE}```\n{end}") == Action(
        codeact.PYTHON, {"code": CODE}, None, "first_action"
    )
    found = read(f"It is done. {end}")
    assert isinstance(found, Fault) and found.kind == "early"
    assert found.format == {"read": "exact", "rule": None} if end == "<finish></finish>" else found.format["rule"]
    assert read("", (codeact.PYTHON, "finish")) == Action(codeact.PYTHON, {"code": CODE}, "0", "first_action")
    assert read("", ("finish", codeact.PYTHON)) == Action(codeact.PYTHON, {"code": CODE}, "1", "first_action")


@pytest.mark.parametrize("text", ["<action>score submission.csv</action>", "<think>a</think><action> Score</action>\n"])
def test_a_tool_without_fields_may_stand_in_an_action_tag(text: str) -> None:
    assert read_react(text) == Action(react.SCORE, {}, None, "tool_name")


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        (CODE, True),
        (f"<think>I look.</think>\n{CODE}", True),
        (f"I look.\n{CODE}", False),  # words around it: no
        ("submission", False),
        ("x = 1\ny = 2", False),
        (f"<code>{CODE}</code>\n```\nls\n```", False),
    ],
)
def test_a_message_that_is_a_program(text: str, runs: bool) -> None:
    found = read_react(text)
    assert found == Action(react.PYTHON, {"code": CODE}, None, "fence_as_action") if runs else isinstance(found, Fault)
