"""
A job's record in short: the numbers that `iostats jobs` lists, kept beside the record, so that a
question over 100,000 jobs is one look at an index.

ReadBytes, WriteBytes, Opens, Creates and Operations are what programs asked for, as the nodes have
reported it; of a job of which no node has, what the storage servers counted for it (`source` says
which).  Bounds of what its nodes did are never in these: they have members of their own.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.lustre.metrics import operations_in
from iostats.report import event_tables
from iostats.report.accounting_comment import OTHERS
from iostats.report.job_numbers import bounds_of
from iostats.totals.bounds import numbers_too_low
from iostats.totals.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iostats.totals.record import (
        FileSystemRecord,
        NodesRecord,
        OperationRow,
        ServersFileSystem,
        TimedCount,
    )

_MOST = 2**63 - 1                   # what SQLite can keep as an integer
_LONGEST_NAME = 256
NODES, SERVERS, EXPORTS = "nodes", "servers", "exports"

Summary = namedtuple("Summary", (
    "account partition name outcome exit_code started ended elapsed_s nodes reported shared "
    "file_systems source read_bytes write_bytes opens creates operations lower_bound "
    "net_read_bytes net_write_bytes net_lower_bound server_read_bytes server_write_bytes "
    "server_operations server_lower_bound final began over by_node_read_bytes "
    "by_node_read_bytes_max by_node_write_bytes by_node_write_bytes_max by_node_operations "
    "by_node_operations_max by_node_why events data_lost"), defaults=(
    *("",) * 5, *(None,) * 4, 0, 0, "", "", *(None,) * 5, 0, None, None, 0, None, None, None, 0, 1,
    *(None,) * 8, "", None, ""))
Summary.__doc__ = """
A job's record in short, as SQLite keeps it: text "" and number None where it is not known.

Attributes: as in job_fields.FIELDS; `lower_bound` has bits that `wrong_of` knows,
`net_lower_bound`, `server_lower_bound` and `final` are 0 or 1, `file_systems` names with commas
between; `began` and `over` are when it ran as far as it was seen, by its nodes or else by the
storage servers, to find it by.
"""

BY_NODE = ("read_bytes", "write_bytes", "operations")
OF_PROGRAMS = ("read_bytes", "write_bytes", "opens", "creates", "operations")
# Bits of `lower_bound`: all of these may be too low, or one alone; one may be too high.
_ALL_LOW, _ALONE, _HIGH = 1, {"read_bytes": 2, "write_bytes": 4}, {"write_bytes": 8}
SOME_LOW = _ALL_LOW | sum(_ALONE.values())


def wrong_of(bits: int) -> tuple[list[str], list[str]]:
    """(names of what may be too low, of what may be too high) in the bits of a Summary."""
    low = (OF_PROGRAMS if bits & _ALL_LOW else
           [name for name, bit in _ALONE.items() if bits & bit])
    return list(low), [name for name, bit in _HIGH.items() if bits & bit]


def bits_of(too_low: Iterable[str], too_high: Iterable[str]) -> int:
    """The bits of what `wrong_of` says."""
    low, high = set(too_low), set(too_high)
    return (_ALL_LOW * ("operations" in low) | sum(bit for name, bit in _HIGH.items()
                                                  if name in high)
            | sum(bit for name, bit in _ALONE.items() if name in low and "operations" not in low))


# -- from a record -----------------------------------------------------------------------------

def summary_of(form: Mapping[str, Any]) -> Summary:
    """The Summary of the record in the JSON object `form`."""
    record = Record.of(form)
    job, coverage = record.job, record.coverage
    batch: Mapping[str, Any] = record.batch or {}
    harvest: Mapping[str, Any] = record.harvest or {}
    nodes, servers = record.file_systems, harvest.get("file_systems", ())
    by_nodes = _of_nodes(nodes)
    by_servers = _of_servers(servers, harvest.get("lower_bound", False))
    by_node = _by_node(record.by_node)
    source = (NODES if coverage.reported else SERVERS if servers else
              EXPORTS if by_node.get("by_node_read_bytes") is not None else "")
    shown = by_servers if source == SERVERS else by_nodes
    network: list[Mapping[str, Any]] = [fs.network or {} for fs in nodes]
    net = {way: [one.get(way) for one in network] for way in ("read_bytes", "write_bytes")}
    network_bytes, net_low = _added(net, any(one.get("lower_bound") for one in network))
    return Summary(
        account=batch.get("account", ""), partition=batch.get("partition", ""),
        name=batch.get("name", "")[:_LONGEST_NAME], outcome=batch.get("outcome", ""),
        exit_code=_exit_code(batch.get("exit_status"), batch.get("exit_signal")),
        started=job.started, ended=job.ended,
        elapsed_s=(harvest["ended"] - harvest["began"] or None) if source == SERVERS and (
            job.elapsed_s is None) else job.elapsed_s,
        nodes=coverage.expected, reported=coverage.reported,
        shared=len(coverage.shared),
        file_systems=",".join(sorted({fs.name for fs in (
            *nodes, *servers, *(record.by_node.file_systems if record.by_node else ()))})),
        source=source,
        **{name: shown[name] for name in ("read_bytes", "write_bytes", "opens", "creates",
                                          "operations", "lower_bound")},
        net_read_bytes=network_bytes["read_bytes"],
        net_write_bytes=network_bytes["write_bytes"],
        net_lower_bound=net_low,
        server_read_bytes=by_servers["read_bytes"], server_write_bytes=by_servers["write_bytes"],
        server_operations=by_servers["operations"],
        server_lower_bound=by_servers["lower_bound"],
        final=int(harvest.get("final", True)),
        began=harvest.get("began") if job.started is None else job.started,
        over=harvest.get("ended") if job.ended is None else job.ended, **by_node,
        events=event_tables.count_of(record), data_lost=event_tables.data_of(record))


def _by_node(found: NodesRecord | None) -> dict[str, Any]:
    """What the job's nodes did on all file systems together: at least, and at most."""
    if found is None or found.why_none:
        return {"by_node_why": found.why_none if found else ""}
    sums: dict[str, Any] = {"by_node_why": ""}
    pairs: dict[str, list[tuple[int, int | None]]] = {}
    for fs in found.file_systems:
        for metric, low, high in bounds_of(fs):
            pairs.setdefault(metric, []).append((low, high))
    for metric in BY_NODE:
        lows = [low for low, _ in pairs.get(metric, ())]
        highs = [high for _, high in pairs.get(metric, ())]
        most = sum(high for high in highs if high is not None)
        sums[f"by_node_{metric}"] = min(sum(lows), _MOST) if lows else None
        sums[f"by_node_{metric}_max"] = most if lows and None not in highs and (
            most <= _MOST) else None
    return sums


def _of_nodes(file_systems: list[FileSystemRecord]) -> dict[str, Any]:
    """What programs did, on all file systems together."""
    application: list[Mapping[str, Any]] = [fs.application or {} for fs in file_systems]
    found = {name: [one.get(name) for one in application] for name in ("read_bytes", "write_bytes")}
    operations = [fs.operations for fs in file_systems]
    found["opens"] = [_calls(one, "open") for one in operations]
    found["creates"] = [_calls(one, "create") for one in operations]
    found["operations"] = [None if one is None else operations_in(one)
                           for one in operations]
    too_low = {name for fs in file_systems for name in numbers_too_low(fs)}
    sums, low = _added(found, "operations" in too_low)
    return {**sums, "lower_bound": bits_of(too_low | ({"operations"} if low else set()), {
        name for fs in file_systems for name in fs.too_high})}


def _calls(operations: Mapping[str, OperationRow | TimedCount] | None, name: str) -> int | None:
    """How often a call was made; None where that is not known."""
    if operations is None or (name not in operations and OTHERS in operations):
        return None
    return operations[name].count if name in operations else 0


def _of_servers(file_systems: Sequence[ServersFileSystem], low: bool) -> dict[str, Any]:
    """What the storage servers counted for the job, on all file systems together."""
    found = {name: [fs[name] for fs in file_systems] for name in ("read_bytes", "write_bytes")}
    # Opens are counted by MDTs: where none has seen the job, it may be that none is harvested.
    found["opens"] = [_calls(fs.operations if any(target.startswith("MDT") for target in
                                                     fs.get("targets", ())) else None, "open")
                      for fs in file_systems]
    found["operations"] = [operations_in(fs.operations) for fs in file_systems]
    sums, is_low = _added(found, low or any(fs.lower_bound for fs in file_systems))
    # An OST's `create` makes objects, before any file needs them.
    return {**sums, "creates": None, "lower_bound": is_low}


def _added(columns: Mapping[str, Sequence[int | None]],
           low: bool) -> tuple[dict[str, int | None], int]:
    """({name: sum of what is known, or None}, 1 where one of them may be too low)."""
    sums = {}
    for name, values in columns.items():
        known = [value for value in values if value is not None]
        sums[name] = min(sum(known), _MOST) if known else None
        low = low or 0 < len(known) < len(values) or sum(known) > _MOST
    return sums, int(bool(low))


def _exit_code(status: int | None, signal: int | None) -> str:
    return "" if status is None and signal is None else f"{status or 0}:{signal or 0}"
