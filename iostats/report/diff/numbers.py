"""
The numbers of a record that two jobs can be compared by, each between two bounds.

    bytes read   >= 23 GiB   ->  Bounds(23 GiB, inf, "bytes")
    opens        37          ->  Bounds(37, 37, "count")

The record may be of a release to come: what is not of the form known here is not there, and members
that are not known are named.
"""

from __future__ import annotations

import re
from collections import namedtuple
from math import inf, isfinite

from iostats.base.errors import one_line
from iostats.lustre.metrics import is_operation
from iostats.report.accounting_comment import OTHERS
from iostats.totals.bounds import least_by_programs, numbers_too_low
from iostats.totals.record import CLASSES, SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

BYTES, COUNT, SECONDS, MEAN_BYTES, MEAN_SECONDS, SHARE = (
    "bytes", "count", "seconds", "mean bytes", "mean seconds", "share")
AMOUNTS = (BYTES, COUNT, SECONDS)       # which grow with nodes and with time
ELAPSED, NODES = "elapsed", "nodes"     # of the job, as IN_LUSTRE
REQUESTS, REQUESTS_TO = "metadata requests", "requests to "
IN_LUSTRE, SHARE_IN_LUSTRE = "time in Lustre", "time in Lustre, of node time"

Bounds = namedtuple("Bounds", "low high kind weight", defaults=(1.0,))
Bounds.__doc__ = """
A number.

Attributes:
    low, high: it is not less, not more; equal where it is exact; `high` may be inf.
    kind: BYTES, COUNT, SECONDS, MEAN_BYTES, MEAN_SECONDS or SHARE (of 1).
    weight: from 0 to 1: which part of all bytes, calls or seconds of the job it is about.
"""

JobNumbers = namedtuple("JobNumbers", "name facts numbers absent unknown not_compared node_hours "
                        "file_systems")
JobNumbers.__doc__ = """
What is known of a job, or of a part of one.

Attributes:
    name: what it is called in the comparison: 4711, 4711:solve, record.json.
    facts: {"job", "phase", "user", "nodes", "reported", "elapsed_s"}, None where not known;
        "shared_nodes", those on which other jobs were; "short", as of the record; "notes": of
        the report, on the nodes' own I/O.
    numbers: {(file system, or "" for the whole job; metric): Bounds}.
    absent: {(file system, first word of the metric): Bounds} of what has no number: an operation
        ("calls") that has not happened, an MDT ("requests") that was not asked.
    unknown: {(file system, layer)}: what nothing is known of: application, network, operations.
    not_compared: members of the record, and its schema, that this release does not know.
    node_hours: hours of all nodes together; None where not known, or where a node is missing.
    file_systems: {file system: its label}.
"""

# File systems that the short form has no room for, as one.
_SEVERAL = re.compile(r"\(\d+ more\)").fullmatch
_TRANSFERS = (("read", "read"), ("write", "written"))


def numbers_of(form: Mapping[str, Any], name: str, phase: str | None = None,
               labels: Mapping[str, str] | None = None) -> JobNumbers:
    """
    The numbers of the record in the JSON object `form`, or of one of its phases: LookupError.
    """
    job, coverage = _part(form, "job"), _part(form, "coverage")
    reported, missing = _count(coverage, "reported"), _count(coverage, "missing_count")
    expected = _count(coverage, "expected") or reported
    elapsed_s, node_s = _count(job, "elapsed_s"), _count(coverage, "node_seconds")
    is_whole, is_short = not missing, bool(form.get("short"))
    parts = [fs for fs in _parts(form, "file_systems")
             if not (is_short and _SEVERAL(_text(fs, "name") or ""))]
    if phase is not None:
        one = next((one for one in _parts(form, "phases") if one.get("name") == phase), None)
        if one is None:
            raise LookupError(phase)
        expected = reported = _count(one, "nodes")
        elapsed_s, node_s = _count(one, "elapsed_s"), None
        parts = _parts(one, "file_systems")
    if node_s is None and reported and elapsed_s is not None:
        node_s = reported * elapsed_s
    numbers: dict[tuple[str, str], Bounds] = {}
    absent: dict[tuple[str, str], Bounds] = {}
    unknown: set[tuple[str, str]] = set()
    for fs in parts:
        if isinstance(fs.get("name"), str):
            of_one, layers = _of_file_system(fs, is_short)
            numbers.update({(fs["name"], metric): bounds for metric, bounds in of_one.items()})
            unknown |= {(fs["name"], layer) for layer in layers}
            absent.update({(fs["name"], word): bounds
                           for word, bounds in _absent_in(fs, is_short).items()})
    numbers = _weighed(numbers)
    if elapsed_s is not None:
        numbers["", ELAPSED] = Bounds(elapsed_s, elapsed_s if is_whole else inf, SECONDS)
    if expected is not None:
        numbers["", NODES] = Bounds(expected, expected, COUNT)
    numbers.update(_in_lustre(numbers, node_s if is_whole else None))
    for side, of_side in (("harvest", _of_servers), ("by_node", _of_exports)):
        for fs in _parts(_part(form, side), "file_systems") if phase is None else ():
            if isinstance(fs.get("name"), str):
                numbers.update({(fs["name"], metric): bounds
                                for metric, bounds in of_side(fs).items()})
    others = [fs for side in ("harvest", "by_node")
              for fs in _parts(_part(form, side), "file_systems")] if phase is None else []
    names = {fs["name"]: fs for fs in (*parts, *others) if isinstance(fs.get("name"), str)}
    return JobNumbers(
        name, {"job": _text(job, "id"), "phase": phase, "user": _text(job, "user"),
               "nodes": expected, "reported": reported, "elapsed_s": elapsed_s,
               "shared_nodes": len(_part(coverage, "shared")), "short": is_short,
               "notes": []},
        numbers, absent, unknown, _not_known(form),
        node_s / 3600 if node_s and is_whole else None,
        {one: one_line((labels or {}).get(one) or _text(fs, "label") or one)
         for one, fs in names.items()})


# -- of a file system ----------------------------------------------------------------------------

def _of_file_system(fs: Mapping[str, Any], is_short: bool) -> tuple[dict[str, Bounds], set[str]]:
    """({metric: Bounds}, layers of which nothing is known)."""
    found: dict[str, Bounds] = {}
    absent = set()
    application, network, low = fs.get("application"), fs.get("network"), _low_of(fs)
    told = fs.get("too_high")
    high = {one for one in told if isinstance(one, str)} if isinstance(told, list) else set()
    if isinstance(application, dict):
        for way, done in _TRANSFERS:
            for what in ("bytes", "calls"):
                number = _count(application, f"{way}_{what}")
                if number is not None:
                    metric = f"{way}_{what}"
                    most = inf if metric in low else number
                    if metric == "write_bytes" and metric in low:
                        most = _count(fs, "write_bytes_max") or inf
                    found[_transfer(done, what)] = Bounds(
                        0 if metric in high else number, max(most, number),
                        BYTES if what == "bytes" else COUNT)
            _mean(found, _transfer(done, "bytes"), _transfer(done, "calls"),
                  f"mean size, {done}", MEAN_BYTES)
    else:
        absent.add("application")
    if isinstance(network, dict):
        for way, done in _TRANSFERS:
            for what, words in (("bytes", f"bytes {done} over the network"),
                                ("rpcs", f"RPCs, {done}")):
                number = _count(network, f"{way}_{what}")
                if number is not None:
                    found[words] = Bounds(number, inf if network.get("lower_bound") else number,
                                          BYTES if what == "bytes" else COUNT)
            _mean(found, f"bytes {done} over the network", f"RPCs, {done}",
                  f"mean size of RPCs, {done}", MEAN_BYTES)
    else:
        absent.add("network")
    if isinstance(fs.get("operations"), dict):
        found.update(_operations({**_part(fs, "operations")}, "operations" in low))
        for name, row in _operations(_part(fs, "calls"), "operations" in low).items():
            if not name.startswith("calls of "):       # those are the calls of programs, above
                found[name] = row
    else:
        absent.add("operations")
    asked = {target: number for target, of in _part(fs, "metadata").items()
             for number in [_count(of, "requests")] if number is not None}
    is_low = _is_low(fs, "md_stats")
    if asked:
        whole = sum(asked.values())
        found[REQUESTS] = Bounds(whole, inf if is_low else whole, COUNT)
    for target, number in asked.items() if not is_short else ():
        found[f"{REQUESTS_TO}{one_line(target)}"] = Bounds(
            number, inf if is_low else number, COUNT)
    balance, is_low = _part(fs, "balance"), _is_low(fs, "osc")
    used, share = _count(balance, "used"), _count(balance, "busiest_share")
    if used is not None:
        found["OSTs used"] = Bounds(used, inf if is_low else used, COUNT)
    if share is not None and share <= 1:
        found["share of the busiest OST"] = Bounds(
            0 if is_low else share, 1 if is_low else share, SHARE)
    for source, counted in _part(fs, "sources").items():
        totals = _part(counted, "totals") if isinstance(counted, dict) else {}
        for name in totals:
            number = _count(totals, name)
            if number is not None:
                found[one_line(f"{source}: {name}")] = Bounds(
                    number, inf if counted.get("lower_bound") else number,
                    BYTES if name.endswith("_bytes") else COUNT)
    return found, absent


def _is_low(fs: Mapping[str, Any], source: str) -> bool:
    low = fs.get("low")
    return bool(fs.get("incomplete")) or (isinstance(low, list) and source in low)


def _absent_in(fs: Mapping[str, Any], is_short: bool) -> dict[str, Bounds]:
    """What an operation has, and an MDT, that is not named; {} where nothing is known of them."""
    found = {}
    if isinstance(fs.get("operations"), dict):
        others = _count(fs["operations"].get(OTHERS), "count") or 0
        found["calls"] = Bounds(0, inf if "operations" in _low_of(fs) else others, COUNT, 0.0)
    if _part(fs, "metadata") and not is_short:
        found["requests"] = Bounds(0, inf if _is_low(fs, "md_stats") else 0, COUNT, 0.0)
    return found


def _transfer(done: str, what: str) -> str:
    return f"bytes {done}" if what == "bytes" else {"read": "reads", "written": "writes"}[done]


def _low_of(fs: Mapping[str, Any]) -> set[str]:
    try:
        return set(numbers_too_low({**fs, "application": _part(fs, "application")}))
    except TypeError:
        return set()


def _operations(rows: Mapping[str, Any], is_low: bool) -> dict[str, Bounds]:
    """Counts, seconds and mean times of operations."""
    found: dict[str, Bounds] = {}
    for name, row in rows.items():
        if name == OTHERS or not isinstance(row, dict):
            continue
        count, seconds = _count(row, "count"), _count(row, "seconds")
        name = one_line(name)
        calls, took = f"calls of {name}", f"time in {name}"
        if count is not None:
            found[calls] = Bounds(least_by_programs(name, count), inf if is_low else count, COUNT)
        if seconds is not None:
            found[took] = Bounds(seconds, inf if is_low else seconds, SECONDS)
            _mean(found, took, calls, f"mean time of {name}", MEAN_SECONDS)
    return found


def _mean(found: dict[str, Bounds], total: str, count: str, metric: str, kind: str) -> None:
    """The mean, between the least total by the most calls and the other way round."""
    whole, calls = found.get(total), found.get(count)
    if whole is not None and calls is not None and calls.high > 0:
        low = 0 if calls.high == inf else whole.low / calls.high
        found[metric] = Bounds(low, whole.high / calls.low if calls.low else inf, kind)


def _in_lustre(numbers: Mapping[tuple[str, str], Bounds],
               node_s: float | None) -> dict[tuple[str, str], Bounds]:
    times = [bounds for (_, metric), bounds in numbers.items() if metric.startswith("time in ")]
    if not times:
        return {}
    low, high = sum(one.low for one in times), sum(one.high for one in times)
    found = {("", IN_LUSTRE): Bounds(low, high, SECONDS)}
    if node_s:
        found["", SHARE_IN_LUSTRE] = Bounds(low / node_s, high / node_s, SHARE)
    return found


def _of_servers(fs: Mapping[str, Any]) -> dict[str, Bounds]:
    """What the storage servers have counted under the job's id."""
    found = {}
    most = inf if fs.get("lower_bound") else 0
    for member, metric, kind in (
            ("read_bytes", "bytes read, at the servers", BYTES),
            ("write_bytes", "bytes written, at the servers", BYTES),
            ("read_rpcs", "RPCs, read, at the servers", COUNT),
            ("write_rpcs", "RPCs, written, at the servers", COUNT)):
        number = _count(fs, member)
        if number is not None:
            found[metric] = Bounds(number, max(most, number), kind)
    for name, row in _part(fs, "operations").items():
        number = _count(row, "count") if isinstance(row, dict) and is_operation(name) else None
        if number is not None:
            found[one_line(f"{name}, at the servers")] = Bounds(number, max(most, number), COUNT)
    return found


def _of_exports(fs: Mapping[str, Any]) -> dict[str, Bounds]:
    """What the job's nodes have asked the storage servers for, between its two bounds."""
    found = {}
    for member, metric, kind in (
            ("read_bytes", "bytes read, by its nodes", BYTES),
            ("write_bytes", "bytes written, by its nodes", BYTES),
            ("reads", "RPCs, read, by its nodes", COUNT),
            ("writes", "RPCs, written, by its nodes", COUNT),
            ("ost_operations", "other OST requests, by its nodes", COUNT),
            ("mdt_operations", "MDT requests, by its nodes", COUNT)):
        low, high = _count(_part(fs, "low"), member), _count(_part(fs, "high"), member)
        if low is not None:
            found[metric] = Bounds(low, inf if high is None else max(low, high), kind)
    return found


def _weighed(numbers: Mapping[tuple[str, str], Bounds]) -> dict[tuple[str, str], Bounds]:
    """Each amount with its part of the largest one of its kind; a mean with that of its total."""
    most = {kind: max((one.low for one in numbers.values() if one.kind == kind), default=0)
            for kind in AMOUNTS}
    found = {}
    for (name, metric), one in numbers.items():
        of = one
        if one.kind in (MEAN_BYTES, MEAN_SECONDS):
            total = (metric.replace("mean time of", "time in") if one.kind == MEAN_SECONDS else
                     f"bytes {metric.rpartition(', ')[2]}"
                     + " over the network" * ("RPCs" in metric))
            of = numbers.get((name, total), one)
        weight = of.low / most[of.kind] if most.get(of.kind) else 1.0
        found[name, metric] = one._replace(weight=min(1.0, weight))
    return found


# -- of a form that may be any -------------------------------------------------------------------

def _part(form: Any, member: str) -> dict[str, Any]:
    found = form.get(member) if isinstance(form, dict) else None
    return found if isinstance(found, dict) else {}


def _parts(form: Any, member: str) -> list[dict[str, Any]]:
    found = form.get(member) if isinstance(form, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _text(form: Any, member: str) -> str | None:
    found = form.get(member) if isinstance(form, dict) else None
    return found if isinstance(found, str) and found else None


def _count(form: Any, member: str) -> Any:
    """A number that is not negative; None for all else."""
    found = form.get(member) if isinstance(form, dict) else None
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return None
    if isinstance(found, int) and found > 2**200:
        return None
    return found if isfinite(found) and found >= 0 else None


def _not_known(form: Mapping[str, Any]) -> list[str]:
    """Members of a record that this release does not know, and a schema of a release to come."""
    schema = form.get("schema")
    found = [] if schema == SCHEMA or schema is None else [f"schema {schema!r:.20}"]
    found += sorted(_unknown_members(form, "Record", ""))
    return list(dict.fromkeys(found))


def _unknown_members(form: Mapping[str, Any], of: str, path: str) -> Iterator[str]:
    kinds = CLASSES[of].__annotations__
    also = {"Record": {"findings"}}.get(of, set())
    for member in form:
        if member not in kinds and member not in also:
            yield f"{path}{member}"[:80]
    if of == "Record":
        for one in _parts(form, "file_systems"):
            yield from _unknown_members(one, "FileSystemRecord", "file_systems.")
