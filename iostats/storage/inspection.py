"""
Readable data of a storage server, for people: events in the kernel's log and in the files of its
targets, the exports of a target, and the cost of a sweep.
"""

from __future__ import annotations

import os
import time

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.base.private_files import read_text
from iostats.events.gather import Gathering
from iostats.events.server_reading import read_server
from iostats.lustre.exports import parse_client_file, parse_nid
from iostats.storage.client_table import read_file
from iostats.storage.targets import find_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.storage.targets import LocalTarget

_CAP_SYSLOG = 34                        # capabilities(7)
_LOOKED_AT = 200                    # files of a target that are read


class ReadableEvents(NamedTuple):
    """The sources of events that can be read on this machine."""

    source: str     # of the kernel's log: "kmsg", "journald" or "none"
    why: str        # why it is none
    health: str     # what health_check says; "" where it cannot be read
    # how many are here, the MGS too; None where their directories cannot be read
    targets: int | None
    # (how many have a recovery_status, of those that should: OSTs and MDTs)
    recoveries: tuple[int, int]
    evictions: int  # how many have an eviction_count
    unread: str     # the first file that cannot be read or understood, and why; "" for none


def scan_events(root: str, config: Config) -> ReadableEvents:
    """The ReadableEvents of this machine."""
    gathering = Gathering(root, config, "", "", None, ())
    try:
        log = gathering.log_status()
    finally:
        gathering.close()
    reading = read_server(root)
    targets = reading.targets or {}
    of = [target for name, target in targets.items() if "-" in name]
    return ReadableEvents(str(log["source"]), str(log["why"]), reading.health,
                          None if reading.targets is None else len(targets),
                          (sum(target.recovery is not None for target in of), len(of)),
                          sum(target.evictions is not None for target in targets.values()),
                          reading.why[0] if reading.why else "")


def describe_events(scan: ReadableEvents) -> str:
    """Describe the events for a line of `harvest --list`, and for the doctor."""
    log = (f"kernel log: {scan.source}" if scan.source != "none" else
           f"kernel log not read: {sanitize(scan.why)}")
    if scan.targets is None:
        return f"{log}; targets not read: {sanitize(scan.unread)}"
    recoveries, of = scan.recoveries
    evictions = (f"eviction_count of {scan.evictions} of {scan.targets}" if scan.evictions else
                 "no eviction_count (2.16 on): evictions by the log alone")
    return (f"{log}; health_check: {scan.health or 'not read'}; recovery_status of {recoveries} of "
            f"{of} targets; {evictions}"
            + (f"; not read: {sanitize(scan.unread)}" if scan.unread else ""))


def explain_unread_log(process: int, proc: str = "/proc") -> str:
    """Explain why the agent with this process id cannot read /dev/kmsg; "" if it can.

    A unit of an older release, or an override, takes away the device, or CAP_SYSLOG, which it needs
    where kernel.dmesg_restrict is 1 (devkmsg_open(), check_syslog_permissions(), kernel/printk).
    """
    try:
        if "kmsg" not in os.listdir(f"{proc}/{process}/root/dev"):
            return "/dev/kmsg is not in its sandbox (DeviceAllow=/dev/kmsg r, PrivateDevices=no)"
        if read_text(f"{proc}/sys/kernel/dmesg_restrict").strip() != "1":
            return ""
        for line in read_text(f"{proc}/{process}/status").splitlines():
            name, _, value = line.partition(":")
            if name == "CapEff":
                return ("" if int(value, 16) >> _CAP_SYSLOG & 1 else
                        "it has no CAP_SYSLOG (CapabilityBoundingSet=CAP_SYSLOG), and "
                        "kernel.dmesg_restrict is 1")
    except (OSError, ValueError):                       # another user's, or it has just ended
        pass
    return ""


class ReadableExports(NamedTuple):
    """The readable export files of one LocalTarget."""

    path: str       # their directory, or what could not be read
    # how many there are; None where they cannot be read: then `why` says so, and `errno`
    clients: int | None
    cpu_s: float    # seconds of CPU that it takes to read all of them, by the first two hundred
    bad: int        # of these, how many could not be read or understood
    why: str        # the first of them
    errno: int


def scan_exports(target: LocalTarget) -> ReadableExports:
    """The ReadableExports of a target."""
    try:
        path = find_exports(target)
        nids = [name for name in os.listdir(path) if parse_nid(name)]
        began, bad, why, code, read = time.process_time(), 0, "", 0, 0
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for nid in nids[:_LOOKED_AT]:
                try:
                    amounts = parse_client_file(read_file(handle, nid), f"{path}/{nid}/stats")
                    read += 1
                except OSError as error:
                    bad, code = bad + 1, code or error.errno or 0
                    why = why or f"{path}/{nid}/stats: {error.strerror or error}"
                    continue
                if amounts.why:
                    bad, why = bad + 1, why or amounts.why
        finally:
            os.close(handle)
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else target.directories[0]
        return ReadableExports(where, None, 0.0, 0, f"{where}: {error.strerror or error}",
                               error.errno or 0)
    if bad and not read:
        return ReadableExports(path, None, 0.0, bad, why, code)
    tried = len(nids[:_LOOKED_AT])
    cpu_s = (time.process_time() - began) / tried * len(nids) if tried else 0.0
    return ReadableExports(path, len(nids), cpu_s, bad, why, code)


def describe_exports(target: LocalTarget) -> str:
    """Describe the exports for a line of `harvest --list`."""
    scanned = scan_exports(target)
    if scanned.clients is None:
        return f"exports not readable: {sanitize(scanned.why)}"
    return (f"{scanned.clients} client{'' if scanned.clients == 1 else 's'}"
            + (f", {scanned.bad} not understood: {sanitize(scanned.why)}" if scanned.bad else ""))
