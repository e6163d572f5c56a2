"""
Which of several site's servers is asked, against servers that are up, away, hang, refuse or have no
room, as they please.
"""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.errors import NotDelivered, UsageError
from iostats.wire import client
from iostats.wire.site_servers import LOOK_BACK_S, ServerMoved, SiteServers, split_servers

SERVERS = [("192.0.2.23", 19990), ("192.0.2.37", 19990), ("192.0.2.41", 2323)]
STATES = ("up", "away", "hangs", "refuses", "full")


@pytest.mark.parametrize("text, found", [
    ("mgmt1", [("mgmt1", 19990)]),
    ("mgmt1,mgmt2", [("mgmt1", 19990), ("mgmt2", 19990)]),
    (" mgmt1:23 ,  mgmt2 mgmt3, ", [("mgmt1", 23), ("mgmt2", 19990), ("mgmt3", 19990)]),
    ("[::1]:37, ::1, [::1]", [("::1", 37), ("::1", 19990)]),
    ("mgmt1 mgmt1:19990 mgmt2", [("mgmt1", 19990), ("mgmt2", 19990)]),
    ("", []), (",", [])])
def test_the_names_of_servers(text, found):
    assert found == split_servers(text, "--server", 19990)


@pytest.mark.parametrize("text", ["mgmt1, mgmt2:x", "mgmt1:0", "mgmt1, :23"])
def test_one_that_is_none_is_named_with_its_option(text):
    with pytest.raises(UsageError, match=r"^--server: expected HOST or HOST:PORT, got '"):
        split_servers(text, "--server", 19990)


class Network:
    """Servers, and a clock that goes on where one does not answer."""

    def __init__(self, patch):
        self.now, self.states, self.asked = 1000.0, {}, []
        patch.setattr(client, "call", self._call)

    def _call(self, host, port, name, signs, node, method, params, within_s=None, longest=0,
              learn=None, hello_within_s=None, reach_within_s=None):
        server = host, port
        state = self.states.get(server, "up")
        self.asked.append((server, method))
        if state == "away":
            raise NotDelivered(f"no answer from the site's server: {host}:{port}: refused")
        if state == "hangs":
            self.now += within_s if hello_within_s is None else hello_within_s
            raise client.OtherServer(f"{host}:{port}: does not answer")
        if state == "refuses" and method != "hello":
            raise client.Refused("no")
        if method == "hello":
            return {"job": "(site)", **({"trouble": "full"} if state == "full" else {})}
        if state == "full":
            raise client.CannotStore("no room")
        return server


@given(st.lists(st.one_of(
    st.tuples(st.sampled_from(SERVERS), st.sampled_from(STATES)),
    st.sampled_from(["ask", "ask", "ask and stay", "look back", "an hour"])), max_size=30))
def test_the_first_that_is_there_answers_and_the_others_are_not_asked(steps):
    with pytest.MonkeyPatch.context() as patch:
        network = Network(patch)
        servers = SiteServers(SERVERS, lambda: network.now)
        for step in steps:
            if isinstance(step, tuple):
                network.states[step[0]] = step[1]
                continue
            if step == "an hour":
                network.now += 3600
                continue
            before, began, network.asked = servers.current, network.now, []
            states = [network.states.get(one, "up") for one in SERVERS]
            earlier = [one for one in SERVERS[:SERVERS.index(before)]
                       if network.states.get(one, "up") in ("up", "refuses")]
            if step == "look back":
                assert servers.try_preferred_servers([], "n", 30.0) == bool(earlier)
                assert servers.current == (earlier[0] if earlier else before)
                assert not servers.should_try_preferred()
                continue
            there = [one for one in [before, *(one for one in SERVERS if one != before)]
                     if network.states.get(one, "up") not in ("away", "hangs")]
            try:
                found = servers.call([], "n", "report", {}, 30.0, moves=step == "ask")
            except ServerMoved:
                assert step == "ask and stay" and there[0] == servers.current != before
                assert "report" not in [method for one, method in network.asked
                                        if one == servers.current]
            except (client.Refused, client.CannotStore):
                assert network.states[there[0]] in ("refuses", "full")
                assert servers.current == there[0]
            except NotDelivered as error:
                assert not there and servers.current == before
                assert str(error).count("no answer from the site's server: ") == 1
                assert all(host in str(error) for host, _ in SERVERS)
            else:
                assert found == there[0] == servers.current
            assert network.now - began <= 30.0 + 0.01
            if "hangs" not in states:
                assert len(network.asked) <= 3
            if servers.current == SERVERS[0] or servers.current != before:
                assert not servers.should_try_preferred()


def test_those_before_the_current_one_are_asked_again_after_a_minute():
    with pytest.MonkeyPatch.context() as patch:
        network = Network(patch)
        network.states = {SERVERS[0]: "away"}
        servers = SiteServers(SERVERS, lambda: network.now)
        servers.call([], "n", "report", {}, 10.0)
        network.now += LOOK_BACK_S - 1
        assert not servers.should_try_preferred()
        network.now += 1
        assert servers.should_try_preferred() and not servers.try_preferred_servers([], "n", 10.0)
        assert not servers.should_try_preferred() and servers.current == SERVERS[1]


def test_a_server_that_is_only_slow_has_the_time_that_is_left():
    """The standby is off, and the first one takes longer for its `hello` than a live one should."""
    with pytest.MonkeyPatch.context() as patch:
        network = Network(patch)
        network.states = {SERVERS[0]: "hangs", SERVERS[1]: "away"}
        servers = SiteServers(SERVERS[:2], lambda: network.now)
        with pytest.raises(NotDelivered):
            servers.call([], "n", "report", {}, 10.0)
        assert [SERVERS[0], SERVERS[1], SERVERS[0]] == [one for one, _ in network.asked]
        assert network.now == 1010.0


def test_one_server_alone_is_asked_as_ever():
    with pytest.MonkeyPatch.context() as patch:
        network = Network(patch)
        network.states = {SERVERS[0]: "hangs"}
        servers = SiteServers(SERVERS[:1], lambda: network.now)
        with pytest.raises(client.OtherServer):
            servers.call([], "n", "report", {}, 10.0)
        assert [(SERVERS[0], "report")] == network.asked and not servers.should_try_preferred()
