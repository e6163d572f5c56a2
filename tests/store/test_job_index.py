"""
The table of summaries: found by an index, in any order, piece by piece.
"""
from __future__ import annotations

import tempfile

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from site_store import DAY, NOON, add, found, keep_record, reported_and_recorded

from iostats.report import job_summary
from iostats.report.job_fields import NAMES
from iostats.report.job_summary import FileSystemSummary, Summary, TargetSummary
from iostats.store.job_index import (
    MOST_JOBS,
    MOST_NAMES,
    JobsParams,
    select,
)
from iostats.store.record_store import Key, Store


def keep(store, job, user="alice", began=NOON, over=NOON + 60, attempt=0, cluster="eiger",
         shown_as=None, whole="", **values):
    """Keep a record with this summary."""
    reported_and_recorded(
        store, Key(cluster, job, attempt), user=user, shown_as=shown_as, whole=whole,
        summary=Summary(started=began, ended=over, began=began, over=over, **values))


# -- which ----------------------------------------------------------------------------------------

def test_each_condition_selects(store):
    keep(store, "23", user="alice", account="a1", partition="debug", outcome="COMPLETED")
    keep(store, "37", user="bob", account="a2", partition="debug", outcome="FAILED", began=NOON + 1)
    keep(store, "41", user="carol", account="a1", cluster="daint", outcome="TIMEOUT",
         began=NOON + 2)
    assert ["23", "37", "41"] == found(store)
    assert ["37"] == found(store, users=["bob"])
    assert ["23", "37"] == found(store, users=["bob", "alice", "mallory"])
    assert ["23", "41"] == found(store, accounts=["a1"])
    assert ["23", "37"] == found(store, partitions=["debug"])
    assert ["41"] == found(store, clusters=["daint"])
    assert ["37", "41"] == found(store, states=["FAILED", "TIMEOUT"])
    assert ["41"] == found(store, jobs=["41", "43"])
    assert ["23"] == found(store, users=["alice"], accounts=["a1"], jobs=["23", "37"])
    assert [] == found(store, users=["alice"], accounts=["a2"])


def test_jobs_that_ran_between_two_moments_are_found(store):
    """Also those that began before or ended after, as with sacct."""
    keep(store, "23", began=NOON, over=NOON + 100)
    keep(store, "37", began=NOON + 50, over=NOON + 150)
    assert ["23", "37"] == found(store, since=NOON + 100)
    assert ["37"] == found(store, since=NOON + 101)
    assert ["23"] == found(store, until=NOON + 49)
    assert ["23", "37"] == found(store, until=NOON + 50) == found(
        store, since=NOON + 60, until=NOON + 70)
    assert [] == found(store, since=NOON + 151) == found(store, until=NOON - 1)


@pytest.mark.parametrize("days", [23, 6])
def test_a_long_job_is_found_in_each_hour_that_it_ran(store, days):
    """Not before and not after; jobs that were shorter are looked for in less of an index."""
    keep(store, "23", began=NOON, over=NOON + days * DAY)
    keep(store, "37", began=NOON + DAY, over=NOON + DAY + 60)
    for hour in (3, 29, (days - 1) * 24 + 23):
        assert ["23"] == found(store, since=NOON + hour * 3600, until=NOON + hour * 3600 + 41)
        assert ["23"] == found(store, since=NOON + hour * 3600, jobs=["23"], sort="name")
    assert [] == found(store, since=NOON + days * DAY + 1) == found(store, until=NOON - 1)


def test_a_job_whose_start_is_unknown_is_sorted_by_when_it_was_seen(store):
    """In pieces, too; the same for its end."""
    for job, began in (("23", NOON + 37), ("37", NOON + 23), ("41", NOON + 23)):
        reported_and_recorded(store, Key("eiger", job, 0), summary=Summary(
            began=began, over=began + 60, started=None if job == "23" else began))
    for sort in ("started", "ended"):
        for descending, expected in ((False, ["37", "41", "23"]), (True, ["23", "37", "41"])):
            question, pages = JobsParams(sort=sort, descending=descending, limit=1), []
            while True:
                [row], question.after = store.listed(question)
                pages.append(row["job_id"])
                if question.after is None:
                    break
            assert expected == pages


def test_a_job_without_times_ran_from_its_first_report_to_its_record(store):
    """Its Start stays unknown."""
    add(store, now=NOON)
    keep_record(store, made=NOON + 300)
    assert ["4711"] == found(store, since=NOON + 300) == found(store, until=NOON)
    assert [] == found(store, since=NOON + 301) == found(store, until=NOON - 1)
    assert None is store.listed(JobsParams())[0][0]["started"]


def test_an_arrays_number_stands_for_its_tasks(store):
    for raw, task in (("101", "1"), ("100", "2")):
        keep(store, raw, shown_as=f"100_{task}", whole="100")
    assert ["100_1", "100_2"] == sorted(found(store, jobs=["100"]))
    assert ["100_1"] == found(store, jobs=["100_1"]) == found(store, jobs=["101"])


def test_the_last_run_of_a_requeued_job_is_listed(store):
    """Or all, when asked for; the same number of another cluster is another job."""
    for attempt in range(3):
        keep(store, "4711", attempt=attempt, began=NOON + attempt)
    keep(store, "4711", cluster="daint")
    rows = store.listed(JobsParams())[0]
    assert [("daint", 0), ("eiger", 2)] == [(row["cluster"], row["attempt"]) for row in rows]
    assert 4 == len(found(store, all_runs=True))


def test_a_later_record_takes_the_row_of_the_one_before(store):
    keep(store, "4711", read_bytes=23)
    keep(store, "4711", read_bytes=37)
    assert [37] == [row["read_bytes"] for row in store.listed(JobsParams())[0]]


def test_a_row_goes_with_its_record(store):
    keep(store, "4711")
    store.delete_expired(NOON + DAY, NOON - DAY)
    assert ["4711"] == found(store)
    store.delete_expired(NOON + DAY, NOON + DAY)
    assert [] == found(store)


def test_a_row_has_each_name_and_its_kind(store):
    keep(store, "4711", file_systems="home,scratch", lower_bound=1, read_bytes=2**63 - 1)
    [row] = store.listed(JobsParams())[0]
    assert list(NAMES) == list(row)
    assert (["home", "scratch"], True, False, 2**63 - 1, None) == (
        row["file_systems"], row["lower_bound"], row["net_lower_bound"], row["read_bytes"],
        row["write_bytes"])


# -- in which order, and in pieces ----------------------------------------------------------------

VALUES = st.lists(st.tuples(st.none() | st.integers(0, 3) | st.just(2**63 - 1),
                            st.sampled_from(["", "a", "b"])), min_size=1, max_size=12)


@settings(max_examples=examples(60))
@given(VALUES, st.sampled_from(["read_bytes", "name", "job_id", "elapsed_s", "lower_bound",
                                "file_systems"]), st.booleans(), st.integers(1, 5))
def test_parts_together_are_the_whole_in_order(values, sort, descending, limit):
    """Each job once, the unknown ones last, whatever the order and the size of a piece."""
    with_values = {}
    directory = tempfile.TemporaryDirectory()
    one = Store(f"{directory.name}/site.db")
    for number, (value, text) in enumerate(values):
        job = str(number)
        with_values[job] = {
            "read_bytes": value, "name": text, "job_id": job, "file_systems": text,
            "elapsed_s": None if value is None else value / 7, "lower_bound": int(value == 2)}
        keep(one, job, name=text, read_bytes=value, file_systems=text,
             elapsed_s=with_values[job]["elapsed_s"], lower_bound=int(value == 2))
    rows, after = [], None
    while True:
        part, after = one.listed(JobsParams(sort=sort, descending=descending, limit=limit,
                                          after=after))
        assert len(part) == limit or after is None
        rows += [row["job_id"] for row in part]
        if after is None:
            break
    one.close()
    directory.cleanup()
    known = [job for job in sorted(with_values) if with_values[job][sort] is not None]
    unknown = [job for job in sorted(with_values) if with_values[job][sort] is None]
    assert sorted(known, key=lambda job: with_values[job][sort], reverse=descending) + unknown == (
        rows)


@pytest.mark.parametrize("sort, after, ascending, descending", [
    ("read_bytes", 23, ["4713"], []), ("read_bytes", 37, ["4713"], ["4711", "4713"]),
    ("read_bytes", 23.5, ["4713"], ["4711"]), ("read_bytes", "x", [], ["4711", "4713"]),
    ("name", "b", ["4713"], ["4711"]), ("name", 23, ["4711", "4713"], []),
    ("lower_bound", 0, ["4713"], [])])
def test_any_value_of_after_has_a_place_in_the_order(store, sort, after, ascending, descending):
    """One of another type too: in both engines numbers are before texts."""
    keep(store, "4711", read_bytes=23, name="a", lower_bound=0)
    keep(store, "4713", read_bytes=37, name="c", lower_bound=1)
    for is_descending, expected in ((False, ascending), (True, descending)):
        rows, _ = store.listed(JobsParams(sort=sort, descending=is_descending,
                                          after=(after, "eiger", "4712", 0)))
        assert expected == sorted(row["job_id"] for row in rows)


def test_an_unknown_sort_is_refused(store):
    for sort in ("read_bytes; DROP TABLE jobs", "note", "", "record", "began"):
        with pytest.raises(ValueError, match=r"^sort: expected one of job_id, raw_job_id, name"):
            select(JobsParams(sort=sort), None)


# -- with an index --------------------------------------------------------------------------------

def plan(store, **question):
    sql, values = select(JobsParams(**question), None)
    return [row[3] for row in store.rows("EXPLAIN QUERY PLAN " + sql, values)]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", ["too_low", "too_high", "lower_bound"])
def test_which_way_a_number_may_be_wrong_is_kept_in_the_store(store, sort, descending):
    """One column of bits; a piece goes on where the one before has ended, in any order."""
    all_low = ["read_bytes", "write_bytes", "opens", "creates", "operations"]
    wrong = {"0": ([], []), "1": (all_low, []), "2": (["read_bytes"], []),
             "4": (["write_bytes"], []), "6": (["read_bytes", "write_bytes"], []),
             "8": ([], ["write_bytes"]), "9": (all_low, ["write_bytes"])}
    for bits, (low, high) in wrong.items():
        assert int(bits) == job_summary.make_bits(low, high)
        keep(store, bits, lower_bound=int(bits))
    seen, after = {}, None
    while True:
        rows, after = store.listed(JobsParams(sort=sort, descending=descending, limit=2,
                                            after=after))
        seen.update({row["job_id"]: (row["too_low"], row["too_high"]) for row in rows})
        assert all(row["lower_bound"] == bool(row["too_low"]) for row in rows)
        if after is None:
            break
    assert wrong == seen


@pytest.mark.parametrize("question, index", [
    (dict(users=["alice"], since=NOON), "SEARCH one USING INDEX summaries_user (user=? AND over>"),
    (dict(users=["alice", "bob"], since=NOON), "INDEX summaries_user (user=? AND over>?)"),
    (dict(users=["alice"]), "SEARCH one USING INDEX summaries_user (user=?)"),
    (dict(since=NOON), "SEARCH one USING INDEX summaries_{column} ({column}>?)"),
    (dict(since=NOON, until=NOON, accounts=["a"], states=["FAILED"]),
     "SEARCH one USING INDEX summaries_{column} ({column}>? AND {column}<?)"),
    (dict(jobs=["4711"]), "SEARCH one USING PRIMARY KEY (cluster=? AND job=? AND attempt=?)")],
    ids=["a user's since", "two users'", "a user's", "since", "an account's since", "a job"])
@pytest.mark.parametrize("sort", ["started", "write_bytes"])
def test_a_question_is_answered_by_an_index(sqlite_store, question, index, sort):
    """With 100,000 jobs of a year those of a day are looked at, and no record at all."""
    lines = plan(sqlite_store, sort=sort, descending=True, **question)
    # In the order of an index the first rows alone are read; for another order either will do.
    columns = ["began"] if sort == "started" else ["began", "over"]
    assert any(index.format(column=column) in line for line in lines for column in columns), lines
    assert ("column" in index and sort == "started") == (
        "USE TEMP B-TREE FOR ORDER BY" not in lines), lines
    scans = [line for line in lines if line.startswith("SCAN") and "LIST SUBQUERY" not in line]
    assert not scans, lines


def test_the_largest_question_is_answered(store):
    """SQLite has a limit for the values of a statement."""
    names = [str(number) for number in range(MOST_NAMES)]
    keep(store, "4711")
    assert [] == found(store, users=names, accounts=names, partitions=names, clusters=names,
                       states=names, jobs=[str(number) for number in range(MOST_JOBS)],
                       since=NOON, until=NOON)


def test_a_jobs_nodes_lower_bound_stands_for_its_number_in_the_order(store):
    """Where nothing better is known; page by page, too."""
    keep(store, "23", source="nodes", read_bytes=23, by_node_read_bytes=97)
    keep(store, "37", source="exports", by_node_read_bytes=37)
    keep(store, "41", source="exports", by_node_read_bytes=11)
    keep(store, "43")

    assert ["41", "23", "37", "43"] == found(store, sort="read_bytes")
    assert ["37", "23", "41", "43"] == found(store, sort="read_bytes", descending=True)
    ask, pages = JobsParams(sort="read_bytes", limit=1), []
    while True:
        [row], ask.after = store.listed(ask)
        pages.append(row["job_id"])
        if ask.after is None:
            break
    assert ["41", "23", "37", "43"] == pages


def test_jobs_are_chosen_by_the_kinds_of_file_systems_that_they_used(store):
    """Used is more than 0; a lower bound by the storage servers counts as well."""
    keep(store, "23", read_bytes=0, write_bytes=41, nfs_read_bytes=0, nfs_write_bytes=0)
    keep(store, "37", read_bytes=0, operations=0, nfs_read_bytes=41, disk_write_bytes=0)
    keep(store, "41", by_node_operations=1, disk_write_bytes=43)
    keep(store, "43", gpfs_read_bytes=47)
    keep(store, "47", cephfs_write_bytes=53)
    assert ["23", "41"] == found(store, used=["lustre"])
    assert ["37"] == found(store, used=["nfs"])
    assert ["41"] == found(store, used=["disk"])
    assert ["43"] == found(store, used=["gpfs"])
    assert ["47"] == found(store, used=["cephfs"])
    assert ["37", "41"] == found(store, used=["nfs", "disk"])
    with pytest.raises(ValueError, match="used: expected lustre, nfs, disk, gpfs, cephfs, got 'be"):
        found(store, used=["beegfs"])


def test_a_run_may_have_more_parts_than_a_statement_has_values(store):
    """SQLite before 3.32 takes 999."""
    reported_and_recorded(store, Key("eiger", "4711", 0), file_systems=[
        FileSystemSummary(f"fs{number}", "nodes", 23, 37, 41, 43, number, 0)
        for number in range(101)], targets=[
        TargetSummary("scratch", f"OST{number:04x}", 23, 37, 0, 41, 43, number, 1)
        for number in range(103)])
    assert [(101, 5050)] == store.rows("SELECT count(*), sum(operations) FROM job_file_systems")
    assert [(103, 5253)] == store.rows("SELECT count(*), sum(server_operations) FROM job_targets")
