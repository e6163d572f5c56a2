"""Targets that are nearly full, or full, and the numbers in the status."""
from __future__ import annotations

import random

import pytest
from server_files import PLACES, ServerFiles

from iostats.base.config import Config
from iostats.events.server_reading import read_server
from iostats.events.sources import capacity
from iostats.lustre.capacity import Capacity

OST, MDT = "scratch-OST0003", "scratch-MDT0000"
T = 1_795_333_400.0


@pytest.fixture(params=sorted(PLACES))
def server(request, tmp_path):
    found = ServerFiles(tmp_path, request.param)
    found.start(OST)
    found.start(MDT)
    found.start("MGS")
    return found


class Scans:
    """Scan after scan; `state` is that of the last one."""

    def __init__(self, server, limit=90.0):
        self.server, self.limit, self.state, self.ids = server, limit, None, []

    def __call__(self, now=T, stored=True):
        found = capacity.detect(read_server(str(self.server.root)), self.server.place, self.state,
                                now, self.limit)
        if stored:
            self.state = found.state
        self.status = found.status["targets"]
        self.ids += [one.id for one in found.events]
        return [(one.kind, one.target, one.time, one.over, one.message) for one in found.events]


def test_the_numbers_are_in_the_status_in_bytes(server):
    server.capacity(OST, 4100, 2300, 1900, 410, 370)
    server.capacity(MDT, 53_000_000_000_000, 47_000_000_000_000, 43_000_000_000_000, 590, 230,
                    kind="osd-zfs")
    scans = Scans(server)
    assert [] == scans()
    assert {OST: {"capacity": Capacity(4100 << 10, 2300 << 10, 1900 << 10, 410, 370)._asdict()},
            MDT: {"capacity": Capacity(53_000_000_000_000 << 10, 47_000_000_000_000 << 10,
                                       43_000_000_000_000 << 10, 590, 230)._asdict()},
            } == scans.status


def test_a_target_is_nearly_full_until_two_percent_less_is_used(server):
    scans = Scans(server)
    server.capacity(OST, 1 << 30, 107 << 20, 107 << 20, 1000, 999)       # 89.6 %
    assert [] == scans()
    server.capacity(OST, 1 << 30, 102 << 20, 102 << 20, 1000, 999)
    text = f"{OST}: 90.0 % of its space is used, 104,448 MiB available"
    assert [("nearly_full", OST, T + 10, None, text)] == scans(T + 10)
    server.capacity(OST, 1 << 30, 112 << 20, 112 << 20, 1000, 999)       # 89.1 %
    assert [] == scans(T + 20)
    server.capacity(OST, 1 << 30, 128 << 20, 128 << 20, 1000, 999)
    assert [("nearly_full", OST, T + 10, T + 60,
             f"{OST}: now 87.5 % of its space is used, 131,072 MiB available")] == scans(T + 60)
    assert 1 == len(set(scans.ids))
    server.capacity(OST, 1 << 30, 23 << 20, 23 << 20, 1000, 999)
    assert ["nearly_full"] == [kind for kind, *_ in scans(T + 70)]
    assert 2 == len(set(scans.ids))


def test_inodes_run_out_as_space_does(server):
    scans = Scans(server)
    server.capacity(MDT, 1 << 30, 1 << 29, 1 << 29, 1000, 23)
    assert [("nearly_full", MDT, T, None, f"{MDT}: 97.7 % of its inodes is used, 23 available"),
            ("target_full", MDT, T, None, f"{MDT}: 97.7 % of its inodes is used, 23 available"),
            ] == scans(stored=False)
    scans()                                 # after a kill the same events again
    assert 2 == len(set(scans.ids))
    server.capacity(MDT, 1 << 30, 1 << 29, 1 << 29, 1000, 41)
    assert [] == scans(T + 10)              # full until twice the minimum is free
    server.capacity(MDT, 1 << 30, 1 << 29, 1 << 29, 1000, 67)
    assert [("target_full", T + 20)] == [(kind, over) for kind, _, _, over, _ in scans(T + 20)]


def test_no_limit_leaves_only_full_targets(server):
    scans = Scans(server, 0.0)
    server.capacity(OST, 4_100_000, 99_000, 4101, 1000, 999)
    assert [] == scans()
    server.capacity(OST, 4_100_000, 99_000, 4099, 1000, 999)
    assert ["target_full"] == [kind for kind, *_ in scans(T + 10)]


def test_a_target_that_leaves_ends_its_event_and_an_unreadable_one_does_not(server):
    scans = Scans(server)
    server.capacity(OST, 1 << 30, 23 << 20, 23 << 20, 1000, 999)
    scans()
    [free] = server.root.glob(f"*/**/osd-ldiskfs/{OST}/kbytesfree")
    free.write_text("a word\n")
    assert [] == scans(T + 10) and OST not in scans.status
    server.stop(OST)
    [(kind, _, since, over, text)] = scans(T + 20)
    assert ("nearly_full", T, T + 20, f"{OST}: no longer on this storage server") == (
        kind, since, over, text)


def test_what_cannot_be_understood_is_reported_and_is_no_number(server):
    server.capacity(OST, 1 << 30, "-23", 23 << 20, 1000, 999)
    found = read_server(str(server.root))
    assert found.targets[OST].capacity is None
    [why] = found.why
    assert f"osd-ldiskfs/{OST}/kbytesfree: expected a number, got '-23'" in why


def test_random_contents_are_never_an_error(tmp_path):
    server = ServerFiles(tmp_path)
    server.start(OST)
    draw = random.Random(23)
    for _ in range(100):
        server.capacity(OST, *(draw.choice(["", "0", "23", "9" * draw.randint(1, 30), "1\n2", "é"])
                               for _ in range(5)))
        found = read_server(str(server.root)).targets[OST].capacity
        assert found is None or all(0 <= one <= 2**62 for one in found)


def test_the_limit_is_that_of_the_configuration(tmp_path):
    server = ServerFiles(tmp_path)
    server.start(OST)
    server.capacity(OST, 100, 59, 59, 1000, 999)
    config = Config()
    config.set_value("events.full_percent", "41", "a test")
    found = capacity.scan(server.place._replace(config=config), None, T)
    assert ["nearly_full"] == [one.kind for one in found.events]
