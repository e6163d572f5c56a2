"""A store that cannot be written: how often the log says so, by a clock that the test sets."""

import pytest

from iostats.store.write_errors import StoreTrouble

FULL = "/var/site.sqlite: cannot be written: database or disk is full"
ONCE, AGAIN = f"{FULL} (logged once an hour)", "/var/site.sqlite: can be written again"


class Trouble:
    """A StoreTrouble, and what it logs."""

    def __init__(self, caplog):
        self.now, self.caplog = 23.0, caplog
        self.one = StoreTrouble("/var/site.sqlite", lambda: self.now)

    def fails(self, line=FULL):
        self.one.failed()
        self.one.emit(line)

    def said(self):
        found = [record.getMessage() for record in self.caplog.records]
        self.caplog.clear()
        return found


@pytest.fixture
def trouble(caplog):
    return Trouble(caplog)


def test_sweeps_of_three_hours_are_three_lines(trouble):
    """A sweep a minute; in between a small change finds room."""
    for _ in range(180):
        trouble.fails()
        trouble.now += 20
        trouble.one.written()
        trouble.now += 40
    assert [ONCE] * 3 == trouble.said()


def test_its_end_is_said_once_and_the_next_failure_at_once(trouble):
    trouble.one.written()
    trouble.fails()
    trouble.now += 119
    trouble.one.written()
    assert [ONCE] == trouble.said()
    trouble.now += 1
    for _ in range(3):
        trouble.one.written()
    trouble.now += 60
    trouble.fails()
    assert [AGAIN, ONCE] == trouble.said()


def test_what_was_not_said_has_no_end(trouble):
    """A change that failed once and whose caller has tried again; a row that cannot be read."""
    trouble.one.failed()
    trouble.now += 121
    trouble.one.written()
    trouble.one.emit("/var/site.sqlite: is damaged: 41")
    trouble.one.written()
    assert ["/var/site.sqlite: is damaged: 41 (logged once an hour)"] == trouble.said()


def test_other_lines_are_said_beside_it_and_few_are_kept(trouble):
    trouble.fails()
    for number in range(1000):
        trouble.fails(f"row {number}")
    assert 1001 == len(trouble.said())
    trouble.fails("row 999")
    trouble.fails("row 901")
    assert [] == trouble.said()


def test_the_same_trouble_with_more_to_say_is_the_same(trouble):
    """A report and a timer find one full disk: it is one line."""
    trouble.one.failed()
    trouble.one.emit(FULL, "; nodes keep what they have")
    trouble.one.emit(FULL)
    assert [f"{FULL}; nodes keep what they have (logged once an hour)"] == trouble.said()
