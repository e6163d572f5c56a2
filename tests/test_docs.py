"""The documents say what the code does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from iostats import sinks
from iostats.base import config as site
from iostats.base.job_id import ports
from iostats.cli import node, server

HOME = Path(__file__).resolve().parents[1]


def test_tables_and_help_texts_are_those_of_the_code():
    """The documents hold what `tools/docs.py` would write."""
    done = subprocess.run([sys.executable, HOME / "tools" / "docs.py", "--check"],
                          capture_output=True, text=True)

    assert done.stdout == ""
    assert done.returncode == 0


def test_every_option_of_the_client_is_in_its_help():
    """No option is taken that --help does not name, and none is named that is not taken."""
    named = set(re.findall(r"^  (--[a-z-]+)", node.HELP, re.M))

    assert named == set(node.WITH_VALUE + node.FLAGS)


def test_every_option_of_the_server_is_in_its_help():
    """The same for the server."""
    named = set(re.findall(r"^  (--[a-z-]+)", server.HELP, re.M))

    assert named == set(server.WITH_VALUE + server.FLAGS)


@pytest.mark.parametrize("text", [node.HELP, server.HELP], ids=["client", "server"])
def test_help_is_under_80_columns(text):
    """Help fits a terminal."""
    assert max(map(len, text.splitlines())) <= 80


def test_the_ports_in_the_protocol_are_the_ports():
    """docs/wire.md's table of job ids and ports is true."""
    rows = re.findall(r"^\| `(.+)` \| (\d+) \|$", (HOME / "docs/wire.md").read_text(), re.M)

    assert len(rows) == 6
    assert [(job, int(port)) for job, port in rows] == [
        (job, ports(job, 20000, 29999, 1)[0]) for job, _ in rows]


def test_every_test_that_the_security_page_names_is_there():
    """What is called defended there is tried by the test beside it."""
    text = (HOME / "docs/security.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    tests = "\n".join(path.read_text() for path in (HOME / "tests").rglob("test_*.py"))
    assert len(named) > 30 and set() == named - set(re.findall(r"def (test_\w+)\(", tests))
    files = set(re.findall(r"\b(test_\w+\.py)", text))
    there = {path.name for path in (HOME / "tests").rglob("test_*.py")}
    assert files and set() == files - there


def test_every_link_of_a_document_leads_somewhere():
    """No dead link between our own files."""
    documents = [*HOME.glob("*.md"), *HOME.glob("docs/*.md"), *HOME.glob("benchmarks/*.md")]
    links = [(document, link) for document in documents
             for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text())]

    assert links
    assert [(str(document), link) for document, link in links
            if not (document.parent / link).exists()] == []


def test_site_cfg_is_valid_with_every_default_taken_in(tmp_path):
    """Each key of site.cfg stands there with its default; uncommented, the file is accepted."""
    text = (HOME / "site.cfg").read_text()
    uncommented = re.sub(r"^#([a-z0-9_]+ =)", r"\1", text, flags=re.M)
    (tmp_path / "site.cfg").write_text(uncommented)

    config, shipped = (site.load(str(path), environ={}) for path in (
        tmp_path / "site.cfg", HOME / "site.cfg"))
    for one in (config, shipped):
        sinks.add_sections(one)

    assert dict(config) == dict(shipped)
    assert set(re.findall(r"^([a-z0-9_]+) =", uncommented, re.M)) == {
        name.partition(".")[2] for name in config.options} | {"snx11001", "o2ib2", "alkindi",
                                                               "small_writes"}


def test_examples_of_the_readme_run(tmp_path):
    """`show` is the promise to a newcomer: alone, without a server, on any machine."""
    done = subprocess.run([HOME / "iostats_client.py", "show", "--root", tmp_path],
                          capture_output=True, text=True)

    assert done.stdout.endswith(": no Lustre file system is mounted\n")
    assert done.returncode == 0


def test_the_readme_is_for_people_in_a_hurry():
    """What does not fit in 130 lines is in docs/, and the README links each page of docs/."""
    text = (HOME / "README.md").read_text()
    assert len(text.splitlines()) <= 130
    assert set() == {path.name for path in HOME.glob("docs/*.md")} - set(
        re.findall(r"\]\(docs/(\w+\.md)\)", text))


def test_every_module_that_a_document_names_is_there():
    """`site/store_clock.py`, with or without iostats/ before it."""
    named = [(page.name, module) for page in [*HOME.glob("*.md"), *HOME.glob("docs/*.md")]
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
