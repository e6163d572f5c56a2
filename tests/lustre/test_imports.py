"""
osc and mdc `import` and `state`: how a client stands with a target; 2.5 to 2.17.
"""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import samples, shared

from iostats.base.errors import is_printable
from iostats.lustre import imports
from iostats.lustre.imports import NidTries, parse_import, parse_state

NAME = "scratch-OST0003-osc-ffff9a3c5d1e0800"
FLAGS = {"2.17": "IMPF_REPLAYABLE, IMPF_PINGABLE, IMPF_CONNECT_TRIED"}
TRIES = {"2.16": "true", "2.17": "uptodate"}


def text(release, state="FULL", flags="", connection="10.9.0.3@o2ib", tail=True):
    """An import file as that release prints it: 23 attempts, 37 timeouts, idle for 41 s."""
    def quoted(nid):
        return f'"{nid}"' if release in TRIES else nid
    lines = [
        "import:", f"    name: {NAME}", "    target: scratch-OST0003_UUID", f"    state: {state}",
        "    connect_flags: [ write_grant, server_lock, jobstats ]", "    connect_data:",
        "       flags: 0x4af0e3440478", "       instance: 3", "       target_version: 2.10.1.0",
        "    import_flags: [ " + flags + FLAGS.get(release, "replayable, pingable") + " ]",
        "    connection:",
        f"       failover_nids: [ {quoted('10.9.0.3@o2ib')}, {quoted('fd00:17::4@tcp')} ]"]
    if release in TRIES:
        lines += ["       nids_stats:", f'          "10.9.0.3@o2ib": {{ connects: 19, replied: 17, '
                  f'uptodate: {TRIES[release]}, sec_ago: 5 }}',
                  '          "fd00:17::4@tcp": { connects: 4, replied: 0, uptodate: '
                  f'{"false" if release == "2.16" else "unreachable"}, sec_ago: never }}']
    lines += [f"       current_connection: {quoted(connection)}", "       connection_attempts: 23",
              "       generation: 3", "       in-progress_invalidations: 1"]
    if release not in ("2.5", "2.10"):
        lines.append("       idle: 41 sec")
    if tail:
        lines += ["    rpcs:", "       inflight: 8", "       unregistering: 0",
                  "       timeouts: 37", "       avg_waittime: 6054 usec",
                  "    service_estimates:", "       services: 1 sec", "       network: 1 sec",
                  "    transactions:", "       last_replay: 0", "    write_data_averages:",
                  "       bytes_per_rpc: 3585782", "       MB_per_sec: 592.20"]
    return "\n".join([*lines, ""]).encode()


@pytest.mark.parametrize("release", ["2.5", "2.10", "2.12", "2.15", "2.16", "2.17"])
def test_an_import_says_the_same_in_every_release(release):
    found = parse_import(text(release))
    assert {} == found.bad
    assert (NAME, "scratch-OST0003", "FULL", False) == found[:4]
    assert ["10.9.0.3@o2ib", "fd00:17::4@tcp"] == found.failover_nids
    assert "10.9.0.3@o2ib" == found.nid
    assert (23, 3, 1, 37) == (found.attempts, found.generation, found.invalidations,
                              found.timeouts)
    assert (None if release in ("2.5", "2.10") else 41) == found.idle_s


@pytest.mark.parametrize("release", ["2.16", "2.17"])
def test_what_was_tried_with_each_nid(release):
    """The words for how it went are others in 2.17."""
    assert {"10.9.0.3@o2ib": NidTries(19, 17, True, 5),
            "fd00:17::4@tcp": NidTries(4, 0, False, None)} == parse_import(text(release)).nids
    assert {} == parse_import(text("2.15")).nids


@pytest.mark.parametrize("release, flags", [
    ("2.12", "invalid, deactive, "), ("2.17", "IMPF_INVALID, IMPF_DEACTIVE, ")])
def test_a_deactivated_target_is_full(release, flags):
    found = parse_import(text(release, flags=flags))
    assert ("FULL", True) == (found.state, found.is_deactivated)


@pytest.mark.parametrize("release", ["2.5", "2.12", "2.17"])
def test_there_may_be_no_connection(release):
    found = parse_import(text(release, "NEW", connection="<none>"))
    assert ("", {}) == (found.nid, found.bad)


def test_without_statistics_there_are_no_timeouts():
    """The file ends there (obd_svc_stats); that is not 0."""
    found = parse_import(text("2.12", tail=False))
    assert (None, {}) == (found.timeouts, found.bad)


def test_an_empty_file_is_unknown():
    found = parse_import(b"")
    assert (*[None] * 6, {}, *[None] * 5, {}) == found
    assert (None, [], {}) == parse_state(b"")


@pytest.mark.parametrize("old, new, key, field", [
    (b"state: FULL", b"state: FULLER", "state", "state"),
    (b"attempts: 23", b"attempts: -23", "connection.connection_attempts", "attempts"),
    (b"timeouts: 37", b"timeouts: 99999999999999999999", "rpcs.timeouts", "timeouts"),
    (b"timeouts: 37", b"timeouts: 9999999999999999999", "rpcs.timeouts", "timeouts"),
    (b"timeouts: 37", b"timeouts: ", "rpcs.timeouts", "timeouts"),
    (b"idle: 41 sec", b"idle: 41 min", "connection.idle", "idle_s"),
    (b"target: scratch-OST0003_UUID", b"target: a b", "target", "target"),
    (b"import_flags: [ replayable", b"import_flags: replayable", "import_flags",
     "is_deactivated"),
    (b"failover_nids: [ ", b"failover_nids: [ a b, ", "connection.failover_nids",
     "failover_nids")])
def test_what_is_not_understood_is_said_and_unknown(old, new, key, field):
    right = parse_import(text("2.12"))
    found = parse_import(text("2.12").replace(old, new))
    assert [key] == list(found.bad)
    assert "expected" in found.bad[key] and "got" in found.bad[key]
    assert right._replace(**{field: None}) == found._replace(bad={})


def test_a_line_of_no_form_is_named():
    found = parse_import(text("2.12").replace(b"    rpcs:\n", b"    rpcs:\n\x1b[2J\xff\n"))
    assert {19: "expected \"KEY: VALUE\" or \"NID\": { connects: ... }, got '\\x1b[2J\ufffd'"} == (
        found.bad)
    assert 37 == found.timeouts


# -- state ---------------------------------------------------------------------------------------

STATE = (b"current_state: FULL\nstate_history:\n - [ 1795226284, CONNECTING ]\n"
         b" - [ 1795226284, EVICTED ]\n - [ 1795226294, FULL ]\n")


def test_a_history_has_its_times():
    assert ("FULL", [(1_795_226_284, "CONNECTING"), (1_795_226_284, "EVICTED"),
                     (1_795_226_294, "FULL")], {}) == parse_state(STATE)


@pytest.mark.parametrize("state", imports.STATES)
def test_each_state_is_known(state):
    assert (state, [(23, state)], {}) == parse_state(
        f"current_state: {state}\nstate_history:\n - [ 23, {state} ]\n".encode())


@pytest.mark.parametrize("line", [b" - [ 23, <UNKNOWN> ]", b" - [ x, FULL ]", b" - [ 23, FULLER ]",
                                  b"current_state: <UNKNOWN>", b"\xff\0", b" - [ 23, FULL"])
def test_a_wrong_line_costs_itself_alone(line):
    found = parse_state(STATE + line + b"\n")
    assert parse_state(STATE)[:2] == found[:2]
    assert [6] == list(found.bad)


def test_full_and_idle_are_connected():
    assert ("FULL", "IDLE") == imports.CONNECTED


# -- hostile ones --------------------------------------------------------------------------------

@given(st.one_of(st.binary(max_size=300), st.builds(
    lambda data, at, junk: data[:at] + junk + data[at:],
    st.sampled_from([STATE, text("2.5"), text("2.17")]), st.integers(0, 1500),
    st.binary(max_size=30))))
def test_any_bytes_are_an_import_and_a_state(data):
    found, state = parse_import(data), parse_state(data)
    assert found.state in (None, *imports.STATES) and state.state in (None, *imports.STATES)
    assert all(number is None or 0 <= number < 2**63 for number in (
        found.attempts, found.generation, found.invalidations, found.timeouts))
    assert all(why.isprintable() and len(why) < 400
               for why in (*found.bad.values(), *state.bad.values()))
    assert all(is_printable(name) for name in (
        found.name or "", found.target or "", found.nid or "", *(found.failover_nids or ()),
        *found.nids))


def test_a_megabyte_is_bounded():
    found = parse_import(text("2.17") + b"\n\0junk" * 200_000)
    assert 37 == found.timeouts and len(found.bad) <= 20
    state = parse_state(STATE + b" - [ 23, FULL ]\n" * 100_000)
    assert len(state.history) <= 5000


# -- real ones -----------------------------------------------------------------------------------

@pytest.mark.parametrize("pattern", ["*/s1[69]*", "*/s09*/*"])
def test_nothing_in_a_real_file_is_not_understood(pattern):
    found = [path for moment in shared("captures").glob(pattern)
             for path in moment.rglob("*") if path.name in ("import", "state")]
    assert len(found) >= 6
    for path in found:
        parsed = (parse_import if path.name == "import" else parse_state)(path.read_bytes())
        assert {} == parsed.bad, path
        assert parsed.state in ("FULL", "IDLE", "DISCONN", "CONNECTING")


@pytest.mark.parametrize("path", samples(
    "fixtures", "HewlettPackard__lustre_exporter/2.10.1/*_import*.txt"))
def test_a_real_import_of_2_10(path):
    found = parse_import(path.read_bytes())
    assert {} == found.bad and None is found.idle_s and {} == found.nids
    assert found.name.startswith(found.target) and "@o2ib" in found.nid
    # The MDT's own osp lost its OST 22 times.
    assert ((23, 21) if "osp" in path.name else (1, 0)) == (found.attempts, found.timeouts)


def test_the_eviction_of_a_real_client():
    """Evicted by an administrator at 07:34:54; full again in the same second."""
    path = shared("captures", "2.17.57-client", "s19_idle", "sys/kernel/debug/lustre/osc",
                  "lustre-OST0001-osc-ff110000be427800", "state")
    assert ("FULL", [(1_795_226_284, "CONNECTING"), (1_795_226_284, "FULL"),
                     (1_795_226_294, "DISCONN"), (1_795_226_294, "CONNECTING"),
                     (1_795_226_294, "EVICTED"), (1_795_226_294, "RECOVER"),
                     (1_795_226_294, "FULL")], {}) == parse_state(path.read_bytes())


def test_a_target_that_is_down_fills_the_history_in_half_a_minute():
    path = shared("captures", "2.17.57", "s19_idle", "sys/kernel/debug/lustre/osc",
                  "lustre-OST0001-osc-ff11000128551000", "state")
    found = parse_state(path.read_bytes())
    assert ("DISCONN", 16, 31) == (found.state, len(found.history),
                                   found.history[-1][0] - found.history[0][0])


def test_the_real_target_that_was_deactivated():
    found = [parse_import(path.read_bytes()) for path in shared(
        "captures", "2.17.57", "s17_ost2_inactive").rglob("import")]
    assert ["lustre-OST0002-osc-ff11000128551000"] == [
        one.name for one in found if one.is_deactivated]
    assert {"FULL"} == {one.state for one in found}
