#!/usr/bin/env bash
# Training on all GPUs of some nodes, by accelerate under Slurm, from graded rollouts.
#
#   sbatch --nodes=2 examples/cluster/train-slurm.sh examples/cluster/fsdp2.yaml --model Qwen/Qwen3-8B --run-dir runs/grpo graded.jsonl --resume
#
#SBATCH --job-name=mletools-train
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --requeue
set -euo pipefail
CONFIG=$1
shift
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# in quotes: each node puts its own number in
# shellcheck disable=SC2016
srun bash -c 'accelerate launch --config_file "$0" --num_machines "$SLURM_NNODES" --num_processes "$((SLURM_NNODES * SLURM_GPUS_ON_NODE))" \
  --machine_rank "$SLURM_NODEID" --main_process_ip "$1" --main_process_port 29500 "$(command -v mle-train-grpo)" "${@:2}"' "$CONFIG" "$HEAD" "$@"
