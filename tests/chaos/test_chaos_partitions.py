"""
Hosts whose cable is out: before, between, in the middle of a message, before the answer.

Each host is a network namespace; where a phase depends on how far a message has come, a relay on
the server's host takes the link down when so many bytes have passed.
"""

import threading
import time

import pytest
from campaign import WHOLE, as_root, dice, tell
from faulty_relay import BACK, HALF_OPEN, OUT, Fault, Relay
from hosts import SERVER, Hosts
from processes import AFTER, BEFORE, Desk, until, write_tree
from site_desk import THE_WORK, SiteDesk, application
from storage import StorageServer, moved

from iostats.wire.client import Refused

pytestmark = as_root
_NODE = "nid00001"


@pytest.fixture
def hosts():
    with Hosts([_NODE, "oss1"]) as found:
        yield found


@pytest.fixture
def relay_to(hosts):
    """`relay_to(port)`: a Relay on the server's host."""
    made = []

    def make(port):
        with hosts["server"].inside():
            made.append(Relay(port, SERVER))
        return made[-1]
    yield make
    for one in made:
        one.close()


def places(name, out, back):
    """(way, byte) where a message is cut: near each end of each way, and some between."""
    chance, out, back = dice(name), out - 23, back - 23      # numbers in it may have fewer digits
    found = [(OUT, 0), (OUT, out), (BACK, 0), (BACK, back)]
    return found + [(way, chance.randrange(1, size)) for way, size in ((OUT, out), (BACK, back))
                    for _ in range(7 if WHOLE else 1)]


# -- epilog and deliver -> the site's server ---------------------------------------------------

@pytest.fixture
def desk(tmp_path, hosts):
    """A site whose server is on the host "server"."""
    with SiteDesk(tmp_path) as one:
        one.configure(site_host=SERVER, site_deadline=600, node_hook_timeout=4,
                      node_retry_timeout=5, harvest_interval=1)
        one.listen = one.port
        yield one


def site_of(desk, hosts):
    return desk.site("--listen", SERVER, preexec_fn=hosts["server"].enter)


def record_of(desk, hosts, job, true):
    with hosts["server"].inside():
        return desk.record(job, true)


def test_an_epilog_whose_cable_is_out_keeps_its_report_until_it_is_in(desk, hosts, relay_to):
    node, how = hosts[_NODE], {"preexec_fn": hosts[_NODE].enter}
    site_of(desk, hosts)
    relay = relay_to(desk.port)
    desk.configure(site_port=relay.port)
    root, jobs, phases = desk.tree(_NODE, **BEFORE), [], {}

    def job(phase, during_prolog=False, before_epilog=False, fault=None):
        jobs.append(desk.new_job())
        write_tree(root, **BEFORE)
        if during_prolog:
            node.cut()
        assert 0 == desk.hook("prolog", _NODE, root, jobs[-1], **how).status
        if during_prolog:
            node.mend()
        write_tree(root, **AFTER)
        if before_epilog:
            node.cut()
        struck = relay.struck
        if fault:
            relay.faults.append(fault)
        assert 0 == desk.hook("epilog", _NODE, root, jobs[-1], **how).status
        until(lambda: relay.struck == struck + bool(fault), what="the cut")
        kept = desk.kept(_NODE)
        node.mend()
        relay.release()
        relay.faults.clear()
        until(lambda: 0 == desk.hook("deliver", _NODE, **how).status
              and [] == desk.kept(_NODE), what="the delivery")
        phases[phase] = phases.get(phase, 0) + 1
        return kept
    job("none")
    time.sleep(0.2)
    out, back = relay.passed[-1]
    job("during the prolog", during_prolog=True)
    assert ["delta"] == job("between prolog and epilog", before_epilog=True)
    for way, at in places("epilog", out, back):
        assert ["delta"] == job(f"in a message, {way}", fault=Fault(HALF_OPEN, way, at, node.cut))
    desk.configure(site_port=desk.listen)
    for one in jobs:
        record = record_of(desk, hosts, one, lambda record: record["coverage"]["reported"])
        assert THE_WORK == application(record) and {} == record["coverage"]["missing"]
    tell("partition: epilog -> site server", phases=phases, counted_once=len(jobs))


def test_a_node_that_stays_cut_off_is_named_and_counted_when_it_comes_back(desk, hosts):
    desk.configure(site_deadline=1)
    site_of(desk, hosts)
    env = {"SLURM_JOB_NODELIST": "nid00001,oss1"}
    for name in (_NODE, "oss1"):
        root = desk.tree(name, **BEFORE)
        desk.hook("prolog", name, root, "4711", env=env, preexec_fn=hosts[name].enter)
        write_tree(root, **AFTER)
    hosts[_NODE].cut()
    for name in (_NODE, "oss1"):
        desk.hook("epilog", name, desk.directory / name, "4711", env=env,
                  preexec_fn=hosts[name].enter)
    record = record_of(desk, hosts, "4711", lambda record: True)
    assert {_NODE: "no report"} == record["coverage"]["missing"]
    assert THE_WORK == application(record)
    hosts[_NODE].mend()
    until(lambda: 0 == desk.hook("deliver", _NODE, preexec_fn=hosts[_NODE].enter).status
          and [] == desk.kept(_NODE), what="the delivery")
    record = record_of(desk, hosts, "4711", lambda record: not record["coverage"]["missing"])
    assert {name: 2 * value for name, value in THE_WORK.items()} == application(record)


# -- the storage servers' agent -> the site's server -------------------------------------------

def test_an_agent_whose_cable_is_out_counts_all_that_was_done_meanwhile(desk, hosts, relay_to):
    """An entry expires and comes back while the agent is cut off: both lives are counted."""
    node, site = hosts["oss1"], site_of(desk, hosts)
    relay = relay_to(desk.port)
    desk.configure(site_port=relay.port)
    oss = StorageServer(desk)
    oss.show("OST0000", {})
    node.cut()                                             # before it starts
    agent = oss.agent(preexec_fn=node.enter)
    until(lambda: list((oss.root / "spool").glob("*.message")), what="the first sweep")
    node.mend()
    total, parts = 0, {"before the start": 1}

    def rows():
        try:
            with hosts["server"].inside():
                return [(row["write_bytes"], row["lower_bound"]) for row in desk.asked(
                    "query", level="b", job="4711")["rows"]]
        except Refused:
            return []

    def write(amount):
        nonlocal total
        total += amount
        oss.show("OST0000", {"4711": moved(written=total)})
    write(23 * 1009)
    until(lambda: [(total, False)] == rows(), 100, "the first bytes")
    for way, at in places("agent", 900, 400)[:None if WHOLE else 1]:
        relay.faults.append(Fault(HALF_OPEN, way, at, node.cut))
        struck = relay.struck
        write(37 * 1009)
        until(lambda: relay.struck > struck, 60, "the cut")            # noqa: B023
        write(41 * 1009)
        time.sleep(1.1)                                    # a sweep that waits
        node.mend()
        relay.release()
        relay.faults.clear()
        until(lambda: [(total, False)] == rows(), 90, "what was done while the cable was out")
        parts[f"in a message, {way}"] = parts.get(f"in a message, {way}", 0) + 1
    assert agent.poll() is None and site.process.poll() is None
    tell("partition: agent -> site server", phases=parts, counted_once=1)


# -- start and stop -> the job's server ----------------------------------------------------------

@pytest.mark.timeout(900)
def test_a_stop_whose_cable_is_out_is_counted_when_it_is_in(tmp_path, hosts, relay_to):
    """Given up while it is out, its report is kept, and sent by the next `stop`."""
    node, how, phases = hosts[_NODE], {"preexec_fn": hosts[_NODE].enter}, {}
    with Desk(tmp_path) as desk:
        server = desk.begin_server("--nodes", 1000, "--format", "json", "--deadline", 9999,
                                   listen=SERVER,
                                   preexec_fn=hosts["server"].enter)
        server.wait_until_listening()
        relay, root = relay_to(server.port), desk.tree(**BEFORE)
        count = 0

        def on():
            return desk.on(f"n{count:04}", root)

        def stop(port, within_s):
            return desk.begin_client("stop", "--server", f"{SERVER}:{port}", *on(),
                                     env={"IOSTATS_NODE_RETRY_TIMEOUT": str(within_s)}, **how)

        def job(phase, before_start=False, between=0, fault=None):
            """`between`: 1, in again while `stop` tries; 2, later."""
            nonlocal count
            count += 1
            phases[phase] = phases.get(phase, 0) + 1
            write_tree(root, **BEFORE)
            if before_start:
                node.cut()
            assert 0 == desk.client("start", *on(), **how).status
            if before_start:
                node.mend()
            write_tree(root, **AFTER)
            if between:
                node.cut()
            if fault:
                relay.faults.append(fault)
                struck = relay.struck
                finish = stop(relay.port, 60)
                until(lambda: relay.struck > struck, what="the cut")
                node.mend()
                assert 0 == finish().status
                relay.release()
            elif between == 2:
                done = stop(relay.port, 0)()
                assert 3 == done.status and "stored in" in done.err, done
                node.mend()
                until(lambda: 0 == stop(relay.port, 5)().status, 100, "the delivery")
            else:
                finish = stop(relay.port, 60)
                if between:
                    threading.Timer(0.5, node.mend).start()
                assert 0 == finish().status
        job("none")
        time.sleep(0.2)
        out, back = relay.passed[-1]
        job("before start", before_start=True)
        job("between start and stop", between=2)
        job("between start and stop, in again in time", between=1)
        # A stop waits 10 s for an answer before it tries again.
        for way, at in places("stop", out, back)[:None if WHOLE else 1]:
            job(f"in a message, {way}", fault=Fault(HALF_OPEN, way, at, node.cut))
        record = server.stop().record
        assert count == record["coverage"]["reported"]
        assert {name: count * value for name, value in THE_WORK.items()} == application(record)
        tell("partition: stop -> job server", phases=phases, counted_once=count)
