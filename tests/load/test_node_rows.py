"""
Rows by compute node of what the storage servers count by client, and of jobs where they do not.
"""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ranking import MIB, Known, part, rows, two_targets

from iostats.base.job_facts import ENDED
from iostats.load import amounts, query_table, ranking, table
from iostats.load.ranking import LoadQuery
from iostats.load.sums import ClientLoad, sum_load

# nid001 has two rails; nobody knows whose 10.0.9.9@o2ib is.
NODES = {"10.0.0.1@o2ib": "nid001", "10.0.0.1@o2ib1": "nid001", "10.0.0.7@o2ib": "nid007"}
SCRATCH = {"10.0.0.1@o2ib": (23 * MIB, 0, 37, 5), "10.0.0.1@o2ib1": (7 * MIB, 3 * MIB, 11, 0),
           "10.0.0.7@o2ib": (0, 41 * MIB, 53, 13), "10.0.9.9@o2ib": (0, 0, 2, 2),
           "10.0.0.8@o2ib": (0, 0, 0, 0), "0@lo": (61 * MIB, 0, 71, 1)}


class KnownNodes(Known):
    """The same batch system, and names of nodes."""

    @staticmethod
    def find_node(nid):
        return NODES.get(nid, nid)

    @staticmethod
    def running():
        return ()


def clients(missing=(), low=(), found=SCRATCH):
    return ClientLoad(list(found), [list(one) for one in found.values()],
                      [nid in low for nid in found], dict(missing))


def with_clients(**how):
    """The load of test_ranking: clients are known of scratch, and not of home."""
    return two_targets()._replace(clients={"scratch": clients(**how)})


def answered(ask, load=None, only=None):
    return ranking.answer(load or with_clients(), ask, KnownNodes, only)


def of_scratch(**how):
    return answered(LoadQuery("node", "scratch"), with_clients(**how))


def test_a_nodes_row_is_the_sum_over_its_nids():
    """23 + 7 MiB/s by nid001; an idle client and the storage servers themselves have no row."""
    assert [("nid001", 30 * MIB, 3 * MIB, 48, 5, False, False),
            ("nid007", 0, 41 * MIB, 53, 13, False, False),
            ("10.0.9.9@o2ib", 0, 0, 2, 2, False, False)] == rows(
        of_scratch(), "node", "write_bytes_per_s", "read_bytes_per_s", "requests_per_s",
        "metadata_per_s", "lower_bound", "is_shared")
    assert ["10.0.0.1@o2ib", "10.0.0.1@o2ib1"] == of_scratch()["rows"][0]["nids"]


def test_the_sums_are_those_of_nodes_and_the_storage_servers_stand_apart():
    [fs] = of_scratch()["file_systems"]
    assert (30 * MIB, 44 * MIB, 103, 20) == tuple(fs[f"{one}_per_s"] for one in amounts.METRICS)
    assert (61 * MIB, 0, 71, 1) == tuple(
        fs["storage_servers"][f"{one}_per_s"] for one in amounts.METRICS)
    assert {None} == set(fs["no_job"].values())
    lines = table.format_lines(of_scratch(), 120)
    assert ["(all)", "scratch", "30.0", "44.0", "103.0", "20.0"] == lines[2].split()
    assert ["(storage", "servers)", "scratch", "61.0", "0.0", "71.0", "1.0"] == lines[3].split()
    assert not any("(no job)" in line or "~" in line for line in lines)


def test_a_file_system_without_exports_has_equal_parts_beside_one_with():
    """12366 makes 7 requests a second on home, from two nodes; 4999 one, nobody knows from where"""
    found = answered(LoadQuery("node", sort="requests"))
    assert [("nid007", "scratch", 53, False), ("nid001", "scratch", 48, False),
            ("nid001", "home", 3.5, True), ("nid002", "home", 3.5, True),
            ("10.0.9.9@o2ib", "scratch", 2, False), (None, "home", 1, False)] == rows(
        found, "node", "file_system", "requests_per_s", "is_shared")
    lines = table.format_lines(found, 120)
    assert ["(all)", "(no job)", "(all)", "(storage servers)"] == [
        line.split("  ")[0] for line in lines[2:6]]
    assert any(line.startswith("note: ~ job_stats do not tell") for line in lines)
    assert 2 == sum("~3.5" in line for line in lines)


def test_the_jobs_and_users_on_a_node_are_the_batch_systems_word():
    """4711 (alice) is on nid[001-004], 12366 (bob) on nid[001-002], both seen in job_stats."""
    [first, second, _] = of_scratch()["rows"]
    assert (2, ["12345_10", "4711"], ["alice", "bob"]) == (
        first["jobs"], first["job_names"], first["users"])
    assert (None, [], []) == (second["jobs"], second["job_names"], second["users"])
    [row] = answered(LoadQuery("node", "scratch", text="ALIC"))["rows"]
    assert "nid001" == row["node"]
    [row] = answered(LoadQuery("node", text="o2ib1"))["rows"]
    assert "nid001" == row["node"]


def test_a_job_that_has_ended_is_not_on_its_nodes():
    class Over(KnownNodes):
        @staticmethod
        def facts(id):
            facts = Known.facts(id)
            return facts and facts._replace(state=ENDED)
    [first, *_] = ranking.answer(with_clients(), LoadQuery("node", "scratch"), Over)["rows"]
    assert (None, []) == (first["jobs"], first["job_names"])


def test_jobs_that_job_stats_do_not_know_are_on_their_nodes_too():
    """A site without jobid_var: 4717 is carol's, on nid007; 4711 is listed as well."""
    class Listed(KnownNodes):
        @staticmethod
        def running():
            return [("4717", "carol", ("nid007", "nid008")), ("4711", "alice", ("nid001",))]
    first, second, _ = ranking.answer(with_clients(), LoadQuery("node", "scratch"), Listed)["rows"]
    assert ["12345_10", "4711"] == first["job_names"]
    assert (1, ["4717"], ["carol"]) == (second["jobs"], second["job_names"], second["users"])


def test_a_storage_server_that_is_missing_makes_lower_bounds_of_all_of_its_file_system():
    why = {"oss2": "no sweep for 63 s"}
    found = of_scratch(missing=why)
    assert {True} == {row["lower_bound"] for row in found["rows"]}
    assert {"scratch": why} == found["missing"]
    lines = table.format_lines(found, 120)
    assert 5 == len(lines[2:-1]) and all(">=" in line for line in lines[2:-1])
    assert "note: scratch: oss2: no sweep for 63 s; numbers are lower bounds (>=)" == lines[-1]


def test_a_client_some_of_whose_io_is_lost_makes_a_lower_bound_of_its_node_alone():
    found = of_scratch(low=("10.0.0.1@o2ib1",))
    assert [True, False, False] == [row["lower_bound"] for row in found["rows"]]
    assert [True] == [fs["lower_bound"] for fs in found["file_systems"]]
    assert ("note: >=: some I/O of these nodes may not have been counted (iostats nodes says why)"
            in table.format_lines(found, 120))


def test_targets_that_are_missing_in_job_stats_say_nothing_about_clients():
    load = sum_load([part(j4711=(23, 0, 1, 0))], Known, at=0, span_s=20,
                    missing={"scratch": {"OST0001": "no sweep of oss2"}})
    found = answered(LoadQuery("node"), load._replace(clients={"scratch": clients()}))
    assert {} == found["missing"]
    assert {False} == {row["lower_bound"] for row in found["rows"]}


@pytest.mark.parametrize("ask, only", [
    (LoadQuery("node", "scratch"), "bob"), (LoadQuery("node", "scratch", user="bob"), None),
    (LoadQuery("node", "scratch", job="12345"), None)], ids=["ordinary user", "user", "job"])
def test_a_clients_counters_are_never_one_users_share(ask, only):
    """What is asked for, or allowed, is a part: equal parts of bob's job, as before, with ~."""
    found = answered(ask, only=only)
    assert [("nid001", 37.5, True), ("nid002", 37.5, True)] == rows(
        found, "node", "requests_per_s", "is_shared")
    assert "o2ib" not in repr(found) and "nid007" not in repr(found)


def test_a_client_has_a_row_of_its_own_with_its_node():
    found = answered(LoadQuery("client", sort="read"))
    assert [("10.0.0.7@o2ib", "nid007", 41 * MIB), ("10.0.0.1@o2ib1", "nid001", 3 * MIB),
            ("10.0.0.1@o2ib", "nid001", 0), ("10.0.9.9@o2ib", "10.0.9.9@o2ib", 0)] == rows(
        found, "client", "node", "read_bytes_per_s")
    _, heading, first, *_ = query_table.format_lines({
        "level": "f", **found, "rows": [{**row, "rates_lower_bound": False}
                                        for row in found["rows"]]})
    assert ["CLIENT", "FS"] == heading.split()[:2] and heading.endswith("NODE")
    assert first.startswith("10.0.0.7@o2ib") and first.endswith("nid007")


def test_a_network_has_the_sum_of_its_clients():
    """o2ib: 23 MiB/s of nid001, 41 of nid007, one that only asks, an idle one; o2ib1: 7 and 3."""
    found = answered(LoadQuery("lnet"))
    assert [("o2ib", 23 * MIB, 41 * MIB, 92, 4), ("o2ib1", 7 * MIB, 3 * MIB, 11, 1)] == rows(
        found, "lnet", "write_bytes_per_s", "read_bytes_per_s", "requests_per_s", "clients")
    lines = table.format_lines(found, 120)
    [heading] = [line for line in lines if line.startswith("LNET")]
    [line] = [line for line in lines if line.startswith("o2ib ")]
    assert heading.endswith("CLIENTS") and line.endswith(" 4")


def test_shares_are_of_the_sum_of_the_nodes():
    """41 of 44 MiB/s are nid007's."""
    lines = table.format_lines(answered(LoadQuery("node", "scratch")), 120, shares=True)
    [line] = [line for line in lines if line.startswith("nid007")]
    assert "93.2 %" in line


@pytest.mark.parametrize("count", [4, 5])
def test_many_file_systems_have_their_sums_together(count):
    """The storage servers' line is there too: of `count` times 71 requests."""
    load = two_targets()._replace(parts=[], sums=[], by_id={}, clients={
        f"fs{number}": clients() for number in range(count)})
    lines = table.format_lines(answered(LoadQuery("node"), load), 120)
    sums = [line for line in lines if line.startswith("(storage servers)")]
    assert (1, f"{71 * 5:.1f}") == (len(sums), sums[0].split()[-2]) if count > 4 else (
        4 == len(sums))


def test_where_some_of_many_file_systems_have_no_clients_the_sums_are_one_line():
    load = with_clients()
    load.clients.update({f"fs{number}": clients() for number in range(4)})
    lines = table.format_lines(answered(LoadQuery("node"), load), 120)
    assert lines[2].startswith("(all)") and not lines[3].startswith("(")
    assert ["523.0", "108.0"] == lines[2].split()[-2:]      # 5 x 103 + 8, 5 x 20 + 8


_NIDS = [f"10.0.{net}.{host}@o2ib" for net in range(3) for host in range(7)] + ["0@lo"]


@given(st.dictionaries(st.sampled_from(_NIDS), st.tuples(*[st.integers(0, 10**15)] * 4)),
       st.dictionaries(st.sampled_from(_NIDS), st.sampled_from(["nid001", "nid002", "nid003"])),
       st.sampled_from(["node", "client", "lnet"]))
def test_rows_add_up_to_all_but_the_storage_servers(found, names, by):
    """Whatever nodes the NIDs are of: nothing is lost, and nothing there twice."""
    class Named(KnownNodes):
        find_node = staticmethod(lambda nid: names.get(nid, nid))
    load = sum_load([], Known)._replace(clients={"scratch": clients(found=found)})
    answer = ranking.answer(load, LoadQuery(by), Named)
    [fs] = answer["file_systems"]
    for place, metric in enumerate(amounts.METRICS):
        whole = sum(one[place] for nid, one in found.items() if nid != "0@lo")
        assert whole == fs[f"{metric}_per_s"]
        assert whole == sum(row[f"{metric}_per_s"] for row in answer["rows"])
