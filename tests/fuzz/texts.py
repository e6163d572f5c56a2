"""Targets whose bytes are text: what kernels, batch systems, users and accounting hand to us."""
from __future__ import annotations

import json
import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import job_stats_text
import msgspec

from iostats import schedulers
from iostats.base import config, sacct_time
from iostats.base import job_id as base_job_id
from iostats.base import node_list as base_node_list
from iostats.base.errors import (
    ConfigError,
    JobStatsSyntaxError,
    NotReadable,
    StateError,
    StatsSyntaxError,
    UsageError,
    is_printable,
)
from iostats.base.job_ports import list_ports
from iostats.lustre import (
    exports,
    imports,
    job_stats,
    job_stats_rows,
    kernel_log,
    paths,
    rpc_stats,
    stats,
)
from iostats.node import measurement, sources
from iostats.report import (
    accounting_comment,
    comment_reader,
    job_fields,
    job_list,
    job_summary,
    job_tables,
    listing,
    node_sets,
)
from iostats.report.accounting_comment import CommentError
from iostats.schedulers import commands, job_environment
from iostats.storage import client_lives
from iostats.storage.fingerprints import Fingerprints
from iostats.totals import delta, snapshot
from iostats.totals.job_totals import Totals
from iostats.wire import client
from iostats.wire.messages.report import NodeReport

from .tools import Draw, allowed, checked_line, target

DATA = Path(__file__).parent.parent / "data"
NS = 10**9
NOW = 1_795_225_060.0
_PATHS = {"llite": "sys/kernel/debug/lustre/llite/scratch-ffff9a3c5d1e0800/stats",
          "osc": "proc/fs/lustre/osc/scratch-OST0000-osc-ffff9a3c5d1e0800/stats"}


@lru_cache
def _files(pattern, most=6, longest=3000):
    found = sorted(path for path in DATA.glob(pattern) if 0 < path.stat().st_size <= longest)
    return tuple(path.read_bytes() for path in found[::max(1, len(found) // most)][:most])


# -- counter files -----------------------------------------------------------------------------

@target(lambda: _files("lustre-*/**/stats") + _files("lustre-*/**/md_stats"))
def stats_file(data):
    """A counter has whole numbers, or its line is named."""
    found = stats.parse(data.decode("latin-1"), "stats")
    for name, counter in found.counters.items():
        assert 0 < len(name) <= 100
        assert counter.samples >= 0
        assert all(number is None or type(number) is int for number in counter[2:])
    assert not found.bad.keys() & found.counters.keys()


_EXPORT = (b"snapshot_time             1795332839.005385497 secs.nsecs\n"
           b"start_time                1795332706.724097298 secs.nsecs\n"
           b"elapsed_time              132.281288199 secs.nsecs\n"
           b"write_bytes               4 samples [bytes] 120000 2097152 4434304 8824893022208\n"
           b"write                     4 samples [usecs] 21788 263542 546387 112349896957\n"
           b"sync                      4 samples [usecs] 28 104 194 13524\n")
_EXPORT_2_10 = (b"snapshot_time             1795332839.005385497 secs.nsecs\n"
                b"read_bytes                23 samples [bytes] 4096 4096 94208\n"
                b"get_info                  2 samples [reqs]\n"
                b"get_info                  41 samples [reqs]\n"
                b"ping                      1009 samples [reqs]\n")


@target(lambda: [_EXPORT, _EXPORT_2_10, _EXPORT + _EXPORT_2_10])
def exports_file(data):
    """The usual form is read by an expression, and says what stats.parse says."""
    found = exports.parse(data, "stats")
    assert all(value is None or type(value) is int for value in exports.sum_amounts(found))
    assert not found.bad.keys() & found.counters.keys()
    assert len(exports.strip_time(data)) <= len(data)
    parse_client_file = exports.parse_client_file(data, "stats")
    assert all(one is None or 0 <= one < 2**63 for one in parse_client_file.amounts)
    assert parse_client_file.start_ns == (found.start_ns or 0) or parse_client_file.why or found.bad
    assert bool(parse_client_file.why) == (None in parse_client_file.amounts)
    for before in (exports.parse_client_file(seed) for seed in (_EXPORT, _EXPORT_2_10)):
        for is_restarted in (False, True):
            gain = client_lives.compare_readings(client_lives.Life(*before[:3]), parse_client_file,
                                                 is_restarted,
                                                 (NS, 2 * NS))
            assert all(0 <= one < 2**63 for one in gain.amounts)
    text = data.decode("utf-8", "replace")
    names = [line.partition(" samples [")[0].rstrip().rpartition(" ")[0].strip()
             for line in text.split("\n") if " samples [" in line]
    if len(names) == len(set(names)):               # of two of a name the first counts
        expected = stats.parse(text, "stats")
        assert expected.bad == found.bad and expected.start_ns == found.start_ns
        assert ({name: counter._replace(unit="") for name, counter in expected.counters.items()}
                == {name: counter._replace(unit="") for name, counter in found.counters.items()})


_LOG = (b"4,444,758211829,-;Lustre: scratch-OST0003: haven't heard from client f15aa50c-8084 (at "
        b"10.9.0.11@o2ib2) in 229 seconds. I think it's dead, and I am evicting it. exp 00000000, "
        b"cur 1795333379 deadline 1795333378 last 1795333340\n",
        b"[  758.211829] LustreError: 23:0:(ldlm_lib.c:1187:target_handle_connect()) Skipped 37 "
        b"previous similar messages\n",
        b"3,445,758211921,-,caller=T23;LustreError: 167-0: scratch-OST0003-osc-ffff9a3c5d1e0800: "
        b"This client was evicted by scratch-OST0003; in progress operations using this service "
        b"will fail.\n SUBSYSTEM=net\n",
        b"<3>[  758.211829][ T1234] LNetError: 23:0:(a.c:37:f()) ASSERTION( a ) failed: \\x1b\n")


@target(lambda: list(_LOG), 16_384)
def kernel_log_line(data):
    """A kind for the kernel's own words alone, and a text that a terminal can show."""
    for found in (kernel_log.parse_record(data), kernel_log.parse_dmesg_line(data)):
        told = found and kernel_log.parse_message(found)
        if told:
            assert not (found.priority or 0) >> 3
            assert told.kind in (*kernel_log.KINDS, kernel_log.SKIPPED, kernel_log.NO_EVENT)
            assert is_printable(told.text) and len(told.text) <= 1000
            assert told.count >= 0 and len(told.nids) <= 4
            assert all(map(is_printable, (told.target, told.file_system, told.place, told.device,
                                          told.client, *told.nids)))


_STATE = (b"current_state: FULL\nstate_history:\n - [ 1795226284, CONNECTING ]\n"
          b" - [ 1795226284, EVICTED ]\n - [ 1795226294, FULL ]\n")
_IMPORT = (b"import:\n    name: scratch-OST0003-osc-ffff9a3c5d1e0800\n    target: "
           b"scratch-OST0003_UUID\n    state: FULL\n    import_flags: [ IMPF_REPLAYABLE ]\n"
           b"    connection:\n       failover_nids: [ \"10.9.0.3@o2ib\", \"10.9.0.4@o2ib\" ]\n"
           b"       nids_stats:\n          \"10.9.0.3@o2ib\": { connects: 1, replied: 1, "
           b"uptodate: true, sec_ago: never }\n       current_connection: \"10.9.0.3@o2ib\"\n"
           b"       connection_attempts: 23\n       generation: 1\n       idle: 41 sec\n"
           b"    rpcs:\n       inflight: 0\n       timeouts: 37\n")


@target(lambda: [_STATE, _IMPORT])
def import_file(data):
    """A state is a state, a number is a number, or it is named."""
    found, state = imports.parse_import(data), imports.parse_state(data)
    assert found.state in (None, *imports.STATES)
    assert state.state in (None, *imports.STATES)
    assert all(one in imports.STATES for _, one in state.history)
    assert all(number is None or 0 <= number < 2**63 for number in (
        found.attempts, found.generation, found.invalidations, found.timeouts))
    for why in (*found.bad.values(), *state.bad.values()):
        checked_line(why)
    assert all(is_printable(name) for name in (
        found.name or "", found.target or "", found.nid or "", *(found.failover_nids or ()),
        *found.nids))


@target(lambda: _files("lustre-*/**/rpc_stats"))
def rpc_stats_file(data):
    with allowed(StatsSyntaxError):
        found = rpc_stats.parse(data.decode("latin-1"), "rpc_stats")
        assert all(counter.samples >= 0 for counter in found.counters.values())


def _entries():
    value = job_stats_text.Value(23, 31, 8117, 61_403, 402_653_184, ((12, 23),))
    jobs = [job_stats_text.Job(name, 1_795_225_000 * NS, 1_795_225_037 * NS,
                               {"write_bytes": value, "open": value, "punch": value})
            for name in (b"4711", b"a b:\xff", b"")]
    return [job_stats_text.text(jobs[:2], release, kind) for release in ("2.5", "2.12", "2.15.0",
            "2.15.2", "2.17") for kind in ("OST", "MDT")] + [
        job_stats_text.text(jobs[:1], "2.12").replace(b"4711", b'"47:11"')]


@target(_entries, 16_384)
def job_stats_file(data):
    """Pieces are the same however read(2) cuts the file; no entry is lost in silence."""
    draw = Draw(data[:8])
    whole = list(job_stats.split_entries([data]))
    assert whole == list(job_stats.split_entries(draw.parts(data)))
    assert sum(map(len, whole)) <= len(data) + len(whole)
    prints, rows = Fingerprints(), job_stats_rows.Rows(NS)
    for _ in range(2):
        for piece in prints.quotes.split_entries([data], lambda: [data]):
            prints.is_changed(piece)
            is_printed_by_kernel = prints.quotes.is_printed_by_kernel
            try:
                with allowed():
                    rows.read(piece, "job_stats", is_printed_by_kernel)
            except JobStatsSyntaxError:
                pass
            try:
                with allowed():
                    entry = job_stats.parse(piece, NS, "job_stats", is_printed_by_kernel)
            except JobStatsSyntaxError as error:
                assert str(error).isprintable()
                prints.refuse(piece)
                continue
            assert entry.job_id.isprintable()
            assert len(entry.job_id) <= job_stats.LONGEST_ID
            assert entry.job_id.encode() == job_stats.parse_id(piece, is_printed_by_kernel)
            # What the server's types of a sweep take.
            assert 0 <= entry.started_ns < 2**63 and 0 <= entry.seen_ns < 2**64
            for counter in entry.counters.values():
                assert all(number is None or 0 <= number for number in
                           (counter.samples, *counter[2:]))
        prints.finish()


@target(lambda: [b"obdfilter.scratch-OST0000.job_stats=\n" + one for one in _entries()], 16_384)
def job_stats_dump(data):
    """What `lctl get_param` printed, as `top --statsfile` reads it."""
    from iostats.load import ranking
    from iostats.storage import local_load
    with tempfile.NamedTemporaryFile(dir=_memory()) as file:
        file.write(data)
        file.flush()
        with allowed(NotReadable, UsageError, JobStatsSyntaxError, StateError):
            try:
                dumps = local_load.DumpLoad([file.name], "%j", None)
                dumps.scan()
                dumps.answer(ranking.LoadQuery())
            except NotReadable:
                raise
            except Exception as error:
                if type(error).__name__ == "IostatsError":
                    return
                raise


def _memory():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _snapshot(texts, wall_ns, mark=""):
    files = [paths.File("llite", "scratch-ffff9a3c5d1e0800", _PATHS["llite"], 0, texts[0]),
             paths.File("osc", "scratch-OST0000-osc-ffff9a3c5d1e0800", _PATHS["osc"], 0,
                        texts[1])]
    return snapshot.Snapshot("4711", "nid00023", "9f2c31d0a4b85e67", "b" * 36, wall_ns,
                             wall_ns // 2, tuple(files), mark)


_CUT = b"\0--\0"


def _pairs():
    found = _files("lustre-2.1[0-7]/**/stats", 4)
    return [_CUT.join([one, one, one.replace(b"1", b"2"), one]) for one in found]


@target(_pairs, 12_000)
def two_snapshots(data):
    """Whatever the counter files have: the report is one that servers take, and can be shown."""
    texts = (data.split(_CUT, 3) + [b""] * 4)[:4]
    # Most of them with a head that is right, so that more than one byte in a thousand gets far.
    texts = [(b"snapshot_time 1752000000.000000123 secs.nsecs\n" * (b"snapshot_time" not in one)
              + one.rstrip(b"\n") + b"\n").decode("latin-1") for one in texts]
    start, end = _snapshot(texts[:2], 1_795_225_000 * NS), _snapshot(texts[2:], 1_795_225_037 * NS)
    known = sources.read_at("start")
    parts = delta.compute_deltas(start, end, known)
    message = {"protocol": 1, "job": "4711", "node": "nid00023", "seq": "23", "ended": NOW,
               "elapsed_s": 37.0, "deltas": measurement.as_sent(parts)}
    taken = msgspec.json.decode(json.dumps(message), type=NodeReport)
    totals = Totals("4711", 1)
    assert totals.add(taken).counted
    record = totals.record()
    json.loads(json.dumps(record, allow_nan=False))
    found = config.Config()
    for form in ("grid", "json", "csv"):
        job_tables.format_report(record, found, form, long=True)


# -- names, lists, times -----------------------------------------------------------------------

@target(lambda: [b"nid[00001-00003,7],login1", b"a[1-3]b[07-12],c", b"x[1-999999]", b"n1,n2"], 600)
def node_list(data):
    """Names that a user would call names, in bounded space; or the part that is off."""
    text = data.decode("utf-8", "replace")
    try:
        names = base_node_list.expand_node_list(text, 5000)        # a million: a second
    except ValueError:
        names = []
    assert len(names) <= 5000
    assert sum(map(len, names[:10])) <= 10 * 2000
    if 0 < len(names) < 1000:
        with allowed(UsageError):
            for name in job_environment.parse_node_names(text):
                assert base_job_id.is_node_name(name)
        node_sets.fold_nodes([name for name in names if base_job_id.is_node_name(name)])


@target(lambda: [b"4711", b"4711[3].pbs01", b"143_7", b"12+1", b"f2Jx9k", "été".encode()], 300)
def job_id(data):
    text = data.decode("utf-8", "surrogateescape")
    found = list_ports(text, 20000, 29999, 10)
    assert found and all(20000 <= port <= 29999 for port in found)
    name = base_job_id.make_filename(text, "nid00023")
    assert name.isascii() and "/" not in name and 0 < len(name) <= 200
    with allowed(UsageError):
        assert base_job_id.check_job_id(text).isprintable()
    with allowed(UsageError):
        commands.check_ids([text])
    with allowed(UsageError):
        host, port = client.split_server(text)
        assert host and (port is None or 0 < port < 65536)


@target(lambda: [b"2026-11-21T13:37", b"1121-13:37", b"13:37", b"yesterday", b"now-3days",
                 b"11/21/26", b"fika"], 60)
def moment(data):
    text = data.decode("utf-8", "replace")
    with allowed(UsageError):
        assert abs(sacct_time.parse_time(text, NOW, "-S")) < 1e12
    found = commands.parse_time(text, NOW)
    assert found is None or abs(found) < 1e12


@target(lambda: [b"JobID,User%-10,ReadBytes%12", b"-write_bytes", b"Start", b"opens%7,note"], 200)
def fields(data):
    """-o, --sort, --delimiter of `iostats jobs`."""
    text = data.decode("utf-8", "replace")
    with allowed(UsageError):
        assert job_list.parse_columns(text)
    with allowed(UsageError):
        job_fields.parse_sort(text)
    with allowed(UsageError):
        listing.check_delimiter(text)


@target(lambda: [(Path(__file__).parents[2] / "site.cfg").read_bytes()[:3000],
                 b"[server]\nport_first = 23\n[labels]\nscratch = BW Home\n[site]\nport=1\n"], 4000)
def site_cfg(data):
    """The file, the environment, and how `iostats config` shows it."""
    from iostats.cli.config import format_config
    with tempfile.NamedTemporaryFile(dir=_memory()) as file:
        file.write(data)
        file.flush()
        lines = data.split(b"\n")
        environ = {"IOSTATS_SERVER_IDLE_TIMEOUT": lines[0].decode("utf-8", "surrogateescape")}
        for env in ({}, environ):
            with allowed(ConfigError):
                found = config.load(file.name, env)
                format_config(found, True)


# -- batch systems -----------------------------------------------------------------------------

@lru_cache
def _parsers():
    from iostats.schedulers import slurm_output as forms
    named: dict[str, Any] = {name: schedulers.find_scheduler(name)
                             for name in ("pbs", "lsf", "sge", "flux")}
    return [forms.parse_squeue, forms.parse_sacct, forms.parse_squeue_lines,
            forms.parse_sacct_lines, forms.parse_pyslurm, named["pbs"].parse_json,
            named["pbs"].parse_text, named["lsf"].parse_json, named["lsf"].parse_text,
            named["sge"].parse_xml, named["sge"].parse_qacct, named["flux"].parse_json,
            named["flux"].parse_text]


def _outputs():
    found = sorted((DATA / "schedulers").iterdir())
    return [bytes([number]) + path.read_bytes()[:6000] for path in found if path.is_file()
            for number in range(len(_parsers()))
            if _takes(_parsers()[number], path.read_bytes()[:6000])]


def _takes(parse, data):
    try:
        return bool(parse(data.decode("utf-8", "replace")))
    except NotReadable:
        return False


@target(_outputs, 8000)
def batch_output(data):
    """What squeue, sacct, pyslurm, qstat, bjobs, qacct and flux print: facts, or NotReadable."""
    from iostats.base import job_facts
    from iostats.load import grouping
    from iostats.schedulers import slurm_output as forms
    draw = Draw(data)
    parse = draw.choice(_parsers())
    with allowed(NotReadable):
        for one in parse(draw.rest().decode("utf-8", "replace")).values():
            assert one.nodes == job_environment.check_node_list(one.nodes)
            forms.expand_pattern("/home/%u/%x-%4j.%N", one)
            # As they are kept and shown.
            json.dumps(one._asdict(), allow_nan=False)
            msgspec.json.encode(one._asdict())
            grouping.count_nodes(one)
            assert one.state in (None, job_facts.WAITING, job_facts.RUNNING, job_facts.ENDED)


@target(lambda: [b"SLURM_JOB_ID=4711\0SLURM_JOB_NODELIST=nid[1-3]\0SLURM_RESTART_COUNT=1",
                 b"PBS_JOBID=4711.pbs01\0PBS_NODEFILE=/dev/null", b"LSB_JOBID=4711\0LSB_JOBINDEX=3"
                 b"\0LSB_MCPU_HOSTS=a 2 b 2", b"FLUX_JOB_ID=fuZZybuNNy\0FLUX_JOB_USERID=1000",
                 b"JOB_ID=4711\0SGE_TASK_ID=3\0RESTARTED=1"], 2000)
def batch_environment(data):
    """What a prolog's environment tells: nothing in it makes it raise."""
    environ = {}
    for part in data.split(b"\0"):
        name, _, value = part.partition(b"=")
        if not name.endswith(b"FILE") or value in (b"/dev/null", b"/dev/zero", b"/etc/hosts"):
            environ[name.decode("latin-1")] = value.decode("utf-8", "surrogateescape")
    for name in schedulers.list_names():
        about = schedulers.find_scheduler(name).about(environ)
        assert all(type(value) in (str, int) for value in about.values())
        json.dumps(about).encode()


# -- the short form ----------------------------------------------------------------------------

@lru_cache
def a_record():
    """The record of two nodes, with all that a record can have."""
    from test_job_totals import llite, osc
    from trees import report as of_node
    totals = Totals("4711", frozenset(("nid00001", "nid00002", "nid00003")),
                    fold=node_sets.fold_nodes)
    for number in (1, 2):
        totals.add(of_node(f"nid0000{number}", [
            llite("snx11001", read_bytes=16_777_216, read_calls=23, open=23, open_us=61_403,
                  mkdir=13),
            osc("OST0000", "snx11001", read_bytes=16_785_408, read_rpcs=5), llite("home")],
            ended=1867.4, elapsed_s=1867.4))
    return {**totals.record(), "batch": None, "harvest": None}


def _lines():
    line = accounting_comment.encode(a_record())
    return [line.encode(), b"some words " + line.encode() + b" more", line.upper().encode()]


@target(_lines, 1800)
def short_form(data):
    """A comment of the accounting, as other people have edited it; also with its checksum right."""
    from binascii import crc32
    text = data.decode("utf-8", "surrogateescape")
    small = comment_reader.lowercase_ascii(text.strip())
    body = small.rpartition(":")[0]
    found = config.Config()
    for one in (text, f"{body}:{crc32(body.encode('utf-8', 'surrogateescape')):08x}"):
        with allowed(CommentError):
            one = comment_reader.find_comment(one)
            if one is None:
                continue
            record = comment_reader.make_record(comment_reader.decode(one))
            for form in ("grid", "plain", "json", "csv", "markdown"):
                for long in (False, True):
                    job_tables.format_report(record, found, form, long)
            job_summary.make_summary(record)
            accounting_comment.encode(record, 4000)
