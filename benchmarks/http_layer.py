"""
Figure 5: new connections a second that the HTTP layer takes, against granian, uvicorn and threads.

Each connection is new and has one POST, as when the nodes of a job say hello; the handler does
nothing.  One worker each, at most 64 connections at once, from one process on the same machine.
"""

import os
import statistics
import sys
import tempfile

from http_servers import SERVERS
from measure import HERE, Server, Table, free_port, load, median_ratio


def run(quick):
    """The Table of this figure."""
    connections, rounds = (500, 2) if quick else (4000, 9)
    rates, shares, cpu_us = ({name: [] for name in SERVERS} for _ in range(3))
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        for _ in range(rounds):
            for name in SERVERS:
                port = free_port()
                command = [sys.executable, os.path.join(HERE, "http_servers.py"), name, str(port)]
                with Server(command, port) as server:
                    said = load({"port": port, "key": None, "kind": "hello", "report": None,
                                 "nodes": connections, "at_once": 64}, directory)
                    cpu_us[name].append(server.cpu_s_so_far() / connections * 1e6)
                rates[name].append(connections / said["seconds"])
                shares[name].append(said["cpu_s"] / said["seconds"])
    rows = [[name, f"{statistics.median(rates[name]):.0f}",
             f"{median_ratio(rates['iostats'], rates[name]):.2f}",
             f"{statistics.median(cpu_us[name]):.0f}",
             f"{median_ratio(cpu_us[name], cpu_us['iostats']):.2f}",
             f"{statistics.median(shares[name]) * 100:.0f}"] for name in SERVERS]
    return [Table("HTTP layer: new connections per second, one POST each",
                  ["server", "per s", "iostats / it", "CPU us each", "its CPU / iostats",
                   "load's CPU %"], rows,
                  [f"median of {rounds} rounds of {connections} connections",
                   "load's CPU: how busy the process was that connects; near 100 it is the limit"])]
