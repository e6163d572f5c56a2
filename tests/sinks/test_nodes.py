"""
Counters of nodes: of the busiest ones, and of all others.
"""
from __future__ import annotations

from client_desk import ClientSite, totals_of
from hypothesis import given
from hypothesis import strategies as st

from iostats.sinks.nodes import NodeCounters, collect_node_clients

OTHERS, SERVERS = "(others)", "(storage servers)"


def row(read=0, operations=0):
    """Totals of a client."""
    return [read, 0, 0, 0, 0, operations]


class Desk:
    """Sweeps for a NodeCounters; node1 is 10.77.0.1@tcp and so on, node1 also 10.9.0.1@o2ib."""

    def __init__(self, most=23, backdated=False):
        self.counters = NodeCounters(most, backdated)
        self.site = ClientSite({"10.9.0.1@o2ib": "node1", **{
            f"10.77.0.{number}@tcp": f"node{number}" for number in range(1, 9)}})

    def sweep(self, file_systems, **how):
        """[NodeCounter] after a sweep with these totals: {fs: {NID: [six]}}."""
        found = {}
        sweep = self.site.sweep({fs: totals_of(rows, **how) for fs, rows in file_systems.items()})
        for _ in collect_node_clients(sweep, self.site.clients.names, found):
            pass
        return self.counters.add(found)

    def reads(self, rows, **how):
        """{node: read_bytes} after a sweep of one file system."""
        return {one.node: one.totals[0] for one in self.sweep({"scratch": rows}, **how)}


def test_a_node_has_the_sums_of_its_nids():
    """With what it had before the sweep."""
    desk = Desk()
    desk.sweep({"scratch": {"10.77.0.1@tcp": row(23, 3), "10.9.0.1@o2ib": row(37)}})
    [one] = desk.sweep({"scratch": {"10.9.0.1@o2ib": row(41), "10.77.0.1@tcp": row(23, 5)}},
                       low=["10.9.0.1@o2ib"])
    assert ("scratch", "node1", row(64, 5), row(60, 3), True) == one


def test_the_busiest_have_counters_of_their_own():
    """Across file systems, by their share of bytes and of requests; the others are added up."""
    desk = Desk(most=2)
    found = desk.sweep({"scratch": {"10.77.0.1@tcp": row(1000), "10.77.0.2@tcp": row(10),
                                    "10.77.0.3@tcp": row(30)},
                        "home": {"10.77.0.2@tcp": row(0, 23), "10.77.0.3@tcp": row(0, 1)}})
    assert {("scratch", "node1"): row(1000), ("scratch", "node2"): row(10),
            ("scratch", OTHERS): row(30), ("home", "node2"): row(0, 23),
            ("home", OTHERS): row(0, 1)} == {(one.fs, one.node): one.totals for one in found}
    assert (3, {"node1", "node2"}) == (desk.counters.nodes, desk.counters.shown)


def test_the_storage_servers_are_no_node_and_always_there():
    """They take nobody's place."""
    desk = Desk(most=1)
    assert {"node1": 23, SERVERS: 41} == desk.reads({"10.77.0.1@tcp": row(23), "0@lo": row(41)})
    assert 1 == desk.counters.nodes


def test_what_a_node_gained_before_it_is_shown_stays_with_the_others():
    """Its line begins at 0, and the others' never falls: the sum of all is right."""
    desk = Desk(most=1)
    assert {"node1": 100, OTHERS: 1} == desk.reads({"10.77.0.1@tcp": row(100),
                                                    "10.77.0.2@tcp": row(1)})
    reads = [desk.reads({"10.77.0.1@tcp": row(a), "10.77.0.2@tcp": row(b)})
             for a, b in ((100, 3001), (100, 5001), (101, 5701))]
    assert [{"node1": 100, OTHERS: 3001}, {"node2": 0, OTHERS: 5001},
            {"node2": 700, OTHERS: 5002}] == reads


def test_where_a_new_series_is_backdated_it_has_all():
    """A database gets the amount before as well."""
    desk = Desk(most=1, backdated=True)
    for total in (1, 3001, 5001):
        found = desk.sweep({"scratch": {"10.77.0.1@tcp": row(100), "10.77.0.2@tcp": row(total)}})
    assert {"node2": (0, 2000), OTHERS: (3001, 3001)} == {
        one.node: (one.before[0], one.totals[0]) for one in found}


def test_a_node_that_is_shown_stays_for_a_while():
    """Two that are alike do not take turns."""
    desk, shown = Desk(most=1), []
    for number in range(1, 8):
        shown.append(set(desk.reads({"10.77.0.1@tcp": row(100 * number),
                                     "10.77.0.2@tcp": row(100 * number + number % 2)})) - {OTHERS})
    assert [shown[0]] * 7 == shown


def test_a_client_that_is_away_for_a_sweep_loses_nothing():
    """Its storage server was silent; its counter is where it was."""
    desk = Desk()
    assert {"node1": 23, "node2": 3} == desk.reads({"10.77.0.1@tcp": row(23),
                                                    "10.77.0.2@tcp": row(3)})
    assert {"node2": 5} == desk.reads({"10.77.0.2@tcp": row(5)})
    assert {"node1": 37, "node2": 5} == desk.reads({"10.77.0.1@tcp": row(37),
                                                    "10.77.0.2@tcp": row(5)})


def test_amounts_that_begin_again_are_counted_on():
    """The server has read its store again, after an error; a counter goes on."""
    desk = Desk()
    desk.reads({"10.77.0.1@tcp": row(23), "10.77.0.2@tcp": row(3)})
    assert {"node1": 23, "node2": 3 + 5} == desk.reads({"10.77.0.1@tcp": row(0),
                                                        "10.77.0.2@tcp": row(5)})
    assert {"node1": 23 + 37, "node2": 3 + 5} == desk.reads({"10.77.0.1@tcp": row(37),
                                                             "10.77.0.2@tcp": row(5)})


def test_nodes_that_are_gone_are_forgotten():
    """When there are many of them; one that comes back begins at 0, as a database expects."""
    desk = Desk(most=5000)
    many = {f"10.1.{number // 250}.{number % 250}@tcp": row(23) for number in range(1600)}
    desk.reads({**many, "10.77.0.1@tcp": row(41)})
    assert {"node1": 43} == desk.reads({"10.77.0.1@tcp": row(43)})
    back = desk.reads({"10.77.0.1@tcp": row(47), "10.1.0.7@tcp": row(23 + 37)})
    assert {"node1": 47, "10.1.0.7@tcp": 37} == back


NIDS = [f"10.77.0.{number}@tcp" for number in range(1, 6)] + ["10.9.0.1@o2ib", "0@lo"]
GAINS = st.dictionaries(st.sampled_from(["scratch", "home"]), st.dictionaries(
    st.sampled_from(NIDS), st.integers(0, 2**44), max_size=7), max_size=2)


@given(st.lists(GAINS, max_size=12), st.integers(1, 6), st.booleans())
def test_nothing_is_lost_or_in_two_counters(sweeps, most, backdated):
    """And no counter falls, whoever is shown, comes, goes and comes back."""
    desk, totals, last = Desk(most, backdated), {}, {}
    for gains in sweeps:
        for fs, some in gains.items():
            for nid, gain in some.items():
                totals[fs, nid] = totals.get((fs, nid), 0) + gain
        found = desk.sweep({fs: {nid: row(totals[fs, nid]) for nid in some}
                            for fs, some in gains.items()})
        assert len({one.node for one in found} - {OTHERS, SERVERS}) <= most
        for one in found:
            key = one.fs, one.node
            assert one.before[0] == last.get(key, 0) <= one.totals[0]
            last[key] = one.totals[0]
    for fs in ("scratch", "home"):
        assert sum(total for (one, _), total in last.items() if one == fs) == sum(
            total for (one, _), total in totals.items() if one == fs)
