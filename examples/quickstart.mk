# The whole pipe in minutes on two cores, for reading as much as for running (`make demo`).
#
#   tasks -> a scripted teacher's rollouts -> a tiny policy, taught by imitation -> rounds of GRPO on its own rollouts
#         -> the same tasks again with fresh samples: before against after
#
# Every arrow is JSON Lines in a file or a pipe. `make -n -f examples/quickstart.mk` prints the commands; a run that was
# killed goes on where it stopped.

OUT ?= demo
SEED ?= 0
SFT_SECONDS ?= 90
GRPO_SECONDS ?= 270

export MLE_DATA := $(OUT)
export MLE_JOBS ?= $(shell nproc)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SECONDARY:

# a short prompt and short answers: the policy has a million parameters
SAMPLE := --prompt single-brief --max-tokens 300 --engine-batch 256
LIMITS := --timeout 20 --memory-size 1024

$(OUT)/report.txt: $(OUT)/before.graded.jsonl $(OUT)/after.graded.jsonl
	mle-report -q --label before --label after $^ --force -o $@
	@cat $@; echo "Policies: $(OUT)/sft/latest (before), $(OUT)/grpo/latest (after); steps: $(OUT)/grpo/steps.jsonl"

# 1. Tasks: four real tables. (Made tasks need longer programs than this tiny policy can learn.)
$(OUT)/tasks.jsonl:
	@mkdir -p $(OUT)
	@echo "1/6 tasks (15 s)"
	mle-gen-task --source sklearn:wine,breast_cancer,diabetes,iris -n 4 --seed $(SEED) -o $@ --resume

# 2. A teacher without weights writes solutions from good to broken; the valid ones are kept.
$(OUT)/teacher.rollouts.jsonl: $(OUT)/tasks.jsonl
	@echo "2/6 the teacher's rollouts (a minute)"
	mle-rollout -m scripted -g 100 $(SAMPLE) --seed $(SEED) $< -o $@ --resume

$(OUT)/teacher.kept.jsonl: $(OUT)/teacher.graded.jsonl
	mle-filter --no-spread --min-group 1 --keep-duplicates $< --force -o $@

# Any rollouts are instrumented, run, and graded like this.
$(OUT)/%.graded.jsonl: $(OUT)/%.rollouts.jsonl
	mle-instrument -q $< | mle-sandbox -q $(LIMITS) | mle-grade -o $@ --resume

# 3. A tiny policy from scratch, taught to imitate them.
$(OUT)/sft/done: $(OUT)/teacher.kept.jsonl
	@echo "3/6 imitation (at most $(SFT_SECONDS) s)"
	@mkdir -p $(OUT)/sft
	mle-train-sft --from-scratch tiny --run-dir $(OUT)/sft --epochs 1000 --max-seconds $(SFT_SECONDS) \
	  --batch 32 --micro-batch 32 --learning-rate 3e-3 --seed $(SEED) $< -o $(OUT)/sft/steps.jsonl --resume
	@touch $@

# 4. What it can do before reinforcement: fresh samples on every task.
$(OUT)/before.rollouts.jsonl: $(OUT)/sft/done $(OUT)/tasks.jsonl
	@echo "4/6 evaluation before (half a minute)"
	mle-rollout -m hf:$(OUT)/sft/latest -g 64 $(SAMPLE) --seed 1000000 $(OUT)/tasks.jsonl -o $@ --resume

# 5. Rounds of GRPO: sample, run, grade, train, and again with the new policy, until the budget ends. (--allow-empty: in a round
# whose groups all have one reward there is nothing to train on.)
$(OUT)/grpo/done: $(OUT)/sft/done $(OUT)/tasks.jsonl
	@echo "5/6 reinforcement ($(GRPO_SECONDS) s, and the round that is then under way)"
	@mkdir -p $(OUT)/grpo
	round=$$(cat $(OUT)/grpo/round 2>/dev/null || echo 1); policy=$(OUT)/sft/latest; \
	while (( SECONDS < $(GRPO_SECONDS) )); do \
	  if [ -e $(OUT)/grpo/latest ]; then policy=$(OUT)/grpo/latest; fi; \
	  echo "round $$round, $$SECONDS s of $(GRPO_SECONDS)"; \
	  mle-rollout -q -m hf:$$policy -g 64 $(SAMPLE) --seed $$round $(OUT)/tasks.jsonl \
	    | mle-instrument -q | mle-sandbox -q $(LIMITS) | mle-grade -q | mle-filter -q --keep-invalid --keep-duplicates \
	    | mle-train-grpo --allow-empty --model $(OUT)/sft/latest --run-dir $(OUT)/grpo --groups-per-step 4 --epochs 4 --micro-batch 64 \
	      --epsilon-high 0.28 --learning-rate 2e-3 -o $(OUT)/grpo/steps.jsonl --resume; \
	  round=$$(( round + 1 )); echo $$round > $(OUT)/grpo/round; \
	done
	@touch $@

# 6. The same tasks, fresh samples again.
$(OUT)/after.rollouts.jsonl: $(OUT)/grpo/done $(OUT)/tasks.jsonl
	@echo "6/6 evaluation after (half a minute)"
	mle-rollout -m hf:$(OUT)/grpo/latest -g 64 $(SAMPLE) --seed 1000000 $(OUT)/tasks.jsonl -o $@ --resume
