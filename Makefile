# make demo    all set-up, then a real job over four simulated nodes, with its table
# make test    all set-up, then all tests
# make bench   the figures of benchmarks/README.md
# make clean   remove what these made

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
IOSTATS_NO_SKIPS ?=

.PHONY: demo test bench lint clean setup

setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml tools/setup
	PYTHON="$(PYTHON)" tools/setup "$(VENV)"
	touch $@

demo: setup
	$(BIN)/python tools/demo.py

test: setup
	$(BIN)/ruff check .
	$(BIN)/vermin --quiet --violations --target=3.9- --no-tips --eval-annotations iostats/*.py iostats/cli/*.py iostats/sources/*.py simlustre/*.py iostats_client.py iostats_server.py
	IOSTATS_NO_SKIPS="$(IOSTATS_NO_SKIPS)" $(BIN)/python -m pytest

bench: setup
	$(BIN)/pip install -q -e '.[bench]'
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
