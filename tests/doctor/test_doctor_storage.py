"""
`iostats_client.py doctor` on a storage server: what is in the way of the harvest, and the command
that fixes it.

From outside: processes, a desk's directories with job_stats, and a real agent and server.
"""

import os
import shutil
import subprocess
import tempfile

import pytest
from exports_kernel import ExportsKernel
from harvest_desk import StorageDesk, a_job
from processes import CLIENT, put, until
from site_desk import SiteDesk
from test_client import python_for_nobody
from test_reader_client import as_user
from trees import samples

LIST = "iostats_client.py harvest --list"
START = "systemctl enable --now iostats-harvest.service"
JOBID = "lctl get_param jobid_var"
CLIENTS_DECIDE = ("; compute nodes decide which job id their I/O carries (jobid_var; to set it on "
                  "all, on the MGS: lctl set_param -P jobid_var=SLURM_JOB_ID); on a compute node")


@pytest.fixture
def desk(tmp_path):
    with StorageDesk(tmp_path) as one:
        one.choices["node.reader"] = ""
        yield one


def doctor(desk, root=None, env=None, **choices):
    """{name: (state, text, fix)} of a run; `choices`: section_key=value."""
    config = desk.directory / "doctor.cfg"
    config.write_text(SiteDesk.text({**desk.choices, **{
        name.replace("_", ".", 1): value for name, value in choices.items()}}))
    done = desk.client("doctor", "--json", "--root", root or desk.root, "--config", config,
                       job=False, env=env)
    assert "" == done.err
    checks = {one["name"]: (one["state"], one["text"], one["fix"] or one["check"])
              for one in done.record["checks"]}
    assert any(state == "problem" for state, _, _ in checks.values()) is bool(done.status)
    return checks


def test_a_storage_server_that_is_harvested_has_no_problem(desk):
    """Two file systems, an agent, and the site's server."""
    with desk.site() as site:
        desk.show([a_job(0), a_job(1)])
        desk.show([a_job(2)], "OST0001")
        desk.show([a_job(3, name="cp.0")], "MDT0000", "home")
        agent = desk.begin()
        until(lambda: site.messages and not desk.waiting(), what="a sweep")
        checks = doctor(desk)
    assert ("ok", "home: MDT0000; scratch: OST0000 and 1 more", "") == checks["targets"]
    assert ("ok", "3 in /proc/fs/lustre/mdt, /proc/fs/lustre/obdfilter; 4 entries", "") == (
        checks["job_stats"])
    assert ("ok", "3 of 4 entries are of jobs (%j)", "") == checks["job ids"]
    assert ("ok", "job_cleanup_interval 600 s, a sweep every 1 s", "") == checks["cleanup"]
    assert ("ok", f"process {agent.process.pid} harvests", "") == checks["agent"]
    assert "ok" == checks["spool"][0]
    assert ("ok", f"127.0.0.1:{desk.port} is the site's server", "") == checks["site"]


def test_a_node_that_is_no_storage_server_gets_no_line(desk):
    assert set() == {"targets", "job_stats", "job ids", "cleanup", "agent", "spool"} & set(
        doctor(desk))


@pytest.mark.parametrize("tree", samples("captures", "2.16.1-server/s02*"))
def test_a_real_server_whose_clients_tagged_programs(desk, tree):
    """Its own jobid_var is disable, which is not what its clients use."""
    checks = doctor(desk, tree)
    assert ("ok", "lustre: MDT0000 and 2 more", "") == checks["targets"]
    assert ("note", f"none of 7 entries is of a job now (%j){CLIENTS_DECIDE}", JOBID
            ) == checks["job ids"]


@pytest.mark.parametrize("tree", samples("captures", "2.16.1-server/s04*"))
def test_a_real_server_whose_clients_tagged_jobs(desk, tree):
    """6 of 13 entries are of jobs 4711 and 4712, whatever the server's own jobid_var is."""
    assert ("ok", "6 of 13 entries are of jobs (%j)", "") == doctor(desk, tree)["job ids"]


@pytest.mark.parametrize("data, variable", [
    (b"", "disable\n"), (b"job_stats:\n", "procname_uid\n"), (b"", "")],
    ids=["disable", "by name, and idle", "not shown"])
def test_job_stats_without_an_entry_prove_nothing(desk, data, variable):
    """Entries expire, and the server's own jobid_var is for its own processes."""
    desk.show(data)
    if variable:
        (desk.root / "proc/fs/lustre/jobid_var").write_text(variable)
    assert ("note", f"no entries now{CLIENTS_DECIDE}", JOBID) == doctor(desk)["job ids"]


@pytest.mark.parametrize("is_root", [True, False], ids=["root", "a user"])
def test_devices_of_an_mdt_are_no_mount_of_a_client(desk, is_root):
    """osc/scratch-OST0000-osc-MDT0000 is a link to the MDT's own device, which root may read."""
    desk.show([a_job(0)], "MDT0000")
    for number in range(3):
        name = f"scratch-OST000{number}-osc-MDT0000"
        for place in ("sys/fs/lustre", "sys/kernel/debug/lustre"):
            directory = desk.root / place / "osc" / name
            directory.mkdir(parents=True)
        (directory / "stats").write_text("snapshot_time 1795168807.000000041 secs.nsecs\n"
                                         "obd_ping 23 samples [usecs] 37 41 900\n")
    closed = desk.root / "sys/kernel/debug/lustre/osc"
    if not is_root:
        shutil.rmtree(closed)
        closed.symlink_to(closed)           # neither root nor a user can list it
    checks = doctor(desk)
    assert ("note", "no Lustre file system is mounted", "") == checks["lustre"]
    assert not {"osc", "release"} & set(checks)


def test_ids_of_another_form_are_no_jobs(desk):
    """Until site.cfg says how they look."""
    desk.show([a_job(0, name="4711:1000:nid00023")])
    assert ("note", f"none of 1 entries is of a job now (%j){CLIENTS_DECIDE}", JOBID) == (
        doctor(desk)["job ids"])
    assert ("ok", "1 of 1 entries are of jobs (%j:%u:%H)", "") == doctor(
        desk, harvest_job_id="%j:%u:%H")["job ids"]
    state, text, fix = doctor(desk, harvest_job_id="%u")["job ids"]
    assert ("problem", "iostats config --check") == (state, fix)
    assert "[harvest] job_id: expected a form such as %j" in text


@pytest.mark.parametrize("intervals, every, expected", [
    ((600, 0), 0, ("note", "job_cleanup_interval 0, 600 s, a sweep every 200 s: with 0 no entry "
                   "expires, and job_stats only grow", "lctl set_param *.*.job_cleanup_interval=600"
                   )),
    ((600, 90), 41, ("note", "job_cleanup_interval 90, 600 s, a sweep every 25 s: [harvest] "
                     "interval = 41: expected at most 30 s, a third of the smallest "
                     "job_cleanup_interval",
                     "lctl set_param *.*.job_cleanup_interval=123")),
    ((600, 600), 20, ("ok", "job_cleanup_interval 600 s, a sweep every 20 s", "")),
], ids=["never", "too short", "good"])
def test_the_cleanup_interval_against_the_pause(desk, intervals, every, expected):
    for number, interval in enumerate(intervals):
        desk.show([a_job(0)], f"OST000{number}", cleanup_s=interval)
    assert expected == doctor(desk, harvest_interval=every)["cleanup"]


def test_an_interval_that_is_not_shown(desk):
    desk.show([a_job(0)], cleanup_s=None)
    state, text, _ = doctor(desk)["cleanup"]
    assert ("note", "scratch-OST0000: job_cleanup_interval not shown; totals will be marked; a "
                    "sweep every 1 s") == (state, text)


def test_file_systems_that_are_not_here(desk):
    """A typo, or its targets are on the other server of a pair just now."""
    desk.show([a_job(0)])
    checks = doctor(desk, harvest_file_systems="scratc")
    assert ("note", "none of 'scratc' ([harvest] file_systems) now; there are: scratch: OST0000",
            LIST) == checks["targets"]
    assert "job_stats" not in checks


def test_entries_that_are_not_understood(desk):
    desk.show(b"job_stats:\n- job_id:          4711\n  snapshot_time:   soon\n")
    checks = doctor(desk)
    state, text, fix = checks["job_stats"]
    assert ("problem", LIST) == (state, fix) and "job ids" not in checks
    assert text.startswith("1 of 1 entries not understood, the first: ")
    assert "job '4711': expected \"snapshot_time: <seconds>\", got 'snapshot_time: soon'" in text


def test_a_container_sees_the_target_and_not_its_job_stats(desk):
    """/sys is there, /proc/fs/lustre is not."""
    path = desk.show([a_job(0)], place="sys/fs/lustre")
    path.unlink()
    assert ("problem", f"1 of 1 not read: {path}: No such file or directory",
            "nsenter -t 1 -m iostats_client.py doctor" if os.geteuid() == 0 else
            "sudo iostats_client.py doctor") == doctor(desk)["job_stats"]


# -- the agent and its directory ------------------------------------------------------------------

def test_no_agent_and_a_backlog(desk):
    """The site's server is away, and so is the agent."""
    desk.show([a_job(0)])
    desk.once(node_retry_timeout=0)
    desk.once(node_retry_timeout=0)
    checks = doctor(desk)
    assert ("note", f"none harvests by way of {desk.spool}", START) == checks["agent"]
    state, text, fix = checks["spool"]
    assert ("note", START) == (state, fix)
    assert text.startswith(f"{desk.spool}: 2 messages wait, 8192 of at most 67108864 bytes, the "
                           f"oldest for ")
    assert "systemctl start iostats-site.service" == checks["site"][2]
    assert 2 == len(desk.waiting())


def test_a_backlog_that_will_soon_be_too_long(desk):
    desk.show([a_job(0)])
    for _ in range(3):
        desk.once(node_retry_timeout=0)
    for path in desk.spool.glob("*.message"):
        path.write_bytes(b"x" * 200_000)
    state, text, fix = doctor(desk, harvest_spool_bytes=1 << 20)["spool"]
    assert ("problem", START) == (state, fix)
    assert "3 messages wait, 600000 of at most 1048576 bytes" in text
    assert text.endswith("; then the oldest are dropped")


def test_a_spool_that_others_can_enter(desk):
    """The command is the fix."""
    desk.show([a_job(0)])
    desk.spool.mkdir()
    desk.spool.chmod(0o755)
    state, text, fix = doctor(desk)["spool"]
    assert ("problem", f"chmod 700 {desk.spool}") == (state, fix)
    assert "mode 0700" in text and "0755" in text
    subprocess.run(fix, shell=True, check=True)
    assert "ok" == doctor(desk)["spool"][0]


def test_a_spool_that_is_a_link(desk):
    desk.show([a_job(0)])
    desk.spool.symlink_to(desk.directory)
    state, _, fix = doctor(desk)["spool"]
    assert ("problem", f"mv {desk.spool} {desk.spool}.old") == (state, fix)


def test_a_spool_that_is_not_there_yet_is_not_made(desk):
    desk.show([a_job(0)])
    assert ("ok", f"{desk.spool}: nothing waits", "") == doctor(desk)["spool"]
    assert not desk.spool.exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_what_is_roots_is_no_problem_of_an_ordinary_user():
    """It says where to look as root; below /tmp, because pytest's own directory is closed."""
    with tempfile.TemporaryDirectory(prefix="iostats-test-", dir="/tmp") as directory:
        os.chmod(directory, 0o755)
        with StorageDesk(directory) as desk:
            desk.show([a_job(0)])
            desk.once(node_retry_timeout=0)
            (desk.directory / "doctor.cfg").write_text(SiteDesk.text(desk.choices))
            done = subprocess.run(
                [*as_user(65_534), python_for_nobody(), "-I", "-S", CLIENT, "doctor", "--root",
                 desk.root, "--config", desk.directory / "doctor.cfg"], env={"HOME": "/"}, cwd="/",
                capture_output=True, text=True)
            assert "" == done.stderr
            assert (f"note     spool: {desk.spool}: of the user who harvests\n"
                    f"         check: sudo iostats_client.py doctor\n") in done.stdout
            assert "ok       job_stats: 1 in /proc/fs/lustre/obdfilter; 1 entries\n" in done.stdout
            assert "\nproblem " not in done.stdout


# -- the site's server -------------------------------------------------------------------------

def test_no_site_server_is_named(desk):
    desk.show([a_job(0)])
    assert ("note", "no server named: give it to `harvest`, or set [site] host in site.cfg", ""
            ) == doctor(desk, site_host="")["site"]


def test_another_secret_of_the_site_is_fetched_from_its_server(desk):
    desk.show([a_job(0)])
    other = desk.directory / "other.secret"
    other.write_text("f" * 64)
    other.chmod(0o600)
    with desk.site():
        assert ("problem", f"127.0.0.1:{desk.port}: the site's server has another secret",
                f"scp -p 127.0.0.1:{other} {other}") == doctor(desk, site_secret=other)["site"]


def test_a_port_and_brackets_in_site_host_are_understood(desk):
    """As the agent understands them."""
    desk.show([a_job(0)])
    with desk.site():
        assert "ok" == doctor(desk, site_host=f"127.0.0.1:{desk.port}", site_port=1)["site"][0]
    assert ("problem", f"::1:{desk.port}: Connection refused") == doctor(
        desk, site_host="[::1]")["site"][:2]
    assert doctor(desk, site_host="admin1:x")["configuration"][:2] == (
        "problem", f"{desk.directory}/doctor.cfg:2: [site] host: expected HOST or HOST:PORT, got "
                   "'admin1:x'")


# -- clients -----------------------------------------------------------------------------------

def with_exports(desk, release="2.17"):
    """Two OSTs with two clients each."""
    for number in (0, 1):
        kernel = ExportsKernel(release, "OST", 1_795_225_320 * 10**9, number=number)
        for nid in ("10.77.0.11@tcp", "10.77.0.12@tcp"):
            kernel.mount(0, nid, nid)
            kernel.write(0, nid, 4096, 23)
        kernel.save(1_795_225_370 * 10**9, desk.root)


def test_exports_that_can_be_read(desk):
    """The cost is that of all of them, of what a sweep may take."""
    with_exports(desk)
    checks = doctor(desk, harvest_exports="auto")
    assert ("ok", "2 clients, in 4 files; a sweep over them takes 0.0 of 1.0 s of CPU ([harvest] "
                  "cpu_percent)", "") == checks["exports"]
    assert "exports" not in doctor(desk, harvest_exports="no")


@pytest.mark.parametrize("choice, state", [("auto", "note"), ("yes", "problem")])
def test_exports_that_cannot_be_read(desk, choice, state):
    """In 2.17 they are in debugfs, which is not mounted here: job_stats are read all the same."""
    with_exports(desk)
    shutil.rmtree(desk.root / "sys/kernel/debug/lustre")
    found, text, fix = doctor(desk, harvest_exports=choice)["exports"]
    assert (state, "mount -t debugfs none /sys/kernel/debug") == (found, fix)
    assert text.startswith("2 of 2 not read: ") and text.endswith(
        "exports: No such file or directory; there is no data for their clients")


def test_exports_that_are_not_understood(desk):
    with_exports(desk)
    for path in desk.root.glob("**/10.77.0.11@tcp/stats"):
        path.write_bytes(b"snapshot_time 1\n")
    state, text, fix = doctor(desk, harvest_exports="auto")["exports"]
    assert ("problem", LIST) == (state, fix)
    assert "10.77.0.11@tcp/stats:1: expected snapshot_time" in text


def test_a_router_without_targets_has_the_line_of_lnets_health(desk):
    root = desk.directory / "router"
    put(root, "sys/kernel/debug/lnet/nis",
        "nid                      status alive refs peer  rtr   max    tx   min\n"
        "10.9.0.3@o2ib               up    37    2    8    8   256   256    59\n")
    put(root, "sys/module/lnet/version", "2.15.8\n")
    checks = doctor(desk, root)
    assert "targets" not in checks and checks["lnet health"][1].startswith("not known: ")
