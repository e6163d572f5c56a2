"""
Figure: a site's server that relays a file system to three clusters: CPU of a sweep.

A real Harvest hears the storage servers, and is the peer: what it costs to take the sweep.  What is
for the clusters is filtered, packed and kept on the disk as the server's threads do it, and sent to
three real servers over the loopback; their CPU is not in it.  The messages are made before the
clock starts.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time

from measure import (
    HERE,
    SERVER,
    Server,
    Table,
    free_port,
    peak_mib,
    run_child,
)

_BASE_S, _EVERY_S = 1_795_225_200, 20
_CLUSTERS = {"xe": "o2ib2", "vu": "o2ib3", "dcc": "tcp102"}
_SHARE = 10                     # one client in ten has news in a sweep


def run(quick):
    """The Tables of this figure."""
    sizes = ((4, 300),) if quick else ((20, 1000), (20, 10_000), (100, 10_000))
    rows = []
    for servers, clients in sizes:
        one = child(servers, clients)
        told = one["keep_s"] + one["send_s"]
        rows.append((f"{servers} storage servers, 3 x {clients:,} clients",
                     f"{one['take_s']:.2f}", f"{one['keep_s']:.2f}", f"{one['send_s']:.2f}",
                     f"{told / one['take_s']:.1f}", f"{one['kib']:.0f}", f"{one['all_s']:.1f}",
                     f"{one['peak_mib']:.0f}"))
    return [Table("A relay to three clusters: one sweep, a tenth of the clients with news",
                  ("", "taking it, CPU s", "filtered and kept, CPU s", "sent, CPU s",
                   "both to taking it", "KiB sent", "all of all told once, CPU s", "peak MiB"),
                  rows, ["A message for each storage server and cluster; each is sent on a "
                         "connection of its own."])]


def child(servers, clients):
    """One run; its figures."""
    return run_child(__file__, servers, clients)


def _message(server, seq, nids, amounts, number):
    """The messages of one storage server's sweep: the clients of `number`, 0 for all."""
    from iostats.wire.messages.clients_encoder import MAGIC, encode_clients, make_block_head
    from iostats.wire.messages.sweep_encoder import SweepMessages
    slot, made = _BASE_S + number * _EVERY_S, []
    some = nids[number % _SHARE::_SHARE] if number else nids
    count = iter(range(seq, seq + 1000))
    parts = SweepMessages(made.append, lambda: {
        "node": server, "boot_id": "b" * 32, "run": "2" * 16, "seq": next(count),
        "full": not number, "slot": slot, "every": _EVERY_S, "read_ahead_s": 0.0}, 1 << 20, MAGIC)
    chance = random.Random(f"{server} {number}")
    columns = [[(one << 20) * (number + 1) + chance.randrange(1 << 20) for _ in some]
               for one in amounts]
    for block, is_last in encode_clients(make_block_head(
            "gdata", "OST", "e" * 16, slot + 0.25, slot + 0.5, len(nids), [f"OST{server[3:]}"]),
            some, columns, 1 << 20):
        parts.add_packed(block, is_last)
    parts.end()
    return made


@contextlib.contextmanager
def _cluster(directory, name, port):
    """A cluster's server, which lets the relay `alkindi` speak of its clients."""
    place = os.path.join(directory, name)
    os.makedirs(os.path.join(place, "relay"), mode=0o700)
    shutil.copy(os.path.join(directory, "relay", f"{name}.secret"),
                os.path.join(place, "relay", "alkindi.secret"))
    config = os.path.join(place, "site.cfg")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"[batch]\nsystem = none\n[site]\nport = {port}\nhost = 127.0.0.1\n"
                   f"secret = {place}/secret\nstore = {place}/site.sqlite\n"
                   f"relay_secrets = {place}/relay\n[relay_from]\n"
                   f"alkindi = gdata; {_CLUSTERS[name]}\n")
    with Server([sys.executable, SERVER, "--site", "--quiet", "--listen", "127.0.0.1", "--config",
                 config], port):
        yield


def main(arguments=None):
    """One run; its figures as JSON."""
    parser = argparse.ArgumentParser(prog="relay.py")
    parser.add_argument("servers", type=int)
    parser.add_argument("clients", type=int)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory, (
            contextlib.ExitStack()) as stack:
        print(json.dumps(_measured(options, directory, stack)))


def _measured(options, directory, stack):
    """The figures of one run."""
    sys.path.insert(0, os.path.dirname(HERE))
    from iostats.base import config as site
    from iostats.harvest import intake as harvest_intake
    from iostats.harvest.relay.outgoing import Relays
    from iostats.store.record_store import Store
    from iostats.wire.messages import clients as messages_clients
    from iostats.wire.messages.sweep_decoder import PackedSweep

    config = site.load(os.devnull, environ={})
    ports = {name: free_port() for name in _CLUSTERS}
    for name, text in (("batch.system", "none"), ("site.relay_name", "alkindi"),
                       ("site.relay_secrets", f"{directory}/relay"),
                       ("site.relay_spool_dir", f"{directory}/spool")):
        config.set_value(name, text, "benchmark")
    for name, lnet in _CLUSTERS.items():
        config.free["relay"][lnet] = f"127.0.0.1:{ports[name]} {name}"
        config.origin[f"relay.{lnet}"] = "benchmark"
    nids = [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}@{lnet}"
            for lnet in _CLUSTERS.values() for n in range(options.clients)]
    servers = [f"oss{number:04x}" for number in range(options.servers)]
    now = [float(_BASE_S)]
    store = Store(os.path.join(directory, "site.sqlite"))
    harvest = harvest_intake.Harvest(store, config, lambda: now[0])
    told = harvest.relays = Relays(config, lambda line: None, lambda: now[0])
    for name, port in ports.items():
        stack.enter_context(_cluster(directory, name, port))
    seqs = dict.fromkeys(servers, 1)

    def sweep(number):
        """{what: CPU s} of one sweep, and the bytes that waited."""
        found = {"take": 0.0, "keep": 0.0, "send": 0.0, "bytes": 0}
        now[0] = float(_BASE_S + number * _EVERY_S)
        for server in servers:
            for message in _message(server, seqs[server], nids, (41_003, 53_007, 23, 37, 43),
                                    number):
                seqs[server] += 1
                began = time.process_time()
                taken = messages_clients.decode_clients(PackedSweep(2, message), 1 << 28)
                answer = harvest.receive(taken, server)
                store.commit()
                found["take"] += time.process_time() - began
                if not answer["taken"]:
                    raise SystemExit(answer["why"])
            for one in told.destinations:
                delivery = one._delivery
                delivery.retry_at = time.monotonic() + 1000     # kept first, and sent together
                began = time.process_time()
                one.store_and_send(0.0)
                found["keep"] += time.process_time() - began
        for one in told.destinations:
            delivery = one._delivery
            found["bytes"] += sum(os.path.getsize(os.path.join(delivery.spool.directory, file.name))
                                  for file in delivery.spool)
            delivery.retry_at = 0.0
            began = time.process_time()
            while len(delivery.spool):
                one.store_and_send(0.0)
                if delivery.refused or delivery.retry_at:
                    raise SystemExit(f"not sent: {delivery.refused}")
            found["send"] += time.process_time() - began
        return found
    first = sweep(0)
    later = [sweep(number) for number in range(1, 4)]
    best = min(later, key=lambda one: one["keep"] + one["send"])
    told.close()
    store.close()
    return {"take_s": best["take"], "keep_s": best["keep"], "send_s": best["send"],
            "kib": best["bytes"] / 1024, "all_s": first["keep"] + first["send"],
            "peak_mib": peak_mib()}


if __name__ == "__main__":
    main()
