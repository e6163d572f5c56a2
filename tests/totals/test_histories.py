"""
Random histories of a node, played on a model that knows the truth and prints the files as a
release of Lustre does: work, clears, remounts, reboots, files that can't be read, the header
switched on and off, sums past 2**63, sums of squares past 2**64, marks in between.

The promise: never more than was done.  Less only with a mark; or, where no start_time tells and no
counter, minimum or maximum fell, without a mark and not `proved`.

A file that is torn ends within a line: the kernel hands out whole files, and what was kept has
a checksum, so that a file which ends early behind a whole line is none that could be met.
"""

import errno
from collections import Counter as Sums
from collections import namedtuple

import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from iostats.lustre.paths import File
from iostats.node import sources
from iostats.totals import delta
from iostats.totals.snapshot import Snapshot

SOURCES = sources.read_at("start")
COUNTED = ("llite", "md_stats", "rpc_stats")
LIMIT = 2**63 - 1                            # of an s64, and LC_MIN_INIT
SECOND = 1_000_000_000

Form = namedtuple("Form", "starts rpc_starts timed saturates can_switch width unit")
FORMS = {
    "2.12": Form(starts=False, rpc_starts=False, timed=False, saturates=False,
                 can_switch=False, width=25, unit="regs"),
    "2.14": Form(starts=False, rpc_starts=False, timed=True, saturates=False,
                 can_switch=False, width=25, unit="usec"),
    "2.15.4": Form(starts=True, rpc_starts=False, timed=True, saturates=False,
                   can_switch=False, width=25, unit="usec"),
    "2.17": Form(starts=True, rpc_starts=True, timed=True, saturates=True,
                 can_switch=True, width=35, unit="usecs"),
}

# What a counter is called, where it stands, and what it becomes: (count, sum, sum of squares).
METRICS = {
    ("llite", "read_bytes"): ("read_calls", "read_bytes", None),
    ("llite", "open"): ("open", "open_us", "open_us2"),
    ("llite", "fsync"): ("fsync", "fsync_us", "fsync_us2"),
    ("md_stats", "close"): ("close", None, None),
    ("rpc_stats", "1"): ("read_rpcs_pages_1", None, None),
    ("rpc_stats", "16"): ("read_rpcs_pages_16", None, None),
}


# -- the model ---------------------------------------------------------------------------------


class Line:
    """One counter as the kernel keeps it."""

    def __init__(self):
        self.count = self.sum = self.squares = self.max = 0
        self.min = LIMIT

    def put(self, amount):
        self.sum += amount
        self.squares += amount * amount
        self.min, self.max = min(self.min, amount), max(self.max, amount)


class Mount:
    """The files of one mount: counters, and the moment of each file's last clear."""

    def __init__(self, instance, uuid, now):
        self.instance, self.uuid = instance, uuid
        self.lines = {key: Line() for key in METRICS}
        self.starts = {"llite": now, "md_stats": now + 23, "rpc_stats": now + 37}
        self.cleared = set()

    def clear(self, source, now):
        self.lines.update({key: Line() for key in METRICS if key[0] == source})
        self.starts[source] = now
        self.cleared.add(source)


# What the test knows of a moment: the snapshot, all that was ever done, {key: (count, min, max)},
# {source: start_time that its file shows}, and which mount of which boot it is.
Moment = namedtuple("Moment", "snapshot truth lines starts identity")


class Node:
    """A node with a mount, or none; `truth` is all that programs ever did."""

    def __init__(self, form):
        self.form, self.now, self.header = form, 1_751_990_000 * SECOND, True
        self.boots = self.mounts = 0
        self.truth, self.half_done, self.mount = Sums(), None, None
        self.remount(0x9A3C5D1E0800)

    def play(self, what, *how):
        """One event."""
        self.now += SECOND + 7
        if self.half_done:
            line, key, amount = self.half_done
            self.half_done = None
            self._add_amount(line, key, amount)
        getattr(self, what)(*how)

    def work(self, key, amounts):
        for amount in amounts if self.mount else ():
            self._add_amount(self._count(key), key, amount)

    def half(self, key, amount):
        """The kernel adds to the count first, and to the rest a moment later."""
        if self.mount:
            self.half_done = self._count(key), key, amount

    def clear(self, source):
        for each in COUNTED if source == "all" else (source,):
            if self.mount:
                self.mount.clear(each, self.now)

    def redo(self, source, amounts):
        """Clear a file, then call each operation more often than it had been."""
        before = dict(self.mount.lines) if self.mount else {}
        self.clear(source)
        for key, line in before.items():
            if key[0] == source and line.count:
                self.work(key, (amounts * (line.count + 1))[:line.count + len(amounts)])

    def remount(self, instance):
        self.mounts += 1
        self.mount = Mount(f"ffff{instance:012x}", f"uuid-{self.mounts:04d}", self.now)

    def unmount(self):
        self.mount = None

    def reboot(self, instance):
        self.boots += 1
        self.remount(instance)

    def switch(self, header):
        self.header = header or not self.form.can_switch

    def _count(self, key):
        line = self.mount.lines[key]
        line.count += 1
        self.truth[METRICS[key][0]] += 1
        return line

    def _add_amount(self, line, key, amount):
        line.put(amount)
        _, total, squares = METRICS[key]
        if self._has_sum(key):
            self.truth[total] += amount
            if squares:
                self.truth[squares] += amount * amount

    def _has_sum(self, key):
        return key[1] == "read_bytes" or (self.form.timed and key[0] == "llite")

    # what the kernel prints

    def scan(self, damage=()):
        """The Moment of now; `damage`: {source: place to cut at, or an errno}."""
        damage, files = dict(damage), []
        if self.mount:
            name = self.mount.instance
            for source, directory, text in (
                    ("llite", f"my-fs-{name}", self._stats("llite")),
                    ("md_stats", f"my-fs-MDT0000-mdc-{name}", self._stats("md_stats")),
                    ("rpc_stats", f"my-fs-OST0000-osc-{name}", self._rpc_stats()),
                    ("uuid", f"my-fs-{name}", self.mount.uuid + "\n")):
                files.append(_damaged(File(source, directory,
                                           f"proc/fs/lustre/{directory}/{source}", 0,
                                           text), damage.get(source)))
        here = [self.mount] if self.mount else []
        return Moment(
            Snapshot("4711", "node001", "seq", f"boot {self.boots}", self.now, self.now,
                     tuple(files)),
            Sums(self.truth),
            {key: (line.count, line.min, line.max) if self._has_sum(key) else (line.count, 0, 0)
             for mount in here for key, line in mount.lines.items() if line.count},
            {source: self._shown_start(source) for mount in here for source in COUNTED
             if source not in damage},
            (self.boots, *(mount.instance for mount in here),
             *(mount.uuid for mount in here if "uuid" not in damage)))

    def _shown_start(self, source):
        """ns of the start_time that the file prints; 0 for 0.000000000; None for none."""
        if not self.form.starts or not self.header:
            return None
        if source == "rpc_stats" and not self.form.rpc_starts and source not in self.mount.cleared:
            return 0
        return self.mount.starts[source]

    def _header(self, source, width, colon=""):
        start = self._shown_start(source)
        times = [("snapshot_time", self.now)]
        if start is not None:
            times += [("start_time", start), ("elapsed_time", self.now - start)]
        return "".join(f"{name + colon:<{width}} {ns // SECOND}.{ns % SECOND:09d} secs.nsecs\n"
                       for name, ns in times)

    def _stats(self, source):
        text = self._header(source, self.form.width)
        for (where, name), line in self.mount.lines.items():
            if where != source or not line.count:
                continue
            total, squares = self._printed(line)
            text += f"{name:<{self.form.width}} {line.count} samples "
            if name == "read_bytes":
                text += f"[bytes] {line.min} {line.max} {total}"
                text += f" {squares}\n" if self.form.timed else "\n"
            elif self.form.timed and source == "llite":
                text += f"[{self.form.unit}] {line.min} {line.max} {total} {squares}\n"
            else:
                text += f"[{'reqs' if source == 'md_stats' else self.form.unit}]\n"
        return text

    def _printed(self, line):
        """(sum as %lld, sum of squares as %llu): both stay at 2**63-1, or wrap at 2**64."""
        if self.form.saturates:
            return min(line.sum, LIMIT), min(line.squares, LIMIT)
        return (line.sum + 2**63) % 2**64 - 2**63, line.squares % 2**64

    def _rpc_stats(self):
        text = self._header("rpc_stats", 25, ":") + (
            "read RPCs in flight:  0\nwrite RPCs in flight: 0\n\n\t\t\tread\t\t\twrite\n"
            "pages per rpc         rpcs   % cum % |       rpcs   % cum %\n")
        for pages in (1, 16):
            line = self.mount.lines["rpc_stats", str(pages)]
            text += f"{pages}:\t\t{line.count:10d}  23  37   |          0   0   0\n"
        return text


def _damaged(file, how):
    if how is None:
        return file
    if how < 0:
        return file._replace(errno=-how, path="-", text="")
    # A place within a line: what is left does not end with an end of line.
    cut = how % len(file.text)
    while cut and file.text[cut - 1] == "\n":
        cut -= 1
    return file._replace(text=file.text[:cut])


# -- histories ---------------------------------------------------------------------------------

keys = st.sampled_from(list(METRICS))
with_sums = st.sampled_from([("llite", "read_bytes"), ("llite", "open")])
amounts = st.lists(st.sampled_from([23, 37, 4096, 65536]), min_size=1, max_size=4)
instances = st.sampled_from([0x9A3C5D1E0800, 0x8800000B1700])
work = st.tuples(st.just("work"), keys, amounts)
events = st.one_of(
    work, work, work, work, work,
    st.tuples(st.just("work"), with_sums, st.just([2**32 - 5, 2**32 + 7])),
    st.tuples(st.just("half"), keys, st.sampled_from([11, 8117])),
    st.tuples(st.just("clear"), st.sampled_from([*COUNTED, "all"])),
    st.tuples(st.just("clear"), st.just("llite")),
    st.tuples(st.just("redo"), st.sampled_from(COUNTED), amounts),
    st.tuples(st.just("redo"), st.just("llite"), amounts),
    st.tuples(st.sampled_from(["remount", "reboot"]), instances),
    st.tuples(st.just("switch"), st.booleans()),
    st.sampled_from([("unmount",), ("remount", 0x9A3C5D1E0800)]),
)
# No job moves 2**62 bytes, and a node in years might: so that comes before the start.
years = st.tuples(st.just("work"), with_sums,
                  st.sampled_from([[2**62 + 41], [2**62 - 1, 2**62], [2**62, 2**63 - 37]]))
earlier = st.tuples(st.lists(st.one_of(work, work, years), min_size=3, max_size=6),
                    st.lists(events, max_size=2)).map(lambda parts: parts[0] + parts[1])
histories = st.lists(events, min_size=1, max_size=6)

whole = st.just({})
damaged = st.dictionaries(
    st.sampled_from([*COUNTED, "uuid"]),
    st.sampled_from([-errno.EACCES, -errno.EIO, 0, 11, 53, 97, 211, 419]), min_size=1, max_size=2)
damage = st.one_of(whole, whole, damaged)


# -- the promise -------------------------------------------------------------------------------

SourceResult = namedtuple("Found", "values known lower_bound proved")


def detect(deltas, source):
    """The Found of one source: what its deltas are together."""
    mine = [one for one in deltas if one.source == source]
    values = Sums()
    for one in mine:
        values.update(one.values or {})
    return SourceResult(values, all(one.values is not None for one in mine),
                        any(one.lower_bound or one.values is None for one in mine),
                        bool(mine) and all(one.proved for one in mine))


def done_between(first, last, source):
    """metric -> what was really done."""
    names = {name for key, metrics in METRICS.items() if key[0] == source for name in metrics}
    return {name: last.truth[name] - first.truth[name] for name in names if name}


def told(first, last, source):
    """True when the file shows a start_time at both ends, and was there and readable at both."""
    return bool(first.starts.get(source) and last.starts.get(source))


def nothing_fell(first, last, source):
    """True when the files at the two ends could be of one mount that nobody cleared."""
    fell = [key for key, (count, low, high) in first.lines.items() if key[0] == source
            and not (key in last.lines and count <= last.lines[key][0]
                     and low >= last.lines[key][1] and high <= last.lines[key][2])]
    return not fell and (first.identity == last.identity or not first.lines
                         or len(first.identity) != len(last.identity))


def keeps_the_promise(deltas, first, last):
    """Never more than was done, nothing negative; squares are those of all calls that it tells."""
    for source in COUNTED:
        found, truth = detect(deltas, source), done_between(first, last, source)
        assert all(0 <= found.values[name] <= truth[name] for name in found.values)
    for one in deltas:
        for name in ("open", "fsync"):
            if told(first, last, one.source) and name + "_us2" in (one.values or {}):
                count, total, squares = (one.values.get(name + end, 0)
                                         for end in ("", "_us", "_us2"))
                # No set of calls has a variance below 0; one of them may have been counted
                # before the start, and its time after it.
                assert (count + 1) * squares >= total * total


def exact(found, truth):
    """True when all is known that was done; squares, which may be absent, where they are given."""
    return all(found.values[name] == truth[name] for name in truth
               if not name.endswith("_us2") or (found.values[name] and truth[name]))


def play(node, history):
    for event in history:
        node.play(*event)


@pytest.mark.parametrize("release", FORMS)
@settings(max_examples=examples(700), deadline=None)
@given(before=earlier, during=histories, at_start=damage, at_end=damage)
def test_no_history_gives_more_than_was_done_and_none_gives_less_in_silence(
        release, before, during, at_start, at_end):
    """With a start_time: the truth, or a mark.  Without: the same, but for a clear that no number
    shows, and then it is not called proved."""
    node = Node(FORMS[release])
    play(node, before)
    first = node.scan(at_start)
    play(node, during)
    last = node.scan(at_end)
    deltas = delta.compute_deltas(first.snapshot, last.snapshot, SOURCES)
    keeps_the_promise(deltas, first, last)
    for source in COUNTED:
        found, truth = detect(deltas, source), done_between(first, last, source)
        assert found.known or found.lower_bound
        if not (found.lower_bound or exact(found, truth)):
            assert not told(first, last, source)
            assert not found.proved
            assert nothing_fell(first, last, source)


_READ_23 = ("work", ("llite", "read_bytes"), [23])


@pytest.mark.parametrize("release", FORMS)
@settings(max_examples=examples(500), deadline=None)
@given(before=earlier, parts=st.lists(st.tuples(histories, damage), min_size=2, max_size=4),
       at_start=damage)
@example(before=[_READ_23] * 3, at_start={}, parts=[([_READ_23], {}), ([
    _READ_23, ("clear", "llite"), ("work", ("llite", "read_bytes"), [23, 23]),
    ("work", ("llite", "read_bytes"), [2**32 - 5, 2**32 + 7])], {})])
def test_marks_never_make_a_number_worse_and_never_too_high(release, before, parts, at_start):
    """What a clear took away is lost of one part only; what a mark could not read, of none."""
    node = Node(FORMS[release])
    play(node, before)
    moments = [node.scan(at_start)]
    for during, at_end in parts:
        play(node, during)
        moments.append(node.scan(at_end))
    first, last = moments[0], moments[-1]
    direct = delta.compute_deltas(first.snapshot, last.snapshot, SOURCES)
    whole = delta.compute_deltas_over([moment.snapshot for moment in moments], SOURCES)
    keeps_the_promise(whole, first, last)
    assert {each[:4] for each in direct if each.values is not None} <= {
        each[:4] for each in whole if each.values is not None}
    for source in COUNTED:
        one, other = detect(direct, source), detect(whole, source)
        truth = done_between(first, last, source)
        # The sum that without marks seemed possible may be refused with them: that is marked.
        refused = {name for each in whole for name in one.values
                   if f"not counted: {name}: expected at most" in each.why}
        assert other.lower_bound or not refused
        assert not [name for name in one.values if not name.endswith("_us2")
                    and name not in refused and one.values[name] > other.values[name]]
        assert other.proved >= (one.proved and not one.lower_bound)
        if told(first, last, source) or other.proved:
            assert other.lower_bound or exact(other, truth)


# -- what chance does not find -----------------------------------------------------------------


def test_a_sum_beyond_2_63_that_is_small_again_is_no_gain_of_2_63():
    """Read: 2**62 twice and 41 more, printed negative; cleared, then 2**62 and 23, 37, 43 bytes:
    no start_time says which, so it is at least what the counter holds, and one call more."""
    node = Node(FORMS["2.12"])
    play(node, [("work", ("llite", "read_bytes"), [2**62, 2**62, 23])])
    first = node.scan()
    play(node, [("clear", "llite"), ("work", ("llite", "read_bytes"), [2**62, 23, 37, 43])])
    found = detect(delta.compute_deltas(first.snapshot, node.scan().snapshot, SOURCES), "llite")
    assert {"read_bytes": 2**62 + 103, "read_calls": 1} == found.values
    assert found.lower_bound


def test_a_mark_that_may_not_read_the_counters_costs_no_number():
    """23 and 37 opens by root's start and stop, with an ordinary user's mark between them."""
    node = Node(FORMS["2.17"])
    moments = [node.scan()]
    for opens, how in ((23, {"llite": -errno.EACCES}), (37, {})):
        play(node, [("work", ("llite", "open"), [41] * opens)])
        moments.append(node.scan(how))
    found = detect(delta.compute_deltas_over([one.snapshot for one in moments], SOURCES), "llite")
    assert {"open": 60, "open_us": 2460, "open_us2": 100_860} == found.values
    assert found.proved and not found.lower_bound


def test_a_mark_where_no_mount_is_seen_does_not_count_the_work_before_the_start():
    """11 opens before the start and 23 after it; the mark was made where /proc and /sys are not."""
    node = Node(FORMS["2.12"])
    play(node, [("work", ("llite", "open"), [41] * 11)])
    first = node.scan()
    nothing = first.snapshot._replace(files=())
    play(node, [("work", ("llite", "open"), [41] * 23)])
    [found] = [one for one in delta.compute_deltas_over([first.snapshot, nothing,
                                                         node.scan().snapshot], SOURCES)
               if one.source == "llite"]
    assert ({"open": 23}, False) == (found.values, found.lower_bound)


def test_a_torn_uuid_is_no_other_mount():
    """11 opens before the start and 23 after it, with the same uuid, of which half is there."""
    node = Node(FORMS["2.12"])
    play(node, [("work", ("llite", "open"), [41] * 11)])
    first = node.scan()
    play(node, [("work", ("llite", "open"), [41] * 23)])
    found = detect(delta.compute_deltas(first.snapshot, node.scan({"uuid": 5}).snapshot, SOURCES),
                   "llite")
    assert ({"open": 23}, False) == (dict(found.values), found.lower_bound)


@pytest.mark.parametrize("release, event, hidden", [
    ("2.12", ("remount", 0x9A3C5D1E0800), "uuid"), ("2.17", ("clear", "llite"), "header"),
], ids=["a remount, and the mark has no uuid", "a clear, and the mark has no start_time"])
def test_a_mark_that_does_not_see_what_tells_a_clear_does_not_hide_it(release, event, hidden):
    """23 opens; then the counters begin again, and 31 and 37 opens with the mark between them: the
    68 since then, and not 68 - 23."""
    node = Node(FORMS[release])
    play(node, [("work", ("llite", "open"), [41] * 23)])
    first = node.scan()
    play(node, [event, ("work", ("llite", "open"), [41] * 31), ("switch", hidden != "header")])
    mark = node.scan({"uuid": -errno.EACCES} if hidden == "uuid" else {})
    play(node, [("switch", True), ("work", ("llite", "open"), [41] * 37)])
    found = detect(delta.compute_deltas_over([first.snapshot, mark.snapshot, node.scan().snapshot],
                                             SOURCES),
                   "llite")
    assert (68, True) == (found.values["open"], found.lower_bound)


def test_a_mount_that_came_and_went_and_could_not_be_read_is_told():
    """A mark saw it, and may not read it: what was done there is not known, which is not 0."""
    node = Node(FORMS["2.17"])
    play(node, [("unmount",)])
    moments = [node.scan()]
    play(node, [("remount", 0x8800000B1700)])
    moments.append(node.scan({"llite": -errno.EACCES}))
    play(node, [("work", ("llite", "open"), [41] * 23), ("unmount",)])
    moments.append(node.scan())
    [found] = [one for one in delta.compute_deltas_over([one.snapshot for one in moments], SOURCES)
               if one.source == "llite"]
    assert (None, True) == (found.values, found.lower_bound)


def test_a_whole_is_proved_only_if_each_of_its_parts_is():
    """The header goes off after the mark: up to there it is proved, and after that not."""
    node = Node(FORMS["2.17"])
    moments = [node.scan()]
    for header, opens in ((True, 23), (False, 37)):
        play(node, [("switch", header), ("work", ("llite", "open"), [41] * opens)])
        moments.append(node.scan())
    found = detect(delta.compute_deltas_over([one.snapshot for one in moments], SOURCES), "llite")
    assert (60, False, False) == (found.values["open"], found.lower_bound, found.proved)
