# acceptd: `make run` starts the daemon, `make test` runs every check that needs no engine.
# Both set up all they use: a virtual environment in .venv and, where apt can be used, the services that tests talk to.

PYTHON ?= python3.11
ifeq (, $(shell command -v $(PYTHON) 2>/dev/null))
PYTHON := python3
endif
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: run demo test lint unit integration test-vllm test-llamacpp test-gpu bench bench-vllm soak audit services clean

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "acceptd needs Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || tests/services.sh python3-venv
	@$(PYTHON) -m venv $(VENV)
	@echo "installing acceptd and what it uses into $(VENV), one to two minutes ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# The daemon on its embedded store: your configuration, else the vLLM servers on this host, else a simulated fleet.
run: $(STAMP)
	@$(BIN)/acceptd run $(ARGS)

demo: $(STAMP)
	@$(BIN)/acceptd demo $(ARGS)

test: $(STAMP) services lint unit integration

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy -p monitor

unit: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/unit tests/property

# Most of this waits for daemons and servers, so three at a time; a file's tests stay together and share its services.
integration: $(STAMP) services
	$(BIN)/python -m pytest -q -n 3 --dist loadfile tests/integration tests/acceptance tests/faults tests/rigs/test_rigs.py

# PostgreSQL and the like; says loudly what it cannot install.
services:
	@tests/services.sh postgresql pgbouncer openssl chromium faketime prometheus victoria-metrics prometheus-alertmanager \
		systemd dbus polkitd

# End to end on a real vLLM; builds it into a cache outside the checkout (about 3.4 GB, once). That its faults are real is
# tested by `pytest -m vllm tests/rigs` (four minutes and more).
test-vllm: $(STAMP)
	$(PYTHON) tests/rigs/vllm/build.py
	$(BIN)/python -m pytest -q -m vllm tests/engines

test-llamacpp: $(STAMP)
	$(PYTHON) tests/rigs/llamacpp/build.py
	$(BIN)/python -m pytest -q -m llamacpp tests/engines tests/integration/systemd tests/rigs

# An hour in simulated time, sixty times as fast, with memory and lag drawn (build/soak); then the killing starts.
soak: $(STAMP)
	$(BIN)/python -m tests.soak $(ARGS)
	ACCEPTD_TEST_FLEET=200 $(BIN)/python -m pytest -q tests/acceptance/test_fleet.py
	ACCEPTD_TEST_LONG=1 $(BIN)/python -m pytest -q tests/faults/test_daylight.py

# Known vulnerabilities of what is installed, as far as the database can be reached; and the list of parts.
audit: $(STAMP)
	@$(BIN)/python -m tests.supply.audit
	@$(BIN)/python -m tests.supply.sbom build/acceptd.cdx.json

# Not in CI: the machine must be quiet. Every setting of a real engine in turn, then the daemon in auto against the best.
bench-vllm: $(STAMP)
	$(PYTHON) tests/rigs/vllm/build.py
	$(BIN)/python -m tests.bench.engines --engine vllm --method draft_model
	$(BIN)/python -m tests.bench.engines --engine vllm --method ngram
	$(PYTHON) tests/rigs/llamacpp/build.py
	$(BIN)/python -m tests.bench.engines --engine llamacpp

# On a host with an NVIDIA GPU and a vLLM of its own (tests/gpu/README.md); says SKIPPED anywhere else.
test-gpu: $(STAMP)
	$(BIN)/python -m pytest -q -rs -s -m gpu tests/gpu

bench: $(STAMP)
	@tests/services.sh prometheus
	$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
