"""
matrix.md, cell by cell: each hazard on each release's tree with each workload.

A hazard edits the texts of a Story as the kernel would print them; what then comes out of
delta.between() and Totals.record() is written in the form of a cell and compared with the cell.
"""

import errno
import re

import pytest
from trees import DATA, report, snapshot

from iostats.lustre import stats
from iostats.lustre.paths import File
from iostats.node import sources
from iostats.totals import delta
from iostats.totals.job_totals import Totals

SOURCES = sources.read_at("start")
WORKLOADS = ("all", "metadata", "nothing")
LIMIT = 2**63 - 1

# Of llite, what moves with data alone; osc and rpc_stats are data as a whole.
DATA_LINES = {"read_bytes", "write_bytes", "read", "write", "brw_read", "osc_read", "osc_write",
              "dirty_pages_hits", "dirty_pages_misses", "hybrid_noswitch"}
# A little work: how many, and how large (or how long, in us) each.
LITTLE = {"llite": {"read_bytes": (4, 4096), "write_bytes": (3, 8192), "read": (4, 37),
                    "write": (3, 41), "open": (5, 37), "close": (5, 41)},
          "osc": {"read_bytes": (1, 16384), "write_bytes": (1, 24576)},
          "mdc": {"mds_close": (5, 37)}, "md_stats": {"close": (5, 0)}, "rpc_stats": {}}


# -- the table -----------------------------------------------------------------------------------


def rows_of(text):
    """[[cell]] of all rows of the tables in `text`, without their rules."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in text.split("\n") if line.startswith("|")]
    return [row for row in rows if set("".join(row)) != {"-"}]


def parts_of(text, mark):
    """{title: text} of the parts that begin with `mark` and a title."""
    parts = re.split(rf"(?m)^{mark} (.+)$", text)
    return dict(zip(parts[1::2], parts[2::2]))


TABLE = parts_of((DATA.parent / "matrix.md").read_text(encoding="utf-8"), "##")
TRAITS = {row[0]: dict(zip(("start_time", "sums", "squares", "header"), row[1:]))
          for row in rows_of(TABLE["Releases"])[1:]}
WORDS = {row[0]: dict(zip(rows_of(TABLE["In a word"])[0][1:], row[1:]))
         for row in rows_of(TABLE["In a word"])[1:]}
NUMBERS = {title: rows_of(text)[1:] for title, text in parts_of(TABLE["In numbers"], "###").items()}


def cell_of(hazard, release, workload):
    """The one cell of matrix.md; none, or two, is a fault of the table."""
    [cell] = [row[1 + WORKLOADS.index(workload)] for row in NUMBERS[hazard]
              if release in row[0].split() or row[0] == "every"]
    return cell


# -- texts as the kernel prints them -------------------------------------------------------------


def is_header(line):
    return line.split(" ")[0].rstrip(":") in stats.HEADERS


def name_of(line):
    """The counter of a line; "" for a line of rpc_stats, or an empty one."""
    return line.partition(" samples [")[1] and line.partition(" samples [")[0].rsplit(None, 1)[0]


def split(text):
    """(lines of the header, the other lines)."""
    lines = text.splitlines(True)
    return ([line for line in lines if is_header(line)],
            [line for line in lines if not is_header(line)])


def with_counters(text, *chosen):
    """`text` with the header it has, and the lines `chosen` instead of its counters."""
    return "".join([*split(text)[0], *chosen])


def without(text, names):
    """`text` without the lines of the counters `names`."""
    return with_counters(text, *(line for line in split(text)[1] if name_of(line) not in names))


def edited(text, name, samples, low, high, total, squares):
    """`text` with other numbers in one line, as many as it has; the width stays as it was."""
    [line] = [line for line in split(text)[1] if name_of(line) == name]
    head, unit, fields = re.fullmatch(r"(.*?)\d+ samples (\[\w+\])(.*)\n", line).groups()
    numbers = "".join(f" {number}" for number in (low, high, total, squares)[:len(fields.split())])
    return text.replace(line, f"{head}{samples} samples {unit}{numbers}\n")


def counter(text, name):
    return stats.parse(text).counters[name]


def began_again(text, source, moment):
    """`text` with no counters, as after a clear or a mount; `moment`: start_time, where shown."""
    header, lines = split(text)
    if moment and any(line.startswith("start_time") for line in header):
        at = next(n for n, line in enumerate(header) if line.startswith("start_time"))
        header[at] = re.sub(r"\d+\.\d{9}", moment, header[at])
    if source == "rpc_stats":
        # Of each section the first row, with zeros.
        text = re.sub(r"(?m)(^\d+:\t\t).*\n(?:\d+:.*\n)*",
                      r"\g<1>         0   0   0   |          0   0   0\n", "".join(lines))
        return "".join(header) + text
    return "".join(header)


def holding(text, like, work):
    """`text` with a line for each counter of `work`, in the form that `like` has for it."""
    lines = [line for line in split(like)[1] if name_of(line) in work]
    text += "".join(lines)
    for line in lines:
        count, size = work[name_of(line)]
        text = edited(text, name_of(line), count, size, size, count * size, count * size * size)
    return text


def with_more(text, work):
    """`text` with the work of `work` added to the counters that are there."""
    for name, (count, size) in work.items():
        if any(name == name_of(line) for line in split(text)[1]):
            old = counter(text, name)
            text = edited(text, name, old.samples + count, min(old.min or size, size),
                          max(old.max or size, size), (old.sum or 0) + count * size,
                          (old.sumsq or 0) + count * size * size)
    return text


# -- a story: a node at the start and at the end -------------------------------------------------


class Story:
    """
    Attributes:
        before, after: {(source, directory): text, or errno} of the start and the end.
        mounts: the mounts' instances, as in the directories' names.
        boots: boot_id of the start and of the end.
    """

    def __init__(self, release, workload):
        self.release, self.workload, self.traits = release, workload, TRAITS[release]
        self.before, self.after = ({
            (file.source, file.name): file.text
            for file in snapshot(DATA / f"lustre-{release}" / when).files
            if file.source != "cgroups"}
            for when in ("before", "after"))
        self.mounts = sorted({name.rpartition("-")[2] for _, name in self.before})
        self.boots = "boot one", "boot one"
        self.fresh = dict(self.after)        # what is in the files if they began during the job
        for key in self.after:
            self.after[key], self.fresh[key] = self._of_the_workload(key)

    def _of_the_workload(self, key):
        """(text at the end, the same if the file began at 0 during the job)."""
        source, before, after = key[0], self.before[key], self.after[key]
        if self.workload == "all" or source == "uuid":
            return after, after
        if self.workload == "nothing" or source == "rpc_stats":
            return with_counters(after, *split(before)[1]), began_again(after, source, "")
        data = DATA_LINES if source == "llite" else {"read_bytes"} if source == "mdc" else (
            {name_of(line) for line in split(after)[1]} if source == "osc" else set())
        old = {name_of(line): line for line in split(before)[1]}
        return with_counters(after, *(
            old.get(name_of(line), "") if name_of(line) in data else line
            for line in split(after)[1])), without(after, data)

    def counter_files(self, *instances):
        """Keys of the counter files of these mounts, or of all."""
        return [key for key in self.after if key[0] in LITTLE
                and (not instances or key[1].endswith(instances))]

    def work(self, source):
        """What of a little work goes to a file of this source, with this workload."""
        if self.workload == "nothing":
            return {}
        return {name: how for name, how in LITTLE[source].items()
                if self.workload == "all" or not (name in DATA_LINES or source == "osc")}

    def clear(self, key, moment="1752000023.000000037"):
        self.after[key] = began_again(self.after[key], key[0], self.shown(key, moment))

    def shown(self, key, moment, cleared=True):
        """`moment`, if the file would show it: 2.15.0 never does, rpc_stats of 2.15.4 if cleared"""
        never_set = self.release == "2.15.4" and key[0] == "rpc_stats" and not cleared
        return moment if self.traits["start_time"] == "yes" and not never_set else ""

    def mount_again(self, instance):
        """The end, if this mount was mounted during the job."""
        for key in self.counter_files(instance):
            self.after[key] = re.sub(
                r"(?m)^(start_time:? +)\d+\.\d{9}",
                rf"\g<1>{self.shown(key, '1752000023.000000041', False) or '0.000000000'}",
                self.fresh[key])

    def rename(self, texts, old, new):
        """Replace `old` by `new` in the names of all directories of `texts`, which is changed."""
        found = {(source, name.replace(old, new)): text for (source, name), text in texts.items()}
        texts.clear()
        texts.update(found)

    def copy(self, old, new):
        """One more of what has `old` in its name, with `new` instead."""
        for texts in (self.before, self.after):
            texts.update({(source, name.replace(old, new)): text
                          for (source, name), text in list(texts.items()) if old in name})

    def record(self):
        """The file systems of the record of a job of this one node."""
        start, end = (
            snapshot(DATA / "no tree")._replace(
                boot_id=boot, wall_ns=wall_s * 1_000_000_000, files=tuple(
                    File(source, name, f"proc/fs/lustre/{source}/{name}", *(
                        (text, "") if isinstance(text, int) else (0, text)))
                    for (source, name), text in texts.items()))
            for boot, wall_s, texts in zip(self.boots, (1_752_000_000, 1_752_000_060),
                                           (self.before, self.after)))
        totals = Totals("4711", 1)
        totals.add(report(deltas=delta.compute_deltas(start, end, SOURCES)))
        return totals.record()["file_systems"]


# -- the hazards; False where the release has no such thing --------------------------------------


def nothing_happened(story):
    pass


def cleared_then_less(story):
    for key in story.counter_files():
        like = story.after[key] if story.workload == "all" else story.fresh[key]
        story.clear(key)
        if key[1].endswith(story.mounts[0]):
            story.after[key] = holding(story.after[key], like, story.work(key[0]))


def cleared_then_more(story):
    if story.workload == "nothing":
        return False
    for key in story.counter_files():
        if story.workload == "metadata":                 # a node that never did data
            data = {name_of(line) for line in split(story.before[key])[1]} & DATA_LINES
            story.before[key] = without(story.before[key], data)
            story.after[key] = without(story.after[key], data)
        lines = split(story.after[key])[1]
        story.clear(key)
        story.after[key] = with_counters(story.after[key], *lines)


def cleared_then_more_but_smaller(story):
    if cleared_then_more(story) is False:
        return False
    llite = next(key for key in story.counter_files() if key[0] == "llite")
    if story.workload == "metadata":
        opens = counter(story.after[llite], "open")
        if opens.max is None:
            return False
        for key in story.counter_files():
            if key[0] == "llite":
                story.after[key] = edited(story.after[key], "open", opens.samples, 31, 4099,
                                          opens.samples * 1009, opens.samples * 1009 * 1013)
        return None
    for key in story.counter_files():
        if key[0] in ("llite", "osc"):
            for name in ("read_bytes", "write_bytes"):
                old = counter(story.after[key], name)
                count = old.sum // old.min
                story.after[key] = edited(story.after[key], name, count, old.min, old.min,
                                          old.sum, old.sum * old.min)


def cleared_then_more_bytes(names, edit):
    """The same with edit(old Counter, new one) as samples, smallest, largest and sum of `names`."""
    def hazard(story):
        if story.workload != "all":
            return False
        cleared_then_more(story)
        for key in story.counter_files():
            for name in names if key[0] in ("llite", "osc") else ():
                old, new = counter(story.before[key], name), counter(story.after[key], name)
                numbers = edit(old, new)
                story.after[key] = edited(story.after[key], name, *numbers, 65537 * numbers[-1])
    return hazard


def cleared_and_silent(story):
    for key in story.counter_files():
        story.clear(key)


def remounted_same_name(story):
    for instance in story.mounts:
        story.mount_again(instance)
    for key in story.after:
        if key[0] == "uuid":
            story.after[key] = "eec8dcf5-ceae-4d97-af11-e2a3e4454674\n"


def remounted_other_name(story):
    remounted_same_name(story)
    for instance in story.mounts:
        story.rename(story.after, instance, "ffff8800000b" + instance[-4:])


def mounted_after(story):
    story.mount_again(story.mounts[-1])
    story.before = {key: text for key, text in story.before.items()
                    if not key[1].endswith(story.mounts[-1])}


def unmounted_before(story):
    story.after = {key: text for key, text in story.after.items()
                   if not key[1].endswith(story.mounts[-1])}


def mounted_at_one_more_place(story):
    story.copy(story.mounts[0], "ffff8800000b1700")
    for texts in (story.before, story.after):
        for key in texts:
            if key[0] == "uuid" and key[1].endswith("ffff8800000b1700"):
                texts[key] = "eec8dcf5-ceae-4d97-af11-e2a3e4454674\n"


def rebooted(story):
    for instance in story.mounts:
        story.mount_again(instance)
    story.boots = "boot one", "boot two"


def a_new_ost(story):
    [key] = [key for key in story.counter_files(story.mounts[0]) if key[0] == "osc"]
    new = ("osc", key[1].replace("OST0000", "OST0001"))
    like = snapshot(DATA / f"lustre-{story.release}" / "after")
    [like] = [file.text for file in like.files if (file.source, file.name) == key]
    work = {"write_bytes": (3, 8192)} if story.workload == "all" else {}
    story.after[new] = holding(began_again(like, "osc", story.shown(new, "1752000023.000000043")),
                               like, {**work, "obd_ping": (2, 3636)})


def stats_track_pid(story):
    [key] = [key for key in story.counter_files(story.mounts[0]) if key[0] == "llite"]
    like = story.after[key]
    story.clear(key)
    story.after[key] = holding(story.after[key], like, story.work("llite"))
    story.before["stats_track_pid", key[1]] = "0 (all)\n"
    story.after["stats_track_pid", key[1]] = "4711\n"


def stats_track_pid_always(story):
    for source, name in list(story.before):
        if source == "llite":
            story.before["stats_track_pid", name] = story.after["stats_track_pid", name] = "4711\n"


def damaged(when, how):
    def hazard(story):
        texts = getattr(story, when)
        for key in texts:
            if key[0] == "llite":
                texts[key] = how(texts[key])
    return hazard


def uuid_torn(story):
    for key in story.after:
        if key[0] == "uuid":
            story.after[key] = story.after[key][:17]


def header_switched(when):
    def hazard(story):
        if story.traits["header"] == "no":
            return False
        texts = getattr(story, when)
        for key in story.counter_files():
            texts[key] = re.sub(r"(?m)^(start|elapsed)_time.*\n", "", texts[key])
    return hazard


def first_seen_at_the_end(story):
    for key in story.counter_files():
        if key[0] == "llite":
            story.before[key] = without(story.before[key], {"open"})
            if story.workload == "nothing":
                story.after[key] = without(story.after[key], {"open"})


def two_file_systems(story):
    name = next(name for source, name in story.after if source == "llite").rpartition("-")[0]
    for texts in (story.before, story.after):
        story.rename(texts, name + "-", "a-b-")
    for key, text in list(story.before.items()):
        if key[1].endswith(story.mounts[0]):
            new = key[0], key[1].replace("a-b", "a-b-c").replace(story.mounts[0], "ff9a00000023")
            story.before[new] = text
            story.after[new] = with_more(text, story.work(key[0])) if key[0] in LITTLE else text


def read_sum_shifted(story, printed):
    [key] = [key for key in story.counter_files(story.mounts[0]) if key[0] == "llite"]
    for texts in (story.before, story.after):
        old = counter(texts[key], "read_bytes")
        # 131072 of `before` become 2^63 - 65536
        total = printed(old.sum + 2**63 - 65536 - 131072)
        texts[key] = edited(texts[key], "read_bytes", old.samples, old.min, 2**62, total, 23)


def a_sum_that_wraps(story):
    if story.traits["sums"] == "stays":
        return False
    read_sum_shifted(story, lambda total: total if total <= LIMIT else total - 2**64)


def a_sum_that_stays(story):
    if story.traits["sums"] == "wraps":
        return False
    read_sum_shifted(story, lambda total: min(total, LIMIT))


def squares_past_the_limit(story):
    if story.traits["squares"] == "is not there":
        return False
    [key] = [key for key in story.counter_files() if key[0] == "llite"]
    for texts in (story.before, story.after):
        old = counter(texts[key], "open")
        squares = LIMIT if story.traits["squares"] == "stays" else (old.sumsq - 402653184 - 59
                                                                    ) % 2**64
        texts[key] = edited(texts[key], "open", old.samples, old.min, 3_600_000_000,
                            9_000_000_000 + old.sum, squares)


HAZARDS = {
    "nothing happened": nothing_happened,
    "cleared, then less than before": cleared_then_less,
    "cleared, then more, but smaller": cleared_then_more_but_smaller,
    "cleared, then more, but larger": cleared_then_more_bytes(
        ("read_bytes", "write_bytes"), lambda old, new: (
            old.samples, old.min + 1, max(old.max, -(-new.sum // old.samples)), new.sum)),
    "cleared, then more calls, but less": cleared_then_more_bytes(
        ("read_bytes",), lambda old, new: (old.samples + 1, new.min, new.max, old.sum - 4096)),
    "cleared, then more than before": cleared_then_more,
    "cleared and silent": cleared_and_silent,
    "remounted under the same name": remounted_same_name,
    "remounted under another name": remounted_other_name,
    "mounted after the start": mounted_after,
    "unmounted before the end": unmounted_before,
    "mounted at one more place": mounted_at_one_more_place,
    "rebooted": rebooted,
    "a new OST": a_new_ost,
    "stats_track_pid set": stats_track_pid,
    "stats_track_pid set all the time": stats_track_pid_always,
    "llite unreadable at the start": damaged("before", lambda text: errno.EACCES),
    "llite unreadable at the end": damaged("after", lambda text: errno.EACCES),
    "llite torn at the start": damaged("before", lambda text: text[:-23]),
    "llite torn at the end": damaged("after", lambda text: text[:-23]),
    "uuid torn at the end": uuid_torn,
    "header switched off": header_switched("after"),
    "header switched on": header_switched("before"),
    "a counter first seen at the end": first_seen_at_the_end,
    "two file systems with dashes": two_file_systems,
    "a sum that wraps": a_sum_that_wraps,
    "a sum that stays at its limit": a_sum_that_stays,
    "a sum of squares past its limit": squares_past_the_limit,
}


# -- a record as a cell --------------------------------------------------------------------------


def outcome(hazard, release, workload):
    """The file systems of the record after this hazard; None where it can't happen."""
    story = Story(release, workload)
    return None if HAZARDS[hazard](story) is False else story.record()


def as_cell(file_systems):
    """What the record says, in the form of a cell; a number that is not proved says so."""
    if file_systems is None:
        return "n/a"
    if len(file_systems) == 1:
        return one_as_cell(file_systems[0])
    return " / ".join(f"{one['name']}: {one_as_cell(one)}" for one in file_systems)


def one_as_cell(one):
    application, network = one["application"], one["network"]
    opens = one["operations"].get("open") if application else None
    return "; ".join([
        "-" if application is None else
        f"{mark(one, application['lower_bound'], 'llite')}read {application['read_bytes']}, "
        f"write {application['write_bytes']}, open {opens['count'] if opens else 0}"
        + (", deviation -" if opens and opens["seconds"] and opens["stddev_s"] is None else ""),
        f"{mark(one, network['lower_bound'], 'osc')}net "
        f"{network['read_bytes'] + network['write_bytes']}",
        f"{mark(one, 'md_stats' in one['low'], 'md_stats')}close "
        f"{one['metadata']['MDT0000']['operations'].get('close', 0)}"])


def mark(one, low, source):
    return ">= " if low else "unproved " if source in one["unproved"] else ""


def in_full(cell, release):
    """The cell of matrix.md with its `unproved` written out."""
    if TRAITS[release]["start_time"] == "yes" or cell == "n/a":
        return cell
    cell = cell.replace("undetectable ", "unproved ")
    return re.sub(r"(^|; |: )(read|net|close)", r"\1unproved \2", cell)


# -- the tests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("hazard", HAZARDS)
@pytest.mark.parametrize("release", TRAITS)
def test_a_release_gives_the_numbers_of_its_cell(release, hazard, workload):
    """Each number, each mark, and what is not proved, worked out by hand in matrix.md."""
    expected = in_full(cell_of(hazard, release, workload), release)
    assert expected == as_cell(outcome(hazard, release, workload))


@pytest.mark.parametrize("hazard", HAZARDS)
@pytest.mark.parametrize("release", TRAITS)
def test_the_word_of_the_overview_is_the_word_of_the_numbers(release, hazard):
    """Whoever reads the overview alone is not misled."""
    cell = "; " + cell_of(hazard, release, "all")
    words = [word for word, sign in (("n/a", "n/a"), ("undetectable", "undetectable"), ("-", "; -"),
                                     (">=", ">="), ("exact", "")) if sign in cell]
    assert WORDS[hazard][release] == words[0]


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("hazard", HAZARDS)
@pytest.mark.parametrize("release", TRAITS)
def test_what_cannot_be_detected_is_too_low_and_never_too_high(release, hazard, workload):
    """2.17 with the same hazard sees the clear, and has what was done since: that or less."""
    cell, seen = cell_of(hazard, release, workload), cell_of(hazard, "2.17", workload)
    for part, sure in zip(cell.split("; "), seen.split("; ")):
        if part.startswith("undetectable"):
            assert sure.startswith(">= ")
            numbers, sure = ([int(n) for n in re.findall(r"\d+", text)] for text in (part, sure))
            assert all(low <= high for low, high in zip(numbers, sure))
            assert numbers != sure


def test_only_a_release_without_start_time_has_anything_undetectable():
    """Where start_time is printed, a clear is seen whatever came after it."""
    assert {"2.5", "2.7", "2.10", "2.12", "2.14", "2.15.0"} == {
        release for words in WORDS.values() for release, word in words.items()
        if word == "undetectable"}


def test_every_tree_and_every_hazard_stands_in_the_table():
    """A new tree, or a new hazard, fails here until somebody has worked out its cells."""
    trees = {tree.name[len("lustre-"):] for tree in DATA.glob("lustre-*")}
    assert trees == set(TRAITS)
    assert list(HAZARDS) == list(NUMBERS) == list(WORDS)
    assert [trees] * len(HAZARDS) == [set(words) for words in WORDS.values()]
