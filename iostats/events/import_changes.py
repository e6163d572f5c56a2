"""
From one look at a client's imports to the next: what happened to its connections, as events.

    {name: [text of `state`, text of `import`, OpenTrouble or null]}

is what a look leaves for the next one, as JSON; the texts are those of lustre/import_files.py, a
character a byte.  What a history of states says is in target_history.py.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.events import event
from iostats.events import target_history as history
from iostats.lustre import import_files, stats
from iostats.lustre.imports import CONNECTED
from iostats.lustre.kernel_log import CONNECTION_LOST, EVICTED, TIMEOUTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from iostats.events.event import Event
    from iostats.lustre.paths import File

NAME = "imports"                        # the source, in the ids of events

Seen = namedtuple("Seen", "events state gone_before bad refused")
Seen.__doc__ = """
What a look at the imports found.

Attributes:
    events: [Event], in the order of time.
    state: for the next look.
    gone_before: {target: up to when its states are not known, s since 1970}, where that is so.
    bad: [what was not understood in a file, with its path], at most 20.
    refused: {errno: how many targets}, of those whose `state` may not be read.
"""

_MOST_BAD = 20
_CONNECTED = tuple(f"current_state: {state}\n" for state in CONNECTED)


def texts_of(files: Iterable[File]) -> dict[str, list[Any]]:
    """The state of a look that has only read them, as of a job's start."""
    found: dict[str, list[Any]] = {}
    for file in files:
        if file.source == import_files.STATE and not file.errno:
            found[file.name] = [file.text, "", None]
    for file in files:
        if file.source == import_files.IMPORT and file.name in found:
            found[file.name][1] = file.text
    return found


def changes(files: Iterable[File], before: dict[str, Any] | None, boot_id: str, node: str,
            now: float, deactivated: Mapping[str, Iterable[float]] | None = None) -> Seen:
    """
    What happened between the look that left `before` and the one that read `files`, at `now`.

    `before`: None for the first look of all; then a history tells, and no counter does.
    `deactivated`: {target: when the kernel's log has it deactivated}.
    """
    files = list(files)
    events: list[Event] = []
    state: dict[str, list[Any]] = {}
    gone: dict[str, float] = {}
    bad: list[str] = []
    refused: dict[int, int] = {}
    paths: dict[str, str] = {}
    for file in files:
        if file.source == import_files.STATE:
            paths[file.name] = file.path
            if file.errno:
                refused[file.errno] = refused.get(file.errno, 0) + 1
    for name, (text, more, _) in texts_of(files).items():
        place = stats.split_target_name(name)
        if place is None:
            continue
        earlier = _earlier(before, name)
        if earlier is not None and earlier[:2] == [text, more] and _is_plain(text, earlier[2]):
            state[name] = earlier
            continue
        file_system, target = place[0], f"{place[0]}-{place[1]}"
        after = _reading(text, more)
        bad += [f"{paths[name]}: {why}" for why in after.bad[:_MOST_BAD - len(bad)]]
        found = history.between(
            name, target, None if earlier is None else _reading(earlier[0], earlier[1]), after,
            now, None if earlier is None else _open(earlier[2]),
            (deactivated or {}).get(target, ()))
        state[name] = [text, more, _as_json(found.open)]
        if found.gone_before is not None:
            gone[target] = found.gone_before
        events += [event.made(boot_id, node, (NAME, *one.origin), one.kind, one.time,
                              last=one.last, over=one.over, file_system=file_system, target=target,
                              count=one.count, message=one.message)
                   for one in found.changes if before is not None or one.kind != TIMEOUTS]
    return Seen(sorted(events, key=lambda one: (one.time, one.target, one.kind)), state, gone,
                bad, refused)


def is_connected(state: list[Any]) -> bool:
    """Whether a target was FULL or IDLE, or is out of use, by what a look left of it."""
    text, more, opened = state
    return text.startswith(_CONNECTED) or (opened is not None and not opened[1] and not opened[2]
                                           and bool(_reading(text, more).is_deactivated))


def _reading(text: str, more: str) -> history.ImportReading:
    return history.reading(text.encode("latin-1", "replace"), more.encode("latin-1", "replace"))


def _is_plain(text: str, opened: Any) -> bool:
    """Whether nothing is open in a text that has not changed."""
    return (opened is None or not (opened[1] or opened[2])) and text.startswith(_CONNECTED)


def _earlier(before: dict[str, Any] | None, name: str) -> list[Any] | None:
    """[text, text, OpenTrouble or null] of the last look; None for none that can be used."""
    found = (before or {}).get(name)
    if (isinstance(found, list) and len(found) == 3
            and isinstance(found[0], str) and isinstance(found[1], str)):
        return found
    return None


def _as_json(opened: history.OpenTrouble) -> list[Any]:
    return [opened.is_connected, opened.lost and list(opened.lost),
            opened.evicted and list(opened.evicted), *opened[3:]]


def _open(value: Any) -> history.OpenTrouble | None:
    """The Open of a state; None for another value: the state's file may be damaged."""
    if not isinstance(value, list) or len(value) != 6 or value[0] not in (True, False, None):
        return None
    try:
        return history.OpenTrouble(value[0], _change(value[1]), _change(value[2]),
                            *map(bool, value[3:]))
    except (TypeError, ValueError):
        return None


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 <= value < 2**53


_FORM: tuple[Callable[[Any], bool], ...] = (
    lambda kind: kind in (EVICTED, CONNECTION_LOST), _is_time, _is_time,
    lambda over: over is None or _is_time(over), lambda count: isinstance(count, int),
    lambda origin: isinstance(origin, (list, tuple)) and all(isinstance(one, str)
                                                             for one in origin),
    lambda message: isinstance(message, str))


def _change(value: Any) -> history.TargetChange | None:
    if value is None:
        return None
    if len(value) != len(_FORM) or not all(is_so(one) for is_so, one in zip(_FORM, value)):
        raise ValueError
    found = history.TargetChange(*value)
    return found._replace(origin=tuple(found.origin))
