"""
Folding: many lines of the kernel's log, one event; by hand, and with real logs.
"""
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_lines import (
    BOOTED,
    EVICTED,
    LOST,
    OSC,
    OST,
    RESTORED,
    UUID,
    failed_lock,
    lock,
    record,
    silent,
)

from iostats.base.errors import is_printable
from iostats.events.event import merge_copies
from iostats.events.kinds import KINDS
from iostats.events.log_grouping import LogGrouper
from iostats.events.wall_clock import WallClock


def grouper(most=250, kept=None):
    return LogGrouper("a-boot", "oss1", most, WallClock([(0, BOOTED)]), kept)


def events(*lines, most=250):
    """The events of (s since boot, text) or (s, text, label)."""
    one = grouper(most)
    for line in lines:
        one.add_record(record(*line))
    return one.list_changed()


def short(found):
    return [(one.kind, one.cause, one.target, one.count, one.clients, one.skipped)
            for one in found]


# -- one event of many lines ----------------------------------------------------------------------

def test_evictions_in_one_window_are_one_event():
    [found] = events((750.5, silent("10.9.0.11@o2ib2")), (751, silent("10.9.0.12@o2ib2")),
                     (757.25, silent("10.9.0.13@o2ib2")))
    assert ("evicted", "silent", OST, "scratch", 3, "oss1", 2) == (
        found.kind, found.cause, found.target, found.file_system, found.count, found.node,
        found.severity)
    assert ("10.9.0.11@o2ib2", "10.9.0.12@o2ib2", "10.9.0.13@o2ib2") == found.clients
    assert (BOOTED + 750.5, BOOTED + 757.25, None) == (found.time, found.last, found.over)
    assert found.message == silent("10.9.0.11@o2ib2")


def test_what_is_not_folded():
    """Another target, another kind, another cause, another window."""
    found = events((750, silent("a@tcp")), (751, silent("a@tcp", "scratch-OST0037")),
                   (752, f"{OST}: evicting {UUID} at adminstrative request"),
                   (753, LOST), (760, silent("a@tcp")))
    assert [1, 1, 1, 1, 1] == [one.count for one in found]
    assert 5 == len({one.id for one in found})


def test_an_event_grows_and_keeps_its_id():
    one = grouper()
    one.add_record(record(750, silent("10.9.0.11@o2ib2")))
    [before] = one.list_changed()
    assert [] == one.list_changed()
    one.add_record(record(751, silent("10.9.0.12@o2ib2")))
    [after] = one.list_changed()
    assert (before.id, 1, 2) == (after.id, before.count, after.count)
    assert after == merge_copies(before, after)


def test_ten_thousand_clients():
    lines = [(750 + number / 10_000, silent(f"10.9.{number // 256}.{number % 256}@o2ib2"))
             for number in range(10_000)]
    [found] = events(*lines)
    assert (10_000, 8) == (found.count, len(found.clients))
    assert BOOTED + 750.9999 == pytest.approx(found.last, abs=1e-6)


def test_errors_of_different_places_are_different_events():
    found = events((750, f"{OST}: not available for connect from 10.9.0.11@o2ib2 (no target)",
                    "LustreError"),
                   (751, f"{OST}: not available for connect from 10.9.0.12@o2ib2 (no target)",
                    "LustreError"),
                   (752, f"{OST}: cannot do that: rc = -5", "LustreError"))
    assert [("other", "", OST, 2, ("10.9.0.11@o2ib2", "10.9.0.12@o2ib2"), 0),
            ("other", "", OST, 1, (), 0)] == short(found)


# -- what is more than a line ----------------------------------------------------------------------

def test_a_locks_eviction_prints_two_lines_and_is_one():
    [found] = events((750, failed_lock("10.9.0.11@o2ib2"), "LustreError"),
                     (750.1, lock("10.9.0.11@o2ib2"), "LustreError"),
                     (750.2, lock("10.9.0.11@o2ib2"), "LustreError"),        # another lock of its
                     (750.3, lock("10.9.0.12@o2ib2"), "LustreError"))
    assert ("evicted", "lock", OST, 2, ("10.9.0.11@o2ib2", "10.9.0.12@o2ib2"), 0) == short(
        [found])[0]


def test_its_two_lines_may_lie_in_two_windows():
    found = events((759.99, failed_lock("10.9.0.11@o2ib2")), (760.01, lock("10.9.0.11@o2ib2")))
    assert 1 == sum(one.count for one in found if one.kind == "evicted" and one.time < BOOTED + 760)
    assert 1 == len(found)


def test_two_targets_that_evict_a_client_for_a_lock_are_two():
    found = events((750, lock("10.9.0.11@o2ib2")), (750.1, lock("10.9.0.11@o2ib2",
                                                                 "scratch-OST0037")))
    assert [OST, "scratch-OST0037"] == [one.target for one in found]


RECOVERY = [
    (750, f"{OST}: Will be in recovery for at least 5:00, or until 41 clients reconnect"),
    (775, f"{OST}: Denying connection for new client {UUID}(at 10.9.0.11@o2ib2), waiting for 41 "
          "known clients (18 recovered, 0 in progress, and 0 evicted) to recover in 4:37"),
    (1050, f"{OST}: recovery is timed out, evict stale exports"),
    (1050.1, f"{OST}: disconnecting 23 stale clients"),
    (1073, f"{OST}: Recovery over after 5:23, of 41 clients 18 recovered and 23 were evicted.")]


def test_a_recovery_is_one_event_and_those_evicted_another():
    recovery, evicted = events(*RECOVERY)
    assert ("recovery", 1, BOOTED + 750, BOOTED + 1073) == (
        recovery.kind, recovery.count, recovery.time, recovery.over)
    assert recovery.message.endswith("of 41 clients 18 recovered and 23 were evicted.")
    assert ("evicted", "recovery", OST, 23, (), 0) == short([evicted])[0]
    assert BOOTED + 1050.1 == pytest.approx(evicted.time)


def test_those_evicted_are_not_counted_twice_where_each_is_named():
    stale = f"{OST}: disconnect stale client {UUID}@10.9.0."
    lines = [(1050.05 + number / 1000, f"{stale}{number}@o2ib2") for number in range(23)]
    _, evicted = events(*RECOVERY[:3], *lines, *RECOVERY[3:])
    assert (23, 8) == (evicted.count, len(evicted.clients))
    over = (f"{OST}: Recovery over after 5:23, of 41 clients 14 recovered and 27 were evicted.")
    found = events(*RECOVERY[:3], *lines, RECOVERY[3], (1073, over))
    assert 27 == sum(one.count for one in found if one.kind == "evicted")


def test_those_that_are_named_after_their_number_are_counted_once():
    stale = [(1050.2 + number / 10, f"{OST}: disconnect stale client {UUID}@10.9.0.{number}@o2ib2")
             for number in range(3)]
    _, evicted = events(*RECOVERY[:4], *stale, RECOVERY[4])
    assert (23, ("10.9.0.0@o2ib2", "10.9.0.1@o2ib2", "10.9.0.2@o2ib2")) == (
        evicted.count, evicted.clients)
    later = [(seconds + 15, text) for seconds, text in stale]
    assert [23] == [one.count for one in events(*RECOVERY[:4], *later, RECOVERY[4])
                    if one.kind == "evicted"]


def test_the_next_recovery_is_another_event():
    again = [(seconds + 2000, text) for seconds, text in RECOVERY]
    found = events(*RECOVERY, *again)
    assert [("recovery", 1), ("evicted", 23)] * 2 == [(one.kind, one.count) for one in found]


def test_a_recovery_without_evictions():
    [found] = events(RECOVERY[0], (
        775, f"{OST}: Recovery over after 0:25, of 41 clients 41 recovered and 0 were evicted."))
    assert ("recovery", BOOTED + 775) == (found.kind, found.over)


def test_a_failover_prints_two_lines_and_is_one():
    [found] = events((750, f"Failing over {OST}"), (807, f"server umount {OST} complete"))
    assert ("target_down", "", OST, 1, (), 0) == short([found])[0]
    assert 2 == len(events((750, f"server umount {OST} complete"),
                           (807, f"server umount {OST} complete")))


def test_an_assertion_and_its_lbug_are_one():
    [found] = events((750, "23:0:(a.c:37:f()) ASSERTION( a == 0 ) failed: b", "LustreError"),
                     (750.1, "23:0:(a.c:37:f()) LBUG", "LustreError"))
    assert ("lbug", 1, "ASSERTION( a == 0 ) failed: b", 3) == (
        found.kind, found.count, found.message, found.severity)
    [other] = events((750, "23:0:(a.c:37:f()) ASSERTION( a == 0 ) failed: b", "LustreError"),
                     (750.1, "41:0:(a.c:37:f()) LBUG", "LustreError"))
    assert 2 == other.count


DEACTIVATED = (344, f"setting import {OST}_UUID INACTIVE by administrator request")


def test_activating_a_target_is_no_event():
    assert [] == events(DEACTIVATED, (362.1, LOST), (362.2, EVICTED, "LustreError"),
                        (362.3, RESTORED))


def test_what_comes_after_it_is_one_again():
    found = events(DEACTIVATED, (362.1, LOST), (362.2, EVICTED), (362.3, RESTORED), (363, LOST))
    assert ["connection_lost"] == [one.kind for one in found]
    found = events(DEACTIVATED, (362.1, LOST), (362.2, EVICTED), (373, EVICTED))
    assert ["evicted"] == [one.kind for one in found]


def test_another_targets_eviction_is_no_activation():
    other = EVICTED.replace("OST0003", "OST0037")
    assert ["scratch-OST0037"] == [one.target for one in events(DEACTIVATED, (362, other))]
    server = events(DEACTIVATED, (362, silent("10.9.0.11@o2ib2")))
    assert ["evicted"] == [one.kind for one in server]


def test_skipped_belongs_to_the_line_before_it_of_its_label():
    found = events((750, silent("10.9.0.11@o2ib2")), (750.00001, f"{OST}: bad", "LustreError"),
                   (750.0001, "Skipped 23 previous similar messages"),
                   (750.0002, "Skipped 37 previous similar messages", "LustreError"))
    assert [("evicted", 1, 23), ("other", 1, 37)] == [
        (one.kind, one.count, one.skipped) for one in found]


def test_skipped_lines_of_what_is_no_event_are_none():
    one = grouper()
    for line in ((750, silent("10.9.0.11@o2ib2")), (751, f"{OST}: new disk, initializing"),
                 (751.1, "Skipped 23 previous similar messages")):
        one.add_record(record(*line))
    [found] = one.list_changed()
    assert (0, 23) == (found.skipped, one.skipped)


# -- floods ---------------------------------------------------------------------------------------

def test_more_events_than_are_kept_are_counted():
    lines = [(750 + number / 1000, f"scratch-OST{number:04x}: bad rc = -5", "LustreError")
             for number in range(1000)]
    *kept, dropped = sorted(events(*lines, most=100), key=lambda one: one.kind == "events_dropped")
    assert (70, 930) == (len(kept), dropped.count)
    assert "lines of more than 100 different events in ten seconds: 930 other" == dropped.message
    assert {"other"} == {one.kind for one in kept}


def test_in_a_flood_there_is_room_for_what_is_severe():
    lines = [(750 + number / 1000, f"scratch-OST{number:04x}: bad rc = -5", "LustreError")
             for number in range(1000)]
    found = events(*lines, (755, silent("10.9.0.11@o2ib2")), (756, "1:2:(a.c:3:f()) LBUG"),
                   (757, "scratch-OST0007: bad rc = -5", "LustreError"), most=100)
    assert ["evicted", "lbug"] == sorted({one.kind for one in found} - {"other", "events_dropped"})
    # 70 of the 1,000 have an event; the last line is one of these targets, in the same window.
    assert (930, 71) == tuple(sum(one.count for one in found if one.kind == kind)
                              for kind in ("events_dropped", "other"))


def test_lines_that_are_gone_are_an_event():
    one = grouper()
    one.add_lost_lines(1237, 444, 758_211_829)
    [found] = one.list_changed()
    assert ("log_lost", 1237, "1,237 lines of the kernel's log were overwritten before they were "
            "read") == (found.kind, found.count, found.message)
    assert BOOTED + 758.211829 == pytest.approx(found.time)
    one.add_lost_lines(1, 2000, 768_211_829)
    assert [(1, "1 line of the kernel's log was overwritten before it was read")] == [
        (found.count, found.message) for found in one.list_changed()]


@pytest.mark.parametrize("text", ["", " ", "37:0:(client.c:23:f()) "])
@pytest.mark.parametrize("label", ["LustreError", "LNetError"])
def test_a_line_that_says_nothing_is_no_event(text, label):
    assert [] == events((750, text, label))
    assert ["other"] == [one.kind for one in events((750, text + "bad", label))]


def test_a_hundred_thousand_targets_of_a_hundred_file_systems():
    one = grouper()
    for number in range(100_000):
        one.add_record(record(750 + number / 20_000, silent(
            "10.9.0.11@o2ib2", f"fs{number % 100}-OST{number // 100:04x}")))
    found = one.list_changed()
    assert 100_000 == sum(event.count for event in found)
    assert 226 == len(found)


def test_more_locks_evictions_than_are_remembered_are_counted_once_each():
    one = grouper()
    for number in range(20_000):
        client = f"10.{number // 65536}.{number // 256 % 256}.{number % 256}@o2ib2"
        one.add_record(record(750 + number / 10_000, failed_lock(client), "LustreError"))
        one.add_record(record(750 + number / 10_000, lock(client), "LustreError"))
    [found] = one.list_changed()
    assert 20_000 == found.count
    # Ten seconds later there is room again, and the same clients are evicted anew.
    one.add_record(record(765, failed_lock("10.0.0.0@o2ib2"), "LustreError"))
    assert [1] == [event.count for event in one.list_changed()]


def test_more_forms_of_errors_than_are_remembered():
    one = grouper(most=50)
    for number in range(10_000):
        word = "".join(chr(ord("g") + int(digit)) for digit in str(number))
        one.add_record(record(750 + number / 5000, f"{OST}: {word} failed", "LustreError"))
    found = one.list_changed()
    assert 10_000 == sum(event.count for event in found)
    assert 36 == len(found)


# -- what is not heard ----------------------------------------------------------------------------

@pytest.mark.parametrize("data", [
    b"", b";", b"\0" * 999, b"4,444", b"x,444,7,-;Lustre: LBUG", b"4,4,x,-;Lustre: LBUG",
    b"4,444,758211829;Lustre: LBUG", b"4,4,99999999999999999999,-;Lustre: LBUG",
    b"Lustre: LBUG", b"[  758.211829] Lustre: LBUG", b"-4,4,7,-;Lustre: LBUG",
    b"4,444,758211829,-;NFS: LBUG", b"4,444,758211829,-;a Lustre: LBUG", b"\xff\xfe;Lustre: LBUG"])
def test_what_is_of_another_form_is_no_event(data):
    one = grouper()
    one.add_record(data)
    assert [] == one.list_changed()


@pytest.mark.parametrize("priority", [8, 11, 12, 30, 191, 1004])
def test_a_program_that_writes_to_dev_kmsg_is_not_heard(priority):
    one = grouper()
    one.add_record(record(750, silent("10.9.0.11@o2ib2"), priority=priority))
    one.add_record(record(750, "LBUG", priority=priority, flags="c"))
    assert [] == one.list_changed()


def test_what_is_hostile_in_a_line_is_one_bounded_line():
    one = grouper()
    one.add_record(b"3,23,758211829,-;LustreError: a\\x1b[2J" + b"\xff\0@" * 400_000)
    one.add_record(b"3,24,758211829,-;LustreError: caf\\xc3\n SUBSYSTEM=\x1b\n")
    for found in one.list_changed():
        assert is_printable(found.message) and len(found.message) <= 500
    assert 2 == one.lines


def test_a_line_that_differs_by_a_digit_alone_is_looked_at_itself():
    """Digits, and the letters a to f, are no part of a line's shape."""
    found = events((750, silent("10.9.0.11@o2ib2")), (750.1, "Skipped 23 previous similar messages",
                                                      "LustreError"),
                   (750.2, "Skip0ped 23 previous similar messages", "LustreError"),
                   (750.3, "1:2:(a.c:3:f()) LBUG", "LustreError"),
                   (750.4, "1:2:(a.c:3:f()) LBUG0", "LustreError"))
    assert ["evicted", "other", "lbug", "other"] == [one.kind for one in found]
    assert [1, 1, 1, 1] == [one.count for one in found]


def test_a_line_in_pieces_is_one():
    one = grouper()
    one.add_record(record(750, f"{OSC}: This client was evicted by {OST}; in progress", flags="c"))
    one.add_record(b"6,24,750000007,-;eth0: link is up\n")
    one.add_record(record(751, f"{OSC}: This client was evicted by {OST}; in progress", flags="c"))
    one.add_record(b"4,26,751000009,+; operations using this service will fail.\n")
    assert [("evicted", "", OST, 1, (), 0)] == short(one.list_changed())


def test_a_clock_of_the_log_that_goes_back_is_another_one():
    found = events((750, LOST), (23, LOST), (24, LOST), (9, LOST))
    assert [1, 3] == [one.count for one in found] or 4 == sum(one.count for one in found)
    assert all(one.time > BOOTED for one in found)


# -- restarts -------------------------------------------------------------------------------------

TEXTS = [LOST, EVICTED, RESTORED, silent("10.9.0.11@o2ib2"), silent("10.9.0.12@o2ib2"),
         lock("10.9.0.11@o2ib2"), failed_lock("10.9.0.11@o2ib2"), DEACTIVATED[1],
         *(text for _, text in RECOVERY), f"Failing over {OST}", f"server umount {OST} complete",
         "Skipped 23 previous similar messages", f"{OST}: Imperative Recovery not enabled, "
         "recovery window 300-900", "1:2:(a.c:3:f()) LBUG", f"{OST}: bad"]
histories = st.lists(st.tuples(st.floats(0, 15), st.sampled_from(TEXTS),
                               st.sampled_from(["Lustre", "LustreError"])), max_size=40)


def together(found):
    kept = {}
    for one in found:
        kept[one.id] = merge_copies(kept[one.id], one) if one.id in kept else one
    return kept


@given(histories, st.sets(st.integers(0, 40)))
def test_a_restart_after_any_line_changes_nothing(history, restarts):
    """What is kept is enough to go on: the same events, with the same counts."""
    whole, broken, seconds = grouper(), grouper(), 700.0
    told, told_broken = [], []
    for number, (pause, text, label) in enumerate(history):
        seconds += pause
        for one in (whole, broken):
            one.add_record(record(seconds, text, label))
        if number in restarts:
            told_broken += broken.list_changed()
            broken = grouper(kept=json.loads(json.dumps(broken.as_json())))
    assert together(told + whole.list_changed()) == together(told_broken + broken.list_changed())


@given(histories, st.integers(1, 7))
def test_looking_more_often_tells_the_same(history, every):
    one, other, seconds, often = grouper(), grouper(), 700.0, []
    for number, (pause, text, label) in enumerate(history):
        seconds += pause
        one.add_record(record(seconds, text, label))
        other.add_record(record(seconds, text, label))
        if number % every == 0:
            often += other.list_changed()
    assert together(one.list_changed()) == together(often + other.list_changed())


@given(st.lists(st.one_of(st.binary(max_size=200), st.builds(
    lambda text, at, junk: (b"4,23,758211829,-;Lustre: " + text.encode())[:at] + junk
    + text.encode()[at:], st.sampled_from(TEXTS), st.integers(0, 200), st.binary(max_size=20))),
    max_size=20))
def test_any_bytes_are_events_or_none(lines):
    one = grouper(most=10)
    for data in lines:
        one.add_record(data)
    for found in one.list_changed():
        assert found.kind in KINDS and is_printable(found.message)
        assert len(found.message) <= 500 and found.count >= 1
    json.dumps(one.as_json())


# -- what is below Lustre --------------------------------------------------------------------------

TARGETS = {"dm-3": "scratch-OST0003", "dm-3-8": "scratch-OST0003", "sdb": "scratch-OST0003"}


def of_system(*lines):
    """The events of (s since boot, text), where TARGETS says what is kept on which device."""
    one = LogGrouper("a-boot", "oss1", 250, WallClock([(0, BOOTED)]),
                 find_target=lambda device: TARGETS.get(device, ""))
    for number, (seconds, text) in enumerate(lines, 23):
        one.add_record(f"3,{number},{round(seconds * 1e6)},-;{text}\n".encode())
    return [(found.kind, found.file_system, found.target, found.count, found.severity)
            for found in one.list_changed()]


def test_a_disk_that_fails_below_a_target():
    """Errors of two disks, of which one is a target's; then its file system is read-only."""
    error = ("blk_update_request: I/O error, dev {}, sector 23 op 0x1:(WRITE) flags 0x0 phys_seg 1 "
             "prio class 0")
    assert [("disk_error", "scratch", "scratch-OST0003", 2, 2), ("disk_error", "", "", 1, 2),
            ("backend_error", "scratch", "scratch-OST0003", 2, 2),
            ("read_only", "scratch", "scratch-OST0003", 1, 2)] == of_system(
        (752, error.format("sdb")), (753, error.format("sdb")), (754, error.format("sda")),
        (755, "Aborting journal on device dm-3-8."),
        (755.1, "LDISKFS-fs error (device dm-3): ldiskfs_journal_check_start:61: Detected aborted "
                "journal"),
        (755.2, "LDISKFS-fs (dm-3): Remounting filesystem read-only"),
        (755.3, "sd 2:0:0:0: [sdb] Synchronizing SCSI cache"))


def test_lines_that_a_program_wrote_are_no_events():
    """Facility 1 and more; a program that writes to /dev/kmsg cannot have 0."""
    one = grouper()
    for priority in (8, 11, 14, 30):
        one.add_record(f"{priority},23,750000000,-;LDISKFS-fs (dm-3): Remounting filesystem "
                       "read-only\n".encode())
    assert [] == one.list_changed()


def test_more_lines_are_the_same_event_after_a_restart():
    line = b"3,23,752000000,-;md/raid:md0: Disk failure on sdb1, disabling device.\\x0amd/raid: x\n"
    one = grouper()
    one.add_record(line)
    [first] = one.list_changed()
    again = grouper(kept=json.loads(json.dumps(one.as_json())))
    again.add_record(line.replace(b"752000000", b"753000000"))
    [second] = again.list_changed()
    assert (first.id, 1, 2) == (second.id, first.count, second.count)
    assert "md/raid:md0: Disk failure on sdb1, disabling device." == first.message
