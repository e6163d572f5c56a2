"""The clients at a site's server that runs, and is killed."""

import random
import threading
import time

from client_messages import ClientAgent, by_kind
from processes import until
from site_desk import SiteDesk

from iostats.base.errors import IostatsError
from iostats.wire import client, protocol

NID, OTHER = "10.77.0.11@tcp", "10.77.0.12@o2ib3"


class Sender(threading.Thread):
    """An agent that sends a sweep each second, each message until it is answered."""

    def __init__(self, desk, sweeps):
        super().__init__(daemon=True)
        self.desk, self.sweeps, self.tries, self.done = desk, sweeps, 0, 0
        self.agent, self.dice = ClientAgent("oss1", every=1), random.Random(23)
        self.truth = [0] * 6

    def run(self):
        for number in range(self.sweeps):
            gains = [self.dice.randrange(1, 1 << 20) * bool(number) for _ in range(6)]
            self.truth = [a + b for a, b in zip(self.truth, gains)]
            time.sleep(1 - time.time() % 1)
            params = self.agent.params(int(time.time()), by_kind(
                "scratch", {NID: gains, OTHER: [0] * 6}))
            while not self._sent(params):
                time.sleep(0.05)
            self.done += 1

    def _sent(self, params):
        self.tries += 1
        try:
            answer = client.call("127.0.0.1", self.desk.port, protocol.SITE, self.desk.signs(),
                                 "oss1", "packed_clients", params)
        except IostatsError:
            return False
        assert answer["taken"], answer
        return True


def test_a_server_that_is_killed_has_each_gain_once(tmp_path):
    """Killed again and again while an agent sends; what the sweeps came to is what was done."""
    desk = SiteDesk(tmp_path)
    names = tmp_path / "nodes"
    names.write_text(f"{NID} nid00011\nnonsense\n")
    desk.configure(harvest_interval=1, clients_names=names, batch_system="none")
    try:
        server, dice = desk.site(), random.Random(37)
        assert f"{names}:2: expected a NID, such as 10.0.0.11@o2ib, got 'nonsense'" in server.err
        sender = Sender(desk, 12)
        began = time.time()
        sender.start()
        while sender.is_alive():
            time.sleep(dice.uniform(0.3, 2.5))
            server.kill()
            if sender.tries == sender.done:            # the first one: a message meets no server
                until(lambda: sender.tries > sender.done + 1 or not sender.is_alive(),
                      what="a message that is sent again")
            server = desk.site()
        assert 12 == sender.done and sender.tries > 12
        def row(**ask):
            """The row of NID's node, when there is a sweep."""
            def asked():
                try:
                    rows = desk.asked("nodes", since=began - 10, **ask)["nodes"]
                except client.Refused:
                    return None
                return next((row for row in rows if row["node"] == "nid00011"), None)
            return until(asked, what="a sweep")

        found = row()
        most = found.get("at_most") or found
        assert sender.truth == [max(found[name], most[name]) for name in (
            "read_bytes", "write_bytes", "reads", "writes", "ost_operations", "mdt_operations")]
        assert 0 == server.stop().status
        server = desk.site()
        assert "damaged" not in server.err
        found = row(until=time.time())
        assert sender.truth[0] == max(
            found["read_bytes"], (found.get("at_most") or found)["read_bytes"])
    finally:
        desk.close()
