"""
Which runs had their nodes alone, by what the batch system has said: and none that may not have.
"""

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from iostats.base.job_facts import ENDED, RUNNING, Facts
from iostats.jobs.job_runs import EXCLUSIVE, LISTED, Alone, JobRuns
from iostats.store.run_store import decode_run, encode_run

T = 1_795_225_000.0


def ran(job, nodes, started, ended=None, **fields):
    """A run that began and ended so many seconds after T."""
    return Facts(job=job, raw_job=job, nodes=nodes, started=T + started,
                 ended=None if ended is None else T + ended,
                 state=RUNNING if ended is None else ENDED, **fields)


def known(*jobs, covered=(-1000, 1000), exclusive=(), step_s=1.0):
    """What is known after one list of these, 500 s after T."""
    runs = JobRuns(step_s)
    runs.add_list(jobs, exclusive, T + 500)
    if covered:
        runs.mark_covered(T + covered[0], T + covered[1])
    return runs


def alone(runs, job="4711"):
    return runs.check_alone(runs.list_runs(job)[0])


def test_what_runs_is_what_was_in_the_last_list():
    """4709 has ended; 4713 is in the list no more."""
    runs = known(ran("4711", "node[1-2]", 100, user="alice"), ran("4709", "node1", 23, 100),
                 ran("4713", "node3", 160))
    assert [("4711", "alice", ("node1", "node2")), ("4713", "", ("node3",))] == list(
        runs.running_jobs())
    runs.add_list([ran("4711", "node[1-2]", 100, user="alice")], (), T + 560)
    assert ["4711"] == [job for job, *_ in runs.running_jobs()]


def test_a_job_whose_nodes_nobody_else_had_was_alone():
    """Others ran before it, after it, and beside it on other nodes."""
    runs = known(ran("4711", "node[1-3]", 100, 160), ran("4709", "node1", 23, 100),
                 ran("4713", "node3", 160), ran("4712", "node4", 100, 160))

    assert Alone(LISTED, "") == alone(runs)


@pytest.mark.parametrize("other, nodes", [
    (ran("4712", "node2", 23, 101), "node2"), (ran("4712", "node[2-3]", 159), "node[2-3]"),
    (ran("4712", "node3", 120, 123), "node3"), (ran("4712", "node[1-9]", 37), "node[1-3]"),
], ids=["its last second", "its first second", "three seconds of its time", "all of its time"])
def test_one_other_job_on_one_node_for_a_second_is_enough(other, nodes):
    runs = known(ran("4711", "node[1-3]", 100, 160), other)

    assert Alone("", f"it shared {nodes} with another job") == alone(runs)


def test_the_jobs_it_shared_with_are_counted():
    """Their ids are not its user's business."""
    runs = known(ran("4711", "node[1-3]", 100, 160), *(
        ran(str(4712 + number), "node2", 100, 160) for number in range(5)))

    assert "it shared node2 with 5 other jobs" == alone(runs).why_not


def test_a_job_that_had_whole_nodes_needs_no_list_but_is_believed_no_more_than_one():
    """Where the list is incomplete the batch system's word is enough; not against its own list."""
    gaps = {"covered": (-1000, 120), "exclusive": {"4711"}}
    job = ran("4711", "node[1-3]", 100, 160)

    assert Alone(EXCLUSIVE, "") == alone(known(job, **gaps))
    assert "it shared node1 with another job" == alone(
        known(job, ran("4712", "node1", 100), **gaps)).why_not


def test_one_that_had_to_share_once_had_not_whole_nodes():
    """Suspended, its nodes are others'."""
    runs = known(ran("4711", "node1", 100), covered=None, exclusive={"4711"})
    runs.add_list([ran("4711", "node1", 100)], (), T + 560)
    runs.add_list([ran("4711", "node1", 100, 610)], {"4711"}, T + 620)

    assert alone(runs).why_not.startswith("the other jobs on its nodes are unknown")


@pytest.mark.parametrize("covered", [None, (-1000, 159), (101, 1000), (120, 140)],
                         ids=["never", "not its end", "not its start", "neither"])
def test_a_time_in_which_nobody_asked_proves_nothing(covered):
    found = alone(known(ran("4711", "node1", 100, 160), covered=covered))

    assert ("", True) == (found.how, found.is_open)
    assert "the other jobs on its nodes are unknown" in found.why_not


def test_times_that_are_covered_one_after_the_other_are_one():
    """Without a gap of a second between them."""
    runs = known(ran("4711", "node1", 100, 160), covered=None)
    for since, until in ((90, 120), (150, 200), (120, 150)):
        assert "" == alone(runs).how
        runs.mark_covered(T + since, T + until)

    assert Alone(LISTED, "") == alone(runs)
    assert [[T + 90, T + 200]] == runs.covered


def test_times_by_the_minute_do_not_say_which_came_first():
    """LSF: 10:01 may be 10:01:59, and the job that begins at 10:01 may have begun at 10:01:00."""
    def of(before):
        return alone(known(ran("4711", "node1", 120, 180), ran("4709", "node1", 0, before),
                           step_s=60.0))

    assert "it shared node1 with another job" == of(120).why_not
    assert Alone(LISTED, "") == of(60)


def test_a_run_that_vanishes_without_an_end_has_no_numbers():
    """A requeued job's run is in no list any more; the accounting may still know of it."""
    runs = known(ran("4711", "node1", 100))
    runs.add_list([], (), T + 560)
    run = runs.list_runs("4711")[0]
    assert (T + 500, T + 560) == (run.seen, run.over)
    assert Alone("", "the time of its end is unknown", True) == alone(runs)

    runs.add_facts(ran("4711", "node1", 100, 511), T + 600)
    assert (Alone(LISTED, ""), T + 511) == (alone(runs), run.over)


def test_a_run_without_an_end_shares_its_nodes_until_it_was_seen_to_be_gone():
    """It may have run for another minute."""
    runs = known(ran("4711", "node1", 505, 540), ran("4709", "node1", 100))
    runs.add_list([ran("4711", "node1", 505, 540)], (), T + 560)

    assert "it shared node1 with another job" == alone(runs).why_not


def test_a_job_whose_nodes_change_has_none():
    runs = known(ran("4711", "node[1-2]", 100))
    runs.add_list([ran("4711", "node1", 100)], (), T + 560)
    runs.add_list([ran("4711", "node1", 100, 600)], (), T + 620)

    assert "its nodes changed while it ran" == alone(runs).why_not
    assert ("node1", "node2") == runs.get_nodes(runs.list_runs("4711")[0])


def test_a_job_that_is_completing_has_the_nodes_that_it_had():
    """squeue then shows those that it is still on, and does not say when it ended."""
    runs = known(ran("4711", "node[1-3]", 100))
    runs.add_list([ran("4711", "node3", 100, completing=True)._replace(state=None)], (), T + 560)
    assert float("inf") == runs.list_runs("4711")[0].over
    runs.add_list([ran("4711", "node[1-3]", 100, 555)], (), T + 620)

    assert Alone(LISTED, "") == alone(runs)


def test_one_that_was_first_seen_while_completing_has_the_nodes_of_the_next_list():
    """And another job on the first ones is seen."""
    part = ran("4711", "node3", 450, completing=True)._replace(state=None)
    runs = known(part, ran("4712", "node1", 23))
    assert "it was first listed after it had left some of its nodes" == alone(runs).why_not
    runs.add_list([ran("4711", "node[1-3]", 450, 490), ran("4712", "node1", 23)], (), T + 560)

    assert "it shared node1 with another job" == alone(runs).why_not


@pytest.mark.parametrize("nodes", ["", "node[1-", "no de1"])
def test_a_job_without_a_node_list_has_none(nodes):
    assert "its nodes are unknown" == alone(known(ran("4711", nodes, 100, 160))).why_not


def test_the_runs_of_a_requeued_job_are_its_own():
    """On the same node, one after the other: neither shares it with the other."""
    runs = known(ran("4711", "node1", 100, 160), ran("4711", "node1", 160, 190))

    assert [Alone(LISTED, "")] * 2 == [runs.check_alone(run) for run in runs.list_runs("4711")]


def test_which_nodes_were_used_just_before_and_just_after():
    """Within a minute: what it has not written back yet."""
    runs = known(ran("4711", "node[1-4]", 100, 160), ran("4707", "node1", 0, 40),
                 ran("4708", "node2", 0, 41), ran("4709", "node3", 0, 100),
                 ran("4712", "node1", 219), ran("4713", "node2", 220))
    run = runs.list_runs("4711")[0]

    assert ["node2", "node3"] == runs.list_nodes_used_before(run)
    assert ["node2", "node3", "node4"] == runs.list_nodes_free_after(run)


def test_what_is_forgotten_is_remembered_by_those_it_met():
    """Of runs that are decided, and of one before."""
    runs = known(ran("4711", "node[1-3]", 100), ran("4709", "node1", 0, 100),
                 ran("4712", "node2", 120, 123))
    for job in ("4709", "4712"):
        runs.list_runs(job)[0].decided = True
    assert 2 == len(runs.drop_old(T + 9000))
    again = JobRuns()
    for run in runs.runs.values():
        again.add_run(decode_run(encode_run(run)))
    for some in (runs, again):
        some.add_list([ran("4711", "node[1-3]", 100, 600)], (), T + 620)
        assert "it shared node2 with another job" == alone(some).why_not
        assert ["node1"] == some.list_nodes_used_before(some.list_runs("4711")[0])


RUNS = st.lists(st.tuples(
    st.sets(st.integers(1, 3), min_size=1), st.integers(0, 30), st.integers(1, 9)), max_size=7)


@settings(max_examples=examples(300), deadline=None)
@given(RUNS, st.integers(1, 12), st.integers(0, 12), st.sets(st.integers(0, 45), max_size=3))
def test_no_run_is_called_alone_that_was_not(plan, pause, kept, lost):
    """
    A batch system that forgets, asked now and then, with answers that do not come: whoever shared a
    node, though unseen, is never alone; and whoever was asked for all of the time and shared none
    is, also where others are forgotten as soon as they are decided.
    """
    jobs = [(str(4711 + number), nodes, since, since + length)
            for number, (nodes, since, length) in enumerate(plan)]
    runs, called, alone_ = JobRuns(dropped_after_s=kept), {}, set()
    for job, nodes, since, until in jobs:
        if not any(nodes & there and begin < until and since < end
                   for other, there, begin, end in jobs if other != job):
            alone_.add(job)
    for now in range(0, 60, pause):
        if now in lost:
            continue
        runs.add_list([ran(job, ",".join(f"node{one}" for one in sorted(nodes)), since,
                      until if until <= now else None)
                  for job, nodes, since, until in jobs if since <= now and now - until <= kept],
                 (), T + now)
        runs.mark_covered(T + now - kept, T + now)
        for run in list(runs.runs.values()):
            if not run.decided and run.ended is not None and not runs.gaps(run.started, run.ended):
                assert run.job not in called, "decided twice"
                called[run.job] = runs.check_alone(run).how
                run.decided = True
        runs.drop_old(T + now)

    assert {job for job, how in called.items() if how} <= alone_
    if not lost and kept >= pause:
        assert alone_ <= {job for job, how in called.items() if how} | {
            job for job, _, _, until in jobs if until > 60 - pause}
