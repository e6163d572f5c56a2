"""
The findings of a job's record, the most important first, and the list of checks where there are
none.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from iostats.base.errors import ConfigError
from iostats.report.findings.finding import Finding
from iostats.report.findings.interval import UNKNOWN
from iostats.report.findings.known_io import is_shared, list_sides
from iostats.report.findings.requests import list_requests
from iostats.report.findings.rule import Limits
from iostats.report.findings.rules import OF_FILE_SYSTEMS, OF_JOBS, OF_REQUESTS, RULES
from iostats.report.job_fields import NODES
from iostats.totals.bounds import LUSTRE
from iostats.totals.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iostats.base.config import Config
    from iostats.report.findings.known_io import KnownIO
    from iostats.report.findings.rule import Held, Rule

# What together explains most of the same time says more than this one.
_GENERAL = "time_in_lustre"
_PAGE = "docs/reference/findings"
_TIMED = frozenset(("small_requests", "small_writes", "small_reads", "repeated_opens", "many_opens",
                    "stat_storm", "unlink_storm", "other_calls", "flock", "fsync", "mapped_files",
                    "random_reads", "lock_contention", "slow_metadata", "one_ost", "few_osts",
                    "one_node", "slow_nodes"))


def find_problems(record: Mapping[str, object], config: Config) -> list[Finding]:
    """All findings of the record (or its JSON form), the most important first."""
    record = Record.of(record)
    limits, results = Limits(config), []
    off = set(config.findings.off)
    for rule in OF_JOBS:
        if rule.id not in off:
            results += [(held.file_system, rule, held) for held in rule.when(record, limits)]
    for requests in list_requests(record, limits):
        for rule in (*OF_REQUESTS, *OF_FILE_SYSTEMS):
            when = rule.when if rule in OF_REQUESTS else rule.of_requests
            held = when(requests, limits) if when and rule.id not in off else None
            results += [(requests.name, rule, held)] if held else []
    for name, sides in list_sides(record).items():
        for rule in OF_FILE_SYSTEMS:
            if rule.id not in off:
                every = (rule.when(io, limits) for io in sides
                         if _is_judged(rule, io, limits))
                results += [(name, rule, held) for held in list(filter(None, every))[:1]]
    kinds = {"": "", **{fs.name: fs.kind for fs in record.file_systems}}
    return sorted((_make_finding(name, rule, held, config)._replace(kind=kinds.get(name, LUSTRE))
                   for name, rule, held in _merge(results)),
                  key=lambda finding: (-finding.weight, _PLACES[finding.id], finding.file_system))


_PLACES = {rule.id: place for place, rule in enumerate(RULES)}


def _merge(results: list[tuple[str, Rule, Held]]) -> list[tuple[str, Rule, Held]]:
    """
    Drop findings that another one on the same file system explains better; add their weight to it.
    """
    weights = {(name, rule.id): held.weight for name, rule, held in results}
    explained: dict[str, float] = {}
    for name, rule, held in results:
        explained[name] = explained.get(name, 0) + held.weight * (rule.id in _TIMED)
    remaining = []
    covered = {(name, _GENERAL) for name, weight in explained.items()
               if weight >= weights.get((name, _GENERAL), 0)}
    for name, rule, held in results:
        better_than = {(name, rule_id) for rule_id in held.covers}
        covered |= better_than
        remaining.append((name, rule, held._replace(weight=max(
            [held.weight, *(weights[rule_id] for rule_id in better_than if rule_id in weights)]))))
    return [result for result in remaining if (result[0], result[1].id) not in covered]


def _make_finding(name: str, rule: Rule, held: Held, config: Config) -> Finding:
    advice, link = held.advice or rule.advice, make_link(rule.id, config)
    own = config.free["finding_text"].get(rule.id, "").split()
    if own and _is_link(own[-1]):
        link = own.pop()
    return Finding(rule.id, name, round(held.weight, 6), held.number, held.meaning or rule.meaning,
                   " ".join(own) or advice, link, held.evidence,
                   None if held.cost is None else round(held.cost, 6), held.is_certain)


def _is_link(text: str) -> bool:
    return "://" in text or text.startswith("/")


def make_link(rule_id: str, config: Config) -> str:
    """
    The link to a rule's explanation: on the site's pages, or
    docs/reference/findings.md#small-writes.
    """
    address = config.web.address
    page = f"{address.rstrip('/')}/{_PAGE}" if address else f"{_PAGE}.md"
    return f"{page}#{rule_id.replace('_', '-')}"


def require_known_rules(config: Config) -> None:
    """ConfigError where [findings] off or [finding_text] names a rule that there is not."""
    off = [("[findings] off", config.origin["findings.off"], rule_id)
           for rule_id in config.findings.off]
    own = [(f"[finding_text] {rule_id}", config.origin[f"finding_text.{rule_id}"], rule_id)
           for rule_id in config.free["finding_text"]]
    for key, where, rule_id in off + own:
        if rule_id not in _PLACES:
            raise ConfigError(f"{where}: {key}: expected one of the rules {' '.join(_PLACES)}, got "
                              f"{rule_id!r}")


# -- the list of checks ----------------------------------------------------------------------------

def list_checks(record: Mapping[str, object], config: Config) -> str:
    """Describe the checks for a record without findings, or why there were none; or return ""."""
    record = Record.of(record)
    limits = Limits(config)
    every = [io for sides in list_sides(record).values()
             for io in sides]
    if not every:
        return ""
    if is_shared(record) and all(io.side == NODES for io in every):
        return "No findings: the numbers include other jobs on the same nodes."
    judged = [io for io in every if not _is_too_small(io, limits)]
    if not judged:
        return _explain_too_small(record, every, config, limits)
    off = set(config.findings.off)
    things = [rule.looks_at for rule in RULES
              if rule.looks_at and rule.id not in off and any(
                  _has_needed_numbers(rule.id, io) for io in judged
                  if _is_judged(rule, io, limits))]
    low = not any(io.is_whole for io in judged)
    return (f"No problems found. Checked: {', '.join(things)}"
            + (" (some numbers are too low to tell)" if low else "") + ".")


def _has_needed_numbers(rule_id: str, io: KnownIO) -> bool:
    """Whether a side (nodes, servers) has the numbers that a rule needs."""
    needs = {"flock": io.is_timed("flock"), "fsync": io.is_timed("fsync"),
             "mapped_files": io.is_timed("page_fault", "page_mkwrite"),
             "time_in_lustre": bool(io.list_longest_waits()),
             "polling": bool(io.series), "slow_servers": io.is_timed(
                 "read_rpcs", "write_rpcs"),
             "metadata_storm": bool(io.mdt_requests), "one_ost": len(io.ost_bytes) > 1,
             "one_node": (io.nodes or 0) > 1 and not io.busiest.keys().isdisjoint(
                 ("read_bytes", "write_bytes")),
             **{f"small_{call}s": io.side == NODES and (
                    io.kind == LUSTRE or io.count_calls(call) != UNKNOWN)
                for call in ("read", "write")},
             "random_reads": bool(io.ost_moved["read"]) and io.side == NODES,
             "cache_served": io.side == NODES
             and io.get_network_amount("read_bytes") != UNKNOWN,
             "small_requests": bool(io.network)}
    return needs.get(rule_id, io.absent.high < inf or io.side == NODES)


def _is_judged(rule: Rule, io: KnownIO, limits: Limits) -> bool:
    return (rule.of_any_kind or io.kind == LUSTRE) and (
        rule.id == "slow_servers" or not io.is_times_alone) and not _is_too_small(io, limits)


def _is_too_small(io: KnownIO, limits: Limits) -> bool:
    return bool(io.elapsed_s.low < limits.findings.from_seconds or (
        io.sum_moved_bytes().low < limits.findings.from_bytes
        and io.count_all_operations().low < limits.findings.from_operations))


def explain_too_short(record: Record, config: Config) -> str:
    """Why a job is too short to judge, in words; "" if it is not."""
    elapsed_s, least = record.job.elapsed_s, config.findings.from_seconds
    return ("" if elapsed_s is None or elapsed_s >= least else
            f"the job was too short to judge (less than {least:g} s)")


def _explain_too_small(record: Record, every: list[KnownIO], config: Config, limits: Limits) -> str:
    too_short = explain_too_short(record, config)
    if too_short:
        return f"No findings: {too_short}."
    is_known = all(
        io.sum_moved_bytes().high < limits.findings.from_bytes
        and io.count_all_operations().high < limits.findings.from_operations for io in every)
    return f"No findings: too little {'I/O' if is_known else 'is known'} to judge."
