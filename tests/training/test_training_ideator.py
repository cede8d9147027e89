"""MLE-Ideator from end to end, by the lines of docs/training.md: states, ideas, rewards, GRPO, the best checkpoint."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"

BIN = Path(sys.executable).parent
LINE = """
set -euo pipefail
mle-gen-task -q --source sklearn:wine,iris -n 2 -o tasks.jsonl
mle-rollout -q --scaffold codeact -m scripted --ideator scripted:ideator --write-states states.jsonl -g 4 tasks.jsonl -o runs.jsonl
"""
TRAIN = """
set -euo pipefail
mle-rollout -q --scaffold idea -m scripted:ideator --implementer scripted -g 8 train-states.jsonl | mle-grade -q --reward improvement \
  | mle-train-grpo --preset mle-ideator --model base --run-dir run --micro-batch 4 -o steps.jsonl --validate 'mle-rollout -q \
      --scaffold idea -m hf:$MLE_POLICY --max-tokens 40 --implementer scripted -g 2 held-out.jsonl | mle-grade -q --reward improvement'
"""


def line(text: str, folder: Path) -> str:
    told = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, check=False, env=told)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_ideator_is_trained_from_states(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: training is not tested")
    pytest.importorskip("trl", reason="trl is not installed: training is not tested")
    from mletools.training.tiny import make_tiny

    torch.set_num_threads(1)
    line(LINE, tmp_path)
    states = [json.loads(each) for each in (tmp_path / "states.jsonl").read_text().splitlines()]
    states.sort(key=lambda state: len(json.dumps(state["messages"])))  # a tiny model's context is short
    for name, some in (("train-states", states[:2]), ("held-out", states[2:3])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(state) + "\n" for state in some))
    make_tiny([{"messages": state["messages"]} for state in states], tmp_path / "base", "tiny")
    config = json.loads((tmp_path / "base" / "config.json").read_text())
    (tmp_path / "base" / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 8192}))
    told = line(TRAIN, tmp_path)
    assert "16 rollouts had no token ids: the text was tokenised again" in told
    steps = [json.loads(each) for each in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert len(steps) == 1 and 8 <= steps[0]["rollouts"] <= 16 and steps[0]["grad_norm"] > 0
    assert steps[0]["staleness"] is None  # they are of another policy
    assert steps[0]["validation_reward"] == -1.0  # an untrained policy writes no idea in the format
    best = tmp_path / "run" / "best"
    assert best.resolve() == (tmp_path / "run" / "checkpoint-000001").resolve()
    assert json.loads((best / "adapter_config.json").read_text())["r"] == 32
