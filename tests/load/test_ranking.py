"""
Who loads the file systems: sums, rows, ranks and shares, of targets' loads made by hand.
"""
from __future__ import annotations

import msgspec
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.answers import load_queries
from iostats.base.cooperative import run_to_end
from iostats.base.job_facts import Facts
from iostats.load import amounts, grouping, levels, ranking, sums, table
from iostats.load.levels import TOTALS
from iostats.load.ranking import LoadQuery
from iostats.load.sums import TargetLoad, sum_load
from iostats.lustre.job_tags import TagForm
from iostats.schedulers import slurm

NAMES = [level.name for level in levels.LEVELS]
OF_TOP = [level.name for level in levels.OF_TOP]
MIB = 1 << 20
T = 1_795_225_380
FACTS = {
    "4711": Facts(job="4711", raw_job="4711", user="alice", account="climate", name="ensemble",
                  nodes="nid[001-004]", node_count=4, started=T - 100),
    "12366": Facts(job="12345_10", raw_job="12366", array_job="12345", user="bob", name="train",
                   nodes="nid[001-002]"),
}


class Known:
    """What a batch system knows of four jobs: of 4999 nothing."""

    find_job = staticmethod(TagForm("%j", slurm.JOB_ID_FORM).find_job)

    @staticmethod
    def facts(id):
        return FACTS.get(id)


def part(target="OST0000", fs="scratch", server="oss1", span_s=20, **ids):
    """A TargetLoad; ids: j4711=(written, read, requests, metadata), x for no job."""
    names = [{"xcp": "cp.0", "xempty": ""}.get(name, name[1:]) for name in ids]
    columns = [list(column) for column in zip(*ids.values())] or [[], [], [], []]
    return TargetLoad(fs, target, server, span_s, names, columns)


def two_targets():
    """
    In 20 s on scratch: 4711 has written 23 MiB/s on each of two OSTs, 12366 read 37 MiB/s, cp.0
    made 3 of 160 requests a second; on home: 12366 and 4999 asked an MDT.
    """
    return sum_load([
        part("OST0000", j4711=(460 * MIB, 0, 820, 0), xcp=(0, 0, 60, 0)),
        part("OST0001", server="oss2", j4711=(460 * MIB, 0, 820, 0),
             j12366=(0, 740 * MIB, 1500, 0)),
        part("MDT0000", "home", "mds1", j12366=(0, 0, 140, 140), j4999=(0, 0, 20, 20)),
    ], Known, at=T, span_s=20)


def rows(answer, *names):
    """The columns `names` of the rows, as tuples."""
    return [tuple(row[name] for name in names) for row in answer["rows"]]


# -- groups --------------------------------------------------------------------------------------

def test_a_job_is_added_up_over_the_targets_of_a_file_system():
    answer = ranking.answer(two_targets(), LoadQuery(), Known)
    assert [("4711", "scratch", 46 * MIB, 0, 82, "alice", "ensemble", 4),
            ("12345_10", "scratch", 0, 37 * MIB, 75, "bob", "train", 2),
            ("12345_10", "home", 0, 0, 7, "bob", "train", 2),
            ("cp.0", "scratch", 0, 0, 3, "", "", None),
            ("4999", "home", 0, 0, 1, "", "", None)] == rows(
        answer, "job", "file_system", "write_bytes_per_s", "read_bytes_per_s", "requests_per_s",
        "user", "name", "nodes")
    assert [True, True, True, False, True] == [row["is_job"] for row in answer["rows"]]


@pytest.mark.parametrize("by, expected", [
    ("user", [("alice", "scratch", 82, 1), ("bob", "scratch", 75, 1), ("bob", "home", 7, 1),
              (None, "scratch", 3, 0), (None, "home", 1, 1)]),
    ("server", [("oss2", "scratch", 116, 2), ("oss1", "scratch", 44, 1), ("mds1", "home", 8, 2)]),
    ("target", [("OST0001", "scratch", 116, 2), ("OST0000", "scratch", 44, 1),
                ("MDT0000", "home", 8, 2)]),
    ("fs", [(None, "scratch", 160, 2), (None, "home", 8, 2)])])
def test_the_same_load_by_other_things(by, expected):
    """Requests a second, and how many jobs they are of."""
    answer = ranking.answer(two_targets(), LoadQuery(by, sort="requests"), Known)
    for row in answer["rows"]:
        row.setdefault("fs")
    assert expected == rows(answer, by, "file_system", "requests_per_s", "jobs")


def test_a_jobs_load_is_shared_among_its_nodes_and_says_so():
    """4711 is on four nodes with 82/s together, 12366 on two of them with 75/s."""
    answer = ranking.answer(two_targets(), LoadQuery("node", "scratch", sort="requests"), Known)
    assert [("nid001", 58.0, 2, True), ("nid002", 58.0, 2, True), ("nid003", 20.5, 1, True),
            ("nid004", 20.5, 1, True), (None, 3, 0, False)] == rows(
        answer, "node", "requests_per_s", "jobs", "is_shared")


@pytest.mark.parametrize("by", NAMES)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_an_answer_goes_on_behind_its_last_row(by, count):
    """Pages of `count` rows have together what one answer has, in its order."""
    given = two_targets()
    whole = ranking.answer(given, LoadQuery(by), Known)
    assert None is whole["next"]
    found, after = [], None
    while True:
        page = ranking.answer(given, LoadQuery(by, count=count, after=after), Known)
        found += page["rows"]
        assert len(whole["rows"]) == len(found) + page["left_off"]
        after = page["next"]
        if after is None:
            break
        sent = msgspec.json.encode({"level": "a", "after": after})
        after = msgspec.json.decode(sent, type=load_queries.QueryParams).after
    assert whole["rows"] == found


def test_the_share_of_no_job_is_that_of_the_requests():
    """3 of 160 on scratch; of OST0000 3 of 44; none on home, where an unknown job is a job."""
    load = two_targets()
    sums = ranking.answer(load, LoadQuery(), Known)["file_systems"]
    assert [("home", 8, 0, 0.0), ("scratch", 160, 3, 3 / 160)] == [
        (fs["file_system"], fs["requests_per_s"], fs["no_job"]["requests_per_s"],
         fs["no_job_share"]) for fs in sums]
    answer = ranking.answer(load, LoadQuery("target"), Known)
    assert {"OST0000": 3 / 44, "OST0001": 0.0, "MDT0000": 0.0} == dict(
        rows(answer, "target", "no_job_share"))


def test_a_target_without_requests_has_no_share():
    """Unknown is not 0 %."""
    load = sum_load([part("OST0000")], Known, at=T, span_s=20)
    [row] = ranking.answer(load, LoadQuery("target"), Known)["rows"]
    assert (0, None) == (row["requests_per_s"], row["no_job_share"])
    assert [] == ranking.answer(load, LoadQuery("job"), Known)["rows"]


@pytest.mark.parametrize("nodes, count", [("nid[001-", None), ("", None), ("nid[001-023]", 23)],
                         ids=["no list", "nothing", "23"])
def test_the_nodes_of_a_job_are_counted_where_the_batch_system_gives_only_their_list(nodes, count):
    """A list that cannot be read is not known, which is not 0."""
    assert count == grouping.count_nodes(Facts(job="4711", nodes=nodes))
    assert 37 == grouping.count_nodes(Facts(job="4711", nodes=nodes, node_count=37))


# -- filters -------------------------------------------------------------------------------------

@pytest.mark.parametrize("ask, expected", [
    (LoadQuery(user="bob"), ["12345_10", "12345_10"]),
    (LoadQuery(job="12345"), ["12345_10", "12345_10"]),
    (LoadQuery(job="12366"), ["12345_10", "12345_10"]),
    (LoadQuery(file_system="home"), ["12345_10", "4999"]),
    (LoadQuery(text="ENSEM"), ["4711"]), (LoadQuery(text="clima"), ["4711"]),
    (LoadQuery(text="no job"), ["cp.0"]),
    (LoadQuery(text="nothing of that"), []), (LoadQuery(count=2), ["4711", "12345_10"]),
    (LoadQuery(sort="metadata"), ["12345_10", "4999", "4711", "12345_10", "cp.0"])],
    ids=["user", "array", "raw id", "file system", "name", "account", "no job", "none", "count",
         "sort"])
def test_rows_can_be_chosen(ask, expected):
    answer = ranking.answer(two_targets(), ask, Known)
    assert expected == [row["job"] for row in answer["rows"]]
    assert answer["left_off"] == (3 if ask.count == 2 else 0)


@pytest.mark.parametrize("by, expected", [
    ("target", {("OST0000", "scratch"): (41.0, 1), ("OST0001", "scratch"): (116.0, 2)}),
    ("server", {("oss1", "scratch"): (41.0, 1), ("oss2", "scratch"): (116.0, 2)})])
def test_places_of_one_file_system_have_the_load_of_those_that_are_asked_for(by, expected):
    """Of alice's and bob's jobs on scratch: without the 3 requests a second of cp.0."""
    load = two_targets()
    sums = {}
    for user in ("alice", "bob"):
        for row in ranking.answer(load, LoadQuery(by, "scratch", user), Known)["rows"]:
            requests, jobs = sums.get((row[by], row["file_system"]), (0, 0))
            sums[row[by], row["file_system"]] = requests + row["requests_per_s"], jobs + row["jobs"]
    assert expected == sums


def test_a_question_for_an_id_that_is_no_job_counts_it_as_such():
    """cp.0 has 3 requests a second, all of no job."""
    answer = ranking.answer(two_targets(), LoadQuery("target", job="cp.0"), Known)
    [row] = [row for row in answer["rows"] if row["requests_per_s"]]
    assert ("OST0000", 3, 0, 1.0) == tuple(row[name] for name in (
        "target", "requests_per_s", "jobs", "no_job_share"))


def test_a_user_sees_the_own_jobs_and_the_sums_of_all():
    """By target as well: nobody else's work is in the rows."""
    answer = ranking.answer(two_targets(), LoadQuery(), Known, "bob")
    assert ["12345_10", "12345_10"] == [row["job"] for row in answer["rows"]]
    assert [8, 160] == [fs["requests_per_s"] for fs in answer["file_systems"]]
    by_target = ranking.answer(two_targets(), LoadQuery("target", sort="requests"), Known, "bob")
    assert [("OST0001", 75.0, 1), ("MDT0000", 7.0, 1), ("OST0000", 0, 0)] == rows(
        by_target, "target", "requests_per_s", "jobs")


def test_a_missing_target_makes_lower_bounds_of_its_file_system_alone():
    load = sum_load([part(j4711=(0, 0, 20, 0)), part("MDT0000", "home", j4711=(0, 0, 20, 20))],
                       Known, at=T, span_s=20, missing={"scratch": {"OST0001": "no sweep of oss2"}})
    assert {"scratch": True, "home": False} == dict(rows(
        ranking.answer(load, LoadQuery(), Known), "file_system", "lower_bound"))
    assert [("home", {}), ("scratch", {"OST0001": "no sweep of oss2"})] == [
        (fs["file_system"], fs["missing"])
        for fs in ranking.answer(load, LoadQuery(), Known)["file_systems"]]
    by_target = ranking.answer(load, LoadQuery("target"), Known)       # that one was read
    assert [False, False] == [row["lower_bound"] for row in by_target["rows"]]


# -- what is counted -----------------------------------------------------------------------------

@pytest.mark.parametrize("target, counters, expected", [
    ("OST0000", {"read_bytes": (23, 94208), "read": (23, 41), "punch": (37, 5)}, (0, 94208, 60, 0)),
    ("OST0000", {"write_bytes": (23, 94208), "write": (23, 41)}, (94208, 0, 23, 0)),
    ("MDT0000", {"open": (23, 41), "getattr": (37, None)}, (0, 0, 60, 60)),
    ("MDT0000", {"rename": (23, 41), "samedir_rename": (20, 37), "crossdir_rename": (3, 4),
                 "parallel_rename_file": (20, 5)}, (0, 0, 23, 23)),
    ("MDT0000", {"write_bytes": (23, 94208), "open": (37, 5)}, (94208, 0, 60, 37)),
    ("OST0000", {"read": (23, None)}, (0, 0, 23, 0)), ("OST0000", {}, (0, 0, 0, 0))],
    ids=["timed reads", "timed writes", "MDT", "renames", "data on MDT", "counts", "none"])
def test_a_request_counts_once(target, counters, expected):
    """Reads have two counters since 2.14, renames three: each request is one of them."""
    assert expected == amounts.sum_amounts(counters, target)


_IDS = ["4711", "12366", "4999", "cp.0", "kworker/0:1", ""]
_AMOUNTS = st.tuples(*[st.integers(0, 10**15)] * 4)
_PARTS = st.lists(st.tuples(
    st.sampled_from(["scratch", "home"]), st.sampled_from(["oss1", "oss2"]),
    st.dictionaries(st.sampled_from(_IDS), _AMOUNTS)), max_size=5)


def _made(parts, as_arrays=False):
    found = []
    for number, (fs, server, ids) in enumerate(parts):
        columns = [list(column) for column in zip(*ids.values())] or [[], [], [], []]
        found.append(TargetLoad(fs, f"OST{number:04x}", server, None, list(ids), [
            numpy.array(column, numpy.int64) for column in columns] if as_arrays else columns))
    return found


@given(_PARTS, st.sampled_from([level.name for level in levels.LEVELS
                                if level.rows_of != levels.CLIENTS]))
def test_the_groups_sums_are_the_whole(parts, by):
    """Whatever it is grouped by: nothing is lost, and nothing there twice."""
    load = sum_load(_made(parts), Known, TOTALS)
    answer = ranking.answer(load, LoadQuery(by), Known)
    for place, metric in enumerate(amounts.METRICS):
        whole = sum(amounts[place] for _, _, ids in parts for amounts in ids.values())
        assert whole == pytest.approx(sum(row[metric] for row in answer["rows"]), rel=1e-12)
        assert whole == sum(fs[metric] for fs in answer["file_systems"])


@given(_PARTS)
def test_numpy_adds_up_to_the_same(parts):
    with_numpy = run_to_end(load_queries.add_up_by_id(_made(parts, True)))
    assert run_to_end(sums.add_up_by_id(_made(parts))) == with_numpy


@given(_PARTS, st.sampled_from(OF_TOP), st.sampled_from(list(amounts.SORT)), st.randoms())
def test_the_order_is_that_of_the_numbers_and_no_other(parts, by, sort, random):
    """Rows do not jump about when nothing has changed: whatever order the targets come in."""
    one = ranking.answer(sum_load(_made(parts), Known, TOTALS), LoadQuery(by, sort=sort),
                         Known)
    mixed = _made(parts)
    random.shuffle(mixed)
    other = ranking.answer(sum_load(mixed, Known, TOTALS), LoadQuery(by, sort=sort), Known)
    metric = amounts.METRICS[amounts.SORT[sort]]
    numbers = [row[metric] for row in one["rows"]]
    assert numbers == sorted(numbers, reverse=True)
    if by != "node":                                 # thirds of a number add up in any order
        assert one["rows"] == other["rows"]


@given(_PARTS, st.sampled_from(OF_TOP), st.integers(1, 120), st.sampled_from(
    ["binary", "decimal", "bytes"]))
def test_a_table_of_any_width_has_its_numbers_whole(parts, by, width, units):
    """No line is wider than the terminal; where there is room for a number it is a whole one."""
    answer = ranking.answer(sum_load(_made(parts), Known, TOTALS), LoadQuery(by), Known)
    for line in table.format_lines(answer, width, units):
        assert len(line) <= width
    if width >= 60:
        *_, lines, _ = table.parts(answer, None, units)
        wide = {word for line in lines for word in line.split()}
        *_, lines, _ = table.parts(answer, width, units)
        for line in lines:
            for word in line.split():
                assert not word.replace(".", "").isdigit() or word in wide
