"""
What the site's server answers to `load` and `query`, of real targets that a model of the kernel has
filled.
"""
from __future__ import annotations

import os
from collections import namedtuple
from types import SimpleNamespace

import kernel
import msgspec
import pytest
from client_messages import ClientAgent, by_kind
from harvest_inside import opened_store
from test_ranking import MIB, Known, T, rows

from iostats.answers import load_queries
from iostats.answers.load_queries import LoadAnswers, LoadParams, QueryParams
from iostats.answers.node_queries import NodeAnswers, NodesParams
from iostats.base import config as site
from iostats.base.cooperative import run_to_end
from iostats.base.errors import WireError
from iostats.base.job_facts import Facts
from iostats.harvest.clients.intake import ClientHarvest
from iostats.harvest.clients.node_names import NodeNames
from iostats.harvest.events.reported_lnet import ShortPeers
from iostats.harvest.resets.gaps import CLEARED
from iostats.harvest.resets.job_ids import JobIds
from iostats.harvest.resets.target import CorrectedTarget
from iostats.load import table
from iostats.wire.messages import clients
from iostats.wire.messages.sweep_decoder import PackedSweep

Sweep = namedtuple("Sweep", "slot every_s complete targets")


class Harvest:
    """What a Harvest offers, over real targets."""

    find_job, facts = staticmethod(Known.find_job), staticmethod(Known.facts)

    def __init__(self, directory=None):
        self.names, self.targets, self.agents, self.sweep = JobIds(), {}, {}, None
        self.kernels, self.now, self.aheads = {}, T, {}     # aheads: {node: s}, of their clocks
        self.clients, self.client_agents = SimpleNamespace(
            sweep=None, names=NodeNames(site.load(os.devnull, environ={}))), {}
        if directory is not None:
            self.clients = ClientHarvest(opened_store(directory / "site.sqlite"),
                                         site.load(os.devnull, environ={}), lambda: self.now)
            self.clients.reload()

    def told(self, node, at, gains, fs="scratch", **fields):
        """A sweep of what clients did, {nid: amounts of CLIENT_METRICS}, of a storage server."""
        self.now = at
        agent = self.client_agents.setdefault(node, ClientAgent(node))
        message = agent.message(at, by_kind(fs, gains), **fields)
        taken = clients.decode_clients(PackedSweep(2, message), 16 << 20)
        self.clients.receive(taken, node, float(at), 0.0)

    def end(self, at, every=20):
        """The sweep of `at` has come from all."""
        self.clients.end_sweep(at, every, True, lambda node: every)
        self.now = at + 3

    def compute_age_s(self, target):
        return None if target.read_at is None else self.now - target.swept_until

    def is_overdue(self, target):
        return target.read_at is None or self.compute_age_s(target) > 45

    def add(self, kind, fs, name, node):
        one = kernel.Kernel("2.16", kind, T * kernel.NS, 600, fs, name)
        self.kernels[fs, name] = one, kernel.Agent(one), node
        self.targets[fs, name] = CorrectedTarget(self.names, fs, name)
        return one

    def read(self, at, *without):
        """A sweep of all targets but those."""
        seen = []
        for key, (_, agent, node) in self.kernels.items():
            if key[1] in without:
                continue
            ahead = self.aheads.get(node, 0)
            blocks, full = agent.sweep((at + ahead) * kernel.NS)
            for block in blocks:
                self.targets[key].add_block(block, node, "b" * 32, full, float(ahead))
            seen.append(self.targets[key])
        self.sweep, self.now = Sweep(at, 20, not without, seen), at + 3


@pytest.fixture
def harvest(tmp_path):
    """Between two sweeps, 20 s apart: 4711 wrote 40 x 1 MiB, cp.0 read, 12366 opened."""
    one = Harvest(tmp_path)
    ost = one.add("OST", "scratch", "OST0000", "oss1")
    mdt = one.add("MDT", "scratch", "MDT0000", "mds1")
    for job in ("4711", "cp.0"):
        ost.rpc((T + 1) * kernel.NS, job, "write_bytes", 4096)
    mdt.rpc((T + 1) * kernel.NS, "12366", "open", 23)
    one.read(T + 20)
    for _ in range(40):
        ost.rpc((T + 30) * kernel.NS, "4711", "write_bytes", MIB)
    for _ in range(10):
        ost.rpc((T + 30) * kernel.NS, "cp.0", "read_bytes", 4096)
    for _ in range(30):
        mdt.rpc((T + 31) * kernel.NS, "12366", "open", 23)
    one.read(T + 40)
    return one


def test_a_rename_is_one_request_in_rates_and_in_totals(harvest):
    """The MDT counts it as rename and as samedir_rename."""
    mdt = harvest.kernels["scratch", "MDT0000"][0]
    for _ in range(30):
        for name in ("rename", "samedir_rename"):
            mdt.rpc((T + 50) * kernel.NS, "4999", name, 23)
    harvest.read(T + 60)
    [row] = run_to_end(LoadAnswers().load(harvest, LoadParams(job="4999"), None))["rows"]
    assert (1.5, 1.5) == (row["requests_per_s"], row["metadata_per_s"])
    [row] = run_to_end(LoadAnswers().query(harvest, QueryParams("b", job="4999"), None))["rows"]
    assert (30, 30) == (row["requests"], row["metadata"])
    assert {"rename": 30, "samedir_rename": 30} == row["counters"]


def test_load_answers_with_the_rates_of_the_last_sweep(harvest):
    answer = run_to_end(LoadAnswers().load(harvest, LoadParams(), None))
    assert (T + 40, 20.0, "rates") == (answer["at"], answer["span_s"], answer["kind"])
    assert [("4711", 2 * MIB, 0.0, 2.0, 0.0), ("cp.0", 0.0, 2048.0, 0.5, 0.0),
            ("12345_10", 0.0, 0.0, 1.5, 1.5)] == rows(
        answer, "job", "write_bytes_per_s", "read_bytes_per_s", "requests_per_s",
        "metadata_per_s")
    assert 0.5 / 4 == answer["file_systems"][0]["no_job_share"]


def test_single_operations_and_the_mean_time_of_a_request(harvest):
    """12366 opened 30 times in 20 s, each in 23 us; at the OST nothing was timed."""
    asked = LoadAnswers()
    answer = run_to_end(asked.load(harvest, LoadParams(show=["latency", "open"], sort="open"),
                                   None))
    assert [("12345_10", 1.5, 0.023), ("4711", 0, None), ("cp.0", 0, None)] == rows(
        answer, "job", "open_per_s", "latency_ms")
    [fs] = answer["file_systems"]
    assert (1.5, 0.023, 0) == (fs["open_per_s"], fs["latency_ms"], fs["no_job"]["open_per_s"])
    answer = run_to_end(asked.load(harvest, LoadParams(show=["close"]), None))
    assert [("4711", 0), ("cp.0", 0), ("12345_10", 0)] == rows(answer, "job", "close_per_s")
    answer = run_to_end(asked.load(harvest, LoadParams(), None))
    assert "open_per_s" not in answer["rows"][0]


@pytest.mark.parametrize("ask, why", [({"show": ["opne"]}, "show: expected some of open"),
                                      ({"sort": "open"}, "sort: expected write, read"),
                                      ({"sort": "x", "show": ["open"]}, "sort: expected")])
def test_what_is_no_column_is_refused(ask, why):
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert(ask, LoadParams)


def test_shares_are_of_what_the_file_system_did(harvest):
    """4711 had 2 of 4 requests a second, and all that was written; cp.0 all that was read."""
    answer = run_to_end(LoadAnswers().load(harvest, LoadParams(show=["open"]), None))
    _, heading, *lines = table.format_lines(answer, shares=True)
    assert ["WR", "%", "RD", "%", "REQS", "%", "META", "%", "OPEN", "%"] == heading.split()[2:12]
    found = {line.split()[0]: line.split()[2:11:2] for line in lines if line[0] != "("}
    assert {"4711": ["100", "0", "50.0", "0", "0"], "cp.0": ["0", "100", "12.5", "0", "0"],
            "12345_10": ["0", "0", "37.5", "100", "100"]} == found


def test_the_levels_are_those_of_jobharvest(harvest):
    """a, b: totals since the entries began; c, d: rates; e: both."""
    def of(level, *names):
        answer = run_to_end(LoadAnswers().query(harvest, QueryParams(level), None))
        assert level == answer["level"]
        return rows(answer, *names)
    assert [("4711", "OST0000", 40 * MIB + 4096, 41, {"write_bytes": 41}),
            ("cp.0", "OST0000", 4096, 11, {"read_bytes": 10, "write_bytes": 1}),
            ("12345_10", "MDT0000", 0, 31, {"open": 31})] == [
        (*row[:4], {name: count for name, count in row[4].items()
                    if name not in ("read", "write")})
        for row in of("a", "job", "target", "write_bytes", "requests", "counters")]
    assert [("4711", "scratch", 41), ("cp.0", "scratch", 11), ("12345_10", "scratch", 31)] == of(
        "b", "job", "file_system", "requests")
    assert [("4711", "scratch", 2.0), ("cp.0", "scratch", 0.5), ("12345_10", "scratch", 1.5)] == of(
        "c", "job", "file_system", "requests_per_s")
    assert [("4711", 2.0), ("cp.0", 0.5), ("12345_10", 1.5)] == of("d", "job", "requests_per_s")
    assert [("scratch", 83, 4.0, 2, 11 / 83)] == of(
        "e", "file_system", "requests", "requests_per_s", "targets", "no_job_share")


@pytest.mark.parametrize("level", ["a", "e", "targets", "file-systems"])
def test_the_share_of_no_job_is_told_for_each_target(harvest, level):
    """11 of the 52 requests to the OST."""
    answer = run_to_end(LoadAnswers().query(harvest, QueryParams(level), None))
    assert [("MDT0000", 31, 0, 0.0), ("OST0000", 52, 11, 11 / 52)] == [
        (one["target"], one["requests"], one["no_job_requests"], one["no_job_share"])
        for one in answer["targets"]]


def test_a_total_that_may_be_too_low_says_why(harvest):
    """The job 4711 is older than the harvest; of 12366 nobody knows when it began."""
    [row] = run_to_end(LoadAnswers().query(harvest, QueryParams("b", job="4711"), None))["rows"]
    assert row["lower_bound"] and any("first read after the job began" in note
                                      for note in row["notes"])
    [row] = run_to_end(LoadAnswers().query(harvest, QueryParams("b", job="12366"), None))["rows"]
    assert not row["lower_bound"] and [] == row["notes"]


def test_a_target_that_misses_a_sweep_is_named(harvest):
    harvest.read(T + 60, "MDT0000")
    [fs] = run_to_end(LoadAnswers().load(harvest, LoadParams(), None))["file_systems"]
    assert (["MDT0000"], True) == (list(fs["missing"]), fs["lower_bound"])
    assert "no sweep of mds1" in fs["missing"]["MDT0000"]


@pytest.fixture
def half_dead(harvest):
    """oss1 has swept at T + 100 too, for the last time 3 s ago; mds1 not since T + 40."""
    for at in (60, 80, 100):
        harvest.read(T + at, "MDT0000")
    return harvest


def test_rates_of_a_server_that_is_dead_are_not_known_and_its_neighbours_are_exact(half_dead):
    def found(by):
        answer = run_to_end(LoadAnswers().load(half_dead, LoadParams(by), None))
        return {row[by]: (row["requests_per_s"], row["lower_bound"], row["age_s"])
                for row in answer["rows"]}
    assert {"oss1": (0.0, False, 3.0), "mds1": (None, True, 63.0)} == found("server")
    assert {"OST0000": (0.0, False, 3.0), "MDT0000": (None, True, 63.0)} == found("target")
    answer = run_to_end(LoadAnswers().load(half_dead, LoadParams("fs"), None))
    [row] = answer["rows"]
    assert (True, 2, 63.0) == (row["lower_bound"], row["targets"], row["age_s"])
    assert {"scratch": {"MDT0000": "no sweep of mds1 for 63 s"}} == answer["missing"]
    assert (3.0, 63.0) == (answer["newest_reading_s"], answer["oldest_reading_s"])


@pytest.mark.parametrize("level, low", [
    ("a", {("4711", "OST0000"): False, ("cp.0", "OST0000"): False,
           ("12345_10", "MDT0000"): True}),
    ("b", {"4711": True, "cp.0": True, "12345_10": True})])
def test_totals_that_a_dead_server_may_add_to_are_lower_bounds(half_dead, level, low):
    """Of 4711 nobody knows what it did at the MDT since; what it did at the OST is known."""
    answer = run_to_end(LoadAnswers().query(half_dead, QueryParams(level), None))
    marked = {row["job"] if level == "b" else (row["job"], row["target"]): row["lower_bound"]
              for row in answer["rows"] if not row["notes"]}
    assert set(marked.items()) <= set(low.items()) and ("cp.0" if level == "b" else (
        "cp.0", "OST0000")) in marked
    assert {"scratch": {"MDT0000": "no sweep of mds1 for 63 s"}} == answer["missing"]
    if level == "a":
        assert [("MDT0000", True, 63.0), ("OST0000", False, 3.0)] == [
            (one["target"], one["lower_bound"], one["age_s"]) for one in answer["targets"]]
        assert {63.0, 3.0} == {row["age_s"] for row in answer["rows"]}


def test_one_jobs_totals_say_that_a_dead_server_may_add_to_them(half_dead):
    """To ask for one job costs no sums of all; the reason is there all the same."""
    answer = run_to_end(LoadAnswers().query(half_dead, QueryParams("b", job="4711"), None))
    [row] = answer["rows"]
    assert row["lower_bound"] and [] == answer["file_systems"]
    assert {"scratch": {"MDT0000": "no sweep of mds1 for 63 s"}} == answer["missing"]


def test_a_file_systems_rates_are_marked_apart_from_its_totals(harvest):
    """One sweep of the MDS is missing, so its rates are not known; its totals are 43 s old."""
    harvest.read(T + 60, "MDT0000")
    harvest.now = T + 63
    [row] = run_to_end(LoadAnswers().query(harvest, QueryParams("e"), None))["rows"]
    assert (False, True) == (row["lower_bound"], row["rates_lower_bound"])
    harvest.now = T + 86
    [row] = run_to_end(LoadAnswers().query(harvest, QueryParams("e"), None))["rows"]
    assert (True, True) == (row["lower_bound"], row["rates_lower_bound"])


def test_where_everybody_is_silent_rates_are_those_of_then(harvest):
    """They are exact, and old; totals may be too low."""
    harvest.now = T + 340
    answer = run_to_end(LoadAnswers().load(harvest, LoadParams(), None))
    assert ({}, True, 300.0) == (answer["missing"], answer["is_old"], answer["newest_reading_s"])
    assert "note: no sweep for 5 min: these rates are that old" in table.format_lines(answer)
    assert "swept 5 min ago" in table.format_lines(answer)[0]
    assert {"OST0000", "MDT0000"} == set(run_to_end(LoadAnswers().query(
        harvest, QueryParams("b"), None))["missing"]["scratch"])


def test_a_table_by_servers_has_a_row_for_the_dead_one(half_dead):
    lines = table.format_lines(run_to_end(LoadAnswers().load(half_dead, LoadParams("server"),
                                                             None)))
    assert ", swept 3 s to 63 s ago, rates over 20 s, " in lines[0]
    assert {"oss1": ["0.0"] * 4, "mds1": ["-"] * 4} == {
        line.split()[0]: line.split()[2:6] for line in lines if line[:4] in ("oss1", "mds1")}
    assert any(line.endswith("63 s ago") for line in lines if line.startswith("mds1"))


def test_a_target_of_one_sweep_has_no_rates_yet(harvest):
    late = harvest.add("OST", "scratch", "OST0001", "oss2")
    late.rpc((T + 50) * kernel.NS, "4711", "write_bytes", MIB)
    harvest.read(T + 60)
    [fs] = run_to_end(LoadAnswers().load(harvest, LoadParams(), None))["file_systems"]
    assert {"OST0001": "seen in one sweep only"} == fs["missing"]


def test_an_ordinary_user_gets_the_own_rows_and_may_not_ask_for_others(harvest):
    asked = LoadAnswers()
    assert ["4711"] == [row["job"] for row in run_to_end(
        asked.load(harvest, LoadParams(), "alice"))["rows"]]
    assert ["12345_10"] == [row["job"] for row in run_to_end(asked.query(
        harvest, QueryParams("b"), "bob"))["rows"]]
    assert [] == run_to_end(asked.load(harvest, LoadParams(), "carol"))["rows"]
    for call in (lambda: run_to_end(asked.load(harvest, LoadParams(user="bob"), "alice")),
                 lambda: run_to_end(asked.query(harvest, QueryParams("a", user="bob"), "alice"))):
        with pytest.raises(WireError, match="expected your own jobs, of user alice"):
            call()


@pytest.mark.parametrize("level", "abcde")
def test_levels_show_an_ordinary_user_no_job_of_others(harvest, level):
    answer = run_to_end(LoadAnswers().query(harvest, QueryParams(level), "alice"))
    assert {"4711"} >= {row["job"] for row in answer["rows"] if "job" in row}
    assert "bob" not in repr(answer) and "12345" not in repr(answer)


def test_totals_can_be_of_one_file_system(harvest):
    """On home 4999 has opened 7 files; on scratch are the other jobs."""
    mdt = harvest.add("MDT", "home", "MDT0000", "mds2")
    for _ in range(7):
        mdt.rpc((T + 50) * kernel.NS, "4999", "open", 23)
    harvest.read(T + 60)
    answer = run_to_end(LoadAnswers().query(harvest, QueryParams("b", file_system="home"), None))
    assert [("4999", "home", 7)] == rows(answer, "job", "file_system", "metadata")
    answer = run_to_end(LoadAnswers().query(harvest, QueryParams("b", file_system="scratch"), None))
    assert {"4711", "12345_10", "cp.0"} == {row["job"] for row in answer["rows"]}


def test_a_total_at_a_target_that_is_being_read_for_the_first_time_is_a_lower_bound(harvest):
    """The first part of its entries has come, with 23 MiB of 4711; what was before nobody knows."""
    late = kernel.Kernel("2.16", "OST", T * kernel.NS, 600, "scratch", "OST0001")
    target = harvest.targets["scratch", "OST0001"] = CorrectedTarget(harvest.names, "scratch",
                                                                   "OST0001")
    for _ in range(23):
        late.rpc((T + 45) * kernel.NS, "4711", "write_bytes", MIB)
    [block], full = kernel.Agent(late).sweep((T + 50) * kernel.NS)
    block.ended = False
    assert target.add_block(block, "oss2", "b" * 32, full)
    answer = run_to_end(LoadAnswers().query(harvest, QueryParams("a", job="4711"), None))
    [row] = [row for row in answer["rows"] if row["target"] == "OST0001"]
    assert (23 * MIB, True, ["first read after the job began (OST0001)"]) == (
        row["write_bytes"], row["lower_bound"], row["notes"])


def test_what_began_after_a_clear_is_not_marked_for_it(harvest):
    """By its own start_time; 4711, which went on after it, is."""
    ost = harvest.kernels["scratch", "OST0000"][0]
    ost.clear()
    ost.rpc((T + 50) * kernel.NS, "4711", "write_bytes", 37)
    harvest.read(T + 60)
    ost.rpc((T + 70) * kernel.NS, "4713", "write_bytes", 41)
    harvest.read(T + 80)
    for level in "ab":
        answer = run_to_end(LoadAnswers().query(
            harvest, QueryParams(level, file_system="scratch"), None))
        marked = {row["job"]: CLEARED in " ".join(row["notes"]) for row in answer["rows"]
                  if row.get("target", "OST0000") == "OST0000" and row["is_job"]}
        assert (True, False) == (marked["4711"], marked["4713"])


def test_a_storage_server_whose_clock_is_ahead_sees_jobs_begin_later():
    """The harvest began 20 s after T; the MDS' clock is 100 s ahead, and 12366 began 10 s later."""
    whys = {}
    for began in (T + 10, T + 30):
        harvest = Harvest()
        harvest.aheads = {"mds1": 100}
        ost = harvest.add("OST", "scratch", "OST0000", "oss1")
        mdt = harvest.add("MDT", "scratch", "MDT0000", "mds1")
        harvest.read(T + 20)
        ost.rpc((T + 35) * kernel.NS, "12366", "write_bytes", 23)
        mdt.rpc((T + 135) * kernel.NS, "12366", "open", 37)
        harvest.read(T + 40)
        facts = Facts(job="12345_10", raw_job="12366", user="bob", started=began, ended=T + 38)
        harvest.facts = lambda id, facts=facts: facts if id == "12366" else None
        [row] = run_to_end(LoadAnswers().query(harvest, QueryParams("b", job="12366"),
                                               None))["rows"]
        whys[began] = row["notes"]
    assert {T + 10: ["first read after the job began (MDT0000 OST0000)"], T + 30: []} == whys

def test_before_the_first_sweep_there_is_no_answer():
    with pytest.raises(WireError, match="no sweep of the storage servers is complete yet"):
        run_to_end(LoadAnswers().load(Harvest(), LoadParams(), None))


def test_a_sweep_is_added_up_once(harvest, monkeypatch):
    asked = LoadAnswers()
    first = run_to_end(asked.load(harvest, LoadParams(), None))
    monkeypatch.setattr(load_queries, "add_up_by_id", None)
    assert first == run_to_end(asked.load(harvest, LoadParams(), None))


# -- clients -----------------------------------------------------------------------------------

NID, OTHER = "10.0.0.1@o2ib", "10.0.0.7@o2ib"


@pytest.fixture
def with_clients(harvest):
    """
    The same two sweeps, and what clients did between them: NID wrote 40 x 1 MiB and OTHER opened 30
    times, in 20 s.
    """
    for at, wrote, opened in ((T + 20, 0, 0), (T + 40, 40, 30)):
        harvest.told("oss1", at, {NID: (0, wrote * MIB, 0, wrote, 0), "0@lo": (0, 0, 0, 0, 7)})
        harvest.told("mds1", at, {OTHER: (0, 0, 0, 0, 0, opened)})
        harvest.end(at)
    return harvest


def test_rows_by_node_are_what_clients_did(with_clients):
    answer = run_to_end(LoadAnswers().load(with_clients, LoadParams("node"), None))
    assert [(NID, 2 * MIB, 2.0, 0.0, False), (OTHER, 0.0, 1.5, 1.5, False)] == rows(
        answer, "node", "write_bytes_per_s", "requests_per_s", "metadata_per_s", "lower_bound")
    [fs] = answer["file_systems"]
    assert (3.5, 0.35) == (fs["requests_per_s"], fs["storage_servers"]["requests_per_s"])
    assert {} == answer["missing"]


def test_a_storage_server_that_misses_a_sweep_marks_the_nodes(with_clients):
    with_clients.read(T + 60)
    with_clients.told("oss1", T + 60, {NID: (0, MIB, 0, 1, 0)})
    with_clients.end(T + 60)
    answer = run_to_end(LoadAnswers().load(with_clients, LoadParams("node"), None))
    [row] = answer["rows"]
    assert (NID, MIB / 20, True) == (row["node"], row["write_bytes_per_s"], row["lower_bound"])
    assert {"scratch": {"mds1": "its last sweep has not arrived"}} == answer["missing"]


def test_an_ordinary_user_sees_equal_parts_of_the_own_jobs_by_node(with_clients):
    """alice's 4711, on nid[001-004], has half of the requests; no client is named."""
    answer = run_to_end(LoadAnswers().load(with_clients, LoadParams("node"), "alice"))
    assert [(f"nid00{number}", 0.5, True) for number in (1, 2, 3, 4)] == rows(
        answer, "node", "requests_per_s", "is_shared")
    assert "o2ib" not in repr(answer)
    with pytest.raises(WireError, match=r"expected root or one of .site. readers for level f"):
        run_to_end(LoadAnswers().query(with_clients, QueryParams("f"), "alice"))
    with pytest.raises(WireError, match=r"expected root or one of .site. readers for by lnet"):
        run_to_end(LoadAnswers().load(with_clients, LoadParams("lnet"), "alice"))


def test_by_lnet_a_network_without_io_has_a_row(with_clients):
    """Nobody did anything in the last sweep; by node there is no row then."""
    for at in (T + 60, T + 80):
        with_clients.read(at)
        with_clients.told("oss1", at, {NID: (0, 0, 0, 0, 0)})
        with_clients.told("mds1", at, {OTHER: (0, 0, 0, 0, 0, 0)})
        with_clients.end(at)
    answer = run_to_end(LoadAnswers().load(with_clients, LoadParams("lnet"), None))
    assert [("o2ib", 2, 0.0)] == rows(answer, "lnet", "clients", "write_bytes_per_s")
    assert [] == run_to_end(LoadAnswers().load(with_clients, LoadParams("node"), None))["rows"]


def test_totals_of_clients_are_those_of_today(with_clients):
    """They began to be read today; two more sweeps."""
    for at in (T + 60, T + 80):
        with_clients.read(at)
        with_clients.told("oss1", at, {NID: (3 * MIB, 0, 5, 0, 0)})
        with_clients.told("mds1", at, {OTHER: (0, 0, 0, 0, 0, 0)})
        with_clients.end(at)
    answer = run_to_end(LoadAnswers().query(with_clients, QueryParams("f"), None))
    assert [(NID, 40 * MIB, 6 * MIB, 50, 0, 0.25), (OTHER, 0, 0, 30, 30, 0.0)] == rows(
        answer, "client", "write_bytes", "read_bytes", "requests", "metadata", "requests_per_s")
    assert {False} == {row["rates_lower_bound"] for row in answer["rows"]}
    assert "totals" == answer["kind"] and answer["began"] < T
    assert all(row["lower_bound"] and any("not read before" in note for note in row["notes"])
               for row in answer["rows"])


def test_a_dead_storage_servers_clients_are_shown_as_lower_bounds_in_totals(with_clients):
    with_clients.read(T + 60)
    with_clients.told("oss1", T + 60, {NID: (0, MIB, 0, 1, 0)})
    with_clients.end(T + 60)
    answer = run_to_end(LoadAnswers().query(with_clients, QueryParams("f"), None))
    assert {True} == {row["lower_bound"] for row in answer["rows"]}
    assert "mds1" in answer["missing"]["scratch"]
    assert any("mds1: its clients were not read up to then" in row["notes"]
               for row in answer["rows"])


def test_clients_are_of_no_user_and_no_job():
    for wrong in ({"user": "alice"}, {"job": "4711"}):
        with pytest.raises(msgspec.ValidationError, match="expected neither `user` nor `job`"):
            msgspec.convert({"level": "f", **wrong}, QueryParams)
        with pytest.raises(msgspec.ValidationError, match="by lnet: expected neither `user`"):
            msgspec.convert({"by": "lnet", **wrong}, LoadParams)


def test_where_no_storage_server_tells_of_clients_f_says_so(harvest):
    with pytest.raises(WireError, match="no storage server reports its clients"):
        run_to_end(LoadAnswers().query(harvest, QueryParams("f"), None))
    with pytest.raises(WireError, match="no storage server reports its clients"):
        run_to_end(LoadAnswers().load(harvest, LoadParams("lnet"), None))
    answer = run_to_end(LoadAnswers().load(harvest, LoadParams("node"), None))
    assert {"~"} & set("".join(table.format_lines(answer)))


def test_a_storage_server_with_a_longer_pause_makes_no_lower_bounds(with_clients):
    """mds1 sweeps each 40 s: what is asked for ends with its last sweep, and is exact."""
    def end(at):
        with_clients.read(at)
        with_clients.clients.end_sweep(at, 20, True, {"oss1": 20, "mds1": 40}.get)
        with_clients.now = at + 3
    for at in (T + 60, T + 80, T + 100, T + 120):
        with_clients.told("oss1", at, {NID: (0, MIB, 0, 1, 0)})
        if at % 40 == 0:                                        # T + 60 and T + 100
            with_clients.told("mds1", at, {OTHER: (0, 0, 0, 0, 0, 7)})
        end(at)
    answer = run_to_end(NodeAnswers().answer(with_clients.clients, NodesParams(T + 60.0), None,
                                             ShortPeers([])))
    assert T + 100 == answer["until"]
    assert [(NID, 2 * MIB, 0, False, {}), (OTHER, 0, 7, False, {})] == [
        (row["node"], row["write_bytes"], row["mdt_operations"], row["lower_bound"],
         row["at_most"]) for row in answer["nodes"]]


def test_totals_beyond_the_integers_of_64_bits_are_not_negative(harvest):
    """2.17 leaves a sum at 2**63 - 1; two of them were -2."""
    other = harvest.add("OST", "scratch", "OST0001", "oss1")
    ost = harvest.kernels["scratch", "OST0000"][0]
    for one in (ost, other):
        for _ in range(2):
            one.rpc((T + 50) * kernel.NS, "4999", "write_bytes", 2**62 - 1)
    harvest.read(T + 60)
    [row] = run_to_end(LoadAnswers().query(harvest, QueryParams("b", job="4999"), None))["rows"]
    assert (pytest.approx(2**64, rel=1e-9), 4) == (row["write_bytes"], row["requests"])
    whole = run_to_end(LoadAnswers().query(harvest, QueryParams("e"), None))["rows"][0]
    assert pytest.approx(2**64, rel=1e-9) == whole["write_bytes"]
