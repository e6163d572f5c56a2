"""
Who is asking, and what is answered: over HTTP, from the real `iostats web` of a user who is not
root, which asks a real site's server.  docs/explanation/security.md names these tests.
"""
from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import until
from site_desk import SLURM, a_report, slurm_job, squeue
from web_desk import HEADER, WEB_USER, WebDesk, as_user

pytestmark = [pytest.mark.root, pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root, to be several users")]

# Users of every machine: alice is "games", bob is "news", and "daemon" is one of [site] readers.
ALICE, BOB, READER = "games", "news", "daemon"
UID = {ALICE: 5, BOB: 9, READER: 1}
EVIL = "<script>alert(23)</script>"


@pytest.fixture(scope="module")
def web():
    """Two jobs of alice and one of bob, with a hostile name; the pages."""
    with WebDesk() as one:
        one.configure(site_readers=f"root {READER}")
        one.site()
        now = time.time()
        jobs = (("4711", ALICE, "relax", 41_003), ("4713", BOB, EVIL, 53_007),
                ("4717", ALICE, "\u202egnp.exe", 37_019))
        squeue(one, *(slurm_job(job, name=name, user_name=user, user_id=UID[user],
                                start_time=int(now) - 97, end_time=int(now) - 60)
                      for job, user, name, _ in jobs))
        for job, user, _, read in jobs:
            one.send(a_report(job, "nid1", job, read_bytes=read, ended=now - 60, about={
                **SLURM, "user": user}))
        until(lambda: len(one.asked("jobs")["jobs"]) == 3, what="three records")
        one.web()
        yield one


def jobs_on(response):
    """The jobs that a page lists."""
    assert 200 == response.status, response.text
    return sorted(set(re.findall(r'href="/job/(\d+)"', response.text)))


# -- the header of the site's proxy ---------------------------------------------------------------

def test_a_user_sees_his_own_jobs_and_a_reader_all(web):
    assert ["4711", "4717"] == jobs_on(web.get("/jobs?since=now-1day", ALICE))
    assert ["4713"] == jobs_on(web.get("/jobs?since=now-1day", BOB))
    assert ["4711", "4713", "4717"] == jobs_on(web.get("/jobs?since=now-1day", READER))
    assert ["4713"] == jobs_on(web.get(f"/jobs?since=now-1day&user={BOB}", READER))


def test_a_user_who_asks_for_anothers_jobs_is_told_so(web):
    response = web.get(f"/jobs?since=now-1day&user={BOB}", ALICE)
    assert 403 == response.status and "expected your own jobs, of user games" in response.text


@pytest.mark.parametrize("headers", [
    [], [f"{HEADER}: "], [f"{HEADER}: {ALICE}", f"{HEADER}: {ALICE}"],
    [f"{HEADER}: {ALICE}", f"{HEADER.lower()}: {READER}"], [f"{HEADER}: {ALICE}, {READER}"],
    [f"{HEADER}: {ALICE} {READER}"], [f"{HEADER}: no_such_user"], [f"{HEADER}: root"],
    [f"{HEADER}: 1"], [f"{HEADER}: {EVIL}"], [f"{HEADER}: {'a' * 300}"], ["Remote-User: daemon"],
    [f"{HEADER}: \u00e9"]],
    ids=["none", "empty", "two", "two kinds", "a list", "two words", "unknown", "root", "a number",
         "markup", "long", "another header", "a letter"])
def test_a_user_who_is_not_told_by_one_header_gets_one_line(web, headers):
    response = web.get("/jobs?since=now-1day", headers=headers)
    assert 403 == response.status and "/job/" not in response.text
    [line] = re.findall(r'<p class="message" role="alert">(.*)</p>', response.text)
    assert line and EVIL not in response.text


def test_a_header_from_elsewhere_is_refused_and_not_passed_over(web):
    """Nor does X-Forwarded-For change where a request comes from."""
    with WebDesk() as other:
        other.choices.update(web.choices)
        other.configure(web_trusted="127.0.0.9", web_listen=f"127.0.0.1:{other.web_port}",
                        web_socket=str(other.web_socket))
        other.site_secret = web.site_secret
        other.web()
        for headers in ([], ["X-Forwarded-For: 127.0.0.9"], ["Forwarded: for=127.0.0.9"]):
            response = other.get("/jobs", READER, headers=headers)
            assert 403 == response.status
            assert "is accepted only from the site&#39;s proxy" in response.text
            assert 403 == other.get("/jobs", headers=headers).status
        assert 200 == other.get("/static/site.css").status


@pytest.mark.parametrize("job", ["4713", "4799"], ids=["another's", "not over"])
def test_a_job_that_has_no_page_is_one_line_that_says_where_it_may_be(web, job):
    """The page Now, among others, has links to jobs that still run."""
    response = web.get(f"/job/{job}", ALICE)
    assert 404 == response.status
    assert ["no job %s that you may see is known here; a job is shown after its end, when its "
            "nodes have reported, and during its run on the page Now" % job] == re.findall(
                r'<p class="message" role="alert">(.*)</p>', response.text)


def test_a_file_that_there_is_not_tells_nothing_to_one_who_is_not_known(web):
    """It said "Signed in as", with the user of the pages themselves, and all jobs."""
    response = web.get("/static/nothing")
    assert 404 == response.status and "there is no such file" in response.text
    assert "Signed in" not in response.text


# -- the local socket -----------------------------------------------------------------------------

def test_at_the_socket_the_kernel_says_who_asks(web):
    assert ["4711", "4717"] == jobs_on(web.get_as(UID[ALICE], "/jobs?since=now-1day"))
    assert ["4711", "4713", "4717"] == jobs_on(web.get_as(UID[READER], "/jobs?since=now-1day"))


def test_at_the_socket_a_header_is_refused(web):
    response = web.get_as(UID[ALICE], "/jobs", [f"{HEADER}: {READER}"])
    assert 403 == response.status and "is accepted only from the site" in response.text


def test_at_the_socket_root_and_an_unknown_user_get_one_line(web):
    assert "root cannot use these pages; use the commands (iostats jobs)" in web.get(
        "/jobs", unix=True).text
    assert "there is no user 54321 here" in web.get_as(54321, "/jobs").text


def test_a_proxy_at_the_socket_tells_who_asks(web):
    """Where users can log in to the host, 127.0.0.1 is everybody's."""
    with WebDesk() as other:
        other.choices.update(web.choices)
        other.configure(web_trusted="user:www-data", web_listen="",
                        web_socket=str(other.web_socket))
        other.site_secret = web.site_secret
        other.web()
        assert ["4713"] == jobs_on(other.get_as(33, "/jobs?since=now-1day", [f"{HEADER}: {BOB}"]))
        assert 403 == other.get_as(33, "/jobs").status
        assert 403 == other.get_as(UID[ALICE], "/jobs", [f"{HEADER}: {BOB}"]).status
        assert ["4711", "4717"] == jobs_on(other.get_as(UID[ALICE], "/jobs?since=now-1day"))


def test_below_a_path_of_the_proxy_all_links_have_it(web):
    """Whether the proxy takes the path away or not."""
    with WebDesk() as other:
        other.choices.update(web.choices)
        other.configure(web_prefix="/iostats", web_listen=f"127.0.0.1:{other.web_port}",
                        web_socket=str(other.web_socket))
        other.site_secret = web.site_secret
        other.web()
        for path in ("/iostats/jobs?since=now-1day", "/jobs?since=now-1day"):
            text = other.get(path, ALICE).text
            assert 'href="/iostats/job/4711"' in text and 'href="/iostats/now"' in text
            assert not re.search(r'(?:href|src|action)="/(?!iostats/)', text)
        assert "/iostats/jobs" == other.get("/iostats/", ALICE).headers["location"]
        assert 404 == other.get("/iostatsx/jobs", ALICE).status


# -- the process ----------------------------------------------------------------------------------

def test_it_never_runs_as_root(web):
    done = web.web_that_ends(user=None)
    assert (2, "iostats: iostats web does not run as root: start it as a user of its own who is "
               "one of [site] readers (User= in its unit: make install-web)\n") == (
        done.status, done.err)


def test_the_pages_of_these_tests_are_of_another_user():
    """Of all that root may do, only what starts a Python below /root: reading and searching."""
    with WebDesk() as one:
        one.site()
        status = dict(line.split(":\t", 1) for line in Path(
            f"/proc/{one.web().pid}/status").read_text().splitlines())
    for name in ("Uid", "Gid"):
        assert [WEB_USER] * 4 == [int(word) for word in status[name].split()]
    assert [] == status["Groups"].split()
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert 1 << 2 == int(status[name], 16)                  # CAP_DAC_READ_SEARCH


@pytest.mark.parametrize("choices, message", [
    ({"web_user_header": ""}, "[web] trusted: expected [web] user_header with it"),
    ({"web_user_header": "", "web_trusted": ""}, "[web] listen: expected [web] user_header and"),
    ({"web_trusted": ""}, "[web] user_header: expected [web] trusted with it"),
    ({"web_trusted": "0.0.0.0/0"}, "expected the proxy's own addresses, got a range of all"),
    ({"web_trusted": "proxy1"}, "[web] trusted: expected addresses and ranges of the proxy"),
    ({"web_trusted": "user:no_such"}, "expected the name of a user after user:, got 'no_such'"),
    ({"web_listen": "", "web_socket": ""}, "expected [web] listen or socket in site.cfg"),
    ({"web_listen": "127.0.0.1"}, "[web] listen: expected HOST:PORT, got '127.0.0.1'"),
    ({"web_prefix": "iostats"}, "[web] prefix: expected a path such as /iostats"),
    ({"web_user_header": "X Y"}, "[web] user_header: expected the name of a header")])
def test_what_site_cfg_has_wrong_is_a_line(web, choices, message):
    with WebDesk() as other:
        other.choices.update(web.choices)
        other.configure(**{"web_socket": str(other.web_socket), **choices})
        done = other.web_that_ends()
        assert 2 == done.status and message in done.err and 1 == done.err.count("\n"), done.err


# -- what is answered -----------------------------------------------------------------------------

PATHS = ("/jobs?since=now-1day", "/job/4711", "/static/site.css", "/no/such/page", "/")


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_headers_that_keep_a_browser_safe(web, path):
    response = web.get(path, ALICE)
    assert "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; " \
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'" == (
            response.headers["content-security-policy"])
    assert "nosniff" == response.headers["x-content-type-options"]
    assert "same-origin" == response.headers["referrer-policy"]
    assert response.headers.get("cache-control", "private").startswith(
        "public" if "static" in path else "private")
    assert "server" not in response.headers and "set-cookie" not in response.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"])
def test_pages_can_only_be_read(web, method):
    response = web.get("/jobs", ALICE, method=method, headers=["Content-Length: 0"])
    if method == "HEAD":
        assert (200, "") == (response.status, response.text)
        assert int(response.headers["content-length"]) > 1000
    else:
        assert 405 == response.status and "GET, HEAD" == response.headers["allow"]


def test_names_of_others_are_text(web):
    """Each in a <bdi>, so that no name turns what is beside it; direction marks are visible."""
    text = web.get("/jobs?since=now-1day", READER).text
    assert EVIL not in text and "<bdi>&lt;script&gt;alert(23)&lt;/script&gt;</bdi>" in text
    assert "\u202e" not in text and "<bdi>\\x202egnp.exe</bdi>" in text


_TEXT = st.one_of(st.text(max_size=40), st.sampled_from([
    EVIL, "'\"><img src=x onerror=alert(23)>", "%00", "\x00", "..", "-1", "1e999", "9" * 40, "[",
    "]", "javascript:alert(23)", "\u202e", "null", "[[[[", "NaN", "now-9999999999weeks",
    "100_[1-999999]", "{{7*6}}", "'; DROP TABLE summaries; --"]))
_NAMES = st.sampled_from(["since", "until", "user", "state", "job", "account", "partition", "sort",
                          "cluster", "limit", "events", "lost", "runs", "after", "by", "fs", "text",
                          "show", "node", "nodes", "kind", "severity", "target", "count", "each_fs",
                          "with", "format", "run", "x"])
_PATHS = st.sampled_from(["/jobs", "/job/4711", "/job/", "/now", "/now/part", "/nodes",
                          "/nodes/down", "/events", "/fs", "/fs/scratch", "/", "/static/site.css"])


@settings(max_examples=examples(60))
@given(path=_PATHS, pairs=st.lists(st.tuples(_NAMES, _TEXT), max_size=4), more=_TEXT)
def test_a_hostile_address_is_a_line_and_is_never_reflected_as_markup(web, path, pairs, more):
    from urllib.parse import quote
    query = "&".join(f"{name}={quote(text, safe='')}" for name, text in pairs)
    for where in (f"{path}?{query}", f"{path}{'/' if more else ''}{quote(more, safe='')}"):
        response = web.get(where, READER)
        assert response.status in (200, 302, 400, 403, 404, 503), (where, response.text)
        assert "<script>alert" not in response.text and "<img src=x" not in response.text
        assert 'href="javascript:' not in response.text and "Traceback" not in response.text


@pytest.mark.parametrize("data, status", [
    (b"GET /jobs?since=%ff HTTP/1.1\r\nHost: x\r\nX-Remote-User: games\r\n", 400),
    (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nX-Remote-User: games\r\n", 404),
    (b"GET /static/../site.css HTTP/1.1\r\nHost: x\r\nX-Remote-User: games\r\n", 404),
    (b"GET /static/%2e%2e/pages.py HTTP/1.1\r\nHost: x\r\nX-Remote-User: games\r\n", 404),
    (b"GET /%ff%fe HTTP/1.1\r\nHost: x\r\nX-Remote-User: games\r\n", 404),
    (b"GARBAGE\r\n", 400)])
def test_what_is_no_address_of_ours_is_refused(web, data, status):
    end = b"Connection: close\r\n\r\n"
    assert status == web.raw(data + end).status


@pytest.mark.parametrize("path", ["/nodes?nodes=", "/events?node="])
@pytest.mark.parametrize("nodes", ["nid[1-999999999]", "r[1-999]n[1-999]", "nid[00001-10001]"])
def test_a_list_of_more_nodes_than_may_be_is_refused_at_once(web, path, nodes):
    """It is one line of an address, and is not written out: that would take all memory."""
    response = web.get(path + nodes, READER)
    assert 400 == response.status and "more than 10000 nodes" in response.text


def test_a_head_without_an_end_takes_no_memory(web):
    """64 KiB are enough for any address; more is refused before it is all there."""
    begin = f"GET /jobs HTTP/1.1\r\nHost: x\r\n{HEADER}: games\r\nA: ".encode()
    assert 200 == web.raw(begin + 60_000 * b"a" + b"\r\nConnection: close\r\n\r\n").status
    assert 400 == web.raw(begin + 70_000 * b"a").status


# -- the site's server is gone --------------------------------------------------------------------

def test_without_the_sites_server_a_page_says_so_and_recovers():
    with WebDesk() as one:
        one.configure(site_readers=f"root {READER}")
        server = one.site()
        one.web()
        assert 200 == one.get("/jobs", READER).status
        server.kill()
        response = one.get("/jobs", READER)
        assert 503 == response.status
        assert "the site&#39;s server does not answer at the moment" in response.text
        assert "127.0.0.1" not in response.text and str(one.port) not in response.text
        one.site()
        assert 200 == one.get("/jobs", READER).status


@pytest.mark.parametrize("variable, value, reason", [
    ("IOSTATS_SITE_SECRET", "/nowhere/site.secret", "/nowhere/site.secret: no secret; "),
    ("IOSTATS_SITE_HOST", "", "no site server is named ([site] host in site.cfg)")])
def test_pages_that_are_not_set_up_do_not_report_the_server_as_away(variable, value, reason):
    """Their administrator has to do something; the reason is in the log alone."""
    with WebDesk() as one:
        one.configure(site_readers=f"root {READER}", server_auth="secret")
        one.site()
        one.web(env={variable: value})
        response = one.get("/jobs", READER)
        assert 503 == response.status
        assert "these pages are not set up to call the site&#39;s server" in response.text
        assert "/nowhere" not in response.text and reason in one.web_err.read_text()


def test_it_ends_without_a_complaint_while_it_is_watched_and_asked():
    """A live page is ended; a page for which the site's server is waited for is given up."""
    with WebDesk() as one:
        one.configure(site_readers=f"root {READER}")
        server, process = one.site(), one.web()
        with one.connect() as live, one.connect() as page:
            live.sendall(f"GET /now/live HTTP/1.1\r\nHost: x\r\n{HEADER}: {READER}\r\n\r\n"
                         .encode())
            told = b""
            while b"event: " not in told:         # no storage server has told anything
                told += live.recv(1 << 16) or b"event: none"
            server.process.send_signal(signal.SIGSTOP)
            try:
                page.sendall(f"GET /jobs HTTP/1.1\r\nHost: x\r\n{HEADER}: {READER}\r\n\r\n"
                             .encode())
                until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 1, what="a thread")
                process.terminate()
                while part := live.recv(1 << 16):
                    told += part
            finally:
                server.process.send_signal(signal.SIGCONT)
            assert 0 == process.wait(60)
        assert told.endswith(b"0\r\n\r\n"), told[-100:]           # the last chunk
        assert "Traceback" not in one.web_err.read_text(), one.web_err.read_text()


# -- clients that are slow, silent or many --------------------------------------------------------

PAGES = """
import sys
from iostats.web import serve
serve._HEAD_WITHIN_S = serve._READ_WITHIN_S = {within_s}
from iostats.__main__ import main
sys.exit(main())
"""


@contextlib.contextmanager
def sixteen_connections(web, within_s):
    """Other pages of the same site, with place for 16, where one may be silent for `within_s`."""
    with WebDesk() as other:
        other.choices.update(web.choices)
        other.configure(web_listen=f"127.0.0.1:{other.web_port}", web_max_connections=16,
                        web_socket="")
        other.started.append(subprocess.Popen(
            [*as_user(WEB_USER), sys.executable, "-c", PAGES.format(within_s=within_s), "web",
             "--config", str(other.cfg)], cwd="/", stderr=subprocess.DEVNULL,
            env={**os.environ, "IOSTATS_SITE_SECRET": str(web.directory / "web.secret")}))
        until(lambda: is_answered(other), what="the pages")
        yield other


def is_answered(other):
    try:
        return other.get("/jobs", ALICE).status == 200
    except OSError:
        return False


def test_silent_and_slow_connections_are_closed_and_keep_no_others_out(web):
    with sixteen_connections(web, 0.5) as other:
        silent = [other.connect() for _ in range(20)]
        for one in silent[:10]:
            with contextlib.suppress(OSError):      # it may have been closed for another
                one.sendall(b"GET /jobs HTTP/1.1\r\nHost: x\r\n")
        until(lambda: is_answered(other), what="a place for one who reads")
        for one in silent:
            with contextlib.suppress(ConnectionResetError):
                while one.recv(65536):
                    pass                            # the end of it
            one.close()
        with other.connect() as deaf:               # asks on and on, and reads nothing
            deaf.setblocking(False)
            looked = select.poll()
            looked.register(deaf, 0)

            def is_cut_off():
                with contextlib.suppress(OSError):
                    deaf.send(b"GET /static/site.css HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
                return any(found & (select.POLLERR | select.POLLHUP) for _, found in looked.poll(0))
            until(is_cut_off, what="the end of a connection that is not read")


def test_silent_connections_make_room_for_one_who_asks(web):
    """41 are silent where 16 may be, each for an hour: the next one who asks is answered."""
    with sixteen_connections(web, 3600) as other:
        silent = [other.connect() for _ in range(41)]
        for one in silent[30:]:
            with contextlib.suppress(OSError):
                one.sendall(b"GET /jobs HTTP/1.1\r\nHost: x\r\n")
        assert [200] * 3 == [other.get("/jobs", ALICE).status for _ in range(3)]
        for one in silent:
            one.close()


# -- the JSON API ---------------------------------------------------------------------------------

def test_the_api_has_the_rights_of_the_pages(web):
    """From a real site's server, which checks each user; the rows are those of `iostats jobs`."""
    def jobs(user):
        answer = web.get("/api/v1/jobs?since=now-1day", user)
        assert 200 == answer.status, answer.text
        return {row["job_id"]: row["read_bytes"] for row in json.loads(answer.body)["jobs"]}
    assert {"4711": 41_003, "4717": 37_019} == jobs(ALICE)
    assert {"4711": 41_003, "4713": 53_007, "4717": 37_019} == jobs(READER)
    assert 403 == web.get(f"/api/v1/jobs?user={BOB}", ALICE).status
    assert 403 == web.get("/api/v1/nodes", ALICE).status
    assert 403 == web.get("/api/v1/jobs").status
    assert 404 == web.get("/api/v1/jobs/4713", ALICE).status
    [run] = json.loads(web.get("/api/v1/jobs/4711", ALICE).body)["runs"]
    assert (ALICE, "4711") == (run["job"]["user"], run["job"]["id"])
    series = json.loads(web.get("/api/v1/jobs/4711/series", ALICE).body)
    assert [] == series["file_systems"] and "harvest" in series["why_not"]


# -- what a job's page offers ----------------------------------------------------------------------

@pytest.mark.parametrize("kind, content_type, text", [
    ("json", "application/json", '"id": "4711"'), ("csv", "text/csv", "4711,scratch,application,"),
    ("html", "text/html", "Self-contained: this file loads nothing from the network.")])
def test_a_jobs_report_is_downloaded_by_those_who_may_see_it(web, kind, content_type, text):
    """As `iostats report` has it, under a name of its own."""
    assert f'href="?format={kind}"' in web.get("/job/4711", ALICE).text
    answer = web.get(f"/job/4711?format={kind}", ALICE)
    assert 200 == answer.status and text in answer.text
    assert answer.headers["content-type"].startswith(content_type)
    assert f'attachment; filename="job-4711.{kind}"' == answer.headers["content-disposition"]
    refused = web.get(f"/job/4711?format={kind}", BOB)
    assert 404 == refused.status and text not in refused.text


def test_a_job_is_compared_with_another_one_of_those_that_may_be_seen(web):
    """4717 read 37,019 bytes, 4711 41,003, both in 23 calls."""
    answer = web.get("/job/4711?with=4717", ALICE)
    assert 200 == answer.status
    assert re.search("bytes read +36.2 KiB +40.0 KiB", answer.text)
    assert "iostats diff 4717 4711" in answer.text
    assert 404 == web.get("/job/4711?with=4713", ALICE).status      # bob's
    assert 400 == web.get(f"/job/4711?with={'9' * 200}", ALICE).status
    assert 400 == web.get("/job/4711?format=exe", ALICE).status


@pytest.mark.parametrize("user, has_nodes", [(ALICE, False), (READER, True)])
@pytest.mark.parametrize("path", ["/jobs", "/job/4711", "/now", "/fs", "/events", "/docs"])
def test_the_menu_has_what_a_user_may_open(web, path, user, has_nodes):
    """Nodes are for those who may see all jobs."""
    web.get("/jobs", user)                      # documents ask nothing; the rights are known then
    links = re.findall(r'<li><a href="(/[a-z]+)"', web.get(path, user).text)
    assert has_nodes == ("/nodes" in links) and {"/jobs", "/events", "/docs"} <= set(links)


def test_a_refusal_says_so_and_leads_to_the_users_own_jobs(web):
    answer = web.get("/nodes", ALICE)
    assert 403 == answer.status and "<h1>Access denied</h1>" in answer.text
    assert "a node&#39;s numbers include every user&#39;s I/O" in answer.text
    assert '<a href="/jobs">Today\'s jobs</a>' in answer.text
    assert "<h1>Invalid request</h1>" in web.get("/jobs?since=x", ALICE).text
