"""
iostats web: the web pages of a site.
"""

from __future__ import annotations

import logging
import sys

from iostats.base import config as site
from iostats.base import logs
from iostats.base.errors import DONE
from iostats.cli import CONFIG, Options, flag, option
from iostats.cli.parser import parse_options, run_role


class WebOptions(Options, help="""\
usage: iostats web [options]

Serve pages of jobs, nodes, file systems, events and the present load to users
and staff.  The data are from the site's server, which checks each user's
rights: users see their own jobs, [site] readers all.  It changes nothing, and
never runs as root.

The user's name is in a header of the site's proxy ([web] user_header, accepted
only from [web] trusted), or, for programs of this host, from the kernel ([web]
socket).  docs/how-to/web.md has examples for Apache, nginx and Open OnDemand.

options:
{options}

examples:
  iostats web --socket "$XDG_RUNTIME_DIR/iostats-web.sock"
  curl --unix-socket /run/iostats-web/web.sock http://localhost/jobs

exit status:
  0 it was ended by a signal   1 it cannot run here   2 bad usage or site.cfg
  3 the port or the socket is in use or not allowed
"""):
    listen = option("--listen HOST:PORT",
                    "the address for the site's proxy (default: [web] listen)")
    socket = option("--socket PATH", 'a local socket (default: [web] socket); "" for none')
    quiet = flag("--quiet", "no line when it listens")
    log_format = option("--log-format FORMAT", "text, json or journal (default: text)")
    config = CONFIG


def main(arguments: list[str] | None = None) -> int:
    """Serve the pages; the exit status."""
    return run_role(lambda: _run(parse_options(WebOptions, arguments)))


def _run(options: WebOptions) -> int:
    from iostats.web import serve
    config = site.load(options.config)
    if options.listen is not None:
        config.set_value("web.listen", options.listen, "--listen")
    if options.socket is not None:
        config.set_value("web.socket", options.socket, "--socket")
    logs.log_to_stderr(logging.WARNING if options.quiet else logging.INFO, options.log_format)
    serve.run(config)
    return DONE


if __name__ == "__main__":
    sys.exit(main())
