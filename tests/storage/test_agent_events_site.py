"""
From the kernel's log of a storage server to `iostats events`: the agent, and the site's server, are
killed meanwhile, and each event is there once.
"""
from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from processes import REPOSITORY, until
from server_files import ServerFiles
from site_desk import SiteDesk
from storage import PATIENT
from test_agent_events import OST, KernelLog


@pytest.fixture
def site(tmp_path):
    with SiteDesk(tmp_path) as desk:
        desk.root = desk.directory / "oss1"
        desk.files = ServerFiles(desk.root, "2.17")
        desk.files.start(OST, instance=41, evictions=0, clients=37)
        desk.log = KernelLog(desk.root)
        desk.configure(events_every=1, harvest_interval=1, harvest_spool_dir=desk.root / "spool")
        yield desk


def agent(desk):
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", PATIENT, "harvest", "--root", str(desk.root), "--node",
         "oss1", "--config", str(desk.cfg)], stdin=subprocess.DEVNULL, cwd="/", env={},
        stderr=subprocess.DEVNULL)
    desk.started.append(process)
    return process


def events(desk):
    """[(kind, target, count, clients)] as `iostats events` tells them."""
    done = subprocess.run(
        [sys.executable, "-m", "iostats", "events", "--json", "--config", str(desk.cfg)],
        cwd=REPOSITORY, capture_output=True, text=True, env=desk.environment())
    if done.returncode:
        return []
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return sorted((one["kind"], one["target"], one["count"], *one["clients"]) for one in found)


def test_kills_of_the_agent_and_of_the_server(site):
    server, one = site.site(), agent(site)
    truth = []
    for number in range(16):
        target, nid = f"scratch-OST{number:04x}", f"10.0.0.{number}@tcp"
        site.log.evicts(nid, target)
        truth.append(("evicted", target, 1, nid))
        time.sleep(0.1 * (number % 7))
        if number % 5 == 4:
            server.kill()
            server = site.site()
        if number % 7 == 6:
            one.kill()
            one.wait()
            one = agent(site)
    site.files.health("NOT HEALTHY")
    truth.append(("not_healthy", "", 1))
    until(lambda: len(events(site)) >= len(truth), 90, lambda: str(events(site)))
    time.sleep(2)
    assert sorted(truth) == events(site)
    one.terminate()
    assert 0 == one.wait(60)
