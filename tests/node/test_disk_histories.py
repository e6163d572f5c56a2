"""
Random histories of a node's disks: the model of the kernel in tests/disk_kernel.py has the truth.
"""
from __future__ import annotations

from disk_kernel import DIRECTIONS, JOB, OTHER, Node
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from trees import report

from iostats.node.sources import cgroup_io, diskstats
from iostats.report.job_summary import make_summary, split_bits
from iostats.totals import delta
from iostats.totals.job_totals import Totals

SOURCES = {"cgroup_io": cgroup_io, "diskstats": diskstats}
DISKS = ("sda", "sdb", "nvme0n1")
# What is built, how it gives on requests, and of what; the image of a loop is on Lustre, or a disk.
BUILT = (("dm-0", "lvm", ["sda"]), ("dm-1", "luks", ["sdb"]), ("md0", "mirror", ["sda", "sdb"]),
         ("loop0", "loop", []), ("loop1", "loop", ["sdb"]), ("dm-2", "luks", ["loop0"]),
         ("dm-3", "lvm", ["dm-1"]), ("zram0", "memory", []))
WORK = st.lists(st.tuples(
    st.sampled_from(("job", "job", "job", "other", "add", "remove", "cgroup", "restart")),
    st.integers(0, len(DISKS) + len(BUILT) - 1), st.sampled_from(DIRECTIONS),
    st.integers(1, 50)), max_size=12)


def work(node, steps, rare):
    """Do the steps that are possible; `rare`: with devices and cgroups that are removed."""
    for what, which, direction, size in steps:
        names = [*DISKS, *(name for name, *_ in BUILT)]
        name = names[which]
        if what in ("job", "other"):
            if name in node.devices:
                node.move(name, direction, 512 * size, JOB if what == "job" else OTHER)
        elif what == "add":
            if name not in node.devices:
                through, below = next(((through, below) for built, through, below in BUILT
                                       if built == name), ("", []))
                if set(below) <= set(node.devices):
                    node.add_device(name, through or "paths" * (name == "nvme0n1"), below)
        elif rare and what == "remove":
            if name in node.devices and not any(name in (disk.name for disk in device.below)
                                                for device in node.devices.values()):
                node.remove_device(name)
        elif rare and what == "cgroup":
            node.add_cgroup(JOB)
        elif rare and what == "restart":
            node.restart()
    node.now += 60


def leaves_no_trace(node, before):
    """Whether a disk was replaced by one of its name, or was added and removed: both documented."""
    after = node.devices
    return any(name in after and after[name] is not device for name, device in before.items()
               ) or any(device.name not in after and device.name not in before
                        for device in node.removed)


@given(WORK, WORK, st.booleans())
@settings(max_examples=examples(15))
def test_no_number_of_local_disks_is_wrong_without_its_mark(tmp_path_factory, before, during, rare):
    """
    By disk, and in a list of jobs; the job's own is not too high, and the node's not too low.
    """
    node = Node(tmp_path_factory.getbasetemp() / "disks")
    for name in DISKS[:2]:
        node.add_device(name)
    work(node, before, rare=True)
    start, there = node.snapshot(), dict(node.devices)
    node.begin_job()
    work(node, during, rare)
    deltas = delta.compute_deltas(start, node.snapshot(), SOURCES)
    assume(not leaves_no_trace(node, there))
    for found in deltas:
        assert "1970" not in found.why
        if found.source == "cgroup_io":
            for (name, direction), charged in node.charged.items():
                if name in node.devices and not name.startswith(("loop", "zram", "dm-2")):
                    counted = (found.values or {}).get(f"{name}_{direction}_bytes", 0)
                    # What those below have as well is left out; the sums below are of disks.
                    is_left_out = not counted and (
                        node.devices[name].through == "lvm"
                        or (node.devices[name].through in ("luks", "mirror")
                            and direction == "read"))
                    assert counted <= charged
                    assert counted == charged or found.lower_bound or is_left_out, (name, found)
    totals = Totals("4711", 1)
    totals.add(report(deltas=deltas))
    summary = make_summary(totals.record())
    low, high = split_bits(summary.lower_bound)
    for direction in DIRECTIONS:
        field, truth = f"disk_{direction}_bytes", node.caused[direction]
        counted = getattr(summary, field)
        if counted is not None:
            assert field in low or counted >= truth, (counted, truth, deltas)
            assert field in high or counted <= truth, (counted, truth, deltas)
    of_nodes = make_summary(totals_of(deltas, "diskstats"))
    low, high = split_bits(of_nodes.lower_bound)
    for direction in DIRECTIONS:
        field = f"disk_{direction}_bytes"
        assert field in high or field not in low
        assert field in low or (getattr(of_nodes, field) or 0) >= node.caused[direction]


def totals_of(deltas, source):
    totals = Totals("4711", 1)
    totals.add(report(deltas=[found for found in deltas if found.source == source]))
    return totals.record()
