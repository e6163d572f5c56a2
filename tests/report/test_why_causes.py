"""Why a job took so long, on histories made by hand: 40 intervals of 30 s from 12:00:00 on."""
from __future__ import annotations

import pytest
from queueing_world import event_of, record_of

from iostats.base import config
from iostats.load.time_lines import parse_history
from iostats.report.why.causes import find_causes

CONFIG = config.Config()
BEGAN = 1_795_176_000.0                     # 2026-11-20 12:00:00 UTC
MIB = 1 << 20
JOB = {"started": BEGAN, "ended": BEGAN + 1200, "elapsed_s": 1200.0}
pytestmark = pytest.mark.usefixtures("utc")     # Times are local ones: here, of UTC


def line(**amounts):
    return {"began": BEGAN, "every_s": 30.0, "amounts": amounts}


def writes(counts, each_us, size=MIB):
    """A line of so many writes in each interval, each of which takes so long."""
    return line(write_bytes=[count and count * size for count in counts], writes=counts,
                requests=counts, timed=counts,
                busy_us=[None if count is None else count * us
                         for count, us in zip(counts, each_us)])


def summed(*lines):
    metrics = {metric for one in lines for metric in one["amounts"]}
    return line(**{metric: [None if None in row else sum(row) for row in zip(*(
        one["amounts"].get(metric, [0] * 40) for one in lines))] for metric in sorted(metrics)})


def history(own, others=(), target="OST0007", has=("harvest", "events"), why_not=None):
    """Job 4711 on one target; `others`: [(job, user, line)]."""
    return parse_history({
        "began": BEGAN, "ended": BEGAN + 1200, "has": [*has], "why_not": why_not or {},
        "file_systems": [{"name": "scratch", "job": own, "all": None}],
        "targets": [{"file_system": "scratch", "target": target, "job": own,
                     "all": summed(own, *(one for _, _, one in others)),
                     "others": [{"job": job, "user": user, "line": one}
                                for job, user, one in others]}]})


def record(write_s=900.0, open_s=23.0, job=JOB, low=(), **members):
    """Job 4711 on 2 nodes of 1200 s each; its 16000 writes took `write_s`, 9/16 on one node."""
    per_node = {"write_bytes": {"min": 0, "median": 0, "max": 9000 * MIB, "busiest": "node001"},
                "open": {"min": 0, "median": 0, "max": 41, "busiest": "node001"},
                "write_us": {"min": 7 * round(write_s * 62_500), "busiest": "node001",
                             "median": 7 * round(write_s * 62_500),
                             "max": 9 * round(write_s * 62_500)},
                "open_us": {"min": 0, "median": 0, "max": round(open_s * 1e6),
                            "busiest": "node001"}}
    return record_of(job, **{**dict(
        nodes=2, application={"read_bytes": 0, "write_bytes": 16000 * MIB, "read_calls": 0,
                              "write_calls": 16000, "lower_bound": bool(low)},
        operations={"open": {"count": 41, "seconds": open_s, "stddev_s": None}},
        calls={"write": {"count": 16000, "seconds": write_s, "stddev_s": None}},
        per_node=per_node, too_low=[*low]), **members})


def when_loaded(there, otherwise):
    """By interval: `there` from 12:04 to 12:12."""
    return [there if 8 <= place < 24 else otherwise for place in range(40)]


STEADY = [400] * 40
SLOW_THEN = when_loaded(38_130, 4100)                                        # 9.3 times
NEIGHBOUR = ("4733", "bob", writes(when_loaded(64512, 0), [37_000] * 40))    # 2.1 GiB/s
BUSY = history(writes(STEADY, SLOW_THEN), [NEIGHBOUR])


def named(causes):
    return [(one.kind, one.text) for one in causes]


# -- a busy target ---------------------------------------------------------------------------------

def test_a_busy_target_is_named_with_the_job_that_loaded_it():
    [cause] = find_causes(record(), BUSY, [], CONFIG)
    assert cause.kind == "busy_target"
    assert cause.text == ("OST0007 of scratch was busy: a write took 9.3 times its usual 4.1 ms "
                          "from 12:04 to 12:12, while job 4733 (bob) wrote 2.1 GiB/s there")
    # 16 * 400 writes took 34.03 ms longer each: 217.8 s of the 2400 s of both nodes, 9.1 %; and
    # node001 waited 1.147 times as long as the mean, 529.25 s (9/16 * 900 + 23) of its 1200 s,
    # where both had 923 s of 2400 s.
    # 800 = 400 requests and 400 MiB in 30 s are a load of 26.7; 2 * 64512 one of 4300.8.
    assert cause.evidence == [
        "16 of 40 intervals of 30 s; its requests took 218 s longer than usual, all together",
        "load there (requests, and MiB that they moved, a second): of others 4,301, at other times "
        "0; its own 27, at other times 27",
        "job 4733 (bob) did 100 % of the others' load there"]
    assert cause.weight == pytest.approx(0.1041, abs=0.0001)
    assert (cause.about["target"], cause.about["job"], cause.confidence) == (
        "OST0007", "4733", "medium")
    assert cause.about["series"]["latency_us"][7:9] == [4100, 38130]


def test_a_job_of_another_user_has_no_name():
    one = history(writes(STEADY, SLOW_THEN), [("", "", NEIGHBOUR[2])])
    [cause] = find_causes(record(), one, [], CONFIG)
    assert cause.text.endswith("12:12, while another user's job wrote 2.1 GiB/s there")


def test_a_job_with_a_small_part_of_the_load_is_not_blamed_alone():
    """Of 2.7 GiB/s of all others 645 MiB/s are job 4733's; the rest is of jobs not known here."""
    some = writes(when_loaded(19_353, 0), [4000] * 40)
    rest = writes(when_loaded(64_512, 0), [4000] * 40)
    found = history(writes(STEADY, SLOW_THEN), [("4733", "bob", some), ("4799", "carol", rest)])
    [one] = found.targets
    found = found._replace(targets=[one._replace(others=one.others[:1])])
    [cause, *_] = find_causes(record(), found, [], CONFIG)
    assert ("12:12, while other jobs together wrote 2.7 GiB/s there (of these job 4733 (bob) wrote "
            "645.1 MiB/s)") in cause.text
    assert "job 4733 (bob) did 23 % of the others' load there" in cause.evidence


def test_several_targets_that_one_job_loads_are_one_cause():
    two = BUSY._replace(targets=[BUSY.targets[0], BUSY.targets[0]._replace(target="OST0009")])
    [cause] = find_causes(record(), two, [], CONFIG)
    assert cause.text.startswith("OST0007 and OST0009 of scratch were busy: a write took 9.3 times")
    assert cause.about["targets"] == ["OST0007", "OST0009"]


def test_a_site_calls_a_file_system_as_it_likes():
    config_ = config.Config()
    config_.labels["scratch"] = "/work"
    [cause] = find_causes(record(), BUSY, [], config_)
    assert cause.text.startswith("OST0007 of /work was busy")


@pytest.mark.parametrize("own, slow, others", [
    (STEADY, [4100] * 40, [NEIGHBOUR]),
    (when_loaded(4000, 400), SLOW_THEN, []),
    (when_loaded(4000, 400), SLOW_THEN,
     [("4733", "bob", writes([300] * 40, [4100] * 40))]),
    (when_loaded(4000, 400), SLOW_THEN,
     [("4733", "bob", writes(when_loaded(700, 300), [4100] * 40))]),
    ([4] * 40, SLOW_THEN, [NEIGHBOUR]),
    ([400] * 6 + [None] * 34, SLOW_THEN, [NEIGHBOUR]),
    (STEADY, [38_130 if place in (9, 17, 31) else 4100 for place in range(40)], []),
], ids=["loaded, and as fast as ever", "the job's own load", "its own, beside a steady one",
        "its own, beside one that did a bit more", "too few requests", "hardly anything known",
        "three hiccups"])
def test_no_target_is_named(own, slow, others):
    causes = find_causes(record(), history(writes(own, slow), others), [], CONFIG)
    assert not {"busy_target", "slow_target"} & {one.kind for one in causes}


def test_what_cost_hardly_anything_is_no_cause():
    """217.8 s of a job of 1200 s whose calls took 20 s in all: they did not wait for that."""
    assert ["not_in_lustre"] == [one.kind for one in find_causes(record(20.0, 0.0), BUSY, [],
                                                                 CONFIG)]


def test_larger_requests_make_no_target_slow():
    """4 MiB instead of 1 MiB, in four times the time."""
    own, larger = writes([400] * 20 + [0] * 20, [4100] * 40), writes(
        [0] * 20 + [400] * 20, [16_400] * 40, 4 * MIB)
    assert [] == find_causes(record(), history(summed(own, larger), [
        ("4733", "bob", writes([0] * 20 + [64512] * 20, [4100] * 40))]), [], CONFIG)


@pytest.mark.parametrize("others", [
    [], [("4733", "bob", writes([23_000] * 40, [4100] * 40))],
    [("4733", "bob", writes([23_000 * (place % 2) for place in range(40)], [4100] * 40))],
], ids=["alone", "beside a steady neighbour", "beside one that comes and goes all the time"])
def test_a_target_that_is_slow_by_itself(others):
    [cause] = find_causes(record(), history(writes(STEADY, SLOW_THEN), others), [], CONFIG)
    assert named([cause]) == [("slow_target", (
        "OST0007 of scratch was slow: a write took 9.3 times its usual 4.1 ms from 12:04 to 12:12, "
        "and no load that is known explains it"))]
    assert cause.evidence[-1] == ("a rebuild, a failing disk or the network may be behind it: "
                                  "iostats events")


def test_of_a_slow_target_the_loads_are_told_as_they_were():
    """1400 writes of 1 MiB in 30 s beside 1000: more then, and too little to explain it."""
    some = ("4733", "bob", writes(when_loaded(1400, 1000), [4100] * 40))
    [cause] = find_causes(record(), history(writes(STEADY, SLOW_THEN), [some]), [], CONFIG)
    assert "slow_target" == cause.kind
    assert cause.evidence[1] == (
        "load there (requests, and MiB that they moved, a second): of others 93, at other times "
        "67; its own 27, at other times 27")


# -- a fault ---------------------------------------------------------------------------------------

STOPPED = history(writes(when_loaded(0, 400), [4100] * 40))
DOWN = event_of("target_down", BEGAN + 241, BEGAN + 719, "scratch-OST0007")


def test_an_event_while_which_the_job_stood_still():
    [cause] = find_causes(record(events=[DOWN]), STOPPED, [], CONFIG)
    assert named([cause]) == [("fault", (
        "OST0007 of scratch: target down from 12:04 to 12:11; the job stood still for up to "
        "00:07:58"))]
    assert cause.evidence == [
        "12:04 scratch-OST0007: target down, for 478 s",
        "its requests fell to less than a fifth of their mean during that time, and are rarely "
        "as few otherwise"]
    assert cause.weight == pytest.approx(478 / 1200)


def test_a_fault_costs_no_more_than_all_calls_took():
    """Down for 478 s; all calls of all threads took 241 + 23 s, so no node waited for longer."""
    causes = find_causes(record(241.0, events=[DOWN]), history(writes(when_loaded(0, 400),
                                                                      [4100] * 40)), [], CONFIG)
    [fault] = [one for one in causes if one.kind == "fault"]
    assert fault.text.endswith("the job stood still for up to 00:04:24")
    assert fault.weight == pytest.approx(264 / 1200) and fault.about["still_s"] == 264.0


RESENT = event_of("lnet_resends", BEGAN + 241, BEGAN + 719, "",
                  file_system="", message="oss3: LNet sent 2,300 messages, and resent 92 (4.0 %)")


def test_resends_of_lnet_are_named_beside_a_cause_and_are_none():
    """They do not prove that the job waited for them, so they are no cause of their own."""
    line = "during the job, oss3: LNet sent 2,300 messages, and resent 92 (4.0 %)"
    busy = find_causes(record(), BUSY, [], CONFIG)
    [cause, *others] = find_causes(record(events=[RESENT]), BUSY, [], CONFIG)
    assert "busy_target" == cause.kind and line == cause.evidence[-1]
    assert named([cause, *others]) == named(busy)
    assert not any("resent" in text for one in busy for text in one.evidence)
    [unknown] = find_causes(record(events=[RESENT]), None, [], CONFIG)
    assert "unknown" == unknown.kind and line == unknown.evidence[-1]


def of_faults(found, events, **members):
    return [one for one in find_causes(record(events=events, **members), found, [], CONFIG)
            if one.kind == "fault"]


def test_a_job_of_which_one_node_is_evicted_may_wait_as_a_whole():
    """One of 23 nodes for 478 of 1200 s, and no node made a request meanwhile."""
    evicted = event_of("evicted", BEGAN + 241, BEGAN + 719, "scratch-OST0007", nodes="node001",
                       node_count=1)
    [fault] = of_faults(STOPPED, [evicted], nodes=23)
    assert fault.weight == pytest.approx(478 / 1200) and fault.confidence == "medium"
    assert [] == of_faults(None, [evicted], nodes=23)


def test_a_connection_that_is_lost_again_and_again_stops_a_job_each_time():
    """
    From 12:03 on four times for 60 s, and 60 s in between in which it went on: it stood still for
    240 of 1200 s.
    """
    lost = [event_of("connection_lost", BEGAN + at, BEGAN + at + 60, "scratch-OST0007")
            for at in (180, 300, 420, 540)]
    counts = [0 if place in (6, 7, 10, 11, 14, 15, 18, 19) else 400 for place in range(40)]
    [fault] = of_faults(history(writes(counts, [4100] * 40)), lost)
    assert fault.text == ("OST0007 of scratch: connection lost from 12:03 to 12:10; the job stood "
                          "still for up to 00:04:00")
    assert [] == of_faults(history(writes([400] * 40, [4100] * 40)), lost)


@pytest.mark.parametrize("least, is_seen", [(23, True), (0, False)])
def test_a_job_that_does_little_for_minutes_does_not_stand_still_then(least, is_seen):
    """23 requests in 30 s, a sixth of the mean of 149, for 8 minutes after the outage; or none."""
    counts = [0 if 8 <= place < 24 else least if place >= 24 else 400 for place in range(40)]
    assert is_seen == bool(of_faults(history(writes(counts, [4100] * 40)), [DOWN]))


@pytest.mark.parametrize("event, counts, write_s", [
    (DOWN, [400] * 40, 900),
    (DOWN, [400 if place % 10 < 2 else 0 for place in range(40)], 900),
    (DOWN, [0 if place in range(8, 24) or place > 27 else 400 for place in range(40)], 900),
    (DOWN, [0 if place in range(8, 16) else 400 for place in range(40)], 900),
    (DOWN, when_loaded(0, 400), 37),
    ({**DOWN, "file_system": "home", "target": "home-OST0007"}, when_loaded(0, 400), 900),
    ({**DOWN, "time": BEGAN + 1241, "last": BEGAN + 1241, "over": BEGAN + 1719},
     when_loaded(0, 400), 900),
    ({**DOWN, "is_certain": False}, when_loaded(0, 400), 900),
    ({**DOWN, "kind": "target_up"}, when_loaded(0, 400), 900),
    ({**DOWN, "severity": 0}, when_loaded(0, 400), 900),
    ({**DOWN, "over": BEGAN + 251, "longest_s": 10}, when_loaded(0, 400), 900),
], ids=["it went on", "it computes for minutes anyway", "it does nothing for as long later",
        "it went on half way", "its calls did not wait", "elsewhere",
        "after its end", "perhaps not its nodes", "a target came back", "for information",
        "ten seconds"])
def test_an_event_that_is_no_cause(event, counts, write_s):
    causes = find_causes(record(write_s, events=[event]), history(writes(counts, [4100] * 40)), [],
                         CONFIG)
    assert "fault" not in {one.kind for one in causes}


def in_minutes(counts):
    """A job of 20 minutes in intervals of 2 minutes, or longer ones."""
    every_s = 1200.0 / len(counts)
    found = history(writes(counts, [4100] * len(counts)))

    def wider(one):
        return one._replace(job=one.job._replace(every_s=every_s))
    return found._replace(file_systems=[wider(one) for one in found.file_systems],
                          targets=[wider(one)._replace(all=None) for one in found.targets])


LITTLE = "its rate at other times is hardly known, so whether it waited is unknown"


@pytest.mark.parametrize("counts, told", [
    ([1000, 0, 0, 1000, 0, 0, 1000, 0, 0, 1000], []),
    ([500, 100, 600, 200, 500, 100, 600, 200, 500, 100], []),
    ([400, 41, *[400] * 8], ["in the longer intervals around that time it made as many requests "
                             "less as if it had stood still"]),
    ([400, 41, 400, 410], [LITTLE]),
    ([400, 370, 400, 410], []),
    ([0, 0, 0, 0], [LITTLE]),
], ids=["between checkpoints", "it is often as few", "a hole", "too few intervals to tell",
        "too few, and it went on", "it did nothing at all"])
def test_an_outage_shorter_than_an_interval(counts, told):
    """From 12:05:05 to 12:06:50, in an interval of 2 or of 5 minutes; or 12:02:05."""
    began = BEGAN + (125 if len(counts) == 10 else 305)
    event = event_of("target_down", began, began + (105 if len(counts) == 10 else 290),
                     "scratch-OST0007")
    causes = find_causes(record(events=[event]), in_minutes(counts), [], CONFIG)
    found = [one for one in causes if one.kind == "fault"]
    assert told == [one.evidence[-1] for one in found]
    assert {"low"} >= {one.confidence for one in found}


def test_an_outage_of_most_of_a_short_job_that_went_on_is_no_fault():
    """Four intervals of 5 minutes, of which it was down in two: too few to know its usual rate."""
    event = event_of("target_down", BEGAN + 295, BEGAN + 905, "scratch-OST0007")
    for counts, told in (([400, 410, 370, 400], []), ([400, 0, 0, 410], [LITTLE])):
        causes = find_causes(record(events=[event]), in_minutes(counts), [], CONFIG)
        assert told == [one.evidence[-1] for one in causes if one.kind == "fault"]


def test_a_fault_without_time_lines_may_be_one():
    """Its calls took 900 s, so they may have waited."""
    causes = find_causes(record(events=[DOWN]), None, [], CONFIG)
    assert [(one.kind, one.confidence) for one in causes] == [("fault", "low")]
    assert causes[0].text.endswith("the job may have stood still for up to 00:07:58")


def test_of_several_events_of_one_outage_the_weightiest_is_told():
    lost = event_of("connection_lost", BEGAN + 239, BEGAN + 723, "scratch-OST0007",
                    nodes="node[001-002]", node_count=2)
    [cause] = find_causes(record(events=[lost, DOWN]), STOPPED, [], CONFIG)
    assert cause.text.startswith("OST0007 of scratch: target down from 12:03 to 12:12; the job ")
    assert cause.evidence[1] == (
        "12:03 scratch-OST0007: connection lost (node[001-002]), for 484 s")


# -- not in Lustre ---------------------------------------------------------------------------------

QUIET = history(writes(STEADY, [4100] * 40))


def test_it_is_certain_where_all_calls_one_after_the_other_would_be_hardly_any_time():
    """37 + 4 s of 1200."""
    [cause] = find_causes(record(37.0, 4.0), QUIET, [], CONFIG)
    assert cause.kind == "not_in_lustre" and cause.confidence == "high"
    assert cause.text == ("Its time was not in any file system that iostats can see: at most 1.7 % "
                          "of node time in Lustre")
    assert cause.evidence == [
        "all calls of its programs to Lustre took 41.0 s of 00:40:00 of its nodes' time; threads "
        "that wait at the same time count each, so it is no more than that"]


def test_it_is_certain_too_where_other_jobs_on_its_nodes_made_some_of_these_calls():
    """41 of 1200 s of all of them together; but what is missing may be any number."""
    job = record(37.0, 4.0)
    shared = job.coverage.replaced(shared={"node001": 2})
    [cause] = find_causes(job.replaced(coverage=shared), QUIET, [], CONFIG)
    assert cause.kind == "not_in_lustre" and cause.confidence == "high"
    missing = shared.replaced(missing_count=1)
    assert "not_in_lustre" not in [one.kind for one in find_causes(
        job.replaced(coverage=missing), QUIET, [], CONFIG)]


def test_it_is_likely_where_one_node_after_the_other_may_have_waited():
    """9/16 of 181 s on one node are 8.5 % of its time; all of it would be 15 %."""
    [cause] = find_causes(record(181.0, 0.0), QUIET, [], CONFIG)
    assert cause.kind == "not_in_lustre" and cause.confidence == "medium"
    assert cause.evidence[1] == ("if one node after the other waited, and the rest for it, it "
                                 "would be up to 15 % of the job's time")


def test_where_one_node_waits_for_all_it_is_not_said():
    """9/16 of 230 s: 10.8 % of the time of the node that wrote most."""
    assert [] == find_causes(record(230.0, 0.0), QUIET, [], CONFIG)


@pytest.mark.parametrize("members", [
    {"low": ["write_calls"]}, {"incomplete": True},
    {"calls": {"write": {"count": 16000, "seconds": None, "stddev_s": None}}},
    {"operations": None, "calls": None},
], ids=["lower bounds", "incomplete", "not timed", "not readable"])
def test_a_lower_bound_proves_nothing(members):
    causes = find_causes(record(37.0, 4.0, **members), QUIET, [], CONFIG)
    assert ["unknown"] == [one.kind for one in causes]


# -- other runs ------------------------------------------------------------------------------------

def test_slower_than_other_runs_and_it_cannot_be_told_why():
    """56.25 ms a write, where 5, 18.75 and 20 are usual; nothing was busy, nothing broke."""
    like = [record(seconds) for seconds in (80.0, 300.0, 320.0)]
    [cause] = find_causes(record(), QUIET, like, CONFIG)
    assert cause.kind == "unknown"
    # (900 + 23) s, by 300 + 23.
    assert cause.text == ("Its calls took 2.9 times as long as in its other runs; the cause "
                          "is unknown")


def test_two_runs_are_not_enough_to_compare():
    assert [] == find_causes(record(), QUIET, [record(80.0), record(300.0)], CONFIG)


@pytest.mark.parametrize("usual_s, confidence, evidence", [
    (300.0, "high", "calls took 2.9 times as long as in its other runs"),
    (900.0, "low",
     "calls took about as long as in its other runs: this may be its usual time"),
    (1823.0, "low",
     "calls took 0.5 times as long as in its other runs: this may be its usual time"),
])
def test_other_runs_make_a_busy_target_more_likely_or_less(usual_s, confidence, evidence):
    [cause] = find_causes(record(), BUSY, [record(usual_s)] * 3, CONFIG)
    assert cause.confidence == confidence and cause.evidence[-1] == evidence


# -- what is not known -----------------------------------------------------------------------------

def test_without_time_lines_it_is_said_that_nothing_can_be_told():
    [cause] = find_causes(record(), None, [], CONFIG)
    assert named([cause]) == [("unknown", (
        "Cannot tell: whether a target was busy is unknown: the site's server keeps no "
        "time lines of this job"))]


def known_in(places, counts=STEADY):
    """A line of which nothing is known but in these places."""
    return [count if place in places else None for place, count in enumerate(counts)]


@pytest.mark.parametrize("places, told", [
    (range(32), []),
    (range(31), [("unknown", "Cannot tell: whether a target was busy is known for 78 % of "
                  "its time only")]),
], ids=["four fifths", "less"])
def test_nothing_stands_out_only_where_most_of_the_time_is_known(places, told):
    own = writes(known_in(places), [4100] * 40)
    assert told == named(find_causes(record(), history(own), [], CONFIG))


def test_time_lines_of_the_end_of_a_long_job_say_little_of_it():
    """Its last 20 minutes of 100 hours, 0.3 %; none of them is marked as not known."""
    of_days = {**JOB, "started": BEGAN - 358_800, "elapsed_s": 360_000.0}
    [cause] = find_causes(record(230_000.0, job=of_days), QUIET, [], CONFIG)
    assert named([cause]) == [("unknown", "Cannot tell: whether a target was busy is known "
                               "for 0.3 % of its time only")]


def test_a_file_system_without_time_lines_may_be_what_was_slow():
    """700 of its 923 s in Lustre were on home; and 184 of 923, which is less than a fifth."""
    def on_home(seconds):
        one = record(923.0 - seconds, 0.0)
        [scratch] = one.file_systems
        calls = {"write": scratch.calls["write"].replaced(seconds=seconds)}
        return one.replaced(file_systems=[scratch, scratch.replaced(
            name="home", label="home", operations={}, calls=calls)])
    assert named(find_causes(on_home(700.0), QUIET, [], CONFIG)) == [("unknown", (
        "Cannot tell: whether a target of home was busy is unknown: no storage server "
        "reports it; 76 % of its time in Lustre was there"))]
    assert [] == find_causes(on_home(184.0), QUIET, [], CONFIG)


@pytest.mark.parametrize("seen, elsewhere, told", [
    (100, 25, []),
    (100, 26, [("unknown", "Cannot tell: whether an OST of scratch was busy is known for "
                "those with 79 % of its bytes only")]),
    (0, 26, [("unknown", "Cannot tell: whether an OST of scratch was busy is known for none "
              "that it used")]),
], ids=["four fifths", "less", "none"])
def test_osts_without_time_lines_may_be_what_was_slow(seen, elsewhere, told):
    """MiB on OST0007, whose storage server has an agent, and on one without."""
    one = record(targets={"OST0007": {"write_bytes": seen * MIB, "read_bytes": 0},
                          "OST0002": {"write_bytes": elsewhere * MIB, "read_bytes": 0}})
    assert told == named(find_causes(one, QUIET, [], CONFIG))


def test_of_a_time_that_is_half_known_it_is_said():
    """Every other sweep is missing: 8 of 20 intervals, and half of what it has cost."""
    every_other = range(0, 40, 2)
    own = writes(known_in(every_other), SLOW_THEN)
    neighbour = writes(known_in(every_other, when_loaded(64512, 0)), [37_000] * 40)
    [cause] = find_causes(record(), history(own, [("4733", "bob", neighbour)]), [], CONFIG)
    assert cause.kind == "busy_target" and cause.about["known"] == 0.5
    assert cause.weight == pytest.approx(0.1041 / 2, abs=0.0001)


@pytest.mark.parametrize("own, reason", [
    (line(writes=STEADY, requests=STEADY), "the storage servers' counters do not time requests "
     "(Lustre servers do since 2.14)"),
    (writes([400] * 7 + [0] * 33, [4100] * 40), "too few sweeps saw its requests"),
], ids=["2.13", "too short"])
def test_why_it_cannot_be_told(own, reason):
    [cause] = find_causes(record(), history(own), [], CONFIG)
    assert cause.text == f"Cannot tell: whether a target was busy is unknown: {reason}"


def test_a_healthy_job_has_no_cause():
    assert [] == find_causes(record(), QUIET, [], CONFIG)
