"""
What an agent makes of files of all kinds: damaged, without jobs, unreadable, gone, changing.
"""
from __future__ import annotations

import os
import random
import time
from unittest import mock

import pytest
from harvest_desk import OST, StorageDesk, a_job, shown, until_received
from processes import until

from iostats.storage import encoding
from iostats.storage.encoding import SweepEncoder
from iostats.storage.schedule import Pace, SweepClock
from iostats.storage.targets import find_local_targets
from iostats.wire.messages.sweep_decoder import PackedSweep, decode_sweep

DESK = StorageDesk


def entry(number=0):
    from job_stats_text import render
    return render(a_job(number), "2.15.2")


BAD = {
    "a line that is none": (entry(0) + b"  write_bytes: { samples 23\n" + entry(1), 1, ["4712"]),
    "no times": (b"job_stats:\n- job_id: 4710\n" + entry(1), 1, ["4712"]),
    "cut off in a number": (entry(0) + entry(1)[:-30], 1, ["4711"]),
    "binary": (random.Random(23).randbytes(300_000), 1, []),
    "zeros": (bytes(300_000), 1, []),
    "one line of 300,000 bytes": (b"- job_id: 1" + b"1" * 300_000 + b"\n" + entry(1), 1, ["4712"]),
    "a time of another world": (
        entry(0).replace(b"1795225357.", b"9999999999.") + entry(1), 1, ["4712"]),
    "HTML": (b"<html><body>404</body></html>\n", 1, []),
}


@pytest.mark.parametrize("name", BAD)
def test_only_the_entry_that_cannot_be_understood_is_lost(desk, name):
    """It is counted, and reported once, with where it was."""
    data, bad, ids = BAD[name]
    site = desk.site()
    desk.show(data)
    desk.show([a_job(2)], "OST0001")
    agent = desk.begin()
    until(lambda: len(site.messages) >= 3)
    for message in site.messages:
        block = message.targets[0]
        assert bad == block.bad
        assert "job_stats: " in block.why
    assert ids == site.messages[0].targets[0].ids
    assert {"4713"} == set(site.entries()[("scratch", "OST0001")])
    done = agent.stop()
    assert 1 == done.err.count("could not be understood, the first: "), done
    assert 1 == len(done.lines) and len(done.line) < 1000


def test_ids_in_a_vendors_quotes_are_sent_without(desk):
    """Whole seconds; when an id shows that the quotes are users', all is sent anew."""
    site, names = desk.site(), ["74188", '"74186:0:ma"', "74187:0:mb"]
    jobs = [a_job(number, name=name) for number, name in enumerate(names)]
    desk.show(jobs[:2], release="2.14")
    agent = desk.begin()
    until(lambda: site.sweeps())
    assert {"74188", "74186:0:ma"} == set(site.entries()[OST])
    first = site.messages[0].run
    desk.show(jobs, release="2.14")
    until(lambda: set(names) == set(site.entries().get(OST, ()))
          and site.messages[-1].run != first)
    agent.stop()


@pytest.mark.parametrize("data", [b"", b"job_stats:\n"], ids=["empty", "header alone"])
def test_a_target_without_jobs_is_sent_without_entries(desk, data):
    site = desk.site()
    desk.show(data)
    assert 0 == desk.once().status
    [block] = site.messages[0].targets
    assert (True, 0, 0, "", []) == (block.ended, block.entries, block.bad, block.unreadable,
                                    block.ids)


def test_an_id_that_is_there_twice_is_sent_twice_in_its_order(desk):
    """It expired and came again while the file was read: the old one, then the new one."""
    site = desk.site()
    desk.show([a_job(0, 53_007), a_job(1), a_job(0, 41_003, seen_s=41)])
    assert 0 == desk.once().status
    blocks = [block for message in site.messages for block in message.targets]
    assert [["4711", "4712"], ["4711"]] == [block.ids for block in blocks]
    assert [False, True] == [block.ended for block in blocks]
    assert 1 == len({block.read_at for block in blocks}) and 3 == blocks[-1].entries
    assert shown([a_job(1), a_job(0, 41_003, seen_s=41)]) == site.entries()[OST]


def test_a_target_that_goes_and_comes_back_is_sent_in_full(desk):
    """A failover, to and fro: what the other server counted meanwhile is not presumed."""
    site = desk.site()
    path = desk.show([a_job(0), a_job(1)])
    agent = desk.begin()
    until_received(site, [a_job(0), a_job(1)])
    away = path.parent.with_name("away")            # no name of a target
    path.parent.rename(away)
    until(lambda: site.messages[-1].targets == [])
    away.rename(path.parent)
    desk.show([a_job(1)])
    until_received(site, [a_job(1)])
    assert [True, True] == [message.full for message in site.messages
                            if message.targets and message.targets[0].ids]
    done = agent.stop()
    assert (0, "iostats: no OST and no MDT on this machine, or none that this user may see; "
               "waiting for one") == (done.status, done.line)


def test_a_target_that_is_started_again_while_it_is_read_is_not_read_to_its_end(tmp_path):
    """Its entries may be of before or after, so neither `gone` nor its instance is certain."""
    (directory := tmp_path / "proc/fs/lustre/obdfilter/scratch-OST0000").mkdir(parents=True)
    (directory / "job_stats").write_bytes(entry(0))
    clock, sent = SweepClock(lambda: 1e9, lambda: 41.0), []
    instances = iter(("23", "23", "23", "24"))
    encoder = SweepEncoder("oss1", 100_000, clock, Pace(100, lambda: 0.0, lambda: 0.0), print)
    with mock.patch.object(encoding, "read_instance", lambda target: next(instances)):
        for slot in (20, 40):
            encoder.sweep(find_local_targets(str(tmp_path)), slot, 20, 0.0,
                          lambda run, seq, message, full: sent.append(message))
    heads = [block.head for message in sent for block, _ in decode_sweep(
        PackedSweep(2, message, 0.0), 1 << 20).blocks]
    assert [(23, "", 1), (23, "the target was started again in between", 0)] == [
        (head.instance, head.unreadable, head.entries) for head in heads]


@pytest.mark.parametrize("how", ["a directory", "no file"])
def test_entries_of_a_file_that_cannot_be_read_do_not_count_as_removed(desk, how):
    """It is named, with why; what was known stands, and nothing is gone."""
    site = desk.site()
    path = desk.show([a_job(0), a_job(1)])
    agent = desk.begin()
    until_received(site, [a_job(0), a_job(1)])
    kept = path.rename(path.with_name("kept"))
    if how == "a directory":
        path.mkdir()
    until(lambda: site.messages[-1].targets[0].unreadable)
    block = site.messages[-1].targets[0]
    assert block.unreadable == ("Is a directory" if how == "a directory" else
                                "No such file or directory")
    assert ([], [], True) == (block.ids, block.gone, block.ended)
    if how == "a directory":
        path.rmdir()
    kept.rename(path)
    until(lambda: not site.messages[-1].targets[0].unreadable)
    assert [["4711", "4712"]] == [message.targets[0].ids for message in site.messages
                                  if message.targets[0].ids]
    assert {OST: shown([a_job(0), a_job(1)])} == site.entries()
    assert 1 == agent.stop().err.count("cannot be read")


def test_a_file_that_changes_under_the_reader_is_read_to_its_end(desk):
    """Grown and cut while it is read: what is told in the end is the truth."""
    site, jobs = desk.site(), [a_job(number) for number in range(4000)]
    path = desk.show(jobs)
    agent = desk.begin(harvest_cpu_percent=20)
    until(lambda: site.messages)
    with path.open("r+b") as file:
        for turn in range(37):
            file.seek(0, os.SEEK_END)
            file.write(entry(4000 + turn))
            file.truncate(path.stat().st_size * (turn % 3 + 1) // 3)
            file.flush()
            pause = time.monotonic() + 0.1
            until(lambda: time.monotonic() > pause)         # noqa: B023
    desk.show(jobs)
    until_received(site, jobs)
    done = agent.stop()
    assert 0 == done.status and "Traceback" not in done.err


def test_more_removed_entries_than_a_message_holds_make_a_full_sweep(desk):
    """4,000 ids expire at once, with messages of 60,000 bytes."""
    site, jobs = desk.site(), [a_job(number, name=f"a.{number:029d}") for number in range(4000)]
    desk.show(jobs)
    desk.begin(server_max_message_bytes=300_000)
    until_received(site, jobs)
    assert len(site.sweeps()[0]) > 10
    desk.show(jobs[:1])
    until_received(site, jobs[:1])
    assert [] == [block.gone for message in site.messages for block in message.targets
                  if block.gone]
    assert site.messages[-1].run != site.messages[0].run
