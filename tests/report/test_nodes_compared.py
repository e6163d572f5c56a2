"""
What exports say against the other numbers of a job: which reason holds, where only one can.
"""

import pytest
from test_by_node_tables import BEGAN, by_node, file_system, io_of
from test_client_vs_server import ALL, MIB, harvest, nodes

from iostats.report.client_vs_server import compare_nodes, compare_sides

NO_ID = "requests without a job's id, or with another one (read-ahead, the kernel's threads, the " \
        "nodes' own services)"
JOB = {"attempt": 0, "started": BEGAN, "ended": BEGAN + 1867}
# As the nodes have counted it: 4 MiB were read, and 37 MiB written.
SAME = (io_of(4 * MIB, 37 * MIB), io_of(4 * MIB, 37 * MIB))
RANGE = (io_of(3 * MIB, 36 * MIB), io_of(5 * MIB, 38 * MIB))


def whole(bounds=SAME, there=None, of_nodes=(), later=None, before="", **network):
    """A record with all three; of its nodes all have reported."""
    return {**nodes({"complete": True, **dict(of_nodes)}, JOB, **network),
            "harvest": there or harvest(),
            "by_node": by_node(file_system(*bounds, later=later)).replaced(
                nodes_used_before=before)}


def notes(record):
    [fs] = compare_nodes(record).file_systems
    return fs.notes


@pytest.mark.parametrize("bounds", [SAME, RANGE, (RANGE[0], None)],
                         ids=["exact", "a range", "no upper bound"])
def test_numbers_that_can_all_be_true_need_no_words(bounds):
    assert [] == notes(whole(bounds))


def test_what_is_not_under_the_jobs_id_carried_none_as_nobody_else_was_there():
    assert [f"at least 3.0 MiB of what its nodes have written are not under the job's id: these "
            f"are {NO_ID}"] == notes(whole(RANGE, harvest(write_bytes=33 * MIB)))


def test_where_a_job_was_there_just_before_it_may_be_that_one_too():
    """It wrote back; it read nothing any more."""
    there = harvest(read_bytes=2 * MIB, write_bytes=33 * MIB)
    read, written = notes(whole(RANGE, there, before="node7"))

    assert read.endswith(f"not under the job's id: these are {NO_ID}")
    assert written.endswith(f"not under the job's id: it may be {NO_ID}; or dirty pages that an "
                            f"earlier job had left")


@pytest.mark.parametrize("there", [harvest(final=False, write_bytes=0),
                                   harvest(lower_bound=True, write_bytes=0)],
                         ids=["more comes", "something is missing"])
def test_numbers_that_are_not_whole_prove_nothing(there):
    assert [] == notes(whole(RANGE, there))


def test_what_was_written_later_is_the_reason_where_it_is_enough():
    """3 MiB more are under its id; they wrote 3 MiB later, or 2."""
    found = [notes(whole(RANGE, harvest(write_bytes=41 * MIB), later=later * MIB))[0]
             for later in (3, 2)]

    assert ["at least 3.0 MiB are written under the job's id that its nodes have not written while "
            "it had them: " + why for why in (
                "they wrote 3.0 MiB in the minute after its end",
                "by other nodes, or before its start or after its end")] == found


def test_without_an_upper_bound_nothing_is_too_much():
    assert [] == notes(whole((RANGE[0], None), harvest(write_bytes=97 * MIB), read_bytes=97 * MIB,
                             write_bytes=97 * MIB))


def test_nodes_that_say_less_or_more_than_the_storage_servers():
    """And the times are no reason."""
    assert ["the nodes report that 2.0 MiB were read over the network, the storage servers at "
            "least 3.0 MiB",
            "the nodes report that 41.0 MiB were written over the network, the storage "
            "servers at most 38.0 MiB"] == notes(whole(RANGE, read_bytes=2 * MIB,
                                                       write_bytes=41 * MIB))


def test_nodes_that_were_measured_for_less_time_than_the_job_had_them():
    """`iostats run` began 23 s later; a prolog 37 s before, and an epilog 41 s after."""
    less = {**whole(RANGE, read_bytes=2 * MIB), "job": {**JOB, "started": BEGAN + 23}}
    more = {**whole(RANGE, write_bytes=41 * MIB),
            "job": {**JOB, "started": BEGAN - 37, "ended": BEGAN + 1867 + 41}}

    assert notes(less)[0].endswith(
        "at least 3.0 MiB: they were measured for 23 s at its start less than it had them")
    assert notes(more)[0].endswith("at most 38.0 MiB: they were measured for 37 s at its start and "
                                   "41 s at its end longer than it had them")


def test_nodes_whose_numbers_are_a_lower_bound_may_say_less():
    assert [] == notes(whole(RANGE, read_bytes=2 * MIB, lower_bound=True))


def test_where_a_node_is_missing_nothing_is_compared():
    assert [] == notes(whole(RANGE, of_nodes={"missing_count": 1, "complete": False},
                             read_bytes=0, write_bytes=0))


def programs(read_bytes=4 * MIB, write_bytes=37 * MIB, operations=(), bounds=RANGE, later=None,
             **fields):
    """A record of nodes that could not read the network."""
    record = whole(bounds, later=later)
    [fs] = record["file_systems"]
    record["file_systems"] = [{
        **fs, "network": None, "cached_read_bytes": None, "dirty_bytes": None, "too_low": [],
        "operations": {name: {"count": 23, "seconds": None} for name in operations},
        "application": {"read_bytes": read_bytes, "write_bytes": write_bytes, "read_calls": 1,
                        "write_calls": 1, "lower_bound": False}, **fields}]
    return notes(record)


@pytest.mark.parametrize("cached, why", [
    (18 * MIB, "they were in the page cache"), (None, "from the page cache, or holes in files"),
    (17 * MIB, "from the page cache, or holes in files")])
def test_what_programs_read_and_did_not_come(cached, why):
    """23 MiB, of which 5 came at most."""
    assert [f"at least 18.0 MiB of what programs have read did not go over the network while it "
            f"ran: {why}"] == programs(read_bytes=23 * MIB, cached_read_bytes=cached)


def test_what_programs_wrote_and_was_not_sent():
    lost = "overwritten or removed before it was sent, or sent after its end"
    assert [["so much was in the nodes' memory at its end"], [lost]] == [
        [note.partition("it ran: ")[2] for note in programs(
            write_bytes=41 * MIB, later=later * MIB, dirty_bytes=MIB)] for later in (2, 1)]


def test_what_came_and_was_asked_for_by_no_program():
    assert ["at least 2.0 MiB more went over the network than programs have read: it may be "
            "read-ahead; or whole pages"] == programs(read_bytes=MIB)
    assert programs(read_bytes=MIB, operations=["page_fault"])[0].endswith("; or mapped files")
    assert [] == programs(read_bytes=MIB, too_low=["read_bytes"])


def test_nodes_that_know_of_another_job_are_believed():
    """Then the bounds are of both, and no reason is certain."""
    record = whole(RANGE, harvest(write_bytes=33 * MIB), {"shared": {"nid1": 1}})
    found = compare_nodes(record)

    assert found.notes == ["the nodes report that other jobs were on 1 of them when it ended, the "
                           "batch system that it had them alone: what those did is in these "
                           "numbers"]
    assert found.file_systems[0].notes[0].endswith(f"it may be {NO_ID}; or other jobs on the nodes")


def test_a_difference_of_nodes_and_servers_is_of_ids_where_nobody_else_was_there():
    """The same note without exports, and with those that do not agree, leaves it open."""
    def why(by_node_):
        record = {**whole(), "by_node": by_node_}
        [fs] = compare_sides(record, harvest(read_bytes=3 * MIB), ALL).file_systems
        return fs.notes[-1].partition("it may be ")[2]
    no_id = "RPCs that carried no job's id, or another one (read-ahead, the kernel's threads)"

    assert f"{no_id}, as it had its nodes alone" == why(by_node(file_system(*RANGE)))
    assert no_id == why(None) == why(by_node(why_none="it shared node7 with another job")) == why(
        by_node(file_system(RANGE[0], None))) == why(by_node(file_system(
            io_of(), io_of())))


def test_notes_are_made_once():
    """Also of a record that is compared again."""
    record = whole(RANGE, harvest(write_bytes=33 * MIB), {"shared": {"nid1": 1}}, read_bytes=0)
    once = compare_nodes(record)

    assert len(once.notes) == 1 and len(once.file_systems[0].notes) == 2
    assert once == compare_nodes({**record, "by_node": once})


def test_a_record_without_bounds_stays_as_it_is():
    none = by_node(why_none="it shared node7 with another job")
    assert compare_nodes({**whole(), "by_node": none}) == none
    assert compare_nodes({**whole(), "by_node": None}) is None
