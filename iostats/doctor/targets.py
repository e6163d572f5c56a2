"""
Check a client's connections to its targets: those that are neither FULL nor IDLE, since when, and
the remedy.
"""

from __future__ import annotations

import os
import time

from iostats.base.private_files import read_text
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quote_path
from iostats.lustre import import_files, imports, stats
from iostats.totals.snapshot import explain_code

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
    Return [Check] of a client's targets; [] if there are none.

    `files`: of a snapshot, with those that the reader gave.
    """
    files = list(files)
    states = [file for file in files if file.source == import_files.STATE
              and stats.split_target_name(file.name)]
    if not states:
        return []
    more = {file.name: file for file in files if file.source == import_files.IMPORT}
    refused = [file for file in states if file.errno]
    checks = []
    if refused:
        checks.append(Check(NOTE, "connections", (
            f"how {_count_targets(len(refused))} connected is unknown: "
            f"{explain_code(refused[0].errno)}"),
            "sudo iostats doctor" if os.geteuid() else ""))
    away: list[tuple[File, imports.State]] = []
    evicted: list[tuple[File, imports.State]] = []
    inactive: list[str] = []
    odd: list[str] = []
    for file in states:
        if file.errno:
            continue
        parsed = imports.parse_state(file.text.encode("latin-1", "replace"))
        import_data = imports.parse_import(more[file.name].text.encode("latin-1", "replace")
                                           if file.name in more else b"")
        if parsed.state is None:
            odd.append(f"{file.path}: {next(iter(parsed.bad.values()), 'it is empty')}")
        elif import_data.is_deactivated:
            inactive.append(_get_target_name(file))
        elif parsed.state not in imports.CONNECTED:
            away.append((file, parsed))
        elif any(state == "EVICTED" for _, state in parsed.history):
            evicted.append((file, parsed))
    for file, parsed in away[:_MOST_SHOWN]:
        checks.append(_check_away(file, parsed, _read_whole_import(root, more.get(file.name))))
    if len(away) > _MOST_SHOWN:
        checks.append(Check(PROBLEM, "connections", f"{len(away) - _MOST_SHOWN:,} more are not "
                                                f"connected"))
    for file, parsed in evicted[:_MOST_SHOWN]:
        times = [when for when, state in parsed.history if state == "EVICTED"]
        checks.append(Check(NOTE, f"target {_get_target_name(file)}", (
            f"{parsed.state} now; it evicted this node {_count_times(len(times))}, last at "
            f"{_format_time(times[-1])}"), "iostats events --local"))
    if len(evicted) > _MOST_SHOWN:
        checks.append(Check(NOTE, "connections", (
            f"{len(evicted) - _MOST_SHOWN:,} more have evicted this node")))
    if inactive:
        shown = ", ".join(inactive[:_MOST_SHOWN])
        checks.append(Check(NOTE, "connections", f"deactivated by an administrator: {shown}" + (
            f" and {len(inactive) - _MOST_SHOWN:,} more" if len(inactive) > _MOST_SHOWN else "")))
    checks += [Check(NOTE, "connections", problem) for problem in odd[:_MOST_SHOWN]]
    well = len(states) - len(refused) - len(away) - len(inactive) - len(odd)
    if not away and well:
        checks.append(Check(OK, "connections", f"{_count_targets(well)} connected (FULL or IDLE)"))
    return checks


def _check_away(file: File, parsed: imports.State, import_data: Import | None) -> Check:
    parts = [_MEANING.get(parsed.state or "", "no connection")]
    parts += [_describe_states(parsed.history)] if parsed.history else []
    if import_data is not None and import_data.attempts:
        parts.append(f"{import_data.attempts:,} tries since the mount")
    if import_data is not None and import_data.timeouts:
        parts.append(f"{import_data.timeouts:,} requests timed out")
    nid = import_data.nid if import_data is not None else None
    if nid:
        parts.append(f"its storage server is {nid}")
    # What is under way ends by itself.
    is_under_way = parsed.state in ("REPLAY", "REPLAY_LOCKS", "REPLAY_WAIT", "RECOVER", "EVICTED")
    return Check(NOTE if is_under_way else PROBLEM, f"target {_get_target_name(file)}",
                 f"{parsed.state}: " + "; ".join(parts),
                 "" if is_under_way else f"lctl ping {quote_path(nid)}" if nid else
                 f"lctl get_param {file.path.split('/')[-3]}.{quote_path(file.name)}.import")


def _describe_states(history: Sequence[tuple[int, str]]) -> str:
    """
    The latest states of a history, with repeated connection attempts as one.

    >>> os.environ["TZ"] = "UTC"; time.tzset()
    >>> _describe_states([(23, "FULL"), (37, "DISCONN"), (37, "CONNECTING"), (41, "DISCONN")])
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
        day, _, clock = _format_time(when).partition(" ")
        at = clock if day == last_day else f"{day} {clock}"
        last_day = day
        shown.append(f"{tries} {'try' if tries == 1 else 'tries'} until {at}" if state == "tries"
                     else f"{at} {state}")
    return ", ".join(shown)


def _format_time(seconds: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, OSError, ValueError):
        return f"{seconds} -"


def _get_target_name(file: File) -> str:
    file_system, target, _ = stats.split_target_name(file.name) or (file.name, "", "")
    return f"{file_system}-{target}"


def _read_whole_import(root: str, file: File | None) -> Import | None:
    """The full text of an `import`; the part in the snapshot if only the reader may read it."""
    if file is None or file.errno:
        return None
    try:
        text = read_text(os.path.join(root, file.path))
    except OSError:
        text = file.text
    return imports.parse_import(text.encode("latin-1", "replace"))


def _count_targets(count: int) -> str:
    return "1 target is" if count == 1 else f"{count:,} targets are"


def _count_times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
