#!/usr/bin/env bash
# What a machine with one GPU and no network can show of mletools, in under nine minutes, from a checkout:
#
#   benchmarks/gpu.sh [OUT]                      OUT: results.jsonl and logs (default: gpu-results)
#   WHEELS=wheels benchmarks/gpu.sh [OUT]        installs what is missing from a folder of wheels for this Python:
#                                                pip download --only-binary :all: -d wheels . trl==1.16.0 peft accelerate datasets
#   benchmarks/gpu.sh --smoke [OUT]              the same with a tiny model, for a CPU
#
# A model of 0.5 billion random weights (Qwen2.5's shape): sampling with hf:, mle-train-sft and mle-train-grpo with LoRA and all weights
# (on a GPU: bfloat16, gradient checkpointing), and a program that multiplies on the device of its lease in the sandbox. Each line of
# results.jsonl has tokens a second, the peak that torch allocated (on a CPU: of the process), and the estimate of --dry-run.
set -euo pipefail
cd "$(dirname "$0")/.."
SMOKE=0
if [ "${1:-}" = --smoke ]; then SMOKE=1; shift; fi
OUT=$(realpath -m "${1:-gpu-results}")
mkdir -p "$OUT"
export HF_HUB_OFFLINE=1 SMOKE OUT MINUTES=${MINUTES:-9} PYTHON=${PYTHON:-python3}

if ! "$PYTHON" -c 'import mletools, torch, transformers, trl, peft, accelerate, datasets' 2>"$OUT/imports.log"; then
  [ -n "${WHEELS:-}" ] || { tail -n 1 "$OUT/imports.log" >&2; echo "set WHEELS to a folder of wheels, or PYTHON to a Python that has them" >&2; exit 1; }
  "$PYTHON" -m venv --system-site-packages "$OUT/venv"
  # this Python may be one of a venv itself: its packages are seen through a .pth file
  "$PYTHON" -c 'import site; print("\n".join(site.getsitepackages()))' > "$("$OUT/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/outer.pth"
  PYTHON=$OUT/venv/bin/python
  "$PYTHON" -m pip install --quiet --no-index --find-links "$WHEELS" --no-build-isolation --no-deps -e . 2>>"$OUT/imports.log" \
    || "$PYTHON" -c 'import os, site; print(os.getcwd())' > "$("$PYTHON" -c 'import site; print(site.getsitepackages()[0])')/mletools.pth"
  "$PYTHON" -m pip install --quiet --no-index --find-links "$WHEELS" --no-deps "$WHEELS"/*.whl
fi

exec "$PYTHON" benchmarks/gpu_steps.py
