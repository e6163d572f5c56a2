"""
iostats events: what went wrong, on which storage server or node, in the style of journalctl and
sacct; from sites' servers, from collectors, or from this machine only.

Standard library only, as `--local` runs where nothing else is installed.

The file of --cursor-file has the position in each server's events, and which events were printed,
so that the next call continues there:

    {"servers": {"mgmt1:19990": [4711, "9f2c31d0", 1795225060.0]}, "shown": [["ID", 23, false]]}

It is written after the events are printed: if the monitor is killed in between, no event is lost,
and the last ones may be printed again.

Several servers are followed at the same time: a thread queries each, so that a server that does not
answer delays no other one; their answers arrive in one queue.
"""

from __future__ import annotations

import json
import math
import queue
import random
import select
import sys
import threading
import time

from iostats.base import config as site
from iostats.base import private_files, strict_json
from iostats.base.errors import DONE, NOT_REACHED, IostatsError, StateError, UsageError
from iostats.base.messages import print_message
from iostats.base.named_tuple import NamedTuple
from iostats.cli import CONFIG, event_selection, flag, option, repeated
from iostats.cli.entry_point import redirect_to_null
from iostats.cli.event_output import (
    NO_EVENTS,
    EventForm,
    JournalLines,
    MergedEvents,
    SeenEvents,
)
from iostats.cli.event_selection import EventSelection
from iostats.cli.event_servers import ServerCursor, find_site_server, parse_server
from iostats.cli.parser import (
    Times,
    can_show_colours,
    get_terminal_width,
    parse_options,
    parse_times,
    parse_whole_number,
    run_role,
    write_output,
)
from iostats.events import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from queue import Queue

    from iostats.cli.event_servers import EventPage
    from iostats.events.event import Event

_DEFAULT_LINES = 10


class EventsOptions(Times, help="""\
usage: iostats events [options]
       iostats events --local [options]

Print what went wrong on storage servers and compute nodes, a line for each
event: evictions, lost connections, targets that are down, recovery, LBUGs ...
docs/reference/events.md has the kinds; -x explains each, and what to do.

Without -S, -n and -j: the last 24 hours.  root and [site] readers see all;
others see events of targets, and of nodes while their jobs ran there.

which events:
{common}
{which}

what is shown:
{shown}

servers:
{servers}
{options}

times:
  YYYY-MM-DD[THH:MM[:SS]]  MMDD[YY][-HH:MM]  HH:MM[:SS]  today  yesterday
  midnight  noon  1121-noon  now-3days  now-2hours  utsSECONDS ...

With -f an event is shown again, as "update:", when its count has grown or it is
over.

examples:
  iostats events -x -p critical
  iostats events -f --fs scratch --server mds1 --server mds2
  iostats events -S 03:00 --node nid00007 --json | jq .message

exit status:
  0 printed, also if there was no event   1 it could not be read or written
  2 bad usage or site.cfg   3 a server was not reached, or refused; the events
  of the others were printed   130 ended by Ctrl-C
"""):
    since = option("-S, --since TIME", "from TIME on", "common", aliases="--starttime")
    until = option("-E, --until TIME", "up to TIME", "common", aliases="--endtime -U")
    lines = option("-n, --lines [N|all]",
                   "the N latest (default: 10, with -n alone and with -f)",
                   "which", bare=str(_DEFAULT_LINES))
    follow = flag("-f, --follow", "then each new event, until Ctrl-C", "which")
    severity = option("-p, --severity LEVEL",
                      "info, warning, critical or fatal, or worse (0 to 3)",
                      "which", aliases="--priority")
    file_systems = repeated("--fs NAMES", "of these file systems", "which")
    nodes = repeated("--node NODES",
                     "reported by these storage servers or nodes, or about them: a node list, "
                     "nid[001-004],oss1, or the NID of a client", "which", aliases="--nodes")
    job = option("-j, --job JOB",
                 "during this job: on its nodes, and on its file systems",
                 "which", aliases="--jobs")
    kinds = repeated("--kind KINDS",
                     "of these kinds: evicted,target_down", "which", aliases="--kinds")
    reverse = flag("-r, --reverse", "the newest first", "shown")
    explain = flag("-x, --explain",
                   "after the first of each kind: its meaning, its cause, and what to do",
                   "shown", aliases="--catalog")
    full = flag("-l, --full", "whole lines; else a terminal's are cut to its width", "shown")
    utc = flag("--utc", "times in UTC", "shown")
    json = flag("--json", "a JSON object a line (docs/reference/events.md)", "shown")
    quiet = flag("-q, --quiet", "only errors as messages", "shown")
    no_pager = flag("--no-pager", "ignored: there is none", "shown")
    servers = repeated("--server SERVER",
                       "a collector, HOST (on port 8980) or http://HOST:PORT, or a site's server, "
                       "HOST:PORT (default: [site] host); given twice or more: all of them, each "
                       "event once", "servers")
    cursor_file = option("--cursor-file FILE",
                         "continue after the events that were printed with this file before; none "
                         "is shown twice", "servers")
    local = flag("--local",
                 "the events of this machine itself, without a server (iostats_client.py events "
                 "--local, if only Python is installed)", "servers")
    root = option("--root DIR", "with --local: read dev/, proc/ and sys/ below DIR", "servers")
    config = CONFIG

_DEFAULT_SINCE = "now-1day"
_MAX_LINES = 999_999_999
_MAX_SERVERS = 64
_PART_S, _MAX_PARTS = 86400.0, 100
_POLL_EVERY_S = 0.5             # a check that the reader of our output has not closed the pipe
_MAX_SHOWN = 10_000
POLL_S = 1.0                    # between two queries of a server that answers
_RETRY_S, _MAX_RETRY_S = 0.5, 5.0
_WITHIN_S = 10.0                # for an answer of a server that is followed


class EventsCommand(NamedTuple):
    """The parsed command line."""

    question: EventSelection
    last: int | None                # only the N latest; None: all
    options: EventsOptions
    form: EventForm


def main(arguments: list[str] | None = None) -> int:
    """Print events; returns the exit status."""
    return run_role(lambda: _run(parse_options(EventsOptions, arguments)))


def _run(options: EventsOptions) -> int:
    config = site.load(options.config)
    saved = read_cursors(options.cursor_file)
    command = _parse_command(options, time.time(), bool(saved.servers))
    if options.local:
        from iostats.cli import events_local
        return events_local.run(config, command)
    if options.root:
        raise UsageError("--root: expected --local with it")
    servers = [parse_server(text, config) for text in options.servers] or [find_site_server(config)]
    names = [server.name for server in servers]
    if len(set(names)) < len(names) or len(names) > _MAX_SERVERS:
        raise UsageError(f"--server: expected up to {_MAX_SERVERS}, each once, got "
                         f"{' '.join(names)[:200]}")
    cursors = [ServerCursor(server, command.question, *saved.servers.get(server.name, ()))
               for server in servers]
    return _Monitor(command, cursors, saved).run()


def _parse_command(options: EventsOptions, now: float, has_cursor: bool) -> EventsCommand:
    if options.follow and options.reverse:
        raise UsageError("expected --follow or --reverse, got both")
    if options.local and (options.servers or options.job or options.cursor_file):
        raise UsageError(f"{'--server' if options.servers else '--job' if options.job else ''}"
                         f"{'' if options.servers or options.job else '--cursor-file'}: expected "
                         f"a server, got --local")
    if options.follow and options.until is not None:
        raise UsageError("--until: expected no --follow with it")
    last = None
    if options.lines is not None and options.lines != "all":
        last = parse_whole_number("--lines", options.lines, _MAX_LINES)
    is_bare = options.since is None and options.lines is None and not has_cursor
    if options.follow and is_bare:
        last = _DEFAULT_LINES
    since, until = parse_times(options, now, _DEFAULT_SINCE if (
        is_bare and not options.follow and not options.job and not options.local) else None)
    selection = EventSelection(
        since, until, 0 if options.severity is None else kinds.parse_severity(
            options.severity, "--severity"),
        event_selection.parse_file_systems(options.file_systems),
        event_selection.parse_nodes(options.nodes), event_selection.parse_kinds(options.kinds),
        event_selection.parse_job(options.job) if options.job else "")
    width = None if options.full or options.json else get_terminal_width()
    return EventsCommand(selection, last, options, EventForm(
        options.json, options.utc, options.explain, width, can_show_colours(sys.stdout), now))


def split_time(whole: EventSelection, now: float, is_reversed: bool) -> list[EventSelection]:
    """The selection in parts of a day or more, in order; one part if it has no beginning."""
    if whole.since is None:
        return [whole]
    ends = now if whole.until is None else whole.until
    part_s = max(_PART_S, (ends - whole.since) / _MAX_PARTS)
    count = max(1, math.ceil((ends - whole.since) / part_s))
    parts = [whole._replace(since=whole.since + number * part_s,
                            until=whole.since + (number + 1) * part_s) for number in range(count)]
    parts[-1] = parts[-1]._replace(until=whole.until)
    return parts[::-1] if is_reversed else parts


class EventPrinter:
    """Prints events, each once; see SeenEvents."""

    def __init__(self, command: EventsCommand, shown: SeenEvents) -> None:
        self.seen, self._command, self._journal_lines = shown, command, JournalLines(command.form)

    def print_events(self, events: Sequence[Event], names: dict[str, str]) -> int:
        """Print new and grown events at once; returns how many."""
        lines: list[str] = []
        count = 0
        for event in events:
            is_shown, is_update = self.seen.add(event)
            if is_shown:
                lines += self._journal_lines.lines(event, names, is_update)
                count += 1
        write_output(lines)
        return count

    def print_none(self) -> None:
        """Print that there was no event."""
        if not self._command.form.is_json and not self._command.options.quiet:
            write_output([NO_EVENTS])

    def print_note(self, text: str) -> None:
        """Print a message that is no error."""
        if not self._command.options.quiet:
            print_message(text)


def has_reader() -> bool:
    """False if the program that reads our output has closed the pipe."""
    poll = select.poll()
    poll.register(1, 0)
    return not any(flags & (select.POLLERR | select.POLLHUP | select.POLLNVAL)
                   for _, flags in poll.poll(0))


class _Monitor:
    """Queries the servers, prints, and continues with --follow."""

    def __init__(self, command: EventsCommand, cursors: Sequence[ServerCursor],
                 saved: SavedCursors) -> None:
        """`saved`: the positions of an earlier call."""
        self._command, self._cursors, self._saved_positions = command, cursors, saved.servers
        self._out = EventPrinter(command, SeenEvents(saved.shown))
        self._positions: dict[str, tuple[int, str, float]] = {}     # up to which each was printed
        self._written: object = None
        self._down: dict[str, bool] = {}            # server: whether it has answered before
        self._servers_with_errors: set[str] = set()
        self._partial_servers: set[str] = set()  # servers that show this user only a part
        self._dropped: dict[str, int] = {}          # server: its count of dropped events

    def run(self) -> int:
        """Print the events, and follow them if requested; returns the exit status."""
        options = self._command.options
        if options.follow or options.cursor_file or self._command.last is not None:
            merged = self._fetch_merged(self._cursors)
            count = self._out.print_events(merged.sort_events(self._command.last, options.reverse),
                                           merged.names)
            self._save_cursors()
        else:
            count = self._print_in_parts()
        if options.follow:
            for cursor in self._cursors:
                if cursor.name in self._down:
                    cursor.failed()
            return self._follow()
        if not count:
            self._out.print_none()
        return NOT_REACHED if self._down else DONE

    def _print_in_parts(self) -> int:
        """
        Print a long time in parts, so that not all of it is in memory; returns how many events.
        """
        whole, is_reversed = self._command.question, self._command.options.reverse
        count = 0
        for part in split_time(whole, self._command.form.now, is_reversed):
            merged = self._fetch_merged([cursor.for_selection(part) for cursor in self._cursors
                                         if cursor.name not in self._down])
            # An event that began before a part, and was not over, belongs to the part before.
            count += self._out.print_events([
                event for event in merged.sort_events(is_reversed=is_reversed)
                if (part.since in (None, whole.since) or event.time >= part.since)
                and (part.until in (None, whole.until) or event.time < part.until)], merged.names)
        return count

    def _fetch_merged(self, cursors: Sequence[ServerCursor]) -> MergedEvents:
        """
        The events of these servers; one that does not answer is reported, and is in `_down`.
        Raises the error if none answers, and there is no saved position.
        """
        merged, errors = MergedEvents(), list[IostatsError]()
        for cursor, end in zip(cursors, fetch_all(cursors, self._command.last)):
            for page in end.pages:
                self._note_page(cursor, page)
                for event, names in page.events:
                    merged.add(event, names)
            if end.error is not None:
                self._down[cursor.name] = bool(end.pages)
                errors.append(end.error)
        # With a cursor file it is a service, which waits for its servers.
        if errors and len(errors) == len(self._cursors) and not (
                self._command.options.follow and self._saved_positions):
            for error in errors[:-1]:
                print_message(str(error))
            raise errors[-1]
        for error in errors:
            print_message(f"{error}; without it" + (
                "; trying again" if self._command.options.follow else ""))
        return merged

    def _follow(self) -> int:
        # Bounded: a stopped terminal stops us, too.
        answers: queue.Queue[ServerAnswer] = queue.Queue(4)
        followed = ServerFollower(self._cursors, answers)
        try:
            while has_reader():
                try:
                    answer = answers.get(timeout=_POLL_EVERY_S)
                except queue.Empty:
                    continue
                self._print_answer(answer)
        finally:
            followed.close()
        redirect_to_null(1)                               # its reader has closed the pipe
        return DONE

    def _print_answer(self, answer: ServerAnswer) -> None:
        name, page = answer.cursor.name, answer.page
        if page is None:
            if name not in self._down:
                self._down[name] = True
                print_message(f"{answer.error}; trying again")
            return
        merged = MergedEvents()
        for event, names in page.events:
            merged.add(event, names)
        if name in self._down and page.more and not page.events:
            return                                  # its numbering restarts
        count = self._out.print_events(merged.sort_events(), merged.names)
        self._note_page(answer.cursor, page)
        self._save_cursors()
        if name in self._down and not page.more:
            del self._down[name]
            self._out.print_note(f"{name} answers again; {count or 'no'} event{'s' * (count != 1)} "
                                 f"arrived in between")

    def _note_page(self, cursor: ServerCursor, page: EventPage) -> None:
        if page.of_user and cursor.name not in self._partial_servers:
            self._partial_servers.add(cursor.name)
            self._out.print_note(f"{cursor.name}: {page.of_user} sees there the storage servers' "
                                 f"events of "
                                 f"targets, and with -j the events of the nodes of an own job; "
                                 f"root and [site] readers see all")
        if page.bad and cursor.name not in self._servers_with_errors:
            self._servers_with_errors.add(cursor.name)
            print_message(f"{cursor.name}: an event cannot be shown: {page.bad}; use the same "
                          f"release of "
                          f"iostats here and there")
        if page.dropped and self._dropped.get(cursor.name) != page.dropped:
            self._dropped[cursor.name] = page.dropped
            print_message(f"{cursor.name}: {page.dropped} events were dropped there for lack of "
                          f"space")
        before = self._positions.get(cursor.name)
        self._positions[cursor.name] = (page.next, page.places, before[2] if page.more and before
                                        else page.time)

    def _save_cursors(self) -> None:
        path, now = self._command.options.cursor_file, {
            name: mark[:2] for name, mark in self._positions.items()}
        if path and now != self._written:
            write_cursors(path, {**self._saved_positions, **self._positions},
                          self._out.seen)
            self._written = now


class SavedCursors(NamedTuple):
    # {name: (place, name of the numbering, the server's clock then)}
    servers: dict[str, tuple[int, str, float]]
    shown: list[tuple[str, int, bool]]  # [(id, count, is over)]


def read_cursors(path: str | None) -> SavedCursors:
    """The content of the cursor file; empty if there is no file yet; StateError."""
    if path is None:
        return SavedCursors({}, [])
    try:
        content = strict_json.loads(private_files.read_text(path))
        servers = {str(name): (int(after), str(places), float(at))
                   for name, (after, places, at) in content["servers"].items()}
        return SavedCursors(servers, [(str(name), int(count), bool(is_over))
                                      for name, count, is_over in content["shown"]])
    except FileNotFoundError:
        return SavedCursors({}, [])
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise StateError(f"{path}: expected what --cursor-file wrote, got something else "
                         f"({error!r:.100}); remove it to start from the beginning") from None


def write_cursors(path: str, servers: dict[str, tuple[int, str, float]], seen: SeenEvents) -> None:
    """Replace the cursor file; StateError."""
    try:
        private_files.write_atomically(path, json.dumps(
            {"servers": servers, "shown": seen.latest(_MAX_SHOWN)},
            separators=(",", ":")).encode())
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror}") from None


class ServerAnswer(NamedTuple):
    """A server's answer, or its error, as a thread hands it over."""

    cursor: ServerCursor
    page: EventPage | None      # an EventPage; None if it did not answer
    error: IostatsError | None  # the IostatsError in that case


class AllPages(NamedTuple):
    """All answers of a server, and the error if it did not answer to the end."""

    pages: list[EventPage]
    error: IostatsError | None


class ServerFollower:
    """Queries servers again and again; `queue` gets a ServerAnswer for each query."""

    def __init__(self, cursors: Sequence[ServerCursor], queue: Queue[ServerAnswer]) -> None:
        self._queue, self._ended = queue, threading.Event()
        for cursor in cursors:
            threading.Thread(target=self._follow, args=(cursor,), daemon=True).start()

    def close(self) -> None:
        """Stop querying."""
        self._ended.set()

    def _follow(self, cursor: ServerCursor) -> None:
        pause_s = 0.0
        while not self._ended.wait(pause_s):
            try:
                page = cursor.fetch_page(within_s=_WITHIN_S)
            except IostatsError as error:
                cursor.failed()
                self._queue.put(ServerAnswer(cursor, None, error))
                # So that many monitors do not retry at the same moment.
                pause_s = min(max(pause_s * 2, _RETRY_S), _MAX_RETRY_S) * random.uniform(0.7, 1.0)
                continue
            self._queue.put(ServerAnswer(cursor, page, None))
            pause_s = 0.0 if page.more and page.events else POLL_S


def fetch_all(cursors: Sequence[ServerCursor], last: int | None) -> list[AllPages]:
    """
    The AllPages of each server, fetched at the same time.

    `last`: only the N latest events; None: all.
    """
    pages: list[list[EventPage]] = [[] for _ in cursors]
    errors: list[BaseException | None] = [None for _ in cursors]

    def fetch(number: int) -> None:
        try:
            page = cursors[number].fetch_page(last or 0)
            pages[number].append(page)
            while page.more:
                page = cursors[number].fetch_page()
                pages[number].append(page)
        except BaseException as error:
            errors[number] = error
    threads = [threading.Thread(target=fetch, args=(number,), daemon=True)
               for number in range(len(cursors))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = []
    for server_pages, error in zip(pages, errors):
        if error is not None and not isinstance(error, IostatsError):
            raise error
        ended.append(AllPages(server_pages, error))
    return ended
