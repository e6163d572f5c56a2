"""
The gains of clients between readings of one storage server's OSTs, or MDTs, of one file system.

An agent reports the I/O of each client since its epoch began (wire/messages/clients.py), so a gain
is the difference of two amounts, however many readings or messages were lost in between:

    the first reading there is      its amounts count since they began, where that is reported, and
                                    none of it can be in the history already; else it shows where
                                    they stand, and nothing is gained
    another epoch                   its amounts count from 0; what was done between the last reading
                                    of the one before and the first one of it may be missing
    a number went down              the larger one stays, and what it may lack is marked until it
                                    is larger again: nothing is counted twice
    other clients, of a relay       as for the first reading
    a client that was not there     its amount is gained, as it began at 0 within the epoch

A gain was made after the beginning of the reading before, and before the end of this one.  Where a
client's file, or all of a target's, could not be read before, it was made after the last reading
that did; until then what they did is unknown.  Times are by the site's clock.

Long because: one class, whose methods share what was read before; half of it is what was lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import numpy

from iostats.base.ids import ALL_CLIENTS, ALL_TARGETS, Epoch, Nid, Target
from iostats.harvest.clients.nids import KnownNids
from iostats.harvest.clients.readings import AMOUNTS, ClientReading, GainEntry
from iostats.harvest.clients.source_state import encode_source
from iostats.store.client_store import MarkedLoss
from iostats.wire.messages.arrays import Integers, differs, list_integers
from iostats.wire.messages.clients import ClientBlock, ClientBlockHead, ClientLoss
from iostats.wire.messages.clients_encoder import (
    LEFT,
    NEW_EPOCH,
    OTHER_CLIENTS,
    UNREADABLE,
    WENT_DOWN,
)
from iostats.wire.relays import is_of_others, is_relayed

DAMAGED = "its data in the store was damaged"
IMPOSSIBLE = "it reported more than a client can do"
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
        is_known: of each client: was reported in this epoch.
        behind: clients whose amounts are larger than those the agent reports.
        first: since when all is counted, None before the first reading; `read_from`: when the last
            one began.
        began_of: {target: since when it is counted}, also of those that have left.
        read_until: when that ended.
        since_boot: of ClientBlockHead, of the last whole reading.
        sent_from: when it began, by the agent's clock; None where its time is only known to be
            between read_from and read_until.
        whole: {target: when the last reading began in which it was read whole}, of those that no
            other storage server has read since then.
        left, instances: {target: by when it had left this storage server}, {target: how often it
            was started, as it was read last}, of those in `whole`.
        started: {target: by when it had been started}, of the last reading.
        unread: {(target, NID or "" for all): (since when, and up to which reading, it could not be
            read)}; what they did since then is in no amount yet.
        gained_since: what the next reading shows may have been done since then: a target that left
            had not been read before, and its last reading may have been lost with its message; inf.
        last: the last ClientReading; `slot`: its sweep's.
        unstored: [ClientReading] that are not in the history yet.
        broken_since: since when something of it was lost from the store; None.
        gains, losses: [(clients, gains)], [MarkedLoss] of a reading that has not ended.
    """

    __slots__ = ("amounts", "began_of", "behind", "broken_since", "epoch", "file_system", "first",
                 "gained_since", "gains", "instances", "is_known", "kind", "last", "left", "losses",
                 "nids", "node", "read_from", "read_until", "sent_from", "since_boot", "started",
                 "unread", "unstored", "whole")

    def __init__(self, node: str, file_system: str, kind: str, nids: KnownNids) -> None:
        self.node, self.file_system, self.kind, self.nids = node, file_system, kind, nids
        self.epoch = Epoch("")
        self.amounts = numpy.zeros((0, AMOUNTS), numpy.int64)
        self.is_known = numpy.zeros(0, bool)
        self.behind = set[int]()
        self.first: float | None = None
        self.read_from: float | None = None
        self.read_until: float | None = None
        self.sent_from: float | None = None
        self.since_boot: tuple[str, float] | None = None
        self.whole: dict[Target, float] = {}
        self.began_of: dict[Target, float] = {}
        self.left: dict[Target, float] = {}
        self.instances: dict[Target, int] = {}
        self.started: dict[Target, float] = {}
        self.unread: dict[tuple[Target, Nid], tuple[float, float]] = {}
        self.gained_since = math.inf
        self.last: ClientReading | None = None
        self.unstored: list[ClientReading] = []
        self.broken_since: float | None = None
        self.gains: list[tuple[Integers, Integers]] = []
        self.losses: list[MarkedLoss] = []

    @property
    def slot(self) -> float:
        return -math.inf if self.last is None else float(self.last.slot)

    # ---- what comes in

    def add_block(self, block: ClientBlock, slot: float, every_s: float, full: bool,
                  ahead_s: float, is_new: bool = False, arrived: float | None = None) -> bool:
        """Add a block of the sweep of `slot`; return True if it was the last one of its reading.

        `full`: of all clients; `ahead_s`: the agent's clock less the site's, when it was read;
        `is_new`: the counts of such a source were never in the history before it was known.
        `arrived`: when the block arrived, if that is `ahead_s`'s moment: the agent's clock may have
        been set since the reading.
        """
        head, is_timed = block.head, True
        if arrived is not None and self.read_from is not None:
            if self.since_boot is not None and head.since_boot is not None and (
                    self.since_boot[0] == head.since_boot[0]):
                ahead_s = head.read_from - self.read_from - (
                    head.since_boot[1] - self.since_boot[1])
            else:
                head, ahead_s, is_timed = _bound_head(head, self.read_from, arrived), 0.0, False
        if head.epoch != self.epoch:
            began = head.read_from if head.began is None or not self._is_steady(
                head, ahead_s) else head.began
            self._begin(head.epoch, min(began, head.read_from) - ahead_s if is_timed
                        else head.read_until)
        if self.read_from is None and is_new and self.broken_since is None and (
                head.began is not None):
            self.read_from = head.began - ahead_s
        numbers = self.nids.numbers(head.nids)
        amounts = block.amounts
        if len(numbers) and int(numbers.min()) < 0:
            amounts, numbers = amounts[numbers >= 0], numbers[numbers >= 0]
        if len(numbers):
            self.grow(int(numbers.max()) + 1)
            self._count(numbers, amounts, head.read_until - ahead_s)
        for loss in [self._place_loss(loss, head, full, ahead_s) for loss in head.losses]:
            if loss.why == LEFT and loss.target not in self.began_of:
                loss = self._end_unread(loss)
            if loss.why != LEFT or loss.target not in self.began_of:
                self.losses.append(loss)
            elif loss.until > self.whole.get(loss.target, math.inf):    # see find_takeovers
                self.left[loss.target] = loss.until
        if head.ended:
            self._end(head, slot, every_s, full, ahead_s, is_timed)
        return bool(head.ended)

    def _place_loss(self, loss: ClientLoss, head: ClientBlockHead, full: bool,
                    ahead_s: float) -> MarkedLoss:
        """
        A loss, its times by the site's clock.  The agent's clock may have been set since the last
        reading, or be wrong after a boot; but a loss that is reported now came after that reading.
        """
        since, until = loss.since - ahead_s, loss.until - ahead_s
        if self.read_from is not None and not self._is_steady(head, ahead_s):
            since = min(self.read_from, head.read_from - ahead_s)
            until = max(since, head.read_until - ahead_s if full else until)
        elif self.read_from is not None and self.sent_from is not None:
            since = min(since, loss.since - self.sent_from + self.read_from)
        return MarkedLoss(min(since, until), max(since, until), loss.target, loss.nid, loss.why)

    def _end_unread(self, loss: MarkedLoss) -> MarkedLoss:
        """
        The loss of a target that left before it was read once: it is of all the time in which it
        could not be read, which ends with it.
        """
        key = loss.target, ALL_CLIENTS
        began, tried = self.unread.get(key, (math.inf, math.inf))
        if loss.until <= tried:                     # reported again, of an earlier time here
            return loss
        del self.unread[key]
        return loss._replace(since=min(loss.since, began))

    def _is_steady(self, head: ClientBlockHead, ahead_s: float) -> bool:
        """Whether neither the agent's clock nor ours was set since the last reading."""
        return (self.sent_from is not None and self.read_from is not None and
                abs(ahead_s - (self.sent_from - self.read_from)) < _STEADY_S)

    def _begin(self, epoch: Epoch, at: float) -> None:
        """Begin a new epoch: forget the clients of the last one."""
        # The second half is that of the relay's clients: relays.make_filtered_epoch.
        is_other = is_relayed(self.node) and is_of_others(self.epoch, epoch)
        if self.read_from is not None:
            since = min(self.read_from, at, *(began for began, _ in self.unread.values()))
            self.losses.append(MarkedLoss(since, max(self.read_from, at), ALL_TARGETS, ALL_CLIENTS,
                                          OTHER_CLIENTS if is_other else NEW_EPOCH))
            self.unread = {}
        if is_other:
            self.read_from = None                   # where the amounts stand is known by it alone
        self.epoch = epoch
        self.amounts[:] = 0
        self.is_known[:] = False
        self.behind.clear()

    def grow(self, length: int) -> None:
        """Make room for this number of clients."""
        if length > len(self.amounts):
            length = max(length, min(2 * len(self.amounts), len(self.nids)))
            self.amounts = numpy.concatenate([self.amounts, numpy.zeros(
                (length - len(self.amounts), AMOUNTS), numpy.int64)])
            self.is_known = numpy.concatenate([self.is_known, numpy.zeros(
                length - len(self.is_known), bool)])

    def _count(self, numbers: Integers, amounts: Integers, until: float) -> None:
        """Add the gains of these clients up to now."""
        before = self.amounts[numbers]
        gains = amounts - before
        is_down = gains.min(axis=1) < 0
        if is_down.any() or self.behind:
            down = set(list_integers(numbers[is_down]))
            since = until if self.read_from is None else min(self.read_from, until)
            marked = down | self.behind.intersection(list_integers(numbers))
            self.losses += [MarkedLoss(since, until, ALL_TARGETS, self.nids.names[number],
                                       WENT_DOWN) for number in sorted(marked)]
            if down:                                # a clear may have met all of them
                self.losses.append(MarkedLoss(since, until, ALL_TARGETS, ALL_CLIENTS, WENT_DOWN))
            self.behind = (self.behind - marked) | down
            numpy.maximum(gains, 0, out=gains)
        is_huge = gains.max(axis=1) > _LARGEST_GAIN
        if is_huge.any():
            self.losses += [MarkedLoss(until if self.read_from is None else self.read_from, until,
                                       ALL_TARGETS, self.nids.names[number], IMPOSSIBLE)
                            for number in list_integers(numbers[is_huge])]
            counted = numpy.minimum(gains, _LARGEST_GAIN)
        else:
            counted = gains
        self.amounts[numbers] = before + gains
        self.is_known[numbers] = True
        if self.read_from is None:                      # the first reading
            return
        changed = gains.any(axis=1)
        if changed.any():
            self.gains.append((numbers[changed], counted[changed]))

    def _end(self, head: ClientBlockHead, slot: float, every_s: float, full: bool, ahead_s: float,
             is_timed: bool) -> None:
        """End a reading; `is_timed`: the time at which it was made is known."""
        at, until = head.read_from - ahead_s, head.read_until - ahead_s
        last = self.read_from
        if last is None and not full:               # amounts of others are not known yet
            self.losses = []
            return
        since = None if last is None else min(last, at)
        if self.broken_since is not None:
            self.losses.append(MarkedLoss(min(self.broken_since, at), at, ALL_TARGETS,
                                          ALL_CLIENTS, DAMAGED))
            since = None if since is None else min(since, self.broken_since)
            self.broken_since = None if full else self.broken_since
        self.started = {target: moment - ahead_s for target, moment in head.started.items()}
        self._mark_unread(head, since, at if is_timed else until)
        late = self._note_unread(head, at if since is None else since, at)
        entries = [] if since is None else self._list_gains(
            since, max(until, self.read_until or until), late)
        span_s, is_measured = (0.0 if since is None else at - since), False
        if since is not None and self.since_boot is not None and head.since_boot is not None and (
                self.since_boot[0] == head.since_boot[0]):
            span_s, is_measured = head.since_boot[1] - self.since_boot[1], True
        losses = _merge_losses(self.losses)
        reading = ClientReading(slot, every_s, since, at, until, max(0.0, span_s), entries, losses,
                                head.targets, head.unreadable, head.bad, is_measured)
        self.gains, self.losses, self.gained_since = [], [], math.inf
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
        self.since_boot, self.sent_from = head.since_boot, head.read_from if is_timed else None
        self.unstored.append(reading)

    def _mark_unread(self, head: ClientBlockHead, since: float | None, until: float) -> None:
        """Mark targets that are read again after an interruption: the I/O during it is unknown."""
        for target in head.targets:
            has_left = target in self.left              # since it was read last, and is back
            if since is None or (not has_left and (
                    self.whole.get(target, math.inf) >= since
                    or (target, ALL_CLIENTS) in self.unread)):
                continue
            lost_until = self.find_loss_end(target, self, until, head.instances.get(target))
            self.losses.append(MarkedLoss(self.get_counted_until(target), lost_until, target,
                                          ALL_CLIENTS, LEFT if has_left else UNREADABLE))
        if self.unread:                             # what is lost now may have been done since then
            began = min(began for began, _ in self.unread.values())
            self.losses = [loss._replace(since=min(loss.since, began)) for loss in self.losses]

    def _note_unread(self, head: ClientBlockHead, since: float,
                     at: float) -> dict[tuple[Target, Nid], float]:
        """
        Note whose files cannot be read; returns those of `unread` that could be read now, or in a
        reading that was lost: what they gained is of all the time since they could not.
        """
        keys = [(target, ALL_CLIENTS) for target in head.unreadable] + [
            (target, nid) for target, nids in head.unread.items() for nid in nids]
        unread = {key: (self.unread[key][0] if key in self.unread else
                        self.whole.get(key[0], since), at) for key in keys}
        late = {key: began for key, (began, tried) in self.unread.items() if key not in unread and (
            key[0] in head.targets or tried == self.read_from)}
        self.unread = {key: times for key, times in {**self.unread, **unread}.items()
                       if key not in late or key[0] not in head.targets}
        return late

    def get_counted_until(self, target: Target) -> float:
        """The time up to which the amounts contain all I/O to a target."""
        return min([self.whole.get(target, math.inf), *(
            began for key, (began, _) in self.unread.items() if key[0] == target)])

    def was_here(self, target: Target) -> float:
        """Return when the last reading began in which a target was mounted here; inf for none."""
        times = [tried for key, (_, tried) in self.unread.items() if key[0] == target]
        return max([*times, *([self.whole[target]] if target in self.whole else ())],
                   default=math.inf)

    def is_read(self, target: Target) -> bool:
        """Whether this target is still mounted here, by the last reading."""
        return target not in self.left and self.last is not None and (
            self.whole.get(target) == self.read_from or target in self.last.unreadable)

    def find_loss_end(self, target: Target, last: ClientSource, at: float,
                      instance: int | None) -> float:
        """
        Return the time until which I/O to a target may be missing: `last` read it last, and this
        storage server reads it at `at`, after its `instance`th start.

        Where it was started only once in between, no other server had it mounted: then I/O is
        missing up to when it was unmounted there, or to when it was started here, but not before
        this storage server began to count.
        """
        if not instance or last.instances.get(target) != instance - 1:
            return at
        return max(last.whole[target], self.began_of.get(target, 0.0),
                   min(at, last.left.get(target, at), self.started.get(target, at)))

    def mark_rates(self, loss: MarkedLoss) -> None:
        """Mark the rates of this sweep too low: I/O is missing at another storage server."""
        if self.last is not None:
            self.last = self.last._replace(losses=[*self.last.losses, loss])

    def drop_before(self, moment: float) -> None:
        """Drop targets that were read for the last time before this moment."""
        for target in [target for target, read_at in self.whole.items() if read_at < moment]:
            self.drop_target(target)

    def drop_target(self, target: Target) -> None:
        """Forget a target that another storage server reads, or that none has read for long."""
        for by_target in (self.whole, self.left, self.instances):
            by_target.pop(target, None)
        self.gained_since = min([self.gained_since, *(
            began for key, (began, _) in self.unread.items() if key[0] == target)])
        self.unread = {key: times for key, times in self.unread.items() if key[0] != target}

    def _list_gains(self, since: float, until: float,
                    late: dict[tuple[Target, Nid], float]) -> list[GainEntry]:
        """Return [GainEntry] of the reading that ends now; `late`: of _note_unread."""
        if not self.gains:
            return []
        numbers = numpy.concatenate([numbers for numbers, _ in self.gains])
        gains = numpy.concatenate([gains for _, gains in self.gains])
        began = numpy.full(len(numbers), min([since, self.gained_since, *(
            moment for (_, nid), moment in late.items() if not nid)]))
        for (_, nid), moment in late.items():
            if nid:
                of_nid = ~differs(numbers, self.nids.find(nid))
                began[of_nid] = numpy.minimum(began[of_nid], moment)
        return [GainEntry(float(moment), until, numbers[began == moment], gains[began == moment])
                for moment in numpy.unique(began)]

    # ---- the history, and the store

    def drop_stored(self, count: int) -> None:
        """Drop the first `count` of `unstored`: they are in the history."""
        del self.unstored[:count]

    def break_off(self, known_until: float) -> None:
        """
        A part of the history was lost from the store, perhaps the mark of `unstored` in it: amounts
        that may be too low are marked, up to the next reading with all clients.

        `known_until`: the begin of the lost part, as far as it is known.
        """
        since = [reading.at if reading.since is None else reading.since
                 for reading in self.unstored]
        if self.read_from is not None:
            since.append(self.read_from)
        if self.broken_since is not None:
            since.append(self.broken_since)
        self.broken_since = min(since, default=known_until)
        self.unstored, self.gains, self.losses = [], [], []

    def state(self) -> bytes:
        """Encode the state as bytes of source_state.py."""
        return encode_source(self)

    # ---- what comes out

    def known(self) -> Integers:
        """The numbers of its clients."""
        return numpy.flatnonzero(self.is_known)


def find_takeovers(source: ClientSource,
                   sources: Iterable[ClientSource]) -> list[tuple[str, MarkedLoss]]:
    """
    Return [(storage server, MarkedLoss)]: what may be missing of targets that one of `sources` has
    read before: from its last reading to the first one by `source`.
    """
    moved = []
    for owner in sources:
        if owner is source or owner.kind != source.kind or owner.read_from is None:
            continue
        for target, read_at in source.whole.items():
            if owner.was_here(target) > read_at:
                continue                            # not its, or its again
            until = read_at if source.sent_from is not None else source.read_until or read_at
            loss = MarkedLoss(owner.get_counted_until(target), source.find_loss_end(
                target, owner, until, source.instances.get(target)), target, ALL_CLIENTS, LEFT)
            owner.drop_target(target)
            moved.append((owner.node, loss))
    return moved


def _bound_head(head: ClientBlockHead, since: float, until: float) -> ClientBlockHead:
    """Return a head with the earliest and latest time at which its reading may have been made."""
    until = max(since, until)
    return msgspec.structs.replace(
        head, read_from=since, read_until=until, began=None, since_boot=None, started={},
        losses=[msgspec.structs.replace(loss, since=since, until=until) for loss in head.losses])


def _merge_losses(losses: list[MarkedLoss]) -> list[MarkedLoss]:
    """Merge losses: of a target and reason with too many clients, one loss for all of them."""
    if len(losses) <= MOST_NAMED:
        return losses
    by_target: dict[tuple[str, str], list[MarkedLoss]] = {}
    for loss in losses:
        by_target.setdefault((loss.target, loss.why), []).append(loss)
    return [loss for group in by_target.values() for loss in (
        group if len(group) <= MOST_NAMED else
        [MarkedLoss(min(loss.since for loss in group), max(loss.until for loss in group),
                    group[0].target, ALL_CLIENTS, group[0].why)])]
