"""
Descriptions in etcd.  The keys, all below /PREFIX/:

    current                   which description is valid: JSON of Revision
    agents                    what our own agents have of it: {"revision": n, "groups": [{"name",
                              "hosts": [...], "settings": {...}}]}
    history/NNNNNN            JSON of Revision, of the last KEPT
    descriptions/NNNNNN-SUM/PPPP
                              the text as it was written, zlib, in parts of up to PART_BYTES; SUM
                              are the first 12 digits of its SHA-256

A description becomes valid at one revision of etcd: its parts are put first, under names that are
no other's, then `current`, `agents` and `history/..` in one transaction, which wants `current` to
be as it was when the differences were shown.  Who reads `current` finds all parts, or none of it.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
import zlib
from dataclasses import dataclass, replace

from iostats.base.errors import IostatsError, one_line
from iostats.etcd.client import EtcdAway, EtcdRefused, deleting, getting, modified, putting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Optional

    from iostats.etcd.client import Etcd, KeyValue
    from iostats.ldms.description.normal import AgentGroup

KEPT = 20
PART_BYTES = 1_000_000               # etcd takes requests of up to 1.5 MB
LONGEST_TEXT = 64 << 20
_LONGEST_NOTE = 200
_TRIES = 5


class NotPublished(IostatsError):
    """etcd has no description, or not what belongs to it, or another was loaded meanwhile."""


@dataclass(frozen=True)
class Revision:
    """
    Of a description in etcd.

    Attributes:
        number: 1, 2, ...; each load and each rollback makes the next.
        parts, sha256: of its text.
        by, at: who loaded it, where, and when by the clock there (seconds since 1970).
        mod_revision: etcd's revision at which it became valid; 0 in a history.
        mark: of the one load that made it.
    """
    number: int
    parts: int
    sha256: str
    by: str = ""
    at: float = 0.0
    note: str = ""
    mod_revision: int = 0
    mark: str = ""

    @property
    def name(self) -> str:
        """Of its parts' keys."""
        return f"{self.number:06}-{self.sha256[:12]}"

    def as_json(self) -> bytes:
        """As it stands in etcd."""
        return json.dumps({"revision": self.number, "parts": self.parts, "sha256": self.sha256,
                           "by": self.by, "time": self.at, "note": self.note,
                           "mark": self.mark}).encode()


def current(etcd: Etcd) -> Optional[Revision]:
    """The valid description's Revision, or None before the first; EtcdAway, NotPublished."""
    found = etcd.get(etcd.key("current"))
    return _revision(found) if found else None


def read_current(etcd: Etcd) -> Optional[tuple[Revision, str]]:
    """
    (Revision, its text) of the valid description, or None before the first.

    Raises EtcdAway, EtcdRefused, NotPublished.
    """
    for tries in range(1, _TRIES + 1):
        now = current(etcd)
        if now is None:
            return None
        try:
            return now, text_of(etcd, now)
        except NotPublished:
            # Parts of an old one are removed only when it is long out of date.
            if tries == _TRIES or current(etcd) == now:
                raise
    raise AssertionError


def text_of(etcd: Etcd, revision: Revision) -> str:
    """The text of a description, as it was written; NotPublished where it is not whole."""
    where = etcd.below("descriptions", revision.name)
    data = b""
    for part in range(revision.parts):
        found = etcd.get(f"{where}{part:04}")
        if found is None:
            raise NotPublished(f"etcd: {where}{part:04}: expected a part of description "
                               f"{revision.number}, got nothing; load the description again")
        data += found.value
    try:
        unpacked = zlib.decompressobj()
        text = unpacked.decompress(data, LONGEST_TEXT + 1)
        if unpacked.eof and hashlib.sha256(text).hexdigest() == revision.sha256:
            return text.decode("utf-8")
    except (zlib.error, UnicodeDecodeError):
        pass
    raise NotPublished(f"etcd: {where}: expected the text of description {revision.number}, got "
                       f"one with another SHA-256; load the description again")


def history(etcd: Etcd) -> list[Revision]:
    """The last Revisions, the newest first."""
    found, _ = etcd.range(etcd.below("history"))
    return [replace(_revision(one), mod_revision=0) for one in reversed(found)]


def revision_of(etcd: Etcd, number: int) -> Revision:
    """The Revision `number` of the history; NotPublished, which names those that are there."""
    known = history(etcd)
    for one in known:
        if one.number == number:
            return one
    raise NotPublished(f"etcd: no description {number}; there are: "
                       f"{' '.join(str(one.number) for one in reversed(known)) or 'none'}")


def before_the_valid_one(etcd: Etcd) -> Revision:
    """The Revision before the valid one whose text is another; NotPublished."""
    known, valid = history(etcd), current(etcd)
    for one in known:
        if valid and one.number < valid.number and one.sha256 != valid.sha256:
            return one
    raise NotPublished("etcd: no description before the valid one; there are: "
                       f"{' '.join(str(one.number) for one in reversed(known)) or 'none'}")


def load(etcd: Etcd, text: str, agents: Sequence[AgentGroup], before: Optional[Revision], *,
         by: str, note: str = "", now: float | None = None) -> Revision:
    """
    Make `text` the valid description; its Revision.

    `agents`: of the description; `before`: what was current() when the differences were shown.
    `by`: who, such as alice@mgmt1.  NotPublished where another was loaded meanwhile, EtcdAway
    where it is not known to be valid.
    """
    data = text.encode("utf-8")
    if len(data) > LONGEST_TEXT:
        raise NotPublished(f"expected a description of up to {LONGEST_TEXT} bytes, got {len(data)}")
    packed = zlib.compress(data, 6)
    parts = [packed[at:at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]
    # `current` may have been removed by hand: the numbers go on.
    last = before or next(iter(history(etcd)), None)
    new = Revision((last.number if last else 0) + 1, len(parts),
                   hashlib.sha256(data).hexdigest(), one_line(by)[:_LONGEST_NOTE],
                   round(time.time() if now is None else now, 3), one_line(note)[:_LONGEST_NOTE],
                   mark=uuid.uuid4().hex)
    for number, part in enumerate(parts):
        etcd.put(etcd.key("descriptions", new.name, f"{number:04}"), part)
    key = etcd.key("current")
    # Asked twice it is done once: after the first, `current` is no longer what it was before.
    done, gave, at = etcd.txn(
        [modified(key, before.mod_revision if before else 0)],
        [putting(key, new.as_json()), putting(etcd.key("agents"), _agents(new.number, agents)),
         putting(etcd.key("history", f"{new.number:06}"), new.as_json())],
        [getting(key)], again=True)
    if not done:
        found = gave[0][0] if gave and isinstance(gave[0], list) and gave[0] else None
        now_there = _revision(found) if found else None
        if now_there is None or now_there.mark != new.mark:
            _forget_parts(etcd, new, now_there)
            raise NotPublished(_loaded_meanwhile(now_there))
        at = now_there.mod_revision
    _forget_old(etcd, new)
    return replace(new, mod_revision=at)


def agents_have(etcd: Etcd, revision: Revision, agents: Sequence[AgentGroup]) -> bool:
    """Whether our agents are told just that: it may have been written by hand."""
    found = etcd.get(etcd.key("agents"))
    return found is not None and found.value == _agents(revision.number, agents)


def _loaded_meanwhile(found: Optional[Revision]) -> str:
    if found is None:
        return ("etcd: the description that was valid was removed meanwhile; nothing was loaded; "
                "try again")
    return (f"etcd: {found.by} loaded description {found.number} meanwhile; nothing was loaded; "
            f"look at the differences again, with --dry-run")


def _agents(number: int, groups: Sequence[AgentGroup]) -> bytes:
    return json.dumps({"revision": number, "groups": [
        {"name": group.name, "hosts": list(group.hosts), "settings": dict(group.settings)}
        for group in groups]}, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _forget_parts(etcd: Etcd, mine: Revision, winner: Optional[Revision]) -> None:
    """Remove the parts of a load that was refused; those of the winner may be the same."""
    if winner is None or winner.name != mine.name:
        try:
            etcd.delete(etcd.below("descriptions", mine.name))
        except (EtcdAway, EtcdRefused):
            pass                                            # the next load removes them


def _forget_old(etcd: Etcd, newest: Revision) -> None:
    """
    Remove what is older than the last KEPT, and parts of loads that came to nothing.

    What fails here is left to the next load: the description is valid already.
    """
    try:
        known = history(etcd)
        kept = {one.name for one in known[:KEPT]}
        for one in known[KEPT:]:
            etcd.txn([], [deleting(etcd.key("history", f"{one.number:06}")),
                          deleting(etcd.below("descriptions", one.name))], again=True)
        for name in sorted(_names_of_parts(etcd) - kept):
            if name.partition("-")[0] <= f"{newest.number:06}":
                etcd.delete(etcd.below("descriptions", name))
    except (EtcdAway, EtcdRefused, NotPublished):
        pass


def _names_of_parts(etcd: Etcd) -> set[str]:
    where = etcd.below("descriptions")
    return {key[len(where):].partition("/")[0] for key in etcd.keys(where)}


def _revision(found: KeyValue) -> Revision:
    """The Revision in a value; NotPublished."""
    try:
        one: Any = json.loads(found.value)
        made = Revision(one["revision"], one["parts"], one["sha256"], one["by"], one["time"],
                        one["note"], found.mod_revision, one.get("mark", ""))
        texts = (made.sha256, made.by, made.note, made.mark)
        if not (all(isinstance(text, str) for text in texts) and type(made.number) is int
                and type(made.parts) is int and 0 < made.number < 1 << 53
                and 0 < made.parts <= 1000 and isinstance(made.at, (int, float))
                and 0 <= made.at < 1e11):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise NotPublished(f"etcd: {found.key}: expected what `iostats ldms load` puts there, got "
                           f"{found.value[:60]!r}; remove that key (etcdctl del), and load the "
                           f"description again") from None
    return replace(made, by=one_line(made.by)[:_LONGEST_NOTE],
                   note=one_line(made.note)[:_LONGEST_NOTE])
