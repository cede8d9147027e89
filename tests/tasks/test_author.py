"""The scripted author: its replies pass the roles' readers; with seeds and a sandbox, tasks come out."""

import json

import pytest
from conftest import records, run_command

from mletools import prompts
from mletools.base.errors import ToolError
from mletools.models import Request
from mletools.simulated import author
from mletools.tasks.roles.replies import code_of, json_of
from mletools.tasks.roles.specification import read_specification


def ask(role, prompt):
    return author.reply(Request([{"role": "user", "content": prompt}], 3, role=role))


@pytest.mark.parametrize("at", range(len(author.STORIES)))
def test_every_story_makes_a_specification_and_a_script(at):
    scenario = json_of(ask("strategist.scenarios", ""), list)[at]
    prompt = prompts.render(
        "task-specification",
        dna="{}",
        scenario=json.dumps(scenario),
        mutations="[]",
        rows="60",
        modalities="",
        metrics="",
    )
    wanted = read_specification(json_of(ask("strategist.specification", prompt), dict), 60)
    assert wanted.columns == [author.STORIES[at][4][0]] and len(wanted.features) == 4
    code = code_of(ask("developer", f"```json\n{wanted.text}\n```"))
    assert "total, tested = 60, round(60 / 6)" in code and all(name in code for name in wanted.features)


def test_an_unknown_role_and_prompt_are_refused():
    with pytest.raises(ToolError, match="no author for the role"):
        ask("strategist.poem", "")
    with pytest.raises(ToolError, match="does not know this prompt"):
        ask("evaluator", "")


@pytest.mark.slow
def test_the_scripted_author_makes_tasks_offline(tmp_path):
    made = run_command(
        "mle-gen-task", "--source", "sklearn:iris", "--backend", "none", "-o", "seeds.jsonl", cwd=tmp_path
    )
    assert made.returncode == 0, made.stderr
    made = run_command(
        "mle-gen-task",
        "--source",
        "llm",
        "--seeds",
        "seeds.jsonl",
        "-m",
        "scripted",
        "-n",
        "2",
        "-o",
        "t.jsonl",
        cwd=tmp_path,
    )
    assert made.returncode == 0, made.stderr
    tasks = records((tmp_path / "t.jsonl").read_bytes())
    assert len(tasks) == 2 and all(task["provenance"]["attempts"][-1]["error"] is None for task in tasks)
    shown = run_command("mle-gen-task", "--describe", "t.jsonl", cwd=tmp_path)
    assert shown.returncode == 0 and "mutation label noise" in shown.stdout.decode()
