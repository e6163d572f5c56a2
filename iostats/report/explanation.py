"""
What --explain says of a report: what each of its numbers is, and is not.
"""

from __future__ import annotations

from iostats.lustre.metric_meanings import EXPLAIN_ALWAYS, METRICS
from iostats.report.accounting_comment import OTHERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.totals.record import FileSystemRecord


def lines(shown: list[FileSystemRecord], config: Any) -> list[str]:
    """What each number of this report is, and is not; from metric_meanings.METRICS."""
    happened = {name for fs in shown for name in fs.operations or {}} - {OTHERS}
    happened.update(config["report.columns"])
    lines = ["What the numbers count:"]
    for metric in METRICS:
        if (metric.unit != "calls" or metric.name.endswith("_calls")
                or metric.name in happened):
            lines.append(f"  {metric.name}: {metric.meaning}"
                         f"{' ' + metric.caveat if metric.caveat else ''} "
                         f"({metric.source} {metric.counter}, {metric.takes}; {metric.unit})")
    lines += [f"  {name}: not known to this release of iostats; the kernel's counter of that name"
              for name in sorted(happened - {metric.name for metric in METRICS})]
    lines += [f"  {line}" for line in EXPLAIN_ALWAYS]
    unproved = sorted({fs.label for fs in shown if fs.unproved})
    if unproved:
        lines.append(f"  On {', '.join(unproved)} the counter files show no start time (Lustre up "
                     f"to 2.14, 2.15.0, 2.15.1, or switched off): a clear that was followed by "
                     f"more work than before it is not detectable on this release.")
    return lines
