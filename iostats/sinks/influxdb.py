"""
InfluxDB 2, and what takes its writes (VictoriaMetrics), through influxdb-client.

    measurement   tags                                        fields, all integers
    lustre        job fs server                               read_bytes write_bytes iops
    lustre_job    cluster job user account fs [target]        read_bytes write_bytes read_rpcs
                                                              write_rpcs operations requests
                                                              lower_bound, and each operation:
                                                              open close ...

`lustre` is jobHarvest's: `server` is oss or mds, the amounts are totals of the job so far, iops is
the number of all operations but reads and writes, and a job has a point when it did something; none
of a sweep that was an hour ago.  `lustre_job` has totals too, which grow until a job is settled, so
the database makes the rates: a job that did something has a point, and one of the sweep before if
that has none yet, so that an increase is seen from where it began.

Points go to a directory first, in one file for some thousands of them, and from there to the
database, by two threads.  A file is removed when the database has it.  If the server is killed
between the two, the points are written twice; they have the same tags and the same time, so they
are there once.

Source: line protocol and /api/v2/write of InfluxDB 2; influxWrite() of jobHarvest for its schema.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import email.utils
import logging
import os
import queue
import re
import stat
import threading
import time
import zlib
from collections import namedtuple

from iostats.base.errors import ConfigError
from iostats.base.private_files import make_directories
from iostats.lustre.metrics import is_operation, is_transfer
from iostats.sinks import Number
from iostats.sinks._gains import AT_ONCE, BYTES, NOBODY, Tally, job_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from typing import Any, Union

    from iostats.base.config import Config
    from iostats.sinks._gains import Job, Key, Part
    from iostats.site.harvest_intake import Harvest, Sweep

    Kept = Union[str, tuple[int, bytes]]                   # a file, or (points, data) in memory
    Table = tuple[Mapping[str, tuple[Any, Any]], int]      # counter -> samples, sums; the row
    Totals = dict[str, tuple[list[int], list[int]]]

log = logging.getLogger("iostats")

NAME = "influxdb"
NEEDS = "influxdb_client"
PACKAGE = "influxdb-client"

TOO_OLD_S = 3600                    # jobHarvest's rule
SERVER_OF = {"ost": "oss", "mdt": "mds"}
AGAIN_S = (1.0, 60.0)               # the first and the longest pause after a failure
SAY_AGAIN_S = 3600.0
_LONGEST_RETRY_AFTER_S = 600.0
_POINTS_AT_ONCE = 5000              # what InfluxDB recommends
_SWEEPS_WAITING = 8                 # for the thread that writes them to the directory
_IN_MEMORY = 16 << 20               # where the directory can't be written
_PROBES = 64                        # to find the points that a database does not take
_FILE = ".points"
_is_ours = re.compile(r"\d{15}\.\d+\.points").fullmatch

# (name, kind, help) of what numbers() tells, in its order.
NUMBERS = (
    ("iostats_influxdb_written_points", "counter", "Points that the database has taken."),
    ("iostats_influxdb_refused_points", "counter",
     "Points that the database does not take, put aside."),
    ("iostats_influxdb_dropped_points", "counter",
     "Points dropped because the spool was full, the oldest first."),
    ("iostats_influxdb_too_old_points", "counter",
     "Points of jobHarvest's schema not made, for a sweep more than an hour ago."),
    ("iostats_influxdb_left_out_sweeps", "counter",
     "Sweeps that were not written down for lack of time."),
    ("iostats_influxdb_failures", "counter",
     "Writes that failed, and were or will be tried again."),
    ("iostats_influxdb_spooled_points", "gauge", "Points that wait for the database."),
    ("iostats_influxdb_spooled_bytes", "gauge",
     "Size of the points that wait, compressed."),
)

Where = namedtuple("Where", "url org bucket token")


def is_on(config: Config) -> bool:
    """Whether a database is named."""
    return bool(config["influxdb.url"] or config["influxdb.file"])


def make(config: Config, say: Callable[[str], None]) -> InfluxDB:
    """The sink; ConfigError."""
    return InfluxDB(config, say)


# -- who and where -----------------------------------------------------------------------------

def where_of(config: Config) -> Where:
    """The Where of site.cfg, with the token as its file has it now; ConfigError."""
    if config["influxdb.file"]:
        path = config["influxdb.file"]
        lines = [line.strip() for line in _private_text(path).split("\n")]
        if len(lines) < 4 or not all(lines[:4]) or any(lines[4:]):
            raise ConfigError(f"{path}: expected four lines, the database's URL, organization, "
                              f"bucket and token, got {len(list(filter(None, lines)))}")
        url, org, bucket, token, *_ = lines
        where = Where(url, org, bucket, _checked_token(token, f"{path}:4"))
        origin = f"{path}:1"
    else:
        where = Where(config["influxdb.url"], config["influxdb.org"], config["influxdb.bucket"],
                      _token(config["influxdb.token_file"]))
        origin = f"{config.origin['influxdb.url']}: [influxdb] url"
    if not where.url.startswith(("http://", "https://")) or len(where.url.split()) != 1:
        raise ConfigError(f"{origin}: expected http://HOST:PORT or https://HOST:PORT, got "
                          f"{where.url!r}")
    if not where.bucket:
        raise ConfigError(f"{config.origin['influxdb.bucket']}: [influxdb] bucket: expected the "
                          f"name of a bucket, got none")
    return where


def _token(path: str) -> str:
    return _checked_token(_private_text(path).strip(), path) if path else ""


def _checked_token(token: str, origin: str) -> str:
    if not token or len(token.split()) != 1 or not (token.isascii() and token.isprintable()):
        raise ConfigError(f"{origin}: expected the database's token, one line, got "
                          f"{'nothing' if not token else 'something else'}")
    return token


def _private_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="strict") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
                raise ConfigError(f"{path}: expected a file of mode 0600, since it has the "
                                  f"database's token, got mode "
                                  f"{stat.S_IMODE(found.st_mode):04o}; chmod 600 {path}, and "
                                  f"have a new token made if others could read it")
            return file.read(1 << 16)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; it has the database's "
                          f"token ([influxdb] in site.cfg)") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected text in UTF-8") from None


# -- lines -------------------------------------------------------------------------------------

def tag(text: str) -> str:
    r"""
    `text` as the value of a tag.

    A backslash and what is not printed stand as in job_stats, \x5c: databases differ in what they
    make of a backslash before a comma or at the end, and \x is the same for all.

    >>> tag("a b,c=d"), tag("a\\b"), tag("a\nb")
    ('a\\ b\\,c\\=d', 'a\\x5cb', 'a\\x0ab')
    """
    if text.isalnum() and text.isascii():
        return text
    return "".join(_escaped(c) for c in text)


def _escaped(c: str) -> str:
    if c in " ,=":
        return "\\" + c
    if c == "\\" or not c.isprintable():
        number = ord(c)
        return ("\\x%02x" if number < 1 << 8 else "\\u%04x" if number < 1 << 16 else "\\U%08x"
                ) % number
    return c


def _tags(**tags: str) -> str:
    return "".join(f",{name}={tag(text)}" for name, text in tags.items() if text)


def line(head: str, fields: Iterable[tuple[str, int]], moment_ms: int) -> str:
    """One point; `head` is the measurement with its tags."""
    return f"{head} {','.join(f'{name}={amount}i' for name, amount in fields)} {moment_ms}"


def fields_of(tables: Iterable[Table]) -> dict[str, int]:
    """
    {field: amount} of the rows [({counter: (samples, sums)}, row)] added up; zeros have none.
    """
    found: dict[str, int] = {}
    for columns, row in tables:
        for counter, (samples, sums) in columns.items():
            count = int(samples[row])
            if not count:
                continue
            if counter in BYTES:
                _add(found, counter, int(sums[row]))
                _add(found, counter.replace("bytes", "rpcs"), count)
                _add(found, "requests", count)
            elif not is_transfer(counter):
                _add(found, tag(counter), count)
                if is_operation(counter):
                    _add(found, "operations", count)
                    _add(found, "requests", count)
    return found


def iops_of(tables: Iterable[Table]) -> int:
    """jobHarvest's iops: all operations but reads and writes; a rename is one."""
    return sum(int(samples[row]) for columns, row in tables
               for counter, (samples, _) in columns.items() if is_operation(counter))


def _add(fields: dict[str, int], name: str, amount: int) -> None:
    if amount:
        fields[name] = fields.get(name, 0) + amount


class _Place:
    """The points of one sweep with the same tags but for the job: of a file system, or a target."""

    def __init__(self, fs: str, target: str, server: str) -> None:
        self.fs, self.target, self.server = fs, target, server
        # (Job, [(now, row)], [(before, row)], low, goes_on)
        self.entries: list[tuple[Job, list[Table], list[Table], bool, bool]] = []


class _Sweep:
    """What the thread needs to write one sweep down."""

    def __init__(self, slot: float, slot_before: float | None, places: list[_Place]) -> None:
        self.slot, self.slot_before, self.places = slot, slot_before, places

    def lines(self) -> Iterator[str]:
        """Its points, one line each."""
        now_ms, before_ms = round(self.slot * 1000), round((self.slot_before or 0) * 1000)
        for place in self.places:
            for job, now, before, low, goes_on in place.entries:
                fields = fields_of(now)
                if place.server:
                    head = "lustre" + _tags(job=job.job, fs=place.fs, server=place.server)
                    yield line(head, (*((name, fields.get(name, 0)) for name in BYTES),
                                      ("iops", iops_of(now))), now_ms)
                    continue
                head = "lustre_job" + _tags(cluster=job.cluster, job=job.job, user=job.user,
                                            account=job.account, fs=place.fs, target=place.target)
                if self.slot_before is not None:
                    then = fields_of(before)
                    begin = [(name, then.get(name, 0)) for name in sorted(fields)
                             if not goes_on or name not in then]
                    if begin:
                        yield line(head, begin, before_ms)
                yield line(head, [*sorted(fields.items()), ("lower_bound", int(low))], now_ms)


class Lines:
    """
    From sweeps to points: which jobs did something, and where.

    Attributes:
        too_old: points of jobHarvest's schema that were not made, since the sweep was too long ago.
    """

    def __init__(self, schema: str, by_target: bool,
                 clock: Callable[[], float] = time.time) -> None:
        self._full, self._harvest = schema in ("full", "both"), schema in ("jobharvest", "both")
        self._by_target, self._clock = by_target, clock
        self._tally = Tally(by_target)
        self._job: dict[str, Job] = {}
        self._ids: dict[Job | None, set[str]] = collections.defaultdict(set)
        # (place, Job) -> the slot of its last point
        self._written: dict[tuple[Any, ...], float | None] = {}
        self._nobody: dict[Key, Totals] = {}           # since we began
        self.too_old = 0
        self.ready: _Sweep | None = None

    def walk(self, sweep: Sweep, harvest: Harvest) -> Iterator[None]:
        """Generator: take a sweep, a little at a step; then `ready` is its _Sweep."""
        self.ready = None
        yield from self._tally.walk(sweep, harvest)
        tally, changed, nobody_before = self._tally, {}, dict(self._nobody)
        for key, part in tally.parts.items():
            changed[key] = yield from self._changed(key, part, harvest)
            yield
        full = collections.defaultdict(list)
        harvested = collections.defaultdict(list)
        for part in tally.parts.values():
            full[part.fs, part.target].append(part)
            harvested[part.fs, SERVER_OF.get(part.component, part.component)].append(part)
        places = []
        if self._full:
            for (fs, target), parts in full.items():
                place = _Place(fs, target, "")
                yield from self._fill(place, parts, changed, nobody_before)
                places.append(place)
        if self._harvest:
            for (fs, server), parts in harvested.items():
                place = _Place(fs, "", server)
                yield from self._fill(place, parts, changed, None)
                if self._clock() - sweep.slot > TOO_OLD_S:
                    self.too_old += len(place.entries)
                else:
                    places.append(place)
        self._forget()
        self.ready = _Sweep(sweep.slot, tally.slot_before, places)

    def forget(self, ids: Iterable[str]) -> None:
        """The targets count these ids from 0."""
        self._tally.forget(ids)

    def _changed(self, key: Key, part: Part,
                 harvest: Harvest) -> Generator[None, None, dict[Job, None]]:
        """
        Generator: {Job} of those that did something at `part`; what was nobody's is added up.
        """
        moved, nobody = None, {}
        for counter, (samples, sums) in part.gains().items():
            some = samples > 0
            moved = some if moved is None else moved | some
            if counter in BYTES or not is_transfer(counter):
                nobody[counter] = (int(samples[~part.is_job].sum()), int(sums[~part.is_job].sum()))
        self._count_nobody(key, nobody)
        found: dict[Job, None] = {}
        if moved is not None:
            for number, row in enumerate((moved & part.is_job).nonzero()[0].tolist()):
                if number % AT_ONCE == 0:
                    yield
                job_id = part.ids[row]
                job = job_of(job_id, harvest)
                old = self._job.get(job_id)
                if old != job:
                    self._ids[old].discard(job_id)
                    self._job[job_id] = job
                    self._ids[job].add(job_id)
                found[job] = None
        return found

    def _count_nobody(self, key: Key, gained: dict[str, tuple[int, int]]) -> None:
        # Ids that are no jobs come and go; from our own beginning on the sum only grows.
        first = self._tally.slot_before is None
        old = self._nobody.get(key, {})
        new = dict(old)
        for counter, (samples, sums) in gained.items():
            before = old.get(counter, ([0], [0]))
            new[counter] = before if first else ([before[0][0] + samples], [before[1][0] + sums])
        self._nobody[key] = new

    def _fill(self, place: _Place, parts: list[Part], changed: dict[Key, dict[Job, None]],
              nobody_before: dict[Key, Totals] | None) -> Iterator[None]:
        """Generator."""
        keys = [(part.fs, part.component, part.target) for part in parts]
        jobs = dict.fromkeys(job for key in keys for job in changed[key])
        for number, job in enumerate(jobs):
            if number % AT_ONCE == 0:
                yield
            now: list[Table] = []
            before: list[Table] = []
            low = False
            for part in parts:
                for job_id in self._ids[job]:
                    row = part.index.get(job_id)
                    if row is not None:
                        now.append((part.now, row))
                        before.append((part.before, row))
                        low = low or bool(part.low[row])
            self._enter(place, job, now, before, low)
        if nobody_before is not None:
            now = [(self._nobody[key], 0) for key in keys]
            before = [(nobody_before.get(key, {}), 0) for key in keys]
            if fields_of(now) != fields_of(before):
                self._enter(place, NOBODY, now, before, False)

    def _enter(self, place: _Place, job: Job, now: list[Table], before: list[Table],
               low: bool) -> None:
        key, slot = (place.fs, place.target, place.server, job), self._tally.slot
        goes_on = self._written.get(key) == self._tally.slot_before
        self._written[key] = slot
        place.entries.append((job, now, before, low, goes_on))

    def _forget(self) -> None:
        if len(self._job) > 1000 + 2 * len(self._tally.first):
            self._job = {job_id: job for job_id, job in self._job.items()
                         if job_id in self._tally.first}
            self._ids = collections.defaultdict(set)
            for job_id, job in self._job.items():
                self._ids[job].add(job_id)
            self._written = {key: slot for key, slot in self._written.items()
                             if key[-1] in self._ids or key[-1] == NOBODY}


# -- the directory --------------------------------------------------------------------------------

class Spool:
    """
    Points that wait, in a directory: files NUMBER.COUNT.points, compressed, the oldest first.

    `most_bytes`: so much at most; when it is full the oldest points go.  Where the directory can't
    be written some are kept in memory.  Two threads may use it: one that puts, one that takes.

    Attributes:
        dropped: points that went since there was no room; `refused`: points put aside.
        trouble: why the directory can't be written, in words; "" when it can.
    """

    def __init__(self, directory: str, most_bytes: int) -> None:
        self.directory, self._most = directory, most_bytes
        self._aside = os.path.join(directory, "refused")
        self.dropped = self.refused = 0
        self.trouble = ""
        self._lock = threading.Condition()
        self._memory: collections.deque[tuple[int, bytes]] = collections.deque()   # (points, data)
        self._taken = None
        try:
            make_directories(self._aside)
            for name in os.listdir(directory):
                if name.endswith(".new"):
                    os.unlink(os.path.join(directory, name))
            self._files = collections.deque(
                (name, os.path.getsize(os.path.join(directory, name)))
                for name in sorted(os.listdir(directory)) if _is_ours(name))
        except OSError as error:
            raise ConfigError(f"{error.filename or directory}: cannot be used: {error.strerror}; "
                              "name "
                              f"another directory ([influxdb] spool_dir in site.cfg)") from None
        self._bytes = sum(size for _, size in self._files)
        self._number = int(self._files[-1][0].split(".")[0]) if self._files else 0

    def put(self, lines: list[str]) -> None:
        """Keep points, on the disk when this returns, if that can be."""
        data = zlib.compress("\n".join(lines).encode("utf-8", "backslashreplace"), 1)
        self._number += 1
        name = f"{self._number:015d}.{len(lines)}{_FILE}"
        try:
            _write(os.path.join(self.directory, name), data)
        except OSError as error:
            with self._lock:
                self.trouble = error.strerror or str(error)
                self._memory.append((len(lines), data))
                while sum(len(kept) for _, kept in self._memory) > _IN_MEMORY:
                    self.dropped += self._memory.popleft()[0]
                self._lock.notify_all()
            return
        with self._lock:
            self.trouble = ""
            self._files.append((name, len(data)))
            self._bytes += len(data)
            self._make_room()
            self._lock.notify_all()

    def _make_room(self) -> None:
        while self._bytes > self._most and len(self._files) > 1:
            # The one that is being sent may be counted as dropped, and arrive all the same.
            name, size = self._files.popleft()
            self._bytes -= size
            self.dropped += _points_of(name)
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.directory, name))

    def oldest(self, within_s: float) -> tuple[Kept, list[bytes]] | None:
        """(what it is, its lines) of the oldest points, or None when none come in that time."""
        with self._lock:
            if not self._files and not self._memory:
                self._lock.wait(within_s)
            if self._files:
                name = self._files[0][0]
            elif self._memory:
                kept = self._memory[0]
                return kept, zlib.decompress(kept[1]).split(b"\n")
            else:
                return None
        try:
            with open(os.path.join(self.directory, name), "rb") as file:
                return name, zlib.decompress(file.read()).split(b"\n")
        except (OSError, zlib.error):
            # Somebody has removed or damaged it; what was in it can't be had any more.
            with self._lock:
                if self._files and self._files[0][0] == name:
                    self.dropped += _points_of(name)
            self.done(name)
            return None

    def done(self, what: Kept) -> None:
        """These points are not to be kept any longer."""
        with self._lock:
            if isinstance(what, tuple):
                if self._memory and self._memory[0] is what:
                    self._memory.popleft()
                return
            if self._files and self._files[0][0] == what:
                self._bytes -= self._files.popleft()[1]
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.directory, what))

    def put_aside(self, lines: list[bytes]) -> None:
        """Keep points that no database takes, for a person to look at; the newest of them."""
        self.refused += len(lines)
        name = f"{time.time_ns():020d}.txt"
        try:
            _write(os.path.join(self._aside, name), b"\n".join(lines) + b"\n")
            names = sorted(os.listdir(self._aside), reverse=True)
            size = 0
            for one in names:
                path = os.path.join(self._aside, one)
                size += os.path.getsize(path)
                if size > self._most // 10 and one != name:
                    os.unlink(path)
        except OSError:
            pass                                    # it is counted, and said

    def waiting(self) -> tuple[int, int]:
        """(points, bytes) that wait."""
        with self._lock:
            return (sum(_points_of(name) for name, _ in self._files)
                    + sum(points for points, _ in self._memory),
                    self._bytes + sum(len(data) for _, data in self._memory))


def _points_of(name: str) -> int:
    return int(name.split(".")[1])


def _write(path: str, data: bytes) -> None:
    beside = path + ".new"
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


# -- the database ------------------------------------------------------------------------------

Answer = namedtuple("Answer", "kind why after_s")
Answer.__doc__ = """
What became of a write.

Attributes:
    kind: TAKEN; BAD: these points will never be taken; DENIED: token, bucket or organization are
        not right; NO_API: it does not know /api/v2/write; LATER: the database can't now.
    why: in words.
    after_s: when to try again, if it says.
"""
TAKEN, BAD, DENIED, NO_API, LATER = "taken", "bad", "denied", "no API", "later"


class Database:
    """Writes to /api/v2/write; `Where` and a time limit, s."""

    def __init__(self, where: Where, timeout_s: float, ca_file: str) -> None:
        from influxdb_client import InfluxDBClient, WriteOptions
        from influxdb_client.client.write_api import WriteType
        self.where = where
        self._client = InfluxDBClient(
            where.url, where.token, org=where.org, timeout=round(timeout_s * 1000),
            enable_gzip=True, retries=False, ssl_ca_cert=ca_file or None)
        # It would put a traceback into our log for each header that is none; the client has just
        # set the level.
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        self._api = self._client.write_api(WriteOptions(write_type=WriteType.synchronous))

    def write(self, lines: list[bytes]) -> Answer:
        """The Answer to points [bytes]."""
        from influxdb_client.rest import ApiException
        from urllib3.exceptions import HTTPError
        try:
            self._api.write(self.where.bucket, self.where.org, b"\n".join(lines),
                            write_precision="ms")
        except ApiException as error:
            return _answer(error.status, error.headers or {}, error.body)
        except (HTTPError, OSError, ValueError) as error:
            return Answer(LATER, f"not reached: {_short(error)}", None)
        return Answer(TAKEN, "", None)

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()


def _answer(status: int, headers: Mapping[str, str], body: object) -> Answer:
    why = f"answers {status} {_short(body)}".rstrip()
    if status in (400, 413, 422):
        return Answer(BAD, why, None)
    if status == 404 and not _short(body).startswith("{"):
        # InfluxDB and what stands in for it say in JSON that there is no such bucket.
        version = _short(headers.get("X-Influxdb-Version"))
        return Answer(NO_API, f"has no /api/v2/write ({'InfluxDB ' + version if version else why})",
                      None)
    if status in (401, 403, 404):
        return Answer(DENIED, why, None)
    return Answer(LATER, why, _retry_after(headers.get("Retry-After")))


def _retry_after(text: str | None) -> float | None:
    """Seconds, of a number of seconds or a date; None for none."""
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER_S) if seconds == seconds else None


def _short(what: object) -> str:
    text = what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what or "")
    text = " ".join(text.split())
    return text if len(text) <= 160 else text[:157] + "..."


# -- the sink ----------------------------------------------------------------------------------

class InfluxDB:
    """See the module; `clock` is time.time."""

    def __init__(self, config: Config, say: Callable[[str], None],
                 clock: Callable[[], float] = time.time) -> None:
        self._config, self._say = config, say
        self.beside: list[Any] = []
        self._where = where_of(config)
        self._spool = Spool(config["influxdb.spool_dir"], config["influxdb.spool_bytes"])
        self._lines = Lines(config["influxdb.schema"], config["influxdb.by_target"] == "yes", clock)
        self._walking: asyncio.Future[None] | None = None
        self._sweeps: queue.Queue[_Sweep | None] = queue.Queue(_SWEEPS_WAITING)
        self._stop = threading.Event()
        self.written = self.failures = self.late = 0
        self._database: Database | None = None
        self._said: dict[str, float] = {}
        self._failing_since: float | None = None
        self._threads = [threading.Thread(target=work, name=f"influxdb {name}", daemon=True)
                         for name, work in (("keeps", self._keep), ("sends", self._send))]
        for thread in self._threads:
            thread.start()

    def sweep(self, sweep: Sweep, harvest: Harvest) -> None:
        """Take all targets' totals, between the other things that the loop does."""
        if self._sweeps.full() or (self._walking is not None and not self._walking.done()):
            self.late += 1
            self._once("late", f"{self._spool.directory}: writing points down takes longer than a "
                               f"sweep; one is left out (the next one has its amounts)")
            return
        self._walking = asyncio.ensure_future(self._walk(sweep, harvest))

    def forget(self, ids: Iterable[str]) -> None:
        """The targets count these ids from 0."""
        self._lines.forget(ids)

    async def _walk(self, sweep: Sweep, harvest: Harvest) -> None:
        try:
            for _ in self._lines.walk(sweep, harvest):
                await asyncio.sleep(0)
            self._sweeps.put_nowait(self._lines.ready)
        except Exception:
            log.exception("internal error; please report: a sweep was not written")

    def _keep(self) -> None:
        """The thread that writes points to the directory."""
        while True:
            sweep = self._sweeps.get()
            if sweep is None:
                return
            try:
                self._keep_one(sweep)
            except Exception:                        # one sweep's trouble is not the next one's
                log.exception("internal error; please report: a sweep was not written")
            self._sweeps.task_done()

    def _keep_one(self, sweep: _Sweep) -> None:
        spool, dropped, trouble = self._spool, self._spool.dropped, self._spool.trouble
        lines = list(sweep.lines())
        for first in range(0, len(lines), _POINTS_AT_ONCE):
            spool.put(lines[first:first + _POINTS_AT_ONCE])
        if spool.trouble and not trouble:
            self._say(f"influxdb: {spool.directory}: cannot be written: {spool.trouble}; points "
                      f"wait in memory, 16 MiB at most")
        elif trouble and not spool.trouble:
            self._say(f"influxdb: {spool.directory} can be written again")
        if spool.dropped > dropped:
            self._once("dropped", f"{spool.directory} is full ([influxdb] spool_bytes): the oldest "
                                  f"points go, {spool.dropped} so far")

    def _send(self) -> None:
        """The thread that writes points to the database."""
        pause_s = AGAIN_S[0]
        while not self._stop.is_set():
            try:
                found = self._spool.oldest(0.5)
                if found is None:
                    continue
                what, lines = found
                answer = self._write(lines)
                if answer.kind == TAKEN:
                    self._back()
                    self._spool.done(what)
                    pause_s = AGAIN_S[0]
                    continue
            except Exception as error:
                log.exception("internal error; please report: points were not sent")
                answer = Answer(LATER, f"was not asked: {error!r}", None)
            self._failed(answer)
            self._stop.wait(pause_s if answer.after_s is None else answer.after_s)
            pause_s = min(2 * pause_s, AGAIN_S[1])

    def _write(self, lines: list[bytes]) -> Answer:
        if self._database is None:
            try:
                self._where = where_of(self._config)     # the token may have been put right
            except ConfigError as error:
                return Answer(DENIED, str(error), None)
            self._database = Database(self._where, self._config["influxdb.timeout"],
                                      self._config["influxdb.ca_file"])
        waiting, probes = [lines], _PROBES
        while waiting:
            some = waiting.pop()
            answer = self._database.write(some)
            if answer.kind == TAKEN:
                self.written += len(some)
            elif answer.kind != BAD:
                return answer                            # all of it again, later
            elif len(some) > 1 and probes > 0:
                probes -= 1
                middle = len(some) // 2
                waiting += [some[middle:], some[:middle]]
            else:
                self._spool.put_aside(some)
                self._once("refused", f"{self._where.url} {answer.why}; {len(some)} points that it "
                           f"does not take are in {self._spool.directory}/refused, and are "
                                      f"not sent again")
        return Answer(TAKEN, "", None)

    def _failed(self, answer: Answer) -> None:
        self.failures += 1
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        if answer.kind in (DENIED, NO_API):
            self._forget_database()
        if answer.kind == NO_API:
            mend = ("expected InfluxDB 2, InfluxDB 1.8 or later 1.x, or VictoriaMetrics: is "
                    "[influxdb] url in site.cfg right?")
        elif answer.kind == DENIED:
            mend = ("are the token, the bucket and the organization right? ([influxdb] in "
                    "site.cfg; the token's file is read again by itself)")
        else:
            mend = "tried again"
        self._once(answer.kind, f"{self._where.url} {answer.why}; points are kept in "
                   f"{self._spool.directory}; {mend}")

    def _forget_database(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _back(self) -> None:
        if self._failing_since is not None:
            away_s = time.monotonic() - self._failing_since
            self._failing_since = None
            for kind in (DENIED, NO_API, LATER, "dropped"):
                self._said.pop(kind, None)
            gone = f", {self._spool.dropped} points were dropped" if self._spool.dropped else ""
            self._say(f"influxdb: {self._where.url} takes points again, after {away_s:.0f} s{gone}")

    def _once(self, kind: str, text: str) -> None:
        """Say it, and again when an hour has gone by."""
        now = time.monotonic()
        if now - self._said.get(kind, -SAY_AGAIN_S) >= SAY_AGAIN_S:
            self._said[kind] = now
            self._say(f"influxdb: {text}")

    def numbers(self) -> list[Number]:
        """[Number] for other sinks to show."""
        points, size = self._spool.waiting()
        values = (self.written, self._spool.refused, self._spool.dropped, self._lines.too_old,
                  self.late, self.failures, points, size)
        return [Number(*about, value) for about, value in zip(NUMBERS, values)]

    def close(self) -> None:
        """What waits in the directory is sent after the next start."""
        if self._walking is not None:
            self._walking.cancel()
        self._stop.set()
        with contextlib.suppress(queue.Full):
            self._sweeps.put(None, timeout=1.0)
        for thread in self._threads:
            thread.join(2.0)
        self._forget_database()
