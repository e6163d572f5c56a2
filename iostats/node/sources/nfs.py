"""
/proc/self/mountstats: what the NFS client did on each mount, versions 3 and 4.

    device nfs1:/home mounted on /home with fstype nfs4 statvers=1.1
            opts:   rw,vers=4.2,...
            age:    7092                                  seconds since it was mounted
            events: 52 226 0 ...                          the last two: reads and writes by pNFS
            bytes:  1207640230 0 0 0 1210214218 0 295483 0
            xprt:   tcp 832 0 1 ...                       a line for each connection (nconnect)
            per-op statistics
                    READ: 1298 1298 0 207680 1210292152 6 79386 79407 0

The first six bytes are those of read(2) and write(2), the same with O_DIRECT, and those of READ and
WRITE requests.  An operation has its calls, transmissions, timeouts, bytes sent and received, and
milliseconds in the queue, until the answer (RTT) and altogether; newer kernels add its errors.

Mounts of one export with the same options share a superblock, whose counters each of them prints:
the device number in /proc/self/mountinfo says which, and they are counted once, under the shortest
name.  Both files are made of the kernel's own memory: a server that does not answer blocks nothing.

Every user may read it.  Source: nfs_show_stats(), fs/nfs/super.c; rpc_clnt_show_stats(),
net/sunrpc/stats.c; tests/data/kernels has what Linux 5.10, 6.1 and 6.12 print.
"""

from __future__ import annotations

import os

from iostats.base.errors import StatsSyntaxError
from iostats.base.private_files import read_bytes
from iostats.lustre.paths import File, make_choice
from iostats.lustre.stats import Counter, Reading, are_digits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.base.config import Config

NAME = "nfs"
LAYER, TITLE, LETTER = "", "NFS", "n"
READ_AT = ("start", "mark", "watch", "stop")
CALLS_SUFFIX = "_calls"
ONLY_IF_USED = IN_PARTS = True
UPPER_BOUND = ("direct_read_bytes", "direct_write_bytes")
PATH = "proc/self/mountstats"
_MOUNT_TABLE = "proc/self/mountinfo"
_WHOLE, _BETWEEN = "mountstats", b"\nmountinfo\n"
_LONGEST_NAME = 120                     # a server takes up to 128 characters
_BYTES = ("read_bytes", "write_bytes", "direct_read_bytes", "direct_write_bytes",
          "network_read_bytes", "network_write_bytes")
_LEAST_NUMBERS = {"age": 1, "events": 1, "bytes": len(_BYTES)}        # of an operation: 8
_PNFS_EVENTS = slice(25, 27)            # NFSIOS_PNFS_READ and _WRITE, enum nfs_stat_eventcounters
# Whose times these requests are of; all others are for metadata.
_DATA = {"READ": "read", "READ_PLUS": "read", "WRITE": "write", "COMMIT": "write"}
# What a client sends for itself.  Mounts of one server share these, and each prints them: newer
# kernels add the counts of the RPC client that a mount's own was cloned from.
_UPKEEP = frozenset((
    "NULL", "SETCLIENTID", "SETCLIENTID_CONFIRM", "RENEW", "EXCHANGE_ID", "CREATE_SESSION",
    "DESTROY_SESSION", "SEQUENCE", "GET_LEASE_TIME", "RECLAIM_COMPLETE", "DESTROY_CLIENTID",
    "BIND_CONN_TO_SESSION", "SECINFO", "SECINFO_NO_NAME", "FSID_PRESENT", "TEST_STATEID",
    "FREE_STATEID"))


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each superblock, named SERVER:PATH-DEVICE."""
    return [part for file in read_whole(root, config) for part in separate(file, config)]


def read_whole(root: str, config: Config) -> list[File]:
    """Return [File] of all mounts: mountstats, and behind it the table of mounts."""
    try:
        data = read_bytes(os.path.join(root, PATH))
        if b" statvers=" not in data:
            return []
        data += _BETWEEN
        data += read_bytes(os.path.join(root, _MOUNT_TABLE))
    except OSError:
        return []
    return [File(NAME, _WHOLE, PATH, 0, data.decode("latin-1"))]


def separate(file: File, config: Config) -> list[File]:
    """Return [File] of each superblock in a file of read_whole(); any other file as it is."""
    if file.name != _WHOLE:
        return [file]
    statistics, _, table = file.text.rpartition(_BETWEEN.decode())
    devices = _parse_devices(table)
    shared: dict[str, list[tuple[int, str, str]]] = {}
    for mount in f"\n{statistics}".split("\ndevice "):
        # DEVICE mounted on POINT with fstype nfs4 statvers=1.1
        line, _, text = mount.partition("\n")
        if " statvers=" in line:
            name, _, _, point, _ = line.split(" ", 4)
            of_point = devices.get(point)
            if of_point:                                    # or it was unmounted in between
                shared.setdefault(of_point.pop(0), []).append((len(name), name, text))
    is_chosen = make_choice(config.node.file_systems)
    files = []
    for device, same in shared.items():
        _, name, text = min(same)
        name = _make_file_system_name(name)
        if is_chosen(name):
            files.append(File(NAME, f"{name}-{device}", file.path, 0, text))
    return sorted(files)


def _make_file_system_name(device: str) -> str:
    """The name of a file system: the mounted path, as UTF-8; the middle of a long one is cut."""
    if device.isascii() and device.isprintable() and len(device) <= _LONGEST_NAME:
        return device
    name = "".join(c if c.isprintable() else "?" for c in
                   device.encode("latin-1").decode("utf-8", "replace"))
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half - 3]}...{name[-half:]}"


def _parse_devices(text: str) -> dict[str, list[str]]:
    """Return {mount point: [device number]} of NFS, in the order of the mounts."""
    devices: dict[str, list[str]] = {}
    for line in text.split("\n"):
        if " - nfs " in line or " - nfs4 " in line:
            fields = line.split(" ", 5)
            devices.setdefault(fields[4], []).append(fields[2])
    return devices


def parse(text: str, origin: str = PATH) -> Reading:
    """
    The Reading of one superblock; raises StatsSyntaxError for one without bytes.

    Counters: the bytes of _BYTES; each operation by its name in capitals, but for upkeep; read,
    write and metadata `_us` and `_rtt_us`, the time until the end and until the answer;
    `transmissions` and `requests` of all of these; `timeouts`, and `pnfs_ios`.
    """
    sums: dict[str, int] = {}
    age_s, bad = None, {"": f"{origin}: expected per-op statistics, got none"}
    for lineno, line in enumerate(text.split("\n"), 1):
        name, colon, rest = line.strip().partition(":")
        if name == "per-op statistics":
            bad = {}
        elif colon and line[:1] == "\t" and (name in _LEAST_NUMBERS or not bad):
            words, least = rest.split(), _LEAST_NUMBERS.get(name, 8)
            if len(words) < least or not are_digits(words):
                raise StatsSyntaxError(origin, lineno, line, f'"{name}: " and {least} numbers')
            numbers = [int(word) for word in words]
            if name == "age":
                age_s = numbers[0]
            elif name == "events":
                sums["pnfs_ios"] = sum(numbers[_PNFS_EVENTS])
            elif name == "bytes":
                sums.update(zip(_BYTES, numbers))
            elif name not in _UPKEEP:
                _add_operation(sums, name, numbers)
    if age_s is None or _BYTES[0] not in sums:
        raise StatsSyntaxError(origin, 1, text.partition("\n")[0], "an NFS mount's age and bytes")
    if max(sums.values()) >= 2**63:
        raise StatsSyntaxError(origin, 1, text.partition("\n")[0], "counters below 2**63")
    for direction in ("read", "write"):
        sums[f"{direction}_bytes"] += sums[f"direct_{direction}_bytes"]
    return Reading({name: Counter(number, "reqs") for name, number in sums.items()},
                   age_s * 1_000_000_000, None, {"age_s": age_s}, bad)


def _add_operation(sums: dict[str, int], name: str, numbers: Sequence[int]) -> None:
    """Add the line of one operation to `sums`; times in ms become us."""
    calls, transmissions, timeouts, _, _, _, rtt_ms, execution_ms = numbers[:8]
    kind = _DATA.get(name, "metadata")
    sums[name] = sums.get(name, 0) + calls
    for metric, number in (
            ("requests", calls), ("transmissions", transmissions), ("timeouts", timeouts),
            (f"{kind}_rtt_us", rtt_ms * 1000), (f"{kind}_us", execution_ms * 1000)):
        sums[metric] = sums.get(metric, 0) + number


def corrected(values: dict[str, int], reading: Reading) -> dict[str, int]:
    """The gains with the requests that were sent again."""
    values = dict(values)
    again = values.pop("transmissions", 0) - values.pop("requests", 0)
    return {**values, "retransmissions": again} if again > 0 else values


def count_operations(values: dict[str, int]) -> int:
    """The requests that moved no data."""
    from iostats.totals import other_values  # a start needs none of it
    return sum(other_values.select_metadata(values).values())


def split(name: str) -> tuple[str, str, str] | None:
    """Return (SERVER:PATH, "", device number) of a file's name."""
    file_system, _, device = name.rpartition("-")
    return (file_system, "", device) if file_system else None
