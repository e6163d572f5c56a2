"""
Figure 3: nodes that the server accepts in a second, against a thread for each connection.

Each node is a new connection that says hello and reports, exactly as client.py does: authenticated,
with the report of figure 1's node.  The nodes come from one process (load.py), at most 64 at once.
"""

import os
import statistics
import sys
import tempfile
import time

import tree
from client import FILE_SYSTEMS
from measure import HERE, SERVER, BenchmarkError, Server, Table, free_port, load, median_ratio

_JOB, _AT_ONCE = "4711", 64
_SERVERS = ("iostats", "plain threads", "threads", "threads, two connections")


def run(quick):
    """The Tables of this figure."""
    rounds = {1: 1, 100: 2} if quick else {1: 9, 10: 9, 100: 9, 1000: 5, 10_000: 3}
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        message = report_of(directory)
        runs = {nodes: _runs(directory, message, nodes, count) for nodes, count in rounds.items()}
    return [_rates(runs), _at_most(runs)]


def report_of(directory):
    """The params of a real `report`: what the node of figure 1 sends."""
    from iostats.base import config as site
    from iostats.node import identity as this_node
    from iostats.node import measurement, sources
    config, known = site.load(os.devnull), sources.read_at("start")
    snapshots = []
    for name, work in (("before", 23), ("after", 37)):
        root = os.path.join(directory, name)
        tree.make(root, FILE_SYSTEMS, work)
        snapshots.append(this_node.take_snapshot(root, config, known, _JOB, "@", "@"))
    return measurement.report(snapshots, known, root)


def _runs(directory, message, nodes, rounds):
    """server -> [what one_run says], one a round; the servers take turns."""
    found = {name: [] for name in _SERVERS}
    for _ in range(rounds):
        for name in _SERVERS:
            try:
                found[name].append(one_run(name, directory, message, nodes))
            except BenchmarkError as error:
                raise BenchmarkError(f"{name}, {nodes} nodes: {error}") from None
    return found


def one_run(name, directory, message, nodes, at_once=_AT_ONCE):
    """{nodes_per_s, memory_bytes, cpu_s, load_share, table_s} of a server's whole life."""
    from iostats.base.units import format_count
    from iostats.wire import protocol
    port, secret = free_port(), os.path.join(directory, "secret")
    with open(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w",
              encoding="ascii") as file:
        file.write(os.urandom(32).hex())
    with open(secret, "rb") as file:
        key = protocol.derive_key(file.read(), _JOB).hex()
    common = ["--job", _JOB, "--nodes", str(nodes), "--secret", secret]
    if name == "iostats":
        command = [sys.executable, SERVER, *common, "--quiet", "--deadline", "3600",
                   "--listen", f"127.0.0.1:{port}"]
    else:
        command = [sys.executable, os.path.join(HERE, "threads.py"), *common, "--port", str(port)]
        command += ["--keep-alive"] if name in ("threads", "plain threads") else []
        command += ["--plain"] if name == "plain threads" else []
    kind = "two connections" if name.endswith("two connections") else "report"
    with Server(command, port) as server:
        said = load({"port": port, "key": key, "kind": kind, "nodes": nodes,
                     "at_once": at_once, "report": {**message, "ended": time.time()}}, directory)
        memory_bytes, cpu_s = server.wait()
        if f": {format_count(nodes, 'node')}, ".encode() not in server.output:     # all of them
            raise BenchmarkError(f"{name}: {server.output[:200]!r}")
        return {"nodes_per_s": nodes / said["seconds"], "memory_bytes": memory_bytes,
                "cpu_s": cpu_s, "load_share": said["cpu_s"] / said["seconds"],
                "table_s": server.output_at - said["last_sent_at"]}


def _series(runs, server, what):
    return [run[what] for run in runs[server]]


def _rates(runs):
    rows = []
    for nodes, by_server in runs.items():
        rates = [_series(by_server, name, "nodes_per_s") for name in _SERVERS]
        rows.append([nodes, len(rates[0]), *(f"{statistics.median(one):.0f}" for one in rates),
                     *(f"{median_ratio(rates[0], one):.2f}" for one in rates[1:])])
    return Table("server: nodes accepted per second (aim: at least 3.5 x threads)",
                 ["nodes", "rounds", "iostats", "plain", "threads", "two conn.", "iostats / plain",
                  "/ threads", "/ two conn."], rows,
                 ["plain: threads that check nothing; threads: that check as iostats does, one "
                  "connection a", "node, HTTP/1.1; two conn.: one for each request, as "
                  "python-jsonrpc",
                  f"at most {_AT_ONCE} connections at once, from one process on the same machine"])


def _at_most(runs):
    nodes, by_server = max(runs.items())
    rows = []
    cpu_s = {name: _series(by_server, name, "cpu_s") for name in _SERVERS}
    for name in _SERVERS:
        median = {what: statistics.median(_series(by_server, name, what))
                  for what in by_server[name][0]}
        rows.append([name, f"{max(_series(by_server, name, 'memory_bytes')) / 2**20:.0f}",
                     f"{median['cpu_s'] / nodes * 1e6:.0f}",
                     f"{median_ratio(cpu_s[name], cpu_s['iostats']):.2f}",
                     f"{median['load_share'] * 100:.0f}",
                     f"{median['table_s'] * 1e3:.1f}",
                     f"{max(_series(by_server, name, 'table_s')) * 1e3:.1f}"])
    return Table(f"server: {nodes} nodes (aim: under 100 MiB, the table within 50 ms)",
                 ["server", "peak MiB", "CPU us/node", "CPU / iostats", "load's CPU %",
                  "table after ms", "slowest ms"], rows,
                 ["table after: from the last byte of the last report's message to the last byte "
                  "of the table",
                  "load's CPU: how busy the process was that plays the nodes; near 100 it is the "
                  "limit"])
