"""`iostats store`: what is in it, and a way on from one that is damaged."""
from __future__ import annotations

import os
import random
import sqlite3
from pathlib import Path

import pytest
from site_desk import is_private, reads
from site_inside import Inside
from test_store import Key, Store, add

from iostats.cli import store as command


@pytest.fixture
def path(tmp_path):
    """A store with 41 records of 3 kB each, and a report of job 4799 that waits."""
    inside = Inside(tmp_path)
    for job in range(41):
        inside.send(str(4711 + job), "nid1", reads=23 + job, about={"nodes": "nid1"})
    inside.now += 2
    inside.make_records()
    chance = random.Random(23)
    for number in range(400):                          # some pages of reports
        add(inside.store, Key("", "4799", 0), seq=f"{number:03}", body=chance.randbytes(1000))
    inside.store.commit()
    inside.store.close()
    return inside.path


def run(path, *options):
    return command.main([*options, "--file", path])


def damage_a_page(path, table):
    """Garbage over a leaf in the middle of a table."""
    file = sqlite3.connect(path)
    file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    [(root,)] = file.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    [(size,)] = file.execute("PRAGMA page_size")
    file.close()
    with open(path, "r+b") as opened:
        opened.seek((root - 1) * size)
        page = opened.read(size)
        # An interior page of a b-tree: its cells begin with the number of a child.
        assert page[0] in (2, 5), page[0]
        cells = int.from_bytes(page[3:5], "big")
        at = int.from_bytes(page[12 + 2 * (cells // 2):14 + 2 * (cells // 2)], "big")
        child = int.from_bytes(page[at:at + 4], "big")
        opened.seek((child - 1) * size)
        opened.write(b"\xaa" * size)


def test_a_store_that_is_whole_says_so(path, capsys):
    assert 0 == run(path)
    out, err = capsys.readouterr()
    assert f"{path}: can be read\n" in out and "       400 reports\n" not in out
    assert "441 reports" in out and "42 jobs (records, and those without one yet)" in out
    assert "" == err


def test_a_damaged_store_says_what_is_lost_and_what_to_do(path, capsys):
    damage_a_page(path, "reports")
    assert 1 == run(path)
    out, err = capsys.readouterr()
    assert f"{path}: is damaged\n" in out and "cannot be read: database disk image is malf" in out
    assert "restore it from a backup" in err and "`iostats store --rebuild`" in err


def test_a_rebuilt_store_has_all_that_can_be_read(path, capsys, tmp_path):
    """All records, and the reports before the damaged page and behind it; the old one stays."""
    damage_a_page(path, "reports")
    before = Path(path).read_bytes()
    assert 0 == run(path, "--rebuild")
    [old] = tmp_path.glob("site.sqlite.damaged-*")
    assert f"{path}: rebuilt; the old one is {old}\n" in capsys.readouterr().out
    assert before == old.read_bytes() and is_private(path) and is_private(old)
    again = Inside(tmp_path)
    again.now += 10
    for job in (0, 40):
        assert [23 + job] == [reads(one) for one in again.records(str(4711 + job))]
    left = [one.seq for one in again.store.reports(Key("", "4799", 0))]
    assert ("000", "399") == (left[0], left[-1]) and 200 < len(left) < 400
    again.store.close()
    assert 0 == run(path)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose file it is otherwise")
def test_a_rebuilt_store_belongs_to_the_user_of_the_old_one(path, capsys):
    """The server runs as that user; root has rebuilt the store."""
    os.chown(path, 65534, 65534)
    assert 0 == run(path, "--rebuild")
    assert (65534, 65534) == (os.stat(path).st_uid, os.stat(path).st_gid)


@pytest.mark.parametrize("content", [b"", b"no SQLite at all\n" * 1000])
def test_a_file_that_is_no_store_is_set_aside_for_an_empty_store(tmp_path, capsys, content):
    path = tmp_path / "site.sqlite"
    path.write_bytes(content)
    assert 1 == run(str(path))
    assert "no row of it can be read" in capsys.readouterr().out
    assert content == path.read_bytes()
    assert 0 == run(str(path), "--rebuild")
    [old] = tmp_path.glob("site.sqlite.damaged-*")
    assert content == old.read_bytes()
    store = Store(str(path))
    assert [] == store.open_jobs()
    store.close()


def test_a_store_that_a_server_has_open_is_left_as_it_is(path, capsys):
    store = Store(path)
    for options in ((), ("--rebuild",)):
        assert 1 == run(path, *options)
        assert f"iostats: {path}: a server has it open; stop the server first\n" == (
            capsys.readouterr().err)
    store.close()
    for options in ((), ("--rebuild",)):
        assert 1 == run(path + "-away", *options)
        assert "there is no store; the site's server makes one" in capsys.readouterr().err
    assert [] == list(Path(path).parent.glob("*.anew*"))


def test_a_store_that_cannot_be_seen_is_not_told_to_be_away(path, capsys):
    """As by an ordinary user whom its directory is closed to; here the way ends at a file."""
    for options in ((), ("--rebuild",)):
        assert 1 == run(path + "/site.sqlite", *options)
        assert f"iostats: {path}/site.sqlite: Not a directory\n" == capsys.readouterr().err
