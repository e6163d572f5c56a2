"""
Sinks: where the site's server sends what it knows of jobs, one file each.

A sink is a module or package of this directory whose top level imports the standard library and
rooms to the left alone; nodes and `make install-site` look at it.  `[NAME]` in site.cfg turns it
on; its packages are imported then, and not before.  The module has

    NAME                      its section in site.cfg, its pip extra, and its name in messages
    ABOUT                     what it feeds, in one line for docs/sinks.md
    OPTIONS                   {key: base.options.Option} of its section
    IMPORTS                   the package that it imports, "influxdb_client"; "" for none
    REQUIRES                  what pip installs for that, the extra NAME of pyproject.toml; () for
                              none
    NUMBERS                   (name, kind, help) of what numbers() of the sink gives, in its order
    is_on(config)             whether site.cfg asks for it
    make(config, say, clock)  the sink; `say(text)` takes a line for the administrator, `clock` is
                              time.time; ConfigError

and the sink itself

    sweep(sweep, harvest)     called on the server's loop after each complete sweep; returns at once
    forget(ids)               the targets have forgotten these ids of job_stats, which count from 0
                              if they come back
    numbers()                 [Number] about itself, for the other sinks to show
    others                    [sink] of the others, set by `of`
    connections               up to how many clients may be connected to it
    close()                   what is not sent yet is kept for the next start

and where it takes events (site/events/followers.py), any of these

    name                      NAME, of the file that has its place
    keep_events(events, names)
                              called in a thread of its own, one call at a time, with [Event] in the
                              order in which they became known; `names`: {NID: node}.  It returns
                              when they are kept, or sent: how many of them.  Until then they wait
                              in the site's store, for a restart too.  Fewer than all when close()
                              was called meanwhile.  An event that grows is given again, with the
                              same id.
    events(changes, names)    for those who only count: [Change], each once; on the server's loop,
                              returns at once
    event_status(node, heard, every_s, status)
                              what a storage server says of itself (events/gather.py), and when; on
                              the server's loop, returns at once

Adding a sink is adding a file; tests/sinks/test_sinks.py says what one lacks.

Pure: gains, nodes, ganglia.packet, ganglia.datagrams, influxdb.lines, influxdb.node_lines,
influxdb.event_lines, prometheus.page, prometheus.node_page, syslog.messages.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from collections import namedtuple

from iostats.base import plug_ins
from iostats.base.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from iostats.base.config import Config

Number = namedtuple("Number", "name kind help value")
Number.__doc__ = """
One number that a sink tells of itself.

Attributes:
    name: as in Prometheus, without its "_total".
    kind: "counter" or "gauge".
    help: what it counts, in one sentence.
    value: an integer.
"""


def names() -> list[str]:
    """The sinks that there are."""
    return plug_ins.names(os.path.dirname(__file__))


def named(name: str) -> ModuleType:
    """The module of sink `name`."""
    __import__(f"{__name__}.{name}")
    return sys.modules[f"{__name__}.{name}"]


def add_sections(config: Config) -> None:
    """Let `config` know the options of all sinks; ConfigError for what was read for them."""
    for name in names():
        config.add_section(name, named(name).OPTIONS)
    config.require_known_sections()


def of(config: Config, say: Callable[[str], None],
       clock: Callable[[], float] = time.time) -> list[Any]:
    """[sink] of those that `config` turns on; ConfigError."""
    add_sections(config)
    found = []
    try:
        for module in map(named, names()):
            if module.is_on(config):
                found.append(_made(module, config, say, clock))
    except BaseException:
        for sink in found:
            sink.close()
        raise
    for sink in found:
        sink.others = [other for other in found if other is not sink]
    return found


def package_of(module: ModuleType) -> str:
    """What pip calls the package that a sink imports; "" for none."""
    return re.split(r"[<>=~!;\[ ]", module.REQUIRES[0])[0] if module.REQUIRES else ""


def _made(module: ModuleType, config: Config, say: Callable[[str], None],
          clock: Callable[[], float]) -> Any:
    if module.IMPORTS and importlib.util.find_spec(module.IMPORTS) is None:
        package = package_of(module)
        raise ConfigError(f"site.cfg: [{module.NAME}]: expected the Python package {package}, "
                          f"which is not there; install it: {sys.executable} -m pip install "
                          f"{package}")
    return module.make(config, say, clock)
