"""
iostats config --check: what is in force, and where each value comes from.
"""

from __future__ import annotations

import argparse
import sys

from iostats import sinks
from iostats.base import config as site
from iostats.base.errors import DONE, IostatsError
from iostats.collector import access
from iostats.report.advice import findings
from iostats.site.events import on_critical
from iostats.wire import relays


def main(arguments: list[str] | None = None) -> int:
    """Print the configuration, or the first mistake in it; the exit status."""
    parser = argparse.ArgumentParser(
        prog="iostats config", allow_abbrev=False,
        description="Print the configuration that is in force; 2 when there is a mistake in it.")
    parser.add_argument("--check", action="store_true",
                        help="say where each value comes from as well")
    parser.add_argument("--config", metavar="FILE", help="as that of the other commands")
    options = parser.parse_args(arguments)
    try:
        config = site.load(options.config)
        sinks.add_sections(config)
        relays.destinations(config)
        relays.sources(config)
        relays.own_name(config)
        access.allowed(config)
        findings.require_known_rules(config)
    except IostatsError as error:
        print(f"iostats: {error}", file=sys.stderr)
        return error.exit_status
    for note in config.notes:
        print(f"iostats: {note}", file=sys.stderr)
    try:
        on_critical.require_program(config)
    except IostatsError as error:               # one site.cfg may be that of all machines
        print(f"iostats: {error}; the site's server does not start without it", file=sys.stderr)
    print("\n".join(listing(config, options.check)))
    return DONE


def listing(config: site.Config, with_origin: bool) -> list[str]:
    """Lines of site.cfg's form."""
    lines, section = [], None
    for name in config.options:
        if name.partition(".")[0] != section:
            section = name.partition(".")[0]
            lines.append(f"[{section}]")
        value = config[name]
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
