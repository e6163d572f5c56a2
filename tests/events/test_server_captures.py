"""
Storage servers of a real Lustre, moment by moment, as they were captured: exactly what was done to
them is told, also by an agent that is killed between any two looks.
"""
from __future__ import annotations

import os
import re
import shutil

import pytest
from server_files import BOOT, NODE
from trees import shared

from iostats.base import config as site_config
from iostats.events import gather

C2, EVERY_S = "10.77.0.12@tcp", 5.0
T0 = 1795332621.1               # when the server of 2.17.57-c was booted: cur 1795333379 at 758.2 s


class Captured:
    """ROOT of a storage server, and its agent's Gathering, at given times of the wall clock."""

    def __init__(self, root, monkeypatch, booted):
        self.root, self.state, self.booted, self.now = root, root / "state", booted, booted
        self.log = root / "dev/kmsg"
        self.log.parent.mkdir(parents=True)
        self.log.touch()
        monkeypatch.setattr(gather.time, "time", lambda: self.now)
        monkeypatch.setattr(gather, "_read_anchors", lambda root: [(0, booted)])
        self.config = site_config.load(os.devnull, environ={})
        self.told, self.first = {}, {}
        self.begin()

    def begin(self):
        self.gathering = gather.Gathering(str(self.root), self.config, NODE, BOOT,
                                          str(self.state), ("server",))

    def kill(self):
        self.gathering.close()
        self.begin()

    def scan(self, keeps=True):
        found = self.gathering.scan()
        for one in found.events:
            self.told[one.id] = one
            self.first.setdefault(one.id, self.now)
        self.status = found.status
        if keeps:
            self.gathering.acknowledge()

    def log_until(self, records, now):
        """Lines of the log that were there at that time."""
        self.now = now
        while records and self.booted + records[0][0] / 1e6 <= now:
            with self.log.open("a") as file:
                file.write(records.pop(0)[1] + "\n")

    def moment(self, records, now, kill):
        """A look at that time; `kill`: of the agent, behind it, or before what it found is kept."""
        self.log_until(records, now)
        self.scan(keeps=kill != "found")
        if kill:
            self.kill()

    def put(self, path, value):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")

    def since(self, time):
        return sorted((one.kind, one.cause, one.target, one.count, one.skipped, one.clients)
                      for one in self.told.values() if self.first[one.id] > time)


def moments(text):
    """[(wall time, {path: value})] of states.txt."""
    found = []
    for line in text.splitlines():
        if line.startswith("== "):
            found.append((float(line.split()[1]), {}))
        else:
            name, _, value = line.partition("=")
            if name == "health_check" or name.endswith(("eviction_count", "num_exports")):
                found[-1][1][name] = value
    return found


KILLS = {"no kill": lambda number: "", "after each look": lambda number: "told",
         "before each is told": lambda number: "found" if number % 2 else ""}


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
def test_a_client_that_was_killed_is_evicted_by_three_targets(tmp_path, monkeypatch, kill):
    """
    2.17.57-c, s09: c2's machine was killed.  The log has no line of OST0000's eviction (it is rate
    limited), and eviction_count has it: the "Skipped" behind MDT0000's line is no other one.
    """
    server = Captured(tmp_path, monkeypatch, T0)
    place = shared("captures", "2.17.57-c", "s09_killed_and_evicted", "server")
    # Lines of others were left out: none is lost where they are numbered anew.
    records = [(int(found[2]), f"{found[1]},{number},{found[2]},{found[3]}")
               for number, line in enumerate((place / "kmsg.txt").read_text().splitlines())
               if (found := re.match(r"(\d+),\d+,(\d+),(.*)", line))]
    states = moments((place / "states.txt").read_text())
    assert 20 < len(states)
    for number, (now, values) in enumerate(states):
        for name, value in values.items():
            server.put(f"sys/fs/lustre/{name}", value)
        server.moment(records, now + 0.5, kill(number))
        if number == 0:
            began = server.now
    assert not records
    assert [("evicted", "silent", "lustre-MDT0000", 1, 0, (C2,)),
            ("evicted", "silent", "lustre-OST0001", 1, 0, (C2,)),
            ("evicted", "unknown", "lustre-OST0000", 1, 0, ())] == server.since(began)
    by_target = {one.target: one for one in server.told.values() if one.kind == "evicted"}
    # The log: `cur 1795333379` and `cur 1795333422`; the count rose between two looks.
    assert 1795333379 <= by_target["lustre-MDT0000"].time < 1795333380
    assert 1795333422 <= by_target["lustre-OST0001"].time < 1795333423
    counted = by_target["lustre-OST0000"]
    # After a kill the two looks are further apart.
    assert 1795333421.25 == pytest.approx(counted.time, abs=1)
    assert 4 < counted.last - counted.time < 11
    assert {"lustre-MDT0000": {"state": "up", "clients": 4},
            "lustre-OST0000": {"state": "up", "clients": 2},
            "lustre-OST0001": {"state": "up", "clients": 2},
            "MGS": {"state": "up", "clients": 3}} == server.status["targets"]
    assert "healthy" == server.status["health"]


# Of 2.16.1: dmesg.txt at each moment, and the trees.
STEPS = ("s01_before_w1", "s02_after_w1", "s03_after_warm_read", "s04_after_w2_slurm",
         "s08_after_clear", "s12_remounted_and_w", "s16_evicted", "s17_meta_extents", "s19_idle")


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
def test_an_administrators_evictions_are_told_and_nothing_else(tmp_path, monkeypatch, kill):
    """2.16.1: evicted from OST0001 and MDT0000; MDT0000's line is missing, its count is there."""
    place = shared("captures", "2.16.1-server")
    booted = 1795225914.2           # EVICT in 1795226025.25; at 111.99 s of the log
    server = Captured(tmp_path, monkeypatch, booted)
    lines = (place / "s19_idle" / "dmesg.txt").read_text().splitlines()
    records = []
    for number, line in enumerate(lines):
        found = re.match(r"\[ *(\d+)\.(\d+)\] (.*)", line)
        usec = int(found[1]) * 10**6 + int(found[2])
        records.append((usec, f"4,{number},{usec},-;{found[3]}"))
    for number, step in enumerate(STEPS):
        for part in ("proc", "sys"):
            if (place / step / part).is_dir():
                shutil.rmtree(tmp_path / part, ignore_errors=True)
                shutil.copytree(place / step / part, tmp_path / part)
        now = float(re.search(r"start (\S+)", (place / step / "TIME").read_text())[1])
        server.moment(records, now + 0.5, kill(number))
        if number == 0:
            began = server.now
    assert not records
    assert [("evicted", "administrator", "lustre-OST0001", 1, 0, ()),
            ("evicted", "unknown", "lustre-MDT0000", 1, 0, ())] == server.since(began)
    # At the first look the log still has the start of each target, of before.
    assert [("target_up", name) for name in ("lustre-MDT0000", "lustre-OST0000",
                                              "lustre-OST0001")] == sorted(
        (one.kind, one.target) for one in server.told.values() if one.kind != "evicted")
