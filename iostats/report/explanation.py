"""The texts of --explain: the meaning of each number of a report, and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.units import format_amount, format_count
from iostats.lustre.metric_meanings import EXPLAIN_ALWAYS, METRICS
from iostats.report.accounting_comment import OTHERS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from iostats.base.config import Config
    from iostats.lustre.metric_meanings import Metric
    from iostats.totals.record import FileSystemRecord


def explain_report(shown: list[FileSystemRecord], config: Config) -> list[str]:
    """Explain each number of this report, from metric_meanings.METRICS."""
    happened = {name for fs in shown for name in fs.operations or {}} - {OTHERS}
    happened.update(config.report.columns)
    lines = ["What the numbers count:"]
    lines += [f"  {metric.name}: {metric.meaning}{' ' + metric.caveat if metric.caveat else ''} "
              f"({metric.source} {metric.counter}, {metric.takes}; {metric.unit})"
              for metric in select_metrics(happened)]
    lines += [f"  {name}: unknown to this release of iostats; the kernel's counter of that name"
              for name in sorted(happened - {metric.name for metric in METRICS})]
    return lines + [f"  {line}" for line in explain_all_numbers(shown)]


def select_metrics(happened: Collection[str]) -> list[Metric]:
    """The METRICS that are explained: of operations those that `happened`, and all others."""
    return [metric for metric in METRICS if metric.unit != "calls"
            or metric.name.endswith("_calls") or metric.name in happened]


def explain_all_numbers(shown: list[FileSystemRecord]) -> list[str]:
    """Explain the limits of all numbers of these file systems, a sentence or two each."""
    lines = [*EXPLAIN_ALWAYS, *_explain_idle_io(shown)]
    unproved = sorted({fs.label for fs in shown if fs.unproved})
    if unproved:
        lines.append(f"On {', '.join(unproved)} the counter files show no start time (Lustre up "
                     f"to 2.14, 2.15.0, 2.15.1, or switched off): a clear that was followed by "
                     f"more work than before it is not detectable on this release.")
    return lines


def _explain_idle_io(shown: list[FileSystemRecord]) -> Iterable[str]:
    """Explain whether the nodes' own I/O is known."""
    names = ", ".join(fs.label for fs in shown if fs.idle is None)
    if names:
        yield (f"How much of the numbers on {names} is the nodes' own I/O (daemons, health checks) "
               f"is unknown: no prolog and epilog measured these nodes without a job.")
    for fs, idle in ((fs, fs.idle) for fs in shown):
        if idle is not None:
            parts = ", ".join(f"{metric} {format_amount(metric, value)}"
                              for metric, value in idle.expected.items())
            yield (f"Of the numbers on {fs.label} the nodes' own I/O (daemons, health checks) is "
                   f"about: {parts or 'nothing'}; measured on "
                   f"{format_count(idle.nodes, 'node')} in {idle.seconds:.0f} seconds without a "
                   f"job.")
