"""
Figure: the site's server at one sweep of what all storage servers count by client: CPU, memory,
growth, and what a question about a day costs.

Each row is a process of its own: a real Harvest with a real store, and the bodies of messages as
agents send them, decoded, checked, kept on the disk, added up and put into the history; HTTP and
the mac are not in it.  What an agent sends is made before the clock starts.

Peers, in processes of their own, with the same clients: the way of lustreHarvest (each target's
numbers of all clients, pickled, added up in dictionaries of dictionaries, and compared with those
of the sweep before), and that of lltop (a line of text for each client with news, already the sum
of a server's targets and the difference of two readings, split into words).  Neither keeps
anything on the disk, and neither notices a reset.
"""

import argparse
import binascii
import json
import os
import pickle
import resource
import sys
import tempfile
import time

from measure import HERE, Table, run_child

_TARGETS = 12                   # of a storage server
_EVERY_S = 60
_BEGAN = 1_795_225_200
_SHARE = 10                     # one client in ten has news in a sweep
_SWEEPS = 6


def run(quick):
    """The Tables of this figure."""
    sizes = ((10, 1000), (10, 2000)) if quick else (
        (100, 1000), (100, 3000), (100, 10_000), (100, 30_000))
    rows = []
    for servers, clients in sizes:
        ours = child("iostats", servers, clients)
        rows.append((f"{servers} servers x {clients:,} clients", f"{ours['first_s']:.2f}",
                     f"{ours['some_s']:.3f}", f"{ours['some_s'] / clients * 1e6:.0f}",
                     f"{ours['all_s']:.2f}", f"{ours['peak_mib']:.0f}", f"{ours['again_s']:.2f}",
                     f"{ours['row_bytes']:.0f}", f"{ours['day_s']:.2f}"))
    peers = []
    servers, clients = sizes[0]
    ours = child("iostats", servers, clients)
    for name in ("lustreHarvest", "lltop"):
        peer = child(name, servers, clients)
        peers.append((f"{name}'s way", f"{peer['some_s']:.3f}",
                      f"{peer['some_s'] / ours['some_s']:.2f}", f"{peer['peak_mib']:.0f}"))
    peers.insert(0, ("iostats", f"{ours['some_s']:.3f}", "1", f"{ours['peak_mib']:.0f}"))
    return [
        Table("The site's server: one sweep of what each client did",
              ("", "first sweep, CPU s", "10 % changed, CPU s", "us a client",
               "all changed, CPU s", "peak MiB", "restart, CPU s", "bytes of a sweep kept",
               "a day's totals, CPU s"), rows,
              [f"{_TARGETS} targets of each server, whose sums its agent makes.  A sweep is due "
               f"every {_EVERY_S} s; a day has {86_400 // _EVERY_S}."]),
        Table(f"The same, beside others: {servers} servers x {clients:,} clients, 10 % changed",
              ("", "CPU s", "times ours", "peak MiB"), peers,
              ["lustreHarvest sends all numbers of all targets in each sweep; lltop's servers send "
               "differences already.  Ours keeps each message on the disk before it is answered."]),
    ]


def child(kind, servers, clients):
    """One run; its figures."""
    return run_child(__file__, kind, servers, clients)


def nid(client):
    return f"10.{client >> 16 & 255}.{client >> 8 & 255}.{client & 255}@o2ib3"


def amounts(client, number):
    """What a client has done at one server when it has had news `number` times."""
    some = (client * 2_654_435_761 + number * 40_503_001) % (1 << 20) if number else 0
    step = 1 + client % 977
    return (number * (step << 20) + some, number * (step << 21) + 3 * some, number * step,
            number * (step + 37), number * 61)


def has_news(client, number):
    return client % _SHARE == number % _SHARE


def _bodies(servers, clients, number, has):
    """(message, node) of one sweep, as agents pack them."""
    from iostats.wire.messages.clients_encoder import MAGIC, encode_clients, make_block_head
    from iostats.wire.messages.sweep_encoder import SweepMessages
    slot = _BEGAN + number * _EVERY_S
    some = [client for client in range(clients) if has(client, number)]
    for client in some:
        _times[client] = _times.get(client, -1) + 1
    nids = [nid(client) for client in some]
    columns = list(zip(*(amounts(client, _times[client]) for client in some))) or [()] * 5
    for server in range(servers):
        node, made = f"oss{server:03d}", []
        parts = SweepMessages(made.append, lambda node=node: {
            "node": node, "boot_id": "b" * 32, "run": "1" * 16, "seq": _next_seq(node),
            "full": number == 0, "slot": slot, "every": _EVERY_S, "read_ahead_s": 0.0}, 1 << 20,
            MAGIC)
        head = make_block_head("scratch", "OST", "e" * 16, slot + 0.1, slot + 3.1, clients,
                               [f"OST{server * _TARGETS + one:04x}" for one in range(_TARGETS)])
        for block, ended in encode_clients(head, nids, columns, 1 << 20):
            parts.add_packed(block, ended)
        parts.end()
        yield from ((message, node) for message in made)


_seqs, _times = {}, {}


def _next_seq(node):
    _seqs[node] = _seqs.get(node, 0) + 1
    return _seqs[node]


def ours(servers, clients):
    """Our figures."""
    sys.path.insert(0, os.path.dirname(HERE))
    from iostats.base import config as site
    from iostats.base.cooperative import run_to_end
    from iostats.harvest import intake as harvest_intake
    from iostats.server.rpc_server import Caller
    from iostats.store.record_store import Store
    from iostats.wire import jsonrpc
    from iostats.wire.messages import clients as messages_clients
    from iostats.wire.messages import sweep_decoder

    config = site.load(environ={})
    config.set_value("batch.system", "none", "benchmark")
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        def opened():
            store = Store(os.path.join(directory, "site.sqlite"))
            return store, harvest_intake.Harvest(store, config, lambda: clock[0])

        clock, times = [float(_BEGAN)], []
        store, harvest = opened()
        methods = {"packed_clients": jsonrpc.Method(
            lambda message, who: harvest_intake.answer_to(
                harvest, message, who, messages_clients.decode_clients),
            sweep_decoder.PackedSweep)}
        for number, has in enumerate([lambda client, number: True, *[has_news] * _SWEEPS,
                                      lambda client, number: True]):
            clock[0] = _BEGAN + number * _EVERY_S + 4.0
            used = 0.0
            for message, node in _bodies(servers, clients, number, has):
                body = (b'{"jsonrpc":"2.0","id":1,"method":"packed_clients","params":{"protocol":2,'
                        b'"sweep":"%s"}}' % binascii.b2a_base64(message, newline=False))
                began = time.process_time()
                answer = jsonrpc.dispatch(body, methods, Caller(node, 0))
                store.commit()
                used += time.process_time() - began
                if b'"taken":true' not in answer:
                    raise SystemExit(answer.decode())
            began = time.process_time()
            harvest.end_sweep()
            while harvest.checkpoints.step() or harvest.clients.step():
                pass
            times.append(used + time.process_time() - began)
        peak_mib = _peak_mib()
        rows = store.rows("SELECT length(body) FROM client_gains ORDER BY id")
        found = run_to_end(harvest.clients.between(_BEGAN, clock[0] + _EVERY_S))
        for client in range(0, clients, 997):
            expected = [servers * one for one in amounts(client, _times[client])]
            if found["scratch", nid(client)].high[:5] != expected:
                raise SystemExit(f"expected {expected} of {nid(client)}, got "
                                 f"{found['scratch', nid(client)].high}")
        for _ in range(86_400 // _EVERY_S // _SWEEPS):  # a day of such sweeps
            store.do("INSERT INTO client_gains (file_system, since, until, made, merged, body) "
                     "SELECT file_system, since, until, made, merged, body FROM client_gains "
                     "WHERE id BETWEEN 2 AND ?", (_SWEEPS + 1,))
        began = time.process_time()
        run_to_end(harvest.clients.between(_BEGAN, clock[0] + _EVERY_S))
        day_s = time.process_time() - began
        store.close()
        began = time.process_time()
        store, harvest = opened()
        again_s = time.process_time() - began
        store.close()
    return {"first_s": times[0], "some_s": sorted(times[1:-1])[_SWEEPS // 2], "all_s": times[-1],
            "peak_mib": peak_mib, "again_s": again_s, "day_s": day_s,
            "row_bytes": sorted(size for size, in rows)[len(rows) // 2]}


def lustre_harvest(servers, clients):
    """The same in dictionaries of dictionaries: its figures."""
    before, times = None, []
    for number in range(3):
        messages = []
        for server in range(servers):
            messages.append(pickle.dumps({"scratch": {
                f"OST{server * _TARGETS + target:04x}": {
                    nid(client): (number * 41 << 20, number * 53 << 20, number * 61)
                    for client in range(clients)} for target in range(_TARGETS)}}, 2))
        began = time.process_time()
        data = {server: pickle.loads(message) for server, message in enumerate(messages)}
        names = sorted({one for oss in data.values() for fs in oss.values()
                        for ost in fs.values() for one in ost})
        sums = [dict.fromkeys(names, 0) for _ in range(3)]
        for oss in data.values():
            for fs in oss.values():
                for ost in fs.values():
                    for one, (read, written, operations) in ost.items():
                        sums[0][one] += read
                        sums[1][one] += written
                        sums[2][one] += operations
        if before is not None:
            for new, old in zip(sums, before):
                rates = {one: (new[one] - old[one]) / _EVERY_S for one in new if one in old}
                if len(rates) != clients:
                    raise SystemExit("a client is missing")
        before = sums
        times.append(time.process_time() - began)
    return {"some_s": times[-1], "peak_mib": _peak_mib()}


def lltop(servers, clients):
    """The same from lines of differences: its figures."""
    times = []
    for number in range(3):
        text = "".join(f"{nid(client)} {53 << 20} {41 << 20} 61\n"
                       for client in range(clients) if has_news(client, number))
        messages = [text for _ in range(servers)]
        began = time.process_time()
        sums = {}
        for message in messages:
            for line in message.splitlines():
                one, written, read, operations = line.split()
                known = sums.get(one)
                if known is None:
                    known = sums[one] = [0, 0, 0]
                known[0] += int(written)
                known[1] += int(read)
                known[2] += int(operations)
        rates = {one: [amount / _EVERY_S for amount in some] for one, some in sums.items()}
        if len(rates) != len(text.splitlines()):
            raise SystemExit("a client is missing")
        times.append(time.process_time() - began)
    return {"some_s": times[-1], "peak_mib": _peak_mib()}


def _peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(arguments=None):
    """One run; its figures as JSON."""
    kinds = {"iostats": ours, "lustreHarvest": lustre_harvest, "lltop": lltop}
    parser = argparse.ArgumentParser(prog="site_clients.py")
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("servers", type=int)
    parser.add_argument("clients", type=int)
    options = parser.parse_args(arguments)
    print(json.dumps(kinds[options.kind](options.servers, options.clients)))


if __name__ == "__main__":
    main()
