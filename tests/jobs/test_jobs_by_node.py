"""
Jobs that nobody has measured: what their nodes did, by exports alone, from the messages of agents
to the report of a user.  The batch system is a few files; the site's server is a process.
"""
from __future__ import annotations

import json
import time

import pytest
from client_messages import ClientAgent
from processes import until
from site_desk import SiteDesk, a_report, script, slurm_job

from iostats.wire import client, protocol

NID = {"node1": "10.77.0.11@tcp", "node2": "10.77.0.12@tcp", "node3": "10.77.0.13@tcp"}
EVERY = 20
BACK = 17                               # sweeps before now: 340 s
# What node1 does in the sweeps: each is told from all others in any sum.
GAINS = [1 << number for number in range(BACK + 1)]


class Site:
    """
    A SiteDesk with a batch system, and agents that have swept for six minutes.

    Attributes:
        now: the moment of the last sweep.
    """

    def __init__(self, directory, **choices):
        self.desk = SiteDesk(directory)
        names = directory / "names"
        names.write_text("".join(f"{nid} {node}\n" for node, nid in NID.items()))
        self.desk.configure(**{"clients_names": names, "clients_jobs_interval": 1,
                               "batch_system": "slurm", **choices})
        self.now = time.time() // EVERY * EVERY
        self.files = {name: directory / f"{name}.txt" for name in ("squeue", "sacct", "config")}
        self.asked = directory / "asked"
        self.runs(), self.accounted()
        self.files["config"].write_text("ClusterName = sim\nMinJobAge = 1000 sec\n")
        script(self.desk.bin / "squeue", f"""#!/bin/sh
echo squeue >>{self.asked}
case "$*" in *--json*) exec /bin/cat {directory}/squeue.json;; esac
exec /bin/cat {self.files["squeue"]}
""")
        script(self.desk.bin / "sacct", f"""#!/bin/sh
echo "sacct $*" >>{self.asked}
case "$*" in *--json*) echo '{{"jobs": []}}'; exit;; *--jobs=*) exit;; esac
exec /bin/cat {self.files["sacct"]}
""")
        script(self.desk.bin / "scontrol", f"""#!/bin/sh
/bin/date '+Configuration data as of %Y-%m-%dT%H:%M:%S'
exec /bin/cat {self.files["config"]}
""")

    # -- the batch system: times are seconds before the last sweep

    def runs(self, *runs):
        """What squeue lists: (job, nodes, began, ended or None, OVER_SUBSCRIBE or "OK")."""
        lines, jobs = [], []
        for job, nodes, began, ended, *shared in runs:
            state = "RUNNING" if ended is None else "COMPLETED"
            lines.append(f"{job}|{job}|{state}|12345|alice|hpc|main|1|{self._text(began)}|"
                         f"{self._text(ended or 0)}|{nodes}|{(*shared, 'OK')[0]}\n")
            jobs.append(slurm_job(job, state, nodes=nodes, start_time=self._at(began),
                                  end_time=self._at(ended or 0), name=f"job{job}"))
        _put(self.files["squeue"], "".join(lines))
        _put(self.files["squeue"].with_suffix(".json"), json.dumps({"jobs": jobs}))

    def accounted(self, *runs):
        """What the accounting has: (job, nodes, began, ended)."""
        _put(self.files["sacct"], "".join(
            f"{job}|{job}|COMPLETED|0:0|12345|alice|hpc|main|1|{self._text(began)}|"
            f"{self._text(began)}|{self._text(ended)}|sim|{nodes}\n"
            for job, nodes, began, ended in runs))

    def _at(self, before):
        return int(self.now - before)

    def _text(self, before):
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(self._at(before)))

    def until_asked(self, times):
        """Until the list was asked for so many times more; what came before the last is kept."""
        def asked():
            return self.asked.read_text().count("squeue\n") if self.asked.exists() else 0
        before = asked()
        until(lambda: asked() >= before + times, what="the list of all jobs")

    # -- the storage servers

    def swept(self, gains=GAINS, node="node1", **fields):
        """
        Sweeps of oss1 up to now: in the one of n * 20 s ago `node` has written gains[-1 - n] bytes
        more than in the one before; node3 has done nothing.  `fields`: of the last message.
        """
        agent = ClientAgent("oss1", every=EVERY)
        for number, gain in enumerate(gains):
            slot = self.now - EVERY * (len(gains) - 1 - number)
            last = fields if number == len(gains) - 1 else {}
            answer = client.call(
                "127.0.0.1", self.desk.port, protocol.SITE, self.desk.signs(), "oss1",
                "packed_clients", agent.params(slot, {("scratch", "OST"): {
                    NID[node]: (0, gain, 0, 1, 0), NID["node3"]: (0, 0, 0, 0, 0)}}, **last))
            assert answer["taken"], answer

    def by_node(self, job="4711"):
        """The member of its record, when it is there."""
        return self.desk.record(job, lambda record: record["by_node"])["by_node"]


def _put(path, text):
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.desk.close()


def bounds(found, metric="write_bytes"):
    [fs] = found["file_systems"]
    return fs["low"][metric], fs["high"] and fs["high"][metric]


def sum_of(first, last):
    """What was written in the sweeps from `first` to `last` seconds ago, both with it."""
    return sum(GAINS[BACK - last // EVERY:BACK - first // EVERY + 1])


def test_a_job_that_nobody_measured_has_the_bounds_of_its_nodes(site):
    """
    It ran from 253 to 147 s ago.  The sweeps of 220 to 160 s ago are wholly in its time; those of
    240 and 140 s ago have something of it at most.
    """
    site.desk.site(hasty=False)
    site.runs(("4711", "node1", 253, 147), ("4712", "node3", 253, 147))
    site.swept()
    found = site.by_node()

    assert (sum_of(160, 220), sum_of(140, 240)) == bounds(found)
    assert (4, 6) == bounds(found, "writes")
    assert ("listed", "", "", []) == (found["alone"], found["why_none"], found["unknown_nodes"],
                                      found["notes"])
    assert pytest.approx((site.now - 253, site.now - 147), abs=2) == (found["began"],
                                                                      found["ended"])
    # The sweeps of 120 and 100 s ago are wholly in the minute after it.
    assert sum_of(100, 120) == found["file_systems"][0]["later_write_bytes"]
    assert (0, 0) == bounds(site.by_node("4712"))


def test_users_see_the_range_and_its_source(site):
    site.desk.site(hasty=False)
    site.runs(("4711", "node1", 253, 147), ("4712", "node2", 253, 147),
              ("4713", "node2", 240, 160))
    site.swept([gain << 20 for gain in GAINS])
    site.by_node(), site.by_node("4712")

    assert (960, 2016) == (sum_of(160, 220), sum_of(140, 240))              # MiB
    report = site.desk.iostats("report", "--format", "plain", "4711").out
    assert report.startswith("Job 4711 ")
    assert ("no node has reported: numbers by node, from the storage servers, 00:01:46 from "
            in " ".join(report.split()))
    assert "At the storage servers, by its nodes, which it had alone:" in report
    assert "960.0 MiB-2.0 GiB" in report
    listed = site.desk.iostats("jobs", "-P", "-n", "-S", "now-1hour", "-o",
                               "JobID,JobName,WriteBytes,Source,Note").out.splitlines()
    assert ["4711|job4711|960.0 MiB-2.0 GiB|exports|by node",
            "4712|job4712|-|-|no report; it shared node2 with another job"] == sorted(listed)[:2]


def test_a_job_that_ran_while_the_server_was_away_is_in_the_accounting(site):
    """squeue has forgotten it; and another that shared its node in that time."""
    site.desk.site(hasty=False)
    site.files["config"].write_text("ClusterName = sim\nMinJobAge = 30 sec\n")
    site.runs(("4713", "node3", 330, None))
    site.accounted(("4711", "node1", 253, 147), ("4712", "node3", 253, 147))
    site.swept()

    assert (sum_of(160, 220), sum_of(140, 240)) == bounds(site.by_node())
    assert "it shared node3 with another job" == site.by_node("4712")["why_none"]


def test_a_server_that_was_killed_goes_on_with_what_it_knew(site):
    """It saw the job run; the next one finds it over, in neither list but the accounting."""
    server = site.desk.site(hasty=False)
    site.runs(("4711", "node1", 253, None))
    site.swept()
    site.until_asked(3)
    server.kill()
    site.runs(("4711", "node1", 253, 147))
    site.desk.site(hasty=False)
    found = site.by_node()

    assert (sum_of(160, 220), sum_of(140, 240)) == bounds(found)


def test_losses_leave_no_upper_bound(site):
    """And say why: of the storage server whose agent began anew."""
    site.desk.site(hasty=False)
    site.runs(("4711", "node1", 253, 147))
    site.swept(losses=[{"since": site.now - 170.0, "until": site.now - 169.0, "target": "OST0000",
                        "nid": "", "why": "its counters were reset"}])
    [fs] = site.by_node()["file_systems"]

    assert (sum_of(160, 220), None, True) == (fs["low"]["write_bytes"], fs["high"],
                                              fs["lower_bound"])
    assert ["oss1: scratch-OST0000: its counters were reset"] == fs["notes"]


def test_a_node_that_is_no_client_is_missing_and_named(site):
    """Of two; and a job on none but such ones has no numbers."""
    site.desk.site(hasty=False)
    site.runs(("4711", "node[1,7-8]", 253, 147), ("4712", "node9", 253, 147))
    site.swept()
    found = site.by_node()

    assert ("node[7-8]", (sum_of(160, 220), None)) == (found["unknown_nodes"], bounds(found))
    assert "no client of any file system is known as node9" == site.by_node("4712")["why_none"]


def test_a_report_and_the_bounds_are_in_one_record(site):
    """Whichever comes first."""
    site.desk.site(hasty=False)
    site.desk.send(a_report(node="node1", about={
        "scheduler": "slurm", "nodes": "node1", "cluster": "sim"}))
    site.desk.record("4711")
    site.runs(("4711", "node1", 253, 147))
    site.swept()
    found = site.desk.record("4711", lambda record: record["by_node"])

    assert (41_003, (sum_of(160, 220), sum_of(140, 240))) == (
        found["file_systems"][0]["application"]["read_bytes"], bounds(found["by_node"]))


def test_without_exports_or_with_0_the_batch_system_is_not_asked(tmp_path):
    """Neither before the first sweep of clients, nor where site.cfg says never."""
    site = Site(tmp_path, clients_jobs_interval=0)
    site.desk.site(hasty=False)
    site.runs(("4711", "node1", 253, 147))
    site.swept()
    until(lambda: site.desk.answer(level="clients"), what="a sweep")
    time.sleep(2.5)

    assert not site.asked.exists()
    site.desk.close()

