# A small real coder's first answers, on a laptop without a GPU (`make demo MODEL=qwen2.5-coder-0.5b`): Qwen2.5-Coder-0.5B-
# Instruct in 4 bits, by llama.cpp, on two tables. Most of its programs fail; the report says how, and what each got
# credit for. Nothing is downloaded from a model hub (small_model.py). More answers: ANSWERS=8; another file: GGUF=file.

OUT ?= demo-qwen2.5-coder-0.5b
SEED ?= 0
HERE := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
GGUF ?= $(HERE)/../qwen2.5-coder-0.5b.gguf
ANSWERS ?= 4

export MLE_DATA := $(OUT)
export HF_HUB_OFFLINE ?= 1

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SECONDARY:

$(OUT)/report.txt: $(OUT)/graded.jsonl
	mle-report -q $< --force -o $@
	@echo; echo "The answer with the highest reward:"
	@jq -sc 'max_by(.reward)' $< | mle-show -q
	@echo; cat $@; echo "All answers: mle-show $<"

$(OUT)/graded.jsonl: $(OUT)/rollouts.jsonl
	mle-instrument -q $< | mle-sandbox -q --timeout 60 --memory-size 2048 \
	  | mle-grade -q --reward partial-credit --scale-score thresholds -o $@ --resume

$(OUT)/rollouts.jsonl: $(OUT)/tasks.jsonl $(GGUF)
	mle-rollout -m llama:$(GGUF) -g $(ANSWERS) --prompt $(HERE)/sandmle/prompt.md --temperature 0.2 --max-tokens 500 \
	  --seed $(SEED) $< -o $@ --resume

$(OUT)/tasks.jsonl:
	@mkdir -p $(OUT)
	mle-gen-task -q --source sklearn:iris,diabetes -n 2 --seed $(SEED) -o $@ --resume

$(HERE)/../qwen2.5-coder-0.5b.gguf:
	python3 $(HERE)/small_model.py qwen2.5-coder-0.5b $(HERE)/../qwen2.5-coder-0.5b
