"""
Storage servers at a SiteDesk: directories with job_stats as the kernel prints them, and agents.
"""

import subprocess
import sys
import time

from job_stats_text import Job, Value, text
from processes import REPOSITORY, Done, until

NS = 1_000_000_000
# As iostats_client.py, at the priority of the tests: the lowest one, which an agent gives itself,
# has a hundredth of a core where other tests compute.
EAGER_AT = """
import os, sys, time
sys.path.insert(0, {!r})
os.setpriority = lambda which, who, priority: None
from iostats.cli.node import main
sys.exit(main())
"""
EAGER = EAGER_AT.format(str(REPOSITORY))
# And a server on a machine that is busy has time to answer.
PATIENT = EAGER.replace("sys.exit(", """
from iostats.storage import delivery
deliver, delivery.ANSWER_WITHIN_S = delivery.Delivery.deliver, 60.0
delivery.Delivery.deliver = lambda self, until, *more: deliver(
    self, max(until, time.monotonic() + 60), *more)
sys.exit(""")


def moved(read=0, written=0, opens=0):
    """Counters of one job at an OST, or with `opens` at an MDT: so many bytes in RPCs of 1009."""
    found = {}
    for name, amount in (("read", read), ("write", written)):
        if amount:
            calls = -(-amount // 1009)
            found[f"{name}_bytes"] = Value(calls, 1, 1009, amount, 1009 * amount)
            found[name] = Value(calls, 1, 37, 23 * calls, 0)
    if opens:
        found["open"] = Value(opens, 31, 8117, 37 * opens, 402_653_184)
    return found


class StorageServer:
    """
    One OSS or MDS of the file system `scratch`; its job_stats change by `show` alone.

    `release`: whose form they have; `cleanup_s`: job_cleanup_interval.
    """

    def __init__(self, desk, name="oss1", release="2.15.2", cleanup_s=600):
        self.desk, self.name, self.release = desk, name, release
        self.cleanup_s, self.root = cleanup_s, desk.directory / name
        self.root.mkdir()
        self._began = {}                    # (target, job) -> when its entry was made

    def show(self, target, jobs, file_system="scratch", anew=(), began_ns=None):
        """
        Let `target` print {job id: counters}; entries of `anew` began again, new ones at
        `began_ns`, or a second ago.
        """
        kind = "obdfilter" if target.startswith("OST") else "mdt"
        directory = self.root / "proc/fs/lustre" / kind / f"{file_system}-{target}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "job_cleanup_interval").write_text(f"{self.cleanup_s}\n")
        (directory / "exports").mkdir(exist_ok=True)
        now = time.time_ns()
        for job in [one for where, one in self._began if where == target]:
            if job not in jobs or job in anew:
                del self._began[target, job]
        (directory / "job_stats.new").write_bytes(text(
            [Job(job.encode(), self._began.setdefault((target, job), began_ns or now - NS), now,
                 counters) for job, counters in jobs.items()], self.release, target[:3]))
        (directory / "job_stats.new").rename(directory / "job_stats")

    def agent(self, *arguments, spool=None, patient=False, **how):
        """
        A running agent, as a Popen whose output is read at the end.

        `patient`: see PATIENT; `how`: for Popen.
        """
        config = self.desk.directory / f"{self.name}.cfg"
        config.write_text(self.desk.text({**self.desk.choices,
                                          "harvest.spool_dir": spool or self.root / "spool"}))
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PATIENT if patient else EAGER,
             "harvest", "--root", str(self.root),
             "--node", self.name, "--config", str(config), *map(str, arguments)],
            env={}, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, **how)
        self.desk.started.append(process)
        return process

    def wait_for_sweeps(self, count):
        """Until the agent has stored so many more, while the site's server is away."""
        def stored():
            return len(list((self.root / "spool").glob("*.message")))
        before = stored()
        until(lambda: stored() >= before + count, what=f"{count} sweeps that wait")

    def sweep(self, spool=None):
        """One sweep, to its end; the Done.  `spool`: another directory for what waits."""
        agent = self.agent("--once", spool=spool)
        out, err = agent.communicate(timeout=300)
        return Done(agent.returncode, out, err)
