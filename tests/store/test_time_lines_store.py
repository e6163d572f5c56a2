"""
Lines in the store: thinned with age and forgotten, damaged, on a full disk, in a store of an older
release.
"""

import random
import sqlite3
import zlib

import msgspec
import numpy
import pytest
from harvest_inside import BEGAN
from lines_desk import LinesDesk, read
from site_store import fill_up, make_room

from iostats.harvest.time_lines.binned import BinnedLine
from iostats.harvest.time_lines.series_sums import MAX_BINS, MAX_TARGETS, JobLines
from iostats.load.time_lines import compute_total, count_intervals, parse_line
from iostats.store import repair as store_repair


@pytest.fixture
def desk(store_address):
    one = LinesDesk(store_address)
    yield one
    one.store.close()


@pytest.fixture
def sqlite_desk(store_path):
    one = LinesDesk(store_path)
    yield one
    one.store.close()


def sweeps(desk, count, amount=23, job="4711", target="OST0000"):
    """So many sweeps in which a job reads."""
    for _ in range(count):
        desk.sweep(("oss1", [(target, {job: amount})]))


def test_a_line_has_a_bounded_number_of_intervals_and_the_same_sum(desk):
    desk.send("oss1", desk.block("OST0000"))
    sweeps(desk, 100)
    desk.fold()
    sweeps(desk, 1)                                     # the hour before is unplaced
    sweeps(desk, 200)
    for go_on in (lambda: None, desk.fold):
        go_on()
        [scratch] = desk.history().file_systems
        assert (301 * 23, False) == compute_total(scratch.job, "read_bytes")
        assert (23, 80.0) == (scratch.job.unplaced["read_bytes"], scratch.job.every_s)
        assert [92] * 25 + [None] * 45 + [69] + [92] * 49 + [23] == (
            scratch.job.amounts["read_bytes"])
        assert [1.0] * 25 + [0.0] * 45 + [0.75] + [1.0] * 49 + [0.25] == scratch.job.known
        assert MAX_BINS >= count_intervals(scratch.job)


def test_lines_get_coarser_with_age_and_then_they_go(desk):
    desk.config.set_value("site.series_days", "10 20", "a test")
    desk.send("oss1", desk.block("OST0000"))
    sweeps(desk, 119)
    desk.sweep(("oss1", [("OST0000", {"4711": 23, "4712": 41})]))
    desk.fold()
    for days, every_s, amounts in ((0, 20.0, [23] * 120), (9, 20.0, [23] * 120),
                                   (2, 40.0, [46] * 60), (8, 40.0, [46] * 60)):
        desk.pass_days(days)
        [found], [target] = desk.history().file_systems, desk.history().targets
        assert (0.0, every_s, amounts) == read(found.job)
        assert (0.0, every_s, [*amounts[:-1], amounts[-1] + 41]) == read(found.all)
        assert [("4712", (41, True))] == [
            (one.job, compute_total(one.line, "read_bytes")) for one in target.others]
    desk.pass_days(2)
    found = desk.history()
    assert [] == found.file_systems
    assert [(0,), (0,)] == [desk.store.rows(f"SELECT count(*) FROM {table}")[0]
                            for table in ("job_lines", "target_lines")]


def test_lines_of_up_to_a_day_get_coarser_at_once(desk):
    """So that a clock that is wrong is noticed before much is lost."""
    desk.config.set_value("site.series_days", "10 20", "a test")
    desk.send("oss1", desk.block("OST0000"))
    for job in ("4711", "4712", "4713"):
        sweeps(desk, 119, job=job)
    desk.fold()
    for job, days in (("4711", 14.5), ("4712", 14), ("4713", 12)):
        desk.store.change("UPDATE job_lines SET made = made - ? WHERE job = ?",
                          (days * 86400.0, job))
    for coarser in (["4711", "4712"], ["4711", "4712", "4713"]):
        desk.fold()
        assert coarser == [job for job, in desk.store.rows(
            "SELECT job FROM job_lines WHERE thinned = 1 ORDER BY job")]


def test_no_table_of_lines_is_read_through(sqlite_desk):
    """They have some GB; the server answers nothing meanwhile."""
    desk = sqlite_desk
    desk.send("oss1", desk.block("OST0000"))
    sweeps(desk, 3)
    desk.fold()
    found = []
    desk.store.connection.set_trace_callback(found.append)
    desk.harvest.lines.reload()                         # as at the server's start
    sweeps(desk, 3)
    desk.fold()
    desk.store.connection.set_trace_callback(None)
    asked = {sql for sql in found if "_lines" in sql and not sql.startswith("--")}
    assert {"DELETE", "INSERT", "SELECT"} <= {sql.split()[0] for sql in asked}
    for sql in asked:
        for *_, plan in desk.store.connection.execute(f"EXPLAIN QUERY PLAN {sql}"):
            assert "USING" in plan or "_lines" not in plan, (sql, plan)


def test_a_target_that_comes_again_at_an_unknown_time_is_not_known_before(desk):
    """Its first hour was not kept, as eight others were loaded more: it is null, and not 0."""
    targets = [f"OST{number:04x}" for number in range(9)]
    desk.sweep(("oss1", [(target, {}) for target in targets]))
    desk.sweep(("oss1", [(target, {"4711": 23 if target == "OST0008" else 37})
                         for target in targets]))
    desk.fold()
    desk.done.clear()                                   # its storage server was started again
    boot = {"run": "2" * 16, "boot_id": "c" * 32}
    desk.sweep(("oss1", [(target, {"4711": 41_003} if target == "OST0008" else {})
                         for target in targets]), **boot)
    desk.fold()
    desk.sweep(("oss1", [(target, {}) for target in targets]), **boot)      # an hour later
    desk.sweep(("oss1", [(target, {"4711": 41} if target == "OST0008" else {})
                         for target in targets]), **boot)
    desk.fold()
    [found] = [one.job for one in desk.history().targets if one.target == "OST0008"]
    amounts = found.amounts["read_bytes"]
    assert (41_003, [41]) == (found.unplaced["read_bytes"], [one for one in amounts if one])
    assert {None} == set(amounts[:-1])


def test_the_hours_of_a_day_become_one_row(desk):
    """With who loaded the target when: in other hours nothing is known of that job."""
    desk.send("oss1", desk.block("OST0000"))
    for number, job in enumerate(("4711", "4712")):
        for _ in range(3):
            desk.sweep(("oss1", [("OST0000", {job: 23 + 14 * number})]))
        desk.fold()
        desk.sweep(("oss1", [("OST0000", {})]))
    assert [(4,)] == desk.store.rows("SELECT count(*) FROM target_lines")
    before = desk.file_system(until=BEGAN + 9000)
    desk.pass_days(3)
    # The row of the fold that the last sweep was in is as old, and of the same day.
    rows = desk.store.rows("SELECT target, count(*) FROM target_lines WHERE thinned = 1 "
                           "GROUP BY target")
    assert [("", 1), ("OST0000", 1)] == rows
    after = desk.file_system(until=BEGAN + 9000)
    [one], [other] = before["targets"], after["targets"]
    assert compute_total(parse_line(one["line"]), "read_bytes")[0] == 180 == (
        compute_total(parse_line(other["line"]), "read_bytes")[0])
    assert [("4712", 111), ("4711", 69)] == [
        (row["job"], compute_total(parse_line(row["line"]), "read_bytes")[0])
        for row in after["jobs"]]


def test_hour_by_hour_the_hours_of_a_day_become_one_row(sqlite_desk):
    """As at a server that runs all the time: in each hour one row comes, and one gets too old."""
    desk = sqlite_desk
    desk.send("oss1", desk.block("OST0000"))
    hour = BEGAN // 3600 * 3600
    for _ in range(5 * 24):
        desk.store.change("UPDATE target_lines SET made = made - 3600.0")
        desk.now = hour
        desk.harvest.lines.step()
        sweeps(desk, 1)
        hour += 3600
        desk.now = hour
        while desk.harvest.lines.step():
            pass
    for target in ("", "OST0000"):
        rows = desk.store.rows("SELECT thinned, since, until FROM target_lines WHERE target = ? "
                               "ORDER BY since", (target,))
        days = [since // 86400 for thinned, since, _ in rows if thinned]
        assert 2 == len(days) == len({*days})
        assert 3 * 24 >= len(rows) - 2                  # and hours of three days at most
    assert 120 * 23 == compute_total(parse_line(desk.file_system(until=hour + 7200)["all"]),
                                     "read_bytes")[0]


# Seconds, targets, and how many of 100 jobs are such.
_KINDS = [(600, 2, 50), (4 * 3600, 30, 35), (16 * 3600, 300, 12), (3 * 86400, 1000, 3)]
_OF_A_ROW = 120                                         # bytes of SQLite's, and of the keys


def a_job(seconds, targets, chance):
    """The JobLines of a job that does something else in each sweep, on all targets."""
    count = seconds // 60
    at = BEGAN + 60 * numpy.arange(count) + 30
    lines = JobLines(60.0)
    for number in range(min(targets, MAX_TARGETS)):
        line = BinnedLine(60.0, MAX_BINS)
        line.add(at, {name: chance.integers(0, most, count) for name, most in (
            ("write_bytes", 1 << 33), ("writes", 1 << 13), ("writes_us", 1 << 24),
            ("operations", 1 << 10), ("busy_us", 1 << 24), ("timed", 1 << 13))})
        lines.line.add_line(line)
        lines.targets[f"OST{number:04x}"] = line, 0.0
    lines.line.add(at, {name: chance.integers(0, most, count) for name, most in (
        ("open", 1 << 10), ("open_us", 1 << 20), ("close", 1 << 10), ("close_us", 1 << 18))})
    return lines


def test_a_million_jobs_of_a_year_fit_in_10_gb():
    """By what is kept of a hundred: 30 days in full, and thinned for the rest of the year."""
    chance, year = numpy.random.default_rng(23), 0.0
    for seconds, targets, share in _KINDS:
        lines = a_job(seconds, targets, chance)
        sums = lines.line.totals()
        full = len(lines.encode()) + _OF_A_ROW
        lines = JobLines.decode(lines.encode())
        lines.thin(MAX_BINS // 4, MAX_TARGETS // 2)
        assert sums == JobLines.decode(lines.encode()).line.totals()
        year += 1e6 * share / 100 * (30 * full + 335 * (len(lines.encode()) + _OF_A_ROW)) / 365
    assert 2e9 < year < 9e9


@pytest.mark.parametrize("table, job", [("job_lines", []), ("target_lines", ["4711"])])
def test_a_damaged_row_costs_one_line_and_is_named(desk, caplog, table, job):
    desk.send("oss1", desk.block("OST0000"))
    for one in ("4711", "4712"):
        sweeps(desk, 2, job=one)
    desk.fold()
    where = "job = '4711'" if table == "job_lines" else "target = 'OST0000'"
    desk.store.change(f"UPDATE {table} SET body = ? WHERE {where}", (b"\x80",))
    found = desk.history()
    assert job == ["4711" for _ in found.file_systems]
    if job:
        [target] = found.targets
        assert (None, 46) == (target.all, compute_total(target.job, "read_bytes")[0])
    assert [46] == [compute_total(one.job, "read_bytes")[0]
                    for one in desk.history("4712").file_systems]
    assert [(table, b"\x80")] == desk.store.rows("SELECT place, body FROM damaged")
    assert 1 == caplog.text.count("put aside (table damaged)")


def test_a_damaged_part_costs_its_time_alone(desk, caplog):
    desk.send("oss1", desk.block("OST0000"))
    sweeps(desk, 2)
    desk.harvest.checkpoints.write(list(desk.harvest.targets))
    sweeps(desk, 1, 41)
    desk.store.change("UPDATE line_parts SET body = ?", (b"\x80",))
    desk.again()
    [scratch] = desk.history().file_systems
    assert (40.0, 20.0, [41]) == read(scratch.job)
    assert "a part of the time lines, row of 1: " in caplog.text


def test_a_full_disk_costs_no_sweep_and_lines_are_kept_when_there_is_room(desk, caplog):
    desk.send("oss1", desk.block("OST0000"))
    sweeps(desk, 2)
    chance = random.Random(23)
    for _ in range(100):                                # more than there is room for in a page
        other = str(chance.getrandbits(360))
        desk.sweep(("oss1", [("OST0000", {"4711": 23, other: 37})]))
    fill_up(desk.store)
    for _ in range(3):
        desk.now += 3600
        while desk.harvest.lines.step():
            pass
    [line] = [one.getMessage() for one in caplog.records]
    assert "cannot be written: database or disk is full (logged once an hour)" in line
    [scratch] = desk.history().file_systems
    assert [23] * 102 == scratch.job.amounts["read_bytes"]
    make_room(desk.store)
    desk.fold()
    assert [(101,)] == desk.store.rows("SELECT count(*) FROM job_lines")
    [scratch] = desk.history().file_systems
    assert [23] * 102 == scratch.job.amounts["read_bytes"]


def test_a_check_and_a_repair_know_lines(store_path):
    desk = LinesDesk(store_path)
    desk.send("oss1", desk.block("OST0000"))
    sweeps(desk, 2)
    desk.fold()
    desk.store.close()
    found = store_repair.check(store_path)
    assert [(1, ""), (2, "")] == [found[name][1:] for name in ("job_lines", "target_lines")]
    store_repair.rebuild(store_path)
    desk.open()
    [scratch] = desk.history().file_systems
    assert (0.0, 20.0, [23, 23]) == read(scratch.job)
    desk.store.close()


def test_after_the_numbers_of_folds_are_lost_nothing_is_left_out(desk):
    """A line that has a later number than the store knows would not get what is new."""
    desk.send("oss1", desk.block("OST0000"))
    sweeps(desk, 2)
    desk.fold()
    desk.store.change("DELETE FROM line_folds")
    desk.again()
    sweeps(desk, 1)
    desk.fold()
    [(fold,)] = desk.store.rows("SELECT fold FROM job_lines")
    [scratch] = desk.history().file_systems
    assert (2, 69) == (fold, compute_total(scratch.job, "read_bytes")[0])


def test_a_job_id_that_begins_anew_after_a_month_is_another_job(desk):
    desk.send("oss1", desk.block("OST0000"))
    sweeps(desk, 2)
    desk.fold()
    desk.now += 40 * 86400
    sweeps(desk, 3, 37)
    desk.fold()
    [scratch] = desk.history().file_systems
    assert (20.0, [37, 37]) == (scratch.job.every_s, scratch.job.amounts["read_bytes"])


def test_a_job_id_that_was_seen_at_an_unknown_time_a_month_ago_is_another_job(desk):
    desk.send("oss1", desk.block("OST0000"))
    desk.fold()
    sweeps(desk, 1)
    desk.fold()
    desk.now += 40 * 86400
    sweeps(desk, 3, 37)
    desk.fold()
    [scratch] = desk.history().file_systems
    assert (20.0, [37, 37]) == (scratch.job.every_s, scratch.job.amounts["read_bytes"])
    assert 37 == scratch.job.unplaced["read_bytes"]


def test_a_job_of_a_row_that_does_not_say_when_its_unplaced_was_has_its_line(desk):
    desk.send("oss1", desk.block("OST0000"))
    desk.fold()
    sweeps(desk, 3)
    desk.fold()
    [(body,)] = desk.store.rows("SELECT body FROM job_lines")
    *older, unplaced_at = msgspec.msgpack.decode(zlib.decompress(body))
    assert [BEGAN + 3620] * 2 == unplaced_at
    desk.store.change("UPDATE job_lines SET body = ?",
                      (zlib.compress(msgspec.msgpack.encode(older)),))
    [scratch] = desk.history().file_systems
    assert ([23, 23], 23) == (scratch.job.amounts["read_bytes"], scratch.job.unplaced["read_bytes"])


def test_the_store_is_a_plain_sqlite_file_with_these_tables(sqlite_desk):
    desk = sqlite_desk
    desk.send("oss1", desk.block("OST0000"))
    desk.store.close()
    file = sqlite3.connect(desk.path)
    names = {name for name, in file.execute("SELECT name FROM sqlite_master")}
    file.close()
    assert {"line_parts", "line_folds", "job_lines", "target_lines"} <= names
