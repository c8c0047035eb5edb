# SPDX-License-Identifier: Apache-2.0
# The verbs of this repository. Every part has the same ones (fmt, lint, check); `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := out/venv
PYTHON := $(VENV)/bin/python
export PYTHONPATH := lab:benchmarks
KEEP ?=

.PHONY: help host demo down test e2e e2e-full check lint fmt packages bench clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

host: $(VENV)/ready ## install what this machine needs (the only step that uses root)

$(VENV)/ready: lab/host-setup lab/requirements.txt benchmarks/requirements.txt tests/requirements.txt
	lab/host-setup
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet -r lab/requirements.txt -r benchmarks/requirements.txt -r tests/requirements.txt
	touch $@

demo: host ## attack a virtual disk server and watch BEER protect it (KEEP=1 leaves it up)
	$(PYTHON) -m beerbench demo --out out/demo $(if $(KEEP),--keep)

down: host ## end every virtual node that is still up
	$(PYTHON) -m beerlab down

test: host ## linters, unit tests and the end-to-end cases of `make e2e`, with one summary
	$(PYTHON) tests/suite.py lint check e2e

e2e: host ## the end-to-end cases that CI has time for
	$(PYTHON) tests/suite.py e2e

e2e-full: host ## every end-to-end case
	$(PYTHON) tests/suite.py e2e-full

check: host ## all tests that need no virtual machine
	$(PYTHON) tests/suite.py check

lint: host ## formatters in check mode and linters
	$(PYTHON) tests/suite.py lint

fmt: host ## format every part
	$(PYTHON) tests/suite.py fmt

packages: host ## build the .debs of all parts, to out/packages
	debs=$$($(PYTHON) -m beerlab packages); rm -rf out/packages; install -D -m 0644 -t out/packages $$debs

bench: host ## the numbers of benchmarks/ (takes hours)
	$(PYTHON) -m beerbench run all

clean: ## remove what was built in this checkout (not the cache)
	rm -rf out
