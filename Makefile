# make demo    all set-up, then a real job over four simulated nodes, with its table
# make test    all set-up, then all tests
# make bench   the figures of benchmarks/README.md
# make clean   remove what these made
#
# make install-reader [PREFIX=/usr/local] [DESTDIR=]     as root, on a node or its image: the reader
# make uninstall-reader                                  remove it

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
IOSTATS_NO_SKIPS ?=

PREFIX        ?= /usr/local
DESTDIR       ?=
UNITDIR       ?= /etc/systemd/system
READER_PYTHON ?= /usr/bin/python3
LIBDIR        := $(PREFIX)/lib/iostats
READER_UNITS  := iostats-reader.socket iostats-reader@.service

.PHONY: demo test bench lint clean setup install-reader uninstall-reader

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

# An edited site.cfg stays as it is.
install-reader:
	install -d "$(DESTDIR)$(LIBDIR)/iostats/cli" "$(DESTDIR)$(LIBDIR)/iostats/sources" "$(DESTDIR)$(UNITDIR)"
	install -m 755 iostats_client.py "$(DESTDIR)$(LIBDIR)/"
	install -m 644 iostats/*.py "$(DESTDIR)$(LIBDIR)/iostats/"
	install -m 644 iostats/cli/*.py "$(DESTDIR)$(LIBDIR)/iostats/cli/"
	install -m 644 iostats/sources/*.py "$(DESTDIR)$(LIBDIR)/iostats/sources/"
	[ -e "$(DESTDIR)$(LIBDIR)/site.cfg" ] || install -m 644 site.cfg "$(DESTDIR)$(LIBDIR)/"
	for unit in $(READER_UNITS); do \
	    sed -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@PYTHON@|$(READER_PYTHON)|' "systemd/$$unit" \
	        > "$(DESTDIR)$(UNITDIR)/$$unit" && chmod 644 "$(DESTDIR)$(UNITDIR)/$$unit" || exit; \
	done
	@echo "installed; now run:  systemctl daemon-reload && systemctl enable --now iostats-reader.socket"

uninstall-reader:
	rm -f $(addprefix "$(DESTDIR)$(UNITDIR)"/,$(READER_UNITS))
	rm -rf "$(DESTDIR)$(LIBDIR)/iostats" "$(DESTDIR)$(LIBDIR)/iostats_client.py"
	if cmp -s site.cfg "$(DESTDIR)$(LIBDIR)/site.cfg"; then rm "$(DESTDIR)$(LIBDIR)/site.cfg"; fi
	rmdir "$(DESTDIR)$(LIBDIR)" 2>/dev/null || true
	@echo "removed; now run:  systemctl disable --now iostats-reader.socket; systemctl daemon-reload"
