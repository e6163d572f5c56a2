"""
iostats top: the present load of the file systems by job, user, node or target, from the site's
server, on one storage server, or from a saved dump of its job_stats.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from iostats.base import config as site
from iostats.base.errors import DONE, IostatsError, NotDelivered, UsageError
from iostats.base.messages import print_message
from iostats.cli import CONFIG, Options, flag, option, repeated
from iostats.cli.parser import (
    choose_table_width,
    parse_options,
    parse_whole_number,
    run_role,
    write_output,
)
from iostats.load import levels, table
from iostats.load.amounts import SHOWN, SORT
from iostats.load.ranking import MOST_ROWS, LoadQuery
from iostats.report.site_methods import LOAD

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import NoReturn, Union

    from iostats.load.answer import Answer
    from iostats.storage import local_load

    LoadSource = Union["SiteLoad", local_load.LocalLoad, local_load.DumpLoad]


class TopOptions(Options, help=f"""\
usage: iostats top [options]
       iostats top --local [options]
       iostats top --statsfile FILE [FILE] [options]

Show the present load of the file systems, live in a terminal: what each job
writes and reads, its requests of all kinds, and those to metadata targets that
are neither reads nor writes.  (no job) is I/O whose id names no batch job:
cp.0, kworker, or no id.

options:
{{options}}

keys:
  w r i m               sort by written, read, requests, metadata requests
  o c g a x d y         show opens, closes, getattr, setattr, getxattr, unlink
                        (d), sync, and sort by them; once more: as before
  l                     show the mean latency, and sort by it; once more: as
                        before
  %                     in percent, or not
  {levels.format_keys_help(24)}
  f                     the next file system, or all of them
  /                     only rows with a text in them (Enter; Esc: as before)
  space                 update now
  q                     quit

examples:
  iostats top --by user --sort metadata
  iostats top --once --fs scratch --limit 10
  iostats top --show open,latency --sort open
  iostats top --local --every 20
  iostats top --statsfile before.txt after.txt --json

exit status:
  0 shown   1 job_stats could not be read, or the table not be written
  2 bad usage or site.cfg   3 the site's server was not reached
"""):
    by = option("--by WHAT", levels.format_levels())
    sort = option("--sort WHAT",
                  "write, read, requests or metadata (default: write), or a column of --show")
    show = option("--show WHAT,...",
                  "more columns: open, close, mknod, mkdir, unlink, rmdir, rename, getattr, "
                  "setattr, getxattr, statfs, sync, punch; latency: a storage server's mean time "
                  "for a request, in milliseconds (Lustre 2.14 and later)")
    percent = flag("--percent", "in percent of the file system's total")
    fs = option("--fs NAME", "only this file system")
    user = option("--user NAME", "only this user's jobs")
    limit = option("--limit N", "up to N rows (default: as many as fit the terminal)")
    every = option("--every S", "update every S seconds (default: 5; --local: 10)")
    once = flag("--once", "print one table, and end")
    json = flag("--json", "a JSON document in place of a table")
    local = flag("--local",
                 "on a storage server, from its own job_stats; by node: from its exports")
    root = option("--root DIR", "with --local: read proc/ and sys/ below DIR (default: /)")
    statsfile = repeated("--statsfile FILE [FILE]",
                         "from saved output of `lctl get_param *.*.job_stats`, by node of `lctl "
                         "get_param *.*.exports.*.stats`; with two: the I/O between them, over "
                         "--every S, or else the time between the latest entries of both")
    job_id = option("--job-id FORM",
                    "without the site's server: the form of job ids (default: [harvest] job_id of "
                    "site.cfg)")
    config = CONFIG

_WITHIN_S = 10.0


def main(arguments: list[str] | None = None) -> int:
    """Show the load; returns the exit status."""
    return run_role(lambda: _run(parse_options(TopOptions, arguments)))


def _run(options: TopOptions) -> int:
    config = site.load(options.config)
    query, source = _parse_query(options), _open_source(options, config)
    if options.json and options.percent:
        raise UsageError("--percent: expected a table, got --json")
    view = View(config, options.json, options.limit is not None, options.percent)
    if options.statsfile or options.once:
        while source.scan():
            time.sleep(source.every_s)
        view.write(source.answer(query), source.origin)
        return DONE
    if options.json or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in (
            "dumb", "unknown"):
        return _print_tables(source, query, view)
    try:
        from rich.live import Live  # noqa: F401
    except ModuleNotFoundError:
        print_message("no live table: the Python package rich is not installed")
        return _print_tables(source, query, view)         # a storage server with only Python
    from iostats.cli.top_live import LiveTable
    return LiveTable(source, query, view).run()


def _parse_query(options: TopOptions) -> LoadQuery:
    level = _find_level(options.by)
    show = tuple(dict.fromkeys(filter(None, (options.show or "").split(","))))
    for name in show:
        _check_choice("--show", name, SHOWN, "")
    sort = _check_choice("--sort", options.sort, (*SORT, *show), "write")
    count = parse_whole_number("--limit", options.limit, MOST_ROWS) if options.limit else 1000
    if (options.local or options.statsfile) and (
            options.user or (level.needs_batch_system and level.client_group is None)):
        option = "--user" if options.user else f"--by {level.option_name}"
        raise UsageError(f"{option}: expected the site's server to ask, got "
                         f"{'--local' if options.local else '--statsfile'}: job_stats have no "
                         f"user of a job")
    return LoadQuery(level.name, options.fs or "", options.user or "", "", "", sort, count, None,
                     show)


def _find_level(name: str | None) -> levels.Level:
    for level in levels.OF_TOP:
        if name == level.option_name:
            return level
    _check_choice("--by", name, [level.option_name for level in levels.OF_TOP], "")
    return levels.OF_TOP[0]


def _open_source(options: TopOptions, config: site.Config) -> LoadSource:
    if options.local and options.statsfile:
        raise UsageError("expected --local or --statsfile, got both")
    if options.root and not options.local:
        raise UsageError("--root: expected --local with it")
    every_s = _parse_seconds(options.every)
    if not options.local and not options.statsfile:
        if options.job_id:
            raise UsageError("--job-id: expected --local or --statsfile with it; the site's server "
                             "has its own ([harvest] job_id)")
        return SiteLoad(config, every_s or 5.0)
    from iostats.storage import local_load
    form = options.job_id or config.harvest.job_id
    by_client = _find_level(options.by).client_group is not None
    if not options.statsfile:
        return local_load.LocalLoad(options.root or "/", config, form, every_s or 10.0, by_client)
    if len(options.statsfile) > 2:
        raise UsageError(f"--statsfile: expected one file or two, got {len(options.statsfile)}")
    return local_load.DumpLoad(options.statsfile, form, every_s, by_client)


def _check_choice(name: str, choice: str | None, choices: Collection[str], default: str) -> str:
    if choice is not None and choice not in choices:
        raise UsageError(f"{name}: expected {', '.join(choices)}, got {choice[:40]!r}")
    return choice or default


def _parse_seconds(text: str | None) -> float | None:
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
    """The site's server, which computes each answer from its last sweep."""

    origin = ""
    lacks: tuple[str, ...] = ()         # levels that cannot be queried

    def __init__(self, config: site.Config, every_s: float) -> None:
        self._config, self.every_s = config, every_s

    def scan(self) -> bool:
        """Return False: local sources need no second reading."""
        return False

    def answer(self, query: LoadQuery) -> Answer:
        from iostats.cli.site_client import ask_site, check_format
        params = query._asdict()
        answer = ask_site(self._config, LOAD, params, _WITHIN_S, is_quiet=True)
        if not isinstance(answer, dict) or not {"rows", "file_systems", "left_off"} <= set(answer):
            raise NotDelivered("unexpected format of the site's server's answer; use the same "
                               "release of iostats here and there")
        with check_format("a row"):                     # before anything is printed
            table.parts(answer)
        return answer


class View:
    """The format of an answer."""

    def __init__(self, config: site.Config, as_json: bool, is_counted: bool,
                 shares: bool = False) -> None:
        self.units, self.labels = config.report.units, config.labels
        self.shares = shares
        self.as_json, self.is_counted = as_json, is_counted

    def write(self, answer: Answer, origin: str) -> None:
        """Write it to standard output: a table, or a line of JSON."""
        if self.as_json:
            write_output([json.dumps(answer), "\n"])
            return
        write_output(f"{line}\n" for line in table.format_lines(
            answer, choose_table_width(), self.units, self.labels, origin=origin,
            shares=self.shares))


def _print_tables(source: LoadSource, query: LoadQuery, view: View) -> NoReturn:
    """Print one table after the other, without end; a failure is printed once."""
    printed, is_first = None, True
    while True:
        try:
            wait = source.scan()
            if not wait:
                answer = source.answer(query)
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
                print_message(error)
        time.sleep(source.every_s)
