"""mle-rollout where the metric is code that fails on what an agent hands in: the agent is told, no rollout is lost."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_slow, records, run_command
from model_server import FaultyServer
from played import (
    ENDS,
    FINISHES,
    SCORES,
    Answer,
    cell,
    command,
    executes,
    fenced,
    in_steps,
    made_task,
    program,
    runs,
)
from played_checks import graded
from test_search_command import search, searching

from mletools.tasks.folder import private_digest

# As an MLE-bench grade.py.
TRUSTING = """
from sklearn.metrics import mean_absolute_error

def grade(submission, answers):
    both = submission.merge(answers, on="id", suffixes=("", "_true"))
    return mean_absolute_error(both["y_true"], both["y"])
"""
BROKEN = "def grade(submission, answers):\n    raise RuntimeError('a bug, and the answers are ' + str(list(answers.y)))"
HAND_INS = ("nan", "abc", "inf")  # cells on which the metric fails


def coded(folder: Path, source: str, parse: str) -> dict[str, Any]:
    """The played task, graded by code; the record says `parse` of the cells."""
    task = made_task(folder, "mill_0")
    root = folder / task["data"]["dir"]
    (root / "private/grade.py").write_text(source)
    task["metric"] = {"file": "private/grade.py", "style": "function", "lower_is_better": True}
    task["submission"]["parse"] = parse
    task["data"]["private_digest"] = private_digest(root, task)
    (folder / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    return task


def spoilt(value: str) -> str:
    """A program whose submission has `value` in each cell."""
    return (
        program(2.5)
        + f"""
rows = list(csv.DictReader(open('submission.csv')))
with open('submission.csv', 'w') as out:
    out.write('id,y\\n')
    out.writelines(row['id'] + ',{value}\\n' for row in rows)
"""
    )


RENAMED = program(2.5).replace("id,y", "id,z")


@pytest.mark.parametrize("parse", mostly_slow(["text", "number"], 0))
def test_react_goes_on_after_a_submission_on_which_the_metric_fails(tmp_path: Path, parse: str) -> None:
    coded(tmp_path, TRUSTING, parse)
    bad = [spoilt(value) for value in HAND_INS] + [RENAMED]
    turns = [each for code in bad for each in (runs(code), SCORES)]
    script = in_steps([*turns, runs(program(2.9)), SCORES, runs(bad[0]), ENDS])
    with FaultyServer(script) as server:
        done = run_command(
            *command(server, "react", "--max-turns", "20", "--hand-in", "last", "--max-rejects", "9"), cwd=tmp_path
        )
    (rollout,) = records(done.stdout)
    scored = [turn["validation"] for turn in rollout["turns"] if turn["action"] == "score"]
    assert [each["valid"] for each in scored] == [False] * len(bad) + [True]
    fails = "the metric fails on this file (ValueError), though it scores the sample submission"
    expected = ["not a finite number" if parse == "number" else fails] * len(HAND_INS)
    for verdict, reason in zip(scored, [*expected, "column 'y' is missing"], strict=False):
        assert reason in verdict["reason"]
    told = "\n".join(message["content"] for message in rollout["messages"])
    assert ("submission.csv is invalid: the metric fails on this file (ValueError)" in told) == (parse == "text")
    assert "Traceback" not in told and "Input contains" not in told
    (after,) = graded(tmp_path, [rollout])
    assert after["grade"]["valid"] is False and after["reward"] == pytest.approx(0.1)
    assert ("metric_error" in after["grade"]) == (parse == "text")


SCAFFOLDS: dict[str, Answer] = {
    "codeact": in_steps([cell(spoilt("nan")), cell(program(2.9)), FINISHES]),
    "memory": in_steps([executes(spoilt("nan")), executes(program(2.9))]),
    "improve": lambda body: fenced(spoilt("nan")),
    "react": in_steps([runs(spoilt("nan")), SCORES, ENDS]),
}


@pytest.mark.parametrize("scaffold", mostly_slow(SCAFFOLDS, 0))
def test_every_scaffold_goes_on(tmp_path: Path, scaffold: str) -> None:
    coded(tmp_path, TRUSTING, "text")
    options = ("--max-turns", "3", *(("--max-traces", "1") if scaffold == "memory" else ()))
    with FaultyServer(SCAFFOLDS[scaffold]) as server:
        asked = [each for each in command(server, scaffold, *options) if each != "-q"]
        done = run_command(*asked, cwd=tmp_path)
    made = records(done.stdout)
    assert made and "on which the metric fails" in done.stderr.decode()
    verdicts = [turn["grade"] for each in made for turn in each["turns"] if turn.get("grade")]
    assert any("metric_error" in each for each in verdicts) or scaffold == "react"


@pytest.mark.parametrize("scaffold", mostly_slow(["react", "codeact"], 1))
def test_a_metric_that_is_broken_stays_an_error(tmp_path: Path, scaffold: str) -> None:
    coded(tmp_path, BROKEN, "text")
    play = in_steps([runs(program(2.9)) if scaffold == "react" else cell(program(2.9)), ENDS])
    with FaultyServer(play) as server:
        done = run_command(*command(server, scaffold, "--max-turns", "3"), cwd=tmp_path, check=False)
    assert done.returncode == 1 and b"kind" not in done.stdout
    assert "the metric private/grade.py failed: Traceback" in done.stderr.decode()
    assert "it scores no submission that is known to be good" in done.stderr.decode()


@pytest.mark.slow
def test_a_search_goes_on(tmp_path: Path) -> None:
    coded(tmp_path, TRUSTING, "text")
    number = "float(row['x'])!r}"

    def developing(body: dict[str, Any]) -> str:
        return searching(body).replace(number, f"float('nan') * {number}")

    with FaultyServer(developing) as server:
        done = run_command(*(each for each in search(server, "aide", 4) if each != "-q"), cwd=tmp_path)
    (rollout,) = records(done.stdout)
    reasons = [turn["grade"]["reason"] for turn in rollout["turns"] if turn.get("grade")]
    assert reasons and all(each.startswith("the metric fails on this file (ValueError)") for each in reasons)
    assert f"{len(reasons)} submissions on which the metric fails" in done.stderr.decode()
