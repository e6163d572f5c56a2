"""
The numbers of a record that two jobs can be compared by, each between two bounds.

    bytes read   >= 23 GiB   ->  Bounds(23 GiB, inf, "bytes")
    opens        37          ->  Bounds(37, 37, "count")

The record may be of a release to come: members in an unexpected format are left out, and unknown
members are listed.
"""

from __future__ import annotations

import re
from math import inf, isfinite
from typing import TYPE_CHECKING

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.lustre.metrics import is_operation
from iostats.node import sources
from iostats.report.accounting_comment import OTHERS
from iostats.report.text_table import format_metric_name
from iostats.totals import disk_values
from iostats.totals.bounds import (
    LUSTRE,
    choose_metadata_source,
    count_at_least,
    list_too_low_numbers,
)
from iostats.totals.record import CLASSES
from iostats.totals.record_part import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

BYTES, COUNT, SECONDS, MEAN_BYTES, MEAN_SECONDS, SHARE = (
    "bytes", "count", "seconds", "mean bytes", "mean seconds", "share")
AMOUNTS = (BYTES, COUNT, SECONDS)       # which grow with nodes and with time
ELAPSED, NODES = "elapsed", "nodes"     # of the job, as IN_LUSTRE
OSTS_USED = "OSTs used"                 # a count, but no amount
REQUESTS, REQUESTS_TO = "metadata requests", "requests to "
IN_LUSTRE, SHARE_IN_LUSTRE = "time in Lustre", "time in Lustre, of node time"


class Bounds(NamedTuple):
    """A number with its lower and upper bound."""

    # low, high: it is not less, not more; equal where it is exact; `high` may be inf
    low: float
    high: float
    kind: str   # BYTES, COUNT, SECONDS, MEAN_BYTES, MEAN_SECONDS or SHARE (of 1)
    # from 0 to 1: which part of all bytes, calls or seconds of the job it is about
    weight: float = 1.0


class JobNumbers(NamedTuple):
    """The numbers of a job, or of a part of one."""

    name: str   # what it is called in the comparison: 4711, 4711:solve, record.json
    # {"job", "phase", "user", "nodes", "reported", "elapsed_s"}, None where not known;
    # "shared_nodes", those on which other jobs were; "short", as of the record; "notes": of the
    # report, on the nodes' own I/O
    facts: dict[str, Any]
    # {(file system, or "" for the whole job; metric): Bounds}
    numbers: dict[tuple[str, str], Bounds]
    # {(file system, first word of the metric): Bounds} of what has no number: an operation
    # ("calls") that has not happened, an MDT ("requests") that was not asked
    absent: dict[tuple[str, str], Bounds]
    # {(file system, layer)} without data: application, network, operations
    unknown: set[tuple[str, str]]
    # members of the record, and its schema, that this release does not know
    not_compared: list[str]
    # hours of all nodes together; None where not known, or where a node is missing
    node_hours: float | None
    file_systems: dict[str, str]  # {file system: its label}


# File systems that the short form has no room for, as one.
_SEVERAL = re.compile(r"\(\d+ more\)").fullmatch
_TRANSFERS = (("read", "read"), ("write", "written"))


def read_numbers(form: Mapping[str, object], name: str, phase: str | None = None,
                 labels: Mapping[str, str] | None = None) -> JobNumbers:
    """
    The numbers of the record in the JSON object `form`, or of one of its phases: LookupError.
    """
    job, coverage = _read_object(form, "job"), _read_object(form, "coverage")
    reported, missing = _read_count(coverage, "reported"), _read_count(coverage, "missing_count")
    expected = _read_count(coverage, "expected") or reported
    elapsed_s, node_s = _read_count(job, "elapsed_s"), _read_count(coverage, "node_seconds")
    is_whole, is_short = not missing, bool(form.get("short"))
    parts = [fs for fs in _read_objects(form, "file_systems")
             if not (is_short and _SEVERAL(_read_text(fs, "name") or ""))]
    if phase is not None:
        part = next((part for part in _read_objects(form, "phases") if part.get("name") == phase),
                    None)
        if part is None:
            raise LookupError(phase)
        expected = reported = _read_count(part, "nodes")
        elapsed_s, node_s = _read_count(part, "elapsed_s"), None
        parts = _read_objects(part, "file_systems")
    if node_s is None and reported and elapsed_s is not None:
        node_s = reported * elapsed_s
    numbers: dict[tuple[str, str], Bounds] = {}
    absent: dict[tuple[str, str], Bounds] = {}
    unknown: set[tuple[str, str]] = set()
    for fs in parts:
        fs_name = fs.get("name")
        if isinstance(fs_name, str):
            of_one, layers = _read_file_system(fs, is_short)
            numbers.update({(fs_name, metric): bounds for metric, bounds in of_one.items()})
            unknown |= {(fs_name, layer) for layer in layers}
            absent.update({(fs_name, word): bounds
                           for word, bounds in _find_absent(fs, is_short).items()})
    numbers = _add_weights(numbers)
    if elapsed_s is not None:
        numbers["", ELAPSED] = Bounds(elapsed_s, elapsed_s if is_whole else inf, SECONDS)
    if expected is not None:
        numbers["", NODES] = Bounds(expected, expected, COUNT)
    numbers.update(_compute_time_in_lustre(numbers, node_s if is_whole else None))
    for side, of_side in (("harvest", _read_servers), ("by_node", _read_exports)):
        for fs in _read_objects(_read_object(form, side), "file_systems") if phase is None else ():
            fs_name = fs.get("name")
            if isinstance(fs_name, str):
                numbers.update({(fs_name, metric): bounds
                                for metric, bounds in of_side(fs).items()})
    more = [fs for side in ("harvest", "by_node")
            for fs in _read_objects(_read_object(form, side),
                                    "file_systems")] if phase is None else []
    names = {fs_name: fs for fs in (*parts, *more)
             for fs_name in [fs.get("name")] if isinstance(fs_name, str)}
    return JobNumbers(
        name, {"job": _read_text(job, "id"), "phase": phase, "user": _read_text(job, "user"),
               "nodes": expected, "reported": reported, "elapsed_s": elapsed_s,
               "shared_nodes": len(_read_object(coverage, "shared")), "short": is_short,
               "notes": []},
        numbers, absent, unknown, _list_unknown(form),
        node_s / 3600 if node_s and is_whole else None,
        {fs_name: sanitize((labels or {}).get(fs_name) or _read_text(fs, "label") or fs_name)
         for fs_name, fs in names.items()})


# -- of a file system ----------------------------------------------------------------------------

def _read_file_system(fs: Mapping[str, object],
                      is_short: bool) -> tuple[dict[str, Bounds], set[str]]:
    """Return ({metric: Bounds} of a file system, its layers without data)."""
    bounds: dict[str, Bounds] = {}
    absent = set()
    application, network, low = fs.get("application"), fs.get("network"), _find_lower_bounds(fs)
    listed = fs.get("too_high")
    high = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    if isinstance(application, dict):
        for direction, done in _TRANSFERS:
            for unit in ("bytes", "calls"):
                number = _read_count(application, f"{direction}_{unit}")
                if number is not None:
                    metric = f"{direction}_{unit}"
                    highest = inf if metric in low else number
                    if metric == "write_bytes" and metric in low:
                        highest = _read_count(fs, "write_bytes_max") or inf
                    bounds[_name_transfer(done, unit)] = Bounds(
                        0 if metric in high else number, max(highest, number),
                        BYTES if unit == "bytes" else COUNT)
            _add_mean(bounds, _name_transfer(done, "bytes"), _name_transfer(done, "calls"),
                      f"mean size, {done}", MEAN_BYTES)
    else:
        absent.add("application")
    if isinstance(network, dict):
        for direction, done in _TRANSFERS:
            for unit, words in (("bytes", f"bytes {done} over the network"),
                                ("rpcs", f"RPCs, {done}")):
                number = _read_count(network, f"{direction}_{unit}")
                if number is not None:
                    bounds[words] = Bounds(number, inf if network.get("lower_bound") else number,
                                           BYTES if unit == "bytes" else COUNT)
            _add_mean(bounds, f"bytes {done} over the network", f"RPCs, {done}",
                      f"mean size of RPCs, {done}", MEAN_BYTES)
    else:
        absent.add("network")
    if isinstance(fs.get("operations"), dict):
        bounds.update(_read_operations({**_read_object(fs, "operations")}, "operations" in low))
        for name, row in _read_operations(_read_object(fs, "calls"), "operations" in low).items():
            if not name.startswith("calls of "):       # those are the calls of programs, above
                bounds[name] = row
    elif fs.get("kind", LUSTRE) == LUSTRE:          # of others nobody counts them
        absent.add("operations")
    requests = {target: number for target, of in _read_object(fs, "metadata").items()
                for number in [_read_count(of, "requests")] if number is not None}
    is_low = _is_low(fs, choose_metadata_source(fs))
    if requests:
        whole = sum(requests.values())
        bounds[REQUESTS] = Bounds(whole, inf if is_low else whole, COUNT)
    for target, number in requests.items() if not is_short else ():
        bounds[f"{REQUESTS_TO}{sanitize(target)}"] = Bounds(
            number, inf if is_low else number, COUNT)
    for direction, _ in _TRANSFERS:
        most_us = _read_count(_read_object(_read_object(fs, "per_node"), f"{direction}_us"), "max")
        whole_s = _read_count(_read_object(_read_object(fs, "calls"), direction), "seconds")
        if most_us is not None and whole_s:
            part, is_low = min(1.0, most_us / 1e6 / whole_s), "operations" in low
            bounds[f"time in {direction}, busiest node"] = Bounds(
                0 if is_low else part, 1 if is_low else part, SHARE)
    balance, is_low = _read_object(fs, "balance"), _is_low(fs, "osc")
    used, share = _read_count(balance, "used"), _read_count(balance, "busiest_share")
    if used is not None:
        bounds[OSTS_USED] = Bounds(used, inf if is_low else used, COUNT)
    if share is not None and share <= 1:
        bounds["share of the busiest OST"] = Bounds(
            0 if is_low else share, 1 if is_low else share, SHARE)
    counters = _read_object(fs, "sources")
    for source, counted in counters.items():
        if disk_values.OF_JOB in counters and source in (disk_values.OF_NODES, disk_values.TMPDIR):
            continue                    # the job's own are there
        totals = _read_object(counted, "totals")
        is_low = isinstance(counted, dict) and bool(counted.get("lower_bound"))
        title = sources.get_title(source)
        for name in totals:
            number = _read_count(totals, name)
            if number is not None:
                kind = (BYTES if name.endswith("_bytes") else
                        SECONDS if name.endswith("_us") else COUNT)
                amount = number / 1e6 if kind == SECONDS else number
                bounds[sanitize(f"{format_metric_name(name)} ({title})")] = Bounds(
                    0 if sources.is_upper_bound(source, name) else amount,
                    inf if is_low else amount, kind)
    return bounds, absent


def _is_low(fs: Mapping[str, object], source: str) -> bool:
    low = fs.get("low")
    return bool(fs.get("incomplete")) or (isinstance(low, list) and source in low)


def _find_absent(fs: Mapping[str, object], is_short: bool) -> dict[str, Bounds]:
    """
    Return the bounds of operations and MDTs that have no row; {} if nothing is known about them.
    """
    absent = {}
    operations = fs.get("operations")
    if isinstance(operations, dict):
        rest = _read_count(operations.get(OTHERS), "count") or 0
        absent["calls"] = Bounds(0, inf if "operations" in _find_lower_bounds(fs) else rest, COUNT,
                                 0.0)
    if _read_object(fs, "metadata") and not is_short:
        absent["requests"] = Bounds(0, inf if _is_low(fs, choose_metadata_source(fs)) else 0, COUNT,
                                    0.0)
    return absent


def _name_transfer(done: str, unit: str) -> str:
    return f"bytes {done}" if unit == "bytes" else {"read": "reads", "written": "writes"}[done]


def _find_lower_bounds(fs: Mapping[str, object]) -> set[str]:
    try:
        return set(list_too_low_numbers({**fs, "application": _read_object(fs, "application")}))
    except TypeError:
        return set()


def _read_operations(rows: Mapping[str, object], is_low: bool) -> dict[str, Bounds]:
    """Counts, seconds and mean times of operations."""
    bounds: dict[str, Bounds] = {}
    for name, row in rows.items():
        if name == OTHERS or not isinstance(row, dict):
            continue
        count, seconds = _read_count(row, "count"), _read_count(row, "seconds")
        name = sanitize(name)
        calls, took = f"calls of {name}", f"time in {name}"
        if count is not None:
            bounds[calls] = Bounds(count_at_least(name, int(count)),
                                   inf if is_low else count, COUNT)
        if seconds is not None:
            bounds[took] = Bounds(seconds, inf if is_low else seconds, SECONDS)
            _add_mean(bounds, took, calls, f"mean time of {name}", MEAN_SECONDS)
    return bounds


def _add_mean(numbers: dict[str, Bounds], total: str, count: str, metric: str, kind: str) -> None:
    """Add a mean with its bounds: the smallest total by the most calls, and the reverse."""
    whole, calls = numbers.get(total), numbers.get(count)
    if whole is not None and calls is not None and calls.high > 0:
        low = 0 if calls.high == inf else whole.low / calls.high
        numbers[metric] = Bounds(low, whole.high / calls.low if calls.low else inf, kind)


def _compute_time_in_lustre(numbers: Mapping[tuple[str, str], Bounds],
                            node_s: float | None) -> dict[tuple[str, str], Bounds]:
    times = [bounds for (_, metric), bounds in numbers.items()
             if metric.startswith("time in ") and bounds.kind == SECONDS]
    if not times:
        return {}
    low, high = sum(time.low for time in times), sum(time.high for time in times)
    shares = {("", IN_LUSTRE): Bounds(low, high, SECONDS)}
    if node_s:
        shares["", SHARE_IN_LUSTRE] = Bounds(low / node_s, high / node_s, SHARE)
    return shares


def _read_servers(fs: Mapping[str, object]) -> dict[str, Bounds]:
    """Read the numbers that the storage servers counted under the job's id."""
    bounds = {}
    highest = inf if fs.get("lower_bound") else 0
    for member, metric, kind in (
            ("read_bytes", "bytes read, at the servers", BYTES),
            ("write_bytes", "bytes written, at the servers", BYTES),
            ("read_rpcs", "RPCs, read, at the servers", COUNT),
            ("write_rpcs", "RPCs, written, at the servers", COUNT)):
        number = _read_count(fs, member)
        if number is not None:
            bounds[metric] = Bounds(number, max(highest, number), kind)
    for name, row in _read_object(fs, "operations").items():
        number = _read_count(row, "count") if isinstance(row, dict) and is_operation(name) else None
        if number is not None:
            bounds[sanitize(f"{name}, at the servers")] = Bounds(number, max(highest, number),
                                                                 COUNT)
    return bounds


def _read_exports(fs: Mapping[str, object]) -> dict[str, Bounds]:
    """Read the two bounds of the requests from the job's nodes to the storage servers."""
    bounds = {}
    for member, metric, kind in (
            ("read_bytes", "bytes read, by its nodes", BYTES),
            ("write_bytes", "bytes written, by its nodes", BYTES),
            ("reads", "RPCs, read, by its nodes", COUNT),
            ("writes", "RPCs, written, by its nodes", COUNT),
            ("ost_operations", "other OST requests, by its nodes", COUNT),
            ("mdt_operations", "MDT requests, by its nodes", COUNT)):
        low, high = _read_count(_read_object(fs, "low"),
                                member), _read_count(_read_object(fs, "high"), member)
        if low is not None:
            bounds[metric] = Bounds(low, inf if high is None else max(low, high), kind)
    return bounds


def _add_weights(numbers: Mapping[tuple[str, str], Bounds]) -> dict[tuple[str, str], Bounds]:
    """Add the weight of each amount: its share of the largest amount of its kind."""
    largest = {kind: max((bounds.low for bounds in numbers.values() if bounds.kind == kind),
                         default=0)
               for kind in AMOUNTS}
    weighted = {}
    for (name, metric), bounds in numbers.items():
        of = bounds
        if bounds.kind in (MEAN_BYTES, MEAN_SECONDS):
            total = (metric.replace("mean time of", "time in") if bounds.kind == MEAN_SECONDS else
                     f"bytes {metric.rpartition(', ')[2]}"
                     + " over the network" * ("RPCs" in metric))
            of = numbers.get((name, total), bounds)
        weight = of.low / largest[of.kind] if largest.get(of.kind) else 1.0
        weighted[name, metric] = bounds._replace(weight=min(1.0, weight))
    return weighted


# -- of a form that may be any -------------------------------------------------------------------

def _read_object(form: object, member: str) -> dict[str, object]:
    value: object = form.get(member) if isinstance(form, dict) else None
    return value if isinstance(value, dict) else {}


def _read_objects(form: object, member: str) -> list[dict[str, object]]:
    value: object = form.get(member) if isinstance(form, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _read_text(form: object, member: str) -> str | None:
    value: object = form.get(member) if isinstance(form, dict) else None
    return value if isinstance(value, str) and value else None


def _read_count(form: object, member: str) -> float | None:
    """Return the number of a member; None if it is negative, or not a number."""
    value: object = form.get(member) if isinstance(form, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and value > 2**200:
        return None
    return value if isfinite(value) and value >= 0 else None


def _list_unknown(form: Mapping[str, object]) -> list[str]:
    """List the members of a record that this release does not know, and a newer schema."""
    schema = form.get("schema")
    unknown = [] if schema == SCHEMA or schema is None else [f"schema {schema!r:.20}"]
    unknown += sorted(_list_unknown_members(form, "Record", ""))
    return list(dict.fromkeys(unknown))


def _list_unknown_members(form: Mapping[str, object], class_name: str, path: str) -> Iterator[str]:
    kinds = CLASSES[class_name].__annotations__
    also = {"Record": {"findings"}}.get(class_name, set())
    for member in form:
        if member not in kinds and member not in also:
            yield f"{path}{member}"[:80]
    if class_name == "Record":
        for part in _read_objects(form, "file_systems"):
            yield from _list_unknown_members(part, "FileSystemRecord", "file_systems.")
