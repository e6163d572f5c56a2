"""
The peer of figure 3: a thread for each connection, by the standard library's ThreadingHTTPServer.

What python-jsonrpc was made of.  The handler is our own: JobServer.answer and Totals, under a
lock, and the report is printed by the same code.  It is given what its defaults lack: a backlog as
long as ours (a full one costs a node a second), answers in one segment, and TCP_NODELAY.
"""

import argparse
import http.server
import sys
import threading


from iostats import config as site, credentials, report, secret
from iostats.aggregate import Totals
from iostats.server import JobServer, how_to_add_up


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


def main():
    parser = argparse.ArgumentParser()
    for name in ("--job", "--nodes", "--port", "--secret"):
        parser.add_argument(name, required=True)
    parser.add_argument("--keep-alive", action="store_true")
    options = parser.parse_args()

    config = site.load("/dev/null")
    totals = Totals(options.job, int(options.nodes), **how_to_add_up(config))
    job = JobServer(totals, [credentials.Secret(options.job, secret.load(options.secret))], config)
    lock, complete = threading.Lock(), threading.Event()

    def answer_to(body, authorization):
        with lock:
            answer = job.answer(body, authorization)
            if totals.all_heard:
                complete.set()
        return answer

    server = serve(answer_to, int(options.port), options.keep_alive)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    complete.wait()
    record = report.labelled(totals.record(), config)
    print(report.text(record, config, config["report.format"], False), end="", flush=True)
    server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
