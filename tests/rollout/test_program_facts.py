"""What prompts say of the Python, the libraries and the limits that programs have."""

import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from played import FAST, write_tasks

from mletools import prompts
from mletools.base.errors import ToolError
from mletools.base.tape import Tapes
from mletools.rollout.probe import installed
from mletools.rollout.program_facts import ProgramFacts, probe_sandbox
from mletools.sandbox import Limits, Outcome
from mletools.scaffolds.interface import Job, Settings
from mletools.scaffolds.messages import task_facts, task_prompt

LIMITS = Limits(wall_s=90, memory_mb=1536, disk_mb=300, threads=4)


def facts(tapes: Tapes, version: str) -> ProgramFacts:
    answer = {"python": "3.12.1", "libraries": {"scipy": "1.0", "numpy": version}}
    return ProgramFacts(LIMITS, False, lambda public: answer, tapes.tape("run"))


def test_the_words_and_a_resumed_run_that_finds_other_libraries(tmp_path: Path) -> None:
    path = tmp_path / "tape"
    tapes = Tapes(path)
    assert LIMITS.text(gpu=True) == (
        "90 seconds, 1.5 GB of memory, 300 MB of files, 4 threads for numerical libraries, one GPU"
    )
    wanted = "Python 3.12.1 with numpy 2.0, scipy 1.0"
    assert facts(tapes, "2.0").libraries(lambda: tmp_path) == wanted
    tapes.close(complete=False)
    assert facts(Tapes(path, resume=True), "3.0").libraries(lambda: tmp_path) == wanted
    assert facts(Tapes(path), "3.0").libraries(lambda: tmp_path) != wanted


class Answering:
    """A sandbox in which every program prints this."""

    def __init__(self, stdout: bytes):
        self.stdout = stdout

    def run(self, code: str, *_: Any) -> Any:
        compile(code, "probe", "exec")
        return Outcome(
            "ok",
            0,
            0.1,
            0.1,
            1.0,
            self.stdout,
            b"Traceback\nOSError: no room\n",
            {},
            {"submission.csv": "no submission.csv"},
        )


def test_a_sandbox_that_cannot_run_the_probe_is_an_error(tmp_path: Path) -> None:
    told = installed(["pytest", "no-such-library"])
    assert told == {"python": platform.python_version(), "libraries": {"pytest": importlib.metadata.version("pytest")}}
    assert probe_sandbox(Answering(json.dumps(told).encode()), LIMITS, lambda: tmp_path) == told  # type: ignore[arg-type]
    with pytest.raises(ToolError, match=r"does not say which libraries it has \(ok: OSError: no room\)"):
        probe_sandbox(Answering(b"hello"), LIMITS, lambda: tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("scaffold", ["single", pytest.param("react", marks=pytest.mark.slow)])
def test_a_run_tells_what_its_options_and_its_interpreter_are(scaffold: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    line = ("mle-rollout", "--scaffold", scaffold, "--timeout", "7", "--memory-size", "700", *FAST, "tasks.jsonl")
    (record,) = records(run_command(*line, cwd=tmp_path).stdout)
    told = "\n".join(message["content"] for message in record["messages"] if message["role"] != "assistant")
    assert f"Python {platform.python_version()} with numpy {importlib.metadata.version('numpy')}, pandas " in told
    assert "7 seconds, 700 MB of memory, 256 MB of files, 1 thread for numerical libraries, no GPU" in told
    rows = 30 if scaffold == "single" else 24  # without the validation rows
    assert f"\ntrain.csv: {rows} rows, 3 columns, " in told and "\n  y: number; " in told


@pytest.mark.parametrize("scaffold", ["single", pytest.param("react", marks=pytest.mark.slow)])
def test_a_run_tells_which_weights_there_are(scaffold: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    (tmp_path / "pretrained" / "hub" / "models--google--vit" / "snapshots" / "abc").mkdir(parents=True)
    line = ("mle-rollout", "--scaffold", scaffold, "--weights", "pretrained", *FAST, "tasks.jsonl")
    (record,) = records(run_command(*line, cwd=tmp_path).stdout)
    told = "\n".join(message["content"] for message in record["messages"] if message["role"] != "assistant")
    assert (
        "; pretrained weights in ./weights: models that `from_pretrained` and timm load by name (google/vit)." in told
    )
    assert record["lineage"][-1]["options"]["weights"] == "pretrained"
    refused = run_command(*line[:4], "nowhere", *line[5:], cwd=tmp_path, check=False)
    assert refused.returncode == 1 and refused.stderr.endswith(b"/nowhere: no such folder of weights\n")


class Asked:
    """Facts that count what is asked."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def fact(self, name: str) -> str:
        self.names.append(name)
        return name


def test_only_what_a_prompt_shows_is_made(tmp_path: Path) -> None:
    (task,) = write_tasks(tmp_path)
    job: Any = Job("a", "b", 1, 0, 0, task, {}, "single", Settings())
    assert {*task_facts(task), "split"} == {*prompts.TASK_FACTS}
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "single.md").write_text("{{name}}. {{split}}")
    (mine / "react-system.md").write_text("{{description}} {{data_preview}}")  # the built-in one shows neither
    everything, little = Asked(), Asked()
    task_prompt("single", job, everything)
    assert sorted(everything.names) == sorted(prompts.ENVIRONMENT_FACTS)
    with prompts.replaced(mine):
        task_prompt("single", job, little)
        assert little.names == []
        assert task_prompt("react-system", job, little) == f"{task['description'].strip()} data_preview"
