"""
Simulated storage servers: the forms and places of their files, and that they count what clients do.

The forms are compared with job_stats and exports of real Lustre 2.16.1 and 2.17.57; the counts are
worked out by hand from what each test does.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from test_simlustre import counters_of, no_fuse, simlustre
from trees import shared

PROC, DEBUGFS, SYSFS = "proc/fs/lustre", "sys/kernel/debug/lustre", "sys/fs/lustre"
RELEASES = ["2.10", "2.12", "2.15", "2.16", "2.17"]
EXPORTS_IN = {"2.17": DEBUGFS}
CLEANUP_IN = {"2.10": PROC, "2.12": PROC}
NODE1, NODE2, MDS = "10.77.0.11@tcp", "10.77.0.12@tcp", "10.77.1.2@tcp"
OST0, OST1, MDT0 = "obdfilter/scratch-OST0000", "obdfilter/scratch-OST0001", "mdt/scratch-MDT0000"
fuse = pytest.mark.fuse


class Site:
    """An OSS with two OSTs, an MDS, and clients; `release`: of all of them."""

    def __init__(self, directory, release):
        self.directory, self.release, self.mounts = directory, release, []

    def server(self, name, *targets, nid="10.77.1.1@tcp", **options):
        return self._mount(name, "--server", name, "--nid", nid, *(
            word for target in targets for word in ("--target", f"scratch-{target}")), **options)

    def client(self, name, nid, *words, **options):
        return self._mount(name, "--backing", self.directory / "data", "--fs", "scratch",
                           "--nid", nid, *words, **options)

    def _mount(self, name, *words, **options):
        where = self.directory / name
        simlustre("--mount", where, "--network", self.directory / "net", "--release", self.release,
                  *words, *(word for option, value in options.items()
                            for word in (f"--{option.replace('_', '-')}", value)))
        self.mounts.insert(0, where)
        return where

    def close(self):
        for where in self.mounts:
            simlustre("--unmount", where, check=False)

    # -- what is where

    def root(self, target):
        return self.directory / ("mds1" if target.startswith("mdt") else "oss1") / "root"

    def job_stats(self, target=OST0):
        return self.root(target) / PROC / target / "job_stats"

    def exports(self, target=OST0):
        return self.root(target) / EXPORTS_IN.get(self.release, PROC) / target / "exports"

    def of_jobs(self, target=OST0):
        """{job id: {counter: (samples, sum or None)}} of those that are not 0."""
        return jobs_of(self.job_stats(target).read_text())

    def of_client(self, nid, target=OST0):
        """{counter: (samples, sum or None)} of one client."""
        return {name: (samples, numbers[2] if numbers else None) for name, (samples, _, numbers)
                in counters_of(self.exports(target) / nid / "stats").items()}


def jobs_of(text):
    found = {}
    for line in text.splitlines():
        named = re.fullmatch(r"- job_id: +(.*)", line)
        if named:
            counters = found.setdefault(named[1], {})
        counted = re.fullmatch(r"  (\w+): *\{ samples: +(\d+), unit: +\w+(.*) \}", line)
        if counted and counted[2] != "0":
            total = re.search(r"sum: *(\d+)", counted[3])
            counters[counted[1]] = int(counted[2]), int(total[1]) if total else None
    return found


@pytest.fixture(params=["2.17"])
def site(request, tmp_path):
    """A Site that runs, with node1 and node2."""
    if no_fuse():
        pytest.skip(no_fuse())
    one = Site(tmp_path, request.param)
    request.addfinalizer(one.close)
    one.server("oss1", "OST0000", "OST0001")
    one.server("mds1", "MDT0000", nid=MDS)
    one.node1 = one.client("node1", NODE1)
    one.node2 = one.client("node2", NODE2)
    return one


def each_release(test):
    return pytest.mark.parametrize("site", RELEASES, indirect=True)(fuse(test))


def do(node, script, job="4711", **environment):
    """Python in a job on a node, in its `scratch`; when all of it is counted."""
    environ = {"PATH": os.environ["PATH"], **environment, **({"SLURM_JOB_ID": job} if job else {})}
    subprocess.run([sys.executable, "-I", "-S", "-c", "import os\n" + script], check=True,
                   cwd=node / "scratch", env=environ)
    return truth(node)


def truth(node):
    """{job: {"asked": ..., "sent": ...}}; reading it comes after all that was asked before."""
    return json.loads((node / "truth_by_job.json").read_text())["scratch"]


def file_on(node, ost):
    """The name of a new, empty file whose first object is on that OST."""
    for number in range(100):
        name = f"file{number}"
        path = node / "scratch" / name
        if path.exists():
            continue
        path.touch()
        if path.stat().st_ino % 2 == ost:
            return name
    raise AssertionError("no inode number is odd, or even")


def form_of(text):
    """Each line with its numbers as N, blanks as they are: the shape and the names."""
    return re.sub(r"(?<![A-Za-z_])\d+(?=[ ,.\n}]|$)", "N", text)


def shape_of(text):
    """The same, and numbers that fill their column as wide as those that do not."""
    return re.sub(r" +N", " N", form_of(text))


# -- forms and places ----------------------------------------------------------------------------

@each_release
def test_each_release_has_its_files_where_lustre_has_them(site):
    release = site.release
    exports_in, cleanup_in = EXPORTS_IN.get(release, PROC), CLEANUP_IN.get(release, SYSFS)
    expected = {f"{SYSFS}/{name}" for name in ("version", "health_check", "jobid_var",
                                               "jobid_name")}
    for ost in (OST0, OST1):
        expected |= {f"{PROC}/{ost}/job_stats", f"{exports_in}/{ost}/stats",
                     f"{exports_in}/{ost}/exports/clear"}
        expected |= {f"{cleanup_in}/{ost}/{name}"
                     for name in ("job_cleanup_interval", "uuid", "num_exports")}
        expected |= {f"{exports_in}/{ost}/exports/{nid}/{name}"
                     for nid in (NODE1, NODE2) for name in ("stats", "uuid")}
        if release in ("2.16", "2.17"):
            expected.add(f"{SYSFS}/{ost}/eviction_count")
    root = site.root(OST0)
    assert expected | {".sim.json"} == {str(path.relative_to(root)) for path in root.rglob("*")
                                        if path.is_file()}
    assert "600\n" == (root / cleanup_in / OST0 / "job_cleanup_interval").read_text()
    assert (site.root(MDT0) / PROC / MDT0 / "md_stats").exists()
    assert "healthy\n" == (root / SYSFS / "health_check").read_text()


@each_release
def test_a_target_without_requests(site):
    """From 2.17 on the file is empty, before that it has its first line."""
    assert ("" if site.release == "2.17" else "job_stats:\n") == site.job_stats().read_text()
    assert {} == counters_of(site.exports() / NODE1 / "stats")


CAPTURES = {"2.16": ("2.16.1-server", "s02_after_w1"),
            "2.17": ("2.17.57-c", "s02_one_reads_the_others", "server")}


@pytest.mark.parametrize("site", CAPTURES, indirect=True)
@fuse
def test_the_forms_are_those_of_a_real_storage_server(site):
    """Entry for entry of job_stats and line for line of exports: names, order, blanks, units."""
    do(site.node1, WORK.format(name=file_on(site.node1, 0)))
    real = shared("captures", *CAPTURES[site.release])
    for target, captured in ((OST0, "obdfilter/lustre-OST0000"), (MDT0, "mdt/lustre-MDT0000")):
        ours = site.job_stats(target).read_text()
        theirs = (real / PROC / captured / "job_stats").read_text()
        assert one_entry(theirs) == one_entry(ours)
        lines = {line.split()[0]: line for path in (
            real / EXPORTS_IN.get(site.release, PROC) / captured / "exports").glob("*/stats")
            for line in shape_of(path.read_text()).splitlines()}
        known = 0
        for line in shape_of((site.exports(target) / NODE1 / "stats").read_text()).splitlines():
            if line.split()[0] in lines:
                assert lines[line.split()[0]] == line
                known += 1
        assert known >= 5, f"{target}: few lines to compare"


def one_entry(text):
    """The shape of the entries of a job_stats, which is that of each; without histograms' rows."""
    shapes = {re.sub(r"hist: \{.*?\}", "hist: {}", shape) for shape in
              shape_of(text.replace("job_stats:\n", "")).split("- job_id:")[1:]}
    shapes = {shape.partition("\n")[2].rstrip("\n") for shape in shapes}
    assert 1 == len(shapes), shapes
    return shapes.pop()


# -- counts --------------------------------------------------------------------------------------

# 23 writes of 1 MiB and 37 KiB; 41 reads of 4 KiB, all of other pages; 7 directories.
WORK = """
with open({name!r}, "r+b", buffering=0) as file:
    for _ in range(23):
        file.write(bytes(1 << 20))
    file.write(bytes(37 << 10))
    os.fsync(file.fileno())
    for number in range(41):
        os.pread(file.fileno(), 4096, number << 14)
for number in range(7):
    os.mkdir(f"directory{{number}}")
os.rename("directory0", "directory7")
os.rmdir("directory7")
"""


@each_release
def test_a_storage_server_counts_what_the_program_did(site):
    """
    23 MiB and 37 KiB are 5 full RPCs of 4 MiB, and one of 3 MiB and 37 KiB: 24,155,136 B.
    """
    name = file_on(site.node1, 0)
    before = site.of_client(NODE1, MDT0)
    sent = do(site.node1, WORK.format(name=name))["4711"]["sent"]
    times = 6 if site.release >= "2.15" else None
    found = site.of_jobs()["4711"]
    assert (6, 24_155_136) == found["write_bytes"]
    assert (41, 167_936) == found["read_bytes"]
    assert 1 == found["sync"][0]
    assert {"write_bytes", "read_bytes", "sync"} | ({"read", "write"} if times else set()) == set(
        found)
    client = site.of_client(NODE1)
    inside = {"preprw": (47, None), "commitrw": (47, None)} if site.release == "2.10" else {}
    assert {**found, **inside} == client
    assert {} == site.of_client(NODE2)
    assert [6, 24_155_136] == sent["OST0000"]["write_bytes"]
    assert [41, 167_936] == sent["OST0000"]["read_bytes"]

    found = {name: samples for name, (samples, _) in site.of_jobs(MDT0)["4711"].items()}
    expected = {"open": 1, "close": 1, "sync": 1, "mkdir": 7, "rename": 1, "samedir_rename": 1,
                "rmdir": 1}
    if site.release in ("2.16", "2.17"):
        expected["parallel_rename_dir"] = 1
    assert expected == {name: count for name, count in found.items() if name != "getattr"}
    client = site.of_client(NODE1, MDT0)
    assert expected == {
        name: client[name][0] - before.get(name, (0,))[0] for name in expected}
