"""
Figure: the site's server at one sweep of all storage servers: CPU, memory, growth.

Each row is a process of its own: a real Harvest with a real store, and the bodies of messages as
agents send them, decoded, checked, kept on the disk, corrected and added up; HTTP and the mac are
not in it.  What an agent sends is made before the clock starts.
"""

import argparse
import binascii
import json
import os
import sys
import tempfile
import time

from measure import HERE, Table, peak_mib, run_child

_PART = 2000                    # entries in one message, as the agent cuts them
_OF_AGENT = 100                 # targets of one storage server, where there are many
_EVERY_S = 20
_COUNTERS = ("read_bytes", "write_bytes", "read", "write", "getattr", "setattr", "punch", "sync",
             "destroy", "create", "statfs", "get_info", "set_info", "quotactl", "prealloc")
_BASE_NS = 1_795_225_200 * 10**9
_LARGE = 1_048_583              # so that sums of bytes need more than 32 bits


def run(quick):
    """The Tables of this figure."""
    sizes = ((4, 300), (4, 1000), (100, 4)) if quick else (
        (200, 1000), (200, 10_000), (20, 10_000), (20, 100_000), (1000, 100), (10_000, 10),
        (100_000, 3))
    rows = []
    for targets, jobs in sizes:
        one = child(targets, jobs)
        entries = targets * jobs
        rows.append((f"{targets} targets x {jobs:,} jobs", f"{one['first_s']:.2f}",
                     f"{one['all_s']:.2f}", f"{one['all_s'] / entries * 1e6:.2f}",
                     f"{one['some_s']:.3f}", f"{one['peak_mib']:.0f}",
                     f"{one['bytes_each']:.0f}", f"{one['again_s']:.2f}"))
    return [Table("The site's server: one sweep of all storage servers",
                  ("", "first sweep, CPU s", "all changed, CPU s", "us an entry",
                   "1 % changed, CPU s", "peak MiB", "bytes an entry", "restart, s"), rows,
                  ["An entry is one job on one target, with eight counters.  CPU of one core; a "
                   "sweep is due every 20 s."])]


def child(targets, jobs, *address):
    """
    One run: {first_s, all_s, some_s, all_elapsed_s, peak_mib, bytes_each, again_s}; `address`: of
    another store than a new file.
    """
    return run_child(__file__, targets, jobs, *address)


def _form():
    from iostats.lustre.job_stats_rows import FIELDS, EntryColumn, EntryForm
    return EntryForm([EntryColumn(name, "bytes" if name.endswith("_bytes") else "usecs", FIELDS)
                 for name in _COUNTERS])


def _numbers(number, one):
    """Of job `one` in sweep `number`: four of five counters are in use, by turns."""
    samples = number * 23 + one % 37 + 1
    found = []
    for place, name in enumerate(_COUNTERS):
        found += ((0,) * 5 if (one + place) % 5 == 0 and name != "write_bytes" else
                  (samples, 41, 2**40, samples * 4099 * (_LARGE if "_bytes" in name else 1),
                   samples * 16_801_801))
    return tuple(found)


def _bodies(targets, jobs, number, share, targets_each=None):
    """
    (message, node) of one sweep, one after the other, as agents pack them.

    `targets_each`: of each storage server (oss00000, oss00001, ...); None: what one message holds.
    """
    from iostats.lustre.job_stats_rows import Row
    from iostats.wire.messages.sweep_encoder import BlockEncoder, SweepMessages
    slot, form = _BASE_NS // 10**9 + number * _EVERY_S, _form()
    some = [one for one in range(jobs) if share == 1 or one % round(1 / share) == number]
    each = targets_each or max(1, min(_OF_AGENT, _PART // max(1, jobs)))
    for first in range(0, targets, each):
        node, made = f"oss{first // each:05d}", []
        parts = SweepMessages(made.append, lambda node=node: {
            "node": node, "boot_id": "b" * 32, "run": "1" * 16, "seq": _next_seq(node),
            "full": number == 0, "slot": slot, "every": _EVERY_S}, 1 << 20)
        for target in range(first, min(first + each, targets)):
            head = {"file_system": "scratch", "target": f"OST{target:04x}",
                    "read_at": slot + 0.1, "cleanup_s": 600}
            block = BlockEncoder(head)
            for one in some:
                row = Row(str(4_711_000 + one), _BASE_NS + one, slot * 10**9 - one,
                          _numbers(number, one))
                if not (block.has_place_for(form, row) and parts.has_place_for(block)):
                    parts.add(block, ended=False)
                    block = BlockEncoder(head)
                    yield from ((message, node) for message in _drained(made))
                block.add(form, row)
            parts.add(block, ended=True, entries=jobs)
        parts.end()
        yield from ((message, node) for message in _drained(made))


_seqs = {}


def _next_seq(node):
    _seqs[node] = _seqs.get(node, 0) + 1
    return _seqs[node]


def _drained(made):
    found, made[:] = made[:], []
    return found


def main(arguments=None):
    """One run; its figures as JSON."""
    parser = argparse.ArgumentParser(prog="harvest_server.py")
    parser.add_argument("targets", type=int)
    parser.add_argument("jobs", type=int)
    parser.add_argument("address", nargs="?")
    options = parser.parse_args(arguments)
    sys.path.insert(0, os.path.dirname(HERE))
    from iostats.base import config as site
    from iostats.harvest import intake as harvest_intake
    from iostats.server.rpc_server import Caller
    from iostats.store.record_store import Store
    from iostats.wire import jsonrpc
    from iostats.wire.messages import sweep_decoder

    config = site.load(environ={})
    config.set_value("batch.system", "none", "benchmark")
    times, elapsed = [], []
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        def opened():
            store = Store(options.address or os.path.join(directory, "site.sqlite"))
            return store, harvest_intake.Harvest(store, config, lambda: clock[0])

        clock = [_BASE_NS / 1e9]
        before = _rss()
        store, harvest = opened()
        methods = {"packed_sweep": jsonrpc.Method(
            lambda message, who: harvest_intake.answer_to(harvest, message, who),
            sweep_decoder.PackedSweep)}
        for number, share in enumerate((1, 1, 0.01)):
            clock[0] = _BASE_NS / 1e9 + number * _EVERY_S
            used = took = 0.0
            for message, node in _bodies(options.targets, options.jobs, number, share):
                body = (b'{"jsonrpc":"2.0","id":1,"method":"packed_sweep","params":{"protocol":2,'
                        b'"sweep":"%s"}}' % binascii.b2a_base64(message, newline=False))
                began, at = time.process_time(), time.perf_counter()
                answer = jsonrpc.dispatch(body, methods, Caller(node, 0))
                store.commit()
                used += time.process_time() - began
                took += time.perf_counter() - at
                if b'"taken":true' not in answer:
                    raise SystemExit(answer.decode())
            began, at = time.process_time(), time.perf_counter()
            harvest.end_sweep()
            while harvest.checkpoints.step():
                pass
            times.append(used + time.process_time() - began)
            elapsed.append(took + time.perf_counter() - at)
            if harvest.sweep is None or len(harvest.sweep.targets) != options.targets:
                raise SystemExit("the sweep was not complete")
        after, peak = _rss(), peak_mib()
        _check(harvest, options.targets, options.jobs)
        query_mib = _query(harvest)
        store.close()
        harvest = None
        began = time.perf_counter()
        store, harvest = opened()
        again_s = time.perf_counter() - began
        _check(harvest, options.targets, options.jobs)
        store.close()
    print(json.dumps({
        "first_s": times[0], "all_s": times[1], "some_s": times[2], "all_elapsed_s": elapsed[1],
        "peak_mib": peak, "query_mib": query_mib,
        "bytes_each": (after - before) * 1024 / (options.targets * options.jobs),
        "again_s": again_s}))


def _check(harvest, targets, jobs):
    """Every job's bytes on every target: what _bodies have said of it last."""
    expected = targets * 4099 * _LARGE * sum(
        (46 if one % 100 == 2 else 23) + one % 37 + 1 for one in range(jobs))
    found = sum(int(target.totals(list(target.ids())).counters["write_bytes"].sums.sum())
                for target in harvest.targets.values())
    if found != expected:
        raise SystemExit(f"expected {expected} bytes written, got {found}")


def _query(harvest):
    """The peak of memory, MiB, after `query a` of everything."""
    from iostats.answers.load_queries import LoadAnswers, QueryParams
    from iostats.base.cooperative import run_to_end
    run_to_end(LoadAnswers().query(harvest, QueryParams(level="a"), None))
    return peak_mib()


def _rss():
    """KiB of memory in use."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
