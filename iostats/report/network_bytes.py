"""
By how much the bytes that programs read and wrote differ from those that went over the network.

A cause is named only where a counter shows it; docs/counters.md has those that no counter shows.
"""

from __future__ import annotations

from iostats.base.units import bytes_text, percent_text

TYPE_CHECKING = False
if TYPE_CHECKING:

    from iostats.totals.record import FileSystemRecord


def why_network_differs(fs: FileSystemRecord, units: str) -> list[str]:
    """Sentences on why the application's bytes and the network's differ."""
    application, network = fs.application, fs.network
    either, low = ("~ ", ">= ") if fs.incomplete else ("", "")     # with a node missing
    lines: list[str] = []
    if not {"llite", "osc", "mdc"}.isdisjoint(fs.low):
        return lines                  # the difference may be what one of them misses
    if (not application or not network or network.read_bytes is None
            or network.write_bytes is None):
        return lines
    other = fs.other or {}
    happened = {name for name, row in (fs.operations or {}).items() if row.count}
    asked, came = application.read_bytes, network.read_bytes
    if asked and came < asked:
        lines.append(f"{either}{percent_text((asked - came) / asked)} of what was read did not "
                     "come over the network")
    elif came > asked:
        read_ahead = other.get("read_ahead_bytes")
        parts = [f"{bytes_text(read_ahead, units)} of read-ahead"] if read_ahead else []
        parts += ["mapped files"] if "page_fault" in happened else []
        lines.append(f"{either}{bytes_text(came - asked, units)} more came over the network than "
                     f"was read{_including(parts)}")
    asked, went, dirty = application.write_bytes, network.write_bytes, fs.dirty_bytes
    if dirty:
        lines.append(f"{low}{bytes_text(dirty, units)} were written and not yet sent at the end")
    if went + (dirty or 0) < asked:
        lines.append(f"{either}{bytes_text(asked - went - (dirty or 0), units)} less were sent "
                     f"than written")
    elif went > asked:
        parts = ["mapped files"] if "page_mkwrite" in happened else []
        parts += ["small writes that are not counted"] if "uncounted_write_calls" in other else []
        lines.append(f"{either}{bytes_text(went - asked, units)} more were sent than "
                     f"written{_including(parts)}")
    return lines


def _including(parts: list[str]) -> str:
    """What counters show to be in an amount; nothing where they show nothing."""
    return f", including {' and '.join(parts)}" if parts else ""
