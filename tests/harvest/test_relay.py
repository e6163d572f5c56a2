"""
A file system of several clusters: one server hears its storage servers, and each cluster's server
shows its own clients as if it heard them itself.
"""

import shutil
import time

import pytest
from client_messages import ClientAgent
from processes import until
from relay_desk import RelaySite, added, relay

from iostats.wire import client

OURS, ALSO = "10.9.0.11@o2ib2", "10.9.0.12@o2ib2"       # of xe
THEIRS, OTHER = "10.5.0.23@tcp5", "10.1.0.7@o2ib"       # of vu, of alkindi itself
SOME, MORE, LESS = (41_003, 53_007, 23, 37, 43, 61), (1009, 0, 11, 0, 3, 7), (0, 8117, 0, 5, 2, 0)


@pytest.fixture
def alkindi(tmp_path):
    with RelaySite(tmp_path / "alkindi", "alkindi") as desk:
        yield desk


@pytest.fixture
def xe(tmp_path):
    with RelaySite(tmp_path / "xe", "xe") as desk:
        yield desk


@pytest.fixture
def vu(tmp_path):
    with RelaySite(tmp_path / "vu", "vu") as desk:
        yield desk


def began(desk, *servers, nids=(OURS, ALSO, THEIRS, OTHER)):
    """Storage servers whose clients have done nothing yet."""
    for server in servers:
        desk.clients(server, "gdata", dict.fromkeys(nids, (0,) * 6))


def heard(desk, nids=(OURS, ALSO)):
    """Wait until a cluster knows these clients, which have done nothing yet."""
    until(lambda: set(nids) <= desk.lows(nodes=list(nids)).keys() and not any(
        "not read" in note for row in desk.did(time.time() - 1).values() for note in row[2]),
        what="first readings")


def test_each_cluster_sees_its_own_clients_and_the_relay_all(alkindi, xe, vu):
    """Exact numbers of two storage servers, by node; nothing of others' clients."""
    relay(alkindi, xe, "o2ib2", "gdata; o2ib2")
    relay(alkindi, vu, "tcp5", "gdata; tcp5")
    servers = [desk.site() for desk in (alkindi, xe, vu)]
    began(alkindi, "oss1", "oss2")
    heard(xe)
    alkindi.clients("oss1", "gdata", {OURS: SOME, THEIRS: MORE, OTHER: LESS})
    alkindi.clients("oss2", "gdata", {OURS: MORE, ALSO: LESS})
    alkindi.clients("oss1", "gdata", {OURS: LESS, THEIRS: SOME})

    xe.until_lows({OURS: added(SOME, MORE, LESS), ALSO: list(LESS)})
    vu.until_lows({THEIRS: added(MORE, SOME)})
    alkindi.until_lows({OURS: added(SOME, MORE, LESS), ALSO: list(LESS),
                        THEIRS: added(MORE, SOME), OTHER: list(LESS)})
    for desk in (xe, vu):
        assert {"gdata"} == {fs for row in desk.asked("nodes", since=0.0)["nodes"]
                             for fs in row["file_systems"]}
    for server in servers:
        done = server.stop()
        assert done.status == 0 and "error" not in done.err and "relay " not in done.err.replace(
            "relay/", ""), done.err


def test_top_of_a_cluster_has_the_rates(alkindi, xe):
    """`top --by node` is of the last sweep, per second; `query f` likewise."""
    relay(alkindi, xe, "o2ib2", "gdata; o2ib2")
    alkindi.site(), xe.site()
    began(alkindi, "oss1")
    heard(xe)

    def shown():
        alkindi.clients("oss1", "gdata", {OURS: SOME, THEIRS: MORE})
        time.sleep(0.5)
        rows = xe.asked("load", by="node")["rows"]
        return {row["node"]: (row["write_bytes_per_s"], row["requests_per_s"]) for row in rows}
    until(lambda: shown() == {OURS: (53_007.0, 23.0 + 37 + 43 + 61)}, what="rates")


def test_while_a_cluster_is_away_its_messages_wait(alkindi, xe, vu):
    """Killed, and started again: exact, and at the right time; the other cluster goes on."""
    relay(alkindi, xe, "o2ib2", "gdata; o2ib2")
    relay(alkindi, vu, "tcp5", "gdata; tcp5")
    alkindi.site(), vu.site()
    first = xe.site()
    began(alkindi, "oss1", "oss2")
    heard(xe)
    first.kill()
    between = time.time()                       # of two readings of oss1
    alkindi.clients("oss1", "gdata", {OURS: SOME, THEIRS: MORE})
    alkindi.clients("oss2", "gdata", {OURS: MORE})
    alkindi.clients("oss1", "gdata", {OURS: LESS, ALSO: SOME})
    vu.until_lows({THEIRS: list(MORE)})
    until(lambda: alkindi.waiting(xe) >= 3, what="what each sweep had")
    xe.site()
    xe.until_lows({OURS: added(SOME, MORE, LESS), ALSO: list(SOME)})
    until(lambda: alkindi.waiting(xe) == 0, what="all sent")
    [low, _, _] = xe.did(between, nodes=[OURS])[OURS]
    # SOME may have been done before; MORE as well, unless oss2 was read after `between`.
    assert low in (list(LESS), added(MORE, LESS))


def test_a_relay_that_is_killed_loses_and_repeats_nothing(alkindi, xe):
    """kill -9 after a sweep, between two, and while the cluster is away."""
    relay(alkindi, xe, "o2ib2", "gdata; o2ib2")
    server, other = alkindi.site(), xe.site()
    began(alkindi, "oss1", "oss2")
    heard(xe)
    done = []
    for amounts in (SOME, MORE, LESS):
        alkindi.clients("oss1", "gdata", {OURS: amounts})
        server.kill()                           # whatever it was doing with it
        done.append(amounts)
        server = alkindi.site()
        alkindi.clients("oss2", "gdata", {OURS: amounts, THEIRS: SOME})
        done.append(amounts)
    xe.until_lows({OURS: added(*done)})
    other.kill()
    alkindi.clients("oss1", "gdata", {OURS: SOME})
    server.kill()
    server, other = alkindi.site(), xe.site()
    xe.until_lows({OURS: added(*done, SOME)})       # though no storage server has spoken since
    alkindi.until_lows({OURS: added(*done, SOME), THEIRS: added(SOME, SOME, SOME)})


def test_a_relay_whose_store_and_spool_are_lost_goes_on(alkindi, xe):
    """Epochs are the storage servers' own."""
    relay(alkindi, xe, "o2ib2", "gdata; o2ib2")
    server = alkindi.site()
    xe.site()
    began(alkindi, "oss1")
    heard(xe)
    alkindi.clients("oss1", "gdata", {OURS: SOME})
    xe.until_lows({OURS: list(SOME)})
    server.kill()
    for path in alkindi.directory.glob("site.sqlite*"):
        path.unlink()
    shutil.rmtree(alkindi.spool)
    alkindi.site()
    agent = alkindi._client_agents["oss1"]
    agent.again()                               # what it is asked for
    alkindi.clients("oss1", "gdata", {OURS: MORE})
    xe.until_lows({OURS: added(SOME, MORE)})


# -- who may speak ---------------------------------------------------------------------------


def test_a_wrong_secret_is_refused_and_the_right_one_brings_all(alkindi, xe):
    """Said on both sides, once; what was not taken waits."""
    relay(alkindi, xe, "o2ib2", "gdata; o2ib2")
    right = (xe.secrets / "alkindi.secret").read_bytes()
    (xe.secrets / "alkindi.secret").write_text("0123456789abcdef0123\n")
    server, other = alkindi.site(), xe.site()
    began(alkindi, "oss1")
    alkindi.clients("oss1", "gdata", {OURS: SOME})
    alkindi.clients("oss1", "gdata", {OURS: MORE})
    line = (f"relay to xe: 127.0.0.1:{xe.port}: expected the site's server: the server of cluster "
            f"xe has another secret for relay alkindi, or does not know it (site.cfg there: "
            f"[relay_from])")
    until(lambda: line in server.err, what=lambda: server.err)
    line = (f"relay alkindi: its messages are refused: not authenticated: is the secret in "
            f"{xe.secrets}/alkindi.secret the same as there, and its clock right?")
    until(lambda: line in other.err, what=lambda: other.err)
    time.sleep(2)
    assert other.err.count("messages are refused") == server.err.count("has another secret") == 1
    assert xe.did() == {}
    (xe.secrets / "alkindi.secret").write_bytes(right)
    # The first reading that it hears of tells where the numbers stand.
    xe.until_lows({OURS: added(SOME, MORE)})


def test_what_a_relay_may_not_say_is_left_out_and_the_rest_counts(alkindi, xe):
    """Another file system, another cluster's clients, a file system of our own storage servers."""
    relay(alkindi, xe, "o2ib2 tcp5", "gdata scratch; o2ib2")
    server, other = alkindi.site(), xe.site()
    both = {OURS: (0,) * 6, THEIRS: (0,) * 6}
    for _ in range(2):
        for fs in ("gdata", "home", "scratch"):
            alkindi.clients(f"oss-{fs}", fs, both)
    xe.clients("oss9", "scratch", {OURS: (0,) * 6})
    heard(xe, [OURS])
    for fs in ("gdata", "home", "scratch"):
        alkindi.clients(f"oss-{fs}", fs, {OURS: SOME, THEIRS: SOME})
    xe.clients("oss9", "scratch", {OURS: MORE})
    xe.until_lows({OURS: added(SOME, MORE)})
    assert xe.lows(file_system="scratch") == {OURS: list(MORE)}
    for line in (
            "relay alkindi: left out: file systems that it may not report (site.cfg: "
            "[relay_from]), such as home",
            "relay alkindi: left out: file systems that our own storage servers report, such as "
            "scratch",
            f"relay alkindi: left out: clients that it may not report (site.cfg: [relay_from]), "
            f"such as {THEIRS}"):
        assert other.err.count(line) == 1, other.err
    assert "relay to xe: the server of cluster xe has left out: file systems" in server.err


def test_a_relay_may_call_nothing_else(alkindi, xe):
    """Neither reports nor sweeps of job_stats, nor questions; no message is taken twice."""
    relay(alkindi, xe, "o2ib2", "gdata; o2ib2")
    other = xe.site()
    assert alkindi.call_as_relay(xe, "hello", {})["job"] == "(site)"
    for method in ("packed_sweep", "report", "record", "latest", "jobs", "load", "query",
                   "nodes"):
        with pytest.raises(client.Refused, match="a relay may call packed_clients only"):
            alkindi.call_as_relay(xe, method, {"job": "4711"})
    assert other.err.count("relay alkindi: a message is refused: it does not report clients") == 1

    def message(node):
        agent = ClientAgent(node, every=1)
        return agent.params(int(time.time()), {("gdata", "OST"): {OURS: SOME[:5]}})
    for node in ("oss1", "oss1@other", "@alkindi", "oss 1@alkindi", "oss1@alkindi@other"):
        with pytest.raises(client.Refused, match="expected a storage server's name before "
                                                 "@alkindi"):
            alkindi.call_as_relay(xe, "packed_clients", message(node))
    once = message("oss1@alkindi")
    assert alkindi.call_as_relay(xe, "packed_clients", once) == {"taken": True, "why": ""}
    assert alkindi.call_as_relay(xe, "packed_clients", once)["why"] == (
        "this message was taken before")
    with pytest.raises(client.Refused, match="expected a whole compressed sweep"):
        alkindi.call_as_relay(xe, "packed_clients", {"protocol": 2, "sweep": "MDEyMw=="})
    # A node with the site's secret is no relay, whatever it calls itself.
    with pytest.raises(client.Refused, match="from another storage server than its header"):
        client.call("127.0.0.1", xe.port, "(site)", xe.signs(), "alkindi", "packed_clients", once)


def test_what_came_from_a_relay_is_not_relayed(alkindi, xe):
    """Two that relay to each other."""
    relay(alkindi, xe, "o2ib2", "gdata; o2ib2")
    relay(xe, alkindi, "o2ib2 tcp5 o2ib", "gdata home; o2ib2 tcp5 o2ib")
    alkindi.site(), xe.site()
    began(alkindi, "oss1")
    heard(xe)
    for _ in range(3):
        alkindi.clients("oss1", "gdata", {OURS: SOME})
        xe.clients("oss7", "home", {OTHER: MORE})
    xe.until_lows({OURS: added(SOME, SOME, SOME), OTHER: added(MORE, MORE, MORE)})
    alkindi.until_lows({OURS: added(SOME, SOME, SOME), OTHER: added(MORE, MORE, MORE)})
    until(lambda: xe.waiting(alkindi) == alkindi.waiting(xe) == 0, what="the last answer")
