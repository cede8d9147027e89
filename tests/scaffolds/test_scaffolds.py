"""Scaffold single: what is asked, which ids come of it, and what is read out of an answer."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from scaffold_task import TASK

from mletools.base.errors import ToolError
from mletools.base.options import declarations
from mletools.records import schema
from mletools.rollout.runner import group_jobs
from mletools.scaffolds import SCAFFOLDS, open_scaffold
from mletools.scaffolds.interface import Job, Scaffold
from mletools.scaffolds.memory import Memory, MemorySettings
from mletools.scaffolds.messages import task_prompt
from mletools.scaffolds.reading import split_answer
from mletools.scaffolds.single import Single, SingleSettings

BLOCK = "```python\nprint(1)\n```"


class Replying:
    """An environment whose model has one reply."""

    def __init__(self, **reply: Any):
        self.reply = {
            "text": "", "finish_reason": "stop", "reasoning": None, "tool_calls": [], "prompt_token_ids": None,
            "token_ids": None, "logprobs": None, "prompt_tokens": None, "completion_tokens": None, "seconds": 1.25,
            "usd": None, **reply,
        }  # fmt: skip
        self.asked: list[Any] = []

    def fact(self, name: str) -> str:
        return f"({name})"

    def ask(self, *arguments: Any) -> dict[str, Any]:
        self.asked.append(arguments)
        return self.reply

    def count_tokens(self, *arguments: Any) -> int | None:
        return None


def jobs(**changes: Any) -> list[Job[Any]]:
    task, size, seed = changes.pop("task", TASK), changes.pop("group_size", 2), changes.pop("seed", 0)
    policy = {"model": "m", "version": None, "sampling": {}, **changes.pop("policy", {})}
    scaffold = Single()
    settings = scaffold.check(SingleSettings(**changes))
    return group_jobs(scaffold, "single", settings, task, policy, size, seed)


def rollout(job: Job[Any], **reply: Any) -> dict[str, Any]:
    return next(Single().play(job, Replying(**reply)))  # type: ignore[arg-type]


def test_the_table_of_scaffolds_leads_to_classes_with_settings() -> None:
    for name in SCAFFOLDS:
        scaffold = open_scaffold(name)
        assert declarations(scaffold.settings)
        assert isinstance(scaffold, Scaffold)


def test_the_question_in_brief() -> None:
    assert (
        task_prompt("single-brief", jobs()[0], Replying())
        == "wine: multiclass classification, f1_macro, higher is better."
    )
    lower = {**TASK, "metric": {"name": "pinball", "params": {"alpha": 0.9}, "lower_is_better": True}}
    assert task_prompt("single-brief", jobs(task=lower)[0], Replying()) == (
        "wine: multiclass classification, pinball alpha=0.9, lower is better."
    )


@pytest.mark.parametrize("prompt", ["single", "single-brief"])
def test_no_question_tells_answers_thresholds_or_provenance(prompt: str) -> None:
    question = task_prompt(prompt, jobs()[0], Replying())
    assert "7411" not in question and "741" not in question
    assert "wine" in question and "f1_macro" in question


def test_a_prompt_of_the_user_may_leave_facts_out_but_not_make_them_up(tmp_path: Path) -> None:
    path = tmp_path / "mine.md"
    path.write_text("Solve {{name}}.")
    assert task_prompt(str(path), jobs()[0], Replying()) == "Solve wine."
    path.write_text("Solve {{name}} above {{thresholds}}.")
    with pytest.raises(ToolError) as error:
        task_prompt(str(path), jobs()[0], Replying())
    assert str(error.value) == f"{path}: nothing to put for {{{{thresholds}}}}; known are name"


def test_ids_are_known_beforehand_and_depend_on_what_matters(tmp_path: Path) -> None:
    first, second = jobs()
    assert [first.id, second.id] == [job.id for job in jobs()]
    assert len({first.id, second.id, first.group}) == 3 and first.group == second.group
    assert first.seed != second.seed
    assert [job.id for job in jobs(group_size=3)][:2] == [first.id, second.id]
    path = tmp_path / "mine.md"
    path.write_text("{{name}}")
    changed: list[dict[str, Any]] = [
        {"seed": 1}, {"policy": {"model": "n"}}, {"policy": {"version": 3}}, {"policy": {"sampling": {"top_p": 0.7}}},
        {"prompt": "single-brief"}, {"prompt": str(path)}, {"task": {**TASK, "id": "wine-2"}},
    ]  # fmt: skip
    groups = {jobs(**change)[0].group for change in changed}
    assert len(groups | {first.group}) == len(changed) + 1
    before = jobs(prompt=str(path))[0].id
    path.write_text("{{name}}!")
    assert jobs(prompt=str(path))[0].id != before


def test_a_record_holds_the_exact_tokens_and_passes_its_schema() -> None:
    policy = {"model": "m", "version": 4, "sampling": {"temperature": 0.5, "top_p": 0.9, "max_tokens": 77}}
    job = jobs(policy=policy, max_tokens=77)[1]
    environment = Replying(
        text=f"I guess.\n{BLOCK}", prompt_token_ids=[5, 6], token_ids=[7, 8], logprobs=[-0.5, 0.0],
        prompt_tokens=2, completion_tokens=2,
    )  # fmt: skip
    [record] = Single().play(job, environment)  # type: ignore[arg-type]
    schema.check(record, "rollout")
    assert json.loads(json.dumps(record)) == record
    assert environment.asked == [("policy", "", [{**record["messages"][0]}], job.seed, None, 77)]
    assert record["policy"] == policy
    asked, answered = record["messages"]
    assert (asked["role"], asked["token_ids"], "loss" in asked) == ("user", [5, 6], False)
    assert answered == {
        "role": "assistant", "content": environment.reply["text"], "loss": True, "token_ids": [7, 8], "logprobs": [-0.5, 0.0],
    }  # fmt: skip
    assert record["turns"] == [{"action": "solve", "duration_s": 1.25, "format": {"read": "exact", "rule": None}}]
    assert record["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "seconds": 1.25, "usd": None}
    assert record["usage_by_role"] == {"policy": record["usage"]}
    assert (record["plan"], record["code"], record["stop_reason"]) == ("I guess.", "print(1)\n", "finished")
    assert (record["sample"], record["group_size"], record["lineage"]) == (1, 2, [])


def test_a_record_without_tokens_has_no_empty_lists_and_leaves_the_job_alone() -> None:
    job = jobs()[0]
    before = copy.deepcopy(job)
    record = rollout(job, text="no code", prompt_token_ids=[1])
    schema.check(record, "rollout")
    assert record["messages"][1] == {"role": "assistant", "content": "no code", "loss": True}
    assert (record["code"], record["stop_reason"], record["plan"]) == (None, "format", "no code")
    assert job == before


@pytest.mark.parametrize(
    ("text", "finish", "stop_reason", "code"),
    [
        (BLOCK, "stop", "finished", "print(1)\n"),
        (f"a\n{BLOCK}\nb", "length", "length", "print(1)\n"),
        ("a\n```python\nprint(1)", "length", "length", None),
        ("a\n```python\nprint(1)", "stop", "format", "print(1)\n"),  # read, and not in the exact form
        ("a\n```python\nprint(1", "stop", "format", None),
        ("", "stop", "format", None),
        ("", "length", "length", None),
    ],
)
def test_why_an_answer_ended(text: str, finish: str, stop_reason: str, code: str | None) -> None:
    record = rollout(jobs()[0], text=text, finish_reason=finish)
    assert (record["stop_reason"], record["code"]) == (stop_reason, code)


def test_reasoning_that_a_server_keeps_apart_is_recorded() -> None:
    record = rollout(jobs()[0], text=BLOCK, reasoning="I think.")
    schema.check(record, "rollout")
    assert record["messages"][1]["reasoning"] == "I think."


@pytest.mark.parametrize(
    ("text", "plan", "code"),
    [
        (f"Plan.\n\n{BLOCK}", "Plan.", "print(1)\n"),
        (f"{BLOCK}\nafter", "", "print(1)\n"),
        ("```Python3 title=x\nprint(1)\n```  ", "", "print(1)\n"),
        ("~~~py\nprint(1)\n~~~", "", "print(1)\n"),
        ("```python\r\nprint(1)\r\n```\r\n", "", "print(1)\r\n"),
        # one of another language beside it is no Python
        (f"Run:\n```bash\npip list\n```\n{BLOCK}", "Run:", "print(1)\n"),
        # a longer fence holds a shorter one
        ('````python\ns = """\n```python\n"""\n```\n````', "", 's = """\n```python\n"""\n```\n'),
        # fences within a line, and indented as deep as code
        ("Use ```python```.\n```python\nx = '```'\n    ```\n```", "Use ```python```.", "x = '```'\n    ```\n"),
        # twice the same, two, none, not marked, never closed, empty
        (f"Plan.\n{BLOCK}\n{BLOCK}", "Plan.", "print(1)\n"),
        (f"Plan.\n{BLOCK}\n{BLOCK.replace('1', '2')}", "Plan.", None),
        ("Just words.", "Just words.", None),
        ("Plan.\n```\nprint(1)\n```", "Plan.", "print(1)\n"),
        ("Plan.\n```python\nprint(1)\n``", "Plan.", None),
        (f"{BLOCK}\n```text\nand", "", "print(1)\n"),
        ("```python\n \n```", "", None),
        ("```python\ns = '''\n```\n'''\n```", "", "s = '''\n```\n'''\n"),
        # what a reasoning model thought first
        (f"<think>try\n{BLOCK}\n</think>\nPlan.\n{BLOCK}", "Plan.", "print(1)\n"),
        (f"<think>try\n{BLOCK}\n", "", None),
    ],
)
def test_the_one_block_of_python(text: str, plan: str, code: str | None) -> None:
    assert split_answer(text) == (plan, code)


@pytest.mark.parametrize(
    ("bounds", "more"),
    [
        ({"max_seconds": 1.25, "max_turns": 1}, {}),
        ({"max_tokens": 500, "max_traces": 1}, {"reasoning": "x" * 2000}),
        (
            {"max_tokens": 500, "max_traces": 1},
            {"tool_calls": [{"id": "a", "name": "request_info", "arguments": json.dumps({"what": "x" * 2000})}]},
        ),
    ],
    ids=["no time is left", "reasoning", "calls"],
)
def test_traces_end_with_what_is_used_up(bounds: dict[str, Any], more: dict[str, Any]) -> None:
    """Also where exactly nothing is left, and where a server counts no tokens."""
    place = Replying(text="" if "tool_calls" in more else "<request_info>metric</request_info>", **more)
    settings = MemorySettings(reset_ratio=1.0, tool_calls="openai", **bounds)
    policy: Any = {"model": "m", "version": None, "sampling": {}}
    (made,) = Memory().play(Job("a", "b", 1, 0, 7, TASK, policy, "memory", settings), place)  # type: ignore[arg-type]
    assert len(made["turns"]) == 1  # type: ignore[index]


@pytest.mark.slow
def test_a_group_improves_on_one_earlier_solution(stages: dict[str, Any], tmp_path: Path) -> None:
    tasks, pool = str(stages["tasks"]), str(stages["executed"])
    command = ("mle-rollout", "-g", "3", "--pool", pool, "--data", str(stages["folder"]), tasks)
    improved = records(run_command(*command, "--improve-ratio", "1").stdout)
    executed = {record["id"]: record for record in records(stages["executed"].read_bytes())}
    assert len(improved) == 6
    for record in improved:
        earlier = executed[record["state"]["rollout"]]
        assert earlier["task"]["id"] == record["task"]["id"]
        assert earlier["execution"]["status"] == "ok"
        asked = record["messages"][0]["content"]
        assert earlier["code"].strip() in asked
        assert record["turns"][0]["action"] == "improve"
    by_group = {record["group"]: record["messages"][0]["content"] for record in improved}
    assert len(by_group) == 2
    assert all(by_group[record["group"]] == record["messages"][0]["content"] for record in improved)
    # a share of 0 asks as if there were no pool
    plain = records(run_command(*command, "--improve-ratio", "0").stdout)
    alone = run_command("mle-rollout", "-g", "3", "--data", str(stages["folder"]), tasks)
    assert [r["id"] for r in plain] == [r["id"] for r in records(alone.stdout)]
    assert not any("state" in record for record in plain)


def test_half_of_the_tasks_improve(stages: dict[str, Any]) -> None:
    task = records(stages["executed"].read_bytes())[0]["task"]
    settings = SingleSettings(pool=(str(stages["executed"]),))
    scaffold = Single()
    scaffold.check(settings)
    drawn = [scaffold.start(task, settings, seed)[1] is not None for seed in range(400)]
    assert 160 < sum(drawn) < 240


@pytest.mark.parametrize("option", ["--improve-ratio=0.5", "--pool-newest=3"])
def test_an_option_about_a_pool_without_one_is_a_usage_error(option: str) -> None:
    done = run_command("mle-rollout", option, check=False)
    assert done.returncode == 2
    assert b"--pool FILE holds executed rollouts" in done.stderr
