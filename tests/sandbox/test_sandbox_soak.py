"""Thousands of runs in one command, good, crashing and hostile mixed: nothing is lost, and nothing is left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, mostly_slow, records

from mletools.sandbox.process_tree import descendants

RUNS = int(os.environ.get("MLE_TEST_SOAK_RUNS", "10000"))
MARK = "soak" + format(random.SystemRandom().getrandbits(48), "x")

HAND_IN = "open('submission.csv', 'w').write('id,y\\n1,2\\n')\n"
MEMORY = "x = []\nwhile True:\n    x.append(bytearray(b'1' * (1 << 24)))\n"
# What a program does, how it must be recorded (one of these statuses), and how often it comes in a thousand.
PROGRAMS: dict[str, tuple[str, set[str], int]] = {
    "hands in": (HAND_IN + "print('done')", {"ok"}, 450),
    "fits": (
        "import numpy as np\nfrom sklearn.linear_model import LogisticRegression\n"
        "X = np.arange(40.0).reshape(20, 2)\nprint(LogisticRegression().fit(X, X[:, 0] > 19).score(X, X[:, 0] > 19))\n",
        {"ok"},
        100,
    ),
    "says much": ("print('word ' * 20000)\n" + HAND_IN, {"ok"}, 30),
    "hands in nothing": ("pass", {"ok"}, 50),
    "raises": ("import pandas\npandas.read_csv('nowhere.csv')", {"error"}, 80),
    "has no syntax": ("x = = 1", {"error"}, 50),
    "exits with 3": ("raise SystemExit(3)", {"error"}, 50),
    "aborts": ("import os\nos.abort()", {"killed"}, 20),
    "reads address 0": ("import ctypes\nctypes.string_at(0)", {"killed"}, 20),
    "kills itself": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", {"killed"}, 20),
    "kills all": ("import os, signal\n" + HAND_IN + "os.kill(-1, signal.SIGKILL)", {"error"}, 15),
    "sleeps": ("import time\ntime.sleep(600)", {"timeout"}, 10),
    "spins": ("while True:\n    pass", {"timeout"}, 4),
    "eats memory": (MEMORY, {"memory"}, 10),
    "forks for ever": ("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass", {"timeout", "memory"}, 1),
    "leaves a daemon": (
        f"import os\nif os.fork() == 0:\n    os.setsid()\n    os.execv('/bin/sleep', ['{MARK}', '600'])\n" + HAND_IN,
        {"ok"},
        20,
    ),
    "never stops talking": ("while True:\n    print('x' * 60000)", {"output"}, 15),
    "fills the disk": ("for n in range(99):\n    open(str(n), 'wb').write(b'1' * (1 << 20))", {"disk"}, 15),
    "links to the answers": ("import os\nos.symlink('../private/answers.csv', 'submission.csv')", {"ok"}, 15),
    "hands in a pipe": ("import os\nos.mkfifo('submission.csv')", {"ok"}, 10),
    "asks the network": ("import socket\nsocket.create_connection(('192.0.2.1', 80), 1)", {"error"}, 10),
    "unshares": ("import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) == 0", {"error"}, 5),
}  # fmt: skip


def make_rollouts(template: dict[str, Any], count: int) -> dict[str, str]:
    """Ids and what their programs do."""
    draw = random.Random(0)
    names = draw.choices(list(PROGRAMS), [weight for _, _, weight in PROGRAMS.values()], k=count - len(PROGRAMS))
    chosen = [*PROGRAMS, *names]
    draw.shuffle(chosen)
    return {f"{template['id'].rsplit(':', 1)[0]}:{number:016x}": name for number, name in enumerate(chosen)}


BEGAN = time.time_ns()


def cgroups(servers: set[int]) -> list[str]:
    """Those that these processes made since the tests began, and that are still there."""
    # Not glob, which fails when a folder goes away meanwhile.
    found = [Path(place, name) for place, names, _ in os.walk("/sys/fs/cgroup") for name in names]
    made = [(path, *map(int, path.name.split("-")[1:3])) for path in found if path.match("mletools-*-*")]
    return [str(path) for path, server, at in made if server in servers and at > BEGAN]


def environment(folder: Path) -> dict[str, str]:
    """With temporary files in a folder of their own, to see what stays."""
    (folder / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(folder / "tmp")}


def look(pid: int) -> tuple[int, int]:
    """Resident KB and open descriptors of the command."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = int(status.split("VmRSS:", 1)[1].split()[0])
    return resident, len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.nightly
@pytest.mark.timeout(2400)
def test_ten_thousand_mixed_runs(stages: dict[str, Any], tmp_path: Path) -> None:
    template = records(stages["instrumented"].read_bytes())[0]
    template.pop("instrument")
    planned = make_rollouts(template, RUNS)
    with open(tmp_path / "rollouts.jsonl", "w") as file:
        for key, name in planned.items():
            file.write(json.dumps({**template, "id": key, "code": PROGRAMS[name][0]}) + "\n")
    command = [str(BIN / "mle-sandbox"), "-j", "8", "--timeout", "4", "--memory-size", "256", "--disk", "16"]
    command += ["--output-size", "256", "--data", str(stages["folder"]), "-o", "executed.jsonl", "rollouts.jsonl"]
    seen, family = [], set[int]()
    began = time.monotonic()
    settings: dict[str, Any] = {"cwd": tmp_path, "env": environment(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, **settings) as process:
        while process.poll() is None:
            time.sleep(1)
            try:
                seen.append(look(process.pid))
                family.update(descendants(process.pid))
            except (OSError, IndexError):
                break
        assert process.stderr is not None
        told = process.stderr.read().decode()
        assert process.wait() == 0, told
    seconds = time.monotonic() - began

    done = records((tmp_path / "executed.jsonl").read_bytes())
    assert Counter(record["id"] for record in done) == Counter(list(planned))
    odd = Counter(
        (planned[record["id"]], record["execution"]["status"])
        for record in done
        if record["execution"]["status"] not in PROGRAMS[planned[record["id"]]][1]
    )
    # Memory is slow to get on a busy machine: a few may meet the time limit first.
    slow = odd.pop(("eats memory", "timeout"), 0)
    assert not odd
    assert slow <= sum(name == "eats memory" for name in planned.values()) / 4
    for record in done:
        execution, name = record["execution"], planned[record["id"]]
        if PROGRAMS[name][0].endswith(HAND_IN) or name == "hands in":
            assert execution["submission"]["bytes"] == 9, (name, execution)
        if name in ("links to the answers", "hands in a pipe"):
            assert execution["submission"] is None, name
    assert cgroups(family) == []
    assert os.listdir(tmp_path / "tmp") == []
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if MARK.encode() in read_bytes(path)]
    assert left == []

    settled = seen[len(seen) // 4 :]
    first, last = settled[: len(settled) // 3], settled[-len(settled) // 3 :]
    figures = [[statistics.median(column) for column in zip(*part, strict=True)] for part in (first, last)]
    print(f"{len(done)} runs, {seconds:.0f} s, {60 * len(done) / seconds:.0f} a minute; resident KB, descriptors:")
    print(figures, max(row[0] for row in seen))
    if RUNS >= 5000:
        assert figures[1][0] < 1.05 * figures[0][0] + 4096
        assert max(row[1] for row in last) <= max(row[1] for row in first) + 8


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("number", mostly_slow([signal.SIGTERM, signal.SIGKILL], 1))
def test_nothing_is_left_of_a_command_that_is_killed_among_many_runs(
    stages: dict[str, Any], tmp_path: Path, number: signal.Signals
) -> None:
    template = records(stages["instrumented"].read_bytes())[0]
    template.pop("instrument")
    code = f"import os, subprocess\nsubprocess.Popen(['{MARK}', '600'], executable='/bin/sleep', start_new_session=True).wait()"
    lines = [json.dumps({**template, "id": f"r:{n}", "code": code}) + "\n" for n in range(8)]
    (tmp_path / "rollouts.jsonl").write_text("".join(lines))
    command = [str(BIN / "mle-sandbox"), "-j", "4", "--preimport", "json", "--data", str(stages["folder"])]
    settings: dict[str, Any] = {"cwd": tmp_path, "env": environment(tmp_path), "stdout": subprocess.DEVNULL}
    with subprocess.Popen([*command, "rollouts.jsonl"], **settings) as process:
        end = time.monotonic() + 60
        while time.monotonic() < end and len(sleepers()) < 4:
            time.sleep(0.1)
        assert len(sleepers()) == 4
        family = set(descendants(process.pid))
        process.send_signal(number)

    def left() -> list[Any]:
        return [*sleepers(), *cgroups(family), *(pid for pid in family if Path(f"/proc/{pid}").exists())]

    end = time.monotonic() + 20
    while time.monotonic() < end and left():
        time.sleep(0.1)
    assert left() == []
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.slow
def test_a_cgroup_of_a_killed_server_goes_with_the_next_command(stages: dict[str, Any], tmp_path: Path) -> None:
    template = records(stages["rollouts"].read_bytes())[0]
    path = tmp_path / "rollouts.jsonl"
    path.write_text(json.dumps({**template, "code": f"import os\nos.execv('/bin/sleep', ['{MARK}', '600'])"}) + "\n")
    command = [str(BIN / "mle-sandbox"), "--preimport", "json", "--data", str(stages["folder"]), str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        end = time.monotonic() + 60
        while time.monotonic() < end and not sleepers():
            time.sleep(0.1)
        assert sleepers()
        family = set(descendants(process.pid))
        for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, so that none sees another's end
            for pid in (process.pid, *family):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
    end = time.monotonic() + 20
    while time.monotonic() < end and any(Path(f"/proc/{pid}").exists() for pid in family):
        time.sleep(0.1)
    if not cgroups(family):
        pytest.skip("no cgroups here, or none that outlives its processes")
    path.write_text(json.dumps({**template, "code": "pass"}) + "\n")
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    assert cgroups(family) == []


def sleepers() -> list[Path]:
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if MARK.encode() in read_bytes(path)]
