"""
The events that `iostats events` selects: the params of the RPC `events`, and the same rule for
events that this machine reads itself.
"""

from __future__ import annotations

from iostats.base import node_list
from iostats.base.errors import UsageError
from iostats.base.job_id import check_batch_job
from iostats.base.named_tuple import NamedTuple
from iostats.events import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.events.event import Event

MAX_NAMES = 1000                # of one option
_MAX_NAME_LENGTH = 256


class EventSelection(NamedTuple):
    """The events that a command selects: by time, kind, severity, job, node and file system."""

    # since, until: s since 1970; None for no limit.  An event is in this time if any of it is.
    since: float | None
    until: float | None
    severity: int   # the lowest, 0 to 3
    # file_systems, nodes, kinds: lists, [] for all; a node is one that reported the event, or that
    # it is about, by its name or NID
    file_systems: list[str]
    nodes: list[str]
    kinds: list[str]
    job: str        # "" for all


def parse_kinds(texts: Iterable[str]) -> list[str]:
    """Return [kind] of ["a,b", "c"], each once; UsageError."""
    names = _split_names(texts, "--kind")
    for name in names:
        if name not in kinds.KINDS:
            raise UsageError(f"--kind: expected some of {' '.join(kinds.KINDS)}, got {name[:40]!r}")
    return names


def parse_file_systems(texts: Iterable[str]) -> list[str]:
    """Return [file system] of ["a,b", "c"], each once; UsageError."""
    return _split_names(texts, "--fs")


def parse_nodes(texts: Iterable[str]) -> list[str]:
    """Return [node or NID] of node lists, each once; UsageError."""
    node_names: dict[str, None] = {}
    for text in texts:
        try:
            # An "@" belongs to a NID, which has no brackets.
            names = text.split(",") if "@" in text else node_list.expand_node_list(text)
        except ValueError as error:
            raise UsageError(f"--node: expected a node list such as nid[001-004],oss1, got "
                             f"{text[:40]!r}: {str(error)[:80]}") from None
        node_names.update(dict.fromkeys(filter(None, names)))
        if len(node_names) > MAX_NAMES:
            raise UsageError(f"--node: expected up to {MAX_NAMES} nodes, got more: {text[:40]!r}")
    return _check_names(list(node_names), "--node")


def parse_job(text: str) -> str:
    """Check the job of --job, and return it; UsageError."""
    return check_batch_job(text, "--job")


def _split_names(texts: Iterable[str], option: str) -> list[str]:
    texts = list(texts)
    names = list(dict.fromkeys(word.strip() for text in texts for word in text.split(",")
                               if word.strip()))
    if texts and not names:
        raise UsageError(f"{option}: expected names separated by commas, got {texts[0][:40]!r}")
    if len(names) > MAX_NAMES:
        raise UsageError(f"{option}: expected up to {MAX_NAMES}, got {len(names)}")
    return _check_names(names, option)


def _check_names(names: list[str], option: str) -> list[str]:
    for name in names:
        if len(name) > _MAX_NAME_LENGTH or not name.isprintable():
            raise UsageError(f"{option}: expected up to {_MAX_NAME_LENGTH} printable characters, "
                             f"got "
                             f"{name[:40]!r}")
    return names


def make_params(selection: EventSelection) -> dict[str, object]:
    """The params of the RPC `events`, without those that select all."""
    return {name: value for name, value in selection._asdict().items()
            if value is not None and value != "" and value != []}


def is_selected(event: Event, selection: EventSelection) -> bool:
    """Whether an event is selected; its job is not checked here."""
    ended = max(event.time, event.last, event.over or 0.0)
    return not (
        (selection.since is not None and ended < selection.since)
        or (selection.until is not None and event.time > selection.until)
        or event.severity < selection.severity
        or (selection.file_systems and event.file_system not in selection.file_systems)
        or (selection.kinds and event.kind not in selection.kinds)
        or (selection.nodes and event.node not in selection.nodes
            and not set(event.clients).intersection(selection.nodes)))
