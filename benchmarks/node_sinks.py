"""
node_sinks: what each node does, for Ganglia, Prometheus and InfluxDB, of one sweep.

    Ganglia: the whole sink, as it runs in the site's server: sums by node, datagrams, sending them
        over half of a sweep; against a bare loop that sends the same datagrams, made before.
    The receiver is a socket that no process reads: what comes in is dropped by the kernel, and its
    cost is the sender's, in both.
"""

import asyncio
import json
import resource
import socket
import statistics
import sys
import time

from measure import Table, median_ratio, peak_mib, run_child

_ROUNDS, _EVERY_S = 3, 10


def run(quick):
    """The Tables of this figure."""
    rows, more = [], []
    rounds, every_s = (1, 1) if quick else (_ROUNDS, _EVERY_S)
    for nodes in (100, 300) if quick else (1000, 3000, 10_000, 30_000):
        one = run_child(__file__, nodes, rounds, every_s)
        rows.append((f"{nodes:,}", f"{one['datagrams']:,.0f}", f"{one['sink_s']:.2f}",
                     f"{one['bare_s']:.2f}", f"{one['ratio']:.2f}",
                     f"{one['sink_s'] / nodes * 1e6:.0f}", f"{one['step_s'] * 1000:.1f}",
                     f"{one['peak_mib']:.0f}"))
        more.append((f"{nodes:,}", f"{one['page_s']:.2f}", f"{one['page_bytes'] / 1e6:.1f}",
                     f"{one['lines_s']:.2f}", f"{one['lines']:,}"))
    return [Table("Ganglia: a sweep of all nodes, 6 metrics of each", (
        "nodes", "datagrams", "the sink, CPU s", "a bare loop of send, CPU s", "ratio",
        "us a node", "the loop's longest step, ms", "peak MiB"), rows, [
            f"Medians of {rounds} sweeps, due every {every_s} s, in turns with the bare loop; of",
            "each node the metadata is sent in one sweep of three."]),
            Table("Prometheus and InfluxDB: what all nodes did in a sweep", (
                "nodes", "page, CPU s", "its MB", "points, CPU s", "points"), more, [
                    "In a thread, while the server's loop goes on; every node did something."])]


def _site(nodes, every_s):
    """(ClientSweep as a function of (slot, number), names)."""
    import numpy

    from iostats.harvest.clients.rates import ClientRates, ClientSweep
    nids = [f"10.{77 + number // 62_500}.{number // 250 % 250}.{number % 250}@tcp"
            for number in range(nodes)]
    names = {nid: f"node{number}" for number, nid in enumerate(nids)}

    class Names:
        def find_node(self, nid):
            return names[nid]

        def is_known(self, nid):
            return nid in names

        def list_nids(self, node):
            return [nids[int(node[4:])]]

    def sweep(slot, number):
        rates = numpy.random.default_rng(number).random((nodes, 6)) * 1e6 + 1
        return ClientSweep(slot, every_s, True, {"scratch": ClientRates(
            nids, rates, numpy.zeros(nodes, bool), {}, (rates * number * 1e6).astype("int64"))})
    return sweep, Names()


def _cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class _Steps:
    """A loop's policy that notes how long each of its turns was."""

    def __init__(self):
        self.longest = 0.0

    async def watch(self):
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.thread_time() - began)


def child(nodes, rounds, every_s):
    """One run, printed as JSON."""
    from types import SimpleNamespace

    from iostats import sinks
    from iostats.base.config import Config
    from iostats.sinks.ganglia import METRICS, make
    from iostats.sinks.influxdb.lines import NodeLines
    from iostats.sinks.nodes import NodeCounters, collect_node_clients
    from iostats.sinks.prometheus.metrics_server import format_page
    from iostats.sinks.prometheus.page import make_node_families
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    address = "%s:%d" % receiver.getsockname()
    made, names = _site(nodes, every_s)
    config = Config()
    sinks.add_sections(config)
    for key, value in (("send_to", address), ("metrics", " ".join(METRICS)),
                       ("packets_per_second", "1000000")):
        config.set_value(f"ganglia.{key}", value, "the benchmark")
    slot, sent, steps = 1_795_225_200.0, [], _Steps()
    sink = make(config, print, lambda: slot)

    async def give(sweep):
        harvest = SimpleNamespace(clients=SimpleNamespace(sweep=sweep, names=names))
        watching = asyncio.ensure_future(steps.watch())
        sink.sweep(sweep, harvest)
        await sink.walking
        watching.cancel()
        while not sink.is_sent():
            await asyncio.sleep(0.05)
    bare = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bare.connect(receiver.getsockname())
    ours, theirs, counts = [], [], []
    destination = sink.destinations[0]
    for number in range(1, rounds + 4):
        slot += every_s
        sweep = made(slot, number)
        before = destination.sent
        steps.longest, began = 0.0, _cpu_s()
        asyncio.run(give(sweep))
        cost = _cpu_s() - began
        count = destination.sent - before
        if number <= 3:                                 # with the metadata of all, then none
            continue
        ours.append(cost)
        counts.append(count)
        sent.append(steps.longest)
        datagrams = [b"\0" * 96] * count
        began = _cpu_s()
        for one in datagrams:
            bare.send(one)
        theirs.append(_cpu_s() - began)
    sink.close()
    page_s, lines_s, pages, points = _others(nodes, made, names, NodeCounters, NodeLines,
                                             collect_node_clients,
                                             lambda rows: format_page(make_node_families(rows)))
    peak = peak_mib()
    print(json.dumps({
        "datagrams": statistics.median(counts), "sink_s": statistics.median(ours),
        "bare_s": statistics.median(theirs), "ratio": median_ratio(ours, theirs),
        "step_s": statistics.median(sent), "peak_mib": peak, "page_s": page_s,
        "page_bytes": pages, "lines_s": lines_s, "lines": points}))


def _others(nodes, made, names, counters, lines, collect_node_clients, page_of):
    """(CPU s of a page, of points, bytes, points) of the second of two sweeps."""
    pages, points = counters(nodes, False), lines(nodes)
    for number in (1, 2):
        sweep, found = made(1_795_225_200.0 + number * 20.0, number), {}
        for _ in collect_node_clients(sweep, names, found):
            pass
        began = _cpu_s()
        page = page_of(pages.add(found))
        page_s, began = _cpu_s() - began, _cpu_s()
        count = len(list(points.lines(sweep.slot, sweep.every_s, found, [])))
        lines_s = _cpu_s() - began
    return page_s, lines_s, len(page), count


if __name__ == "__main__":
    child(*map(int, sys.argv[1:]))
