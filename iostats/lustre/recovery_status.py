"""
Lustre `recovery_status` files of an MDT or OST: whether its clients have come back after a start.

    status: RECOVERING              status: COMPLETE              status: INACTIVE
    recovery_start: 1795225226      recovery_start: 1795225226
    time_remaining: 41              recovery_duration: 37
    connected_clients: 23/41        completed_clients: 35/41
    evicted_clients: 2              ...

INACTIVE: there were no clients to wait for.  Since 2.10 also WAITING (for other MDTs, with
time_waited) and WAITING_FOR_CLIENTS (none has come yet).  recovery_start is s since 1970; since
2.15 it is computed again for each reading, and may be a second off.  The two numbers of
completed_clients differ by those that were evicted.

Up to 2.12 a recovery that is about to begin can show as COMPLETE, with recovery_start: 0.

Source: lprocfs_recovery_status_seq_show(), lustre/obdclass/lprocfs_status_server.c, 2.10.8 to
2.17.0; lprocfs_obd_rd_recovery_status(), lustre/obdclass/lprocfs_status.c, 2.5.3.
"""

from __future__ import annotations

import re

from iostats.base.named_tuple import NamedTuple

INACTIVE, COMPLETE, RECOVERING = "INACTIVE", "COMPLETE", "RECOVERING"
WAITING, WAITING_FOR_CLIENTS = "WAITING", "WAITING_FOR_CLIENTS"
STATUSES = (INACTIVE, COMPLETE, RECOVERING, WAITING, WAITING_FOR_CLIENTS)
UNDER_WAY = (RECOVERING, WAITING, WAITING_FOR_CLIENTS)


class RecoveryStatus(NamedTuple):
    """The contents of a `recovery_status` file; missing values are None."""

    status: str | None      # one of STATUSES; None for an unexpected format
    started_s: int | None   # s since 1970, by the storage server's clock
    took_s: int | None      # s, of COMPLETE
    left_s: int | None      # s until it ends without those that are missing, of RECOVERING
    clients: int | None     # how many have come (RECOVERING) or recovered (COMPLETE), of all `of`
    of: int | None
    evicted: int | None     # how many did not come back in time, or could not be recovered


_LARGEST = 2**62
_LINE = re.compile(r"([\w -]{1,40}): (\S{1,60}).*")
_NUMBER = re.compile(r"\d{1,19}")
_PAIR = re.compile(r"(-?\d{1,10})/(\d{1,10})")


def parse_recovery_status(text: str) -> RecoveryStatus:
    """
    The RecoveryStatus in a file's text.

    >>> parse_recovery_status("status: RECOVERING\\ntime_remaining: 41\\nconnected_clients: 23/37")
    RecoveryStatus(status='RECOVERING', started_s=None, took_s=None, left_s=41, clients=23, of=37, \
evicted=None)
    """
    values: dict[str, str] = {}
    for line in text[:4096].split("\n"):
        match = _LINE.fullmatch(line.rstrip())
        if match:
            values.setdefault(match[1], match[2])
    status = values.get("status")
    if status not in STATUSES:
        return RecoveryStatus(None, None, None, None, None, None, None)
    # Both have completed_clients; of RECOVERING it is one number.
    pair = _PAIR.fullmatch(values.get("completed_clients" if status == COMPLETE else
                                      "connected_clients", ""))
    clients, of = (max(0, int(pair[1])), int(pair[2])) if pair else (None, None)
    evicted = _parse_number(values, "evicted_clients")
    if status == COMPLETE and of is not None and clients is not None:
        evicted = max(0, of - clients)
    return RecoveryStatus(
        status, _parse_number(values, "recovery_start") or None,
        _parse_number(values, "recovery_duration") if status == COMPLETE else None,
        _parse_number(values, "time_remaining") if status == RECOVERING else None, clients, of,
        evicted)


def _parse_number(values: dict[str, str], key: str) -> int | None:
    match = _NUMBER.fullmatch(values.get(key, ""))
    return int(match[0]) if match and int(match[0]) < _LARGEST else None
