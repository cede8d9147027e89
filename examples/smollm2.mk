# A real language model's first answers, in a minute on two cores (`make demo MODEL=smollm2`): SmolLM2-135M-Instruct with the
# adapter in sandmle/adapter, which was trained on generated tables, on two real ones that it was not trained on.
#
# Nothing is downloaded from a model hub (small_model.py). For another model or adapter: ADAPTER=folder; more: ANSWERS=8.

OUT ?= demo-smollm2
SEED ?= 0
HERE := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
WEIGHTS := $(HERE)/../smollm2
ADAPTER ?= $(HERE)/sandmle/adapter
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
	mle-instrument -q $< | mle-sandbox -q --timeout 60 --memory-size 2048 | mle-grade -q -o $@ --resume

$(OUT)/rollouts.jsonl: $(OUT)/tasks.jsonl $(WEIGHTS)/config.json
	mle-rollout -m hf:$(ADAPTER) -g $(ANSWERS) --prompt $(HERE)/sandmle/prompt.md --max-tokens 400 --seed $(SEED) $< -o $@ --resume

$(OUT)/tasks.jsonl:
	@mkdir -p $(OUT)
	mle-gen-task -q --source sklearn:iris,diabetes -n 2 --seed $(SEED) -o $@ --resume

$(WEIGHTS)/config.json:
	python3 $(HERE)/small_model.py smollm2 $(WEIGHTS)
