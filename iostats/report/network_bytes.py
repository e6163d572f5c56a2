"""
The difference between the bytes that programs moved and those that went over the network.

A cause is named only where a counter shows it; docs/reference/counters.md has those that no counter
shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.units import format_bytes, format_percent
from iostats.totals.bounds import LUSTRE

if TYPE_CHECKING:

    from iostats.totals.record import FileSystemRecord


def explain_network_bytes(fs: FileSystemRecord, units: str) -> list[str]:
    """Sentences on why the application's bytes and the network's differ."""
    application, network = fs.application, fs.network
    either, low = ("~ ", ">= ") if fs.incomplete else ("", "")     # with a node missing
    lines: list[str] = []
    if not {"llite", "osc", "mdc"}.isdisjoint(fs.low):
        return lines                  # the difference may be what one of them misses
    if (not application or not network or network.read_bytes is None
            or network.write_bytes is None):
        return lines
    if fs.kind != LUSTRE and (fs.low or fs.too_high or network.lower_bound):
        return lines                  # NFS with O_DIRECT, with pNFS, or mounted again
    counts = fs.other or {}
    happened = {name for name, row in (fs.operations or {}).items() if row.count}
    calls, net = application.read_bytes, network.read_bytes
    if calls and net < calls:
        lines.append(f"{either}{format_percent((calls - net) / calls)} of what was read did not "
                     "come over the network")
    elif net > calls:
        read_ahead = counts.get("read_ahead_bytes")
        parts = [f"{format_bytes(read_ahead, units)} of read-ahead"] if read_ahead else []
        parts += ["mapped files"] if "page_fault" in happened else []
        lines.append(f"{either}{format_bytes(net - calls, units)} more came over the network than "
                     f"was read{_format_including(parts)}")
    calls, net, dirty = application.write_bytes, network.write_bytes, fs.dirty_bytes
    if dirty:
        lines.append(f"{low}{format_bytes(dirty, units)} were written and not yet sent at the end")
    if net + (dirty or 0) < calls:
        lines.append(f"{either}{format_bytes(calls - net - (dirty or 0), units)} less were sent "
                     f"than written")
    elif net > calls:
        parts = ["mapped files"] if "page_mkwrite" in happened else []
        parts += ["small writes that are not counted"] if "uncounted_write_calls" in counts else []
        lines.append(f"{either}{format_bytes(net - calls, units)} more were sent than "
                     f"written{_format_including(parts)}")
    return lines


def _format_including(parts: list[str]) -> str:
    """Format the parts of an amount that counters show; "" if none does."""
    return f", including {' and '.join(parts)}" if parts else ""
