"""
`show`: this node's counters now, for a person or as JSON, without a server and without files.

The sums are those of a job that began when the counters did, made by the same aggregation.
"""

from __future__ import annotations

from iostats.base.units import format_amount, format_bytes
from iostats.lustre import paths
from iostats.node.sources import get_title
from iostats.totals import bounds, delta
from iostats.totals.job_totals import Totals
from iostats.totals.node_report import Report
from iostats.totals.snapshot import parse_readings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.base.config import Config
    from iostats.totals.record import Record
    from iostats.totals.snapshot import CounterSource, Snapshot

def make_record(snapshot: Snapshot, sources: dict[str, CounterSource], root: str) -> Record:
    """The record of everything since the counters began, of this node alone."""
    totals, deltas = Totals(snapshot.job, 1), delta.compute_deltas(None, snapshot, sources)
    totals.add(Report(snapshot.node, snapshot.seq, snapshot.boot_id, "", "",
                      snapshot.wall_ns / 1e9, 0.0, 0.0,
                      paths.list_mount_points(root, {part.file_system for part in deltas}), deltas))
    return totals.record()


def list_unreadable(snapshot: Snapshot, sources: dict[str, CounterSource]) -> list[str]:
    """A message for each counter file, or line, with an unexpected format."""
    read, refused = parse_readings(snapshot, sources)
    return [why for _, why in sorted(refused.items()) if "/" in why] + [
        why for _, reading in sorted(read.items()) for why in reading.bad.values()]


def as_json(snapshot: Snapshot, sources: dict[str, CounterSource], root: str) -> dict[str, object]:
    """
    Return {node, file_systems (as in docs/reference/record.schema.json), files}.

    Each of `files` has its counters, and what a snapshot needs: errno, and the text as the kernel
    printed it, a character a byte (latin-1); this is what the reader answers.
    """
    read, refused = parse_readings(snapshot, sources)
    listed = []
    for file in snapshot.files:
        key = file.source, file.name
        reading = read.get(key)
        listed.append({
            "source": file.source, "name": file.name, "path": file.path,
            "errno": file.errno, "unreadable": refused.get(key), "text": file.text,
            "snapshot_ns": reading and reading.snapshot_ns,
            "start_ns": reading and reading.start_ns,
            "bad": reading and reading.bad,
            "counters": reading and {name: {field: value for field, value
                                            in counter._asdict().items() if value is not None}
                                     for name, counter in reading.counters.items()},
        })
    return {"node": snapshot.node,
            "file_systems": make_record(snapshot, sources, root).file_systems,
            "files": listed}


def as_text(snapshot: Snapshot, sources: dict[str, CounterSource], root: str, config: Config,
            by_reader: Iterable[str] = ()) -> str:
    """The tables of `show`; `by_reader`: the sources that were not read by this process."""
    units, lines = config.report.units, []
    for fs in make_record(snapshot, sources, root).file_systems:
        label = config.labels.get(fs.name, fs.name)
        on = f" on {', '.join(fs.mounts)}" if fs.mounts else ""
        lines.append(f"{label}{on}: since the counters began on {snapshot.node}")
        rows = []
        of_lustre = fs.application or fs.network or not fs.sources
        for layer, calls in (("application", "calls"), ("network", "rpcs")) if of_lustre else ():
            numbers = fs[layer] or {}
            for direction in ("read", "write"):
                amount = numbers.get(f"{direction}_bytes")
                sign = bounds.mark(fs, f"{direction}_bytes") if layer == "application" else ""
                rows.append((f"{direction} ({layer})",
                             "-" if amount is None else sign + format_bytes(amount, units),
                             _count(numbers.get(f"{direction}_{calls}"),
                                    calls.replace("rpcs", "RPCs"))))
        for name, row in (fs.operations or {}).items():
            seconds = row.seconds
            rows.append((name, f"{row.count:,}",
                         "" if seconds is None else f"{seconds:.3f} s"))
        if fs.operations is None and of_lustre:
            rows += [(f"{name} ({server})", f"{count:,}", "")
                     for server, requests in fs.metadata.items()
                     for name, count in requests.operations.items()]
        rows += [(f"{metric} ({get_title(source)})", format_amount(metric, value, units), "")
                 for source, counted in fs.sources.items()
                 for metric, value in counted.totals.items()]
        lines += _align_columns(rows)
        if by_reader:
            lines.append(f"  note: for root alone, and read by the reader: "
                         f"{', '.join(sorted(by_reader))}")
        lines += [f"  note: {note}" for note in fs.notes]
        lines.append("")
    if not lines:
        lines = [f"{snapshot.node}: no Lustre file system is mounted", ""]
    return "\n".join(lines)


def _count(number: int | None, noun: str) -> str:
    return "-" if number is None else f"{number:,} {noun}"


def _align_columns(rows: list[tuple[str, str, str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    return [f"  {name:<{widths[0]}}  {middle:>{widths[1]}}  {last:>{widths[2]}}".rstrip()
            for name, middle, last in rows]
