"""
Totals: each report once, the sums exact, and all that is not known said.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import ROOT, report

from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals

NODES = frozenset(("nid00001", "nid00002", "nid00003", "nid00004"))


def llite(file_system="scratch", lower_bound=False, why="", instance="ff9a", **values):
    return Delta("llite", file_system, "", instance, values, lower_bound, why)


def osc(target="OST0000", file_system="scratch", lower_bound=False, why="", **values):
    return Delta("osc", file_system, target, "ff9a", values, lower_bound, why)


def unread(source, why="permission denied", target=""):
    return Delta(source, "scratch", target, "ff9a", None, True, why)


def totals(*reports, expected=None, **options):
    found = Totals("4711", len(reports) if expected is None else expected, **options)
    for one in reports:
        found.add(one)
    return found


def only(found):
    [file_system] = found.record()["file_systems"]
    return file_system


# -- what some nodes did not tell ---------------------------------------------------------


def test_a_node_of_which_no_counter_of_a_layer_was_seen_marks_the_sum_of_that_layer():
    """41 MiB over the network of one node, and of the other, with 23 MiB read, nothing at all."""
    found = only(totals(
        report("nid00001", [llite(read_bytes=37 * 2**20), osc(read_bytes=41 * 2**20)]),
        report("nid00002", [llite(read_bytes=23 * 2**20)])))
    assert (41 * 2**20, True) == (found["network"]["read_bytes"], found["network"]["lower_bound"])
    assert (60 * 2**20, False) == (found["application"]["read_bytes"],
                                   found["application"]["lower_bound"])
    assert ["nid00002: osc: none of its files was seen"] == found["notes"]
    assert ["osc"] == found["low"]


def test_a_layer_that_nobody_has_seen_marks_no_other():
    """The network is unknown, which is told by itself."""
    found = only(totals(report("nid00001", [llite(read_bytes=37)])))
    assert (None, False, []) == (found["network"], found["lower_bound"], found["notes"])


@pytest.mark.parametrize("other, expected", [
    (report("nid00002", [llite()], dirty_bytes={"scratch": 37}), 60),
    (report("nid00002", [llite()], dirty_bytes={}), None),
    (report("nid00002", [llite()]), None),
    (report("nid00002", [], reason="no start"), None),
    (report("nid00002", [llite("home")], dirty_bytes={"home": 41}), 23),
], ids=["told", "not readable", "of an older client", "without numbers", "not mounted there"])
def test_what_was_not_sent_yet_is_known_of_all_nodes_or_not_at_all(other, expected):
    """A sum of some would look like a whole: 23 bytes of the one, 37 of the other."""
    found = totals(report("nid00001", [llite(write_bytes=101)], dirty_bytes={"scratch": 23}), other)
    [scratch] = [one for one in found.record()["file_systems"] if one["name"] == "scratch"]
    assert expected == scratch["dirty_bytes"]


def test_lnets_messages_are_added_up_over_the_nodes_that_report_them():
    """nid00003 reports no resends, nid00004 nothing."""
    found = totals(
        report("nid00001", [llite()], lnet=[2300, 3700, 0, 41_000, 53_000, 7, 2]),
        report("nid00002", [llite()], lnet=[1700, 1900, 29, 31_000, 37_000, 92, 3]),
        report("nid00003", [llite()], lnet=[4100, 4300, 13, 47_000, 59_000]),
        report("nid00004", [llite()])).record()
    assert {"nodes": 3, "sent": 8100, "received": 9900, "dropped": 42, "sent_bytes": 119_000,
            "received_bytes": 149_000, "resend_nodes": 2, "resent": 99, "resent_of": 4000,
            "response_timeouts": 5, "dropped_most": "nid00002",
            "resent_most": "nid00002"} == {
        name: value for name, value in found["lnet"].items() if name != "by_node"}
    assert {"sent": 4100, "received": 4300, "dropped": 13, "sent_bytes": 47_000,
            "received_bytes": 59_000} == found["lnet"]["by_node"]["nid00003"]
    assert ["nid00001", "nid00002", "nid00003"] == list(found["lnet"]["by_node"])
    assert totals(report("nid00001", [llite()])).record()["lnet"] is None


def test_lnets_messages_of_a_node_in_two_parts_are_known_as_far_as_in_both():
    first = [2300, 3700, 0, 41_000, 53_000, 7, 2]
    for second, expected in (([41, 43, 2, 470, 590, 1, 0], 2341), ([41, 43, 2, 470, 590], 2341),
                             ([], None)):
        found = totals(
            report("nid00001", [llite()], seq="a", ended=1000.0, elapsed_s=23.0, lnet=first),
            report("nid00001", [llite()], seq="b", ended=2000.0, elapsed_s=23.0, lnet=second),
            expected=1).record()
        assert expected == (found["lnet"] and found["lnet"]["sent"])
        assert (found["lnet"] or {}).get("resent", 0) == (8 if len(second) == 7 else 0)


def test_a_gain_that_no_node_can_have_is_not_counted():
    """2**62 bytes and more come of damaged counters; the calls, and squares of times, may stand."""
    found = only(totals(report("nid00001", [llite(
        write_bytes=2**62, write_calls=23, open=37, open_us=41, open_us2=2**62)])))
    assert (0, 23, True) == (found["application"]["write_bytes"],
                             found["application"]["write_calls"], found["lower_bound"])
    assert 37 == found["operations"]["open"]["count"]
    assert ["nid00001: llite: not counted: write_bytes: no node can have gained 2**62 or more"
            ] == found["notes"]


# -- sums --------------------------------------------------------------------------------


def test_nodes_mounts_and_targets_are_added_exactly():
    """23 + 37 + 41 MiB are 101 MiB to the byte, in whole numbers of any size."""
    found = only(totals(
        report("nid00001", [llite(read_bytes=23 * 2**20, read_calls=5),
                            llite(instance="ff9b", read_bytes=37 * 2**20, read_calls=7),
                            osc(read_bytes=2**61, read_rpcs=3), osc("OST0001", read_rpcs=11)]),
        report("nid00002", [llite(read_bytes=41 * 2**20, read_calls=13, write_bytes=2**61,
                                  write_calls=1),
                            osc(read_bytes=2**61 + 1, read_rpcs=17)])))
    assert {"read_bytes": 101 * 2**20, "write_bytes": 2**61, "read_calls": 25, "write_calls": 1,
            "lower_bound": False} == found["application"]
    assert {"read_bytes": 2**62 + 1, "write_bytes": 0, "read_rpcs": 31, "write_rpcs": 0,
            "lower_bound": False} == found["network"]
    assert {"read_bytes": 2**62 + 1, "read_rpcs": 20} == found["targets"]["OST0000"]
    assert {"read_rpcs": 11} == found["targets"]["OST0001"]


def test_data_on_an_mdt_is_network_data_too():
    """osc and mdc together are the network: files on the MDT (Data-on-MDT) go by mdc."""
    found = only(totals(report(deltas=[
        osc(read_bytes=8192, read_rpcs=2),
        Delta("mdc", "scratch", "MDT0000", "ff9a", {"read_bytes": 4096, "read_rpcs": 1}, False,
              "")])))
    assert (12288, 3) == (found["network"]["read_bytes"], found["network"]["read_rpcs"])


def test_nodes_that_all_count_something_else_are_added_up_as_well():
    """100 nodes, each with a counter of its own beside 23 opens: more sets of names than 64."""
    found = only(totals(*(report(f"nid{number:05}", [
        llite(**{"open": 23, f"new_{number}": number})]) for number in range(100))))
    assert 2300 == found["operations"]["open"]["count"]
    assert [0, 41, 99] == [found["operations"][f"new_{number}"]["count"] for number in (0, 41, 99)]


def test_file_systems_never_mix():
    """Each has its own row, in the order of the names."""
    found = totals(report(deltas=[llite(open=23), llite("home", open=37)])).record()
    assert [("home", 37), ("scratch", 23)] == [
        (fs["name"], fs["operations"]["open"]["count"]) for fs in found["file_systems"]]


def test_operations_have_counts_and_seconds_and_the_order_of_the_tables():
    """A new release's operation comes after the known ones; depths and cache hits are none."""
    found = only(totals(report(deltas=[llite(
        teleport=3, mkdir=13, open=23, open_us=61403, fsync=5, opencount=97, getxattr_hits=11,
        cached_read_bytes=4096, cached_read_calls=1, hybrid_noswitch=7)])))
    assert ["open", "fsync", "mkdir", "teleport"] == list(found["operations"])
    assert [(23, 0.061403), (5, None)] == [
        (found["operations"][name]["count"], found["operations"][name]["seconds"])
        for name in ("open", "fsync")]
    assert (97, 11, 4096, 7) == tuple(found["other"][name] for name in (
        "opencount", "getxattr_hits", "cached_read_bytes", "hybrid_noswitch"))


@pytest.mark.parametrize("values, created", [
    (dict(mknod=26), 26), (dict(create=19), 19), (dict(mknod=31, create=5), 31),
    (dict(mknod=5, create=5), 5), (dict(mknod=7, create=19), 19),
], ids=["open(O_CREAT), 2.14 and newer", "open(O_CREAT), RHEL 6", "open and mknod(2)",
        "mknod(2) alone, which counts in both", "whatever else: the larger"])
def test_a_file_that_was_created_is_counted_once(values, created):
    """The kernel counts mknod(2) of a file in `create` and in `mknod`."""
    found = totals(report(deltas=[llite(**values)])).record()
    assert created == found["file_systems"][0]["operations"]["create"]["count"]
    assert {"create": created} == found["nodes"]["node001"]["file_systems"]["scratch"]


def test_the_time_of_a_creation_is_counted_once_too():
    """create_us is a part of mknod_us where both were counted."""
    found = only(totals(report(deltas=[llite(mknod=5, mknod_us=41000, create=5,
                                             create_us=43000)])))
    assert found["operations"]["create"]["seconds"] in (0.041, 0.043)


# -- what is not known is not 0 ----------------------------------------------------------


def test_a_layer_that_no_node_could_read_is_none():
    """Not 0: nobody knows."""
    found = only(totals(report(deltas=[unread("llite"), unread("osc", target="OST0000")])))
    assert (None, None, None, None) == (found["application"], found["network"],
                                        found["operations"], found["other"])
    assert found["lower_bound"]
    assert ["node001: llite: permission denied", "node001: osc: permission denied"
            ] == found["notes"]


def test_a_layer_that_did_nothing_is_0():
    """An absent counter is a counter at 0."""
    found = only(totals(report(deltas=[llite(), osc()])))
    assert {"read_bytes": 0, "write_bytes": 0, "read_calls": 0, "write_calls": 0,
            "lower_bound": False} == found["application"]
    assert {"read_bytes": 0, "write_bytes": 0, "read_rpcs": 0, "write_rpcs": 0,
            "lower_bound": False} == found["network"]
    assert {} == found["operations"]


def test_a_layer_that_one_node_could_not_read_is_a_lower_bound():
    """The others' numbers stand, and are marked; the note names the node."""
    found = only(totals(report("nid00001", [llite(open=23), osc(read_rpcs=5)]),
                        report("nid00002", [unread("llite"), osc(read_rpcs=7)])))
    assert (23, True) == (found["operations"]["open"]["count"],
                          found["application"]["lower_bound"])
    assert (12, False) == (found["network"]["read_rpcs"], found["network"]["lower_bound"])
    assert ["nid00002: llite: permission denied"] == found["notes"]


def test_without_stats_the_rpcs_are_those_of_rpc_stats_and_the_bytes_unknown():
    """What an ordinary user can read up to 2.16."""
    found = only(totals(report(deltas=[unread("osc", target="OST0000"), Delta(
        "rpc_stats", "scratch", "OST0000", "ff9a",
        {"read_rpcs_pages_1": 23, "read_rpcs_pages_256": 5, "write_rpcs_pages_16": 37}, False,
        "")])))
    assert (None, None, 28, 37) == tuple(found["network"][name] for name in (
        "read_bytes", "write_bytes", "read_rpcs", "write_rpcs"))


def test_a_cleared_rpc_stats_makes_its_rpcs_a_lower_bound():
    """Where the RPCs come from rpc_stats, what is wrong with it is wrong with them."""
    found = only(totals(report(deltas=[Delta(
        "rpc_stats", "scratch", "OST0000", "ff9a", {"read_rpcs_pages_1": 23}, True,
        "the counters were cleared after the start")])))
    assert (23, True) == (found["network"]["read_rpcs"], found["network"]["lower_bound"])


def test_a_lower_bound_of_one_file_marks_its_layer_and_its_file_system():
    """And no other."""
    found = totals(report(deltas=[
        llite(open=23), osc(read_rpcs=5, lower_bound=True, why="the counters were cleared"),
        llite("home", open=37)])).record()
    home, scratch = found["file_systems"]
    assert (False, False, True, True, False) == (
        home["lower_bound"], scratch["application"]["lower_bound"],
        scratch["network"]["lower_bound"], scratch["lower_bound"],
        home["application"]["lower_bound"])
    assert ["node001: osc: the counters were cleared"] == scratch["notes"]


def test_with_a_node_missing_every_number_is_a_lower_bound():
    """It may have done anything."""
    found = only(totals(report("nid00001", [llite(open=23), osc()]), expected=NODES))
    assert (True, True, True) == (found["application"]["lower_bound"],
                                  found["network"]["lower_bound"], found["lower_bound"])


# -- each report once --------------------------------------------------------------------


def test_a_report_that_comes_twice_counts_once():
    """`stop` tries again until it is told: the answer may have been lost, not the report."""
    one = report(deltas=[llite(open=23)])
    found = Totals("4711", 1)
    assert [(True, ""), (True, "this report was counted before")] == [
        tuple(found.add(one)), tuple(found.add(one))]
    assert 23 == only(found)["operations"]["open"]["count"]


def test_a_job_measured_in_parts_is_added_up():
    """start, stop, start, stop: two reports of one node that follow one another."""
    found = totals(report(deltas=[llite(open=23)], ended=1060.0, elapsed_s=60.0, seq="one"),
                   report(deltas=[llite(open=37)], ended=1120.0, elapsed_s=60.0, seq="two"),
                   expected=1)
    assert 60 == only(found)["operations"]["open"]["count"]
    assert (1, 120.0, {}) == (found.reported, found.record()["job"]["elapsed_s"],
                              found.record()["coverage"]["refused"])


@pytest.mark.parametrize("ended, elapsed_s", [
    (1060.0, 60.0), (1070.0, 60.0), (1050.0, 10.0), (1200.0, 300.0), (1040.0, 300.0),
], ids=["the same time", "overlaps its end", "within it", "around it", "overlaps its start"])
def test_the_same_time_of_a_node_is_not_counted_twice(ended, elapsed_s):
    """Two starts with two state directories would count the same work twice."""
    found = Totals("4711", 1)
    found.add(report(deltas=[llite(open=23)], ended=1060.0, elapsed_s=60.0, seq="one"))
    outcome = found.add(report(deltas=[llite(open=23)], ended=ended, elapsed_s=elapsed_s,
                               seq="two"))
    assert not outcome.counted and "count the same work twice" in outcome.why
    assert 23 == only(found)["operations"]["open"]["count"]
    assert {"overlapping reports of one node": 1} == found.record()["coverage"]["refused"]


def test_two_nodes_with_one_name_are_both_counted_and_the_report_says_so():
    """They have different boots: nothing is counted twice, and a cloned host name shows."""
    found = totals(report("nid00001", [llite(open=23)], boot_id="boot one", seq="one"),
                   report("nid00001", [llite(open=37)], boot_id="boot two", seq="two"),
                   expected=1)
    assert 60 == only(found)["operations"]["open"]["count"]
    assert ("nid00001: two nodes report under one name, or it was booted in between"
            in found.record()["notes"])


# -- coverage ----------------------------------------------------------------------------


def test_an_unknown_node_is_refused_with_what_to_do():
    """Not among the job's nodes: perhaps --node, perhaps another job's node."""
    found = Totals("4711", NODES, fold=lambda nodes: "nid[00001-00004]")
    outcome = found.add(report("login1", [llite(open=23)]))
    assert (False, "login1 is not among the job's nodes nid[00001-00004]; name it with --node"
            ) == tuple(outcome)
    assert ([], {"unknown node": 1}, 0) == (found.record()["file_systems"],
                                           found.record()["coverage"]["refused"], found.reported)


def test_nodes_without_a_report_are_missing_by_name():
    """And those that could not read anything say why."""
    found = totals(report("nid00001", [llite(open=23)]),
                   report("nid00002", reason="no permission to read the counters"),
                   expected=NODES)
    coverage = found.record()["coverage"]
    assert {"nid00002": "no permission to read the counters", "nid00003": "no report",
            "nid00004": "no report"} == coverage["missing"]
    assert (4, 1, 3, False) == (coverage["expected"], coverage["reported"],
                                coverage["missing_count"], coverage["complete"])
    assert not found.all_reported


def test_a_count_of_nodes_has_no_names():
    """--nodes 4: three are missing, and nobody knows which."""
    found = totals(report("nid00001", [llite()]), expected=4)
    coverage = found.record()["coverage"]
    assert (4, 1, {}, 3, False) == (coverage["expected"], coverage["reported"],
                                    coverage["missing"], coverage["missing_count"],
                                    coverage["complete"])


def test_without_a_count_nothing_is_called_complete():
    """Nobody said how many nodes there are."""
    found = Totals("4711")
    found.add(report("nid00001", [llite()]))
    coverage = found.record()["coverage"]
    assert (None, 1, 0, False) == (coverage["expected"], coverage["reported"],
                                   coverage["missing_count"], coverage["complete"])
    assert not found.all_reported


def test_all_are_heard_when_each_has_reported_or_said_that_it_cant():
    """The server ends then, and waits for nobody."""
    found = totals(*(report(node, [llite()]) for node in ("nid00001", "nid00002", "nid00003")),
                   report("nid00004", reason="no permission"), expected=NODES)
    assert found.all_reported
    assert (3, False) == (found.reported, found.record()["coverage"]["complete"])


def test_a_node_that_could_read_after_all_is_not_missing():
    """A second `stop` as root delivers what the first one could not read."""
    found = totals(report("nid00001", reason="no permission", seq="one"),
                   report("nid00001", [llite(open=23)], seq="two"), expected=1)
    coverage = found.record()["coverage"]
    assert ({}, 1, True) == (coverage["missing"], coverage["reported"], coverage["complete"])


def test_a_node_without_lustre_has_reported():
    """It is no error and not missing; the report says so."""
    found = totals(report("nid00001", []))
    assert (["nid00001: no Lustre file system is mounted"], True) == (
        found.record()["notes"], found.record()["coverage"]["complete"])


def test_more_nodes_than_the_limit_are_refused():
    """site.cfg: [server] max_nodes."""
    found = Totals("4711", max_nodes=2)
    outcomes = [found.add(report(node, [llite(open=1)])).counted
                for node in ("nid00001", "nid00002", "nid00003")]
    assert [True, True, False] == outcomes
    assert {"too many nodes": 1} == found.record()["coverage"]["refused"]


@pytest.mark.parametrize("ahead, note", [
    (600.0, ["node001: its clock is 600 s ahead of the server's (corrected)"]),
    (-600.0, ["node001: its clock is 600 s behind the server's (corrected)"]),
    (41.0, []),
])
def test_a_clock_that_is_off_is_mentioned(ahead, note):
    """The times of the report are corrected by then (the node learns it from `hello`)."""
    assert note == totals(report(deltas=[llite()], clock_ahead_s=ahead)).record()["notes"]


def test_nodes_with_the_same_note_are_named_together():
    """One line, however many nodes."""
    found = totals(report("nid00001", [unread("llite")]), report("nid00002", [unread("llite")]),
                   fold=lambda nodes: "nid[00001-00002]")
    assert ["nid[00001-00002]: llite: permission denied"] == only(found)["notes"]


def test_the_job_lasted_from_the_first_start_to_the_last_stop():
    """1000 to 1060 and 1023 to 1097: 97 s; the user is whoever reported first."""
    job = totals(report("nid00001", [llite()], ended=1060.0, elapsed_s=60.0),
                 report("nid00002", [llite()], ended=1097.0, elapsed_s=74.0)).record()["job"]
    assert {"id": "4711", "attempt": None, "user": "alice", "started": 1000.0, "ended": 1097.0,
            "elapsed_s": 97.0, "command": ""} == job


def test_a_job_of_which_nobody_reported_has_no_times():
    """None, not 1970."""
    assert {"id": "4711", "attempt": None, "user": None, "started": None, "ended": None,
            "elapsed_s": None, "command": ""} == Totals("4711", 4).record()["job"]


# -- per node ----------------------------------------------------------------------------


def test_minimum_median_maximum_and_the_busiest_node():
    """0, 5, 23 and 37 opens: the median is the lower one of the two in the middle."""
    found = only(totals(report("nid00001", [llite(open=23)]), report("nid00002", [llite(open=37)]),
                        report("nid00003", [llite(open=5)]), report("nid00004", [llite()])))
    assert {"min": 0, "median": 5, "second": 23, "max": 37, "busiest": "nid00002"} == (
        found["per_node"]["open"])


def test_each_node_has_its_own_short_record():
    """The same numbers in short, by file system."""
    found = totals(report("nid00001", [llite(open=23, read_bytes=4096, read_calls=1),
                                       llite("home", mkdir=5), osc(read_rpcs=7)]))
    assert {"elapsed_s": 60.0, "file_systems": {
        "scratch": {"open": 23, "read_bytes": 4096, "read_calls": 1}, "home": {"mkdir": 5}}
            } == found.record()["nodes"]["nid00001"]


def test_mount_points_of_all_nodes_are_listed_once():
    """In order, for people."""
    found = only(totals(report("nid00001", [llite()], mounts={"scratch": ["/scratch", "/work"]}),
                        report("nid00002", [llite()], mounts={"scratch": ["/scratch"]})))
    assert ["/scratch", "/work"] == found["mounts"]


def test_the_record_follows_its_published_schema():
    """docs/reference/record.schema.json is what other programs are written to."""
    import jsonschema
    schema = json.loads((ROOT / "docs/reference/record.schema.json").read_text(encoding="utf-8"))
    for found in (totals(report("nid00001", [llite(open=23, open_us=41), osc(read_rpcs=5)],
                                mounts={"scratch": ["/scratch"]}),
                         report("nid00002", [unread("llite")]),
                         report("nid00003", reason="no permission"), expected=NODES),
                  Totals("4711"), totals(report(deltas=[]))):
        jsonschema.validate(found.record(), schema)


def test_a_node_of_no_time_has_no_rate():
    """23 requests in 1e-300 s are no rate that JSON could carry."""
    found = only(totals(report(deltas=[Delta("md_stats", "scratch", "MDT0000", "", {"close": 23},
                                             False, "")], elapsed_s=1e-300)))
    assert (23, None, None) == tuple(found["metadata"]["MDT0000"][name] for name in (
        "requests", "per_second_per_node", "peak"))


# -- any order ---------------------------------------------------------------------------


metrics = st.dictionaries(st.sampled_from(["read_bytes", "read_calls", "open", "open_us", "mkdir"]),
                          st.integers(0, 2**63 - 1))
deltas = st.builds(lambda fs, source, values, low: Delta(
    source, fs, "" if source == "llite" else "OST0000", "ff9a", values, low, ""),
    st.sampled_from(["scratch", "home"]), st.sampled_from(["llite", "osc"]),
    st.one_of(st.none(), metrics), st.booleans())
reports = st.lists(st.lists(deltas, max_size=3), min_size=1, max_size=5).map(
    lambda nodes: [report(f"nid{number:05}", found) for number, found in enumerate(nodes)])


def numbers_of(found):
    record = found.record()
    record["notes"].sort()
    for fs in record["file_systems"]:
        fs["notes"].sort()
        # Of two nodes that did the same, either may be called the busiest.
        fs["per_node"] = {metric: (spread["min"], spread["median"], spread["max"])
                          for metric, spread in fs["per_node"].items()}
    return record


@given(reports, st.randoms())
def test_neither_the_order_of_reports_nor_repeats_change_a_number(found, random):
    """They come over a network, from thousands of nodes, and are sent again when in doubt."""
    shuffled = found + random.choices(found, k=3)
    random.shuffle(shuffled)
    assert numbers_of(totals(*found, fold=sorted)) == numbers_of(
        totals(*shuffled, expected=len(found), fold=sorted))
