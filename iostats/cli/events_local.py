"""
iostats events --local: the events of this machine itself, without a server; standard library only.

The kernel's log is read from its oldest line, /proc and /sys as they are now.  With --follow new
lines of the log are read at once, and the files each [events] every.
"""

from __future__ import annotations

import os
import select
import sys
import time

from iostats.base.errors import DONE, UNREADABLE, UsageError, sanitize
from iostats.base.messages import print_message
from iostats.cli.entry_point import redirect_to_null
from iostats.cli.event_output import MergedEvents, SeenEvents
from iostats.cli.event_selection import is_selected
from iostats.cli.events import EventPrinter, has_reader
from iostats.cli.parser import write_output
from iostats.events import import_changes, server_reading
from iostats.events.gather import Gathering
from iostats.lustre import import_files
from iostats.node import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iostats.base.config import Config
    from iostats.cli.events import EventsCommand
    from iostats.events.status import LogStatus, ServerStatus

_LOG_EVERY_S = 1.0              # at most so often, whatever the number of lines
_MAX_NAMED = 8                  # targets in a line
_MAX_UNREAD = 3                 # lines


def run(config: Config, command: EventsCommand) -> int:
    """Print the events, and continue with --follow; the exit status."""
    root = command.options.root or "/"
    if not os.path.isdir(root):
        raise UsageError(f"--root: expected a directory, got {root[:200]!r}")
    gathering = Gathering(root, config, identity.find_node_name(), identity.read_boot_id(root),
                          None)
    try:
        return _run(gathering, config, command, root)
    finally:
        gathering.close()


def _run(gathering: Gathering, config: Config, command: EventsCommand, root: str) -> int:
    out = EventPrinter(command, SeenEvents())
    merged, status = _read_new(gathering, command)
    log = status["log"]
    lines, unread = describe_state(status, root, config)
    if log["why"]:
        unread.insert(0, _describe_log(log))
    for number, line in enumerate(unread, 1):
        print_message(line + (_suggest_command(root) if number == len(unread) else ""))
    count = out.print_events(merged.sort_events(command.last, command.options.reverse), {})
    if not command.form.is_json and not command.options.quiet:
        write_output(f"-- {sanitize(line)} --\n" for line in lines)
    if command.options.follow:
        _follow(gathering, config.events.every, command, out)
        return DONE
    if not count:
        out.print_none()
    is_blind = log["source"] == "none" and config.events.kernel_log != "no"
    return UNREADABLE if is_blind and not count else DONE


def _read_new(gathering: Gathering, command: EventsCommand) -> tuple[MergedEvents, ServerStatus]:
    """Return (all new events, the status)."""
    merged = MergedEvents()
    while True:
        batch = gathering.scan()
        for event in batch.events:
            if is_selected(event, command.question):
                merged.add(event, {})
        gathering.acknowledge()
        if not batch.more:
            return merged, batch.status


def _follow(gathering: Gathering, every_s: float, command: EventsCommand,
            out: EventPrinter) -> None:
    poll = select.poll()
    handle = -1
    due = time.monotonic() + every_s
    while has_reader():
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
            time.sleep(0.1)  # so that lines of one moment are read together
        merged, _ = _read_new(gathering, command)
        out.print_events(merged.sort_events(), {})
        due = time.monotonic() + every_s
        if has_lines:
            time.sleep(_LOG_EVERY_S - 0.1)
    redirect_to_null(1)


def _describe_log(log: LogStatus) -> str:
    if log["source"] != "none":
        return f"the kernel's log is read from {log['source']}: {log['why']}"
    return f"the kernel's log cannot be read: {log['why']}"


def _suggest_command(root: str) -> str:
    return "" if os.geteuid(
        ) == 0 or root != "/" else f"; try: sudo {_format_this_command()} --local"


def _format_this_command() -> str:
    """The command line for another call."""
    script = sys.argv[0]
    if os.path.basename(script) != "iostats_client.py":
        return "iostats events"
    return f"{sys.executable} -I -S {os.path.abspath(script)} events"


def describe_state(status: ServerStatus, root: str, config: Config) -> tuple[list[str],
                                                                               list[str]]:
    """
    Return ([line on the present state], [line on unreadable files]); both [] without Lustre.

    `status`: of a Look.
    """
    lines, unread = [], []
    if status.get("health"):
        lines.append(f"now: {status['health']}")
    targets = status.get("targets")
    if targets:
        lines.append(_describe_count("up", len(targets), {
            name: str(about["state"]) for name, about in targets.items()
            if about.get("state") not in (None, "up")}))
    files = import_files.read(root, config.node.file_systems)
    texts = import_changes.make_unparsed_state(files)
    if texts:
        lines.append(_describe_count("connected", len(texts), {
            name.partition("-osc-")[0].partition("-mdc-")[0]: _parse_state(text[0])
            for name, text in texts.items() if not import_changes.is_connected(text)}))
    refused = [file.errno for file in files if file.source == import_files.STATE and file.errno]
    if refused:
        unread.append(f"the connections of this node to {len(refused):,} targets cannot be read: "
                      f"{os.strerror(refused[0])}")
    if os.geteuid():
        unread += server_reading.read_server(root).why
    more = len(unread) - _MAX_UNREAD
    return lines, unread[:_MAX_UNREAD] + ([f"... and {more} more"] if more > 0 else [])


def _describe_count(state_name: str, count: int, exceptions: Mapping[str, str]) -> str:
    """"now: 11 of 12 targets up; scratch-OST0003 recovering"."""
    named = ", ".join(f"{name} {state}" for name, state in sorted(exceptions.items())[:_MAX_NAMED])
    more = len(exceptions) - _MAX_NAMED
    return (f"now: {count - len(exceptions):,} of {count:,} targets {state_name}"
            + (f"; {named}" if named else "")
            + (f" and {more} more" if more > 0 else ""))


def _parse_state(text: str) -> str:
    """The state in `current_state: FULL`."""
    return text.partition("\n")[0].partition(": ")[2].strip()[:20] or "unknown"
