"""
What the site's server keeps goes by the time that has passed, whatever its clock says: a clock that
is years ahead for some seconds wiped every record, and closed jobs whose reports then were refused.
"""
from __future__ import annotations

import logging
import os

import pytest
from site_desk import SiteDesk, a_report, reads

from iostats.base.errors import NotDelivered, WireError
from iostats.store.clock import Clocks, StoreClock
from iostats.store.record_store import Key
from iostats.wire import protocol

DAY, HOUR = 86400.0, 3600.0
NOON = 1_795_225_060.0


class Machine:
    """A machine whose clock is set, and that boots."""

    def __init__(self):
        self.wall, self.up, self.boot = NOON, 1000.0, "23"
        self.clocks = Clocks(lambda: self.wall, lambda: self.up, lambda: self.boot)

    def wait(self, seconds):
        self.wall += seconds
        self.up += seconds

    def boots(self, seconds=41.0):
        self.wall += seconds
        self.up, self.boot = 7.0, self.boot + "+"


@pytest.fixture
def machine():
    return Machine()


def opened(machine, kept=None, latest=None):
    return StoreClock(machine.clocks, kept, latest)


@pytest.mark.parametrize("jump", [730 * DAY, 10 * DAY, -10 * DAY, -40 * 365 * DAY])
def test_a_clock_that_is_set_changes_no_time(machine, jump):
    """While it is open, and while it is closed over one boot; it says so once each."""
    one = opened(machine)
    assert NOON == one.now()
    machine.wait(23)
    machine.wall += jump
    assert NOON + 23 == one.now()
    warning = one.advance()
    assert f"by {abs(jump) / 3600:.1f} hours" in warning
    assert ("ahead" if jump > 0 else "back") in warning
    assert "" == one.advance()
    machine.wait(37)
    machine.wall -= jump
    again = opened(machine, one.row())
    assert NOON + 60 == again.now()
    assert f"by {abs(jump) / 3600:.1f} hours" in again.advance()


def test_time_while_it_was_closed_counts_without_a_boot(machine):
    one = opened(machine)
    machine.wait(100 * DAY)
    assert NOON + 100 * DAY == opened(machine, one.row()).now()


def test_after_a_boot_up_to_a_day_counts_after_an_hour(machine):
    """Two years ahead for two seconds after the boot: nothing; and ahead for good: a day."""
    one = opened(machine)
    machine.boots()
    machine.wall += 730 * DAY
    again = opened(machine, one.row())
    machine.wait(2)
    assert "" == again.advance() and NOON + 2 == again.now()
    machine.wall -= 730 * DAY
    machine.wait(HOUR)
    assert "back by" in again.advance()
    assert NOON + 2 + HOUR + 41 == again.now()             # the boot took 41 s

    machine.boots()
    machine.wall += 730 * DAY
    before, third = again.now(), opened(machine, again.row())
    machine.wait(HOUR + 1)
    assert "one day counts" in third.advance()
    assert before + HOUR + 1 + DAY == third.now()
    machine.wait(HOUR)
    assert "" == third.advance() and before + 2 * HOUR + 1 + DAY == third.now()


def test_a_boot_with_a_clock_of_1970_and_a_counter_that_runs_back(machine):
    """No time passes, and none is lost; the kernel's own time can't go back, but for a restore."""
    one = opened(machine)
    machine.boots()
    machine.wall = 100.0
    again = opened(machine, one.row())
    assert "back by" in again.advance()
    machine.wait(2 * HOUR)
    assert "" == again.advance() and NOON + 2 * HOUR == again.now()
    machine.up -= HOUR
    assert NOON + 2 * HOUR == again.now()
    again.advance()
    assert NOON + 2 * HOUR == again.now()


@pytest.mark.parametrize("latest, begins", [(None, NOON), (NOON - DAY, NOON - DAY),
                                            (NOON + 730 * DAY, NOON)])
def test_a_store_of_an_older_release_begins_with_its_latest_time(machine, latest, begins):
    """Neither by a clock that is ahead now, nor by a row of a moment when it was."""
    assert begins == opened(machine, None, latest).now()


# -- the site's server -----------------------------------------------------------------------------

def restarted(inside):
    inside.store.close()
    inside.begin()


def set_clock(inside, by):
    """The clock is set; no time passes."""
    inside.now += by
    inside.set_by -= by


def forget(inside, passes=1):
    for _ in range(passes):
        inside.server.records.drop_old()


@pytest.mark.parametrize("is_booted", [False, True])
def test_a_clock_that_is_two_years_ahead_at_the_start_removes_no_record(inside, caplog, is_booted):
    inside.send("4711", "nid1", reads=23, about={"nodes": "nid1"})
    inside.now += 2
    inside.make_records()
    assert [23] == [reads(one) for one in inside.records("4711")]
    if is_booted:
        inside.boot_id = "37" * 16
    set_clock(inside, 730 * DAY)
    restarted(inside)
    forget(inside, 23)
    inside.now += 2
    set_clock(inside, -730 * DAY)
    forget(inside, 23)
    assert [23] == [reads(one) for one in inside.records("4711")]
    assert "the clock was set" in caplog.text
    assert not inside.store.job(Key("", "4711", 0)).closed


def test_a_clock_that_is_ten_days_ahead_refuses_no_nodes_report(inside):
    """The job's record was made of one node; the other one's report is added to it."""
    about = {"nodes": "nid[1-2]"}
    inside.send("4711", "nid1", reads=23, about=about)
    inside.now += 301
    inside.make_records()
    set_clock(inside, 10 * DAY)
    forget(inside, 3)
    set_clock(inside, -10 * DAY)
    assert {"counted": True, "why": ""} == inside.send("4711", "nid2", reads=37, about=about)
    inside.now += 6
    inside.make_records()
    assert [60] == [reads(one) for one in inside.records("4711")]


def test_a_clock_that_was_ahead_for_a_moment_lets_no_job_wait_for_days(inside):
    """What is due was due by that clock: ten days later."""
    set_clock(inside, 10 * DAY)
    inside.send("4711", "nid1", reads=23, about={"nodes": "nid[1-2]"})
    set_clock(inside, -10 * DAY)
    restarted(inside)
    inside.now += 301
    inside.make_records()
    assert [23] == [reads(one) for one in inside.records("4711")]


def test_time_that_has_passed_removes_a_days_worth_at_a_time(inside):
    """By [site] keep_days = 365: with proof. All at once would be the work of a mistyped 1."""
    for day in range(3):
        inside.send(f"471{day}", "nid1", reads=23 + day, about={"nodes": "nid1"})
        inside.now += 2
        inside.make_records()
        inside.now += DAY
    inside.now += 500 * DAY
    left = []
    for _ in range(4):
        forget(inside)
        left.append([job for job in ("4710", "4711", "4712") if inside.records(job)])
    assert [["4711", "4712"], ["4712"], [], []] == left


def test_what_is_too_late_is_refused_and_kept_by_its_node(inside):
    """After [site] keep_reports_days = 7, which have passed; its node sends it again."""
    inside.send("4711", "nid1", reads=23, about={"nodes": "nid[1-2]"})
    inside.now += 301
    inside.make_records()
    inside.now += 8 * DAY
    forget(inside)
    with pytest.raises(WireError, match="job 4711 is closed") as refused:
        inside.send("4711", "nid2", reads=37, about={"nodes": "nid[1-2]"})
    assert protocol.REFUSED == refused.value.code


# -- what can't be read later, is not taken --------------------------------------------------------

@pytest.mark.parametrize("ended, ahead", [(1e12, -1e12), (-1e12, 1e12), (1e12, -1.0)])
def test_a_report_whose_times_could_not_be_stored_is_refused(inside, ended, ahead):
    """`ended` less `clock_ahead_s` is what is kept; both are within their limits."""
    with pytest.raises(WireError, match="expected `ended` less `clock_ahead_s` from -1e12 to 1e12"):
        inside.send("4711", "nid1", ended=ended, clock_ahead_s=ahead)
    inside.send("4711", "nid2", reads=37, about={"nodes": "nid[1-2]"})
    inside.now += 301
    inside.make_records()
    assert [37] == [reads(one) for one in inside.records("4711")]


def test_a_damaged_row_of_a_job_does_not_stop_the_server(inside, caplog):
    """What is known of it comes from its reports; the others are not touched."""
    caplog.set_level(logging.INFO)
    inside.ask("report", a_report("4711", "nid1", reads=23, about={"nodes": "nid1"}), node="nid1")
    inside.send("4713", "nid1", reads=37, about={"nodes": "nid1"})
    inside.store.change("UPDATE jobs SET about = x'ff' WHERE job = '4711'")
    inside.store.change("UPDATE jobs SET due = 'soon' WHERE job = '4713'")
    restarted(inside)
    inside.now += 301
    inside.make_records()
    assert [[23], [37]] == [[reads(one) for one in inside.records(job)] for job in ("4711", "4713")]
    [record] = inside.records("4711")
    assert "alice" == record["job"]["user"]
    assert "job 4711: its stored facts are damaged, and are read from its reports" in caplog.text



def test_the_time_until_which_a_job_waits_is_one_of_the_clock(inside):
    """Of the moment; what is kept is of the store's time."""
    set_clock(inside, 10 * DAY)
    inside.send("4711", "nid1", reads=23, about={"nodes": "nid[1-2]"})
    restarted(inside)
    set_clock(inside, -10 * DAY)
    inside.now += 37
    [waiting] = inside.ask("waiting", {"jobs": ["4711"]})
    assert waiting["until"] == pytest.approx(inside.now + 300 - 37)


def test_a_damaged_record_is_left_out_and_no_other(inside, caplog):
    """Its own job is told so; lists have the others, and the log names it once."""
    for job in ("4711", "4713", "4717"):
        inside.send(job, "nid1", reads=int(job), about={"nodes": "nid1"})
    inside.now += 2
    inside.make_records()
    inside.store.change("UPDATE jobs SET record = x'ff' WHERE job = '4713'")
    inside.store.change("UPDATE summaries SET file_systems = x'ff' WHERE job = '4717'")
    for _ in range(2):
        assert ["4711", "4717"] == sorted(
            one["job"]["id"] for one in inside.ask("latest", {"count": 10}))
        assert ["4711", "4713"] == sorted(
            row["job_id"] for row in inside.ask("jobs", {})["jobs"])
    with pytest.raises(WireError, match=r"the record of job 4713: .* is damaged"):
        inside.records("4713")
    assert [4717] == [reads(one) for one in inside.records("4717")]
    assert 1 == caplog.text.count("the record of job 4713 is left out")
    assert 1 == caplog.text.count("a row of `iostats jobs` is damaged")


# -- the server goes on when its store is gone -----------------------------------------------------

def test_a_server_whose_store_was_removed_answers_no_report_and_says_so(tmp_path):
    """What it has can still be asked for, and goes on when the copy is put back; nodes wait."""
    with SiteDesk(tmp_path) as desk:
        server = desk.site()
        desk.work("4711")
        assert 23 == reads(desk.record("4711"))
        os.unlink(desk.store)
        for number in range(3):
            with pytest.raises(NotDelivered) as refused:
                desk.send(a_report(f"473{number}", "nid1", reads=37, about={"nodes": "nid1"}))
        assert "was removed while the server has it open" in str(refused.value)
        assert 23 == reads(desk.record("4711"))
        assert 1 == server.err.count("was removed while the server has it open"), server.err
        assert not desk.store.exists() and 0 == server.stop().status
        [rescued] = tmp_path.rglob("site.sqlite.rescued-*")
        rescued.rename(desk.store)
        desk.site()
        desk.send(a_report("4733", "nid1", reads=41, about={"nodes": "nid1"}))
        assert [23, 41] == [reads(desk.record(job)) for job in ("4711", "4733")]
