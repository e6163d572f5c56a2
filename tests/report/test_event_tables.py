"""What went wrong during a job, as its user reads it: data first, a table, the rest counted."""
from __future__ import annotations

import pytest
from test_array_total import task, total
from test_job_events import T, event, fold_nodes, joined, of_server, told
from test_job_events import totals as totals_of
from test_job_totals import llite

from iostats.base import config
from iostats.report import (
    accounting_comment,
    comment_reader,
    event_tables,
    job_summary,
    job_tables,
)
from iostats.totals import job_events

CONFIG = config.Config()                        # T, the job's start, is 2026-11-21 01:36:40 UTC
pytestmark = pytest.mark.usefixtures("utc")     # Times are local ones: here, of UTC


def record_of(*reports, servers=()):
    totals = totals_of(*reports)
    events, more = joined(totals, *servers)
    return totals.record().replaced(events=events, events_more=more)


def text(record, form="plain", long=False):
    return job_tables.format_report(job_tables.add_labels(record, CONFIG), CONFIG, form, long)


def head_of(record):
    """What stands between the line about the job and the tables, as one line."""
    above = text(record).partition("File data transfer")[0]
    return " ".join(above.partition("01:36:40")[2].split())


def table_of(record, **how):
    """The lines from "Events during this job:" on, without what is behind."""
    lines = text(record, **how).partition("note: scratch: the bytes written")[0].splitlines()
    return [line for line in lines[lines.index("Events during this job:") + 1:]
            if not line.startswith("Marks: ")]


EVICTION = event(1, 401, over=414)


def test_a_job_that_lost_data_says_so_first():
    """A node tells of it: the kernel names the file."""
    lost = event(5, 460, "data_lost", "", severity=3, message="dirty page discard: /out/a.dat")
    assert head_of(record_of(told("nid00007", EVICTION, lost))) == (
        "DATA LOST: nid00007 discarded unsent data of scratch at 2026-11-21 01:44:20 (dirty page "
        "discard: /out/a.dat)")


def test_after_an_eviction_data_may_be_lost():
    """Of two nodes, which were evicted 371 s and 23 minutes after the start."""
    record = record_of(told("nid00007", EVICTION), told("nid00009", event(2, 1380)),
                       servers=[of_server(3, 371, ["nid00007"], cause="silent")])
    assert head_of(record) == (
        "DATA MAY BE LOST: nid00007 was evicted by scratch-OST0003 at 2026-11-21 01:42:51; any "
        "data written there but not yet sent was discarded; and 1 more such event, see below")
    assert table_of(record) == [
        "Time      Node      Target           What                For",
        "01:42:51  nid00007  scratch-OST0003  evicted: no ping   43 s",
        "01:59:40  nid00009  scratch-OST0003  evicted               -",
        "note: an eviction fails all operations in progress at that target"]


def test_who_has_only_read_has_lost_nothing():
    assert head_of(record_of(told("nid00007", EVICTION, deltas=[llite(read_bytes=23)]))) == ""


def test_on_a_shared_node_it_may_be_anothers():
    record = record_of(told("nid00007", event(5, 460, "data_lost", "", severity=3,
                                              message="/out/of/bob"), other_jobs=1))
    assert head_of(record) == (
        "DATA MAY BE LOST: nid00007 discarded unsent data of scratch at 2026-11-21 01:44:20; it "
        "may be another job's")
    assert "bob" not in text(record)


def test_the_five_most_severe_are_shown_in_the_order_of_time_and_the_rest_is_counted():
    """
    23 targets that one node lost are one line, as is one target that 40 nodes lost; a flood of
    evictions that may be others' comes last, and what is only for information is not shown.
    """
    record = record_of(
        told("nid00007", *(event(100 + n, 800 + n, "connection_lost", f"scratch-OST{n:04x}",
                                 over=900 + n, severity=1) for n in range(23))),
        *(told(f"nid{n:05}", event(500 + n, 1200 + n, "connection_lost", "scratch-MDT0000",
                                   over=1300 + n if n != 37 else None, severity=1),
               event(900 + n, 1300 + n, "connection_restored", "scratch-MDT0000", severity=0))
          for n in range(10, 50)),
        servers=[of_server(3, 1190, kind="target_down", target="scratch-MDT0000", over=1421),
                 of_server(7, 2090, kind="lbug", target="", severity=3),
                 of_server(6, 2100, kind="recovery", target="scratch-MDT0000", severity=1),
                 of_server(4, 2000, [], 9992, count=10_000, cause="lock")])
    assert table_of(record, form="grid") == """\
+----------+------------------+------------------+-----------------+----------+
| Time     | Node             | Target           | What            |      For |
+==========+==================+==================+=================+==========+
| 01:50:00 | nid00007         | scratch, 23 OSTs | connection lost | <= 100 s |
+----------+------------------+------------------+-----------------+----------+
| 01:56:30 | all              | scratch-MDT0000  | target down     | 00:03:51 |
+----------+------------------+------------------+-----------------+----------+
| 01:56:50 | nid[00010-00049] | scratch-MDT0000  | connection lost | >= 100 s |
+----------+------------------+------------------+-----------------+----------+
| 02:11:30 | all              | scratch          | LBUG            |        - |
+----------+------------------+------------------+-----------------+----------+
| 02:11:40 | all              | scratch-MDT0000  | in recovery     |        - |
+----------+------------------+------------------+-----------------+----------+
and 2 more (--long shows all)
""".splitlines()
    shown = table_of(record, long=True)
    assert "01:58:30  nid[00010-00049]  scratch-MDT0000   connected again" in " ".join(shown)
    assert shown[-1] == "note: ?: whether they hit this job's nodes is unknown"
    assert ["?", "scratch-OST0003", "10,000", "evicted", "-"] in [
        line.split()[1:] for line in shown]


def test_a_connection_that_was_lost_by_an_eviction_is_no_line_of_its_own():
    """The history of a client has both; one that was lost ten minutes later is another."""
    record = record_of(told("nid00007", EVICTION, event(2, 401, "connection_lost", over=414,
                                                        severity=1),
                            event(3, 1001, "connection_lost", over=1001, severity=1)))
    assert table_of(record)[1:-1] == [
        "01:43:21  nid00007  scratch-OST0003  evicted           13 s",
        "01:53:21  nid00007  scratch-OST0003  connection lost  < 1 s",
        "and 1 more (--long shows it)"]
    assert len(table_of(record, long=True)) == 5


def test_a_job_over_midnight_shows_the_day():
    late = told("nid00007", event(1, 86_400, over=86_443), event(2, 500))._replace(
        ended=T + 90_000, elapsed_s=90_000.0)
    assert [line.split()[:2] for line in table_of(record_of(late))[1:3]] == [
        ["11-21", "01:45:00"], ["11-22", "01:36:40"]]


def test_without_events_nothing_is_said():
    for reports in ([told("nid00007")], [told("nid00007")._replace(events=None)]):
        assert "vents" not in text(record_of(*reports) if reports[0].events is not None else
                                   totals_of(*reports).record())


def test_many_are_counted():
    """More than a record lists: 100 of 141."""
    record = record_of(told("nid00007", *(event(n, 61 * n, "connection_lost", f"s-OST{n:04x}",
                                                severity=1) for n in range(100)),
                            events_dropped=41))
    assert table_of(record)[-2:] == ["and 95 more (--long shows all)",
                                     "and 41 more, which are only counted"]
    assert "and 41 more, which are only counted" == table_of(record, long=True)[-1]


def test_names_of_terminals_commands_do_not_reach_the_terminal():
    record = record_of(told("nid00007", event(5, 460, "data_lost", "a\x1b[2Jb",
                                              message="\x1b]0;x\x07")))
    for form in ("grid", "plain", "markdown"):
        assert "\x1b" not in text(record, form)


def test_in_csv_kinds_are_counted():
    record = record_of(told("nid00007", event(1, 401, count=3), event(2, 900)),
                       servers=[of_server(4, 2000, [], 9992, count=10_000)])
    assert "4711,scratch,events,evicted,4,0,0" in text(record, "csv").splitlines()


def test_a_list_of_jobs_has_how_many_and_what_became_of_data():
    """Not what may be others', nor what is only for information."""
    record = record_of(told("nid00007", EVICTION, event(2, 500, "connection_restored", severity=0),
                            events_dropped=37),
                       servers=[of_server(4, 2000, [], 9992, count=10_000)])
    found = job_summary.make_summary(record)
    assert (38, "may be lost") == (found.events, found.data_lost)
    found = job_summary.make_summary(totals_of(told("nid00007")._replace(events=None)).record())
    assert (None, "") == (found.events, found.data_lost)


@pytest.mark.parametrize("events, field, note", [
    ([], None, None), ([EVICTION], "v=1m", "1 event during this job: data may be lost"),
    ([EVICTION, event(5, 460, "data_lost", "", severity=3)], "v=2l",
     "2 events during this job: data was lost"),
    ([event(5, 460, "connection_lost", severity=1)], "v=1", "1 event during this job")],
    ids=["none", "evicted", "lost", "a connection"])
def test_the_accountings_comment_has_it(events, field, note):
    line = accounting_comment.encode(totals_of(told("nid00007", *events)).record())
    [head] = [part for part in line.split(":") if part.startswith("a=")]
    assert ([field] if field else []) == [part for part in head.split(",") if part[0] == "v"]
    notes = comment_reader.make_record(comment_reader.decode(line)).notes
    assert ([note] if note else []) == [one for one in notes if "event" in one]


def test_an_array_says_how_many_tasks_were_hit():
    one = task(1, llite(open=23))
    events, _ = job_events.list_events(totals_of(told("nid00007", EVICTION)).events.all()[0], (),
                                       fold_nodes)
    hit = task(2, llite(open=37)).replaced(events=events)
    assert "Events: during 1 of these tasks; 1 may have lost data" in total(one, hit).splitlines()
    assert "vents" not in total(one, task(2, llite(open=37)))
    assert [] == event_tables.format_totals([one], "tasks")


def test_a_process_that_the_kernel_killed_is_named():
    killed = event(7, 1600, "out_of_memory", "",
                   message="killed solver, out of memory (61440 MiB)")
    found = text(record_of(told("nid00007", killed)))
    assert "the kernel killed solver on nid00007, out of memory, 02:03:20\n" in found
    assert "process killed, out of memory" in found


def test_a_target_that_became_read_only_is_named_with_its_time():
    found = text(record_of(told("nid00007"), servers=[
        of_server(3, 1600, kind="read_only"), of_server(4, 1590, kind="disk_error")]))
    assert "OST0003 became read-only at 02:03" in found
    assert "02:03:20" in found and "target is read-only" in found
