"""
The simulated Lustre node: the forms and places of its files, and that it counts what was done.

Tests marked `fuse` mount in tmp_path and are skipped where `simlustre --check` says no; the
others need nothing.  Expected values are worked out by hand from what each test does.
"""
from __future__ import annotations

import functools
import json
import mmap
import os
import re
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
INSTANCE = "ff11000012345678"
RELEASES = ["2.10", "2.12", "2.15", "2.16", "2.17"]

PROC, DEBUGFS, SYSFS = "proc/fs/lustre", "sys/kernel/debug/lustre", "sys/fs/lustre"
LLITE = f"llite/scratch-{INSTANCE}"
OST0 = f"osc/scratch-OST0000-osc-{INSTANCE}"
OST1 = f"osc/scratch-OST0001-osc-{INSTANCE}"
MDT0 = f"mdc/scratch-MDT0000-mdc-{INSTANCE}"

# release -> where llite stats, osc and mdc stats, rpc_stats, uuid are
PLACES = {
    "2.10": (PROC, PROC, PROC, PROC),
    "2.12": (DEBUGFS, DEBUGFS, PROC, SYSFS),
    "2.15": (DEBUGFS, DEBUGFS, PROC, SYSFS),
    "2.16": (DEBUGFS, DEBUGFS, PROC, SYSFS),
    "2.17": (DEBUGFS, DEBUGFS, DEBUGFS, SYSFS),
}

COUNTER_LINE = re.compile(r"^(.+?)\s+(\d+) samples \[([^\]]*)\]((?: -?\d+)*)$")
TIME_LINE = re.compile(r"^(snapshot|start|elapsed)_time\s+\d+\.\d{9} secs\.nsecs$")


def simlustre(*arguments, check=True):
    return subprocess.run([sys.executable, "-m", "simlustre", *map(str, arguments)], text=True,
                          cwd=str(REPOSITORY), check=check,
                          capture_output=True)


def counters_of(path) -> dict:
    """name -> (samples, unit, [numbers]); every line has to be of one of the two forms."""
    found = {}
    for line in Path(path).read_text().splitlines():
        if TIME_LINE.match(line):
            continue
        match = COUNTER_LINE.match(line)
        assert match, line
        found[match[1]] = (int(match[2]), match[3], [int(n) for n in match[4].split()])
    return found


def samples_of(path) -> dict:
    return {name: samples for name, (samples, _, _) in counters_of(path).items()}


def start_time_of(path) -> str:
    [line] = [s for s in Path(path).read_text().splitlines() if s.startswith("start_time")]
    return line.split()[1]


def rows_of(path, title) -> dict:
    """label -> (reads, writes) of one section of an rpc_stats file."""
    section = Path(path).read_text().partition(title)[2].partition("\n")[2].partition("\n\n")[0]
    rows = {}
    for line in section.splitlines():
        match = re.match(r"^(\d+):\t\t +(\d+) +\d+ +\d+   \| +(\d+) +\d+ +\d+$", line)
        assert match, line
        rows[int(match[1])] = (int(match[2]), int(match[3]))
    return rows


@functools.cache
def no_fuse() -> str:
    checked = simlustre("--check", check=False)
    return checked.stdout.strip() if checked.returncode else ""


@pytest.fixture
def mount(tmp_path, request):
    """mount(name, *options) -> mount point of a simulated node with file system `scratch`."""
    if no_fuse():
        pytest.skip(no_fuse())

    def mount_node(name="node1", *options):
        where = tmp_path / name
        simlustre("--backing", tmp_path / "backing", "--mount", where, "--fs", "scratch",
                  "--instance", INSTANCE, *options)
        request.addfinalizer(lambda: simlustre("--unmount", where, check=False))
        return where
    return mount_node


@pytest.fixture
def static(tmp_path):
    """static(*options) -> a tree without FUSE, with file systems `scratch` and `home`."""
    def make(*options):
        where = tmp_path / "static"
        simlustre("--static", "--mount", where, "--fs", "scratch", "--fs", "home",
                  "--instance", INSTANCE, *options)
        return where
    return make


def command_line_of(pid) -> bytes:
    """b"" if the process has ended, even if nobody has waited for it (a zombie has none)."""
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_bytes() if path.exists() else b""


def shell(command, where):
    subprocess.run(["bash", "-c", command], cwd=str(where), check=True, stderr=subprocess.PIPE)


# --- forms and places -----------------------------------------------------------------------

@pytest.mark.parametrize("release", RELEASES)
def test_each_release_has_its_files_where_lustre_has_them(static, release):
    root = static("--release", release, "--osts", 2) / "root"
    llite, stats, rpc, info = PLACES[release]
    expected = {f"{llite}/{LLITE}/stats", f"{stats}/{OST0}/stats", f"{stats}/{OST1}/stats",
                f"{stats}/{MDT0}/stats", f"{rpc}/{OST0}/rpc_stats", f"{rpc}/{OST1}/rpc_stats",
                f"{rpc}/{MDT0}/rpc_stats", f"{PROC}/{MDT0}/md_stats", f"{info}/{LLITE}/uuid",
                f"{info}/{LLITE}/stats_track_pid", f"{info}/{LLITE}/stats_track_ppid",
                f"{info}/{LLITE}/stats_track_gid", *(
                    f"{rpc}/{one}/{name}" for one in (OST0, OST1, MDT0)
                    for name in ("state", "import")),
                f"{info}/{OST0}/cur_dirty_bytes", f"{info}/{OST1}/cur_dirty_bytes"}
    if release != "2.10":
        expected.add(f"{info}/{LLITE}/tiny_write")
    found = {str(path.relative_to(root)) for path in root.rglob("*") if "scratch-" in str(path)
             and path.is_file()}
    assert expected == found
    assert "healthy\n" == (root / SYSFS / "health_check").read_text()
    assert release in (root / SYSFS / "version").read_text()
    assert "SLURM_JOB_ID\n" == (root / SYSFS / "jobid_var").read_text()
    assert "0 (all)\n" == (root / info / LLITE / "stats_track_pid").read_text()


@pytest.mark.parametrize("release, header", [
    ("2.10", ["snapshot_time             "]),
    ("2.12", ["snapshot_time             "]),
    ("2.15", ["snapshot_time             ", "start_time                ",
              "elapsed_time              "]),
    ("2.16", ["snapshot_time             ", "start_time                ",
              "elapsed_time              "]),
    ("2.17", ["snapshot_time                       ", "start_time                          ",
              "elapsed_time                        "]),
])
def test_a_file_without_counts_is_its_header(static, release, header):
    root = static("--release", release) / "root"
    lines = (root / PLACES[release][0] / LLITE / "stats").read_text().splitlines()
    assert header == [re.match(r"\w+ +", line)[0] for line in lines]
    assert all(TIME_LINE.match(line) for line in lines)


@pytest.mark.parametrize("release, bytes_line, open_line, md_line, osc_line", [
    ("2.10", "write_bytes               41 samples [bytes] 37 37 1517",
             "open                      23 samples [regs]",
             "create                    23 samples [reqs]",
             "ost_write                 1 samples [usec] 0 0 0 0"),
    ("2.12", "write_bytes               41 samples [bytes] 37 37 1517",
             "open                      23 samples [regs]",
             "create                    23 samples [reqs]",
             "ost_write                 1 samples [usec] 0 0 0 0"),
    ("2.15", "write_bytes               1 samples [bytes] 37 37 37 1369",
             "open                      23 samples [usecs] 0 0 0 0",
             "create                    23 samples [reqs]",
             "ost_write                 1 samples [usecs] 0 0 0 0"),
    ("2.17", "write_bytes                         1 samples [bytes] 37 37 37 1369",
             "open                                23 samples [usecs] 0 0 0 0",
             "create                              23 samples [reqs]",
             "ost_write                           1 samples [usecs] 0 0 0 0"),
])
def test_each_release_prints_its_units(static, release, bytes_line, open_line, md_line, osc_line):
    """
    41 writes of 37 bytes are 1517 bytes, 56129 as squares, and one RPC on the one OST; but for the
    first they are into a dirty page, which 2.15 and later do not count.
    """
    where = static("--release", release, "--osts", 1)
    simlustre("--move", where, "scratch", "write_bytes=41x37", "open=23", "mknod=23")
    llite, stats, _, _ = PLACES[release]
    llite_lines = (where / "root" / llite / LLITE / "stats").read_text().splitlines()
    assert bytes_line in llite_lines
    assert open_line in llite_lines
    assert md_line in (where / "root" / PROC / MDT0 / "md_stats").read_text().splitlines()
    assert osc_line in (where / "root" / stats / OST0 / "stats").read_text().splitlines()


@pytest.mark.parametrize("release, sum_and_sumsq", [
    ("2.15", "-9223372036854775808 0"),
    ("2.17", "9223372036854775807 9223372036854775807"),
], ids=["wraps", "saturates"])
def test_a_sum_beyond_63_bits_is_printed_as_the_release_does(release, sum_and_sumsq):
    """Two reads of 2^62 bytes: the sum is 2^63, the squares 2^125."""
    from simlustre import text
    from simlustre.counters import RELEASES as FORMS
    from simlustre.counters import CounterFile, llite_table
    file = CounterFile(llite_table(FORMS[release]))
    file.add("read_bytes", 1 << 62, times=2)
    [line] = [s for s in text.stats(file, FORMS[release], 10**18).splitlines() if "read_" in s]
    assert f"2 samples [bytes] {1 << 62} {1 << 62} {sum_and_sumsq}" == line.split(None, 1)[1]


def test_rpc_stats_of_2_10_has_the_old_header_and_rows_from_zero(static):
    """37 reads of 5000 bytes are 37 RPCs of two pages at offset 0."""
    where = static("--release", "2.10", "--osts", 1)
    simlustre("--move", where, "scratch", "read_bytes=37x5000")
    text = (where / "root" / PROC / OST0 / "rpc_stats").read_text()
    assert re.match(r"snapshot_time:         \d+\.\d{9} \(secs\.nsecs\)\n"
                    r"read RPCs in flight:  0\nwrite RPCs in flight: 0\n"
                    r"pending write pages:  0\npending read pages:   0\n\n"
                    r"\t\t\tread\t\t\twrite\n"
                    r"pages per rpc         rpcs   % cum % \|       rpcs   % cum %\n"
                    r"1:\t\t         0   0   0   \|          0   0   0\n"
                    r"2:\t\t        37 100 100   \|          0   0   0\n\n", text)
    path = where / "root" / PROC / OST0 / "rpc_stats"
    assert {0: (0, 0), 1: (37, 0)} == rows_of(path, "rpcs in flight")
    assert {0: (37, 0)} == rows_of(path, "offset  ")
    assert "latency" not in text


def test_rpc_stats_of_2_15_has_no_start_time_before_it_is_cleared(static):
    path = static("--release", "2.15") / "root" / PROC / OST0 / "rpc_stats"
    assert "start_time:               0.000000000 secs.nsecs" in path.read_text().splitlines()
    assert {1: (0, 0)} == rows_of(path, "rpcs in flight")


def test_rpc_stats_of_2_17_has_a_latency_section(static):
    path = static("--release", "2.17") / "root" / DEBUGFS / OST0 / "rpc_stats"
    assert "DIO RPCs in flight: 0" in path.read_text().splitlines()
    assert {0: (0, 0)} == rows_of(path, "RPC latency (us)")
    assert "%% cum %%" in (path.parents[2] / MDT0 / "rpc_stats").read_text()


def test_percents_are_cut_off_and_cumulate():
    """Of 3 RPCs two are 33 and 33 percent, but 66 together; of pages 1, 4 and 4."""
    from simlustre import text
    from simlustre.counters import RELEASES as FORMS
    from simlustre.counters import RpcHistograms, log2_row
    histograms = RpcHistograms(start_known=True)
    for pages in (1, 2, 3):
        histograms.add("pages", "write", log2_row(pages))
    lines = text.osc_rpc_stats(histograms, FORMS["2.15"], 10**18).splitlines()
    assert ["1:\t\t         0   0   0   |          1  33  33",
            "2:\t\t         0   0   0   |          1  33  66",
            "4:\t\t         0   0   0   |          1  33 100"] == lines[10:13]


# --- without FUSE ---------------------------------------------------------------------------

def test_moves_add_up_in_one_file_system_and_leave_the_other_alone(static):
    where = static("--release", "2.12", "--osts", 2)
    simlustre("--move", where, "scratch", "write_bytes=23x4096", "open=5")
    simlustre("--move", where, "scratch", "write_bytes=14x1000", "close=7", "mkdir=3")
    llite = where / "root" / DEBUGFS / "llite"
    assert {"write_bytes": (37, "bytes", [1000, 4096, 108208]), "open": (5, "regs", []),
            "close": (7, "regs", []), "mkdir": (3, "regs", [])} \
        == counters_of(llite / f"scratch-{INSTANCE}/stats")
    assert {} == counters_of(llite / f"home-{INSTANCE}/stats")
    assert {"close": 7, "create": 3, "intent_lock": 5} \
        == samples_of(where / "root" / PROC / MDT0 / "md_stats")


def test_a_move_does_not_look_like_a_remount_or_a_clear(static):
    where = static("--release", "2.17")
    uuid = where / "root" / SYSFS / LLITE / "uuid"
    stats = where / "root" / DEBUGFS / LLITE / "stats"
    before = uuid.read_text(), start_time_of(stats)
    simlustre("--move", where, "scratch", "open=23")
    assert before == (uuid.read_text(), start_time_of(stats))
    assert {"open": 23} == samples_of(stats)


def test_a_static_tree_has_plain_directories_and_says_where_they_are_mounted(static):
    where = static()
    (where / "scratch" / "file").write_text("plain")
    assert [f"10.77.0.1@tcp:/{fs} {where}/{fs} lustre" for fs in ("scratch", "home")] == [
        line.partition(" rw,")[0]
        for line in (where / "root/proc/mounts").read_text().splitlines()]


@pytest.mark.parametrize("arguments, status, message", [
    ([], 2, "--mount MNT and --fs NAME are needed (see --help)"),
    (["--mount", "m", "--fs", "a", "--fs", "a"], 2, "--fs: the same name twice (see --help)"),
    (["--mount", "m", "--fs", "toolongname"], 2,
     "--fs 'toolongname': expected 1 to 8 of A-Z a-z 0-9 _ -, and not 'root' (see --help)"),
    (["--mount", "m", "--fs", "a", "--instance", "x"], 2,
     "--instance 'x': expected 16 hex digits (see --help)"),
    (["--mount", "m", "--fs", "a"], 2, "--backing DIR is needed (or --static) (see --help)"),
    (["--move", "{tree}"], 2, "--move needs MNT FS COUNTER=N ... (see --help)"),
    (["--move", "{tree}", "work", "open=3"], 1,
     "no file system 'work' there; there are: scratch, home"),
    (["--move", "{tree}", "scratch", "read_bytes=3"], 1,
     "expected read_bytes=COUNTxSIZE, got 'read_bytes=3'"),
    (["--move", "{tree}", "scratch", "open=-3"], 1, "expected open=N, got 'open=-3'"),
    (["--move", "{tree}", "scratch", "read_bytes=3x5@4"], 1,
     "read_bytes: no OST 4 there; they are 0 to 3"),
    (["--move", "{tree}", "scratch", "read_bytes=3x5@"], 1,
     "expected read_bytes=COUNTxSIZE, got 'read_bytes=3x5@'"),
    (["--move", "{tree}/none", "scratch", "open=3"], 1,
     "{tree}/none: no tree made by --static there"),
    (["--static", "--mount", "{tree}", "--fs", "a"], 1,
     "{tree}: is a simulated node already; remove it first"),
    (["--unmount", "{tree}/none"], 1, "{tree}/none: no simlustre is mounted there"),
])
def test_what_cannot_be_done_is_said_in_one_line(static, arguments, status, message):
    tree = str(static())
    done = simlustre(*[word.format(tree=tree) for word in arguments], check=False)
    assert (status, f"simlustre: {message.format(tree=tree)}\n") == (done.returncode, done.stderr)


def test_a_counter_that_does_not_exist_cannot_be_moved(static):
    done = simlustre("--move", static(), "scratch", "opens=3", check=False)
    assert 1 == done.returncode
    assert done.stderr.startswith("simlustre: no counter 'opens' to move; there are: read_bytes, ")


# --- with FUSE ------------------------------------------------------------------------------

fuse = pytest.mark.fuse


@fuse
@pytest.mark.parametrize("release", RELEASES)
def test_dd_is_counted_exactly_in_every_release(mount, release):
    """23 blocks of 64 KiB are 1507328 bytes; dd reads once more, gets 0 bytes: not counted."""
    node = mount("node1", "--release", release, "--osts", 1)
    shell("dd if=/dev/zero of=file bs=64k count=23; dd if=file of=/dev/null bs=64k",
          node / "scratch")
    llite, stats, rpc, _ = PLACES[release]
    counters = counters_of(node / "root" / llite / LLITE / "stats")
    for name in ("read_bytes", "write_bytes"):
        samples, unit, numbers = counters[name]
        assert (23, "bytes", [65536, 65536, 1507328]) == (samples, unit, numbers[:3])
    assert [1, 2, 2] == [counters[name][0] for name in ("mknod", "open", "close")]
    osc = counters_of(node / "root" / stats / OST0 / "stats")
    assert (1, "bytes", [1507328, 1507328, 1507328]) == (*osc["write_bytes"][:2],
                                                         osc["write_bytes"][2][:3])
    assert 23 == osc["read_bytes"][0] == osc["ost_read"][0]
    assert 24 == osc["req_waittime"][0] == osc["req_active"][0]
    pages = rows_of(node / "root" / rpc / OST0 / "rpc_stats", "pages per rpc")
    assert ((23, 0), (0, 1)) == (pages[16], pages[512])         # 16 pages; 368 pages


@fuse
@pytest.mark.skipif(not find_library("fuse3"), reason="libfuse 2 splits requests of 1 MiB")
def test_the_workload_of_a_real_client_gives_the_counts_it_had(mount):
    """
    What a 2.15.8 client counted, less what its mount had counted before: 26 files written
    with fsync, 13 directories in a new one, 18 opens, 19 stats, all 26 files read again.
    """
    node = mount("node1", "--osts", 2)
    directory = node / "scratch/w1"
    aligned = mmap.mmap(-1, 1 << 20)        # as O_DIRECT would want it: 1 MiB in one request

    def write(name, size, times):
        fd = os.open(directory / name, os.O_WRONLY | os.O_CREAT, 0o644)
        for _ in range(times):
            assert size == os.write(fd, memoryview(aligned)[:size])
        os.fsync(fd)
        os.close(fd)

    def read(name, size, times):
        fd = os.open(directory / name, os.O_RDONLY)
        for _ in range(times):
            assert size == len(os.read(fd, size))
        os.close(fd)

    directory.mkdir()
    for i in range(23):
        write(f"f{i}", 37888, 1)
    for i in range(3):
        write(f"big{i}", 1048576, 5)
    for i in range(13):
        (directory / f"d{i}").mkdir()
    for i in range(18):
        os.close(os.open(directory / f"f{i}", os.O_RDONLY))
    for i in range(19):
        os.stat(directory / f"f{i}")
    for i in range(23):
        read(f"f{i}", 37888, 1)
    for i in range(3):
        read(f"big{i}", 524288, 10)

    llite = counters_of(node / "root" / DEBUGFS / LLITE / "stats")
    assert (53, "bytes", [37888, 524288, 16600064, 8279353720832]) == llite["read_bytes"]
    assert (38, "bytes", [37888, 1048576, 16600064, 16525690929152]) == llite["write_bytes"]
    assert (70, "reqs", [1, 3, 132, 292]) == llite["opencount"]
    assert {"read": 53, "write": 38, "open": 70, "close": 70, "fsync": 26, "getattr": 19,
            "mkdir": 14, "mknod": 26, "openclosetime": 44} == {
        name: llite[name][0] for name in llite if name[-6:] != "_bytes" and name != "opencount"}
    md_stats = samples_of(node / "root" / PROC / MDT0 / "md_stats")
    assert (70, 40, 26) == (md_stats["close"], md_stats["create"], md_stats["fsync"])
    written = [counters_of(node / "root" / DEBUGFS / ost / "stats")["write_bytes"]
               for ost in (OST0, OST1)]
    assert 29 == sum(samples for samples, _, _ in written)
    assert 16600064 == sum(numbers[2] for _, _, numbers in written)


@fuse
def test_shell_commands_are_counted_as_lustre_would(mount):
    node = mount()
    shell("echo one > a; echo two >> a; : > a; mkdir d d/e; mv a b; chmod 600 b; ln b c; "
          "ln -s b s; mknod p p; rm c; rmdir d/e; truncate -s 41 b", node / "scratch")
    samples = samples_of(node / "root" / DEBUGFS / LLITE / "stats")
    expected = {"mknod": 2, "open": 4, "close": 4, "mkdir": 2, "rename": 1,
                "setattr": 1, "link": 1, "symlink": 1, "unlink": 1, "rmdir": 1, "truncate": 2,
                "write_bytes": 2}
    assert expected == {name: samples[name] for name in expected}
    assert "create" not in samples
    assert 41 == os.stat(node / "scratch/b").st_size


@fuse
def test_listing_a_directory_opens_and_closes_it(mount):
    node = mount()
    os.listdir(node / "scratch")
    samples = samples_of(node / "root" / DEBUGFS / LLITE / "stats")
    assert (1, 1, 1) == (samples["open"], samples["close"], samples["readdir"])


@fuse
@pytest.mark.parametrize("path", [f"{DEBUGFS}/{LLITE}/stats", f"{DEBUGFS}/{OST0}/stats",
                                  f"{PROC}/{MDT0}/md_stats"])
def test_writing_anything_clears_that_file_alone(mount, path):
    node = mount("node1", "--osts", 1)
    shell("dd if=/dev/zero of=file bs=37 count=23", node / "scratch")
    files = [node / "root" / p for p in (f"{DEBUGFS}/{LLITE}/stats", f"{DEBUGFS}/{OST0}/stats",
                                         f"{PROC}/{MDT0}/md_stats")]
    before = {file: (samples_of(file), start_time_of(file)) for file in files}
    cleared = node / "root" / path
    cleared.write_text("whatever\n")
    assert {} == samples_of(cleared)
    assert float(before[cleared][1]) < float(start_time_of(cleared))
    others = [file for file in files if file != cleared]
    assert [before[file] for file in others] == [
        (samples_of(file), start_time_of(file)) for file in others]


@fuse
def test_a_clear_gives_rpc_stats_of_2_15_its_start_time(mount):
    path = mount() / "root" / PROC / OST0 / "rpc_stats"
    assert "0.000000000" == start_time_of(path)
    path.write_text("0\n")
    assert "0.000000000" != start_time_of(path)


@fuse
def test_a_file_that_is_open_keeps_its_moment(mount):
    """What was opened before the writes does not know of them; opened again, it does."""
    node = mount()
    with open(node / "root" / DEBUGFS / LLITE / "stats") as early:
        shell("dd if=/dev/zero of=file bs=37 count=23 oflag=append", node / "scratch")
        assert "write_bytes" not in early.read()
    assert 23 == samples_of(node / "root" / DEBUGFS / LLITE / "stats")["write_bytes"]


@fuse
def test_truth_tells_what_the_counters_tell(mount):
    node = mount("node1", "--release", "2.12")
    shell("dd if=/dev/zero of=file bs=1000 count=37; cat file > copy; mkdir d1 d2 d3; rm copy",
          node / "scratch")
    truth = json.loads((node / "truth.json").read_text())["scratch"]
    llite = counters_of(node / "root" / DEBUGFS / LLITE / "stats")
    assert (37000, 74000) == (truth["read"]["bytes"], truth["write"]["bytes"])
    for request in ("read", "write"):
        assert llite[f"{request}_bytes"][0] == truth[request]["calls"]
        assert llite[f"{request}_bytes"][2][2] == truth[request]["bytes"]
    assert (2, 3, 1) == (truth["create"], truth["mkdir"], truth["unlink"])
    assert (2, 3, 1) == tuple(llite[name][0] for name in ("mknod", "mkdir", "unlink"))
    assert llite["open"][0] == truth["open"] + truth["create"] + truth.get("opendir", 0)
    assert llite["close"][0] == truth["release"] + truth.get("releasedir", 0)


@fuse
def test_two_file_systems_on_a_node_are_counted_apart(mount):
    node = mount("node1", "--fs", "my-home")
    shell("dd if=/dev/zero of=scratch/a bs=37 count=23 oflag=append; "
          "dd if=/dev/zero of=my-home/b bs=41 count=5 oflag=append",
          node)
    llite = node / "root" / DEBUGFS / "llite"
    assert [37, 37, 851] == counters_of(llite / f"scratch-{INSTANCE}/stats")["write_bytes"][2][:3]
    assert [41, 41, 205] == counters_of(llite / f"my-home-{INSTANCE}/stats")["write_bytes"][2][:3]
    assert {"scratch", "my-home", "root", "truth.json"} == set(os.listdir(node))
    with pytest.raises(OSError, match="cross-device"):
        os.rename(node / "scratch/a", node / "my-home/a")


@fuse
def test_two_nodes_share_the_files_but_not_the_counters(mount):
    first, second = mount("node1"), mount("node2", "--release", "2.17")
    (first / "scratch/file").write_bytes(b"x" * 37)
    assert b"x" * 37 == (second / "scratch/file").read_bytes()
    (second / "scratch/file").unlink()
    assert not (first / "scratch/file").exists()
    one = samples_of(first / "root" / DEBUGFS / LLITE / "stats")
    other = samples_of(second / "root" / DEBUGFS / LLITE / "stats")
    assert (1, None) == (one["write_bytes"], one.get("read_bytes"))
    assert (None, 1) == (other.get("write_bytes"), other["read_bytes"])


@fuse
def test_many_files_closed_at_once_are_all_counted(mount):
    """A program that ends closes its 151 files in the background, before anybody can look."""
    node = mount()
    subprocess.run([sys.executable, "-c", "import os\n"
                    "for i in range(151): os.open('f%d' % i, os.O_CREAT)"],
                   cwd=str(node / "scratch"), check=True)
    assert 151 == len(os.listdir(node / "scratch"))
    samples = samples_of(node / "root" / DEBUGFS / LLITE / "stats")
    assert 151 == samples["mknod"]
    assert samples["open"] == samples["close"]


@fuse
def test_an_open_file_can_be_removed_and_still_be_used(mount):
    node = mount()
    with open(node / "scratch/file", "w+b") as file:
        os.unlink(file.name)
        file.write(b"x" * 41)
        file.seek(0)
        assert 41 == len(file.read())
        assert 41 == os.fstat(file.fileno()).st_size
        assert [] == os.listdir(node / "scratch")
    samples = samples_of(node / "root" / DEBUGFS / LLITE / "stats")
    assert (1, None) == (samples["unlink"], samples.get("rename"))


@fuse
def test_appending_seeking_and_hard_links_work_as_in_any_file_system(mount):
    scratch = mount() / "scratch"
    shell("for i in 1 2 3; do echo line >> log; done; ln log log2; "
          "dd if=/dev/zero of=sparse bs=1k seek=1000 count=1; cp -a sparse sparse2", scratch)
    assert "line\n" * 3 == (scratch / "log2").read_text()
    assert os.stat(scratch / "log").st_ino == os.stat(scratch / "log2").st_ino
    assert (2, 1025024) == (os.stat(scratch / "log").st_nlink, os.stat(scratch / "sparse2").st_size)


@fuse
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_own_what_they_make_and_get_no_more_than_they_may(mount, tmp_path):
    """tmp_path is closed to others, so the user comes in by its working directory."""
    node = mount()
    (node / "scratch/roots").write_text("root's")
    (node / "root/proc").stat()

    def as_user():
        os.setgroups([])
        os.setgid(1041)
        os.setuid(1037)
    shell_of_user = functools.partial(subprocess.run, preexec_fn=as_user, check=True,
                                      stderr=subprocess.DEVNULL)
    shell_of_user(["bash", "-c", "echo mine > mine; mkdir directory; ! echo no > roots; "
                                 "! rm -f roots; ! mv roots mine"], cwd=str(node / "scratch"))
    for name in ("mine", "directory"):
        found = os.lstat(node / "scratch" / name)
        assert (1037, 1041) == (found.st_uid, found.st_gid)
    assert "root's" == (node / "scratch/roots").read_text()
    shell_of_user(["bash", "-c", f"cat {PROC}/{MDT0}/md_stats > /dev/null; "
                                 f"! cat {DEBUGFS}/{LLITE}/stats"], cwd=str(node / "root"))


@fuse
def test_counter_files_have_no_size_and_others_cannot_be_written(mount):
    root = mount() / "root"
    assert 0 == os.stat(root / DEBUGFS / LLITE / "stats").st_size
    with pytest.raises(PermissionError):
        (root / SYSFS / LLITE / "uuid").write_text("x")
    with pytest.raises(PermissionError):
        (root / "new").mkdir()


@fuse
def test_a_mount_ends_and_can_be_made_again(mount, tmp_path):
    node = mount()
    (node / "scratch/file").write_text("kept")
    pid = json.loads((node / "root/.sim.json").read_text())["pid"]
    uuid = (node / "root" / SYSFS / LLITE / "uuid").read_text()
    simlustre("--unmount", node)
    assert b"" == command_line_of(pid)
    assert [] == os.listdir(node)
    mount()
    assert "kept" == (node / "scratch/file").read_text()
    assert uuid != (node / "root" / SYSFS / LLITE / "uuid").read_text()


@fuse
def test_a_busy_mount_point_is_refused(mount, tmp_path):
    node = mount()
    done = simlustre("--backing", tmp_path / "backing", "--mount", node, "--fs", "scratch",
                     check=False)
    assert (1, f"simlustre: {node}: busy, a simlustre is mounted there already\n") \
        == (done.returncode, done.stderr)


@fuse
def test_no_error_was_logged_behind_the_users_back(mount, tmp_path):
    node = mount()
    shell("ls -la . scratch root; touch scratch/a; ! cat scratch/none; ! touch none; "
          "df scratch; find . -type f -exec cat {} + ", node)
    simlustre("--unmount", node)
    assert "" == (tmp_path / "backing/simlustre.log").read_text()
