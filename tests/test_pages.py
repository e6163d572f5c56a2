"""
Man pages and shell completion: what the help texts say, in the forms of man, bash, zsh and fish.
"""
from __future__ import annotations

import gzip
import os
import pty
import select
import shutil
import subprocess
import sys

import pytest
from processes import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "packaging"))
import pages

SHARE = pages.pages()
# A job's server and a node have a page each.
NO_PAGE = {"start", "stop", "mark", "watch", "show", "doctor", "harvest", "server"}
MAN = {name.rpartition("/")[2][:-3]: gzip.decompress(data).decode()
       for name, data in SHARE.items() if name.startswith("man/")}
BASH = SHARE["bash-completion/completions/iostats"].decode()


SITE = """#!/bin/sh
echo "$@" >>asked
case $1 in
jobs) printf '4711\\n4733\\n' ;;
nodes) echo nid1 ;;
capacity) printf '47scratch\\n47scratch\\n47home\\n' ;;
esac
"""


@pytest.fixture
def programs(tmp_path):
    """A directory with a program iostats whose site answers, however slow this machine is."""
    for name, text in (("iostats", SITE), ("timeout", '#!/bin/sh\nshift\nexec "$@"\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def completed(tmp_path, *words):
    """[word] that bash offers at the end of `words`."""
    (tmp_path / "completion").write_text(BASH)
    text = " ".join(f"'{word}'" for word in words)
    done = subprocess.run(
        ["bash", "--norc", "-c", f"source {tmp_path}/completion; COMP_WORDS=({text}); "
         f"COMP_CWORD={len(words) - 1}; _iostats; printf '%s\\n' \"${{COMPREPLY[@]}}\""],
        capture_output=True, text=True, cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.split()


def test_each_command_has_a_page():
    assert {"iostats.1", "iostats_client.py.1", "iostats_server.py.1", "iostats-report.1",
            "iostats-ldms.1", "site.cfg.5", "iostats-counters.7"} <= set(MAN)
    assert {f"iostats-{name}.1" for name in pages.summaries(pages.help_texts(
        pages.read("commands.md"))["usage"]) if name not in NO_PAGE} <= set(MAN)


def test_a_page_has_the_options_of_the_help():
    text = MAN["iostats-report.1"]
    assert ("iostats\\-report \\- what finished jobs did" in text
            and ".TP\n\\fB\\-\\-latest N\\fP\nthe N jobs that ended last\n" in text
            and '.SH "EXIT STATUS"' in text)


def test_site_cfg_has_each_key_with_its_default():
    assert ".TP\n\\fBport_first\\fP\ndefault: 20000; allowed: a number from 1 to 65535\n.br\n" in (
        MAN["site.cfg.5"])


@pytest.mark.parametrize("name", sorted(MAN))
def test_a_page_is_right_for_groff(name, tmp_path):
    if not shutil.which("groff"):
        pytest.skip("needs groff")
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", "-z"], input=MAN[name],
                          capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)


def test_bash_completes_subcommands_and_options(tmp_path):
    assert completed(tmp_path, "iostats", "di") == ["diff"]
    assert completed(tmp_path, "iostats", "jobs", "--since") == ["--since"]
    assert completed(tmp_path, "iostats", "report", "--l") == ["--latest", "--long"]
    assert "--once" in completed(tmp_path, "iostats", "harvest", "--o")


def test_bash_completes_jobs_and_nodes_of_the_site(programs):
    assert completed(programs, "iostats", "report", "47") == ["4711", "4733"]
    assert completed(programs, "iostats", "nodes", "") == ["nid1"]
    assert ["jobs -n -P -o JobID", "nodes -n -P -o node"] == (
        programs / "asked").read_text().splitlines()


@pytest.mark.parametrize("option, expected", [
    ("--fs", ["47home", "47scratch"]), ("--job", ["4711", "4733"]), ("-j", ["4711", "4733"])])
def test_bash_completes_the_values_of_options(programs, option, expected):
    assert expected == sorted(set(completed(programs, "iostats", "events", option, "47")))


def test_bash_waits_for_no_server(tmp_path):
    """A server that does not answer within 0.3 s: no jobs, and no message."""
    (tmp_path / "iostats").write_text("#!/bin/sh\nsleep 30; echo 4711\n")
    (tmp_path / "iostats").chmod(0o755)
    assert completed(tmp_path, "iostats", "why", "47") == []


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
def test_fish_completes_the_same(programs):
    (programs / "iostats.fish").write_bytes(SHARE["fish/vendor_completions.d/iostats.fish"])
    lines = ["iostats di", "iostats report 47", "iostats events --fs 47", "iostats events --job 47",
             "iostats report --la", "iostats import iostats.f"]
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {programs}/iostats.fish; " + "; echo; ".join(
            f"complete -C '{line}'" for line in lines)], capture_output=True, text=True,
        cwd=programs, env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(programs)})
    assert (0, "") == (done.returncode, done.stderr)
    words = [[line.partition("\t")[0] for line in part.splitlines()]
             for part in done.stdout.split("\n\n")]
    assert [["diff"], ["4711", "4733"], ["47home", "47scratch"], ["4711", "4733"], ["--latest"],
            ["iostats.fish"]] == words
    assert "--latest\tthe N jobs that ended last\n" in done.stdout


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
def test_zsh_completes_the_same(programs):
    """Its completion works on a terminal alone: Tab after `iostats report 47`, and the list."""
    (programs / "_iostats").write_bytes(SHARE["zsh/site-functions/_iostats"])
    terminal, end = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=end, stdout=end, stderr=end, cwd=programs,
        start_new_session=True, env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(programs),
                                     "TERM": "dumb"})
    os.close(end)
    try:
        os.write(terminal, f"fpath=({programs} $fpath); autoload -Uz compinit; compinit -u -D; "
                           "print re''ady\n".encode())
        read_until(terminal, "ready\r")
        os.write(terminal, b"iostats report 47\t\t")
        read_until(terminal, "4711", "4733")
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def read_until(terminal, *texts):
    """Read from a terminal until it has printed each of these texts."""
    printed = ""
    while not all(text in printed for text in texts):
        assert select.select([terminal], [], [], 60)[0], printed
        printed += os.read(terminal, 4096).decode(errors="replace")
