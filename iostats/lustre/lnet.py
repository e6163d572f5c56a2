"""
LNet's files: messages of this machine since LNet was started, its interfaces, routers and peers.

    stats       0 1031 0 2300000 3700000 0 41 8589934592 17179869184 0 5290
                messages now, most at once, errors; sent, received, routed, dropped; bytes of these
    nis         nid                      status alive refs peer  rtr   max    tx   min
                10.9.0.11@o2ib               up    -1    2    8    0   256   253   201
    peers       nid                      refs state  last   max   rtr   min    tx   min queue
                10.9.1.23@o2ib              1    NA    -1     8     8     8    -2    -7 9312
    routers     ref  rtr_ref alive router                  from 2.13 on; up to 2.12 there are more
                4          1    up 10.9.1.1@o2ib           columns, and `state` has up or down

From 2.11 on /sys/kernel/debug/lnet, which root alone may read; up to 2.10 /proc/sys/lnet, which
every user may.  nis has a line for each interface and CPU partition, peers for each address with
which this machine has exchanged messages.  `tx` are credits, one for each message that can be sent
at once, and below 0 the number of messages that wait: first for one of the peer, then for one of
the interface.  The `min` behind it is the lowest so far.  `alive` is -1 where the machine routes no
messages of others.

The counts of messages have 32 bits and continue at 0; those of bytes have 64.  `errors` is never
counted in any release.  A message is dropped when the next machine on its way is down, or when no
one waits for it here (any more), as with the late answer to a request that was given up.  How often
messages were sent again is in none of these files: lnetctl.py.

A read() returns one line of nis and of peers.  The file of peers fails (ESTALE) where peers are
added while it is read.

Source: __proc_lnet_stats(), proc_lnet_nis(), proc_lnet_routers(), proc_lnet_peers():
lnet/lnet/router_proc.c, 2.10.8 and 2.12.9; lnet/lnet/lnet_debugfs.c, 2.15.8 and 2.17.0.
lnet_post_send_locked(), lnet_drop_message(), lnet_create_reply_msg(), lnet/lnet/lib-move.c, count
credits and drops.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple

LOOPBACK = "0@lo"
MOST_INTERFACES = 1000
# What a node reports of a job, in this order; the last two of lnetctl.
NODE_COUNTS = ("sent", "received", "dropped", "sent_bytes", "received_bytes", "resent",
               "response_timeouts")
_COUNTS = 1 << 32


def is_known(count: int) -> bool:
    """Whether a node may report this many of NODE_COUNTS, where it reports any."""
    return count in (len(NODE_COUNTS) - 2, len(NODE_COUNTS))


class LnetStats(NamedTuple):
    """Messages of this machine, and their bytes, since LNet was started."""

    sent: int
    received: int
    routed: int
    dropped: int
    sent_bytes: int
    received_bytes: int
    routed_bytes: int
    dropped_bytes: int


class Interface(NamedTuple):
    """One network interface of LNet, added up over the CPU partitions."""

    is_up: bool
    credits: int    # how many messages it may send at once
    waiting: int    # messages that wait for a credit now
    lowest: int     # the fewest credits of one of its CPU partitions so far; below 0: some waited
    routes: bool    # this machine routes messages of others


class LnetPeer(NamedTuple):
    """An address with which this machine exchanges messages."""

    waiting: int    # messages that wait for a credit of it now
    lowest: int     # the fewest credits so far; below 0: some waited


def parse_stats(text: str) -> LnetStats:
    """
    The LnetStats in `stats`; ValueError with what was expected.

    >>> parse_stats("0 1031 0 23 37 0 41 4096 8192 0 53")[:4]
    (23, 37, 0, 41)
    """
    words = text.split()
    if len(words) != 11 or not all(word.isascii() and word.isdigit() and len(word) <= 20
                                   for word in words):
        raise ValueError(f"stats: expected 11 numbers, got {text.strip()[:60]!r}")
    return LnetStats(*map(int, words[3:]))


def parse_interfaces(text: str) -> dict[str, Interface]:
    """
    Return {NID: Interface} in `nis`, without the loopback; ValueError with what was expected.

    >>> parse_interfaces('''nid                      status alive refs peer  rtr   max    tx   min
    ... 0@lo                         up     0    2    0    0     0     0     0
    ... 10.9.0.11@o2ib               up    -1    2    8    0   128   123    23
    ... 10.9.0.11@o2ib               up    -1    2    8    0   128    -7   -37
    ... ''')
    {'10.9.0.11@o2ib': Interface(is_up=True, credits=256, waiting=7, lowest=-37, routes=False)}
    """
    interfaces: dict[str, Interface] = {}
    for row in _parse_rows(text, "nis", ("nid", "status", "alive", "max", "tx", "min")):
        nid, status, alive, max_credits, now, lowest = row
        if nid == LOOPBACK or (nid not in interfaces and len(interfaces) >= MOST_INTERFACES):
            continue
        interface = interfaces.get(nid, Interface(True, 0, 0, int(lowest), False))
        interfaces[nid] = Interface(interface.is_up and status == "up",
                                    interface.credits + max(0, int(max_credits)),
                                    interface.waiting + max(0, -int(now)),
                                    min(interface.lowest, int(lowest)), int(alive) >= 0)
    return interfaces


def parse_peers(text: str) -> dict[str, LnetPeer]:
    """
    Return {NID: LnetPeer} in `peers`, without the loopback; ValueError with what was expected.

    >>> parse_peers('''nid                      refs state  last   max   rtr   min    tx   min queue
    ... 10.9.1.23@o2ib              1    NA    -1     8     8     8    -2    -7 9312
    ... ''')
    {'10.9.1.23@o2ib': LnetPeer(waiting=2, lowest=-7)}
    """
    # The first `min` is of the credits by which a router receives.
    rows = _parse_rows(text.replace(" min ", " rtr_min ", 1), "peers", ("nid", "tx", "min"))
    return {nid: LnetPeer(max(0, -int(now)), int(lowest))
            for nid, now, lowest in rows if nid != LOOPBACK}


def parse_routers(text: str) -> dict[str, bool]:
    """Return {NID: whether it is up} in `routers`; {} without routers.  Raises ValueError.

    >>> parse_routers("ref  rtr_ref alive router\\n4          1  down 10.9.1.1@o2ib\\n")
    {'10.9.1.1@o2ib': False}
    """
    state = "state" if " state " in text.partition("\n")[0] else "alive"
    return {nid: is_alive == "up" for nid,
            is_alive in _parse_rows(text, "routers", ("router", state))}


def _parse_rows(text: str, file: str, names: tuple[str, ...]) -> list[list[str]]:
    """The words in the first column of each of these names, by row."""
    lines = text.splitlines()
    if not lines:
        return []
    heading = lines[0].split()
    if not set(names) <= set(heading):
        raise ValueError(f"{file}: expected the columns {', '.join(names)}, got {lines[0][:60]!r}")
    places, rows = [heading.index(name) for name in names], []
    for line in lines[1:]:
        words = line.split()
        if len(words) != len(heading):
            raise ValueError(f"{file}: expected {len(heading)} columns, got {line[:60]!r}")
        rows.append([words[place] for place in places])
    return rows


def subtract(before: LnetStats, after: LnetStats) -> LnetStats | None:
    """
    Subtract the counters of two readings; None where they were reset (`lctl set_param stats=0`,
    LNet was stopped and started).

    A count that is smaller than before continued at 0 if the bytes grew, as these do not.

    >>> first = LnetStats(2**32 - 23, 37, 0, 41, 4096, 8192, 0, 53)
    >>> subtract(first, LnetStats(14, 37, 0, 43, 9999, 8192, 0, 53))[:4]
    (37, 0, 0, 2)
    """
    has_less = any(new < old for old, new in zip(before, after))
    bytes_before, bytes_after = before[4:], after[4:]
    if has_less and (bytes_before == bytes_after
                     or any(new < old for old, new in zip(bytes_before, bytes_after))):
        return None
    return LnetStats(*((new - old) % _COUNTS for old, new in zip(before[:4], after[:4])),
                     *(new - old for old, new in zip(bytes_before, bytes_after)))
