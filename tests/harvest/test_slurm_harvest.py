"""
The harvest beside a real Slurm: ids in job_stats are Slurm's own, users see their names for them.
"""

import json
import re
import time
from types import SimpleNamespace

import pytest
from cluster import ALICE
from processes import until
from storage import EAGER_AT, StorageServer, moved
from test_slurm_site import Site, when_done, written

pytestmark = [pytest.mark.slurm, pytest.mark.root, pytest.mark.fuse, pytest.mark.timeout(600)]

HARVEST = """
[harvest]
interval = 1
spool_dir = {directory}/spool
"""


# Nothing waits in the memory of nodes here, to be written after a job's end.
TIMES = """
from iostats.harvest import job_lifecycle, job_times
job_lifecycle.WRITES_BACK_S = job_times.WRITES_BACK_S = 2.0
"""


class Harvested:
    """
    A Site with a storage server whose agent runs on ctl; jobs end when the test lets them.

    Attributes:
        waits: a command of the shell that ends then.
    """

    def __init__(self, slurm, directory, times=TIMES):
        self.site, self.slurm, self._go = Site(slurm, times=times), slurm, directory / "go"
        self.waits = f"until [ -e {self._go} ]; do sleep 0.1; done"
        with self.site.site_cfg.open("a") as file:
            file.write(HARVEST.format(directory=directory))
        self.oss = StorageServer(SimpleNamespace(directory=directory))
        self.oss.show("OST0000", {})
        self.agent = slurm.begin(
            "ctl", "/bin/sh", "-c", f'exec "$@" 2>>{self.site.directory}/agent', "sh",
            "/usr/bin/python3", "-I", "-S", "-c", EAGER_AT.format(str(slurm.home)), "harvest",
            "--root", self.oss.root, "--node", "oss1")
        until(lambda: self.query("e"), what="the first sweeps")
        time.sleep(1.1)                  # Slurm's times are whole seconds, and rounded down

    def query(self, level):
        """The rows of `iostats query` on ctl."""
        return self.answer(level).get("rows", [])

    def answer(self, level):
        """What `iostats query` says on ctl; {} while there is nothing to say."""
        done = self.slurm.ctl("env", f"PYTHONPATH={self.slurm.home}", self.slurm.python, "-m",
                              "iostats", "query", level, "--json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def end(self, job, entries):
        """Let the job of these `entries` end, and the entries expire soon after."""
        self._go.touch()
        assert "COMPLETED" == self.slurm.wait(job)
        self.oss.show("OST0000", {**entries, "cp.41": moved(43)})
        until(lambda: any(row["job"] == "cp.41" for row in self.query("b")),
              what="a sweep after the end")
        # Not before: between two sweeps of a slow machine entries could have expired unseen.
        self.oss.cleanup_s = 2
        self.oss.show("OST0000", {**entries, "cp.41": moved(43)})

    def close(self):
        self.agent.kill()
        self.agent.wait()
        self.site.close()


@pytest.fixture
def harvested(slurm, tmp_path):
    directory = slurm.directory / f"harvest-{tmp_path.name}"         # ctl has a /tmp of its own
    directory.mkdir()
    found = Harvested(slurm, directory)
    yield found
    found.close()


def test_the_tasks_of_an_array_have_their_names_and_their_user(harvested):
    """Each of three tasks; job_stats have Slurm's raw ids, two of which are not the array's."""
    slurm, site = harvested.slurm, harvested.site
    job = slurm.submit(harvested.waits, "--array=0-2", "--nodes=1", "--ntasks=1",
                       "--job-name=climate")

    def raw():
        lines = slurm.ctl("squeue", "--noheader", "--array", "--states=RUNNING",
                          "--format=%A %K").stdout.split("\n")
        found = {task: one for one, task in (line.split() for line in lines if line)}
        return found if len(found) == 3 else None
    ids = until(raw, what="three running tasks")
    entries = {**{ids[str(task)]: moved(1009 * (23 + task), 4099) for task in range(3)},
               "cp.0": moved(37)}
    harvested.oss.show("OST0000", entries)
    rows = until(lambda: [row for row in harvested.query("b") if row["user"] == ALICE][2:] and
                 harvested.query("b"), 150, "what Slurm says of them")
    assert {f"{job}_{task}": 1009 * (23 + task) for task in range(3)} | {"cp.0": 37} == {
        row["job"]: row["read_bytes"] for row in rows}
    harvested.end(job, entries)

    def final():
        records = site.records(job, 3)
        return records if all(one["harvest"] and one["harvest"]["final"]
                              for one in records) else None
    records = until(final, 150, "the final numbers of all three")
    assert {(f"{job}_{task}", 1009 * (23 + task), False) for task in range(3)} == {
        (one["job"]["id"], one["harvest"]["file_systems"][0]["read_bytes"],
         one["harvest"]["lower_bound"]) for one in records}
    assert {("climate", ALICE, 1)} == {(one["batch"]["name"], one["job"]["user"],
                                        one["coverage"]["reported"]) for one in records}
    # Of a loaded machine the agent says that an answer comes late; it is sent again then.
    said = (site.directory / "agent").read_text().splitlines()
    late = re.compile(r"; \d+ messages? waits? in |no answer of ctl:\d+ within|is back;")
    assert [] == [line for line in said if not late.search(line)]


def test_a_job_of_four_nodes_is_seen_from_both_sides(harvested):
    """What each side counted stands side by side, and is not mixed."""
    slurm, site = harvested.slurm, harvested.site
    job = slurm.submit(site.srun(more=f"; : >{site.lustre.data}/done.$SLURM_NODEID; "
                                      f"{harvested.waits}"), "--nodes=4")
    when_done(site)
    harvested.oss.show("OST0000", {job: moved(written=98 * 65536)})
    until(lambda: any(row["job"] == job for row in harvested.query("b")), what="the job's bytes")
    harvested.end(job, {job: moved(written=98 * 65536)})
    record = until(lambda: next((one for one in site.records(job) if one["harvest"]
                                 and one["harvest"]["final"]), None), 150, "the final numbers")
    assert (98, 98, 4, True) == written(record)
    [fs] = record["harvest"]["file_systems"]
    assert (98 * 65536, 0) == (fs["write_bytes"], fs["read_bytes"])
    text = site.report(job).stdout
    assert "The nodes and the storage servers compared:" in text
