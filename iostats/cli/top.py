"""
iostats top: who loads the file systems now, from the site's server, on one storage server, or from
a saved dump of its job_stats.
"""

from __future__ import annotations

import json
import os
import sys
import time

from iostats.base import config as site
from iostats.base.errors import DONE, IostatsError, NotDelivered, UsageError
from iostats.cli.parser import parser, put_out, status_of, table_width, whole_number
from iostats.load import levels, table
from iostats.load.amounts import SHOWN, SORT
from iostats.load.ranking import MOST_ROWS, LoadQuery

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection
    from typing import Any, NoReturn, Union

    from iostats.storage import local_load

    LoadSource = Union["SiteLoad", local_load.LocalLoad, local_load.DumpLoad]

HELP = f"""\
usage: iostats top [options]
       iostats top --local [options]
       iostats top --statsfile FILE [FILE] [options]

Show who loads the file systems now, live in a terminal: what each job writes
and reads, its requests of all kinds, and those to metadata targets that are
neither reads nor writes.  (no job) is I/O whose id is no batch job's: cp.0,
kworker, or none.

options:
  --by WHAT             {levels.by_help(24)}
  --sort WHAT           write, read, requests or metadata (default: write), or
                        what --show names
  --show WHAT,...       more columns: open, close, mknod, mkdir, unlink, rmdir,
                        rename, getattr, setattr, getxattr, statfs, sync, punch;
                        latency: milliseconds that a storage server took for a
                        request, on average (Lustre 2.14 and later)
  --percent             in percent of the file system's total
  --fs NAME             this file system only
  --user NAME           this user's jobs only
  --count N             up to N rows (default: what fits the terminal)
  --every S             update every S seconds (default: 5; --local: 10)
  --once                print one table, and end
  --json                a JSON document in place of a table
  --local               on a storage server, from its own job_stats; by node:
                        from its exports
  --root DIR            with --local: read proc/ and sys/ below DIR (default: /)
  --statsfile FILE [FILE]
                        from saved output of `lctl get_param *.*.job_stats`, by
                        node of `lctl get_param *.*.exports.*.stats`; with two:
                        the I/O between them, over --every S, or else the time
                        between the latest entries of both
  --job-id FORM         without the site's server: the form of job ids
                        (default: [harvest] job_id of site.cfg)
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

keys:
  w r i m               sort by written, read, requests, metadata requests
  o c g a x d y         show opens, closes, getattr, setattr, getxattr, unlink
                        (d), sync, and sort by them; once more: as before
  l                     show the mean latency, and sort by it; once more: as
                        before
  %                     in percent, or not
  {levels.keys_help(24)}
  f                     the next file system, or all of them
  /                     only rows with a text in them (Enter; Esc: as before)
  space                 update now
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

_WITHIN_S = 10.0


def main(arguments: list[str] | None = None) -> int:
    """Show it; the exit status."""
    command_line = parser("iostats top", HELP,
                          ("--by", "--sort", "--show", "--fs", "--user", "--count", "--every",
                           "--root", "--job-id", "--config"),
                          ("--once", "--json", "--local", "--percent"))
    command_line.add_argument("--statsfile", nargs="+")
    return status_of(lambda: _run(command_line.parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    config = site.load(options.config)
    ask, source = _ask(options), _source(options, config)
    if options.json and options.percent:
        raise UsageError("--percent: expected a table, got --json")
    view = View(config, options.json, options.count is not None, options.percent)
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
        print("iostats: no live table: the Python package rich is not installed", file=sys.stderr)
        return _log(source, ask, view)         # a storage server that has Python and no more
    from iostats.cli.top_live import LiveTable
    return LiveTable(source, ask, view).run()


def _ask(options: argparse.Namespace) -> LoadQuery:
    level = _level(options.by)
    show = tuple(dict.fromkeys(filter(None, (options.show or "").split(","))))
    for one in show:
        _one_of("--show", one, SHOWN, "")
    sort = _one_of("--sort", options.sort, (*SORT, *show), "write")
    count = whole_number("--count", options.count, MOST_ROWS) if options.count else 1000
    if (options.local or options.statsfile) and (
            options.user or (level.needs_batch_system and level.client_group is None)):
        asked = "--user" if options.user else f"--by {level.option_name}"
        raise UsageError(f"{asked}: expected the site's server to ask, got "
                         f"{'--local' if options.local else '--statsfile'}: job_stats tell no "
                         f"job's user")
    return LoadQuery(level.name, options.fs or "", options.user or "", "", "", sort, count, None,
                     show)


def _level(given: str | None, quiet: bool = False) -> levels.Level:
    for level in levels.OF_TOP:
        if given in (level.option_name, level.name):
            if given != level.option_name and not quiet:
                print(f"iostats: --by {given}: the name is now {level.option_name}",
                      file=sys.stderr)
            return level
    _one_of("--by", given, [level.option_name for level in levels.OF_TOP], "")
    return levels.OF_TOP[0]


def _source(options: argparse.Namespace, config: site.Config) -> LoadSource:
    if options.local and options.statsfile:
        raise UsageError("expected --local or --statsfile, got both")
    if options.root and not options.local:
        raise UsageError("--root: expected --local with it")
    every_s = _seconds(options.every)
    if not options.local and not options.statsfile:
        if options.job_id:
            raise UsageError("--job-id: expected --local or --statsfile with it; the site's server "
                             "has its own ([harvest] job_id)")
        return SiteLoad(config, every_s or 5.0)
    from iostats.storage import local_load
    form = options.job_id or config["harvest.job_id"]
    by_client = _level(options.by, quiet=True).client_group is not None
    if options.local:
        return local_load.LocalLoad(options.root or "/", config, form, every_s or 10.0, by_client)
    if len(options.statsfile) > 2:
        raise UsageError(f"--statsfile: expected one file or two, got {len(options.statsfile)}")
    return local_load.DumpLoad(options.statsfile, form, every_s, by_client)


def _one_of(name: str, given: str | None, choices: Collection[str], default: str) -> str:
    if given is not None and given not in choices:
        raise UsageError(f"{name}: expected {', '.join(choices)}, got {given[:40]!r}")
    return given or default


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


class SiteLoad:
    """The site's server, which answers each question anew."""

    origin = ""
    lacks: tuple[str, ...] = ()         # levels that cannot be asked for

    def __init__(self, config: site.Config, every_s: float) -> None:
        self._config, self.every_s = config, every_s

    def look(self) -> bool:
        """Nothing is kept here."""
        return False

    def answer(self, ask: LoadQuery) -> dict[str, Any]:
        from iostats.cli.site_client import ask_site, form_checked
        params = ask._asdict()
        answer = ask_site(self._config, "load", params, _WITHIN_S, is_quiet=True)
        if not isinstance(answer, dict) or not {"rows", "file_systems", "left_off"} <= set(answer):
            raise NotDelivered("the site's server answers in another form: use one release of "
                               "iostats here and there")
        with form_checked("a row"):                     # before anything is on the screen
            table.parts(answer)
        return answer


class View:
    """How an answer is written."""

    def __init__(self, config: site.Config, as_json: bool, is_counted: bool,
                 shares: bool = False) -> None:
        self.units, self.labels = config["report.units"], config.labels
        self.shares = shares
        self.as_json, self.is_counted = as_json, is_counted

    def write(self, answer: dict[str, Any], origin: str) -> None:
        """On standard output: a table, or a line of JSON."""
        if self.as_json:
            put_out([json.dumps(answer), "\n"])
            return
        put_out(f"{line}\n" for line in table.lines(
            answer, table_width(), self.units, self.labels, origin=origin, shares=self.shares))


def _log(source: LoadSource, ask: LoadQuery, view: View) -> NoReturn:
    """One table after the other, for ever; a failure is printed once."""
    printed, is_first = None, True
    while True:
        try:
            wait = source.look()
            if not wait:
                answer = source.answer(ask)
                if not is_first and not view.as_json:
                    print()
                view.write(answer, source.origin)
                printed = None
            is_first = is_first and wait
        except IostatsError as error:
            if is_first:
                raise
            if str(error) != printed:
                printed = str(error)
                print(f"iostats: {error}", file=sys.stderr, flush=True)
        time.sleep(source.every_s)
