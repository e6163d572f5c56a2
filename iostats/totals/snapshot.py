"""
A snapshot: every counter file of one node at one moment, as the kernel printed it.

`start` keeps the text and reads nothing into it, so that it costs little on the node, and so
that what was really there is still at hand when a number is doubted.  On disk:

    iostats-snapshot 1
    job 4711
    node nid00001
    seq 9f2c31d0a4b85e67
    boot_id 5e0d...            /proc/sys/kernel/random/boot_id
    wall_ns 1790277040611962111
    boot_ns 1000611962111      CLOCK_BOOTTIME; 0 where there is none
    mark solve                 the phase that begins here; nothing for the start
    file llite 0 1589 scratch-ffff9a3c5d1e0800 sys/kernel/debug/lustre/llite/.../stats
    <1589 bytes>
    file osc 13 0 scratch-OST0000-osc-ffff9a3c5d1e0800 -
    <0 bytes>
    end 2 1b2c3d4e             files, and crc32 of all before this line

with the kernel's bytes taken one to one (latin-1) and an `end` that counts the files.
"""

from __future__ import annotations

import errno
from binascii import crc32
from collections import namedtuple

from iostats.base.errors import IostatsError, StateError
from iostats.lustre.paths import File

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iostats.lustre.stats import Reading

    Readings = tuple[dict[tuple[str, str], Reading], dict[tuple[str, str], str]]


Snapshot = namedtuple("Snapshot", "job node seq boot_id wall_ns boot_ns files mark",
                      defaults=("",))
Snapshot.__doc__ = """
All files of one node at one moment.

Attributes:
    job, node: text.
    seq: names this start; with job and node it names the report, so that a repeat is known.
    boot_id: changes when the node boots; "" where the kernel does not tell.
    wall_ns, boot_ns: the moment, by the wall clock, and since boot with time asleep.
    files: tuple of File.
    mark: name of the phase that begins here; "" for a start and an end.
"""

_MAGIC = "iostats-snapshot 1"
_FIELDS = ("job", "node", "seq", "boot_id", "wall_ns", "boot_ns", "mark")


def encode(snapshot: Snapshot) -> bytes:
    """The bytes of `snapshot`, as in this module's first lines."""
    head = "".join(f"{name} {getattr(snapshot, name)}\n" for name in _FIELDS)
    parts = [f"{_MAGIC}\n{head}".encode()]
    for file in snapshot.files:
        text = file.text.encode("latin-1")
        parts += (f"file {file.source} {file.errno} {len(text)} {file.name} {file.path}\n"
                  .encode("utf-8", "surrogateescape"), text, b"\n")
    body = b"".join(parts)
    return body + b"end %d %08x\n" % (len(snapshot.files), crc32(body))


def decode(data: bytes, origin: str) -> Snapshot:
    """The Snapshot in `data`; StateError, which names `origin`, where it is cut or altered."""
    try:
        return _decode(data)
    except (ValueError, IndexError, KeyError, UnicodeDecodeError):
        raise StateError(f"{origin}: the start snapshot is cut off or damaged; what the job did "
                         f"before now is unknown (remove the file, or `start --again`)") from None


def _decode(data: bytes) -> Snapshot:
    position = 0

    def line() -> str:
        nonlocal position
        end = data.index(b"\n", position)
        text, position = data[position:end].decode("utf-8", "surrogateescape"), end + 1
        return text

    if line() != _MAGIC:
        raise ValueError("magic")
    fields: dict[str, Any] = {}
    for expected in _FIELDS:
        name, _, fields[expected] = line().partition(" ")
        if name != expected:
            raise ValueError(name)
        fields[expected].encode()           # what is no text can't be sent, and keeps others back
    files: list[File] = []
    while True:
        words = line().split(" ", 5)
        if words[0] == "end":
            body = data[:data.rindex(b"\nend ") + 1]
            if (int(words[1]) != len(files) or position != len(data)
                    or int(words[2], 16) != crc32(body)):
                raise ValueError("end")
            break
        word, source, code, length, name, path = words
        if word != "file":
            raise ValueError(word)
        name.encode()                                    # likewise; a path is shown, and not sent
        text = data[position:position + int(length)]
        position += int(length)
        if len(text) != int(length) or data[position:position + 1] != b"\n":
            raise ValueError("text")
        position += 1
        files.append(File(source, name, path, int(code), text.decode("latin-1")))
    for number in ("wall_ns", "boot_ns"):
        fields[number] = int(fields[number])
    return Snapshot(files=tuple(files), **fields)


def reason(code: int) -> str:
    """Why a file was not read: the text of an errno, in words of what to look for."""
    return {
        errno.EACCES: "permission denied",
        errno.EPERM: "forbidden by the kernel, even for root (lockdown)",
        errno.ENOENT: "not there (debugfs is not mounted?)",
        errno.ENXIO: "not a regular file",
        errno.EFBIG: "it does not end",
        errno.ETIMEDOUT: "it took too long",
    }.get(code) or errno.errorcode.get(code, f"error {code}")


def readings(snapshot: Snapshot, sources: Mapping[str, Any]) -> Readings:
    """
    ({(source, name): Reading}, {(source, name): reason}) of all counter files.

    A file that is not of its form is unreadable with the syntax error as its reason: the
    numbers of the others still stand.  `sources`: name -> module of sources/.
    """
    read, refused = {}, {}
    for file in snapshot.files:
        parse = getattr(sources.get(file.source), "parse", None)
        if parse is None:
            continue
        key = file.source, file.name
        if file.errno:
            refused[key] = reason(file.errno)
            continue
        try:
            reading = parse(file.text, file.path)
            if reading.snapshot_ns is None or not file.text.endswith("\n"):
                # The kernel prints snapshot_time in every release, and ends every line.
                raise IostatsError(next(iter(reading.bad.values()), (
                    f"{file.path}: the file is torn: expected a snapshot_time and "
                    f"an end of line, got {len(file.text)} bytes without")))
            read[key] = reading
        except IostatsError as error:
            refused[key] = str(error)
    return read, refused
