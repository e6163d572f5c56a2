"""
Lines of jobs and targets, worked out by hand, from sweeps to answers.
"""

import json
import zlib

import pytest
from harvest_inside import BEGAN
from lines_desk import LinesDesk, read
from site_inside import Inside
from sweep_blocks import Column

from iostats.answers.selected_run import JobHistoryParams
from iostats.base.cooperative import run_to_end
from iostats.base.errors import WireError
from iostats.base.job_facts import RUNNING, Facts
from iostats.harvest.resets.job_ids import JobIds
from iostats.harvest.resets.target import CorrectedTarget
from iostats.load.time_lines import (
    compute_latencies_us,
    compute_total,
    is_known,
    parse_history,
    parse_line,
)
from iostats.server.rpc_server import Caller


@pytest.fixture
def desk(tmp_path):
    one = LinesDesk(tmp_path / "site.sqlite")
    yield one
    one.store.close()


def test_what_a_job_did_is_in_the_interval_in_which_it_did_it(desk):
    """Before and after all of it goes to the store, and over a restart at each moment."""
    desk.send("oss1", desk.block("OST0000"), desk.block("OST0001"))
    for of_ost0, of_ost1 in [({"4711": 23}, {}), ({}, {}), ({"4711": 41, "4712": 1009},
                                                            {"4711": 37}), ({"4712": 7}, {})]:
        desk.sweep(("oss1", [("OST0000", of_ost0), ("OST0001", of_ost1)]))
        desk.again()
    for go_on in (lambda: None, desk.fold, desk.again):
        go_on()
        found = desk.history()
        [scratch] = found.file_systems
        assert (0.0, 20.0, [23, 0, 78, 0]) == read(scratch.job)
        assert (0.0, 20.0, [23, 0, 1087, 7]) == read(scratch.all)
        assert ["OST0000", "OST0001"] == [one.target for one in found.targets]
        ost0, ost1 = found.targets
        assert ([23, 0, 41, 0], [0, 0, 37, 0]) == (read(ost0.job)[2], read(ost1.job)[2])
        assert (0.0, 20.0, [23, 0, 1050, 7]) == read(ost0.all)
        [other] = ost0.others
        assert ("4712", (0.0, 20.0, [0, 0, 1009, 7])) == (other.job, read(other.line))
        assert ([], None) == (ost1.others, scratch.job.known)
        assert ["harvest"] == found.has


def test_the_target_of_a_job_that_has_a_line_goes_on_with_it(desk):
    """Also in hours in which it is not among those that are loaded most; a new one has no past."""
    targets = [f"OST{number:04x}" for number in range(10)]
    desk.send("oss1", *(desk.block(target) for target in targets))
    for amounts in ([9_000_000, *[100] * 7, 10, 10], [1, *[50] * 7, 11, 7_000_000]):
        desk.sweep(("oss1", [(target, {}) for target in targets]))
        desk.sweep(("oss1", [(target, {"4711": amount})
                             for target, amount in zip(targets, amounts)]))
        desk.fold()
    found = {one.target: read(one.job)[2] for one in desk.history().targets}
    assert 8 == len(found)
    assert [9_000_000, 1] == [amount for amount in found["OST0000"] if amount]
    assert 7_000_000 == found["OST0009"][-1]
    assert {None, 0} >= set(found["OST0009"][:-1]) and found["OST0009"][1] is None
    [scratch] = desk.history().file_systems
    assert [9_000_720, 7_000_362] == [amount for amount in read(scratch.job)[2] if amount]


def test_an_interval_of_a_silent_storage_server_is_not_known(desk):
    """What it has counted meanwhile is told when it is back: the sum is known, its time is not."""
    both = ("oss1", [("OST0000", {"4711": 23})]), ("oss2", [("OST0001", {"4711": 37})])
    desk.send("oss1", desk.block("OST0000"))
    desk.send("oss2", desk.block("OST0001"))
    desk.sweep(*both)
    desk.sweep(both[0])
    desk.sweep(both[0])
    desk.sweep(*both)
    desk.sweep(*both)
    for go_on in (lambda: None, desk.fold, desk.again):
        go_on()
        found = desk.history()
        [scratch] = found.file_systems
        assert (0.0, 20.0, [60, 23, 23, 23, 60]) == read(scratch.job)
        assert [1.0, 0.5, 0.5, 0.5, 1.0] == scratch.job.known
        assert {"read_bytes": 37, "reads": 23, "requests": 23} == scratch.job.unplaced
        assert (6 * 23 + 3 * 37 - 23, False) == compute_total(scratch.job, "read_bytes")
        silent = next(one for one in found.targets if one.target == "OST0001")
        assert (0.0, 20.0, [37, None, None, None, 37]) == read(silent.job)
        assert [True, False, False, False, True] == [is_known(silent.all, at) for at in range(5)]
        heard = next(one for one in found.targets if one.target == "OST0000")
        assert ([23] * 5, None) == (heard.job.amounts["read_bytes"], heard.job.known)


def test_a_storage_server_that_is_silent_all_the_time_is_missing_all_the_time(desk):
    """Also where no line has a reading of it: it had one within a day."""
    desk.send("oss1", desk.block("OST0000"))
    desk.send("oss2", desk.block("OST0001"))
    desk.fold()
    desk.sweep(("oss1", [("OST0000", {})]))
    desk.sweep(("oss1", [("OST0000", {"4711": 23})]))
    for go_on in (lambda: None, desk.fold, desk.again):
        go_on()
        [scratch] = desk.history().file_systems
        assert ([23], [0.5]) == (scratch.job.amounts["read_bytes"], scratch.job.known)


def test_all_has_what_a_job_did_at_an_unknown_time_long_before_the_rest(desk):
    """The line of a job begins with the first reading that shows it, if only as unplaced."""
    desk.send("oss1", desk.block("OST0000"), desk.block("OST0001"))
    desk.fold()
    desk.sweep(("oss1", [("OST0000", {"4711": 23}), ("OST0001", {})]))      # after 3620 s
    for go_on in (lambda: None, desk.fold):
        go_on()
        [scratch] = desk.history().file_systems
        assert (23, 23) == (scratch.job.unplaced["read_bytes"], scratch.all.unplaced["read_bytes"])
    desk.sweep(("oss1", [("OST0000", {}), ("OST0001", {})]))
    desk.sweep(("oss1", [("OST0000", {}), ("OST0001", {"4711": 37})]))      # after 7260 s
    for go_on in (lambda: None, desk.fold, desk.again):
        go_on()
        found = desk.history()
        [scratch] = found.file_systems
        assert BEGAN + 3620 == found.began
        assert (3620.0, 20.0, [*[None] * 181, 37]) == read(scratch.job)
        assert (60, False) == compute_total(scratch.job, "read_bytes")
        assert 60 == compute_total(scratch.all, "read_bytes")[0]
        assert 23 == scratch.all.unplaced["read_bytes"]
        [ost0] = [one for one in found.targets if one.target == "OST0000"]
        assert 23 == compute_total(ost0.job, "read_bytes")[0] == compute_total(ost0.all,
                                                                               "read_bytes")[0]


def test_a_user_sees_own_jobs_and_no_names_of_others(desk):
    desk.send("oss1", desk.block("OST0000"))
    desk.sweep(("oss1", [("OST0000", {"4711": 23, "4712": 41, "4713": 7, "cp.0": 37})]))
    for job, user in (("4711", "alice"), ("4712", "bob"), ("4713", "alice")):
        desk.harvest.lives.learn(job, Facts(job=job, raw_job=job, user=user, state=RUNNING,
                                            started=BEGAN + 3.0))
    [ost] = desk.history(user="alice").targets
    assert [("", ""), ("(no job)", ""), ("4713", "alice")] == [one[:2] for one in ost.others]
    assert [41, 37, 7] == [compute_total(one.line, "read_bytes")[0] for one in ost.others]
    [ost] = desk.history().targets
    assert [("4712", "bob"), ("(no job)", ""), ("4713", "alice")] == [
        one[:2] for one in ost.others]
    jobs = [(one["job"], one["user"]) for one in desk.file_system(user="alice")["jobs"]]
    assert [("", ""), ("(no job)", ""), ("4711", "alice"), ("4713", "alice")] == jobs
    for job in ("4712", "4799"):
        with pytest.raises(WireError, match=f"no job {job} of alice is known here"):
            desk.history(job, user="alice")


@pytest.mark.parametrize("text", ["\x1b[2J", "a\nb", "a\u202eb", "\x9b2J"])
def test_hostile_names_of_others_are_one_line(desk, text):
    desk.send("oss1", desk.block("OST0000"))
    desk.sweep(("oss1", [("OST0000", {"4711": 23, "4712": 41})]))
    desk.harvest.lives.learn("4712", Facts(job=text, raw_job="4712", user=text, state=RUNNING))
    [ost] = desk.history().targets
    [job] = [one for one in desk.file_system()["jobs"] if one["user"]]
    for name in (*ost.others[0][:2], job["job"], job["user"]):
        assert name.isprintable() and name.startswith(("\\x", "a\\x"))


def test_the_lines_of_a_file_system_are_of_the_time_that_is_asked_for(desk):
    desk.send("oss1", desk.block("OST0000"))
    for amount in (23, 37, 41):
        desk.sweep(("oss1", [("OST0000", {"4711": amount})]))
    for go_on in (lambda: None, desk.fold):
        go_on()
        found = desk.file_system(BEGAN + 20, BEGAN + 40)
        assert (20.0, 20.0, [37]) == read(parse_line(found["all"]))
        [target], [job] = found["targets"], found["jobs"]
        assert ("OST0000", [37]) == (target["target"], target["line"]["amounts"]["read_bytes"])
        assert ("4711", [37]) == (job["job"], job["line"]["amounts"]["read_bytes"])
    with pytest.raises(WireError, match="no data for scratch in this period"):
        desk.file_system(BEGAN - 7200, BEGAN - 3600)


def test_without_series_days_nothing_is_kept_and_the_answer_says_so(tmp_path):
    desk = LinesDesk(tmp_path / "site.sqlite", site_series_days=0)
    desk.send("oss1", desk.block("OST0000"))
    desk.sweep(("oss1", [("OST0000", {"4711": 23})]))
    found = desk.history()
    assert ([], [], []) == (found.has, found.file_systems, found.targets)
    assert "series_days is 0 ([site] of site.cfg): no time series are stored" == (
        found.why_not["harvest"])
    desk.store.close()


def test_requests_that_are_timed_have_their_time_by_name(desk):
    """From Lustre 2.14 on; before, the answer says why there is none."""
    desk.send("oss1", desk.block("MDT0000"))
    desk.now += 20
    timed = {name: Column("usecs", [0], [count], [1], [took], [took], [took ** 2])
             for name, count, took in (("open", 23, 1009), ("rename", 3, 37),
                                       ("samedir_rename", 3, 36), ("read", 2, 53))}
    desk.send("oss1", desk.block("MDT0000", ["4711"], BEGAN + 3, read_bytes=(2, 41_003), **timed))
    for go_on in (lambda: None, desk.fold):
        go_on()
        [scratch], [mdt] = desk.history().file_systems, desk.history().targets
        assert {"open": [23], "open_us": [1009], "rename": [3], "rename_us": [37], "reads": [2],
                "reads_us": [53], "operations": [26], "requests": [28], "timed": [28],
                "busy_us": [1099], "read_bytes": [41_003], "write_bytes": [0],
                "writes": [0]} == scratch.job.amounts
        assert [1099 / 28] == compute_latencies_us(scratch.job) == compute_latencies_us(mdt.all)
        assert ([23], [1009]) == (scratch.job.amounts["open"], scratch.job.amounts["open_us"])
        assert "open" not in mdt.job.amounts
        assert "latency" not in desk.history().why_not


def test_the_answer_says_why_there_are_no_lines(tmp_path):
    inside = Inside(tmp_path, batch_system="none")
    harvest = inside.server.harvest

    def history(**run):
        return parse_history(run_to_end(inside.server.methods["job_history"].function(
            JobHistoryParams("4711", **run), Caller("mgmt1", 0))))
    ended = inside.now
    inside.send("4711", elapsed_s=40.0, ended=ended)
    assert (None, None, []) == history()[:3]                # it has no record yet
    inside.now += 1000
    inside.make_records()
    for run in ({}, {"attempt": 0}):
        found = history(**run)
        assert (ended - 40.0, ended, []) == found[:3]
        assert "no storage server has reported job_stats (iostats harvest)" == (
            found.why_not["harvest"])
        assert "no node ran `iostats watch`, or there is no record yet" == found.why_not["watch"]
    [(body,)] = inside.store.rows("SELECT record FROM jobs")
    record = json.loads(zlib.decompress(body))
    record["file_systems"][0]["series"] = {"began": 0.0, "every_s": 1.0}
    inside.store.change("UPDATE jobs SET record = ?",
                        (zlib.compress(json.dumps(record).encode()),))
    assert ["watch"] == history().has
    harvest.targets["scratch", "OST0000"] = CorrectedTarget(JobIds(), "scratch", "OST0000")
    inside.now += 400 * 86400
    assert "series_days is over: time series are stored for 365 days" == (
        history().why_not["harvest"])
    with pytest.raises(WireError, match="no job 4711 is known here"):
        history(attempt=3)
    inside.store.close()
