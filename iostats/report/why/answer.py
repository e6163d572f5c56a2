"""
The answer to `iostats why`: as text on one screen, and as JSON for programs.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.base.errors import one_line
from iostats.base.text import bars, padded, width_of, wrapped
from iostats.base.units import duration_text, percent_text
from iostats.report.advice import finding
from iostats.report.newer_release import NOTE
from iostats.report.screen import HEADING, MARK, painted
from iostats.report.why import headline, words
from iostats.report.why.cause import UNKNOWN, main_cause
from iostats.report.why.causes import causes_of
from iostats.report.why.known_from import known_of
from iostats.report.why.like_runs import FEWEST, like_runs
from iostats.report.why.time_in_lustre import seconds_at_servers, time_in_lustre

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iostats.load.time_lines import JobHistory
    from iostats.report.screen import Screen
    from iostats.report.why.cause import Cause
    from iostats.report.why.like_runs import ComparedCall, LikeRuns
    from iostats.report.why.time_in_lustre import TimeInLustre
    from iostats.totals.record import Record

_NARROWEST, _WIDEST = 50, 100       # columns; longer lines are hard to read
_BARS = 48
_CHANGED = 1.3                      # times: what is said of other runs
_MOST_COMPARED = 4
_NOTHING = ("No cause found: no target was slow, no fault stopped the job, and no inefficient I/O "
            "pattern was found.")

WhyAnswer = namedtuple("WhyAnswer", "record causes time like known period")
WhyAnswer.__doc__ = """
Attributes:
    record: the job's, labelled.
    causes: [Cause]; time, like, known: TimeInLustre, LikeRuns, KnownFrom.
    period: (began, ended) in seconds since 1970, each None where it is not known.
"""


def answer_of(record: Record, history: JobHistory | None, like: Sequence[Record], config: Any,
              why_no_history: str = "") -> WhyAnswer:
    """The WhyAnswer of a record; `why_no_history`: why the site's server has not answered."""
    time = time_in_lustre(record)
    job = record.job
    period = (job.started, job.ended) if job.started is not None else (
        (history.began, history.ended) if history else (None, None))
    return WhyAnswer(record, causes_of(record, history, like, config, why_no_history), time,
                     like_runs(record, like), known_of(record, history, why_no_history), period)


def as_form(answer: WhyAnswer) -> dict[str, Any]:
    """The answer as JSON: docs/why.md."""
    record, time, like = answer.record, answer.time, answer.like
    batch = record.batch
    return {
        "schema": 1,
        "job": {"id": record.job.id, "user": record.job.user, "name": batch.name if batch else "",
                "cluster": batch.cluster if batch else "", "attempt": record.job.attempt,
                "began": answer.period[0], "ended": answer.period[1],
                "elapsed_s": record.job.elapsed_s, "nodes": record.coverage.expected},
        "time_in_lustre": {"seconds": time.seconds, "share_of_nodes": time.share,
                           "share_of_busiest_node": time.busiest_share, "whole": time.is_whole,
                           "why_not": time.why_not,
                           "seconds_at_servers": seconds_at_servers(record)},
        "main_cause": headline.as_form(main_cause(answer.causes)),
        "causes": list(map(finding.as_form, answer.causes)),
        "other_runs": {"runs": like.runs, "factor": like.factor, "elapsed_s": like.elapsed_s,
                       "operations": [one._asdict() for one in like.operations]},
        "known_from": answer.known.there,
        "not_known_from": dict(answer.known.missing)}


# -- text ------------------------------------------------------------------------------------------

def lines(answer: WhyAnswer, screen: Screen, labels: dict[str, str], units: str) -> list[str]:
    """The answer as lines for a screen; names in it are made safe."""
    width = max(_NARROWEST, min(screen.width, _WIDEST))
    found = [painted(screen, HEADING, line) for line in wrapped(one_line(_head(answer)), width)]
    main = main_cause(answer.causes)
    if main:
        found += [painted(screen, MARK, line) for line in wrapped(headline.line(main), width)]
    found += wrapped(one_line(_where(answer, labels)), width)
    if not answer.causes:
        found += ["", *wrapped(_NOTHING, width)]
    for number, cause in enumerate(answer.causes, 1):
        found.append("")
        found += _cause(number, cause, answer, screen, width)
    compared = _compared(answer.like, labels)
    if compared:
        found += ["", *wrapped(one_line(compared), width)]
    known = answer.known
    text = f"Known from: {', '.join(known.there) or 'nothing'}."
    if known.missing:
        text += f"  Not used: {'; '.join(f'{source} ({why})' for source, why in known.missing)}."
    found += ["", *wrapped(one_line(text), width)]
    for note in answer.record.notes:
        if note.startswith(NOTE):
            found += wrapped(one_line(f"note: {note}"), width)
    return found


def _head(answer: WhyAnswer) -> str:
    record = answer.record
    job, batch, coverage = record.job, record.batch, record.coverage
    about = ", ".join(filter(None, (batch.name if batch else "", job.user or "")))
    text = f"Job {job.id}" + (f" ({about})" if about else "")
    elapsed = job.elapsed_s
    if elapsed is None and None not in answer.period:
        elapsed = answer.period[1] - answer.period[0]
    parts = []
    if elapsed is not None:
        parts.append(duration_text(elapsed))
    nodes = coverage.expected or coverage.reported
    if nodes:
        parts.append(f"on {nodes} {'node' if nodes == 1 else 'nodes'}")
    text += f": {' '.join(parts)}" if parts else ""
    if answer.period[0] is not None and answer.period[1] is not None:
        form = words.form_of(*answer.period)
        text += f", {words.span(answer.period[0], answer.period[1], form)}"
    return text


def _where(answer: WhyAnswer, labels: dict[str, str]) -> str:
    """How much of the time was in Lustre, and in which calls."""
    time: TimeInLustre = answer.time
    if time.seconds is None:
        return f"Time in Lustre: not known: {time.why_not}.{_at_servers(answer)}"
    either = "~ " if time.mark else ""
    text = f"In Lustre: {time.share_mark}{percent_text(time.share)} of node time"
    if time.share > 1:
        text += ", since threads that wait at the same time count each, and a call in another too"
    whole = sum(seconds for _, seconds in time.by_operation.values())
    most = sorted(time.by_operation.items(), key=lambda one: (-one[1][1], one[0]))
    several = len({name for name, _ in time.by_operation}) > 1
    parts = [f"{either}{percent_text(seconds / whole)} of it in {operation}"
             + (f" on {labels.get(name, name)}" if several else "")
             + f" ({either}{words.each(seconds / calls)} each)"
             for (name, operation), (calls, seconds) in most[:2]
             if whole and seconds >= 0.1 * whole]
    if parts and time.share >= 0.001:
        text += f"; {words.listed(parts)}"
    return text + (f" ({time.why_not})." if time.why_not else ".")


def _at_servers(answer: WhyAnswer) -> str:
    """What the storage servers' times say instead."""
    seconds, elapsed_s = seconds_at_servers(answer.record), answer.record.job.elapsed_s
    if seconds is None:
        return ""
    share = f", at most {percent_text(seconds / elapsed_s)} of the run time" if (
        elapsed_s and seconds < elapsed_s) else ""
    return f"  The storage servers worked on its requests for {words.lasted(seconds)}{share}."


def _cause(number: int, cause: Cause, answer: WhyAnswer, screen: Screen, width: int) -> list[str]:
    indent = "   "
    first, *more = wrapped(one_line(f"{number}. {cause.text}"), width, indent)
    found = [painted(screen, HEADING, first), *(painted(screen, HEADING, line) for line in more)]
    if cause.kind != UNKNOWN:
        found += [indent + painted(screen, MARK, part) for part in wrapped(
            headline.confidence_and_cost(cause), width - len(indent))]
    series = cause.about.get("series")
    if series:
        found += _drawn(series, answer.period, screen, width - len(indent), indent)
    for line in cause.evidence:
        found += [f"{indent}{part}" for part in wrapped(f"- {one_line(line)}", width - len(indent))]
    return found


def _drawn(series: dict[str, Any], period: tuple[float | None, float | None], screen: Screen,
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
    found = []
    for title, name, per in (("time of a request", "latency_us", 0), ("its own load", "own", 1),
                             ("load of others", "others", 1)):
        amounts = series[name][first:last]
        values = [_mean(amounts[place:place + step]) for place in range(0, len(amounts), step)]
        top = max((value for value in values if value is not None), default=0)
        scaled = [0 if value is None or not top else max(1, round(1000 * value / top))
                  if value > 0 else 0 for value in values]
        drawn = bars(scaled, len(scaled), screen.is_ascii)
        drawn = "".join("?" if value is None and name != "latency_us" else bar
                        for value, bar in zip(values, drawn))
        peak = f"{words.number(top / every_s)}/s" if per else words.each(top / 1e6)
        found.append(f"{indent}{padded(title, 17)} |{drawn}| {peak if top else '-'}")
    form = words.form_of(began + first * every_s, began + last * every_s)
    left, right = (words.moment(began + place * every_s, form) for place in (first, last))
    room = len(range(first, last, step)) + 2 - width_of(left) - width_of(right)
    found.append(f"{indent}{' ' * 18}{left}{' ' * max(1, room)}{right} highest")
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _compared(like: LikeRuns, labels: dict[str, str]) -> str:
    if like.runs == 0:
        return ""
    runs = "1 other run" if like.runs == 1 else f"its last {like.runs} runs"
    if like.factor is None:
        return (f"Compared with {runs}: that is not enough, or their calls are not timed "
                f"({FEWEST} are needed).")
    changed = [one for one in like.operations
               if one.factor >= _CHANGED or one.factor <= 1 / _CHANGED][:_MOST_COMPARED]
    several = len({one.file_system for one in like.operations}) > 1
    parts = [_one_compared(one, labels, several) for one in changed]
    text = f"Compared with {runs} (medians): "
    text += "; ".join(parts) if parts else "its calls took as long as they usually do"
    return text + (f"; such a run takes {duration_text(like.elapsed_s)}" if like.elapsed_s else ""
                   ) + "."


def _one_compared(one: ComparedCall, labels: dict[str, str], several: bool) -> str:
    where = f" on {labels.get(one.file_system, one.file_system)}" if several else ""
    return (f"{one.operation}{where} took {words.times(one.factor)} its usual "
            f"{words.each(one.usual_s)}")
