"""
Everything that one connection can do to a message, at every byte of it: each report and each sweep
is counted once, whatever the sender came to know of it.
"""

import threading
import time

import pytest
from campaign import WHOLE, dice, tell
from faulty_relay import BACK, CUT, DELAY, HALF_OPEN, HELD, OUT, RESET, TRICKLE, Fault, Relay
from processes import Desk, until
from site_desk import SiteDesk, a_report, application
from storage import StorageServer, moved

from iostats.base import config as site
from iostats.base.errors import NotDelivered
from iostats.storage import agent as storage_agent
from iostats.wire import auth, client, protocol
from iostats.wire.client import Refused

_STEP = 1 if WHOLE else 61             # every byte, or every 61st
_WITHIN_S = 0.4                        # for an answer that does not come


def faults(out, back, chance):
    """The Faults at every _STEP-th byte of a conversation of so many bytes each way."""
    found = [Fault(how, way, at) for way, size in ((OUT, out), (BACK, back))
             for at in range(0, size, _STEP) for how in (CUT, RESET)]
    slow = [Fault(how, way, chance.randrange(size)) for way, size in ((OUT, out), (BACK, back))
            for how in (HALF_OPEN, HELD) for _ in range(23 if WHOLE else 1)]
    return found + slow + [Fault(how, way) for way in (OUT, BACK) for how in (TRICKLE, DELAY)]


def rows_of(desk):
    """What the storage servers have counted for job 4711; [] before the first whole sweep."""
    try:
        return desk.asked("query", level="b", job="4711")["rows"]
    except Refused:
        return []


class Senders:
    """Send, with a fault; once more without; and count what the sender takes as done."""

    def __init__(self, relay):
        self.relay, self.outcomes = relay, {}

    def send(self, fault, once):
        """`once(port)` raises NotDelivered, or returns what was answered."""
        self.relay.faults.append(fault)
        try:
            once(self.relay.port)
            what = "delivered"
        except NotDelivered:
            what = "not delivered"
        key = f"{fault.how} {fault.way}: {what}"
        self.outcomes[key] = self.outcomes.get(key, 0) + 1


def numbers(count):
    """Of so many nodes, how many reads each did: no two alike, and no sum of two is another's."""
    return [23 + 37 * number for number in range(count)]


@pytest.mark.timeout(1800)
def test_a_report_to_the_site_server_is_counted_once_at_whichever_byte_it_breaks(tmp_path):
    with SiteDesk(tmp_path) as desk:
        desk.configure(site_deadline=900)
        desk.site()
        signs = desk.signs()

        def report(number, job="4711", of=1):
            return a_report(job, f"n{number:05}", f"seq {number}", reads=23 + 37 * number,
                            about={"nodes": f"n[00000-{of - 1:05}]"})

        def send(one, port, within_s=60):
            return client.call("127.0.0.1", port, protocol.SITE, signs, one["node"], "report", one,
                               within_s)
        with Relay(desk.port) as relay:
            send(report(0, "4710"), relay.port)
            until(lambda: relay.passed[-1][1])
            time.sleep(0.1)
            chance, senders = dice("report to site"), Senders(relay)
            todo = faults(*relay.passed[-1], chance)
            for number, fault in enumerate(todo):
                one = report(number, of=len(todo))
                senders.send(fault, lambda port, one=one, fault=fault: send(
                    one, port, _WITHIN_S if fault.how in (HALF_OPEN, HELD) else 60))
                assert send(one, desk.port)["counted"]
                if fault.how in (HALF_OPEN, HELD):
                    relay.release()                # ... and the first one arrives, after all
            record = desk.record("4711")
            assert len(todo) == record["coverage"]["reported"]
            assert {} == record["coverage"]["missing"]
            assert sum(numbers(len(todo))) == application(record)["read_calls"]
            tell("relay: report -> site server", bytes=relay.passed[0], faults=len(todo),
                 struck=relay.struck, counted_once=len(todo), outcomes=senders.outcomes)


@pytest.mark.timeout(1800)
def test_a_stop_to_the_jobs_server_is_counted_once_at_whichever_byte_it_breaks(tmp_path):
    """The last node reports when all the others' bytes have arrived."""
    with Desk(tmp_path) as desk:
        config = site.load("/dev/null", environ={})
        chance = dice("stop to job server")

        def report(number):
            one = a_report(desk.job, f"n{number:05}", f"seq {number}", reads=23 + 37 * number)
            del one["about"]
            return one
        server = desk.server("--nodes", 99_999, "--format", "json", "--deadline", 9999)
        signs = auth.load_client_credentials(config, desk.job, str(
            desk.home / ".iostats" / f"{desk.job}.secret"))

        def send(one, port, within_s=60):
            return client.call("127.0.0.1", port, desk.job, signs, one["node"], "report", one,
                               within_s)
        with Relay(server.port) as relay:
            send(report(0), relay.port)
            until(lambda: relay.passed[-1][1])
            time.sleep(0.1)
            senders, todo = Senders(relay), faults(*relay.passed[-1], chance)
            for number, fault in enumerate(todo, 1):
                one = report(number)
                senders.send(fault, lambda port, one=one, fault=fault: send(
                    one, port, _WITHIN_S if fault.how in (HALF_OPEN, HELD) else 60))
                assert send(one, server.port)["counted"]
                if fault.how in (HALF_OPEN, HELD):
                    relay.release()
            record = server.stop().record
            assert 1 + len(todo) == record["coverage"]["reported"]
            assert sum(numbers(1 + len(todo))) == application(record)["read_calls"]
            tell("relay: stop -> job server", bytes=relay.passed[0], faults=len(todo),
                 struck=relay.struck, counted_once=len(todo), outcomes=senders.outcomes)


def send_through(port, delivery):
    """Let an agent reach its server, which is the same one, by this port."""
    delivery.servers.call = lambda signs, node, method, params, within_s, learn, moves: client.call(
        "127.0.0.1", port, protocol.SITE, signs, node, method, params, within_s, learn=learn)


@pytest.mark.timeout(1800)
def test_a_sweep_to_the_site_server_is_counted_once_at_whichever_byte_it_breaks(tmp_path):
    """Job 4711 writes 1009 bytes more before each sweep; late copies of messages arrive, too."""
    with SiteDesk(tmp_path) as desk:
        desk.configure(harvest_interval=1, harvest_spool_dir=desk.directory / "spool",
                       harvest_cpu_percent=100)
        desk.site()
        oss, said = StorageServer(desk), []
        oss.show("OST0000", {})
        agent = storage_agent.Agent(desk.config, str(oss.root), "oss1", [("127.0.0.1", desk.port)],
                                    [], said.append)
        slot = int(time.time())

        def deliver(port, within_s=60.0):
            """All that waits, in one try."""
            delivery = agent.delivery
            delivery.retry_at = 0.0
            send_through(port, delivery)
            while len(delivery.spool):
                first = delivery.spool.find_first()
                if delivery.send(delivery.spool.load(first), within_s) != "taken":
                    raise NotDelivered("later")
                delivery.spool.remove(first)
        with Relay(desk.port) as relay:
            for _ in range(2):                     # the second one is no full sweep
                agent.sweep(slot, 1)
                deliver(relay.port)
                slot += 1
            until(lambda: relay.passed[-1][1])
            time.sleep(0.1)
            chance, senders = dice("sweep to site"), Senders(relay)
            out, back = relay.passed[-1]
            todo = faults(out + 200, back, chance)           # with an entry it is longer
            for step, fault in enumerate(todo, 1):
                oss.show("OST0000", {"4711": moved(written=1009 * step)})
                agent.sweep(slot, 1)
                slot += 1
                senders.send(fault, lambda port, fault=fault: deliver(
                    port, _WITHIN_S if fault.how in (HALF_OPEN, HELD) else 60))
                deliver(desk.port)
                if fault.how in (HALF_OPEN, HELD):
                    relay.release()

            def counted():
                rows = rows_of(desk)
                return rows and (rows[0]["write_bytes"], rows[0]["lower_bound"])
            until(lambda: counted() == (1009 * len(todo), False), what=f"{counted()}")
            tell("relay: sweep -> site server", bytes=[out, back], faults=len(todo),
                 struck=relay.struck, counted_once=len(todo), outcomes=senders.outcomes)


def test_a_whole_message_that_arrives_late_does_not_turn_the_chain_back(tmp_path):
    """
    The first, full message of an old chain is held on its way until another chain has begun.
    """
    with SiteDesk(tmp_path) as desk:
        desk.configure(harvest_interval=1, harvest_spool_dir=desk.directory / "spool",
                       harvest_cpu_percent=100)
        desk.site()
        oss, said = StorageServer(desk), []
        oss.show("OST0000", {"4711": moved(written=23 * 1009)})
        agent = storage_agent.Agent(desk.config, str(oss.root), "oss1", [("127.0.0.1", desk.port)],
                                    [], said.append)
        slot = int(time.time())
        with Relay(desk.port) as relay:
            agent.sweep(slot, 1)
            size = 800                                     # after its hello, in its message
            relay.faults.append(Fault(HELD, OUT, size))
            delivery = agent.delivery
            send_through(relay.port, delivery)
            sending = threading.Thread(target=delivery.send, args=(
                delivery.spool.load(delivery.spool.find_first()), 6.0))
            sending.start()
            sending.join()
            send_through(desk.port, delivery)
            delivery.retry_at, agent.encoder.is_broken = 0.0, True
            assert delivery.deliver(time.monotonic() + 60)
            oss.show("OST0000", {"4711": moved(written=41 * 1009)})
            agent.sweep(slot + 1, 1)                      # another chain: it is full as well
            agent.delivery.retry_at = 0.0
            assert agent.delivery.deliver(time.monotonic() + 60)
            relay.release()
            assert 1 == relay.struck
        oss.show("OST0000", {"4711": moved(written=43 * 1009)})
        agent.sweep(slot + 2, 1)
        agent.delivery.retry_at = 0.0
        assert agent.delivery.deliver(time.monotonic() + 60)
        assert not agent.encoder.is_broken, said
        until(lambda: [(43 * 1009, False)] == [
            (row["write_bytes"], row["lower_bound"]) for row in rows_of(desk)])
