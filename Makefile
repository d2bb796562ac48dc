# Everything works from a fresh clone: each target sets up what it needs first.
# Wanted on the machine: Python 3.11 or newer, Java 17 or newer, GNU make 3.81 or newer.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The first of these that runs and is new enough; `make PYTHON=/path/to/python3` takes another one.
PYTHONS := python3.11 python3.12 python3.13 python3.14 python3
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in $(PYTHONS); do \
	$$python -c '$(IS_NEW_ENOUGH)' >/dev/null 2>&1 && echo $$python && break; done)

.PHONY: help setup servers test test-all lint docs demo bench soak clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    mirror between embedded Kafka clusters, lose one, restore it, and see it verified"
	@echo "make test    style, types, all unit tests and some of those against real brokers, in a quarter of an hour"
	@echo "make test-all  everything that must pass, in an hour on two cores; with CI=true, make test is the same"
	@echo "make lint    style and types only"
	@echo "make bench   side by side with MirrorMaker 2, results in bench/results"
	@echo "make soak    the long hunt for rare failures; wants Go once, and javac; SOAK='--seed 7 --minutes 20' chooses"
	@echo "make docs    docs/configuration.md, written anew from the models"
	@echo "make setup   the virtual environment in $(VENV), and nothing else"
	@echo "make clean   removes $(VENV) and every cache inside this folder"

setup: $(READY)

# Java is looked at first: a download of a gigabyte should not come before the news that it is missing.
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer among: $(PYTHONS)." \
		"Install one (apt install python3.11 python3.11-venv, brew install python@3.12)" \
		"or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@PYTHONPATH=src $(PYTHON) -c 'import sys; sys.excepthook = lambda _, error, __: print(error, file=sys.stderr); \
		from mirrorlake.java import find_java; find_java()'
	@echo "Setting up $(VENV): about a gigabyte the first time, a few minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@# Spark starts twice as fast from an archive of its classes, made once per machine; without one it starts all the same.
	@$(BIN)/python -m mirrorlake.pipeline.archive_maker >/dev/null || true
	@touch $(READY)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# A worker has brokers and a Spark session of its own, about 2 GB, and waits for them a third of its time: one more than
# cores keeps two cores busy. The tests of a file stay together, for what its fixtures set up, and so do files that share
# servers (tests/support/scheduling.py); files begin in the order of their names, so that the long ones are not left for
# the end.
TEST_WORKERS ?= 3

# What servers of the tests need is made once per machine, in minutes: Kafka's jars, an archive of its broker's classes,
# with which one starts in little more than half the CPU time, and two servers that Go builds. It begins while style and
# types are checked; a test that needs it earlier waits for it, or does without.
servers: setup
	@$(BIN)/python -m mirrorlake.embedded.broker_archive >/dev/null 2>&1 &
	@PYTHONPATH=tests $(BIN)/python -m support.go_programs >/dev/null 2>&1 &

# Every process of the tests would compile anew what it imports, where somebody asked for no byte code.
PYTEST_ALL = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder --durations=10

# tests/support/short_form.py says what is left out; with CI=true nothing is.
test: servers lint
	$(PYTEST_ALL) --short

test-all: servers lint
	$(PYTEST_ALL)

# Into a file of another name first, so that a model that cannot be read leaves the page alone.
docs: setup
	$(BIN)/python -m docs.configuration_page >docs/configuration.md.new
	mv docs/configuration.md.new docs/configuration.md

demo: setup
	$(BIN)/mirrorlake demo

bench: setup
	$(BIN)/python -m bench

soak: setup
	PYTHONPATH=tests:. $(BIN)/python -m soak $(SOAK)
	$(BIN)/pytest -m soak

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
