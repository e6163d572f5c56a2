"""
Random histories of months: whatever age, clocks, a full disk and kills do to lines, no amount is
lost, and none is counted twice.
"""

import tempfile
from pathlib import Path

from examples import examples
from harvest_inside import BEGAN
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lines_desk import LinesDesk
from site_store import fill_up, make_room

from iostats.load.time_lines import compute_total, count_intervals, parse_line

_TARGETS = [f"OST{number:04x}" for number in range(10)]     # more than have a line of their own
_JOBS = ("4711", "4712_3", "4713")
_DAY = 86400.0

_AMOUNTS = st.dictionaries(st.tuples(st.sampled_from(_TARGETS), st.sampled_from(_JOBS)),
                           st.sampled_from([23, 37, 41_003]), max_size=12)
_STEPS = st.sampled_from([0, 1, 2, 3, 5, 8, 13, 1000])
_SWEEP = st.tuples(st.just("sweep"), st.sampled_from([1, 1, 1, 2, 5]), _AMOUNTS)
_OTHER = st.one_of(
    st.tuples(st.sampled_from(["clock", "its clock"]),
              st.sampled_from([-3600, -700, -30, 30, 3600, 2 * 86400])),
    st.tuples(st.just("age"), st.sampled_from([0.5, 1, 2.5, 4, 20])),
    st.tuples(st.just("work"), _STEPS), st.tuples(st.just("killed"), _STEPS),
    st.tuples(st.just("full disk"), _STEPS), st.tuples(st.just("written")))


class _Desk(LinesDesk):
    """
    The clock of the storage server is `ahead` of the site's; when it is set its agent begins anew.
    """

    ahead, runs = 0, 1

    def sweep(self, *servers):
        super().sweep(*servers, clock_ahead_s=float(self.ahead), run=f"{self.runs:016x}")


class _Months:
    def __init__(self, directory):
        self.desk = _Desk(Path(directory) / "site.sqlite")
        self.desk.config.set_value("site.series_days", "3 10 400", "a test")
        self.desk.sweep(("oss1", [(target, {}) for target in _TARGETS]))

    def do(self, what, *how):
        desk = self.desk
        if what == "sweep":
            pauses, amounts = how
            desk.now += 20 * (pauses - 1)                   # it comes late
            desk.sweep(("oss1", [(target, {job: amounts[target, job] for job in _JOBS
                                           if (target, job) in amounts})
                                 for target in _TARGETS]))
        elif what == "clock":
            desk.now += how[0]
            desk.ahead -= how[0]
            desk.harvest.lines.step()                       # it looks all the time
        elif what == "its clock":
            desk.ahead += how[0]
            desk.runs += 1
        elif what == "age":
            for table in ("job_lines", "target_lines"):
                desk.store.change(f"UPDATE {table} SET made = made - ?", (how[0] * _DAY,))
        elif what == "written":
            desk.harvest.checkpoints.write(list(desk.harvest.targets)[3:])
        else:
            if what == "full disk":
                fill_up(desk.store)
            desk.now += 3600
            for _ in range(how[0]):
                if not desk.harvest.lines.step():
                    break
            if what == "full disk":
                make_room(desk.store)
            elif what == "killed":
                desk.again()


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(_SWEEP, _SWEEP, _OTHER, _OTHER), min_size=4, max_size=24))
@example([("sweep", 1, {("OST0000", "4711"): 23}), ("work", 1000), ("age", 4), ("killed", 3),
          ("sweep", 1, {("OST0000", "4711"): 37}), ("work", 1000), ("age", 20), ("work", 1000)])
@example([("sweep", 1, {("OST0000", "4711"): 23}), ("clock", -3600), ("full disk", 1000),
          ("sweep", 1, {("OST0000", "4711"): 37}), ("killed", 2), ("work", 1000)])
def test_no_amount_is_lost_or_counted_twice(history):
    with tempfile.TemporaryDirectory() as directory:
        months = _Months(directory)
        for one in history:
            months.do(*one)
        desk, whole = months.desk, 0
        for job in _JOBS:
            if desk.harvest.lives.find_life(job) is None:
                continue
            harvested = desk.totals(job).get("scratch", (0, 0, False))[0]
            whole += harvested
            found = desk.history(job)
            assert harvested == sum(compute_total(one.job, "read_bytes")[0]
                                    for one in found.file_systems)
            assert harvested >= sum(compute_total(one.job, "read_bytes")[0]
                                    for one in found.targets)
            assert all(count_intervals(one.job) <= 240 for one in [*found.file_systems,
                                                                   *found.targets])
        answer = desk.file_system(BEGAN - 100 * _DAY, BEGAN + 200 * _DAY, most=12)
        assert whole == compute_total(parse_line(answer["all"]), "read_bytes")[0] == sum(
            compute_total(parse_line(one["line"]), "read_bytes")[0] for one in answer["targets"])
        desk.store.close()


def test_what_was_before_the_sites_clock_was_set_back_is_found():
    """In the middle of an hour, by two hours; asked for is the time before."""
    with tempfile.TemporaryDirectory() as directory:
        months = _Months(directory)
        for _ in range(3):
            months.do("sweep", 1, {("OST0000", "4711"): 23})
        months.do("clock", -7200)
        for _ in range(3):
            months.do("sweep", 1, {("OST0000", "4711"): 37})
        months.do("work", 1000)
        assert not months.desk.harvest.lines.recent
        answer = months.desk.file_system(BEGAN - 60, BEGAN + 600)
        lines = [parse_line(answer["all"])] + [parse_line(one["line"]) for one in answer["targets"]
                                            if one["target"] == "OST0000"]
        # Of two hours with sweeps every 20 s each two intervals are one.
        assert [[23, 46]] * 2 == [[one for one in line.amounts["read_bytes"] if one]
                                  for line in lines]
        months.desk.store.close()
