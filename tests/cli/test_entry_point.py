"""
Commands whose environment fails them: standard streams that are closed or full, no memory, no more
open files, a directory that goes away meanwhile.  Never a traceback, and nothing else is lost.
"""

import json
import os
import subprocess
import sys

import pytest
from processes import AFTER, BEFORE, Desk, checked_out_commit, write_tree
from trees import ROOT

from iostats import __version__
from iostats.base import config
from iostats.cli import run
from iostats.node import start_files
from iostats.totals import job_totals

CLOSED = [">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", ">/dev/full 2>/dev/full"]


DESK = Desk


def in_shell(desk, before, words, after=""):
    """The command `words` of a shell, with `before` it (ulimit) and with redirections after it."""
    text = " ".join(f"'{word}'" for word in words)
    return subprocess.run(["bash", "-c", f"{before or ':'}; {text} {after}"], cwd=ROOT, text=True,
                          capture_output=True, timeout=120,
                          env={**os.environ, "HOME": str(desk.home)})


def client(desk, *words):
    desk.directory.joinpath("site.cfg").write_text(f"[node]\nhook_dir = {desk.directory}/hooks\n")
    return [sys.executable, "-I", "-S", "iostats_client.py", *words, "--config",
            desk.directory / "site.cfg", "--state-dir", desk.directory / "state"]


def no_traceback(done):
    return "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.parametrize("streams", CLOSED)
@pytest.mark.parametrize("role", ["prolog", "epilog", "start"])
def test_closed_and_full_streams_fail_no_prolog(desk, role, streams):
    """Status 0, also where there is something to say: the root is not there, or has no Lustre."""
    for root in (desk.directory, desk.directory / "none"):
        done = in_shell(desk, "", client(desk, role, "--job", "4711", "--root", root,
                                         "--never-fail"), streams)
        assert (0, True) == (done.returncode, no_traceback(done))


@pytest.mark.parametrize("streams, status", [(">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0),
                                             (">/dev/full", 1)])
def test_show_with_closed_and_full_streams(desk, streams, status):
    """Only what could not be written is a failure."""
    done = in_shell(desk, "", client(desk, "show", "--root", desk.tree(**BEFORE)), streams)
    assert (status, True) == (done.returncode, no_traceback(done))


@pytest.mark.parametrize("buffered", ["", "export PYTHONUNBUFFERED=1"])
@pytest.mark.parametrize("words", [
    ["-I", "-S", "iostats_client.py", "--help"], ["-I", "-S", "iostats_client.py", "--version"],
    ["iostats_server.py", "--help"], ["iostats_server.py", "--version"],
    ["-m", "iostats", "--help"], ["-m", "iostats", "--version"], ["-m", "iostats", "run", "--help"],
    ["-m", "iostats", "report", "--help"], ["-m", "iostats", "config", "--help"],
    ["-m", "iostats", "config"], ["-m", "iostats", "ldms", "--help"],
    ["-m", "iostats", "ldms", "check", "--help"]], ids=lambda words: " ".join(words[-2:]))
def test_what_cannot_be_printed_is_a_line_and_a_status(desk, words, buffered):
    done = in_shell(desk, buffered or "unset PYTHONUNBUFFERED", [sys.executable, *words],
                    ">/dev/full")
    assert (1, "iostats: standard output: cannot be written: No space left on device\n") == (
        done.returncode, done.stderr)


@pytest.mark.parametrize("words", [["iostats_client.py"], ["iostats_server.py"], ["-m", "iostats"]])
def test_the_version_is_printed_with_the_commit(desk, words):
    done = in_shell(desk, "", [sys.executable, *words, "--version"])
    assert (0, f"iostats {__version__}{checked_out_commit()}\n", "") == (
        done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-", "| true", ">/dev/full"])
def test_a_job_s_server_without_streams_writes_its_json(desk, streams):
    """Its record is there, whoever reads the rest."""
    path = desk.directory / "record.json"
    secret = desk.directory / "secret"
    words = [sys.executable, "iostats_server.py", "--job", desk.job, "--nodes", "1",
             "--deadline", "0", "--secret", secret, "--json", path, "--state-dir",
             desk.directory / "state", "--listen", "127.0.0.1"]
    root = desk.tree(**BEFORE)
    assert 0 == desk.client("start", *desk.on("nid00023", root)).status
    write_tree(root, **AFTER)
    text = " ".join(f"'{word}'" for word in words)
    server = subprocess.Popen(["bash", "-c", f"{text} {streams}"], cwd=ROOT, text=True,
                              stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    done = desk.client("stop", "--server", "127.0.0.1", "--secret", secret,
                       *desk.on("nid00023", root))
    _, err = server.communicate(timeout=60)
    assert 0 == done.status
    assert "Traceback" not in err and "Exception ignored" not in err
    assert 1 == json.loads(path.read_text())["coverage"]["reported"]


@pytest.mark.parametrize("limit", ["ulimit -n 12", "ulimit -v 20000", "ulimit -v 30000",
                                   "ulimit -v 60000"])
@pytest.mark.parametrize("words", [
    ["-I", "-S", "iostats_client.py", "show"], ["-I", "-S", "iostats_client.py", "doctor"],
    ["-m", "iostats", "jobs"], ["-m", "iostats", "report", "4711"], ["-m", "iostats", "top"],
    ["-m", "iostats", "config"], ["iostats_server.py", "--print-port", "--job", "4711"],
], ids=lambda words: " ".join(words[-3:]))
def test_without_memory_or_open_files_it_is_a_line(desk, words, limit):
    """Or it works: never a traceback."""
    done = in_shell(desk, limit, [sys.executable, *words])
    assert no_traceback(done)
    assert done.returncode in (0, 1, 2, 3)


def test_a_job_s_server_names_the_limit_of_open_files(desk):
    """It could serve nobody."""
    done = in_shell(desk, "ulimit -n 12", [
        sys.executable, "iostats_server.py", "--job", desk.job, "--nodes", "1", "--secret",
        desk.directory / "secret"])
    assert (1, "iostats: open files: expected a limit of at least 32, got 12 (ulimit -Hn)\n") == (
        done.returncode, done.stderr)


def test_the_command_runs_where_it_can_not_be_measured(desk):
    """Its exit status is its own."""
    done = in_shell(desk, "ulimit -n 12", [sys.executable, "-m", "iostats", "run", "--", "sh", "-c",
                                           "echo done; exit 23"])
    assert (23, "done\n") == (done.returncode, done.stdout)
    assert "got 12 (ulimit -Hn); the command runs, and is not measured" in done.stderr


def test_a_directory_of_another_job_that_goes_away_is_none(desk, monkeypatch, tmp_path):
    """Between the list of /tmp and a look at each, another job's last file went, and it left."""
    monkeypatch.setattr(start_files, "TMP", str(tmp_path))
    gone, ours = (tmp_path / f"iostats-{os.geteuid()}-{name}" for name in ("a", "b"))
    gone.mkdir(0o700)
    ours.mkdir(0o700)
    listed = os.listdir

    def leaves(path):
        found = listed(path)
        if gone.exists():
            gone.rmdir()
        return found
    monkeypatch.setattr(os, "listdir", leaves)
    assert str(ours) == start_files.open_start_files("", "4711", "nid00023").directory


@pytest.mark.parametrize("given", [{}, {"--json": "record"}])
def test_run_makes_the_record_once(desk, tmp_path, given):
    """With thousands of nodes it takes long, and the job may end meanwhile."""
    made = []

    class Watched(job_totals.Totals):
        def record(self):
            made.append("record")
            return super().record()
    given = {option: str(tmp_path / name) for option, name in given.items()}
    run._print_report(Watched("4711", 1), config.Config(),
                      {**given, "--output": str(tmp_path / "out")},
               ["true"], print)
    assert ["record"] == made
