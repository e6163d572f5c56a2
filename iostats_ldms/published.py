"""
Descriptions in etcd.  The keys, all below /PREFIX/:

    current                   which description is valid: JSON of Revision
    agents                    its part for our own agents: {"revision": n, "groups": [{"name",
                              "hosts": [...], "settings": {...}}]}
    history/NNNNNN            JSON of Revision, of the last HISTORY_LENGTH
    descriptions/NNNNNN-SUM/PPPP
                              the text as it was written, zlib, in parts of up to PART_BYTES; SUM
                              is the first 12 digits of its SHA-256

A description becomes valid at one revision of etcd: its parts are put first, under unique names,
then `current`, `agents` and `history/..` in one transaction, on condition that `current` is
unchanged since the differences were shown.  A reader of `current` finds all parts, or none.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

from iostats.base.errors import IostatsError, sanitize
from iostats.etcd.client import (
    Etcd,
    EtcdAway,
    EtcdRefused,
    KeyValue,
    compare_modified,
    make_delete,
    make_get,
    make_put,
)
from iostats_ldms.description.model import AgentGroup

HISTORY_LENGTH = 20
PART_BYTES = 1_000_000               # etcd takes requests of up to 1.5 MB
LONGEST_TEXT = 64 << 20
_LONGEST_NOTE = 200
_TRIES = 5


class DescriptionUnavailable(IostatsError):
    """No valid description in etcd, an incomplete one, or a concurrent load."""


@dataclass(frozen=True)
class Revision:
    """The metadata of a description in etcd."""
    number: int             # 1, 2, ...; each load and each rollback creates the next
    # parts, sha256: of its text
    parts: int
    sha256: str
    # by, at: user and host that loaded it, and when, by that host's clock (seconds since 1970)
    by: str = ""
    at: float = 0.0
    note: str = ""
    mod_revision: int = 0   # etcd's revision at which it became valid; 0 in a history
    mark: str = ""          # unique for each load

    @property
    def name(self) -> str:
        """The directory of its parts in etcd."""
        return f"{self.number:06}-{self.sha256[:12]}"

    def as_json(self) -> bytes:
        """Encode the value stored in etcd."""
        return json.dumps({"revision": self.number, "parts": self.parts, "sha256": self.sha256,
                           "by": self.by, "time": self.at, "note": self.note,
                           "mark": self.mark}).encode()


def read_current_revision(etcd: Etcd) -> Optional[Revision]:
    """
    Read the valid description's Revision; None before the first load.

    Raises EtcdAway, DescriptionUnavailable.
    """
    result = etcd.get(etcd.key("current"))
    return _parse_revision(result) if result else None


def read_current_description(etcd: Etcd) -> Optional[tuple[Revision, str]]:
    """
    Read (Revision, text) of the valid description; None before the first load.

    Raises EtcdAway, EtcdRefused, DescriptionUnavailable.
    """
    for tries in range(1, _TRIES + 1):
        now = read_current_revision(etcd)
        if now is None:
            return None
        try:
            return now, read_text(etcd, now)
        except DescriptionUnavailable:
            # Parts of an old one are removed only when it is long out of date.
            if tries == _TRIES or read_current_revision(etcd) == now:
                raise
    raise AssertionError


def read_text(etcd: Etcd, revision: Revision) -> str:
    """Read the text of a description as it was written; DescriptionUnavailable if incomplete."""
    where = etcd.below("descriptions", revision.name)
    data = b""
    for part in range(revision.parts):
        result = etcd.get(f"{where}{part:04}")
        if result is None:
            raise DescriptionUnavailable(f"etcd: {where}{part:04}: expected a part of description "
                               f"{revision.number}, got nothing; load the description again")
        data += result.value
    try:
        unpacked = zlib.decompressobj()
        text = unpacked.decompress(data, LONGEST_TEXT + 1)
        if unpacked.eof and hashlib.sha256(text).hexdigest() == revision.sha256:
            return text.decode("utf-8")
    except (zlib.error, UnicodeDecodeError):
        pass
    raise DescriptionUnavailable(f"etcd: {where}: expected the text of description "
                                 f"{revision.number}, got "
                                 f"one with another SHA-256; load the description again")


def read_history(etcd: Etcd) -> list[Revision]:
    """Read the last Revisions, the newest first."""
    result, _ = etcd.range(etcd.below("history"))
    return [replace(_parse_revision(item), mod_revision=0) for item in reversed(result)]


def read_revision(etcd: Etcd, number: int) -> Revision:
    """Read the Revision `number` of the history; DescriptionUnavailable lists those that exist."""
    revisions = read_history(etcd)
    for item in revisions:
        if item.number == number:
            return item
    raise DescriptionUnavailable(f"etcd: no description {number}; there are: "
                       f"{' '.join(str(item.number) for item in reversed(revisions)) or 'none'}")


def read_previous_revision(etcd: Etcd) -> Revision:
    """Read the latest earlier Revision with a different text; DescriptionUnavailable."""
    revisions, valid = read_history(etcd), read_current_revision(etcd)
    for item in revisions:
        if valid and item.number < valid.number and item.sha256 != valid.sha256:
            return item
    raise DescriptionUnavailable("etcd: no earlier description; there are: "
                       f"{' '.join(str(item.number) for item in reversed(revisions)) or 'none'}")


def load(etcd: Etcd, text: str, agents: Sequence[AgentGroup], before: Optional[Revision], *,
         by: str, note: str = "", now: float | None = None) -> Revision:
    """
    Make `text` the valid description; return its Revision.

    `agents`: the agent groups of the description; `before`: read_current_revision() when the
    differences were shown; `by`: user and host, such as alice@mgmt1. Raises DescriptionUnavailable
    if another description was loaded concurrently, EtcdAway if the outcome is unknown.
    """
    data = text.encode("utf-8")
    if len(data) > LONGEST_TEXT:
        raise DescriptionUnavailable(f"expected a description of up to {LONGEST_TEXT} bytes, "
                                     f"got {len(data)}")
    packed = zlib.compress(data, 6)
    parts = [packed[at:at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]
    # `current` may have been deleted by hand: continue its numbers.
    last = before or next(iter(read_history(etcd)), None)
    new = Revision((last.number if last else 0) + 1, len(parts),
                   hashlib.sha256(data).hexdigest(), sanitize(by)[:_LONGEST_NOTE],
                   round(time.time() if now is None else now, 3), sanitize(note)[:_LONGEST_NOTE],
                   mark=uuid.uuid4().hex)
    for number, part in enumerate(parts):
        etcd.put(etcd.key("descriptions", new.name, f"{number:04}"), part)
    key = etcd.key("current")
    # Safe to repeat: after the first execution `current` has changed.
    done, gave, at = etcd.txn(
        [compare_modified(key, before.mod_revision if before else 0)],
        [make_put(key, new.as_json()),
         make_put(etcd.key("agents"), _encode_agents(new.number, agents)),
         make_put(etcd.key("history", f"{new.number:06}"), new.as_json())],
        [make_get(key)], again=True)
    if not done:
        result = gave[0][0] if gave and isinstance(gave[0], list) and gave[0] else None
        now_there = _parse_revision(result) if result else None
        if now_there is None or now_there.mark != new.mark:
            _delete_parts(etcd, new, now_there)
            raise DescriptionUnavailable(_make_conflict_message(now_there))
        at = now_there.mod_revision
    _delete_expired(etcd, new)
    return replace(new, mod_revision=at)


def are_agents_current(etcd: Etcd, revision: Revision, agents: Sequence[AgentGroup]) -> bool:
    """True if the key `agents` matches the description; it may have been edited by hand."""
    result = etcd.get(etcd.key("agents"))
    return result is not None and result.value == _encode_agents(revision.number, agents)


def _make_conflict_message(result: Optional[Revision]) -> str:
    """Describe the description that was loaded concurrently."""
    if result is None:
        return ("etcd: the valid description was deleted in between; nothing was loaded; "
                "try again")
    return (f"etcd: {result.by} loaded description {result.number} in between; nothing was loaded; "
            f"check the differences again with --dry-run")


def _encode_agents(number: int, groups: Sequence[AgentGroup]) -> bytes:
    """Encode the value of the key `agents`."""
    return json.dumps({"revision": number, "groups": [
        {"name": group.name, "hosts": list(group.hosts), "settings": dict(group.settings)}
        for group in groups]}, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _delete_parts(etcd: Etcd, revision: Revision, winner: Optional[Revision]) -> None:
    """Delete the parts of a refused load, unless the winning load has the same ones."""
    if winner is None or winner.name != revision.name:
        try:
            etcd.delete(etcd.below("descriptions", revision.name))
        except (EtcdAway, EtcdRefused):
            pass                                            # the next load removes them


def _delete_expired(etcd: Etcd, newest: Revision) -> None:
    """
    Delete revisions older than the last HISTORY_LENGTH, and parts of failed loads.

    A failure is left to the next load: the description is valid already.
    """
    try:
        revisions = read_history(etcd)
        retained = {item.name for item in revisions[:HISTORY_LENGTH]}
        for item in revisions[HISTORY_LENGTH:]:
            etcd.txn([], [make_delete(etcd.key("history", f"{item.number:06}")),
                          make_delete(etcd.below("descriptions", item.name))], again=True)
        for name in sorted(_list_part_names(etcd) - retained):
            if name.partition("-")[0] <= f"{newest.number:06}":
                etcd.delete(etcd.below("descriptions", name))
    except (EtcdAway, EtcdRefused, DescriptionUnavailable):
        pass


def _list_part_names(etcd: Etcd) -> set[str]:
    """List the names below descriptions/."""
    where = etcd.below("descriptions")
    return {key[len(where):].partition("/")[0] for key in etcd.keys(where)}


def _parse_revision(result: KeyValue) -> Revision:
    """Parse the value of `current` or of a history key; DescriptionUnavailable."""
    try:
        item: Any = json.loads(result.value)
        made = Revision(item["revision"], item["parts"], item["sha256"], item["by"], item["time"],
                        item["note"], result.mod_revision, item.get("mark", ""))
        texts = (made.sha256, made.by, made.note, made.mark)
        if not (all(isinstance(text, str) for text in texts) and type(made.number) is int
                and type(made.parts) is int and 0 < made.number < 1 << 53
                and 0 < made.parts <= 1000 and isinstance(made.at, (int, float))
                and 0 <= made.at < 1e11):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise DescriptionUnavailable(f"etcd: {result.key}: expected a value written by "
                                     "`iostats ldms load`, got "
                           f"{result.value[:60]!r}; remove that key (etcdctl del), and load the "
                                     f"description again") from None
    return replace(made, by=sanitize(made.by)[:_LONGEST_NOTE],
                   note=sanitize(made.note)[:_LONGEST_NOTE])
