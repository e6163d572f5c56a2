"""
event_sinks: what a site's events cost those who are told of them, and a page of how it stands.

    log server    the sink for syslog as a follower calls it, by UDP; against a bare loop that sends
                  the same datagrams, made before.  No process reads the socket: what comes in is
                  dropped by the kernel, and its cost is the sender's, in both.
    database      events to lines, compressed and synced into the spool; against writing and syncing
                  the same bytes, made before
    page          counting, which is done on the server's loop; and the page itself
"""

import os
import socket
import sys
import tempfile
import time
import zlib

from measure import HERE, Table, median_ratio

sys.path.insert(0, os.path.dirname(HERE))

_AT_ONCE = 500                          # followers.MOST_AT_ONCE
_ROUNDS = 7


def run(quick):
    """The Tables of this figure."""
    count = 5_000 if quick else 20_000
    rounds = 3 if quick else _ROUNDS
    rows = [_syslog(count, rounds), _influxdb(count, rounds), _counting(count, rounds)]
    pages = [_page(targets, rounds) for targets in ((100, 10_000) if quick else
                                                    (100, 10_000, 100_000))]
    return [Table(f"{count:,} events, in parts of {_AT_ONCE}", (
        "receiver", "us of CPU an event", "bare, us", "ratio", "of a core at 5,000/s"), rows, [
            f"Medians of {rounds} rounds, in turns with the bare one."]),
        Table("The page's part of events, for Prometheus", (
            "targets", "ms of CPU", "kB"), pages, ["For each scrape, in a thread of its own."])]


def _events(count):
    from iostats.events.event import make_event
    return [make_event("boot", f"oss{n % 40}", (str(n),), "evicted", 1795333379.0 + n / 1000,
                       file_system="scratch", target=f"scratch-OST{n % 400:04x}", cause="silent",
                       clients=[f"10.9.{n % 250}.{n % 200}@o2ib"], count=23, skipped=7,
                       message=f"scratch-OST{n % 400:04x}: haven't heard from client "
                               f"f15aa50c-8084-47f6-bb2e-{n:012x} (at 10.9.0.1@o2ib) in 39 "
                               f"seconds.")
            for n in range(count)]


def _cpu_s(work):
    began = time.process_time()
    work()
    return time.process_time() - began


def _row(name, count, ours, bare):
    return (name, f"{_median(ours) / count * 1e6:.1f}",
            f"{_median(bare) / count * 1e6:.1f}" if bare else "-",
            f"{median_ratio(ours, bare):.1f}" if bare else "-",
            f"{_median(ours) / count * 5000:.1%}")


def _median(values):
    return sorted(values)[len(values) // 2]


def _config(**options):
    from iostats import sinks
    from iostats.base import config
    found = config.Config()
    sinks.add_sections(found)
    for name, value in options.items():
        found.set_value(name.replace("_", ".", 1), str(value), "the benchmark")
    return found


def _syslog(count, rounds):
    from iostats.sinks import syslog
    from iostats.sinks.syslog.messages import format_message
    events, ours, bare = _events(count), [], []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        port = receiver.getsockname()[1]
        sink = syslog.make(_config(syslog_send_to=f"udp://127.0.0.1:{port}"), print,
                           lambda: 1795333379.0)
        made = [format_message(event, {}, 3, "iostats@32473") for event in events]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect(("127.0.0.1", port))

            def sink_sends():
                for at in range(0, count, _AT_ONCE):
                    assert len(events[at:at + _AT_ONCE]) == sink.store_events(
                        events[at:at + _AT_ONCE], {})

            def bare_sends():
                for one in made:
                    sender.send(one)
            for _ in range(rounds):
                ours.append(_cpu_s(sink_sends))
                bare.append(_cpu_s(bare_sends))
        sink.close()
    return _row("log server, UDP", count, ours, bare)


def _influxdb(count, rounds):
    from iostats.base.private_files import write_atomically
    from iostats.sinks.influxdb.lines import EventLines
    from iostats.sinks.influxdb.sender import PointQueue
    events, ours, bare = _events(count), [], []
    with tempfile.TemporaryDirectory() as directory:
        queue = PointQueue(os.path.join(directory, "spool"), 1 << 30)
        made = [zlib.compress("\n".join(EventLines().lines(events[at:at + _AT_ONCE], {})).encode(),
                              1) for at in range(0, count, _AT_ONCE)]

        def keep():
            lines = EventLines()
            for at in range(0, count, _AT_ONCE):
                queue.put(lines.lines(events[at:at + _AT_ONCE], {}))

        def write():
            for number, data in enumerate(made):
                write_atomically(os.path.join(directory, str(number)), data)
        for _ in range(rounds):
            ours.append(_cpu_s(keep))
            bare.append(_cpu_s(write))
    return _row("database, into the spool", count, ours, bare)


def _counting(count, rounds):
    from iostats.sinks.prometheus.event_page import EventCounts
    from iostats.store.event_store import Change
    changes = [Change(event, 30) for event in _events(count)]
    counts = EventCounts()
    return _row("page, counting", count,
                [_cpu_s(lambda: counts.add(changes)) for _ in range(rounds)], [])


def _page(targets, rounds):
    """200 storage servers or fewer, each with the same number of targets; one in 100 is down."""
    from iostats.sinks.prometheus.event_page import EventCounts
    from iostats.sinks.prometheus.metrics_server import format_page
    counts, servers = EventCounts(), min(200, targets // 10)
    for server in range(servers):
        counts.stands(f"oss{server}", 100.0, 10.0, {"health": "healthy", "targets": {
            f"fs{server % 100}-OST{number:04x}": {
                "state": "down" if number % 100 == 37 else "up", "clients": 1000}
            for number in range(server // 100 * 10_000,
                                server // 100 * 10_000 + targets // servers)}})
    sizes = []
    times = [_cpu_s(lambda: sizes.append(len(format_page(counts.families(100.0)))))
             for _ in range(rounds)]
    return f"{targets:,}", f"{_median(times) * 1000:.0f}", f"{sizes[0] / 1000:.0f}"
