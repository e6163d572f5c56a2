"""
What a job's nodes did, as its user reads it: a range with its source, and never a plain number.
"""

import csv
import io
import json

import pytest
from test_job_list import SLURM
from test_job_totals import llite, osc
from trees import report as of_node

from iostats.base import config
from iostats.report import array_total, job_fields, job_list, job_tables
from iostats.report.job_summary import Summary, make_summary
from iostats.report.listing import NumberForm
from iostats.report.screen import LOG
from iostats.totals.job_totals import Totals
from iostats.totals.record import ClientsIO, NodesFileSystem, NodesRecord

GIB = 1 << 30
BEGAN = 1_795_225_000.0


def io_of(read_bytes=0, write_bytes=0, reads=0, writes=0, ost_operations=0, mdt_operations=0):
    return ClientsIO(read_bytes=read_bytes, write_bytes=write_bytes, reads=reads, writes=writes,
                     ost_operations=ost_operations, mdt_operations=mdt_operations)


def file_system(low, high, name="scratch", later=None, notes=()):
    return NodesFileSystem(name=name, label=name, low=low, high=high, later_write_bytes=later,
                           lower_bound=high is None, notes=list(notes))


def by_node(*file_systems, why_none="", notes=()):
    return NodesRecord(why_none=why_none, alone="" if why_none else "listed", began=BEGAN,
                       ended=BEGAN + 1867, clocks_within_s=0.5, unknown_nodes="",
                       nodes_used_before="", file_systems=list(file_systems), notes=list(notes))


SCRATCH = file_system(io_of(1229 * GIB, 23 * GIB, 1229, 23, 37, 41),
                      io_of(1434 * GIB, 23 * GIB, 1434, 23, 43, 47))
IDLE = file_system(io_of(), io_of(), "home")


def record(*reports, found=None, **parts):
    """Of two nodes, as the batch system tells it."""
    totals = Totals("4711", 2)
    for one in reports:
        totals.add(one)
    whole = totals.record().replaced(by_node=found, batch={**SLURM, "outcome": "COMPLETED"},
                                     **parts)
    return whole if reports else whole.replaced(job={
        **whole.job, "user": "alice", "started": BEGAN, "ended": BEGAN + 1867, "elapsed_s": 1867.0})


def text(whole, form="plain", long=False):
    return job_tables.format_report(job_tables.add_labels(whole, config.Config()), config.Config(),
                                    form, long)


def row(whole):
    """The row of `iostats jobs` of this record."""
    found = make_summary(whole)
    wrong = dict(zip(("too_low", "too_high"), ([], [])))
    return {**dict.fromkeys(job_fields.NAMES), **found._asdict(), **wrong,
            "file_systems": found.file_systems.split(","), "job_id": "4711"}


def cells(whole, fields, how=None):
    one = row(whole)
    return [job_list.format_cell(one, column.field, how or NumberForm())
            for column in job_fields.TABLE.parse_columns(fields)]


# -- the report ----------------------------------------------------------------------------------

def test_a_job_that_is_known_by_its_nodes_alone():
    """Its ranges, and where they are from; a file system on which nothing was done is left out."""
    lines = text(record(found=by_node(SCRATCH, IDLE))).split("\n")

    assert "Job 4711 (solve) of alice, partition normal:" == lines[0]
    assert lines[1].startswith("  COMPLETED")
    assert "no node has reported: numbers by node, from the storage servers" in " ".join(
        " ".join(lines[1:3]).split())
    assert "At the storage servers, by its nodes, which it had alone:" == lines[3]
    assert ["scratch By its nodes", "Read 1.2-1.4 TiB", "Written 23.0 GiB", "Reads 1,229-1,434",
            "Writes 23", "Operations 78-90"] == [" ".join(line.split()) for line in lines[4:10]]
    assert ["No problems found. Checked: requests.", ""] == lines[10:]


def test_without_an_upper_bound_it_is_a_lower_one_and_says_why():
    low = file_system(io_of(37 * GIB), None, notes=["oss1: the agent began anew"])
    found = text(record(found=by_node(low, notes=["no client is known as node7"])))

    assert ">= 37.0 GiB" in found and ">= 0 bytes" in found
    assert "note: scratch, by its nodes: oss1: the agent began anew\n" in found
    assert "note: by its nodes: no client is known as node7\n" in found


def test_what_came_after_its_end_is_beside_the_range():
    found = text(record(found=by_node(file_system(SCRATCH.low, SCRATCH.high, later=41 * GIB))))

    assert ("note: scratch, by its nodes: 41.0 GiB more were written in the minute after its end, "
            "while no other job was on them") in " ".join(found.split())


def test_a_job_that_shared_a_node_says_so_and_has_no_number():
    found = text(record(found=by_node(why_none="it shared node7 with another job")))

    assert "note: by its nodes: no numbers, as it shared node7 with another job\n" in found
    assert "No numbers: no node has reported.\n" in found


def test_beside_what_the_nodes_reported_it_is_the_last_column():
    """And why it has none is not worth a line there, but with --long."""
    reports = [of_node(f"nid{n}", [llite(read_bytes=23), osc(read_bytes=37)]) for n in (1, 2)]
    found = text(record(*reports, found=by_node(SCRATCH)))

    heading = found.partition("The nodes and the storage servers compared:\n")[2].split("\n")[0]
    assert "scratch Application Network By its nodes" == " ".join(heading.split())
    none = record(*reports, found=by_node(why_none="it shared node7 with another job"))
    assert "shared" not in text(none)
    assert "it shared node7 with another job" in text(none, long=True)


@pytest.mark.parametrize("form", ["grid", "markdown"])
def test_every_form_has_the_ranges(form):
    assert "1.2-1.4 TiB" in text(record(found=by_node(SCRATCH)), form)


def test_a_file_system_has_the_sites_name():
    site = config.Config()
    site.labels["scratch"] = "BW Scratch"
    whole = job_tables.add_labels(record(found=by_node(SCRATCH)), site)

    assert "BW Scratch" in job_tables.format_report(whole, site, "plain")


def test_csv_has_both_bounds_and_says_which_is_which():
    rows = list(csv.reader(io.StringIO(text(record(found=by_node(SCRATCH)), "csv"))))[1:]
    mine = {metric: rest for _, fs, layer, metric, *rest in rows if layer == "by_node"}

    assert [str(1229 * GIB), "1", "0"] == mine["read_bytes"]
    assert [str(1434 * GIB), "0", "1"] == mine["read_bytes_max"]
    assert [str(23 * GIB), "0", "0"] == mine["write_bytes"] == mine["write_bytes_max"]


def test_csv_has_an_empty_value_where_there_is_no_upper_bound():
    rows = list(csv.reader(io.StringIO(text(record(found=by_node(
        file_system(io_of(37), None))), "csv"))))
    mine = {row[3]: row[4:] for row in rows if row[2] == "by_node"}

    assert (["37", "1", "0"], ["", "0", "1"]) == (mine["read_bytes"], mine["read_bytes_max"])


def test_json_is_the_record():
    whole = record(found=by_node(SCRATCH))

    assert json.loads(text(whole, "json"))["by_node"] == json.loads(json.dumps(whole.by_node))


# -- the list ------------------------------------------------------------------------------------

def test_a_list_has_the_range_where_nothing_better_is_known():
    whole = record(found=by_node(SCRATCH, file_system(io_of(3 * GIB), io_of(3 * GIB), "home")))

    assert ["1.2-1.4 TiB", "23.0 GiB", "-", "78-90", "exports", "by node"] == cells(
        whole, "ReadBytes,WriteBytes,Opens,Operations,Source,Note")
    assert [">= 1.2 TiB", "1.4 TiB", "23.0 GiB", "23.0 GiB"] == cells(
        whole, "ByNodeReadBytes,ByNodeReadMax,ByNodeWriteBytes,ByNodeWriteMax")
    assert ["home,scratch"] == cells(whole, "FileSystems")


def test_a_scripts_number_is_no_range_by_mistake():
    """It is a range, or marked, in whole bytes, too; and null in JSON."""
    whole = record(found=by_node(SCRATCH))

    assert [f"{1229 * GIB}-{1434 * GIB}", "78-90"] == cells(
        whole, "ReadBytes,Operations", NumberForm(raw=True))
    assert ["1,229.00-1,434.00 GiB"] == cells(whole, "ReadBytes", NumberForm(unit="G"))
    assert (None, 1229 * GIB, 1434 * GIB) == (row(whole)["read_bytes"],
                                              row(whole)["by_node_read_bytes"],
                                              row(whole)["by_node_read_bytes_max"])


def test_one_file_system_without_an_upper_bound_leaves_none_of_all():
    whole = record(found=by_node(SCRATCH, file_system(io_of(37), None, "home")))

    assert [">= 1.2 TiB", ">= 1.2 TiB", "-"] == cells(
        whole, "ReadBytes,ByNodeReadBytes,ByNodeReadMax")
    assert [">= 1,229.00 GiB"] == cells(whole, "ReadBytes", NumberForm(unit="G"))


def test_a_list_says_why_there_is_none():
    whole = record(found=by_node(why_none="it shared node7 with another job"))

    assert ["-", "", "no report; it shared node7 with another job"] == [
        *cells(whole, "ReadBytes"), row(whole)["source"], *cells(whole, "Note")]


def test_what_nodes_reported_stands_before_it():
    whole = record(of_node("nid1", [llite(read_bytes=23)]), of_node("nid2", [llite(read_bytes=37)]),
                   found=by_node(SCRATCH))

    assert ["60 bytes", "nodes", ">= 1.2 TiB", "-"] == [*cells(
        whole, "ReadBytes,Source,ByNodeReadBytes"), *(cells(whole, "Note")[0] or "-",)]


def test_a_summary_without_it_is_as_it_was():
    assert (None, None, "") == (Summary().by_node_read_bytes, Summary().by_node_operations_max,
                                make_summary(record()).by_node_why)


def tasks(*found):
    """The total of an array's tasks, of which no node has reported."""
    return array_total.format_total("4711", [record(found=one).replaced(
        batch={**SLURM, "array_job": "4711"}) for one in found], config.Config(), LOG, "")


def test_an_arrays_total_is_the_sum_of_its_tasks_bounds():
    second = by_node(file_system(io_of(10 * GIB), io_of(12 * GIB)))

    assert "1.2-1.4 TiB" in tasks(by_node(SCRATCH), by_node(IDLE))
    assert "60.0-72.0 GiB" in tasks(*[second] * 6)


def test_a_task_without_bounds_leaves_no_upper_one_of_the_array():
    found = tasks(by_node(SCRATCH), by_node(why_none="it shared node7 with another job"))

    assert ">= 1.2 TiB" in found and "-1.4" not in found
