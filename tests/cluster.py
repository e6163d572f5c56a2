"""
A real Slurm cluster on this machine, for tests: cluster.sh with hands.  gridengine.py has another.

    def test_something(slurm):                          # the fixture; one cluster a session
        job = slurm.submit("srun hostname", "--nodes=4")
        assert slurm.wait(job) == "COMPLETED"
        assert sorted(slurm.output(job).split()) == ["node1", "node2", "node3", "node4"]

Nodes are node1 to node4, the controller (which is the login node too) is ctl.  Users are
iostats-alice and iostats-bob, who has no home directory.  They exist in the cluster only, as do
munge's key, the files of /etc, /tmp and /run: what all nodes and the tests shall see lies below
`directory` (so pytest's tmp_path is of no use there).  Nothing waits a fixed time.
"""
from __future__ import annotations

import fcntl
import glob
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import pytest
from processes import until

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPT = REPOSITORY / "tests" / "cluster.sh"
ALICE, BOB = "iostats-alice", "iostats-bob"
PREFIX = "iostats-cluster-"
UP_WITHIN_S = 300
COMMAND_WITHIN_S = 150

# Debian's packages of these: slurmctld slurmd slurm-client slurmdbd slurm-wlm-basic-plugins
# slurm-wlm-mysql-plugin munge mariadb-server iproute2 procps util-linux
NAMESPACES = ("ip", "pgrep", "unshare", "nsenter", "setpriv")
COMMANDS = ("slurmctld", "slurmd", "slurmdbd", "sbatch", "sacct", "munged", "mariadbd",
            "mariadb-install-db")
HOOKS = ("prolog", "epilog", "prolog_slurmctld", "epilog_slurmctld", "task_prolog", "mail")
FINAL = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
         "BOOT_FAIL", "DEADLINE", "REVOKED"}


def problem(name, commands, files=()):
    """Why there can be no cluster of this name here, or ""; `files`: patterns of what it needs."""
    if os.geteuid() != 0:
        return f"a {name} cluster needs root (namespaces)"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [one for one in (*commands, *NAMESPACES) if not shutil.which(one, path=path)]
    missing += [os.path.basename(pattern) for pattern in files if not glob.glob(pattern)]
    if missing:
        return f"no {name} cluster: {' '.join(missing)} not installed (make setup)"
    trial = subprocess.run(["unshare", "--net", "--uts", "--mount", "--pid", "--ipc", "--fork",
                            "--propagation", "unchanged", "true"], capture_output=True, text=True)
    return trial.stderr and f"no {name} cluster: {trial.stderr.strip()}"


class Mount:
    """
    One simulated Lustre mount, at the same place on all nodes.

    Attributes:
        data: the directory of the file system: every user may write there, all nodes see the same.
        root: what --root takes: proc/ and sys/ with the node's own counters.
    """

    def __init__(self, place, fs):
        self.place, self.fs = place, fs
        self.data, self.root = place / fs, place / "root"


class Machines:
    """
    The machines of a cluster; what it does with jobs is its batch system's business.

    Attributes:
        system: the batch system, as the name of cluster_SYSTEM.sh has it.
        hooks: what tests may put commands into.
        environ: what everybody's environment has there.
        directory: what is below it is the same for all nodes and the tests.
        home: a copy of the checkout that all users can read; its site.cfg is for tests to write.
        python: an interpreter for all users, with the server's packages.
        nodes: the nodes' names.
    """

    system, hooks = "", ()
    environ: dict[str, str] = {}

    def __init__(self):
        self.directory = self._process = self._lock = self._mount = None
        self.nodes, self._dead, self._begun = [], set(), []

    # -- up and down

    def up(self, nodes=4):
        """Start it; all nodes are idle afterwards."""
        _remove_what_others_left()
        # Neither below /tmp nor below /run: each node has its own.
        self.directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/var/tmp"))
        self._lock = os.open(self.directory, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            self._make_home()
            # In a session of its own: Ctrl-C is for pytest, which then comes to close().
            self._process = subprocess.Popen(
                [str(SCRIPT), str(self.directory), str(nodes), sys.base_prefix,
                 sysconfig.get_path("purelib"), self.system], start_new_session=True, cwd="/",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self._wait_for_up(UP_WITHIN_S)
        except BaseException:
            self.close()
            raise
        self.nodes = [f"node{i + 1}" for i in range(nodes)]
        return self

    def close(self):
        """End all of it; nothing is left."""
        for process in self._begun:
            process.kill()
            process.communicate()
        self._begun = []
        if self._process:
            self._process.stdin.close()
            try:
                self._process.wait(100)
            except subprocess.TimeoutExpired:
                self._process.kill()                # its namespaces go with it
                self._process.wait()
            self._process.stdout.close()
            self._process.stderr.close()
            self._process = None
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _wait_for_up(self, within_s):
        ready, _, _ = select.select([self._process.stdout], [], [], within_s)
        line = self._process.stdout.readline() if ready else b""
        if line != b"up\n":
            self._process.terminate()
            said = self._process.communicate()[1]
            raise RuntimeError(f"no cluster: {line!r} {said.decode(errors='replace')}")

    def _make_home(self):
        self.directory.chmod(0o755)
        self.home = self.directory / "iostats"
        self.home.mkdir()
        skipped = shutil.ignore_patterns("__pycache__")
        for name in ("hooks", "iostats", "simlustre", "tools"):
            shutil.copytree(REPOSITORY / name, self.home / name, ignore=skipped)
        for path in [*REPOSITORY.glob("*.py"), *REPOSITORY.glob("*.sh"), REPOSITORY / "site.cfg"]:
            shutil.copy(path, self.home)
        subprocess.run(["chmod", "-R", "a+rX", self.home], check=True)
        # A virtual environment with the packages that cluster.sh mounts there: the tests' own
        # may be where only root can go.
        venv = self.directory / "venv"
        packages = venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        packages.mkdir(parents=True)
        (packages / "site-packages").symlink_to(self.directory / "packages")
        (venv / "bin").mkdir()
        (venv / "pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\n"
                                         "include-system-site-packages = false\n")
        self.python = venv / "bin" / "python3"
        self.python.symlink_to(Path(sys.base_prefix) / "bin" / packages.name)

    # -- commands

    def ctl(self, *argv, **how):
        """Run a command on the controller as root; see `node`."""
        return self.node("ctl", *argv, **how)

    def as_user(self, user, *argv, **how):
        """Run a command on the controller (or `on` a node) as `user`; see `node`."""
        return self.node(how.pop("on", "ctl"), *argv, user=user, **how)

    def node(self, name, *argv, check=True, **how):
        """
        Run a command on a node; the CompletedProcess with text.

        `user`, `env` (more variables), `cwd`, `input` (text); with `check` it must end with 0.
        """
        text = how.pop("input", None)
        done = subprocess.run(self.command(name, *argv, **how), text=True, capture_output=True,
                              timeout=COMMAND_WITHIN_S,
                              **({"stdin": subprocess.DEVNULL} if text is None
                                 else {"input": text}))
        assert not check or done.returncode == 0, \
            f"{' '.join(map(str, argv))}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def begin(self, name, *argv, **how):
        """
        Start a command on a node; the Popen, with pipes.

        Only kill() ends it: other signals do not reach it.
        """
        process = subprocess.Popen(self.command(name, *argv, **how), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self._begun.append(process)
        return process

    def command(self, name, *argv, user=None, env=None, cwd=None):
        """The command line that runs `argv` on a node, for subprocess."""
        home = "/root" if user is None else self.directory / "home" / user
        environ = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": home,
                   "USER": user or "root", "LOGNAME": user or "root", "LC_ALL": "C.UTF-8",
                   **self.environ, **(env or {})}
        who = ["--reuid", user, "--regid", user, "--init-groups"] if user else []
        cwd = cwd or (self.directory / "work" / user if user else "/")
        pid = (self.directory / "pid" / name).read_text().strip()
        return ["nsenter", "-t", pid, "-m", "-u", "-i", "-n", "-p", "-r", "-w",
                "setpriv", "--pdeathsig", "KILL", *who,
                "env", "-i", f"--chdir={cwd}", *(f"{k}={v}" for k, v in environ.items()),
                *map(str, argv)]

    def work(self, user=ALICE):
        """The directory where the user's jobs are submitted; their output goes there."""
        return self.directory / "work" / user

    # -- what happens on machines

    def hook(self, name, commands):
        """What a hook of the batch system does, such as `prolog`; of `hooks`."""
        assert name in self.hooks
        new = self.directory / "hooks" / f".{name}"
        new.write_text(f"#!/bin/sh\n{commands}\n")
        new.chmod(0o755)
        new.rename(self.directory / "hooks" / name)            # a running one keeps its text

    def mount(self, fs="scratch", release="2.15"):
        """Mount a simulated Lustre on every node; the Mount."""
        assert not self._mount, "one mount a test"
        place = Path(tempfile.mkdtemp(prefix="lustre-", dir=self.directory))
        place.chmod(0o755)
        mount = self._mount = Mount(place / "mnt", fs)
        mount.place.mkdir()
        mount.options = ["--backing", place / "data", "--mount", mount.place, "--fs", fs,
                         "--release", release]
        (place / "data" / fs).mkdir(parents=True)
        (place / "data" / fs).chmod(0o1777)
        self._on_all(self.nodes, *self._simlustre, *mount.options)
        return mount

    def truth(self, node):
        """What the node's mount was asked to do, as the FUSE layer counted it."""
        text = self.node(node, "cat", self._mount.place / "truth.json").stdout
        return json.loads(text)[self._mount.fs]

    def unmount(self):
        """Unmount what `mount` did."""
        if self._mount:
            self._on_all([node for node in self.nodes if node not in self._dead],
                         "umount", "-l", self._mount.place)
            self._mount = None

    @property
    def _simlustre(self):
        return "env", f"PYTHONPATH={self.home}", self.python, "-m", "simlustre"

    def _on_all(self, nodes, *argv):
        running = [self.begin(node, *argv) for node in nodes]
        for process in running:
            out, err = process.communicate(timeout=COMMAND_WITHIN_S)
            self._begun.remove(process)
            assert process.returncode == 0, f"{argv}: {out}{err}"

    def kill_node(self, name):
        """The node loses its power."""
        os.kill(int((self.directory / "pid" / name).read_text()), signal.SIGKILL)
        self._dead.add(name)

    def boot(self, name):
        """The node boots again, and mounts what `mount` had mounted, with new counters."""
        self._process.stdin.write(f"node {name}\n".encode())
        self._process.stdin.flush()
        self._wait_for_up(UP_WITHIN_S)
        self._dead.discard(name)
        if self._mount:
            self._on_all([name], *self._simlustre, *self._mount.options)


class Cluster(Machines):
    """Slurm's."""

    system, hooks = "slurm", HOOKS

    # -- jobs

    def submit(self, script, *options, user=ALICE, **how):
        """The id of a new job; `script` is text (of /bin/sh unless it says) or a Path."""
        if isinstance(script, Path):
            script = script.read_text()
        if not script.startswith("#!"):
            script = f"#!/bin/sh\n{script}\n"
        done = self.as_user(user, "sbatch", "--parsable", *options, input=script, **how)
        return done.stdout.strip().partition(";")[0]

    def states(self, job):
        """The states of a job, all tasks or components of it, as squeue names them."""
        seen = self.ctl("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%T")
        return set(seen.stdout.split())

    def wait(self, job, within_s=200):
        """
        The final state (of several tasks: "A+B"), when the job has ended and all epilogs too.
        """
        return "+".join(sorted(self._until(job, lambda states: states and states <= FINAL,
                                           within_s)))

    def wait_until(self, state, job, within_s=200):
        """Until the job, all of it, is in this state, such as RUNNING."""
        self._until(job, lambda states: states == {state}, within_s)

    def _until(self, job, true, within_s):
        def reached():
            states = self.states(job)
            return states if true(states) else None
        return until(reached, within_s, lambda: f"the state of job {job} that is waited for "
                     f"({self.states(job)})\n{self.show(job)}{self._seen(job)}\n")

    def _seen(self, job):
        """What its user has of a job, and what runs on the nodes, for a test that failed."""
        running = [self.node(name, "ps", "-eo", "pid,ppid,user:14,stat,wchan:20,etimes,args",
                             check=False).stdout
                   for name in self.nodes if name not in self._dead]
        try:
            said = self.output(job)
        except OSError as error:                            # it has not begun
            said = str(error)
        return "\n".join(["", said, *running])

    def show(self, job):
        """`scontrol show job` of it."""
        return self.ctl("scontrol", "-dd", "show", "job", job, check=False).stdout

    def output(self, job):
        """What the job has written to its standard output, by now."""
        found = [line.partition("=")[2] for line in self.show(job).splitlines()
                 if line.strip().startswith("StdOut=")]
        assert found, f"job {job} is not known any more"
        return Path(found[0]).read_text()

    # -- what happens in clusters

    def kill_node(self, name, noticed=True):
        """The node loses its power; `noticed`: Slurm learns it now, not after SlurmdTimeout."""
        super().kill_node(name)
        if noticed:
            self.ctl("scontrol", "update", f"nodename={name}", "state=down", "reason=power")

    def revive(self, name):
        """The node boots again, and is idle; see `boot`."""
        self.boot(name)
        self.idle(name)

    def idle(self, name):
        """The node, whose slurmd is there, takes jobs again."""
        ends = time.monotonic() + UP_WITHIN_S
        while (state := self._state(name)) != "idle":
            self.ctl("scontrol", "update", f"nodename={name}", "state=resume", check=False)
            assert time.monotonic() < ends, f"{name} does not come back: {state}"
            time.sleep(0.1)

    def _state(self, name):
        """As "idle".  sinfo can say "mixed" of jobs that have ended, for a minute and longer."""
        shown = self.ctl("scontrol", "-o", "show", "node", name).stdout
        return re.search(r" State=(\S+)", shown)[1].lower()

    def run_again(self, job):
        """Let a job that is being requeued begin soon; Slurm has it wait for cred_expire."""
        def is_over():
            text = self.show(job)
            return "JobState=PENDING" in text and "Restarts=0" not in text
        until(is_over, 150, f"the end of the first run of job {job}")
        # Not in the second in which that run ended: its credential was revoked up to then.
        self.ctl("scontrol", "update", f"JobId={job}", "StartTime=now+2")

    def time_out(self, job):
        """The job's time is over now; slurmctld sees it within 30 s, and ends it."""
        ends = time.monotonic() + COMMAND_WITHIN_S            # in its first second it can't be
        while self.ctl("scontrol", "update", f"JobId={job}", "EndTime=now", check=False).returncode:
            assert time.monotonic() < ends, self.show(job)
            time.sleep(0.1)

    def restart_ctld(self):
        """slurmctld ends and starts again; jobs go on."""
        pid = self.ctl("cat", self.directory / "daemons" / "slurmctld.pid").stdout.strip()
        self.ctl("scontrol", "shutdown", "slurmctld")
        self.ctl("timeout", "100", "tail", "--pid", pid, "-s", "0.05", "-f", "/dev/null")
        self.ctl("slurmctld")

        def is_back():
            states = self.ctl("sinfo", "-h", "-o", "%t", check=False).stdout
            return states and not re.search("unk|[*]", states)         # "*": has not answered yet
        until(is_back, UP_WITHIN_S, "the return of slurmctld and its nodes")

    def clear(self):
        """As it was after `up`: no jobs, hooks that do nothing, no mount, all nodes there."""
        for name in HOOKS:
            self.hook(name, "exit 0")
        if self.ctl("squeue", "-h", "-o", "%i").stdout:
            for user in (ALICE, BOB, "root"):
                self.ctl("scancel", "-u", user)
            until(lambda: not self.ctl("squeue", "-h", "-o", "%i").stdout, COMMAND_WITHIN_S,
                  "the end of all jobs")
        self.unmount()
        for name in sorted(self._dead):
            self.revive(name)
        drained = self.ctl("sinfo", "-h", "-N", "-t", "drain,down", "-o", "%N").stdout.split()
        if drained:
            self.ctl("scontrol", "update", f"nodename={','.join(drained)}", "state=resume")
        self.wait_until_idle()

    def wait_until_idle(self):
        """Until all nodes are idle; a drained one never is."""
        def states():
            return {name: self._state(name) for name in self.nodes}
        until(lambda: {*states().values()} == {"idle"}, COMMAND_WITHIN_S,
              lambda: f"the rest of all nodes ({states()})")


def _remove_what_others_left():
    """The directory of a run that was killed is one that nobody locks any more."""
    for path in glob.glob(f"/var/tmp/{PREFIX}*"):
        try:
            directory = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            if time.time() - os.fstat(directory).st_ctime > 60:   # else it may be just being locked
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(directory)


@pytest.fixture(scope="session")
def slurm_cluster():
    """The session's cluster."""
    reason = problem("Slurm", COMMANDS, ["/usr/lib/*/slurm*/accounting_storage_mysql.so"])
    if reason:
        pytest.skip(reason)
    cluster = Cluster()
    cluster.up()
    yield cluster
    cluster.close()


@pytest.fixture
def slurm(slurm_cluster):
    """The cluster, without anything of another test."""
    yield slurm_cluster
    slurm_cluster.clear()
