"""
`iostats events` and `iostats nodes --down` against a real site's server, which storage servers have
told of what went wrong.
"""
from __future__ import annotations

import json
import time

import pytest
from collector_desk import collector
from events_messages import event, params
from processes import until
from site_desk import SiteDesk
from test_events_command import Following, of
from told_collector import ToldCollector

from iostats.events.event import from_json
from iostats.wire import client, protocol

ONE, OTHER = "10.9.0.11@o2ib2", "10.9.0.12@o2ib2"
UTC = {"TZ": "UTC"}


def tell(desk, *events, node="oss1", **how):
    """Send them as the agent of a storage server does."""
    for one in params(events, node, made_at=time.time(), **how):
        answer = client.call("127.0.0.1", desk.port, protocol.SITE, desk.signs(), node,
                             "packed_events", one)
        assert answer["taken"], answer


@pytest.fixture
def site(tmp_path):
    with SiteDesk(tmp_path) as desk:
        (desk.directory / "nids").write_text(f"{ONE} nid00007\n{OTHER} nid00008\n")
        desk.configure(clients_names=desk.directory / "nids")
        desk.server = desk.site()
        yield desk


def follow(desk, *words):
    return Following(desk.directory, "--config", desk.cfg, "--json", *words)


def ids(text):
    return [from_json(json.loads(line)).id for line in text.splitlines()]


def test_what_storage_servers_tell_is_shown(site):
    now = time.time()
    first = event(1, at=now - 41, clients=[ONE], cause="silent", over=now - 18,
                  message="scratch-OST0003: haven't heard from client")
    second = event(2, "target_down", at=now - 37, node="mds1", target="scratch-MDT0000",
                   message="server umount scratch-MDT0000 complete")
    tell(site, second, node="mds1")
    tell(site, first)
    done = site.iostats("events", env=UTC)
    assert (0, "") == (done.status, done.err)
    at = [time.strftime("%b %d %H:%M:%S", time.gmtime(now - ago)) for ago in (41, 37)]
    assert [f"{at[0]} crit  oss1     evicted scratch-OST0003 nid00007 (silent, over after 23 s): "
            f"haven't heard from client",
            f"{at[1]} crit  mds1     target_down scratch-MDT0000: server umount scratch-MDT0000 "
            f"complete"] == done.out.splitlines()
    for words, found in ((["--node", "nid00007"], [first]), (["--node", ONE], [first]),
                         (["--node", "nid00008"], []), (["--kind", "target_down"], [second]),
                         (["--fs", "home"], []), (["-n", "1"], [second]), (["-p", "fatal"], []),
                         (["-E", f"uts{int(now - 38)}"], [first]), (["-r"], [second, first])):
        assert [one.id for one in found] == ids(
            site.iostats("events", "--json", *words).out), words


def test_a_job_that_is_not_known_is_one_line(site):
    done = site.iostats("events", "-j", "4711")
    assert 3 == done.status and "no job 4711 is known here" in done.line


def test_a_site_and_a_collector_that_know_the_same_show_it_once(site):
    now = time.time()
    events = [event(number, at=now - 100 + number) for number in range(23)]
    tell(site, *events[:15])
    with ToldCollector() as other:
        other.tell(*events[8:])
        done = site.iostats("events", "--json", "--server", f"127.0.0.1:{site.port}", *of(other))
        assert (0, [one.id for one in events]) == (done.status, ids(done.out))
        site.server.kill()
        done = site.iostats("events", "--json", "--server", f"127.0.0.1:{site.port}", *of(other))
        assert (3, [one.id for one in events[8:]]) == (done.status, ids(done.out))
        assert "Connection refused; without it" in done.line


def test_a_collector_on_a_port_of_its_own_is_named_as_one(site):
    """HOST:PORT is a site's server; the message says how a collector is asked, and that works."""
    with collector() as other:
        done = site.iostats("events", "--server", f"127.0.0.1:{other.port}")
        assert 3 == done.status and done.line.endswith(
            f"; if a collector is there: --server http://127.0.0.1:{other.port}"), done.line
        assert 0 == site.iostats("events", "--server", done.line.rpartition(" ")[2]).status


def test_a_site_that_was_killed_is_asked_for_what_came_meanwhile(site):
    now = time.time()
    events = [event(number, at=now + number) for number in range(5)]
    tell(site, events[0])
    shown = follow(site, "-S", "now-1hour")
    try:
        shown.until_shown(events[0])
        site.server.kill()
        until(lambda: shown.err, what="that it is away")
        site.server = site.site()
        tell(site, *events[:4])
        shown.until_shown(*events[:4])
        tell(site, events[4])
        shown.until_shown(*events)
        assert 2 == len(shown.err.splitlines()) and "answers again" in shown.err
    finally:
        shown.close()


# -- nodes --down

def down(desk, *words):
    return desk.iostats("nodes", "--down", *words, env={**UTC, "COLUMNS": "200"})


def test_nodes_that_are_not_connected(site):
    """nid00007 says that it lost an OST; nid00008 was evicted by two; oss2 is not heard."""
    now = time.time()
    tell(site, event(1, at=now - 60, clients=[OTHER], cause="silent"),
         event(2, at=now - 41, target="scratch-OST0004", clients=[OTHER], cause="silent"),
         status={"health": "NOT HEALTHY", "targets": {
             "scratch-OST0003": {"state": "up", "clients": 37},
             "scratch-OST0004": {"state": "recovering", "clients": 23}},
             "log": {"source": "none", "why": "/dev/kmsg: Permission denied"}})
    done = down(site)
    assert 0 == done.status
    heading, _, row, *notes = done.out.splitlines()
    assert "Node Targets Since Down State Why".split() == heading.split()
    assert "nid00008 2 of scratch".split() == row.split()[:4]
    assert "evicted evicted by oss1 (silent); no report since" == " ".join(row.split()[6:])
    assert time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now - 60)) == row.split()[4]
    assert ["note: oss1: health_check reports NOT HEALTHY",
            "note: oss1: scratch-OST0004 is recovering",
            "note: oss1: its kernel's log is not read (/dev/kmsg: Permission denied): evictions "
            "there may be missing"] == notes
    assert [["nid00008", "scratch-OST0003"], ["nid00008", "scratch-OST0004"]] == sorted(
        line.split("|")[::2] for line in down(
            site, "-P", "-n", "-o", "Node,FileSystem,Targets").out.splitlines())
    assert 2 == len(json.loads(down(site, "--json").out)["down"])
    assert "all connections lost since" in down(site, "nid00007").out
    assert "all connections lost since" in down(site, "-S", "now-10").out
    assert "all connections lost since" in down(site, "-f", "home").out


def test_a_node_that_is_back_is_not_listed(site):
    now = time.time()
    tell(site, event(1, at=now - 60, clients=[ONE], over=now - 41),
         event(2, at=now - 60, clients=[OTHER]))
    assert ["nid00008"] == [row["node"] for row in json.loads(down(site, "--json").out)["down"]]


@pytest.mark.parametrize("words, why", [
    (["-E", "now"], "--until: expected no --down with it"), (["--sort", "why"], "--sort: expected"),
    (["-o", "Jobs"], "--format: expected a field, got 'Jobs'; `iostats nodes --down -e` lists"),
    (["nid[1-"], "NODES: expected a list of up to 10,000 nodes")])
def test_what_is_wrong_is_one_line(site, words, why):
    done = down(site, *words)
    assert 2 == done.status and why in done.line
