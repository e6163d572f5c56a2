"""
Figure: how it grows.  Nodes that stop in the same second, jobs that end at once, targets.

Each run checks what it was given against what came out: a node, a job or a byte too few is an
error, not a slow run.  Everything is on the loopback, and each row is a process of its own.

    scale.py targets N      one child: N OSTs in the reports of four nodes
"""

import json
import os
import statistics
import sys
import tempfile
import threading
import time

import server as figure_3
from measure import (
    HERE,
    SERVER,
    BenchmarkError,
    Server,
    Table,
    free_port,
    load,
    run_child,
)

_NODES_EACH = 4                 # of each job
_AT_ONCE = 512                  # connections of the site's nodes
_RECORDS_WITHIN_S = 300
_ASK_EVERY_S = 0.02


def run(quick):
    """The Tables of this figure."""
    nodes = (100, 1000) if quick else (100, 300, 1000, 3000, 10_000)
    jobs = (10, 50) if quick else (10, 30, 100, 300, 1000)
    targets = (100, 1000) if quick else (100, 1000, 10_000, 100_000)
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        message = figure_3.report_of(directory)
        return [_nodes_table({count: crowd(directory, message, count) for count in nodes}),
                _jobs_table({count: jobs_at_once(directory, message, count) for count in jobs}),
                _targets_table({count: wide_job(count) for count in targets})]


# -- nodes -------------------------------------------------------------------------------------

def crowd(directory, message, nodes):
    """
    So many nodes of one job stop at the same moment: all of their connections are open at once.

    As figure 3's _one_run.
    """
    return figure_3.one_run("iostats", directory, message, nodes, at_once=nodes)


def _nodes_table(runs):
    return Table("scale: nodes that stop at the same moment, all connected at once (aim: 100 MiB, "
                 "the table within 50 ms)",
                 ["nodes", "seconds", "CPU us/node", "peak MiB", "table after ms"],
                 [[nodes, f"{nodes / one['nodes_per_s']:.2f}", f"{one['cpu_s'] / nodes * 1e6:.0f}",
                   f"{one['memory_bytes'] / 2**20:.0f}", f"{one['table_s'] * 1e3:.1f}"]
                  for nodes, one in runs.items()],
                 ["all were counted; CPU: of the server, the printing included"])


# -- jobs --------------------------------------------------------------------------------------

def jobs_at_once(directory, message, jobs):
    """
    So many jobs end at the same moment, each with four nodes, on one site's server.

    {reports_s, records_s: seconds from the first connection to the last answer, and until every
    job's record is there; cpu_s, memory_bytes; hello_s: sorted seconds of a concurrent `hello`}
    """
    from iostats.base import config as site
    from iostats.wire import auth, protocol
    with tempfile.TemporaryDirectory(prefix="site-", dir=directory) as own:
        port, path = free_port(), os.path.join(own, "site.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"[batch]\nsystem = none\n[site]\nhost = 127.0.0.1\nport = {port}\n"
                       f"secret = {own}/secret\nstore = {own}/site.sqlite\nshow =\n")
        with Server([sys.executable, SERVER, "--site", "--quiet", "--listen", "127.0.0.1",
                     "--config", path], port) as process:
            config = site.load(path, {})
            key = protocol.derive_key(auth.load(config.site.secret), protocol.SITE).hex()
            with _Hellos(port) as hellos:
                said = load({"port": port, "key": key, "kind": "report", "jobs": jobs,
                             "nodes": jobs * _NODES_EACH, "at_once": _AT_ONCE,
                             "report": {**message, "ended": time.time()}}, directory)
                began = said["began_at"]
                rows = _all_records(config, jobs)
                records_s = time.monotonic() - began
            _check(rows, message, jobs)
            return {"reports_s": said["seconds"], "records_s": records_s,
                    "cpu_s": process.cpu_s_so_far(), "memory_bytes": process.peak_bytes(),
                    "hello_s": sorted(hellos.took_s)}


def _all_records(config, jobs):
    """[row] of `iostats jobs`, when there are so many."""
    from iostats.cli.site_client import ask_site
    ends_at = time.monotonic() + _RECORDS_WITHIN_S
    while True:
        rows = ask_site(config, "jobs", {"limit": 5000}, 60)["jobs"]
        if len(rows) >= jobs:
            return rows
        if time.monotonic() > ends_at:
            raise BenchmarkError(f"{len(rows)} records of {jobs} jobs in {_RECORDS_WITHIN_S} s")
        time.sleep(0.1)


def _check(rows, message, jobs):
    """Every job once, every node of it, every byte."""
    amounts = {name: _NODES_EACH * sum(delta["values"][name] for delta in message["deltas"]
                                       if delta["source"] == "llite")
               for name in ("read_bytes", "write_bytes")}
    wrong = [row for row in rows
             if row["reported"] != _NODES_EACH or row["nodes"] != _NODES_EACH
             or row["lower_bound"] or any(row[name] != amount for name, amount in amounts.items())]
    if wrong or {row["job_id"] for row in rows} != {str(4711 + one) for one in range(jobs)}:
        raise BenchmarkError(f"{jobs} jobs: {len(wrong)} of {len(rows)} records are wrong; "
                             f"expected {amounts}, got {wrong[:1]}")


class _Hellos:
    """A `hello` now and then, from a thread; `took_s` has the seconds of each."""

    def __init__(self, port):
        self.took_s, self._port, self._over = [], port, threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def _ask(self):
        import http.client
        body = json.dumps({"jsonrpc": "2.0", "method": "hello", "params": {}, "id": 1})
        while not self._over.wait(_ASK_EVERY_S):
            began = time.monotonic()
            one = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            one.request("POST", "/", body)
            answer = one.getresponse().read()
            one.close()
            if b'"result"' in answer:
                self.took_s.append(time.monotonic() - began)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._thread.join(60)


def _jobs_table(runs):
    rows = []
    for jobs, one in runs.items():
        hello_s = one["hello_s"]
        rows.append([jobs, f"{one['reports_s']:.2f}", f"{one['records_s']:.2f}",
                     f"{one['cpu_s'] / jobs * 1e3:.1f}", f"{one['memory_bytes'] / 2**20:.0f}",
                     f"{statistics.median(hello_s) * 1e3:.1f}",
                     f"{hello_s[int(len(hello_s) * 0.99)] * 1e3:.0f}",
                     f"{hello_s[-1] * 1e3:.0f}"])
    return Table("scale: jobs that end at the same moment on one site's server, four nodes each",
                 ["jobs", "reports s", "records s", "CPU ms/job", "peak MiB", "hello ms",
                  "99 of 100", "slowest"], rows,
                 ["reports: until the last node is answered; records: until every job's record is "
                  "there; both from the first connection",
                  f"at most {_AT_ONCE} nodes at once; hello: that of one more node then"])


# -- targets -----------------------------------------------------------------------------------

def wide_job(targets):
    """A job of four nodes on so many OSTs; what _wide_child prints."""
    return run_child(__file__, "targets", targets)


def _wide_child(targets):
    """Print {add_s, record_s, text_s, message_bytes, record_bytes, peak_bytes} as JSON."""
    import msgspec

    from iostats.base import config as site
    from iostats.report import job_tables
    from iostats.server.job_server import JobServer, make_totals
    from iostats.totals.job_totals import Totals
    from iostats.wire import auth, protocol
    config = site.load(os.devnull, {})
    totals = make_totals(config, "4711", _NODES_EACH, Totals)
    job = JobServer(totals, [auth.Secret("4711", b"secret")], config)
    key, add_s = protocol.derive_key(b"secret", "4711"), 0.0
    values = {"read_bytes": 41_003, "write_bytes": 53_007, "read_rpcs": 23, "write_rpcs": 37,
              "req_waittime_us": 1009, "req_active": 61}
    deltas = [{"source": "osc", "file_system": f"fs{number // 2000}", "values": values,
               "target": f"OST{number % 2000:04x}", "proved": True} for number in range(targets)]
    for number in range(_NODES_EACH):
        node = f"nid{number:05d}"
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "report", "params": {
            "protocol": 1, "job": "4711", "node": node, "seq": "1", "ended": time.time(),
            "elapsed_s": 60.0, "deltas": deltas}}, separators=(",", ":")).encode()
        header = protocol.authorization(key, node, int(time.time()), os.urandom(16).hex(), body)
        began = time.process_time()
        answer, _ = job.answer(body, header)
        add_s += time.process_time() - began
        if b'"counted":true' not in answer:
            raise SystemExit(answer.decode())
    size, deltas = len(body), None
    body = None
    began = time.process_time()
    encoded = msgspec.json.encode(totals.record())
    record_s = time.process_time() - began
    record = msgspec.json.decode(encoded)
    began = time.process_time()
    text = job_tables.format_report(job_tables.add_labels(record, config), config, "grid", True)
    text_s = time.process_time() - began
    written = sum(fs["network"]["write_bytes"] for fs in record["file_systems"])
    known = sum(len(fs["targets"]) for fs in record["file_systems"])
    if (written, known) != (53_007 * targets * _NODES_EACH, targets) or not text:
        raise SystemExit(f"{known} targets, {written} bytes")
    with open("/proc/self/status", encoding="ascii") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    print(json.dumps({"add_s": add_s, "record_s": record_s, "text_s": text_s, "message_bytes": size,
                      "record_bytes": len(encoded), "peak_bytes": peak * 1024}))


def _targets_table(runs):
    return Table("scale: targets of one job, four nodes that report all of them",
                 ["targets", "message kB", "adding us each", "record us", "long table us",
                  "record kB", "peak MiB"],
                 [[f"{targets:,}", f"{one['message_bytes'] / 1e3:,.0f}",
                   f"{one['add_s'] / targets / _NODES_EACH * 1e6:.1f}",
                   f"{one['record_s'] / targets * 1e6:.1f}",
                   f"{one['text_s'] / targets * 1e6:.1f}", f"{one['record_bytes'] / 1e3:,.0f}",
                   f"{one['peak_bytes'] / 2**20:.0f}"] for targets, one in runs.items()],
                 ["CPU for each target (and node, where it is added up); OSTs, 2,000 to a file "
                  "system"])


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(HERE))
    _wide_child(int(sys.argv[2]))
