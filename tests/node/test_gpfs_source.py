"""
The source of GPFS: answers of mmpmon in a file that the site's prolog and epilog leave.

The lines have the keywords of real ones: of GPFS 3.5 on, as in IBM's documentation.
"""
import itertools
import time

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_job_totals import llite
from trees import report

from iostats.base.config import Config
from iostats.base.errors import StatsSyntaxError
from iostats.node.sources import gpfs
from iostats.report import job_tables
from iostats.totals import delta
from iostats.totals.job_totals import Totals
from iostats.totals.snapshot import Snapshot

_ANSWERS = itertools.count(53212)


def answer(read, written, fs="scratch", age_s=0.0, code=0, opens=7, reads=13):
    return (f"_fs_io_s_ _n_ 10.22.0.106 _nn_ node1 _rc_ {code} _t_ {time.time() - age_s:.0f} "
            f"_tu_ {next(_ANSWERS)} _cl_ gpfs.domain _fs_ {fs} _d_ 48 _br_ {read} _bw_ {written} "
            f"_oc_ {opens} _cc_ 11 _rdc_ {reads} _wc_ 17 _dir_ 19 _iu_ 23\n")


def node(root, *answers):
    """The Snapshot of a node whose prolog has left these answers."""
    (root / "run/iostats").mkdir(parents=True, exist_ok=True)
    (root / "run/iostats/mmpmon").write_text("".join(answers))
    return Snapshot("4711", "node001", "seq", "boot", 10**18, 10**9,
                    tuple(gpfs.read(str(root), Config())))


def gained(before, after):
    return delta.compute_deltas(before, after, {"gpfs": gpfs})


def test_each_file_system_has_the_bytes_of_programs(tmp_path):
    """23 and 37 of one, 41 and 43 of the other; other answers are no file systems."""
    before = node(tmp_path, "_ver_ _n_ 10.22.0.106\n", answer(100, 200), answer(7, 11, "home"))
    after = node(tmp_path, answer(123, 237), answer(48, 54, "home"))
    assert {"gpfs.domain:scratch": {"read_bytes": 23, "write_bytes": 37},
            "gpfs.domain:home": {"read_bytes": 41, "write_bytes": 43}} == {
        one.file_system: one.values for one in gained(before, after)}


def test_calls_of_programs_are_gained_as_well(tmp_path):
    """7 and 41 opens are 34, 13 and 60 reads 47; of the others there were none in between."""
    [found] = gained(node(tmp_path, answer(100, 200)),
                     node(tmp_path, answer(123, 237, opens=41, reads=60)))
    assert ({"read_bytes": 23, "write_bytes": 37, "open": 34, "read_calls": 47}, False) == (
        found.values, found.lower_bound)


def test_after_a_reset_calls_are_those_since(tmp_path):
    """The bytes are lower, so 41 opens came after the reset, and not 34; inodes are no calls."""
    [found] = gained(node(tmp_path, answer(100, 200)),
                     node(tmp_path, answer(23, 37, opens=41)))
    assert {"read_bytes": 23, "write_bytes": 37, "open": 41, "close": 11, "read_calls": 13,
            "write_calls": 17, "readdir": 19} == found.values
    assert found.lower_bound


@pytest.mark.parametrize("later, values", [((23, 237), {"read_bytes": 23, "write_bytes": 237}),
                                           ((0, 0), {})], ids=["one is lower", "both"])
def test_a_reset_makes_a_lower_bound(tmp_path, later, values):
    [found] = gained(node(tmp_path, answer(100, 200)), node(tmp_path, answer(*later)))
    moved = {name: value for name, value in found.values.items() if name.endswith("_bytes")}
    assert (values, True) == (moved, found.lower_bound)


def test_counts_of_32_bits_that_begin_again_may_hide_a_reset(tmp_path):
    """The bytes are right if they are full, and else more: a lower bound in both cases."""
    [found] = gained(node(tmp_path, answer(100, 200, opens=2**32 - 1)),
                     node(tmp_path, answer(123, 200, opens=3)))
    assert ({"read_bytes": 23, "open": 3}, True) == (found.values, found.lower_bound)


def test_the_answer_of_the_start_is_none_at_the_end(tmp_path):
    """mmpmon failed at the end of a short job, and its file is still there."""
    first = node(tmp_path, answer(100, 200))
    [found] = gained(first, first)
    assert ({}, True, "the answer at the end is that of the start") == (
        found.values, found.lower_bound, found.why)


@pytest.mark.parametrize("start_age_s, end_age_s, values", [(3600, 0, None), (0, 3600, {})],
                         ids=["at the start", "at the end"])
def test_an_old_answer_is_none(tmp_path, start_age_s, end_age_s, values):
    """An mmpmon that failed leaves its last answer: then the I/O is unknown, and marked."""
    [found] = gained(node(tmp_path, answer(100, 200, age_s=start_age_s)),
                     node(tmp_path, answer(123, 237, age_s=end_age_s)))
    assert (values, True) == (found.values, found.lower_bound)


def test_a_site_chooses_among_them(tmp_path):
    """[node] file_systems has their names, too."""
    node(tmp_path, answer(1, 2), answer(3, 4, "home"))
    choice = Config()
    choice.set_value("node.file_systems", "*:home scratch", "the test")
    assert ["gpfs.domain:home"] == [file.name for file in gpfs.read(str(tmp_path), choice)]


def test_a_node_without_gpfs_has_no_files(tmp_path):
    assert [] == gpfs.read(str(tmp_path), Config())


@pytest.mark.parametrize("text", [answer(-1, 2), answer("", 2), answer(2**63, 2),
                                  answer(1, 2, code=1), "_fs_io_s_ _n_\n", "\n"],
                         ids=["negative", "empty", "beyond 63 bits", "an error", "cut", "no line"])
def test_an_answer_without_its_bytes_is_refused(text):
    with pytest.raises(StatsSyntaxError, match="bytes below"):
        gpfs.parse(text)


class Daemon:
    """A node's mmfsd: a mount's bytes, and calls of 32 bits, since the mount or a reset."""

    def __init__(self, root):
        self.root, self.is_mounted, self.seconds = root, True, 0
        self.calls = 2**32 - 40
        self.bytes = [0, 0]

    def move(self, direction, size):
        """What a program reads (0) or writes (1), 10 bytes a call."""
        if self.is_mounted:
            self.bytes[direction] += size
            self.calls = (self.calls + -(-size // 10)) % 2**32

    def clear(self):
        """`mmpmon reset`, or a new mmfsd."""
        self.bytes, self.calls = [0, 0], 0

    def snapshot(self, answers):
        """The Snapshot after mmpmon; where it does not answer, its last file is there."""
        if answers:
            (self.root / "run/iostats").mkdir(parents=True, exist_ok=True)
            (self.root / "run/iostats/mmpmon").write_text(
                answer(*self.bytes, opens=self.calls) if self.is_mounted else "")
        ns = self.seconds * 10**9
        return Snapshot("4711", "node001", "seq", "boot", 10**18 + ns, ns,
                        tuple(gpfs.read(str(self.root), Config())))


_WORK = st.lists(st.tuples(
    st.sampled_from(("read", "write", "read", "write", "clear", "unmount", "mount")),
    st.integers(1, 400)), max_size=8)


@given(_WORK, _WORK, st.booleans(), st.booleans())
@settings(max_examples=examples(60))
def test_no_number_is_wrong_without_its_mark(tmp_path_factory, before, during, first, last):
    """Random histories; a clear with more bytes and calls than before it leaves no trace."""
    root = tmp_path_factory.getbasetemp() / "gpfs"
    (root / "run/iostats/mmpmon").unlink(missing_ok=True)
    daemon, done, overtaken, calls = Daemon(root), [0, 0], [], [0]

    def go(work):
        for what, size in work:
            if what in ("read", "write") and daemon.is_mounted:
                daemon.move(what == "write", size)
                done[what == "write"] += size
                calls[0] += -(-size // 10)
            elif what in ("clear", "unmount"):
                daemon.clear()
                overtaken.append(what)
                daemon.is_mounted = daemon.is_mounted and what == "clear"
            elif what == "mount":
                daemon.is_mounted = True
    go(before)
    begun = daemon.snapshot(first)
    then = [*daemon.bytes, daemon.calls]
    done[:], calls[:] = (0, 0), (0,)
    overtaken.clear()
    go(during)
    now = [*daemon.bytes, daemon.calls]
    found = gained(begun, daemon.snapshot(last))
    if overtaken and all(a <= b for a, b in zip(then, now)):
        return
    if not found:               # not mounted at both moments, or never answered
        assert not (first and last) or not (begun.files or daemon.is_mounted)
        return
    [gain] = found
    for metric, truth in zip(("read_bytes", "write_bytes"), done):
        counted = (gain.values or {}).get(metric, 0)
        assert counted <= truth
        assert counted == truth or gain.lower_bound, (gain, truth)
    assert (gain.values or {}).get("open", 0) <= calls[0], (gain, calls)


def test_a_report_has_it_beside_lustre(tmp_path):
    totals = Totals("4711", 1)
    totals.add(report(deltas=[llite(read_bytes=41, open=1), *gained(
        node(tmp_path, answer(0, 0)), node(tmp_path, answer(23 << 10, 0)))]))
    record = totals.record()
    [fs] = [fs for fs in record.file_systems if fs.kind == "gpfs"]
    assert (23 << 10, 0, None, {}) == (fs.application.read_bytes, fs.application.read_calls,
                                          fs.network, fs.sources["gpfs"].totals)
    text = job_tables.format_report(job_tables.add_labels(record, Config()), Config())
    assert "| gpfs.domain:scratch | 23.0 KiB    | 0 bytes      |" in text, text
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["scratch", "1", "0", "0"] in rows
    assert ["gpfs.domain:scratch", ">= 0", ">= 0", ">= 0"] in rows
    assert {"read_bytes": 23 << 10} == record.nodes["node001"]["file_systems"][fs.name]
