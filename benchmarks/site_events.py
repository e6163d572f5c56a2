"""
Figure: the site's server and events: what they cost it for its life, what a report waits for them,
and what questions over a million of them take.

The first table is of one process: a real SiteEvents with a real store, full to [events] keep_count,
and messages as agents send them, in steps as the server takes them.  Its peer is SQLite alone: the
same columns in a table with a unique index of the id, a commit for each message.  The second is
of a real server with 5,000 events a second from other processes: what a report waits for its
answer, and the same without them, taking turns.  The third are questions.
"""

import argparse
import binascii
import json
import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from measure import (
    HERE,
    SERVER,
    Server,
    Table,
    environment,
    free_port,
    median_ratio,
    run_child,
)

_AT_ONCE = 1_000                # events in a message
_A_SECOND = 5_000
_BEGAN = 1_795_225_200
_KINDS = ("evicted", "connection_lost", "connection_restored", "timeouts", "other", "lock_timeout")


def run(quick):
    """The Tables of this figure."""
    sizes = (5_000,) if quick else (100_000, 1_000_000)
    ours, peers = {}, {}
    for size in sizes:
        ours[size], peers[size] = child("iostats", size), child("sqlite", size)
    rows = []
    for size in sizes:
        for name, one in (("iostats", ours[size]), ("SQLite alone", peers[size])):
            rows.append((f"{name}, {size:,} kept", f"{one['us']:.0f}",
                         f"{one['us'] * _A_SECOND / 1e4:.0f}",
                         f"{ours[size]['us'] / one['us']:.2f}", f"{one['written']:.0f}",
                         f"{one['bytes']:.0f}", f"{one['peak_mib']:.0f}",
                         f"{one['longest_ms']:.0f}", f"{one['open_s']:.2f}"))
    return [
        Table(f"The site's server: events, {_AT_ONCE:,} in a message, when keep_count is reached",
              ("", "us of CPU an event", f"% of a core at {_A_SECOND:,}/s", "ours / it",
               "bytes written an event", "bytes kept an event", "peak MiB",
               "99 in 100 steps within, ms of CPU", "opening, s of CPU"), rows,
              ["Each event that comes makes the oldest one go.  Ours inflates, decodes, checks, "
               "compares with what is there; a step is what a report may have to wait for."]),
        _reports(quick),
        Table(f"Questions over {sizes[-1]:,} events",
              ("", "events found", "s of CPU", "99 in 100 steps within, ms of CPU"),
              [(name, f"{found:,}", f"{cpu_s:.3f}", f"{longest_ms:.1f}")
               for name, found, cpu_s, longest_ms in ours[sizes[-1]]["questions"]],
              ["In steps, between which reports are taken."]),
    ]


def child(kind, size):
    """One run; its figures."""
    return run_child(__file__, kind, size)


def events(first, count, dice, at):
    """[Event] that storage server's agents tell, in the mixture of a bad day."""
    from iostats.events.event import make_event
    found = []
    for number in range(first, first + count):
        server = number % 40
        kind = _KINDS[dice.randrange(len(_KINDS))]
        target = f"fs{server % 4}-OST{number % 97:04x}"
        client = f"10.9.{dice.randrange(40)}.{dice.randrange(250)}@o2ib3"
        found.append(make_event(
            "b" * 32, f"oss{server}", (kind, str(number)), kind, at + number / _A_SECOND,
            file_system=f"fs{server % 4}", target=target, clients=[client],
            message=f"{target}: haven't heard from client 5a3e3a1e-5d2f-4b0c-9d1e-{number:012x} "
                    f"(at {client}) in 227 seconds. I think it's dead, and I am evicting it."))
    return found


def message(some, node):
    """The params of packed_events, for these of one storage server."""
    from iostats.events.event import as_json
    from iostats.wire.messages.events_encoder import encode_events
    head = {"node": node, "boot_id": "b" * 32, "seq": 1, "made": some[0].time, "ahead_s": 0.0,
            "every": 10}
    [(packed, _)] = encode_events(head, [as_json(one) for one in some], {
        "health": "healthy", "targets": {"fs0-OST0000": {"state": "up", "clients": 37}}})
    return packed


# -- in one process ------------------------------------------------------------------------------

def _iostats(size, directory):
    from iostats.base import config as site
    from iostats.harvest.clients.node_names import NodeNames
    from iostats.harvest.events.event_filter import EventsParams
    from iostats.harvest.events.intake import SiteEvents
    from iostats.store.record_store import Store
    from iostats.wire.messages.events import decode_events
    from iostats.wire.messages.sweep_decoder import PackedSweep

    config, dice = site.load(environ={}), random.Random(23)
    config.set_value("events.keep_count", str(size), "benchmark")
    clock = [_BEGAN + 10 * size / _A_SECOND]
    path = os.path.join(directory, "site.sqlite")

    def opened():
        store = Store(path)
        return store, SiteEvents(store, config, lambda: clock[0], NodeNames(config))

    store, taking = opened()
    took_ms = []

    def take(packed, node):
        began = time.process_time()
        steps = taking.receive(decode_events(PackedSweep(1, packed, 0.0), 64 << 20), node)
        for _ in steps:
            took_ms.append((time.process_time() - began) * 1e3)
            began = time.process_time()
        took_ms.append((time.process_time() - began) * 1e3)
        began = time.process_time()
        store.commit()
        taking.committed()
        took_ms.append((time.process_time() - began) * 1e3)

    made = _messages(size, dice)
    for packed, node in made:                           # until it is full
        take(packed, node)
    took_ms.clear()
    used, written = 0.0, _written()
    some = min(size, 100_000)
    for packed, node in _messages(some, dice, size):
        began = time.process_time()
        take(packed, node)
        used += time.process_time() - began
    written = _written() - written
    found = taking._store.count
    if found != size:
        raise SystemExit(f"expected {size} events, got {found}")
    peak_mib, questions = _peak_mib(), []
    last = _BEGAN + (size + some) / _A_SECOND
    node = "10.9.7.7@o2ib3"
    for name, ask in (("all of the last minute", {"since": last - 60}),
                      ("evictions of a node, ever", {"nodes": [node], "kinds": ["evicted"]}),
                      ("one target, ever", {"targets": ["fs1-OST0001"]}),
                      ("the last 10", {"last": 10}),
                      ("the last 10 of one kind that is rare", {"last": 10, "kinds": ["lbug"]}),
                      ("what came since the last question", {"after": taking._store.last - 500}),
                      ("1,000 nodes, ever", {"nodes": [
                          f"10.9.{n % 40}.{n // 40}@o2ib3" for n in range(1000)]})):
        answers = taking.query(EventsParams(**{"limit": 5000, **ask}), True, None)
        questions.append((name, *_cost_of_steps(answers, lambda answer: len(answer["events"]))))
    job = taking.find_events_in_steps([node], ["fs0"], last - 3600, last)
    questions.append(("what happened to a job of an hour", *_cost_of_steps(
        job, lambda found: len(found.events) + found.more)))
    store.close()
    size_bytes = os.path.getsize(path)
    began = time.process_time()
    store, taking = opened()
    open_s = time.process_time() - began
    store.close()
    return {"us": used / some * 1e6, "written": written / some, "bytes": size_bytes / size,
            "peak_mib": peak_mib, "longest_ms": _most(took_ms), "open_s": open_s,
            "questions": questions}


def _cost_of_steps(steps, count_of):
    took_ms = []
    while True:
        began = time.process_time()
        try:
            next(steps)
        except StopIteration as end:
            took_ms.append((time.process_time() - began) * 1e3)
            return count_of(end.value), sum(took_ms) / 1e3, _most(took_ms)
        took_ms.append((time.process_time() - began) * 1e3)


def _most(took_ms):
    """What 99 in 100 of these do not exceed: a few are of the garbage collector, or noise."""
    return sorted(took_ms)[int(len(took_ms) * 0.99)]


def _messages(count, dice, first=0):
    for at in range(first, first + count, _AT_ONCE):
        node = f"oss{at // _AT_ONCE % 40}"
        yield message([one._replace(node=node) for one in events(
            at, min(_AT_ONCE, first + count - at), dice, _BEGAN)], node), node


def _sqlite(size, directory):
    """The same columns, by SQLite alone: a unique index of the id, one of the time."""
    path = os.path.join(directory, "peer.sqlite")

    def opened():
        file = sqlite3.connect(path, isolation_level=None)
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = FULL")
        return file

    file = opened()
    file.execute("CREATE TABLE events (place INTEGER PRIMARY KEY, id TEXT UNIQUE, time REAL, "
                 "severity INTEGER, kind TEXT, node TEXT, file_system TEXT, target TEXT, "
                 "clients TEXT, message TEXT)")
    file.execute("CREATE INDEX events_time ON events (time)")
    dice, took_ms, used, written = random.Random(23), [], 0.0, 0
    some = min(size, 100_000)
    for at in range(0, size + some, _AT_ONCE):
        rows = [(one.id, one.time, one.severity, one.kind, one.node, one.file_system, one.target,
                 one.clients[0], one.message) for one in events(at, _AT_ONCE, dice, _BEGAN)]
        if at == size:
            written = _written()
        began = time.process_time()
        file.execute("BEGIN")
        file.executemany("INSERT OR IGNORE INTO events (id, time, severity, kind, node, "
                         "file_system, target, clients, message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, "
                         "?)", rows)
        if at >= size:
            file.execute("DELETE FROM events WHERE place <= ?", (at - size + _AT_ONCE,))
        file.execute("COMMIT")
        took = time.process_time() - began
        if at >= size:
            used += took
            took_ms.append(took * 1e3)
    written, peak_mib = _written() - written, _peak_mib()
    file.close()
    began = time.process_time()
    opened().close()
    return {"us": used / some * 1e6, "written": written / some,
            "bytes": os.path.getsize(path) / size, "peak_mib": peak_mib,
            "longest_ms": _most(took_ms), "open_s": time.process_time() - began}


def _written():
    """Bytes that this process has given to the kernel to write."""
    with open("/proc/self/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("wchar"))


def _peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# -- a server of its own, and reports ------------------------------------------------------------

def _reports(quick):
    rounds, turn_s = (1, 1.0) if quick else (7, 5.0)
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        config, port = os.path.join(directory, "site.cfg"), free_port()
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"[site]\nhost = 127.0.0.1\nport = {port}\nsecret = {directory}/secret\n"
                       f"store = {directory}/site.sqlite\n[batch]\nsystem = none\n"
                       f"[events]\nkeep_count = 100000\n")
        with Server([sys.executable, SERVER, "--site", "--quiet", "--config", config],
                    port) as site:
            send = _sender(directory, config, port)
            flood = _Flood(config, port)
            quiet, busy, cpu_s = [], [], 0.0
            try:
                for _ in range(rounds):                     # taking turns
                    quiet.append(_latencies(send, turn_s))
                    before, told = site.cpu_s_so_far(), flood.told
                    flood.go()
                    busy.append(_latencies(send, turn_s))
                    flood.pause()
                    cpu_s += site.cpu_s_so_far() - before
                    flood.counts.append(flood.told - told)
            finally:
                flood.end()
            peak_mib = site.peak_bytes() / 2**20
    def ms(turns, share):
        return [sorted(turn)[int(len(turn) * share)] * 1e3 for turn in turns]
    a_second = sum(flood.counts) / (rounds * turn_s)
    rows = [(name, f"{statistics.median(without):.1f}", f"{statistics.median(with_):.1f}",
             f"{median_ratio(with_, without):.2f}")
            for name, share in (("median", 0.5), ("9 in 10 within", 0.9),
                                ("99 in 100 within", 0.99))
            for without, with_ in [(ms(quiet, share), ms(busy, share))]]
    return Table(f"What a report of 16 kB waits for its answer, with {a_second:,.0f} events/s",
                 ("", "ms without events", "ms with", "with / without"), rows,
                 [f"{rounds} turns of {turn_s:g} s each; one report after the other, from one "
                  f"client; peak of the server {peak_mib:.0f} MiB; while events came it took "
                  f"{cpu_s / (rounds * turn_s) * 100:.0f} % of a core, its reports included.",
                  "Clients, the flood and the server share the cores."])


def _sender(directory, config, port):
    from server import report_of

    from iostats.base import config as site_cfg
    from iostats.wire import auth, client, protocol
    choices = site_cfg.load(config, {})
    signs = auth.load_client_credentials(choices, protocol.SITE, choices.site.secret)
    plain, numbers = report_of(directory), iter(range(1 << 60))

    def send():
        node = f"node{next(numbers)}"
        client.call("127.0.0.1", port, protocol.SITE, signs, node, "report", {
            **plain, "node": node, "job": "4711", "seq": node,
            "about": {"scheduler": "none", "nodes": "node[0-9999999]"}})
    return send


def _latencies(send, for_s):
    found, ends_at = [], time.monotonic() + for_s
    while time.monotonic() < ends_at:
        began = time.monotonic()
        send()
        found.append(time.monotonic() - began)
        time.sleep(0.005)
    return found


class _Flood:
    """A process that sends 5,000 events a second while it is told to."""

    def __init__(self, config, port):
        self._child = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "flood", "0", config, str(port)], cwd=HERE,
            env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.told, self.counts = 0, []
        self._child.stdout.readline()                      # its messages are made

    def go(self):
        self._child.stdin.write("go\n")
        self._child.stdin.flush()

    def pause(self):
        self._child.stdin.write("pause\n")
        self._child.stdin.flush()
        self.told = int(self._child.stdout.readline())

    def end(self):
        self._child.stdin.close()
        self._child.wait(30)


def _flood(config, port):
    from iostats.base import config as site_cfg
    from iostats.wire import auth, client, protocol
    choices, dice = site_cfg.load(config, {}), random.Random(37)
    signs = auth.load_client_credentials(choices, protocol.SITE, choices.site.secret)
    made = [(packed, node) for packed, node in _messages(400_000, dice)]
    print("ready", flush=True)
    state = {"goes": False, "told": 0, "at": 0}

    def send():
        due = time.monotonic()
        while True:
            if not state["goes"]:
                time.sleep(0.01)
                due = time.monotonic()
                continue
            packed, node = made[state["at"] % len(made)]
            state["at"] += 1
            answer = client.call("127.0.0.1", port, protocol.SITE, signs, node, "packed_events", {
                "protocol": 1, "clock_ahead_s": 0.0,
                "sweep": binascii.b2a_base64(packed, newline=False).decode()})
            if not answer["taken"]:
                os._exit(1)
            state["told"] += _AT_ONCE
            due = max(due + _AT_ONCE / _A_SECOND, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))

    threading.Thread(target=send, daemon=True).start()
    for line in sys.stdin:
        state["goes"] = line == "go\n"
        if not state["goes"]:
            print(state["told"], flush=True)


def main(arguments=None):
    """One run; its figures as JSON."""
    parser = argparse.ArgumentParser(prog="site_events.py")
    parser.add_argument("kind", choices=("iostats", "sqlite", "flood"))
    parser.add_argument("size", type=int)
    parser.add_argument("more", nargs="*")
    options = parser.parse_args(arguments)
    sys.path.insert(0, os.path.dirname(HERE))
    if options.kind == "flood":
        return _flood(options.more[0], int(options.more[1]))
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        print(json.dumps((_iostats if options.kind == "iostats" else _sqlite)(
            options.size, directory)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
