# Needs nothing but Python 3.11 or newer and make: every target installs what it uses into .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Most modules of the packages are never imported: those that are get compiled when they are first.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# Whatever the environment says: without it every process compiles what it imports.
export PYTHONDONTWRITEBYTECODE :=
SOURCES := pyproject.toml constraints.txt client/pyproject.toml client/hatch_build.py $(wildcard proto/inference/*.proto proto/limelight/*/*.proto proto/limelight/*/*/*.proto)

.DEFAULT_GOAL := help
.PHONY: help dev performance peers demo demo-models install-demo-models protocol-image graphs test search lint types docs site clean

help:  ## Lists the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 24

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/serve.stamp: $(SOURCES) | $(VENV)/bin/python
	$(PIP) --editable './client[cli]' --editable '.[serve,http]'
	@$(BIN)/python -c 'import limelight.cli.commands, limelight_service.demo, limelight_service.checking.child'
	@touch $@

$(VENV)/dev.stamp: $(SOURCES) | $(VENV)/bin/python
	$(PIP) --editable './client[cli]' --editable '.[dev]'
	@$(BIN)/python -c 'import limelight.cli.commands, limelight_export, limelight_models.training.command, limelight_service.demo'
	@touch $@ $(VENV)/serve.stamp

dev: $(VENV)/dev.stamp  ## Installs what training, exporting and the tests need; serving is part of it.

# A demo model: its name, what is trained, and how it is exported.
define demo-model
$(BIN)/limelight train $(2) --preset demo --name $(1) --out build/demo-runs/$(1)
$(BIN)/limelight export build/demo-runs/$(1) --repository build/demo $(3)
endef

demo: $(VENV)/serve.stamp  ## Serves five trained models and prints commands to try.
	$(BIN)/limelight demo

demo-models: $(VENV)/dev.stamp  ## Trains and exports the five demo models again, from nothing, into build/demo.
	rm -rf build/demo-runs build/demo
	$(call demo-model,dates,bahdanau,--half-weights)
	$(call demo-model,numbers,transformer --data builtin:demo-numbers --epochs 18,--half-weights)
	$(call demo-model,digits,cct-supervised --data builtin:demo-digits,--half-weights)
	$(call demo-model,canvas,hiecoatt-supervised --data builtin:demo-canvas,--half-weights)
	$(call demo-model,slips,han-code-supervised --data builtin:demo-slips,--half-weights)

install-demo-models:  ## Puts the models of build/demo in place of those in deploy/demo, which are tracked.
	test -d build/demo || { echo "run make demo-models first" >&2; exit 1; }
	rm -rf deploy/demo && cp -R build/demo deploy/demo

protocol-image: $(VENV)/dev.stamp  ## Writes proto/limelight.binpb.gz again, which the protocol may not break.
	cd proto && if [ -e limelight.binpb.gz ]; then $(abspath $(BIN))/buf breaking --against limelight.binpb.gz; fi
	cd proto && $(abspath $(BIN))/buf build --exclude-source-info -o limelight.binpb.gz

graphs: $(VENV)/dev.stamp  ## Writes the small graphs of service/limelight_service/engine/graphs again, from their text.
	$(BIN)/python -m pages.graphs

lint: $(VENV)/dev.stamp  ## Checks style, and that formatting is ruff's.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp  ## Checks types.
	$(BIN)/mypy

test: lint types  ## Everything: style, types, the whole test suite with its ten slowest tests.
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

search: $(VENV)/dev.stamp  ## The tests of properties, with random cases that differ every time.
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder -m hypothesis --hypothesis-profile search

docs: $(VENV)/dev.stamp  ## Writes the generated pages of docs/ again, from the models, the registry and the settings.
	$(BIN)/python -m pages

site: $(VENV)/dev.stamp  ## Builds the documentation as a site in build/site; a broken link is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

performance: $(VENV)/dev.stamp  ## Measures serving and writes docs/performance.md and its tables, in an hour; wants a quiet machine.
	for each in serving attend_stream generation precision; do $(BIN)/python -m benchmarks.awake $$each --keep || exit 1; done
	for each in overload frontends explaining doors; do $(BIN)/python -m benchmarks.$$each --keep || exit 1; done
	$(BIN)/python -m benchmarks.performance_page

# Triton's python backend is built for NumPy 1. A server that cannot be installed here is left out, visibly, by the benchmarks.
peers:  ## Installs the servers that Limelight is measured beside, in virtual environments of their own below build/.
	$(PYTHON) -m venv build/peers
	-build/peers/bin/python -m pip install --quiet --disable-pip-version-check \
	  'nvidia-pytriton==0.7.0' 'numpy<2' 'onnxruntime==$(shell sed -n s/^onnxruntime==//p constraints.txt)'
	$(PYTHON) -m venv build/peers-mlserver
	-build/peers-mlserver/bin/python -m pip install --quiet --disable-pip-version-check \
	  'mlserver==1.7.1' 'onnxruntime==$(shell sed -n s/^onnxruntime==//p constraints.txt)'
	-$(PIP) --target build/peers-fastapi fastapi uvicorn
	$(PYTHON) -m venv build/peers-infinity
	-build/peers-infinity/bin/python -m pip install --quiet --disable-pip-version-check 'infinity-emb[server,torch]==0.0.78'

clean:  ## Removes what the targets made.
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
