"""`iostats report --html` and --chart from outside: from a site's server and from files."""
from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

import page_records
import pytest
from site_desk import SiteDesk, a_report

from iostats.cli.report import main
from iostats.report.json_and_csv import format_json


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A directory to work in, with small.json and realistic.json."""
    monkeypatch.chdir(tmp_path)
    for kind in ("small", "realistic"):
        record, _ = getattr(page_records, kind)()
        (tmp_path / f"{kind}.json").write_text(format_json(record))
    return tmp_path


def test_a_page_of_a_job_from_the_sites_server(tmp_path):
    with SiteDesk(tmp_path) as desk:
        desk.configure(site_deadline="0.3")
        desk.server = desk.site()
        desk.send(a_report("4713", "nid1", reads=37, about={"nodes": "nid[1-2]"}))
        desk.record("4713")
        done = desk.iostats("report", "--html", tmp_path / "page.html", "4713")
        assert (0, "", "") == (done.status, done.out, done.err)
        page = (tmp_path / "page.html").read_text()
        assert "<bdi>4713</bdi>" in page and "in &gt;= 37 calls" in page
        done = desk.iostats("report", "--html", tmp_path / "none.html", "4799")
        assert 1 == done.status and not (tmp_path / "none.html").exists()


def test_a_page_of_a_file_without_any_server(files):
    assert 0 == main(["--html", "page.html", "realistic.json"])
    page = pathlib.Path("page.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n")
    assert "21,386,840 writes of 3.6 KiB on average" in page        # a finding
    assert 0o644 == os.stat("page.html").st_mode & 0o777


def test_a_file_is_a_job_for_all_other_forms(files, capsys):
    """Also several records in one, as --format json writes several jobs, and as an array."""
    text = pathlib.Path("small.json").read_text()
    pathlib.Path("two.json").write_text(text + text)
    pathlib.Path("array.json").write_text(f"[{text}]")
    assert 0 == main(["--format", "plain", "two.json", "./array.json"])
    assert 3 == capsys.readouterr().out.count("Job 4711 (halo) of alice")


def test_a_page_goes_to_standard_output(files, capsys):
    assert 0 == main(["--html", "-", "small.json"])
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_a_chart_is_a_file_of_its_own(files):
    for kind in ("time", "osts", "mdts", "nodes", "sizes"):
        assert 0 == main(["--chart", kind, "--output", f"{kind}.svg", "realistic.json"])
        root = ElementTree.parse(f"{kind}.svg").getroot()
        assert "748" == root.get("width")
        assert "job 4711 (halo), scratch; iostats" in "".join(root.itertext())


def test_the_file_behind_a_link_is_written_anew(files):
    """Two pages, or two charts, in one file would be none."""
    pathlib.Path("latest.svg").symlink_to("4711.svg")
    pathlib.Path("latest.html").symlink_to("4711.html")
    for record in ("realistic.json", "small.json"):
        assert 0 == main(["--chart", "osts", "--output", "latest.svg", record])
        assert 0 == main(["--html", "latest.html", record])
    assert os.path.islink("latest.svg") and os.path.islink("latest.html")
    assert "svg" in ElementTree.parse("4711.svg").getroot().tag
    assert 1 == pathlib.Path("4711.html").read_text().count("<!DOCTYPE html>")


@pytest.mark.parametrize("behind, page", [
    ("/proc/self/fd/1", "out"), ("/dev/stdout", "out"), ("-", "/dev/fd/1"), ("all.txt", "out")])
def test_a_page_is_added_to_what_standard_output_has(files, behind, page):
    """By whatever name: others write there as well."""
    pathlib.Path("out").symlink_to(behind)
    with open("all.txt", "wb") as file:
        file.write(b"first\n")
        file.flush()
        done = subprocess.run([sys.executable, "-m", "iostats", "report", "--html", page,
                               "small.json"], stdout=file)
    assert 0 == done.returncode
    assert pathlib.Path("all.txt").read_text().startswith("first\n<!DOCTYPE html>")


def test_a_chart_of_another_file_system(files, capsys):
    assert 0 == main(["--chart", "nodes", "--output", "-", "--file-system", "home",
                      "realistic.json"])
    assert "I/O by node, home" in capsys.readouterr().out
    assert 2 == main(["--chart", "nodes", "--output", "-", "--file-system", "none",
                      "realistic.json"])
    assert "--file-system: job 4711 has no 'none'; there are: home, scratch" in (
        capsys.readouterr().err)


def test_a_png_is_twice_as_large_for_print(files):
    pytest.importorskip("cairosvg")
    assert 0 == main(["--chart", "osts", "--output", "osts.png", "small.json"])
    data = pathlib.Path("osts.png").read_bytes()
    assert b"\x89PNG" == data[:4] and 1496 == int.from_bytes(data[16:20], "big")


def test_without_cairosvg_it_is_said_what_to_install(files, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    assert 2 == main(["--chart", "osts", "--output", "osts.png", "small.json"])
    assert (f"iostats: PNG needs CairoSVG, which is not installed: {sys.executable} -m pip install "
            "CairoSVG, or name a file that ends with .svg\n") == capsys.readouterr().err


@pytest.mark.parametrize("arguments, status, text", [
    (["--chart", "time", "small.json"], 2, "expected --chart and --output together"),
    (["--output", "a.svg", "small.json"], 2, "expected --chart and --output together"),
    (["--chart", "pie", "--output", "a.svg", "small.json"], 2,
     "--chart: expected one of time, osts, mdts, nodes, sizes, got 'pie'"),
    (["--chart", "time", "--output", "a.pdf", "small.json"], 2,
     "--output: expected a file that ends with .svg or .png, got 'a.pdf'"),
    (["--chart", "time", "--output", "a.svg", "small.json"], 1,
     "job 4711: no chart of time: there are no time series"),
    (["--html", "no/such/a.html", "small.json"], 2, "no/such/a.html: cannot be written"),
    (["--html", "a.html", "small.json", "realistic.json"], 2,
     "--html: expected one run of one job, got 2; name one of them: 4711, 4711"),
    (["--html", "a.html", "none.json"], 2, "none.json: cannot be read: No such file"),
    (["--html", "a.html", "./"], 2, "./: cannot be read: Is a directory"),
    (["--html", "a.html", "--file-system", "x", "small.json"], 2, "--file-system is for --chart"),
], ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None)
def test_what_cannot_be_done_is_one_line(files, capsys, arguments, status, text):
    assert status == main(arguments)
    found = capsys.readouterr()
    assert "" == found.out and 1 == found.err.count("\n")
    assert text in found.err
    assert not pathlib.Path("a.html").exists() and not pathlib.Path("a.svg").exists()


@pytest.mark.parametrize("text, status, said", [
    ("", 2, "there is no record in it"), ("{", 2, "got no JSON"), ("[[23]]", 2, "got [23]"),
    ("\xff", 2, "got no JSON"), ('{"job": {}, "coverage": {}, "file_systems": []}', 1,
                                 "the record has no schema"),
    ("[" * 100_000, 2, "got no JSON"), ('{"job": NaN}', 2, "got no JSON: NaN is no number"),
    ('{"job": -1e999}', 2, "got no JSON: -1e999 is too large a number")],
    ids=["empty", "torn", "a list", "not UTF-8", "no members", "deep", "NaN", "infinite"])
def test_a_file_of_something_else_is_one_line(files, capsys, text, status, said):
    pathlib.Path("bad.json").write_bytes(text.encode("latin-1"))
    assert status == main(["--html", "a.html", "bad.json"])
    found = capsys.readouterr()
    assert 1 == found.err.count("\n") and found.err.startswith("iostats: bad.json: ")
    assert said in found.err


@pytest.mark.parametrize("path, number, said", [
    (("nodes", "nid00001", "file_systems", "scratch", "open"), -41,
     "nodes.nid00001.file_systems.scratch.open is -41"),
    (("file_systems", 0, "application", "read_bytes"), -23,
     "file_systems[0].application.read_bytes is -23"),
    (("job", "elapsed_s"), -0.5, "job.elapsed_s is -0.5"),
], ids=["of a node", "bytes", "seconds"])
def test_a_number_below_0_is_named(files, capsys, path, number, said):
    form = inside = json.loads(pathlib.Path("small.json").read_text())
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = number
    pathlib.Path("bad.json").write_text(json.dumps(form))
    assert 2 == main(["bad.json"])
    assert (f"iostats: bad.json: {said}, expected no number below 0 there\n"
            == capsys.readouterr().err)


def test_a_moment_before_1970_and_numbers_that_are_not_known_may_be_negative(files, capsys):
    form = json.loads(pathlib.Path("small.json").read_text())
    form["job"]["started"] = -23.0
    form["tiers"] = {"scratch": [-41]}
    pathlib.Path("old.json").write_text(json.dumps(form))
    assert 0 == main(["old.json"])
    assert "tiers" in capsys.readouterr().out


def test_a_file_larger_than_any_record_is_one_line(files, capsys):
    with open("large.json", "wb") as file:
        file.truncate((64 << 20) + 1)
    assert 2 == main(["large.json"])
    assert ("iostats: large.json: too large: more than 64 MiB of records; give fewer at once\n"
            == capsys.readouterr().err)


def test_a_file_may_have_what_no_server_sends(files):
    """Half of a surrogate pair, which JSON can name; and members of a newer release."""
    form = json.loads(pathlib.Path("small.json").read_text())
    form.update(notes=["\ud800 half"], tiers={"scratch": 23})
    pathlib.Path("odd.json").write_text(json.dumps(form))
    assert 0 == main(["--html", "a.html", "odd.json"])
    page = pathlib.Path("a.html").read_text()
    assert "\\xd800 half" in page and "<bdi>tiers</bdi>" in page


def test_a_file_with_other_types_is_one_line_and_no_formula(files, capsys):
    form = json.loads(pathlib.Path("small.json").read_text())
    form["file_systems"][0]["per_node"]["open"]["busiest"] = {"a": 23}
    pathlib.Path("odd.json").write_text(json.dumps(form))
    assert 1 == main(["--html", "a.html", "odd.json"])
    found = capsys.readouterr()
    assert ('iostats: odd.json: file_systems[0].per_node.open.busiest is {"a": 23}, expected a '
            "text\n") == found.err
    assert "" == found.out
    form["file_systems"][0]["application"]["read_bytes"] = "=cmd|'/C calc'!A0"
    pathlib.Path("odd.json").write_text(json.dumps(form))
    assert 0 == main(["--format", "csv", "odd.json"])
    assert ",application,read_bytes,'=cmd|'/C calc'!A0," in capsys.readouterr().out


def test_the_time_of_making_stands_below(files):
    before = time.strftime("%Y-%m-%d")
    assert 0 == main(["--html", "a.html", "small.json"])
    [made] = re.findall(r'at <time datetime="(\d{4}-\d\d-\d\d)', pathlib.Path("a.html").read_text())
    assert made in (before, time.strftime("%Y-%m-%d"))


def test_a_record_from_a_closed_standard_input_is_one_line(files):
    done = subprocess.run(["sh", "-c", f"exec {sys.executable} -m iostats report - <&-"],
                          capture_output=True, text=True)
    assert (2, "", "iostats: standard input: expected a record, it is closed\n") == (
        done.returncode, done.stdout, done.stderr)
