#!/usr/bin/env python3
"""
What the site's store costs with SQLite and with PostgreSQL: reports, events, sweeps and records.

Each row is a process of its own.  CPU time is that of the site's server alone, which waits for
PostgreSQL; what PostgreSQL computes is in the elapsed time.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time

from measure import Table, run_child

HERE = os.path.dirname(os.path.abspath(__file__))
_NOON = 1_795_225_060.0
_TOGETHER = {"reports": 8, "events": 500, "blocks": 40, "records": 20}      # in one commit


def run(quick):
    """The Table of this figure; without PostgreSQL of SQLite alone."""
    rounds = 10 if quick else 200
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        both = {"SQLite": measured(os.path.join(directory, "site.sqlite"), rounds)}
        sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests"))
        import postgresql
        if postgresql.programs() is not None:
            with postgresql.Cluster(synced=True) as cluster:
                both["PostgreSQL"] = measured(cluster.database(), rounds)
    rows = [[f"{kind}, {engine}", f"{found[kind][0] * 1e6:.0f}", f"{found[kind][1] * 1e6:.0f}",
             f"{found[kind][1] / both['SQLite'][kind][1]:.2f}"]
            for engine, found in both.items() for kind in _TOGETHER]
    return [Table("stores: the site's store on both engines",
                  ["what", "us of CPU each", "us each", "SQLite = 1"], rows,
                  [", ".join(f"{count} {kind}" for kind, count in _TOGETHER.items())
                   + " in one commit"])]


def measured(address, rounds):
    """{kind: (seconds of CPU, seconds) for each row} of a process of its own."""
    return run_child(__file__, address, rounds)


def main(arguments=None):
    """One row: figures as JSON."""
    parser = argparse.ArgumentParser(prog="stores.py")
    parser.add_argument("address")
    parser.add_argument("rounds", type=int)
    options = parser.parse_args(arguments)
    import site_events

    from iostats.report.job_summary import FileSystemSummary, Summary
    from iostats.store.event_store import EventStore
    from iostats.store.harvest_store import SweepStore
    from iostats.store.record_store import Key, Store
    dice = random.Random(23)
    store = Store(options.address)
    sweeps, events = SweepStore(store), EventStore(store, 1_000_000)
    body, block = dice.randbytes(3000), dice.randbytes(2000)
    summary = Summary(read_bytes=23, write_bytes=37, began=_NOON, over=_NOON + 41)
    amounts = [FileSystemSummary(name, "nodes", 23, 37, 41, 43, 47, 0)
               for name in ("home", "scratch")]

    def reports(number):
        for one in range(number, number + _TOGETHER["reports"]):
            store.add(Key("eiger", str(one // 4), 0), f"nid{one % 4}", str(one), body, b"about",
                      "alice", _NOON + one, _NOON + one + 60)
        store.commit()

    def store_events(number):
        events.add_events(lists.pop())
        store.commit()
        events.committed()

    def blocks(number):
        sweeps.add(f"oss{number}", b"agent", [
            ("scratch", f"OST{one:04x}", block) for one in range(_TOGETHER["blocks"])])
        store.commit()

    def records(number):
        for one in range(number, number + _TOGETHER["records"]):
            key = Key("eiger", str(one), 0)
            store.job(key), store.has_record(key), list(store.reports(key)), store.list_damaged(key)
            store.store_records([(key, body, key.job, "", "alice", _NOON + one, summary,
                                  amounts, ())])

    lists = [site_events.events(500 * one, 500, dice, _NOON) for one in range(options.rounds)]
    found = {}
    for kind, step in (("reports", reports), ("events", store_events), ("blocks", blocks),
                       ("records", records)):
        count = _TOGETHER[kind]
        rounds = options.rounds if kind != "records" else options.rounds * 2 // 20
        used, began = time.process_time(), time.perf_counter()
        for number in range(rounds):
            step(number * count)
        found[kind] = ((time.process_time() - used) / rounds / count,
                       (time.perf_counter() - began) / rounds / count)
    store.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
