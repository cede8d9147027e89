# What the experiments share. SIZE=tiny: policies from scratch, the scripted model, minutes on two cores. SIZE=paper: the papers'
# models, constants and budgets. SIZE=rehearsal: the commands of SIZE=paper, with the budgets and models of rehearsal.mk and
# servers on this machine. Every target appears when it is whole (the shell's own are NAME.new before), so `make` goes on where a
# killed one stopped. What was made of a file stays when the file is removed, and --resume keeps answers that are there: to make an
# arm again, remove OUT/ARM and OUT/ARM.*, and the tables and the page that read them.

SIZE ?= tiny
OUT ?= runs/$(SIZE)
SEED ?= 0

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

export SIZE
export MLE_DATA ?= $(OUT)
export MLE_JOBS ?= $(shell nproc)
export HF_HUB_OFFLINE ?= $(if $(filter paper,$(SIZE)),0,1)

SIZES ?= tiny rehearsal paper
ifeq ($(filter $(SIZES),$(SIZE)),)
$(error SIZE is one of $(SIZES), not $(SIZE))
endif

# the commands: those that are installed, else the checkout's own; `make -n` needs none
ifeq ($(shell command -v mle-rollout),)
export PATH := $(abspath ../../.venv/bin):$(PATH)
ifeq ($(wildcard ../../.venv/bin/mle-rollout)$(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),)
$(error no mle-rollout: install mletools with pip install '.[train,report]', or let `make .venv/.ready` at the top do it)
endif
endif

ifeq ($(SIZE),rehearsal)
include ../rehearsal.mk
endif

EXPERIMENT := $(notdir $(CURDIR))

# The machine that a program runs on, in one place. MLE-RL: 128 cores, 700 GB and A10s, here shared by eight (5.1). R&D-Agent: 12 cores,
# 220 GB, a V100 (4.1). SandMLE: an H200 (A.2). MLE-Ideator: an A10G (B.2). RL for MLE agents tells none. What a paper does not tell is
# ours: 12 cores and 64 GB. The image is that of `make image KIND=ml` at the top; PRETRAINED: a folder of pretrained weights that
# programs see (mle-rollout --weights), without which they train from nothing.
cores.mle-rl := 16
memory.mle-rl := 87500
cores.rd-agent := 12
memory.rd-agent := 220000
IMAGE ?= mletools-sandbox-ml
PRETRAINED ?=
THREADS ?= $(or $(cores.$(EXPERIMENT)),12)
MEMORY ?= $(or $(memory.$(EXPERIMENT)),64000)
PROCESSES ?= 4096
FILE_SIZE ?= 100000
DISK ?= 200000
SHARED_MEMORY ?= 16000
ENVIRONMENT = $(if $(IMAGE),--backend docker --image $(IMAGE)) $(PROGRAM_GPUS:%=--gpus %) --threads $(THREADS) --memory-size $(MEMORY) \
  --processes $(PROCESSES) --file-size $(FILE_SIZE) --disk $(DISK) $(SHARED_MEMORY:%=--shared-memory %) $(PRETRAINED:%=--weights %)

# The machine's cards, as nvidia-smi numbers them, and who has which: the trainer, the sampler beside it, beside both validation (--validate)
# or a model that instruments, programs (one card each); fresh samples of what was trained come when the trainer is gone. No two of those
# that run together are on one card, unless a share says how much of it vLLM takes. `make plan` says whether they hold what they have to
# (docs/plans.md). Other numbers of cards: set the variables. A layout: trainer, sampler, validation, programs.
layout.mle-ideator.1 := 0 0 0 -
layout.mle-ideator.8 := 0 1 2 4,5,6,7
layout.mle-rl.1 := 0 0 - -
layout.mle-rl.8 := 0,1,2,3 4,5 - 6,7
layout.rl4mle.1 := 0 0 - -
layout.rl4mle.8 := 0,1 2 3 4,5,6,7
layout.sandmle.1 := 0 0 - -
layout.sandmle.8 := 0,1,2,3 4 5 6,7
layout.rd-agent.1 := - - - 0
layout.rd-agent.8 := - - - 0,1,2,3,4,5,6,7
ifneq ($(filter paper rehearsal,$(SIZE)),)
GPUS ?= 8
CARD_GB ?= 80
HOST_GB ?= $(shell echo $$((250 * $(GPUS))))
CORES ?= $(shell echo $$((16 * $(GPUS))))
card = $(filter-out -,$(word $(1),$(layout.$(EXPERIMENT).$(GPUS))))
TRAINER_GPUS ?= $(call card,1)
SAMPLER_GPUS ?= $(call card,2)
VALIDATOR_GPUS ?= $(call card,3)
PROGRAM_GPUS ?= $(call card,4)
EVALUATOR_GPUS ?= $(SAMPLER_GPUS)
endif
# shares of a card that vLLM takes (gpu_memory_utilization); none: nearly all of it
SAMPLER_SHARE ?=
VALIDATOR_SHARE ?=
EVALUATOR_SHARE ?=
# the longest prompt with its answer, for vLLM (max_model_len); none: the model's own
CONTEXT ?=
# servers that run on this machine all the time: URL=CARDS or URL=CARDS@SHARE
servers.mle-ideator.8 := http://localhost:8000/v1=3
SERVERS ?= $(servers.$(EXPERIMENT).$(GPUS))

comma := ,
several = $(filter-out 0 1,$(words $(subst $(comma), ,$(1))))
engine = $(strip $(patsubst %,tensor_parallel_size=%,$(call several,$(1))) $(2:%=gpu_memory_utilization=%) $(CONTEXT:%=max_model_len=%))
# $(call on,CARDS,SHARE): begins a command line whose vLLM has these cards, a layer divided among them
on = $(if $(1),CUDA_VISIBLE_DEVICES=$(1) MLE_ENGINE_OPTION="$(call engine,$(1),$(2))")
# begins a trainer's: a process on each card, the weights divided among them (FSDP)
LAUNCH ?= $(if $(call several,$(TRAINER_GPUS)),accelerate launch --no_python --config_file ../cluster/fsdp2.yaml \
  --num_processes $(call several,$(TRAINER_GPUS)))
TRAINER = $(strip $(if $(TRAINER_GPUS),CUDA_VISIBLE_DEVICES=$(TRAINER_GPUS)) $(LAUNCH))
VALIDATOR = $(call on,$(VALIDATOR_GPUS),$(VALIDATOR_SHARE))
# all others'
ifneq ($(EVALUATOR_GPUS),)
export CUDA_DEVICE_ORDER := PCI_BUS_ID
export CUDA_VISIBLE_DEVICES := $(EVALUATOR_GPUS)
export MLE_ENGINE_OPTION = $(call engine,$(EVALUATOR_GPUS),$(EVALUATOR_SHARE))
endif

# where the prepared competitions and the benchmark's checkout lie
BENCH ?= mle-bench/data
REPO ?= mle-bench

# How what was sampled is run, where the agent does not do that itself. $(call kept,NAME) ends a command whose records a killed make is not
# to make a second time, where the target says so: private KEEP := yes.
RUN ?= | mle-instrument -q --allow-empty $(call kept,instrumented) | mle-sandbox -q --allow-empty $(LIMITS) $(call kept,executed)
KEEP :=
kept = $(if $(KEEP),-o $@.$(1) --resume; cat $@.$(1))

# $(call train,FROM,TO,NUMBER,TASKS,GRADE,TRAIN): NUMBER optimiser steps over one endless pipe, from the policy in FROM, into TO/latest; fewer
# where PASSES over the tasks do not give so many (a filter drops what teaches nothing). The sampler takes each policy as it is published,
# goes STALENESS updates ahead, and ends with the trainer, which takes what BOUND lets in; what was sampled is in TO/graded.jsonl, without
# a last line that was torn. A pipe that was killed goes on.
# (141: a command in the middle found its reader gone; --allow-empty: a pipe that goes on may have nothing left to sample.)
FILTER ?= mle-filter -q --keep-invalid --keep-duplicates
STALENESS ?= 1
BOUND ?= --max-staleness $(STALENESS)
PASSES ?=
# an adapter of this rank in place of what the paper trains; tokens of a micro-batch (none: what fits the card's free memory)
LORA_RANK ?=
MICRO_TOKENS ?=
whole = touch $(1); [ -z "$$(tail -c 1 $(1))" ] || sed -i '$$d' $(1)
define train
mkdir -p $(2); $(call whole,$(2)/graded.jsonl); \
  $(if $(SERVER),,$(call on,$(SAMPLER_GPUS),$(SAMPLER_SHARE))) $(ROLLOUT) -q $(SAMPLER) --forever $(PASSES:%=--passes %) --follow $(2)/pub $(SERVER:%=--publish-url %) --max-staleness $(STALENESS) --state $(2)/begun --seed $(SEED) \
    $(SAMPLE) $(4) $(RUN) \
  | mle-grade -q --allow-empty $(5) | python3 ../tee.py $(2)/graded.jsonl | $(FILTER) --allow-empty --mark \
  | $(TRAINER) mle-train-grpo --stream --allow-empty --publish $(2)/pub $(SERVER:%=--publish-url %) $(BOUND) --max-steps $(3) --model $(1) --run-dir $(2) \
    --seed $(SEED) $(TRAIN) $(LORA_RANK:%=--lora-rank %) $(MICRO_TOKENS:%=--micro-tokens %) $(6) -o $(2)/steps.jsonl --resume || (( $$? == 141 ))
$(call whole,$(2)/graded.jsonl)
@[ -e $(2)/latest ] || { echo "$(2): no step was made: nothing in $(2)/graded.jsonl teaches" >&2; exit 1; }
endef

# Who answers, while training and afterwards: transformers or vLLM in the sampler's own process, which takes each version of the policy from
# its folder. Or a vLLM server, which the trainer loads each version into (cluster/serve.sh with its RANK, which `make needs` tells):
# SERVER=http://localhost:8000/v1. SIZE=small takes vLLM where it is installed beside the sampler's command, which may be that of an
# environment of its own: ROLLOUT=../../.vllm/bin/mle-rollout.
ROLLOUT ?= mle-rollout
VLLM := $(wildcard $(dir $(shell command -v $(ROLLOUT)))vllm)
LOCAL ?= $(or $(if $(filter tiny,$(SIZE)),hf),$(if $(filter small,$(SIZE)),$(if $(VLLM),,hf)),vllm)
SERVER ?=
SAMPLER := $(if $(SERVER),-m policy --model-url $(SERVER),-m $(LOCAL):)

# $(call weights,ARM): the folder of what ARM's training came to; base is what all of them began from. $(call policy,ARM): as a model
weights = $(if $(filter base,$(1)),$(POLICY),$(OUT)/$(1)/latest)
policy = $(LOCAL):$(call weights,$(1))

# $(call sampled,OPTIONS AND TASKS): the rollouts, from a file of their own, so that a killed make samples none of them, and pays for none,
# a second time
sampled = $(ROLLOUT) -q $(1) -o $@.rollouts --resume; cat $@.rollouts

# $(call only,TASKS,ARMS,FOLDER,KIND): of each arm's graded rollouts (those of OUT/ARM.KIND.jsonl) those of the tasks in the file TASKS, into
# FOLDER/ARM.jsonl
only = mkdir -p $(3); for arm in $(2); do \
    jq -c --slurpfile tasks $(1) 'select(.task.id | IN($$tasks[].id))' $(OUT)/$$arm.$(or $(4),graded).jsonl > $(3)/$$arm.jsonl; done

.PHONY: all results clean options differences needs plan
INNER := $(MAKE)
# one command line after the other: two would want the same cards
ifneq ($(filter paper rehearsal,$(SIZE)),)
.NOTPARALLEL:
endif
# A rehearsal makes its model and its competitions, and runs between the start and the end of its servers.
ifeq ($(SIZE),rehearsal)
SMALL_MODEL ?= ../../smollm2
all:
	mkdir -p $(OUT)
	python3 ../small_model.py smollm2 $(SMALL_MODEL)
	python3 ../rehearsal_model.py $(SMALL_MODEL) $(POLICY)
	python3 ../competitions.py $(OUT)/bench
	env -u CUDA_VISIBLE_DEVICES python3 ../servers.py $(POLICY) $(PORT) $(EMBEDDING_PORT) $(OUT)/servers -- \
	  python3 ../processes.py $(OUT)/processes.jsonl -- $(INNER) --no-print-directory results
else ifeq ($(SIZE),paper)
all: needs
	@$(INNER) --no-print-directory results
else
all: results
endif

# what has to be there before the first command: servers, keys, prices, competitions, the image, cards. One line for each that is not
needs:
	@$(INNER) -s -n --always-make results | python3 ../needs.py

# of each stage the processes and their cards, memory, rollouts, hours, tokens and USD; an error where something does not fit
# PROGRAM_SECONDS: of a program, where that is less than its limit; PRICES: a file of prices; usd: of a run, as the papers tell (table 8;
# the costs of an implementer alone)
usd.rd-agent := 20.74
usd.mle-ideator := 1.4
PRICES ?=
PROGRAM_SECONDS ?=
plan:
	@python3 ../plan.py GPUS=$(GPUS) CARD_GB=$(CARD_GB) HOST_GB=$(HOST_GB) CORES=$(CORES) SERVERS='$(SERVERS)' PRICES=$(PRICES) \
	  PROGRAM_SECONDS=$(PROGRAM_SECONDS) USD=$(usd.$(EXPERIMENT))

clean:
	rm -rf $(OUT)

# every command of the experiment, with --dry-run and an empty input
options:
	@$(MAKE) -s -n --always-make results | python3 ../options.py

# what a rehearsal has other than the paper; an error where a recipe differs by anything else
differences:
	@python3 ../differences.py
