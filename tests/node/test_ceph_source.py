"""
The source of CephFS: sizes of requests to OSDs in debugfs, in both places.
"""
import shutil

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_job_totals import llite
from trees import report

from iostats.base.config import Config
from iostats.base.errors import StatsSyntaxError
from iostats.node.sources import ceph
from iostats.report import job_tables
from iostats.totals import delta
from iostats.totals.job_totals import Totals
from iostats.totals.snapshot import Snapshot

FSID = "28f7427e-5558-4ffd-ae1a-51ec3042759a"
RULE = "-" * 88 + "\n"
TIMES = ("item          total       avg_lat(us)     min_lat(us)     max_lat(us)     stdev(us)\n"
         + "-" * 83 + "\n")
HEAD = "item          total       avg_sz(bytes)   min_sz(bytes)   max_sz(bytes)  total_sz(bytes)\n"
# What was before the sizes in one file, and behind them: ceph-devel, 26 October 2021.
BEFORE = """\
item                               total
------------------------------------------
opened files  / total inodes       0 / 4

item          total       avg_lat(us)     min_lat(us)     max_lat(us)     stdev(us)
-----------------------------------------------------------------------------------
read          0           0               0               0               0
write         5           914013          824797          1092343         103476
metadata      79          12856           1572            114572          13262

"""
BEHIND = """
item          total           miss            hit
-------------------------------------------------
d_lease       11              0               29
caps          5               68              10702
"""
SAMPLE = f"""\
{HEAD}{RULE}read          0           0               0               0               0
write         5           4194304         4194304         4194304         20971520
"""


def line(name, requests, size):
    mean = size // requests if requests else 0
    return f"{name:<14}{requests:<12}{mean:<16}{0:<16}{size:<16}{size}\n"


def table(reads=0, read=0, writes=0, written=0):
    return f"{HEAD}{RULE}{line('read', reads, read)}{line('write', writes, written)}" + line(
        "copyfrom", 0, 0)


def node(root, mounts, seconds=0, boot="boot"):
    """The Snapshot of a node with these mounts: {client: (requests and bytes)}."""
    shutil.rmtree(root / "sys/kernel/debug/ceph", ignore_errors=True)
    for client, numbers in mounts.items():
        directory = root / f"sys/kernel/debug/ceph/{FSID}.client{client}/metrics"
        directory.mkdir(parents=True)
        (directory / "size").write_text(table(*numbers))
    ns = seconds * 10**9
    return Snapshot("4711", "node001", "seq", boot, 10**18 + ns, ns,
                    tuple(ceph.read(str(root), Config())))


def gained(before, after):
    return delta.compute_deltas(before, after, {"ceph": ceph})


def test_a_mounts_requests_and_bytes(tmp_path):
    """3 requests for 23 bytes, and 5 for 37; a block device of Ceph has no sizes."""
    before = node(tmp_path, {4305: (7, 100, 11, 200)})
    after = node(tmp_path, {4305: (10, 123, 16, 237)})
    (tmp_path / f"sys/kernel/debug/ceph/{FSID}.client4306").mkdir()
    [found] = gained(before, after)
    assert {"network_reads": 3, "network_read_bytes": 23, "network_writes": 5,
            "network_write_bytes": 37} == found.values
    assert ("cephfs:28f7427e", "client4305", False) == (
        found.file_system, found.instance, found.lower_bound)


@pytest.mark.parametrize("text", [f"{SAMPLE}\n{BEFORE}", f"{BEFORE}{SAMPLE}{BEHIND}"],
                         ids=["5.16", "5.14"])
def test_what_a_real_client_printed(text):
    """5 requests of 4 MiB, and 79 to the MDS; the table of times has the same names."""
    assert {"network_reads": 0, "network_read_bytes": 0, "network_writes": 5,
            "network_write_bytes": 5 << 22, "metadata_requests": 79} == {
        name: counter.samples for name, counter in ceph.parse(text).counters.items()}


def test_requests_to_metadata_servers_have_a_file_of_their_own(tmp_path):
    """Since 5.16: 79 at the end, 38 at the start; the sizes are there without it, too."""
    def latency(number):
        path = tmp_path / f"sys/kernel/debug/ceph/{FSID}.client7/metrics/latency"
        path.write_text(f"{TIMES}{line('read', 3, 5)}{line('metadata', number, 23)}")
        return Snapshot("4711", "node001", "seq", "boot", 10**18, 10**9,
                        tuple(ceph.read(str(tmp_path), Config())))
    without = node(tmp_path, {7: (0, 0, 0, 0)})
    assert ["network_read_bytes", "network_reads", "network_write_bytes", "network_writes"] == (
        sorted(ceph.parse(without.files[0].text).counters))
    [found] = gained(latency(38), latency(79))
    assert {"metadata_requests": 41} == found.values


def test_the_file_of_linux_5_14_is_read(tmp_path):
    directory = tmp_path / f"sys/kernel/debug/ceph/{FSID}.client7"
    directory.mkdir(parents=True)
    (directory / "metrics").write_text(f"{BEFORE}{SAMPLE}{BEHIND}")
    assert ["cephfs:28f7427e-client7"] == [file.name for file in ceph.read(tmp_path, Config())]
    (directory / "metrics").write_text(BEFORE)          # up to 5.13
    assert [] == ceph.read(tmp_path, Config())


@pytest.mark.parametrize("text", [
    HEAD, "\n", table().replace("read          0", "read          -1"),
    table(written=2**63), table().replace(line("read", 0, 0), "read 0 0\n"),
    f"{table()}\n{TIMES}metadata 7 -\n", f"{TIMES}{line('metadata', 1, 2)}"],
    ids=["no lines", "no table", "negative", "beyond 63 bits", "cut", "cut times", "no sizes"])
def test_what_is_not_of_its_form_is_refused(text):
    with pytest.raises(StatsSyntaxError, match=r"numbers below|a table with"):
        ceph.parse(text)


def test_a_report_has_it_among_the_other_counters(tmp_path):
    totals = Totals("4711", 1)
    totals.add(report(deltas=[llite(read_bytes=41, open=1), *gained(
        node(tmp_path, {1: (0, 0, 0, 0)}), node(tmp_path, {1: (0, 0, 3, 23 << 10)}))]))
    record = job_tables.add_labels(totals.record(), Config())
    text = job_tables.format_report(record, Config(), "grid")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert ["cephfs:28f7427e", "CephFS requests", "network: bytes written", "23.0 KiB"] in rows


_WORK = st.lists(st.tuples(st.sampled_from(("read", "write", "mount", "unmount", "restart")),
                           st.integers(0, 2), st.integers(1, 50)), max_size=8)


@given(_WORK, _WORK)
@settings(max_examples=examples(40))
def test_no_number_is_wrong_without_its_mark(tmp_path_factory, before, during):
    """Random histories; a mount that came and went in the job leaves no trace."""
    root, mounts, number = tmp_path_factory.getbasetemp() / "ceph", {}, 0
    done, boot = [], 0          # (client, place of its bytes, size)

    def go(work):
        nonlocal boot, number
        for what, which, size in work:
            client = sorted(mounts)[which % len(mounts)] if mounts else None
            if what == "restart":
                mounts.clear()
                boot += 1
            elif what == "mount":
                number += 1     # by the monitors, for the whole cluster
                mounts[number] = [0, 0, 0, 0]
            elif client is not None and what == "unmount":
                del mounts[client]
            elif client is not None:
                place = 0 if what == "read" else 2
                mounts[client][place] += 1
                mounts[client][place + 1] += size
                done.append((client, place + 1, size))
    go(before)
    start, there = node(root, mounts, 0, f"boot {boot}"), set(mounts)
    done.clear()
    go(during)
    found = gained(start, node(root, mounts, 60, f"boot {boot}"))
    for place, metric in ((1, "network_read_bytes"), (3, "network_write_bytes")):
        truth = sum(size for client, of, size in done
                    if of == place and client in there | set(mounts))
        counted = sum((one.values or {}).get(metric, 0) for one in found)
        assert counted <= truth
        assert counted == truth or any(one.lower_bound for one in found), found
