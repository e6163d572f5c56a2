"""
kill -9 of a site's server, of a collector and of monitors at random moments, while a storage server
logs: a monitor of both shows each event once, whatever happens.
"""
from __future__ import annotations

import json
import subprocess
import threading
import time

from campaign import WHOLE, dice, tell
from kernel_lines import silent
from processes import REPOSITORY, until
from test_events_command import command, environment
from test_events_live import tell as tell_site

from iostats.base.errors import IostatsError
from iostats.events.gather import Gathering
from iostats.node import identity

ROUNDS = 60 if WHOLE else 6


class LocalAgent(threading.Thread):
    """Tells the site's server what the machine's log says, as its agent does, until it is ended."""

    def __init__(self, desk, machine):
        super().__init__(daemon=True)
        self._desk, self._ended = desk, threading.Event()
        self._gathering = Gathering(str(machine.root), desk.config, identity.find_node_name(),
                                    identity.read_boot_id(), str(machine.directory / "agent.state"))

    def run(self):
        while not self._ended.wait(0.05):
            found = self._gathering.scan()
            if found.events:
                try:
                    tell_site(self._desk, *found.events, node=identity.find_node_name())
                except IostatsError:
                    continue                            # it is told again
            self._gathering.acknowledge()

    def close(self):
        self._ended.set()
        self.join(60)
        self._gathering.close()


class FollowingMonitor:
    """`iostats events -f` that can be killed and started again; all that it printed."""

    def __init__(self, path, *words):
        self._path, self._words = path, words
        self.start()

    def start(self):
        with self._path.open("a") as out, self._path.with_suffix(".err").open("a") as err:
            self._process = subprocess.Popen(
                command("-f", "--json", *self._words), env=environment(PATH="/usr/bin:/bin"),
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=REPOSITORY)

    def kill(self):
        self._process.kill()
        self._process.wait()

    @property
    def err(self):
        return self._path.with_suffix(".err").read_text()

    def targets(self):
        """The target of each line that is no update."""
        text = self._path.read_text()
        return [one["target"] for one in map(json.loads, text.splitlines()) if not one["is_update"]]


def test_each_event_is_shown_once_over_kills_of_all(desk, machine):
    """
    One monitor lives on, and has each event once.  The other is killed, too: it has each event, and
    what it printed in the moment of a kill perhaps twice.
    """
    chance, kills = dice("events"), {"site": 0, "collector": 0, "monitor": 0}
    server = desk.site()
    config = machine.configured()
    collector = machine.start(config=config)
    agent = LocalAgent(desk, machine)
    agent.start()
    words = ["--config", desk.cfg, "-S", "now-1hour", "--server", f"127.0.0.1:{desk.port}",
             "--server", f"http://127.0.0.1:{collector.port}"]
    one = FollowingMonitor(machine.directory / "one", *words)
    two = FollowingMonitor(machine.directory / "two", *words, "--cursor-file",
                           machine.directory / "cursor")
    logged = []
    try:
        for number in range(ROUNDS):
            for _ in range(chance.randrange(1, 40)):
                target = f"scratch-OST{len(logged):04x}"
                logged.append(target)
                machine.log(silent(f"10.9.0.{chance.randrange(1, 250)}@o2ib2", target))
            time.sleep(chance.uniform(0, 1.5))
            what = chance.sample(("site", "collector", "monitor"), chance.randrange(4))
            if "site" in what:
                server.kill()
            if "collector" in what:
                collector.kill()
            if "monitor" in what:
                two.kill()
            time.sleep(chance.uniform(0, 1.5))
            if "site" in what:
                server = desk.site()
            if "collector" in what:
                collector = machine.start(config=config)
            if "monitor" in what:
                two.start()
            for name in what:
                kills[name] += 1
            if number % 5 == 4:
                until(lambda: set(logged) <= set(one.targets()), what="all of them")
        until(lambda: set(logged) <= set(one.targets()) & set(two.targets()),
              what=lambda: f"{set(logged) - set(one.targets())}, "
                           f"{set(logged) - set(two.targets())}; {one.err}")
        time.sleep(3)                                   # what would be told twice is told by now
        assert sorted(logged) == sorted(one.targets())
        twice = len(two.targets()) - len(logged)
        assert set(logged) == set(two.targets()) and "Traceback" not in one.err + two.err
        tell("kill -9, monitors of events", kills=kills, events=len(logged), twice=twice)
        assert 0 == twice or kills["monitor"]
    finally:
        agent.close()
        one.kill()
        two.kill()
