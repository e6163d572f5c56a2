"""
Figure 14: the control connection to LDMS' daemons: what a command and an open connection cost.

The peer is what asyncio itself takes for it: a bare asyncio.Protocol that sends as many bytes as a
command has, and waits for as many as its answer has.  What is counted is the client's own process.
"""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys

from measure import REPOSITORY, BenchmarkError, Server, Table, environment, free_port, median_ratio

ASKED, ANSWERED = 95, 117               # bytes of prdcr_start name=node-00023, and its refusal
AT_ONCE = 100


def run(quick):
    """The Tables of this figure."""
    commands, connections, rounds = (2000, 500, 2) if quick else (20000, 15000, 7)
    cpu_us, bytes_each, open_us = ({"ours": [], "bare": []} for _ in range(3))
    one_us = {"ours": [], "bare": []}
    for _ in range(rounds):
        for kind in ("ours", "bare"):
            port = free_port()
            with Server([sys.executable, __file__, "serve", kind, str(port)], port):
                said = _client(kind, port, commands, connections)
            cpu_us[kind].append(said["together_us"])
            one_us[kind].append(said["one_us"])
            bytes_each[kind].append(said["bytes_each"])
            open_us[kind].append(said["open_us"])
    rows = [[what, f"{statistics.median(of['ours']):.1f}", f"{statistics.median(of['bare']):.1f}",
             f"{median_ratio(of['ours'], of['bare']):.1f}"]
            for what, of in (("CPU us of a command, one at a time", one_us),
                             (f"CPU us of a command, {AT_ONCE} at a time", cpu_us),
                             ("CPU us to open a connection", open_us),
                             ("bytes of an open connection", bytes_each))]
    return [Table("Control connection to ldmsd", ["what", "iostats", "asyncio", "ratio"], rows,
                  [f"median of {rounds} rounds, each of {commands} commands and {connections} "
                   f"connections"])]


def _client(kind, port, commands, connections):
    done = subprocess.run([sys.executable, __file__, "client", kind, str(port), str(commands),
                           str(connections)], env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise BenchmarkError(f"the client failed: {done.stderr[-500:]}")
    return json.loads(done.stdout)


# -- the daemons ---------------------------------------------------------------------------------

async def serve(kind, port):
    """All connections of one process, for ever."""
    from iostats_ldms.control.protocol import Authentication
    from simldms.control_end import CommandReceived, ServerProtocol

    class Daemon(asyncio.Protocol):
        def connection_made(self, transport):
            self.core, self.transport = ServerProtocol(Authentication()), transport

        def data_received(self, data):
            for event in self.core.receive(data):
                if isinstance(event, CommandReceived):
                    self.core.answer(event.number, 0 if event.statement.verb == "cfg_cntr" else 16,
                                     "23" if event.statement.verb == "cfg_cntr"
                                     else "The producer is already running.")
            self.transport.write(self.core.outgoing())

    class Bare(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, self.kept = transport, 0

        def data_received(self, data):
            whole, self.kept = divmod(self.kept + len(data), ASKED)
            self.transport.write(b"x" * ANSWERED * whole)

    server = await asyncio.get_running_loop().create_server(
        Daemon if kind == "ours" else Bare, "0.0.0.0", port, backlog=1000)
    await server.serve_forever()


# -- the client ----------------------------------------------------------------------------------

class BareConnection(asyncio.Protocol):
    """The least that asks and is answered."""

    def __init__(self):
        self.waiting, self.kept = [], 0

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        whole, self.kept = divmod(self.kept + len(data), ANSWERED)
        for future in self.waiting[:whole]:
            future.set_result(None)
        del self.waiting[:whole]

    async def command(self, _statement):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        self.transport.write(b"x" * ASKED)
        await future


async def client(kind, port, commands, connections):
    """{what: number}"""
    from iostats_ldms.control.connection import Connection
    from iostats_ldms.statements.dialect import Statement

    async def opened(n):
        host = f"127.0.0.{1 + n // 20000}"
        if kind == "ours":
            return await Connection.open(host, port, connect_within_s=60, answer_within_s=60)
        _, one = await asyncio.get_running_loop().create_connection(BareConnection, host, port)
        await one.command(None)
        return one

    statement = Statement("prdcr_start", (("name", "node-00023"),))
    first = await opened(0)
    await first.command(statement)
    said, cpu_s = {}, _cpu_s()
    for _ in range(commands):
        await first.command(statement)
    said["one_us"] = (_cpu_s() - cpu_s) / commands * 1e6
    cpu_s = _cpu_s()
    for _ in range(commands // AT_ONCE):
        await asyncio.gather(*(first.command(statement) for _ in range(AT_ONCE)))
    said["together_us"] = (_cpu_s() - cpu_s) / commands * 1e6
    before, cpu_s, kept = _resident(), _cpu_s(), []
    for start in range(0, connections, 200):
        kept += await asyncio.gather(*map(opened, range(start, min(start + 200, connections))))
    said["open_us"] = (_cpu_s() - cpu_s) / connections * 1e6
    said["bytes_each"] = (_resident() - before) / connections
    return said


def _cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    sys.path.insert(0, REPOSITORY)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if sys.argv[1] == "serve":
        asyncio.run(serve(sys.argv[2], int(sys.argv[3])))
    else:
        json.dump(asyncio.run(client(sys.argv[2], *map(int, sys.argv[3:]))), sys.stdout)
    sys.stdout.flush()
    os._exit(0)                                  # 15,000 connections need not be closed one by one
