"""
Whole jobs on the simulated mount, by release: what a program did, what the report says of it.

Small writes, libaio, reads that are partly cached, locks, an eviction: each number is exact, or
marked and the truth within its bounds.
"""

import fcntl
import json
import os

import pytest
from processes import Desk
from test_simlustre import DEBUGFS, INSTANCE, PROC, RELEASES, SYSFS, mount  # noqa: F401

pytestmark = pytest.mark.fuse
UNCOUNTED = ["2.15", "2.16", "2.17"]            # releases that do not count all


class Job:
    """A job on one node, whose work is the body of a `with`."""

    def __init__(self, desk, node):
        self._desk, self._node = desk, node

    def __enter__(self):
        self._server = self._desk.server("--nodes", "1", "--json", self._desk.directory / "json")
        self._on = self._desk.on("nid00001", self._node / "root")
        assert 0 == self._desk.client("start", *self._on).status
        return self

    def __exit__(self, *error):
        server = f"127.0.0.1:{self._server.port}"
        stopped = self._desk.client("stop", "--server", server, *self._on)
        assert 0 == stopped.status, stopped
        done = self._server.wait()
        self.record = json.loads((self._desk.directory / "json").read_text())
        [self.fs] = self.record["file_systems"]
        self.text = done.out


DESK = Desk


def numbers(fs):
    found = fs["application"]
    return tuple(found[name] for name in ("write_calls", "write_bytes", "read_calls", "read_bytes"))


@pytest.mark.parametrize("release", RELEASES)
def test_small_writes(desk, mount, release):  # noqa: F811
    """
    1,003 writes of 100 B are 100,300 B.  Counted are, where not all are, the first into each of 25
    pages: 2,500 B, and 978 x 4095 B at most are missing.
    """
    node = mount("node1", "--release", release)
    with Job(desk, node) as job:
        with open(node / "scratch" / "log", "wb", buffering=0) as log:
            for _ in range(1003):
                log.write(b"x" * 100)
    if release in UNCOUNTED:
        assert (1003, 2500, 0, 0) == numbers(job.fs)
        assert (["write_bytes"], [], 2500 + 978 * 4095) == (
            job.fs["too_low"], job.fs["too_high"], job.fs["write_bytes_max"])
        assert ">= 2.4 KiB" in job.text and "at most 3.8 MiB were written" in job.fs["notes"][0]
    else:
        assert (1003, 100_300, 0, 0) == numbers(job.fs)
        assert ([], 100_300, []) == (job.fs["too_low"], job.fs["write_bytes_max"],
                                     job.fs["notes"])


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("how", ["append", "tiny_write=0"])
def test_small_writes_that_are_counted(desk, mount, release, how):  # noqa: F811
    """With O_APPEND, or where the administrator has switched tiny writes off."""
    node = mount("node1", "--release", release)
    if how == "tiny_write=0" and release != "2.10":
        (node / "root" / SYSFS / f"llite/scratch-{INSTANCE}/tiny_write").write_text("0\n")
    with Job(desk, node) as job:
        with open(node / "scratch" / "log", "ab" if how == "append" else "wb", buffering=0) as log:
            for _ in range(1003):
                log.write(b"x" * 100)
    if how == "append" or release != "2.10":
        assert (1003, 100_300, 0, 0) == numbers(job.fs)
        assert ([], []) == (job.fs["too_low"], job.fs["notes"])


@pytest.mark.parametrize("release", RELEASES)
def test_reads_that_are_partly_cached(desk, mount, release):  # noqa: F811
    """
    84 calls of 100,000 B (the last of 88,608): each but the first begins in a page that is there.
    Up to 2.13 nothing tells the calls from the samples: 84 + 83 less the 3 that begin on a page.
    """
    node = mount("node1", "--release", release)
    (node / "scratch" / "data").write_bytes(b"x" * 8_388_608)
    with Job(desk, node) as job:
        with open(node / "scratch" / "data", "rb", buffering=0) as data:
            while data.read(100_000):
                pass
    aligned = sum(1 for n in range(84) if n * 100_000 % 4096 == 0)
    calls = 84 if release in UNCOUNTED else 2 * 84 - aligned
    assert (0, 0, calls, 8_388_608) == numbers(job.fs)
    assert ([], []) == (job.fs["too_low"], job.fs["notes"])


@pytest.mark.parametrize("release", RELEASES)
def test_libaio_with_o_direct(desk, mount, release):  # noqa: F811
    """9 x 64 KiB each way: the network has them; a program's own numbers say what they are."""
    node = mount("node1", "--release", release)
    with Job(desk, node) as job:
        handle = os.open(node / "scratch" / "base.libaio", os.O_RDWR | os.O_CREAT)
        for at in range(9):
            os.pwrite(handle, b"x" * 65536, at * 65536)
        os.fsync(handle)
        for at in range(9):
            os.pread(handle, 65536, at * 65536)
        os.close(handle)
    network = job.fs["network"]
    assert (589_824, 589_824) == (network["read_bytes"], network["write_bytes"])
    if release in UNCOUNTED:
        assert (0, 0, 0, 0) == numbers(job.fs)
        assert (["read_bytes", "write_bytes", "read_calls", "write_calls"], None) == (
            job.fs["too_low"], job.fs["write_bytes_max"])
        assert 2 == " ".join(job.fs["notes"]).count("counts no asynchronous direct I/O")
    else:
        assert (9, 589_824, 9, 589_824) == numbers(job.fs)
        assert [] == job.fs["too_low"]


@pytest.mark.parametrize("release", RELEASES)
def test_locks(desk, mount, release):  # noqa: F811
    """11 locks and 11 unlocks; 2.17 counts 44."""
    node = mount("node1", "--release", release)
    with Job(desk, node) as job:
        with open(node / "scratch" / "lock", "wb") as lock:
            for _ in range(11):
                fcntl.flock(lock, fcntl.LOCK_EX)
                fcntl.flock(lock, fcntl.LOCK_UN)
    assert 22 == job.fs["operations"]["flock"]["count"]


@pytest.mark.parametrize("release", RELEASES)
def test_an_eviction(desk, mount, release):  # noqa: F811
    """300,000 B were written, 100,000 of them not sent when the OSTs have thrown the node out."""
    node = mount("node1", "--release", release, "--osts", "1")
    place = DEBUGFS if release == "2.17" else PROC
    state = node / "root" / place / f"osc/scratch-OST0000-osc-{INSTANCE}" / "state"
    with Job(desk, node) as job:
        with open(node / "scratch" / "data", "wb", buffering=0) as data:
            data.write(b"x" * 100_000)
            data.write(b"x" * 100_000)
            os.fsync(data)
            data.write(b"x" * 100_000)
            state.write_text("1\n")
    assert (3, 300_000, 0, 0) == numbers(job.fs)
    assert 200_000 == job.fs["network"]["write_bytes"]
    assert ([], ["write_bytes"], 300_000) == (job.fs["too_low"], job.fs["too_high"],
                                              job.fs["write_bytes_max"])
    assert "<= 293.0 KiB" in job.text and "1 eviction by targets" in job.text


@pytest.mark.parametrize("release", RELEASES)
def test_what_was_written_before_the_start(desk, mount, release):  # noqa: F811
    """100,000 B of another job are sent in the time of this one, which has written 50,000 B."""
    node = mount("node1", "--release", release)
    with open(node / "scratch" / "others", "wb", buffering=0) as others:
        others.write(b"x" * 100_000)
        with Job(desk, node) as job:
            with open(node / "scratch" / "mine", "wb", buffering=0) as mine:
                mine.write(b"x" * 50_000)
                os.fsync(others)
    assert (1, 50_000, 0, 0) == numbers(job.fs)
    assert ([], 0) == (job.fs["too_low"], job.fs["dirty_bytes"])
    assert 150_000 == job.fs["network"]["write_bytes"]
