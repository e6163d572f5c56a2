"""
prolog, epilog and deliver: iostats_client.py as the batch system calls it, as root.
"""

from __future__ import annotations

import os
import sys

from iostats.base import config as site
from iostats.base.errors import DONE, NOT_REACHED, UNREADABLE, UsageError
from iostats.cli.node import say as say_unless_quiet
from iostats.node import identity as this_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from iostats.base.config import Config


class _TimeIsUp(BaseException):
    """A hook has had its time."""


def hook(role: str, given: dict[str, Any], root: str) -> int:
    """Prolog or epilog: in time, and with 0, or the batch system drains the node."""
    import signal
    import time
    began = time.monotonic()
    try:
        # Of the environment only what the batch system says of the job is used.
        config = site.load(given.get("--config"), environ={})
        within_s = config["node.hook_timeout"]

        def end(*_: object) -> None:
            raise _TimeIsUp
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, max(0.01, within_s))
        _run_hook(role, given, root, config, began + within_s * 0.9)
    except _TimeIsUp:
        print(f"iostats: {role}: not done within {within_s:g} s ([node] hook_timeout)",
              file=sys.stderr)
    except Exception as error:                          # whatever it is, the node stays in service
        print(f"iostats: {role}: {error}", file=sys.stderr)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return DONE


def _run_hook(role: str, given: dict[str, Any], root: str, config: Config, until: float) -> None:
    from iostats import schedulers
    from iostats.node import delivery, prolog_epilog
    node = this_node.name(given.get("--node"))

    def say(text: str) -> None:
        say_unless_quiet(given, text)
    job, about = _about(given, config, schedulers)
    if role == "prolog":
        prolog_epilog.prolog(config, root, node, job, about, say)
        return
    failed = prolog_epilog.epilog(config, root, node, job, about, say)
    if failed:
        say(str(failed))
    delivery.deliver(config, root, node, until, say)


def deliver(given: dict[str, Any], root: str) -> int:
    """What epilogs could not send; NOT_REACHED while reports wait still."""
    import time

    from iostats.node import delivery
    config = site.load(given.get("--config"), environ={})
    lost: list[str] = []
    waiting = delivery.deliver(config, root, this_node.name(given.get("--node")),
                                    time.monotonic() + config["node.retry_timeout"],
                                    lambda text: say_unless_quiet(given, text), lost=lost)
    return UNREADABLE if lost else NOT_REACHED if waiting else DONE


def _about(given: dict[str, Any], config: Config,
           schedulers: ModuleType) -> tuple[str, dict[str, Any]]:
    """(job, what the batch system and the command line tell of it)."""
    system = schedulers.chosen(config, os.environ)
    about = dict(system.about(os.environ), scheduler=system.NAME)
    job = about.pop("job", "")
    if "--job" in given or not job:
        job = this_node.job(given.get("--job"), config)
    for name in ("attempt", "uid"):
        text = given.get(f"--{name}", "")
        if text and not (text.isascii() and text.isdigit() and len(text) < 12):
            raise UsageError(f"--{name}: expected a number, got {text[:40]!r}")
        if text:
            about[name] = int(text)
    for name in ("nodes", "user"):
        if given.get(f"--{name}"):
            about[name] = given[f"--{name}"]
    return job, about
