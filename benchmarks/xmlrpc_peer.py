"""
The standard library's server of XML-RPC, with the traps of a file: `xmlrpc_peer.py PORT FILE`.

A thread for each connection, and connections that stay open, as the specification of 2004 asks.
"""

import json
import socketserver
import sys
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer


class _Handler(SimpleXMLRPCRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True


class _Threads(socketserver.ThreadingMixIn, SimpleXMLRPCServer):
    daemon_threads = True
    request_queue_size = 1024


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        traps, stamp = json.load(file)
    with _Threads(("127.0.0.1", int(sys.argv[1])), _Handler, logRequests=False) as server:
        server.register_function(lambda time: [traps if time < stamp else [], stamp], "getTraps")
        server.serve_forever()


if __name__ == "__main__":
    main()
