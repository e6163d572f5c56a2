"""
The kernel's logs of real Lustre machines, to which was done what their READMEs say: exactly the
events that are expected, worked out by hand from the lines and from what was done.
"""
from __future__ import annotations

import re

import pytest
from trees import samples, shared

from iostats.base.config import Config
from iostats.events.event import merge_copies
from iostats.events.gather import Gathering
from iostats.lustre import kernel_log

# Seconds since the boot (whole), kind, target, cause, count, skipped.  A release's logs are the
# same one, read again and again; each has what was there by then.
STARTED = {
    "2.16.1": """58 target_up MDT0000 - 1 0
                 62 target_up OST0000 - 1 0
                 65 target_up OST0001 - 1 0
                 68 target_up OST0002 - 1 0""",
    # OST0001's line was not printed; the kernel counted it behind OST0002's.
    "2.17.57": """83 target_up MDT0000 - 1 0
                  85 target_up OST0000 - 1 0
                  87 target_up OST0002 - 1 1""",
    "2.16.1-server": """32 target_up MDT0000 - 1 0
                        36 target_up OST0000 - 1 0
                        40 target_up OST0001 - 1 0""",
    # OST0001's was not printed, nor counted: no later line of this place came.
    "2.17.57-b": """198 target_up MDT0000 - 1 0
                    200 target_up OST0000 - 1 0""",
    "2.17.57-c": """66 target_up MDT0000 - 1 0
                    67 target_up OST0000 - 1 0"""}
# The administrator evicted the client at OST0001 and MDT0000; OST0002 was deactivated, and
# activated (its client's lines then are no events; the storage server saw it connect); OST0001 was
# unmounted.  Server and client are one machine here.
EXPECTED = {
    ("2.16.1", "30.945632"): STARTED["2.16.1"] + """
        344 evicted OST0001 administrator 1 0
        345 other MDT0000 - 1 0
        345 connection_lost MDT0000 - 1 0
        345 evicted MDT0000 - 1 0
        345 other - - 1 0
        345 connection_restored MDT0000 - 1 0
        345 evicted OST0001 - 1 0
        404 client_reconnecting OST0002 - 1 0
        412 connection_lost OST0001 - 1 0
        413 other OST0001 - 1 1
        415 target_down OST0001 - 1 0
        424 other OST0001 - 2 2
        434 other OST0001 - 2 1
        442 other OST0001 - 1 1
        452 other OST0001 - 1 3
        473 other OST0001 - 1 7""",
    ("2.17.57", "70.042370"): STARTED["2.17.57"] + """
        318 evicted OST0001 administrator 1 0
        318 other MDT0000 - 1 0
        318 connection_lost MDT0000 - 1 0
        318 evicted MDT0000 - 1 0
        318 other - - 1 0
        318 connection_restored MDT0000 - 1 0
        319 other OST0001 - 1 0
        319 connection_lost OST0001 - 1 0
        319 evicted OST0001 - 1 0
        319 connection_restored OST0001 - 1 0
        362 client_reconnecting OST0002 - 1 0
        367 target_down OST0001 - 1 0
        368 connection_lost OST0001 - 1 0
        371 other OST0001 - 1 1
        379 other OST0001 - 1 3
        384 other OST0001 - 2 1
        393 other OST0001 - 2 2
        408 other OST0001 - 1 3
        426 other OST0001 - 1 7""",
    # Another boot: nothing was done to it.
    ("2.17.57", "55.711233"): """71 target_up MDT0000 - 1 0
        75 target_up OST0000 - 1 0
        76 target_up OST0001 - 1 0""",
    # A storage server and its client on two machines.
    ("2.16.1-server", "25.140814"): STARTED["2.16.1-server"] + """
        111 evicted OST0001 administrator 1 0""",
    ("2.15.8", "26.400898"): """
        113 other MDT0000 - 1 0
        113 connection_lost MDT0000 - 1 0
        113 evicted MDT0000 - 1 0
        113 other - - 1 0
        113 connection_restored MDT0000 - 1 0
        113 evicted OST0001 - 1 0""",
    ("2.17.57-client", "33.529303"): """
        143 other MDT0000 - 1 0
        143 connection_lost MDT0000 - 1 0
        143 evicted MDT0000 - 1 0
        143 other - - 1 0
        143 connection_restored MDT0000 - 1 0
        144 evicted OST0001 - 1 0""",
    ("2.17.57-b", "191.230457"): STARTED["2.17.57-b"] + """
        429 other - - 1 0
        494 other - - 1 0""",
    # c2 was killed; MDT0000, OST0000 and OST0001 evicted it, and the log has no line of OST0000.
    ("2.17.57-c", "61.975695"): STARTED["2.17.57-c"] + """
        758 evicted MDT0000 silent 1 1
        801 evicted OST0001 silent 1 0""",
    ("2.17.57-c", "62.643172"): "", ("2.17.57-c", "63.219666"): ""}

# It was read 5 s before the second line of that window.
CUT = {"2.17.57/s18_ost1_down": ("393 other OST0001 - 2 2", "393 other OST0001 - 1 1")}


def as_kmsg(path):
    """[record of /dev/kmsg] of a file that dmesg, or a reader of /dev/kmsg, has written."""
    lines = path.read_bytes().splitlines()
    if path.name == "kmsg.txt":
        return [line + b"\n" for line in lines]
    found = []
    for number, line in enumerate(lines):
        usec = kernel_log.parse_dmesg_line(line).usec
        found.append(b"4,%d,%d,-;%s\n" % (number, usec, line.partition(b"] ")[2]))
    return found


def usec_of(record):
    return int(record.split(b",", 3)[2])


def expected_of(path, records):
    """[(second, kind, target, cause, count, skipped)] of what was there by then."""
    release = next(part for part in path.parts if part.startswith("2."))
    first = usec_of(records[0])
    text = EXPECTED[release, f"{first // 1_000_000}.{first % 1_000_000:06d}"]
    text = text.replace(*CUT.get("/".join(path.parts[-3:-1]), ("no", "no")))
    found = []
    for line in text.strip().splitlines():
        second, kind, target, cause, count, skipped = line.split()
        if int(second) * 1_000_000 <= usec_of(records[-1]):
            found.append((int(second), kind, f"lustre-{target}" if target != "-" else "",
                          cause.strip("-"), int(count), int(skipped)))
    return found


def gathering(root, kept=None):
    config = Config()
    return Gathering(str(root), config, "a-node", "a-boot", kept)


def shown(events):
    """The same of events, by the log's own clock."""
    return [(kind, target, cause, count, skipped) for kind, target, cause, count, skipped in (
        (one.kind, one.target, one.cause, one.count, one.skipped) for one in events)]


LOGS = samples("captures", "*/*/dmesg.txt") + samples("captures", "*/*/*/dmesg.txt") + samples(
    "captures", "*/*/*/kmsg.txt")


@pytest.mark.parametrize("path", LOGS)
def test_a_real_log_gives_exactly_what_is_expected(tmp_path, path):
    records = as_kmsg(path)
    expected = expected_of(path, records)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_bytes(b"".join(records))
    found = gathering(tmp_path).scan().events
    lost = [one for one in found if one.kind == "log_lost"]
    if path.name == "kmsg.txt":                 # lines 432 to 443 were taken out of it
        assert [12] * ("s09" in str(path) and "server" in path.parts) == [
            one.count for one in lost]
    found = [one for one in found if one.kind != "log_lost"]
    assert sorted(shown(found)) == sorted(row[1:] for row in expected)
    # When: the events are as far apart as the lines are.
    if found:
        first = min(one.time for one in found) - expected[0][0]
        assert [row[0] for row in expected] == pytest.approx(sorted(
            one.time - first for one in found), abs=1.0)


def test_each_boot_has_a_log():
    """So that no row above is without its test."""
    boots = set()
    for path in (one.values[0] for one in LOGS):
        if path is None:
            pytest.skip("no real samples")
        first = usec_of(as_kmsg(path)[0])
        boots.add((next(part for part in path.parts if part.startswith("2.")),
                   f"{first // 1_000_000}.{first % 1_000_000:06d}"))
    assert set(EXPECTED) == boots


def test_the_eviction_whose_time_the_log_itself_tells():
    """07:42:59 and 07:43:42; `dmesg -T` says a second less."""
    path = shared("captures", "2.17.57-c", "s09_killed_and_evicted", "server", "dmesg_T.txt")
    assert re.search(r"07:42:58.*MDT0000: haven't heard", path.read_text())


def test_a_real_log_that_is_read_line_by_line_with_a_restart_at_each(tmp_path):
    records = as_kmsg(shared("captures", "2.17.57", "s19_idle", "dmesg.txt"))
    (tmp_path / "dev").mkdir()
    log, state = tmp_path / "dev/kmsg", str(tmp_path / "state")
    log.write_bytes(b"".join(records))
    whole = {one.id: one for one in gathering(tmp_path).scan().events}
    log.write_bytes(b"")
    told = {}
    for number, record in enumerate(records):
        with open(log, "ab") as file:
            file.write(record)
        one = gathering(tmp_path, state)
        for event in one.scan().events:
            told[event.id] = merge_copies(told[event.id], event) if event.id in told else event
        if number % 3:                          # each third time it is killed before it is told
            one.acknowledge()
        one.close()
    assert {key: shown([one]) for key, one in whole.items()} == {
        key: shown([one]) for key, one in told.items()}
    assert {key for key, one in whole.items() if one.over} == {
        key for key, one in told.items() if one.over}


def test_a_flood_made_of_real_evictions(tmp_path):
    """The storage server's log of that day, as if 10,000 clients had died in one second."""
    records = as_kmsg(shared("captures", "2.17.57-c", "s09_killed_and_evicted", "server",
                             "kmsg.txt"))
    dead = next(one for one in records if b"OST0001: haven't heard" in one)
    flood = [dead.replace(b"446,801366283", b"%d,%d" % (447 + number, 805_000_000 + number * 100))
             .replace(b"10.77.0.12@tcp", b"10.78.%d.%d@tcp" % divmod(number, 256))
             for number in range(10_000)]
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_bytes(b"".join(records + flood))
    found = [one for one in gathering(tmp_path).scan().events if one.kind == "evicted"]
    assert [("lustre-MDT0000", 1, 1), ("lustre-OST0001", 10_001, 0)] == sorted(
        (one.target, one.count, one.skipped) for one in found)
    assert 8 == len(max(found, key=lambda one: one.count).clients)


def test_what_the_two_clients_saw_of_it(tmp_path):
    """Nothing: c2 is dead, and c1 went on."""
    for path in samples("captures", "2.17.57-c/s09_killed_and_evicted/c1/kmsg.txt"):
        if path.values[0] is None:
            pytest.skip("no real samples")
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev/kmsg").write_bytes(path.values[0].read_bytes())
        assert [] == gathering(tmp_path).scan().events
