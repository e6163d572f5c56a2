"""LNet's messages and credits by network and by node, from the statuses of storage servers."""
from __future__ import annotations

import pytest
from events_messages import NOON, STATUS, send
from site_inside import Inside

from iostats.harvest.events.reported_lnet import (
    ShortPeers,
    add_lnet_rows,
    list_lnets,
    make_lnet_columns,
)


@pytest.fixture
def inside(tmp_path):
    found = Inside(tmp_path, NOON)
    yield found
    found.store.close()


def status(sent, resent=None, networks=("o2ib",), **more):
    lnet = dict.fromkeys(("sent", "received", "routed", "dropped", "sent_bytes", "received_bytes",
                          "routed_bytes", "dropped_bytes"), 0)
    return {**STATUS, "lnet": {
        **lnet, "sent": sent, "sent_bytes": 59 * sent, "waiting": 0, "down": [],
        **({} if resent is None else {"resent": resent}),
        "credits": {network: {"waiting": 23, "lowest": 5, "peers": 3, "waiting_peers": 1,
                              "peer_waiting": 37, "peer_lowest": -41} for network in networks},
        **more}}


def report(inside, node, *statuses, pause_s=60):
    """Statuses of a storage server, one after the other."""
    for number, one in enumerate(statuses):
        inside.now += pause_s
        send(inside, node=node, status=one, seq=number + 1)


def columns(inside, network="o2ib"):
    found = make_lnet_columns("scratch", network, inside.server.events.reporting_servers,
                              inside.now)
    return tuple(found[f"lnet_{name}"] for name in ("sent_per_s", "resent_per_s", "waiting",
                                                    "lowest"))


def test_rates_are_over_the_time_between_two_statuses(inside):
    """Over 32 bits too; without lnetctl, or after a reset, resends are not known."""
    report(inside, "oss1", status(2**32 - 600, sent_bytes=4100),
           status(6000, 41, sent_bytes=5300))
    assert (110.0, None, 60, -41) == columns(inside)
    report(inside, "oss1", status(12_000, 101, sent_bytes=5900))
    assert (100.0, 1.0, 60, -41) == columns(inside)
    report(inside, "oss1", status(600, 7, sent_bytes=4700))
    assert (None, None, 60, -41) == columns(inside)
    assert (None, None, None, None) == columns(inside, "tcp")


def test_messages_of_a_server_with_two_networks_belong_to_neither(inside):
    report(inside, "oss1", status(0, 0, ("o2ib", "tcp")), status(6000, 60, ("o2ib", "tcp")))
    assert (None, None, 60, -41) == columns(inside)


@pytest.mark.parametrize("other", [{**STATUS}, None], ids=["an older agent", "late"])
def test_a_server_that_is_not_known_makes_the_sums_unknown(inside, other):
    """A sum without it would be too low."""
    report(inside, "oss2", *([other] if other else [status(0, 0), status(6000, 60)]))
    report(inside, "oss1", status(0, 0), status(6000, 60))
    assert (None, None, None, None) == columns(inside)
    report(inside, "oss2", status(0, 0), status(600, 60), pause_s=20)
    assert 0 < columns(inside)[0] and 120 == columns(inside)[2]


def an_answer(*rows, with_clients=True, text="", left_off=0, show=()):
    sums = {"file_system": "scratch", **({"storage_servers": {}} if with_clients else {})}
    return {"rows": list(rows), "file_systems": [sums], "text": text, "left_off": left_off,
            "missing": {"scratch": {"oss2": "late"}} if with_clients else {}, "show": list(show)}


ROW = {"lnet": "tcp", "file_system": "scratch", "write_bytes_per_s": 23.0}
LNETS = [("home", "tcp"), ("scratch", "o2ib"), ("scratch", "tcp")]


def test_networks_are_those_of_all_interfaces(inside):
    report(inside, "oss1", status(0, 0, ("o2ib", "tcp")))
    report(inside, "oss2", status(0, 0, ("tcp7",)))
    assert [("scratch", "o2ib"), ("scratch", "tcp"), ("scratch", "tcp7")] == list_lnets(
        inside.server.events.reporting_servers)


def test_a_network_without_a_client_has_a_row(inside):
    """Its clients do nothing, as there are none; without data of clients that is unknown."""
    answer = an_answer(ROW, show=["latency", "open"])
    add_lnet_rows(answer, LNETS, 10)
    [row, added] = answer["rows"]
    assert ROW == row and ("o2ib", "scratch", 0.0, 0.0, 0, True, None, None) == tuple(
        added[name] for name in ("lnet", "file_system", "write_bytes_per_s", "metadata_per_s",
                                 "clients", "lower_bound", "latency_ms", "open_per_s"))
    answer = an_answer(with_clients=False)
    add_lnet_rows(answer, LNETS, 10)
    assert [("o2ib", None, None, False), ("tcp", None, None, False)] == [
        (row["lnet"], row["write_bytes_per_s"], row["clients"], row["lower_bound"])
        for row in answer["rows"]]


@pytest.mark.parametrize("how, count", [({"text": "tcp"}, 10), ({"left_off": 1}, 10), ({}, 1)])
def test_rows_that_are_not_asked_for_are_not_added(how, count):
    answer = an_answer(ROW, **how)
    add_lnet_rows(answer, LNETS, count)
    assert [ROW] == answer["rows"]


def test_a_list_that_is_full_says_nothing_about_others():
    def peers(count):
        class Server:
            status = {"lnet": {"short_peers": {f"10.9.1.{number}@tcp": (2, -7)
                                               for number in range(count)}}}
        return ShortPeers([Server])
    assert [{"lnet_waiting": 0, "lnet_lowest": None}, {"lnet_waiting": None, "lnet_lowest": None}
            ] == [peers(count).make_columns(["10.9.2.1@tcp"]) for count in (99, 100)]
    assert {"lnet_waiting": 4, "lnet_lowest": -7} == peers(100).make_columns(
        ["10.9.1.1@tcp", "10.9.1.2@tcp", "10.9.2.1@tcp"])
    assert {"lnet_waiting": None, "lnet_lowest": None} == ShortPeers([]).make_columns(
        ["10.9.1.1@tcp"])
