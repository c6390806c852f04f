# `make demo` and `make test` set up everything they need in .venv; a second run installs nothing.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo gpu test test-all test-pages upstream node check cards docs clean help
.DEFAULT_GOAL := help

help:
	@echo "make demo      the main job on generated data, offline, in demo-output/"
	@echo "make gpu       everything that a machine with a GPU says, in gpu-output/, with its own PYTHON: ten minutes, nothing is installed"
	@echo "make test      the tests, transformers' own common model tests among them"
	@echo "make test-all  the slow ones too: clusters, processes that are killed, measured times, every peer"
	@echo "make test-pages  every block of the documentation, beside a demo that it makes, and the examples that take long"
	@echo "make node      the packages of examples/browser, which the slow tests of the browser need, too"
	@echo "make check     lint, types and all of the tests"
	@echo "make cards     fails if a card differs from its record, or a figure of a results page has none"
	@echo "make docs      the documentation in docs/_build/html, warnings as errors"
	@echo "make clean     removes .venv and what the other targets made"

.venv/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "python 3.10 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade -c constraints.txt pip setuptools
	@touch $@

.venv/.cpu: .venv/.made pyproject.toml constraints.txt
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar on -c constraints.txt -e '.[cpu]'
	@touch $@

.venv/.dev: .venv/.cpu
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cpu,dev]'
	@touch $@

.venv/.docs: .venv/.cpu
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cpu,docs]'
	@touch $@

demo: .venv/.cpu
	$(BIN)/albert-plus demo --out demo-output

# The machine's own Python has torch for its GPU; a .venv of ours would have one for CPUs.
gpu:
	$(PYTHON) examples/bench_gpu.py --out gpu-output

# transformers' common tests of the installed version: its source distribution has them, the wheel does not.
UPSTREAM := .venv/transformers-tests

upstream: .venv/.dev
	@version=$$($(BIN)/python -c 'from importlib.metadata import version; print(version("transformers"))') && \
	if ! grep -qsx "Version: $$version" $(UPSTREAM)/PKG-INFO; then \
		rm -rf $(UPSTREAM) && mkdir -p $(UPSTREAM)/sdist && \
		$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary transformers \
			--no-build-isolation --dest $(UPSTREAM)/sdist "transformers==$$version" && \
		tar -xzf $(UPSTREAM)/sdist/*.tar.gz -C $(UPSTREAM) --strip-components=1 \
			transformers-$$version/PKG-INFO transformers-$$version/tests && \
		rm -r $(UPSTREAM)/sdist; \
	fi

# transformers.js, and what drives a browser for its tests. No package runs a script: onnxruntime-node's would fetch libraries for a GPU.
NODE := examples/browser/node_modules/.made

node: $(NODE)

$(NODE): examples/browser/package.json examples/browser/package-lock.json
	npm ci --ignore-scripts --no-audit --no-fund --prefix examples/browser
	@touch $@

# A worker a core; a file's tests share what they prepare.
WORKERS := -n auto --dist loadfile --no-loadscope-reorder

test: .venv/.dev upstream
	$(BIN)/python -m pytest $(WORKERS)

test-all: .venv/.dev upstream
	$(BIN)/python -m pytest $(WORKERS) -m 'not pages'

test-pages: .venv/.dev
	$(BIN)/python -m pytest -m pages

# Type checkers do not see the mapping of export/ and eval/ into the package: they get a folder that shows it as links.
check: .venv/.dev upstream
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf .typecheck && mkdir -p .typecheck/hf_albert_plus
	ln -s $(CURDIR)/hf_albert_plus/* $(CURDIR)/export $(CURDIR)/eval .typecheck/hf_albert_plus/
	cd .typecheck && ../$(BIN)/mypy --config-file ../pyproject.toml -p hf_albert_plus
	$(BIN)/python -m pytest $(WORKERS) -m ''

cards: .venv/.cpu
	$(BIN)/albert-plus card model_cards/*.json --check
	$(BIN)/python docs/figures.py

# All pages are read anew: what the code writes into them is no file that Sphinx watches.
docs: .venv/.docs
	$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --nitpicky docs docs/_build/html

clean:
	rm -rf .venv .typecheck demo-output gpu-output docs/_build examples/browser/node_modules build *.egg-info .pytest_cache .mypy_cache .ruff_cache
