"""examples/cluster and the nightly line: what of them can be run on one machine is run."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIN, COMMANDS, ROOT, run_command

EXAMPLES = ROOT / "examples"
CLUSTER = EXAMPLES / "cluster"


def environment(**more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MLE_", "MAKE"))}
    return {**kept, "PATH": f"{BIN}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **more}


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    run_command(
        "mle-gen-task", "-q", "--source", "sklearn:wine,iris,diabetes", "-n", "3", "-o", "tasks.jsonl", cwd=folder
    )
    return folder / "tasks.jsonl"


@pytest.mark.parametrize("script", sorted(CLUSTER.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_can_be_read(script: Path) -> None:
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_every_command_of_the_scripts_accepts_its_options() -> None:
    text = "\n".join(path.read_text() for path in (CLUSTER / "README.md", CLUSTER / "slurm.sh"))
    lines = [line for line in text.replace("\\\n", " ").split("\n") if line.lstrip().startswith("mle-")]
    lines = [
        line.replace("$MODEL $SAMPLE", "-m scripted").replace('"${SLURM_CPUS_PER_TASK:-2}"', "2") for line in lines
    ]
    script = [sys.executable, str(EXAMPLES / "options.py")]
    done = subprocess.run(script, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and int(done.stdout.split()[0]) >= 8, done.stdout


@pytest.mark.slow
def test_a_slurm_array_does_every_task_once(tasks: Path, tmp_path: Path) -> None:
    told = environment(SLURM_ARRAY_TASK_COUNT="2", MODEL="-m scripted", SAMPLE="-g 2")
    for part in ("0", "1"):
        command = [str(CLUSTER / "slurm.sh"), str(tasks), str(tmp_path / "out")]
        subprocess.run(command, env={**told, "SLURM_ARRAY_TASK_ID": part}, check=True, capture_output=True)
    done = [records(tmp_path / "out" / f"part-{part}.jsonl") for part in (0, 1)]
    assert sorted(len(part) for part in done) == [2, 4]
    names = [{rollout["task"]["name"] for rollout in part} for part in done]
    assert names[0] | names[1] == {"wine", "iris", "diabetes"} and not names[0] & names[1]
    # as one job would have it
    line = (
        "mle-rollout",
        "-q",
        "-m",
        "scripted",
        "-g",
        "2",
        "--data",
        str(tasks.parent),
        str(tasks),
        "-o",
        "one.jsonl",
    )
    run_command(*line, cwd=tmp_path)
    assert {r["id"] for r in records(tmp_path / "one.jsonl")} == {r["id"] for part in done for r in part}


def test_a_job_outside_an_array_says_so(tmp_path: Path) -> None:
    command = [str(CLUSTER / "slurm.sh"), str(tmp_path / "tasks.jsonl"), str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode and "SLURM_ARRAY_TASK_ID: is not set: submit with --array" in done.stderr


@pytest.mark.parametrize("name", ["ddp.yaml", "fsdp2.yaml"])
def test_accelerate_reads_its_configuration(name: str) -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed: its configuration is not read")
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(CLUSTER / name))
    assert (config.mixed_precision, config.num_processes) == ("bf16", 8)
    if name == "fsdp2.yaml":
        assert config.fsdp_config["fsdp_version"] == 2


def test_the_crontab_calls_the_makefile_that_is_there() -> None:
    lines = [line for line in (EXAMPLES / "nightly.cron").read_text().splitlines() if "make" in line and line[0] != "#"]
    assert len(lines) == 3 and all(
        "flock --nonblock lock make -s -f /home/you/mletools/examples/nightly.mk" in line for line in lines
    )


STUB = """#!/bin/bash
echo "$(basename $0)" >> calls
[ ! -e fail-$(basename $0) ] || exit 1
while (( $# )); do if [ "$1" = -o ]; then echo done > "$2"; fi; shift; done
"""


def test_a_night_that_is_resumed_by_day_leaves_the_next_its_work(tmp_path: Path) -> None:
    """With commands that only say that they were called: which of them a night calls, and under which name."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for command in COMMANDS:
        (folder / command).write_text(STUB)
        (folder / command).chmod(0o755)
    for name in ("tasks.jsonl", "held-out.jsonl"):
        (tmp_path / name).write_text("")

    def night(*arguments: str) -> tuple[int, int, int]:
        """(exit code, trainings, reports) of a call."""
        (tmp_path / "calls").write_text("")
        command = ["make", "-s", "-f", str(EXAMPLES / "nightly.mk"), *arguments]
        path = {**environment(), "PATH": f"{folder}:{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True, check=False)
        calls = (tmp_path / "calls").read_text().split()
        return done.returncode, calls.count("mle-train-grpo"), calls.count("mle-report")

    def nights() -> list[str]:
        return sorted(path.parent.name for path in (tmp_path / "nightly").glob("*/report.txt"))

    (tmp_path / "fail-mle-grade").touch()
    assert night("NIGHT=1")[0] == 2 and nights() == []  # ended while it trained
    (tmp_path / "fail-mle-grade").unlink()
    assert night("resume") == (0, 1, 2) and nights() == ["1"]
    assert night("resume") == (0, 0, 0)
    assert night("NIGHT=2") == (0, 1, 2) and nights() == ["1", "2"]
    (tmp_path / "fail-mle-report").touch()
    assert night("NIGHT=3")[:2] == (2, 1)  # ended behind its training
    (tmp_path / "fail-mle-report").unlink()
    assert night("NIGHT=4") == (0, 1, 4) and nights() == ["1", "2", "3", "4"]
    assert night() == (0, 1, 2) and len(nights()) == 5  # by its own name


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("timeout") is None, reason="coreutils' timeout is not installed: no night is run")
def test_two_nights(tasks: Path, tmp_path: Path) -> None:
    """A tiny policy, two nights of some seconds: the second goes on with the first one's and is compared with it."""
    pytest.importorskip("torch", reason="torch is not installed: training is not tested")
    from mletools.training.tiny import make_tiny

    run_command(
        "mle-rollout", "-q", "-m", "scripted", "--prompt", "single-brief", str(tasks), "-o", "s.jsonl", cwd=tmp_path
    )
    make_tiny(records(tmp_path / "s.jsonl"), tmp_path / "tiny", "tiny")
    settings = {
        "HOURS": "0.02",
        "MODEL": "tiny",
        "TASKS": str(tasks),
        "HELD_OUT": str(tasks),
        "SAMPLER": "-m hf:",
        "PUBLISH": "",
        "EVALUATOR": "-m hf:nightly/run/latest",
        "SAMPLE": "-g 4 --prompt single-brief --max-tokens 16 --engine-batch 12",
        "LIMITS": "-j 2 --timeout 20",
        # what an untrained policy writes is worth the same, all of it: -10
        "REWARD": "--reward partial-credit",
        "FILTER": "--keep-invalid --keep-duplicates --no-spread",
        "TRAIN": "--batch 12 --lora-rank 4 --baseline none --scale-rewards none",
        "EVALUATE": "-g 2 --seed 1000000",
    }
    line = ["make", "-s", "-f", str(EXAMPLES / "nightly.mk"), *(f"{name}={value}" for name, value in settings.items())]
    steps = [0]
    for night in ("2026-01-01", "2026-01-02"):
        done = subprocess.run(
            [*line, f"NIGHT={night}"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr + shlex.join(line)
        assert (tmp_path / "nightly" / night / "report.html").stat().st_size > 10_000
        steps.append(len(records(tmp_path / "nightly" / "run" / "steps.jsonl")))
    assert 0 < steps[1] < steps[2]
    assert "before" in done.stdout and "2026-01-02" in done.stdout  # the comparison
