"""Replies as models write them outside the form that was asked for: what a person reads without doubt is read."""

import html
import json
from typing import Any

import pytest

from mletools.scaffolds import react
from mletools.scaffolds.codeact import TOOLS as CODEACT
from mletools.scaffolds.ideas import idea_and_format
from mletools.scaffolds.memory import TOOLS as MEMORY
from mletools.scaffolds.reading import Action, Fault, read_action, read_answer
from mletools.scaffolds.search.data import AXES
from mletools.scaffolds.search.reasoning import Challenge, read_choice, read_hypotheses

PROGRAM = """import pandas as pd

train = pd.read_csv("input/train.csv")
if len(train) > 3 and 1 < 2:
    print("a & b")
train[["id", "y"]].to_csv("submission.csv", index=False)
"""
FENCED = f"A plan.\n\n```python\n{PROGRAM}```\n"
NBSP, ZERO_WIDTH, MARK = "\u00a0", "\u200b", "\ufeff"
ESCAPED = html.escape(PROGRAM)
ANSWERS: dict[str, tuple[str, str | None]] = {
    "mark first": (MARK + FENCED, None),
    "mark in the program": (FENCED.replace("import", MARK + "import"), "invisible_characters"),
    "zero width at a fence": (FENCED.replace("```python", "```python" + ZERO_WIDTH), "invisible_characters"),
    "zero width behind the end": (FENCED.removesuffix("\n") + ZERO_WIDTH + "\n", "invisible_characters"),
    "no-break indentation": (FENCED.replace("    print", NBSP * 4 + "print"), "invisible_characters"),
    "mixed indentation": (FENCED.replace("    print", f"{NBSP} {NBSP} print"), "invisible_characters"),
    "word joiner": (FENCED.replace("print(", "print\u2060("), "invisible_characters"),
    "line separators": (FENCED.replace("\n\ntrain", "\u2028\ntrain"), "invisible_characters"),
    "typographic quotes": (FENCED.replace('"a & b"', "\u201ca & b\u201d"), "typographic_quotes"),
    "escaped for HTML": (html.escape(FENCED), "html_entities"),
    "program escaped": (f"Plan.\n\n```python\n{ESCAPED}```", "html_entities"),
    "HTML": (f'Plan<br>\n<pre><code class="language-python">{ESCAPED}</code></pre>', "code_tags"),
    "language behind the fence": (f"Plan\n\n```\npython\n{PROGRAM}```", "no_language"),
    "Language behind the fence": (f"Plan\n\n```\nPython\n\n{PROGRAM}```", "no_language"),
    "file behind the fence": (f"Plan\n\n```python\nsolution.py\n{PROGRAM}```", "language"),
    "JSON with a fence": (json.dumps({"plan": "x", "solution": f"```python\n{PROGRAM}```"}), "in_json"),
    "JSON in JSON": (json.dumps({"answer": {"plan": "x", "code": PROGRAM}}), "in_json"),
    "JSON of lines": (json.dumps({"plan": "x", "code": PROGRAM.split("\n")}), "in_json"),
    "JSON in a fence": ("```json\n" + json.dumps({"python": PROGRAM}, indent=1) + "\n```", "in_json"),
    "JSON of files": (json.dumps({"files": {"solution.py": PROGRAM}}), "in_json"),
    "a call": (
        "<tool_call>" + json.dumps({"name": "submit", "arguments": {"source": PROGRAM}}) + "</tool_call>", "tool_call",
    ),
    "function_call": (
        json.dumps({"function_call": {"name": "python", "arguments": json.dumps({"code": PROGRAM})}}), "in_json",
    ),
    "tags in tags": (f"<answer>\n<plan>x</plan>\n<code>\n{PROGRAM}</code>\n</answer>", "code_tags"),
    "CDATA": (f"<program><![CDATA[\n{PROGRAM}]]></program>", "code_tags"),
    "an attribute": (f'<code language="python">\n{PROGRAM}</code>', "code_tags"),
    "LaTeX": (f"\\begin{{lstlisting}}[language=Python]\n{PROGRAM}\\end{{lstlisting}}", "code_tags"),
    "wide signs": (FENCED.replace("`", "\uff40"), "invisible_characters"),
    "quotation marks": (FENCED.replace("```", "'''"), "other_fence"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_a_program_is_read_as_a_person_sees_it(name: str) -> None:
    text, rule = ANSWERS[name]
    answer = read_answer(text)
    assert (answer.code or "").strip() == PROGRAM.strip()
    assert (answer.read, answer.rule) == (("lenient", rule) if rule else ("exact", None))


def test_a_program_that_python_reads_stays_as_it_is() -> None:
    odd = f'text = "{NBSP}{ZERO_WIDTH}&lt;\u201cq\u201d"\nprint(text)\n'
    assert read_answer(f"Plan.\n\n```python\n{odd}```").code == odd
    broken = 'print("a &lt; b"\n'
    assert read_answer(f"Plan.\n\n```python\n{broken}```").code == broken  # it is no Python as seen, either


# --- actions ---------------------------------------------------------------------------------------------------------------


def reply(text: str, *calls: tuple[str, str]) -> Any:
    calls_of = [{"id": "c1", "name": name, "arguments": arguments} for name, arguments in calls]
    return {"text": text, "finish_reason": "stop", "tool_calls": calls_of, "reasoning": None}


def in_react(text: str) -> Action | Fault:
    return read_action(reply(text), react.TOOLS, react._body, ("tool_call", "answer"))


REACT = f"<think>x</think>\n<tool_call>\npython\n<code>\n{PROGRAM}</code>\n</tool_call>"


@pytest.mark.parametrize(
    "text",
    [
        MARK + REACT, REACT.replace("import", MARK + "import"), REACT.replace("    print", NBSP * 4 + "print"),
        html.escape(REACT), REACT.replace(PROGRAM, ESCAPED), REACT.replace("<code>\n", "<code>\npython\n"),
        REACT.replace("<tool_call>", '<tool_call name="python">'), REACT.replace("<tool_call>", f"<{ZERO_WIDTH}tool_call>"),
    ],
)  # fmt: skip
def test_a_program_of_react(text: str) -> None:
    action = in_react(text)
    assert isinstance(action, Action) and action.name == react.PYTHON
    assert action.fields["code"].strip() == PROGRAM.strip()


@pytest.mark.parametrize("call", ["Score", "Score()", '{"name": "score", "arguments": {}}', '{"name": "tools.Score"}'])
def test_a_score_of_react(call: str) -> None:
    action = in_react(f"<think>x</think><tool_call>{call}</tool_call>")
    assert isinstance(action, Action) and action.name == react.SCORE


CELL = f"I look.\n\n<execute_ipython>\n{PROGRAM}</execute_ipython>"
CODE = {"code": PROGRAM}
NAME = "execute_ipython"
CALLS: dict[str, Any] = {
    "list": [{"name": NAME, "arguments": CODE}],
    "function_call": {"function_call": {"name": NAME, "arguments": json.dumps(CODE)}},
    "tool_call": {"tool_call": {"name": NAME, "arguments": CODE}},
    "input": {"tool": NAME, "input": CODE},
    "params": {"name": NAME, "params": CODE},
    "kwargs": {"name": NAME, "kwargs": CODE},
    "case": {"name": "Execute_IPython", "arguments": CODE},
    "point": {"name": f"tools.{NAME}", "arguments": CODE},
    "underscores": {"name": f"mcp__sandbox__{NAME}", "arguments": CODE},
    "slash": {"name": f"sandbox/{NAME}", "arguments": CODE},
    "colon": {"name": f"functions:{NAME}", "arguments": CODE},
    "flat": {"name": NAME, "code": PROGRAM},
    "name as key": {NAME: CODE},
    "name and text": {NAME: PROGRAM},
    "another key": {"name": NAME, "arguments": {"script": PROGRAM}},
    "two keys": {"name": NAME, "arguments": {"source": PROGRAM, "timeout": 30}},
    "lines": {"name": NAME, "arguments": {"code": PROGRAM.split("\n")}},
    "a list of one": {"name": NAME, "arguments": [PROGRAM]},
    "recipient": {"tool_uses": [{"recipient_name": f"functions.{NAME}", "parameters": CODE}]},
}
FRAMES = {"bare": "Look.\n{}", "fenced": "Look.\n```json\n{}\n```", "hermes": "<tool_call>\n{}\n</tool_call>"}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_in_the_text(call: str, frame: str) -> None:
    action = read_action(reply(FRAMES[frame].replace("{}", json.dumps(CALLS[call], indent=1))), CODEACT)
    assert isinstance(action, Action) and action.name == NAME and action.rule
    assert action.fields["code"].strip() == PROGRAM.strip()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (NAME, json.dumps(CODE)), ("Execute_IPython", json.dumps(CODE)), (f"functions.{NAME}", json.dumps(CODE)),
        (f"mcp__x__{NAME}", json.dumps(CODE)), (NAME, json.dumps({"cell": PROGRAM})), ("python", json.dumps(CODE)),
        (NAME, json.dumps({"code": PROGRAM, "language": "python"})), (NAME, json.dumps([PROGRAM])), (NAME, PROGRAM),
        (NAME, json.dumps({"script": PROGRAM, "language": "python"})), (NAME, json.dumps({"arguments": CODE})),
        (NAME, json.dumps({"code": PROGRAM.split("\n")})), (NAME, json.dumps({"code": ESCAPED})),
        (NAME, json.dumps({"code": PROGRAM.replace("    ", NBSP * 4)})), (NAME, json.dumps({"code": f"```py\n{PROGRAM}```"})),
    ],
)  # fmt: skip
def test_a_call_of_the_protocol(name: str, arguments: str) -> None:
    action = read_action(reply("", (name, arguments)), CODEACT)
    assert isinstance(action, Action) and (action.name, action.id) == (NAME, "c1")
    assert action.fields["code"].strip() == PROGRAM.strip()


@pytest.mark.parametrize(
    "ahead",
    [
        "I will use <execute_ipython> to look, and <finish></finish> later.\n\n",
        "The `<execute_ipython>` tag runs code.\n", "When done I will call <finish></finish>. First:\n",
    ],
)  # fmt: skip
def test_an_action_that_is_spoken_of_is_none(ahead: str) -> None:
    action = read_action(reply(ahead + CELL), CODEACT)
    assert isinstance(action, Action) and action.name == NAME and action.rule == "mentioned_tag"
    ended = read_action(reply(f"I am done: <finish></finish>\n{CELL}"), CODEACT)
    assert isinstance(ended, Action) and ended.name == "finish"
    text = f"I will <validate_code> it before <execute_code>.\n\n<validate_code>\n{PROGRAM}</validate_code>"
    tried = read_action(reply(text), MEMORY)
    assert isinstance(tried, Action) and tried.name == "validate_code"


@pytest.mark.parametrize("language", ["output", "text", ""])
def test_a_program_and_the_output_that_it_is_thought_to_have(language: str) -> None:
    text = f"I look.\n\n```python\n{PROGRAM}```\n\n```{language}\na & b\n```\n"
    for action in (in_react(text), read_action(reply(text), CODEACT)):
        assert isinstance(action, Action) and action.rule == "fence_as_action" and action.fields["code"] == PROGRAM
    both = read_action(reply(f"```bash\nls\n```\n```python\n{PROGRAM}```"), CODEACT)
    assert isinstance(both, Fault) and both.kind == "missing"  # which of the two?


# --- ideas -----------------------------------------------------------------------------------------------------------------

PARTS = ("The tree overfits: 0.8 on train.", "Use a forest of 300 trees with depth 6.", "Averaging lowers variance.")


def idea(*heads: str) -> str:
    return "\n\n".join(head + part for head, part in zip(heads, PARTS, strict=True))


def as_json(first: str = "analysis_on_current_progress") -> dict[str, str]:
    return dict(zip((first, "action", "rationale"), PARTS, strict=True))


LONG = "Analysis on current progress"
IDEAS = {
    "numbers in bold": idea(f"**1. {LONG}:**\n", "**2. Action:**\n", "**3. Rationale:**\n"),
    "bold behind numbers": idea(f"1. **{LONG.upper()}**: ", "2. **ACTION**: ", "3. **RATIONALE**: "),
    "bullets": idea(f"- {LONG.upper()}: ", "- ACTION: ", "- RATIONALE: "),
    "dashes": idea(f"\u2022 **{LONG}** \u2013 ", "\u2022 **Action** \u2013 ", "\u2022 **Rationale** \u2013 "),
    "short": idea("**Analysis** \u2014 ", "**Action** \u2014 ", "**Rationale** \u2014 "),
    "headings": idea("### Current progress\n", "### Proposed action\n", "### Reasoning\n"),
    "escaped": idea("ANALYSIS\\_ON\\_CURRENT\\_PROGRESS:\n", "\\*\\*ACTION\\*\\*:\n", "RATIONALE:\n"),
    "wide signs": idea("ANALYSIS_ON_CURRENT_PROGRESS\uff1a\n", "ACTION\uff1a\n", "RATIONALE\uff1a\n"),
    "brackets": idea("[ANALYSIS_ON_CURRENT_PROGRESS]\n", "\u3010ACTION\u3011\n", "[RATIONALE]\n"),
    "tags": "\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in as_json().items()),
    "tags in a tag": f"<idea>{''.join(f'<{name}>{text}</{name}>' for name, text in as_json('analysis').items())}</idea>",
    "channels": "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"
    + idea("ANALYSIS_ON_CURRENT_PROGRESS:\n", "ACTION:\n", "RATIONALE:\n"),
    "channels without marks": "analysisThey want..assistantfinal" + idea("ANALYSIS:\n", "ACTION:\n", "RATIONALE:\n"),
    "JSON among words": f"Here:\n```json\n{json.dumps(as_json())}\n```\nGood luck!",
    "JSON in JSON": json.dumps({"idea": as_json("Analysis")}),
    "JSON in a list": json.dumps([as_json()]),
    "a call": f"<tool_call>{json.dumps({'name': 'idea', 'arguments': as_json()})}</tool_call>",
    "quoted": idea(f"> **{LONG}:** ", "> **Action:** ", "> **Rationale:** "),
    "mark": MARK + idea("ANALYSIS_ON_CURRENT_PROGRESS:\n", "ACTION:\n", "RATIONALE:\n"),
    "no-break space": idea(f"{LONG}{NBSP}:\n", f"Action{NBSP}:\n", f"Rationale{NBSP}:\n"),
    "HTML": idea(f"<b>{LONG}:</b> ", "<b>Action:</b> ", "<b>Rationale:</b> "),
    "a table": "| part | text |\n|---|---|\n" + "\n".join(f"| {name} | {text} |" for name, text in as_json().items()),
    "signs": idea(f"\U0001f50d {LONG}:\n", "\U0001f680 Action:\n", "\U0001f4a1 Rationale:\n"),
    "Roman numbers": idea(f"I. {LONG}\n", "II. Action\n", "III. Rationale\n"),
    "steps": idea(f"Step 1: {LONG}\n", "Step 2: Action\n", "Step 3: Rationale\n"),
}


@pytest.mark.parametrize("name", IDEAS)
def test_an_idea_under_any_headings(name: str) -> None:
    read, format = idea_and_format(IDEAS[name])
    assert read is not None and tuple(map(str.strip, read.values())) == PARTS and format["read"] == "lenient"


@pytest.mark.parametrize(
    "text", ["Action: go on.", idea("ANALYSIS:\n", "ACTION:\n", "ACTION:\n"), "I have no idea.", "{}"]
)
def test_what_lacks_a_part_is_no_idea(text: str) -> None:
    assert idea_and_format(text) == (None, {"read": "none", "rule": "malformed"})


# --- structured answers of a search ------------------------------------------------------------------------------------------

CHALLENGES = [
    Challenge("The trees overfit the small classes.", "r", "scenario"),
    Challenge("The date is not used as a feature.", "r", "feedback"),
    Challenge("Validation is random though time matters.", "r", "feedback"),
]
SCORES = dict.fromkeys(AXES, 7)


def proposals(challenge: Any = lambda at: at, scores: Any = SCORES) -> list[dict[str, Any]]:
    return [
        {
            "hypothesis": f"Use more trees, number {at}.",
            "component": "Model",
            "challenge": challenge(at),
            "scores": scores,
        }
        for at in range(3)
    ]


def flat(item: dict[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in item.items() if name != "scores"}, **SCORES}


LISTS: dict[str, Any] = {
    "as asked": proposals(),
    "wrapped": {"hypotheses": proposals()},
    "keyed by number": {str(at + 1): item for at, item in enumerate(proposals())},
    "keyed by name": {"hypotheses": {f"h{at}": item for at, item in enumerate(proposals())}},
    "counted from 1": proposals(lambda at: at + 1),
    "counted from 1 in words": proposals(lambda at: f"{at + 1}"),
    "by text": proposals(lambda at: CHALLENGES[at].text),
    "by number and text": proposals(lambda at: f"Challenge {at}: {CHALLENGES[at].text}"),
    "by how it begins": proposals(lambda at: CHALLENGES[at].text[:25]),
    "flat scores": list(map(flat, proposals())),
    "scores in a list": proposals(scores=[7] * 5),
    "scores with reasons": proposals(scores={axis: {"score": 7, "reason": "x"} for axis in AXES}),
    "scores as a table": proposals(scores=[{"axis": axis, "score": 7} for axis in AXES]),
    "scores out of ten": proposals(scores=dict.fromkeys(AXES, "7/10")),
}


@pytest.mark.parametrize("name", LISTS)
def test_hypotheses_in_any_structure(name: str) -> None:
    for text in (json.dumps(LISTS[name]), f"Words.\n```json\n{json.dumps(LISTS[name], indent=1)}\n```"):
        read = read_hypotheses(text, CHALLENGES, 9)
        assert [each.challenge for each in read] == [each.text for each in CHALLENGES]
        assert all(each.scores == SCORES for each in read)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(map(json.dumps, proposals())), html.escape(json.dumps(proposals())), MARK + json.dumps(proposals()),
        json.dumps(proposals()).replace('"', "\u201c"), json.dumps(proposals(), indent=1).replace(" ", NBSP),
        repr(proposals()), f"{json.dumps(proposals())[:-1]},]", f"<answer>{json.dumps(proposals())}</answer>",
    ],
)  # fmt: skip
def test_hypotheses_in_any_dress(text: str) -> None:
    assert [each.challenge for each in read_hypotheses(text, CHALLENGES, 9)] == [each.text for each in CHALLENGES]


@pytest.mark.parametrize(
    "candidate", [2, 3, "2", "#2", "candidate 2", "Use more trees, number 2.", "2: Use more trees, number 2."]
)
def test_a_choice_by_number_or_text(candidate: Any) -> None:
    known = read_hypotheses(json.dumps(proposals()), CHALLENGES, 9)
    for answer in (
        {"action": "select", "candidate": candidate},
        {"decision": {"action": "select", "candidate": candidate}},
    ):
        assert read_choice(json.dumps(answer), known) == ("select", known[2])


@pytest.mark.parametrize("candidate", [4, -1, "none", "Use more trees", None])
def test_a_choice_that_means_none_is_refused(candidate: Any) -> None:
    known = read_hypotheses(json.dumps(proposals()), CHALLENGES, 9)
    with pytest.raises(ValueError, match='"candidate" has to be a number from 0 to 2'):
        read_choice(json.dumps({"action": "select", "candidate": candidate}), known)
