"""
`iostats_client.py watch`: rates that are true, in a file that stays small, and an end with the job.

Processes look once a second at made trees, or at a simulated mount; what takes hours is played with
a clock of its own, in which each look finds 23 more opens and 4096 more bytes read.
"""
from __future__ import annotations

import itertools
import json
import os
import re
import signal
import stat
import subprocess
from pathlib import Path

import msgspec
import pytest
from nfs_kernel import NfsClient
from processes import AFTER, BEFORE, LLITE, UUID, Desk, put, stats, until, write_tree
from test_simlustre import mount  # noqa: F401  (a fixture)

from iostats.base.config import Config
from iostats.base.errors import StateError
from iostats.lustre.paths import File
from iostats.node import rates, sources, start_files
from iostats.totals.snapshot import Snapshot
from iostats.wire.messages.report import ReportedSeries

LLITE_ONLY = {"llite": sources.read_at("start")["llite"]}


DESK = Desk


# -- a day in a moment ---------------------------------------------------------------------------


class Day:
    """
    A node whose clock only `sleep` moves.

    Attributes:
        kept: its StartFiles, with a start.
        looks: how often the counters were read.
        until_s: when `stop` comes.
        late_s: how much later than asked each sleep ends, in turn.
        texts: the llite file at each look; one more line of work each time when there are none.
    """

    def __init__(self, directory, monkeypatch, until_s=600.0, late_s=(0.0,), texts=None):
        monkeypatch.setattr(signal, "signal", lambda *_: None)      # those of pytest stay
        self.kept = start_files.open_start_files(str(directory), "4711", "nid00023")
        self.kept.store_start(b"the start", False)
        self.now_s, self.until_s, self.late_s = 1_795_225_000.0, 1_795_225_000.0 + until_s, late_s
        self.looks, self.sleeps, self.seen, self.texts = 0, 0, b"", texts

    def run(self, every_s=60):
        rates.run(self.kept, "seq", self.take, LLITE_ONLY, every_s, lambda: self.now_s, self.sleep)

    def take(self):
        text = (self.texts[min(self.looks, len(self.texts) - 1)] if self.texts else
                llite(opens=23 * self.looks, read_bytes=4096 * self.looks))
        self.looks += 1
        return Snapshot("4711", "nid00023", "seq", "", 0, 0, (
            File("llite", "scratch-ffff9a3c5d1e0800", "stats", 0, text),))

    def sleep(self, seconds):
        self.now_s += seconds + self.late_s[self.sleeps % len(self.late_s)]
        self.sleeps += 1
        if self.now_s >= self.until_s:
            self.seen = self.kept.load(self.kept.watch_path)
            self.kept.delete_start()

    @property
    def series(self):
        """What the watch file had at the end."""
        return json.loads(self.seen)["file_systems"]["scratch"]


def llite(opens=0, read_bytes=0, start=1_795_225_000):
    return stats(f"read_bytes                {opens} samples [bytes] 1 1048576 {read_bytes}",
                 f"open                      {opens} samples [usecs] 1 2 {opens} 4", start=start)


@pytest.mark.parametrize("late_s", [(0.0,), (0.3, 0.0, 0.02, 0.0, 0.1), (0.0, 0.0, 0.4)],
                         ids=["on time", "late at times", "later on"])
def test_each_look_has_a_bin_of_its_own(tmp_path, monkeypatch, late_s):
    """A look that is late by less than the one before it must not double the rate of its bin."""
    day = Day(tmp_path, monkeypatch, until_s=601.5, late_s=late_s)
    day.run()
    assert ([23] * 10, [4096] * 10, [0] * 10, 60) == (
        day.series["operations"], day.series["read_bytes"], day.series["write_bytes"],
        day.series["every_s"])
    assert day.now_s - day.until_s <= 2


def test_a_month_is_240_bins_in_a_small_file(tmp_path, monkeypatch):
    """A look each hour for 30 days: 719 of them before the end, in 180 bins of four hours."""
    day = Day(tmp_path, monkeypatch, until_s=30 * 86400.0)
    monkeypatch.setattr(rates, "LOOK_EVERY_S", 3600.0)
    day.run(3600)
    assert (14400, 180) == (day.series["every_s"], len(day.series["operations"]))
    assert 4 * 23 == day.series["operations"][100]
    assert 23 * (day.looks - 1) == sum(day.series["operations"])
    assert 4096 * (day.looks - 1) == sum(day.series["read_bytes"])
    assert len(day.seen) < 8192


def test_a_clear_between_two_looks_gives_no_negative_amount(tmp_path, monkeypatch):
    """60 opens, a clear, 37 since: what was before the clear and after the look is lost."""
    day = Day(tmp_path, monkeypatch, until_s=241.5, texts=[
        llite(opens=41, read_bytes=41_000), llite(opens=101, read_bytes=101_000),
        llite(opens=37, read_bytes=37_000, start=1_795_225_100),
        llite(opens=37, read_bytes=37_000, start=1_795_225_100)])
    day.run()
    assert [60, 37, 0, 0] == day.series["operations"]
    assert [60_000, 37_000, 0, 0] == day.series["read_bytes"]


def test_a_file_that_is_torn_once_is_no_zero_and_no_peak_from_before(tmp_path, monkeypatch):
    """What was done around that look is in the last bin, by `stop`; the others are right."""
    day = Day(tmp_path, monkeypatch, until_s=241.5, texts=[
        llite(opens=41), llite(opens=64), llite(opens=80)[:-9], llite(opens=100), llite(opens=137)])
    day.run()
    assert [23, 0, 0, 37] == day.series["operations"]


def test_a_node_that_was_suspended_looks_once_and_not_for_each_time_it_missed(
        tmp_path, monkeypatch):
    """Looks at 0, 60, and, ten hours later, 36102 and again on time: 36120, 36180, 36240."""
    day = Day(tmp_path, monkeypatch, until_s=36_241.5,
              late_s=[0.0] * 100 + [36_000.0] + [0.0] * 900)
    day.run()
    assert 6 == day.looks
    assert 23 * (day.looks - 1) == sum(day.series["operations"])


def test_a_clock_that_is_set_back_does_not_stop_the_looks(tmp_path, monkeypatch):
    """An hour back: looks go on, and no amount is lost."""
    day = Day(tmp_path, monkeypatch, until_s=600, late_s=[0.0] * 100 + [-3600.0] + [0.0] * 9999)
    day.run()
    assert 68 <= day.looks <= 72
    assert 23 * (day.looks - 1) == sum(day.series["operations"])


def test_a_full_disk_loses_no_amount(tmp_path, monkeypatch):
    """The file of the next look that fits has them all."""
    day = Day(tmp_path, monkeypatch, until_s=301.5)
    written, keep = [], day.kept.store_watch

    def full_at_times(data):
        written.append(data)
        if len(written) < 4:
            raise StateError("no space left")
        keep(data)
    monkeypatch.setattr(day.kept, "store_watch", full_at_times)
    day.run()
    assert [23] * 5 == day.series["operations"]


def test_it_ends_when_its_file_is_gone_too(tmp_path, monkeypatch):
    """Root's start stays after a user's `stop`, who can't remove it."""
    day = Day(tmp_path, monkeypatch, until_s=150.0)
    monkeypatch.setattr(day.kept, "delete_start", lambda: os.unlink(day.kept.watch_path))
    day.run()
    assert day.now_s - day.until_s <= 2
    assert ["4711%20nid00023.start"] == os.listdir(tmp_path)


def test_it_ends_when_another_start_is_in_the_place_of_its_own(tmp_path, monkeypatch):
    """Also where its file is still there; that start, and what is kept of it, stay."""
    day = Day(tmp_path, monkeypatch, until_s=150.0)
    monkeypatch.setattr(day.kept, "delete_start",
                        lambda: day.kept.store_start(b"another start", True))
    day.run()
    assert day.now_s - day.until_s <= 2
    assert b"another start" == day.kept.load_start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
                         ids=lambda number: number.name)
def test_a_signal_ends_it_after_one_more_look(tmp_path, monkeypatch, number):
    """Looks at 0, 60, 120 and, the signal being there at 150, within 2 s after it."""
    day, handlers = Day(tmp_path, monkeypatch, until_s=150.0), {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(day.kept, "delete_start", lambda: handlers[number](number, None))
    day.run()
    assert (4, True) == (day.looks, day.now_s - day.until_s <= 2)
    found = json.loads(day.kept.load(day.kept.watch_path))["file_systems"]["scratch"]
    assert 3 * 23 == sum(found["operations"])


def test_a_signal_in_the_midst_of_a_look_is_followed_by_one_more(tmp_path, monkeypatch):
    """At 120, when the counters are read and not yet written: what comes then is not lost."""
    day, handlers = Day(tmp_path, monkeypatch), {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    keep = day.kept.store_watch

    def store_watch(data):
        keep(data)
        if day.looks == 3:
            handlers[signal.SIGTERM](signal.SIGTERM, None)
    monkeypatch.setattr(day.kept, "store_watch", store_watch)
    day.run()
    assert (4, True) == (day.looks, day.now_s - 1_795_225_120.0 <= 2)


# -- what `stop` makes of it ---------------------------------------------------------------------


REPORT = {"seq": "seq", "ended": 1_795_225_130.0, "deltas": [
    {"source": "llite", "file_system": "scratch",
     "values": {"read_bytes": 41_000, "write_bytes": 53_000, "open": 60, "open_us": 9, "mkdir": 3}},
    {"source": "llite", "file_system": "scratch", "values": {"read_bytes": 3, "open": 1}},
    {"source": "llite", "file_system": "scratch", "values": None},
    {"source": "llite", "file_system": "home", "values": {"read_bytes": 999}},
    {"source": "osc", "file_system": "scratch", "target": "OST0000",
     "values": {"read_bytes": 777}}]}


def seen(seq="seq", name="scratch", **changed):
    """A watch file: two looks, of 60 s each, from 1,795,225,000 on."""
    one = {"began": 1_795_225_000.0, "every_s": 60.0, "read_bytes": [23_000, 5_000],
           "write_bytes": [0, 50_000], "operations": [23, 37], **changed}
    return json.dumps({"seq": seq, "file_systems": {name: one}}).encode()


def test_the_last_bin_has_what_was_done_after_the_last_look():
    """41,003 bytes of which the looks saw 28,000; 64 operations of which they saw 60."""
    assert {"scratch": {"began": 1_795_225_000.0, "every_s": 60.0,
                        "read_bytes": [23_000, 5_000, 13_003], "write_bytes": [0, 50_000, 3_000],
                        "operations": [23, 37, 4]}} == rates.add_remaining_gains(seen(), REPORT)


def test_more_than_the_report_has_is_no_negative_amount():
    """After a clear the looks know more than the first and the last reading."""
    found = rates.add_remaining_gains(seen(read_bytes=[90_000, 5_000]), REPORT)
    assert [90_000, 5_000, 0] == found["scratch"]["read_bytes"]


DAMAGES = {
    "empty": b"", "cut off": seen()[:-9], "no text": b"\xff\xfe\x00", "a list": b"[23]",
    "deep": b"[" * 200_000, "null": b"null", "of another start": seen(seq="earlier"),
    "no width": seen(every_s=0), "a width that is a text": seen(every_s="60"),
    "a width that is true": seen(every_s=True), "began at no time": seen(began=float("nan")),
    "never began": seen(began=None), "began at the end of time": seen(began=float("inf")),
    "less than nothing": seen(operations=[23, -1]), "more than a server takes":
    seen(operations=[23, 2**63]), "halves": seen(operations=[23, 0.5]),
    "texts": seen(operations=["23", "37"]), "one bin less": seen(operations=[23]),
    "a bin too many": seen(**{metric: [1] * 241 for metric in rates.METRICS}),
    "no bins": seen(operations=None),
}


@pytest.mark.parametrize("data", list(DAMAGES.values()), ids=list(DAMAGES))
def test_a_damaged_watch_file_is_none(data):
    """A server that refused the series would refuse the report with it."""
    assert {} == rates.add_remaining_gains(data, REPORT)


@pytest.mark.parametrize("data", [seen(), seen(name="gone"), seen(began=0.0),
                                  seen(began=1e12), seen(every_s=1)],
                         ids=["sound", "unmounted since", "1970", "far off", "whole seconds"])
def test_what_is_sent_is_what_a_server_takes(data):
    """And its sums are the report's, where the file system is in it."""
    [one] = rates.add_remaining_gains(data, REPORT).values()
    taken = msgspec.convert(one, ReportedSeries)
    assert sum(taken.operations) in (60, 64)


@pytest.mark.parametrize("damage", ["cut off", "less than nothing", "deep"])
def test_stop_delivers_whatever_the_watch_file_is(desk, damage):
    """Status 0, no word, the numbers without the rates."""
    running = desk.server("--nodes", "1", "--format", "json")
    root = desk.tree(**BEFORE)
    on = desk.on("nid00023", root)
    assert 0 == desk.client("start", *on).status
    (desk.state / f"{desk.job}%20nid00023.watch").write_bytes(DAMAGES[damage])
    write_tree(root, **AFTER)
    done = desk.client("stop", "--server", f"127.0.0.1:{running.port}", *on)
    assert (0, "") == (done.status, done.err)
    [fs] = running.wait().record["file_systems"]
    assert (41_003, None) == (fs["application"]["read_bytes"], fs["series"])
    assert [] == os.listdir(desk.state)


# -- the process ---------------------------------------------------------------------------------


class Watched:
    """One node of a desk with a running `watch`, that looks every second."""

    def __init__(self, desk, node="nid00023", again=False):
        self.desk, self.node = desk, node
        self.root = desk.tree(node, **BEFORE)
        self.on = desk.on(node, self.root)
        self.file = desk.state / f"{desk.job}%20{node}.watch"
        assert 0 == desk.client("start", *self.on).status
        self.finish = desk.begin_client("watch", "--every", "1", *self.on)
        self.process = desk.started[-1]
        until(self.file.exists, what="the watch file")

    def bins(self):
        """How many looks it has had."""
        found = json.loads(self.file.read_bytes())["file_systems"].get("scratch")
        return len(found["operations"]) if found else 0

    def operations(self):
        """How many it has seen."""
        found = json.loads(self.file.read_bytes())["file_systems"].get("scratch")
        return sum(found["operations"]) if found else 0

    def scan(self):
        """Wait for one more look."""
        before = self.bins()
        until(lambda: self.bins() > before, what="a look")

    def stop(self, running):
        return self.desk.client("stop", "--server", f"127.0.0.1:{running.port}", *self.on)

    def ends(self):
        """The Done, when it has ended."""
        return self.finish()


def sums(fs):
    return {metric: sum(fs["series"][metric]) for metric in rates.METRICS}


THE_WORK = {"read_bytes": 41_003, "write_bytes": 53_007, "operations": 43 + 13}


def test_it_ends_with_the_job_and_its_sums_are_the_jobs(desk):
    """After `stop`, without a word, and nothing is left in the directory."""
    running = desk.server("--nodes", "1", "--format", "json")
    one = Watched(desk)
    assert 0o600 == stat.S_IMODE(one.file.stat().st_mode)
    one.scan()
    write_tree(one.root, **{**BEFORE, "opens": 30})
    until(lambda: one.operations() == 19, what="the look at the first opens")
    write_tree(one.root, **AFTER)
    done = one.stop(running)
    assert (0, "") == (done.status, done.err)
    assert [] == [path for path in desk.state.iterdir() if "watch" in path.name]
    done = one.ends()
    assert (0, "", "") == (done.status, done.out, done.err)
    assert [] == os.listdir(desk.state)
    [fs] = running.wait().record["file_systems"]
    assert THE_WORK == sums(fs)
    assert {"read_bytes": 41_003, "write_bytes": 53_007, "read_calls": 23, "write_calls": 37,
            "lower_bound": False} == fs["application"]
    # A bin without work, 30 - 11 opens in one second, and the rest at the end.
    operations = [amount for amount in fs["series"]["operations"] if amount]
    assert [19, 37] == operations
    assert (1, 1.0) == (fs["series"]["nodes"], fs["series"]["every_s"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
                         ids=lambda number: number.name)
def test_a_signal_ends_it_and_what_it_saw_is_kept(desk, number):
    """As the batch system ends it; it looks once more, and a `stop` still sends it all."""
    running = desk.server("--nodes", "1", "--format", "json")
    one = Watched(desk)
    one.scan()
    write_tree(one.root, **{**BEFORE, "opens": 30})
    one.process.send_signal(number)
    done = one.ends()
    assert (0, "", "") == (done.status, done.out, done.err)
    kept = json.loads(one.file.read_bytes())["file_systems"]["scratch"]
    assert 19 == sum(kept["operations"])
    assert 0o600 == stat.S_IMODE(one.file.stat().st_mode)
    write_tree(one.root, **AFTER)
    assert 0 == one.stop(running).status
    [fs] = running.wait().record["file_systems"]
    assert THE_WORK == sums(fs)
    assert [] == os.listdir(desk.state)


def test_the_next_part_of_a_job_has_nothing_of_the_part_before(desk):
    """stop, and start at once: the old `watch` ends, and neither counts on nor takes the start."""
    running = desk.server("--nodes", "2", "--format", "json")
    one = Watched(desk)
    one.scan()
    write_tree(one.root, **AFTER)
    one.scan()
    assert 0 == one.stop(running).status
    write_tree(one.root, **BEFORE)
    assert 0 == desk.client("start", *one.on).status
    done = one.ends()
    assert (0, "") == (done.status, done.err)
    assert (desk.state / f"{desk.job}%20nid00023.start").exists()
    write_tree(one.root, **AFTER)
    assert 0 == one.stop(running).status
    [fs] = running.stop().record["file_systems"]
    assert 82_006 == fs["application"]["read_bytes"]
    assert (1, THE_WORK) == (fs["series"]["nodes"], sums(fs))
    assert [] == os.listdir(desk.state)


def test_start_again_ends_a_watch_of_the_start_before(desk):
    """Its amounts are not this start's."""
    running = desk.server("--nodes", "1", "--format", "json")
    one = Watched(desk)
    write_tree(one.root, **AFTER)
    one.scan()
    assert 0 == desk.client("start", "--again", *one.on).status
    done = one.ends()
    assert (0, "") == (done.status, done.err)
    assert 0 == one.stop(running).status
    [fs] = running.wait().record["file_systems"]
    assert (0, None) == (fs["application"]["read_bytes"], fs["series"])


def test_two_nodes_add_up_in_time(desk):
    """Twice the work, in the same few bins; the report has a line for each metric."""
    running = desk.server("--nodes", "2", "--json", "record.json", "--format", "plain")
    nodes = [Watched(desk, node) for node in ("nid00023", "nid00037")]
    for one in nodes:
        one.scan()
        write_tree(one.root, **AFTER)
    for one in nodes:
        one.scan()
        assert 0 == one.stop(running).status
        assert 0 == one.ends().status
    done = running.wait()
    record = json.loads((desk.directory / "record.json").read_text())
    [fs] = record["file_systems"]
    assert {metric: 2 * amount for metric, amount in THE_WORK.items()} == sums(fs)
    assert (2, 1.0) == (fs["series"]["nodes"], fs["series"]["every_s"])
    assert re.search(r"(?m)^I/O over time \(sum over the nodes running "
                     r"`iostats_client\.py watch`\):\n"
                     r"scratch read +\|[ ▁▂▃▄▅▆▇█]*█[ ▁▂▃▄▅▆▇█]*\| peak [0-9.]+ KiB/s\n"
                     r"scratch written +\|.*█.*\| peak [0-9.]+ KiB/s\n"
                     r"scratch operations +\|.*█.*\| peak (56\.0|112)/s$", done.out), done


def test_rates_of_one_node_are_not_taken_for_those_of_all(desk):
    """`watch` on one of two nodes, as when only the batch script starts it."""
    running = desk.server("--nodes", "2", "--format", "plain")
    one = Watched(desk, "nid00023")
    one.scan()
    write_tree(one.root, **AFTER)
    assert 0 == desk.whole_job(running, "nid00037").status
    assert 0 == one.stop(running).status
    done = running.wait()
    assert re.search(r"(?m)^scratch operations +\|.*\| peak 56\.0/s, on 1 of 2 nodes$",
                     done.out), done


# -- the command line ----------------------------------------------------------------------------


def test_without_a_start_there_is_nothing_to_watch(desk):
    """Status 2, one line, and no directory is left."""
    done = desk.client("watch", "--every", "1", *desk.on("nid00023", desk.tree(**BEFORE)))
    assert 2 == done.status
    assert (f"iostats: nid00023: job {desk.job} was not started here: no snapshot in "
            f"{desk.state}; run `iostats_client.py start` before `watch`") == done.line
    assert [] == os.listdir(desk.state)


def test_with_a_damaged_start_there_is_nothing_to_watch(desk):
    """Status 1, one line."""
    root = desk.tree(**BEFORE)
    assert 0 == desk.client("start", *desk.on("nid00023", root)).status
    [start] = desk.state.iterdir()
    start.write_bytes(start.read_bytes()[:-9])
    done = desk.client("watch", "--every", "1", *desk.on("nid00023", root))
    assert 1 == done.status
    assert "the start snapshot is cut off or damaged" in done.line


@pytest.mark.parametrize("every", [(), ("--every", "0"), ("--every", "abc"), ("--every", ""),
                                   ("--every", "-1"), ("--every", "1.5"), ("--every", "86401"),
                                   ("--every", "²"), ("--every", "9" * 5000)],
                         ids=["missing", "0", "abc", "empty", "-1", "1.5", "more than a day",
                              "a superscript", "5000 digits"])
def test_a_pause_that_is_none_is_one_line(desk, every):
    """Status 2; it says what was expected."""
    root = desk.tree(**BEFORE)
    assert 0 == desk.client("start", *desk.on("nid00023", root)).status
    done = desk.client("watch", *every, *desk.on("nid00023", root))
    assert 2 == done.status
    assert "watch: expected --every with 1 to 86400 seconds, got '" in done.line
    assert len(done.line) < 200


def test_a_file_system_that_is_mounted_later_has_its_rates_from_then_on(desk):
    """And what it did before its second look at it is in the last bin; the sums are the job's."""
    running = desk.server("--nodes", "1", "--format", "json")
    one = Watched(desk)
    one.scan()
    path = LLITE.replace("scratch-ffff9a3c5d1e0800", "home-ffff9a3c5d1e0900")
    put(one.root, UUID.replace("scratch-ffff9a3c5d1e0800", "home-ffff9a3c5d1e0900"),
        "eec8dcf5-ceae-4d97-af11-e2a3e4454674\n")
    put(one.root, path, stats("open 23 samples [usecs] 1 2 23 4"))
    one.scan()
    one.scan()
    put(one.root, path, stats("open 60 samples [usecs] 1 2 60 4"))
    one.scan()
    assert 0 == one.stop(running).status
    home, _ = running.wait().record["file_systems"]
    assert ("home", 60, 60) == (home["name"], home["operations"]["open"]["count"],
                                sum(home["series"]["operations"]))


# -- a real program on a simulated mount ---------------------------------------------------------


@pytest.mark.fuse
def test_what_dd_wrote_over_the_time_is_what_dd_wrote(desk, mount):  # noqa: F811
    """23 MiB, a pause, 37 MiB: the sums to the byte, and a gap between two heaps."""
    node = mount("node1", "--release", "2.15")
    running = desk.server("--nodes", "1", "--format", "json")
    on = desk.on("nid00023", node / "root")
    assert 0 == desk.client("start", *on).status
    finish = desk.begin_client("watch", "--every", "1", *on)
    file = desk.state / f"{desk.job}%20nid00023.watch"
    until(file.exists, what="the watch file")

    def written():
        found = json.loads(file.read_bytes())["file_systems"].get("scratch")
        return found["write_bytes"] if found else []

    for name, mib in (("one", 23), ("two", 37)):
        before = sum(written())
        subprocess.run(["dd", "if=/dev/zero", f"of={node / 'scratch' / name}", "bs=1M",
                        f"count={mib}"], check=True, capture_output=True)
        until(lambda: sum(written()) == before + mib * 2**20, what="the look")      # noqa: B023
        looks = len(written())
        until(lambda: len(written()) >= looks + 2, what="two looks without work")    # noqa: B023
    done = desk.client("stop", "--server", f"127.0.0.1:{running.port}", *on)
    assert (0, "") == (done.status, done.err)
    assert 0 == finish().status
    [fs] = running.wait().record["file_systems"]
    assert 60 * 2**20 == sum(fs["series"]["write_bytes"]) == fs["application"]["write_bytes"]
    # Bins without work are between the 23 MiB and the rest, however long each `dd` took.
    assert 2 <= list(itertools.accumulate(fs["series"]["write_bytes"])).count(23 * 2**20)
    assert Path(node, "scratch", "one").stat().st_size == 23 * 2**20


# -- NFS -------------------------------------------------------------------------------------------

def test_nfs_has_a_series_if_it_is_used(tmp_path, monkeypatch):
    """
    Requests that move no data are its operations; before its first use there are zeros, and a
    mount that is not used has no series.
    """
    client = NfsClient()
    block = client.mount("nfs1:/home", "/home")
    client.mount("nfs2:/apps", "/apps")
    day = Day(tmp_path / "start", monkeypatch, until_s=301.5)
    (tmp_path / "start").mkdir(exist_ok=True)

    def take():
        if day.looks > 2:
            block.read(4096)
            block.call("GETATTR", 23)
        day.looks += 1
        return client.snapshot(tmp_path / "root", Config())
    rates.run(day.kept, "seq", take, {"nfs": sources.list_sources()["nfs"]}, 60, lambda: day.now_s,
              day.sleep)
    [(name, series)] = json.loads(day.seen)["file_systems"].items()
    assert ("nfs1:/home", 1_795_225_000.0) == (name, series["began"])
    assert ([0, 0, *[4096] * 3], [0] * 5, [0, 0, *[23] * 3]) == (
        series["read_bytes"], series["write_bytes"], series["operations"])
    report = {"seq": "seq", "ended": 1_795_225_302.0, "deltas": [
        {"source": "nfs", "file_system": "nfs1:/home",
         "values": {"read_bytes": 4096 * 4, "READ": 4, "GETATTR": 92}}]}
    whole = rates.add_remaining_gains(day.seen, report)["nfs1:/home"]
    assert (4096 * 4, 92) == (sum(whole["read_bytes"]), sum(whole["operations"]))
