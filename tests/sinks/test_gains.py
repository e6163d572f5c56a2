"""
What all jobs have done so far, from sweep to sweep: what sinks make their numbers of.
"""
from __future__ import annotations

import pytest
from sink_desk import Site

from iostats.base.job_facts import Facts
from iostats.sinks.gains import JobLabels, Tally, get_component, make_job_labels

OST0, OST1, MDT0 = ("scratch", "OST0000"), ("scratch", "OST0001"), ("scratch", "MDT0000")
NOON = 1_795_176_000


def walked(tally, site, *sweeps_entries):
    """{table: {counter: {id: (samples, sum)}}} gained in the last of these sweeps."""
    for entries in sweeps_entries:
        for _ in tally.walk(site.sweep(entries), site):
            pass
    return {key: {counter: {one: (int(samples[row]), int(sums[row]))
                            for row, one in enumerate(table.ids) if samples[row]}
                  for counter, (samples, sums) in table.gains().items() if samples.any()}
            for key, table in tally.tables.items()}


def test_targets_of_one_kind_are_added_up():
    """OSTs and MDTs have a table each; reads have bytes, operations have none."""
    found = walked(Tally(by_target=False), Site(NOON), {
        OST0: {"4711": {"read_bytes": (23, 2300)}}, OST1: {"4711": {"read_bytes": (37, 3700)}},
        MDT0: {"4711": {"open": 41}, "cp.0": {"open": 43}}})
    assert {("scratch", "ost", ""): {"read_bytes": {"4711": (60, 6000)}},
            ("scratch", "mdt", ""): {"open": {"4711": (41, 0), "cp.0": (43, 0)}}} == found


def test_by_target_each_has_a_table_of_its_own():
    """Named as Lustre names it."""
    found = walked(Tally(by_target=True), Site(NOON), {
        OST0: {"4711": {"punch": 23}}, OST1: {"4711": {"punch": 37}}})
    assert {("scratch", "ost", "scratch-OST0000"): {"punch": {"4711": (23, 0)}},
            ("scratch", "ost", "scratch-OST0001"): {"punch": {"4711": (37, 0)}}} == found


def test_a_gain_is_the_difference_of_two_sweeps():
    """All of a new id; what a target was not asked for in between is not lost."""
    site, tally = Site(NOON), Tally(by_target=False)
    assert {"open": {"4711": (14, 0), "4713": (3, 0)}} == walked(tally, site, {
        MDT0: {"4711": {"open": 23}}}, {MDT0: {"4711": {"open": 37}, "4713": {"open": 3}}})[
            "scratch", "mdt", ""]
    assert {} == walked(tally, site, {MDT0: {}})["scratch", "mdt", ""]
    site.sweep({MDT0: {"4711": {"open": 41}}})
    assert {"open": {"4711": (6, 0)}} == walked(tally, site, {MDT0: {"4711": {"open": 43}}})[
        "scratch", "mdt", ""]


def test_an_id_that_was_forgotten_and_is_back_is_a_new_one():
    """Its counter fell without a sweep that saw it gone."""
    site, tally = Site(NOON), Tally(by_target=False)
    walked(tally, site, {MDT0: {"4711": {"open": 23}}}, {MDT0: {"4711": {"open": 37}}})
    tally.drop_ids(["4711"])
    assert {"open": {"4711": (41, 0)}} == walked(tally, site, {MDT0: {"4711": {"open": 41}}})[
        "scratch", "mdt", ""]


@pytest.mark.parametrize("known, expected", [
    (None, JobLabels("", "4711", "4711", "", "")),
    (Facts(job="100_3", raw_job="4711", cluster="eiger", user="alice", account="physics"),
     JobLabels("eiger", "100_3", "4711", "alice", "physics")),
    (Facts(job="", raw_job="", user="alice"), JobLabels("", "4711", "4711", "alice", ""))],
    ids=["unknown", "known", "its user alone"])
def test_a_job_is_called_as_the_batch_system_calls_it(known, expected):
    """Or as job_stats have it."""
    site = Site(NOON)
    site.known = {"4711": known} if known else {}
    assert expected == make_job_labels("4711:nid00001", site)


def test_a_target_says_what_kind_it_is():
    """In small letters, as exporters have it."""
    assert ("ost", "mdt", "mdt") == tuple(map(get_component, ("OST000a", "MDT0000", "MDT0001")))


def test_sums_that_are_too_large_for_an_integer_stay_at_the_largest_one():
    """2.17 leaves a sum at 2**63 - 1; with another target's it was -2, and no lower bound."""
    site, tally = Site(NOON), Tally(by_target=False)
    walked(tally, site, {OST0: {"4711": {"read_bytes": (23, 2**63 - 1)}, "4712": {"punch": 1}},
                         OST1: {"4711": {"read_bytes": (37, 2**63 - 1)}, "4712": {"punch": 2}}})
    table = tally.tables["scratch", "ost", ""]
    assert 2**63 - 1 == table.now["read_bytes"][1][table.index["4711"]]
    assert 60 == table.now["read_bytes"][0][table.index["4711"]]
    assert [True, False] == [table.low[table.index[one]] for one in ("4711", "4712")]
