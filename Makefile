# Every target installs what it needs first (`.ci/setup` says what it does) and works from a fresh clone.
# `make` alone prints this list.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench injection chaos miniwob build clean

PYTHON := .venv/bin/python
# Each kill is repeated this often by `make chaos`; `make test` does 5 of each.
CHAOS_RUNS ?= 50
# Seeds of each task of `make miniwob`, and which tasks: names, or `all` that have a planner.
SEEDS ?= 5
TASKS ?=

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

setup:  ## install everything that is missing, for development
	@.ci/setup dev

demo:  ## one task through real processes and a real browser; files into ./demo-output
	@.ci/setup runtime
	@.venv/bin/supervisor demo

test: setup  ## lint, types and all tests (about a quarter of an hour on two cores)
	@.ci/test

lint: setup  ## lint and types only
	@.ci/lint

bench:  ## benchmarks: ratios measured in one run, with goals; exit status not 0 when one is missed
	@.ci/setup bench
	@$(PYTHON) -m tests.bench

injection: setup  ## every injected order of bastioncorpus and AgentDojo's web suite against a planner that obeys
	@$(PYTHON) -m pip install -q --no-deps "agentdojo>=0.1.30,<1"
	@INJECTIONS=all $(PYTHON) -m pytest -q tests/live/test_injection.py

chaos: setup  ## kill every process during a task, CHAOS_RUNS (50) times each
	@$(PYTHON) -m pytest -m chaos -s tests/chaos --chaos-runs=$(CHAOS_RUNS)

miniwob: setup  ## oracles against MiniWoB++, TASKS (the working set) at SEEDS (5) fresh seeds each
	@$(PYTHON) -m tests.miniwob --seeds $(SEEDS) $(TASKS)

build: setup  ## sdist and wheel into ./dist, with the built extension inside
	@rm -rf dist
	@$(PYTHON) -m build --outdir dist .

clean:  ## remove everything that was built or installed in this folder
	@rm -rf .venv build dist demo-output extension/dist extension/node_modules
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
