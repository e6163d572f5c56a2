"""
The queue of messages on a disk: its order, its size, and a disk that fails.
"""
from __future__ import annotations

import os

from iostats.base.disk_queue import Spool


def test_the_queue_is_a_queue(tmp_path):
    """Ten messages of two runs, their numbers going on after a restart."""
    directory = tmp_path / "spool"
    spool = Spool(str(directory), 1 << 20, "so")
    for number in range(10):
        spool.keep("ab"[number // 5], number % 5 + 1, b"%d" % number)
    for number in range(3):
        one = spool.first()
        assert b"%d" % number == spool.load(one)
        spool.remove(one)
    spool.close()
    spool = Spool(str(directory), 1 << 20, "so")
    assert (7, 7 * 4096) == (len(spool), spool.size)
    assert 2 == spool.drop("a")
    spool.keep("c", 1, b"last")
    found = []
    while spool.first():
        found.append(spool.load(spool.first()))
        spool.remove(spool.first())
    assert [b"5", b"6", b"7", b"8", b"9", b"last"] == found
    assert 0 == spool.size


def test_a_message_that_was_sent_and_cannot_be_removed_stops_no_agent(tmp_path, monkeypatch):
    """A disk that fails; the server knows the message when it is sent again."""
    spool = Spool(str(tmp_path / "spool"), 1 << 20, "so")
    for number in range(3):
        spool.keep("a", number + 1, b"%d" % number)

    def fail(path, *_):
        raise OSError(5, "Input/output error", path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fail)
        patch.setattr(os, "rename", fail)
        spool.remove(spool.first())
        spool.put_aside(spool.first())
    assert (1, b"2") == (len(spool), spool.load(spool.first()))
