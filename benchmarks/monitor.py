"""
Figure: what `iostats events` takes for many events, of one server and of two that know the same.

Its peer is the least that a monitor can do: it asks for the same pages on one connection, decodes
them, sorts, and prints each event as JSON.  Servers are threads of this process with answers made
before; only the CPU of the monitors counts.
"""

import http.client
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from measure import Table, cost_of, free_port, measure_process, median_ratio

_AT_ONCE = 1000
_BEGAN = 1_795_225_200.0


def run(quick):
    """The Tables of this figure."""
    count, rounds = (2_000, 1) if quick else (100_000, 3)
    servers = [_Pages(count), _Pages(count)]
    asked = [["--server", f"http://127.0.0.1:{one.port}"] for one in servers]
    ours = [sys.executable, "-m", "iostats", "events", "-n", "all"]
    ways = {"a minimal monitor": [sys.executable, __file__, str(servers[0].port)],
            "iostats events --json": [*ours, "--json", *asked[0]],
            "iostats events": [*ours, *asked[0]],
            "iostats events, two servers": [*ours, *asked[0], *asked[1]],
            "iostats events -n 10": [*ours[:-1], "10", *asked[0]]}
    costs = {name: [] for name in ways}
    for _ in range(rounds):
        for name, words in ways.items():
            costs[name].append(cost_of(words).cpu_s)
    peers = costs["a minimal monitor"]
    rows = [(name, f"{sorted(found)[len(found) // 2]:.2f}", f"{median_ratio(found, peers):.2f}",
             f"{measure_process(ways[name])[1]:.0f}") for name, found in costs.items()]
    for one in servers:
        one.close()
    return [Table(f"A monitor: {count:,} events that a server has", (
        "", "CPU s", "it / minimal", "peak MiB"), rows, ())]


class _Pages:
    """A server that answers `events`, from answers that are made."""

    def __init__(self, count):
        self.port = free_port()
        events = [_event(number) for number in range(count)]
        pages = {at: _answer(events[at:at + _AT_ONCE], at + _AT_ONCE, at + _AT_ONCE < count)
                 for at in range(0, count, _AT_ONCE)}
        last = _answer(events[-10:], count, False)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["params"]
                body = last if ask.get("last") else pages[ask["after"]]
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def _event(number):
    at = _BEGAN + 0.7 * number
    nid = f"10.9.{number % 250}.{number % 199}@o2ib2"
    return {"id": f"{number:016x}", "time": at, "last": at, "over": None, "severity": 2,
            "kind": "evicted", "cause": "silent", "node": f"oss{number % 40}",
            "file_system": "scratch", "target": f"scratch-OST{number % 400:04x}",
            "clients": [nid], "clients_names": [f"nid{number % 9973:05d}"], "count": 1,
            "skipped": 0, "place": number + 1, "message": (
                f"haven't heard from client 5a8d9d2c-0c3f-4d3a (at {nid}) in 227 seconds. I think "
                f"it's dead, and I am evicting it.")}


def _answer(events, following, more):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {
        "events": events, "next": following, "more": more, "time": _BEGAN, "places": "one",
        "dropped": 0}}).encode()


def _minimal(port):
    """The peer: all events, sorted, as JSON on standard output."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    events, after, more = [], 0, True
    while more:
        connection.request("POST", "/", json.dumps({
            "jsonrpc": "2.0", "method": "events", "id": 1,
            "params": {"after": after, "limit": _AT_ONCE}}))
        found = json.loads(connection.getresponse().read())["result"]
        events += found["events"]
        after, more = found["next"], found["more"]
    events.sort(key=lambda one: one["time"])
    sys.stdout.writelines(json.dumps(one) + "\n" for one in events)


if __name__ == "__main__":
    _minimal(int(sys.argv[1]))
