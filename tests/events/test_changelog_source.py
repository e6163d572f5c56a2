"""Users of changelogs that are far behind."""
from __future__ import annotations

import pytest
from server_files import PLACES, ServerFiles

from iostats.base.config import Config
from iostats.events.server_reading import read_server
from iostats.events.sources import changelog

MDT, T, LIMIT = "scratch-MDT0000", 1_795_333_400.0, 1000


@pytest.fixture(params=sorted(PLACES))
def server(request, tmp_path):
    found = ServerFiles(tmp_path, request.param)
    found.start(MDT)
    return found


def users(**unread):
    return ("current index: 1000000\nID    index (idle seconds)\n" + "".join(
        f"{name}   {1_000_000 - behind} (7300)\n" for name, behind in unread.items()))


class Scans:
    def __init__(self, server, limit=LIMIT):
        self.server, self.limit, self.state, self.ids = server, limit, None, []

    def __call__(self, now, stored=True):
        found = changelog.detect(read_server(str(self.server.root)), self.server.place, self.state,
                                 now, self.limit)
        self.state = found.state if stored else self.state
        self.ids += [one.id for one in found.events]
        return [(one.kind, one.target, one.time, one.over, one.message) for one in found.events]


def test_a_user_that_is_far_behind_is_one_event_until_it_has_caught_up(server):
    scans = Scans(server)
    server.changelog_users(MDT, users(cl1=999, cl2=0))
    assert [] == scans(T)
    server.changelog_users(MDT, users(cl1=1000, cl2=0))
    text = f"{MDT}: changelog user cl1 has 1,000 records to clear; it last cleared some 2 h ago"
    assert [("changelog_lag", MDT, T + 10, None, text)] == scans(T + 10, stored=False)
    scans(T + 10)                           # after a kill, the same event
    server.changelog_users(MDT, users(cl1=500, cl2=0))
    assert [] == scans(T + 20)
    server.changelog_users(MDT, users(cl1=499, cl2=0))
    assert [("changelog_lag", MDT, T + 10, T + 30)] == [one[:4] for one in scans(T + 30)]
    assert 1 == len(set(scans.ids))


def test_a_user_that_is_removed_ends_its_event_and_an_unreadable_file_does_not(server):
    scans = Scans(server)
    server.changelog_users(MDT, users(cl1=2300, cl2=3700))
    assert 2 == len(scans(T))
    server.changelog_users(MDT, "a word\n")
    assert [] == scans(T + 10)
    server.changelog_users(MDT, users(cl2=3700))
    assert [(T, T + 20, f"{MDT}: changelog user cl1 is no longer here")] == [
        one[2:] for one in scans(T + 20)]
    server.stop(MDT)
    assert [(T, T + 30)] == [one[2:4] for one in scans(T + 30)]


def test_no_limit_is_no_event(server):
    server.changelog_users(MDT, users(cl1=999_999))
    assert [] == Scans(server, 0)(T)


def test_what_is_not_understood_is_reported(server):
    server.changelog_users(MDT, "a word\n")
    [why] = read_server(str(server.root)).why
    assert f"{MDT}: changelog_users: expected the current index and a heading" in why


def test_the_limit_is_that_of_the_configuration(tmp_path):
    server = ServerFiles(tmp_path)
    server.start(MDT)
    server.changelog_users(MDT, users(cl1=23))
    config = Config()
    config.set_value("events.changelog_records", "23", "a test")
    found = changelog.scan(server.place._replace(config=config), None, T)
    assert ["changelog_lag"] == [one.kind for one in found.events]
