"""GET /events: server-sent events, to readers that are quick, slow, away and back."""
from __future__ import annotations

import socket

from collector_desk import EventStream, collector, evicted
from processes import until


def counts(stream, number):
    return [stream.next()[1]["count"] for _ in range(number)]


def test_a_stream_has_what_is_kept_and_then_each_event_as_it_comes():
    with collector() as desk:
        desk.take(evicted(1, count=23), evicted(2, count=37))
        stream = desk.stream()
        assert "HTTP/1.1 200 OK" == stream.head[0]
        assert "Content-Type: text/event-stream" in stream.head
        assert {23, 37} == set(counts(stream, 2))
        desk.take(evicted(3, count=41))
        kind, data = stream.next()
        assert ("message", 41, str(data["place"])) == (kind, data["count"], stream.last_id)
        assert evicted(3).id == data["id"] and "evicted" == data["kind"]
        stream.close()


def test_a_reader_that_comes_back_goes_on_where_it_was():
    with collector() as desk:
        desk.take(*(evicted(number, count=number) for number in range(1, 6)))
        stream = desk.stream()
        seen = counts(stream, 3)
        stream.close()
        desk.take(evicted(23, count=23))
        again = desk.stream(Last_Event_ID=stream.last_id)
        assert sorted([*range(1, 6), 23]) == sorted(seen + counts(again, 3))
        third = desk.stream(after=int(again.last_id) - 1)
        assert [23] == counts(third, 1)
        third.close()
        again.close()


def test_a_reader_that_was_away_too_long_is_told_how_many_it_missed():
    with collector(keep=5) as desk:
        desk.take(evicted(99))
        stream = desk.stream()
        stream.next()
        stream.close()
        desk.take(*map(evicted, range(41)))
        again = desk.stream(Last_Event_ID=stream.last_id)
        assert ("dropped", {"dropped": 36}) == again.next()
        assert 5 == len([again.next() for _ in range(5)])
        again.close()


def test_a_stream_beats_while_nothing_happens():
    with collector(heartbeat_s=0.05) as desk:
        stream = desk.stream()
        line = [stream._file.readline() for _ in range(5)]
        assert b":\n" in line
        stream.close()


def test_a_slow_reader_costs_bounded_memory_and_gets_all_when_it_reads():
    """What it has not taken waits among the kept, once for all readers."""
    with collector(keep=10_000) as desk:
        # Its window is small, so that little waits in the kernel.
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", desk.port))
        slow.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: desk.on_loop(lambda: len(desk.server.streams)))
        quick = desk.stream()
        for number in range(0, 9000, 100):
            desk.take(*(evicted(number + one, count=number + one + 1) for one in range(100)))
        assert 9000 == len(set(counts(quick, 9000)))
        waiting = desk.on_loop(lambda: max(one.unread for one in desk.server.streams))
        assert waiting < 1 << 18
        file, seen = slow.makefile("rb"), 0
        while seen < 9000:
            seen += file.readline().startswith(b"data: ")
        file.close()
        slow.close()
        quick.close()
        until(lambda: not desk.on_loop(lambda: len(desk.server.streams)))


def test_a_reader_that_takes_nothing_any_more_is_closed():
    with collector(keep=10_000, heartbeat_s=0.05) as desk:
        stuck = EventStream(desk.port, read=False)
        until(lambda: desk.on_loop(lambda: len(desk.server.streams)))
        desk.take(*(evicted(number, client="n" * 200) for number in range(9_999)))
        until(lambda: not desk.on_loop(lambda: len(desk.server.streams)))
        stuck.close()


def test_many_readers_get_the_same():
    with collector() as desk:
        streams = [desk.stream() for _ in range(100)]
        desk.take(*(evicted(number, count=number + 1) for number in range(23)))
        for one in streams:
            assert [*range(1, 24)] == sorted(counts(one, 23))
            one.close()


def test_there_are_no_more_readers_than_there_may_be():
    with collector(connections=8) as desk:
        streams = [desk.stream() for _ in range(4)]
        over = desk.stream()
        assert over.head[0].startswith("HTTP/1.1 503 ")
        assert 0 == len(desk.proxy.getTraps(0)[0])     # others are served
        for one in [*streams, over]:
            one.close()


def test_a_silent_reader_is_no_idle_connection():
    with collector(heartbeat_s=0.05) as desk:
        stream = desk.stream()
        desk.on_loop(lambda: [desk.server.connections._close_idle() for _ in range(41)])
        desk.take(evicted(23, count=23))
        assert [23] == counts(stream, 1)
        stream.close()
