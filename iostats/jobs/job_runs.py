"""
The runs of all jobs, and whether a run had its nodes alone, from the batch system's lists.

    a list                 the running jobs, and those that ended a short time ago
    the accounting         the runs of a time without a list
    a time is covered      when lists or the accounting have shown every run of it
    a run was alone        if the time from its start to its end is covered and no other known run
                           was on its nodes then; or if the batch system gave it whole nodes
    a decided run          stays for `dropped_after_s` after its end: lists still show it

Without proof a run counts as shared: another one that began and ended between two queries may have
been on the same node.  All times here are seconds since 1970 by the batch system's clock, which
rounds down: the next job on a node may seem to begin in the second in which the one before it
ended.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from iostats.base.job_facts import ENDED, Facts
from iostats.base.job_id import is_node_name
from iostats.base.node_list import expand_node_list
from iostats.harvest.job_lifecycle import WRITES_BACK_S
from iostats.store.run_store import JobRun

RunKey = tuple[str, float]                  # (raw job, its start)

EXCLUSIVE, LISTED = "exclusive", "listed"
DROPPED_AFTER_S = 7200.0
_MAX_OTHER_RUNS = 1000          # on one run's nodes, stored by name


class Alone(NamedTuple):
    """Whether a run had its nodes alone."""

    how: str                # EXCLUSIVE or LISTED; "" if it had not, or may not have had
    why_not: str            # the reason, if `how` is ""
    is_open: bool = False   # the accounting may still report more


class JobRuns:
    """
    All runs that are not dropped yet.

    Attributes:
        runs: {(raw job, start): JobRun}.
        covered: [[since, until]], sorted: every run of these times is or was in `runs`.
        changed: keys of runs that have to be stored.
        step_s: the batch system's times are multiples of it.
        dropped_after_s: a run stays here for so long after its end.
    """

    def __init__(self, step_s: float = 1.0, dropped_after_s: float = DROPPED_AFTER_S) -> None:
        self.runs: dict[RunKey, JobRun] = {}
        self.covered: list[list[float]] = []
        self.changed: set[RunKey] = set()
        self.step_s, self.dropped_after_s = step_s, dropped_after_s
        self._runs_on: dict[str, set[RunKey]] = {}       # node -> runs
        self._nodes_of_run: dict[RunKey, tuple[str, ...]] = {}
        self._starts: dict[str, set[float]] = {}        # raw job -> starts
        # The id() of each item of the previous list -> the item.
        self._last_facts: dict[int, Facts] = {}

    # -- the batch system's answers --------------------------------------------------------------

    def add_list(self, jobs: Iterable[Facts], exclusive: Container[str], listed_at: float) -> None:
        """
        Add a list of the jobs that ran at `listed_at` or ended before it; `exclusive`: ids of those
        with whole nodes.
        """
        listed = set()
        before, self._last_facts = self._last_facts, {}
        for facts in jobs:
            self._last_facts[id(facts)] = facts
            if facts.ended is None and facts.started is not None and (
                    before.get(id(facts)) is facts):
                run = self.runs.get((facts.raw_job, facts.started))
                if run is not None and run.exclusive <= (facts.raw_job in exclusive):
                    listed.add(run.key)                  # unchanged
                    run.seen, run.gone = listed_at, None
                    continue
            run = self.add_facts(facts, listed_at, facts.raw_job in exclusive)
            if run is None:
                continue
            listed.add(run.key)
            if run.ended is None:
                run.seen, run.gone = listed_at, None
        for run in self.runs.values():
            if run.key not in listed and run.ended is None and run.gone is None:
                run.gone = max(listed_at, run.started)
                self.changed.add(run.key)

    def add_facts(self, facts: Facts, at: float, exclusive: bool | None = None) -> JobRun | None:
        """
        Add the facts of a run from a list of the moment `at`, or from the accounting; None for a
        run that has not begun, or is dropped.
        """
        if facts.started is None:
            return None
        key = (facts.raw_job, float(facts.started))
        run = self.runs.get(key)
        if run is None:
            if facts.ended is not None and facts.ended < at - self.dropped_after_s and self.gaps(
                    facts.started, facts.ended) != [(facts.started, facts.ended)]:
                return None                 # a run of a covered time was known before
            run = self._begin_run(key, facts, bool(exclusive))
        elif exclusive is not None and run.exclusive and not exclusive:
            run.exclusive = False
            self.changed.add(key)
        if facts.completing and facts.state is None:
            # It has ended at an unknown time; the facts list the nodes that it has not left yet.
            return run
        if facts.nodes and facts.nodes != run.nodes:
            self._change_nodes(run, facts.nodes)
        if facts.state == ENDED and facts.ended is not None and run.ended != facts.ended:
            run.ended = max(float(facts.ended), run.started)
            run.facts = _as_dict(facts)
            self.changed.add(key)
        return run

    def _begin_run(self, key: RunKey, facts: Facts, exclusive: bool) -> JobRun:
        run = JobRun(key[0], key[1], nodes=facts.nodes, exclusive=exclusive,
                     in_part=facts.completing and facts.state is None, facts=_as_dict(facts))
        self.add_run(run)
        self.changed.add(key)
        return run

    def _change_nodes(self, run: JobRun, nodes: str) -> None:
        was, now = set(self._nodes_of_run[run.key]), expand_nodes(nodes)
        if was == set(now):
            return
        if run.in_part and was <= set(now):
            run.in_part = False
        else:
            run.resized = True
            now = sorted(was.union(now))
            nodes = ",".join(now)
        run.nodes = nodes
        self.add_run(run)
        self.changed.add(run.key)

    def running_jobs(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield (job, its user, its nodes) of all runs that were in the last list."""
        for key, run in self.runs.items():
            if run.ended is None and run.gone is None:
                yield run.shown_as, str(run.facts.get("user") or ""), self._nodes_of_run[key]

    def add_run(self, run: JobRun) -> None:
        """Add a stored run, or one whose nodes have changed."""
        self.runs[run.key] = run
        self._starts.setdefault(run.job, set()).add(run.started)
        names = self._nodes_of_run[run.key] = tuple(expand_nodes(run.nodes))
        for name in names:
            self._runs_on.setdefault(name, set()).add(run.key)

    def mark_covered(self, since: float, until: float) -> None:
        """Note that every run of this time is known."""
        if since > until:
            return
        spans = [[since, until]]
        for span in self.covered:
            if span[1] < spans[0][0] or spans[0][1] < span[0]:
                spans.append(span)
            else:
                spans[0] = [min(spans[0][0], span[0]), max(spans[0][1], span[1])]
        self.covered = sorted(spans)

    def gaps(self, since: float, until: float) -> list[tuple[float, float]]:
        """Return [(since, until)] of the parts of this time that are not covered."""
        gaps = []
        for begin, end in self.covered:
            if since < begin:
                gaps.append((since, min(begin, until)))
            since = max(since, end)
            if since >= until:
                break
        if since < until:
            gaps.append((since, until))
        return [(begin, end) for begin, end in gaps if begin < end]

    # -- queries -----------------------------------------------------------------------------------

    def get_nodes(self, run: JobRun) -> tuple[str, ...]:
        """The names of a run's nodes."""
        return self._nodes_of_run[run.key]

    def list_runs(self, job: str) -> list[JobRun]:
        """The runs of a job that are not dropped, earliest first."""
        return [self.runs[job, started] for started in sorted(self._starts.get(job, ()))]

    def check_alone(self, run: JobRun) -> Alone:
        """Whether an ended run had its nodes alone."""
        if not self._nodes_of_run[run.key]:
            return Alone("", "its nodes are unknown")
        if run.resized:
            return Alone("", "its nodes changed while it ran")
        if run.in_part:
            return Alone("", "it was first listed after it had left some of its nodes")
        if run.ended is None:
            return Alone("", "the time of its end is unknown", True)
        shared = self._find_shared_nodes(run)
        if shared:
            return Alone("", f"it shared {_describe_shared(shared)}")
        if run.exclusive:
            return Alone(EXCLUSIVE, "")
        gaps = self.gaps(run.started, run.ended)
        if gaps:
            since, until = gaps[0]
            return Alone("", f"the other jobs on its nodes are unknown: the batch system listed "
                             f"no jobs from {_format_time(since)} to {_format_time(until)}",
                         True)
        return Alone(LISTED, "")

    def _find_shared_nodes(self, run: JobRun) -> dict[str, list[str]]:
        """Return {other job: [node]} of the jobs that ran on a run's nodes during it."""
        shared: dict[str, list[str]] = {}
        for node in self._nodes_of_run[run.key]:
            names = {neighbour.shown_as for neighbour in self._iterate_other_runs(run, node)
                     if self._overlaps(run, neighbour.started, neighbour.over)}
            names.update(name for name, since, until in run.others.get(node, ())
                         if self._overlaps(run, since, until))
            for name in names:
                shared.setdefault(name, []).append(node)
        return shared

    def _iterate_other_runs(self, run: JobRun, node: str) -> Iterator[JobRun]:
        return (self.runs[key] for key in self._runs_on[node] if key[0] != run.job)

    def _overlaps(self, run: JobRun, since: float, until: float) -> bool:
        # The order of two times within one step is unknown.  A step of a second is ignored: the
        # next job on a node begins in the second in which the one before it ended.
        spare = self.step_s - 1
        return since < run.over + spare and run.started < until + spare

    def list_nodes_used_before(self, run: JobRun) -> list[str]:
        """List the run's nodes on which another run ended in the minute before its start."""
        since = run.started - WRITES_BACK_S
        return [node for node in self._nodes_of_run[run.key] if any(
            since < ended <= run.started for ended in (
                *(neighbour.over for neighbour in self._iterate_other_runs(run, node)),
                *(until for _, _, until in run.before.get(node, ()))))]

    def list_nodes_free_after(self, run: JobRun) -> list[str]:
        """List the run's nodes on which no other run began within a minute of its end."""
        end = run.over
        return [node for node in self._nodes_of_run[run.key] if not any(
            end <= neighbour.started + self.step_s and neighbour.started < end + WRITES_BACK_S
            for neighbour in self._iterate_other_runs(run, node))]

    # -- dropping old runs -------------------------------------------------------------------------

    def drop_old(self, at: float) -> list[JobRun]:
        """Drop the decided runs that no list shows any more, and return them."""
        old = [run for run in self.runs.values() if run.decided
               and run.over < at - self.dropped_after_s]
        for run in old:
            self._drop(run)
        return old

    def _drop(self, run: JobRun) -> None:
        """Drop an ended run; runs on its nodes store its name and times."""
        key = run.key
        name, since, until = run.shown_as, run.started, run.over
        for node in self._nodes_of_run.pop(key):
            for neighbour in self._iterate_other_runs(run, node):
                if self._overlaps(neighbour, since, until):
                    self._note_span(neighbour, neighbour.others, node, [name, since, until])
                elif neighbour.started - WRITES_BACK_S < until <= neighbour.started:
                    self._note_span(neighbour, neighbour.before, node, [name, since, until])
            left = self._runs_on[node]
            left.discard(key)
            if not left:
                del self._runs_on[node]
        del self.runs[key]
        starts = self._starts[run.job]
        starts.discard(run.started)
        if not starts:
            del self._starts[run.job]
        self.changed.discard(key)

    def _note_span(self, run: JobRun, spans_by_node: dict[str, list[Any]], node: str,
                   other_span: list[Any]) -> None:
        if sum(map(len, spans_by_node.values())) < _MAX_OTHER_RUNS:
            spans_by_node.setdefault(node, []).append(other_span)
            self.changed.add(run.key)


def _as_dict(facts: Facts) -> dict[str, Any]:
    return {**facts._asdict(), "comments": {}, "steps": []}


def expand_nodes(nodes: str) -> list[str]:
    """The names in a batch system's node list; [] if it is not valid."""
    try:
        names = expand_node_list(nodes)
    except ValueError:
        return []
    return list(dict.fromkeys(names)) if all(map(is_node_name, names)) else []


def _describe_shared(shared: dict[str, list[str]]) -> str:
    """
    Format "node7 with another job" or "node[7-9] with 2 other jobs".

    Without their ids: the record is for its user, who may not see others' jobs.
    """
    from iostats.report.node_sets import fold_nodes
    nodes = fold_nodes(sorted({node for node_names in shared.values() for node in node_names}))
    return f"{nodes} with {'another job' if len(shared) == 1 else f'{len(shared)} other jobs'}"


def _format_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f}"
