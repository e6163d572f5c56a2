"""
Sinks: where the site's server hands on what it knows of jobs, one file each.

A sink is a file in this directory.  `[NAME] ...` in site.cfg turns it on; what it needs is imported
when it is on, and not before.  Its module has

    NAME                  as in site.cfg and in messages
    NEEDS                 the package that it imports, "influxdb_client"
    PACKAGE               what pip calls it; pyproject.toml has it in the extra NAME
    is_on(config)         whether site.cfg asks for it
    make(config, say)     the sink; `say(text)` takes a line for the administrator

and the sink itself

    sweep(sweep, harvest) called on the server's loop after each complete sweep; returns at once
    forget(ids)           the targets have forgotten these ids of job_stats, and count them from 0
    numbers()             [Number] about itself, for the other sinks to show
    beside                [sink] of the others, set by `of`
    close()               what is not handed on yet is kept for the next start

Adding a sink is adding a file; tests/sinks/test_sinks.py says what one lacks.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import namedtuple

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
    found = (os.path.splitext(filename) for filename in os.listdir(os.path.dirname(__file__)))
    return sorted(name for name, dot_py in found if dot_py == ".py" and not name.startswith("_"))


def named(name: str) -> ModuleType:
    """The module of sink `name`."""
    __import__(f"{__name__}.{name}")
    return sys.modules[f"{__name__}.{name}"]


def of(config: Config, say: Callable[[str], None]) -> list[Any]:
    """[sink] of those that `config` turns on; ConfigError."""
    found = []
    try:
        for module in map(named, names()):
            if module.is_on(config):
                found.append(_made(module, config, say))
    except BaseException:
        for sink in found:
            sink.close()
        raise
    for sink in found:
        sink.beside = [other for other in found if other is not sink]
    return found


def _made(module: ModuleType, config: Config, say: Callable[[str], None]) -> Any:
    if importlib.util.find_spec(module.NEEDS) is None:
        raise ConfigError(f"site.cfg: [{module.NAME}]: expected the Python package "
                          f"{module.PACKAGE}, which is not there; install it: {sys.executable} -m "
                          f"pip install {module.PACKAGE}")
    return module.make(config, say)
