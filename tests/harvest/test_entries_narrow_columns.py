"""A table that is narrower than its numbers says what one of 64 bits says."""
from __future__ import annotations

import numpy
from hypothesis import given
from hypothesis import strategies as st

from iostats.harvest.resets.entries import NarrowTable

NUMBERS = st.one_of(st.integers(0, 41), st.integers(0, 2**64 - 1), st.sampled_from(
    [2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]))


@given(st.lists(st.tuples(st.sampled_from(["put", "clear", "keep", "widen"]),
                          st.lists(NUMBERS, min_size=1, max_size=40), st.integers(1, 9))))
def test_it_is_a_table_of_numbers_of_64_bits(steps):
    table, plain = NarrowTable(3, 2), numpy.zeros((3, 2), numpy.uint64)
    for what, numbers, some in steps:
        length, width = plain.shape
        rows = numpy.unique(numpy.array([one % length for one in numbers]))
        if what == "put":
            values = numpy.resize(numpy.array(numbers, numpy.uint64), (len(rows), width))
            table.put(rows, values)
            plain[rows] = values
        elif what == "clear":
            table.clear(rows)
            plain[rows] = 0
        elif what == "keep":
            table.select_rows(rows, len(rows) + some)
            plain = numpy.concatenate([plain[rows], numpy.zeros((some, width), numpy.uint64)])
        elif width < 20:
            table.widen(width + some)
            plain = numpy.concatenate([plain, numpy.zeros((length, some), numpy.uint64)], axis=1)
        every = numpy.arange(len(plain))
        assert len(table) == len(plain) and (table.get(every) == plain).all()
        assert table.get(0).tolist() == plain[0].tolist()
        for place in range(plain.shape[1]):
            assert (table.column(place, slice(None)) == plain[:, place]).all()
            assert int(table.column(place, 0)) == int(plain[0, place])


def test_most_numbers_take_four_bytes():
    table = NarrowTable(1000, 30)
    values = numpy.full((1000, 30), 2**32 - 1, numpy.uint64)
    values[23, 7] = 2**32
    table.put(numpy.arange(1000), values)
    assert 1000 * (30 + 1) * 4 == table.nbytes
