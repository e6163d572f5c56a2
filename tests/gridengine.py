"""
A real Grid Engine (Debian's, 8.1.9) on this machine, for tests: cluster.sh with hands.

    def test_something(gridengine):                     # the fixture; one cluster a session
        job = gridengine.submit("echo $PE_HOSTFILE", "-pe", "spread", "3")
        assert gridengine.wait(job)["exit_status"] == "0"

Nodes are node1 to node3, ctl has the master; see cluster.py for users and machines, and
cluster_gridengine.sh for the queue and the parallel environments `spread` and `spread_each`.
"""
from __future__ import annotations

import pytest
from cluster import ALICE, BOB, COMMAND_WITHIN_S, Machines, problem
from processes import until

# Debian's packages of these: gridengine-master gridengine-exec, and gridengine-client with them
COMMANDS = ("sge_qmaster", "sge_execd", "qsub", "qconf", "qstat", "qacct")
INIT = "/usr/share/gridengine/scripts/init_cluster"


class GridEngine(Machines):
    """Grid Engine's."""

    system, hooks = "gridengine", ("prolog", "epilog")
    environ = {"SGE_ROOT": "/var/lib/gridengine"}

    def submit(self, script, *options, user=ALICE):
        """The id of a new job; its output goes to out.JOB in the user's work directory."""
        done = self.as_user(user, "qsub", "-terse", "-cwd", "-j", "y", "-o",
                            f"{self.work(user)}/out.$JOB_ID", *options, input=script)
        return done.stdout.split(".")[0].strip()

    def output(self, job, user=ALICE):
        """What the job has written, by now."""
        return (self.work(user) / f"out.{job}").read_text()

    def state(self, job):
        """Its letters in qstat, such as "r" and "Eqw"; "" where it is not there (any more)."""
        lines = self.ctl("qstat", "-u", "*").stdout.splitlines()
        return next((line.split()[4] for line in lines if line.split()[:1] == [job]), "")

    def wait_until(self, state, job):
        """Until its letters are these."""
        until(lambda: self.state(job) == state, COMMAND_WITHIN_S, f"job {job} to be {state}")

    def wait(self, job, entries=1):
        """[{name: value}] of the job's `entries` in the accounting, once it is over."""
        def there():
            if self.state(job):
                return None
            found = self.accounting(job)
            return found if len(found) >= entries else None
        return until(there, COMMAND_WITHIN_S, f"the end of job {job}")

    def accounting(self, job):
        """[{name: value}] as qacct prints it."""
        text = self.ctl("qacct", "-j", job, check=False).stdout
        return [dict((*line.split(None, 1), "")[:2] for line in entry.splitlines() if line)
                for entry in text.split("=" * 62 + "\n")[1:]]

    def clear(self):
        """As it was after `up`: no jobs, hooks that do nothing, no mount."""
        self.ctl("qdel", "-f", "-u", f"{ALICE},{BOB}", check=False)
        until(lambda: not self.ctl("qstat", "-u", "*").stdout, COMMAND_WITHIN_S,
              "the end of all jobs")
        for name in self.hooks:
            self.hook(name, "exit 0")
        self.unmount()


@pytest.fixture(scope="session")
def gridengine_cluster():
    """The session's cluster."""
    reason = problem("Grid Engine", COMMANDS, [INIT])
    if reason:
        pytest.skip(reason)
    cluster = GridEngine()
    cluster.up(nodes=3)
    yield cluster
    cluster.close()


@pytest.fixture
def gridengine(gridengine_cluster):
    """The cluster, without anything of another test."""
    yield gridengine_cluster
    gridengine_cluster.clear()
