# SIZE=rehearsal: what it has other than SIZE=paper, and all of it: budgets, names and addresses of models, names of
# competitions, and the machine that programs run on. The recipes are those of SIZE=paper (`make differences` checks that,
# and prints this page against the paper's values). Servers of one tiny model (rehearsal_model.py) stand in for every model.

# ---- models: vLLM on this machine behind every address; policies in transformers, in the command's own process
# (0: no server, where an experiment needs none)
NAMED := $(notdir $(CURDIR))
PORT ?= $(if $(filter rl4mle mle-rl,$(NAMED)),0,18431)
EMBEDDING_PORT ?= $(if $(filter rd-agent,$(NAMED)),18432,0)
MODEL := rehearsal
RESEARCHER := rehearsal
EMBEDDER := rehearsal
AUTHOR := rehearsal
CLASSIFIER := rehearsal
SMALL_IMPLEMENTER := rehearsal
STRONG := rehearsal
URL := http://127.0.0.1:$(PORT)/v1
AUTHOR_URL := http://127.0.0.1:$(PORT)/v1
STRONG_URL := http://127.0.0.1:$(PORT)/v1
SMALL_URL := http://127.0.0.1:$(PORT)/v1
EMBEDDING_URL := http://127.0.0.1:$(EMBEDDING_PORT)/v1
PRICE := 0.1,0.4
LOCAL := hf
POLICY := ../../runs/rehearsal-thinks
MICRO_BATCH := 4
# two cores for servers, samplers and programs: threads that wait for each other would take them away
export OMP_NUM_THREADS := 1
export OMP_WAIT_POLICY := PASSIVE

# ---- competitions: three small ones in MLE-bench's layout, and one in MLE-Dojo's (competitions.py)
BENCH := $(OUT)/bench/data
REPO := $(OUT)/bench
DOJO := $(OUT)/bench/dojo
DOJO_REPO := $(OUT)/bench
TEN := learning-agency-lab-automated-essay-scoring-2
TWELVE := tabular-playground-series-may-2022
FORTY := tabular-playground-series-may-2022 dogs-vs-cats-redux-kernels-edition

# ---- the machine: this one. Its cards are pretended where there are none: processes are told theirs, programs lease theirs,
# and a rehearsal fails where two that run together have the same (processes.py). IMAGE: where a Docker daemon runs, the name
# of an image (make image); its daemon knows no pretended cards, so PROGRAM_GPUS= goes with it
GPUS := 8
LAUNCH :=
TRAINER_GPUS := 0
SAMPLER_GPUS := 1
EVALUATOR_GPUS := 1
VALIDATOR_GPUS := 2
PROGRAM_GPUS := 4,5,6,7
IMAGE ?=
THREADS := 1
MEMORY := 2048
PROCESSES := 64
FILE_SIZE := 64
DISK := 256
SHARED_MEMORY :=

# ---- budgets
RUNS := 1
REPEATS := 1
ABLATION_RUNS := 1
STEPS := 1
# of a pass few steps are worth learning from (mle-rl), and a run ends with its last step in any case
PASSES := $(if $(filter mle-rl,$(NAMED)),48,$(if $(filter rl4mle,$(NAMED)),16,4))
GROUP := 4
SAMPLES := 4
COUNTS := 2 4
JOBS := 4
RUN_SECONDS := 30
SEARCH_SECONDS := 60
FULL_SECONDS := 40
LITE_SECONDS := 40
LITE_RUN_SECONDS := 30
DOJO_SECONDS := 40
GROUPS_PER_STEP := 1
EPISODE_SECONDS := 40
SAMPLED_TURNS := 3
EVALUATED_TURNS := 4
TURNS := 1 2
BATCH := 4
ANSWER_TOKENS := 360
SMALL_TOKENS := 360
TRACE_TOKENS := 1200
STATE_RUNS := 12
TRAIN_STATES := 2
VALIDATION_STATES := 1
TRAIN_SHARE := 0.6
VALIDATION_SHARE := 0.4
IDEA_TOKENS := 100
IDEA_JOBS := 4
DRAFTS := 2
# the author's drafts end at its specification, so that policies train on tasks from hidden rules
PROCEDURAL := 6
SEED_TRAJECTORIES := 2
TRAINED_TASKS := 4
VALIDATION_TASKS := 1
