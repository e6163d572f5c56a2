"""
Reports that are alike are added as one list each: the record is the same, to the last byte, as that
of nodes which were added one by one.
"""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_job_totals import llite
from test_job_totals_merge import DELTAS, added, merged
from trees import report

from iostats.totals import report_shapes

ENDED = 1_795_225_060.25
AMOUNT = st.sampled_from([0, 23, 37, 41_003, 2**31, 2**61, 2**62 - 1, 2**62, 2**63 - 1])
CROWDS = st.lists(st.lists(DELTAS, max_size=4), min_size=1, max_size=3).flatmap(
    lambda shapes: st.lists(st.tuples(st.sampled_from(shapes), st.lists(AMOUNT, max_size=3)),
                            min_size=10, max_size=30))


def crowd_of(rows):
    """[[report]]: a node for each (deltas, amounts); its numbers are from `amounts` in turn."""
    return [[report(f"nid{number:05}", seq="one", ended=ENDED, elapsed_s=7.0 + number % 3,
                    deltas=[with_amounts(one, amounts) for one in deltas])]
            for number, (deltas, amounts) in enumerate(rows)]


def with_amounts(delta, amounts):
    if delta.values is None or not amounts:
        return delta
    return delta._replace(values={metric: amounts[number % len(amounts)]
                                  for number, metric in enumerate(delta.values)})


def text(totals):
    return json.dumps(totals.record())


@given(CROWDS)
@example([([llite(mknod=0, read_bytes=23)], [])] * 10)          # a whole of which one part is told
def test_nodes_that_are_alike_make_the_record_of_nodes_one_by_one(rows):
    nodes = crowd_of(rows)
    one_by_one = merged(*(added([reports]) for reports in nodes))
    assert text(one_by_one) == text(added(nodes))


@given(CROWDS, st.integers(0, 30))
def test_what_was_shown_meanwhile_changes_nothing(rows, place):
    """A record, and a state as a journal keeps it, at any place; the job goes on."""
    nodes = crowd_of(rows)
    shown = added(nodes[:place])
    assert text(added(nodes[:place])) == text(shown)
    shown.state()
    for reports in nodes[place:]:
        for one in reports:
            shown.add(one)
    assert text(added(nodes)) == text(shown)


@pytest.mark.parametrize("limit, value", [("_MOST_SHAPES", 2), ("_MOST_NUMBERS", 5)])
def test_more_shapes_than_are_kept_are_added_one_by_one(monkeypatch, limit, value):
    deltas = [[llite(**{f"metric{number}": 23, "open": 41})] for number in range(4)]
    nodes = crowd_of([(deltas[number % 4], [number, 37]) for number in range(40)])
    expected = text(added(nodes))
    monkeypatch.setattr(report_shapes, limit, value)
    assert text(added(nodes)) == expected
    assert text(merged(*(added([reports]) for reports in nodes))) == expected
