"""
Why the bytes that programs read and wrote differ from those that went over the network.
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
    happened = {name for name, row in (fs.operations or {}).items() if row.count}
    # Not counted since 2.14, which is the first to have a line for read() and write().
    libaio = ["libaio or io_uring with O_DIRECT"] if fs.calls else []
    asked, came = application.read_bytes, network.read_bytes
    if asked and came < asked:
        lines.append(f"{either}{percent_text((asked - came) / asked)} of what was read did not "
                     "come over the network"
                     f"{_may_be(['from the page cache', 'holes in files'])}")
    elif came > asked:
        whys = (["whole pages", "read-ahead"] if asked else [])
        whys += ["pages that were written in part"] if application.write_calls else []
        whys += ["mapped files"] if "page_fault" in happened else []
        lines.append(f"{either}{bytes_text(came - asked, units)} more came over the network than "
                     f"was read{_may_be([*whys, *libaio])}")
    asked, went = application.write_bytes, network.write_bytes
    dirty, other = fs.dirty_bytes, fs.other or {}
    if dirty:
        lines.append(f"{low}{bytes_text(dirty, units)} were written and not yet sent at the end")
    if went + (dirty or 0) < asked:
        whys = ["overwritten or removed before it was sent"]
        whys += ["not yet sent at the end"] * (dirty is None)
        whys += ["discarded by an eviction"] * bool(other.get("evictions"))
        lines.append(f"{either}{bytes_text(asked - went - (dirty or 0), units)} less were sent "
                     f"than written{_may_be(whys)}")
    elif went > asked:
        whys = ["what was in memory at the start", *libaio]
        whys[:0] = ["small writes that are not counted"] * ("uncounted_write_calls" in other)
        whys[:0] = ["mapped files"] * ("page_mkwrite" in happened)
        lines.append(f"{either}{bytes_text(went - asked, units)} more were sent than "
                     f"written{_may_be(whys)}")
    return lines


def _may_be(whys: list[str]) -> str:
    """Possible reasons in parentheses; no counter tells which of them it is."""
    return f" (it may be {'; or '.join(whys)})" if whys else ""
