"""
The text of every counter file, as Lustre prints it; pure functions, nothing is read.

    stats       read_bytes                23 samples [bytes] 4096 1048576 11534336
    rpc_stats   16:\t\t        11  64  64   |         11  73  73

Sources: lprocfs_stats_seq_show() and lprocfs_stats_header() in
lustre/obdclass/lprocfs_status.c, osc_rpc_stats_seq_show() in lustre/osc/lproc_osc.c,
mdc_rpc_stats_seq_show() and obd_mod_rpc_stats_seq_show(); 2.10 to 2.17.
"""
from __future__ import annotations

from .counters import PRINTS_SUM, PRINTS_SUMSQ, CounterFile, Release, RpcHistograms

MAX_S64 = (1 << 63) - 1


def stats(file: CounterFile, release: Release, now_ns: int) -> str:
    """A `stats` or `md_stats` file; counters without samples have no line."""
    width = release.name_width
    lines = [f"{'snapshot_time':<{width}} {_seconds(now_ns)} secs.nsecs"]
    if release.shows_start:
        lines.append(f"{'start_time':<{width}} {_seconds(file.start_ns)} secs.nsecs")
        lines.append(f"{'elapsed_time':<{width}} {_seconds(now_ns - file.start_ns)} secs.nsecs")
    for name, (unit, prints) in file.table.items():
        counter = file.counters.get(name)
        if counter is None:
            continue
        line = f"{name:<{width}} {counter.samples} samples [{unit}]"
        if prints >= PRINTS_SUM:
            line += f" {counter.min} {counter.max} {sum_of(counter.sum, release)}"
        if prints >= PRINTS_SUMSQ:
            line += f" {sumsq_of(counter.sumsq, release)}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def osc_rpc_stats(file: RpcHistograms, release: Release, now_ns: int) -> str:
    dio = ["DIO RPCs in flight: 0"] if release.rpc_latency else []
    lines = (histogram_header(file, release, now_ns)
             + ["read RPCs in flight:  0", "write RPCs in flight: 0"] + dio
             + ["pending write pages:  0", "pending read pages:   0"]
             + _bulk_sections(file, release, "%"))
    if release.rpc_latency:
        lines += _section(file, "latency", "RPC latency (us)       count", "%", 0, _zero_or_log2)
    return "\n".join(lines) + "\n"


def mdc_rpc_stats(file: RpcHistograms, release: Release, now_ns: int) -> str:
    """First the modifying RPCs, in one column; since 2.11 the (idle) bulk sections as well."""
    percent = release.mdc_percent
    lines = histogram_header(file, release, now_ns) + [
        "modify_RPCs_in_flight:  0", "", "\t\t\tmodify",
        f"rpcs in flight        rpcs   {percent} cum {percent}"]
    lines += [f"{row}:\t\t{column}" for row, column in _column(file, ("flight", "modify"), 0)]
    if release.mdc_bulk:
        idle = RpcHistograms(start_known=True)
        lines += ["", "read RPCs in flight:  0", "write RPCs in flight: 0",
                  "pending write pages:  0", "pending read pages:   0"]
        lines += _bulk_sections(idle, release, percent)
    return "\n".join(lines) + "\n"


def state(history: list) -> str:
    """The last of (seconds, state) is the one of now; sixteen are kept."""
    return (f"current_state: {history[-1][1]}\nstate_history:\n"
            + "".join(f" - [ {seconds}, {name} ]\n" for seconds, name in history[-16:]))


def mounts(mount_point: str, file_systems) -> str:
    """The Lustre lines of /proc/mounts; a blank is \\040 there."""
    where = mount_point.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
    return "".join(
        f"10.77.0.1@tcp:/{fs} {where}/{fs} lustre rw,checksum,flock,user_xattr,lruresize,"
        "lazystatfs,nouser_fid2path,verbose,noencrypt 0 0\n" for fs in file_systems)


def _seconds(ns: int) -> str:
    return f"{ns // 10**9}.{ns % 10**9:09d}"


def sum_of(value: int, release: Release) -> int:
    if release.saturates:
        return min(value, MAX_S64)
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)          # %lld of a wrapped s64


def sumsq_of(value: int, release: Release) -> int:
    return min(value, MAX_S64) if release.saturates else value % (1 << 64)      # %llu


def histogram_header(file, release: Release, now_ns: int) -> list:
    """Of a file of histograms, with `start_ns`."""
    if not release.shows_start:
        return [f"snapshot_time:         {_seconds(now_ns)} (secs.nsecs)"]
    return [f"{'snapshot_time:':<25} {_seconds(now_ns)} secs.nsecs",
            f"{'start_time:':<25} {_seconds(file.start_ns)} secs.nsecs",
            f"{'elapsed_time:':<25} {_seconds(now_ns - file.start_ns)} secs.nsecs"]


def _bulk_sections(file: RpcHistograms, release: Release, percent: str) -> list:
    return (_section(file, "pages", "pages per rpc         rpcs", percent, 0, lambda r: 1 << r)
            + _section(file, "flight", "rpcs in flight        rpcs", percent,
                       release.first_in_flight, lambda r: r)
            + _section(file, "offset", "offset                rpcs", percent, 0, _zero_or_log2))


def _zero_or_log2(row: int) -> int:
    return 1 << (row - 1) if row else 0


def _section(file, section, title, percent, first_row, label) -> list:
    """
    Title and rows of one histogram with a read and a write column, up to the row where both
    have reached their totals; an idle one has a single row of zeros.
    """
    words = title.split()[-1]                                   # "rpcs", or "count"
    lines = ["", "\t\t\tread\t\t\twrite",
             f"{title}   {percent} cum {percent} |       {words}   {percent} cum {percent}"]
    last = max([first_row, *file.rows.get((section, "read"), ()),
                *file.rows.get((section, "write"), ())])
    reads = _column(file, (section, "read"), first_row, last)
    writes = _column(file, (section, "write"), first_row, last)
    lines += [f"{label(row)}:\t\t{read}   | {write}"
              for (row, read), (_, write) in zip(reads, writes)]
    return lines


def _column(file: RpcHistograms, key, first_row: int, last_row: int = 0) -> list:
    """(row, "count percent cumulated-percent") for each row; percents are cut off, not rounded."""
    rows = file.rows.get(key, {})
    total = sum(rows.values())
    cells, so_far = [], 0
    for row in range(first_row, max([last_row, first_row, *rows]) + 1):
        count = rows.get(row, 0)
        so_far += count
        percents = [100 * n // total if total else 0 for n in (count, so_far)]
        cells.append((row, f"{count:10d} {percents[0]:3d} {percents[1]:3d}"))
    return cells
