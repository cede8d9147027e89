#!/usr/bin/env bash
# The small size of an experiment with a real model on one GPU, from a checkout, without a network: minutes in place of nights.
#
#   split -b 60M qwen2.5-coder-0.5b.gguf pieces/       # of the file that make small-model MODEL=qwen2.5-coder-0.5b wrote
#   WHEELS=wheels PIECES=pieces MINUTES=8 benchmarks/coder_gpu.sh rl4mle [OUT] [NAME=VALUE ...]
#   benchmarks/coder_gpu.sh rl4mle OUT POLICY=folder    # a checkpoint that is there
#
# OUT (default: coder-gpu-results) gets what real_lm.py keeps of each part that came to its end, and what it prints; of a part that
# did not come to its end nothing is kept. NAME=VALUE: of the experiment's Makefile (SEED excepted; SEEDS="1 2": which).
#
# The answers are sampled by transformers on the same card (LOCAL=vllm where vLLM is there), programs run on the CPU. It needs
# make, jq, and a Python (PYTHON=python3) as gpu.sh does, whose wheels are wanted here too, and besides:
#
#   pip download --no-deps --only-binary :all: -d wheels gguf tabulate
set -euo pipefail
cd "$(dirname "$0")/.."
EXPERIMENT=${1:?which experiment of real_lm.py: rl4mle}
OUT=${2:-coder-gpu-results}
shift $(($# < 2 ? $# : 2))
PYTHON=${PYTHON:-python3}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TRL_EXPERIMENTAL_SILENCE=1 PYTHONPATH="$WORK/site:$PWD" PATH="$WORK/bin:$PATH"
if [ -n "${WHEELS:-}" ]; then
  "$PYTHON" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$WORK/site" "$WHEELS"/*.whl
fi
mkdir -p "$WORK/bin" "$OUT"
for command in bin/mle-*; do # with this Python, whatever a checkout's own is
  printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$PYTHON" "$PWD/$command" >"$WORK/bin/$(basename "$command")"
done
chmod +x "$WORK"/bin/*
SETTINGS=(--set LOCAL="${LOCAL:-hf}")
for setting in "$@"; do
  # make runs in the experiment's folder
  if [[ $setting == POLICY=* && -d ${setting#*=} ]]; then setting="POLICY=$(realpath "${setting#*=}")"; fi
  SETTINGS+=(--set "$setting")
done
if [ -n "${PIECES:-}" ]; then
  cat "$PIECES"/* >"$WORK/base.gguf"
  "$PYTHON" examples/small_model.py qwen2.5-coder-0.5b "$WORK/base"
  SETTINGS+=(--set POLICY="$WORK/base")
fi
"$PYTHON" benchmarks/real_lm.py "$EXPERIMENT" --seeds ${SEEDS:-0 1} --hours "$(awk "BEGIN { print ${MINUTES:-8} / 60 }")" \
  --out "$WORK/runs" --kept "$OUT" "${SETTINGS[@]}" | tee "$OUT/$EXPERIMENT.md"
