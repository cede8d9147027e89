"""What results rest on: of a rollout, of a set, as text, in JSON and on the page."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command
from report_builders import a_set, rollout, rows
from shown_rollouts import EXECUTION

from mletools.reports.disclosure import described, facts_of
from mletools.reports.summary import summaries
from mletools.reports.tables import report

MACHINE = {"cpu": "AMD EPYC 9654", "cores": 2, "memory_gb": 24, "gpu": None}
LIMITS = {
    "wall_s": 120.0, "cpu_s": None, "memory_mb": 2048, "processes": 64, "file_mb": 64, "disk_mb": 256, "output_kb": 1024,
    "submission_mb": 32, "threads": 1,
}  # fmt: skip
SETTINGS = {"max_turns": 15, "max_seconds": 1200.0, "max_tokens": 32768, "max_usd": None, "execution_seconds": 300.0}


def ran(sample: int = 0, **more: Any) -> dict[str, Any]:
    """A graded rollout whose program ran; `machine` and other fields of its execution."""
    fields = {name: more.pop(name) for name in ("machine", "gpu", "backend", "limits") if name in more}
    execution = {**EXECUTION, "limits": LIMITS, "machine": MACHINE, **fields}
    return rollout("a", sample, 0.5, execution=execution, **more)


def told(*rollouts: dict[str, Any]) -> dict[str, str]:
    return dict(described(summaries([a_set("x", *rollouts)])))


def test_a_rollout_says_what_it_rests_on() -> None:
    one = ran()
    one["policy"] = {
        "model": "m", "version": 3, "sampling": {"temperature": 0.0, "top_p": None, "options": {"k": 1}, "max_tokens": 9},
    }  # fmt: skip
    assert told(one) == {
        "rollouts": "1 on 1 task",
        "hardware": "AMD EPYC 9654, 2 cores, 24 GB of memory, no GPU",
        "sandbox": "local, 120 s a run, 2048 MB of memory, 256 MB of disk, 64 processes, 1 thread",
        "test feedback": "not shown",
        "agent": "single",
        "budget per rollout": "1 message",
        "models": 'policy m (temperature 0.0, options {"k": 1}, max_tokens 9)',
        "version of the policy": "3",
        "seed": "0",
        "mletools": "0.1.0",
    }


def test_an_agent_in_turns_says_its_budget_and_its_other_models() -> None:
    """Its last run may have had less than a run has: what was left of the episode."""
    own = {"ideator": "o3", "implementer": None}
    one = ran(
        scaffold="codeact", settings={**SETTINGS, "own": own}, limits={**LIMITS, "wall_s": 17.5}, reveal_test=True
    )
    facts = told(one)
    assert facts["sandbox"].startswith("local, 300 s a run, ") and facts["test feedback"] == "shown"
    assert facts["budget per rollout"] == "15 messages, 1200 s, 32768 tokens sampled"
    assert (facts["agent"], facts["models"]) == ("codeact", "ideator o3; policy scripted")


def test_a_search_says_its_preset_and_its_budget() -> None:
    one = ran(scaffold="search", settings={**SETTINGS, "own": {}})
    facts = facts_of({**one, "search": {"preset": "aide", "budget": {"seconds": 43200.0, "nodes": 500, "usd": None}}})  # type: ignore[typeddict-item]
    assert (facts["agent"], facts["budget"]) == (("search, preset aide",), ("500 nodes, 43200 s",))


@pytest.mark.parametrize(
    ("more", "hardware"),
    [
        ({"machine": {**MACHINE, "cores": 1, "memory_gb": None}}, "AMD EPYC 9654, 1 core, no GPU"),
        (
            {"machine": {**MACHINE, "gpu": "NVIDIA L4"}, "gpu": "0"},
            "AMD EPYC 9654, 2 cores, 24 GB of memory, NVIDIA L4",
        ),
        ({"gpu": "0"}, "AMD EPYC 9654, 2 cores, 24 GB of memory, a GPU of unknown model"),
        ({"machine": None, "backend": None}, "no program ran"),
        ({"machine": None}, "not recorded"),
    ],
)
def test_hardware_in_words(more: dict[str, Any], hardware: str) -> None:
    assert told(ran(**more))["hardware"] == hardware


def test_older_records_and_those_of_other_tools_have_it_not_recorded() -> None:
    old = ran()
    del old["execution"]["machine"]
    assert told(old)["hardware"] == "not recorded"
    bare = {**rollout("a", 0, 0.5), "lineage": []}
    bare["policy"] = {**bare["policy"], "version": None}
    facts = told(bare)
    for name in ("hardware", "sandbox", "version of the policy", "seed", "mletools"):
        assert facts[name] == "not recorded", name


def test_values_that_differ_are_listed_with_counts_the_most_frequent_first() -> None:
    runs = [ran(n, run_seed=n // 3, machine=MACHINE if n else None) for n in range(4)]
    facts = told(*runs)
    assert facts["hardware"] == "AMD EPYC 9654, 2 cores, 24 GB of memory, no GPU (3); not recorded (1)"
    assert (facts["seed"], facts["test feedback"], facts["rollouts"]) == (
        "0 (3); 1 (1)",
        "not shown",
        "4 on 1 task",
    )
    many = [ran(n, run_seed=n) for n in range(7)]
    for n, one in enumerate(many):
        one["policy"] = {"model": f"m{n}", "version": 2 * n, "sampling": {}}
    facts = told(*many)
    assert facts["seed"] == "7 values from 0 to 6" and facts["version of the policy"] == "7 values from 0 to 12"
    assert facts["models"] == "policy m0 (1); policy m1 (1); policy m2 (1); policy m3 (1); 3 more"


def test_sets_that_differ_are_named() -> None:
    sets = [a_set("before", ran(run_seed=1)), a_set("after", ran(run_seed=2), ran(1, run_seed=2))]
    facts = dict(described(summaries(sets)))
    assert (facts["seed"], facts["agent"]) == ("before: 1; after: 2", "single")
    assert facts["rollouts"] == "before: 1 on 1 task; after: 2 on 1 task"


def test_the_row_of_all_has_it_as_record() -> None:
    found = rows([a_set("x", ran(), ran(1, machine=None))])
    assert "disclosure" not in found["a", "x"]
    record = found["all", "x"]["disclosure"]
    assert record["tasks"] == 1 and record["test_feedback"] == {"not shown": 2} and record["seed"] == {"0": 2}
    hardware = {"AMD EPYC 9654, 2 cores, 24 GB of memory, no GPU": 1, "not recorded": 1}
    assert record["hardware"] == hardware


def test_text_and_markdown_end_with_it_and_csv_does_not() -> None:
    found = summaries([a_set("x", ran())])
    text, markdown, csv = (report(found, form) for form in ("text", "markdown", "csv"))
    ends = text.split("\n\n")[-1].split("\n")
    assert ends[0] == "These results rest on:" and ends[1] == "rollouts: 1 on 1 task" and len(ends) == 11
    assert markdown.split("\n\n")[-1].split("\n")[1:] == [f"- {line}" for line in ends[1:]]
    assert "rest on" not in csv


def test_the_command_prints_it_and_the_page_shows_it(tmp_path: Path) -> None:
    hostile = ran(machine={**MACHINE, "cpu": "<script>alert(1)</script>\x1b[31m"})
    (tmp_path / "x.jsonl").write_text(json.dumps(hostile) + "\n")
    text = run_command("mle-report", "x.jsonl", cwd=tmp_path).stdout.decode()
    assert "\nhardware: <script>alert(1)</script>␛[31m, 2 cores" in text
    page = run_command("mle-report", "--html", "x.jsonl", cwd=tmp_path).stdout.decode()
    assert "<h3>These results rest on</h3>" in page and "<dt>test feedback</dt><dd>not shown</dd>" in page
    assert "<dd>&lt;script&gt;alert(1)&lt;/script&gt;" in page and "\x1b" not in page
