"""
The health of LNet's interfaces and its resends, which are in no file of the kernel: the answers of
`lnetctl`, as systemd/iostats-lnetctl.service stores them in /run/iostats/lnetctl each minute.

    time: 1795333379                    of the unit: `date`
    statistics:                         `lnetctl stats show`
        send_count: 2300
        resend_count: 41
        response_timeout_count: 23
    net:                                `lnetctl net show -v 2`
        - net type: o2ib
          local NI(s):
            - nid: 10.9.0.3@o2ib
              statistics:
                  send_count: 1700
              health stats:
                  health value: 900

`lnetctl` asks by an ioctl that takes CAP_SYS_ADMIN, from 2.16 on for `net show` by netlink with
CAP_NET_ADMIN: too much for an agent that reads what users can write, so a unit of its own has these
rights for a few milliseconds.  2.16 indents differently.  These counts begin with 2.12.

resend_count: messages that were given to the network again after a failed or expired try; a try
that fails is not in send_count.  response_timeout_count: answers that a peer did not send in time.
Both have 32 bits.  The health of an interface begins at 1000; each failure on the local side takes
[health_sensitivity] from it (100; up to 2.12.2 it is 0: the health never changes), each message
adds 1, from 2.14 on as much as a failure takes.  That of the loopback means nothing.

Source: lustre_lnet_show_stats(), lustre_lnet_show_net(): liblnetconfig.c, 2.12.9 to 2.15.8;
lnet_net_show_dump(), lnet_genl_ops: api-ni.c, 2.16.1 and 2.17.0; libcfs_psdev_ioctl() (2.12.9,
2.15.8), lnet_psdev_ioctl(): module.c, 2.17.0; lnet_resend_pending_msgs_locked(),
lnet_finalize_expired_responses(): lib-move.c; lnet_msg_decommit_tx(), lnet_handle_local_failure(),
lnet_health_check(): lib-msg.c, 2.15.8.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple
from iostats.lustre.lnet import LOOPBACK, MOST_INTERFACES

HEALTHY = 1000
_COUNTS = ("send_count", "resend_count", "response_timeout_count")


class LnetHealth(NamedTuple):
    """Resends, and the health of interfaces, as `lnetctl` shows them."""

    at: float                   # when, s since 1970
    sent: int
    resent: int
    response_timeouts: int
    values: dict[str, int]      # {NID: health, 0 to HEALTHY}


def parse(text: str) -> LnetHealth:
    """
    The LnetHealth in the stored answers; ValueError with what was expected.

    >>> parse('''time: 1795333379
    ... statistics:
    ...     send_count: 2300
    ...     resend_count: 41
    ...     response_timeout_count: 23
    ... net:
    ...     - net type: o2ib
    ...       local NI(s):
    ...         - nid: 10.9.0.3@o2ib
    ...           health stats:
    ...               health value: 900
    ... ''')[1:]
    (2300, 41, 23, {'10.9.0.3@o2ib': 900})
    """
    counts: dict[str, int] = {}
    values: dict[str, int] = {}
    section = nid = ""
    for line in text.splitlines():
        key, _, value = line.strip().lstrip("- ").partition(":")
        value = value.strip().strip("\"'")
        if line[:1].strip(" -"):                        # not indented, in no list
            section = key
        if key == "nid":
            nid = value
        elif key == "time" or (key in _COUNTS and section == "statistics"):
            counts[key] = _parse_number(key, value)
        elif key == "health value" and section == "net" and nid != LOOPBACK and (
                len(values) < MOST_INTERFACES):
            values[nid] = min(HEALTHY, _parse_number(key, value))
    if "send_count" in counts and "resend_count" not in counts:
        raise ValueError("expected resend_count: Lustre before 2.12 counts no resends, and its "
                         "interfaces have no health")
    for key in ("time", *_COUNTS):
        if key not in counts:
            raise ValueError(f"expected {key}, got {text.strip()[:60]!r}")
    return LnetHealth(counts["time"], counts["send_count"], counts["resend_count"],
                      counts["response_timeout_count"], values)


def _parse_number(key: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 20):
        raise ValueError(f"{key}: expected a number, got {value[:60]!r}")
    return int(value)
