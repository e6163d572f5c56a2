"""
Figure: calls of getTraps a second, and memory, of the collector against the standard library's
xmlrpc.server with the same traps and nothing to keep.

Eight connections that stay open, from one process on the same machine: each asks again when all are
answered.  Then 200 connections that are open and ask once, as of as many monitors.
"""

import contextlib
import json
import os
import socket
import statistics
import sys
import tempfile
import time
import xmlrpc.client

from measure import HERE, BenchmarkError, Server, Table, free_port, median_ratio

_CONNECTIONS, _MONITORS, _TRAPS = 8, 200, 250
_LINE = ("4,{0},{1},-;Lustre: scratch-OST{0:04x}: haven't heard from client f15aa50c-8084-47f6-bb2e"
         "-fc5ed9687c46 (at 10.9.0.{2}@o2ib2) in 229 seconds. I think it's dead, and I am evicting "
         "it.\n")


def run(quick):
    """The Table of this figure."""
    rounds, calls = (2, 40) if quick else (9, 400)
    asked = {"nothing new": None, f"{_TRAPS} traps": 0}
    names = ("iostats collector", "xmlrpc.server")
    rates, cpu_us = ({(name, what): [] for name in names for what in asked} for _ in range(2))
    memory = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        os.chmod(directory, 0o755)
        config, root, file = _files(directory)
        traps, stamp = None, 0
        for _ in range(rounds):
            for name in names:
                port = free_port()
                command = [sys.executable, "-m", "iostats", "collector", "--quiet", "--config",
                           config, "--root", root, "-p", str(port)]
                if name != names[0]:
                    command = [sys.executable, os.path.join(HERE, "xmlrpc_peer.py"), str(port),
                               file]
                with Server(command, port) as server:
                    if name == names[0]:
                        traps, stamp = _until_there(port)
                        with open(file, "w", encoding="utf-8") as written:
                            json.dump([traps, stamp], written)
                        time.sleep(0.5)                # its look at the log is over
                    for what, since in asked.items():
                        cpu_s = server.cpu_s_so_far()
                        count = calls if since == 0 else 5 * calls
                        seconds = _ask(port, stamp if since is None else since, count)
                        rates[name, what].append(count * _CONNECTIONS / seconds)
                        cpu_us[name, what].append((server.cpu_s_so_far() - cpu_s) * 1e6
                                                  / count / _CONNECTIONS)
                    memory[name].append(_memory_of_monitors(server, stamp))
    ours, peer = names
    rows = [[what, f"{statistics.median(rates[ours, what]):.0f}",
             f"{statistics.median(rates[peer, what]):.0f}",
             f"{median_ratio(rates[ours, what], rates[peer, what]):.1f}",
             f"{statistics.median(cpu_us[ours, what]):.0f}",
             f"{statistics.median(cpu_us[peer, what]):.0f}",
             f"{median_ratio(cpu_us[peer, what], cpu_us[ours, what]):.1f}"] for what in asked]
    peaks = [f"{statistics.median(memory[name]) / 2**20:.0f} MiB {name}" for name in names]
    return [Table("collector: getTraps over connections that stay open",
                  ["answer", "calls/s", "xmlrpc.server", "ratio", "CPU us a call",
                   "xmlrpc.server", "its CPU / ours"], rows,
                  [f"median of {rounds} rounds", f"peak memory with {_MONITORS} connections open: "
                                                 f"{', '.join(peaks)}"])]


def _files(directory):
    """(site.cfg, root with a kernel's log of _TRAPS evictions, a place for the traps)."""
    config, root = os.path.join(directory, "site.cfg"), os.path.join(directory, "root")
    os.makedirs(os.path.join(root, "dev"))
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"[collector]\nstate_dir = {directory}/state\n"
                   + ("user = nobody\n" if os.geteuid() == 0 else ""))
    with open(os.path.join(root, "dev/kmsg"), "w", encoding="utf-8") as file:
        file.writelines(_LINE.format(number, 10**6 * number, number % 200)
                        for number in range(1, _TRAPS + 1))
    return config, root, os.path.join(directory, "traps.json")


def _until_there(port):
    ends_at = time.monotonic() + 30
    while True:
        proxy = xmlrpc.client.ServerProxy(f"http://127.0.0.1:{port}/")
        traps, stamp = proxy.getTraps(0)
        proxy("close")()
        if len(traps) == _TRAPS:
            return traps, stamp
        if time.monotonic() > ends_at:
            raise BenchmarkError(f"collector: {len(traps)} traps, expected {_TRAPS}")
        time.sleep(0.05)


def _ask(port, since, count):
    """Seconds for `count` calls on each of _CONNECTIONS."""
    request = _request(since)
    with contextlib.ExitStack() as stack:
        open_ones = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 30))
                     for _ in range(_CONNECTIONS)]
        length = _answered(open_ones[0], request)
        began = time.perf_counter()
        for _ in range(count):
            for one in open_ones:
                one.sendall(request)
            for one in open_ones:
                _read(one, length)
        return time.perf_counter() - began


def _request(since):
    body = xmlrpc.client.dumps((since,), "getTraps").encode()
    return (b"POST /RPC2 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


def _answered(one, request):
    """Bytes of an answer, with its head; each has the same."""
    one.sendall(request)
    data = b""
    while True:
        data += one.recv(1 << 20)
        head, blank, body = data.partition(b"\r\n\r\n")
        if blank:
            length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
                          if line.startswith(b"content-length"))
            if len(body) >= length:
                xmlrpc.client.loads(body)              # or it is a fault
                return len(data)


def _read(one, length):
    while length > 0:
        part = one.recv(length)
        if not part:
            raise BenchmarkError("the connection was closed")
        length -= len(part)


def _memory_of_monitors(server, stamp):
    with contextlib.ExitStack() as stack:
        for _ in range(_MONITORS):
            _answered(stack.enter_context(
                socket.create_connection(("127.0.0.1", server.port), 30)), _request(stamp))
        return server.peak_bytes()
