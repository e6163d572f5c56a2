"""
The site's server in the process of a test, with a clock that the test sets.

`Inside` is a SiteServer with its store; `answer_to` asks a server as some user would.
"""
from __future__ import annotations

import asyncio
import json
import os
import time

from site_desk import a_report

from iostats.answers.site_server import SiteServer
from iostats.base.config import Config
from iostats.base.errors import WireError
from iostats.store.clock import Clocks
from iostats.store.record_store import Store
from iostats.wire import auth, jsonrpc, protocol


class Inside:
    """A SiteServer in this process, with a clock that is set."""

    def __init__(self, directory, began=1_795_225_060.0, **choices):
        self.config = Config()
        for name, value in choices.items():
            self.config.set_value(name.replace("_", ".", 1), str(value), "a test")
        self.now = began
        # What is added to the clock to have the time since boot: time passes where both move.
        self.set_by, self.boot_id = -1_795_000_000.0, "23" * 16
        self.path = str(directory / "site.sqlite")
        self.secret = auth.Secret(protocol.SITE, b"s" * 64, 1e9, self.clock)
        self.begin()

    def clock(self):
        return self.now

    def begin(self):
        """A server of its own on this store."""
        self.store = Store(self.path, Clocks(self.clock, lambda: self.now + self.set_by,
                                             lambda: self.boot_id))
        self.server = SiteServer(self.store, [self.secret], self.config, self.clock)

    def answer(self, method, params, node="nid00001", secret=None):
        """What it answers (bytes), as in docs/reference/wire.md; the answer has not left yet."""
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 1}).encode()
        header = (secret or self.secret).authorization(node, int(self.now), os.urandom(16).hex(),
                                                        body)
        return self.server.answer(body, header)[0]

    def ask(self, method, params, **how):
        """The result; a WireError as the server has raised it."""
        answer = json.loads(self.answer(method, params, **how))
        if "error" in answer:
            raise WireError(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def send(self, *args, **fields):
        """A report, to the end: it is on the disk."""
        one = a_report(*args, **fields)
        result = self.ask("report", one, node=one["node"])
        self.store.commit()
        return result

    def make_records(self, true=None):
        """Let it work until no job is due, or until `true()`."""
        async def work():
            working = asyncio.ensure_future(self.server.work())
            ends = time.monotonic() + 100
            while not (true() if true else not any(
                    job.due <= self.now for job in self.open_jobs.values())):
                assert time.monotonic() < ends and not working.done(), working
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            working.cancel()
        asyncio.run(work())

    @property
    def open_jobs(self):
        """{Key: OpenJob} of the jobs whose record is due."""
        return self.server.open_jobs.jobs

    def records(self, job):
        return self.ask("record", {"job": job})


def answer_to(server, who, method, **params):
    """
    The JSON-RPC answer of a server to a question; `who`: the Caller that was authenticated, with
    the user that munge names (None for the secret), or None.
    """
    return json.loads(jsonrpc.dispatch(json.dumps(
        {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}).encode(),
        server.methods, who))
