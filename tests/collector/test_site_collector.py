"""`iostats collector --site`: events of the site's server, over kills of either."""
from __future__ import annotations

import re
import time

from collector_desk import asked
from events_messages import STATUS, event, params
from processes import until

from iostats.base.errors import IostatsError
from iostats.wire import client, protocol

_STATUS = {**STATUS, "targets": {"scratch-OST0003": {
    "state": "up", "clients": 37, "capacity": {
        "bytes_total": 4100, "bytes_free": 2300, "bytes_available": 1900, "inodes_total": 410,
        "inodes_free": 370}}}}


def tell(desk, *origins, **fields):
    """An agent tells of events; it tries again until it is answered."""
    found = [event(one, at=time.time(), clients=("10.9.0.11@o2ib2",), **fields) for one in origins]
    for one in params(found, made_at=time.time(), status=_STATUS):
        def send(one=one):
            try:
                return client.call("127.0.0.1", desk.port, protocol.SITE, desk.signs(), "oss1",
                                   "packed_events", one)["taken"]
            except IostatsError:
                return False
        until(send)
    return [one.id for one in found]


def test_its_traps_are_those_of_the_site_once_over_kills_of_both(desk, machine):
    server = desk.site()
    config = machine.configured(text=desk.cfg.read_text())
    reported, seen, stamp = [], [], 0
    one = machine.start("--site", config=config)
    for number in range(6):
        reported += tell(desk, f"a{number}", f"b{number}")
        if number % 3 == 1:
            server.kill()
            server = desk.site()
        if number % 3 == 2:
            one.kill()
            one = machine.start("--site", config=config)
        traps, stamp = one.traps(stamp)
        seen += traps
    until(lambda: 12 == len(one.events()["events"]))
    seen += one.traps(stamp)[0]
    assert 12 == len(seen) and sorted(reported) == sorted(
        event["id"] for event in one.events()["events"])
    assert {"oss1"} == {node for _, _, node in seen}
    [grown] = [event for event in one.events()["events"] if event["id"] == reported[3]]
    tell(desk, "b1", count=41)
    until(lambda: one.events(after=one.events(last=1)["events"][0]["place"])["next"] and [
        event for event in one.events()["events"] if event["count"] == 41])
    assert 12 == len(one.events()["events"]) and grown["count"] == 1


def test_storage_servers_of_the_site_are_nodes_with_their_targets(desk, machine):
    desk.site()
    tell(desk, "a")
    one = machine.start("--site", config=machine.configured(text=desk.cfg.read_text()))
    until(lambda: "targets" in asked(one.port, "getNodeInfo", ["oss1"]))
    info = asked(one.port, "getNodeInfo", ["oss1"])
    assert ("healthy", ["scratch"]) == (info["health"], info["fileSystems"])
    assert [{"name": "scratch-OST0003", "state": "up", "clients": 37, "totalBytes": 4100,
             "freeBytes": 2300, "availableBytes": 1900}] == info["targets"]
    assert "freeDiskSpace" not in info
    until(lambda: asked(one.port, "getFileSystemInfo", ["scratch"])["notResponding"])
    assert ["10.9.0.11@o2ib2"] == asked(one.port, "getFileSystemInfo", ["scratch"])["notResponding"]
    assert {"oss1", "10.9.0.11@o2ib2"} == set(asked(one.port, "getNodesNames", ["scratch"]))


def test_a_site_server_that_is_away_is_said_once_and_that_it_is_back(desk, machine):
    desk.site().kill()                                 # which has made the secret
    one = machine.start("--site", config=machine.configured(text=desk.cfg.read_text()))
    until(lambda: re.search("no answer from the site's server.*; trying again", one.err))
    server = desk.site()
    tell(desk, "a")
    until(lambda: one.events()["events"])
    assert 1 == one.err.count("trying again"), one.err
    until(lambda: "the site's server answers again" in one.err)
    server.stop()


def test_a_store_that_began_anew_is_followed_from_its_beginning(desk, machine):
    server = desk.site()
    one = machine.start("--site", config=machine.configured(text=desk.cfg.read_text()))
    old = tell(desk, "a", "b", "c")
    until(lambda: 3 == len(one.events()["events"]))
    server.kill()
    for path in desk.store.parent.glob(f"{desk.store.name}*"):
        path.unlink()
    desk.site()
    new = tell(desk, "d")
    until(lambda: 4 == len(one.events()["events"]))
    assert sorted(old + new) == sorted(event["id"] for event in one.events()["events"])
