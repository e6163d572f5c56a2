"""
The file of `iostats events --cursor-file`: up to where each server was shown, and which events
were, so that the next one goes on there.

    {"servers": {"mgmt1:19990": [4711, "9f2c31d0", 1795225060.0]}, "shown": [["ID", 23, false]]}

It is written after the events are printed: whatever kills the monitor in between, no event is lost,
and the last ones may be shown once more.
"""

from __future__ import annotations

import json
from collections import namedtuple

from iostats.base import private_files, strict_json
from iostats.base.errors import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.cli.event_output import SeenEvents

_MOST_SHOWN = 10_000

KeptCursors = namedtuple("KeptCursors", "servers shown")
KeptCursors.__doc__ = """
Attributes:
    servers: {name: (place, name of the numbering, the server's clock then)}.
    shown: [(id, count, is over)].
"""


def read(path: str | None) -> KeptCursors:
    """What the file has; nothing where there is no file yet; StateError."""
    if path is None:
        return KeptCursors({}, [])
    try:
        found = strict_json.loads(private_files.read_text(path))
        servers = {str(name): (int(after), str(places), float(at))
                   for name, (after, places, at) in found["servers"].items()}
        return KeptCursors(servers, [(str(name), int(count), bool(is_over))
                              for name, count, is_over in found["shown"]])
    except FileNotFoundError:
        return KeptCursors({}, [])
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise StateError(f"{path}: expected what --cursor-file wrote, got something else "
                         f"({error!r:.100}); remove it to begin anew") from None


def write(path: str, servers: dict[str, tuple[int, str, float]], seen: SeenEvents) -> None:
    """Replace the file; StateError."""
    try:
        private_files.write_whole(path, json.dumps(
            {"servers": servers, "shown": seen.kept(_MOST_SHOWN)},
            separators=(",", ":")).encode())
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror}") from None
