"""Events of LDMS' daemons at the site's server: once, whichever instance tells them."""
import json

import pytest
from processes import until
from site_desk import SiteDesk

from iostats.events.event import make_event
from iostats.wire import auth
from iostats_ldms.status.notifications import EventSender

WHO = "ldms-orion"


def down(time, over=None):
    return make_event("", WHO, ("ldms", "agg-2", repr(time)), "aggregator_down", time, over=over,
                      message=f"agg-2: refused at {time:.0f}")


@pytest.fixture
def desk(tmp_path):
    with SiteDesk(tmp_path) as made_here:
        yield made_here


def events(desk):
    return [json.loads(line) for line in
            desk.iostats("events", "--json", "-S", "2020-01-01", "-n", "all").out.splitlines()]


def test_two_instances_that_tell_one_outage_tell_one_event(desk):
    server = desk.site()
    said, also_said = [], []
    now = 1_790_000_000.0
    one, other = EventSender(desk.config, WHO, said.append), EventSender(desk.config, WHO,
                                                                         also_said.append)
    one.send([down(now)])
    until(lambda: one.delivered == 1, what=lambda: f"it is told: {said}")
    other.send([down(now), down(now + 23)], old={down(now).id})
    other.send([down(now, over=now + 37)])
    until(lambda: other.delivered == 3 or (other.delivered == 2 and not other._waiting),
          what=lambda: (
        f"all is told: {also_said}"))
    server.process.terminate()
    server.process.wait()
    desk.site()
    other.send([down(now + 41)])
    until(lambda: not other._waiting, what=lambda: f"after a restart: {also_said}")
    found = {event["id"]: event for event in events(desk)}
    assert {down(now).id: now + 37, down(now + 23).id: None, down(now + 41).id: None} == {
        # By the server's clock, which is some milliseconds from ours.
        name: event["over"] and round(event["over"]) for name, event in found.items()}
    assert {WHO} == {event["node"] for event in found.values()}
    # What another had logged is not logged again, until it grows.
    assert ["refused at 1790000023", "(over after 37 s): agg-2: refused at 1790000000"] == [
        line.partition("agg-2: " if number == 0 else "aggregator_down ")[2]
        for number, line in enumerate(also_said[:2])]
    for sender in (one, other):
        sender.end()


def test_who_is_not_root_tells_by_the_secret_where_munge_comes_first(desk, monkeypatch):
    """By munge the site's server takes events of root alone; the unit is a user of its own."""
    desk.site()
    asked = []
    monkeypatch.setattr(auth, "_check_munge", asked.append)      # a munged that works
    monkeypatch.setattr("os.geteuid", lambda: 65534)
    said = []
    desk.config.server.auth = ["munge", "secret"]
    desk.config.server.munge_socket = str(desk.directory / "munged")
    one = EventSender(desk.config, WHO, said.append)
    one.send([down(1_790_000_000.0)])
    until(lambda: one.delivered == 1 or len(said) > 1, what=lambda: f"it is told: {said}")
    one.end()
    assert 1 == one.delivered and 1 == len(said), said
    assert [WHO] == [event["node"] for event in events(desk)]


def test_it_is_no_storage_server_that_should_be_heard(desk):
    desk.site()
    sender = EventSender(desk.config, WHO, print)
    sender.send([down(1_790_000_000.0)])
    until(lambda: sender.delivered == 1, what="it is told")
    sender.end()
    status = desk.asked("events_status")
    assert WHO not in json.dumps(status) and "servers" in status


def test_a_copy_without_the_end_is_not_logged_after_it(desk):
    desk.cfg.write_text("")
    said, now = [], 1_790_000_000.0
    sender = EventSender(desk.config, WHO, said.append)
    sender.send([down(now, over=now + 37)])
    sender.send([down(now)])
    sender.end()
    [line] = said
    assert "over after 37 s" in line


def test_without_a_site_server_it_is_in_the_log_alone(desk):
    desk.cfg.write_text("")
    said = []
    sender = EventSender(desk.config, WHO, said.append)
    sender.send([down(1_790_000_000.0)] * 2)
    sender.end()
    [line] = said
    assert line.endswith(" critical aggregator_down: agg-2: refused at 1790000000")
