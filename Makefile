# Every target makes what it needs first: a virtual environment, pinned by constraints.txt. `make help` lists them.

VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
INSTALL := $(BIN)/python -m pip install --quiet --use-pep517 --constraint constraints.txt --editable

# Debian's interpreter is built with PGO and LTO: 1.45 times faster than one built from source without them.
PYTHON ?= $(shell for python in /usr/bin/python3.11 python3.11 python3; do \
	"$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)

# Tests spend some of their time waiting for other programs, so a worker more than two cores pays; with two more, tests wait
# for the cores. Groups of other clients start more programs each.
WORKERS ?= 3
LONG_WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo lab lab-table test test-all slow-long long-kafka check lint types layers source interop interop-gateway conversation interop-long chaos copies fuzz mutants bench constraints clean sim sim-long

help: ## these lines
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

demo: $(VENV)/.demo ## the main job on real flights, about two minutes; KEEP=1 keeps its files
	$(BIN)/kohort demo $(if $(KEEP),--keep)

lab: $(VENV)/.lab ## what rebalances cost: ten stateful Java instances restarted one by one, Kohort and Apache Kafka, about 10 minutes; AGAIN=1 repeats it
	$(BIN)/kohort lab bounce --client java --broker kohort,kafka --set restore-ms=20 --minutes 14 $(if $(AGAIN),--again)

lab-table: $(VENV)/.lab ## every figure that rebalances are to reach, Apache Kafka beside it, about 55 minutes; goes on where it stopped; AGAIN=1 repeats it
	$(BIN)/kohort lab table --out lab-table-out --minutes 70 $(if $(AGAIN),--again)

test: $(VENV)/.develop ## the tests for every day, some minutes on two cores; the last lines name those that this machine cannot run
	$(PYTEST) -n $(WORKERS)

test-all: slow-long long-kafka ## the tests that `make test` leaves out because they are slow or long, then the conversation with Apache Kafka, 50 minutes

# Together, so that a process that has nothing more to do is not idle until the next run begins.
slow-long: $(VENV)/.develop
	$(PYTEST) -n $(WORKERS) -m "(slow or long) and not kafka"

long-kafka: $(VENV)/.develop
	$(PYTEST) -n 0 -m "long and kafka"

check: lint types layers source ## ruff, mypy strict, layering, the test over the source

lint: $(VENV)/.develop
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.develop
	$(BIN)/mypy src tests bench examples docs/generate.py

layers: $(VENV)/.develop
	$(BIN)/lint-imports --no-logo

source: $(VENV)/.develop
	$(PYTEST) -q -n 0 tests/test_source.py

interop: $(VENV)/.develop ## other people's clients against our broker and against Apache Kafka; both must answer alike
	$(PYTEST) -n $(LONG_WORKERS) --broker both -m "interop or kafka"

interop-gateway: $(VENV)/.develop ## the scenarios of all clients through a gateway in front of Apache Kafka, half an hour, then the conversation with and without it
	$(PYTEST) -n $(LONG_WORKERS) --broker kafka+gateway -m interop tests/interop --deselect tests/interop/test_conversation.py
	$(PYTEST) -n 0 --broker kafka -m kafka tests/interop/test_conversation.py -k through_a_gateway

conversation: $(VENV)/.develop ## 3,700 requests to Apache Kafka and to Kohort, the answers compared field by field, with held heartbeats and without; then through a gateway; 10 minutes
	$(PYTEST) -n 0 --broker both -m kafka tests/interop/test_conversation.py

interop-long: $(VENV)/.develop ## librdkafka's, kafka-python's and node-rdkafka's own tests against our broker, about an hour; BROKER=kafka asks Apache Kafka
	$(BIN)/python -m tests.interop_long.run $(if $(BROKER),--broker $(BROKER))

chaos: $(VENV)/.develop ## a cluster under load and faults for MINUTES=10 (over files, or STORE=postgres; GATEWAY=1 puts one in front and kills it, too), then kill -9 a broker KILLS=200 times; a judge compares all that was promised with what is read
	$(BIN)/python -m tests.chaos.storm --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(STORE),--store $(STORE)) $(if $(GATEWAY),--gateway)
	$(BIN)/python -m tests.chaos.kills --kills $(or $(KILLS),200)

copies: $(VENV)/.develop ## Java's TransactionalMessageCopier while the broker is killed by kill -9 KILLS=1000 times: each record is copied once, in order; about an hour; GATEWAY=1 puts one in front and kills it, too; BROKERS=3 is a cluster, GROUP=1 a group of copiers
	$(BIN)/python -m tests.chaos.copies --kills $(or $(KILLS),1000) $(if $(SEED),--seed $(SEED)) $(if $(GATEWAY),--gateway) $(if $(BROKERS),--brokers $(BROKERS)) $(if $(GROUP),--group)

fuzz: $(VENV)/.develop ## mutated real input to every decoder for MINUTES=5; what breaks a rule is kept and becomes a test
	$(BIN)/python -m tests.fuzz.run --minutes $(or $(MINUTES),5)

mutants: $(VENV)/.develop ## plant COUNT=100 small bugs in PACKAGE=coordinator, member, client, broker, spark, watch or analytics, one at a time, and list what its tests do not notice
	$(BIN)/python -m tests.mutation.run $(or $(PACKAGE),coordinator) --count $(or $(COUNT),100) $(if $(SEED),--seed $(SEED))

bench: $(VENV)/.develop ## every benchmark, our broker's too; PEER=1 measures Apache Kafka beside it
	$(BIN)/python bench/run.py $(if $(PEER),--peer)

sim: $(VENV)/.develop ## simulated worlds with faults for two minutes on all cores; SEED=n replays one
	$(BIN)/kohort sim $(if $(SEED),--seed $(SEED),--minutes 2)

sim-long: $(VENV)/.develop ## the exhaustive model, then the same for HOURS=1
	$(BIN)/kohort sim --model 8
	$(BIN)/kohort sim --minutes $$(( 60 * $(or $(HOURS),1) ))

constraints: $(VENV)/.develop ## pin in constraints.txt what the virtual environment holds now
	{ sed '/^[^#]/,$$d' constraints.txt; $(BIN)/python -m pip freeze --exclude-editable; } > constraints.new
	mv constraints.new constraints.txt

clean: ## remove what the targets made, the virtual environment too
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist demo-out lab-out lab-table-out spark-warehouse
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "needs Python 3.11 or newer with venv and pip (Debian: python3.11-venv)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras; what is installed follows the two files that say so.
$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) '.[demo]'
	@touch $@

$(VENV)/.lab: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) '.[lab]'
	@touch $@

$(VENV)/.develop: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) '.[demo,test,check]'
	@touch $@ $(VENV)/.demo $(VENV)/.lab
