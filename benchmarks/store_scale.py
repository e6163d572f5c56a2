#!/usr/bin/env python3
"""
Figure: a large site on both engines of the store, in one run: reports, events and sweeps a second,
and `jobs` of a month among all jobs of a year.

Reports and events are what nodes and agents send, from the bytes of a message to the commit, with
eight reports and 500 events in one; HTTP is not in them.  Each row is a process of its own.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time

import harvest_server
import site_events
from measure import HERE, Table, run_child

_NOON = 1_795_225_060.0
_DAY_S = 86_400
_AIMS = {"reports": 500, "events": 5000}        # a second
_REPORTS, _EVENTS = 8, 500                      # in one commit
_WITHIN_MS = 300


def run(quick):
    """The Tables of this figure; without PostgreSQL of SQLite alone."""
    rounds, jobs, sweep = (10, 2000, (4, 300)) if quick else (200, 1_000_000, (20, 10_000))
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        path = os.path.join(directory, "site.sqlite")
        both = {"SQLite": [child(path, rounds, jobs), harvest_server.child(*sweep)]}
        os.unlink(path)
        sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests"))
        import postgresql
        if postgresql.programs() is not None:
            with postgresql.Cluster(synced=True) as cluster:
                both["PostgreSQL"] = [child(cluster.database(), rounds, jobs),
                                      harvest_server.child(*sweep, cluster.database())]
    base, base_sweep = both["SQLite"]
    rows = [[f"{what}, {engine}", f"{one[what][0]:,.0f}", f"{base[what][0] / one[what][0]:.2f}",
             f"{one[what][1] * 1e6:.0f}", f"{aim:,}: {'met' if one[what][0] >= aim else 'missed'}"]
            for what, aim in _AIMS.items() for engine, (one, _) in both.items()]
    targets, entries = sweep
    return [
        Table("A large site: messages a second",
              ["", "a second", "SQLite = 1", "us of CPU each", "aim"],
              rows,
              ["elapsed time of one process, which waits for PostgreSQL's"]),
        Table(f"A large site: one sweep of {targets} targets x {entries:,} jobs, all changed",
              ["", "CPU s", "elapsed s", "SQLite = 1", "peak MiB", "restart, s"],
              [[engine, f"{one['all_s']:.1f}", f"{one['all_elapsed_s']:.1f}",
                f"{one['all_elapsed_s'] / base_sweep['all_elapsed_s']:.2f}",
                f"{one['peak_mib']:.0f}", f"{one['again_s']:.1f}"]
               for engine, (_, one) in both.items()], ["a sweep is due every 20 s or more"]),
        Table(f"A large site: questions about a month, of {jobs:,} jobs in a year",
              ["", "ms, median of 5", f"within {_WITHIN_MS} ms"],
              [[f"{question}, {engine}", f"{took * 1e3:.0f}",
                "met" if took * 1e3 <= _WITHIN_MS else "missed"]
               for question in base["questions"] for engine, (one, _) in both.items()
               for took in [one["questions"][question]]], ["elapsed time; all in memory"])]


def child(address, rounds, jobs):
    """The figures of one engine."""
    return run_child(__file__, address, rounds, jobs)


def main(arguments=None):
    """One engine; its figures as JSON."""
    parser = argparse.ArgumentParser(prog="store_scale.py")
    parser.add_argument("address")
    parser.add_argument("rounds", type=int)
    parser.add_argument("jobs", type=int)
    options = parser.parse_args(arguments)
    from iostats.store.record_store import Store
    store = Store(options.address)
    found = {"reports": _take_reports(store, options.rounds),
             "events": _take_events(store, options.rounds)}
    _fill(store, options.jobs)
    found["questions"] = {name: _median(question) for name, question in _questions(store).items()}
    store.close()
    print(json.dumps(found))


def _take_reports(store, rounds):
    """(Reports of 16 kB a second that a site's server takes, seconds of CPU each)."""
    import server as figure_3

    from iostats.answers.site_server import SiteServer
    from iostats.base import config as site
    from iostats.wire import auth, protocol
    config, clock = site.load(environ={}), [_NOON]
    config.set_value("batch.system", "none", "benchmark")
    secret = auth.Secret(protocol.SITE, b"s" * 64, 1e9, lambda: clock[0])
    taking = SiteServer(store, [secret], config, lambda: clock[0])
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        message = figure_3.report_of(directory)
    bodies = []
    for number in range(rounds * _REPORTS):
        node = f"nid{number % 4:05d}"
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "report", "params": {
            **message, "job": str(4711 + number // 4), "node": node, "seq": str(number),
            "about": {"scheduler": "none", "user": "alice"}}}).encode()
        bodies.append((body, secret.authorization(node, int(_NOON), os.urandom(16).hex(), body)))
    began, used = time.perf_counter(), time.process_time()
    for number, (body, header) in enumerate(bodies, 1):
        answer = taking.answer(body, header)[0]
        if b'"counted":true' not in answer:
            raise SystemExit(answer.decode())
        if number % _REPORTS == 0:
            store.commit()
    return (len(bodies) / (time.perf_counter() - began),
            (time.process_time() - used) / len(bodies))


def _take_events(store, rounds):
    """(Events a second that a site's server takes from agents, seconds of CPU each)."""
    from iostats.base import config as site
    from iostats.harvest.clients.node_names import NodeNames
    from iostats.harvest.events.intake import SiteEvents
    from iostats.wire.messages.events import decode_events
    from iostats.wire.messages.sweep_decoder import PackedSweep
    config, dice = site.load(environ={}), random.Random(23)
    taking = SiteEvents(store, config, lambda: _NOON, NodeNames(config))
    messages = [site_events.message(site_events.events(_EVENTS * number, _EVENTS, dice, _NOON),
                                    f"oss{number % 40}") for number in range(rounds)]
    began, used = time.perf_counter(), time.process_time()
    for number, packed in enumerate(messages):
        for _ in taking.receive(decode_events(PackedSweep(1, packed, 0.0), 64 << 20),
                                f"oss{number % 40}"):
            pass
        store.commit()
        taking.committed()
    count = rounds * _EVENTS
    return count / (time.perf_counter() - began), (time.process_time() - used) / count


def _fill(store, jobs):
    """Jobs of a year, evenly over its days, of 100 users in 20 accounts."""
    from iostats.report.job_summary import Summary
    from iostats.store import job_index
    dice = random.Random(23)
    for first in range(0, jobs, 1000):
        rows, summaries = [], []
        for number in range(first, min(first + 1000, jobs)):
            began = _NOON + 365 * _DAY_S * number / jobs
            key = "eiger", str(10_000_000 + number), 0
            rows.append((*key, key[1], f"user{number % 100}", b"about", began, began + 600,
                         b"record"))
            summaries.append((*Summary(
                account=f"a{number % 20}", partition="main", name="run", outcome="COMPLETED",
                started=began, ended=began + 600, elapsed_s=600.0, nodes=4, reported=4,
                file_systems="scratch", source="nodes", read_bytes=dice.randrange(10**12),
                write_bytes=dice.randrange(10**12), opens=23, creates=37, operations=41,
                began=began, over=began + 600), *key))
        store.do_all('INSERT INTO jobs (cluster, job, attempt, shown_as, "user", about, first, '
                     "made, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        store.do_all(job_index.PUT, summaries)
        store.commit()


def _questions(store):
    """{what: function} of questions about the seventh month."""
    from iostats.store.job_index import JobsParams
    since = _NOON + 180 * _DAY_S
    until = since + 30 * _DAY_S
    month = (f"FROM site_jobs WHERE last_seen_s >= {since} AND last_seen_s < {until}")
    return {
        "iostats jobs of a user": lambda: store.listed(JobsParams(
            since=since, until=until, users=["user23"])),
        "iostats jobs, the first 1,000": lambda: store.listed(JobsParams(
            since=since, until=until)),
        "iostats jobs, the 1,000 that wrote most": lambda: store.listed(JobsParams(
            since=since, until=until, sort="write_bytes", descending=True)),
        "site_jobs by account and user": lambda: store.rows(
            f"SELECT account, user_name, count(*), sum(write_bytes) {month} "
            "GROUP BY account, user_name")}


def _median(question):
    times = []
    for _ in range(6):
        began = time.perf_counter()
        question()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


if __name__ == "__main__":
    main()
