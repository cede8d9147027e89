"""The demos' Makefiles with small budgets: to their end, through a kill -9, and a second time for nothing."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import BIN, ROOT, records


def command(out: Path) -> list[str]:
    return ["make", "-f", str(ROOT / "examples" / "quickstart.mk"), f"OUT={out}", "SFT_SECONDS=20", "GRPO_SECONDS=1"]


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_demo_survives_a_kill_and_does_nothing_twice(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the [train] extra")
    out = tmp_path / "demo"
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    first = subprocess.Popen(command(out), env=environment, cwd=tmp_path, start_new_session=True)
    while first.poll() is None and not (out / "sft" / "from-scratch").exists():
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    subprocess.run(command(out), env=environment, cwd=tmp_path, check=True, timeout=800)
    report = (out / "report.txt").read_text()
    assert "before" in report and "after" in report and "all" in report
    steps = records((out / "grpo" / "steps.jsonl").read_bytes())
    assert steps and (out / "grpo" / "latest" / "adapter_config.json").exists()
    for name in ("before", "after"):
        assert len(records((out / f"{name}.graded.jsonl").read_bytes())) == 256
    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("*.jsonl")}
    again = subprocess.run(command(out), env=environment, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    assert stamps == {path: path.stat().st_mtime_ns for path in out.rglob("*.jsonl")}
    assert b"up to date" in again.stdout


@pytest.mark.nightly
def test_the_demo_of_a_real_language_model(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="needs the [train] extra")
    if not (ROOT / "smollm2" / "config.json").is_file():  # where the adapter looks for its base
        pytest.skip("no real language model: no smollm2/, which make small-model writes")
    words = [f"OUT={tmp_path / 'demo'}", "ANSWERS=2"]
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["make", "-f", str(ROOT / "examples" / "smollm2.mk"), *words],
        env=environment, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    graded = records((tmp_path / "demo" / "graded.jsonl").read_bytes())
    assert len(graded) == 4 and {record["policy"]["model"] for record in graded} != {"scripted"}
    # The adapter has learnt what a program is; whether it runs depends on single tokens, and so on the processor.
    assert any("submission.csv" in (record["code"] or "") for record in graded)
    assert "The answer with the highest reward" in done.stdout and "valid" in done.stdout
