"""
`iostats report` from outside in: what finished jobs did, from a real site server, and in short from
a stand-in for `sacct` that has what a comment can hold.
"""
from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pwd
import re
import struct
import subprocess
import sys
import termios
import time

import pytest
from processes import REPOSITORY, Done, Listener, http_answer
from site_desk import THE_WORK, SiteDesk, a_report, application, script

from iostats.cli.report import main
from iostats.report import accounting_comment


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """
    A desk with a running server that has: 4711, whole; 4713, with a node missing; 4717, in three
    runs; and no other.
    """
    with SiteDesk(tmp_path_factory.mktemp("site")) as desk:
        desk.configure(site_deadline="0.3")
        desk.server = desk.site()
        desk.work("4711")
        desk.record("4711")
        desk.send(a_report("4713", "nid1", reads=37, about={"nodes": "nid[1-2]"}))
        desk.record("4713")
        for attempt in range(3):
            desk.send(a_report("4717", "nid1", reads=41 + attempt,
                               about={"nodes": "nid1", "attempt": attempt}))
        while len(desk.records("4717")) < 3:
            time.sleep(0.01)
        yield desk


def documents(text):
    """The JSON documents in a text, one after the other."""
    found = []
    while text.strip():
        one, end = json.JSONDecoder().raw_decode(text := text.lstrip())
        found.append(one)
        text = text[end:]
    return found


# -- from the site's server --------------------------------------------------------------------

def test_a_job_is_printed_as_the_jobs_own_server_would(site):
    done = site.iostats("report", "4711")
    assert (0, "") == (done.status, done.err)
    lines = done.out.splitlines()
    assert lines[0].startswith("Job 4711: 1 node, 00:00:0")
    assert "| scratch       | 40.0 KiB    | 51.8 KiB     |" in lines
    assert done.out.endswith("\n") and not done.out.endswith("\n\n")


def test_who_is_missing_stands_in_the_first_line(site):
    done = site.iostats("report", "4713")
    assert re.match(r"Job 4713 of alice: 1 of 2 nodes reported, 00:00:37 from 2026-11-21 "
                    r"01:37:0\d; missing: nid2 \(no report\) ", " ".join(done.out.split()))


def test_of_a_job_that_was_started_again_the_last_run_is_printed(site):
    """And all of them with --all, the first one first."""
    [record] = documents(site.iostats("report", "--format", "json", "4717").out)
    assert (2, 43) == (record["job"]["attempt"], application(record)["read_calls"])
    records = documents(site.iostats("report", "--format", "json", "--all", "4717").out)
    assert [(0, 41), (1, 42), (2, 43)] == [
        (one["job"]["attempt"], application(one)["read_calls"]) for one in records]


def test_several_jobs_come_in_the_order_that_was_asked_for(site):
    """With an empty line between them."""
    done = site.iostats("report", "--format", "plain", "4713", "4711")
    assert (0, "") == (done.status, done.err)
    first, second = done.out.split("\n\nJob ")
    assert first.startswith("Job 4713 of alice:") and second.startswith("4711:")


def test_json_is_one_document_for_each(site):
    records = documents(site.iostats("report", "--format", "json", "4711", "4713").out)
    assert ["4711", "4713"] == [one["job"]["id"] for one in records]
    assert THE_WORK == application(records[0])


def test_csv_has_one_heading(site):
    rows = list(csv.DictReader(io.StringIO(
        site.iostats("report", "--format", "csv", "4711", "4713").out)))
    found = {(row["job"], row["metric"]): row["value"] for row in rows
             if row["layer"] == "application"}
    assert ("41003", "37") == (found["4711", "read_bytes"], found["4713", "read_calls"])
    assert "job" not in {row["job"] for row in rows}


@pytest.mark.parametrize("options, words", [
    (("--format", "markdown"), "| File System"), (("--format", "plain"), "File Read"),
    (("--long",), "read, by the application"),
    (("--explain",), "What the numbers count:")])
def test_each_form_is_there(site, options, words):
    done = site.iostats("report", *options, "4711")
    assert (0, "") == (done.status, done.err) and words in done.out


def test_of_a_site_without_a_record_the_latest_is_a_line(tmp_path):
    """After `make install-...` it is what the documents ask for first."""
    with SiteDesk(tmp_path) as desk:
        desk.site()
        done = desk.iostats("report", "--latest", "10")
        assert (0, "", "iostats: there is no record yet that you may read\n") == (
            done.status, done.out, done.err)


def test_the_latest_are_printed_the_newest_first(site):
    records = documents(site.iostats("report", "--format", "json", "--latest", "2").out)
    assert [("4717", 2), ("4717", 1)] == [(one["job"]["id"], one["job"]["attempt"])
                                          for one in records]
    records = documents(site.iostats("report", "--format", "json", "--latest", "1000").out)
    assert ["4717", "4717", "4717", "4713", "4711"] == [one["job"]["id"] for one in records]


def test_a_closed_pipe_is_no_error(site):
    """`iostats report ... | head -1`."""
    script(site.bin / "head", "#!/bin/sh\nexec /usr/bin/head \"$@\"\n")
    script(site.bin / "piped", f"""#!/bin/sh
{{ "$@"; echo $? >'{site.directory}/status'; }} | head -1
""")
    done = subprocess.run(
        [site.bin / "piped", sys.executable, "-m", "iostats", "report", "--config", site.cfg,
         "--long", "--explain", *["4711"] * 50], capture_output=True, text=True, timeout=60,
        env={"PATH": str(site.bin), "PYTHONPATH": str(REPOSITORY)})
    assert "Job 4711: 1 node" in done.stdout and "" == done.stderr
    assert "0\n" == (site.directory / "status").read_text()


@pytest.mark.parametrize("width", [80, 200])
def test_on_a_terminal_the_report_is_as_wide_as_it_and_has_colours(site, width):
    """And in a pipe it has neither."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    done = subprocess.Popen(
        [sys.executable, "-m", "iostats", "report", "--config", site.cfg, "--long", "4711"],
        stdout=slave, stderr=slave, stdin=slave, env={
            "PATH": str(site.bin), "PYTHONPATH": str(REPOSITORY), "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color"})
    os.close(slave)
    printed = b""
    try:
        while True:
            printed += os.read(master, 1 << 16)
    except OSError:                         # EIO: its last process has ended
        assert 0 == done.wait(60)
    finally:
        done.kill()
        done.wait()
        os.close(master)
    assert b"\x1b[1mTransfers\x1b[0m" in printed and b"\x1b[36m\xe2\x96\x88" in printed
    lines = re.sub("\x1b\\[[0-9;]*m", "", printed.decode()).splitlines()
    assert width >= max(map(len, lines)) > width * 0.7
    piped = site.iostats("report", "--long", "4711", env={"TERM": "xterm-256color"}).out
    assert "\x1b" not in piped and "Transfers " in piped


def test_two_jobs_of_the_server_are_compared(site):
    """`iostats diff`: 23 reads of 4711, 37 of 4713, of which a node is missing."""
    done = site.iostats("diff", "4711", "4713")
    assert (0, "") == (done.status, done.err)
    assert "4713: " in done.out.splitlines()[1] and " 1 of 2 nodes, " in done.out
    assert [">=", "37", ">=", "1.61x"] == next(
        line.split()[2:] for line in done.out.splitlines() if line.startswith("  reads "))
    done = site.iostats("diff", "4711:solve", "4799")
    assert (1, "") == (done.status, done.out) and "4711:solve: no part 'solve'" in done.err


# -- what is not known -------------------------------------------------------------------------

def test_an_unknown_job_is_one_line_and_1(site):
    """The server has answered: that there is no sacct here does not matter."""
    for job in ("4712", "471", "4%", "4711_1", "4711+0", "no such job 1"):
        done = site.iostats("report", job)
        assert (1, "", f"iostats: no record of job {job}") == (
            done.status, done.out, done.line)


def test_of_several_jobs_those_that_are_known_are_printed(site):
    done = site.iostats("report", "4712", "4711")
    assert (1, "iostats: no record of job 4712") == (done.status, done.line)
    assert done.out.startswith("Job 4711:")


def test_a_server_that_is_away_is_one_line_and_3(desk):
    """None that listens, one that is somebody else's, none that is named."""
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o600)
    done = desk.iostats("report", "4711")
    assert 3 == done.status and "no answer from the site's server" in done.line
    assert "Connection refused" in done.line
    with Listener(desk.port, http_answer(b'{"jsonrpc": "2.0", "id": 1, "result": 1}')):
        done = desk.iostats("report", "--latest", "1")
        assert 3 == done.status and "the port is in use by another program" in done.line
    desk.configure(site_host="")
    done = desk.iostats("report", "4711")
    assert (3, "iostats: no site server is named ([site] host in site.cfg)") == (
        done.status, done.line)


def test_a_secret_that_may_not_be_read_is_one_line(desk):
    """As for an ordinary user where there is no munge."""
    done = desk.iostats("report", "4711")
    assert 3 == done.status and "site.secret: no secret" in done.line
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o644)
    done = desk.iostats("report", "4711")
    assert 1 == done.status and "expected a file of mode 0600" in done.line


@pytest.mark.parametrize("arguments, why", [
    ((), "expected a job, got none"), (("",), "JOB: expected a job id, got nothing"),
    (("4711", "\x1b[2J"), "expected a job id without control characters"),
    (("x" * 129,), "at most 128 characters"),
    (("--latest", "0"), "--latest: expected a number from 1 to 1000, got '0'"),
    (("--latest", "1001"), "from 1 to 1000"), (("--latest", "all"), "from 1 to 1000"),
    (("--latest", "9" * 5000), "from 1 to 1000"), (("--latest", "1", "4711"), "got both: 4711"),
    (("--format", "xml", "4711"), "expected grid, plain, json"),
    (("--from", "memory", "4711"), "--from: expected site or comment, got 'memory'"),
    (("--bogus", "4711"), "unrecognized arguments: --bogus")])
def test_bad_usage_is_one_line_and_2(desk, capsys, arguments, why):
    status = main(["--config", str(desk.cfg), *arguments])
    out, err = capsys.readouterr()
    assert (2, "") == (status, out) and why in Done(status, out, err).line


def test_the_help_is_there(site):
    done = site.iostats("report", "--help")
    assert 0 == done.status and done.out.startswith("usage: iostats report")


# -- from a comment ------------------------------------------------------------------------------

ME = pwd.getpwuid(os.geteuid()).pw_name


def sacct(desk, **lines):
    """Let `sacct` print these lines for a job (with "job_" before it); others it does not know."""
    cases = "".join(f"*--jobs={job[4:]}\\ *) /bin/cat <<'END'\n{text}\nEND\n;;\n"
                    for job, text in lines.items())
    script(desk.bin / "sacct", f"""#!/bin/sh
case "$*" in *--format=JobID,User,AdminComment,SystemComment,Comment*) ;; *) exit 1 ;; esac
case "$* " in {cases} esac
""")


def in_short(site, job="4711"):
    return accounting_comment.encode(site.records(job)[0])


def test_a_job_is_printed_from_its_comment_where_the_server_is_away(site, desk):
    """As sacctmgr keeps it, in small letters, beside others' texts; it says that it is short."""
    text = in_short(site).lower()
    desk.configure(site_host="")
    sacct(desk, job_4711=f"4711|{ME}|see ticket 23; {text} (do not remove)|theirs|mine")
    done = desk.iostats("report", "--format", "json", "4711")
    assert (0, "") == (done.status, done.err)
    [record] = documents(done.out)
    assert THE_WORK == application(record)
    assert ("4711", True, 1) == (record["job"]["id"], record["short"],
                                 record["coverage"]["reported"])
    plain = desk.iostats("report", "4711")
    assert 0 == plain.status and "| scratch       | 40.0 KiB    | 51.8 KiB     |" in plain.out
    assert any(line.startswith("note: ") for line in plain.out.splitlines())


def test_an_array_is_printed_task_by_task_from_its_comments(site, desk):
    """A task without comment, and one with another's, are not there."""
    one, other = in_short(site), in_short(site, "4713")
    desk.configure(site_host="")
    sacct(desk, job_100=f"100_1|{ME}|{one}||\n100_2|{ME}|||\n100_3|{ME}|||mine\n"
                        f"100_10|{ME}||{other}|")
    records = documents(desk.iostats("report", "--format", "json", "100").out)
    assert [("100_1", 23), ("100_10", 37)] == [
        (record["job"]["id"], application(record)["read_calls"]) for record in records]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_comment_of_another_user_is_not_shown(site, desk, monkeypatch, capsys):
    """But to root and to [site] readers; sacct itself hides nothing."""
    desk.configure(site_host="")
    sacct(desk, job_4711=f"4711|alice|{in_short(site)}||")
    monkeypatch.setenv("PATH", str(desk.bin))

    def said(uid, **choices):
        desk.configure(site_host="", **choices)
        monkeypatch.setattr(os, "geteuid", lambda: uid)
        status = main(["--from", "comment", "--config", str(desk.cfg), "4711"])
        out, err = capsys.readouterr()
        return status, out.partition("\n")[0][:9], err
    mine = (0, "Job 4711:", "")
    assert mine == said(0)
    assert (1, "", "iostats: job 4711 belongs to alice; only alice, root and [site] readers may "
                   "see its report\n") == said(65534)
    assert mine == said(65534, site_readers="carol nobody")


def test_a_damaged_comment_is_no_number(site, desk):
    text = in_short(site)
    desk.configure(site_host="")
    sacct(desk, job_4711=f"4711|{ME}|{text[:-9]}0:00000000||")
    done = desk.iostats("report", "--from", "comment", "4711")
    assert (1, "") == (done.status, done.out) and "cut off or altered" in done.line


def test_where_it_comes_from_can_be_chosen(site, desk):
    """The site's server is asked first; a comment stands for a job that it has forgotten."""
    sacct(site, job_4711=f"4711|{ME}|{in_short(site, '4713')}||",
          job_4712=f"4712|{ME}|{in_short(site, '4713')}||")
    try:
        def reads(*arguments):
            done = site.iostats("report", "--format", "json", *arguments)
            return [application(one)["read_calls"] for one in documents(done.out)]
        assert [23] == reads("4711") == reads("--from", "site", "4711")
        assert [37] == reads("--from", "comment", "4711") == reads("4712")
        assert [] == reads("--from", "site", "4712")
    finally:
        (site.bin / "sacct").unlink()


def test_without_server_and_without_accounting_the_server_is_what_is_missing(desk):
    """3, and one line: that of the server; with --from comment that of sacct."""
    desk.configure(site_host="")
    done = desk.iostats("report", "4711")
    assert 3 == done.status and "no site server is named" in done.line
    done = desk.iostats("report", "--from", "comment", "4711")
    assert 1 == done.status and "is it in PATH here?" in done.line
    sacct(desk)
    done = desk.iostats("report", "--from", "comment", "4711")
    assert (1, "iostats: the accounting has no comment of iostats for job 4711") == (
        done.status, done.line)


def test_a_report_as_text_imports_no_more_than_it_needs():
    """What takes longer to import than a report to be made is left to who needs it."""
    done = subprocess.run([
        sys.executable, "-c", "import sys\nimport iostats.cli.report\n"
        "print(*sorted(set(sys.modules) & {'tabulate', 'msgspec', 'rich', 'ClusterShell', 'jinja2',"
        " 'numpy', 'asyncio', 'dataclasses', 'inspect', 'logging', 'csv', 'email',"
        " 'hashlib', 'http.client', 'http.server', 'urllib.request', 'importlib.metadata',"
        " 'random', 'sqlite3', 'statistics'}))"],
        cwd=REPOSITORY, capture_output=True, text=True)
    assert ("\n", "", 0) == (done.stdout, done.stderr, done.returncode)
