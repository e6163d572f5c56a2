"""
Updaters: which sets of which producers are updated, and when.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from .asked import EBUSY, EEXIST, EINVAL, ENOENT, Refused, as_json
from .producers import Producer
from .sets import Collected, slot

_MODES = {"pull": "Pull", "onchange": "Push on Change", "push": "Push on Request"}


@dataclass
class Updater:
    """
    Attributes:
        mode: pull, push or onchange.
        producers: names of those that matched when they were added; in their order, once each.
        wanted: the expressions they matched: one that advertises itself later is added by them.
        matches: (regex, inst or schema).
    """
    name: str
    interval_us: int
    offset_us: int
    mode: str
    is_auto: bool
    is_running: bool = False
    producers: list[str] = field(default_factory=list)
    matches: list[tuple[str, str]] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)

    def has(self, instance: str, schema: str) -> bool:
        """Whether it updates this set; without a match, all."""
        return not self.matches or any(
            re.search(regex, instance if what == "inst" else schema)
            for regex, what in self.matches)

    def period_us(self, one: Collected) -> tuple[int, int]:
        """(interval, offset): its own, or with auto_interval the set's hint."""
        if self.is_auto and one.source.hint_us is not None and one.source.hint_us[0] > 0:
            return one.source.hint_us
        return self.interval_us, self.offset_us


class Updaters:
    def __init__(self, daemon):
        self._daemon = daemon
        self.all: dict[str, Updater] = {}

    def add(self, asked) -> None:
        name = asked.needed("name")
        interval = asked.interval_us("interval")
        if interval is None or interval <= 0:
            raise Refused(EINVAL, "updtr_add: 'interval' has to be larger than 0")
        offset = asked.interval_us("offset") or 0
        if abs(offset) > interval / 2:
            raise Refused(EINVAL, "updtr_add: 'offset' is more than half of the interval")
        auto = _truth(asked, "auto_interval")
        push = asked.get("push")
        if auto and push:
            raise Refused(EINVAL, "updtr_add: 'auto_interval' and 'push' exclude each other")
        if name in self.all:
            raise Refused(EEXIST, f"updtr_add: the updater '{name}' exists already")
        mode = "pull" if not push else "onchange" if push.lower() == "onchange" else "push"
        self.all[name] = Updater(name, interval, offset, mode, auto)

    def delete(self, asked) -> None:
        del self.all[self._stopped(asked).name]

    def producers_add(self, asked) -> str:
        updater, regex = self._stopped(asked), asked.regex()
        updater.wanted.append(regex.pattern)
        updater.producers += [name for name in sorted(self._daemon.producers.all)
                              if regex.search(name) and name not in updater.producers]
        return "0\n"

    def producers_del(self, asked) -> None:
        updater, regex = self._stopped(asked), asked.regex()
        updater.producers = [name for name in updater.producers if not regex.search(name)]
        updater.wanted = [each for each in updater.wanted if each != regex.pattern]

    def match_add(self, asked) -> None:
        updater, regex = self._stopped(asked), asked.regex().pattern
        what = asked.get("match") or "inst"
        if what not in ("inst", "schema"):
            raise Refused(EINVAL, f"updtr_match_add: match={what} is invalid")
        updater.matches.append((regex, what))

    def match_del(self, asked) -> None:
        updater = self._stopped(asked)
        match = (asked.regex().pattern, asked.get("match") or "inst")
        if match not in updater.matches:
            raise Refused(ENOENT, "updtr_match_del: there is no such match")
        updater.matches.remove(match)

    def start(self, asked) -> None:
        updater = self._found(asked)
        if updater.is_running:
            raise Refused(EBUSY, f"updtr_start: '{updater.name}' is running already")
        interval = asked.interval_us("interval")
        if interval is not None and interval <= 0:
            raise Refused(EINVAL, "updtr_start: 'interval' has to be positive")
        if interval is not None:
            updater.interval_us = interval
        if asked.get("offset") is not None:
            updater.offset_us = asked.interval_us("offset")
        if asked.get("auto_interval") is not None:
            updater.is_auto = _truth(asked, "auto_interval")
        updater.is_running = True

    def stop(self, asked) -> None:
        self._found(asked).is_running = False

    def forget(self, producer: str) -> None:
        for updater in self.all.values():
            updater.producers = [name for name in updater.producers if name != producer]

    def joined(self, producer: str) -> None:
        """A producer advertised itself: the updaters whose expressions it matches have it."""
        for updater in self.all.values():
            if any(re.search(each, producer) for each in updater.wanted):
                updater.producers.append(producer)

    # Updating.

    def update(self, producer: Producer) -> None:
        """Of the producer's sets those are updated whose time has come."""
        now = self._daemon.clock()
        for updater in self.all.values():
            if not updater.is_running or producer.name not in updater.producers:
                continue
            for instance, one in producer.sets.items():
                if updater.has(instance, one.source.schema) and self._is_due(updater, one, now):
                    self._updated(producer, one, updater, now)

    def _is_due(self, updater: Updater, one: Collected, now: float) -> bool:
        if updater.mode != "pull" and one.held is not None:
            return one.source.sampled_s > one.held.sampled_s
        this = slot(now, *updater.period_us(one))
        due = one.slots.get(updater.name, -1) < this
        one.slots[updater.name] = this
        return due

    def _updated(self, producer: Producer, one: Collected, updater: Updater,
                 now: float) -> None:
        if one.held is None and self._daemon.find_set(one.source.instance) is not None:
            return                          # another producer's, until that one has it no more
        one.held = replace(one.source, hint_us=updater.period_us(one))
        one.state = "READY"
        one.updates.append(now)
        self._daemon.policies.store(producer.name, one.held)

    def next_due_s(self, producer: Producer) -> float | None:
        """When the first of the producer's sets is to be updated; None: no updater has any."""
        now, times = self._daemon.clock(), []
        for updater in self.all.values():
            if updater.is_running and producer.name in updater.producers:
                for instance, one in producer.sets.items():
                    if updater.has(instance, one.source.schema):
                        interval, offset = updater.period_us(one)
                        times.append(((slot(now, interval, offset) + 1) * interval + offset) / 1e6)
        return min(times, default=None)

    # Status.

    def status(self, asked) -> str:
        return as_json([self._row(one) for one in self._asked_for(asked)])

    def _row(self, updater: Updater) -> dict:
        producers = self._daemon.producers.all
        row = {"name": updater.name, "interval": str(updater.interval_us),
               "offset": str(updater.offset_us), "sync": "true", "mode": _MODES[updater.mode],
               "auto": "true" if updater.is_auto else "false",
               "state": "RUNNING" if updater.is_running else "STOPPED",
               "producers": [{"name": name, "host": producers[name].host,
                              "port": producers[name].port,
                              "transport": producers[name].transport,
                              "state": producers[name].state}
                             for name in updater.producers if name in producers]}
        if not self._daemon.is_4_5:
            row.update({"outstanding count": 0, "oversampled count": 0})
        return row

    def matches(self, asked) -> str:
        return as_json([{"name": one.name, "match": [{"regex": regex, "selector": what}
                                                         for regex, what in one.matches]}
                           for one in self._asked_for(asked)])

    def _asked_for(self, asked) -> list[Updater]:
        name = asked.get("name")
        if name is not None and name not in self.all:
            raise Refused(ENOENT, f"{asked.verb}: there is no updater '{name}'")
        return [one for _, one in sorted(self.all.items()) if name in (None, one.name)]

    def _found(self, asked) -> Updater:
        name = asked.needed("name")
        if name not in self.all:
            raise Refused(ENOENT, f"{asked.verb}: there is no updater '{name}'")
        return self.all[name]

    def _stopped(self, asked) -> Updater:
        updater = self._found(asked)
        if updater.is_running:
            raise Refused(EBUSY, f"{asked.verb}: '{updater.name}' is running")
        return updater


def _truth(asked, name: str) -> bool:
    value = (asked.get(name) or "false").lower()
    if value not in ("true", "false"):
        raise Refused(EINVAL, f"{asked.verb}: '{name}' is true or false")
    return value == "true"
