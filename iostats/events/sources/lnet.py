"""
LNet: messages that are dropped or resent, interfaces and routers that are down or unhealthy; and
the numbers themselves.

    1 % of the messages between two scans, and 10 or more, are dropped      lnet_drops, which grows
                                                                            until fewer are
    as many are resent between two answers of lnetctl (lustre/lnetctl.py)   lnet_resends, likewise
    an interface, a router is down                      lnet_down, router_down, with its end
    the health of an interface is below 1000            lnet_unhealthy, with its end

What is down at the first scan is an event; what was dropped before it is none.  Peers are read each
PEERS_EVERY_S: a server of 10,000 clients has as many.

    state = {"stats": LnetStats, or null, "at": time of the scan,
             "drops": null, or [since, number of this event, dropped, messages],
             "resent": null, or [time of the answer, sent, resent], "resends": as drops,
             and those of events/conditions.py; the keys are such as "lnet_down 10.9.0.3@o2ib"}
"""

from __future__ import annotations

from iostats.events.conditions import Conditions
from iostats.events.event import make_event
from iostats.events.kinds import LNET_DOWN, LNET_DROPS, LNET_RESENDS, LNET_UNHEALTHY, ROUTER_DOWN
from iostats.events.lnet_changes import (
    Share,
    compare_drops,
    count_waiting_messages,
    describe_drops,
    describe_resends,
    is_much,
    list_short_peers,
    read_health,
    read_lnet,
    read_peers,
    sum_credits,
)
from iostats.events.sources import SourceResult
from iostats.lustre.lnet import LnetStats
from iostats.lustre.lnetctl import HEALTHY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

    from iostats.events.conditions import ConditionsState
    from iostats.events.event import Event
    from iostats.events.lnet_changes import LnetReading
    from iostats.events.sources import Place
    from iostats.events.status import ServerStatus
    from iostats.lustre.lnet import LnetPeer
    from iostats.lustre.lnetctl import LnetHealth

    _OpenShare = Optional[tuple[float, int, int, int]]

    class State(ConditionsState):
        stats: Optional[list[int]]
        at: float
        drops: _OpenShare
        resent: Optional[tuple[float, int, int]]
        resends: _OpenShare

NAME, ROLES = "lnet", ("server", "client")
PEERS_EVERY_S = 60.0
_MOST_DOWN = 100                        # in a status
# While it lasts, and what it is when it is over.
_TEXTS = {LNET_DOWN: ("LNet's interface {} is down", "up"),
          ROUTER_DOWN: ("the router {} is down", "up"),
          LNET_UNHEALTHY: (f"the health of LNet's interface {{}} is below {HEALTHY}", str(HEALTHY))}


def scan(place: Place, before: State | None, now: float) -> SourceResult:
    """
    Events: lnet_drops, lnet_resends, lnet_down, router_down, lnet_unhealthy; status: {"lnet": as
    wire.messages.events.LnetStatus}, where it is known.
    """
    at, peers = place.cache.get(NAME, (0.0, None))
    if peers is None or not 0 <= now - at < PEERS_EVERY_S:
        peers = read_peers(place.root)
        place.cache[NAME] = now, peers
    return detect(read_lnet(place.root), place, before, now, read_health(place.root, now)[0], peers)


def detect(reading: LnetReading, place: Place, before: State | None, now: float,
           health: LnetHealth | None = None,
           peers: dict[str, LnetPeer] | None = None) -> SourceResult:
    """Detect the faults in a LnetReading and a LnetHealth; `peers`: for the status."""
    conditions = Conditions(before, now)
    stats, at, drops_open = (before["stats"], before["at"], before["drops"]) if before else (
        None, now, None)
    # A state of a release that had no resends has neither.
    resent, resends_open = (before.get("resent"), before.get("resends")) if before else (None, None)
    events: list[Event] = []

    def report(kind: str, name: str, number: int, since: float, message: str, **more: Any) -> None:
        events.append(make_event(place.boot_id, place.node,
                                 (NAME, kind, name, f"{place.series}{number}"),
                                 kind, since, message=message, **more))
    if reading.stats is not None:
        drops = None if stats is None else compare_drops(LnetStats(*stats), reading.stats)
        stats = list(reading.stats)
        drops_open = _compare_share(LNET_DROPS, describe_drops, drops, drops_open, at, now,
                                    conditions, report)
    if health is not None and (resent is None or resent[0] != health.at):
        resends = None
        if resent is not None and resent[1] <= health.sent and resent[2] <= health.resent:
            resends = Share(health.resent - resent[2], health.sent - resent[1])
        resends_open = _compare_share(LNET_RESENDS, describe_resends, resends, resends_open,
                                      resent[0] if resent else now, health.at, conditions, report)
        resent = health.at, health.sent, health.resent
    for kind, known_up in ((LNET_DOWN,
                            {nid: interface.is_up for nid, interface in reading.interfaces.items()}
                            if reading.interfaces is not None else None),
                           (ROUTER_DOWN, reading.routers),
                           (LNET_UNHEALTHY,
                            {nid: value == HEALTHY for nid, value in health.values.items()}
                            if health is not None else None)):
        if known_up is not None:
            _compare(kind, known_up, conditions, now, report)
    status: ServerStatus = {} if reading.stats is None else {"lnet": {
        **reading.stats._asdict(), "waiting": count_waiting_messages(reading.interfaces),
        "down": sorted(key.partition(" ")[2] for key in conditions
                       if not key.startswith(LNET_UNHEALTHY))[:_MOST_DOWN],
        "credits": sum_credits(reading.interfaces, peers)}}
    if peers is not None and "lnet" in status:
        status["lnet"]["short_peers"] = list_short_peers(peers)
    if health is not None and "lnet" in status:
        status["lnet"].update(resent=health.resent, response_timeouts=health.response_timeouts,
                              health=dict([*health.values.items()][:_MOST_DOWN]))
    return SourceResult(events, {"stats": stats, "at": now, "drops": drops_open, "resent": resent,
                                 "resends": resends_open, **conditions.state()}, status)


def _compare_share(kind: str, describe: Callable[[Share], str], share: Share | None,
                   opened: _OpenShare, at: float, now: float, conditions: Conditions,
                   report: Callable[..., None]) -> _OpenShare:
    """Report messages dropped, or resent, between `at` and `now`: what is open after it."""
    if share is not None and is_much(share):
        since, number, count, messages = opened or (at, conditions.assign_number(), 0, 0)
        total = Share(count + share.number, messages + share.messages)
        report(kind, "", number, since, describe(total), last=now, count=total.number)
        return since, number, total.number, total.messages
    if opened is not None:
        since, number, count, messages = opened
        report(kind, "", number, since, describe(Share(count, messages)), last=at, over=at,
               count=count)
    return None


def _compare(kind: str, is_up: dict[str, bool], conditions: Conditions, now: float,
             report: Callable[..., None]) -> None:
    for nid, up in is_up.items():
        opened = None if up else conditions.begin(f"{kind} {nid}")
        if opened is not None:
            since, number = opened
            report(kind, nid, number, since, _TEXTS[kind][0].format(nid))
    for key in conditions:
        key_kind, _, nid = key.partition(" ")
        if key_kind == kind and is_up.get(nid, True):
            since, number = conditions.end(key)
            text, after = _TEXTS[kind]
            report(kind, nid, number, since, f"{text.format(nid)}; now it is "
                   + (after if nid in is_up else "removed"), last=now, over=now)
