"""
The agent on a storage server: what changed in job_stats, to the site's server, sweep after sweep.

    obdfilter/FS-OST000a/job_stats, mdt/FS-MDT0000/job_stats
      -> pieces -> changed? -> parse -> blocks -> messages of at most 1 MB -> spool -> site's server

All agents begin a sweep in the same second, at multiples of `every` by the server's clock.  A file
is read through a buffer, whatever its size, and only what changed since the sweep before is parsed
and sent.  Every message waits on the disk until the server has said that it has it.

A run is a chain of messages that begins with a full sweep.  When a link is lost (a full disk, a
damaged file, a server that was set up anew), or a target comes, the next sweep is full again, in
a new run: numbers are never put together from what does not belong together.
"""

from __future__ import annotations

import errno
import gc
import os
import time
from collections import namedtuple

from iostats.base.disk_queue import Spool
from iostats.base.errors import (
    ConfigError,
    IostatsError,
    JobStatsSyntaxError,
    NotDelivered,
    StateError,
    one_line,
)
from iostats.base.private_files import open_regular, read_text
from iostats.lustre import job_stats
from iostats.lustre.job_stats_rows import Rows, check
from iostats.lustre.paths import PLACES
from iostats.node import identity as this_node
from iostats.storage.fingerprints import Fingerprints
from iostats.wire import auth, client, protocol
from iostats.wire.messages.sweep_writer import LONGEST_WHY, Block, Parts, length

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from iostats.base.config import Config

KINDS = ("obdfilter", "mdt")
HOW = "in site.cfg: [harvest] spool_dir"

# Unless site.cfg says how long.  All divide the first one, so that storage servers whose targets
# forget at different times meet at its multiples all the same.
_PAUSES = (200, 100, 50, 40, 25, 20, 10, 8, 5, 4, 2, 1)
_WITHOUT_CLEANUP_S = 60            # nothing expires: any pause is short enough
_CHUNK = 1 << 16
# Of one job_stats, whose entries have 2.3 kB (an OST's) to 3.9 kB (an MDT's of 2.17; 4.8 kB with
# histograms): 800,000 of the longest; and how long read(2) may take for all of it.
_MOST_BYTES, _READ_WITHIN_S = 4 << 30, 300.0
_TRICKLE = 512                         # bytes of a read(2) after which the time is looked at
_PART_BYTES = 1 << 20
_LATE = 0.25                       # of `every`: a sweep that would be later is left out
_STEP_S = 5.0                      # the clock is looked at so often: it may be set
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_ANSWER_WITHIN_S = 10.0
_SAY_AGAIN_S, _MOST_SAID = 3600.0, 1000
_FINAL = (protocol.REFUSED, protocol.INVALID_PARAMS)

# What became of a message
_TAKEN, _USELESS, _LATER = "taken", "useless", "later"

Target = namedtuple("Target", "file_system name directories cleanup_s")
Target.__doc__ = """
One OST or MDT of this machine.

Attributes:
    name: "OST000a", "MDT0000".
    directories: where its job_stats may be, the best place first.
    cleanup_s: its job_cleanup_interval in seconds, 0 for never; None where it can't be read.
"""

Look = namedtuple("Look", "target path entries jobs bad why")
Look.__doc__ = """
What there is to read of one Target.

Attributes:
    path: of its job_stats, or of the directory where it should be.
    entries: in it; None where it cannot be read: then `why` says so.
    jobs: those of them that are of jobs.
    bad: those that could not be understood; `why`: the first of them.
"""


class _Skipped(StateError):
    """This sweep can't be kept; the text says why."""


def targets(root: str, file_systems: Sequence[str] = ()) -> list[Target]:
    """[Target] of this machine, of these file systems or of all, in the order of their names."""
    found: dict[tuple[str, str], list[str]] = {}
    for kind in KINDS:
        for place in PLACES:
            directory = os.path.join(root, place, kind)
            try:
                names = os.listdir(directory)
            except OSError:
                continue
            for name in names:
                key = split_name(name)
                if key is not None and (not file_systems or key[0] in file_systems):
                    found.setdefault(key, []).append(os.path.join(directory, name))
    return [Target(*key, found[key], _cleanup_s(found[key])) for key in sorted(found)]


def split_name(name: str) -> tuple[str, str] | None:
    """
    (file system, target) of a directory below obdfilter/ or mdt/, or None.

    >>> split_name("my-fs-OST000f")
    ('my-fs', 'OST000f')
    """
    file_system, _, target = name.rpartition("-")
    is_target = target[:3] in ("OST", "MDT") and len(target) == 7 and all(
        c in "0123456789abcdef" for c in target[3:])
    is_name = len(file_system) <= 64 and all(
        (c.isascii() and c.isalnum()) or c in "_.-" for c in file_system)
    return (file_system, target) if is_target and file_system and is_name else None


def _cleanup_s(directories: Iterable[str]) -> int | None:
    for directory in directories:
        try:
            text = read_text(os.path.join(directory, "job_cleanup_interval")).strip()
        except OSError:
            continue
        if text.isascii() and text.isdigit() and len(text) < 12:
            return int(text)
    return None


def pause_s(wanted: int, found: Iterable[Target],
            say: Callable[[str], None] = lambda text: None) -> int:
    """
    Seconds between two sweeps over the [Target] `found`; `wanted`: [harvest] interval.

    An entry lives for one cleanup interval at least after its last change.  With three sweeps in
    it, two may be missed.
    """
    intervals: list[int] = [one.cleanup_s for one in found if one.cleanup_s]
    most = max(1, min(intervals) // 3) if intervals else wanted or _WITHOUT_CLEANUP_S
    if 0 < wanted <= most:
        return wanted
    pause = next(one for one in _PAUSES if one <= most)
    if wanted:
        say(f"[harvest] interval = {wanted}: expected at most {most} s, a third of the smallest "
            f"job_cleanup_interval; sweeping every {pause} s")
    return pause


def next_slot(now: float, every: int, last: int | None) -> int:
    """
    The moment of the next sweep: a multiple of `every` after `now`, seconds of the server's time.

    `last`: that of the last one, which is not taken again though the clock may say so: it was
    just corrected.
    """
    slot = (int(now // every) + 1) * every
    return slot + every if slot == last else slot


class Pace:
    """No more than `percent` of one core: `rest` sleeps for what was too much."""

    def __init__(self, percent: float) -> None:
        self._share = percent / 100
        self.begin()

    def begin(self) -> None:
        """Work begins here: what was idle before is no credit."""
        self._cpu, self._wall = time.process_time(), time.monotonic()

    def rest(self) -> None:
        owed = ((time.process_time() - self._cpu) / self._share
                - (time.monotonic() - self._wall))
        if owed > 0.05:                        # in lumps: a file that is read at once is not torn
            time.sleep(owed)
        elif owed < -1:
            self.begin()


class Clock:
    """
    The wall clock, but that it never goes back: readings are told apart and ordered by it.

    Where it was set back, this one goes on a tenth slower until it is overtaken: what is divided
    by a pause is a tenth off at most.  Where it was set back by more than an hour, it was wrong:
    the readings before and after do not go together.
    """

    _SLOWER, _WRONG_S = 0.9, 3600.0

    def __init__(self) -> None:
        self._last, self._at = 0.0, 0.0

    def now(self) -> float:
        at = time.monotonic()
        self._last = max(time.time(), self._last + max(1e-5, (at - self._at) * self._SLOWER)
                         if self._last else 0.0)
        self._at = at
        return self._last

    def begins_anew(self) -> bool:
        """True where it was wrong: now() tells the right time again, which is an earlier one."""
        if self._last - time.time() < self._WRONG_S:
            return False
        self._last = 0.0
        return True


class Agent:
    """
    One storage server's agent.

    `server`: (host, port) of the site's server; `say`: gets one line at a time.  Raises StateError
    where the spool can't be used.
    """

    def __init__(self, config: Config, root: str, node: str, server: tuple[str, int],
                 file_systems: Sequence[str], say: Callable[[str], None]) -> None:
        self._config, self._root, self._node = config, root, node
        self._host, self._port = server
        self._file_systems, self._tell = file_systems, say
        self._said: dict[object, float] = {}
        self._spool = Spool(config["harvest.spool_dir"], config["harvest.spool_bytes"], HOW)
        self._pace, self._clock = Pace(config["harvest.cpu_percent"]), Clock()
        self._longest = min(_PART_BYTES, config["server.max_message_bytes"] // 5)
        self._boot_id, self._rows = this_node.boot_id(), Rows(booted_at_ns())
        # The chain of messages, and what the server knows by them
        self._prints: dict[tuple[str, str], Fingerprints] = {}
        self._run, self._seq, self._grown = "", 0, 0
        self._is_broken = True                 # the next sweep begins another chain
        # The way to the server
        self._signs: list[auth.Credentials] | None = None
        # The server's time less time.monotonic(): our own clock may be set.  None: not known.
        self._offset_s: float | None = None
        self._again_at, self._pause_s, self._is_away = 0.0, _FIRST_PAUSE_S, False
        self._refused = ""                     # why the last message was

    # -- sweep after sweep -----------------------------------------------------------------------

    def run(self) -> None:
        """Sweep until a signal ends it."""
        self._meet()
        last = None
        while True:
            every = self._every()
            slot = self._wait(every, last)
            if slot is None:
                continue
            last = slot
            try:
                self._sweep(slot, every)
            except (IostatsError, OSError) as error:
                self._is_broken = True
                self._say(str(error))
            except Exception as error:         # a bug is no reason to leave all jobs uncounted
                self._is_broken = True
                self._say(f"internal error; please report: {error!r}")
            self._deliver(time.monotonic() + max(2.0, every / 2))

    def once(self) -> None:
        """One sweep now, and all that waits; NotDelivered where the server did not take it."""
        self._meet()
        every = self._every()
        self._sweep(int(self._now() // every) * every, every)
        until, self._refused = time.monotonic() + self._config["node.retry_timeout"], ""
        while not self._deliver(max(until, time.monotonic() + 1)):
            left = until - time.monotonic()
            if left <= 0:
                raise NotDelivered(f"{len(self._spool)} messages wait in {self._spool.directory}; "
                                   f"the next run sends them")
            time.sleep(min(max(0.05, self._again_at - time.monotonic()), left))
        if self._refused:
            raise NotDelivered(self._refused)

    def _now(self) -> float:
        """The server's time, as far as it is known."""
        return time.time() if self._offset_s is None else time.monotonic() + self._offset_s

    def _every(self) -> int:
        return pause_s(self._config["harvest.interval"], targets(self._root, self._file_systems),
                       self._say)

    def _wait(self, every: int, last: int | None) -> int | None:
        """
        The slot whose time has come, delivering until then.

        None where it was missed, or the clock was set: then the next one is to be found anew.
        """
        slot = next_slot(self._now(), every, last)
        while True:
            left = slot - self._now()
            if left <= 0:
                return slot if -left <= max(1.0, every * _LATE) else None
            if left > 2 * every:
                return None
            if len(self._spool) and left > 0.5 and time.monotonic() >= self._again_at:
                self._pace.begin()
                self._deliver(time.monotonic() + left - 0.3)
                continue
            step = min(left, _STEP_S)
            if len(self._spool) and self._again_at > time.monotonic():
                step = min(step, self._again_at - time.monotonic() + 0.01)
            time.sleep(step)

    def _say(self, text: str, key: object = None) -> None:
        """`text`, once in an hour; `key`: what it is about, where the text has numbers."""
        now, key = time.monotonic(), key or text
        if now - self._said.get(key, -_SAY_AGAIN_S) < _SAY_AGAIN_S:
            return
        if len(self._said) >= _MOST_SAID:
            self._said = {one: at for one, at in self._said.items() if now - at < _SAY_AGAIN_S}
            if len(self._said) >= _MOST_SAID:
                return
        self._said[key] = now
        self._tell(text)

    # -- one sweep -------------------------------------------------------------------------------

    def _sweep(self, slot: int, every: int) -> None:
        """Read all targets, and put what changed into the spool."""
        self._pace.begin()
        found = targets(self._root, self._file_systems)
        if not found and not self._file_systems:
            self._say("no OST and no MDT on this machine, or none that this user may see; waiting "
                      "for one")
        known = {one.file_system for one in found}
        for name in self._file_systems:
            if name not in known:
                self._say(f"no target of file system {name!r} on this machine; waiting for one")
        if self._clock.begins_anew():
            self._is_broken = True
            self._say("the clock was set back by more than an hour; this sweep is a full one")
        keys = {(one.file_system, one.name) for one in found}
        for key in self._prints.keys() - keys:
            del self._prints[key]              # it is elsewhere now, and begins anew when it comes
        if (self._is_broken or keys - self._prints.keys()
                or self._grown > self._config["harvest.spool_bytes"] // 4):
            self._run, self._seq, self._grown = os.urandom(8).hex(), 0, 0
            self._prints = {key: Fingerprints() for key in keys}
            self._is_broken = False
        began = self._seq + 1
        ahead = None if self._offset_s is None else round(self._clock.now() - self._now(), 3)
        is_full = began == 1
        parts = Parts(lambda message: self._keep(message, is_full),
                      lambda: self._head(full=is_full, slot=slot, every=every, read_ahead_s=ahead),
                      self._longest)
        gc.disable()                           # rows are no cycles, and are looked at in vain
        try:
            for target in found:
                self._read(target, parts)
            parts.end()
        except _Skipped:
            self._spool.drop(self._run, began)
            self._is_broken = True
            raise
        finally:
            gc.enable()

    def _head(self, **more: Any) -> dict[str, Any]:
        """What the next message of this sweep begins with."""
        self._seq += 1
        return {"node": self._node, "boot_id": self._boot_id, "run": self._run, "seq": self._seq,
                **more}

    def _read(self, target: Target, parts: Parts) -> None:
        """One target's job_stats, into messages."""
        name = f"{target.file_system}-{target.name}"
        prints = self._prints[target.file_system, target.name]
        read_at, entries, bad, why = self._clock.now(), 0, 0, ""
        head = {"file_system": target.file_system, "target": target.name,
                "read_at": round(read_at, 6), "cleanup_s": target.cleanup_s}
        block = Block(head)
        try:
            handle, path = _opened(target)
            try:
                for piece in job_stats.pieces(chunks(handle, path, self._pace.rest)):
                    entries += 1
                    if not prints.changed(piece):
                        continue
                    try:
                        form, row = self._rows.read(piece, path)
                    except JobStatsSyntaxError as error:
                        prints.refuse(piece)
                        block.refuse(error)
                        bad += 1
                        why = why or str(error)
                        continue
                    if not (block.has_place_for(form, row) and parts.has_place_for(block)):
                        parts.add(block, ended=False)
                        block = Block(head)
                    block.add(form, row)
            finally:
                os.close(handle)
        except OSError as error:
            # What has been read is true.  What is gone is not known.
            prints.abandon()
            what = (error.strerror or str(error))[:LONGEST_WHY]
            self._say(f"{name}: {error.filename or target.directories[0]}: cannot be read: {what}")
            if len(block):
                parts.add(block, ended=False)
                block = Block(head)
            parts.add(block, ended=True, unreadable=what)
            return
        if bad:
            self._say(f"{name}: {bad} of {entries} entries could not be understood, the first: "
                      f"{why}", (name, "bad"))
        gone = [one for one in dict.fromkeys(prints.finish()) if len(one) <= job_stats.LONGEST_ID]
        if length(gone) > self._longest:
            # A full sweep tells the same by what it leaves out, in messages of any number.
            gone, self._is_broken = [], True
        parts.add(block, ended=True, entries=entries, gone=gone)

    def _keep(self, message: bytes, is_full: bool) -> None:
        """Put a message of this sweep into the spool; _Skipped."""
        self._pace.rest()
        try:
            self._spooled(message, is_full)
        except (OSError, StateError):
            # There is no room.  What waits may go now, and this one after it.
            is_empty = self._deliver(time.monotonic() + _ANSWER_WITHIN_S)
            try:
                self._spooled(message, is_full)
            except (OSError, StateError) as error:
                if not (is_empty and self._send(message, _ANSWER_WITHIN_S) is _TAKEN):
                    why = error if isinstance(error, StateError) else (
                        f"{self._spool.directory}: a sweep cannot be kept: {error.strerror}")
                    raise _Skipped(f"{why}; it is left out") from None

    def _spooled(self, data: bytes, is_full: bool) -> None:
        size = self._spool.size
        dropped = self._spool.keep(self._run, self._seq, data)
        if dropped:
            self._say(f"{self._spool.directory}: the oldest sweeps are dropped: more than "
                      f"{self._config['harvest.spool_bytes']} bytes wait (site.cfg: [harvest] "
                      f"spool_bytes)")
        elif not is_full:
            self._grown += self._spool.size - size

    # -- to the server ---------------------------------------------------------------------------

    def _meet(self) -> None:
        """Learn the server's time, so that the first sweep is in step already."""
        try:
            self._call("hello", {"job": protocol.SITE}, _ANSWER_WITHIN_S / 2)
        except ConfigError:
            raise
        except IostatsError:
            pass                               # it is said when a message can't be delivered

    def _deliver(self, until: float) -> bool:
        """
        Send what waits, the oldest first, until time.monotonic() is `until`; True when all is sent.

        A server that is away costs one try, and the next one comes later and later.
        """
        while len(self._spool):
            left = until - time.monotonic()
            if left <= 0 or time.monotonic() < self._again_at:
                return False
            one: Any = self._spool.first()     # a Waiting: there is one
            try:
                data = self._spool.load(one)
            except StateError as error:
                self._say(f"{error}; it is put aside")
                self._spool.put_aside(one)
                if one.run == self._run:
                    self._is_broken = True
                continue
            outcome = self._send(data, min(_ANSWER_WITHIN_S, left))
            if outcome is _LATER:
                return False
            if outcome is _TAKEN:
                self._spool.remove(one)
            else:                              # nor is what follows it in its chain
                self._spool.drop(one.run)
                if one.run == self._run:
                    self._is_broken = True
            self._pace.rest()
        self._grown = 0
        return True

    def _send(self, data: bytes, within_s: float) -> str:
        """_TAKEN, _USELESS or _LATER, of one message."""
        try:
            answer = self._call("packed_sweep", data, within_s)
        except IostatsError as error:
            if getattr(error, "code", None) in _FINAL:
                self._refused = str(error)
                self._say(f"{error}; the next sweep sends everything")
                return _USELESS
            self._signs = None                 # it may be another secret
            self._again_at = time.monotonic() + self._pause_s * (0.5 + os.urandom(1)[0] / 256)
            self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
            self._is_away = True
            if getattr(error, "code", None) == protocol.METHOD_NOT_FOUND:
                error = NotDelivered("the site's server is of an older release, which does not "
                                     "know `packed_sweep`: update it")
            self._say(f"{error}; {len(self._spool)} messages wait in {self._spool.directory}",
                      "".join(c for c in str(error) if not c.isdigit()))
            return _LATER
        if self._is_away:
            self._is_away = False
            self._say(f"the site's server is there again; {len(self._spool)} messages wait")
        self._again_at, self._pause_s, self._refused = 0.0, _FIRST_PAUSE_S, ""
        if isinstance(answer, dict) and answer.get("taken") is True:
            return _TAKEN
        why = answer.get("why", "") if isinstance(answer, dict) else answer
        why = f"the site's server asks for everything: {one_line(why)[:LONGEST_WHY]}"
        self._refused = why
        self._say(why, "".join(c for c in why if not c.isdigit()))
        return _USELESS

    def _call(self, method: str, params: client.Params, within_s: float) -> Any:
        """What the site's server answers, in one try; IostatsError."""
        def ask() -> Any:
            if self._signs is None:
                self._signs = auth.client_credentials(
                    self._config, protocol.SITE, self._config["site.secret"], self._say)
            return client.call(self._host, self._port, protocol.SITE, self._signs, self._node,
                               method,
                               params, within_s, learn=self._learn)
        return auth.with_timeout(within_s + 0.5, f"answer of {self._host}", ask)

    def _learn(self, clock_ahead_s: float) -> None:
        self._offset_s = time.time() - clock_ahead_s - time.monotonic()


def booted_at_ns() -> int:
    """When this machine was booted, ns of the wall clock; 2.15.0 counts from then."""
    return time.time_ns() - time.clock_gettime_ns(
        getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _opened(target: Target) -> tuple[int, str]:
    """(handle, path) of a target's job_stats, from the first place that has it; OSError."""
    failed: OSError | None = None
    for directory in target.directories:
        path = os.path.join(directory, "job_stats")
        try:
            return open_regular(path), path
        except OSError as error:
            if failed is None or isinstance(failed, FileNotFoundError):
                failed = error                 # "permission denied" tells more
    raise failed  # type: ignore[misc]     # a target has directories


def chunks(handle: int, path: str,
           rest: Callable[[], object] = lambda: None) -> Iterator[bytes]:
    """
    The bytes of the job_stats `path`, of which a read gives one of the kernel's buffers; `rest`:
    between.  OSError for one that does not end, or trickles.
    """
    buffer, held, got = memoryview(bytearray(_CHUNK)), 0, -1
    size, waited_s = 0, 0.0
    while got:
        began = time.monotonic()
        # Many reads into one buffer: an object for each, and a look at the time, cost as much as
        # what is then done with them.
        while held < _CHUNK and (got := os.readv(handle, [buffer[held:]])):
            held += got
            if got < _TRICKLE and time.monotonic() - began > _READ_WITHIN_S:
                break
        size, waited_s = size + held, waited_s + time.monotonic() - began
        if size > _MOST_BYTES or waited_s > _READ_WITHIN_S:
            raise OSError(*((errno.EFBIG, "it does not end") if size > _MOST_BYTES else
                            (errno.ETIMEDOUT, "it takes too long")), path)
        if held:
            yield bytes(buffer[:held])
            rest()
        held = 0


def look(target: Target, job_of: Callable[[str], str] = lambda job_id: job_id) -> Look:
    """The Look of a target; `job_of`: the job that an id is of, "" for none."""
    path, entries, jobs, bad, why = target.directories[0], 0, 0, 0, ""
    try:
        handle, path = _opened(target)
        try:
            for piece in job_stats.pieces(chunks(handle, path)):
                entries += 1
                try:
                    entry = job_stats.parse(piece, 0, path)
                    check(entry, path)
                    jobs += bool(job_of(entry.job_id))
                except JobStatsSyntaxError as error:
                    bad, why = bad + 1, why or str(error)
        finally:
            os.close(handle)
    except OSError as error:
        return Look(target, error.filename or path, None, 0, 0, error.strerror or str(error))
    return Look(target, path, entries, jobs, bad, why)


def as_text(root: str, file_systems: Sequence[str] = ()) -> str:
    """What is there to harvest, for a person: a line for each target."""
    lines = []
    for target in targets(root, file_systems):
        found = look(target)
        told = (f"not readable: {found.path}: {found.why}" if found.entries is None else
                f"{found.entries} entries"
                + (f", {found.bad} not understood: {found.why}" if found.bad else ""))
        cleanup = "-" if target.cleanup_s is None else f"{target.cleanup_s} s"
        lines.append(f"{target.file_system:<10} {target.name}  cleanup {cleanup:<7} {told}\n")
    return "".join(lines) or "no target of Lustre on this machine\n"
