#!/usr/bin/env bash
# A vLLM server that the trainer gives each version of the policy: mle-train-grpo --publish DIR --publish-url http://HOST:8000/v1,
# mle-rollout -m policy --model-url http://HOST:8000/v1 --follow DIR. The server has to see DIR under the same path.
#
#   MODEL=Qwen/Qwen3-8B GPUS=4 examples/cluster/serve.sh
#   RANK=0 HOST=10.0.0.1 examples/cluster/serve.sh      for mle-train-grpo --lora-rank 0 (mle-rl, sandmle, duration-aware)
set -euo pipefail
MODEL=${MODEL:-Qwen/Qwen3-8B} GPUS=${GPUS:-1} RANK=${RANK:-32} PORT=${PORT:-8000} HOST=${HOST:-}

if (( RANK )); then # adapters are exchanged under the running server
  export VLLM_ALLOW_RUNTIME_LORA_UPDATING=True
  takes=(--enable-lora --max-lora-rank "$RANK")
else # all weights are: whoever reaches the port can replace them, so HOST must be an address in a private network
  export VLLM_SERVER_DEV_MODE=1
  takes=(--served-model-name policy)
fi
# logprobs are those of the distribution that is sampled from
exec vllm serve "$MODEL" --port "$PORT" ${HOST:+--host "$HOST"} --tensor-parallel-size "$GPUS" "${takes[@]}" \
  --logprobs-mode processed_logprobs "$@"
