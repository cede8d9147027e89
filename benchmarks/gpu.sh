#!/usr/bin/env bash
# What one GPU shows of mletools in six minutes, from a checkout, without a network:
#
#   benchmarks/gpu.sh [OUT]                    OUT (default: gpu-results) gets results.jsonl and commands.log
#   WHEELS=wheels benchmarks/gpu.sh [OUT]      installs these wheels into a folder of its own first, nothing else with them
#   MINUTES=4 benchmarks/gpu.sh [OUT]          what does not fit is skipped, and said
#   benchmarks/gpu.sh --smoke [OUT]            the same in small, for a CPU (two minutes on two cores)
#
# It needs a Python (PYTHON=python3) with torch, transformers, peft, accelerate, pandas, scikit-learn and click, and these wheels (2.1 MB):
#
#   pip download --no-deps --python-version 3.12 --only-binary :all: -d wheels \
#     trl==1.16.0 datasets==5.2.0 dill==0.4.1 multiprocess==0.70.19 jsonlines==4.0.0 msgspec==0.22.0
#
# In kB: trl 948, datasets 608, msgspec 230, multiprocess 150, dill 120, jsonlines 9.
#
# Each probe is a line of results.jsonl, written as soon as it is done (gpu_probe.py has them in their order); one that fails
# says why and the next begins. Models have random weights in the shapes of Qwen2.5-0.5B and Qwen3-8B, made on the card.
set -euo pipefail
cd "$(dirname "$0")/.."
SMOKE=()
if [ "${1:-}" = --smoke ]; then SMOKE=(--smoke); shift; fi
PYTHON=${PYTHON:-python3}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TRL_EXPERIMENTAL_SILENCE=1 PYTHONPATH="$WORK/site:$PWD"
if [ -n "${WHEELS:-}" ]; then
  "$PYTHON" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$WORK/site" "$WHEELS"/*.whl
fi
"$PYTHON" benchmarks/gpu_probe.py "${SMOKE[@]}" --minutes "${MINUTES:-6}" --work "$WORK" "${1:-gpu-results}"
