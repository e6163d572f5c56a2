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
import time

import pytest
from harvest_desk import StorageDesk
from processes import until
from site_desk import SiteDesk
from storage import PATIENT
from test_simlustre import REPOSITORY, counters_of, no_fuse, simlustre
from trees import shared

from iostats.events.lnet_changes import compare_drops, read_health, read_lnet, read_peers
from iostats.events.server_reading import read_server

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


def started(directory, request, release="2.17"):
    """A Site with its storage servers, and no client."""
    if no_fuse():
        pytest.skip(no_fuse())
    one = Site(directory, release)
    request.addfinalizer(one.close)
    one.server("oss1", "OST0000", "OST0001")
    one.server("mds1", "MDT0000", nid=MDS)
    return one


@pytest.fixture(params=["2.17"])
def site(request, tmp_path):
    """A Site that runs, with node1 and node2."""
    one = started(tmp_path, request, request.param)
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
    return re.sub(r": *N|(?<!:) +N", lambda found: ": N" if ":" in found[0] else " N",
                  form_of(text))


# -- forms and places ----------------------------------------------------------------------------

@each_release
def test_each_release_has_its_files_where_lustre_has_them(site):
    release = site.release
    exports_in, cleanup_in = EXPORTS_IN.get(release, PROC), CLEANUP_IN.get(release, SYSFS)
    expected = {"dev/kmsg", "proc/sys/kernel/random/boot_id", *(
        f"{SYSFS}/{name}" for name in ("version", "health_check", "jobid_var", "jobid_name"))}
    lnet_in = "proc/sys/lnet" if release == "2.10" else "sys/kernel/debug/lnet"
    expected |= {f"{lnet_in}/{name}" for name in ("stats", "nis", "routers", "peers")}
    expected.add("run/iostats/lnetctl")
    for ost in (OST0, OST1):
        expected |= {f"{PROC}/{ost}/job_stats", f"{exports_in}/{ost}/stats",
                     f"{exports_in}/{ost}/exports/clear", f"{exports_in}/{ost}/recovery_status"}
        expected |= {f"{cleanup_in}/{ost}/{name}"
                     for name in ("job_cleanup_interval", "uuid", "num_exports", "instance")}
        expected |= {f"{exports_in}/{ost}/exports/{nid}/{name}"
                     for nid in (NODE1, NODE2) for name in ("stats", "uuid")}
        expected |= {f"{cleanup_in}/{ost.replace('obdfilter', 'osd-ldiskfs')}/{name}" for name in (
            "kbytestotal", "kbytesfree", "kbytesavail", "filestotal", "filesfree")}
        if release in ("2.16", "2.17"):
            expected.add(f"{SYSFS}/{ost}/eviction_count")
        name = ost.partition("/")[2]
        expected |= {f"{cleanup_in}/{ost}/{name}" for name in ("tot_granted", "tot_dirty")}
        expected |= {f"{SYSFS}/ldlm/namespaces/filter-{name}_UUID/{file}"
                     for file in ("lock_count", "lock_timeouts")}
        expected.add(f"{PROC if release in CLEANUP_IN else DEBUGFS}/osd-ldiskfs/{name}/brw_stats")
    is_oldest = release == "2.10"
    for service in ("ost", "ost_io"):
        expected |= {f"{PROC if is_oldest else SYSFS}/ost/OSS/{service}/{file}"
                     for file in ("threads_started", "threads_max")}
        expected |= {f"{PROC if is_oldest else DEBUGFS}/ost/OSS/{service}/{file}"
                     for file in ("stats", "nrs_policies")}
    root = site.root(OST0)
    assert expected | {".sim.json"} == {str(path.relative_to(root)) for path in root.rglob("*")
                                        if path.is_file()}
    assert "600\n" == (root / cleanup_in / OST0 / "job_cleanup_interval").read_text()
    assert (site.root(MDT0) / PROC / MDT0 / "md_stats").exists()
    ctl(site, "mds1", "changelog", "scratch-MDT0000", "41")
    [(user, behind)] = read_server(str(site.directory / "mds1/root")).targets[
        "scratch-MDT0000"].changelog_users.items()
    assert ("cl1", 41, None if release == "2.10" else 3600) == (user, *behind)
    assert "healthy\n" == (root / SYSFS / "health_check").read_text()
    # Without requests job_stats are empty from 2.17 on; before that they have their first line.
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


@pytest.mark.parametrize("release, target, sample", [
    ("2.10", "scratch-OST0000", "HewlettPackard__lustre_exporter/2.10.1/ost_job_stats.txt"),
    ("2.10", "scratch-MDT0000", "HewlettPackard__lustre_exporter/2.10.1/mdt_job_stats.txt"),
    ("2.12", "scratch-OST0000",
     "whamcloud__lustrefs-exporter/unknown-2.10-2.12/ost_job_stats_cp0.txt"),
], ids=["2.10 OST", "2.10 MDT", "2.12 OST"])
def test_the_forms_of_older_job_stats_are_those_of_real_ones(release, target, sample):
    from simlustre.counters import RELEASES as FORMS
    from simlustre.target import Target
    one = Target(target, FORMS[release], 1_795_225_320 * 10**9)
    one.connect(NODE1, "uuid")
    one.count(1_795_225_357 * 10**9, NODE1, "cp.0", [["read_bytes", 4096, 23], ["open", 37, 41]])
    real = shared("fixtures", sample).read_text().rstrip() + "\n"
    assert one_entry(real) == one_entry(one.job_stats().decode())


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


@fuse
def test_stripes_share_a_file_among_osts(tmp_path, request):
    """
    23 MiB in stripes of 1 MiB: 12 on the first OST, 11 on the other; by RPCs of 1 MiB.
    """
    site = started(tmp_path, request)
    node = site.client("node3", "10.77.0.13@tcp", stripe_count=2, rpc_size=1)
    sent = do(node, "open('file', 'wb', buffering=0).write(bytes(23 << 20))")["4711"]["sent"]
    first = (node / "scratch/file").stat().st_ino % 2
    for ost, count in ((first, 12), (1 - first, 11)):
        assert (count, count << 20) == site.of_jobs((OST0, OST1)[ost])["4711"]["write_bytes"]
        assert [count, count << 20] == sent[f"OST000{ost}"]["write_bytes"]
    # one object on each OST, and the 31 others that were made with it
    for ost in (OST0, OST1):
        assert 1 == site.of_client(MDS, ost)["create"][0]
    do(node, "os.unlink('file')")
    for ost in (OST0, OST1):
        assert 1 == site.of_client(MDS, ost)["destroy"][0]
        assert "destroy" not in site.of_jobs(ost)["4711"]


@fuse
def test_a_write_and_a_read_that_cross_a_stripe(tmp_path, request):
    """64 KiB stripes, 100 KiB at 37 KiB: 27 + 9 KiB on the first OST, 64 KiB on the other."""
    site = started(tmp_path, request)
    node = site.client("node3", "10.77.0.13@tcp", stripe_count=2, stripe_size=64)
    do(node, """
fd = os.open("file", os.O_RDWR | os.O_CREAT)
os.pwrite(fd, bytes(100 << 10), 37 << 10)
os.fsync(fd)
""")
    first = (node / "scratch/file").stat().st_ino % 2
    targets = (OST0, OST1)[first], (OST0, OST1)[1 - first]
    assert [(1, 36 << 10), (1, 64 << 10)] == [site.of_jobs(one)["4711"]["write_bytes"]
                                              for one in targets]
    assert [1, 1] == [site.of_jobs(one)["4711"]["sync"][0] for one in targets]


@fuse
def test_a_client_with_two_nids_is_two_clients(tmp_path, request):
    """Its connections to OST0000, OST0001 and MDT0000 are from each in turn."""
    site = started(tmp_path, request)
    site.client("node3", "10.77.0.13@tcp", "--nid", "fd00:172:16:11::5@tcp1")
    found = {target: set(os.listdir(site.exports(target))) - {"clear"}
             for target in (OST0, OST1, MDT0)}
    assert {OST0: {"10.77.0.13@tcp"}, OST1: {"fd00:172:16:11::5@tcp1"},
            MDT0: {"10.77.0.13@tcp"}} == found
    done = simlustre("--nid", "node3", "--mount", tmp_path / "x", "--fs", "scratch", check=False)
    assert (2, "simlustre: --nid 'node3': expected such as 10.77.0.11@tcp (see --help)\n") == (
        done.returncode, done.stderr)


@fuse
def test_an_mds_that_has_the_ost_itself_is_0_at_lo(tmp_path, request):
    if no_fuse():
        pytest.skip(no_fuse())
    site = Site(tmp_path, "2.17")
    request.addfinalizer(site.close)
    site.server("oss1", "OST0000", "MDT0000")
    node = site.client("node1", NODE1)
    do(node, "for number in range(37): open(str(number), 'w').close()")
    exports = site.root(OST0) / DEBUGFS / OST0 / "exports"
    assert {NODE1, "0@lo", "clear"} == set(os.listdir(exports))
    assert 2 == counters_of(exports / "0@lo/stats")["create"][0]        # of 32 objects each


# -- job ids -------------------------------------------------------------------------------------

JOB_IDS = [
    ("SLURM_JOB_ID", "%e.%u", "2.17", "4711"),
    ("PBS_JOBID", "%e.%u", "2.17", "4733.pbs01"),
    ("NOT_SET", "%e.%u", "2.17", "{comm}.{uid}"),
    ("NOT_SET", "%e.%u", "2.10", None),
    ("NOT_SET", "%H:%j:%g", "2.15", "node3::{gid}"),
    ("SLURM_JOB_ID", "%j@%h.%u", "2.16", "4711@node3.site.{uid}"),
    ("NOT_SET", "%j?%H", "2.17", "node3"),
    ("SLURM_JOB_ID", "%j?%H", "2.17", "4711"),
    ("NOT_SET", "%.3e %z%u", "2.17", "pyt{uid}"),
    ("procname_uid", "x", "2.12", "{comm}.{uid}"),
    ("nodelocal", "site1", "2.15", "site1"),
    ("nodelocal", "%e", "2.10", "%e"),
    ("LONG", "%e.%u", "2.17", "a" * 31),
    ("disable", "%e.%u", "2.17", None),
]


@pytest.mark.parametrize("var, name, release, expected", JOB_IDS)
def test_the_job_id_of_a_process(var, name, release, expected):
    """As lustre_get_jobid() makes it; %z is none of its letters, and a blank is left out."""
    from simlustre.jobid import JobIds
    environ = {"SLURM_JOB_ID": "4711", "PBS_JOBID": "4733.pbs01", "LONG": "a" * 37}
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "print(flush=True); input()"],
                          env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        found = JobIds(var, name, "node3.site", release).of_process(1009, 1013, process.pid)
        process.communicate(b"\n")
    comm = os.path.basename(sys.executable)[:15]
    assert (expected or "").format(comm=comm, uid=1009, gid=1013) == found


@fuse
def test_jobid_var_can_be_set_while_it_runs(site):
    (site.node1 / "root" / SYSFS / "jobid_var").write_text("nodelocal\n")
    (site.node1 / "root" / SYSFS / "jobid_name").write_text("%h-%j\n")
    do(site.node1, "os.mkdir('directory')")
    assert {"node1-"} == {job for job in site.of_jobs(MDT0) if "node" in job}


@fuse
def test_what_is_written_belongs_to_the_job_that_wrote_it(site):
    """Whoever closes the file: 37 KiB of 4711, which 4733 has opened, and inherits."""
    name = file_on(site.node1, 0)
    do(site.node1, f"""
import subprocess, sys
file = open({name!r}, "wb", buffering=0)
subprocess.run([sys.executable, "-I", "-S", "-c", "import os; os.write(1, bytes(37 << 10))"],
               stdout=file, env={{"SLURM_JOB_ID": "4711"}}, check=True)
""", job="4733")
    assert (1, 37 << 10) == site.of_jobs()["4711"]["write_bytes"]
    assert "write_bytes" not in site.of_jobs().get("4733", {})
    assert 1 == site.of_jobs(MDT0)["4733"]["open"][0]


# -- what happens to it --------------------------------------------------------------------------

def ctl(site, server, *words, check=True):
    return simlustre("--ctl", site.directory / server, *words, check=check)


WRITES = "open({name!r}, 'r+b', buffering=0).write(bytes({size}))"


@each_release
def test_clear_and_a_jobs_id_empty_job_stats(site):
    """`clear` removes all entries, an id its own; exports stay as they are."""
    name = file_on(site.node1, 0)
    for job in ("4711", "4712"):
        do(site.node1, WRITES.format(name=name, size=23), job)
    assert {"4711", "4712"} == set(site.of_jobs())
    site.job_stats().write_text("4711\n")
    assert {"4712"} == set(site.of_jobs())
    with pytest.raises(OSError):
        site.job_stats().write_text("4711\n")
    site.job_stats().write_text("clear\n")
    assert {} == site.of_jobs()
    assert (2, 46) == site.of_client(NODE1)["write_bytes"]
    do(site.node1, WRITES.format(name=name, size=37))
    assert (1, 37) == site.of_jobs()["4711"]["write_bytes"]


@each_release
def test_clearing_exports_keeps_those_of_mounted_clients(site):
    """node2 was unmounted: its directory goes; node1's begins anew, and so does the MDS's."""
    name = file_on(site.node1, 0)
    do(site.node1, WRITES.format(name=name, size=23))
    simlustre("--unmount", site.node2)
    assert (site.exports() / NODE2 / "stats").exists()
    with pytest.raises(OSError):
        (site.exports() / NODE2 / "uuid").read_text()
    (site.exports() / "clear").write_text("1")
    assert {NODE1, MDS, "clear"} == set(os.listdir(site.exports()))
    assert {} == site.of_client(NODE1)
    do(site.node1, WRITES.format(name=name, size=37))
    assert (1, 37) == site.of_client(NODE1)["write_bytes"]


@pytest.mark.parametrize("release", RELEASES)
def test_an_entry_expires_when_it_was_silent_and_somebody_looks(release):
    """
    600 s: 4711's last request was at 0, 4712's at 400.  A reader at 500 is too early for 4711; one
    at 601 removes it, and the next look is not before 901.
    """
    from simlustre.counters import RELEASES as FORMS
    from simlustre.target import Target
    second = 1_795_225_320 * 10**9
    target = Target("scratch-OST0000", FORMS[release], second)
    target.connect(NODE1, "uuid")

    def at(seconds, job=""):
        now = second + seconds * 10**9
        if job:
            target.count(now, NODE1, job, [["write_bytes", 37, 1]])
        else:
            target.expire(now)
        return set(jobs_of(target.job_stats().decode()))
    assert {"4711"} == at(0, "4711")
    assert {"4711", "4712"} == at(400, "4712")
    assert {"4711", "4712"} == at(500)
    assert {"4711", "4712"} == at(601)              # it was looked at 500: not before 800
    assert {"4712"} == at(801)
    assert {"4712", "4711"} == at(900, "4711")
    assert (1, 37) == jobs_of(target.job_stats().decode())["4711"]["write_bytes"]
    target.cleanup_s = 0
    assert {"4712", "4711"} == at(10_000)


@fuse
def test_a_readers_close_removes_what_was_silent(site):
    site.node1.joinpath("scratch", "file").touch()
    interval = site.root(MDT0) / SYSFS / MDT0 / "job_cleanup_interval"
    assert site.of_jobs(MDT0)
    interval.write_text("1\n")
    until(lambda: not site.of_jobs(MDT0), what="an empty job_stats")
    with pytest.raises(OSError):
        interval.write_text("soon\n")
    assert site.of_client(NODE1, MDT0)


@fuse
def test_a_restarted_target_begins_anew_and_nothing_is_counted_twice(site):
    name = file_on(site.node1, 0)
    do(site.node1, WRITES.format(name=name, size=23))
    ctl(site, "oss1", "restart", "scratch-OST0000")
    assert {} == site.of_jobs()
    assert {"clear"} == set(os.listdir(site.exports()))
    sent = do(site.node1, WRITES.format(name=name, size=37))["4711"]["sent"]
    assert (1, 37) == site.of_jobs()["4711"]["write_bytes"] == site.of_client(NODE1)["write_bytes"]
    assert [2, 60] == sent["OST0000"]["write_bytes"]
    assert {NODE1, "clear"} == set(os.listdir(site.exports()))


@fuse
def test_a_client_waits_for_a_stopped_target(site):
    name = file_on(site.node1, 0)
    ctl(site, "oss1", "stop", "scratch-OST0000")
    environ = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "4711"}
    with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "import os\n" + WRITES.format(name=name, size=41)
             + f"\nos.close(os.open({name!r}, os.O_RDONLY))"],
            cwd=site.node1 / "scratch", env=environ) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        ctl(site, "oss1", "start", "scratch-OST0000")
        assert 0 == process.wait(60)
    assert [1, 41] == truth(site.node1)["4711"]["sent"]["OST0000"]["write_bytes"]
    assert (1, 41) == site.of_jobs()["4711"]["write_bytes"]


@fuse
def test_a_target_fails_over_to_another_storage_server(site):
    """What comes after that is counted there, with its job_cleanup_interval."""
    name = file_on(site.node1, 0)
    do(site.node1, WRITES.format(name=name, size=23))
    (site.root(OST0) / SYSFS / OST0 / "job_cleanup_interval").write_text("37\n")
    ctl(site, "oss1", "failover", "scratch-OST0000", "mds1")
    assert not site.job_stats().exists()
    do(site.node1, WRITES.format(name=name, size=37))
    there = site.root(MDT0)
    assert (1, 37) == jobs_of((there / PROC / OST0 / "job_stats").read_text())["4711"][
        "write_bytes"]
    assert "37\n" == (there / SYSFS / OST0 / "job_cleanup_interval").read_text()
    assert "2\n" == (there / SYSFS / OST0 / "instance").read_text()
    ctl(site, "mds1", "failover", "scratch-OST0000", "oss1")
    assert "3\n" == (site.root(OST0) / SYSFS / OST0 / "instance").read_text()
    do(site.node1, WRITES.format(name=name, size=41))
    assert (1, 41) == site.of_jobs()["4711"]["write_bytes"]


@pytest.mark.parametrize("site", ["2.16", "2.17"], indirect=True)
@fuse
def test_an_evicted_client_loses_what_it_had_not_sent(site):
    """
    37 bytes were written and not sent: they are lost, and fsync says so.  Its counters stay, and
    the next write counts on them.
    """
    first, other = file_on(site.node1, 0), file_on(site.node1, 0)
    do(site.node1, WRITES.format(name=first, size=23))
    said = do(site.node1, f"""
import errno, subprocess
fd = os.open({first!r}, os.O_WRONLY)
os.write(fd, bytes(37))
subprocess.run({[sys.executable, '-m', 'simlustre', '--ctl', str(site.directory / 'oss1'),
                 'evict', NODE1, 'scratch-OST0000']!r}, check=True, cwd={str(REPOSITORY)!r})
try:
    os.fsync(fd)
except OSError as error:
    assert error.errno == errno.EIO
else:
    raise AssertionError
os.fsync(fd)
open({other!r}, "wb", buffering=0).write(bytes(41))
""")
    eviction_count = site.root(OST0) / SYSFS / OST0 / "eviction_count"
    assert "1\n" == eviction_count.read_text()
    assert (2, 64) == site.of_client(NODE1)["write_bytes"] == site.of_jobs()["4711"]["write_bytes"]
    assert [2, 64] == said["4711"]["sent"]["OST0000"]["write_bytes"]
    assert {"calls": 3, "bytes": 101} == said["4711"]["asked"]["write"]
    history = (site.node1 / "root" / (DEBUGFS if site.release == "2.17" else PROC)).glob(
        "osc/scratch-OST0000-*/state")
    assert "EVICTED" in next(history).read_text()
    assert "0\n" == (site.root(OST1) / SYSFS / OST1 / "eviction_count").read_text()


IMPOSSIBLE = {
    ("stop", "scratch-OST0007"): "scratch-OST0007: not on oss1; there are: scratch-OST0000, "
                                 "scratch-OST0001",
    ("evict", "10.9.9.9@tcp"): "10.9.9.9@tcp: not connected to scratch-OST0000, scratch-OST0001",
    ("failover", "scratch-OST0000", "oss7"): "no storage server 'oss7' answers",
    ("start", "scratch-OST0000"): "scratch-OST0000: was not stopped on oss1",
    ("stop",): "stop: expected stop TARGET: stop a target; its clients wait until it starts",
    ("dance",): "no command 'dance'; there are: stop, start, restart, failover, evict, health, "
                "fill, lnet, changelog, hsm, wait, quota, precreate",
    ("wait", "ost_ios", "41"): "wait ost_ios 41: expected wait SERVICE US: the time that each "
                               "request waits for a thread of ost_io, ost or mdt",
    ("hsm", "scratch-OST0000", "x", "7"): "scratch-OST0000: expected two numbers of requests, got "
                                          "x 7",
    ("quota", "scratch", "users", "4711", "1", "1"): "quota: expected quota FS user|group|project "
                                                     "ID HARD GRANTED: a limit, and what is "
                                                     "granted, in KiB"}


@fuse
def test_a_command_that_is_not_possible_says_why(site):
    for words, said in IMPOSSIBLE.items():
        done = ctl(site, "oss1", *words, check=False)
        assert (1, f"simlustre: {said}\n", "") == (done.returncode, done.stderr, done.stdout)


@fuse
def test_what_is_wrong_at_the_start_is_one_line(site):
    where = site.directory / "again"
    network = site.directory / "net"
    done = simlustre("--server", "oss1", "--mount", where, "--network", network, "--target",
                     "scratch-OST0005", check=False)
    assert 1 == done.returncode and "a storage server 'oss1' runs there already" in done.stderr
    done = simlustre("--server", "oss2", "--mount", where, "--network", network, "--target",
                     "scratch-OST0000", check=False)
    assert 1 == done.returncode and "scratch-OST0000: oss1 has it" in done.stderr
    done = simlustre("--backing", site.directory / "data", "--mount", where, "--fs", "home",
                     "--network", network, check=False)
    assert (1, f"simlustre: {network}: file system 'home' has 0 OSTs and 0 MDTs there; start its "
               "storage servers first (--server)\n") == (done.returncode, done.stderr)
    done = simlustre("--ctl", site.node1, "stop", "scratch-OST0000", check=False)
    assert (1, f"simlustre: {site.node1}: no simulated storage server is mounted there\n") == (
        done.returncode, done.stderr)
    ctl(site, "oss1", "health", "NOT", "HEALTHY")
    assert "NOT HEALTHY\n" == (site.root(OST0) / SYSFS / "health_check").read_text()


@fuse
def test_what_is_written_and_what_is_filled_is_not_free(site):
    """23 MiB, then 37 % of 1 TiB."""
    root = site.root(OST0)
    [free] = root.glob(f"*/fs/lustre/osd-ldiskfs/{OST0.rpartition('/')[2]}/kbytesfree")
    assert str(1 << 30) == free.read_text().strip()
    do(site.node1, WRITES.format(name=file_on(site.node1, 0), size=23 << 20))
    assert (1 << 30) - (23 << 10) == int(free.read_text())
    ctl(site, "oss1", "fill", "scratch-OST0000", "37")
    assert (1 << 30) - (1 << 30) * 37 // 100 - (23 << 10) == int(free.read_text())


@each_release
def test_lnet_has_its_files_as_they_are_read(site):
    """Messages of the clients; 41 that are dropped; a router that is down."""
    root = str(site.directory / "oss1/root")
    before = read_lnet(root)
    ctl(site, "oss1", "lnet", "dropped", "41")
    ctl(site, "oss1", "lnet", "down", "10.77.9.1@tcp")
    seen = read_lnet(root)
    assert ("", 41, {"10.77.9.1@tcp": False}) == (
        seen.why, compare_drops(before.stats, seen.stats).number, seen.routers)
    assert {"10.77.1.1@tcp": (True, 256, 0, 256, False)} == seen.interfaces
    ctl(site, "oss1", "lnet", "waiting", "41")
    ctl(site, "oss1", "lnet", "waiting", "23")
    assert {NODE1: (23, -41), NODE2: (23, -41)} == read_peers(root)
    assert before.stats.received > 0 and before.routers == {}
    ctl(site, "oss1", "lnet", "resent", "43")
    ctl(site, "oss1", "lnet", "health", "700")
    health, why = read_health(root, time.time())
    if health is None:                                  # up to 2.10
        assert "Lustre before 2.12 counts no resends" in why
    else:
        assert (43, {"10.77.1.1@tcp": 700}) == (health.resent, health.values)


# -- the real agent ------------------------------------------------------------------------------

@each_release
def test_the_agent_reads_it_as_a_storage_server(site, tmp_path):
    """harvest --list, and a sweep that a site's server takes: 23, 37 and 41 bytes of three jobs."""
    names = file_on(site.node1, 0), file_on(site.node1, 1)
    for job, size, name in (("4711", 23, names[0]), ("4712", 37, names[0]),
                            ("4713", 41, names[1])):
        do(site.node1, WRITES.format(name=name, size=size), job)
    (tmp_path / "desk").mkdir()
    with StorageDesk(tmp_path / "desk") as desk:
        desk.root = site.directory / "oss1/root"
        done = desk.client("harvest", "--list", "--root", desk.root)
        *lines, events = done.out.splitlines()
        assert ["scratch    OST0000  cleanup 600 s   2 entries; 3 clients",
                "scratch    OST0001  cleanup 600 s   1 entries; 3 clients"] == lines, done
        assert events.startswith("events: kernel log: kmsg; health_check: healthy; "
                                 "recovery_status of 2 of 2 targets; "), events
        taken = desk.site()
        done = desk.once()
        assert (0, "") == (done.status, done.err)
        found = {target: {job: counters["write_bytes"][1:5:3] for job, (_, _, counters)
                          in entries.items()} for (_, target), entries in taken.entries().items()}
    assert {"OST0000": {"4711": (1, 23), "4712": (1, 37)}, "OST0001": {"4713": (1, 41)}} == found


@fuse
def test_what_becomes_of_a_client_reaches_the_sites_server(site, tmp_path):
    """
    23 bytes; 37 after an eviction, which takes nothing from what was counted; 41 after a restart of
    the target: all are counted, and from then on something may be missing.
    """
    name = file_on(site.node1, 0)
    (tmp_path / "desk").mkdir()
    with SiteDesk(tmp_path / "desk") as desk:
        (desk.directory / "names").write_text(f"{NODE1} node1\n{NODE2} node2\n")
        desk.configure(harvest_interval=1, harvest_cpu_percent=100,
                       clients_names=desk.directory / "names")
        desk.site()
        for server in ("oss1", "mds1"):
            config = desk.directory / f"{server}.cfg"
            config.write_text(desk.text({**desk.choices,
                                         "harvest.spool_dir": desk.directory / server}))
            desk.started.append(subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", PATIENT, "harvest", "--root",
                 site.directory / server / "root", "--node", server, "--config", config],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

        def known():
            """{node: (bytes written, is it a lower bound)} since a time after the first sweeps."""
            done = desk.iostats("nodes", "-S", f"uts{known.since}", "--json")
            return {row["node"]: (row["write_bytes"], row["lower_bound"])
                    for row in json.loads(done.out)["nodes"]} if done.status == 0 else {}
        desk.wait_for_sweeps(1)
        known.since = int(time.time()) + 1
        until(lambda: desk.answer(level="e")["at"] > known.since, what="a sweep after that")
        do(site.node1, WRITES.format(name=name, size=23))
        until(lambda: known().get("node1") == (23, False), what=lambda: f"23 bytes, not {known()}")
        ctl(site, "oss1", "evict", NODE1)
        do(site.node1, f"open({name!r}, 'rb').read(1)")     # learns of it: nothing is lost
        do(site.node1, WRITES.format(name=name, size=37))
        until(lambda: known().get("node1") == (60, False), what=lambda: f"60 bytes, not {known()}")
        ctl(site, "oss1", "restart", "scratch-OST0000")
        do(site.node1, WRITES.format(name=name, size=41))
        until(lambda: known().get("node1") == (101, True), what=lambda: f"101 bytes, not {known()}")
        rows = desk.query(level="b", job="4711")
    assert [(101, True)] == [(row["write_bytes"], row["lower_bound"]) for row in rows]
