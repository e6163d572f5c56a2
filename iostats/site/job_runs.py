"""
The runs of all jobs, and whether one had its nodes alone: by what the batch system has said.

    a list of now          what runs, and what has ended within the time that the list keeps it
    the accounting         what ran in a time without a list
    a time is covered      when every run of it has been in such a list
    a run was alone        where the time from its start to its end is covered and no other run that
                           is known was on any of its nodes in it; or where the batch system gave it
                           whole nodes
    a run is decided       it stays for `keep_s` after its end: lists still show it

What is not proved is not so: a run that began and ended while nobody asked may have been on the
same node.  All times here are seconds since 1970 by the batch system's clock.  A time of the batch
system is rounded down, so the next job on a node may seem to begin in the second in which the one
before it ended.
"""

from __future__ import annotations

from collections import namedtuple
from datetime import datetime
from typing import Any, Optional

import msgspec

from iostats.base.job_facts import ENDED, Facts
from iostats.base.job_id import is_node_name
from iostats.base.node_list import expanded
from iostats.site.job_lifecycle import WRITES_BACK_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    RunKey = tuple[str, float]                  # (raw job, its start)

EXCLUSIVE, LISTED = "exclusive", "listed"
KEEP_S = 7200.0
_MOST_OTHERS = 1000                             # on one run's nodes, that are kept by name

Alone = namedtuple("Alone", "how why_not is_open", defaults=(False,))
Alone.__doc__ = """
Whether a run had its nodes alone.

Attributes:
    how: EXCLUSIVE or LISTED; "" for a run that had not, or may not have had.
    why_not: for such a one, in words.
    is_open: the accounting may still say more.
"""


class JobRun(msgspec.Struct):
    """
    One run of a job, as it is kept.

    Attributes:
        job: the batch system's own id.
        decided: what is known of it is in its record.
        started: when it began.
        ended: when it ended; None where that is not known.
        seen: when it was last seen to run.
        gone: when it was first seen to run no more, where its end is not known; None.
        nodes: its nodes, in the batch system's spelling.
        exclusive: it had whole nodes, each time it was seen.
        in_part: its first nodes were gone already when it was first seen.
        resized: its nodes changed while it ran.
        facts: what the batch system says, as the dict of a Facts.
        others: {node: [job, when that began, when it ended or None]} of runs that are forgotten,
            and were on the node in its time; before: the same of those before it.
    """

    job: str
    started: float
    decided: bool = False
    ended: Optional[float] = None
    seen: float = 0.0
    gone: Optional[float] = None
    nodes: str = ""
    exclusive: bool = False
    in_part: bool = False
    resized: bool = False
    facts: dict[str, Any] = {}
    others: dict[str, list[Any]] = {}
    before: dict[str, list[Any]] = {}

    @property
    def key(self) -> RunKey:
        return self.job, self.started

    @property
    def over(self) -> float:
        """When it had certainly ended; infinity for one that runs."""
        end = self.gone if self.ended is None else self.ended
        return float("inf") if end is None else end

    @property
    def shown_as(self) -> str:
        """The job as its users write it."""
        return str(self.facts.get("job") or self.job)


encoded_run = msgspec.msgpack.Encoder().encode
decoded_run = msgspec.msgpack.Decoder(JobRun).decode


class JobRuns:
    """
    All runs that are not forgotten.

    Attributes:
        runs: {(raw job, start): JobRun}.
        covered: [[since, until]], in their order: every run of these times is or was in `runs`.
        changed: keys of runs that are to be kept.
        step_s: the batch system's times are multiples of it.
        keep_s: a run stays here for so long after its end.
    """

    def __init__(self, step_s: float = 1.0, keep_s: float = KEEP_S) -> None:
        self.runs: dict[RunKey, JobRun] = {}
        self.covered: list[list[float]] = []
        self.changed: set[RunKey] = set()
        self.step_s, self.keep_s = step_s, keep_s
        self._on: dict[str, set[RunKey]] = {}       # node -> runs
        self._nodes: dict[RunKey, tuple[str, ...]] = {}
        self._of: dict[str, set[float]] = {}        # raw job -> starts
        self._last: dict[int, Facts] = {}           # id() of each of the list before -> itself

    # -- what the batch system says --------------------------------------------------------------

    def see(self, jobs: Iterable[Facts], exclusive: Container[str], at: float) -> None:
        """A list of what runs at the moment `at`, and of what ended before it."""
        there = set()
        before, self._last = self._last, {}
        for facts in jobs:
            self._last[id(facts)] = facts
            if facts.ended is None and before.get(id(facts)) is facts:
                run = self.runs.get((facts.raw_job, facts.started))
                if run is not None and run.exclusive <= (facts.raw_job in exclusive):
                    there.add(run.key)                  # nothing is new
                    run.seen, run.gone = at, None
                    continue
            run = self.learn(facts, at, facts.raw_job in exclusive)
            if run is None:
                continue
            there.add(run.key)
            if run.ended is None:
                run.seen, run.gone = at, None
        for run in self.runs.values():
            if run.key not in there and run.ended is None and run.gone is None:
                run.gone = max(at, run.started)
                self.changed.add(run.key)

    def learn(self, facts: Facts, at: float, exclusive: bool | None = None) -> JobRun | None:
        """
        What a list of the moment `at` or the accounting says of a run; None for one that has not
        begun, or is forgotten.
        """
        if facts.started is None:
            return None
        key = (facts.raw_job, float(facts.started))
        run = self.runs.get(key)
        if run is None:
            if facts.ended is not None and facts.ended < at - self.keep_s and self.gaps(
                    facts.started, facts.ended) != [(facts.started, facts.ended)]:
                return None                 # what ran in a time that is covered was known
            run = self._begun(key, facts, bool(exclusive))
        elif exclusive is not None and run.exclusive and not exclusive:
            run.exclusive = False
            self.changed.add(key)
        if facts.completing and facts.state is None:
            # It is over, though when is not told yet; and these are the nodes that it is still on.
            return run
        if facts.nodes and facts.nodes != run.nodes:
            self._moved(run, facts.nodes)
        if facts.state == ENDED and facts.ended is not None and run.ended != facts.ended:
            run.ended = max(float(facts.ended), run.started)
            run.facts = _dict_of(facts)
            self.changed.add(key)
        return run

    def _begun(self, key: RunKey, facts: Facts, exclusive: bool) -> JobRun:
        run = JobRun(key[0], key[1], nodes=facts.nodes, exclusive=exclusive,
                     in_part=facts.completing and facts.state is None, facts=_dict_of(facts))
        self.put(run)
        self.changed.add(key)
        return run

    def _moved(self, run: JobRun, nodes: str) -> None:
        was, now = set(self._nodes[run.key]), names_of(nodes)
        if was == set(now):
            return
        if run.in_part and was <= set(now):
            run.in_part = False
        else:
            run.resized = True
            now = sorted(was.union(now))
            nodes = ",".join(now)
        run.nodes = nodes
        self.put(run)
        self.changed.add(run.key)

    def running(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """(job, its user, its nodes) of all runs that were in the last list."""
        for key, run in self.runs.items():
            if run.ended is None and run.gone is None:
                yield run.shown_as, str(run.facts.get("user") or ""), self._nodes[key]

    def put(self, run: JobRun) -> None:
        """A run that was kept, or whose nodes have changed."""
        self.runs[run.key] = run
        self._of.setdefault(run.job, set()).add(run.started)
        names = self._nodes[run.key] = tuple(names_of(run.nodes))
        for name in names:
            self._on.setdefault(name, set()).add(run.key)

    def cover(self, since: float, until: float) -> None:
        """Every run of this time is known."""
        if since > until:
            return
        found = [[since, until]]
        for one in self.covered:
            if one[1] < found[0][0] or found[0][1] < one[0]:
                found.append(one)
            else:
                found[0] = [min(found[0][0], one[0]), max(found[0][1], one[1])]
        self.covered = sorted(found)

    def gaps(self, since: float, until: float) -> list[tuple[float, float]]:
        """[(since, until)] of the parts of this time that are not covered."""
        found = []
        for begin, end in self.covered:
            if since < begin:
                found.append((since, min(begin, until)))
            since = max(since, end)
            if since >= until:
                break
        if since < until:
            found.append((since, until))
        return [(begin, end) for begin, end in found if begin < end]

    # -- questions ---------------------------------------------------------------------------------

    def nodes_of(self, run: JobRun) -> tuple[str, ...]:
        """The names of a run's nodes."""
        return self._nodes[run.key]

    def of(self, job: str) -> list[JobRun]:
        """The runs of a job that are not forgotten, the first one first."""
        return [self.runs[job, started] for started in sorted(self._of.get(job, ()))]

    def running_alone(self, job: str) -> list[str]:
        """The nodes on which nobody but this job's run is now; [] for a job that does not run."""
        runs = self.of(job)
        if not runs or runs[-1].over != float("inf"):
            return []
        return [node for node in self._nodes[runs[-1].key] if not any(
            self.runs[key].over == float("inf") for key in self._on[node] - {runs[-1].key})]

    def alone(self, run: JobRun) -> Alone:
        """Whether a run that is over had its nodes alone."""
        if not self._nodes[run.key]:
            return Alone("", "its nodes are not known")
        if run.resized:
            return Alone("", "its nodes changed while it ran")
        if run.in_part:
            return Alone("", "it was seen when it had left some of its nodes already")
        if run.ended is None:
            return Alone("", "when it ended is not known", True)
        shared = self._shared(run)
        if shared:
            return Alone("", f"it shared {_named(shared)}")
        if run.exclusive:
            return Alone(EXCLUSIVE, "")
        gaps = self.gaps(run.started, run.ended)
        if gaps:
            since, until = gaps[0]
            return Alone("", f"which other jobs were on its nodes is not known: the batch system "
                             f"did not say what ran from {_moment(since)} to {_moment(until)}",
                         True)
        return Alone(LISTED, "")

    def _shared(self, run: JobRun) -> dict[str, list[str]]:
        """{other job: [node]} of what ran on the nodes of a run while it had them."""
        found: dict[str, list[str]] = {}
        for node in self._nodes[run.key]:
            names = {other.shown_as for other in self._others(run, node)
                     if self._overlap(run, other.started, other.over)}
            names.update(name for name, since, until in run.others.get(node, ())
                         if self._overlap(run, since, until))
            for name in names:
                found.setdefault(name, []).append(node)
        return found

    def _others(self, run: JobRun, node: str) -> Iterator[JobRun]:
        return (self.runs[key] for key in self._on[node] if key[0] != run.job)

    def _overlap(self, run: JobRun, since: float, until: float) -> bool:
        # Of two times within one step it is not known which came first: of a second that is left
        # aside, as the next job on a node begins in the second in which the one before it ended.
        spare = self.step_s - 1
        return since < run.over + spare and run.started < until + spare

    def used_just_before(self, run: JobRun) -> list[str]:
        """Its nodes on which another run ended in the minute before it began."""
        since = run.started - WRITES_BACK_S
        return [node for node in self._nodes[run.key] if any(
            since < ended <= run.started for ended in (
                *(other.over for other in self._others(run, node)),
                *(until for _, _, until in run.before.get(node, ()))))]

    def free_after(self, run: JobRun) -> list[str]:
        """Its nodes on which no other run began within a minute of its end."""
        end = run.over
        return [node for node in self._nodes[run.key] if not any(
            end <= other.started + self.step_s and other.started < end + WRITES_BACK_S
            for other in self._others(run, node))]

    # -- what is not needed any more ---------------------------------------------------------------

    def forget_old(self, at: float) -> list[JobRun]:
        """Forget the decided runs that no list shows any more; these."""
        old = [run for run in self.runs.values() if run.decided and run.over < at - self.keep_s]
        for run in old:
            self._forget(run)
        return old

    def _forget(self, run: JobRun) -> None:
        """A run that is over; what others on its nodes have to know of it goes to them."""
        key = run.key
        name, since, until = run.shown_as, run.started, run.over
        for node in self._nodes.pop(key):
            for other in self._others(run, node):
                if self._overlap(other, since, until):
                    self._tell(other, other.others, node, [name, since, until])
                elif other.started - WRITES_BACK_S < until <= other.started:
                    self._tell(other, other.before, node, [name, since, until])
            left = self._on[node]
            left.discard(key)
            if not left:
                del self._on[node]
        del self.runs[key]
        starts = self._of[run.job]
        starts.discard(run.started)
        if not starts:
            del self._of[run.job]
        self.changed.discard(key)

    def _tell(self, other: JobRun, place: dict[str, list[Any]], node: str, what: list[Any]) -> None:
        if sum(map(len, place.values())) < _MOST_OTHERS:
            place.setdefault(node, []).append(what)
            self.changed.add(other.key)


def _dict_of(facts: Facts) -> dict[str, Any]:
    return {**facts._asdict(), "comments": {}, "steps": []}


def names_of(nodes: str) -> list[str]:
    """The names in a node list of a batch system; [] for what is none."""
    try:
        names = expanded(nodes)
    except ValueError:
        return []
    return list(dict.fromkeys(names)) if all(map(is_node_name, names)) else []


def _named(shared: dict[str, list[str]]) -> str:
    """
    "node7 with another job", "node[7-9] with 2 other jobs".

    Without their ids: the record is its user's, who may not know what others run.
    """
    from iostats.report.node_sets import folded
    nodes = folded(sorted({node for some in shared.values() for node in some}))
    return f"{nodes} with {'another job' if len(shared) == 1 else f'{len(shared)} other jobs'}"


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f}"
