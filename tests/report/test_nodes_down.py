"""
Rows, cells and notes of `iostats nodes --down`, from what the site's server answers.
"""
from __future__ import annotations

import pytest

from iostats.report import listing, nodes_down
from iostats.report.nodes_down import TABLE, format_cell, format_exact_cell, list_notes, make_rows

NOW = 1_795_348_800.0               # 2026-11-22 12:00:00 UTC


def lost(node="nid00007", target="scratch-OST0003", since=NOW - 37, why="evicted by oss1", **how):
    return {"node": node, "nids": ["10.9.0.11@o2ib2"], "file_system": "scratch", "target": target,
            "since": since, "state": "evicted", "kind": "evicted", "cause": "", "told_by": "oss1",
            "active": None, "why": why, **how}


def answer(*down, servers=(), unnamed=(), unnamed_more=0, down_more=0):
    return {"time": NOW, "since": NOW - 604_800, "down": list(down), "servers": list(servers),
            "unnamed": list(unnamed), "unnamed_more": unnamed_more, "down_more": down_more}


def server(node="oss1", health="healthy", late=False, targets=(), log=("kmsg", "")):
    return {"node": node, "heard": NOW - 41, "late": late, "health": health,
            "targets": {name: {"state": state, "clients": 23} for name, state in targets},
            "log": {"source": log[0], "why": log[1]}}


def test_targets_that_a_node_lost_for_one_reason_are_one_row():
    found = make_rows(answer(
        lost(), lost(target="scratch-OST0004", since=NOW - 43, nids=["10.9.0.11@o2ib3"]),
        lost(node="nid00008"), lost(why="evicted by oss2", target="scratch-OST0005")))
    assert [("nid00007", ["scratch-OST0003", "scratch-OST0004"], NOW - 43, 43.0,
             ["10.9.0.11@o2ib2", "10.9.0.11@o2ib3"]),
            ("nid00008", ["scratch-OST0003"], NOW - 37, 37.0, ["10.9.0.11@o2ib2"]),
            ("nid00007", ["scratch-OST0005"], NOW - 37, 37.0, ["10.9.0.11@o2ib2"])] == [
        (row["node"], row["targets"], row["since"], row["down_s"], row["nids"]) for row in found]
    assert 4 == len(make_rows(answer(lost(), lost(target="a"), lost(target="b"), lost(target="c")),
                              apart=True))


def test_a_clock_that_is_behind_gives_no_time_below_zero():
    assert [0.0] == [row["down_s"] for row in make_rows(answer(lost(since=NOW + 7)))]


def test_a_moment_that_no_calendar_has_hides_no_other_line():
    """10**12 s are the year 33658, which some machine's clock may say."""
    [row] = make_rows(answer(lost(since=1e12)))
    assert "-" == format_exact_cell(row, TABLE.find_field("Since", ""))
    late = {**server(late=True), "heard": 1e12}
    unnamed = {"told_by": "oss1", "count": 23, "target": "", "file_system": "scratch", "time": 1e12}
    assert [
        "note: oss1 evicted 23 more clients from scratch at - without naming them",
        "note: the agent of oss1 has not reported since -: its reports are missing",
    ] == list(list_notes(answer(servers=[late], unnamed=[unnamed]), None))


@pytest.mark.usefixtures("utc")
def test_a_table():
    rows = make_rows(answer(lost(), lost(node="a\x1bb", target="", nids=[])))
    assert [
        "Node     Targets                       Since     Down State   Why",
        "-------- --------------- ------------------- -------- ------- ---------------",
        "nid00007 scratch-OST0003 2026-11-22T11:59:23 00:00:37 evicted evicted by oss1",
        "a\\x1bb   -               2026-11-22T11:59:23 00:00:37 evicted evicted by oss1",
    ] == "".join(listing.format_table(rows, TABLE.parse_columns(nodes_down.DEFAULT),
                                      format_cell)).splitlines()


def test_many_targets_are_a_number_for_people():
    [row] = make_rows(answer(*(lost(target=f"t{number}") for number in range(23))))
    field = TABLE.find_field("Targets", "")
    assert "23 of scratch" == format_cell(row, field)
    assert 23 == len(format_exact_cell(row, field).split(","))


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("found, expected", [
    (answer(), []), (answer(servers=[server(targets=[("a", "up")])]), []),
    (answer(unnamed=[{"file_system": "scratch", "target": "scratch-OST0003", "time": NOW - 1,
                      "count": 4711, "told_by": "oss1"}]),
     ["note: oss1 evicted 4,711 more clients from scratch-OST0003 at 2026-11-22T11:59:59 without "
      "naming them"]),
    (answer(unnamed_more=23), ["note: 23 more evictions without names: iostats events --kind "
                               "evicted"]),
    (answer(down_more=1234), ["note: 1,234 more connections are not there, or may not be"]),
    (answer(servers=[server(late=True)]),
     ["note: the agent of oss1 has not reported since 2026-11-22T11:59:19: its reports are "
      "missing"]),
    (answer(servers=[server(health="NOT HEALTHY")]),
     ["note: oss1: health_check reports NOT HEALTHY"]),
    (answer(servers=[server(health="")]), []),
    (answer(servers=[server(targets=[(f"t{n}", "down") for n in range(7)])]),
     ["note: oss1: t0 is down, t1 is down, t2 is down, t3 is down, t4 is down and 2 more"]),
    (answer(servers=[server(log=("none", "x\x1b"))]),
     ["note: oss1: its kernel's log is not read (x\\x1b): evictions there may be missing"])])
def test_what_is_not_in_the_table_is_a_note(found, expected):
    assert expected == list(list_notes(found, None))


def test_a_recovery_has_its_progress_and_what_is_left_of_its_time_now():
    one = {**server(targets=[("scratch-OST0003", "recovering")]), "made": NOW - 12}
    one["targets"]["scratch-OST0003"]["recovery"] = {"clients": 23, "of": 41, "left_s": 53}
    assert ["note: oss1: scratch-OST0003 is recovering (23 of 41 clients are back, up to 41 s left)"
            ] == list(list_notes(answer(servers=[one]), None))
    one["made"] = NOW - 60
    [line] = list_notes(answer(servers=[one]), None)
    assert line.endswith("up to 0 s left)")
