"""
/dev/kmsg: the real one, where root may write to it; and what a ring does that goes round.
"""
from __future__ import annotations

import os
import socket
import stat

import pytest
from kernel_lines import LOST, OST, RESTORED, record, silent

from iostats.base.config import Config
from iostats.events import dev_kmsg
from iostats.events.dev_kmsg import KernelMessages
from iostats.events.gather import Gathering


def _is_writable():
    try:
        return stat.S_ISCHR(os.stat("/dev/kmsg").st_mode) and os.access("/dev/kmsg", os.W_OK)
    except OSError:
        return False


@pytest.mark.skipif(not _is_writable(), reason="needs root, and a /dev/kmsg that it may write to")
def test_what_a_program_writes_to_the_real_dev_kmsg_is_no_event():
    """The kernel gives it the facility of users, whatever it asks for."""
    one = Gathering("/", Config(), "here", "a-boot", roles=())
    before = {event.id: event for event in one.scan().events}
    one.acknowledge()
    assert one.scan().status["log"]["source"] == "kmsg"
    mark = os.urandom(8).hex()
    for forged in (silent("10.9.0.11@o2ib2", f"fs{mark[:4]}-OST0003"), LOST,
                   "1:2:(a.c:3:f()) LBUG"):
        for priority in ("", "<0>", "<3>", "<6>"):
            # A few lines for each time that it is opened, as printk_devkmsg=ratelimit has it.
            with open("/dev/kmsg", "wb", buffering=0) as log:
                log.write(f"{priority}LustreError: {forged} {mark}\n".encode())
                log.write(f"{priority}LustreError: {forged}\n".encode())
    after = {event.id for event in one.scan().events} - set(before)
    one.close()
    assert set() == after
    # They are there: this is no test of an empty log.
    log = KernelMessages("/dev/kmsg")
    found = []
    while not log.read(found.append, lambda *lost: None, 1000):
        pass
    log.close()
    ours = [line for line in found if mark.encode() in line]
    assert 12 == len(ours) and all(int(line.split(b",")[0]) >> 3 for line in ours)


@pytest.mark.skipif(not _is_writable(), reason="needs root, and a /dev/kmsg that it may write to")
def test_the_real_log_goes_on_where_it_was_left():
    first, second = [], []
    log = KernelMessages("/dev/kmsg")
    while not log.read(first.append, lambda *lost: None, 100):
        pass
    position = log.sequence, log.usec
    log.close()
    assert first and position[0] >= 0
    mark = os.urandom(8).hex()
    with open("/dev/kmsg", "wb", buffering=0) as file:
        file.write(mark.encode() + b"\n")
    log = KernelMessages("/dev/kmsg", *position)
    while not log.read(second.append, lambda *lost: None, 100):
        pass
    log.close()
    assert not set(first) & set(second)
    assert any(mark.encode() in line for line in second)


class Ring:
    """Reads of a ring: each gives one record, or is what the kernel would raise."""

    def __init__(self, monkeypatch, tmp_path):
        self.reads = []
        path = tmp_path / "kmsg"
        path.write_bytes(b"")
        self.path = str(path)
        monkeypatch.setattr(dev_kmsg.stat, "S_ISCHR", lambda mode: True)
        monkeypatch.setattr(dev_kmsg.os, "read", self.read)

    def read(self, handle, size):
        if not self.reads:
            raise BlockingIOError
        found = self.reads.pop(0)
        if isinstance(found, type):
            raise found
        if isinstance(found, OSError):
            raise found
        assert len(found) <= size
        return found


def taken(log, most=1000):
    lines, lost = [], []
    at_end = log.read(lines.append, lambda *one: lost.append(one), most)
    return at_end, [int(line.split(b",")[1]) for line in lines], lost


def test_a_ring_that_went_round_says_how_many_lines_are_gone(monkeypatch, tmp_path):
    ring = Ring(monkeypatch, tmp_path)
    ring.reads = [record(7, LOST, number=23), record(8, LOST, number=24), BrokenPipeError,
                  record(41, RESTORED, number=1262), record(42, LOST, number=1263)]
    log = KernelMessages(ring.path)
    assert (True, [23, 24, 1262, 1263], [(1237, 24, 41_000_000)]) == taken(log)
    assert (1237, 1263, 42_000_000) == (log.lost, log.sequence, log.usec)


def test_a_ring_that_went_round_while_we_were_away(monkeypatch, tmp_path):
    ring = Ring(monkeypatch, tmp_path)
    ring.reads = [record(41, LOST, number=1262)]
    assert (True, [1262], [(37, 1224, 41_000_000)]) == taken(
        KernelMessages(ring.path, 1224, 37_000_000))


def test_the_first_reading_ever_has_lost_nothing(monkeypatch, tmp_path):
    """What was overwritten before is not known to be ours."""
    ring = Ring(monkeypatch, tmp_path)
    ring.reads = [record(41, LOST, number=1262)]
    assert (True, [1262], []) == taken(KernelMessages(ring.path))


def test_what_was_taken_before_is_not_taken_again(monkeypatch, tmp_path):
    ring = Ring(monkeypatch, tmp_path)
    ring.reads = [record(7 + number, LOST, number=23 + number) for number in range(5)]
    assert (True, [26, 27], []) == taken(KernelMessages(ring.path, 25, 9_000_000))


def test_a_record_that_is_longer_than_any_is_read(monkeypatch, tmp_path):
    """EINVAL: it does not fit; nothing of it was taken."""
    ring = Ring(monkeypatch, tmp_path)
    ring.reads = [OSError(22, "Invalid argument"), record(7, "a" * 20_000, number=23),
                  record(8, LOST, number=24)]
    assert (True, [23, 24], []) == taken(KernelMessages(ring.path))


def test_a_log_that_fails_says_so(monkeypatch, tmp_path):
    ring = Ring(monkeypatch, tmp_path)
    ring.reads = [record(7, LOST, number=23), OSError(5, "Input/output error")]
    log = KernelMessages(ring.path)
    with pytest.raises(OSError, match="Input/output"):
        taken(log)
    assert 23 == log.sequence


def test_no_more_than_was_asked_for(monkeypatch, tmp_path):
    ring = Ring(monkeypatch, tmp_path)
    ring.reads = [record(7 + number, LOST, number=23 + number) for number in range(5)]
    log = KernelMessages(ring.path)
    assert (False, [23, 24], []) == taken(log, 2)
    assert (True, [25, 26, 27], []) == taken(log)


def test_a_socket_in_its_place_is_no_log(tmp_path):
    path = str(tmp_path / "kmsg")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path)
        with pytest.raises(OSError, match=r"No such device|Neither"):
            KernelMessages(path)


def test_sequences_that_begin_again_in_a_file(tmp_path):
    """A simulated storage server that was started again."""
    path = tmp_path / "kmsg"
    path.write_bytes(record(7, LOST, number=23) + record(8, LOST, number=24)
                     + record(9, LOST, number=1) + b"\ngarbage\n" + record(10, LOST, number=2))
    assert (True, [23, 24, 1, 2], []) == taken(KernelMessages(str(path)))


def test_a_line_that_comes_in_two_parts(tmp_path):
    path = tmp_path / "kmsg"
    line = record(7, silent("10.9.0.11@o2ib2", OST), number=23)
    path.write_bytes(line[:50])
    log = KernelMessages(str(path))
    assert (True, [], []) == taken(log)
    with open(path, "ab") as file:
        file.write(line[50:])
    assert (True, [23], []) == taken(log)


def test_a_file_that_shows_no_size_is_read_to_its_end(tmp_path):
    """As those of /proc, and of FUSE: it is not taken for another one again and again."""
    path = tmp_path / "kmsg"
    path.symlink_to("/proc/self/limits")
    log = KernelMessages(str(path))
    taken = []

    assert os.stat(path).st_size == 0
    assert log.read(taken.append, lambda *lost: None, 1000) is True
    assert [] == taken
    log.close()
