"""
Sinks: where the site's server sends what it knows of jobs, one file each.

A sink is a module or package of this directory whose top level imports the standard library and
rooms to the left alone; nodes and `make install-site` import it.  `[NAME]` in site.cfg turns it
on; its packages are imported then, and not before.  The module has the members of SinkModule, and
makes a harvest.sink.Sink.

Adding a sink is adding a file; tests/sinks/test_sinks.py says what one lacks.

Pure: gains, nodes, records, ganglia.datagrams, influxdb.lines, prometheus.page, syslog.messages.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Protocol, cast

from iostats.base.config import list_plug_ins
from iostats.base.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.base.config import Config
    from iostats.base.option_kinds import Section
    from iostats.harvest.sink import Sink


class SinkModule(Protocol):
    """A module or package of this directory."""

    NAME: str                   # its section in site.cfg, its pip extra, its name in messages
    ABOUT: str                  # what it feeds, in one line for docs/how-to/sinks.md
    SECTION: type[Section]      # its section
    IMPORTS: str                # the package that it imports, "prometheus_client"; "" for none
    REQUIRES: tuple[str, ...]   # what pip installs for that, the extra NAME of pyproject.toml
    NUMBERS: tuple[tuple[str, str, str], ...]   # (name, kind, help) of numbers() of the sink

    def is_on(self, config: Config, /) -> bool:
        """Whether site.cfg asks for it."""

    def make(self, config: Config, emit: Callable[[str], None], clock: Callable[[], float], /
             ) -> Sink:
        """The sink; `emit` gets a line for the administrator, `clock`: time.time; ConfigError."""


def list_names() -> list[str]:
    """The names of all sinks."""
    return list_plug_ins(os.path.dirname(__file__))


def find_sink(name: str) -> SinkModule:
    """The module of sink `name`."""
    __import__(f"{__name__}.{name}")
    return cast("SinkModule", sys.modules[f"{__name__}.{name}"])


def add_sections(config: Config) -> None:
    """Add the options of all sinks to `config`; ConfigError for invalid values."""
    for name in list_names():
        config.add_section(name, find_sink(name).SECTION)
    config.require_known_sections()


def make_sinks(config: Config, emit: Callable[[str], None],
               clock: Callable[[], float] = time.time) -> list[Sink]:
    """Return [sink] of those that `config` turns on; ConfigError."""
    add_sections(config)
    sinks: list[Sink] = []
    try:
        for module in map(find_sink, list_names()):
            if module.is_on(config):
                sinks.append(_make_sink(module, config, emit, clock))
    except BaseException:
        for sink in sinks:
            sink.close()
        raise
    for sink in sinks:
        sink.others = [sink_beside for sink_beside in sinks if sink_beside is not sink]
    return sinks


def get_package(module: SinkModule) -> str:
    """pip's name of the package that a sink imports; "" for none."""
    return re.split(r"[<>=~!;\[ ]", module.REQUIRES[0])[0] if module.REQUIRES else ""


def _make_sink(module: SinkModule, config: Config, emit: Callable[[str], None],
               clock: Callable[[], float]) -> Sink:
    if module.IMPORTS and importlib.util.find_spec(module.IMPORTS) is None:
        package = get_package(module)
        raise ConfigError(f"site.cfg: [{module.NAME}]: expected the Python package {package}, "
                          f"which is not there; install it: {sys.executable} -m pip install "
                          f"{package}")
    return module.make(config, emit, clock)
