"""Files that are there whole or not at all, and directories of one user alone."""
from __future__ import annotations

import os
import stat

import pytest

from iostats.base import private_files
from iostats.base.errors import StateError
from iostats.base.private_files import write_atomically


@pytest.fixture
def umask():
    """022, whatever it is here."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("how, expected", [({}, 0o600), ({"mode": 0o644}, 0o644),
                                           ({"mode": 0o666}, 0o666), ({"mode": None}, 0o644)],
                         ids=["the user's alone", "for all", "beyond the umask", "as the umask is"])
def test_a_file_has_its_mode_from_the_first_moment(tmp_path, umask, how, expected):
    path = tmp_path / "file"
    assert write_atomically(str(path), b"twenty-three", **how)
    assert (b"twenty-three", expected) == (path.read_bytes(), mode_of(path))


def test_what_is_there_is_replaced_or_stays(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"earlier")
    assert not write_atomically(str(path), b"twenty-three", replace=False)
    assert b"earlier" == path.read_bytes()
    assert write_atomically(str(path), b"thirty-seven")
    assert b"thirty-seven" == path.read_bytes()
    assert ["file"] == os.listdir(tmp_path)


def test_a_link_is_replaced_and_not_followed(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "file"
    victim.write_bytes(b"precious")
    path.symlink_to(victim)
    assert write_atomically(str(path), b"twenty-three")
    assert (b"precious", b"twenty-three") == (victim.read_bytes(), path.read_bytes())
    assert not path.is_symlink()


def test_a_name_that_was_guessed_is_an_error_and_stays(tmp_path, monkeypatch):
    """Nothing is written, and nothing is said to be: not even that a file was there already."""
    monkeypatch.setattr(private_files.os, "urandom", lambda length: b"\x23" * length)
    theirs = tmp_path / f"file.{'23' * 8}.new"
    theirs.write_bytes(b"theirs")
    for replace in (True, False):
        with pytest.raises(FileExistsError):
            write_atomically(str(tmp_path / "file"), b"twenty-three", replace)
    assert ([theirs.name], b"theirs") == (os.listdir(tmp_path), theirs.read_bytes())


@pytest.mark.parametrize("step", ["write", "fsync", "rename"])
def test_a_disk_that_fails_leaves_what_was_there(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    path.write_bytes(b"earlier")

    def failing(*_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(private_files.os, step, failing)
    with pytest.raises(OSError, match="No space"):
        write_atomically(str(path), b"twenty-three")
    monkeypatch.undo()
    assert (["file"], b"earlier") == (os.listdir(tmp_path), path.read_bytes())


def test_a_directory_that_others_can_write_to_is_refused(tmp_path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(StateError, match=r"expected a directory of user .* got a directory of mode "
                                         r"0777; .* name another with a test"):
        private_files.make_private_directory(str(open_to_all), "with a test")
    private_files.make_private_directory(str(tmp_path / "above" / "mine"), "with a test")
    assert [0o700, 0o700] == [mode_of(tmp_path / name) for name in ("above", "above/mine")]


def test_a_directory_that_cannot_be_seen_is_one_line(tmp_path):
    """As root's, by an ordinary user who tries `deliver`; here by a way that ends at a file."""
    (tmp_path / "file").touch()
    path = f"{tmp_path}/file/node"
    with pytest.raises(StateError) as caught:
        private_files.check_private_directory(path, "with a test")
    assert f"{path}: cannot be read: Not a directory" == str(caught.value)
