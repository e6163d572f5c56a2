"""
What the clients of one storage server's OSTs, or MDTs, of one file system gained between readings.

An agent tells what each client has done since its epoch began (wire/messages/clients.py), so a gain
is the difference of two amounts, however many readings or messages were lost in between:

    the first reading there is      its amounts count since they began, where that is told, and
                                    none of it can be in the history already; else it tells where
                                    they stand, and nothing is gained
    another epoch                   its amounts count from 0; what was done between the last reading
                                    of the one before and the first one of it may be missing
    a number went down              the larger one stays, and what it may lack is marked until it
                                    is larger again: nothing is counted twice
    other clients, of a relay       as for the first reading
    a client that was not there     its amount is gained, as it began at 0 within the epoch

A gain was made after the beginning of the reading before, and before the end of this one: what came
while a client's file could not be read is in no amount, and told as a loss.  Times are by the
site's clock.
"""

from __future__ import annotations

import math

import numpy

from iostats.site.clients.readings import AMOUNTS, ClientReading, GainEntry, MarkedLoss
from iostats.site.clients.source_state import encoded_source
from iostats.wire.messages.clients_encoder import (
    LEFT,
    NEW_EPOCH,
    OTHER_CLIENTS,
    UNREADABLE,
    WENT_DOWN,
)
from iostats.wire.relays import is_of_others, is_relayed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    import numpy.typing

    from iostats.site.clients.nids import KnownNids
    from iostats.wire.messages.clients import ClientBlock, ClientBlockHead, ClientLoss

    _Array = numpy.typing.NDArray[Any]

DAMAGED = "what it told was damaged in the store"
IMPOSSIBLE = "it told of more than a client can do"
MOST_NAMED = 1000               # clients of one reading that are marked one by one
_STEADY_S = 0.1                 # of two clocks between two readings
_LARGEST_GAIN = 2**52           # 4 PiB between two readings; so that sums stay below 2^63


class ClientSource:
    """
    One storage server's OSTs, or MDTs, of a file system.

    Attributes:
        node, file_system, kind: "oss1", "scratch", "OST".
        epoch: as the agent calls it; "" before the first reading.
        amounts: int64 [client, of exports.ClientAmounts] since it began.
        is_known: of each client: has been told of in this epoch.
        behind: clients whose amounts are larger than what the agent tells.
        first: since when all is counted, None before the first reading; `read_from`: when the last
            one began.
        began_of: {target: since when it is counted}, also of those that have left.
        read_until: when that ended.
        since_boot: of ClientBlockHead, of the last whole reading.
        told_from: when it began, by the agent's clock.
        whole: {target: when the last reading began in which it was read whole}, of those that no
            other storage server has read since then.
        left, instances: {target: by when it had left this storage server}, {target: how often it
            was started, as it was read last}, of those in `whole`.
        started: {target: by when it had been started}, of the last reading.
        last: the last ClientReading; `slot`: its sweep's.
        unkept: [ClientReading] that are not in the history yet.
        broken_since: since when something of it was lost from the store; None.
        gains, losses: [(clients, gains)], [MarkedLoss] of a reading that has not ended.
    """

    __slots__ = ("amounts", "began_of", "behind", "broken_since", "epoch", "file_system", "first",
                 "gains", "instances", "is_known", "kind", "last", "left", "losses", "nids", "node",
                 "read_from", "read_until", "since_boot", "started", "told_from", "unkept", "whole")

    def __init__(self, node: str, file_system: str, kind: str, nids: KnownNids) -> None:
        self.node, self.file_system, self.kind, self.nids = node, file_system, kind, nids
        self.epoch = ""
        self.amounts = numpy.zeros((0, AMOUNTS), numpy.int64)
        self.is_known = numpy.zeros(0, bool)
        self.behind = set[int]()
        self.first: float | None = None
        self.read_from: float | None = None
        self.read_until: float | None = None
        self.told_from: float | None = None
        self.since_boot: tuple[str, float] | None = None
        self.whole: dict[str, float] = {}
        self.began_of: dict[str, float] = {}
        self.left: dict[str, float] = {}
        self.instances: dict[str, int] = {}
        self.started: dict[str, float] = {}
        self.last: ClientReading | None = None
        self.unkept: list[ClientReading] = []
        self.broken_since: float | None = None
        self.gains: list[tuple[_Array, _Array]] = []
        self.losses: list[MarkedLoss] = []

    @property
    def slot(self) -> float:
        return -math.inf if self.last is None else float(self.last.slot)

    # ---- what comes in

    def take(self, block: ClientBlock, slot: float, every: float, full: bool,
             ahead: float, is_new: bool = False) -> bool:
        """
        Take a block of the sweep of `slot`; was it the last one of its reading?

        `full`: of all clients; `ahead`: the agent's clock less the site's, when it was read, s;
        `is_new`: what such a source has told was never in the history before it was known.
        """
        head = block.head
        if head.epoch != self.epoch:
            began = head.read_from if head.began is None or not self._is_steady(
                head, ahead) else head.began
            self._begin(head.epoch, min(began, head.read_from) - ahead)
        if self.read_from is None and is_new and self.broken_since is None and (
                head.began is not None):
            self.read_from = head.began - ahead
        numbers = self.nids.numbers(head.nids)
        amounts = block.amounts
        if len(numbers) and int(numbers.min()) < 0:
            amounts, numbers = amounts[numbers >= 0], numbers[numbers >= 0]
        if len(numbers):
            self.grow(int(numbers.max()) + 1)
            self._count(numbers, amounts, head.read_until - ahead)
        for loss in [self._placed(one, head, full, ahead) for one in head.losses]:
            if loss.why != LEFT or loss.target not in self.began_of:
                self.losses.append(loss)
            elif loss.until > self.whole.get(loss.target, math.inf):    # see taken_over
                self.left[loss.target] = loss.until
        if head.ended:
            self._end(head, slot, every, full, ahead)
        return bool(head.ended)

    def _placed(self, loss: ClientLoss, head: ClientBlockHead, full: bool,
                ahead: float) -> MarkedLoss:
        """
        A loss by the site's clock.  The agent's clock may have been set since the reading before,
        or be wrong after a boot; but what is news was lost after that reading.
        """
        since, until = loss.since - ahead, loss.until - ahead
        if self.read_from is not None and not self._is_steady(head, ahead):
            since = min(self.read_from, head.read_from - ahead)
            until = max(since, head.read_until - ahead if full else until)
        elif self.read_from is not None and self.told_from is not None:
            since = min(since, loss.since - self.told_from + self.read_from)
        return MarkedLoss(min(since, until), max(since, until), loss.target, loss.nid, loss.why)

    def _is_steady(self, head: ClientBlockHead, ahead: float) -> bool:
        """Whether the agent's clock went as ours since the last reading."""
        return (self.told_from is not None and self.read_from is not None and
                abs(ahead - (self.told_from - self.read_from)) < _STEADY_S)

    def _begin(self, epoch: str, at: float) -> None:
        """Another epoch."""
        # The second half is that of the relay's clients: relays.filtered_epoch.
        is_other = is_relayed(self.node) and is_of_others(self.epoch, epoch)
        if self.read_from is not None:
            self.losses.append(MarkedLoss(min(self.read_from, at), max(self.read_from, at), "", "",
                                          OTHER_CLIENTS if is_other else NEW_EPOCH))
        if is_other:
            self.read_from = None                   # where the amounts stand is known by it alone
        self.epoch = epoch
        self.amounts[:] = 0
        self.is_known[:] = False
        self.behind.clear()

    def grow(self, length: int) -> None:
        """Have room for so many clients."""
        if length > len(self.amounts):
            length = max(length, min(2 * len(self.amounts), len(self.nids)))
            self.amounts = numpy.concatenate([self.amounts, numpy.zeros(
                (length - len(self.amounts), AMOUNTS), numpy.int64)])
            self.is_known = numpy.concatenate([self.is_known, numpy.zeros(
                length - len(self.is_known), bool)])

    def _count(self, numbers: _Array, amounts: _Array, until: float) -> None:
        """Note what these clients gained up to now."""
        before = self.amounts[numbers]
        gains = amounts - before
        is_down = gains.min(axis=1) < 0
        if is_down.any() or self.behind:
            down = set(numbers[is_down].tolist())
            since = until if self.read_from is None else min(self.read_from, until)
            marked = down | self.behind.intersection(numbers.tolist())
            self.losses += [MarkedLoss(since, until, "", self.nids.names[one], WENT_DOWN)
                             for one in sorted(marked)]
            if down:                                # a clear may have met all of them
                self.losses.append(MarkedLoss(since, until, "", "", WENT_DOWN))
            self.behind = (self.behind - marked) | down
            numpy.maximum(gains, 0, out=gains)
        is_huge = gains.max(axis=1) > _LARGEST_GAIN
        if is_huge.any():
            self.losses += [MarkedLoss(until if self.read_from is None else self.read_from, until,
                                       "", self.nids.names[one], IMPOSSIBLE)
                            for one in numbers[is_huge].tolist()]
            counted = numpy.minimum(gains, _LARGEST_GAIN)
        else:
            counted = gains
        self.amounts[numbers] = before + gains
        self.is_known[numbers] = True
        if self.read_from is None:                      # the first reading
            return
        some = gains.any(axis=1)
        if some.any():
            self.gains.append((numbers[some], counted[some]))

    def _end(self, head: Any, slot: float, every: float, full: bool, ahead: float) -> None:
        """The end of a reading."""
        at, until = head.read_from - ahead, head.read_until - ahead
        last = self.read_from
        if last is None and not full:               # amounts of others are not known yet
            self.losses = []
            return
        since = None if last is None else min(last, at)
        if self.broken_since is not None:
            self.losses.append(MarkedLoss(min(self.broken_since, at), at, "", "", DAMAGED))
            since = None if since is None else min(since, self.broken_since)
            self.broken_since = None if full else self.broken_since
        self.started = {target: moment - ahead for target, moment in head.started.items()}
        self._mark_unread(head, since, at, until)
        entries = [] if since is None else self._gained(
            since, max(until, self.read_until or until))
        span_s, is_measured = (0.0 if since is None else at - since), False
        if since is not None and self.since_boot is not None and head.since_boot is not None and (
                self.since_boot[0] == head.since_boot[0]):
            span_s, is_measured = head.since_boot[1] - self.since_boot[1], True
        losses = _bounded(self.losses)
        reading = ClientReading(slot, every, since, at, until, max(0.0, span_s), entries, losses,
                                head.targets, head.unreadable, head.bad, is_measured)
        self.gains, self.losses = [], []
        self.whole.update(dict.fromkeys(head.targets, at))
        self.instances.update(head.instances)
        for target in head.targets:
            self.left.pop(target, None)
        began = at if since is None else since
        for target in head.targets:
            self.began_of.setdefault(target, began)
        if self.first is None:
            self.first = began
        self.read_from, self.read_until, self.last = at, until, reading
        self.since_boot, self.told_from = head.since_boot, head.read_from
        self.unkept.append(reading)

    def _mark_unread(self, head: Any, since: float | None, at: float, until: float) -> None:
        """
        Mark targets that could not be read, and those that can be read again: what came in between
        is in no amount.
        """
        for target in head.unreadable:
            began = at if since is None else since
            if target not in self.left:
                began = self.whole.get(target, began)
            self.losses.append(MarkedLoss(min(began, until), until, target, "", UNREADABLE))
        for target in head.targets:
            read_at = self.whole.get(target, math.inf)
            if since is not None and read_at < since:
                lost_until = self.lost_until(target, self, at, head.instances.get(target))
                self.losses.append(MarkedLoss(read_at, lost_until, target, "",
                                              LEFT if target in self.left else UNREADABLE))

    def is_read(self, target: str) -> bool:
        """Whether its last reading tried this target, which was here before: it has not left."""
        return target not in self.left and self.last is not None and (
            self.whole.get(target) == self.read_from or target in self.last.unreadable)

    def lost_until(self, target: str, last: ClientSource, at: float, instance: int | None) -> float:
        """
        Until when something may be missing of a target that `last` has read last, and this one
        again, as started for the `instance`th time, at `at`.

        Where it was started once in between, nobody else had it: then it is lost by when it had
        left, and by when it was started here.
        """
        if not instance or last.instances.get(target) != instance - 1:
            return at
        return max(last.whole[target], min(at, last.left.get(target, at),
                                           self.started.get(target, at)))

    def mark_rates(self, loss: MarkedLoss) -> None:
        """What another storage server has lost makes the rates of this sweep too low."""
        if self.last is not None:
            self.last = self.last._replace(losses=[*self.last.losses, loss])

    def drop_before(self, moment: float) -> None:
        """Drop targets that were read for the last time before this moment."""
        for target in [one for one, read_at in self.whole.items() if read_at < moment]:
            self.drop_target(target)

    def drop_target(self, target: str) -> None:
        """Another storage server has it now, or none has had it for long."""
        for known in (self.whole, self.left, self.instances):
            known.pop(target, None)

    def _gained(self, since: float, until: float) -> list[GainEntry]:
        """[GainEntry] of the reading that ends now."""
        if not self.gains:
            return []
        return [GainEntry(since, until, numpy.concatenate([numbers for numbers, _ in self.gains]),
                          numpy.concatenate([gains for _, gains in self.gains]))]

    # ---- the history, and the store

    def forget_kept(self, count: int) -> None:
        """The first `count` of `unkept` are in the history."""
        del self.unkept[:count]

    def break_off(self, known_until: float) -> None:
        """
        Something of what has come was lost from the store, perhaps that `unkept` is in the history:
        what may be missing is marked, up to a reading that tells of all clients.

        `known_until`: since then, where it is not known.
        """
        since = [one.at if one.since is None else one.since for one in self.unkept]
        if self.read_from is not None:
            since.append(self.read_from)
        if self.broken_since is not None:
            since.append(self.broken_since)
        self.broken_since = min(since, default=known_until)
        self.unkept, self.gains, self.losses = [], [], []

    def state(self) -> bytes:
        """It as bytes, of source_state.py."""
        return encoded_source(self)

    # ---- what comes out

    def known(self) -> _Array:
        """The numbers of its clients."""
        return numpy.flatnonzero(self.is_known)


def taken_over(source: ClientSource,
               others: Iterable[ClientSource]) -> list[tuple[str, MarkedLoss]]:
    """
    [(storage server, MarkedLoss)]: what may be missing of targets that one of `others` has read
    before: from its last reading to the first one by `source`.
    """
    found = []
    for other in others:
        if other is source or other.kind != source.kind or other.read_from is None:
            continue
        for target, read_at in source.whole.items():
            last_read = other.whole.get(target, math.inf)
            if last_read > read_at:
                continue                            # not its, or its again
            loss = MarkedLoss(last_read, source.lost_until(
                target, other, read_at, source.instances.get(target)), target, "", LEFT)
            other.drop_target(target)
            found.append((other.node, loss))
    return found


def _bounded(losses: list[MarkedLoss]) -> list[MarkedLoss]:
    """The same; of a target and reason with too many clients, one for all of them."""
    if len(losses) <= MOST_NAMED:
        return losses
    found: dict[tuple[str, str], list[MarkedLoss]] = {}
    for one in losses:
        found.setdefault((one.target, one.why), []).append(one)
    return [loss for some in found.values() for loss in (
        some if len(some) <= MOST_NAMED else
        [MarkedLoss(min(one.since for one in some), max(one.until for one in some),
                    some[0].target, "", some[0].why)])]
