"""
iostats ldms run: carry a description out, and go on as daemons fail, return and are changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal

from iostats.base import config as site
from iostats.base.errors import DONE, UNREADABLE, UsageError
from iostats.cli.ldms.plan import described, settings_of
from iostats.cli.ldms.sources import ETCD_HELP, ETCD_OPTIONS, etcd_from
from iostats.cli.parser import parser, say, status_of, whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Coroutine
    from typing import Any

    from iostats.base.config import Config
    from iostats.ldms.description.normal import Description
    from iostats.ldms.service.service import Service

HELP = """\
usage: iostats ldms run [FILE] [options]

Carry the description out: set up samplers and aggregators that run, give each
producer to an aggregator, and go on: what fails is moved, what returns gets its
share back, what was changed by hand is put right, and a new description is
carried out within 2 s.  Without FILE it is the one that is valid in etcd, and
any number of instances share the work.  SIGTERM ends it; the daemons stay as
they are.

options:
  --once           with FILE: carry it out, and end when all daemons that are up
                   have what they should
  --poll SECONDS   between two questions to a daemon (default: [ldms] poll)
  --metrics HOST:PORT
                   metrics for Prometheus (default: [ldms] metrics)
""" + ETCD_HELP + """\
  -h, --help       this text

exit status:
  0 ended by a signal; with --once: all is as described
  1 the description is wrong; with --once: some daemons are not as described
  2 bad usage
"""
_ONCE_WITHIN_S = 60.0


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal comes; the exit status."""
    return status_of(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    own = parser("iostats ldms run", HELP, (*ETCD_OPTIONS, "--poll", "--metrics"), ("--once",))
    own.add_argument("files", nargs="*")
    options = own.parse_args(arguments)
    if len(options.files) > 1:
        raise UsageError(f"ldms run: expected one FILE, got {len(options.files)} (see --help)")
    config = site.load(options.config)
    if options.poll is not None:
        config.take("ldms.poll", str(whole_number("--poll", options.poll, 3600)), "--poll")
    first = None
    if options.metrics is not None:
        config.take("ldms.metrics", options.metrics, "--metrics")
    if options.once and not options.files:
        raise UsageError("ldms run: --once goes with a FILE; with etcd, instances share the work")
    if options.files:
        first = described(options.files, options.etcd, options.prefix, config)
        if first is None:
            return UNREADABLE
    _more_files()
    return asyncio.run(_serve(options, config, first))


async def _serve(options: Namespace, config: Config,
                 first: tuple[Description, int | None] | None) -> int:
    from iostats.ldms.service.service import Service
    from iostats.ldms.service.source import EtcdSource, follow_file
    from iostats.ldms.status.beside import Beside
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    etcd = None if options.files else etcd_from(config, options.etcd, options.prefix)
    beside = Beside(config, etcd, say)
    service = Service(groups_owned=beside.groups_owned, may_command=beside.may_command,
                      happened=beside.happened, settings=settings_of(config))
    work: list[Coroutine[Any, Any, bool | None]] = [service.run(stop), beside.run(service, stop)]
    if first is not None:
        service.describe(*first)
        work.append(_once(service, stop) if options.once
                    else follow_file(options.files[0], service, say, stop))
    source = None if etcd is None else EtcdSource(etcd, service, say)
    if source is not None:
        source.start()
    try:
        ended = await asyncio.gather(*work)
    finally:
        if source is not None:
            source.stop()
    return UNREADABLE if ended[-1] else DONE


async def _once(service: Service, stop: asyncio.Event) -> bool:
    """Whether some daemons are not as described; those are told."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(_carried_out(service, stop), _ONCE_WITHIN_S)
    wrong = [state for state in service.state().daemons if not state.as_wanted]
    stop.set()
    for state in wrong[:20]:
        say(f"{state.name}: {state.state}: {state.why or '; '.join(state.wrong) or 'not known'}")
    if len(wrong) > 20:
        say(f"and {len(wrong) - 20} daemons more")
    return bool(wrong)


async def _carried_out(service: Service, stop: asyncio.Event) -> None:
    from iostats.ldms.service.planned import heard_of_all
    await asyncio.sleep(0)
    await heard_of_all(service)
    while not stop.is_set() and any(state.state == "up" and not state.as_wanted
                                    for state in service.state().daemons):
        await asyncio.sleep(0.05)


def _more_files() -> None:
    """A connection a daemon: as many open files as we may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
