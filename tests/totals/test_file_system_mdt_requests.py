"""What an MDT was asked, and how fast."""
from __future__ import annotations

from iostats.totals.file_system import MdtRequests


def test_average_and_peak_are_of_requests_that_went_to_the_mdt():
    """lock_match is the client's own."""
    mdt = MdtRequests()
    mdt.add({"close": 41, "lock_match": 700}, "nid1", 10.0)
    mdt.add({"close": 5, "getattr": 14}, "nid2", 5.0)
    found = mdt.record()
    assert ({"close": 46, "getattr": 14, "lock_match": 700}, 60, 4.0, "nid1", 4.1) == (
        found.operations, found.requests, found.per_second_per_node, found.peak.node,
        found.peak.per_second)


def test_of_no_time_there_is_no_rate():
    mdt = MdtRequests()
    mdt.add({"close": 41}, "nid1", 0.0)
    assert (41, None, None) == (mdt.record().requests, mdt.record().per_second_per_node,
                                mdt.record().peak)


def test_parts_in_any_order_are_the_same():
    parts = [MdtRequests(), MdtRequests()]
    parts[0].add({"close": 41}, "nid1", 10.0)
    parts[1].add({"close": 5, "open": 3}, "nid2", 1.0)
    operations, node_ns, peak = parts[1].state()
    one, other = MdtRequests(), MdtRequests(operations, node_ns, tuple(peak))
    for part in parts:
        one.join(part)
    other.join(parts[0])
    assert one.record() == other.record()
    assert "nid2" == one.record().peak.node
