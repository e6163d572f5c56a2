"""
Objects that an MDT has the OSTs make in advance, for new files.

    osp/scratch-OST0003-osc-MDT0000/prealloc_status                     -28
    osp/.../prealloc_next_id, prealloc_last_id, prealloc_next_seq ...   37, 64, 0x100000000
    osp/.../max_create_count                                            20000

prealloc_status is 0, or the error for which the MDT gets no objects: -ENOSPC of an OST that is
full, -ENODEV without a connection, -ESHUTDOWN of one that an administrator deactivated, -EAGAIN
until the first ones are there. The pool has the ids from next_id, which is used next, to last_id,
if both are of one sequence. With a max_create_count of 0 an administrator wants none. While a pool
is empty, a new file waits for it, at most obd_timeout, or goes to another OST.

In /proc/fs/lustre in 2.10, in /sys/fs/lustre later; every user may read them.  A connection to
another MDT (scratch-MDT0001-osp-MDT0000) has no pool.

Source: prealloc_status_show() and its neighbours, osp/lproc_osp.c; osp_import_event(),
osp/osp_dev.c; osp_precreate_reserve(), osp_pre_update_msfs(), osp/osp_precreate.c; 2.10.8 (read in
part), 2.12.9, 2.15.8, 2.17.0.
"""

from __future__ import annotations

import errno
import re

from iostats.base.named_tuple import NamedTuple

DIRECTORY = "osp"
FILES = ("prealloc_status", "max_create_count", "prealloc_next_id", "prealloc_last_id",
         "prealloc_next_seq", "prealloc_last_seq")
# (target, MDT) in the name of a directory.
split_name = re.compile(r"([^/]+-OST[0-9a-f]{4,8})-osc-(MDT[0-9a-f]{4,8})").fullmatch
_WORDS = {errno.ENOSPC: "the OST is full", errno.ENODEV: "it has no connection to the OST",
          errno.ENOTCONN: "it has no connection to the OST",
          errno.EAGAIN: "it has not got the first ones yet"}
_BY_ADMINISTRATOR = errno.ESHUTDOWN


class Pool(NamedTuple):
    """The pool of an MDT's objects on one OST."""

    status: int             # 0, or the error's number
    objects: int | None     # how many are in it; None if its ids are of two sequences
    is_wanted: bool         # no administrator has turned it off


def parse_pool(texts: dict[str, str]) -> Pool:
    """
    The Pool in {file: text} of FILES; ValueError with what was expected.

    >>> texts = dict(zip(FILES, ("0", "20000", "37", "64", "0x100000000", "0x100000000")))
    >>> parse_pool(texts)
    Pool(status=0, objects=28, is_wanted=True)
    >>> parse_pool({**texts, "prealloc_status": "-108", "prealloc_last_seq": "0x200000400"})
    Pool(status=108, objects=None, is_wanted=False)
    """
    status, max_count, next_id, last_id = (_parse_number(file, texts[file]) for file in FILES[:4])
    if status > 0:
        raise ValueError(f"prealloc_status: expected 0 or an error below 0, got {status}")
    same = texts["prealloc_next_seq"].strip() == texts["prealloc_last_seq"].strip()
    return Pool(-status, max(0, last_id - next_id + 1) if same else None,
                max_count != 0 and -status != _BY_ADMINISTRATOR)


def _parse_number(file: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,20}\n?", text):
        raise ValueError(f"{file}: expected a number, got {text.strip()[:60]!r}")
    return int(text)


def explain_lack(pool: Pool) -> str:
    """
    Return why an MDT gets no objects; "" if it has some, or wants none.

    >>> [explain_lack(Pool(*pool)) for pool in ((28, 23, True), (0, 0, True), (0, 1, True))]
    ['the OST is full', 'all that were made in advance are used', '']
    """
    if not pool.is_wanted:
        return ""
    if pool.status:
        return _WORDS.get(pool.status, f"error {pool.status}, "
                                       f"{errno.errorcode.get(pool.status, 'of an unknown name')}")
    return "all that were made in advance are used" if pool.objects == 0 else ""
