"""A turn of a rollout: what the policy saw, what it wrote, the program or what changed in it, and what came of it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import facts, nodes
from .header import graded
from .lines import BAD, DIM, GOOD, LABEL, View, block, changes, code, count, folded, rule, styled

if TYPE_CHECKING:
    from rich.text import Text

Record = Mapping[str, Any]
SEEN, SAID, THOUGHT, PRINTED = (6, 4), (30, 10), (8, 4), (12, 12)  # first and last lines that are shown
_THINK = re.compile(r"\s*<think>(.*?)(?:</think>|\Z)", re.DOTALL)
PROBLEMS = {
    "length": "the message was cut off",
    "missing": "the message takes no action",
    "several": "the message takes more than one action",
    "malformed": "the action cannot be read",
    "unknown": "there is no such action",
    "unanswered": "the models' answers cannot be read",
    "no_code": "the answer holds no program",
    "debug": "no run on a part of the rows went well",
    "slow": "the whole run would take too long",
    "failed": "the program did not end well",
    "invalid": "the submission cannot be scored",
    "inauthentic": "the submission is no model's prediction",
    "no_score": "the search has no score to go by",
}


def turn(rollout: Record, at: int, before: Mapping[str, tuple[str, str]], view: View) -> Iterator["Text"]:
    """Turn `at`, from 0. `before`: for each kind of program the last one, and where it stands."""
    record, place = rollout["turns"][at], facts.places(rollout)
    used = record.get("usage")
    cost = [f"{record['duration_s']:.1f} s"]
    if facts.tokens(used) != "-":
        cost.insert(0, f"{facts.tokens(used)} tokens")
    if facts.usd(used) != "-":
        cost.append(f"{facts.usd(used)} USD")
    yield rule(f"turn {at + 1} of {len(place)}: {record['action']}", view, after=", ".join(cost))
    if record.get("dropped"):
        yield styled((f"no longer seen by the agent: messages {_ranges(record['dropped'])}", "yellow"))
    program, here = facts.programs(rollout)[at], place[at]
    if here is not None:
        last = next((was for was in reversed(place[:at]) if was is not None), -1)
        for message in rollout["messages"][last + 1 : here]:
            yield from seen(message, view)
        yield from folded(said(rollout["messages"][here], program, view), view)
    if record.get("node"):
        yield from nodes.thought(record["node"], view)
    if record.get("problem"):
        problem = record["problem"]
        yield styled((f"problem: {problem}", BAD), (f", {PROBLEMS.get(problem, 'see its message')}", BAD))
    if (record.get("format") or {}).get("read") == "lenient":
        yield styled((f"read leniently: {record['format']['rule']}", "yellow"))
    if program is not None:
        yield from listing(program, facts.kind_of(record), before, view)
    yield from folded(came_of(record, bool(rollout.get("reveal_test")), view), view)
    if record.get("node"):
        yield from nodes.learnt(record["node"], view)


def _ranges(places: list[int]) -> str:
    """`2-5, 8`"""
    runs: list[list[int]] = []
    for place in sorted(places):
        if runs and place == runs[-1][1] + 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def seen(message: Record, view: View) -> Iterator["Text"]:
    """A message that the policy was shown."""
    yield styled((message["role"], LABEL))
    yield from block(message["content"], view, ends=SEEN, words=True)


def said(message: Record, program: str | None, view: View) -> Iterator["Text"]:
    """The policy's message: its reasoning dimmed, and where the program stands a word that it follows below."""
    content = message["content"]
    thoughts = [message["reasoning"]] if message.get("reasoning") else []
    begun = _THINK.match(content)
    if begun:
        thoughts.append(begun[1])
        content = content[begun.end() :]
    for thought in thoughts:
        yield styled(("reasoning", LABEL))
        yield from block(thought.strip("\n"), view, DIM, THOUGHT, words=True)
    yield styled((message["role"], LABEL))
    content = _without(content, program).strip()
    if content:
        yield from block(content, view, ends=SAID, words=True)
    for call in message.get("tool_calls", ()):
        function = call.get("function") if isinstance(call.get("function"), dict) else {}
        yield styled((f"  calls {function.get('name')}", "bold"))
        yield from block(_without(_arguments(function.get("arguments")), program), view, ends=SAID)


def _without(text: str, program: str | None) -> str:
    stripped = (program or "").strip()
    if not stripped or stripped not in text:
        return text
    return text.replace(stripped, f"[{count(stripped.count(chr(10)) + 1, 'line')} of code, below]", 1)


def _arguments(arguments: Any) -> str:
    """A tool call's arguments: the protocol has them as JSON in a string, which may be none."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return str(arguments)
    if not isinstance(arguments, dict):
        return json.dumps(arguments)
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    return "\n".join(f"{key}: {text}" for key, text in texts.items())


def listing(program: str, kind: str, before: Mapping[str, tuple[str, str]], view: View) -> Iterator["Text"]:
    """The program; or, where one of its kind came before and that is shorter, what changed."""
    size = count(program.strip("\n").count("\n") + 1, "line")
    name = {"bash": "commands", "cell": "cell"}.get(kind, "code")
    if not view.full and kind in before:
        old, where = before[kind]
        if old.strip() == program.strip():
            yield styled((name, LABEL), f" ({size}): as {where}")
            return
        changed = changes(old, program, view)
        if changed is not None:
            yield styled((name, LABEL), f" ({size}): what changed since {where}")
            yield from changed
            return
    yield styled((name, LABEL), f" ({size})")
    yield from code(program, view, "bash" if kind == "bash" else "python")


def came_of(record: Record, revealed: bool, view: View) -> Iterator["Text"]:
    """What came of a turn: execution or cell, submission, verdicts, help."""
    if record.get("execution"):
        yield from executed(record["execution"], view)
    if record.get("cell"):
        cell = record["cell"]
        lost = "" if cell["alive"] else ", the session ended: what it held is lost"
        yield _ended("session", cell["status"], f", {cell['duration_s']:.1f} s{lost}")
        yield from printed("output", cell["output"], view)
        if record.get("submission"):
            yield styled(("submission", LABEL), f" {record['submission']['bytes']:,} bytes")
    if "validation" in record:
        verdict = record["validation"]
        score = "nothing was handed in" if verdict is None else facts.shown_score(verdict)
        reason = f": {verdict['reason']}" if verdict and verdict.get("reason") else ""
        yield styled(("validation", LABEL), " ", (score, "bold" if verdict and verdict["valid"] else BAD), reason)
    if record.get("grade"):
        who = ("(shown to the agent)", BAD) if revealed else ("(not shown to the agent)", DIM)
        yield styled(("test", LABEL), " ", *graded(record["grade"]), " ", who)
    if record.get("help"):
        yield styled(("help from the ideator", LABEL))
        yield from described(record["help"], view)


def executed(execution: Record, view: View) -> Iterator["Text"]:
    """How a program ended, and what it printed."""
    parts = [] if execution["exit_code"] is None else [f"exit code {execution['exit_code']}"]
    parts.append(f"{execution['duration_s']:.1f} s")
    if execution["peak_memory_mb"] is not None:
        parts.append(f"{execution['peak_memory_mb']:.0f} MB")
    if execution["submission"]:
        parts.append(f"submission of {execution['submission']['bytes']:,} bytes")
    elif execution["submission_problem"]:
        parts.append(f"no submission: {execution['submission_problem']}")
    yield _ended("ran", execution["status"], "".join(f", {part}" for part in parts))
    if "watched" in execution:
        yield styled(("stages", LABEL), f" {', '.join(execution['markers']) or 'none'}")
    for name in ("stdout", "stderr"):
        yield from printed(name, execution[name], view)


def _ended(what: str, status: str, more: str) -> "Text":
    return styled((what, LABEL), " ", (status, GOOD if status == "ok" else BAD), more)


def printed(name: str, output: Record, view: View) -> Iterator["Text"]:
    """An output as the record has it: its beginning, and its end where the record left out what is between."""
    if not output["bytes"]:
        return
    yield styled((name, LABEL), f" ({count(output['bytes'], 'byte')})")
    yield from block(output["head"], view, ends=PRINTED)
    if output["tail"]:
        yield styled(("  … not in the record …", DIM))
        yield from block(output["tail"], view, ends=PRINTED)


def described(told: Any, view: View, name: str = "") -> Iterator["Text"]:
    """An object of texts, each under its name."""
    if isinstance(told, Mapping):
        for key, value in told.items():
            if value is not None:
                yield from described(value, view, f"{name} {key}".strip())
    else:
        if name:
            yield styled((f"  {name.replace('_', ' ')}", "bold"))
        yield from block(told if isinstance(told, str) else json.dumps(told), view, ends=SAID, words=True)
