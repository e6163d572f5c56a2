"""
What went wrong on a node between a job's start and its end, as its report has it: out of imports'
states, and of the kernel's log where that may be read.
"""
from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from pathlib import Path

import msgspec
import pytest
from processes import BEFORE, put, write_tree
from trees import shared

from iostats.base import config as site
from iostats.events import event
from iostats.lustre import import_files, paths
from iostats.node import identity, node_events
from iostats.node.measurement import Work
from iostats.totals import snapshot as snapshots
from iostats.wire.messages.report import NodeReport, check_report

OST3 = "scratch-OST0003-osc-ffff9a3c5d1e0800"
OSC = f"proc/fs/lustre/osc/{OST3}"
MDT = "scratch-MDT0001-mdc-ffff9a3c5d1e0800"
FULL = [(1000, "CONNECTING"), (1000, "FULL")]


def import_text(state="FULL", flags="", attempts=1, generation=1, timeouts=0):
    return (f"import:\n    name: {OST3}\n    target: scratch-OST0003_UUID\n    state: {state}\n"
            f"    import_flags: [ {flags}replayable, pingable ]\n    connection:\n"
            f"       failover_nids: [ 10.9.0.3@o2ib ]\n       current_connection: 10.9.0.3@o2ib\n"
            f"       connection_attempts: {attempts}\n       generation: {generation}\n"
            f"       in-progress_invalidations: 0\n    rpcs:\n       inflight: 0\n"
            f"       timeouts: {timeouts}\n       avg_waittime: 6054 usec\n")


def state_text(*entries):
    return f"current_state: {entries[-1][1]}\nstate_history:\n" + "".join(
        f" - [ {when}, {state} ]\n" for when, state in entries)


class Node:
    """One job on one node: a tree of files, and the Work of each command."""

    def __init__(self, directory, **options):
        self.directory, self.root = directory, directory / "root"
        write_tree(self.root, **BEFORE)
        self.set(*FULL)
        self.config = site.load("/dev/null", environ={})
        self.config.node.state_dir = str(directory / "state")
        self.config.replace_values({
            name.replace("__", "."): value for name, value in options.items()})
        self.said = []

    def set(self, *entries, name=OSC, **counts):
        put(self.root, f"{name}/state", state_text(*entries))
        put(self.root, f"{name}/import", import_text(entries[-1][1], **counts))

    def log(self, *lines):
        put(self.root, "dev/kmsg", "".join(
            f"4,{number},{int(up * 1e6)},-;Lustre: {text}\n"
            for number, (up, text) in enumerate(lines, 417)))

    def work(self):
        # As of another process: nothing is at hand.
        node_events._at_hand.clear()
        return Work(self.config, str(self.root), "nid00023", "4711", self.said.append)

    def start(self):
        self.work().start()
        self.began = time.time()

    def end(self):
        """The report's members, as a server has them after its checks."""
        reports, failed, damaged = self.work().end()
        assert (None, None) == (failed, damaged)
        [(path, report)] = reports.items()
        taken = msgspec.json.decode(json.dumps(report), type=NodeReport)
        check_report(taken, "nid00023", "4711", set())
        os.unlink(path)
        return taken


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def short(report):
    return [(one.kind, one.target, one.time, one.over) for one in report.events]


LOST = [(1023, "DISCONN"), (1023, "CONNECTING"), (1024, "EVICTED"), (1060, "RECOVER"),
        (1060, "FULL")]
ALL_THREE = [("connection_lost", "scratch-OST0003", 1023.0, 1060.0),
             ("evicted", "scratch-OST0003", 1024.0, 1060.0),
             ("connection_restored", "scratch-OST0003", 1060.0, None)]


def test_a_job_without_trouble_has_no_events(node):
    node.start()
    node.set(*FULL, (1020, "CONNECTING"), (1020, "IDLE"), attempts=1, generation=1)
    report = node.end()
    assert ([], 0) == (report.events, report.events_dropped)


def test_an_eviction_during_the_job_is_in_its_report(node):
    node.start()
    node.set(*FULL, *LOST, timeouts=37)
    report = node.end()
    assert sorted([*ALL_THREE, ("timeouts", "scratch-OST0003", 1023.0, None)]) == sorted(
        short(report))
    [timeouts] = [one for one in report.events if one.kind == "timeouts"]
    assert (37, "nid00023", "scratch") == (timeouts.count, timeouts.node, timeouts.file_system)


def test_a_process_of_the_job_that_the_kernel_killed_is_in_its_report(node):
    """Of a kernel 5.14; a line of the same form by a program (facility 1) is none."""
    node.start()
    up = time.clock_gettime(time.CLOCK_BOOTTIME)
    line = ("Out of memory: Killed process 4711 ({}) total-vm:65011712kB, anon-rss:62914560kB, "
            "file-rss:0kB, shmem-rss:4kB, UID:1000 pgtables:37kB oom_score_adj:0")
    put(node.root, "dev/kmsg", "".join(
        f"{priority},{number},{int(up * 1e6)},-;{line.format(name)}\n"
        for number, priority, name in ((417, 3, "solver"), (418, 11, "forged"))))
    report = node.end()
    assert [("out_of_memory", 2, "killed solver, out of memory (61440 MiB)", 1)] == [
        (one.kind, one.severity, one.message, one.count) for one in report.events]


def test_what_was_over_before_the_job_is_none_of_it(node):
    node.set(*FULL, *LOST, timeouts=37)
    node.start()
    assert [] == node.end().events


def test_a_target_that_is_away_all_the_time_is_told(node):
    node.set(*FULL, LOST[0])
    node.start()
    assert [("connection_lost", "scratch-OST0003", 1023.0, None)] == short(node.end())


def test_a_mount_that_came_meanwhile_counts_from_its_mount(node):
    node.start()
    node.set(*FULL, LOST[0], name=f"proc/fs/lustre/mdc/{MDT}")
    assert [("connection_lost", "scratch-MDT0001", 1023.0, None)] == short(node.end())


def test_a_deactivated_target_that_is_activated_is_no_event(node):
    node.set(*FULL, flags="invalid, deactive, ", generation=2)
    node.start()
    node.set(*FULL, *LOST, generation=2, attempts=2)
    assert [] == node.end().events


def test_the_amounts_know_the_same_evictions(node):
    """What was written and not sent was thrown away; not by an activation."""
    def evictions(report):
        return [one.values.get("evictions") for one in report.deltas if one.source == "llite"]
    node.set(*FULL, flags="invalid, deactive, ", generation=2)
    node.start()
    soon = int(time.time()) + 7
    once = [(soon, "DISCONN"), (soon, "CONNECTING"), (soon, "EVICTED"), (soon, "RECOVER"),
            (soon, "FULL")]
    node.set(*FULL, *once, generation=2, attempts=2)
    node.work().start_event_scans(keep=True)()
    assert [None] == evictions(node.end())
    node.set(*FULL)
    node.start()
    node.set(*FULL, *once)
    node.work().start_event_scans(keep=True)()
    node.set(*down(soon + 60, 8))
    assert [1] == evictions(node.end())


def test_a_start_of_a_release_that_kept_no_states_tells_what_is_after_it_by_the_clock(node):
    """The second in which the job began may be either."""
    node.set(*FULL, *LOST, timeouts=37)
    node.start()
    work = node.work()
    start = snapshots.decode(work.kept.load_start(), "start")
    work.kept.store_start(snapshots.encode(start._replace(files=tuple(
        one for one in start.files if one.source not in (import_files.STATE,
                                                         import_files.IMPORT)))), True)
    later = int(node.began) + 7
    node.set(*FULL, *LOST, (later, "DISCONN"), timeouts=37)
    assert [("connection_lost", "scratch-OST0003", float(later), None)] == short(node.end())


def test_a_start_of_another_boot_is_compared_with_nothing(node):
    node.set(*FULL, timeouts=37)
    node.start()
    work = node.work()
    start = snapshots.decode(work.kept.load_start(), "start")
    work.kept.store_start(snapshots.encode(start._replace(boot_id="an earlier boot")), True)
    node.set(*FULL, *LOST)
    assert sorted(ALL_THREE) == sorted(short(node.end()))


# -- looks on the way ----------------------------------------------------------------------------


def down(since, count):
    return [(since + 5 * n, state) for n in range(count) for state in ("CONNECTING", "DISCONN")]


def test_looks_on_the_way_see_what_leaves_the_history(node):
    """An eviction, and then an outage of five minutes: by two processes, and by the end."""
    node.start()
    for looks in range(3):
        history = [*FULL, *LOST, (1100, "DISCONN"), *down(1100, 5 * looks)][-16:]
        node.set(*history)
        assert node_events.SCAN_AGAIN_S == node.work().start_event_scans(keep=True)()
    node.set(*down(1400, 8))
    report = node.end()
    assert [*ALL_THREE, ("connection_lost", "scratch-OST0003", 1100.0, None)] == short(report)
    assert "16 states" in report.events_unseen
    assert [] == list((node.directory / "state").glob("*.events"))


def test_without_looks_an_outage_is_known_and_not_since_when(node):
    node.start()
    node.set(*down(1400, 8))
    report = node.end()
    assert [("connection_lost", "scratch-OST0003", 1400.0, None)] == short(report)
    assert report.events_unseen == (
        "the kernel stores 16 states of a connection, and some were overwritten; the kernel's log "
        "(/dev/kmsg): No such file or directory")


def test_a_quiet_node_is_looked_at_rarely(node):
    node.start()
    assert node_events.SCAN_EVERY_S == node.work().start_event_scans()()
    node.set(*FULL, flags="invalid, deactive, ")
    assert node_events.SCAN_EVERY_S == node.work().start_event_scans()()
    node.set(*FULL, (1023, "CONNECTING"), (1023, "IDLE"))
    assert node_events.SCAN_EVERY_S == node.work().start_event_scans()()


@pytest.mark.parametrize("damage", [
    b"", b"{", b"[]", b'{"seq": 23}', b"\xff\0", b'{"seq": "SEQ", "events": [{}]}',
    b'{"seq": "SEQ", "events": [], "state": {"a": 7}, "dropped": "x", "gone": []}',
    b'{"seq": "SEQ", "events": [], "state": {"' + OST3.encode() + b'": [1, 2, 3]}, "dropped": 0, '
    b'"gone": {}, "at": 0, "joined": {"reported": [], "same": [], "logged": []}}'])
def test_a_damaged_file_of_looks_costs_its_looks_alone(node, damage):
    node.start()
    kept = node.work().kept
    seq = snapshots.decode(kept.load_start(), "start").seq
    kept.store_events(damage.replace(b"SEQ", seq.encode()))
    node.set(*FULL, *LOST)
    assert sorted(ALL_THREE) == sorted(short(node.end()))


# -- the kernel's log ----------------------------------------------------------------------------


def kernel_lines(up):
    device = f"{OST3}: "
    return [(up, f"{device}Connection to scratch-OST0003 (at 10.9.0.3@o2ib) was lost; in progress "
                 f"operations using this service will wait for recovery to complete"),
            (up + 0.3, f"{device}This client was evicted by scratch-OST0003; in progress "
                       f"operations using this service will fail."),
            (up + 0.4, f"{device}Connection restored to 10.9.0.3@o2ib (at 10.9.0.3@o2ib)")]


def entries_at(when):
    return [(int(when), state) for state in ("DISCONN", "CONNECTING", "EVICTED", "RECOVER",
                                             "FULL")]


def test_log_and_history_tell_of_one_thing_once(node):
    up = identity.read_seconds_since_boot()
    node.log((1.0, "Lustre: Build Version: 2.15.8"))
    node.start()
    node.log((1.0, "Lustre: Build Version: 2.15.8"), *kernel_lines(up + 1))
    node.set(*FULL, *entries_at(time.time() + 1))
    report = node.end()
    assert ["connection_lost", "connection_restored", "evicted"] == sorted(
        one.kind for one in report.events)
    assert 3 == len({one.id for one in report.events})
    [evicted] = [one for one in report.events if one.kind == "evicted"]
    assert evicted.message.endswith("in progress operations using this service will fail.")
    assert "" == report.events_unseen


def test_a_file_that_lost_data_is_told_by_its_fid_alone(node):
    """On a node that jobs share it may be another's."""
    up = identity.read_seconds_since_boot()
    node.start()
    node.log((up + 1, "scratch: dirty page discard: 10.9.0.3@o2ib:/scratch/fid: "
                      "[0x200000007:0x1:0x0]//home/bob/a may get corrupted/b may get corrupted "
                      "(rc -108)"))
    [lost] = node.end().events
    assert ("data_lost", "scratch", 3) == (lost.kind, lost.file_system, lost.severity)
    assert lost.message.endswith("/fid: [0x200000007:0x1:0x0]/... may get corrupted (rc -108)")


def test_lines_from_before_the_start_are_none_of_the_job(node):
    up = identity.read_seconds_since_boot()
    node.log(*kernel_lines(max(0.0, up - 600)))
    node.start()
    assert [] == node.end().events


def test_the_log_tells_of_an_activation_that_was_not_seen(node):
    up, now = identity.read_seconds_since_boot(), time.time()
    node.start()
    node.log((up + 1, "setting import scratch-OST0003_UUID INACTIVE by administrator request"),
             *kernel_lines(up + 3))
    node.set(*FULL, *entries_at(now + 3))
    work = node.work()
    begun = work.load_start("a look")
    found = node_events.collect_node_events(work.kept, begun, str(node.root), node.config)
    found.add_reading(import_files.read(str(node.root)), begun.boot_id, now + 10)
    assert [] == found.report_members()["events"]


def test_a_log_that_may_not_be_read_is_said_where_states_may_not_either(node, monkeypatch):
    """As on 2.17 for an ordinary user: one sentence, the same on all nodes."""
    node.start()
    real = import_files._read_text

    def refused(path):
        if path.endswith(("/state", "/import")):
            raise PermissionError(13, "Permission denied")
        return real(path)
    monkeypatch.setattr(import_files, "_read_text", refused)
    report = node.end()
    assert report.events is None
    assert ("the connections with targets may not be seen: permission denied; the kernel's log "
            "(/dev/kmsg): No such file or directory") == report.events_unseen


def test_a_target_without_an_import_now_is_no_refusal(node, monkeypatch):
    """Reading its `state` fails with ENODEV, whatever else is closed to this user."""
    for path in [*node.root.glob("proc/fs/lustre/osc/*"), *node.root.glob("proc/fs/lustre/mdc/*")]:
        node.set(*FULL, name=str(path.relative_to(node.root)))
    node.start()
    real = import_files._read_text

    def away(path):
        if path.endswith(f"{OST3}/state"):
            raise OSError(errno.ENODEV, "No such device")
        return real(path)
    listed = paths.list_directories
    monkeypatch.setattr(import_files, "_read_text", away)
    monkeypatch.setattr(import_files, "list_directories", lambda root, kind: [
        ("sys/kernel/debug/lustre/osc", (), errno.EACCES),
        *(one for one in listed(root, kind) if one[0].startswith("proc"))])
    report = node.end()
    assert ([], "") == (report.events, report.events_unseen)


def test_a_site_can_leave_the_log_alone(tmp_path):
    node = Node(tmp_path, events__kernel_log="no")
    node.log(*kernel_lines(1.0))
    node.start()
    node.log(*kernel_lines(identity.read_seconds_since_boot() + 1))
    assert [] == node.end().events


# -- what is odd ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\0" * 300, "current_state: \x1b[2J\n", "x" * 200_000,
                                  "current_state: FULL\nstate_history:\n - [ 99999999999999999999,"
                                  " EVICTED ]\n"])
def test_an_odd_file_is_said_and_is_no_event(node, text):
    node.start()
    put(node.root, f"{OSC}/state", text)
    report = node.end()
    assert [] == report.events
    assert all(line.isprintable() and len(line) < 400 for line in node.said)
    assert ("unexpected format" in report.events_unseen) == bool(node.said) == bool(text)


def test_a_hostile_name_is_no_target(node):
    node.start()
    for name in ("a b", "scratch-OST0003-osc-zz", "x\x1b[2J-OST0003-osc-ff", "-OST0003-osc-ff"):
        node.set(*FULL, *LOST, name=f"proc/fs/lustre/osc/{name}")
    assert [] == node.end().events


def test_a_fifo_and_a_directory_keep_no_one_waiting(node):
    node.start()
    for name in ("state", "import"):
        (node.root / OSC / name).unlink()
    os.mkfifo(node.root / OSC / "state")
    (node.root / OSC / "import").mkdir()
    assert [] == node.end().events


def test_a_thousand_targets_that_are_lost_at_once(node):
    """100 events are sent, evictions first; the rest is counted."""
    names = [f"scratch-OST{n:04x}-osc-ffff9a3c5d1e0800" for n in range(1000)]
    for name in names:
        node.set(*FULL, name=f"proc/fs/lustre/osc/{name}")
    node.start()
    for number, name in enumerate(names):
        node.set(*FULL, *(LOST if number in (23, 37, 941) else LOST[:1]),
                 name=f"proc/fs/lustre/osc/{name}")
    report = node.end()
    assert 100 == len(report.events)
    assert 1000 + 2 * 3 == len(report.events) + report.events_dropped
    assert {"scratch-OST0017", "scratch-OST0025", "scratch-OST03ad"} == {
        one.target for one in report.events if one.kind == "evicted"}


# -- the captures --------------------------------------------------------------------------------


def files_of(*parts):
    """{name: a moment's `state` and `import`, below a root of their own}."""
    return shared("captures", *parts)


def seen_between(tmp_path, before, after, release="2.17.57"):
    """(kind, target, time, over) between two moments of a capture, as a job has them."""
    node = Node(tmp_path)
    shutil.rmtree(node.root)
    node.root = Path(files_of(release, before))
    node.start()
    node.root = Path(files_of(release, after))
    ended = Path(files_of(release, after), "TIME").read_text()
    work = node.work()
    begun = work.load_start("a look")
    found = node_events.collect_node_events(work.kept, begun, str(node.root), node.config)
    found.add_reading(import_files.read(str(node.root)), begun.boot_id,
                      float(re.search(r"end ([\d.]+)", ended)[1]))
    return [(one["kind"], one["target"].partition("-")[2], one["time"] % 100_000, one["over"]
             and one["over"] % 100_000) for one in found.report_members()["events"]], found


def test_the_evictions_of_2_17(tmp_path):
    """By an administrator: MDT0000 at 10:25:05, OST0001 a second later; both back at once."""
    found, _ = seen_between(tmp_path, "s15_expired_and_w", "s16_evicted")
    assert [("connection_lost", "MDT0000", 25105.0, 25105.0),
            ("connection_restored", "MDT0000", 25105.0, None),
            ("evicted", "MDT0000", 25105.0, 25105.0),
            ("connection_lost", "OST0001", 25106.0, 25106.0),
            ("connection_restored", "OST0001", 25106.0, None),
            ("evicted", "OST0001", 25106.0, 25106.0)] == found


@pytest.mark.parametrize("release, second", [("2.16.1", (25595, 25596)), ("2.15.8", (26026, 26027)),
                                             ("2.17.57-client", None)])
def test_the_evictions_of_other_releases(tmp_path, release, second):
    before = {"2.16.1": "s15_expired_and_w"}.get(release)
    moments = sorted(one.name for one in Path(files_of(release)).iterdir()
                     if one.name.startswith("s") and one.is_dir())
    before = before or moments[moments.index("s16_evicted") - 1]
    found, _ = seen_between(tmp_path, before, "s16_evicted", release)
    assert ["connection_lost", "connection_restored", "evicted"] * 2 == [one[0] for one in found]
    assert ["MDT0000"] * 3 + ["OST0001"] * 3 == [one[1] for one in found]
    assert second is None or second == (found[0][2], found[3][2])


def test_a_deactivated_target_of_2_17_and_its_activation_are_none(tmp_path):
    assert [] == seen_between(tmp_path, "s16_evicted", "s17_ost2_inactive")[0]


@pytest.mark.parametrize("release, second", [("2.17.57", 25154.0), ("2.16.1", 25663.0)])
def test_an_ost_that_dies(tmp_path, release, second):
    """OST0002 was deactivated at the start, and is activated; OST0001 is gone."""
    found, _ = seen_between(tmp_path, "s17_ost2_inactive", "s18_ost1_down", release)
    assert [("connection_lost", "OST0001", second, None)] == found


@pytest.mark.parametrize("release, second", [("2.17.57", 25154.0), ("2.16.1", 25663.0)])
def test_an_ost_that_is_down_for_longer_than_its_history(tmp_path, release, second):
    found, seen = seen_between(tmp_path, "s18_ost1_down", "s19_idle", release)
    assert [("connection_lost", "OST0001", second, None)] == found
    assert ["lustre-OST0001"] == list(seen.gone)


@pytest.mark.parametrize("release", ["2.17.57-client", "2.15.8"])
def test_an_ost_that_is_idle_is_none(tmp_path, release):
    assert [] == seen_between(tmp_path, "s17_meta_extents", "s19_idle", release)[0]


@pytest.mark.parametrize("moment", ["s01_two_clients", "s07_before_kill", "s09_killed_and_evicted"])
def test_a_client_that_works_while_another_is_killed_has_no_events(tmp_path, moment):
    """c1 of 2.17.57-c, against its first moment; c2 was killed, which c1 does not notice."""
    assert [] == seen_between(tmp_path, "s00_before/c1", f"{moment}/c1", "2.17.57-c")[0]


def test_an_event_by_its_states_is_one_of_ours():
    """What look() gives can be sent."""
    made = event.make_event("boot", "nid1", ("imports", "x"), "evicted", 23.0,
                            target="scratch-OST0003")
    assert made == event.from_json(event.as_json(made))


def lnet(node, sent, dropped):
    put(node.root, "sys/kernel/debug/lnet/stats",
        f"0 23 0 {sent} 0 0 {dropped} {4096 * sent} 0 0 0\n")


def test_messages_that_lnet_dropped_during_the_job_are_in_its_report(node):
    lnet(node, 1000, 500)
    node.start()
    lnet(node, 1977, 523)
    [found] = node.end().events
    assert ("lnet_drops", 23, "LNet dropped 23 of 1,000 messages (2.3 %)", "nid00023") == (
        found.kind, found.count, found.message, found.node)
    assert abs(found.time - node.began) < 60 and found.over >= found.time


@pytest.mark.parametrize("sent, dropped", [(1991, 509), (23, 7), (1000, 500)],
                         ids=["few", "LNet was started again", "none"])
def test_few_drops_and_a_reset_are_no_event(node, sent, dropped):
    lnet(node, 1000, 500)
    node.start()
    lnet(node, sent, dropped)
    assert [] == node.end().events


def lnetctl(node, age_s, sent, resent, timeouts=23):
    """The answer that a prolog or an epilog has stored."""
    put(node.root, "run/iostats/lnetctl",
        f"time: {time.time() - age_s:.0f}\nstatistics:\n    send_count: {sent}\n"
        f"    resend_count: {resent}\n    response_timeout_count: {timeouts}\nnet:\n"
        + "    - net type: o2ib\n      local NI(s):\n" * 200)


def test_messages_of_lnet_during_the_job_are_in_its_report(node):
    """977 sent and 23 dropped; without an answer of lnetctl, resends are not known."""
    lnet(node, 1000, 500)
    node.start()
    lnet(node, 1977, 523)
    assert [977, 0, 23, 977 * 4096, 0] == node.end().lnet


def test_what_lnet_resent_during_the_job_is_in_its_report(node):
    lnet(node, 1000, 500)
    lnetctl(node, 14, 1000, 7)
    node.start()
    lnet(node, 3300, 500)
    lnetctl(node, 2, 3300, 99, 60)
    report = node.end()
    assert [2300, 0, 0, 2300 * 4096, 0, 92, 37] == report.lnet
    [found] = report.events
    assert ("lnet_resends", 92, "LNet sent 2,300 messages, and resent 92 (4.0 %)", "nid00023") == (
        found.kind, found.count, found.message, found.node)


@pytest.mark.parametrize("first, last", [
    ((17, 1000, 7), (2, 3300, 99)), ((14, 1000, 7), (17, 3300, 99)), ((14, 1000, 7), (14, 1000, 7)),
    ((14, 1000, 7), (2, 900, 99)), ((14, 1000, 7), (2, 3300, 5))],
    ids=["old at the start", "old at the end", "the same", "started again", "counts fell"])
def test_resends_that_are_not_of_the_job_are_not_known(node, first, last):
    lnet(node, 1000, 500)
    lnetctl(node, *first)
    node.start()
    lnet(node, 3300, 500)
    lnetctl(node, *last)
    report = node.end()
    assert ([2300, 0, 0, 2300 * 4096, 0], []) == (report.lnet, report.events)


def test_without_lnets_files_nothing_is_known_of_its_messages(node):
    node.start()
    lnet(node, 1977, 523)
    assert [] == node.end().lnet


def test_lnet_of_another_form_is_one_line_and_no_event(node):
    lnet(node, 1000, 500)
    node.start()
    put(node.root, "sys/kernel/debug/lnet/stats", "a word\n")
    assert [] == node.end().events
    assert ["LNet: stats: expected 11 numbers, got 'a word'"] == node.said
