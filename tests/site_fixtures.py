"""
What most tests of the site's server begin with: a desk, a server in this process, a store.

Imports are inside: all tests import this file, also where the server's packages are missing.
"""
from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def desk(tmp_path):
    """A desk of one's own, with no server yet."""
    from site_desk import SiteDesk
    with SiteDesk(tmp_path) as one:
        yield one


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
    """Of a store that is not there yet."""
    return str(tmp_path / "site.sqlite")


@pytest.fixture
def store(store_path):
    """A new store."""
    from iostats.site.store import Store
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
