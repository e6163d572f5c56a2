"""
iostats ldms run: reconcile the daemons with the description until stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
from collections.abc import Coroutine
from typing import Any

from iostats.base import config as site
from iostats.base import logs
from iostats.base.config import Config
from iostats.base.errors import DONE, UNREADABLE, UsageError
from iostats.base.messages import print_message
from iostats.cli import flag, operands, option
from iostats.cli.parser import parse_options, parse_whole_number, run_role
from iostats_ldms.cli.plan import load_description, read_settings
from iostats_ldms.cli.sources import EtcdOptions, open_etcd
from iostats_ldms.description.model import Description
from iostats_ldms.service.service import Service

log = logging.getLogger(__name__)


class RunOptions(EtcdOptions, help="""\
usage: iostats ldms run [FILE] [options]

Reconcile the daemons with the description: configure running samplers and
aggregators, assign each producer to an aggregator, and continue: producers of a
failed aggregator move, a returning one gets its share back, changes by hand are
corrected, and a new description is applied within 2 s.  Without FILE it is the
valid one in etcd, and any number of instances share the work.  SIGTERM ends it;
the daemons are not changed then.

options:
{options}

exit status:
  0 ended by a signal; with --once: all is as described
  1 the description is invalid; with --once: some daemons are not as described
  2 bad usage
"""):
    files = operands("FILE")
    once = flag("--once",
                "with FILE: reconcile, and end when all daemons that are up are as described")
    poll = option("--poll SECONDS", "between two queries to a daemon (default: [ldms] poll)")
    metrics = option("--metrics HOST:PORT", "metrics for Prometheus (default: [ldms] metrics)")
    log_format = option("--log-format FORMAT", "text, json or journal (default: text)")
_ONCE_WITHIN_S = 60.0


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal arrives; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = parse_options(RunOptions, arguments)
    if len(options.files) > 1:
        raise UsageError(f"ldms run: expected one FILE, got {len(options.files)} (see --help)")
    config = site.load(options.config)
    if options.poll is not None:
        config.set_value("ldms.poll", str(parse_whole_number("--poll", options.poll, 3600)),
                         "--poll")
    first = None
    if options.metrics is not None:
        config.set_value("ldms.metrics", options.metrics, "--metrics")
    if options.once and not options.files:
        raise UsageError("ldms run: --once requires FILE; with etcd, instances share the work")
    if options.files:
        first = load_description(options.files, options.etcd, options.prefix, config)
        if first is None:
            return UNREADABLE
    logs.log_to_stderr(logging.INFO, options.log_format)
    _raise_file_limit()
    return asyncio.run(_serve(options, config, first))


async def _serve(options: RunOptions, config: Config,
                 first: tuple[Description, int | None] | None) -> int:
    from iostats_ldms.service.service import Service
    from iostats_ldms.service.source import EtcdSource, follow_file
    from iostats_ldms.status.instance import Instance
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    etcd = None if options.files else open_etcd(config, options.etcd, options.prefix)
    beside = Instance(config, etcd, log.warning)
    service = Service(groups_owned=beside.groups_owned, may_command=beside.may_command,
                      on_event=beside.on_event, settings=read_settings(config))
    work: list[Coroutine[Any, Any, bool | None]] = [service.run(stop), beside.run(service, stop)]
    if first is not None:
        service.describe(*first)
        work.append(_run_once(service, stop) if options.once
                    else follow_file(options.files[0], service, log.warning, stop))
    source = None if etcd is None else EtcdSource(etcd, service, log.warning)
    if source is not None:
        source.start()
    try:
        ended = await asyncio.gather(*work)
    finally:
        if source is not None:
            source.stop()
    return UNREADABLE if ended[-1] else DONE


async def _run_once(service: Service, stop: asyncio.Event) -> bool:
    """Reconcile once; True, and a line for each, if daemons are not as described."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(_wait_until_reconciled(service, stop), _ONCE_WITHIN_S)
    wrong = [state for state in service.make_status().daemons if not state.as_described]
    stop.set()
    for state in wrong[:20]:
        reason = state.why or '; '.join(state.wrong) or 'unknown'
        print_message(f"{state.name}: {state.state}: {reason}")
    if len(wrong) > 20:
        print_message(f"and {len(wrong) - 20} more daemons")
    return bool(wrong)


async def _wait_until_reconciled(service: Service, stop: asyncio.Event) -> None:
    from iostats_ldms.cli.plan import wait_for_answers
    await asyncio.sleep(0)
    await wait_for_answers(service)
    while not stop.is_set() and any(state.state == "up" and not state.as_described
                                    for state in service.make_status().daemons):
        await asyncio.sleep(0.05)


def _raise_file_limit() -> None:
    """Raise the limit of open files to the maximum: each daemon has a connection."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
