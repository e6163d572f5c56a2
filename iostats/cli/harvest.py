"""
iostats_client.py harvest: a storage server's agent, from its command line to its end.
"""

from __future__ import annotations

import os

from iostats.base.errors import DONE, UsageError
from iostats.cli.node import say
from iostats.node import identity as this_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.base.config import Config


class _Ended(BaseException):
    """A signal asked the agent to end."""


def main(given: dict[str, Any], config: Config, root: str) -> int:
    """Harvest until a signal comes, or once; the exit status."""
    import signal

    from iostats.storage import targets
    from iostats.storage.agent import Agent
    from iostats.wire.site_servers import split_servers
    words = list(given["harvest"])
    here = {one.file_system for one in targets.local_targets(root)}
    if "--list" in given:
        wanted = [word for word in words if word in here] or config["harvest.file_systems"]
        from iostats.storage.events_look import events_in_words, look_at_events
        from iostats.storage.exports_look import exports_in_words
        more = () if config["harvest.exports"] == "no" else (exports_in_words,)
        print(targets.listing(root, wanted, *more), end="")
        if here:
            print(f"events: {events_in_words(look_at_events(root, config))}")
        return DONE
    if "--server" not in given and words and words[0] in here:
        raise UsageError(f"harvest: expected the site's server before the file systems, got "
                         f"{words[0]!r}, which is a file system of this machine")
    server = given.get("--server") or (words.pop(0) if words else config["site.host"])
    wanted = words or config["harvest.file_systems"]
    if not server:
        raise UsageError("harvest: no server: give HOST or HOST:PORT, or set [site] host in "
                         "site.cfg")
    servers = split_servers(server, "harvest", config["site.port"])
    if "--secret" in given:
        config.take("site.secret", given["--secret"], "--secret")

    def end(*_: object) -> None:
        raise _Ended
    agent = None
    try:
        signal.signal(signal.SIGTERM, end)
        if not os.isatty(0):                            # else: whose terminal has gone
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            os.nice(19)
        except OSError:                                 # a sandbox, which has done so
            pass
        agent = Agent(config, root, this_node.name(given.get("--node")), servers, wanted,
                      lambda text: _say_if_heard(given, text),
                      ["harvest.file_systems"] if words else [])
        if "--once" in given:
            agent.once()
        else:
            agent.run()
    except _Ended:
        pass
    finally:
        if agent is not None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            agent.end()
    return DONE


def _say_if_heard(given: dict[str, Any], text: str) -> None:
    """_say, of a process that goes on when its output is closed."""
    try:
        say(given, text)
    except OSError:
        pass
