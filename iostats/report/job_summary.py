"""
A job's record in short: the numbers that `iostats jobs` lists, stored beside the record, so that a
query over 100,000 jobs reads one index.

ReadBytes, WriteBytes, Opens, Creates and Operations are what programs asked Lustre for, as the
nodes have reported it; of a job of which no node has, what the storage servers counted for it
(`source` says which).  Bounds of what its nodes did are never in these: they have members of their
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iostats.lustre.metrics import count_all_operations, is_operation
from iostats.report import event_tables
from iostats.report.accounting_comment import OTHERS
from iostats.report.job_fields import BY_NODE, EXPORTS, NODES, OF_PROGRAMS, SERVERS
from iostats.report.job_numbers import list_bounds
from iostats.totals.bounds import list_too_low_numbers
from iostats.totals.kinds import BY_SOURCE, KINDS, measure_bytes
from iostats.totals.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    from iostats.totals.record import (
        FileSystemRecord,
        NodesRecord,
        OperationRow,
        ServersFileSystem,
        TimedCount,
    )

    FsT = TypeVar("FsT", FileSystemRecord, ServersFileSystem)

_MOST = 2**63 - 1                   # what SQLite can keep as an integer
_LONGEST_NAME = 256

class Summary(NamedTuple):
    """
    A job's record in short, as SQLite keeps it: text "" and number None if unknown; the
    members are those of job_fields.FIELDS.
    """

    account: str = ""
    partition: str = ""
    name: str = ""
    outcome: str = ""
    exit_code: str = ""
    started: float | None = None
    ended: float | None = None
    elapsed_s: float | None = None
    nodes: int | None = None
    reported: int = 0
    shared: int = 0
    file_systems: str = ""          # names with commas between
    source: str = ""
    read_bytes: int | None = None
    write_bytes: int | None = None
    opens: int | None = None
    creates: int | None = None
    operations: int | None = None
    lower_bound: int = 0            # bits that `split_bits` knows
    net_read_bytes: int | None = None
    net_write_bytes: int | None = None
    net_lower_bound: int = 0        # 0 or 1, as the next of these and `final`
    server_read_bytes: int | None = None
    server_write_bytes: int | None = None
    server_operations: int | None = None
    server_lower_bound: int = 0
    final: int = 1
    # began, over: when it ran as far as it was seen, by its nodes or else by the storage servers,
    # to find it by
    began: float | None = None
    over: float | None = None
    by_node_read_bytes: int | None = None
    by_node_read_bytes_max: int | None = None
    by_node_write_bytes: int | None = None
    by_node_write_bytes_max: int | None = None
    by_node_operations: int | None = None
    by_node_operations_max: int | None = None
    by_node_why: str = ""
    events: int | None = None
    data_lost: str = ""
    nfs_read_bytes: int | None = None
    nfs_write_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_write_bytes: int | None = None
    gpfs_read_bytes: int | None = None
    gpfs_write_bytes: int | None = None
    cephfs_read_bytes: int | None = None
    cephfs_write_bytes: int | None = None


class FileSystemSummary(NamedTuple):
    """
    The amounts of a job in one file system, as counted by `source`, which is that of its Summary;
    `lower_bound`: bits as of a Summary.
    """

    file_system: str
    source: str
    read_bytes: int | None
    write_bytes: int | None
    opens: int | None
    creates: int | None
    operations: int | None
    lower_bound: int


class TargetSummary(NamedTuple):
    """
    The amounts of a job at one target: `net_` as its nodes counted them, `server_` as the target
    did; a `lower_bound` is 0 or 1.
    """

    file_system: str
    target: str
    net_read_bytes: int | None
    net_write_bytes: int | None
    net_lower_bound: int
    server_read_bytes: int | None
    server_write_bytes: int | None
    server_operations: int | None
    server_lower_bound: int


# What is not Lustre's.
NOT_LUSTRE = tuple(f"{kind.name}_{metric}" for kind in KINDS
                   for metric in ("read_bytes", "write_bytes"))
# Bits of `lower_bound`: all of these may be too low, or one alone; one may be too high.
_ALL_LOW, _ALONE, _HIGH = 1, {"read_bytes": 2, "write_bytes": 4}, {"write_bytes": 8}
SOME_LOW = _ALL_LOW | sum(_ALONE.values())
_BESIDE = dict(zip(NOT_LUSTRE, (1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 12, 1 << 13,
                                1 << 16, 1 << 17)))
_HIGH.update(zip(NOT_LUSTRE, (1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 14, 1 << 15,
                              1 << 18, 1 << 19)))
# Number -> (its bits for "may be too low", for "too high"), of what is not Lustre's.
BITS = {name: (_BESIDE[name], _HIGH[name]) for name in NOT_LUSTRE}


def split_bits(bits: int) -> tuple[list[str], list[str]]:
    """Return (names of numbers that may be too low, too high) from the bits of a Summary."""
    low = (OF_PROGRAMS if bits & _ALL_LOW else
           [name for name, bit in _ALONE.items() if bits & bit])
    return ([*low, *(name for name, bit in _BESIDE.items() if bits & bit)],
            [name for name, bit in _HIGH.items() if bits & bit])


def make_bits(too_low: Iterable[str], too_high: Iterable[str]) -> int:
    """Encode two lists of names as bits; `split_bits` decodes them."""
    low, high = set(too_low), set(too_high)
    alone = _BESIDE if "operations" in low else {**_ALONE, **_BESIDE}
    return (_ALL_LOW * ("operations" in low)
            | sum(bit for name, bit in _HIGH.items() if name in high)
            | sum(bit for name, bit in alone.items() if name in low))


# -- from a record -----------------------------------------------------------------------------

def make_summary(form: Mapping[str, object]) -> Summary:
    """The Summary of the record in the JSON object `form`."""
    record = Record.of(form)
    job, coverage = record.job, record.coverage
    batch, harvest, imported = record.batch, record.harvest, record.imported
    outside = harvest or imported
    nodes, servers = record.lustre, harvest.file_systems if harvest else []
    by_nodes = _sum_nodes(nodes)
    by_servers = _sum_servers(servers, bool(harvest and harvest.lower_bound))
    by_node, not_lustre = _sum_exports(record.by_node), _sum_not_lustre(record.file_systems)
    source = (NODES if coverage.reported else SERVERS if servers else
              EXPORTS if by_node.get("by_node_read_bytes") is not None else "")
    shown = by_servers if source == SERVERS else by_nodes
    network = [fs.network for fs in nodes]
    net = {metric: [io[metric] if io else None for io in network]
           for metric in ("read_bytes", "write_bytes")}
    network_bytes, net_low = _add_up(net, any(io and io.lower_bound for io in network))
    return Summary(
        account=batch.account if batch else "", partition=batch.partition if batch else "",
        name=batch.name[:_LONGEST_NAME] if batch else "", outcome=batch.outcome if batch else "",
        exit_code=_format_exit_code(batch.exit_status, batch.exit_signal) if batch else "",
        started=job.started, ended=job.ended,
        elapsed_s=(harvest.ended - harvest.began or None) if source == SERVERS and harvest and (
            job.elapsed_s is None) else job.elapsed_s,
        nodes=coverage.expected, reported=coverage.reported,
        shared=len(coverage.shared),
        file_systems=",".join(sorted({
            *(fs.name for fs in nodes), *(fs.name for fs in servers),
            *(fs.name for fs in (imported.file_systems if imported else ())),
            *(fs.name for fs in (record.by_node.file_systems if record.by_node else ()))})),
        source=source, **{name: shown[name] for name in OF_PROGRAMS},
        lower_bound=shown["lower_bound"] | not_lustre.pop("bits"), **not_lustre,
        net_read_bytes=network_bytes["read_bytes"],
        net_write_bytes=network_bytes["write_bytes"],
        net_lower_bound=net_low,
        server_read_bytes=by_servers["read_bytes"], server_write_bytes=by_servers["write_bytes"],
        server_operations=by_servers["operations"],
        server_lower_bound=by_servers["lower_bound"],
        final=int(harvest.final if harvest else True),
        began=outside.began if job.started is None and outside else job.started,
        over=outside.ended if job.ended is None and outside else job.ended, **by_node,
        events=event_tables.count_events(record), data_lost=event_tables.find_data_loss(record))


def summarize_file_systems(form: Mapping[str, object], source: str) -> list[FileSystemSummary]:
    """
    Return a FileSystemSummary for each file system of the record in `form`; `source`: of its
    Summary.
    """
    record = Record.of(form)
    harvest, by_node = record.harvest, record.by_node
    sums: dict[str, dict[str, Any]] = {}
    if source == NODES:
        sums = {name: _sum_nodes(parts) for name, parts in _group_by_name(record.lustre).items()}
    elif source == SERVERS and harvest:
        sums = {name: _sum_servers(parts, harvest.lower_bound)
                for name, parts in _group_by_name(harvest.file_systems).items()}
    elif source == EXPORTS and by_node:                           # bounds are no amounts
        sums = {fs.name: {**dict.fromkeys(OF_PROGRAMS), "lower_bound": 0}
                for fs in by_node.file_systems}
    return [FileSystemSummary(name, source, **amounts) for name, amounts in sorted(sums.items())]


def _group_by_name(file_systems: Sequence[FsT]) -> dict[str, list[FsT]]:
    by_name: dict[str, list[FsT]] = {}
    for fs in file_systems:
        by_name.setdefault(fs.name, []).append(fs)
    return by_name


def summarize_targets(form: Mapping[str, object]) -> list[TargetSummary]:
    """Return a TargetSummary for each target with amounts in the record in `form`."""
    record = Record.of(form)
    harvest = record.harvest
    is_low = harvest is not None and (harvest.lower_bound or not harvest.final)
    here = {(fs.name, target): (values, fs.network) for fs in record.lustre
            for target, values in fs.targets.items()}
    there = {(fs.name, target): (values, int(bool(fs.lower_bound or is_low)))
             for fs in (harvest.file_systems if harvest else ())
             for target, values in fs.targets.items()}
    rows: list[TargetSummary] = []
    for name, target in sorted({*here, *there}):
        row = TargetSummary(name, target, None, None, 0, None, None, None, 0)
        no_values: dict[str, int] = {}
        values, network = here.get((name, target), (no_values, None))
        if network is not None and network.read_bytes is not None:
            row = row._replace(net_read_bytes=min(values.get("read_bytes", 0), _MOST),
                               net_write_bytes=min(values.get("write_bytes", 0), _MOST),
                               net_lower_bound=int(network.lower_bound))
        if (name, target) in there:
            values, low = there[name, target]
            operations = sum(count for metric, count in values.items() if is_operation(metric))
            row = row._replace(server_read_bytes=min(values.get("read_bytes", 0), _MOST),
                               server_write_bytes=min(values.get("write_bytes", 0), _MOST),
                               server_operations=min(operations, _MOST), server_lower_bound=low)
        if any(row[at] for at in (2, 3, 5, 6, 7)):
            rows.append(row)
    return rows


def _sum_exports(nodes: NodesRecord | None) -> dict[str, Any]:
    """Add up the lower and the upper bounds of the I/O of the job's nodes over all file systems."""
    if nodes is None or nodes.why_none:
        return {"by_node_why": nodes.why_none if nodes else ""}
    sums: dict[str, Any] = {"by_node_why": ""}
    pairs: dict[str, list[tuple[int, int | None]]] = {}
    for fs in nodes.file_systems:
        for metric, low, high in list_bounds(fs):
            pairs.setdefault(metric, []).append((low, high))
    for metric in BY_NODE:
        lows = [low for low, _ in pairs.get(metric, ())]
        highs = [high for _, high in pairs.get(metric, ())]
        upper = sum(high for high in highs if high is not None)
        sums[f"by_node_{metric}"] = min(sum(lows), _MOST) if lows else None
        sums[f"by_node_{metric}_max"] = upper if lows and None not in highs and (
            upper <= _MOST) else None
    return sums


def _sum_nodes(file_systems: list[FileSystemRecord]) -> dict[str, Any]:
    """Add up the I/O of programs over all file systems."""
    numbers: dict[str, list[int | None]] = {
        name: [fs.application[name] if fs.application else None for fs in file_systems]
        for name in ("read_bytes", "write_bytes")}
    operations = [fs.operations for fs in file_systems]
    numbers["opens"] = [_count_calls(rows, "open") for rows in operations]
    numbers["creates"] = [_count_calls(rows, "create") for rows in operations]
    numbers["operations"] = [None if rows is None else count_all_operations(rows)
                             for rows in operations]
    too_low = {name for fs in file_systems for name in list_too_low_numbers(fs)}
    sums, low = _add_up(numbers, "operations" in too_low)
    return {**sums, "lower_bound": make_bits(too_low | ({"operations"} if low else set()), {
        name for fs in file_systems for name in fs.too_high})}


def _sum_not_lustre(file_systems: list[FileSystemRecord]) -> dict[str, Any]:
    """Add up the bytes by kind of file systems, without Lustre; `bits` has their marks."""
    sums: dict[str, Any] = {}
    low: set[str] = set()
    high: set[str] = set()
    for fs in file_systems:
        kind = BY_SOURCE.get(fs.kind)
        for metric in ("read_bytes", "write_bytes") if kind in KINDS else ():
            known = measure_bytes(fs, metric)
            if known is None or kind is None:
                continue
            amount, is_low, is_high = known
            name = f"{kind.name}_{metric}"
            sums[name] = min(sums.get(name, 0) + amount, _MOST)
            low.update({name} if is_low else ())
            high.update({name} if is_high else ())
    return {**sums, "bits": make_bits(low, high)}


def _count_calls(operations: Mapping[str, OperationRow | TimedCount] | None,
                 name: str) -> int | None:
    """Return how often an operation was called; None if unknown."""
    if operations is None or (name not in operations and OTHERS in operations):
        return None
    return operations[name].count if name in operations else 0


def _sum_servers(file_systems: Sequence[ServersFileSystem], low: bool) -> dict[str, Any]:
    """Add up the storage servers' counts for the job over all file systems."""
    numbers: dict[str, list[int | None]] = {
        "read_bytes": [fs.read_bytes for fs in file_systems],
        "write_bytes": [fs.write_bytes for fs in file_systems]}
    # Opens are counted by MDTs: where none has seen the job, it may be that none is harvested.
    numbers["opens"] = [_count_calls(fs.operations if any(target.startswith("MDT") for target in
                                                          fs.get("targets", ())) else None, "open")
                        for fs in file_systems]
    numbers["operations"] = [count_all_operations(fs.operations) for fs in file_systems]
    sums, is_low = _add_up(numbers, low or any(fs.lower_bound for fs in file_systems))
    # An OST's `create` makes objects, before any file needs them.
    return {**sums, "creates": None, "lower_bound": is_low}


def _add_up(columns: Mapping[str, Sequence[int | None]],
            low: bool) -> tuple[dict[str, int | None], int]:
    """Return ({name: sum of its known values, or None}, 1 if one of the sums may be too low)."""
    sums = {}
    for name, values in columns.items():
        numbers = [value for value in values if value is not None]
        sums[name] = min(sum(numbers), _MOST) if numbers else None
        low = low or 0 < len(numbers) < len(values) or sum(numbers) > _MOST
    return sums, int(bool(low))


def _format_exit_code(status: int | None, signal: int | None) -> str:
    return "" if status is None and signal is None else f"{status or 0}:{signal or 0}"
