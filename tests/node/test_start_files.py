"""
What a node keeps: private, whole or not at all, never through a link, never somebody else's.

And the job's secret, which lies in a file in the same way.  All in this process; TMP is a directory
of the test.
"""
from __future__ import annotations

import os
import stat

import pytest

from iostats.base import config as site
from iostats.base.errors import ConfigError, NotDelivered, StateError
from iostats.base.job_id import make_filename
from iostats.node import measurement, start_files
from iostats.node.start_files import StartFiles, open_start_files
from iostats.wire import auth, protocol

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")


@pytest.fixture
def tmp(tmp_path, monkeypatch):
    """A directory that stands for /tmp."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    monkeypatch.setattr(start_files, "TMP", str(directory))
    return directory


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


# -- files -----------------------------------------------------------------------------------

def test_what_is_kept_is_there_whole_with_mode_0600_and_nothing_beside_it(tmp_path):
    """No half file is ever seen under its name, and no temporary one stays."""
    kept = StartFiles(str(tmp_path), "4711", "nid00023")
    assert kept.store_start(b"23 counters", replace=False)
    assert ["4711%20nid00023.start"] == os.listdir(tmp_path)
    assert 0o600 == mode(kept.start_path)
    assert b"23 counters" == kept.load_start()


def test_a_start_that_is_there_is_not_written_over(tmp_path):
    """False, and the first one stays; with `replace` the second one counts."""
    kept = StartFiles(str(tmp_path), "4711", "nid00023")
    kept.store_start(b"first", replace=False)
    assert not kept.store_start(b"second", replace=False)
    assert b"first" == kept.load_start()
    assert kept.store_start(b"second", replace=True)
    assert b"second" == kept.load_start()
    assert ["4711%20nid00023.start"] == os.listdir(tmp_path)


def test_a_start_that_a_stop_removes_while_another_one_looks_is_begun_again(tmp_path, monkeypatch):
    """The second `start` found it there, and gone when it wanted to read it."""
    said = []
    work = measurement.Work(site.Config(), str(tmp_path), "nid00023", "4711", said.append,
                            str(tmp_path / "kept"))
    work.kept.store_start(b"of the first", replace=False)
    store_start = StartFiles.store_start

    def stopped_meanwhile(kept, data, replace):
        is_kept = store_start(kept, data, replace)
        if not is_kept:
            os.unlink(kept.start_path)
        return is_kept
    monkeypatch.setattr(StartFiles, "store_start", stopped_meanwhile)
    assert work.start().seq == work.load_start("the work").seq
    assert 1 == len(said) and said[0].endswith("begun again")


def test_no_start_is_none_and_not_an_error(tmp_path):
    """`stop` decides what that means."""
    assert None is StartFiles(str(tmp_path), "4711", "nid00023").load_start()


def test_deltas_are_those_of_this_job_and_node_alone(tmp_path):
    """Job 47 and job 4711, nid0002 and nid00023 do not take one another's."""
    StartFiles(str(tmp_path), "4711", "nid00023").store_delta("aa", b"23")
    StartFiles(str(tmp_path), "4711", "nid0002").store_delta("bb", b"37")
    StartFiles(str(tmp_path), "47", "nid00023").store_delta("cc", b"41")
    kept = StartFiles(str(tmp_path), "4711", "nid00023")
    assert {kept.make_delta_path("aa"): b"23"} == kept.deltas()


@pytest.mark.parametrize("job, node, name", [
    ("4711", "nid00023", "4711%20nid00023"),
    ("1234[7].server", "nid00023", "1234%5B7%5D%2Eserver%20nid00023"),
    ("../../etc/passwd", "nid00023", "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd%20nid00023"),
    ("a b", "c", "a%20b%20c"),
    ("1234+1", "n-1", "1234+1%20n-1"),
])
def test_any_job_id_is_the_name_of_a_file_in_the_directory(job, node, name):
    """No slash and no dot gets through, so no id leads out of the directory."""
    assert name == make_filename(job, node)


def test_long_ids_that_differ_at_their_ends_have_files_of_their_own():
    """A file name has at most 255 bytes; the cut is made up for by a checksum."""
    first, second = make_filename("[" * 127 + "1", "n"), make_filename("[" * 127 + "2", "n")
    assert first != second
    assert len(first) <= 200


def test_a_link_is_not_followed_when_reading(tmp_path):
    """A start that is a link to another file is refused by name."""
    (tmp_path / "other").write_bytes(b"of somebody else")
    kept = StartFiles(str(tmp_path), "4711", "nid00023")
    os.symlink(tmp_path / "other", kept.start_path)
    with pytest.raises(StateError, match=r"4711%20nid00023\.start: expected a file of user"):
        kept.load_start()


def test_a_link_is_not_followed_when_writing(tmp_path):
    """With `replace` the link is replaced, and what it points to is as it was."""
    (tmp_path / "other").write_bytes(b"of somebody else")
    kept = StartFiles(str(tmp_path), "4711", "nid00023")
    os.symlink(tmp_path / "other", kept.start_path)
    assert not kept.store_start(b"23", replace=False)
    assert kept.store_start(b"37", replace=True)
    assert b"of somebody else" == (tmp_path / "other").read_bytes()
    assert b"37" == kept.load_start()
    assert not os.path.islink(kept.start_path)


def test_a_directory_in_the_place_of_the_start_is_refused_by_name(tmp_path):
    """Not a traceback."""
    kept = StartFiles(str(tmp_path), "4711", "nid00023")
    os.mkdir(kept.start_path)
    with pytest.raises(StateError, match="expected a file of user"):
        kept.load_start()
    with pytest.raises(StateError, match="cannot be written"):
        kept.store_start(b"23", replace=True)


@pytest.mark.root
@as_root
def test_a_start_of_another_user_is_not_used(tmp_path):
    """Whoever wrote it, it is not what this user's node counted."""
    kept = StartFiles(str(tmp_path), "4711", "nid00023")
    kept.store_start(b"23", replace=False)
    os.chown(kept.start_path, NOBODY, NOBODY)
    with pytest.raises(StateError, match=f"got a link, a directory or a file of user {NOBODY}"):
        kept.load_start()


# -- the directory ------------------------------------------------------------------------------

def test_a_directory_that_is_not_there_is_made_0700(tmp_path):
    """With the directories above it."""
    open_start_files(str(tmp_path / "a" / "b"), "4711", "nid00023")
    assert 0o700 == mode(tmp_path / "a" / "b")


@pytest.mark.parametrize("open_mode", [0o755, 0o770, 0o701, 0o777])
def test_a_directory_that_others_can_enter_is_refused_with_its_mode(tmp_path, open_mode):
    """Mode 0700 is expected; what was there is named."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(open_mode)
    with pytest.raises(StateError,
                       match=f"with mode 0700, got a directory of mode {open_mode:04o}"):
        open_start_files(str(tmp_path / "state"), "4711", "nid00023")


def test_a_directory_that_is_a_link_is_refused(tmp_path):
    """Who can make the link could make it point elsewhere later."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(StateError, match="got a link or a file"):
        open_start_files(str(tmp_path / "link"), "4711", "nid00023")


def test_a_directory_that_is_a_file_is_refused(tmp_path):
    """One line, and the file is as it was."""
    (tmp_path / "file").write_text("23")
    with pytest.raises(StateError, match="cannot be made: File exists"):
        open_start_files(str(tmp_path / "file"), "4711", "nid00023")
    assert "23" == (tmp_path / "file").read_text()


@pytest.mark.root
@as_root
def test_a_directory_of_another_user_is_refused(tmp_path):
    """Even one of mode 0700: its owner can read and exchange what we put there."""
    (tmp_path / "state").mkdir(mode=0o700)
    os.chown(tmp_path / "state", NOBODY, NOBODY)
    with pytest.raises(StateError, match=f"got a directory of user {NOBODY}"):
        open_start_files(str(tmp_path / "state"), "4711", "nid00023")


# -- the directory below /tmp, when none is named -----------------------------------------------

def test_the_directory_below_tmp_is_private_and_has_a_name_nobody_guesses(tmp):
    """iostats-UID- and 16 hex digits; two users' or two nodes' are never the same."""
    kept = open_start_files("", "4711", "nid00023")
    [name] = os.listdir(tmp)
    assert 0o700 == mode(tmp / name)
    head, _, tail = name.rpartition("-")
    assert f"iostats-{os.geteuid()}" == head
    assert 16 == len(bytes.fromhex(tail).hex())
    assert str(tmp / name) == kept.directory


def test_the_directory_below_tmp_is_found_again(tmp):
    """`stop` looks where `start` has been, and another job uses it too."""
    first = open_start_files("", "4711", "nid00023")
    first.store_start(b"23", replace=False)
    assert first.directory == open_start_files("", "4711", "nid00023").directory
    assert first.directory == open_start_files("", "4712", "nid00023").directory


def test_the_directory_that_has_the_job_is_taken_when_there_are_two(tmp):
    """Whichever comes first by name."""
    for name in ("0" * 16, "f" * 16):
        (tmp / f"iostats-{os.geteuid()}-{name}").mkdir(mode=0o700)
    StartFiles(str(tmp / f"iostats-{os.geteuid()}-{'f' * 16}"), "4711", "n").store_start(b"23",
                                                                                         False)
    StartFiles(str(tmp / f"iostats-{os.geteuid()}-{'0' * 16}"), "4712", "n").store_delta("aa",
                                                                                         b"37")
    assert b"23" == open_start_files("", "4711", "n").load_start()
    assert [b"37"] == list(open_start_files("", "4712", "n").deltas().values())


def test_a_directory_below_tmp_that_is_a_link_or_open_to_others_is_not_ours(tmp):
    """What others can put into /tmp is passed by, and a new directory is made."""
    uid = os.geteuid()
    (tmp / "elsewhere").mkdir(mode=0o700)
    (tmp / f"iostats-{uid}-0").symlink_to(tmp / "elsewhere")
    (tmp / f"iostats-{uid}-1").mkdir(mode=0o755)
    (tmp / f"iostats-{uid}-2").write_text("a file")
    kept = open_start_files("", "4711", "nid00023")
    kept.store_start(b"23", replace=False)
    assert kept.directory not in {str(tmp / f"iostats-{uid}-{number}") for number in range(3)}
    assert [] == os.listdir(tmp / "elsewhere")
    assert [] == os.listdir(tmp / f"iostats-{uid}-1")


@pytest.mark.root
@as_root
def test_a_directory_below_tmp_that_another_user_planted_is_not_ours(tmp):
    """The name is right, the owner is not."""
    planted = tmp / f"iostats-{os.geteuid()}-0"
    planted.mkdir(mode=0o700)
    os.chown(planted, NOBODY, NOBODY)
    assert str(planted) != open_start_files("", "4711", "nid00023").directory
    assert [] == os.listdir(planted)


# -- the job's secret ------------------------------------------------------------------------

def test_a_secret_is_made_once_with_mode_0600_in_a_directory_of_mode_0700(tmp_path):
    """64 hex digits; the second maker leaves it alone."""
    path = str(tmp_path / "directory" / "4711.secret")
    assert auth.make(path)
    assert 0o600 == mode(path)
    assert 0o700 == mode(tmp_path / "directory")
    first = auth.load(path)
    assert 32 == len(bytes.fromhex(first.decode()))
    assert not auth.make(path)
    assert first == auth.load(path)


def test_two_secrets_are_not_the_same(tmp_path):
    """They are random."""
    auth.make(str(tmp_path / "a"))
    auth.make(str(tmp_path / "b"))
    assert auth.load(str(tmp_path / "a")) != auth.load(str(tmp_path / "b"))


def test_a_secret_is_not_made_through_a_link(tmp_path):
    """A dangling link would let somebody else choose where it lies."""
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert not auth.make(str(tmp_path / "link"))
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("open_mode", [0o644, 0o640, 0o604, 0o660])
def test_a_secret_that_others_could_read_is_refused(tmp_path, open_mode):
    """Its mode is named, and what to do."""
    (tmp_path / "s").write_text("0123456789abcdef0123456789abcdef")
    (tmp_path / "s").chmod(open_mode)
    with pytest.raises(StateError, match=f"expected a file of mode 0600, got mode {open_mode:04o}"):
        auth.load(str(tmp_path / "s"))


@pytest.mark.parametrize("text, length", [("", 0), ("\n", 0), ("0123456789abcde", 15)])
def test_a_secret_that_is_too_short_is_refused(tmp_path, text, length):
    """An empty file would be a secret that everybody knows."""
    (tmp_path / "s").write_text(text)
    (tmp_path / "s").chmod(0o600)
    with pytest.raises(StateError, match=f"at least 16 characters, got {length};"):
        auth.load(str(tmp_path / "s"))


def test_a_secret_that_is_not_there_asks_for_the_server(tmp_path):
    """NotDelivered, so that `stop` tries again: the server may still be on its way."""
    with pytest.raises(NotDelivered, match="no secret; the server makes it"):
        auth.load(str(tmp_path / "s"))


@pytest.mark.parametrize("server, hint", [
    ("4711", "use the account that started the job's server, or name a file of yours with "
             "--secret"),
    (protocol.SITE, "The site's server authenticates ordinary users by munge")])
def test_what_to_do_about_another_users_secret_depends_on_the_server(tmp_path, monkeypatch, server,
                                                                     hint):
    """Munge helps with the site's server; a job's secret is in its user's home."""
    def denied(path):
        raise PermissionError(13, "Permission denied")
    (tmp_path / "s").write_text("0123456789abcdef37")
    (tmp_path / "s").chmod(0o600)
    monkeypatch.setattr(auth, "read_text", denied)
    here = site.load(environ={"IOSTATS_SERVER_AUTH": "secret"})
    with pytest.raises(StateError) as caught:
        auth.load_client_credentials(here, server, str(tmp_path / "s"))
    assert f"{tmp_path}/s: cannot be read: Permission denied; it is another user's" in str(
        caught.value)
    assert hint in str(caught.value) and (server == "4711") == ("munge" not in str(caught.value))


def test_the_secret_of_the_command_line_wins_over_the_environment(monkeypatch):
    """Then the environment, then the file of the job in the directory of site.cfg."""
    monkeypatch.delenv("IOSTATS_SECRET", raising=False)
    assert "/run/secrets/4711%5B23%5D.secret" == auth.find_secret_path(None, "/run/secrets",
                                                                       "4711[23]")
    monkeypatch.setenv("IOSTATS_SECRET", "")
    assert "/run/secrets/4711.secret" == auth.find_secret_path(None, "/run/secrets", "4711")
    monkeypatch.setenv("IOSTATS_SECRET", "0123456789abcdef37")
    assert None is auth.find_secret_path(None, "/run/secrets", "4711")
    assert b"0123456789abcdef37" == auth.load(None)
    assert "/named" == auth.find_secret_path("/named", "/run/secrets", "4711")


def test_a_secret_directory_of_a_home_that_nobody_knows_is_a_mistake_in_the_configuration():
    """Not a directory with the name `~nobody-of-that-name` where the job happens to run."""
    with pytest.raises(ConfigError, match=r"\[secret\] dir: expected a directory, got '~no-such"):
        auth.find_secret_path(None, "~no-such-user-23/x", "4711")
