"""
The store: a file that is consistent after every commit, or says that it is not.
"""
from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from processes import REPOSITORY
from site_desk import is_private
from site_store import (
    DAY,
    KEY,
    NOON,
    add,
    bodies,
    fill_up,
    keep_record,
    make_room,
    reported_and_recorded,
)

from iostats.base.errors import StateError
from iostats.store import schema
from iostats.store.record_store import Key, Store

_CHANCE = random.Random(23)                 # bytes that no compression makes small

# -- the file --------------------------------------------------------------------------------

def test_the_file_is_made_for_its_user_alone(tmp_path):
    """The directory too, whatever the umask is."""
    before = os.umask(0)
    try:
        store = Store(str(tmp_path / "new" / "site.sqlite"))
        add(store)
        store.commit()
        assert all(map(is_private, [tmp_path / "new", *(tmp_path / "new").iterdir()]))
        store.close()
    finally:
        os.umask(before)


def test_a_second_server_cannot_open_it(store, store_address):
    """One line of error, in the same process and in another one; the first server continues."""
    with pytest.raises(StateError, match=r"/site.*: another server has it open$"):
        Store(store_address)
    done = subprocess.run([sys.executable, "-c",
                           "import sys; from iostats.store.record_store import Store; "
                           "Store(sys.argv[1])", store_address], cwd=REPOSITORY,
                          capture_output=True, text=True, timeout=100)
    assert "another server has it open" in done.stderr
    assert add(store)
    store.commit()


def test_a_file_that_is_not_a_store_is_left_as_it_is(store_path):
    """Not SQLite, tables of another program, another release of ours."""
    before = "not SQLite at all\n" * 100
    Path(store_path).write_text(before)
    with pytest.raises(StateError, match="expected our SQLite file, got: file is not a database"):
        Store(store_path)
    assert before == Path(store_path).read_text()

    os.unlink(store_path)
    theirs = sqlite3.connect(store_path)
    theirs.execute("CREATE TABLE recipes (text)")
    theirs.close()
    with pytest.raises(StateError, match=f"expected a store of version {schema.REVISION} or older, "
                       "got tables of another program"):
        Store(store_path)
    theirs = sqlite3.connect(store_path)
    assert [("recipes",)] == theirs.execute("SELECT name FROM sqlite_master").fetchall()
    assert "delete" == theirs.execute("PRAGMA journal_mode").fetchone()[0]
    theirs.execute("CREATE TABLE alembic_version (version_num TEXT)")
    theirs.execute("INSERT INTO alembic_version VALUES ('3700')")
    theirs.commit()
    theirs.close()
    with pytest.raises(StateError, match="got version 3700, of a newer release"):
        Store(store_path)


def test_a_path_that_cannot_be_opened_is_one_line_of_error(tmp_path):
    (tmp_path / "file").write_text("")
    for path, why in ((tmp_path, "unable to open database file"),
                      (tmp_path / "file" / "site.sqlite", "File exists"),
                      ("/proc/iostats/site.sqlite", "No such file or directory")):
        with pytest.raises(StateError, match=f"cannot be opened: {why}"):
            Store(str(path))


def test_what_was_not_committed_is_lost(store_path):
    """As after a kill; what was committed is kept."""
    store = Store(store_path)
    add(store, seq="23")
    store.commit()
    add(store, seq="37")
    store.close()
    store = Store(store_path)
    assert [b"body"] == bodies(store.reports(KEY))
    store.close()


def test_a_damaged_file_is_one_line_of_error_and_no_wrong_number(store_path, caplog):
    """A report that cannot be unpacked is put aside; damaged pages are an error."""
    store = Store(store_path)
    for number in range(100):
        add(store, seq=str(number), body=_CHANCE.randbytes(3000))
    store.commit()
    store.change("UPDATE reports SET body = ? WHERE seq = '50'", (b"cut",))
    assert 99 == len(bodies(store.reports(KEY)))
    assert ("site.sqlite: the report of node nid00001 of job 4711 is damaged, and put aside "
            "(table damaged_reports)") in caplog.text
    assert ["nid00001"] == store.list_damaged(KEY)
    assert [(b"cut",)] == store.rows("SELECT body FROM damaged_reports")
    assert add(store, seq="50")                            # it may come again
    assert [] == store.list_damaged(KEY) and 100 == len(bodies(store.reports(KEY)))
    store.close()
    size = os.path.getsize(store_path)
    with open(store_path, "r+b") as file:
        file.seek(8192)
        file.write(b"\xaa" * (size - 8192))
    with pytest.raises(StateError, match=r"malformed|damaged|cannot be"):
        bodies(Store(store_path).reports(KEY))


def test_nothing_is_acknowledged_after_the_file_was_removed(store_path):
    """All of it is copied to a file beside its place, which is a store."""
    store = Store(store_path)
    add(store, seq="23", body=b"kept")
    store.commit()
    os.unlink(store_path)
    add(store, seq="37")
    with pytest.raises(StateError, match=r"site\.sqlite: was removed while the server has it open; "
                       r"nothing more is acknowledged; all of it was copied to .*rescued-"):
        store.commit()
    with pytest.raises(StateError, match="was removed while the server has it open"):
        add(store, seq="41")                               # at once: no commit fails any more
    store.commit()
    with pytest.raises(StateError, match="was removed while the server has it open"):
        store.show_once(KEY)
    store.close()
    assert not os.path.exists(store_path)
    [rescued] = Path(store_path).parent.glob("site.sqlite.rescued-*")
    assert is_private(rescued)
    os.rename(rescued, store_path)
    store = Store(store_path)
    assert [b"kept"] == bodies(store.reports(KEY))
    store.close()


@pytest.mark.parametrize("end", ["", "-wal"])
def test_a_file_that_was_replaced_is_noticed(store_path, end):
    """As when a backup is copied back while the server is running."""
    store = Store(store_path)
    add(store)
    store.commit()
    os.rename(store_path + end, store_path + end + ".away")
    Path(store_path + end).write_bytes(Path(store_path + end + ".away").read_bytes())
    add(store, seq="37")
    with pytest.raises(StateError, match="another file was put in its place"):
        store.commit()
    store.close()


@pytest.mark.parametrize("size", [0, 4096])
def test_a_file_that_is_truncated_while_open_is_not_used_any_more(store_path, size):
    store = Store(store_path)
    add(store)
    store.commit()
    store.rows("PRAGMA wal_checkpoint")
    add(store, seq="29")
    store.commit()
    before = os.path.getsize(store_path)
    os.truncate(store_path, size)
    with pytest.raises(StateError, match=f"was truncated from {before} to {size} bytes"):
        add(store, seq="37")
        store.commit()
    store.close()


def test_an_empty_file_is_no_store(store_path):
    """We make none: a store appears complete or not at all."""
    Path(store_path).write_bytes(b"")
    with pytest.raises(StateError, match=r"site\.sqlite: is empty: it was truncated, or another "
                       "program made it; `iostats store` shows what is lost, and what to do"):
        Store(store_path)
    assert b"" == Path(store_path).read_bytes()


def test_a_store_that_could_not_be_made_leaves_no_file(store_path, monkeypatch):
    """The next server makes it; nothing is left behind."""
    monkeypatch.setattr(schema, "REVISION", "it's no SQL")
    with pytest.raises(StateError):
        Store(store_path)
    assert [] == os.listdir(os.path.dirname(store_path))


# -- reports ---------------------------------------------------------------------------------

def test_a_report_is_kept_once(store):
    """Reports differ by cluster, job, attempt, node or seq."""
    assert add(store) and not add(store)
    store.commit()
    assert not add(store, body=b"another")
    assert add(store, Key("other", "4711", 0)) and add(store, Key("eiger", "4712", 0))
    assert add(store, Key("eiger", "4711", 1)) and add(store, node="nid00002")
    assert add(store, seq="37", body=b"second")
    store.commit()
    assert [b"body", b"second", b"body"] == bodies(store.reports(KEY))


def test_open_jobs_are_those_without_record_and_with_late_reports(store):
    """The due time of the first report counts; a repeated report makes nothing due."""
    add(store, due=NOON + 60, about=b"first")
    add(store, node="nid00002", due=NOON + 99, about=b"second")
    store.commit()
    [job] = store.open_jobs()
    assert (KEY, b"second", NOON + 60, {"nid00001", "nid00002"}) == (*job[:3], set(job.nodes))
    keep_record(store, made=NOON + 70)
    assert [] == store.open_jobs()
    assert not add(store, due=NOON + 99)
    store.commit()
    assert [] == store.open_jobs()
    assert add(store, node="nid00003", due=NOON + 99)
    store.commit()
    assert [NOON + 99] == [one.due for one in store.open_jobs()]


def test_what_a_report_says_of_its_job_is_kept(store):
    assert store.job(KEY) is None
    add(store)
    assert (b"about", False) == store.job(KEY)


def test_commit_fails_for_all_that_was_dropped_since_the_last_one(store):
    """
    A record that finds no room takes the reports with it that wait for the same commit: SQLite
    drops the whole transaction.  They must not be acknowledged.
    """
    add(store, Key("eiger", "4700", 0))
    store.commit()
    add(store)
    fill_up(store)
    with pytest.raises(StateError, match="database or disk is full"):
        keep_record(store, Key("eiger", "4700", 0), _CHANCE.randbytes(1 << 20))
    with pytest.raises(StateError, match="database or disk is full"):
        store.commit()
    assert [] == bodies(store.reports(KEY)) and store.job(KEY) is None
    assert [Key("eiger", "4700", 0)] == [one.key for one in store.open_jobs()]
    make_room(store)
    assert add(store)
    store.commit()
    assert [b"body"] == bodies(store.reports(KEY))


def test_changes_after_a_failure_are_dropped_with_the_rest(store):
    """One commit, one answer: the nodes send all reports again."""
    fill_up(store)
    assert add(store, seq="1")
    with pytest.raises(StateError, match="cannot be written: database or disk is full"):
        for number in range(100):
            add(store, seq=f"large {number}", body=_CHANCE.randbytes(10_000))
    make_room(store)
    assert add(store, seq="37")
    with pytest.raises(StateError):
        store.commit()
    assert [] == bodies(store.reports(KEY))
    store.commit()
    assert add(store, seq="37")
    store.commit()
    assert [b"body"] == bodies(store.reports(KEY))


def test_reports_can_be_read_while_others_come_and_a_commit_fails(store):
    """Reading continues where it was."""
    for number in range(100):
        add(store, seq=f"{number:03}", body=b"%d" % number)
    store.commit()
    found = []
    for one in store.reports(KEY):
        found.append(int(one.body))
        if len(found) == 30:
            add(store, seq="050+", body=b"1000")
            store.commit()
        if len(found) == 70:
            fill_up(store)
            add(store, seq="x")
            with pytest.raises(StateError):
                for number in range(100):
                    add(store, seq=f"large {number}", body=_CHANCE.randbytes(10_000))
            with pytest.raises(StateError):
                store.commit()
    assert [*range(51), 1000, *range(51, 100)] == found


def test_any_text_can_be_kept(store):
    """Quotes, a NUL, a million characters (PostgreSQL: a key of 2,700 bytes), none."""
    most = 1_000_000 if isinstance(store.connection, sqlite3.Connection) else 300
    for text in ("'; DROP TABLE jobs; --", "a\0b", "é" * most, "", "../../etc/passwd"):
        key = Key(text, text + "x", 37)
        add(store, key, body=text.encode())
        store.commit()
        assert [text.encode()] == bodies(store.reports(key))
        keep_record(store, key, shown_as=text, whole=text, user=text)
        assert [b"record"] == list(store.records(text + "x", text))


# -- records -----------------------------------------------------------------------------------

def test_a_record_is_found_by_each_name_of_its_job(store):
    """An array's tasks in their order, the parts of a heterogeneous job, the runs of a job."""
    for raw, task in (("105", "10"), ("100", "1"), ("101", "2")):
        reported_and_recorded(store, Key("eiger", raw, 0), shown_as=f"100_{task}", whole="100")
    for raw, part in (("200", "0"), ("201", "1")):
        reported_and_recorded(store, Key("eiger", raw, 0), shown_as=f"200+{part}", whole="200")
    for attempt in (1, 0):
        reported_and_recorded(store, Key("eiger", "300", attempt))

    def found(job):
        return [one.decode() for one in store.records(job)]
    assert ["100#0", "101#0", "105#0"] == found("100")
    assert ["101#0"] == found("100_2") == found("101")
    assert ["200#0", "201#0"] == found("200")
    assert ["201#0"] == found("200+1")
    assert ["300#0", "300#1"] == found("300")
    assert [] == found("301") == found("") == found("%") == found("100_")


def test_users_find_only_their_own_records(store):
    for job, user in (("4711", "alice"), ("4713", "bob"), ("4717", "alice")):
        reported_and_recorded(store, Key("eiger", job, 0), user=user, made=NOON + int(job))
    assert [b"4713#0"] == list(store.records("4713", "bob")) == list(store.records("4713"))
    assert [] == list(store.records("4713", "alice"))
    assert [b"4717#0", b"4711#0"] == list(store.latest(23, "alice"))
    assert [b"4717#0", b"4713#0"] == list(store.latest(2))
    assert [] == list(store.latest(23, "")) == list(store.latest(23, "nobody"))


def test_a_later_record_replaces_the_previous_one(store):
    reported_and_recorded(store, KEY, text="first")
    reported_and_recorded(store, KEY, text="second")
    assert [b"second"] == list(store.records("4711"))


def test_a_job_is_shown_once(store):
    reported_and_recorded(store, KEY)
    assert [True, False, False] == [store.show_once(KEY) for _ in range(3)]


def test_every_question_uses_an_index(store_path):
    """All nodes wait while a question is answered, also with a million jobs."""
    store = Store(store_path)
    asked = []
    store.connection.set_trace_callback(asked.append)
    for user in (None, "alice"):
        list(store.records("4711", user))
        list(store.latest(10, user))
    store.open_jobs()
    store.job(KEY)
    bodies(store.reports(KEY))
    store.delete_expired(NOON, NOON)
    store.connection.set_trace_callback(None)
    looks = [text for text in asked if text.startswith(("SELECT", "UPDATE", "DELETE"))]
    assert len(looks) >= 10
    for text in looks:
        plan = [row[3] for row in store.rows("EXPLAIN QUERY PLAN " + text)]
        scans = [line for line in plan if line.startswith("SCAN") and "USING INDEX" not in line
                 and "USING COVERING INDEX" not in line]
        assert not scans, (text, plan)
    store.close()


# -- old jobs ------------------------------------------------------------------------------------

def test_reports_are_removed_before_records(store):
    """A job without record keeps its reports however old it is."""
    old, new, waits = (Key("eiger", job, 0) for job in ("4711", "4713", "4717"))
    reported_and_recorded(store, old, made=NOON)
    reported_and_recorded(store, new, made=NOON + 5 * DAY)
    add(store, waits, now=NOON)
    store.commit()

    store.delete_expired(NOON + 1 * DAY, NOON - 300 * DAY)
    assert [] == bodies(store.reports(old)) and store.job(old).closed
    assert [b"4711#0"] == list(store.records("4711"))
    assert [b"body"] == bodies(store.reports(new)) and not store.job(new).closed
    assert [b"body"] == bodies(store.reports(waits)) and not store.job(waits).closed

    store.delete_expired(NOON + 9 * DAY, NOON + 1 * DAY)
    assert [] == list(store.records("4711")) and store.job(old) is None
    assert [b"4713#0"] == list(store.records("4713")) and store.job(new).closed
    assert [waits] == [one.key for one in store.open_jobs()]


def test_old_jobs_are_removed_on_a_full_disk(store):
    reported_and_recorded(store, KEY)
    fill_up(store)
    add(store, Key("eiger", "4713", 0), body=b"x")
    store.delete_expired(NOON + DAY, NOON + DAY)                   # it needs no room
    store.commit()
    assert store.job(KEY) is None and store.job(Key("eiger", "4713", 0))
