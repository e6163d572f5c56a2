"""
What is left of a relay's message: listed file systems and clients, unchanged, and nothing else.
"""

import random

import pytest
from client_messages import ClientAgent, client_block, client_message
from harvest_inside import BEGAN, HarvestInside
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.errors import WireError
from iostats.harvest.relay import incoming
from iostats.harvest.relay.incoming import select_permitted
from iostats.server.rpc_server import RelayCaller
from iostats.wire.messages.clients import decode_client_block, decode_clients
from iostats.wire.messages.sweep_decoder import PackedSweep
from iostats.wire.relays import Source

ALKINDI = Source("alkindi", frozenset({"gdata", "home"}), frozenset({"o2ib2"}), ("10.9.*@tcp5",),
                 "")
# NID: may the relay speak of it?
NIDS = {"10.9.0.11@o2ib2": True, "10.8.0.12@o2ib2": True, "10.9.0.13@tcp5": True,
        "10.8.0.14@tcp5": False, "10.9.0.15@o2ib": False, "0@lo": False, "fd00::5@o2ib2": True}


def message(*blocks):
    return decode_clients(PackedSweep(2, client_message(*blocks, node="oss1@alkindi")), 16 << 20)


@given(st.lists(st.sampled_from(sorted(NIDS)), unique=True), st.sampled_from((8, 16, 32, 63)),
       st.integers(0, 99), st.lists(st.sampled_from(sorted({*NIDS, ""})), max_size=4))
def test_rows_of_listed_clients_stay_as_they_are(nids, bits, seed, of_losses):
    """In the arrays, and in the bytes that are kept."""
    chance = random.Random(seed)
    columns = [[chance.getrandbits(bits) for _ in nids] for _ in range(5)]
    losses = [{"since": 23.0, "until": 37.0, "target": "OST0000", "nid": nid, "why": "its counters"}
              for nid in of_losses]
    taken, left_out = select_permitted(message(client_block(nids, columns, file_system="gdata",
                                                            losses=losses)), ALKINDI, ())
    [(block, kept)] = taken.blocks
    wanted = [place for place, nid in enumerate(nids) if NIDS[nid]]
    assert block.head.nids == [nids[place] for place in wanted]
    assert block.amounts.tolist() == [[column[place] for column in columns] for place in wanted]
    assert [one.nid for one in block.head.losses] == [
        nid for nid in of_losses if NIDS.get(nid, True)]
    again = decode_client_block(kept)
    assert again.head == block.head and again.amounts.tolist() == block.amounts.tolist()
    assert bool(left_out) is (len(wanted) < len(nids))


def test_file_systems_that_are_not_listed_and_our_own_are_left_out():
    """And named, some of them."""
    nids, columns = ["10.9.0.11@o2ib2"], [[23]] * 5
    taken, left_out = select_permitted(message(*(
        client_block(nids, columns, file_system=name)
        for name in ("home", "a", "b", "gdata", "c", "d"))), ALKINDI, {"home"})
    assert [block.head.file_system for block, _ in taken.blocks] == ["gdata"]
    assert left_out == {
        "file systems that our own storage servers report": "home",
        "file systems that it may not report (site.cfg: [relay_from])": "a, b, c"}


def test_an_epoch_says_which_clients_it_is_of():
    """Its first half is the agent's, its second half the relay's word and our own."""
    def epoch(agents, source):
        taken, _ = select_permitted(message(client_block(["10.9.0.11@o2ib2"], [[23]] * 5,
                                                         file_system="gdata", epoch=agents)),
                                    source, ())
        return taken.blocks[0][0].head.epoch
    first = epoch("0123456789abcdef", ALKINDI)
    assert first[:8] == "01234567" == epoch("0123456723232323", ALKINDI)[:8]
    assert first[8:] == epoch("2323232389abcdef", ALKINDI)[8:]
    others = {epoch("0123456723232323", ALKINDI), first,
              epoch("0123456789abcdef", ALKINDI._replace(nids=())),
              epoch("0123456789abcdef", ALKINDI._replace(lnets=frozenset({"tcp"})))}
    assert len(others) == 4
    assert first == epoch("0123456789abcdef", ALKINDI._replace(file_systems=frozenset({"gdata"})))


def test_a_message_of_too_many_clients_is_refused_whole(tmp_path, monkeypatch):
    """The server's loop waits for it.  Relays' own messages have 1 MiB."""
    monkeypatch.setattr(incoming, "_MAX_NIDS", 3)
    desk = HarvestInside(tmp_path / "site.sqlite", site_relay_secrets=tmp_path)
    desk.config.free["relay_from"] = {"alkindi": "gdata; o2ib2"}
    desk.config.origin["relay_from.alkindi"] = "a test"
    hears = incoming.RelaysFrom(desk.config, lambda: desk.now)

    def answer(*counts):
        blocks = [client_block([f"10.9.{block}.{n}@o2ib2" for n in range(count)],
                               [[23] * count] * 5, file_system="gdata", ended=block == len(counts))
                  for block, count in enumerate(counts, 1)]
        return hears.answer(desk.harvest, PackedSweep(2, client_message(
            *blocks, node="oss1@alkindi")), RelayCaller("alkindi", None))
    with pytest.raises(WireError, match="expected at most 3 clients in a message, got 4"):
        answer(2, 2)
    assert {} == desk.harvest.agents
    assert answer(2, 1)["taken"]


# -- in time ---------------------------------------------------------------------------------------

OURS = "10.9.0.11@o2ib2"


def tell(desk, agent, file_system="gdata"):
    """The next sweep of an agent, in which its client has read 23 bytes."""
    assert desk.tell(agent.node, agent.message(desk.now // agent.every * agent.every, {
        (file_system, "OST"): {OURS: (23, 0, 1, 0, 0)}}))["taken"]


def test_a_relay_that_is_away_delays_one_sweep(tmp_path):
    """As one of our own storage servers; then it is missing by name, and others' numbers come."""
    desk = HarvestInside(tmp_path / "site.sqlite")
    own, theirs = ClientAgent("oss9"), ClientAgent("oss1@alkindi")
    for _ in range(2):
        tell(desk, own, "home")
        tell(desk, theirs)
        desk.turn()
        assert desk.harvest.sweep.slot == desk.now and desk.harvest.sweep.complete
        desk.now += 20
    tell(desk, own, "home")
    desk.turn()
    assert desk.harvest.sweep.slot == desk.now - 20             # it may still come
    desk.now += 18.5
    desk.turn()
    assert desk.harvest.sweep.slot == desk.now - 18.5 and not desk.harvest.sweep.complete
    found = desk.harvest.clients.sweep.file_systems
    assert found["gdata"].missing == {"oss1@alkindi": "its last sweep has not arrived"}
    assert found["home"].missing == {}
    desk.now += 1.5
    tell(desk, own, "home")
    desk.turn()
    assert desk.harvest.sweep.slot == desk.now                  # at once


def test_our_own_storage_servers_set_the_pace(tmp_path):
    """A relay of shorter sweeps makes no more of ours; where there are none of ours, it does."""
    desk = HarvestInside(tmp_path / "site.sqlite")
    theirs = ClientAgent("oss1@alkindi", every=20)
    tell(desk, theirs)
    desk.turn()
    assert desk.harvest.sweep.every_s == 20
    own = ClientAgent("oss9", every=60)
    seen = []
    for _ in range(9):
        desk.now += 20
        if desk.now % 60 == 0:
            tell(desk, own, "home")
        tell(desk, theirs)
        desk.turn()
        seen.append((desk.harvest.sweep.slot - BEGAN, desk.harvest.sweep.every_s))
    assert seen[2:] == [*[(60, 60)] * 3, *[(120, 60)] * 3, (180, 60)]
