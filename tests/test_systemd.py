"""
Each role as its document says, on a machine with a booted systemd: `make install-...`, systemctl,
a job through prolog and epilog, an upgrade, and nothing left behind.  The units are as shipped.
"""
from __future__ import annotations

import json
import os
import re

import pytest
from booted import booted
from job_stats_text import Job, Value, render
from processes import AFTER, BEFORE, write_tree

pytestmark = [pytest.mark.root, pytest.mark.systemd]

LIB, ETC = "/usr/local/lib/iostats", "/etc/iostats"
SITE, HARVEST = "iostats-site.service", "iostats-harvest.service"
COLLECTOR, LDMS = "iostats-collector.service", "iostats-ldms.service"
WEB = "iostats-web.service"
DELIVER, TIMER = "iostats-deliver.service", "iostats-deliver.timer"
WAITING = "/var/lib/iostats/node"
ALICE, BOB = 12341, 12347


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A machine with munge, and with nothing of ours."""
    with booted(tmp_path_factory.mktemp("booted")) as one:
        with open(one.path("/etc/passwd"), "a") as file:
            for name, uid in (("alice", ALICE), ("bob", BOB)):
                file.write(f"{name}:x:{uid}:{uid}::/home/{name}:/bin/sh\n")
                home = one.path(f"/home/{name}")
                home.mkdir(parents=True)
                os.chown(home, uid, uid)
        one.put("/etc/munge/munge.key", os.urandom(128), 0o400)
        one("chown", "-R", "munge:", "/etc/munge", status=0)
        one("systemctl", "start", "munge", status=0)
        one.clean = one.files()
        yield one


@pytest.fixture(scope="module")
def site(machine):
    """The machine with the site's server."""
    machine.said = machine.make("install-site")
    machine("systemctl", "enable", "--now", SITE, status=0)
    return machine


@pytest.fixture(scope="module")
def node(site):
    """The same machine as a node with a Lustre mount."""
    site.said_of_node = site.make("install-node")
    counters(site, BEFORE)
    return site


@pytest.fixture(scope="module")
def reader(node):
    """The same with the reader, for ordinary users."""
    node.make("install-reader")
    node("systemctl", "enable", "--now", "iostats-reader.socket", status=0)
    return node


def counters(machine, values):
    """What the node's programs did so far.  In /sys alone: a sandbox has a /proc of its own."""
    write_tree(machine.path("/tmp/lustre"), **values)
    for place in ("sys/kernel/debug", "sys/fs"):
        machine("cp", "-r", f"/tmp/lustre/{place}/lustre", f"/{place}/", status=0)


def hook(machine, role, job, user="alice", uid=ALICE, status=0):
    """A hook as slurmd runs it."""
    return machine(f"{LIB}/hooks/slurm_{role}", status=status, env={
        "SLURM_JOB_ID": job, "SLURM_JOB_USER": user, "SLURM_JOB_UID": str(uid),
        "SLURM_JOB_NODELIST": "mgmt1", "SLURMD_NODENAME": "mgmt1"})


def a_job(machine, job, **about):
    """A job that has read 4,000 bytes and written 8,000; see processes.AFTER."""
    counters(machine, BEFORE)
    hook(machine, "prolog", job, **about)
    counters(machine, AFTER)
    done = hook(machine, "epilog", job, **about)
    return done


def record(machine, job):
    """The job's record, when the site's server has made it."""
    found = []

    def known():
        done = machine("iostats", "report", "--format", "json", job)
        found[:] = [json.loads(done.out)] if done.status == 0 else []
        return found
    machine.until(known, SITE)
    return found[0]


def deliver(machine, status):
    """
    Run the timer's service until its program ends with `status`: where other tests keep the machine
    busy, it gives the site's server up (status 3) more than once.
    """
    def ended_so():
        machine("systemctl", "start", DELIVER)
        return str(status) == machine.property(DELIVER, "ExecMainStatus")
    machine.until(ended_so, DELIVER)


def written(one):
    [fs] = [fs for fs in one["file_systems"] if fs["kind"] == "lustre"]
    return fs["application"]["write_bytes"]


def test_the_machine_has_no_clock_of_its_own_and_cannot_set_that_of_the_tests(machine):
    """`timedatectl set-timezone` moves it, the first time since the boot."""
    done = machine("systemd-run", "--quiet", "--wait", "--pipe", "grep", "CapBnd",
                   "/proc/self/status", status=0)
    assert 0 == int(done.out.split()[1], 16) & 1 << 25           # CAP_SYS_TIME


# -- the site's server ---------------------------------------------------------------------------

def test_the_sites_server_runs_as_its_document_says(site):
    """With the sandbox as shipped, and a secret that is there already."""
    assert "" == site.said.err
    assert "\ndoctor: no problems (" in site.said.out        # but that it is to be started
    assert ["      systemctl enable --now iostats-site.service"] == [
        line for line in site.said.out.splitlines() if "systemctl" in line]
    assert ("active", "notify") == (site.is_active(SITE), site.property(SITE, "Type"))
    assert "iostats: the site's server on mgmt1:19990" in site.journal(SITE)
    assert "0" == site.property(SITE, "NRestarts")
    assert [(0o755, 0), (0o644, 0), (0o600, 0), (0o700, 0)] == [
        (found.st_mode & 0o7777, found.st_uid) for found in (site.path(path).stat() for path in (
            ETC, f"{ETC}/site.cfg", f"{ETC}/site.secret", "/var/lib/iostats"))]
    doctor = site("iostats", "doctor", "--json", status=0)
    checks = {one["name"]: one for one in json.loads(doctor.out)["checks"]}
    assert "mgmt1:19990 is the site's server" == checks["site"]["text"]


def test_a_secret_that_was_removed_is_made_anew_and_one_that_is_there_is_kept(site):
    """/etc is read-only for it, but for /etc/iostats."""
    path = site.path(f"{ETC}/site.secret")
    before = path.read_text()
    site("systemctl", "restart", SITE, status=0)
    assert before == path.read_text()
    path.unlink()
    site("systemctl", "restart", SITE, status=0)
    assert ("active", 0o600) == (site.is_active(SITE), path.stat().st_mode & 0o7777)
    assert before != path.read_text()
    path.write_text(before)
    site("systemctl", "restart", SITE, status=0)


def test_a_secret_in_a_directory_that_is_read_only_is_enough(site):
    """An administrator can take even that away."""
    site.put(f"/etc/systemd/system/{SITE}.d/closed.conf",
             "[Service]\nReadWritePaths=\nReadOnlyPaths=/etc/iostats\n")
    try:
        site("systemctl", "daemon-reload", status=0)
        site("systemctl", "restart", SITE, status=0)
        assert "active" == site.is_active(SITE)
    finally:
        site("rm", "-r", f"/etc/systemd/system/{SITE}.d", status=0)
        site("systemctl", "daemon-reload", status=0)
        site("systemctl", "restart", SITE, status=0)


def test_the_doctor_tries_the_sites_own_way_to_facts_of_jobs(site):
    """pyslurm is in the virtual environment of the server; one that does not fit is no way."""
    [packages] = site.path(f"{LIB}/venv/lib").glob("python3*/site-packages")
    stand_in = packages / "pyslurm.py"
    stand_in.write_text("__version__ = '25.11.2'\nclass Jobs:\n    @staticmethod\n"
                        "    def load():\n        raise OSError('Slurm version mismatch')\n")
    site.put("/usr/local/sbin/squeue", "#!/bin/sh\necho '{\"jobs\": []}'\n", 0o755)
    site.put("/usr/local/sbin/sacct", "#!/bin/sh\nexit 0\n", 0o755)
    try:
        doctor = site("iostats", "doctor", "--json", status=0)
        [text] = [one["text"] for one in json.loads(doctor.out)["checks"]
                  if one["name"] == "batch system"]
        assert text.startswith("slurm; job facts come from squeue --json (pyslurm 25.11.2 does "
                               "not work: ")
        assert "Slurm version mismatch" in text and text.endswith("; of older ones from sacct")
    finally:
        for name in ("squeue", "sacct"):
            site.path(f"/usr/local/sbin/{name}").unlink()
        stand_in.unlink()


# -- a node --------------------------------------------------------------------------------------

def test_a_job_through_prolog_and_epilog_is_seen_by_its_user(node):
    """By munge, which is the first choice where it runs: nobody needs a copy of the secret."""
    a_job(node, "4711")
    assert AFTER["write_bytes"] - BEFORE["write_bytes"] == written(record(node, "4711"))
    for user, seen in ((ALICE, "4711"), (BOB, "")):
        done = node("iostats", "jobs", "-n", "-P", "-o", "JobID", "-S", "now-1days", user=user)
        assert (0, "", seen) == (done.status, done.err, done.out.strip())


def test_what_an_epilog_could_not_deliver_the_timer_does(node):
    """While the site's server is away it waits, which is no failure, and says why."""
    node("systemctl", "enable", "--now", TIMER, status=0)
    assert "active" == node.is_active(TIMER)
    node("systemctl", "stop", SITE, status=0)
    a_job(node, "4723")
    node("systemctl", "start", DELIVER, status=0)
    assert ("inactive", "3") == (node.is_active(DELIVER), node.property(DELIVER, "ExecMainStatus"))
    assert re.search(f"iostats: .*; 1 report waits in {WAITING}", node.journal(DELIVER))
    node("systemctl", "start", SITE, status=0)
    deliver(node, status=0)
    assert AFTER["write_bytes"] - BEFORE["write_bytes"] == written(record(node, "4723"))
    assert ["mgmt1.quiet"] == [path.name for path in node.path(WAITING).iterdir()], (
        "what the node does by itself begins here")


def test_users_without_munge_are_told_what_it_takes(node):
    """`auth = secret`: the site's secret is root's alone."""
    done = node("iostats", "jobs", user=BOB, env={"IOSTATS_SERVER_AUTH": "secret"})
    assert 1 == done.status
    [line] = done.err.splitlines()
    assert line.startswith(f"iostats: {ETC}/site.secret: cannot be read: Permission denied; ")
    assert "[server] auth = munge secret in site.cfg" in line


@pytest.mark.parametrize("path", [ETC, f"{ETC}/site.cfg"])
def test_a_site_cfg_that_users_may_not_read_is_said(node, path):
    """Copied under a umask of 077; to a user it was as if there were none: "no site server"."""
    mode = node.path(path).stat().st_mode & 0o7777
    node.path(path).chmod(mode & 0o700)
    try:
        for words in (("iostats", "jobs"), ("iostats_client.py", "start", "--job", "4757")):
            done = node(*words, user=BOB)
            assert (2, f"iostats: {ETC}/site.cfg: cannot be read: Permission denied\n") == (
                done.status, done.err)
        doctor = json.loads(node("iostats", "doctor", "--json", user=BOB).out)
        [found] = [one for one in doctor["checks"] if one["name"] == "configuration"]
        assert ("problem", f"{ETC}/site.cfg: cannot be read: Permission denied") == (
            found["state"], found["text"])
    finally:
        node.path(path).chmod(mode)


@pytest.mark.parametrize("user, has_it", [(None, True), (BOB, False)])
def test_slurms_mail_has_the_report_for_readers_and_goes_out_for_all(node, user, has_it):
    """With the packages in the virtual environment; whoever SlurmUser is."""
    a_job(node, "4747")
    record(node, "4747")
    node.put("/tmp/recorder", "#!/bin/sh\ncat\n", 0o755)
    done = node(f"{LIB}/hooks/slurm_mail", "--wait", "60" if has_it else "1", "-s",
                "Slurm Job_id=4747 Name=x Ended, Run time 00:00:07", "alice", user=user, status=0,
                stdin="what Slurm says\n", env={"IOSTATS_SITE_MAIL_PROGRAM": "/tmp/recorder"})
    assert done.out.startswith("what Slurm says\n")
    assert has_it == (" 1 node, 00:" in done.out)


def test_other_directories_of_site_cfg_are_named_in_the_units(node):
    """Their sandboxes have the rest of the disk read-only; the one that is not named is said."""
    config = node.path(f"{ETC}/site.cfg")
    text = config.read_text()
    config.write_text(text.replace("[node]\n", "[node]\nhook_dir = /srv/hooks\n", 1))
    try:
        node("systemctl", "stop", SITE, status=0)
        a_job(node, "4729")
        node("systemctl", "start", SITE, status=0)
        deliver(node, status=1)
        assert "Read-only file system (for this unit: name it there in ReadWritePaths=" in (
            node.journal(DELIVER))
        node.make("install-node")
        deliver(node, status=0)
        assert AFTER["write_bytes"] - BEFORE["write_bytes"] == written(record(node, "4729"))
    finally:
        config.write_text(text)
        node("systemctl", "start", SITE, status=0)
        node.make("install-node")
        node("rm", "-rf", "/srv/hooks", status=0)


@pytest.mark.parametrize("how", ["run", "by hand"])
def test_a_user_measures_one_job_with_what_install_node_has_brought(reader, how):
    """`iostats run` needs the server's packages, which are in the virtual environment."""
    alice = dict(user=ALICE, env={"JOB": "4751", "HOME": "/home/alice"})
    if how == "run":
        done = reader("iostats", "run", "--job", "4751", "--", "echo", "ran", **alice)
    else:                                          # as a batch system does: a copy, elsewhere
        reader.put("/home/alice/job", reader.path(f"{LIB}/sample_job.sh").read_bytes(), 0o755)
        done = reader("sh", "-c", "cd && exec bash ./job", **alice)
    assert 0 == done.status, done
    assert " 1 node, 00:" in done.out + done.err
    assert ("ran\n" == done.out) == (how == "run") and "Traceback" not in done.err


def test_the_lines_for_slurm_conf_are_those_of_this_installation(node):
    lines = [line.strip() for line in node.said_of_node.out.splitlines()]
    assert f"Prolog={LIB}/hooks/slurm_prolog" in lines
    assert f"Epilog={LIB}/hooks/slurm_epilog" in lines
    assert f"systemctl enable --now {TIMER}" in lines


# -- a storage server, login nodes, images ---------------------------------------------------------

def test_the_agent_of_a_storage_server_runs_and_its_sweeps_arrive(site):
    said = site.make("install-harvest")
    assert "systemctl enable --now iostats-harvest.service" in said.out
    site("mknod", "-m", "600", "/dev/kmsg", "c", "1", "11", status=0)
    target = site.debugfs / "lustre/obdfilter/scratch-OST0000"
    target.mkdir(parents=True)
    (target / "job_cleanup_interval").write_text("600\n")
    now_ns = int(float(site("date", "+%s").out)) * 10**9
    (target / "job_stats").write_bytes(b"job_stats:\n" + render(
        Job(b"4733", now_ns - 10**10, now_ns, {
            "write_bytes": Value(23, 4096, 65536, 1_507_328)}), "2.16", "OST"))
    site.put(f"/etc/systemd/system/{HARVEST}.d/often.conf",
             "[Service]\nEnvironment=IOSTATS_HARVEST_INTERVAL=1\n")
    site("systemctl", "daemon-reload", status=0)
    site("systemctl", "enable", "--now", HARVEST, status=0)

    def rows():
        done = site("iostats", "query", "targets", "--job", "4733", "--json")
        return json.loads(done.out)["rows"] if done.status == 0 else []
    site.until(rows, HARVEST, SITE)
    assert ["4733"] == [row["job"] for row in rows()]
    # Events: the unit lets it read the kernel's log.
    assert "kernel's log cannot be read" not in site.journal(HARVEST)

    def events():
        [one] = [one for one in json.loads(site("iostats_client.py", "doctor", "--json").out)[
            "checks"] if one["name"] == "events"]
        return one["state"], one["fix"]
    assert "problem" != events()[0]
    site.put(f"/etc/systemd/system/{HARVEST}.d/closed.conf", "[Service]\nPrivateDevices=yes\n")
    site("systemctl", "daemon-reload", status=0)
    site("systemctl", "restart", HARVEST, status=0)
    site.until(lambda: "its unit needs CapabilityBoundingSet=CAP_SYSLOG and DeviceAllow=/dev/kmsg r"
               in site.journal(HARVEST), HARVEST)
    assert ("problem", "make install-harvest") == events()
    site("rm", f"/etc/systemd/system/{HARVEST}.d/closed.conf", status=0)
    site("systemctl", "daemon-reload", status=0)
    site("systemctl", "restart", HARVEST, status=0)
    assert "active" == site.is_active(HARVEST)
    assert 0o700 == site.path("/var/lib/iostats/harvest").stat().st_mode & 0o7777
    site("rm", "-r", f"/etc/systemd/system/{HARVEST}.d", status=0)


GET_TRAPS = """import xmlrpc.client
print(xmlrpc.client.ServerProxy("http://localhost:8980").getTraps(0)[1] > 1_700_000_000)"""


def test_the_collector_is_a_user_of_its_own_with_no_rights_and_answers(machine):
    """systemd waits until it listens; it may open the kernel's log, and gives that right up."""
    said = machine.make("install-collector")
    assert f"systemctl enable --now {COLLECTOR}" in said.out
    machine("systemctl", "enable", "--now", COLLECTOR, status=0)
    assert ("active", "notify") == (machine.is_active(COLLECTOR), machine.property(
        COLLECTOR, "Type")), machine.journal(COLLECTOR)
    assert "True\n" == machine("python3", "-c", GET_TRAPS, user=BOB, status=0).out
    status = dict(line.split(None, 1) for line in machine(
        "cat", f"/proc/{machine.property(COLLECTOR, 'MainPID')}/status", status=0
    ).out.splitlines() if len(line.split(None, 1)) == 2)
    assert "0" not in status["Uid:"].split() and "0" * 16 == status["CapEff:"].strip()
    state = machine("ls", "-A", "/var/lib/iostats-collector/", status=0).out.split()
    assert {"events.journal", "machine.state"} == set(state), machine.journal(COLLECTOR)
    assert "Traceback" not in machine.journal(COLLECTOR)
    before = machine.property(COLLECTOR, "MainPID")
    machine("kill", "-9", before, status=0)
    machine.until(lambda: machine.property(COLLECTOR, "MainPID") not in ("0", before)
                  and "active" == machine.is_active(COLLECTOR), COLLECTOR)
    assert "True\n" == machine("python3", "-c", GET_TRAPS, status=0).out
    done = machine("iostats", "collector", "-p", "8981")
    assert 2 == done.status and "does not run as root" in done.err


def test_ldms_is_a_user_of_its_own_and_waits_for_etcd(machine):
    """No etcd answers here: it says so, changes nothing, and ends at once when it is asked to."""
    said = machine.make("install-ldms")
    assert "[etcd] endpoints and prefix" in said.out
    assert f"systemctl enable --now {LDMS}" in said.out
    machine.put(f"/etc/systemd/system/{LDMS}.d/site.conf",
                "[Service]\nEnvironment=IOSTATS_ETCD_ENDPOINTS=http://127.0.0.1:9 "
                "IOSTATS_ETCD_PREFIX=orion IOSTATS_LDMS_METRICS=127.0.0.1:9465\n")
    machine("systemctl", "daemon-reload", status=0)
    try:
        machine("systemctl", "enable", "--now", LDMS, status=0)
        machine.until(lambda: "LDMS' daemons are left as they are" in machine.journal(LDMS), LDMS)
        assert "active" == machine.is_active(LDMS)
        status = dict(line.split(None, 1) for line in machine(
            "cat", f"/proc/{machine.property(LDMS, 'MainPID')}/status", status=0
        ).out.splitlines() if len(line.split(None, 1)) == 2)
        assert "0" not in status["Uid:"].split() and "0" * 16 == status["CapEff:"].strip()
        page = machine("python3", "-c", "from urllib.request import urlopen; print(urlopen("
                       "'http://127.0.0.1:9465/metrics').read().decode())", user=BOB, status=0).out
        assert "iostats_ldms_etcd_up 0.0" in page and "iostats_ldms_groups_owned 0.0" in page
        assert "Traceback" not in machine.journal(LDMS)
        machine("systemctl", "stop", LDMS, status=0)
        assert "success" == machine.property(LDMS, "Result")
    finally:
        machine("systemctl", "disable", "--now", LDMS)
        machine("rm", "-r", f"/etc/systemd/system/{LDMS}.d", status=0)
        machine("systemctl", "daemon-reload", status=0)


def test_the_collector_of_the_site_asks_its_server_by_munge(site):
    """Its user is one of [site] readers."""
    site.make("install-collector")
    site.put(f"/etc/systemd/system/{COLLECTOR}.d/site.conf",
             "[Service]\nEnvironment=IOSTATS_COLLECTOR_EVENTS_OF=site IOSTATS_SERVER_AUTH=munge "
             "IOSTATS_SITE_HOST=mgmt1\n")
    config = site.path(f"{ETC}/site.cfg")
    text = config.read_text()
    try:
        site("systemctl", "daemon-reload", status=0)
        site("systemctl", "restart", COLLECTOR, status=0)
        assert "True\n" == site("python3", "-c", GET_TRAPS, status=0).out
        site.until(lambda: "the server refused `events" in site.journal(COLLECTOR), COLLECTOR)
        uid = site.property(COLLECTOR, "UID")
        config.write_text(text.replace("#readers = root", f"readers = root {uid}").replace(
            "#auth = secret", "auth = munge secret"))
        site("systemctl", "restart", SITE, status=0)
        site.until(lambda: "the site's server answers again" in site.journal(COLLECTOR), COLLECTOR,
                   SITE)
    finally:
        config.write_text(text)
        site("systemctl", "restart", SITE, status=0)
        site("systemctl", "disable", "--now", COLLECTOR)
        site("rm", "-r", f"/etc/systemd/system/{COLLECTOR}.d", status=0)
        site("systemctl", "daemon-reload", status=0)


GET_JOBS = """import socket, sys
one = socket.socket(socket.AF_UNIX)
one.connect("/run/iostats-web/web.sock")
one.sendall(b"GET /jobs?since=now-1day HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
print(b"".join(iter(lambda: one.recv(65536), b"")).decode())"""


ASK_ONDEMAND = """
from passenger_wsgi import application
def start(status, headers):
    print(status)
print(b"".join(application({"REQUEST_METHOD": "GET", "SCRIPT_NAME": "/pun/sys/iostats",
                            "PATH_INFO": "/jobs", "QUERY_STRING": "since=now-1day",
                            "HTTP_X_REMOTE_USER": "root"}, start)).decode())"""


def test_the_pages_are_a_user_of_their_own_and_ask_by_munge_for_who_looks(node):
    """Each user of the host at the socket is who the kernel says; one of [site] readers asks."""
    a_job(node, "4759")
    record(node, "4759")
    said = node.make("install-web")
    assert f"systemctl enable --now {WEB}" in said.out and "in [site] readers" in said.out
    assert "useradd --system iostats-web" in said.out
    node("useradd", "--system", "iostats-web", status=0)
    assert "useradd" not in node.make("install-web").out
    config = node.path(f"{ETC}/site.cfg")
    text = config.read_text()
    try:
        config.write_text(text.replace("#auth = secret", "auth = munge secret"))
        node("systemctl", "enable", "--now", WEB, status=0)
        assert "active" == node.is_active(WEB), node.journal(WEB)
        status = dict(line.split(None, 1) for line in node(
            "cat", f"/proc/{node.property(WEB, 'MainPID')}/status", status=0
        ).out.splitlines() if len(line.split(None, 1)) == 2)
        assert "0" not in status["Uid:"].split() and "0" * 16 == status["CapEff:"].strip()
        page = node("python3", "-c", GET_JOBS, user=ALICE, status=0).out
        assert page.startswith("HTTP/1.1 503 ")
        assert "may not call for other users" in node.journal(WEB)
        config.write_text(config.read_text().replace("#readers = root",
                                                     "readers = root iostats-web"))
        node("systemctl", "stop", WEB, status=0)           # the name is known without it
        node("systemctl", "restart", SITE, status=0)
        node("systemctl", "start", WEB, status=0)
        for user, sees in ((ALICE, True), (BOB, False)):
            page = node("python3", "-c", GET_JOBS, user=user, status=0).out
            assert page.startswith("HTTP/1.1 200 ") and sees == ("/job/4759" in page), page
        assert "Traceback" not in node.journal(WEB)
        for user, sees in ((ALICE, True), (BOB, False)):        # as Open OnDemand runs it
            page = node("sh", "-c", f"cd {LIB}/ondemand && bin/python -c '{ASK_ONDEMAND}'",
                        user=user, status=0).out
            assert page.startswith("200 OK\n") and 'href="/pun/sys/iostats/now"' in page
            assert sees == ("/pun/sys/iostats/job/4759" in page), page
    finally:
        config.write_text(text)
        node("systemctl", "restart", SITE, status=0)
        node("systemctl", "disable", "--now", WEB)
        node("userdel", "iostats-web", status=0)


def test_ordinary_users_get_roots_counters_by_the_reader(reader):
    counters(reader, BEFORE)
    done = reader("iostats", "show", "--json", user=BOB)
    [llite] = [one for one in json.loads(done.out)["files"] if one["source"] == "llite"]
    assert (0, None) == (done.status, llite["unreadable"])
    assert BEFORE["write_bytes"] == llite["counters"]["write_bytes"]["sum"]


# -- again, and away -------------------------------------------------------------------------------

def test_an_upgrade_keeps_what_was_edited_and_restarts_what_runs(node):
    """The old program would read modules of the new one."""
    before = node.property(SITE, "MainPID")
    config = node.path(f"{ETC}/site.cfg")
    text = config.read_text()
    said = node.make("install-node")
    assert text == config.read_text() and "kept" not in said.out
    edited = text.replace("[labels]\n", "[labels]\nsnx11001 = BW Home\n")
    config.write_text(edited)
    node.put(f"{LIB}/iostats/gone.py", "of an older release\n")
    said = node.make("install-node")
    assert f"{ETC}/site.cfg: kept, it was edited" in said.out
    assert text != edited == config.read_text()
    assert not node.path(f"{LIB}/iostats/gone.py").exists()
    assert "active" == node.is_active(SITE) and before != node.property(SITE, "MainPID")


def test_uninstall_says_what_it_keeps_and_purge_leaves_nothing(reader):
    node = reader
    for role in ("login", "harvest"):
        node.make(f"install-{role}")
    node("systemctl", "enable", "--now", SITE, HARVEST, TIMER, status=0)
    node("systemctl", "stop", "iostats-reader.socket", status=0)
    assert not node.path("/run/iostats/reader.sock").exists()    # nobody asks who does not answer
    node("iostats_client.py", "start", "--public", "--job", "4753", status=0)
    said = node.make("uninstall")
    assert not node.path("/run/iostats").exists()
    assert re.search("kept, and removed by make uninstall PURGE=yes:\n"
                     ".*  /etc/iostats/site.secret\n.*  /var/lib/iostats", said.out, re.DOTALL)
    left = node.files() - node.clean
    ours = {"/etc/iostats", "/var/lib/iostats"}
    found = {"/".join(path.split("/")[:4 if path.startswith("/var") else 3]) for path in left}
    assert ours <= found <= ours | {"/var/lib/iostats-collector", "/var/lib/private"}
    assert "" == node("systemctl", "list-units", "--all", "--plain", "--no-legend",
                      "iostats*").out.strip()
    node.make("uninstall", "PURGE=yes")
    # systemd's own, which it makes for the first unit with a user that is made for it.
    assert (set(), set()) == (node.files() - node.clean - {"/var/lib/private"},
                              node.clean - node.files())
