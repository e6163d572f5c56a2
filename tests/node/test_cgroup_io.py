"""
The source of the job's own cgroup: io.stat in each form, and which cgroup is the job's.
"""
import pytest
from trees import report

from iostats.base.config import Config
from iostats.base.errors import StatsSyntaxError
from iostats.node.sources import cgroup_io
from iostats.report import job_tables
from iostats.report.job_summary import make_summary
from iostats.totals import delta
from iostats.totals.job_totals import Totals
from iostats.totals.snapshot import Snapshot

SOURCES = {"cgroup_io": cgroup_io}
SLURM = "system.slice/slurmstepd.scope/job_4711"
STEP = f"{SLURM}/step_0/user/task_0"


def node(root, path, text, top="sys/fs/cgroup"):
    """The Snapshot of a process in the cgroup `path`, with io.stat of the job's."""
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/cgroup").write_text(f"4:memory:/somewhere\n0::/{path}\n")
    (root / top / SLURM).mkdir(parents=True, exist_ok=True)
    (root / top / SLURM / "io.stat").write_text(text)
    blocks = root / "sys/dev/block"
    blocks.mkdir(parents=True, exist_ok=True)
    if not (blocks / "259:0").is_symlink():
        (blocks / "259:0").symlink_to("../../devices/pci0000:00/nvme/nvme0/nvme0n1")
    return Snapshot("4711", "node001", "seq", "boot", 10**18, 10**9,
                    tuple(cgroup_io.read(str(root), Config())))


def gained(before, after):
    return delta.compute_deltas(before, after, SOURCES)


@pytest.mark.parametrize("top", ["sys/fs/cgroup", "sys/fs/cgroup/unified"], ids=["v2", "hybrid"])
def test_the_jobs_io_is_that_of_its_own_cgroup(tmp_path, top):
    """23 and 37 bytes, 3 and 5 requests, of a disk by its name; a step's are among them."""
    before = node(tmp_path, STEP, "259:0 rbytes=100 wbytes=200 rios=7 wios=11 dbytes=0 dios=0\n",
                  top)
    (tmp_path / top / STEP).mkdir(parents=True)
    (tmp_path / top / STEP / "io.stat").write_text("259:0 rbytes=1 wbytes=1 rios=1 wios=1\n")
    after = node(tmp_path, STEP, "259:0 rbytes=123 wbytes=237 rios=10 wios=16 dbytes=0 dios=0\n",
                 top)
    [found] = gained(before, after)
    assert {"nvme0n1_read_bytes": 23, "nvme0n1_write_bytes": 37, "nvme0n1_reads": 3,
            "nvme0n1_writes": 5} == found.values
    assert ("local disks", False) == (found.file_system, found.lower_bound)


@pytest.mark.parametrize("text", [
    "7:1 7:0 259:0 rbytes=23 wbytes=37 rios=3 wios=5 dbytes=0 dios=0\n",
    "259:0 rbytes=23 wbytes=37 rios=3 wios=5 use_delay=0 delay_nsec=0 cost.usage=41\n8:0 \n",
    "259:0 rbytes=23 wbytes=37 rios=3 wios=5\n",
], ids=["idle disks without ends of line", "a policy's own words", "before discards"])
def test_each_form_of_the_file_is_read(tmp_path, text):
    """A disk that was not used before has no line, which is 0."""
    [found] = gained(node(tmp_path, STEP, ""), node(tmp_path, STEP, text))
    assert {"nvme0n1_read_bytes": 23, "nvme0n1_write_bytes": 37, "nvme0n1_reads": 3,
            "nvme0n1_writes": 5} == found.values


def test_a_disk_that_was_removed_changes_no_other_number(tmp_path):
    """8:16 did 41 bytes and is no longer there; 259:0 did 23, not the 123 since it was added."""
    before = node(tmp_path, STEP, "8:16 rbytes=41 wbytes=0 rios=1 wios=0\n"
                                  "259:0 rbytes=100 wbytes=0 rios=7 wios=0\n")
    after = node(tmp_path, STEP, "259:0 rbytes=123 wbytes=0 rios=10 wios=0\n")
    [found] = gained(before, after)
    assert ({"nvme0n1_read_bytes": 23, "nvme0n1_reads": 3}, True) == (
        found.values, found.lower_bound)


def test_a_cgroup_that_was_created_again_is_a_lower_bound(tmp_path):
    """Between two steps the job had no process on the node; 23 bytes are those since."""
    before = node(tmp_path, STEP, "259:0 rbytes=11 wbytes=0 rios=7 wios=0\n")
    (tmp_path / "sys/fs/cgroup" / SLURM).rename(tmp_path / "former")
    [found] = gained(before, node(tmp_path, STEP, "259:0 rbytes=23 wbytes=0 rios=9 wios=0\n"))
    assert ({"nvme0n1_read_bytes": 23, "nvme0n1_reads": 9}, True,
            "the counters restarted after the start") == (
        found.values, found.lower_bound, found.why)


def test_a_boot_has_no_time_that_is_none(tmp_path):
    """The number of a cgroup is not the moment when it began."""
    before = node(tmp_path, STEP, "")
    after = node(tmp_path, STEP, "259:0 rbytes=23 wbytes=0 rios=9 wios=0\n")
    [found] = gained(before, after._replace(boot_id="other"))
    assert "the node was booted again after the start" == found.why


def test_what_is_on_no_disk_is_left_out(tmp_path):
    """Images in loop devices, zram, LUKS on an image, Ceph, and the second path of a disk."""
    blocks, top = tmp_path / "sys/dev/block", tmp_path / "sys/devices/virtual/block"
    blocks.mkdir(parents=True)
    for number, name, below in (("7:0", "loop0", ()), ("252:0", "zram0", ()),
                                ("253:0", "dm-0", ["virtual/block/loop0"]),
                                ("253:1", "dm-1", ["pci0000:00/ata1/block/sda/sda2"])):
        (top / name / "slaves").mkdir(parents=True)
        (blocks / number).symlink_to(f"../../devices/virtual/block/{name}")
        for path in below:
            (tmp_path / "sys/devices" / path).mkdir(parents=True, exist_ok=True)
            (top / name / "slaves" / path.rpartition("/")[2]).symlink_to(
                tmp_path / "sys/devices" / path)
    (blocks / "251:0").symlink_to("../../devices/rbd/0/block/rbd0")
    words = "rbytes=23 wbytes=0 rios=0 wios=0\n"
    [found] = gained(node(tmp_path, STEP, ""), node(tmp_path, STEP, "".join(
        f"{number} {words}" for number in ("7:0", "252:0", "253:0", "253:1", "251:0",
                                           "(unknown)", "259:0", "(unknown)"))))
    assert {"dm-1_read_bytes": 23, "nvme0n1_read_bytes": 23} == found.values


VOLUMES = {"dm-0": ("LVM-x", ["sda"]), "dm-1": ("LVM-y", ["dm-0"]), "dm-2": ("CRYPT-z", ["sda"]),
           "dm-3": ("LVM-v", ["sda", "nvme0n1"])}


@pytest.mark.parametrize("written, left, read_from", [
    ({"dm-0": 37, "sda": 37, "nvme0n1": 41}, {"sda": 37, "nvme0n1": 41}, {}),
    ({"dm-0": 37, "sda": 60}, {"sda": 60}, {}),
    ({"dm-3": 37, "sda": 23, "nvme0n1": 14}, {"sda": 23, "nvme0n1": 14}, {}),
    ({"dm-1": 37, "dm-0": 37, "sda": 37}, {"sda": 37}, {}),
    ({"dm-1": 37, "dm-0": 23, "sda": 23}, {"dm-1": 37, "sda": 23}, {}),
    ({"dm-2": 37, "sda": 37, "nvme0n1": 37}, {"dm-2": 37, "sda": 37, "nvme0n1": 37},
     {"dm-2": 43, "sda": 43}),
], ids=["LVM beside a plain disk", "a plain partition of its disk", "striped over two disks",
        "a thin volume", "a cache in between", "LUKS"])
def test_a_volume_of_which_the_disks_have_all_is_left_out(tmp_path, written, left, read_from):
    """
    Of LUKS they have no write, and all that was read; of volumes on volumes they have all where the
    bytes are equal.
    """
    devices = tmp_path / "sys/devices"
    places = {"sda": "pci0000:00/ata1/block/sda", "nvme0n1": "pci0000:00/nvme/block/nvme0n1",
              **{name: f"virtual/block/{name}" for name in VOLUMES}}
    (devices / places["sda"] / "sda2").mkdir(parents=True)
    (devices / places["sda"] / "sda2/partition").write_text("2\n")
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    numbers = {}
    for minor, (name, place) in enumerate(places.items()):
        (devices / place / "slaves").mkdir(parents=True, exist_ok=True)
        numbers[name] = f"253:{minor}"
        (tmp_path / "sys/dev/block" / numbers[name]).symlink_to(devices / place)
    for name, (uuid, below) in VOLUMES.items():
        (devices / places[name] / "dm").mkdir()
        (devices / places[name] / "dm/uuid").write_text(f"{uuid}\n")
        for disk in below:
            real = f"{places[disk]}/sda2" if disk == "sda" else places[disk]
            (devices / places[name] / "slaves" / real.rpartition("/")[2]).symlink_to(devices / real)
    [found] = gained(node(tmp_path, STEP, ""), node(tmp_path, STEP, "".join(
        f"{numbers[name]} rbytes={read_from.get(name, 0)} wbytes={size} rios=0 wios=5\n"
        for name, size in written.items())))
    assert {f"{name}_write_bytes": size for name, size in left.items()} == {
        metric: gain for metric, gain in found.values.items() if metric.endswith("write_bytes")}
    assert {f"{name}_read_bytes" for name in read_from if not name.startswith("dm")} == {
        metric for metric in found.values if metric.endswith("read_bytes")}
    assert {f"{name}_writes" for name in left} == {
        metric for metric in found.values if metric.endswith("_writes")}


@pytest.mark.parametrize("path", [
    "system.slice/slurmd.service", "user.slice/user-1000.slice/session-3.scope", ""],
    ids=["a prolog", "a login", "the root"])
def test_a_process_in_no_job_has_no_numbers(tmp_path, path):
    """A prolog is in slurmd's cgroup: what that did is not the job's."""
    snapshot = node(tmp_path, path, "259:0 rbytes=23 wbytes=37 rios=3 wios=5\n")
    assert [] == gained(snapshot, snapshot)


@pytest.mark.parametrize("text", ["d rbytes=-1\n", "d rbytes=\n", f"d wios={2**63}\n"])
def test_a_number_that_is_none_is_refused(text):
    """And with it all numbers of the file."""
    with pytest.raises(StatsSyntaxError, match="and a number below"):
        cgroup_io.parse(text)


def test_a_report_has_it_among_the_other_counters(tmp_path):
    """With the disk's name; Lustre's own numbers are as before."""
    totals = Totals("4711", 1)
    totals.add(report(deltas=gained(node(tmp_path, STEP, ""), node(
        tmp_path, STEP, "259:0 rbytes=0 wbytes=37888 rios=0 wios=5\n"))))
    record = totals.record()
    text = job_tables.format_report(job_tables.add_labels(record, Config()), Config())
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert ["local disks", "job's cgroup", "nvme0n1: bytes written", "37.0 KiB"] in rows, text
    assert make_summary(record).write_bytes is None
