"""
The findings of a job's record, the most important first, and what was looked at where there are
none.
"""

from __future__ import annotations

from math import inf

from iostats.base.errors import ConfigError
from iostats.report.advice.finding import Finding
from iostats.report.advice.interval import UNKNOWN
from iostats.report.advice.known import is_shared, sides_of
from iostats.report.advice.rule import Limits
from iostats.report.advice.rules import OF_FILE_SYSTEMS, OF_JOBS, RULES
from iostats.report.job_summary import NODES
from iostats.totals.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iostats.report.advice.known import KnownIO
    from iostats.report.advice.rule import Held, Rule

# What takes most of the same time says more than this one.
_GENERAL = "time_in_lustre"
_TIMED = frozenset(("small_requests", "small_writes", "small_reads", "repeated_opens", "many_opens",
                    "stat_storm", "unlink_storm", "other_calls", "flock", "random_reads"))


def findings_of(record: Mapping[str, Any], config: Any) -> list[Finding]:
    """All findings of the record (or its JSON form), the most important first."""
    record = Record.of(record)
    limits, found = Limits(config), []
    off = set(config["advice.off"])
    for rule in OF_JOBS:
        if rule.id not in off:
            found += [(held.file_system, rule, held) for held in rule.when(record, limits)]
    for name, sides in sides_of(record, limits["noise_percent"]).items():
        for rule in OF_FILE_SYSTEMS:
            if rule.id not in off:
                every = (rule.when(known, limits) for known in sides
                         if _is_judged(rule.id, known, limits))
                found += [(name, rule, held) for held in list(filter(None, every))[:1]]
    return sorted((_finding(name, rule, held, config) for name, rule, held in _told_once(found)),
                  key=lambda one: (-one.weight, _PLACES[one.id], one.file_system))


_PLACES = {rule.id: place for place, rule in enumerate(RULES)}


def _told_once(found: list[tuple[str, Rule, Held]]) -> list[tuple[str, Rule, Held]]:
    """
    Without what another finding of the same file system says better, which is then as important.
    """
    weights = {(name, rule.id): held.weight for name, rule, held in found}
    kept, covered = [], set()
    for name, rule, held in found:
        better_than = {(name, other) for other in held.covers}
        if rule.id in _TIMED and held.weight >= weights.get((name, _GENERAL), 0):
            better_than.add((name, _GENERAL))
        covered |= better_than
        kept.append((name, rule, held._replace(weight=max(
            [held.weight, *(weights[other] for other in better_than if other in weights)]))))
    return [one for one in kept if (one[0], one[1].id) not in covered]


def _finding(name: str, rule: Rule, held: Held, config: Any) -> Finding:
    advice, link = held.advice or rule.advice, link_of(rule.id, config)
    own = config.free["advice_text"].get(rule.id, "").split()
    if own and _is_link(own[-1]):
        link = own.pop()
    return Finding(rule.id, name, round(held.weight, 6), held.number, held.meaning or rule.meaning,
                   " ".join(own) or advice, link, held.evidence,
                   None if held.cost is None else round(held.cost, 6))


def _is_link(text: str) -> bool:
    return "://" in text or text.startswith("/")


def link_of(rule_id: str, config: Any) -> str:
    """Where a rule is explained: on the site's pages, or docs/advice.md#small-writes."""
    address = config["web.address"]
    page = f"{address.rstrip('/')}/docs/advice" if address else "docs/advice.md"
    return f"{page}#{rule_id.replace('_', '-')}"


def require_known_rules(config: Any) -> None:
    """ConfigError where [advice] off or [advice_text] names a rule that there is not."""
    off = [("[advice] off", config.origin["advice.off"], one) for one in config["advice.off"]]
    own = [(f"[advice_text] {one}", config.origin[f"advice_text.{one}"], one)
           for one in config.free["advice_text"]]
    for key, where, one in off + own:
        if one not in _PLACES:
            raise ConfigError(f"{where}: {key}: expected one of the rules {' '.join(_PLACES)}, got "
                              f"{one!r}")


# -- what was looked at ----------------------------------------------------------------------------

def looked_at(record: Mapping[str, Any], config: Any) -> str:
    """A sentence for a record without findings: what was looked at, or why nothing was; or ""."""
    record = Record.of(record)
    limits = Limits(config)
    every = [known for sides in sides_of(record, limits["noise_percent"]).values()
             for known in sides]
    if not every:
        return ""
    if is_shared(record) and all(one.side == NODES for one in every):
        return "No findings: the numbers include other jobs on the same nodes."
    known = [one for one in every if not _is_too_small(one, limits)]
    if not known:
        return _why_too_small(record, every, config, limits)
    off = set(config["advice.off"])
    things = [rule.looks_at for rule in RULES
              if rule.looks_at and rule.id not in off and any(
                  _sees(rule.id, one) for one in known if _is_judged(rule.id, one, limits))]
    low = not any(one.is_whole for one in known)
    return (f"No problems found. Checked: {', '.join(things)}"
            + (" (some numbers are too low to tell)" if low else "") + ".")


def _sees(rule_id: str, known: KnownIO) -> bool:
    """Whether a side has the numbers of a rule."""
    needs = {"flock": known.is_timed("flock"), "time_in_lustre": bool(known.longest()),
             "polling": bool(known.series), "slow_servers": known.is_timed(
                 "read_rpcs", "write_rpcs"),
             "metadata_storm": bool(known.mdt_requests), "one_ost": len(known.ost_bytes) > 1,
             "one_node": bool(known.busiest) and (known.nodes or 0) > 1,
             "small_writes": known.side == NODES, "small_reads": known.side == NODES,
             "random_reads": bool(known.ost_read_bytes) and known.side == NODES,
             "cache_served": known.side == NODES and known.over_network("read_bytes") != UNKNOWN,
             "small_requests": bool(known.network)}
    return needs.get(rule_id, known.absent.high < inf or known.side == NODES)


def _is_judged(rule_id: str, known: KnownIO, limits: Limits) -> bool:
    return (rule_id == "slow_servers" or not known.is_times_alone) and not _is_too_small(
        known, limits)


def _is_too_small(known: KnownIO, limits: Limits) -> bool:
    return bool(known.elapsed_s.low < limits["from_seconds"] or (
        known.moved_bytes().low < limits["from_bytes"]
        and known.all_operations().low < limits["from_operations"]))


def why_too_short(record: Record, config: Any) -> str:
    """Why nothing is concluded of what a job did, in words; "" where that is."""
    elapsed_s, least = record.job.elapsed_s, config["advice.from_seconds"]
    return ("" if elapsed_s is None or elapsed_s >= least else
            f"the job was too short to judge (less than {least:g} s)")


def _why_too_small(record: Record, every: list[KnownIO], config: Any, limits: Limits) -> str:
    too_short = why_too_short(record, config)
    if too_short:
        return f"No findings: {too_short}."
    is_known = all(known.moved_bytes().high < limits["from_bytes"]
                   and known.all_operations().high < limits["from_operations"] for known in every)
    return f"No findings: too little {'I/O' if is_known else 'is known'} to judge."
