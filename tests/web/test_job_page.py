"""
A job's page is made of what the site's server answers; here a stand-in answers.
"""
from __future__ import annotations

import page_records
from page_client import client_of

from iostats.base.config import Config
from iostats.report import job_fields
from iostats.web.pages import Pages
from iostats.web.site_calls import PageError


def row(shown_as, raw_job, **fields):
    return {"name": "solve", "job_id": shown_as, "raw_job_id": raw_job, "cluster": "c1",
            "attempt": 0, "outcome": "COMPLETED", **fields}


class SiteOfTest:
    """Knows task 100_3 of an array, and a list of jobs; keeps which records it was asked for."""

    def __init__(self, *rows):
        self.rows, self.asked = rows, []
        record, _ = page_records.small()
        self.record = record.replaced(
            job=record.job.replaced(id="100_3", user="alice"),
            batch=page_records.batch(name="solve", raw_job="103", array_job="100"))

    def rights(self, viewer):
        return {"user": viewer.user, "all": False}

    def ask(self, viewer, method, params):
        if method == "jobs":
            return {"jobs": list(self.rows), "next": None}
        if method != "record":
            raise PageError(403, "nothing of it was kept")
        self.asked.append(params["job"])
        return [self.record] if params["job"] == "100_3" else []


def test_it_is_compared_with_the_same_runs_as_by_the_command():
    """Not with other tasks of its array, which one cause may have hit as well."""
    pages = Pages(Config())
    pages.site = SiteOfTest(
        row("100_2", "102"), row("1000_2", "1002"), row("90", "90", outcome="failed"),
        row("89", "89"), row("100_3", "103"), row("88", "88", name="other"))
    answer = client_of(pages, "alice").get("/job/100_3")
    assert 200 == answer.status_code, answer.text
    assert ["100_3", "1002", "89"] == pages.site.asked


def test_a_number_that_is_none_is_a_line_and_no_internal_error():
    """JSON has 1e400, of which Python makes what no integer can be."""
    pages = Pages(Config())
    jobs = dict.fromkeys(job_fields.NAMES, "")
    pages.site = SiteOfTest({**jobs, "job_id": "4711", "file_systems": [], "source": "nodes",
                             "too_low": [], "opens": float("inf")})
    answer = client_of(pages, "alice").get("/jobs")
    assert 503 == answer.status_code
    assert (b"unexpected format of the site&#39;s server&#39;s answer: a job cannot be shown; "
            b"use the same release of iostats here and there") in answer.content


def test_a_list_by_kind_of_file_system_has_its_bytes():
    """A job that read 41 MiB from NFS was listed with 0 bytes, those from Lustre."""
    pages = Pages(Config())
    jobs = {field.name: {"text": "", "names": []}.get(field.kind) for field in job_fields.FIELDS}
    pages.site = SiteOfTest({**jobs, "job_id": "4711", "file_systems": [], "source": "nodes",
                             "too_low": [], "read_bytes": 0, "nfs_read_bytes": 41 << 20})
    page = client_of(pages, "alice").get("/jobs?fs_type=nfs").text
    assert "Read from NFS" in page and "41.0 MiB" in page and "Written to NFS" in page
    assert "0 bytes" not in page
