"""
The batch system's prolog and epilog on a node, as root: every job is measured, nobody asks for it.

    DIRECTORY/KEY%20NODE.start          the start snapshot, see start_files.py
    DIRECTORY/KEY%20NODE.job            what the prolog knew: NAME=VALUE lines
    DIRECTORY/KEY%20NODE.SEQ.delta      a report that the site's server does not have yet
    DIRECTORY/...SEQ.delta.refused      ... and has refused: it is tried again once a day

DIRECTORY is site.cfg's [node] hook_dir, KEY the job's id, and "#N" after it in the N-th restart: a
requeued job keeps its id.  A prolog touches this directory alone.  An epilog keeps its report there
and then sends all that wait, of earlier jobs too, as long as its time allows; so a site server
that is away delays no job, and loses nothing.

Jobs that share a node: each prolog writes its job's name into the files of those that are there
("other=NAME"), so that an epilog knows all that it was together with, also those that are gone.
A slurmd that dies runs no epilog, and its jobs' starts stay.  So a report names the jobs whose
starts are still there, and the site's server, which can ask the batch system, does not count those
that had ended before; its answer to the next report says which, and their starts go.  What they
leave ("was=SINCE NAME") is for the jobs that are there now: some may have been together with them.
An epilog begins with "over=UPTIME" there: what it leaves behind when its time is up is no job that
is still there.
"""

from __future__ import annotations

import os
import time
from collections import namedtuple

from iostats.base import private_files
from iostats.base.errors import IostatsError, NoStart, NotDelivered, StateError
from iostats.base.job_id import as_filename, is_node_name
from iostats.base.private_files import read_text
from iostats.node import identity as this_node
from iostats.node import start_files
from iostats.node.measurement import Work, why_without
from iostats.totals import snapshot as snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.base.config import Config
    from iostats.node.start_files import State
    from iostats.totals.snapshot import Snapshot

# What the report says of the job, and how long it may be there; the server's About.
_LONGEST = {"scheduler": 128, "cluster": 128, "attempt": None, "nodes": 1 << 20, "uid": None,
            "user": 128, "account": 128, "partition": 128, "output": 4096, "work_dir": 4096}
_LARGEST = 2**32 - 1

# Why a node has no numbers, beside those of measurement.py.
BOOTED = "the node was booted during the job"
NO_EPILOG = "no epilog has run"
CUT_OFF = "the epilog was ended before it was done"

_LAST_AUTH = "auth"                # the file with which of [server] auth worked, if not the first
_OF_MUNGED = 0.3                   # of the time that is left: a dead munged must leave some

_CUT_OFF_S = 60.0                  # an epilog that began so long ago has ended
_FORGOTTEN_S = 90 * 86400          # files of no start: pieces of what was never whole
_MOST_WAITING, _MOST_REFUSED = 10_000, 1000
_MOST_OTHERS = 100                 # that a report names
_AGAIN_S, _AGAIN_AT_ONCE = 86400.0, 10    # reports that were refused: the server may be fixed
_AROUND = 1000                     # bytes of a message beside its report
# wire.REFUSED, INVALID_PARAMS, PARSE_ERROR, INVALID_REQUEST: to send it again now does not help
_NOT_NOW = (-32004, -32602, -32700, -32600)
_ITS_OWN = -32603                  # wire.INTERNAL_ERROR: the server can't take this one, now


def prolog(config: Config, root: str, node: str, job: str, about: dict[str, Any],
           say: Callable[[str], None]) -> Snapshot | None:
    """Keep the counters as they are before the job; the Snapshot, or None for the second time."""
    work = _work(config, root, node, job, about, say)
    directory, mine, path = work.kept.directory, _stem(work.kept.start_path), _job_path(work.kept)
    there = set()
    for stem in _starts(directory):
        why = _why_it_is_over(directory, stem)
        if stem != mine and (stem == as_filename(job, node)
                             or stem.startswith(as_filename(job) + "%23")):
            why = why or NO_EPILOG                          # an earlier run of this very job
        if why and (stem == mine or why == NO_EPILOG):
            _give_up(config, root, directory, stem, why, say)
        elif not why:
            there.add(stem)
    if mine not in there:
        try:
            _write(path, _checked(about))
        except OSError as error:                            # the start is worth more
            say(f"{path}: cannot be kept: {error.strerror}")
    try:
        now = work.start()
    except IostatsError as error:
        _append(path, f"why={error}\n", say)                # for the report, see _why_no_start
        raise
    # Once more: of two that begin at once at least one sees the other.
    there.update(stem for stem in _starts(directory) if not _why_it_is_over(directory, stem))
    for other in sorted(there - {mine}):
        _append(os.path.join(directory, other + ".job"), f"other={mine}\n", say)
        _append(path, f"other={other}\n", say)
    return now


def epilog(config: Config, root: str, node: str, job: str, about: dict[str, Any],
           say: Callable[[str], None]) -> IostatsError | None:
    """Keep this job's report, to be sent by `deliver`; the IostatsError that kept it from it."""
    import json
    about = {**about, "attempt": _attempt_that_ends(config["node.hook_dir"], node, job, about)}
    work = _work(config, root, node, job, about, say)
    path = _job_path(work.kept)
    known = _read(path)
    _append(path, f"over={int(this_node.seconds_since_boot())}\n", say)
    about = {**known.about, **_checked(about)}
    reports, failed, damaged = work.end(
        about, also_here=_others(work.kept.directory, node, known))
    if failed is not None:
        why = why_without(failed) + (_why_no_start(work.kept.directory, known)
                                     if isinstance(failed, NoStart) else "")
        message = work.without_numbers(why, about)
        at = work.kept.delta_path(message["seq"])
        reports[at] = message
        try:
            work.kept.keep_delta(message["seq"], json.dumps(message).encode())
        except StateError as error:
            say(str(error))
    for at, report in reports.items():
        if not os.path.exists(at):                          # the disk is full: now or never
            try:
                _Site(config, say, config["node.hook_timeout"]).send(
                    report, config["node.hook_timeout"])
            except IostatsError as error:
                say(str(error))
                return failed or damaged                    # its start stands, see _why_it_is_over
    if not isinstance(failed, NoStart):
        work.kept.forget_start()
    private_files.forget(path)
    return failed or damaged


def deliver(config: Config, root: str, node: str, until: float, say: Callable[[str], None],
            now: Callable[[], float] = time.time, lost: list[str] | None = None) -> int:
    """
    Send all reports that wait on this node, the oldest first, until time.monotonic() is `until`.

    How many wait still; paths of those that were refused, or removed unsent, are added to `lost`.
    Starts whose epilog will not come any more are reported as well.
    """
    from iostats.base import strict_json
    directory, lost = config["node.hook_dir"], [] if lost is None else lost
    # What another user can put there would be sent by root.
    private_files.check_private(directory, start_files.BY_HOOK_DIR)
    _reap(config, root, now, say)
    waiting = _waiting(directory)
    for path in waiting[:-_MOST_WAITING]:
        say(f"{path}: removed unsent: more than {_MOST_WAITING} reports wait here")
        private_files.forget(path)
        lost.append(path)
    waiting, left_here = waiting[-_MOST_WAITING:], 0
    again = _refused_before(directory, now())
    if not waiting and not again:
        return 0
    try:
        site = _Site(config, say, until - time.monotonic())
    except IostatsError as error:
        say(f"{error}; {len(waiting)} reports wait in {directory}")
        return len(waiting)
    for number, path in enumerate(waiting + again):
        still = max(0, len(waiting) - number) + left_here
        left_s = until - time.monotonic()
        if left_s <= 0:
            if still:
                say(f"no time is left to send reports; {still} wait in {directory} ([node] "
                    f"hook_timeout)")
            return still
        try:
            text = read_text(path)
            report = strict_json.loads(text.encode("latin-1"))
            if len(text) + _AROUND > config["server.max_message_bytes"]:
                raise ValueError("it is larger than a message may be (site.cfg: [server] "
                                 "max_message_bytes)")
            if (not isinstance(report, dict) or not isinstance(report.get("node"), str)
                    or not is_node_name(report["node"])):
                raise ValueError("it is not of the form of a report")
        except FileNotFoundError:                           # another epilog is faster
            continue
        except OSError as error:
            say(f"{path}: cannot be read: {error.strerror}")
            left_here += path not in again
            continue
        except (ValueError, RecursionError) as error:
            _put_aside(path, f"cannot be sent: {error}", say)
            lost += {path}.difference(again)
            continue
        try:
            over = site.send(report, left_s)
        except NotDelivered as error:
            code = getattr(error, "code", None)
            if code in _NOT_NOW:
                _put_aside(path, str(error), say)
                lost += {path}.difference(again)
                continue
            if still:
                say(f"{error}; {still} reports wait in {directory}")
            if code != _ITS_OWN:
                return still
            left_here += path not in again      # those behind it need not wait for it
            continue
        try:
            private_files.forget(path)
        except OSError as error:                     # the server knows it when it comes again
            say(f"{path}: was sent, and cannot be removed: {private_files.why(error)}")
            left_here += path not in again
        if over:
            _give_up_some(config, root, directory, report["node"], over, say)
    return left_here


def _others(directory: str, node: str, known: _Job) -> dict[str, Any]:
    """Of the other jobs on the node, for the report: how many, and which have had no epilog."""
    starts = set(_starts(directory))
    named: list[dict[str, Any]] = []
    for stem in sorted(known.others):
        since = known.gone.get(stem)
        if stem in starts:
            since = None if _why_it_is_over(directory, stem) else _since(directory, stem)
        job, attempt = _run_of(stem, node)
        if job and since is not None and len(named) < _MOST_OTHERS:
            named.append({"job": job, "attempt": attempt, "since": since})
    return {"other_jobs": len(known.others), **({"others": named} if named else {})}


def _give_up_some(config: Config, root: str, directory: str, node: str, over: list[Any],
                  say: Callable[[str], None]) -> None:
    """Forget the starts of which the site's server says that their jobs have ended."""
    over = [one for one in over[:_MOST_OTHERS] if isinstance(one, dict)]
    for stem in _starts(directory):
        job, attempt = _run_of(stem, node)
        run = {"job": job, "attempt": attempt, "since": _since(directory, stem)}
        if job and run in over and not _why_it_is_over(directory, stem):
            _give_up(config, root, directory, stem, NO_EPILOG, say)


def _run_of(stem: str, node: str) -> tuple[str, int]:
    """(job, attempt) of a start on this node; ("", 0) where its name does not tell."""
    first, *rest = stem.split("%")
    try:
        data = first.encode() + b"".join(bytes.fromhex(part[:2]) + part[2:].encode()
                                         for part in rest)
        key = data.decode("utf-8", "surrogatepass")[:-len(node) - 1]
    except ValueError:
        return "", 0
    if as_filename(key, node) != stem:                      # too long, or of another node
        return "", 0
    job, restarted, attempt = key.rpartition("#")
    return (job, int(attempt)) if restarted and attempt.isdigit() else (key, 0)


def _since(directory: str, stem: str) -> int | None:
    """When the prolog kept a start, in whole seconds since 1970."""
    try:
        return int(os.lstat(os.path.join(directory, stem + ".start")).st_mtime)
    except OSError:
        return None


def _why_no_start(directory: str, known: _Job) -> str:
    """": " and why a job has no start here, as far as that can be told by now."""
    if known.why:
        return f": {known.why}"[:400]
    try:
        path = os.path.join(directory, f"try.{os.urandom(8).hex()}.new")
        private_files.write_whole(path, b" " * 4096)
        private_files.forget(path)
    except OSError as error:
        return f": {directory}: {error.strerror}"[:400]
    return ": its prolog has not run here, or could not keep one"


class _Site:
    """The site's server; NotDelivered or StateError where it can't be asked."""

    def __init__(self, config: Config, say: Callable[[str], None], within_s: float) -> None:
        from iostats.wire import auth, client, protocol
        self._host, self._port = client.site_server(config)
        self._name = protocol.SITE
        self._last_path = os.path.join(config["node.hook_dir"], _LAST_AUTH)
        self._last = _text_of(self._last_path)
        order = sorted(config["server.auth"], key=lambda word: word != self._last)
        self._signs = auth.with_timeout(within_s, "credentials", lambda: auth.client_credentials(
            {**config, "server.auth": order}, protocol.SITE, config["site.secret"], say,
            munged_within_s=within_s * _OF_MUNGED))
        first = "secret" if isinstance(self._signs[0], auth.Secret) else "munge"
        self._worked = "" if first == config["server.auth"][0] else first

    def send(self, report: dict[str, Any], within_s: float) -> list[Any]:
        """Send one report, in one try; which starts on its node are over, by the answer."""
        from iostats.wire import auth, client
        answer = auth.with_timeout(within_s, f"answer of {self._host}", lambda: client.call(
            self._host, self._port, self._name, self._signs, report["node"], "report", report,
            within_s))
        if self._worked != self._last:                      # an epilog has no time to find out
            self._last = self._worked
            try:
                if self._worked:
                    private_files.write_whole(self._last_path, self._worked.encode())
                else:
                    private_files.forget(self._last_path)
            except OSError:
                pass
        over = answer.get("over") if isinstance(answer, dict) else None
        return over if isinstance(over, list) else []


def _text_of(path: str) -> str:
    try:
        return read_text(path)
    except OSError:
        return ""


def _put_aside(path: str, why: str, say: Callable[[str], None]) -> None:
    """A report that was refused waits for a day; that it was refused again is not said."""
    try:
        os.utime(path)
        if not path.endswith(".refused"):
            say(f"{path}: {why}; the report is put aside, and tried again once a day: "
                f"{path}.refused")
            os.replace(path, path + ".refused")
    except FileNotFoundError:
        pass
    except OSError as error:                                # those behind it need not wait for it
        say(f"{path}: cannot be put aside: {error.strerror}")


def _work(config: Config, root: str, node: str, job: str, about: dict[str, Any],
          say: Callable[[str], None]) -> Work:
    attempt = _checked(about).get("attempt", 0)
    return Work(config, root, node, f"{job}#{attempt}" if attempt else job, say,
                config["node.hook_dir"], job)


def _attempt_that_ends(directory: str, node: str, job: str, about: dict[str, Any]) -> int:
    """
    Which run of a job its epilog is of: the last one that began here.

    Slurm counts a restart before it runs the epilogs of what it has stopped (measured with 22.05:
    prolog 0, epilog 1, prolog 1, epilog 1).
    """
    last: int = _checked(about).get("attempt", 0)
    begun: set[int] = set()
    for stem in _starts(directory):
        text = stem.partition(as_filename(job) + "%23")[2].partition("%20")[0]
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else 0
        if number <= last and stem == as_filename(f"{job}#{number}" if number else job, node):
            begun.add(number)
    return max(begun, default=last)


def _waiting(directory: str) -> list[str]:
    """Paths of the reports that wait, the oldest first."""
    found = []
    for name in _names(directory):
        if name.endswith(".delta"):
            path = os.path.join(directory, name)
            try:
                found.append((os.lstat(path).st_mtime, path))
            except OSError:
                continue
    return [path for _, path in sorted(found)]


def _refused_before(directory: str, now: float) -> list[str]:
    """Paths of some reports that were refused a day ago or more; the oldest of too many go."""
    found = []
    for name in _names(directory):
        if name.endswith(".refused"):
            path = os.path.join(directory, name)
            try:
                found.append((os.lstat(path).st_mtime, path))
            except OSError:
                continue
    found.sort()
    for _, path in found[:-_MOST_REFUSED]:
        try:
            private_files.forget(path)
        except OSError:
            continue
    # A clock that was set back is as good as a day.
    return [path for at, path in found[-_MOST_REFUSED:]
            if abs(now - at) >= _AGAIN_S][:_AGAIN_AT_ONCE]


def _reap(config: Config, root: str, now: Callable[[], float], say: Callable[[str], None]) -> None:
    """
    What nobody comes for any more: starts are told as nodes without numbers, old pieces go.

    A start says itself when it is over, by its boot: a clock that is ahead proves nothing.
    """
    directory = config["node.hook_dir"]
    for stem in _starts(directory):
        why = _why_it_is_over(directory, stem, now())
        if why:
            _give_up(config, root, directory, stem, why, say)
    starts = set(_starts(directory))
    for name in _names(directory):
        if not name.endswith((".delta", ".refused")) and name.partition(".")[0] not in starts:
            path = os.path.join(directory, name)
            try:
                if now() - os.lstat(path).st_mtime > _FORGOTTEN_S:
                    private_files.forget(path)
            except OSError:
                continue


def _why_it_is_over(directory: str, stem: str, now: float | None = None) -> str:
    """
    Why no epilog will come any more for a start, "" if one may; with `now`, also why one that
    has come will not end.
    """
    path = os.path.join(directory, stem + ".start")
    job = os.path.join(directory, stem + ".job")
    over = _read(job).over
    if over is not None:
        # By the time since boot, which nobody sets; less than then: the node was booted.
        since_s = this_node.seconds_since_boot() - over
        return CUT_OFF if now is None or not 0 <= since_s <= _CUT_OFF_S else ""
    booted_at = time.time() - this_node.seconds_since_boot()
    try:
        if os.lstat(path).st_mtime > booted_at - 1:
            return ""
        boot_id = snapshots.decode(read_text(path).encode("latin-1"), path).boot_id
    except (OSError, StateError):                           # its epilog will say so
        return ""
    # A clock that was set tells another time of the boot, but not another boot.
    return BOOTED if boot_id != this_node.boot_id() else ""


def _give_up(config: Config, root: str, directory: str, stem: str, why: str,
             say: Callable[[str], None]) -> None:
    """Forget a start; its node is told to have no numbers."""
    import json
    path = os.path.join(directory, stem + ".start")
    try:
        start = snapshots.decode(read_text(path).encode("latin-1"), path)
    except FileNotFoundError:                               # another one was faster
        return
    except (OSError, StateError) as error:
        say(str(error))
        _forget(directory, stem)
        return
    about = _read(os.path.join(directory, stem + ".job")).about
    job, restarted, attempt = start.job.rpartition("#")
    if not restarted or not attempt.isdigit():
        job = start.job
    work = Work(config, root, start.node, start.job, say, directory, job)
    # With the start's own name: what an epilog has kept before it was ended stands.
    message = {**work.without_numbers(why, about), "seq": start.seq}
    since = _since(directory, stem)
    for other in _starts(directory) if why == NO_EPILOG and since is not None else ():
        if other != stem:
            _append(os.path.join(directory, other + ".job"), f"was={since} {stem}\n", say)
    try:
        if not os.path.exists(work.kept.delta_path(start.seq)):
            work.kept.keep_delta(start.seq, json.dumps(message).encode())
        _forget(directory, stem)
    except StateError as error:
        say(str(error))                                     # the disk is full; later


def _forget(directory: str, stem: str) -> None:
    for name in _names(directory):
        if name.startswith(stem + ".") and not name.endswith((".delta", ".refused")):
            private_files.forget(os.path.join(directory, name))


# -- the job's file --------------------------------------------------------------------------

def _job_path(kept: State) -> str:
    return kept.start_path[:-len(".start")] + ".job"


def _stem(path: str) -> str:
    return os.path.basename(path)[:-len(".start")]


def _starts(directory: str) -> list[str]:
    """Stems of the jobs whose prolog has been on this node, and not their epilog."""
    return [name[:-len(".start")] for name in _names(directory) if name.endswith(".start")]


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


def _checked(about: dict[str, Any]) -> dict[str, Any]:
    """What of `about` can stand in a report, and in a line of a file."""
    found = {}
    for name, longest in _LONGEST.items():
        value = about.get(name)
        if longest is None:
            if isinstance(value, int) and 0 <= value <= _LARGEST:
                found[name] = value
        elif value and value.isprintable() and len(value) <= longest:
            found[name] = value
    return found


def _write(path: str, about: dict[str, Any]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in about.items())
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC,
                     0o600)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _append(path: str, line: str, say: Callable[[str], None]) -> None:
    """One line more, if the file is there: its job may have gone."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
    except FileNotFoundError:
        pass
    except OSError as error:
        say(f"{path}: cannot be written: {error.strerror}")


_Job = namedtuple("_Job", "about others over why gone", defaults=("", {}))


def _read(path: str) -> _Job:
    """
    The _Job of a file: its `about`, the other jobs, when its epilog began, or None, why its
    prolog kept no start, or "", and {other job whose start was given up: since when it was there}.
    """
    about: dict[str, Any] = {}
    others: set[str] = set()
    gone: dict[str, int] = {}
    over: float | None = None
    why = ""
    try:
        text = read_text(path).encode("latin-1").decode("utf-8", "replace")
    except OSError:
        return _Job(about, others, over)
    for line in text.split("\n")[:-1]:
        name, _, value = line.partition("=")
        if name == "other":
            others.add(value)
        elif name == "over":
            over = float(value) if value.isascii() and value.isdigit() else 0.0
        elif name == "was":
            since, _, stem = value.partition(" ")
            if since.isascii() and since.isdigit() and len(since) < 12:
                gone[stem] = int(since)
        elif name == "why" and value.isprintable():
            why = value
        elif name in _LONGEST:
            is_number = _LONGEST[name] is None and value.isascii() and value.isdigit()
            about[name] = int(value) if is_number and len(value) < 12 else value
    return _Job(_checked(about), others, over, why, gone)
