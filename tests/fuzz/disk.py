"""Targets whose bytes lie in a file, or on a command line."""
from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import json
import os
import sqlite3
import tempfile
import time
import zlib
from binascii import crc32
from unittest import mock

import msgspec
import sweep_blocks
from exports_kernel import ExportsKernel

from iostats.base import config, disk_queue
from iostats.base.errors import (
    IostatsError,
    NotDelivered,
    StateError,
    UsageError,
    WireError,
)
from iostats.harvest.resets import codec
from iostats.harvest.resets.job_ids import JobIds
from iostats.harvest.resets.target import CorrectedTarget
from iostats.node import (
    delivery,
    idle_time,
    measurement,
    prolog_epilog,
    rates,
    sources,
    start_files,
)
from iostats.server import journal
from iostats.sinks.influxdb.sender import PointQueue
from iostats.storage import client_state
from iostats.storage.clients import Clients
from iostats.storage.schedule import Pace, SweepClock
from iostats.storage.targets import find_local_targets
from iostats.totals import delta, snapshot
from iostats.wire import auth, client, jsonrpc, protocol
from iostats.wire.messages import clients_encoder
from iostats.wire.messages.sweep_encoder import SweepMessages

from .messages import (
    _COUNTED,
    A_REPORT,
    CALLER,
    NODE,
    SECRET,
    _as_record,
    _call,
    _checked_answer,
    _config,
    _documents,
    _Hostile,
    _job_server,
    _made,
    _raise,
    _site_documents,
    _sweeps,
)
from .texts import NOW, NS, _memory, _pairs, _snapshot
from .tools import Draw, allowed, checked_line, no_bug_logged, target

_CUT = b"\0--\0"
NOW_NS = round(NOW) * NS


def _directory():
    return tempfile.TemporaryDirectory(dir=_memory())


# -- what a node keeps -------------------------------------------------------------------------

@functools.lru_cache
def _start():
    texts = _pairs()[0].decode("latin-1").split(_CUT.decode())
    return snapshot.encode(_snapshot(texts[:2], 1_795_225_000 * NS))


def _sealed(data):
    """`data` with the checksum of a start snapshot that it should have."""
    end = data.rfind(b"\nend ") + 1
    words = data[end:].split()
    if not end or len(words) < 2:
        return data
    return data[:end] + b"end %s %08x\n" % (words[1], crc32(data[:end]))


@target(lambda: [_start(), _start().replace(b" 0 ", b" 13 ", 1), _start()[:100]], 6000)
def start_file(data):
    """The start snapshot, also with its checksum right: what `stop` makes of it."""
    known = sources.read_at("start")
    end = snapshot.decode(_start(), "here")._replace(wall_ns=1_795_225_060 * NS)
    for one in (data, _sealed(data)):
        with allowed(StateError):
            start = snapshot.decode(one, "here")
            assert snapshot.decode(snapshot.encode(start), "again") == start
            message = {"elapsed_s": measurement.compute_elapsed_s(start, end),
                       "deltas": measurement.as_sent(
                delta.compute_deltas(start, end, known))}
            msgspec.json.decode(json.dumps(message, allow_nan=False))


def _hook_seeds():
    about = b"scheduler=slurm\ncluster=eiger\nattempt=0\nuid=1000\nuser=alice\nother=4712%20a\n"
    report = json.dumps(A_REPORT).encode()
    return [_CUT.join(parts) for parts in (
        (_start(), about, report, report, b""), (b"", b"", report, b"{}", b"[]"),
        (b"", about + b"over=1\n", b"[" * 3000, b'{"node":"a b"}', b'{"node":"n","x":NaN}'),
        (_start(), b"", report[:40], b'{"node":1}', b'{"node":"n","x":1e999}'))]


@target(_hook_seeds, 6000)
def hook_files(data):
    """
    The files of prolog and epilog, damaged: an epilog reports, all that can be sent is sent, and no
    file keeps another one from it.
    """
    parts = (data.split(_CUT, 4) + [b""] * 5)[:5]
    said = []
    with _directory() as at:
        directory, root = os.path.join(at, "hooks"), os.path.join(at, "root")
        os.mkdir(directory, 0o700)
        os.mkdir(root)
        with open(os.path.join(at, "secret"), "wb", opener=lambda path, how: os.open(
                path, how, 0o600)) as file:
            file.write(SECRET)
        for name, part in zip((f"4711%20{NODE}.start", f"4711%20{NODE}.job",
                               f"4711%20{NODE}.23.delta", f"4712%20{NODE}.37.delta",
                               f"4713%20{NODE}.41.delta"), parts):
            if part:
                with open(os.path.join(directory, name), "wb") as file:
                    file.write(_sealed(part) if name.endswith(".start") else part)
        mine = config.Config()
        for name, value in (("node.hook_dir", directory), ("node.reader", ""),
                            ("node.public_dir", ""), ("site.host", "127.0.0.1"),
                            ("site.secret", os.path.join(at, "secret"))):
            mine.set_value(name, value, "a test")
        about = {"scheduler": "slurm", "attempt": 0}
        kept = client.connect
        client.connect = lambda *address: _Hostile([
            json.dumps({"jsonrpc": "2.0", "result": {"job": protocol.SITE, "protocol": 1,
                                                     "time": NOW}}).encode(),
            json.dumps(_COUNTED).encode()], True, protocol.SITE)
        try:
            with allowed(IostatsError):
                prolog_epilog.run_prolog(mine, root, NODE, "4714", about, said.append)
            with allowed(IostatsError):
                prolog_epilog.run_epilog(mine, root, NODE, "4711", about, said.append)
            assert delivery.deliver(mine, root, NODE, time.monotonic() + 60,
                                         said.append) == 0, said
        finally:
            client.connect = kept
    for line in said:
        checked_line(line.replace("\n", ""))


@target(lambda: _hook_seeds()[1:2] + [json.dumps(A_REPORT).encode(), b"[" * 3000, b"1",
                                          b'{"job":1}'], 4000)
def kept_report(data):
    """A report that waits for its job's server, as a later `stop` finds it."""
    with _directory() as at:
        os.chmod(at, 0o700)
        work = measurement.Work(_config(), at, NODE, "4711", lambda text: None, at)
        with open(work.kept.make_delta_path("23"), "wb") as file:
            file.write(data)
        reports, failed, damaged = work.end()
        for error in filter(None, (failed, damaged)):
            checked_line(str(error))
        for report in reports.values():
            msgspec.json.decode(json.dumps(report, allow_nan=False))
        assert bool(reports) != bool(damaged)
        kept, client.connect = client.connect, lambda *address: _Hostile([b""], False)
        mine = config.Config()
        mine.set_value("node.retry_timeout", "0", "a test")
        os.environ[auth.VARIABLE] = SECRET.decode()
        try:
            for report in reports.values():
                with allowed(NotDelivered):
                    client.deliver(report, "127.0.0.1:23", None, mine, method="report")
        finally:
            client.connect = kept
            del os.environ[auth.VARIABLE]


@target(lambda: [json.dumps({"seq": "23", "file_systems": A_REPORT["series"]}).encode(), b"{}"],
        2000)
def watch_file(data):
    """What `watch` has left: its rates are ones that a server takes, or there are none."""
    from iostats.wire.messages.report import NodeReport
    report = {**A_REPORT, "ended": NOW}
    found = rates.add_remaining_gains(data, report)
    msgspec.json.decode(json.dumps({**report, "series": found}, allow_nan=False),
                        type=NodeReport)


def _idle_seeds():
    idle = {"boot_id": "b" * 36, "file_systems": {
        "scratch": {"seconds": 600.0, "at": 897_612_000.0, "values": {"open": 23, "getattr": 0.5}}}}
    return [_CUT.join((_start(), json.dumps(one).encode())) for one in (idle, {}, [])]


@target(_idle_seeds, 4000)
def idle_files(data):
    """What a node keeps between two jobs, damaged: what is known of idle time a server takes."""
    from iostats.wire.messages.report import NodeReport
    quiet, idle = (data.split(_CUT, 1) + [b""])[:2]
    start = snapshot.decode(_start(), "here")
    start = start._replace(boot_ns=start.boot_ns + 600 * NS)
    with _directory() as at:
        start_path = os.path.join(at, f"4711%20{NODE}.start")
        for kept in (quiet, _sealed(quiet)):
            for name, part in ((f"4711%20{NODE}.quiet", kept), (f"{NODE}.idle", idle)):
                with open(os.path.join(at, name), "wb") as file:
                    file.write(part)
            found = idle_time.report_idle_io(at, NODE, start_path, start, True)
            msgspec.json.decode(json.dumps({**A_REPORT, **found}, allow_nan=False),
                                type=NodeReport)


@target(lambda: [b"twenty-three and thirty-seven\n", b"\0" * 20, b"\xff" * 16], 200)
def secret_file(data):
    with _directory() as at:
        path = os.path.join(at, "secret")
        with open(path, "wb", opener=lambda path, how: os.open(path, how, 0o600)) as file:
            file.write(data)
        with allowed(StateError):
            protocol.derive_key(auth.load(path), "4711")


# -- what a job's server keeps -------------------------------------------------------------------

def _record(payload):
    """One record of a journal, with the checksum that it should have."""
    crc = crc32(payload)
    return journal.HEAD.pack(len(payload), crc, len(payload) ^ crc ^ journal.CHECK_MASK) + payload


def _journal_seeds():
    whose = json.dumps(_WHOSE).encode()
    message = json.dumps(_call("report", A_REPORT)).encode()
    totals = {"totals": msgspec.to_builtins(_documents()[3]["params"]["state"]), "merged": ["41"]}
    parts = [b"whose\n" + whose, b"node nid00001\n" + message]
    whole = b"".join(map(_record, [parts[0], b"totals\n" + msgspec.json.encode(totals), parts[1]]))
    twice = [*parts, parts[1].replace(b'"23"', b'"37"')]
    return [b"\1" + _CUT.join(parts), b"\1" + _CUT.join(twice), b"\1" + parts[1],
            b"\0" + whole, b"\0" + whole[:-23]]


_WHOSE = {"form": 1, "job": "4711", "run": "", "boot_id": "23"}


@target(_journal_seeds, 6000)
def kept_journal(data):
    """What a killed server has left, also with its checksums right: counted, or said in a line."""
    kind, data = data[:1], data[1:]
    if kind == b"\1":                              # totals are read as they were written, or not
        data = b"".join(_record(part) for part in data.split(_CUT)
                        if not part.startswith(b"totals\n"))
    with _directory() as at, no_bug_logged():
        os.chmod(at, 0o700)
        kept = start_files.StartFiles(at, "4711", NODE)
        with open(kept.journal_path, "wb") as file:
            file.write(data)
        for _ in range(2):
            one = _job_server()
            found = journal.Journal(kept, _WHOSE, checked_line)
            one.resume(found)
            _as_record(one.totals)
            os.close(found._handle)


# -- what agents and sinks keep ----------------------------------------------------------------

def _spool_seeds():
    message = zlib.compress(b'{"protocol":1}')
    return [b"000000000001.2323232323232323.1.message" + _CUT + message,
            b"000000000002.2323232323232323.2.message" + _CUT + message[:-3],
            b"1.a.1.message" + _CUT + zlib.compress(b"0" * 100_000),
            "²³.a.¹.message".encode() + _CUT + message,
            b"000000000000001.23.points" + _CUT + zlib.compress(b"lustre a=1i 1")]


@target(_spool_seeds, 600)
def spooled(data):
    """A message of an agent's, or points for a database, that wait in a directory."""
    name, _, part = data.partition(_CUT)
    name = os.path.basename(name.replace(b"\0", b""))[:200]
    with _directory() as at:
        os.chmod(at, 0o700)
        if name not in (b"", b".", b"..", b"lock", b"refused"):
            with open(os.path.join(at.encode(), name), "wb") as file:
                file.write(part)
        one = disk_queue.Spool(at, 1 << 20, "[harvest]")
        try:
            one.append("23" * 8, 1, b"{}")
            while one.find_first() is not None:
                try:
                    with allowed():
                        assert one.load(one.find_first()) is not None
                except StateError as error:
                    checked_line(str(error))
                    one.set_aside(one.find_first())
                else:
                    one.remove(one.find_first())
        finally:
            one.close()
        points = PointQueue(at, 1 << 20)
        points.put(["lustre a=1i 2"])
        for _ in range(3):
            found = points.oldest(0)
            if found is not None:
                points.done(found[0])


# -- what the site's server keeps --------------------------------------------------------------

@functools.lru_cache
def _a_state():
    one = CorrectedTarget(JobIds(), "scratch", "OST0000")
    for head, blocks in _sweeps():
        for block in blocks:
            one.add_block(block, head["node"], head["boot_id"], head["full"])
    return one.state()


@target(lambda: [_a_state(), _a_state()[:200]], 8000)
def target_state(data):
    """A target's saved entries, also with their checksum right."""
    body = data.split(b"\n", 2)[-1]
    for one in (data, codec.seal(body)):
        with allowed(StateError):
            found = CorrectedTarget.from_state(JobIds(), one)
            list(found.ids())


@functools.lru_cache
def _a_store():
    """The bytes of a store with reports, records, sweeps, a checkpoint and a settled job."""
    from iostats.answers.site_server import SiteServer
    from iostats.store.record_store import Store
    with _directory() as at:
        path = os.path.join(at, "site.sqlite")
        store = Store(path)
        one = SiteServer(store, [], _config(), lambda: NOW + 100)
        told = [document for document in _site_documents() if document["method"] == "packed_events"]
        for document in _site_documents()[:4] + told:
            jsonrpc.dispatch(json.dumps(document).encode(), one.methods, CALLER, _raise)
        store.commit()
        one.harvest.end_sweep()
        asyncio.run(_made(one))
        one.harvest.lives.settle_jobs(["4712"], lambda jobs: None, one.harvest.drop_jobs)
        for key in one.harvest.targets:
            one.harvest.checkpoints.write([key])
        head, blocks = _sweeps()[2]
        again = _call("packed_sweep", sweep_blocks.params(
            {**head, "seq": 4, "slot": 1_795_225_260}, blocks))
        jsonrpc.dispatch(json.dumps(again).encode(), one.methods, CALLER, _raise)
        report = {**_site_documents()[3]["params"], "seq": "41", "job": "4733"}
        jsonrpc.dispatch(json.dumps(_call("report", report)).encode(), one.methods, CALLER, _raise)
        store.commit()
        store.close()
        with open(path, "rb") as file:
            return file.read()


_COLUMNS = [(table, column) for table, columns in (
    ("jobs", "cluster job attempt shown_as whole user about first due made closed record"),
    ("reports", "node seq body"), ("agents", "node body"), ("targets", "file_system target state"),
    ("blocks", "file_system target body"), ("lives", "job body"), ("harvests", "job made body"),
    ("clock", "passed wall boot_id up"),
    ("events", "place id made time ended severity kind file_system body"),
    ("events_numbering", "name dropped dropped_until"), ("events_tellers", "node heard body"),
    ("events_nids", "nid"),
    ("summaries", "shown_as user outcome started read_bytes file_systems began over"))
    for column in columns.split()]
_VALUES = [None, 0, -1, 2**62, 1e300, "", "text", b"", b"{}", b"[]", b"\x80", b"\xff" * 9,
           "\ud800".encode("utf-8", "surrogatepass")]


def _damage(path, draw):
    """A store with other bytes, or with other values in it."""
    whole, by_value = bytearray(_a_store()), draw.number(2)
    while draw and not by_value:
        place = draw.number(len(whole))
        part = draw.take(draw.number(16))
        whole[place:place + len(part)] = part
    with open(path, "wb") as file:
        file.write(whole)
    while draw and by_value:
        table, column = draw.choice(_COLUMNS)
        value = draw.choice(_VALUES)
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(
                path, isolation_level=None)) as file:
            file.execute(f"UPDATE {table} SET {column} = ?", (value,))


def _damaged_seeds():
    return [bytes(one) for one in ((), (0, 1, 0, 0, 37, 4, 255), (0, 0, 0, 0, 3, 0, 0))] + [
        bytes([1, number, value]) for number in range(0, len(_COLUMNS), 5)
        for value in (0, 6, 7, 8)]


@target(_damaged_seeds, 60)
def damaged_store(data):
    """The server says in one line that its store is damaged, or answers."""
    from iostats.answers.site_server import SiteServer
    from iostats.store.record_store import Store
    with _directory() as at:
        path = os.path.join(at, "site.sqlite")
        _damage(path, Draw(data))
        store = None
        try:
            with allowed(StateError), no_bug_logged():
                store = Store(path)
                one = SiteServer(store, [], _config(), lambda: NOW + 100)
                _ask_all(one, store)
        finally:
            if store is not None:
                store.close()


@target(_damaged_seeds, 60)
def repaired_store(data):
    """`iostats store --rebuild` makes one of it with which the server begins, and answers."""
    from iostats.answers.site_server import SiteServer
    from iostats.store import repair as store_repair
    from iostats.store.record_store import Store
    with _directory() as at:
        path = os.path.join(at, "site.sqlite")
        _damage(path, Draw(data))
        for found in (store_repair.check(path), store_repair.rebuild(path)[1]):
            assert all(one.count >= 0 for one in found.values())
        assert not any(one.why for one in store_repair.check(path).values())
        store = Store(path)
        try:
            with no_bug_logged():
                one = SiteServer(store, [], _config(), lambda: NOW + 100)
                _ask_all(one, store)
        finally:
            store.close()


def _ask_all(one, store):
    for document in (*_site_documents()[3:], _call("record", {"job": "4733"}), _call("jobs", {}),
                     _call("jobs", {"sort": "file_systems", "limit": 1})):
        _checked_answer(jsonrpc.dispatch(json.dumps(document).encode(), one.methods, CALLER,
                                         _raise), may_fail=True)
    for do in (store.commit, one.harvest.end_sweep, lambda: asyncio.run(_made(one)),
               lambda: one.harvest.lives.find_harvested("4711"),
               lambda: one.harvest.lives.find_harvested("4712"),
               one.records.drop_old, one.open_jobs.reload, one.harvest.reload, one.events.committed,
               one.events.delete_expired, one.events.reload):
        with allowed(StateError, WireError):
            do()


# -- command lines -----------------------------------------------------------------------------

@target(lambda: [b"\1jobs\0-S\0now-3days\0-o\0JobID%9\0--sort\0-opens\0-j\0" b"4711,4712",
                 b"\1jobs\0-u\0alice\0-P\0--limit\0" b"23", b"\2stop\0--server\0a:23\0--job\0x",
                 b"\2" b"2\0node1", b"\3--nodes\0" b"3\0--\0true", b"\4--job\0" b"4711",
                 b"\5--by\0user\0--count\0" b"23\0--once", b"\6a\0--csv\0--count\0" b"9",
                 b"\7--long\0" b"4711", b"\7--latest\0" b"3"], 400)
def command_line(data):
    """Options of all roles: what they ask, or one line and the status of bad usage."""
    from iostats.cli import jobs, node, parser, query, run, server, top
    from iostats.cli import report as report_command
    role = data[:1] or b"\0"
    words = [word.decode("utf-8", "surrogateescape") for word in data[1:].split(b"\0")]
    found = _config()
    out = io.StringIO()
    asking = {1: jobs.main, 5: lambda given: top.main(["--once", *given]), 6: query.main,
              7: report_command.main}              # they ask the site's server, and it is away
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), allowed(
                UsageError, IostatsError):
            if role[0] % 8 in asking:
                with mock.patch("iostats.wire.client.call", _not_there):
                    asking[role[0] % 8](["--config", os.devnull, *(
                        word for word in words[role[0] % 8 == 1:]
                        if not word.startswith(("--config", "--local", "--root", "--statsf")))])
            elif role[0] % 8 == 2:
                node.parse(words)
            elif role[0] % 8 == 3:
                given, _ = run.parse_arguments(words)
                if given and "--nodes" in given:
                    server.parse_expected_nodes(given["--nodes"], 1000, {})
            elif role[0] % 8 == 4:
                options = parser.parse_options(server.ServerOptions, words)
                server.parse_expected_nodes(options.nodes, 1000, {})
                server.find_job(options.job, found)
    except SystemExit as error:
        assert error.code in (0, 2), error.code
    assert "Traceback" not in out.getvalue()


def _not_there(*question, **more):
    raise NotDelivered("not here")



# -- what an agent knows of clients ------------------------------------------------------------

@functools.lru_cache
def _clients_states():
    """What is in the files of two agents, inflated: of files with start_time, and without."""
    found = []
    for release in ("2.17", "2.12"):
        with _directory() as at:
            kernel = ExportsKernel(release, "OST", NOW_NS)
            for nid in ("10.77.0.11@tcp", "fd00:172:16:11::5@tcp"):
                kernel.mount(NOW_NS, nid, nid)
                kernel.write(NOW_NS, nid, 4096, 23)
            _swept(at, kernel, [])
            with open(os.path.join(at, "state"), "rb") as file:
                found.append(zlib.decompress(file.read()[len(client_state.MAGIC):]))
    return found


def _swept(at, kernel, said):
    """The Clients of an agent that has read this target once more."""
    kernel.save(NOW_NS + 50 * NS, os.path.join(at, "root"))
    clock = SweepClock(lambda: NOW + 50, lambda: NOW + 50)
    clients = Clients(os.path.join(at, "state"), [], clock, Pace(100, sleep=lambda seconds: None),
                      lambda text, key=None: said.append(text), lambda: NOW_NS + 50 * NS)
    clients.read(find_local_targets(os.path.join(at, "root")))
    return clients


@target(_clients_states, 4000)
def clients_state(data):
    """A damaged state with its checksum right: an agent goes on, or begins anew and says so."""
    body, said, kept = zlib.compress(data, 1), [], []
    kernel = ExportsKernel("2.17", "OST", NOW_NS)
    kernel.mount(NOW_NS, "10.77.0.11@tcp", "a")
    with _directory() as at:
        path = os.path.join(at, "state")
        with open(path, "wb") as file:
            file.write(client_state.MAGIC + body)
        try:
            client_state.load(path)
            is_damaged = False
        except StateError:
            is_damaged = True
        clients = _swept(at, kernel, said)
        assert not any("internal error" in line for line in said), said
        assert not is_damaged or any("restart" in line for line in said)
        messages = SweepMessages(kept.append, dict, 10**6, clients_encoder.MAGIC)
        clients.send(messages, True)
        messages.end()
