# What the experiments share. SIZE=tiny: policies from scratch, the scripted model, minutes on two cores. SIZE=paper: the paper's
# models, constants and budgets. Every file appears when it is whole, so `make` goes on where a killed one stopped.

SIZE ?= tiny
OUT ?= runs/$(SIZE)
SEED ?= 0

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

export MLE_DATA ?= $(OUT)
export MLE_JOBS ?= $(shell nproc)
export HF_HUB_OFFLINE ?= $(if $(filter tiny,$(SIZE)),1,0)

ifeq ($(filter tiny paper,$(SIZE)),)
$(error SIZE is tiny or paper, not $(SIZE))
endif

# the commands: those that are installed, else the checkout's own; `make -n` needs none
ifeq ($(shell command -v mle-rollout),)
export PATH := $(abspath ../../.venv/bin):$(PATH)
ifeq ($(wildcard ../../.venv/bin/mle-rollout)$(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),)
$(error no mle-rollout: install mletools with pip install '.[train,report]', or let `make .venv/.ready` at the top do it)
endif
endif

# How what was sampled is run, where the agent does not do that itself.
RUN ?= | mle-instrument -q --allow-empty | mle-sandbox -q --allow-empty $(LIMITS)

# $(call train,FROM,TO,NUMBER,TASKS,GRADE,TRAIN): NUMBER optimiser steps over one endless pipe, from the policy in FROM, into TO/latest; fewer
# where PASSES over the tasks do not give so many (a filter drops what teaches nothing). The sampler takes each policy as it is published,
# and ends with the trainer; what it sampled is in TO/graded.jsonl, without a last line that tee has torn. A pipe that was killed goes on.
# (141: a command in the middle found its reader gone; --allow-empty: a pipe that goes on may have nothing left to sample.)
FILTER ?= mle-filter -q --keep-invalid --keep-duplicates
STALENESS ?= 1
PASSES ?=
whole = touch $(1); [ -z "$$(tail -c 1 $(1))" ] || sed -i '$$d' $(1)
define train
mkdir -p $(2); $(call whole,$(2)/graded.jsonl); \
  mle-rollout -q $(SAMPLER) --forever $(PASSES:%=--passes %) --follow $(2)/pub --max-staleness $(STALENESS) --state $(2)/begun --seed $(SEED) \
    $(SAMPLE) $(4) $(RUN) \
  | mle-grade -q --allow-empty $(5) | tee -a $(2)/graded.jsonl | $(FILTER) --allow-empty --mark \
  | mle-train-grpo --stream --allow-empty --publish $(2)/pub $(SERVER:%=--publish-url %) --max-staleness $(STALENESS) --max-steps $(3) --model $(1) --run-dir $(2) \
    --seed $(SEED) $(TRAIN) $(6) -o $(2)/steps.jsonl --resume || (( $$? == 141 ))
$(call whole,$(2)/graded.jsonl)
endef

# Who answers, while training and afterwards: transformers or vLLM in the sampler's own process, which takes each version of the policy from
# its folder. Or a vLLM server, which the trainer loads each version into (RANK=0 cluster/serve.sh):
# SERVER=http://localhost:8000/v1. vLLM in the sampler's process starts anew for each version of all weights.
LOCAL := $(if $(filter tiny,$(SIZE)),hf,vllm)
SERVER ?=
SAMPLER := $(if $(SERVER),-m policy --model-url $(SERVER),-m $(LOCAL):)

# $(call policy,ARM): who is evaluated, what ARM's training came to; base is what all of them began from
policy = $(LOCAL):$(if $(filter base,$(1)),$(POLICY),$(OUT)/$(1)/latest)

.PHONY: all clean options
clean:
	rm -rf $(OUT)

# every command of the experiment through its own parser
options:
	@$(MAKE) -s -n --always-make all | python3 ../options.py
