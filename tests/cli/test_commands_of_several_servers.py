"""
Commands of a site with two servers: one of them is asked for all that a command wants.
"""
from __future__ import annotations

import pytest

from iostats.base import config as site
from iostats.base.errors import NotDelivered
from iostats.cli import site_client
from iostats.wire import auth, client, site_servers

CONFIG = site.load("/dev/null", environ={"IOSTATS_SITE_HOST": "mgmt1, mgmt2:2323"})


class Servers:
    """Two, of which some are away."""

    def __init__(self):
        self.away, self.asked = set(), []

    def call(self, host, port, name, signs, node, method, params, *more, **how):
        if host in self.away:
            raise NotDelivered("no answer from the site's server: refused")
        self.asked.append((host, method))
        return {"job": "(site)"} if method == "hello" else host


@pytest.fixture
def servers(monkeypatch):
    found = Servers()
    monkeypatch.setattr(client, "call", found.call)
    monkeypatch.setattr(auth, "load_client_credentials", lambda *more: [])
    monkeypatch.setattr(site_client, "_connections", {})
    return found


def ask(method="record", **params):
    return site_client.ask_site(CONFIG, method, params)


def test_a_command_stays_with_the_server_that_answered(servers, monkeypatch):
    """`report` has three questions; each would wait for a first one that hangs."""
    servers.away = {"mgmt1"}
    assert "mgmt2" == ask()
    servers.away = set()
    assert ["mgmt2", "mgmt2"] == [ask(), ask("jobs")]
    monkeypatch.setattr(site_servers, "LOOK_BACK_S", 0)     # one that runs for long
    assert "mgmt1" == ask("load")
    assert ["mgmt2"] * 3 + ["mgmt1"] * 2 == [host for host, _method in servers.asked]


def test_a_list_is_not_gone_on_with_by_another_server(servers):
    """`jobs` asks for 1,000 after the other; the standby's list is another one."""
    assert "mgmt1" == ask("jobs", after="")
    servers.away = {"mgmt1"}
    with pytest.raises(NotDelivered, match=r"^the site's server is mgmt2:2323 now, in the middle "
                                           r"of a list; repeat the command$"):
        ask("jobs", after="4711")
    assert [("mgmt1", "jobs"), ("mgmt2", "hello")] == servers.asked
    assert "mgmt2" == ask("jobs", after="")
