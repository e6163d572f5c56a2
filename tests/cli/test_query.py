"""
`iostats query` and `iostats top` against a real site server, which a storage server has told.
"""
from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import time

import pytest
from processes import REPOSITORY, Done, until
from site_desk import SiteDesk, script
from storage import StorageServer, moved

from iostats.cli import query
from iostats.cli.query import main
from iostats.harvest.resets.gaps import CLEARED


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """
    A desk whose storage server, OSS and MDS, has swept twice; in between 4711 read 41,003 bytes and
    wrote 53,007, in 41 + 53 requests, and opened 23 times; cp.0 read 37 bytes, and so did 4713.
    """
    with SiteDesk(tmp_path_factory.mktemp("site")) as desk:
        desk.configure(harvest_interval=1)
        desk.site()
        both = StorageServer(desk, "oss1")
        for ost, mdt in ((({}, {})), ({"4711": moved(41_003, 53_007), "cp.0": moved(37),
                                       "4713": moved(37)}, {"4711": moved(opens=23)})):
            both.show("OST0000", ost)
            both.show("MDT0000", mdt)
            done = both.sweep()
            assert (0, "") == (done.status, done.err), done
        until(lambda: len(rows(desk, "a")) == 4, what="the second sweep")
        yield desk


def rows(desk, level, *options):
    """The rows of `iostats query LEVEL --json`; none while there is no sweep."""
    done = desk.iostats("query", level, "--json", *options)
    return json.loads(done.out)["rows"] if done.status == 0 else []


def test_totals_of_each_job_on_each_file_system(site):
    """
    The harvest is older than these entries, so nothing is in doubt; what nobody knows (users) has
    no column.  Numbers stand at the right, with their units.
    """
    done = site.iostats("query", "b", "--sort", "requests", env={"COLUMNS": "120"})
    assert (0, "") == (done.status, done.err)
    title, *lines = done.out.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d, swept \d+ s( to \d+ s)? ago, totals "
                        r"since .*, by job, requests first", title)
    assert """\
JOB   FS        WRITTEN      READ  REQUESTS  METADATA  USER
4711  scratch  51.8 KiB  40.0 KiB       117        23  -
4713  scratch   0 bytes  37 bytes         1         0  -
cp.0  scratch   0 bytes  37 bytes         1         0  (no job)""".splitlines() == lines


@pytest.mark.parametrize("columns", [80, 120, 200])
@pytest.mark.parametrize("level", "abcde")
def test_a_terminal_of_any_width_has_whole_numbers(site, level, columns):
    done = site.iostats("query", level, env={"COLUMNS": str(columns)})
    assert (0, "") == (done.status, done.err)
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= columns
    assert any("WRITTEN" in line for line in lines)
    if level in "ab":
        assert any("51.8 KiB" in line for line in lines)


def test_the_first_rows_are_those_of_the_whole_answer(site, monkeypatch, capsys):
    """Four rows: up to so many, also fetched one by one."""
    def keys(rows):
        return [(row["job"], row["target"], row["requests"]) for row in rows]
    whole = keys(rows(site, "a"))
    assert 4 == len(whole)
    for limit in range(1, 5):
        answer = json.loads(site.iostats("query", "a", "--json", "--limit", str(limit)).out)
        assert (whole[:limit], 4 - limit) == (keys(answer["rows"]), answer["left_off"])
    assert "(1 more)" in site.iostats("query", "a", "--limit", "3").out.splitlines()
    fetched = []

    def ask(config, method, params, within_s):
        fetched.append((params["count"], params["after"]))
        at = params["after"] or 0
        return {"rows": [{"job": str(4711 + at)}], "left_off": 6 - at, "level": "a",
                "next": at + 1 if at < 6 else None}
    monkeypatch.setattr(query, "ask_site", ask)
    parts = query._fetch_rows(None, {"level": "a"}, 23)
    assert [str(4711 + number) for number in range(7)] == [row["job"] for row in parts["rows"]]
    assert [(23 - number, number or None) for number in range(7)] == fetched
    assert 3 == len(query._fetch_rows(None, {"level": "a"}, 3)["rows"])


def test_what_a_silent_storage_server_may_add_to_says_so(tmp_path):
    """
    4711 has read 23 MiB from OST0000 of oss1, and opened 37 files; the agent of mds1 has ended, and
    is missed after two sweeps and 5 s.  What oss1 tells stays exact.
    """
    with SiteDesk(tmp_path) as desk:
        desk.configure(harvest_interval=1)
        desk.site(hasty=False)
        oss, mds = StorageServer(desk, "oss1"), StorageServer(desk, "mds1")
        for ost, mdt in (({}, {}), ({"4711": moved(23 << 20)}, {"4711": moved(opens=37)})):
            oss.show("OST0000", ost)
            mds.show("MDT0000", mdt)
            for one in (oss, mds):
                done = one.sweep()
                assert (0, "") == (done.status, done.err), done
        oss.agent(patient=True)
        # That of oss1 may be missed, too, until its first sweep has come.
        until(lambda: {"OST0000": False, "MDT0000": True} == {
            row["target"]: row["lower_bound"] for row in rows(desk, "a")}, what="the mark")
        [row] = rows(desk, "b")
        assert (23 << 20, 37, True) == (row["read_bytes"], row["metadata"], row["lower_bound"])
        [row] = rows(desk, "e")
        assert (True, True) == (row["lower_bound"], row["rates_lower_bound"])
        found = desk.iostats("query", "b", "--job", "4711").out
        assert ">= 23.0 MiB" in found
        assert re.search(r"(?m)^note: scratch: MDT0000: no sweep of mds1 for \d+ s; numbers are "
                         r"lower bounds \(>=\)$", found)
        found = desk.iostats("top", "--once", "--by", "storage-server").out
        [dead], [alive] = ([line.split() for line in found.splitlines() if line.startswith(name)]
                           for name in ("mds1", "oss1"))
        assert ["scratch", "-", "-", "-", "-"] == dead[1:6] and ">=" not in "".join(alive)


def test_totals_of_each_job_on_each_target_with_the_share_of_no_job(site):
    """41 + 53 + 1 + 1 requests to the OST, one of them of cp.0."""
    answer = json.loads(site.iostats("query", "targets", "--json", "--sort", "requests").out)
    assert [("4711", "OST0000", "oss1", 94, 0), ("4711", "MDT0000", "oss1", 23, 23),
            ("4713", "OST0000", "oss1", 1, 0), ("cp.0", "OST0000", "oss1", 1, 0)] == [
        (row["job"], row["target"], row["server"], row["requests"], row["metadata"])
        for row in answer["rows"]]
    assert {"read_bytes": 41, "write_bytes": 53, "read": 41, "write": 53} == (
        answer["rows"][0]["counters"])
    assert [("MDT0000", 23, 0, 0.0), ("OST0000", 96, 1, 1 / 96)] == [
        (one["target"], one["requests"], one["no_job_requests"], one["no_job_share"])
        for one in answer["targets"]]


def test_what_a_target_has_forgotten_makes_the_totals_of_its_file_system_lower_bounds(tmp_path):
    """
    4711 has read 23 MiB from OST0000; OST0001 was cleared, and what was there nobody knows: of the
    job as a whole that is said, and not of its part on OST0000.
    """
    with SiteDesk(tmp_path) as desk:
        desk.configure(harvest_interval=1)
        desk.site()
        oss = StorageServer(desk, "oss1")
        both = {"4711": moved(23 << 20)}
        for first, second in (({}, {}), (both, {"4713": moved(37)}), (both, {"4713": moved(23)})):
            oss.show("OST0000", first)
            oss.show("OST0001", second, anew=["4713"])
            done = oss.sweep()
            assert (0, "") == (done.status, done.err), done
            time.sleep(1.1)                         # an entry is a second old when it is shown
        until(lambda: [True] == [row["lower_bound"] for row in rows(desk, "a", "--job", "4713")],
              what="the third sweep")
        [row] = rows(desk, "b", "--job", "4711")
        assert (23 << 20, [f"{CLEARED} (OST0001)"]) == (row["read_bytes"], row["notes"])
        [row] = rows(desk, "a", "--job", "4711")
        assert (23 << 20, []) == (row["read_bytes"], row["notes"])


def test_one_job_alone(site):
    """And no share of a target that would be of this job's requests alone."""
    assert [("4713", 37)] == [(row["job"], row["read_bytes"])
                              for row in rows(site, "jobs", "--job", "4713")]
    answer = json.loads(site.iostats("query", "a", "--json", "--job", "4711").out)
    assert [94, 23] == [row["requests"] for row in answer["rows"]]
    assert "targets" not in answer and [] == answer["file_systems"]
    answer = json.loads(site.iostats("query", "e", "--json", "--job", "4711").out)
    assert [117] == [row["requests"] for row in answer["rows"]]
    assert [119] == [fs["requests"] for fs in answer["file_systems"]]
    assert [0.0, 1 / 96] == [one["no_job_share"] for one in answer["targets"]]


def test_rates_have_the_totals_ratio(site):
    """How long it was from one sweep to the next only the clock knows."""
    by_job = {row["job"]: row for row in rows(site, "c")}
    assert 41_003 / 53_007 == pytest.approx(by_job["4711"]["read_bytes_per_s"]
                                            / by_job["4711"]["write_bytes_per_s"])
    assert {"4711", "4713", "cp.0"} == {row["job"] for row in rows(site, "rates-summed")}


def test_file_systems_have_totals_and_rates(site):
    [row] = rows(site, "e")
    assert ("scratch", 53_007, 41_077, 119, 2, 1 / 119) == (
        row["file_system"], row["write_bytes"], row["read_bytes"], row["requests"],
        row["targets"], row["no_job_share"])
    assert row["write_bytes_per_s"] > 0


def test_csv_has_a_heading_and_a_line_for_each_row(site):
    found = list(csv.DictReader(io.StringIO(site.iostats("query", "b", "--csv").out)))
    assert {("4711", "53007"), ("cp.0", "0"), ("4713", "0")} == {
        (row["job"], row["write_bytes"]) for row in found}
    assert {"0"} == {row["lower_bound"] for row in found}


def test_top_asks_the_same_server(site):
    done = site.iostats("top", "--once", "--sort", "requests")
    assert (0, "") == (done.status, done.err)
    lines = done.out.splitlines()
    assert "by job, requests first" in lines[0]
    assert ["JOB", "FS", "WR_MiB/S", "RD_MiB/S", "REQS/S", "META/S", "USER"] == lines[1].split()
    assert ["(all)", "(no", "4711"] == [line.split()[0] for line in lines[2:5]]
    assert lines[3].endswith(" % of requests")         # each target has been read at its own time
    answer = json.loads(site.iostats("top", "--once", "--json", "--by", "target").out)
    assert {"OST0000", "MDT0000"} == {row["target"] for row in answer["rows"]}


def test_top_shows_single_operations_and_latency(site):
    """4711: 94 requests at the OST of 23 us each, as all there, and 23 opens of 37 us."""
    answer = json.loads(site.iostats("top", "--once", "--json", "--by", "target", "--show",
                                     "open,latency", "--sort", "latency").out)
    assert [("MDT0000", True), ("OST0000", False)] == [
        (row["target"], row["open_per_s"] > 0) for row in answer["rows"]]
    assert [0.037, 0.023] == pytest.approx([row["latency_ms"] for row in answer["rows"]])
    lines = site.iostats("top", "--once", "--show", "open,latency", "--percent").out.splitlines()
    assert lines[1].split()[-5:-1] == ["%", "OPEN", "%", "MS/REQ"]
    [row] = [line for line in lines if line.startswith("4711")]
    assert "100 %    0.03" in row


def test_a_report_of_a_job_that_still_runs_names_the_command_that_has_its_numbers(site):
    """And for what is no job's there is neither."""
    done = site.iostats("report", "4711")
    assert (1, "") == (done.status, done.out)
    assert ("iostats: job 4711 has no report yet: it is running, or its numbers are not final; "
            "`iostats query jobs --job 4711` has the storage servers' counts"
            ) == done.line
    assert "iostats: no record of job cp.0" == site.iostats("report", "cp.0").line


def test_an_unknown_file_system_has_no_row(site):
    done = site.iostats("query", "b", "--fs", "home")
    assert (0, ["(no rows)"]) == (done.status, done.out.splitlines()[1:])


@pytest.mark.parametrize("role", [("query", "a"), ("query", "a", "--csv"), ("query", "e", "--json"),
                                  ("top", "--once"), ("top", "--once", "--json")], ids=" ".join)
def test_a_full_disk_is_no_traceback(site, role):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "iostats", role[0], "--config", site.cfg, *role[1:]],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, cwd=site.directory,
            env={"PATH": str(site.bin), "PYTHONPATH": str(REPOSITORY)})
    assert (1, "iostats: standard output: cannot be written: No space left on device\n") == (
        done.returncode, done.stderr)


def test_a_server_without_sweeps_says_what_to_do(tmp_path):
    with SiteDesk(tmp_path) as desk:
        desk.site()
        for role in (("query", "a"), ("top", "--once")):
            done = desk.iostats(*role)
            assert 3 == done.status and "is `iostats harvest` running there?" in done.line


def test_munge_or_not_a_user_without_the_secret_is_refused(tmp_path):
    """One line: where the secret is missing."""
    with SiteDesk(tmp_path) as desk:
        script(desk.bin / "nothing", "#!/bin/sh\n")
        done = desk.iostats("query", "a")
        assert 3 == done.status and "no secret" in done.line


@pytest.mark.parametrize("arguments, why", [
    ((), "LEVEL: expected one of a b c d e f targets"), (("g",), "got g"), (("a", "b"), "got a b"),
    (("a", "--sort", "x"), "--sort: expected write"), (("a", "--limit", "0"), "--limit: expected"),
    (("a", "--json", "--csv"), "expected --json or --csv, got both"),
    (("a", "--bogus"), "unrecognized arguments: --bogus")])
def test_bad_usage_is_one_line_and_2(capsys, arguments, why):
    status = main(list(arguments))
    out, err = capsys.readouterr()
    assert (2, "") == (status, out) and why in Done(status, out, err).line


_A_LEVEL = """
    Level("kind", "KIND", "kind of target", TARGETS, FILE_SYSTEM,
          lambda file_system, target, server: target[:3], "k", help="OST or MDT",
          details=(_TARGETS,), queries=(Query("k", "kinds", TOTALS, "totals of OSTs and MDTs"),)),
"""


def test_to_add_a_level_is_to_add_a_row(tmp_path):
    """Help, `top`, `query` and the site's server have it, with not a line elsewhere."""
    copy = shutil.copytree(REPOSITORY / "iostats", tmp_path / "copy" / "iostats",
                           ignore=shutil.ignore_patterns("__pycache__"))
    table = copy / "load" / "levels.py"
    before, end, after = table.read_text().partition("\n)\n\nOF_TOP")
    table.write_text(before + _A_LEVEL.rstrip() + end + after)
    env = {"PYTHONPATH": str(copy.parent)}
    with SiteDesk(tmp_path) as desk:
        desk.configure(harvest_interval=1)
        desk.site(env=env)
        server = StorageServer(desk, "oss1")
        for ost, mdt in (({}, {}), ({"4711": moved(41_003)}, {"4711": moved(opens=23)})):
            for target, jobs in (("OST0000", ost), ("OST0001", ost), ("MDT0000", mdt)):
                server.show(target, jobs)
            done = server.sweep()
            assert (0, "") == (done.status, done.err), done

        def answer(*arguments):
            done = desk.iostats(*arguments, "--json", env=env)
            assert (0, "") == (done.status, done.err)
            return json.loads(done.out)
        until(lambda: desk.iostats("query", "a", "--json", env=env).out.count('"4711"') >= 3,
              what="the second sweep")
        found = {"OST": (2 * 41_003, 2), "MDT": (0, 1)}
        for word in ("k", "kinds"):
            assert found == {row["kind"]: (row["read_bytes"], row["targets"])
                             for row in answer("query", word)["rows"]}
        assert {"OST", "MDT"} == {row["kind"] for row in answer(
            "top", "--once", "--by", "kind")["rows"]}
        title, heading, *_ = desk.iostats(
            "query", "kinds", env={**env, "COLUMNS": "120"}).out.splitlines()
        assert ", by kind of target, " in title and ["KIND", "FS"] == heading.split()[:2]
        assert ["KIND", "FS", "WR_MiB/S"] == desk.iostats(
            "top", "--once", "--by", "kind",
            env={**env, "COLUMNS": "120"}).out.splitlines()[1].split()[:3]
        assert ("target, fs, lnet (networks of clients, where storage servers count by client) or "
                "kind (OST or MDT)") in re.sub(
            r"\s+", " ", desk.iostats("top", "--help", env=env).out)
        assert "  k  kinds              totals of OSTs and MDTs" in desk.iostats(
            "query", "--help", env=env).out.splitlines()
        assert desk.iostats("top", "--by", "usr", env=env).line == (
            "iostats: --by: expected job, user, node, storage-server, target, fs, lnet, "
            "kind, got 'usr'")
