"""A turn of a rollout: what the policy saw, what it wrote, the program or what changed in it, and what came of it.

Of a node of a search also what was thought before its program, and what was learnt from it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..turns import Turn
from . import facts
from .header import graded, rank_of
from .lines import BAD, DIM, GOOD, LABEL, View, block, changes, code, count, folded, styled

if TYPE_CHECKING:
    from rich.text import Text

Record = Mapping[str, Any]
SEEN, SAID, THOUGHT, PRINTED, BRIEF = (6, 4), (30, 10), (8, 4), (12, 12), (4, 2)  # first and last lines that are shown
_THINK = re.compile(r"\s*<think>(.*?)(?:</think>|\Z)", re.DOTALL)
PROBLEMS = {
    "length": "the message was cut off",
    "missing": "the message takes no action",
    "several": "the message takes more than one action",
    "malformed": "the action cannot be read",
    "unknown": "there is no such action",
    "unanswered": "the models' answers cannot be read",
    "no_code": "the answer holds no program",
    "debug": "no run on a part of the rows succeeded",
    "slow": "the full run would take too long",
    "failed": "the program failed, or handed nothing in",
    "invalid": "the submission cannot be scored",
    "inauthentic": "the submission is not a model's prediction",
    "no_score": "the search has no score to compare",
}


def turn(rollout: Record, this: Turn, view: View) -> Iterator["Text"]:
    """The lines of one turn."""
    record, program = this.record, this.program
    if record.get("dropped"):
        yield styled((f"no longer seen by the agent: messages {_ranges(record['dropped'])}", "yellow"))
    if this.message is not None:
        for place in this.seen:
            yield from seen(rollout["messages"][place], view)
        yield from said(rollout["messages"][this.message], program, view)
    if record.get("node"):
        yield from thought(record["node"], view)
    if problem := record.get("problem"):
        yield styled((f"problem: {problem}", BAD), (f", {PROBLEMS.get(problem, 'see its message')}", BAD))
    if (record.get("format") or {}).get("read") == "lenient":
        yield styled((f"read leniently: {record['format']['rule']}", "yellow"))
    if program is not None:
        yield from listing(program, this.kind, this.earlier, view)
    yield from folded(came_of(record, bool(rollout.get("reveal_test")), rank_of(rollout), view), view)
    if record.get("node"):
        yield from learnt(record["node"], view)


def _ranges(places: Sequence[int]) -> str:
    """`2-5, 8`"""
    runs = [[place for _, place in run] for _, run in groupby(enumerate(sorted(places)), lambda at: at[1] - at[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


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
        yield from folded([styled((f"  calls {function.get('name')}", "bold"))], view)
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


def listing(program: str, kind: str, earlier: tuple[str, str] | None, view: View) -> Iterator["Text"]:
    """The program; or, if that is shorter, what changed since the `earlier` one (and where that stands)."""
    size = count(program.strip("\n").count("\n") + 1, "line")
    name = {"bash": "commands", "cell": "cell"}.get(kind, "code")
    if not view.full and earlier is not None:
        old, where = earlier
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


def came_of(record: Record, revealed: bool, rank: str, view: View) -> Iterator["Text"]:
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
        score, colon, reason = facts.validated(verdict).partition(":")
        yield styled(
            ("validation", LABEL), " ", (score, "bold" if verdict and verdict["valid"] else BAD), colon + reason
        )
    if record.get("grade"):
        who = ("(shown to the agent)", BAD) if revealed else ("(not shown to the agent)", DIM)
        yield styled(("test", LABEL), " ", *graded(record["grade"], rank), " ", who)
    if record.get("help"):
        yield styled(("help from the ideator", LABEL))
        yield from described(record["help"], view)


def executed(execution: Record, view: View) -> Iterator["Text"]:
    """How a program ended, and what it printed."""
    code, memory, submission = (execution[name] for name in ("exit_code", "peak_memory_mb", "submission"))
    parts = (
        "" if code is None else f"exit code {code}",
        f"{execution['duration_s']:.1f} s",
        "" if memory is None else f"{memory:.0f} MB",
        f"submission of {submission['bytes']:,} bytes" if submission else "",
        f"no submission: {execution['submission_problem']}"
        if execution["submission_problem"] and not submission
        else "",
    )
    yield _ended("ran", execution["status"], "".join(f", {part}" for part in parts if part))
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


# --- a turn that is a node of a search ------------------------------------------------------------------------------


def thought(node: Record, view: View) -> Iterator["Text"]:
    """Its place in the graph, its hypothesis and where that came from, and the runs ahead of the last."""
    parents = f"from {_numbers(node['parents'])}" if node["parents"] else "from nothing"
    places = (f"{name} {node[name]}" for name in ("branch", "depth", "round", "stage") if node.get(name) is not None)
    repairs = f", repair {node['repairs']}" if node.get("repairs") else ""
    place = f" {node['number']} {parents}, {', '.join(places)}{repairs}"
    yield from folded([styled(("node", LABEL), place)], view)
    if node.get("challenges"):
        yield styled(("challenges", LABEL))
        for text in node["challenges"]:
            yield from block(f"- {text}", view, ends=BRIEF, words=True)
    how = f", {node['action']}" if node.get("action") else ""
    yield from folded([styled(("hypothesis", LABEL), f"{_about(node)}{how}")], view)
    yield from block(node["hypothesis"], view, ends=SAID, words=True)
    if node.get("challenge"):
        yield from folded([styled(("against the challenge", LABEL))], view)
        yield from block(node["challenge"], view, ends=BRIEF, words=True)
    considered = node.get("considered") or ()
    if considered:
        yield styled(("considered", LABEL), f" {len(considered)}")
    for each in considered:
        yield from folded([styled(f" {_about(each)}")], view)
        yield from block(each["text"], view, ends=BRIEF, words=True)
    if node.get("recalled"):
        yield from folded([styled(("recalled", LABEL), f" {_numbers(node['recalled'])}")], view)
    yield from folded((_trial(trial) for trial in node.get("trials") or ()), view)


def learnt(node: Record, view: View) -> Iterator["Text"]:
    """What the search goes by, the lesson, and what the node cost by phase."""
    if node.get("why"):
        yield styled(("why not", LABEL))
        yield from block(node["why"], view, ends=SAID, words=True)
    yield styled(("score", LABEL), " ", (facts.number(node["score"]), "bold"))
    if node.get("lesson"):
        yield styled(("lesson", LABEL))
        yield from block(node["lesson"], view, ends=SAID, words=True)
    yield from folded(
        (styled((str(phase), LABEL), f" {facts.spent(used)}") for phase, used in (node.get("cost") or {}).items()), view
    )


def _about(hypothesis: Record) -> str:
    """` [Model] impact 7, novelty 3`"""
    scores = ", ".join(
        f"{axis.replace('_', ' ')} {value:g}" for axis, value in (hypothesis.get("scores") or {}).items()
    )
    component = hypothesis.get("component")
    return (f" [{component}]" if component else "") + (f" {scores}" if scores else "")


def _trial(trial: Record) -> "Text":
    what = "debug run" if trial.get("debug") else "run"
    status, problem = trial.get("status"), trial.get("problem")
    estimated, took = trial.get("estimated_s"), trial.get("duration_s")
    more = "" if took is None else f", {took:.1f} s"
    more += "" if estimated is None else f", the whole would take {estimated:.1f} s"
    more += f", {problem}" if problem else ""
    style = GOOD if status == "ok" and not problem else "yellow"
    return styled((what, LABEL), " ", (str(status), style), more)


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
