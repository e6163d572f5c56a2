"""
All that runs beside the service: one of several instances, its status, events and metrics.

    beside = Beside(config, etcd, say)              etcd: None where there is none
    service = Service(groups_owned=beside.groups_owned, may_command=beside.may_command,
                      happened=beside.happened)
    await asyncio.gather(service.run(stop), beside.run(service, stop))
"""

from __future__ import annotations

import asyncio
import socket

from iostats.ldms.instances.membership import Membership, own_name
from iostats.ldms.status.reporter import Reporter
from iostats.ldms.status.telling import Telling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from iostats.base.config import Config
    from iostats.etcd.client import Etcd
    from iostats.ldms.service.service import Service
    from iostats.ldms.service.told import Happening
    from iostats.sinks.prometheus.metrics_server import MetricsServer


_BEAT_S = 0.5


class Beside:
    """`say`: gets a line for the log.  ConfigError where [ldms] metrics can't be listened on."""

    def __init__(self, config: Config, etcd: Etcd | None, say: Callable[[str], None]) -> None:
        self._config, self._etcd = config, etcd
        self.membership = (None if etcd is None
                           else Membership(etcd, config["ldms.lease"], say))
        self.name = own_name() if self.membership is None else self.membership.name
        # All instances of a cluster tell as one.
        who = socket.gethostname() if etcd is None else f"ldms-{etcd.prefix}"
        self.telling = Telling(config, who, say)
        self.reporter = Reporter(who, self.name, self.telling, say, self.membership, etcd)
        self._metrics: MetricsServer | None = None
        if config["ldms.metrics"]:
            from iostats.ldms.status import metrics     # which take httptools
            self._metrics = metrics.metrics_server(config, lambda: metrics.families(
                self.reporter, self.telling, self.membership))

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """(host, port) where the metrics are, or None."""
        return None if self._metrics is None else self._metrics.address

    def groups_owned(self) -> Collection[str] | None:
        """The groups that are ours; None: all."""
        return None if self.membership is None else self.membership.groups_owned()

    def may_command(self, group: str) -> bool:
        """Asked right before each command is sent."""
        return self.membership is None or self.membership.may_command(group)

    def happened(self, happening: Happening) -> None:
        """What the service tells."""
        self.reporter.happened(happening)

    async def run(self, service: Service, stop: asyncio.Event) -> None:
        """Until `stop` is set; then our groups go to others at once."""
        loop = asyncio.get_running_loop()

        def tell_service() -> None:
            try:
                loop.call_soon_threadsafe(service.ownership_changed)
            except RuntimeError:                    # the loop has ended
                pass
        if self.membership is not None:
            self.membership.on_change = tell_service
            self.membership.start()
        beats = asyncio.ensure_future(self._beat())     # while the reporter waits for etcd as well
        try:
            await self.reporter.run(service.state, lambda: service.description, stop)
        finally:
            beats.cancel()
            await loop.run_in_executor(None, self.end)

    async def _beat(self) -> None:
        """The event loop, in which the service is, goes on."""
        while self.membership is not None:
            self.membership.beat()
            await asyncio.sleep(_BEAT_S)

    def end(self) -> None:
        """Own nothing, and tell what waits."""
        if self.membership is not None:
            self.membership.stop()
        self.telling.end()
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None
