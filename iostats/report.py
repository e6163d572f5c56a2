"""
A job's record as text: grid, plain, markdown, csv or json.

The record is that of aggregate.py (docs/record.schema.json); nothing is computed here but means,
rates and forms.  Unknown is "-", a lower bound begins with ">=".
"""

import csv
import io

import msgspec
from tabulate import tabulate

from iostats.counters import OPERATIONS
from iostats.units import bytes_text, duration_text

_TABLEFMT = {"grid": "grid", "plain": "plain", "markdown": "pipe"}


def labelled(record, config):
    """`record` with the site's names for its file systems."""
    return {**record, "file_systems": [
        {**fs, "label": config.labels.get(fs["name"], fs["name"])}
        for fs in record["file_systems"]]}


def text(record, config, form="grid", long=False):
    """
    The report of a labelled `record`, ending with a newline; `form` is one of config.FORMATS.
    """
    if form == "json":
        return as_json(record)
    if form == "csv":
        return _csv(record)
    return "".join(c if c.isprintable() or c == "\n" else "\\x%02x" % ord(c)
                   for c in _tables(record, config, form, long))


def as_json(record):
    """The record as indented JSON, ending with a newline."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"


def _tables(record, config, form, long):
    shown = _shown(record, config)
    units = config["report.units"]
    parts = [coverage_line(record)]
    if not shown:
        parts.append("No Lustre file system was seen." if record["coverage"]["reported"] else
                     "No numbers: no node has reported.")
    else:
        parts += ["File data transfer statistics for this job:",
                  _table(("File System", "File Read", "File Write"),
                         [(fs["label"], *(_bytes(fs["application"], f"{way}_bytes", units)
                                          for way in ("read", "write"))) for fs in shown], form),
                  "Metadata statistics for this job:", _operations_table(shown, config, form)]
        if long:
            parts += _long(shown, units, form)
    parts += [f"note: {note}" for note in record["notes"]]
    for fs in shown:
        parts += [f"note: {fs['label']}: {note}" for note in fs["notes"]]
    refused = record["coverage"]["refused"]
    if refused:
        parts.append("note: messages refused: "
                     + ", ".join(f"{count} {why}" for why, count in sorted(refused.items())))
    return "\n".join(parts) + "\n"


def coverage_line(record):
    """
    Which nodes are in the totals, which are not, and why; one line.

        Job 4711: 3 of 4 nodes reported, 00:31:07; missing: nid00004 (no report)
    """
    coverage, job = record["coverage"], record["job"]
    expected = coverage["expected"]
    line = f"Job {job['id']}: {coverage['reported']} "
    line += f"of {expected} nodes reported" if expected is not None else "nodes reported"
    if job["elapsed_s"] is not None:
        line += f", {duration_text(job['elapsed_s'])}"
    if expected is None:
        line += " (how many there should be is not known)"
    by_reason = {}
    for node, why in coverage["missing"].items():
        by_reason.setdefault(why, []).append(node)
    missing = [f"{folded(nodes)} ({why})" for why, nodes in by_reason.items()]
    nameless = coverage["missing_count"] - len(coverage["missing"])
    if nameless > 0:
        missing.append(f"{nameless} {'node' if nameless == 1 else 'nodes'} (no report)")
    return line + (f"; missing: {', '.join(missing)}" if missing else "")


def folded(nodes):
    """
    Node names in the batch systems' notation: nid[00001-00003,00007].
    """
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    try:
        return str(NodeSet.fromlist(list(nodes)))
    except NodeSetException:
        return ",".join(sorted(nodes))


def _shown(record, config):
    by_name = {fs["name"]: fs for fs in record["file_systems"]}
    wanted = config["report.file_systems"] or list(by_name)
    return [by_name[name] for name in wanted if name in by_name]


def _bytes(numbers, metric, units):
    if numbers is None or numbers[metric] is None:
        return "-"
    return _bound(numbers) + bytes_text(numbers[metric], units)


def _bound(numbers):
    return ">= " if numbers["lower_bound"] else ""


def _operations_table(shown, config, form):
    columns = config["report.columns"]
    if not columns:
        # Every operation that happened, in the order of counters.OPERATIONS.
        place = {name: number for number, name in enumerate(OPERATIONS)}
        columns = sorted({name for fs in shown for name in fs["operations"] or {}},
                         key=lambda name: (place.get(name, len(place)), name))
    rows = [(fs["label"], *(_operation(fs, name) for name in columns)) for fs in shown]
    return _table(("File System", *columns), rows, form, ("left",) + ("right",) * len(columns))


def _operation(fs, name):
    if fs["operations"] is None:
        return "-"
    row = fs["operations"].get(name, {"count": 0})
    return f"{_bound(fs['application'])}{row['count']}"


def _table(headers, rows, form, align=None):
    # Everything is text by now: tabulate must not read numbers into it (it would print
    # 16777216 as 1.67772e+07 in a column with a "-").
    return tabulate(rows, headers, tablefmt=_TABLEFMT[form], disable_numparse=True,
                    colalign=align if rows else None)


def _long(shown, units, form):
    """The tables of --long."""
    transfers, times, spreads = [], [], []
    for fs in shown:
        for layer, calls in (("application", "calls"), ("network", "rpcs")):
            numbers = fs[layer]
            for way in ("read", "write"):
                count = numbers and numbers[f"{way}_{calls}"]
                total = numbers and numbers[f"{way}_bytes"]
                mean = bytes_text(total // count, units) if count and total is not None else "-"
                transfers.append((fs["label"], f"{way}, {_BY[layer]}",
                                  _bytes(numbers, f"{way}_bytes", units),
                                  "-" if numbers is None else f"{_bound(numbers)}{count}", mean))
        for name, row in _with_calls(fs).items():
            if row["seconds"] is not None and row["count"]:
                times.append((fs["label"], name, str(row["count"]), f"{row['seconds']:.3f}",
                              f"{row['seconds'] / row['count'] * 1000:.3f}"))
        for name, spread in fs["per_node"].items():
            shape = (lambda n: bytes_text(n, units)) if name.endswith("_bytes") else str
            spreads.append((fs["label"], name, *(shape(spread[at]) for at in
                                                 ("min", "median", "max")),
                            spread["busiest"] or "-"))
    parts = ["Transfers by the application and over the network:",
             _table(("File System", "Transfer", "Bytes", "Calls, RPCs", "Mean size"), transfers,
                    form, ("left", "left", "right", "right", "right"))]
    if times:
        parts += ["Time in operations (of all threads of all nodes, so it may be more than the "
                  "job took):",
                  _table(("File System", "Operation", "Calls", "Seconds", "Mean ms"), times, form,
                         ("left", "left", "right", "right", "right"))]
    if spreads:
        parts += ["Per node:",
                  _table(("File System", "Metric", "Min", "Median", "Max", "Busiest node"),
                         spreads, form, ("left", "left", "right", "right", "right", "left"))]
    return parts


_BY = {"application": "by the application", "network": "over the network"}


def _with_calls(fs):
    """Operations with their time, and read and write among them where the release times them."""
    other = fs["other"] or {}
    calls = {name: {"count": other[name], "seconds": other[f"{name}_us"] / 1e6}
             for name in ("read", "write") if f"{name}_us" in other}
    return {**calls, **(fs["operations"] or {})}


def _csv(record):
    """One line for each number: job, file system, layer, metric, value, lower bound."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("job", "file_system", "layer", "metric", "value", "lower_bound"))
    for fs in record["file_systems"]:
        for layer in ("application", "network"):
            for metric, value in (fs[layer] or {}).items():
                if metric != "lower_bound":
                    writer.writerow((_cell(record["job"]["id"]), _cell(fs["label"]), layer, metric,
                                     "" if value is None else value,
                                     int(fs[layer]["lower_bound"])))
        for name, row in (fs["operations"] or {}).items():
            low = int(fs["application"]["lower_bound"])
            writer.writerow((_cell(record["job"]["id"]), _cell(fs["label"]), "operations", name,
                             row["count"], low))
            if row["seconds"] is not None:
                writer.writerow((_cell(record["job"]["id"]), _cell(fs["label"]), "operations",
                                 f"{name}_seconds", row["seconds"], low))
    return out.getvalue()


def _cell(value):
    """A text that a spreadsheet does not take for a formula."""
    return "'" + value if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
