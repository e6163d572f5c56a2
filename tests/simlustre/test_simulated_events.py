"""
What simulated storage servers and clients show of what went wrong: the kernel's log,
recovery_status, eviction_count, and how imports stand.  Forms are those of real captures, and are
read by what reads real ones.
"""
from __future__ import annotations

import re

import pytest
from processes import until
from test_simlustre import counters_of, simlustre
from test_storage_servers import (
    DEBUGFS,
    EXPORTS_IN,
    NODE1,
    NODE2,
    OST0,
    PROC,
    SYSFS,
    do,
    file_on,
    started,
)
from trees import shared

from iostats.lustre import imports, kernel_log
from iostats.node import identity
from simlustre.imports import Import, import_text
from simlustre.kernel_log import WARNING, KernelLog
from simlustre.recovery import Recovery

fuse = pytest.mark.fuse


def told(site, *words):
    simlustre("--ctl", site.directory / "oss1", *words)


def messages(site, server="oss1"):
    """[Message] of all lines of its kernel's log."""
    lines = (site.directory / server / "root" / "dev" / "kmsg").read_bytes().splitlines(True)
    records = [kernel_log.parse_record(line) for line in lines]
    assert [one.sequence for one in records] == list(range(417, 417 + len(records)))
    return [kernel_log.parse_message(one) for one in records]


def import_of(site, node, target):
    """(State, Import) of a node's osc of a target."""
    where = PROC if site.release != "2.17" else DEBUGFS
    [found] = (node / "root" / where / "osc").glob(f"{target}-osc-*")
    return (imports.parse_state((found / "state").read_bytes()),
            imports.parse_import((found / "import").read_bytes()))


def recovery(site):
    return (site.root(OST0) / EXPORTS_IN.get(site.release, PROC) / OST0
            / "recovery_status").read_text()


@fuse
def test_each_storage_server_has_a_boot_of_its_own(request, tmp_path):
    """Events get their ids by it: both may be NOT HEALTHY."""
    site = started(tmp_path, request)
    boots = {identity.read_boot_id(str(site.directory / server / "root"))
             for server in ("oss1", "mds1")}
    assert 3 == len(boots | {identity.read_boot_id()}) and {36} == set(map(len, boots))


@pytest.mark.parametrize("release", ["2.10", "2.12", "2.15", "2.16", "2.17"])
@fuse
def test_an_eviction_is_in_the_log_and_in_the_clients_history(request, tmp_path, release):
    """By the administrator; the client hears of it by its next request."""
    site = started(tmp_path, request, release)
    node1 = site.client("node1", NODE1)
    name = file_on(node1, 0)
    do(node1, f"open({name!r}, 'w').write('23')")
    told(site, "evict", NODE1, "scratch-OST0000")
    [evicted] = [one for one in messages(site) if one.kind == kernel_log.EVICTED]
    assert ("administrator", "scratch-OST0000", (NODE1,)) == (
        evicted.cause, evicted.target, evicted.nids)
    if release in ("2.16", "2.17"):
        assert "1\n" == (site.root(OST0) / SYSFS / OST0 / "eviction_count").read_text()
    do(node1, f"open({name!r}, 'w').write('37')")
    state, found = import_of(site, node1, "scratch-OST0000")
    assert ["CONNECTING", "FULL", "DISCONN", "CONNECTING", "EVICTED", "RECOVER", "FULL"] == [
        one for _, one in state.history]
    assert ({}, {}, "FULL", 2, "scratch-OST0000") == (
        state.bad, found.bad, found.state, found.attempts, found.target)


@fuse
def test_a_target_that_stops_and_comes_back(request, tmp_path):
    """Both clients ping, so they come back by themselves, and the recovery ends."""
    site = started_with_recovery(tmp_path, request, 60)
    nodes = [site.client(f"node{n}", nid, "--ping", 0.2) for n, nid in ((1, NODE1), (2, NODE2))]
    assert "status: INACTIVE\n" == recovery(site)
    told(site, "stop", "scratch-OST0000")
    for node in nodes:
        until(lambda node=node: import_of(site, node, "scratch-OST0000")[0].state == "DISCONN",
              what="it knows that the target is gone")
    assert not (site.root(OST0) / PROC / OST0).exists()
    told(site, "start", "scratch-OST0000")
    for node in nodes:
        until(lambda node=node: import_of(site, node, "scratch-OST0000")[0].state == "FULL",
              what="it is connected again")
    assert ["CONNECTING", "FULL", "DISCONN", "CONNECTING", "DISCONN"] == [
        state for _, state in import_of(site, nodes[0], "scratch-OST0000")[0].history][:5]
    assert ["CONNECTING", "REPLAY", "REPLAY_LOCKS", "REPLAY_WAIT", "RECOVER", "FULL"] == [
        state for _, state in import_of(site, nodes[0], "scratch-OST0000")[0].history][-6:]
    assert [("target_up", ""), ("target_up", ""), ("target_down", ""), ("target_up", ""),
            ("recovery", ""), ("recovery", "")] == [
        (one.kind, one.cause) for one in messages(site)]
    will, over = messages(site)[-2:]
    assert ("Will be in recovery for at least 1:00, or until 2 clients reconnect", 0) == (
        will.text.partition(": ")[2], over.count)
    assert re.search(r"of 2 clients 2 recovered and 0 were evicted\.$", over.text)
    assert recovery(site).startswith("status: COMPLETE\n")
    assert "completed_clients: 2/2\n" in recovery(site)


def started_with_recovery(tmp_path, request, seconds):
    site = started(tmp_path, request)
    simlustre("--unmount", site.directory / "oss1")
    site.server("oss1", "OST0000", "OST0001", recovery=seconds)
    return site


@fuse
def test_who_does_not_come_back_is_evicted_at_the_end_of_a_recovery(request, tmp_path):
    """node2 sends nothing by itself."""
    site = started_with_recovery(tmp_path, request, 1)
    node1 = site.client("node1", NODE1, "--ping", 0.1)
    node2 = site.client("node2", NODE2)
    told(site, "restart", "scratch-OST0000")
    until(lambda: recovery(site).startswith("status: COMPLETE"), what="the recovery is over")
    assert "completed_clients: 1/2\n" in recovery(site)
    over = messages(site)[-1]
    assert ("recovery", 1) == (over.kind, over.count)
    assert {("recovery", "")} < {(one.kind, one.cause) for one in messages(site)}
    [stale] = [one for one in messages(site) if one.kind == kernel_log.EVICTED]
    assert "recovery" == stale.cause
    assert "1\n" == (site.root(OST0) / SYSFS / OST0 / "eviction_count").read_text()
    until(lambda: import_of(site, node1, "scratch-OST0000")[0].state == "FULL", what="node1")
    do(node2, f"open({file_on(node2, 0)!r}, 'w').write('41')")
    assert "EVICTED" in [state for _, state in
                         import_of(site, node2, "scratch-OST0000")[0].history]


@fuse
def test_requests_wait_for_a_recovery_and_count_once(request, tmp_path):
    """23 writes while the target is away."""
    site = started_with_recovery(tmp_path, request, 60)
    node1 = site.client("node1", NODE1, "--ping", 0.1)
    name = file_on(node1, 0)
    told(site, "failover", "scratch-OST0000", "mds1")
    do(node1, f"for _ in range(23): file = os.open({name!r}, os.O_WRONLY); "
              f"os.write(file, b'x' * 37); os.fsync(file); os.close(file)")
    path = site.directory / "mds1" / "root" / DEBUGFS / OST0 / "exports" / NODE1 / "stats"
    samples, _, numbers = counters_of(path)["write_bytes"]
    assert (23, 23 * 37) == (samples, numbers[2])
    assert ["target_up", "target_up"] == [
        one.kind for one in messages(site, "mds1") if one.kind != "recovery"]


def test_the_form_of_an_import_is_that_of_a_real_one():
    """Key for key of those that are there, with the same blanks."""
    for release, captured in (("2.15", "2.15.8/s16_evicted/proc/fs/lustre"),
                              ("2.16", "2.16.1/s16_evicted/proc/fs/lustre"),
                              ("2.17", "2.17.57-c/s00_before/c1/sys/kernel/debug/lustre")):
        real = next(shared("captures").glob(f"{captured}/osc/*-OST0001-osc-*/import")).read_text()
        known = {form_of(line) for line in real.splitlines()}
        ours = import_text(Import(23.0), "scratch-OST0001-osc-ff11000012345678",
                           "scratch-OST0001", release, 37.0)
        assert {form_of(line) for line in ours.splitlines()} <= known, release
        assert {} == imports.parse_import(ours.encode()).bad
        found = imports.parse_import(ours.encode())
        assert (False, 0, 0, ["10.77.1.1@tcp"], 1) == (
            found.is_deactivated, found.invalidations, found.timeouts, found.failover_nids,
            found.attempts)


def form_of(line):
    line = re.sub(r"[\w.:]+@[a-z]\w*", "NID", line)
    line = re.sub(r"(name|target|state): \S+", r"\1: X", line)
    return re.sub(r"\b\d+\b", "N", line)


def test_a_log_that_is_long_keeps_places():
    """Who reads on where it has stopped misses only what is gone."""
    log = KernelLog()
    for number in range(30_000):
        log.emit(WARNING, f"scratch-OST0000: line {number:05d}")
    place = 0
    text = b""
    while True:
        part = log.read(4096, place)
        if not part:
            break
        place, text = place + len(part), text + part
    records = [kernel_log.parse_record(line) for line in text.splitlines() if line]
    assert 417 + 29_999 == records[-1].sequence
    assert 417 < records[0].sequence
    assert 3 < len(text.splitlines()) - len(records)


@pytest.mark.parametrize("clients, back, text", [
    (1, 1, "or until 1 client reconnects"), (2, 1, "or until 2 clients reconnect")])
def test_the_words_of_a_recovery(clients, back, text):
    """One client, and two of which one is evicted."""
    said = []
    one = Recovery("scratch-OST0000", {f"uuid{n}": f"10.77.0.{n}@tcp" for n in range(clients)}, 300,
                   "2.17", lambda level, line: said.append(line))
    assert "status: WAITING_FOR_CLIENTS\n" == one.status(23.0)
    for number in range(back):
        one.came_back(f"uuid{number}", 23.0)
    stale = one.scan(23.0 + 300)
    assert said[0] == f"scratch-OST0000: Will be in recovery for at least 5:00, {text}"
    assert clients - back == len(stale)
    evicted = clients - back
    assert said[-1] == (f"scratch-OST0000: Recovery over after {'0:01' if not evicted else '5:00'}"
                        f", of {clients} clients {back} recovered and {evicted} "
                        f"{'was' if evicted == 1 else 'were'} evicted.")
