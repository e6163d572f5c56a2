"""
What an agent knows of clients, kept on its disk, so that another one goes on from there.

    MAGIC, a crc32 in a line, and a zlib stream of: a line of JSON, then arrays, each after its
    length in 8 bytes

The file is whole or not there (private_files.write_whole); what is damaged is refused as a whole.
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Key = tuple[str, str]
    Untold = dict[Key, list[dict[str, Any]]]

MAGIC = b"iostats clients state 1\n"
_LENGTH = struct.Struct("<Q")
_MOST_BYTES = 1 << 30


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
    squeeze = zlib.compressobj(1)
    parts = [squeeze.compress(line.encode() + b"\n")]
    for numbers in arrays:                     # one after the other: all of them are many MB
        data = numbers.tobytes()
        parts += [squeeze.compress(_LENGTH.pack(len(data))), squeeze.compress(data)]
    body = b"".join([*parts, squeeze.flush()])
    private_files.write_whole(path, MAGIC + b"%08x\n" % zlib.crc32(body) + body)


def load(path: str) -> tuple[dict[str, Any], dict[Key, ClientTable], dict[Key, NidSums],
                             Untold] | None:
    """(head, tables, sums, untold) as they were saved; None where nothing was; StateError."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None
    body = data[len(MAGIC) + 9:]
    if data[:len(MAGIC) + 9] != MAGIC + b"%08x\n" % zlib.crc32(body):
        raise StateError(f"{path}: damaged: expected the state of clients with its checksum, got "
                         f"{'an empty file' if not data else 'something else'}")
    try:
        return _loaded(zlib.decompress(body))
    except (zlib.error, ValueError, LookupError, TypeError, EOFError, StopIteration) as error:
        raise StateError(f"{path}: damaged: {type(error).__name__}: {error}") from None


def _loaded(data: bytes) -> tuple[dict[str, Any], dict[Key, ClientTable], dict[Key, NidSums],
                                  Untold]:
    at = data.index(b"\n") + 1
    head, rest = json.loads(data[:at]), memoryview(data)[at:]
    arrays, nids = _arrays(rest), head["nids"]

    def names() -> list[str]:
        return [nids[place] for place in next(arrays).cast("I")]
    sums = {}
    for one in head["sums"]:
        some = sums[_key(one["key"])] = NidSums()
        some.rows = {nid: row for row, nid in enumerate(names())}
        some.amounts = array_of("Q", next(arrays), len(some.rows) * FIELDS)
    tables = {_key(one["key"]): ClientTable.of_kept(one, names(), arrays)
              for one in head["tables"]}
    return head, tables, sums, {_key(key): losses for key, losses in head["untold"]}


def _key(key: Any) -> Key:
    file_system, name = key
    return str(file_system), str(name)


def _arrays(rest: memoryview) -> Iterator[memoryview]:
    at = 0
    while at < len(rest):
        size, = _LENGTH.unpack_from(rest, at)
        at += _LENGTH.size
        if size > len(rest) - at:
            raise EOFError("it is cut")
        yield rest[at:at + size]
        at += size
