"""
From the kernel's log of a storage server to a monitor: an agent and a site's server, both killed
again and again.
"""
from __future__ import annotations

import random
import time

from processes import until
from server_files import ServerFiles
from site_desk import SiteDesk
from storage import StorageServer

from iostats.base.errors import IostatsError

TARGETS = ["scratch-OST0003", "scratch-OST0005"]


class Monitor:
    """Asks for what is behind the place it has seen, and for nothing twice."""

    def __init__(self, desk):
        self.desk, self.after, self.seen, self.numberings = desk, 0, {}, set()

    def scan(self):
        """What it has seen; a server that is away is asked again later."""
        while True:
            try:
                found = self.desk.asked("events", after=self.after, limit=37, kinds=["evicted"])
            except IostatsError:
                return self.seen
            self.numberings.add(found["places"])
            for row in found["events"]:
                known = self.seen.get(row["id"])
                assert known is None or (known["count"], known["last"], known["over"]) != (
                    row["count"], row["last"], row["over"]), "seen before"
                self.seen[row["id"]] = row
            self.after = found["next"]
            if not found["more"]:
                return self.seen


def test_each_line_of_the_log_is_with_the_monitor_once(tmp_path):
    dice, number, expected = random.Random(23), 23, {target: 0 for target in TARGETS}
    with SiteDesk(tmp_path) as desk:
        desk.configure(harvest_interval=60, events_every=1, batch_system="none")
        storage = StorageServer(desk, "oss1")
        storage.show("OST0003", {})
        files = ServerFiles(storage.root, "2.17")
        for at, target in enumerate(TARGETS):
            files.start(target, instance=41 + at, clients=37)
        log = storage.root / "dev/kmsg"
        log.parent.mkdir()
        log.touch()
        server, agent, monitor = desk.site(), storage.agent(), Monitor(desk)
        until(lambda: desk.asked("events_status")["servers"], what="the agent")
        for step in range(40):
            with log.open("a") as file:
                for _ in range(dice.randrange(1, 60)):
                    number, target = number + 1, dice.choice(TARGETS)
                    expected[target] += 1
                    usec = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1e6)
                    file.write(
                        f"4,{number},{usec},-;Lustre: {target}: haven't heard from client "
                        f"f15aa50c-8084-47f6-bb2e-{number:012x} (at 10.9.{number >> 8}."
                        f"{number & 255}@tcp) in 39 seconds. I think it's dead, and I am evicting "
                        f"it. exp 0000000040f6bb5c, cur 1795333379 deadline 1795333378 last "
                        f"1795333340\n")
            time.sleep(dice.uniform(0, 0.4))
            if dice.random() < 0.3:
                monitor.scan()
            if step % 4 == 1:
                agent.kill()
                agent.communicate()
                agent = storage.agent()
            if step % 5 == 2:
                server.kill()
                if dice.random() < 0.5:
                    time.sleep(dice.uniform(0, 1))
                server = desk.site()

        def counted():
            seen = monitor.scan().values()
            return {target: sum(row["count"] for row in seen if row["target"] == target)
                    for target in TARGETS}
        until(lambda: expected == counted(), within_s=150,
              what=lambda: f"{expected}, not {counted()}")
        time.sleep(2)                               # and no more
        assert expected == counted() and 1 == len(monitor.numberings)
        assert all(len(row["clients"]) == min(8, row["count"]) and row["node"] == "oss1"
                   for row in monitor.seen.values())
        [row] = desk.asked("events_status")["servers"]
        assert {"up"} == {one["state"] for one in row["targets"].values()} and not row["late"]
        agent.terminate()
        agent.communicate()
        assert 0 == server.stop().status
