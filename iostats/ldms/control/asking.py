"""
Questions over a control connection, and what a daemon has as its answers say.
"""

from __future__ import annotations

import asyncio
from errno import EBUSY

from iostats.ldms.control import answers
from iostats.ldms.control.errors import Nonsense, NotReady
from iostats.ldms.control.observed import (
    ListenSeen,
    Observed,
    PluginSeen,
    PolicySeen,
    ProducerSeen,
    UpdaterSeen,
)
from iostats.ldms.statements.statement import Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from iostats.ldms.control.connection import Connection

    T = TypeVar("T")

_LONG = 1 << 18                     # characters, which take some 20 ms

# All of them raise NotConnected, NoAnswer or Nonsense.


async def config_counter(connection: Connection) -> int:
    """How many changes of its configuration the daemon has carried out since it started."""
    return await _asked(connection, "cfg_cntr", answers.config_counter)


async def daemon_status(connection: Connection) -> str:
    """The daemon's state: "ready"."""
    return await _asked(connection, "daemon_status", answers.daemon_state)


async def release(connection: Connection) -> str:
    """The daemon's release: "4.5.3"; "4.4" or "4.5" where it does not say it itself."""
    reply = await connection.command(Statement("version", ()))
    return await _read(answers.release, reply.text, connection.dialect, connection.where)


async def producers(connection: Connection) -> dict[str, ProducerSeen]:
    """Its producers, with the state of each of their sets."""
    return await _asked(connection, "prdcr_status", answers.producers)


async def updaters(connection: Connection) -> dict[str, UpdaterSeen]:
    """Its updaters, with their rules."""
    status, matches = await asyncio.gather(_text(connection, "updtr_status"),
                                           _text(connection, "updtr_match_list"))
    return await _read(answers.updaters, status, matches, connection.where)


async def plugins(connection: Connection) -> dict[str, PluginSeen]:
    """Its plugins, with the sets that they made."""
    status, made = await asyncio.gather(_text(connection, "plugn_status"),
                                        _text(connection, "plugn_sets"))
    return await _read(answers.plugins, status, made, connection.where)


async def policies(connection: Connection) -> dict[str, PolicySeen]:
    """Its storage policies."""
    return await _asked(connection, "strgp_status", answers.policies)


async def listens(connection: Connection) -> dict[str, ListenSeen]:
    """Its prdcr_listen; none where the release has none (before 4.4.5)."""
    reply = await connection.command(Statement("prdcr_listen_status", ()))
    return {} if reply.errno else await _read(answers.listens, reply.text, connection.where)


async def observed(connection: Connection, *, with_sets: bool = False) -> Observed:
    """
    All that the daemon has; `with_sets`: and its directory.

    Not its subscriptions: to prdcr_stream_status an aggregator of 4.4 asks its producers, and does
    not answer before each of them has, a hung one included; 4.5 answers nothing.

    The questions are sent at once, and the counter is asked for before the others: a change that
    is made in between shows as a counter that is greater the next time.
    """
    [(counter, state, release_, producers_, updaters_),
     (plugins_, policies_, listens_)] = await asyncio.gather(
        asyncio.gather(config_counter(connection), daemon_status(connection), release(connection),
                       producers(connection), updaters(connection)),
        asyncio.gather(plugins(connection), policies(connection), listens(connection)))
    sets = tuple(await connection.sets()) if with_sets else ()
    return Observed(counter, release_, state, producers_, updaters_, plugins_, policies_,
                    listens_, sets)


async def _asked(connection: Connection, verb: str, read: Callable[[str, str], T]) -> T:
    return await _read(read, await _text(connection, verb), connection.where)


async def _read(read: Callable[..., T], *texts: str) -> T:
    """What an answer says; a long one, by whatever daemon, keeps no other from being asked."""
    if sum(map(len, texts)) < _LONG:
        return read(*texts)
    return await asyncio.get_running_loop().run_in_executor(None, read, *texts)


async def _text(connection: Connection, verb: str) -> str:
    reply = await connection.command(Statement(verb, ()))
    if reply.errno == EBUSY:                    # ebusy_handler() of ldmsd_request.c
        raise NotReady(connection.where, "it takes no commands yet: it reads its configuration "
                                         "file (errno 16)")
    if reply.errno:
        raise Nonsense(connection.where, f"{verb} is refused: {reply.text or 'no reason'} "
                                         f"(errno {reply.errno})")
    return str(reply.text)
