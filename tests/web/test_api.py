"""
The JSON API against its document: what the site's server answers, here a stand-in, comes through
with the same members and numbers, and fits docs/reference/openapi.json.
"""
from __future__ import annotations

import json

import jsonschema
import page_records
import pytest
from page_client import client_of
from processes import REPOSITORY

from iostats.base.config import Config
from iostats.report import job_fields
from iostats.web.pages import Pages
from iostats.web.site_calls import PageError

DOCUMENT = json.loads((REPOSITORY / "docs/reference/openapi.json").read_text())
JOB = {**dict.fromkeys(name for name in job_fields.NAMES if name),
       **dict.fromkeys(("job_id", "raw_job_id"), "4711"), "name": "relax", "user": "alice",
       "account": "", "partition": "batch", "cluster": "c1", "outcome": "COMPLETED",
       "exit_code": "0:0", "attempt": 0, "started": 1_795_266_724.5, "ended": 1_795_268_591.5,
       "elapsed_s": 1867.0, "nodes": 16, "reported": 16, "shared": 0, "file_systems": ["scratch"],
       "read_bytes": 41_003, "write_bytes": 2**53 + 1, "opens": 23, "creates": 0,
       "lower_bound": True, "too_low": ["opens"], "too_high": [], "source": "nodes",
       "net_lower_bound": False, "server_lower_bound": False, "by_node_why": "", "data_lost": "",
       "final": True}
LINE = {"began": 1_795_266_720.0, "every_s": 30.0, "amounts": {"write_bytes": [23, None, 41]},
        "known": [1.0, 0.0, 0.5], "unplaced": {"write_bytes": 37}}
HISTORY = {"began": 1_795_266_724.5, "ended": None, "has": ["harvest"],
           "why_not": {"watch": "no node ran `iostats watch`"},
           "file_systems": [{"name": "scratch", "job": LINE, "all": None}],
           "targets": [{"file_system": "scratch", "target": "OST0007", "job": LINE, "all": LINE,
                        "others": [{"job": "4713", "user": "bob", "line": LINE}]}]}
EVENT = {"id": "8c1d0f3a5be2a417", "time": 1795333379.2, "last": 1795333379.9, "over": None,
         "severity": 2, "kind": "evicted", "cause": "silent", "node": "oss1",
         "file_system": "scratch", "target": "scratch-OST0003", "clients": ["10.9.0.11@o2ib2"],
         "count": 1, "skipped": 0, "message": "haven't heard from client",
         "clients_names": ["nid00007"]}
NODE = {"node": "nid00007", "nids": ["10.9.0.11@o2ib2"], "nid_count": 1,
        "file_systems": ["scratch"], "read_bytes": 41, "write_bytes": 43, "reads": 2, "writes": 3,
        "ost_operations": 5, "mdt_operations": 7, "requests": 17, "at_most": {"read_bytes": 47},
        "lower_bound": False, "notes": [], "lnet_waiting": 53, "lnet_lowest": -59}
NO_JOB = {"write_bytes_per_s": 0, "read_bytes_per_s": 0, "requests_per_s": 5, "metadata_per_s": 0}
LOAD = {"file_system": "scratch", "write_bytes_per_s": 23.5, "read_bytes_per_s": 37,
        "requests_per_s": 20, "metadata_per_s": None, "targets": 4,
        "missing": {"OST0007": "silent"},
        "lower_bound": True, "no_job": NO_JOB, "no_job_share": 0.25, "rates_estimated": False}
LOADS = {"at": 1_795_266_740.0, "span_s": 20.0, "is_old": False, "newest_reading_s": 2.3,
         "oldest_reading_s": None, "file_systems": [LOAD]}
LINES = {"name": "scratch", "all": LINE, "targets": [{"target": "OST0007", "line": LINE}],
         "jobs": [{"job": "", "user": "", "line": LINE}]}


class SiteOfTest:
    """Answers as the site's server; `asked`: [(user, method, params)]."""

    def __init__(self):
        record, _ = page_records.small()
        self.record = record.replaced(
            job=record.job.replaced(id="4711", user="alice"),
            batch=page_records.batch(tasks=64, cpus=None))
        self.asked = []
        self.answers = {
            "record": [self.record], "jobs": {"jobs": [JOB], "next": [["1795266724.5"], "4711"]},
            "job_history": HISTORY, "file_system_lines": LINES, "load": {**LOADS, "kind": "rates"},
            "events": {"events": [{**EVENT, "place": 23}], "next": 23, "more": False, "dropped": 0,
                       "of_user": "alice", "places": "x", "time": 1_795_333_400.0},
            "nodes": {"since": 1_795_266_000.0, "until": 1_795_266_740.0, "nodes": [NODE],
                      "swept": 1_795_266_740.0, "count": 2, "next": 1}}

    def rights(self, viewer):
        return {"user": viewer.user, "all": False}

    def ask(self, viewer, method, params):
        self.asked.append((viewer.user, method, params))
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def pages():
    found = Pages(Config())
    found.site = found.shared._site = SiteOfTest()
    return found


def fitting(path, answer):
    """The decoded answer, which fits the document."""
    assert 200 == answer.status_code, answer.text
    assert "application/json" == answer.headers["content-type"]
    check(answer.json(), DOCUMENT["paths"][path]["get"]["responses"]["200"])
    return answer.json()


def check(value, response):
    [content] = response["content"].values()
    jsonschema.Draft202012Validator(
        {**content["schema"], "components": DOCUMENT["components"]}).validate(value)


SINCE = 1_795_266_000.0


@pytest.mark.parametrize("path, query, expected", [
    ("/jobs", "since=uts1795266000&limit=1", {
        "schema": 1, "since": SINCE, "until": None, "jobs": [JOB],
        "next": '[["1795266724.5"],"4711"]'}),
    ("/jobs/{job}/series", "", HISTORY),
    ("/events", "since=uts1795266000", {"schema": 1, "since": SINCE, "until": None,
                                        "events": [EVENT], "dropped": 0, "of_user": "alice"}),
    ("/nodes", "since=uts1795266000", {
        "schema": 1, "since": SINCE, "until": 1_795_266_740.0, "swept": 1_795_266_740.0,
        "nodes": [NODE], "count": 2, "next": 1}),
    ("/file_systems", "", LOADS),
    ("/file_systems/{name}/series", "", LINES)])
def test_an_answer_has_the_members_and_numbers_of_the_sites_server(pages, path, query, expected):
    """An integer above 2**53 stays one, a null is none, and what is not documented is left out."""
    address = path.replace("{job}", "4711").replace("{name}", "scratch")
    answer = client_of(pages, "alice").get(f"/api/v1{address}?{query}")
    assert expected == fitting(path, answer)


def test_a_job_is_its_record_as_of_iostats_report(pages):
    """The same object as /job/4711?format=json, and as the file of `--json`."""
    client = client_of(pages, "alice")
    answer = fitting("/jobs/{job}", client.get("/api/v1/jobs/4711"))
    assert {"schema": 1, "runs": [client.get("/job/4711?format=json").json()]} == answer
    assert "4711" == answer["runs"][0]["job"]["id"]


def test_the_parameters_are_those_of_the_pages(pages):
    client = client_of(pages, "alice")
    pages.site.answers["jobs"] = {"jobs": [JOB], "next": None}
    client.get("/api/v1/jobs?user=bob&sort=-WriteBytes&limit=23&events=1")
    client.get("/api/v1/jobs/4711/series?cluster=c1&run=2")
    client.get("/api/v1/nodes?nodes=nid[1-2]&fs=scratch&limit=37&after=41")
    (_, _, jobs), (_, _, series), (_, _, nodes) = pages.site.asked
    assert (["bob"], "write_bytes", True, 23, True) == (
        jobs["users"], jobs["sort"], jobs["descending"], jobs["limit"], jobs["hit"])
    assert {"job": "4711", "cluster": "c1", "attempt": 2} == series
    assert (["nid1", "nid2"], "scratch", 37, 41) == (
        nodes["nodes"], nodes["file_system"], nodes["count"], nodes["after"])
    assert {"alice"} == {user for user, _, _ in pages.site.asked}


@pytest.mark.parametrize("path, failure, status, detail", [
    ("/nodes", PageError(403, "expected root or one of [site] readers"), 403,
     "expected root or one of [site] readers"),
    ("/jobs?limit=x", None, 400, "limit: expected a number from 1 to 5000, got 'x'"),
    ("/jobs/" + "9" * 200, None, 400, None), ("/no/such", None, 404, "there is no such page"),
    ("/jobs", KeyError(23), 500, "internal error; please report it to the administrators of these "
                                 "pages")])
def test_an_error_is_a_problem_of_rfc_9457(pages, path, failure, status, detail):
    if failure is not None:
        pages.site.answers["nodes"] = pages.site.answers["jobs"] = failure
    answer = client_of(pages, "alice").get("/api/v1" + path)
    assert status == answer.status_code == answer.json()["status"]
    assert "application/problem+json" == answer.headers["content-type"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    check(answer.json(), DOCUMENT["paths"]["/jobs"]["get"]["responses"]["default"])
    if detail is not None:
        assert detail == answer.json()["detail"]


def test_an_unknown_job_and_an_unknown_user_get_no_data(pages):
    pages.site.answers["record"] = []
    answer = client_of(pages, "alice").get("/api/v1/jobs/4713")
    assert 404 == answer.status_code
    assert answer.json()["detail"].startswith("no job 4713 that you may see is known here;")
    pages.site.asked.clear()
    assert 403 == client_of(pages).get("/api/v1/jobs").status_code
    assert [] == pages.site.asked


def test_nothing_can_be_changed(pages):
    answer = client_of(pages, "alice").post("/api/v1/jobs")
    assert (405, "GET, HEAD") == (answer.status_code, answer.headers["allow"])


def test_an_answer_of_an_unexpected_form_is_none_with_wrong_numbers(pages):
    pages.site.answers["nodes"] = {**pages.site.answers["nodes"],
                                   "nodes": [{**NODE, "read_bytes": "41"}]}
    answer = client_of(pages, "alice").get("/api/v1/nodes")
    assert 503 == answer.status_code
    assert "unexpected format of the site's server's answer" in answer.json()["detail"]


def test_the_document_is_served_and_names_each_operation(pages):
    from iostats.web import api
    assert DOCUMENT == client_of(pages, "alice").get("/api/v1/openapi.json").json()
    assert {one.path for one in api.OPERATIONS} == set(DOCUMENT["paths"])
    named = {name for one in api.OPERATIONS for name in one.parameters}
    assert named == set(api.PARAMETERS)
