"""
`iostats_server.py --site`: the server of all jobs, until a signal ends it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from iostats import schedulers, sinks
from iostats.answers.site_server import SiteServer
from iostats.base import logs
from iostats.base.config import Config
from iostats.base.errors import DONE
from iostats.harvest.relay.outgoing import Relays
from iostats.server import process
from iostats.store.database import hide_password
from iostats.store.record_store import Store
from iostats.wire import auth, protocol

if TYPE_CHECKING:
    from iostats.cli.server import ServerOptions
    from iostats.harvest.sink import Sink

log = logging.getLogger(__name__)


def run(options: ServerOptions, config: Config) -> int:
    """Run the site's server; the exit status."""
    sinks.add_sections(config)
    logs.log_to_stderr(logging.WARNING if options.quiet else logging.INFO, options.log_format)
    if options.secret is not None:
        config.set_value("site.secret", options.secret, "--secret")
    if "secret" in config.server.auth and auth.make(config.site.secret):
        log.warning("%s: a new secret; copy it to all nodes, for root alone",
                    config.site.secret)
    checks = auth.call_with_timeout(
        auth.MUNGED_TIMEOUT_S, auth.MUNGED_ANSWER, lambda: auth.load_server_credentials(
            config, protocol.SITE, config.site.secret, log.warning, uids=auth.ANYONE))

    def stand_by() -> None:
        process.notify_systemd("READY=1")
        log.warning("%s: another server has it open; this one stands by, and takes over when that "
                    "one ends", hide_password(config.site.store))
    store, outlets, relays = Store(config.site.store, stand_by=stand_by), [], None
    at_end: list[Callable[[], object]] = []
    process.use_uvloop()
    try:
        outlets = sinks.make_sinks(config, log.warning)
        relays = Relays(config, log.warning, time.time)
        asyncio.run(_serve(store, checks, config, options, outlets, relays, at_end))
    finally:
        if relays is not None:
            relays.close()
        for outlet in outlets:
            outlet.close()
        for end in at_end:
            end()
        store.close()
    return DONE


async def _serve(store: Store, checks: Sequence[auth.Credentials], config: Config,
                 options: ServerOptions, outlets: list[Sink], relays: Relays,
                 at_end: list[Callable[[], object]]) -> None:
    """Serve until a signal; `at_end` gets the functions to call after the sinks are closed."""
    process.raise_limits(config, 64 + sum(outlet.connections for outlet in outlets))
    server = SiteServer(store, checks, config, time.time, outlets)
    server.harvest.relays = relays
    at_end.append(server.events.close)
    relays.start()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await server.listen(options.listen or "")
    process.notify_systemd("READY=1")
    if not options.quiet:
        log.info("the site's server on %s:%s, %s", os.uname().nodename, server.port,
                 hide_password(config.site.store))
        asyncio.get_running_loop().run_in_executor(None, _warn_of_comment_readers, config)
    working = asyncio.ensure_future(server.work())
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()                           # it ends only by an internal error
    finally:
        server.close()
        working.cancel()
        stopping.cancel()


def _warn_of_comment_readers(config: Config) -> None:
    private, warning = schedulers.find_comment_readers(config)
    if not private:
        log.warning(warning)
