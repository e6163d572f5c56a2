"""Command line of simldms."""
from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from iostats.base.errors import IostatsError
from iostats_ldms.control.authentication import load_authentication

from .daemon import VERSIONS
from .live import LiveDaemon

EPILOG = """\
examples:
  python -m simldms -x sock:10023 -n node-23 -c node-23.conf
  python -m simldms -x sock:10023 -n node-23 --sets lustre_client=3,2200,392
  python -m simldms -x sock:20001 -n agg-1 --auth ovis:/etc/ldms/secret --version 4.4.6
  python -m simldms -x sock:20001 -n agg-1 --says prdcr_status=oops

exit status:
  0 ended by SIGTERM or SIGINT   2 bad usage   7 its port is in use   139 it died of a command
  38, 22, 2, 17, ... the errno of the first line of -c that was refused
"""


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m simldms", description="A simulated ldmsd: it answers control connections, "
        "has metric sets without metrics, and collects those of others.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-x", metavar="sock:PORT[:HOST]", action="append", default=[],
                        dest="listen", help="listen there; more than one are possible")
    parser.add_argument("-n", metavar="NAME", dest="name", default="simldms", help="its name")
    parser.add_argument("-c", metavar="FILE", dest="file", help="statements to begin with; - for "
                        "standard input")
    parser.add_argument("--version", choices=VERSIONS, default=VERSIONS[0],
                        help="the release whose answers it gives")
    parser.add_argument("--auth", metavar="ovis:FILE", default="none", help="who may connect; none")
    parser.add_argument("--sets", metavar="PLUGIN=N,META,DATA", action="append", default=[],
                        help="a sampler makes N sets of these sizes")
    parser.add_argument("--says", metavar="VERB=TEXT", action="append", default=[],
                        help="what it answers to a verb, whatever is right")
    parser.add_argument("--hostname", default="", help="as which it advertises itself; this "
                        "machine's")
    args = parser.parse_args(arguments)
    try:
        makes = dict(_makes(text) for text in args.sets)
        says = dict(text.split("=", 1) for text in args.says)
        lines = [_listen_line(text) for text in args.listen]
        plugin, _, conf = args.auth.partition(":")
        auth = load_authentication(plugin, conf)
    except (ValueError, IostatsError) as error:
        parser.error(str(error))
    try:
        return asyncio.run(_run(args, lines, makes, says, auth))
    except OSError as error:
        print(f"simldms: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


async def _run(args, lines, makes, says, auth) -> int:
    live = LiveDaemon(args.name, args.version, makes=makes, says=says, auth=auth,
                      hostname=args.hostname)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    where = "-x"
    try:
        live.run_lines(lines)
        if args.file:
            where = args.file
            with open(0 if args.file == "-" else args.file, encoding="utf-8") as file:
                live.run_lines(file.read().splitlines())
    except IostatsError as error:
        print(f"simldms: {where}: {error}", file=sys.stderr)
        await live.close()
        return 7 if where == "-x" else error.errno & 0xff
    died = asyncio.ensure_future(live.gone.wait())
    await asyncio.wait([died, asyncio.ensure_future(ended.wait())],
                       return_when=asyncio.FIRST_COMPLETED)
    if live.daemon.crashed:
        print(f"simldms: {live.daemon.crashed}", file=sys.stderr)
    await live.close()
    return 139 if live.daemon.crashed else 0


def _makes(text: str):
    """(plugin, its sets) of PLUGIN=N,META,DATA."""
    plugin, equals, rest = text.partition("=")
    numbers = rest.split(",")
    if not plugin or not equals or len(numbers) != 3 or not all(map(str.isdecimal, numbers)):
        raise ValueError(f"--sets: expected PLUGIN=N,META,DATA, got {text!r}")
    count, meta, data = map(int, numbers)
    return plugin, [("" if n == 0 else f"-{n}", "", meta, data) for n in range(count)]


def _listen_line(text: str) -> str:
    transport, _, rest = text.partition(":")
    port, _, host = rest.partition(":")
    if not port.isdecimal():
        raise ValueError(f"-x: expected sock:PORT or sock:PORT:HOST, got {text!r}")
    return f"listen xprt={transport} port={port} host={host or '127.0.0.1'}"


if __name__ == "__main__":
    sys.exit(main())
