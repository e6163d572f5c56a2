"""
iostats config --check: the configuration in force, and the origin of each value.
"""

from __future__ import annotations

from iostats import sinks
from iostats.base import config as site
from iostats.base.errors import DONE, IostatsError
from iostats.base.messages import print_message
from iostats.cli import CONFIG, Options, flag
from iostats.cli.parser import parse_options, run_role
from iostats.collector import access
from iostats.harvest.events import on_critical
from iostats.report.findings import evaluate
from iostats.wire import relays


class ConfigOptions(Options, help="""\
usage: iostats config [options]

Print the configuration in force, in the format of site.cfg.

options:
{options}

exit status:
  0 printed   2 bad usage, or a mistake in site.cfg
"""):
    check = flag("--check", "print the origin of each value, too")
    config = CONFIG


def main(arguments: list[str] | None = None) -> int:
    """Print the configuration, or the first mistake in it; the exit status."""
    return run_role(lambda: _run(parse_options(ConfigOptions, arguments)))


def _run(options: ConfigOptions) -> int:
    config = site.load(options.config)
    sinks.add_sections(config)
    relays.list_destinations(config)
    relays.list_sources(config)
    relays.get_own_relay_name(config)
    access.parse_allowed(config)
    evaluate.require_known_rules(config)
    try:
        on_critical.require_program(config)
    except IostatsError as error:               # all machines may share one site.cfg
        print_message(f"{error}; the site's server does not start without it")
    print("\n".join(format_config(config, options.check)))
    return DONE


def format_config(config: site.Config, with_origin: bool) -> list[str]:
    """The lines of site.cfg's format."""
    lines, section = [], None
    for name in config.options:
        if name.partition(".")[0] != section:
            section = name.partition(".")[0]
            lines.append(f"[{section}]")
        value = config.get_value(name)
        text = " ".join(map(str, value)) if isinstance(value, list) else f"{value:g}" if isinstance(
            value, float) else str(value)
        line = f"{name.partition('.')[2]} = {text}".rstrip()
        lines.append(f"{line:<60} # {config.origin[name]}" if with_origin else line)
    for section, keys in config.free.items():
        lines.append(f"[{section}]")
        for name, text in keys.items():
            line = f"{name} = {text}"
            lines.append(f"{line:<60} # {config.origin[f'{section}.{name}']}"
                         if with_origin and section != "labels" else line)
    return lines
