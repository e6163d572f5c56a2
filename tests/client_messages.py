"""
A storage server whose agent tells what its clients have done, and nothing else: its messages, with
given numbers.

    agent = ClientAgent("oss1")
    agent.params(1_795_225_220, {("scratch", "OST"): {"10.0.0.1@tcp": (4096, 0, 1, 0, 0)}})

The amounts are gains since the message before: read_bytes, write_bytes, reads, writes, operations.
"""
from __future__ import annotations

import base64
import json
import zlib

from iostats.wire.messages.clients import decode_clients
from iostats.wire.messages.clients_encoder import MAGIC, RESET
from iostats.wire.messages.sweep_decoder import PackedSweep

BOOT = "b" * 32
A_LOSS = {"target": "", "nid": "", "why": RESET}


def client_block(nids=(), columns=((), (), (), (), ()), **fields):
    """The bytes of one block; `columns`: as in docs/reference/wire.md."""
    widths = [next(width for width in (1, 2, 4, 8) if max(column, default=0) < 1 << 8 * width)
              for column in columns]
    head = {"file_system": "scratch", "kind": "OST", "epoch": "e" * 16,
            "read_from": 1_795_225_220.25, "read_until": 1_795_225_220.5, "ended": True,
            "targets": ["OST0000"], "unreadable": {}, "bad": 0, "why": "", "clients": len(nids),
            "nids": list(nids), "losses": [], "widths": widths, **fields}
    data = [json.dumps(head).encode() + b"\n"]
    for width in (8, 4, 2, 1):
        data += [amount.to_bytes(width, "little") for column, wide in zip(columns, widths)
                 if wide == width for amount in column]
    return b"".join(data)


def client_message(*blocks, **fields):
    """The compressed bytes of one message of these blocks; `fields` of its head."""
    head = {"protocol": 2, "node": "oss1", "boot_id": BOOT, "run": "1" * 16, "seq": 1,
            "full": True, "slot": 1_795_225_220, "every": 20, "last": True, "read_ahead_s": 0.0,
            "blocks": len(blocks), **fields}
    return zlib.compress(b"".join([MAGIC, json.dumps(head).encode() + b"\n", *blocks]), 1)


def decoded(message):
    """The ReceivedClients of a message's bytes."""
    return decode_clients(PackedSweep(2, message), 16 << 20)


class ClientAgent:
    """
    The agent of one storage server.

    Attributes:
        totals: {(file system, kind): {nid: [amount]}} since the epoch began.
        epoch, run, seq: as in its messages; set `epoch` and clear `totals` to begin another.
    """

    def __init__(self, node, every=20, targets=None):
        """`targets`: {(file system, kind): [target]}; by default one that no other server has."""
        self.node, self.every, self.targets = node, every, targets or {}
        self.totals, self.epoch, self.run, self.seq = {}, "e" * 16, "1" * 16, 0
        self._number = zlib.crc32(node.encode()) % (1 << 16)

    def message(self, slot, gains, full=None, last=True, **fields):
        """
        The compressed bytes of the sweep of `slot`; `fields`: of all its blocks.

        `gains`: {(file system, kind): {nid: (read_bytes, write_bytes, reads, writes, operations)}}
        """
        self.seq += 1
        full = self.seq == 1 if full is None else full
        blocks = []
        for (name, kind), some in gains.items():
            totals = self.totals.setdefault((name, kind), {})
            for nid, amounts in some.items():
                totals[nid] = [a + b for a, b in zip(totals.get(nid, [0] * 5), amounts)]
            nids = sorted(totals if full else some)
            blocks.append(client_block(
                nids, [[totals[nid][at] for nid in nids] for at in range(5)],
                **{"file_system": name, "kind": kind, "epoch": self.epoch,
                   "read_from": slot + 0.25, "read_until": slot + 0.5, "clients": len(totals),
                   "since_boot": [BOOT, slot + 0.25 - 1_795_184_197],
                   "targets": self.targets.get((name, kind), [f"{kind}{self._number:04x}"]),
                   **fields}))
        return client_message(*blocks, node=self.node, run=self.run, seq=self.seq, full=full,
                              slot=int(slot), every=self.every, last=last)

    def params(self, slot, gains, **how):
        """The params of `packed_clients`, as a dict for JSON."""
        return {"protocol": 2, "clock_ahead_s": 0.0,
                "sweep": base64.b64encode(self.message(slot, gains, **how)).decode()}

    def again(self):
        """It was started again: another chain, in the same epoch."""
        self.run, self.seq = f"{int(self.run, 16) + 1:016x}", 0


def by_kind(file_system, some):
    """
    {(file system, kind): {nid: five amounts}} of {nid: amounts of CLIENT_METRICS, or five of OSTs}.
    """
    found = {}
    for nid, amounts in some.items():
        found.setdefault((file_system, "OST"), {})[nid] = tuple(amounts[:5])
        if len(amounts) == 6:
            found.setdefault((file_system, "MDT"), {})[nid] = (0, 0, 0, 0, amounts[5])
    return found
