"""
Metrics of simulated targets and services, as an agent reads them; what is done is known.
"""
from __future__ import annotations

import re

import pytest
from test_storage_servers import (
    DEBUGFS,
    PROC,
    WORK,
    ctl,
    do,
    each_release,
    file_on,
    shape_of,
    site,  # noqa: F401 -- a fixture
)
from trees import shared

from iostats.events.metrics_reading import read_metrics, read_pools, read_quotas
from iostats.lustre.quota import parse_quotas
from iostats.lustre.server_metrics import (
    parse_brw_stats,
    parse_hsm_agents,
    parse_service_stats,
)
from simlustre.counters import RELEASES
from simlustre.metrics_tree import files_of_quotas, files_of_services, files_of_target
from simlustre.server_metrics import BULK, OF_MDT, OTHER, ServiceMetrics, requests_by_service
from simlustre.target import Target

NODE1 = "10.77.0.11@tcp"


def target_with_requests(release, name="scratch-OST0000"):
    """23 writes of 1 MiB, 7 of 64 KiB, 5 of 4 KiB; 41 reads of 8 KiB."""
    target = Target(name, RELEASES[release], 1_795_225_320 * 10**9)
    target.connect(NODE1, "uuid")
    target.count(1_795_225_357 * 10**9, NODE1, "4711", [
        ["write_bytes", 1 << 20, 23], ["write_bytes", 64 << 10, 7], ["write_bytes", 4 << 10, 5],
        ["read_bytes", 8 << 10, 41], ["write", 37, 35], ["read", 31, 41]])
    return target


@pytest.mark.parametrize("release", RELEASES)
def test_bulk_requests_are_read_as_they_were_counted(release):
    """Up to 64 KiB a request is small; each is one I/O of the disk; a write begins again."""
    target = target_with_requests(release)
    files = files_of_target(target)
    [path] = [path for path in files if path.endswith("brw_stats")]
    assert {"read_rpcs": 41, "write_rpcs": 35, "small_read_rpcs": 41, "small_write_rpcs": 12,
            "disk_reads": 41, "disk_writes": 35, "fragmented_disk_reads": 0,
            "fragmented_disk_writes": 0} == parse_brw_stats(files[path].render())
    files[path].clear(b"0\n")
    assert {0} == set(parse_brw_stats(files[path].render()).values())


def test_the_form_of_brw_stats_is_that_of_a_real_storage_server():
    """2.16.1: titles, blanks and columns of all of its histograms."""
    real = shared("captures", "2.16.1", "s15_expired_and_w", DEBUGFS,
                  "osd-ldiskfs/lustre-OST0000/brw_stats").read_text()
    files = files_of_target(target_with_requests("2.16"))
    ours = files[f"{DEBUGFS}/osd-ldiskfs/scratch-OST0000/brw_stats"].render()

    def histograms(text):
        """Without the last one of ldiskfs, of block maps."""
        header, *parts = text.partition("block maps")[0].split("\n\n")
        rows = [re.sub(r"^\d+[KM]?:", "N:", line) for part in parts
                for line in part.splitlines()]
        return re.sub(r"\d+", "N", header), list(dict.fromkeys(map(shape_of, rows)))
    assert histograms(real) == histograms(ours)


@pytest.mark.parametrize("kind, counts, expected", [
    ("OST", [["write_bytes", 4096, 23], ["write", 37, 23], ["punch", 5, 7]], {BULK: 23, OTHER: 7}),
    ("OST", [["read_bytes", 4096, 41], ["read", 37, 41]], {BULK: 41}),
    ("MDT", [["open", 31, 23], ["close", 29, 19]], {OF_MDT: 42}),
], ids=["write and punch", "read", "open and close"])
def test_each_request_is_of_one_service(kind, counts, expected):
    assert expected == requests_by_service(kind, counts)


@pytest.mark.parametrize("release", RELEASES)
def test_the_requests_of_a_service_and_how_long_they_waited(release):
    """23 requests of 23 us, then 7 of 41 ms."""
    service = ServiceMetrics(RELEASES[release])
    service.count(23)
    service.wait_us = 41_000
    service.count(7)
    files = files_of_services({BULK: service}, {"OST"}, RELEASES[release])
    [stats] = [file for path, file in files.items() if path.endswith("stats")]
    assert {"requests": 30, "wait_us": 529 + 287_000, "queued": 0, "lock_requests": 0} == (
        parse_service_stats(stats.render()))
    assert {} == files_of_services({BULK: service}, {"MDT"}, RELEASES[release])


@pytest.mark.parametrize("release", RELEASES)
def test_quotas_and_copytools_are_read(release):
    files = files_of_quotas({("user", 4711): (41 << 20, 37 << 20), ("group", 53): (29, 23)},
                            "scratch", RELEASES[release])
    text = files[f"{PROC}/qmt/scratch-QMT0000/dt-0x0/glb-usr"].render()
    [quota] = parse_quotas(text, "scratch", "dt-0x0", "glb-usr")
    assert (4711, 37 << 30, 41 << 30, 0) == (quota.id, quota.granted, quota.hard, quota.soft)
    mdt = target_with_requests(release, "scratch-MDT0000")
    [agents] = [file for path, file in files_of_target(mdt).items() if path.endswith("agents")]
    assert "" == agents.render()
    mdt.metrics.hsm_done, mdt.metrics.hsm_failed = 23, 7
    assert {"hsm_agents": 1, "hsm_done": 23, "hsm_failed": 7} == parse_hsm_agents(agents.render())


@each_release
def test_an_agent_reads_what_clients_did(site):  # noqa: F811
    """23 MiB and 37 KiB in requests of 4 MiB: 6; seven directories, and a quota that is used up."""
    do(site.node1, WORK.format(name=file_on(site.node1, 0)))
    ctl(site, "mds1", "quota", "scratch", "user", "4711", "41", "41")
    ctl(site, "mds1", "hsm", "scratch-MDT0000", "23", "7")
    ctl(site, "mds1", "wait", "mdt", "41000")
    ost = read_metrics(str(site.directory / "oss1/root"), ["scratch-OST0000", "scratch-OST0001"])
    mdt = read_metrics(str(site.directory / "mds1/root"), ["scratch-MDT0000"])
    assert [] == ost.why + mdt.why
    written, of_mdt = ost.targets["scratch-OST0000"], mdt.targets["scratch-MDT0000"]
    assert 4 << 20 == written["granted_bytes"] - (2 << 20)      # two nodes, and the MDT
    assert (6, 0) == (written["write_rpcs"], written["small_write_rpcs"])
    assert {"ost", "ost_io"} == set(ost.services)
    assert {"mdt"} == set(mdt.services)
    assert ost.services["ost_io"]["requests"] == written["write_rpcs"] + written["read_rpcs"]
    assert (64, 512) == (mdt.services["mdt"]["threads"], mdt.services["mdt"]["threads_max"])
    assert (1, 23, 7) == tuple(of_mdt[name] for name in ("hsm_agents", "hsm_done", "hsm_failed"))
    assert ("hsm_archives" in of_mdt) is (site.release != "2.10")
    [quota] = read_quotas(str(site.directory / "mds1/root"), [])["scratch"]
    assert (4711, 41 << 10, 41 << 10) == (quota.id, quota.hard, quota.granted)
    assert {} == read_quotas(str(site.directory / "oss1/root"), [])
    assert {"ost": "fifo", "ost_io": "fifo"} == ost.policies and {"mdt": "fifo"} == mdt.policies
    ctl(site, "mds1", "precreate", "scratch-OST0001", "28")
    pools = read_pools(str(site.directory / "mds1/root"), [])
    full = pools.pop("scratch-OST0001-osc-MDT0000")
    assert ((28, 0, True), {0}, True) == (
        full, {pool.status for pool in pools.values()},
        all(0 < pool.objects <= 32 for pool in pools.values()))
    assert {} == read_pools(str(site.directory / "oss1/root"), [])
