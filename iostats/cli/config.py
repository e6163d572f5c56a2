"""
iostats config --check: the configuration in force, and the origin of each value.
"""

from __future__ import annotations

import argparse
import sys

from iostats import sinks
from iostats.base import config as site
from iostats.base.errors import DONE, IostatsError
from iostats.collector import access
from iostats.harvest.events import on_critical
from iostats.report.findings import evaluate
from iostats.wire import relays


def main(arguments: list[str] | None = None) -> int:
    """Print the configuration, or the first mistake in it; the exit status."""
    parser = argparse.ArgumentParser(
        prog="iostats config", allow_abbrev=False,
        description="Print the configuration in force; exit status 2 if there is a mistake in it.")
    parser.add_argument("--check", action="store_true",
                        help="print the origin of each value, too")
    parser.add_argument("--config", metavar="FILE",
                        help="the configuration (default: site.cfg, and ~/.iostats/site.cfg)")
    options = parser.parse_args(arguments)
    try:
        config = site.load(options.config)
        sinks.add_sections(config)
        relays.list_destinations(config)
        relays.list_sources(config)
        relays.get_own_relay_name(config)
        access.parse_allowed(config)
        evaluate.require_known_rules(config)
    except IostatsError as error:
        print(f"iostats: {error}", file=sys.stderr)
        return error.exit_status
    try:
        on_critical.require_program(config)
    except IostatsError as error:               # all machines may share one site.cfg
        print(f"iostats: {error}; the site's server does not start without it", file=sys.stderr)
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
