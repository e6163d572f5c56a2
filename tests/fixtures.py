"""
What the tests of many files begin with: a desk, a node that has worked, a server, a store.

Imports are inside: all tests import this file, also where the server's packages are missing.
"""
from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def desk(request, tmp_path):
    """
    DESK(tmp_path) of the test's file, such as processes.Desk, a user's home and processes; where
    that has no DESK, a machine with a site's server that is not started yet.
    """
    make = getattr(request.module, "DESK", None)
    if make is None:
        from site_desk import SiteDesk as make
    with make(tmp_path) as one:
        yield one


@pytest.fixture
def machine():
    """Where a collector runs: its files, and the collectors that were started there."""
    from collector_desk import Machine
    one = Machine()
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def worked(desk):
    """A node of the desk that was started and has done its work; its tree."""
    from processes import AFTER, BEFORE, write_tree
    root = desk.tree(**BEFORE)
    assert 0 == desk.client("start", *desk.on("nid00023", root)).status
    write_tree(root, **AFTER)
    return root


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request, tmp_path):
    """The environment of a server that has uvloop, and of one that has not."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
        return {}
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "uvloop.py").write_text(
        "raise ModuleNotFoundError('hidden by a test', name='uvloop')\n")
    return {"PYTHONPATH": str(tmp_path / "without")}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A desk with a running server, for tests that leave it as it is."""
    from site_desk import SiteDesk
    with SiteDesk(tmp_path_factory.mktemp("site")) as desk:
        desk.server = desk.site()
        yield desk


@pytest.fixture
def inside(tmp_path):
    """A site's server in this process."""
    from site_inside import Inside
    one = Inside(tmp_path)
    yield one
    one.store.close()


@pytest.fixture
def store_path(tmp_path):
    """Of a store that is not there yet, in SQLite."""
    return str(tmp_path / "site.sqlite")


@pytest.fixture(scope="session")
def postgresql():
    """A real PostgreSQL, started once; postgresql.database(): the URL of a new database."""
    from postgresql import Cluster
    pytest.importorskip("psycopg")
    with Cluster() as one:
        yield one


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def store_address(request):
    """The path or URL of a store that is not there yet, on each engine."""
    if request.param == "sqlite":
        return request.getfixturevalue("store_path")
    return request.getfixturevalue("postgresql").database()


@pytest.fixture
def store(store_address):
    """A new store."""
    from iostats.store.record_store import Store
    one = Store(store_address)
    yield one
    one.close()


@pytest.fixture
def sqlite_store(store_path):
    """A new store in SQLite."""
    from iostats.store.record_store import Store
    one = Store(store_path)
    yield one
    one.close()


@pytest.fixture
def of_all():
    """A directory that every user can reach and write to, as /tmp, without its sticky bit."""
    path = Path(tempfile.mkdtemp(prefix="iostats-test-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)
