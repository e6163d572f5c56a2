"""
What changed between two jobs: by hand, with bounds; and that the comparison of B with A is the
mirror of that of A with B.
"""

import json
import re
from math import inf, isclose

import pytest
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_job_tables import job
from test_job_tables_long import md_stats
from test_job_totals import llite, osc, unread
from test_screens import jobs, many_nodes, one_node, several_file_systems
from trees import report as of_node

from iostats.base.text import measure_width
from iostats.report import accounting_comment, comment_reader
from iostats.report.diff import changes, diff_text
from iostats.report.diff.changes import FELL, ROSE, UNCERTAIN
from iostats.report.diff.numbers import read_numbers
from iostats.report.findings.finding import Finding
from iostats.report.screen import LOG, Screen

MIB, GIB = 2**20, 2**30


def record(*deltas, elapsed_s=100.0, nodes=1, expected=None, name="4711"):
    """The record of a job whose nodes all did the same."""
    return job(*(of_node(f"nid{number:05}", list(deltas), elapsed_s=elapsed_s)
                 for number in range(1, nodes + 1)), expected=expected, job=name)[0]


def diff(a, b, findings=(None, None), phases=(None, None)):
    return changes.compare_jobs(read_numbers(a, "4711", phases[0]),
                                read_numbers(b, "4733", phases[1]),
                                *findings)


def text(found, width=80, show_all=False):
    return diff_text.format_comparison(found, "binary", LOG._replace(width=width), show_all)


def flat(found):
    """The comparison as one line."""
    return " ".join(text(found).split())


def row(found, metric):
    [one] = [one for one in (*found.changes, *found.uncertain) if one.metric == metric]
    return one


SLOW = (llite(write_bytes=41 * GIB, write_calls=23_000_000, open=23, open_us=46_000_000),
        md_stats(close=23, create=41))
FAST = (llite(write_bytes=41 * GIB, write_calls=41_984, open=23, open_us=23_000_000),
        md_stats(close=23, create=41))


# -- what changed ------------------------------------------------------------------------------

def test_what_changed_by_how_much_the_biggest_first():
    """The same bytes in 548 times fewer calls; opens took half of the time."""
    assert """\
4711: alice, 1 node, 00:01:40
4733: alice, 1 node, 00:01:40
From 4711 to 4733                     4711     4733  change
  mean size, written               1.9 KiB  1.0 MiB    548x
  writes                        23,000,000   41,984   1/548
  time in Lustre                    46.0 s   23.0 s     1/2
  time in Lustre, of node time      46.0 %   23.0 %     1/2
  mean time of open                 2.00 s   1.00 s     1/2
  time in open                      46.0 s   23.0 s     1/2
The same in both: 5 numbers.
""" == text(diff(record(*SLOW), record(*FAST, name="4733")))


def test_the_share_of_the_busiest_node_is_no_part_of_the_time_in_lustre():
    """It is a row "time in write, busiest node", 100 % of the 23 s of the only node."""
    def written(seconds):
        return record(llite(write_bytes=GIB, write_calls=37, write=37,
                            write_us=seconds * 1_000_000))

    found = diff(written(23), written(41))
    assert [(23.0, 41.0), (0.23, 0.41)] == [
        (row(found, metric).a.low, row(found, metric).b.low)
        for metric in ("time in Lustre", "time in Lustre, of node time")]


def test_the_same_record_has_no_difference():
    """Also one with lower bounds, which are its own."""
    for found in (one_node()[0], many_nodes()[0]):
        assert "\nNo difference.\nThe same in both: " in text(diff(found, found))


def test_what_was_not_there_and_what_is_no_more():
    found = diff(record(llite(open=23)), record(llite(mkdir=37)))
    assert ("from 0", "to 0") == tuple(
        diff_text.format_ratio(*row(found, metric).ratio)
        for metric in ("calls of mkdir", "calls of open"))
    assert (ROSE, FELL) == (row(found, "calls of mkdir").direction,
                            row(found, "calls of open").direction)


def test_small_changes_are_shown_with_all():
    """2 % more bytes, in twice the calls."""
    found = diff(record(llite(read_bytes=100 * GIB, read_calls=23)),
                 record(llite(read_bytes=102 * GIB, read_calls=46)))
    assert "bytes read" not in text(found) and "reads" in text(found)
    assert "and 1 smaller change (--all shows it)\n" in text(found)
    assert re.search("bytes read +100.0 GiB +102.0 GiB +1.02x", text(found, show_all=True))


# -- what is certain -----------------------------------------------------------------------------

def low(**values):
    return llite(**values)._replace(lower_bound=True)


@pytest.mark.parametrize("a, b, direction, ratio", [
    (llite(open=23), llite(open=46), ROSE, (2, 2)),
    (llite(open=46), llite(open=23), FELL, (0.5, 0.5)),
    (llite(open=23), low(open=46), ROSE, (2, inf)),
    (low(open=46), llite(open=23), FELL, (0, 0.5)),
    (low(open=23), llite(open=46), UNCERTAIN, None),
    (llite(open=46), low(open=23), UNCERTAIN, None),
    (low(open=23), low(open=2300), UNCERTAIN, None),
    (low(open=23), low(open=23), UNCERTAIN, None),
    (llite(open=23), low(mkdir=1), UNCERTAIN, None),
], ids=["more", "fewer", "more, at least", "fewer, at least", "may be more", "may be fewer",
        "both may be any", "alike, or not", "none, or not"])
def test_a_change_is_claimed_only_where_the_bounds_do_not_overlap(a, b, direction, ratio):
    [one] = [one for found in [diff(record(a), record(b, name="4733"))]
             for one in (*found.changes, *found.uncertain) if one.metric == "calls of open"]
    assert direction == one.direction
    assert ratio is None or ratio == one.ratio


def test_what_cannot_be_told_is_said():
    printed = text(diff(record(low(read_bytes=23 * MIB, read_calls=23)),
                        record(llite(read_bytes=37 * MIB, read_calls=37))))
    assert ("No difference that is certain.\nUncertain, since a number with >= may be larger"
            in printed)
    assert re.search(r"  bytes read +>= 23\.0 MiB  37\.0 MiB\n", printed)


def test_small_writes_that_are_not_counted_have_an_upper_bound():
    """Between 1 MiB and 2 MiB were written, and then 4 MiB: two to four times."""
    a, b = (json.loads(json.dumps(record(llite(write_bytes=MIB, write_calls=23))))
            for _ in range(2))
    a["file_systems"][0].update(too_low=["write_bytes"], write_bytes_max=2 * MIB)
    b["file_systems"][0]["application"]["write_bytes"] = 4 * MIB
    one = row(diff(a, b), "bytes written")
    assert (ROSE, (2, 4)) == (one.direction, one.ratio)
    assert re.search(r"bytes written +1\.0-2\.0 MiB +4\.0 MiB +2x to 4x",
                     text(diff(a, b)))


def test_what_one_could_not_read_is_known_of_the_other_alone():
    printed = text(diff(record(unread("llite"), osc(read_bytes=MIB)),
                        record(llite(read_bytes=MIB), osc(read_bytes=MIB))))
    assert "scratch: operations are known of 4733 alone\n" in printed
    assert "scratch: what programs read and wrote is known of 4733 alone\n" in printed
    assert "from 0" not in printed


def test_a_file_system_that_one_of_them_used():
    printed = text(diff(record(llite(open=23)), record(
        llite(open=23), llite("home", read_bytes=37 * MIB, read_calls=5, open=41))))
    assert "home: used by 4733 alone: 37.0 MiB read, 41 operations\n" in printed


def test_what_the_storage_servers_counted_is_compared_between_its_bounds():
    """Exports: 23 to 37 reads, and 41 to 43; job_stats: 5, and at least 7."""
    def seen(low, high, reads, is_low):
        io = dict.fromkeys(("read_bytes", "write_bytes", "reads", "writes", "ost_operations",
                            "mdt_operations"), 0)
        return {**record(), "by_node": {"file_systems": [
            {"name": "scratch", "low": {**io, "reads": low}, "high": {**io, "reads": high}}]},
            "harvest": {"file_systems": [{"name": "scratch", "read_rpcs": reads, "operations": {},
                                          "lower_bound": is_low}]}}
    found = diff(seen(23, 37, 5, False), seen(41, 43, 7, True))
    assert (ROSE, (41 / 37, 43 / 23)) == row(found, "RPCs, read, by its nodes")[5:7]
    assert (ROSE, (7 / 5, inf)) == row(found, "RPCs, read, at the servers")[5:7]
    assert UNCERTAIN == row(diff(seen(23, 37, 0, False), seen(37, 41, 0, False)),
                            "RPCs, read, by its nodes").direction


def test_what_the_nodes_asked_mdts_for_is_not_0_where_that_is_not_known():
    """Of a job that shared a node nothing is known by node, but its nodes count MDT requests."""
    io = dict.fromkeys(("read_bytes", "write_bytes", "reads", "writes", "ost_operations"), 0)
    here = record(llite(open=23), md_stats(getattr=41))
    alone = {**here, "by_node": {"file_systems": [
        {"name": "scratch", "low": {**io, "mdt_operations": 11}, "high": None}]}}
    assert [] == [one.metric for one in (*diff(alone, here).changes, *diff(here, alone).changes)]


def test_that_nodes_were_shared_is_said():
    shared = job(of_node(deltas=[llite(open=23)], other_jobs=1))[0]
    assert ("note: 4711: other jobs were on 1 of its nodes: the numbers are the nodes', not this "
            "job's alone") in flat(diff(shared, record(llite(open=37), name="4733")))


# -- nodes and times -----------------------------------------------------------------------------

def test_amounts_stand_by_node_hour_where_nodes_differ():
    """Four times the bytes on four nodes; by node-hour as many."""
    found = diff(record(llite(read_bytes=GIB, read_calls=23)),
                 record(llite(read_bytes=GIB, read_calls=23), nodes=4))
    assert (4, 4) == row(found, "bytes read").ratio
    assert (1, 1) == row(found, "bytes read").per_node_hour
    assert re.search(r"bytes read +1\.0 GiB  4\.0 GiB +4x +1x\n", text(found))
    assert "the time of all nodes (100 s of 4711, 400 s of 4733)." in flat(found)


def test_the_number_of_osts_is_no_amount_by_node_hour():
    """They are as many in a longer run."""
    a, b = record(llite(open=23)), record(llite(open=37), nodes=4)
    for osts_used, of_job in ((1, a), (3, b)):
        of_job["file_systems"][0]["balance"] = {"used": osts_used}
    found = row(diff(a, b), "OSTs used")
    assert (3, 3) == found.ratio and found.per_node_hour is None


def test_nodes_that_are_missing_have_no_node_hours():
    """A mean over nodes of which one is not known would be none."""
    found = diff(record(llite(read_bytes=GIB)), record(llite(read_bytes=2 * GIB), nodes=2,
                                                       expected=3, name="4733"))
    assert row(found, "bytes read").per_node_hour is None
    assert "amounts by node-hour are unknown for 4733.\n" in text(found)
    assert "4733: alice, 2 of 3 nodes, 00:01:40\n" in text(found)


def test_equal_jobs_have_no_such_column():
    assert "node-hour" not in text(diff(record(*SLOW), record(*FAST)))


# -- parts ---------------------------------------------------------------------------------------

def test_two_parts_of_a_job():
    [whole, _] = several_file_systems()
    found = diff(whole, whole, phases=("stage", "solve" * 40))
    assert ("to 0", "from 0") == tuple(diff_text.format_ratio(*row(found, metric).ratio)
                                       for metric in ("bytes read", "bytes written"))
    assert (23.0, 37.0) == row(found, "elapsed").a[:1] + row(found, "elapsed").b[:1]


def test_a_part_that_is_not_there():
    with pytest.raises(LookupError):
        read_numbers(one_node()[0], "4711", "solve")


# -- findings ------------------------------------------------------------------------------------

def test_findings_come_and_go():
    def finding(name, file_system="scratch"):
        return Finding(name, file_system, 0.5, f"the number of {name}", "", "", "", {})
    found = diff(record(*SLOW), record(*FAST), findings=(
        [finding("small_writes"), finding("one_ost"), finding("flock")],
        [finding("one_ost"), finding("many_opens"), finding("flock", "home")]))
    assert [line for line in text(found).splitlines() if line.startswith("Finding")] == [
        "Finding resolved: scratch: the number of small_writes (small_writes, 4711)",
        "Finding resolved: scratch: the number of flock (flock, 4711)",
        "Finding new: scratch: the number of many_opens (many_opens, 4733)",
        "Finding new: home: the number of flock (flock, 4733)"]
    assert ["small_writes", "flock"] == [
        one["id"] for one in json.loads(diff_text.format_json(found))["findings"]["resolved"]]


# -- records of a release to come, and odd ones ----------------------------------------------------

def test_of_a_future_record_what_is_known_is_compared_and_the_rest_named():
    future = json.loads(json.dumps(record(llite(open=46))))
    future.update(schema=2, planets={"mars": 1})
    future["file_systems"][0].update(moons=[1], network="none")
    found = diff(record(llite(open=23)), future)
    assert (2, 2) == row(found, "calls of open").ratio
    assert ("note: 4733: not compared, as this release of iostats does not know it: schema 2, "
            "file_systems.moons, planets") in flat(found)


def test_bounds_of_another_form_are_one_that_is_not_known():
    odd = json.loads(json.dumps(record(llite(open=23, read_bytes=5))))
    odd["file_systems"][0]["too_high"] = [[[]], 23, "read_bytes"]
    found = diff(odd, record(llite(open=37, read_bytes=7)))
    assert (0, 5) == row(found, "bytes read").a[:2]


@pytest.mark.parametrize("number", [-1, True, "23", None, [], float("nan"), float("inf"), 10**400])
def test_what_is_no_number_is_not_known(number):
    odd = json.loads(json.dumps(record(llite(open=23, read_bytes=5))))
    odd["file_systems"][0]["application"]["read_bytes"] = number
    odd["file_systems"][0]["operations"]["open"]["count"] = number
    found = diff(odd, record(llite(open=37, read_bytes=7)))
    assert [] == [one for one in found.changes if one.metric in ("bytes read",)]
    text(found, show_all=True)


ANYTHING = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                            st.sampled_from(["name", "job", "file_systems", "coverage", "count",
                                             "application", "operations", "low", "too_low",
                                             "metadata", "harvest", "phases", "read_bytes"]),
                            inner, max_size=4))


@settings(max_examples=examples(150), deadline=None)
@given(st.dictionaries(st.sampled_from(["job", "file_systems", "coverage", "harvest", "phases",
                                        "schema", "x"]), ANYTHING), ANYTHING)
def test_any_form_is_compared_as_far_as_it_goes(form, fs):
    form["file_systems"] = [fs, {"name": "scratch", "application": fs, "operations": fs,
                                 "metadata": fs, "low": fs, "too_low": fs, "too_high": fs,
                                 "sources": fs}]
    found = diff(form, record(llite(open=37)))
    assert text(found, show_all=True)
    json.loads(diff_text.format_json(found), parse_constant=pytest.fail)


def test_hostile_names_are_harmless():
    odd = json.loads(json.dumps(record(llite("a\x1b[2Jb", open=23, read_bytes=5))))
    odd["file_systems"][0]["operations"]["open\x1b[2J"] = {"count": 5, "seconds": 3}
    other = json.loads(json.dumps(odd).replace('"count": 5', '"count": 50'))
    printed = text(diff(odd, other), show_all=True)
    assert "\x1b" not in printed and "open\\x1b[2J" in printed


# -- the mirror ----------------------------------------------------------------------------------

def mirrored(ratio):
    return tuple(inf if number == 0 else 0 if number == inf else 1 / number
                 for number in reversed(ratio))


def close(one, other):
    return all(isclose(*pair) or pair[0] == pair[1] for pair in zip(one, other))


@settings(max_examples=examples(80), deadline=None)
@given(jobs(), jobs())
def test_the_other_way_round_it_is_the_mirror(a, b):
    """The same rows in the same order, what rose fell; and what both say of the rest."""
    there, back = diff(a[0], b[0]), diff(b[0], a[0])
    assert [(one.file_system, one.metric) for one in there.changes] == [
        (one.file_system, one.metric) for one in back.changes]
    for one, other in zip(there.changes, back.changes):
        assert {ROSE: FELL, FELL: ROSE}[one.direction] == other.direction
        assert (one.a, one.b) == (other.b, other.a)
        assert close(mirrored(one.ratio), other.ratio)
        assert changes.is_small(one) == changes.is_small(other)
    assert [(one.file_system, one.metric, one.a, one.b) for one in there.uncertain] == [
        (one.file_system, one.metric, one.b, one.a) for one in back.uncertain]
    assert there.same == back.same
    assert [there.only_in["a"], there.only_in["b"]] == [back.only_in["b"], back.only_in["a"]]


@settings(max_examples=examples(40), deadline=None)
@given(jobs())
def test_a_job_does_not_differ_from_itself(found):
    assert [] == diff(found[0], found[0]).changes + diff(found[0], found[0]).uncertain


@settings(max_examples=examples(60), deadline=None)
@given(jobs(), jobs(), st.sampled_from([60, 80, 120]))
def test_no_line_of_a_comparison_is_wider_than_the_terminal(a, b, width):
    found = diff(a[0], b[0])
    assume(found.changes)
    printed = diff_text.format_comparison(found, "binary", Screen(width, False, None), True)
    assert [] == [line for line in printed.splitlines() if measure_width(line) > width]


@settings(max_examples=examples(100), deadline=None)
@given(*[st.integers(0, 10**6)] * 4, st.booleans(), st.booleans())
def test_what_is_claimed_is_true_of_the_true_numbers(a, b, more_a, more_b, a_is_low, b_is_low):
    """Whatever a lower bound stands for."""
    true_a, true_b = a + more_a * a_is_low, b + more_b * b_is_low
    found = diff(record(llite(open=a)._replace(lower_bound=a_is_low)),
                 record(llite(open=b)._replace(lower_bound=b_is_low), name="4733"))
    for one in found.changes:
        if one.metric == "calls of open":
            assert true_b > true_a if one.direction == ROSE else true_b < true_a
            if true_a:
                assert one.ratio[0] - 1e-9 <= true_b / true_a <= one.ratio[1] + 1e-9


@settings(max_examples=examples(60), deadline=None)
@given(jobs())
def test_the_short_form_of_a_job_does_not_differ_from_the_whole(found):
    """What the accounting keeps has fewer numbers, and none that is another one."""
    short = comment_reader.make_record(comment_reader.decode(accounting_comment.encode(found[0])))
    assert [] == diff(found[0], short).changes


def test_what_the_short_form_has_as_one_is_not_compared():
    """Ten file systems of which it names some; and all MDTs are one number there."""
    of_job = [one for number in range(40) for one in (
        llite(f"scratch{number}", read_bytes=23 + number, open=5),)]
    whole = record(*of_job, md_stats(close=23), md_stats("MDT0001", close=37))
    short = comment_reader.make_record(comment_reader.decode(
        accounting_comment.encode(whole, 300)), "4733")
    assert any(fs["name"].endswith(" more)") for fs in short["file_systems"])
    found = diff(whole, short)
    assert ([], {"a": [], "b": []}) == (found.changes, found.only_in)
    assert "note: 4733: its record is the short form from the accounting" in text(found)


@pytest.mark.parametrize("low, text", [
    ([], "37 bytes"), (["read_bytes"], ">= 37 bytes"), (["read_calls"], "<= 37 bytes"),
    (["read_bytes", "read_calls"], "-"),
], ids=["exact", "bytes", "calls", "both"])
def test_a_mean_is_as_certain_as_its_total_and_its_calls(low, text):
    """23 reads of 851 bytes: as bounds.mark_of_mean has it, where ~ is not known at all."""
    form = record(llite(read_bytes=851, read_calls=23))
    form["file_systems"][0]["too_low"] = low
    bounds = read_numbers(form, "A").numbers["scratch", "mean size, read"]
    assert text == diff_text.describe_bounds(bounds, "mean size, read", "binary")
