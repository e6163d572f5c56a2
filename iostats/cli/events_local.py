"""
iostats events --local: what this machine itself knows of what went wrong, with no server; standard
library only.

The kernel's log is read from its oldest line that is there, /proc and /sys as they are now.  With
--follow the log is read as it comes, and the files each [events] every.
"""

from __future__ import annotations

import os
import select
import sys
import time

from iostats.base.errors import DONE, UNREADABLE, UsageError, one_line
from iostats.cli.entry_point import to_nowhere
from iostats.cli.event_output import MergedEvents, SeenEvents
from iostats.cli.event_question import is_wanted
from iostats.cli.events import Printed, is_read
from iostats.cli.events_now import now_in_words
from iostats.cli.parser import put_out, say
from iostats.events.gather import Gathering
from iostats.node import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.base.config import Config
    from iostats.cli.events import Asked

_LOG_EVERY_S = 1.0                  # at most so often, however much is logged


def run(config: Config, asked: Asked) -> int:
    """Print what there is, and go on with --follow; the exit status."""
    root = asked.options.root or "/"
    if not os.path.isdir(root):
        raise UsageError(f"--root: expected a directory, got {root[:200]!r}")
    gathering = Gathering(root, config, identity.name(), identity.boot_id(root), None)
    try:
        return _run(gathering, config, asked, root)
    finally:
        gathering.close()


def _run(gathering: Gathering, config: Config, asked: Asked, root: str) -> int:
    out = Printed(asked, SeenEvents())
    merged, status = _looked(gathering, asked)
    log: dict[str, Any] = status["log"]
    lines, unread = now_in_words(status, root, config)
    if log["why"]:
        unread.insert(0, _why_in_words(log))
    for number, line in enumerate(unread, 1):
        say(line + (_command_that_fixes_it(root) if number == len(unread) else ""))
    count = out.events(merged.in_order(asked.last, asked.options.reverse), {})
    if not asked.form.is_json and not asked.options.quiet:
        put_out(f"-- {one_line(line)} --\n" for line in lines)
    if asked.options.follow:
        _follow(gathering, config["events.every"], asked, out)
        return DONE
    if not count:
        out.nothing()
    is_blind = log["source"] == "none" and config["events.kernel_log"] != "no"
    return UNREADABLE if is_blind and not count else DONE


def _looked(gathering: Gathering, asked: Asked) -> tuple[MergedEvents, dict[str, Any]]:
    """All that is new, by now, and the status."""
    merged = MergedEvents()
    while True:
        found = gathering.look()
        for event in found.events:
            if is_wanted(event, asked.question):
                merged.add(event, {})
        gathering.told()
        if not found.more:
            return merged, found.status


def _follow(gathering: Gathering, every_s: float, asked: Asked, out: Printed) -> None:
    poll = select.poll()
    handle = -1
    due = time.monotonic() + every_s
    while is_read():
        if gathering.fileno() != handle:                # the log was closed, or opened
            if handle >= 0:
                poll.unregister(handle)
            handle = gathering.fileno()
            if handle >= 0:
                poll.register(handle, select.POLLIN)
        left = min(max(0.0, due - time.monotonic()), _LOG_EVERY_S)
        has_lines = bool(poll.poll(left * 1000))
        if not has_lines and time.monotonic() < due:
            continue
        if has_lines:
            time.sleep(0.1)                             # what comes together is read together
        merged, _ = _looked(gathering, asked)
        out.events(merged.in_order(), {})
        due = time.monotonic() + every_s
        if has_lines:
            time.sleep(_LOG_EVERY_S - 0.1)
    to_nowhere(1)


def _why_in_words(log: dict[str, Any]) -> str:
    if log["source"] != "none":
        return f"the kernel's log is read from {log['source']}: {log['why']}"
    return f"the kernel's log cannot be read: {log['why']}"


def _command_that_fixes_it(root: str) -> str:
    return "" if os.geteuid() == 0 or root != "/" else f"; try: sudo {_this_command()} --local"


def _this_command() -> str:
    """As it can be called again."""
    script = sys.argv[0]
    if os.path.basename(script) != "iostats_client.py":
        return "iostats events"
    return f"{sys.executable} -I -S {os.path.abspath(script)} events"
