"""
Queries over a control connection; all raise NotConnected, NoAnswer or ProtocolError.
"""

from __future__ import annotations

import asyncio
from errno import EBUSY
from typing import TYPE_CHECKING

from iostats_ldms.control import answers
from iostats_ldms.control.errors import NotReady, ProtocolError
from iostats_ldms.control.observed import (
    ObservedListener,
    ObservedPlugin,
    ObservedPolicy,
    ObservedProducer,
    ObservedState,
    ObservedUpdater,
)
from iostats_ldms.statements.dialect import Statement

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from iostats_ldms.control.connection import Connection

    T = TypeVar("T")

_LONG = 1 << 18                     # characters; parsing them takes about 20 ms

# All of them raise NotConnected, NoAnswer or ProtocolError.


async def read_config_counter(connection: Connection) -> int:
    """Read the number of configuration changes since the daemon's start."""
    return await _query(connection, "cfg_cntr", answers.parse_config_counter)


async def read_daemon_state(connection: Connection) -> str:
    """Read the daemon's state: "ready"."""
    return await _query(connection, "daemon_status", answers.parse_daemon_state)


async def read_release(connection: Connection) -> str:
    """Read the daemon's release: "4.5.3"; "4.4" or "4.5" for a daemon that does not report it."""
    reply = await connection.command(Statement("version", ()))
    return await _parse(answers.parse_release, reply.text, connection.dialect, connection.where)


async def read_producers(connection: Connection) -> dict[str, ObservedProducer]:
    """Read the producers, with the state of each of their sets."""
    return await _query(connection, "prdcr_status", answers.parse_producers)


async def read_updaters(connection: Connection) -> dict[str, ObservedUpdater]:
    """Read the updaters, with their match rules."""
    status, matches = await asyncio.gather(_query_text(connection, "updtr_status"),
                                           _query_text(connection, "updtr_match_list"))
    return await _parse(answers.parse_updaters, status, matches, connection.where)


async def read_plugins(connection: Connection) -> dict[str, ObservedPlugin]:
    """Read the plugins, with their sets."""
    status, made = await asyncio.gather(_query_text(connection, "plugn_status"),
                                        _query_text(connection, "plugn_sets"))
    return await _parse(answers.parse_plugins, status, made, connection.where)


async def read_policies(connection: Connection) -> dict[str, ObservedPolicy]:
    """Read the storage policies."""
    return await _query(connection, "strgp_status", answers.parse_policies)


async def read_listens(connection: Connection) -> dict[str, ObservedListener]:
    """Read the listeners for advertised producers."""
    reply = await connection.command(Statement("prdcr_listen_status", ()))
    return {} if reply.errno else await _parse(answers.parse_listens, reply.text, connection.where)


async def read_observed_state(connection: Connection, *, with_sets: bool = False) -> ObservedState:
    """
    Read the complete state of the daemon; `with_sets`: including its directory.

    Subscriptions are not included: for prdcr_stream_status an aggregator of 4.4 queries its
    producers and waits for each of them, hung ones included; 4.5 answers nothing.

    All queries are sent at once, the counter first: a change made in between shows as a greater
    counter the next time.
    """
    [(counter, state, release_, producers_, updaters_),
     (plugins_, policies_, listens_)] = await asyncio.gather(
        asyncio.gather(read_config_counter(connection), read_daemon_state(connection),
                       read_release(connection),
                       read_producers(connection), read_updaters(connection)),
        asyncio.gather(read_plugins(connection), read_policies(connection),
                       read_listens(connection)))
    sets = tuple(await connection.sets()) if with_sets else ()
    return ObservedState(counter, release_, state, producers_, updaters_, plugins_, policies_,
                         listens_, sets)


async def _query(connection: Connection, verb: str, read: Callable[[str, str], T]) -> T:
    return await _parse(read, await _query_text(connection, verb), connection.where)


async def _parse(read: Callable[..., T], *texts: str) -> T:
    """Parse an answer; a long one in a thread, so that it does not delay other daemons."""
    if sum(map(len, texts)) < _LONG:
        return read(*texts)
    return await asyncio.to_thread(read, *texts)


async def _query_text(connection: Connection, verb: str) -> str:
    reply = await connection.command(Statement(verb, ()))
    if reply.errno == EBUSY:                    # ebusy_handler() of ldmsd_request.c
        raise NotReady(connection.where, "not ready: still reading its configuration "
                       "file (errno 16)")
    if reply.errno:
        raise ProtocolError(connection.where, f"{verb} is refused: {reply.text or 'no reason'} "
                            f"(errno {reply.errno})")
    return str(reply.text)
