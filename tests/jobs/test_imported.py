"""`iostats import`: jobHarvest's points as records whose numbers may all be wrong."""
from __future__ import annotations

import json

import pytest

from iostats.base import config as site
from iostats.base.job_facts import ENDED, Facts
from iostats.cli import import_jobs as command
from iostats.report.job_tables import add_labels, format_report
from iostats.report.record_check import find_wrong_type
from iostats.schedulers import slurm
from iostats.store.job_index import JobsParams
from iostats.store.record_store import Store

# As `influxd inspect export-lp` writes them: a field a line, in ns, each series by itself.
_EXPORT = """\
# a comment, and another measurement
lustre_job,job=4711,user=alice read_bytes=9i 1700000060000000000
lustre,fs=scratch,job=4711,server=oss iops=23i 1700000000000000000
lustre,fs=scratch,job=4711,server=oss iops=29i 1700000060000000000
lustre,fs=scratch,job=4711,server=oss read_bytes=37888i 1700000060000000000
lustre,fs=scratch,job=4711,server=oss write_bytes=41984i 1700000060000000000
lustre,fs=scratch,job=4711,server=mds iops=47i 1700000060000000000
lustre,fs=home,job=4711,server=mds iops=53i 1700000040000000000
lustre,fs=home,job=4711,server=mds iops=59i 1700000020000000000
lustre,fs=scratch,job=4700_3,server=oss read_bytes=1024i,write_bytes=2048i,iops=3i 1700000060
"""


@pytest.fixture
def run(tmp_path, capsys):
    """Import a text; (exit status, output, errors)."""
    config = tmp_path / "site.cfg"
    config.write_text(f"[site]\nstore = {tmp_path}/store\n[batch]\nsystem = none\n")

    def run(text, system="none"):
        config.write_text(config.read_text().replace("= none", f"= {system}"))
        (tmp_path / "points").write_text(text)
        status = command.main(["--config", str(config), str(tmp_path / "points")])
        return (status, *capsys.readouterr())
    run.store = str(tmp_path / "store")
    return run


def read_records(path, job):
    store = Store(path)
    try:
        return [json.loads(body) for body in store.records(job)]
    finally:
        store.close()


def format_records(path, job, **options):
    config = site.Config()
    return "".join(format_report(add_labels(record, config), config, **options)
                   for record in read_records(path, job))


def test_each_total_of_an_imported_job_is_marked_as_too_low_or_too_high(run):
    assert (0, "2 jobs imported from jobHarvest\n", "") == run(_EXPORT)
    text = format_records(run.store, "4711")
    assert "Job 4711: no node has reported: totals imported from jobHarvest\n" in text
    rows = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
            for line in text.splitlines() if line.startswith("| ")}
    assert ["~ 37.0 KiB", "~ 41.0 KiB", "~ 29", "~ 47"] == rows["scratch"]
    assert ["-", "-", "-", "~ 53"] == rows["home"]
    assert "Marks: ~ may be either, - unknown" in text
    assert ("note: home, jobHarvest: iops of its MDTs fell: it was 59 before the last point, "
            "which has 53 ") in f"{' '.join(text.split())} "
    assert "note: jobHarvest stored no mark where a total is wrong, so each may be\n" in text
    assert "~ 1.0 KiB" in format_records(run.store, "4700_3")       # the point in seconds


def test_no_sum_and_no_finding_has_an_imported_number(run):
    run(_EXPORT)
    [record] = read_records(run.store, "4711")
    assert "" == find_wrong_type(record)
    assert [] == record["file_systems"] and record["harvest"] is record["by_node"] is None
    lines = format_records(run.store, "4711", form="csv").splitlines()
    assert "4711,scratch,imported,write_bytes,41984,1,1" in lines
    assert {"imported"} == {line.split(",")[2] for line in lines[1:]}
    store = Store(run.store)
    rows, _ = store.listed(JobsParams(since=1699999990.0, until=1700000070.0, jobs=["4711"]))
    store.close()
    [row] = rows
    assert [None] * 3 == [row[name] for name in ("read_bytes", "write_bytes", "operations")]
    assert ["home", "scratch"] == row["file_systems"]


def test_a_job_that_the_store_has_is_left_as_it_is(run):
    run(_EXPORT)
    before = read_records(run.store, "4711")
    again = _EXPORT.replace("37888i", "99i") + _EXPORT.splitlines()[-1].replace("4700_3", "4712")
    assert (0, "1 job imported from jobHarvest\n2 jobs left as before, as the store has them: "
               "4700_3, 4711\n", "") == run(again)
    assert before == read_records(run.store, "4711")


def test_user_and_account_are_those_of_the_same_time(run, monkeypatch):
    """A job of today with the id of an old one is another user's."""
    monkeypatch.setattr(slurm, "facts", lambda jobs, run=None: {
        "4711": Facts(job="4711", raw_job="4711", user="bob", state=ENDED, started=1795000000.0,
                      ended=1795000600.0),
        "4703": Facts(job="4700_3", raw_job="4703", array_job="4700", array_task="3", user="alice",
                      account="physics", cluster="ruby", state=ENDED, outcome="COMPLETED",
                      started=1700000000.0, ended=1700000070.0)})
    run(_EXPORT, "slurm")
    [old], [task] = (read_records(run.store, job) for job in ("4711", "4700_3"))
    assert old["job"]["user"] is None
    assert ("alice", "physics", "COMPLETED", "ruby") == (
        task["job"]["user"], *(task["batch"][name] for name in ("account", "outcome", "cluster")))
    assert [task] == read_records(run.store, "4700")                # by its array


@pytest.mark.parametrize("line", [
    "lustre,fs=scratch,job=4711,server=oss",
    "lustre,fs=scratch,job=4711,server=tape iops=23i 1700000000",
    "lustre,fs=scratch,server=oss iops=23i 1700000000",
    "lustre,fs=scratch,job=4711,server=oss iops=-23i 1700000000",
    "lustre,fs=scratch,job=4711,server=oss iops=23.7 1700000000",
    "lustre,fs=scratch,job=4711,server=oss iops=9223372036854775808i 1700000000",
    "lustre,fs=scratch,job=4711,server=oss iops=23i 23"])
def test_a_point_with_another_format_is_named_and_nothing_is_stored(run, line):
    status, out, errors = run(f"{_EXPORT}{line}\n")
    assert (2, "") == (status, out)
    assert "points, line 11: expected a point of jobHarvest: " in errors and line[:60] in errors
    assert run(_EXPORT)[1].startswith("2 jobs imported")


def test_an_export_without_points_and_a_missing_file_have_one_line_each(run, capsys):
    assert (2, "", "iostats: iostats import: expected points of measurement `lustre`, got none\n"
            ) == run("# nothing\n")
    assert 1 == command.main(["/nonexistent/points"])
    assert "iostats: /nonexistent/points: No such file or directory\n" == capsys.readouterr().err
