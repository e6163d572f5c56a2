"""
What went wrong while a job ran, on a simulated site: storage servers with their kernel's logs,
their agents, the job's prolog and epilog, the site's server, and the report.
"""
from __future__ import annotations

import subprocess
import sys
import time

import pytest
from processes import CLIENT, until
from site_desk import SiteDesk
from test_simlustre import simlustre
from test_storage_servers import NODE1, NODE2, do, file_on, started


def told(site, *words):
    simlustre("--ctl", site.directory / "oss1", *words)


def agent(desk, site, server):
    config = desk.directory / f"{server}.cfg"
    config.write_text(desk.text({**desk.choices, "harvest.spool_dir": desk.directory / server}))
    desk.started.append(subprocess.Popen(
        [sys.executable, "-I", "-S", CLIENT, "harvest", "--root", site.directory / server / "root",
         "--node", server, "--config", config], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def hook(desk, role, node, job, directory):
    done = desk.hook(role, node, directory / "root", job, env={"SLURM_JOB_USER": "alice"})
    assert (0, "") == (done.status, done.out), done


def kinds(record):
    """What was told, each once."""
    found = [(one["kind"], one["nodes"], one["target"]) for one in record["events"]]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("release", ["2.12", "2.17"])
@pytest.mark.fuse
def test_a_report_says_what_broke(request, tmp_path, release):
    """
    Job 4711 on node1 has written, and its node is evicted by an OST; job 4712 on node2 runs at the
    same time, works at the other OST, and has no part in that.  Then the other OST restarts, of
    which both tell.  Job 4713 comes after all this.
    """
    site = started(tmp_path, request, release)
    node1, node2 = site.client("node1", NODE1), site.client("node2", NODE2)
    (tmp_path / "desk").mkdir()
    with SiteDesk(tmp_path / "desk") as desk:
        (desk.directory / "names").write_text(f"{NODE1} node1\n{NODE2} node2\n")
        desk.configure(harvest_interval=1, harvest_cpu_percent=100, events_every=1,
                       clients_names=desk.directory / "names")
        desk.site()
        for server in ("oss1", "mds1"):
            agent(desk, site, server)
        until(lambda: {"oss1", "mds1"} == {row["node"] for row in desk.asked(
            "events_status")["servers"]}, what="both agents")
        time.sleep(1.1)                         # its targets were started before
        hook(desk, "prolog", "node1", "4711", node1)
        hook(desk, "prolog", "node2", "4712", node2)
        first, other = file_on(node1, 0), file_on(node2, 1)
        do(node1, f"open({first!r}, 'wb').write(bytes(23))", "4711")
        do(node2, f"open({other!r}, 'wb').write(bytes(37))", "4712")
        told(site, "evict", NODE1, "scratch-OST0000")
        do(node1, f"open({first!r}, 'rb').read(1)", "4711")     # learns of it
        time.sleep(1.1)
        told(site, "restart", "scratch-OST0001")
        do(node2, f"open({other!r}, 'rb').read(1)", "4712")
        time.sleep(1.1)
        hook(desk, "epilog", "node1", "4711", node1)
        hook(desk, "epilog", "node2", "4712", node2)
        hook(desk, "prolog", "node1", "4713", node1)
        do(node1, f"open({first!r}, 'wb').write(bytes(41))", "4713")
        hook(desk, "epilog", "node1", "4713", node1)

        def has(kind):
            return lambda record: any(one["kind"] == kind for one in record["events"] or ())
        hit = desk.record("4711", lambda record: has("evicted")(record)
                          and has("target_up")(record))
        [evicted] = [one for one in hit["events"] if one["kind"] == "evicted"]
        assert ("node1", "scratch-OST0000", "administrator", "may be lost", True, "both", 1) == (
            tuple(evicted[name] for name in ("nodes", "target", "cause", "data", "is_certain",
                                             "told_by", "clients")))
        assert evicted["longest_s"] < 2
        on_ost1 = {("target_down", "", "scratch-OST0001"), ("target_up", "", "scratch-OST0001")}
        assert on_ost1 | {(kind, "node1", "scratch-OST0000") for kind in (
            "evicted", "connection_lost", "connection_restored")} == kinds(hit)
        beside = desk.record("4712", has("target_up"))
        assert on_ost1 | {(kind, "node2", "scratch-OST0001") for kind in (
            "connection_lost", "connection_restored")} == kinds(beside)
        after = desk.record("4713", lambda record: record["events"] is not None)
        assert [] == after["events"]
        text = desk.iostats("report", "4711").out
        assert "DATA MAY BE LOST: node1 was evicted by scratch-OST0000 at " in text.splitlines()[1]
        assert "Events during this job:" in text
        assert "4711" in desk.iostats("jobs", "-S", "now-1hour", "--lost").out
        assert "4713" not in desk.iostats("jobs", "-S", "now-1hour", "--lost").out
