"""
The routes, headers and errors of the pages, by Starlette's TestClient; test_web_access.py has the
same over a network, from several users.
"""
from __future__ import annotations

import os

import pytest
from page_client import client_of

from iostats.base.config import Config
from iostats.web.pages import Pages
from iostats.web.site_calls import PageError


class SiteOfTest:
    """Knows no job; `failure` is raised by the next calls."""

    failure = None

    def rights(self, viewer):
        return {"user": viewer.user, "all": False}

    def get_cached_rights(self, viewer):
        return self.rights(viewer)

    def ask(self, viewer, method, params):
        if self.failure:
            raise self.failure
        return {"jobs": [], "next": None}


@pytest.fixture
def pages():
    found = Pages(Config())
    found.site = found.shared._site = SiteOfTest()
    return found


@pytest.mark.parametrize("failure, status", [
    (None, 200), (PageError(403, "for staff"), 403), (PageError(503, "make_error"), 503),
    (KeyError("a fault of ours"), 500)])
def test_every_answer_has_the_headers_that_protect_a_browser(pages, failure, status):
    """Also an internal error, which Starlette answers outside of all middleware."""
    pages.site.failure = failure
    answer = client_of(pages, "alice").get("/jobs")
    assert status == answer.status_code
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    assert "nosniff" == answer.headers["x-content-type-options"]
    assert "private, no-store" == answer.headers["cache-control"]
    assert "a fault of ours" not in answer.text


def test_an_internal_error_is_one_line_that_asks_to_report_it(pages):
    pages.site.failure = KeyError(23)
    answer = client_of(pages, "alice").get("/jobs")
    assert ('<p class="message" role="alert">internal error; please report it to the '
            'administrators of these pages</p>') in answer.text


@pytest.mark.parametrize("path", ["/jobs/", "/job", "/nodes/up", "/now/live/x", "/jobsx", "/api"])
def test_a_path_that_is_no_page_is_not_found_and_not_redirected(pages, path):
    """A redirect would lead to the Host of the request."""
    answer = client_of(pages, "alice").get(path)
    assert 404 == answer.status_code and "there is no such page" in answer.text


@pytest.mark.parametrize("path", ["/jobs", "/static/site.css", "/static/report.css", "/"])
def test_nothing_can_be_changed(pages, path):
    answer = client_of(pages, "alice").post(path)
    assert (405, "GET, HEAD") == (answer.status_code, answer.headers["allow"])
    assert "these pages can only be read" in answer.text


def test_a_file_is_sent_once_and_then_only_its_absence_of_changes(pages):
    """304, by its ETag; for everyone, also for unknown users."""
    client = client_of(pages)
    first = client.get("/static/site.css")
    assert 200 == first.status_code and "public, max-age=86400" == first.headers["cache-control"]
    again = client.get("/static/site.css", headers={"If-None-Match": first.headers["etag"]})
    assert (304, b"") == (again.status_code, again.content)
    assert 403 == client.get("/jobs").status_code


def test_a_head_of_the_live_page_opens_no_stream(pages):
    answer = client_of(pages, "alice").head("/now/live?by=job")
    assert 200 == answer.status_code
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_long_page_is_sent_in_parts_of_64_kib(pages):
    """So that a slow reader takes little memory, and has a minute for each of them."""
    import asyncio

    from iostats.web.asgi import _SafeAnswers
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(150_000)})

    async def send(message):
        sent.append(message)
    asyncio.run(_SafeAnswers(app)({"type": "http"}, None, send))
    assert [(65_536, True), (65_536, True), (18_928, False)] == [
        (len(message["body"]), message["more_body"]) for message in sent[1:]]


def test_in_open_ondemand_the_pages_are_below_its_path_without_streams(pages, monkeypatch):
    from iostats.base import logs
    from iostats.web import wsgi
    monkeypatch.setattr(os, "geteuid", lambda: 23)
    monkeypatch.setattr(logs, "log_to_stderr", lambda level: None)
    monkeypatch.setattr(wsgi.site, "load", Config)
    made = []

    def pages_of(config, base):
        made.append(Pages(config, base))
        made[-1].site = SiteOfTest()
        return made[-1]
    monkeypatch.setattr(wsgi, "Pages", pages_of)
    app, started = wsgi.OnDemandApp(), []

    def get(path, method="GET"):
        body = b"".join(app({"REQUEST_METHOD": method, "SCRIPT_NAME": "/pun/sys/iostats",
                             "PATH_INFO": path, "QUERY_STRING": "since=now-1day"},
                            lambda status, headers: started.append((status, dict(headers)))))
        return started[-1][0], body
    status, body = get("/jobs")
    assert "200 OK" == status and b'href="/pun/sys/iostats/now"' in body
    assert "default-src 'none'" in started[-1][1]["content-security-policy"]
    assert "/pun/sys/iostats/jobs" == (get("/"), started[-1][1]["location"])[1]
    assert "404 Not Found" == get("/now/live")[0]
    assert ("200 OK", b"") == get("/jobs", "HEAD")
    assert "405 Method Not Allowed" == get("/jobs", "POST")[0]
    assert 1 == len(made)
    made[0].site.failure = KeyError(37)
    assert "500 Internal Server Error" == get("/jobs")[0]
