"""
Events from an agent's message to a log server, a database, a page and a program, by a real server
of the site: each once, over restarts, and also where the receivers are away.
"""
from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import time

import pytest
from events_messages import STATUS, event, send
from site_inside import Inside
from test_event_followers import a_program, told
from test_syslog import Receiver

from iostats import sinks
from iostats.answers.site_server import SiteServer
from iostats.sinks.syslog import sender

A = "10.9.0.11@tcp"


class InsideWithSinks(Inside):
    """The same, with the sinks that `of_sinks`, {"section.key": value}, turn on."""

    of_sinks: dict[str, str]

    def begin(self):
        super().begin()
        sinks.add_sections(self.config)
        for name, value in self.of_sinks.items():
            self.config.set_value(name, value, "a test")
        self.said = []
        self.sinks = sinks.make_sinks(self.config, self.said.append, self.clock)
        self.server = SiteServer(self.store, [self.secret], self.config, self.clock, self.sinks)

    def sink(self, name):
        [found] = [one for one in self.sinks if type(one).__name__ == name]
        return found

    def end(self):
        """As serve_site does it."""
        for one in self.sinks:
            one.close()
        self.server.events.close()
        self.store.close()

    def run(self, *messages, until):
        """Let the server work, with these messages of oss1, until `until()`."""
        async def work():
            working = asyncio.ensure_future(self.server.events.work())
            await asyncio.sleep(0)
            for events in messages:
                send(self, events, status=STATUS)
                self.server._commit()
                await asyncio.sleep(0)
            ends = time.monotonic() + 150
            while not until():
                assert time.monotonic() < ends and not working.done(), working
                await asyncio.sleep(0.01)
            working.cancel()
        asyncio.run(work())


@pytest.fixture
def inside(tmp_path, monkeypatch):
    monkeypatch.setattr(sender, "AGAIN_S", (0.01, 0.02))
    receiver = Receiver()
    names = tmp_path / "names"
    names.write_text(f"{A} nid00011\n")
    program = a_program(tmp_path)

    InsideWithSinks.of_sinks = {
        "syslog.send_to": f"tcp://127.0.0.1:{receiver.port}", "prometheus.listen": "127.0.0.1:0",
        "influxdb.url": "http://127.0.0.1:1", "influxdb.spool_dir": str(tmp_path / "spool")}

    def again():
        return InsideWithSinks(tmp_path, clients_names=str(names), events_on_critical=str(program))
    found = again()
    found.receiver, found.again = receiver, again
    yield found
    receiver.close()


def numbers(inside, name="Prometheus"):
    return {one.name: one.value for one in inside.sink(name).numbers()}


def line_of(inside, form):
    return re.findall(form, inside.sink("Prometheus").page()[0].decode())


def test_each_receiver_has_each_event_once(inside, tmp_path):
    """Two evictions, one of which grows; a line that is no harm; the same message again."""
    one, two = event(23, clients=(A,)), event(37, "other")
    inside.run([one, two], [one, two], [one._replace(count=41)],
               until=lambda: len(inside.receiver.ids()) == 3 and told(tmp_path)
               and numbers(inside, "InfluxDB")["iostats_influxdb_spooled_points"] == 3)
    assert [one.id, two.id] == [each.decode() for each in inside.receiver.ids()[:2]]
    assert one.id == inside.receiver.ids()[2].decode()
    assert [[one.id]] == [[each["id"] for each in document["events"]]
                          for document in told(tmp_path)]
    assert ["nid00011"] == told(tmp_path)[0]["events"][0]["clients_names"]
    assert b'clients="nid00011"' in b"".join(inside.receiver.parts)
    assert ["41.0"] == line_of(
        inside, r'iostats_events_total{fs="\w+",kind="evicted",severity="critical"} ([1-9]\S+)')
    assert ["1.0"] == line_of(inside, r'iostats_storage_servers{state="heard"} (\S+)')
    inside.end()
    after = inside.again()
    assert 3 == after.sink("InfluxDB").numbers()[6].value        # that wait for the database
    after.run(until=lambda: True)
    assert ["0.0"] == line_of(after, r'iostats_events_total{fs="",kind="evicted",\S+} (\S+)')
    assert (3, 1) == (len(inside.receiver.ids()), len(told(tmp_path)))
    after.end()


def test_what_came_while_the_log_server_was_away_is_told_after_a_restart(inside, tmp_path):
    """And the database's directory has it at once."""
    inside.receiver.close()
    inside.run([event(23)],
               until=lambda: numbers(inside, "Syslog")["iostats_syslog_failures"] > 2
               and told(tmp_path))
    inside.end()
    assert 1 == len([line for line in inside.said if "events wait in the site's store" in line])
    receiver = Receiver(inside.receiver.port)
    after = inside.again()
    after.run([event(37)], until=lambda: len(receiver.ids()) == 2
              and len(told(tmp_path)) == 2)
    after.end()
    receiver.close()
    assert [event(23).id, event(37).id] == [each.decode() for each in receiver.ids()]
    assert [[event(23).id], [event(37).id]] == [
        [each["id"] for each in document["events"]] for document in told(tmp_path)]
    file = sqlite3.connect(inside.path)
    [(position,)] = file.execute("SELECT body FROM events_followers WHERE name = 'syslog'")
    [(newest,)] = file.execute("SELECT max(place) FROM events")
    file.close()
    assert newest == json.loads(position)["place"]
