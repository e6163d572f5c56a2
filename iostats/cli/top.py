"""
iostats top: who loads the file systems now, from the site's server, on one storage server, or from
a saved dump of its job_stats.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import select
import shutil
import signal
import sys
import termios
import threading
import time
import tty

from iostats.base import config as site
from iostats.base.errors import DONE, IostatsError, NotDelivered, UsageError, one_line
from iostats.cli.parser import parser, put_out, status_of
from iostats.load import ranking, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterator, Sequence
    from types import FrameType
    from typing import Any, NoReturn, Union

    from rich.live import Live

    from iostats.storage import local_load

    Source = Union["_Site", local_load.Here, local_load.Dumps]
    Asked = tuple[ranking.Ask, dict[str, Any]]      # and its answer
    Line = tuple[str, str]                        # and rich's style

HELP = """\
usage: iostats top [options]
       iostats top --local [options]
       iostats top --statsfile FILE [FILE] [options]

Show who loads the file systems now, live in a terminal: of each job what it
writes and reads, its requests (of all kinds), and those to metadata targets that
are no reads or writes.  (no job) is what came under ids that are no job's: cp.0,
kworker, or none.

options:
  --by WHAT             job, user, node (compute nodes: job_stats do not tell a
                        job's nodes apart, so each has an equal part of it: ~),
                        server (storage servers), target or fs (default: job)
  --sort WHAT           write, read, requests or metadata (default: write), or
                        what --show names
  --show WHAT,...       more columns: open, close, mknod, mkdir, unlink, rmdir,
                        rename, getattr, setattr, getxattr, statfs, sync, punch;
                        latency: milliseconds that the servers took for a request,
                        on average (Lustre 2.14 and later)
  --percent             in percent of what all did on the file system
  --fs NAME             this file system alone
  --user NAME           this user's jobs alone
  --count N             so many rows at most (default: what fits the terminal)
  --every S             look again after S seconds (default: 5; --local: 10)
  --once                print one table, and end
  --json                a JSON document in place of a table
  --local               on a storage server, from its own job_stats
  --root DIR            with --local: read proc/ and sys/ below DIR (default: /)
  --statsfile FILE [FILE]
                        from saved output of `lctl get_param *.*.job_stats`; two:
                        what came in between, over --every S, or else the time
                        between the latest entries of both
  --job-id FORM         without the site's server: how the ids of jobs look
                        (default: [harvest] job_id of site.cfg)
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

keys:
  w r i m               sort by written, read, requests, metadata requests
  o c g a x d y         show opens, closes, getattr, setattr, getxattr, unlink (d),
                        sync, and sort by them; once more: as before
  l                     show the mean latency, and sort by it; once more: as before
  %                     in percent, or not
  j u n s t F           by job, user, compute node, storage server, target, file
                        system
  f                     the next file system, or all of them
  /                     only rows that have a text in them (Enter; Esc: as before)
  space                 look again now
  q                     quit

examples:
  iostats top --by user --sort metadata
  iostats top --once --fs scratch --count 10
  iostats top --show open,latency --sort open
  iostats top --local --every 20
  iostats top --statsfile before.txt after.txt --json

exit status:
  0 shown   1 job_stats could not be read, or the table not be written
  2 bad usage or site.cfg   3 the site's server was not reached
"""

_KEYS = "w r i m sort  ocgaxdyl show  % share  j u n s t F by  / find  f fs  q quit"
_SORT_OF = {"w": "write", "r": "read", "i": "requests", "m": "metadata"}
_SHOW_OF = {"o": "open", "c": "close", "g": "getattr", "a": "setattr", "x": "getxattr",
            "d": "unlink", "y": "sync", "l": ranking.LATENCY}
_BY_OF = {"j": "job", "u": "user", "n": "node", "s": "server", "t": "target", "F": "fs"}
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_NO_LETTER = re.compile("\x1b(?:\\[[0-9;?]*.?|O.)")
_WITHIN_S = 10.0
_LONGEST_TEXT = 100


def main(arguments: list[str] | None = None) -> int:
    """Show it; the exit status."""
    command_line = parser("iostats top", HELP,
                          ("--by", "--sort", "--show", "--fs", "--user", "--count", "--every",
                           "--root", "--job-id", "--config"),
                          ("--once", "--json", "--local", "--percent"))
    command_line.add_argument("--statsfile", nargs="+")
    try:
        return status_of(lambda: _run(command_line.parse_args(arguments)))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _run(options: argparse.Namespace) -> int:
    config = site.load(options.config)
    ask, source = _ask(options), _source(options, config)
    if options.json and options.percent:
        raise UsageError("--percent: expected a table, got --json")
    view = _View(config, options.json, options.count is not None, options.percent)
    if options.statsfile or options.once:
        while source.look():
            time.sleep(source.every_s)
        view.write(source.answer(ask), source.origin)
        return DONE
    if options.json or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in (
            "dumb", "unknown"):
        return _log(source, ask, view)
    try:
        from rich.live import Live  # noqa: F401
    except ModuleNotFoundError:
        print("iostats: one table below the other: there is no package rich here", file=sys.stderr)
        return _log(source, ask, view)         # a storage server that has Python and no more
    return _Live(source, ask, view).run()


def _ask(options: argparse.Namespace) -> ranking.Ask:
    by = _one_of("--by", options.by, ranking.BY, "job")
    show = tuple(dict.fromkeys(filter(None, (options.show or "").split(","))))
    for one in show:
        _one_of("--show", one, ranking.SHOWN, "")
    sort = _one_of("--sort", options.sort, (*ranking.SORT, *show), "write")
    count = _number("--count", options.count, ranking.MOST_ROWS) if options.count else 1000
    if (options.local or options.statsfile) and (options.user or by in ("user", "node")):
        raise UsageError(f"{'--user' if options.user else f'--by {by}'}: expected the site's "
                         f"server to ask, got {'--local' if options.local else '--statsfile'}: "
                         f"job_stats tell no job's user or nodes")
    return ranking.Ask(by, options.fs or "", options.user or "", "", "", sort, count, None, show)


def _source(options: argparse.Namespace, config: site.Config) -> Source:
    if options.local and options.statsfile:
        raise UsageError("expected --local or --statsfile, got both")
    if options.root and not options.local:
        raise UsageError("--root: expected --local with it")
    every_s = _seconds(options.every)
    if not options.local and not options.statsfile:
        if options.job_id:
            raise UsageError("--job-id: expected --local or --statsfile with it; the site's server "
                             "has its own ([harvest] job_id)")
        return _Site(config, every_s or 5.0)
    from iostats.storage import local_load
    form = options.job_id or config["harvest.job_id"]
    if options.local:
        return local_load.Here(options.root or "/", config, form, every_s or 10.0)
    if len(options.statsfile) > 2:
        raise UsageError(f"--statsfile: expected one file or two, got {len(options.statsfile)}")
    return local_load.Dumps(options.statsfile, form, every_s)


def _one_of(name: str, given: str | None, choices: Collection[str], default: str) -> str:
    if given is not None and given not in choices:
        raise UsageError(f"{name}: expected {', '.join(choices)}, got {given[:40]!r}")
    return given or default


def _number(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise UsageError(f"{name}: expected a number from 1 to {most}, got {text[:40]!r}")
    return int(text)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86400:
        raise UsageError(f"--every: expected seconds, from 0.1 to 86400, got {text[:40]!r}")
    return seconds


class _Site:
    """The site's server, which answers each question anew."""

    origin = ""

    def __init__(self, config: site.Config, every_s: float) -> None:
        self._config, self.every_s = config, every_s

    def look(self) -> bool:
        """Nothing is kept here."""
        return False

    def answer(self, ask: ranking.Ask) -> dict[str, Any]:
        from iostats.cli.site_server import asked, of_its_form
        params = ask._asdict()
        answer = asked(self._config, "load", params, _WITHIN_S)
        if not isinstance(answer, dict) or not {"rows", "file_systems", "left_off"} <= set(answer):
            raise NotDelivered("the site's server answers in another form: use one release of "
                               "iostats here and there")
        with of_its_form("a row"):                      # before anything is on the screen
            table.parts(answer)
        return answer


class _View:
    """How an answer is written."""

    def __init__(self, config: site.Config, as_json: bool, is_counted: bool,
                 shares: bool = False) -> None:
        self.units, self.labels = config["report.units"], config.labels
        self.shares = shares
        self._as_json, self.is_counted = as_json, is_counted

    def write(self, answer: dict[str, Any], origin: str) -> None:
        """On standard output: a table, or a line of JSON."""
        if self._as_json:
            put_out([json.dumps(answer), "\n"])
            return
        width = None
        if sys.stdout.isatty() or os.environ.get("COLUMNS"):
            width = max(1, shutil.get_terminal_size().columns)
        put_out(f"{line}\n" for line in table.lines(answer, width, self.units, self.labels,
                                                    origin=origin, shares=self.shares))


def _log(source: Source, ask: ranking.Ask, view: _View) -> NoReturn:
    """A table now and then, below one another; what fails is said once."""
    said, is_first = None, True
    while True:
        try:
            wait = source.look()
            if not wait:
                answer = source.answer(ask)
                if not is_first and not view._as_json:
                    print()
                view.write(answer, source.origin)
                said = None
            is_first = is_first and wait
        except IostatsError as error:
            if is_first:
                raise
            if str(error) != said:
                said = str(error)
                print(f"iostats: {error}", file=sys.stderr, flush=True)
        time.sleep(source.every_s)


# -- live --------------------------------------------------------------------------------------

class _Fetcher(threading.Thread):
    """Asks in the background, so that keys and signals never wait for a disk or a network."""

    def __init__(self, source: Source, ask: ranking.Ask, wake: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._source, self._wake = source, wake
        self._changed = threading.Condition()
        self._ask, self._is_due = ask, True
        self.found: Asked | None = None
        self.failed: BaseException | None = None

    def want(self, ask: ranking.Ask, now: bool = False) -> None:
        """Another question; `now`: and look again for it."""
        with self._changed:
            self._ask, self._is_due = ask, self._is_due or now
            self._changed.notify()

    def run(self) -> None:
        looked_at, asked = float("-inf"), None
        while True:
            with self._changed:
                while not self._is_due and self._ask == asked:
                    left = looked_at + self._source.every_s - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                due = self._is_due or time.monotonic() - looked_at >= self._source.every_s
                ask, self._is_due = self._ask, False
            try:
                if due:
                    looked_at = time.monotonic()
                    waits = self._source.look()
                if not waits:
                    self.found = ask, self._source.answer(ask)
                self.failed = None
            except BaseException as error:          # shown, or raised, by the one who draws
                self.failed = error
            asked = ask
            self._wake()


class _Live:
    """The table on a terminal, until q or a signal; the terminal is given back in any case."""

    def __init__(self, source: Source, ask: ranking.Ask, view: _View) -> None:
        self._source, self._ask, self._view = source, ask, view
        self._names: list[str] = []                 # of the file systems
        self._typed: str | None = None              # a text that is just typed after /
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._signals: list[int] = []

    def run(self) -> int:
        """Go on until it is over; the exit status."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        os.set_blocking(reading, False)

        def wake() -> None:
            with contextlib.suppress(BlockingIOError):
                os.write(writing, b".")

        def note(number: int, frame: FrameType | None) -> None:
            self._signals.append(number)
        before = {number: signal.signal(number, note)
                  for number in (*_ENDING, signal.SIGWINCH, signal.SIGTSTP)}
        woken_by = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self._fetcher = _Fetcher(self._source, self._ask, wake)
        try:
            self._fetcher.start()
            while True:
                with self._terminal() as live:
                    number = self._watch(live, reading)
                if number != signal.SIGTSTP:
                    return DONE if number in (None, signal.SIGINT) else 128 + number
                os.kill(os.getpid(), signal.SIGSTOP)         # until `fg`
        finally:
            signal.set_wakeup_fd(woken_by)
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def _terminal(self) -> Iterator[Live]:
        from rich.console import Console
        from rich.live import Live
        saved = termios.tcgetattr(self._keys) if self._keys is not None else []
        live = Live(console=Console(file=sys.stdout, highlight=False), screen=True,
                    auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        try:
            if self._keys is not None:
                tty.setcbreak(self._keys)
            live.start()
            yield live
        finally:
            try:
                live.stop()
            finally:
                if self._keys is not None:
                    termios.tcsetattr(self._keys, termios.TCSADRAIN, saved)

    def _watch(self, live: Live, reading: int) -> int | None:
        """Draw, and take keys, until a signal (its number) or q (None)."""
        while True:
            self._draw(live)
            files = [reading] if self._keys is None else [reading, self._keys]
            ready, _, _ = select.select(files, [], [])
            if reading in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(reading, 4096)
            while self._signals:
                number = self._signals.pop(0)
                if number != signal.SIGWINCH:
                    return number
            if self._keys in ready and not self._take(os.read(self._keys, 1024)):
                return None

    # -- keys

    def _take(self, data: bytes) -> bool:
        """Do what the keys say; False for the end."""
        if not data:
            return False                            # the terminal is gone
        # Keys that have no letter come as Esc and more; Esc itself comes alone.
        text = _NO_LETTER.sub("", self._decode(data))
        before = self._ask
        for key in text:
            if key == "\x1b":
                self._typed = None
            elif self._typed is not None:
                self._type(key, self._typed)
            elif key in ("q", "Q", "\x04"):
                return False
            elif key in _SORT_OF:
                self._ask = self._ask._replace(sort=_SORT_OF[key])
            elif key in _SHOW_OF:
                self._show(_SHOW_OF[key])
            elif key == "%":
                self._view.shares = not self._view.shares
            elif key in _BY_OF:
                self._choose(_BY_OF[key])
            elif key == "f":
                names = ["", *self._names]
                now = self._ask.file_system
                at = names.index(now) if now in names else 0
                self._ask = self._ask._replace(file_system=names[(at + 1) % len(names)])
            elif key == "/":
                self._typed = self._ask.text
            elif key == " ":
                self._fetcher.want(self._ask, now=True)
        if self._ask != before:
            self._fetcher.want(self._ask)
        return True

    def _show(self, what: str) -> None:
        """One more column, by which is sorted; or one less."""
        show, sort = self._ask.show, what
        if what in show:
            show = tuple(one for one in show if one != what)
            sort = "write" if self._ask.sort == what else self._ask.sort
        else:
            show = (*show, what)
        self._ask = self._ask._replace(show=show, sort=sort)

    def _choose(self, by: str) -> None:
        if by in self._source_lacks():
            return
        self._ask = self._ask._replace(by=by)

    def _source_lacks(self) -> Sequence[str]:
        return getattr(self._source, "lacks", ())

    def _type(self, key: str, typed: str) -> None:
        if key in "\r\n":
            self._ask, self._typed = self._ask._replace(text=typed.strip()), None
        elif key in "\x7f\b":
            self._typed = typed[:-1]
        elif key == "\x15":                         # Ctrl-U
            self._typed = ""
        elif key.isprintable() and len(typed) < _LONGEST_TEXT:
            self._typed = typed + key

    # -- the screen

    def _draw(self, live: Live) -> None:
        from rich.text import Text
        try:
            width, height = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            width, height = 80, 24
        width, height = width or 80, height or 24
        lines = self._lines(width, height)
        live.console.size = width, height
        text = Text(no_wrap=True, overflow="crop", end="")
        for place, (line, style) in enumerate(lines[:height]):
            text.append("\n" * (place > 0))
            text.append(line, style)
        live.update(text, refresh=True)

    def _lines(self, width: int, height: int) -> list[Line]:
        """[(line, rich's style)], as many as the terminal has."""
        found, failed = self._fetcher.found, self._fetcher.failed
        if failed is not None and not isinstance(failed, IostatsError):
            raise failed                            # a bug of ours
        if found is None and isinstance(failed, IostatsError):
            raise failed
        below = self._footer(width, failed, found)
        if found is None:
            lines = [(table.cut("reading ...", width), "")]
        else:
            answer = found[1]
            if not answer["file_system"]:
                self._names = [fs["file_system"] for fs in answer["file_systems"]]
            lines = self._table(answer, width, height - len(below))
        lines += [("", "")] * (height - len(below) - len(lines))
        return lines[:max(0, height - len(below))] + below

    def _table(self, answer: dict[str, Any], width: int, height: int) -> list[Line]:
        def parts(most: int) -> Any:
            return table.parts(answer, width, self._view.units, self._view.labels, most,
                               self._source.origin, self._view.shares)
        most = self._ask.count if self._view.is_counted else height
        title, heading, sums, rows, notes = parts(most)
        room = max(0, height - 2 - len(sums) - min(len(notes) or 1, 4))
        if len(rows) > room:
            title, heading, sums, rows, notes = parts(room)
        return [(title, "bold"), (heading, "reverse"), *((line, "bold") for line in sums),
                *((line, "") for line in rows), *((line, "dim") for line in notes[:4])]

    def _footer(self, width: int, failed: BaseException | None, found: Asked | None) -> list[Line]:
        lines = []
        if failed is not None:
            lines.append((table.cut(one_line(f"{failed}; trying again"), width), "bold"))
        if self._typed is not None:
            lines.append((table.cut(f"rows with: {self._typed}_", width), "reverse"))
        else:
            lines.append((table.cut(_KEYS, width), "reverse"))
        return lines
