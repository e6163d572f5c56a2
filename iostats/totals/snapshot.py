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

from iostats.base.errors import IostatsError, StateError
from iostats.base.named_tuple import NamedTuple
from iostats.lustre.paths import File

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Protocol

    from iostats.base.config import Config
    from iostats.lustre.stats import Reading

    Readings = tuple[dict[tuple[str, str], Reading], dict[tuple[str, str], str]]

    class CounterSource(Protocol):
        """A module of iostats/node/sources, whose docstring has these; not all have all of them."""

        NAME: str
        READ_AT: tuple[str, ...]
        LAYER: str
        TITLE: str
        LETTER: str
        CALLS_SUFFIX: str
        BY_TARGET: bool
        ONLY_IF_USED: bool
        UPPER_BOUND: bool
        IN_PARTS: bool
        DIRECTORY: str
        IN_PROC_UNTIL: int
        START_TIME_LATE: bool
        PAGE_BYTES: int

        def read(self, root: str, config: Config) -> list[File]: ...
        def read_whole(self, root: str, config: Config) -> list[File]: ...
        def parse(self, text: str, origin: str = ...) -> Reading: ...
        def separate(self, file: File, config: Config) -> Iterable[File]: ...
        def split(self, name: str) -> tuple[str, str, str] | None: ...
        def is_sent(self, metric: str) -> bool: ...
        def corrected(self, values: dict[str, int], reading: Reading) -> dict[str, int]: ...
        def count_operations(self, values: dict[str, int]) -> int: ...
        def sum_dirty_bytes(self, files: Iterable[File]) -> dict[str, int]: ...


class Snapshot(NamedTuple):
    """All files of one node at one moment."""

    # job, node: text
    job: str
    node: str
    seq: str  # names this start; with job and node it names the report, so that a repeat is known
    boot_id: str    # changes when the node boots; "" where the kernel does not tell
    # wall_ns, boot_ns: the moment, by the wall clock, and since boot with time asleep
    wall_ns: int
    boot_ns: int
    files: tuple[File, ...]
    mark: str = ""  # name of the phase that begins here; "" for a start and an end


_MAGIC = "iostats-snapshot 1"
_FIELDS = ("job", "node", "seq", "boot_id", "wall_ns", "boot_ns", "mark")


def encode(snapshot: Snapshot) -> bytearray:
    """The bytes of `snapshot`, as in this module's first lines."""
    head = "".join(f"{name} {getattr(snapshot, name)}\n" for name in _FIELDS)
    data = bytearray(f"{_MAGIC}\n{head}".encode())
    for file in snapshot.files:
        text = file.text.encode("latin-1")
        data += (f"file {file.source} {file.errno} {len(text)} {file.name} {file.path}\n"
                 .encode("utf-8", "surrogateescape"))
        data += text
        data += b"\n"
    data += b"end %d %08x\n" % (len(snapshot.files), crc32(data))
    return data


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


def compute_elapsed_s(before: Snapshot, after: Snapshot) -> float:
    """Seconds between two snapshots; by the boot clock, which is never set, where there is one."""
    ns: int = after.wall_ns - before.wall_ns
    if before.boot_id == after.boot_id and before.boot_ns and after.boot_ns:
        ns = after.boot_ns - before.boot_ns
    return max(0, ns) / 1e9


def explain_code(code: int) -> str:
    """Explain in words why a file was not read, from the text of an errno."""
    return {
        errno.EACCES: "permission denied",
        errno.EPERM: "forbidden by the kernel, even for root (lockdown)",
        errno.ENOENT: "not there (debugfs is not mounted?)",
        errno.ENXIO: "not a regular file",
        errno.EFBIG: "it does not end",
        errno.ETIMEDOUT: "it took too long",
    }.get(code) or errno.errorcode.get(code, f"error {code}")


def parse_readings(snapshot: Snapshot, sources: Mapping[str, CounterSource]) -> Readings:
    """
    Return ({(source, name): Reading}, {(source, name): reason}) of all counter files.

    A file in an unexpected format is unreadable with the syntax error as its reason: the
    numbers of the others still stand.  `sources`: name -> module of sources/.
    """
    read: dict[tuple[str, str], Reading] = {}
    refused: dict[tuple[str, str], str] = {}
    for file in snapshot.files:
        source = sources.get(file.source)
        if source is None or not hasattr(source, "parse"):
            continue
        key = file.source, file.name
        if file.errno:
            refused[key] = explain_code(file.errno)
            continue
        try:
            reading = source.parse(file.text, file.path)
            if reading.snapshot_ns is None or not file.text.endswith("\n"):
                # The kernel prints snapshot_time in every release, and ends every line.
                raise IostatsError(next(iter(reading.bad.values()), (
                    f"{file.path}: the file is torn: expected a snapshot_time and "
                    f"an end of line, got {len(file.text)} bytes without")))
            read[key] = reading
        except IostatsError as error:
            refused[key] = str(error)
    return read, refused
