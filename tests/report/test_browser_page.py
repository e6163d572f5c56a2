"""A job's page in a real Chromium: silent, reachable, readable, in all of its looks."""
from __future__ import annotations

import page_records
import pytest
from browser_desk import NARROW, WIDE

from iostats.report.findings.finding import Finding
from iostats.report.html.page import make_page

pytestmark = pytest.mark.browser

FINDING = Finding("small_writes", "scratch", 0.8, "97 % of 23,000 writes", "Each is slow.",
                  "Write more at once.", "https://example.org/advice#small_writes", {})


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """{kind: path} of a page for each of page_records' records."""
    directory, found = tmp_path_factory.mktemp("pages"), {}
    for kind in ("small", "realistic", "hostile", "wide"):
        record, config = getattr(page_records, kind)()
        found[kind] = directory / f"{kind}.html"
        history = page_records.history() if kind == "realistic" else None
        found[kind].write_text(make_page(record, config, [FINDING], history=history,
                                         made_at=1_795_225_100.0), encoding="utf-8")
    return found


@pytest.mark.parametrize("kind", ["realistic", "hostile"])
def test_a_page_is_silent_and_asks_for_nothing(browser, pages, kind):
    browser.open(pages[kind])
    assert [] == browser.complaints()
    assert [pages[kind].as_uri()] == browser.requests()


def test_what_is_seen_are_the_records_numbers(browser, pages):
    browser.open(pages["small"])
    assert "Job 4711 halo" == browser.text("h1")
    assert [">= 60.0 MiB", ">= 0 bytes", ">= 41", ">= 4.6 s", "~ 68 %"] == browser.texts(
        ".tile data")
    assert ["OST0000", "41.0 MiB", "OST0001", "19.0 MiB"] == [
        text.replace(">= ", "") for text in browser.texts("#fs0-osts tbody th, #fs0-osts tbody td")]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
def test_axe_finds_nothing(browser, pages, dark, size):
    browser.media(dark=dark)
    browser.size(*size)
    browser.open(pages["realistic"])
    assert [] == browser.axe()


@pytest.mark.parametrize("kind", ["hostile", "small"])
def test_axe_finds_nothing_in_others(browser, pages, kind):
    browser.open(pages[kind])
    assert [] == browser.axe()


@pytest.mark.parametrize("kind", ["realistic", "hostile", "wide"])
def test_no_page_scrolls_sideways_on_a_phone(browser, pages, kind):
    browser.size(*NARROW)
    browser.open(pages[kind])
    assert [] == browser.is_too_wide()


COLLISIONS = """
const found = [];
for (const chart of document.querySelectorAll("svg.chart")) {
  const all = [...chart.querySelectorAll(".c-s, .c-m, .c-e")].filter(
    one => !one.classList.contains("c-number")).map(one => [one, one.getBoundingClientRect()]);
  const shown = all.filter(([, at]) => at.width).sort((a, b) => a[1].left - b[1].left);
  for (let i = 1; i < shown.length; i++)
    if (shown[i][1].left < shown[i - 1][1].right + 2)
      found.push(shown[i - 1][0].textContent + " " + shown[i][0].textContent);
}
return found;
"""


@pytest.mark.parametrize("count", [5, 6, 8, 9, 12, 16])
def test_the_names_below_bars_stand_apart(browser, tmp_path, count):
    """Of any number of targets and nodes, on a phone, a laptop, a wide screen and on paper."""
    record, config = page_records.realistic(nodes=count, osts=count)
    path = tmp_path / "page.html"
    path.write_text(make_page(record, config, [FINDING]), encoding="utf-8")
    for wide, printed in ((360, False), (930, False), (1024, False), (1600, False), (688, True)):
        browser.media(printed=printed)
        browser.size(wide, 900)
        browser.open(path)
        assert [] == browser.script(COLLISIONS), f"{wide} pixels"


def test_without_javascript_all_is_there(browser, pages):
    """A script adds tooltips, and nothing else."""
    browser.open(pages["realistic"])
    with_it = browser.text("main")
    browser.javascript(False)
    browser.open(pages["realistic"])
    assert with_it == browser.text("main")


def test_a_tooltip_has_the_numbers_of_its_bar(browser, pages):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    browser.open(pages["small"])
    chart = browser.driver.find_element(By.CSS_SELECTOR, "#fs0-osts svg.chart svg")
    ActionChains(browser.driver).move_to_element_with_offset(chart, 60, 0).perform()
    assert "OST0001\nread: >= 19.0 MiB" == browser.text("#fs0-osts .tip")


def test_a_keyboard_reaches_all_that_can_be_used(browser, pages):
    browser.open(pages["realistic"])
    reached = browser.tab_walk()
    assert "a Skip to the report" == reached[0]
    wanted = browser.count("a[href]") + browser.count("summary") + browser.count(
        ".scroll") - browser.count("details:not([open]) .scroll")
    assert wanted == len(reached)
    assert "a More on this" in reached and "summary Numbers of this chart" in reached


def test_in_print_nothing_is_cut(browser, pages, tmp_path):
    browser.media(printed=True)
    browser.size(794, 1123)                             # A4
    browser.open(pages["realistic"])
    assert [] == browser.is_too_wide()
    browser.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
