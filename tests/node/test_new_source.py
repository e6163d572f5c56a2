"""
A source is one file: here one that is not Lustre's is added to a copy of the package, and seen in
every table.
"""
from __future__ import annotations

import csv
import io
import json

import pytest
from added_file import copy_with
from processes import AFTER, BEFORE, Desk, put, write_tree

A_SOURCE = '''\
"""
What BeeGFS mounts have moved, by a file of the test, a line of bytes for each mount.

Source: none, it is made up.
"""

import os

from iostats.base.private_files import read_text
from iostats.lustre.paths import File
from iostats.lustre.stats import Counter, Reading

NAME = "beegfs"
LAYER, TITLE, LETTER = "", "BeeGFS mount", "b"
READ_AT = ("start", "mark", "watch", "stop")
CALLS_SUFFIX = "_calls"
IN_PARTS = True


def read(root, config):
    path = "proc/beegfs_bytes"
    found = []
    try:
        text = read_text(os.path.join(root, path))
    except OSError:
        return found
    for line in text.splitlines():
        device, _, bytes_ = line.partition(" bytes: ")
        found.append(File(NAME, device, path, 0, bytes_ + "\\n"))
    return found


def parse(text, origin=NAME):
    read, written = map(int, text.split())
    return Reading({
        "server_read_bytes": Counter(1, "bytes", 0, read, read),
        "server_write_bytes": Counter(1, "bytes", 0, written, written)}, 0, None)


def split(name):
    return name, "", name
'''
HOME = "beegfs"


@pytest.fixture
def desk(tmp_path):
    """A desk whose client and server are the copy's."""
    copy = copy_with(tmp_path / "copy", "node/sources/beegfs.py", A_SOURCE)
    with Desk(tmp_path) as one:
        one.copy = copy
        yield one


def node(desk, read, written, **counters):
    """The node, with one BeeGFS mount that has moved so much."""
    root = write_tree(desk.directory / "node", **counters)
    put(root, "proc/beegfs_bytes", f"{HOME} bytes: {read} {written}\n")
    return root


def client(desk, *arguments):
    return desk.client(*arguments, "--node", "nid00023", "--root", desk.directory / "node",
                       script=desk.copy / "iostats_client.py")


def whole_job(desk, *options):
    """start, a mark, stop, and the server's end: what was printed, and the record."""
    running = desk.server("--nodes", "nid00023", "--json", "record.json", *options,
                          script=desk.copy / "iostats_server.py")
    where = ("--state-dir", desk.state)
    node(desk, 2_300, 3_700, **BEFORE)
    assert 0 == client(desk, "start", *where).status
    node(desk, 2_300 + 1_100, 3_700, **BEFORE)
    assert 0 == client(desk, "mark", "solve", *where).status
    node(desk, 2_300 + 4_100, 3_700 + 5_300, **AFTER)
    done = client(desk, "stop", *where, "--server", f"127.0.0.1:{running.port}")
    assert (0, "") == (done.status, done.err)
    done = running.wait()
    assert 0 == done.status, done
    return done, json.loads((desk.directory / "record.json").read_text())


def test_show_has_its_rows(desk):
    """Under the title that the module gives, in the unit of the metric's name."""
    node(desk, 2_300, 3_700, **BEFORE)
    done = client(desk, "show")
    rows = {tuple(line.split()) for line in done.out.splitlines()}
    assert 0 == done.status, done
    assert f"{HOME}: since the counters began on nid00023" in done.out
    assert ("server_read_bytes", "(BeeGFS", "mount)", "2.2", "KiB") in rows
    found = client(desk, "show", "--json").record
    assert {HOME, "scratch"} == {fs["name"] for fs in found["file_systems"]}


def test_start_and_stop_report_what_it_gained(desk):
    """In the record beside Lustre's, and in a table under its title."""
    done, record = whole_job(desk)
    by_name = {fs["name"]: fs for fs in record["file_systems"]}
    assert {"beegfs": {"totals": {"server_read_bytes": 4_100, "server_write_bytes": 5_300},
                    "lower_bound": False}} == by_name[HOME]["sources"]
    assert 41_003 == by_name["scratch"]["application"]["read_bytes"]
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in done.out.splitlines()]
    assert [HOME, "BeeGFS mount", "server: bytes read", "4.0 KiB"] in rows, done.out
    assert HOME in {fs["name"] for phase in record["phases"] for fs in phase["file_systems"]}


def test_csv_has_it_too(desk):
    """The source's name is the layer."""
    done, _ = whole_job(desk, "--format", "csv")
    rows = [tuple(row[1:5]) for row in csv.reader(io.StringIO(done.out))]
    assert (HOME, "beegfs", "server_write_bytes", "5300") in rows, rows


def test_the_doctor_has_a_line_for_it(desk):
    """Under its title."""
    node(desk, 2_300, 3_700, **BEFORE)
    done = client(desk, "doctor")
    [line] = [line for line in done.out.splitlines() if "BeeGFS mount: " in line]
    assert line.startswith("ok       BeeGFS mount: 1 in /proc/beegfs_bytes; for everybody"), done
