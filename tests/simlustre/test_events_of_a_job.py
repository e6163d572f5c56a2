"""
A job on simulated clients, one of which is evicted meanwhile: what its report says.
"""
from __future__ import annotations

import json

import pytest
from processes import Desk
from test_simulated_events import told
from test_storage_servers import NODE1, NODE2, do, file_on, started

DESK = Desk


@pytest.mark.fuse
@pytest.mark.parametrize("release", ["2.12", "2.15", "2.17"])
def test_an_eviction_between_start_and_stop_is_in_the_jobs_report(request, tmp_path, desk, release):
    site = started(tmp_path, request, release)
    nodes = {"nid00001": site.client("node1", NODE1), "nid00002": site.client("node2", NODE2)}
    name = file_on(nodes["nid00001"], 0)
    do(nodes["nid00001"], f"open({name!r}, 'w').write('23')")
    server = desk.server("--nodes", "2", "--json", "record")
    for node, mount in nodes.items():
        desk.client("start", *desk.on(node, mount / "root"))
    told(site, "evict", NODE1, "scratch-OST0000")
    do(nodes["nid00001"], f"open({name!r}, 'w').write('37')")
    for node, mount in nodes.items():
        desk.client("stop", "--server", f"127.0.0.1:{server.port}", *desk.on(node, mount / "root"))
    assert "Events during this job:" in server.wait().out
    record = json.loads((desk.directory / "record").read_text())
    assert {("connection_lost", "scratch-OST0000", "nid00001"),
            ("evicted", "scratch-OST0000", "nid00001"),
            ("connection_restored", "scratch-OST0000", "nid00001")} == {
        (one["kind"], one["target"], one["nodes"]) for one in record["events"]}
    [evicted] = [one for one in record["events"] if one["kind"] == "evicted"]
    assert evicted["over"] is not None and evicted["over"] >= evicted["time"]
    assert [] == [note for note in record["notes"] if note.startswith("events")]
