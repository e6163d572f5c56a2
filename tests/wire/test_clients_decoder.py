"""Messages of clients: what agents encode is decoded, and anything else is one clear error."""
from __future__ import annotations

import zlib

import msgspec
import pytest
from client_messages import client_block, client_message, decoded
from hypothesis import example, given
from hypothesis import strategies as st

from iostats.wire.messages.clients import decode_client_block, decode_clients
from iostats.wire.messages.clients_encoder import (
    LOSSES,
    MAGIC,
    MOST_LOSSES,
    RESET,
    UNREADABLE,
    encode_clients,
    make_block_head,
)
from iostats.wire.messages.sweep_decoder import PackedSweep
from iostats.wire.messages.sweep_encoder import SweepMessages

NID, OTHER = "10.0.0.1@tcp", "fd00:172:16:11::5@tcp"
_nids = st.lists(st.integers(0, 2**32 - 1).map(
    lambda number: f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}@o2ib{number >> 24}"
), unique=True, max_size=40)


@given(_nids, st.data())
def test_what_an_agent_encodes_is_decoded_to_the_last_number(nids, data):
    amounts = st.integers(0, 2**63 - 1)
    columns = [data.draw(st.lists(amounts, min_size=len(nids), max_size=len(nids)))
               for _ in range(5)]
    losses = [{"since": 1_795_225_200.5, "until": 1_795_225_201.5, "target": "OST0001",
               "nid": nid, "why": data.draw(st.sampled_from(LOSSES))} for nid in [*nids[:3], ""]]
    head = make_block_head("scratch", "OST", "e" * 16, 1_795_225_220.25, 1_795_225_221.5, len(nids),
                           ["OST0000", "OST0001"], {"OST0002": "no permission"}, losses, 3, "bad",
                           began=1_795_225_100.5)
    kept = []
    messages = SweepMessages(kept.append, lambda: {
        "node": "oss1", "boot_id": "b" * 32, "run": "1" * 16, "seq": 1, "full": True,
        "slot": 1_795_225_220, "every": 20}, 1 << 20, MAGIC)
    for block, ended in encode_clients(head, nids, columns, data.draw(st.integers(1, 2000))):
        messages.add_packed(block, ended)
    messages.end()
    found, said = [], []
    for message in kept:
        taken = decoded(message)
        assert "oss1" == taken.head.node
        for block, packed in taken.blocks:
            found += zip(block.head.nids, block.amounts.tolist())
            said += [msgspec.structs.asdict(one) for one in block.head.losses]
            again = decode_client_block(packed)
            assert again.head == block.head and (again.amounts == block.amounts).all()
    assert list(zip(nids, map(list, zip(*columns)))) == found and losses == said
    last = block.head
    assert (True, {"OST0002": "no permission"}, ["OST0000", "OST0001"], 3, 1_795_225_100.5) == (
        last.ended, last.unreadable, last.targets, last.bad, last.began)


def test_losses_of_more_clients_than_are_told_are_those_of_all():
    losses = [{"since": 1.0 + number, "until": 2.0 + number, "target": "OST0001",
               "nid": f"10.0.{number // 256}.{number % 256}@tcp",
               "why": RESET if number % 2 else UNREADABLE} for number in range(MOST_LOSSES + 2)]
    head = make_block_head("scratch", "OST", "e" * 16, 1.0, 2.0, 0, losses=losses)
    assert [("", 1.0, MOST_LOSSES + 2.0, UNREADABLE), ("", 2.0, MOST_LOSSES + 3.0, RESET)] == [
        (one["nid"], one["since"], one["until"], one["why"]) for one in head["losses"]]


# -- what cannot be ----------------------------------------------------------------------------

def refusal(message, most=2 << 20):
    with pytest.raises((ValueError, msgspec.MsgspecError)) as caught:
        decode_clients(PackedSweep(2, message), most)
    text = str(caught.value)
    assert 1 == len(text.splitlines()) and len(text) < 1000
    return text


def a_block(nids=(NID, OTHER), columns=((41, 43), (1 << 40, 7), (23, 37), (0, 0), (61, 0)),
            **fields):
    return client_block(list(nids), columns, **fields)


def without_end(packed):
    return zlib.compress(zlib.decompress(packed)[:-1])


@pytest.mark.parametrize("message, said", [
    (without_end(client_message(a_block())),
     "block 1 of 1: expected 24 bytes of 2 clients, got 23"),
    (client_message(a_block() + b"x"), "expected 1 blocks, got 1 bytes more"),
    (client_message(a_block(), blocks=2), "block 2 of 2: expected a line of JSON"),
    (client_message(a_block(), protocol=3), "expected protocol 2, got 3"),
    (client_message(a_block(), run="x"), "regex"), (client_message(a_block(), every=0), ">= 1"),
    (client_message(a_block(nids=(NID, NID))), "every NID once"),
    (client_message(a_block(nids=("x" * 65_536, NID))), "length <= 64"),
    (client_message(a_block(nids=("clear", NID))), "regex"),
    (client_message(a_block(nids=("10.0.0.1@TCP", NID))), "regex"),
    (client_message(a_block(nids=("10.0.0.1@tcp\n", NID))), "regex"),
    (client_message(a_block(nids=[f"{number}@gni" for number in range(5001)],
                            columns=[[0] * 5001] * 5)), "length <= 5000"),
    (client_message(a_block(kind="OSS")), "regex"),
    (client_message(a_block(kind="OST" * 10_000)), "regex"),
    (client_message(a_block(epoch="")), "regex"),
    (client_message(a_block(file_system="a b")), "regex"),
    (client_message(a_block(widths=[8, 8, 8, 8, 3])), "Invalid enum value 3"),
    (client_message(a_block(widths=[8, 8, 8, 8])), "length 5"),
    (client_message(a_block(columns=((2**63, 0),) + ((0, 0),) * 4)), "amounts below 2^63"),
    (client_message(a_block(read_until=1.0)), "`read_until` after `read_from`"),
    (client_message(a_block(read_from=1e300)), "<= 1000000000000"),
    (client_message(a_block(losses=[{"since": 1, "until": 2, "why": "x" * 500}])), "regex"),
    (client_message(a_block(losses=[{"since": 1, "until": 2, "why": "a\x1b[1m"}])), "regex"),
    (client_message(a_block(losses=[{"since": 1, "why": RESET}])), "missing required field"),
    (client_message(a_block(losses=[{"since": 1, "until": 2, "why": RESET}] * 20_001)),
     "length <= 20000"),
    (zlib.compress(b"iostats sweep 2\n{}\n"), "expected 'iostats clients 1"),
    (zlib.compress(MAGIC), "expected a line of JSON"), (zlib.compress(b""), "at the beginning"),
    (b"none at all", "expected a whole compressed sweep"), (b"", "a part of one"),
    (zlib.compress(b" " * (1 << 22)), "expected at most 2097152 bytes")])
def test_what_is_no_message_is_refused_in_one_line(message, said):
    assert said in refusal(message)


@given(st.binary(max_size=400))
@example(b"\n")
def test_any_bytes_are_a_message_or_an_error(data):
    for message in (data, zlib.compress(data), zlib.compress(MAGIC + data),
                    client_message(data), client_message(data, blocks=2)):
        try:
            decode_clients(PackedSweep(2, message), 1 << 16)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            assert len(str(error)) < 1000


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_bent_message_is_a_message_or_an_error(place, byte):
    data = bytearray(zlib.decompress(client_message(a_block())))
    data[place % len(data)] = byte
    try:
        taken = decode_clients(PackedSweep(2, zlib.compress(bytes(data))), 1 << 16)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        assert len(str(error)) < 1000
        return
    for block, kept in taken.blocks:
        assert len(block.amounts) == len(block.head.nids)
        assert (decode_client_block(kept).amounts == block.amounts).all()
