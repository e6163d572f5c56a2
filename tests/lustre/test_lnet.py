"""LNet's files: stats, nis and routers of Lustre 2.10 to 2.17."""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.lustre.lnet import (
    Interface,
    LnetPeer,
    LnetStats,
    parse_interfaces,
    parse_peers,
    parse_routers,
    parse_stats,
    subtract,
)

# As printed by "%-24s %6s %5lld %4d %4d %4d %5d %5d %5d\n": two CPU partitions.
NIS = """\
nid                      status alive refs peer  rtr   max    tx   min
0@lo                         up     0    2    0    0     0     0     0
0@lo                         up     0    0    0    0     0     0     0
10.9.0.3@o2ib                up    37   23    8    0   128   101   -37
10.9.0.3@o2ib                up    37   11    8    0   128   -41   -59
10.9.8.3@tcp               down    -1    1    8    0   256   256   249
"""
# "%-24s %4d %5s %5lld %5d %5d %5d %5d %5d %d\n", from 2.10 to 2.17.
PEERS = """\
nid                      refs state  last   max   rtr   min    tx   min queue
0@lo                        1    NA    -1     0     0     0     0     0 0
10.9.1.23@o2ib              5    up    37     8     8    -3    -2    -7 9312
fd00:9::23@tcp              1    NA    -1     8     8     8     5     1 4656
"""
# "%-4d %7d %9d %6s %12llu %9d %8s %7d %s\n" (2.12), "%-4d %7d %5s %s\n" (2.15).
ROUTERS = {"2.12": """\
ref  rtr_ref alive_cnt  state    last_ping ping_sent deadline down_ni router
4          1         3     up           41         1       NA       0 10.9.1.1@o2ib
4          1         3   down           41         1       53       1 10.9.1.2@o2ib
""", "2.15": """\
ref  rtr_ref alive router
4          1    up 10.9.1.1@o2ib
5          1  down 10.9.1.2@o2ib
"""}


def test_the_messages_of_a_machine():
    assert LnetStats(23, 37, 41, 43, 4700, 5300, 5900, 6100) == parse_stats(
        "7 1031 0 23 37 41 43 4700 5300 5900 6100\n")


def test_interfaces_are_added_up_over_cpu_partitions():
    assert {"10.9.0.3@o2ib": Interface(True, 256, 41, -59, True),
            "10.9.8.3@tcp": Interface(False, 256, 0, 249, False)} == parse_interfaces(NIS)
    assert {} == parse_interfaces("")


def test_credits_of_peers_are_those_by_which_this_machine_sends():
    """Not those of a router, whose `min` is before them."""
    assert {"10.9.1.23@o2ib": LnetPeer(2, -7),
            "fd00:9::23@tcp": LnetPeer(0, 1)} == parse_peers(PEERS)
    assert {} == parse_peers("")


@pytest.mark.parametrize("release", ROUTERS)
def test_routers_that_are_up_and_down(release):
    assert {"10.9.1.1@o2ib": True, "10.9.1.2@o2ib": False} == parse_routers(ROUTERS[release])
    assert {} == parse_routers(ROUTERS[release].partition("\n")[0] + "\n")


@pytest.mark.parametrize("parse, text, why", [
    (parse_stats, "1 2 3", "expected 11 numbers, got '1 2 3'"),
    (parse_stats, "7 1031 0 23 37 41 -43 4700 5300 5900 6100", "expected 11 numbers"),
    (parse_interfaces, "nid state\n", "expected the columns nid, status, alive, max, tx, min"),
    (parse_peers, "nid tx\n", "peers: expected the columns nid, tx, min, got 'nid tx'"),
    (parse_interfaces, NIS + "10.9.0.3@o2ib up\n", "expected 9 columns, got '10.9.0.3@o2ib up'"),
    (parse_routers, "router\n", "expected the columns router, alive")])
def test_what_is_expected_is_in_the_error(parse, text, why):
    with pytest.raises(ValueError, match=why):
        parse(text)


BEFORE = LnetStats(2**32 - 23, 37, 41, 43, 4700, 5300, 5900, 6100)


@pytest.mark.parametrize("after, expected", [
    (BEFORE._replace(received=60, received_bytes=5400), LnetStats(0, 23, 0, 0, 0, 100, 0, 0)),
    (BEFORE._replace(sent=14, sent_bytes=4747), LnetStats(37, 0, 0, 0, 47, 0, 0, 0)),
    (LnetStats(*[0] * 8), None),
    (BEFORE._replace(sent=14), None),
    (BEFORE, LnetStats(*[0] * 8)),
], ids=["grew", "continued at 0 after 32 bits", "was reset", "fell without a byte", "stood still"])
def test_what_was_counted_in_between(after, expected):
    assert expected == subtract(BEFORE, after)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=8, max_size=8),
       st.lists(st.integers(0, 2**31), min_size=8, max_size=8))
def test_a_gain_is_found_again_whatever_the_counts_were(before, gains):
    first = LnetStats(*(one % 2**32 for one in before[:4]), *(one // 2 for one in before[4:]))
    after = LnetStats(*((old + new) % 2**32 for old, new in zip(first[:4], gains[:4])),
                      *(old + new for old, new in zip(first[4:], gains[4:])))
    assert subtract(first, after) in (LnetStats(*gains), None)
    if any(gains[4:]):
        assert subtract(first, after) == LnetStats(*gains)


@given(st.text(max_size=200))
def test_other_texts_are_understood_or_refused(text):
    for parse in (parse_stats, parse_interfaces, parse_routers, parse_peers):
        try:
            parse(text)
        except ValueError:
            pass
