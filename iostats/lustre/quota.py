"""
Quotas of users, groups and projects, as the quota master on MDT0000 stores them.

    qmt/scratch-QMT0000/dt-0x0/glb-usr          space on the OSTs, in KiB; md-0x0: inodes
    qmt/scratch-QMT0000/dt-flash/glb-prj        of the OSTs of a pool, from 2.14 on

    global_pool0_dt_usr                         of a pool: global_index_copy:
    - id:      4711
      limits:  { hard:   1073741824, soft:   1048576, granted:   1048500, time:    1795333400 }

/proc/fs/lustre in all releases; every user may read it.  Ids with a limit, and that had one, have a
record.  `granted` is what the master has given to the targets, so what is used is at most that.  It
refuses more, and calls fail with EDQUOT, when the hard limit is granted, or more than the soft one
after `time`.  Id 0 has no limits of its own: those in its record are for ids with the flag
LQUOTA_FLAG_DEFAULT in the upper 16 bits of `time`, and its time is the grace period.

The use itself is in quota_slave/acct_user and so on of each target, for all ids of the file system;
adding these up would take a line of each target for each user, so they are not read.

Source: lprocfs_quota_seq_show(), lustre/quota/lproc_quota.c; qmt_space_exhausted(),
qmt_internal.h; qmt_lqe_read(), qmt_glb_write(), qmt_entry.c; qmt_pool.c; 2.10.8, 2.12.9, 2.15.8,
2.17.0.  Default limits: 530881fe4e, first in 2.11.53.
"""

from __future__ import annotations

import re

from iostats.base.named_tuple import NamedTuple
from iostats.lustre.capacity import BYTES, INODES

PLACE = "proc/fs/lustre/qmt"
USER, GROUP, PROJECT = KINDS = ("user", "group", "project")
MOST_AMOUNT = 1 << 62
FILES = {"glb-usr": USER, "glb-grp": GROUP, "glb-prj": PROJECT}
_RESOURCES = {"dt": (BYTES, 1024), "md": (INODES, 1)}
_ALL_TARGETS = "0x0"
_TIME_BITS, _FLAG_DEFAULT = 48, 1
_HEADINGS = ("global_pool", "global_index_copy:")
_RECORD = re.compile(r"- id: +(\d{1,20})\n  limits: +\{ hard: +(\d{1,20}), soft: +(\d{1,20}), "
                     r"granted: +(\d{1,20}), time: +(\d{1,20}) \}\n?")


class Quota(NamedTuple):
    """The quota of one id."""

    file_system: str
    pool: str       # the pool of OSTs that it is for; "" for the whole file system
    kind: str       # USER, GROUP or PROJECT
    id: int         # its number
    resource: str   # BYTES or INODES, which all amounts are of
    granted: int    # what is used is at most this
    # soft, hard: the limits; 0 for none
    soft: int
    hard: int
    # from when on the soft limit is enforced, s since 1970; 0 while it is not exceeded
    grace_end: int


def parse_records(text: str) -> list[tuple[int, int, int, int, int]]:
    """
    Return [(id, granted, soft, hard, grace_end)] of the ids with a limit, in the file's units;
    ValueError with what was expected.

    >>> parse_records('''global_pool0_md_usr
    ... - id:      4711
    ...   limits:  { hard:    53, soft:    41, granted:    43, time:    1795333400 }
    ... ''')
    [(4711, 43, 41, 53, 1795333400)]
    """
    heading, _, rest = text.partition("\n")
    if not heading.startswith(_HEADINGS):
        raise ValueError(f"expected global_pool or global_index_copy, got {heading[:60]!r}")
    position = 0
    records = []
    default_limits = 0, 0
    for record in _RECORD.finditer(rest):
        if record.start() != position:
            break
        position = record.end()
        number, hard, soft, granted, time = map(int, record.groups())
        if number:
            records.append((number, hard, soft, granted, time))
        else:                                       # at any place of the file
            default_limits = hard, soft
    if position != len(rest):
        raise ValueError(f"expected an id and its limits, got {rest[position:][:60]!r}")
    limits = []
    for number, hard, soft, granted, time in records:
        if not hard and not soft and time >> _TIME_BITS & _FLAG_DEFAULT:
            hard, soft = default_limits
        if hard or soft:
            grace_end = time & (1 << _TIME_BITS) - 1 if 0 < soft < granted else 0
            limits.append((number, granted, soft, hard, grace_end))
    return limits


def parse_quotas(text: str, file_system: str, pool: str, file: str) -> list[Quota]:
    """Return [Quota] in a `file` of the directory `pool` of a quota master; ValueError."""
    resource, _, name = pool.partition("-")
    unit, factor = _RESOURCES[resource]
    return [Quota(file_system, "" if name == _ALL_TARGETS else name, FILES[file], number, unit,
                  min(granted * factor, MOST_AMOUNT), min(soft * factor, MOST_AMOUNT),
                  min(hard * factor, MOST_AMOUNT), grace_end)
            for number, granted, soft, hard, grace_end in parse_records(text)]


def is_pool(name: str) -> bool:
    """
    True for the directory of a pool of a quota master.

    >>> [is_pool(name) for name in ("dt-0x0", "md-flash", "lqa-dt-flash", "info")]
    [True, True, False, False]
    """
    return name.partition("-")[0] in _RESOURCES


def compute_granted_percent(quota: Quota) -> float:
    """
    The granted share of the hard limit, or of the soft one if there is no hard limit, in %.

    >>> compute_granted_percent(Quota("scratch", "", USER, 4711, BYTES, 41, 20, 50, 0))
    82.0
    """
    return 100.0 * quota.granted / (quota.hard or quota.soft or 1)


def compute_nearness(quota: Quota) -> float:
    """
    Compute how near a quota is to its limits: the granted share in %, and at least 100 above the
    soft one.

    >>> quota = Quota("scratch", "", USER, 4711, BYTES, 41, 41, 50, 0)
    >>> [compute_nearness(quota), compute_nearness(quota._replace(soft=40))]
    [82.0, 100.0]
    """
    percent = compute_granted_percent(quota)
    return max(percent, 100.0) if 0 < quota.soft < quota.granted else percent


def is_exhausted(quota: Quota, now: float) -> bool:
    """
    Whether the quota master grants no more.

    >>> quota = Quota("scratch", "", USER, 4711, BYTES, 41, 20, 50, 1795333400)
    >>> [is_exhausted(quota, time) for time in (1795333399, 1795333400)]
    [False, True]
    """
    if 0 < quota.hard <= quota.granted:
        return True
    return 0 < quota.soft < quota.granted and 0 < quota.grace_end <= now
