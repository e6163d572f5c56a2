"""
What clients did in a sweep, as the sinks get it.
"""
from __future__ import annotations

import types

import numpy

from iostats.harvest.clients.rates import ClientRates, ClientSweep

EVERY_S = 20


class Names:
    """The names of nodes: {NID: node}."""

    def __init__(self, names):
        self.names = names

    def find_node(self, nid):
        return self.names.get(nid, nid)

    def is_known(self, nid):
        return nid in self.names

    def list_nids(self, node):
        return sorted(nid for nid, name in self.names.items() if name == node) or [node]


def rates_of(rows, low=(), missing=None):
    """A ClientRates of {NID: its six rates}; those of `low` are marked; its totals are of 20 s."""
    rates = numpy.array(list(rows.values()), float).reshape(-1, 6)
    return ClientRates(list(rows), rates,
                       numpy.array([bool(missing) or nid in low for nid in rows], bool),
                       missing or {}, (rates * EVERY_S).astype(numpy.int64))


def totals_of(rows, low=(), missing=None):
    """The same of {NID: its six totals since the server's start}."""
    found = rates_of(rows, low, missing)
    return found._replace(totals=found.rates.astype(numpy.int64))


class ClientSite:
    """
    A harvest as the sinks see it, but with clients alone.

    `names`: {NID: node}; `slot`: of the sweep before the first.
    """

    def __init__(self, names, slot=1_795_176_000.0, every_s=EVERY_S):
        self.clients = types.SimpleNamespace(sweep=None, names=Names(names))
        self.slot, self.every_s = slot, every_s
        self.targets, self.agents = {}, {}

    def sweep(self, file_systems):
        """The SiteSweep, as far as it matters, in which clients did this."""
        self.slot += self.every_s
        self.clients.sweep = ClientSweep(self.slot, self.every_s, True, file_systems)
        return self.clients.sweep
