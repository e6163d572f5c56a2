"""
A real Chromium for the tests of pages: one for each module that asks for the fixture `browser`.

    pytestmark = pytest.mark.browser

    def test_it(browser, tmp_path):
        browser.open(path_or_url)
        assert [] == browser.complaints()

Pictures are taken where a test fails, narrow and wide, in IOSTATS_PICTURES or else in the
directory that the failure names.
"""
from __future__ import annotations

import base64
import json
import os
import pathlib
import shutil
import tempfile
import time

import pytest
from trees import ROOT

AXE = ROOT / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
NARROW, WIDE, LAPTOP = (360, 740), (1600, 1000), (1366, 768)
# It is root's in CI, and must ask for nothing that a test does not.
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
          "--disable-background-networking", "--disable-component-update", "--disable-sync",
          "--disable-default-apps", "--disable-dev-shm-usage", "--hide-scrollbars",
          "--force-color-profile=srgb")


class Browser:
    """
    One Chromium with one page.

    Attributes:
        driver: selenium's, for what has no method here.
    """

    def __init__(self, directory: pathlib.Path, language: str = "en-US") -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in (*_FLAGS, f"--user-data-dir={directory}", f"--lang={language}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service(shutil.which("chromedriver"), log_output=os.devnull)
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(60)
        self.size(*LAPTOP)

    def close(self) -> None:
        self.driver.quit()

    # -- pages ---------------------------------------------------------------------------------

    def open(self, page: str | pathlib.Path) -> None:
        """Open a file, or an address; what was logged before is forgotten."""
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(page.resolve().as_uri() if isinstance(page, pathlib.Path) else page)

    def script(self, text: str, *arguments: object) -> object:
        """What a function body returns in the page."""
        return self.driver.execute_script(text, *arguments)

    def text(self, selector: str) -> str:
        """The text, as it is seen, of the first element that a CSS selector finds."""
        return str(self.script("return document.querySelector(arguments[0]).innerText", selector))

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements that it finds, also of those that are folded away."""
        return list(self.script("return [...document.querySelectorAll(arguments[0])]"
                                ".map(one => one.textContent.trim())", selector))

    def count(self, selector: str) -> int:
        return int(self.script("return document.querySelectorAll(arguments[0]).length", selector))

    # -- what the page may be judged by --------------------------------------------------------

    def complaints(self) -> list[str]:
        """Errors and warnings of the console since the page was opened."""
        return [f"{one['level']}: {one['message']}" for one in self.driver.get_log("browser")
                if one["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since then, but for data: and the favicon of a site."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return [url for url in found if not url.startswith("data:")]

    def axe(self, *without: str) -> list[str]:
        """What axe-core finds, a line each; `without`: rules that are left out."""
        # By the debugger's door, since the page's own policy allows no script but its own.
        self.driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
        self.script(AXE.read_text(encoding="utf-8"))
        rules = {rule: {"enabled": False} for rule in without}
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run(document, {rules: arguments[0]}).then(done, e => done({error: String(e)}))",
            rules)
        assert "error" not in found, found["error"]
        return [f"{one['id']}: {one['help']}: {node['html'][:200]} "
                f"{(node['any'] or node['all'] or [{'message': ''}])[0]['message'][:200]}"
                for one in found["violations"] for node in one["nodes"]]

    def tab_walk(self, most: int = 300) -> list[str]:
        """
        What the Tab key reaches, one after the other, from the page's begin until it comes round:
        the name of the tag and the begin of its text or label.
        """
        from selenium.webdriver.common.keys import Keys
        self.script("document.activeElement && document.activeElement.blur(); scrollTo(0, 0)")
        found: list[str] = []
        for _ in range(most):
            self.driver.switch_to.active_element.send_keys(Keys.TAB)
            one = self.script(
                "const e = document.activeElement;"
                "if (!e || e === document.body || e.iostatsSeen) return null;"
                "e.iostatsSeen = true;"
                "return e.tagName.toLowerCase() + ' ' + (e.getAttribute('aria-label')"
                "|| e.textContent).trim().slice(0, 60)")
            if one is None:
                break
            found.append(str(one))
        self.script("document.querySelectorAll('*').forEach(e => { delete e.iostatsSeen })")
        return found

    def is_too_wide(self) -> list[str]:
        """
        Elements that make the page itself scroll sideways, and go on to do so after 30 s: Chromium
        does not lay out a page of another size at once; [] where it does not.
        """
        ends = time.monotonic() + 30
        while self._wide() and time.monotonic() < ends:
            time.sleep(0.1)
        return self._wide()

    def _wide(self) -> list[str]:
        return list(self.script(
            "const width = document.documentElement.clientWidth;"
            "if (document.documentElement.scrollWidth <= width) return [];"
            "return [...document.body.querySelectorAll('*')].filter("
            "e => e.getBoundingClientRect().right > width + 1).map("
            "e => e.tagName + '.' + (e.className.baseVal ?? e.className) + ' '"
            "+ e.textContent.slice(0, 40)).slice(0, 5)"))

    # -- how it is looked at -------------------------------------------------------------------

    def size(self, width: int, height: int) -> None:
        """The size of what is seen of the page, also one that no window could have."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def media(self, dark: bool = False, printed: bool = False) -> None:
        """The colours that a reader prefers; or the page as it is printed."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "media": "print" if printed else "",
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def javascript(self, on: bool) -> None:
        """Whether pages that are opened from now on may run scripts."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not on})

    def picture(self, path: pathlib.Path, whole: bool = True) -> None:
        """Write a PNG of the `whole` page, or of what is seen of it."""
        found = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "format": "png", "captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(found["data"]))

    def pdf(self, path: pathlib.Path) -> None:
        """Write the page as it would be printed, on A4."""
        found = self.driver.execute_cdp_cmd("Page.printToPDF", {
            "printBackground": False, "paperWidth": 8.27, "paperHeight": 11.69,
            "preferCSSPageSize": True})
        path.write_bytes(base64.b64decode(found["data"]))

    def as_new(self) -> None:
        """As it was when it was started, for the next test."""
        self.javascript(True)
        self.media()
        self.size(*LAPTOP)
        self.driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})


def _missing() -> str:
    """Why there is no browser here; "" where there is one."""
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            return f"no {program}: apt-get install chromium chromium-driver"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "no selenium: pip install selenium"
    return "" if AXE.is_file() else f"no {AXE.relative_to(ROOT)}: tools/setup gets it from npm"


@pytest.fixture(scope="module")
def _browser_of_module(tmp_path_factory):
    why = _missing()
    if why:
        pytest.skip(why)
    found = Browser(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


@pytest.fixture
def browser(_browser_of_module, request):
    """The module's Browser, as if it were new; pictures are taken where the test fails."""
    _browser_of_module.as_new()
    failed = request.session.testsfailed
    yield _browser_of_module
    if request.session.testsfailed > failed:        # the test's own report is made before this
        _pictures(_browser_of_module, request.node.name)


def _pictures(browser: Browser, name: str) -> None:
    directory = pathlib.Path(os.environ.get("IOSTATS_PICTURES") or tempfile.mkdtemp(
        prefix="iostats-pictures-"))
    directory.mkdir(parents=True, exist_ok=True)
    plain = "".join(c if c.isalnum() else "_" for c in name)[:80]
    for how, size in (("narrow", NARROW), ("wide", WIDE)):
        browser.size(*size)
        browser.picture(directory / f"{plain}-{how}.png")
    print(f"pictures of the page: {directory}/{plain}-*.png")
