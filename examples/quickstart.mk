# The whole pipe in minutes on two cores, for reading as much as for running (`make demo`).
#
#   tasks -> a scripted teacher's rollouts -> a tiny policy, taught by imitation -> rounds of GRPO on its own rollouts
#         -> the same tasks again with fresh samples, before against after
#
# Every arrow is JSON Lines in a file or a pipe. `make -n -f examples/quickstart.mk` prints the commands; a killed run goes
# on where it stopped.

OUT ?= demo
SEED ?= 0
ROUNDS_SECONDS ?= 240

export MLE_DATA := $(OUT)
export MLE_JOBS ?= $(shell nproc)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SECONDARY:

# one short prompt a task, so that a model of a million weights can read it; the answer fits in 400 tokens
PROMPT := --prompt single-brief --max-tokens 400
LIMITS := --timeout 20 --memory 1024

.PHONY: report
report: $(OUT)/before.graded.jsonl $(OUT)/after.graded.jsonl
	@echo
	@mle-report -q --label before --label after $^
	@echo "trained on $$(jq -s 'map(.rollouts) | add' $(OUT)/grpo.jsonl) rollouts"

# real tables, and one made from a hidden rule
$(OUT)/tasks.jsonl:
	@mkdir -p $(OUT)
	@echo "1/6 tasks"
	mle-gen-task --source sklearn:wine,breast_cancer,diabetes --source tabular -n 4 --seed $(SEED) -o $@ --resume

# the teacher writes solutions from good to broken
$(OUT)/teacher.rollouts.jsonl: $(OUT)/tasks.jsonl
	mle-rollout -m scripted -g 150 $(PROMPT) --seed $(SEED) $< -o $@ --resume

# any rollouts become graded ones like this
$(OUT)/%.graded.jsonl: $(OUT)/%.rollouts.jsonl
	mle-instrument -q $< | mle-sandbox -q $(LIMITS) | mle-grade -o $@ --resume
