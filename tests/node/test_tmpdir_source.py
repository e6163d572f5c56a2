"""
The source of the device below $TMPDIR: which one it is, by the table of mounts, and its numbers.
"""
import pytest
from test_job_totals import llite
from trees import report

from iostats.base.config import Config
from iostats.base.errors import StatsSyntaxError
from iostats.node.sources import tmpdir
from iostats.report import job_tables
from iostats.report.diff.numbers import read_numbers
from iostats.totals import delta
from iostats.totals.job_totals import Totals
from iostats.totals.snapshot import Snapshot

MOUNTS = """\
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
23 22 0:21 / /run rw - tmpfs tmpfs rw
24 22 253:0 / /local rw shared:2 - xfs /dev/mapper/local rw,attr2
25 22 0:41 / /home rw - nfs4 nfs1:/home rw,vers=4.2
26 24 253:0 /jobs/4711 /local/my\\040job rw - xfs /dev/mapper/local rw
27 22 7:0 / /image rw - ext4 /dev/loop0 rw
28 22 253:0 / /logged rw - xfs /dev/mapper/local rw,logdev=/dev/sda3
29 22 0:33 / /btrfs rw - btrfs /dev/sda4 rw
"""
DISKS = """\
   8       0 sda 7 0 70 3 9 0 90 5 0 0 0
   8       2 sda2 11 0 {read} 13 17 0 {written} 19 0 0 0
 253       0 dm-0 23 0 {read} 29 31 0 {written} 37 0 0 0
   7       0 loop0 1 0 1 1 1 0 1 1 0 0 0
"""


@pytest.fixture
def root(tmp_path):
    """A node with a disk, LVM on it, and a loop device."""
    devices = tmp_path / "sys/devices"
    blocks = tmp_path / "sys/dev/block"
    blocks.mkdir(parents=True)
    for number, place, below in (("8:2", "pci0000:00/ata1/block/sda/sda2", ""),
                                 ("253:0", "virtual/block/dm-0", "sda2"),
                                 ("7:0", "virtual/block/loop0", "")):
        (devices / place / "slaves").mkdir(parents=True)
        (blocks / number).symlink_to(devices / place)
        if below:
            (devices / place / "slaves" / below).symlink_to(
                devices / "pci0000:00/ata1/block/sda/sda2")
    write(tmp_path)
    return tmp_path


def write(root, read=0, written=0, mounts=MOUNTS):
    """What the kernel prints, in sectors of 512 bytes."""
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/mountinfo").write_text(mounts)
    (root / "proc/diskstats").write_text(DISKS.format(read=read, written=written))


def names(root):
    return [file.name for file in tmpdir.read(str(root), Config())]


@pytest.mark.parametrize("path, device", [
    ("/tmp/x", ["sda2"]), ("/", ["sda2"]), ("/localized", ["sda2"]), ("/local", ["dm-0"]),
    ("/local/x/../y/", ["dm-0"]), ("/local/my job/x", ["dm-0"]), ("/run/x", []), ("/home/x", []),
    ("/image/x", []), ("/logged/x", []), ("/btrfs", []), ("x", []), ("", []),
], ids=["root", "root itself", "another name", "LVM", "dots", "a bind mount", "memory", "NFS",
        "an image", "a log elsewhere", "Btrfs", "relative", "unset"])
def test_the_device_is_that_of_the_longest_mount_point(root, monkeypatch, path, device):
    monkeypatch.setenv("TMPDIR", path)
    assert device == names(root)


def test_links_are_followed_where_that_cannot_hang(root, monkeypatch):
    """From / to /local, also relative; what is below NFS or memory is not looked at."""
    monkeypatch.setenv("TMPDIR", "/tmp/x/y")
    (root / "tmp").symlink_to("/local/tmp")
    assert ["dm-0"] == names(root)
    (root / "tmp").unlink()
    (root / "tmp").symlink_to("local")
    assert ["dm-0"] == names(root)
    (root / "tmp").unlink()
    (root / "tmp").symlink_to("tmp")
    assert [] == names(root)
    monkeypatch.setenv("TMPDIR", "/run/link")
    (root / "run").mkdir()
    (root / "run/link").symlink_to("/local")
    assert [] == names(root)


def test_no_mount_is_asked(root, monkeypatch):
    """A dead NFS server blocks whoever asks for its mount."""
    asked = []
    for name in ("stat", "lstat", "statvfs", "readlink"):
        monkeypatch.setattr(tmpdir.os, name, lambda path, *more, **options: asked.append(path))
    monkeypatch.setenv("TMPDIR", "/home/alice/tmp")
    assert [] == names(root)
    assert not any("home" in str(path) for path in asked)


def snapshot(root):
    return Snapshot("4711", "node001", "seq", "boot", 10**18, 10**9,
                    tuple(tmpdir.read(str(root), Config())))


def gained(root, read, written):
    before = snapshot(root)
    write(root, read, written)
    return delta.compute_deltas(before, snapshot(root), {"tmpdir": tmpdir})


def test_its_gain_is_in_sectors(root, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/local")
    [found] = gained(root, 23, 37)
    assert ({"read_bytes": 23 * 512, "write_bytes": 37 * 512}, "local disks", False) == (
        found.values, found.file_system, found.lower_bound)


def test_another_device_at_the_end_is_unknown(root, monkeypatch):
    """Nothing of the two is taken for one."""
    monkeypatch.setenv("TMPDIR", "/local")
    before = snapshot(root)
    monkeypatch.setenv("TMPDIR", "/tmp")
    write(root, 23, 37)
    found = delta.compute_deltas(before, snapshot(root), {"tmpdir": tmpdir})
    assert all(one.lower_bound and not one.values for one in found) and found


@pytest.mark.parametrize("text", ["8 0 sda 1 2 3\n", "8 0 sda 1 2 3 4 5 6 7 x\n", "\n"])
def test_a_line_that_is_not_of_its_form_is_refused(text):
    with pytest.raises(StatsSyntaxError, match="numbers below"):
        tmpdir.parse(text)


def record_of(*deltas):
    totals = Totals("4711", 1)
    totals.add(report(deltas=[llite(read_bytes=41, read_calls=1), *deltas]))
    return job_tables.add_labels(totals.record(), Config())


@pytest.mark.parametrize("sectors, shown", [(100 << 11, True), ((100 << 11) - 1, False)],
                         ids=["100 MiB", "less"])
def test_a_report_has_it_from_100_mib_on_where_no_cgroup_has_the_jobs_own(root, monkeypatch,
                                                                          sectors, shown):
    """As an upper bound, as other jobs and daemons may write there; the page has it always."""
    monkeypatch.setenv("TMPDIR", "/local")
    [found] = gained(root, 0, sectors)
    text = " ".join(job_tables.format_report(record_of(found), Config()).split())
    assert shown == ("| disk of $TMPDIR | bytes written | <= 100.0 MiB |" in text), text
    own = llite("local disks", sda_write_bytes=43 << 10)._replace(source="cgroup_io")
    assert "$TMPDIR" not in job_tables.format_report(record_of(found, own), Config())
    assert "$TMPDIR" in job_tables.format_report(record_of(found, own), Config(), long=True)


def test_a_comparison_has_it_where_no_cgroup_has_the_jobs_own(root, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/local")
    [found] = gained(root, 0, 37)
    numbers = read_numbers(record_of(found), "4711").numbers
    assert (0, 37 * 512) == numbers["local disks", "bytes written (disk of $TMPDIR)"][:2]
