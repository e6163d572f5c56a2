# make demo    what it needs (FUSE, a virtual environment), then a real job over four simulated nodes,
#              with its table
# make demo-site  the same for a site: storage servers, agents, jobs and nodes of two users, and what goes wrong; a minute
# make demo-ldms  simulated ldmsds by one file, through failures: etcd, 8 samplers, 3 aggregators; some seconds
# make quick   lint, types, and the tests of the pure modules, which start no process: under a minute on two cores
# make test    all set-up (Slurm, Grid Engine, databases, ... from Debian), then all tests
# make pythons the tests of the node side with Python 3.9, those of the pure modules with the newest one
# make coverage  branches of the pure modules that their tests have been through; fails below 95 %
# make bench   the figures of benchmarks/README.md
# make chaos   faults in the network, kills and bad disks, the whole of it (docs/reliability.md)
# make fuzz    new cases: each target of tests/fuzz (with atheris where it is available), and each file of tests
#              with random cases, for SECONDS (60)
#              Both print a fresh seed, and of what fails the command that repeats it; SEED=N has the same cases
#              again, TARGETS="http tests/wire/test_jsonrpc.py" some of them
# make lock    tools/requirements-ci.txt anew: what CI installs, with hashes
# make audit   ask PyPI for known vulnerabilities of these packages
# make clean   remove what these made
#
# As root, each of them again at any time, also over an older release (docs/batch.md):
# make install-site      on the management host: the site's server
# make install-node      on compute nodes: prolog, epilog, `iostats run`; PACKAGES=no without the last
# make install-login     on login nodes: iostats run, report, jobs, top, query
# make install-harvest   on storage servers: the agent that reads job_stats
# make install-ldms      on management hosts: LDMS' daemons as one file describes them (docs/ldms.md)
# make install-web       on a management host: pages of jobs, nodes and events (docs/web.md)
# make install-collector on an MDS or OSS: events for monitors, by XML-RPC and others (docs/events.md)
# make install-reader    on compute nodes: counters for ordinary users
# make uninstall         remove them; PURGE=yes: configuration and records, too
#   PREFIX=/usr/local  DESTDIR=  UNITDIR=/etc/systemd/system  UNIT_PYTHON=/usr/bin/python3
#   SITE=HOST            where the site's server runs, for a first site.cfg

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
IOSTATS_NO_SKIPS ?=
# Most tests wait for others more than they compute; the tests of one cluster stay in one process.
PARALLEL ?= --numprocesses=$(shell expr 2 '*' $$(nproc))
SEED   ?=
SECONDS ?= 60
TARGETS ?=

# Thousands of processes are started: without .pyc files each compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# The order of sets is the same in each run; `make fuzz` has others.
export PYTHONHASHSEED := 23

PREFIX        ?= /usr/local
DESTDIR       ?=
UNITDIR       ?= /etc/systemd/system
UNIT_PYTHON   ?= /usr/bin/python3
SITE          ?=
PACKAGES      ?=
PURGE         ?=

.PHONY: fuzz demo demo-ldms demo-site quick test pythons coverage bench chaos clean setup lock audit

setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml tools/setup tools/requirements-ci.txt
	PYTHON="$(PYTHON)" tools/setup "$(VENV)"
	touch $@

$(VENV)/demo $(VENV)/demo-ldms: pyproject.toml tools/setup
	@[ -e $(VENV)/ready ] || PYTHON="$(PYTHON)" tools/setup "$(VENV)" $(@F)
	@touch $@

demo: $(VENV)/demo
	$(BIN)/python tools/demo.py

demo-ldms: $(VENV)/demo-ldms
	@$(BIN)/python tools/demo_ldms.py

demo-site: $(VENV)/demo
	@$(BIN)/python tools/demo_site.py

quick: setup
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q --numprocesses=$$(nproc) $$($(BIN)/python tools/rooms.py tests)

test: setup
	$(BIN)/ruff check .
	$(BIN)/vermin --quiet --violations --target=3.9- --no-tips --eval-annotations iostats simldms simlustre iostats_client.py iostats_server.py
	$(BIN)/mypy
	IOSTATS_NO_SKIPS="$(IOSTATS_NO_SKIPS)" $(BIN)/python -m pytest $(PARALLEL)

pythons: setup
	$(BIN)/python tools/pythons.py test

# What a room of iostats/ calls pure, by its own tests.
coverage: setup
	$(BIN)/coverage run -m pytest -q -m "not mpi" $$($(BIN)/python tools/rooms.py tests)
	$(BIN)/coverage report --include=$$($(BIN)/python tools/rooms.py pure)

bench: setup
	tools/quietly $(BIN)/pip install -e '.[bench]'
	$(BIN)/python benchmarks/run.py

# Without atheris (it has wheels for few Pythons) the same targets run without guidance.
fuzz: setup
	-tools/quietly $(BIN)/pip install -e '.[fuzz]'
	cd tests && ../$(BIN)/python -m fuzz.long --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(TARGETS)

# One list for all of Python 3.9 and newer.
LOCK := uv pip compile --universal --python-version 3.9 --generate-hashes --upgrade -q
LOCK += --extra bench --extra server --extra influxdb --extra ldms --extra mpi --extra prometheus --extra sim --extra charts --extra web --extra test
LOCK += --custom-compile-command "make lock"
lock: setup
	tools/quietly $(BIN)/pip install uv
	$(BIN)/$(LOCK) pyproject.toml tools/requirements-build.in -o tools/requirements-ci.txt

audit: setup
	tools/quietly $(BIN)/pip install pip-audit
	$(BIN)/pip-audit --require-hashes --disable-pip -r tools/requirements-ci.txt

chaos: setup
	IOSTATS_CHAOS=1 IOSTATS_CHAOS_SEED="$(SEED)" $(BIN)/python -m pytest $(or $(TARGETS),tests/chaos) -s -q

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .ruff_cache .mypy_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

INSTALL = PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" UNITDIR="$(UNITDIR)" SITE="$(SITE)" \
          UNIT_PYTHON="$(UNIT_PYTHON)" PACKAGES="$(PACKAGES)" PURGE="$(PURGE)" \
          "$(UNIT_PYTHON)" -I -S -B packaging/install.py

.PHONY: install-site install-node install-login install-harvest install-collector install-ldms \
        install-reader install-web uninstall
install-site install-node install-login install-harvest install-collector install-ldms \
install-reader install-web:
	@$(INSTALL) $(@:install-%=%)

uninstall:
	@$(INSTALL) uninstall
