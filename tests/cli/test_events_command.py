"""
`iostats events` as its user runs it, against collectors that do as they are told: lines, choices,
several servers, following, what is wrong.  With a real site's server: test_events_live.py.
"""
from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
from processes import REPOSITORY, Done, Listener, free_port, http_answer, until
from told_collector import NOON, ToldCollector, an_event

from iostats.events.event import from_json

NIDS = ("10.9.0.11@o2ib2", "10.9.0.12@o2ib2", "10.9.0.13@o2ib2")
EVICTED = an_event(1, cause="silent", clients=NIDS, count=37, over=NOON + 43,
                   message="scratch-OST0003: haven't heard from client 5a8d9d2c in 227 seconds")
LBUG = an_event(2, "lbug", NOON + 7, "mds1", target="scratch-MDT0000", message="LBUG")
UP = an_event(3, "target_up", NOON + 61, "oss2", message="Imperative Recovery not enabled")
SINCE = ("-S", f"uts{int(NOON) - 86_400}")
DAY = time.strftime("%b %d", time.gmtime(NOON))


@pytest.fixture
def one():
    with ToldCollector() as collector:
        collector.tell(EVICTED, LBUG, UP)
        yield collector


@pytest.fixture
def two():
    with ToldCollector() as a, ToldCollector() as b:
        yield a, b


def command(*words):
    return [sys.executable, "-m", "iostats", "events", *map(str, words)]


def environment(**more):
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY), "TZ": "UTC",
            "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **more}


def run(*words, **more):
    done = subprocess.run(command(*words), env=environment(**more), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=100)
    return Done(done.returncode, done.stdout, done.stderr)


def of(*servers):
    return [word for one in servers for word in ("--server", one.name)]


def ids(text):
    """[(id, is an update)] of lines of JSON."""
    return [(one["id"], one["is_update"]) for one in map(json.loads, text.splitlines())]


class Following:
    """`iostats events -f` that runs; its output goes to files."""

    def __init__(self, directory, *words, **more):
        number = len(list(directory.glob("*.out")))
        self._out, self._err = directory / f"{number}.out", directory / f"{number}.err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(command("-f", *words), env=environment(**more),
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    @property
    def out(self):
        return self._out.read_text()

    @property
    def err(self):
        return self._err.read_text()

    def until_shown(self, *events):
        """Until these are shown, each once and in any order, and nothing else."""
        wanted = sorted(event.id for event in events)
        until(lambda: len(self.out.splitlines()) >= len(wanted), what=lambda: (
            f"{self.out}{self.err}"))
        assert wanted == sorted(one for one, _ in ids(self.out)), self.out

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def follow(tmp_path):
    started = []

    def begin(*words, **more):
        started.append(Following(tmp_path, *words, **more))
        return started[-1]
    yield begin
    for one in started:
        one.close()


# -- lines

def test_a_line_for_each_event_in_the_order_of_time(one):
    done = run(*of(one), *SINCE)
    assert (0, "") == (done.status, done.err)
    assert [
        f"{DAY} 12:00:00 crit  oss1     evicted scratch-OST0003 37x "
        "10.9.0.11@o2ib2,10.9.0.12@o2ib2,10.9.0.13@o2ib2,+34 (silent, over after 43 s): "
        "haven't heard from client 5a8d9d2c in 227 seconds",
        f"{DAY} 12:00:07 FATAL mds1     lbug scratch-MDT0000: LBUG",
        f"{DAY} 12:01:01 info  oss2     target_up scratch-OST0003: Imperative Recovery not enabled",
    ] == done.out.splitlines()


@pytest.mark.parametrize("columns, first", [
    (80, f"{DAY} 12:00:00 crit  oss1     evicted scratch-OST0003 37x (silent, over after +"),
    (120, f"{DAY} 12:00:00 crit  oss1     evicted scratch-OST0003 37x 10.9.0.11@o2ib2,+36 (silent, "
          "over after 43 s): haven't heard+"),
    (200, f"{DAY} 12:00:00 crit  oss1     evicted scratch-OST0003 37x "
          "10.9.0.11@o2ib2,10.9.0.12@o2ib2,10.9.0.13@o2ib2,+34 (silent, over after 43 s): "
          "haven't heard from client 5a8d9d2c in 227 seconds")])
def test_a_line_fits_into_the_terminal(one, columns, first):
    lines = run(*of(one), *SINCE, COLUMNS=str(columns)).out.splitlines()
    assert first == lines[0] and max(map(len, lines)) <= columns
    assert len(run(*of(one), *SINCE, "--full", COLUMNS=str(columns)).out.splitlines()[0]) > 150


def test_a_date_of_another_year_has_its_year(two):
    a, _ = two
    a.tell(LBUG._replace(time=NOON - 400 * 86400, last=NOON))
    day = time.strftime("%Y-%m-%d", time.gmtime(NOON - 400 * 86400))
    assert run(*of(a), "-n", "all").out.startswith(f"{day}T12:00:00 FATAL mds1 ")


def test_times_are_local_or_utc(one):
    assert run(*of(one), *SINCE, TZ="Asia/Tokyo").out.startswith(f"{DAY} 21:00:00 ")
    assert run(*of(one), *SINCE, "--utc", TZ="Asia/Tokyo").out.startswith(f"{DAY} 12:00:00 ")


def test_json_is_an_object_a_line(one):
    lines = run(*of(one), *SINCE, "--json").out.splitlines()
    assert [EVICTED, LBUG, UP] == [from_json(json.loads(line)) for line in lines]
    assert [(EVICTED.id, False), (LBUG.id, False), (UP.id, False)] == ids("\n".join(lines))


def test_a_kind_is_explained_once(one):
    one.tell(an_event(5, "lbug", NOON + 8))
    lines = run(*of(one), *SINCE, "-x", "-p", "fatal", COLUMNS="80").out.splitlines()
    assert "    what: An assertion of Lustre failed; the thread, or the node, hangs" == lines[1]
    assert lines[2].startswith("    why:  ") and 80 >= max(map(len, lines))
    assert 1 == sum(line.startswith("    do:   ") for line in lines)
    assert f"{DAY} 12:00:08 FATAL oss1     lbug scratch-OST0003: event 5" == lines[-1]


def test_no_events_are_said(one):
    assert "-- No events --\n" == run(*of(one), "-S", "now-1hour", "-E", "now").out
    assert "" == run(*of(one), "-S", "now-1hour", "-E", "now", "-q").out
    assert "" == run(*of(one), "-S", "now-1hour", "-E", "now", "--json").out


def seen_on_a_terminal(*words, **more):
    """What is written to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command(*words), env=environment(TERM="xterm", COLUMNS="120", **more),
                          stdin=subprocess.DEVNULL, stdout=theirs) as process:
        os.close(theirs)
        found = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            found += part
        process.wait()
    os.close(ours)
    return found.decode()


def test_colours_are_for_terminals_alone(one):
    shown = seen_on_a_terminal(*of(one), *SINCE)
    assert "\x1b[31mcrit \x1b[0m oss1" in shown and "\x1b[1;31mlbug scratch-MDT0000" in shown
    plain = [seen_on_a_terminal(*of(one), *SINCE, NO_COLOR="1"),
             run(*of(one), *SINCE, COLUMNS="120", TERM="xterm").out]
    assert plain[0].replace("\r\n", "\n") == plain[1] and "\x1b" not in plain[1]
    assert plain[1] == re.sub("\x1b\\[[0-9;]*m", "", shown).replace("\r\n", "\n")


def test_what_comes_from_outside_moves_no_cursor(two):
    a, _ = two
    a.tell(EVICTED)
    place, event = a.kept[EVICTED.id]
    a.kept[EVICTED.id] = place, event._replace(message="\x1b[2Jgone", node="oss\r1",
                                               clients=("\x1b]0;x",))
    done = run(*of(a), *SINCE)
    assert "\x1b" not in done.out and "\r" not in done.out and 1 == len(done.out.splitlines())


# -- which

def test_the_question_is_what_the_options_say(one):
    run(*of(one), "-S", "uts1795348000", "-E", "uts1795348001", "-p", "warn", "--fs",
        "scratch,home", "--node", "nid[1-2],oss1", "--node", NIDS[0], "-j", "4711", "--kind",
        "evicted", "--kind", "lbug")
    [asked] = one.asked
    assert {"since": 1_795_348_000.0, "until": 1_795_348_001.0, "severity": 1, "after": 0,
            "limit": 1000, "file_systems": ["scratch", "home"], "job": "4711",
            "nodes": ["nid1", "nid2", "oss1", NIDS[0]], "kinds": ["evicted", "lbug"]} == asked


@pytest.mark.parametrize("words, hours", [([], 24), (["-S", "now-2hours"], 2), (["-n"], None),
                                          (["-j", "4711"], None), (["-n", "all"], None)])
def test_without_a_time_the_last_day_is_shown(one, words, hours):
    run(*of(one), *words)
    [asked] = one.asked
    assert (hours is None) == ("since" not in asked)
    assert hours is None or abs(time.time() - hours * 3600 - asked["since"]) < 300


@pytest.mark.parametrize("words, found", [
    (["-n", "2"], [LBUG, UP]), (["-n2", "-r"], [UP, LBUG]), (["-p", "2"], [EVICTED, LBUG]),
    (["-p", "fatal"], [LBUG]), ([*SINCE, "-r"], [UP, LBUG, EVICTED]),
    (["-n"], [EVICTED, LBUG, UP])])
def test_events_can_be_chosen(one, words, found):
    assert [event.id for event in found] == [
        name for name, _ in ids(run(*of(one), "-n", "all", *words, "--json").out)]


@pytest.mark.parametrize("words, why", [
    (["-S", "then"], "--since: expected a time such as"),
    (["-S", "now", "-E", "yesterday"], "expected --since before --until"),
    (["-p", "bad"], "--severity: expected info, warning, critical, fatal or 0 to 3, got 'bad'"),
    (["-p", "4"], "--severity: expected info"), (["-p", ""], "--severity: expected info"),
    (["--kind", "evict"], "--kind: expected some of evicted connection_lost"),
    (["--fs", ","], "--fs: expected names separated by commas, got ','"),
    (["--node", "nid[1-"], "--node: expected a node list such as nid[001-004],oss1, got 'nid[1-'"),
    (["--node", "nid[1-9999]"], "--node: expected up to 1000 nodes, got more"),
    (["--node", "x" * 257], "--node: expected"),
    (["-n", "0"], "--lines: expected a number from 1"), (["-n", "many"], "--lines: expected"),
    (["-f", "-r"], "expected --follow or --reverse, got both"),
    (["-f", "-E", "now"], "--until: expected no --follow with it"),
    (["--root", "/"], "--root: expected --local with it"),
    (["--server", "a:b"], "--server: expected HOST or HOST:PORT, got 'a:b'"),
    (["--server", "http://a:0"], "--server: expected HOST or HOST:PORT, got 'a:0'"),
    (["--server", "a:8980", "--server", "http://a"], "--server: expected up to 64, each once"),
    (["--local", "--server", "a"], "--server: expected a server, got --local"),
    (["--local", "-j", "4711"], "--job: expected a server, got --local"),
    (["--local", "--cursor-file", "x"], "--cursor-file: expected a server, got --local"),
    (["-j", "a b"], "--job"), (["--every", "1"], "unrecognized arguments: --every 1"),
    (["more"], "unrecognized arguments: more")],
    ids=lambda one: one if isinstance(one, str) else " ".join(one)[:20])
def test_what_is_wrong_is_one_line(words, why):
    done = run(*words)
    assert 2 == done.status and why in done.line


# -- several servers

def test_what_two_servers_tell_is_shown_once(two):
    a, b = two
    a.tell(EVICTED._replace(over=None, count=23), UP)
    b.tell(LBUG, EVICTED, UP)
    done = run(*of(a, b), *SINCE, "--json")
    found = [from_json(json.loads(line)) for line in done.out.splitlines()]
    assert (0, "", [EVICTED, LBUG, UP]) == (done.status, done.err, found)


def test_one_that_is_away_does_not_hide_the_others(two):
    a, b = two
    a.tell(LBUG)
    b.stop()
    done = run(*of(a, b), *SINCE, "--json")
    assert (3, [(LBUG.id, False)]) == (done.status, ids(done.out))
    assert f"iostats: no answer from the collector {b.name}: Connection refused; without it" == (
        done.line)


def test_none_that_answers_is_an_error(two):
    a, b = two
    a.stop(), b.stop()
    done = run(*of(a, b), *SINCE)
    assert (3, "", 2) == (done.status, done.out, len(done.lines))
    assert 3 == run("-f", *of(a), *SINCE).status


@pytest.mark.parametrize("answer, why", [
    ((200, b"nothing"), "no collector of iostats answers there (HTTP status 200)"),
    ((404, b"nothing"), "no collector of iostats answers there (HTTP status 404)"),
    ((200, b"[" * 100_000), "no collector of iostats answers there"),
    ((403, b""), "this address is not in the collector's [collector] allow"),
    ((200, b'{"error": {"code": -32601, "message": "no \\u001b method"}}'),
     "the collector refused: no \\x1b method"),
    ((200, b'{"result": 7}'), "unexpected format of the answer"),
    ((200, b'{"result": {"events": 7, "next": 0, "more": false, "time": 7}}'),
     "unexpected format of the answer"),
    ((200, b'{"result": {"events": [], "next": 0, "more": true, "time": 7}}'),
     "announces more events, but none after place 0"),
    ((200, b'{"result": {"events": [], "next": 1e999, "more": false, "time": 7}}'),
     "unexpected format of the answer"),
], ids=["text", "404", "deep", "403", "error", "number", "no list", "endless", "infinite"])
def test_a_bad_answer_is_one_line(two, answer, why):
    a, _ = two
    a.answer = answer
    done = run(*of(a), *SINCE)
    assert (3, "") == (done.status, done.out) and why in done.line


def test_another_program_on_the_port_is_one_line():
    with Listener(free_port(), b"SSH-2.0-OpenSSH_9.2\r\n") as other:
        done = run("--server", f"http://127.0.0.1:{other.port}")
    assert 3 == done.status and "no answer from the collector" in done.line
    with Listener(free_port(), http_answer(b"<html>")) as other:
        done = run("--server", f"http://127.0.0.1:{other.port}")
    assert 3 == done.status and "no collector of iostats answers there" in done.line


def test_one_bad_event_does_not_hide_the_others(two):
    a, _ = two
    a.tell(EVICTED, LBUG)
    place, event = a.kept[EVICTED.id]
    a.kept[EVICTED.id] = place, event._replace(severity=7)
    done = run(*of(a), *SINCE, "--json")
    assert (0, [(LBUG.id, False)]) == (done.status, ids(done.out))
    assert "an event cannot be shown: an event: severity: expected a number from 0 to 3" in (
        done.line)


def test_what_a_server_dropped_is_said(one):
    one.dropped = 41
    assert f"iostats: {one.name}: 41 events were dropped there for lack of space" == run(
        *of(one), *SINCE).line


def test_a_user_who_does_not_see_all_is_told_so(one):
    one.of_user = "alice"
    done = run(*of(one))
    assert (0, "-- No events --\n") == (done.status, done.out)
    assert (f"iostats: {one.name}: alice sees there the storage servers' events of targets, "
            f"and with -j the events of the nodes of an own job; root and [site] readers see "
            f"all") == done.line


def test_more_than_one_answer_has_come_in_parts(two):
    a, _ = two
    a.tell(*(an_event(number, at=NOON + number) for number in range(2301)))
    assert 2301 == len(run(*of(a), "-n", "all").out.splitlines())
    assert [0, 1000, 2000] == [asked["after"] for asked in a.asked]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_long_time_is_asked_for_in_parts(two, is_reversed):
    """Five days; one event goes on from the second to the fourth, and one began before all."""
    a, b = two
    events = [an_event(number, at=NOON + number * 43_200.0) for number in range(10)]
    events[3] = events[3]._replace(over=NOON + 7 * 43_200.0)
    before = an_event(23, at=NOON - 7, over=NOON + 7)
    a.tell(*events[::2], before), b.tell(*events[1::2], events[4])
    done = run(*of(a, b), "-S", f"uts{int(NOON)}", "-E", f"uts{int(NOON) + 5 * 86_400}", "--json",
               *(["-r"] if is_reversed else []))
    wanted = [before, *events]
    assert (0, "") == (done.status, done.err)
    assert [(one.id, False) for one in (wanted[::-1] if is_reversed else wanted)] == ids(done.out)
    assert 5 == len(a.asked) and 43_200 * 2 == a.asked[0]["until"] - a.asked[0]["since"]


def test_a_server_that_dies_between_two_parts_is_said_once(two):
    a, b = two
    a.tell(an_event(1)), b.tell(an_event(2, at=NOON + 3 * 86_400))
    a.answers = 1
    done = run(*of(a, b), "-S", f"uts{int(NOON)}", "-E", f"uts{int(NOON) + 5 * 86_400}", "--json")
    assert (3, [an_event(1).id, an_event(2).id]) == (done.status, [one for one, _ in ids(done.out)])
    assert done.line.endswith("; without it")


# -- following

def test_new_events_are_shown_as_they_come(one, follow):
    shown = follow(*of(one), "--json")
    shown.until_shown(EVICTED, LBUG, UP)
    new = an_event(7)
    one.tell(new)
    shown.until_shown(EVICTED, LBUG, UP, new)


def test_follow_begins_with_the_last_ten(two, follow):
    a, _ = two
    events = [an_event(number, at=NOON + number) for number in range(23)]
    a.tell(*events)
    shown = follow(*of(a), "--json")
    shown.until_shown(*events[-10:])
    a.tell(an_event(41))
    shown.until_shown(*events[-10:], an_event(41))
    follow(*of(a), "--json", "-n", "3").until_shown(*events[-3:])
    follow(*of(a), "--json", *SINCE).until_shown(*events, an_event(41))


def test_an_event_that_grows_is_shown_once_more_as_an_update(two, follow):
    a, b = two
    first = EVICTED._replace(over=None, count=23)
    a.tell(first)
    shown = follow(*of(a, b))
    until(lambda: len(shown.out.splitlines()) == 1, what="the event")
    b.tell(first._replace(count=3), first, first._replace(last=NOON + 9))   # nothing that is shown
    a.tell(first._replace(count=37))
    until(lambda: len(shown.out.splitlines()) == 2, what="the count")
    a.tell(EVICTED)
    until(lambda: len(shown.out.splitlines()) == 3, what="its end")
    b.tell(LBUG)
    until(lambda: len(shown.out.splitlines()) == 4, what="another one")
    _, grown, over, other = shown.out.splitlines()
    assert "oss1     update: evicted scratch-OST0003 37x " in grown and " over " not in grown
    assert "oss1     update: evicted scratch-OST0003 37x " in over and "over after 43 s" in over
    assert "lbug" in other


def test_what_came_while_a_server_was_away_is_fetched(two, follow):
    a, b = two
    a.tell(EVICTED), b.tell(EVICTED)
    shown = follow(*of(a, b), "--json")
    shown.until_shown(EVICTED)
    b.stop()
    until(lambda: shown.err, what="that it is away")
    a.tell(LBUG)
    shown.until_shown(EVICTED, LBUG)
    b.tell(UP, LBUG)                                  # which it learned meanwhile
    b.start()
    shown.until_shown(EVICTED, LBUG, UP)
    until(lambda: "answers again" in shown.err, what="that it is back")
    away, back = shown.err.splitlines()
    assert re.fullmatch(f"iostats: no answer from the collector {re.escape(b.name)}: "
                        "Connection (refused|reset by peer); trying again", away)
    assert f"iostats: {b.name} answers again; 1 event arrived in between" == back


def test_one_that_is_away_at_the_beginning_is_asked_when_it_comes(two, follow):
    a, b = two
    a.tell(EVICTED), b.tell(LBUG)
    b.stop()
    shown = follow(*of(a, b), "--json")
    shown.until_shown(EVICTED)
    b.start()
    shown.until_shown(EVICTED, LBUG)


@pytest.mark.parametrize("places", ["two", "one", ""], ids=["named", "not named", "no name"])
def test_a_server_that_lost_its_numbers_is_asked_for_all_again(two, follow, places):
    """Those with no name for their numbering show it by a number that is smaller, or by an end."""
    a, _ = two
    now = time.time()
    if not places:
        a.places = ""
    events = [an_event(number, at=now - 30 + number) for number in range(5)]
    a.tell(*events[:3])
    shown = follow(*of(a), "--json", "-S", "now-1hour")
    shown.until_shown(*events[:3])
    until(lambda: len(a.asked) > 2, what="a question after all")
    a.stop()
    a.begin_anew(events[4], events[0], *(events[1:] if not places else ()), places=places)
    a.start()
    shown.until_shown(*events[:3], events[4], *(events[3:4] if not places else ()))


def test_a_reader_that_goes_ends_it(one):
    process = subprocess.Popen(command("-f", *of(one)), env=environment(), text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    assert process.stdout.readline()
    process.stdout.close()
    assert (0, "") == (process.wait(60), process.stderr.read())
    process.stderr.close()


def test_a_pipe_that_was_closed_is_no_error(two):
    a, _ = two
    a.tell(*(an_event(number, message="x" * 400) for number in range(2000)))
    done = subprocess.run(["/bin/sh", "-c", '"$@" | head -n 1', "sh", *command(*of(a), *SINCE)],
                          env=environment(), capture_output=True, text=True, timeout=100)
    assert (1, "") == (len(done.stdout.splitlines()), done.stderr)


@pytest.mark.parametrize("with_server", [True, False])
def test_ctrl_c_ends_it_quietly(one, follow, with_server):
    shown = follow(*of(one), "--json")
    shown.until_shown(EVICTED, LBUG, UP)
    if not with_server:
        one.stop()
        until(lambda: shown.err, what="that it is away")
    shown.process.send_signal(signal.SIGINT)
    assert 130 == shown.process.wait(60) and "Traceback" not in shown.err


def test_a_full_disk_is_one_line(one):
    with open("/dev/full", "w") as full:
        done = subprocess.run(command(*of(one), *SINCE), env=environment(), stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=100)
    assert (1, "iostats: standard output: cannot be written: No space left on device\n") == (
        done.returncode, done.stderr)


# -- going on where another one stopped

def test_a_cursor_file_goes_on_where_it_was(one, two, tmp_path):
    file, (a, _) = tmp_path / "cursor", two
    a.tell(EVICTED)
    words = [*of(one, a), "--json", "--cursor-file", file]
    assert [(EVICTED.id, False), (LBUG.id, False), (UP.id, False)] == ids(
        run(*words, *SINCE).out)
    assert (0, "") == (run(*words).status, run(*words).out)
    one.tell(an_event(7, at=NOON - 7 * 86400))            # which came late
    a.tell(an_event(7, at=NOON - 7 * 86400), LBUG, UP._replace(over=NOON + 70))
    assert [(an_event(7).id, False), (UP.id, True)] == ids(run(*words).out)
    assert 0o600 == file.stat().st_mode & 0o777


@pytest.mark.parametrize("text", ["", "{", "[]", '{"servers": {"a": [1]}, "shown": []}',
                                  '{"servers": {}, "shown": 7}'])
def test_a_damaged_cursor_file_is_one_line(one, tmp_path, text):
    file = tmp_path / "cursor"
    file.write_text(text)
    done = run(*of(one), "--cursor-file", file)
    assert 1 == done.status and "expected what --cursor-file wrote" in done.line


def test_a_killed_follower_goes_on_with_its_cursor_file(one, follow, tmp_path):
    words = [*of(one), "--json", *SINCE, "--cursor-file", tmp_path / "cursor"]
    shown = follow(*words)
    shown.until_shown(EVICTED, LBUG, UP)
    until((tmp_path / "cursor").exists, what="the cursor")
    shown.close()
    one.tell(an_event(7))
    follow(*words).until_shown(an_event(7))


def test_a_follower_with_a_cursor_file_waits_for_its_server(one, follow, tmp_path):
    """As a service that is started before the server is back."""
    words = [*of(one), "--json", *SINCE, "--cursor-file", tmp_path / "cursor"]
    run(*words)
    one.stop()
    shown = follow(*words)
    until(lambda: "trying again" in shown.err, what="the server that is missing")
    one.tell(an_event(7))
    one.start()
    shown.until_shown(an_event(7))
