"""
The server of one job: receives its reports, adds them up, and keeps them in a journal.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Optional

import msgspec

from iostats.base.errors import NotDelivered, WireError
from iostats.base.job_id import ports
from iostats.base.logs import log_internal_error
from iostats.report.node_sets import folded
from iostats.server.rpc_server import Caller, RpcServer, Sender
from iostats.totals.job_totals import Totals
from iostats.wire import jsonrpc, protocol
from iostats.wire.jsonrpc import Method
from iostats.wire.messages import totals as messages_totals
from iostats.wire.messages.report import NodeReport, check_report
from iostats.wire.messages.report_decoder import ReportDecoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.server.journal import Journal
    from iostats.wire.auth import Credentials


def totals_options(config: "Config") -> dict[str, Any]:
    """The options of Totals in a server: nodes as node lists, their short records as JSON."""
    return {"fold": folded, "pack": lambda short: msgspec.Raw(msgspec.json.encode(short)),
            "unpack": msgspec.json.decode, "max_nodes": config["server.max_nodes"]}


class JobServer(RpcServer):
    """
    Receives the reports of one job.

    Attributes:
        totals: the Totals.
        heard: an asyncio.Event, set by the first report and when all nodes are heard.
        journal: the Journal, after `resume`; None without one.
    """

    def __init__(self, totals: Totals, credentials: "Iterable[Credentials]", config: "Config",
                 now: Callable[[], float] = time.time) -> None:
        super().__init__(totals.job, credentials, config, now)
        self.totals, self.heard = totals, asyncio.Event()
        self.first_report_at: Optional[float] = None
        self._metrics: set[str] = set()
        self._merged: set[str] = set()
        self.journal: Optional[Journal] = None
        self._has_news = False                         # what is in no journal yet
        self.methods.update(report=Method(self._report, NodeReport,
                                          ReportDecoder(totals.shapes).decode, keys_once=True),
                            totals=Method(self._totals, messages_totals.TotalsParams,
                                          keys_once=True),
                            status=Method(self._status, None))

    def refuse(self, why: str, node: Optional[str] = None) -> None:
        self.totals.refuse(why, node)

    def _report(self, report: NodeReport, sender: Sender) -> dict[str, Any]:
        check_report(report, self.require_authenticated(sender).node, self.totals.job,
                     self._metrics)
        return self._answer(self.totals.add(report))

    def _totals(self, params: messages_totals.TotalsParams, sender: Sender) -> dict[str, Any]:
        """Many nodes in one message; each message once."""
        caller = self.require_authenticated(sender)
        others = messages_totals.totals_of(params, caller.node, self.totals.job, self._metrics,
                                           self.totals.name_of)
        if params.seq in self._merged:
            return {"counted": True, "why": "these totals were counted before"}
        answer = self._answer(self.totals.merge(others))
        self._merged.add(params.seq)
        return answer

    def _answer(self, outcome: Any) -> dict[str, Any]:
        if self.first_report_at is None or self.totals.all_heard:
            self.first_report_at = self.first_report_at or self._now()
            self.heard.set()
        if not outcome.counted:
            raise WireError(protocol.REFUSED, outcome.why)
        self._has_news = self._has_news or not outcome.why
        return {"counted": True, "why": outcome.why}

    def resume(self, journal: "Journal") -> None:
        """
        Count what an earlier server of this job has left in `journal`; from now on each message is
        kept there before it is answered.
        """
        for node, body in journal.read():
            if node is not None:
                jsonrpc.dispatch(body, self.methods, Caller(node, None), log_internal_error)
                continue
            found = msgspec.json.decode(body)
            self._merged.update(found["merged"])
            try:
                self._answer(self.totals.merge(Totals.from_state(found["totals"],
                                                                 named=self.totals.name_of)))
            except WireError as error:
                journal.refused(str(error))
        self.journal, self._has_news = journal, False

    def before_answer(self, body: bytes, sender: Sender) -> None:
        # The news are of this very message: no method here takes steps.
        journal, has_news, self._has_news = self.journal, self._has_news, False
        if journal is None or not has_news or not isinstance(sender, Caller):
            return
        journal.add(sender.node, body)
        # At the end the table comes first, and then there is no journal any more.
        if journal.is_long and not self.totals.all_heard:
            journal.replace(msgspec.json.encode({"totals": self.totals.state(packed=True),
                                                 "merged": sorted(self._merged)}))

    def _status(self, params: Any, sender: Sender) -> dict[str, Any]:
        self.require_authenticated(sender)
        totals = self.totals
        return {"job": totals.job, "expected": totals.expected_count,
                "reported": totals.reported, "missing": totals.missing()}

    async def listen(self, host: str = "", port: Optional[int] = None) -> None:
        """Listen on the first free port of the job's, or on `port`; sets `self.port`."""
        config = self.config
        wanted = [port] if port else ports(self.name, config["server.port_first"],
                                           config["server.port_last"],
                                           config["server.port_tries"])
        if await self.listen_on(host, wanted) is None:
            raise NotDelivered(f"all ports of job {self.name} are taken "
                               f"({' '.join(map(str, wanted))}); widen [server] port_first, "
                               f"port_last or port_tries in site.cfg")
