"""
A server that is killed, and started again, at every step of the protocol.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from campaign import WHOLE, tell
from processes import AFTER, BEFORE, Desk, Server, until, write_tree
from site_desk import THE_WORK, SiteDesk, SiteServer, application
from storage import StorageServer, moved

DOOMED = Path(__file__).with_name("doomed.py")
NODES = ("nid00001", "nid00002", "nid00003")
_NTHS = (1, 2, 3) if WHOLE else (2,)
_STEPS = ("hello", "received", "counted", "stored", "answered")


def begin_doomed(desk, step, method, nth, *options, env):
    """(process, its standard output, its standard error) of a server that ends itself."""
    out, err = desk.directory / "doomed.out", desk.directory / "doomed.err"
    with out.open("w") as out_file, err.open("w") as err_file:
        process = subprocess.Popen(
            [sys.executable, str(DOOMED), step, method, str(nth), *map(str, options)],
            cwd=desk.directory, stdin=subprocess.DEVNULL, stdout=out_file, stderr=err_file, env=env)
    desk.started.append(process)
    until(lambda: process.poll() is not None or "server" in err.read_text(), what="the server")
    until(lambda: err.read_text().endswith("\n"), what="its line")
    assert process.poll() is None, err.read_text()
    return process, out, err


def doomed_site(desk, step, method, nth):
    return SiteServer(*begin_doomed(
        desk, step, method, nth, "--site", "--listen", "127.0.0.1", "--config", desk.cfg,
        env={"PATH": str(desk.bin), "PYTHONPATH": ":".join(sys.path)}))


@pytest.mark.parametrize("nth", _NTHS)
@pytest.mark.parametrize("step", _STEPS if WHOLE else ("counted", "stored", "answered"))
def test_a_site_server_killed_at_a_step_counts_every_epilog_once(tmp_path, step, nth):
    with SiteDesk(tmp_path) as desk:
        desk.configure(site_deadline=600)
        desk.site().kill()                         # it has made the secret
        env = {"SLURM_JOB_NODELIST": "nid[00001-00003]"}
        roots = [desk.tree(node, **BEFORE) for node in NODES]
        for node, root in zip(NODES, roots):
            assert 0 == desk.hook("prolog", node, root, "4711", env=env).status
            write_tree(root, **AFTER)
        doomed = doomed_site(desk, step, "report", nth)
        for node, root in zip(NODES, roots):
            assert 0 == desk.hook("epilog", node, root, "4711", env=env).status
        assert -9 == doomed.process.wait(100)
        waiting = {node: desk.kept(node) for node in NODES}
        # Its last answer has left, but for the second, who may have heard of its end first.
        gone = nth - (step != "answered")
        assert [[]] * gone + [["delta"]] * (3 - gone) == list(waiting.values())
        desk.site()
        for node in NODES:
            assert 0 == desk.hook("deliver", node).status
        record = desk.record("4711", lambda record: 3 == record["coverage"]["reported"])
        assert {name: 3 * value for name, value in THE_WORK.items()} == application(record)
        assert [[], [], []] == [desk.kept(node) for node in NODES]
        tell("step: site server, report", step=step, nth=nth, kills=1, counted_once=3)


@pytest.mark.parametrize("nth", _NTHS)
@pytest.mark.parametrize("step", _STEPS if WHOLE else ("stored",))
def test_a_site_server_killed_at_a_step_counts_every_sweep_once(tmp_path, step, nth):
    with SiteDesk(tmp_path) as desk:
        desk.configure(harvest_interval=1, node_retry_timeout=20)
        site, oss = desk.site(), StorageServer(desk)
        oss.show("OST0000", {"4711": moved(written=23 * 1009)})
        assert 0 == oss.sweep().status
        site.kill()
        doomed = doomed_site(desk, step, "sweep", nth)
        for place in range(1, 4):
            desk.configure(node_retry_timeout=0)
            oss.show("OST0000", {"4711": moved(written=(23 + place) * 1009)})
            oss.sweep()
        # An agent says hello once by itself, and once before each message.
        assert -9 == doomed.process.wait(100)
        desk.site()
        desk.configure(node_retry_timeout=20)
        oss.show("OST0000", {"4711": moved(written=37 * 1009)})
        assert 0 == oss.sweep().status

        until(lambda: [(37 * 1009, False)] == desk.written(), what="all that was done, once")
        tell("step: site server, sweep", step=step, nth=nth, kills=1, counted_once=1)


@pytest.mark.parametrize("nth", _NTHS)
@pytest.mark.parametrize("step", _STEPS if WHOLE else ("counted", "stored", "answered"))
def test_a_jobs_server_killed_at_a_step_counts_every_node_once(tmp_path, step, nth):
    """The next one has from the journal what was stored; who has no answer sends it again."""
    with Desk(tmp_path) as desk:
        roots = {node: desk.tree(node, **BEFORE) for node in NODES}
        for node, root in roots.items():
            assert 0 == desk.client("start", *desk.on(node, root)).status
            write_tree(root, **AFTER)
        options = ("--job", desk.job, "--nodes", "nid[00001-00003]", "--listen", "127.0.0.1",
                   "--format", "json")
        doomed = Server(*begin_doomed(
            desk, step, "report", nth, *options,
            env=desk.environment({"PYTHONPATH": ":".join(sys.path),
                                  "IOSTATS_NODE_STATE_DIR": str(desk.journals)}))[:1], desk.job,
                        desk.directory / "doomed.out", desk.directory / "doomed.err")
        doomed.wait_until_listening()
        env = {"IOSTATS_NODE_RETRY_TIMEOUT": "0"}

        def stop(node, port):
            return desk.client("stop", "--server", f"127.0.0.1:{port}",
                               *desk.on(node, roots[node]), env=env).status
        first = [stop(node, doomed.port) for node in NODES]
        assert -9 == doomed.process.wait(100)
        gone = nth - (step != "answered")
        assert [0] * gone + [3] * (3 - gone) == first
        kept = gone + (step == "stored")
        server = desk.server("--nodes", "nid[00001-00003]", "--format", "json")
        # With all of them in the journal it prints, and ends.
        again = [stop(node, server.port) for node in NODES[gone:]] if kept < 3 else []
        assert [0] * (3 - gone if kept < 3 else 0) == again
        done = server.wait()
        assert {} == done.record["coverage"]["missing"]
        assert {name: 3 * value for name, value in THE_WORK.items()} == application(done.record)
        assert (f"{kept} node" in done.err) == (kept > 0)
        assert [] == list(desk.journals.iterdir())
        tell("step: job server, report", step=step, nth=nth, kills=1, counted_once=3)
