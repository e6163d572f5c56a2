"""
iostats ldms plan: what `iostats ldms run` would do now, in its order, and why.
"""

from __future__ import annotations

import asyncio

from iostats.base import config as site
from iostats.base.errors import DONE, UNREADABLE, UsageError
from iostats.cli.ldms import sources
from iostats.cli.ldms.check import described_file
from iostats.cli.ldms.sources import ETCD_HELP, ETCD_OPTIONS, etcd_from
from iostats.cli.parser import parser, put_out, status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.ldms.description.normal import Description
    from iostats.ldms.service.service import Settings

HELP = """\
usage: iostats ldms plan [FILE] [options]

Ask all daemons of the description what they have, and print the commands that
`iostats ldms run` would send to each, in their order, and why.  Nothing is
sent.  Without FILE the description is the one that is valid in etcd.

options:
  --all            all commands of all daemons; else up to 20 of each of 50
""" + ETCD_HELP + """\
  -h, --help       this text

exit status:
  0 printed   1 the description is wrong, or no daemon answered   2 bad usage
"""


def main(arguments: list[str] | None = None) -> int:
    """Print the plan; the exit status."""
    return status_of(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    from iostats.ldms.service.planned import plan, plan_lines
    own = parser("iostats ldms plan", HELP, ETCD_OPTIONS, ("--all",))
    own.add_argument("files", nargs="*")
    options = own.parse_args(arguments)
    if len(options.files) > 1:
        raise UsageError(f"ldms plan: expected one FILE, got {len(options.files)} (see --help)")
    config = site.load(options.config)
    found = described(options.files, options.etcd, options.prefix, config)
    if found is None:
        return UNREADABLE
    service = asyncio.run(plan(found[0], settings_of(config)))
    put_out(line + "\n" for line in plan_lines(service, options.all))
    heard = service.fleet.daemons.values()
    return DONE if any(one.is_up for one in heard) or not heard else UNREADABLE


def settings_of(config: Config) -> Settings:
    """[ldms] of site.cfg."""
    from iostats.ldms.service.service import Settings
    return Settings(config["ldms.poll"], config["ldms.connect_timeout"],
                    config["ldms.answer_timeout"])


def described(files: list[str], etcd: str | None, prefix: str | None,
              config: Config) -> tuple[Description, int | None] | None:
    """
    (description, its revision) of a file, or of etcd; None, and all problems told, where it is
    wrong.
    """
    from iostats.ldms.published.descriptions import NotPublished, read_current
    if files:
        found = described_file(files[0])
        return None if found is None else (found[0], None)
    with etcd_from(config, etcd, prefix) as client:
        now = read_current(client)
    if now is None:
        raise NotPublished("etcd has no description yet; iostats ldms load FILE")
    made = sources.described(now[1], f"etcd, description {now[0].number}")
    return None if made is None else (made, now[0].number)
