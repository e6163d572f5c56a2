"""
Figure: queries by node to the site's server: CPU, and how long each one blocks the server.

Each row is a process of its own: a real Harvest that has heard three storage servers of N clients,
and the job_stats of as many jobs on four targets; and questions that are answered in steps, as the
server does.  HTTP, the mac and JSON are not in it.
"""

import argparse
import binascii
import json
import os
import sys
import tempfile
import time

import harvest_server
from measure import HERE, Table, run_child

_BASE_S, _EVERY_S = 1_795_225_200, 20
# The first one has the targets of the job_stats (harvest_server.py) as well, since a storage server
# that reports no clients makes every answer a lower bound; its agent restarts for the sweep 0.
_SERVERS = (("oss00000", "OST"), ("oss2", "OST"), ("mds1", "MDT"))
_TARGETS = 4                    # with job_stats
_SHARE = 10                     # one client in ten has news in a sweep; all in the last one
_LAST = 1                       # of the sweeps; job_stats are in the last two
_ROWS = 10_000                  # as many as an answer to `load` has


def run(quick):
    """The Tables of this figure."""
    rows = []
    for nodes, sweeps in ((500, 10),) if quick else ((1000, 180), (10_000, 180), (40_000, 180)):
        one = child(nodes, sweeps)
        by_job = one["by job"]["cpu_s"]
        rows += [(f"{nodes:,} nodes: {name}", f"{cost['cpu_s'] * 1000:.0f}",
                  f"{cost['cpu_s'] / by_job:.2f}", f"{cost['longest_s'] * 1000:.0f}", cost["rows"])
                 for name, cost in one.items()]
    return [Table("Questions by node, at the site's server",
                  ("", "CPU ms", "of that by job", "longest step, ms", "rows"), rows,
                  ["Each question is asked for the second time in its sweep; `nodes` for the first "
                   "time, over 180 sweeps (an hour), a tenth of the nodes with news in all but the "
                   "last."])]


def child(nodes, sweeps):
    """One run: {question: {cpu_s, longest_s, rows}}."""
    return run_child(__file__, nodes, sweeps)


def _messages(nids, number, totals, full):
    """(message, storage server) of one sweep."""
    from iostats.wire.messages.clients_encoder import MAGIC, encode_clients, make_block_head
    from iostats.wire.messages.sweep_encoder import SweepMessages
    slot = _BASE_S + number * _EVERY_S
    for node, kind in _SERVERS:
        made = []
        busy = nids if full or number == _LAST else nids[number % _SHARE::_SHARE]
        mine, restarted = totals[node], number >= 0 and node == _SERVERS[0][0]
        chain = (node, "1" * 16) if restarted else (f"{node} clients", "2" * 16)
        head = {"node": node, "boot_id": "b" * 32, "run": chain[1], "slot": slot,
                "every": _EVERY_S, "full": full or (restarted and number == 0),
                "read_ahead_s": 0.0}
        some = nids if head["full"] else busy
        for nid in busy:
            row = mine[nid]
            for place, amount in enumerate((41_003, 53_007, 23, 37, 43) if kind == "OST" else
                                           (0, 0, 0, 0, 61)):
                row[place] += amount
        parts = SweepMessages(made.append, lambda head=head, name=chain[0]: {
            **head, "seq": harvest_server._next_seq(name)}, 1 << 20, MAGIC)
        columns = [[mine[nid][place] for nid in some] for place in range(5)]
        for block, is_last in encode_clients(make_block_head(
                "scratch", kind, "e" * 16, slot + 0.25, slot + 0.5, len(nids),
                [f"{kind}00f{node[-1]}"]), some, columns, 1 << 20):
            parts.add_packed(block, is_last)
        parts.end()
        yield from ((message, node) for message in made)


def main(arguments=None):
    """One run; its figures as JSON."""
    parser = argparse.ArgumentParser(prog="nodes.py")
    parser.add_argument("nodes", type=int)
    parser.add_argument("sweeps", type=int)
    options = parser.parse_args(arguments)
    sys.path.insert(0, os.path.dirname(HERE))
    from iostats.answers.load_queries import LoadAnswers, LoadParams, QueryParams
    from iostats.answers.node_queries import MOST_ROWS, NodeAnswers, NodesParams
    from iostats.base import config as site
    from iostats.harvest import intake as harvest_intake
    from iostats.harvest.events.reported_lnet import ShortPeers
    from iostats.server.rpc_server import Caller
    from iostats.store.record_store import Store
    from iostats.wire import jsonrpc
    from iostats.wire.messages import clients, sweep_decoder

    config = site.load(environ={})
    config.set_value("batch.system", "none", "benchmark")
    clock = [float(_BASE_S)]
    nids = [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}@o2ib" for n in range(options.nodes)]
    totals = {node: {nid: [0] * 5 for nid in nids} for node, _ in _SERVERS}
    found = {}
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        store = Store(os.path.join(directory, "site.sqlite"))
        harvest = harvest_intake.Harvest(store, config, lambda: clock[0])
        methods = {
            "packed_sweep": jsonrpc.Method(lambda message, who: harvest_intake.answer_to(
                harvest, message, who), sweep_decoder.PackedSweep),
            "packed_clients": jsonrpc.Method(lambda message, who: harvest_intake.answer_to(
                harvest, message, who, clients.decode_clients),
                sweep_decoder.PackedSweep)}

        def taken(method, message, node):
            body = (b'{"jsonrpc":"2.0","id":1,"method":"%s","params":{"protocol":2,"sweep":"%s"}}'
                    % (method, binascii.b2a_base64(message, newline=False)))
            answer = jsonrpc.dispatch(body, methods, Caller(node, 0))
            store.commit()
            if b'"taken":true' not in answer:
                raise SystemExit(answer.decode())
        for number in range(1 - options.sweeps, _LAST + 1):
            clock[0] = float(_BASE_S + number * _EVERY_S)
            if number >= 0:
                for message, node in harvest_server._bodies(
                        _TARGETS, options.nodes, number, 1, _TARGETS):
                    taken(b"packed_sweep", message, node)
            for message, node in _messages(nids, number, totals, number == 1 - options.sweeps):
                taken(b"packed_clients", message, node)
            harvest.end_sweep()
        since = float(_BASE_S + (1 - options.sweeps) * _EVERY_S)
        asked, by, no_peers = LoadAnswers(), NodeAnswers(), ShortPeers([])
        for name, question in (("by job", LoadParams(count=_ROWS)),
                               ("by node", LoadParams("node", count=_ROWS))):
            _cost(asked.load(harvest, question, None), "rows")
            found[name] = _cost(asked.load(harvest, question, None), "rows")
        found["query f"] = _cost(asked.query(harvest, QueryParams("f", count=_ROWS), None), "rows")
        found["nodes"] = _cost(by.answer(harvest.clients, NodesParams(
            since, count=MOST_ROWS, sort="write_bytes", descending=True), None, no_peers), "nodes")
        found["nodes, next part"] = _cost(by.answer(harvest.clients, NodesParams(
            since, clock[0], count=MOST_ROWS, sort="write_bytes", descending=True,
            after=min(MOST_ROWS, options.nodes)), None, no_peers), "nodes")
        found["nodes, one of them"] = _cost(NodeAnswers().answer(harvest.clients, NodesParams(
            since, nodes=[nids[23]]), None, no_peers), "nodes")
        for name, most in (("by job", _ROWS), ("by node", _ROWS), ("nodes", MOST_ROWS)):
            if found[name]["rows"] != min(most, options.nodes):
                raise SystemExit(f"{name}: {found[name]['rows']} rows of {options.nodes}")
        _check(by, harvest, options.sweeps, NodesParams(since, nodes=[nids[23]]))
        store.close()
    print(json.dumps(found))


def _cost(work, rows):
    """What the steps of an answer take."""
    longest, began = 0.0, time.process_time()
    while True:
        step = time.process_time()
        try:
            next(work)
        except StopIteration as end:
            now = time.process_time()
            return {"cpu_s": now - began, "longest_s": max(longest, now - step),
                    "rows": len(end.value[rows])}
        longest = max(longest, time.process_time() - step)


def _check(by, harvest, sweeps, question):
    """What one node has written is what it was said to have."""
    from iostats.base.cooperative import run_to_end
    from iostats.harvest.events.reported_lnet import ShortPeers
    [row] = run_to_end(by.answer(harvest.clients, question, None, ShortPeers([])))[
        "nodes"]
    times = 1 + sum(23 % _SHARE == number % _SHARE for number in range(2 - sweeps, _LAST))
    if (row["write_bytes"], row["mdt_operations"], row["lower_bound"]) != (
            2 * times * 53_007, times * 61, False):
        raise SystemExit(f"expected {times} times what is sent, got {row}")


if __name__ == "__main__":
    main()
