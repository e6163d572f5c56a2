"""
How a client stands with its targets: which are neither FULL nor IDLE, since when, and what to do.
"""

from __future__ import annotations

import os
import time

from iostats.base.private_files import read_text
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quoted
from iostats.lustre import import_files, imports, stats
from iostats.totals.snapshot import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iostats.lustre.imports import Import
    from iostats.lustre.paths import File

_MOST_SHOWN = 10
_MOST_STEPS = 4                         # of a history that are shown
_MEANING = {"REPLAY": "its requests are replayed, after a restart of the target",
            "REPLAY_LOCKS": "its locks are replayed, after a restart of the target",
            "REPLAY_WAIT": "the target waits for other clients, after its restart",
            "RECOVER": "requests are sent again", "EVICTED": "evicted, and connecting again",
            "NEW": "never connected", "CLOSED": "unmounted"}


def examine(files: Iterable[File], root: str) -> list[Check]:
    """
    [Check] of a client's targets; [] where there is none.

    `files`: of a snapshot, with those that the reader gave.
    """
    files = list(files)
    states = [one for one in files if one.source == import_files.STATE
              and stats.split_target_name(one.name)]
    if not states:
        return []
    more = {one.name: one for one in files if one.source == import_files.IMPORT}
    refused = [one for one in states if one.errno]
    checks = []
    if refused:
        checks.append(Check(NOTE, "connections", (
            f"how {_targets_are(len(refused))} connected is not known: {reason(refused[0].errno)}"),
            "sudo iostats doctor" if os.geteuid() else ""))
    away: list[tuple[File, imports.State]] = []
    evicted: list[tuple[File, imports.State]] = []
    inactive: list[str] = []
    odd: list[str] = []
    for file in states:
        if file.errno:
            continue
        found = imports.parse_state(file.text.encode("latin-1", "replace"))
        said = imports.parse_import(more[file.name].text.encode("latin-1", "replace")
                                    if file.name in more else b"")
        if found.state is None:
            odd.append(f"{file.path}: {next(iter(found.bad.values()), 'it is empty')}")
        elif said.is_deactivated:
            inactive.append(_target(file))
        elif found.state not in imports.CONNECTED:
            away.append((file, found))
        elif any(state == "EVICTED" for _, state in found.history):
            evicted.append((file, found))
    for file, found in away[:_MOST_SHOWN]:
        checks.append(_away(file, found, _whole_import(root, more.get(file.name))))
    if len(away) > _MOST_SHOWN:
        checks.append(Check(PROBLEM, "connections", f"{len(away) - _MOST_SHOWN:,} more are not "
                                                f"connected"))
    for file, found in evicted[:_MOST_SHOWN]:
        times = [when for when, state in found.history if state == "EVICTED"]
        checks.append(Check(NOTE, f"target {_target(file)}", (
            f"{found.state} now; it evicted this node {_times(len(times))}, last at "
            f"{_when(times[-1])}"), "iostats events --local"))
    if len(evicted) > _MOST_SHOWN:
        checks.append(Check(NOTE, "connections", (
            f"{len(evicted) - _MOST_SHOWN:,} more have evicted this node")))
    if inactive:
        shown = ", ".join(inactive[:_MOST_SHOWN])
        checks.append(Check(NOTE, "connections", f"deactivated by an administrator: {shown}" + (
            f" and {len(inactive) - _MOST_SHOWN:,} more" if len(inactive) > _MOST_SHOWN else "")))
    checks += [Check(NOTE, "connections", one) for one in odd[:_MOST_SHOWN]]
    well = len(states) - len(refused) - len(away) - len(inactive) - len(odd)
    if not away and well:
        checks.append(Check(OK, "connections", f"{_targets_are(well)} connected (FULL or IDLE)"))
    return checks


def _away(file: File, found: imports.State, said: Import | None) -> Check:
    parts = [_MEANING.get(found.state or "", "no connection")]
    parts += [_steps(found.history)] if found.history else []
    if said is not None and said.attempts:
        parts.append(f"{said.attempts:,} tries since the mount")
    if said is not None and said.timeouts:
        parts.append(f"{said.timeouts:,} requests timed out")
    nid = said.nid if said is not None else None
    if nid:
        parts.append(f"its storage server is {nid}")
    # What is under way ends by itself.
    is_under_way = found.state in ("REPLAY", "REPLAY_LOCKS", "REPLAY_WAIT", "RECOVER", "EVICTED")
    return Check(NOTE if is_under_way else PROBLEM, f"target {_target(file)}",
                 f"{found.state}: " + "; ".join(parts),
                 "" if is_under_way else f"lctl ping {quoted(nid)}" if nid else
                 f"lctl get_param {file.path.split('/')[-3]}.{quoted(file.name)}.import")


def _steps(history: Sequence[tuple[int, str]]) -> str:
    """
    The latest of a history, tries to connect as one.

    >>> os.environ["TZ"] = "UTC"; time.tzset()
    >>> _steps([(23, "FULL"), (37, "DISCONN"), (37, "CONNECTING"), (41, "DISCONN")])
    '1970-01-01 00:00:23 FULL, 00:00:37 DISCONN, 1 try until 00:00:41'
    """
    steps: list[tuple[int, str, int]] = []              # (when, state, tries until then)
    for when, state in history:
        if (len(steps) > 1 and state == "DISCONN" and steps[-1][1] == "CONNECTING"
                and steps[-2][1] in ("DISCONN", "tries")):
            steps.pop()
            tries = steps.pop()[2] + 1 if steps[-1][1] == "tries" else 1
            steps.append((when, "tries", tries))
        else:
            steps.append((when, state, 0))
    shown, last_day = [], ""
    for when, state, tries in steps[-_MOST_STEPS:]:
        day, _, clock = _when(when).partition(" ")
        at = clock if day == last_day else f"{day} {clock}"
        last_day = day
        shown.append(f"{tries} {'try' if tries == 1 else 'tries'} until {at}" if state == "tries"
                     else f"{at} {state}")
    return ", ".join(shown)


def _when(seconds: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, OSError, ValueError):
        return f"{seconds} -"


def _target(file: File) -> str:
    file_system, target, _ = stats.split_target_name(file.name) or (file.name, "", "")
    return f"{file_system}-{target}"


def _whole_import(root: str, file: File | None) -> Import | None:
    """All that an `import` says; what the snapshot has of it where only the reader may read it."""
    if file is None or file.errno:
        return None
    try:
        text = read_text(os.path.join(root, file.path))
    except OSError:
        text = file.text
    return imports.parse_import(text.encode("latin-1", "replace"))


def _targets_are(count: int) -> str:
    return "1 target is" if count == 1 else f"{count:,} targets are"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
