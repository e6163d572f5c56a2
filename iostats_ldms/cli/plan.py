"""
iostats ldms plan: print the commands that `iostats ldms run` would send now, and why.
"""

from __future__ import annotations

import asyncio

from iostats.base import config as site
from iostats.base.config import Config
from iostats.base.errors import DONE, UNREADABLE, UsageError, sanitize
from iostats.cli import flag, operands
from iostats.cli.parser import parse_options, run_role, write_output
from iostats_ldms.cli import sources
from iostats_ldms.cli.check import read_description_file
from iostats_ldms.cli.sources import EtcdOptions, open_etcd
from iostats_ldms.description.model import Description
from iostats_ldms.service.service import Service, Settings
from iostats_ldms.statements.dialect import format_statement

_LOOK_S = 0.05
MOST_DAEMONS, MOST_COMMANDS = 50, 20


async def wait_for_answers(service: Service) -> None:
    """Wait until each daemon has answered or failed once."""
    while service.list_unanswered():
        await asyncio.sleep(_LOOK_S)


async def make_plan(description: Description, settings: Settings) -> Service:
    """Query all daemons once without changing them; return the service."""
    service = Service(may_command=lambda group: False, settings=settings)
    service.fleet.waits_for_stop = False
    service.describe(description, None)
    stop = asyncio.Event()
    running = asyncio.ensure_future(service.run(stop))
    await asyncio.sleep(0)
    await wait_for_answers(service)
    stop.set()
    await running
    return service


def format_plan(service: Service, with_all: bool) -> list[str]:
    """
    Format the commands for each daemon with their reasons, at most MOST_COMMANDS of MOST_DAEMONS
    unless `with_all`.

    Probes, which usually change nothing, are left out.
    """
    fleet = service.fleet
    result: list[list[str]] = []
    total = reached = 0
    for name, daemon in fleet.daemons.items():
        if not daemon.is_up:
            result.append([f"{name}: {daemon.state}: {sanitize(daemon.why)}"])
            continue
        reached += 1
        commands = [command for _, command in fleet.plan_commands(name) if not command.is_probe]
        total += len(commands)
        if commands:
            shown = commands if with_all else commands[:MOST_COMMANDS]
            lines = [f"{name}: {len(commands)} command{'s' * (len(commands) != 1)}"]
            for command in shown:
                producer = dict(command.statement.attributes).get("name") or ""
                collector = fleet.find_collector(producer, name) \
                    if command.statement.verb == "prdcr_start" else ""
                lines.append(sanitize(f"    {format_statement(command.statement)}   # {command.why}"
                                      + (f", after {collector} has stopped it"
                                         if collector else "")))
            if len(shown) < len(commands):
                lines.append(f"    and {len(commands) - len(shown)} more: --all")
            result.append(lines)
    shown_daemons = result if with_all else result[:MOST_DAEMONS]
    lines = [line for group in shown_daemons for line in group]
    if len(shown_daemons) < len(result):
        lines.append(f"and {len(result) - len(shown_daemons)} more daemons: --all")
    lines.append(f"{reached} of {len(fleet.daemons)} daemons answered; "
                 + (f"{total} command{'s' * (total != 1)} to do" if total
                    else "nothing to do"))
    return lines


class PlanOptions(EtcdOptions, help="""\
usage: iostats ldms plan [FILE] [options]

Query all daemons of the description, and print the commands that `iostats ldms
run` would send to each, in order, with reasons.  Nothing is changed.  Without
FILE the description is the valid one in etcd.

options:
{options}

exit status:
  0 printed   1 the description is invalid, or no daemon answered   2 bad usage
"""):
    files = operands("FILE")
    all = flag("--all", "all commands of all daemons (default: 20 each, 50 daemons)")


def main(arguments: list[str] | None = None) -> int:
    """Print the plan; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = parse_options(PlanOptions, arguments)
    if len(options.files) > 1:
        raise UsageError(f"ldms plan: expected one FILE, got {len(options.files)} (see --help)")
    config = site.load(options.config)
    result = load_description(options.files, options.etcd, options.prefix, config)
    if result is None:
        return UNREADABLE
    service = asyncio.run(make_plan(result[0], read_settings(config)))
    write_output(line + "\n" for line in format_plan(service, options.all))
    daemons = service.fleet.daemons.values()
    return DONE if any(item.is_up for item in daemons) or not daemons else UNREADABLE


def read_settings(config: Config) -> Settings:
    """Read the service's Settings from [ldms] of site.cfg."""
    from iostats_ldms.service.service import Settings
    return Settings(config.ldms.poll, config.ldms.connect_timeout,
                    config.ldms.answer_timeout)


def load_description(files: list[str], etcd: str | None, prefix: str | None,
                     config: Config) -> tuple[Description, int | None] | None:
    """
    Load (description, revision) from a file or etcd; None, with all problems printed, if invalid.
    """
    from iostats_ldms.published import DescriptionUnavailable, read_current_description
    if files:
        result = read_description_file(files[0])
        return None if result is None else (result[0], None)
    with open_etcd(config, etcd, prefix) as client:
        now = read_current_description(client)
    if now is None:
        raise DescriptionUnavailable("etcd has no description yet; iostats ldms load FILE")
    made = sources.parse_description(now[1], f"etcd, description {now[0].number}")
    return None if made is None else (made, now[0].number)
