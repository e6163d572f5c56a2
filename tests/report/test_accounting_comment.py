"""
The short form of a record: what fits is exact, what does not is summed up, what is damaged is seen.
"""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_job_totals import NODES, llite, osc, totals, unread
from test_record import JOBS, written
from trees import ROOT, report

from iostats.base.config import Config
from iostats.base.options import FORMATS
from iostats.report import accounting_comment
from iostats.report import job_tables as tables
from iostats.report.accounting_comment import CommentError, encode
from iostats.report.comment_reader import decode, make_record
from iostats.totals.delta import Delta

PAGE = (ROOT / "docs" / "reference" / "compact.md").read_text(encoding="utf-8")
NUMBERS = st.one_of(st.integers(0, 99), st.integers(0, 10**24))


# -- records -----------------------------------------------------------------------------------


def example():
    """Three of four nodes; scratch is known, of home only the metadata requests are."""
    return totals(
        report("nid00001", [
            llite(read_bytes=23 * 2**20, read_calls=23, write_bytes=37 * 2**20, write_calls=41,
                  open=23, mknod=5, close=28, getattr=97),
            osc(read_bytes=24 * 2**20, read_rpcs=6, write_bytes=37 * 2**20, write_rpcs=10),
            Delta("md_stats", "scratch", "MDT0000", "", {"close": 28, "getattr": 13}, False, "")],
            ended=1_795_225_060.5, elapsed_s=60.25, other_jobs=1),
        report("nid00002", [Delta("llite", "home", "", "", None, True, "permission denied"),
                            Delta("md_stats", "home", "MDT0000", "", {"getattr": 7}, False, "")],
               ended=1_795_225_060.5, elapsed_s=60.0),
        report("nid00003", [], ended=1_795_225_060.5, elapsed_s=60.0), expected=NODES).record()


def fs_record(name, read=0, write=0, application=True, network=None, requests=None, low=(),
              incomplete=False, **operations):
    """One file system of a record; `read`, `write`: bytes, a call for each 1000."""
    return {
        "name": name, "low": sorted(low), "incomplete": incomplete,
        "application": {"read_bytes": read, "read_calls": read // 1000, "write_bytes": write,
                        "write_calls": write // 1000} if application else None,
        "operations": {key: {"count": count, "seconds": 0.5, "stddev_s": None}
                       for key, count in operations.items()} if application else None,
        "network": network and dict(zip(("read_bytes", "read_rpcs", "write_bytes", "write_rpcs"),
                                        network)),
        "metadata": {} if requests is None else {"MDT0000": {"requests": requests}}}


def job_record(file_systems, job="4711", attempt=0, expected=4, reported=3, missing=1, shared=0,
               started=1_795_225_000.123, elapsed_s=1867.4):
    return {"job": {"id": job, "attempt": attempt, "started": started, "elapsed_s": elapsed_s},
            "coverage": {"reported": reported, "expected": expected, "missing_count": missing,
                         "shared": {f"nid{number}": 2 for number in range(shared)}},
            "file_systems": file_systems}


def only(line):
    [entry] = decode(line)["file_systems"]
    return entry


# -- by hand -----------------------------------------------------------------------------------


def test_the_example_of_the_page_is_what_the_code_writes():
    """docs/reference/compact.md: the job above, as its line and read back."""
    [line] = re.findall(r"^io1:\S+$", PAGE, re.M)
    assert line == encode(example())
    record = make_record(decode(line))
    scratch, home = record["file_systems"]
    assert (24117248, 23, 38797312, 41) == tuple(scratch["application"][name] for name in (
        "read_bytes", "read_calls", "write_bytes", "write_calls"))
    assert {"open": 23, "create": 5, "getattr": 97, "close": 28} == {
        name: row["count"] for name, row in scratch["operations"].items()}
    assert (None, 7, True) == (home["application"], home["metadata"]["all MDTs"]["requests"],
                               home["lower_bound"])


def test_the_page_names_every_field():
    """The keys of its tables are those that the code writes and reads."""
    assert set(re.findall(r"^\| `([a-z]|\.[a-z]+)=` \|", PAGE, re.M)) == {
        *"ajnmxtepv", ".r", ".w", ".nr", ".nw", ".md", ".l", ".h"}
    assert set(re.findall(r"`([a-z])` ([a-z_]+)", PAGE)) == {
        (letter, source) for source, letter in accounting_comment.LETTERS.items()}


@pytest.mark.parametrize("record, line", [
    (job_record([]), "io1:a=0,j=4711,n=3/4,m=1,x=0,t=1795225000.123,e=1867.4"),
    (job_record([], "4711[3].pbs01", None, None, 0, 0, 2, None, None),
     "io1:a=-,j=4711%5b3%5d.pbs01,n=0/-,m=0,x=2,t=-,e=-"),
    (job_record([], "x" * 41), "io1:a=0,n=3/4,m=1,x=0,t=1795225000.123,e=1867.4"),
    (job_record([fs_record("a b|+,'", 4096, 37, open=23, R=5, incomplete=True,
                           low=["osc", "llite", "of tomorrow"])], elapsed_s=60.0),
     "io1:a=0,j=4711,n=3/4,m=1,x=0,t=1795225000.123,e=60,p=1"
     ":a%20b%7c%2b%2c%27,.r=4096/4,.w=37/0,open=23,%52=5,.l=aox"),
    (job_record([fs_record("", application=False, network=(None, 5, None, 7), requests=0)]),
     "io1:a=0,j=4711,n=3/4,m=1,x=0,t=1795225000.123,e=1867.4:%,.r=-,.w=-,.nr=-/5,.nw=-/7,.md=0"),
], ids=["no file system", "nothing known", "a long job id", "odd names", "nothing read"])
def test_a_line_by_hand(record, line):
    """With eight digits of checksum after it."""
    written_line = encode(record)
    assert line == written_line[:-9]
    assert re.fullmatch(":[0-9a-f]{8}", written_line[-9:])
    decode(written_line)


def test_file_systems_come_by_bytes_and_operations_by_count_with_opens_first():
    """What matters most stands first, and is cut last."""
    line = encode(job_record([fs_record("a", 23), fs_record("b", 0, 37, seek=7, close=41, open=5),
                              fs_record("c"), fs_record("d", open=2)]))
    assert ["b", "a", "d", "c"] == [one.name for one in decode(line)["file_systems"]]
    assert ["open", "close", "seek"] == list(decode(line)["file_systems"][0].operations)


def test_the_smaller_ones_say_less_before_any_is_summed_up():
    """By and by: calls and rare operations, then all operations, then the smallest themselves."""
    file_systems = [fs_record(f"fs{number}", 1000 * (9 - number), 2000, network=(5, 6, 7, 8),
                              requests=3, open=23, create=5, close=37, seek=41)
                    for number in range(4)]
    whole = encode(job_record(file_systems))
    seen = []
    for limit in range(len(whole), 146, -1):
        decoded = decode(encode(job_record(file_systems), limit))["file_systems"]
        shape = " ".join(f"+{one.more}" if one.more else "all" if "close" in one.operations
                         else "few" if "open" in one.operations else "least" for one in decoded)
        if shape not in seen:
            seen.append(shape)
    assert ["all all all all", "all all all few", "all all few few", "all few few few",
            "all few few least", "all few least least", "all least least least",
            "all least least +1", "all least +2", "all +3", "few +3", "least +3"] == seen
    last = decode(encode(job_record(file_systems), 200))["file_systems"]
    assert (30000, 8000, 4 * 106) == (
        sum(one.read[0] for one in last), sum(one.write[0] for one in last),
        sum(sum(one.operations.values()) for one in last))


def test_a_sum_with_something_unknown_is_a_lower_bound():
    """One of the three could not be read: 2 + 3 bytes, or more."""
    big, names = fs_record("big", 10**15), [f"name{number}" * 24 for number in range(3)]
    line = encode(job_record([big, fs_record(names[0], 2), fs_record(names[1], 3),
                              fs_record(names[2], application=False)]), 200)
    _, rest = decode(line)["file_systems"]
    assert (3, (5, None), {"llite"}) == (rest.more, rest.read, rest.low)
    assert make_record(decode(line))["file_systems"][1]["application"]["lower_bound"]


def test_a_sum_of_unknown_is_unknown():
    """Two that could not be read are not 0 bytes."""
    line = encode(job_record([fs_record("big", 10**15)] + [
        fs_record(f"name{number}" * 24, application=False, low=["llite"]) for number in range(3)]),
        200)
    _, rest = decode(line)["file_systems"]
    assert ((None, None), None, {"llite"}) == (rest.read, rest.operations, rest.low)


def test_a_limit_that_nothing_fits_in_is_an_error():
    """Not a text that is cut off."""
    with pytest.raises(CommentError, match="a limit that a short form fits in, got 40 bytes"):
        encode(job_record([fs_record("scratch")]), 40)


# -- whatever the job was ----------------------------------------------------------------------


LOW = st.sets(st.sampled_from(["llite", "osc", "mdc", "md_stats", "rpc_stats", "of tomorrow"]))
FILE_SYSTEMS = st.builds(
    lambda name, read, write, known, network, requests, low, operations: fs_record(
        name, read, write, known, network, requests, low, **operations),
    st.text(max_size=128), NUMBERS, NUMBERS, st.booleans(),
    st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS),
              st.tuples(st.none(), NUMBERS, st.none(), NUMBERS)), st.one_of(st.none(), NUMBERS),
    LOW, st.dictionaries(st.one_of(st.sampled_from(["open", "create", "close", "seek", "R", "+1"]),
                                   st.text(max_size=20)).filter(
        lambda name: name not in ("name", "read", "write", "application", "network", "requests",
                                  "low", "incomplete")), NUMBERS, max_size=30))
SECONDS = st.one_of(st.none(), st.floats(0, 1e9).map(lambda value: round(value, 3)))
RECORDS = st.builds(
    job_record, st.lists(FILE_SYSTEMS, max_size=12, unique_by=lambda fs: fs["name"]),
    st.text(min_size=1, max_size=128), st.one_of(st.none(), st.integers(0, 999)),
    st.one_of(st.none(), st.integers(1, 10**5)), st.integers(0, 10**5), st.integers(0, 10**5),
    st.integers(0, 99), SECONDS, SECONDS)


def known(values):
    return sum(value for value in values if value is not None)


@given(RECORDS, st.one_of(st.just(1500), st.integers(200, 1500)))
def test_every_record_fits_and_its_sums_are_exact(record, limit):
    """Numbers are there as they were, or in a sum, or not at all."""
    line = encode(record, limit)
    assert len(line) <= limit
    assert re.fullmatch(r"[A-Za-z0-9_.%=,+/:-]+", line)
    decoded = decode(line)
    assert (record["job"]["started"], record["job"]["elapsed_s"], record["job"]["attempt"]) == (
        decoded["started"], decoded["elapsed_s"], decoded["attempt"])
    assert decoded["job"] in (None, record["job"]["id"])
    found, there = decoded["file_systems"], {fs["name"]: fs for fs in record["file_systems"]}
    assert len(there) == sum(entry.more or 1 for entry in found)
    applications = [fs["application"] for fs in there.values() if fs["application"]]
    for way in ("read", "write"):
        assert sum(one[f"{way}_bytes"] for one in applications) == known(
            getattr(entry, way)[0] for entry in found)
    assert sum(row["count"] for fs in there.values() for row in (fs["operations"] or {}).values()
               ) == sum(sum((entry.operations or {}).values()) for entry in found)
    for entry in found:
        if entry.more:
            continue
        fs = there[entry.name]
        application, network = fs["application"], fs["network"]
        assert (application is None) == (entry.read[0] is None) == (entry.operations is None)
        if application:
            assert (application["read_bytes"], application["write_bytes"]) == (
                entry.read[0], entry.write[0])
            assert entry.read[1] in (None, application["read_calls"])
            for name, count in entry.operations.items():
                if name != accounting_comment.OTHERS:
                    assert fs["operations"][name]["count"] == count
        assert entry.network in (None, network and tuple(network.values()))
        assert entry.metadata in (None, *(one["requests"] for one in fs["metadata"].values()))
        assert entry.low - {""} == set(fs["low"]) - {"of tomorrow"}


@given(RECORDS, st.integers(200, 1500))
def test_every_line_makes_a_record_that_can_be_printed(record, limit):
    """In every form, with all of its tables."""
    found = tables.add_labels(make_record(decode(encode(record, limit)), "4711"), Config())
    for form in FORMATS:
        assert tables.format_report(found, Config(), form, long=True, explain=True)


@pytest.mark.parametrize("found", list(JOBS.values()), ids=list(JOBS))
def test_the_jobs_of_the_schema_print_from_their_lines(found):
    """And the tables say the same of bytes as those of the whole record."""
    whole = {**written(found), "imported": None}        # which no line has
    short = tables.add_labels(make_record(decode(encode(whole))), Config())
    for form in ("grid", "plain", "markdown", "csv"):
        text = tables.format_report(short, Config(), form, long=True)
        assert "None" not in text and (form == "csv" or "short form" in text)
    order = {fs["name"]: fs for fs in short["file_systems"]}
    short["file_systems"] = [order[fs["name"]] for fs in whole["file_systems"]]
    table = re.compile(r"(?s)File data transfer.*?(?=\nMetadata|\nnote|\nParts|\nOver|\nLustre|"
                       r"\nNo |$)")
    assert table.findall(tables.format_report(whole, Config())) == table.findall(
        tables.format_report(short, Config()))
    json.loads(tables.format_report(short, Config(), "json"))


def test_the_report_of_a_short_form():
    """What is not in it is -, and what is only in a sum is not 0."""
    line = encode(job_record([
        fs_record("scratch", 4096, 37, open=23, close=41, incomplete=True),
        fs_record("home", 5, application=False, incomplete=True, requests=11),
        fs_record("longer" * 20, 3, open=2, close=7, statfs=1, incomplete=True)],
        shared=2), 200)
    assert """\
Job 4711:
  3 of 4 nodes reported, 00:31:07 from 2026-11-21 01:36:40; missing: 1 node (no
    numbers)
File data transfer statistics for this job:
File System    File Read    File Write
scratch        >= 4.0 KiB   >= 37 bytes
(2 more)       >= 3 bytes   >= 0 bytes
Metadata statistics for this job:
File System      open    close    (others)
scratch         >= 23    >= 41        >= 0
(2 more)            -        -       >= 10
Marks: >= may be too low, - unknown
No findings: the numbers include other jobs on the same nodes.
note: 1 node has no numbers: every amount is a lower bound (>=)
note: this is the short form of the report, from the job's accounting; what it
  does not have is -
note: other jobs were on 2 nodes of the job: the numbers are the nodes', not
  this job's alone
""" == tables.format_report(tables.add_labels(make_record(decode(line)), Config()), Config(),
                            "plain")


def test_an_unreadable_layer_is_unknown_in_the_short_form():
    """Not 0 bytes."""
    entry = only(encode(totals(report(deltas=[unread("llite")])).record()))
    assert ((None, None), None, {"llite"}) == (entry.read, entry.operations, entry.low)
