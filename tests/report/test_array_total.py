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
    return job_tables.add_labels(record, config.Config())


def total(*records, others="", form="plain"):
    return array_total.format_total("92", list(records), config.Config(),
                                    LOG._replace(form=form), others)


def rows(text):
    return [" ".join(line.split()) for line in text.splitlines()]


WHOLE = (task(1, llite(read_bytes=23 << 20, read_calls=1, open=23), llite("home", write_bytes=37)),
         task(2, llite(read_bytes=41 << 20, read_calls=1, open=37, close=1), outcome="TIMEOUT"))


def test_tasks_are_added_up_by_file_system():
    """One that a task did not have mounted is 0 there."""
    assert ["Array 92 (halo) of alice, partition normal: 2 tasks (1 COMPLETED, 1 TIMEOUT)",
            "File System File Read File Write Operations",
            "home 0 bytes 37 bytes 0", "scratch 64.0 MiB 0 bytes 61", "Tasks with I/O:",
            "Task Elapsed File System Read Written Operations",
            "92_1 00:01:00 home 0 bytes 37 bytes 0", "92_1 00:01:00 scratch 23.0 MiB 0 bytes 23",
            "92_2 00:01:00 scratch 41.0 MiB 0 bytes 38",
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
    assert array_total.are_parts_of(list(WHOLE), "92")
    assert not array_total.are_parts_of([WHOLE[0]],
                                        "92") and not array_total.are_parts_of(list(WHOLE),
                                                                                           "92_1")
    assert not array_total.are_parts_of([WHOLE[0], task(2, whole="93")], "92")
    assert not array_total.are_parts_of([{**one, "batch": None} for one in WHOLE], "92")


@pytest.mark.parametrize("form", ["grid", "plain", "markdown"])
def test_each_form_has_it(form):
    assert "64.0 MiB" in total(*WHOLE, form=form)


def step(command, ended, *deltas, node="node001", **fields):
    """The record of a command of job 4711 that `iostats run` has measured for a minute."""
    totals = Totals("4711", 1)
    totals.add(of_node(node, deltas=deltas, ended=1_795_225_000.0 + ended, **fields))
    record = totals.record()
    return job_tables.add_labels(record.replaced(job=record.job.replaced(command=command)),
                                 config.Config())


def total_of_steps(*steps, form="plain"):
    [(job, found)] = array_total.find_steps(list(steps)).items()
    return array_total.format_total(job, found, config.Config(), LOG._replace(form=form), "")


STEPS = (step("srun ./solve", 130, llite(write_bytes=41 << 20, write_calls=1, open=37),
              llite("home", read_bytes=7, read_calls=1)),
         step("srun ./prepare", 60, llite(read_bytes=23 << 20, read_calls=1, open=5)))


def test_steps_measured_by_iostats_run_are_rows_of_their_job():
    """In the order of time; the sum is exact, as no two of them ran at once."""
    assert ["Job 4711 of alice: 2 steps measured by iostats run",
            "File System File Read File Write Operations",
            "home 7 bytes 0 bytes 0", "scratch 23.0 MiB 41.0 MiB 42", "Steps with I/O:",
            "Step Elapsed File System Read Written Operations",
            "srun ./prepare 00:01:00 scratch 23.0 MiB 0 bytes 5",
            "srun ./solve 00:01:00 home 7 bytes 0 bytes 0",
            "srun ./solve 00:01:00 scratch 0 bytes 41.0 MiB 37",
            "note: the job's I/O outside these steps is not in the sum",
            "Each step: the same command with --tasks"] == rows(total_of_steps(*STEPS))


@pytest.mark.parametrize("node, ended, at_once", [
    ("node001", 89, True), ("node002", 89, False), ("node001", 120, False)],
    ids=["at once on a node", "on another node", "one after the other"])
def test_steps_that_ran_at_once_on_a_node_are_an_upper_bound(node, ended, at_once):
    """Each has the node's numbers, also those of the other one."""
    found = rows(total_of_steps(STEPS[1], step("srun ./post", ended, llite(open=7), node=node)))
    assert (f"scratch {'<= ' * at_once}23.0 MiB {'<= ' * at_once}0 bytes {'<= ' * at_once}12"
            in found)
    assert at_once is ("note: 2 steps ran on a node at the same time" in " ".join(found))


def test_only_commands_of_one_job_are_steps_of_it():
    whole = task(1, llite(open=23))
    assert {} == array_total.find_steps([STEPS[0], whole])
    other = STEPS[1].replaced(job=STEPS[1].job.replaced(id="4712"))
    assert {} == array_total.find_steps([STEPS[0], other])
    assert {"4711": list(STEPS)} == array_total.find_steps([*STEPS, other, whole])


def test_a_command_is_shown_on_one_line_and_breaks_no_table():
    odd = step("sh -c 'a | b\n\x1b[31mc'", 300, llite(open=7))
    for form, pipe in (("plain", "a | b"), ("markdown", r"a \| b")):
        text = total_of_steps(STEPS[1], odd, form=form)
        assert pipe in text and "\x1b" not in text
        lines = text.splitlines()
        [at] = [at for at, line in enumerate(lines) if "sh -c" in line and "00:01:00" in line]
        assert "srun ./prepare" in lines[at - 1]
