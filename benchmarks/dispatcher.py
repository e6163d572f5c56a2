"""
Figure 4: JSON-RPC calls a second in one process, against pjrpc's dispatcher with the same methods.

Bytes in, bytes out, no socket: a `hello`, and a `report` with figure 1's params, which both sides
check with the same msgspec.Struct.  pjrpc runs as it comes, and with msgspec for its JSON.
"""

import inspect
import json
import statistics
import tempfile
import time

import msgspec
from measure import BenchmarkError, Table, median_ratio
from server import report_of

from iostats.wire import jsonrpc
from iostats.wire.messages.report import NodeReport


def run(quick):
    """The Table of this figure."""
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        params = report_of(directory)
    bodies = {"hello": _call("hello", {}), "report": _call("report", params)}
    ours, pjrpc = _ours(), _pjrpc(params)
    pjrpc_msgspec = _pjrpc(params, msgspec_json=True)
    rows = []
    for name, calls in (("hello", 2000), ("report", 300)):
        dispatchers = {"ours": ours, "pjrpc": pjrpc, "pjrpc, msgspec": pjrpc_msgspec}
        rates = _rates(dispatchers, bodies[name], calls, rounds=3 if quick else 25)
        rows.append([name, len(bodies[name]),
                     *(f"{statistics.median(one):.0f}" for one in rates.values()),
                     *(f"{median_ratio(rates['ours'], rates[peer]):.1f}"
                       for peer in list(dispatchers)[1:])])
    return [Table("dispatcher: JSON-RPC calls per second, in process",
                  ["method", "bytes", "iostats", "pjrpc", "pjrpc, msgspec", "iostats / pjrpc",
                   "/ pjrpc, msgspec"], rows,
                  ["pjrpc, msgspec: with msgspec as its json_loader and json_dumper"])]


def _call(method, params):
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 1},
                      separators=(",", ":")).encode()


def _hello():
    return {"job": "4711", "protocol": 1, "time": 1795225959.5}


def _counted(report):
    return {"counted": report.protocol == 1, "why": ""}


def _ours():
    methods = {"hello": jsonrpc.Method(lambda params, context: _hello(), None),
               "report": jsonrpc.Method(lambda report, context: _counted(report), NodeReport)}
    return lambda body: jsonrpc.dispatch(body, methods)


def _pjrpc(members, msgspec_json=False):
    from pjrpc.server import Dispatcher, MethodRegistry
    registry = MethodRegistry()
    registry.add("hello")(_hello)

    def report(**params):
        return _counted(msgspec.convert(params, NodeReport))
    # pjrpc binds the params to names of the function's own, so here they are, all of them.
    report.__signature__ = inspect.Signature([
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in members])
    registry.add("report")(report)

    options = {} if not msgspec_json else {
        "json_loader": lambda text, cls=None: msgspec.json.decode(text),
        "json_dumper": lambda answer, cls=None: msgspec.json.encode(answer).decode()}
    dispatcher = Dispatcher(**options)
    dispatcher.add_methods(registry)
    return lambda body: dispatcher.dispatch(body.decode(), context=None)[0].encode()


def _rates(dispatchers, body, calls, rounds):
    """name -> [calls per second], one a round."""
    rates = {name: [] for name in dispatchers}
    for _ in range(rounds):
        for name, dispatch in dispatchers.items():
            if b'"result"' not in dispatch(body):
                raise BenchmarkError(f"{name}: {dispatch(body)!r}")
            began = time.perf_counter()
            for _ in range(calls):
                dispatch(body)
            rates[name].append(calls / (time.perf_counter() - began))
    return rates
