"""The documents say what the code does."""

import gzip
import os
import re
import subprocess
import sys
from unittest import mock

import pytest
from trees import ROOT as HOME

from iostats import sinks
from iostats.base import config as site
from iostats.base.job_ports import list_ports
from iostats.cli.parser import parse_options
from iostats.web.docs_page import _make_anchor

sys.path.insert(0, str(HOME / "packaging"))
import pages

import docs

SHARE = pages.pages()
PAGES = sorted(HOME.glob("docs/**/*.md"))


def test_tables_and_help_texts_are_those_of_the_code():
    """The documents hold what `tools/docs.py` would write."""
    done = subprocess.run([sys.executable, HOME / "tools" / "docs.py", "--check"],
                          capture_output=True, text=True)

    assert done.stdout == ""
    assert done.returncode == 0


COMMANDS = docs.find_commands()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_under_80_columns(name):
    """Help fits a terminal, and no group of options is left out."""
    lines = COMMANDS[name].format_help().splitlines()
    assert [] == [line for line in lines if len(line) > 80 or line.startswith("{")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_help_the_man_page_and_the_completions(name):
    """What the parser takes is named in each of them, and nothing else is named."""
    class Parsed(Exception):
        pass

    def keep(parser, *_):
        raise Parsed({text for action in parser._actions for text in action.option_strings})
    with mock.patch("argparse.ArgumentParser.parse_args", keep), mock.patch(
            "argparse.ArgumentParser.parse_intermixed_args", keep), pytest.raises(Parsed) as parsed:
        parse_options(COMMANDS[name], [])
    hidden = " ".join(known.aliases for known in COMMANDS[name].list_declared().values()).split()
    taken = parsed.value.args[0].difference(hidden)
    declared = re.findall(r"(?m)^  (-.*?)(?:  |$)", COMMANDS[name].format_help().partition(
        "examples:")[0])
    assert sorted(taken) == sorted(re.findall(r"(?<![\w-])--?[\w-]+", " ".join(declared)))
    program = {"client": "iostats_client.py", "server": "iostats_server.py"}.get(
        name, f"iostats-{name.partition(' ')[0]}")
    page = gzip.decompress(SHARE[f"man/man1/{program}.1.gz"]).decode().replace("\\-", "-")
    assert set() == {text for text in taken if not re.search(
        rf"(?m)^(?:\\fB|  )(?:.*, )?{text}(?![\w-])", page)}
    if not name.startswith("ldms "):
        command = {"client": "start"}.get(name, name)
        [offered] = re.findall(rf"(?m)^    {command}\) echo '(.*)' ;;$",
                               SHARE["bash-completion/completions/iostats"].decode())
        assert {text for text in taken if text.startswith("--")} == set(offered.split())
        fish = "\n".join(line for line in SHARE[
            "fish/vendor_completions.d/iostats.fish"].decode().splitlines()
            if f"__fish_seen_subcommand_from {command}'" in line)
        assert set() == {text for text in taken if not re.search(
            rf" -{'l' if text.startswith('--') else 's'} {text.lstrip('-')} ", fish)}


def test_the_ports_in_the_protocol_are_the_ports():
    """docs/reference/wire.md's table of job ids and ports is true."""
    rows = re.findall(r"^\| `(.+)` \| (\d+) \|$",
                      (HOME / "docs/reference/wire.md").read_text(), re.M)

    assert len(rows) == 6
    assert [(job, int(port)) for job, port in rows] == [
        (job, list_ports(job, 20000, 29999, 1)[0]) for job, _ in rows]


def test_every_test_that_the_security_page_names_is_there():
    """What is called defended there is tried by the test beside it."""
    text = (HOME / "docs/explanation/security.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    tests = "\n".join(path.read_text() for path in (HOME / "tests").rglob("test_*.py"))
    assert len(named) > 30 and set() == named - set(re.findall(r"def (test_\w+)\(", tests))
    files = set(re.findall(r"\b(test_\w+\.py)", text))
    there = {path.name for path in (HOME / "tests").rglob("test_*.py")}
    assert files and set() == files - there


def test_every_link_of_a_document_leads_somewhere():
    """No dead link between our own files."""
    links = [(document, *link) for document in [*HOME.glob("*.md"), *PAGES,
                                                *HOME.glob("benchmarks/*.md")]
             for link in re.findall(r"\]\(([^)#:]*)(#[^)]*)?\)", document.read_text())]

    assert links
    assert [] == [link for link in links if not (link[0].parent / link[1]).exists()]
    assert [] == [(document, path, anchor) for document, path, anchor in links if anchor
                  and anchor[1:] not in anchors((document.parent / path) if path else document)]


def anchors(page):
    """The headings of a document, as links name them."""
    return {_make_anchor(heading) for heading in re.findall(r"^#+ (.+)$", page.read_text(), re.M)}


def test_every_page_that_the_code_names_is_there():
    """Messages, help texts, comments, dashboards, units: the file, and the #SECTION behind it."""
    files = [path for path in subprocess.run(
        ["git", "ls-files"], cwd=HOME, capture_output=True, text=True).stdout.splitlines()
        if path != "CHANGELOG.md" and (HOME / path).is_file()]
    named = {(path, *name) for path in files for name in re.findall(
        r"\bdocs/([\w/-]+\.(?:md|json))(#[\w-]+)?",
        (HOME / path).read_text(encoding="utf-8", errors="ignore"))}

    assert len(named) > 100
    assert [] == [one for one in named if not (HOME / "docs" / one[1]).exists()]
    assert [] == [one for one in named if one[2]
                  and one[2][1:] not in anchors(HOME / "docs" / one[1])]


def test_site_cfg_is_valid_with_every_default_taken_in(tmp_path):
    """Each key of site.cfg has its default there; uncommented, the file is accepted."""
    text = (HOME / "site.cfg").read_text()
    uncommented = re.sub(r"^#([a-z0-9_]+ =)", r"\1", text, flags=re.M)
    (tmp_path / "site.cfg").write_text(uncommented)

    config, shipped = (site.load(str(path), environ={}) for path in (
        tmp_path / "site.cfg", HOME / "site.cfg"))
    for one in (config, shipped):
        sinks.add_sections(one)

    assert [config.get_value(name) for name in config.options] == [
        shipped.get_value(name) for name in config.options]
    assert set(re.findall(r"^([a-z0-9_]+) =", uncommented, re.M)) <= {
        name.partition(".")[2] for name in config.options} | {"snx11001"}


def test_examples_of_the_readme_run(tmp_path):
    """`show` is the promise to a newcomer: alone, without a server, on any machine."""
    done = subprocess.run([HOME / "iostats_client.py", "show", "--root", tmp_path],
                          capture_output=True, text=True)

    assert done.stdout.endswith(": no Lustre file system is mounted\n")
    assert done.returncode == 0


def test_the_readme_is_for_people_in_a_hurry():
    """What does not fit in 90 lines is in docs/; the README links its first page."""
    text = (HOME / "README.md").read_text()
    assert len(text.splitlines()) <= 90
    assert "](docs/index.md)" in text


def test_the_first_page_of_the_documents_links_all_others():
    """docs/index.md is what `iostats web` shows as /docs."""
    linked = re.findall(r"\]\(([\w/-]+\.md)\)", (HOME / "docs/index.md").read_text())
    assert sorted([*linked, "index.md"]) == [str(page.relative_to(HOME / "docs")) for page in PAGES]


def test_each_guide_is_for_users_administrators_or_developers():
    """On the first page, and so on that of `iostats web`."""
    text = (HOME / "docs/index.md").read_text()
    groups = dict(re.findall(r"(?m)^For (\w+):\n((?:\n|\*.*\n)+)", text))
    assert ["users", "administrators", "developers"] == list(groups)
    assert "how-to/measure.md" in groups["users"] and "how-to/batch.md" in groups["administrators"]
    assert sorted(f"how-to/{page.name}" for page in (HOME / "docs/how-to").glob("*.md")) == sorted(
        re.findall(r"\]\((how-to/\w+\.md)\)", "".join(groups.values())))
    lessons = re.findall(r"\(tutorial/\w+\.md\): for (\w+);", text)
    assert ["users", "administrators"] == lessons


def test_the_documents_build_as_a_site_that_loads_nothing_from_the_network(tmp_path):
    """make docs: --strict makes a dead link, or a dead section of a page, an error."""
    pytest.importorskip("mkdocs")
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet",
                           "--site-dir", tmp_path], cwd=HOME, capture_output=True, text=True,
                          env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    loaded = r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["']?https?://[^>]*>"""
    sites = {page: re.findall(loaded, page.read_text()) for page in tmp_path.rglob("*.html")}
    assert len(sites) > len(PAGES) and {} == {page: ones for page, ones in sites.items() if ones}


def test_every_module_that_a_document_names_is_there():
    """`store/clock.py`, with or without iostats/ before it."""
    named = [(page.name, module) for page in [*HOME.glob("*.md"), *PAGES]
             if page.name != "CHANGELOG.md"
             for module in re.findall(r"`(?:iostats/)?((?:%s)/[\w/]*\w\.py)`" % "|".join(
                 path.parent.name for path in HOME.glob("iostats/*/__init__.py")),
                 page.read_text())]
    assert named and [] == [one for one in named if not (HOME / "iostats" / one[1]).exists()]


def test_what_it_costs_is_taken_from_the_tables_of_the_benchmarks(monkeypatch):
    """Each figure of the README from its row and column, with numbers that stand there once."""
    monkeypatch.syspath_prepend(str(HOME / "tools"))
    import docs
    results = """\
2027-01-23, 37 cores, Python 3.13.7, Linux 6.12

client: whole processes, 3 file systems

run                      wall ms    CPU ms
---------------------  ---------  --------
python3 -I -S -c pass        101      23.4
start                        103      37.4
stop                         107      41.4

client: files, forks and bytes of one run

run      opened    forks    bytes sent
-----  --------  -------  ------------
start       109        0             0
stop        113        0         17090

server: 10000 nodes (aim: under 100 MiB)

server           peak MiB    CPU us/node
-------------  ----------  -------------
iostats                43            530
plain threads         127            710

agent: a sweep of four targets

entries      all new, CPU s    reading and counting    MiB    1 % changed, CPU s
---------  ----------------  ----------------------  -----  --------------------
100,000                 131                   0.197     29                 0.311
"""
    assert """\
| CPU time; 2027-01-23, 37 cores, Python 3.13.7 | measured | beside it |
|---|---|---|
| `start`, and `stop`, on a node | 37 ms, and 41 ms; no fork, 17 kB sent | bare Python \
interpreter: 23 ms |
| a job's server, 10,000 nodes | 0.53 ms a node; 43 MiB | threads that check nothing: 0.71 ms |
| storage server: 100,000 entries of job_stats, 1 % changed | 0.311 s a sweep; 29 MiB | reading \
and counting lines: 0.197 s |""" == docs.costs(results)
    with pytest.raises(ValueError, match="expected no forks at start and stop, got"):
        docs.costs(results.replace("113        0", "113        1"))
