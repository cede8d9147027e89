"""Every reader of what a model or a program wrote takes time in proportion to it, whatever stands in it.

Readers by hostile texts, in CPU seconds: 100,000 characters within a tenth of a second. Over that (a busy machine slows
CPU time too) eight times the text has to take less than thirty times as long: in proportion it takes eight, by the square 64.
"""

import contextlib
import gc
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from conftest import mostly_slow
from hypothesis import given
from hypothesis import strategies as st

from mletools.base import visible as terminal
from mletools.base.difference import hunks
from mletools.instrument import instrument_as, read_report
from mletools.models import completion, embedding, server_errors
from mletools.reports.show import View, turns
from mletools.reports.show.lines import block, changes, code
from mletools.scaffolds import codeact, idea_types, ideas, likeness, memory, messages, react, reading
from mletools.scaffolds.search import coding, evaluation, planning, reasoning, repair, sections
from mletools.scaffolds.search import memory as research
from mletools.scaffolds.search import replies as search_replies
from mletools.tasks.roles import replies as roles

LENGTH = 100_000
MOST_S = 0.1
NOISE_S = 0.02
UNITS = [
    *"`~[{<( \n\t\r\\'\"*#-_|=!&0a,.:", "``` ", "```\n", "a```\n", "```python\n", "```json\n", "``` json\n", "~~~\n", "~~~ a\n",
    '["', '{"a":', '["[", ', "[1,", "[],", "{},", "[[],", " \n", " \t", "\r\n", '"""\n', "'''a\n", "<think>", "</think>",
    "<think></think>", "<thinking>", "[THINK]", "<|channel|>analysis<|message|>", "<|channel|>commentary to=f<|message|>",
    "to=f ", "to=" + "a" * 80, "<function=f>", "<parameter=a>", "<invoke name=\"f\">", "<parameter name=\"a\">", "<arg_key>a</arg_key>",
    "<arg_value>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>{", "[TOOL_CALLS]", "[TOOL_CALLS][", "<|python_tag|>",
    "Action: f\nAction Input: ", "\n{", "\n[", "```json\n{", "execute_ipython(", "<EXECUTE_IPYTHON>", "<finish/>", "<execute_ipython >",
    "<|im_end|>", "\nObservation:", "<tool_response>", "import a\n", "```python\nimport a\n```\n", "```\nf(1)\n```\n", "<code>", "{\"name\": \"f\"}\n",
    "<tool_call>", "<tool_call></tool_call>", "<execute_ipython>", "<answer>", "<execute_code>```\n", "<code>",
    "# ", "**a", "ACTION:\n", "RATIONALE:", "ANALYSIS_ON_CURRENT_PROGRESS: a\n", '{"type": "', '", "rationale": "', " :", "\x1b[31m", "\x1b]8;;",
    "\x9b1;", "\u202e", "\u200b", "é", "漢", "\U0001f600", "e\u0301", "\ud800", "\u2028", "\x00", "\x85", "a ", "a-b_", "1.", "1e", "%",
    "&lt;", "x = ", "print('loaded data')\n", "if 1:\n", "\\\n", "f'{", "lambda:", "not ", "1+", "a[", "a(", "@a\n", "#\n",
    "instead of ", "replace ", "switch from ", "drop", "hidden", "optuna", "fold ", "$(", "${", "<<A\n",
    "==== Start of Debug Information ====\n", "debug_time: 1\n", "@@ -1 +1 @@\n", "n\n",
]  # fmt: skip
WRAPPED = {
    "in a block of code": ("```python\n", "\n```"),
    "in an open block": ("~~~python\n", ""),
    "in a call of a tool": ("<tool_call>python<code>", "</code></tool_call>"),
    "in a tool's JSON": ('<tool_call>{"name": "', '"}</tool_call>'),
    "in a cell": ("<execute_ipython>", "</execute_ipython>"),
    "in a request": ("<seek_help>", "</seek_help>"),
    "after a section's head": ("TYPE: a\nRATIONALE:", ""),
    "after thinking": ("<think>", "</think>"),
    "in a call of Qwen3-Coder": ("<function=execute_ipython><parameter=code>", "</parameter></function>"),
    "in an open tag": ("<execute_ipython>", ""),
    "in Markdown": ("```markdown\n", "\n```"),
    "in a list": ("[", "]"),
    "in an object": ('{"experiment": "', '"}'),
}
IN_THEM = [
    "`",
    "~",
    "[",
    "{",
    "<",
    " ",
    "\n",
    " \n",
    "*",
    "# ",
    '"',
    "\\",
    "```\n",
    "~~~\n",
    "a```\n",
    '["[", ',
    "<think>",
]


def repeated(unit: str, length: int) -> str:
    return (unit * (length // len(unit) + 1))[:length]


def _texts() -> dict[str, Callable[[int], str]]:
    found: dict[str, Callable[[int], str]] = {repr(unit): lambda n, unit=unit: repeated(unit, n) for unit in UNITS}
    for (where, (head, tail)), unit in itertools.product(WRAPPED.items(), IN_THEM):
        found[f"{unit!r} {where}"] = lambda n, unit=unit, head=head, tail=tail: head + repeated(unit, n) + tail
    for opening, closing in ("[]", "{}", "()", "<>"):
        found[f"nested {opening}"] = lambda n, one=opening, other=closing: one * (n // 2) + other * (n // 2)
    for unit in "`~ [{":
        found[f"lines of {unit!r}"] = lambda n, unit=unit: (unit * 999 + "\n") * (n // 1000)
        found[f"growing lines of {unit!r}"] = lambda n, unit=unit: "".join(
            unit * k + "\n" for k in range(int((2 * n) ** 0.5))
        )
        found[f"shrinking lines of {unit!r}"] = lambda n, unit=unit: "".join(
            unit * k + "\n" for k in range(int((2 * n) ** 0.5), 0, -1)
        )
    found |= {
        "nested JSON": lambda n: '{"a":' * (n // 6) + "1" + "}" * (n // 6),
        "nested up to the limit": lambda n: ("[" * 150 + "]" * 150 + "\n") * (n // 301),
        "opened up to the limit": lambda n: ("(" * 150 + "\n") * (n // 151),
        "thinking, then blanks": lambda n: "<think>" + " " * n,
        "blanks, then thinking": lambda n: " " * n + "<think>",
        "a fence, then blanks": lambda n: "```\n" + " " * n + "x",
        "a long text": lambda n: 'x = "' + "a" * n + '"',
        "a long list": lambda n: "x = [" + "1, " * (n // 3) + "]",
        "different lines": lambda n: "".join(f"x{k} = {k}\n" for k in range(n // 12)),
        "lines that repeat now and then": lambda n: "".join(f"{k * k % 97}\n" for k in range(n // 3)),
        "JSON opened in strings": lambda n: '["' + '[", "' * (n // 5),
    }  # fmt: skip
    return found


TEXTS = _texts()
PROGRAM = "import os\nx = 1\n" * 300
BRIEF, FULL = View(), View(full=True)
TOOLS = (*codeact.TOOLS[:2], codeact.ASKING)


def reply(text: str) -> dict[str, Any]:
    return {"text": text, "finish_reason": "stop", "tool_calls": []}


def call(text: str) -> dict[str, Any]:
    return {**reply(""), "tool_calls": [{"id": "a", "name": "execute_ipython", "arguments": text}]}


def said(text: str) -> list[Any]:
    calls = [{"function": {"name": "run", "arguments": text}}]
    return list(
        turns.said({"role": "assistant", "content": text, "reasoning": text, "tool_calls": calls}, PROGRAM, BRIEF)
    )


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


READERS: dict[str, Callable[[str], Any]] = {
    "a block of code": reading.split_answer,
    "an answer that was cut off": lambda text: reading.read_answer(text, "length"),
    "JSON with faults": reading.read_json,
    "react": lambda text: reading.read_action(reply(text), react.TOOLS, react._body, ("tool_call", "answer")),
    "react's format": lambda text: reading.thinks(reply(text)),
    "codeact": lambda text: reading.read_action(reply(text), TOOLS),
    "a call's arguments": lambda text: reading.read_action(call(text), TOOLS),
    "arguments sent back": reading.sendable,
    "memory": lambda text: reading.read_action(reply(text), memory.TOOLS),
    "what a fence holds": reading.without_fence,
    "an idea": ideas.idea_and_format,
    "a trajectory": lambda text: ideas.trajectory([{"role": "user", "content": text}], 32_000),
    "a type of idea": idea_types.read_answer,
    "a type by words": lambda text: idea_types.by_words({"action": text, "rationale": text}),
    "a search's idea": reasoning.read_idea,
    "challenges": lambda text: reasoning.read_challenges(text, 5),
    "hypotheses": lambda text: reasoning.read_hypotheses(text, [reasoning.Challenge("a", "b", "scenario")], 5),
    "a choice among hypotheses": lambda text: reasoning.read_choice(text, []),
    "repaired JSON": lambda text: list(repair.repaired_values(text)),
    "a number in words": lambda text: search_replies.Fields({"n": text}).number("n", (1, 10)),
    "a label in words": lambda text: search_replies.Fields({"n": text, text: 1}).label("n", ["a", "b"]),
    "an index in words": lambda text: search_replies.Fields({"n": text}).index("n", 3),
    "a flag in words": lambda text: search_replies.Fields({"n": text}).flag("n"),
    "a lesson": research.read_lesson,
    "an analysis": planning.read_analysis,
    "a check": coding.read_check,
    "a choice": lambda text: evaluation.read_choice(text, {1}),
    "a text in a fence": messages.fenced,
    "a hypothesis": lambda text: sections.plain(text, 400),
    "changes to a parent": lambda text: research._changes(PROGRAM, text),
    "a debug run": search_replies.read_block,
    "likeness": lambda text: likeness.similarity(PROGRAM, text),
    "an earlier output": messages.escaped,
    "a role's object": lambda text: roles.json_of(text, dict),
    "a role's list": lambda text: roles.json_of(text, list),
    "a role's program": roles.code_of,
    "a role's page": roles.page_of,
    "an instrumented program": lambda text: instrument_as(PROGRAM, text),
    "a report": lambda text: read_report(encoded(text), encoded(text), "nonce"),
    "a server's complaint": lambda text: server_errors.exceeds_context(400, encoded(text)),
    "a completion": lambda text: completion.read_reply(encoded(text)),
    "embeddings": lambda text: embedding.read_vectors(encoded(text), 1),
    "terminal text": terminal.visible,
    "a name on a terminal": terminal.visible_line,
    "shown prose": lambda text: list(block(text, BRIEF, words=True)),
    "shown Python": lambda text: list(code(text, BRIEF, "python")),
    "shown shell": lambda text: list(code(text, BRIEF, "bash")),
    "shown changes": lambda text: changes(PROGRAM, text, BRIEF),
    "a shown message": said,
}  # fmt: skip


def seconds(read: Callable[[str], Any], text: str) -> float:
    gc.disable()  # it goes through everything that other tests keep alive, the more often the more is read
    try:
        begin = time.process_time()
        with contextlib.suppress(ValueError, roles.Faulty):  # said in words: that is an answer, too
            read(text)
        return time.process_time() - begin
    finally:
        gc.enable()


def least_seconds(read: Callable[[str], Any], text: str, enough: float) -> float:
    """The least of up to eight measurements: other programs slow CPU time too."""
    took = seconds(read, text)
    for _ in range(7):
        if took <= enough:
            break
        took = min(took, seconds(read, text))
    return took


def in_turns(read: Callable[[str], Any], short: str, long: str, most: float) -> tuple[float, float]:
    """The least seconds of both, measured in turns until the second are under `most` times the first, eight times at most.

    In turns: what slows the machine for a while slows both.
    """
    once, longer = seconds(read, short), seconds(read, long)
    for _ in range(7):
        if longer < most * once:
            break
        once, longer = min(once, seconds(read, short)), min(longer, seconds(read, long))
    return once, longer


def check(name: str, texts: Iterable[str], length: int = LENGTH) -> None:
    """Each text within MOST_S; on a slow machine, eight times the text in less than thirty times as long."""
    read = READERS[name]
    seconds(read, "hello")  # imports, tables
    for text in texts:
        if least_seconds(read, TEXTS[text](length), MOST_S) > MOST_S:
            took, longer = in_turns(read, TEXTS[text](length), TEXTS[text](8 * length), 30)
            assert took < 5 * MOST_S and longer < 30 * took, (
                f"{length} characters of {text}: {took:.2f} s, eight times as many: {longer:.2f} s"
            )


# One for each way in which a reader was slow once, or could be.
WORST = [
    *map(repr, "~` \t\n["), "'a```\\n'", "'ACTION:\\n'", "'[\"[\", '", "'~' in a call of a tool", "'~' in a cell", "' ' in a request",
    "growing lines of ' '", "lines of '`'", "'é'", "lines that repeat now and then",
    "'<tool_call>'", "'<function=f>'", "'<|channel|>analysis<|message|>'", "'\\n{'", "'{\"a\":'", "'<EXECUTE_IPYTHON>'", "'```python\\nimport a\\n```\\n'",
    "'```\\nf(1)\\n```\\n'", "'to=" + "a" * 80 + "'", "nested JSON", "opened up to the limit", "'`' in an open tag", "' ' in Markdown", "'\\nObservation:'",
]  # fmt: skip


@pytest.mark.parametrize("name", mostly_slow(READERS, 20))
def test_a_reply_of_anything_is_read_at_once(name: str) -> None:
    check(name, WORST)


# Tags of tools, frames and turns, and what stands between them: a reader may look for one again at each other.
TAGS = [
    "<tool_call>", "</tool_call>", "<answer>", "</answer>", "<python>", "<code>", "</code>", "<execute_ipython>",
    "</execute_ipython>", "<validate_code>", "</validate_code>", "<seek_help>", "</seek_help>", "<finish/>", "<think>", "</think>",
    "<tool_response>", "<|im_end|>", "<function=python>", "</function>", "[TOOL_CALLS]", "```\n", "```python\n", "\n", "{}", "x",
    "\nAction: f\nAction Input:", "TYPE: a\n", '{"name": "python"}',
]  # fmt: skip
ACTING = ("react", "codeact", "memory")
ANSWERING = (
    "a block of code", "an answer that was cut off", "JSON with faults", "repaired JSON", "an idea", "a search's idea", "challenges",
    "an analysis", "a check", "a lesson", "a debug run", "a type of idea", "a role's program",
)  # fmt: skip


def check_scaling(name: str, units: Iterable[str]) -> None:
    """Sixteen times as many of each unit take less than forty times as long; looked at where they take long at all."""
    read = READERS[name]
    seconds(read, "hello")
    for unit in units:
        enough = MOST_S / 5
        if seconds(read, unit * (LENGTH // 5 // len(unit))) <= enough:
            continue
        few, many = (unit * (length // len(unit)) for length in (LENGTH // 16, LENGTH))
        once, longer = in_turns(read, few, many, 40)
        assert longer < max(40 * once + NOISE_S, MOST_S), f"{name}: {unit!r}"


@pytest.mark.parametrize("name", ACTING)
def test_whole_tags_take_time_in_proportion_to_their_number(name: str) -> None:
    """Also those that open again behind each end, and those that hold one of another tool."""
    whole = [(tag, tag.replace("<", "</")) for tag in TAGS if tag.replace("<", "</") in TAGS]
    forms = [form for tag, end in whole for form in (tag + end, end + tag, f"{tag}{{}}{end}", f"{tag}<python>{end}")]
    check_scaling(name, forms)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ACTING, *ANSWERING])
def test_pairs_of_tags_take_time_in_proportion_to_their_number(name: str) -> None:
    check_scaling(name, map("".join, itertools.product(TAGS, repeat=2)))


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*ACTING, *ANSWERING])
def test_triples_of_tags_take_time_in_proportion_to_their_number(name: str) -> None:
    check_scaling(name, map("".join, itertools.product(TAGS, repeat=3)))


@pytest.mark.nightly
@pytest.mark.parametrize("name", READERS)
def test_every_reader_reads_every_hostile_text_at_once(name: str) -> None:
    check(name, TEXTS)


@pytest.mark.parametrize("text", ["'\\n'", "' \\n'", "'`'", "lines of ' '", "'é'"])
def test_what_is_shown_in_full_takes_time_in_proportion(text: str) -> None:
    """100,000 lines are made of it: a bound in seconds would be one on the lines."""

    def show(given: str) -> list[Any]:
        return list(block(given, FULL, words=True))

    seconds(show, "hello")
    once, longer = in_turns(show, TEXTS[text](LENGTH // 8), TEXTS[text](LENGTH), 30)
    assert longer < 30 * once + NOISE_S


def test_the_measure_notices_a_reader_that_takes_the_square(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = "shown prose"
    for power, accepted in ((2, False), (1, True)):
        monkeypatch.setattr(
            "test_hostile_text.seconds", lambda read, text, power=power: 0.15 * (len(text) / LENGTH) ** power
        )
        with contextlib.nullcontext() if accepted else pytest.raises(AssertionError, match="characters of '~'"):
            check(slow, WORST)


# ---- what they read is what they read before


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("\n~~~~\nx = 1\n   ~~~~ \n", "x = 1\n"),
        ("```\nx = 1```", "x = 1\n"),
        ("````\n```\nx\n```\n````", "```\nx\n```\n"),
        ("```\nx = 1", "```\nx = 1\n"),
        ("x = 1\n```", "x = 1\n```\n"),
        ("``` a`b\nx\n```", "``` a`b\nx\n```\n"),
        ("~~~~~~\n~~~", "~~~~~~\n~~~\n"),
        ("\n\nx = 1\n\n", "x = 1\n"),
        ("```\n```", "\n"),
    ],
)
def test_the_fence_around_code(text: str, inside: str) -> None:
    assert reading.without_fence(text) == inside


def test_sections_stand_at_the_beginnings_of_lines() -> None:
    read = reading.sections(
        "\n \n ##**ACTION :** do\n it\nnot ACTION: this\n\t*RATIONALE:why: so\n", ["action", "rationale"]
    )
    assert read == {"action": "do\n it\nnot ACTION: this", "rationale": "why: so"}
    for text, problem in {
        "a\nACTION: b": "it has to begin with ACTION:",
        "ACTION: b\nACTION: b": "ACTION: stands there twice",
        "ACTION: b\nRATIONALE: ": "RATIONALE: is missing or empty",
    }.items():
        with pytest.raises(ValueError, match=f"^{problem}$"):
            reading.sections(text, ["action", "rationale"])


@given(
    st.lists(st.sampled_from("abcd"), max_size=30), st.lists(st.sampled_from("abcd"), max_size=30), st.integers(0, 3)
)
def test_changes_make_one_text_of_the_other(old: list[str], new: list[str], context: int) -> None:
    made: list[str] = []
    at = 0
    for line in hunks(old, new, context):
        if line.startswith("@@"):
            begin, _, size = line.split()[1].removeprefix("-").partition(",")
            until = int(begin) - (size != "0")
            made += old[at:until]
            at = until
        else:
            assert line[0] == "+" or old[at] == line[1:]
            made += [line[1:]] if line[0] in " +" else []
            at += line[0] in " -"
    assert made + old[at:] == new
    assert (old == new) == (not list(hunks(old, new, context)))


def test_changes_are_written_as_diff_writes_them() -> None:
    old = [*"abcdefghij"]
    assert list(hunks(old, [*"abXdefghiYZ"], 1)) == [
        "@@ -2,3 +2,3 @@",
        " b",
        "-c",
        "+X",
        " d",
        "@@ -9,2 +9,3 @@",
        " i",
        "-j",
        "+Y",
        "+Z",
    ]
    assert list(hunks([], ["a"], 2)) == ["@@ -0,0 +1 @@", "+a"]
    assert list(hunks(old, old, 2)) == []
