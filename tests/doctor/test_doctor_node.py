"""
`iostats_client.py doctor`: a line for each check, and for every problem the command that fixes it.

From outside: processes, small trees, and a real server.
"""
from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys

import pytest
from processes import (
    BEFORE,
    LLITE,
    MD_STATS,
    Desk,
    Listener,
    http_answer,
    is_free,
    job_with_free_ports,
    put,
    stats,
    until,
)
from test_reader_client import Node, as_root, locked, node  # noqa: F401  (fixtures)
from trees import DATA

from iostats.base import node_list
from iostats.doctor.node import describe_releases

SYSFS = "sys/fs/lustre/llite/scratch-ffff9a3c5d1e0800"
INSTALL = "make install-reader && systemctl enable --now iostats-reader.socket"


DESK = Desk


@pytest.fixture
def tree(desk):
    """A node without a problem."""
    root = desk.tree(**BEFORE)
    for name in ("stats_track_pid", "stats_track_ppid", "stats_track_gid"):
        put(root, f"{SYSFS}/{name}", "0 (all)\n")
    put(root, "sys/fs/lustre/jobid_var", "SLURM_JOB_ID\n")
    put(root, "sys/fs/lustre/version", "2.15.4\n")
    put(root, "sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    return root


def doctor(desk, root, *options, job=False, **how):
    """(the Done, {name: (state, text, fix)}) of a run; text and JSON have to agree."""
    command = ("doctor", "--root", root, *options)
    done = desk.client(*command, "--json", job=job, **how)
    assert "" == done.err
    checks = {one["name"]: (one["state"], one["text"], one["fix"] or one["check"])
              for one in done.record["checks"]}
    assert len(checks) == len(done.record["checks"])
    problems = sum(state == "problem" for state, _, _ in checks.values())
    assert (problems, int(problems > 0)) == (done.record["problems"], done.status)
    return done, checks


def problem(desk, root, name, *options, **how):
    """(text, fix) of the check `name`, which has to be a problem."""
    done, checks = doctor(desk, root, *options, **how)
    assert ("problem", 1) == (checks[name][0], done.status), done
    return checks[name][1:]


# -- no problem ------------------------------------------------------------------------------

def test_a_good_node_has_no_problem_and_status_0(desk, tree):
    """A line for each check, in the order in which one would look."""
    done = desk.client("doctor", "--root", tree, "--node", "n1", job=False,
                       env={"PATH": "/nowhere",                # no command of a batch system
                            "IOSTATS_NODE_HOOK_DIR": str(desk.directory / "hooks")})
    lines = [line.split(":")[0].split(None, 1) for line in done.out.splitlines()
             if not line.startswith(" ")]

    assert ("", 0) == (done.err, done.status)
    assert [["ok", "python"], ["ok", "configuration"], ["ok", "lustre"], ["ok", "llite"],
            ["ok", "md_stats"], ["ok", "mdc"], ["ok", "osc"], ["ok", "rpc_stats"],
            ["ok", "lockdown"], ["note", "release"], ["ok", "start_time"], ["ok", "stats_track"],
            ["ok", "jobid_var"], ["note", "reader"], ["ok", "state directory"], ["note", "job"],
            ["ok", "node"], ["note", "server"]] == lines
    assert " fix: " not in done.out


def test_it_says_what_was_found_where(desk, tree):
    """Places, modes, counters with their units."""
    _, checks = doctor(desk, tree)
    assert "scratch on /scratch" == checks["lustre"][1]
    assert ("1 in /sys/kernel/debug/lustre/llite; for everybody (0644); 4 counters: read_bytes "
            "[bytes], write_bytes [bytes], open [usecs] ...") == checks["llite"][1]
    assert "1 in /proc/fs/lustre/mdc; for everybody (0644); 1 counters: close [reqs] ..." == (
        checks["md_stats"][1])


def test_it_says_who_may_read(desk, tree):
    """The directory that is closed to others, as debugfs is."""
    (tree / "sys/kernel/debug").chmod(0o700)
    _, checks = doctor(desk, tree)
    if os.geteuid() == 0:
        assert "for root alone (/sys/kernel/debug is 0700)" in checks["llite"][1]


def test_it_changes_nothing(desk, tree):
    """No state directory is made, and no file is touched."""
    state = desk.directory / "not" / "yet"
    _, checks = doctor(desk, tree, "--state-dir", state)
    assert ("ok", str(state), "") == checks["state directory"]
    assert not state.parent.exists()


@pytest.mark.parametrize("disks", ["", "   8       0 sda 23 0 37 41 43 0 47 53 0 59 61\n"],
                         ids=["no disks", "a disk"])
def test_without_lustre_there_is_no_problem(desk, tmp_path, disks):
    """A login node, say.  With counters of its disks it was "mounted, but not at a path ..."."""
    (tmp_path / "empty/proc").mkdir(parents=True)
    if disks:
        (tmp_path / "empty/proc/diskstats").write_text(disks)
    done, checks = doctor(desk, tmp_path / "empty")
    assert bool(disks) == ("node's disks" in checks)
    assert ("note", "no Lustre file system is mounted", "") == checks["lustre"]
    assert 0 == done.status


@pytest.mark.parametrize("release, words", [
    ("2.5", "2.5 to 2.9"), ("2.7", "2.5 to 2.9"), ("2.10", "2.10 or 2.11"),
    ("2.12", "2.12 or 2.13"), ("2.14", "2.14"), ("2.15.0", "2.15.0 or 2.15.1"),
    ("2.15.4", "2.15"), ("2.16", "2.15 or 2.16"), ("2.17", "2.17 or newer")])
def test_the_release_is_told_by_what_the_files_show(desk, tmp_path, release, words):
    """The version file is quoted beside it, and believed in nothing."""
    root = shutil.copytree(DATA / f"lustre-{release}" / "before", tmp_path / "node")
    put(root, "sys/fs/lustre/version", "2.99.1\n")
    _, checks = doctor(desk, root)
    assert checks["release"][1].startswith(f"looks like {words}: ")
    assert checks["release"][1].endswith("; the version file says 2.99.1")


def test_signs_that_contradict_each_other_are_a_vendors():
    """Start times of 2.15 on a system of 2.12."""
    assert "2.15 with some of 2.13 (a vendor's backports)" == describe_releases(
        [(15, 17, "start_time"), (12, 17, "debugfs"), (5, 13, "[regs]")])


# -- counters --------------------------------------------------------------------------------

def test_debugfs_that_is_not_mounted(desk, tree):
    """/sys lists the mount; its counters are nowhere."""
    shutil.rmtree(tree / "sys/kernel/debug")
    assert ("1 of 1 not read: not there (debugfs is not mounted?)",
            "mount -t debugfs none /sys/kernel/debug") == problem(desk, tree, "llite")


def test_debugfs_that_is_mounted_and_has_no_counters_of_the_mount(desk, tree):
    """Mounting it again would not help; Lustre has to be."""
    shutil.rmtree(tree / "sys/kernel/debug/lustre/llite")
    assert ("1 of 1 not in debugfs, which is mounted",
            "umount -a -t lustre && mount -a -t lustre") == problem(desk, tree, "llite")


def test_a_file_that_is_not_of_its_form(desk, tree):
    """A release that we do not know, or a torn file."""
    put(tree, LLITE, "read_bytes 12 samp\n")
    text, fix = problem(desk, tree, "llite")
    assert "stats:1: expected" in text
    assert "iostats_client.py show --json" == fix


@pytest.mark.parametrize("name, value, shown", [
    ("stats_track_pid", "4711", "'4711'"), ("stats_track_ppid", "23", "'23'"),
    ("stats_track_gid", "untracked", "'untracked'")])
def test_counters_of_one_process_alone(desk, tree, name, value, shown):
    """llite counts what matches, and nothing else of the node."""
    put(tree, f"{SYSFS}/{name}", value + "\n")
    assert (f"scratch-ffff9a3c5d1e0800: {name} is {shown}: llite counts that alone, not the whole "
            f"node", f"lctl set_param llite.*.{name}=0") == problem(desk, tree, "stats_track")


def test_of_the_three_filters_the_one_that_is_set_is_named(desk, tree):
    """The others then say `untracked`."""
    put(tree, f"{SYSFS}/stats_track_pid", "untracked\n")
    put(tree, f"{SYSFS}/stats_track_gid", "37\n")
    assert "lctl set_param llite.*.stats_track_gid=0" == problem(desk, tree, "stats_track")[1]


NOT_COUNTED = ("1: small writes into unsent pages are not in the bytes written, {} write() calls "
               "so far; 0 counts them, and makes each of them 2 to 9 times as slow "
               "(docs/reference/counters.md)")


@pytest.mark.parametrize("switch, calls, said", [
    ("1", 1003, NOT_COUNTED.format("978 of 1003")), ("1", 25, NOT_COUNTED.format("0 of 25")),
    ("0", 1003, "0: small writes are in the bytes written")])
def test_small_writes_that_are_not_counted_are_a_note_with_its_command(desk, tree, switch, calls,
                                                                       said):
    """Of 2.15 and later; who switches it off pays for it."""
    put(tree, f"{SYSFS}/tiny_write", f"{switch}\n")
    put(tree, LLITE, stats("write_bytes 25 samples [bytes] 100 100 2500 250000",
                           f"write {calls} samples [usecs] 1 1 {calls} {calls}"))
    done, checks = doctor(desk, tree)
    state, fix = {"1": ("note", "lctl set_param llite.*.tiny_write=0"), "0": ("ok", "")}[switch]
    assert ((state, said, fix), 0) == (checks["tiny_write"], done.status)


def test_where_small_writes_are_counted_nothing_is_said_of_them(desk, tree):
    """2.12 has the switch, and counts."""
    put(tree, f"{SYSFS}/tiny_write", "1\n")
    put(tree, LLITE, "snapshot_time 1752000000.000000123 secs.nsecs\n")
    assert "tiny_write" not in doctor(desk, tree)[1]


@pytest.mark.parametrize("value, env, fix", [
    ("disable", {}, "lctl set_param jobid_var=SLURM_JOB_ID"),
    ("disable", {"PBS_JOBID": "23.pbs"}, "lctl set_param jobid_var=PBS_JOBID"),
    ("procname_uid", {}, "lctl set_param jobid_var=SLURM_JOB_ID"),
], ids=["disable", "disable, in a job of PBS", "procname_uid"])
def test_a_jobid_var_that_names_no_job_is_a_note_with_its_command(desk, tree, value, env, fix):
    """Our own numbers do not need it; those of the servers do."""
    put(tree, "sys/fs/lustre/jobid_var", value + "\n")
    done, checks = doctor(desk, tree, env=env)
    assert ("note", fix, 0) == (checks["jobid_var"][0], checks["jobid_var"][2], done.status)


@pytest.mark.parametrize("header, fix", [("0", "lctl set_param enable_stats_header=1"),
                                          (None, "")])
def test_start_times_that_are_not_shown_are_a_note(desk, tree, header, fix):
    """With the command, where they were switched off (2.16)."""
    for path in (LLITE, MD_STATS):
        text = (tree / path).read_text()
        put(tree, path, "".join(line for line in text.splitlines(True)
                                if not line.startswith(("start_time", "elapsed_time"))))
    if header:
        put(tree, "sys/fs/lustre/enable_stats_header", header + "\n")
    _, checks = doctor(desk, tree)
    assert ("note", "not shown: a clear is seen only by counters that decreased", fix) == (
        checks["start_time"])


@pytest.mark.fuse
@pytest.mark.parametrize("cmdline, fix", [
    ("ro quiet\n", "mokutil --disable-validation"),
    ("ro lockdown=integrity\n", "grubby --update-kernel=ALL --remove-args=lockdown"),
], ids=["by Secure Boot", "by the kernel's command line"])
def test_lockdown(desk, locked, cmdline, fix):  # noqa: F811
    """EPERM for root, too: no permission fixes that."""
    put(locked, "sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    put(locked, "proc/cmdline", cmdline)
    _, checks = doctor(desk, locked)
    assert ("problem", "integrity: counters in debugfs are closed, even to root and the reader, "
                       "until the next boot", fix) == checks["lockdown"]
    assert ("problem", "1 of 1 not read: forbidden by the kernel, even for root (lockdown)",
            fix) == checks["llite"]
    assert "ok" == checks["md_stats"][0]


def test_a_lockdown_that_closes_nothing_is_a_note(desk, tree):
    """/proc is not debugfs."""
    put(tree, "sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    _, checks = doctor(desk, tree)
    assert ("note", "integrity, and no counter file is closed by it", "") == checks["lockdown"]


# -- an ordinary user ------------------------------------------------------------------------

@pytest.mark.root
class TestOrdinaryUser:
    """Against a debugfs that is root's alone."""

    pytestmark = as_root

    def checks(self, node: Node, **how):  # noqa: F811
        done = node.client("doctor", "--json", **how)
        record = json.loads(done.stdout)
        return {one["name"]: (one["state"], one["text"], one["fix"]) for one in record["checks"]}

    def test_llite_needs_root_or_the_reader(self, node):  # noqa: F811
        """With what is closed, by which mode."""
        text = f"1 of 1 not read: permission denied by {node.debugfs} (0700, user 0) (or use root)"
        checks = self.checks(node)
        assert ("problem", text, INSTALL) == checks["llite"]
        assert "ok" == checks["md_stats"][0]
        assert checks["release"][1].startswith("looks like 2.15 or 2.16: llite not in /proc, ")

    def test_with_the_reader_there_is_no_problem(self, node):  # noqa: F811
        """And both lines say by whom."""
        node.begin_reader()
        checks = self.checks(node)
        assert ("ok", f"{node.socket} answers, and gave llite, mdc, osc", "") == checks["reader"]
        assert "ok" == checks["llite"][0]
        assert "; by the reader: this user may not read it; " in checks["llite"][1]

    def test_a_reader_that_does_not_work(self, node):  # noqa: F811
        """Its own problem, beside the one of the counters."""
        node.begin_fake("says", "garbage")
        checks = self.checks(node)
        assert ("problem", f"{node.socket}: expected the answer of `show --json`, got 7 bytes "
                           f"that begin with 'garbage'",
                "systemctl restart iostats-reader.socket") == checks["reader"]
        assert ("problem", INSTALL) == checks["llite"][::2]

    def test_root_who_does_not_need_the_reader_checks_it(self, node):  # noqa: F811
        """The administrator is who installs it."""
        node.begin_fake("says", "garbage")
        assert "problem" == self.checks(node, uid=0)["reader"][0]

    def test_behind_a_lockdown_no_reader_would_help(self, node):  # noqa: F811
        """So it is not what is proposed."""
        put(node.root, "sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
        assert ("problem", "mokutil --disable-validation") == self.checks(node)["llite"][::2]


# -- configuration, state directory, job, node --------------------------------------------------

def test_a_mistake_in_a_configuration_file(desk, tree):
    """The command takes the line out of force; then there is no problem."""
    path = desk.directory / "my site.cfg"
    path.write_text("[server]\nport_first = many\n")
    text, fix = problem(desk, tree, "configuration", "--config", path)
    assert text.startswith(f"{path}:2: [server] port_first: expected a number")
    assert f"sed -i '2s/^/#/' '{path}'" == fix
    subprocess.run(fix, shell=True, check=True)
    done, checks = doctor(desk, tree, "--config", path)
    assert (("ok", str(path), ""), 0) == (checks["configuration"], done.status)


def test_a_mistake_in_the_environment(desk, tree):
    """Named as it is set."""
    assert "unset IOSTATS_SERVER_DEADLINE" == problem(
        desk, tree, "configuration", env={"IOSTATS_SERVER_DEADLINE": "soon"})[1]


def test_a_configuration_that_is_not_there(desk, tree):
    """--config names a file that somebody has to write."""
    text, fix = problem(desk, tree, "configuration", "--config", desk.directory / "none.cfg")
    assert "none.cfg: cannot be read: No such file or directory" in text
    assert fix.startswith("cp ")
    assert fix.endswith(f"site.cfg {desk.directory}/none.cfg")


def test_which_files_and_variables_are_in_force(desk, tree):
    """In the order in which the later one wins."""
    (desk.home / ".iostats").mkdir()
    (desk.home / ".iostats/site.cfg").write_text("[report]\nunits = decimal\n")
    _, checks = doctor(desk, tree, env={"IOSTATS_REPORT_UNITS": "bytes"})
    assert checks["configuration"][1].endswith(
        f"site.cfg, {desk.home}/.iostats/site.cfg, IOSTATS_REPORT_UNITS")


def test_a_state_directory_that_others_can_enter(desk, tree):
    """The command is the fix."""
    desk.state.mkdir()
    desk.state.chmod(0o755)
    text, fix = problem(desk, tree, "state directory", "--state-dir", desk.state)
    assert f"{desk.state}: mode 0755, others could have been there" == text
    assert f"chmod 700 {desk.state}" == fix


def test_a_state_directory_that_is_none(desk, tree):
    """A link is not followed by `start` either."""
    desk.state.symlink_to("/tmp")
    text, fix = problem(desk, tree, "state directory", "--state-dir", desk.state)
    assert text.startswith(f"{desk.state}: a link, a file, or a directory of user ")
    assert "export IOSTATS_NODE_STATE_DIR=~/.iostats/state" == fix


@pytest.mark.parametrize("env, options, state, text, fix", [
    ({"SLURM_JOB_ID": "4711"}, (), "ok", "4711, from SLURM_JOB_ID", ""),
    ({"SLURM_JOB_ID": "4711"}, ("--job", "23"), "ok", "23, from --job", ""),
    ({"PBS_JOBID": "a\tb"}, (), "problem", "PBS_JOBID: expected a job id without control "
                                           "characters, got 'a\\tb'", "unset PBS_JOBID"),
    ({}, ("--job", " "), "problem", "--job: expected a job id, got nothing",
     "iostats_client.py doctor --job ID"),
], ids=["found", "given", "not usable", "given, not usable"])
def test_the_job_and_where_its_id_was_found(desk, tree, env, options, state, text, fix):
    """As `start` finds it."""
    assert (state, text, fix) == doctor(desk, tree, *options, env=env)[1]["job"]


@pytest.mark.parametrize("name, nodes, state, text, fix", [
    ("nid00007", "nid[00001-00003,00007]", "ok",
     "nid00007, one of 4 in SLURM_JOB_NODELIST", ""),
    ("nid00007", "nid[00001-00003],nid00007.site", "problem",
     "nid00007 is not in SLURM_JOB_NODELIST, which calls it nid00007.site",
     "export SLURMD_NODENAME=nid00007.site"),
    ("login1", "nid[00001-00003]", "problem",
     "login1 is not in SLURM_JOB_NODELIST: nid[00001-00003]",
     "srun --ntasks-per-node=1 iostats_client.py doctor"),
    ("nid00007", "nid[1-", "problem", "nid00007; SLURM_JOB_NODELIST: expected a list such as "
     "nid[00001-00128], got 'nid[1-'", "unset SLURM_JOB_NODELIST"),
], ids=["is in", "by another name", "not in", "no list"])
def test_the_node_and_the_jobs_list(desk, tree, name, nodes, state, text, fix):
    """A name that the server does not expect would be `missing` in the report."""
    env = {"SLURM_JOB_NODELIST": nodes}
    assert (state, text, fix) == doctor(desk, tree, "--node", name, env=env)[1]["node"]


def test_a_file_of_nodes(desk, tree):
    """PBS: a line for each core."""
    path = desk.directory / "nodes"
    path.write_text("n1\nn1\nn2\n")
    _, checks = doctor(desk, tree, "--node", "n2", env={"PBS_NODEFILE": str(path)})
    assert ("ok", "n2, one of 2 in PBS_NODEFILE", "") == checks["node"]
    path.unlink()
    assert "unset PBS_NODEFILE" == problem(desk, tree, "node", env={"PBS_NODEFILE": str(path)})[1]


def test_a_node_name_that_is_none(desk, tree):
    """As `start` would refuse it."""
    text, fix = problem(desk, tree, "node", "--node", "my node")
    assert "expected a node's name" in text
    assert f"iostats_client.py doctor --node {os.uname().nodename}" == fix


@pytest.mark.parametrize("text, names", [
    ("a[1-3,05],b", ["a1", "a2", "a3", "a05", "b"]),
    ("nid[00009-00011]", ["nid00009", "nid00010", "nid00011"]),
    ("r[1-2]n[3,5]-ib", ["r1n3-ib", "r1n5-ib", "r2n3-ib", "r2n5-ib"]),
    ("", []),
])
def test_a_node_list_written_out(text, names):
    """By hand."""
    assert names == node_list.expand_node_list(text)


@pytest.mark.parametrize("text", ["a[1-", "a[3-1]", "a[]", "a[x]", "a[1-9999999]",
                                  "a[1-2000]b[1-2000]"])
def test_a_node_list_that_is_none(text):
    """Or is too long to be one."""
    with pytest.raises(ValueError):
        node_list.expand_node_list(text)


# -- the server ------------------------------------------------------------------------------

def at(port):
    return "--server", f"127.0.0.1:{port}"


def test_a_server_that_works(desk, tree):
    """Found, of this job, with the same secret, and the same time."""
    server = desk.server()
    done, checks = doctor(desk, tree, *at(server.port), job=True)
    assert ("ok", f"127.0.0.1:{server.port} is the server of job {desk.job}", "") == (
        checks["server"])
    assert ("ok", f"{desk.home}/.iostats/{desk.job}.secret: the server has the same", "") == (
        checks["secret"])
    assert "ok" == checks["clock"][0]
    assert checks["clock"][1].endswith(" the server's")
    assert 0 == done.status


def test_a_server_is_found_among_the_ports_of_the_job(desk, tree):
    """Somebody else has the first one."""
    job, ports = job_with_free_ports(2)
    with Listener(ports[0], http_answer(b"{}")):
        desk.server(job=job, listen=None)
        _, checks = doctor(desk, tree, "--server", "127.0.0.1", job=job)
    assert ("ok", f"127.0.0.1:{ports[1]} is the server of job {job}", "") == checks["server"]


def test_no_server(desk, tree):
    """Nobody listens on any port of the job; a secret is not asked for then."""
    job, ports = job_with_free_ports(16)
    assert (f"127.0.0.1: no server found on ports {ports[0]}, {ports[1]} and 14 more; start it "
            f"there",
            f"iostats_server.py --job {job} &") == problem(
        desk, tree, "server", "--server", "127.0.0.1", job=job)
    assert "secret" not in doctor(desk, tree, "--server", "127.0.0.1", job=job)[1]


def test_the_server_of_another_job(desk, tree):
    """Told by its hello."""
    server = desk.server()
    assert (f"127.0.0.1: port {server.port}: the server of job '{desk.job}'; start it there",
            "iostats_server.py --job 23 &") == problem(
        desk, tree, "server", *at(server.port), job="23")


@pytest.mark.parametrize("answer, said", [
    (http_answer(b"<html>"), "in use by another program"),
    (None, "the program on the port does not answer"),      # which one is not known
], ids=["a web server", "silence"])
def test_something_else_on_the_port(desk, tree, answer, said):
    with Listener(0, answer) as other:
        assert (f"127.0.0.1: port {other.port}: {said}; start it there",
                "iostats_server.py --job 23 &") == problem(
            desk, tree, "server", *at(other.port), job="23")


def test_a_host_that_is_none(desk, tree):
    """A typo in the name."""
    text, fix = problem(desk, tree, "server", "--server", "no-such-host.invalid", job="23")
    assert text.startswith("no-such-host.invalid: port ")
    assert "iostats_server.py --job 23 &" == fix
    assert "iostats_client.py doctor --server HOST" == problem(
        desk, tree, "server", "--server", "a:b", job="23")[1]


def test_without_a_job_the_server_is_not_asked(desk, tree):
    """Its ports follow from the job."""
    done, checks = doctor(desk, tree, "--server", "login1")
    assert ("note", "login1: not asked, its ports follow from the job's id", "") == (
        checks["server"])
    assert 0 == done.status


def test_another_secret(desk, tree):
    """The directory is not the one of the server."""
    server = desk.server()
    other = desk.directory / "other.secret"
    other.write_text("0" * 64)
    other.chmod(0o600)
    assert (f"{other}: the server has another one", f"scp -p 127.0.0.1:{other} {other}") == problem(
        desk, tree, "secret", *at(server.port), "--secret", other, job=True)


def test_no_secret(desk, tree):
    """A home that is not shared."""
    server = desk.server()
    path = desk.directory / "none.secret"
    text, fix = problem(desk, tree, "secret", *at(server.port), "--secret", path, job=True)
    assert text.startswith(f"{path}: no secret; ")
    assert f"scp -p 127.0.0.1:{path} {path}" == fix


def test_a_secret_that_others_could_have_read(desk, tree):
    """With the server gone, too."""
    server = desk.server()
    path = desk.home / ".iostats" / f"{desk.job}.secret"
    path.chmod(stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP)
    text, fix = problem(desk, tree, "secret", *at(server.port), job=True)
    assert f"{path}: expected a file of mode 0600, got mode 0640" in text
    assert f"rm {path}" == fix


@pytest.mark.parametrize("ahead_s, state, way, fix", [
    (59, "ok", "behind", ""),
    (137, "problem", "behind", "chronyc makestep"),
    (-137, "problem", "ahead of", "chronyc makestep"),
], ids=["59 s", "137 s behind", "137 s ahead"])
def test_a_clock_that_is_off(desk, tree, tmp_path, ahead_s, state, way, fix):
    """
    More than a minute; the server is a real one whose clock is moved.  Its answer may have been
    under way for a while.
    """
    script = tmp_path / "server_with_another_clock.py"
    script.write_text(f"import sys, time\nsys.path.insert(0, {str(DATA.parents[1])!r})\n"
                      f"true = time.time\ntime.time = lambda: true() + {ahead_s}\n"
                      f"from iostats.cli.server import main\nsys.exit(main())\n")
    _, [port] = job_with_free_ports(1)
    with subprocess.Popen([sys.executable, script, "--job", desk.job, "--quiet", "--listen",
                           f"127.0.0.1:{port}"], env=desk.environment(),
                          stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: not is_free(port), what="the server")
            _, checks = doctor(desk, tree, *at(port), job=True)
        finally:
            process.kill()
    assert (state, fix) == checks["clock"][::2]
    seconds, rest = checks["clock"][1].split(maxsplit=1)
    assert (pytest.approx(abs(ahead_s), abs=23), f"s {way} the server's") == (float(seconds), rest)
