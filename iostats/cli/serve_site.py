"""
`iostats_server.py --site`: the server of all jobs, until a signal ends it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time

from iostats import schedulers, sinks
from iostats.base import logs
from iostats.base.errors import DONE
from iostats.cli.parser import say
from iostats.server import process
from iostats.site.receive import SiteServer
from iostats.site.relay.outgoing import Relays
from iostats.site.store import Store
from iostats.wire import auth, protocol, secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from typing import Any

    from iostats.base.config import Config


def run(options: argparse.Namespace, config: Config) -> int:
    """Run the site's server; the exit status."""
    sinks.add_sections(config)
    logs.to_standard_error(logging.WARNING if options.quiet else logging.INFO)
    if options.secret is not None:
        config.take("site.secret", options.secret, "--secret")
    if "secret" in config["server.auth"] and secret.make(config["site.secret"]):
        say(f"{config['site.secret']}: a new secret; copy it to all nodes, for root alone")
    checks = auth.with_timeout(
        auth.MUNGED_TIMEOUT_S, auth.MUNGED_ANSWER, lambda: auth.server_credentials(
            config, protocol.SITE, config["site.secret"], say, uids=auth.ANYONE))
    store, outlets, told = Store(config["site.store"]), [], None
    at_end: list[Callable[[], object]] = []
    process.use_uvloop()
    try:
        outlets = sinks.of(config, say)
        told = Relays(config, say, time.time)
        asyncio.run(_serve(store, checks, config, options, outlets, told, at_end))
    finally:
        if told is not None:
            told.close()
        for outlet in outlets:
            outlet.close()
        for end in at_end:
            end()
        store.close()
    return DONE


async def _serve(store: Store, checks: Sequence[auth.Credentials], config: Config,
                 options: argparse.Namespace, outlets: list[Any], told: Relays,
                 at_end: list[Callable[[], object]]) -> None:
    """`at_end` gets what is to be called after the sinks are closed."""
    process.raise_limits(config, 64 + sum(outlet.connections for outlet in outlets))
    server = SiteServer(store, checks, config, time.time, outlets)
    server.harvest.relays = told
    at_end.append(server.events.close)
    told.start()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await server.listen(options.listen or "")
    process.notify_systemd("READY=1")
    if not options.quiet:
        say(f"the site's server on {os.uname().nodename}:{server.port}, {config['site.store']}")
        asyncio.get_running_loop().run_in_executor(None, _warn_of_comments, config)
    working = asyncio.ensure_future(server.work())
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()                           # it ends by an internal error alone
    finally:
        server.close()
        working.cancel()
        stopping.cancel()


def _warn_of_comments(config: Config) -> None:
    private, said = schedulers.who_reads_comments(config)
    if not private:
        say(said)
