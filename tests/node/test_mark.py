"""
`iostats_client.py mark NAME`: one row for each part of a job, with numbers worked out by hand.

The counters are at START when the job is started, then at STAGE, SOLVE and END, so that the parts
between them are:

    (before stage)      2 reads of    500 bytes,   3 opens        the node's own background
    stage               7 reads of 11,000 bytes,  19 opens
    solve              14 reads of 29,503 bytes,  21 opens
    together           23 reads of 41,003 bytes,  43 opens
"""
from __future__ import annotations

import json
import os
import re

import pytest
from processes import LLITE, Desk, contents, put, stats, write_tree

from iostats.base import private_files
from iostats.node import start_files

START = dict(reads=5, read_bytes=7_000, opens=11)
STAGE = dict(reads=7, read_bytes=7_500, opens=14)
SOLVE = dict(reads=14, read_bytes=18_500, opens=33)
END = dict(reads=28, read_bytes=48_003, opens=54)


DESK = Desk


def started(desk, node="nid00023"):
    """The options of a node that was started with the counters START."""
    root = desk.tree(node, **START)
    assert 0 == desk.client("start", *desk.on(node, root)).status
    return desk.on(node, root)


def mark(desk, on, name, **counters):
    """Mark `name` when the counters are at `counters`."""
    if counters:
        write_tree(on[3], **counters)
    done = desk.client("mark", name, *on)
    assert (0, "") == (done.status, done.err)


def stop(desk, on, running, **counters):
    if counters:
        write_tree(on[3], **counters)
    done = desk.client("stop", "--server", f"127.0.0.1:{running.port}", *on)
    assert (0, "") == (done.status, done.err)


def rows(record):
    """[(phase, its nodes, reads, bytes read, opens, a lower bound)] of its one file system."""
    found = []
    for phase in record["phases"]:
        [fs] = phase["file_systems"]
        opens = fs["operations"].get("open", {"count": 0})["count"]
        found.append((phase["name"], phase["nodes"], fs["application"]["read_calls"],
                      fs["application"]["read_bytes"], opens, fs["lower_bound"]))
    return found


def whole(record):
    """(reads, bytes read, opens, a lower bound) of the whole job."""
    [fs] = record["file_systems"]
    return (fs["application"]["read_calls"], fs["application"]["read_bytes"],
            fs["operations"]["open"]["count"], fs["application"]["lower_bound"])


# -- the numbers -------------------------------------------------------------------------------


def test_each_part_has_its_numbers_and_together_they_are_the_whole(desk):
    """In the order of time; what was before the first mark has a name of its own."""
    running, on = desk.server("--nodes", "1", "--format", "json"), started(desk)
    mark(desk, on, "stage", **STAGE)
    mark(desk, on, "solve", **SOLVE)
    stop(desk, on, running, **END)
    record = running.wait().record
    assert [("(before stage)", 1, 2, 500, 3, False), ("stage", 1, 7, 11_000, 19, False),
            ("solve", 1, 14, 29_503, 21, False)] == rows(record)
    assert (23, 41_003, 43, False) == whole(record)
    seconds = sum(phase["elapsed_s"] for phase in record["phases"])
    assert abs(seconds - record["job"]["elapsed_s"]) < 0.01


def test_a_part_in_which_nothing_was_done_is_a_row_of_zeros(desk):
    """Two marks with nothing between them: not a row too few."""
    running, on = desk.server("--nodes", "1", "--format", "json"), started(desk)
    mark(desk, on, "idle")
    mark(desk, on, "work")
    stop(desk, on, running, **END)
    assert [("(before idle)", 1, 0, 0, 0, False), ("idle", 1, 0, 0, 0, False),
            ("work", 1, 23, 41_003, 43, False)] == rows(running.wait().record)


def test_a_job_without_a_mark_has_no_parts(desk):
    """An empty list, and no table."""
    running = desk.server("--nodes", "1", "--json", "record.json")
    stop(desk, started(desk), running, **END)
    assert "Parts of this job" not in running.wait().out
    assert '"phases": [],' in (desk.directory / "record.json").read_text()


def test_parts_that_take_turns_are_added_by_their_names(desk):
    """compute, write, compute, write: two rows, each of one node."""
    running, on = desk.server("--nodes", "1", "--format", "json"), started(desk)
    mark(desk, on, "compute")
    mark(desk, on, "write", **STAGE)                     # compute: 2 reads, 500 bytes, 3 opens
    mark(desk, on, "compute", **SOLVE)                   # write: 7 reads, 11,000 bytes, 19 opens
    mark(desk, on, "write", **{**SOLVE, "opens": 38})    # compute: 5 opens
    stop(desk, on, running, **END)                       # write: 14 reads, 29,503 bytes, 16 opens
    record = running.wait().record
    assert [("(before compute)", 1, 0, 0, 0, False), ("compute", 1, 2, 500, 8, False),
            ("write", 1, 21, 40_503, 35, False)] == rows(record)
    seconds = sum(phase["elapsed_s"] for phase in record["phases"])
    assert abs(seconds - record["job"]["elapsed_s"]) < 0.01


def test_the_report_has_a_row_for_each_part_and_says_what_the_first_one_is(desk):
    """500 bytes and 3 opens of a health check are not taken for the user's."""
    running, on = desk.server("--nodes", "1", "--format", "plain"), started(desk)
    mark(desk, on, "stage", **STAGE)
    mark(desk, on, "solve", **SOLVE)
    stop(desk, on, running, **END)
    out = running.wait().out
    assert re.search(r"""(?m)^Parts of this job:
Part +Time +File System +File Read +File Write +Ops
\(before stage\) +\d+\.\d s +scratch +500 bytes +0 bytes +3
stage +\d+\.\d s +scratch +10\.7 KiB +0 bytes +19
solve +\d+\.\d s +scratch +28\.8 KiB +0 bytes +21
note: the part""", out), out
    assert ("note: the part (before stage) is from `start` to the first mark: what the nodes did "
            "by themselves, if the job did nothing before that mark") in " ".join(out.split())


def test_a_clear_costs_only_the_part_that_it_was_in(desk):
    """
    What `stage` did before the clear is lost; the first and the last reading alone, with 9 reads,
    8,000 bytes and 17 opens since the clear, would lose the part before it as well.
    """
    running, on = desk.server("--nodes", "1", "--format", "json"), started(desk)
    mark(desk, on, "stage", **STAGE)
    cleared(on, reads=4, read_bytes=3_000, opens=6)
    mark(desk, on, "solve")
    cleared(on, reads=9, read_bytes=8_000, opens=17)
    stop(desk, on, running)
    record = running.wait().record
    assert [("(before stage)", 1, 2, 500, 3, False), ("stage", 1, 4, 3_000, 6, True),
            ("solve", 1, 5, 5_000, 11, False)] == rows(record)
    assert (11, 8_500, 20, True) == whole(record)
    [note] = record["file_systems"][0]["notes"]
    assert note == ("nid00023: llite: the counters were cleared after the start, at 2026-11-21 "
                    "01:42:30 UTC")


def cleared(on, reads, read_bytes, opens):
    """Counters that began again at 1,795,225,350 s, as llite shows it."""
    put(on[3], LLITE, stats(f"read_bytes {reads} samples [bytes] 1 1048576 {read_bytes}",
                            f"open {opens} samples [usecs] 1 2 {opens} 4", start=1_795_225_350))


def test_only_the_part_with_the_clear_is_marked(desk):
    """`>=` in its row and in the row of the whole."""
    running, on = desk.server("--nodes", "1", "--format", "plain"), started(desk)
    mark(desk, on, "stage", **STAGE)
    cleared(on, reads=4, read_bytes=3_000, opens=6)
    mark(desk, on, "solve")
    stop(desk, on, running)
    out = running.wait().out
    assert re.search(r"(?m)^scratch +>= 3\.4 KiB +>= 0 bytes$", out), out
    assert re.search(r"""(?m)^\(before stage\) +\d+\.\d s +scratch +500 bytes +0 bytes +3
stage +\d+\.\d s +scratch +>= 2\.9 KiB +>= 0 bytes +>= 6
solve +\d+\.\d s +scratch +0 bytes +0 bytes +0$""", out), out


# -- several nodes -----------------------------------------------------------------------------


def test_nodes_with_different_marks_are_added_where_the_names_are_the_same(desk):
    """In the order in which they began; `nodes` says of how many nodes a row is."""
    running = desk.server("--nodes", "2", "--format", "json")
    one, two = started(desk, "nid00023"), started(desk, "nid00037")
    mark(desk, one, "stage", **STAGE)
    mark(desk, one, "solve", **SOLVE)
    mark(desk, two, "solve", **SOLVE)
    stop(desk, one, running, **END)
    stop(desk, two, running, **END)
    record = running.wait().record
    assert [("(before stage)", 1, 2, 500, 3, False), ("(before solve)", 1, 9, 11_500, 22, False),
            ("stage", 1, 7, 11_000, 19, False), ("solve", 2, 28, 59_006, 42, False),
            ] == rows(record)
    assert (46, 82_006, 86, False) == whole(record)


def test_every_part_before_a_first_mark_has_its_note(desk):
    """Two nodes, two names, two notes."""
    running = desk.server("--nodes", "2", "--format", "plain")
    for node, name in (("nid00023", "stage"), ("nid00037", "solve")):
        on = started(desk, node)
        mark(desk, on, name, **STAGE)
        stop(desk, on, running, **END)
    notes = [line.partition(" is from")[0] for line in running.wait().out.splitlines()
             if line.startswith("note: the part")]
    assert ["note: the part (before stage)", "note: the part (before solve)"] == notes


def test_with_a_node_missing_every_part_is_a_lower_bound(desk):
    """The node that did not report may have done anything in each of them."""
    running, on = desk.server("--nodes", "2", "--format", "json"), started(desk)
    mark(desk, on, "solve", **STAGE)
    stop(desk, on, running, **END)
    record = running.stop().record
    assert [("(before solve)", 1, 2, 500, 3, True), ("solve", 1, 21, 40_503, 40, True),
            ] == rows(record)


def test_a_job_in_two_measurements_is_of_one_node_and_has_the_seconds_of_both(desk):
    """start, mark, stop, and the same again: the parts of one name are one row."""
    running = desk.server("--nodes", "2", "--format", "json")
    for _ in range(2):
        on = started(desk)
        mark(desk, on, "solve", **STAGE)
        stop(desk, on, running, **END)
    record = running.stop().record
    assert [("(before solve)", 1, 4, 1_000, 6, True), ("solve", 1, 42, 81_006, 80, True),
            ] == rows(record)
    seconds = sum(phase["elapsed_s"] for phase in record["phases"])
    assert abs(seconds - record["nodes"]["nid00023"]["elapsed_s"]) < 0.01


# -- what is kept ------------------------------------------------------------------------------


def test_marks_are_private_and_gone_after_a_delivered_stop(desk):
    """0600 beside the start, one file each."""
    running, on = desk.server("--nodes", "1"), started(desk)
    mark(desk, on, "stage", **STAGE)
    mark(desk, on, "solve", **SOLVE)
    stem = f"{desk.job}%20nid00023"
    assert [f"{stem}.mark.0001", f"{stem}.mark.0002", f"{stem}.start"] == sorted(
        os.listdir(desk.state))
    assert {0o100600} == {mode for mode, _ in contents(desk.state).values()}
    stop(desk, on, running, **END)
    assert [] == os.listdir(desk.state)


def test_start_again_forgets_the_marks(desk):
    """The parts begin anew, with a first part of the new mark's name."""
    running, on = desk.server("--nodes", "1", "--format", "json"), started(desk)
    mark(desk, on, "stage", **STAGE)
    assert 0 == desk.client("start", "--again", *on).status
    mark(desk, on, "solve", **SOLVE)
    stop(desk, on, running, **END)
    record = running.wait().record
    assert [("(before solve)", 1, 7, 11_000, 19, False), ("solve", 1, 14, 29_503, 21, False),
            ] == rows(record)
    assert (21, 40_503, 40, False) == whole(record)


@pytest.mark.parametrize("left", [("start", "0001", "0002"), ("start", "0001"), ("start",),
                                  ("0001", "0002")],
                         ids=["all", "one mark is gone", "both marks are gone",
                              "the start is gone"])
def test_a_stop_that_died_between_two_steps_sends_once(desk, left):
    """The report is kept on disk and not all else is removed: the report counts, and no other."""
    on = started(desk)
    mark(desk, on, "stage", **STAGE)
    mark(desk, on, "solve", **SOLVE)
    files = {path: path.read_bytes() for path in desk.state.iterdir()
             if path.name.rpartition(".")[2] in left}
    write_tree(on[3], **END)
    assert 3 == desk.client("stop", "--server", "127.0.0.1", *on,
                            env={"IOSTATS_NODE_RETRY_TIMEOUT": "0"}).status
    for path, data in files.items():
        path.write_bytes(data)
    running = desk.server("--nodes", "2", "--format", "json")
    stop(desk, on, running, reads=1_000, read_bytes=1_000_000, opens=1_000)
    assert [] == os.listdir(desk.state)
    record = running.stop().record
    assert (23, 41_003, 43, True) == whole(record)
    assert [("(before stage)", 2), ("stage", 7), ("solve", 14)] == [
        (name, reads) for name, _, reads, _, _, _ in rows(record)]


def test_a_stop_that_dies_while_it_removes_leaves_the_start_to_the_last(tmp_path, monkeypatch):
    """Marks and rates without their start would wait for a `stop` that has nothing to send."""
    kept = start_files.open_start_files(str(tmp_path), "4711", "nid00023")
    kept.store_start(b"the start", False)
    kept.store_mark(b"the mark")
    kept.store_watch(b"the rates")
    left, remove = [2], private_files.remove_if_present

    def remove_two(path):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        remove(path)
    monkeypatch.setattr(start_files, "remove_if_present", remove_two)
    with pytest.raises(KeyboardInterrupt):
        kept.delete_start()
    assert ["4711%20nid00023.start"] == os.listdir(tmp_path)


def test_a_mark_that_is_left_of_an_earlier_start_is_not_of_this_one(desk):
    """As after a crash; each mark knows which start it is of."""
    on = started(desk)
    mark(desk, on, "stage", **STAGE)
    [path] = desk.state.glob("*.mark.0001")
    data = path.read_bytes()
    assert 0 == desk.client("start", "--again", *on).status
    path.write_bytes(data)
    running = desk.server("--nodes", "1", "--format", "json")
    mark(desk, on, "solve", **SOLVE)
    stop(desk, on, running, **END)
    assert ["(before solve)", "solve"] == [row[0] for row in rows(running.wait().record)]
    assert [] == os.listdir(desk.state)


def test_a_damaged_mark_costs_the_parts_and_not_the_report(desk):
    """The first and the last reading are sound: their difference is the job."""
    running, on = desk.server("--nodes", "1", "--format", "json"), started(desk)
    mark(desk, on, "stage", **STAGE)
    [path] = desk.state.glob("*.mark.0001")
    path.write_bytes(path.read_bytes()[:-9])
    write_tree(on[3], **END)
    done = desk.client("stop", "--server", f"127.0.0.1:{running.port}", *on)
    assert (0, f"iostats: {path}: the mark is cut off or damaged; its part is in the one before"
            ) == (done.status, done.line)
    assert (23, 41_003, 43, False) == whole(running.wait().record)
    assert [] == os.listdir(desk.state)


# -- the command line --------------------------------------------------------------------------


@pytest.mark.parametrize("given, name", [
    ("solve the equations", "solve the equations"), ("  solve  ", "solve"),
    ("Löser ✓ 解", "Löser ✓ 解"), ("start", "start"), ("1", "1"), ("a=b", "a=b"),
    ("\N{ROCKET}", "\N{ROCKET}"), ("x" * 60, "x" * 60), ("=1+1", "=1+1"), ("%20/..", "%20/.."),
], ids=["blanks", "blanks around it", "not ASCII", "a role", "the ancestor's start", "equals",
        "not in the first plane", "60 characters", "a formula", "a path"])
def test_a_name_is_any_text_that_can_be_printed(desk, given, name):
    """As it was given, in JSON and in the table."""
    running = desk.server("--nodes", "1", "--json", "record.json", "--format", "plain")
    on = started(desk)
    mark(desk, on, given)
    stop(desk, on, running)
    out = running.wait().out
    phases = json.loads((desk.directory / "record.json").read_text())["phases"]
    assert [f"(before {name})", name] == [phase["name"] for phase in phases]
    # A long name is broken into lines of its column.
    table = out.partition("Parts of this job:\n")[2].partition("\nnote: ")[0].splitlines()
    column = "".join(line.split("  ")[0] for line in table[1:])
    assert "".join(f"(before {name}){name}".split()) == "".join(column.split())


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "a\tb", "\x1b[2J", "x" * 61, "a\u202eb",
                                  "\udcff\udcfe"],
                         ids=["empty", "blanks", "two lines", "a tab", "an escape", "61 characters",
                              "right to left", "no text"])
def test_a_name_that_cannot_be_printed_in_a_row_is_refused(desk, name):
    """Status 2, one line that shows it without doing what it says, and no mark."""
    on = started(desk)
    done = desk.client("mark", name, *on)
    assert 2 == done.status
    assert "mark: expected a name of 1 to 60 printable characters, got '" in done.line
    assert done.line.isprintable()
    assert 1 == len(os.listdir(desk.state))


@pytest.mark.parametrize("arguments, line", [
    (("mark",), "mark: expected the name of the part that begins, got nothing"),
    (("mark", "a", "b"), "expected one of start mark watch stop show doctor prolog epilog "
                         "deliver harvest events, got 'mark a b' (see --help)"),
], ids=["no name", "two names"])
def test_a_mark_has_one_name(desk, arguments, line):
    """Status 2, one line, and no mark."""
    on = started(desk)
    done = desk.client(*arguments, *on)
    assert (2, f"iostats: {line}") == (done.status, done.line)
    assert 1 == len(os.listdir(desk.state))


def test_a_mark_without_a_start_is_one_line(desk):
    """Status 2, and no directory is left."""
    done = desk.client("mark", "solve", *desk.on("nid00023", desk.tree(**START)))
    assert (2, f"iostats: nid00023: job {desk.job} was not started here: no snapshot in "
               f"{desk.state}; run `iostats_client.py start` before the first mark"
            ) == (done.status, done.line)
    assert [] == os.listdir(desk.state)


def test_99_marks_are_taken_and_the_100th_is_refused(desk):
    """Status 2; the 99 are 100 rows of the record, and none is lost."""
    running, on = desk.server("--nodes", "1", "--format", "json"), started(desk)
    for number in range(1, 100):
        mark(desk, on, f"part {number}")
    done = desk.client("mark", "part 100", *on)
    assert (2, "iostats: mark: expected up to 99 marks in a job, got one more; mark larger parts"
            ) == (done.status, done.line)
    stop(desk, on, running, **END)
    record = running.wait().record
    assert ["(before part 1)", "part 1", "part 2", "part 99"] == [
        record["phases"][place]["name"] for place in (0, 1, 2, 99)]
    assert 100 == len(record["phases"])
    assert ("part 99", 1, 23, 41_003, 43, False) == rows(record)[99]
