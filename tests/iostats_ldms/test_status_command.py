"""`iostats ldms status` as users call it, with a real etcd."""
import json
import os
import re
import subprocess
import sys
import time

import pytest
from processes import REPOSITORY

from iostats.etcd.client import Etcd
from iostats_ldms import published
from iostats_ldms.status.document import AGGREGATOR, DaemonRow, GroupStatus, encode_status

pytestmark = pytest.mark.etcd


def status(etcd, *options, endpoints=None):
    return subprocess.run(
        [sys.executable, "-m", "iostats", "ldms", "status", "--etcd",
         ",".join(endpoints or etcd.endpoints), "--prefix", etcd.prefix, *options],
        capture_output=True, text=True, timeout=60, cwd=REPOSITORY,
        env={**os.environ, "COLUMNS": "200"})


def test_what_is_in_etcd_is_shown_and_nonsense_in_it_is_a_line(etcd):
    with Etcd(etcd.endpoints, prefix=etcd.prefix) as own:
        published.load(own, "daemons: []\n", [], None, by="alice@mgmt1", note="first")
        own.put(own.key("instances", "mgmt1.4711"), b'{"ready": true, "version": "0.1.0"}')
        own.put(own.key("owners", "l2/top"), b"mgmt1.4711")
        own.put(own.key("status", "l2/top"), encode_status(GroupStatus(
            "l2/top", AGGREGATOR, 2, 1, time.time(), "mgmt1.4711",
            (DaemonRow("agg-1", "up", 1.0, "", 2, True, (), 23, 19, 41, 1.0),))))
        own.put(own.key("status", "bad"), b"23")
        own.put(own.key("agents_seen", "oss1"), b'{"revision": 1, "problem": "\\u001b[2J"}')
        own.put(own.key("agents_seen", "oss2"), b"[1]")
        own.put(own.key("agents_seen", "oss3"), b'{"revision": 23, "settings": {"a": [1e400]}}')
        own.put(own.key("instances", "mgmt2.37"), b'{"ready": true, "since": NaN}')
    found = status(etcd)
    assert (0, "") == (found.returncode, found.stderr)
    assert re.search(r"level 2 aggregators l2/top: 1 of 1 up, by mgmt1\.4711, \d+ s ago\n",
                     found.stdout)
    for text in (f"{etcd.prefix}: description 1, loaded ", " by alice@mgmt1: first\n",
                 "  2         23         19    41  1.00\n", "\\x1b[2J",
                 f"cannot be parsed: /{etcd.prefix}/status/bad: expected zlib: ",
                 f"cannot be parsed: /{etcd.prefix}/agents_seen/oss2: expected an object\n",
                 f"cannot be parsed: /{etcd.prefix}/agents_seen/oss3: ",
                 f"cannot be parsed: /{etcd.prefix}/instances/mgmt2.37: "):
        assert text in found.stdout
    told = json.loads(status(etcd, "--json").stdout, parse_constant=pytest.fail)
    assert (["oss1"], ["mgmt1.4711"]) == (list(told["agents"]), list(told["instances"]))
    assert (1, "mgmt1.4711", 23) == (told["description"]["revision"], told["groups"][0]["owner"],
                                     told["groups"][0]["rows"][0]["producers"])


DESCRIPTION = """\
daemons:
- {names: 'node-[1-23]', hosts: 'n[1-23]', endpoints: [
    {names: 'node-[1-23]', ports: 411, maestro_comm: true}]}
- {names: 'agg-[1-3]', hosts: 'h[1-3]', endpoints: [
    {names: 'agg-[1-3]', ports: 411, maestro_comm: true}]}
- {names: top, hosts: h4, endpoints: [{names: top, ports: 411, maestro_comm: true}]}
samplers: [{daemons: 'node-[1-23]', plugins: [meminfo]}]
plugins: {meminfo: {name: meminfo, interval: 1s, config: [{schema: meminfo}]}}
aggregators:
- {daemons: 'agg-[1-3]', peers: [{daemons: 'node-[1-23]', endpoints: 'node-[1-23]', type: active,
    reconnect: 1s, updaters: [{interval: 1s}]}]}
- {daemons: top, peers: [{daemons: 'agg-[1-3]', endpoints: 'agg-[1-3]', type: active,
    reconnect: 1s, updaters: [{interval: 1s}]}]}
"""


def test_a_described_group_that_no_instance_has_told_of_is_listed(etcd):
    with Etcd(etcd.endpoints, prefix=etcd.prefix) as own:
        published.load(own, DESCRIPTION, [], None, by="alice@mgmt1")
        own.put(own.key("owners", "agg-[1-3]"), b"mgmt1.4711")
        own.put(own.key("status", "top"), encode_status(GroupStatus(
            "top", AGGREGATOR, 2, 1, time.time(), "mgmt1.4711", (DaemonRow("top", "up", 1.0),))))
    assert [
        "samplers node-[1-23]: 23 daemons, no instance owns them yet",
        "level 1 aggregators agg-[1-3]: 3 daemons, by mgmt1.4711, which has not reported on them "
        "yet",
    ] == [line for line in status(etcd).stdout.splitlines() if " daemons, " in line]
    told = json.loads(status(etcd, "--json").stdout)["groups"]
    assert [("node-[1-23]", None, 23, 0), ("agg-[1-3]", "mgmt1.4711", 3, 0),
            ("top", None, 1, 1)] == [
        (one["group"], one["owner"], one["daemons"], one["up"]) for one in told]


def test_a_description_that_is_not_whole_is_a_line(etcd):
    with Etcd(etcd.endpoints, prefix=etcd.prefix) as own:
        made = published.load(own, DESCRIPTION, [], None, by="alice@mgmt1")
        own.delete(own.below("descriptions", made.name))
    found = status(etcd)
    assert (0, "") == (found.returncode, found.stderr)
    assert "groups without a status are unknown: etcd: " in found.stdout


def test_without_etcd_it_is_one_line(etcd):
    found = status(etcd, endpoints=["http://127.0.0.1:9"])
    assert 3 == found.returncode and "" == found.stdout
    assert "iostats: etcd: http://127.0.0.1:9: " in found.stderr
    assert 1 == found.stderr.count("\n")
    assert 2 == status(etcd, "--watch", "--json").returncode
