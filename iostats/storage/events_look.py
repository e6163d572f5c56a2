"""
What there is to read of events on a storage server, for a person: the kernel's log and the files of
its targets, and what keeps the agent that runs here from them.
"""

from __future__ import annotations

import os
from collections import namedtuple

from iostats.base.errors import one_line
from iostats.base.private_files import read_text
from iostats.events.gather import Gathering
from iostats.events.server_reading import read_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

_CAP_SYSLOG = 34                        # capabilities(7)

EventsLook = namedtuple("EventsLook", "source why health targets recoveries evictions unread")
EventsLook.__doc__ = """
What there is to read of events.

Attributes:
    source: of the kernel's log: "kmsg", "journald" or "none"; why: why it is none.
    health: what health_check says; "" where it cannot be read.
    targets: how many are here, the MGS too; None where their directories cannot be read.
    recoveries: (how many have a recovery_status, of those that should: OSTs and MDTs).
    evictions: how many have an eviction_count.
    unread: the first file that cannot be read or understood, and why; "" for none.
"""


def look_at_events(root: str, config: Config) -> EventsLook:
    """The EventsLook of this machine."""
    gathering = Gathering(root, config, "", "", None, ())
    try:
        log = gathering.log_status()
    finally:
        gathering.close()
    seen = read_server(root)
    targets = seen.targets or {}
    of = [one for name, one in targets.items() if "-" in name]
    return EventsLook(log["source"], log["why"], seen.health,
                      None if seen.targets is None else len(targets),
                      (sum(one.recovery is not None for one in of), len(of)),
                      sum(one.evictions is not None for one in targets.values()),
                      seen.why[0] if seen.why else "")


def events_in_words(look: EventsLook) -> str:
    """The same, for a line of `harvest --list`, and of the doctor."""
    log = (f"kernel log: {look.source}" if look.source != "none" else
           f"kernel log not read: {one_line(look.why)}")
    if look.targets is None:
        return f"{log}; targets not read: {one_line(look.unread)}"
    recoveries, of = look.recoveries
    evictions = (f"eviction_count of {look.evictions} of {look.targets}" if look.evictions else
                 "no eviction_count (2.16 on): evictions by the log alone")
    return (f"{log}; health_check: {look.health or 'not read'}; recovery_status of {recoveries} of "
            f"{of} targets; {evictions}"
            + (f"; not read: {one_line(look.unread)}" if look.unread else ""))


def why_agent_reads_no_log(process: int, proc: str = "/proc") -> str:
    """
    What the agent with this number lacks to read /dev/kmsg; "" where nothing is known to be.

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
