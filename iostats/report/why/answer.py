"""
The answer to `iostats why`: as text on one screen, and as JSON for programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.base.text import draw_bars, measure_width, pad, wrap
from iostats.base.units import format_duration, format_percent
from iostats.report.findings import finding
from iostats.report.newer_release import NOTE
from iostats.report.screen import HEADING, MARK, paint_text
from iostats.report.why import time_in_nfs, time_on_disks, words
from iostats.report.why.cause import (
    UNKNOWN,
    describe_confidence_and_cost,
    format_headline_sentence,
    main_cause,
    make_headline_form,
)
from iostats.report.why.causes import find_causes
from iostats.report.why.known_from import list_sources
from iostats.report.why.like_runs import FEWEST, compare_runs
from iostats.report.why.time_in_lustre import compute_time_in_lustre, sum_server_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.load.time_lines import JobHistory
    from iostats.report.screen import Screen
    from iostats.report.why.cause import Cause
    from iostats.report.why.known_from import KnownFrom
    from iostats.report.why.like_runs import ComparedCall, LikeRuns
    from iostats.report.why.time_in_lustre import TimeInLustre
    from iostats.totals.record import Record

_NARROWEST, _WIDEST = 50, 100       # columns; longer lines are hard to read
_BARS = 48
_CHANGED = 1.3                      # times: when other runs are mentioned
_MOST_COMPARED = 4
_NOTHING = ("No cause found: no target was slow, no fault stopped the job, and no inefficient I/O "
            "pattern was found.")


class WhyAnswer(NamedTuple):
    record: Record          # the job's, labelled
    causes: list[Cause]     # [Cause]; time, like, known: TimeInLustre, LikeRuns, KnownFrom
    time: TimeInLustre
    like: LikeRuns
    known: KnownFrom
    # (began, ended) in seconds since 1970, each None if unknown
    period: tuple[float | None, float | None]


def make_answer(record: Record, history: JobHistory | None, like: Sequence[Record], config: Config,
                why_no_history: str = "") -> WhyAnswer:
    """The WhyAnswer of a record; `why_no_history`: why the site's server has not answered."""
    time = compute_time_in_lustre(record)
    job = record.job
    period = (job.started, job.ended) if job.started is not None else (
        (history.began, history.ended) if history else (None, None))
    return WhyAnswer(record, find_causes(record, history, like, config, why_no_history), time,
                     compare_runs(record, like), list_sources(record, history, why_no_history),
                     period)


def as_form(answer: WhyAnswer) -> dict[str, object]:
    """The answer as JSON: docs/explanation/why.md."""
    record, time, like = answer.record, answer.time, answer.like
    batch, in_nfs, known = record.batch, time_in_nfs.compute_time_in_nfs(record), time.known
    on_disks = time_on_disks.compute_time_on_disks(record)
    return {
        "schema": 1,
        "job": {"id": record.job.id, "user": record.job.user, "name": batch.name if batch else "",
                "cluster": batch.cluster if batch else "", "attempt": record.job.attempt,
                "began": answer.period[0], "ended": answer.period[1],
                "elapsed_s": record.job.elapsed_s, "nodes": record.coverage.expected},
        "time_in_lustre": {"seconds": known and known.seconds,
                           "share_of_nodes": known and known.share,
                           "share_of_busiest_node": known and known.busiest_share,
                           "share_of_tasks": known and known.task_share, "whole": time.is_whole,
                           "why_not": time.why_not,
                           "seconds_at_servers": sum_server_time(record)},
        "time_in_nfs": in_nfs and {"seconds": in_nfs.seconds, "share_of_nodes": in_nfs.share},
        "time_on_disks": on_disks and {"seconds": on_disks[0], "share_of_nodes": on_disks[1]},
        "main_cause": make_headline_form(main_cause(answer.causes)),
        "causes": list(map(finding.as_form, answer.causes)),
        "other_runs": {"runs": like.runs, "factor": like.factor, "elapsed_s": like.elapsed_s,
                       "operations": [call._asdict() for call in like.operations]},
        "known_from": answer.known.there,
        "not_known_from": dict(answer.known.missing)}


# -- text ------------------------------------------------------------------------------------------

def format_answer(answer: WhyAnswer, screen: Screen, labels: dict[str, str],
                  units: str) -> list[str]:
    """The answer as lines for a screen; names in it are made safe."""
    width = max(_NARROWEST, min(screen.width, _WIDEST))
    result = [paint_text(screen, HEADING, line)
              for line in wrap(sanitize(_format_head(answer)), width)]
    main = main_cause(answer.causes)
    if main:
        result += [paint_text(screen, MARK, line)
                   for line in wrap(format_headline_sentence(main), width)]
    result += wrap(sanitize(_describe_share(answer, labels)), width)
    for text in time_on_disks.describe_times_beside_lustre(answer.record):
        result += wrap(sanitize(f"{text[0].upper()}{text[1:]}."), width)
    if not answer.causes:
        result += ["", *wrap(_NOTHING, width)]
    for number, cause in enumerate(answer.causes, 1):
        result.append("")
        result += _format_cause(number, cause, answer, screen, width)
    compared = _format_like_runs(answer.like, labels)
    if compared:
        result += ["", *wrap(sanitize(compared), width)]
    sources = answer.known
    text = f"Known from: {', '.join(sources.there) or 'nothing'}."
    if sources.missing:
        text += f"  Not used: {'; '.join(f'{source} ({why})' for source, why in sources.missing)}."
    result += ["", *wrap(sanitize(text), width)]
    for note in answer.record.notes:
        if note.startswith(NOTE):
            result += wrap(sanitize(f"note: {note}"), width)
    return result


def _format_head(answer: WhyAnswer) -> str:
    record = answer.record
    job, batch, coverage = record.job, record.batch, record.coverage
    about = ", ".join(filter(None, (batch.name if batch else "", job.user or "")))
    text = f"Job {job.id}" + (f" ({about})" if about else "")
    elapsed_s = job.elapsed_s
    began, ended = answer.period
    if elapsed_s is None and began is not None and ended is not None:
        elapsed_s = ended - began
    parts = []
    if elapsed_s is not None:
        parts.append(format_duration(elapsed_s))
    nodes = coverage.expected or coverage.reported
    if nodes:
        parts.append(f"on {nodes} {'node' if nodes == 1 else 'nodes'}")
    text += f": {' '.join(parts)}" if parts else ""
    if answer.period[0] is not None and answer.period[1] is not None:
        form = words.choose_format(*answer.period)
        text += f", {words.format_period(answer.period[0], answer.period[1], form)}"
    return text


def _describe_share(answer: WhyAnswer, labels: dict[str, str]) -> str:
    """Format how much of the time was in Lustre, and in which calls."""
    time: TimeInLustre = answer.time
    known = time.known
    if known is None:
        return f"Time in Lustre: unknown: {time.why_not}.{_describe_server_times(answer)}"
    either = "~ " if time.mark else ""
    text = f"In Lustre: {time.share_mark}{format_percent(known.share)} of node time"
    if known.share > 1:
        text += ", since threads that wait at the same time count each, and a call in another too"
    if time.of_tasks:
        text += f"; {time.of_tasks}"
    whole = sum(seconds for _, seconds in time.by_operation.values())
    longest = sorted(time.by_operation.items(), key=lambda item: (-item[1][1], item[0]))
    several = len({name for name, _ in time.by_operation}) > 1
    parts = [f"{either}{format_percent(seconds / whole)} of it in {operation}"
             + (f" on {labels.get(name, name)}" if several else "")
             + f" ({either}{words.format_time(seconds / calls)} each)"
             for (name, operation), (calls, seconds) in longest[:2]
             if whole and seconds >= 0.1 * whole]
    if parts and known.share >= 0.001:
        text += f"; {words.join_words(parts)}"
    return text + (f" ({time.why_not})." if time.why_not else ".")


def _describe_server_times(answer: WhyAnswer) -> str:
    """A sentence with the storage servers' times, if the nodes have none."""
    seconds, elapsed_s = sum_server_time(answer.record), answer.record.job.elapsed_s
    if seconds is None:
        return ""
    share = f", at most {format_percent(seconds / elapsed_s)} of the run time" if (
        elapsed_s and seconds < elapsed_s) else ""
    worked = words.format_elapsed(seconds)
    return f"  The storage servers worked on its requests for {worked}{share}."


def _format_cause(number: int, cause: Cause, answer: WhyAnswer, screen: Screen,
                  width: int) -> list[str]:
    indent = "   "
    first, *more = wrap(sanitize(f"{number}. {cause.text}"), width, indent)
    result = [paint_text(screen, HEADING, first),
              *(paint_text(screen, HEADING, line) for line in more)]
    if cause.kind != UNKNOWN:
        result += [indent + paint_text(screen, MARK, part) for part in wrap(
            describe_confidence_and_cost(cause), width - len(indent))]
    series = cause.about.get("series")
    if series:
        result += _draw_series(series, answer.period, screen, width - len(indent), indent)
    for line in cause.evidence:
        result += [f"{indent}{part}" for part in wrap(f"- {sanitize(line)}", width - len(indent))]
    return result


def _draw_series(series: dict[str, Any], period: tuple[float | None, float | None], screen: Screen,
                 width: int, indent: str) -> list[str]:
    """Bars of the target's latency, the job's load and the others', on one axis of time."""
    began, every_s = series["began"], series["every_s"]
    count = len(series["latency_us"])
    first, last = 0, count
    if period[0] is not None and period[1] is not None:
        first = max(0, int((period[0] - began) / every_s))
        last = min(count, max(first + 1, int(-(-(period[1] - began) // every_s))))
    columns = max(8, min(_BARS, width - 33))
    step = -(-(last - first) // columns)
    rows = []
    for title, name, per in (("time of a request", "latency_us", 0), ("its own load", "own", 1),
                             ("load of others", "others", 1)):
        amounts = series[name][first:last]
        values = [_compute_mean(amounts[place:place + step])
                  for place in range(0, len(amounts), step)]
        top = max((value for value in values if value is not None), default=0)
        scaled = [0 if value is None or not top else max(1, round(1000 * value / top))
                  if value > 0 else 0 for value in values]
        drawn = draw_bars(scaled, len(scaled), screen.is_ascii)
        drawn = "".join("?" if value is None and name != "latency_us" else bar
                        for value, bar in zip(values, drawn))
        peak = f"{words.format_load(top / every_s)}/s" if per else words.format_time(top / 1e6)
        rows.append(f"{indent}{pad(title, 17)} |{drawn}| {peak if top else '-'}")
    form = words.choose_format(began + first * every_s, began + last * every_s)
    left, right = (words.format_moment(began + place * every_s, form) for place in (first, last))
    room = len(range(first, last, step)) + 2 - measure_width(left) - measure_width(right)
    rows.append(f"{indent}{' ' * 18}{left}{' ' * max(1, room)}{right} highest")
    return rows


def _compute_mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _format_like_runs(like: LikeRuns, labels: dict[str, str]) -> str:
    if like.runs == 0:
        return ""
    runs = "1 other run" if like.runs == 1 else f"its last {like.runs} runs"
    if like.factor is None:
        return (f"Compared with {runs}: that is not enough, or their calls are not timed "
                f"({FEWEST} are needed).")
    changed = [call for call in like.operations
               if call.factor >= _CHANGED or call.factor <= 1 / _CHANGED][:_MOST_COMPARED]
    several = len({call.file_system for call in like.operations}) > 1
    parts = [_format_comparison(call, labels, several) for call in changed]
    text = f"Compared with {runs} (medians): "
    text += "; ".join(parts) if parts else "its calls took as long as they usually do"
    return text + (f"; such a run takes {format_duration(like.elapsed_s)}" if like.elapsed_s else ""
                   ) + "."


def _format_comparison(call: ComparedCall, labels: dict[str, str], several: bool) -> str:
    where = f" on {labels.get(call.file_system, call.file_system)}" if several else ""
    return (f"{call.operation}{where} took {words.format_factor(call.factor)} its usual "
            f"{words.format_time(call.usual_s)}")
