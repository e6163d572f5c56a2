"""
What stands first: was this job slow because of its I/O?  And its most important numbers.

Nothing is claimed that the numbers don't say.  The kernel's times are of all threads of all nodes:
where all of them together are little beside the job's own time, I/O was not it, whichever thread
waited for which; the other way round there is only a share, which grows with the number of threads.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.base.units import bytes_text, count_text, duration_text, percent_text
from iostats.lustre.metrics import operations_in
from iostats.report.why.cause import main_cause
from iostats.report.why.headline import colour, confidence_and_cost, headline
from iostats.report.why.time_in_lustre import time_in_lustre
from iostats.totals.bounds import mark, mark_of_layer, mark_of_ratio, mark_of_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iostats.report.why.cause import Cause
    from iostats.report.why.time_in_lustre import TimeInLustre
    from iostats.totals.record import FileSystemRecord, Record

LITTLE, LARGE = 0.05, 0.3           # of the job's time, and of its nodes' time

Verdict = namedtuple("Verdict", "kind head text")
Verdict.__doc__ = """
The answer.

Attributes:
    kind: "good", "warn", "bad" or "unknown"; a sign and a colour.
    head: a few words.
    text: a sentence, with its numbers.
"""

Tile = namedtuple("Tile", "title text value about share", defaults=("", None))
Tile.__doc__ = """
One of the most important numbers.

Attributes:
    title, text: "Read", ">= 1.3 TiB".
    value: the number itself, for programs; "" where it is not known.
    about: a few words more.
    share: to be shown as a bar, from 0 to 1; None for none.
"""

_IN_WORDS = {">= ": "at least ", "<= ": "up to "}


def answer_of(record: Record, causes: Sequence[Cause] = ()) -> Verdict:
    """The answer, by the main cause where one was found, or else by the record alone."""
    cause = main_cause(causes)
    if cause:
        return Verdict(colour(cause), headline(cause),
                       f"{cause.text}.  {confidence_and_cost(cause)}")
    if causes and causes[0].about.get("too_short"):
        return Verdict("unknown", "Too short to judge", f"{causes[0].text}.")
    coverage, elapsed_s, time = record.coverage, record.job.elapsed_s, time_in_lustre(record)
    if time.seconds is None or time.share is None or not elapsed_s:
        why = time.why_not or "the record has no times"
        return Verdict("unknown", "How long it waited for Lustre is not known",
                       f"{why[0].upper()}{why[1:]}.")
    low, high = time.mark in (">= ", "~ "), time.mark in ("<= ", "~ ")
    took = _IN_WORDS.get(time.mark, time.mark) + _seconds(time.seconds)
    nodes = count_text(coverage.reported, "node")
    whose = f"the {nodes} that reported" if coverage.missing_count else f"its {nodes}"
    text = (f"Its programs spent {took} in Lustre, {time.share_mark}"
            f"{percent_text(time.share, bool(time.share_mark))} of the time of {whose}")
    if time.serial_share <= LITTLE and not low:
        return Verdict("good", "I/O did not make this job slow",
                       f"All its calls to Lustre together took {took}, "
                       f"{percent_text(time.serial_share)} of the {duration_text(elapsed_s)} that "
                       f"it ran.")
    most = max(time.share, time.busiest_share)
    if (low and most < LARGE) or (high and most > LITTLE):
        why = time.why_not or "some numbers are missing"
        return Verdict("unknown", "It cannot be told whether I/O made this job slow",
                       f"{text}; {why}." if time.seconds else f"{why[0].upper()}{why[1:]}.")
    if most <= LITTLE:
        return Verdict("good", "I/O hardly slowed this job",
                       f"{text}; unless most of it waited for the few that did it.")
    if coverage.reported > 1 and time.busiest_share > 2 * time.share and not low:
        text += f", and up to {percent_text(time.busiest_share)} on one node"
    text += f"{_in_what(record, time)}." + (
        "  Threads that wait at the same time each count." if most > 1 else "")
    if most >= LARGE:
        return Verdict("bad", "I/O took much of this job's time", text)
    return Verdict("warn", "I/O took a part of this job's time", text)


def _in_what(record: Record, time: TimeInLustre) -> str:
    """The call that took most of it, and where."""
    (name, call), (_, seconds) = max(time.by_operation.items(), key=lambda one: one[1][1])
    label = next(fs.label for fs in record.file_systems if fs.name == name)
    either = "~ " if time.mark else ""
    return f": {either}{percent_text(seconds / time.seconds)} of that in {call} on {label}"


def tiles_of(record: Record, shown: Sequence[FileSystemRecord], units: str,
             events: int | None) -> list[Tile]:
    """The most important numbers of all file systems together; `events`: how many hit the job."""
    found = [_moved_tile(record, shown, way, units) for way in ("read", "write")]
    counted = [fs for fs in shown if fs.operations is not None]
    count = sum(operations_in(fs.operations or {}) for fs in counted)
    low = _of_sum([mark(fs, "operations") for fs in counted])
    found.append(Tile("Operations", f"{low}{count:,}" if counted else "-",
                      str(count) if counted else "", _most(counted, low)))
    time = time_in_lustre(record)
    if time.seconds is not None and time.share is not None:
        share = f"{percent_text(time.share, bool(time.share_mark))} of node time"
        found.append(Tile("Time in Lustre", f"{time.mark}{_seconds(time.seconds)}",
                          f"{time.seconds:.6f}", time.share_mark + share, time.share))
    balance = _busiest_ost(shown)
    if balance:
        found.append(balance)
    if events:
        found.append(Tile("Events", f"{events:,}", str(events), "warnings and worse"))
    return found


def _moved_tile(record: Record, shown: Sequence[FileSystemRecord], way: str, units: str) -> Tile:
    title, metric = {"read": "Read", "write": "Written"}[way], f"{way}_bytes"
    known = [fs for fs in shown if fs.application is not None
             and fs.application[metric] is not None]
    if not known:
        return _of_servers(record, title, metric, units)
    total = sum(fs.application[metric] for fs in known if fs.application)
    calls = [fs.application[f"{way}_calls"] for fs in known if fs.application]
    low = _of_sum([mark(fs, metric) for fs in known])
    low_calls = _of_sum([mark(fs, f"{way}_calls") for fs in known])
    about = ""
    if calls and None not in calls and sum(calls):
        each = mark_of_ratio(low, low_calls) + bytes_text(total // sum(calls), units)
        about = f"in {low_calls}{count_text(sum(calls), 'call')}, {each} each"
    return Tile(title, low + bytes_text(total, units), str(total), about)


def _of_servers(record: Record, title: str, metric: str, units: str) -> Tile:
    servers = record.harvest.file_systems if record.harvest else []
    if not servers:
        return Tile(title, "-", "", "not known")
    total = sum(fs[metric] for fs in servers)
    low = _of_sum([mark_of_layer(fs) for fs in servers])
    return Tile(title, low + bytes_text(total, units), str(total), "at the storage servers")


def _most(counted: Sequence[FileSystemRecord], low: str) -> str:
    """The operation of which there were most."""
    totals: dict[str, int] = {}
    for fs in counted:
        for name, row in (fs.operations or {}).items():
            totals[name] = totals.get(name, 0) + row.count
    most = max(totals, key=lambda name: totals[name], default="")
    return f"mostly {most} ({low}{totals[most]:,})" if most and totals[most] else ""


def _busiest_ost(shown: Sequence[FileSystemRecord]) -> Tile | None:
    moved = [((fs.network.read_bytes or 0) + (fs.network.write_bytes or 0) if fs.network else 0, fs)
             for fs in shown if fs.balance and fs.balance.busiest_share is not None]
    if not moved:
        return None
    _, fs = max(moved, key=lambda one: one[0])
    balance: Any = fs.balance
    low = mark_of_source(fs, "osc")
    return Tile(f"Busiest OST of {fs.label}"[:60],
                mark_of_ratio(low, low) + percent_text(balance.busiest_share),
                str(balance.busiest_share),
                f"{balance.busiest}; {low}{balance.used:,} of {low}{balance.osts:,} OSTs used",
                balance.busiest_share)


def _of_sum(marks: Sequence[str]) -> str:
    """The mark of a sum."""
    found = set(marks) - {""}
    return found.pop() if len(found) == 1 else "~ " if found else ""


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds < 600 else duration_text(seconds)
