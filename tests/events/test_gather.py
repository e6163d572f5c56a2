"""
Gathering one machine's events: what is told once, after restarts too, and where it stands.
"""
from __future__ import annotations

import json
import os
import time

import pytest
from kernel_lines import EVICTED, LOST, OST, RESTORED, UUID, record, silent
from server_files import ServerFiles

from iostats.base.config import Config
from iostats.events import sources
from iostats.events.event import as_json, describe_event, make_event, merge_copies
from iostats.events.gather import Gathering
from iostats.events.sources import SourceResult


def config(**events):
    found = Config()
    for key, value in events.items():
        found.set_value(f"events.{key}", str(value), "here")
    return found


@pytest.fixture
def root(tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_bytes(b"")
    return tmp_path


def log(root, *lines):
    """Append records of (number, seconds, text)."""
    with open(root / "dev/kmsg", "ab") as file:
        for number, seconds, text in lines:
            file.write(record(seconds, text, number=number))


def gathering(root, boot_id="a-boot", **more):
    return Gathering(str(root), config(**more), "oss1", boot_id, str(root / "state"),
                     roles=("server",))


def kinds(found):
    return [(one.kind, one.count) for one in found.events]


def test_what_is_told_is_told_once(root):
    one = gathering(root)
    log(root, (23, 750, silent("10.9.0.11@o2ib2")), (24, 757, silent("10.9.0.12@o2ib2")))
    assert [("evicted", 2)] == kinds(one.scan())
    one.acknowledge()
    assert [] == one.scan().events
    log(root, (25, 758, silent("10.9.0.13@o2ib2")))
    assert [("evicted", 3)] == kinds(one.scan())


def test_until_it_was_told_it_is_given_again(root):
    log(root, (23, 750, silent("10.9.0.11@o2ib2")))
    one = gathering(root)
    [first] = one.scan().events
    [again] = one.scan().events
    assert first == again


def test_what_was_read_before_the_first_look_is_not_lost_by_a_kill(root):
    log(root, (23, 750, silent("10.9.0.11@o2ib2")))
    one = gathering(root)
    one.read_log()
    [found] = one.scan().events                 # with no state: it keeps one, and is killed
    assert [found.id] == [event.id for event in gathering(root).scan().events]


def test_a_process_that_is_killed_at_any_point_loses_none_and_doubles_none(root):
    lines = [(23, 750, LOST), (24, 751, EVICTED), (25, 752, RESTORED),
             (26, 753, silent("10.9.0.11@o2ib2")), (27, 761, silent("10.9.0.12@o2ib2")),
             (28, 762, silent("10.9.0.13@o2ib2")), (29, 783, LOST)]
    log(root, *lines)
    expected = {one.id: one for one in gathering(root).scan().events}
    for first in range(len(lines)):
        for is_told in (True, False):
            (root / "dev/kmsg").write_bytes(b"")
            (root / "state").unlink(missing_ok=True)
            log(root, *lines[:first])
            told = {}
            killed = gathering(root)
            for event in killed.scan().events:
                told[event.id] = event
            if is_told:
                killed.acknowledge()
            del killed
            log(root, *lines[first:])
            for event in gathering(root).scan().events:
                told[event.id] = merge_copies(told[event.id], event) if event.id in told else event
            assert {key: one.count for key, one in expected.items()} == {
                key: one.count for key, one in told.items()}
            assert {one.kind for one in expected.values() if one.over} == {
                one.kind for one in told.values() if one.over}


def test_what_is_over_says_so(root):
    log(root, (23, 750, LOST), (24, 751, EVICTED), (25, 793.5, RESTORED))
    found = {one.kind: one for one in gathering(root).scan().events}
    assert 43.5 == pytest.approx(found["connection_lost"].over - found["connection_lost"].time)
    assert 42.5 == pytest.approx(found["evicted"].over - found["evicted"].time)


def test_lines_that_were_overwritten_are_an_event(root):
    log(root, (23, 750, LOST))
    one = gathering(root)
    one.scan()
    one.acknowledge()
    (root / "dev/kmsg").write_bytes(b"")
    log(root, (1261, 790, RESTORED))
    found = gathering(root).scan()
    assert ("log_lost", 1237) in kinds(found)
    assert 1237 == found.status["log"]["lost"]


def test_another_boot_begins_anew(root):
    log(root, (23, 750, LOST))
    one = gathering(root)
    [before] = one.scan().events
    one.acknowledge()
    (root / "dev/kmsg").write_bytes(b"")
    log(root, (5, 23, LOST))
    [after] = gathering(root, boot_id="b-boot").scan().events
    assert ("connection_lost", 1) == (after.kind, after.count) and after.id != before.id


@pytest.mark.parametrize("state", [b"", b"{", b"[]", b"{}", b'{"version": 1}', b"\xff" * 99,
                                   b'{"version":1,"boot_id":"a-boot","joined":[]}', b"[" * 99999])
def test_a_damaged_state_is_told_anew(root, state):
    log(root, (23, 750, LOST))
    (root / "state").write_bytes(state)
    assert [("connection_lost", 1)] == kinds(gathering(root).scan())


def test_any_value_in_the_state_is_taken_or_told_anew(root):
    log(root, (23, 750, LOST), (24, 751, silent("10.9.0.11@o2ib2")))
    one = gathering(root)
    one.scan()
    one.acknowledge()
    whole = json.loads((root / "state").read_text())
    for key in whole:
        for value in (None, 23, "a", [], {}, [[]], [23], {"a": 23}, [["a", "b"]]):
            (root / "state").write_text(json.dumps({**whole, key: value}))
            gathering(root).scan()


def test_a_log_that_cannot_be_read_says_why(root):
    (root / "dev/kmsg").unlink()
    found = gathering(root).scan()
    assert [] == found.events
    assert {"source": "none", "why": f"{root}/dev/kmsg: No such file or directory", "lines": 0,
            "lost": 0} == found.status["log"]
    assert "[events] kernel_log is no" == gathering(
        root, kernel_log="no").scan().status["log"]["why"]
    assert f"journalctl shows the log of this machine, and not of {root}" == gathering(
        root, kernel_log="journald").scan().status["log"]["why"]


def test_a_directory_in_its_place_is_no_log(root):
    (root / "dev/kmsg").unlink()
    (root / "dev/kmsg").mkdir()
    assert "none" == gathering(root).scan().status["log"]["source"]


def test_a_fifo_in_its_place_is_read_as_it_comes(root):
    (root / "dev/kmsg").unlink()
    os.mkfifo(root / "dev/kmsg")
    one = gathering(root)
    assert one.fileno() >= 0
    text = record(750, LOST, number=23) + b" SUBSYSTEM=net\n" + record(790, RESTORED, number=24)
    for part in (text[:100], text[100:]):
        with open(root / "dev/kmsg", "wb") as file:
            file.write(part)
        found = one.scan()
    assert ["connection_lost", "connection_restored"] == [event.kind for event in found.events]
    one.close()


def test_lines_of_any_length_are_read(root):
    with open(root / "dev/kmsg", "wb") as file:
        file.write(b"4,23,750000000,-;Lustre: " + b"a" * 1_000_000 + b"\n" + b"\0" * 1_000_000
                   + b"\n" + record(751, LOST, number=24) + b"4,25,752000000,-;Lustre: caf\xc3")
    assert [("connection_lost", 1)] == kinds(gathering(root).scan())


def test_a_file_that_was_replaced_is_read_from_its_beginning(root):
    log(root, (23, 750, LOST))
    one = gathering(root)
    one.scan()
    one.acknowledge()
    os.rename(root / "dev/kmsg", root / "dev/old")
    log(root, (23, 750, LOST), (24, 790, RESTORED))
    assert {("connection_lost", 1), ("connection_restored", 1)} == set(kinds(one.scan()))


def test_more_than_a_thousand_events_come_in_parts(root):
    log(root, *((23 + number, 750 + 10 * number, LOST) for number in range(2300)))
    one, counts = gathering(root), []
    while True:
        found = one.scan()
        counts.append(len(found.events))
        one.acknowledge()
        if not found.more:
            break
    assert 2300 == sum(counts) and max(counts) <= 1000 and 0 == found.dropped


def test_since_leaves_out_what_was_over(root):
    log(root, (23, 750, LOST), (24, 1e6, LOST))
    whole = sorted(gathering(root).scan().events)
    since = max(one.time for one in whole) - 1
    late = Gathering(str(root), config(), "n", "a-boot", since=since)
    assert 1 == len(late.scan().events)


def test_a_log_that_comes_later_is_read(root, monkeypatch):
    (root / "dev/kmsg").unlink()
    one = gathering(root)
    assert "none" == one.scan().status["log"]["source"]
    log(root, (23, 750, LOST))
    true = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: true() + 61)
    found = one.scan()
    assert ([("connection_lost", 1)], "kmsg", "") == (
        kinds(found), found.status["log"]["source"], found.status["log"]["why"])


def test_a_log_that_failed_is_read_on_from_where_it_was(root, monkeypatch):
    log(root, (23, 750, LOST))
    one = gathering(root)
    one.scan()
    one.acknowledge()
    true, read = time.monotonic, os.read
    monkeypatch.setattr(os, "read", lambda *_: (_ for _ in ()).throw(OSError(5, "Input error")))
    log(root, (24, 755, LOST), (25, 790, RESTORED))
    found = one.scan()
    assert ("none", f"{root}/dev/kmsg: Input error") == (
        found.status["log"]["source"], found.status["log"]["why"])
    monkeypatch.setattr(os, "read", read)
    monkeypatch.setattr(time, "monotonic", lambda: true() + 61)
    assert {("connection_lost", 2), ("connection_restored", 1)} == set(kinds(one.scan()))


def test_a_log_that_journald_was_asked_for_before_is_not_told_again(root):
    """The journal has no numbers, and the same times."""
    log(root, (23, 750, LOST))
    one = gathering(root)
    one.scan()
    one.acknowledge()
    state = json.loads((root / "state").read_text())
    state["position"].update(sequence=-1, cursor="s=23")
    (root / "state").write_text(json.dumps(state))
    log(root, (24, 755, LOST))
    assert [("connection_lost", 2)] == kinds(gathering(root).scan())


@pytest.mark.parametrize("step", [-1e6, 1e6, -3600, 3600])
def test_a_wall_clock_that_is_set_while_we_run(root, monkeypatch, step):
    """An event that was told keeps its time; a new one has that of the clock as it is now."""
    true, began = time.time, time.clock_gettime(time.CLOCK_BOOTTIME)
    one = gathering(root)
    log(root, (23, began, LOST))
    [first] = one.scan().events
    one.acknowledge()
    monkeypatch.setattr(time, "time", lambda: true() + step)
    one.scan()
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    log(root, (24, now, RESTORED))
    found = {event.kind: event for event in one.scan().events}
    assert abs(true() + step - found["connection_restored"].time) < 60
    if "connection_lost" in found:
        assert first.time == found["connection_lost"].time


# -- sources --------------------------------------------------------------------------------------

def test_a_line_that_is_read_late_has_the_time_at_which_it_was_printed(root, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(time, "clock_gettime", lambda which: clock[0] - 250.0)      # the boot: 250
    log(root, (23, 750, silent("10.9.0.11@o2ib2")))
    one = gathering(root)
    assert [1000.0] == [event.time for event in one.scan().events]
    one.acknowledge()
    for _ in range(37):                                 # an hour without a line
        clock[0] += 100
        assert [] == one.scan().events
        one.acknowledge()
    one.close()
    log(root, (24, 4473, silent("10.9.0.12@o2ib2")))    # 23 s after the agent was killed
    clock[0] = 4700 + 4100.0
    [late] = gathering(root).scan().events
    assert 4723.0 == pytest.approx(late.time, abs=0.01)


class Counted:
    """A source: eviction_count, as the test sets it."""

    ROLES = ("server",)

    def __init__(self):
        self.count = 0

    def scan(self, place, before, now):
        events = []
        if before is not None and self.count > before[0]:
            events = [make_event(place.boot_id, place.node, ("evictions", OST, str(before[0])),
                                 "evicted",
                                 before[1], last=now, cause="unknown", target=OST,
                                 count=self.count - before[0])]
        return SourceResult(events, [self.count, now], {"targets": {OST: {"state": "up"}}})


@pytest.fixture
def counted(monkeypatch):
    source = Counted()
    monkeypatch.setattr(sources, "list_sources", lambda roles: {"evictions": source})
    return source


def test_evictions_that_the_log_has_too_are_told_once(root, counted):
    one, now = gathering(root), time.time()
    usec_now = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert {OST: {"state": "up"}} == one.scan(now - 10).status["targets"]
    one.acknowledge()
    counted.count = 3
    log(root, (23, usec_now - 1, silent("10.9.0.11@o2ib2")),
        (24, usec_now - 1, silent("10.9.0.12@o2ib2")))
    found = one.scan(now).events
    assert {("silent", 2), ("unknown", 1)} == {(event.cause, event.count) for event in found}
    one.acknowledge()
    assert [] == gathering(root).scan(now + 10).events


def evictions_of(found):
    return sorted((event.target, event.cause, event.count, event.skipped)
                  for event in found.events if event.kind == "evicted")


@pytest.mark.parametrize("second", [23, None], ids=["each target counts", "one does not"])
def test_a_line_that_was_left_out_is_the_one_that_another_target_counted(tmp_path, second):
    """
    OST0001 and OST0003 evict one client.  The kernel prints one line, and that it left one out.
    """
    server = ServerFiles(tmp_path, "2.16")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_bytes(b"")
    server.start(OST, instance=41, evictions=7)
    server.start("scratch-OST0001", instance=41, evictions=second)
    one, now = gathering(tmp_path), time.time()
    one.scan(now - 10)
    one.acknowledge()
    server.show(OST, evictions=8)
    if second:
        server.show("scratch-OST0001", evictions=second + 1)
    usec_now = time.clock_gettime(time.CLOCK_BOOTTIME)
    log(tmp_path, (23, usec_now - 1, silent("10.9.0.11@o2ib2")),
        (24, usec_now - 1, "Skipped 1 previous similar message"))
    assert ([(OST, "silent", 1, 1)] if second is None else
            [("scratch-OST0001", "unknown", 1, 0), (OST, "silent", 1, 0)]) == evictions_of(
                one.scan(now))


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_recovery_counts_those_that_it_evicts_before_it_prints_them(root, counted, is_killed):
    """A look in between: the count is told when the log has had its time, and what it lacks."""
    one, now = gathering(root), time.time()
    usec_now = time.clock_gettime(time.CLOCK_BOOTTIME)
    log(root, (23, usec_now - 20, f"{OST}: Will be in recovery for at least 5:00, or until 41 "
                                  "clients reconnect"))
    one.scan(now - 10)
    one.acknowledge()
    counted.count = 27
    assert [] == one.scan(now).events
    one.acknowledge()
    if is_killed:
        one = gathering(root)
    log(root, (24, usec_now + 0.1, f"{OST}: disconnecting 23 stale clients"))
    found = {event.cause: event.count for event in one.scan(now + 10).events}
    assert {"recovery": 23, "unknown": 4} == {key: n for key, n in found.items() if key}
    one.acknowledge()
    assert [] == one.scan(now + 20).events


def test_what_was_not_told_is_told_after_a_kill_with_its_id(root, counted):
    one = gathering(root)
    one.scan(1000.0)
    one.acknowledge()
    counted.count = 3
    [lost] = one.scan(1010.0).events
    counted.count = 5
    [again] = gathering(root).scan(1020.0).events
    assert (3, 5) == (lost.count, again.count) and lost.id == again.id


@pytest.mark.parametrize("name", ["proc/sched_debug", "sys/kernel/debug/sched/debug"])
def test_the_logs_clock_is_read_where_the_kernel_shows_it(root, name):
    """It is an hour behind the time since the boot, as after a hundred days."""
    path = root / name
    path.parent.mkdir(parents=True)
    behind_s = time.clock_gettime(time.CLOCK_BOOTTIME) - 3600
    path.write_text(f"Sched Debug Version: v0.11, 6.1.0\nktime   : 1.0\nsched_clk : 2.0\n"
                    f"cpu_clk                                 : {behind_s * 1000:.6f}\n"
                    "jiffies : 4311\n")
    log(root, (23, behind_s - 41, LOST))
    before = time.time()
    [found] = gathering(root).scan().events
    assert before - 41 - 1 <= found.time <= time.time() - 41 + 1        # 1: the clock may be set


def test_an_event_is_a_line(root):
    log(root, (23, 750, silent("10.9.0.11@o2ib2")))
    [found] = gathering(root).scan().events
    assert describe_event(found, {"10.9.0.11@o2ib2": "node11"}).endswith(
        f"critical oss1 evicted {OST} node11 (silent): "
        + silent("10.9.0.11@o2ib2").removeprefix(f"{OST}: "))
    assert UUID in str(as_json(found)["message"])
