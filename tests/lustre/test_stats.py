"""
The form of `stats` files: every line of every release is read to the last digit, or refused with
its place.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.lustre import stats
from iostats.lustre.stats import Counter

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
    assert ns == stats.parse(line + "\n").snapshot_ns


@pytest.mark.parametrize("lines, start_ns", [
    ("", None),
    ("start_time                0.000000000 secs.nsecs\n"
     "elapsed_time              1964295.787757337 secs.nsecs\n", 0),
    ("start_time                1795225959.005369590 secs.nsecs\n"
     "elapsed_time              -6.143188140 secs.nsecs\n", 1_795_225_959_005_369_590),
    ("start_time                1795225959.005369590 secs.nsecs\n"
     "elapsed_time              6.143188140 secs.nsecs\n", 1_795_225_959_005_369_590),
    ("start_time                999999999.999999999 secs.nsecs\n", 0),
    ("start_time                1000000000.000000000 secs.nsecs\n", 1_000_000_000_000_000_000),
], ids=["up to 2.14, or enable_stats_header=0", "2.15.0 and 2.15.1: 0",
        "a clock that was set back since", "2.15.2 and newer",
        "a clock that counts from boot", "the first wall clock"])
def test_a_start_time_is_only_believed_when_it_is_of_the_wall_clock(lines, start_ns):
    """A start_time of 0, as 2.15.0 prints it, is no moment; a file without one is None."""
    reading = stats.parse(HEAD + lines)
    assert (start_ns, {}) == (reading.start_ns, reading.bad)


def test_a_file_with_a_header_alone_is_a_mount_that_did_nothing():
    """Counters at zero have no line, so the header can be all there is."""
    reading = stats.parse(HEAD)
    assert ({}, 1_752_000_000_000_000_123) == (reading.counters, reading.snapshot_ns)


def test_an_empty_file_has_no_time():
    """Whether that is acceptable is the caller's to say (snapshot.readings refuses it)."""
    assert ({}, None, None) == stats.parse("")[:3]


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
    ("write                     186442470 samples [usecs] 36 149845092510 -823495890607571055",
     "write", Counter(186442470, "usecs", 36, 149845092510, -823495890607571055)),
    ("openclosetime             23 samples [usecs] 1 37 41 11416538743473681487",
     "openclosetime", Counter(23, "usecs", 1, 37, 41, 11416538743473681487)),
    ("write 186442470 samples [usecs] 36 149845092510 9223372036854775807 9223372036854775807",
     "write", Counter(186442470, "usecs", 36, 149845092510, 2**63 - 1, 2**63 - 1)),
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
    assert {name: counter} == stats.parse(f"{HEAD}{line}\n").counters


def test_two_lines_of_one_name_are_added_where_a_kernel_prints_them():
    """2.17 prints several operations as `unnamed-opcode-N`: none of the two may be lost."""
    assert {"unnamed-opcode-59": Counter(60, "usecs", 3, 97, 202, None)} == stats.parse(
        f"{HEAD}"
        "unnamed-opcode-59         23 samples [usecs] 5 97 131 9409\n"
        "unnamed-opcode-59         37 samples [usecs] 3 41 71 1681\n").counters


def test_two_lines_of_one_name_without_numbers_are_added_too():
    """The OSTs of 2.10 print `statfs` twice: counts alone add up; min, max and sum stay unknown."""
    assert {"statfs": Counter(60, "reqs")} == stats.parse(
        f"{HEAD}statfs  23 samples [reqs]\nstatfs  37 samples [reqs]\n").counters


@pytest.mark.parametrize("text", [
    HEAD + "open 23 samples [regs]\nclose 37 samples [regs]",
    HEAD + "\nopen 23 samples [regs]\n\n   \nclose 37 samples [regs]\n\n",
    "open 23 samples [regs]\nclose 37 samples [regs]\n",
], ids=["no newline at the end", "blank lines", "no header"])
def test_what_copying_a_file_does_to_it_loses_no_counter(text):
    """Editors and e-mail eat line ends and add blank lines."""
    assert {"open": Counter(23, "regs"), "close": Counter(37, "regs")} == stats.parse(
        text).counters


# -- what is not of the form -------------------------------------------------------------------


@pytest.mark.parametrize("line, name", [
    ("read_bytes 12 samp", "read_bytes"),
    ("read_bytes                1234", "read_bytes"),
    ("read_bytes", ""),
    ("23 samples [reqs]", ""),
    ("   23 samples [reqs]", ""),
    ("read_bytes x samples [bytes]", "read_bytes"),
    ("read_bytes 1.5 samples [bytes]", "read_bytes"),
    ("read_bytes 23 samples []", "read_bytes"),
    ("read_bytes 23 samples [byt", "read_bytes"),
    ("read_bytes 23 samples [bytes 1 2 37", "read_bytes"),
    ("read_bytes 23 samples [bytes] 1 2 3 4 5", "read_bytes"),
    ("read_bytes 23 samples [bytes] 1", "read_bytes"),
    ("read_bytes 23 samples [bytes] 1 2", "read_bytes"),
    ("read_bytes 23 samples [bytes] 1 2 3x", "read_bytes"),
    ("read_bytes 23 samples [bytes] 1 2 -", "read_bytes"),
    ("read_bytes \uff12\uff13 samples [bytes]", "read_bytes"),
    ("read_bytes \xb2\xb3 samples [bytes]", "read_bytes"),
    ("read_bytes 23 samples [bytes] 1 2 \u0663", "read_bytes"),
    ("read_bytes 123456789012345678901234567890 samples [bytes]", "read_bytes"),
    ("read_bytes 23 samples [bytes] 1 2 123456789012345678901234567890", "read_bytes"),
    ("read_bytes -23 samples [bytes]", "read_bytes"),
    ("read_bytes 9223372036854775808 samples [bytes]", "read_bytes"),
    ("x" * 300 + " 23 samples [bytes]", ""),
    ("read\x00bytes 23 samples [bytes] 1 2 37", ""),
    ("read\x1bbytes 23 samples [bytes] 1 2 37", ""),
    ("read\xe9bytes 23 samples [bytes] 1 2 37", ""),
    ("\x7fELF\x02\x01\x01\x00\x00", ""),
    ("disabled", ""),
    ("start_time 1752000000.000000123", "start_time"),
    ("start_time 1752000000 secs.nsecs", "start_time"),
    ("start_time 1752000000.000000123 secs.psecs", "start_time"),
    ("start_time never.ever secs.nsecs", "start_time"),
    ("start_time \xb9.5 secs.nsecs", "start_time"),
    ("start_time -1752000000.000000123 secs.nsecs", "start_time"),
    ("start_time 1752000000.-5 secs.nsecs", "start_time"),
    ("start_time 99999999999999999999.000000000 secs.nsecs", "start_time"),
    ("snapshot_time             1752000000.000000123 secs.nsecs", "snapshot_time"),
], ids=["torn in a word", "torn after the count", "torn after the name", "no name",
        "blanks for a name", "no count", "a count with a fraction", "no unit",
        "torn in the unit", "without its bracket",
        "a number too many", "torn after the minimum", "torn after the maximum",
        "a letter in a number", "a sign alone", "fullwidth digits",
        "superscript digits", "Arabic digits", "a count of 30 digits", "a sum of 30 digits",
        "a negative count", "a count past 2**63", "an endless name",
        "a NUL in the name", "an escape in the name", "a letter that is not ASCII",
        "a program", "a file that is switched off", "a time without its unit",
        "a time without a fraction", "an unknown unit of time", "no time at all",
        "a superscript time", "a time before 1970", "a negative fraction",
        "a time that no clock will see", "a time that stands twice"])
def test_a_line_that_is_not_of_the_form_costs_its_counter_and_is_named(line, name):
    """Never skipped and never guessed at: a line that is passed over is I/O that is not there.
    The other counters stand; "" is a line that does not tell whose it is."""
    reading = stats.parse(f"{HEAD}open 23 samples [regs]\n{line}\n", "llite/scratch-ff9a/stats")
    assert ({"open": Counter(23, "regs")}, [name]) == (reading.counters, list(reading.bad))
    assert reading.bad[name].startswith("llite/scratch-ff9a/stats:3: expected ")


@pytest.mark.parametrize("line, expected", [
    ("read_bytes 23 samples [bytes] 4096 4096 94209", "a sum of at most samples x maximum"),
    ("read_bytes 23 samples [bytes] 4096 4096 -41", "a sum of at most samples x maximum"),
    ("read_bytes 23 samples [bytes] 1 4194304 9223372036854775807",
     "a sum of at most samples x maximum"),
    ("read_bytes 23 samples [bytes] 1 9223372036854775807 9223372036854775808",
     "a minimum, maximum and sum below 2**63"),
    ("read_bytes 23 samples [bytes] 1 9223372036854775808 41",
     "a minimum, maximum and sum below 2**63"),
    ("read_bytes 23 samples [bytes] -1 4096 41", "a minimum, maximum and sum below 2**63"),
    ("read_bytes 23 samples [bytes] 8192 4096 41", "a minimum of at most the maximum"),
    ("open 37 samples [regs]", "one line for each counter"),
], ids=["one byte more than 23 x 4096", "a negative sum of 94208 bytes at most",
        "the limit of a sum, and 23 calls", "2**63 bytes", "a call of 2**63 bytes",
        "a call of -1 bytes", "a minimum above the maximum", "a counter that stands twice"])
def test_numbers_that_no_kernel_can_have_kept_are_not_believed(line, expected):
    """They cost their counter: no number is made of them."""
    reading = stats.parse(f"{HEAD}open 23 samples [regs]\nclose 41 samples [regs]\n{line}\n")
    name = line.partition(" ")[0]
    assert name not in reading.counters and "close" in reading.counters
    assert f"stats:4: expected {expected}, got {line[:60]!r}"[:90] in reading.bad[name]


def test_the_message_says_where_what_was_expected_and_what_was_there():
    """The text for the user; everything in it that could move a cursor is made visible."""
    reading = stats.parse(HEAD + "\x1b[2Jread_bytes 12 samp\n", "llite/scratch-ff9a/stats")
    assert ["llite/scratch-ff9a/stats:2: expected \"<name> <n> samples [<unit>] ...\", "
            "got '\\x1b[2Jread_bytes 12 samp'"] == list(reading.bad.values())


def test_a_long_wrong_line_is_shortened_in_the_message():
    """One line of a binary file can be a megabyte."""
    [why] = stats.parse("x" * 1_000_000, "stats").bad.values()
    assert 200 > len(why)


# -- names of directories
# ----------------------------------------------------------------------------


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
def test_a_mount_directory_is_cut_into_file_system_and_instance(name, expected):
    """From the right: a file system's name may contain dashes, an instance can't."""
    assert expected == stats.split_llite_name(name)


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
def test_a_target_directory_is_cut_into_file_system_target_and_instance(name, expected):
    """What a server uses for itself is no mount of a node, and counts for nobody's job."""
    assert expected == stats.split_target_name(name)


# -- whatever the kernel may print -----------------------------------------------------------------


names = st.from_regex(r"[a-zA-Z0-9_/.:-]{1,30}( [a-zA-Z0-9_/.:-]{1,9}){0,3}", fullmatch=True)
units = st.sampled_from(["bytes", "pages", "regs", "reqs", "usec", "usecs", "locks/s", "a b"])
numbers = st.integers(-(2**64), 2**64)


def as_s64(number):
    return (number + 2**63) % 2**64 - 2**63


@st.composite
def kept(draw):
    """(samples, numbers) as a kernel has them: a few amounts, each counted many times."""
    amounts = draw(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(1, 2**50)),
                            min_size=1, max_size=3))
    samples, total = sum(times for _, times in amounts), sum(one * n for one, n in amounts)
    numbers = [min(one for one, _ in amounts), max(one for one, _ in amounts)]
    form = draw(st.sampled_from(["counts", "wraps", "saturates", "squares"]))
    if form == "counts":
        return samples, ()
    total = min(total, 2**63 - 1) if form == "saturates" else as_s64(total)
    squares = [sum(one * one * n for one, n in amounts) % 2**64] if form == "squares" else []
    return samples, (*numbers, total, *squares)


def has_its_sum(line):
    return line[1][1] or line[0] not in ("bytes", "usec", "usecs")


@given(st.dictionaries(names, st.tuples(units, kept()).filter(has_its_sum)),
       st.sampled_from([25, 35]))
def test_what_the_kernel_prints_is_read_back(counters, width):
    """seq_printf(m, "%-25s %lld samples [%s]"), then " %lld" for each number it keeps."""
    text = HEAD + "".join(
        f"{name:<{width}} {samples} samples [{unit}]{''.join(f' {n}' for n in numbers)}\n"
        for name, (unit, (samples, numbers)) in counters.items())
    reading = stats.parse(text)
    assert {name: Counter(samples, unit, *numbers)
            for name, (unit, (samples, numbers)) in counters.items()} == reading.counters
    assert {} == reading.bad


@given(numbers, numbers, numbers, numbers)
def test_of_any_numbers_a_counter_is_made_or_it_is_named(samples, low, high, total):
    """One or the other, and never a counter whose sum its samples can't make up."""
    reading = stats.parse(f"{HEAD}open {samples} samples [usecs] {low} {high} {total}\n")
    assert {"open"} == reading.counters.keys() ^ reading.bad.keys()
    if "open" in reading.counters:
        assert 0 <= samples < 2**63 and total <= samples * high
        assert total >= 0 or samples * high >= 2**63


@given(st.one_of(
    st.text(),
    st.text(alphabet="open 019-.[]()samples\n\t\r\x00\x1b\x85\xa0\xb2\uff12:", max_size=200),
    st.builds(lambda text, at, what: text[:at] + what + text[at:],
              st.just(HEAD + "open  23 samples [usecs] 31 8117 61403 402653184\n"),
              st.integers(0, 110), st.text(max_size=3))))
def test_no_text_at_all_raises_anything(text):
    """Whatever lies in the place of a counter file: all that is wrong is in `bad`."""
    reading = stats.parse(text)
    assert all(isinstance(counter.samples, int) for counter in reading.counters.values())
    assert all(isinstance(why, str) for why in reading.bad.values())
