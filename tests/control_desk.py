"""
What answers like an ldmsd, on a port of its own, and what does not: for tests of the connection.
"""
from __future__ import annotations

import asyncio
import contextlib

from iostats_ldms.control import authentication, frames
from iostats_ldms.control.errors import ControlError
from iostats_ldms.control.protocol import Authentication, CredentialNeeded, CredentialReceived
from simldms.control_end import CommandReceived, DirectoryRequested, ServerProtocol


class Answering(asyncio.Protocol):
    """One connection of `answers`: {verb: (errno, text), or None for no answer}."""

    pause_s = 0.0

    def __init__(self, core, answers, sets=(), asked=None):
        self.core, self.answers, self.sets = core, answers, sets
        self.asked = [] if asked is None else asked

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        try:
            events = self.core.receive(data)
            for event in list(events):
                if isinstance(event, CredentialNeeded):
                    events += self.core.give_credential(authentication.make_credential(
                        self.core.auth, self.transport.get_extra_info("sockname"), ""))
                elif isinstance(event, CredentialReceived):
                    self.user = authentication.check_credential(self.core.auth, event.credential,
                                                                "")
                    events += self.core.accept_credential()
        except ControlError:
            self.transport.abort()
            return
        for event in events:
            if isinstance(event, CommandReceived):
                self.asked.append(event.statement)
                found = self.answers.get(event.statement.verb, (38, "no such command"))
                if found is not None:
                    self.core.answer(event.number, *found)
            elif isinstance(event, DirectoryRequested):
                self._directory(event.number, list(self.sets) or ['{ "directory" : []}'])
        self.transport.write(self.core.outgoing())
        if self.core.is_rejected:
            self.transport.close()


    def _directory(self, number, texts):
        """In parts, `pause_s` between two."""
        self.transport.write(frames.make_directory_reply(number, texts[0].encode(), len(texts) > 1))
        if len(texts) > 1:
            asyncio.get_running_loop().call_later(self.pause_s, self._directory, number, texts[1:])


class Silent(asyncio.Protocol):
    """Accepts, and says `first` and nothing else."""

    def __init__(self, first=b"", closes=False):
        self.first, self.closes = first, closes

    def connection_made(self, transport):
        transport.write(self.first)
        if self.closes:
            transport.close()


@contextlib.asynccontextmanager
async def answering(answers=None, *, auth=None, sets=(), asked=None, connections=None,
                    dialect="4.5", **server):
    """
    The port of a daemon that answers; cfg_cntr is 23 where nothing else is said.

    Statements are added to `asked`, and each Answering to `connections`.
    """
    connections = [] if connections is None else connections
    answers = {"cfg_cntr": (0, "23"), **(answers or {})}
    made = iter(range(1, 1 << 20))

    def connected():
        core = ServerProtocol(auth or Authentication(), dialect, challenge=next(made) << 20,
                              rail=next(made), **server)
        connections.append(Answering(core, answers, sets, asked))
        return connections[-1]

    async with listening(connected) as port:
        yield port


@contextlib.asynccontextmanager
async def listening(protocol):
    """The port at which `protocol()` is spoken."""
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
