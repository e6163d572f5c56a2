"""
iostats_client.py harvest: a storage server's agent, from its command line to its end.
"""

from __future__ import annotations

import os

from iostats.base.errors import DONE, UsageError
from iostats.cli.node import print_unless_quiet
from iostats.node import identity as this_node

TYPE_CHECKING = False
if TYPE_CHECKING:

    from iostats.base.config import Config


class _Ended(BaseException):
    """A signal ended the agent."""


def main(options: dict[str, str], config: Config, root: str) -> int:
    """Harvest until a signal arrives, or once; the exit status."""
    import signal

    from iostats.storage import targets
    from iostats.storage.agent import Agent
    from iostats.wire.site_servers import split_servers
    words = options["harvest"].split()
    here = {target.file_system for target in targets.find_local_targets(root)}
    if "--list" in options:
        file_systems = [word for word in words if word in here] or config.harvest.file_systems
        from iostats.storage.inspection import describe_events, describe_exports, scan_events
        more = () if config.harvest.exports == "no" else (describe_exports,)
        print(targets.describe_targets(root, file_systems, *more), end="")
        if here:
            print(f"events: {describe_events(scan_events(root, config))}")
        return DONE
    if "--server" not in options and words and words[0] in here:
        raise UsageError(f"harvest: expected the site's server before the file systems, got "
                         f"{words[0]!r}, which is a file system of this machine")
    server = options.get("--server") or (words.pop(0) if words else config.site.host)
    file_systems = words or config.harvest.file_systems
    if not server:
        raise UsageError("harvest: no server: give HOST or HOST:PORT, or set [site] host in "
                         "site.cfg")
    servers = split_servers(server, "harvest", config.site.port)
    if "--secret" in options:
        config.set_value("site.secret", options["--secret"], "--secret")

    def end(*_: object) -> None:
        raise _Ended
    agent = None
    try:
        signal.signal(signal.SIGTERM, end)
        if not os.isatty(0):                            # else: its terminal may be closed
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            os.setpriority(os.PRIO_PROCESS, 0, 19)      # of whatever priority it was started
        except OSError:                                 # a sandbox, which has set it already
            pass
        agent = Agent(config, root, this_node.find_node_name(options.get("--node")), servers,
                      file_systems,
                      lambda text: _print_if_possible(options, text),
                      ["harvest.file_systems"] if words else [])
        if "--once" in options:
            agent.run_once()
        else:
            agent.run()
    except _Ended:
        pass
    finally:
        if agent is not None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            agent.end()
    return DONE


def _print_if_possible(options: dict[str, str], text: str) -> None:
    """Print a line, in a process that continues when its output is closed."""
    try:
        print_unless_quiet(options, text)
    except OSError:
        pass
