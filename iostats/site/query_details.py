"""
What a row of `query` a and b has beside its sums: all its counters, and why they may be too low.
"""

from collections.abc import Generator
from typing import Any, Optional

from iostats.base.cooperative import AT_ONCE
from iostats.base.errors import one_line
from iostats.base.job_facts import Facts
from iostats.load.grouping import job_of


def with_details(rows: list[dict[str, Any]], harvest: Any, known: Any,
                  are_of_targets: bool) -> Generator[None, None, None]:
    """
    Add `counters` and `notes` (why they may be too low) to each row; in steps.

    `are_of_targets`: each row is of one target; otherwise of a file system.
    """
    by_key = {}
    everywhere: dict[str, dict[str, dict[str, Any]]] = {}       # file system -> {id: row}
    for row in rows:
        row["counters"], row["notes"] = {}, {}
        by_key[row["file_system"], row.get("target"), row["job"], row["is_job"]] = row
    first: dict[tuple[str, str], float] = {}        # file system, id -> its first entry
    targets = sorted(harvest.targets.items())
    places = {key[:2] for key in by_key}
    called: dict[str, tuple[str, bool]] = {}        # id -> as in by_key; an id is on many targets
    for (fs, name), target in targets:
        if (fs, name if are_of_targets else None) not in places:
            continue
        rows_of = {}                                # id -> row
        for number, id in enumerate(target.ids()):
            if number % AT_ONCE == 0:
                yield
            if id not in called:
                job, _, is_job = job_of(known, id)
                called[id] = one_line(job), is_job
            wanted = by_key.get((fs, name if are_of_targets else None, *called[id]))
            if wanted is not None:
                rows_of[id] = wanted
        everywhere.setdefault(fs, {}).update(rows_of)
        totals = target.totals(list(rows_of))
        for counter, column in totals.counters.items():
            for place in column.samples.nonzero()[0].tolist():
                mine = rows_of[totals.ids[place]]["counters"]
                mine[counter] = mine.get(counter, 0) + int(column.samples[place])
        for number, (id, row) in enumerate(rows_of.items()):
            if number % AT_ONCE == 0:
                yield
            if not row["is_job"]:
                continue
            made = target.origin(id)
            first[fs, id] = min(made, first.get((fs, id), made))
            for why in _reasons_too_low(target, id, known.facts(id), made):
                row["notes"].setdefault(why, set()).add(name)
    if not are_of_targets:              # a target may have lost all of a job's counters
        earliest = min((facts.started for ids in everywhere.values()
                        for facts in map(known.facts, ids)
                        if facts is not None and facts.started), default=None)
        for (fs, name), target in targets:
            yield
            since = target.swept_since
            if not target.gaps and None not in (since, target.cleanup_s) and (
                    earliest is None or earliest >= since):
                continue                # most have no gap, and there may be thousands
            known_here = set(target.ids())
            for id, row in everywhere.get(fs, {}).items():
                if row["is_job"] and id not in known_here:
                    for why in _reasons_too_low(target, id, known.facts(id), first.get((fs, id))):
                        row["notes"].setdefault(why, set()).add(name)
    for row in rows:
        row["lower_bound"] = row["lower_bound"] or bool(row["notes"])
        row["notes"] = [f"{why} ({' '.join(sorted(names))})"
                        for why, names in sorted(row["notes"].items())]


def _reasons_too_low(target: Any, id: str, facts: Optional[Facts],
                     first: Optional[float]) -> list[str]:
    """
    [why] the total of a job may be too low on a target, up to its last reading.

    `first`: when its first entry was made; where the start of the job is unknown, the total is of
    what came since then.
    """
    whys: list[str]
    if target.read_at is None:                      # its first reading is not complete
        whys = target.marks(id, 0.0, 0.0)
        return whys
    began = facts.started if facts is not None and facts.started else max(
        target.swept_since, target.swept_since if first is None else first)
    ended = facts.ended if facts is not None and facts.ended else target.swept_until
    whys = target.marks(id, min(began, ended), ended)
    return whys
