"""
journald's copy of the log: the same events with the same ids; a journalctl that is ours.
"""
from __future__ import annotations

import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_lines import EVICTED, LOST, RESTORED, record, silent

from iostats.base.config import Config
from iostats.events import dev_kmsg
from iostats.events.dev_kmsg import JournalMessages
from iostats.events.gather import Gathering

MISSED = "e9bf28e6e834481bb6f48f548ad13606"
# Prints $JOURNAL, or what is behind the cursor in it; the way a journalctl of 219 to 257 does.
JOURNALCTL = r"""#!/bin/sh
printf '%s\n' "$*" >> "$JOURNAL.asked"
after=
last=
for one in "$@"; do
    case "$one" in
        --after-cursor=gone) echo "Failed to seek to cursor: No such file" >&2; exit 1 ;;
        --after-cursor=*) after="${one#*=}" ;;
        -n) last=1 ;;
    esac
done
if [ -e "$JOURNAL.fails" ]; then cat "$JOURNAL.fails" >&2; exit 1; fi
if [ -n "$last" ]; then exec tail -n 1 "$JOURNAL"; fi
if [ -z "$after" ]; then exec cat "$JOURNAL"; fi
exec sed "0,/\"__CURSOR\" *: *\"$after\"/d" "$JOURNAL"
"""


def entry(number, seconds, text, label="LustreError", **more):
    return json.dumps({
        "__CURSOR": f"s={number}", "__REALTIME_TIMESTAMP": "1795333379000000",
        "__MONOTONIC_TIMESTAMP": str(round(seconds * 1e6) + 41), "_BOOT_ID": "a", "PRIORITY": "4",
        "_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "SYSLOG_IDENTIFIER": "kernel",
        "_SOURCE_MONOTONIC_TIMESTAMP": str(round(seconds * 1e6)),
        "MESSAGE": f"{label}: {text}" if label else text, **more}, separators=(",", ":"))


@pytest.fixture
def journal(tmp_path, monkeypatch):
    program = tmp_path / "bin/journalctl"
    program.parent.mkdir()
    program.write_text(JOURNALCTL)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    path = tmp_path / "journal"
    monkeypatch.setenv("JOURNAL", str(path))

    def write(*lines):
        with open(path, "a") as file:
            file.write("".join(f"{line}\n" for line in lines))
    write.path = path
    return write


def gathering(tmp_path):
    config = Config()
    config.set_value("events.kernel_log", "journald", "here")
    return Gathering("/", config, "oss1", "a-boot", str(tmp_path / "state"), roles=())


def test_the_same_events_with_the_same_ids(tmp_path, journal):
    lines = [(7, 750, silent("10.9.0.11@o2ib2")), (8, 751, LOST), (9, 752, EVICTED),
             (10, 790, RESTORED), (11, 791, "caf\xe9 \\ \x1b[2J: bad")]
    journal(*(entry(*line) for line in lines))
    (tmp_path / "dev").mkdir()
    escaped = rb"4,11,791000000,-;LustreError: caf\xc3\xa9 \x5c \x1b[2J: bad" + b"\n"
    (tmp_path / "dev/kmsg").write_bytes(b"".join(
        record(seconds, text, "LustreError", number) for number, seconds, text in lines[:-1])
        + escaped)
    of_journal = gathering(tmp_path).scan()
    of_kmsg = Gathering(str(tmp_path), Config(), "oss1", "a-boot", roles=()).scan()
    assert "journald" == of_journal.status["log"]["source"]
    assert 5 == len(of_kmsg.events)
    assert [(one.id, one.kind, one.count, one.message) for one in of_kmsg.events] == [
        (one.id, one.kind, one.count, one.message) for one in of_journal.events]


def test_it_goes_on_behind_the_last_cursor(tmp_path, journal):
    journal(entry(7, 750, silent("10.9.0.11@o2ib2")))
    one = gathering(tmp_path)
    assert 1 == len(one.scan().events)
    one.acknowledge()
    journal(entry(8, 751, silent("10.9.0.12@o2ib2")))
    [found] = gathering(tmp_path).scan().events
    assert 2 == found.count
    assert "--after-cursor=s=7" in journal.path.with_suffix(".asked").read_text()


def test_what_programs_wrote_is_not_heard(tmp_path, journal):
    journal(entry(7, 750, LOST, SYSLOG_FACILITY="1"), entry(8, 751, LOST, _TRANSPORT="journal"),
            entry(9, 752, LOST, SYSLOG_FACILITY="3", PRIORITY="0"),
            entry(10, 753, "2 kernel messages", "", MESSAGE_ID=MISSED, _TRANSPORT="journal"))
    assert [] == gathering(tmp_path).scan().events


def test_lines_that_journald_missed_are_an_event(tmp_path, journal):
    journal(entry(7, 750, LOST), entry(8, 751, "Missed 1237 kernel messages", "",
                                        MESSAGE_ID=MISSED, _TRANSPORT="driver"))
    found = gathering(tmp_path).scan()
    assert [("connection_lost", 1), ("log_lost", 1237)] == [
        (one.kind, one.count) for one in found.events]
    assert 1237 == found.status["log"]["lost"]


def test_bytes_that_are_no_text(tmp_path, journal):
    journal(entry(7, 750, "", MESSAGE=list(b"LustreError: \xff\x1b[2J: bad")),
            entry(8, 751, "", MESSAGE=None), entry(9, 752, "", MESSAGE=[300, "a"]),
            "not json", '{"__CURSOR":"s=10","MESSAGE":"Lustre', "[" * 10_000 + "Lustre",
            '{"a":"' + "Lustre" * 100_000 + '"}', entry(11, 753, LOST))
    assert ["other", "connection_lost"] == [one.kind for one in gathering(tmp_path).scan().events]


def test_a_journal_that_was_rotated_is_read_from_its_beginning_once(tmp_path, journal):
    journal(entry(7, 750, LOST), entry(8, 790, RESTORED))
    log, lines = JournalMessages("gone", 750_000_000), []
    assert log.read(lines.append, lambda *lost: None, 100)
    assert log.read(lines.append, lambda *lost: None, 100)
    assert [790_000_000] == [int(line.split(b",")[2]) for line in lines]


def test_who_may_not_read_it_is_told_so(tmp_path, journal):
    journal.path.write_text("")
    log = gathering(tmp_path).scan().status["log"]
    assert ("none", True) == (log["source"], "systemd-journal" in log["why"])
    journal.path.with_suffix(".fails").write_text("no journal files were found\n")
    assert "no journal files were found" in gathering(tmp_path).scan().status["log"]["why"]


def test_no_journalctl_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    log = gathering(tmp_path).scan().status["log"]
    assert ("none", True) == (log["source"], "No such file" in log["why"])


def test_a_journalctl_that_hangs_is_ended(tmp_path, journal, monkeypatch):
    monkeypatch.setattr(dev_kmsg, "_WITHIN_S", 0.2)
    (tmp_path / "bin/journalctl").write_text("#!/bin/sh\nexec sleep 60\n")
    log = gathering(tmp_path).scan().status["log"]
    assert ("none", True) == (log["source"], "no answer within" in log["why"])


json_values = st.recursive(st.none() | st.integers() | st.text(max_size=9), lambda inner: st.lists(
    inner, max_size=3), max_leaves=3)


@given(st.dictionaries(st.sampled_from(["MESSAGE", "MESSAGE_ID", "_TRANSPORT", "SYSLOG_FACILITY",
                                        "PRIORITY", "_SOURCE_MONOTONIC_TIMESTAMP"]), json_values))
def test_any_entry_is_a_record_or_none(value):
    whole = json.loads(entry(7, 750, LOST))
    try:
        found = dev_kmsg.parse_entry({**whole, **value})
    except (ValueError, TypeError, KeyError):
        return
    if found:
        data, usec, missed = found
        assert missed or (data.endswith(b"\n") and data.isascii() and data.count(b"\n") == 1)
        assert 0 <= usec < 10**17
