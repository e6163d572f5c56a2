"""
InfluxDB's line protocol, made of sweeps and events.

    measurement    tags                                        fields
    lustre         job fs server                               read_bytes write_bytes iops
    lustre_job     cluster job user account fs [target]        read_bytes write_bytes read_rpcs
                                                               write_rpcs operations requests
                                                               lower_bound, and each operation:
                                                               open close ...
    lustre_client  fs node                                     read_bytes write_bytes read_rpcs
                                                               write_rpcs ost_operations
                                                               mdt_operations lower_bound
    lustre_capacity fs target node     bytes_total bytes_free bytes_available inodes_total
                                                               inodes_free
    lustre_target  fs target node      metrics of the target: lustre/server_metrics.py
    lustre_service node service        those of a service of a storage server
    job_io         cluster job user account fs kind            read_bytes write_bytes lower_bound
                                                               upper_bound,
                                                               requests of NFS and CephFS,
                                                               of NFS retransmissions timeouts
    lustre_lnet    node                sent received routed dropped, their _bytes, waiting; resent,
                                       response_timeouts, lowest_health where known
    lustre_lnet_credits node lnet      waiting lowest; where known peers waiting_peers peer_waiting
                                       peer_lowest
    lustre_event   kind severity cause fs target node          count skipped duration_ms;
                                                               texts: id message clients

Fields are integers but for those texts.  `lustre` is jobHarvest's: `server` is oss or mds, the
amounts are the job's totals so far, iops is the number of all operations but reads and writes; an
active job has a point, but not for a sweep of more than an hour ago.  `lustre_job` and
`lustre_client` have totals too (of a job; of a node since the server's start), which only grow, so
the database makes the rates: an active job or node has a point, and one at the time of the sweep
before if it had none there, so that an increase begins at the right time.

A point of job_io is of a finished job on another file system than Lustre, or on local disks, at its
end.

An event's point has the time of its beginning.  An event that grows is written again with its first
tags and time, so it replaces its point.

Source: line protocol of InfluxDB 2; influxWrite() of jobHarvest for its schema.
"""

from __future__ import annotations

import collections
from collections import OrderedDict
from typing import TYPE_CHECKING

from iostats.events.kinds import SEVERITIES
from iostats.events.status import NO_METRICS
from iostats.lustre.metrics import is_operation, is_transfer
from iostats.lustre.stats import parse_file_system
from iostats.sinks.gains import AT_ONCE, BYTES, NO_JOB, Tally, make_job_labels
from iostats.sinks.nodes import NodeCounters
from iostats.sinks.records import list_points
from iostats.wire.messages.arrays import list_integers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from typing import Any

    from iostats.events.event import Event
    from iostats.events.status import ServerStatus
    from iostats.harvest.intake import Harvest, SiteSweep
    from iostats.sinks.gains import IdTable, JobLabels, Key
    from iostats.sinks.nodes import NodeClients
    from iostats.totals.record import Record

    Row = tuple[Mapping[str, tuple[Any, Any]], int]      # counter -> samples, sums; the row
    Totals = dict[str, tuple[list[int], list[int]]]

TOO_OLD_S = 3600                    # jobHarvest's rule
_MOST = 2**63 - 1                   # of a field: with a larger one the database rejects the point
SERVER_OF = {"ost": "oss", "mdt": "mds"}


def tag(text: str) -> str:
    r"""
    Return `text` as the value of a tag.

    A backslash and what is not printed stand as in job_stats, \x5c: databases differ in what they
    make of a backslash before a comma or at the end, and \x is the same for all.

    >>> tag("a b,c=d"), tag("a\\b"), tag("a\nb")
    ('a\\ b\\,c\\=d', 'a\\x5cb', 'a\\x0ab')
    """
    if text.isalnum() and text.isascii():
        return text
    return "".join(_escape(c) for c in text)


def _escape(c: str) -> str:
    if c in " ,=":
        return "\\" + c
    if c == "\\" or not c.isprintable():
        number = ord(c)
        return ("\\x%02x" if number < 1 << 8 else "\\u%04x" if number < 1 << 16 else "\\U%08x"
                ) % number
    return c


def format_tags(**tags: str) -> str:
    return "".join(f",{name}={tag(text)}" for name, text in tags.items() if text)


def format_point(head: str, fields: Iterable[tuple[str, int]], moment_ms: int,
                 too_large: list[str]) -> str:
    """
    A point as a line; `head` is the measurement with its tags.

    A field that no database takes is left out and added to `too_large`; "" where no other is left.
    """
    shown = []
    for name, amount in fields:
        if amount <= _MOST:
            shown.append(f"{name}={amount}i")
        else:
            too_large.append(f"{name} of {head}")
    return f"{head} {','.join(shown)} {moment_ms}" if shown else ""


def sum_fields(rows: Iterable[Row]) -> dict[str, int]:
    """
    Return {field: amount} of the rows [({counter: (samples, sums)}, row)] added up; zeros have
    none.
    """
    fields: dict[str, int] = {}
    for columns, row in rows:
        for counter, (samples, sums) in columns.items():
            count = int(samples[row])
            if not count:
                continue
            if counter in BYTES:
                _add(fields, counter, int(sums[row]))
                _add(fields, counter.replace("bytes", "rpcs"), count)
                _add(fields, "requests", count)
            elif not is_transfer(counter):
                _add(fields, tag(counter), count)
                if is_operation(counter):
                    _add(fields, "operations", count)
                    _add(fields, "requests", count)
    return fields


def count_iops(rows: Iterable[Row]) -> int:
    """jobHarvest's iops: all operations but reads and writes; a rename is one."""
    return sum(int(samples[row]) for columns, row in rows
               for counter, (samples, _) in columns.items() if is_operation(counter))


def _add(fields: dict[str, int], name: str, amount: int) -> None:
    if amount:
        fields[name] = fields.get(name, 0) + amount


class PointGroup:
    """Points of one sweep whose tags differ only in the job: of a file system, or a target."""

    def __init__(self, fs: str, target: str, server: str) -> None:
        self.fs, self.target, self.server = fs, target, server
        # (JobLabels, [(now, row)], [(before, row)], low, goes_on)
        self.entries: list[tuple[JobLabels, list[Row], list[Row], bool, bool]] = []


class SweepPoints:
    """
    The points of one sweep; `lines` makes the text, in a thread.

    Attributes:
        too_large: fields that were left out, in words.
    """

    def __init__(self, slot: float, slot_before: float | None, groups: list[PointGroup]) -> None:
        self.slot, self.slot_before, self.groups = slot, slot_before, groups
        self.too_large: list[str] = []

    def lines(self) -> Iterator[str]:
        """The sweep's points, one line each."""
        return filter(None, self._lines())

    def _lines(self) -> Iterator[str]:
        now_ms, before_ms = round(self.slot * 1000), round((self.slot_before or 0) * 1000)
        for group in self.groups:
            for job, now, before, low, goes_on in group.entries:
                fields = sum_fields(now)
                if group.server:
                    head = "lustre" + format_tags(job=job.job, fs=group.fs, server=group.server)
                    yield format_point(head, (*((name, fields.get(name, 0)) for name in BYTES),
                                              ("iops", count_iops(now))), now_ms, self.too_large)
                    continue
                head = "lustre_job" + format_tags(cluster=job.cluster, job=job.job, user=job.user,
                                            account=job.account, fs=group.fs, target=group.target)
                if self.slot_before is not None:
                    then = sum_fields(before)
                    begin = [(name, then.get(name, 0)) for name in sorted(fields)
                             if not goes_on or name not in then]
                    if begin:
                        yield format_point(head, begin, before_ms, self.too_large)
                yield format_point(head, [*sorted(fields.items()), ("lower_bound", int(low))],
                                   now_ms,
                                   self.too_large)


class Lines:
    """
    Makes points of active jobs from sweeps; `clock` gives seconds since 1970.

    Attributes:
        too_old: points of jobHarvest's schema that were not made, since the sweep was too long ago.
    """

    def __init__(self, schema: str, by_target: bool,
                 clock: Callable[[], float]) -> None:
        self._full, self._harvest = schema in ("full", "both"), schema in ("jobharvest", "both")
        self._by_target, self._clock = by_target, clock
        self._tally = Tally(by_target)
        self._job: dict[str, JobLabels] = {}
        self._ids: dict[JobLabels | None, set[str]] = collections.defaultdict(set)
        # (group, JobLabels) -> the slot of its last point
        self._written: dict[tuple[Any, ...], float | None] = {}
        self._no_job: dict[Key, Totals] = {}           # since we began
        self.too_old = 0
        self.ready: SweepPoints | None = None

    def walk(self, sweep: SiteSweep, harvest: Harvest) -> Iterator[None]:
        """Generator: read a sweep step by step; then `ready` is its SweepPoints."""
        self.ready = None
        yield from self._tally.walk(sweep, harvest)
        tally, changed, no_job_before = self._tally, {}, dict(self._no_job)
        for key, table in tally.tables.items():
            changed[key] = yield from self._select_changed(key, table, harvest)
            yield
        full = collections.defaultdict(list)
        harvested = collections.defaultdict(list)
        for table in tally.tables.values():
            full[table.fs, table.target].append(table)
            harvested[table.fs, SERVER_OF.get(table.component, table.component)].append(table)
        groups = []
        if self._full:
            for (fs, target), tables in full.items():
                group = PointGroup(fs, target, "")
                yield from self._fill(group, tables, changed, no_job_before)
                groups.append(group)
        if self._harvest:
            for (fs, server), tables in harvested.items():
                group = PointGroup(fs, "", server)
                yield from self._fill(group, tables, changed, None)
                if self._clock() - sweep.slot > TOO_OLD_S:
                    self.too_old += len(group.entries)
                else:
                    groups.append(group)
        self._drop_dead()
        self.ready = SweepPoints(sweep.slot, tally.slot_before, groups)

    def drop_ids(self, ids: Iterable[str]) -> None:
        """Restart these ids at 0, as the targets do."""
        self._tally.drop_ids(ids)

    def _select_changed(self, key: Key, table: IdTable,
                        harvest: Harvest) -> Generator[None, None, dict[JobLabels, None]]:
        """Generator: the {JobLabels} of jobs with I/O in `table`; I/O outside of jobs is added up.
        """
        moved, no_job = None, {}
        for counter, (samples, sums) in table.gains().items():
            is_active = samples > 0
            moved = is_active if moved is None else moved | is_active
            if counter in BYTES or not is_transfer(counter):
                no_job[counter] = (int(samples[~table.is_job].sum()),
                                   int(sums[~table.is_job].sum()))
        self._count_no_job(key, no_job)
        jobs: dict[JobLabels, None] = {}
        if moved is not None:
            for number, row in enumerate(list_integers((moved & table.is_job).nonzero()[0])):
                if number % AT_ONCE == 0:
                    yield
                job_id = table.ids[row]
                job = make_job_labels(job_id, harvest)
                old = self._job.get(job_id)
                if old != job:
                    self._ids[old].discard(job_id)
                    self._job[job_id] = job
                    self._ids[job].add(job_id)
                jobs[job] = None
        return jobs

    def _count_no_job(self, key: Key, gained: dict[str, tuple[int, int]]) -> None:
        # Ids that are no jobs come and go; from our own beginning on the sum only grows.
        first = self._tally.slot_before is None
        old = self._no_job.get(key, {})
        new = dict(old)
        for counter, (samples, sums) in gained.items():
            before = old.get(counter, ([0], [0]))
            new[counter] = before if first else ([before[0][0] + samples], [before[1][0] + sums])
        self._no_job[key] = new

    def _fill(self, group: PointGroup, tables: list[IdTable],
              changed: dict[Key, dict[JobLabels, None]],
              no_job_before: dict[Key, Totals] | None) -> Iterator[None]:
        """
        Generator: enter the points of `group`; also points without a job where `no_job_before` is
        known.
        """
        keys = [(table.fs, table.component, table.target) for table in tables]
        jobs = dict.fromkeys(job for key in keys for job in changed[key])
        for number, job in enumerate(jobs):
            if number % AT_ONCE == 0:
                yield
            now: list[Row] = []
            before: list[Row] = []
            low = False
            for table in tables:
                for job_id in self._ids[job]:
                    row = table.index.get(job_id)
                    if row is not None:
                        now.append((table.now, row))
                        before.append((table.before, row))
                        low = low or table.low.item(row)
            self._enter(group, job, now, before, low)
        if no_job_before is not None:
            now = [(self._no_job[key], 0) for key in keys]
            before = [(no_job_before.get(key, {}), 0) for key in keys]
            if sum_fields(now) != sum_fields(before):
                self._enter(group, NO_JOB, now, before, False)

    def _enter(self, group: PointGroup, job: JobLabels, now: list[Row], before: list[Row],
               low: bool) -> None:
        key, slot = (group.fs, group.target, group.server, job), self._tally.slot
        goes_on = self._written.get(key) == self._tally.slot_before
        self._written[key] = slot
        group.entries.append((job, now, before, low, goes_on))

    def _drop_dead(self) -> None:
        if len(self._job) > 1000 + 2 * len(self._tally.first):
            self._job = {job_id: job for job_id, job in self._job.items()
                         if job_id in self._tally.first}
            self._ids = collections.defaultdict(set)
            for job_id, job in self._job.items():
                self._ids[job].add(job_id)
            self._written = {key: slot for key, slot in self._written.items()
                             if key[-1] in self._ids or key[-1] == NO_JOB}


# In the order of CLIENT_METRICS; the words are those of lustre_job.
NODE_FIELDS = ("read_bytes", "write_bytes", "read_rpcs", "write_rpcs", "ost_operations",
               "mdt_operations")


class NodeLines:
    """The points of nodes, from sweep to sweep; up to `limit` nodes have points of their own."""

    def __init__(self, limit: int) -> None:
        self._counters = NodeCounters(limit, backdated=True)
        self._slot: float | None = None
        self._written: dict[tuple[str, str], float] = {}        # the slot of its last point

    def lines(self, slot: float, every_s: float,
              clients: Mapping[str, NodeClients], too_large: list[str]) -> Iterator[str]:
        """The points of one sweep, one line each; `too_large`: as of `line`."""
        slot_before = slot - every_s if self._slot is None else self._slot
        now_ms, before_ms = round(slot * 1000), round(slot_before * 1000)
        written = {}
        for counter in self._counters.add(clients):
            if counter.totals == counter.before:
                continue
            key, head = (counter.fs, counter.node), "lustre_client" + format_tags(fs=counter.fs,
                                                                                  node=counter.node)
            if self._written.get(key) != slot_before:
                yield format_point(head, zip(NODE_FIELDS, counter.before), before_ms, too_large)
            yield format_point(head,
                               [*zip(NODE_FIELDS, counter.totals),
                                ("lower_bound", int(counter.is_low))],
                               now_ms, too_large)
            written[key] = slot
        self._slot, self._written = slot, written


_REMEMBERED = 10_000                # events that may grow
_LATEST_MS = (1 << 63) // 10**6 - 1     # a database has nanoseconds in 64 bits


class EventLines:
    """The points of events, one line each."""

    def __init__(self) -> None:
        self._points: OrderedDict[str, tuple[str, int]] = OrderedDict()     # id -> head, time

    def lines(self, events: Iterable[Event], names: Mapping[str, str]) -> list[str]:
        """Return [line]; `names`: {NID: node}."""
        return [self._format_event(event, names) for event in events]

    def _format_event(self, event: Event, names: Mapping[str, str]) -> str:
        head, moment_ms = self._points.get(event.id) or (
            "lustre_event" + format_tags(
                kind=event.kind, severity=SEVERITIES[event.severity], cause=event.cause,
                fs=event.file_system, target=event.target, node=event.node),
            min(round(event.time * 1000), _LATEST_MS))
        self._points[event.id] = head, moment_ms
        self._points.move_to_end(event.id)
        if len(self._points) > _REMEMBERED:
            self._points.popitem(last=False)
        fields = [f"count={event.count}i", f"skipped={event.skipped}i"]
        if event.over is not None:
            fields.append(f"duration_ms={max(0, round((event.over - event.time) * 1000))}i")
        texts = {"id": event.id, "message": event.message,
                 "clients": " ".join(names.get(client, client) for client in event.clients)}
        fields += [f"{name}={quote_text_field(text)}" for name, text in texts.items() if text]
        return f"{head} {','.join(fields)} {moment_ms}"


def format_finished_jobs(records: Iterable[Record]) -> list[str]:
    """The points of finished jobs' I/O on other file systems than Lustre."""
    lines = []
    for record in records:
        batch, ended = record.batch, record.job.ended
        if ended is None:
            continue
        for point in list_points(record):
            head = "job_io" + format_tags(
                cluster=batch.cluster if batch else "", job=record.job.id,
                user=record.job.user or "", account=batch.account if batch else "", fs=point.fs,
                kind=point.kind)
            fields = {**point.amounts, "lower_bound": int(point.is_low),
                      "upper_bound": int(point.is_high)}
            lines.append(format_point(head, fields.items(), round(ended * 1000), []))
    return lines


_STATUS_AGAIN_S = 600.0             # a point of what does not change


class StatusLines:
    """
    The points of statuses that are not written yet: of targets' capacities, of storage servers'
    LNet; `take` is another thread's.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, Mapping[str, int]]] = {}
        self._waiting: dict[str, str] = {}              # measurement and tags -> line

    def add(self, node: str, now: float, status: ServerStatus) -> None:
        """Make points of a status that was received at `now`, s since 1970."""
        for target, about in status.get("targets", {}).items():
            if "capacity" in about:
                self._add("lustre_capacity" + format_tags(
                    fs=parse_file_system(target), target=target, node=node), now, about["capacity"])
        metrics = status.get("metrics", NO_METRICS)
        for target, counted in metrics["targets"].items():
            self._add("lustre_target" + format_tags(
                fs=parse_file_system(target), target=target, node=node), now, counted["values"])
        for service, counted in metrics["services"].items():
            self._add("lustre_service" + format_tags(node=node, service=service), now,
                      counted["values"])
        if "lnet" in status:
            numbers = {name: value for name, value in status["lnet"].items()
                       if name not in ("down", "health", "credits", "short_peers")}
            if status["lnet"].get("health"):
                numbers["lowest_health"] = min(status["lnet"]["health"].values())
            self._add("lustre_lnet" + format_tags(node=node), now, numbers)
            for network, credits in status["lnet"].get("credits", {}).items():
                self._add("lustre_lnet_credits" + format_tags(lnet=network, node=node), now,
                          credits)

    def _add(self, head: str, now: float, values: Mapping[str, int]) -> None:
        at, values_before = self._known.get(head, (0.0, None))
        if values and (values_before != values or not 0 <= now - at < _STATUS_AGAIN_S):
            self._known[head] = now, values
            fields = ",".join(f"{name}={value}i" for name, value in values.items())
            self._waiting[head] = f"{head} {fields} {round(now * 1000)}"

    def lines(self) -> list[str]:
        """Return [line] of those that wait."""
        return [self._waiting.pop(head) for head in list(self._waiting)]


def quote_text_field(text: str) -> str:
    r"""
    Return `text` as the value of a field; what does not print is a "?".

    >>> quote_text_field('a "b" \\')
    '"a \\"b\\" \\\\"'
    """
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'
