"""
Every byte that comes from the network or from a file: a documented error or a result, and never a
traceback, a hang, or memory beyond a limit.

The targets are in fuzz/.  Each runs here with what longer runs have found (corpus/TARGET) and with
some edits of that; `make fuzz` goes on for as long as one likes.  Below are the findings
by name, and what no single input shows: what many bytes cost.
"""
from __future__ import annotations

import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import msgspec
import pytest
import sweep_blocks
from fuzz.all import TARGETS
from fuzz.messages import (
    NODE,
    _config,
    _job_server,
    _post,
    _sweeps,
    _Transport,
)
from fuzz.texts import NOW
from fuzz.tools import CORPUS, corpus, mutated, within
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trees import ROOT

from iostats.base import node_list
from iostats.base.errors import IostatsError, NotDelivered
from iostats.cli import jobs
from iostats.harvest.intake import Harvest
from iostats.node import delivery
from iostats.server.http_server import HttpConnection
from iostats.server.rpc_server import Caller
from iostats.store.job_index import JobsParams
from iostats.store.record_store import Store
from iostats.wire import jsonrpc
from iostats.wire.messages.sweep_decoder import PackedSweep, decode_sweep

_SLOW = {"damaged_store": 60, "repaired_store": 60, "rpc_site": 60}
_EXAMPLES = 120


@pytest.mark.parametrize("name", list(TARGETS))
def test_what_fuzzing_has_found_leads_to_a_result_or_a_documented_error(name):
    """The corpus, and what is as it should be."""
    for data in [*TARGETS[name].seeds(), *corpus(name)]:
        with within():
            TARGETS[name].run(data)


@pytest.mark.parametrize("name", list(TARGETS))
def test_edits_of_it_do_as_well(name):
    """The same edits each time; `make fuzz` has others, guided by what they reach."""
    target = TARGETS[name]
    known = [*target.seeds(), *corpus(name)]

    @settings(max_examples=_SLOW.get(name, _EXAMPLES), suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(range(len(known))), st.binary(max_size=40))
    def run(number, edits):
        with within():
            target.run(mutated(known[number], edits)[:target.most_bytes])
    run()


def test_the_corpus_is_small_and_of_targets_that_there_are():
    """What is kept is for replay: under a megabyte together."""
    directories = sorted(path.name for path in CORPUS.iterdir())
    assert set(directories) <= set(TARGETS)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 1 << 20


def _long(*words, planted=""):
    """`make fuzz` without atheris."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['atheris'] = None\n{planted}\n"
         f"from fuzz.long import main; sys.exit(main())", *map(str, words)],
        cwd=Path(__file__).parent, capture_output=True, text=True)


def test_the_long_form_runs_where_there_is_no_atheris(tmp_path):
    """Edits without coverage; a fresh seed each time."""
    seeds = set()
    for _ in range(2):
        done = _long("--runs", 37, "--work", tmp_path, "job_id", "moment")
        assert 0 == done.returncode, done.stdout + done.stderr
        assert "job_id: ok  37 inputs" in done.stdout and "nothing found" in done.stdout
        seeds.update(re.findall(r"(?m)^seed (\d+)$", done.stdout))
    assert 2 == len(seeds)


def test_what_the_long_form_finds_can_be_repeated(tmp_path):
    """By its seed, and by the input that it has written."""
    planted = """
from fuzz.tools import target
@target(lambda: [b"solve"])
def planted(data):
    assert b"v" in data, data
"""
    done = _long("--seconds", 60, "--work", tmp_path / "one", "planted", planted=planted)
    [(seed, number)] = re.findall(r"planted: FOUND  seed (\d+), input (\d+)", done.stdout)
    [wrong] = re.findall(r"(?m)^AssertionError: .*$", done.stdout)
    again = _long("--runs", number, "--seed", seed, "--work", tmp_path / "other", "planted",
                  planted=planted)
    assert f"{wrong}\n" in again.stdout and f"seed {seed}, input {number}\n" in again.stdout
    [words] = re.findall(r"repeat it: cd .* && .* -m fuzz.long (.*)", done.stdout)
    once = _long(*words.split(), planted=planted)
    assert 1 == once.returncode and f"{wrong}\n" in once.stderr


def test_what_a_search_finds_can_be_repeated():
    """In the tests with random cases: the same case, by the command that is printed."""
    done = _long("--seconds", 1, "--seed", 23, "tests/fuzz/planted.py::test_a_planted_fault")
    assert 1 == done.returncode, done.stdout + done.stderr
    [command] = re.findall(r"(?m)^IOSTATS_EXAMPLES=\d+ .*--hypothesis-seed=23 .*", done.stdout)
    again = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert 1 == again.returncode
    wrong = re.compile(r"AssertionError: \[.*\]")
    assert set(wrong.findall(done.stdout)) == set(wrong.findall(again.stdout)) != set()


# -- what one input does not show ----------------------------------------------------------------

ENDLESS = {
    "a header's value": (b"POST / HTTP/1.1\r\nX: ", b"a" * 4096),
    "a header's name": (b"POST / HTTP/1.1\r\n", b"a" * 4096),
    "headers": (b"POST / HTTP/1.1\r\n", b"a: b\r\n" * 700),
    "what a chunk is called": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;",
                               b"a" * 4096),
    "a trailer": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ", b"a" * 4096),
    "chunks of one byte": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                           b"1\r\na\r\n" * 700),
    "line ends": (b"\r\n", b"\r\n" * 2000),
}


@pytest.mark.parametrize("begin, part", list(ENDLESS.values()), ids=list(ENDLESS))
def test_what_stands_beside_a_body_ends_at_64_kib(begin, part):
    """
    The parser keeps a header until it ends, and copies it with each part that comes: 53 MiB of one
    took 15 s of the server, from anybody who could reach its port.
    """
    one, transport = _job_server(), _Transport()
    connection = HttpConnection(one)
    connection.connection_made(transport)
    connection.data_received(begin)
    parts = 0
    while not transport.closing and parts < 40:
        connection.data_received(part)
        parts += 1
    # 64 KiB are 16 parts; chunks of one byte are 5 bytes of 6 beside the body.
    assert 15 <= parts <= 24
    assert transport.written.startswith(b"HTTP/1.1 413 Content Too Large\r\n")
    connection.connection_lost(None)
    assert 0 == one.connections.held


@pytest.mark.parametrize("head", [
    b"POST / HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
    b"POST / HTTP/1.1\r\n" + b"a: b\r\n" * 23_000 + b"\r\n",
    b"POST /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: " + b"a" * 70_000
    + b"\r\n\r\n"], ids=["a header", "headers", "a path", "a trailer"])
def test_64_kib_are_the_limit_too_where_all_comes_at_once(head):
    """A header of 70 kB in one packet was taken, as it may have been of several messages."""
    one, transport = _job_server(), _Transport()
    connection = HttpConnection(one)
    connection.connection_made(transport)
    connection.data_received(head)
    assert transport.written.startswith(b"HTTP/1.1 413 Content Too Large\r\n")
    connection.connection_lost(None)
    assert 0 == one.connections.held


def test_a_body_in_many_parts_and_requests_behind_one_another_are_not_beside_it():
    """A body of 200 kB byte by byte, and 3,000 calls in 23 pieces, are taken."""
    one, transport = _job_server(), _Transport()
    connection = HttpConnection(one)
    connection.connection_made(transport)
    hello = b'{"jsonrpc":"2.0","method":"hello","params":{"job":"4711"},"id":1}'
    long = _post(hello + b" " * 200_000, header="")
    for place in range(len(long)):
        connection.data_received(long[place:place + 1])
    assert 1 == transport.written.count(b"HTTP/1.1 200 OK")
    many = _post(hello, header="") * 3000
    for place in range(0, len(many), len(many) // 23):
        connection.data_received(many[place:place + len(many) // 23])
    assert 3001 == transport.written.count(b"HTTP/1.1 200 OK")
    assert not transport.closing


LARGE = {
    "a batch of numbers": b"[" + b"0," * 2_000_000 + b"0]",
    "a batch of lists": b"[" + b"[]," * 1_400_000 + b"0]",
    "params of lists": b'{"jsonrpc":"2.0","method":"hello","id":23,"params":['
                       + b"[]," * 1_400_000 + b"0]}",
    "params of no method's": b'{"jsonrpc":"2.0","method":"status","id":23,"params":['
                             + b"[]," * 1_400_000 + b"0]}",
}


@pytest.mark.parametrize("body", list(LARGE.values()), ids=list(LARGE))
def test_four_megabytes_of_brackets_are_not_made_into_a_hundred(body):
    """16 MiB of "0," took 576 MiB of the server's memory, and 0.8 s of its time."""
    one, who = _job_server(), Caller(NODE, None)
    tracemalloc.start()
    try:
        found = jsonrpc.dispatch(body, one.methods, who)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(body) + (1 << 20)
    finally:
        tracemalloc.stop()
    assert b'"error":{"code":-326' in found


def test_an_unauthenticated_long_body_is_not_even_looked_at():
    """64 KiB are enough for a hello; what is longer is refused as what it is, and counted."""
    one = _job_server()
    hello = b'{"jsonrpc":"2.0","method":"hello","params":{"job":"4711"},"id":23}'
    assert b'"job":"4711"' in one.answer(hello.ljust(65_536), "")[0]
    found, _ = one.answer(hello.ljust(65_537), "")
    assert b'{"jsonrpc":"2.0","error":{"code":-32001,' in found
    assert {"not authenticated": 1} == one.totals.record()["coverage"]["refused"]


@pytest.mark.parametrize("text", [
    "x" * 1_000_000 + "[1-999999]",           # would be a terabyte of names
    "[" + "0" * 4000 + "1-999999]",           # four gigabytes
    "[1]" * 350_000,                          # copied 350,000 times
    "x" * 1_000_000], ids=["long head", "wide numbers", "many brackets", "long name"])
def test_a_node_list_of_a_megabyte_asks_for_no_more_than_that(text):
    """A name is no longer than a host's; the names are not even made."""
    tracemalloc.start()
    try:
        with within(), pytest.raises(ValueError):
            node_list.expand_node_list(text)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


def test_a_list_of_jobs_that_has_always_more_of_the_same_ends(monkeypatch):
    """A server that answers each question with the same place to go on from."""
    rows = {"jobs": [{"job_id": "4711"}], "next": [23, "eiger", "4711", 0]}
    monkeypatch.setattr(jobs, "ask_site", lambda *question, **more: rows)
    with pytest.raises(NotDelivered,
                       match="unexpected format of the site's server's answer: a list of jobs"):
        jobs._fetch_rows({}, JobsParams(), 10**9)


def test_a_message_of_ours_is_cut_in_the_middle():
    """A damaged file's line of a megabyte: what is expected stands first, what to do last."""
    text = str(IostatsError("expected 23, got " + "x" * 1_000_000 + "; do 37"))
    assert len(text) == 2000
    assert text.startswith("expected 23, got x") and text.endswith("x; do 37")


def test_a_targets_damaged_entries_come_back_with_the_next_full_sweep(tmp_path, caplog):
    """
    The server starts, says which target it is, and wants everything of it; it used to end with the
    error, and what it said, that the next full sweep replaces them, could not come true.
    """
    store = Store(str(tmp_path / "site.sqlite"))
    sweeps = [sweep_blocks.params(*one) for one in _sweeps()]

    def taken(harvest, message):
        sweep = decode_sweep(msgspec.convert(message, PackedSweep), 1 << 20)
        return harvest.receive(sweep, NODE)["taken"]
    first = Harvest(store, _config(), lambda: NOW)
    assert taken(first, sweeps[0])
    [(key, target)] = first.targets.items()
    state = bytearray(target.state())
    state[len(state) // 2] ^= 1
    first.checkpoints.write([key])
    store.change("UPDATE targets SET state = ?", (bytes(state),))
    assert taken(first, sweeps[1])
    store.commit()
    again = Harvest(store, _config(), lambda: NOW)
    assert "scratch-OST0000: a target's saved entries" in caplog.text
    assert {} == again.targets
    assert not taken(again, sweeps[2])
    (head, blocks), *_, (later, _) = _sweeps()
    assert taken(again, sweep_blocks.params(
        {**head, "run": "37" * 8, "slot": later["slot"]}, blocks))
    assert ["4711", "4712", "cp.0"] == sorted(again.targets[key].ids())
    store.commit()
    third = Harvest(store, _config(), lambda: NOW)         # and is not lost with another restart
    assert ["4711", "4712", "cp.0"] == sorted(third.targets[key].ids())
    store.close()


def test_a_report_that_is_no_json_to_the_server_keeps_no_other_one_back(tmp_path):
    """1e999 is a number to us, and JSON's Infinity when it is sent: -32700, for ever."""
    assert -32700 in delivery.NOT_NOW
