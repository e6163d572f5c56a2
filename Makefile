# make demo    all set-up, then a real job over four simulated nodes, with its table
# make test    all set-up, then all tests
# make coverage  branches of the pure modules that their tests have been through; fails below 95 %
# make bench   the figures of benchmarks/README.md
# make chaos   faults in the network, kills and bad disks, the whole of it (docs/reliability.md); SEED=N
# make fuzz    each target of tests/fuzz for SECONDS (60), with atheris where it can be had; TARGETS="http ..."
# make lock    tools/requirements-ci.txt anew: what CI installs, with hashes
# make audit   ask PyPI for known vulnerabilities of these packages
# make clean   remove what these made
#
# make install-node [PREFIX=/usr/local] [DESTDIR=]     as root, on a node or its image: prolog, epilog
# make install-reader                                  the same, and the reader
# make install-site [UNIT_PYTHON=/usr/bin/python3]     on the management host: the site's server
# make install-harvest [UNIT_PYTHON=/usr/bin/python3]  on storage servers: the agent that reads job_stats
# make uninstall                                       remove them

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
IOSTATS_NO_SKIPS ?=
# Most tests wait for others more than they compute; the tests of one cluster stay in one process.
PARALLEL ?= --numprocesses=$(shell expr 2 '*' $$(nproc)) --dist=loadgroup
SEED   ?= 23
SECONDS ?= 60
TARGETS ?=

PREFIX        ?= /usr/local
DESTDIR       ?=
UNITDIR       ?= /etc/systemd/system
UNIT_PYTHON   ?= /usr/bin/python3
LIBDIR        := $(PREFIX)/lib/iostats
READER_UNITS  := iostats-reader.socket iostats-reader@.service
SITE_UNITS    := iostats-site.service
HARVEST_UNITS := iostats-harvest.service

.PHONY: fuzz demo test coverage bench chaos clean setup install-files install-harvest install-node install-reader install-site uninstall lock audit

setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml tools/setup tools/requirements-ci.txt
	PYTHON="$(PYTHON)" tools/setup "$(VENV)"
	touch $@

demo: setup
	$(BIN)/python tools/demo.py

test: setup
	$(BIN)/ruff check .
	$(BIN)/vermin --quiet --violations --target=3.9- --no-tips --eval-annotations iostats/*.py iostats/cli/*.py iostats/sources/*.py iostats/schedulers/*.py iostats/sinks/*.py simlustre/*.py iostats_client.py iostats_server.py
	$(BIN)/mypy
	IOSTATS_NO_SKIPS="$(IOSTATS_NO_SKIPS)" $(BIN)/python -m pytest $(PARALLEL)

# The tests of words and thought, in one process; their list is in pyproject.toml.
THOUGHT := aggregate attribution beside compact delta harvested histories job_stats jobfacts jobid \
           joblist jobstate jsonrpc loads loadtable long_report lustre merge moments mpi nodelist \
           report rpc_histogram series snapshot summaries sweeps units wire zeroing

coverage: setup
	$(BIN)/coverage run -m pytest -q -m "not mpi" $(THOUGHT:%=tests/test_%.py)
	$(BIN)/coverage report

bench: setup
	$(BIN)/pip install -q -e '.[bench]'
	$(BIN)/python benchmarks/run.py

# Without atheris (it has wheels for few Pythons) the same targets run without guidance.
fuzz: setup
	-$(BIN)/pip install -q -e '.[fuzz]'
	cd tests && ../$(BIN)/python -m fuzz.long --seconds $(SECONDS) $(TARGETS)

# One list for all of Python 3.9 and newer.
LOCK := uv pip compile --universal --python-version 3.9 --generate-hashes --upgrade -q
LOCK += --extra server --extra influxdb --extra mpi --extra prometheus --extra sim --extra test
LOCK += --custom-compile-command "make lock"
lock: setup
	$(BIN)/pip install -q uv
	$(BIN)/$(LOCK) pyproject.toml tools/requirements-build.in -o tools/requirements-ci.txt

audit: setup
	$(BIN)/pip install -q pip-audit
	$(BIN)/pip-audit --require-hashes --disable-pip -r tools/requirements-ci.txt

chaos: setup
	IOSTATS_CHAOS=1 IOSTATS_CHAOS_SEED="$(SEED)" $(BIN)/python -m pytest tests/chaos -s -q

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .ruff_cache .mypy_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An edited site.cfg stays as it is.
install-files:
	for folder in . cli schedulers sinks sources; do \
	    install -d "$(DESTDIR)$(LIBDIR)/iostats/$$folder" && \
	    install -m 644 iostats/$$folder/*.py "$(DESTDIR)$(LIBDIR)/iostats/$$folder/" || exit; \
	done
	install -m 755 iostats_client.py iostats_server.py "$(DESTDIR)$(LIBDIR)/"
	install -d "$(DESTDIR)$(LIBDIR)/hooks"
	install -m 755 hooks/* "$(DESTDIR)$(LIBDIR)/hooks/"
	[ -e "$(DESTDIR)$(LIBDIR)/site.cfg" ] || install -m 644 site.cfg "$(DESTDIR)$(LIBDIR)/"

install-node: install-files
	@echo "installed; slurm.conf:  Prolog=$(LIBDIR)/hooks/slurm_prolog  Epilog=$(LIBDIR)/hooks/slurm_epilog"

install-reader: install-files
	$(call install-units,$(READER_UNITS))
	@echo "installed; now run:  systemctl daemon-reload && systemctl enable --now iostats-reader.socket"

install-site: install-files
	$(call install-units,$(SITE_UNITS))
	@echo "installed; now run:  systemctl daemon-reload && systemctl enable --now iostats-site.service"

install-harvest: install-files
	$(call install-units,$(HARVEST_UNITS))
	@echo "installed; now run:  systemctl daemon-reload && systemctl enable --now iostats-harvest.service"

define install-units
install -d "$(DESTDIR)$(UNITDIR)"
for unit in $(1); do \
    sed -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@PYTHON@|$(UNIT_PYTHON)|' "systemd/$$unit" \
        > "$(DESTDIR)$(UNITDIR)/$$unit" && chmod 644 "$(DESTDIR)$(UNITDIR)/$$unit" || exit; \
done
endef

uninstall:
	rm -f $(addprefix "$(DESTDIR)$(UNITDIR)"/,$(READER_UNITS) $(SITE_UNITS) $(HARVEST_UNITS))
	rm -rf $(addprefix "$(DESTDIR)$(LIBDIR)"/,iostats hooks iostats_client.py iostats_server.py)
	if cmp -s site.cfg "$(DESTDIR)$(LIBDIR)/site.cfg"; then rm "$(DESTDIR)$(LIBDIR)/site.cfg"; fi
	rmdir "$(DESTDIR)$(LIBDIR)" 2>/dev/null || true
	@echo "removed; now run:  systemctl disable --now iostats-reader.socket iostats-site.service iostats-harvest.service; systemctl daemon-reload"
