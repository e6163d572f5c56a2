"""
The peer of figure 3: a thread for each connection, by the standard library's ThreadingHTTPServer.

What python-jsonrpc was made of.  The handler is our own: JobServer.answer and Totals, under a
lock, and the report is printed by the same code.  It is given what its defaults lack: a backlog as
long as ours (a full one costs a node a second), answers in one segment, and TCP_NODELAY.

With --plain it is the least that a threaded JSON-RPC server can be: the json module, sums in
dicts, and no proof, no checks, no marks; it prints how many nodes have reported, and no table.
"""

import argparse
import http.server
import json
import sys
import threading
import time

from iostats.base import config as site
from iostats.base.units import format_count
from iostats.report import job_tables
from iostats.server.job_server import JobServer, make_totals
from iostats.totals.job_totals import Totals
from iostats.wire import auth


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 65535


class _Handler(http.server.BaseHTTPRequestHandler):
    wbufsize = -1                       # head and body leave together
    disable_nagle_algorithm = True
    answer_to = None                    # (body, authorization) -> (answer, header of its proof)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer, proof = self.answer_to(body, self.headers.get("Authorization", ""))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        if proof:
            self.send_header(*proof.split(": "))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def serve(answer_to, port, keep_alive):
    """A ThreadingHTTPServer on the loopback, not yet running."""
    handler = type("Handler", (_Handler,), {
        "answer_to": staticmethod(answer_to),
        "protocol_version": "HTTP/1.1" if keep_alive else "HTTP/1.0"})
    return _Server(("127.0.0.1", port), handler)


class _Plain:
    """What checks nothing: (body, authorization) -> answer."""

    def __init__(self, job):
        self.job, self.sums, self.nodes = job, {}, set()

    def answer(self, body, _):
        call = json.loads(body)
        result = getattr(self, call["method"])(**call["params"])
        return json.dumps({"jsonrpc": "2.0", "result": result, "id": call["id"]}).encode(), ""

    def hello(self):
        return {"job": self.job, "protocol": 1, "time": time.time()}

    def report(self, node, deltas, **_):
        self.nodes.add(node)
        for delta in deltas:
            sums = self.sums.setdefault((delta["file_system"], delta["source"],
                                         delta.get("target", "")), {})
            for metric, value in delta["values"].items():
                sums[metric] = sums.get(metric, 0) + value
        return {"counted": True, "why": ""}


def main():
    parser = argparse.ArgumentParser()
    for name in ("--job", "--nodes", "--port", "--secret"):
        parser.add_argument(name, required=True)
    parser.add_argument("--keep-alive", action="store_true")
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()

    config = site.load("/dev/null")
    totals = make_totals(config, options.job, int(options.nodes), Totals)
    job = JobServer(totals, [auth.Secret(options.job, auth.load(options.secret))], config)
    plain = _Plain(options.job) if options.plain else None
    lock, complete = threading.Lock(), threading.Event()

    def answer_to(body, authorization):
        with lock:
            answer = (plain or job).answer(body, authorization)
            if totals.all_reported or (plain and len(plain.nodes) == int(options.nodes)):
                complete.set()
        return answer

    server = serve(answer_to, int(options.port), options.keep_alive)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    complete.wait()
    if plain:
        print(f"Job {options.job}: {format_count(len(plain.nodes), 'node')}, added up", flush=True)
        server.shutdown()
        return
    record = job_tables.add_labels(totals.record(), config)
    print(job_tables.format_report(record, config, config.report.format, False), end="",
          flush=True)
    server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
