"""
How this machine is now, beside its events, and what of it may not be read; for `iostats events
--local`.
"""

from __future__ import annotations

import os

from iostats.events import import_changes, server_reading
from iostats.lustre import import_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iostats.base.config import Config

_MOST_NAMED = 8                     # targets in a line
_MOST_UNREAD = 3                    # lines


def now_in_words(status: dict[str, Any], root: str, config: Config) -> tuple[list[str], list[str]]:
    """
    ([how it is now], [what may not be read, and why]); none where there is no Lustre.

    `status`: of a Look.
    """
    lines, unread = [], []
    if status.get("health"):
        lines.append(f"now: {status['health']}")
    targets = status.get("targets")
    if targets:
        lines.append(_count_in_words("up", len(targets), {
            name: str(about["state"]) for name, about in targets.items()
            if about.get("state") not in (None, "up")}))
    files = import_files.read(root, config["node.file_systems"])
    texts = import_changes.texts_of(files)
    if texts:
        lines.append(_count_in_words("connected", len(texts), {
            name.partition("-osc-")[0].partition("-mdc-")[0]: _state_in(one[0])
            for name, one in texts.items() if not import_changes.is_connected(one)}))
    refused = [file.errno for file in files if file.source == import_files.STATE and file.errno]
    if refused:
        unread.append(f"how this node stands with {len(refused)} targets cannot be read: "
                      f"{os.strerror(refused[0])}")
    if os.geteuid():
        unread += server_reading.read_server(root).why
    more = len(unread) - _MOST_UNREAD
    return lines, unread[:_MOST_UNREAD] + ([f"... and {more} more"] if more > 0 else [])


def _count_in_words(how: str, count: int, others: Mapping[str, str]) -> str:
    """"now: 11 of 12 targets up; scratch-OST0003 recovering"."""
    named = ", ".join(f"{name} {state}" for name, state in sorted(others.items())[:_MOST_NAMED])
    more = len(others) - _MOST_NAMED
    return (f"now: {count - len(others)} of {count} targets {how}" + (f"; {named}" if named else "")
            + (f" and {more} more" if more > 0 else ""))


def _state_in(text: str) -> str:
    """The word of `current_state: FULL`."""
    return text.partition("\n")[0].partition(": ")[2].strip()[:20] or "unknown"
