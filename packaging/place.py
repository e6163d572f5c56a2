"""
Where `make install-...` puts things, and how files are written there.
"""

import os
import shutil

ETC, STATE = "/etc/iostats", "/var/lib/iostats"
# What the units and hooks have made: reports, records, what waits; events of the collector, which
# systemd keeps apart, since its user is made with it.
STATES = (STATE, "/var/lib/iostats-collector", "/var/lib/private/iostats-collector")
PYTHON = "/usr/bin/python3"


class Failed(Exception):
    """What is in the way, in one line."""


class Place:
    """
    Where things go, by the Makefile's variables in the environment.

    Attributes:
        lib, bin, share, units: as installed; `staged(path)` is where they are written.
        live: this machine's own, with a systemd that runs.
    """

    def __init__(self, environ):
        prefix = environ.get("PREFIX") or "/usr/local"
        self.destdir = (environ.get("DESTDIR") or "").rstrip("/")
        if not prefix.startswith("/") or not (self.destdir or "/").startswith("/"):
            raise Failed(f"PREFIX and DESTDIR: expected absolute paths, got {prefix!r} and "
                         f"{self.destdir!r}")
        self.lib = os.path.join(prefix, "lib/iostats")
        self.bin = os.path.join(prefix, "bin")
        self.share = os.path.join(prefix, "share")
        self.units = environ.get("UNITDIR") or "/etc/systemd/system"
        python = environ.get("UNIT_PYTHON") or PYTHON
        self.python = shutil.which(python) or python    # units and `#!` want all of it
        self.python_named = self.python != PYTHON
        self.site = environ.get("SITE") or ""
        self.venv = f"{self.lib}/venv"
        self.live = not self.destdir and os.path.isdir("/run/systemd/system")

    def staged(self, *path):
        return self.destdir + os.path.join(*path)


def copy(source, to, mode):
    with open(source, "rb") as file:
        write(to, file.read(), mode)


def write(path, data, mode):
    """`path` with `data`, whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(path + ".new", "wb") as file:
            file.write(data)
        os.chmod(path + ".new", mode)
        os.replace(path + ".new", path)
    except OSError as error:
        error.filename = error.filename or path     # a write names no file
        try:
            os.unlink(path + ".new")
        except OSError:
            pass
        raise
