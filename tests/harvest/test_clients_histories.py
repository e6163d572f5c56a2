"""
Random histories from end to end: the model of the kernel, the agents' own code, their messages, and
the site's server, with kills and restarts of all of them.

What the server has is what its agents' messages say, added up by another account of them
(exports_kernel.Account); that what they say is true, or marked, is
tests/storage/test_client_histories.py.
"""
from __future__ import annotations

from pathlib import Path

from client_messages import decoded
from examples import examples
from exports_kernel import NS, Account
from harvest_inside import HarvestInside
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from test_client_histories import Server, WithoutStart, WithStart, World

from iostats.storage.encoding import SweepEncoder
from iostats.storage.targets import find_local_targets
from iostats.wire.messages.clients_encoder import find_method
from iostats.wire.messages.sweep_decoder import PackedSweep, decode_sweep

_EVERY_S = 50


class SiteSends(Server):
    """A storage server whose agent sends to a site's server."""

    def __init__(self, world, name):
        self.name, self.heard, self.fate = name, Account(), ""
        super().__init__(world, name)

    def begin(self):
        super().begin()
        old = self.encoder
        self.encoder = SweepEncoder(self.name, 3_000, old._clock, old._pace, lambda *text: None)

    def sweep(self):
        """What it sends; `fate`: what becomes of the server meanwhile."""
        kept = []
        self.world.number += 1
        self.encoder.sweep(find_local_targets(str(self.root)), self.world.number * _EVERY_S,
                           _EVERY_S,
                           0.0, lambda run, seq, message, full: kept.append(message), self.clients)
        site, is_lost = self.world.site, False
        site.now = self.world.now / NS
        for place, message in enumerate(kept):
            is_here = place == len(kept) // 2
            if self.fate == "lost" and is_here:
                is_lost = True
            if is_lost:
                self.encoder.is_broken = True
                continue
            if self.fate == "killed" and is_here:           # before it is on the disk
                site.harvest.receive(taken_of(message), self.name)
                site.again()
            answer = site.harvest.receive(taken_of(message), self.name)
            site.store.commit()
            if not answer["taken"]:
                self.encoder.is_broken = is_lost = True
                continue
            if find_method(message) == "packed_clients":
                self.heard.take(message)
            if self.fate == "again" and is_here:            # and once more, after a kill
                site.again()
                assert site.harvest.receive(taken_of(message), self.name)["taken"]
        self.fate = ""
        return [message for message in kept if find_method(message) == "packed_clients"]


def taken_of(message):
    if find_method(message) == "packed_clients":
        return decoded(message)
    return decode_sweep(PackedSweep(2, message), 16 << 20)


class SiteWorld(World):
    """The same storage servers, and a site's server."""

    def __init__(self, release, top):
        self.number = 1_795_225_320 // _EVERY_S
        super().__init__(release, top)
        self.site = HarvestInside(Path(top) / "site.sqlite")
        self.servers = [SiteSends(self, "one"), SiteSends(self, "other")]


class _AtTheSite:
    """What is added to the histories of the agents."""

    @initialize(release=st.data())
    def begin(self, release):
        super().begin(release)
        top = Path(self._top.name, "site")
        top.mkdir()
        self.world = SiteWorld(self.world.release, top)

    def teardown(self):
        if hasattr(self, "world"):
            self.world.site.store.close()
        super().teardown()

    @rule(place=st.integers(0, 1), fate=st.sampled_from(("lost", "killed", "again")))
    def trouble(self, place, fate):
        self.world.servers[place].fate = fate

    @rule()
    def sweep_is_over(self):
        """Its gains go to the history."""
        self.world.site.turn()

    @rule(is_orderly=st.booleans())
    def another_site_server(self, is_orderly):
        if is_orderly:
            self.world.site.harvest.close()
        self.world.site.again()

    def _sweep(self):
        super()._sweep()
        site, expected = self.world.site, {}
        for server in self.world.servers:
            for (name, kind, nid), amounts in server.heard.totals.items():
                sums = expected.setdefault((name, nid), [0] * 6)
                for place, amount in enumerate(amounts):
                    sums[5 if (kind, place) == ("MDT", 4) else place] += amount
        found = site.did(0.0, self.world.now / NS + 1000)
        assert {key: sums for key, sums in expected.items() if any(sums)} == {
            key: totals.high for key, totals in found.items() if any(totals.high)}
        for server in self.world.servers:
            for (name, _), losses in server.heard.losses.items():
                for loss in losses:
                    if loss["nid"] and (name, loss["nid"]) in found:
                        assert found[name, loss["nid"]].is_lower_bound


class SiteWithStart(_AtTheSite, WithStart):
    """From 2.15.2 on."""


class SiteWithoutStart(_AtTheSite, WithoutStart):
    """Before."""


_SETTINGS = settings(max_examples=examples(25), stateful_step_count=30, deadline=None)
TestSiteWithStart = SiteWithStart.TestCase
TestSiteWithStart.settings = _SETTINGS
TestSiteWithoutStart = SiteWithoutStart.TestCase
TestSiteWithoutStart.settings = _SETTINGS
del WithStart, WithoutStart
