"""Events of LNet on a storage server: dropped messages, interfaces and routers that are down."""
from __future__ import annotations

import errno

import pytest
from server_files import ServerFiles

from iostats.base.config import Config
from iostats.events.gather import Gathering
from iostats.events.lnet_changes import read_health, read_lnet
from iostats.events.sources import lnet

T = 1_795_333_400.0
PLACES = {"2.10": "proc/sys/lnet", "2.17": "sys/kernel/debug/lnet"}
NIS = "nid                      status alive refs peer  rtr   max    tx   min\n"
ROUTERS = "ref  rtr_ref alive router\n"
PEERS = "nid                      refs state  last   max   rtr   min    tx   min queue\n"


class Lnet:
    """LNet's files, and scan after scan of them."""

    def __init__(self, directory, release):
        self.server = ServerFiles(directory, release)
        self.directory = self.server.root / PLACES[release]
        self.directory.mkdir(parents=True)
        self.state, self.ids = None, []

    def write(self, sent, dropped, sent_bytes=None):
        sent_bytes = 4096 * sent if sent_bytes is None else sent_bytes
        (self.directory / "stats").write_text(
            f"0 23 0 {sent} 0 0 {dropped} {sent_bytes} 0 0 {53 * dropped}\n")

    def interface(self, status, tx=128):
        (self.directory / "nis").write_text(
            f"{NIS}10.9.0.3@o2ib               {status}    -1    2    8    0   128   {tx}    59\n")

    def peers(self, **credits):
        """{last number of a NID: (now, lowest)}."""
        (self.directory / "peers").write_text(PEERS + "".join(
            f"10.9.1.{name[1:]}@o2ib  1    NA    -1     8     8     8 {now} {lowest} 0\n"
            for name, (now, lowest) in credits.items()))

    def routers(self, **states):
        (self.directory / "routers").write_text(ROUTERS + "".join(
            f"4          1  {state} 10.9.1.{name[1:]}@o2ib\n" for name, state in states.items()))

    def lnetctl(self, at, sent, resent, health=1000):
        path = self.server.root / "run/iostats/lnetctl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"time: {at:.0f}\nstatistics:\n    send_count: {sent}\n"
                        f"    resend_count: {resent}\n    response_timeout_count: 47\nnet:\n"
                        f"    - nid: 10.9.0.3@o2ib\n      health value: {health}\n")

    def scan(self, now, stored=True):
        found = lnet.scan(self.server.place, self.state, now)
        if stored:
            self.state = found.state
        self.status = found.status
        self.ids += [one.id for one in found.events]
        return [(one.kind, one.time, one.last, one.over, one.count, one.message)
                for one in found.events]


@pytest.fixture(params=sorted(PLACES))
def network(request, tmp_path):
    return Lnet(tmp_path, request.param)


def test_many_drops_are_one_event_that_grows_and_ends(network):
    network.write(1000, 500)
    assert [] == network.scan(T)                    # earlier messages are unknown
    network.write(1990, 510)
    text = "LNet dropped 10 of 1,000 messages (1.0 %)"
    assert [("lnet_drops", T, T + 10, None, 10, text)] == network.scan(T + 10, stored=False)
    network.scan(T + 10)                            # after a kill, the same event
    network.write(2017, 523)
    text = "LNet dropped 23 of 1,040 messages (2.2 %)"
    assert [("lnet_drops", T, T + 20, None, 23, text)] == network.scan(T + 20)
    network.write(3017, 524)
    assert [("lnet_drops", T, T + 20, T + 20, 23, text)] == network.scan(T + 30)
    assert 1 == len(set(network.ids))
    network.write(3027, 564)
    assert [40] == [count for *_, count, _ in network.scan(T + 40)]
    assert 2 == len(set(network.ids))


@pytest.mark.parametrize("sent, dropped", [(1991, 510), (1000, 509)],
                         ids=["below 1 %", "fewer than ten"])
def test_few_drops_are_none(network, sent, dropped):
    network.write(1000, 500)
    network.scan(T)
    network.write(sent, dropped)
    assert [] == network.scan(T + 10)


def test_a_reset_is_no_drop(network):
    network.write(1000, 500)
    network.scan(T)
    network.write(23, 10)
    assert [] == network.scan(T + 10)
    network.write(43, 30)
    assert [20] == [count for *_, count, _ in network.scan(T + 20)]


def test_an_interface_and_a_router_that_are_down(network):
    network.write(1000, 500)
    network.interface("up")
    network.routers(r1="up", r2="down")
    down = "the router 10.9.1.2@o2ib is down"
    assert [("router_down", T, T, None, 1, down)] == network.scan(T)
    network.interface("down", tx=-37)
    assert [("lnet_down", T + 10, T + 10, None, 1, "LNet's interface 10.9.0.3@o2ib is down")] == (
        network.scan(T + 10))
    assert {"sent": 1000, "received": 0, "routed": 0, "dropped": 500, "sent_bytes": 4_096_000,
            "received_bytes": 0, "routed_bytes": 0, "dropped_bytes": 26_500, "waiting": 37,
            "down": ["10.9.0.3@o2ib", "10.9.1.2@o2ib"],
            "credits": {"o2ib": {"waiting": 37, "lowest": 59}}} == network.status["lnet"]
    network.interface("up")
    network.routers(r1="up")
    assert [("lnet_down", T + 10, T + 20, T + 20), ("router_down", T, T + 20, T + 20)] == [
        one[:4] for one in network.scan(T + 20)]
    assert [] == network.scan(T + 30) and [] == network.status["lnet"]["down"]


def test_without_lnet_nothing_is_known(tmp_path):
    server = ServerFiles(tmp_path)
    found = lnet.detect(read_lnet(str(server.root)), server.place, None, T)
    assert ([], {}) == (found.events, found.status)


def test_credits_of_peers_are_in_the_status_each_minute(network):
    """Messages wait for two of four; three have had too few credits, those that wait most first."""
    network.write(1000, 0)
    network.interface("up", tx=-41)
    network.peers(a7=(-2, -7), a11=(8, 5), a13=(8, -53), a17=(-23, -31))
    network.scan(T)
    of_o2ib = {"waiting": 41, "lowest": 59, "peers": 4, "waiting_peers": 2, "peer_waiting": 25,
               "peer_lowest": -53}
    assert {"o2ib": of_o2ib} == network.status["lnet"]["credits"]
    assert [("10.9.1.17@o2ib", (23, -31)), ("10.9.1.7@o2ib", (2, -7)),
            ("10.9.1.13@o2ib", (0, -53))] == [*network.status["lnet"]["short_peers"].items()]
    network.peers(a7=(8, -7))
    network.scan(T + 59)
    assert {"o2ib": of_o2ib} == network.status["lnet"]["credits"]
    network.scan(T + 60)
    assert {"o2ib": {**of_o2ib, "peers": 1, "waiting_peers": 0, "peer_waiting": 0,
                     "peer_lowest": -7}} == network.status["lnet"]["credits"]


def test_a_router_without_targets_has_a_status_of_its_network(tmp_path):
    network = Lnet(tmp_path, "2.17")
    network.write(1000, 0)
    gathering = Gathering(str(network.server.root), Config(), "router1", "b" * 32, None,
                          ("server",))
    status = gathering.scan().status
    gathering.close()
    assert 1000 == status["lnet"]["sent"]


def test_a_file_that_is_not_understood_is_reported_and_leaves_the_others(network):
    network.write(1000, 500)
    (network.directory / "nis").write_text("a word\n")
    found = read_lnet(str(network.server.root))
    assert 1000 == found.stats.sent and found.interfaces is None
    assert ("sys/kernel/debug/lnet/nis: expected the columns nid, status, alive, max, tx, min, got "
            "'a word'") == found.why


def test_a_scan_of_all_sources_has_lnet_beside_the_targets(network):
    network.write(1000, 500)
    network.server.start("scratch-OST0003", clients=37)
    network.server.capacity("scratch-OST0003", 100, 59, 53, 1000, 999)
    gathering = Gathering(str(network.server.root), Config(), "oss1", "b" * 32, None, ("server",))
    status = gathering.scan().status
    gathering.close()
    assert 1000 == status["lnet"]["sent"]
    assert {"state", "clients", "capacity"} == set(status["targets"]["scratch-OST0003"])


def test_a_place_that_is_closed_does_not_hide_the_other(tmp_path, monkeypatch):
    """Up to 2.10 every user may read /proc/sys/lnet, and debugfs is closed."""
    network = Lnet(tmp_path, "2.10")
    network.write(1000, 500)
    real = open

    def closed(path, *args, **options):
        if "debug" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, *args, **options)
    monkeypatch.setattr("builtins.open", closed)
    assert 1000 == read_lnet(str(network.server.root)).stats.sent
    (network.directory / "stats").unlink()
    found = read_lnet(str(network.server.root))
    assert found.stats is None and found.why.endswith("lnet/stats: Permission denied")


def test_many_resends_are_one_event_that_grows_and_ends(network):
    network.write(1000, 0)
    network.lnetctl(T, 4100, 700)
    assert [] == network.scan(T + 7)                    # earlier messages are unknown
    network.lnetctl(T + 60, 5100, 710)
    text = "LNet sent 1,000 messages, and resent 10 (1.0 %)"
    assert [("lnet_resends", T, T + 60, None, 10, text)] == network.scan(T + 67)
    assert [] == network.scan(T + 77)                   # of the same answer
    network.lnetctl(T + 120, 5140, 723)
    text = "LNet sent 1,040 messages, and resent 23 (2.2 %)"
    assert [("lnet_resends", T, T + 120, None, 23, text)] == network.scan(T + 127)
    network.lnetctl(T + 180, 6140, 724)
    assert [("lnet_resends", T, T + 120, T + 120, 23, text)] == network.scan(T + 187)
    assert 1 == len(set(network.ids))
    network.lnetctl(T + 240, 41, 37)                    # the counters were reset
    assert [] == network.scan(T + 247)


def test_an_interface_whose_health_is_low(network):
    network.write(1000, 0)
    network.lnetctl(T, 4100, 43, health=900)
    text = "the health of LNet's interface 10.9.0.3@o2ib is below 1000"
    assert [("lnet_unhealthy", T + 7, T + 7, None, 1, text)] == network.scan(T + 7)
    assert ([], 43, 47, {"10.9.0.3@o2ib": 900}) == tuple(
        network.status["lnet"][name] for name in ("down", "resent", "response_timeouts", "health"))
    network.lnetctl(T + 60, 4100, 43, health=999)
    assert [] == network.scan(T + 67)
    assert [] == network.scan(T + 241)                  # too old an answer ends no event
    assert "resent" not in network.status["lnet"]
    network.lnetctl(T + 300, 4100, 43, health=1000)
    assert [("lnet_unhealthy", T + 7, T + 307, T + 307, 1, f"{text}; now it is 1000")] == (
        network.scan(T + 307))


def test_a_state_of_a_release_without_resends_is_continued(network):
    network.write(1000, 500)
    network.scan(T)
    del network.state["resent"], network.state["resends"]
    network.write(1017, 523)
    network.lnetctl(T + 60, 4100, 43)
    assert [("lnet_drops", 23)] == [(kind, count) for kind, *_, count, _ in network.scan(T + 67)]


def test_without_an_answer_of_lnetctl_the_reason_is_known(network):
    root = str(network.server.root)
    assert (None, f"{root}/run/iostats/lnetctl: No such file or directory") == read_health(root, T)
    network.lnetctl(T, 23, 0)
    assert (None, f"{root}/run/iostats/lnetctl: it is not of the last three minutes") == (
        read_health(root, T + 181))
    assert {"10.9.0.3@o2ib": 1000} == read_health(root, T + 180)[0].values
