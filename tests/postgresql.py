"""
A PostgreSQL of a test run: Debian's, in a directory of its own, reached by a socket.

IOSTATS_POSTGRESQL_TREE: the root of another Debian release, whose PostgreSQL runs (as root; `make
postgresql`).
"""
from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

# Tests end the server as they like, and no power fails: nothing has to reach the disk.
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off")
_SETTINGS = ("listen_addresses=", "shared_buffers=32MB", "max_connections=50")


TREE = os.environ.get("IOSTATS_POSTGRESQL_TREE", "").rstrip("/")


def programs():
    """The directory of the newest initdb and postgres; None where there is none."""
    found = sorted(Path(f"{TREE}/usr/lib/postgresql").glob("*/bin/initdb"),
                   key=lambda path: int(path.parts[-3]) if path.parts[-3].isdigit() else 0)
    return found[-1].parent if found else None


def inside(path):
    """A path as PostgreSQL has it."""
    return str(path)[len(TREE):]


class Cluster:
    """A running PostgreSQL; a context manager."""

    def __init__(self, synced=False, settings=(), primary=None):
        """
        `synced`: what is committed reaches the disk; `settings`: more of them, `name=value`;
        `primary`: the Cluster of which it is a replica, by asynchronous streaming.
        """
        self.programs = programs()
        self._settings = (*_SETTINGS, *(() if synced else _FAST), *settings)
        if self.programs is None:
            import pytest
            pytest.skip("needs Debian's postgresql")
        # PostgreSQL refuses to run as root, and a socket's path has at most 107 bytes.
        self.top = Path(tempfile.mkdtemp(prefix="iostats-pg-", dir=f"{TREE}/tmp" if TREE else None))
        self._as_user = []
        if TREE:
            self._as_user = ["chroot", "--userspec=postgres:postgres", TREE]
            [user] = [line.split(":") for line in Path(f"{TREE}/etc/passwd").read_text().split("\n")
                      if line.startswith("postgres:")]
            os.chown(self.top, int(user[2]), int(user[3]))
        elif os.geteuid() == 0:
            self._as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
            shutil.chown(self.top, "postgres", "postgres")
        self._number, self._primary, self._is_running = 0, primary, False

    def _run(self, program, *arguments):
        done = subprocess.run([*self._as_user, inside(self.programs / program), *arguments],
                              cwd=self.top, capture_output=True, text=True, timeout=120)
        assert 0 == done.returncode, done.stdout + done.stderr

    def __enter__(self):
        if self._primary is not None:
            self._run("pg_basebackup", "-D", inside(self.top / "data"), "-U", "iostats", "-h",
                      inside(self._primary.top), "-c", "fast", "--no-sync", "--write-recovery-conf")
        else:
            self._run("initdb", "-D", inside(self.top / "data"), "-U", "iostats", "-A", "trust",
                      "-E", "UTF8", "--no-sync", "--locale=C.UTF-8")
        self.start()
        return self

    def start(self):
        options = " ".join(f"-c {one}" for one in (
            *self._settings, f"unix_socket_directories={inside(self.top)}"))
        self._run("pg_ctl", "-D", inside(self.top / "data"), "-w", "-l", inside(self.top / "log"),
                  "-o", options, "start")
        self._is_running = True

    def stop(self):
        """As a crash: sessions end, and what was not committed is lost."""
        self._run("pg_ctl", "-D", inside(self.top / "data"), "-m", "immediate", "stop")
        self._is_running = False

    def promote(self):
        """Let a replica become a primary."""
        self._run("pg_ctl", "-D", inside(self.top / "data"), "-w", "promote")

    def __exit__(self, *_):
        if self._is_running:
            self.stop()
        shutil.rmtree(self.top, ignore_errors=True)

    def url(self, database):
        return f"postgresql://iostats@/{database}?host={self.top}"

    def database(self):
        """The URL of a new database."""
        import psycopg
        self._number += 1
        name = f"site{self._number}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url(name)
