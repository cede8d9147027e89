"""examples/cluster and the nightly line: what of them can be run on one machine is run."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
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
    command = [str(CLUSTER / "slurm.sh"), str(tasks), str(tmp_path / "out")]
    for part, count in (("0", "2"), ("1", "2"), ("1", "1")):  # the last one: submitted again, alone
        own = {"SLURM_ARRAY_TASK_ID": part, "SLURM_ARRAY_TASK_COUNT": count}
        subprocess.run(command, env={**told, **own}, check=True, capture_output=True)
    third = subprocess.run(
        command, env={**told, "SLURM_ARRAY_TASK_ID": "3"}, capture_output=True, text=True, check=False
    )
    assert third.returncode == 1 and "there is no share 3" in third.stderr
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


def share(folder: Path, index: int, count: int, **array: int) -> subprocess.CompletedProcess[str]:
    """A job of an array, with commands that do nothing."""
    (folder / "tasks.jsonl").write_text("".join(f'{{"n": {at}}}\n' for at in range(1, 11)))
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("mle-rollout", "mle-sandbox", "mle-grade"):
        (folder / "bin" / name).write_text("#!/bin/sh\n")
        (folder / "bin" / name).chmod(0o755)
    told = {"ID": index, "COUNT": count, **array}
    own = {f"SLURM_ARRAY_TASK_{name}": str(number) for name, number in told.items()}
    own["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
    command = [str(CLUSTER / "slurm.sh"), str(folder / "tasks.jsonl"), str(folder / "out")]
    return subprocess.run(command, env={**environment(), **own}, capture_output=True, text=True, check=False)


def test_shares_from_0_and_from_1_are_the_same(tmp_path: Path) -> None:
    """The last of an array from 1 is the first of one from 0."""
    for index, count in ((0, 4), (4, 1), (3, 1)):
        assert share(tmp_path, index, count).returncode == 0
    assert sorted(path.name for path in (tmp_path / "out").glob("tasks-*")) == ["tasks-0.jsonl", "tasks-3.jsonl"]


def test_the_first_array_has_no_gaps(tmp_path: Path) -> None:
    """--array=0,2, 0-30:2 and 5-8 would leave shares to nobody; once the tasks are divided, any share is done again."""
    for index, count, least, most in ((2, 2, 0, 2), (30, 16, 0, 30), (5, 4, 5, 8), (5, 1, 5, 5)):
        refused = share(tmp_path, index, count, MIN=least, MAX=most)
        assert refused.returncode == 1 and "from 0 or 1 without gaps (--array=0-15)" in refused.stderr
        assert not (tmp_path / "out").exists()
    assert share(tmp_path, 1, 4, MIN=1, MAX=4).returncode == 0
    for index, count, least, most in ((4, 2, 1, 4), (2, 1, 2, 2)):
        assert share(tmp_path, index, count, MIN=least, MAX=most).returncode == 0
    assert sorted(path.name for path in (tmp_path / "out").glob("tasks-*")) == [f"tasks-{n}.jsonl" for n in range(3)]


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
    text = (EXAMPLES / "nightly.cron").read_text()
    lines = [line for line in text.splitlines() if "make -s" in line and line[0] != "#"]
    assert len(lines) == 3 and all("make -s -f /home/you/mletools/examples/nightly.mk cron" in line for line in lines)
    assert "/home/you/runs/nightly.logrotate" in text and "--state $OUT/logrotate.state" in text
    assert "/home/you/runs/nightly/log {" in (EXAMPLES / "nightly.logrotate").read_text()


def test_no_night_of_the_crontab_begins_while_another_trains() -> None:
    text = (EXAMPLES / "nightly.cron").read_text()
    nights = []  # hours of the week from Sunday 00:00
    for hour, first, last, hours in re.findall(r"(?m)^0 (\d+) \* \* (\d)-?(\d?) .* HOURS=(\d+)$", text):
        for day in range(int(first), int(last or first) + 1):
            nights.append((24 * day + int(hour), int(hours)))
    assert len(nights) == 6
    for at, hours in nights:
        assert all((other - at) % 168 > hours for other, _ in nights if other != at)
    assert (24 * 5 + 18 + 36) % 168 == 6 and (24 * 5 + 18, 36) in nights  # Friday evening until Sunday morning


def crontab(text: str) -> tuple[dict[str, str], list[str]]:
    """(the variables of a crontab, the commands of its lines)."""
    lines = [line for line in text.splitlines() if line and line[0] != "#"]
    variables = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z_]+=", line))
    times = re.compile(r"(?:@reboot|(?:\S+ +){4}\S+)\s+(.*)")
    return variables, [found[1] for line in lines if (found := times.fullmatch(line))]


def test_the_lines_of_cron_and_systemd_train_on_the_tasks_that_they_name(tmp_path: Path) -> None:
    """Each is run as it would be, but for make -n, which says what a night does."""
    variables, lines = crontab((EXAMPLES / "nightly.cron").read_text())
    service = (EXAMPLES / "nightly.service").read_text()
    of_service = dict(word.split("=", 1) for word in re.findall(r"(?m)^Environment=(MODEL=.*)$", service)[0].split())
    of_cron = {name: variables[name] for name in ("MODEL", "TASKS", "HELD_OUT", "SERVER", "OUT")}
    assert of_service == of_cron
    (started,) = re.findall(r"(?m)^ExecStart=(.*)$", service)
    runs = tmp_path / "runs"
    runs.mkdir()
    for name in ("train.jsonl", "held-out.jsonl"):
        (runs / name).write_text("a task\n")
    for line in [*(line for line in lines if "nightly.mk cron " in line), started]:
        line = line.replace("/home/you/mletools/examples", str(EXAMPLES)).replace("%h/mletools/examples", str(EXAMPLES))
        line = line.replace("/home/you/runs", str(runs)).replace("make -s", "make -s -n")
        told = environment(**of_cron)
        done = subprocess.run(["bash", "-c", line], cwd=runs, env=told, capture_output=True, text=True, check=True)
        shown = done.stdout + ((runs / "nightly" / "log").read_text() if "cron" in line else "")
        sampled = [line for line in shown.splitlines() if "mle-rollout" in line]
        assert len(sampled) == 2 and "train.jsonl" in sampled[0] and "held-out.jsonl" not in sampled[0]
        assert "held-out.jsonl" in sampled[1] and "train.jsonl" not in sampled[1]
        assert "mle-train-grpo -q --stream --model Qwen/Qwen3-8B" in shown
        assert "mle-filter -q --disjoint-from held-out.jsonl train.jsonl" in shown
        assert all("--model-url http://localhost:8000/v1 --wait-for-server 1800" in line for line in sampled)
        shutil.rmtree(runs / "nightly", ignore_errors=True)


STUB = """#!/bin/bash
echo "$(basename $0)" >> calls
[ ! -e fail-$(basename $0) ] || { echo "$(basename $0): it failed" >&2; exit 1; }
while (( $# )); do if [ "$1" = -o ]; then echo done > "$2"; fi; shift; done
"""
SETTINGS = ("MODEL=my-model", "TASKS=train.jsonl", "HELD_OUT=held-out.jsonl")
# The first line of `clock` is the time, and each look at it removes one.
CLOCK = """#!/bin/bash
now=$(head -n 1 clock); [ $(wc -l < clock) = 1 ] || sed -i 1d clock
exec /bin/date -u -d "$now" "$@"
"""


@dataclass
class Box:
    """A machine whose commands only say that they were called, and whose clock a test sets."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "bin").mkdir()
        for name in (*COMMANDS, "date"):
            (self.folder / "bin" / name).write_text(CLOCK if name == "date" else STUB)
            (self.folder / "bin" / name).chmod(0o755)
        for name in ("train.jsonl", "held-out.jsonl"):
            (self.folder / name).write_text("a task\n")
        self.clock("2026-01-30 22:00")

    def clock(self, *times: str) -> None:
        """What a clock shows that is looked at again and again; the last time stays."""
        (self.folder / "clock").write_text("".join(f"{time}\n" for time in times))

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "calls").write_text("")
        command = ["make", "-s", "-f", str(EXAMPLES / "nightly.mk"), *SETTINGS, *arguments]
        path = {**environment(), "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run(command, cwd=self.folder, env=path, capture_output=True, text=True, check=False)

    def night(self, *arguments: str) -> tuple[int, int, int]:
        """(exit code, trainings, reports) of a call."""
        done = self.make(*arguments)
        calls = (self.folder / "calls").read_text().split()
        return done.returncode, calls.count("mle-train-grpo"), calls.count("mle-report")

    def nights(self) -> list[str]:
        return sorted(path.parent.name for path in (self.folder / "nightly").glob("*/report.txt"))


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_a_night_that_is_resumed_by_day_leaves_the_next_its_work(box: Box, tmp_path: Path) -> None:
    """With commands that only say that they were called: which of them a night calls, and under which name."""
    (tmp_path / "fail-mle-grade").touch()
    assert box.night("NIGHT=1")[0] == 2 and box.nights() == []  # ended while it trained
    (tmp_path / "fail-mle-grade").unlink()
    assert box.night("resume") == (0, 1, 2) and box.nights() == ["1"]
    assert box.night("resume") == (0, 0, 0)
    assert box.night("NIGHT=2") == (0, 1, 2) and box.nights() == ["1", "2"]
    (tmp_path / "fail-mle-report").touch()
    assert box.night("NIGHT=3")[:2] == (2, 1)  # ended behind its training
    (tmp_path / "fail-mle-report").unlink()
    assert box.night("NIGHT=4") == (0, 1, 4) and box.nights() == ["1", "2", "3", "4"]
    assert box.night() == (0, 1, 2) and len(box.nights()) == 5  # by its own name


def test_a_night_that_passes_midnight_has_the_name_of_its_start(box: Box, tmp_path: Path) -> None:
    box.clock("2026-01-31 23:59", "2026-02-01 00:01", "2026-02-01 08:00")
    assert box.night() == (0, 1, 2) and box.nights() == ["2026-01-31-2359"]
    box.clock("2026-02-01 22:00", "2026-02-02 06:00")
    (tmp_path / "fail-mle-grade").touch()
    assert box.night()[0] == 2  # killed while it trained: the next night goes on as this one, whatever the clock shows
    (tmp_path / "fail-mle-grade").unlink()
    box.clock("2026-02-02 22:00")
    assert box.night() == (0, 1, 2) and box.nights() == ["2026-01-31-2359", "2026-02-01-2200"]
    assert sorted(path.name for path in (tmp_path / "nightly").glob("2026-*")) == box.nights()


def test_a_night_with_other_held_out_tasks_is_reported_alone(box: Box, tmp_path: Path) -> None:
    assert box.night("NIGHT=1") == (0, 1, 2)
    refuses = 'case "$*" in *--compare*) echo "no task is in both sets" >&2; exit 1;; esac\n'
    stub = STUB.replace("while", f"{refuses}while", 1)
    (tmp_path / "bin" / "mle-report").write_text(stub)
    done = box.make("NIGHT=2")
    assert done.returncode == 0 and "no task is in both sets" in done.stderr and box.nights() == ["1", "2"]
    assert not (tmp_path / "nightly" / "unfinished").exists()
    assert box.night("NIGHT=3") == (0, 1, 3)  # the page, the comparison that is refused, the night's own table


@pytest.mark.skipif(shutil.which("flock") is None, reason="util-linux' flock is not installed: no night of cron is run")
def test_cron_mails_after_a_failure_alone(box: Box, tmp_path: Path) -> None:
    box.clock("2026-01-31 23:59", "2026-01-31 23:59", "2026-02-01 08:00")
    done = box.make("cron")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "") and box.nights() == ["2026-01-31-2359"]
    log = tmp_path / "nightly" / "log"
    assert log.read_text().startswith("== 2026-01-31 23:59:00 cron\n")
    assert box.make("cron-resume").stdout == "" and "no night is unfinished" in log.read_text()
    box.clock("2026-02-01 22:00")
    (tmp_path / "fail-mle-grade").touch()
    log.write_text("an earlier line\n" * 500)
    done = box.make("cron")
    assert done.returncode == 2 and done.stdout.startswith("the night failed; the end of nightly/log:\n")
    assert "mle-grade: it failed\n" in done.stdout and len(done.stdout.splitlines()) <= 21
    (tmp_path / "fail-mle-grade").unlink()
    with subprocess.Popen(["flock", str(tmp_path / "nightly" / "lock"), "cat"], stdin=subprocess.PIPE) as other:
        while subprocess.run(["flock", "-n", str(tmp_path / "nightly" / "lock"), "true"], check=False).returncode == 0:
            pass
        done = box.make("cron")
        assert other.stdin is not None
        other.stdin.close()
    assert done.returncode == 2 and done.stdout == "another night is running in nightly: nothing was begun\n"
    box.clock("2026-02-02 22:00")
    assert box.make("cron").stdout == "" and box.nights() == ["2026-01-31-2359", "2026-02-01-2200"]


@pytest.mark.parametrize("name", ["MODEL", "TASKS", "HELD_OUT"])
def test_a_night_has_no_default_for_what_it_is_about(box: Box, name: str) -> None:
    done = box.make(f"{name}=")
    assert done.returncode == 2 and f"{name} is not set: which? {name}=..." in done.stderr
    assert not (box.folder / "calls").read_text()


def test_what_would_fail_after_hours_fails_before(box: Box) -> None:
    (box.folder / "fail-mle-filter").touch()  # a file has no tasks, or the tasks overlap
    assert box.night() == (2, 0, 0) and box.nights() == []
    assert not (box.folder / "nightly" / "unfinished").exists()
    (box.folder / "fail-mle-filter").unlink()
    assert box.night() == (0, 1, 2) and len(box.nights()) == 1


@pytest.mark.skipif(shutil.which("flock") is None, reason="util-linux' flock is not installed: no night is run")
def test_a_second_night_by_hand_leaves_the_first_alone(box: Box) -> None:
    (box.folder / "nightly").mkdir()
    lock = box.folder / "nightly" / "lock"
    with subprocess.Popen(["flock", str(lock), "cat"], stdin=subprocess.PIPE) as other:
        while subprocess.run(["flock", "-n", str(lock), "true"], check=False).returncode == 0:
            pass
        for target in ("night", "resume"):
            done = box.make(target)
            assert done.returncode == 2 and not (box.folder / "calls").read_text()
            assert "another night is running in nightly: nothing was begun" in done.stderr
        assert box.make("-n").returncode == 0  # a dry run takes no lock
        assert other.stdin is not None
        other.stdin.close()
    assert box.night() == (0, 1, 2)


def test_the_units_of_systemd_call_the_makefile_that_is_there(tmp_path: Path) -> None:
    service, timer = ((EXAMPLES / f"nightly.{name}").read_text() for name in ("service", "timer"))
    assert "ExecStart=/usr/bin/make -s -f %h/mletools/examples/nightly.mk night HOURS=8" in service
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the units are not verified")
    for name, text in (("nightly.service", service), ("nightly.timer", timer)):
        (tmp_path / name).write_text(
            text.replace("%h/mletools/examples", str(EXAMPLES)).replace("%h/runs", str(tmp_path))
        )
    units = [str(tmp_path / name) for name in ("nightly.service", "nightly.timer")]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "nightly" not in done.stderr, done.stderr


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="logrotate is not installed: no log is rotated")
def test_the_log_is_rotated(tmp_path: Path) -> None:
    (tmp_path / "nightly").mkdir(mode=0o755)
    (tmp_path / "nightly" / "log").write_text("a night\n")
    settings = tmp_path / "nightly.logrotate"
    settings.write_text((EXAMPLES / "nightly.logrotate").read_text().replace("/home/you/runs", str(tmp_path)))
    settings.chmod(0o644)
    subprocess.run(["logrotate", "--force", "--state", str(tmp_path / "state"), str(settings)], check=True)
    assert (tmp_path / "nightly" / "log").read_text() == "" and list((tmp_path / "nightly").glob("log.1*"))


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
    *train, held_out = tasks.read_text().splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_text("".join(train))
    (tmp_path / "held-out.jsonl").write_text(held_out)
    settings = {
        "HOURS": "0.02",
        "MODEL": "tiny",
        "TASKS": "train.jsonl",
        "HELD_OUT": "held-out.jsonl",
        "MLE_DATA": str(tasks.parent),
        "SAMPLER": "-m hf:",
        "PUBLISH": "",
        "EVALUATOR": "-m hf:nightly/run/latest",
        "SAMPLE": "-g 4 --prompt single-brief --max-tokens 16 --engine-batch 12",
        "LIMITS": "--timeout 20",
        "AT_ONCE": "2",
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
