"""
A job's record as text: grid, plain, markdown, csv or json.

The record is that of job_totals.py (docs/record.schema.json); nothing is computed here but means,
rates and forms.  Unknown is "-", a lower bound begins with ">=".
"""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime

import msgspec
from tabulate import tabulate

from iostats.base.errors import one_line
from iostats.base.units import bytes_text, duration_text
from iostats.lustre.metrics import (
    EXPLAIN_ALWAYS,
    LOCAL_MD_STATS,
    METRICS,
    OPERATIONS,
    is_operation,
    operations_in,
)
from iostats.report.accounting_comment import OTHERS
from iostats.report.node_sets import folded
from iostats.totals.bounds import mark, numbers_too_low
from iostats.totals.time_bins import sparkline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

_MOST_TARGETS = 8
_TABLEFMT = {"grid": "grid", "plain": "plain", "markdown": "pipe"}


def labelled(record: dict[str, Any], config: Any) -> dict[str, Any]:
    """`record` with the site's names for its file systems."""
    def named(one: dict[str, Any]) -> dict[str, Any]:
        return {**one, "file_systems": [
            {**fs, "label": config.labels.get(fs["name"], fs["name"])}
            for fs in one["file_systems"]]}
    return {**named(record), "phases": [named(phase) for phase in record["phases"]],
            "harvest": record.get("harvest") and named(record["harvest"])}


def text(record: dict[str, Any], config: Any, form: str = "grid", long: bool = False,
         explain: bool = False) -> str:
    """
    The report of a labelled `record`, ending with a newline.

    `form`: one of config.FORMATS.  `long`, `explain`: --long and --explain.
    """
    if form == "json":
        return as_json(record)
    record = _visible(record, _in_markdown if form == "markdown" else _on_terminal)
    if form == "csv":
        return _csv(record)
    return "\n".join(map(one_line, _tables(record, config, form, long, explain).split("\n")))


def _visible(value: Any, show: Callable[[str], str]) -> Any:
    """`value` with what nodes have called their things as `show` makes it."""
    if isinstance(value, str):
        return show(value)
    if isinstance(value, dict):
        return {show(key): _visible(found, show) for key, found in value.items()}
    return [_visible(found, show) for found in value] if isinstance(value, list) else value


def _on_terminal(text: str) -> str:
    return one_line(text)


def _in_markdown(text: str) -> str:
    """The text without HTML, links and pictures, which markdown would let through."""
    return re.sub(r"[\\`<]|\](?=\()", r"\\\g<0>", _on_terminal(text))


def as_json(record: dict[str, Any]) -> str:
    """
    The record as indented JSON, ending with a newline.

    What does not print stands as \\uXXXX: JSON itself lets pass what some terminals take for
    commands (C1), and marks that turn the direction of writing.
    """
    text = msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _tables(record: dict[str, Any], config: Any, form: str, long: bool, explain: bool) -> str:
    shown, idle = _busy_and_idle(record, config)
    units = config["report.units"]
    parts = [coverage_line(record)]
    alone = _is_of_servers(record)
    if alone:
        parts.append(_period(record))
    elif not shown:
        parts.append("No Lustre file system was seen." if record["coverage"]["reported"] else
                     "No numbers: no node has reported.")
    else:
        parts += ["File data transfer statistics for this job:",
                  _table(("File System", "File Read", "File Write"),
                         [(fs["label"], *(_by_programs(fs, f"{way}_bytes", units)
                                          for way in ("read", "write"))) for fs in shown], form),
                  *_operations_table(shown, config, form)]
        unread = [fs for fs in shown if fs["operations"] is None and fs["metadata"]]
        if long or unread:
            parts += _metadata_tables(shown if long else unread, form)
        if idle:
            parts.append(f"Nothing was done on: {', '.join(fs['label'] for fs in idle)}")
        if record["phases"]:
            parts += _phases_table(record, config, {fs["name"] for fs in idle}, units, form)
        parts += _rates(shown, record["coverage"]["reported"], units)
        if long:
            parts += _long(shown, record["coverage"]["node_seconds"], units, form)
    if record["harvest"]:
        parts += _at_servers(shown, _shown(record["harvest"], config), long, units, form)
        if alone:
            parts += _mean_rates(record, _shown(record["harvest"], config), units)
            parts += _targets_table(_shown(record["harvest"], config), long, units, form)
    if explain:
        parts += _explanation([*shown, *idle], config)
    missing = record["coverage"]["missing_count"]
    if missing and shown:
        parts.append(f"note: {missing} {'node has' if missing == 1 else 'nodes have'} no numbers: "
                     f"every number is a lower bound (>=)")
    parts += _shared_notes(record["coverage"]["shared"])
    parts += [f"note: {note}" for note in record["notes"]]
    for fs in shown:
        parts += [f"note: {fs['label']}: {note}" for note in fs["notes"]]
    if record["harvest"]:
        both = {fs["name"] for fs in record["harvest"]["file_systems"]}
        parts += [f"note: {fs['label']}: {line}" for fs in shown if fs["name"] in both and not long
                  for line in _why_network_differs(fs, units)]
        parts += _harvest_notes(record["harvest"], config)
    refused = record["coverage"]["refused"]
    if refused:
        parts.append("note: messages refused: "
                     + ", ".join(f"{count} {why}" for why, count in sorted(refused.items())))
    # Markdown takes a line right below a table for a row of it.
    return ("\n\n" if form == "markdown" else "\n").join(parts) + "\n"


def coverage_line(record: dict[str, Any]) -> str:
    """
    Which nodes are in the totals, which are not, and why; one line.

        Job 4711: 3 of 4 nodes reported, 00:31:07; missing: nid00004 (no report)
        Job 4712: from the storage servers, alice, 00:31:07, TIMEOUT; no node has reported
    """
    coverage, job = record["coverage"], record["job"]
    expected, alone = coverage["expected"], _is_of_servers(record)
    line = f"Job {job['id']}: "
    if alone:
        line += "from the storage servers" + (f", {job['user']}" if job["user"] else "")
    else:
        line += f"{coverage['reported']} "
        line += f"of {expected} nodes reported" if expected is not None else "nodes reported"
    if job["elapsed_s"] is not None:
        line += f", {duration_text(job['elapsed_s'])}"
    outcome = record["batch"]["outcome"] if record["batch"] else ""
    if outcome != "" and (alone or outcome != "COMPLETED"):
        line += f", {outcome}"
    if alone and not coverage["missing"]:
        return f"{line}; no node has reported"
    if expected is None and not alone:
        line += " (how many there should be is not known)"
    by_reason: dict[str, list[str]] = {}
    for node, why in coverage["missing"].items():
        by_reason.setdefault(why, []).append(node)
    missing = [f"{folded(nodes)} ({why})" for why, nodes in by_reason.items()]
    nameless = coverage["missing_count"] - len(coverage["missing"])
    if nameless > 0:
        why = "no numbers" if record["short"] else "no report"
        missing.append(f"{nameless} {'node' if nameless == 1 else 'nodes'} ({why})")
    return line + (f"; missing: {', '.join(missing)}" if missing else "")


def _is_of_servers(record: dict[str, Any]) -> bool:
    """Whether nothing but the storage servers knows what the job did."""
    return bool(record.get("harvest")) and not record["coverage"]["reported"]


def _seen_s(record: dict[str, Any]) -> tuple[float | None, str]:
    """(seconds that a job of the storage servers took, "about " where they have seen it alone)."""
    if record["job"]["elapsed_s"] is not None:
        return record["job"]["elapsed_s"], ""
    return record["harvest"]["ended"] - record["harvest"]["began"], "about "


def _period(record: dict[str, Any]) -> str:
    """When a job of the storage servers ran, as far as anybody knows."""
    job, harvest = record["job"], record["harvest"]
    if job["started"] is not None and job["ended"] is not None:
        return f"It ran from {_moment(job['started'])} to {_moment(job['ended'])}."
    began = ("" if job["started"] is None else
             f"It began at {_moment(job['started'])}; when it ended is not known.  ")
    return (f"{began}Sweeps of the storage servers saw it at work from {_moment(harvest['began'])} "
            f"to {_moment(harvest['ended'])}.")


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):           # some clock said so
        return f"{seconds:.0f}"


def _mean_rates(record: dict[str, Any], harvested: list[dict[str, Any]], units: str) -> list[str]:
    """What a job of the storage servers did a second, over all of its time."""
    took_s, about = _seen_s(record)
    if not took_s or took_s <= 0:
        return []
    lines = []
    for fs in harvested:
        calls = operations_in(fs["operations"])
        read, written = (bytes_text(round(fs[f"{way}_bytes"] / took_s), units)
                         for way in ("read", "write"))
        low = _bound(fs)
        lines.append(f"{fs['label']}: a second on average, over {about}{duration_text(took_s)}: "
                     f"read {low}{about}{read}, written {low}{about}{written}, operations "
                     f"{low}{about}{calls / took_s:.1f}")
    return lines


def _targets_table(harvested: list[dict[str, Any]], long: bool, units: str,
                   form: str) -> list[str]:
    """What a job of the storage servers did at each target; the busiest ones, or all if `long`."""
    rows, left_off = [], 0
    for fs in harvested:
        found = []
        for target, values in fs["targets"].items():
            calls = sum(count for name, count in values.items() if is_operation(name))
            read, written = values.get("read_bytes", 0), values.get("write_bytes", 0)
            found.append((read + written, calls, target, read, written))
        found.sort(key=lambda row: (-row[0], -row[1], row[2]))
        most = len(found) if long else _MOST_TARGETS
        left_off += len(found[most:])
        low = _bound(fs)
        rows += [(fs["label"], target, low + bytes_text(read, units),
                  low + bytes_text(written, units), f"{low}{calls}")
                 for _, calls, target, read, written in found[:most]]
    if not rows:
        return []
    return ["By target:", _table(("File System", "Target", "Read", "Written", "Operations"), rows,
                                 form, ("left", "left", "right", "right", "right")),
            *([f"({left_off} more: --long)"] if left_off else [])]


def _shown(record: dict[str, Any], config: Any) -> list[dict[str, Any]]:
    by_name = {fs["name"]: fs for fs in record["file_systems"]}
    wanted = config["report.file_systems"] or list(by_name)
    return [by_name[name] for name in wanted if name in by_name]


def _busy_and_idle(record: dict[str, Any],
                   config: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """
    The file systems for the tables, and those on which nothing was done, which would only fill
    them.  All are in the tables where site.cfg names them, or where nothing was done on any.
    """
    shown = _shown(record, config)
    at_servers = {fs["name"] for fs in (record["harvest"] or {"file_systems": ()})["file_systems"]}
    idle = [] if config["report.file_systems"] else [
        fs for fs in shown if fs["name"] not in at_servers and _is_idle(fs)]
    if len(idle) == len(shown):
        return shown, []
    return [fs for fs in shown if fs not in idle], idle


def _is_idle(fs: dict[str, Any]) -> bool:
    """True where it is known that nothing was done there, and there is nothing to say of it."""
    layers = [fs["application"], *([fs["network"]] if fs["network"] else [])]
    return (None not in layers and not fs["notes"] and not fs["dirty_bytes"]
            and not any(value for layer in layers for value in layer.values())
            and fs["application"]["read_bytes"] is not None and fs["operations"] is not None
            and not any(row["count"] for row in fs["operations"].values())
            and not any(mdt["requests"] for mdt in fs["metadata"].values()))


def _by_programs(fs: dict[str, Any], metric: str, units: str) -> str:
    """The bytes that programs read or wrote."""
    if fs["application"] is None:
        return "-"
    return mark(fs, metric) + bytes_text(fs["application"][metric], units)


def _bound(numbers: dict[str, Any]) -> str:
    return ">= " if numbers.get("lower_bound") else ""


def _operations_table(shown: list[dict[str, Any]], config: Any, form: str) -> list[str]:
    columns = config["report.columns"]
    if not columns:
        # Every operation that happened, in the order of counters.OPERATIONS.
        place = {name: number for number, name in enumerate(OPERATIONS)}
        columns = sorted({name for fs in shown for name in fs["operations"] or {}},
                         key=lambda name: (place.get(name, len(place)), name == OTHERS, name))
    if not columns:
        return []                         # nothing happened, or nothing could be read
    rows = [(fs["label"], *(_operation(fs, name) for name in columns)) for fs in shown]
    return ["Metadata statistics for this job:",
            _table(("File System", *columns), rows, form, ("left",) + ("right",) * len(columns))]


def _operation(fs: dict[str, Any], name: str) -> str:
    if fs["operations"] is None:
        return "-"
    row = fs["operations"].get(name)
    if row is None and OTHERS in fs["operations"]:
        return "-"                        # it may be among those
    return f"{mark(fs, 'operations')}{row['count'] if row else 0}"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], form: str,
           align: Sequence[str] | None = None) -> str:
    # Everything is text by now: tabulate must not read numbers into it (it would print
    # 16777216 as 1.67772e+07 in a column with a "-").
    if form == "markdown":
        rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return str(tabulate(rows, headers, tablefmt=_TABLEFMT[form], disable_numparse=True,
                        colalign=align if rows else None))


_table = table


def _metadata_tables(shown: list[dict[str, Any]], form: str) -> list[str]:
    """What each MDT was asked: the number by which administrators judge a job."""
    rows = []
    for fs in shown:
        low, too_low = _low(fs, "md_stats"), ">= " if "md_stats" in fs["low"] else ""
        for target, metadata in fs["metadata"].items():
            peak = metadata["peak"]
            rate = metadata["per_second_per_node"]
            asked = {name: count for name, count in metadata["operations"].items()
                     if count and name not in LOCAL_MD_STATS}
            most = sorted(asked.items(), key=lambda item: (-item[1], item[0]))[:4]
            # The average is that of the nodes that reported, whoever is missing.
            rows.append((fs["label"], target, low + str(metadata["requests"]),
                         "-" if rate is None else f"{too_low}{rate:.1f}",
                         f"{low}{peak['per_second']:.1f}" if peak else "-",
                         peak["node"] if peak else "-",
                         ", ".join(f"{name} {low}{count}" for name, count in most)))
    if not rows:
        return []
    return ["Metadata requests by MDT (a second and node: on average, and of the busiest node):",
            _table(("File System", "MDT", "Requests", "Average", "Peak", "Peak node", "Most"), rows,
                   form, ("left", "left", "right", "right", "right", "left", "left"))]


def _phases_table(record: dict[str, Any], config: Any, idle: set[str], units: str,
                  form: str) -> list[str]:
    """One row for each part of the job and file system, in the order of time."""
    rows = []
    for phase in record["phases"]:
        for fs in [fs for fs in _shown(phase, config) if fs["name"] not in idle] or [
                {"label": "-", "application": None, "operations": None}]:
            operations = fs["operations"]
            rows.append((phase["name"], f"{phase['elapsed_s']:.1f}", fs["label"],
                         *(_by_programs(fs, f"{way}_bytes", units)
                           for way in ("read", "write")),
                         "-" if operations is None else mark(fs, "operations") + str(
                             operations_in(operations))))
    parts = ["Parts of this job:",
             _table(("Part", "Seconds", "File System", "File Read", "File Write", "Operations"),
                    rows, form, ("left", "right", "left", "left", "left", "right"))]
    parts += [f"note: the part {phase['name']} is from `start` to the first mark: what the nodes "
              f"did by themselves, if no work of the job was before that mark"
              for phase in record["phases"] if phase["name"].startswith("(before ")]
    return parts


def _at_servers(shown: list[dict[str, Any]], harvested: list[dict[str, Any]], long: bool,
                units: str, form: str) -> list[str]:
    """What the storage servers counted under the job's id, below what its nodes counted."""
    rows, here = [], {fs["name"]: fs for fs in shown}
    align = ("left", "left") + ("right",) * 5
    for fs in harvested:
        sides: list[tuple[Any, ...]] = [("At the servers", fs, "rpcs", fs["operations"])]
        if fs["name"] in here:
            nodes = here[fs["name"]]
            sides = [("By the application", nodes["application"], "calls", nodes["operations"]),
                     ("Over the network", nodes["network"], "rpcs", None), *sides]
        for side, numbers, calls, operations in sides:
            of_programs = here[fs["name"]] if calls == "calls" else None
            rows.append((fs["label"], side, *(
                "-" if count is None else _mark_of(of_programs, numbers, name) + (
                    bytes_text(count, units) if name.endswith("_bytes") else str(count))
                for name, count in _moved(numbers, calls)),
                "-" if operations is None else _mark_of(of_programs, numbers, "operations")
                + str(operations_in(operations))))
    parts = ["From both sides, the nodes and the storage servers:" if shown else
             "At the storage servers, under this job's id:",
             _table(("File System", "Counted", "Read", "Written", "Reads", "Writes", "Operations"),
                    rows, form, align)]
    if long:
        rows = [(fs["label"], name, f"{_bound(fs)}{row['count']}",
                 "-" if row["seconds"] is None else f"{_bound(fs)}{row['seconds']:.3f}")
                for fs in harvested for name, row in fs["operations"].items()]
        parts += ["Operations at the storage servers:",
                  _table(("File System", "Operation", "Count", "Seconds"), rows, form,
                         ("left", "left", "right", "right"))] if rows else []
    return parts


def _mark_of(of_programs: dict[str, Any] | None, numbers: dict[str, Any] | None,
             name: str) -> str:
    """Which way `name` may be wrong, of what programs did or else of other `numbers`."""
    return mark(of_programs, name) if of_programs else _bound(numbers or {})


def _moved(numbers: dict[str, Any] | None, calls: str) -> list[tuple[str, int | None]]:
    """[(name, number or None)] of what was moved, and by how many calls or RPCs."""
    names = ("read_bytes", "write_bytes", f"read_{calls}", f"write_{calls}")
    return [(name, None if numbers is None else numbers[name]) for name in names]


def _harvest_notes(harvest: dict[str, Any], config: Any) -> list[str]:
    notes = [f"note: at the servers: {note}" for note in harvest["notes"]]
    for fs in _shown(harvest, config):
        notes += [f"note: {fs['label']}, at the servers: {note}" for note in fs["notes"]]
    if not harvest["final"]:
        notes.append("note: at the servers: more may come: the job is not settled yet")
    return notes


def _rates(shown: list[dict[str, Any]], reported: int, units: str) -> list[str]:
    """A line of blocks for each metric that `watch` saw."""
    lines = []
    for fs in shown:
        series = fs["series"]
        for metric, name in (("read_bytes", "read"), ("write_bytes", "written"),
                             ("operations", "operations")):
            if series and any(series[metric]):
                peak = max(series[metric]) / series["every_s"]
                most = f"{peak:.0f}" if metric == "operations" else bytes_text(round(peak), units)
                most = mark(fs, metric) + most
                of = f", on {series['nodes']} of {reported} nodes"
                lines.append(f"{fs['label']} {name:<10} |{sparkline(series[metric])}| at most "
                             f"{most} a second{of if series['nodes'] < reported else ''}")
    return ["Over the time of this job, nodes with `watch` together:", *lines] if lines else []


def _shared_notes(shared: dict[str, int]) -> list[str]:
    by_count: dict[int, list[str]] = {}
    for node, count in shared.items():
        by_count.setdefault(count, []).append(node)
    return [f"note: {folded(nodes)}: {count} other {'job was' if count == 1 else 'jobs were'} on "
            f"the node: the numbers are the node's, not this job's alone"
            for count, nodes in sorted(by_count.items())]


def _low(fs: dict[str, Any], source: str) -> str:
    """">= " when a number of `source` may be too low."""
    return ">= " if fs["incomplete"] or source in fs["low"] else ""


def _long(shown: list[dict[str, Any]], node_seconds: float | None, units: str,
          form: str) -> list[str]:
    """The tables of --long."""
    transfers, times, spreads, sizes = [], [], [], []
    for fs in shown:
        for layer, calls in (("application", "calls"), ("network", "rpcs")):
            numbers = fs[layer]
            for way in ("read", "write"):
                count = numbers and numbers[f"{way}_{calls}"]
                total = numbers and numbers[f"{way}_bytes"]
                mean = bytes_text(total // count, units) if count and total is not None else "-"
                of_bytes = of_calls = _bound(numbers) if numbers else ""
                if layer == "application":
                    of_bytes, of_calls = mark(fs, f"{way}_bytes"), mark(fs, f"{way}_calls")
                    mean = (of_bytes if not of_calls and mean != "-" else "") + mean
                transfers.append((fs["label"], f"{way}, {_BY[layer]}",
                                  "-" if total is None else of_bytes + bytes_text(total, units),
                                  "-" if count is None else f"{of_calls}{count}", mean))
        for name, row in _with_calls(fs).items():
            if row["seconds"] is not None and row["count"]:
                low = mark(fs, "operations")
                spread = row["stddev_s"]
                times.append((fs["label"], name, f"{low}{row['count']}",
                              f"{low}{row['seconds']:.3f}",
                              f"{row['seconds'] / row['count'] * 1000:.3f}",
                              "-" if spread is None else f"{spread * 1000:.3f}"))
        for way, pages in (fs["request_pages"] or {}).items():
            total = sum(pages.values())
            sizes += [(fs["label"], way, count_of_pages, f"{_low(fs, 'rpc_stats')}{rpcs}",
                       f"{100 * rpcs / total:.0f} %")
                      for count_of_pages, rpcs in pages.items() if rpcs]
        for name, spread in fs["per_node"].items():
            shape = (lambda n: bytes_text(n, units)) if name.endswith("_bytes") else str
            # Of a node that lost counters it is not known here which of these it is.
            low = "" if "operations" in numbers_too_low(fs) else mark(fs, name)
            spreads.append((fs["label"], name, *(low + shape(spread[at]) for at in
                                                 ("min", "median", "max")),
                            spread["busiest"] or "-"))
    parts = ["Transfers by the application and over the network:",
             _table(("File System", "Transfer", "Bytes", "Calls, RPCs", "Mean size"), transfers,
                    form, ("left", "left", "right", "right", "right"))]
    for fs in shown:
        parts += [f"{fs['label']}: {line}" for line in _ratios(fs, units)]
    if sizes:
        parts += ["Size of network requests (up to so many pages; a page is mostly 4 KiB):",
                  _table(("File System", "Way", "Pages", "RPCs", "Share"), sizes, form,
                         ("left", "left", "right", "right", "right"))]
    if times:
        parts += ["Time in operations (of all threads of all nodes, so it may be more than the "
                  "job took):",
                  _table(("File System", "Operation", "Calls", "Seconds", "Mean ms", "Stddev ms"),
                         times, form, ("left", "left", "right", "right", "right", "right"))]
        if node_seconds:
            seconds = sum(row["seconds"] for fs in shown for row in _with_calls(fs).values()
                          if row["seconds"] is not None)
            low = ">= " if any(_low(fs, "llite") for fs in shown) else ""
            parts.append(f"Time in Lustre: {low}{seconds:.1f} s of {node_seconds:.1f} s of all "
                         f"nodes that reported, {100 * seconds / node_seconds:.0f} % (more than "
                         f"100 % when threads overlap; a create is also in its open)")
    if spreads:
        parts += ["Per node:",
                  _table(("File System", "Metric", "Min", "Median", "Max", "Busiest node"),
                         spreads, form, ("left", "left", "right", "right", "right", "left"))]
    return parts


def _why_network_differs(fs: dict[str, Any], units: str) -> list[str]:
    """Sentences: why the application's bytes and the network's differ."""
    application, network = fs["application"], fs["network"]
    lines: list[str] = []
    if not {"llite", "osc", "mdc"}.isdisjoint(fs["low"]):
        return lines                  # what differs may be what is missing of the one or the other
    if not application or not network or network["read_bytes"] is None:
        return lines
    happened = {name for name, row in (fs["operations"] or {}).items() if row["count"]}
    # Not counted since 2.14, which is the first to have a line for read() and write().
    libaio = ["libaio or io_uring with O_DIRECT"] if fs["calls"] else []
    asked, came = application["read_bytes"], network["read_bytes"]
    if asked and came < asked:
        lines.append(f"{100 * (asked - came) / asked:.0f} % of what was read did not come over "
                     f"the network{_may_be(['from the page cache', 'holes in files'])}")
    elif came > asked:
        whys = (["whole pages", "read-ahead"] if asked else [])
        whys += ["pages that were written in part"] if application["write_calls"] else []
        whys += ["mapped files"] if "page_fault" in happened else []
        lines.append(f"{bytes_text(came - asked, units)} more came over the network than was "
                     f"read{_may_be([*whys, *libaio])}")
    asked, went = application["write_bytes"], network["write_bytes"]
    dirty, other = fs["dirty_bytes"], fs["other"] or {}
    if dirty:
        lines.append(f"{bytes_text(dirty, units)} were written and not yet sent at the end")
    if went + (dirty or 0) < asked:
        whys = ["overwritten or removed before it was sent"]
        whys += ["not yet sent at the end"] * (dirty is None)
        whys += ["thrown away by an eviction"] * bool(other.get("evictions"))
        lines.append(f"{bytes_text(asked - went - (dirty or 0), units)} less were sent than "
                     f"written{_may_be(whys)}")
    elif went > asked:
        whys = ["what was in memory at the start", *libaio]
        whys[:0] = ["small writes that are not counted"] * ("uncounted_write_calls" in other)
        whys[:0] = ["mapped files"] * ("page_mkwrite" in happened)
        lines.append(f"{bytes_text(went - asked, units)} more were sent than "
                     f"written{_may_be(whys)}")
    return lines


def _may_be(whys: list[str]) -> str:
    """What may be the reason; no counter tells which of them it is."""
    return f" (it may be {'; or '.join(whys)})" if whys else ""


def _ratios(fs: dict[str, Any], units: str) -> list[str]:
    """Sentences on one file system: what the numbers mean beside each other."""
    lines = _why_network_differs(fs, units)
    if fs["cached_read_bytes"]:
        lines.append(f"{mark(fs, 'operations')}{bytes_text(fs['cached_read_bytes'], units)} of "
                     f"what was read were in the page cache when they were asked for (read-ahead "
                     f"counts too)")
    balance, low = fs["balance"], _low(fs, "osc")
    if balance and balance["busiest"]:
        lines.append(f"{low}{balance['used']} of {low}{balance['osts']} OSTs carried data; "
                     f"{balance['busiest']} the most{' of what is known' if low else ''}, "
                     f"{100 * balance['busiest_share']:.0f} %")
    return lines


def _explanation(shown: list[dict[str, Any]], config: Any) -> list[str]:
    """What each number of this report is, and is not; from counters.METRICS."""
    happened = {name for fs in shown for name in fs["operations"] or {}} - {OTHERS}
    happened.update(config["report.columns"])
    lines = ["What the numbers are:"]
    for metric in METRICS:
        if (metric.unit != "calls" or metric.name.endswith("_calls")
                or metric.name in happened):
            lines.append(f"  {metric.name}: {metric.meaning}"
                         f"{' ' + metric.caveat if metric.caveat else ''} "
                         f"({metric.source} {metric.counter}, {metric.takes}; {metric.unit})")
    lines += [f"  {name}: not known to this release of iostats; the kernel's counter of that name"
              for name in sorted(happened - {metric.name for metric in METRICS})]
    lines += [f"  {line}" for line in EXPLAIN_ALWAYS]
    unproved = sorted({fs["label"] for fs in shown if fs["unproved"]})
    if unproved:
        lines.append(f"  On {', '.join(unproved)} the counter files show no start time (Lustre up "
                     f"to 2.14, 2.15.0, 2.15.1, or switched off): a clear that was followed by "
                     f"more work than before it is not detectable on this release.")
    return lines


_BY = {"application": "by the application", "network": "over the network"}


def _with_calls(fs: dict[str, Any]) -> dict[str, Any]:
    """Operations with their time, and read and write before them where the release times them."""
    return {**(fs["calls"] or {}), **(fs["operations"] or {})}


def _csv(record: dict[str, Any]) -> str:
    """
    One line for each number, and whether it is a lower or an upper bound.  What is not known has an
    empty value: an operation without a line has not happened.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("job", "file_system", "layer", "metric", "value", "lower_bound",
                     "upper_bound"))
    for fs in record["file_systems"]:
        low, high = numbers_too_low(fs), fs.get("too_high", ())
        for layer, calls in (("application", "calls"), ("network", "rpcs")):
            numbers = fs[layer] or {**dict(_moved(None, calls)), "lower_bound": True}
            for metric, value in numbers.items():
                if metric != "lower_bound":
                    bound = ((metric in low, metric in high) if fs[layer] and
                             layer == "application" else (numbers["lower_bound"], False))
                    writer.writerow((cell(record["job"]["id"]), cell(fs["label"]), layer, metric,
                                     "" if value is None else value, *map(int, bound)))
        most = fs.get("write_bytes_max")
        if most is not None and "write_bytes" in low:
            writer.writerow((cell(record["job"]["id"]), cell(fs["label"]), "application",
                             "write_bytes_max", most, 0, 1))
        if fs["operations"] is None:
            writer.writerow((cell(record["job"]["id"]), cell(fs["label"]), "operations", "(all)",
                             "", 1, 0))
        for name, row in (fs["operations"] or {}).items():
            for metric, value in ((name, row["count"]), (f"{name}_seconds", row["seconds"])):
                if value is not None:
                    writer.writerow((cell(record["job"]["id"]), cell(fs["label"]), "operations",
                                     cell(metric), value, int("operations" in low), 0))
    for fs in record["harvest"]["file_systems"] if record["harvest"] else ():
        counted = {metric: fs[metric] for metric in ("read_bytes", "write_bytes", "read_rpcs",
                                                     "write_rpcs")}
        counted.update((name, row["count"]) for name, row in fs["operations"].items())
        for metric, value in counted.items():
            writer.writerow((cell(record["job"]["id"]), cell(fs["label"]), "servers",
                             cell(metric), value, int(fs["lower_bound"]), 0))
    return out.getvalue()


def cell(text: str) -> str:
    """A text that a spreadsheet does not take for a formula; some take the wide forms for one."""
    return "'" + text if text.startswith(_FORMULAS) else text


_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
