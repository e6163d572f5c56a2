"""
What events are learnt from besides the kernel's log, one file each; the directory is the list.

A source is a module with

    NAME                         as its file: "health"
    ROLES                        where there is anything to read: some of "server" and "client"
    look(place, before, now)     Found: what is new since the last look
    counted_since(state)         {kind: the time since when a counter has all of its events};
                                 optional

`place` is a Place; `before` is the `state` of the last Found, any JSON value, and None at the first
look since the machine was booted: counts of then are a beginning, and no events.  `now` is the wall
clock, s since 1970.  look() does not raise for files that are missing, unreadable or damaged.

A restart, even a kill at any moment, can call look() once more with an older `before`.  So the
origin that an event is made with (event.made) has what was there before it: (NAME, target, "23")
where a count was 23, and the event's count says how many came.  A number that only the state knows
("the third time") begins at 1 again where the state is lost, within one boot; it stands behind
`place.series`, or a new event would have the id of an old one.  The log is read after the sources:
a line of it that tells of the same thing is there already, and joining makes one event of both.

What is told of evictions that a storage server counted has the cause "unknown", the target, and
`time` and `last` of the two looks between which they came; those that are in the log, too, are
taken off.

Adding a source is adding a file.
"""

from __future__ import annotations

import os
import sys
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

ROLES = ("server", "client")

Place = namedtuple("Place", "root config node boot_id series", defaults=("",))
Place.__doc__ = """
Where a source looks.

Attributes:
    root: the directory that has proc/ and sys/.
    config: base.config.Config.
    node: this machine's name.
    boot_id: as in /proc/sys/kernel/random/boot_id; it belongs into every event's id.
    series: text that is another one each time that this source begins without a state.
"""

Found = namedtuple("Found", "events state status")
Found.__doc__ = """
What one look of a source found.

Attributes:
    events: [Event], as event.made() makes them.
    state: a JSON value, for the next look.
    status: {"health": "healthy"}, {"targets": {name: {"state": "up", "clients": 37}}}: what it
        knows now; those of all sources are put together, target by target.
"""

_seen: dict[str, ModuleType] = {}


def known(roles: tuple[str, ...] = ROLES) -> dict[str, ModuleType]:
    """{name: module} of the sources that have something to read in one of `roles`."""
    if not _seen:
        for filename in sorted(os.listdir(os.path.dirname(__file__))):
            name, dot_py = os.path.splitext(filename)
            if dot_py == ".py" and name != "__init__":
                path = f"{__name__}.{name}"
                __import__(path)
                _seen[name] = sys.modules[path]
    return {name: module for name, module in _seen.items() if set(module.ROLES) & set(roles)}
