# make demo    what it needs (FUSE, a virtual environment), then a real job over four simulated nodes,
#              with its table
# make demo-site  the same for a site: storage servers, agents, jobs and nodes of two users, and what goes wrong; a minute;
#              STORE=postgresql for its store there
# make postgresql  the tests of the store and of several servers with the PostgreSQL of another Debian release, RELEASE=trixie,
#              as root; needs what `make debian` needs
# make demo-ldms  simulated ldmsds by one file, through failures: etcd, 8 samplers, 3 aggregators; some seconds
# make quick   lint, types, and the tests of the pure modules, which start no process: under a minute on two cores
# make test    all set-up (Slurm, Grid Engine, databases, ... from Debian), then all tests
# make pythons the tests of the node side with Python 3.9, those of the pure modules with the newest one;
#              PYTHONS=oldest without the newest
# make coverage  branches of the pure modules that their tests have been through; fails below 95 %
# make docs    the documents as a site that needs no network, build/docs/index.html; fails at a dead link
# make bench   the figures of benchmarks/README.md
# make score   planted jobs: how many are judged rightly by a report's findings and by `iostats why`, and those
#              that are not; SEED=N, JOBS=300, ONLY=117 for the report of one of them;
#              SITES=48 for jobs on a whole site, beside neighbours and faults
# make chaos   faults in the network, kills and bad disks, the whole of it (docs/explanation/reliability.md)
# make soak    a site for hours and days of simulated time whose parts fail every few minutes of it, SECONDS=1200 (60);
#              STORE=postgresql: with two servers on PostgreSQL
# make fuzz    new cases: each target of tests/fuzz (with atheris where it is available), and each file of tests
#              with random cases, for SECONDS (60)
#              Both print a fresh seed, and of what fails the command that repeats it; SEED=N has the same cases
#              again, TARGETS="http tests/wire/test_jsonrpc.py" some of them
# make packages  all files of a release in dist/: wheel, source distribution, Debian and RPM packages, recipes for Spack and
#              EasyBuild, checksums; built and checked
# make debian RELEASE=trixie  build, install, upgrade and remove the packages on another Debian release, as root; needs
#              debootstrap and a way to Debian's mirror and PyPI; some minutes
# make lock    update tools/requirements-ci.txt: what CI installs, with hashes
# make audit   ask PyPI for known vulnerabilities of these packages; fails where it does not answer for one of them
# make clean   remove what these made
#
# As root, each of them again at any time, also over an older release (docs/how-to/batch.md):
# make install-site      on the management host: the site's server
# make install-node      on compute nodes: prolog, epilog, `iostats run`; PACKAGES=no without the last
# make install-login     on login nodes: iostats run, report, jobs, top, query
# make install-harvest   on storage servers: the agent that reads job_stats
# make install-ldms      on management hosts: LDMS' daemons as one file describes them (docs/how-to/ldms.md)
# make install-web       on a management host: pages of jobs, nodes and events (docs/how-to/web.md)
# make install-collector on an MDS or OSS: events for monitors, by XML-RPC and others (docs/how-to/collector.md)
# make install-reader    on compute nodes: counters for ordinary users
# make uninstall         remove them; PURGE=yes: configuration and records, too
#   PREFIX=/usr/local  DESTDIR=  UNITDIR=/etc/systemd/system  UNIT_PYTHON=/usr/bin/python3
#   SITE=HOST            where the site's server runs, for a first site.cfg

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
IOSTATS_NO_SKIPS ?=
# Most tests wait for others more than they compute; the tests of one cluster stay in one process.
PARALLEL ?= --numprocesses=$(shell expr 5 '*' $$(nproc) / 2)
SEED   ?=
SECONDS ?= 60
TARGETS ?=
JOBS   ?= 300
ONLY   ?=
SITES  ?=
PYTHONS ?=
RELEASE ?= trixie

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

.PHONY: packages postgresql debian docs fuzz demo demo-ldms demo-site quick test pythons coverage bench chaos soak score clean setup lock audit

setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml tools/setup tools/requirements-ci.txt
	PYTHON="$(PYTHON)" tools/setup "$(VENV)"
	touch $@

$(VENV)/demo $(VENV)/demo-ldms $(VENV)/demo-postgresql: pyproject.toml tools/setup
	@[ -e $(VENV)/ready ] || PYTHON="$(PYTHON)" tools/setup "$(VENV)" $(@F)
	@touch $@

demo: $(VENV)/demo
	$(BIN)/python -m simlustre.demo

demo-ldms: $(VENV)/demo-ldms
	@$(BIN)/python tools/demo_ldms.py

demo-site: $(VENV)/demo$(if $(filter postgresql,$(STORE)),-postgresql)
	@$(BIN)/python tools/demo_site.py $(if $(STORE),--store $(STORE))

quick: setup
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q --numprocesses=$$(nproc) $$($(BIN)/python tools/rooms.py tests)

test: setup
	$(BIN)/ruff check .
	$(BIN)/vermin --quiet --violations --target=3.9- --no-tips --eval-annotations iostats iostats_ldms simldms simlustre iostats_client.py iostats_server.py
	@# mypy has one core: on another one all tests are compiled, which else each process does for itself.
	$(BIN)/python -m pytest -q --collect-only >$(VENV)/collected & \
	$(BIN)/python tools/typed.py; status=$$?; wait; exit $$status
	IOSTATS_COLLECTED=$(VENV)/collected IOSTATS_NO_SKIPS="$(IOSTATS_NO_SKIPS)" $(BIN)/python -m pytest $(PARALLEL)

TREE := $(CURDIR)/build/$(RELEASE)-postgresql
postgresql: setup
	@tools/quietly packaging/debian/debian_tree $(RELEASE) $(TREE) postgresql
	IOSTATS_POSTGRESQL_TREE=$(TREE) $(BIN)/python -m pytest -q -m postgresql tests

pythons: setup
	$(BIN)/python tools/pythons.py test $(PYTHONS)

# What a room of iostats/ calls pure, by its own tests.
coverage: setup
	$(BIN)/coverage run -m pytest -q -m "not mpi" $$($(BIN)/python tools/rooms.py tests)
	$(BIN)/coverage report --include=$$($(BIN)/python tools/rooms.py pure)

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: setup
	tools/quietly $(BIN)/pip install -e '.[bench]'
	$(BIN)/python benchmarks/run.py

score: setup
	@cd tests && ../$(BIN)/python -m planted_jobs.score --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) $(if $(SITES),--sites $(SITES))

soak: setup
	@cd tests && PYTHONPATH=. ../$(BIN)/python chaos/soak.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(STORE),--store $(STORE))

# Without atheris (it has wheels for few Pythons) the same targets run without guidance.
fuzz: setup
	-tools/quietly $(BIN)/pip install -e '.[fuzz]'
	cd tests && nice -n 15 ../$(BIN)/python -m fuzz.long --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(TARGETS)

# One list for all of Python 3.9 and newer.
LOCK := uv pip compile --universal --python-version 3.9 --generate-hashes --upgrade -q
LOCK += --extra bench --extra server --extra ldms --extra mpi --extra postgresql --extra prometheus --extra sim --extra site --extra charts --extra web --extra docs --extra test
LOCK += --custom-compile-command "make lock"
lock: setup
	tools/quietly $(BIN)/pip install uv
	$(BIN)/$(LOCK) pyproject.toml tools/requirements-build.in -o tools/requirements-ci.txt

# The maintainers have no address yet.
NO_ADDRESS := bogus-mail-host,bogus-mail-host-in-debian-changelog
packages: setup
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	if command -v dh >/dev/null; then packaging/debian/build dist; \
	else echo "packages: no Debian packages, debhelper is not installed" >&2; fi
	if ls dist/*.deb >/dev/null 2>&1 && command -v lintian >/dev/null; then lintian --allow-root --fail-on error,warning --suppress-tags $(NO_ADDRESS) dist/*.deb; \
	else echo "packages: not checked by lintian, which is not installed, or there are no Debian packages" >&2; fi
	tools/quietly $(BIN)/pip install uv
	if command -v rpmbuild >/dev/null; then PATH="$(abspath $(BIN)):$$PATH" PYTHON=$(abspath $(BIN)/python) packaging/rpm/build dist; \
	else echo "packages: no RPM packages, rpmbuild is not installed" >&2; fi
	if ls dist/*.rpm >/dev/null 2>&1 && command -v rpmlint >/dev/null; then rpmlint -c packaging/rpm/rpmlint.toml packaging/rpm/iostats.spec $$(ls dist/*.rpm | grep -v iostats-libs-); \
	else echo "packages: not checked by rpmlint, which is not installed, or there are no RPM packages" >&2; fi
	packaging/recipes dist
	IOSTATS_DIST=dist $(BIN)/python -m pytest -q tests/test_packages.py
	cd dist && find * -type f ! -name SHA256SUMS | sort | xargs sha256sum >SHA256SUMS && cat SHA256SUMS

debian: setup
	packaging/debian/debian_tree $(RELEASE) build/debian-$(RELEASE)
	IOSTATS_DEBIAN_TREE=$(abspath build/debian-$(RELEASE)) $(BIN)/python -m pytest -q tests/test_debian.py -k "not rpm"

audit: setup
	tools/quietly $(BIN)/pip install pip-audit
	$(BIN)/pip-audit --strict --require-hashes --disable-pip -r tools/requirements-ci.txt

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
