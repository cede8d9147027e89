"""mle-report --follow: files that grow, what is counted, and the command while it is watched."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from conftest import BIN, run_command
from shown_rollouts import react

from mletools.base.output import Output, record_id
from mletools.reports.live import Live, Tail, add_new, sparks


def rollout(number: int, valid: bool = True, seconds: float = 3.0) -> dict[str, Any]:
    made = react()
    made |= {"id": f"{number:016x}", "reward": 0.5 if valid else 0.0}
    made["execution"] = {**(made.get("execution") or made["turns"][0]["execution"]), "duration_s": seconds}
    made["grade"] = {**made["grade"], "valid": valid, "score": 1.0 if valid else None, "medal": None}
    return made


def step(number: int, **more: Any) -> dict[str, Any]:
    return {
        "kind": "train_step", "version": 1, "id": f"{number:016x}", "lineage": [], "algorithm": "grpo", "step": number, "loss": 0.1,
        "reward_mean": 0.1 * number, "reward_std": 0.2, "grad_norm": 1.0, "tokens": 10, "rollouts": 16, "groups": 4,
        "duration_s": 1.0, "policy_version": number, **more,
    }  # fmt: skip


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_a_file_that_grows_is_renamed_and_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "graded.jsonl"
    tail = Tail(path)
    assert list(tail.read()) == []
    whole = lines(rollout(1), rollout(2))
    partial = tmp_path / "graded.jsonl.partial"
    partial.write_bytes(whole[:-30])
    assert [record["id"] for record in tail.read()] == [f"{1:016x}"]
    with partial.open("ab") as file:
        file.write(whole[-30:] + b"rubbish\n" + b'{"kind": "task"}\n')
    assert [record["id"] for record in tail.read()] == [f"{2:016x}"]
    assert tail.unreadable == 2
    partial.rename(path)
    assert list(tail.read()) == []
    with path.open("ab") as file:
        file.write(lines(rollout(3)))
    assert [record["id"] for record in tail.read()] == [f"{3:016x}"]
    path.write_bytes(lines(rollout(4)))
    assert [record["id"] for record in tail.read()] == [f"{4:016x}"]


def test_what_a_resumed_run_copies_counts_once(tmp_path: Path) -> None:
    path, tails, live = tmp_path / "graded.jsonl", [Tail(tmp_path / "graded.jsonl")], Live(begun=0.0)
    path.write_bytes(lines(rollout(1), rollout(2)))
    add_new(tails, live, True)
    output = Output(path, None, True, record_id)  # copies the file to graded.jsonl.partial
    add_new(tails, live, False)
    assert live.counts["rollouts"] == 2 and not live._arrivals
    output.write(rollout(3))
    output.commit()
    add_new(tails, live, False)
    assert live.counts["rollouts"] == 3 and len(live._arrivals) == 1


def test_what_is_counted() -> None:
    live = Live(begun=1000.0)
    live.add(rollout(0, valid=False), None)  # was there before: it says nothing of the speed
    for number in range(1, 4):
        live.add(rollout(number), 1000.0 + number)
    live.add(step(1, waited_s=3.0, staleness=0.5, staleness_max=1, sampler_waited_s=2.0), 1002.0)
    live.add(step(2, waited_s=3.0, staleness=0.5, staleness_max=1, sampler_waited_s=3.0), 1006.0)
    rows = {name: (lately, total) for name, lately, total in live.rows(1006.0)}
    assert rows["rollouts"] == ("30.0 per minute", "4")
    assert rows["valid"] == ("75%", "75%")
    assert rows["busy sandboxes"] == ("1.5", "")  # 9 s of programs in 6 s
    assert rows["updates"] == ("20.0 per minute", "2, policy 2")
    assert rows["trainer busy"] == ("25%", "")
    assert rows["sampler idle"] == ("25%", "")  # 1 s of 4
    later = {name: (lately, total) for name, lately, total in live.rows(2000.0)}
    assert later["rollouts"] == ("0.0 per minute", "4")


def test_sparklines() -> None:
    assert sparks([0.0, 0.5, 1.0]) == "▁▅█" and sparks([1.0, 1.0]) == "▄▄" and sparks([1.0]) == ""


def test_the_command_watches_until_it_is_told_to_stop(tmp_path: Path) -> None:
    command = [str(BIN / "mle-report"), "--follow", "--interval", "0.2", "--train-steps", "steps.jsonl", "graded.jsonl"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None and process.stdout is not None
        assert b"rollouts 0.0 per minute, 0;" in process.stderr.readline()
        (tmp_path / "graded.jsonl").write_bytes(lines(rollout(1)))
        (tmp_path / "steps.jsonl").write_bytes(lines(step(1)))
        end = time.monotonic() + 60
        line = b""
        while b"updates" not in line or b", 1; valid 100%" not in line:
            line = process.stderr.readline()
            assert line and time.monotonic() < end
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130 and process.stdout.read() == b""


def test_it_watches_files_alone(tmp_path: Path) -> None:
    done = run_command("mle-report", "--follow", cwd=tmp_path, check=False)
    assert done.returncode == 1 and b"--follow watches files that grow: let `tee FILE` write one" in done.stderr
    done = run_command("mle-report", "--follow", "--json", os.devnull, cwd=tmp_path, check=False)
    assert done.returncode == 2 and b"--follow excludes all other outputs" in done.stderr
