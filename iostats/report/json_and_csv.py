"""
A job's record for programs: JSON, and csv with one line for each number.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from iostats.node import sources
from iostats.report.job_numbers import IMPORTED, list_moved
from iostats.totals.bounds import list_too_low_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from iostats.totals.record import FileSystemRecord, Record

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def format_json(record: Mapping[str, object]) -> str:
    """
    The record as indented JSON, ending with a newline.

    What does not print stands as \\uXXXX: JSON itself lets pass what some terminals take for
    commands (C1), and marks that turn the direction of writing.
    """
    import msgspec  # as dear as all else of a report as text
    try:
        text = msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"
    except UnicodeEncodeError:              # halves of UTF-16's pairs, which JSON itself lets in
        return json.dumps(record, indent=2) + "\n"
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def format_csv(record: Record) -> str:
    """
    One line for each number, and whether it is a lower or an upper bound.  What is not known has an
    empty value: an operation without a line has not happened.
    """
    import csv
    import io
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")

    def write(*cells: Any) -> None:
        """A line; also what ought to be a number may be a text, in a file from elsewhere."""
        writer.writerow([escape_csv_cell(cell) if isinstance(cell, str) else cell
                         for cell in cells])
    writer.writerow(("job", "file_system", "layer", "metric", "value", "lower_bound",
                     "upper_bound"))
    job = record.job.id
    labels = {fs.name: fs.label for fs in record.file_systems}
    for fs in record.file_systems:
        for layer, metric, value, low, high in _list_node_numbers(fs):
            write(job, fs.label, layer, metric, "" if value is None else value, int(low), int(high))
    for imported in record.imported.file_systems if record.imported else ():
        for metric in IMPORTED:
            value = imported[metric]
            write(job, imported.label, "imported", metric, "" if value is None else value, 1, 1)
    for there in record.harvest.file_systems if record.harvest else ():
        counted = {metric: there[metric] for metric in ("read_bytes", "write_bytes", "read_rpcs",
                                                        "write_rpcs")}
        counted.update((name, row.count) for name, row in there.operations.items())
        for metric, value in counted.items():
            write(job, there.label, "servers", metric, value, int(there.lower_bound), 0)
    for nodes in record.by_node.file_systems if record.by_node else ():
        for metric, least in nodes.low.items():
            highest = None if nodes.high is None else nodes.high[metric]
            write(job, nodes.label, "by_node", metric, least, int(least != highest), 0)
            write(job, nodes.label, "by_node", f"{metric}_max", "" if highest is None else highest,
                  0, int(least != highest))
    counts: dict[tuple[str, str], int] = {}
    for event in record.events or ():
        if event.is_certain:
            of = event.file_system, event.kind
            counts[of] = counts.get(of, 0) + event.count
    for (name, kind), count in sorted(counts.items()):
        write(job, labels.get(name, name), "events", kind, count, int(record.events_more > 0), 0)
    return out.getvalue()


def _list_node_numbers(fs: FileSystemRecord) -> Iterator[tuple[str, str, Any, bool, bool]]:
    """(layer, metric, value or None, may it be too low, too high) of what the nodes counted."""
    low, high = list_too_low_numbers(fs), fs.too_high
    for layer, calls in (("application", "calls"), ("network", "rpcs")):
        numbers = fs[layer] or {**dict(list_moved(None, calls)), "lower_bound": True}
        for metric, value in numbers.items():
            if metric == "lower_bound":
                continue
            if fs[layer] and layer == "application":
                yield layer, metric, value, metric in low, metric in high
            else:
                yield layer, metric, value, numbers["lower_bound"], False
    highest = fs.write_bytes_max
    if highest is not None and "write_bytes" in low:
        yield "application", "write_bytes_max", highest, False, True
    for source, counted in fs.sources.items():
        for metric, value in counted.totals.items():
            yield (source, metric, value, counted.lower_bound,
                   sources.is_upper_bound(source, metric))
    if fs.operations is None:
        yield "operations", "(all)", None, True, False
    for name, row in (fs.operations or {}).items():
        for metric, value in ((name, row.count), (f"{name}_seconds", row.seconds)):
            if value is not None:
                yield "operations", metric, value, "operations" in low, metric in high


def escape_csv_cell(text: str) -> str:
    """A text that a spreadsheet does not take for a formula; some take the wide forms for one."""
    return "'" + text if text.startswith(_FORMULAS) else text
