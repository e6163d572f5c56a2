"""
A report to where its user sees it: what the user could have written is written, as that user, and
nothing else is.

Ordinary users of every machine stand for the jobs' users: nobody, and daemon for another one.
"""
from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from processes import REPOSITORY, private_mounts, until
from test_client import python_for_nobody

from iostats.jobs import write_as_user
from iostats.jobs.write_as_user import WriteError

as_root = [pytest.mark.root,
           pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")]
pytestmark = as_root
NOBODY, DAEMON = (pwd.getpwnam(name).pw_uid for name in ("nobody", "daemon"))
SAID = "what the job said\n"
REPORT = "Job 4711: 23 of 23 nodes reported, 00:31:07\n"


@pytest.fixture
def directory():
    """A directory of nobody that every user can reach."""
    path = Path(tempfile.mkdtemp(prefix="iostats-test-"))
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def a_file(path, uid=NOBODY, mode=0o644):
    """The output of a job of `uid`."""
    path.write_text(SAID)
    path.chmod(mode)
    os.chown(path, uid, uid)
    return path


def written(write, **how):
    """What `write(writer)` returns, awaited; and the process that writes is gone."""
    async def whole():
        writer = write_as_user.Writer(**how)
        try:
            return await write(writer)
        finally:
            writer.close()
    return asyncio.run(whole())


def append(path, user="nobody", text=REPORT):
    written(lambda writer: writer.append(user, str(path), text))


def refused(path, why, user="nobody"):
    """Nothing is appended, and it is said why; nobody hangs."""
    with pytest.raises(WriteError, match=why):
        append(path, user)


# -- the job's output ------------------------------------------------------------------------

def test_the_report_is_at_the_end_of_the_jobs_output(directory):
    """Twice is twice; mode and owner stay."""
    path = a_file(directory / "job.out", mode=0o600)
    append(path)
    append(path, text="second\n")
    assert SAID + REPORT + "second\n" == path.read_text()
    found = path.stat()
    assert (NOBODY, 0o600) == (found.st_uid, stat.S_IMODE(found.st_mode))


def test_a_large_report_is_whole(directory):
    path = a_file(directory / "job.out")
    append(path, text="é" * 3_000_000)
    assert SAID + "é" * 3_000_000 == path.read_text()


def test_a_file_that_is_not_there_is_not_made(directory):
    refused(directory / "job.out", "No such file or directory$")
    refused(directory / "nowhere" / "job.out", "No such file or directory$")
    assert [] == os.listdir(directory)


def test_a_symbolic_link_is_not_followed(directory):
    """Also not to a file of the user's own."""
    path = a_file(directory / "job.out")
    for target in (path, Path("/etc/passwd")):
        link = directory / "link"
        link.symlink_to(target)
        refused(link, "it is a link$")
        link.unlink()
    assert SAID == path.read_text()


def test_a_hard_link_is_refused(directory):
    """A user could have made one of another's file."""
    path = a_file(directory / "job.out")
    os.link(path, directory / "other")
    for name in ("job.out", "other"):
        refused(directory / name, "it is not a regular file that belongs only to the user$")
    assert SAID == path.read_text()


def test_a_file_of_another_user_is_refused(directory):
    """Of another user, and of root, though everybody may write to it."""
    for uid in (DAEMON, 0):
        path = a_file(directory / "job.out", uid, 0o666)
        refused(path, "it is not a regular file that belongs only to the user$")
        path.chmod(0o644)
        refused(path, "Permission denied$")
        assert SAID == path.read_text()
        path.unlink()


def test_only_the_users_own_rights_count(directory):
    """No group of root's, no directory that only root may enter."""
    path = a_file(directory / "job.out", mode=0o400)
    refused(path, "Permission denied$")
    path.chmod(0o644)
    (directory / "closed").mkdir(mode=0o700)
    path.rename(directory / "closed" / "job.out")
    refused(directory / "closed" / "job.out", "Permission denied$")
    before = os.getgroups()
    os.setgroups([0])                                      # as systemd starts a service of root's
    try:
        (directory / "closed").chmod(0o750)
        refused(directory / "closed" / "job.out", "Permission denied$")
    finally:
        os.setgroups(before)


def test_what_is_not_a_regular_file_is_refused_without_waiting(directory):
    """A FIFO without and with a reader, a socket, a directory, a device."""
    fifo = directory / "fifo"
    os.mkfifo(fifo)
    os.chown(fifo, NOBODY, NOBODY)
    refused(fifo, "it is not a regular file$")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    refused(fifo, "it is not a regular file that belongs only to the user$")
    assert b"" == os.read(reader, 100)
    os.close(reader)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(directory / "socket"))
        os.chown(directory / "socket", NOBODY, NOBODY)
        refused(directory / "socket", "it is not a regular file$")
    refused(directory, "Is a directory$")
    refused("/dev/null", "it is not a regular file that belongs only to the user$")


@pytest.mark.parametrize("path", ["job.out", "", "./job.out", "../job.out", "~/job.out"])
def test_a_path_that_is_not_absolute_is_refused(directory, path, monkeypatch):
    monkeypatch.chdir(directory)
    a_file(directory / "job.out")
    refused(path, "expected an absolute path$")
    assert SAID == (directory / "job.out").read_text()


@pytest.mark.parametrize("path", ["/tmp/a\0b", "/" + "x" * 5000, "/tmp/" + "x/" * 3000])
def test_a_path_that_is_invalid_is_refused(path):
    with pytest.raises(WriteError):
        append(path)


@pytest.mark.parametrize("user", ["no-such-user", "", "a\0b", "../root", "0", "é" * 5000])
def test_a_user_who_does_not_exist_is_refused(directory, user):
    path = a_file(directory / "job.out")
    refused(path, "there is no user", user)
    assert SAID == path.read_text()


def test_nothing_is_written_as_root(directory):
    """Neither into root's own files, nor into others."""
    for uid in (0, NOBODY):
        path = a_file(directory / f"{uid}.out", uid)
        refused(path, "root: nothing is written as root$", "root")
        assert SAID == path.read_text()
    with pytest.raises(WriteError, match="nothing is written as root"):
        written(lambda writer: writer.write_in_home("root", "4711", REPORT))


def test_a_server_that_is_not_root_can_write_as_nobody_else(directory):
    """A server that runs as an ordinary user says what is in the way."""
    path, public = a_file(directory / "job.out"), directory / "public"
    shutil.copytree(REPOSITORY / "iostats", public / "iostats",
                    ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [python_for_nobody(), "-c", "import asyncio, os, sys\n"
         "from iostats.jobs import write_as_user\n"
         f"os.setuid({DAEMON})\n"
         "async def both():\n"
         "    writer = write_as_user.Writer()\n"
         "    for user in ('nobody', 'daemon'):\n"
         "        try:\n"
         "            await writer.append(user, sys.argv[1], 'x')\n"
         "        except write_as_user.WriteError as error:\n"
         "            print(error)\n"
         "    writer.close()\n"
         "asyncio.run(both())\n", str(path)],
        cwd=public, capture_output=True, text=True, timeout=100)
    first, second = done.stdout.splitlines()
    assert "only root can write as user 'nobody'" in first
    assert second.endswith("job.out: Permission denied")
    assert SAID == path.read_text()


def children():
    """This process' children, zombies too; other tests of this process may have left theirs."""
    return {child for task in Path("/proc/self/task").iterdir()
            for child in (task / "children").read_text().split()}


def open_files():
    """{(number, file)} of this process; other tests of it may have left some that close later."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


def test_many_at_once_each_get_their_own(directory):
    """And no process, and no open file, is left behind."""
    paths = [a_file(directory / f"{number}.out") for number in range(23)]
    files, processes = open_files(), children()

    async def all_of_them(writer):
        await asyncio.gather(*(writer.append("nobody", str(path), f"{path.name}\n")
                               for path in paths))
    written(all_of_them)
    assert [SAID + f"{path.name}\n" for path in paths] == [path.read_text() for path in paths]
    assert open_files() <= files
    assert children() <= processes


@pytest.mark.parametrize("earlier, appended", [
    (["Job 4711: TWO", "| 23 |", "| 37 |"], False),
    (["Job 4711: TWO", "| 23 |", "", "Job 4713: ONE", "| 37 |"], True),
    (["Job 4711: ONE", "| 23 |", "", "Job 4711: TWO", "| 37 |"], True),
    (["Job 4711: ONE", "| 41 |", "", "Job 4711: TWO", "| 23 |", "| 37 |"], False),
], ids=["the same numbers", "a part in another job's report", "in two reports of parts",
        "the same numbers in the second"])
def test_a_report_is_left_out_where_one_earlier_report_has_its_numbers(
        directory, earlier, appended):
    """Jobs that share an output file are appended in any order, also between two reports of one."""
    path = a_file(directory / "job.out")
    path.write_text("\n".join(earlier) + "\n")
    written(lambda writer: writer.append("nobody", str(path), REPORT, "Job 4711",
                                         ["| 23 |", "| 37 |"]))
    assert appended == (REPORT in path.read_text())


# As the Writer's own command; who writes to slow.out is stopped, as its user may do at any time.
SLOW = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
from iostats.jobs import write_as_user
write_as_user.WITHIN_S = 5
real = write_as_user.append_bytes
def slow(name, data, uid, *more):
    if name.endswith("slow.out"):
        os.kill(os.getpid(), signal.SIGSTOP)
    real(name, data, uid, *more)
write_as_user.append_bytes = slow
write_as_user.serve()
"""


def test_a_file_system_that_hangs_is_given_up(directory):
    """The process that writes there is ended; others go on meanwhile."""
    path = a_file(directory / "job.out")

    async def both(writer):
        hangs = asyncio.ensure_future(writer.append("nobody", str(directory / "slow.out"), "x"))
        await writer.append("nobody", str(path), REPORT)
        assert not hangs.done()
        with pytest.raises(WriteError, match=r"slow\.out: not written within 5 s"):
            await hangs
        assert SAID + REPORT == path.read_text()
        await writer.append("nobody", str(path), "again\n")
        children = Path(f"/proc/{writer.pid}/task/{writer.pid}/children")
        until(lambda: children.read_text() == "", what="their ends")
    written(both, command=SLOW)
    assert path.read_text().endswith("again\n")


def test_the_server_does_not_fork(directory, monkeypatch):
    """A fork of a process with threads copies the locks that these hold just then."""
    def fork():
        raise AssertionError("forked")
    monkeypatch.setattr(os, "fork", fork)
    path = a_file(directory / "job.out")
    append(path)
    assert SAID + REPORT == path.read_text()


def test_a_process_that_was_killed_costs_only_what_it_was_writing(directory):
    """The next report starts another one; by the kernel short of memory, say."""
    path = a_file(directory / "job.out")

    async def kill(writer):
        slow = asyncio.ensure_future(writer.append("nobody", str(directory / "slow.out"), "x"))
        await writer.append("nobody", str(path), "first\n")
        children = Path(f"/proc/{writer.pid}/task/{writer.pid}/children")
        [stopped] = until(lambda: [int(one) for one in children.read_text().split() if
                                   " T " in Path(f"/proc/{one}/stat").read_text()], what="it")
        os.kill(writer.pid, signal.SIGKILL)
        os.kill(stopped, signal.SIGKILL)                # else it is there for ever
        with pytest.raises(WriteError, match="the process that writes as users has ended"):
            await slow
        await writer.append("nobody", str(path), "second\n")
    written(kill, command=SLOW)
    assert SAID + "first\nsecond\n" == path.read_text()


def test_the_process_ends_when_the_server_is_killed(directory):
    done = subprocess.run(
        [sys.executable, "-c", "import asyncio, os\n"
         "from iostats.jobs import write_as_user\n"
         "async def begin():\n"
         "    writer = write_as_user.Writer()\n"
         "    await writer.begin()\n"
         "    print(writer.pid, flush=True)\n"
         "    os.kill(os.getpid(), 9)\n"
         "asyncio.run(begin())\n"], cwd=REPOSITORY, capture_output=True, text=True, timeout=100)
    pid = int(done.stdout)

    def is_gone():
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True
    until(is_gone, what="the end of the process that writes")
    assert "" == done.stderr


# -- the user's home ---------------------------------------------------------------------------

WITH_PASSWD = """
mount --bind "$1" /etc/passwd || exit 77
shift
exec "$@"
"""
WRITE = """
import asyncio, json, sys
from iostats.jobs import write_as_user
async def write():
    writer = write_as_user.Writer()
    try:
        print(json.dumps(await writer.write_in_home(*sys.argv[1:])))
    except write_as_user.WriteError as error:
        print(json.dumps(str(error)))
    writer.close()
asyncio.run(write())
"""


def write_in_home(home, directory, job="4711", text=REPORT):
    """
    None, or why it was not written, for a user `carol` with this home; in a mount namespace with a
    passwd of its own.
    """
    if not shutil.which("unshare"):
        pytest.skip("needs unshare")
    passwd = directory / "passwd"
    passwd.write_text(Path("/etc/passwd").read_text()
                      + f"carol:x:54321:54321::{home}:/bin/false\n")
    done = subprocess.run([*private_mounts(), "sh", "-c", WITH_PASSWD, "sh", passwd, sys.executable,
                           "-c", WRITE, "carol", job, text], cwd=REPOSITORY, capture_output=True,
                          text=True, timeout=100)
    if done.returncode == 77:
        pytest.skip("no file can be mounted")
    assert 0 == done.returncode, done
    return json.loads(done.stdout)


@pytest.fixture
def home(directory):
    """Carol's home, with .iostats in it."""
    path = directory / "carol"
    for one in (path, path / ".iostats"):
        one.mkdir(mode=0o755)
        os.chown(one, 54321, 54321)
    return path


def test_a_user_who_has_the_directory_has_the_report_there(directory, home):
    """For the user alone to read; a later one stands for the one before; nothing lies beside it."""
    for text in ("first\n", REPORT):
        assert write_in_home(home, directory, text=text) is None
        path = home / ".iostats" / "4711.txt"
        assert text == path.read_text()
    found = path.stat()
    assert (54321, 54321, 0o600) == (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))
    assert ["4711.txt"] == os.listdir(home / ".iostats")


def test_a_user_who_has_no_such_directory_has_no_report(directory, home):
    """No directory is made; a home that is not there, or that is none, is said."""
    (home / ".iostats").rmdir()
    assert write_in_home(home, directory).endswith("No such file or directory")
    assert [] == os.listdir(home)
    assert write_in_home("/nonexistent", directory).endswith("No such file or directory")
    for none in ("", "carol", "."):
        assert "user 'carol' has no home directory" == write_in_home(none, directory)


def test_a_directory_that_is_not_the_users_is_not_used(directory, home):
    """A link to another one, a file, and a directory of somebody else."""
    real = home / "real"
    (home / ".iostats").rename(real)
    (home / ".iostats").symlink_to(real)
    assert write_in_home(home, directory).endswith("Not a directory")
    (home / ".iostats").unlink()
    (home / ".iostats").write_text("")
    assert write_in_home(home, directory).endswith("Not a directory")
    (home / ".iostats").unlink()
    (home / ".iostats").mkdir()
    (home / ".iostats").chmod(0o777)
    assert write_in_home(home, directory).endswith("Not a directory")
    assert [] == os.listdir(real) == os.listdir(home / ".iostats")


@pytest.mark.parametrize("job, name", [
    ("../../../etc/cron.d/4711", "%2E%2E%2F%2E%2E%2F%2E%2E%2Fetc%2Fcron%2Ed%2F4711.txt"),
    ("12345_10", "12345_10.txt"), ("4711[3].pbs01", "4711%5B3%5D%2Epbs01.txt"),
    ("\x1b[2J", "%1B%5B2J.txt")])
def test_any_jobs_report_stays_in_that_directory(directory, home, job, name):
    assert write_in_home(home, directory, job) is None
    assert [name] == os.listdir(home / ".iostats")


def test_a_file_that_is_a_link_is_replaced_and_not_followed(directory, home):
    """Of the user's own making, but still."""
    (home / ".iostats" / "4711.txt").symlink_to("/etc/hostname")
    before = Path("/etc/hostname").read_bytes()
    assert write_in_home(home, directory) is None
    assert not (home / ".iostats" / "4711.txt").is_symlink()
    assert before == Path("/etc/hostname").read_bytes()
