# A real language model's answers in a minute on two cores (`make demo MODEL=smollm2`): SmolLM2-135M-Instruct with an adapter of
# Seed-SFT (examples/smollm2-adapter, made by `make -C examples/sandmle SIZE=small`), on tables that it has never seen.

OUT ?= demo-smollm2
SEED ?= 0
ADAPTER ?= examples/smollm2-adapter

export MLE_DATA := $(OUT)
export MLE_JOBS ?= $(shell nproc)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SECONDARY:

$(OUT)/report.txt: $(OUT)/graded.jsonl
	mle-report -q $< --force -o $@
	@cat $@; echo; echo "The best program, and what came of it:"; echo
	@mle-show -q --id "$$(jq -rs 'max_by(.reward).id' $<)" $< | head -n 60
	@echo; echo "All of them: MLE_DATA=$(OUT) mle-show $(OUT)/graded.jsonl"

$(OUT)/tasks.jsonl:
	@mkdir -p $(OUT)
	mle-gen-task --source sklearn:iris,wine -n 2 --seed $(SEED) -o $@ --resume

$(OUT)/graded.jsonl: $(OUT)/tasks.jsonl
	mle-rollout -m hf:$(ADAPTER) -g 8 --prompt examples/sandmle/prompt.md --max-tokens 400 --seed $(SEED) $< \
	  | mle-sandbox --timeout 60 | mle-grade -o $@ --resume
