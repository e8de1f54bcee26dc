# coopsim: everything that a checkout can do. `make` alone explains the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= out/demo
RATIOS ?= 100%:30%:10%
POLICIES := dtr-oneflow,dte-oneflow,coop
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-all smoke check format headline figures figures-all gpu docs notebooks clean

help: ## this list
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.ready ## make .venv with coopsim and all that it needs (CPU only; about 2.5 GB, most of it PyTorch and Triton)

# PyTorch comes without the CUDA libraries that it names as dependencies: recording needs its CUDA build, but no GPU.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "coopsim needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@echo "installing coopsim and its tools"
	$(BIN)/pip install --quiet -c constraints.txt -e '.[completion,dask,dev,optimum]'
	@echo "installing PyTorch and Triton (530 and 250 MB)"
	$(BIN)/pip install --quiet -c constraints.txt --no-deps torch accelerate triton
	$(BIN)/pip install --quiet --no-warn-conflicts -c constraints.txt transformers filelock fsspec jinja2 networkx psutil setuptools sympy typing-extensions
	@touch $@
	@echo "ready: . $(VENV)/bin/activate (PyTorch is here without CUDA's libraries: start what imports it with coopsim)"

demo: setup ## record BERT-Large without a GPU, replay it under DTR, DTE and Coop, train in half the memory, draw the figures
	@mkdir -p $(OUT)
	$(BIN)/coopsim capture bert-large -o $(OUT)/bert-large.parquet
	$(BIN)/coopsim info $(OUT)/bert-large.parquet
	$(BIN)/coopsim sweep $(OUT)/bert-large.parquet --policy $(POLICIES) --budget $(RATIOS) --band 11 -o $(OUT)/sweep.parquet
	$(BIN)/coopsim plot $(OUT)/sweep.parquet -o $(OUT)
	@for policy in dtr-oneflow dte-oneflow coop; do \
		echo "$(BIN)/coopsim replay … --policy $$policy --budget 50% --timeline"; \
		$(BIN)/coopsim replay $(OUT)/bert-large.parquet --policy $$policy --budget 50% --timeline -o $(OUT)/$$policy-50.parquet || exit 1; \
		$(BIN)/coopsim validate $(OUT)/$$policy-50.parquet --trace $(OUT)/bert-large.parquet || exit 1; \
	done
	$(BIN)/coopsim plot $(OUT)/dtr-oneflow-50.parquet $(OUT)/dte-oneflow-50.parquet $(OUT)/coop-50.parquet --trace $(OUT)/bert-large.parquet -o $(OUT)
	$(BIN)/python experiments/live/demo.py $(OUT)/live.png
	@echo && echo "Figures:" && ls $(OUT)/*.png

test: setup ## the tests (some ten minutes on two cores)
	$(BIN)/pytest -n auto -m "not slow" --ignore tests/versions

test-%: setup ## the tests of one room, and those that hold the layout: make test-fitting (a minute or two)
	$(BIN)/pytest -n auto -m "not slow" $(wildcard $(addprefix tests/,$* test_$*.py)) tests/test_imports.py tests/test_layout.py

test-all: setup ## the tests and the slow proofs
	$(BIN)/pytest -n auto

TORCH ?= 2.11.0
TRANSFORMERS ?= 5.17.0
NUMBA ?= 0.65.1
ONLY ?=
smoke: setup ## the tests of tests/versions with another PyTorch, TORCH=2.11.0 (.venv-2.11.0; a minute, and 3 GB)
	$(BIN)/python experiments/versions/environment.py .venv-$(TORCH) $(TORCH) $(TRANSFORMERS) $(NUMBA)
	.venv-$(TORCH)/bin/pytest tests/versions -m "not slow" -k "$(ONLY)"

check: setup ## lint, format, types, layers
	$(BIN)/ruff check --no-cache
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

headline: setup ## the tables of docs/claims.md: bands and smallest budgets of BERT-Large, in every setting
	$(BIN)/python -m experiments.paper.headline

gpu: ## on a machine with a GPU, with the PyTorch that is there: measure all that experiments/gpu/README.md lists; PART=live: a part of it
	$(PYTHON) experiments/gpu/run.py $(if $(PART),--part $(PART))

figures: setup ## every figure and table of docs/claims.md, in out/, compared with what is expected (some minutes)
	$(BIN)/python -m experiments.figures.run

figures-all: setup ## the same, with what takes long made anew: allocators, headline, gap, policies, bounds, recomputed, against (long)
	for what in allocators.requests paper.headline optimum.gap policies.compare optimum.bounds paper.recomputed allocators.against; do \
		$(BIN)/python -m experiments.$$what || exit 1; done
	$(BIN)/python -m experiments.figures.run

docs: setup ## the documentation as a site, in out/docs
	$(BIN)/pip install --quiet -c constraints.txt -e '.[docs]'
	$(BIN)/sphinx-build -q -W --keep-going -b html docs out/docs
	@echo "open out/docs/index.html"

notebooks: setup ## execute the notebooks and write them back with their pictures
	$(BIN)/python notebooks/execute.py

clean: ## remove what the targets made, except .venv and .venv-*
	rm -rf out .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis
