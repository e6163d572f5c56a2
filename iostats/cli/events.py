"""
iostats events: what went wrong, on which storage server or node, in the habits of journalctl and
sacct; from sites' servers, from collectors, or from this machine alone.

Standard library only, as `--local` runs where there is nothing else.
"""

from __future__ import annotations

import math
import queue
import select
import sys
import time
from collections import namedtuple

from iostats.base import config as site
from iostats.base.errors import DONE, NOT_REACHED, IostatsError, UsageError
from iostats.cli import event_cursor_file, event_question
from iostats.cli.entry_point import to_nowhere
from iostats.cli.event_follow import Followed, ask_all
from iostats.cli.event_output import (
    NO_EVENTS,
    EventForm,
    JournalLines,
    MergedEvents,
    SeenEvents,
)
from iostats.cli.event_question import EventQuestion
from iostats.cli.event_servers import ServerCursor, server_of, site_of
from iostats.cli.parser import (
    has_colours,
    moments_of,
    parser,
    put_out,
    say,
    status_of,
    terminal_width,
    whole_number,
)
from iostats.events import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from iostats.cli.event_cursor_file import KeptCursors
    from iostats.cli.event_follow import Told
    from iostats.cli.event_servers import EventPage
    from iostats.events.event import Event

HELP = """\
usage: iostats events [options]
       iostats events --local [options]

Print what went wrong on storage servers and compute nodes, a line for each
event: evictions, lost connections, targets that are down, recovery, LBUGs ...
docs/events.md has the kinds, and -x says what each means and what to do.

Without -S, -n and -j: the last 24 hours.  root and [site] readers see all;
others see events of targets, and of nodes while their jobs had them.

which events:
  -S, --since TIME      from TIME on
  -E, --until TIME      up to TIME
  -n, --lines [N|all]   the N latest (default: 10, with -n alone and with -f)
  -f, --follow          then each one as it comes, until Ctrl-C
  -p, --severity LEVEL  info, warning, critical or fatal, and worse (0 to 3)
  --fs NAMES            of these file systems
  --node NODES          told by these storage servers or nodes, or about them:
                        a node list, nid[001-004],oss1, or the NID of a client
  -j, --job JOB         that this job met: on its nodes, and on its file systems
  --kind KINDS          of these kinds: evicted,target_down

what is shown:
  -r, --reverse         the newest first
  -x, --explain         behind the first of each kind: what it is, why, what to do
  -l, --full            whole lines; else a terminal's are cut to its width
  --utc                 times in UTC
  --json                a JSON object a line (docs/events.md)
  -q, --quiet           no messages but errors
  --no-pager            ignored: there is none

whom to ask:
  --server SERVER       a collector, HOST (on port 8980) or http://HOST:PORT, or
                        a site's server, HOST:PORT (default: [site] host); given
                        twice or more: all of them, each event once
  --cursor-file FILE    what came after that which was printed with this file
                        before; nothing of it is shown twice
  --local               what this machine knows: no server, nothing installed
                        (iostats_client.py events --local, where Python is all)
  --root DIR            with --local: read dev/, proc/ and sys/ below DIR
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

times:
  YYYY-MM-DD[THH:MM[:SS]]  MMDD[YY][-HH:MM]  HH:MM[:SS]  today  yesterday
  midnight  noon  1121-noon  now-3days  now-2hours  utsSECONDS ...

With -f an event is shown once more, as "update:", when more of it is known:
its number has grown, or it is over.

examples:
  iostats events -x -p critical
  iostats events -f --fs scratch --server mds1 --server mds2
  iostats events -S 03:00 --node nid00007 --json | jq .message

exit status:
  0 printed, also if there was no event   1 it could not be read or written
  2 bad usage or site.cfg   3 a server was not reached, or refused; what the
  others know was printed   130 ended by Ctrl-C
"""

# Behind the first name: what journalctl and sacct call it.
_VALUES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("-S", "--since", "--starttime"), "since"), (("-E", "--until", "--endtime", "-U"), "until"),
    (("-p", "--severity", "--priority"), "severity"), (("-j", "--job", "--jobs"), "job"),
    (("--cursor-file",), "cursor_file"), (("--root",), "root"), (("--config",), "config"))
_LISTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("--fs",), "file_systems"), (("--node", "--nodes"), "nodes"), (("--kind", "--kinds"), "kinds"),
    (("--server",), "servers"))
_FLAGS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("-f", "--follow"), "follow"), (("-r", "--reverse"), "reverse"),
    (("-x", "--explain", "--catalog"), "explain"), (("-l", "--full"), "full"),
    (("--utc",), "utc"), (("--json",), "json"), (("-q", "--quiet"), "quiet"),
    (("--no-pager",), "no_pager"), (("--local",), "local"))
_DEFAULT_SINCE = "now-1day"
_FOLLOWED_LINES = 10
_MOST_LINES = 999_999_999
_MOST_SERVERS = 64
_PART_S, _MOST_PARTS = 86400.0, 100
_LOOK_EVERY_S = 0.5                 # whether those who read our output are still there

Asked = namedtuple("Asked", "question last options form")
Asked.__doc__ = """
What the command line asks for.

Attributes:
    question: an EventQuestion.
    last: how many, the latest ones; None: all.
    options: argparse's.
    form: an EventForm.
"""


def main(arguments: list[str] | None = None) -> int:
    """Print; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    return status_of(lambda: _run(_parsed(arguments)))


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    found = parser("iostats events", HELP, (), ())
    for names, attribute in _VALUES:
        found.add_argument(*names, dest=attribute)
    for names, attribute in _LISTS:
        found.add_argument(*names, dest=attribute, action="append", default=[])
    for names, attribute in _FLAGS:
        found.add_argument(*names, dest=attribute, action="store_true")
    found.add_argument("-n", "--lines", dest="lines", nargs="?", const=str(_FOLLOWED_LINES))
    return found.parse_args(list(arguments))


def _run(options: argparse.Namespace) -> int:
    config = site.load(options.config)
    kept = event_cursor_file.read(options.cursor_file)
    asked = _asked(options, time.time(), bool(kept.servers))
    if options.local:
        from iostats.cli import events_local
        return events_local.run(config, asked)
    if options.root:
        raise UsageError("--root: expected --local with it")
    servers = [server_of(text, config) for text in options.servers] or [site_of(config)]
    names = [one.name for one in servers]
    if len(set(names)) < len(names) or len(names) > _MOST_SERVERS:
        raise UsageError(f"--server: expected up to {_MOST_SERVERS}, each once, got "
                         f"{' '.join(names)[:200]}")
    cursors = [ServerCursor(one, asked.question, *kept.servers.get(one.name, ()))
               for one in servers]
    return _Monitor(asked, cursors, kept).run()


def _asked(options: argparse.Namespace, now: float, goes_on: bool) -> Asked:
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
        last = whole_number("--lines", options.lines, _MOST_LINES)
    is_bare = options.since is None and options.lines is None and not goes_on
    if options.follow and is_bare:
        last = _FOLLOWED_LINES
    since, until = moments_of(options, now, _DEFAULT_SINCE if (
        is_bare and not options.follow and not options.job and not options.local) else None)
    question = EventQuestion(
        since, until, 0 if options.severity is None else kinds.severity_of(
            options.severity, "--severity"),
        event_question.file_systems_of(options.file_systems),
        event_question.nodes_of(options.nodes), event_question.kinds_of(options.kinds),
        event_question.job_of(options.job) if options.job else "")
    width = None if options.full or options.json else terminal_width()
    return Asked(question, last, options, EventForm(
        options.json, options.utc, options.explain, width, has_colours(sys.stdout), now))


def parts_of(whole: EventQuestion, now: float, is_reversed: bool) -> list[EventQuestion]:
    """The same question in parts of a day or more, in their order; one where it has no begin."""
    if whole.since is None:
        return [whole]
    ends = now if whole.until is None else whole.until
    each_s = max(_PART_S, (ends - whole.since) / _MOST_PARTS)
    count = max(1, math.ceil((ends - whole.since) / each_s))
    found = [whole._replace(since=whole.since + number * each_s,
                            until=whole.since + (number + 1) * each_s) for number in range(count)]
    found[-1] = found[-1]._replace(until=whole.until)
    return found[::-1] if is_reversed else found


class Printed:
    """Prints events, each once; see SeenEvents."""

    def __init__(self, asked: Asked, seen: SeenEvents) -> None:
        self.seen, self._asked, self._lines = seen, asked, JournalLines(asked.form)

    def events(self, events: Sequence[Event], names: dict[str, str]) -> int:
        """Print those that are new or have grown, at once; how many."""
        lines: list[str] = []
        count = 0
        for event in events:
            is_shown, is_update = self.seen.take(event)
            if is_shown:
                lines += self._lines.lines(event, names, is_update)
                count += 1
        put_out(lines)
        return count

    def nothing(self) -> None:
        """There was no event."""
        if not self._asked.form.is_json and not self._asked.options.quiet:
            put_out([NO_EVENTS])

    def say(self, text: str) -> None:
        """A message that is no error."""
        if not self._asked.options.quiet:
            say(text)


def is_read() -> bool:
    """False when the program that reads our output has gone."""
    poll = select.poll()
    poll.register(1, 0)
    return not any(flags & (select.POLLERR | select.POLLHUP | select.POLLNVAL)
                   for _, flags in poll.poll(0))


class _Monitor:
    """Asks the servers, prints, and goes on with --follow."""

    def __init__(self, asked: Asked, cursors: Sequence[ServerCursor], kept: KeptCursors) -> None:
        """`kept`: where another one of us stopped."""
        self._asked, self._cursors, self._before = asked, cursors, kept.servers
        self._out = Printed(asked, SeenEvents(kept.shown))
        self._marks: dict[str, tuple[int, str, float]] = {}     # what is printed of each
        self._written: object = None
        self._down: dict[str, bool] = {}            # server: it has answered before
        self._bad: set[str] = set()
        self._partial: set[str] = set()             # servers that do not tell all
        self._dropped: dict[str, int] = {}          # server: what it said of these

    def run(self) -> int:
        """The exit status."""
        options = self._asked.options
        if options.follow or options.cursor_file or self._asked.last is not None:
            merged = self._merged(self._cursors)
            count = self._out.events(merged.in_order(self._asked.last, options.reverse),
                                     merged.names)
            self._keep()
        else:
            count = self._in_parts()
        if options.follow:
            for cursor in self._cursors:
                if cursor.name in self._down:
                    cursor.failed()
            return self._follow()
        if not count:
            self._out.nothing()
        return NOT_REACHED if self._down else DONE

    def _in_parts(self) -> int:
        """Print all of a long time in parts, so that not all of it is in memory; how many."""
        whole, is_reversed = self._asked.question, self._asked.options.reverse
        count = 0
        for part in parts_of(whole, self._asked.form.now, is_reversed):
            merged = self._merged([cursor.of(part) for cursor in self._cursors
                                   if cursor.name not in self._down])
            # What began before a part, and was not over, is of the part before.
            count += self._out.events([
                event for event in merged.in_order(is_reversed=is_reversed)
                if (part.since == whole.since or event.time >= part.since)
                and (part.until == whole.until or event.time < part.until)], merged.names)
        return count

    def _merged(self, cursors: Sequence[ServerCursor]) -> MergedEvents:
        """
        What these servers tell; who does not answer is said, and is in `_down`.  Raises the error
        where none answers, and none did before.
        """
        merged, errors = MergedEvents(), list[IostatsError]()
        for cursor, end in zip(cursors, ask_all(cursors, self._asked.last)):
            for page in end.pages:
                self._note(cursor, page)
                for event, names in page.events:
                    merged.add(event, names)
            if end.error is not None:
                self._down[cursor.name] = bool(end.pages)
                errors.append(end.error)
        # One that goes on from a cursor file is a service, which outlives its servers.
        if errors and len(errors) == len(self._cursors) and not (
                self._asked.options.follow and self._before):
            for error in errors[:-1]:
                say(str(error))
            raise errors[-1]
        for error in errors:
            say(f"{error}; without it" + (
                "; trying again" if self._asked.options.follow else ""))
        return merged

    def _follow(self) -> int:
        told: queue.Queue[Told] = queue.Queue(4)    # a terminal that is stopped stops us, too
        followed = Followed(self._cursors, told)
        try:
            while is_read():
                try:
                    one = told.get(timeout=_LOOK_EVERY_S)
                except queue.Empty:
                    continue
                self._take(one)
        finally:
            followed.close()
        to_nowhere(1)                               # its reader has gone
        return DONE

    def _take(self, told: Told) -> None:
        name, page = told.cursor.name, told.page
        if page is None:
            if name not in self._down:
                self._down[name] = True
                say(f"{told.error}; trying again")
            return
        merged = MergedEvents()
        for event, names in page.events:
            merged.add(event, names)
        if name in self._down and page.more and not page.events:
            return                                  # it begins its numbers anew
        count = self._out.events(merged.in_order(), merged.names)
        self._note(told.cursor, page)
        self._keep()
        if name in self._down and not page.more:
            del self._down[name]
            self._out.say(f"{name} answers again; {count or 'no'} event{'s' * (count != 1)} came "
                          f"meanwhile")

    def _note(self, cursor: ServerCursor, page: EventPage) -> None:
        if page.of_user and cursor.name not in self._partial:
            self._partial.add(cursor.name)
            self._out.say(f"{cursor.name}: {page.of_user} sees there what storage servers tell of "
                          f"targets, and with -j what happened to the nodes of a job of their own; "
                          f"root and [site] readers see all")
        if page.bad and cursor.name not in self._bad:
            self._bad.add(cursor.name)
            say(f"{cursor.name}: an event cannot be shown: {page.bad}; use one release of iostats "
                f"here and there")
        if page.dropped and self._dropped.get(cursor.name) != page.dropped:
            self._dropped[cursor.name] = page.dropped
            say(f"{cursor.name}: {page.dropped} events were dropped there for lack of room")
        before = self._marks.get(cursor.name)
        self._marks[cursor.name] = (page.next, page.places, before[2] if page.more and before
                                    else page.time)

    def _keep(self) -> None:
        path, now = self._asked.options.cursor_file, {
            name: mark[:2] for name, mark in self._marks.items()}
        if path and now != self._written:
            event_cursor_file.write(path, {**self._before, **self._marks}, self._out.seen)
            self._written = now
