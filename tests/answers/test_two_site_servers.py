"""
A site with two servers, the second of which is a standby that is switched on when the first is
away: epilogs, and the commands that people give.
"""
from __future__ import annotations

import signal
import time

import pytest
from processes import AFTER, BEFORE, free_port, until, write_tree
from site_desk import SiteDesk
from storage import StorageServer, moved

from iostats.doctor import site as site_doctor


class TwoServers(SiteDesk):
    """A desk with a port and a store more."""

    def __init__(self, directory):
        super().__init__(directory)
        self.other = free_port()
        self.configure(site_host=f"127.0.0.1, 127.0.0.1:{self.other}", site_deadline=0)

    def standby(self):
        return self.site(env={"IOSTATS_SITE_PORT": str(self.other),
                              "IOSTATS_SITE_STORE": str(self.directory / "standby.sqlite")})

    def doctor(self):
        """[(state, text)] of the lines about the site's server."""
        return [(one.state, one.text) for one in site_doctor.examine(self.config, "mgmt1")
                if one.name == "site"]


DESK = TwoServers


@pytest.fixture
def desk(tmp_path):
    desk = TwoServers(tmp_path)
    yield desk
    desk.close()


def is_silent(done):
    return (0, "", "") == (done.status, done.out, done.err)


def epilog(desk, job):
    """The Done of a job's epilog on a node of its own."""
    node = f"nid{int(job):05}"
    root = desk.tree(node, **BEFORE)
    assert is_silent(desk.hook("prolog", node, root, job, hook_dir=desk.hooks))
    write_tree(root, **AFTER)
    return desk.hook("epilog", node, root, job, hook_dir=desk.hooks)


def test_the_first_hangs_and_dies_and_comes_back(desk):
    first = desk.site()
    assert is_silent(epilog(desk, "4711"))
    assert desk.record("4711")
    [(state, text)] = desk.doctor()
    assert "ok" == state and text.startswith(f"127.0.0.1:{desk.port} is the site's server now; "
                                             f"127.0.0.1:{desk.other}: Connection refused")

    first.process.send_signal(signal.SIGSTOP)
    standby = desk.standby()
    assert is_silent(epilog(desk, "4723"))
    first.process.send_signal(signal.SIGCONT)
    assert [("note", f"127.0.0.1:{desk.port} and 127.0.0.1:{desk.other} answer: only one may "
             "run, since each has only the reports that it received")] == desk.doctor()[1:]
    first.kill()
    assert is_silent(epilog(desk, "4737"))
    assert desk.record("4723") and desk.record("4737")
    assert [] == desk.records("4711")                   # the standby was not told of it
    [(state, text)] = desk.doctor()
    assert "note" == state and f"127.0.0.1:{desk.other} is the site's server now" in text
    for command in (("report", "4737"), ("jobs",), ("nodes",), ("events",)):
        done = desk.iostats(*command)
        assert done.status in (0, 3) and "no answer" not in done.err, (command, done)
    assert "4737" in desk.iostats("jobs").out

    standby.stop()
    done = epilog(desk, "4741")
    assert 0 == done.status and "1 report waits in" in done.err
    assert all(f"127.0.0.1:{port}: Connection refused" in done.err
               for port in (desk.port, desk.other))
    desk.site()
    assert is_silent(epilog(desk, "4747"))   # which sends what waits, too
    assert all(desk.record(job) for job in ("4711", "4741", "4747"))
    assert [] == desk.records("4737")


def test_a_job_is_exact_at_both_servers_whichever_of_them_is_killed(desk):
    """
    An agent goes from one to the other and back, each of them killed while the job goes on.  What
    it has kept for the first is counted there, also of a job whose entry has expired meanwhile.
    """
    desk.configure(harvest_interval=1)
    first = desk.site()
    oss = StorageServer(desk, "oss1", cleanup_s=6)
    oss.show("OST0000", {"4711": moved(1009)})
    agent = oss.agent(patient=True)

    def is_counted(read, job="4711"):
        until(lambda: [(read, False)] == [(row["read_bytes"], row["lower_bound"])
                                          for row in desk.query(level="b", job=job)],
              what=lambda: f"{read} of {job}, not {desk.query(level='b', job=job)},")
    is_counted(1009)
    first.kill()
    oss.show("OST0000", {"4711": moved(23 * 1009), "4723": moved(31 * 1009)})
    oss.wait_for_sweeps(2)
    time.sleep(oss.cleanup_s + 1.5)
    oss.show("OST0000", {"4711": moved(37 * 1009)})
    standby = desk.standby()
    is_counted(37 * 1009)
    assert [] == desk.query(level="b", job="4723")      # it was over before
    oss.show("OST0000", {"4711": moved(41 * 1009)})
    is_counted(41 * 1009)
    standby.kill()
    desk.site()
    oss.show("OST0000", {"4711": moved(43 * 1009)})
    is_counted(31 * 1009, "4723")                       # soon it is over, and in its record alone
    is_counted(43 * 1009)
    agent.terminate()
    agent.communicate(timeout=100)
