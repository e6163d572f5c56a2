"""
What the nodes of a real Slurm's jobs did, by exports: from the files of an OST to the record.
"""

import time

import pytest
from processes import until
from test_slurm_harvest import Harvested

pytestmark = [pytest.mark.slurm, pytest.mark.root, pytest.mark.fuse, pytest.mark.timeout(600)]

NID = {f"node{number}": f"10.77.0.{number}@tcp" for number in range(1, 5)}
CLIENTS = """
[clients]
names = {directory}/names
jobs_interval = 2
"""
STATS = """\
snapshot_time             {now:.9f} secs.nsecs
write_bytes               {count} samples [bytes] 1009 1009 {total} {squares}
"""
# What nodes write after a job's end, within a minute, is written in a pause of at most so long.
TIMES = """
from iostats.harvest import job_lifecycle, job_times
from iostats.jobs import all_jobs, by_node, job_runs
for module in (all_jobs, by_node, job_lifecycle, job_runs, job_times):
    module.WRITES_BACK_S = 40.0
all_jobs.LATE_S = 15.0
"""
# By how much two clocks here may seem to differ, as far as a busy machine's Slurm answers in nine
# seconds; and the second that Slurm's times are rounded down by.
CLOCKS_WITHIN_S, ROUNDED_S = 5, 1


class WithClients(Harvested):
    """The same, with the exports of an OST."""

    def __init__(self, slurm, directory):
        super().__init__(slurm, directory, TIMES)
        names = directory / "names"
        names.write_text("".join(f"{nid} {node}\n" for node, nid in NID.items()))
        self.writes = dict.fromkeys(NID, 1)
        for node in NID:
            self.wrote(node, 0)
        with self.site.site_cfg.open("a") as file:
            file.write(CLIENTS.format(directory=directory))
        self.site.kill()
        self.site.begin()
        until(lambda: len(self.query("clients")) == len(NID), what="the clients")

    def wrote(self, node, count):
        """A node has written so many times 1009 bytes."""
        self.writes[node] += count
        total = self.writes[node]
        directory = self.oss.root / "proc/fs/lustre/obdfilter/scratch-OST0000/exports" / NID[node]
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "stats.new").write_text(STATS.format(
            now=time.time(), count=total, total=1009 * total, squares=1009 * 1009 * total))
        (directory / "stats.new").rename(directory / "stats")

    def swept(self, since):
        """When the first sweep was, at `since` or later, that the site's server is seen to have."""
        return until(lambda: [at for at in [self.answer("clients").get("at", 0)] if at >= since],
                     150, "a sweep")[0]

    def pause(self):
        """
        Until what has happened by now is in one sweep, and there is another one, so much later that
        all that follows is after both, whatever the clocks are.
        """
        self.swept(self.swept(time.time()) + CLOCKS_WITHIN_S + ROUNDED_S)

    def by_node(self, job):
        """The member of a job's record."""
        return until(lambda: next((one["by_node"] for one in self.site.records(job)
                                   if one["by_node"]), None), 300, f"what the nodes of {job} did")


@pytest.fixture
def site(slurm, tmp_path):
    directory = slurm.directory / f"clients-{tmp_path.name}"         # ctl has a /tmp of its own
    directory.mkdir()
    found = WithClients(slurm, directory)
    yield found
    found.close()


def test_a_job_has_what_its_nodes_did_and_not_what_they_did_before_and_after(site):
    """
    37 writes of node1 and 23 of node2 in its time, 41 of node1 before and 43 after it; two jobs on
    node3 at the same time have none.
    """
    slurm, waits = site.slurm, site.waits
    site.wrote("node1", 41)
    site.pause()
    job = slurm.submit(waits, "--nodes=2", "--nodelist=node[1-2]", "--exclusive")
    shared = [slurm.submit(waits, "--nodes=1", "--ntasks=1", "--nodelist=node3") for _ in range(2)]

    def running():
        lines = slurm.ctl("squeue", "--noheader", "--states=RUNNING", "--format=%A").stdout.split()
        return {job, *shared} <= set(lines)
    until(running, 150, "three running jobs")
    site.pause()
    site.wrote("node1", 37), site.wrote("node2", 23), site.wrote("node3", 97)
    site.pause()
    site.end(job, {})
    site.pause()
    site.wrote("node1", 43)

    found = site.by_node(job)
    [fs] = found["file_systems"]
    assert ("", "exclusive", "") == (found["why_none"], found["alone"], found["unknown_nodes"])
    assert (60 * 1009, 60 * 1009, 60, 60) == tuple(
        fs[bound][name] for name in ("write_bytes", "writes") for bound in ("low", "high"))
    assert (43 * 1009, False) == (fs["later_write_bytes"], fs["lower_bound"])
    assert found["clocks_within_s"] < CLOCKS_WITHIN_S
    # Known at once, without the accounting.
    for one in shared:
        assert "it shared node3 with another job" == site.by_node(one)["why_none"]
