"""The first thing that a page says: was the job slow because of its I/O?"""
from __future__ import annotations

import pytest
from page_records import ENDED, delta, labelled
from trees import report as of_node

from iostats.report import node_sets
from iostats.report.html.page import make_answer, make_tiles
from iostats.report.why.cause import (
    BUSY_TARGET,
    FAULT,
    KINDS,
    NOT_IN_LUSTRE,
    OWN_PATTERN,
    SLOW_TARGET,
    UNKNOWN,
    Cause,
)
from iostats.totals.job_totals import Totals


def record(*nodes, expected=None, **calls):
    """Of nodes with these seconds in open(), 41 each, for 100 s."""
    totals = Totals("4711", expected or len(nodes), fold=node_sets.fold_nodes)
    for number, seconds in enumerate(nodes):
        totals.add(of_node(f"nid{number}", [delta(
            "llite", "scratch", open=41, **({} if seconds is None else {
                "open_us": round(seconds * 1e6)}), **calls)], ended=ENDED, elapsed_s=100.0))
    return labelled(totals)[0]


def shared(seconds):
    """The same of one node, on which another job was."""
    found = record(seconds)
    return found.replaced(coverage=found.coverage.replaced(shared={"nid0": 1}))


@pytest.mark.parametrize("found, kind, head, text", [
    (record(2.3, 1.4), "good", "I/O did not make this job slow",
     "All its calls to Lustre together took 3.7 s, 3.7 % of the 00:01:40 that it ran."),
    (record(2.3, 2.3, 2.3), "good", "I/O hardly slowed this job",
     "Its programs spent 6.9 s in Lustre, 2.3 % of the time of its 3 nodes; unless most of it "
     "waited for the few that did it."),
    (record(13.0), "warn", "I/O took a part of this job's time",
     "Its programs spent 13.0 s in Lustre, 13 % of the time of its 1 node: 100 % of that in open "
     "on scratch."),
    (record(37.0), "bad", "I/O took much of this job's time",
     "Its programs spent 37.0 s in Lustre, 37 % of the time of its 1 node: 100 % of that in open "
     "on scratch."),
    (record(410.0), "bad", "I/O took much of this job's time",
     "Its programs spent 410.0 s in Lustre, 410 % of the time of its 1 node: 100 % of that in "
     "open on scratch.  Threads that wait at the same time each count."),
    (record(2.3, expected=2), "unknown", "It is unknown whether I/O slowed this job",
     "Its programs spent at least 2.3 s in Lustre, ~ 2.3 % of the time of the 1 node that "
     "reported; 1 of its nodes did not report."),
    (record(0.0, expected=2), "unknown", "It is unknown whether I/O slowed this job",
     "1 of its nodes did not report."),
    (record(37.0, expected=2), "bad", "I/O took much of this job's time",
     "Its programs spent at least 37.0 s in Lustre, ~ 37 % of the time of the 1 node that "
     "reported: ~ 100 % of that in open on scratch."),
    (shared(37.0), "unknown", "It is unknown whether I/O slowed this job",
     "Its programs spent up to 37.0 s in Lustre, <= 37 % of the time of its 1 node; other jobs "
     "were on its nodes, and their calls are in the numbers."),
    (shared(2.3), "good", "I/O did not make this job slow",
     "All its calls to Lustre together took up to 2.3 s, 2.3 % of the 00:01:40 that it ran."),
    (record(None), "unknown", "The time it waited for Lustre is unknown",
     "The nodes' counters do not time calls (Lustre clients do since 2.14)."),
    (record(expected=1), "unknown", "The time it waited for Lustre is unknown",
     "No node has reported, so the time of its calls is unknown."),
], ids=["a 27th", "little on each", "a part", "much", "threads", "a node is missing",
        "one did nothing", "much, though one is missing", "another job's, perhaps",
        "little, of all jobs together", "not timed", "none reported"])
def test_the_answer_is_no_more_than_the_numbers_say(found, kind, head, text):
    assert (kind, head, text) == tuple(make_answer(found))


def test_a_mean_is_at_least_where_its_bytes_are():
    """37 of 60 write() calls are not in the bytes, as they were small: 23 KiB in 60 calls."""
    totals = Totals("4711", 1, fold=node_sets.fold_nodes)
    totals.add(of_node("nid1", [delta("llite", "scratch", write_bytes=23_552, write_calls=60,
                                      uncounted_write_calls=37, uncounted_write_bytes=41)],
                       ended=ENDED, elapsed_s=100.0))
    found = labelled(totals)[0]
    tile = make_tiles(found, found.file_systems, "binary", None)[1]
    assert ("Written", ">= 23.0 KiB", "23552", "in 60 calls, >= 392 bytes each") == tile[:4]


def test_a_share_of_a_lower_bound_is_never_less_than_something():
    """41 ms of two nodes' 200 s are 0.02 %; with a third node's it may be any share."""
    for missing, text in ((0, "<0.1 % of node time"), (1, "~ 0.02 % of node time")):
        found = record(0.041, 0.0, expected=2 + missing)
        tiles = {tile.title: tile for tile in make_tiles(found, found.file_systems, "binary", None)}
        assert text == tiles["Time in Lustre"].about
    said = make_answer(found).text
    assert "~ 0.02 % of the time of the 2 nodes that reported; 1" in said


def test_a_cause_answers_and_an_unknown_one_does_not():
    found = record(37.0)
    for kind in KINDS:
        answer = make_answer(found, [Cause(kind, 0.5, "low", 0.37, "23 ms", [], {})])
        assert answer.text.startswith("23 ms.  Confidence: low.") == (kind != UNKNOWN)


@pytest.mark.parametrize("kind, confidence, colour, head", [
    (NOT_IN_LUSTRE, "high", "good", "Lustre was not the bottleneck"),
    (NOT_IN_LUSTRE, "medium", "good", "Lustre hardly slowed this job"),
    (FAULT, "medium", "bad", "A fault probably slowed this job"),
    (FAULT, "low", "warn", "A fault may have slowed this job"),
    (BUSY_TARGET, "high", "warn", "A busy target slowed this job"),
    (SLOW_TARGET, "medium", "warn", "A slow target probably slowed this job"),
    (OWN_PATTERN, "medium", "bad", "Small writes probably slowed this job"),
    (OWN_PATTERN, "low", "warn", "Small writes may have slowed this job"),
])
def test_colour_and_words_follow_the_confidence(kind, confidence, colour, head):
    cause = Cause(kind, 0.5, confidence, 0.37, "23 ms", [], {"finding": "small_writes"})
    assert (colour, head) == tuple(make_answer(record(37.0), [cause]))[:2]


def test_tiles_are_sums_of_all_file_systems():
    """Unknown is "-" and has no value."""
    found = record(2.3, 1.4)
    tiles = {tile.title: tile for tile in make_tiles(found, found.file_systems, "binary", 23)}
    assert ("82", "82", "mostly open (82)") == tiles["Operations"][1:4]
    assert ("3.7 s", "3.700000", "1.9 % of node time") == tiles["Time in Lustre"][1:4]
    assert ("23", "23") == tiles["Events"][1:3]
    found = shared(37.0)
    assert ("<= 37.0 s", "37.000000", "<= 37 % of node time") == next(
        tile for tile in make_tiles(found, found.file_systems, "binary", None)
        if tile.title == "Time in Lustre")[1:4]
    found = record(expected=1)
    assert ("-", "", "not known") == make_tiles(found, [], "binary", None)[0][1:4]
