"""
The form of `stats` files: every line of every release is read to the last digit, or refused with
its place.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats import lustre
from iostats.errors import StatsSyntaxError
from iostats.lustre import Counter

HEAD = "snapshot_time             1752000000.000000123 secs.nsecs\n"


# -- the header ------------------------------------------------------------------------------


@pytest.mark.parametrize("line, ns", [
    ("snapshot_time             1420750934.57342 secs.usecs", 1_420_750_934_057_342_000),
    ("snapshot_time             1438693238.201130 secs.usecs", 1_438_693_238_201_130_000),
    ("snapshot_time             1438693238.7 secs.usecs", 1_438_693_238_000_007_000),
    ("snapshot_time             1510950459.772792457 secs.nsecs", 1_510_950_459_772_792_457),
    ("snapshot_time             1510950459.000000023 secs.nsecs", 1_510_950_459_000_000_023),
    ("snapshot_time                       1795224907.375371580 secs.nsecs",
     1_795_224_907_375_371_580),
    ("snapshot_time             1964295.787757337 secs.nsecs", 1_964_295_787_757_337),
    ("snapshot_time:         1420750934.57342 (secs.usecs)", 1_420_750_934_057_342_000),
    ("snapshot_time:         1510950459.783304874 (secs.nsecs)", 1_510_950_459_783_304_874),
    ("snapshot_time:            1795225388.954392460 secs.nsecs", 1_795_225_388_954_392_460),
], ids=["2.5 to 2.9: microseconds, not padded", "2.5 to 2.9: all six digits",
        "2.5 to 2.9: 7 us is 7 us", "2.10: nanoseconds", "2.10: padded nanoseconds",
        "2.17: a wider column", "2.15.0: seconds since boot", "rpc_stats up to 2.9",
        "rpc_stats, 2.10 to 2.14", "rpc_stats since 2.15"])
def test_the_time_of_a_reading_is_exact_in_every_form_of_the_header(line, ns):
    """No floating point comes near a time: 57342 us are .057342 s, and the last ns counts."""
    assert ns == lustre.parse(line + "\n").snapshot_ns


@pytest.mark.parametrize("lines, start_ns", [
    ("", None),
    ("start_time                0.000000000 secs.nsecs\n"
     "elapsed_time              1964295.787757337 secs.nsecs\n", 0),
    ("start_time                1795225959.005369590 secs.nsecs\n"
     "elapsed_time              6.143188140 secs.nsecs\n", 1_795_225_959_005_369_590),
    ("start_time                999999999.999999999 secs.nsecs\n", 0),
    ("start_time                1000000000.000000000 secs.nsecs\n", 1_000_000_000_000_000_000),
], ids=["up to 2.14, or enable_stats_header=0", "2.15.0 and 2.15.1: 0", "2.15.2 and newer",
        "a clock that counts from boot", "the first wall clock"])
def test_a_start_time_is_only_believed_when_it_is_of_the_wall_clock(lines, start_ns):
    """A start_time of 0, as 2.15.0 prints it, is no moment; a file without one is None."""
    assert start_ns == lustre.parse(HEAD + lines).start_ns


def test_a_file_with_a_header_alone_is_a_mount_that_did_nothing():
    """Counters at zero have no line, so the header can be all there is."""
    reading = lustre.parse(HEAD)
    assert ({}, 1_752_000_000_000_000_123) == (reading.counters, reading.snapshot_ns)


def test_an_empty_file_has_no_time():
    """Whether that is acceptable is the caller's to say (snapshot.readings refuses it)."""
    assert ({}, None, None) == lustre.parse("")[:3]


# -- counters --------------------------------------------------------------------------------


@pytest.mark.parametrize("line, name, counter", [
    ("open                      136 samples [regs]", "open", Counter(136, "regs")),
    ("open                      23 samples [reqs]", "open", Counter(23, "reqs")),
    ("open                      23 samples [usec] 31 8117 61403 402653184", "open",
     Counter(23, "usec", 31, 8117, 61403, 402653184)),
    ("open                      23 samples [usecs] 31 8117 61403 402653184", "open",
     Counter(23, "usecs", 31, 8117, 61403, 402653184)),
    ("read_bytes                37 samples [bytes] 4096 8192 155648", "read_bytes",
     Counter(37, "bytes", 4096, 8192, 155648)),
    ("brw_read                  13 samples [pages] 4096 4096 53248", "brw_read",
     Counter(13, "pages", 4096, 4096, 53248)),
    ("grant_rate                23 samples [locks/s] 0 37 41", "grant_rate",
     Counter(23, "locks/s", 0, 37, 41)),
    ("cancel_rate               23 samples [secs] 1 3 37", "cancel_rate",
     Counter(23, "secs", 1, 3, 37)),
    ("read but discarded        23 samples [pages]", "read but discarded",
     Counter(23, "pages")),
    ("wrong page from grab_cache_page 23 samples [pages]", "wrong page from grab_cache_page",
     Counter(23, "pages")),
    ("inode_permission                    332 samples [usecs] 0 10329 38330 142445146",
     "inode_permission", Counter(332, "usecs", 0, 10329, 38330, 142445146)),
    ("\t\topen                      23 samples [regs]", "open", Counter(23, "regs")),
    ("open                      23 samples [regs]\r", "open", Counter(23, "regs")),
    ("unnamed-opcode-59         23 samples [usecs] 31 8117 61403 402653184",
     "unnamed-opcode-59", Counter(23, "usecs", 31, 8117, 61403, 402653184)),
    ("read_bytes                68719476736 samples [bytes] 1 4194304 288230376151711744",
     "read_bytes", Counter(2**36, "bytes", 1, 4194304, 2**58)),
    ("read_bytes                23 samples [bytes] 1 4194304 -9223372036854775808",
     "read_bytes", Counter(23, "bytes", 1, 4194304, -(2**63))),
    ("openclosetime             23 samples [usecs] 1 37 41 11416538743473681487",
     "openclosetime", Counter(23, "usecs", 1, 37, 41, 11416538743473681487)),
    ("openclosetime             23 samples [usecs] 1 37 9223372036854775807 9223372036854775807",
     "openclosetime", Counter(23, "usecs", 1, 37, 2**63 - 1, 2**63 - 1)),
    ("openclosetime             23 samples [usecs] 1 37 41 18446744073709551615",
     "openclosetime", Counter(23, "usecs", 1, 37, 41, 2**64 - 1)),
    ("read_bytes                1 samples [bytes] 9223372036854775807 0 0", "read_bytes",
     Counter(1, "bytes", 2**63 - 1, 0, 0)),
    ("ioctl                               261 samples [reqs", "ioctl", Counter(261, "reqs")),
    ("ldlm_glimpse_enqueue                3 samples [reqs] 1 1 3 ", "ldlm_glimpse_enqueue",
     Counter(3, "reqs", 1, 1, 3)),
], ids=["2.5 to 2.13: regs", "reqs", "2.14: usec", "since 2.15.7: usecs", "up to 2.13: no sumsq",
        "pages that are bytes", "a unit with a slash", "seconds", "a name with blanks",
        "a name that fills its column", "2.17's wider column", "tabs of whoever copied the file",
        "line ends of whoever copied the file", "an operation without a name",
        "more samples than 2**32", "a sum past 2**63, which is printed negative",
        "a sumsq past 2**63", "a sum that stays at 2**63-1", "the largest number there is",
        "a minimum read before it was set", "lctl of 2.17 cut off the bracket",
        "lctl of 2.17 cut off the last number"])
def test_a_counter_is_read_to_the_last_digit(line, name, counter):
    """Name, samples, unit and whatever numbers the release prints; what it does not is None."""
    assert {name: counter} == lustre.parse(f"{HEAD}{line}\n").counters


def test_two_lines_of_one_name_are_added():
    """2.17 prints several operations as `unnamed-opcode-N`: none of the two may be lost."""
    assert {"unnamed-opcode-59": Counter(60, "usecs", 3, 97, 202, None)} == lustre.parse(
        f"{HEAD}"
        "unnamed-opcode-59         23 samples [usecs] 5 97 131 9409\n"
        "unnamed-opcode-59         37 samples [usecs] 3 41 71 1681\n").counters


def test_two_lines_of_one_name_without_numbers_are_added_too():
    """Counts alone add up; min, max and sum stay unknown."""
    assert {"open": Counter(60, "regs")} == lustre.parse(
        f"{HEAD}open  23 samples [regs]\nopen  37 samples [regs]\n").counters


@pytest.mark.parametrize("text", [
    HEAD + "open 23 samples [regs]\nclose 37 samples [regs]",
    HEAD + "\nopen 23 samples [regs]\n\n   \nclose 37 samples [regs]\n\n",
    "open 23 samples [regs]\nclose 37 samples [regs]\n",
], ids=["no newline at the end", "blank lines", "no header"])
def test_what_copying_a_file_does_to_it_loses_no_counter(text):
    """Editors and e-mail eat line ends and add blank lines."""
    assert {"open": Counter(23, "regs"), "close": Counter(37, "regs")} == lustre.parse(
        text).counters


# -- what is not of the form -------------------------------------------------------------------


@pytest.mark.parametrize("line", [
    "read_bytes 12 samp",
    "read_bytes                1234",
    "read_bytes",
    "23 samples [reqs]",
    "   23 samples [reqs]",
    "read_bytes x samples [bytes]",
    "read_bytes 1.5 samples [bytes]",
    "read_bytes 23 samples []",
    "read_bytes 23 samples [bytes] 1 2 3 4 5",
    "read_bytes 23 samples [bytes] 1 2 3x",
    "read_bytes 23 samples [bytes] 1 2 -",
    "read_bytes \uff12\uff13 samples [bytes]",
    "read_bytes \xb2\xb3 samples [bytes]",
    "read_bytes 23 samples [bytes] 1 2 \u0663",
    "read_bytes 123456789012345678901234567890 samples [bytes]",
    "read_bytes 23 samples [bytes] 1 2 123456789012345678901234567890",
    "read_bytes -23 samples [bytes]",
    "read_bytes 9223372036854775808 samples [bytes]",
    "x" * 300 + " 23 samples [bytes]",
    "\x7fELF\x02\x01\x01\x00\x00",
    '{"read_bytes": 23}',
    "disabled",
    "snapshot_time 1752000000.000000123",
    "snapshot_time 1752000000 secs.nsecs",
    "snapshot_time 1752000000.000000123 secs.psecs",
    "snapshot_time never.ever secs.nsecs",
    "snapshot_time \xb9.5 secs.nsecs",
    "snapshot_time -1752000000.000000123 secs.nsecs",
    "snapshot_time 1752000000.-5 secs.nsecs",
    "start_time 99999999999999999999.000000000 secs.nsecs",
], ids=["torn in a word", "torn after the count", "torn after the name", "no name",
        "blanks for a name", "no count", "a count with a fraction", "no unit",
        "a number too many", "a letter in a number", "a sign alone", "fullwidth digits",
        "superscript digits", "Arabic digits", "a count of 30 digits", "a sum of 30 digits",
        "a negative count", "a count past 2**63", "an endless name",
        "a program", "JSON", "a file that is switched off", "a time without its unit",
        "a time without a fraction", "an unknown unit of time", "no time at all",
        "a superscript time", "a time before 1970", "a negative fraction",
        "a time that no clock will see"])
def test_a_line_that_is_not_of_the_form_is_refused_with_file_line_and_text(line):
    """Never skipped and never guessed at: a line that is passed over is I/O that is not there."""
    with pytest.raises(StatsSyntaxError) as refusal:
        lustre.parse(f"{HEAD}open 23 samples [regs]\n{line}\n", "llite/scratch-ff9a/stats")
    assert ("llite/scratch-ff9a/stats", 3, line) == (
        refusal.value.origin, refusal.value.lineno, refusal.value.line)


def test_the_message_says_where_what_was_expected_and_what_was_there():
    """The text for the user; everything in it that could move a cursor is made visible."""
    with pytest.raises(StatsSyntaxError) as refusal:
        lustre.parse(HEAD + "\x1b[2Jread_bytes 12 samp\n", "llite/scratch-ff9a/stats")
    assert ("llite/scratch-ff9a/stats:2: expected \"<name> <n> samples [<unit>] ...\", "
            "got '\\x1b[2Jread_bytes 12 samp'") == str(refusal.value)


def test_a_long_wrong_line_is_shortened_in_the_message():
    """One line of a binary file can be a megabyte."""
    with pytest.raises(StatsSyntaxError) as refusal:
        lustre.parse("x" * 1_000_000, "stats")
    assert 200 > len(str(refusal.value))


# -- names of folders ----------------------------------------------------------------------------


@pytest.mark.parametrize("name, expected", [
    ("scratch-ffff9a3c5d1e0800", ("scratch", "ffff9a3c5d1e0800")),
    ("my-fs-ffff9a3c5d1e0800", ("my-fs", "ffff9a3c5d1e0800")),
    ("a-b-c-ff110000b3c36000", ("a-b-c", "ff110000b3c36000")),
    ("snx11001-ffff880378305c00", ("snx11001", "ffff880378305c00")),
    ("dead-beef", ("dead", "beef")),
    ("-ffff9a3c5d1e0800", None),
    ("scratch", None),
    ("scratch-", None),
    ("scratch-FFFF9A3C", None),
    ("", None),
], ids=["plain", "a dash in the name", "two dashes", "with digits", "all hexadecimal",
        "no file system", "no instance", "an empty instance", "capitals", "empty"])
def test_a_mount_folder_is_cut_into_file_system_and_instance(name, expected):
    """From the right: a file system's name may contain dashes, an instance can't."""
    assert expected == lustre.split_llite_name(name)


@pytest.mark.parametrize("name, expected", [
    ("scratch-OST000f-osc-ffff9a3c5d1e0800", ("scratch", "OST000f", "ffff9a3c5d1e0800")),
    ("my-fs-OST0000-osc-ffff9a3c5d1e0800", ("my-fs", "OST0000", "ffff9a3c5d1e0800")),
    ("my-fs-MDT0001-mdc-ffff9a3c5d1e0800", ("my-fs", "MDT0001", "ffff9a3c5d1e0800")),
    ("osc-mdc-OST0000-osc-ffff9a3c5d1e0800", ("osc-mdc", "OST0000", "ffff9a3c5d1e0800")),
    ("lustre-OST0000-osc-MDT0000", None),
    ("lustre-OST0000-osp-ffff9a3c5d1e0800", None),
    ("lustre-clilmv-ffff9a3c5d1e0800", None),
    ("-OST0000-osc-ffff9a3c5d1e0800", None),
    ("lustre--osc-ffff9a3c5d1e0800", None),
    ("OST0000-osc-ffff9a3c5d1e0800", None),
    ("num_refs", None),
    ("", None),
], ids=["an OST", "a dash in the name", "an MDT", "a spiteful name", "a server's own connection",
        "an osp device", "the lmv device", "no file system", "no target", "no file system at all",
        "a file", "empty"])
def test_a_target_folder_is_cut_into_file_system_target_and_instance(name, expected):
    """What a server uses for itself is no mount of a node, and counts for nobody's job."""
    assert expected == lustre.split_target_name(name)


# -- whatever the kernel may print -----------------------------------------------------------------


numbers = st.integers(-(2**63), 2**63 - 1)
fields = st.one_of(st.just(()), st.tuples(numbers, numbers, numbers),
                   st.tuples(numbers, numbers, numbers, st.integers(0, 2**64 - 1)))
names = st.from_regex(r"[a-zA-Z0-9_/.:-]{1,30}( [a-zA-Z0-9_/.:-]{1,9}){0,3}", fullmatch=True)
units = st.sampled_from(["bytes", "pages", "regs", "reqs", "usec", "usecs", "locks/s", "a b"])


@given(st.dictionaries(names, st.tuples(st.integers(0, 2**63 - 1), units, fields)),
       st.sampled_from([25, 35]))
def test_what_the_kernel_prints_is_read_back(counters, width):
    """seq_printf(m, "%-25s %lld samples [%s]"), then " %lld" for each number it keeps."""
    text = HEAD + "".join(
        f"{name:<{width}} {samples} samples [{unit}]{''.join(f' {n}' for n in numbers)}\n"
        for name, (samples, unit, numbers) in counters.items())
    assert {name: Counter(samples, unit, *numbers)
            for name, (samples, unit, numbers) in counters.items()
            } == lustre.parse(text).counters


@given(st.one_of(
    st.text(),
    st.text(alphabet="open 019-.[]()samples\n\t\r\x00\x1b\x85\xa0\xb2\uff12:", max_size=200),
    st.builds(lambda text, at, what: text[:at] + what + text[at:],
              st.just(HEAD + "open  23 samples [usecs] 31 8117 61403 402653184\n"),
              st.integers(0, 110), st.text(max_size=3))))
def test_no_text_at_all_raises_anything_but_a_syntax_error(text):
    """Whatever lies in the place of a counter file, the node's program ends with one line."""
    try:
        reading = lustre.parse(text)
    except StatsSyntaxError:
        return
    assert all(isinstance(counter.samples, int) for counter in reading.counters.values())
