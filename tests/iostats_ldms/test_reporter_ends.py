"""The loop that tells a group's state: it ends when cancelled, whatever comes with that."""
import asyncio
import contextlib

import pytest

from iostats.base import config as site
from iostats_ldms.service.reports import DOWN, ServiceEvent, ServiceStatus
from iostats_ldms.status.notifications import EventSender
from iostats_ldms.status.reporter import Reporter


@pytest.mark.parametrize("turns", range(5))
def test_a_cancellation_that_comes_with_an_event_is_not_lost(turns, tmp_path):
    """asyncio.wait_for before Python 3.12 forgets it where its result is there in the same turn."""
    (tmp_path / "none.cfg").write_text("")
    said = []

    async def story():
        sender = EventSender(site.load(str(tmp_path / "none.cfg"), environ={}), "ldms-orion",
                          said.append)
        reporter = Reporter("ldms-orion", "one", sender, said.append)
        running = asyncio.ensure_future(reporter.run(lambda: ServiceStatus(37), lambda: None,
                                                     asyncio.Event()))
        try:
            await asyncio.sleep(0.3)                # it waits for something to tell
            reporter.on_event(ServiceEvent(DOWN, "", "agg-2", "refused", 23.0))
            for _ in range(turns):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait([running], timeout=60.0)
            assert running.cancelled()
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            sender.end()
    asyncio.run(story())


def test_what_happens_to_a_daemon_that_left_the_description_is_said_with_its_name(tmp_path):
    (tmp_path / "none.cfg").write_text("")
    said = []
    sender = EventSender(site.load(str(tmp_path / "none.cfg"), environ={}), "ldms-orion",
                         said.append)
    reporter = Reporter("ldms-orion", "one", sender, said.append)
    reporter.on_event(ServiceEvent(DOWN, "", "agg-2", "h:411: no connection", 23.0))
    reporter.on_event(ServiceEvent(DOWN, "", "agg-2", "agg-2 answers again", 37.0))
    reporter.report(ServiceStatus(37), {})
    sender.end()
    assert ["agg-2: h:411: no connection", "agg-2 answers again"] == said
