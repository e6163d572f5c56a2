"""
One job on one node: its start, its marks, and what lies between them as a report.

A start is kept on disk, and so is the report that `end` makes of it, until a server has it: a
crash at any point leaves either the one or the other.
"""

from __future__ import annotations

import os

from iostats.base.errors import IostatsError, NoStart, StateError, UsageError
from iostats.base.job_id import is_node_name
from iostats.node import identity as this_node
from iostats.node import sources, start_files
from iostats.totals import snapshot as snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType
    from typing import Any, Optional

    from iostats.base.config import Config
    from iostats.totals.delta import Delta
    from iostats.totals.snapshot import Snapshot

    # ({path: report}, failed, damaged), see Work.end
    Ended = tuple[dict[str, dict[str, Any]], Optional[IostatsError], Optional[IostatsError]]

_MOST_MARKS = 99


def why_without(failed: IostatsError) -> str:
    """Why a node that could not make a report has no numbers, for the coverage line."""
    # "no start" is also what a second epilog, or a `stop` too many, says: see job_totals.py.
    return "no start" if isinstance(failed, NoStart) else "the start snapshot is damaged"


class Work:
    """
    What one job does on this node.

    Attributes:
        kept: its StartFiles.
    """

    def __init__(self, config: Config, root: str, node: str, job: str,
                 say: Callable[[str], None] = lambda text: None, directory: str | None = None,
                 known_as: str | None = None) -> None:
        """
        `directory`: [node] hook_dir, where its files are instead of in state_dir; `known_as`: the
        job in reports, where that is not its name here.
        """
        self.config, self.root, self.node, self.job, self.say = config, root, node, job, say
        where, how = ((config["node.state_dir"], start_files.BY_OPTION) if directory is None else
                      (directory, start_files.BY_HOOK_DIR))
        self.kept = start_files.open_start_files(where, job, node, config["node.public_dir"],
                                                 how=how)
        self._known_as = job if known_as is None else known_as

    def snapshot(self, seq: str, read: dict[str, ModuleType], mark: str = "",
                 say: Callable[[str], None] | None = None) -> Snapshot:
        """The Snapshot of now; `read`: {name: module} of the sources that are read."""
        return this_node.snapshot(self.root, self.config, read, self.job, self.node, seq, mark,
                                  say or self.say)

    # -- before the work, and during it ------------------------------------------------------

    def start(self, again: bool = False) -> Snapshot | None:
        """Keep the counters as they are; the Snapshot, or None where an earlier start stands."""
        now = self.snapshot(os.urandom(8).hex(), sources.read_at("start"))
        if again:
            self.kept.forget_start()
        if not self.kept.keep_start(snapshots.encode(now), replace=again):
            earlier = self._earlier_start()
            if earlier is not None and earlier.boot_id == now.boot_id:
                self.say(f"job {self.job} was started on {self.node} already, "
                         f"{max(0, now.wall_ns - earlier.wall_ns) / 1e9:.0f} s ago; that start is "
                         f"kept (--again forgets it)")
                return None
            self.say(f"an earlier start of job {self.job} on {self.node} is "
                     f"{'damaged' if earlier is None else 'from another boot'}; begun again")
            self.kept.forget_start()
            self.kept.keep_start(snapshots.encode(now), replace=True)
        return now

    def start_public(self) -> Snapshot:
        """As root, keep the counters where the job's user finds them; the Snapshot."""
        now = self.snapshot(os.urandom(8).hex(), sources.read_at("start"))
        self.kept.leave()
        self.kept.keep_public_start(snapshots.encode(now))
        return now

    def mark(self, name: str) -> Snapshot:
        """A part of the work begins; the Snapshot."""
        start = self.begun("the first mark")
        if len(self.kept.marks()) >= _MOST_MARKS:
            raise UsageError(f"mark: expected up to {_MOST_MARKS} marks in a job, got one more; "
                             f"mark larger parts")
        now = self.snapshot(start.seq, sources.read_at("mark"), name)
        self.kept.keep_mark(snapshots.encode(now))
        return now

    def watch(self, every_s: float) -> None:
        """Read the counters every `every_s` seconds until the job's end; see rates.py."""
        from iostats.node import rates
        start, read = self.begun("`watch`"), sources.read_at("watch")
        rates.run(self.kept, start.seq,
                  lambda: self.snapshot(start.seq, read, say=lambda text: None), read, every_s,
                  look=self.looks(start, keep=True))

    def looks(self, start: Snapshot | None = None, keep: bool = False) -> Callable[[], float]:
        """
        A function that looks how the node stands with its targets, for `stop`, and returns in how
        many seconds to look again.  `start`: the one kept, where it is None.
        """
        from iostats.node import node_events
        found = node_events.since(self.kept, start or self.begun("a look"), self.root, self.config)
        return lambda: found.look(this_node.boot_id(), keep)

    def begun(self, what: str) -> Snapshot:
        """The start's Snapshot, without which `what` makes no sense; NoStart, StateError."""
        begun = self.kept.load_start()
        if begun is None:
            self.kept.leave()
            raise self._no_start(what)
        return snapshots.decode(begun, self.kept.loaded_from)

    def _no_start(self, what: str) -> NoStart:
        return NoStart(f"{self.node}: job {self.job} was not started here: no snapshot in "
                       f"{self.kept.directory}; run `iostats_client.py start` before {what}")

    def _earlier_start(self) -> Snapshot | None:
        try:
            return snapshots.decode(self.kept.load_start() or b"", self.kept.start_path)
        except IostatsError:
            return None

    # -- after the work ------------------------------------------------------------------------

    def end(self, about: dict[str, Any] | None = None, cut: str = "",
            also_here: dict[str, Any] | None = None,
            beside: Callable[[Snapshot, Snapshot], dict[str, Any]] | None = None) -> Ended:
        """
        ({path: report}, failed, damaged): this job's reports that wait for delivery, the one of
        the work that ends now among them; the IostatsError that says why it is not, or None; and
        one that says which other one can't be sent, or None.

        `path` is where a report is kept; `about`: what the batch system tells of the job, for the
        report; `cut`: why the work may have gone on after this, "" where it is over; `also_here`:
        the other jobs that were seen on the node, as members of the report: other_jobs, others;
        `beside`: called with the start and the end, gives more of them.
        """
        from iostats.base import strict_json
        waiting = self.kept.deltas()
        failed: IostatsError | None = None
        damaged: IostatsError | None = None
        try:
            begun = self.kept.load_start()
            if begun is not None:
                data, path = self._kept_report(begun, waiting, about, cut, also_here, beside)
                waiting.setdefault(path, data)
                if os.path.exists(path):
                    self.kept.forget_start()
            elif not waiting:
                failed = self._no_start("the work")
        except IostatsError as error:
            failed = error
        reports = {}
        for path, data in waiting.items():
            try:
                reports[path] = strict_json.loads(data)
                if not is_of_its_form(reports[path]):
                    del reports[path]
                    raise ValueError
            except (ValueError, RecursionError):
                damaged = StateError(f"{path}: the report is cut off or damaged, and cannot be "
                                     f"sent; remove the file")
        return reports, failed, damaged

    def kept_at(self, path: str) -> str:
        """Where the report of `path` really is: with a full disk its start still stands."""
        return path if os.path.exists(path) else self.kept.loaded_from

    def delivered(self) -> None:
        """All reports have been delivered: nothing of this job stays here."""
        self.kept.forget_start()                        # still there if the disk was full
        self.kept.forget_public_start()
        self.kept.forget_pieces()
        self.kept.leave()

    def without_numbers(self, why: str, about: dict[str, Any] | None = None) -> dict[str, Any]:
        """A report of a node without numbers."""
        import time

        from iostats.wire import protocol
        return {
            "protocol": protocol.PROTOCOL, "job": self._known_as, "node": self.node,
            "seq": os.urandom(8).hex(), "boot_id": this_node.boot_id(), "user": _user(about),
            "reason": why, "ended": time.time(), "elapsed_s": 0.0, "clock_ahead_s": 0.0,
            "mounts": {}, "deltas": [], **_about(about)}

    def _kept_report(self, begun: bytes, waiting: dict[str, bytes], about: dict[str, Any] | None,
                     cut: str, also_here: dict[str, Any] | None,
                     beside: Callable[[Snapshot, Snapshot], dict[str, Any]] | None
                     ) -> tuple[bytes, str]:
        """(the report as it is sent, where it is kept) of the start snapshot `begun`."""
        import json
        start = snapshots.decode(begun, self.kept.loaded_from)
        path = self.kept.delta_path(start.seq)
        if path in waiting:                             # ended before, between two steps
            return waiting[path], path
        end = self.snapshot(start.seq, sources.read_at("stop"))
        marks = []
        for at in self.kept.marks():
            try:
                marks.append(snapshots.decode(self.kept.load(at) or b"", at))
            except StateError:                          # the start and the end still stand
                self.say(f"{at}: the mark is cut off or damaged; its part is in the one before")
        marks = [mark for mark in marks if mark.seq == start.seq]
        found = report([one._replace(job=self._known_as) for one in (start, *marks, end)],
                       sources.known(), self.root, self.config, about, cut)
        found.update(self._events(start, end, found["deltas"]))
        if also_here is not None:
            seen = found["other_jobs"] or 0
            found.update(also_here, other_jobs=max(also_here["other_jobs"], seen))
            if "others" in also_here:
                found["in_cgroups"] = seen
        if beside is not None:
            found.update(beside(start, end))
        watched = self.kept.load(self.kept.watch_path)
        if watched:
            from iostats.node import rates
            found["series"] = rates.with_tail(watched, found)
        data = json.dumps(found, separators=(",", ":")).encode()
        try:
            self.kept.keep_delta(start.seq, data)
        except IostatsError as error:
            # The disk is full: the start snapshot still stands, and the report may yet arrive.
            self.say(str(error))
        return data, path


    def _events(self, start: Snapshot, end: Snapshot, deltas: list[dict[str, Any]]
                ) -> dict[str, Any]:
        """
        What went wrong in between, as members of the report; {} where that fails.

        `deltas`: of the report, whose evictions are set to those that were found.
        """
        from iostats.node import node_events
        try:
            found = node_events.since(self.kept, start, self.root, self.config)
            found.say = self.say
            found.take(list(end.files), end.boot_id, end.wall_ns / 1e9)
            members = found.of_report()
            if "events" in members:
                _count_evictions(deltas, found.evictions())
            return members
        except Exception as error:                      # the numbers are worth more
            self.say(f"what went wrong meanwhile is not known: {error!r}")
            return {}


def _count_evictions(deltas: list[dict[str, Any]], evictions: dict[str, int]) -> None:
    """
    Set how often a file system's targets evicted the node, as events tell; a look at the end has
    an activated target's (totals/bounds.py), and has not what the kernel has forgotten.
    """
    left = dict(evictions)
    for one in deltas:
        if one["source"] == "llite" and one["values"] is not None:
            one["values"].pop("evictions", None)
            count = left.pop(one["file_system"], 0)
            if count:
                one["values"]["evictions"] = count


def is_of_its_form(found: object) -> bool:
    """Whether what was read from a file can be sent as a report; the server looks at the rest."""
    return (isinstance(found, dict) and isinstance(found.get("job"), str)
            and isinstance(found.get("node"), str) and is_node_name(found["node"])
            and found["job"].isprintable())


def report(snapshots: Sequence[Snapshot], known: dict[str, ModuleType], root: str, config: Config,
           about: dict[str, Any] | None = None, cut: str = "") -> dict[str, Any]:
    """
    The params of the method `report`, docs/wire.md, for what lies between the snapshots: the
    start, the marks, and the end.
    """
    from iostats.lustre import paths
    from iostats.totals import delta
    from iostats.wire import protocol
    start, end = snapshots[0], snapshots[-1]
    pairs = list(zip(snapshots, snapshots[1:]))
    by_mark = {name: module for name, module in known.items() if "mark" in module.READ_AT}
    parts = [delta.between(before, after, by_mark if snapshots[2:] else known)
             for before, after in pairs]
    whole = parts[0]
    if parts[1:]:
        others = {name: known[name] for name in known.keys() - by_mark.keys()}
        whole = sorted(delta.over(snapshots, by_mark) + delta.between(start, end, others),
                       key=lambda one: one[:4])
    whole = _targets_added_up(whole, known, delta.merged)
    if cut:
        whole = [one._replace(lower_bound=True, why="; ".join(filter(None, (one.why, cut))))
                 for one in whole]
    return {
        "protocol": protocol.PROTOCOL, "job": end.job, "node": end.node, "seq": start.seq,
        "boot_id": end.boot_id, "user": _user(about), "reason": "", "ended": end.wall_ns / 1e9,
        "elapsed_s": seconds_between(start, end), "clock_ahead_s": 0.0,
        "uptime_s": end.boot_ns / 1e9,
        "mounts": paths.mount_points(root),
        "deltas": as_sent(whole),
        "dirty_bytes": next((module.dirty_bytes(end.files) for module in known.values()
                             if hasattr(module, "dirty_bytes")), {}),
        "other_jobs": this_node.other_jobs(end.job, start, end),
        "phases": [{"name": before.mark or f"(before {after.mark})",
                    "elapsed_s": seconds_between(before, after),
                    "deltas": as_sent(one for one in part
                                       if getattr(known[one.source], "IN_PARTS", False))}
                   for (before, after), part in zip(pairs, parts)] if parts[1:] else [],
        **_about(about),
    }


def _about(about: dict[str, Any] | None) -> dict[str, Any]:
    return {"about": about} if about else {}


def _targets_added_up(deltas: Iterable[Delta], known: dict[str, ModuleType],
                      merged: Callable[[Iterable[list[Delta]]], list[Delta]]) -> list[Delta]:
    """The deltas, with one for each file system of a source of which no report shows targets."""
    return merged([one] if getattr(known[one.source], "BY_TARGET", True) else
                  [one._replace(target="", instance="")] for one in deltas)


def as_sent(deltas: Iterable[Delta]) -> list[dict[str, Any]]:
    """The deltas by name, without what is "", false, or of no use to the server."""
    return [{name: value for name, value in one._replace(why=one.why[:500])._asdict().items()
             if name == "values" or (value and name != "instance")} for one in deltas]


def seconds_between(before: Snapshot, after: Snapshot) -> float:
    """Seconds between two snapshots; by the boot clock, which is never set, where there is one."""
    ns: int = after.wall_ns - before.wall_ns
    if before.boot_id == after.boot_id and before.boot_ns and after.boot_ns:
        ns = after.boot_ns - before.boot_ns
    return max(0, ns) / 1e9


def _user(about: dict[str, Any] | None) -> str:
    """Whose job it is."""
    name: str | None
    for name in ((about or {}).get("user", ""), *map(os.environ.get, (
            "SLURM_JOB_USER", "USER", "LOGNAME"))):
        if name and name.isprintable():
            return name[:64]
    # No look-up of other users' names: a directory service that hangs would keep the job waiting.
    return "root" if os.geteuid() == 0 else str(os.geteuid())
