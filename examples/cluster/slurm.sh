#!/usr/bin/env bash
# Rollouts of many tasks as a Slurm array: each job takes its share of the tasks, and a job that is preempted goes on.
#
#   sbatch --array=0-15 examples/cluster/slurm.sh tasks.jsonl out    # the first counts from 0 or 1, without gaps
#   sbatch --array=3,7 examples/cluster/slurm.sh tasks.jsonl out    # these again: the shares stay those of the first array
#   cat out/part-*.jsonl > graded.jsonl       # when all are done
#
#SBATCH --job-name=mletools
#SBATCH --cpus-per-task=16
#SBATCH --mem=64G
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
TASKS=$1 OUT=$2
PART=${SLURM_ARRAY_TASK_ID:?is not set: submit with --array} PARTS=${SLURM_ARRAY_TASK_COUNT:-1}
MODEL=${MODEL:-"-m Qwen/Qwen3-8B --model-url http://localhost:8000/v1 -j 32"} # the words of mle-rollout that say who answers
SAMPLE=${SAMPLE:-"-g 8"}

# the folder that the tasks' "data" is relative to
MLE_DATA=${MLE_DATA:-$(dirname "$TASKS")}
export MLE_DATA
FIRST=${SLURM_ARRAY_TASK_MIN:-0} GAPS=$((${SLURM_ARRAY_TASK_MAX:-$((FIRST + PARTS - 1))} - FIRST + 1 - PARTS))
for divided in "$OUT"/of-*; do [ ! -d "$divided" ] || PARTS=${divided##*-} FIRST=0 GAPS=0; done
((FIRST <= 1 && GAPS == 0)) || {
  echo "the first array in $OUT divides the tasks: it counts from 0 or 1 without gaps (--array=0-15)" >&2
  exit 1
}
((PART <= PARTS)) || {
  echo "$OUT holds $PARTS shares of the tasks, and there is no share $PART: take another folder" >&2
  exit 1
}
PART=$((PART % PARTS)) # the last of shares that are counted from 1 is the first of those from 0
mkdir -p "$OUT/of-$PARTS"
# each job has its own submissions and tape; the same seed everywhere, for a group's seed is made of its task as well
awk -v part="$PART" -v parts="$PARTS" 'NR % parts == part % parts' "$TASKS" > "$OUT/tasks-$PART.jsonl"
# shellcheck disable=SC2086
mle-rollout -q --allow-empty $MODEL $SAMPLE "$OUT/tasks-$PART.jsonl" -o "$OUT/rollouts-$PART.jsonl" --resume
mle-sandbox -q --allow-empty -j "${SLURM_CPUS_PER_TASK:-2}" "$OUT/rollouts-$PART.jsonl" -o "$OUT/executed-$PART.jsonl" --resume
mle-grade -q --allow-empty "$OUT/executed-$PART.jsonl" -o "$OUT/part-$PART.jsonl" --resume
