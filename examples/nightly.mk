# One night of training, and what came of it (nightly.cron or nightly.timer runs it). Kill it when you like: the next night goes on.
#
#   make -f examples/nightly.mk HOURS=8 MODEL=Qwen/Qwen3-8B TASKS=train.jsonl HELD_OUT=held-out.jsonl
#   make -f examples/nightly.mk resume ...    only what a night that was killed still lacks; no new night
#   make -s -f examples/nightly.mk cron ...   a night that prints nothing unless it fails: all else goes to OUT/log (cron-resume: a resume)
#
# Before a night trains, it checks that no task of TASKS is in HELD_OUT, also under another name; it waits for the server.
#
# OUT/run is the policy, OUT/graded.jsonl all that it was trained on, OUT/NIGHT/ what each night is worth. A night is named after the minute
# in which it begins, also when it ends on another day; OUT/unfinished holds the name of one that has no report yet.

THIS := $(lastword $(MAKEFILE_LIST))
HOURS ?= 8
# what is trained, on which tasks, and measured on which others: there is no default
MODEL ?=
TASKS ?=
HELD_OUT ?=
OUT ?= nightly
UNFINISHED := $(shell cat $(OUT)/unfinished 2>/dev/null)
TRAINED := $(if $(UNFINISHED),$(wildcard $(OUT)/$(UNFINISHED)/trained))
# a server that takes the policy (cluster/serve.sh), and the seconds that a night waits until it answers. Without one:
# SAMPLER='-m hf:' PUBLISH= EVALUATOR='-m hf:nightly/run/latest'. A server that was restarted since gets the newest policy again.
SERVER ?= http://localhost:8000/v1
WAIT ?= 1800
SAMPLER ?= -m policy --model-url $(SERVER) --wait-for-server $(WAIT) -j 32
PUBLISH ?= --publish-url $(SERVER)
EVALUATOR ?= -m policy --model-url $(SERVER) --wait-for-server $(WAIT) -j 32 --follow $(OUT)/pub $(PUBLISH)
SAMPLE ?= -g 8 --max-tokens 4096
# what a program has, which prompts state; how many run at once
LIMITS ?= --timeout 600 --memory-size 16384
AT_ONCE ?= 8
REWARD ?= --reward milestone
FILTER ?= --keep-invalid
TRAIN ?= --batch 64 --save-steps 5 --keep 3 --allow-empty
EVALUATE ?= -g 4 --seed 1000000
# how long the sampler, told to end, may wait until the pipe has taken its last record: a step's time and a program's
LAST ?= 2h
# lines of OUT/log that a failed night prints for cron
TAIL ?= 20

export MLE_DATA ?= $(dir $(TASKS))
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: night resume locked-night locked-resume cron cron-resume ready

$(foreach name,MODEL TASKS HELD_OUT,$(if $(strip $($(name))),,$(error $(name) is not set: which? $(name)=...)))

# One night at a time works in OUT (75: another has the lock); a dry run, make -n, takes no lock.
DRY := $(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
LOCK := $(if $(DRY),,flock --nonblock --conflict-exit-code 75 $(OUT)/lock)
BUSY := another night is running in $(OUT): nothing was begun

night resume:
	@$(if $(DRY),,mkdir -p $(OUT);) $(LOCK) $(MAKE) -f $(THIS) locked-$@ || { code=$$?; (( code != 75 )) || echo "$(BUSY)" >&2; exit $$code; }

# A night that was killed while it trained goes on as tonight's; one that was killed behind its training gets its report before tonight's begins.
locked-night:
	$(if $(TRAINED),$(MAKE) -f $(THIS) $(OUT)/$(UNFINISHED)/report.txt NIGHT=$(UNFINISHED))
	night=$(if $(TRAINED),,$(UNFINISHED)); night=$${night:-$(or $(NIGHT),$$(date +%F-%H%M))}; $(MAKE) -f $(THIS) $(OUT)/$$night/report.txt NIGHT=$$night

locked-resume:
	$(if $(UNFINISHED),$(MAKE) -f $(THIS) $(OUT)/$(UNFINISHED)/report.txt NIGHT=$(UNFINISHED),@echo "no night is unfinished")

# A night that lasts too long is not joined by a second.
cron cron-resume:
	@mkdir -p $(OUT); { echo "== $$(date '+%F %T') $@"; \
	  $(LOCK) $(MAKE) -f $(THIS) locked-$(if $(filter cron,$@),night,resume); } >> $(OUT)/log 2>&1 || { code=$$?; \
	  if (( code == 75 )); then echo "$(BUSY)"; \
	  else echo "the night failed; the end of $(OUT)/log:"; tail -n $(TAIL) $(OUT)/log; fi; exit $$code; }

# What would end a night after hours ends it here: files without tasks, tasks of both sets.
ready:
	mle-filter -q --disjoint-from $(HELD_OUT) $(TASKS) > /dev/null

ifdef NIGHT
# A night that cannot be compared with the one before (other held-out tasks or rewards) is reported alone; the log says why.
$(OUT)/$(NIGHT)/report.txt: $(OUT)/$(NIGHT)/graded.jsonl
	before=$$(ls -d $(OUT)/*/graded.jsonl | grep -v "^$(@D)/" | tail -n 1 || true); \
	mle-report -q --html --title "The night of $(NIGHT)" --train-steps $(OUT)/run/steps.jsonl $${before:+--label before} --label $(NIGHT) $$before $< --force -o $(@D)/report.html; \
	{ [ -n "$$before" ] && mle-report -q --compare --label before --label $(NIGHT) $$before $< --force -o $@; } || mle-report -q $< --force -o $@
	@rm -f $(OUT)/unfinished; cat $@

# The pipe is ended from its head: what was sampled by then is still run, graded and trained on. (124: the time is up; 141: its reader, the
# trainer at last, has ended by itself.) A night that was killed may have torn the last line.
$(OUT)/$(NIGHT)/trained: | ready
	@mkdir -p $(@D) $(OUT)/run; echo $(NIGHT) > $(OUT)/unfinished; touch $(OUT)/graded.jsonl; [ -z "$$(tail -c 1 $(OUT)/graded.jsonl)" ] || sed -i '$$d' $(OUT)/graded.jsonl
	timeout --signal TERM --kill-after $(LAST) $(HOURS)h mle-rollout -q $(LIMITS) $(SAMPLER) --forever --follow $(OUT)/pub $(PUBLISH) --max-staleness 2 --state $(OUT)/begun $(SAMPLE) $(TASKS) \
	  | mle-instrument -q | mle-sandbox -q -j $(AT_ONCE) $(LIMITS) | mle-grade -q $(REWARD) | python3 $(dir $(THIS))tee.py $(OUT)/graded.jsonl | mle-filter -q $(FILTER) --mark \
	  | mle-train-grpo -q --stream --model $(MODEL) --run-dir $(OUT)/run --publish $(OUT)/pub $(PUBLISH) $(if $(PUBLISH),--wait-for-server $(WAIT)) --max-staleness 2 $(TRAIN) \
	    -o $(OUT)/run/steps.jsonl --resume || [[ "$${PIPESTATUS[*]}" =~ ^((0|124|141)\ ?)+$$ ]]
	@touch $@

$(OUT)/$(NIGHT)/graded.jsonl: $(OUT)/$(NIGHT)/trained | ready
	mle-rollout -q $(LIMITS) $(EVALUATOR) $(SAMPLE) $(EVALUATE) $(HELD_OUT) -o $@.rollouts --resume
	mle-instrument -q $@.rollouts | mle-sandbox -q -j $(AT_ONCE) $(LIMITS) -o $@.executed --resume
	mle-grade -q $(REWARD) $@.executed -o $@ --resume
	@rm -f $@.rollouts $@.executed
endif
