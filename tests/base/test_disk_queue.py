"""
The queue of what waits on the disk: order and bounds.
"""
from __future__ import annotations

import os
import zlib

import pytest

from iostats.base.disk_queue import Spool, SpoolFull, read_backlog
from iostats.base.errors import StateError


@pytest.fixture
def spool(tmp_path):
    """open(most_bytes=..., ...) -> the Spool in tmp_path/spool; the one before is closed."""
    opened = []

    def open_one(most_bytes=1 << 20, **how):
        for one in opened:
            one.close()
        opened.append(Spool(str(tmp_path / "spool"), most_bytes, "[harvest]", **how))
        return opened[-1]
    yield open_one
    for one in opened:
        one.close()


def emptied(one):
    """The bytes of all entries, in their order."""
    found = []
    while one.find_first():
        found.append(one.load(one.find_first()))
        one.remove(one.find_first())
    return found


def test_the_queue_is_a_queue(spool):
    """Ten messages of two runs, their numbers going on after a restart."""
    one = spool()
    for number in range(10):
        one.append("ab"[number // 5], number % 5 + 1, b"%d" % number)
    for number in range(3):
        assert b"%d" % number == one.load(one.find_first())
        one.remove(one.find_first())
    one = spool()
    assert (7, 7 * 4096) == (len(one), one.size_bytes)
    assert 2 == one.drop("a")
    one.append("c", 1, b"last")
    assert [b"5", b"6", b"7", b"8", b"9", b"last"] == emptied(one)
    assert 0 == one.size_bytes


def test_entries_may_stand_alone(spool):
    """Without a chain the oldest one goes, and no other."""
    one = spool(3 * 4096, ending=".points", is_private=False)
    for number in (23, 37, 41, 43):
        assert (number > 42) == one.append("", number, b"%d" % number)
    one = spool(3 * 4096, ending=".points", is_private=False)
    assert [37, 41, 43] == [entry.mark for entry in one]
    assert ["000000000002.37.points", "000000000003.41.points",
            "000000000004.43.points"] == sorted(os.listdir(one.directory))
    assert [b"37", b"41", b"43"] == emptied(one)


def test_a_full_queue_forgets_whole_runs_but_not_the_one_that_goes_on(spool):
    """What is left of a chain could not be used."""
    one = spool(4 * 4096)
    for mark in (1, 2, 3):
        one.append("a", mark, b"a")
    one.append("b", 1, b"b1")
    assert 3 == one.append("b", 2, b"b2")
    one.append("b", 3, b"b3")
    one.append("b", 4, b"b4")
    with pytest.raises(SpoolFull, match="expected at most 16384 bytes, and one sweep is more"):
        one.append("b", 5, b"b5")
    assert [b"b1", b"b2", b"b3", b"b4"] == emptied(one)


def test_the_end_of_a_run_may_go_alone(spool):
    """A sweep that cannot be kept whole is not kept at all."""
    one = spool()
    for mark in (1, 2, 3, 4):
        one.append("a", mark, b"%d" % mark)
    assert 2 == one.drop("a", 3)
    assert [b"1", b"2"] == emptied(one)


@pytest.mark.parametrize("kept", [b"", b"\0\0\0", b"%08x\nother" % zlib.crc32(b"one"),
                                  zlib.compress(b'{"protocol":1}')[:-1],
                                  zlib.compress(b'{"protocol":1}') + b"more"],
                         ids=["empty", "zeros", "another checksum", "cut", "more behind it"])
def test_a_damaged_file_is_put_aside(spool, tmp_path, kept):
    """And stays in nobody's way."""
    (tmp_path / "spool").mkdir(mode=0o700)
    (tmp_path / "spool" / "000000000007.a.1.message").write_bytes(kept)
    one = spool()
    with pytest.raises(StateError, match="a message that waited is damaged"):
        one.load(one.find_first())
    one.set_aside(one.find_first())
    assert (0, 0, None) == (len(one), one.size_bytes, one.find_first())
    assert (0, 1) == (read_backlog(one.directory).messages, read_backlog(one.directory).damaged)


def test_a_message_that_was_sent_and_cannot_be_removed_stops_no_agent(spool, monkeypatch):
    """A disk that fails; the server knows the message when it is sent again."""
    one = spool()
    for number in range(3):
        one.append("a", number + 1, b"%d" % number)

    def fail(path, *_):
        raise OSError(5, "Input/output error", path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fail)
        patch.setattr(os, "rename", fail)
        one.remove(one.find_first())
        one.set_aside(one.find_first())
    assert (1, b"2") == (len(one), one.load(one.find_first()))


def test_one_process_has_a_private_queue_at_a_time(spool, tmp_path):
    """The other is told whose it is."""
    spool()
    with pytest.raises(StateError, match=rf"\(process {os.getpid()}\); stop it first"):
        Spool(str(tmp_path / "spool"), 1 << 20, "[harvest]")
    assert os.getpid() == read_backlog(str(tmp_path / "spool")).process


def test_a_directory_that_others_may_read_is_refused_where_it_has_to_be_private(spool, tmp_path):
    """And taken where it need not be."""
    (tmp_path / "spool").mkdir(mode=0o755)
    (tmp_path / "spool").chmod(0o755)
    with pytest.raises(StateError, match=r"expected a directory of user .* with mode 0700"):
        spool()
    spool(is_private=False).append("", 23, b"points")
