"""Objects that OSTs make in advance: pools by release, and an MDT that gets none."""
from __future__ import annotations

import pytest
from server_files import PLACES, ServerFiles

from iostats.events.metrics_reading import read_pools
from iostats.events.sources import precreate
from iostats.lustre.precreate import FILES, Pool, explain_lack, parse_pool

OST, T = "scratch-OST0003", 1_795_333_400.0
NAME = f"{OST}-osc-MDT0000"


@pytest.fixture(params=sorted(PLACES))
def server(request, tmp_path):
    found = ServerFiles(tmp_path, request.param)
    found.pool(OST)
    return found


class Scans:
    """The source, as an agent calls it."""

    def __init__(self, server):
        self.server, self.state = server, None

    def __call__(self, now, **pool):
        if pool:
            self.server.pool(OST, **pool)
        found = precreate.scan(self.server.place, self.state, now)
        self.state = found.state
        return [(one.kind, one.file_system, one.target, one.time, one.last, one.over, one.message)
                for one in found.events]


def test_pools_are_where_each_release_has_them(server):
    server.pool("scratch-OST0004", mdt="MDT0001", status=-28, last_id=36)
    server.pool("scratch-OST0005", last_seq="0x200000400", most=0)
    (server.root / "sys/fs/lustre/osp/scratch-MDT0001-osp-MDT0000").mkdir(parents=True)
    assert {NAME: Pool(0, 28, True), "scratch-OST0004-osc-MDT0001": Pool(28, 0, True),
            "scratch-OST0005-osc-MDT0000": Pool(0, None, False)} == read_pools(
        str(server.root), [])


def test_an_mdt_without_objects_for_a_minute_is_an_event_with_an_end(server):
    """Full at 60 s and 120 s: begun at the second reading, and over at 240 s."""
    scans = Scans(server)
    assert [] == scans(T)
    assert [] == scans(T + 60, status=-28)
    text = f"MDT0000 gets no objects of {OST}: "
    head = ("no_objects", "scratch", OST, T + 120)
    assert [(*head, T + 120, None, text + "the OST is full")] == scans(T + 120)
    assert [] == scans(T + 179)
    assert [(*head, T + 180, None, text + "all that were made in advance are used")] == scans(
        T + 180, status=0, last_id=36)
    assert [(*head, T + 240, T + 240, text + "over")] == scans(T + 240, last_id=37)
    assert [] == scans(T + 300)


def test_a_pool_that_is_empty_for_a_moment_is_no_event(server):
    scans = Scans(server)
    for minute, last_id in enumerate((36, 64, 36, 37)):
        assert [] == scans(T + 60 * minute, last_id=last_id)


@pytest.mark.parametrize("pool", [{"status": -108}, {"most": 0, "status": -28}])
def test_what_an_administrator_turned_off_is_no_event(server, pool):
    scans = Scans(server)
    assert [[], [], []] == [scans(T + at, **pool) for at in (0, 60, 120)]


def test_what_cannot_be_read_changes_nothing_and_what_is_gone_is_over(server):
    scans = Scans(server)
    for at in (0, 60):
        found = scans(T + at, status=-19)
    assert ["MDT0000 gets no objects of scratch-OST0003: it has no connection to the OST"] == [
        one[-1] for one in found]
    [path] = server.root.glob(f"**/{NAME}/prealloc_status")
    path.write_text("a word\n")
    assert [] == scans(T + 120)
    path.unlink()
    assert [] == scans(T + 180)
    server.stop(NAME)
    [(*_, over, text)] = scans(T + 240)
    assert T + 240 == over and text.endswith("its MDT is no longer on this storage server")


@pytest.mark.parametrize("file, text, why", [
    ("prealloc_status", "28", "expected 0 or an error below 0, got 28"),
    ("prealloc_last_id", "0x25", "prealloc_last_id: expected a number, got '0x25'")])
def test_another_form_is_refused(file, text, why):
    texts = dict(zip(FILES, ("0", "20000", "37", "64", "0x100000000", "0x100000000")))
    with pytest.raises(ValueError, match=why):
        parse_pool({**texts, file: text})


def test_an_error_without_words_has_its_name():
    assert "error 5, EIO" == explain_lack(Pool(5, 23, True))
