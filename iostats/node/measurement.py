"""
One job on one node: its start, its marks, and the report of the time between them.

A start is stored on disk, and so is the report that `end` makes of it, until a server has it: a
crash at any point leaves either the one or the other.
"""

from __future__ import annotations

import os

from iostats.base.errors import IostatsError, MissingStart, StateError, UsageError
from iostats.base.job_id import is_node_name
from iostats.node import identity as this_node
from iostats.node import sources, start_files
from iostats.totals import snapshot as snapshots
from iostats.totals.snapshot import compute_elapsed_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Optional

    from iostats.base.config import Config
    from iostats.schedulers.job_environment import JobAbout
    from iostats.totals.delta import Delta
    from iostats.totals.received_report import SentDelta, SentReport
    from iostats.totals.snapshot import CounterSource, Snapshot

    # ({path: report}, failed, damaged), see Work.end
    Ended = tuple[dict[str, SentReport], Optional[IostatsError], Optional[IostatsError]]

_MOST_MARKS = 99


def explain_missing_numbers(failed: IostatsError) -> str:
    """Why a node that could not make a report has no numbers, for the coverage line."""
    # "no start" is also what a second epilog, or a `stop` too many, says: see job_totals.py.
    return "no start" if isinstance(failed, MissingStart) else "the start snapshot is damaged"


class Work:
    """The measurement of one job on this node.

    Attributes:
        kept: its StartFiles.
    """

    def __init__(self, config: Config, root: str, node: str, job: str,
                 emit: Callable[[str], None] = lambda text: None, directory: str | None = None,
                 known_as: str | None = None) -> None:
        """
        `directory`: [node] hook_dir, the place of its files instead of state_dir; `known_as`: the
        job's id in reports, if it differs here.
        """
        self.config, self.root, self.node, self.job, self.emit = config, root, node, job, emit
        where, how = ((config.node.state_dir, start_files.BY_STATE_DIR) if directory is None else
                      (directory, start_files.BY_HOOK_DIR))
        self.kept = start_files.open_start_files(where, job, node, config.node.public_dir,
                                                 how=how)
        self._known_as = job if known_as is None else known_as

    def snapshot(self, seq: str, read: dict[str, CounterSource], mark: str = "",
                 emit: Callable[[str], None] | None = None, whole: bool = False) -> Snapshot:
        """Take a Snapshot; `read`: {name: module} of the sources that are read."""
        return this_node.take_snapshot(self.root, self.config, read, self.job, self.node, seq, mark,
                                       emit or self.emit, whole=whole)

    # -- before the work, and during it ------------------------------------------------------

    def start(self, again: bool = False) -> Snapshot | None:
        """Store the present counters; the Snapshot, or None where an earlier start exists."""
        now = self.snapshot(os.urandom(8).hex(), sources.read_at("start"), whole=True)
        if again:
            self.kept.delete_start()
        if not self.kept.store_start(snapshots.encode(now), replace=again):
            earlier = self._load_earlier_start()
            if earlier is not None and earlier.boot_id == now.boot_id:
                self.emit(f"job {self.job} was started on {self.node} already, "
                          f"{max(0, now.wall_ns - earlier.wall_ns) / 1e9:.0f} s ago; that start "
                          f"stays valid (--again replaces it)")
                return None
            self.emit(f"an earlier start of job {self.job} on {self.node} is "
                      f"{'damaged' if earlier is None else 'from another boot'}; begun again")
            self.kept.delete_start()
            self.kept.store_start(snapshots.encode(now), replace=True)
        return now

    def start_public(self) -> Snapshot:
        """Store the counters, as root, where the job's user can read them; return the Snapshot."""
        now = self.snapshot(os.urandom(8).hex(), sources.read_at("start"), whole=True)
        self.kept.leave()
        self.kept.store_public_start(snapshots.encode(now))
        return now

    def mark(self, name: str) -> Snapshot:
        """Take a snapshot at the beginning of a part of the work, and return it."""
        start = self.load_start("the first mark")
        if len(self.kept.marks()) >= _MOST_MARKS:
            raise UsageError(f"mark: expected up to {_MOST_MARKS} marks in a job, got one more; "
                             f"mark larger parts")
        now = self.snapshot(start.seq, sources.read_at("mark"), name)
        self.kept.store_mark(snapshots.encode(now))
        return now

    def watch(self, every_s: float) -> None:
        """Read the counters every `every_s` seconds until the job's end; see rates.py."""
        from iostats.node import rates
        start, read = self.load_start("`watch`"), sources.read_at("watch")
        rates.run(self.kept, start.seq,
                  lambda: self.snapshot(start.seq, read, emit=lambda text: None), read, every_s,
                  check=self.start_event_scans(start, keep=True))

    def start_event_scans(self, start: Snapshot | None = None,
                          keep: bool = False) -> Callable[[], float]:
        """
        A function that reads the node's connections to its targets, for `stop`, and returns the
        seconds until the next call.  `start`: None for the stored one.
        """
        from iostats.node import node_events
        events = node_events.collect_node_events(self.kept, start or self.load_start("a look"),
                                                 self.root,
                                                 self.config)
        return lambda: events.scan(this_node.read_boot_id(), keep)

    def load_start(self, command: str) -> Snapshot:
        """The start's Snapshot, which `command` needs; MissingStart, StateError."""
        begun = self.kept.load_start()
        if begun is None:
            self.kept.leave()
            raise self._make_missing_start(command)
        return snapshots.decode(begun, self.kept.loaded_from)

    def _make_missing_start(self, command: str) -> MissingStart:
        return MissingStart(f"{self.node}: job {self.job} was not started here: no snapshot in "
                            f"{self.kept.directory}; run `iostats_client.py start` "
                            f"before {command}")

    def _load_earlier_start(self) -> Snapshot | None:
        try:
            return snapshots.decode(self.kept.load_start() or b"", self.kept.start_path)
        except IostatsError:
            return None

    # -- after the work ------------------------------------------------------------------------

    def end(self, about: JobAbout | None = None, cut: str = "",
            also_here: SentReport | None = None,
            beside: Callable[[Snapshot, Snapshot], SentReport] | None = None) -> Ended:
        """
        Return ({path: report}, failed, damaged): this job's reports that wait for delivery, with
        that of the work that ends now; the IostatsError if that one failed, or None; the StateError
        for a damaged one, or None.

        `path` is where a report is stored; `about`: the batch facts of the job, for the
        report; `cut`: why the work may have continued after this, "" for finished work;
        `also_here`: the other jobs that were seen on the node, as members of the report:
        other_jobs, others;
        `beside`: called with the start and the end, gives more of them.
        """
        from iostats.base import strict_json
        waiting = self.kept.deltas()
        failed: IostatsError | None = None
        damaged: IostatsError | None = None
        try:
            begun = self.kept.load_start()
            if begun is not None:
                data, path = self._store_report(begun, waiting, about, cut, also_here, beside)
                waiting.setdefault(path, data)
                if os.path.exists(path):
                    self.kept.delete_start()
            elif not waiting:
                failed = self._make_missing_start("the work")
        except IostatsError as error:
            failed = error
        reports: dict[str, SentReport] = {}
        for path, data in waiting.items():
            try:
                reports[path] = strict_json.loads(data)
                if not is_valid_report(reports[path]):
                    del reports[path]
                    raise ValueError
            except (ValueError, RecursionError):
                damaged = StateError(f"{path}: the report is cut off or damaged, and cannot be "
                                     f"sent; remove the file")
        return reports, failed, damaged

    def choose_report_path(self, path: str) -> str:
        """The actual path of a report: on a full disk its start still exists."""
        return path if os.path.exists(path) else self.kept.loaded_from

    def delivered(self) -> None:
        """Note that all reports have been delivered: remove the job's files."""
        self.kept.delete_start()                        # still there if the disk was full
        self.kept.delete_public_start()
        self.kept.delete_pieces()
        self.kept.leave()

    def make_report_without_numbers(self, why: str, about: JobAbout | None = None) -> SentReport:
        """A report of a node without numbers."""
        import time

        from iostats.wire import protocol
        return {
            "protocol": protocol.PROTOCOL, "job": self._known_as, "node": self.node,
            "seq": os.urandom(8).hex(), "boot_id": this_node.read_boot_id(),
            "user": _get_user(about),
            "reason": why, "ended": time.time(), "elapsed_s": 0.0, "clock_ahead_s": 0.0,
            "mounts": {}, "deltas": [], **get_batch_facts(about)}

    def _store_report(self, begun: bytes, waiting: dict[str, bytes], about: JobAbout | None,
                      cut: str, also_here: SentReport | None,
                      beside: Callable[[Snapshot, Snapshot], SentReport] | None
                      ) -> tuple[bytes, str]:
        """Return (the report as it is sent, its path) for the start snapshot `begun`."""
        import json
        start = snapshots.decode(begun, self.kept.loaded_from)
        path = self.kept.make_delta_path(start.seq)
        if path in waiting:                             # ended before, between two steps
            return waiting[path], path
        end = self.snapshot(start.seq, sources.read_at("stop"))
        marks = []
        for at in self.kept.marks():
            try:
                marks.append(snapshots.decode(self.kept.load(at) or b"", at))
            except StateError:                          # the start and the end still stand
                self.emit(f"{at}: the mark is cut off or damaged; its part is in the one before")
        marks = [mark for mark in marks if mark.seq == start.seq]
        message = report(
            [snapshot._replace(job=self._known_as,
                               files=sources.separate(snapshot.files, self.config))
             for snapshot in (start, *marks, end)],
            sources.list_sources(), self.root, about, cut)
        message.update(self._collect_events(start, end, message["deltas"]))
        if also_here is not None:
            counted = message["other_jobs"] or 0
            message.update(also_here)
            message["other_jobs"] = max(also_here["other_jobs"] or 0, counted)
            if "others" in also_here:
                message["in_cgroups"] = counted
        if beside is not None:
            message.update(beside(start, end))
        watched = self.kept.load(self.kept.watch_path)
        if watched:
            from iostats.node import rates
            message["series"] = rates.add_remaining_gains(watched, message)
        data = json.dumps(message, separators=(",", ":")).encode()
        try:
            self.kept.store_delta(start.seq, data)
        except IostatsError as error:
            # The disk is full: the start snapshot still stands, and the report may yet arrive.
            self.emit(str(error))
        return data, path


    def _collect_events(self, start: Snapshot, end: Snapshot,
                        deltas: list[SentDelta]) -> SentReport:
        """
        Events between start and stop, as members of the report; {} if they cannot be read.

        `deltas`: of the report, whose evictions are set to those that were found.
        """
        from iostats.node import node_events
        try:
            events = node_events.collect_node_events(self.kept, start, self.root, self.config)
            events.emit = self.emit
            events.add_reading(list(end.files), end.boot_id, end.wall_ns / 1e9)
            members = events.report_members()
            if "events" in members:
                _count_evictions(deltas, events.evictions())
            return members
        except Exception as error:                      # the numbers are worth more
            self.emit(f"events during the job are unknown: {error!r}")
            return {}


def _count_evictions(deltas: list[SentDelta], evictions: dict[str, int]) -> None:
    """
    Set the evictions of the node by a file system's targets, from the events; the counters at the
    end include an activated target (totals/bounds.py), and lack evictions that the kernel no longer
    lists.
    """
    left = dict(evictions)
    for delta in deltas:
        if delta["source"] == "llite" and delta["values"] is not None:
            delta["values"].pop("evictions", None)
            count = left.pop(delta["file_system"], 0)
            if count:
                delta["values"]["evictions"] = count


def is_valid_report(message: object) -> bool:
    """True if a value from a file can be sent as a report; the server checks the rest."""
    return (isinstance(message, dict) and isinstance(message.get("job"), str)
            and isinstance(message.get("node"), str) and is_node_name(message["node"])
            and message["job"].isprintable())


def report(snapshots: Sequence[Snapshot], modules: dict[str, CounterSource], root: str,
           about: JobAbout | None = None, cut: str = "") -> SentReport:
    """
    The params of the method `report`, docs/reference/wire.md, for what lies between the snapshots:
    the start, the marks, and the end.
    """
    from iostats.lustre import paths
    from iostats.node import lnet_counts
    from iostats.totals import delta
    from iostats.wire import protocol
    start, end = snapshots[0], snapshots[-1]
    counts = lnet_counts.list_counts(start, end)
    pairs = list(zip(snapshots, snapshots[1:]))
    by_mark = {name: module for name, module in modules.items() if "mark" in module.READ_AT}
    parts = [delta.compute_deltas(before, after, by_mark if snapshots[2:] else modules)
             for before, after in pairs]
    whole = parts[0]
    if parts[1:]:
        other_sources = {name: modules[name] for name in modules.keys() - by_mark.keys()}
        whole = sorted(delta.compute_deltas_over(snapshots, by_mark)
                       + delta.compute_deltas(start, end, other_sources),
                       key=lambda key_of: key_of[:4])
    whole = [gain for gain in _add_up_targets(whole, modules, delta.merge_deltas)
             if _is_sent(gain, modules)]
    if cut:
        whole = [delta._replace(lower_bound=True, why="; ".join(filter(None, (delta.why, cut))))
                 for delta in whole]
    return {
        "protocol": protocol.PROTOCOL, "job": end.job, "node": end.node, "seq": start.seq,
        "boot_id": end.boot_id, "user": _get_user(about), "reason": "", "ended": end.wall_ns / 1e9,
        "elapsed_s": compute_elapsed_s(start, end), "clock_ahead_s": 0.0,
        "uptime_s": end.boot_ns / 1e9,
        "mounts": paths.list_mount_points(root, {gain.file_system for gain in whole}),
        "deltas": as_sent(whole),
        "dirty_bytes": next((module.sum_dirty_bytes(end.files) for module in modules.values()
                             if hasattr(module, "sum_dirty_bytes")), {}),
        "other_jobs": this_node.count_other_jobs(end.job, start, end),
        "cpus": this_node.count_online_cpus(root),
        "phases": [{"name": before.mark or f"(before {after.mark})",
                    "elapsed_s": compute_elapsed_s(before, after),
                    "deltas": as_sent(delta for delta in part if _is_sent(delta, modules)
                                       and getattr(modules[delta.source], "IN_PARTS", False))}
                   for (before, after), part in zip(pairs, parts)] if parts[1:] else [],
        **({"lnet": counts} if counts else {}), **get_batch_facts(about),
    }


def get_batch_facts(about: JobAbout | None) -> SentReport:
    return {"about": about} if about else {}


def _is_sent(delta: Delta, modules: dict[str, CounterSource]) -> bool:
    """False for an unused file of a source with possibly hundreds of files on a node."""
    return bool(delta.values or delta.lower_bound
                or not getattr(modules[delta.source], "ONLY_IF_USED", False))


def _add_up_targets(deltas: Iterable[Delta], modules: dict[str, CounterSource],
                    merged: Callable[[Iterable[list[Delta]]], list[Delta]]) -> list[Delta]:
    """The deltas, with those of a source added up over its targets if no report shows them."""
    return merged([delta] if getattr(modules[delta.source], "BY_TARGET", True) else
                  [delta._replace(target="", instance="")] for delta in deltas)


def as_sent(deltas: Iterable[Delta]) -> list[SentDelta]:
    """The deltas as dicts, without members that are "", false, or unused by the server."""
    sent: list[Any] = [
        {name: value for name, value in delta._replace(why=delta.why[:500])._asdict().items()
         if name == "values" or (value and name != "instance")} for delta in deltas]
    return sent


def _get_user(about: JobAbout | None) -> str:
    """The job's user."""
    name: str | None
    for name in ((about or {}).get("user", ""), *map(os.environ.get, (
            "SLURM_JOB_USER", "USER", "LOGNAME"))):
        if name and name.isprintable():
            return name[:64]
    # No look-up of other users' names: a directory service that hangs would keep the job waiting.
    return "root" if os.geteuid() == 0 else str(os.geteuid())
