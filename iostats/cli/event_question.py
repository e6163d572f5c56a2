"""
Which events `iostats events` asks for: the params of the RPC `events`, and the same rule for what
this machine finds itself.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.base import node_list
from iostats.base.errors import UsageError
from iostats.base.job_id import checked_batch_job
from iostats.events import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from iostats.events.event import Event

MOST_NAMES = 1000                   # of one option
_LONGEST_NAME = 256

EventQuestion = namedtuple("EventQuestion", "since until severity file_systems nodes kinds job")
EventQuestion.__doc__ = """
Which events are wanted.

Attributes:
    since, until: s since 1970; None for no limit.  An event is in this time if any of it is.
    severity: the lowest, 0 to 3.
    file_systems, nodes, kinds: lists, [] for all; a node is one that tells, or that it is about,
        by its name or NID.
    job: "" for all.
"""


def kinds_of(texts: Iterable[str]) -> list[str]:
    """[kind] of ["a,b", "c"], each once; UsageError."""
    found = _words(texts, "--kind")
    for name in found:
        if name not in kinds.KINDS:
            raise UsageError(f"--kind: expected some of {' '.join(kinds.KINDS)}, got {name[:40]!r}")
    return found


def file_systems_of(texts: Iterable[str]) -> list[str]:
    """[file system] of ["a,b", "c"], each once; UsageError."""
    return _words(texts, "--fs")


def nodes_of(texts: Iterable[str]) -> list[str]:
    """[node or NID] of node lists, each once; UsageError."""
    found: dict[str, None] = {}
    for text in texts:
        try:
            # An "@" is of a NID, which has no brackets.
            names = text.split(",") if "@" in text else node_list.expanded(text)
        except ValueError as error:
            raise UsageError(f"--node: expected a node list such as nid[001-004],oss1, got "
                             f"{text[:40]!r}: {str(error)[:80]}") from None
        found.update(dict.fromkeys(filter(None, names)))
        if len(found) > MOST_NAMES:
            raise UsageError(f"--node: expected up to {MOST_NAMES} nodes, got more: {text[:40]!r}")
    return _checked(list(found), "--node")


def job_of(text: str) -> str:
    """A job's id; UsageError."""
    return checked_batch_job(text, "--job")


def _words(texts: Iterable[str], what: str) -> list[str]:
    texts = list(texts)
    found = list(dict.fromkeys(word.strip() for text in texts for word in text.split(",")
                               if word.strip()))
    if texts and not found:
        raise UsageError(f"{what}: expected names separated by commas, got {texts[0][:40]!r}")
    if len(found) > MOST_NAMES:
        raise UsageError(f"{what}: expected up to {MOST_NAMES}, got {len(found)}")
    return _checked(found, what)


def _checked(found: list[str], what: str) -> list[str]:
    for name in found:
        if len(name) > _LONGEST_NAME or not name.isprintable():
            raise UsageError(f"{what}: expected up to {_LONGEST_NAME} printable characters, got "
                             f"{name[:40]!r}")
    return found


def params_of(question: EventQuestion) -> dict[str, Any]:
    """The filters of the RPC `events`; what chooses all is left out."""
    return {name: value for name, value in question._asdict().items()
            if value is not None and value != "" and value != []}


def is_wanted(event: Event, question: EventQuestion) -> bool:
    """Whether an event is one of those asked for; of a job it is not known here."""
    ended = max(event.time, event.last, event.over or 0.0)
    return not (
        (question.since is not None and ended < question.since)
        or (question.until is not None and event.time > question.until)
        or event.severity < question.severity
        or (question.file_systems and event.file_system not in question.file_systems)
        or (question.kinds and event.kind not in question.kinds)
        or (question.nodes and event.node not in question.nodes
            and not set(event.clients).intersection(question.nodes)))
