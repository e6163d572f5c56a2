"""
A job's page is made of what the site's server answers; here a stand-in answers.
"""
from __future__ import annotations

import page_records

from iostats.base.config import Config
from iostats.report import job_fields
from iostats.web.asking import PageError
from iostats.web.pages import Pages
from iostats.web.who import Asker

ALICE = Asker("alice")


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

    def rights(self, asker):
        return {"user": asker.user, "all": False}

    def ask(self, asker, method, params):
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
    answer = pages.answer("GET", "/job/100_3", "", ALICE)
    assert 200 == answer.status, answer.body
    assert ["100_3", "1002", "89"] == pages.site.asked


def test_a_number_that_is_none_is_a_line_and_no_internal_error():
    """JSON has 1e400, of which Python makes what no integer can be."""
    pages = Pages(Config())
    jobs = dict.fromkeys(job_fields.NAMES, "")
    pages.site = SiteOfTest({**jobs, "job_id": "4711", "file_systems": [], "source": "nodes",
                             "too_low": [], "opens": float("inf")})
    answer = pages.answer("GET", "/jobs", "", ALICE)
    assert 503 == answer.status
    assert (b"the site&#39;s server answers in another form: a job cannot be shown; use one "
            b"release of iostats here and there") in answer.body
