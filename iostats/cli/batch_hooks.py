"""
prolog, epilog and deliver: iostats_client.py as the batch system calls it, as root.
"""

from __future__ import annotations

import os

from iostats.base import config as site
from iostats.base.errors import DONE, NOT_REACHED, UNREADABLE, UsageError, describe_error
from iostats.base.messages import print_message
from iostats.cli.node import print_unless_quiet as emit_unless_quiet
from iostats.node import identity as this_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.schedulers.job_environment import JobAbout


class _TimeIsUp(BaseException):
    """A hook has reached its time limit."""


def run_hook(role: str, options: dict[str, str], root: str) -> int:
    """
    Run a prolog or epilog: within its time, and with exit status 0, else the batch system drains
    the node.
    """
    import signal
    import time
    began = time.monotonic()
    try:
        # Only the batch system's variables of the environment are used.
        config = site.load(options.get("--config"), environ={})
        within_s = config.node.hook_timeout

        def end(*_: object) -> None:
            raise _TimeIsUp
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, max(0.01, within_s))
        _run_hook(role, options, root, config, began + within_s * 0.9)
    except _TimeIsUp:
        print_message(f"{role}: not done within {within_s:g} s ([node] hook_timeout)")
    except Exception as error:                          # the node stays in service in any case
        print_message(f"{role}: {describe_error(error)}")
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return DONE


def _run_hook(role: str, options: dict[str, str], root: str, config: Config, until: float) -> None:
    from iostats.node import delivery, prolog_epilog
    node = this_node.find_node_name(options.get("--node"))

    def emit(text: str) -> None:
        emit_unless_quiet(options, text)
    job, about = _find_job_and_facts(options, config)
    if role == "prolog":
        prolog_epilog.run_prolog(config, root, node, job, about, emit)
        return
    failed = prolog_epilog.run_epilog(config, root, node, job, about, emit)
    if failed:
        emit(str(failed))
    delivery.deliver(config, root, node, until, emit)


def deliver(options: dict[str, str], root: str) -> int:
    """Send the reports that epilogs could not send; NOT_REACHED while some still wait."""
    import time

    from iostats.node import delivery
    config = site.load(options.get("--config"), environ={})
    lost: list[str] = []
    waiting = delivery.deliver(config, root, this_node.find_node_name(options.get("--node")),
                               time.monotonic() + config.node.retry_timeout,
                               lambda text: emit_unless_quiet(options, text), lost=lost)
    return UNREADABLE if lost else NOT_REACHED if waiting else DONE


def _find_job_and_facts(options: dict[str, str], config: Config) -> tuple[str, JobAbout]:
    """Return (job, its facts from the batch system and the command line)."""
    from iostats import schedulers
    system = schedulers.choose_scheduler(config, os.environ)
    known = system.about(os.environ)
    job = known.pop("job", "")
    about: JobAbout = {**known, "scheduler": system.NAME}
    if "--job" in options or not job:
        job = this_node.find_job(options.get("--job"), config)
    if options.get("--attempt"):
        about["attempt"] = _parse_number("--attempt", options)
    if options.get("--uid"):
        about["uid"] = _parse_number("--uid", options)
    if options.get("--nodes"):
        about["nodes"] = options["--nodes"]
    if options.get("--user"):
        about["user"] = options["--user"]
    return job, about


def _parse_number(name: str, options: dict[str, str]) -> int:
    text = options[name]
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise UsageError(f"{name}: expected a number, got {text[:40]!r}")
    return int(text)
