"""The whole line of commands: the same twice, and a group leaves at the far end while the input is still open."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, records, without_times

PIPE = (
    "mle-rollout -m scripted -g 6 | mle-instrument | mle-sandbox -j 2 -k --timeout 60 | mle-grade"
    " | mle-filter --keep-invalid --min-group 1 --no-spread"
)


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}


@pytest.mark.slow
def test_the_same_twice_gives_the_same_records_up_to_measured_times(tmp_path: Path) -> None:
    outputs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        line = f"set -o pipefail; mle-gen-task --source sklearn:wine -n 2 --seed 0 | {PIPE}"
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path / name, env=environment(), capture_output=True, timeout=200
        )
        assert done.returncode == 0, done.stderr.decode()
        outputs.append(without_times(records(done.stdout)))
    assert len(outputs[0]) >= 8 and outputs[0] == outputs[1]
    tools = [entry["tool"] for entry in outputs[0][0]["lineage"]]
    assert tools == ["mle-rollout", "mle-instrument", "mle-sandbox", "mle-grade", "mle-filter"]
    digests = {
        record["execution"]["submission"]["digest"] for record in outputs[0] if record["execution"]["submission"]
    }
    kept = {f"sha256:{path.stem}" for path in (tmp_path / "one" / "submissions").glob("*/*.csv")}
    assert digests <= kept


@pytest.mark.slow
def test_a_group_leaves_while_the_input_is_open(stages: dict[str, Any]) -> None:
    process = subprocess.Popen(
        ["bash", "-c", PIPE],
        cwd=stages["folder"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin and process.stdout
    first, second = stages["tasks"].read_bytes().splitlines(keepends=True)
    process.stdin.write(first)
    process.stdin.flush()
    (record,) = records(process.stdout.readline())
    assert record["filter"]["kept"] and record["filter"]["reason"] is None
    process.stdin.write(second)
    process.stdin.close()
    assert len(records(process.stdout.read())) >= 6
    assert process.wait() == 0
