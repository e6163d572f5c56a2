"""Targets whose bytes come over the network, from either end."""
from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import io
import json
import os
import socket
import struct
import tempfile
import threading
import zlib

import msgspec
import numpy
import sweep_blocks
from kernel import Agent, Kernel

from iostats.base import config, job_id
from iostats.base.errors import IostatsError, NotDelivered
from iostats.harvest.clients.history_rows import split_reading
from iostats.harvest.clients.nids import KnownNids
from iostats.harvest.clients.rates import compute_rates
from iostats.harvest.clients.source import ClientSource
from iostats.harvest.clients.source_state import decode_source
from iostats.harvest.resets.job_ids import JobIds
from iostats.harvest.resets.target import CorrectedTarget
from iostats.report import job_tables, node_sets
from iostats.report.diff import changes, numbers
from iostats.server.http_server import HttpConnection, HttpLimits, HttpServer
from iostats.server.job_server import JobServer
from iostats.server.rpc_server import Caller
from iostats.sinks.influxdb import database as influx_database
from iostats.sinks.influxdb import lines as influx_lines
from iostats.store.client_store import decode_part, encode_part
from iostats.totals.job_totals import Totals
from iostats.wire import auth, client, jsonrpc, protocol
from iostats.wire.auth import AuthenticationError
from iostats.wire.messages import clients, events, sweep_decoder
from iostats.wire.messages.clients_encoder import RESET
from iostats.wire.messages.report import NodeReport

from .texts import NOW, NS, a_record
from .tools import Draw, allowed, bent, checked_line, no_bug_logged, target

SECRET = b"twenty-three and thirty-seven"
NONCE, NODE = "23" * 16, "nid00001"
CALLER = Caller(NODE, None)
_CODES = {*range(-32004, -32000), -32700, -32600, -32601, -32602, -32603}


def _raise(error):
    raise error


def _checked_answer(reply, may_fail=False):
    """
    The result, or None, of a JSON-RPC answer that is of its form; `may_fail`: for reasons of ours.
    """
    if reply is None:
        return None
    found = json.loads(reply)
    for one in found if isinstance(found, list) else [found]:
        assert one["jsonrpc"] == "2.0" and ("result" in one) != ("error" in one), one
        if "error" in one:
            assert one["error"]["code"] in _CODES
            assert may_fail or one["error"]["code"] != protocol.INTERNAL_ERROR, one
            assert len(one["error"]["message"]) < 3000
    return found.get("result") if isinstance(found, dict) else None


# -- what nodes say to a job's server ----------------------------------------------------------

A_REPORT = {
    "protocol": 1, "job": "4711", "node": NODE, "seq": "23", "boot_id": "b" * 32, "user": "alice",
    "reason": "", "ended": NOW, "elapsed_s": 37.0, "clock_ahead_s": 0.25, "uptime_s": 1000.0,
    "mounts": {"scratch": ["/scratch"]}, "dirty_bytes": {"scratch": 23}, "other_jobs": 1,
    "deltas": [
        {"source": "llite", "file_system": "scratch", "proved": True, "values": {
            "read_calls": 23, "read_bytes": 41_003, "write_calls": 37, "write_bytes": 53_007,
            "open": 43, "open_us": 61_403, "open_us2": 402_653_184}},
        {"source": "osc", "file_system": "scratch", "target": "OST0000", "lower_bound": True,
         "why": "cleared", "values": {"read_bytes": 4096, "read_rpcs": 1}},
        {"source": "md_stats", "file_system": "scratch", "target": "MDT0000",
         "values": {"getattr": 23}},
        {"source": "rpc_stats", "file_system": "scratch", "values": {"read_rpcs_pages_16": 5}},
        {"source": "mdc", "file_system": "scratch", "target": "MDT0000", "values": None}],
    "phases": [{"name": "solve", "elapsed_s": 23.0, "deltas": [
        {"source": "llite", "file_system": "scratch", "values": {"read_bytes": 41}}]}],
    "series": {"scratch": {"began": NOW - 37, "every_s": 1.0, "read_bytes": [23, 37],
                           "write_bytes": [0, 1], "operations": [1, 2]}},
    "idle": {"scratch": {"seconds": 600.0, "values": {"open": 23, "read_bytes": 370.5}}},
}


def _call(method, params, id=1):
    return {"jsonrpc": "2.0", "method": method, "params": params, "id": id}


@functools.lru_cache
def _config():
    found = config.load(os.devnull, {})
    found.set_value("batch.system", "none", "a test")
    return found


@functools.lru_cache
def _documents():
    """What is bent: requests that are right."""
    totals = Totals("4711", 2)
    taken = [msgspec.convert({**A_REPORT, "node": f"nid0000{number}"}, NodeReport)
             for number in (1, 2)]
    for one in taken:
        totals.add(one)
    return [_call("report", A_REPORT), _call("hello", {"job": "4711"}), _call("status", {}),
            _call("totals", {"protocol": 1, "job": "4711", "node": NODE, "seq": "41",
                             "state": totals.state()}),
            [_call("report", {**A_REPORT, "seq": "37", "ended": NOW + 60}), _call("hello", [])]]


def _job_server(checks=()):
    totals = Totals("4711", 3, fold=node_sets.fold_nodes)
    return JobServer(totals, checks, _config(), lambda: NOW)


def _bent_seeds(documents):
    """Each document as it is, and with edits of all kinds; the first byte says which document."""
    return [bytes([number, *edits]) for number in range(len(documents))
            for edits in ((), (1, 2, 3), (0, 0, 1, 23), (2, 1, 1, 1, 5, 9, 1, 40))]


@target(lambda: [json.dumps(one).encode() for one in _documents()], 8192)
def rpc_bytes(data):
    """The body of a POST to a job's server, authenticated and not."""
    for sender in (CALLER, None, AuthenticationError(protocol.STALE, "stale", NODE)):
        one = _job_server()
        _checked_answer(jsonrpc.dispatch(data, one.methods_for(sender), sender, _raise))


@target(lambda: _bent_seeds(_documents()), 600)
def rpc_report(data):
    """`report`, `totals`: what is taken makes a record, whatever it has."""
    one, draw = _job_server(), Draw(data)
    for number in range(3):
        document = draw.choice(_documents())
        body = bent(document, Draw(draw.take(40) if number < 2 else draw.rest()))
        _checked_answer(jsonrpc.dispatch(body.encode("utf-8", "replace"), one.methods, CALLER,
                                         _raise))
    _as_record(one.totals, ("grid", "json", "csv", "markdown")[len(data) % 4])
    again = Totals("4711", 3, fold=node_sets.fold_nodes)
    with contextlib.suppress(AssertionError):
        assert not again.merge(Totals.from_state(json.loads(json.dumps(one.totals.state())))
                               ).counted, "counted"
        assert again.state() == one.totals.state()


def _as_record(totals, form="json"):
    record = totals.record()
    json.loads(json.dumps(record, allow_nan=False))
    msgspec.json.encode(record)
    job_tables.format_report(record, _config(), form, long=True)
    itself = changes.compare_jobs(*[numbers.read_numbers(record, side) for side in "AB"])
    assert not itself.changes and not itself.uncertain


# -- and to the site's -------------------------------------------------------------------------

@functools.lru_cache
def _sweeps():
    """[(head, [Block])] of three sweeps of one target."""
    kernel = Kernel("2.12", "OST", 1_795_225_200 * NS)
    agent, found = Agent(kernel, 2), []
    for number in range(3):
        at = (1_795_225_200 + 20 * number) * NS
        for job in ("4711", "4712", "cp.0")[number and 1:]:
            kernel.rpc(at + 1, job, "write_bytes", 4096 * (number + 1), 23)
        blocks, full = agent.sweep(at + NS)
        found.append(({"node": NODE, "boot_id": "b" * 32, "run": "23" * 8, "seq": number + 1,
                       "full": full, "slot": at // NS, "every": 20, "last": True}, blocks))
    return found


def _block_lines():
    """The line of JSON of each sweep's first block."""
    return [json.loads(blocks[0].packed.partition(b"\n")[0]) for _, blocks in _sweeps()]


_EVENTS = b"iostats events 1\n" + json.dumps({
    "protocol": 1, "node": NODE, "boot_id": "b" * 32, "seq": 23, "made": NOW, "ahead_s": 0.25,
    "every": 10, "dropped": 37, "events": [
        {"id": "0123456789abcdef", "time": NOW, "last": NOW + 1, "over": None, "severity": 2,
         "kind": "evicted", "cause": "silent", "node": NODE, "file_system": "scratch",
         "target": "scratch-OST0003", "clients": ["10.0.0.12@tcp"], "count": 1, "skipped": 3,
         "message": "haven't heard from client"}],
    "status": {"health": "healthy", "targets": {"scratch-OST0003": {
        "state": "up", "clients": 41, "capacity": {
        "bytes_total": 4100, "bytes_free": 2300, "bytes_available": 1900, "inodes_total": 410,
        "inodes_free": 370}}},
               "metrics": {"seconds": 60.0, "targets": {"scratch-OST0003": {
                   "values": {"read_rpcs": 4100}, "gained": {"read_rpcs": 37}}},
                   "services": {"ost_io": {"values": {"threads": 64}, "gained": {}}}},
               "quotas": {"scratch": {"read_at": 23.5, "count": 1, "nearest": [{
                   "file_system": "scratch", "pool": "", "kind": "user", "id": 4711,
                   "resource": "space", "granted": 41, "soft": 0, "hard": 53, "grace_end": 0}]}},
               "log": {"source": "kmsg", "why": "", "lines": 53, "lost": 0}}}).encode()


@functools.lru_cache
def _site_documents():
    about = {"scheduler": "none", "cluster": "eiger", "attempt": 0, "nodes": "nid[00001-00002]",
             "uid": 1000, "user": "alice", "output": "", "work_dir": "/home/alice"}
    packed = base64.b64encode(zlib.compress(_packed(), 1)).decode()
    return [*(_call("packed_sweep", sweep_blocks.params(*one)) for one in _sweeps()),
            _call("report", {**A_REPORT, "about": about}),
            _call("report", {**A_REPORT, "about": about, "seq": "37", "ended": 1e12,
                             "clock_ahead_s": -1e12}), _call("record", {"job": "4711"}),
            _call("latest", {"count": 23}), _call("load", {"by": "job", "text": "47"}),
            _call("query", {"level": "a"}), _call("query", {"level": "e", "job": "4711"}),
            _call("jobs", {"users": ["alice"], "jobs": ["4711"], "since": NOW - 100.0,
                           "until": None, "sort": "write_bytes", "descending": True, "limit": 23,
                           "after": [41, "eiger", "4711", 0]}),
            _call("packed_sweep", {"protocol": 2, "clock_ahead_s": 0.25, "sweep": packed}),
            _call("packed_events", {
                "protocol": 2, "clock_ahead_s": 0.25,
                "sweep": base64.b64encode(zlib.compress(_EVENTS, 1)).decode()}),
            _call("events", {"since": NOW - 100, "until": NOW, "severity": 1, "nodes": [NODE],
                             "file_systems": ["scratch"], "targets": ["scratch-OST0003"],
                             "kinds": ["evicted"], "job": "", "after": 0, "last": 23,
                             "limit": 37}),
            _call("events", {"job": "4711"}),
            _call("events_status", {"file_systems": ["scratch"], "nodes": [NODE], "since": 0}),
            _call("capacity", {"file_systems": ["scratch"], "targets": ["scratch-OST0003"]}),
            _call("metrics", {"file_systems": ["scratch"]}),
            _call("quotas", {"file_systems": ["scratch"]})]


@target(lambda: _bent_seeds(_site_documents()) + [bytes([0, 0, 1, 0, 2, 0, 6, 0, 7, 0, 3, 0, 9])],
        800)
def rpc_site(data):
    """Everything that the site's server can be asked, in any order; then its records are made."""
    from iostats.answers.site_server import SiteServer
    from iostats.store.record_store import Store
    draw = Draw(data)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as at:
        store = Store(os.path.join(at, "site.sqlite"))
        try:
            one = SiteServer(store, [], _config(), lambda: NOW + 100)
            for _ in range(12):
                document = draw.choice(_site_documents())
                body = bent(document, Draw(draw.take(draw.number(32))))
                _checked_answer(jsonrpc.dispatch(body.encode("utf-8", "replace"), one.methods,
                                                 CALLER, _raise))
                if not draw:
                    break
            store.commit()
            with no_bug_logged():
                one.harvest.end_sweep()
                asyncio.run(_made(one))
            for method, params in (("load", {}), ("query", {"level": "a"}), ("jobs", {}),
                                   ("latest", {}), ("events", {}), ("events_status", {}),
                                   ("capacity", {}), ("metrics", {}), ("quotas", {})):
                _checked_answer(jsonrpc.dispatch(json.dumps(_call(method, params)).encode(),
                                                 one.methods, CALLER, _raise))
            assert [] == store.rows("SELECT * FROM damaged_reports")
            one.open_jobs.reload()
            one.harvest.reload()
            one.events.committed()
            one.events.reload()
        finally:
            store.close()


async def _made(one):
    for key, job in list(one.open_jobs.jobs.items()):
        await one.records.store_records([await one.records.make_record(key, job, None, {})])


def _packed():
    """A message of the method packed_sweep, inflated: two entries with two counters."""
    head = {"protocol": 2, "node": NODE, "boot_id": "b" * 32, "run": "23" * 8, "seq": 1,
            "full": True, "slot": 1_795_225_200, "every": 20, "last": True, "blocks": 1}
    block = {"file_system": "scratch", "target": "OST0000", "read_at": 1_795_225_200.5,
             "cleanup_s": 600, "ended": True, "entries": 2, "ids": ["4711", "cp.0"], "gone": [],
             "times": [1, 8], "counters": {"write_bytes": ["bytes", 1, 2, 2, 4, 8],
                                           "punch": ["usecs", 1, 0, 0, 0, 0]}}
    columns = struct.pack("<QQQQIIHHHHBBBBBB", NS, 2 * NS, 2**60, 2**61, 2300, 3700, 4, 5, 600, 700,
                          0, 0, 23, 37, 0, 41)
    return b"iostats sweep 2\n%s\n%s\n%s" % (json.dumps(head).encode(),
                                             json.dumps(block).encode(), columns)


@target(lambda: [_packed(), _packed() + b"\0",
                 zlib.decompress(sweep_blocks.message(*_sweeps()[0]))], 4000)
def packed_sweep(data):
    """What is inflated is a message that can be used and kept, or one clear error."""
    try:
        params = sweep_decoder.PackedSweep(2, zlib.compress(data, 1))
        taken = sweep_decoder.decode_sweep(params, 1 << 20)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        assert len(str(error)) < 1000
        return
    one = CorrectedTarget(JobIds(), "scratch", "OST0000")
    for rows, kept in taken.blocks:
        assert len(rows.started_ns) == len(rows.seen_ns) == len(rows.values) == len(rows.head.ids)
        one.add_block(rows, taken.head.node, taken.head.boot_id, taken.head.full)
        again = sweep_decoder.decode_block(kept)
        assert again.columns == rows.columns and (again.values == rows.values).all()
    ids = list(one.ids())
    assert CorrectedTarget.from_state(JobIds(), one.state()).ids() == ids
    one.totals(ids)


def _packed_clients():
    """A message of the method packed_clients, inflated: two clients, two losses."""
    head = {"protocol": 2, "node": NODE, "boot_id": "b" * 32, "run": "23" * 8, "seq": 1,
            "full": True, "slot": 1_795_225_200, "every": 20, "last": True, "blocks": 2}
    block = {"file_system": "scratch", "kind": "OST", "epoch": "37" * 8,
             "read_from": 1_795_225_200.5, "read_until": 1_795_225_201.5, "ended": True,
             "targets": ["OST0000"], "unreadable": {"OST0001": "no"}, "bad": 1, "why": "x",
             "clients": 2, "nids": ["10.0.0.1@tcp", "0@lo"], "widths": [8, 4, 2, 1, 1],
             "began": 1_795_225_100.5, "losses": [
                 {"since": 1_795_225_180.5, "until": 1_795_225_200.5, "target": "OST0000",
                  "nid": "10.0.0.1@tcp", "why": RESET},
                 {"since": 0, "until": 1e12, "target": "", "nid": "", "why": RESET}]}
    parts = [b"iostats clients 1\n%s\n" % json.dumps(head).encode()]
    for times in (1, 2):
        parts += [json.dumps({**block, "read_from": 1_795_225_200.5 + times,
                              "read_until": 1_795_225_202.5 + times}).encode() + b"\n",
                  struct.pack("<QQIIHHBBBB", times << 40, 0, times << 20, 7, 2300, 3700, 41 * times,
                              0, 61, 67)]
    return b"".join(parts)


@target(lambda: [_EVENTS, _EVENTS + b"\0"], 4000)
def packed_events(data):
    """What is inflated is a message whose events can be kept and shown, or one clear error."""
    try:
        taken = events.decode_events(
            sweep_decoder.PackedSweep(2, zlib.compress(data, 1)), 1 << 20)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        assert len(str(error)) < 1000
        return
    for one in taken.events:
        assert "".join([one.message, one.kind, one.target, *one.clients]).isprintable()
        assert one.node == taken.head.node and abs(one.time) <= 1e12
    json.dumps(msgspec.to_builtins(taken.events), allow_nan=False)


@target(lambda: [_packed_clients(), _packed_clients() + b"\0"], 4000)
def packed_clients(data):
    """What is inflated is a message that can be counted, kept and shown, or one clear error."""
    try:
        taken = clients.decode_clients(
            sweep_decoder.PackedSweep(2, zlib.compress(data, 1)), 1 << 20)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        assert len(str(error)) < 1000
        return
    nids = KnownNids(20)
    sources, others = {}, KnownNids(20)
    for block, kept in taken.blocks:
        again = clients.decode_client_block(kept)
        assert again.head == block.head and (again.amounts == block.amounts).all()
        key = (taken.head.node, block.head.file_system, block.head.kind)
        one = sources.setdefault(key, ClientSource(*key, nids))
        one.add_block(block, taken.head.slot, taken.head.every_s, taken.head.full, 0.25, True)
        state = one.state()
        other = decode_source(ClientSource(*key, others), state)
        assert [others.names[at] for at in other.known()] == [
            nids.names[at] for at in one.known()] or nids.left_out
        for reading in one.unstored:
            for _, part in split_reading(one, reading):
                assert not len(part.gains) or part.gains.min() >= 0
                found = decode_part(part.since, part.until, encode_part(part))
                order = part.numbers.argsort()
                assert (found.numbers == part.numbers[order]).all()
                assert (found.gains == part.gains[order]).all()
    for (_, name, _), one in sources.items():
        totals = numpy.zeros((len(nids), 6), numpy.int64)
        some = [one for key, one in sources.items() if key[1] == name]
        rates = compute_rates(nids, some, taken.head.slot, taken.head.slot + 1, lambda node: 20,
                              totals)
        assert rates is None or (rates.rates >= 0).all()


@target(lambda: _bent_seeds(_block_lines()), 600)
def lines_of_blocks(data):
    """Blocks that the types have taken: the entries corrected, kept, and the same again."""
    draw, names = Draw(data), JobIds()
    one = CorrectedTarget(names, "scratch", "OST0000")
    for (head, blocks), line in zip(_sweeps(), _block_lines()):
        body = bent(line, Draw(draw.take(draw.number(64)))).encode("utf-8", "replace")
        columns = blocks[0].packed.partition(b"\n")[2]
        try:
            block = sweep_decoder.decode_block(body + b"\n" + columns)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            continue
        one.add_block(block, head["node"], head["boot_id"], head["full"])
    ids = list(one.ids())
    state = one.state()
    other = CorrectedTarget.from_state(JobIds(), state)
    assert other.state() == state
    for found in (one, other):
        found.totals(ids)
        found.gains()
        for job in ids:
            list(found.marks(job, NOW - 100, NOW))
    one.drop_ids(ids[:1])


# -- HTTP --------------------------------------------------------------------------------------

class _Transport:
    """What a connection writes to."""

    def __init__(self):
        self.written, self.closing = bytearray(), False

    def is_closing(self):
        return self.closing

    def write(self, data):
        assert not self.closing
        self.written += data

    def close(self):
        self.closing = True

    abort = close

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        pass

    resume_reading = pause_reading


def _post(body, headers=(), header=None):
    key = protocol.derive_key(SECRET, "4711")
    lines = [b"POST / HTTP/1.1", b"Host: a", b"Content-Length: %d" % len(body), *headers]
    if header is None:
        header = protocol.authorization(key, NODE, int(NOW), NONCE, body)
    if header:
        lines.append(b"Authorization: " + header.encode())
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _http_seeds():
    import zlib
    body = json.dumps(_call("report", A_REPORT)).encode()
    hello = b'{"jsonrpc":"2.0","method":"hello","params":{"job":"4711"},"id":1}'
    packed = zlib.compress(body)
    return [bytes([0]) + one for one in (
        _post(body), _post(hello, header=""), _post(hello, header="") * 3,
        _post(packed, [b"Content-Encoding: deflate"]),
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nabc",
        b"GET / HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nPRI * HTTP/2.0\r\n\r\n",
        b"POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\n[]", b"\x16\x03\x01\x02\0\x01\0\x01")]


def _received(connection, transport, data):
    """A connection that got `data` behind its first byte, cut as that says, until it was closed."""
    draw, data = Draw(data[:1]), data[1:]
    ways = Draw(data[-8:]) if draw.number(2) else Draw(b"")
    with no_bug_logged():
        connection.connection_made(transport)
        for part in ways.parts(data):
            if transport.closing:
                break
            connection.data_received(part)
        connection.connection_lost(None)


@target(_http_seeds, 8192)
def http(data):
    """Raw bytes at the port, however the network cuts them: whole answers, and then nothing."""
    checks = [auth.Secret("4711", SECRET, now=lambda: NOW)]
    one, transport = _job_server(checks), _Transport()
    _received(HttpConnection(one), transport, data)
    assert one.connections.held == 0
    _as_record(one.totals)
    left = bytes(transport.written)
    while left:
        head, blank, left = left.partition(b"\r\n\r\n")
        assert blank and head.startswith(b"HTTP/1.1 "), head[:100]
        lines = head.split(b"\r\n")
        assert sum(line.lower().startswith(b"content-length:") for line in lines) == 1
        [length] = [int(line.split(b":")[1]) for line in lines
                    if line.lower().startswith(b"content-length:")]
        body, left = left[:length], left[length:]
        assert len(body) == length
        if body:
            _checked_answer(body)


# -- headers -----------------------------------------------------------------------------------

class _Munge:
    """In place of munge: what a credential says is the credential."""

    EXPIRED, REWOUND, REPLAYED = 15, 16, 17

    class MungeError(IostatsError):
        payload = None

    def decode(self, text, socket=""):
        if text.startswith("!"):
            raise self.MungeError("Invalid credential")
        return text.encode("utf-8", "surrogateescape"), 0, 0

    def encode(self, payload, socket=""):
        return "MUNGE:" + payload.hex()


def _headers():
    key = protocol.derive_key(SECRET, "4711")
    return [protocol.authorization(key, NODE, int(NOW), NONCE, b"{}").encode(),
            b"MUNGE " + protocol.make_munge_request(NODE, "4711", NONCE, b"{}"), b"Basic YTpi",
            b"MUNGE"]


def _fields(header):
    return sorted("".join(header.split()).split(","))


@target(_headers, 1000)
def authorization(data):
    """Nothing but the right header authenticates; all else is refused by a documented code."""
    text = data.decode("latin-1")
    one = auth.Munge("4711", uids={0}, trusted_uids={0}, library=_Munge())
    right = _headers()[0].decode()
    for check in (auth.Secret("4711", SECRET, now=lambda: NOW), one):
        try:
            node, _, nonce = check.check(text, b"{}")
        except AuthenticationError as error:
            assert error.code in _CODES
            checked_line(str(error))
            continue
        assert len(nonce) == 32 and job_id.is_node_name(node)
        # The munge of here signs for everybody; the secret's mac is one, in any order of fields.
        assert check is one or _fields(text) == _fields(right), text
    headers = {protocol.MAC_HEADER.lower(): text, protocol.MUNGE_HEADER.lower(): text}
    for check in (auth.Secret("4711", SECRET), one):
        assert not check.verify_answer(headers, NONCE, b"another body")
    protocol.parse_munge_request(data, b"{}")


# -- what a node, or a user's command, hears of a server ---------------------------------------

class _Hostile:
    """A connection whose other end says what `answers` says; each with a proof, or without."""

    def __init__(self, answers, proves, name="4711"):
        self._answers, self._proves, self._left = answers, proves, b""
        self._key = protocol.derive_key(SECRET, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def settimeout(self, seconds):
        assert seconds > 0

    def sendall(self, data):
        head = data.partition(b"\r\n\r\n")[0]
        nonce = head.partition(b"nonce=")[2][:32].decode("latin-1")
        answer = self._answers.pop(0) if self._answers else b""
        if self._proves:
            mac = protocol.answer_mac(self._key, nonce, answer)
            answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s: %s\r\n\r\n%s" % (
                len(answer), protocol.MAC_HEADER.encode(), mac.encode(), answer)
        self._left += answer

    def recv(self, most):
        part, self._left = self._left[:most], self._left[most:]
        return part


_HELLO = {"jsonrpc": "2.0", "result": {"job": "4711", "protocol": 1, "time": NOW}, "id": 1}
_COUNTED = {"jsonrpc": "2.0", "result": {"counted": True, "why": ""}, "id": 1}
_ERROR = {"jsonrpc": "2.0", "error": {"code": -32004, "message": "no"}, "id": 1}


def _answers():
    hello = json.dumps(_HELLO).encode()
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(hello), hello)
    return [b"\0" + whole, b"\0" + whole * 2, b"\0SSH-2.0-OpenSSH_9.2\r\n", b"\1", b"\2", b"\2\1\2",
            b"\3\0\5\1\2\3\4\5", b"\0HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"]


@target(_answers, 4096)
def hostile_server(data):
    """Whatever answers at the port: the report was taken, or NotDelivered says why not."""
    draw = Draw(data)
    how = draw.number(4)
    if how == 0:
        connection = _Hostile([draw.rest()], proves=False)
    else:
        second = _COUNTED if how == 1 else _ERROR
        connection = _Hostile([bent(one, Draw(draw.take(draw.number(24)))).encode(
            "utf-8", "replace") for one in (_HELLO, second)], proves=how < 3)
    signs = [auth.Secret("4711", SECRET)]
    kept, client.connect = client.connect, lambda *address: connection
    try:
        with allowed(NotDelivered):
            client.call("127.0.0.1", 23, "4711", signs, NODE, "report", A_REPORT,
                        learn=lambda ahead_s: json.dumps(ahead_s, allow_nan=False))
    finally:
        client.connect = kept


_ASKED = {}


def _said(role, *arguments):
    """Status of a subcommand whose questions are answered by `_ASKED`; its errors are lines."""
    module = __import__(f"iostats.cli.{role}", fromlist=["main"])
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = module.main(["--config", _config_file(), *arguments])
    assert status in (0, 1, 2, 3), status
    lines = err.getvalue().splitlines()
    assert (status == 0) == (not lines), (status, lines)
    for line in lines:
        checked_line(line)
    assert "\x1b" not in out.getvalue()
    return status


@functools.lru_cache
def _config_file():
    path = os.path.join(tempfile.mkdtemp(prefix="iostats-fuzz-"), "site.cfg")
    with open(path, "w") as file:
        file.write("[site]\nhost = 127.0.0.1\n[batch]\nsystem = none\n")
    return path


@functools.lru_cache
def _site_answers():
    """(role and arguments, what the site's server answers) of each question there is."""
    from iostats.answers.site_server import SiteServer
    from iostats.store.record_store import Store
    with tempfile.TemporaryDirectory() as at:
        store = Store(os.path.join(at, "site.sqlite"))
        one = SiteServer(store, [], _config(), lambda: NOW + 100)
        for document in _site_documents()[:4]:
            jsonrpc.dispatch(json.dumps(document).encode(), one.methods, CALLER, _raise)
        store.commit()
        one.harvest.end_sweep()
        asyncio.run(_made(one))

        def answer(method, **params):
            return json.loads(jsonrpc.dispatch(json.dumps(_call(method, params)).encode(),
                                               one.methods, CALLER, _raise))["result"]
        record = [{**a_record(), **one} for one in answer("record", job="4711")]
        jobs, load = answer("jobs"), answer("load")
        found = [(("report", *form, "4711"), record) for form in (
            ("--long",), ("--format", "csv"), ("--format", "markdown", "--explain"),
            ("--format", "json"))]
        found += [(("jobs", *form), jobs) for form in ((), ("-P",), ("--json",), ("--brief",))]
        found += [(("top", "--once", *form), load) for form in ((), ("--json",))]
        found += [(("query", *form), answer("query", level=form[-1])) for form in (
            ("a",), ("--csv", "b"), ("--json", "c"), ("e",))]
        store.close()
        return found


@target(lambda: _bent_seeds(_site_answers()), 300)
def site_answers(data):
    """What a command makes of the answer of a site's server that is damaged, or of another age."""
    from iostats.cli import jobs, query, site_client
    draw = Draw(data)
    (role, *arguments), answer = draw.choice(_site_answers())
    text = bent(answer, draw)
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return                                            # client.py has refused it
    kept = [(module, module.ask_site) for module in (jobs, query, site_client)]
    try:
        for module, _ in kept:
            module.ask_site = lambda *question, **more: answer
        _said(role, *arguments)
    finally:
        for module, asked in kept:
            module.ask_site = asked


# -- the reader, and the sinks' databases ------------------------------------------------------

@target(lambda: [json.dumps({"files": [{"source": "llite", "name": "scratch-ffff", "path": "proc/x",
                                        "errno": 0, "text": "a"}]}).encode(), b"[]"], 2000)
def reader_answer(data):
    from iostats.node import reader_client
    from iostats.totals.snapshot import Snapshot, decode, encode
    try:
        found = reader_client.decode_files(data)
    except reader_client.ReaderError:
        return
    for (source, name), file in found.items():
        if (source, name) == ("llite", "scratch-ffff"):
            kept = Snapshot("4711", NODE, "23", "", 1, 1, (file,))
            assert decode(encode(kept), "here") == kept


@target(lambda: [b"503\0" b"23\0no", b"429\0Fri, 20 Nov 2026 10:00:07 GMT\0{}", b"400\0\0partial"],
        600)
def database_answer(data):
    """What InfluxDB answers to a write, and the bytes that it is written in."""
    status, after, body = (data.split(b"\0", 2) + [b"", b""])[:3]
    answer = influx_database.parse_response(int(status) if status.isdigit() and len(status) < 4
                                            else 500,
                                   {"Retry-After": after.decode("latin-1")}, body)
    assert len(answer.why) < 300 and "\n" not in answer.why
    assert answer.after_s is None or 0 <= answer.after_s <= 600
    for text in (after.decode("utf-8", "surrogateescape"), body.decode("utf-8", "replace")):
        line = influx_lines.format_point("lustre" + influx_lines.format_tags(job=text,
                                                                             fs="scratch"),
                             [("read_bytes", 23)], 1000, [])
        assert "\n" not in line and line.isprintable(), line
        assert _tag_of(line) == influx_lines.format_tags(job=text, fs="scratch")


def _tag_of(line):
    """The tags of a point, as a database reads them: up to the first blank that is not escaped."""
    escaped = False
    for at, c in enumerate(line):
        if c == " " and not escaped:
            return line[len("lustre"):at]
        escaped = c == "\\" and not escaped
    raise AssertionError(line)


class _Listener:
    """A server on loopback that answers each connection with the same bytes."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.answer = b""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            one, _ = self.socket.accept()
            with contextlib.suppress(OSError), one:
                one.settimeout(2)
                one.recv(65536)
                one.sendall(self.answer)
                one.shutdown(socket.SHUT_WR)


@functools.lru_cache
def _listener():
    return _Listener()


@target(lambda: [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 503 x\r\nRetry-After: 23\r\n"
                 b"Content-Length: 2\r\n\r\n{}", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"
                 b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"HTTP/1.1 400 no\r\nContent-Encoding: gzip"
                 b"\r\nContent-Length: 5\r\n\r\nhello", b"HTTP/1.1 302 x\r\nLocation: /"
                 b"\r\n\r\n"], 800)
def hostile_database(data):
    """Bytes at the database's port."""
    listener = _listener()
    listener.answer = data
    where = influx_database.Where(listener.url, "o", "b", "t")
    assert len(influx_database.write(where, [b"lustre a=1i 1"], 2, "").why) < 300


@target(lambda: [b"\0GET /metrics HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip;q=1\r\n\r\n",
                 b"\0HEAD /metrics?x HTTP/1.0\r\n\r\n", b"\0GET /\r\n",
                 b"\0PUT / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
                 b"\0GET /metrics HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n"], 2000)
def scrape(data):
    """Raw bytes at the page for Prometheus: the page, or an error, and no other word of ours."""
    one, transport = HttpServer(HttpLimits.of(_config())), _Transport()
    one.pages["/metrics"] = lambda packed: (
        f"Content-Encoding: {'gzip' if packed else 'identity'}\r\n", b"page 1\n")
    ways = Draw(data[-8:]) if data[:1] and data[0] % 2 else Draw(b"")
    with no_bug_logged():
        connection = HttpConnection(one)
        connection.connection_made(transport)
        for part in ways.parts(data[1:]):
            if transport.closing:
                break
            connection.data_received(part)
        connection.connection_lost(None)
    assert one.connections.held == 0
    assert b"\x1b" not in transport.written and b'"result"' not in transport.written
