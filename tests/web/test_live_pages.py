"""
Live pages: one question for all who see the same, only while somebody watches, with each one's
rights.  Nothing here is timed: questions are counted.
"""
from __future__ import annotations

import asyncio

import pytest
from page_client import client_of, request_of

from iostats.base.config import Config
from iostats.web.live import Live
from iostats.web.pages import Pages
from iostats.web.site_calls import PageError
from iostats.web.viewer import Viewer

READERS = [Viewer(f"reader{number}") for number in range(100)]
ALICE, BOB = Viewer("alice"), Viewer("bob")


class SiteOfTest:
    """The site's server: counts what it is asked."""

    def __init__(self):
        self.asked, self.rights_asked = [], 0

    def rights(self, viewer):
        return {"user": viewer.user, "all": viewer.user.startswith("reader")}

    def ask(self, viewer, method, params):
        self.asked.append((viewer.user, method, params["by"]))
        number = len(self.asked)
        return {"at": 1_795_225_060.0 + number, "kind": "rates", "span_s": 20.0, "began": None,
                "by": params["by"], "sort": "write", "file_system": "", "user": "", "text": "",
                "show": [], "rows": [], "file_systems": [], "left_off": 0, "missing": {},
                "only": "" if viewer.user.startswith("reader") else viewer.user}


@pytest.fixture
def pages():
    config = Config()
    found = Pages(config)
    found.site = found.shared._site = SiteOfTest()
    found.shared._fresh_s = 0.0
    return found


def live_of(pages, every_s=0.05, most=500):
    async def part(viewer, query):
        return pages.live_part(request_of(viewer, query))

    async def scope(viewer):
        return pages.find_viewer_scope(viewer)
    return Live(part, scope, every_s, most)


async def watch(live, viewer, query, events):
    """The first `events` parts that a watcher is sent."""
    found = []
    stream = await live.stream(viewer, query)
    async for data in stream:
        if data.startswith(b"event: part"):
            found.append(data)
            if len(found) == events:
                break
    await stream.aclose()
    return found


def parts_of(pages, viewers, query="by=job", events=3):
    async def all_of_them():
        live = live_of(pages)
        found = await asyncio.gather(*(watch(live, one, query, events) for one in viewers))
        assert (0, {}) == (live.watchers, live._feeds)
        return found
    return asyncio.run(all_of_them())


def test_a_hundred_watchers_cost_the_sites_server_what_one_costs(pages):
    """And all of them see the same."""
    one = parts_of(pages, READERS[:1])
    alone = len(pages.site.asked)
    pages.site.asked.clear()
    hundred = parts_of(pages, READERS)
    assert 3 == alone and len(pages.site.asked) <= alone + 1, pages.site.asked
    assert {3} == set(map(len, hundred)) and len({part for parts in hundred for part in parts}) <= 4
    assert b"averages over 20 s, sorted by Written MiB/s." in one[0][0]


def test_an_ordinary_user_is_sent_what_the_sites_server_gives_that_user(pages):
    """Each is a question of their own, whoever else watches."""
    found = parts_of(pages, [ALICE, BOB, *READERS[:7], ALICE])
    assert b"rows are alice&#39;s jobs only" in found[0][0]
    assert b"rows are bob&#39;s jobs only" in found[1][0]
    assert b"jobs only" not in found[2][0] and found[0][0] == found[-1][0]
    assert {"alice", "bob", "reader0"} == {user for user, _, _ in pages.site.asked}


def test_other_questions_are_others(pages):
    async def two():
        live = live_of(pages)
        await asyncio.gather(watch(live, READERS[0], "by=job", 2),
                             watch(live, READERS[1], "by=user", 2))
    asyncio.run(two())
    assert {"job", "user"} == {by for _, _, by in pages.site.asked}


def test_nothing_is_asked_when_nobody_watches(pages):
    async def later():
        live = live_of(pages)
        await watch(live, ALICE, "by=job", 2)
        before = len(pages.site.asked)
        await asyncio.sleep(0.3)
        return len(pages.site.asked) - before
    assert 0 == asyncio.run(later())


def test_too_many_watchers_are_refused_and_are_no_more_than_that(pages):
    async def three():
        live = live_of(pages, most=2)
        streams = [await live.stream(one, "by=job") for one in READERS[:2]]
        for stream in streams:
            await stream.__anext__()
        with pytest.raises(PageError, match="too many live pages"):
            await live.stream(READERS[2], "by=job")
        await streams[0].aclose()
        await (await live.stream(READERS[2], "by=job")).aclose()
        await streams[1].aclose()
        assert 0 == live.watchers
    asyncio.run(three())


def test_of_many_who_come_at_once_no_more_are_watchers_than_there_is_place_for(pages):
    """All of them ask before the first one is sent anything."""
    async def seven():
        live = live_of(pages, most=3)
        streams = await asyncio.gather(*(live.stream(one, "by=job") for one in READERS[:7]))
        firsts = [await stream.__anext__() for stream in streams]
        assert 3 == live.watchers
        late = [first for first in firsts if b"event: trouble" in first]
        assert 4 == len(late) and all(b"too many live pages" in first for first in late)
        for stream, first in zip(streams, firsts):
            if first in late:
                with pytest.raises(StopAsyncIteration):
                    await stream.__anext__()
            await stream.aclose()
        assert (0, {}) == (live.watchers, live._feeds)
    asyncio.run(seven())


def test_when_the_pages_end_all_streams_do(pages):
    """Also those that wait for a part that will not be made for an hour."""
    async def two():
        live = live_of(pages, every_s=3600)
        watching = [asyncio.ensure_future(watch(live, READERS[0], query, 2))
                    for query in ("by=job", "by=user")]
        while len(pages.site.asked) < 2:
            await asyncio.sleep(0.01)
        live.end()
        found = await asyncio.wait_for(asyncio.gather(*watching), 60)
        assert (0, {}) == (live.watchers, live._feeds)
        return found
    assert [1, 1] == [len(parts) for parts in asyncio.run(two())]


def test_what_goes_wrong_is_told_and_it_goes_on(pages):
    """The site's server is away for a while."""
    real, count = pages.site.ask, []

    def ask(viewer, method, params):
        count.append(1)
        if len(count) < 3:
            raise PageError(503, "the site's server does not answer just now")
        return real(viewer, method, params)
    pages.site.ask = ask

    async def events():
        live = live_of(pages)
        stream, found = await live.stream(ALICE, "by=job"), []
        async for data in stream:
            found.append(data.partition(b"\n")[0])
            if data.startswith(b"event: part"):
                break
        await stream.aclose()
        return found
    found = asyncio.run(events())
    assert b"event: trouble" == found[1] and b"event: part" == found[-1]


def test_who_may_no_longer_see_all_is_sent_no_more_of_it(pages):
    """reader0 watches with reader1, and is taken out of [site] readers; reader1 goes on."""
    real, no_longer = pages.site.rights, set()

    def rights(viewer):
        return {"user": viewer.user, "all": viewer.user not in no_longer and real(viewer)["all"]}
    pages.site.rights = rights

    async def two():
        live = live_of(pages)
        first, second = [await live.stream(one, "by=job") for one in READERS[:2]]
        await first.__anext__(), await second.__anext__()
        assert (await first.__anext__()).startswith(b"event: part")
        no_longer.add("reader0")
        assert [] == [data async for data in first if data.startswith(b"event")]
        pages.site.asked.clear()
        parts = 0
        async for data in second:
            parts += data.startswith(b"event: part")
            if parts == 4:
                break
        assert "reader1" in {user for user, _, _ in pages.site.asked}
        await second.aclose()
        assert (0, {}) == (live.watchers, live._feeds)
    asyncio.run(asyncio.wait_for(two(), 60))


def test_while_rights_are_not_known_a_stream_goes_on_with_why(pages):
    """A browser asks no more, once it was answered with another status than 200."""
    real = pages.site.rights

    async def one():
        live = live_of(pages)
        stream = await live.stream(READERS[0], "by=job")
        await stream.__anext__()
        assert (await stream.__anext__()).startswith(b"event: part")

        def away(viewer):
            raise PageError(503, "the site's server does not answer just now")
        pages.site.rights = away
        found = await stream.__anext__()
        assert found == b"event: trouble\ndata: the site's server does not answer just now\n\n"
        pages.site.rights = real
        while not (await stream.__anext__()).startswith(b"event: part"):
            pass
        await stream.aclose()
    asyncio.run(asyncio.wait_for(one(), 60))


def test_shared_pages_cost_one_question_in_some_seconds(pages):
    """Who has no JavaScript, or no stream, asks again and again."""
    pages.shared._fresh_s = 100.0
    for viewer in READERS:
        assert 200 == client_of(pages, viewer.user).get("/now/part?by=job&x=23").status_code
    assert [("reader0", "load", "job")] == pages.site.asked
    assert 200 == client_of(pages, "alice").get("/now/part?by=job").status_code
    assert 2 == len(pages.site.asked)
