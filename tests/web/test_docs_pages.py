"""
The documents as pages: a finding of a job's page leads to what explains it.
"""
from __future__ import annotations

import os
import re
from urllib.parse import urljoin

import pytest
from processes import REPOSITORY, until
from site_desk import SLURM, a_report
from web_desk import WebDesk

pytestmark = [pytest.mark.root, pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root, to be several users")]

READER = "daemon"
_DOCS = REPOSITORY / "docs"
DOCUMENTS = sorted(str(path.relative_to(_DOCS))[:-3] for path in _DOCS.glob("**/*.md"))
DOCUMENTS.remove("index")


@pytest.fixture(scope="module")
def web():
    """A job of 370 s on one node of one CPU: 41,000 stat() that took 111 s, 30 %; pages at /io."""
    with WebDesk() as one:
        one.configure(site_readers=f"root {READER}", web_prefix="/io")
        one.server = one.site()
        one.send(a_report("4711", "nid1", "4711", elapsed_s=370.0, cpus=1, about={
            **SLURM, "user": "games"}, deltas=[{
                "source": "llite", "file_system": "scratch",
                "values": {"getattr": 41_000, "getattr_us": 111_000_000}}]))
        until(lambda: one.asked("jobs")["jobs"], what="a record")
        one.web()
        yield one


def links_of(response):
    return set(re.findall(r'href="([^"]+)"', response.text))


def test_a_finding_leads_to_its_section_in_the_pages_themselves(web):
    page = web.get("/io/job/4711", READER)
    [link] = [one for one in links_of(page) if "findings#" in one]
    assert "/io/docs/reference/findings#stat-storm" == link
    advice = web.get("/io/docs/reference/findings", READER)
    assert 200 == advice.status and '<h2 id="stat-storm">Stat storm</h2>' in advice.text


def test_all_documents_are_listed_and_read(web):
    found = web.get("/io/docs", READER)
    assert {f"/io/docs/{name}" for name in DOCUMENTS} <= links_of(found)
    assert ["Tutorials", "How-to guides", "Reference", "Explanation"] == re.findall(
        "<h2 id=.*>(.*)</h2>", found.text)
    _, _, guides, reference, explanation = found.text.split("<h2 ")
    assert "/docs/how-to/install" in guides and "/docs/reference/findings" in reference
    assert "/docs/explanation/architecture" in explanation and "/docs/glossary" in reference
    assert ">Show web pages</a>" in found.text


def test_what_documents_link_to_is_there(web):
    """Pages of these pages, and the headings in them; nothing that is no page."""
    pages = {f"/io/docs/{name}": web.get(f"/io/docs/{name}", READER) for name in DOCUMENTS}
    for at, page in pages.items():
        assert 200 == page.status and "<h1 id=" in page.text and "!--" not in page.text, at
        for link in links_of(page):
            path, _, anchor = urljoin(at, link).partition("#")
            if path in pages and anchor not in ("", "main"):
                assert f'id="{anchor}"' in pages[path].text, (at, link)
            elif path not in pages and not link.startswith(("http://", "https://", "/io/static/")):
                assert path in ("/io/", "/io/jobs", "/io/now", "/io/fs", "/io/nodes", "/io/events",
                                "/io/docs"), (at, link)


@pytest.mark.parametrize("name", ["..", "../README", "..%2Fsite.cfg", "findings.md", "no_such",
                                  "%2Fetc%2Fpasswd", "advice/advice",
                                  "how-to", "how-to/../index", "/how-to/web"])
def test_no_other_file_can_be_read(web, name):
    answer = web.get(f"/io/docs/{name}", READER)
    assert 404 == answer.status and "there is no such document" in answer.text


def test_who_is_not_known_reads_no_document_either(web):
    assert 403 == web.get("/io/docs/reference/findings").status


def test_documents_need_no_site_server(web):
    web.server.process.kill()
    web.server.process.wait()
    assert 503 == web.get("/io/jobs", READER).status
    assert 200 == web.get("/io/docs/reference/findings", READER).status
