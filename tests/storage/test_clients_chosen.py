"""
File systems that are chosen, and no longer, while an agent reads what clients do: what is told of
them, against a model of the kernel that knows the truth.
"""
from __future__ import annotations

import pytest
from exports_kernel import NS, Account, ExportsKernel

from iostats.storage.clients import Clients
from iostats.storage.encoding import SweepEncoder
from iostats.storage.schedule import Pace, SweepClock
from iostats.storage.targets import find_local_targets
from iostats.wire.messages.clients_encoder import LEFT, find_method

BEGAN = 1_795_225_320 * NS
NID = "10.0.0.7@o2ib3"


class StorageServer:
    """Two file systems of one client, who writes `step` bytes in each between two sweeps."""

    def __init__(self, root, chosen):
        self.root, self.now, self.chosen, self.said = root, BEGAN, chosen, []
        self.kernels = {name: ExportsKernel("2.15.2", "OST", BEGAN, name)
                        for name in ("scratch", "home")}
        for kernel in self.kernels.values():
            kernel.mount(BEGAN, NID, "one")
        clock = SweepClock(lambda: self.now / NS, lambda: self.now / NS)
        pace = Pace(100, sleep=lambda seconds: None)
        self.path = str(root / "clients.state")
        self.clients = Clients(self.path, chosen, clock, pace,
                               lambda text, key=None: self.said.append(text), lambda: self.now)
        self.encoder = SweepEncoder("oss", 100_000, clock, pace, lambda *text: None)
        self.account, self.losses = Account(), []

    def choose(self, *names):
        self.chosen = list(names)
        self.clients.choose(self.chosen)

    def sweep(self, step):
        """{file system: bytes written that it told of now}."""
        self.now += 20 * NS
        for kernel in self.kernels.values():
            kernel.write(self.now, kernel.mounts[0], step, 1)
            kernel.save(self.now, self.root)
        kept = []
        self.encoder.sweep(find_local_targets(str(self.root), self.chosen), self.now // NS, 20, 0.0,
                           lambda run, seq, message, full: kept.append(message), self.clients)
        found = {}
        for message in kept:
            if find_method(message) == "packed_clients":
                gains, losses = self.account.take(message)
                self.losses += [(key[0], one["why"]) for key, some in losses.items()
                                for one in some]
                for (name, _), clients in gains.items():
                    for amounts in clients.values():
                        found[name] = found.get(name, 0) + amounts[1]
        return {name: amount for name, amount in found.items() if amount}


@pytest.fixture
def one(tmp_path):
    return lambda *chosen: StorageServer(tmp_path, list(chosen))


def test_one_that_comes_is_read_from_then_on_and_the_other_goes_on(one):
    """What its files have by then was done before anyone was to read it."""
    server = one("scratch")
    assert {} == server.sweep(23)
    assert {"scratch": 37} == server.sweep(37)
    epoch = server.clients.epoch
    server.choose()
    assert {"scratch": 41} == server.sweep(41)
    assert {"scratch": 43, "home": 43} == server.sweep(43)
    assert epoch == server.clients.epoch and [] == server.losses + server.said


def test_one_that_goes_is_said_to_and_the_other_goes_on(one):
    server = one()
    server.sweep(23)
    epoch = server.clients.epoch
    server.choose("scratch")
    assert {"scratch": 37} == server.sweep(37)
    assert {"scratch": 41} == server.sweep(41)
    assert epoch == server.clients.epoch and [("home", LEFT)] == server.losses


def test_one_that_comes_back_begins_another_epoch(one):
    """What was done meanwhile would be a gain of its first sweep."""
    server = one()
    server.sweep(23)
    server.sweep(37)
    server.choose("scratch")
    server.sweep(41)
    epoch = server.clients.epoch
    server.choose()
    assert {} == server.sweep(43)
    assert epoch != server.clients.epoch
    assert ["a file system is read again: clients' amounts restart"] == server.said
    assert {"scratch": 47, "home": 47} == server.sweep(47)


def test_an_agent_that_is_started_again_goes_on_with_the_choice(one, tmp_path):
    server = one("scratch")
    server.sweep(23)
    server.choose()
    server.sweep(37)
    server.clients.save()
    again = one()
    again.kernels, again.now = server.kernels, server.now
    again.account = server.account
    assert server.clients.epoch == again.clients.epoch
    assert {"scratch": 41, "home": 41} == again.sweep(41)
