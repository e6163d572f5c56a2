"""iostats ldms generate: a configuration file for each daemon."""
import io
import os
import subprocess
import sys

import pytest
from trees import ROOT

from iostats_ldms import cli as ldms

TEXT = """\
daemons:
  - {names: "s-[1-3]", hosts: "n-[1-3]", endpoints: [{names: "p-[1-3]", ports: 10001}]}
  - {names: agg, hosts: head, endpoints: [{names: agg-ep, ports: 10002}]}
samplers: [{daemons: "s-[1-3]", plugins: [mem]}]
plugins: {mem: {name: meminfo, interval: 1s, config: [{schema: mem}]}}
aggregators:
  - daemons: agg
    peers:
      - {endpoints: "p-[1-3]", reconnect: 20s, type: active, quota: 23,
         updaters: [{interval: 1s}]}
"""
S_2 = """\
# iostats ldms generate: s-2, LDMS 4.5; changes here are lost
listen xprt=sock port=10001 host=n-2
load name=mem plugin=meminfo
config name=mem schema=mem producer=s-2 instance=s-2/mem
start name=mem interval=1000000
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """run(option, ..., text=) -> (status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def go(*arguments, text=TEXT):
        (tmp_path / "orion.yaml").write_text(text)
        status = ldms.main(["generate", *arguments])
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return status, told.out, told.err
    return go


def test_each_daemon_has_a_file(run, tmp_path):
    os.umask(0o022)
    assert (0, "conf: 4 configuration files for LDMS 4.5: 4 written, 0 unchanged\n", ""
            ) == run("orion.yaml", "-o", "conf")
    assert ["agg.conf", "s-1.conf", "s-2.conf", "s-3.conf"] == sorted(os.listdir("conf"))
    assert S_2 == (tmp_path / "conf/s-2.conf").read_text()
    assert 0o644 == (tmp_path / "conf/s-2.conf").stat().st_mode & 0o777


def test_a_bare_file_makes_a_daemon_that_only_listens(run, tmp_path):
    """What it does then is for `iostats ldms run`, which knows what the others do."""
    text = TEXT.replace("hosts: head,", "hosts: head, log_level: INFO, environment: {A: '23'},")
    assert 0 == run("orion.yaml", "-o", "conf", "--bare", text=text)[0]
    assert ["listen xprt=sock port=10001 host=n-2"] == (
        tmp_path / "conf/s-2.conf").read_text().splitlines()[1:]
    assert ["env A=23", "option --log_level INFO", "listen xprt=sock port=10002 host=head"] == (
        tmp_path / "conf/agg.conf").read_text().splitlines()[1:]


def test_the_longest_name_is_a_files_name(run):
    name = "s" * 229
    text = "daemons: [{names: %s, hosts: h, endpoints: [{names: e, ports: 23}]}]\n" % name
    assert 0 == run("orion.yaml", "-o", "conf", text=text)[0]
    assert [f"{name}.conf"] == os.listdir("conf")


def test_a_name_that_the_locale_has_no_letters_for_is_one_line(run, tmp_path):
    (tmp_path / "a.yaml").write_text(
        "daemons: [{names: n\u20ac, hosts: h, endpoints: [{names: e, ports: 23}]}]\n",
        encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "iostats", "ldms", "generate", tmp_path / "a.yaml", "-o", "conf"],
        cwd=tmp_path, capture_output=True, check=False, env={
            **os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0",
            "PYTHONPATH": str(ROOT)})
    assert (1, b"iostats: conf/n\\u20ac.conf: this name cannot be written in this locale's "
               b"encoding; expected a locale of UTF-8 (LC_ALL=C.UTF-8)\n") == (
                   done.returncode, done.stderr)


def test_what_is_the_same_is_left(run, tmp_path):
    run("orion.yaml", "-o", "conf")
    before = {path.name: path.stat().st_ino for path in (tmp_path / "conf").iterdir()}

    told = run("orion.yaml", "-o", "conf", text=TEXT.replace("interval: 1s}]", "interval: 2s}]"))

    assert (0, "conf: 4 configuration files for LDMS 4.5: 1 written, 3 unchanged\n", "") == told
    after = {path.name: path.stat().st_ino for path in (tmp_path / "conf").iterdir()}
    assert ["agg.conf"] == [name for name in before if before[name] != after[name]]


def test_files_of_daemons_that_are_no_more_are_named_and_stay(run, tmp_path):
    run("orion.yaml", "-o", "conf")
    (tmp_path / "conf/other.conf").write_text("listen xprt=sock port=1\n")

    status, _, err = run("orion.yaml", "-o", "conf", text=TEXT.replace("-3", "-2"))

    assert (0, "iostats: conf/s-3.conf: no daemon of orion.yaml has this name; remove it if no "
               "ldmsd reads it\n") == (status, err)
    assert (tmp_path / "conf/s-3.conf").exists()


def test_a_file_of_another_origin_is_not_replaced(run, tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/s-2.conf").write_text("listen xprt=sock port=1\n")

    status, out, err = run("orion.yaml", "-o", "conf")

    assert (1, "", "iostats: conf/s-2.conf: was not written by this command; move it away, or "
                   "replace it with --force\n") == (status, out, err)
    assert ["s-2.conf"] == os.listdir("conf")
    assert 0 == run("orion.yaml", "-o", "conf", "--force")[0]
    assert S_2 == (tmp_path / "conf/s-2.conf").read_text()


def test_one_daemon_on_standard_output(run):
    assert (0, S_2, "") == run("orion.yaml", "-o", "-", "--daemon", "s-2")


def test_all_daemons_on_standard_output_from_standard_input(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))

    status, out, _ = run("-", "-o", "-")

    assert 0 == status
    assert S_2 in out
    assert ["s-1,", "s-2,", "s-3,", "agg,"] == [
        line.split()[4] for line in out.splitlines() if line.startswith("#")]


def test_another_release(run):
    status, out, err = run("orion.yaml", "-o", "-", "--ldms", "4.4.6")

    assert 0 == status
    assert "load name=meminfo\nconfig name=meminfo" in out
    assert ("iostats: LDMS 4.4 has no quota with prdcr_add: it is left out of the producers of "
            "agg\n" == err)


@pytest.mark.parametrize("change, arguments, said, expected", [
    (("schema: mem", "namespace: mem"), (), "s-1: LDMS 4.5 would refuse 'config name=mem "
     "namespace=mem producer=s-1 instance=s-1/mem': config: expected no attribute that begins", 1),
    (("port: 10001", "port: 10001"), ("--daemon", "s-4"),
     "--daemon: expected a daemon of the description, got 's-4'; did you mean s-3?", 2),
    (("1s", "1s"), ("--ldms", "4.2"), "LDMS 4.2 is not supported; there are: 4.4, 4.5, newer", 2),
    (("1s", "1s"), ("more.yaml",), "unrecognized arguments: more.yaml", 2),
    (("mem]", "men]"), (), "no plugin instance 'men'", 1),
])
def test_nothing_is_written_where_something_is_wrong(run, change, arguments, said, expected):
    status, out, err = run("orion.yaml", "-o", "conf", *arguments, text=TEXT.replace(*change))

    assert (expected, "") == (status, out)
    assert said in err
    assert not os.path.exists("conf")


def test_a_directory_that_cannot_be_made(run, tmp_path):
    (tmp_path / "conf").write_text("")

    status, _, err = run("orion.yaml", "-o", "conf")

    assert (1, "iostats: conf: expected a directory, got a file\n") == (status, err)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("options", [(), ("--force",)])
def test_what_is_no_file_is_neither_read_nor_replaced(run, make, options):
    os.mkdir("conf")
    make("conf/s-2.conf")

    assert (1, "", "iostats: conf/s-2.conf: expected a file or nothing, got something else; move "
                   "it away\n") == run("orion.yaml", "-o", "conf", *options)

    assert ["s-2.conf"] == os.listdir("conf")
