"""Targets of events: the kernel's log as it is folded, its file, a state, and an event's JSON."""
from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

import kernel_lines

from iostats.base import config
from iostats.base.errors import is_printable
from iostats.events import dev_kmsg
from iostats.events.event import as_json, describe_event, from_json, make_event, merge_copies
from iostats.events.gather import Gathering
from iostats.events.kinds import KINDS
from iostats.events.log_grouping import LogGrouper
from iostats.events.wall_clock import WallClock

from .tools import target

_TEXTS = (kernel_lines.LOST, kernel_lines.EVICTED, kernel_lines.RESTORED,
          kernel_lines.silent("10.9.0.11@o2ib2"), kernel_lines.lock("10.9.0.11@o2ib2"),
          kernel_lines.failed_lock("10.9.0.11@o2ib2"), "Skipped 23 previous similar messages",
          f"{kernel_lines.OST}: Will be in recovery for at least 5:00, or until 41 clients "
          "reconnect", f"{kernel_lines.OST}: Recovery over after 1:37, of 41 clients 18 recovered "
          "and 23 were evicted.", "1:2:(a.c:3:f()) LBUG")
_LOG = b"".join(kernel_lines.record(750 + 3 * number, text, "LustreError", 23 + number)
                for number, text in enumerate(_TEXTS))


def _checked(events):
    for one in events:
        assert one.kind in KINDS and one.count >= 1 and one.last >= one.time
        assert len(one.message) <= 500 and len(one.clients) <= 8
        assert all(map(is_printable, (one.message, one.target, one.file_system, one.node,
                                      *one.clients, describe_event(one))))
        assert one == from_json(json.loads(json.dumps(as_json(one))))


def _folded(records, restart_at=-1):
    """{id: event} of records; at one of them with a restart."""
    one, told = LogGrouper("a-boot", "oss1", 10, WallClock([(0, 1.795e9)])), {}
    for number, data in enumerate(records):
        one.add_record(data)
        if number == restart_at:
            for event in one.list_changed():
                told[event.id] = event
            one = LogGrouper("a-boot", "oss1", 10, WallClock([(0, 1.795e9)]),
                         json.loads(json.dumps(one.as_json())))
    for event in one.list_changed():
        told[event.id] = merge_copies(told[event.id], event) if event.id in told else event
    return told


@target(lambda: [_LOG], 16_384)
def folded_log(data):
    """Records of any bytes are events that are of their form."""
    records = data.splitlines(True)
    found = _folded(records)
    _checked(found.values())
    assert len(found) <= 20 * max(1, len(records))
    _checked(_folded(records, len(data) % max(1, len(records))).values())


@target(lambda: [_LOG], 16_384)
def kmsg_file(data):
    """A file in the place of /dev/kmsg: the same, and read twice nothing is told twice."""
    with tempfile.TemporaryDirectory() as root:
        Path(root, "dev").mkdir()
        Path(root, "dev/kmsg").write_bytes(data)
        one = Gathering(root, config.Config(), "oss1", "a-boot", f"{root}/state", ("server",))
        found = one.scan()
        _checked(found.events)
        one.acknowledge()
        one.close()
        again = Gathering(root, config.Config(), "oss1", "a-boot", f"{root}/state", ("server",))
        _checked(again.scan().events)
        again.close()


@target(lambda: [_state()], 16_384)
def events_state(data):
    """A state that is damaged in any way: events are told, at worst once more."""
    with tempfile.TemporaryDirectory() as root:
        Path(root, "dev").mkdir()
        Path(root, "dev/kmsg").write_bytes(_LOG)
        Path(root, "state").write_bytes(data)
        one = Gathering(root, config.Config(), "oss1", "a-boot", f"{root}/state", ("server",))
        for _ in range(3):
            _checked(one.scan().events)
            one.acknowledge()
        one.close()


def _state():
    with tempfile.TemporaryDirectory() as root:
        Path(root, "dev").mkdir()
        Path(root, "dev/kmsg").write_bytes(_LOG[:len(_LOG) // 2])
        one = Gathering(root, config.Config(), "oss1", "a-boot", f"{root}/state", ("server",))
        one.scan()
        one.acknowledge()
        one.close()
        return Path(root, "state").read_bytes()


@target(lambda: [json.dumps(as_json(make_event(
    "a-boot", "oss1", ("a",), "evicted", 1_795_333_379.25, cause="silent", target="scratch-OST0003",
    clients=["10.9.0.11@o2ib2"], message="a"))).encode()], 3000)
def event_json(data):
    """An event, or one line that says what is wrong."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        _checked([from_json(value)])
    except ValueError as error:
        assert is_printable(str(error)) and len(str(error)) < 300


_ENTRY = {"__CURSOR": "s=23", "_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "PRIORITY": "4",
          "_SOURCE_MONOTONIC_TIMESTAMP": "758211829", "MESSAGE": f"Lustre: {_TEXTS[0]}"}


@target(lambda: [json.dumps(_ENTRY).encode(), json.dumps({
    **_ENTRY, "MESSAGE": list(b"LustreError: \xff")}).encode()], 3000)
def journal_entry(data):
    """An entry of journald's: a record of the kernel's log, or none."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(data)
        if isinstance(value, dict):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                found = dev_kmsg.parse_entry(value)
                assert found is None or found[2] or (found[0].isascii() and found[1] >= 0)
