"""Addresses of names: one that hangs in the resolver delays no other, and no answer is lost."""
from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from iostats.base.addresses import Addresses
from iostats.base.option_kinds import is_ip_address


class NameServer:
    """`socket.getaddrinfo` of names: "dead..." without an answer until `wake` is set."""

    def __init__(self):
        self.asked, self.wake, self.address = [], threading.Event(), "10.9.0.23"

    def __call__(self, host, port, type=0, flags=0):
        self.asked.append(host)
        if host.startswith("dead"):
            self.wake.wait(60)
        if host == "unknown":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, type, 6, "", (self.address, port))]


@pytest.fixture
def server():
    found = NameServer()
    yield found
    found.wake.set()


def address_of(addresses, host, timeout_s=30.0):
    [(_, kind, _, _, address)] = addresses.get(host, 411, timeout_s)
    assert kind == socket.SOCK_STREAM
    return address


def test_names_that_hang_delay_no_other(server):
    """37 dead names at once, with asyncio; a living one is known meanwhile, and in a thread too."""
    addresses = Addresses(server)

    async def ask():
        dead = [asyncio.ensure_future(addresses.resolve_async(f"dead{number}", 411, 60))
                for number in range(37)]
        living = await addresses.resolve_async("node-23", 411, 30.0)
        assert [("10.9.0.23", 411)] == [one[4] for one in living]
        assert not any(one.done() for one in dead)
        server.wake.set()
        assert 37 == len(await asyncio.gather(*dead))
    asyncio.run(ask())
    assert ("10.9.0.23", 411) == address_of(addresses, "node-41")


def test_a_name_is_asked_for_once_at_a_time(server):
    addresses = Addresses(server)
    for _ in range(3):
        with pytest.raises(socket.timeout, match=r"no address of dead1 within 0\.01 s: the name "
                                                 r"server does not answer"):
            addresses.get("dead1", 411, 0.01)
    assert ["dead1"] == server.asked
    server.wake.set()
    assert ("10.9.0.23", 411) == address_of(addresses, "dead1")


def test_an_answer_is_used_while_it_is_refreshed(server):
    """After a minute the new address is asked for, and used from the next time on; for an hour."""
    now = [1000.0]
    addresses = Addresses(server, lambda: now[0])
    assert "10.9.0.23" == address_of(addresses, "node-23")[0]
    server.address = "10.9.0.41"
    now[0] += 59
    assert ("10.9.0.23", ["node-23"]) == (address_of(addresses, "node-23")[0], server.asked)
    now[0] += 2
    assert "10.9.0.23" == address_of(addresses, "node-23")[0]
    while threading.active_count() > 1 and any(
            thread.name == "address of node-23" for thread in threading.enumerate()):
        pass
    assert ("10.9.0.41", ["node-23"] * 2) == (address_of(addresses, "node-23")[0], server.asked)


def test_a_name_server_that_fails_stops_nothing_that_was_known(server):
    now = [1000.0]
    addresses = Addresses(server, lambda: now[0])
    server.wake.set()
    assert "10.9.0.23" == address_of(addresses, "dead1")[0]
    server.wake.clear()
    now[0] += 3599
    assert "10.9.0.23" == address_of(addresses, "dead1")[0]
    now[0] += 2
    with pytest.raises(socket.timeout):
        addresses.get("dead1", 411, 0.01)


@pytest.mark.parametrize("host, family", [("127.0.0.23", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_an_address_is_used_as_it_is(server, host, family):
    [(found, _, _, _, address)] = Addresses(server).get(host, 411, 1.0)
    assert (family, host, 411, []) == (found, address[0], address[1], server.asked)


@pytest.mark.parametrize("host, expected", [
    ("10.0.0.23", True), ("fd00::23", True), ("fe80::23%eth0", True), ("::ffff:10.0.0.23", True),
    ("", False), ("node23", False), ("10.0.23", False), ("10.0.0.023", False), ("::23%", False),
    ("10.0.0.23%eth0", False), ("::23%a%b", False), ("10.0.0.23\0", False), ("\udc80", False)])
def test_a_host_is_an_address_or_a_name(host, expected):
    assert expected == is_ip_address(host)


@pytest.mark.parametrize("host", ["unknown", "a" * 64 + ".example", ""])
def test_what_is_no_host_is_one_error(host):
    with pytest.raises(OSError):
        Addresses(NameServer() if host == "unknown" else socket.getaddrinfo).get(
            host or "\0", 411, 30.0)


def test_names_without_end_take_no_threads_without_end(server):
    addresses = Addresses(server)
    for number in range(512):
        with pytest.raises(socket.timeout):
            addresses.get(f"dead{number}", 411, 0.0)
    with pytest.raises(socket.gaierror, match="512 other names are without an answer"):
        addresses.get("node-23", 411, 1.0)
