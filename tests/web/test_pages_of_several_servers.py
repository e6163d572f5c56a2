"""
Pages of a site with two servers: which of them is asked.
"""
from __future__ import annotations

from iostats.base import config as site
from iostats.base.errors import NotDelivered
from iostats.web.site_calls import Site
from iostats.web.viewer import SELF
from iostats.wire import auth, client, site_servers

FIRST, STANDBY = ("mgmt1", 19990), ("mgmt2", 2323)


def test_pages_return_to_the_first_server_when_it_is_back(monkeypatch):
    """As agents, epilogs and commands do, though the standby was left on."""
    away, asked = set(), []

    def call(host, port, name, signs, node, method, params, *more, **how):
        if (host, port) in away:
            raise NotDelivered("no answer from the site's server: refused")
        asked.append((host, port, method))
        return {"job": "(site)"} if method == "hello" else [host]
    monkeypatch.setattr(client, "call", call)
    monkeypatch.setattr(auth, "load_client_credentials", lambda *more: [])
    pages = Site(site.load("/dev/null", environ={"IOSTATS_SITE_HOST": "mgmt1, mgmt2:2323"}))
    assert ["mgmt1"] == pages.ask(SELF, "jobs", {})
    away.add(FIRST)
    assert ["mgmt2"] == pages.ask(SELF, "jobs", {})
    away.clear()
    assert ["mgmt2"] == pages.ask(SELF, "jobs", {})      # it is not asked for each page
    monkeypatch.setattr(site_servers, "LOOK_BACK_S", 0)
    assert ["mgmt1"] == pages.ask(SELF, "jobs", {})
    assert [(*FIRST, "jobs"), (*STANDBY, "jobs"), (*STANDBY, "jobs"), (*FIRST, "hello"),
            (*FIRST, "jobs")] == asked
