"""
Lustre `import` and `state` files of osc and mdc: how a client stands with one target.

    current_state: FULL                     state
    state_history:
     - [ 1795226016, CONNECTING ]           s since 1970, the 16 latest, oldest first
     - [ 1795226016, FULL ]

    import:                                 import: keys behind 4 blanks, below them behind more
        name: scratch-OST0003-osc-ffff9a3c5d1e0800
        target: scratch-OST0003_UUID
        state: FULL
        import_flags: [ replayable, pingable, connect_tried ]
        connection:
           failover_nids: [ "10.9.0.3@o2ib", "10.9.0.4@o2ib" ]
           nids_stats:
              "10.9.0.3@o2ib": { connects: 1, replied: 1, uptodate: true, sec_ago: 5 }
           current_connection: "10.9.0.3@o2ib"
           connection_attempts: 1
        rpcs:
           timeouts: 0

States: CLOSED NEW DISCONN CONNECTING REPLAY REPLAY_LOCKS REPLAY_WAIT RECOVER FULL EVICTED, and
IDLE from 2.12 on.  IDLE is as good as FULL: an osc leaves its target after 20 s without work.
A target that an administrator deactivated stays FULL; only the flags show it.

`idle` came with 2.12: the time since the last reply, in any state.  `nids_stats`, and NIDs in
quotes, are in 2.16.1 and not in 2.15.8; flags are IMPF_REPLAYABLE and so on from 2.17.55 on.

Source: lprocfs_import_seq_show(), lprocfs_state_seq_show() (lprocfs_rd_import(),
lprocfs_rd_state() in 2.5), obd_import_flags2str(), lustre/obdclass/lprocfs_status.c;
ptlrpc_import_state_name(), lustre/include/lustre_import.h; 2.5 to 2.17.
"""

from __future__ import annotations

import re

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple


class State(NamedTuple):
    """The contents of a `state` file."""

    # the state now; None where the line is missing or has a word that is no state
    state: str | None
    # [(s since 1970, state)], oldest first: at most 16, and 16 may be less than a minute
    history: list[tuple[int, str]]
    bad: dict[int | str, str]   # {line number: what was expected and what was there}


class Import(NamedTuple):
    """The contents of an `import` file; None for values that are missing or not understood."""

    name: str | None             # scratch-OST0003-osc-ffff9a3c5d1e0800
    target: str | None           # scratch-OST0003
    state: str | None            # one of STATES
    is_deactivated: bool | None  # an administrator took it out of use; its state may still be FULL
    # NIDs of the storage servers that may have the target; None or a list
    failover_nids: list[str] | None
    nid: str | None              # of the storage server it talks to; "" while there is none
    nids: dict[str, NidTries]    # {NID: NidTries}; empty up to 2.15
    attempts: int | None         # connections tried since the mount
    # more each time its requests were given up, as by an eviction or a deactivation
    generation: int | None
    invalidations: int | None    # under way now
    idle_s: int | None           # since the last reply, s
    timeouts: int | None         # requests that timed out since the mount
    bad: dict[int | str, str]    # {key, or line number: what was expected and what was there}


class NidTries(NamedTuple):
    """Connections to one NID."""

    # connects, replied: how many were tried, and answered
    connects: int
    replied: int
    is_up_to_date: bool         # that its last try came back with an answer
    tried_s_ago: int | None     # s; None for never


STATES = ("CLOSED", "NEW", "DISCONN", "CONNECTING", "REPLAY", "REPLAY_LOCKS", "REPLAY_WAIT",
          "RECOVER", "FULL", "EVICTED", "IDLE")
CONNECTED = ("FULL", "IDLE")

_LONGEST = 1 << 16                      # bytes of a file that are read; they have 3,000
_MOST_BAD = 20
_MOST_NIDS = 100
_LARGEST = 2**63 - 1
_ENTRY = re.compile(r" *- \[ (-?\d{1,19}), ([A-Z_]{1,20}|<UNKNOWN>) \] *")
_KEY = re.compile(r"( {1,12})([\w-]{1,40}):(?: (.*))?")
_NID_LINE = re.compile(r' {1,20}"?([^\s"]{1,80}@[a-z0-9]{1,20})"?: \{ connects: (\d{1,19}), '
                       r'replied: (\d{1,19}), uptodate: ([\w ./-]{1,40}), '
                       r'sec_ago: (-?\d{1,19}|never) \} *')
_WORD = re.compile(r'"?([^\s",\[\]]{1,100})"?')
_SECONDS = re.compile(r"(-?\d{1,19}) sec")
_WHOLE = re.compile(r"(\d{1,19})")


def parse_state(data: bytes) -> State:
    """
    The State in the bytes of a `state` file.

    >>> parse_state(b"current_state: FULL\\nstate_history:\\n - [ 23, FULL ]\\n").history
    [(23, 'FULL')]
    """
    state, history = None, []
    bad: dict[int | str, str] = {}
    for number, line in enumerate(_split_lines(data), 1):
        entry = _ENTRY.fullmatch(line)
        if entry and entry[2] in STATES:
            history.append((int(entry[1]), entry[2]))
        elif line.startswith("current_state: ") and line[15:].strip() in STATES:
            state = line[15:].strip()
        elif line.strip() and line.strip() != "state_history:":
            _note(bad, number, '"current_state: STATE" or " - [ SECONDS, STATE ]"', line)
    return State(state, history, bad)


def parse_import(data: bytes) -> Import:
    """
    The Import in the bytes of an `import` file.

    >>> found = parse_import(b'import:\\n    state: IDLE\\n    rpcs:\\n       timeouts: 23\\n')
    >>> found.state, found.timeouts, found.attempts
    ('IDLE', 23, None)
    """
    values: dict[str, str] = {}             # "rpcs.timeouts"
    nids: dict[str, NidTries] = {}
    bad: dict[int | str, str] = {}
    section = ""
    for number, line in enumerate(_split_lines(data), 1):
        key = _KEY.fullmatch(line)
        if key and len(key[1]) <= 4:
            section = key[2]
            values.setdefault(section, key[3] or "")
        elif key:
            values.setdefault(f"{section}.{key[2]}", key[3] or "")
        elif not _parse_nid_line(line, nids) and line.strip() not in ("", "import:"):
            _note(bad, number, '"KEY: VALUE" or "NID": { connects: ... }', line)

    def whole(name: str, form: re.Pattern[str] = _WHOLE) -> int | None:
        return _parse_number(values, f"connection.{name}" if "." not in name else name, form, bad)
    flags = _parse_list(values, "import_flags", bad)
    name, target, nid = (_parse_word(values, key, bad) for key in (
        "name", "target", "connection.current_connection"))
    state: str | None = values.get("state", "")
    if state not in STATES:
        if state:
            _note(bad, "state", "one of " + " ".join(STATES), state)
        state = None
    return Import(
        name, target and target.removesuffix("_UUID"), state,
        None if flags is None else bool({"deactive", "IMPF_DEACTIVE"} & set(flags)),
        _parse_list(values, "connection.failover_nids", bad), "" if nid == "<none>" else nid, nids,
        whole("connection_attempts"), whole("generation"), whole("in-progress_invalidations"),
        whole("idle", _SECONDS), whole("rpcs.timeouts"), bad)


def _split_lines(data: bytes) -> list[str]:
    return data[:_LONGEST].decode("utf-8", "replace").split("\n")


def _parse_nid_line(line: str, nids: dict[str, NidTries]) -> bool:
    """Parse a line of nids_stats into `nids`; False for another line."""
    match = _NID_LINE.fullmatch(line)
    if match and len(nids) < _MOST_NIDS:
        ago = None if match[5] == "never" else int(match[5])
        nids[sanitize(match[1])] = NidTries(int(match[2]), int(match[3]),
                                            match[4] in ("true", "uptodate"), ago)
    return match is not None


def _parse_word(values: dict[str, str], key: str, bad: dict[int | str, str]) -> str | None:
    """Parse one word, or one in quotes; None if the key is missing."""
    if key not in values:
        return None
    match = _WORD.fullmatch(values[key].rstrip())
    if match is None:
        _note(bad, key, "one word", values[key])
    return sanitize(match[1]) if match else None


def _parse_list(values: dict[str, str], key: str, bad: dict[int | str, str]) -> list[str] | None:
    """Parse the words of `[ a, b ]`, without their quotes; None if the key is missing."""
    text = values.get(key)
    if text is None:
        return None
    inside = text.strip()
    words = inside[1:-1].split(",") if inside[:1] == "[" and inside[-1:] == "]" else [""]
    matches = [_WORD.fullmatch(word.strip()) for word in words[:_MOST_NIDS]]
    if inside[1:-1].strip() == "" and inside.startswith("[") and inside.endswith("]"):
        return []
    if not all(matches):
        _note(bad, key, '"[ WORD, WORD ]"', text)
        return None
    return [sanitize(match[1]) for match in matches if match]


def _parse_number(values: dict[str, str], key: str, form: re.Pattern[str],
                  bad: dict[int | str, str]) -> int | None:
    text = values.get(key)
    if text is None:
        return None
    match = form.fullmatch(text.rstrip())
    number = int(match[1]) if match else -1
    if match is None or not -_LARGEST <= number <= _LARGEST:
        _note(bad, key, "a whole number below 2**63", text)
        return None
    return number


def _note(bad: dict[int | str, str], where: int | str, expected: str, got: str) -> None:
    if len(bad) < _MOST_BAD:
        bad[where] = f"expected {expected}, got {got[:60]!r}"
