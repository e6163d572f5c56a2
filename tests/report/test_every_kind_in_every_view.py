"""
One job that used NFS, GPFS, CephFS and local disks beside Lustre: each view has the bytes of each,
with the same mark.

What else a report has to say of them, and the test that holds it:

    requests sent again, small ones, metadata, a slow disk         test_findings_nfs.py
    small calls, opens, one node: GPFS, CephFS, NFS                test_findings_other_kinds.py
    where its time went has NFS and local disks                    test_why_nfs.py
    "not in any file system that iostats can see", in each view    test_why_nfs.py
    columns by kind                                                test_job_list.py
    jobs that used a kind                                          tests/store/test_job_index.py
    points and sums of finished jobs                               tests/sinks/test_sink_records.py
    the columns of site_jobs                                       tests/store/test_views.py
"""
import csv
import io

import pytest
from page_records import batch
from test_job_totals import llite
from trees import report

from iostats.base.config import Config
from iostats.report import job_fields, job_list, job_tables
from iostats.report.diff.numbers import read_numbers
from iostats.report.html.page import make_page
from iostats.report.job_summary import BITS, make_summary, split_bits
from iostats.report.json_and_csv import format_csv
from iostats.sinks.influxdb.lines import format_finished_jobs
from iostats.sinks.prometheus.page import FINISHED
from iostats.sinks.records import FinishedJobs
from iostats.store.views import VIEWS
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals
from iostats.totals.kinds import KINDS
from iostats.web import jobs_page

MIB = 1 << 20
# (kind, name as mounted, as text read, written; bytes of both)
USED = (
    ("nfs", "nfs1:/home", "<= 41.0 MiB", "43.0 MiB", 41, 43),
    ("gpfs", "site:projects", "47.0 MiB", "53.0 MiB", 47, 53),
    ("cephfs", "cephfs:28f7427e", "<= 59.0 MiB", "61.0 MiB", 59, 61),
    ("disk", "local disks", "67.0 MiB", ">= 71.0 MiB", 67, 71),
)


@pytest.fixture(scope="module")
def record():
    """With O_DIRECT on NFS, calls on GPFS, holes in CephFS' files, and LUKS over a disk."""
    totals = Totals("4711", 1)
    totals.add(report("nid1", [
        llite(read_bytes=23, write_bytes=37),
        Delta("nfs", "nfs1:/home", "", "0:41", {
            "read_bytes": 41 * MIB, "write_bytes": 43 * MIB, "direct_read_bytes": 1}, False, ""),
        Delta("gpfs", "site:projects", "", "", {
            "read_bytes": 47 * MIB, "write_bytes": 53 * MIB, "read_calls": 7}, False, ""),
        Delta("ceph", "cephfs:28f7427e", "", "client7", {
            "network_read_bytes": 59 * MIB, "network_write_bytes": 61 * MIB}, False, ""),
        Delta("cgroup_io", "local disks", "", "job", {
            "sda_read_bytes": 67 * MIB, "sda_write_bytes": 71 * MIB, "dm-0_write_bytes": MIB},
              False, "")]))
    return job_tables.add_labels(totals.record().replaced(batch=batch()), Config())


def test_this_list_has_each_kind():
    assert {kind.name for kind in KINDS} == {used[0] for used in USED}


@pytest.mark.parametrize("used", USED, ids=lambda used: used[0])
class TestEachView:
    """Of each kind."""

    @pytest.mark.parametrize("form", ["grid", "blocks", "markdown"])
    @pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
    def test_a_report(self, record, used, form, long):
        _, name, read, written, *_ = used
        text = job_tables.format_report(record, Config(), form, long)
        words = " ".join(text.replace("|", " ").split())
        assert f"{name} {read} {written}" in words, text

    def test_a_page(self, record, used):
        _, name, read, written, *_ = used
        page = make_page(record, Config(), []).replace("&lt;", "<").replace("&gt;", ">")
        row = page[page.index(f'<tr><th scope="row"><bdi>{name}</bdi></th>'):]
        cells = row[:row.index("</tr>")]
        assert f">{read}</td>" in cells and f">{written}</td>" in cells, cells

    def test_a_list_of_jobs(self, record, used):
        kind, _, read, written, *_ = used
        summary = make_summary(record)
        low, high = split_bits(summary.lower_bound)
        row = {**summary._asdict(), "lower_bound": False, "too_low": low, "too_high": high}
        assert [read, written] == [job_list.format_cell(row, job_fields.find_field(name, "-o"))
                                   for name in job_fields.OF_KIND[kind]]

    def test_csv_and_a_comparison_have_the_bytes(self, record, used):
        _, name, *_, read, written = used
        rows = list(csv.DictReader(io.StringIO(format_csv(record))))
        found = {int(row["value"]) for row in rows if row["file_system"] == name and row["value"]}
        assert {read * MIB, written * MIB} <= found
        assert {int("<=" in used[2])} == {int(row["upper_bound"]) for row in rows if (
            row["file_system"], row["value"]) == (name, str(read * MIB))}
        numbers = read_numbers(record, "4711").numbers
        assert {read * MIB, written * MIB} <= {
            bound for (fs, _), of in numbers.items() if fs == name for bound in of[:2]}

    def test_sinks(self, record, used):
        kind, name, read, written, *amounts = used
        [line] = [line for line in format_finished_jobs([record]) if f"kind={kind} " in line]
        moved, marks = [amount * MIB for amount in amounts], read + written
        assert f"read_bytes={moved[0]}i,write_bytes={moved[1]}i" in line
        assert f"lower_bound={int('>=' in marks)}i,upper_bound={int('<=' in marks)}i" in line
        finished = FinishedJobs()
        finished.add([record])
        assert moved == [finished.totals[name, kind][metric]
                         for metric in ("read_bytes", "write_bytes")]
        assert finished.totals[name, kind].keys() <= FINISHED.keys()

    def test_sql_and_the_page_of_jobs_have_columns(self, used):
        kind = used[0]
        [view] = [view for view in VIEWS if view.name == "site_jobs"]
        columns = {column.name: column.sql for column in view.columns}
        for metric in ("read_bytes", "write_bytes"):
            low, high = BITS[f"{kind}_{metric}"]
            assert (f"{kind}_{metric}", f"(lower_bound & {low}) != 0",
                    f"(lower_bound & {high}) != 0") == tuple(
                columns[f"{kind}_{metric}{end}"] for end in ("", "_too_low", "_too_high"))
        assert kind in dict(jobs_page._TYPES)
        assert {name for name, _ in jobs_page._select_columns([kind])} >= set(
            job_fields.OF_KIND[kind]) <= jobs_page._TITLES.keys()
