"""
Directories, environments and files that another user has prepared: root and the units take nothing
from them.  docs/explanation/security.md names these tests.
"""
from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys

import pytest
from processes import BEFORE, CLIENT, REPOSITORY, contents, until
from site_desk import a_report, script
from storage import StorageServer, moved

from iostats.base import config as site_config
from iostats.base.errors import StateError
from iostats.cli import report_file

ALICE, BOB = 65534, 54321                      # a user with a name here, and one without
as_root = [pytest.mark.root,
           pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")]
root_only = pytest.mark.parametrize("", [pytest.param(marks=as_root)])


# -- a hostile environment, and root --------------------------------------------------

MODULES = ("json", "os", "socket", "site", "sitecustomize", "usercustomize", "iostats", "re",
           "logging", "asyncio", "msgspec", "signal", "_thread")


@pytest.fixture
def evil(tmp_path):
    """A directory of modules and programs that leave a mark when somebody loads or runs them."""
    directory = tmp_path / "evil"
    (directory / ".iostats").mkdir(parents=True)
    mark = directory / "was-here"
    for name in MODULES:
        (directory / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n")
    for name in ("python3", "env", "readlink", "dirname", "sh"):
        script(directory / name, f"#!/bin/sh\n/usr/bin/touch '{mark}'\n")
    (directory / "rc").write_text(f"/usr/bin/touch '{mark}'\n")
    return directory


def evil_environment(evil):
    return {"PYTHONPATH": str(evil), "PYTHONHOME": str(evil), "PYTHONSTARTUP": str(evil / "os.py"),
            "PYTHONINSPECT": "1", "PYTHONUSERBASE": str(evil), "PYTHONBREAKPOINT": "os.system",
            "HOME": str(evil), "ENV": str(evil / "rc"), "BASH_ENV": str(evil / "rc"),
            "TMPDIR": str(evil), "IFS": "/"}


def of_unit(name):
    """The command of a unit, as systemd starts it."""
    text = (REPOSITORY / "systemd" / name).read_text()
    command = re.search("^ExecStart=(.*)$", text, re.MULTILINE)[1]
    return command.replace("@PYTHON@", sys.executable).replace("@LIBDIR@", str(REPOSITORY)).split()


def test_the_agents_unit_takes_nothing_from_directory_and_environment(desk, evil):
    storage = StorageServer(desk)
    storage.show("OST0000", {"4711": moved(41_003, 0)})
    desk.site()
    config = desk.directory / "oss1.cfg"
    config.write_text(desk.text({**desk.choices, "harvest.spool_dir": storage.root / "spool"}))
    done = subprocess.run(
        [*of_unit("iostats-harvest.service"), "--once", "--root", str(storage.root), "--node",
         "oss1", "--config", str(config)], cwd=evil, env=evil_environment(evil),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert not (evil / "was-here").exists()


def test_the_site_servers_unit_takes_nothing_from_directory_and_environment(desk, evil):
    process = subprocess.Popen(
        [*of_unit("iostats-site.service"), "--config", str(desk.cfg), "--listen", "127.0.0.1"],
        cwd=evil, env=evil_environment(evil), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True)
    desk.started.append(process)
    lines = [process.stderr.readline() for _ in range(2)]        # a new secret, and where it is
    assert "the site's server on" in "".join(lines), lines
    assert [] == desk.asked("latest", count=1)
    assert not (evil / "was-here").exists()


@pytest.mark.parametrize("name", sorted(
    path.name for path in (REPOSITORY / "systemd").glob("*.service")))
def test_no_unit_leaves_a_core_with_a_secret_in_it(name):
    assert "\nLimitCORE=0\n" in (REPOSITORY / "systemd" / name).read_text()


@pytest.mark.parametrize("name", sorted(
    path.name for path in (REPOSITORY / "systemd").glob("*.service")))
def test_the_journal_names_a_unit_and_not_the_program_that_it_starts(name):
    """Else all of them are python3, or iostats.sh."""
    assert f"\nSyslogIdentifier={name.partition('.')[0].rstrip('@')}\n" in (
        REPOSITORY / "systemd" / name).read_text()


@pytest.mark.parametrize("name", ["lsf_pre_exec", "flux_prolog", "slurm_prolog"])
def test_the_hooks_take_nothing_from_directory_and_environment(desk, evil, tmp_path, name):
    """As root they begin a job; PYTHON and IOSTATS_HOME are the user's to set with LSF alone."""
    home = tmp_path / "lib"
    shutil.copytree(REPOSITORY / "iostats", home / "iostats")
    shutil.copytree(REPOSITORY / "hooks", home / "hooks")
    shutil.copy(CLIENT, home)
    (home / "site.cfg").write_text(desk.text(desk.choices))
    text = (home / "hooks" / name).read_text()
    (home / "hooks" / name).write_text(
        text.replace("/usr/local/lib/iostats", str(home)).replace("/usr/bin/python3",
                                                                 sys.executable))
    of_user = {"PATH": str(evil), "PYTHON": str(evil / "python3"), "IOSTATS_HOME": str(evil)}
    env = {**evil_environment(evil), **({} if name.startswith("flux") else of_user),
           "IOSTATS_NODE_HOOK_DIR": str(evil / "stolen"), "SLURM_JOB_ID": "4711",
           "LSB_JOBID": "4711", "FLUX_JOB_ID": "f4711", "SLURMD_NODENAME": "nid00001",
           "SLURM_JOB_NODELIST": "nid00001"}
    keep = {"slurm": ("SLURM_", "SLURMD"), "lsf": ("LSB_",), "flux": ("FLUX_",)}
    mine = keep[name.partition("_")[0]]
    env = {key: value for key, value in env.items()
           if key.startswith(mine) or not key.startswith(("SLURM", "LSB_", "FLUX_"))}
    done = subprocess.run(["/bin/sh", home / "hooks" / name], cwd=evil, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert 0 == done.returncode
    assert ["job", "start"] == sorted(path.suffix[1:] for path in desk.hooks.iterdir()), done
    assert not (evil / "was-here").exists() and not (evil / "stolen").exists()


def test_slurms_mailprog_takes_no_module_from_the_directory_it_is_in(evil, tmp_path):
    """python -m would: slurmctld's directory may be one that others write to."""
    sent = tmp_path / "sent"
    mail = script(tmp_path / "mail", f"#!/bin/sh\n/bin/cat > '{sent}'\n")
    done = subprocess.run(
        [REPOSITORY / "hooks" / "slurm_mail", "-s", "Slurm Job_id=4711 Name=x Began", "alice"],
        cwd=evil, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "PYTHONPATH": str(evil),
             "IOSTATS_SITE_MAIL_PROGRAM": str(mail)})
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert sent.exists() and not (evil / "was-here").exists()


@pytest.mark.parametrize("command", [
    [sys.executable, "-I", "-S", "iostats_client.py", "show", "--root", "nowhere"],
    [sys.executable, "-I", "iostats_server.py", "--job", "4711", "--print-port"],
    ["hooks/slurm_mail", "--help"]], ids=["client", "server", "mail"])
def test_installed_code_is_writable_by_its_owner_only(tmp_path, command):
    """Python keeps what it has compiled in a directory that it makes; root runs what is there."""
    for name in ("iostats", "hooks"):
        shutil.copytree(REPOSITORY / name, tmp_path / name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("iostats_client.py", "iostats_server.py"):
        shutil.copy(REPOSITORY / name, tmp_path)
    subprocess.run(["/bin/sh", "-c", 'umask 0; exec "$@"', "sh", *command], cwd=tmp_path,
                   env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable}, timeout=60,
                   stdin=subprocess.DEVNULL, capture_output=True)
    made = [path for path in tmp_path.rglob("*") if "__pycache__" in str(path)]
    assert made and [] == [path for path in made if path.stat().st_mode & 0o022]


@root_only
@pytest.mark.parametrize("owner", ["of the home", "of the directory"])
def test_root_reads_no_other_users_site_cfg(of_all, owner):
    """A sudo that keeps HOME would have root's server write where alice says."""
    home = of_all / "alice"
    (home / ".iostats").mkdir(parents=True)
    (home / ".iostats" / "site.cfg").write_text("[site]\nstore = /tmp/of-alice\n")
    load = site_config.load
    assert "/tmp/of-alice" == load(environ={"HOME": str(home)}).site.store
    os.chown(home if owner == "of the home" else home / ".iostats", ALICE, ALICE)
    assert "/var/lib/iostats/site.sqlite" == load(environ={"HOME": str(home)}).site.store


# -- directories that others can write to
# -------------------------------------------------------------

@root_only
@pytest.mark.parametrize("role", ["prolog", "epilog", "deliver"])
@pytest.mark.parametrize("wrong", ["open", "of alice", "a link"])
def test_root_sends_nothing_that_another_user_has_put_into_the_hooks_directory(desk, of_all, role,
                                                                               wrong):
    """It says so, ends with 0 (`deliver` with 1), and leaves everything as it is."""
    desk.site()
    directory = of_all / "hooks"
    directory.mkdir(0o700)
    (directory / "4711%20nid00001.23.delta").write_text(json.dumps(a_report("4711")))
    if wrong == "open":
        directory.chmod(0o777)
    elif wrong == "of alice":
        os.chown(directory, ALICE, ALICE)
    else:
        directory.rename(of_all / "elsewhere")
        directory.symlink_to(of_all / "elsewhere")
    before = contents(of_all)
    done = desk.hook(role, "nid00001", job="4711", hook_dir=directory)
    assert (1 if role == "deliver" else 0) == done.status
    assert "expected a directory of user 0 with mode 0700" in done.line
    assert before == contents(of_all) and [] == desk.records("4711")


@root_only
@pytest.mark.parametrize("wrong", ["open", "of alice", "a link"])
def test_an_agent_keeps_no_sweep_where_another_user_could_change_it(desk, of_all, wrong):
    storage = StorageServer(desk)
    storage.show("OST0000", {"4711": moved(41_003, 0)})
    spool = storage.root / "spool"
    if wrong == "a link":
        spool.symlink_to(of_all)
    else:
        spool.mkdir(0o777)
        spool.chmod(0o777 if wrong == "open" else 0o700)
        if wrong == "of alice":
            os.chown(spool, ALICE, ALICE)
    done = storage.sweep()
    assert 1 == done.status and "expected a directory of user 0 with mode 0700" in done.line
    assert [] == os.listdir(of_all)


def test_a_report_is_not_written_through_a_link_that_another_user_has_put_beside_it(
        of_all, monkeypatch):
    """Its first name is not to be guessed; where it is, nothing is written at all."""
    victim, path = of_all / "victim", of_all / "report.txt"
    victim.write_text("precious\n")
    (of_all / f"report.txt.{os.getpid()}.new").symlink_to(victim)
    report_file.write_report(str(path), "REPORT\n")
    assert ("precious\n", "REPORT\n") == (victim.read_text(), path.read_text())
    monkeypatch.setattr(report_file.os, "urandom", lambda length: b"\x23" * length)
    (of_all / f"report.txt.{'23' * 8}.new").symlink_to(victim)
    with pytest.raises(StateError, match="File exists"):
        report_file.write_report(str(path), "ANOTHER\n")
    assert ("precious\n", "REPORT\n") == (victim.read_text(), path.read_text())


@root_only
@pytest.mark.parametrize("kind", ["a link", "a FIFO"])
def test_a_report_goes_into_no_link_and_no_fifo_that_another_user_has_put_there(of_all, kind):
    """His link may lead into a file of ours, and nobody reads his FIFO; ours are written to."""
    victim, path = of_all / "victim", of_all / "report.txt"
    victim.write_text("precious\n")
    if kind == "a link":
        path.symlink_to(victim)
    else:
        os.mkfifo(path)
    os.lchown(path, ALICE, ALICE)
    with pytest.raises(StateError, match=f"not written: it is a link, or no regular file, of user "
                                         f"{ALICE}; remove it, or name another file"):
        report_file.write_report(str(path), "REPORT\n")
    assert "precious\n" == victim.read_text()
    if kind == "a link":
        os.lchown(path, 0, 0)
        report_file.write_report(str(path), "REPORT\n")
        assert "REPORT\n" == victim.read_text(), "as if its own name had been given"


def test_a_hard_link_to_a_report_keeps_its_content(of_all):
    """A hard link that somebody made to an earlier report is not written through."""
    path = of_all / "report.txt"
    path.write_text("EARLIER\n")
    os.link(path, of_all / "second")
    report_file.write_report(str(path), "REPORT\n")
    assert ("REPORT\n", "EARLIER\n") == (path.read_text(), (of_all / "second").read_text())


def test_all_that_is_written_is_its_users_alone_whatever_the_umask_is(desk):
    """Secret, store, starts, reports that wait, sweeps that wait: 0600 in directories of 0700."""
    before = os.umask(0)
    try:
        storage = StorageServer(desk)
        storage.show("OST0000", {"4711": moved(41_003, 0)})
        desk.site_secret = desk.directory / "etc" / "iostats" / "site.secret"
        desk.configure(site_store=desk.directory / "var" / "iostats" / "site.sqlite",
                       site_secret=desk.site_secret)
        server = desk.site()
        root = desk.tree("nid00001", **BEFORE)
        assert 0 == desk.hook("prolog", root=root, job="4711").status
        desk.send(a_report("4713"))
        server.kill()
        assert 0 == desk.hook("prolog", root=root, job="4717").status
        assert 0 == desk.hook("epilog", root=root, job="4711").status
        agent = storage.agent("--once")
        until(lambda: list((storage.root / "spool").glob("*.message")), what="a sweep that waits")
        agent.kill()
        job = desk.client("start", *desk.on("nid2", desk.tree("nid2", **BEFORE)))
        assert 0 == job.status
    finally:
        os.umask(before)
    private = [desk.site_secret, *(desk.directory / "var").rglob("*"), *desk.hooks.rglob("*"),
               *(storage.root / "spool").rglob("*"), desk.state, *desk.state.rglob("*"),
               desk.directory / "var", *(desk.directory / "etc").rglob("*"), desk.directory / "etc"]
    kinds = {path.suffix for path in private}
    assert {".secret", ".sqlite", ".start", ".delta", ".job", ".message"} <= kinds
    found = {str(path): oct(stat.S_IMODE(path.lstat().st_mode)) for path in private}
    assert {} == {path: mode for path, mode in found.items() if mode not in ("0o600", "0o700")}
