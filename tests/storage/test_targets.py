"""
The targets of a storage server: what is one, what `harvest --list` says of it, and how it is read.
"""
from __future__ import annotations

import os
import socket
import time
from types import SimpleNamespace

import pytest
from harvest_desk import StorageDesk, a_job
from job_stats_text import Job, Value
from kernel import NS

from iostats.base import config
from iostats.load.ranking import LoadQuery
from iostats.lustre.job_tags import TagForm
from iostats.storage import local_load, targets

DESK = StorageDesk


def test_what_is_no_target_is_left_alone():
    """Beside the targets there are files, and directories of connections."""
    for name in ("scratch-MDT0000-mdtlov", "scratch-OST0000-osc", "OST0000", "-OST0000",
                 "scratch-OST00zz", "scratch-OST00001", "num_refs"):
        assert None is targets.split_name(name)


def test_a_listing_that_ends_early_lacks_no_target(desk, monkeypatch):
    """As that of /proc does when the entry that it shows is removed at that moment."""
    for target in ("OST0000", "OST0017", "OST0023"):
        desk.show([a_job(0)], target)
    real, listed = os.listdir, set()

    def listing(directory):
        names = sorted(real(directory))[:1] if directory not in listed else real(directory)
        listed.add(directory)
        return names
    monkeypatch.setattr(os, "listdir", listing)
    assert ["OST0000", "OST0017", "OST0023"] == [
        one.name for one in targets.find_local_targets(str(desk.root))]


def test_list_shows_what_there_is_and_needs_no_server(desk):
    desk.show([a_job(0), a_job(1)])
    desk.show([a_job(0)], "MDT0000", cleanup_s=None)
    done = desk.once("--list")
    assert 0 == done.status
    *lines, events = [" ".join(line.split()) for line in done.out.splitlines()]
    assert ["scratch MDT0000 cleanup - 1 entries", "scratch OST0000 cleanup 600 s 2 entries"] == (
        lines)
    assert events.startswith("events: kernel log not read: ")
    assert not desk.spool.exists()


def test_list_does_not_wait_for_what_is_no_file(desk):
    """A FIFO in the place of a target's job_stats; the other target is there."""
    desk.show([a_job(0)])
    desk.show([a_job(0)], "MDT0000")
    [path] = desk.root.glob("**/*MDT0000/job_stats")
    path.unlink()
    os.mkfifo(path)
    done = desk.once("--list")
    assert "scratch OST0000 cleanup 600 s 1 entries" in " ".join(done.out.split())
    assert "Not a regular file" in done.out + done.err


def test_list_takes_file_systems_with_or_without_the_server_before_them(desk):
    desk.show([a_job(0)])
    desk.show([a_job(0)], file_system="scratch2")
    for words in (["scratch2"], ["admin1", "scratch2"]):
        done = desk.once("--list", *words)
        assert (0, ["scratch2", "events:"]) == (done.status, [line.split()[0]
                                                              for line in done.out.splitlines()])
    assert 3 == len(desk.once("--list", "admin1").out.splitlines())


def test_a_file_system_in_the_servers_place_is_told(desk):
    """`harvest scratch`: nobody would find a server of that name."""
    desk.show([a_job(0)])
    done = desk.once("scratch")
    assert (2, "iostats: harvest: expected the site's server before the file systems, got "
               "'scratch', which is a file system of this machine") == (done.status, done.line)
    assert not desk.spool.exists()


def test_what_the_kernel_gives_in_small_pieces_is_put_together():
    """20 reads of 4096 bytes, as of a file in /proc, are two chunks."""
    ours, kernels = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, kernels:
        for number in range(20):
            kernels.send(bytes([number]) * 4096)
        kernels.shutdown(socket.SHUT_WR)
        chunks = list(targets.read_chunks(ours.fileno(), "job_stats"))
    assert [65_536, 16_384] == [len(chunk) for chunk in chunks]
    assert b"".join(bytes([number]) * 4096 for number in range(20)) == b"".join(chunks)


@pytest.mark.parametrize("limit, most, why", [("MOST_BYTES", 40 << 20, "it does not end"),
                                              ("READ_WITHIN_S", -1.0, "it takes too long")])
def test_a_file_that_does_not_end_holds_up_no_other(desk, monkeypatch, limit, most, why):
    """With limits that a test can reach: 41 MiB, and a read that takes longer than nothing."""
    endless = desk.show([a_job(0)])
    os.truncate(endless, 41 << 20)
    monkeypatch.setattr(targets, limit, most)
    assert [f"scratch    OST0000  cleanup 600 s   not readable: {endless}: {why}"] == (
        targets.describe_targets(str(desk.root)).splitlines())
    os.truncate(endless, 39 << 20)
    desk.show([a_job(0), a_job(1)], "OST0011")
    if limit == "MOST_BYTES":
        first, other = targets.describe_targets(str(desk.root)).splitlines()
        assert "OST0000  cleanup 600 s   1 entries, 1 not understood" in first
        assert other.endswith("OST0011  cleanup 600 s   2 entries")


# -- ids in quotes: a vendor's 2.14, with whole seconds --------------------------------------------

def show(desk, ids, samples):
    """Let OST0000 print so many requests of each id."""
    desk.show([Job(one, 0, 1_795_225_357 * NS, {"punch": Value(samples)}) for one in ids],
              release="2.14")


def test_jobs_in_a_vendors_quotes_are_jobs_for_the_doctor(desk):
    show(desk, [b'"4711:0:a"', b"4712", b"cp.0"], 23)
    [target] = targets.find_local_targets(str(desk.root))
    found = targets.inspect(target, TagForm("%j:%u:%H").find_job)
    assert (3, 2, 0) == (found.entries, found.jobs, found.bad)


def test_when_quotes_turn_out_to_be_users_nothing_is_counted_twice(desk, monkeypatch):
    """A look in which the ids have other names is a first one: `seen for the first time`."""
    answers, clock = [], SimpleNamespace(now=0.0)
    monkeypatch.setattr(local_load, "time", SimpleNamespace(
        monotonic=lambda: clock.now, time=time.time, time_ns=time.time_ns))
    load = local_load.LocalLoad(str(desk.root), config.load(os.devnull, environ={}), "%j:%u:%H",
                                10.0)
    both = [b'"4711:0:a"', b"4712:0:b"]
    for ids, samples in ((both[:1], 20), (both[:1], 60), (both, 90), (both, 170)):
        clock.now += 10.0
        show(desk, ids, samples)
        if not load.scan():
            answer = load.answer(LoadQuery())
            answers.append(({row["job"]: row["requests_per_s"] for row in answer["rows"]},
                            answer["missing"]))
    assert [({"4711": 4.0}, {}),
            ({}, {"scratch": {"OST0000": "seen for the first time"}}),
            ({'"4711:0:a"': 8.0, "4712": 8.0}, {})] == answers
