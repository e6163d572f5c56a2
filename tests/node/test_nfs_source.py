"""
The source of NFS mounts: each form of /proc/self/mountstats, and mounts that come and go.
"""
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nfs_kernel import NfsClient, Superblock
from trees import DATA, report, snapshot

from iostats.base.config import Config
from iostats.base.errors import StatsSyntaxError
from iostats.node import measurement, sources
from iostats.node.sources import nfs
from iostats.report import accounting_comment, job_tables
from iostats.report.diff.numbers import read_numbers
from iostats.report.job_summary import make_summary
from iostats.report.why.time_in_lustre import compute_time_in_lustre
from iostats.totals import delta
from iostats.totals.job_totals import Totals

SOURCES = {"nfs": nfs}
HOME, SCRATCH = "nfs1:/home", "nfs2:/scratch"


@pytest.fixture
def client():
    return NfsClient()


def after(client, root, work, seconds=100.0):
    """[Delta] of what `work` does in a job of so many seconds."""
    start = client.snapshot(root, Config())
    client.now += seconds / 2
    work()
    client.now += seconds / 2
    return delta.compute_deltas(start, client.snapshot(root, Config()), SOURCES)


def record_of(deltas):
    totals = Totals("4711", 1)
    totals.add(report(deltas=deltas, mounts={HOME: ["/home"]}))
    return totals.record()


# -- the form ----------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [8, 9], ids=["without errors", "with errors"])
def test_bytes_and_requests_are_read_in_each_form(client, tmp_path, columns):
    """23 + 37 bytes read, 41 written; 3 READ of 2 requests sent again; 1 ms are 1000 us."""
    block = client.mount(HOME, "/home", columns=columns, connections=3)
    block.read(1_000_003)

    def work():
        block.bytes[0] += 23
        block.bytes[2] += 37
        block.bytes[1] += 41
        block.bytes[4] += 67
        block.bytes[5] += 71
        block.call("READ", 3, transmissions=5, timeouts=1, rtt_ms=11, execution_ms=13)
        block.call("WRITE", 7, rtt_ms=17, execution_ms=19)
        block.call("COMMIT", 73, rtt_ms=79, execution_ms=83)
        block.call("GETATTR", 29, rtt_ms=31, execution_ms=43)
        block.call("RENEW", 47, rtt_ms=53, execution_ms=59)
        block.call("SECINFO_NO_NAME", 61)
    [found] = after(client, tmp_path, work)
    assert {
        "read_bytes": 60, "direct_read_bytes": 37, "write_bytes": 41, "network_read_bytes": 67,
        "network_write_bytes": 71, "READ": 3, "WRITE": 7, "COMMIT": 73, "GETATTR": 29,
        "retransmissions": 2, "timeouts": 1, "read_rtt_us": 11_000, "read_us": 13_000,
        "write_rtt_us": 96_000, "write_us": 102_000, "metadata_rtt_us": 31_000,
        "metadata_us": 43_000} == found.values
    assert ("nfs", HOME, "", "0:41", False, "", True) == (
        found.source, found.file_system, found.target, found.instance, found.lower_bound,
        found.why, found.proved)


@pytest.mark.parametrize("replaced, by", [
    ("\tage:\t0\n", ""), ("\tbytes:\t0 0 0 0 0 0 0 0 \n", ""),
    ("\tbytes:\t0 0 0 0 0 0 0 0 \n", "\tbytes:\t0 0 0\n"),
    ("\tbytes:\t0 0 0 0 0 0 0 0 \n", f"\tbytes:\t{2**63} 0 0 0 0 0 0 0 \n"),
    ("        READ: 0 0 0 0", "        READ: 0 -1 0 0"),
    ("        READ: 0 0 0 0 0 0", "        READ: 0"),
], ids=["no age", "no bytes", "few bytes", "impossible bytes", "negative", "few numbers"])
def test_a_mount_that_is_not_of_its_form_has_no_numbers(client, tmp_path, replaced, by):
    """None and a lower bound, with the place; never a part of the numbers."""
    client.mount(HOME, "/home")
    start = client.snapshot(tmp_path, Config())
    [file] = start.files
    assert replaced in file.text
    end = start._replace(files=(file._replace(text=file.text.replace(replaced, by)),))
    [found] = delta.compute_deltas(start, end, SOURCES)
    assert (None, True) == (found.values, found.lower_bound)
    assert "proc/self/mountstats:" in found.why and ": expected " in found.why


def test_without_per_op_statistics_the_bytes_still_count(client, tmp_path):
    """A client without memory for them prints none; requests are then unknown, and marked."""
    block = client.mount(HOME, "/home")
    start = client.snapshot(tmp_path, Config())
    block.read(23)
    [file] = client.snapshot(tmp_path, Config()).files
    text = file.text[:file.text.index("\tper-op")]
    [found] = delta.compute_deltas(start, start._replace(files=(file._replace(text=text),)),
                                   SOURCES)
    assert ({"read_bytes": 23, "network_read_bytes": 23}, True) == (found.values, found.lower_bound)


@given(st.text(alphabet="\t\n:0123456789 agebytsvnREADpo-c", max_size=200))
@settings(max_examples=examples(100))
def test_any_text_is_read_or_refused(text):
    """Nothing but a Reading or a StatsSyntaxError."""
    whole = Superblock(0.0).text(23.0)
    for damaged in (text, whole[:37] + text + whole[37:], whole.replace("0 0 0", text, 1)):
        try:
            reading = nfs.parse(damaged)
        except StatsSyntaxError:
            continue
        assert all(0 <= counter.samples < 2**63 for counter in reading.counters.values())


# -- which mounts ------------------------------------------------------------------------


def test_mounts_that_share_a_superblock_are_counted_once(client, tmp_path):
    """Both print the same counters; the file system has the shorter name."""
    block = client.mount("nfs1:/home/alice", "/home/alice")
    client.mount("nfs1:/home/bob", "/home/bob", shared=block)
    [found] = after(client, tmp_path, lambda: block.read(23))
    assert ("nfs1:/home/bob", 23) == (found.file_system, found.values["read_bytes"])


def test_a_superblock_is_known_by_its_device_number(client, tmp_path):
    """Its shortest name changes when a mount of it comes or goes, and its counters go on."""
    block = client.mount("nfs1:/home/alice", "/home/alice")
    block.read(37)

    def work():
        block.read(23)
        client.mount("nfs1:/home/bob", "/home/bob", shared=block)
    [found] = after(client, tmp_path, work)
    assert ("nfs1:/home/bob", 23, False) == (
        found.file_system, found.values["read_bytes"], found.lower_bound)


def test_mounts_of_one_name_with_their_own_counters_are_added(client, tmp_path):
    """With other options, or nosharecache, an export has a superblock for each mount."""
    one, two = client.mount(HOME, "/a"), client.mount(HOME, "/b")

    def work():
        one.read(23)
        two.read(37)
    [fs] = record_of(after(client, tmp_path, work)).file_systems
    assert (HOME, 60) == (fs.name, fs.application.read_bytes)


def test_a_mount_over_another_one_is_told_apart(client, tmp_path):
    """One mount point, two mounts: both files list them in the same order."""
    below, above = client.mount(HOME, "/x"), client.mount(SCRATCH, "/x")

    def work():
        below.read(23)
        above.read(37)
    assert {HOME: 23, SCRATCH: 37} == {
        one.file_system: one.values["read_bytes"] for one in after(client, tmp_path, work)}


def test_hostile_and_long_names_are_fit_to_be_sent(client, tmp_path):
    """At most 128 characters of UTF-8 without control characters, which a server refuses."""
    for number, device in enumerate(
            ("nfs1:/" + "x" * 300, "nfs1:/\u00e4\x1b[31m", "nfs1:/a\\040b")):
        client.mount(device, f"/{number}")
    names = [nfs.split(file.name)[0] for file in client.snapshot(tmp_path, Config()).files]
    assert all(len(name) <= 128 and name.isprintable() and " " not in name for name in names)
    assert "nfs1:/\u00e4?[31m" in names


def test_a_node_without_nfs_has_no_files(tmp_path):
    """Neither where there is no mountstats, nor where it has other file systems only."""
    assert [] == nfs.read(str(tmp_path), Config())
    assert () == NfsClient().snapshot(tmp_path, Config()).files


def test_a_start_stores_the_whole_text_and_a_stop_separates_the_mounts(client, tmp_path):
    """By `start` and `stop`: 23 bytes of one mount, 37 of two that share a superblock."""
    root = tmp_path / "root"
    home, scratch = client.mount(HOME, "/home"), client.mount(f"{SCRATCH}/alice", "/alice")
    client.mount(SCRATCH, "/scratch", shared=scratch)
    client.mount("nfs3:/unused", "/unused").read(41)
    client.write_files(root)
    work = measurement.Work(Config(), str(root), "node001", "4711", lambda text: None,
                            str(tmp_path / "state"))
    start = work.start()
    assert 1 == len([file for file in start.files if file.source == "nfs"])
    home.read(23)
    scratch.read(37)
    client.write_files(root)
    [data] = work.end()[0].values()
    assert [(HOME, 23, False), (SCRATCH, 37, False)] == [
        (one["file_system"], one["values"]["read_bytes"], one.get("lower_bound", False))
        for one in data["deltas"]]


# -- mounts that come and go -------------------------------------------------------------


def test_a_mount_that_came_during_the_job_is_exact(client, tmp_path):
    """As autofs mounts what is used; its age proves that nothing was before."""
    def work():
        client.mount(HOME, "/home").read(23)
    [found] = after(client, tmp_path, work)
    assert (23, False, "") == (found.values["read_bytes"], found.lower_bound, found.why)


def test_a_mount_that_was_there_and_not_seen_at_the_start_is_unknown(client, tmp_path):
    """In another mount namespace: what it had counted before is not known."""
    start = client.snapshot(tmp_path, Config())
    block = client.mount(HOME, "/home")
    block.born -= 1000
    block.read(23)
    client.now += 100
    [found] = delta.compute_deltas(start, client.snapshot(tmp_path, Config()), SOURCES)
    assert (None, True) == (found.values, found.lower_bound)


def test_a_mount_that_is_gone_at_the_end_is_a_lower_bound(client, tmp_path):
    """What it did is lost with its counters."""
    client.mount(HOME, "/home")
    [found] = after(client, tmp_path, lambda: client.unmount("/home"))
    assert ({}, True, "unmounted before the end: its I/O is unknown") == (
        found.values, found.lower_bound, found.why)


@pytest.mark.parametrize("before, later", [(37, 23), (23, 37)], ids=["less", "overtaken"])
def test_a_mount_that_was_mounted_again_is_a_lower_bound(client, tmp_path, before, later):
    """Its age shows it, even where the new counters are larger than the old ones."""
    client.mount(HOME, "/home").read(before)
    client.now += 10

    def work():
        client.unmount("/home")
        client.mount(HOME, "/home").read(later)
    [found] = after(client, tmp_path, work)
    assert (True, "mounted again after the start") == (found.lower_bound, found.why)
    assert 0 < found.values["read_bytes"] <= later


def test_what_was_not_used_is_not_sent(client, tmp_path):
    """300 mounts of other users' homes are no part of a job's report."""
    used = client.mount(HOME, "/home")
    client.mount(SCRATCH, "/scratch")
    start = client.snapshot(tmp_path, Config())
    used.read(23)
    end = client.snapshot(tmp_path, Config())
    message = measurement.report([start, end], sources.list_sources(), str(tmp_path))
    assert [HOME] == [one["file_system"] for one in message["deltas"]]


def test_parts_of_a_job_have_what_each_did(client, tmp_path):
    """23 bytes before the mark, 37 behind it; a mount that is not used is in neither."""
    block = client.mount(HOME, "/home")
    client.mount(SCRATCH, "/scratch")
    snapshots = [client.snapshot(tmp_path, Config())]
    for name, size in (("solve", 23), ("", 37)):
        block.read(size)
        client.now += 60
        snapshots.append(client.snapshot(tmp_path, Config())._replace(mark=name))
    message = measurement.report(snapshots, sources.list_sources(), str(tmp_path))
    assert [("(before solve)", HOME, 23), ("solve", HOME, 37)] == [
        (phase["name"], one["file_system"], one["values"]["read_bytes"])
        for phase in message["phases"] for one in phase["deltas"]]
    assert [60] == [one["values"]["read_bytes"] for one in message["deltas"]]


_WORK = st.lists(st.tuples(
    st.sampled_from(("read", "write", "direct", "mount", "share", "unmount", "wait")),
    st.integers(0, 3), st.integers(1, 50)), max_size=12)


@given(_WORK, _WORK)
@settings(max_examples=examples(60))
def test_no_number_is_too_high_and_none_too_low_without_its_mark(tmp_path_factory, before, during):
    """Random histories; a mount that came and went in the job leaves no trace, as documented."""
    root, client = tmp_path_factory.getbasetemp() / "nfs", NfsClient()
    done = []                           # (superblock, metric, amount)

    def go(work):
        for what, which, amount in work:
            point = f"/{which}"
            block = next((one for _, there, _, one in client.mounts if there == point), None)
            if what == "wait":
                client.now += amount
            elif what == "unmount":
                client.unmount(point)
            elif block is None and what != "share":
                client.mount(f"nfs1:/{which}", point)
            elif block is None and client.mounts:
                client.mount(f"nfs1:/{which}", point, shared=client.mounts[0][3])
            elif block is not None and what in ("read", "write", "direct"):
                getattr(block, "write" if what == "write" else "read")(amount, what == "direct")
                done.append((block, "write_bytes" if what == "write" else "read_bytes", amount))
    go(before)
    start = client.snapshot(root, Config())
    there = [block for *_, block in client.mounts]
    done.clear()
    client.now += 3                     # an age is in whole seconds
    go(during)
    there += [block for *_, block in client.mounts]
    client.now += 10
    found = delta.compute_deltas(start, client.snapshot(root, Config()), SOURCES)
    for metric in ("read_bytes", "write_bytes"):
        amount = sum(size for block, of, size in done if of == metric and block in there)
        counted = sum((one.values or {}).get(metric, 0) for one in found)
        assert counted <= amount
        assert counted == amount or any(one.lower_bound for one in found), found


# -- in the record -----------------------------------------------------------------------


def test_it_is_a_file_system_of_its_own_kind_in_the_record(client, tmp_path):
    """Bytes of programs and over the network, requests to the server, and what is left."""
    block = client.mount(HOME, "/home")

    def work():
        block.read(4_100)
        block.write(2_300)
        block.call("GETATTR", 37, rtt_ms=2, execution_ms=3)
        block.call("WRITE", 1, transmissions=3)
    [fs] = record_of(after(client, tmp_path, work)).file_systems
    assert ("nfs", ["/home"], False) == (fs.kind, fs.mounts, fs.lower_bound)
    assert {"read_bytes": 4_100, "write_bytes": 2_300, "read_calls": None, "write_calls": None,
            "lower_bound": False} == fs.application
    assert {"read_bytes": 4_100, "write_bytes": 2_300, "read_rpcs": 1, "write_rpcs": 2,
            "lower_bound": False} == fs.network
    assert (None, {"nfs1": 37}) == (
        fs.operations, {server: asked.requests for server, asked in fs.metadata.items()})
    assert {"retransmissions": 2, "metadata_rtt_us": 2_000,
            "metadata_us": 3_000} == fs.sources["nfs"].totals


def test_direct_io_is_an_upper_bound(client, tmp_path):
    """The kernel counts what a call asks for: the end of the file is not known before."""
    block = client.mount(HOME, "/home")
    [fs] = record_of(after(client, tmp_path, lambda: block.read(23, direct=True))).file_systems
    assert (["read_bytes"], []) == (fs.too_high, fs.too_low)
    assert ["with O_DIRECT the NFS client counts what was asked for, also behind the end of a file"
            ] == fs.notes


def test_with_pnfs_the_requests_are_a_lower_bound(client, tmp_path):
    """Requests to data servers are counted at those servers' own connections."""
    block = client.mount(HOME, "/home")

    def work():
        block.read(23)
        block.events[25] += 1
    [fs] = record_of(after(client, tmp_path, work)).file_systems
    assert (False, True) == (fs.application.lower_bound, fs.network.lower_bound)
    assert ["requests to pNFS data servers are not in the requests over the network"] == fs.notes


@pytest.mark.parametrize("nodes", [3, 30], ids=["one by one", "by the shape of their reports"])
def test_a_node_that_did_not_use_it_has_nothing(client, tmp_path, nodes):
    """A third of the nodes each: 23 bytes, 37, and no report of this mount."""
    block, totals = client.mount(HOME, "/home"), Totals("4711", nodes)
    works = [after(client, tmp_path, lambda size=size: block.read(size)) for size in (23, 37)]
    for number in range(nodes):
        deltas = works[number % 3] if number % 3 < 2 else []
        totals.add(report(f"node{number:02}", deltas=deltas))
    [fs] = totals.record().file_systems
    assert {"read_bytes": {"min": 0, "median": 23, "second": 23 if nodes == 3 else 37, "max": 37,
                           "busiest": "node01"}} == fs.per_node


def test_a_report_has_it_beside_lustre(client, tmp_path):
    """The same tables; what only Lustre counts has no row for it, and requests name the server."""
    block = client.mount(HOME, "/home")

    def work():
        block.read(23 * 1024)
        block.call("GETATTR", 37)
        block.call("WRITE", 1, transmissions=3)
    lustre = delta.compute_deltas(snapshot(DATA / "lustre-2.17" / "before"),
                                  snapshot(DATA / "lustre-2.17" / "after"),
                                  sources.read_at("start"))
    record = record_of(lustre + after(client, tmp_path, work))
    lines = [line.split() for line in job_tables.format_report(record, Config()).splitlines()]
    assert "| nfs1:/home | 23.0 KiB | 0 bytes |".split() in lines
    assert "| scratch | 148.0 KiB | 328.0 KiB |".split() in lines
    assert "nfs1 37 0.6 0.6 node001 GETATTR 37".split() in lines
    assert "| nfs1:/home | NFS | retransmissions | 2 |".split() in lines
    assert ["scratch"] == [words[1] for words in lines[lines.index([
        "Metadata", "statistics", "for", "this", "job:"]):] if words[2:4] == ["|", "23"]]


def test_a_comparison_has_it(client, tmp_path):
    """Bytes, requests and their time; that programs' calls are not counted is no news of a job."""
    block = client.mount(HOME, "/home")

    def work():
        block.read(23)
        block.call("GETATTR", 37, execution_ms=1500)
    found = read_numbers(record_of(after(client, tmp_path, work)), "4711")
    assert set() == found.unknown
    assert (23, 37, 1.5, "seconds") == (
        found.numbers[HOME, "bytes read"].low, found.numbers[HOME, "requests to nfs1"].high,
        *found.numbers[HOME, "time in metadata requests (NFS)"][1:3])


def test_lustres_own_numbers_are_those_without_nfs(client, tmp_path):
    """In the short form, in `why`, and in `jobs` but for the fields of NFS."""
    block = client.mount(HOME, "/home")
    lustre = delta.compute_deltas(snapshot(DATA / "lustre-2.17" / "before"),
                                  snapshot(DATA / "lustre-2.17" / "after"),
                                  sources.read_at("start"))
    with_nfs = record_of(lustre + after(client, tmp_path, lambda: block.read(23)))
    alone = record_of(lustre)
    assert make_summary(alone)._replace(nfs_read_bytes=23, nfs_write_bytes=0) == (
        make_summary(with_nfs))
    assert accounting_comment.encode(alone, 500) == accounting_comment.encode(with_nfs, 500)
    assert compute_time_in_lustre(alone) == compute_time_in_lustre(with_nfs)


def test_many_nodes_are_added_up_as_few(client, tmp_path):
    """Sums by the shape of a report are those of its numbers one by one."""
    block = client.mount(HOME, "/home")

    def work():
        block.read(23)
        block.call("GETATTR", 37)
    deltas = after(client, tmp_path, work)
    totals = Totals("4711", 20)
    for number in range(20):
        totals.add(report(f"node{number}", deltas=deltas))
    [fs] = totals.record().file_systems
    assert (20 * 23, 20 * 37) == (fs.application.read_bytes, fs.metadata["nfs1"].requests)
    again = Totals.from_state(totals.state()).record()
    assert [fs] == again.file_systems
