"""
What most tests of the site's server begin with: a desk, a server in this process, a store.
"""
from __future__ import annotations

import pytest
from site_desk import SiteDesk
from site_inside import Inside

from iostats.site.store import Store


@pytest.fixture
def desk(tmp_path):
    """A desk of one's own, with no server yet."""
    with SiteDesk(tmp_path) as one:
        yield one


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A desk with a running server, for tests that leave it as it is."""
    with SiteDesk(tmp_path_factory.mktemp("site")) as desk:
        desk.server = desk.site()
        yield desk


@pytest.fixture
def inside(tmp_path):
    """A site's server in this process."""
    one = Inside(tmp_path)
    yield one
    one.store.close()


@pytest.fixture
def path(tmp_path):
    """Of a store that is not there yet."""
    return str(tmp_path / "site.sqlite")


@pytest.fixture
def store(path):
    """A new store."""
    one = Store(path)
    yield one
    one.close()
