"""The total of an array: sums by hand, and which way each may be wrong."""
from __future__ import annotations

import pytest
from page_records import batch
from test_job_totals import llite, unread
from trees import report as of_node

from iostats.base import config
from iostats.report import array_total, job_tables
from iostats.report.screen import LOG
from iostats.totals.job_totals import Totals


def task(number, *deltas, outcome="COMPLETED", shared=0, nodes=1, whole="92"):
    """The record of a task on node001."""
    totals = Totals(f"92_{number}", nodes)
    if deltas:
        totals.add(of_node(deltas=deltas))
    record = totals.record()
    record["coverage"]["shared"] = {"node001": shared} if shared else {}
    record["batch"] = batch(array_job=whole, raw_job=str(100 + number), outcome=outcome)
    record["harvest"] = None
    return job_tables.labelled(record, config.Config())


def total(*records, others="", form="plain"):
    return array_total.as_text("92", list(records), config.Config(),
                               LOG._replace(form=form), others)


def rows(text):
    return [" ".join(line.split()) for line in text.splitlines()]


WHOLE = (task(1, llite(read_bytes=23 << 20, read_calls=1, open=23), llite("home", write_bytes=37)),
         task(2, llite(read_bytes=41 << 20, read_calls=1, open=37, close=1), outcome="TIMEOUT"))


def test_tasks_are_added_up_by_file_system():
    """One that a task did not have mounted is 0 there."""
    assert ["Array 92 (halo) of alice, partition normal: 2 tasks (1 COMPLETED, 1 TIMEOUT)",
            "File System File Read File Write Operations",
            "home 0 bytes 37 bytes 0", "scratch 64.0 MiB 0 bytes 61",
            "Tasks that stand out (state, lost data, 2 times the median):",
            "Task Elapsed Bytes Operations Why", "92_2 00:01:00 41.0 MiB 38 TIMEOUT",
            "Each task: iostats report --tasks 92; one: iostats report 92_1"] == rows(total(*WHOLE))


def test_tasks_that_shared_a_node_are_an_upper_bound():
    """Each has the whole node's numbers, also those of the other task."""
    found = rows(total(WHOLE[0], task(2, llite(open=37), shared=1)))
    assert "scratch <= 23.0 MiB <= 0 bytes <= 60" in found
    assert ("note: other jobs were on nodes of 1 task, each of which has the whole node's numbers: "
            "the true total may be lower") in " ".join(found)


@pytest.mark.parametrize("more, others", [
    (task(2, llite("scratch", True, open=37)), ""), (task(2), ""),
    (task(2, llite(open=37)), "others have no report yet: 2 running")],
    ids=["a lower bound", "no node has reported", "others still run"])
def test_what_is_missing_makes_a_lower_bound(more, others):
    found = rows(total(WHOLE[0], more, others=others))
    assert any(line.startswith("scratch >= 23.0 MiB >= 0 bytes >= ") for line in found), found


def test_what_nobody_could_read_is_not_0():
    """One task of two: a part of the sum; both: nothing."""
    unreadable = task(2, unread("llite"))
    assert "scratch >= 23.0 MiB >= 0 bytes >= 23" in rows(total(WHOLE[0], unreadable))
    assert "scratch - - -" in rows(total(unreadable, unreadable))


def test_only_parts_of_one_whole_are_added_up():
    """And one alone needs no total."""
    assert array_total.whole_of(list(WHOLE), "92")
    assert not array_total.whole_of([WHOLE[0]], "92") and not array_total.whole_of(list(WHOLE),
                                                                                   "92_1")
    assert not array_total.whole_of([WHOLE[0], task(2, whole="93")], "92")
    assert not array_total.whole_of([{**one, "batch": None} for one in WHOLE], "92")


@pytest.mark.parametrize("form", ["grid", "plain", "markdown"])
def test_each_form_has_it(form):
    assert "64.0 MiB" in total(*WHOLE, form=form)
