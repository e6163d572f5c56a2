"""
job_stats in every form from 2.5 to 2.17: each entry and each counter is accounted for.

The forms come from tests/job_stats_text.py, written from the kernel's print statements; real files
are read in test_fixtures.py and test_captures.py, where the second witness is.
"""

import itertools
import tracemalloc

import job_stats_text
import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_stats_text import Job, Value

from iostats.base.errors import IostatsError, JobStatsSyntaxError, NotReadable
from iostats.lustre import job_stats
from iostats.lustre.job_stats import JobEntry
from iostats.lustre.quoted_ids import QuotedIds
from iostats.lustre.stats import Counter
from iostats.storage.fingerprints import Fingerprints

SECOND = 10**9
SEEN_NS = 1_795_224_957_690_335_940
STARTED_NS = 1_795_224_900_674_899_850


def entry(job_id="4711", times="  snapshot_time:   1795224957\n", counters=None):
    """One entry as text; its only counter is 23 opens, unless `counters` say more."""
    return (f"- job_id:          {job_id}\n{times}"
            + (counters or "  open:            { samples:          23, unit:  reqs }\n")).encode()


def entries(data, chunk=4096, **more):
    """[JobEntry] of a whole file that is read `chunk` bytes at a time."""
    chunks = (data[at:at + chunk] for at in range(0, len(data), chunk))
    return [job_stats.parse(piece, **more) for piece in job_stats.split_entries(chunks)]


def only(data, **more):
    [one] = entries(data, **more)
    return one


# -- the forms ---------------------------------------------------------------------------

OST_2_5 = b"""\
job_stats:
- job_id:          4711
  snapshot_time:   1400000037
  read:            { samples:          23, unit: bytes, min:    4096, max: 1048576, sum:        11534336 }
  write:           { samples:          37, unit: bytes, min:   37888, max:   37888, sum:         1401856 }
  setattr:         { samples:           0, unit:  reqs }
  punch:           { samples:          41, unit:  reqs }
  sync:            { samples:           0, unit:  reqs }
"""  # noqa: E501

MDT_2_12 = b"""\
job_stats:
- job_id:          4711
  snapshot_time:   1500000037
  open:            { samples:          23, unit:  reqs }
  close:           { samples:           0, unit:  reqs }
  read_bytes:      { samples:           3, unit:  reqs, min:    4096, max:   37888, sum:           79872 }
  write_bytes:     { samples:           0, unit:  reqs, min:       0, max:       0, sum:               0 }
"""  # noqa: E501

OST_2_12 = b"""\
job_stats:
- job_id:          4711
  snapshot_time:   1500000037
  read_bytes:      { samples:          23, unit: bytes, min:16777216, max:16777216, sum:       385875968 }
  write_bytes:     { samples:   123456789, unit: bytes, min: 1048576, max:16777216, sum:1234567890123456 }
"""  # noqa: E501

OST_2_15_0 = b"""\
job_stats:
- job_id:          rsync_env.sh.30026
snapshot_time   : 1896247.780050045 secs.nsecs
start_time      : 379440.150439687 secs.nsecs
elapsed_time    : 1516807.629610358 secs.nsecs
  read:            { samples:           0, unit: usecs, min:        0, max:        0, sum:                0, sumsq:                  0 }
  punch:           { samples:        5051, unit: usecs, min:        8, max:     1541, sum:           236426, sumsq:           19935112 }
"""  # noqa: E501

OST_2_16 = b"""\
job_stats:
- job_id:          "my\\x20prog:1.1000"
  snapshot_time:   1795224957.690335940 secs.nsecs
  start_time:      1795224900.674899850 secs.nsecs
  elapsed_time:    57.015436090 secs.nsecs
  read_bytes:      { samples:           0, unit: bytes, min:        0, max:        0, sum:                0, sumsq:                  0, hist: {  } }
  write_bytes:     { samples:           9, unit: bytes, min:    57344, max:  1048576, sum:          6463488, sumsq:      6606934769664, hist: { 64K: 3, 1M: 6 } }
  read:            { samples:           0, unit: usecs, min:        0, max:        0, sum:                0, sumsq:                  0 }
  write:           { samples:           9, unit: usecs, min:      812, max:    19413, sum:            87213, sumsq:         1252330739 }
"""  # noqa: E501


@pytest.mark.parametrize("text, expected", [
    (OST_2_5, JobEntry("4711", 0, 1_400_000_037 * SECOND, {
        "read_bytes": Counter(23, "bytes", 4096, 1048576, 11534336),
        "write_bytes": Counter(37, "bytes", 37888, 37888, 1401856),
        "punch": Counter(41, "reqs")})),
    (MDT_2_12, JobEntry("4711", 0, 1_500_000_037 * SECOND, {
        "open": Counter(23, "reqs"),
        "read_bytes": Counter(3, "bytes", 4096, 37888, 79872)})),
    (OST_2_12, JobEntry("4711", 0, 1_500_000_037 * SECOND, {
        "read_bytes": Counter(23, "bytes", 16777216, 16777216, 385875968),
        "write_bytes": Counter(123456789, "bytes", 1048576, 16777216, 1234567890123456)})),
    (OST_2_15_0, JobEntry("rsync_env.sh.30026", 0, 1_790_000_000 * SECOND + 1_896_247_780_050_045, {
        "punch": Counter(5051, "usecs", 8, 1541, 236426, 19935112)})),
    (OST_2_16, JobEntry("my prog:1.1000", STARTED_NS, SEEN_NS, {
        "write_bytes": Counter(9, "bytes", 57344, 1048576, 6463488, 6606934769664),
        "write": Counter(9, "usecs", 812, 19413, 87213, 1252330739)})),
], ids=["OST 2.5: read and write are bytes", "MDT 2.12: bytes labelled reqs",
        "2.12: no blank before a large number", "2.15.0: time since boot, not indented",
        "2.16: escaped id, start_time, hist"])
def test_each_form_is_read(text, expected):
    """Worked out by hand from the text; a counter at 0 is not there."""
    assert expected == only(text, boot_ns=1_790_000_000 * SECOND)


@pytest.mark.parametrize("line, name, counter", [
    ("  parallel_rename_file:{ samples: 23, unit: usecs, min: 1, max: 37, sum: 41, sumsq: 59 }",
     "parallel_rename_file", Counter(23, "usecs", 1, 37, 41, 59)),
    ("  parallel_rename_file: { samples:          23, unit: usecs, min:        1, max:       37, "
     "sum:               41, sumsq:                 59 }",
     "parallel_rename_file", Counter(23, "usecs", 1, 37, 41, 59)),
    ("  read_bytes:      { samples: 23, unit: bytes, min: 1, max: 37, sum: 41, sumsq: 59, "
     "hist: { } }", "read_bytes", Counter(23, "bytes", 1, 37, 41, 59)),
    ("  read_bytes:      { samples: 23, unit: bytes, min: 1, max: 37, sum: 41, sumsq: 59, "
     "hist: {  } }", "read_bytes", Counter(23, "bytes", 1, 37, 41, 59)),
    ("\t  destroy:         { samples:          23, unit:  reqs }", "destroy", Counter(23, "reqs")),
    ("  open:            { samples:          23, unit: usecs, min: 1, max: 37, sum: 41, "
     "sumsq: 18446744073709551615 }",
     "open", Counter(23, "usecs", 1, 37, 41, 18446744073709551615)),
    ("  open:            { samples:          23, unit: usecs, min: 1, max: 37, sum: 41, "
     "sumsq: 11416538743473681487 }",
     "open", Counter(23, "usecs", 1, 37, 41, 11416538743473681487)),
    ("  open:            { samples:          23, unit: usecs, min: 9223372036854775807, max: 0, "
     "sum: 0, sumsq: 0 }", "open", Counter(23, "usecs", 9223372036854775807, 0, 0, 0)),
    ("  open:            { samples:          23 }", "open", Counter(23, "")),
    ("  open:            { samples: 23, unit: usecs, min: 1, max: 37, sum: 41, avg: 1.5 }",
     "open", Counter(23, "usecs", 1, 37, 41)),
    ("  read_bytes: { samples: 23, unit: bytes, min: 1, max: 37, sum: 41, hist: { 4K: 23 } }",
     "read_bytes", Counter(23, "bytes", 1, 37, 41)),
    ("  new_in_2_18:     { samples:   68719476736, unit: pages }",
     "new_in_2_18", Counter(68719476736, "pages")),
], ids=["no blank before the brace", "a blank before the brace", "hist: { }", "hist: {  }", "tab",
        "sumsq 2**64 - 1", "sumsq wrapped", "minimum not yet written", "no unit", "unknown field",
        "hist without sumsq", "unknown counter"])
def test_each_form_of_a_counter_is_read(line, name, counter):
    assert {name: counter} == only(entry(counters=line + "\n")).counters


@pytest.mark.parametrize("kept, times", [
    (0, "  snapshot_time:   1795224957\n"),
    (0, "  snapshot_time:   1795224957.690335940 secs.nsecs\n"),
    (STARTED_NS, "  snapshot_time:   1795224957.690335940 secs.nsecs\n"
                 "  start_time:      1795224900.674899850 secs.nsecs\n"),
    (0, "  snapshot_time:   1795224957.690335940 secs.nsecs\n"
        "  start_time:      0.000000000 secs.nsecs\n"
        "  elapsed_time:    1795224957.690335940 secs.nsecs\n"),
    (STARTED_NS, "  snapshot_time:   1795224957.690335940 secs.nsecs\n"
                 "  start_time:      1795224900.674899850 secs.nsecs\n"
                 "  elapsed_time:    57.015436090 secs.nsecs\n"
                 "  project:         37\n"),
], ids=["whole seconds", "no stats header", "no elapsed_time", "no start yet", "a later release"])
def test_started_is_zero_where_the_file_does_not_show_it(kept, times):
    found = only(entry(times=times))
    assert (kept, 1795224957, {"open": Counter(23, "reqs")}) == (
        found.started_ns, found.seen_ns // SECOND, found.counters)


_WRITES = "  write_bytes:     {{ samples: {}, unit: bytes, min: 1, max: {}, sum: {}, sumsq: 0 }}\n"


@pytest.mark.parametrize("lines", [
    _WRITES.format(23, 37, 851) * 2, _WRITES.format(23, 37, 852), _WRITES.format(2**62, 37, 2**63),
    _WRITES.format(23, 37, "-851"), _WRITES.format(23, "-37", 851), _WRITES.format(2**63, 37, 851),
    _WRITES.format("23\0", 37, 851), "  wri\0te:          { samples: 23, unit:  reqs }\n",
    _WRITES.format(23, 0, 851),
], ids=["twice", "sum", "2^63", "negative", "negative maximum", "samples", "NUL in a number",
        "NUL in a name", "maximum"])
def test_numbers_that_no_kernel_has_kept_cost_their_entry(lines):
    """Of both who read a file: for a person, and for the harvest."""
    text = entry(counters=lines)
    with pytest.raises(JobStatsSyntaxError, match="job '4711'"):
        only(text)


def test_what_is_just_possible_is_read():
    found = only(entry(counters=_WRITES.format(2**62, 37, 2**63 - 1))).counters["write_bytes"]
    assert (2**62, 2**63 - 1) == (found.samples, found.sum)


@pytest.mark.parametrize("text, count", [
    (b"", 0), (b"job_stats:\n", 0), (b"\n", 0), (b"job_stats:\n\n", 0),
    (entry(), 1),
    (entry() + b"job_stats:\n" + entry(), 2),
    (b"job_stats:\n" + entry() + entry() + b"job_stats:\n", 2),
    (b"job_stats:\n" + entry()[:-1], 1),
    (b"job_stats:\n\t" + entry().replace(b"\n", b"\n\t"), 1),
    (b"job_stats:\n  " + (entry() + entry()).replace(b"\n", b"\n  "), 2),
], ids=["2.17 without jobs", "without jobs", "an empty line", "header and empty line", "no header",
        "header in the middle", "header at the end", "no newline at the end", "tab indent",
        "blank indent"])
@pytest.mark.parametrize("chunk", [1, 7, 4096])
@pytest.mark.parametrize("block", [1, 41, 262144])
def test_the_header_may_be_anywhere_or_missing(monkeypatch, text, count, chunk,
                                                        block):
    """However the file is read, and however much of it is cut at once."""
    monkeypatch.setattr(job_stats, "_BLOCK", block)
    assert [{"open": Counter(23, "reqs")}] * count == [
        found.counters for found in entries(text, chunk)]


# -- job ids -----------------------------------------------------------------------------

@pytest.mark.parametrize("printed, job_id", [
    ("4711", "4711"),
    ("kworker/13:2.0", "kworker/13:2.0"),
    ("(sd-pam).1000", "(sd-pam).1000"),
    ("my prog.1000", "my prog.1000"),
    ("- job", "- job"),
    ("-", "-"),
    ("#4711", "#4711"),
    ("1:30", "1:30"),
    ("null", "null"),
    ("0123", "0123"),
    (":988:ds88", ":988:ds88"),
    ("lfs.0.", "lfs.0."),
    ("'a'", "'a'"),
    ("{a: 1}", "{a: 1}"),
    ("my - job_id:          x", "my - job_id:          x"),
    ("averyveryverylongjobidentifier_", "averyveryverylongjobidentifier_"),
    (r"a\x20b", r"a\x20b"),
    (r'a"b', 'a"b'),
    (r'"a"b"', '"a"b"'),
    (r'"a\b"', r'"a\b"'),
    ('"', '"'),
    ("", ""),
])
@pytest.mark.parametrize("release", ["2.12", "2.15.0", "2.16"])
def test_a_job_id_is_taken_as_it_stands(printed, job_id, release):
    assert job_id == only(entry(printed, TIMES[release])).job_id


TIMES = {"2.12": "  snapshot_time:   1795224957\n",
         "2.15.0": "snapshot_time   : 1896533.420000000 secs.nsecs\n",
         "2.16": "  snapshot_time:   1795224957.690335940 secs.nsecs\n"}


@pytest.mark.parametrize("printed, job_id", [
    (r'"SLURM_JOB10:0:es18kxe-co-client"', "SLURM_JOB10:0:es18kxe-co-client"),
    (r'"7:8\x20\x239"', "7:8 #9"),
    (r'"@x"', "@x"),
    (r'"a\x22b"', 'a"b'),
    (r'"\x224711\x22"', '"4711"'),
    (r'"a\x0Ab"', r"a\x0ab"),
    (r'"a\x5Cx0ab"', r"a\x5cx0ab"),
    (r'"a\x1B[2Jb"', r"a\x1b[2Jb"),
])
def test_an_id_is_unquoted_where_the_quotes_are_the_kernels(printed, job_id):
    """From 2.15.2 on, which prints times of its own form; before, they are the id's."""
    assert job_id == only(entry(printed, TIMES["2.16"])).job_id
    for release in ("2.12", "2.15.0"):
        assert printed.replace(r"\x0a", r"\x5cx0a") == only(entry(printed, TIMES[release])).job_id


WHOLE_SECONDS = TIMES["2.12"]


@pytest.mark.parametrize("printed, is_printed_by_kernel, ids", [
    (['"74186:0:ma"', "74188"], True, ["74186:0:ma", "74188"]),
    (["74188", "cp.0", '"74186:0:ma"'], True, ["74188", "cp.0", "74186:0:ma"]),
    (['"night copy.77"', r'"a\x20b"'], True, ["night copy.77", "a b"]),
    (['"@a"', '"7:8"', "a/b"], True, ["@a", "7:8", "a/b"]),
    (['"74186:0:ma"', "74187:0:mb"], False, ['"74186:0:ma"', "74187:0:mb"]),
    (["my prog.0", '"74186:0:ma"'], False, ["my prog.0", '"74186:0:ma"']),
    (['"74186:0:ma"', '"74188"'], False, ['"74186:0:ma"', '"74188"']),
    (['"74186:0:ma"', '""'], False, ['"74186:0:ma"', '""']),
    (['"74186:0:ma"', r'"a\b"'], False, ['"74186:0:ma"', r'"a\b"']),
    (["@a", '"@a"'], False, ["@a", '"@a"']),
    (["4711", "cp.0"], None, ["4711", "cp.0"]),
], ids=repr)
@pytest.mark.parametrize("times", [WHOLE_SECONDS, TIMES["2.15.0"]], ids=["2.12", "2.15.0"])
def test_all_ids_of_a_file_show_whose_its_quotes_are(times, printed, is_printed_by_kernel, ids):
    """A vendor's 2.14 puts quotes around ids; other releases print the quotes of users."""
    text = b"job_stats:\n" + b"".join(entry(one, times) for one in printed)
    prints = Fingerprints()
    found = []
    for piece in prints.quotes.split_entries([text], lambda: [text]):
        assert prints.is_changed(piece)
        found.append(job_stats.parse(piece,
                                     kernel_quotes=prints.quotes.is_printed_by_kernel).job_id)
    assert (ids, is_printed_by_kernel) == (found, prints.quotes.is_printed_by_kernel)
    prints.finish()
    assert sorted(ids) == prints.finish()


def test_an_id_that_needs_quotes_and_has_none_ends_what_was_taken_for_the_kernels():
    quotes, first = QuotedIds(), entry('"74186:0:ma"')
    assert [first[:-1]] == list(quotes.split_entries([first], lambda: [first]))
    assert (True, False) == (quotes.is_printed_by_kernel, quotes.were_misread)
    both = first + entry("74187:0:mb")
    list(quotes.split_entries([both], lambda: [both]))
    assert (False, True) == (quotes.is_printed_by_kernel, quotes.were_misread)


def test_a_file_without_quotes_is_read_once():
    def read_again():
        raise AssertionError("a second time")
    text = entry("74187:0:mb") + entry('a"b') + entry("4711")
    assert 3 == len(list(QuotedIds().split_entries([text], read_again)))


@pytest.mark.parametrize("release", ["2.7", "2.12", "2.15.0", "2.15.2", "2.16"])
@pytest.mark.parametrize("pair", [
    ("4711", '"4711"'), ("", '""'), ('"4711"', '""4711""'), ("a\nb", r"a\x0ab"),
    (r"a\x0ab", r"a\x5cx0ab"), (b"pr\xe9".decode("latin-1"), r"pr\xe9"), ("a:b", '"a:b"'),
    ("@a", '"@a"')])
def test_two_ids_of_a_file_are_never_one(pair, release):
    """As the kernel of that release prints them; 4711 and "4711" were folded at every sweep."""
    jobs = [Job(one.encode("latin-1"), STARTED_NS, SEEN_NS, {"punch": Value(23)}) for one in pair]
    found = entries(job_stats_text.text(jobs, release))
    assert 2 == len({one.job_id for one in found})
    data, prints = job_stats_text.text(jobs, release), Fingerprints()
    for piece in prints.quotes.split_entries([data], lambda: [data]):
        prints.is_changed(piece)
    prints.finish()
    assert sorted(one.job_id for one in found) == prints.finish()


@pytest.mark.parametrize("printed, job_id", [
    (b"pr\xc3\xa9.1000", "pré.1000"),
    (b"pr\xe9.1000", "pr\\xe9.1000"),
    (b"a\x1b[2J.0", "a\\x1b[2J.0"),
    (b"a\xc2\x85b.0", "a\\x85b.0"),
], ids=["UTF-8", "Latin-1", "escape", "a line end of Latin-1"])
def test_bytes_of_an_id_become_text_that_is_safe_on_a_terminal(printed, job_id):
    assert job_id == only(entry().replace(b"4711", printed)).job_id


@pytest.mark.parametrize("printed, job_id", [
    (b'"xy:z/\xc3\\xA9prime_io"', "xy:z/éprime_io"),
    (b'"pr\xe9\\x20.1000"', "pr\\xe9 .1000"),
], ids=["half raw, half escaped", "Latin-1 and escaped"])
def test_bytes_of_a_quoted_id_become_text(printed, job_id):
    assert job_id == only(entry(times=TIMES["2.16"]).replace(b"4711", printed)).job_id


def test_a_nul_in_an_id_is_damage():
    with pytest.raises(JobStatsSyntaxError, match="a job id without a NUL"):
        only(entry().replace(b"4711", b"47\x0011"))


@pytest.mark.parametrize("printed, job_id", [
    (b"two\nlines.1000", "two\\x0alines.1000"),
    (b"\n", "\\x0a"),
    (b"a\n\n  b", "a\\x0a\\x0a  b"),
    (b"a\n  open: 5", "a\\x0a  open: 5"),
])
def test_a_raw_newline_in_an_id_up_to_2_7_stays_one_job(printed, job_id):
    """The id goes up to the line of snapshot_time."""
    found = only(b"job_stats:\n" + entry().replace(b"4711", printed))
    assert (job_id, {"open": Counter(23, "reqs")}) == (found.job_id, found.counters)


def test_an_id_of_31_escaped_bytes_is_not_too_long():
    """31 x 4 = 124 characters, as in the file."""
    escaped = r"\x01" * 31
    assert escaped == only(entry(f'"{escaped}"', TIMES["2.16"])).job_id


def test_an_id_that_no_kernel_prints_is_refused():
    assert "j" * 128 == only(entry("j" * 128)).job_id
    with pytest.raises(JobStatsSyntaxError, match="at most 128 characters of job id"):
        only(entry("j" * 129))


# -- what is no entry --------------------------------------------------------------------

@pytest.mark.parametrize("text, message", [
    (b"garbage\n", "job_stats: expected \"- job_id: <id>\" and \"snapshot_time: <seconds>\", "
                   "got 'garbage'"),
    (b"- job_id:          4711\n", "job_stats: expected \"- job_id: <id>\" and "
     "\"snapshot_time: <seconds>\", got '- job_id:          4711'"),
    (entry(times="  snapshot_time:   soon\n"), "job_stats: job '4711': expected "
     "\"snapshot_time: <seconds>\", got 'snapshot_time: soon'"),
    (entry(times="  snapshot_time:   9999999999\n"), "job_stats: job '4711': expected "
     "\"snapshot_time: <seconds>\", got 'snapshot_time: 9999999999'"),
    (entry(counters="  open:            { samples:          2x, unit:  reqs }\n"),
     "job_stats: job '4711': expected \"<name>: { samples: <n>, unit: <unit> ... }\", "
     "got '  open:            { samples:          2x, unit:  reqs }'"),
    (entry(counters="  open:    \n"), "job_stats: job '4711': expected "
     "\"<name>: { samples: <n>, unit: <unit> ... }\", got '  open:    '"),
    (entry(counters="  project: 37\n"), "job_stats: job '4711': expected its counters, "
     "got 'nothing'"),
    (entry("a\x1bb", counters="  \x1b[2J\n"), "job_stats: job 'a\\\\x1bb': expected "
     "\"<name>: { samples: <n>, unit: <unit> ... }\", got '  \\x1b[2J'"),
], ids=["no entry", "no times", "no time", "a time after 2**63 ns", "no number", "torn",
        "no counters", "a terminal's cursor"])
def test_the_error_says_where_what_was_expected_and_what_was_there(text, message):
    with pytest.raises(JobStatsSyntaxError) as error:
        only(text)
    assert message == str(error.value)


@pytest.mark.parametrize("line", [
    "  open: { samples: 18446744073709551616, unit: reqs }",
    "  open: { samples: -5, unit: reqs }",
    "  open: { samples: 1_000, unit: reqs }",
    "  open: { unit: reqs }",
    "  open: { samples: 23, unit: usecs, min: 1, max: 37 }",
    "  open: { samples: 23, unit: usecs, min: 1, max: 37, sum: 41 5 }",
    "  open: { samples: 23, unit: usecs, sumsq: 41 }",
    "  open: { samples: 23, unit: usecs, min: 1, max: 37, sum: 41, sumsq: 18446744073709551616 }",
    "  open: { samples: 23, unit: usecs",
    "  open: { samples: 23, unit: usecs } }",
    "  two words: { samples: 23, unit: usecs }",
    "  open",
])
def test_one_bad_line_costs_its_entry_and_no_other(line):
    text = (b"job_stats:\n" + entry("23") + entry("37", counters=line + "\n") + entry("41"))
    found = []
    for piece in job_stats.split_entries([text]):
        try:
            found.append(job_stats.parse(piece, origin="mdt.scratch-MDT0000.job_stats").job_id)
        except JobStatsSyntaxError as error:
            assert str(error).startswith("mdt.scratch-MDT0000.job_stats: job '37': expected ")
            found.append("bad")
    assert ["23", "bad", "41"] == found


def pieces_and_errors(chunks):
    """What becomes of each piece: the job id, or False."""
    for piece in job_stats.split_entries(chunks):
        try:
            yield job_stats.parse(piece).job_id
        except JobStatsSyntaxError:
            yield False


MIB = 1 << 20


@pytest.mark.parametrize("chunk", [
    bytes(range(11, 256)) * 257,
    b"x" * 65536,
    b"\n" * 65536,
    b"x - job_id:" + b" " * 65525,
    b"-" * 65536,
    (b"x" * 991 + b"- job_id:") * 65,
    b"  open:            { samples:          23, unit:  reqs }\n" * 1200,
    b"  open:            { samples:           0, unit:  reqs }\n" * 1200,
], ids=["binary", "one line", "empty lines", "one id", "dashes", "many keys",
        "counters of no job", "zeros of no job"])
@pytest.mark.parametrize("begin", [b"", entry("23")], ids=["at the beginning", "in an entry"])
def test_memory_is_bounded_and_the_next_job_is_found_whatever_the_file(begin, chunk):
    """200 MB that are no entry, or one entry without an end, cost one entry; then one follows."""
    times = 200_000_000 // 65536
    chunks = itertools.chain([begin], itertools.repeat(chunk, times), [b"\n" + entry()])
    tracemalloc.start()
    try:
        found = list(pieces_and_errors(chunks))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [False, "4711"] == found
    assert peak < 4 * MIB


def test_memory_is_bounded_for_one_chunk_of_any_size():
    """Beside the chunk itself."""
    data = b"job_stats:\n" + entry() * 200_000
    tracemalloc.start()
    try:
        assert 200_000 == sum(1 for _ in job_stats.split_entries([data]))
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


# -- every release, every cut ------------------------------------------------------------

NUMBERS = st.integers(0, 2**63 - 1)
COUNTS = st.one_of(st.just(0), st.integers(1, 10**6), st.integers(1, 2**62))
JOB_IDS = st.one_of(st.from_regex(rb"\A[0-9]{1,9}(_[0-9]{1,3})?\Z"),
                    st.binary(max_size=31).filter(lambda raw: b"\0" not in raw))
VALUES = st.builds(lambda samples, one, other, total, *more: Value(
                       samples, min(one, other), max(one, other),
                       min(total, samples * max(one, other)), *more),     # what there can be
                   COUNTS, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 2**64 - 1),
                   st.lists(st.tuples(st.integers(0, 31), st.integers(1, 10**9)),
                            max_size=5).map(tuple))


@st.composite
def releases_and_jobs(draw):
    """(release, kind, [Job]) with some of the counters that this release has."""
    release = draw(st.sampled_from(job_stats_text.RELEASES))
    kind = draw(st.sampled_from(job_stats_text.KINDS))
    names = [name for name, _ in job_stats_text.counters_of(release, kind)]
    first = 0 if release == "2.15.0" else 1_400_000_000 * SECOND
    started = draw(st.integers(first, first + 10**8 * SECOND))
    jobs = draw(st.lists(st.builds(
        Job, JOB_IDS, st.just(started), st.integers(started, started + 10**7 * SECOND),
        st.dictionaries(st.sampled_from(names), VALUES, max_size=6)), max_size=4))
    return release, kind, jobs


def expected_counters(job, release, kind):
    """{name: Counter} that the entry of this job is to have, from the table of the release."""
    expected = {}
    for name, unit in job_stats_text.counters_of(release, kind):
        value = job.counters.get(name)
        if value and value.samples:
            if name in ("read", "write") and unit == "bytes":
                name += "_bytes"
            numbers = value[1:4] if job_stats_text.has_numbers(release, name, unit) else ()
            if numbers and unit != " reqs" and release not in ("2.5", "2.7", "2.8", "2.12"):
                numbers += (value.sumsq,)
            measured = "bytes" if name.endswith("_bytes") else unit.strip()
            expected[name] = Counter(value.samples, measured, *numbers)
    return expected


def means_something_else(job_id):
    """Ids that up to 2.15.1 cannot be told from the file's own lines, or from quotes."""
    return (b"\n- job_id:" in b"\n" + job_id or b"snapshot_time" in job_id
            or (job_id[:1] == b'"' == job_id[-1:]))


@given(releases_and_jobs(), st.integers(1, 5000))
def test_every_release_is_read_to_the_last_number_however_it_is_cut(drawn, chunk):
    """2.5 to 2.17, OST and MDT, against a second account of the kernel's print statements."""
    release, kind, jobs = drawn
    jobs = [job for job in jobs if not means_something_else(job.job_id)]
    found = entries(job_stats_text.text(jobs, release, kind), chunk,
                    boot_ns=1_790_000_000 * SECOND)
    whole = release in ("2.5", "2.7", "2.8", "2.12", "2.14")
    assert [(expected_counters(job, release, kind), job.seen_ns // SECOND * SECOND if whole
             else job.seen_ns + (1_790_000_000 * SECOND if release == "2.15.0" else 0),
             0 if whole or release == "2.15.0" else job.started_ns) for job in jobs] == [
        (one.counters, one.seen_ns, one.started_ns) for one in found]
    assert all(one.job_id.isprintable() and len(one.job_id) <= 128 for one in found)


@given(st.from_regex(rb"\A[\x01-\xff]{1,31}\Z"), st.sampled_from(["2.15.2", "2.16", "2.17"]))
def test_an_escaped_id_comes_back_to_the_byte(job_id, release):
    """From 2.15.2 on all ids can be told apart."""
    job = Job(job_id, STARTED_NS, SEEN_NS, {"punch": Value(23)})
    text = job_id.decode("utf-8", "backslashreplace")
    expected = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    assert expected == only(job_stats_text.text([job], release)).job_id


TEXT = job_stats_text.text(
    [Job(b"4711", STARTED_NS, SEEN_NS, {"write_bytes": Value(9, 57344, 1048576, 6463488,
                                                             6606934769664, ((16, 3), (20, 6)))}),
     Job(b"my prog:1.1000", STARTED_NS, SEEN_NS, {"punch": Value(23, 31, 8117, 61403, 402653184)})],
    "2.16")


@pytest.mark.parametrize("end", range(0, len(TEXT), 7))
def test_a_file_that_is_cut_off_at_any_byte_costs_its_last_entry_at_most(end):
    found = list(pieces_and_errors([TEXT[:end]]))
    jobs = ["4711", "my prog:1.1000"]
    assert found in ([], jobs[:1], jobs, [False], [jobs[0], False])


@given(st.binary(max_size=300), st.integers(0, len(TEXT)), st.integers(0, len(TEXT)),
       st.integers(1, 400))
def test_nothing_but_the_documented_error_comes_out_of_any_bytes(junk, start, end, chunk):
    """Random bytes in the place of any part of a file."""
    data = TEXT[:start] + junk + TEXT[end:]
    prints = Fingerprints()
    for name, piece in job_stats.dump(data[at:at + chunk] for at in range(0, len(data), chunk)):
        assert isinstance(name, str)
        prints.is_changed(piece)
        try:
            found = job_stats.parse(piece, origin="ost.\x1b")
        except JobStatsSyntaxError as error:
            assert isinstance(error, IostatsError) and str(error).isprintable()
        else:
            assert found.job_id.isprintable() and len(found.job_id) <= 128
    assert prints.finish() == []


@given(st.one_of(st.binary(max_size=200), st.text("-\n job_id:", max_size=99).map(str.encode)),
       st.lists(st.integers(1, 99), max_size=9), st.sampled_from([b"\n", b"\n\t", b"\n    "]))
def test_pieces_are_the_same_however_the_bytes_come(junk, sizes, newline):
    """Indented or not, whatever stands between, and however much is cut at once."""
    data = (TEXT + junk + TEXT).replace(b"\n", newline)
    chunks, at = [], 0
    for size in sizes:
        chunks.append(data[at:at + size])
        at += size
    whole = list(job_stats.split_entries([data]))
    assert whole == list(job_stats.split_entries([*chunks, data[at:]]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_stats, "_BLOCK", 97)
        assert whole == list(job_stats.split_entries(data[at:at + 1] for at in range(len(data))))


@pytest.mark.parametrize("piece", [
    b"- job_id:" + b" " * 60_000,
    b"- job_id:          x" + b"\n \t" * 20_000,
    entry(counters="  x: y" + " " * 60_000 + "}\n"),
    entry(counters=" " * 60_000 + "{\n"),
    entry(counters="  open: { samples: 23" + ", a" * 20_000 + " }\n"),
    entry(counters="  open: { samples: 23," + " " * 60_000 + "x }\n"),
    entry(counters="a" * 60_000 + "\n"),
    entry(r'"' + r"\x2" * 100 + '"'),
], ids=["blanks for an id", "lines of blanks", "blanks, then a brace", "blanks before a brace",
        "fields without values", "blanks in a field", "one word", "half escapes"])
def test_no_text_keeps_the_parser_busy(piece):
    """Each of these would take minutes if an expression could match it in many ways."""
    try:
        job_stats.parse(piece)
    except JobStatsSyntaxError:
        pass


# -- the memory of zero lines ------------------------------------------------------------

def test_what_is_remembered_of_lines_at_zero_is_bounded(monkeypatch):
    """A file of counters with ever new names does not grow it, and is read all the same."""
    monkeypatch.setattr(job_stats, "_at_zero", set())
    monkeypatch.setattr(job_stats, "_names", {})
    line = "  name%d: { samples: %d, unit: reqs }\n"
    for number in range(40):
        zeros = "".join(line % (number * 100 + one, 0) for one in range(100))
        used = "".join(line % (number * 100 + one, 23) for one in range(100))
        assert 100 == len(only(entry(counters=zeros + used)).counters)
    assert len(job_stats._at_zero) <= 2000 and len(job_stats._names) <= 2000


def test_an_entry_whose_counters_are_all_at_zero_is_an_entry():
    """It is there: the job has come, and everything was cleared, or nothing counted yet."""
    zeros = entry(counters="  open:            { samples:           0, unit:  reqs }\n")
    assert [{}, {}] == [found.counters for found in entries(zeros + zeros)]


# -- lctl --------------------------------------------------------------------------------

def test_the_text_of_lctl_names_the_file_of_each_entry():
    """`=` and a newline, or the header on the same line; other parameters are passed over."""
    text = (b"obdfilter.scratch-OST0000.job_stats=\njob_stats:\n" + entry("23") + entry("37")
            + b"obdfilter.scratch-OST0001.job_stats=job_stats:\n"
            + b"obdfilter.scratch-OST0001.stats=\nsnapshot_time 1.5 secs.nsecs\n"
            + b"mdt.my-fs.x-MDT0000.job_stats=\n" + entry("41")
            + b"mdt.my-fs.x-MDT0001.job_stats=\njob_stats:\n" + entry("41"))
    for size in (1, 37, len(text)):
        chunks = [text[at:at + size] for at in range(0, len(text), size)]
        assert [("obdfilter.scratch-OST0000.job_stats", "23"),
                ("obdfilter.scratch-OST0000.job_stats", "37"),
                ("obdfilter.scratch-OST0001.job_stats", None),
                ("mdt.my-fs.x-MDT0000.job_stats", "41"),
                ("mdt.my-fs.x-MDT0001.job_stats", "41")] == [
            (name, job_stats.parse(piece).job_id if piece else None)
            for name, piece in job_stats.dump(chunks)]


@pytest.mark.parametrize("form", ["-y", "-H"])
def test_the_text_of_lctl_with_a_name_in_front_of_the_value_or_of_each_line(form):
    """print_param_internal() of lctl of 2.17, whose values end without their last newline."""
    def printed(target, *ids):
        name = f"obdfilter.scratch-{target}.job_stats".encode()
        value = b"job_stats:\n" + b"".join(map(entry, ids))[:-1]
        return (name + b": " + value + b"\n" if form == "-y" else
                b"".join(name + b"=" + line + b"\n" for line in value.split(b"\n")))
    text = printed("OST0000", "23", "37") + printed("OST0001", "41") + b"version: 2.17.0\n"
    assert [("obdfilter.scratch-OST0000.job_stats", "23"),
            ("obdfilter.scratch-OST0000.job_stats", "37"),
            ("obdfilter.scratch-OST0001.job_stats", "41")] == [
        (name, job_stats.parse(piece).job_id) for name, piece in job_stats.dump([text])]
    with pytest.raises(NotReadable, match=r"OST0000\.job_stats in line 1 and in line 13; put"):
        list(job_stats.dump([text + printed("OST0000", "41")]))


def test_a_target_that_is_twice_in_the_text_of_lctl_is_refused():
    """Beside itself, or with others in between; its two places are named."""
    text = b"obdfilter.scratch-OST0000.job_stats=\njob_stats:\n" + entry("23")     # 5 lines
    between = b"mdt.scratch-MDT0000.job_stats=job_stats:\n"
    for first, line in ((text, 6), (text + between, 7)):
        with pytest.raises(NotReadable) as caught:
            list(job_stats.dump([first + text], "a/dump"))
        assert (f"a/dump: expected each target once, got obdfilter.scratch-OST0000.job_stats in "
                f"line 1 and in line {line}; put each dump into a file of its own"
                ) == str(caught.value)


def test_text_without_names_is_one_nameless_file():
    """`lctl get_param -n`, or the file itself."""
    assert [("", "23"), ("", "37")] == [
        (name, job_stats.parse(piece).job_id) for name, piece in job_stats.dump(
            [b"job_stats:\n" + entry("23") + b"job_stats:\n" + entry("37")])]


def test_what_is_no_entry_in_the_text_of_lctl_is_not_lost_in_silence():
    """It comes as a piece, which parse() refuses."""
    [(name, piece)] = job_stats.dump([b"mdt.scratch-MDT0000.job_stats=\nInput/output error\n"])
    assert "mdt.scratch-MDT0000.job_stats" == name
    with pytest.raises(JobStatsSyntaxError, match="Input/output error"):
        job_stats.parse(piece, origin=name)


def test_a_line_without_an_end_in_the_text_of_lctl_keeps_no_memory():
    chunks = itertools.chain(itertools.repeat(b"x" * 65536, 1000),
                             [b"\nmdt.scratch-MDT0000.job_stats=\n" + entry()])
    tracemalloc.start()
    try:
        names = [name for name, _ in job_stats.dump(chunks)]
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()
    assert ["", "mdt.scratch-MDT0000.job_stats"] == names


# -- what changed ------------------------------------------------------------------------

def opens(job_id, samples):
    return entry(job_id, counters="  open:            { samples: %11d, unit:  reqs }\n" % samples)


def sweep(prints, *texts):
    """([(job id, opens) of the entries that changed], [ids that are gone])."""
    changed = [job_stats.parse(piece) for piece in job_stats.split_entries([b"".join(texts)])
               if prints.is_changed(piece)]
    return [(one.job_id, one.counters["open"].samples) for one in changed], prints.finish()


def test_a_sweep_sees_what_changed_what_came_and_what_is_gone():
    prints = Fingerprints()
    assert ([("a", 23), ("b", 37)], []) == sweep(prints, opens("a", 23), opens("b", 37))
    assert ([], []) == sweep(prints, opens("a", 23), opens("b", 37))
    assert ([("b", 41)], []) == sweep(prints, opens("a", 23), opens("b", 41))
    assert ([("c", 5)], ["a"]) == sweep(prints, opens("b", 41), opens("c", 5))
    assert ([("a", 23)], ["b", "c"]) == sweep(prints, opens("a", 23))
    assert ([], ["a"]) == sweep(prints)
    assert ([], []) == sweep(prints)


def test_the_order_of_the_entries_and_the_place_of_the_header_are_no_matter():
    prints = Fingerprints()
    sweep(prints, opens("a", 23), opens("b", 37), opens("c", 41))
    assert ([], []) == sweep(prints, b"job_stats:\n", opens("c", 41), opens("a", 23),
                             opens("b", 37))


def test_an_entry_that_expires_while_it_is_read_and_comes_again_is_seen_twice():
    """Up to 2.15 the old one stands before the new one; neither is lost, in that order."""
    prints = Fingerprints()
    sweep(prints, opens("a", 23), opens("b", 37))
    assert ([("a", 41), ("a", 1)], []) == sweep(prints, opens("a", 41), opens("b", 37),
                                                opens("a", 1))
    assert ([], []) == sweep(prints, opens("b", 37), opens("a", 1))
    assert ([("a", 2)], []) == sweep(prints, opens("b", 37), opens("a", 2))
    assert ([], ["a"]) == sweep(prints, opens("b", 37))


def test_of_an_old_entry_that_did_not_change_only_the_new_one_is_given():
    prints = Fingerprints()
    sweep(prints, opens("a", 23))
    assert ([("a", 1)], []) == sweep(prints, opens("a", 23), opens("a", 1))
    assert ([], []) == sweep(prints, opens("a", 1))


def test_the_same_entry_twice_in_one_read_is_given_once():
    prints = Fingerprints()
    assert ([("a", 23)], []) == sweep(prints, opens("a", 23), opens("a", 23))
    assert ([], []) == sweep(prints, opens("a", 23), opens("a", 23))
    assert ([], []) == sweep(prints, opens("a", 23))


def test_an_entry_that_goes_back_to_an_older_state_has_changed():
    prints = Fingerprints()
    sweep(prints, opens("a", 23))
    sweep(prints, opens("a", 37))
    assert ([("a", 23)], []) == sweep(prints, opens("a", 23))


def test_what_is_gone_is_named_as_the_entry_was():
    prints = Fingerprints()
    text = entry('"my\\x20prog:1"', TIMES["2.16"]) + entry("two\nlines") + entry("")
    names = {found.job_id for found in entries(text)}
    assert 3 == len([prints.is_changed(piece) for piece in job_stats.split_entries([text])])
    assert [] == prints.finish()
    assert {"my prog:1", "two\\x0alines", ""} == names == set(prints.finish())


def test_an_entry_that_was_refused_is_looked_at_again_and_is_not_gone():
    prints, bad = Fingerprints(), entry("b", counters="  open: { samples: 2x }\n")
    sweep(prints, opens("a", 23), opens("b", 37))
    for _ in range(3):
        changed = [piece for piece in job_stats.split_entries([opens("a", 23) + bad])
                   if prints.is_changed(piece)]
        assert [bad.rstrip(b"\n")] == changed
        prints.refuse(changed[0])
        assert [] == prints.finish()
    assert ([], ["b"]) == sweep(prints, opens("a", 23))


def test_what_has_no_id_is_always_new_and_never_gone():
    prints = Fingerprints()
    for _ in range(2):
        assert [True] == [prints.is_changed(piece)
                          for piece in job_stats.split_entries([b"junk\n" * 9])]
        prints.refuse(b"junk\n" * 9)
        assert [] == prints.finish()


def test_of_a_read_that_broke_off_nothing_is_gone_and_what_changed_is_not_given_again():
    prints = Fingerprints()
    sweep(prints, opens("a", 23), opens("b", 37))
    [piece] = job_stats.split_entries([opens("a", 41)])
    assert prints.is_changed(piece)
    prints.abandon()
    assert ([], []) == sweep(prints, opens("a", 41), opens("b", 37))
    assert ([], ["a"]) == sweep(prints, opens("b", 37))


def test_forgotten_is_as_if_nothing_had_been_read():
    prints = Fingerprints()
    sweep(prints, opens("a", 23))
    prints.clear()
    assert ([("b", 37)], []) == sweep(prints, opens("b", 37))


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 3)), max_size=8))
def test_whoever_takes_what_changed_and_what_is_gone_has_what_is_in_the_file(states):
    prints, taken = Fingerprints(), {}
    for state in states:
        changed, gone = sweep(prints, *(opens(job, count) for job, count in state.items()))
        taken.update(changed)
        for job in gone:
            del taken[job]
        assert state == taken


# -- what is kept of them --------------------------------------------------------------

def lines(*numbers):
    """Pieces of these jobs; (job, amount) for another amount than 23."""
    return [entry(f"{one[0]}" if isinstance(one, tuple) else f"{one}", counters=(
        f"  open: {{ samples: {one[1] if isinstance(one, tuple) else 23}, unit: reqs }}\n"))
        for one in numbers]


@pytest.mark.parametrize("then, changed, gone", [
    (list(range(1000)), [], []),
    ([0, (1, 37), *range(2, 1000)], [1], []),
    (list(range(1, 1000)), [], [0]),                        # one has gone, at the begin
    ([*range(400), *range(900, 1000)], [], list(range(400, 900))),   # more than are looked for
    (list(range(999, -1, -1)), [], []),                     # in another order
    ([*range(10, 1000), *range(1001, 1004), 5], [1001, 1002, 1003], [0, 1, 2, 3, 4, 6, 7, 8, 9]),
    ([*range(500), (3, 41), *range(500, 1000)], [3], []),   # twice, the second one in use
    ([], [], list(range(1000))),
])
def test_entries_are_known_wherever_they_stand(then, changed, gone):
    prints = Fingerprints()
    for piece in lines(*range(1000)):
        assert prints.is_changed(piece)
    assert [] == prints.finish()
    for _ in range(2):
        names = [job_stats.parse(piece).job_id for piece in lines(*then)
                 if prints.is_changed(piece)]
        assert list(map(str, changed)) == names
        assert sorted(map(str, gone)) == prints.finish()
        changed, gone = [], []


def test_an_entry_takes_few_bytes():
    """400,000 of them, 64 MiB: a megabyte for 10,000 would be 40 of them."""
    prints = Fingerprints()
    pieces = lines(*range(4_700_000, 4_710_000))
    tracemalloc.start()
    try:
        for _ in range(2):
            for piece in pieces:
                prints.is_changed(piece)
            prints.finish()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 30 * 10_000 and peak < 200 * 10_000
