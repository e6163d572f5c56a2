"""
`iostats top` as its users start it: from saved dumps, and on trees of a storage server that change
between two readings.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from exports_kernel import NS, RELEASES, ExportsKernel
from processes import REPOSITORY, Done, put
from trees import shared

from iostats.cli.top import main
from iostats.load.amounts import METRICS

T = 1_795_225_380
MIB = 1 << 20
OST = "proc/fs/lustre/obdfilter/scratch-OST0000/job_stats"
MDT = "proc/fs/lustre/mdt/scratch-MDT0000/job_stats"


def entry(job, seen=1, start=0, **counters):
    """An entry as Lustre 2.15.8 prints it; name=(samples, unit, sum); times in s after T."""
    lines = [f"- job_id:          {job}", f"  snapshot_time:   {T + seen}.500000000 secs.nsecs"]
    if start is not None:
        lines += [f"  start_time:      {T + start}.250000000 secs.nsecs",
                  f"  elapsed_time:    {seen - start}.250000000 secs.nsecs"]
    for name, (samples, unit, total) in counters.items():
        lines.append(f"  {name + ':':<17}{{ samples: {samples:>11}, unit: {unit:>5}, min: "
                     f"{1:>8}, max: {total:>8}, sum: {total:>16}, sumsq: {total:>18} }}")
    return "\n".join(lines) + "\n"


def tree(root, k):
    """
    Write a storage server's tree after k rounds.  In each of them job 4711 has read 23 times a MiB,
    written 37 times a MiB, punched once, opened 41 times and renamed 7 times; cp.0 has written 5
    MiB: 37 + 23 + 1 + 41 + 7 = 109 requests, 48 of them to the MDT, and 5 of no job.
    """
    put(root, OST, "job_stats:\n" + entry(
        4711, k, read_bytes=(23 * k, "bytes", 23 * k * MIB), read=(23 * k, "usecs", 99),
        write_bytes=(37 * k, "bytes", 37 * k * MIB), write=(37 * k, "usecs", 99),
        punch=(k, "usecs", 9)) + entry("cp.0", k, write_bytes=(5 * k, "bytes", 5 * k * MIB)))
    put(root, MDT, "job_stats:\n" + entry(
        4711, k, open=(41 * k, "usecs", 99), rename=(7 * k, "usecs", 9),
        samedir_rename=(7 * k, "usecs", 9)))


def top(*arguments, env=None, **how):
    """Run `iostats top`; the Done."""
    done = subprocess.run(
        [sys.executable, "-m", "iostats", "top", *map(str, arguments)], capture_output=True,
        text=True, timeout=60, stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "TZ": "UTC",
             "LC_ALL": "C.UTF-8", "COLUMNS": "300", **(env or {})}, **how)
    return Done(done.returncode, done.stdout, done.stderr)


def dump(path, ost, mdt=""):
    """What `lctl get_param *.*.job_stats` printed."""
    path.write_text(f"obdfilter.scratch-OST0000.job_stats=\njob_stats:\n{ost}"
                    + (f"mdt.scratch-MDT0000.job_stats=\njob_stats:\n{mdt}" if mdt else ""))
    return path


# -- dumps -----------------------------------------------------------------------------------------

def test_a_dump_is_shown_as_totals_since_the_entries_began(tmp_path):
    """The whole text, on a wide and a narrow terminal: names are cut, numbers never."""
    dump(tmp_path / "dump", entry(
        4711, 700, read_bytes=(23, "bytes", 94208), write_bytes=(37, "bytes", 41 * 1024 * MIB),
        punch=(3, "usecs", 9)) + entry("kworker/13:2.0", 600, write_bytes=(7, "bytes", 5 * MIB)),
        entry(4711, 650, open=(53, "usecs", 99)) + entry("", 10, getattr=(11, "usecs", 9)))
    done = top("--statsfile", "dump", cwd=tmp_path)
    assert (0, "", """\
2026-11-21 01:54:40, totals since 01:43:00, by job, written first, dump
JOB             FS         WR_MiB  RD_MiB  REQS  META  USER
(all)           scratch  41,989.0     0.1   134    64
(no job)        scratch       5.0     0.0    18    11  13.4 % of requests
4711            scratch  41,984.0     0.1   116    53  -
kworker/13:2.0  scratch       5.0     0.0     7     0  (no job)
(empty)         scratch       0.0     0.0    11    11  (no job)
""") == (done.status, done.err, done.out)
    narrow = top("--statsfile", "dump", cwd=tmp_path, env={"COLUMNS": "40"})
    assert """\
2026-11-21 01:54:40, totals since
  01:43:00, by job, written first, dump
JOB              WR_MiB RD_MiB REQS META
(all)          41,989.0    0.1  134   64
(no job)            5.0    0.0   18   11
4711           41,984.0    0.1  116   53
kworker/13:2.0      5.0    0.0    7    0
(empty)             0.0    0.0   11   11
""" == narrow.out


def test_two_dumps_show_what_came_in_between(tmp_path):
    """60 s: 4711 has written 600 MiB more; 4712 began again (its start says so) and wrote 6 MiB."""
    before = dump(tmp_path / "before", entry(4711, 0, -50, write_bytes=(10, "bytes", 100 * MIB))
                  + entry(4712, 0, -900, write_bytes=(99, "bytes", 5 * MIB)))
    after = dump(tmp_path / "after", entry(4711, 60, -50, write_bytes=(70, "bytes", 700 * MIB))
                 + entry(4712, 59, 40, write_bytes=(120, "bytes", 6 * MIB)))
    done = top("--statsfile", before, after, "--json")
    answer = json.loads(done.out)
    assert (0, "rates", 60.0) == (done.status, answer["kind"], answer["span_s"])
    assert [("4711", 10 * MIB, 1.0), ("4712", 0.1 * MIB, 2.0)] == [
        (row["job"], row["write_bytes_per_s"], row["requests_per_s"]) for row in answer["rows"]]
    assert 5 * MIB == json.loads(top("--statsfile", before, after, "--json", "--every", "120").out)[
        "rows"][0]["write_bytes_per_s"]


def test_between_dumps_without_start_time_a_counter_that_went_back_is_the_proof(tmp_path):
    before = dump(tmp_path / "before", entry(4711, 0, None, write_bytes=(10, "bytes", 23 * MIB)))
    after = dump(tmp_path / "after", entry(4711, 20, None, write_bytes=(4, "bytes", 60 * MIB)))
    [row] = json.loads(top("--statsfile", before, after, "--json").out)["rows"]
    assert (3 * MIB, 0.2) == (row["write_bytes_per_s"], row["requests_per_s"])


_WENT = "1 entry removed or reset in between: its I/O before that is unknown"


@pytest.mark.parametrize("first, then, apart, why", [
    ((0, -900), (59, 40), 60, _WENT),
    ((0, None), (59, None), 60, _WENT),
    ((0, -900), None, 60, _WENT),
    ((-700, -900), None, 60, ""),
    ((0, -900), (59, -900), 60, ""),
    ((0, -900), (659, -900), 660,
     "660 s apart: I/O of entries that expired in between is unknown"),
], ids=["began again", "fell, no start_time", "gone", "expired", "went on", "far apart"])
def test_dumps_between_which_something_may_have_been_lost_make_lower_bounds(tmp_path, first, then,
                                                                            apart, why):
    """4712 is what it happens to; 4711 goes on."""
    def file(name, at, times, samples):
        one = {"write_bytes": (samples, "bytes", samples * MIB)}
        return dump(tmp_path / name, entry(4711, at, -950, write_bytes=(at + 1, "bytes", 37))
                    + (entry(4712, *times, **one) if times else ""))
    before = file("before", 0, first, 37)
    after = file("after", apart, then, 23 if then and then[1] is None else 41)
    answer = json.loads(top("--statsfile", before, after, "--json").out)
    assert [why] == [fs["missing"].get("OST0000", "") for fs in answer["file_systems"]]
    assert [bool(why)] == [fs["lower_bound"] for fs in answer["file_systems"]]


def test_dumps_of_one_moment_show_no_rate(tmp_path):
    """How long it took is not known: what came in is a sum."""
    before = dump(tmp_path / "before", entry(4711, 0, -5, write_bytes=(10, "bytes", 23 * MIB)))
    after = dump(tmp_path / "after", entry(4711, 0, -5, write_bytes=(11, "bytes", 60 * MIB)))
    done = top("--statsfile", before, after)
    assert "time between them unknown: --every S" in done.out.splitlines()[0]
    assert re.search(r"(?m)^4711 +scratch +37\.0 +0\.0 +1 +0$", done.out)


@pytest.mark.parametrize("nothing", ["", "job_stats:\n"], ids=["2.17", "up to 2.16"])
def test_a_dump_of_targets_without_a_job_is_one_of_nothing(tmp_path, nothing):
    """As after a clear: what is there later came in between; 2.17 prints no header then."""
    before = tmp_path / "before"
    before.write_text(f"obdfilter.scratch-OST0000.job_stats=\n{nothing}"
                      f"mdt.scratch-MDT0000.job_stats=\n{nothing}")
    after = dump(tmp_path / "after", entry(4711, 20, write_bytes=(37, "bytes", 23 * MIB)),
                 entry(4711, 20, open=(41, "usecs", 9)))
    done = top("--statsfile", before, after)
    assert (0, "") == (done.status, done.err) and ">=" not in done.out
    assert "I/O between the two (time between them unknown" in done.out
    assert re.search(r"(?m)^4711 +scratch +23\.0 +0\.0 +78 +41$", done.out)
    done = top("--statsfile", before)
    assert (0, "(no rows: no I/O yet)") == (done.status, done.out.splitlines()[-1])


def test_a_target_of_one_dump_alone_makes_lower_bounds(tmp_path):
    before = dump(tmp_path / "before", entry(4711, 0, write_bytes=(10, "bytes", 23 * MIB)))
    after = dump(tmp_path / "after", entry(4711, 20, write_bytes=(30, "bytes", 63 * MIB)),
                 entry(4711, 20, open=(41, "usecs", 9)))
    done = top("--statsfile", before, after)
    assert ">=2.0" in done.out and ">=1.0" in done.out
    assert f"note: scratch: MDT0000: not in {before}; numbers are lower bounds (>=)" in done.out


def test_a_damaged_entry_costs_that_entry_and_says_so(tmp_path):
    path = dump(tmp_path / "dump", entry(4711, write_bytes=(23, "bytes", 37 * MIB))
                + "- job_id:          4712\n  snapshot_time:   yesterday\n"
                + entry(4713, write_bytes=(41, "bytes", MIB)))
    done = top("--statsfile", path)
    assert 0 == done.status and ">=37.0" in done.out and ">=1.0" in done.out
    assert "note: scratch: OST0000: 1 entry not understood" in done.out


def test_a_real_dump_of_slurm_jobs():
    """2.14 of DDN: 16 entries of one OST; the largest is known by hand."""
    path = shared("fixtures", "whamcloud__lustrefs-exporter", "unknown-2.14-ddn",
                  "lctl_job_stats_ost_mdt_slurm.txt")
    answer = json.loads(top("--statsfile", path, "--json").out)
    found = {row["job"]: row for row in answer["rows"]}
    assert 16 == len(found)
    row = found["SLURM_JOB10:0:es18kxe-co-client"]
    assert (11025514496, 0, 861 + 85, 0) == (row["write_bytes"], row["read_bytes"],
                                             row["requests"], row["metadata"])
    assert 1.0 == answer["file_systems"][0]["no_job_share"]      # not of the form %j


CASES = {
    "ddn-quoted-ids.txt": {"74186": 4, "74187": 2, "74188": 1, "night copy.77": 1},
    "cut-ids.txt": {"7431234": 7, "74312344": 1, ":20417:r07c11": 1, ":20417:r07c11.hpc": 1,
                    ":431234:20417:r07c11": 1, "bash.20417": 1},
}


@pytest.mark.parametrize("name", CASES)
def test_public_reports_of_odd_ids(name):
    """Requests by job, one row each, worked out by hand; the program names what is no job."""
    answer = json.loads(top("--statsfile", shared("cases", name), "--json",
                            "--job-id", "%j:%u:%H").out)
    assert CASES[name] == {row["job"]: row["requests"] for row in answer["rows"]}
    assert len(CASES[name]) == len(answer["rows"])
    assert not any(row["lower_bound"] for row in answer["rows"])
    assert {job for job in CASES[name] if not job.isdigit()} == {
        row["job"] for row in answer["rows"] if not row["is_job"]}


def test_a_target_that_is_twice_in_a_dump_is_refused():
    done = top("--statsfile", shared("cases", "target-twice.txt"))
    assert 1 == done.status
    assert "got obdfilter.pf-OST0000.job_stats in line 1 and in line 7" in done.line


def test_quotes_are_judged_by_each_target_of_a_dump(tmp_path):
    """A dump of two storage servers: one kernel puts quotes around ids, the other none."""
    def one(job, requests):
        return (f"- job_id:          {job}\n  snapshot_time:   {T}\n"
                f"  punch:           {{ samples: {requests:>11}, unit:  reqs }}\n")
    dump(tmp_path / "dump", one("4711:0:a", 23) + one('"4711:0:b"', 37),
         one('"4711:0:b"', 41) + one("4712", 43))
    answer = json.loads(top("--statsfile", tmp_path / "dump", "--json", "--job-id", "%j:%u:%H").out)
    assert {("4711", True): 23 + 41, ('"4711:0:b"', False): 37, ("4712", True): 43} == {
        (row["job"], row["is_job"]): row["requests"] for row in answer["rows"]}


def test_a_real_dump_among_other_parameters():
    """EXAScaler 6.2: two empty OSTs, and an MDT with df.0 and bash.0."""
    path = shared("fixtures", "whamcloud__lustre-collector", "unknown-exa6.2",
                  "lctl_server_params_with_job_stats.txt")
    done = top("--statsfile", path)
    assert (0, "") == (done.status, done.err)
    assert re.search(r"(?m)^df\.0 +fs +0\.0 +0\.0 +1 +1 ", done.out)
    assert re.search(r"(?m)^bash\.0 +fs +0\.0 +0\.0 +2 +2 ", done.out)


# -- one storage server ----------------------------------------------------------------------------

def local(root, *arguments):
    """`top --local` on a tree that is one round old at its first look, and three at the others."""
    tree(root, 1)
    process = subprocess.Popen(
        [sys.executable, "-c", _TWO_LOOKS, str(root), "--local", "--root", str(root), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={
            "PATH": os.environ["PATH"], "TZ": "UTC", "COLUMNS": "80",
            "PYTHONPATH": ":".join([str(REPOSITORY), *sys.path])})
    out, err = process.communicate(timeout=60)
    return Done(process.returncode, out, err)


# The clock stands at 20 s between the looks, whatever the machine is busy with.
_TWO_LOOKS = """
import sys
from test_top import tree
from iostats.storage import local_load as on_server
from iostats.cli import top
looks = []
real = on_server.LocalLoad.scan
def scan(self):
    on_server.time.monotonic = lambda: 20.0 * len(looks)
    looks.append(1)
    if len(looks) == 2:
        tree(sys.argv[1], 3)
    return real(self)
on_server.LocalLoad.scan = scan
top.time.sleep = lambda s: None
sys.exit(top.main(sys.argv[2:]))
"""


def test_a_storage_server_shows_the_rates_between_two_looks(tmp_path):
    """Two rounds in 20 s: 109 x 2 / 20 = 10.9 requests a second of 4711, 4.8 to the MDT."""
    done = local(tmp_path, "--once")
    assert (0, "") == (done.status, done.err)
    lines = done.out.splitlines()
    assert "rates over 20 s, by job, written first" in lines[0]
    lines = lines[lines[1].startswith("  "):]               # where it was read from
    assert """\
JOB       FS       WR_MiB/S  RD_MiB/S  REQS/S  META/S  USER
(all)     scratch       4.2       2.3    11.4     4.8
(no job)  scratch       0.5       0.0     0.5     0.0  4.4 % of requests
4711      scratch       3.7       2.3    10.9     4.8  -
cp.0      scratch       0.5       0.0     0.5     0.0  (no job)
""".splitlines() == lines[1:]


def test_a_storage_server_by_its_targets(tmp_path):
    answer = json.loads(local(tmp_path, "--once", "--json", "--by", "target", "--sort",
                              "requests").out)
    assert [("OST0000", 6.6, 1, 0.5 / 6.6), ("MDT0000", 4.8, 1, 0.0)] == [
        (row["target"], row["requests_per_s"], row["jobs"], pytest.approx(row["no_job_share"]))
        for row in answer["rows"]]


def test_where_there_is_no_target_it_says_so_and_what_to_do(tmp_path):
    done = top("--local", "--root", tmp_path, "--once")
    assert 1 == done.status and "no OST or MDT here" in done.line
    assert "ask the site's server: iostats top" in done.line


def test_a_storage_server_needs_python_and_nothing_else(tmp_path):
    """No package is found with -S: neither rich nor numpy nor tabulate."""
    tree(tmp_path, 1)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from iostats.__main__ import main
sys.exit(main(["top", "--local", "--root", {str(tmp_path)!r}, "--once", "--every", "0.1"]))
"""], capture_output=True, text=True, timeout=60)
    assert (0, "") == (done.returncode, done.stderr)
    assert re.search(r"(?m)^\(all\) +scratch +0\.0", done.stdout)


# -- by node -----------------------------------------------------------------------------------

def test_a_real_dump_by_node():
    """
    Two clients of a 2.17.57, since it was started: c1 (.11) wrote for the last time in a loop of 8
    KiB, of which the MDT has seen 150 opens; c2 read 4 MiB with O_DIRECT, and a page before.
    """
    dump = shared("captures", "2.17.57-c", "s09_killed_and_evicted", "server", "lctl.root")
    done = top("--by", "node", "--statsfile", dump, "--json")
    assert (0, "") == (done.status, done.err)
    answer = json.loads(done.out)
    rows = by_node(answer)
    assert {"10.77.0.11@tcp", "10.77.0.12@tcp"} == set(rows) and {} == answer["missing"]
    assert 4 * MIB <= rows["10.77.0.12@tcp"][1] < 5 * MIB and 150 * 8192 < rows["10.77.0.11@tcp"][0]
    assert 150 <= rows["10.77.0.11@tcp"][3] and answer["began"] < answer["at"]


ONE, OTHER = "10.0.0.1@o2ib", "fd00:172:16:11::5@tcp"


class Exports:
    """One OST and one MDT with three clients, of which two do something in each round."""

    def __init__(self, release="2.17", now=T * NS):
        self.kernels = [ExportsKernel(release, kind, now) for kind in ("OST", "MDT")]
        for kernel in self.kernels:
            for nid in (ONE, OTHER, "10.0.0.9@tcp", "0@lo"):
                kernel.mount(now, nid, nid)

    def work(self, now):
        """ONE writes 23 MiB in 23 requests and opens 41 files, OTHER reads 37 MiB in 37."""
        ost, mdt = self.kernels
        ost.write(now, ONE, MIB, 23)
        ost.read(now, OTHER, MIB, 37)
        ost.write(now, "0@lo", MIB, 5)
        mdt.request(now, ONE, "open", 41)

    def save(self, now, root):
        for kernel in self.kernels:
            kernel.save(now, root)

    def dump(self, now, path):
        """As `lctl get_param *.*.exports.*.stats` prints them."""
        path.write_text("".join(
            f"{place}.{kernel.file_system}-{kernel.target}.exports.{nid}.stats=\n"
            f"{kernel.text(now, nid).decode()}"
            for kernel, place in zip(self.kernels, ("obdfilter", "mdt")) for nid in kernel.nids))
        return path


def by_node(answer):
    """{node: (written, read, requests, metadata)}, and whether it is a lower bound."""
    suffix = "_per_s" if answer["kind"] == "rates" else ""
    return {row["node"]: (*(row[name + suffix] for name in METRICS), row["lower_bound"])
            for row in answer["rows"]}


@pytest.mark.parametrize("release", RELEASES)
def test_a_dump_of_exports_by_node(tmp_path, release):
    """All since the files began; the storage server itself stands apart."""
    exports = Exports(release)
    exports.work((T + 1) * NS)
    done = top("--by", "node", "--statsfile", exports.dump((T + 2) * NS, tmp_path / "dump"),
               "--json")
    assert (0, "") == (done.status, done.err)
    answer = json.loads(done.out)
    assert {ONE: (23 * MIB, 0, 64, 41, False), OTHER: (0, 37 * MIB, 37, 0, False)} == by_node(
        answer)
    assert "totals" == answer["kind"] and {} == answer["missing"]
    assert 5 * MIB == answer["file_systems"][0]["storage_servers"]["write_bytes"]
    with_y = tmp_path / "y"                     # as `lctl get_param -y` prints it
    with_y.write_text((tmp_path / "dump").read_text().replace(".stats=\n", ".stats: "))
    assert answer == json.loads(top("--by", "node", "--statsfile", with_y, "--json").out)


@pytest.mark.parametrize("release", RELEASES)
def test_two_dumps_of_exports_by_node_are_the_io_between(tmp_path, release):
    """Two rounds in 20 s."""
    exports = Exports(release)
    exports.work((T + 1) * NS)
    before = exports.dump((T + 10) * NS, tmp_path / "before")
    for _ in range(2):
        exports.work((T + 11) * NS)
    after = exports.dump((T + 30) * NS, tmp_path / "after")
    answer = json.loads(top("--by", "node", "--json", "--statsfile", before, after).out)
    assert ("rates", 20.0) == (answer["kind"], answer["span_s"])
    assert {ONE: (2.3 * MIB, 0, 6.4, 4.1, False), OTHER: (0, 3.7 * MIB, 3.7, 0, False)} == {
        node: pytest.approx(values) for node, values in by_node(answer).items()}


@pytest.mark.parametrize("release", ["2.12", "2.17"])
def test_what_was_cleared_between_two_dumps_is_a_lower_bound(tmp_path, release):
    exports = Exports(release)
    exports.work((T + 1) * NS)
    before = exports.dump((T + 10) * NS, tmp_path / "before")
    exports.kernels[0].clear((T + 15) * NS)
    exports.kernels[0].write((T + 16) * NS, ONE, MIB, 3)
    after = exports.dump((T + 30) * NS, tmp_path / "after")
    answer = json.loads(top("--by", "node", "--json", "--statsfile", before, after).out)
    assert pytest.approx((3 * MIB / 20, 0, 3 / 20, 0, True)) == by_node(answer)[ONE]


def test_a_dump_without_exports_says_what_is_expected(tmp_path):
    (tmp_path / "dump").write_text("obdfilter.scratch-OST0000.job_stats=\njob_stats:\n")
    done = top("--by", "node", "--statsfile", tmp_path / "dump")
    assert 1 == done.status and "expected the output of `lctl get_param *.*.exports.*.stats` for " \
        "--by node, got no client's counters" in done.line


@pytest.mark.parametrize("torn", [b"obdfilter.scratch-OST0000.exports.10.0.0.1@tcp.stats=\nsnap",
                                  b"obdfilter.scratch-OST0000.exports.10.0.0.1@tcp.stats=\n\xff\0"])
def test_a_torn_dump_of_exports_is_a_lower_bound(tmp_path, torn):
    exports = Exports()
    exports.work((T + 1) * NS)
    path = exports.dump((T + 2) * NS, tmp_path / "dump")
    path.write_bytes(path.read_bytes() + b"# another command\nversion=2.17.0\n" + torn)
    done = top("--by", "node", "--statsfile", path)
    assert (0, "") == (done.status, done.err)
    assert ">=23.0" in done.out and "note: scratch: OST0000: not understood: " in done.out


def test_a_storage_server_by_node_between_two_looks(tmp_path):
    """Two rounds in 20 s, as ONE and OTHER; job_stats know nothing of them."""
    process = subprocess.Popen(
        [sys.executable, "-c", _TWO_LOOKS.replace("from test_top import tree", _EXPORTS_TREE),
         str(tmp_path), "--local", "--root", str(tmp_path), "--once", "--by", "node", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={
            "PATH": os.environ["PATH"], "TZ": "UTC",
            "PYTHONPATH": ":".join([str(REPOSITORY), *sys.path])})
    out, err = process.communicate(timeout=60)
    assert (0, "") == (process.returncode, err)
    answer = json.loads(out)
    assert {ONE: (2.3 * MIB, 0, 6.4, 4.1, False), OTHER: (0, 3.7 * MIB, 3.7, 0, False)} == {
        node: pytest.approx(values) for node, values in by_node(answer).items()}
    assert {} == answer["missing"]


_EXPORTS_TREE = """
import time
from test_top import NS, Exports, T
import test_top
exports = Exports(now=time.time_ns() - 60 * NS)
exports.work(time.time_ns() - 50 * NS)
def tree(root, k):
    test_top.tree(root, 1)
    for _ in range(k - 1):
        exports.work(time.time_ns())
    exports.save(time.time_ns(), root)
tree(sys.argv[1], 1)
"""


def test_where_exports_cannot_be_read_it_says_so(tmp_path):
    tree(tmp_path, 1)
    done = top("--local", "--root", tmp_path, "--once", "--by", "node", "--every", "0.1")
    assert 1 == done.status and "exports: No such file or directory" in done.line


# -- what cannot be --------------------------------------------------------------------------------

@pytest.mark.parametrize("content, why", [
    (None, "No such file"), (b"", "got an empty file"), (b"\x7fELF" + bytes(range(256)) * 999,
                                                         "got something else"),
    (b"job_stats:\n- job_id: 4711\n  snapshot_time: \xff\x00\n", 'expected "snapshot_time'),
    (b"<html>job_stats</html>", "expected")], ids=["missing", "empty", "binary", "torn", "html"])
def test_a_file_that_is_no_dump_is_one_line_and_1(tmp_path, content, why):
    path = tmp_path / "dump"
    if content is not None:
        path.write_bytes(content)
    done = top("--statsfile", path)
    assert (1, "") == (done.status, done.out) and why in done.line and str(path) in done.line


def test_dumps_in_the_wrong_order_are_said(tmp_path):
    old = dump(tmp_path / "old", entry(4711, 0, write_bytes=(10, "bytes", 23)))
    new = dump(tmp_path / "new", entry(4711, 60, write_bytes=(10, "bytes", 23)))
    assert "expected the older file first" in top("--statsfile", new, old).line


@pytest.mark.parametrize("arguments, why", [
    (("--by", "disk"),
     "--by: expected job, user, node, storage-server, target, fs, lnet, got 'disk'"),
    (("--sort", "name"), "--sort: expected write, read, requests, metadata, got 'name'"),
    (("--limit", "0"), "--limit: expected a number from 1 to 10000"),
    (("--every", "-1"), "--every: expected seconds"), (("--every", "nan"), "--every: expected"),
    (("--root", "/x"), "--root: expected --local with it"),
    (("--job-id", "%j"), "--job-id: expected --local or --statsfile with it"),
    (("--local", "--statsfile", "x"), "expected --local or --statsfile, got both"),
    (("--local", "--user", "alice"), "--user: expected the site's server to ask, got --local"),
    (("--statsfile", "x", "--by", "user"), "--by user: expected the site's server to ask"),
    (("--statsfile", "a", "b", "c"), "expected one file or two, got 3"),
    (("--local", "--job-id", "%u"), "--job-id: expected a form such as"),
    (("--bogus",), "unrecognized arguments: --bogus")])
def test_bad_usage_is_one_line_and_2(capsys, arguments, why):
    status = main(list(arguments))
    out, err = capsys.readouterr()
    assert (2, "") == (status, out) and why in Done(status, out, err).line


def test_a_server_that_is_not_there_is_one_line_and_3(tmp_path):
    config = tmp_path / "site.cfg"
    config.write_text("")
    done = top("--config", config, "--once")
    assert (3, "iostats: no site server is named ([site] host in site.cfg)") == (
        done.status, done.line)


def test_a_closed_pipe_is_no_error(tmp_path):
    ids = "".join(entry(4700 + number, write_bytes=(23, "bytes", MIB)) for number in range(3000))
    path = dump(tmp_path / "dump", ids)
    done = subprocess.run(
        ["/bin/bash", "-c", 'set -o pipefail; "$@" | head -1', "sh", sys.executable, "-m",
         "iostats", "top", "--statsfile", path, "--limit", "3000"], capture_output=True, text=True,
        timeout=60, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)})
    assert (0, "") == (done.returncode, done.stderr) and 1 == len(done.stdout.splitlines())
