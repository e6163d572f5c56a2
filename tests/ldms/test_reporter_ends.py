"""The loop that tells a group's state: it ends when cancelled, whatever comes with that."""
import asyncio
import contextlib

import pytest

from iostats.base import config as site
from iostats.ldms.service.told import DOWN, Happening, ServiceState
from iostats.ldms.status.reporter import Reporter
from iostats.ldms.status.telling import Telling


@pytest.mark.parametrize("turns", range(5))
def test_a_cancellation_that_comes_with_an_event_is_not_lost(turns, tmp_path):
    """asyncio.wait_for before Python 3.12 forgets it where its result is there in the same turn."""
    (tmp_path / "none.cfg").write_text("")
    said = []

    async def story():
        telling = Telling(site.load(str(tmp_path / "none.cfg"), environ={}), "ldms-orion",
                          said.append)
        reporter = Reporter("ldms-orion", "one", telling, said.append)
        running = asyncio.ensure_future(reporter.run(lambda: ServiceState(37), lambda: None,
                                                     asyncio.Event()))
        try:
            await asyncio.sleep(0.3)                # it waits for something to tell
            reporter.happened(Happening(DOWN, "", "agg-2", "refused", 23.0))
            for _ in range(turns):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait([running], timeout=2.0)
            assert running.cancelled()
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            telling.end()
    asyncio.run(story())


def test_what_happens_to_a_daemon_that_left_the_description_is_said_with_its_name(tmp_path):
    (tmp_path / "none.cfg").write_text("")
    said = []
    telling = Telling(site.load(str(tmp_path / "none.cfg"), environ={}), "ldms-orion", said.append)
    reporter = Reporter("ldms-orion", "one", telling, said.append)
    reporter.happened(Happening(DOWN, "", "agg-2", "h:411: no connection", 23.0))
    reporter.happened(Happening(DOWN, "", "agg-2", "agg-2 answers again", 37.0))
    reporter.report(ServiceState(37), {})
    telling.end()
    assert ["agg-2: h:411: no connection", "agg-2 answers again"] == said
