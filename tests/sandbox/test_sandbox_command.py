"""mle-sandbox's own options: what isolates, where it runs, how programs start, and what it says about all that."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, records, run_command, without_times
from docker_daemon import Daemon

import mletools.sandbox.backends
from mletools.base.errors import ToolError
from mletools.sandbox import Setup, choose, hidden
from mletools.sandbox.gpus import cards
from mletools.sandbox.machine import this_machine
from mletools.sandbox.programs import keep


@pytest.fixture
def folder(stages: dict[str, Any]) -> Path:
    return Path(stages["folder"])


def sandbox(folder: Path, *args: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return run_command("mle-sandbox", "--timeout", "60", *args, cwd=folder, **more)


def rollouts(stages: dict[str, Any], path: Path, *codes: str) -> Path:
    template = records(stages["rollouts"].read_bytes())[0]
    lines = [json.dumps({**template, "id": f"rollout:{n:016x}", "code": code}) + "\n" for n, code in enumerate(codes)]
    path.write_text("".join(lines))
    return path


def needs(module: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"needs {module}, of the [ray] extra")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--gpus", "any"], "name the devices, e.g. --gpus 0,1"),
        (["--gpus", "0", "--on", "ray"], "a cluster chooses the devices: give --gpus any"),
        (["--selftest", "--on", "ray"], "--selftest attacks the machine that it runs on"),
        (["--backend", "moon"], "'moon' is not one of"),
        (["--start", "tepid"], "'tepid' is not one of"),
    ],
)
def test_options_that_do_not_go_together(folder: Path, args: list[str], told: str) -> None:
    done = sandbox(folder, *args, "rollouts.jsonl", check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert told in done.stderr.decode()


def test_names_of_gpus_are_checked(folder: Path) -> None:
    done = sandbox(folder, "--gpus", "0,0", "rollouts.jsonl", check=False)
    assert (done.returncode, done.stdout) == (1, b"{")
    assert b"a device is named twice in 0,0" in done.stderr


def test_the_summary_counts_how_programs_ended(stages: dict[str, Any], tmp_path: Path) -> None:
    path = rollouts(stages, tmp_path / "in.jsonl", "pass", "raise SystemExit(3)")
    done = sandbox(stages["folder"], "--preimport", "json", str(path))
    assert b"2 records, 1 error, 1 ok," in done.stderr or b"2 records, 1 ok, 1 error," in done.stderr
    agent = [{**one, "execution": {**one["execution"], "by": "mle-rollout"}} for one in records(done.stdout)]
    path.write_text("".join(json.dumps(one) + "\n" for one in agent))
    assert b"2 records, 2 ran in mle-rollout," in sandbox(stages["folder"], "--preimport", "json", str(path)).stderr


def test_limits_other_than_the_prompt_s_are_said_once(stages: dict[str, Any], tmp_path: Path) -> None:
    path = rollouts(stages, tmp_path / "in.jsonl", "pass", "pass")
    words = ("mle-rollout", "-m", "scripted", "-g", "1", "--timeout", "60")
    asked = run_command(*words, str(stages["tasks"]), cwd=stages["folder"])
    stated = {record["prompt_limits"] for record in records(asked.stdout)}
    assert stated == {"60 seconds, 2 GB of memory, 256 MB of files, 1 thread for numerical libraries, no GPU"}
    brief = run_command(*words, "--prompt", "single-brief", str(stages["tasks"]), cwd=stages["folder"])
    assert not any("prompt_limits" in record for record in records(brief.stdout))  # it states none
    lines = [
        json.loads(line) | {"prompt_limits": limits} for line in path.read_text().splitlines() for limits in stated
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert b"prompts state" not in sandbox(stages["folder"], "--preimport", "json", str(path)).stderr
    done = sandbox(stages["folder"], "-q", "--preimport", "json", "--memory-size", "4096", str(path))
    assert done.stderr.decode() == (
        f"mle-sandbox: prompts state {stated.pop()}; programs have 60 seconds, 4 GB of memory, 256 MB of files, 1 thread for "
        "numerical libraries, no GPU: give mle-rollout the options of mle-sandbox\n"
    )


def test_records_say_how_and_where_a_program_ran(stages: dict[str, Any], tmp_path: Path) -> None:
    path = rollouts(
        stages, tmp_path / "in.jsonl", "import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'])", "import torch"
    )
    name = "0" if cards() else "978"
    done = sandbox(stages["folder"], "-k", "--gpus", name, "--preimport", "json, no_such_module", str(path))
    warm, cold = (record["execution"] for record in records(done.stdout))
    assert (warm["backend"], warm["start"], warm["gpu"], warm["stdout"]["head"]) == ("local", "warm", name, f"{name}\n")
    assert (cold["start"], cold["gpu"]) == ("cold", name)
    assert warm["protections"] == cold["protections"]
    model = next((card.model for card in cards()), None)
    assert warm["machine"] == cold["machine"] == this_machine(model)
    assert b"not installed, so not preimported: no_such_module\n" in done.stderr


@pytest.mark.slow
def test_how_programs_start_changes_no_record(stages: dict[str, Any]) -> None:
    outputs = {}
    for start in ("warm", "cold"):
        done = sandbox(stages["folder"], "-k", "-j", "2", "--start", start, "instrumented.jsonl")
        outputs[start] = without_times(records(done.stdout))
        assert {record["execution"].pop("start") for record in outputs[start]} <= {start, None}
    assert outputs["warm"] == outputs["cold"]


# Submissions on disk


def test_a_damaged_submission_is_kept_anew(tmp_path: Path) -> None:
    kept = keep(b"id,y\n1,2\n", tmp_path)
    (tmp_path / kept["file"]).write_bytes(b"")  # the machine failed
    assert keep(b"id,y\n1,2\n", tmp_path) == kept
    assert (tmp_path / kept["file"]).read_bytes() == b"id,y\n1,2\n"


def test_a_full_disk_is_named_and_nothing_half_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        keep(b"id,y\n1,2\n", tmp_path)
    assert Path(caught.value.filename).parent == tmp_path / "submissions"
    monkeypatch.setattr(hidden, "_cache_folder", lambda: tmp_path)
    hidden.remember("key", {})
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# auto


def test_auto_takes_what_works_and_says_which(stages: dict[str, Any], tmp_path: Path) -> None:
    path = rollouts(stages, tmp_path / "in.jsonl", "print(1)")
    nowhere = f"unix://{tmp_path}/no.sock"
    done = sandbox(stages["folder"], "--backend", "auto", "--preimport", "", str(path), DOCKER_HOST=nowhere)
    (record,) = records(done.stdout)
    assert record["execution"]["backend"] == "local"
    told = done.stderr.decode()
    assert "--backend auto takes local (" in told and "protections active" in told and "docker: " in told
    again = sandbox(stages["folder"], "--preimport", "", str(path), MLE_SANDBOX="auto", DOCKER_HOST=nowhere)
    assert b"--backend auto takes local" in again.stderr


class Pretended:
    notes: tuple[str, ...] = ()
    count = 0

    def __init__(self, setup: Setup) -> None:
        if self.count == 0:
            raise ToolError("broken")
        self.protections = {f"p{n}": n < self.count for n in range(9)}

    def close(self) -> None:
        pass


class One(Pretended):
    count = 5


class Two(Pretended):
    count = 7


def test_auto_takes_the_strongest(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"one": f"{__name__}:One", "none": f"{__name__}:Pretended", "two": f"{__name__}:Two"}
    monkeypatch.setattr(mletools.sandbox.backends, "BACKENDS", table)
    name, told = choose(Setup(1))
    assert name == "two"
    assert told == ["one: 5 of 9 protections active", "none: broken", "two: 7 of 9 protections active"]
    monkeypatch.setattr(mletools.sandbox.backends, "BACKENDS", {"none": f"{__name__}:Pretended"})
    with pytest.raises(ToolError, match="no sandbox works on this machine: none: broken"):
        choose(Setup(1))


# selftest


@pytest.mark.nightly
def test_selftest_prints_a_table_and_what_is_sealed(folder: Path) -> None:
    done = sandbox(folder, "--selftest", "--preimport", "", check=False)
    table = done.stdout.decode()
    assert done.returncode == 0, table + done.stderr.decode()
    assert ", 0 OPEN (" in table.splitlines()[-1]
    assert not [line for line in table.splitlines()[:-1] if "OPEN" in line]
    assert "sealed     status memory" in table
    assert not list(folder.glob("*canary*"))


# Docker


@pytest.mark.slow
def test_a_pipe_through_containers(stages: dict[str, Any], docker_daemon: Daemon) -> None:
    here = sandbox(stages["folder"], "-k", "-j", "2", "instrumented.jsonl")
    more = {"DOCKER_HOST": docker_daemon.host, "MLE_SANDBOX_IMAGE": docker_daemon.image, "MLE_SANDBOX": "docker"}
    there = sandbox(stages["folder"], "-k", "-j", "2", "instrumented.jsonl", **more)
    assert b"containers of" in there.stderr
    ran = [record for record in records(there.stdout) if record["execution"]["backend"]]
    assert {record["execution"]["backend"] for record in ran} == {"docker"}
    seen = [
        [(r["id"], r["execution"]["status"], r["execution"]["submission"]) for r in records(d.stdout)]
        for d in (here, there)
    ]
    assert seen[0] == seen[1]


@pytest.mark.nightly
def test_auto_takes_containers_where_they_are_stronger(folder: Path, docker_daemon: Daemon) -> None:
    more = {"DOCKER_HOST": docker_daemon.host, "MLE_SANDBOX_IMAGE": docker_daemon.image}
    done = sandbox(folder, "--backend", "auto", "--selftest", check=False, **more)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert b"--backend auto takes docker (local: " in done.stderr
    assert b", 0 OPEN (" in done.stdout


# Ray


@pytest.mark.slow
def test_ray_gives_the_same_records(stages: dict[str, Any]) -> None:
    needs("ray")
    here = sandbox(stages["folder"], "-k", "-j", "2", "instrumented.jsonl")
    there = sandbox(stages["folder"], "-k", "-j", "2", "--on", "ray", "instrumented.jsonl")
    assert without_times(records(there.stdout)) == without_times(records(here.stdout))


@pytest.mark.slow
def test_ray_command_killed_and_resumed_loses_and_doubles_nothing(stages: dict[str, Any], tmp_path: Path) -> None:
    needs("ray")
    mark = format(random.SystemRandom().getrandbits(48), "x")
    codes = [f"import time\nmark = '{mark}'\ntime.sleep(0.3)\nprint({n})" for n in range(24)]
    path = rollouts(stages, tmp_path / "in.jsonl", *codes)
    command = ["mle-sandbox", "-j", "2", "--on", "ray", "--preimport", "json", "--data", str(stages["folder"])]
    command += ["-o", str(tmp_path / "out.jsonl"), str(path)]
    partial = tmp_path / "out.jsonl.partial"
    with subprocess.Popen([str(BIN / command[0]), *command[1:]], stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 120
        while time.monotonic() < end and (not partial.exists() or partial.read_bytes().count(b"\n") < 5):
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    assert 5 <= partial.read_bytes().count(b"\n") < 24
    run_command(*command, "--resume")
    done = records((tmp_path / "out.jsonl").read_bytes())
    assert Counter(record["id"] for record in done) == Counter(f"rollout:{n:016x}" for n in range(24))
    assert {(r["id"], r["execution"]["stdout"]["head"]) for r in done} == {
        (f"rollout:{n:016x}", f"{n}\n") for n in range(24)
    }


@pytest.fixture
def head() -> Iterator[str]:
    """A Ray head with a client server, as `ray start --head` gives one; its address."""
    needs("ray")
    needs("grpc")
    ports = [free_port() for _ in range(2)]
    with tempfile.TemporaryDirectory(prefix="ray") as place:
        command = [str(BIN / "ray"), "start", "--head", "--block", f"--port={ports[0]}", "--num-cpus=2"]
        command += [f"--ray-client-server-port={ports[1]}", "--include-dashboard=false", f"--temp-dir={place}"]
        # Ray's client server is forked by a process that has used grpc; without this, grpc's handlers may stop it.
        more = {"GRPC_ENABLE_FORK_SUPPORT": "false", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
        settings: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(
            [*command, "--object-store-memory=100000000"], env={**os.environ, **more}, **settings
        ) as ray:
            try:
                end = time.monotonic() + 60
                while time.monotonic() < end and not answers(ports[1]):
                    time.sleep(0.2)
                yield f"ray://127.0.0.1:{ports[1]}"
            finally:
                ray.send_signal(signal.SIGTERM)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def answers(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


@pytest.mark.nightly
def test_a_cluster_by_its_address(stages: dict[str, Any], head: str, tmp_path: Path) -> None:
    here = sandbox(stages["folder"], "-k", "-j", "2", "instrumented.jsonl")
    there = sandbox(stages["folder"], "-k", "-j", "2", "--on", head, "instrumented.jsonl")
    assert b"Ray cluster with 1 node and 2 CPUs" in there.stderr
    assert without_times(records(there.stdout)) == without_times(records(here.stdout))

    mark = "sleeper" + format(random.SystemRandom().getrandbits(48), "x")
    code = f"import os\nos.execv('/bin/sleep', ['{mark}', '600'])"
    path = rollouts(stages, tmp_path / "in.jsonl", code)
    command = [
        str(BIN / "mle-sandbox"),
        "--on",
        head,
        "--preimport",
        "json",
        "--data",
        str(stages["folder"]),
        str(path),
    ]
    settings: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    plain = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    with subprocess.Popen(command, env=plain, **settings) as process:
        end = time.monotonic() + 60
        while time.monotonic() < end and not asleep(mark):
            time.sleep(0.2)
        assert asleep(mark)
        process.kill()
    end = time.monotonic() + 90  # the cluster waits half a minute for the client to come back
    while time.monotonic() < end and asleep(mark):
        time.sleep(0.5)
    assert not asleep(mark)


def asleep(mark: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes().startswith(mark.encode() + b"\0"):
                return True
    return False


def test_no_cluster_is_an_error_that_says_so(stages: dict[str, Any]) -> None:
    needs("ray")
    done = sandbox(stages["folder"], "--on", "ray://127.0.0.1:1", "rollouts.jsonl", check=False)
    assert (done.returncode, done.stdout) == (1, b"{")
    assert b"ray://127.0.0.1:1" in done.stderr
    assert len(done.stderr.splitlines()) <= 3, done.stderr.decode()
