"""
What an agent knows of clients, kept on its disk, so that another one goes on from there.

    MAGIC, and a zlib stream, which has a checksum, of: a line of JSON, then arrays, each after its
    length in 8 bytes

The file is whole or not there (private_files.write_whole); what is damaged is refused as a whole.
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
from iostats.storage.nid_sums import FIELDS, NidSums, array_of
from iostats.wire.messages.clients_encoder import LOSSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, BinaryIO

    Key = tuple[str, str]
    Untold = dict[Key, list[dict[str, Any]]]

MAGIC = b"iostats clients state 1\n"
_LENGTH = struct.Struct("<Q")
_MOST_BYTES, _CHUNK = 1 << 28, 1 << 16


def save(path: str, head: dict[str, Any], tables: Mapping[Key, ClientTable],
         sums: Mapping[Key, NidSums], untold: Untold) -> None:
    """Keep these at `path`; OSError."""
    nids: dict[str, int] = {}
    arrays: list[array[int]] = []
    described: list[dict[str, Any]] = []

    def places(of: Mapping[str, int]) -> array[int]:
        return array("I", [nids.setdefault(nid, len(nids)) for nid in of])
    for key, some in sums.items():
        described.append({"key": key})
        arrays += [places(some.rows), some.amounts]
    kept: list[dict[str, Any]] = []
    for key, table in tables.items():
        one, columns = table.kept()
        kept.append({"key": key, **one})
        arrays += [places(table.rows), *columns]
    line = json.dumps({**head, "sums": described, "tables": kept, "nids": list(nids),
                       "untold": [[key, losses] for key, losses in untold.items()]})
    private_files.write_whole(path, _squeezed(line.encode() + b"\n", arrays))


def _squeezed(line: bytes, arrays: Iterable[array[int]]) -> Iterator[bytes]:
    squeeze = zlib.compressobj(1)
    yield MAGIC + squeeze.compress(line)
    for numbers in arrays:
        data = numbers.tobytes()
        yield squeeze.compress(_LENGTH.pack(len(data)))
        yield squeeze.compress(data)
    yield squeeze.flush()


def load(path: str) -> tuple[dict[str, Any], dict[Key, ClientTable], dict[Key, NidSums],
                             Untold] | None:
    """(head, tables, sums, untold) as they were saved; None where nothing was; StateError."""
    try:
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise ValueError("expected the state of clients")
            return _loaded(_Inflated(file))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None
    except (zlib.error, struct.error, ValueError, ArithmeticError, LookupError, TypeError,
            AttributeError, EOFError, StopIteration, RecursionError) as error:
        raise StateError(f"{path}: damaged: {type(error).__name__}: {error}") from None


class _Inflated:
    """What is in the zlib stream of the rest of a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._inflate, self._held = file, zlib.decompressobj(), bytearray()

    def _more(self) -> bool:
        part = self._file.read(_CHUNK)
        self._held += self._inflate.decompress(part)
        if self._inflate.unused_data:
            raise ValueError("expected nothing behind it")
        return bool(part)

    def line(self) -> bytes:
        while b"\n" not in self._held and self._more():
            pass
        return self._taken(self._held.index(b"\n") + 1)

    def _taken(self, size: int) -> bytes:
        if size > _MOST_BYTES:
            raise ValueError("expected a shorter one")
        while len(self._held) < size:
            if not self._more():
                raise EOFError("it is cut")
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def arrays(self) -> Iterator[memoryview]:
        """Each array's bytes, to the end of the stream."""
        while self._held or self._more():
            if self._held:
                yield memoryview(self._taken(_LENGTH.unpack(self._taken(_LENGTH.size))[0]))
        if not self._inflate.eof:
            raise EOFError("it is cut")


def _loaded(stream: _Inflated) -> tuple[dict[str, Any], dict[Key, ClientTable], dict[Key, NidSums],
                                        Untold]:
    head, arrays = json.loads(stream.line()), stream.arrays()
    nids = [_text(nid) for nid in head["nids"]]

    def names() -> list[str]:
        return [nids[place] for place in next(arrays).cast("I")]
    sums = {}
    for one in head["sums"]:
        some = sums[_key(one["key"])] = NidSums()
        some.rows = {nid: row for row, nid in enumerate(names())}
        some.amounts = array_of("Q", next(arrays), len(some.rows) * FIELDS)
    tables = {_key(one["key"]): ClientTable.of_kept(one, names(), arrays)
              for one in head["tables"]}
    if next(arrays, None) is not None:
        raise ValueError("expected no more arrays")
    if len(bytes.fromhex(_text(head["epoch"]))) != 8:
        raise ValueError("expected an epoch of 16 hex digits")
    first, until = head["swept_ns"]
    return ({"epoch": head["epoch"], "boot_id": _text(head["boot_id"]),
             "file_systems": list(head["file_systems"]),
             "swept_at": float(head["swept_at"]),
             "swept_ns": (int(first), int(until)),
             "swept_since_boot": _seconds(head["swept_since_boot"]),
             "began": {_key(key): _seconds(at) for key, at in head["began"]}}, tables, sums,
            {_key(key): [_loss(one) for one in losses] for key, losses in head["untold"]})


def _loss(one: Any) -> dict[str, Any]:
    if one["why"] not in LOSSES:
        raise ValueError("expected one of the reasons for a loss")
    return {"since": float(one["since"]), "until": float(one["until"]),
            "target": _text(one["target"]), "nid": _text(one["nid"]), "why": one["why"]}


def _key(key: Any) -> Key:
    file_system, name = key
    return _text(file_system), _text(name)


def _seconds(value: Any) -> float | None:
    return None if value is None else float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value
