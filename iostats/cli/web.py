"""
iostats web: the pages of a site.
"""

from __future__ import annotations

import logging
import sys

from iostats.base import config as site
from iostats.base import logs
from iostats.base.errors import DONE
from iostats.cli.parser import parser, say, status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

HELP = """\
usage: iostats web [options]

Show jobs, nodes, file systems, events and the load of now as pages, to users
and to those who look after the site.  It asks the site's server, which decides
who may see what: users see their own jobs, [site] readers all.  It changes
nothing, and never runs as root.

Who asks is told by the site's proxy in a header ([web] user_header, taken from
[web] trusted alone), or, for programs of this host, by the kernel ([web]
socket).  docs/web.md has examples for Apache, nginx and Open OnDemand.

options:
  --listen HOST:PORT    where the site's proxy asks (default: [web] listen)
  --socket PATH         a local socket (default: [web] socket); "" for none
  --quiet               no line when it listens
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  --help                this text

examples:
  iostats web --socket "$XDG_RUNTIME_DIR/iostats-web.sock"
  curl --unix-socket /run/iostats-web/web.sock http://localhost/jobs

exit status:
  0 it was ended by a signal   1 it cannot work here   2 bad usage or site.cfg
  3 the port or the socket could not be had
"""


def main(arguments: list[str] | None = None) -> int:
    """Serve the pages; the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    return status_of(lambda: _run(parser("iostats web", HELP, (
        "--listen", "--socket", "--config"), ("--quiet",)).parse_args(words)))


def _run(options: argparse.Namespace) -> int:
    from iostats.web import serve
    config = site.load(options.config)
    for key in ("listen", "socket"):
        given = getattr(options, key)
        if given is not None:
            config.take(f"web.{key}", given, f"--{key}")
    logs.to_standard_error(logging.WARNING)
    serve.run(config, (lambda text: None) if options.quiet else say)
    return DONE


if __name__ == "__main__":
    sys.exit(main())
