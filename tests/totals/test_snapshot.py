"""
A snapshot on disk: every byte of the kernel comes back, and a damaged one is never believed.
"""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.errors import StateError
from iostats.lustre.paths import File
from iostats.node import sources
from iostats.totals import snapshot as snapshots
from iostats.totals.snapshot import Snapshot, decode, encode

STATS = "snapshot_time 1752000000.000000023 secs.nsecs\nopen 23 samples [regs]\n"
WHOLE = Snapshot("4711", "nid00001", "9f2c31d0a4b85e67", "5e0d", 1_790_277_040_611_962_111,
                 1_000_611_962_111, (
    File("llite", "scratch-ff9a", "proc/fs/lustre/llite/scratch-ff9a/stats", 0, STATS),
    File("osc", "scratch-OST0000-osc-ff9a", "-", errno.EACCES, "")))


def test_the_form_on_disk_is_the_documented_one():
    """Another program (and another release of this one) can read it."""
    assert (b"iostats-snapshot 1\n"
            b"job 4711\n"
            b"node nid00001\n"
            b"seq 9f2c31d0a4b85e67\n"
            b"boot_id 5e0d\n"
            b"wall_ns 1790277040611962111\n"
            b"boot_ns 1000611962111\n"
            b"mark \n"
            b"file llite 0 69 scratch-ff9a proc/fs/lustre/llite/scratch-ff9a/stats\n"
            b"snapshot_time 1752000000.000000023 secs.nsecs\nopen 23 samples [regs]\n\n"
            b"file osc 13 0 scratch-OST0000-osc-ff9a -\n"
            b"\n"
            b"end 2 bd068b3a\n") == encode(WHOLE)


@pytest.mark.parametrize("snapshot", [
    WHOLE,
    WHOLE._replace(files=()),
    WHOLE._replace(mark="solve, 2nd part"),
    WHOLE._replace(boot_id="", boot_ns=0),
    WHOLE._replace(job="my job é"),
    WHOLE._replace(files=(File("llite", "a-1", "p/a b/stats", 0, "no end of line"),)),
    WHOLE._replace(files=(File("llite", "a-1", "p", 0, "end 1\nfile osc 0 5 x y\n"),)),
    WHOLE._replace(files=(File("llite", "a-1", "caf\udce9/stats", 0, "\x00\xff\n\n"),)),
    WHOLE._replace(files=(File("llite", "a-1", "p", 0, ""),) * 2000),
], ids=["whole", "no files", "a phase", "no boot id", "a job with a blank", "no newline at the end",
        "a text that looks like our own lines", "bytes that are no text", "2000 files"])
def test_what_is_encoded_is_decoded(snapshot):
    """Nothing in a counter file or a name can break the form."""
    assert snapshot == decode(encode(snapshot), "the test")


words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
texts = st.binary(max_size=300).map(lambda data: data.decode("latin-1"))
files = st.builds(File, words, words, words, st.integers(0, 133), texts)


@given(st.builds(Snapshot, words, words, words, words, st.integers(0, 2**63),
                 st.integers(0, 2**63), st.lists(files, max_size=4).map(tuple)))
def test_any_snapshot_comes_back_as_it_was(snapshot):
    """Binary text too: latin-1 takes the kernel's bytes one to one."""
    assert snapshot == decode(encode(snapshot), "the test")


@pytest.mark.parametrize("length", range(len(encode(WHOLE))))
def test_a_snapshot_that_is_cut_off_anywhere_is_refused(length):
    """A full disk, a node that died while it wrote: half a snapshot is none."""
    with pytest.raises(StateError, match="the test: the start snapshot is cut off or damaged"):
        decode(encode(WHOLE)[:length], "the test")


@pytest.mark.parametrize("wrong", [
    b"", b"\n", b"iostats-snapshot 2\n", encode(WHOLE) + b"\n", encode(WHOLE) * 2,
    encode(WHOLE).replace(b"end 2", b"end 3"),
    encode(WHOLE).replace(b"end 2", b"end x"),
    encode(WHOLE).replace(b" 69 ", b" 68 "),
    encode(WHOLE).replace(b" 69 ", b" -1 "),
    encode(WHOLE).replace(b" 69 ", b" 99999999999999999999 "),
    encode(WHOLE).replace(b"file llite", b"fil\x00 llite"),
    encode(WHOLE).replace(b"node nid", b"npde nid"),
    encode(WHOLE).replace(b"wall_ns 1", b"wall_ns x"),
    encode(WHOLE).replace(b"seq 9f2c31d0a4b85e67\n", b""),
    b"\x7fELF" + bytes(range(256)), bytes(4096), encode(WHOLE)[::-1],
], ids=["empty", "a line end", "another version", "a byte more", "twice", "a wrong count",
        "no count", "a length too small", "a negative length", "an absurd length",
        "an altered word", "an altered field", "a time that is no number", "a field less",
        "a program", "zeros", "backwards"])
def test_a_damaged_snapshot_is_refused_with_one_clear_line(wrong):
    """It names the file, what that means for the job, and what to do."""
    with pytest.raises(StateError) as refusal:
        decode(wrong, "/state/4711.start")
    assert ("/state/4711.start: the start snapshot is cut off or damaged; what the job did before "
            "now is unknown (remove the file, or `start --again`)") == str(refusal.value)


@given(st.integers(0, len(encode(WHOLE)) - 1), st.integers(1, 255))
def test_no_altered_byte_raises_anything_but_a_state_error(place, difference):
    """What still has the form is taken: it is a text, and checked again when it is parsed."""
    data = bytearray(encode(WHOLE))
    data[place] ^= difference
    try:
        assert isinstance(decode(bytes(data), "the test"), Snapshot)
    except StateError as refusal:
        assert "\n" not in str(refusal)


# -- from texts to readings ----------------------------------------------------------------------


@pytest.mark.parametrize("text, why", [
    ("", "the file is torn"),
    (STATS[:-1], "the file is torn"),
    (STATS[:-9], ":2: expected "),
    ("open 23 samples [regs]\n", "the file is torn"),
    ("\x7fELF\n", ":1: expected "),
    (STATS.replace("secs", "days"), ":1: expected "),
], ids=["empty", "without its last byte", "torn in a line", "no snapshot_time", "binary",
        "no time that is one"])
def test_a_file_that_is_not_whole_is_unreadable_with_its_reason(text, why):
    """The kernel prints snapshot_time first and ends every line; without them something is lost."""
    file = File("llite", "scratch-ff9a", "proc/fs/lustre/llite/scratch-ff9a/stats", 0, text)
    read, refused = snapshots.parse_readings(WHOLE._replace(files=(file,)),
                                             sources.read_at("start"))
    assert {} == read
    assert why in refused["llite", "scratch-ff9a"]
    assert "proc/fs/lustre/llite/scratch-ff9a/stats" in refused["llite", "scratch-ff9a"]


def test_one_broken_file_takes_no_other_with_it():
    """The numbers of the others still stand."""
    broken = File("llite", "home-ff9a", "p/home-ff9a/stats", 0, "\x00\x01\x02")
    read, refused = snapshots.parse_readings(WHOLE._replace(files=(*WHOLE.files, broken)),
                                             sources.read_at("start"))
    assert [("llite", "scratch-ff9a")] == list(read)
    assert [("llite", "home-ff9a"), ("osc", "scratch-OST0000-osc-ff9a")] == sorted(refused)
    assert 23 == read["llite", "scratch-ff9a"].counters["open"].samples


def test_a_source_of_another_release_is_passed_over():
    """A snapshot of a newer client can have files that this one does not know."""
    file = File("moons", "scratch-ff9a", "p", 0, "whatever")
    assert ({}, {}) == snapshots.parse_readings(WHOLE._replace(files=(file,)),
                                                sources.read_at("start"))


@pytest.mark.parametrize("code, why", [
    (errno.EACCES, "permission denied"),
    (errno.EPERM, "forbidden by the kernel, even for root (lockdown)"),
    (errno.EIO, "EIO"),
    (9999, "error 9999"),
], ids=["not root", "Secure Boot", "a broken disk", "a number nobody knows"])
def test_a_refusal_is_told_in_words(code, why):
    """What a user can fix, what only the administrator can, and what nobody knows."""
    assert why == snapshots.explain_code(code)
