"""
The server of one job: receives its reports, adds them up, and stores them in a journal.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

import msgspec

from iostats.base.errors import NotDelivered, WireError
from iostats.base.job_ports import list_ports
from iostats.base.logs import log_internal_error
from iostats.report.node_sets import fold_nodes
from iostats.server.rpc_server import Caller, RpcServer, Sender
from iostats.totals.job_totals import Outcome, Totals
from iostats.wire import jsonrpc, protocol
from iostats.wire.jsonrpc import Method
from iostats.wire.messages import totals as messages_totals
from iostats.wire.messages.report import NodeReport, ReportDecoder, check_report

if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.server.journal import Journal
    from iostats.wire.auth import Credentials

TotalsT = TypeVar("TotalsT", bound=Totals)


def make_totals(config: "Config", job: str, expected: Union[frozenset[str], int, None],
                kind: type[TotalsT]) -> TotalsT:
    """The Totals of a job in a server: nodes as node lists, their short records as JSON."""
    return kind(job, expected, fold=fold_nodes, max_nodes=config.server.max_nodes,
                pack=lambda short: msgspec.Raw(msgspec.json.encode(short)),
                unpack=msgspec.json.decode)


class JobServer(RpcServer):
    """
    Receives the reports of one job.

    Attributes:
        totals: the Totals.
        reported: an asyncio.Event, set by the first report and when all nodes have reported.
        journal: the Journal, after `resume`; None without one.
    """

    def __init__(self, totals: Totals, credentials: "Iterable[Credentials]", config: "Config",
                 now: Callable[[], float] = time.time) -> None:
        super().__init__(totals.job, credentials, config, now)
        self.totals, self.reported = totals, asyncio.Event()
        self.first_report_at: Optional[float] = None
        self._metrics: set[str] = set()
        self._merged: set[str] = set()
        self.journal: Optional[Journal] = None
        self._has_news = False                         # reports that are not in the journal yet
        self.methods.update(report=Method(self._receive_report, NodeReport,
                                          ReportDecoder(totals.shapes).decode, keys_once=True),
                            totals=Method(self._receive_totals, messages_totals.TotalsParams,
                                          keys_once=True),
                            status=Method(self._answer_status, None))

    def refuse(self, why: str, node: Optional[str] = None) -> None:
        self.totals.refuse(why, node)

    def _receive_report(self, report: NodeReport, sender: Sender) -> dict[str, Any]:
        check_report(report, self.require_authenticated(sender).node, self.totals.job,
                     self._metrics)
        return self._answer(self.totals.add(report))

    def _receive_totals(self, params: messages_totals.TotalsParams,
                        sender: Sender) -> dict[str, Any]:
        """Count many nodes from one message; each message once."""
        caller = self.require_authenticated(sender)
        merged = messages_totals.read_totals(params, caller.node, self.totals.job, self._metrics,
                                             self.totals.expand_name)
        if params.seq in self._merged:
            return {"counted": True, "why": "these totals were counted before"}
        answer = self._answer(self.totals.merge(merged))
        self._merged.add(params.seq)
        return answer

    def _answer(self, outcome: Outcome) -> dict[str, Any]:
        if self.first_report_at is None or self.totals.all_reported:
            self.first_report_at = self.first_report_at or self._now()
            self.reported.set()
        if not outcome.counted:
            raise WireError(protocol.REFUSED, outcome.why)
        self._has_news = self._has_news or not outcome.why
        return {"counted": True, "why": outcome.why}

    def resume(self, journal: "Journal") -> None:
        """
        Count the messages of an earlier server of this job in `journal`; new messages are stored
        there before they are answered.
        """
        for node, body in journal.read():
            if node is not None:
                jsonrpc.dispatch(body, self.methods, Caller(node, None), log_internal_error)
                continue
            state = msgspec.json.decode(body)
            self._merged.update(state["merged"])
            try:
                self._answer(self.totals.merge(Totals.from_state(state["totals"],
                                                                 named=self.totals.expand_name)))
            except WireError as error:
                journal.refused(str(error))
        self.journal, self._has_news = journal, False

    def before_answer(self, body: bytes, sender: Sender) -> None:
        # The new report is that of this message: no method here takes steps.
        journal, has_news, self._has_news = self.journal, self._has_news, False
        if journal is None or not has_news or not isinstance(sender, Caller):
            return
        journal.add(sender.node, body)
        # At the end the report is printed first, and then the journal is removed.
        if journal.is_long and not self.totals.all_reported:
            journal.replace(msgspec.json.encode({"totals": self.totals.state(packed=True),
                                                 "merged": sorted(self._merged)}))

    def _answer_status(self, params: None, sender: Sender) -> dict[str, Any]:
        self.require_authenticated(sender)
        totals = self.totals
        return {"job": totals.job, "expected": totals.expected_count,
                "reported": totals.reported, "missing": totals.list_missing_nodes()}

    async def listen(self, host: str = "", port: Optional[int] = None) -> None:
        """Listen on the first free port of the job's, or on `port`; sets `self.port`."""
        config = self.config
        candidates = [port] if port else list_ports(
            self.name, config.server.port_first, config.server.port_last,
            config.server.port_tries)
        if await self.listen_on(host, candidates) is None:
            raise NotDelivered(f"all ports of job {self.name} are in use "
                               f"({' '.join(map(str, candidates))}); widen [server] port_first, "
                               f"port_last or port_tries in site.cfg")
