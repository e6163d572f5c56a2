"""
exports/NID/stats: what each client has done to one target, in the forms of Lustre 2.5 to 2.17.
"""
from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import samples, shared

from iostats.lustre import exports, stats
from iostats.lustre.exports import ClientAmounts, parse, parse_nid, strip_time, sum_amounts
from iostats.lustre.metrics import is_operation
from iostats.lustre.stats import Counter

NS = 1_000_000_000
AT, BEGAN = 1_795_332_839, 1_795_332_706


def header(release):
    """The header of a release, as lprocfs_stats_header() or its forerunner prints it."""
    if release in ("2.5", "2.7"):
        return f"snapshot_time             {AT}.57342 secs.usecs\n"
    if release in ("2.10", "2.12", "2.14"):
        return f"snapshot_time             {AT}.000057342 secs.nsecs\n"
    if release == "2.15.0":
        return ("snapshot_time             4711.000057342 secs.nsecs\n"
                "start_time                0.000000000 secs.nsecs\n"
                "elapsed_time              4711.000057342 secs.nsecs\n")
    pad = 36 if release == "2.17" else 26
    return (f"{'snapshot_time':<{pad}}{AT}.000057342 secs.nsecs\n"
            f"{'start_time':<{pad}}{BEGAN}.000000023 secs.nsecs\n"
            f"{'elapsed_time':<{pad}}{AT - BEGAN}.000057319 secs.nsecs\n")


def line(release, name, count, unit, *numbers):
    pad = 35 if release == "2.17" else 25
    return f"{name:<{pad}} {count} samples [{unit}]{''.join(f' {one}' for one in numbers)}\n"


# What a client has done: 23 reads of 94208 bytes, 37 writes of 151552, 41 punches, 5 creates.
# Up to 2.11 preprw and commitrw count each of the 60 transfers once more, and pings come.
OST = {
    "2.5": (("read_bytes", 23, "bytes", 4096, 4096, 94_208),
            ("write_bytes", 37, "bytes", 4096, 4096, 151_552),
            ("disconnect", 1, "reqs"), ("create", 5, "reqs"), ("punch", 41, "reqs"),
            ("preprw", 60, "reqs"), ("commitrw", 60, "reqs"), ("ping", 1009, "reqs")),
    "2.10": (("read_bytes", 23, "bytes", 4096, 4096, 94_208),
             ("write_bytes", 37, "bytes", 4096, 4096, 151_552),
             ("punch", 41, "reqs"), ("create", 5, "reqs"), ("disconnect", 1, "reqs"),
             ("preprw", 60, "reqs"), ("commitrw", 60, "reqs"), ("ping", 1009, "reqs")),
    "2.12": (("read_bytes", 23, "bytes", 4096, 4096, 94_208),
             ("write_bytes", 37, "bytes", 4096, 4096, 151_552),
             ("punch", 41, "reqs"), ("create", 5, "reqs")),
    "2.14": (("read_bytes", 23, "bytes", 4096, 4096, 94_208, 385_875_968),
             ("write_bytes", 37, "bytes", 4096, 4096, 151_552, 620_756_992),
             ("read", 23, "usecs", 31, 8117, 61_403, 402_653_184),
             ("write", 37, "usecs", 31, 8117, 61_403, 402_653_184),
             ("punch", 41, "usecs", 31, 8117, 61_403, 402_653_184),
             ("create", 5, "usecs", 31, 8117, 40_585, 329_428_445)),
}
OST = {**OST, "2.7": OST["2.10"], **dict.fromkeys(("2.15.0", "2.15.2", "2.16", "2.17"),
                                                  OST["2.14"])}


def text(release, lines):
    return (header(release) + "".join(line(release, *one) for one in lines)).encode()


# -- every release -------------------------------------------------------------------------------

@pytest.mark.parametrize("release", OST)
def test_a_client_has_done_the_same_in_every_release(release):
    """Pings, and what is inside of a read or write, are no requests of a program."""
    reading = parse(text(release, OST[release]))
    assert {} == reading.bad
    assert ClientAmounts(94_208, 151_552, 23, 37, 46) == sum_amounts(reading)


@pytest.mark.parametrize("release, at, began", [
    ("2.5", AT * NS + 57_342_000, None), ("2.10", AT * NS + 57_342, None),
    ("2.15.0", 4711 * NS + 57_342, 0), ("2.15.2", AT * NS + 57_342, BEGAN * NS + 23),
    ("2.17", AT * NS + 57_342, BEGAN * NS + 23)])
def test_when_it_was_read_and_when_it_began(release, at, began):
    """Before 2.10 leading zeros are missing; in 2.15.0 it is the time since boot."""
    reading = parse(text(release, OST[release]))
    assert (at, began) == (reading.snapshot_ns, reading.start_ns)


def test_a_header_without_start_time_can_be_chosen_from_2_16_on():
    """enable_stats_header=0."""
    data = text("2.16", OST["2.16"]).split(b"\n", 3)
    reading = parse(b"\n".join((data[0], data[3])))
    assert (AT * NS + 57_342, None) == (reading.snapshot_ns, reading.start_ns)
    assert ClientAmounts(94_208, 151_552, 23, 37, 46) == sum_amounts(reading)


@pytest.mark.parametrize("release, unit", [("2.5", "reqs"), ("2.12", "reqs"), ("2.17", "usecs")])
def test_a_rename_of_an_mdt_is_one_operation(release, unit):
    """It is counted by its kind as well, up to three times."""
    numbers = (31, 8117, 61_403, 402_653_184) if unit == "usecs" else ()
    lines = [(name, count, unit, *numbers) for name, count in (
        ("open", 37), ("close", 37), ("rename", 23), ("samedir_rename", 20),
        ("crossdir_rename", 3))]
    assert ClientAmounts(0, 0, 0, 0, 97) == sum_amounts(parse(text(release, lines)))


def test_an_mdt_of_2_12_calls_bytes_requests():
    """One text is the unit of all its counters: read_bytes is known by its name (DoM)."""
    reading = parse(text("2.12", [("open", 5, "reqs"),
                                  ("read_bytes", 23, "reqs", 4096, 4096, 94_208)]))
    assert Counter(23, "bytes", 4096, 4096, 94_208) == reading.counters["read_bytes"]
    assert ClientAmounts(94_208, 0, 23, 0, 5) == sum_amounts(reading)


def test_the_first_of_two_lines_of_one_name_counts_the_requests():
    """Up to 2.11 obd_get_info() may be called inside of the server (NRS ORR): 1009 times here."""
    lines = [*OST["2.10"][:4], ("get_info", 2, "reqs"), ("get_info", 1009, "reqs"),
             *OST["2.10"][4:]]
    reading = parse(text("2.10", lines))
    assert {} == reading.bad and 2 == reading.counters["get_info"].samples
    assert 48 == sum_amounts(reading).operations


def test_a_counter_of_a_release_to_come_is_an_operation():
    assert is_operation("readahead_hint") and not is_operation("preprw")


def test_a_client_that_has_done_nothing_yet_has_a_header_alone():
    """Also an empty file."""
    for data in (header("2.17").encode(), b""):
        reading = parse(data)
        assert ({}, {}, ClientAmounts(0, 0, 0, 0, 0)) == (
            reading.counters, reading.bad, sum_amounts(reading))


# -- real ones ------------------------------------------------------------------------------------

@pytest.mark.parametrize("directory", samples("captures", "*/s*"), ids=lambda path: (
    f"{path.parent.name}-{path.name}"))
def test_every_file_that_was_captured_is_understood(directory):
    for path in directory.glob("**/exports/*/stats"):
        data = path.read_bytes()
        reading = parse(data, str(path))
        assert {} == reading.bad and reading.start_ns > BEGAN * NS / 2
        assert None is not parse_nid(path.parent.name)
        # Another account: the words of each line.
        assert {words[0]: int(words[1]) for words in map(str.split, data.decode().splitlines())
                if words[2] == "samples"} == {
            name: counter.samples for name, counter in reading.counters.items()}


@pytest.mark.parametrize("client, written, read", [
    ("10.77.0.11@tcp", 600_000 + 6_291_456, 0), ("10.77.0.12@tcp", 450_000 + 1_310_720, 4_194_304)])
def test_two_real_clients_have_done_what_they_did(client, written, read):
    """c1 wrote 15 x 40,000 B and 6 x 1 MiB; c2 18 x 25,000 B, 20 x 64 KiB, and read 4 MiB."""
    server = shared("captures", "2.17.57-c", "s02_one_reads_the_others", "server")
    paths = list(server.glob(f"**/obdfilter/*/exports/{client}/stats"))
    found = [sum_amounts(parse(path.read_bytes())) for path in paths]
    assert (2, written, read) == (len(paths), sum(one.write_bytes for one in found),
                                  sum(one.read_bytes for one in found))


def test_a_real_client_that_was_evicted_keeps_its_counters():
    """The same start_time before it was killed and after: nothing began anew."""
    files = "server/sys/kernel/debug/lustre/obdfilter/lustre-OST0000/exports/10.77.0.12@tcp/stats"
    before, after = (parse(shared("captures", "2.17.57-c", step, *files.split("/")).read_bytes())
                     for step in ("s07_before_kill", "s09_killed_and_evicted"))
    assert before.start_ns == after.start_ns
    assert sum_amounts(before).write_bytes <= sum_amounts(after).write_bytes == 1_181_744


def test_exports_of_a_real_dump():
    """2.14 of DDN, by `lctl get_param`: one client of one OST is known by hand."""
    path = shared("fixtures", "whamcloud__lustrefs-exporter", "2.14.0_ddn133",
                  "lctl_exports_and_more.txt")
    found = re.findall(rb"(?m)^(\w+)\.([\w-]+)\.exports\.([^=\n]+)\.stats=\n((?:(?!\w+\.).+\n)*)",
                       path.read_bytes())
    readings = {(target.decode(), parse_nid(nid.decode())): parse(data)
                for _, target, nid, data in found}
    assert len(readings) > 20 and not any(one.bad for one in readings.values())
    assert (1_221_937_070_080, 1_010_559_877_120, 1_165_330, 963_749, 32 + 50 + 3) == sum_amounts(
        readings["ai400x2-OST0000", "192.168.0.100@o2ib"])


# -- what is damaged ------------------------------------------------------------------------------

@pytest.mark.parametrize("damaged, expected", [
    (("read_bytes", 23, "bytes", 4096), ClientAmounts(None, 151_552, None, 37, 46)),
    (("write_bytes", 37, "bytes", 4096, 4096, 151_553),
     ClientAmounts(94_208, None, 23, None, 46)),
    (("punch", "x", "usecs", 31, 8117, 61_403), ClientAmounts(94_208, 151_552, 23, 37, None)),
    (("read", 23, "usecs"), ClientAmounts(94_208, 151_552, 23, 37, 46))],
    ids=["cut", "impossible", "no number", "times"])
def test_a_damaged_line_costs_what_it_counts_alone(damaged, expected):
    """Unknown is None, never 0."""
    lines = [damaged if one[0] == damaged[0] else one for one in OST["2.17"]]
    reading = parse(text("2.17", lines), "a/stats")
    assert [damaged[0]] == list(reading.bad)
    assert reading.bad[damaged[0]].startswith("a/stats:")
    assert expected == sum_amounts(reading)


def test_a_line_without_a_name_may_be_of_any_that_is_absent():
    """What is there is known."""
    reading = parse(text("2.17", OST["2.17"][1:]) + b"\xff\x00")
    assert ClientAmounts(None, 151_552, None, 37, None) == sum_amounts(reading)


@given(st.binary(max_size=300), st.integers(0, 1000), st.sampled_from(sorted(OST)))
def test_no_bytes_make_it_fail(noise, at, release):
    data = text(release, OST[release])
    reading = parse(data[:at] + noise + data[at:])
    assert all(value is None or value >= 0 for value in sum_amounts(reading))


_COUNT = st.integers(1, 10**20)
_COUNTERS = st.lists(st.tuples(
    st.sampled_from(["read_bytes", "write_bytes", "read", "open", "rename", "statfs", "x"]),
    _COUNT, st.sampled_from(["bytes", "usecs", "reqs"]),
    st.one_of(st.just(()), st.tuples(_COUNT, _COUNT, _COUNT),
              st.tuples(_COUNT, _COUNT, _COUNT, _COUNT))), max_size=5,
    unique_by=lambda one: one[0])


@given(_COUNTERS, st.sampled_from(["2.12", "2.16", "2.17"]))
def test_it_understands_what_the_parser_of_all_counter_files_does(counters, release):
    """The usual form is read by another way: names and units apart, it says the same."""
    data = text(release, [(name, count, unit, *numbers) for name, count, unit, numbers in counters])
    expected = stats.parse(data.decode(), "stats")
    found = parse(data)
    assert expected.bad == found.bad
    assert (expected.snapshot_ns, expected.start_ns) == (found.snapshot_ns, found.start_ns)
    assert sorted(counter[:1] + counter[2:] for counter in expected.counters.values()) == sorted(
        counter[:1] + counter[2:] for counter in found.counters.values())


# -- at a glance --------------------------------------------------------------------------------

@pytest.mark.parametrize("release", OST)
def test_a_glance_says_the_same(release):
    """In each release's form; 2.15.2 and later show when the file began."""
    has_start = release in ("2.15.2", "2.16", "2.17")
    found = exports.parse_client_file(text(release, OST[release]))
    assert (BEGAN * NS + 23 if has_start else 0, (94_208, 151_552, 23, 37, 46), "") == (
        found.start_ns, found.amounts, found.why)
    if has_start:
        assert found.counts is None
    else:
        assert (23, 4096, 4096, 94_208) == found.counts["read_bytes"]
        assert (41,) == found.counts["punch"]


@given(_COUNTERS, st.sampled_from(["2.10", "2.12", "2.15.0", "2.16", "2.17"]))
def test_whatever_is_in_a_file_a_glance_says_the_same(counters, release):
    """Sums of times apart, which it does not look at: what counts calls is what was printed."""
    data = text(release, [(name, count, unit, *numbers) for name, count, unit, numbers in counters])
    reading, found = parse(data), exports.parse_client_file(data)
    expected = sum_amounts(reading)
    assert (reading.start_ns or 0) == found.start_ns
    if not reading.bad and None not in expected and max(expected) < 2**63:
        assert (expected, "") == (found.amounts, found.why)
    elif found.why:
        assert all(one is None or one == other for one, other in zip(found.amounts, expected))
    else:
        assert all(one in (None, other) for one, other in zip(expected, found.amounts))


@given(st.binary(max_size=300), st.integers(0, 1000), st.sampled_from(sorted(OST)))
def test_no_bytes_make_a_glance_fail(noise, at, release):
    data = text(release, OST[release])
    found = exports.parse_client_file(data[:at] + noise + data[at:])
    assert all(one is None or 0 <= one < 2**63 for one in found.amounts)


def test_a_file_without_its_header_is_not_understood():
    """It is no file of a client that has done nothing."""
    for data in (b"", b"read_bytes 23 samples [bytes] 1 2 3\n", b"\xff"):
        found = exports.parse_client_file(data, "a/stats")
        assert (None,) * 5 == found.amounts and found.why.startswith("a/stats:1: expected snapshot")


# -- what does not change, and names -------------------------------------------------------------

@pytest.mark.parametrize("release", OST)
def test_a_client_that_does_nothing_leaves_all_but_the_time_of_reading(release):
    """start_time is a part of it: a clear that is followed by the same work changes it."""
    data = text(release, OST[release])
    later = data.replace(f"{AT}".encode(), f"{AT + 23}".encode()).replace(
        f"{AT - BEGAN}.".encode(), f"{AT - BEGAN + 23}.".encode())
    if release != "2.15.0":
        assert data != later
    assert strip_time(data) == strip_time(later)
    assert strip_time(data) != strip_time(data.replace(b" 41 ", b" 42 "))
    if release in ("2.15.2", "2.16", "2.17"):
        anew = data.replace(f"{BEGAN}.".encode(), f"{BEGAN + 1}.".encode())
        assert strip_time(data) != strip_time(anew)


@pytest.mark.parametrize("name, expected", [
    ("10.77.0.11@tcp", True), ("10.0.0.7@o2ib3", True), ("0@lo", True), ("4711@gni", True),
    ("fd00:172:16:11::5@tcp", True), ("clear", False), ("10.77.0.11", False), ("@tcp", False),
    ("10.77.0.11@", False), ("a/b@tcp", False), ("..", False), ("1@tcp\n", False),
    (f"{'1' * 64}@tcp", False), ("", False)])
def test_which_directories_are_of_clients(name, expected):
    assert (name if expected else None) == parse_nid(name)


def test_the_server_itself_is_told_apart():
    assert exports.is_server_itself("0@lo") and not exports.is_server_itself("10.77.0.11@tcp")
