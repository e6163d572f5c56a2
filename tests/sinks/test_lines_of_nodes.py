"""
Points of what nodes did: lines of the line protocol.
"""
from __future__ import annotations

from client_desk import ClientSite, totals_of

from iostats.sinks.influxdb.lines import NodeLines
from iostats.sinks.nodes import collect_node_clients

SLOT = 1_795_176_000
NODE1 = "lustre_client,fs=scratch,node=node1"


class Desk:
    """A NodeLines and its sweeps."""

    def __init__(self, most=23):
        self.made = NodeLines(most)
        self.site = ClientSite({"10.77.0.1@tcp": "node1", "10.77.0.2@tcp": "a node,2"}, SLOT)

    def lines(self, rows, **how):
        """The lines of a sweep, their times as seconds after the first slot."""
        found = {}
        sweep = self.site.sweep({"scratch": totals_of(rows, **how)})
        for _ in collect_node_clients(sweep, self.site.clients.names, found):
            pass
        lines = [line.rpartition(" ") for line in self.made.lines(sweep.slot, 20, found, [])]
        return [f"{head} {int(at) / 1000 - SLOT:g}" for head, _, at in lines]


def fields(*amounts):
    """The six fields."""
    return ",".join(f"{name}={amount}i" for name, amount in zip(
        ("read_bytes", "write_bytes", "read_rpcs", "write_rpcs", "ost_operations",
         "mdt_operations"), amounts))


def test_a_node_that_did_something_has_a_point():
    """Its totals; the first one has a beginning, at 0."""
    desk = Desk()
    assert [f"{NODE1} {fields(0, 0, 0, 0, 0, 0)} 0",
            f"{NODE1} {fields(2300, 3700, 23, 37, 41, 43)},lower_bound=0i 20"] == desk.lines(
                {"10.77.0.1@tcp": [2300, 3700, 23, 37, 41, 43]})
    assert [f"{NODE1} {fields(2301, 3700, 24, 37, 41, 43)},lower_bound=1i 40"] == desk.lines(
        {"10.77.0.1@tcp": [2301, 3700, 24, 37, 41, 43]}, low=["10.77.0.1@tcp"])


def test_a_node_that_did_nothing_has_none():
    """When it goes on, a point with its old totals is added at the sweep before."""
    desk, rows = Desk(), {"10.77.0.1@tcp": [2300, 0, 23, 0, 0, 0]}
    desk.lines(rows)
    assert [] == desk.lines(rows) + desk.lines(rows)
    assert [f"{NODE1} {fields(2300, 0, 23, 0, 0, 0)} 60",
            f"{NODE1} {fields(2300, 0, 23, 0, 0, 5)},lower_bound=0i 80"] == desk.lines(
                {"10.77.0.1@tcp": [2300, 0, 23, 0, 0, 5]})


def test_names_are_tags():
    """A NID of an unknown node, the storage servers, and those that are added up."""
    desk = Desk(most=1)
    found = desk.lines({"10.77.0.2@tcp": [23, 0, 1, 0, 0, 0], "fd00::5@tcp": [3, 0, 1, 0, 0, 0],
                        "0@lo": [5, 0, 1, 0, 0, 0]})
    assert ["lustre_client,fs=scratch,node=a\\ node\\,2",
            "lustre_client,fs=scratch,node=(storage\\ servers)",
            "lustre_client,fs=scratch,node=(others)"] == [
        line.rpartition(" ")[0].rpartition(" ")[0] for line in found[::2]]
