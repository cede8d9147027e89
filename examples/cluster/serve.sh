#!/usr/bin/env bash
# A vLLM server that the trainer gives each version of the policy: mle-train-grpo --publish DIR --publish-url http://HOST:8000/v1,
# mle-rollout -m policy --model-url http://HOST:8000/v1 --follow DIR. The server has to see DIR under the same path.
#
#   MODEL=Qwen/Qwen3-8B GPUS=4 examples/cluster/serve.sh
set -euo pipefail
MODEL=${MODEL:-Qwen/Qwen3-8B} GPUS=${GPUS:-1} RANK=${RANK:-32} PORT=${PORT:-8000}

# adapters are exchanged under the running server; logprobs are those of the distribution that is sampled from (--processed-logprobs)
export VLLM_ALLOW_RUNTIME_LORA_UPDATING=True
exec vllm serve "$MODEL" --port "$PORT" --tensor-parallel-size "$GPUS" --enable-lora --max-lora-rank "$RANK" \
  --logprobs-mode processed_logprobs "$@"
