"""
The agent of a storage server, as its administrator starts it: `python3 -I -S iostats_client.py
harvest` against directories with job_stats, and a site's server that replays what it was told.
"""
from __future__ import annotations

import os
import signal
import time

import pytest
from harvest_desk import BEGAN, NS, OST, StorageDesk, a_job, peak_kib, shown, until_received
from job_stats_text import RELEASES, Job, Value
from processes import interpreters, until
from trees import samples

DESK = StorageDesk


# -- one sweep -------------------------------------------------------------------------------

def test_a_sweep_has_every_job_of_every_target(desk):
    """Two kinds of targets, two file systems, and names with a dash."""
    site = desk.site()
    opened = {"open": Value(43, 31, 8117, 61_403, 402_653_184)}
    truth = {("scratch", "OST0000"): [a_job(0), a_job(1, 53_007)], ("scratch", "OST000a"): [],
             ("my-home", "MDT0001"): [Job(b"cp.0", BEGAN, BEGAN + NS, opened)]}
    for (file_system, target), jobs in truth.items():
        desk.show(jobs, target, file_system)
    done = desk.once()
    assert (0, "", "") == (done.status, done.out, done.err)
    assert {key: shown(jobs) for key, jobs in truth.items()} == site.entries()
    [message] = site.messages
    assert (2, "oss1", 1, True, True, 1) == (message.protocol, message.node, message.seq,
                                             message.full, message.last, message.every_s)
    assert {key: len(jobs) for key, jobs in truth.items()} == {
        (block.file_system, block.target): block.entries for block in message.targets}
    assert {600} == {block.cleanup_s for block in message.targets}
    assert abs(message.slot - time.time()) < 30 and [] == desk.waiting()


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_is_sent_alike(desk, release):
    """OST of 2.5 counts `write` in bytes; times are whole seconds, or in 2.15.0 since boot."""
    site = desk.site()
    wrote = "write" if release == "2.5" else "write_bytes"
    began = 23 * NS if release == "2.15.0" else BEGAN
    desk.show([Job(b"4711", began, began + 37 * NS, {wrote: Value(23, 1, 8117, 41_003, 7)})],
              release=release)
    assert 0 == desk.once().status
    [(started, seen, counters)] = site.entries()[OST].values()
    assert ["write_bytes"] == list(counters)
    is_dated = release in ("2.15.2", "2.16", "2.17")           # then nobody asks for min and max
    assert counters["write_bytes"] == ("bytes", 23, *((None, None) if is_dated else (1, 8117)),
                                       41_003, 7 if release in ("2.14", "2.15.0") else None)
    if release == "2.15.0":
        booted = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        assert abs(seen - booted - 60 * NS) < NS
    else:
        assert seen == BEGAN + 37 * NS
    assert started == (BEGAN if is_dated else 0)


@pytest.mark.parametrize("obdfilter", samples("captures", "*/s*/proc/fs/lustre/obdfilter"))
def test_a_real_storage_server_is_sent_as_it_was_captured(desk, obdfilter):
    """All entries of all targets that job_stats were captured of."""
    tree = obdfilter.parents[3]
    files = sorted(tree.glob("proc/fs/lustre/*/*/job_stats"))
    intervals = {int(path.read_text())
                 for path in tree.glob("sys/fs/lustre/*/*/job_cleanup_interval")}
    site = desk.site()
    assert 0 == desk.once(root=tree).status
    [message] = site.messages
    assert [path.read_bytes().count(b"- job_id:") for path in files] == [
        block.entries for path in files for block in message.targets
        if f"{block.file_system}-{block.target}" == path.parent.name]
    assert all(block.entries == len(block.ids) and block.bad == 0 for block in message.targets)
    assert intervals == {block.cleanup_s for block in message.targets}


def test_job_stats_are_found_in_the_places_of_every_release(desk):
    site = desk.site()
    desk.show([a_job(0)], "OST0000", place="proc/fs/lustre")
    desk.show([a_job(1)], "OST0001", place="sys/fs/lustre")
    desk.show([a_job(2)], "OST0002", place="sys/kernel/debug/lustre")
    desk.show(b"not this one\n", "OST0002", place="proc/fs/lustre")
    assert 0 == desk.once().status
    assert {f"OST000{n}": shown([a_job(n)]) for n in range(3)} == {
        target: rows for (_, target), rows in site.entries().items()}


def test_only_the_named_file_systems_are_harvested(desk):
    """On the command line, with a server before them; or in site.cfg."""
    site = desk.site()
    for file_system in ("scratch", "home", "work"):
        desk.show([a_job(0)], file_system=file_system)
    desk.once(f"127.0.0.1:{desk.port}", "scratch", "work")
    assert {"scratch", "work"} == {block.file_system for block in site.messages[-1].targets}
    desk.once(harvest_file_systems="home")
    assert {"home"} == {block.file_system for block in site.messages[-1].targets}
    done = desk.once("--server", "127.0.0.1", "homes")
    assert "no target of file system 'homes' on this machine; waiting for one" in done.line
    assert [] == site.messages[-1].targets


def test_it_runs_on_every_python_without_anything_installed(desk):
    site = desk.site()
    for number, (_, python) in enumerate(interpreters()):
        desk.show([a_job(number)])
        done = desk.once(python=python)
        assert (0, "") == (done.status, done.err)
        assert {OST: shown([a_job(number)])} == site.entries()


def test_a_machine_without_a_target_says_so(desk):
    """Or one whose /proc is hidden: it would send nothing for ever, in silence."""
    site = desk.site()
    done = desk.once()
    assert (0, "iostats: no OST and no MDT on this machine, or none that this user may see; "
               "waiting for one") == (done.status, done.line)
    assert [[]] == [message.targets for message in site.messages]


# -- sweep after sweep -----------------------------------------------------------------------

def test_only_what_changed_is_sent_and_what_is_gone_is_named(desk):
    """One of three jobs moves on, one new, then one expires."""
    site, jobs = desk.site(), [a_job(number) for number in range(3)]
    desk.show(jobs)
    agent = desk.begin()
    until_received(site, jobs)
    jobs = [jobs[0], a_job(1, 53_007, seen_s=41), jobs[2], a_job(3)]
    desk.show(jobs)
    until_received(site, jobs)
    jobs.pop(0)
    desk.show(jobs)
    until_received(site, jobs)
    blocks = [message.targets[0] for message in site.messages]
    assert [["4711", "4712", "4713"], ["4712", "4714"]] == [block.ids for block in blocks
                                                            if block.ids]
    assert [["4711"]] == [block.gone for block in blocks if block.gone]
    assert [True] + [False] * (len(blocks) - 1) == [message.full for message in site.messages]
    assert (0, "") == (agent.stop().status, agent.err)


def test_sweeps_are_in_step_with_a_clock_ten_minutes_off(desk):
    """Multiples of `every` of the server's time, though this clock is 600 s behind it."""
    site = desk.site(ahead_s=600)
    desk.show([a_job(0)])
    desk.begin(harvest_interval=2)

    def is_in_step(message):
        begun = message.targets[0].read_at - message.clock_ahead_s
        return (-601 < message.clock_ahead_s < -599
                and message.slot <= begun + 0.5 and begun < message.slot + 2)
    # On a machine that is busy an answer may take a second, and a sweep may begin late.
    until(lambda: sum(map(is_in_step, list(site.messages))) >= 3, what="three sweeps in step")
    slots = [message.slot for message in site.messages]
    assert {0} == {slot % 2 for slot in slots} and slots == sorted(set(slots))


def test_after_a_stall_it_goes_on_with_the_next_slot_and_no_burst(desk):
    """Stopped for some sweeps, as a machine that is suspended."""
    site = desk.site()
    desk.show([a_job(0)])
    agent = desk.begin()
    until(lambda: len(site.messages) >= 2)
    agent.process.send_signal(signal.SIGSTOP)
    before = len(site.messages)
    stopped = time.time()
    until(lambda: time.time() > stopped + 4)
    agent.process.send_signal(signal.SIGCONT)
    until(lambda: len(site.messages) >= before + 3)
    slots = [message.slot for message in site.messages]
    assert slots == sorted(set(slots))
    assert max(b - a for a, b in zip(slots, slots[1:])) >= 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once(desk, number):
    site = desk.site()
    desk.show([a_job(0)])
    agent = desk.begin(harvest_interval=200, patient=False)
    until(lambda: desk.spool.joinpath("lock").exists() and site.connections is not None)
    until(lambda: agent.process.poll() is None and os.getpriority(
        os.PRIO_PROCESS, agent.process.pid) == 19)
    done = agent.stop(number)
    assert (0 if number == signal.SIGTERM else 130, "") == (done.status, done.err)


def test_sighup_is_no_reason_to_end(desk):
    """It reads no configuration anew either; a restart does."""
    site = desk.site()
    desk.show([a_job(0)])
    agent = desk.begin()
    until(lambda: site.messages)
    agent.process.send_signal(signal.SIGHUP)
    before = len(site.messages)
    until(lambda: len(site.messages) > before)
    assert agent.process.poll() is None


@pytest.mark.parametrize("before", [(), ("nice", "-n", "-7")],
                         ids=["as it is started", "started with a higher priority, by root"])
def test_it_is_niced(desk, before):
    desk.site()
    agent = desk.begin(before=before, patient=False)
    until(lambda: os.getpriority(os.PRIO_PROCESS, agent.process.pid) == 19)


# -- what it costs -----------------------------------------------------------------------------

def peak_of(desk, count):
    """KiB of an agent that has swept `count` jobs twice."""
    from job_stats_text import render
    path = desk.show(b"")
    with path.open("wb") as file:
        file.write(b"job_stats:\n")
        for number in range(count):
            file.write(render(a_job(number), "2.15.2"))
    site = desk.site()
    agent = desk.begin()
    until(lambda: len(site.sweeps()) >= 2, 240)
    assert count == site.messages[-1].targets[0].entries
    peak = peak_kib(agent.process)
    agent.kill()
    site.close()
    return peak


def test_memory_is_flat_from_1_000_jobs_to_50_000(desk):
    """But for the fingerprints, 150 bytes for each; the file of 50,000 has some 70 MB."""
    few, many = peak_of(desk, 1000), peak_of(desk, 50_000)
    assert many - few < 24 << 10
    assert many < 60 << 10


def test_it_takes_no_more_of_a_core_than_it_may(desk):
    """20 % of one, over a sweep that would take a second of it."""
    from job_stats_text import render
    path = desk.show(b"")
    path.write_bytes(b"".join(render(a_job(number), "2.15.2") for number in range(8000)))
    agent = desk.agent(harvest_cpu_percent=20)
    cpu, wall = time.process_time(), time.monotonic()
    agent.sweep(0, 1)
    share = (time.process_time() - cpu) / (time.monotonic() - wall)
    assert share < 0.26
    assert 8 == len(desk.waiting()) or len(desk.waiting()) > 3
