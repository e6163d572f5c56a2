"""
Events out of the 16 states that the kernel keeps of an import: those that happened, and no others.

The kernel here is a model of lustre/ptlrpc/import.c that is read at any moment.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from iostats.events.import_changes import MOST_STATES, ImportReading, between, parse_reading

NAME, TARGET = "scratch-OST0003-osc-ffff9a3c5d1e0800", "scratch-OST0003"
MOUNTED = [(1000, "CONNECTING"), (1000, "FULL")]
LOST = [(1023, "DISCONN"), (1023, "CONNECTING"), (1023, "DISCONN")]
BACK = [(1060, "CONNECTING"), (1060, "RECOVER"), (1060, "FULL")]
EVICTED = [(1060, "CONNECTING"), (1060, "EVICTED"), (1061, "RECOVER"), (1061, "FULL")]
REPLAYED = [(1060, "CONNECTING"), (1060, "REPLAY"), (1061, "REPLAY_LOCKS"), (1061, "REPLAY_WAIT"),
            (1067, "RECOVER"), (1067, "FULL")]
IDLE_AND_BACK = [(1020, "CONNECTING"), (1020, "IDLE"), (1037, "CONNECTING"), (1037, "FULL")]


def at(*parts, deactivated=False, timeouts=0, attempts=None, generation=None):
    """The ImportReading of a history that is made of these parts."""
    entries = [entry for part in parts for entry in part]
    return ImportReading(entries[-1][1] if entries else None, entries[-MOST_STATES:], deactivated,
                   timeouts, attempts, generation, [])


def told(before, after, **more):
    return [(one.kind, one.time, one.over)
            for one in between(NAME, TARGET, before, after, 2000.0, **more).changes]


FULL = at(MOUNTED)


@pytest.mark.parametrize("before, after, expected", [
    (FULL, FULL, []),
    (FULL, at(MOUNTED, IDLE_AND_BACK), []),
    (FULL, at(MOUNTED, IDLE_AND_BACK[:1]), []),
    (FULL, at(MOUNTED, IDLE_AND_BACK[:2]), []),
    (FULL, at(MOUNTED, LOST[:1]), [("connection_lost", 1023, None)]),
    (FULL, at(MOUNTED, LOST), [("connection_lost", 1023, None)]),
    (FULL, at(MOUNTED, LOST, BACK), [("connection_lost", 1023, 1060),
                                     ("connection_restored", 1060, None)]),
    (FULL, at(MOUNTED, LOST, REPLAYED), [("connection_lost", 1023, 1067),
                                         ("connection_restored", 1067, None)]),
    (FULL, at(MOUNTED, LOST, EVICTED), [("connection_lost", 1023, 1061), ("evicted", 1060, 1061),
                                        ("connection_restored", 1061, None)]),
    (FULL, at(MOUNTED, LOST, EVICTED[:2]), [("connection_lost", 1023, None),
                                            ("evicted", 1060, None)]),
    (at(MOUNTED, LOST), at(MOUNTED, LOST, BACK), [("connection_lost", 1023, 1060),
                                                  ("connection_restored", 1060, None)]),
    (at(MOUNTED, LOST), at(MOUNTED, LOST), [("connection_lost", 1023, None)]),
    (at(MOUNTED, LOST, EVICTED), at(MOUNTED, LOST, EVICTED), []),
    (None, at(MOUNTED), []),
    (None, at(MOUNTED[:1], LOST[:1]), []),
    (None, at(MOUNTED[:1], LOST[2:], MOUNTED), []),
    (at(MOUNTED[:1], LOST[2:]), at(MOUNTED[:1], LOST[2:], LOST[1:]), []),
    (at(MOUNTED, IDLE_AND_BACK[:2]),
     at(MOUNTED, IDLE_AND_BACK[:3], [(1041, "DISCONN")]), [("connection_lost", 1041, None)]),
    (FULL._replace(is_deactivated=True), at(MOUNTED, LOST[:1], EVICTED), []),
    (FULL._replace(is_deactivated=True),
     at(MOUNTED, LOST[:1], EVICTED, [(1097, "DISCONN")]), [("connection_lost", 1097, None)]),
    (FULL, FULL._replace(is_deactivated=True), []),
    (FULL, at(MOUNTED, LOST, deactivated=True), [("connection_lost", 1023, None)]),
    (at([(7, "CONNECTING"), (7, "FULL"), (9, "CONNECTING")]), at(MOUNTED), []),
], ids=["nothing", "idle", "becomes idle", "is idle", "just lost", "lost", "and restored",
        "the target restarted", "and evicted", "evicted just now", "lost before the start",
        "lost all the time", "evicted before the start", "mounted meanwhile",
        "away at the mount", "and connected then", "away at the mount, still",
        "idle, and then away", "activated", "activated, then lost", "deactivated",
        "lost, then deactivated", "mounted again under the same name"])
def test_what_happened_between_two_readings(before, after, expected):
    assert expected == told(before, after)


def test_deactivated_and_activated_between_two_readings():
    """The kernel's log has it; an eviction before that is one."""
    after = at(MOUNTED, LOST, EVICTED, [(1141, "DISCONN"), (1141, "CONNECTING"), (1141, "EVICTED"),
                                        (1141, "RECOVER"), (1141, "FULL")])
    assert 1 == [kind for kind, *_ in told(FULL, after, deactivated=[1123.5])].count("evicted")
    assert 2 == [kind for kind, *_ in told(FULL, after)].count("evicted")


def test_words_say_how_long_and_what_became_of_requests():
    [_, back] = between(NAME, TARGET, FULL, at(MOUNTED, LOST, REPLAYED), 2000.0).changes
    assert ("connection to scratch-OST0003 was restored after 44 s; its requests were replayed"
            == back.message)


def down(since, count):
    """What a target that is down does: two entries every 5 s."""
    return [(since + 5 * n, state) for n in range(count) for state in ("CONNECTING", "DISCONN")]


def test_a_long_outage_keeps_its_beginning():
    """The second in which it was lost has left the history by the second look of three."""
    first = between(NAME, TARGET, FULL, at(MOUNTED, LOST), 1030.0)
    looks, before, opened = [first], at(MOUNTED, LOST), first.open
    for n in range(3, 60, 3):
        after = at(MOUNTED, LOST, down(1028, n))
        looks.append(between(NAME, TARGET, before, after, 1030.0 + 5 * n, opened))
        before, opened = after, looks[-1].open
    assert {("connection_lost", 1023, None)} == {
        (one.kind, one.time, one.over) for look in looks for one in look.changes}
    assert {None} == {look.gone_before for look in looks}
    after = at(MOUNTED, LOST, down(1028, 57), [(1400, "CONNECTING"), (1400, "RECOVER"),
                                               (1400, "FULL")])
    assert [("connection_lost", 1023, 1400), ("connection_restored", 1400, None)] == told(
        before, after, opened=opened)
    assert 1 == len({one.origin for look in looks for one in look.changes})


def test_an_outage_whose_beginning_is_gone():
    """Its 16 states are 40 s; it was lost by then, and how long it was down is not known."""
    found = between(NAME, TARGET, FULL, at(down(1100, 20)), 1200.0)
    [lost] = found.changes
    assert ("connection_lost", 1160, None, 1160) == (*lost[:2], lost.over, found.gone_before)
    assert ("there is no connection to scratch-OST0003, since an unknown time"
            == lost.message)


def test_an_outage_that_was_over_among_states_that_are_gone_shows_in_the_counters():
    """Idle and back three times is three tries; eight are more than that."""
    before = at(MOUNTED, attempts=1, generation=1)
    idle = [(1000 + 25 * n, state) for n in range(8)
            for state in ("CONNECTING", "IDLE", "CONNECTING", "FULL")]
    quiet = at(MOUNTED, idle, attempts=9, generation=9)
    assert [] == told(before, quiet)
    assert 1100 == between(NAME, TARGET, before, quiet, 2000.0).gone_before
    [(kind, when, over)] = told(before, quiet._replace(attempts=12))
    assert ("connection_lost", 1100, None) == (kind, when, over)


@pytest.mark.parametrize("before, after, expected", [(0, 23, 23), (23, 60, 37), (60, 60, 0),
                                                     (60, 23, 0), (None, 23, 0), (23, None, 0)])
def test_requests_that_timed_out(before, after, expected):
    found = between(NAME, TARGET, FULL._replace(timeouts=before), FULL._replace(timeouts=after),
                    1999.5).changes
    assert ([("timeouts", expected, 1999.5)] if expected else []) == [
        (one.kind, one.count, one.time) for one in found]


def test_requests_that_timed_out_are_told_with_the_loss():
    found = between(NAME, TARGET, FULL, at(MOUNTED, LOST, timeouts=37), 1999.5).changes
    [timeouts] = [one for one in found if one.kind == "timeouts"]
    assert (1023, 1999.5, 37, "37 requests to scratch-OST0003 timed out") == (
        timeouts.time, timeouts.last, timeouts.count, timeouts.message)


def test_a_clock_that_was_set_back_tells_no_length():
    """Lost at 1023, back at 700: so long after is not known, and what is new is."""
    found = between(NAME, TARGET, FULL, at(MOUNTED, LOST, [(700, "CONNECTING"), (700, "RECOVER"),
                                                           (700, "FULL")]), 705.0).changes
    assert {("connection_lost", None, "connection to scratch-OST0003 was lost"),
            ("connection_restored", None, "connection to scratch-OST0003 was restored")} == {
        (one.kind, one.over, one.message) for one in found}


@pytest.mark.parametrize("when", [-1, 2**62, -2**63])
def test_a_time_that_cannot_be_is_that_of_the_look(when):
    assert [("connection_lost", 2000.0, None)] == told(FULL, at(MOUNTED, [(when, "DISCONN")]))


# -- a kernel, and someone who reads it now and then ---------------------------------------------


@dataclass
class Kernel:
    """One import; each of its histories comes with what really happened."""

    now: int = 1_795_225_000
    state: str = "NEW"
    history: list = field(default_factory=list)
    attempts: int = 0
    generation: int = 1
    timeouts: int = 0
    is_deactivated: bool = False
    truth: list = field(default_factory=list)           # [(kind, time)]
    was_deactivated_at: list = field(default_factory=list)
    lost_at: int | None = None
    was_connected: bool = False
    full: set = field(default_factory=set)              # when it was connected, and when not
    away: set = field(default_factory=set)

    def steps(self, name):
        """Set the states of what is called `name`; yields after each, so that it can be read."""
        was = self.state
        for word in OPERATIONS[was if not self.is_deactivated else "DEACTIVATED"][name].split():
            if word == "deactivate":
                self.now += 3                           # an administrator takes his time
                self.is_deactivated = True
                self.generation += 1
                self.was_deactivated_at.append(float(self.now))
            elif word == "activate":
                self.now += 3
                self.is_deactivated, self.lost_at = False, -1
            elif word == "timeout":
                self.timeouts += 1
            elif word == "generation":
                self.generation += 1
            else:
                self._set(word)
            yield

    def _set(self, word):
        was, self.state = self.state, word.rstrip("+")
        self.attempts += word.endswith("+")             # CONNECTING+: a try to connect
        self.history = [*self.history, (self.now, self.state)][-MOST_STATES:]
        if self.state in ("FULL", "IDLE"):
            self.full.add(self.now)
        elif self.state not in ("CONNECTING", "NEW"):
            self.away.add(self.now)
        if self.state == "DISCONN" and self.lost_at is None and (
                was == "FULL" or (was == "CONNECTING" and self.was_connected)):
            self.lost_at = self.now
            self.truth.append(("connection_lost", self.now))
        elif self.state == "EVICTED" and self.lost_at != -1:
            self.truth.append(("evicted", self.now))
        elif self.state == "FULL":
            if self.lost_at not in (None, -1):
                self.truth.append(("connection_restored", self.now))
            self.lost_at = None
            self.was_connected = True

    def reading(self):
        return ImportReading(self.state, list(self.history), self.is_deactivated, self.timeouts,
                       self.attempts, self.generation, [])


LOSE = {"lose": "timeout DISCONN"}
OPERATIONS = {
    "NEW": {"mount": "CONNECTING+ FULL", "mount, away": "CONNECTING+ DISCONN"},
    "FULL": {**LOSE, "idle": "CONNECTING IDLE",
             "idle, work again": "CONNECTING generation NEW CONNECTING+ FULL",
             "deactivate": "deactivate"},
    "IDLE": {"wake": "generation CONNECTING+ FULL", "wake, away": "generation CONNECTING+ DISCONN"},
    "DISCONN": {"retry": "timeout CONNECTING+ DISCONN", "back": "CONNECTING+ RECOVER FULL",
                "evicted": "CONNECTING+ EVICTED generation RECOVER FULL",
                "replayed": "CONNECTING+ REPLAY REPLAY_LOCKS REPLAY_WAIT RECOVER FULL"},
    "DEACTIVATED": {"activate": "activate DISCONN CONNECTING+ EVICTED RECOVER FULL"},
}
# A target that has never been connected comes back without recovery.
NEVER = {"retry": "CONNECTING+ DISCONN", "mount": "CONNECTING+ FULL"}


@st.composite
def lives(draw):
    """[(operation's number, seconds before it, {steps after which it is read})]"""
    return draw(st.lists(st.tuples(
        st.integers(0, 50), st.sampled_from([0, 0, 1, 5, 23]),
        st.sets(st.integers(0, 5), max_size=2) | st.just(set())), min_size=1, max_size=60))


def lived(life):
    """([(ImportReading, how much of the truth was there, time)], truth, Kernel) of a life."""
    kernel, readings = Kernel(), []
    for number, seconds, read_after in life:
        kernel.now += seconds
        state = "DEACTIVATED" if kernel.is_deactivated else kernel.state
        table = NEVER if state == "DISCONN" and not kernel.was_connected else OPERATIONS[state]
        name = sorted(table)[number % len(table)]
        if table is NEVER:
            words = NEVER[name].split()
            for step, word in enumerate(words):
                kernel._set(word)
                if step in read_after:
                    readings.append((kernel.reading(), len(kernel.truth), kernel.now))
            continue
        for step, _ in enumerate(kernel.steps(name)):
            # That it was being activated at the first reading, the history does not tell.
            if step in read_after and (readings or kernel.lost_at != -1):
                readings.append((kernel.reading(), len(kernel.truth), kernel.now))
    readings.append((kernel.reading(), len(kernel.truth), kernel.now))
    return readings, kernel.truth, kernel


@settings(max_examples=examples(400))
@given(lives())
def test_no_event_that_did_not_happen_and_none_twice(life):
    readings, truth, kernel = lived(life)
    before, had, _ = readings[0]
    known, opened, gaps, timeouts = {}, None, [], 0
    since = readings[0][2]
    for after, _, now in readings[1:]:
        found = between(NAME, TARGET, before, after, float(now), opened,
                        [one for one in kernel.was_deactivated_at if since < one <= now])
        for one in found.changes:
            known[one.origin] = one
            timeouts += one.count if one.kind == "timeouts" else 0
        if found.gone_before is not None:
            gaps.append(found.gone_before)
        before, opened, since = after, found.open, now
    ends = {}
    for place, (kind, when) in enumerate(truth):
        if kind != "connection_restored":
            ends.setdefault((kind, when), set()).add(next(
                (end for one, end in truth[place:] if one == "connection_restored"), None))
    exact = [one for one in known.values()
             if not any(words in one.message for words in (
                 "an unknown time", "some time before", "or more")) and one.kind != "timeouts"]
    for one in exact:
        assert (one.kind, one.time) in truth
        if one.over is not None:
            assert one.over in ends[one.kind, one.time]
    for one in known.values():
        if "is not known" in one.message:               # there was none at that time
            assert one.time in kernel.away
        elif "or more" in one.message:
            assert one.time in kernel.full
        elif "some time before" in one.message:
            assert any(kind == one.kind and when <= one.time for kind, when in truth)
    # What happened after the first reading is there, where no states are gone; which of two of
    # one second came before a reading in it is not known.
    seconds = {when for _, _, when in readings}
    whole = {(kind, when) for kind, when in truth[had:]
             if when > max(gaps, default=0) and when not in seconds}
    # Nor is it, whether states that are gone were those of an activation.
    assert (gaps and kernel.was_deactivated_at) or whole <= {
        (one.kind, one.time) for one in known.values()}
    assert timeouts <= readings[-1][0].timeouts - readings[0][0].timeouts


@given(st.binary(max_size=400), st.binary(max_size=400), st.binary(max_size=300))
def test_any_bytes_are_a_reading(one, other, more):
    found = between(NAME, TARGET, parse_reading(one, more), parse_reading(other, None), 23.0)
    for change in found.changes:
        assert 0 <= change.time <= change.last < 2**53


@st.composite
def histories(draw):
    return draw(st.lists(st.tuples(
        st.integers(-2**63, 2**63 - 1) | st.integers(0, 50),
        st.sampled_from(["FULL", "DISCONN", "CONNECTING", "EVICTED", "IDLE", "NEW", "CLOSED",
                         "RECOVER", "REPLAY"])), max_size=16))


@given(histories(), histories(), st.booleans())
def test_any_history_gives_times_that_can_be_sent(earlier, later, continues):
    after = at(earlier, later) if continues else at(later)
    found = between(NAME, TARGET, at(earlier), after, 23.0)
    for change in found.changes:
        assert 0 <= change.time <= change.last < 2**53
        assert change.over is None or change.time <= change.over < 2**53
