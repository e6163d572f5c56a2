"""
The sink for InfluxDB, against a real VictoriaMetrics, and against a database that misbehaves.
"""
from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import types

import pytest
from client_desk import Names, totals_of
from processes import until
from sink_desk import (
    EVERY_S,
    Answering,
    Said,
    Site,
    Victoria,
    config_of,
    get,
    kept,
    now_slot,
    number_of,
    sent,
    swept,
)
from test_lines import HEAD
from trees import ROOT

from iostats.base import private_files
from iostats.harvest.clients.rates import ClientSweep
from iostats.harvest.sink import Number
from iostats.sinks import influxdb
from iostats.sinks.influxdb import sender

OST0, OST1 = ("scratch", "OST0000"), ("scratch", "OST0001")
MDT0, HOME = ("scratch", "MDT0000"), ("home", "OST0000")
FULL_OF_ALICE = (("account", "physics"), ("cluster", "snake"), ("fs", "scratch"), ("job", "4711"),
                 ("user", "alice"))
NOON = 1_795_176_000


@pytest.fixture(scope="module")
def victoria(tmp_path_factory):
    """A real VictoriaMetrics; each test has file systems or jobs of its own in it."""
    one = Victoria(tmp_path_factory.mktemp("victoria"))
    yield one
    one.stop()


@pytest.fixture
def clean(tmp_path):
    """A VictoriaMetrics with nothing in it."""
    one = Victoria(tmp_path / "data")
    yield one
    one.stop()


@pytest.fixture
def opened():
    """open(config) -> a sink, which is closed at the end; `opened.said` has what they said."""
    made = []

    def open_one(config):
        made.append(influxdb.make(config, open_one.said, time.time))
        return made[-1]
    open_one.said = Said()
    yield open_one
    for sink in made:
        sink.close()


@pytest.fixture
def answering():
    """answering(answer, ...) -> an Answering."""
    made = []

    def begin(*answers):
        made.append(Answering(*answers))
        return made[-1]
    yield begin
    for one in made:
        one.close()


@pytest.fixture
def at_once(monkeypatch):
    """Failed writes are tried again soon."""
    monkeypatch.setattr(sender, "AGAIN_S", (0.02, 0.05))


@pytest.fixture
def options(tmp_path):
    """options(url, more=...) -> a Config with a spool below tmp_path."""
    return lambda url, **more: config_of(influxdb_url=url,
                                         influxdb_spool_dir=tmp_path / "spool", **more)


@pytest.fixture
def site():
    """A site with alice's job 4711."""
    one = Site(now_slot())
    one.knows("4711", user="alice", account="physics", cluster="snake", started=one.began)
    return one


# -- a real database -------------------------------------------------------------------------------

NAMES = ["4 7", "4,7", "4=7", "4\\7", "4\\", "4\\,7", "4\n7", "4\"7\"", "4'7", "4\xf67\u2603",
         "4[3].pbs-01", "4#", "4%25", "47" * 60]


@pytest.mark.victoria
def test_a_real_database_has_every_id_as_it_was(victoria, opened, options):
    """What is not printed, and a backslash, stand as job_stats print them."""
    site = Site(now_slot())
    sink = opened(options(victoria.url))
    swept(sink, site, {("names", "MDT0000"): {name: {"open": number}
                                              for number, name in enumerate(NAMES, 23)}})
    sent(sink)
    found = {dict(labels)["job"]: list(points.values())
             for (name, labels), points in victoria.series('lustre_job_open{fs="names"}').items()}
    expected = {name.replace("\\", "\\x5c").replace("\n", "\\x0a"): [number]
                for number, name in enumerate(NAMES, 23)}
    assert expected == found


@pytest.mark.victoria
def test_a_real_database_has_what_was_written_to_a_byte(clean, opened, options, site):
    """Also numbers that no double can hold to the last byte elsewhere; both schemas."""
    sink = opened(options(clean.url, influxdb_schema="both"))
    swept(sink, site, {OST0: {"4711": {"write_bytes": (23, 9007199254740991)}}, MDT0: {}},
          {OST0: {"4711": {"write_bytes": (29, 9007199254740991)}},
           MDT0: {"4711": {"open": 37}}})
    sent(sink)
    t0, t1 = site.began, site.began + EVERY_S
    oss = (("fs", "scratch"), ("job", "4711"), ("server", "oss"))
    mds = (("fs", "scratch"), ("job", "4711"), ("server", "mds"))
    largest = 9007199254740991
    assert {
        ("lustre_job_write_bytes", FULL_OF_ALICE): {t0: largest, t1: largest},
        ("lustre_job_write_rpcs", FULL_OF_ALICE): {t0: 23, t1: 29},
        ("lustre_job_open", FULL_OF_ALICE): {t0: 0, t1: 37},
        ("lustre_job_operations", FULL_OF_ALICE): {t0: 0, t1: 37},
        ("lustre_job_requests", FULL_OF_ALICE): {t0: 23, t1: 66},
        ("lustre_job_lower_bound", FULL_OF_ALICE): {t0: 0, t1: 0},
        ("lustre_read_bytes", oss): {t0: 0, t1: 0},
        ("lustre_write_bytes", oss): {t0: largest, t1: largest},
        ("lustre_iops", oss): {t0: 0, t1: 0},
        ("lustre_read_bytes", mds): {t1: 0}, ("lustre_write_bytes", mds): {t1: 0},
        ("lustre_iops", mds): {t1: 37},
    } == clean.series()
    assert [] == opened.said


@pytest.mark.victoria
def test_a_number_above_what_the_database_takes_is_left_out_of_its_point(victoria, opened, options):
    """Of two ids of a job, above 2**63 - 1 together; the rest of the point is there."""
    site, place = Site(now_slot()), ("large", "OST0000")
    sink = opened(options(victoria.url))
    swept(sink, site, {place: {
        "4711:a": {"write_bytes": (23, 2**62), "read_bytes": (5, 41)},
        "4711:b": {"write_bytes": (37, 2**62)}}})
    sent(sink)
    found = {name: list(points.values())
             for (name, _), points in victoria.series('{fs="large"}').items()}
    assert {"lustre_job_read_bytes": [41], "lustre_job_read_rpcs": [5],
            "lustre_job_write_rpcs": [60], "lustre_job_requests": [65],
            "lustre_job_lower_bound": [0]} == found
    assert 0 == number_of(sink, "iostats_influxdb_refused_points")
    assert ["influxdb: write_bytes of lustre_job,job=4711,fs=large is above 2**63 - 1, the largest "
            "integer of a database: 1 such fields of this sweep are left out, the rest of their "
            "points is written"] == opened.said


@pytest.mark.victoria
def test_the_increase_over_a_jobs_life_is_its_total(victoria, opened, options):
    """Through silence, too, and for what is new: rates are made where the work was done."""
    site = Site(now_slot())
    place = ("increase", "OST0000")
    sink = opened(options(victoria.url))
    swept(sink, site, {place: {"7": {"write_bytes": (1, 10)}}},
          {place: {"7": {"write_bytes": (2, 33)}, "4711": {"write_bytes": (23, 2300)}}}, {}, {}, {},
          {place: {"4711": {"write_bytes": (37, 3700)}}}, {},
          {place: {"4711": {"write_bytes": (41, 4100)}}})
    sent(sink)
    get(f"{victoria.url}/internal/force_flush")
    end = site.began + 7 * EVERY_S
    query = 'increase(lustre_job_write_bytes{{fs="increase",job="4711"}}[{}s])'
    [total] = victoria.query(query.format(7 * EVERY_S), end).values()
    [burst] = victoria.query(query.format(EVERY_S), end).values()
    assert (4100, 400) == (total, burst)


@pytest.mark.victoria
def test_a_database_that_is_away_loses_no_point(clean, opened, options, site, at_once):
    """It is stopped in the midst; each sweep is there, once, after it is up again."""
    sink = opened(options(clean.url))
    expected = {}
    for number in range(6):
        if number == 2:
            sent(sink)
            clean.stop()
        if number == 5:
            clean.start()
        swept(sink, site, {MDT0: {"4711": {"open": 23 + number}}})
        kept(sink)
        expected[site.slot] = 23 + number
        if number == 3:
            until(lambda: number_of(sink, "iostats_influxdb_failures"), what="a failed write")
    sent(sink)
    assert expected == clean.series()["lustre_job_open", FULL_OF_ALICE]
    [away, back] = opened.said
    assert away.startswith(f"influxdb: {clean.url} not reached: ")
    assert "points are stored in" in away
    assert "accepts points again, after" in back and "dropped" not in back


@pytest.mark.victoria
def test_what_is_written_twice_is_there_once(clean, opened, options, site):
    """The same tags and the same time; so a server that is killed at any moment may send again."""
    for _ in range(2):
        sink = opened(options(clean.url))
        again = Site(site.began)
        again.known = site.known
        swept(sink, again, {MDT0: {"4711": {"open": 23}}}, {MDT0: {"4711": {"open": 37}}})
        sent(sink)
        sink.close()
    get(f"{clean.url}/internal/force_flush")
    at = site.began + EVERY_S
    assert [23 + 14] == list(clean.query("last_over_time(lustre_job_open[60s])", at).values())
    assert [14] == list(clean.query("increase(lustre_job_open[20s])", at).values())


KILLED = """
import asyncio, os, sys, time
sys.path[:0] = sys.argv[1:3]
from sink_desk import Said, Site, config_of, kept, swept
from iostats.sinks import influxdb
site = Site(int(sys.argv[5]))
sink = influxdb.make(config_of(influxdb_url=sys.argv[3], influxdb_spool_dir=sys.argv[4]), Said(),
                     time.time)
for count in (23, 37, 41):
    swept(sink, site, {("scratch", "MDT0000"): {"4711": {"open": count}}})
kept(sink)
print("kept", flush=True)
sys.stdin.read()
"""


def test_a_server_that_is_killed_loses_no_point(answering, opened, options, tmp_path, at_once):
    """kill -9, while a write is under way; its next start sends what was kept."""
    hanging = answering("hang")
    began = now_slot()
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(ROOT / "tests"), str(ROOT), hanging.url,
         str(tmp_path / "spool"), str(began)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert b"kept\n" == process.stdout.readline()
        until(lambda: hanging.writes, what="a write")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    database = answering()
    sink = opened(options(database.url))
    sent(sink)
    assert [[f"lustre_job,job=4711,fs=scratch open={count}i,operations={count}i,requests={count}i,"
             f"lower_bound=0i {(began + number * EVERY_S) * 1000}"]
            for number, count in enumerate((23, 37, 41))
            ] == [lines for _, _, lines in database.writes]


# -- a database that misbehaves --------------------------------------------------------------------


@pytest.mark.parametrize("answer, said", [
    ((500, {}, b"no space left on device\n"), "answers 500 no space left on device"),
    ((503, {"Retry-After": "0"}, b""), "answers 503"),
    ((429, {"Retry-After": "0.1"}, b"slow down"), "answers 429 slow down"),
    ((429, {"Retry-After": "soon"}, b""), "answers 429"),
    ((301, {"Location": "http://127.0.0.1:1/"}, b""), "answers 301"),
    ((401, {}, b'{"code":"unauthorized"}'), 'answers 401 {"code":"unauthorized"}'),
    ((403, {}, b""), "answers 403"), ((404, {}, b'{"code":"not found"}'), "answers 404 "),
    ((404, {"X-Influxdb-Version": "1.6.7"}, b"404 page not found\n"),
     "has no /api/v2/write (InfluxDB 1.6.7); "),
    ((404, {}, b"<html>"), "has no /api/v2/write (answers 404 <html>); "),
    ("drop", "not reached: "), ("hang", "not reached: "),
], ids=["500", "503", "429", "429 with nonsense", "moved", "401", "403", "404",
        "InfluxDB 1.6", "no database", "dropped", "hangs"])
def test_a_point_that_is_not_taken_now_is_sent_again(answering, opened, options, site, at_once,
                                                     answer, said):
    """It is said once, however often it fails, and once that it is over."""
    database = answering(answer, answer, answer)
    sink = opened(options(database.url, influxdb_timeout="2" if answer == "hang" else "60"))
    swept(sink, site, {MDT0: {"4711": {"open": 23}}})
    sent(sink)
    point = f"{HEAD} open=23i,operations=23i,requests=23i,lower_bound=0i {site.began * 1000}"
    assert [[point]] * 4 == [lines for _, _, lines in database.writes]
    assert 2 == len(opened.said)
    assert f"influxdb: {database.url} {said}" in opened.said[0]
    assert "accepts points again" in opened.said[1]
    assert (3, 1, 0) == tuple(number_of(sink, f"iostats_influxdb_{name}") for name in
                              ("failures", "written_points", "dropped_points"))


def test_pauses_are_as_long_as_the_database_says_or_grow(answering, opened, options, site):
    """37 s where it says so, else twice as long each time, up to a minute."""
    class Clock:
        """In place of the sink's event: notes the pauses, and makes none."""

        def __init__(self, event):
            self.event, self.pauses = event, []

        def wait(self, pause_s):
            self.pauses.append(pause_s)

        def __getattr__(self, name):
            return getattr(self.event, name)
    again = (503, {}, b"")
    database = answering((429, {"Retry-After": "37"}, b""), *[again] * 7)
    sink = opened(options(database.url))
    sink.stopped = clock = Clock(sink.stopped)
    swept(sink, site, {MDT0: {"4711": {"open": 23}}})
    sent(sink)
    assert [37, 2, 4, 8, 16, 32, 60, 60] == clock.pauses


def test_a_missing_api_is_not_reported_as_a_wrong_token(answering, opened, options, site,
                                                                at_once):
    """The one of Debian 12, InfluxDB 1.6.7, has /write alone."""
    database = answering((404, {"X-Influxdb-Version": "1.6.7"}, b"404 page not found\n"))
    sink = opened(options(database.url))
    swept(sink, site, {MDT0: {"4711": {"open": 23}}})
    sent(sink)
    assert "expected InfluxDB 2, InfluxDB 1.8 or later 1.x, or VictoriaMetrics" in opened.said[0]
    assert "token" not in opened.said[0]


def test_a_refused_token_is_said_again_after_an_hour(answering, opened, options, site, at_once,
                                                     monkeypatch):
    """And not before; the points are kept."""
    refused = (401, {}, b"")
    database = answering(*[refused] * 2000)
    sink = opened(options(database.url))
    swept(sink, site, {MDT0: {"4711": {"open": 23}}})
    until(lambda: number_of(sink, "iostats_influxdb_failures") > 5, what="some failures")
    assert 1 == len(opened.said)
    assert "answers 401; points are stored in " in opened.said[0]
    assert "are the token, the bucket and the organization right?" in opened.said[0]
    monkeypatch.setattr(sender, "SAY_AGAIN_S", 0.0)          # an hour later
    until(lambda: len(opened.said) > 1, what="it is said again")
    database.answers.clear()
    sent(sink)


def test_a_corrected_token_file_is_read_without_a_restart(answering, opened, options, site, at_once,
                                                    tmp_path):
    """No restart is needed."""
    file = tmp_path / "token"
    file.write_text("old-token\n")
    file.chmod(0o600)
    database = answering()
    database.wanted = "Token new-token"
    sink = opened(options(database.url, influxdb_token_file=file, influxdb_org="physics lab",
                          influxdb_bucket="io&stats"))
    swept(sink, site, {MDT0: {"4711": {"open": 23}}})
    until(lambda: database.writes, what="a write")
    file.write_text("new-token\n")
    sent(sink)
    assert "Token old-token" == database.writes[0][1]
    assert "Token new-token" == database.writes[-1][1]
    assert ("/api/v2/write?org=physics+lab&bucket=io%26stats&precision=ms"
            == database.writes[0][0])


def test_points_that_are_never_taken_are_put_aside(answering, opened, options, tmp_path, at_once):
    """One bad point in a thousand costs that point, and no other; it is not sent for ever."""
    site = Site(now_slot())

    def picky(body):
        return (400, {}, b"partial write: field type conflict") if b"job=1537," in body else (
            204, {}, b"")
    database = answering(*[picky] * 2000)
    sink = opened(options(database.url))
    swept(sink, site, {MDT0: {str(job): {"open": 23} for job in range(1000, 2000)}})
    sent(sink)
    taken = {line.split(",")[1] for _, _, lines in database.writes for line in lines
             if len(lines) < 1000}
    assert 1000 == len(taken)
    assert (999, 1) == tuple(number_of(sink, f"iostats_influxdb_{name}_points")
                             for name in ("written", "refused"))
    [aside] = (tmp_path / "spool" / "refused").iterdir()
    assert aside.read_text().startswith("lustre_job,job=1537,")
    assert [f"influxdb: {database.url} answers 400 partial write: field type conflict; 1 points "
            f"that it rejects are in {tmp_path}/spool/refused, and are not sent again"
            ] == opened.said


def test_a_database_that_takes_nothing_is_not_asked_for_each_point(answering, opened, options,
                                                                   tmp_path):
    """A bounded number of tries; then what is left is put aside in larger pieces."""
    site = Site(now_slot())
    database = answering(*[(400, {}, b"no")] * 5000)
    sink = opened(options(database.url))
    swept(sink, site, {MDT0: {str(job): {"open": 23} for job in range(1000, 3000)}})
    sent(sink)
    assert len(database.writes) < 200
    assert 2000 == number_of(sink, "iostats_influxdb_refused_points")
    assert 2000 == sum(path.read_text().count("\n")
                       for path in (tmp_path / "spool" / "refused").iterdir())


def test_a_database_that_hangs_does_not_stop_the_server(answering, opened, options, site):
    """Ten sweeps are taken, and are on the disk, while the first write hangs."""
    database = answering("hang")
    sink = opened(options(database.url, influxdb_timeout="60"))
    for count in range(23, 33):
        swept(sink, site, {MDT0: {"4711": {"open": count}}})
        kept(sink)
    until(lambda: database.writes, what="the first write")
    assert 1 == len(database.writes)
    assert 10 == number_of(sink, "iostats_influxdb_spooled_points")
    assert 0 == number_of(sink, "iostats_influxdb_left_out_sweeps")


# -- the directory -------------------------------------------------------------------------------

def test_a_full_spool_drops_the_oldest_points_and_says_so(answering, opened, options, at_once):
    """Once, with their number; the number is counted on."""
    site = Site(now_slot())
    database = answering(*[(500, {}, b"")] * 100_000)
    sink = opened(options(database.url, influxdb_spool_bytes=65536))
    rounds, chance = 0, random.Random(23)
    while number_of(sink, "iostats_influxdb_dropped_points") < 2000:
        rounds += 1
        swept(sink, site, {MDT0: {f"{job}{chance.randbytes(8).hex()}": {"open": rounds}
                                  for job in range(1000, 2000)}})
        kept(sink)
        assert number_of(sink, "iostats_influxdb_spooled_bytes") <= 65536
    assert 1 == len([text for text in opened.said if "is full" in text])
    until(lambda: number_of(sink, "iostats_influxdb_failures"), what="a failed write")
    database.answers.clear()
    sent(sink)
    newest = f"{site.slot * 1000}"
    assert any(line.endswith(newest) for _, _, lines in database.writes for line in lines)
    until(lambda: re.search(r"accepts points again, after \d+ s, \d+ points were dropped",
                            opened.said[-1]), what="that points are accepted again")


def test_a_disk_that_is_full_keeps_points_in_memory(answering, opened, options, site, at_once,
                                                    monkeypatch):
    """Some of them; they are sent, and it is said when the disk is back."""
    database = answering((500, {}, b""))
    sink = opened(options(database.url))

    def full(path, data):
        raise OSError(28, "No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr(private_files, "write_atomically", full)
        swept(sink, site, {MDT0: {"4711": {"open": 23}}}, {MDT0: {"4711": {"open": 37}}})
        sent(sink)
    swept(sink, site, {MDT0: {"4711": {"open": 41}}})
    sent(sink)
    points = {lines[-1].split(" ")[1] for _, _, lines in database.writes}
    assert {f"open={count}i,operations={count}i,requests={count}i,lower_bound=0i"
            for count in (23, 37, 41)} == points
    texts = [text for text in opened.said if "written" in text]
    directory = options(database.url).influxdb.spool_dir
    assert [f"influxdb: {directory}: cannot be written: No space left on device; up to 16 MiB of "
            f"points wait in memory", f"influxdb: {directory} can be written again"] == texts


def test_a_damaged_file_of_the_spool_costs_its_points_alone(answering, opened, options, site,
                                                           tmp_path):
    """And they are counted as dropped."""
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "000000000000007.53.points").write_bytes(b"\0\0\0")
    (tmp_path / "spool" / "somebody's.points").write_bytes(b"not ours")
    (tmp_path / "spool" / "000000000000008.3.points.new").write_bytes(b"torn by a kill")
    database = answering()
    sink = opened(options(database.url))
    swept(sink, site, {MDT0: {"4711": {"open": 23}}})
    sent(sink)
    assert (1, 53) == tuple(number_of(sink, f"iostats_influxdb_{name}_points")
                            for name in ("written", "dropped"))
    assert {"refused", "somebody's.points"} == set(os.listdir(tmp_path / "spool"))


# -- what a site has to have, and what is said -----------------------------------------------------

def private(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


def test_what_is_not_asked_for_is_not_imported(tmp_path):
    """A site without a database needs no package for one."""
    code = ("import sys; from iostats.base import config; from iostats import sinks; "
            "print(sinks.make_sinks(config.Config(), print), sorted("
            "{'iostats.sinks.influxdb.sender', 'numpy', 'prometheus_client'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ("[] []\n", "") == (done.stdout, done.stderr)


def test_no_message_has_the_token(answering, opened, options, site, at_once, tmp_path):
    """Messages end in logs that others read."""
    path = private(tmp_path / "token", "s3cret-t0ken\n")
    database = answering((401, {}, b"unauthorized"), "drop", (500, {}, b""))
    sink = opened(options(database.url, influxdb_token_file=path))
    swept(sink, site, {MDT0: {"4711": {"open": 23}}})
    sent(sink)
    assert opened.said and "s3cret" not in json.dumps(opened.said)
    assert Number in map(type, sink.numbers())


# -- nodes -----------------------------------------------------------------------------------------

def node_swept(sink, site, *sweeps):
    """Sweeps in which clients had these totals: {fs: {NID: [six]}}; job 4711 opens one file."""
    for file_systems in sweeps:
        slot = site.began if site.slot is None else site.slot + EVERY_S
        site.clients.sweep = ClientSweep(slot, EVERY_S, True, {
            fs: totals_of(rows) for fs, rows in file_systems.items()})
        swept(sink, site, {MDT0: {"4711": {"open": 1 + (slot - site.began) // EVERY_S}}})


@pytest.mark.victoria
def test_a_real_database_has_what_nodes_did(clean, opened, options, site):
    """Beside the jobs; a node that did nothing has no point, and what it gains is all there."""
    site.clients = types.SimpleNamespace(sweep=None, names=Names({"10.77.0.1@tcp": "node1",
                                                                  "10.77.0.2@tcp": "a, b=2"}))
    sink = opened(options(clean.url, influxdb_by_node="yes", influxdb_max_nodes=2))
    node1, node2 = [[2300, 3700, 23, 37, 41, 43]], "10.77.0.2@tcp"
    node_swept(sink, site, {"scratch": {"10.77.0.1@tcp": node1[0], node2: [0] * 6}},
               {"scratch": {"10.77.0.1@tcp": node1[0], node2: [5, 0, 1, 0, 0, 0]}})
    sent(sink)
    found = clean.series('{__name__=~"lustre_client.*"}')
    at = site.began
    assert {at - 20: 0, at: 2300} == found["lustre_client_read_bytes",
                                           (("fs", "scratch"), ("node", "node1"))]
    assert {at: 0, at + 20: 5} == found["lustre_client_read_bytes",
                                        (("fs", "scratch"), ("node", "a, b=2"))]
    assert {"read_bytes", "write_bytes", "read_rpcs", "write_rpcs", "ost_operations",
            "mdt_operations", "lower_bound"} == {name[len("lustre_client_"):]
                                                 for name, _ in found}
    assert clean.series('{__name__="lustre_job_open"}')


def test_there_are_no_points_of_nodes_unless_they_are_asked_for(answering, opened, options, site):
    """by_node is no."""
    database = answering()
    site.clients = types.SimpleNamespace(sweep=None, names=Names({"10.77.0.1@tcp": "node1"}))
    sink = opened(options(database.url))
    node_swept(sink, site, {"scratch": {"10.77.0.1@tcp": [23] * 6}})
    sent(sink)
    [(_, _, lines)] = database.writes
    assert ["lustre_job"] == [line.partition(",")[0] for line in lines]
