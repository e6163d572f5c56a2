"""
The sources: each layout of Lustre 2.5 to 2.17 is found, read, and means the same.
"""

import errno
import os

import pytest
from trees import DATA, record_between, snapshot

from iostats.base import config, private_files
from iostats.lustre import paths, stats
from iostats.node import sources
from iostats.node.sources import llite, md_stats, mdc, osc, rpc_stats
from iostats.totals import delta
from iostats.totals import snapshot as snapshots

TREES = sorted(DATA.glob("lustre-*"))
SOURCES = sources.list_sources()
AT_START = sources.read_at("start")


# -- every release means the same --------------------------------------------------------


def test_there_is_a_tree_of_each_release_that_changed_a_form():
    """A new release with a new form gets a directory here; see tests/data/README.md."""
    assert ["lustre-2.10", "lustre-2.12", "lustre-2.14", "lustre-2.14-vendor", "lustre-2.15.0",
            "lustre-2.15.4", "lustre-2.16", "lustre-2.17", "lustre-2.5",
            "lustre-2.7"] == [t.name for t in TREES]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_a_count_is_a_count_in_every_release(tree):
    """The same work gives the same numbers, whatever place, header and unit the release has."""
    [file_system] = record_between(tree / "before", tree / "after")["file_systems"]
    assert {"read_bytes": 151_552, "write_bytes": 335_872, "read_calls": 37, "write_calls": 41,
            "lower_bound": False} == file_system["application"]
    assert {"open": 23, "close": 23, "create": 19, "seek": 3, "fsync": 5, "getattr": 11,
            "mkdir": 13, "unlink": 7, "inode_permission": 131} == {
        name: row["count"] for name, row in file_system["operations"].items()}
    assert {"read_bytes": 151_552, "write_bytes": 335_872, "read_rpcs": 3, "write_rpcs": 7,
            "lower_bound": False} == file_system["network"]
    assert (False, []) == (file_system["lower_bound"], file_system["notes"])


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_what_everybody_may_read_is_the_same_in_every_release(tree):
    """md_stats, readable for all from 2.5 to 2.17: 19 files and 13 directories made are 32."""
    [file_system] = record_between(tree / "before", tree / "after")["file_systems"]
    found = file_system["targets"]["MDT0000"]
    assert (23, 32, 5, 7) == tuple(found[name] for name in ("close", "create", "fsync", "unlink"))


@pytest.mark.parametrize("tree, seconds", [
    ("lustre-2.12", None), ("lustre-2.14", 1.000003), ("lustre-2.17", 1.000003),
])
def test_time_in_operations_is_known_where_the_release_measures_it(tree, seconds):
    """1,000,003 us of opens since 2.14; before that None, which is not 0."""
    [file_system] = record_between(DATA / tree / "before", DATA / tree / "after")["file_systems"]
    opened = file_system["operations"]["open"]
    assert (23, seconds) == (opened["count"], opened["seconds"])


def test_two_mounts_of_one_file_system_are_added():
    """14 opens on one and 9 on the other, of a file system with a dash in its name."""
    [file_system] = record_between(DATA / "lustre-2.12" / "before",
                                   DATA / "lustre-2.12" / "after")["file_systems"]
    assert ("my-fs", 23) == (file_system["name"], file_system["operations"]["open"]["count"])
    assert ["my-fs-ffff9a3c5d1e0800", "my-fs-ffff9a3c5d1e1000"] == [
        file.name for file in llite.read(DATA / "lustre-2.12" / "after", config.Config())]


def test_mount_points_are_those_of_the_tree():
    """With --root the names of the mounts are the tree's own, not this machine's."""
    assert {"my-fs": ["/my/scratch", "/my/home"]} == paths.list_mount_points(
        str(DATA / "lustre-2.12" / "after"))


@pytest.mark.parametrize("printed, calls, seconds", [
    ("46 samples [usecs] 1 14570 320223 1741740591", 23, 0.3202),     # 2.17: twice a call
    ("45 samples [usecs] 0 14570 320223 1741740591", 23, 0.3202),     # one failed: once
    ("23 samples [usecs] 37 14570 320200 1741740545", 23, 0.3202),    # 2.14 to 2.16
    ("23 samples [regs]", 23, None),                                  # up to 2.13
])
def test_a_lock_is_one_call_in_every_release(printed, calls, seconds):
    """Since 3177b0dc5d a call is counted with 1 us when it is made, and with its time when done."""
    header = "snapshot_time 1752000000.000000123 secs.nsecs\n"
    reading = llite.parse(f"{header}flock                     {printed}\n")
    found = delta.compute_gains(None, reading, "_calls").values
    assert (calls, seconds and seconds * 1e6) == (found["flock"], found.get("flock_us"))


# -- what each source lacks --------------------------------------------------------------


@pytest.mark.parametrize("name", list(SOURCES))
def test_a_source_has_all_that_a_source_needs(name):
    """What sources/__init__.py says, documented."""
    module = SOURCES[name]
    assert name == module.NAME
    assert {"stop"} <= set(module.READ_AT) <= {"start", "mark", "watch", "stop"}
    assert callable(module.read) and module.read.__doc__ and module.__doc__
    assert "Source: " in module.__doc__, "says which function of the kernel prints it"
    of_counters = ("parse", "split", "CALLS_SUFFIX", "LAYER", "TITLE", "LETTER")
    assert len({hasattr(module, needed) for needed in of_counters}) == 1


def test_each_letter_and_title_is_of_one_source():
    """Else the short form of a record, or a table, would mean two things."""
    counters = [module for module in SOURCES.values() if hasattr(module, "LETTER")]
    for attribute in ("LETTER", "TITLE"):
        assert len(counters) == len({getattr(module, attribute) for module in counters})
    assert set() == {module.LETTER for module in counters} & set("rwx"), "taken, see there"


def test_what_is_not_read_at_the_start_is_not_imported_by_a_start():
    """after_start/ is left alone then."""
    assert {"pcc"} == SOURCES.keys() - AT_START.keys()
    assert ["llite", "nfs"] == list(sources.read_at("watch"))
    assert {"gpfs", "tmpdir"} == SOURCES.keys() - sources.read_at("mark").keys()
    assert SOURCES == sources.read_at("stop")


def test_the_directory_is_the_list_of_sources():
    """A file NAME.py is the source NAME; those that parse are counter files."""
    assert ["ceph", "cgroup_io", "diskstats", "gpfs", "llite", "md_stats", "mdc", "nfs", "osc",
            "rpc_stats", "tmpdir"] == [
                name for name, module in SOURCES.items() if hasattr(module, "parse")]
    assert list(SOURCES) == sorted(SOURCES) and "uuid" in SOURCES


@pytest.mark.parametrize("module, name, place", [
    (llite, "my-fs-ff110000b3c36000", ("my-fs", "", "ff110000b3c36000")),
    (osc, "my-fs-OST0001-osc-ff110000b3c36000", ("my-fs", "OST0001", "ff110000b3c36000")),
    (mdc, "my-fs-MDT0000-mdc-ff110000b3c36000", ("my-fs", "MDT0000", "ff110000b3c36000")),
    (md_stats, "s-MDT0000-mdc-ff110000b3c36000", ("s", "MDT0000", "ff110000b3c36000")),
    (rpc_stats, "s-OST0001-osc-ff110000b3c36000", ("s", "OST0001", "ff110000b3c36000")),
    (llite, "no mount", None),
    (osc, "lustre-OST0000-osc-MDT0000", None),
], ids=["a mount", "an OST", "an MDT", "md_stats", "rpc_stats", "not a mount", "a server's own"])
def test_a_directory_is_split_into_file_system_target_and_instance(module, name, place):
    """So that a delta knows its file system, and two files of one mount belong together."""
    assert place == module.split(name)


@pytest.mark.parametrize("metric, sent", [
    ("read_rpcs_pages_256", True), ("write_rpcs_pages_1", True),
    ("read_rpcs_in_flight_3", False), ("read_rpcs_offset_0", False),
    ("read_rpcs_latency_us_2048", False),
])
def test_of_rpc_stats_only_the_sizes_leave_the_node(metric, sent):
    """The other sections stay on the node: a report is sent by each of thousands of nodes."""
    assert sent is rpc_stats.is_sent(metric)


# -- places ------------------------------------------------------------------------------


def put(root, path, text="snapshot_time 1752000000.000000023 secs.nsecs\nopen 23 samples [regs]\n"):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize("place", ["proc/fs/lustre", "sys/fs/lustre", "sys/kernel/debug/lustre"])
def test_a_file_is_found_in_each_place_that_a_release_has_used(tmp_path, place):
    """What is there decides, never a version number."""
    put(tmp_path, f"{place}/llite/scratch-ff9a/stats")
    [file] = llite.read(tmp_path, config.Config())
    assert ("scratch-ff9a", f"{place}/llite/scratch-ff9a/stats", 0) == (
        file.name, file.path, file.errno)
    assert 23 == stats.parse(file.text).counters["open"].samples


def test_a_file_in_two_places_is_read_once_and_debugfs_is_first(tmp_path):
    """Vendors link one to the other; added up they would double every number."""
    put(tmp_path, "proc/fs/lustre/llite/scratch-ff9a/stats", "old\n")
    put(tmp_path, "sys/kernel/debug/lustre/llite/scratch-ff9a/stats", "new\n")
    assert ["new\n"] == [file.text for file in llite.read(tmp_path, config.Config())]


def test_a_mount_whose_counters_are_nowhere_is_kept_as_such(tmp_path):
    """Where debugfs is not mounted (in containers), /sys alone lists the mount."""
    put(tmp_path, "sys/fs/lustre/llite/scratch-ff9a/uuid")
    assert [("scratch-ff9a", errno.ENOENT)] == [
        (file.name, file.errno) for file in llite.read(tmp_path, config.Config())]


def test_a_target_whose_counters_are_nowhere_is_kept_as_such(tmp_path):
    """/sys lists the OSC and has no `stats` of it; that it did nothing is not known."""
    put(tmp_path, "sys/fs/lustre/osc/scratch-OST0000-osc-ff9a/active")
    assert [("scratch-OST0000-osc-ff9a", errno.ENOENT)] == [
        (file.name, file.errno) for file in osc.read(tmp_path, config.Config())]


def test_a_servers_own_connection_need_not_have_the_file(tmp_path):
    """An MDS has osp devices under names of this kind, with `stats` or without."""
    put(tmp_path, "sys/fs/lustre/osc/scratch-OST0000-osc-MDT0000/active")
    assert [] == osc.read(tmp_path, config.Config())


def test_an_empty_root_has_no_files_at_all(tmp_path):
    """A node without Lustre is no error."""
    assert [] == [file for file in snapshot(tmp_path).files if file.source in SOURCES]


@pytest.mark.parametrize("code, why", [
    (errno.EACCES, "permission denied"),
    (errno.EPERM, "forbidden by the kernel, even for root (lockdown)"),
    (errno.EIO, "EIO"),
], ids=["not root", "Secure Boot", "a broken file"])
def test_a_file_that_may_not_be_read_is_kept_with_its_reason(tmp_path, monkeypatch, code, why):
    """"May not be read" is not "did nothing"."""
    put(tmp_path, "sys/kernel/debug/lustre/llite/scratch-ff9a/stats")

    def refused(path):
        raise OSError(code, os.strerror(code), path)
    monkeypatch.setattr(paths, "read_text", refused)
    node = snapshot(tmp_path)
    assert [(code, "-", "")] == [(f.errno, f.path, f.text) for f in node.files
                                 if f.source == "llite"]
    assert ({}, {("llite", "scratch-ff9a"): why}) == snapshots.parse_readings(node, SOURCES)


def test_a_mount_that_sys_lists_and_a_closed_debugfs_hides_is_refused(tmp_path, monkeypatch):
    """The root of debugfs is closed to users (0700): they see the mount in /sys alone."""
    put(tmp_path, "sys/fs/lustre/llite/scratch-ff9a/uuid")
    listdir = os.listdir

    def closed(path):
        if "debug" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listdir(path)
    monkeypatch.setattr(paths.os, "listdir", closed)
    assert [("scratch-ff9a", errno.EACCES)] == [
        (file.name, file.errno) for file in llite.read(tmp_path, config.Config())]


def test_a_second_place_is_tried_when_the_first_may_not_be_read(tmp_path, monkeypatch):
    """A refusal counts only when no place lets us read the file."""
    put(tmp_path, "sys/kernel/debug/lustre/llite/scratch-ff9a/stats")
    put(tmp_path, "proc/fs/lustre/llite/scratch-ff9a/stats")
    read_text = private_files.read_text

    def closed(path):
        if "debug" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return read_text(path)
    monkeypatch.setattr(paths, "read_text", closed)
    assert ["proc/fs/lustre/llite/scratch-ff9a/stats"] == [
        file.path for file in llite.read(tmp_path, config.Config())]


@pytest.mark.parametrize("key, text, names", [
    ("file_systems", "snx11002", ["snx11002"]),
    ("file_systems", "snx11002 home", ["home", "snx11002"]),
    ("file_systems", "snx1100*", ["snx11001", "snx11002"]),
    ("file_systems", "nothing", []),
    ("file_systems", "", ["home", "snx11001", "snx11002"]),
], ids=lambda value: value if isinstance(value, str) else "")
def test_the_chosen_file_systems_are_read_by_every_source(tmp_path, key, text, names):
    """A second file system with nothing over the network would be a wrong number."""
    known = {name: module for name, module in sources.list_sources().items()
             # of no file system, or with names of their own
             if name not in ("lnet", "ceph", "cgroup_io", "diskstats", "gpfs", "tmpdir")}
    for path, line in (
            ("mountstats", "device {0} mounted on /{0} with fstype nfs statvers=1.1\n"),
            ("mountinfo", "194 21 0:{0} / /{0} rw - nfs {0} rw,vers=3\n")):
        put(tmp_path, f"proc/self/{path}",
            "".join(map(line.format, ("snx11001", "snx11002", "home"))))
    for name in ("snx11001", "snx11002", "home"):
        for file in ("stats", "uuid", "stats_track_pid", "pcc", "read_ahead_stats"):
            put(tmp_path, f"proc/fs/lustre/llite/{name}-ff9a/{file}")
        for file in ("stats", "rpc_stats", "state", "cur_dirty_bytes"):
            put(tmp_path, f"proc/fs/lustre/osc/{name}-OST0000-osc-ff9a/{file}")
        for file in ("stats", "md_stats", "state"):
            put(tmp_path, f"proc/fs/lustre/mdc/{name}-MDT0000-mdc-ff9a/{file}")
    choices = config.Config()
    choices.set_value(f"node.{key}", text, "site.cfg:7")
    assert {source: set(names) for source in known} == {
        source: {file.name.partition("-")[0] for file in module.read(str(tmp_path), choices)}
        for source, module in known.items()}


def test_bytes_are_read_one_to_one(tmp_path):
    """The kernel's bytes are no UTF-8; whatever is there can be kept and looked at."""
    path = tmp_path / "stats"
    path.write_bytes(bytes(range(256)) * 1000)
    assert bytes(range(256)) * 1000 == private_files.read_text(path).encode("latin-1")


@pytest.mark.parametrize("text, points", [
    ("10.99.0.2@tcp:/lustre /mnt/lustre lustre rw,flock 0 0\n", {"lustre": ["/mnt/lustre"]}),
    ("10.99.0.2@tcp:10.99.0.3@tcp:/my-fs/home /home lustre rw 0 0\n", {"my-fs": ["/home"]}),
    ("a@o2ib,b@o2ib:/s /one lustre rw 0 0\na@o2ib:/s /two lustre rw 0 0\n",
     {"s": ["/one", "/two"]}),
    ("10.99.0.2@tcp:/s /with\\040blank lustre rw 0 0\n", {"s": ["/with blank"]}),
    ("nfs1:/s /mnt nfs rw 0 0\nproc /proc proc rw 0 0\n", {"nfs1:/s": ["/mnt"]}),
    ("nfs2:/unused /mnt nfs4 rw 0 0\n", {}),
    ("garbage\n\n \n", {}),
], ids=["plain", "a subdirectory, two servers", "mounted twice", "a blank in the path",
        "NFS that was used", "NFS that was not", "garbage"])
def test_mount_points_come_from_mounts(tmp_path, text, points):
    """For people: which path the file system's name stands for."""
    put(tmp_path, "proc/mounts", text)
    assert points == paths.list_mount_points(str(tmp_path), {"nfs1:/s"})
