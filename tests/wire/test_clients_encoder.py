"""
`packed_clients`: the form of docs/reference/wire.md, read here by a few lines of its own.
"""
from __future__ import annotations

import json
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.wire.messages import clients_encoder
from iostats.wire.messages.clients_encoder import (
    LOSSES,
    encode_clients,
    find_method,
    make_block_head,
    merge_losses,
)
from iostats.wire.messages.sweep_encoder import SweepMessages

EPOCH = "00c0ffee00c0ffee"
_LETTERS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def unpacked(block):
    """(the block's head, {nid: its five amounts})."""
    line, _, rest = block.partition(b"\n")
    head = json.loads(line)
    count, columns = len(head["nids"]), [None] * 5
    for width in (8, 4, 2, 1):
        for column in range(5):
            if head["widths"][column] == width:
                columns[column] = struct.unpack_from(f"<{count}{_LETTERS[width]}", rest)
                rest = rest[count * width:]
    assert rest == b""
    return head, dict(zip(head["nids"], zip(*columns)))


def a_head(**more):
    return make_block_head("scratch", "OST", EPOCH, 1_795_225_400.25, 1_795_225_407.5, 2, **more)


def test_each_client_has_its_five_amounts():
    """Columns are as wide as their largest number: 8, 4, 1, 2 and 1 bytes here."""
    nids = ["10.77.0.11@tcp", "fd00:172:16:11::5@tcp"]
    amounts = [[94_208, 2**40], [0, 2**31], [23, 37], [41, 53_007], [5, 0]]
    [(block, is_last)] = encode_clients(a_head(targets=["OST0000", "OST0001"]), nids, amounts,
                                      10**6)
    head, found = unpacked(block)
    assert is_last
    assert {"10.77.0.11@tcp": (94_208, 0, 23, 41, 5),
            "fd00:172:16:11::5@tcp": (2**40, 2**31, 37, 53_007, 0)} == found
    assert {"file_system": "scratch", "kind": "OST", "epoch": EPOCH, "ended": True, "clients": 2,
            "began": None, "read_from": 1_795_225_400.25, "read_until": 1_795_225_407.5,
            "nids": nids, "targets": ["OST0000", "OST0001"], "unreadable": {}, "losses": [],
            "bad": 0, "why": "", "widths": [8, 4, 1, 2, 1], "since_boot": None,
            "instances": {}, "started": {}, "unread": {}} == head


@given(st.dictionaries(st.integers(0, 10**6).map(lambda one: f"{one}@gni"),
                       st.tuples(*[st.integers(0, 2**63 - 1)] * 5), max_size=50),
       st.integers(1, 2000))
def test_whatever_the_length_of_blocks_every_client_is_in_one(clients, longest):
    """What is missing is said once, in the last block."""
    columns = list(zip(*clients.values())) or [[]] * 5
    blocks = list(encode_clients(a_head(targets=["OST0000"], unreadable={"OST0001": "no"}, bad=3),
                               list(clients), columns, longest))
    assert [False] * (len(blocks) - 1) + [True] == [is_last for _, is_last in blocks]
    found, heads = {}, []
    for block, is_last in blocks:
        head, amounts = unpacked(block)
        assert head["ended"] is is_last and not set(found) & set(amounts)
        heads.append(head)
        found.update(amounts)
    assert clients == found
    assert [[]] * (len(blocks) - 1) + [["OST0000"]] == [one["targets"] for one in heads]
    assert 3 == sum(one["bad"] for one in heads)


def test_a_block_has_up_to_5000_clients():
    nids = [f"{number}@gni" for number in range(12_001)]
    blocks = [unpacked(block)[0]["nids"] for block, _ in encode_clients(
        a_head(), nids, [[1] * len(nids)] * 5, 10**7)]
    assert [5000, 5000, 2001] == [len(one) for one in blocks]
    assert nids == [nid for one in blocks for nid in one]


def loss(nid, target="OST0000", why=clients_encoder.REMOVED, since=23.0, until=37.0):
    return {"since": since, "until": until, "target": target, "nid": nid, "why": why}


def test_many_losses_are_those_of_all_clients():
    """A thousand are named; more are one for each target and reason, over all of their time."""
    some = [loss(f"{number}@gni") for number in range(1000)]
    assert some == merge_losses(some)
    assert [loss("", until=41.0, since=19.0),
            loss("", "OST0001", clients_encoder.RESET)] == merge_losses([
        *some, loss("1000@gni", until=41.0, since=19.0),
        loss("1000@gni", "OST0001", clients_encoder.RESET)])


def test_the_reasons_are_those_that_are_listed():
    """Agents and servers have no other words."""
    said = {value for name, value in vars(clients_encoder).items()
            if name.isupper() and isinstance(value, str) and " " in value}
    assert set(LOSSES) == said and len(said) == len(LOSSES)


@pytest.mark.parametrize("magic, method", [
    (clients_encoder.MAGIC, "packed_clients"), (b"iostats sweep 2\n", "packed_sweep")])
def test_a_message_is_sent_by_the_method_of_its_kind(magic, method):
    """It is known by the first bytes, as it waits on the disk."""
    kept = []
    messages = SweepMessages(kept.append, lambda: {"seq": len(kept) + 1}, 10**6, magic)
    messages.end()
    assert [method] == [find_method(one) for one in kept]
    assert b'%s{"protocol":2,"seq":1,"last":true,"blocks":0}\n' % magic == zlib.decompress(kept[0])


@pytest.mark.parametrize("kept", [b"", b"{", b"\xff" * 40, zlib.compress(b'{"protocol":1}')])
def test_what_is_no_message_of_clients_is_sent_as_ever(kept):
    """It is damaged."""
    assert "packed_sweep" == find_method(kept)
