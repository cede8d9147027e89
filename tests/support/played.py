"""A small made task with tell-tale answers, programs for it, and policies that are played by script on a server.

The programs import little and finish at once. Every answer, threshold and score of the task is a number that occurs
nowhere else, so that a test can search for it.
"""

import csv
import io
import json
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import records, run_command
from model_server import FaultyServer

from mletools.tasks.folder import ANSWERS
from mletools.tasks.record import Parts, finish

THRESHOLDS = {"median": 9.87651, "bronze": 6.54321, "silver": 3.21987, "gold": 0.76543}
TRAINED, TESTED = 30, 15
FAST = ("--preimport", "", "--data", ".", "-q")
Answer = Callable[[dict[str, Any]], str | dict[str, Any]]


def _measured(number: int, shift: int) -> tuple[float, float]:
    """(x, y) of a row: y is about 3 x, and off by something that is no other row's."""
    x = 1 + (number * 37 + shift * 11) % 50
    return float(x), round(3 * x + ((number * 7919 + shift * 104729) % 99991) / 31013 - 1.5, 5)


def made_task(data: Path, name: str = "mill", shift: int = 0) -> dict[str, Any]:
    """A regression task below `data`: y is about 3 x, scored by the mean absolute error."""
    train = [(number, *_measured(number, shift)) for number in range(1, TRAINED + 1)]
    test = [(number, *_measured(number, shift)) for number in range(501, 501 + TESTED)]
    public = {
        "train.csv": _table(("id", "x", "y"), train),
        "test.csv": _table(("id", "x"), [row[:2] for row in test]),
        "sample_submission.csv": _table(("id", "y"), [(row[0], 0) for row in test]),
    }
    teams = [(f"team {place}", round(0.54321 + place * 1.23457, 5)) for place in range(9)]
    private = {
        ANSWERS: _table(("id", "y"), [(row[0], row[2]) for row in test]),
        "private/leaderboard.csv": _table(("team", "score"), teams),
    }
    grading = {
        "submission": {"id": ["id"], "target": ["y"], "parse": "number", "rows": TESTED},
        "metric": {"name": "mae", "params": {}, "lower_is_better": True},
        "answers": ANSWERS,
        "leaderboard": "private/leaderboard.csv",
        "thresholds": THRESHOLDS,
    }
    told = f"# The {name}\n\nPredict y from x for each row.\n"
    origin = {"source": "test", "seed": shift}
    return finish(Parts(name, told, "tabular", "regression", public, private, grading, origin), data, (name, shift))


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([names, *rows])
    return out.getvalue().encode()


def write_tasks(data: Path, number: int = 1) -> list[dict[str, Any]]:
    """Some tasks below `data`, and their records in data/tasks.jsonl."""
    tasks = [made_task(data, f"mill_{shift}", shift) for shift in range(number)]
    (data / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return tasks


def program(slope: float, more: str = "") -> str:
    """A program that predicts slope * x, and runs `more` before that."""
    return (
        f"import csv\n{more}\n"
        "rows = list(csv.DictReader(open('input/test.csv')))\n"
        "with open('submission.csv', 'w') as out:\n"
        "    out.write('id,y\\n')\n"
        f"    out.writelines(f\"{{row['id']}},{{{slope} * float(row['x'])!r}}\\n\" for row in rows)\n"
        f"print('slope', {slope})\n"
    )


def table_of(path: Path) -> list[list[str]]:
    """The rows of a CSV file, without the first."""
    with path.open() as file:
        return list(csv.reader(file))[1:]


def score_by_hand(path: Path, slope: float) -> float:
    """The mean absolute error of slope * x on the rows of an answers file, rounded as the grader does."""
    shift = int(re.search(r"mill_(\d+)", str(path))[1])  # type: ignore[index]
    errors = [abs(slope * _measured(int(id), shift)[0] - float(y)) for id, y in table_of(path)]
    return round(statistics.fmean(errors), 5)


def test_score(data: Path, task: Mapping[str, Any], slope: float) -> float:
    return score_by_hand(data / task["data"]["dir"] / ANSWERS, slope)


def validation_score(data: Path, task: Mapping[str, Any], slope: float, share: str = "0.2") -> float:
    return score_by_hand(data / f"views/{task['id']}-{share}" / "private/validation.csv", slope)


test_score.__test__ = False  # type: ignore[attr-defined]


# ---- policies


def step_of(body: Mapping[str, Any]) -> int:
    """How many messages of the policy there have been: the last one says its number, as `in_steps` has it say."""
    said = [message for message in body["messages"] if message["role"] == "assistant"]
    found = re.search(r"step (\d+)\b", said[-1]["content"] or "") if said else None
    return int(found[1]) if found else len(said)


def in_steps(texts: Sequence[str | dict[str, Any]], last: str | dict[str, Any] | None = None) -> Answer:
    """A policy that says the texts one after the other, each with its number, then always `last` (or the last one)."""

    def answer(body: dict[str, Any]) -> str | dict[str, Any]:
        step = step_of(body)
        said = texts[step] if step < len(texts) else last if last is not None else texts[-1]
        if isinstance(said, dict):
            made = said.get("tool_calls", ())
            calls = [{**each, "id": each["id"] or f"call{step:04}{at}"} for at, each in enumerate(made)]
            text = numbered(said.get("content") or "", step + 1)
            return {**said, "content": text, **({"tool_calls": calls} if calls else {})}
        return numbered(said, step + 1)

    return answer


def numbered(text: str, step: int) -> str:
    return text.replace("<think>", f"<think>step {step} ", 1) if "<think>" in text else f"step {step}\n{text}"


def runs(code: str) -> str:
    """react: run a program."""
    return f"<think>to run</think>\n<tool_call>\npython\n<code>\n{code}</code>\n</tool_call>"


THOUGHTLESS = runs(program(2.4)).replace("<think>to run</think>\n", "")
SCORES = '<think>to score</think>\n<tool_call>\n{"name": "Score", "arguments": {"competition_id": "x"}}\n</tool_call>'
ENDS = "<think>to end</think>\n<answer>submission</answer>"


def cell(code: str) -> str:
    """codeact: run Python in the session."""
    return f"<execute_ipython>\n{code}\n</execute_ipython>"


HELP = "<seek_help>\nPROBLEM_STATEMENT:\nit is poor\n\nATTEMPTS_SO_FAR:\n- a line\n\nGOAL:\na better line\n</seek_help>"
FINISHES = "<finish></finish>"
IDEA = "ANALYSIS_ON_CURRENT_PROGRESS:\nthe slope is off\n\nACTION:\ntake another slope\n\nRATIONALE:\nit fits better"


def executes(code: str) -> str:
    """memory: run a program and hand in."""
    return f"<execute_code>\n{code}</execute_code>"


def fenced(code: str) -> str:
    """improve, and an implementer: a plan and a program."""
    return f"A plan. In two. Sentences.\n\n```python\n{code}```"


def call(name: str, id: str = "", **arguments: Any) -> dict[str, Any]:
    """A message that calls a tool; without an id it gets the one that an episode gives it, as if the server had."""
    return {"content": "", "tool_calls": [tool_call(name, json.dumps(arguments), id)]}


def tool_call(name: str, arguments: str, id: str = "") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def by_task(policies: Mapping[str, Answer]) -> Answer:
    """A policy for each task, by its name."""

    def answer(body: dict[str, Any]) -> str | dict[str, Any]:
        text = "".join(message["content"] or "" for message in body["messages"][:2])
        return policies[re.search(r"mill_\d+", text)[0]](body)  # type: ignore[index]

    return answer


def by_model(policies: Mapping[str, Answer]) -> Answer:
    """A policy for each model, by its name."""
    return lambda body: policies[body["model"]](body)


# ---- running


def command(server: FaultyServer | str, scaffold: str, *options: str, tasks: str = "tasks.jsonl") -> list[str]:
    """The command line that plays a policy of `server` on tasks of the working folder."""
    url = server if isinstance(server, str) else server.url
    return ["mle-rollout", "--scaffold", scaffold, "-m", "played", "--model-url", url, *FAST, *options, tasks]


@dataclass(frozen=True)
class Played:
    """A run that is over: its folder, its tasks by name, its records and what the server was asked."""

    folder: Path
    tasks: dict[str, dict[str, Any]]
    records: list[dict[str, Any]]
    requests: list[dict[str, Any]]

    def of(self, name: str) -> dict[str, Any]:
        """The only record of the task with that name."""
        (found,) = [record for record in self.records if record["task"]["name"] == name]
        return found


def play(
    server: FaultyServer, scaffold: str, folder: Path, tasks: Sequence[Mapping[str, Any]], *options: str
) -> Played:
    """Run `command` in `folder`, where the tasks lie."""
    output = run_command(*command(server, scaffold, *options), cwd=folder).stdout
    return Played(folder, {task["name"]: dict(task) for task in tasks}, records(output), list(server.requests))


# ---- what they play

SLOPES = (2.5, 2.6, 2.7, 2.8, 2.9, 2.95)


def improving(body: dict[str, Any]) -> str:
    """The next better slope than any that is told of: in a memory trace, than the one that it begins from."""
    text = "".join(message["content"] for message in body["messages"])
    known = [float(found) for found in re.findall(r"slope (\d\.\d+)\b", text)]
    better = [slope for slope in SLOPES if slope > max(known, default=0)]
    return executes(program(better[0] if better else 2.0))


SESSION = ["slope = 2.5", "slope += 0.2\nprint('slope now', slope)", "slope += 0.2\nprint('slope now', slope)"]
# A policy of each scaffold, and the options that bring out what it can do.
PLAYS: dict[str, tuple[Answer, tuple[str, ...]]] = {
    "react": (in_steps([runs("1 / 0\n"), runs(program(2.5)), SCORES, runs(program(2.9)), SCORES, ENDS]), ("-g", "2")),
    "codeact": (
        by_model({
            "played": in_steps([*map(cell, SESSION), HELP, cell(program("slope")), FINISHES]),  # type: ignore[arg-type]
            "adviser": lambda body: IDEA,
        }),
        ("-g", "2", "--ideator", "adviser", "--write-states", "states.jsonl"),
    ),
    "memory": (improving, ("--max-traces", "3", "--max-turns", "3", "--reset-ratio", "0.3")),
    "improve": (lambda body: fenced(program(2.9 if "so far" in body["messages"][0]["content"] else 2.5)), ("-g", "2")),
}  # fmt: skip

# Looks for numbers wherever a program may get to, and prints them.
SEARCH = """
import os, re, sys
found = set()
def look(path):
    try:
        with open(path, "rb") as file:
            text = file.read(1 << 20).decode("utf-8", "replace")
    except OSError:
        return
    found.update(re.findall(r"(?<![0-9.])[0-9]{1,3}\\.[0-9]{3,6}(?![0-9.])", text))
for root in ("input", "..", "/", "/tmp", "/code", "/proc/self/root", "/proc/1/root", "/proc/1/cwd", "/proc/self/cwd"):
    for folder, folders, files in os.walk(root):
        folders[:] = [each for each in folders if each not in ("usr", "lib", "lib64", "proc", "sys", "dev", "bin", "sbin")]
        for name in files:
            if name.endswith((".csv", ".json", ".jsonl", ".tape", ".partial", ".txt", ".md")) or "answer" in name:
                look(os.path.join(folder, name))
for pid in [each for each in os.listdir("/proc") if each.isdigit()]:
    for name in ("environ", "cmdline", "maps"):
        look(f"/proc/{pid}/{name}")
print(sorted(found))
"""
