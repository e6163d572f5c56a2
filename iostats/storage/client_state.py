"""
An agent's counts of clients, on its disk, so that another agent continues from there.

    MAGIC, and a zlib stream, which has a checksum, of: a line of JSON, then arrays, each after its
    length in 8 bytes

The file is complete or absent (private_files.write_atomically); a damaged one is refused.
It is written and read array by array: all of them are many MB, beside those in use.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array

from iostats.base import private_files
from iostats.base.errors import StateError
from iostats.storage.client_table import ClientTable
from iostats.storage.nid_sums import FIELDS, NidSums, make_array
from iostats.wire.messages.clients_encoder import LOSSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import BinaryIO, Optional, TypedDict

    from iostats.storage.client_table import StoredTable
    from iostats.wire.messages.clients_encoder import SentLoss

    Key = tuple[str, str]

    class LastSweep(TypedDict):
        """The last sweep of clients.Clients."""

        epoch: str
        boot_id: str
        file_systems: list[str]
        swept_at: float
        swept_ns: tuple[int, int]
        swept_since_boot: Optional[float]

    class Head(LastSweep):
        """The state of clients.Clients beside its tables."""

        began: dict[Key, Optional[float]]

    class StoredTableOf(StoredTable):
        """The table of a target."""

        key: list[str]

    class StoredHead(LastSweep):
        """The line of JSON, as save() writes it: a Head whose `began` is a list, and the tables."""

        began: list[tuple[list[str], Optional[float]]]
        nids: list[str]
        sums: list[dict[str, list[str]]]
        tables: list[StoredTableOf]
        untold: list[tuple[list[str], list[SentLoss]]]

    Untold = dict[Key, list[SentLoss]]

MAGIC = b"iostats clients state 1\n"
_LENGTH = struct.Struct("<Q")
_MOST_BYTES, _CHUNK = 1 << 28, 1 << 16


def save(path: str, head: Head, tables: Mapping[Key, ClientTable],
         sums: Mapping[Key, NidSums], unsent_losses: Untold) -> None:
    """Store these values in the file `path`; OSError."""
    nids: dict[str, int] = {}
    arrays: list[array[int]] = []
    described: list[dict[str, Key]] = []

    def places(ids: Mapping[str, int]) -> array[int]:
        return array("I", [nids.setdefault(nid, len(nids)) for nid in ids])
    for key, nid_sums in sums.items():
        described.append({"key": key})
        arrays += [places(nid_sums.rows), nid_sums.amounts]
    stored: list[StoredTableOf] = []
    for key, table in tables.items():
        description, columns = table.to_stored()
        stored.append({"key": [*key], **description})
        arrays += [places(table.rows), *columns]
    line = json.dumps({**head, "began": [*head["began"].items()], "sums": described,
                       "tables": stored, "nids": list(nids),
                       "untold": [[key, losses] for key, losses in unsent_losses.items()]})
    private_files.write_atomically(path, _compress(line.encode() + b"\n", arrays))


def _compress(line: bytes, arrays: Iterable[array[int]]) -> Iterator[bytes]:
    squeeze = zlib.compressobj(1)
    yield MAGIC + squeeze.compress(line)
    for numbers in arrays:
        data = numbers.tobytes()
        yield squeeze.compress(_LENGTH.pack(len(data)))
        yield squeeze.compress(data)
    yield squeeze.flush()


def load(path: str) -> tuple[Head, dict[Key, ClientTable], dict[Key, NidSums],
                             Untold] | None:
    """Return the saved (head, tables, sums, unsent amounts); None if there are none; StateError."""
    try:
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise ValueError("expected the state of clients")
            return _read_state(_InflatedStream(file))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None
    except (zlib.error, struct.error, ValueError, ArithmeticError, LookupError, TypeError,
            AttributeError, EOFError, StopIteration, RecursionError) as error:
        raise StateError(f"{path}: damaged: {type(error).__name__}: {error}") from None


class _InflatedStream:
    """The contents of the zlib stream in the rest of a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._inflate, self._held = file, zlib.decompressobj(), bytearray()

    def _inflate_more(self) -> bool:
        part = self._file.read(_CHUNK)
        self._held += self._inflate.decompress(part)
        if self._inflate.unused_data:
            raise ValueError("expected nothing behind it")
        return bool(part)

    def line(self) -> bytes:
        while b"\n" not in self._held and self._inflate_more():
            pass
        return self._pop(self._held.index(b"\n") + 1)

    def _pop(self, size_bytes: int) -> bytes:
        if size_bytes > _MOST_BYTES:
            raise ValueError("expected a shorter one")
        while len(self._held) < size_bytes:
            if not self._inflate_more():
                raise EOFError("it is cut")
        piece = bytes(self._held[:size_bytes])
        del self._held[:size_bytes]
        return piece

    def arrays(self) -> Iterator[memoryview]:
        """Yield the bytes of each array, to the end of the stream."""
        while self._held or self._inflate_more():
            if self._held:
                yield memoryview(self._pop(_LENGTH.unpack(self._pop(_LENGTH.size))[0]))
        if not self._inflate.eof:
            raise EOFError("it is cut")


def _read_state(stream: _InflatedStream) -> tuple[Head, dict[Key, ClientTable],
                                                  dict[Key, NidSums], Untold]:
    head: StoredHead = json.loads(stream.line())
    arrays = stream.arrays()
    nids = [_check_text(nid) for nid in head["nids"]]

    def names() -> list[str]:
        return [nids[place] for place in next(arrays).cast("I")]
    sums: dict[Key, NidSums] = {}
    for described_sums in head["sums"]:
        nid_sums = sums[_check_key(described_sums["key"])] = NidSums()
        nid_sums.rows = {nid: row for row, nid in enumerate(names())}
        nid_sums.amounts = make_array("Q", next(arrays), len(nid_sums.rows) * FIELDS)
    tables = {_check_key(described["key"]): ClientTable.from_stored(described, names(), arrays)
              for described in head["tables"]}
    if next(arrays, None) is not None:
        raise ValueError("expected no more arrays")
    if len(bytes.fromhex(_check_text(head["epoch"]))) != 8:
        raise ValueError("expected an epoch of 16 hex digits")
    first, until = head["swept_ns"]
    return ({"epoch": head["epoch"], "boot_id": _check_text(head["boot_id"]),
             "file_systems": list(head["file_systems"]),
             "swept_at": float(head["swept_at"]),
             "swept_ns": (int(first), int(until)),
             "swept_since_boot": _check_seconds(head["swept_since_boot"]),
             "began": {_check_key(key): _check_seconds(at) for key, at in head["began"]}}, tables,
            sums,
            {_check_key(key): [_check_loss(loss) for loss in losses] for key,
             losses in head["untold"]})


def _check_loss(value: SentLoss) -> SentLoss:
    if value["why"] not in LOSSES:
        raise ValueError("expected one of the reasons for a loss")
    return {"since": float(value["since"]), "until": float(value["until"]),
            "target": _check_text(value["target"]), "nid": _check_text(value["nid"]),
            "why": value["why"]}


def _check_key(key: list[str]) -> Key:
    file_system, name = key
    return _check_text(file_system), _check_text(name)


def _check_seconds(value: float | None) -> float | None:
    return None if value is None else float(value)


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value
