"""
The pages in a real browser: they load without a complaint, have the numbers that were sent, can be
read narrow and wide, by keyboard and by a screen reader, and the live one changes by itself.
"""
from __future__ import annotations

import os
import time

import events_messages
import pytest
from browser_desk import NARROW, WIDE, _browser_of_module, browser  # noqa: F401
from processes import until
from site_desk import SLURM, a_report, slurm_job, squeue
from web_desk import Proxy, StorageServer, WebDesk

pytestmark = [pytest.mark.browser, pytest.mark.root, pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root, to be several users")]

ALICE, READER = "games", "daemon"
EVIL = "<img src=x onerror=document.title=23>"
MIB = 1 << 20


class Live:
    """
    What a storage server goes on to count: job 4711 writes 23 MiB, 4713 37 MiB in each sweep; cp,
    which is no job, punches.
    """

    def __init__(self, desk):
        self.server, self.sweeps = StorageServer(desk), 0

    def sweep(self):
        self.sweeps += 1
        number = self.sweeps
        return self.server.sweep({"OST0007": {
            "4711": {"write_bytes": (23 * number, 23 * MIB * number)},
            "4713": {"write_bytes": (37 * number, 37 * MIB * number)},
            "cp.0": {"punch": (11 * number, 410 * number)}}, "OST0011": {}, "OST0013": {}})


@pytest.fixture(scope="module")
def site():
    """Two jobs, a storage server at work, an eviction; what the site's proxy shows to a reader."""
    with WebDesk() as one:
        one.configure(site_readers=f"root {READER}")
        one.site()
        now = int(time.time())
        squeue(one, *(slurm_job(job, name=name, user_name=user, user_id=number, nodes="nid[1-2]",
                                start_time=now - 400, end_time=now - 30)
                      for job, name, user, number in (("4711", "relax", ALICE, 5),
                                                      ("4713", EVIL, "news", 9))))
        for job, user in (("4711", ALICE), ("4713", "news")):
            for node, read in (("nid1", 41_003), ("nid2", 53_007)):
                one.send(a_report(job, node, f"{job}.{node}", read_bytes=read, ended=now - 30.0,
                                  elapsed_s=370.0, about={**SLURM, "user": user,
                                                          "nodes": "nid[1-2]"}))
        one.live = Live(one)
        for _ in range(3):
            one.live.sweep()
        one.live.server.events(events_messages.event(
            "23", at=now - 100, node="oss1", target="scratch-OST0007", cause="silent",
            clients=("10.9.0.11@o2ib",), message=f"evicting {EVIL}"))
        one.clients("oss1", "scratch", {"10.9.0.11@o2ib": [41 * MIB, 43 * MIB, 23, 37, 41, 47]})
        until(lambda: len(one.asked("jobs")["jobs"]) == 2, what="two records")
        one.web()
        one.proxy = Proxy(one.web_port, READER)
        yield one
        one.proxy.close()


PAGES = {"jobs": "/jobs?since=now-1day", "job": "/job/4711", "hostile job": "/job/4713",
         "now": "/now?by=job", "nodes": "/nodes", "not connected": "/nodes/down",
         "comparison": "/job/4711?with=4713", "events": "/events", "file systems": "/fs",
         "file system": "/fs/scratch?since=now-1hour",
         "documents": "/docs", "a document": "/docs/reference/findings",
         "a wide document": "/docs/how-to/ldms"}


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_a_page_is_whole_narrow_and_wide_and_to_a_screen_reader(site, browser, path):  # noqa: F811
    """No complaint of the console, nothing from elsewhere, nothing that axe-core finds."""
    for size in (NARROW, WIDE):
        browser.size(*size)
        browser.open(site.proxy.address + path)
        assert [] == browser.is_too_wide()
    assert [] == browser.complaints() and [] == browser.axe()
    assert {site.proxy.address} == {"/".join(url.split("/")[:3]) for url in browser.requests()}
    assert "23" != browser.script("return document.title")
    assert 0 == browser.count("main img, main script")


def test_the_numbers_are_those_that_were_sent(site, browser):  # noqa: F811
    browser.size(*WIDE)
    browser.open(site.proxy.address + "/jobs?since=now-1day&sort=JobID")
    assert ["4711", "4713"] == browser.texts("tbody tr th")
    [first, _] = browser.texts("tbody tr")
    assert "91.8 KiB" in first and "COMPLETED" in first          # 41,003 + 53,007
    browser.open(site.proxy.address + "/job/4711")
    assert "94010" in browser.script(
        "return [...document.querySelectorAll('.tile data')].map(one => one.value).join()")
    assert ["nid1", "nid2"] == browser.script(
        "const by = [...document.querySelectorAll('figure')].filter(one => "
        "one.textContent.includes('by node'))[0];"
        "return [...by.querySelectorAll('tbody th')].map(one => one.textContent)")
    assert browser.count("svg.chart path") > 0


def test_what_jobs_read_and_wrote_is_seen_on_a_tablet(site, browser):  # noqa: F811
    """Columns that have no room there are scrolled to; one job has a long name."""
    browser.size(800, 900)
    browser.open(site.proxy.address + "/jobs?since=now-1day")
    ends = dict(browser.script(
        "return [...document.querySelectorAll('thead th')].map(one => "
        "[one.textContent.trim().split(' ')[0], one.getBoundingClientRect().right])"))
    assert 0 < ends["Read"] < ends["Written"] <= 800, ends


def test_the_lines_of_a_file_system_have_what_its_storage_servers_counted(
        site, browser):  # noqa: F811
    browser.open(site.proxy.address + "/fs/scratch?since=now-1hour")
    assert ["scratch: all jobs"] == browser.texts("#whole figcaption")
    heads = browser.texts("#whole thead th")
    place = heads.index("written") + 1
    values = set(browser.texts(f"#whole tbody td:nth-child({place})")) - {"-"}
    # 23 + 37 MiB in each sweep, which is one of a second, or of two on a busy machine.
    assert values and {one.replace(".0", "") for one in values} <= {
        "60 MiB/s", "30 MiB/s", "20 MiB/s", "15 MiB/s"}, values
    # Whose they are is known as soon as the batch system has been asked.
    assert ["Job 4711", "Job 4713"] == sorted(
        text.partition(" of ")[0] for text in browser.texts(".figures figcaption a"))
    titles = browser.texts(".figures figcaption bdi")
    assert "(no job)" in titles and ["OST0007"] == titles[-1:]
    assert ["2 idle targets"] == [one for one in browser.texts("summary") if "idle" in one]
    assert ["OST0011", "OST0013"] == browser.texts("details .about bdi")


def test_a_table_that_is_wider_than_a_phone_shows_that_it_continues(site, browser):  # noqa: F811
    """By a shadow at its right, which the last columns cover once they are scrolled to."""
    browser.size(*NARROW)
    browser.open(site.proxy.address + "/now?show=open,close,mkdir,latency")
    table = "const table = document.querySelector('#live .scroll');"
    assert browser.script(table + "return table.scrollWidth > table.clientWidth + 40")
    assert 4 == str(browser.script(table + "return getComputedStyle(table).backgroundImage")).count(
        "linear-gradient")
    assert "local, local, scroll, scroll" == browser.script(
        table + "return getComputedStyle(table).backgroundAttachment")


def test_states_are_spelled_out_on_a_phone(site, browser):  # noqa: F811
    browser.size(*NARROW)
    browser.open(site.proxy.address + "/jobs?since=now-1day")
    assert 2 == browser.text("tbody").count("COMPLETED")


def test_a_page_can_be_walked_with_the_keyboard(site, browser):  # noqa: F811
    """From the link that skips to the content, over navigation and filters, into the table."""
    browser.size(*WIDE)
    browser.open(site.proxy.address + "/jobs?since=now-1day")
    walk = browser.tab_walk()
    assert walk[:3] == ["a Skip to the content", "a iostats", "a Jobs"]
    places = [walk.index(one) for one in ("a Events", "summary More", "button Show", "div Jobs",
                                          "a Job", "a 4711")]
    assert places == sorted(places) and "a 4713" in walk


def test_the_live_page_changes_by_itself_and_stops_where_it_is_told_to(
        site, browser):  # noqa: F811
    browser.open(site.proxy.address + "/now?by=job")
    until(lambda: browser.text("#state-text") == "live", what="a stream")
    browser.script("window.before = document.getElementById('live').innerText")
    moved = "return document.getElementById('live').innerText !== window.before"

    def changes():
        site.live.sweep()
        return browser.script(moved)
    until(changes, what="another table")
    assert "4711" in browser.text("#live") and "4713" in browser.text("#live")
    browser.script("document.getElementById('pause').click()")
    assert "paused" == browser.text("#state-text")
    assert "true" == browser.script("return document.getElementById('pause').ariaPressed")
    assert [] == browser.complaints()


def test_the_live_page_has_a_stream_again_after_its_proxy_had_none(site, browser):  # noqa: F811
    """Meanwhile it asks again and again; its clock goes 50 times as fast here."""
    faster = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {
        "source": "const later = setTimeout; window.setTimeout = (f, ms) => later(f, ms / 50)"})
    try:
        site.proxy.refused = "/now/live"
        browser.open(site.proxy.address + "/now?by=job")
        until(lambda: any("/now/part" in url for url in browser.requests()), what="a poll")
        assert browser.text("#state-text") in ("live", "connecting again")
        site.proxy.refused = ""
        until(lambda: any("/now/live" in url for url in browser.requests()), what="a stream")
        until(lambda: browser.text("#state-text") == "live", what="live")
    finally:
        site.proxy.refused = ""
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", faster)


def test_the_live_page_without_javascript_is_loaded_again_by_itself(site, browser):  # noqa: F811
    browser.javascript(False)
    browser.open(site.proxy.address + "/now?by=user")
    assert "This page is loaded again every 10 seconds." in browser.text("main")
    assert 1 == browser.count("noscript meta[http-equiv=refresh], head meta[http-equiv=refresh]")


def test_every_list_links_on(site, browser):  # noqa: F811
    """A job, its user, its file system, its events, its nodes: one leads to the other."""
    browser.size(*WIDE)
    browser.open(site.proxy.address + "/jobs?since=now-1day")
    links = "return [...document.querySelectorAll('main a')].map(one => one.getAttribute('href'))"
    found = browser.script(links)
    assert "/job/4711" in found and "/fs/scratch" in found
    assert any("user=games" in one for one in found)
    browser.open(site.proxy.address + "/job/4711")
    found = browser.script(links)
    for begin in ("/events?job=4711", "/nodes?nodes=nid", "/fs/scratch?since=uts", "/jobs?user="):
        assert any(one.startswith(begin) for one in found), (begin, found)
    browser.open(site.proxy.address + "/events")
    found = browser.script(links)
    assert any(one.startswith("/fs/scratch?since=uts") for one in found)
    assert any("node=oss1" in one for one in found)
