"""
One handler behind one of several HTTP servers: `python http_servers.py NAME PORT`.

The handler gives the same answer to every POST, so that what is measured is the HTTP layer.
"""

import asyncio
import sys

ANSWER = b'{"jsonrpc":"2.0","result":{"job":"4711","protocol":1,"time":1795225959.5},"id":1}'


async def app(scope, receive, send):
    """The handler, for servers that speak ASGI."""
    if scope["type"] != "http":
        return
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [
        (b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]})
    await send({"type": "http.response.body", "body": ANSWER})


def iostats(port):
    """iostats/server/http_server.py, on uvloop as in iostats/cli/server.py."""
    import uvloop

    from iostats.base import config as site
    from iostats.server.http_server import HttpLimits, HttpServer

    class Same(HttpServer):
        def answering(self, body, authorization, is_deflated):
            return ANSWER, ""
            yield

    async def serve():
        await Same(HttpLimits.of(site.load("/dev/null"))).listen_on("127.0.0.1", [port])
        await asyncio.Event().wait()

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(serve())


def granian(port):
    """One worker, embedded in this process."""
    import uvloop
    from granian.constants import Interfaces
    from granian.server.embed import Server

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    server = Server(app, address="127.0.0.1", port=port, interface=Interfaces.ASGINL,
                    backlog=65535, log_enabled=False, websockets=False)
    asyncio.run(server.serve())


def uvicorn(port):
    """One worker, with httptools and uvloop."""
    import uvicorn as package
    package.Server(package.Config(app, host="127.0.0.1", port=port, loop="uvloop",
                                  http="httptools", ws="none", lifespan="off", backlog=65535,
                                  log_level="warning", access_log=False)).run()


def threads(port):
    """A thread for each connection, by the standard library."""
    from threads import serve
    serve(lambda body, authorization: (ANSWER, ""), port, keep_alive=True).serve_forever()


SERVERS = {one.__name__: one for one in (iostats, granian, uvicorn, threads)}

if __name__ == "__main__":
    SERVERS[sys.argv[1]](int(sys.argv[2]))
