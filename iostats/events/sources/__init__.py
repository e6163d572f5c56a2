"""
The sources of events besides the kernel's log, one file each; the directory is the list.

A source is a module with

    NAME                         as its file: "health"
    ROLES                        where there is anything to read: some of "server" and "client"
    scan(place, before, now)     SourceResult: what is new since the last scan
    counted_since(state)         {kind: the time since when a counter has all of its events};
                                 optional

`place` is a Place; `before` is the `state` of the last SourceResult, any JSON value; None at the
first scan since the machine was booted: counts of then are a beginning, and no events.  `now` is
the wall clock, s since 1970.  scan() does not raise for files that are missing, unreadable or
damaged.

A restart, even a kill at any moment, can call scan() once more with an older `before`.  So the
origin that an event is made with (event.make_event) has what was there before it:
(NAME, target, "23") where a count was 23, and the event's count says how many came.  A number that
only the state knows ("the third time") begins at 1 again where the state is lost, within one boot;
it stands behind `place.series`, or a new event would have the id of an old one.  The log is read
after the sources: a line of it about the same event is joined with it.

The event of evictions that a storage server counted has the cause "unknown", the target, and
`time` and `last` of the two looks between which they came; those that are in the log, too, are
taken off.

Adding a source is adding a file.
"""

from __future__ import annotations

import os
import sys

from iostats.base.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from iostats.base.config import Config
    from iostats.events.event import Event
    from iostats.events.status import ServerStatus

    class EventSource(Protocol):
        """The functions that each module of this directory has."""

        NAME: str
        ROLES: tuple[str, ...]

        def scan(self, place: Place, before: object, now: float) -> SourceResult: ...
        def counted_since(self, state: object) -> dict[str, float]: ...

ROLES = ("server", "client")


class Place(NamedTuple):
    """The place that a source reads."""

    root: str           # the directory that has proc/ and sys/
    config: Config      # base.config.Config
    node: str           # this machine's name
    boot_id: str        # as in /proc/sys/kernel/random/boot_id; it belongs into every event's id
    # {name: (time, what was read then)}, of one Gathering: for other sources, and the next scan
    cache: dict[str, tuple[float, Any]]
    series: str = ""    # text that is another one each time that this source begins without a state


class SourceResult(NamedTuple):
    """The result of one scan of a source."""

    events: list[Event]     # [Event], as event.make_event() makes them
    state: object           # a JSON value, for the next scan
    # {"health": "healthy"}, {"targets": {name: {"state": "up", "clients": 37}}}: what it knows now;
    # those of all sources are put together, target by target
    status: ServerStatus


_seen: dict[str, EventSource] = {}


def list_sources(roles: tuple[str, ...] = ROLES) -> dict[str, EventSource]:
    """Return {name: module} of the sources for any of `roles`."""
    if not _seen:
        for filename in sorted(os.listdir(os.path.dirname(__file__))):
            name, dot_py = os.path.splitext(filename)
            if dot_py == ".py" and name != "__init__":
                path = f"{__name__}.{name}"
                __import__(path)
                module: Any = sys.modules[path]
                _seen[name] = module
    return {name: module for name, module in _seen.items() if set(module.ROLES) & set(roles)}
