"""
Job ids of any batch system, the ports that follow from one, and names of files.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base import job_id, node_list
from iostats.base.errors import UsageError
from iostats.base.job_id import (
    check_job_id,
    check_node_name,
    is_node_name,
    make_filename,
)
from iostats.base.job_ports import PORT_STEP, list_ports

# home = 20000 + (N + crc32(REST)) mod 10000.  crc32 as printed by
#   printf REST | gzip -c | tail -c8 | od -An -N4 -tu4          (gzip's trailer is crc32, size)
HOMES = [
    ("1234567", 24567),          # 1234567 + 0
    ("1234.server", 22284),      # 1234 + 3913411050
    ("1234[7].server", 26803),   # 1234 + 1377855569
    ("1234_7", 21709),           # 1234 + 3293050475
    ("1234+1", 27406),           # 1234 + 1719136172
    ("f2Jx9k", 24009),           # 0 + 3458274009
    ("0", 20000),
    ("9" * 30, 29999),           # 10**30 - 1
]


@pytest.mark.parametrize("job, home", HOMES, ids=[job for job, _ in HOMES])
def test_the_first_port_is_the_documented_function_of_the_job_id(job, home):
    """Both ends compute it, perhaps with different releases: these numbers never change."""
    assert home == list_ports(job, 20000, 29999, 1)[0]


def test_the_next_ports_are_257_apart():
    """24567, then +257 each time, and round at the end of the range."""
    assert [24567, 24824, 25081, 25338] == list_ports("1234567", 20000, 29999, 4)
    assert [29999, 20256] == list_ports("9999", 20000, 29999, 2)


def test_jobs_that_follow_one_another_have_ports_that_follow_one_another():
    """So that the jobs of one day, which run together, do not meet."""
    assert [21233, 21234, 21235] == [list_ports(job, 20000, 29999, 1)[0]
                                     for job in ("1233", "1234", "1235")]


@pytest.mark.parametrize("first, last, tries, count", [
    (20000, 29999, 16, 16), (20000, 20000, 16, 1), (20000, 20256, 16, 1),
    (20000, 20513, 16, 2), (20000, 20009, 16, 10), (1, 65535, 1000, 255),
], ids=["the default", "one port alone", "257 ports: the step leads back at once",
        "514 ports: two are reached", "ten ports, each once", "all ports: 65535 is 255 x 257"])
def test_no_port_is_tried_twice(first, last, tries, count):
    """A range that has a factor of 257 ends the sequence early, and not in a loop."""
    found = list_ports("1234567", first, last, tries)
    assert count == len(found) == len(set(found))
    assert all(first <= port <= last for port in found)


@given(st.text(min_size=1, max_size=128), st.integers(1, 65535), st.integers(0, 65534),
       st.integers(1, 100))
def test_every_text_has_ports_in_the_range_and_always_the_same(job, first, size, tries):
    """Any id of any batch system, in any range."""
    last = min(65535, first + size)
    found = list_ports(job, first, last, tries)
    assert found == list_ports(job, first, last, tries)
    assert 1 <= len(found) <= tries and all(first <= port <= last for port in found)
    assert len(found) == len(set(found))


# -- what is a job id, and what a node ----------------------------------------------------------


@pytest.mark.parametrize("text, job", [
    ("4711", "4711"), (" 4711\n", "4711"), ("1234[7].server", "1234[7].server"),
    ("a job with blanks", "a job with blanks"), ("/../../etc/passwd", "/../../etc/passwd"),
    ("jób", "jób"), ("x" * 128, "x" * 128),
])
def test_any_printed_text_is_a_job_id(text, job):
    """Batch systems differ; only what would break a line or a screen is refused."""
    assert job == check_job_id(text)


@pytest.mark.parametrize("text, message", [
    ("", "--job: expected a job id, got nothing"),
    (" \n\t ", "--job: expected a job id, got nothing"),
    ("x" * 300, "--job: expected a job id of at most 128 characters, got 300: "
                "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'..."),
    ("47\n11", "--job: expected a job id without control characters, got '47\\n11'"),
    ("\x1b[2J", "--job: expected a job id without control characters, got '\\x1b[2J'"),
    ("4711\x00", "--job: expected a job id without control characters, got '4711\\x00'"),
    ("\udce9", "--job: expected a job id without control characters, got '\\udce9'"),
    ("a\u202eb", "--job: expected a job id without control characters, got 'a\\u202eb'"),
], ids=["empty", "blanks", "300 characters", "a line end", "a terminal's escape", "a zero byte",
        "bytes that are no text", "text that runs backwards"])
def test_what_can_be_no_job_id_is_refused_in_one_line(text, message):
    """It says what was expected and what was there."""
    with pytest.raises(UsageError) as refusal:
        check_job_id(text)
    assert message == str(refusal.value)


def test_the_message_names_the_variable_the_id_came_from():
    """A user never typed SLURM_JOB_ID; the administrator did."""
    with pytest.raises(UsageError, match=r"^SLURM_JOB_ID: expected a job id, got nothing$"):
        check_job_id("  ", "SLURM_JOB_ID")


@pytest.mark.parametrize("name, valid", [
    ("nid00001", True), ("node-1.cluster.example.org", True), ("fe80::1", True), ("a_b", True),
    ("x" * 253, True), ("", False), ("x" * 254, False), ("no de", False), ("nöde", False),
    ("node\n", False), ("node,time=1", False), ("node/..", False), ("node\"", False),
    ("\uff12", False), ("nid[1-4]", False),
])
def test_a_node_name_is_what_a_host_can_be_called(name, valid):
    """It stands in a header and in tables, so nothing else may be in it."""
    assert valid is is_node_name(name)


@pytest.mark.parametrize("name", ["", "no de", "x" * 300, "\x1b[2J"])
def test_another_node_name_is_refused_in_one_line(name):
    """--node is typed by people."""
    with pytest.raises(UsageError, match=r"^--node: expected a node's name \(letters, digits and "):
        check_node_name(name)


# -- names of files -----------------------------------------------------------------------------


@pytest.mark.parametrize("parts, name", [
    (("4711", "nid00001"), "4711%20nid00001"),
    (("1234[7].server",), "1234%5B7%5D%2Eserver"),
    (("/../../etc/passwd",), "%2F%2E%2E%2F%2E%2E%2Fetc%2Fpasswd"),
    (("..",), "%2E%2E"), ((".hidden",), "%2Ehidden"), (("1234+1_7@x-y",), "1234+1_7@x-y"),
    (("100%",), "100%25"), (("a\x00b\n",), "a%00b%0A"),
], ids=["job and node", "an array", "a path", "the directory above", "a hidden file",
        "what may stay", "our own mark", "control characters"])
def test_a_file_name_can_lead_nowhere_else(parts, name):
    """No / and no . is left, so that no id leaves the directory or hides in it."""
    assert name == make_filename(*parts)


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_ids_never_share_a_file(one, two):
    """Or the job of one user would take the snapshot of another."""
    assert (one == two) == (make_filename(one) == make_filename(two))


def test_ids_that_look_alike_when_written_in_hex_do_not_share_a_file():
    """The character 0x2603 is not the character 0x26 with "03" after it."""
    assert make_filename("\u2603") != make_filename("&03")


@pytest.mark.parametrize("job", ["x" * 300, "/" * 300, "\u2603" * 300],
                         ids=["300 letters", "300 slashes", "300 snowmen"])
def test_a_long_id_has_a_short_name_and_its_own(job):
    """Names of files end at 255 bytes, and ours get endings; alike ids stay apart."""
    assert 180 >= len(make_filename(job).encode())
    assert make_filename(job) != make_filename(job + "x")


@given(st.text(max_size=300))
def test_a_file_name_is_plain_ascii_and_short(text):
    """For every file system and every shell."""
    name = make_filename(text)
    assert name.isascii() and 180 >= len(name)
    assert not set(name) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_+@-%")


def test_the_limits_are_those_of_the_wire():
    """docs/reference/wire.md says so."""
    assert (128, 253, 257) == (job_id.LONGEST_JOB_ID, job_id.LONGEST_NODE_NAME, PORT_STEP)


def test_arrays_are_counted_before_they_are_written_out(monkeypatch):
    """A page's question may have 1,000 of them, each of 299 tasks: it costs two."""
    written, real = [], node_list.expand_node_list

    def expanded(text, most):
        found = real(text, most)
        written.extend(found)
        return found
    monkeypatch.setattr(node_list, "expand_node_list", expanded)
    arrays = [f"{number}_[1-299]" for number in range(1000, 2000)]
    with pytest.raises(UsageError, match=r"^job: expected up to 300 jobs, got more$"):
        job_id.expand_jobs(arrays, "job", 300)
    assert 2 * 299 == len(written)
    with pytest.raises(UsageError, match=r"^job: expected up to 300 jobs, got more$"):
        job_id.expand_jobs(["100_[1-999999]"], "job", 300)
    assert 2 * 299 == len(written)
    assert ["4711", "100_1", "100_2"] == job_id.expand_jobs(["4711", "100_[1-2]", "4711"], "job", 3)
