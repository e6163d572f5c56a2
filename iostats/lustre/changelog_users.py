"""
`changelog_users` of an MDT: who reads its changelog, and how far each has come.

    current index: 2300                          up to 2.13
    ID    index (idle seconds)                   up to 2.10 without the idle time
    cl1   2263 (41)

    current_index: 2300                          later
    ID                            index (idle) mask
    cl1-robinhood                  2263 (41) mask=CREAT,UNLNK

Records stay on the MDT until every user has cleared them, so one that does not read fills it.  The
idle time is that since the user's last clear, in seconds.

mdd/scratch-MDT0000/changelog_users is in /proc/fs/lustre up to 2.10, and later in debugfs, which
root alone may read.  `changelog_size` beside it is not read: it opens each of up to 64,000 logs.

Source: mdd_changelog_users_seq_show(), lprocfs_changelog_users_cb(), changelog_size_show(),
lustre/mdd/mdd_lproc.c, 2.10.8, 2.12.9, 2.15.8 and 2.17.0.
"""

from __future__ import annotations

import re

from iostats.base.named_tuple import NamedTuple

MOST_USERS = 1000


class ChangelogUser(NamedTuple):
    """One user of an MDT's changelog."""

    unread: int         # how many records it has not cleared
    idle_s: int | None  # seconds since it last cleared some; None where that is not shown


_INDEX = re.compile(r"current[ _]index: (\d{1,19})")
_USER = re.compile(r"(\S{1,64}) +(\d{1,19})(?: \((\d{1,10})\))?(?: mask=\S*)?")


def parse_changelog_users(text: str) -> dict[str, ChangelogUser]:
    """
    Return {name: ChangelogUser}; ValueError with what was expected.

    >>> parse_changelog_users("current_index: 2300\\nID  index (idle) mask\\ncl1  2263 (41)\\n")
    {'cl1': ChangelogUser(unread=37, idle_s=41)}
    """
    first, *rest = text.splitlines() or [""]
    index = _INDEX.fullmatch(first.strip())
    if not index or not rest or not rest[0].startswith("ID"):
        raise ValueError(f"expected the current index and a heading, got {text[:60]!r}")
    users: dict[str, ChangelogUser] = {}
    for line in rest[1:MOST_USERS + 1]:
        match = _USER.fullmatch(line.rstrip())
        if not match:
            raise ValueError(f"expected a user, an index and an idle time, got {line[:60]!r}")
        users[match[1]] = ChangelogUser(max(0, int(index[1]) - int(match[2])),
                                        None if match[3] is None else int(match[3]))
    return users
