"""
The harvest as a site has it: agents on storage servers, the site's server, and its users' commands.
"""

import random
import time

import pytest
from processes import until
from site_desk import a_report, slurm_job, squeue
from storage import StorageServer, moved

from iostats.load.time_lines import compute_total, parse_history


def make_part(desk, job, true=lambda part: True):
    """The member `harvest` of a job's one record, when there is one of which `true` holds."""
    return desk.record(job, lambda record: record["harvest"] and true(record["harvest"]))[
        "harvest"]


@pytest.fixture
def servers(desk):
    """An OSS and an MDS that forget quickly; their agents have swept once."""
    desk.configure(harvest_interval=1)
    found = StorageServer(desk, "oss1", cleanup_s=6), StorageServer(desk, "mds1", cleanup_s=6)
    found[0].show("OST0000", {})
    found[1].show("MDT0000", {})
    return found


def test_a_job_is_seen_from_both_sides_and_more_may_come(desk):
    desk.configure(harvest_interval=1)
    desk.site()
    oss, mds = StorageServer(desk, "oss1"), StorageServer(desk, "mds1")
    oss.show("OST0000", {})
    mds.show("MDT0000", {})
    for one in (oss, mds):
        done = one.sweep()
        assert (0, "", "") == (done.status, done.out, done.err)
    time.sleep(1.1)                                 # the next sweep is that of another second
    oss.show("OST0000", {"4711": moved(41_003, 53_007), "cp.0": moved(37)})
    mds.show("MDT0000", {"4711": moved(opens=23)})
    for one in (oss, mds):
        done = one.sweep()
        assert (0, "", "") == (done.status, done.out, done.err)
    desk.work("4711")
    part = make_part(desk, "4711")
    [fs] = part["file_systems"]
    assert (41_003, 53_007, 41, 53, 23, False, True, []) == (
        fs["read_bytes"], fs["write_bytes"], fs["read_rpcs"], fs["write_rpcs"],
        fs["operations"]["open"]["count"], part["final"], fs["lower_bound"], fs["notes"])
    done = desk.iostats("report", "--format", "plain", "4711")
    table = done.out[done.out.index("The nodes and the storage"):]
    assert """\
The nodes and the storage servers compared:
scratch       Application    Network    OSS and MDS
Read             40.0 KiB   40.0 KiB    >= 40.0 KiB
Written          51.8 KiB   51.8 KiB    >= 51.8 KiB
Reads                  23         19          >= 41
Writes                 37         19          >= 53
Operations             56          -          >= 23
Marks: >= may be too low, - unknown
note: the storage servers' counts are not final yet
""" == table


def test_a_job_that_no_node_reports_is_known_by_the_storage_servers_alone(desk, servers):
    """
    It settles by silence: three intervals of 6 s.  When it began is not known; its entry was made
    before the first sweep was over, so it may have been there before the harvest was.
    """
    desk.site()
    oss, mds = servers
    began_ns = time.time_ns()
    agents = [one.agent(patient=True) for one in servers]
    until(lambda: desk.query(level="e"), what="the first sweeps")
    oss.show("OST0000", {"4711": moved(41_003, 53_007), "cp.0": moved(37)}, began_ns=began_ns)
    mds.show("MDT0000", {"4711": moved(opens=23)})
    part = make_part(desk, "4711", lambda part: part["final"])
    [fs] = part["file_systems"]
    assert (41_003, 53_007, 23, True, True) == (
        fs["read_bytes"], fs["write_bytes"], fs["operations"]["open"]["count"],
        fs["lower_bound"], part["lower_bound"])
    assert "first read after the job began" in fs["notes"][0]
    for agent in agents:
        agent.terminate()
        assert ("", "") == agent.communicate(timeout=100)
    done = desk.iostats("report", "4711")
    assert "Job 4711: no node has reported: numbers from the storage servers" in done.out
    assert "Sweeps of the storage servers saw I/O of it from" in done.out
    assert "By target:" in done.out
    done = desk.iostats("jobs", "-P", "-n", "--noconvert", "-j", "4711", "-o",
                        "JobID,ServerReadBytes,ServerWriteBytes")
    assert ("4711|>= 41003|>= 53007\n", 0) == (done.out, done.status)
    assert [] == desk.records("cp.0")


def test_a_job_that_its_batch_system_has_forgotten_keeps_its_facts(desk, servers):
    """
    squeue shows that it runs, its user, two nodes and its start; then it is gone from there: it is
    over, and how or when it ended is not known.
    """
    squeue(desk, slurm_job("4711", "RUNNING", name="solve", user_name="root", nodes="nid[1-2]",
                           start_time=int(time.time()), end_time=0))
    desk.configure(batch_system="slurm")
    desk.site()
    oss, _ = servers
    agents = [one.agent(patient=True) for one in servers]
    until(lambda: desk.query(level="e"), what="the first sweeps")
    oss.show("OST0000", {"4711": moved(41_003, 53_007)})
    until(lambda: [row for row in desk.query(level="b") if row["user"] == "root"],
          what="the job's user")
    squeue(desk)
    record = desk.record("4711", lambda record: record["harvest"] and record["harvest"]["final"])
    for agent in agents:
        agent.terminate()
        agent.communicate(timeout=100)
    assert ("root", "solve", 2, "") == (
        record["job"]["user"], record["batch"]["name"], record["coverage"]["expected"],
        record["batch"]["outcome"])
    assert record["job"]["started"] is not None and record["job"]["ended"] is None
    out = desk.iostats("report", "4711").out
    assert "Job 4711 (solve) of root: no node has reported: numbers from the storage servers" in out
    assert "end unknown" in out


def test_whatever_is_killed_every_number_is_counted_once(desk, servers):
    """
    The site's server by kill -9 again and again, an agent as well; a job writes 1009 bytes at a
    time, on two targets.
    """
    oss, mds = servers
    for one in servers:                       # nothing expires meanwhile
        one.cleanup_s = 600
    oss.show("OST0000", {})
    mds.show("MDT0000", {})
    dice, site = random.Random(23), desk.site()
    agents = [one.agent(patient=True) for one in servers]
    until(lambda: desk.query(level="e"), what="the first sweeps")
    for step in range(1, 24):
        oss.show("OST0000", {"4711": moved(1009 * step, 1009 * 2 * step)})
        mds.show("MDT0000", {"4711": moved(opens=step)})
        time.sleep(dice.random() * 0.6)
        if step % 3 == 0:
            site.kill()
            site = desk.site()
        if step % 7 == 0:
            number = dice.randrange(2)
            agents[number].kill()
            agents[number].communicate()
            agents[number] = servers[number].agent(patient=True)

    def counted():
        rows = desk.query(level="b", job="4711")
        return rows and (rows[0]["read_bytes"], rows[0]["write_bytes"],
                         rows[0]["metadata"]) == (1009 * 23, 1009 * 46, 23)
    until(counted, 150, "all that was done")
    site.kill()
    desk.site()
    desk.wait_for_sweeps(2)
    assert counted()
    history = parse_history(desk.asked("job_history", job="4711"))     # in its line as well
    [scratch] = history.file_systems
    assert [1009 * 23, 1009 * 46, 23] == [compute_total(scratch.job, metric)[0] for metric in (
        "read_bytes", "write_bytes", "open")]
    assert {"OST0000", "MDT0000"} == {one.target for one in history.targets}


def test_the_site_server_is_away_and_nothing_is_lost(desk, servers):
    site = desk.site()
    oss, _ = servers
    agent = oss.agent(patient=True)
    until(lambda: desk.query(level="e"), what="the first sweep")
    site.kill()
    for step in range(1, 6):
        oss.show("OST0000", {"4711": moved(1009 * step)})
        oss.wait_for_sweeps(2)
    time.sleep(oss.cleanup_s + 1.5)              # it has expired meanwhile
    oss.show("OST0000", {"4711": moved(37 * 1009)}, anew=["4711"])
    oss.wait_for_sweeps(2)
    desk.site()
    until(lambda: [(42 * 1009, False)] == [
        (row["read_bytes"], row["lower_bound"]) for row in desk.query(
            level="b", job="4711")], 150, "all that was done")
    agent.terminate()
    agent.communicate(timeout=100)


def test_jobs_of_one_id_on_two_clusters_have_no_number_that_is_of_both(desk):
    """Lustre counts by the id alone.  The first one's record is made again without it, too."""
    desk.configure(harvest_interval=1, site_deadline=0.05)
    desk.site()
    oss = StorageServer(desk, "oss1")
    oss.show("OST0000", {})
    oss.sweep()
    time.sleep(1.1)                                 # the next sweep is that of another second
    oss.show("OST0000", {"4711": moved(41_003, 53_007)})
    oss.sweep()

    def ends(cluster, node):
        now = time.time()
        desk.send(a_report("4711", node, cluster, ended=now, elapsed_s=60.0,
                           about={"cluster": cluster, "nodes": node}))

    def by_cluster():
        return {one["batch"]["cluster"]: one for one in desk.records("4711")}

    ends("alpha", "nid1")
    until(lambda: by_cluster().get("alpha"), what="a record")
    assert 53_007 == by_cluster()["alpha"]["harvest"]["file_systems"][0]["write_bytes"]
    ends("beta", "nid2")
    until(lambda: len(found := by_cluster()) == 2 and not found["alpha"]["harvest"],
          what="two records without what both did")
    for other, cluster in (("beta", "alpha"), ("alpha", "beta")):
        record = by_cluster()[cluster]
        assert (None, [
            f"the storage servers' counts are left out: there was a job 4711 of cluster "
            f"{other} at the same time, and Lustre counts both under one id"]) == (
                record["harvest"], record["notes"])
        assert 41_003 == record["file_systems"][0]["application"]["read_bytes"]
    shown = desk.iostats("report", "4711").out
    assert shown.count("note: the storage servers' counts are left out") == 2
