"""
Lustre's `health_check`: whether the targets of a storage server do their work.

    healthy                                     of all

    device scratch-OST0003 reported unhealthy   up to 2.9, in /proc: each device, then the last line
    NOT HEALTHY                                 2.10 to 2.12, in sysfs: the last line alone
    LBUG                                        a module has stopped at a bug; needs a reboot

From 2.13 to 2.16 the devices are in debugfs, in a file of the same name that is empty where all are
well; from 2.17 on they are in the kernel's log alone.  LBUG stands before the other lines up to
2.12 (there it is overwritten from 2.10 on: `NOT HEALTHY` is all that shows), alone from 2.13 on.
A device is a target, or a service of all of them: MDS, OSS.

Source: obd_proc_read_health(), lustre/obdclass/linux/linux-module.c, 2.5.3; health_check_show(),
the same file 2.10.8, lustre/obdclass/obd_sysfs.c 2.12.9 to 2.17.0; health_check_seq_show(),
obd_sysfs.c 2.15.8, 2.16.1.
"""

from __future__ import annotations

import re

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple

HEALTHY, NOT_HEALTHY, LBUG = "healthy", "NOT HEALTHY", "LBUG"
MOST_DEVICES = 100


class HealthCheck(NamedTuple):
    """The contents of health_check."""

    # HEALTHY, NOT_HEALTHY or LBUG; "" where it says nothing, as the file of debugfs does
    health: str
    # those that are not healthy, as far as they are named: up to MOST_DEVICES
    devices: tuple[str, ...]
    bad: str    # what was expected and what was there; "" where all was understood


_DEVICE = re.compile(r"device (\S{1,128}) reported unhealthy")


def parse_health_check(text: str) -> HealthCheck:
    """
    The HealthCheck in a file's text.

    >>> parse_health_check("device scratch-OST0003 reported unhealthy\\nNOT HEALTHY\\n")
    HealthCheck(health='NOT HEALTHY', devices=('scratch-OST0003',), bad='')
    """
    health, bad = "", ""
    devices: dict[str, None] = {}
    for line in map(str.strip, text[:1 << 16].split("\n")):
        match = _DEVICE.fullmatch(line)
        if match:
            if len(devices) < MOST_DEVICES:
                devices[sanitize(match[1])] = None
        elif line in (HEALTHY, NOT_HEALTHY, LBUG):
            health = LBUG if LBUG in (line, health) else line
        elif line:
            bad = bad or f"expected {HEALTHY}, {NOT_HEALTHY} or {LBUG}, got {line[:60]!r}"
    if not health and devices:
        health = NOT_HEALTHY
    return HealthCheck(health, tuple(devices), bad)
