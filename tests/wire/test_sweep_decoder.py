"""
`packed_sweep`: what an agent reads by one expression for an entry is what parse() reads, what it
packs is what the site's server unpacks, and what cannot be is refused before it costs anything.
"""
from __future__ import annotations

import json
import struct
import zlib

import job_stats_text
import msgspec
import pytest
from examples import examples
from harvest_desk import BEGAN, NS, a_job
from hypothesis import given, settings
from hypothesis import strategies as st
from job_stats_text import Job, Value
from test_job_stats import releases_and_jobs

from iostats.base import config as site
from iostats.base.errors import JobStatsSyntaxError, WireError
from iostats.harvest import intake as harvest_intake
from iostats.lustre import job_stats
from iostats.lustre.job_stats_rows import Rows, check
from iostats.lustre.stats import Counter, find_impossible
from iostats.server.rpc_server import Caller
from iostats.store.record_store import Store
from iostats.wire import protocol
from iostats.wire.messages.sweep_decoder import PackedSweep, decode_block, decode_sweep
from iostats.wire.messages.sweep_encoder import BlockEncoder, SweepMessages

MOST = 16 << 20
HEAD = {"file_system": "scratch", "target": "OST000a", "read_at": 1_795_225_400.5, "cleanup_s": 600}
MESSAGE = {"node": "oss1", "boot_id": "b" * 32, "run": "0123456789abcdef", "seq": 1, "full": True,
           "slot": 1_795_225_400, "every": 20}


# -- rows --------------------------------------------------------------------------------------

def by_parse(piece, boot_ns=0):
    """(id, started, seen, {counter: (unit, numbers)}) as parse() says, or None."""
    try:
        entry = job_stats.parse(piece, boot_ns)
        check(entry, "job_stats")
    except JobStatsSyntaxError:
        return None
    return entry[:3] + ({name: (unit, samples, *(one for one in numbers if one is not None))
                         for name, (samples, unit, *numbers) in entry.counters.items()},)


def by_rows(rows, piece):
    """The same, of a Row."""
    try:
        form, row = rows.read(piece, "job_stats")
    except JobStatsSyntaxError:
        return None
    numbers, counters = iter(map(int, row.numbers)), {}
    for name, unit, fields in form.columns:
        values = [next(numbers) for _ in fields]
        if values[0]:
            counters[name] = (unit, *values)
            if find_impossible(Counter(values[0], unit,
                                       *values[1:])):       # refused when it is packed
                return None
        else:
            assert not any(values)
    return row[:3] + (counters,)


@given(releases_and_jobs())
def test_a_row_has_what_parse_has_in_every_release(drawn):
    """Also where one agent reads OSTs and MDTs, one after the other."""
    release, kind, jobs = drawn
    rows, other = Rows(23 * NS), "MDT" if kind == "OST" else "OST"
    texts = [job_stats_text.text(jobs, release, kind),
             job_stats_text.text([a_job(0)], "2.16", other)] * 2
    for text in texts:
        for piece in job_stats.split_entries([text]):
            assert by_parse(piece, 23 * NS) == by_rows(rows, piece)


PIECES = [piece for release in ("2.5", "2.12", "2.14", "2.16") for kind in ("OST", "MDT")
          for piece in job_stats.split_entries([job_stats_text.text(
              [Job(b"4711", BEGAN, BEGAN + NS, {name: Value(23, 31, 8117, 61_403, 402_653_184)
                                                for name, _ in job_stats_text.counters_of(
                                                    release, kind)[::2]})], release, kind)])]


@given(st.sampled_from(PIECES), st.lists(st.tuples(
    st.integers(0, 10**4), st.integers(0, 9), st.sampled_from(
        [b"", b"\n", b" ", b"-", b"0", b"9" * 19, b"18446744073709551616", b"{", b"}", b",", b":",
         b"samples: 1", b"\xff", b"4096", b"1.5", b"\x00", b"  open: { samples: 3, unit: reqs }\n"])
), max_size=3))
@settings(max_examples=examples(500))
def test_a_row_has_what_parse_has_of_damaged_entries(piece, edits):
    """The expressions are of entries that are as they should be, and of these."""
    rows = Rows(0)
    for whole in PIECES:
        rows.read(whole, "job_stats")
    for at, length, by in edits:
        at %= len(piece)
        piece = piece[:at] + by + piece[at + length:]
        for _ in range(2):
            assert by_parse(piece) == by_rows(rows, piece)


def test_what_no_kernel_has_kept_is_left_out_and_named():
    """4712's sum is more than its samples and its maximum allow, 4713's is 2^63."""
    jobs = [Job(job, BEGAN, BEGAN + NS, {"write_bytes": Value(23, 1, 37, total, 0)})
            for job, total in ((b"4711", 851), (b"4712", 852), (b"4713", 2**63), (b"4714", 850))]
    for order in (jobs, jobs[::-1]):
        [message] = packed(order)
        [(rows, _)] = unpacked(message).blocks
        assert {"4711", "4714"} == set(rows.head.ids)
        assert (2, {"4712", "4713"}) == (rows.head.bad, set(rows.head.refused))
        assert "job '4712': expected a sum of at most samples x maximum" in (
            rows.head.why.replace("4713", "4712"))


def test_only_so_many_expressions_are_made():
    """Of a file whose every entry has counters of its own; what it says is read all the same."""
    rows = Rows(0)
    for number in range(200):
        piece = PIECES[0].replace(b"sync:", b"sync%d:" % number)
        assert by_parse(piece) == by_rows(rows, piece) is not None
    assert len(rows._forms) <= 8 and rows._made <= 64


# -- there and back ----------------------------------------------------------------------------

def packed(jobs, release="2.16", kind="OST", longest=1 << 20, gone=(), boot_ns=0):
    """[bytes] of the messages of one sweep of one target."""
    messages, seqs = [], iter(range(1, 10_000))
    parts = SweepMessages(messages.append, lambda: {**MESSAGE, "seq": next(seqs)}, longest)
    rows, block = Rows(boot_ns), BlockEncoder(HEAD)
    for piece in job_stats.split_entries([job_stats_text.text(jobs, release, kind)]):
        try:
            form, row = rows.read(piece, "job_stats")
        except JobStatsSyntaxError as error:
            block.refuse(error)
            continue
        if not (block.has_place_for(form, row) and parts.has_place_for(block)):
            parts.add(block, ended=False)
            block = BlockEncoder(HEAD)
        block.add(form, row)
    parts.add(block, ended=True, entries=len(jobs), removed=gone)
    parts.end()
    return messages


def unpacked(message, most=MOST):
    return decode_sweep(PackedSweep(2, message, 0.25), most)


def told(rows):
    """[(id, started, seen, {counter: (unit, {field: number})})] of Rows."""
    at = {column: place for place, column in enumerate(rows.columns)}
    values = rows.values.tolist()
    return [(one, int(rows.started_ns[row]), int(rows.seen_ns[row]), {
        name: (unit, {field: values[row][place] for (of, field), place in at.items() if of == name})
        for name, unit in rows.units.items() if values[row][at[name, "samples"]]})
        for row, one in enumerate(rows.head.ids)]


@given(releases_and_jobs())
def test_what_is_packed_is_unpacked_to_the_last_number(drawn):
    release, kind, jobs = drawn
    jobs = list({job.job_id: job for job in jobs}.values())
    entries = [by_parse(piece, 23 * NS) for piece in
               job_stats.split_entries([job_stats_text.text(jobs, release, kind)])]
    found, is_dated = [], True
    for message in packed(jobs, release, kind, boot_ns=23 * NS):
        taken = unpacked(message)
        assert (2, "oss1", 0.25) == (taken.head.protocol, taken.head.node, taken.clock_ahead_s)
        for rows, kept in taken.blocks:
            found += told(rows)
            is_dated = is_dated and all(rows.started_ns)
            assert told(decode_block(kept)) == told(rows)
    by_fields = {1: ("samples",), 4: ("samples", "min", "max", "sum"),
                 5: ("samples", "min", "max", "sum", "sumsq")}
    if entries:
        assert is_dated == all(started for _, started, *_ in entries)
    assert found == [(one, started, seen, {name: (unit, {
        field: number for field, number in zip(by_fields[len(numbers)], numbers)
        if field in ("samples", "sum") or not is_dated})
        for name, (unit, *numbers) in counters.items()})
        for one, started, seen, counters in entries]


def test_numbers_of_any_width_come_back():
    """One column a byte wide, one two, and so on up to the largest number there is."""
    amounts = (2**8 - 1, 2**8, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**63 - 1)
    for amount in amounts:
        [message] = packed([Job(b"4711", BEGAN, BEGAN + NS,
                                {"write_bytes": Value(1, amount, amount, amount, 7)})])
        [(rows, _)] = unpacked(message).blocks
        assert told(rows)[0][3] == {"write_bytes": ("bytes", {"samples": 1, "sum": amount})}


def test_a_sweep_is_cut_into_messages_of_bounded_length():
    jobs = [a_job(number) for number in range(5000)]
    messages = packed(jobs, longest=1 << 16)
    assert len(messages) > 3
    assert all(len(zlib.decompress(one)) < 2 << 16 for one in messages)
    assert [False] * (len(messages) - 1) + [True] == [unpacked(one).head.last for one in messages]
    assert [job.job_id.decode() for job in jobs] == [
        one for message in messages for rows, _ in unpacked(message).blocks
        for one in rows.head.ids]


# -- what cannot be ----------------------------------------------------------------------------

def a_message(head=None, block=None, columns=None, blocks=1):
    """Bytes of a message by hand: two entries, of 23 and 37 writes of 41 and 43 bytes."""
    head = {"protocol": 2, **MESSAGE, "last": True, "blocks": blocks, **(head or {})}
    block = {**HEAD, "ended": True, "entries": 2, "ids": ["4711", "4712"], "gone": [],
             "times": [8, 8], "counters": {"write_bytes": ["bytes", 1, 0, 0, 2, 0]},
             **(block or {})}
    if columns is None:
        columns = struct.pack("<QQQQHHBB", BEGAN, BEGAN, BEGAN + 1, BEGAN + 2, 41, 43, 23, 37)
    return b"iostats sweep 2\n%s\n%s\n%s" % (json.dumps(head).encode(), json.dumps(block).encode(),
                                             columns)


def test_a_message_is_as_the_documents_say():
    [(rows, kept)] = unpacked(zlib.compress(a_message())).blocks
    assert [("4711", BEGAN, BEGAN + 1, {"write_bytes": ("bytes", {"samples": 23, "sum": 41})}),
            ("4712", BEGAN, BEGAN + 2, {"write_bytes": ("bytes", {"samples": 37, "sum": 43})})
            ] == told(rows) == told(decode_block(kept))


@pytest.mark.parametrize("samples, total", [(0, 41), (23, 2**63)])
def test_entries_that_cannot_be_are_some_that_were_not_understood(samples, total):
    """Bytes without calls, and a sum past the kernel's limit: the other entry stands."""
    message = a_message(
        block={"counters": {"write_bytes": ["bytes", 1, 0, 0, 8, 0]}},
        columns=struct.pack("<QQQQQQBB", BEGAN, BEGAN, BEGAN + 1, BEGAN + 2, total, 43, samples,
                            37))
    [(rows, kept)] = unpacked(zlib.compress(message)).blocks
    assert [("4712", BEGAN, BEGAN + 2, {"write_bytes": ("bytes", {"samples": 37, "sum": 43})})
            ] == told(rows) == told(decode_block(kept))
    assert (1, ["4711"]) == (rows.head.bad, rows.head.refused)


@pytest.mark.parametrize("message, said", [
    (a_message()[:-1], "expected 38 bytes of 2 entries, got 37"),
    (a_message() + b"x", "expected 1 blocks, got 1 bytes more"),
    (a_message(blocks=2), "block 2 of 2: expected a line of JSON"),
    (a_message({"protocol": 3}), "expected protocol 2, got 3"),
    (a_message({"blocks": 10_001}), "<= 10000"), (a_message({"run": "x"}), "regex"),
    (a_message(block={"times": [8, 3]}), "Invalid enum value 3"),
    (a_message(block={"times": [8, 0]}), "Invalid enum value 0"),
    (a_message(block={"counters": {"write_bytes": ["bytes", 0, 0, 0, 2, 0]}}),
     "Invalid enum value 0"),
    (a_message(block={"counters": {"w b": ["bytes", 1, 0, 0, 2, 0]}}), "regex"),
    (a_message(block={"ids": ["4711", "4711"]}), "every id once"),
    (a_message(block={"gone": ["4713", "4713"]}), "every id once"),
    (a_message(block={"target": "../etc"}), "regex"),
    (a_message(block={"file_system": ""}), "regex"),
    (a_message({"run": "0123456789ABCDEF"}), "regex"), (a_message({"seq": 0}), ">= 1"),
    (a_message({"every": 0}), ">= 1"), (a_message({"slot": -1}), ">= 0"),
    (a_message({"node": "n" * 254}), "length <= 253"),
    (a_message(block={"ids": ["4711", "x" * 129]}), "length <= 128"),
    (a_message(block={"ids": ["4711"] * 20_001}), "length <= 20000"),
    (a_message(block={"unreadable": "no"}), "no ids of a file that could not be read"),
    (a_message(block={"ended": False, "gone": ["4713"]}), "`gone` in the last block"),
    (a_message(columns=struct.pack("<QQQQHHBB", 0, 2**63, 1, 2, 41, 43, 23, 37)),
     "times below 2^63"),
    (b"iostats sweep 2\n", "expected a line of JSON"),
    (b"", "expected 'iostats sweep 2\\n' at the beginning, got ''"),
    (b'{"protocol": 1}', "at the beginning, got '{\"protocol\": 1}'"),
])
def test_a_message_that_contradicts_itself_is_refused(message, said):
    with pytest.raises((ValueError, msgspec.MsgspecError)) as caught:
        unpacked(zlib.compress(message))
    assert any(one in str(caught.value) for one in said.split("|"))


@pytest.mark.parametrize("sweep, said", [
    (b"", "a part of one"), (b"none at all", "expected a whole compressed sweep"),
    (zlib.compress(a_message())[:-1], "a part of one"), (zlib.compress(a_message()) + b"x", "more"),
    (zlib.compress(b" " * (1 << 24)), "expected at most 1048576 bytes")])
def test_what_is_not_whole_or_too_long_is_refused(sweep, said):
    with pytest.raises(ValueError) as caught:
        unpacked(sweep, 1 << 20)
    assert said in str(caught.value)


def test_the_site_answers_with_one_line(tmp_path):
    config = site.load(environ={})
    config.set_value("batch.system", "none", "a test")
    store = Store(str(tmp_path / "site.sqlite"))
    harvest = harvest_intake.Harvest(store, config, lambda: 1_795_225_401.0)
    for sweep, code, said in (
            (zlib.compress(a_message()[:-1]), protocol.INVALID_PARAMS, "expected 38 bytes"),
            (zlib.compress(a_message({"node": "oss2"})), protocol.REFUSED, "from another")):
        with pytest.raises(WireError) as caught:
            harvest_intake.answer_to(harvest, PackedSweep(2, sweep), Caller("oss1", 0))
        assert (code, 1) == (caught.value.code, len(str(caught.value).splitlines()))
        assert said in str(caught.value)
    assert {} == harvest.targets and {} == harvest.agents
    store.close()


# -- the site's server, and its disk -----------------------------------------------------------

def test_stored_blocks_are_replayed(tmp_path):
    """The server is killed after each of two messages of a target."""
    now = [1_795_225_401.0]
    config = site.load(environ={})
    config.set_value("batch.system", "none", "a test")
    path = str(tmp_path / "site.sqlite")

    def opened():
        store = Store(path)
        return store, harvest_intake.Harvest(store, config, lambda: now[0])

    def sums(harvest):
        totals = harvest.targets["scratch", "OST000a"].totals(["4711", "4712"])
        return {name: (column.samples.tolist(), column.sums.tolist())
                for name, column in totals.counters.items()}

    store, harvest = opened()
    caller = Caller("oss1", 0)
    first = PackedSweep(2, zlib.compress(a_message(
        block={"ids": ["4711"], "entries": 1},
        columns=struct.pack("<QQHB", BEGAN, BEGAN + 1, 29, 11))))
    assert harvest_intake.answer_to(harvest, first, caller)["taken"]
    store.commit()
    assert {"write_bytes": ([11, 0], [29, 0])} == sums(harvest)
    store.close()
    store, harvest = opened()
    assert {"write_bytes": ([11, 0], [29, 0])} == sums(harvest)
    second = zlib.compress(a_message({"seq": 2, "full": False, "slot": MESSAGE["slot"] + 20},
                                     {"read_at": HEAD["read_at"] + 20}))
    now[0] += 20
    for _ in range(2):                                                  # again: counted once
        assert harvest_intake.answer_to(harvest, PackedSweep(2, second), caller)["taken"]
    store.commit()
    store.close()
    store, harvest = opened()
    assert {"write_bytes": ([23, 37], [41, 43])} == sums(harvest)
    store.close()
