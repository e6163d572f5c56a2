"""
A job whose record is not made yet: what its nodes say of it, and when the record is due.
"""
from __future__ import annotations

import pytest

from iostats.jobs.open_jobs import SETTLES_S, AboutJob, OpenJob, OtherJob

NOON = 1_795_225_060.0


def test_what_a_node_does_not_know_another_one_adds():
    """What is known already stays, whatever a later node says."""
    job = OpenJob(AboutJob(user="alice"), NOON, 23)
    job.learn(AboutJob(user="bob", account="physics", nodes="nid[1-3]"))
    job.learn(AboutJob(account="chemistry", nodes="nid7"))
    assert AboutJob(user="alice", account="physics", nodes="nid[1-3]") == job.about
    assert {"nid1", "nid2", "nid3"} == job.expected


@pytest.mark.parametrize("nodes", ["", "nid[1-", "nid[1-24]", "../nid1", "nid[1-999999999]"], ids=[
    "none", "no list", "more than the server takes", "no name of a node", "too many to write out"])
def test_nodes_that_are_not_known_are_not_waited_for_by_name(nodes):
    assert OpenJob(AboutJob(nodes=nodes), NOON, 23).expected is None


@pytest.mark.parametrize("nodes, heard, due", [
    ("nid[1-2]", ["nid1"], NOON + 300),
    ("nid[1-2]", ["nid1", "nid2"], NOON + SETTLES_S),
    ("", ["nid1", "nid2"], NOON + 300),
], ids=["one is missing", "all have reported", "nobody knows how many there are"])
def test_the_record_is_due_at_the_deadline_or_when_all_nodes_have_reported(nodes, heard, due):
    job = OpenJob(AboutJob(nodes=nodes), NOON + 300, 23)
    job.heard.update(heard)
    job.make_due_if_complete(NOON)
    assert due == job.due


def test_a_record_that_is_due_earlier_stays_so():
    job = OpenJob(AboutJob(nodes="nid1"), NOON + SETTLES_S / 2, 23)
    job.heard.add("nid1")
    job.make_due_if_complete(NOON)
    assert NOON + SETTLES_S / 2 == job.due


def test_other_jobs_are_remembered_up_to_a_limit():
    """None is remembered where the reports in the store have to be read for them anyway."""
    job = OpenJob(AboutJob(), NOON, 23)
    job.add_other_jobs([OtherJob("4713", 37)])
    assert job.other_jobs is None
    job.other_jobs = set()
    for number in range(2000):
        job.add_other_jobs([OtherJob(str(number), 37)])
    assert 1000 == len(job.other_jobs)
