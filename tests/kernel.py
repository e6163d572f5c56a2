"""
A model of what the kernel keeps in job_stats of one target, which knows the truth.

    Kernel   the entries: made, counted, expired, cleared, lost with a restart; how they are read
    Agent    reads a Kernel in sweeps, and makes the blocks that an agent sends

It follows lustre/obdclass/lprocfs_jobstats.c of 2.5 to 2.17 in what matters for adding up its
numbers: when entries expire, what a reader that is not alone gets to see, what the clocks are, how
squares overrun.  Times are ns since 1970 (int).  Releases and the text are those of job_stats_text.

    kernel = Kernel("2.12", "OST", now)
    kernel.rpc(now, "4711", "write_bytes", 4096)
    kernel.truth["4711"]["write_bytes"]         [1, 4096]
    kernel.file(now)                            the file's text; a reader closes it
    kernel.save(now, root)                      the same below a directory, with
    job_cleanup_interval Agent(kernel).sweep(now)                    [Block]
"""

import pathlib
from collections import defaultdict, namedtuple

import job_stats_text
from sweep_blocks import Block, Column

NS = 1_000_000_000
WITNESS = "4733"
NO_MINIMUM = 2**63 - 1                     # LC_MIN_INIT
_LIMIT = 2**63 - 1

_WITHOUT_START = ("2.5", "2.7", "2.8", "2.12", "2.14", "2.15.0")
_WHOLE_SECONDS = ("2.5", "2.7", "2.8", "2.12", "2.14")
_SCANS_AT_EACH_RPC = ("2.5", "2.7")        # I apart, and not when a reader closes the file
_GOES_ON_BY_NUMBER = (*_WITHOUT_START, "2.15.2")      # a reader, after each piece of the file

Shown = namedtuple("Shown", "job started seen values")
Shown.__doc__ = "One entry as it was printed; values: name -> [samples, min, max, sum, sumsq]."


class _Entry:
    def __init__(self, job, now, number):
        self.job, self.started, self.seen, self.number = job, now, now, number
        self.values = {}
        self.removed = False


class Kernel:
    """
    One target's entries.

    Attributes:
        truth: {job: {counter: [samples, sum]}}, of all that was ever counted.
        first, last: {job: ns} of its RPCs.
        boot_id, node: of the server that has it now.
        cleanup_s: job_cleanup_interval.
        instance: how often it was started.
    """

    def __init__(self, release, kind="OST", now=0, cleanup_s=600, file_system="scratch",
                 target="OST0000"):
        self.release, self.kind, self.cleanup_s = release, kind, cleanup_s
        self.file_system, self.target = file_system, target
        self.truth = defaultdict(lambda: defaultdict(lambda: [0, 0]))
        self.first, self.last = {}, {}
        self.node, self.boot_id, self.booted = "oss1", "boot 1", now - 41 * NS
        self.units = {name: unit.strip()
                      for name, unit in job_stats_text.counters_of(release, kind)}
        self._entries, self._scanned, self._made, self._boots = {}, now, 0, 1
        self._witnessed = 0
        self.instance = 1

    @property
    def has_start(self):
        """True where the file shows start_time by the wall clock."""
        return self.release not in _WITHOUT_START

    # ---- what happens to it

    def rpc(self, now, job, counter, amount=1, times=1):
        """A request of this job is counted; `times`: how many alike, in one moment."""
        self.count(self.arrive(now, job), counter, amount, times)

    def arrive(self, now, job):
        """The first half: the entry is found or made, and its time set; the entry."""
        if self.release in _SCANS_AT_EACH_RPC or job not in self._entries:
            self._scan(now)
        entry = self._entries.get(job)
        if entry is None:
            self._made += 1
            entry = self._entries[job] = _Entry(job, now, self._made)
        entry.seen = now
        self.first.setdefault(job, now)
        self.last[job] = now
        return entry

    def count(self, entry, counter, amount=1, times=1):
        """The second half: the counter is raised."""
        if entry.removed:                  # meanwhile: it is never seen
            return
        value = entry.values.setdefault(counter, [0, NO_MINIMUM, 0, 0, 0])
        value[0] += times
        value[1], value[2] = min(value[1], amount), max(value[2], amount)
        value[3] += amount * times
        value[4] += amount * amount * times
        if self.release == "2.17":
            value[3], value[4] = min(value[3], _LIMIT), min(value[4], _LIMIT)
        value[4] %= 2**64
        true = self.truth[entry.job][counter]
        true[0] += times
        true[1] += amount * times

    def witness(self, now, counter):
        """
        A request of WITNESS, a job that is never silent for long and counts less after each loss of
        its entry: without it a `clear` could not be seen at all.
        """
        entry = self.arrive(now, WITNESS)
        times = 1
        if not entry.values:
            times, self._witnessed = 2**40 >> self._witnessed, self._witnessed + 1
        self.count(entry, counter, 1, times)

    def _scan(self, now):
        apart = self.cleanup_s * NS // (1 if self.release in _SCANS_AT_EACH_RPC else 2)
        if not self.cleanup_s or self._clock(now) < self._clock(self._scanned) + apart:
            return
        for entry in list(self._entries.values()):
            if self._clock(entry.seen) < self._clock(now) - self.cleanup_s * NS:
                self._remove(entry)
        self._scanned = now

    def _clock(self, now):
        return now // NS * NS if self.release in _WHOLE_SECONDS else now

    def _remove(self, entry):
        entry.removed = True
        del self._entries[entry.job]

    def clear(self, job=None):
        """Somebody writes `clear`, or a job's id, to the file."""
        for entry in list(self._entries.values()) if job is None else [self._entries.get(job)]:
            if entry is not None:
                self._remove(entry)

    def restart(self, now, same_boot=False):
        """The target is stopped, and started: here, or on another server."""
        self.clear()
        self._scanned, self.instance = now, self.instance + 1
        if not same_boot:
            self._boots += 1
            self.node = f"oss{self._boots % 2 + 1}"
            self.boot_id, self.booted = f"boot {self._boots}", now - 41 * NS

    # ---- how it is read

    def read(self, now, between=None, piece=3):
        """
        [Shown]: what a reader gets that then closes the file.

        Args:
            between: called with this Kernel after each `piece` of entries, and with the entry
                while one is printed, after its time and before its counters.
        """
        shown, at = [], 0
        while True:
            entries = sorted(self._entries.values(), key=lambda entry: entry.number)
            if self.release in _GOES_ON_BY_NUMBER:
                part = entries[at:at + piece]
            else:
                part = [entry for entry in entries if entry.number > at][:piece]
            if not part:
                break
            for entry in part:
                seen = entry.seen
                if between is not None:
                    between(self, entry)
                shown.append(Shown(entry.job, entry.started, seen,
                                   {name: list(value) for name, value in entry.values.items()}))
            at = at + len(part) if self.release in _GOES_ON_BY_NUMBER else part[-1].number
            if between is not None:
                between(self, None)
        if self.release not in _SCANS_AT_EACH_RPC:
            self._scan(now)
        return shown

    def text(self, shown):
        """The file of these entries, as bytes."""
        booted = self.booted if self.release == "2.15.0" else 0
        return job_stats_text.text(
            [job_stats_text.Job(one.job.encode("latin-1"), one.started - booted, one.seen - booted,
                                {name: job_stats_text.Value(*value)
                                 for name, value in one.values.items()}) for one in shown],
            self.release, self.kind)

    def file(self, now, between=None):
        """The file's text, read once."""
        return self.text(self.read(now, between))

    def save(self, now, root):
        """Write job_stats and job_cleanup_interval where the kernel has them, below `root`."""
        directory = "obdfilter" if self.kind == "OST" else "mdt"
        name = f"{self.file_system}-{self.target}"
        for top, file, content in (
                ("proc/fs/lustre", "job_stats", self.file(now)),
                ("sys/fs/lustre", "job_cleanup_interval", b"%d\n" % self.cleanup_s)):
            path = pathlib.Path(root, top, directory, name, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(file + ".new")
            new.write_bytes(content)
            new.replace(path)              # a reader sees all of the one, or of the other


class Agent:
    """
    Reads a Kernel as an agent does; sends what has changed since its last sweep.

    Attributes:
        rows: a block has up to this many.
    """

    def __init__(self, kernel, rows=2000):
        self.kernel, self.rows = kernel, rows
        self._sent = None

    def restart(self):
        """It knows nothing any more: the next sweep is full."""
        self._sent = None

    def sweep(self, now, between=None):
        """(blocks, full): of one reading of the file that begins now."""
        kernel, full = self.kernel, self._sent is None
        known, here, parts = self._sent or {}, {}, [[]]
        for one in kernel.read(now, between):
            what = self._as_sent(one)
            if here.get(one.job, known.get(one.job)) != what:
                if len(parts[-1]) >= self.rows or one.job in here:
                    parts.append([])
                parts[-1].append(what)
            here[one.job] = what
        self._sent = here
        gone = [job for job in known if job not in here]
        return [self._block(part, now, at == len(parts) - 1, gone, len(here))
                for at, part in enumerate(parts)], full

    def _as_sent(self, one):
        kernel = self.kernel
        started = one.started if kernel.has_start else 0
        seen = one.seen // NS * NS if kernel.release in _WHOLE_SECONDS else one.seen
        counters = {}
        for name, value in one.values.items():
            unit = kernel.units[name]
            if name in ("read", "write") and unit == "bytes":
                name = f"{name}_bytes"
            if name in ("read_bytes", "write_bytes"):
                unit = "bytes"
            if value[0]:
                numbers = value[1:]
                if unit == "reqs":
                    numbers = [None] * 4
                elif kernel.release in ("2.5", "2.7", "2.8", "2.12"):
                    numbers[3] = None
                counters[name] = (unit, value[0], *numbers)
        return one.job, started, seen, counters

    def _block(self, part, now, ended, gone, entries):
        kernel, columns = self.kernel, {}
        for at, (_, _, _, counters) in enumerate(part):
            for name, (unit, *numbers) in counters.items():
                columns.setdefault(name, (unit, [], [], [], [], [], []))[1].append(at)
                for column, number in zip(columns[name][2:], numbers):
                    column.append(number)
        return Block(
            file_system=kernel.file_system, target=kernel.target, read_at=now / NS, ended=ended,
            since_boot_s=(now - kernel.booted) / NS,
            cleanup_s=kernel.cleanup_s, entries=entries if ended else 0,
            ids=[job for job, _, _, _ in part], started=[started for _, started, _, _ in part],
            seen=[seen for _, _, seen, _ in part], gone=gone if ended else [],
            counters={name: Column(unit, at, samples, *(
                None if None in numbers else numbers for numbers in extra))
                for name, (unit, at, samples, *extra) in columns.items()})
