"""
What the site's server keeps of the harvest: restarts, checkpoints, damage, a disk that fails.
"""

import zlib

import msgspec
import pytest
from harvest_inside import BEGAN, HarvestInside

from iostats.base.errors import StateError
from iostats.harvest import checkpoints as harvest_checkpoints
from iostats.harvest import harvested_job
from iostats.store.harvest_store import SweepStore


@pytest.fixture
def desk(store_address):
    one = HarvestInside(store_address)
    yield one
    one.store.close()


def test_a_server_that_is_killed_has_lost_nothing_and_takes_nothing_twice(desk):
    desk.send("oss1", desk.block())
    for number in range(1, 38):
        desk.now += 20
        one = desk.block(ids=["4711"], started=BEGAN + 3, read_bytes=(number, 1009 * number))
        desk.send("oss1", one, seq=number + 1)
        desk.turn()
        if number % 5 == 0:
            desk.again()
            assert desk.send("oss1", one, seq=number + 1)["why"]
        if number % 7 == 0:
            desk.harvest.checkpoints.write(list(desk.harvest.targets))
    assert {"scratch": (37 * 1009, 0, False)} == desk.totals("4711")
    desk.again()
    assert {"scratch": (37 * 1009, 0, False)} == desk.totals("4711")


def replayed(desk):
    """Bytes that the next start has to go through once more."""
    [(size,)] = desk.store.rows("SELECT coalesce(sum(length(body)), 0) FROM blocks")
    return size


def test_an_orderly_end_leaves_the_next_start_nothing_to_replay(desk):
    desk.send("oss1", desk.block("OST0000"), desk.block("MDT0000"))
    desk.now += 20
    desk.send("oss1", desk.block("OST0000", ids=["4711"], started=BEGAN + 3,
                                 read_bytes=(23, 41_003)), desk.block("MDT0000"))
    desk.turn()
    assert replayed(desk)
    desk.harvest.close()
    assert 0 == replayed(desk)
    desk.again()
    assert {"scratch": (41_003, 0, False)} == desk.totals("4711")
    desk.now += 20
    desk.send("oss1", desk.block("OST0000", ids=["4711"], started=BEGAN + 3,
                                 read_bytes=(37, 53_007)), desk.block("MDT0000"))
    assert {"scratch": (53_007, 0, False)} == desk.totals("4711")
    desk.harvest.close()
    assert 0 == replayed(desk)


def test_many_targets_have_no_more_to_replay_than_their_states_take(desk, monkeypatch):
    monkeypatch.setattr(harvest_checkpoints, "REPLAY_BYTES", 41)
    monkeypatch.setattr(harvest_checkpoints, "LEAST_BYTES", 37)
    names, sizes = [f"OST{number:04x}" for number in range(37)], []
    for number in range(1, 25):
        desk.send("oss1", *(desk.block(name, ids=["4711"], started=BEGAN + 3,
                                       read_bytes=(number, 1009 * number)) for name in names),
                  seq=number, full=number == 1)
        desk.turn()
        desk.now += 20
        [(states,)] = desk.store.rows("SELECT sum(length(state)) FROM targets")
        sizes.append(replayed(desk))
        assert sizes[-1] <= states
    assert len(set(sizes)) > 3
    desk.again()
    assert 37 * 24 * 1009 == desk.totals("4711")["scratch"][0]


def test_a_store_that_cannot_be_read_back_is_not_taken_for_an_empty_one(desk, monkeypatch):
    """Its disk failed, and fails still: nothing is taken, and no half is written as the whole."""
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))

    def fail(*_):
        raise StateError("site.sqlite: cannot be read: disk I/O error")
    with monkeypatch.context() as patch:
        patch.setattr(SweepStore, "blocks", fail)
        with pytest.raises(StateError):
            desk.harvest.reload()
        desk.now += 20
        with pytest.raises(StateError):
            desk.send("oss1", desk.block(ids=["4712"], started=desk.now - 3, read_bytes=(1, 37)))
    assert desk.send("oss1", desk.block(ids=["4712"], started=desk.now - 3, read_bytes=(1, 37)),
                     seq=3)["taken"]
    assert {"scratch": (41_003, 0, False)} == desk.totals("4711")
    assert {"scratch": (37, 0, False)} == desk.totals("4712")


def with_width(state, width):
    """A target's state with this type for its first array, and the right checksum."""
    magic, rest = state[:18], state[27:]
    head, _, body = rest.partition(b"\n")
    about = msgspec.json.decode(body[:int(head)])
    about["arrays"][0][2] = width
    new = msgspec.json.encode(about)
    rest = b"%d\n" % len(new) + new + body[int(head):]
    return magic + b"%08x\n" % zlib.crc32(rest) + rest


@pytest.mark.parametrize("width", ["01u4", "O", "u4,u4", "V8", "<m8"])
def test_one_damaged_target_costs_itself_alone_and_is_put_aside(desk, caplog, width):
    """
    OST0001 is as it was; of OST0000 everything is asked for again, also after another restart, and
    what was counted there before is marked.
    """
    one = {"ids": ["4711"], "started": BEGAN + 17}
    desk.send("oss1", desk.block(), desk.block("OST0001"))
    desk.now += 20
    desk.send("oss1", desk.block(read_bytes=(23, 41_003), **one),
              desk.block("OST0001", read_bytes=(5, 1009), **one))
    desk.harvest.checkpoints.write(list(desk.harvest.targets))
    damaged = with_width(desk.harvest.targets["scratch", "OST0000"].state(), width)
    desk.store.change("UPDATE targets SET state = ? WHERE target = 'OST0000'", (damaged,))
    desk.now += 20
    desk.send("oss1", desk.block(read_bytes=(24, 42_012), **one), desk.block("OST0001"))
    desk.again()
    assert f"{desk.store.path}: the saved entries of scratch-OST0000: " in caplog.text
    assert [("targets", "scratch OST0000", damaged)] == desk.store.rows(
        "SELECT place, row, body FROM damaged")
    desk.again()
    assert {"scratch": (1009, 0, False)} == desk.totals("4711")
    desk.now += 20
    assert "full" == desk.send("oss1", desk.block(), desk.block("OST0001"))["want"]
    desk.send("oss1", desk.block(read_bytes=(25, 53_007), **one), desk.block("OST0001"),
              run="2" * 16)
    assert {"scratch": (54_016, 0, True)} == desk.totals("4711")


@pytest.mark.parametrize("table", ["agents", "blocks", "lives", "harvests"])
def test_any_damaged_row_of_the_harvest_costs_itself_alone(desk, caplog, table):
    """4712, which is settled, and 4713, which runs, are there with what else is known of them."""
    one = {"ids": ["4712"], "started": BEGAN + 17}
    desk.send("oss1", desk.block(), desk.block("OST0001"))
    desk.now += 20
    desk.send("oss1", desk.block(read_bytes=(23, 41_003), **one),
              desk.block("OST0001", read_bytes=(5, 1009), **one))
    for _ in range(92):
        desk.now += 20
        desk.send("oss1", desk.block(), desk.block("OST0001"))
        desk.turn()
    assert ["4712"] == list(desk.settled)
    desk.now += 20
    two = {"ids": ["4713"], "started": desk.now - 3}
    desk.send("oss1", desk.block(read_bytes=(37, 53_007), **two), desk.block("OST0001"))
    desk.turn()
    desk.harvest.checkpoints.write(list(desk.harvest.targets))
    desk.now += 20
    desk.send("oss1", desk.block(), desk.block("OST0001"))
    where = "id = (SELECT min(id) FROM blocks)" if table == "blocks" else "true"
    desk.store.change(f"UPDATE {table} SET body = ? WHERE {where}", (b"\x80",))
    desk.again()
    settled, runs = desk.totals("4712"), desk.totals("4713")
    assert ({} if table == "harvests" else {"scratch": (42_012, 0, False)}) == settled
    assert {"scratch": (53_007, 0, False)} == runs
    if table == "harvests":
        assert ["earlier counts are damaged in the server's store, and were set aside"] == (
            harvested_job.as_record(desk.harvest.lives.find_harvested("4712"), ",".join)["notes"])
    assert f"{desk.store.path}: " in caplog.text and "put aside" in caplog.text
    assert [(table, b"\x80")] == desk.store.rows("SELECT place, body FROM damaged")
    desk.again()
    assert (settled, runs) == (desk.totals("4712"), desk.totals("4713"))


def test_what_cannot_be_kept_is_not_counted(desk, monkeypatch):
    desk.send("oss1", desk.block())
    desk.now += 20

    def full(*_):
        raise StateError("the disk is full")
    monkeypatch.setattr(SweepStore, "add", full)
    with pytest.raises(StateError):
        desk.send("oss1", desk.block(ids=["4711"], read_bytes=(23, 41_003)), seq=2)
    assert desk.harvest.lives.find_harvested("4711") is None
    assert 1 == desk.harvest.agents["oss1"].seq
