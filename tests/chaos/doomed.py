"""
A server that ends itself, as kill -9 does, at one step of its protocol:

    python doomed.py STEP METHOD NTH  OPTIONS OF iostats_server.py

    hello      the NTH `hello` has come, and is not answered
    received   the NTH message METHOD (report, sweep) has come
    counted    it has been taken, in memory
    stored     it is on the disk: in the site's store, in the journal of a job's server
    answered   its answer has left
"""

import os
import signal
import sys

from iostats.answers import site_server as receive
from iostats.cli import server as role
from iostats.jobs import open_jobs, records
from iostats.server import journal
from iostats.server.http_server import HttpServer
from iostats.server.job_server import JobServer
from iostats.server.rpc_server import RpcServer
from iostats.store import record_store as store

open_jobs.SETTLES_S = open_jobs.LATE_S = 0.03              # as in site_desk.py
records.POLL_EVERY_S = 0.01

STEP, METHOD, NTH = sys.argv[1], sys.argv[2], int(sys.argv[3])
_seen = {"messages": 0, "is_it": False}


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _around(kind, name, before=None, after=None):
    whole = getattr(kind, name)

    def instead(*arguments, **more):
        if before:
            before()
        result = whole(*arguments, **more)
        if after:
            after()
        return result
    setattr(kind, name, instead)


def _count(step):
    def seen():
        _seen["messages"] += 1
        _seen["is_it"] = _seen["messages"] == NTH
        if _seen["is_it"] and STEP == step:
            _die()
    return seen


def _die_if(step):
    def scan():
        if STEP == step and _seen["is_it"]:
            _die()
    return scan


if STEP == "hello":
    _around(RpcServer, "_answer_hello", before=_count("hello"))
else:
    NAME = f"_receive_{METHOD}"
    for one in (JobServer, receive.SiteServer) if METHOD == "report" else (receive.SiteServer,):
        _around(one, NAME, before=_count("received"), after=_die_if("counted"))
_around(store.Store, "commit", after=_die_if("stored"))
_around(journal.Journal, "add", after=_die_if("stored"))
_around(HttpServer, "send", after=_die_if("answered"))
sys.exit(role.main(sys.argv[4:]))
